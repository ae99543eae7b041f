/* schema: what kind of database a file is, and the way from an older schema to ours.
 *
 * application_id says it is Weir's, user_version which schema it has. Migrations only lead forward, each in one transaction that also
 * writes the new version: a crash leaves the old schema or the new one. A newer schema and a foreign database are refused with what to do. */
#include <inttypes.h>
#include <stdio.h>

#include "store/sqlite/rows.h"
#include "store/sqlite/sqlite.h"

bool schema_check(struct db *db, const char *path, int64_t *out_version, struct err *err)
{
    int64_t application, version, objects, planted;
    if (!db_number(db, "PRAGMA application_id", &application, err) || !db_number(db, "PRAGMA user_version", &version, err) ||
        !db_number(db, "SELECT count(*) FROM sqlite_schema", &objects, err) ||
        !db_number(db, "SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'", &planted, err)) {
        if (err->code == ERR_corrupt)
            err_context(err, "%s is not a database, or it is damaged", path);
        return false;
    }
    if (application == 0 && version == 0 && objects == 0) {
        *out_version = 0;
        return true;
    }
    if (application != SQLITE_APPLICATION_ID)
        return err_set(err, ERR_conflict, "%s belongs to another program (application id %" PRId64 "): choose another data directory", path, application);
    if (version > SQL_SCHEMA_VERSION)
        return err_set(err, ERR_conflict, "%s has schema %" PRId64 " and this weir knows up to %d: run the weir that wrote it, or a newer one", path,
                       version, SQL_SCHEMA_VERSION);
    if (version < 1)
        return err_set(err, ERR_corrupt, "%s has schema %" PRId64, path, version);
    if (planted)
        return err_set(err, ERR_corrupt, "%s holds a trigger, a view or a virtual table: none of them is Weir's", path);
    *out_version = version;
    return true;
}

static bool migration_run(struct db *db, int64_t version, struct err *err)
{
    char numbers[128];
    for (const char *const *text = sql_migrations[version]; *text; text++)
        if (!db_exec_text(db, *text, err))
            return false;
    snprintf(numbers, sizeof numbers, "PRAGMA application_id = %d; PRAGMA user_version = %" PRId64, SQLITE_APPLICATION_ID, version + 1);
    return db_exec_text(db, numbers, err);
}

bool schema_migrate(struct db *db, int64_t version, struct err *err)
{
    for (; version < SQL_SCHEMA_VERSION; version++) {
        struct err ignored = { 0 };
        if (!db_exec_text(db, "BEGIN IMMEDIATE", err))
            return false;
        if (!migration_run(db, version, err) || !db_exec_text(db, "COMMIT", err)) {
            (void)db_exec_text(db, "ROLLBACK", &ignored);
            err_context(err, "migration %" PRId64, version + 1);
            return false;
        }
    }
    return true;
}

bool integrity_check(struct db *db, const char *pragma, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(db->conn, pragma, -1, &stmt, NULL) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_ROW) {
        err_set(err, db_code(db, sqlite3_extended_errcode(db->conn)), "%s: %s", pragma, sqlite3_errmsg(db->conn));
        sqlite3_finalize(stmt);
        return false;
    }
    struct str word = column_view(stmt, 0);
    bool ok = str_eqz(word, "ok") || err_set(err, ERR_corrupt, "the database's own check says: %.*s", (int)(word.len < 200 ? word.len : 200), word.ptr);
    sqlite3_finalize(stmt);
    return ok;
}
