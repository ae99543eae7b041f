/* schema: what kind of database a file is, and the way from an older schema to ours.
 *
 * application_id says it is Weir's, user_version which schema it has. Migrations only lead forward, each in one
 * transaction that also writes the new version: a crash leaves the old schema or the new one. A newer schema and a
 * foreign database are refused with what to do. */
#include <inttypes.h>
#include <string.h>

#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

bool schema_check(struct db *db, const char *path, int64_t *out_version, struct err *err)
{
    int64_t application, version, objects, planted;
    if (!db_number(db, SQL_application_id, &application, err) || !db_number(db, SQL_user_version, &version, err) ||
        !db_number(db, SQL_count_objects, &objects, err) || !db_number(db, SQL_count_planted, &planted, err)) {
        if (err->code == ERR_corrupt)
            err_context(err, "%s is not a database, or it is damaged", path);
        return false;
    }
    if (application == 0 && version == 0 && objects == 0) {
        *out_version = 0;
        return true;
    }
    if (application != SQL_APPLICATION_ID)
        return err_set(err, ERR_conflict,
            "%s belongs to another program (application id %" PRId64 "): choose another data directory", path,
            application);
    if (version > SQL_SCHEMA_VERSION)
        return err_set(err, ERR_conflict,
            "%s has schema %" PRId64 " and this weir knows up to %d: run the weir that wrote it, or a newer one", path,
            version, SQL_SCHEMA_VERSION);
    if (version < 1)
        return err_set(err, ERR_corrupt,
            "%s has schema %" PRId64 " and this weir leads on from 1: bring it there with an older weir first", path,
            version);
    if (planted)
        return err_set(err, ERR_corrupt, "%s holds a trigger, a view or a virtual table: none of them is Weir's", path);
    *out_version = version;
    return true;
}

bool schema_ours(struct db *db, const char *path, struct err *err)
{
    int64_t version = 0;
    if (!schema_check(db, path, &version, err))
        return false;
    return version == SQL_SCHEMA_VERSION ||
           err_set(err, ERR_unavailable, "%s has schema %d: start weir serve once to bring it to %d", path,
               (int)version, SQL_SCHEMA_VERSION);
}

bool db_open_read(struct db *db, const char *dir, unsigned users, struct err *err)
{
    char path[FILES_PATH_MAX];
    if (!path_join(path, dir, "weir.db", err))
        return false;
    if (!file_exists(path))
        return err_set(err, ERR_not_found, "there is no store at %s", path);
    return db_connect(db, path, SQLITE_OPEN_READONLY, err) && schema_ours(db, path, err) &&
           db_exec(db, SQL_pragma_reader, err) && db_prepare(db, users, err);
}

/* A migration's last statements write the new version (tools/embed_sql). */
bool schema_migrate(struct db *db, int64_t version, struct err *err)
{
    for (; version < SQL_SCHEMA_VERSION; version++) {
        struct err ignored = { 0 };
        if (!db_exec(db, SQL_begin_immediate, err))
            return false;
        if (!db_exec_all(db, sql_migrations[version], err) || !db_exec(db, SQL_migration_commit, err)) {
            (void)db_exec(db, SQL_migration_rollback, &ignored);
            err_context(err, "migration %" PRId64, version + 1);
            return false;
        }
    }
    return true;
}

bool integrity_check(struct db *db, enum sql_id id, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(db->conn, sql_texts[id].text, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW) {
        err_set(err, db_code(db, sqlite3_extended_errcode(db->conn)), "%s: %s", sql_texts[id].name,
            sqlite3_errmsg(db->conn));
        sqlite3_finalize(stmt);
        return false;
    }
    const char *word = (const char *)sqlite3_column_text(stmt, 0);
    bool ok = (word && strcmp(word, "ok") == 0) ||
              err_set(err, ERR_corrupt, "the database's own check says: %.200s", word ? word : "");
    sqlite3_finalize(stmt);
    return ok;
}
