/* Walks that are cut short: however little a call may look at, all pages together are the whole list, in order, and nothing twice. */
#include "store/sqlite/reader.h"
#include "world.h"

enum { TASKS = 1500 };

static enum task_state state_of(int64_t id)
{
    if (id % 100 == 0)
        return STATE_F;
    if (id % 33 == 0)
        return STATE_A;
    return id < 700 || id > 1200 ? STATE_D : id % 7 ? STATE_S : STATE_P;
}

static void scene_make(struct world *w)
{
    static struct task tasks[TASKS];
    const struct task *rows[TASKS], *ready[TASKS];
    struct lane lane = { .id = 1, .kind = LANE_QUEUE, .tenant = STR("default"), .name = STR("default") };
    const struct lane *lanes[] = { &lane };
    size_t n_ready = 0;
    world_make(w);
    for (int64_t i = 0; i < TASKS; i++) {
        tasks[i] = (struct task){ .id = i + 1, .lane = 1, .state = state_of(i + 1), .class_id = 1,
                                 .name = i == 40 ? STR("rare") : STR("plain") };
        lane.counts[tasks[i].state]++;
        rows[i] = &tasks[i];
        if (tasks[i].state == STATE_P)
            ready[n_ready++] = &tasks[i];
    }
    turn_begin(w);
    w->c.lanes = lanes, w->c.n_lanes = 1;
    w->c.tasks_new = rows, w->c.n_tasks_new = TASKS;
    w->c.ready_add = ready, w->c.n_ready_add = n_ready;
    turn_end(w);
    sqlite_reader_of(w->reader)->step_us = -1; /* every walk's time is over at its first look at the clock */
}

static void pages_expect(struct world *w, struct task_filter f, size_t calls_min)
{
    int64_t expected = TASKS;
    size_t calls = 0;
    do {
        struct task_view *views;
        size_t n;
        int64_t next;
        MUST(w, reader_tasks(w->reader, &w->arena, &f, &views, &n, &next, &w->err));
        for (size_t i = 0; i < n; i++, expected--) {
            while (expected > 0 && (!(f.states & 1u << state_of(expected)) || (f.name.len && expected != 41)))
                expected--;
            assert_int_equal(views[i].task.id, expected);
        }
        assert_true(next == 0 || f.before == 0 || next < f.before);
        f.before = next;
        calls++;
    } while (f.before);
    for (; expected > 0; expected--)
        assert_true(!(f.states & 1u << state_of(expected)) || (f.name.len && expected != 41));
    assert_true(calls >= calls_min); /* else nothing was cut short */
}

static void lists_survive_being_cut_short(void **state)
{
    static const enum task_state all[] = { STATE_F, STATE_A, STATE_S, STATE_P, STATE_D };
    struct world w;
    (void)state;
    scene_make(&w);
    for (unsigned mask = 1; mask < 1u << 5; mask++) {
        struct task_filter f = { .limit = 20 };
        for (int i = 0; i < 5; i++)
            if (mask & 1u << i)
                f.states |= 1u << all[i];
        pages_expect(&w, f, mask & 1u << 4 ? TASKS / 64 : 1);
    }
    struct task_filter every = { .limit = 500, .states = (1u << STATE_COUNT) - 2 };
    struct task_view *views;
    size_t n;
    MUST(&w, reader_tasks(w.reader, &w.arena, &every, &views, &n, &(int64_t){ 0 }, &w.err));
    assert_int_equal(n, 500); /* where all fit a page is whole */
    struct task_filter rare = { .limit = 10, .name = STR("rare"), .states = (1u << STATE_COUNT) - 2 };
    pages_expect(&w, rare, TASKS / 64);
    world_release(&w);
}

static void events_survive_being_cut_short(void **state)
{
    struct world w;
    struct event *events;
    int64_t since = 0, last, calls = 0;
    size_t n, found = 0;
    (void)state;
    world_make(&w);
    for (int i = 0; i < 50; i++) {
        turn_begin(&w);
        turn_event(&w, (struct event){ .kind = EVENT_pause, .lane = 1 + i % 10, .actor = STR("x") });
        turn_end(&w);
    }
    sqlite_reader_of(w.reader)->step_us = -1;
    for (;; since = last, calls++) {
        MUST(&w, reader_events(w.reader, &w.arena, since, 7, 100, &events, &n, &last, &w.err));
        found += n;
        if (last == since)
            break;
    }
    assert_int_equal(found, 5);
    assert_int_equal(calls, 50);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_survive_being_cut_short),
        cmocka_unit_test(events_survive_being_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
