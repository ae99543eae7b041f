/* reader: the parts of the PostgreSQL reader, for each other; private to store/postgres. */
#ifndef WEIR_STORE_POSTGRES_READER_H
#define WEIR_STORE_POSTGRES_READER_H

#include "store/postgres/postgres.h"

extern const struct reader_ops postgres_reader_ops;

enum { RETRY_MS = 500 }; /* a database that is away isn't asked more often: who asks us isn't kept waiting for it */

struct postgres_reader {
    struct reader port; /* first */
    struct pg pg;
    char *url;
    bool hurried;     /* pg_hurry */
    int64_t limit_ms; /* boot time: nothing is asked later; what was asked before then has its own limit. 0: none */
    /* after a connection that didn't come about: not before then, unless the engine's has come about meanwhile */
    int64_t retry_ms;
    int retry_epoch;
};

static inline struct postgres_reader *postgres_reader_of(struct reader *reader)
{
    return (struct postgres_reader *)(void *)reader;
}

/* reader_ask: one statement, its own snapshot; a connection that was lost is made anew once. */
bool reader_ask(
    struct postgres_reader *self, enum pg_id id, const struct pg_args *args, PGresult **out, struct err *err);
/* reader_ready: a connection that was lost is made anew before a snapshot of several statements begins. */
bool reader_ready(struct postgres_reader *self, struct err *err);
/* reader_lost_midway: after a call of several statements has failed: was it for the connection? Then err is empty
 * again. */
bool reader_lost_midway(struct postgres_reader *self, struct err *err);
void pg_snapshot_end(struct postgres_reader *self);
/* an array; lives until the next */
void arg_ids(struct postgres_reader *self, struct pg_args *args, const int64_t *ids, size_t n);

/* views_load: the views of these tasks (ids descending), inside a snapshot. Those that are gone are left out. */
bool views_load(struct postgres_reader *self, struct arena *arena, const int64_t *ids, size_t n, struct task_view **out,
    size_t *out_n, struct err *err);

/* verify.c: inside a transaction of the caller's */
bool pg_verify_inside(
    struct postgres_reader *self, const uint8_t key[CHAIN_KEY_BYTES], struct verify_report *out, struct err *err);

/* tasks.c */
bool postgres_read_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter,
    struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err);

#endif
