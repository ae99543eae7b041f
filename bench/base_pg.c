/* base_pg CONNINFO [c=N] CELL...: what PostgreSQL itself allows through libpq (prepared statements, synchronous_commit
 * as the server has it).
 *
 * A cell is insert:B (B rows a statement and a commit) or cycle:B (B jobs inserted, then claimed with FOR UPDATE SKIP
 * LOCKED, then completed: three commits), on c connections at once, one thread each. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { CONNS_MAX = 128 };

struct caller {
    const char *place;
    int64_t batch, rows, end_ns;
    int cycle;
    struct latencies all;
    char *payloads, *ids; /* arrays as text */
    pthread_t thread;
};

static PGresult *checked(PGconn *conn, PGresult *result, const char *what)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        bench_die("%s: %s", what, PQerrorMessage(conn));
    }
    return result;
}

static PGconn *place_open(const char *place)
{
    PGconn *conn = PQconnectdb(place);
    if (PQstatus(conn) != CONNECTION_OK) {
        bench_die("%s", PQerrorMessage(conn));
    }
    PQclear(checked(conn, PQexec(conn, "SET client_min_messages = warning"), "set"));
    return conn;
}

static void table_make(const char *place)
{
    static const char schema[] =
        "DROP TABLE IF EXISTS base_jobs;"
        "CREATE TABLE base_jobs(id BIGSERIAL PRIMARY KEY, queue TEXT NOT NULL, state SMALLINT NOT NULL DEFAULT 0,"
        " payload JSONB NOT NULL, created TIMESTAMPTZ DEFAULT now(), claimed TIMESTAMPTZ, done TIMESTAMPTZ)"
        " WITH (fillfactor = 70);"
        "CREATE INDEX base_jobs_ready ON base_jobs(queue, id) WHERE state = 0;";
    PGconn *conn = place_open(place);
    PQclear(checked(conn, PQexec(conn, schema), "schema"));
    PQfinish(conn);
}

static void statements_prepare(PGconn *conn)
{
    static const char *const texts[][2] = {
        { "one", "INSERT INTO base_jobs(queue, payload) VALUES('default', $1::jsonb)" },
        { "many", "INSERT INTO base_jobs(queue, payload) SELECT 'default', p::jsonb FROM unnest($1::text[]) p" },
        { "claim", "UPDATE base_jobs SET state = 1, claimed = now() WHERE id IN (SELECT id FROM base_jobs WHERE queue "
                   "= 'default'"
                   " AND state = 0 ORDER BY id FOR UPDATE SKIP LOCKED LIMIT $1::int) RETURNING id" },
        { "complete", "UPDATE base_jobs SET state = 2, done = now() WHERE id = ANY($1::bigint[])" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        PQclear(checked(conn, PQprepare(conn, texts[i][0], texts[i][1], 0, NULL), texts[i][0]));
    }
}

static PGresult *ask(PGconn *conn, const char *name, const char *value)
{
    return checked(conn, PQexecPrepared(conn, name, 1, &value, NULL, NULL, 0), name);
}

/* {"payload","payload",...} */
static char *payloads_make(int64_t n)
{
    size_t room = (size_t)n * (2 * sizeof BENCH_PAYLOAD + 3) + 3;
    char *text = malloc(room), *at = text;
    if (!text) {
        bench_die("no memory");
    }
    *at++ = '{';
    for (int64_t i = 0; i < n; i++) {
        if (i) {
            *at++ = ',';
        }
        *at++ = '"';
        for (const char *from = BENCH_PAYLOAD; *from; from++) {
            if (*from == '"' || *from == '\\') {
                *at++ = '\\';
            }
            *at++ = *from;
        }
        *at++ = '"';
    }
    *at++ = '}';
    *at = '\0';
    return text;
}

/* Claims up to a batch and completes what it got; how many. */
static int64_t claim_and_complete(PGconn *conn, struct caller *caller)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)caller->batch);
    PGresult *claimed = ask(conn, "claim", number);
    int n = PQntuples(claimed);
    size_t len = 0, room = (size_t)caller->batch * 21 + 3;
    caller->ids[len++] = '{';
    for (int i = 0; i < n; i++) {
        len += (size_t)snprintf(caller->ids + len, room - len, "%s%s", i ? "," : "", PQgetvalue(claimed, i, 0));
    }
    snprintf(caller->ids + len, room - len, "}");
    PQclear(claimed);
    PQclear(ask(conn, "complete", caller->ids));
    return n;
}

static void *caller_run(void *arg)
{
    struct caller *caller = arg;
    PGconn *conn = place_open(caller->place);
    statements_prepare(conn);
    for (int64_t now = bench_now_ns(); now < caller->end_ns;) {
        PQclear(caller->batch == 1 ? ask(conn, "one", BENCH_PAYLOAD) : ask(conn, "many", caller->payloads));
        caller->rows += caller->cycle ? claim_and_complete(conn, caller) : caller->batch;
        int64_t then = bench_now_ns();
        latencies_add(&caller->all, then - now);
        now = then;
    }
    PQfinish(conn);
    return NULL;
}

static void cell_run(const char *place, const char *cell, int64_t c)
{
    const char *colon = strchr(cell, ':');
    int cycle = !strncmp(cell, "cycle:", 6);
    if (!colon || (!cycle && strncmp(cell, "insert:", 7) != 0)) {
        bench_die("'%s' is neither insert:N nor cycle:N", cell);
    }
    int64_t batch = bench_number(colon + 1), rows = 0;
    struct caller callers[CONNS_MAX] = { { 0 } };
    struct latencies all = { 0 };
    table_make(place);
    int64_t start = bench_now_ns();
    for (int64_t i = 0; i < c; i++) {
        callers[i] = (struct caller){ .place = place,
            .batch = batch,
            .cycle = cycle,
            .payloads = payloads_make(batch),
            .ids = malloc((size_t)batch * 21 + 3),
            .end_ns = start + (int64_t)(bench_seconds() * 1e9) };
        if (!callers[i].ids || pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]) != 0) {
            bench_die("no thread");
        }
    }
    for (int64_t i = 0; i < c; i++) {
        pthread_join(callers[i].thread, NULL);
        rows += callers[i].rows;
        for (size_t k = 0; k < callers[i].all.n; k++) {
            latencies_add(&all, callers[i].all.ns[k]);
        }
        latencies_release(&callers[i].all);
        free(callers[i].payloads);
        free(callers[i].ids);
    }
    char metric[64], rate[80];
    snprintf(metric, sizeof metric, "%s c=%d", cell, (int)c);
    snprintf(rate, sizeof rate, "%s rate", metric);
    bench_result("libpq", rate, (double)rows / ((double)(bench_now_ns() - start) / 1e9), "rows/s");
    latencies_result(&all, "libpq", metric);
    latencies_release(&all);
}

int main(int argc, char **argv)
{
    int64_t c = 1;
    if (argc < 3) {
        bench_die("usage: base_pg CONNINFO [c=N] insert:N|cycle:N...");
    }
    for (int i = 2; i < argc; i++) {
        if (!strncmp(argv[i], "c=", 2)) {
            c = bench_number(argv[i] + 2);
            if (c > CONNS_MAX) {
                bench_die("at most %d connections", CONNS_MAX);
            }
        } else {
            cell_run(argv[1], argv[i], c);
        }
    }
    return 0;
}
