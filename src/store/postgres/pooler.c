/* pooler: see pooler.h.
 *
 * A pooler is recognised by the process id of the backend: libpq got another one than the database itself reports.
 * Whether the pooler shares connections is tried, not read from its settings: while a second connection has a
 * transaction open, the first must keep its backend and the second must have another one. A pooler that shares gives
 * the second connection the backend that was used last, which is the first one's. The result holds until the engine
 * reconnects. */
#include "store/postgres/pooler.h"

#include <stdatomic.h>
#include <string.h>

#include "io/clock.h"

enum { TRIES = 3, SUSPECT_MS = 2000 };

static _Atomic bool fits; /* the pooler in front keeps connections apart */
/* boot ms: it was seen not to, though its tries went well: other clients had been busy */
static _Atomic int64_t lent_until;

void pooler_forget(void)
{
    fits = false;
}

static bool pooler_refuse(const struct pg *pg, const char *why, struct err *err)
{
    return err_set(err, ERR_conflict,
        "%s: set pool_mode = session for it in pgbouncer.ini, or name PostgreSQL itself in the URL: the "
        "pooler lends connections by transaction or statement (%s), and locks, prepared statements and notifications "
        "live in a "
        "connection",
        pg->place, why);
}

bool pooler_lent(struct pg *pg, const char *state, struct err *err)
{
    bool lent = pg->backend && pg->backend != PQbackendPID(pg->conn) && state &&
                (!strcmp(state, "26000") || !strcmp(state, "42P05"));
    if (!lent)
        return false;
    fits = false;
    lent_until = clock_boot_ms() + SUSPECT_MS;
    pg->lost = true;
    (void)pooler_refuse(pg, "prepared statements are another client's", err);
    return true;
}

static bool backend_get(struct pg *pg, int *out, struct err *err)
{
    int64_t number;
    if (!pg_number(pg, SQL_session_backend, &number, err))
        return false;
    *out = (int)number;
    return true;
}

/* One try, with a second connection that has begun a transaction. */
static bool sharing_try(struct pg *pg, struct pg *other, struct err *err)
{
    int own, others;
    if (!pg_exec(other, SQL_exec_begin, err))
        return strstr(err->text, "pooling mode") ? pooler_refuse(pg, "it refuses transactions", err) : false;
    if (!backend_get(other, &others, err) || !backend_get(pg, &own, err) || !pg_exec(other, SQL_exec_rollback, err))
        return false;
    if (others == pg->backend)
        return pooler_refuse(pg, "two connections have one process of the database", err);
    return own == pg->backend || pooler_refuse(pg, "the process of the database changes", err);
}

bool pooler_check(struct pg *pg, const char *const *keys, const char *const *values, struct err *err)
{
    if (!backend_get(pg, &pg->backend, err))
        return false;
    if (pg->backend == PQbackendPID(pg->conn) || fits)
        return true;
    if (clock_boot_ms() < lent_until)
        return pooler_refuse(pg, "prepared statements are another client's", err);
    struct pg other = { .answer_by_ms = pg->answer_by_ms, .hello = true };
    memcpy(other.place, pg->place, sizeof other.place);
    other.conn = PQconnectdbParams(keys, values, 1);
    bool ok = (other.conn && PQstatus(other.conn) == CONNECTION_OK) ||
              err_set(err, ERR_unreachable, "the store: %s: a second connection is refused", pg->place);
    for (int i = 0; ok && i < TRIES; i++)
        ok = sharing_try(pg, &other, err);
    pg->silent = pg->silent || other.silent;
    pg_close(&other);
    fits = ok;
    return ok;
}
