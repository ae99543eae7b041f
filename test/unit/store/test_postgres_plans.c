/* Query plans on PostgreSQL are golden, as those of SQLite are: a statement that begins to scan or sort shows here
 * before it shows in production. They are the generic plans that the store's sessions use, made on tables with rows and
 * statistics, so that they are the same wherever this runs. Run by test/lib/postgres.py, which starts the database.
 * usage: test_postgres_plans GOLDEN; WEIR_GOLDEN_WRITE=1 writes the file anew. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/postgres.h"
#include "world.h"

enum { COLUMNS_MAX = 40, TURN_USERS = SQL_FOR_WRITER | SQL_FOR_READER | SQL_FOR_BYTES | SQL_FOR_CLAIM };

static const char *golden_path;
static const char *const bytes_fill[] = {
    /* tables that only PostgreSQL has */
    "INSERT INTO log (task, grant_no, bytes, sealed) SELECT n, n, n, 0 FROM generate_series(1, 500) n",
    "INSERT INTO log_chunk (task, grant_no, start_byte, bytes) SELECT n, n, n, '' FROM generate_series(1, 500) n",
    "INSERT INTO blob (hash, bytes, used) SELECT n, n, n FROM generate_series(1, 500) n",
    "INSERT INTO blob_chunk (hash, n, bytes) SELECT n, n, '' FROM generate_series(1, 500) n",
    "INSERT INTO live_many SELECT n, n, n, n, n, n, n FROM generate_series(1, 500) n",
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
static void table_fill(PGconn *conn, const struct sql_table *table)
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
    /* a table with rows may refuse it */
    PQclear(PQexecParams(conn, pg_texts[table->in].text, n, NULL, values, NULL, NULL, 0));
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
    for (size_t i = 0; i < SQL_TABLE_COUNT; i++)
        table_fill(conn, &sql_tables[i]);
    for (size_t i = 0; i < sizeof bytes_fill / sizeof bytes_fill[0]; i++)
        PQclear(sql(conn, bytes_fill[i]));
    PQclear(sql(conn, "ANALYZE"));
    PQclear(sql(conn, pg_texts[SQL_session].text));
    return conn;
}

static bool has_plan(const struct sql_text *text)
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

static void plan_add(PGconn *conn, const struct sql_text *text, struct buf *out)
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
    for (int id = 0; id < SQL_COUNT; id++)
        if (pg_texts[id].text && !(pg_texts[id].users & (SQL_FOR_EXEC | SQL_FOR_COPY)) && has_plan(&pg_texts[id]))
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
        fail_msg(
            "plans differ from %s; those of now are above (WEIR_GOLDEN_WRITE=1 writes the file anew)", golden_path);
    }
    buf_release(&plans);
    buf_release(&golden);
    PQfinish(conn);
    world_release(&w);
}

static bool is_small(const char *table)
{
    static const char *const small[] = { "live", "live_many", "head", "duty", "server", "mark", "site" };
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        if (strncmp(table, small[i], strlen(small[i])) == 0 && strchr(" \n", table[strlen(small[i])]))
            return true;
    return false;
}

/* The first column of an index: only a condition on it finds a place there. Empty: not an index. */
static void index_leads(PGconn *conn, const char *name, size_t len, char out[64])
{
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)len, name);
    const char *values[] = { text };
    PGresult *result = PQexecParams(conn,
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND "
        "a.attnum = i.indkey[0] WHERE i.indexrelid = to_regclass($1)",
        1, NULL, values, NULL, NULL, 0);
    snprintf(out, 64, "%s", PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
}

/* A walk over a whole table, or over a whole index: without a condition that finds a place in it, whatever that index
 * is good for. */
static bool plan_walks(PGconn *conn, const char *plan)
{
    for (const char *line = plan, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *seq = strstr(line, "Seq Scan on "), *index = strstr(line, "Index"), *scan = strstr(line, " Scan");
        if (seq && seq < end && !is_small(seq + strlen("Seq Scan on ")))
            return true;
        if (!index || !scan || index > end || scan > end || scan < index)
            continue;
        const char *using = strstr(line, " using "), *on = strstr(line, " on ");
        const char *name = using && using < end ? using + strlen(" using ") : on + strlen(" on ");
        char first[64], wanted[80];
        if (using && using < end && is_small(on + strlen(" on ")))
            continue;
        index_leads(conn, name, strcspn(name, " \n"), first);
        const char *next = end + 1 + strspn(end + 1, " "), *next_end = next + strcspn(next, "\n");
        snprintf(wanted, sizeof wanted, "(%s ", first);
        const char *found = strstr(next, wanted);
        snprintf(wanted, sizeof wanted, "ROW(%s,", first);
        found = found && found < next_end ? found : strstr(next, wanted);
        if (strncmp(next, "Order By", 8) != 0 && (strncmp(next, "Index Cond", 10) != 0 || !found || found > next_end))
            return true;
    }
    return false;
}

/* What is to walk: a partial index of the few that are open, or not noted, what a sweep looks through, `ready` while
 * there are few, or so far; what a server knows of its site, as it begins and after others' turns. */
static bool may_walk(const char *name)
{
    static const char *const names[] = {
        "logs_open",
        "logs_unnoted",
        "logs_seal",
        "blobs_old",
        "tasks_pending",
        "count_pending",
        "lanes",
        "classes",
        "slots",
        "executors",
        "tokens",
        "archives",
        "archive_views",
        "schedules",
        "lane_ctids",
        "executor_ctids",
        "lanes_touched",
        "slots_touched",
        "executors_touched",
        "archives_touched",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

enum filling { FILLED, EMPTY, EMPTIED };

/* EMPTIED: the planner knows of pages, and that nothing is in them. Vacuum must not come between: it takes the pages
 * away, and until the next ANALYZE the planner then prefers whichever index has the fewest pages (edges_by_pred walks
 * edge_waiter). */
static PGconn *tables_make(struct world *w, enum filling filling)
{
    static const char *const cleared[] = { "ready", "task", "edge", "hold", "live", "live_many", "attempt",
        "unique_key", "log", "log_chunk", "turn" };
    if (filling == FILLED)
        return tables_fill(w);
    if (filling == EMPTIED) {
        PGconn *conn = tables_fill(w);
        for (size_t i = 0; i < sizeof cleared / sizeof cleared[0]; i++) {
            char text[100];
            snprintf(text, sizeof text, "ALTER TABLE %s SET (autovacuum_enabled = off)", cleared[i]);
            PQclear(sql(conn, text));
            snprintf(text, sizeof text, "DELETE FROM %s", cleared[i]);
            PQclear(sql(conn, text));
        }
        PQclear(sql(conn, "ANALYZE"));
        return conn;
    }
    world_make(w);
    PGconn *conn = PQconnectdb(w->url);
    PQclear(sql(conn, "ANALYZE"));
    PQclear(sql(conn, pg_texts[SQL_session].text));
    return conn;
}

/* Whatever the golden file says, and whatever the statistics are: what runs within a turn walks nothing that grows with
 * the queue. A plan is made once, and the table may have been empty then. */
static void no_turn_walks(void **state)
{
    struct buf walks;
    (void)state;
    buf_init(&walks, 1 << 20);
    for (enum filling filling = FILLED; filling <= EMPTIED; filling++) {
        struct world w;
        PGconn *conn = tables_make(&w, filling);
        for (int id = 0; id < SQL_COUNT; id++) {
            struct buf plan;
            if (!(pg_texts[id].users & TURN_USERS) || (pg_texts[id].users & SQL_FOR_EXEC) || !has_plan(&pg_texts[id]))
                continue;
            buf_init(&plan, 1 << 16);
            plan_add(conn, &pg_texts[id], &plan);
            if (!may_walk(pg_texts[id].name) && plan_walks(conn, plan.ptr))
                buf_addf(&walks, "filling %d: %s", (int)filling, plan.ptr);
            buf_release(&plan);
        }
        PQfinish(conn);
        world_release(&w);
    }
    if (walks.len)
        fputs(walks.ptr, stderr);
    assert_int_equal(walks.len, 0);
    buf_release(&walks);
}

/* What an exchange reads, in pages; the statement is undone. */
static long pages_read(PGconn *conn, const char *execute)
{
    char text[1000];
    long most = 0;
    PQclear(sql(conn, "BEGIN"));
    snprintf(text, sizeof text, "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE %s", execute);
    PGresult *plan = sql(conn, text);
    for (int i = 0; i < PQntuples(plan); i++) {
        const char *line = PQgetvalue(plan, i, 0), *hit = strstr(line, "hit="), *read = strstr(line, "read=");
        long n = strstr(line, "Buffers:")
                     ? (hit ? strtol(hit + 4, NULL, 10) : 0) + (read ? strtol(read + 5, NULL, 10) : 0)
                     : 0;
        most = n > most ? n : most;
    }
    PQclear(plan);
    PQclear(sql(conn, "ROLLBACK"));
    return most;
}

/* A server begins on an empty store that was analyzed, and keeps its plans while the queue (and, less, what hangs on
 * it) grows. */
static void a_claim_costs_the_same_in_any_queue(void **state)
{
    static const enum sql_id ids[] = { SQL_ready_tasks, SQL_task_update, SQL_ready_delete, SQL_holds_of_task,
        SQL_edges_by_waiter, SQL_live_delete, SQL_attempt_delete, SQL_many_end, SQL_many_clean, SQL_lives_ahead };
    static const char *const executes[] = {
        "ready_tasks(1, 10)",
        "task_update('{500,501,502,503,504}', '{P,P,P,P,P}', '{a,a,a,a,a}', 5)",
        "ready_delete('{1,1,1,1,1}', '{0,0,0,0,0}', '{500,501,502,503,504}', '{500,501,502,503,504}', 5)",
        "holds_of_task(500)",
        "edges_by_waiter(500)",
        "live_delete('{500,501}', '{1,1}')",
        "attempt_delete('{500,501}', '{1,1}')",
        "many_end('{500,501}', '{1,1}', '{3,4}', 3)",
        "many_clean('{500,501}')",
        "lives_ahead('{32000,32001}')",
    };
    enum { N = sizeof executes / sizeof executes[0] };
    struct world w;
    long before[N];
    (void)state;
    PGconn *conn = tables_make(&w, EMPTY);
    for (int i = 0; i < N; i++) {
        struct buf plan;
        buf_init(&plan, 1 << 16);
        plan_add(conn, &pg_texts[ids[i]], &plan); /* it is made, and kept */
        buf_release(&plan);
    }
    for (int round = 0; round < 2; round++) {
        static const char *const rows[] = {
            "INSERT INTO task (id, lane, state, name, variant, run, rest)"
            " SELECT n, 1, 'P', 'n', '', 0, '' FROM generate_series($1::bigint, $2::bigint) n",
            "INSERT INTO ready (class, nprio, vt, task) SELECT 1, 0, n, n FROM generate_series($1::bigint, $2::bigint) "
            "n",
            "INSERT INTO hold (kind, hold_key, rank, task, since) SELECT 1, n, n, n, 0 FROM "
            "generate_series($1::bigint, $2::bigint) n",
            "INSERT INTO edge (pred, waiter, kind, flags) SELECT n, n + 1, 1, 0 FROM generate_series($1::bigint, "
            "$2::bigint) n",
            "INSERT INTO live (task, grant_no, number, executor, started, poll_seq)"
            " SELECT n, 1, 1, 1, 0, 0 FROM generate_series($1::bigint, $2::bigint) n",
            "INSERT INTO live_many (block, grant_no, number, executor, started, poll_seq, bits)"
            " SELECT n, 1, 1, 1, 0, 0, -1 FROM generate_series($1::bigint, $2::bigint) n",
        };
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const char *values[] = { round ? "2001" : "1", !round ? "2000" : i < 2 ? "200000" : "20000" };
            PGresult *result = PQexecParams(conn, rows[i], 2, NULL, values, NULL, NULL, 0);
            if (PQresultStatus(result) != PGRES_COMMAND_OK)
                fail_msg("%s: %s", rows[i], PQerrorMessage(conn));
            PQclear(result);
        }
        for (int i = 0; i < N; i++) {
            long now = pages_read(conn, executes[i]);
            if (!round)
                before[i] = now;
            else if (now > before[i] + 100) /* the indexes have become a level or two deeper */
                fail_msg("%s: %ld pages in a queue of 2,000, %ld in one of 200,000", executes[i], before[i], now);
        }
    }
    PQfinish(conn);
    world_release(&w);
}

/* The move of a plain task stays on its page and writes no index (HOT): as long as no index has `state`, and pages are
 * filled by half. The page's number tells; a few that find no room are none too many. (Of one move only: whether what
 * it leaves is room again at once depends on who else looks at the database.) */
static void a_plain_move_stays_on_its_page(void **state)
{
    enum { MOVED_MAX = 50 };
    struct world w;
    struct buf plan;
    (void)state;
    PGconn *conn = tables_make(&w, EMPTY);
    PQclear(sql(conn, "INSERT INTO task (id, lane, state, name, variant, run, rest)"
                      " SELECT n, 1, 'P', 'build', '', 0, repeat('p', 50)::bytea FROM generate_series(1, 1000) n"));
    PQclear(sql(conn, "CREATE TEMP TABLE was AS SELECT id, (ctid::text::point)[0] AS page FROM task"));
    buf_init(&plan, 1 << 16);
    plan_add(conn, &pg_texts[SQL_task_update], &plan); /* prepares it */
    buf_release(&plan);
    PGresult *rows = sql(conn,
        "SELECT array_agg(id)::text, array_agg('X'::text)::text, array_agg(repeat('x', 50)::bytea)::text, count(*)"
        " FROM task");
    const char *values[] = { PQgetvalue(rows, 0, 0), PQgetvalue(rows, 0, 1), PQgetvalue(rows, 0, 2),
        PQgetvalue(rows, 0, 3) };
    PGresult *put = PQexecPrepared(conn, "task_update", 4, values, NULL, NULL, 0);
    assert_int_equal(PQresultStatus(put), PGRES_TUPLES_OK);
    PQclear(put);
    PQclear(rows);
    PGresult *moved = sql(conn, "SELECT count(*) FROM task t JOIN was w USING (id)"
                                " WHERE t.state <> 'X' OR (t.ctid::text::point)[0] <> w.page");
    if (strtol(PQgetvalue(moved, 0, 0), NULL, 10) > MOVED_MAX)
        fail_msg("%s of 1,000 tasks moved to another page", PQgetvalue(moved, 0, 0));
    PQclear(moved);
    moved = sql(conn, "SELECT count(*) FROM pg_indexes WHERE tablename = 'task' AND indexdef LIKE '%state%'");
    assert_string_equal(PQgetvalue(moved, 0, 0), "0");
    PQclear(moved);
    PQfinish(conn);
    world_release(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plans_are_as_agreed), cmocka_unit_test(no_turn_walks),
        cmocka_unit_test(a_claim_costs_the_same_in_any_queue), cmocka_unit_test(a_plain_move_stays_on_its_page) };
    golden_path = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
