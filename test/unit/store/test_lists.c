/* Walks that are cut short: however little a call may look at, all pages together are the whole list, in order, and
 * nothing twice. Run for each store; by test/lib/postgres.py for PostgreSQL. */
#include <stdio.h>
#include <string.h>

#include "store/postgres/reader.h"
#include "world.h"

enum { TASKS = 1500, LONE = 41, STEP_ROWS = 64, WINDOW = 512 };

static bool on_postgres(void)
{
    return strcmp(backend_chosen()->name, "postgres") == 0;
}

/* How much a call looks at that has no time left: rows or, on PostgreSQL, a window of them. */
static size_t step_rows(void)
{
    return on_postgres() ? WINDOW : STEP_ROWS;
}

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
    struct lane rows_of_lanes[] = { { .id = 1, .kind = LANE_QUEUE, .tenant = STR("default"), .name = STR("default") },
        { .id = 2, .kind = LANE_QUEUE, .tenant = STR("small"), .name = STR("default") } };
    const struct lane *lanes[] = { &rows_of_lanes[0], &rows_of_lanes[1] };
    size_t n_ready = 0;
    world_make(w);
    for (int64_t i = 0; i < TASKS; i++) {
        bool lone = i + 1 == LONE;
        tasks[i] = (struct task){ .id = i + 1,
            .lane = lone ? 2 : 1,
            .state = state_of(i + 1),
            .class_id = 1,
            .name = lone ? STR("rare") : STR("plain") };
        rows_of_lanes[lone].counts[tasks[i].state]++;
        rows[i] = &tasks[i];
        if (tasks[i].state == STATE_P)
            ready[n_ready++] = &tasks[i];
    }
    turn_begin(w);
    w->c.lanes.at = lanes, w->c.lanes.n = 2;
    w->c.tasks_new.at = rows, w->c.tasks_new.n = TASKS;
    w->c.ready_add.at = ready, w->c.ready_add.n = n_ready;
    turn_end(w);
    w->reader->step_us = -1; /* every walk's time is over at its first look at the clock */
}

/* Of the rare ones there is one. */
static bool listed(const struct task_filter *f, int64_t id)
{
    return f->states & 1u << state_of(id) && (id == LONE || !(f->name.len || f->tenant.len));
}

static size_t pages_expect(struct world *w, struct task_filter f)
{
    int64_t expected = TASKS;
    size_t calls = 0;
    do {
        struct task_view *views;
        size_t n;
        int64_t next;
        MUST(w, reader_tasks(w->reader, &w->arena, &f, &views, &n, &next, &w->err));
        for (size_t i = 0; i < n; i++, expected--) {
            while (expected > 0 && !listed(&f, expected))
                expected--;
            assert_int_equal(views[i].task.id, expected);
        }
        assert_true(next == 0 || f.before == 0 || next < f.before);
        f.before = next;
        calls++;
    } while (f.before);
    for (; expected > 0; expected--)
        assert_false(listed(&f, expected));
    return calls;
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
        size_t calls = pages_expect(&w, f);
        assert_true(calls >= (mask & 1u << 4 ? TASKS / step_rows() : 1)); /* else nothing was cut short */
    }
    struct task_filter every = { .limit = 500, .states = (1u << STATE_COUNT) - 2 };
    struct task_view *views;
    size_t n;
    MUST(&w, reader_tasks(w.reader, &w.arena, &every, &views, &n, &(int64_t){ 0 }, &w.err));
    assert_int_equal(n, 500); /* where all fit a page is whole */
    struct task_filter rare = { .limit = 10, .name = STR("rare"), .states = (1u << STATE_COUNT) - 2 };
    assert_true(pages_expect(&w, rare) >= TASKS / step_rows());
    world_release(&w);
}

/* The smallest page, and no time at all: small steps would be a thousand calls to find one task. */
static void a_tenant_of_few_tasks_among_many_is_not_told_in_crumbs(void **state)
{
    static const unsigned every = (1u << STATE_COUNT) - 2;
    struct world w;
    (void)state;
    scene_make(&w);
    for (size_t limit = 1; limit <= 1000; limit *= 10)
        for (int alone = 0; alone < 2; alone++) { /* D's source is the same one, with other states in it */
            struct task_filter f = {
                .limit = limit, .tenant = STR("small"), .states = alone ? 1u << state_of(LONE) : every
            };
            size_t calls = pages_expect(&w, f), most = TASKS / step_rows() + 2;
            assert_true(calls <= most);
        }
    world_release(&w);
}

static size_t binds_in(FILE *trace)
{
    char line[4096];
    size_t n = 0;
    rewind(trace);
    while (fgets(line, sizeof line, trace))
        n += strstr(line, "\tBind\t") != NULL;
    return n;
}

/* With time enough: windows grow, so the statements of a call are few, and a page of a tenant that has all of them is
 * one window. */
static void a_page_is_few_statements(void **state)
{
    const struct {
        struct str tenant;
        size_t most;
    } rows[] = { { STR("small"), 10 }, { STR("default"), 8 } };
    struct world w;
    (void)state;
    if (!on_postgres())
        return;
    scene_make(&w);
    w.reader->step_us = 60 * 1000000LL;
    for (size_t i = 0; i < 2; i++) {
        struct task_filter f = { .limit = 5, .tenant = rows[i].tenant };
        FILE *trace = tmpfile();
        struct task_view *views;
        size_t n;
        assert_non_null(trace);
        PQtrace(postgres_reader_of(w.reader)->pg.conn, trace);
        MUST(&w, reader_tasks(w.reader, &w.arena, &f, &views, &n, &(int64_t){ 0 }, &w.err));
        PQuntrace(postgres_reader_of(w.reader)->pg.conn);
        assert_int_equal(n, i ? 5 : 1);
        size_t statements = binds_in(trace);
        assert_in_range(statements, 1, rows[i].most);
        fclose(trace);
    }
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
    w.reader->step_us = -1;
    for (;; since = last, calls++) {
        MUST(&w, reader_events(w.reader, &w.arena, since, 7, 100, &events, &n, &last, &w.err));
        found += n;
        if (last == since)
            break;
    }
    assert_int_equal(found, 5);
    assert_in_range(calls, on_postgres() ? 1 : 50, 50);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_survive_being_cut_short),
        cmocka_unit_test(a_tenant_of_few_tasks_among_many_is_not_told_in_crumbs),
        cmocka_unit_test(a_page_is_few_statements),
        cmocka_unit_test(events_survive_being_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
