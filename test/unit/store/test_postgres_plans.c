/* Query plans on PostgreSQL are golden, as those of SQLite are: a statement that begins to scan or sort shows here before it shows in
 * production. They are the generic plans that the store's sessions use, made on tables with rows and statistics, so that they are the same
 * wherever this runs. Run by test/lib/postgres.py, which starts the database.
 * usage: test_postgres_plans GOLDEN; WEIR_GOLDEN_WRITE=1 writes the file anew. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"
#include "world.h"

enum { COLUMNS_MAX = 40 };

static const char *golden_path;
static const char *const bytes_fill[] = { /* tables that only PostgreSQL has */
    "INSERT INTO log (task, grant_no, bytes, sealed) SELECT n, n, n, 0 FROM generate_series(1, 500) n",
    "INSERT INTO log_chunk (task, grant_no, start_byte, bytes) SELECT n, n, n, '' FROM generate_series(1, 500) n",
    "INSERT INTO blob (hash, bytes, used) SELECT n, n, n FROM generate_series(1, 500) n",
    "INSERT INTO blob_chunk (hash, n, bytes) SELECT n, n, '' FROM generate_series(1, 500) n",
    "INSERT INTO mark (server, nonce) SELECT n, n FROM generate_series(1, 500) n",
};

static PGresult *sql(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    return result;
}

/* Every column of the rows 1 .. 500 holds the row's number. What is there already stays. */
static void table_fill(PGconn *conn, const struct pg_table *table)
{
    const char *values[COLUMNS_MAX];
    struct buf rows;
    int n = (int)strlen(table->types);
    assert_true(n <= COLUMNS_MAX);
    buf_init(&rows, 1 << 16);
    for (int i = 1; i <= 500; i++)
        buf_addf(&rows, "%c%d", i == 1 ? '{' : ',', i);
    buf_addf(&rows, "}");
    for (int i = 0; i < n; i++)
        values[i] = buf_str(&rows).ptr;
    PQclear(PQexecParams(conn, pg_texts[table->in].text, n, NULL, values, NULL, NULL, 0)); /* a table with rows may refuse it */
    buf_release(&rows);
}

/* Rows enough that an index is worth while, and what the planner knows of them. */
static PGconn *tables_fill(struct world *w)
{
    struct life life;
    struct rng rng;
    world_make(w);
    rng_seed(&rng, 11);
    life_begin(w, &life);
    for (int i = 0; i < 60; i++) {
        life_turn(w, &life, &rng, 20, 10);
        turn_end(w);
    }
    PGconn *conn = PQconnectdb(w->url);
    for (size_t i = 0; i < PG_TABLE_COUNT; i++)
        table_fill(conn, &pg_tables[i]);
    for (size_t i = 0; i < sizeof bytes_fill / sizeof bytes_fill[0]; i++)
        PQclear(sql(conn, bytes_fill[i]));
    PQclear(sql(conn, "ANALYZE"));
    PQclear(sql(conn, pg_texts[PG_session].text));
    return conn;
}

static bool has_plan(const struct pg_text *text)
{
    static const char *const verbs[] = { "SELECT", "INSERT", "UPDATE", "DELETE", "WITH" };
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strncmp(text->text, verbs[i], strlen(verbs[i])) == 0)
            return true;
    return false;
}

static int parameters(const char *text)
{
    int most = 0;
    for (const char *at = text; (at = strchr(at, '$')) != NULL; at++) {
        int n = (int)strtol(at + 1, NULL, 10);
        most = n > most ? n : most;
    }
    return most;
}

static void plan_add(PGconn *conn, const struct pg_text *text, struct buf *out)
{
    struct buf words;
    int n = parameters(text->text);
    buf_init(&words, 1 << 16);
    PGresult *prepared = PQprepare(conn, text->name, text->text, 0, NULL);
    if (PQresultStatus(prepared) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", text->name, PQerrorMessage(conn));
    PQclear(prepared);
    buf_addf(&words, "EXPLAIN (COSTS OFF) EXECUTE %s%s", text->name, n ? "(" : "");
    for (int i = 0; i < n; i++)
        buf_addf(&words, "%sNULL", i ? ", " : "");
    buf_addf(&words, "%s", n ? ")" : "");
    PGresult *plan = sql(conn, buf_str(&words).ptr);
    buf_addf(out, "%s\n", text->name);
    for (int i = 0; i < PQntuples(plan); i++) /* what is looked for, not the conditions: those are in the statement */
        if (!strstr(PQgetvalue(plan, i, 0), "Filter:") && !strstr(PQgetvalue(plan, i, 0), "Output:"))
            buf_addf(out, "    %s\n", PQgetvalue(plan, i, 0));
    PQclear(plan);
    buf_release(&words);
}

static void plans_are_as_agreed(void **state)
{
    struct world w;
    struct buf plans, golden;
    (void)state;
    PGconn *conn = tables_fill(&w);
    buf_init(&plans, 1 << 20);
    buf_init(&golden, 1 << 20);
    for (int id = 0; id < PG_COUNT; id++)
        if (!(pg_texts[id].users & (PG_FOR_EXEC | PG_FOR_COPY)) && has_plan(&pg_texts[id]))
            plan_add(conn, &pg_texts[id], &plans);
    if (getenv("WEIR_GOLDEN_WRITE")) {
        FILE *f = fopen(golden_path, "w");
        assert_non_null(f);
        fwrite(plans.ptr, 1, plans.len, f);
        fclose(f);
    }
    FILE *f = fopen(golden_path, "r");
    if (!f)
        fail_msg("%s can't be read", golden_path);
    for (int c; (c = fgetc(f)) != EOF;)
        buf_add_char(&golden, (char)c);
    fclose(f);
    if (!str_eq(buf_str(&plans), buf_str(&golden))) {
        fputs(plans.ptr, stderr);
        fail_msg("plans differ from %s; those of now are above (WEIR_GOLDEN_WRITE=1 writes the file anew)", golden_path);
    }
    buf_release(&plans);
    buf_release(&golden);
    PQfinish(conn);
    world_release(&w);
}

static bool is_small(const char *table)
{
    static const char *const small[] = { "lane", "class", "slot", "executor", "token", "live", "archive", "schedule", "head", "duty",
                                         "server", "mark", "site" };
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (strncmp(table, small[i], strlen(small[i])) == 0 && strchr(" \n", table[strlen(small[i])]))
            return true;
    return false;
}

/* A walk over a whole table, or over a whole index: without a condition to find a place in it. */
static void scans_refuse(const char *plan)
{
    for (const char *at = plan; (at = strstr(at, "Scan ")) != NULL; at++) {
        const char *end = strchr(at, '\n'), *on = strstr(at, " on ");
        bool index = at > plan + 6 && (strncmp(at - 6, "Index ", 6) == 0 || strncmp(at - 5, "Only ", 5) == 0);
        bool seq = at > plan + 4 && strncmp(at - 4, "Seq ", 4) == 0;
        const char *next = end + 1 + strspn(end + 1, " ");
        bool found = index && (strncmp(next, "Index Cond", 10) == 0 || strncmp(next, "Order By", 8) == 0);
        if ((seq || (index && !found)) && on && on < end && !is_small(on + 4))
            fail_msg("%s", plan);
    }
}

/* Whatever the golden file says: what runs within a turn walks no table that grows with the queue. */
static void no_turn_scans(void **state)
{
    struct world w;
    (void)state;
    PGconn *conn = tables_fill(&w);
    for (int id = 0; id < PG_COUNT; id++) {
        struct buf plan;
        if (!(pg_texts[id].users & PG_FOR_WRITER) || (pg_texts[id].users & PG_FOR_EXEC) || !has_plan(&pg_texts[id]))
            continue;
        buf_init(&plan, 1 << 16);
        plan_add(conn, &pg_texts[id], &plan);
        scans_refuse(plan.ptr);
        buf_release(&plan);
    }
    PQfinish(conn);
    world_release(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_are_as_agreed), cmocka_unit_test(no_turn_scans) };
    golden_path = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
