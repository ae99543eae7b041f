/* rows: columns -> the structs of core/model.h, and lists packed into one column; private to store/sqlite.
 *
 * Column lists are those of sql/load.sql. Text is copied into the arena. A value that no build of ours can have written (an unknown state
 * letter, a cut-off list) makes the call fail with ERR_corrupt. */
#ifndef WEIR_STORE_SQLITE_ROWS_H
#define WEIR_STORE_SQLITE_ROWS_H

#include "base/buf.h"
#include "store/cells.h"
#include "store/sqlite/db.h"
#include "store/store.h"

struct str column_text(sqlite3_stmt *stmt, int column, struct arena *arena);
struct str column_view(sqlite3_stmt *stmt, int column); /* until the next step */
void column_bytes(sqlite3_stmt *stmt, int column, void *out, size_t n); /* zeros when the column holds another size */
enum task_state column_state(sqlite3_stmt *stmt, int column);

void row_lane(sqlite3_stmt *stmt, struct arena *arena, struct lane *out);
void row_attempt(sqlite3_stmt *stmt, struct attempt *out);
void row_live(sqlite3_stmt *stmt, struct attempt *out);
void row_edge(sqlite3_stmt *stmt, struct edge *out);

/* All rows of a statement that selects the table's columns. */
bool rows_lanes(struct db *db, enum sql_id sql, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err);
bool rows_classes(struct db *db, enum sql_id sql, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err);
bool rows_slots(struct db *db, enum sql_id sql, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err);
bool rows_executors(struct db *db, enum sql_id sql, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err);
bool rows_site(struct db *db, struct arena *arena, struct site_key **out, size_t *out_n, struct err *err);
bool rows_tokens(struct db *db, enum sql_id sql, struct arena *arena, struct token ***out, size_t *out_n, struct err *err);

bool rows_head(struct db *db, struct store_head *out, uint8_t *out_seal, struct err *err);
bool rows_task(struct db *db, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
/* rows_task_rest: state and numbers alone, without names and texts; for readers. */
bool rows_task_rest(struct db *db, int64_t id, struct task *out, bool *out_found, struct err *err);
bool rows_outputs(struct db *db, struct arena *arena, int64_t task, struct str *out, struct err *err);
/* Steps a bound statement that selects the columns of a hold. */
bool rows_holds(struct db *db, enum sql_id id, struct arena *arena, struct hold **out, size_t *out_n, struct err *err);

#endif
