/* store_bench: how fast the store alone takes turns: 1,000 new pending tasks a turn, then claims, then finishes, and
 * the cycle of all three.
 *
 * usage: store_bench [--tasks N] [--per-turn N] [--keep DIR] [--store postgresql://...]. Makes a store in a temporary
 * directory (or in that database, which must be empty), fills it to N tasks and prints rows per second for each kind of
 * turn, at the beginning and at the end, so that growth with the queue shows. Every turn is durable (one fsync). */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/clock.h"
#include "store/pack.h"
#include "store/read.h"

enum { PER_TURN_MAX = 10000, WAVE = 10000 };

struct bench {
    struct store *store;
    struct store_head head;
    struct lane lane;
    struct arena arena;
    struct buf packed;
    int64_t now;
    size_t per_turn;
};

static _Noreturn void fail(const struct err *err)
{
    fprintf(stderr, "store_bench: %s\n", err->text);
    exit(1);
}

static void turn_commit(struct bench *b, struct changes *c, const struct event *events, size_t n)
{
    struct err err = { 0 };
    const struct lane *lanes[] = { &b->lane };
    buf_reset(&b->packed);
    pack_events(&b->packed, events, n);
    c->lanes.at = lanes, c->lanes.n = 1;
    c->history.events = buf_str(&b->packed);
    c->history.turn = b->head.turn;
    c->history.first_seq = b->head.seq + 1, c->history.time = b->now++;
    b->head.seq += (int64_t)n;
    c->head = b->head;
    if (!b->store->ops->commit(b->store, c, &err))
        fail(&err);
    arena_reset(&b->arena);
}

static void turn_begin(struct bench *b)
{
    struct err err = { 0 };
    if (!b->store->ops->begin(b->store, &err))
        fail(&err);
    b->head.turn++;
}

static void enqueue(struct bench *b, size_t n)
{
    turn_begin(b);
    struct task *tasks = ARENA_ARRAY(&b->arena, struct task, n);
    const struct task **rows = ARENA_ARRAY(&b->arena, const struct task *, n);
    struct spec *specs = ARENA_ARRAY(&b->arena, struct spec, n);
    const struct spec **spec_rows = ARENA_ARRAY(&b->arena, const struct spec *, n);
    struct event *events = ARENA_ARRAY(&b->arena, struct event, n * 2);
    for (size_t i = 0; i < n; i++) {
        int64_t id = b->head.next_task++;
        specs[i] = (struct spec){ .id = b->head.next_spec++,
            .body = STR("{\"command\":[\"/bin/true\"],\"timeout_ms\":60000}"),
            .attempts_max = 3 };
        tasks[i] = (struct task){
            .id = id,
            .lane = 1,
            .name = str_fmt(&b->arena, "job-%lld", (long long)id),
            .state = STATE_P,
            .class_id = 1,
            .prio = 5,
            .vt = ++b->lane.last_vt,
            .spec = specs[i].id,
            .created = b->now,
            .ready = b->now,
            .last_turn = b->head.turn,
        };
        rows[i] = &tasks[i], spec_rows[i] = &specs[i];
        events[i * 2] =
            (struct event){ .kind = EVENT_created, .task = id, .lane = 1, .to = STATE_Q, .actor = STR("token:ci") };
        events[i * 2 + 1] = (struct event){ .kind = EVENT_move,
            .task = id,
            .lane = 1,
            .from = STATE_Q,
            .to = STATE_P,
            .actor = STR("token:ci"),
            .prev_turn = b->head.turn };
    }
    b->lane.counts[STATE_P] += (int64_t)n;
    struct changes c = {
        .specs = { .at = spec_rows, .n = n }, .tasks_new = { .at = rows, .n = n }, .ready_add = { .at = rows, .n = n }
    };
    turn_commit(b, &c, events, n * 2);
}

static size_t claim(struct bench *b, size_t n, int64_t *out_ids)
{
    struct err err = { 0 };
    struct ready_row *ready;
    turn_begin(b);
    if (!b->store->ops->ready_first(b->store, &b->arena, 1, n, &ready, &n, &err))
        fail(&err);
    struct task *tasks = ARENA_ARRAY(&b->arena, struct task, n + 1);
    const struct task **rows = ARENA_ARRAY(&b->arena, const struct task *, n + 1);
    struct attempt *attempts = ARENA_ARRAY(&b->arena, struct attempt, n + 1);
    struct event *events = ARENA_ARRAY(&b->arena, struct event, n + 1);
    for (size_t i = 0; i < n; i++) {
        bool found;
        struct spec spec;
        if (!b->store->ops->load_task(b->store, &b->arena, ready[i].task, &tasks[i], &found, &err) ||
            !b->store->ops->load_spec(b->store, &b->arena, tasks[i].spec, &spec, &err))
            fail(&err);
        events[i] = (struct event){ .kind = EVENT_move,
            .task = tasks[i].id,
            .lane = 1,
            .from = STATE_P,
            .to = STATE_X,
            .grant = 1,
            .attempt = 1,
            .actor = STR("executor:a"),
            .prev_turn = tasks[i].last_turn };
        tasks[i].state = STATE_X, tasks[i].grant = 1, tasks[i].attempts = 1, tasks[i].started = b->now,
        tasks[i].last_turn = b->head.turn;
        attempts[i] =
            (struct attempt){ .task = tasks[i].id, .number = 1, .grant = 1, .executor = 1, .started = b->now };
        rows[i] = &tasks[i];
        out_ids[i] = tasks[i].id;
    }
    b->lane.counts[STATE_P] -= (int64_t)n, b->lane.counts[STATE_X] += (int64_t)n;
    struct changes c = { .tasks_changed = { .at = rows, .n = n },
        .ready_remove = { .at = rows, .n = n },
        .attempts_new = { .at = attempts, .n = n } };
    turn_commit(b, &c, events, n);
    return n;
}

static void finish(struct bench *b, const int64_t *ids, size_t n)
{
    struct err err = { 0 };
    turn_begin(b);
    struct task *tasks = ARENA_ARRAY(&b->arena, struct task, n);
    const struct task **rows = ARENA_ARRAY(&b->arena, const struct task *, n);
    struct attempt *attempts = ARENA_ARRAY(&b->arena, struct attempt, n);
    struct event *events = ARENA_ARRAY(&b->arena, struct event, n);
    for (size_t i = 0; i < n; i++) {
        bool found;
        if (!b->store->ops->load_task(b->store, &b->arena, ids[i], &tasks[i], &found, &err) ||
            !b->store->ops->load_attempt(b->store, ids[i], 1, &attempts[i], &found, &err))
            fail(&err);
        events[i] = (struct event){ .kind = EVENT_move,
            .task = ids[i],
            .lane = 1,
            .from = STATE_X,
            .to = STATE_D,
            .grant = 1,
            .attempt = 1,
            .actor = STR("executor:a"),
            .prev_turn = tasks[i].last_turn };
        tasks[i].state = STATE_D, tasks[i].finished = b->now, tasks[i].outcome = OUTCOME_done,
        tasks[i].last_turn = b->head.turn;
        attempts[i].finished = b->now, attempts[i].outcome = OUTCOME_done, attempts[i].exit = 0, attempts[i].cpu_ms = 1;
        rows[i] = &tasks[i];
    }
    b->lane.counts[STATE_X] -= (int64_t)n, b->lane.counts[STATE_D] += (int64_t)n;
    struct changes c = { .tasks_changed = { .at = rows, .n = n }, .attempts_changed = { .at = attempts, .n = n } };
    turn_commit(b, &c, events, n);
}

struct lap { /* wall clock and this thread's processor time: on a shared machine only the second repeats */
    int64_t wall_us, cpu_us;
};

static struct lap lap_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct lap){ clock_boot_us(),
        (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec };
}

static void lap_print(const char *what, size_t n, struct lap from)
{
    struct lap now = lap_now();
    printf("   %s %7.0f/s %5.2f us", what, (double)n * 1e6 / (double)(now.wall_us - from.wall_us + 1),
        (double)(now.cpu_us - from.cpu_us) / (double)n);
}

/* A wave: WAVE tasks in, claimed, finished; and the queue is as long as before. */
static void wave(struct bench *b, const char *label)
{
    static int64_t ids[WAVE];
    struct lap begin = lap_now(), start = begin;
    printf("%-20s", label);
    for (size_t i = 0; i < WAVE; i += b->per_turn)
        enqueue(b, b->per_turn);
    lap_print("enqueue", WAVE, start);
    start = lap_now();
    for (size_t i = 0; i < WAVE; i += b->per_turn)
        claim(b, b->per_turn, ids + i);
    lap_print("claim", WAVE, start);
    start = lap_now();
    for (size_t i = 0; i < WAVE; i += b->per_turn)
        finish(b, ids + i, b->per_turn);
    lap_print("finish", WAVE, start);
    lap_print("cycle", WAVE, begin);
    printf("\n");
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void store_make(struct bench *b, const char *url, const char *dir)
{
    struct err err = { 0 };
    struct store_config config = { .url = url, .data_dir = dir, .create = true };
    struct task_class class = { .id = 1, .key = STR("k"), .tenant = STR("default"), .kind = KIND_COMMAND };
    const struct task_class *classes[] = { &class };
    b->store = store_open(&config, &err);
    if (!b->store || !b->store->ops->load_head(b->store, &b->head, &err))
        fail(&err);
    b->lane = (struct lane){ .id = 1, .kind = LANE_QUEUE, .tenant = STR("default"), .name = STR("default") };
    turn_begin(b);
    struct changes c = { .classes = { .at = classes, .n = 1 } };
    struct event event = { .kind = EVENT_started, .actor = STR("bench") };
    turn_commit(b, &c, &event, 1);
}

int main(int argc, char **argv)
{
    struct bench b = { .now = 1700000000000, .per_turn = 1000 };
    size_t n_tasks = 1000000;
    char dir[] = "/tmp/store_bench.XXXXXX";
    const char *where = NULL, *url = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--tasks") == 0)
            n_tasks = (size_t)strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--per-turn") == 0)
            b.per_turn = (size_t)strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--keep") == 0)
            where = argv[i + 1];
        else if (strcmp(argv[i], "--store") == 0)
            url = argv[i + 1];
    }
    if (b.per_turn < 1 || b.per_turn > PER_TURN_MAX || WAVE % b.per_turn) {
        fprintf(stderr, "store_bench: --per-turn must divide %d\n", WAVE);
        return 2;
    }
    if (!where && !mkdtemp(dir)) {
        fprintf(stderr, "store_bench: %s: %s\n", dir, strerror(errno));
        return 1;
    }
    buf_init(&b.packed, 64 << 20);
    store_make(&b, url, where ? where : dir);
    wave(&b, "empty");
    wave(&b, "10k done");
    wave(&b, "20k done");
    struct lap fill = lap_now();
    size_t filled = 0;
    for (; filled < n_tasks; filled += b.per_turn)
        enqueue(&b, b.per_turn);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("fill to %zu pending:", filled);
    lap_print("enqueue", filled, fill);
    printf("   %lld MiB on disk, %ld MiB resident at most\n", (long long)b.store->ops->size_bytes(b.store) >> 20,
        usage.ru_maxrss >> 10);
    wave(&b, "with the queue full");
    wave(&b, "with the queue full");
    int64_t start = clock_boot_us();
    b.store->ops->close(b.store);
    printf("close %lld ms", (long long)(clock_boot_us() - start) / 1000);
    start = clock_boot_us();
    struct err err = { 0 };
    struct store_config config = { .url = url, .data_dir = where ? where : dir };
    if (!(b.store = store_open(&config, &err)))
        fail(&err);
    printf(", open again %lld ms\n", (long long)(clock_boot_us() - start) / 1000);
    b.store->ops->close(b.store);
    arena_release(&b.arena);
    buf_release(&b.packed);
    if (!where)
        nftw(dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
