/* rows: columns -> the structs of core/model.h. See rows.h. */
#include "store/sqlite/rows.h"

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

bool row_damaged(struct db *db, enum sql_id id, const char *table, struct err *err)
{
    struct cells c = cells_of(db, id);
    int64_t row = next_i64(&c);
    db_reset(db, id);
    return damage_set(err, "row %lld of table %s can't be read", (long long)row, table);
}

#define GET_NUMBER() next_i64(c)
#define GET_VIEW() next_view(c)
#define GET_TEXT() next_text(c, arena)
#define ROW_READER(table, type, then) \
    bool row_##table(struct cells *c, struct arena *arena, struct type *row) \
    { \
        bool ok = true; \
        (void)arena; \
        *row = (struct type){ 0 }; \
        ROW_##table(ROW_GET) then \
        return ok; \
    } \
    bool rows_get_##table(struct db *db, enum sql_id id, struct arena *arena, struct type *out, bool *out_found, \
        struct err *err) \
    { \
        struct cells c = cells_of(db, id); \
        enum db_step step = db_next(db, id, err); \
        *out_found = step == DB_ROW; \
        if (step != DB_ROW) \
            return step == DB_DONE; \
        if (!row_##table(&c, arena, out)) \
            return row_damaged(db, id, #table, err); \
        db_reset(db, id); \
        return true; \
    }
ROWS_READ(ROW_READER)

#define ROWS_EACH_READER(name, table, type) \
    bool rows_##name(struct db *db, enum sql_id id, struct arena *arena, struct type ***out, size_t *out_n, \
        struct err *err) \
    { \
        size_t cap = 0; \
        enum db_step step; \
        *out = NULL, *out_n = 0; \
        while ((step = db_next(db, id, err)) == DB_ROW) { \
            struct cells c = cells_of(db, id); \
            struct type *row = *ARENA_PUSH(arena, *out, *out_n, cap) = ARENA_NEW(arena, struct type); \
            if (!row_##table(&c, arena, row)) \
                return row_damaged(db, id, #table, err); \
        } \
        return step == DB_DONE; \
    }
ROWS_EACH(ROWS_EACH_READER)

#define ROWS_ARRAY_READER(name, table, type) \
    bool rows_##name(struct db *db, enum sql_id id, struct arena *arena, struct type **out, size_t *out_n, \
        struct err *err) \
    { \
        size_t cap = 0; \
        enum db_step step; \
        *out = NULL, *out_n = 0; \
        while ((step = db_next(db, id, err)) == DB_ROW) { \
            struct cells c = cells_of(db, id); \
            if (!row_##table(&c, arena, ARENA_PUSH(arena, *out, *out_n, cap))) \
                return row_damaged(db, id, #table, err); \
        } \
        return step == DB_DONE; \
    }
ROWS_ARRAY(ROWS_ARRAY_READER)

bool rows_head(struct db *db, struct store_head *out, uint8_t *out_seal, struct err *err)
{
    struct cells c = cells_of(db, SQL_head_get);
    enum db_step step = db_next(db, SQL_head_get, err);
    if (step == DB_ERROR)
        return false;
    bool ok = step == DB_ROW && row_head(&c, NULL, out);
    if (ok) {
        uint8_t seal[STORE_HASH_BYTES];
        (void)row_bytes(next_view(&c), out_seal ? out_seal : seal, STORE_HASH_BYTES);
        out->commit = next_i64(&c);
        out->time = next_i64(&c);
    }
    db_reset(db, SQL_head_get);
    return ok || damage_set(err, "the head row is missing or damaged: run weir verify");
}

bool rows_task(struct db *db, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    bind_i64(db->stmts[SQL_task_get], 1, id);
    return rows_get_task(db, SQL_task_get, arena, out, out_found, err);
}

bool rows_task_rest(struct db *db, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct cells c = cells_of(db, SQL_task_rest);
    bind_i64(c.stmt, 1, id);
    enum db_step step = db_next(db, SQL_task_rest, err);
    if (step == DB_ERROR)
        return false;
    *out_found = step == DB_ROW;
    *out = (struct task){ .id = id };
    if (step == DB_ROW) {
        out->state = row_state(next_view(&c));
        bool ok = task_unpack(next_view(&c), out);
        out->reason = out->unique = (struct str){ 0 }; /* they end with the statement */
        db_reset(db, SQL_task_rest);
        if (!ok)
            return damage_set(err, "row %lld of table task can't be read", (long long)id);
    }
    return true;
}

bool rows_outputs(struct db *db, struct arena *arena, int64_t task, struct str *out, struct err *err)
{
    struct task_outputs row = { 0 };
    bool found;
    bind_i64(db->stmts[SQL_outputs_get], 1, task);
    if (!rows_get_outputs(db, SQL_outputs_get, arena, &row, &found, err))
        return false;
    *out = row.json;
    return true;
}
