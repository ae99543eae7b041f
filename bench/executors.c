/* executors URL[,URL]... [n=1000]: that many simulated executors, each with one connection and one long poll open, for
 * CELL_S seconds.
 *
 * They have nothing to do: what the server spends on them is what waiting costs. Says when all wait (a line "ready" on
 * stdout), how many polls were answered a second, and how long a poll waited. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "bench.h"
#include "wire.h"

enum { EXECUTORS_MAX = 10000, SECOND_NS = 1000000000 };

struct executor {
    struct wire_conn conn;
    int64_t id, seq;
};

static struct latencies waits;
static int64_t n_registered, n_answered;

static void executor_poll(struct executor *executor)
{
    char path[64], body[96];
    snprintf(path, sizeof path, "/v1/executors/%lld/poll", (long long)executor->id);
    snprintf(body, sizeof body, "{\"free\":1,\"wait_ms\":30000,\"seq\":%lld}", (long long)executor->seq++);
    wire_send(&executor->conn, "POST", path, str_of(body));
}

static void executor_answered(struct wire_conn *conn, int status, struct str body)
{
    struct executor *executor = conn->owner;
    const char *id = body.len ? memmem(body.ptr, body.len, "\"id\":", 5) : NULL;
    if (executor->id == 0) {
        if (status != 201 || !id) {
            bench_die("registering: answer %d: %.*s", status, (int)(body.len < 300 ? body.len : 300),
                body.len ? body.ptr : "");
        }
        executor->id = strtoll(id + 5, NULL, 10);
        n_registered++;
    } else if (status != 200) {
        bench_die("polling: answer %d: %.*s", status, (int)(body.len < 300 ? body.len : 300), body.len ? body.ptr : "");
    } else {
        latencies_add(&waits, bench_now_ns() - conn->sent_ns);
        n_answered++;
    }
    executor_poll(executor);
}

int main(int argc, char **argv)
{
    struct wire wire;
    int64_t n = argc > 2 && !strncmp(argv[2], "n=", 2) ? bench_number(argv[2] + 2) : 1000;
    if (argc < 2 || n > EXECUTORS_MAX) {
        bench_die("usage: executors URL[,URL]... [n=N], at most %d", EXECUTORS_MAX);
    }
    wire_open(&wire, argv[1]);
    struct executor *all = mem_alloc_zero((size_t)n * sizeof *all);
    for (int64_t i = 0; i < n; i++) {
        char body[160];
        all[i].conn = (struct wire_conn){ .answered = executor_answered, .owner = &all[i] };
        wire_connect(&wire, &all[i].conn);
        snprintf(body, sizeof body, "{\"name\":\"idle-%lld\",\"instance\":\"i%lld\",\"slots\":1,\"kinds\":[\"data\"]}",
            (long long)i, (long long)i);
        wire_send(&all[i].conn, "POST", "/v1/executors", str_of(body));
        wire_run(&wire, bench_now_ns() + 2000000); /* they come one after the other, as machines do */
    }
    for (int64_t give_up = bench_now_ns() + INT64_C(60) * SECOND_NS; n_registered < n && bench_now_ns() < give_up;) {
        wire_run(&wire, bench_now_ns() + 10000000);
    }
    if (n_registered < n) {
        bench_die("%lld of %lld registered", (long long)n_registered, (long long)n);
    }
    printf("ready\n");
    fflush(stdout);
    n_answered = 0;
    int64_t start = bench_now_ns();
    wire_run(&wire, start + (int64_t)(bench_seconds() * SECOND_NS));
    bench_result("weir", "idle polls rate", (double)n_answered / ((double)(bench_now_ns() - start) / SECOND_NS), "/s");
    latencies_result(&waits, "weir", "idle poll");
    for (int64_t i = 0; i < n; i++) {
        wire_hang_up(&all[i].conn);
    }
    mem_free(all);
    latencies_release(&waits);
    wire_close(&wire);
    return 0;
}
