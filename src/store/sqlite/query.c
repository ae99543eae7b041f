/* query: SQLite's answers, for store/query.h. A statement is bound when it is asked and stepped by each row that is
 * read, so an answer lasts until the statement is reset: by its last row, an error, or `end`. */
#include "store/sqlite/query.h"

static struct str column_view(sqlite3_stmt *stmt, int column)
{
    const char *ptr = sqlite3_column_blob(stmt, column); /* a text column gives its UTF-8 bytes */
    return (struct str){ ptr, ptr ? (size_t)sqlite3_column_bytes(stmt, column) : 0 };
}

static struct str column_text(sqlite3_stmt *stmt, int column, struct arena *arena)
{
    struct str view = column_view(stmt, column);
    return view.len ? str_dup(arena, view) : (struct str){ 0 };
}

#define GET_NUMBER() sqlite3_column_int64(q->stmt, q->at++)
#define GET_VIEW() column_view(q->stmt, q->at++)
#define GET_TEXT() column_text(q->stmt, q->at++, arena)
#define LIVE_IS_READ(row) attempt_is_live(row);
ROWS_READ(ROW_READER)
static row_reader *const readers[ROWS_ID_COUNT] = { ROWS_READ(ROW_READER_OF) };

static bool answer_ask(struct query *q, const struct arg *args, size_t n, struct err *err)
{
    q->stmt = ((struct db *)q->on)->stmts[q->id];
    (void)err;
    for (size_t i = 0; i < n; i++)
        if (args[i].type == ARG_NUMBER)
            bind_i64(q->stmt, (int)i + 1, args[i].number);
        else if (args[i].type == ARG_TEXT)
            bind_text(q->stmt, (int)i + 1, args[i].text);
        else
            bind_bytes(q->stmt, (int)i + 1, args[i].text);
    return true;
}

static enum query_step answer_next(struct query *q, struct err *err)
{
    q->at = 0;
    return db_next(q->on, q->id, err);
}

static void answer_end(struct query *q)
{
    sqlite3_reset(q->stmt);
}

static int64_t answer_number(struct query *q)
{
    return GET_NUMBER();
}

static struct str answer_view(struct query *q)
{
    return GET_VIEW();
}

static bool answer_null(const struct query *q)
{
    return sqlite3_column_type(q->stmt, q->at) == SQLITE_NULL;
}

static const struct query_ops ops = { answer_next, answer_end, answer_number, answer_view, answer_null, readers };

static bool snapshot_begin(void *db, struct err *err)
{
    return db_run(db, SQL_begin, err);
}

static void snapshot_end(void *on)
{
    struct db *db = on;
    struct err ignored = { 0 };
    if (!sqlite3_get_autocommit(db->conn))
        (void)db_run(db, SQL_commit, &ignored);
}

struct sql db_sql(struct db *db)
{
    return (struct sql){ .ops = &ops, .ask = answer_ask, .begin = snapshot_begin, .end = snapshot_end, .on = db };
}

struct query db_query(struct db *db, enum sql_id id)
{
    return (struct query){ .ops = &ops, .on = db, .id = id, .stmt = db->stmts[id] };
}
