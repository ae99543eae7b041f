/* logs/port: the way from the functions of logs.h to the place where the logs are: files (logs.c) or PostgreSQL
 * (postgres/logs.c). Checks what is wrong wherever they are: an offset, a task or a grant below zero. */
#include "store/logs/port.h"

#include <inttypes.h>
#include <string.h>

static bool key_check(int64_t task, int64_t grant, int64_t offset, struct err *err)
{
    if (offset < 0)
        return err_set(err, ERR_invalid, "offset %" PRId64 " is below zero", offset);
    if (task < 0 || grant < 0)
        return err_set(err, ERR_invalid, "there is no log of task %" PRId64 ", grant %" PRId64, task, grant);
    return true;
}

void seal_queue_init(struct seal_queue *queue)
{
    *queue = (struct seal_queue){ 0 };
    buf_init(&queue->items, SIZE_MAX);
}

void seal_queue_listen(struct seal_queue *queue, void (*told)(void *owner), void *owner)
{
    queue->told = told;
    queue->owner = owner;
    if (told && queue->items.len > 0)
        told(owner);
}

void seal_queue_add(struct seal_queue *queue, const struct log_sealed *sealed)
{
    bool first = queue->items.len == 0;
    buf_add(&queue->items, sealed, sizeof *sealed);
    if (first && queue->told)
        queue->told(queue->owner);
}

size_t seal_queue_first(const struct seal_queue *queue, struct log_sealed *out, size_t max)
{
    size_t n = queue->items.len / sizeof *out;
    n = n < max ? n : max;
    if (n > 0)
        memcpy(out, queue->items.ptr, n * sizeof *out);
    return n;
}

bool seal_queue_drop(struct seal_queue *queue, size_t n)
{
    size_t bytes = n * sizeof(struct log_sealed);
    ASSERT(bytes <= queue->items.len);
    if (n > 0)
        memmove(queue->items.ptr, queue->items.ptr + bytes, queue->items.len - bytes);
    queue->items.len -= bytes;
    return queue->items.len > 0;
}

void logs_close(struct logs *logs)
{
    if (logs)
        logs->ops->close(logs);
}

bool logs_append(struct logs *logs, int64_t task, int64_t grant, int64_t offset, struct str bytes,
    struct log_position *out, struct err *err)
{
    return key_check(task, grant, offset, err) && logs->ops->append(logs, task, grant, offset, bytes, out, err);
}

bool logs_size(struct logs *logs, int64_t task, int64_t grant, int64_t *out_bytes, struct err *err)
{
    return key_check(task, grant, 0, err) && logs->ops->size(logs, task, grant, out_bytes, err);
}

bool logs_read(
    struct logs *logs, int64_t task, int64_t grant, int64_t offset, size_t max, struct buf *out, struct err *err)
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

void logs_lost(struct logs *logs, int64_t task, int64_t grant)
{
    logs->ops->lost(logs, task, grant);
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

void logs_on_seal(struct logs *logs, void (*sealed)(void *owner), void *owner)
{
    logs->ops->on_seal(logs, sealed, owner);
}

size_t logs_sealed(struct logs *logs, struct log_sealed *out, size_t max)
{
    return logs->ops->sealed(logs, out, max);
}

bool logs_noted(struct logs *logs, const struct log_sealed *sealed, size_t n)
{
    return logs->ops->noted(logs, sealed, n);
}

uint64_t logs_frames_unpacked(struct logs *logs)
{
    return logs->ops->frames_unpacked(logs);
}
