/* load: what the engine reads while it decides: single rows by key and 'the first N by rank'.
 *
 * Every statement is a walk along an index (golden plans: test/golden/plans_sqlite.txt), so that no load grows with the
 * queue. What is returned is as of the last commit and lives in the caller's arena. */
#include <stdio.h>

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

static bool load_classes(
    struct store *store, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    return rows_classes(&sqlite_of(store)->db, SQL_classes, arena, out, out_n, err);
}

static bool load_slots(struct store *store, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err)
{
    return rows_slots(&sqlite_of(store)->db, SQL_slots, arena, out, out_n, err);
}

static bool load_executors(
    struct store *store, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err)
{
    return rows_executors(&sqlite_of(store)->db, SQL_executors, arena, out, out_n, err);
}

static bool load_tokens(struct store *store, struct arena *arena, int64_t after, size_t most, struct token ***out,
    size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_tokens_after], after, most < INT64_MAX ? (int64_t)most : INT64_MAX);
    return rows_tokens(db, SQL_tokens_after, arena, out, out_n, err);
}

static bool load_site(struct store *store, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    return rows_site(&sqlite_of(store)->db, SQL_site, arena, out, out_n, err);
}

static bool load_clock(struct store *store, struct wall_known *out, struct err *err)
{
    bool found;
    *out = (struct wall_known){ 0 };
    return rows_get_clock(&sqlite_of(store)->db, SQL_clock_get, NULL, out, &found, err);
}

static bool load_active_grants(
    struct store *store, struct arena *arena, struct attempt **out, size_t *out_n, struct err *err)
{
    return rows_lives(&sqlite_of(store)->db, SQL_lives, arena, out, out_n, err);
}

static bool load_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    return rows_task(&sqlite_of(store)->db, arena, id, out, out_found, err);
}

static bool load_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    enum sql_id sql = by_pred ? SQL_edges_by_pred : SQL_edges_by_waiter;
    bind_i64(db->stmts[sql], 1, id);
    return rows_edges(db, sql, arena, out, out_n, err);
}

static bool load_outs(struct store *store, struct arena *arena, int64_t id, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_outs_after], id, after, (int64_t)n);
    return rows_edges(db, SQL_outs_after, arena, out, out_n, err);
}

static bool load_others_outs(struct store *store, struct arena *arena, int64_t id, enum edge_kind but,
    struct edge **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_outs_others], id, but);
    return rows_edges(db, SQL_outs_others, arena, out, out_n, err);
}

static bool load_spec(struct store *store, struct arena *arena, int64_t id, struct spec *out, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bool found;
    bind_i64(db->stmts[SQL_spec_get], 1, id);
    return rows_get_spec(db, SQL_spec_get, arena, out, &found, err) &&
           (found || damage_set(err, "spec %lld is missing", (long long)id));
}

static bool load_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_live_get], task, grant);
    if (!rows_get_live(db, SQL_live_get, NULL, out, out_found, err) || *out_found)
        return *out_found;
    BIND_NUMBERS(db->stmts[SQL_attempt_get], task, grant);
    return rows_get_attempt(db, SQL_attempt_get, NULL, out, out_found, err);
}

static bool load_outputs(struct store *store, struct arena *arena, int64_t task, struct str *out_json, struct err *err)
{
    return rows_outputs(&sqlite_of(store)->db, arena, task, out_json, err);
}

static bool load_log_seal(
    struct store *store, int64_t task, int64_t grant, struct log_seal *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_log_seal_get], task, grant);
    return rows_get_log_seal(db, SQL_log_seal_get, NULL, out, out_found, err);
}

static bool ready_first(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    BIND_NUMBERS(db->stmts[SQL_ready_first], class_id, (int64_t)n);
    while ((step = db_next(db, SQL_ready_first, err)) == DB_ROW) {
        struct cells c = cells_of(db, SQL_ready_first);
        struct ready_row *row = ARENA_PUSH(arena, *out, *out_n, cap);
        row->task = next_i64(&c);
        row->prio = -next_i64(&c);
        row->vt = next_i64(&c);
    }
    return step == DB_DONE;
}

static bool holds_due(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key_max, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_holds_due], kind, key_max, (int64_t)n);
    return rows_holds(db, SQL_holds_due, arena, out, out_n, err);
}

static bool holds_of(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_holds_of], kind, key, (int64_t)n);
    return rows_holds(db, SQL_holds_of, arena, out, out_n, err);
}

static bool holds_after(struct store *store, struct arena *arena, enum hold_kind kind, const struct hold *after,
    size_t n, struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_NUMBERS(db->stmts[SQL_holds_after], kind, after->key, after->rank, after->task, (int64_t)n);
    return rows_holds(db, SQL_holds_after, arena, out, out_n, err);
}

static bool holds_of_task(
    struct store *store, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    bind_i64(db->stmts[SQL_holds_of_task], 1, task);
    return rows_holds(db, SQL_holds_of_task, arena, out, out_n, err);
}

static bool unique_find(struct store *store, struct str tenant, struct str key, int64_t *out_task, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    struct cells c = cells_of(db, SQL_unique_get);
    BIND_TEXTS(c.stmt, 1, tenant, key);
    enum db_step step = db_next(db, SQL_unique_get, err);
    if (step == DB_ERROR)
        return false;
    *out_task = step == DB_ROW ? next_i64(&c) : 0;
    db_reset(db, SQL_unique_get);
    return true;
}

static bool idempotency_find(struct store *store, struct arena *arena, struct str tenant, struct str token,
    struct str route, struct str key, struct idempotency *out, bool *out_found, struct err *err)
{
    struct db *db = &sqlite_of(store)->db;
    BIND_TEXTS(db->stmts[SQL_idempotency_get], 1, tenant, token, route, key);
    return rows_get_idempotency(db, SQL_idempotency_get, arena, out, out_found, err);
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
    .load_active_grants = load_active_grants,
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
