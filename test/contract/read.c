/* read: what the api shows: lists by every filter against a plain walk, single tasks with all that belongs to them,
 * events. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { TASKS = 700, LANES = 5 };

static const struct {
    const char *tenant, *name;
    enum lane_kind kind;
} lane_table[LANES] = {
    { "default", "default", LANE_QUEUE },
    { "default", "trunk", LANE_ARCHIVE },
    { "default", "empty", LANE_QUEUE },
    { "other", "mail", LANE_QUEUE },
    { "other", "branch", LANE_ARCHIVE },
};
static const char *const names[] = { "build", "test", "deploy" };

struct scene {
    struct world w;
    struct lane lanes[LANES];
    struct task tasks[TASKS];
};

/* Tasks of all kinds; a P has its ready row and an X its attempt, as always. */
static void scene_make(struct scene *s)
{
    struct rng rng;
    const struct lane *lanes[LANES];
    const struct task *all[TASKS], *ready[TASKS];
    struct attempt live[TASKS];
    size_t n_ready = 0, n_live = 0;
    static const enum task_state letters[] = { STATE_D, STATE_D, STATE_D, STATE_P, STATE_X, STATE_Q, STATE_S, STATE_F,
        STATE_T, STATE_A };
    world_make(&s->w);
    rng_seed(&rng, 3);
    for (int i = 0; i < LANES; i++) {
        s->lanes[i] = (struct lane){ .id = i + 1,
            .kind = lane_table[i].kind,
            .tenant = str_of(lane_table[i].tenant),
            .name = str_of(lane_table[i].name) };
        lanes[i] = &s->lanes[i];
    }
    for (int i = 0; i < TASKS; i++) {
        int64_t lane = 1 + (int64_t)rng_below(&rng, LANES);
        lane = lane == 3 ? 1 : lane;
        s->tasks[i] = (struct task){ .id = i + 1,
            .lane = lane,
            .name = str_of(names[rng_below(&rng, 3)]),
            .state = letters[rng_below(&rng, 10)],
            .class_id = 1,
            .vt = i };
        if (lane_table[lane - 1].kind == LANE_ARCHIVE)
            s->tasks[i].rev = 1 + (int64_t)rng_below(&rng, 20), s->tasks[i].run = i % 7 ? 0 : i;
        s->lanes[lane - 1].counts[s->tasks[i].state]++;
        all[i] = &s->tasks[i];
        if (s->tasks[i].state == STATE_P)
            ready[n_ready++] = &s->tasks[i];
        if (s->tasks[i].state == STATE_X)
            live[n_live++] = (struct attempt){ .task = i + 1, .grant = 1, .executor = i % 4, .many = i % 3 != 0 };
    }
    turn_begin(&s->w);
    s->w.c.lanes.at = lanes, s->w.c.lanes.n = LANES;
    s->w.c.tasks_new.at = all, s->w.c.tasks_new.n = TASKS;
    s->w.c.ready_add.at = ready, s->w.c.ready_add.n = n_ready;
    s->w.c.attempts_new.at = live, s->w.c.attempts_new.n = n_live;
    turn_end(&s->w);
}

static bool fits(const struct scene *s, const struct task *task, const struct task_filter *f)
{
    const struct lane *lane = &s->lanes[task->lane - 1];
    return (!f->states || f->states & 1u << task->state) && (!f->lane.len || str_eq(f->lane, lane->name)) &&
           (!f->tenant.len || str_eq(f->tenant, lane->tenant)) && (!f->name.len || str_eq(f->name, task->name)) &&
           (!f->rev || f->rev == task->rev);
}

/* All pages together must be exactly the tasks that fit, newest first. */
static void pages_expect(struct scene *s, struct task_filter f)
{
    int64_t expected = TASKS;
    size_t pages = 0;
    do {
        struct task_view *views;
        size_t n;
        int64_t next;
        MUST(&s->w, reader_tasks(s->w.reader, &s->w.arena, &f, &views, &n, &next, &s->w.err));
        assert_true(n <= f.limit);
        for (size_t i = 0; i < n; i++) {
            while (expected > 0 && !fits(s, &s->tasks[expected - 1], &f))
                expected--;
            assert_int_equal(views[i].task.id, expected);
            task_same(&views[i].task, &s->tasks[expected - 1]);
            str_same(views[i].lane_name, s->lanes[views[i].task.lane - 1].name);
            str_same(views[i].tenant, s->lanes[views[i].task.lane - 1].tenant);
            expected--;
        }
        assert_true(next == 0 || f.before == 0 || next < f.before); /* the cursor moves on */
        f.before = next;
        assert_true(++pages < 2 * TASKS);
    } while (f.before);
    while (expected > 0)
        assert_false(fits(s, &s->tasks[--expected], &f));
}

static void lists_give_what_fits_newest_first(void **state)
{
    static struct scene s;
    struct rng rng;
    (void)state;
    scene_make(&s);
    rng_seed(&rng, 4);
    pages_expect(&s, (struct task_filter){ .limit = 50 });
    pages_expect(&s, (struct task_filter){ .limit = TASKS });
    pages_expect(&s, (struct task_filter){ .limit = TASKS + 1 });
    pages_expect(&s, (struct task_filter){ .limit = 10, .lane = STR("nowhere") });
    pages_expect(&s, (struct task_filter){ .limit = 10, .lane = STR("mail"), .tenant = STR("default") });
    for (int one = STATE_Q; one < STATE_COUNT; one++)
        pages_expect(&s, (struct task_filter){ .limit = 9, .states = 1u << one });
    for (int i = 0; i < 150; i++) {
        struct task_filter f = { .limit = 1 + rng_below(&rng, 40) };
        if (rng_below(&rng, 2))
            f.states = (unsigned)rng_below(&rng, 1u << STATE_COUNT) & ~1u;
        if (rng_below(&rng, 2))
            f.lane = str_of(lane_table[rng_below(&rng, LANES)].name);
        if (rng_below(&rng, 3) == 0)
            f.name = str_of(names[rng_below(&rng, 3)]);
        if (rng_below(&rng, 3) == 0)
            f.rev = 1 + (int64_t)rng_below(&rng, 20);
        if (rng_below(&rng, 3) == 0)
            f.tenant = str_of(rng_below(&rng, 2) ? "default" : "other");
        pages_expect(&s, f);
    }
    world_release(&s.w);
}

static void tasks_are_found_by_key(void **state)
{
    static struct scene s;
    size_t archived = 0;
    int64_t id;
    (void)state;
    scene_make(&s);
    for (int i = 0; i < TASKS; i++) {
        const struct task *t = &s.tasks[i];
        MUST(&s.w, reader_find(s.w.reader, s.lanes[t->lane - 1].tenant, s.lanes[t->lane - 1].name, t->rev, t->name,
                       t->variant, t->run, &id, &s.w.err));
        if (t->rev == 0) {
            assert_int_equal(id, 0); /* a queue's task is known by its id alone */
            continue;
        }
        archived++;
        assert_true(id >= t->id); /* the newest of that key */
        const struct task *found = &s.tasks[id - 1];
        assert_true(
            found->lane == t->lane && found->rev == t->rev && found->run == t->run && str_eq(found->name, t->name));
    }
    assert_true(archived > 50);
    MUST(&s.w, reader_find(s.w.reader, STR("default"), STR("trunk"), 1, STR("nothing"), STR(""), 0, &id, &s.w.err));
    assert_int_equal(id, 0);
    MUST(&s.w, reader_find(s.w.reader, STR("default"), STR("nowhere"), 1, STR("build"), STR(""), 0, &id, &s.w.err));
    assert_int_equal(id, 0);
    world_release(&s.w);
}

static void a_task_is_shown_whole(void **state)
{
    struct world w;
    struct lane lane = { .id = 1, .kind = LANE_ARCHIVE, .tenant = STR("default"), .name = STR("trunk") };
    const struct lane *lanes[] = { &lane };
    struct task a, b;
    const struct task *tasks[] = { &a, &b };
    struct spec spec = { .id = 9, .body = STR("{\"command\":[\"true\"]}") };
    const struct spec *specs[] = { &spec };
    struct executor executor = { .id = 22, .name = STR("box") };
    const struct executor *executors[] = { &executor };
    struct attempt attempts[] = { attempt_sample(2, 1, 20),
        { .task = 2, .grant = 2, .number = 2, .executor = 22, .started = 5 } };
    struct edge edges[] = { { .waiter = 2, .pred = 1, .kind = EDGE_CANCELS, .flags = EDGE_FIRED },
        { .waiter = 2, .pred = 1, .kind = EDGE_DEPENDS } };
    struct task_outputs outputs = { .task = 2, .json = STR("{\"k\":true}") };
    struct task_view view;
    struct edge_view *views;
    struct str body;
    enum task_state at;
    int64_t grant;
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    a = task_sample(&w, 1, 2), b = task_sample(&w, 2, 3);
    a.lane = b.lane = 1, b.spec = 9, b.marks |= MARK_OUTPUTS;
    turn_begin(&w);
    w.c.lanes.at = lanes, w.c.lanes.n = 1;
    w.c.specs.at = specs, w.c.specs.n = 1;
    w.c.tasks_new.at = tasks, w.c.tasks_new.n = 2;
    w.c.edges_new.at = edges, w.c.edges_new.n = 2;
    w.c.attempts_new.at = attempts, w.c.attempts_new.n = 2;
    w.c.outputs.at = &outputs, w.c.outputs.n = 1;
    w.c.executors.at = executors, w.c.executors.n = 1;
    turn_end(&w);
    MUST(&w, reader_task(w.reader, &w.arena, 2, &view, &found, &w.err));
    assert_true(found);
    task_same(&view.task, &b);
    str_same(view.lane_name, lane.name);
    str_same(view.tenant, lane.tenant);
    assert_int_equal(view.lane_kind, LANE_ARCHIVE);
    assert_int_equal(view.n_attempts, 2);
    attempt_same(&view.attempts[0], &attempts[0]);
    assert_int_equal(view.attempts[1].grant, 2);
    assert_int_equal(view.attempts[1].finished, 0);
    assert_int_equal(view.attempts[1].exit, -1);
    str_same(view.executor_names[0], STR("box"));
    str_same(view.executor_names[1], STR("box"));
    assert_int_equal(view.n_needs, 2);
    assert_int_equal(view.needs[0].id, 1);
    assert_int_equal(view.needs[0].kind, EDGE_DEPENDS);
    assert_int_equal(view.needs[1].kind, EDGE_CANCELS);
    assert_int_equal(view.needs[1].flags, EDGE_FIRED);
    assert_int_equal(view.needs[0].state, a.state);
    assert_int_equal(view.needs[0].rev, a.rev);
    assert_int_equal(view.needs[0].run, a.run);
    assert_int_equal(view.needs[0].finished, a.finished);
    str_same(view.needs[0].name, a.name);
    str_same(view.needs[0].variant, a.variant);
    str_same(view.needs[0].lane_name, lane.name);
    str_same(view.outputs, outputs.json);
    MUST(&w, reader_edges(w.reader, &w.arena, 1, true, &views, &n, &w.err));
    assert_int_equal(n, 2);
    assert_int_equal(views[0].id, 2);
    MUST(&w, reader_edges(w.reader, &w.arena, 1, false, &views, &n, &w.err));
    assert_int_equal(n, 0);
    MUST(&w, reader_spec(w.reader, &w.arena, 9, &body, &w.err));
    str_same(body, spec.body);
    MUST(&w, reader_grant(w.reader, 2, &grant, &at, &found, &w.err));
    assert_true(found);
    assert_int_equal(grant, b.grant);
    assert_int_equal(at, b.state);
    MUST(&w, reader_grant(w.reader, 3, &grant, &at, &found, &w.err));
    assert_false(found);
    MUST(&w, reader_task(w.reader, &w.arena, 3, &view, &found, &w.err));
    assert_false(found);
    assert_false(reader_spec(w.reader, &w.arena, 10, &body, &w.err));
    assert_int_equal(w.err.code, ERR_not_found);
    world_release(&w);
}

enum { TURNS = 60 };

/* Turn t has t % 5 + 1 events, of lane 1 + seq % 3; event seq has reason "r<seq>". */
static void events_make(struct world *w)
{
    for (int t = 0; t < TURNS; t++) {
        turn_begin(w);
        for (int i = 0; i <= t % 5; i++) {
            int64_t seq = w->head.seq + 1 + i;
            struct str reason = str_fmt(&w->arena, "r%lld", (long long)seq);
            turn_event(
                w, (struct event){ .kind = EVENT_pause, .lane = 1 + seq % 3, .actor = STR("anna"), .reason = reason });
        }
        turn_end(w);
    }
}

static void events_expect(struct world *w, int64_t since, int64_t lane, size_t n_max)
{
    struct event *events;
    size_t n;
    int64_t last, seq = since;
    do { /* a call may stop early, so a follower asks until nothing new is looked at */
        MUST(w, reader_events(w->reader, &w->arena, since, lane, n_max, &events, &n, &last, &w->err));
        assert_true(n <= n_max && last >= since);
        for (size_t i = 0; i < n; i++) {
            do
                seq++;
            while (lane && 1 + seq % 3 != lane);
            assert_int_equal(events[i].seq, seq);
            assert_int_equal(events[i].lane, 1 + seq % 3);
            assert_int_equal(events[i].kind, EVENT_pause);
            assert_true(events[i].time > 0);
            str_same(events[i].reason, str_fmt(&w->arena, "r%lld", (long long)seq));
            str_same(events[i].actor, STR("anna"));
        }
        if (last == since)
            break;
        since = last;
    } while (true);
    assert_true(since >= w->head.seq); /* nothing is left out at the end */
}

static void events_are_followed_from_anywhere(void **state)
{
    struct world w;
    (void)state;
    world_make(&w);
    events_expect(&w, 0, 0, 10);
    events_make(&w);
    for (int64_t since = 0; since <= w.head.seq; since += 7)
        for (int64_t lane = 0; lane <= 4; lane++)
            events_expect(&w, since, lane, 1 + (size_t)(since % 9));
    events_expect(&w, w.head.seq + 5, 0, 10);
    events_expect(&w, INT64_MAX, 0, 10);
    world_release(&w);
}

static void a_tasks_events_come_newest_first(void **state)
{
    struct world w;
    struct life life;
    struct rng rng;
    size_t count[500] = { 0 };
    (void)state;
    world_make(&w);
    rng_seed(&rng, 5);
    life_begin(&w, &life);
    for (int i = 0; i < 100; i++) {
        life_turn(&w, &life, &rng, rng_below(&rng, 5), rng_below(&rng, 6));
        for (size_t k = 0; k < w.n_events; k++)
            count[w.events[k].task]++;
        turn_end(&w);
    }
    for (size_t i = 0; i < life.n; i++) {
        struct event *events;
        size_t n, cut;
        MUST(&w, reader_task_events(w.reader, &w.arena, life.tasks[i].id, 1000, &events, &n, &w.err));
        assert_int_equal(n, count[life.tasks[i].id]);
        assert_int_equal(events[0].to, life.tasks[i].state);
        assert_int_equal(events[n - 1].kind, EVENT_created);
        for (size_t k = 1; k < n; k++) {
            assert_true(events[k].seq < events[k - 1].seq);
            assert_int_equal(events[k].to, events[k - 1].from);
        }
        MUST(&w, reader_task_events(w.reader, &w.arena, life.tasks[i].id, 1, &events, &cut, &w.err));
        assert_int_equal(cut, 1);
        assert_int_equal(events[0].to, life.tasks[i].state);
    }
    struct event *none;
    size_t n;
    MUST(&w, reader_task_events(w.reader, &w.arena, 999, 10, &none, &n, &w.err));
    assert_int_equal(n, 0);
    world_release(&w);
}

static void a_reader_sees_whole_turns_only(void **state)
{
    struct world w;
    struct task row = { .id = 1, .state = STATE_Q };
    const struct task *rows[] = { &row };
    struct task_view view;
    bool found;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.tasks_new.at = rows, w.c.tasks_new.n = 1;
    MUST(&w, reader_task(w.reader, &w.arena, 1, &view, &found, &w.err)); /* doesn't wait for the writer */
    assert_false(found);
    turn_end(&w);
    MUST(&w, reader_task(w.reader, &w.arena, 1, &view, &found, &w.err));
    assert_true(found);
    world_release(&w);
}

const struct CMUnitTest contract_read[] = {
    cmocka_unit_test(lists_give_what_fits_newest_first),
    cmocka_unit_test(tasks_are_found_by_key),
    cmocka_unit_test(a_task_is_shown_whole),
    cmocka_unit_test(events_are_followed_from_anywhere),
    cmocka_unit_test(a_tasks_events_come_newest_first),
    cmocka_unit_test(a_reader_sees_whole_turns_only),
};
const size_t n_contract_read = sizeof contract_read / sizeof contract_read[0];
