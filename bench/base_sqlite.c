/* base_sqlite DATABASE CELL...: what SQLite itself allows (WAL, synchronous=FULL, one writer, prepared statements).
 *
 * A cell is insert:B (B rows a transaction) or cycle:B (B jobs inserted, then claimed, then completed: three
 * transactions). */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static sqlite3 *db;

struct statements {
    sqlite3_stmt *begin, *commit, *insert, *claim, *complete;
};

static void step(sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE) {
        bench_die("sqlite: %s", sqlite3_errmsg(db));
    }
    sqlite3_reset(statement);
}

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK) {
        bench_die("%s: %s", sql, sqlite3_errmsg(db));
    }
    return statement;
}

static void files_remove(const char *path)
{
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < 3; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static struct statements db_open(const char *path)
{
    static const char schema[] =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE jobs(id INTEGER PRIMARY KEY, queue TEXT NOT NULL, state INTEGER NOT NULL,"
        " payload TEXT NOT NULL,"
        " created INTEGER, claimed INTEGER, done INTEGER);"
        "CREATE INDEX jobs_ready ON jobs(queue, id) WHERE state = 0;";
    files_remove(path);
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, schema, NULL, NULL, NULL) != SQLITE_OK) {
        bench_die("%s: %s", path, sqlite3_errmsg(db));
    }
    return (struct statements){
        .begin = prepare("BEGIN IMMEDIATE"),
        .commit = prepare("COMMIT"),
        .insert = prepare("INSERT INTO jobs(queue, state, payload, created) VALUES('default', 0, ?, ?)"),
        .claim =
            prepare("UPDATE jobs SET state = 1, claimed = ?1 WHERE id IN"
                    " (SELECT id FROM jobs WHERE queue = 'default' AND state = 0 ORDER BY id LIMIT ?2) RETURNING id"),
        .complete = prepare("UPDATE jobs SET state = 2, done = ?1 WHERE id = ?2"),
    };
}

static void db_close(struct statements *s, const char *path)
{
    sqlite3_stmt *all[] = { s->begin, s->commit, s->insert, s->claim, s->complete };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sqlite3_finalize(all[i]);
    }
    sqlite3_close(db);
    files_remove(path);
}

static void insert_batch(struct statements *s, int64_t batch)
{
    step(s->begin);
    for (int64_t i = 0; i < batch; i++) {
        sqlite3_bind_text(s->insert, 1, BENCH_PAYLOAD, -1, SQLITE_STATIC);
        sqlite3_bind_int64(s->insert, 2, bench_now_ns());
        step(s->insert);
    }
    step(s->commit);
}

static void cycle_batch(struct statements *s, int64_t batch, int64_t *ids)
{
    insert_batch(s, batch);
    int64_t n = 0;
    step(s->begin);
    sqlite3_bind_int64(s->claim, 1, bench_now_ns());
    sqlite3_bind_int64(s->claim, 2, batch);
    while (sqlite3_step(s->claim) == SQLITE_ROW) {
        ids[n++] = sqlite3_column_int64(s->claim, 0);
    }
    sqlite3_reset(s->claim);
    step(s->commit);
    if (n != batch) {
        bench_die("claimed %lld of %lld", (long long)n, (long long)batch);
    }
    step(s->begin);
    for (int64_t i = 0; i < n; i++) {
        sqlite3_bind_int64(s->complete, 1, bench_now_ns());
        sqlite3_bind_int64(s->complete, 2, ids[i]);
        step(s->complete);
    }
    step(s->commit);
}

static void cell_run(const char *path, const char *cell)
{
    const char *colon = strchr(cell, ':');
    int cycle = !strncmp(cell, "cycle:", 6);
    if (!colon || (!cycle && strncmp(cell, "insert:", 7) != 0)) {
        bench_die("'%s' is neither insert:N nor cycle:N", cell);
    }
    int64_t batch = bench_number(colon + 1), rows = 0;
    int64_t *ids = calloc((size_t)batch, sizeof *ids);
    if (!ids) {
        bench_die("no memory");
    }
    struct statements s = db_open(path);
    struct latencies all = { 0 };
    int64_t start = bench_now_ns(), now = start, end = start + (int64_t)(bench_seconds() * 1e9);
    while (now < end) {
        if (cycle) {
            cycle_batch(&s, batch, ids);
        } else {
            insert_batch(&s, batch);
        }
        rows += batch;
        int64_t then = bench_now_ns();
        latencies_add(&all, then - now);
        now = then;
    }
    char metric[64];
    snprintf(metric, sizeof metric, "%s rate", cell);
    bench_result("sqlite", metric, (double)rows / ((double)(now - start) / 1e9), "rows/s");
    latencies_result(&all, "sqlite", cell);
    latencies_release(&all);
    free(ids);
    db_close(&s, path);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        bench_die("usage: base_sqlite DATABASE insert:N|cycle:N...");
    }
    for (int i = 2; i < argc; i++) {
        cell_run(argv[1], argv[i]);
    }
    return 0;
}
