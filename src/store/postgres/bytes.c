/* bytes: connections for logs and kept files. See bytes.h.
 *
 * They aren't the engine's, so a turn never waits for a megabyte of somebody's output. Fails like pg.h; a database that
 * is away isn't asked more often than every RETRY_MS, and until then says ERR_unavailable at once. */
#include "store/postgres/bytes.h"

#include <string.h>

#include "io/clock.h"
#include "store/postgres/timeline.h"

enum { RETRY_MS = 500 };

static bool bytes_connect(struct bytes_pg *self, struct err *err)
{
    struct pg *pg = &self->pg;
    bool ok = pg_connect(pg, self->url, err) && pg_writable(pg, err) && pg_exec(pg, SQL_session_durable, err) &&
              (!self->hurried || pg_hurry(pg, err)) && pg_prepare(pg, SQL_FOR_BYTES, err);
    /* what a lost connection has written is asked for again, and found */
    if (ok && pg_run(pg, SQL_barrier, NULL, NULL, err))
        return true;
    pg->lost = true;
    self->retry_ms = clock_boot_ms() + RETRY_MS;
    return false;
}

static bool bytes_ask_query(struct query *q, const struct arg *args, size_t n, struct err *err)
{
    PGresult *result;
    return bytes_ask(q->on, q->id, pg_args_fill(&(struct pg_args){ 0 }, args, n), &result, err) && pg_answer(q, result);
}

void bytes_open_later(struct bytes_pg *self, const char *url)
{
    self->sql = (struct sql){ .ops = &pg_query_ops, .ask = bytes_ask_query, .on = self };
    size_t n = strlen(url) + 1;
    self->url = mem_alloc(n);
    memcpy(self->url, url, n);
    self->pg.lost = true;
}

bool bytes_open(struct bytes_pg *self, const char *url, struct err *err)
{
    bytes_open_later(self, url);
    self->pg.lost = false;
    return bytes_connect(self, err);
}

void bytes_close(struct bytes_pg *self)
{
    pg_close(&self->pg);
    if (self->url)
        explicit_bzero(self->url, strlen(self->url)); /* it may hold a password */
    mem_free(self->url);
    self->url = NULL;
}

bool bytes_ready(struct bytes_pg *self, struct err *err)
{
    if (!self->pg.lost && timeline_current(&self->pg))
        return true;
    if (writer_is_away() || (self->pg.lost && clock_boot_ms() < self->retry_ms))
        return err_set(err, ERR_unavailable, "the database of the store is away");
    pg_close(&self->pg);
    return bytes_connect(self, err);
}

bool bytes_ask(struct bytes_pg *self, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err)
{
    struct err why = { 0 };
    if (!bytes_ready(self, err))
        return false;
    if (pg_run(&self->pg, id, args, out, &why))
        return true;
    if (!self->pg.lost)
        return err_set(err, why.code, "%s", why.text);
    return bytes_ready(self, err) && pg_run(&self->pg, id, args, out, err);
}

void bytes_rollback(struct bytes_pg *self)
{
    struct err ignored = { 0 };
    if (!self->pg.lost)
        (void)pg_run(&self->pg, SQL_bytes_rollback, NULL, NULL, &ignored);
}
