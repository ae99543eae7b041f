/* rows: columns -> the structs of core/model.h, and lists packed into one column. See rows.h. */
#include "store/sqlite/rows.h"

#include <string.h>

#include "store/damage.h"

struct str column_view(sqlite3_stmt *stmt, int column)
{
    const char *ptr = sqlite3_column_blob(stmt, column); /* a text column gives its UTF-8 bytes */
    return (struct str){ ptr, ptr ? (size_t)sqlite3_column_bytes(stmt, column) : 0 };
}

struct str column_text(sqlite3_stmt *stmt, int column, struct arena *arena)
{
    struct str view = column_view(stmt, column);
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

void column_bytes(sqlite3_stmt *stmt, int column, void *out, size_t n)
{
    struct str view = column_view(stmt, column);
    memset(out, 0, n);
    if (view.len == n)
        memcpy(out, view.ptr, n);
}

enum task_state column_state(sqlite3_stmt *stmt, int column)
{
    struct str view = column_view(stmt, column);
    return view.len == 1 ? state_of_letter(view.ptr[0]) : STATE_NONE;
}

static bool row_head(sqlite3_stmt *stmt, struct store_head *out)
{
    *out = (struct store_head){
        .incarnation = (uint64_t)sqlite3_column_int64(stmt, 0),
        .turn = sqlite3_column_int64(stmt, 1),
        .seq = sqlite3_column_int64(stmt, 2),
        .next_task = sqlite3_column_int64(stmt, 4),
        .next_spec = sqlite3_column_int64(stmt, 5),
        .next_lane = sqlite3_column_int64(stmt, 6),
        .next_class = sqlite3_column_int64(stmt, 7),
        .next_slot = sqlite3_column_int64(stmt, 8),
        .next_executor = sqlite3_column_int64(stmt, 9),
        .next_token = sqlite3_column_int64(stmt, 10),
        .v_now = sqlite3_column_int64(stmt, 11),
        .commit = sqlite3_column_int64(stmt, 13),
        .time = sqlite3_column_int64(stmt, 14),
    };
    column_bytes(stmt, 3, out->hash, sizeof out->hash);
    return sqlite3_column_bytes(stmt, 3) == sizeof out->hash;
}

void row_lane(sqlite3_stmt *stmt, struct arena *arena, struct lane *out)
{
    *out = (struct lane){
        .id = sqlite3_column_int64(stmt, 0),
        .kind = (enum lane_kind)sqlite3_column_int(stmt, 1),
        .tenant = column_text(stmt, 2, arena),
        .name = column_text(stmt, 3, arena),
        .last_vt = sqlite3_column_int64(stmt, 4),
        .paused_since = sqlite3_column_int64(stmt, 13),
        .paused_by = column_text(stmt, 14, arena),
        .paused_reason = column_text(stmt, 15, arena),
        .log_bytes = sqlite3_column_int64(stmt, 16),
        .file_bytes = sqlite3_column_int64(stmt, 17),
    };
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        out->counts[state] = sqlite3_column_int64(stmt, 5 + state - STATE_Q);
}

/* False: no build of ours has written this. */
static bool row_task(sqlite3_stmt *stmt, struct arena *arena, struct task *out)
{
    *out = (struct task){
        .id = sqlite3_column_int64(stmt, 0),
        .lane = sqlite3_column_int64(stmt, 1),
        .rev = sqlite3_column_int64(stmt, 2),
        .state = column_state(stmt, 3),
        .name = column_text(stmt, 4, arena),
        .variant = column_text(stmt, 5, arena),
        .run = sqlite3_column_int64(stmt, 6),
    };
    if (!task_unpack(column_view(stmt, 7), out))
        return false;
    if (out->reason.len)
        out->reason = str_dup(arena, out->reason);
    if (out->unique.len)
        out->unique = str_dup(arena, out->unique);
    return out->state != STATE_NONE;
}

static void row_begun(sqlite3_stmt *stmt, struct attempt *out)
{
    *out = (struct attempt){
        .task = sqlite3_column_int64(stmt, 0),
        .grant = sqlite3_column_int64(stmt, 1),
        .number = sqlite3_column_int64(stmt, 2),
        .executor = sqlite3_column_int64(stmt, 3),
        .started = sqlite3_column_int64(stmt, 4),
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1,
        .poll_seq = -1,
    };
}

void row_live(sqlite3_stmt *stmt, struct attempt *out)
{
    row_begun(stmt, out);
    out->poll_seq = sqlite3_column_int64(stmt, 5);
}

void row_attempt(sqlite3_stmt *stmt, struct attempt *out)
{
    row_begun(stmt, out);
    out->finished = sqlite3_column_int64(stmt, 5);
    out->exit = sqlite3_column_int64(stmt, 6);
    out->signal = sqlite3_column_int64(stmt, 7);
    out->outcome = outcome_find(column_view(stmt, 8));
    out->cpu_ms = sqlite3_column_int64(stmt, 9);
    out->max_rss_bytes = sqlite3_column_int64(stmt, 10);
    out->log_bytes = sqlite3_column_int64(stmt, 11);
    column_bytes(stmt, 12, out->finish_hash, sizeof out->finish_hash);
    out->ended_before = true;
}

static void row_hold(sqlite3_stmt *stmt, struct hold *out)
{
    *out = (struct hold){
        .kind = (enum hold_kind)sqlite3_column_int(stmt, 0),
        .key = sqlite3_column_int64(stmt, 1),
        .rank = sqlite3_column_int64(stmt, 2),
        .task = sqlite3_column_int64(stmt, 3),
        .since = sqlite3_column_int64(stmt, 4),
    };
}

void row_edge(sqlite3_stmt *stmt, struct edge *out)
{
    *out = (struct edge){
        .waiter = sqlite3_column_int64(stmt, 0),
        .pred = sqlite3_column_int64(stmt, 1),
        .kind = (enum edge_kind)sqlite3_column_int(stmt, 2),
        .flags = (unsigned)sqlite3_column_int64(stmt, 3),
    };
}

static bool row_damaged(struct db *db, enum sql_id id, const char *table, int64_t row, struct err *err)
{
    db_reset(db, id);
    return damage_set(err, "row %lld of table %s can't be read", (long long)row, table);
}

bool rows_lanes(struct db *db, enum sql_id sql, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, sql, err)) == DB_ROW) {
        struct lane *lane = ARENA_NEW(arena, struct lane);
        row_lane(db->stmts[sql], arena, lane);
        *ARENA_PUSH(arena, *out, *out_n, cap) = lane;
    }
    return step == DB_DONE;
}

bool rows_classes(struct db *db, enum sql_id sql, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[sql];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, sql, err)) == DB_ROW) {
        struct task_class *item = ARENA_NEW(arena, struct task_class);
        item->id = sqlite3_column_int64(stmt, 0);
        item->key = column_text(stmt, 1, arena);
        item->tenant = column_text(stmt, 2, arena);
        item->zone = column_text(stmt, 3, arena);
        item->kind = (enum class_kind)sqlite3_column_int(stmt, 4);
        item->goes = sqlite3_column_int(stmt, 6) != 0;
        if (!labels_unpack(column_view(stmt, 5), arena, &item->labels, &item->n_labels))
            return row_damaged(db, sql, "class", item->id, err);
        *ARENA_PUSH(arena, *out, *out_n, cap) = item;
    }
    return step == DB_DONE;
}

bool rows_slots(struct db *db, enum sql_id sql, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[sql];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, sql, err)) == DB_ROW) {
        struct slot *slot = ARENA_NEW(arena, struct slot);
        slot->id = sqlite3_column_int64(stmt, 0);
        slot->tenant = column_text(stmt, 1, arena);
        slot->name = column_text(stmt, 2, arena);
        slot->limit = sqlite3_column_int64(stmt, 3);
        slot->used = sqlite3_column_int64(stmt, 4);
        slot->waiting = sqlite3_column_int64(stmt, 5);
        *ARENA_PUSH(arena, *out, *out_n, cap) = slot;
    }
    return step == DB_DONE;
}

bool rows_executors(struct db *db, enum sql_id sql, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[sql];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, sql, err)) == DB_ROW) {
        struct executor *executor = ARENA_NEW(arena, struct executor);
        *executor = (struct executor){
            .id = sqlite3_column_int64(stmt, 0),
            .name = column_text(stmt, 1, arena),
            .instance = column_text(stmt, 2, arena),
            .host = column_text(stmt, 3, arena),
            .version = column_text(stmt, 4, arena),
            .zone = column_text(stmt, 5, arena),
            .slots = sqlite3_column_int64(stmt, 6),
            .kinds = (unsigned)sqlite3_column_int64(stmt, 7),
            .state = (enum executor_state)sqlite3_column_int(stmt, 9),
            .registered = sqlite3_column_int64(stmt, 10),
            .processed = sqlite3_column_int64(stmt, 11),
            .failed = sqlite3_column_int64(stmt, 12),
            .tenant = column_text(stmt, 13, arena),
            .owner = sqlite3_column_int64(stmt, 14),
            .silent = sqlite3_column_int64(stmt, 15),
        };
        if (!labels_unpack(column_view(stmt, 8), arena, &executor->labels, &executor->n_labels))
            return row_damaged(db, sql, "executor", executor->id, err);
        *ARENA_PUSH(arena, *out, *out_n, cap) = executor;
    }
    return step == DB_DONE;
}

bool rows_site(struct db *db, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_site];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, SQL_site, err)) == DB_ROW)
        *ARENA_PUSH(arena, *out, *out_n, cap) = (struct site_key){ .name = column_text(stmt, 0, arena),
            .body = column_text(stmt, 1, arena),
            .version = sqlite3_column_int64(stmt, 2),
            .changed = sqlite3_column_int64(stmt, 3),
            .changed_by = column_text(stmt, 4, arena) };
    return step == DB_DONE;
}

bool rows_tokens(struct db *db, enum sql_id sql, struct arena *arena, struct token ***out, size_t *out_n, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[sql];
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, sql, err)) == DB_ROW) {
        struct token *token = ARENA_NEW(arena, struct token);
        token->id = sqlite3_column_int64(stmt, 0);
        token->name = column_text(stmt, 1, arena);
        token->tenant = column_text(stmt, 2, arena);
        if (column_view(stmt, 3).len != sizeof token->hash) /* zeros instead would be a hash somebody could look for */
            return row_damaged(db, sql, "token", token->id, err);
        column_bytes(stmt, 3, token->hash, sizeof token->hash);
        token->scopes = (unsigned)sqlite3_column_int64(stmt, 4);
        token->created = sqlite3_column_int64(stmt, 5);
        token->expires = sqlite3_column_int64(stmt, 6);
        *ARENA_PUSH(arena, *out, *out_n, cap) = token;
    }
    return step == DB_DONE;
}

bool rows_head(struct db *db, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    enum db_step step = db_next(db, SQL_head_get, err);
    if (step == DB_ERROR)
        return false;
    bool ok = step == DB_ROW && row_head(db->stmts[SQL_head_get], out);
    if (ok && out_seal)
        column_bytes(db->stmts[SQL_head_get], 12, out_seal, STORE_HASH_BYTES);
    db_reset(db, SQL_head_get);
    return ok || damage_set(err, "the head row is missing or damaged: run weir verify");
}

bool rows_task(struct db *db, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_task_get];
    bind_i64(stmt, 1, id);
    enum db_step step = db_next(db, SQL_task_get, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    if (step == DB_ROW) {
        if (!row_task(stmt, arena, out))
            return row_damaged(db, SQL_task_get, "task", id, err);
        db_reset(db, SQL_task_get);
    }
    return true;
}

bool rows_task_rest(struct db *db, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_task_rest];
    bind_i64(stmt, 1, id);
    enum db_step step = db_next(db, SQL_task_rest, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    *out = (struct task){ .id = id };
    if (step == DB_ROW) {
        out->state = column_state(stmt, 0);
        if (!task_unpack(column_view(stmt, 1), out))
            return row_damaged(db, SQL_task_rest, "task", id, err);
        out->reason = out->unique = (struct str){ 0 }; /* they end with the statement */
        db_reset(db, SQL_task_rest);
    }
    return true;
}

bool rows_outputs(struct db *db, struct arena *arena, int64_t task, struct str *out, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[SQL_outputs_get];
    bind_i64(stmt, 1, task);
    enum db_step step = db_next(db, SQL_outputs_get, err);
    if (step == DB_ERROR)
        return false;
    *out = step == DB_ROW ? column_text(stmt, 0, arena) : (struct str){ 0 };
    db_reset(db, SQL_outputs_get);
    return true;
}

bool rows_holds(struct db *db, enum sql_id id, struct arena *arena, struct hold **out, size_t *out_n, struct err *err)
{
    size_t cap = 0;
    enum db_step step;
    *out = NULL, *out_n = 0;
    while ((step = db_next(db, id, err)) == DB_ROW)
        row_hold(db->stmts[id], ARENA_PUSH(arena, *out, *out_n, cap));
    return step == DB_DONE;
}
