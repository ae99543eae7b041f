/* logs: logs of attempts in PostgreSQL, for every server that shares the store. See logs.h and bytes.h.
 *
 * Appended bytes wait in memory (`stored`) until the writer's thread has committed them (`durable`; logs_write.c).
 * Readers of this server see both, readers of other servers only durable bytes. Another server may have received bytes
 * of the same log: if an append doesn't fit what this server knows, the database is asked, and the writer appends only
 * to what the database has.
 *
 * Promises: the offset rules of logs.h; waiting bytes are bounded (WAITING_MAX: ERR_unavailable, the sender repeats);
 * bytes that the database refused are dropped, and the next append fails with ERR_outcome_unknown. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "store/files.h"
#include "store/logs/copy.h"
#include "store/logs/seek.h"
#include "store/postgres/bytes.h"

enum {
    KNOWN_MAX = 1024,
    WAITING_MAX = 64 << 20,
    READ_STEP = 1 << 20,
    COMPARE_BYTES = 64 << 10,
    LIST_PAGE = 1000,
    EACH_PAGE = 256
};

static struct pg_logs *logs_of(struct logs *port)
{
    return (struct pg_logs *)(void *)port;
}

static struct str key_view(const struct log_key *key)
{
    return (struct str){ (const char *)key, sizeof *key };
}

static bool key_listed(const struct buf *list, struct log_key key)
{
    for (size_t at = 0; at < list->len; at += sizeof key)
        if (memcmp(list->ptr + at, &key, sizeof key) == 0)
            return true;
    return false;
}

static bool log_removed(const struct pg_logs *self, struct log_key key)
{
    return key_listed(&self->removals, key) || key_listed(&self->removals_flight, key);
}

static bool log_waits(const struct pg_log *log)
{
    return log->flight.len + log->fresh.len > 0;
}

/* Where its attempt said that it ends, if it isn't there yet; NULL: it isn't known to have ended. */
static struct log_end *end_find(const struct pg_logs *self, struct log_key key)
{
    for (size_t at = 0; at < self->ends.len; at += sizeof(struct log_end)) {
        struct log_end *end = (struct log_end *)(void *)(self->ends.ptr + at);
        if (end->key.task == key.task && end->key.grant == key.grant)
            return end;
    }
    return NULL;
}

static void end_forget(struct pg_logs *self, struct log_end *end)
{
    self->ends.len -= sizeof *end;
    *end = *(struct log_end *)(void *)(self->ends.ptr + self->ends.len);
}

/* --- what the database has; under `io` --- */

static bool stored_get(struct pg_logs *self, struct log_key key, int64_t *out_bytes, bool *out_sealed, struct err *err)
{
    PGresult *result;
    if (!bytes_ask(&self->reader, SQL_log_get, PG_ARGS(NUM(key.task), NUM(key.grant)), &result, err))
        return false;
    bool found = PQntuples(result) > 0;
    *out_bytes = found ? cell_i64(result, 0, 0) : 0;
    *out_sealed = found && cell_i64(result, 0, 1);
    return true;
}

/* Bytes from offset up to end, which the database is known to have, or fewer when it has fewer. */
static bool stored_read(
    struct pg_logs *self, struct log_key key, int64_t offset, int64_t end, struct buf *out, struct err *err)
{
    while (offset < end) {
        PGresult *result;
        int64_t before = offset;
        if (!bytes_ask(&self->reader, SQL_log_read,
                PG_ARGS(NUM(key.task), NUM(key.grant), NUM(offset),
                    NUM(end - offset < READ_STEP ? end : offset + READ_STEP)),
                &result, err))
            return false;
        for (int i = 0; i < PQntuples(result); i++) {
            struct str bytes = cell_view(result, i, 1);
            if (bytes.len > 0 && cell_i64(result, i, 0) != offset)
                return err_set(err, ERR_corrupt,
                    "the log of task %" PRId64 ", grant %" PRId64 " has a hole at %" PRId64, key.task, key.grant,
                    offset);
            buf_add_str(out, bytes);
            offset += (int64_t)bytes.len;
        }
        if (offset == before)
            break;
    }
    return !out->full || err_set(err, ERR_internal, "no room for the log of task %" PRId64, key.task);
}

/* --- reading --- */

static bool log_read(
    struct pg_logs *self, struct log_key key, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    int64_t end = (int64_t)max < INT64_MAX - offset ? offset + (int64_t)max : INT64_MAX, durable = end;
    struct buf memory;
    buf_init(&memory, SIZE_MAX);
    pthread_mutex_lock(&self->lock);
    bool removed = log_removed(self, key);
    const struct pg_log *log = smap_find(&self->logs, key_view(&key));
    if (log && log_waits(log)) {
        const struct buf *parts[] = { &log->flight, &log->fresh };
        int64_t at = durable = log->durable;
        for (size_t i = 0; i < 2; at += (int64_t)parts[i++]->len) {
            int64_t from = offset > at ? offset - at : 0, to = end > at ? end - at : 0;
            buf_add_str(&memory, str_sub(buf_str(parts[i]), (size_t)from, (size_t)to));
        }
    }
    pthread_mutex_unlock(&self->lock);
    bool ok = removed || stored_read(self, key, offset, durable < end ? durable : end, out, err);
    if (ok && !removed)
        buf_add_str(out, buf_str(&memory));
    buf_release(&memory);
    return ok;
}

static bool pg_size(struct logs *port, int64_t task, int64_t grant, int64_t *out_bytes, struct err *err)
{
    struct pg_logs *self = logs_of(port);
    struct log_key key = { task, grant };
    bool ok = true, sealed;
    pthread_mutex_lock(&self->io);
    pthread_mutex_lock(&self->lock);
    const struct pg_log *log = smap_find(&self->logs, key_view(&key));
    int64_t size = log_removed(self, key) ? 0 : log && log_waits(log) ? log->size : -1;
    pthread_mutex_unlock(&self->lock);
    if (size < 0)
        ok = stored_get(self, key, &size, &sealed, err);
    pthread_mutex_unlock(&self->io);
    if (ok && size == 0 && self->files)
        return logs_size(self->files, task, grant, out_bytes, err);
    *out_bytes = size;
    return ok;
}

static bool pg_read(
    struct logs *port, int64_t task, int64_t grant, int64_t offset, size_t max, struct buf *out, struct err *err)
{
    struct pg_logs *self = logs_of(port);
    size_t before = out->len;
    pthread_mutex_lock(&self->io);
    bool ok = log_read(self, (struct log_key){ task, grant }, offset, max, out, err);
    pthread_mutex_unlock(&self->io);
    if (ok && out->len == before && self->files)
        return logs_read(self->files, task, grant, offset, max, out, err);
    return ok;
}

/* --- appending; under `io`, and `lock` unless said otherwise --- */

static void log_free(struct pg_log *log)
{
    buf_release(&log->flight);
    buf_release(&log->fresh);
    mem_free(log);
}

static void log_forget_idle(struct pg_logs *self)
{
    for (struct list_node *node = self->recent.first, *next; node && self->recent.n >= KNOWN_MAX; node = next) {
        struct pg_log *log = CONTAINER_OF(node, struct pg_log, recent);
        next = node->next;
        if (log_waits(log) || log->failed)
            continue;
        smap_take(&self->logs, key_view(&log->key));
        list_remove(&self->recent, node);
        log_free(log);
    }
}

static struct pg_log *log_get(struct pg_logs *self, struct log_key key)
{
    struct pg_log *log = smap_find(&self->logs, key_view(&key));
    if (log) {
        list_remove(&self->recent, &log->recent);
    } else {
        log_forget_idle(self);
        log = mem_alloc_zero(sizeof *log);
        log->key = key;
        logs_sum_begin(log);
        buf_init(&log->flight, SIZE_MAX);
        buf_init(&log->fresh, SIZE_MAX);
        smap_put(&self->logs, key_view(&log->key), log);
    }
    list_append(&self->recent, &log->recent);
    return log;
}

/* What the database has, if that may be other than what is known here. Lets go of `lock`. */
static bool log_refresh(struct pg_logs *self, struct pg_log *log, int64_t offset, struct err *err)
{
    int64_t bytes;
    bool sealed;
    if (log->failed || log_waits(log) || (log->known && offset == log->size && !log->sealed))
        return true;
    pthread_mutex_unlock(&self->lock);
    bool ok = stored_get(self, log->key, &bytes, &sealed, err);
    pthread_mutex_lock(&self->lock);
    if (!ok)
        return false;
    if (!log->known || bytes != log->size)
        log->tail_len = 0;
    log->known = true;
    log->size = log->durable = bytes;
    log->sealed |= sealed;
    return true;
}

/* Lets go of `lock`. */
static bool log_compare(struct pg_logs *self, struct log_key key, int64_t offset, struct str bytes, struct err *err)
{
    struct buf piece;
    bool ok = true;
    buf_init(&piece, COMPARE_BYTES + 1);
    pthread_mutex_unlock(&self->lock);
    for (size_t at = 0; ok && at < bytes.len; at += COMPARE_BYTES) {
        struct str part = str_sub(bytes, at, at + COMPARE_BYTES);
        buf_reset(&piece);
        ok = log_read(self, key, offset + (int64_t)at, part.len, &piece, err);
        if (ok && !str_eq(part, buf_str(&piece)))
            ok = err_set(err, ERR_log_mismatch, "other bytes are stored within %zu bytes from offset %" PRId64,
                part.len, offset + (int64_t)at);
    }
    pthread_mutex_lock(&self->lock);
    buf_release(&piece);
    return ok;
}

static bool log_told_failure(struct pg_log *log, struct err *err)
{
    if (!log->failed)
        return false;
    log->failed = log->known = false;
    err_set(err, ERR_outcome_unknown, "the database failed to keep the log of task %" PRId64 " from offset %" PRId64,
        log->key.task, log->durable);
    return true;
}

static void seal_note(struct pg_logs *self, struct log_key key)
{
    struct pg_log *log = smap_find(&self->logs, key_view(&key));
    if (log)
        log->sealed = true;
    buf_add(&self->seals, &key, sizeof key);
}

static bool log_append(struct pg_logs *self, struct pg_log *log, int64_t offset, struct str bytes, struct err *err)
{
    if (log_told_failure(log, err) || !log_refresh(self, log, offset, err))
        return false;
    if (offset > log->size) {
        err->expected = log->size;
        return err_set(
            err, ERR_log_gap, "the chunk begins at %" PRId64 " but %" PRId64 " bytes are stored", offset, log->size);
    }
    uint64_t stored = (uint64_t)(log->size - offset);
    size_t n_again = stored < bytes.len ? (size_t)stored : bytes.len;
    if (n_again > 0 && !log_compare(self, log->key, offset, str_sub(bytes, 0, n_again), err))
        return false;
    struct str fresh = str_sub(bytes, n_again, bytes.len);
    if (log_told_failure(log, err)) /* meanwhile */
        return false;
    if (fresh.len == 0)
        return true;
    if (log->sealed || log_removed(self, log->key))
        return err_set(err, ERR_already_ended, "the log of task %" PRId64 ", grant %" PRId64 " ended at %" PRId64,
            log->key.task, log->key.grant, log->size);
    struct log_end *end = end_find(self, log->key);
    if (end && (int64_t)fresh.len > end->bytes - log->size)
        return err_set(err, ERR_already_ended, "the log of task %" PRId64 ", grant %" PRId64 " ends at %" PRId64,
            log->key.task, log->key.grant, end->bytes);
    if ((int64_t)fresh.len > SEEK_BYTES_MAX - log->size)
        return err_set(err, ERR_body_too_large, "a log has at most %lld bytes", (long long)SEEK_BYTES_MAX);
    if (self->waiting > 0 && self->waiting + fresh.len > WAITING_MAX)
        return err_set(err, ERR_unavailable, "%zu bytes of logs wait for the database", self->waiting);
    buf_add_str(&log->fresh, fresh);
    log->size += (int64_t)fresh.len;
    self->waiting += fresh.len;
    if (!log->dirty.in)
        list_append(&self->dirty, &log->dirty);
    if (end && log->size >= end->bytes) {
        end_forget(self, end);
        seal_note(self, log->key);
    }
    pthread_cond_signal(&self->to_write);
    return true;
}

static bool pg_append(struct logs *port, int64_t task, int64_t grant, int64_t offset, struct str bytes,
    struct log_position *out, struct err *err)
{
    struct pg_logs *self = logs_of(port);
    pthread_mutex_lock(&self->io);
    pthread_mutex_lock(&self->lock);
    struct pg_log *log = log_get(self, (struct log_key){ task, grant });
    bool ok = log_append(self, log, offset, bytes, err);
    if (ok)
        *out = (struct log_position){ log->size, log->durable };
    pthread_mutex_unlock(&self->lock);
    pthread_mutex_unlock(&self->io);
    return ok;
}

/* --- the end of a log --- */

static void pg_seal(struct logs *port, int64_t task, int64_t grant)
{
    struct pg_logs *self = logs_of(port);
    struct log_key key = { task, grant };
    pthread_mutex_lock(&self->lock);
    seal_note(self, key);
    pthread_cond_signal(&self->to_write);
    pthread_mutex_unlock(&self->lock);
}

static void pg_expect(struct logs *port, int64_t task, int64_t grant, int64_t bytes)
{
    struct pg_logs *self = logs_of(port);
    struct log_end end = { { task, grant }, bytes };
    pthread_mutex_lock(&self->lock);
    struct log_end *known = end_find(self, end.key);
    if (known)
        *known = end;
    else
        buf_add(&self->ends, &end, sizeof end);
    pthread_mutex_unlock(&self->lock);
}

static void pg_remove(struct logs *port, int64_t task, int64_t grant)
{
    struct pg_logs *self = logs_of(port);
    struct log_key key = { task, grant };
    if (self->files)
        logs_remove(self->files, task, grant);
    pthread_mutex_lock(&self->lock);
    struct pg_log *log = smap_find(&self->logs, key_view(&key));
    if (log) {
        log->known = false;
        log->sealed = true;
    }
    buf_add(&self->removals, &key, sizeof key);
    pthread_cond_signal(&self->to_write);
    pthread_mutex_unlock(&self->lock);
}

static void pg_each_open(struct logs *port, void (*each)(void *owner, int64_t task, int64_t grant), void *owner)
{
    struct pg_logs *self = logs_of(port);
    PGresult *result;
    struct err ignored = { 0 };
    struct buf keys;
    buf_init(&keys, SIZE_MAX);
    pthread_mutex_lock(&self->io);
    if (bytes_ask(&self->reader, SQL_logs_open, NULL, &result, &ignored))
        for (int i = 0; i < PQntuples(result); i++)
            buf_add(&keys, &(struct log_key){ cell_i64(result, i, 0), cell_i64(result, i, 1) }, sizeof(struct log_key));
    pthread_mutex_unlock(&self->io);
    /* outside the lock: the callback may read the log */
    for (size_t at = 0; at < keys.len; at += sizeof(struct log_key)) {
        struct log_key key;
        memcpy(&key, keys.ptr + at, sizeof key);
        each(owner, key.task, key.grant);
    }
    buf_release(&keys);
}

/* Outside the lock, page by page: the callback may remove what it is given. */
static bool pg_each(
    struct logs *port, bool (*each)(void *owner, int64_t task, int64_t grant), void *owner, struct err *err)
{
    struct pg_logs *self = logs_of(port);
    struct log_key keys[EACH_PAGE], last = { -1, -1 };
    int n = EACH_PAGE;
    if (self->files && !logs_each(self->files, each, owner, err))
        return false;
    while (n == EACH_PAGE) {
        PGresult *result;
        pthread_mutex_lock(&self->io);
        bool ok = bytes_ask(
            &self->reader, SQL_logs_page, PG_ARGS(NUM(last.task), NUM(last.grant), NUM(EACH_PAGE)), &result, err);
        n = ok ? PQntuples(result) : 0;
        for (int i = 0; i < n; i++)
            keys[i] = (struct log_key){ cell_i64(result, i, 0), cell_i64(result, i, 1) };
        pthread_mutex_unlock(&self->io);
        for (int i = 0; i < n; i++)
            if (!each(owner, keys[i].task, keys[i].grant))
                return true;
        if (!ok)
            return false;
        if (n > 0)
            last = keys[n - 1];
    }
    return true;
}

static void pg_wait(struct logs *port)
{
    struct pg_logs *self = logs_of(port);
    pthread_mutex_lock(&self->lock);
    while (self->dirty.n > 0 || (!self->refused && (self->seals.len > 0 || self->removals.len > 0)) || self->writing)
        pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

static void pg_on_sync(struct logs *port, void (*synced)(void *owner), void *owner)
{
    struct pg_logs *self = logs_of(port);
    pthread_mutex_lock(&self->lock);
    self->synced = synced;
    self->synced_owner = owner;
    pthread_mutex_unlock(&self->lock);
}

static uint64_t pg_frames_unpacked(struct logs *port)
{
    (void)port;
    return 0; /* nothing is packed */
}

/* --- all of them --- */

bool logs_postgres_list(const struct store_config *config, struct buf *out, struct err *err)
{
    struct bytes_pg from = { 0 };
    struct log_listed log;
    int n = LIST_PAGE;
    memset(&log, 0, sizeof log);
    log.task = log.grant = -1;
    bool ok = bytes_open(&from, config->url, err);
    while (ok && n == LIST_PAGE) {
        PGresult *result;
        ok = bytes_ask(&from, SQL_logs_page, PG_ARGS(NUM(log.task), NUM(log.grant), NUM(LIST_PAGE)), &result, err);
        n = ok ? PQntuples(result) : 0;
        for (int i = 0; i < n; i++) {
            log.task = cell_i64(result, i, 0);
            log.grant = cell_i64(result, i, 1);
            log.sealed = cell_i64(result, i, 3) != 0;
            buf_add(out, &log, sizeof log);
        }
    }
    bytes_close(&from);
    return ok;
}

/* --- life --- */

static void pg_logs_free(struct pg_logs *self)
{
    SMAP_EACH (&self->logs, entry)
        log_free(entry->value);
    smap_release(&self->logs);
    buf_release(&self->seals);
    buf_release(&self->removals);
    buf_release(&self->seals_flight);
    buf_release(&self->removals_flight);
    buf_release(&self->losses);
    buf_release(&self->losses_flight);
    buf_release(&self->ends);
    buf_release(&self->to_hash);
    buf_release(&self->noted);
    buf_release(&self->noted_flight);
    buf_release(&self->found.items);
    mem_free(self->batch);
    bytes_close(&self->reader);
    bytes_close(&self->writer);
    logs_close(self->files);
    pthread_cond_destroy(&self->changed);
    pthread_cond_destroy(&self->to_write);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->io);
    mem_free(self);
}

static void pg_logs_close(struct logs *port)
{
    struct pg_logs *self = logs_of(port);
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_broadcast(&self->to_write);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pg_logs_free(self);
}

static const struct logs_ops pg_logs_ops = {
    .close = pg_logs_close,
    .append = pg_append,
    .size = pg_size,
    .read = pg_read,
    .remove = pg_remove,
    .seal = pg_seal,
    .expect = pg_expect,
    .each_open = pg_each_open,
    .each = pg_each,
    .wait = pg_wait,
    .on_sync = pg_on_sync,
    .lost = logs_postgres_lost,
    .on_seal = logs_postgres_on_seal,
    .sealed = logs_postgres_sealed,
    .noted = logs_postgres_noted,
    .frames_unpacked = pg_frames_unpacked,
};

/* A store that came from SQLite before logs were copied has them in files on the server where it was. Without a
 * directory: none. */
static bool files_open(struct pg_logs *self, const char *data_dir, struct err *err)
{
    struct buf path;
    if (!data_dir)
        return true;
    buf_init(&path, 4096);
    buf_addf(&path, "%s/logs", data_dir);
    bool there = !path.full && file_exists(path.ptr);
    buf_release(&path);
    return !there || (self->files = logs_open(data_dir, err)) != NULL;
}

struct logs *logs_postgres_open(const struct store_config *config, struct err *err)
{
    struct pg_logs *self = mem_alloc_zero(sizeof *self);
    struct buf *lists[] = { &self->seals, &self->removals, &self->seals_flight, &self->removals_flight, &self->ends,
        &self->to_hash, &self->noted, &self->noted_flight, &self->losses, &self->losses_flight };
    self->port.ops = &pg_logs_ops;
    pthread_mutex_init(&self->io, NULL);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->to_write, NULL);
    pthread_cond_init(&self->changed, NULL);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        buf_init(lists[i], SIZE_MAX);
    seal_queue_init(&self->found);
    self->reader.hurried = true;
    if (!files_open(self, config->data_dir, err) || !bytes_open(&self->reader, config->url, err) ||
        !bytes_open(&self->writer, config->url, err)) {
        pg_logs_free(self);
        return NULL;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the loop's thread */
    int no = pthread_create(&self->thread, NULL, logs_write_run, self);
    ASSERT(no == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return &self->port;
}
