/* bytes_copy: logs and kept files go along with the store that is copied, from and to wherever either keeps them. See
 * copy.h.
 *
 * Promises that all of them are at the target, and durable, when it returns true: each log to its last byte, each file
 * with the bytes that its name says. What is there already isn't written again. Fails like the places it reads and
 * writes; ERR_corrupt names a log or a file that isn't whole. */
#include <inttypes.h>
#include <string.h>

#include "store/copy.h"
#include "store/logs/copy.h"

enum { STEP_BYTES = 1 << 20, LOGS_AT_ONCE = 1000, ANY_AGE_S = -1000 };

static bool chunk_put(struct logs *to, const struct log_listed *log, int64_t offset, struct str bytes, struct err *err)
{
    struct log_position position;
    struct err why = { 0 };
    if (logs_append(to, log->task, log->grant, offset, bytes, &position, &why))
        return true;
    if (why.code != ERR_unavailable)
        return err_set(err, why.code, "%s", why.text);
    logs_wait(to); /* much was waiting */
    return logs_append(to, log->task, log->grant, offset, bytes, &position, err);
}

static bool log_copy(
    struct logs *from, struct logs *to, const struct log_listed *log, struct buf *step, struct err *err)
{
    int64_t size;
    if (!logs_size(from, log->task, log->grant, &size, err))
        return false;
    for (int64_t offset = 0; offset < size; offset += (int64_t)step->len) {
        buf_reset(step);
        if (!logs_read(from, log->task, log->grant, offset, STEP_BYTES, step, err))
            return false;
        if (step->len == 0)
            return err_set(err, ERR_corrupt, "the log of task %" PRId64 ", grant %" PRId64 " has a hole at %" PRId64,
                log->task, log->grant, offset);
        if (!chunk_put(to, log, offset, buf_str(step), err))
            return false;
    }
    if (log->sealed)
        logs_seal(to, log->task, log->grant);
    return true;
}

bool logs_copy_all(struct logs *from, const struct buf *listed, struct logs *to, struct err *err)
{
    struct buf step;
    bool ok = true;
    size_t n = listed->len / sizeof(struct log_listed);
    buf_init(&step, STEP_BYTES + 1);
    for (size_t i = 0; ok && i < n; i++) {
        struct log_listed log;
        memcpy(&log, listed->ptr + i * sizeof log, sizeof log);
        ok = log_copy(from, to, &log, &step, err);
        if ((i + 1) % LOGS_AT_ONCE == 0)
            logs_wait(to);
    }
    logs_wait(to);
    buf_release(&step);
    return ok;
}

static bool blob_copy(struct blobs *from, struct blobs *to, const char *hex, struct buf *step, struct err *err)
{
    static const struct upload upload = { .name = "copy" };
    struct blob kept;
    int64_t offset = 0;
    if (!blobs_append(to, &upload, 0, (struct str){ 0 }, INT64_MAX, err))
        return false;
    do {
        buf_reset(step);
        if (!blobs_read(from, hex, offset, STEP_BYTES, step, err) ||
            !blobs_append(to, &upload, offset, buf_str(step), INT64_MAX, err))
            return false;
        offset += (int64_t)step->len;
    } while (step->len > 0);
    if (!blobs_seal(to, &upload, &kept, err))
        return false;
    return str_eqz(str_of(hex), kept.hex) || err_set(err, ERR_corrupt, "the kept file %s has other bytes", hex);
}

/* Nothing is swept: it is the way to see every name. */
static bool name_note(const char *hex, void *owner)
{
    buf_add(owner, hex, BLOB_HEX + 1);
    return true;
}

bool blobs_copy_all(struct blobs *from, struct blobs *to, struct err *err)
{
    struct buf names, step;
    bool ok = true;
    buf_init(&names, SIZE_MAX);
    buf_init(&step, STEP_BYTES + 1);
    blobs_sweep(from, ANY_AGE_S, name_note, &names);
    for (size_t at = 0; ok && at < names.len; at += BLOB_HEX + 1)
        ok = blob_copy(from, to, names.ptr + at, &step, err);
    buf_release(&step);
    buf_release(&names);
    return ok;
}
