/* rows: columns -> the structs of core/model.h; private to store/sqlite.
 *
 * Column lists are those of rows.def. Text is copied into the arena. A value that no build of ours can have written (an
 * unknown state letter, a cut-off list) makes the call fail with ERR_corrupt. */
#ifndef WEIR_STORE_SQLITE_ROWS_H
#define WEIR_STORE_SQLITE_ROWS_H

#include "base/buf.h"
#include "store/rows.h"
#include "store/sqlite/db.h"

struct str column_text(sqlite3_stmt *stmt, int column, struct arena *arena);
struct str column_view(sqlite3_stmt *stmt, int column); /* until the next step */

/* The columns of the row that a statement stands at, from left to right. */
struct cells {
    sqlite3_stmt *stmt;
    int at;
};

static inline struct cells cells_of(const struct db *db, enum sql_id id)
{
    return (struct cells){ .stmt = db->stmts[id] };
}

static inline int64_t next_i64(struct cells *c)
{
    return sqlite3_column_int64(c->stmt, c->at++);
}

static inline struct str next_view(struct cells *c) /* until the next step */
{
    return column_view(c->stmt, c->at++);
}

static inline struct str next_text(struct cells *c, struct arena *arena)
{
    return column_text(c->stmt, c->at++, arena);
}

/* row_TABLE: the columns of one table, from where the cells are. False: no build of ours has written this.
 * rows_get_TABLE: the first row of a bound statement that selects these columns. */
#define ROW_FUNCTIONS(table, type, then) \
    bool row_##table(struct cells *c, struct arena *arena, struct type *row); \
    bool rows_get_##table(struct db *db, enum sql_id id, struct arena *arena, struct type *out, bool *out_found, \
        struct err *err);
#define ROWS_READ(T) /* whose rows are read one by one, or in a list; what is done behind its columns */ \
    T(task, task, ) \
    T(spec, spec, ) \
    T(attempt, attempt, attempt_is_over(row);) \
    T(live, attempt, attempt_is_live(row);) \
    T(outputs, task_outputs, ) \
    T(log_tail, log_tail, ) \
    T(edge, edge, ) \
    T(hold, hold, ) \
    T(idempotency, idempotency, ) \
    T(lane, lane, ) \
    T(class, task_class, ) \
    T(slot, slot, ) \
    T(executor, executor, ) \
    T(token, token, ) \
    T(site, site_key, ) \
    T(archive, archive, ) \
    T(revision, revision, ) \
    T(latest, latest, ) \
    T(schedule, schedule, ) \
    T(log_seal, log_seal, ) \
    T(clock, wall_known, ) \
    T(head, store_head, )
ROWS_READ(ROW_FUNCTIONS)

/* All rows of a bound statement that selects the table's columns; each by itself, or in one array. */
#define ROWS_EACH(T) \
    T(lanes, lane, lane) T(classes, class, task_class) T(slots, slot, slot) T(executors, executor, executor) \
    T(tokens, token, token) \
    T(archives, archive, archive)
#define ROWS_ARRAY(T) \
    T(site, site, site_key) T(holds, hold, hold) T(edges, edge, edge) T(lives, live, attempt) T(attempts, attempt, \
        attempt) \
    T(schedules, schedule, schedule) T(revisions, revision, revision)
#define ROWS_EACH_FUNCTION(name, table, type) \
    bool rows_##name(struct db *db, enum sql_id id, struct arena *arena, struct type ***out, size_t *out_n, \
        struct err *err);
#define ROWS_ARRAY_FUNCTION(name, table, type) \
    bool rows_##name(struct db *db, enum sql_id id, struct arena *arena, struct type **out, size_t *out_n, \
        struct err *err);
ROWS_EACH(ROWS_EACH_FUNCTION)
ROWS_ARRAY(ROWS_ARRAY_FUNCTION)

/* the one it stands at; resets it; false */
bool row_damaged(struct db *db, enum sql_id id, const char *table, struct err *err);
bool rows_head(struct db *db, struct store_head *out, uint8_t *out_seal, struct err *err);
bool rows_task(struct db *db, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
/* rows_task_rest: state and numbers alone, without names and texts; for readers. */
bool rows_task_rest(struct db *db, int64_t id, struct task *out, bool *out_found, struct err *err);
bool rows_outputs(struct db *db, struct arena *arena, int64_t task, struct str *out, struct err *err);

#endif
