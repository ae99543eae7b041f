/* reader: a connection that only reads; private to store/postgres. */
#ifndef WEIR_STORE_POSTGRES_READER_H
#define WEIR_STORE_POSTGRES_READER_H

#include "store/postgres/postgres.h"

enum { RETRY_MS = 500 }; /* a database that is away isn't asked more often: who asks us isn't kept waiting for it */

struct postgres_reader {
    struct reader port; /* first */
    struct pg pg;
    char *url;
    bool hurried;           /* pg_hurry */
    bool in_snapshot;       /* of several statements */
    struct pg_bulk letters; /* the states that a list is of, as text[] */
    int64_t limit_ms; /* boot time: nothing is asked later; what was asked before then has its own limit. 0: none */
    /* after a connection that didn't come about: not before then, unless the engine's has come about meanwhile */
    int64_t retry_ms;
    int retry_epoch;
};

static inline struct postgres_reader *postgres_reader_of(struct reader *reader)
{
    return (struct postgres_reader *)(void *)reader;
}

/* pg_reader_sql: each statement has its own snapshot, and a connection that was lost is made anew once, unless it is
 * within begin and end. snapshots false: the caller has begun a transaction. */
struct sql pg_reader_sql(struct postgres_reader *self, bool snapshots);

/* verify.c: inside a transaction of the caller's */
bool pg_verify_inside(
    struct postgres_reader *self, const uint8_t key[CHAIN_KEY_BYTES], struct verify_report *out, struct err *err);

#endif
