/* open: a database becomes a store: connection, schema, the writer's lock, key, head; and all that again when the
 * connection was lost.
 *
 * Promises: any number of servers; wide turns have the store alone by a lock (turn.c), and an operation that needs the
 * store alone fails with the name of the server that uses it. The key of the history is DATA/verify.key, made with a
 * new store; it must be the same on every server of a site, and a server without one takes it from another server of
 * the same machine and user (key.c). Fails with ERR_unreachable, ERR_forbidden, ERR_not_found (no such database; or an
 * empty one and config.create is false), ERR_conflict (in use, foreign, newer), ERR_corrupt. */
#include <inttypes.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/log.h"
#include "store/files.h"
#include "store/postgres/dbclock.h"
#include "store/postgres/pooler.h"
#include "store/postgres/timeline.h"
#include "store/postgres/postgres.h"

enum { SCRATCH_BYTES_MAX = 64 << 20, REOPEN_MS = 4000, REOPEN_PAUSE_MS = 100, REOPEN_AGAIN_MS = 500, TELL_MS = 60000 };

bool head_read(struct pg *pg, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    PGresult *result;
    return pg_run(pg, SQL_head_get, NULL, &result, err) && pg_row_head(result, out, out_seal, err);
}

static bool head_check(struct postgres_store *self, struct err *err)
{
    uint8_t seal[STORE_HASH_BYTES];
    return head_read(&self->pg, &self->head, seal, err) &&
           chain_head_check(self->key, &self->head, seal,
               "this verify.key: the key must be that of the site's other servers; or the database was changed", err);
}

/* A store without its first head row was never used. Ends the transaction that beginnings_look has begun. */
static bool head_make(struct postgres_store *self, struct err *err)
{
    const struct store_head head = store_head_first();
    static const struct store_head empty;
    pg_queue(&self->pg, SQL_head_insert, NULL);
    head_queue(&self->pg, self->key, &head, &empty, NULL);
    pg_key_queue(&self->pg, self->data_dir);
    pg_queue(&self->pg, SQL_commit, NULL);
    return pg_exchange(&self->pg, err);
}

/* Of servers that start at the same time on a new store one makes the key and the head; the others wait. *out_used
 * false: it is this one, and a transaction is open with the schema's lock. */
static bool beginnings_look(struct pg *pg, bool *out_used, struct err *err)
{
    int64_t used;
    if (!pg_number(pg, SQL_count_beginnings, &used, err))
        return false;
    if (!used &&
        (!pg_exec(pg, SQL_exec_begin, err) || !pg_exec(pg, SQL_schema_lock, err) ||
            !pg_number(pg, SQL_count_beginnings, &used, err) || (used && !pg_exec(pg, SQL_exec_rollback, err))))
        return false;
    *out_used = used != 0;
    return true;
}

/* *out_borrowed: it isn't in the data directory yet. */
static bool key_open(struct postgres_store *self, const char *data_dir, bool fresh, bool *out_borrowed, struct err *err)
{
    *out_borrowed = false;
    if (chain_key_open(data_dir, self->key, fresh, err))
        return true;
    if (fresh || err->code != ERR_not_found)
        return false;
    *out_borrowed = pg_key_borrow(&self->pg, self->key);
    if (*out_borrowed)
        *err = (struct err){ .arena = err->arena };
    else
        err_context(err, "%s has a history: copy verify.key from another server of the site", self->pg.place);
    return *out_borrowed;
}

bool pg_writable(struct pg *pg, struct err *err)
{
    char none[2];
    int64_t why = 0;
    if (!pg_words(pg, SQL_session_writable, none, sizeof none, &why))
        return err_set(err, ERR_unavailable, "%s doesn't say whether it can be written", pg->place);
    if (why & 1)
        return err_set(err, ERR_unavailable,
            "%s is a standby and can't be written: name the primary, or add "
            "target_session_attrs=read-write to the URL",
            pg->place);
    if (why & 2)
        return err_set(err, ERR_unavailable,
            "%s is read-only (default_transaction_read_only): make it writable, or name another", pg->place);
    return true;
}

static bool lock_get(struct pg *pg, enum sql_id id, struct err *err)
{
    char holder[PG_NAME_BYTES] = "";
    int64_t pid = 0;
    if (!pg_exec(pg, SQL_lock_wait, err))
        return false;
    if (pg_exec(pg, id, err))
        return pg_exec(pg, SQL_lock_wait_long, err);
    if (err->code != ERR_conflict)
        return false;
    if (pg_words(pg, SQL_writer_holder, holder, sizeof holder, &pid))
        return err_set(err, ERR_conflict, "%s is in use by %s (its process %" PRId64 "): stop that server first",
            pg->place, holder, pid);
    return err_set(err, ERR_conflict, "%s is in use by another server: stop that one first", pg->place);
}

bool writer_lock(struct pg *pg, struct err *err)
{
    return lock_get(pg, SQL_writer_lock, err);
}

/* One server of a name. One that was killed has given its name back by the time that its connection is seen to be gone.
 */
static bool name_take(struct postgres_store *self, struct err *err)
{
    struct pg *pg = &self->pg;
    if (!self->server[0])
        return true;
    if (self->backend && !pg_number_for(pg, SQL_own_backend_end, self->backend, NULL, err))
        return false;
    if (pg_exec(pg, SQL_lock_wait, err) &&
        pg_number_for(pg, SQL_server_name, (int64_t)str_hash(str_of(self->server)), NULL, err))
        return pg_exec(pg, SQL_lock_wait_long, err);
    return err->code == ERR_conflict &&
           err_set(err, ERR_name_taken,
               "a server with the name %s runs on this store already: stop it (weir nodes says where it is), or "
               "give this one another --name",
               self->server);
}

static bool clock_ask(struct postgres_store *self, struct err *err)
{
    int64_t database_ms;
    self->clock_asked = clock_boot_ms();
    if (!pg_number(&self->pg, SQL_session_clock, &database_ms, err))
        return false;
    dbclock_compare(database_ms, self->clock_asked);
    return true;
}

/* The connection as a writer's, up to and with its share of the lock. */
static bool writer_connect(struct postgres_store *self, bool create, int64_t *out_version, struct err *err)
{
    struct pg *pg = &self->pg;
    pooler_forget();
    if (!pg_connect(pg, self->url, err) || !pg_writable(pg, err) || !clock_ask(self, err) ||
        !pg_exec(pg, SQL_session_durable, err) || !pg_schema_know(pg, err) || !pg_schema_check(pg, out_version, err))
        return false;
    if (*out_version == 0 && !create)
        return err_set(err, ERR_not_found, "%s is empty", pg->place);
    return (!pg_schema_older(*out_version) || pg_schema_migrate(pg, err)) && lock_get(pg, SQL_writer_share, err) &&
           name_take(self, err) && pg_exec(pg, SQL_session_turns, err);
}

/* Prepared, and everything that this connection can see is where accepted work has to be. */
static bool writer_ready(struct postgres_store *self, struct err *err)
{
    char none[2];
    int64_t weak = 0;
    (void)pg_words(&self->pg, SQL_weaknesses, none, sizeof none, &weak);
    atomic_store(&self->port.weak, (unsigned)weak);
    if (!pg_prepare(&self->pg, SQL_FOR_WRITER, err) || !pg_run(&self->pg, SQL_barrier, NULL, NULL, err))
        return false;
    self->backend = self->pg.backend;
    return timeline_keep(self->data_dir, err);
}

static bool database_open(struct postgres_store *self, const struct store_config *config, struct err *err)
{
    int64_t version;
    bool used, borrowed;
    if (!writer_connect(self, config->create, &version, err) || !beginnings_look(&self->pg, &used, err) ||
        !key_open(self, config->data_dir, !used, &borrowed, err) || !writer_ready(self, err))
        return false;
    if (!(used || head_make(self, err)) || !head_check(self, err))
        return false;
    if (borrowed) {
        log_event("store.key", "note=%s",
            log_quote(STR("the key of the history was taken from another server of this machine")).z);
        return chain_key_store(config->data_dir, self->key, err);
    }
    pg_key_queue(&self->pg, config->data_dir);
    return pg_exchange(&self->pg, err);
}

/* Who marks our commits: this process, and no other. */
static void instance_make(struct postgres_store *self)
{
    uint64_t number;
    clock_entropy(&number, sizeof number);
    snprintf(self->instance, sizeof self->instance, "%d-%016" PRIx64, (int)getpid(), number);
}

struct store *postgres_store_open(const struct store_config *config, struct err *err)
{
    struct postgres_store *self = mem_alloc_zero(sizeof *self);
    self->port.ops = &postgres_ops;
    self->port.sql = pg_writer_sql(self);
    self->port.narrows = true;
    self->url = str_keep(str_of(config->url));
    self->data_dir = str_keep(str_of(config->data_dir));
    self->lock_fd = -1;
    snprintf(self->server, sizeof self->server, "%.*s", STR_ARG(config->server));
    instance_make(self);
    buf_init(&self->scratch, SCRATCH_BYTES_MAX);
    bool ok = *self->data_dir != '\0';
    if (!ok)
        err_set(err, ERR_invalid,
            "a store in PostgreSQL needs a data directory too: for the key of its history, and for uploads");
    ok = ok && sodium_init() >= 0;
    if (ok && config->create)
        ok = dir_create(config->data_dir, 0711, err);
    else if (ok && !file_exists(config->data_dir))
        ok = err_set(err, ERR_not_found, "there is no data directory %s", config->data_dir);
    ok = ok && (self->lock_fd = lock_take(config->data_dir, err)) >= 0; /* what it holds has one owner */
    if (!ok || !timeline_load(config->data_dir, err) || !database_open(self, config, err)) {
        postgres_store_close(&self->port);
        return NULL;
    }
    return &self->port;
}

void postgres_store_close(struct store *store)
{
    struct postgres_store *self = postgres_of(store);
    listener_stop(self);
    if (self->away_since)
        writer_back(); /* nobody looks for it any more: who reads may try himself */
    prefetch_claim_close(self);
    pg_close(&self->pg);
    if (self->lock_fd >= 0)
        close(self->lock_fd);
    buf_release(&self->scratch);
    tagger_release(&self->tagger);
    prefetch_release(self);
    ctids_release(self);
    ready_start_release(self);
    sodium_memzero(self->key, sizeof self->key);
    sodium_memzero(self->url, strlen(self->url)); /* it may hold a password */
    mem_free(self->url);
    mem_free(self->data_dir);
    mem_free(self);
}

static void pause_briefly(void)
{
    struct timespec ts = { .tv_nsec = REOPEN_PAUSE_MS * 1000000L };
    nanosleep(&ts, NULL);
}

/* The database may not have noticed that our connection is gone: its process would keep our lock, and might still
 * commit. After a failover there is no such process. */
static bool old_backend_end(struct postgres_store *self, int backend, struct err *err)
{
    return pg_run(&self->pg, SQL_backend_end, PG_ARGS(NUM(backend), TXT(str_of(self->pg.name))), NULL, err);
}

static bool reopen_once(struct postgres_store *self, struct err *err)
{
    int64_t version;
    int backend = self->backend;
    pg_close(&self->pg);
    ctids_forget(self);
    return writer_connect(self, false, &version, err) && writer_ready(self, err) && old_backend_end(self, backend, err);
}

/* Why it is away: each reason once, since what is in the way may show only when what was gone is back; when there are
 * ever new ones, now and then. */
static void away_tell(struct postgres_store *self, const char *why, bool first)
{
    int64_t now = clock_boot_ms();
    size_t n = first ? 0 : self->n_told;
    for (size_t i = 0; i < n && i < TOLD_MAX; i++)
        if (strncmp(self->away_told[i], why, sizeof self->away_told[i] - 1) == 0)
            return;
    if (n >= TOLD_MAX && now < self->tell_ms)
        return;
    log_warn("store.away", "error=%s", log_quote(str_of(why)).z);
    snprintf(self->away_told[n % TOLD_MAX], sizeof self->away_told[0], "%.*s", (int)sizeof self->away_told[0] - 1, why);
    self->n_told = n + 1;
    self->tell_ms = now + TELL_MS;
}

/* The first call that finds the database away waits a little for it. While it stays away, all other calls fail at once,
 * except one that tries to connect now and then: a host that doesn't answer costs the whole connect_timeout. */
bool writer_reopen(struct postgres_store *self, struct err *err)
{
    int64_t now = clock_boot_ms();
    bool told = self->away_since != 0;
    if (told && now < self->retry_ms)
        return err_set(err, ERR_unavailable, "%s", self->away_why);
    self->away_since = self->away_since ? self->away_since : now;
    writer_gone();
    for (;;) {
        struct err why = { 0 };
        if (reopen_once(self, &why)) {
            log_event("store.back", "place=%s timeline=%" PRId64 " away_ms=%" PRId64,
                log_quote(str_of(self->pg.place)).z, self->pg.timeline, clock_boot_ms() - self->away_since);
            self->away_since = self->retry_ms = 0;
            self->port.reopened++;
            writer_back();
            return true;
        }
        bool hopeless = why.code == ERR_corrupt || why.code == ERR_not_found;
        self->pg.lost = true;
        snprintf(self->away_why, sizeof self->away_why, "%.*s", (int)sizeof self->away_why - 1, why.text);
        away_tell(self, why.text, !told);
        told = true;
        if (hopeless || clock_boot_ms() > self->away_since + REOPEN_MS) {
            self->retry_ms = clock_boot_ms() + REOPEN_AGAIN_MS;
            return err_set(err, ERR_unavailable, "%s", why.text);
        }
        pause_briefly();
    }
}
