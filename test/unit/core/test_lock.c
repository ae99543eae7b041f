/* lock: who comes before whom in the queue for an archive's lock, as a table of small queues.
 *
 * A queue is written "1Ex 2Ew>1 3Sw>2": task 1 has the lock alone (E) and runs (x); 2 waits (w) behind it; 3 shares (S)
 * and waits behind 2. d: done; a: stopped while it waited. `last` and `shared` are what the archive's row says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "core/lock.h"

enum { TASKS_MAX = 8, EDGES_MAX = 16 };

struct world {
    struct task tasks[TASKS_MAX]; /* by id; 0: none */
    struct edge edges[EDGES_MAX];
    size_t n_edges;
};

static bool world_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    const struct world *world = owner;
    (void)arena, (void)err;
    *out_found = id > 0 && id < TASKS_MAX && world->tasks[id].id == id;
    if (*out_found)
        *out = world->tasks[id];
    return true;
}

static bool world_edges(
    void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    const struct world *world = owner;
    (void)err;
    *out = ARENA_ARRAY(arena, struct edge, EDGES_MAX);
    *out_n = 0;
    for (size_t i = 0; i < world->n_edges; i++)
        if ((by_pred ? world->edges[i].pred : world->edges[i].waiter) == id)
            (*out)[(*out_n)++] = world->edges[i];
    return true;
}

static const struct lane *world_lane(void *owner, int64_t id)
{
    static const struct lane all = { .id = 0 }, archive = { .id = 1, .kind = LANE_ARCHIVE };
    (void)owner;
    return id ? &archive : &all;
}

static void world_read(struct world *world, const char *text)
{
    struct str rest = str_of(text), word;
    while (str_cut(&rest, ' ', &word)) {
        int64_t id = word.ptr[0] - '0';
        char how = word.ptr[2];
        assert_true(id > 0 && id < TASKS_MAX && word.len >= 3);
        world->tasks[id] = (struct task){ .id = id,
            .lane = 1,
            .rev = id,
            .marks = MARK_LOCKED | (word.ptr[1] == 'E' ? MARK_EXCLUSIVE : 0u),
            .state = how == 'x'   ? STATE_X
                     : how == 'w' ? STATE_S
                     : how == 'd' ? STATE_D
                                  : STATE_A,
            .waits = how == 'w' || how == 'a' };
        for (size_t i = 3; i + 1 < word.len; i += 2) {
            assert_true(word.ptr[i] == '>' && world->n_edges < EDGES_MAX);
            world->edges[world->n_edges++] =
                (struct edge){ .waiter = id, .pred = word.ptr[i + 1] - '0', .kind = EDGE_AFTER, .flags = EDGE_LOCK };
        }
    }
    for (size_t i = 0; i < world->n_edges; i++) { /* the slice reads edges only where a row counts some */
        world->tasks[world->edges[i].waiter].ins++;
        world->tasks[world->edges[i].pred].out++;
    }
}

static int64_t ids_read(const char *text, int64_t *out)
{
    int64_t n = 0;
    for (; *text; text++)
        out[n++] = *text - '0';
    return n;
}

/* The tasks that this one waits for, by edges that count, in the order of their numbers. */
static void waits_show(struct slice *slice, int64_t id, struct buf *out)
{
    size_t n;
    const struct edge *ins = slice_ins(slice, slice_find(slice, id), &n);
    for (int64_t pred = 1; pred < TASKS_MAX; pred++)
        for (size_t i = 0; i < n; i++)
            if (ins[i].pred == pred && edge_counts(ins[i].kind, ins[i].flags))
                buf_add_char(out, (char)('0' + pred));
}

struct row {
    const char *queue;
    int64_t last;       /* archive.lock_exclusive */
    const char *shared; /* archive.lock_shared */
    int64_t again;      /* the task that is retried; 0: who comes before the next one is asked */
    /* before: those that the next exclusive task comes after. again: whom it waits for, then the row: last, shared */
    const char *expected;
    const char *why;
};

static const struct row rows[] = {
    { "1Ex", 0, "", 0, "", "nobody has the lock" },
    { "1Ex", 1, "", 0, "1", "the holder" },
    { "1Ex 2Ew>1", 2, "", 0, "2", "the last in line stands for all before it" },
    { "1Ed", 1, "", 0, "", "a holder that has ended has handed the lock on" },
    { "1Ex 2Ea>1", 2, "", 0, "1", "stopped while it waited: whom it waited for" },
    { "1Ex 2Ea>1 3Ea>2", 3, "", 0, "1", "the same over two of them" },
    { "1Sx 2Sx 3Ea>1>2", 3, "", 0, "12", "the same behind two that share the lock" },
    { "1Ex 2Ed>1 3Ea>2", 3, "", 0, "", "one between them had begun: all before it had ended" },
    { "1Ew", 0, "", 1, " 1 ", "alone: it is the last, and waits for nobody" },
    { "1Ew 2Ex", 2, "", 1, "2 1 ", "behind the holder" },
    { "1Ew 2Ex 3Ew>2", 3, "", 1, "3 1 ", "behind the last in line" },
    { "1Sw 2Ex", 2, "", 1, "2 2 1", "it shares: behind the holder, which stays the last that is alone" },
    { "1Ew 2Sx 3Sx", 0, "23", 1, "23 1 ", "alone: behind all that share" },
    { "1Sw 2Sx", 0, "2", 1, " 0 21", "it shares: beside those that share" },
    { "1Ew 2Ew>1", 2, "", 1, " 2 ", "the last in line waits for it: it keeps the end" },
    { "1Ew 2Ex>1", 2, "", 1, "2 1 ", "the holder was to wait for it, and runs: it goes first" },
    { "1Ew 2Ea>3 3Ex", 2, "", 1, "3 1 ", "the last in line was stopped: behind whom that one waited for" },
};

static void test_the_queue_for_the_lock(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct world world = { 0 };
        struct arena arena = { 0 };
        struct slice slice = { 0 };
        struct err err = { 0 };
        struct buf text;
        int64_t shared[TASKS_MAX];
        const struct rows port = { .owner = &world, .task = world_task, .edges = world_edges, .lane = world_lane };
        buf_init(&text, 100);
        world_read(&world, row->queue);
        slice_init(&slice, &arena, &port, 1000, 1, &err);
        struct archive archive = { .lane = 1, .lock_exclusive = row->last, .lock_shared = shared };
        archive.n_lock_shared = (size_t)ids_read(row->shared, shared);
        if (row->again) {
            lock_again(&slice, &archive, slice_find(&slice, row->again), NULL);
            waits_show(&slice, row->again, &text);
            buf_addf(&text, " %lld ", (long long)archive.lock_exclusive);
            for (size_t k = 0; k < archive.n_lock_shared; k++)
                buf_add_char(&text, (char)('0' + archive.lock_shared[k]));
        } else {
            size_t n;
            struct node **before = lock_before(&slice, &archive, &n);
            for (int64_t id = 1; id < TASKS_MAX; id++)
                for (size_t k = 0; k < n; k++)
                    if (before[k]->row.id == id)
                        buf_add_char(&text, (char)('0' + id));
        }
        if (!str_eqz(buf_str(&text), row->expected))
            fail_msg("%s (%s): '%.*s', not '%s'", row->queue, row->why, STR_ARG(buf_str(&text)), row->expected);
        assert_false(slice.failed);
        buf_release(&text);
        slice_release(&slice);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_queue_for_the_lock) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
