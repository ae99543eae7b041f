/* logs_port: the way from the functions of logs.h to the place where the logs are: files (logs.c) or PostgreSQL (postgres/logs.c). Checks
 * what is wrong wherever they are: an offset, a task or a grant below zero. */
#include "store/logs_port.h"

#include <inttypes.h>

static bool key_check(int64_t task, int64_t grant, int64_t offset, struct err *err)
{
    if (offset < 0)
        return err_set(err, ERR_invalid, "offset %" PRId64 " is below zero", offset);
    if (task < 0 || grant < 0)
        return err_set(err, ERR_invalid, "there is no log of task %" PRId64 ", grant %" PRId64, task, grant);
    return true;
}

void logs_close(struct logs *logs)
{
    if (logs)
        logs->ops->close(logs);
}

bool logs_append(
    struct logs *logs, int64_t task, int64_t grant, int64_t offset, struct str bytes, struct log_position *out, struct err *err)
{
    return key_check(task, grant, offset, err) && logs->ops->append(logs, task, grant, offset, bytes, out, err);
}

bool logs_size(struct logs *logs, int64_t task, int64_t grant, int64_t *out_bytes, struct err *err)
{
    return key_check(task, grant, 0, err) && logs->ops->size(logs, task, grant, out_bytes, err);
}

bool logs_read(struct logs *logs, int64_t task, int64_t grant, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    return key_check(task, grant, offset, err) && logs->ops->read(logs, task, grant, offset, max, out, err);
}

void logs_remove(struct logs *logs, int64_t task, int64_t grant)
{
    logs->ops->remove(logs, task, grant);
}

void logs_seal(struct logs *logs, int64_t task, int64_t grant)
{
    logs->ops->seal(logs, task, grant);
}

void logs_expect(struct logs *logs, int64_t task, int64_t grant, int64_t bytes)
{
    if (logs->ops->expect)
        logs->ops->expect(logs, task, grant, bytes);
}

void logs_each_open(struct logs *logs, void (*each)(void *owner, int64_t task, int64_t grant), void *owner)
{
    logs->ops->each_open(logs, each, owner);
}

bool logs_each(struct logs *logs, bool (*each)(void *owner, int64_t task, int64_t grant), void *owner, struct err *err)
{
    return logs->ops->each(logs, each, owner, err);
}

void logs_wait(struct logs *logs)
{
    logs->ops->wait(logs);
}

void logs_on_sync(struct logs *logs, void (*synced)(void *owner), void *owner)
{
    logs->ops->on_sync(logs, synced, owner);
}

uint64_t logs_frames_unpacked(struct logs *logs)
{
    return logs->ops->frames_unpacked(logs);
}
