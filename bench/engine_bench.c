/* engine_bench [TASKS]: the graph of `load dag` (revisions of ten with edges to the revision before, over 100 queues)
 * enqueued and drained by the engine alone: no HTTP, and a store that keeps rows in arrays instead of on a disk. Beside
 * it the same graph in plain C with counters, which is the floor under everything that schedules.
 *
 * Small tables are the simulator's store; tasks, edges and what is ready are arrays here, so that the store costs next
 * to nothing. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "engine/engine.h"
#include "memstore.h"

enum { REV_TASKS = 10, QUEUES = 100, BATCH = 1000, EDGES_MAX = 16 };

/* --- the graph --- */

/* preds_of: what task i waits for, as indexes; `after` says how many of them, at the end, are of the revision before.
 */
static size_t preds_of(int64_t i, int64_t out[EDGES_MAX], size_t *after)
{
    int64_t rev = i / REV_TASKS, k = i % REV_TASKS, first = rev * REV_TASKS;
    size_t n = 0;
    if (k > 0 && k < REV_TASKS - 1)
        out[n++] = first;
    for (int64_t j = 1; k == REV_TASKS - 1 && j < REV_TASKS - 1; j++)
        out[n++] = first + j;
    *after = rev >= QUEUES && (k == 1 || k == REV_TASKS - 1);
    if (*after)
        out[n++] = first - QUEUES * REV_TASKS + k;
    return n;
}

/* --- plain C --- */

static double counters_run(int64_t n)
{
    int32_t *waits = mem_alloc((size_t)n * sizeof *waits), *begin = mem_alloc((size_t)(n + 1) * sizeof *begin),
            *queue = mem_alloc((size_t)n * sizeof *queue);
    int64_t preds[EDGES_MAX], start = bench_now_ns();
    size_t after;
    memset(begin, 0, (size_t)(n + 1) * sizeof *begin);
    for (int64_t i = 0; i < n; i++) {
        size_t n_preds = preds_of(i, preds, &after);
        waits[i] = (int32_t)n_preds;
        for (size_t p = 0; p < n_preds; p++)
            begin[preds[p] + 1]++;
    }
    for (int64_t i = 0; i < n; i++)
        begin[i + 1] += begin[i];
    int32_t *edges = mem_alloc((size_t)(begin[n] + 1) * sizeof *edges), *fill = mem_alloc((size_t)n * sizeof *fill);
    memcpy(fill, begin, (size_t)n * sizeof *fill);
    for (int64_t i = 0; i < n; i++) {
        size_t n_preds = preds_of(i, preds, &after);
        for (size_t p = 0; p < n_preds; p++)
            edges[fill[preds[p]]++] = (int32_t)i;
    }
    int64_t head = 0, tail = 0;
    for (int64_t i = 0; i < n; i++)
        if (!waits[i])
            queue[tail++] = (int32_t)i;
    for (; head < tail; head++)
        for (int32_t e = begin[queue[head]]; e < begin[queue[head] + 1]; e++)
            if (--waits[edges[e]] == 0)
                queue[tail++] = edges[e];
    double rate = (double)n / ((double)(bench_now_ns() - start) / 1e9);
    if (tail != n)
        bench_die("%lld of %lld ran", (long long)tail, (long long)n);
    mem_free(waits);
    mem_free(begin);
    mem_free(queue);
    mem_free(edges);
    mem_free(fill);
    return rate;
}

/* --- a store in arrays --- */

struct kept_task {
    struct task row;
    struct edge *out, *in;
    size_t n_out, cap_out, n_in, cap_in;
    bool ready;
};
struct bucket { /* pending tasks of one virtual time; those that were taken stay and aren't `ready` */
    int64_t *tasks;
    size_t n, cap;
};

static struct stub {
    struct memstore *mem;
    struct store_ops ops, inner;
    struct arena arena;
    struct kept_task *tasks;
    struct bucket *buckets;
    size_t n_buckets, low;
    int64_t step; /* of virtual time: the first task's */
} stub;

static size_t bucket_of(const struct task *task)
{
    stub.step = stub.step ? stub.step : task->vt;
    size_t at = (size_t)(task->vt / stub.step);
    if (at >= stub.n_buckets)
        bench_die("virtual time %lld is beyond the graph", (long long)task->vt);
    return at;
}

static void task_keep(const struct task *row)
{
    struct task *kept = &stub.tasks[row->id].row;
    struct str name = kept->id ? kept->name : str_dup(&stub.arena, row->name);
    *kept = *row;
    kept->name = name;
}

static void edge_keep(const struct edge *edge)
{
    struct kept_task *pred = &stub.tasks[edge->pred], *waiter = &stub.tasks[edge->waiter];
    *ARENA_PUSH(&stub.arena, pred->out, pred->n_out, pred->cap_out) = *edge;
    *ARENA_PUSH(&stub.arena, waiter->in, waiter->n_in, waiter->cap_in) = *edge;
}

static void edge_flag(const struct edge *edge)
{
    struct kept_task *pred = &stub.tasks[edge->pred], *waiter = &stub.tasks[edge->waiter];
    for (size_t i = 0; i < pred->n_out; i++)
        if (pred->out[i].waiter == edge->waiter && pred->out[i].kind == edge->kind)
            pred->out[i].flags = edge->flags;
    for (size_t i = 0; i < waiter->n_in; i++)
        if (waiter->in[i].pred == edge->pred && waiter->in[i].kind == edge->kind)
            waiter->in[i].flags = edge->flags;
}

static bool stub_commit(struct store *store, const struct changes *c, struct err *err)
{
    struct changes small = *c;
    for (size_t i = 0; i < c->tasks_new.n; i++)
        task_keep(c->tasks_new.at[i]);
    for (size_t i = 0; i < c->tasks_changed.n; i++)
        task_keep(c->tasks_changed.at[i]);
    for (size_t i = 0; i < c->ready_remove.n; i++)
        stub.tasks[c->ready_remove.at[i]->id].ready = false;
    for (size_t i = 0; i < c->ready_add.n; i++) {
        size_t at = bucket_of(c->ready_add.at[i]);
        struct bucket *bucket = &stub.buckets[at];
        *ARENA_PUSH(&stub.arena, bucket->tasks, bucket->n, bucket->cap) = c->ready_add.at[i]->id;
        stub.tasks[c->ready_add.at[i]->id].ready = true;
        stub.low = at < stub.low ? at : stub.low;
    }
    for (size_t i = 0; i < c->edges_new.n; i++)
        edge_keep(&c->edges_new.at[i]);
    for (size_t i = 0; i < c->edges_changed.n; i++)
        edge_flag(&c->edges_changed.at[i]);
    small.tasks_new.n = small.tasks_changed.n = small.ready_add.n = small.ready_remove.n = small.edges_new.n =
        small.edges_changed.n = 0;
    /* the engine remembers those that are out */
    small.attempts_new.n = small.attempts_changed.n = small.attempts_remove.n = 0;
    bool ok = stub.inner.commit(store, &small, err);
    stub.mem->n_turns = 0; /* nobody reads the events */
    return ok;
}

static bool stub_task(
    struct store *store, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    (void)store, (void)arena, (void)err;
    *out = stub.tasks[id].row;
    *out_found = out->id != 0;
    return true;
}

static bool stub_edges(struct store *store, struct arena *arena, int64_t id, bool by_pred, struct edge **out,
    size_t *out_n, struct err *err)
{
    const struct kept_task *task = &stub.tasks[id];
    (void)store, (void)err;
    *out_n = by_pred ? task->n_out : task->n_in;
    *out = ARENA_ARRAY(arena, struct edge, *out_n + 1);
    if (*out_n)
        memcpy(*out, by_pred ? task->out : task->in, *out_n * sizeof **out);
    return true;
}

static bool stub_ready(struct store *store, struct arena *arena, int64_t class_id, size_t n, struct ready_row **out,
    size_t *out_n, struct err *err)
{
    (void)store, (void)class_id, (void)err;
    *out = ARENA_ARRAY(arena, struct ready_row, n + 1);
    *out_n = 0;
    bool first = true;
    for (size_t at = stub.low; at < stub.n_buckets && *out_n < n; at++) {
        const struct bucket *bucket = &stub.buckets[at];
        for (size_t i = 0; i < bucket->n && *out_n < n; i++) {
            const struct kept_task *task = &stub.tasks[bucket->tasks[i]];
            if (task->ready)
                (*out)[(*out_n)++] = (struct ready_row){ task->row.id, task->row.prio, task->row.vt };
        }
        if (first && *out_n == 0)
            stub.low = at;
        else
            first = false;
    }
    return true;
}

static bool stub_attempt(
    struct store *store, int64_t task, int64_t grant, struct attempt *out, bool *out_found, struct err *err)
{
    (void)store, (void)task, (void)grant, (void)out, (void)err;
    *out_found = false;
    return true;
}

static struct store *stub_open(int64_t n)
{
    stub.mem = memstore_new(1);
    stub.inner = stub.ops = *stub.mem->own.store.ops;
    stub.ops.commit = stub_commit;
    stub.ops.load_task = stub_task;
    stub.ops.load_edges = stub_edges;
    stub.ops.ready_first = stub_ready;
    stub.ops.load_attempt = stub_attempt;
    stub.mem->own.store.ops = &stub.ops;
    stub.n_buckets = (size_t)n + 2;
    stub.buckets = mem_alloc(stub.n_buckets * sizeof *stub.buckets);
    stub.tasks = mem_alloc((size_t)(n + 2) * sizeof *stub.tasks);
    memset(stub.buckets, 0, stub.n_buckets * sizeof *stub.buckets);
    memset(stub.tasks, 0, (size_t)(n + 2) * sizeof *stub.tasks);
    return &stub.mem->own.store;
}

static void stub_close(void)
{
    mem_free(stub.buckets);
    mem_free(stub.tasks);
    arena_release(&stub.arena);
    memstore_free(stub.mem);
}

/* --- the engine --- */

struct drive {
    struct engine *engine;
    struct arena arena;
    int64_t wall, boot;
};

static void command_fill(struct drive *drive, struct command *command, enum command_kind kind)
{
    *command = (struct command){ .kind = kind, .arena = &drive->arena, .actor = { STR("bench"), STR("default") } };
}

static void turn(struct drive *drive, struct command **commands, size_t n)
{
    struct list answered = { 0 };
    struct err err = { 0 };
    int64_t next;
    drive->wall++;
    drive->boot++;
    if (!engine_turn(drive->engine, commands, n, drive->wall, drive->boot, &answered, &next, &err))
        bench_die("turn: %s", err.text);
    for (size_t i = 0; i < n; i++)
        if (commands[i]->err.code)
            bench_die("command %d: %s", (int)commands[i]->kind, commands[i]->err.text);
}

static struct task_def def_make(struct drive *drive, int64_t i)
{
    static const char body[] = "{\"data\":" BENCH_PAYLOAD "}";
    int64_t preds[EDGES_MAX], rev = i / REV_TASKS;
    size_t after, n = preds_of(i, preds, &after);
    struct task_def def = { .queue = str_fmt(&drive->arena, "a%d", (int)(rev % QUEUES)),
        .name = str_fmt(&drive->arena, "a%d-r%d-t%d", (int)(rev % QUEUES), (int)(rev / QUEUES), (int)(i % REV_TASKS)),
        .kind = KIND_DATA,
        .body = STR(body),
        .attempts_max = 3,
        .backoff_ms = 5000,
        .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED };
    def.refs = ARENA_ARRAY(&drive->arena, struct task_ref, n + 1);
    for (size_t p = 0; p < n; p++) {
        bool here = preds[p] / BATCH == i / BATCH;
        def.refs[def.n_refs++] = (struct task_ref){ .kind = p + after == n && after ? EDGE_AFTER : EDGE_DEPENDS,
            .id = here ? 0 : preds[p] + 1, /* ids are given in order, from 1 on */
            .index = here ? (size_t)(preds[p] % BATCH) : 0 };
    }
    return def;
}

static void graph_fill(struct drive *drive, int64_t n)
{
    for (int64_t from = 0; from < n; from += BATCH) {
        struct command command, *commands[] = { &command };
        size_t batch = (size_t)(n - from < BATCH ? n - from : BATCH);
        command_fill(drive, &command, CMD_ENQUEUE);
        command.in.enqueue.defs = ARENA_ARRAY(&drive->arena, struct task_def, batch);
        command.in.enqueue.n_defs = batch;
        for (size_t i = 0; i < batch; i++)
            command.in.enqueue.defs[i] = def_make(drive, from + (int64_t)i);
        turn(drive, commands, 1);
        arena_reset(&drive->arena);
    }
}

static int64_t worker_register(struct drive *drive)
{
    struct command command, *commands[] = { &command };
    command_fill(drive, &command, CMD_REGISTER);
    command.in.reg.executor = (struct executor){ .name = STR("bench"), .slots = BATCH, .kinds = ~0u };
    turn(drive, commands, 1);
    return command.out.reg.id;
}

static void graph_drain(struct drive *drive, int64_t n)
{
    int64_t executor = worker_register(drive), done = 0;
    struct finish_item *items = mem_alloc(BATCH * sizeof *items);
    size_t n_items = 0;
    while (done < n) {
        struct command finish, poll, *commands[] = { &finish, &poll };
        command_fill(drive, &finish, CMD_FINISH);
        finish.in.finish.items = items;
        finish.in.finish.n_items = n_items;
        command_fill(drive, &poll, CMD_POLL);
        poll.in.poll.executor = executor;
        poll.in.poll.free = BATCH;
        poll.in.poll.seq = -1;
        turn(drive, commands + (n_items == 0), n_items ? 2 : 1);
        for (size_t i = 0; i < n_items; i++)
            if (items[i].code)
                bench_die("a finish was refused: %s", err_name(items[i].code));
        done += (int64_t)n_items;
        n_items = poll.out.poll.n_grants;
        if (!n_items && done < n)
            bench_die("%lld of %lld ended", (long long)done, (long long)n);
        for (size_t i = 0; i < n_items; i++)
            items[i] = (struct finish_item){ .fence = poll.out.poll.grants[i].fence,
                .exit = 0,
                .signal = -1,
                .cpu_ms = -1,
                .max_rss_bytes = -1,
                .log_bytes = -1 };
        arena_reset(&drive->arena);
    }
    mem_free(items);
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? bench_number(argv[1]) : 100000;
    n -= n % REV_TASKS;
    bench_result("weir", "counters rate", counters_run(n), "/s");
    struct err err = { 0 };
    struct drive drive = { .wall = INT64_C(1800000000000), .boot = 1000000 };
    struct engine_config config = { .store = stub_open(n), .server_name = STR("bench") };
    drive.engine = engine_new(&config, drive.wall, drive.boot, &err);
    if (!drive.engine)
        bench_die("engine_new: %s", err.text);
    int64_t start = bench_now_ns();
    graph_fill(&drive, n);
    int64_t filled = bench_now_ns();
    graph_drain(&drive, n);
    int64_t end = bench_now_ns();
    bench_result("weir", "engine rate", (double)n / ((double)(end - start) / 1e9), "/s");
    bench_result("weir", "engine enqueue", (double)(filled - start) / 1000 / (double)n, "us/task");
    bench_result("weir", "engine drain", (double)(end - filled) / 1000 / (double)n, "us/task");
    engine_free(drive.engine);
    arena_release(&drive.arena);
    stub_close();
    return 0;
}
