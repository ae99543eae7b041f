/* spool: see spool.h. One buffer for all: a shim runs one job at a time. A write error is kept as dropped bytes, never
 * as a failed job. */
#include "exec/spool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/plant.h"

static char spool_space[64 << 10];

void spool_open(struct spool *spool, int fd, uint64_t bytes_max)
{
    spool->fd = fd;
    spool->bytes_max = bytes_max;
    spool->bytes = spool->kept = spool->dropped = 0;
    mask_set(&spool->mask, (struct str){ 0 });
}

static size_t spool_write(struct spool *spool, const char *ptr, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(spool->fd, ptr + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    spool->bytes += done;
    return done;
}

static void spool_keep(void *owner, struct str bytes)
{
    struct spool *spool = owner;
    uint64_t room = spool->bytes_max - spool->kept;
    size_t take = spool->dropped > 0 ? 0 : room < bytes.len ? (size_t)room : bytes.len; /* no bytes after a hole */
    size_t done = take > 0 ? spool_write(spool, bytes.ptr, take) : 0;
    spool->kept += done;
    spool->dropped += bytes.len - done;
}

void spool_add(struct spool *spool, struct str bytes)
{
    mask_add(&spool->mask, bytes, spool_keep, spool);
}

void spool_note(struct spool *spool, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0)
        spool_write(spool, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

enum spool_pumped spool_pump(struct spool *spool, int pipe_fd, size_t bytes_max)
{
    for (size_t taken = 0; taken < bytes_max;) {
        ssize_t n = read(pipe_fd, spool_space, sizeof spool_space);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN ? SPOOL_NOTHING : SPOOL_END;
        spool_add(spool, (struct str){ spool_space, (size_t)n });
        taken += (size_t)n;
    }
    return SPOOL_MORE;
}

void spool_close(struct spool *spool)
{
    mask_end(&spool->mask, spool_keep, spool);
    if (spool->dropped > 0 && !PLANT(log_unmarked))
        spool_note(
            spool, "\n[weir: log cut at %" PRIu64 " bytes, %" PRIu64 " bytes dropped]\n", spool->kept, spool->dropped);
}
