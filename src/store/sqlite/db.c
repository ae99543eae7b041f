/* db: one SQLite connection with its statements.
 *
 * Owns how a connection is opened (defensive, no extensions, no triggers or views from the file, no attaching) and how
 * SQLite's codes become ours: full -> disk_full, damaged -> corrupt (and noted: damage.h), I/O -> outcome_unknown while
 * committing and io elsewhere, busy -> unavailable. */
#include "store/sqlite/db.h"

#include <pthread.h>
#include <string.h>

#include "store/damage.h"
#include "store/sqlite/wal_file.h"

static const struct {
    int op, value;
} hardening[] = {
    { SQLITE_DBCONFIG_DEFENSIVE, 1 },
    { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
    { SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
    { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
    { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
    { SQLITE_DBCONFIG_DQS_DML, 0 },
    { SQLITE_DBCONFIG_DQS_DDL, 0 },
};

enum err_code db_code(const struct db *db, int rc)
{
    if (rc == SQLITE_IOERR_CORRUPTFS || rc == SQLITE_IOERR_DATA)
        return ERR_corrupt; /* the file system's own checksums say so */
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return ERR_disk_full;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_corrupt;
    case SQLITE_IOERR:
        return db->committing ? ERR_outcome_unknown : ERR_io;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
        return ERR_io;
    case SQLITE_NOMEM: /* what was begun is rolled back: it may be asked for again */
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_unavailable;
    default:
        return ERR_internal;
    }
}

static bool connection_fail(struct db *db, const char *what, struct err *err)
{
    int rc = db->conn ? sqlite3_extended_errcode(db->conn) : SQLITE_NOMEM;
    enum err_code code = db_code(db, rc);
    const char *words = db->conn ? sqlite3_errmsg(db->conn) : "no memory";
    if (code == ERR_corrupt)
        return damage_set(err, "%s: %s (SQLite %d)", what, words, rc);
    return err_set(err, code, "%s: %s (SQLite %d)", what, words, rc);
}

bool db_fail(struct db *db, enum sql_id id, struct err *err)
{
    connection_fail(db, sql_texts[id].name, err);
    sqlite3_reset(db->stmts[id]);
    return false;
}

/* SQLite's count of its memory is a lock around every allocation, and nobody reads it. */
static void memory_count_off(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* refused, harmlessly, when SQLite is already running */
}

static bool connect_as(struct db *db, const char *path, int flags, bool writes, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, memory_count_off);
    const char *vfs = writes ? wal_file_vfs() : NULL; /* after memory_count_off: it starts SQLite */
    memset(db, 0, sizeof *db);
    if (sqlite3_open_v2(path, &db->conn, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs) != SQLITE_OK) {
        connection_fail(db, path, err);
        db_close(db);
        return false;
    }
    for (size_t i = 0; i < sizeof hardening / sizeof hardening[0]; i++)
        sqlite3_db_config(db->conn, hardening[i].op, hardening[i].value, NULL);
    sqlite3_limit(db->conn, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_busy_timeout(db->conn, DB_BUSY_MS);
    if (!db_exec(db, SQL_pragma_all, err)) {
        err_context(err, "%s", path);
        db_close(db);
        return false;
    }
    return true;
}

bool db_connect(struct db *db, const char *path, int flags, struct err *err)
{
    return connect_as(db, path, flags, false, err);
}

bool db_connect_writer(struct db *db, const char *path, struct err *err)
{
    return connect_as(db, path, SQLITE_OPEN_READWRITE, true, err);
}

bool db_prepare(struct db *db, unsigned users, struct err *err)
{
    for (int id = 0; id < SQL_COUNT; id++) {
        if (!(sql_texts[id].users & users))
            continue;
        if (sqlite3_prepare_v3(db->conn, sql_texts[id].text, -1, SQLITE_PREPARE_PERSISTENT, &db->stmts[id], NULL) !=
            SQLITE_OK)
            return connection_fail(db, sql_texts[id].name, err);
    }
    return true;
}

void db_close(struct db *db)
{
    for (int id = 0; id < SQL_COUNT; id++)
        sqlite3_finalize(db->stmts[id]);
    if (db->conn) {
        int rc = sqlite3_close(db->conn);
        ASSERT(rc == SQLITE_OK); /* else a statement was left open */
    }
    memset(db, 0, sizeof *db);
}

bool db_exec_all(struct db *db, const char *const *texts, struct err *err)
{
    for (; *texts; texts++)
        if (sqlite3_exec(db->conn, *texts, NULL, NULL, NULL) != SQLITE_OK)
            return connection_fail(db, *texts, err);
    return true;
}

bool db_exec(struct db *db, enum sql_id id, struct err *err)
{
    return sqlite3_exec(db->conn, sql_texts[id].text, NULL, NULL, NULL) == SQLITE_OK ||
           connection_fail(db, sql_texts[id].name, err);
}

bool db_number(struct db *db, enum sql_id id, int64_t *out, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->conn, sql_texts[id].text, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    bool ok = rc == SQLITE_ROW || rc == SQLITE_DONE || (connection_fail(db, sql_texts[id].name, err), false);
    if (ok)
        *out = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return ok;
}
