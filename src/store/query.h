/* query: a statement asked of either database, its parameters, its rows and their cells; private to store.
 *
 * What both databases are asked in the same way is written once over this (load.c, reader.c, tasks.c, verify_source.c):
 * a statement has one number (enum sql_id), whatever words a database has for it. A database gives a struct sql: how a
 * statement is asked on one of its connections, and how an answer is walked. A row is read by row_TABLE, get_TABLE,
 * list_TABLE and each_TABLE, which are made from rows.def; anything else cell by cell, from left to right. Text is
 * copied into the arena; a view lives until the next row. A cell that no build of ours can have written is
 * ERR_corrupt. */
#ifndef WEIR_STORE_QUERY_H
#define WEIR_STORE_QUERY_H

#include "store/rows.h"
#include "store_sql.h"

struct arg { /* a parameter; what it points to lives until the rows were read */
    enum { ARG_NUMBER, ARG_TEXT, ARG_BYTES } type;
    int64_t number;
    struct str text;
};
#define NUM(n) ((struct arg){ .number = (int64_t)(n) })
#define TXT(s) ((struct arg){ .type = ARG_TEXT, .text = (s) })
#define BYTES(s) ((struct arg){ .type = ARG_BYTES, .text = (s) })

struct query { /* a statement that was asked, at one of its rows */
    const struct query_ops *ops;
    void *on; /* of struct sql */
    enum sql_id id;
    union { /* SQLite's statement, PostgreSQL's result */
        struct sqlite3_stmt *stmt;
        const struct pg_result *result;
    };
    int row, n_rows; /* n_rows 0: it isn't known before the last one */
    int at;          /* the next cell */
};

/* Tables whose rows are read one by one, or in a list; what is done behind their columns. */
#define ROWS_READ(T) \
    T(task, task, ) \
    T(spec, spec, ) \
    T(attempt, attempt, attempt_is_over(row);) \
    T(live, attempt, LIVE_IS_READ(row)) \
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
    T(changeset, changeset, ) \
    T(changeset_file, changeset_file, ) \
    T(clock, wall_known, ) \
    T(server, server_row, ) \
    T(duty, duty, ) \
    T(head, store_head, )
#define ROWS_ID(table, type, then) ROWS_##table,
enum rows_id { ROWS_READ(ROWS_ID) ROWS_ID_COUNT };

typedef bool row_reader(struct query *q, struct arena *arena, void *out);
enum query_step { QUERY_ERROR = -1, QUERY_DONE, QUERY_ROW };
struct query_ops {
    enum query_step (*next)(struct query *q, struct err *err); /* the next row, from its first cell on */
    void (*end)(struct query *q);                              /* for who stops at a row */
    int64_t (*number)(struct query *q);                        /* the next cell; NULL: 0 */
    struct str (*view)(struct query *q);                       /* likewise; NULL: empty */
    bool (*null)(const struct query *q);                       /* is it NULL? */
    /* Made by ROW_READER in the file that knows the cells: a row costs no call for each of them. */
    row_reader *const *rows;
};
#define ROW_READER(table, type, then) \
    static bool read_##table(struct query *q, struct arena *arena, void *out) \
    { \
        struct type *row = out; \
        bool ok = true; \
        (void)arena; \
        *row = (struct type){ 0 }; \
        ROW_##table(ROW_GET) then return ok; \
    }
#define ROW_READER_OF(table, type, then) [ROWS_##table] = read_##table,

static inline bool query_ask(
    struct query *q, const struct sql *sql, enum sql_id id, const struct arg *args, size_t n, struct err *err)
{
    *q = (struct query){ .ops = sql->ops, .on = sql->on, .id = id };
    return sql->ask(q, args, n, err);
}
#define ARGS(...) \
    (const struct arg[]){ __VA_ARGS__ }, sizeof((const struct arg[]){ __VA_ARGS__ }) / sizeof(struct arg)
#define ASK(q, sql, id, err, ...) query_ask((q), (sql), (id), ARGS(__VA_ARGS__), (err))

/* A snapshot. What goes wrong on the way out doesn't matter to what was read. */
static inline bool sql_begin(const struct sql *sql, struct err *err)
{
    return !sql->begin || sql->begin(sql->on, err);
}

static inline void sql_end(const struct sql *sql)
{
    if (sql->end)
        sql->end(sql->on);
}

static inline enum query_step query_next(struct query *q, struct err *err)
{
    return q->ops->next(q, err);
}

static inline int64_t next_i64(struct query *q)
{
    return q->ops->number(q);
}

static inline struct str next_view(struct query *q)
{
    return q->ops->view(q);
}

static inline struct str next_text(struct query *q, struct arena *arena)
{
    struct str view = next_view(q);
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

/* query_row: the columns of a table from where the row's cells are. query_get: the first row. query_list: all rows, in
 * one array; query_each: each by itself. */
bool query_row(struct query *q, enum rows_id table, struct arena *arena, void *out, struct err *err);
bool query_get(struct query *q, enum rows_id table, struct arena *arena, void *out, bool *out_found, struct err *err);
bool query_list(struct query *q, enum rows_id table, struct arena *arena, void **out, size_t *out_n, struct err *err);
bool query_each(struct query *q, enum rows_id table, struct arena *arena, void ***out, size_t *out_n, struct err *err);
#define ROW_FUNCTIONS(table, type, then) \
    static inline bool row_##table(struct query *q, struct arena *arena, struct type *out, struct err *err) \
    { \
        return query_row(q, ROWS_##table, arena, out, err); \
    } \
    static inline bool get_##table(struct query *q, struct arena *arena, struct type *out, bool *out_found, \
        struct err *err) \
    { \
        return query_get(q, ROWS_##table, arena, out, out_found, err); \
    } \
    static inline bool list_##table(struct query *q, struct arena *arena, struct type **out, size_t *out_n, \
        struct err *err) \
    { \
        return query_list(q, ROWS_##table, arena, (void **)out, out_n, err); \
    } \
    static inline bool each_##table(struct query *q, struct arena *arena, struct type ***out, size_t *out_n, \
        struct err *err) \
    { \
        return query_each(q, ROWS_##table, arena, (void ***)out, out_n, err); \
    }
ROWS_READ(ROW_FUNCTIONS)

/* query_numbers: the first row's numbers; zeros: there is none. query_ids: the first number of every row. */
bool query_numbers(struct query *q, int64_t *out[], size_t n, bool *out_found, struct err *err);
bool query_ids(struct query *q, struct arena *arena, int64_t **out, size_t *out_n, struct err *err);
bool query_head(struct query *q, struct store_head *out, uint8_t *out_seal, struct err *err); /* out_seal may be NULL */
bool row_damaged(struct query *q, const char *table, int64_t row, struct err *err);           /* ends it; false */

/* What both the engine and readers ask for. */
bool ask_head(const struct sql *sql, struct store_head *out, uint8_t *out_seal, struct err *err);
bool ask_task(
    const struct sql *sql, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err);
bool ask_spec(
    const struct sql *sql, struct arena *arena, int64_t id, struct spec *out, bool *out_found, struct err *err);
bool ask_outputs(const struct sql *sql, struct arena *arena, int64_t task, struct str *out, struct err *err);
bool ask_holds_of(const struct sql *sql, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err);
bool ask_holds_of_task(
    const struct sql *sql, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err);
bool ask_revision(const struct sql *sql, struct arena *arena, int64_t lane, int64_t rev, struct revision *out,
    bool *out_found, struct err *err);
bool ask_revision_of_ident(const struct sql *sql, int64_t lane, struct str ident, int64_t *out_rev, struct err *err);
bool ask_changeset(
    const struct sql *sql, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err);
bool ask_changeset_find(const struct sql *sql, struct str tenant, struct str csid, int64_t *out_task, struct err *err);
/* The events of a row of turns_since and its kind. */
bool query_events(struct query *q, struct arena *arena, struct event **out, size_t *out_n, struct err *err);

#endif
