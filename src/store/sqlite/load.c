/* load: what the engine reads of a SQLite store beside store/load.c: what the PostgreSQL store does in another way. */
#include "store/load.h"

#include <stdio.h>

#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

static bool ready_first(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    struct query q;
    size_t cap = 0;
    enum query_step step = QUERY_ERROR;
    *out = NULL, *out_n = 0;
    if (!ASK(&q, &store->sql, SQL_ready_first, err, NUM(class_id), NUM(n)))
        return false;
    while ((step = query_next(&q, err)) == QUERY_ROW) {
        struct ready_row *row = ARENA_PUSH(arena, *out, *out_n, cap);
        row->task = next_i64(&q);
        row->prio = -next_i64(&q);
        row->vt = next_i64(&q);
    }
    return step == QUERY_DONE;
}

static bool idempotency_expire(struct store *store, int64_t now, size_t n_max, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_idempotency_delete], now, (int64_t)n_max);
    return db_run(db, SQL_idempotency_delete, err);
}

static int64_t size_bytes(struct store *store)
{
    struct sqlite_store *self = sqlite_of(store);
    char wal[FILES_PATH_MAX + 8];
    snprintf(wal, sizeof wal, "%s-wal", self->path);
    return file_size(self->path) + file_size(wal);
}

const struct store_ops sqlite_ops = {
    SQL_LOADS(SQL_LOAD_MEMBER) SQL_LOADS_PLAIN(SQL_LOAD_MEMBER).close = sqlite_store_close,
    .begin = sqlite_begin,
    .rollback = sqlite_rollback,
    .commit = sqlite_commit,
    .ready_first = ready_first,
    .idempotency_expire = idempotency_expire,
    .size_bytes = size_bytes,
};
