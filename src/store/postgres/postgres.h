/* postgres: the PostgreSQL store's parts, for each other; private to store/postgres (store.c calls those that open and
 * operate). */
#ifndef WEIR_STORE_POSTGRES_POSTGRES_H
#define WEIR_STORE_POSTGRES_POSTGRES_H

#include "base/map.h"
#include "store/chain.h"
#include "store/postgres/pg.h"
#include "store/postgres/query.h"
#include "store/read_ops.h"
#include "store/tags.h"

enum { TOLD_MAX = 4 };
enum { OTHERS_COUNT = 8 }; /* statements of load_others */

enum { CTID_BYTES = 6 };
/* where the rows of a pending task stand: a row keeps its ctid until it is written, and only turns write these */
struct ready_ctid {
    char ready[CTID_BYTES], task[CTID_BYTES];
};

/* prefetch_turn.c: rows that came before the turn asked for them, good until it is over; all in `arena` */
struct prefetch_turn {
    struct map tasks;         /* id -> struct task: also those that came with ready_first */
    struct map edges;         /* pred -> its edges */
    struct map active_grants; /* task -> struct attempt */
    struct map ctids;         /* task -> struct ready_ctid: those that came with ready_first */
    struct map archives;      /* lane -> struct archive: locked */
    struct map classes;       /* that have pending tasks; known once ready_first was asked for many */
    size_t n_asked;           /* of it */
    bool classes_known;
    struct turn_needs needs; /* by the next begin */
    PGresult *others[OTHERS_COUNT];
    int64_t others_since; /* the commit that they follow */
    struct arena arena;
};

enum ctids_of { CTIDS_LANES, CTIDS_EXECUTORS, CTIDS_COUNT };
struct row_ctids { /* row_ctids.c: where rows stand that every turn writes, as far as this server knows */
    char head[CTID_BYTES], mark[CTID_BYTES];
    bool head_known, mark_known;
    bool crowded;                /* somebody's snapshot keeps their old versions */
    uint32_t page;               /* the head's */
    int64_t moves, counted_from; /* how often it was another one, and since which commit that is counted */
    struct table_ctids {
        struct map map;   /* id -> its ctid, in `arena` */
        bool known, many; /* all rows with numbers below `next` are in; there are too many */
        int64_t next;
    } rows[CTIDS_COUNT];
    struct arena arena;
};

struct ready_starts { /* ready_starts.c: from where on pending tasks are looked for, while it is crowded */
    struct map map;   /* class -> struct ready_start, in `arena` */
    int64_t commit;   /* as of which they are true, but for the news; -1: none are */
    int64_t *news;    /* tasks that others made pending, whose keys aren't looked at yet */
    size_t n_news;
    struct arena arena;
};

struct prefetch_claim {     /* prefetch_claim.c: the next pending tasks of a class, read beside the turns */
    struct pg pg;           /* a connection of its own, made with the first prefetch */
    int64_t class_id, n;    /* what was asked for */
    int64_t first, commit;  /* the commit before it was asked for; the newest that has left it true */
    int64_t wish, wish_n;   /* class and number of the largest claim of this turn, if there may be more of them */
    int64_t next, next_n;   /* of the turn before */
    unsigned misses, skips; /* prefetches in vain, one after the other; claims that go without */
    int64_t retry_ms;       /* no connection came about: not before then */
    bool asked, under_way;  /* it is still true; its answer isn't read yet */
};

struct postgres_store {
    struct store port; /* first: a struct store * is one of these */
    struct pg pg;
    char *url, *data_dir;
    int64_t away_since; /* boot ms since when there is no connection; 0: there is one, or it hasn't been missed yet */
    int64_t retry_ms;   /* it was waited for in vain: not before then */
    char away_why[240]; /* what the last try came to */
    char away_told[TOLD_MAX][240]; /* and what the log was told of */
    size_t n_told;
    int64_t tell_ms;            /* one more isn't before then */
    int64_t clock_asked;        /* boot ms: the database was asked for the time */
    char server[PG_NAME_BYTES]; /* its name; empty: none */
    int lock_fd;                /* of the data directory */
    uint8_t key[CHAIN_KEY_BYTES];
    struct store_head head; /* as of the last commit */
    int64_t sure;           /* the last commit of which it is known that the synchronous standby has it */
    bool in_turn;           /* a transaction is open, with the turn's lock */
    bool narrow;            /* and that one is shared */
    bool passed;            /* ready_first has passed over somebody in this turn */
    int64_t slot_last;      /* the largest of the slots that it has locked */
    char instance[40];      /* this process: whose mark our commits carry */
    int64_t nonce;          /* the mark of the last commit */
    struct listener *listener;
    /* the database's process that serves us: ended by us when the connection is lost and it lives on */
    _Atomic int backend;
    int64_t expire_now, expire_max; /* idempotency keys that the next commit deletes; 0: none */
    struct buf scratch;             /* lists on their way into a cell */
    struct tagger tagger;
    struct prefetch_turn prefetch;
    struct prefetch_claim prefetch_claim;
    struct row_ctids ctids;
    struct ready_starts starts;
};

static inline struct postgres_store *postgres_of(struct store *store)
{
    return (struct postgres_store *)(void *)store;
}

struct store *postgres_store_open(const struct store_config *config, struct err *err);
struct reader *postgres_reader_open(const struct store_config *config, struct err *err);
bool postgres_verify(
    const struct store_config *config, const struct verify_wish *wish, struct verify_report *out, struct err *err);

/* open.c. writer_reopen: after the connection was lost: a new one. Tries for REOPEN_MS after the
 * loss, then once a call; ERR_unavailable. */
bool writer_reopen(struct postgres_store *self, struct err *err);
bool head_read(struct pg *pg, struct store_head *out, uint8_t *out_seal, struct err *err); /* out_seal may be NULL */
void postgres_store_close(struct store *store);
bool pg_writable(struct pg *pg, struct err *err);
/* pg_key_queue: tells the store, in the transaction that is open, that the key of its history is in this directory.
 * pg_key_borrow: the key that another one of this machine and user has told of; before pg_prepare, too. */
void pg_key_queue(struct pg *pg, const char *data_dir);
bool pg_key_borrow(struct pg *pg, uint8_t out[CHAIN_KEY_BYTES]);
bool writer_lock(struct pg *pg, struct err *err); /* before pg_prepare; ERR_conflict says who has it */

/* schema.c. schema_check: *out_version 0: an empty database. Refuses a foreign one and a schema that is too new or too
 * old. schema_ours: of a version that passed: can it be read; exactly: do we know all of it. schema_know: tells the
 * servers to come what we know, while the connection lives; before schema_check. schema_make: all of it, in the
 * caller's transaction, into an empty database. */
bool pg_schema_check(struct pg *pg, int64_t *out_version, struct err *err);
bool pg_schema_ours(struct pg *pg, int64_t version, bool exactly, struct err *err);
bool pg_schema_older(int64_t version);
bool pg_schema_know(struct pg *pg, struct err *err);
bool pg_schema_make(struct pg *pg, struct err *err);
bool pg_schema_migrate(struct pg *pg, struct err *err); /* under a lock, in one transaction */

/* turn.c */
bool postgres_begin(struct store *store, struct err *err);
void postgres_rollback(struct store *store);
bool postgres_writable(struct store *store);
bool postgres_commit(struct store *store, const struct changes *changes, struct err *err);
/* head_queue: ctid: where the head was read in this transaction; NULL: it wasn't. */
void head_queue(struct pg *pg, const uint8_t key[CHAIN_KEY_BYTES], const struct store_head *head,
    const struct store_head *before, const char *ctid);

/* ready_starts.c */
/* in a turn: is it crowded? Then the starts are true as of the turn's head */
bool ready_start_current(struct postgres_store *self);
/* as the statement ready_tasks, from the class's start on */
bool ready_start_look(struct postgres_store *self, int64_t class_id, int64_t n, PGresult **out, struct err *err);
/* class, n and the class's start; false: it has none, and class and n stand alone */
bool ready_start_args(struct postgres_store *self, int64_t class_id, int64_t n, struct pg_args *out);
/* of a result that has passed over no row */
void ready_start_learn(struct postgres_store *self, int64_t class_id, const PGresult *result);
void ready_start_none(struct postgres_store *self, int64_t class_id); /* the class has no pending task */
/* true: it is known to have none; *out_known: the class has a start */
bool ready_start_empty(struct postgres_store *self, int64_t class_id, bool *out_known);
void ready_start_commit(struct postgres_store *self, const struct changes *changes); /* what a turn is about to add */
void ready_start_follow(struct postgres_store *self, int64_t before); /* that turn is the commit after `before` */
void ready_start_others(struct postgres_store *self, const struct store_head *since, const struct others *others);
void ready_start_forget(struct postgres_store *self);
void ready_start_release(struct postgres_store *self);

/* row_ctids.c. ctids_head_queue: asks for the head, and returns its index in the queue; ctids_head: of a result that
 * has read it, its ctid in the last column. ctids_load: in a turn; once, when it is crowded. ctids_follow: the last
 * exchange was a commit. touched_queue: rows that others wrote since; touched_learn: what came of it. ctid_of_row:
 * NULL: by its key. */
size_t ctids_head_queue(struct postgres_store *self);
void ctids_head(struct postgres_store *self, const PGresult *result);
bool ctids_load(struct postgres_store *self, struct err *err);
void ctids_follow(struct postgres_store *self);
void ctids_forget(struct postgres_store *self);
void ctids_release(struct postgres_store *self);
void arg_ctid(struct pg_args *args, const char *ctid, bool known);
const char *ctid_of_row(const struct postgres_store *self, enum ctids_of what, int64_t id);
/* ctid_claimed_put: of a task that came with ready_first in this turn, at the cells with the places of its rows.
 * ctid_of_claimed: NULL: it didn't. */
void ctid_claimed_put(struct postgres_store *self, int64_t task, struct query *q);
const struct ready_ctid *ctid_of_claimed(const struct postgres_store *self, int64_t task);
void touched_queue(struct postgres_store *self, enum ctids_of what, int64_t since);
bool touched_row(enum ctids_of what, const PGresult *result, int row); /* false: it has only moved */
void touched_learn(struct postgres_store *self, enum ctids_of what, const PGresult *result);

/* others.c: what other servers do */
bool postgres_load_others(
    struct store *store, struct arena *arena, const struct store_head *since, struct others *out, struct err *err);
bool postgres_history_holds(
    struct store *store, int64_t seq, const uint8_t hash[STORE_HASH_BYTES], bool *out_holds, struct err *err);
bool postgres_on_others(
    struct store *store, void (*others)(struct str note, void *owner), void *owner, struct err *err);
void listener_stop(struct postgres_store *self);
void others_queue(struct postgres_store *self, const struct store_head *since);
/* others_keep: takes the results of others_queue, from place `first` on, for load_others. The place behind them. */
size_t others_keep(struct postgres_store *self, const struct store_head *since, size_t first);

/* prefetch_turn.c: rows that come before they are asked for. The finders copy into the arena; false: it isn't here. */
bool postgres_archive_lock(
    struct store *store, struct arena *arena, int64_t lane, struct archive *out, struct err *err);
bool postgres_slot_lock(struct store *store, struct arena *arena, int64_t id, struct slot *out, struct err *err);
bool postgres_expect(struct store *store, const struct turn_needs *needs, struct err *err);
void prefetch_queue(
    struct postgres_store *self, const struct turn_needs *needs, bool begins); /* sends the statements */
/* their results */
bool prefetch_take(struct postgres_store *self, const struct turn_needs *needs, size_t first, struct err *err);
/* rows that are locked now */
bool prefetch_archives_take(struct postgres_store *self, const PGresult *result, struct err *err);
void ids_queue(struct pg *pg, enum sql_id id, const int64_t *ids, size_t n); /* a statement of one list of numbers */
bool prefetch_task(struct postgres_store *self, struct arena *arena, int64_t id, struct task *out);
bool prefetch_edges_of(struct postgres_store *self, struct arena *arena, int64_t pred, int64_t after, size_t most,
    struct edge **out, size_t *out_n); /* load_outs */
bool prefetch_active_grant(struct postgres_store *self, int64_t task, int64_t grant, struct attempt *out);
void prefetch_task_put(struct postgres_store *self, const struct task *row); /* its strings are in prefetch.arena */
void prefetch_forget(struct postgres_store *self);
void prefetch_release(struct postgres_store *self);

/* prefetch_claim.c */
void prefetch_claim_look(struct postgres_store *self); /* a turn has begun: has another server committed since? */
/* within a wide turn; false: it isn't here */
bool prefetch_claim_take(struct postgres_store *self, int64_t class_id, int64_t n, PGresult **out);
/* a claim of this turn has taken n tasks of a class, and there may be more */
void prefetch_claim_wish(struct postgres_store *self, int64_t class_id, int64_t n);
void prefetch_claim_ask(struct postgres_store *self, const struct changes *changes); /* the turn is being committed */
void prefetch_claim_follow(struct postgres_store *self, const struct changes *changes); /* it is; NULL: it failed */
void prefetch_claim_close(struct postgres_store *self);

/* load.c. writer_ask: one statement on the writer's connection; one that is lost outside a turn is made anew once. */
bool writer_ask(
    struct postgres_store *self, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err);
struct sql pg_writer_sql(struct postgres_store *self); /* by writer_ask */
extern const struct store_ops postgres_ops;

#endif
