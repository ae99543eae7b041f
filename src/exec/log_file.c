/* log_file: see log_file.h. One static buffer: a shim runs one job at a time. A write error counts as dropped bytes and
 * never fails the job. */
#include "exec/log_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/plant.h"

static char log_file_space[64 << 10];

void log_file_open(struct log_file *log, int fd, uint64_t bytes_max)
{
    log->fd = fd;
    log->bytes_max = bytes_max;
    log->bytes = log->kept = log->dropped = 0;
    mask_set(&log->mask, (struct str){ 0 });
}

static size_t log_file_write(struct log_file *log, const char *ptr, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(log->fd, ptr + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    log->bytes += done;
    return done;
}

static void log_file_keep(void *owner, struct str bytes)
{
    struct log_file *log = owner;
    ASSERT(log->kept <= log->bytes_max);
    uint64_t room = log->bytes_max - log->kept;
    size_t take = log->dropped > 0 ? 0 : room < bytes.len ? (size_t)room : bytes.len; /* no bytes after a hole */
    size_t done = take > 0 ? log_file_write(log, bytes.ptr, take) : 0;
    log->kept += done;
    log->dropped += bytes.len - done;
}

void log_file_add(struct log_file *log, struct str bytes)
{
    mask_add(&log->mask, bytes, log_file_keep, log);
}

void log_file_note(struct log_file *log, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0)
        log_file_write(log, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

enum log_file_pumped log_file_pump(struct log_file *log, int pipe_fd, size_t bytes_max)
{
    for (size_t taken = 0; taken < bytes_max;) {
        ssize_t n = read(pipe_fd, log_file_space, sizeof log_file_space);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN ? LOG_FILE_NOTHING : LOG_FILE_END;
        log_file_add(log, (struct str){ log_file_space, (size_t)n });
        taken += (size_t)n;
    }
    return LOG_FILE_MORE;
}

void log_file_close(struct log_file *log)
{
    mask_end(&log->mask, log_file_keep, log);
    if (PLANT(log_unmarked))
        return;
    if (log->dropped > 0)
        log_file_note(
            log, "\n[weir: log cut at %" PRIu64 " bytes, %" PRIu64 " bytes dropped]\n", log->kept, log->dropped);
}
