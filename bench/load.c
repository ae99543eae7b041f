/* load MODE URL [name=value]...: load for a Weir server (and for the bare servers of this folder, as far as they
 * understand it).
 *
 * enqueue  c connections, one task a request bulk     c connections, batch tasks a request read     c connections, GET
 * path (path=task: a task that is enqueued first) cycle    c callers enqueue one task each and wait until it is done;
 * workers take and finish them; latency from enqueue to completion drain    n tasks are there; workers take and finish
 * them wake     one task enqueued into an idle system, n times; latency from the request to the grant at the worker's
 * open poll claim    one worker takes and finishes one task at a time, n times; latency of the poll fill     n tasks in
 * bulk, no figure command  n tasks that run /bin/true, until all are done (the server needs an executor) dag      n
 * tasks as revisions of ten (one, then eight, then one; the second and the last also wait for the revision before),
 * spread over `archives` queues; enqueued in calls of batch, then taken and finished by workers; commands=1: each runs
 * /bin/true instead
 *
 * A worker is an executor of kind `data` with two connections: one polls, the other reports what has ended since its
 * last report. Lasts CELL_S seconds unless n says otherwise. An answer that isn't the expected one ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/map.h"
#include "bench.h"
#include "wire.h"

enum { CONNS_MAX = 1024, WORKERS_MAX = 64, SECOND_NS = 1000000000, GIVE_UP_S = 600 };
static const char ONE_TASK[] = "{\"name\":\"build\",\"data\":" BENCH_PAYLOAD "}";
static const char DATA_REST[] = "\"data\":" BENCH_PAYLOAD "}"; /* what follows the name in a call with many */
static const char COMMAND_REST[] = "\"command\":[\"/bin/true\"]}";

struct worker {
    struct load *load;
    struct wire_conn poll, report;
    char poll_path[64];
    char poll_body[64];
    struct buf items;       /* of the next report: {"fence":...},... */
    struct map ended, sent; /* tasks of the next report, of the one under way */
    bool one_by_one;        /* the next poll waits for the report */
};

struct load {
    const char *peer, *path;
    int64_t c, n, n_workers, free, batch, archives, commands; /* options */
    int64_t first_ns, first_done;                             /* when the first tasks were done, and how many */
    struct wire wire;
    struct wire_conn *conns;
    struct worker *workers;
    struct buf request; /* what every caller sends */
    struct latencies all;
    struct map waiting, early; /* task -> caller's connection; tasks done before their caller knew the number */
    int64_t end_ns, done, answer_id;
    bool granted, keep_granted;
};

/* --- answers --- */

static void status_expect(int status, int expected, struct str body)
{
    if (status != expected) {
        bench_die("answer %d instead of %d: %.*s", status, expected, (int)(body.len < 300 ? body.len : 300),
            body.len ? body.ptr : "");
    }
}

/* The number after "name": or -1. */
static int64_t number_find(struct str body, const char *name)
{
    char key[32];
    int n = snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = body.len ? memmem(body.ptr, body.len, key, (size_t)n) : NULL;
    return at ? strtoll(at + n, NULL, 10) : -1;
}

static void ended_nothing(struct wire_conn *conn, int status, struct str body)
{
    struct load *load = conn->owner;
    status_expect(status, (int)conn->number, body);
    load->answer_id = number_find(body, "id");
    load->wire.stop = true;
}

/* One request, one answer, waited for. */
static void ask(struct load *load, const char *method, const char *path, struct str body, int expected)
{
    struct wire_conn conn = { .answered = ended_nothing, .owner = load, .number = expected };
    wire_connect(&load->wire, &conn);
    wire_send(&conn, method, path, body);
    wire_run(&load->wire, bench_now_ns() + (int64_t)GIVE_UP_S * SECOND_NS);
    if (!load->wire.stop) {
        bench_die("no answer to %s %s", method, path);
    }
    load->wire.stop = false;
    wire_hang_up(&conn);
}

static void rate_result(struct load *load, const char *metric, int64_t n, int64_t start_ns)
{
    char name[96];
    snprintf(name, sizeof name, "%s rate", metric);
    bench_result(load->peer, name, (double)n / ((double)(bench_now_ns() - start_ns) / SECOND_NS), "/s");
    if (load->all.n) {
        latencies_result(&load->all, load->peer, metric);
    }
}

/* --- callers that repeat one request --- */

static void repeat_answered(struct wire_conn *conn, int status, struct str body)
{
    struct load *load = conn->owner;
    status_expect(status, (int)conn->number, body);
    int64_t now = bench_now_ns();
    latencies_add(&load->all, now - conn->sent_ns);
    load->done++;
    if (now < load->end_ns) {
        wire_send_again(conn, buf_str(&load->request));
    }
}

static void callers_start(
    struct load *load, void (*answered)(struct wire_conn *conn, int status, struct str body), int expected)
{
    load->conns = mem_alloc((size_t)load->c * sizeof *load->conns);
    for (int64_t i = 0; i < load->c; i++) {
        load->conns[i] = (struct wire_conn){ .answered = answered, .owner = load, .number = expected };
        wire_connect(&load->wire, &load->conns[i]);
    }
    load->end_ns = bench_now_ns() + (int64_t)(bench_seconds() * SECOND_NS);
    for (int64_t i = 0; i < load->c; i++) {
        wire_send_again(&load->conns[i], buf_str(&load->request));
    }
}

static void repeat_run(struct load *load, const char *metric, int64_t per_request, int expected)
{
    int64_t start = bench_now_ns();
    callers_start(load, repeat_answered, expected);
    wire_run(&load->wire, load->end_ns);
    rate_result(load, metric, load->done * per_request, start);
}

static void mode_enqueue(struct load *load)
{
    char metric[64];
    snprintf(metric, sizeof metric, "enqueue c=%d", (int)load->c);
    wire_format(&load->wire, &load->request, "POST", "/v1/tasks", STR(ONE_TASK));
    repeat_run(load, metric, 1, 201);
}

/* Names differ: within one call a name may be what another task depends on. */
static void batch_add(struct buf *body, int64_t n, const char *rest)
{
    buf_add_z(body, "{\"tasks\":[");
    for (int64_t i = 0; i < n; i++) {
        buf_addf(body, "%s{\"name\":\"build-%d\",%s", i ? "," : "", (int)i, rest);
    }
    buf_add_z(body, "]}");
}

static void mode_bulk(struct load *load)
{
    struct buf body;
    buf_init(&body, 64 << 20);
    batch_add(&body, load->batch, DATA_REST);
    wire_format(&load->wire, &load->request, "POST", "/v1/tasks", buf_str(&body));
    buf_release(&body);
    char metric[64];
    snprintf(metric, sizeof metric, "bulk %d c=%d", (int)load->batch, (int)load->c);
    repeat_run(load, metric, load->batch, 201);
}

static void mode_read(struct load *load)
{
    char path[64], metric[64];
    snprintf(path, sizeof path, "%s", load->path);
    if (!strcmp(path, "task")) {
        ask(load, "POST", "/v1/tasks", STR(ONE_TASK), 201);
        snprintf(path, sizeof path, "/v1/tasks/%lld", (long long)load->answer_id);
    }
    wire_format(&load->wire, &load->request, "GET", path, (struct str){ 0 });
    snprintf(metric, sizeof metric, "read %s c=%d", load->path, (int)load->c);
    repeat_run(load, metric, 1, 200);
}

static void tasks_fill(struct load *load, int64_t n, const char *rest)
{
    struct buf body;
    buf_init(&body, 64 << 20);
    for (int64_t left = n, batch; left > 0; left -= batch) {
        batch = left < load->batch ? left : load->batch;
        buf_reset(&body);
        batch_add(&body, batch, rest);
        ask(load, "POST", "/v1/tasks", buf_str(&body), 201);
    }
    buf_release(&body);
}

static void mode_fill(struct load *load)
{
    tasks_fill(load, load->n, DATA_REST);
}

/* --- workers --- */

static void worker_poll(struct worker *worker)
{
    wire_send(&worker->poll, "POST", worker->poll_path, str_of(worker->poll_body));
}

static void worker_report(struct worker *worker)
{
    if (worker->report.busy || !worker->ended.n) {
        return;
    }
    struct map sent = worker->sent;
    worker->sent = worker->ended;
    worker->ended = sent;
    buf_add_z(&worker->items, "]}");
    wire_send(&worker->report, "POST", "/v1/finishes", buf_str(&worker->items));
    buf_reset(&worker->items);
}

static void task_done(struct load *load, uint64_t task)
{
    struct wire_conn *caller = map_take(&load->waiting, task);
    load->done++;
    if (!caller) {
        if (load->conns) {
            map_put(&load->early, task, load);
        }
        return;
    }
    int64_t now = bench_now_ns();
    latencies_add(&load->all, now - caller->sent_ns);
    if (now < load->end_ns) {
        wire_send_again(caller, buf_str(&load->request));
    }
}

static void worker_reported(struct wire_conn *conn, int status, struct str body)
{
    struct worker *worker = conn->owner;
    struct load *load = worker->load;
    status_expect(status, 200, body);
    if (memmem(body.ptr, body.len, "\"code\"", 6)) {
        bench_die("a finish was refused: %.*s", (int)(body.len < 300 ? body.len : 300), body.ptr);
    }
    MAP_EACH (&worker->sent, entry) {
        task_done(load, entry->key);
    }
    map_clear(&worker->sent);
    if (!load->first_ns) {
        load->first_ns = bench_now_ns();
        load->first_done = load->done;
    }
    worker_report(worker);
    if (worker->one_by_one) {
        worker_poll(worker);
    }
    if (load->n && load->done >= load->n) {
        load->wire.stop = true;
    }
}

/* Takes the fences out of a poll's answer; a fence begins with INCARNATION-TASK-. */
static void worker_polled(struct wire_conn *conn, int status, struct str body)
{
    static const char key[] = "\"fence\":\"";
    struct worker *worker = conn->owner;
    status_expect(status, 200, body);
    if (worker->one_by_one) {
        latencies_add(&worker->load->all, bench_now_ns() - conn->sent_ns);
    }
    const char *at = body.ptr, *end = body.ptr + body.len;
    while (at && (at = memmem(at, (size_t)(end - at), key, sizeof key - 1)) != NULL) {
        at += sizeof key - 1;
        const char *quote = memchr(at, '"', (size_t)(end - at));
        struct str fence = { at, quote ? (size_t)(quote - at) : 0 };
        struct str rest = fence, incarnation, number;
        int64_t task = -1;
        if (!str_cut(&rest, '-', &incarnation) || !str_cut(&rest, '-', &number) || !str_to_i64(number, &task) ||
            task <= 0) {
            bench_die("a strange fence: %.*s", STR_ARG(fence));
        }
        map_put(&worker->ended, (uint64_t)task, worker);
        buf_add_z(&worker->items, worker->items.len ? "," : "{\"items\":[");
        buf_addf(&worker->items, "{\"fence\":\"%.*s\",\"exit\":0}", STR_ARG(fence));
        worker->load->granted = true;
    }
    if (worker->load->keep_granted) { /* the caller of wire_run goes on from here */
        worker->load->wire.stop = true;
        return;
    }
    bool idle = !worker->ended.n;
    worker_report(worker);
    if (!worker->one_by_one || idle) {
        worker_poll(worker);
    }
}

static void worker_start(struct load *load, struct worker *worker, int number, int64_t n_free)
{
    char body[160];
    *worker = (struct worker){ .load = load };
    snprintf(body, sizeof body, "{\"name\":\"bench-%d-%d\",\"slots\":%lld,\"kinds\":[\"data\"]}", (int)getpid(), number,
        (long long)n_free);
    load->wire.next = (size_t)number; /* a worker has one server */
    ask(load, "POST", "/v1/executors", str_of(body), 201);
    snprintf(worker->poll_path, sizeof worker->poll_path, "/v1/executors/%lld/poll", (long long)load->answer_id);
    snprintf(worker->poll_body, sizeof worker->poll_body, "{\"free\":%lld,\"wait_ms\":5000}", (long long)n_free);
    buf_init(&worker->items, 64 << 20);
    worker->poll = (struct wire_conn){ .answered = worker_polled, .owner = worker };
    worker->report = (struct wire_conn){ .answered = worker_reported, .owner = worker };
    load->wire.next = (size_t)number;
    wire_connect(&load->wire, &worker->poll);
    load->wire.next = (size_t)number;
    wire_connect(&load->wire, &worker->report);
}

static void workers_start(struct load *load)
{
    load->workers = mem_alloc((size_t)load->n_workers * sizeof *load->workers);
    for (int i = 0; i < (int)load->n_workers; i++) {
        worker_start(load, &load->workers[i], i, load->free);
    }
    for (int i = 0; i < (int)load->n_workers; i++) {
        worker_poll(&load->workers[i]);
    }
}

static void cycle_enqueued(struct wire_conn *conn, int status, struct str body)
{
    struct load *load = conn->owner;
    status_expect(status, 201, body);
    int64_t id = number_find(body, "id");
    if (id <= 0) {
        bench_die("no id in %.*s", (int)(body.len < 300 ? body.len : 300), body.ptr);
    }
    map_put(&load->waiting, (uint64_t)id, conn);
    if (map_take(&load->early, (uint64_t)id)) {
        load->done--; /* it was counted when it ended */
        task_done(load, (uint64_t)id);
    }
}

static void mode_cycle(struct load *load)
{
    char metric[64];
    load->n = 0;
    workers_start(load);
    wire_format(&load->wire, &load->request, "POST", "/v1/tasks", STR(ONE_TASK));
    int64_t start = bench_now_ns();
    callers_start(load, cycle_enqueued, 201);
    wire_run(&load->wire, load->end_ns);
    snprintf(metric, sizeof metric, "cycle c=%d", (int)load->c);
    rate_result(load, metric, load->done, start);
}

/* From the first completion to the last, as the harness of the peers has it: workers that begin aren't charged to
 * anybody. */
static void mode_drain(struct load *load)
{
    tasks_fill(load, load->n, DATA_REST);
    int64_t start = bench_now_ns();
    workers_start(load);
    wire_run(&load->wire, start + (int64_t)GIVE_UP_S * SECOND_NS);
    rate_result(load, "drain", load->done - load->first_done, load->first_ns);
}

static void mode_claim(struct load *load)
{
    load->workers = mem_alloc(sizeof *load->workers);
    worker_start(load, load->workers, 0, 1);
    load->workers->one_by_one = true;
    int64_t start = bench_now_ns();
    worker_poll(load->workers);
    wire_run(&load->wire, start + (int64_t)GIVE_UP_S * SECOND_NS);
    rate_result(load, "claim", load->done, start);
}

/* --- wake-ups --- */

static void caller_ignore(struct wire_conn *conn, int status, struct str body)
{
    (void)conn;
    status_expect(status, 201, body);
}

static void wake_once(struct load *load, struct worker *worker, struct wire_conn *caller)
{
    int64_t give_up = bench_now_ns() + (int64_t)GIVE_UP_S * SECOND_NS;
    load->keep_granted = true;
    load->granted = false;
    worker_poll(worker);
    wire_run(&load->wire, bench_now_ns() + 5000000); /* the poll arrives and everything goes to sleep */
    if (load->granted) {
        bench_die("the system isn't idle: tasks were waiting");
    }
    wire_send(caller, "POST", "/v1/tasks", STR(ONE_TASK));
    while (!load->granted) {
        wire_run(&load->wire, give_up);
        if (bench_now_ns() > give_up) {
            bench_die("no grant");
        }
        load->wire.stop = false;
        if (!load->granted) {
            worker_poll(worker); /* its time was over */
        }
    }
    latencies_add(&load->all, bench_now_ns() - caller->sent_ns);
    load->keep_granted = false;
    load->done = 0;
    load->n = 1;
    worker_report(worker);
    wire_run(&load->wire, give_up);
    load->wire.stop = false;
    while (caller->busy) {
        wire_run(&load->wire, bench_now_ns() + 1000000);
    }
}

static void mode_wake(struct load *load)
{
    struct worker worker;
    struct wire_conn caller = { .answered = caller_ignore, .owner = load };
    int64_t n = load->n;
    worker_start(load, &worker, 0, 1);
    wire_connect(&load->wire, &caller);
    for (int64_t i = 0; i < n; i++) {
        wake_once(load, &worker, &caller);
    }
    latencies_result(&load->all, load->peer, "wake");
    wire_hang_up(&caller);
    wire_hang_up(&worker.poll);
    wire_hang_up(&worker.report);
    buf_release(&worker.items);
    map_release(&worker.ended);
    map_release(&worker.sent);
}

/* --- commands --- */

static void stats_answered(struct wire_conn *conn, int status, struct str body)
{
    struct load *load = conn->owner;
    status_expect(status, 200, body);
    if (number_find(body, "failed") > 0) {
        bench_die("some failed: %.*s", (int)(body.len < 300 ? body.len : 300), body.ptr);
    }
    load->done = number_find(body, "processed");
    load->wire.stop = true;
}

static void commands_wait(struct load *load, int64_t start)
{
    struct wire_conn conn = { .answered = stats_answered, .owner = load };
    wire_connect(&load->wire, &conn);
    while (load->done < load->n) {
        wire_send(&conn, "GET", "/v1/stats", (struct str){ 0 });
        wire_run(&load->wire, bench_now_ns() + (int64_t)GIVE_UP_S * SECOND_NS);
        load->wire.stop = false;
        usleep(load->done < load->n ? 20000 : 0);
        if (bench_now_ns() > start + (int64_t)GIVE_UP_S * SECOND_NS) {
            bench_die("%lld of %lld ended", (long long)load->done, (long long)load->n);
        }
    }
    wire_hang_up(&conn);
}

static void mode_command(struct load *load)
{
    int64_t start = bench_now_ns();
    tasks_fill(load, load->n, COMMAND_REST);
    commands_wait(load, start);
    rate_result(load, "command /bin/true", load->n, start);
}

/* --- a graph --- */

enum { REV_TASKS = 10 }; /* 0, then 1 to 8, then 9; 1 and 9 also wait for the revision before: as PREV edges do */

/* Revision `rev` of queue `archive` within a call; the one before stands in this call (prev_id 0) or began at prev_id.
 */
static void revision_add(struct buf *body, int64_t archive, int64_t rev, int64_t prev_id, const char *rest)
{
    for (int k = 0; k < REV_TASKS; k++) {
        buf_addf(body, "%s{\"queue\":\"a%d\",\"name\":\"a%d-r%d-t%d\",", body->ptr[body->len - 1] == '[' ? "" : ",",
            (int)archive, (int)archive, (int)rev, k);
        if (k > 0) {
            buf_add_z(body, "\"depends\":[");
            for (int j = k == REV_TASKS - 1 ? 1 : 0; j < (k == REV_TASKS - 1 ? REV_TASKS - 1 : 1); j++) {
                buf_addf(body, "%s\"a%d-r%d-t%d\"", j > 1 ? "," : "", (int)archive, (int)rev, j);
            }
            buf_add_z(body, "],");
        }
        if (rev > 0 && (k == 1 || k == REV_TASKS - 1)) {
            if (prev_id) {
                buf_addf(body, "\"after\":[%lld],", (long long)prev_id + k);
            } else {
                buf_addf(body, "\"after\":[\"a%d-r%d-t%d\"],", (int)archive, (int)rev - 1, k);
            }
        }
        buf_add_z(body, rest);
    }
}

/* Revision r belongs to queue r % archives; a call's ids ascend, so the place of the revision before follows from the
 * first id of its call.
 */
static void dag_fill(struct load *load, const char *rest)
{
    struct buf body;
    int64_t revs = load->n / REV_TASKS, per_call = load->batch / REV_TASKS, n_calls = (revs + per_call - 1) / per_call;
    int64_t *first = mem_alloc((size_t)(n_calls + 1) * sizeof *first);
    buf_init(&body, 64 << 20);
    for (int64_t call = 0; call < n_calls; call++) {
        buf_reset(&body);
        buf_add_z(&body, "{\"tasks\":[");
        for (int64_t r = call * per_call; r < revs && r < (call + 1) * per_call; r++) {
            int64_t before = r - load->archives, there = before / per_call;
            int64_t prev_id = before >= 0 && there < call ? first[there] + before % per_call * REV_TASKS : 0;
            revision_add(&body, r % load->archives, r / load->archives, prev_id, rest);
        }
        buf_add_z(&body, "]}");
        ask(load, "POST", "/v1/tasks", buf_str(&body), 201);
        first[call] = load->answer_id;
    }
    buf_release(&body);
    mem_free(first);
}

static void mode_dag(struct load *load)
{
    int64_t start = bench_now_ns();
    dag_fill(load, load->commands ? COMMAND_REST : DATA_REST);
    if (load->commands) {
        commands_wait(load, start);
        rate_result(load, "dag /bin/true", load->n, start);
        return;
    }
    int64_t filled = bench_now_ns();
    workers_start(load);
    wire_run(&load->wire, filled + (int64_t)GIVE_UP_S * SECOND_NS);
    if (load->done < load->n) {
        bench_die("%lld of %lld ended", (long long)load->done, (long long)load->n);
    }
    rate_result(load, "dag", load->n, start);
    bench_result(load->peer, "dag enqueue", (double)(filled - start) / 1000 / (double)load->n, "us/task");
    bench_result(load->peer, "dag drain", (double)(bench_now_ns() - filled) / 1000 / (double)load->n, "us/task");
}

/* --- main --- */

static const struct {
    const char *name;
    void (*run)(struct load *load);
    int64_t n; /* unless told */
} modes[] = {
    { "enqueue", mode_enqueue, 0 },
    { "bulk", mode_bulk, 0 },
    { "read", mode_read, 0 },
    { "cycle", mode_cycle, 0 },
    { "drain", mode_drain, 50000 },
    { "wake", mode_wake, 300 },
    { "claim", mode_claim, 2000 },
    { "fill", mode_fill, 10000 },
    { "command", mode_command, 5000 },
    { "dag", mode_dag, 10000 },
};

static void option_read(struct load *load, const char *text)
{
    const struct {
        const char *name;
        int64_t *value;
        int64_t max;
    } numbers[] = { { "c=", &load->c, CONNS_MAX }, { "n=", &load->n, 100000000 },
        { "workers=", &load->n_workers, WORKERS_MAX }, { "free=", &load->free, 10000 },
        { "batch=", &load->batch, 10000 }, { "archives=", &load->archives, 10000 },
        { "commands=", &load->commands, 1 } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t n = strlen(numbers[i].name);
        if (!strncmp(text, numbers[i].name, n)) {
            *numbers[i].value = bench_number(text + n);
            if (*numbers[i].value > numbers[i].max) {
                bench_die("%s: at most %lld", text, (long long)numbers[i].max);
            }
            return;
        }
    }
    if (!strncmp(text, "peer=", 5)) {
        load->peer = text + 5;
    } else if (!strncmp(text, "path=", 5)) {
        load->path = text + 5;
    } else {
        bench_die("'%s' isn't an option", text);
    }
}

static void load_release(struct load *load)
{
    for (int64_t i = 0; load->conns && i < load->c; i++) {
        wire_hang_up(&load->conns[i]);
    }
    for (int64_t i = 0; load->workers && i < load->n_workers; i++) {
        struct worker *worker = &load->workers[i];
        wire_hang_up(&worker->poll);
        wire_hang_up(&worker->report);
        buf_release(&worker->items);
        map_release(&worker->ended);
        map_release(&worker->sent);
    }
    mem_free(load->conns);
    mem_free(load->workers);
    map_release(&load->waiting);
    map_release(&load->early);
    buf_release(&load->request);
    latencies_release(&load->all);
    wire_close(&load->wire);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        bench_die("usage: load MODE URL [name=value]...");
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0) {
            continue;
        }
        struct load load = { .peer = "weir",
            .path = "/healthz",
            .c = 1,
            .n = modes[i].n,
            .n_workers = 1,
            .free = 1000,
            .batch = 1000,
            .archives = 100 };
        for (int at = 3; at < argc; at++) {
            option_read(&load, argv[at]);
        }
        wire_open(&load.wire, argv[2]);
        buf_init(&load.request, 64 << 20);
        modes[i].run(&load);
        load_release(&load);
        return 0;
    }
    bench_die("'%s' isn't a mode", argv[1]);
}
