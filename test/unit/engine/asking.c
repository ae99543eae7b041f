#include "asking.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>

static sqlite3 *sqlite_open(const struct rig *rig)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/weir.db", rig->dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

int64_t ask(const struct rig *rig, const char *sql)
{
    if (rig->url)
        return rig_database_ask(rig->url, sql);
    sqlite3_stmt *stmt;
    sqlite3 *db = sqlite_open(rig);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

static void tables_of_postgres(const struct rig *rig, void (*table)(void *context, const char *name), void *context)
{
    PGconn *conn = PQconnectdb(rig->url);
    PGresult *result = PQexec(conn, "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = "
                                    "current_schema()::regnamespace ORDER BY 1");
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    for (int i = 0; i < PQntuples(result); i++)
        table(context, PQgetvalue(result, i, 0));
    PQclear(result);
    PQfinish(conn);
}

void ask_tables(const struct rig *rig, void (*table)(void *context, const char *name), void *context)
{
    if (rig->url) {
        tables_of_postgres(rig, table, context);
        return;
    }
    sqlite3_stmt *stmt;
    sqlite3 *db = sqlite_open(rig);
    const char *sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1";
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        table(context, (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

void postgres_open(struct rig *rig, const char *name)
{
    static char url[200];
    rig_database(name, url, sizeof url);
    rig->url = url;
    rig->name = "a";
    rig_open(rig);
}
