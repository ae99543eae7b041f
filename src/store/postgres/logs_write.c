/* logs_write: the thread that makes logs durable in PostgreSQL: all that waits, in one transaction. See bytes.h.
 *
 * Bytes are appended only to those that the database has, under the lock of the log's row, so two servers never mix
 * their bytes. If the answer to a commit was lost, the next try finds that the database has the bytes already. The
 * thread reconnects for as long as it takes, and waits for locks, deadlocks and a full disk to pass. Bytes that the
 * database refuses for another reason are dropped, and their sender gets an error (logs.c). Seals and removals are
 * never dropped, because pruned logs must be deleted: they are repeated until they succeed. When the server stops while
 * the database is away or refuses them, they are tried once. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "io/log.h"
#include "store/postgres/bytes.h"

enum { CHUNK_BYTES = 256 << 10, MERGE_BYTES = 32 << 10, AGAIN_MS = 200 };

/* --- what is taken, under the lock --- */

static void list_move(struct buf *from, struct buf *to)
{
    struct buf empty = *to;
    *to = *from;
    *from = empty;
}

static void batch_take(struct pg_logs *self)
{
    if (self->cap_batch < self->dirty.n) {
        mem_free(self->batch);
        self->cap_batch = self->dirty.n * 2;
        self->batch = mem_alloc(self->cap_batch * sizeof *self->batch);
    }
    self->n_batch = 0;
    for (struct list_node *node; (node = list_take_first(&self->dirty)) != NULL;) {
        struct pg_log *log = CONTAINER_OF(node, struct pg_log, dirty);
        list_move(&log->fresh, &log->flight);
        self->batch[self->n_batch++] = log;
    }
    list_move(&self->seals, &self->seals_flight);
    list_move(&self->removals, &self->removals_flight);
    list_move(&self->noted, &self->noted_flight);
    list_move(&self->losses, &self->losses_flight);
}

static void log_drop(struct pg_logs *self, struct pg_log *log)
{
    self->waiting -= log->flight.len + log->fresh.len;
    log->size = log->durable;
    log->tail_len = 0;
    log->failed = true;
    list_remove(&self->dirty, &log->dirty);
    buf_reset(&log->fresh);
}

/* Chunks that may still get longer are those that this server began. */
static void tail_note(struct pg_log *log)
{
    int64_t n = (int64_t)log->flight.len;
    if (log->tail_len > 0 && log->tail_len + n <= MERGE_BYTES) {
        log->tail_len += n;
    } else {
        log->tail_len = n % CHUNK_BYTES;
        log->tail_start = log->durable + n - log->tail_len;
    }
}

/* Of a batch that failed they are to be done again, before those that came meanwhile. */
static void keys_settle(struct buf *flight, struct buf *waiting, bool ok)
{
    if (!ok && flight->len > 0) {
        buf_add(flight, waiting->ptr, waiting->len);
        list_move(flight, waiting);
    }
    buf_reset(flight);
}

static bool batch_settle(struct pg_logs *self, bool ok)
{
    bool any = false;
    for (size_t i = 0; i < self->n_batch; i++) {
        struct pg_log *log = self->batch[i];
        if (!ok || log->refused) {
            log_drop(self, log);
        } else {
            tail_note(log);
            log->durable += (int64_t)log->flight.len;
            self->waiting -= log->flight.len;
            any = true;
        }
        buf_reset(&log->flight);
    }
    keys_settle(&self->seals_flight, &self->seals, ok);
    keys_settle(&self->removals_flight, &self->removals, ok);
    keys_settle(&self->noted_flight, &self->noted, ok);
    keys_settle(&self->losses_flight, &self->losses, ok);
    self->n_batch = 0;
    self->refused = !ok;
    return any;
}

/* --- one transaction, without the lock --- */

static void keys_queue(struct pg *pg, enum sql_id id, const struct buf *keys)
{
    struct pg_args args = { 0 };
    if (keys->len == 0)
        return;
    bulk_begin(&pg->bulk, "ii");
    for (size_t at = 0; at < keys->len; at += sizeof(struct log_key)) {
        struct log_key key;
        memcpy(&key, keys->ptr + at, sizeof key);
        bulk_i64(&pg->bulk, key.task);
        bulk_i64(&pg->bulk, key.grant);
    }
    if (bulk_args(&pg->bulk, &args))
        pg_queue(pg, id, &args);
}

static void noted_queue(struct pg *pg, const struct buf *list)
{
    struct pg_args args = { 0 };
    if (list->len == 0)
        return;
    bulk_begin(&pg->bulk, "iii");
    for (size_t at = 0; at < list->len; at += sizeof(struct log_noted)) {
        struct log_noted noted;
        memcpy(&noted, list->ptr + at, sizeof noted);
        bulk_i64(&pg->bulk, noted.key.task);
        bulk_i64(&pg->bulk, noted.key.grant);
        bulk_i64(&pg->bulk, noted.bytes);
    }
    if (bulk_args(&pg->bulk, &args))
        pg_queue(pg, SQL_logs_noted, &args);
}

/* Those that bytes come no more to are to be hashed. */
static void frozen_add(struct pg_logs *self, const PGresult *rows)
{
    for (int i = 0; rows && i < PQntuples(rows); i++)
        buf_add(
            &self->to_hash, &(struct log_key){ cell_i64(rows, i, 0), cell_i64(rows, i, 1) }, sizeof(struct log_key));
}

static void frozen_note(struct pg_logs *self, const PGresult *sealed, const PGresult *ended)
{
    pthread_mutex_lock(&self->lock);
    frozen_add(self, sealed);
    frozen_add(self, ended);
    for (size_t i = 0; i < self->n_batch; i++)
        if (self->batch[i]->late)
            buf_add(&self->to_hash, &self->batch[i]->key, sizeof(struct log_key));
    pthread_mutex_unlock(&self->lock);
}

/* Locks the rows of the logs, made if need be, and sees which of them can be continued. */
static bool rows_lock(struct pg_logs *self, struct err *err)
{
    struct pg *pg = &self->writer.pg;
    struct pg_args args = { 0 };
    bulk_begin(&pg->bulk, "ii");
    for (size_t i = 0; i < self->n_batch; i++) {
        self->batch[i]->refused = self->batch[i]->unsure = true;
        self->batch[i]->late = false;
        bulk_i64(&pg->bulk, self->batch[i]->key.task);
        bulk_i64(&pg->bulk, self->batch[i]->key.grant);
    }
    if (!bulk_args(&pg->bulk, &args))
        return err_set(err, ERR_internal, "too many logs at once");
    pg_queue(pg, SQL_bytes_begin, NULL);
    pg_queue(pg, SQL_logs_make, &args);
    pg_queue(pg, SQL_logs_lock, &args);
    return pg_exchange(pg, err);
}

static void chunks_add(struct pg_bulk *bulk, const struct pg_log *log)
{
    struct str rest = buf_str(&log->flight);
    int64_t start = log->durable;
    if (log->tail_len > 0 && log->tail_len + (int64_t)rest.len <= MERGE_BYTES)
        start = log->tail_start; /* that chunk gets longer */
    while (rest.len > 0) {
        struct str piece = str_sub(rest, 0, CHUNK_BYTES);
        bulk_i64(bulk, log->key.task);
        bulk_i64(bulk, log->key.grant);
        bulk_i64(bulk, start);
        bulk_text(bulk, piece);
        start += (int64_t)piece.len;
        rest = str_sub(rest, piece.len, rest.len);
    }
}

/* *out_n: logs that get bytes. The others are refused, or have them already. */
static bool chunks_queue(struct pg_logs *self, struct pg_log **out, size_t *out_n, struct err *err)
{
    struct pg *pg = &self->writer.pg;
    const PGresult *rows = pg->results[2];
    struct pg_args args = { 0 };
    *out_n = 0;
    bulk_begin(&pg->bulk, "iiib");
    for (int i = 0; i < PQntuples(rows); i++) {
        struct pg_log *log = self->batch[cell_i64(rows, i, 0) - 1];
        int64_t bytes = cell_i64(rows, i, 1), end = log->durable + (int64_t)log->flight.len;
        /* also when it was sealed elsewhere meanwhile: these bytes were taken before */
        bool fits = bytes == log->durable;
        log->refused = !fits && bytes != end;
        log->unsure = !fits;
        log->late = !log->refused && cell_i64(rows, i, 2) != 0;
        if (!fits)
            continue;
        chunks_add(&pg->bulk, log);
        out[(*out_n)++] = log;
    }
    if (*out_n == 0)
        return true;
    if (!bulk_args(&pg->bulk, &args))
        return err_set(err, ERR_internal, "too many bytes of logs at once");
    pg_queue(pg, SQL_log_chunks_put, &args);
    return true;
}

static void sizes_queue(struct pg *pg, struct pg_log *const *logs, size_t n)
{
    struct pg_args args = { 0 };
    if (n == 0)
        return;
    bulk_begin(&pg->bulk, "iii");
    for (size_t i = 0; i < n; i++) {
        bulk_i64(&pg->bulk, logs[i]->key.task);
        bulk_i64(&pg->bulk, logs[i]->key.grant);
        bulk_i64(&pg->bulk, logs[i]->durable + (int64_t)logs[i]->flight.len);
    }
    bool fits = bulk_args(&pg->bulk, &args);
    ASSERT(fits);
    pg_queue(pg, SQL_logs_grow, &args);
}

/* After the commit: a seal by another server that comes then finds the row, one that came before is seen here. True: it
 * is asked. */
static bool ended_queue(struct pg *pg, struct pg_log *const *logs, size_t n)
{
    struct pg_args args = { 0 };
    size_t first = 0;
    bulk_begin(&pg->bulk, "ii");
    for (size_t i = 0; i < n; i++) {
        if (logs[i]->durable > 0)
            continue;
        first++;
        bulk_i64(&pg->bulk, logs[i]->key.task);
        bulk_i64(&pg->bulk, logs[i]->key.grant);
    }
    if (first == 0 || !bulk_args(&pg->bulk, &args))
        return false;
    pg_queue(pg, SQL_logs_ended, &args);
    return true;
}

/* After the commit, for the same reason. True: it is asked. */
static bool lost_queue(struct pg_logs *self, struct pg_log *const *logs, size_t n)
{
    struct pg *pg = &self->writer.pg;
    struct pg_args args = { 0 };
    bulk_begin(&pg->bulk, "ii");
    for (size_t i = 0; i < n; i++) {
        bulk_i64(&pg->bulk, logs[i]->key.task);
        bulk_i64(&pg->bulk, logs[i]->key.grant);
    }
    for (size_t at = 0; at < self->losses_flight.len; at += sizeof(struct log_key)) {
        struct log_key key;
        memcpy(&key, self->losses_flight.ptr + at, sizeof key);
        bulk_i64(&pg->bulk, key.task);
        bulk_i64(&pg->bulk, key.grant);
    }
    if (n + self->losses_flight.len == 0 || !bulk_args(&pg->bulk, &args))
        return false;
    pg_queue(pg, SQL_logs_lost, &args);
    return true;
}

static bool batch_write(struct pg_logs *self, struct err *err)
{
    struct pg *pg = &self->writer.pg;
    size_t n = 0, seals_at = 0, ended_at = 0, lost_at = 0;
    bool asked = false, lost = false;
    if (!bytes_ready(&self->writer, err) || !rows_lock(self, err))
        return false;
    struct pg_log **logs = mem_alloc((self->n_batch + 1) * sizeof *logs);
    bool ok = chunks_queue(self, logs, &n, err);
    if (ok) {
        sizes_queue(pg, logs, n);
        seals_at = pg->exchanged ? 0 : pg->n_queue;
        keys_queue(pg, SQL_logs_seal, &self->seals_flight);
        keys_queue(pg, SQL_logs_delete, &self->removals_flight);
        noted_queue(pg, &self->noted_flight);
        pg_queue(pg, SQL_bytes_commit, NULL);
        ended_at = pg->exchanged ? 0 : pg->n_queue;
        asked = ended_queue(pg, logs, n);
        lost_at = pg->exchanged ? 0 : pg->n_queue;
        lost = lost_queue(self, logs, n);
        ok = pg_exchange(pg, err);
    }
    if (ok) {
        logs_sum_batch(self);
        frozen_note(
            self, self->seals_flight.len > 0 ? pg->results[seals_at] : NULL, asked ? pg->results[ended_at] : NULL);
    }
    if (ok && lost)
        logs_lost_told(self, pg->results[lost_at]);
    mem_free(logs);
    return ok;
}

/* --- the thread --- */

/* True: to be stopped. */
static bool pause_briefly(struct pg_logs *self)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += AGAIN_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&self->lock);
    while (!self->stop && pthread_cond_timedwait(&self->to_write, &self->lock, &until) != ETIMEDOUT)
        ;
    bool stop = self->stop;
    pthread_mutex_unlock(&self->lock);
    return stop;
}

static bool batch_write_surely(struct pg_logs *self)
{
    for (;;) {
        struct err why = { 0 };
        if (batch_write(self, &why))
            return true;
        bytes_rollback(&self->writer);
        bool passes = self->writer.pg.lost || why.code == ERR_unavailable || why.code == ERR_conflict ||
                      why.code == ERR_disk_full;
        if (passes && !pause_briefly(self))
            continue;
        if (self->n_batch || !self->refused) /* repeated refusals of seals and removals are logged once */
            log_error("logs.lost", "logs=%zu undone=%zu error=%s", self->n_batch,
                (self->seals_flight.len + self->removals_flight.len) / sizeof(struct log_key),
                log_quote(str_of(why.text)).z);
        return false;
    }
}

static void synced_tell(struct pg_logs *self)
{
    void (*synced)(void *owner) = self->synced;
    void *owner = self->synced_owner;
    if (!synced)
        return;
    pthread_mutex_unlock(&self->lock);
    synced(owner);
    pthread_mutex_lock(&self->lock);
}

void *logs_write_run(void *arg)
{
    struct pg_logs *self = arg;
    logs_hash_find(self);
    pthread_mutex_lock(&self->lock);
    for (;;) {
        bool work;
        while (!(work = self->dirty.n > 0 || self->seals.len > 0 || self->removals.len > 0 || self->noted.len > 0 ||
                        self->losses.len > 0) &&
               !self->stop && !logs_hash_waits(self))
            pthread_cond_wait(&self->to_write, &self->lock);
        if (!self->stop && logs_hash_waits(self)) { /* what is left is found at the next start */
            pthread_mutex_unlock(&self->lock);
            if (!logs_hash_step(self))
                (void)pause_briefly(self);
            pthread_mutex_lock(&self->lock);
        }
        if (!work && self->stop)
            break;
        if (!work)
            continue;
        batch_take(self);
        self->writing = true;
        pthread_mutex_unlock(&self->lock);
        bool ok = batch_write_surely(self);
        pthread_mutex_lock(&self->lock);
        bool any = batch_settle(self, ok);
        if (any)
            synced_tell(self);
        self->writing = false;
        pthread_cond_broadcast(&self->changed);
        if (!ok && self->stop)
            break;
        if (!ok) {
            pthread_mutex_unlock(&self->lock);
            (void)pause_briefly(self);
            pthread_mutex_lock(&self->lock);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}
