/* rows: cells of a result -> the structs of core/model.h; private to store/postgres.
 *
 * Column lists are those of rows.def. Text is copied into the arena. A value that no build of ours can have written
 * makes the call fail with ERR_corrupt. */
#ifndef WEIR_STORE_POSTGRES_ROWS_H
#define WEIR_STORE_POSTGRES_ROWS_H

#include "store/postgres/pg.h"
#include "store/rows.h"

/* The cells of one row, from left to right. */
struct cells {
    const PGresult *result;
    int row, at;
};

static inline struct cells cells_of(const PGresult *result, int row)
{
    return (struct cells){ .result = result, .row = row };
}

static inline int64_t next_i64(struct cells *c)
{
    return cell_i64(c->result, c->row, c->at++);
}

static inline struct str next_view(struct cells *c) /* as long as the result is there */
{
    return cell_view(c->result, c->row, c->at++);
}

static inline struct str next_text(struct cells *c, struct arena *arena)
{
    struct str view = next_view(c);
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

/* row_TABLE: the columns of one table, from where the cells are. rows_get_TABLE: the first row of a result of these
 * columns, if there is one. */
#define ROW_FUNCTIONS(table, type, then) \
    bool pg_row_##table(struct cells *c, struct arena *arena, struct type *row, struct err *err); \
    bool pg_rows_get_##table(const PGresult *result, struct arena *arena, struct type *out, bool *out_found, \
        struct err *err);
#define ROWS_READ(T) /* whose rows are read one by one, or in a list; what is done behind its columns */ \
    T(task, task, ) \
    T(spec, spec, ) \
    T(attempt, attempt, attempt_is_over(row);) \
    T(live, attempt, live_is_read(c, row);) \
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
    T(server, server_row, ) \
    T(duty, duty, )
ROWS_READ(ROW_FUNCTIONS)

/* Whole results, in the order of the statement; each by itself, or in one array. */
#define ROWS_EACH(T) \
    T(lanes, lane, lane) T(classes, class, task_class) T(slots, slot, slot) T(executors, executor, executor) \
    T(tokens, token, token) \
    T(archives, archive, archive)
#define ROWS_ARRAY(T) \
    T(site, site, site_key) T(holds, hold, hold) T(edges, edge, edge) T(lives, live, attempt) T(schedules, \
        schedule, schedule) \
    T(revisions, revision, revision) T(servers, server, server_row) T(duties, duty, duty)
#define ROWS_EACH_FUNCTION(name, table, type) \
    bool pg_rows_##name(const PGresult *result, struct arena *arena, struct type ***out, size_t *out_n, \
        struct err *err);
#define ROWS_ARRAY_FUNCTION(name, table, type) \
    bool pg_rows_##name(const PGresult *result, struct arena *arena, struct type **out, size_t *out_n, struct err *err);
ROWS_EACH(ROWS_EACH_FUNCTION)
ROWS_ARRAY(ROWS_ARRAY_FUNCTION)

bool pg_row_damaged(const char *table, int64_t row, struct err *err); /* false */
/* NULL: no seal */
bool pg_row_head(const PGresult *result, struct store_head *out, uint8_t *out_seal, struct err *err);
/* zeros when the cell has another size */
void cell_bytes(const PGresult *result, int row, int column, void *out, size_t n);

#endif
