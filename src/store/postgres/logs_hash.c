/* logs_hash: what sealed logs were, hashed by the thread that writes logs, in steps between its batches. See bytes.h
 * and logs.h.
 *
 * A log whose bytes all went through this server is hashed as they are written; any other is read back once. A log that
 * was noted already is left alone; one that other servers' bytes came to after it was noted is hashed from its
 * beginning, and must begin as it was noted: what is noted stays, so that nobody makes another log good by having it
 * hashed again. log.sealed is 2 until the history has the hash, so the next start finds what a crash left. Fails by
 * leaving it for later: the connection is lost, or bytes are missing (`verify` says so).
 */
#include <inttypes.h>
#include <string.h>

#include "io/log.h"
#include "store/postgres/bytes.h"

enum { STEP_BYTES = 1 << 20, STEPS = 4 };

void logs_sum_begin(struct pg_log *log)
{
    log->summed = 0;
    crypto_generichash_init(&log->sum, NULL, 0, LOG_HASH_BYTES);
}

void logs_sum_batch(struct pg_logs *self)
{
    for (size_t i = 0; i < self->n_batch; i++) {
        struct pg_log *log = self->batch[i];
        bool goes_on = !log->refused && !log->unsure && log->summed == log->durable;
        if (goes_on)
            crypto_generichash_update(&log->sum, (const unsigned char *)log->flight.ptr, log->flight.len);
        log->summed = goes_on ? log->summed + (int64_t)log->flight.len : -1;
    }
}

bool logs_hash_waits(const struct pg_logs *self)
{
    return self->hashing.on || self->to_hash.len > self->hash_at;
}

/* Those that an earlier life left. */
void logs_hash_find(struct pg_logs *self)
{
    PGresult *result;
    struct err ignored = { 0 };
    if (!bytes_ask(&self->writer, SQL_logs_unnoted, NULL, &result, &ignored))
        return;
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < PQntuples(result); i++)
        buf_add(&self->to_hash, &(struct log_key){ cell_i64(result, i, 0), cell_i64(result, i, 1) },
            sizeof(struct log_key));
    pthread_mutex_unlock(&self->lock);
}

static void hash_end(struct pg_logs *self, const struct log_seal *seal, bool grown)
{
    pthread_mutex_lock(&self->lock);
    seal_queue_add(&self->found, &(struct log_sealed){ .seal = *seal, .grown = grown });
    pthread_mutex_unlock(&self->lock);
}

/* All its bytes went through here. */
static bool hash_known(struct pg_logs *self, struct log_key key, int64_t bytes)
{
    struct log_seal seal = { .task = key.task, .grant = key.grant, .bytes = bytes };
    pthread_mutex_lock(&self->lock);
    const struct pg_log *log = smap_find(&self->logs, (struct str){ (const char *)&key, sizeof key });
    bool known = log && log->summed == bytes;
    crypto_generichash_state sum;
    if (known)
        sum = log->sum;
    pthread_mutex_unlock(&self->lock);
    if (!known)
        return false;
    crypto_generichash_final(&sum, seal.hash, LOG_HASH_BYTES);
    hash_end(self, &seal, false);
    return true;
}

static bool hash_begin(struct pg_logs *self, struct log_key key, struct err *err)
{
    struct log_hashing *job = &self->hashing;
    PGresult *result;
    if (!bytes_ask(&self->writer, SQL_log_unnoted, PG_ARGS(NUM(key.task), NUM(key.grant)), &result, err))
        return false;
    if (PQntuples(result) == 0)
        return true; /* removed, or noted meanwhile */
    int64_t bytes = cell_i64(result, 0, 0), before = cell_i64(result, 0, 1);
    struct str hash = cell_view(result, 0, 2);
    *job = (struct log_hashing){ .key = key, .end = bytes, .before = before };
    memcpy(job->hash, hash.ptr, hash.len < LOG_HASH_BYTES ? hash.len : LOG_HASH_BYTES);
    if (bytes == before || bytes == 0) {
        struct log_noted noted = { key, bytes };
        pthread_mutex_lock(&self->lock);
        buf_add(&self->noted, &noted, sizeof noted);
        pthread_mutex_unlock(&self->lock);
        return true;
    }
    if (before < 0 && hash_known(self, key, bytes))
        return true;
    crypto_generichash_init(&job->sum, NULL, 0, LOG_HASH_BYTES);
    job->on = true;
    return true;
}

/* Does it begin as it was noted? */
static bool hash_begins(const struct log_hashing *job)
{
    uint8_t hash[LOG_HASH_BYTES];
    crypto_generichash_state sum = job->sum;
    crypto_generichash_final(&sum, hash, sizeof hash);
    if (memcmp(hash, job->hash, sizeof hash) == 0)
        return true;
    log_error("logs.changed", "task=%" PRId64 " grant=%" PRId64 " error=\"the log isn't as it was noted: weir verify\"",
        job->key.task, job->key.grant);
    return false;
}

static bool hash_read(struct pg_logs *self, struct err *err)
{
    struct log_hashing *job = &self->hashing;
    PGresult *result;
    int64_t start = job->at, to = job->at < job->before ? job->before : job->end;
    if (!bytes_ask(&self->writer, SQL_log_read,
            PG_ARGS(NUM(job->key.task), NUM(job->key.grant), NUM(start),
                NUM(to - start < STEP_BYTES ? to : start + STEP_BYTES)),
            &result, err))
        return false;
    for (int i = 0; i < PQntuples(result); i++) {
        struct str bytes = cell_view(result, i, 1);
        if (bytes.len == 0 || cell_i64(result, i, 0) != job->at)
            break;
        crypto_generichash_update(&job->sum, (const unsigned char *)bytes.ptr, bytes.len);
        job->at += (int64_t)bytes.len;
    }
    /* no bytes: it was removed, or has a hole */
    job->on = job->at > start && (job->at != job->before || hash_begins(job));
    return true;
}

bool logs_hash_step(struct pg_logs *self)
{
    struct log_hashing *job = &self->hashing;
    struct err err = { 0 };
    bool ok = true;
    for (int i = 0; ok && i < STEPS && job->on; i++) {
        ok = hash_read(self, &err);
        if (ok && job->on && job->at >= job->end) {
            struct log_seal seal = { .task = job->key.task, .grant = job->key.grant, .bytes = job->end };
            crypto_generichash_final(&job->sum, seal.hash, LOG_HASH_BYTES);
            job->on = false;
            hash_end(self, &seal, job->before >= 0);
        }
    }
    for (int i = 0; ok && i < STEPS * STEPS && !job->on; i++) {
        struct log_key key;
        pthread_mutex_lock(&self->lock);
        bool any = self->to_hash.len > self->hash_at;
        if (any)
            memcpy(&key, self->to_hash.ptr + self->hash_at, sizeof key);
        pthread_mutex_unlock(&self->lock);
        if (!any || !(ok = hash_begin(self, key, &err)))
            break;
        pthread_mutex_lock(&self->lock);
        self->hash_at += sizeof key;
        if (self->hash_at == self->to_hash.len) {
            self->hash_at = 0;
            buf_reset(&self->to_hash);
        }
        pthread_mutex_unlock(&self->lock);
    }
    return ok;
}

/* --- logs of attempts that were given up --- */

void logs_lost_told(struct pg_logs *self, const PGresult *rows)
{
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < PQntuples(rows); i++) {
        struct log_sealed lost = { .lost = true,
            .seal = { .task = cell_i64(rows, i, 0), .grant = cell_i64(rows, i, 1), .bytes = cell_i64(rows, i, 2) } };
        seal_queue_add(&self->found, &lost);
    }
    pthread_mutex_unlock(&self->lock);
}

/* --- of the port --- */

void logs_postgres_lost(struct logs *port, int64_t task, int64_t grant)
{
    struct pg_logs *self = (struct pg_logs *)(void *)port;
    pthread_mutex_lock(&self->lock);
    buf_add(&self->losses, &(struct log_key){ task, grant }, sizeof(struct log_key));
    pthread_cond_signal(&self->to_write);
    pthread_mutex_unlock(&self->lock);
}

void logs_postgres_on_seal(struct logs *port, void (*sealed)(void *owner), void *owner)
{
    struct pg_logs *self = (struct pg_logs *)(void *)port;
    pthread_mutex_lock(&self->lock);
    seal_queue_listen(&self->found, sealed, owner);
    pthread_mutex_unlock(&self->lock);
}

size_t logs_postgres_sealed(struct logs *port, struct log_sealed *out, size_t max)
{
    struct pg_logs *self = (struct pg_logs *)(void *)port;
    pthread_mutex_lock(&self->lock);
    size_t n = seal_queue_first(&self->found, out, max);
    pthread_mutex_unlock(&self->lock);
    return n;
}

bool logs_postgres_noted(struct logs *port, const struct log_sealed *sealed, size_t n)
{
    struct pg_logs *self = (struct pg_logs *)(void *)port;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < n; i++) {
        struct log_noted noted = { { sealed[i].seal.task, sealed[i].seal.grant }, sealed[i].seal.bytes };
        if (!sealed[i].lost)
            buf_add(&self->noted, &noted, sizeof noted);
    }
    bool more = seal_queue_drop(&self->found, n);
    pthread_cond_signal(&self->to_write);
    pthread_mutex_unlock(&self->lock);
    return more;
}
