/* load: what the engine reads while it decides: single rows by key and 'the first N by rank'.
 *
 * Every statement is a walk along an index (golden plans: test/golden/plans_sqlite.txt), so that no load grows with the queue. What is
 * returned is as of the last commit and lives in the caller's arena. */
#include <stdio.h>
#include <string.h>

#include "store/damage.h"
#include "store/sqlite/archives.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite.h"

static bool load_head(struct store *store, struct store_head *out, struct err *err)
{
    return rows_head(&sqlite_of(store)->db, out, NULL, err);
}

static bool load_lanes(struct store *store, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    return rows_lanes(&sqlite_of(store)->db, SQL_lanes, arena, out, out_n, err);
}

static bool load_classes(struct store *store, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    return rows_classes(&sqlite_of(store)->db, SQL_classes, arena, out, out_n, err);
}

static bool load_slots(struct store *store, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err)
{
    return rows_slots(&sqlite_of(store)->db, SQL_slots, arena, out, out_n, err);
}

static bool load_executors(struct store *store, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err)
{
    return rows_executors(&sqlite_of(store)->db, SQL_executors, arena, out, out_n, err);
}

static bool load_tokens(
    struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_tokens_after];
    sqlite3_bind_int64(stmt, 1, after);
    sqlite3_bind_int64(stmt, 2, most < INT64_MAX ? (int64_t)most : INT64_MAX);
    return rows_tokens(db, SQL_tokens_after, arena, out, out_n, err);
}

static bool load_site(struct store *store, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    return rows_site(&sqlite_of(store)->db, arena, out, out_n, err);
}

static bool load_clock(struct store *store, struct wall_known *out, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_clock_get];
    enum db_step step = db_next(db, SQL_clock_get, err);
    if (step == DB_ERROR)
        return false;
    *out = (struct wall_known){ 0 };
    if (step == DB_DONE)
        return true;
    *out = (struct wall_known){ sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 2) };
    db_reset(db, SQL_clock_get);
    return true;
}

static bool load_live(struct store *store, struct arena *arena, struct attempt **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_lives, err)) == DB_ROW)
        row_live(db->stmts[SQL_lives], ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}

static bool load_task(struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return rows_task(&sqlite_of(store)->db, arena, id, out, out_found, err);
}

static bool load_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n,
                       struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    enum sql_id sql = by_pred ? SQL_edges_by_pred : SQL_edges_by_waiter;
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(db->stmts[sql], 1, id);
    while ((step = db_next(db, sql, err)) == DB_ROW)
        row_edge(db->stmts[sql], ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}

static bool load_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out, size_t *out_n,
                      struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_outs_after];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(stmt, 1, id);
    bind_i64(stmt, 2, after);
    bind_i64(stmt, 3, (int64_t)n);
    while ((step = db_next(db, SQL_outs_after, err)) == DB_ROW)
        row_edge(stmt, ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}

static bool load_others_outs(
    struct store *store, struct arena *arena, int64_t id, enum edge_kind but, struct edge **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_outs_others];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(stmt, 1, id);
    bind_i64(stmt, 2, but);
    while ((step = db_next(db, SQL_outs_others, err)) == DB_ROW)
        row_edge(stmt, ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}

static bool load_spec(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_spec_get];
    bind_i64(stmt, 1, id);
    enum db_step step = db_next(db, SQL_spec_get, err);
    if (step == DB_ERROR)
        return false;
    if (step == DB_DONE)
        return damage_set(err, "spec %lld is missing", (long long)id);
    *out = (struct spec){
        .id = sqlite3_column_int64(stmt, 0),
        .body = column_text(stmt, 1, arena),
        .attempts_max = sqlite3_column_int64(stmt, 2),
        .backoff_ms = sqlite3_column_int64(stmt, 3),
        .retry_on = (unsigned)sqlite3_column_int64(stmt, 4),
        .slot_key = column_text(stmt, 6, arena),
        .semaphores = column_text(stmt, 7, arena),
        .class_key = column_text(stmt, 8, arena),
    };
    struct str slots = column_view(stmt, 5);
    int64_t *ids = NULL;
    bool ok = !slots.len || numbers_unpack(slots, arena, &ids, &out->n_slots);
    out->slots = ids;
    db_reset(db, SQL_spec_get);
    return ok || damage_set(err, "the slots of spec %lld can't be read", (long long)id);
}

static bool load_attempt(struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    static const struct { enum sql_id sql; void (*row)(sqlite3_stmt *, struct attempt *); } tables[] = {
        { SQL_live_get, row_live }, { SQL_attempt_get, row_attempt },
    };
    struct db *db = &sqlite_of(store)->db;
    *out_found = false;
    for (size_t i = 0; i < 2 && !*out_found; i++) {
        sqlite3_stmt *stmt = db->stmts[tables[i].sql];
        bind_i64(stmt, 1, task);
        bind_i64(stmt, 2, grant);
        enum db_step step = db_next(db, tables[i].sql, err);
        if (step == DB_ERROR)
            return false;
        if (step == DB_ROW) {
            tables[i].row(stmt, out);
            db_reset(db, tables[i].sql);
            *out_found = true;
        }
    }
    return true;
}

static bool load_outputs(struct store *store, struct arena *arena, int64_t task, struct str *out_json, struct err *err)
{
    return rows_outputs(&sqlite_of(store)->db, arena, task, out_json, err);
}

static bool load_log_seal(struct store *store, int64_t task, int64_t grant, struct log_seal *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_log_seal_get];
    bind_i64(stmt, 1, task);
    bind_i64(stmt, 2, grant);
    enum db_step step = db_next(db, SQL_log_seal_get, err);
    *out_found = step == DB_ROW;
    if (step == DB_ROW) {
        *out = (struct log_seal){ .task = task, .grant = grant, .bytes = sqlite3_column_int64(stmt, 0) };
        struct str hash = column_view(stmt, 1);
        memcpy(out->hash, hash.ptr, hash.len < LOG_HASH_BYTES ? hash.len : LOG_HASH_BYTES);
        db_reset(db, SQL_log_seal_get);
    }
    return step != DB_ERROR;
}

static bool ready_first(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out, size_t *out_n,
                        struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_ready_first];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    bind_i64(stmt, 1, class_id);
    bind_i64(stmt, 2, (int64_t)n);
    while ((step = db_next(db, SQL_ready_first, err)) == DB_ROW)
        *ARENA_PUSH(arena, *out, *out_n, cap) = (struct ready_row){
            .task = sqlite3_column_int64(stmt, 0),
            .prio = -sqlite3_column_int64(stmt, 1),
            .vt = sqlite3_column_int64(stmt, 2),
        };
    return step == DB_DONE;
}

static bool holds_due(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key_max, size_t n, struct hold **out,
                      size_t *out_n,
                      struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_holds_due], 1, kind);
    bind_i64(db->stmts[SQL_holds_due], 2, key_max);
    bind_i64(db->stmts[SQL_holds_due], 3, (int64_t)n);
    return rows_holds(db, SQL_holds_due, arena, out, out_n, err);
}

static bool holds_of(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out, size_t *out_n,
                     struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_holds_of], 1, kind);
    bind_i64(db->stmts[SQL_holds_of], 2, key);
    bind_i64(db->stmts[SQL_holds_of], 3, (int64_t)n);
    return rows_holds(db, SQL_holds_of, arena, out, out_n, err);
}

static bool holds_after(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after, size_t n,
                        struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_holds_after], 1, kind);
    bind_i64(db->stmts[SQL_holds_after], 2, after->key);
    bind_i64(db->stmts[SQL_holds_after], 3, after->rank);
    bind_i64(db->stmts[SQL_holds_after], 4, after->task);
    bind_i64(db->stmts[SQL_holds_after], 5, (int64_t)n);
    return rows_holds(db, SQL_holds_after, arena, out, out_n, err);
}

static bool holds_of_task(struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_holds_of_task], 1, task);
    return rows_holds(db, SQL_holds_of_task, arena, out, out_n, err);
}

static bool unique_find(struct store *store, struct str tenant, struct str key, int64_t *out_task, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_unique_get];
    bind_text(stmt, 1, tenant);
    bind_text(stmt, 2, key);
    enum db_step step = db_next(db, SQL_unique_get, err);
    if (step == DB_ERROR)
        return false;
    *out_task = step == DB_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    db_reset(db, SQL_unique_get);
    return true;
}

static bool idempotency_find(struct store *store, struct arena *arena, struct str tenant, struct str token, struct str route,
                             struct str key,
                             struct idempotency *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    sqlite3_stmt *stmt = db->stmts[SQL_idempotency_get];
    bind_text(stmt, 1, tenant);
    bind_text(stmt, 2, token);
    bind_text(stmt, 3, route);
    bind_text(stmt, 4, key);
    enum db_step step = db_next(db, SQL_idempotency_get, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    if (step == DB_DONE)
        return true;
    *out = (struct idempotency){
        .tenant = str_dup(arena, tenant),
        .token = str_dup(arena, token),
        .route = str_dup(arena, route),
        .key = str_dup(arena, key),
        .status = sqlite3_column_int(stmt, 1),
        .expires = sqlite3_column_int64(stmt, 3),
    };
    column_bytes(stmt, 0, out->body_hash, sizeof out->body_hash);
    int64_t *ids = NULL;
    bool ok = numbers_unpack(column_view(stmt, 2), arena, &ids, &out->n_ids);
    out->ids = ids;
    db_reset(db, SQL_idempotency_get);
    return ok || damage_set(err, "the ids of idempotency key %.*s can't be read", STR_ARG(key));
}

static bool idempotency_expire(struct store *store, int64_t now, size_t n_max, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_idempotency_delete], 1, now);
    bind_i64(db->stmts[SQL_idempotency_delete], 2, (int64_t)n_max);
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
    .close = sqlite_store_close,
    .begin = sqlite_begin,
    .rollback = sqlite_rollback,
    .commit = sqlite_commit,
    .load_head = load_head,
    .load_lanes = load_lanes,
    .load_classes = load_classes,
    .load_slots = load_slots,
    .load_executors = load_executors,
    .load_tokens = load_tokens,
    .load_site = load_site,
    .load_clock = load_clock,
    .load_live = load_live,
    .load_task = load_task,
    .load_edges = load_edges,
    .load_outs = load_outs,
    .load_others_outs = load_others_outs,
    .load_spec = load_spec,
    .load_attempt = load_attempt,
    .load_outputs = load_outputs,
    .load_log_seal = load_log_seal,
    .ready_first = ready_first,
    .holds_due = holds_due,
    .holds_of = holds_of,
    .holds_after = holds_after,
    .holds_of_task = holds_of_task,
    .unique_find = unique_find,
    .idempotency_find = idempotency_find,
    .idempotency_expire = idempotency_expire,
    .load_archives = sqlite_load_archives,
    .load_schedules = sqlite_load_schedules,
    .load_revision = sqlite_load_revision,
    .revision_of_ident = sqlite_revision_of_ident,
    .latest_find = sqlite_latest_find,
    .task_upto = sqlite_task_upto,
    .task_find = sqlite_task_find,
    .tasks_open = sqlite_tasks_open,
    .tasks_after = sqlite_tasks_after,
    .size_bytes = size_bytes,
};
