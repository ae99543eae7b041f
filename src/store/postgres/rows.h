/* rows: cells of a result -> the structs of core/model.h; private to store/postgres.
 *
 * Column lists are those of sql/load.sql. Text is copied into the arena. A value that no build of ours can have written makes the call fail
 * with ERR_corrupt. */
#ifndef WEIR_STORE_POSTGRES_ROWS_H
#define WEIR_STORE_POSTGRES_ROWS_H

#include "store/cells.h"
#include "store/postgres/pg.h"
#include "store/store.h"

struct str cell_text(const PGresult *result, int row, int column, struct arena *arena);
void cell_bytes(const PGresult *result, int row, int column, void *out, size_t n); /* zeros when the cell has another size */
enum task_state cell_state(const PGresult *result, int row, int column);

bool pg_row_head(const PGresult *result, struct store_head *out, uint8_t *out_seal, struct err *err); /* NULL: no seal */
bool pg_row_task(const PGresult *result, int row, struct arena *arena, struct task *out, struct err *err);
void pg_row_lane(const PGresult *result, int row, struct arena *arena, struct lane *out);
void pg_row_attempt(const PGresult *result, int row, struct attempt *out);
void pg_row_live(const PGresult *result, int row, struct attempt *out);
void pg_row_edge(const PGresult *result, int row, struct edge *out);
bool pg_row_damaged(const char *table, int64_t row, struct err *err);

/* Whole results, in the order of the statement. */
bool pg_rows_lanes(const PGresult *result, struct arena *arena, struct lane ***out, size_t *out_n, struct err *err);
bool pg_rows_classes(const PGresult *result, struct arena *arena, struct task_class ***out, size_t *out_n, struct err *err);
bool pg_rows_slots(const PGresult *result, struct arena *arena, struct slot ***out, size_t *out_n, struct err *err);
bool pg_rows_executors(const PGresult *result, struct arena *arena, struct executor ***out, size_t *out_n, struct err *err);
bool pg_rows_site(const PGresult *result, struct arena *arena, struct site_key **out, size_t *out_n);
bool pg_rows_tokens(const PGresult *result, struct arena *arena, struct token ***out, size_t *out_n, struct err *err);
bool pg_rows_holds(const PGresult *result, struct arena *arena, struct hold **out, size_t *out_n);

#endif
