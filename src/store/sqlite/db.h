/* db: one SQLite connection with its statements; private to store/sqlite.
 *
 * Statements are prepared when the connection is opened and bound by number: tools/embed_sql writes ?N, which SQLite
 * takes at its word. Text and bytes are bound without a copy: they must live until the statement has been stepped. A
 * connection is used by one thread at a time. */
#ifndef WEIR_STORE_SQLITE_DB_H
#define WEIR_STORE_SQLITE_DB_H

#include <sqlite3.h>

#include "base/err.h"
#include "base/str.h"
#include "store/query.h"

enum { DB_BUSY_MS = 5000 }; /* how long a connection waits for a lock another holds */

struct db {
    sqlite3 *conn;
    sqlite3_stmt *stmts[SQL_COUNT];
    bool committing; /* an I/O error now means: outcome unknown */
};

/* db_connect: opens the file (which must exist) with hardening on, nothing prepared yet. flags: SQLITE_OPEN_READONLY or
 * _READWRITE. */
bool db_connect(struct db *db, const char *path, int flags, struct err *err);
/* db_connect_writer: db_connect to read and write, for a connection with synchronous = FULL (wal_file.h). */
bool db_connect_writer(struct db *db, const char *path, struct err *err);
bool db_prepare(struct db *db, unsigned users, struct err *err); /* SQL_FOR_ bits */
void db_close(struct db *db);
bool db_exec(struct db *db, enum sql_id id, struct err *err);               /* a text for exec, its rows are ignored */
bool db_exec_all(struct db *db, const char *const *texts, struct err *err); /* a migration's, ended by NULL */
/* for exec: the first column of the first row; 0: no row */
bool db_number(struct db *db, enum sql_id id, int64_t *out, struct err *err);

/* db_fail: fills err from the connection's last error, in SQLite's words and with the name of the statement; resets it;
 * false. */
bool db_fail(struct db *db, enum sql_id id, struct err *err);
enum err_code db_code(const struct db *db, int rc);

/* db_run: steps a statement that gives no rows. */
static inline bool db_run(struct db *db, enum sql_id id, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[id];
    if (sqlite3_step(stmt) != SQLITE_DONE)
        return db_fail(db, id, err);
    sqlite3_reset(stmt);
    return true;
}

/* db_next: QUERY_DONE and QUERY_ERROR have reset the statement. Who stops at a row calls db_reset. */
static inline enum query_step db_next(struct db *db, enum sql_id id, struct err *err)
{
    sqlite3_stmt *stmt = db->stmts[id];
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return QUERY_ROW;
    if (rc != SQLITE_DONE)
        return db_fail(db, id, err), QUERY_ERROR;
    sqlite3_reset(stmt);
    return QUERY_DONE;
}

static inline void db_reset(struct db *db, enum sql_id id)
{
    sqlite3_reset(db->stmts[id]);
}

static inline void bind_i64(sqlite3_stmt *stmt, int n, int64_t value)
{
    int rc = sqlite3_bind_int64(stmt, n, value);
    ASSERT(rc == SQLITE_OK);
}

static inline void bind_text(sqlite3_stmt *stmt, int n, struct str s)
{
    int rc = sqlite3_bind_text64(stmt, n, s.len ? s.ptr : "", s.len, SQLITE_STATIC, SQLITE_UTF8);
    ASSERT(rc == SQLITE_OK);
}

/* Parameters one behind the other, from the first, or from one on. */
static inline void bind_numbers(sqlite3_stmt *stmt, const int64_t *numbers, int n)
{
    for (int i = 0; i < n; i++)
        bind_i64(stmt, i + 1, numbers[i]);
}
#define BIND_NUMBERS(stmt, ...) \
    bind_numbers((stmt), (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

static inline void bind_texts(sqlite3_stmt *stmt, int first, const struct str *texts, int n)
{
    for (int i = 0; i < n; i++)
        bind_text(stmt, first + i, texts[i]);
}
#define BIND_TEXTS(stmt, first, ...) \
    bind_texts((stmt), (first), (const struct str[]){ __VA_ARGS__ }, \
        (int)(sizeof((struct str[]){ __VA_ARGS__ }) / sizeof(struct str)))

static inline void bind_blob(sqlite3_stmt *stmt, int n, const void *bytes, size_t len)
{
    int rc = sqlite3_bind_blob64(stmt, n, len ? bytes : "", len, SQLITE_STATIC);
    ASSERT(rc == SQLITE_OK);
}

static inline void bind_bytes(sqlite3_stmt *stmt, int n, struct str bytes)
{
    bind_blob(stmt, n, bytes.ptr, bytes.len);
}

static inline void bind_null(sqlite3_stmt *stmt, int n)
{
    int rc = sqlite3_bind_null(stmt, n);
    ASSERT(rc == SQLITE_OK);
}

#endif
