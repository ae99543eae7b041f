/* bytes: logs and kept files in PostgreSQL: their connections and parts; private to store/postgres. */
#ifndef WEIR_STORE_POSTGRES_BYTES_H
#define WEIR_STORE_POSTGRES_BYTES_H

#include <pthread.h>
#include <sodium.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "store/blobs/port.h"
#include "store/logs/port.h"
#include "store/postgres/postgres.h"

struct bytes_pg { /* a connection; one thread at a time */
    struct pg pg;
    struct sql sql; /* by bytes_ask; since bytes_open */
    char *url;
    bool hurried;     /* pg_hurry; set before bytes_open */
    int64_t retry_ms; /* after one that didn't come about: not before then */
};

/* bytes_open: the first connection, so that what is wrong is told at once. The tables are there: the store was opened
 * before. */
bool bytes_open(struct bytes_pg *self, const char *url, struct err *err);
void bytes_open_later(struct bytes_pg *self, const char *url); /* connects when it is first asked */
void bytes_close(struct bytes_pg *self);
bool bytes_ready(struct bytes_pg *self, struct err *err); /* a connection that was lost is made anew; ERR_unavailable */
/* bytes_ask: one statement outside a transaction; when the connection is lost, again on a new one. */
bool bytes_ask(struct bytes_pg *self, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err);
/* bytes_rollback: after an error inside a transaction. */
void bytes_rollback(struct bytes_pg *self);

struct logs *logs_postgres_open(const struct store_config *config, struct err *err);
struct blobs *blobs_postgres_open(const struct store_config *config, struct err *err);
/* every log, as struct log_listed */
bool logs_postgres_list(const struct store_config *config, struct buf *out, struct err *err);

/* --- logs.c and logs_write.c --- */

struct pg_log { /* a log that bytes come for; made and freed under `io` and `lock`, else guarded by `lock` */
    struct log_key key;
    struct list_node recent, dirty;
    int64_t size, durable;        /* the database has `durable`; behind them come `flight` and `fresh` */
    struct buf flight, fresh;     /* flight: what the writer is writing, which nobody else changes */
    int64_t tail_start, tail_len; /* the last chunk, if it is one that may get longer; else tail_len is 0 */
    bool known;                   /* size and durable are those of the database, as far as this server knows */
    bool sealed, failed;
    bool refused;   /* the writer's: what was in flight isn't kept */
    bool unsure;    /* the writer's: another may have written what was in flight */
    bool late;      /* the writer's: it was sealed when its bytes came */
    int64_t summed; /* the writer's: `sum` is of so many bytes from the beginning; -1: of others */
    crypto_generichash_state sum;
};

struct log_hashing { /* a sealed log that is read back to be hashed */
    bool on;
    struct log_key key;
    int64_t at, end;
    int64_t before; /* so many of its bytes were noted before, with this hash; -1: none */
    uint8_t hash[LOG_HASH_BYTES];
    crypto_generichash_state sum;
};

struct log_end {
    struct log_key key;
    int64_t bytes;
};

struct log_noted { /* its hash is in the history */
    struct log_key key;
    int64_t bytes;
};

struct pg_logs {
    struct logs port;   /* first */
    pthread_mutex_t io; /* guards `reader`, and goes before `lock` */
    struct bytes_pg reader, writer;
    struct logs *files; /* logs of the time before the store came to PostgreSQL; NULL: none */
    pthread_mutex_t lock;
    pthread_cond_t to_write, changed;
    pthread_t thread;
    bool stop, writing;
    bool refused;     /* the last batch: its seals and removals wait for the next try */
    struct smap logs; /* key bytes -> struct pg_log */
    struct list recent, dirty;
    size_t waiting;                           /* bytes that aren't durable */
    struct buf seals, removals;               /* keys; to do */
    struct buf seals_flight, removals_flight; /* being done */
    struct buf losses, losses_flight;         /* keys of attempts that were given up: how long are their logs? */
    struct buf to_hash;
    size_t hash_at;                 /* keys; those before hash_at are done */
    struct buf noted, noted_flight; /* struct log_noted; to do, being done */
    struct log_hashing hashing;     /* the writer's */
    struct seal_queue found;
    struct buf ends; /* struct log_end: attempts that have ended, and of whose logs bytes are missing */
    struct pg_log **batch;
    size_t n_batch, cap_batch;
    void (*synced)(void *owner);
    void *synced_owner;
};

void *logs_write_run(void *self); /* the writer's thread */

/* logs_hash.c: the writer's */
void logs_sum_begin(struct pg_log *log);
void logs_sum_batch(struct pg_logs *self); /* of a batch that is durable, before it is settled */
void logs_hash_find(struct pg_logs *self);
bool logs_hash_waits(const struct pg_logs *self);                /* lock held */
bool logs_hash_step(struct pg_logs *self);                       /* without the lock; false: the database is away */
void logs_lost_told(struct pg_logs *self, const PGresult *rows); /* of logs_lost */
void logs_postgres_lost(struct logs *port, int64_t task, int64_t grant);
void logs_postgres_on_seal(struct logs *port, void (*sealed)(void *owner), void *owner);
size_t logs_postgres_sealed(struct logs *port, struct log_sealed *out, size_t max);
bool logs_postgres_noted(struct logs *port, const struct log_sealed *sealed, size_t n);

#endif
