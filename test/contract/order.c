/* order: 'the first N by rank', against a plain sort of the same rows. */
#include <stdlib.h>

#include "world.h"

enum { TASKS = 400, CLASSES = 3 };

static int ready_compare(const void *a, const void *b)
{
    const struct task *x = *(const struct task *const *)a, *y = *(const struct task *const *)b;
    if (x->prio != y->prio)
        return x->prio > y->prio ? -1 : 1;
    if (x->vt != y->vt)
        return x->vt < y->vt ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void ready_expect(struct world *w, struct task *tasks, const bool *in, int64_t class_id, size_t limit)
{
    const struct task *expected[TASKS];
    struct ready_row *out;
    size_t n = 0, n_out;
    for (size_t i = 0; i < TASKS; i++)
        if (in[i] && tasks[i].class_id == class_id)
            expected[n++] = &tasks[i];
    qsort(expected, n, sizeof expected[0], ready_compare);
    MUST(w, OPS(w)->ready_first(w->store, &w->arena, class_id, limit, &out, &n_out, &w->err));
    assert_int_equal(n_out, n < limit ? n : limit);
    for (size_t i = 0; i < n_out; i++) {
        assert_int_equal(out[i].task, expected[i]->id);
        assert_int_equal(out[i].prio, expected[i]->prio);
        assert_int_equal(out[i].vt, expected[i]->vt);
    }
}

/* A turn may ask for many, of which few have anything: each is answered as if it were the only one. */
static void ready_of_many_classes(void **state)
{
    enum { MANY = 30 };
    struct world w;
    struct task tasks[MANY];
    const struct task *all[MANY];
    (void)state;
    world_make(&w);
    for (int64_t i = 0; i < MANY; i++) {
        tasks[i] = (struct task){ .id = i + 1, .class_id = 2 * i + 1 };
        all[i] = &tasks[i];
    }
    turn_begin(&w);
    w.c.ready_add.at = all, w.c.ready_add.n = MANY;
    turn_end(&w);
    for (int64_t gone = 0; gone < MANY; gone += 10) {
        turn_begin(&w);
        for (int64_t class_id = 1; class_id <= 2 * MANY; class_id++) {
            struct ready_row *out;
            size_t n;
            MUST(&w, OPS(&w)->ready_first(w.store, &w.arena, class_id, 3, &out, &n, &w.err));
            assert_int_equal(n, class_id % 2 == 1 && class_id / 2 >= gone);
            if (n)
                assert_int_equal(out[0].task, class_id / 2 + 1);
        }
        w.c.ready_remove.at = all + gone, w.c.ready_remove.n = 10;
        turn_end(&w);
    }
    world_release(&w);
}

static void ready_is_ordered_by_priority_then_share_then_age(void **state)
{
    struct world w;
    struct rng rng;
    struct task tasks[TASKS];
    const struct task *add[TASKS], *gone[TASKS];
    bool in[TASKS];
    size_t n_gone = 0;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 1);
    for (size_t i = 0; i < TASKS; i++) {
        tasks[i] = (struct task){ .id = (int64_t)i + 1, .class_id = 1 + (int64_t)rng_below(&rng, CLASSES) };
        tasks[i].prio = (int64_t)rng_below(&rng, 5) - 2;
        tasks[i].vt = (int64_t)rng_below(&rng, 20);
        add[i] = &tasks[i];
        in[i] = true;
    }
    turn_begin(&w);
    w.c.ready_add.at = add, w.c.ready_add.n = TASKS;
    turn_end(&w);
    for (int64_t class_id = 1; class_id <= CLASSES; class_id++)
        ready_expect(&w, tasks, in, class_id, class_id == 1 ? 7 : TASKS);
    ready_expect(&w, tasks, in, 99, 5);
    for (size_t i = 0; i < TASKS; i++)
        if (rng_below(&rng, 2)) {
            gone[n_gone++] = &tasks[i];
            in[i] = false;
        }
    turn_begin(&w);
    w.c.ready_remove.at = gone, w.c.ready_remove.n = n_gone;
    turn_end(&w);
    for (int64_t class_id = 1; class_id <= CLASSES; class_id++)
        ready_expect(&w, tasks, in, class_id, TASKS);

    /* moved within one turn: away from its old place, into a new one; and one that goes and comes to the same place */
    size_t first = 0;
    while (!in[first])
        first++;
    struct task old = tasks[first];
    const struct task *from[] = { &old }, *to[] = { &tasks[first] };
    tasks[first].vt = 0, tasks[first].prio = 99;
    for (int i = 0; i < 2; i++) {
        turn_begin(&w);
        w.c.ready_remove.at = from, w.c.ready_remove.n = 1;
        w.c.ready_add.at = to, w.c.ready_add.n = 1;
        turn_end(&w);
        ready_expect(&w, tasks, in, old.class_id, 3);
        old = tasks[first];
    }
    world_release(&w);
}

static int hold_order(const void *a, const void *b)
{
    const struct hold *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

static void holds_same(const struct hold *out, size_t n_out, const struct hold *expected, size_t n)
{
    assert_int_equal(n_out, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].kind, expected[i].kind);
        assert_int_equal(out[i].key, expected[i].key);
        assert_int_equal(out[i].rank, expected[i].rank);
        assert_int_equal(out[i].task, expected[i].task);
        assert_int_equal(out[i].since, expected[i].since);
    }
}

static size_t holds_pick(
    const struct hold *all, size_t n, enum hold_kind kind, int64_t key_min, int64_t key_max, struct hold *out)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].kind == kind && all[i].key >= key_min && all[i].key <= key_max)
            out[found++] = all[i];
    qsort(out, found, sizeof *out, hold_order);
    return found;
}

static void holds_are_ordered(void **state)
{
    enum { HOLDS = 300 };
    struct world w;
    struct rng rng;
    struct hold all[HOLDS], expected[HOLDS], *out;
    size_t n;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 2);
    for (size_t i = 0; i < HOLDS; i++)
        all[i] = (struct hold){ .kind = (enum hold_kind)(1 + rng_below(&rng, HOLD_KIND_COUNT - 1)),
            .key = (int64_t)rng_below(&rng, 10),
            .rank = (int64_t)rng_below(&rng, 4),
            .task = (int64_t)i + 1,
            .since = (int64_t)i * 10 };
    turn_begin(&w);
    w.c.holds_add.at = all, w.c.holds_add.n = HOLDS;
    turn_end(&w);
    size_t due = holds_pick(all, HOLDS, HOLD_time, INT64_MIN, 5, expected);
    MUST(&w, OPS(&w)->holds_due(w.store, &w.arena, HOLD_time, 5, HOLDS, &out, &n, &w.err));
    holds_same(out, n, expected, due);
    MUST(&w, OPS(&w)->holds_due(w.store, &w.arena, HOLD_time, 5, 3, &out, &n, &w.err));
    holds_same(out, n, expected, 3);
    size_t users = holds_pick(all, HOLDS, HOLD_slot, 4, 4, expected);
    MUST(&w, OPS(&w)->holds_of(w.store, &w.arena, HOLD_slot, 4, HOLDS, &out, &n, &w.err));
    holds_same(out, n, expected, users);
    MUST(&w, reader_hold_users(w.reader, &w.arena, HOLD_slot, 4, 2, &out, &n, &w.err));
    holds_same(out, n, expected, 2);
    MUST(&w, OPS(&w)->holds_of_task(w.store, &w.arena, 17, &out, &n, &w.err));
    holds_same(out, n, &all[16], 1);
    MUST(&w, reader_holds(w.reader, &w.arena, 18, &out, &n, &w.err));
    holds_same(out, n, &all[17], 1);

    turn_begin(&w); /* half of them lifted; one goes and comes back */
    struct hold again = all[0];
    again.since = 4711;
    w.c.holds_remove.at = all, w.c.holds_remove.n = HOLDS / 2;
    w.c.holds_add.at = &again, w.c.holds_add.n = 1;
    turn_end(&w);
    MUST(&w, OPS(&w)->holds_of_task(w.store, &w.arena, 1, &out, &n, &w.err));
    holds_same(out, n, &again, 1);
    MUST(&w, OPS(&w)->holds_of_task(w.store, &w.arena, 2, &out, &n, &w.err));
    assert_int_equal(n, 0);
    due = holds_pick(all + HOLDS / 2, HOLDS - HOLDS / 2, HOLD_pause, INT64_MIN, INT64_MAX, expected);
    if (all[0].kind != HOLD_pause) {
        MUST(&w, OPS(&w)->holds_due(w.store, &w.arena, HOLD_pause, INT64_MAX, HOLDS, &out, &n, &w.err));
        holds_same(out, n, expected, due);
    }
    world_release(&w);
}

static void head_expect(struct world *w, int64_t commit, int64_t time)
{
    struct store_head head;
    MUST(w, OPS(w)->load_head(w->store, &head, &w->err));
    assert_int_equal(head.commit, commit);
    assert_int_equal(head.time, time);
    assert_int_equal(w->store->commit, commit);
    MUST(w, reader_head(w->reader, &head, &w->err));
    assert_int_equal(head.commit, commit);
    assert_int_equal(head.time, time);
}

/* Whatever a commit changes moves the number by one; what changes nothing is no commit. The head knows the time of its
 * turn. */
static void each_commit_has_a_number(void **state)
{
    struct world w;
    struct store_head first;
    (void)state;
    world_make(&w);
    MUST(&w, OPS(&w)->load_head(w.store, &first, &w.err));
    turn_begin(&w);
    turn_end(&w);
    head_expect(&w, first.commit, 0);
    const struct executor executor = {
        .id = 1, .name = STR("x"), .instance = STR("i"), .host = STR("h"), .version = STR("1"), .zone = STR("z")
    };
    const struct executor *executors[] = { &executor };
    turn_begin(&w);
    w.head.next_executor = 2;
    w.c.executors.at = executors, w.c.executors.n = 1;
    turn_end(&w);
    head_expect(&w, first.commit + 1, 0); /* a commit without events */
    turn_begin(&w);
    w.c.executors.at = executors, w.c.executors.n = 1; /* its row, and nothing of the head */
    turn_end(&w);
    head_expect(&w, first.commit + 2, 0);
    turn_begin(&w);
    turn_event(&w, (struct event){ .kind = EVENT_started, .actor = STR("test") });
    turn_end(&w);
    int64_t time = w.now;
    head_expect(&w, first.commit + 3, time);
    turn_begin(&w);
    w.head.v_now++;
    turn_end(&w);
    head_expect(&w, first.commit + 4, time); /* the time is that of the last turn with events */
    turn_begin(&w);
    w.c.executors.at = executors, w.c.executors.n = 1;
    OPS(&w)->rollback(w.store);
    head_expect(&w, first.commit + 4, time);
    world_reopen(&w);
    head_expect(&w, first.commit + 4, time);
    world_release(&w);
}

const struct CMUnitTest contract_order[] = {
    cmocka_unit_test(each_commit_has_a_number),
    cmocka_unit_test(ready_is_ordered_by_priority_then_share_then_age),
    cmocka_unit_test(ready_of_many_classes),
    cmocka_unit_test(holds_are_ordered),
};
const size_t n_contract_order = sizeof contract_order / sizeof contract_order[0];
