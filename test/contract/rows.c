/* rows: every member of struct changes is written, read back by each way there is, and is still there after a restart;
 * of a turn that was rolled back nothing is. (Attempts, outputs and log tails: attempts.c. Archives, revisions, what is
 * latest and schedules: archives.c.) */
#include <string.h>

#include "world.h"

static void a_new_store_is_empty(void **state)
{
    struct world w;
    struct task task;
    struct lane **lanes;
    struct attempt *live;
    struct store_head head;
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    assert_true(w.head.incarnation != 0);
    assert_int_equal(w.head.turn, 0);
    assert_int_equal(w.head.seq, 0);
    assert_int_equal(w.head.next_task, 1);
    assert_int_equal(w.head.next_token, 1);
    MUST(&w, reader_head(w.reader, &head, &w.err));
    head.commit = w.head.commit; /* the writer's own */
    assert_memory_equal(&head, &w.head, sizeof head);
    MUST(&w, OPS(&w)->load_lanes(w.store, &w.arena, &lanes, &n, &w.err));
    assert_int_equal(n, 0);
    MUST(&w, OPS(&w)->load_active_grants(w.store, &w.arena, &live, &n, &w.err));
    assert_int_equal(n, 0);
    MUST(&w, OPS(&w)->load_task(w.store, &w.arena, 1, &task, &found, &w.err));
    assert_false(found);
    assert_true(OPS(&w)->size_bytes(w.store) > 0);
    world_release(&w);
}

static void lane_same(const struct lane *a, const struct lane *b)
{
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->kind, b->kind);
    str_same(a->tenant, b->tenant);
    str_same(a->name, b->name);
    assert_int_equal(a->last_vt, b->last_vt);
    assert_int_equal(a->log_bytes, b->log_bytes);
    assert_int_equal(a->file_bytes, b->file_bytes);
    assert_memory_equal(a->counts, b->counts, sizeof a->counts);
    assert_int_equal(a->paused_since, b->paused_since);
    str_same(a->paused_by, b->paused_by);
    str_same(a->paused_reason, b->paused_reason);
}

static void lanes_are_kept(void **state)
{
    struct world w;
    struct lane all = { .id = 0, .kind = LANE_QUEUE, .name = STR("all") };
    struct lane one = { .id = 1, .kind = LANE_QUEUE, .tenant = STR("default"), .name = STR("trunk"), .last_vt = 5 };
    const struct lane *lanes[] = { &all, &one };
    struct lane **out;
    size_t n;
    (void)state;
    world_make(&w);
    for (int i = STATE_Q; i < STATE_COUNT; i++)
        one.counts[i] = i * 11;
    turn_begin(&w);
    w.c.lanes.at = lanes, w.c.lanes.n = 2;
    turn_end(&w);
    all.paused_since = w.now, all.paused_by = STR("anna"), all.paused_reason = STR("a freeze");
    one.kind = LANE_ARCHIVE; /* as when an archive takes the name of a queue that was only paused */
    one.last_vt = 77, one.log_bytes = 1234567890124, one.file_bytes = 5, one.counts[STATE_D] = 1234567890123;
    turn_begin(&w);
    w.c.lanes.at = lanes, w.c.lanes.n = 2;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_lanes(w.store, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 2);
    lane_same(out[0], &all);
    lane_same(out[1], &one);
    MUST(&w, reader_lanes(w.reader, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 2);
    lane_same(out[1], &one);
    world_release(&w);
}

static void classes_specs_and_slots_are_kept(void **state)
{
    struct world w;
    struct label labels[] = { { STR("arch"), STR("arm64") }, { STR("gpu"), { 0 } } };
    struct task_class plain = { .id = 1, .key = STR("k1"), .tenant = STR("default"), .kind = KIND_COMMAND };
    struct task_class rich = { .id = 2,
        .key = STR("k2"),
        .tenant = STR("t"),
        .zone = STR("z"),
        .kind = KIND_DATA,
        .labels = labels,
        .n_labels = 2 };
    const struct task_class *classes[] = { &plain, &rich };
    int64_t ids[] = { 3, 4, INT64_MAX };
    struct spec bare = { .id = 1, .body = STR("{}") };
    struct spec full = { .id = 2,
        .body = STR("{\"a\":\"\xe2\x82\xac\"}"),
        .attempts_max = 3,
        .backoff_ms = 1000,
        .retry_on = RETRY_LOST | RETRY_TIMEOUT,
        .slots = ids,
        .n_slots = 3 };
    const struct spec *specs[] = { &bare, &full };
    struct slot semaphore = { .id = 1, .tenant = STR("t"), .name = STR("db"), .limit = 2 };
    const struct slot *slots[] = { &semaphore };
    struct task_class **out_classes;
    struct slot **out_slots;
    struct spec spec;
    size_t n;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.classes.at = classes, w.c.classes.n = 2;
    w.c.specs.at = specs, w.c.specs.n = 2;
    w.c.slots.at = slots, w.c.slots.n = 1;
    turn_end(&w);
    semaphore.limit = 5, semaphore.used = 4;
    turn_begin(&w);
    w.c.slots.at = slots, w.c.slots.n = 1;
    turn_end(&w);
    world_reopen(&w);

    MUST(&w, OPS(&w)->load_classes(w.store, &w.arena, &out_classes, &n, &w.err));
    assert_int_equal(n, 2);
    assert_int_equal(out_classes[0]->n_labels, 0);
    str_same(out_classes[1]->key, rich.key);
    str_same(out_classes[1]->zone, rich.zone);
    assert_int_equal(out_classes[1]->kind, KIND_DATA);
    assert_int_equal(out_classes[1]->n_labels, 2);
    str_same(out_classes[1]->labels[0].value, labels[0].value);
    str_same(out_classes[1]->labels[1].name, labels[1].name);
    MUST(&w, reader_classes(w.reader, &w.arena, &out_classes, &n, &w.err));
    assert_int_equal(n, 2);

    MUST(&w, OPS(&w)->load_spec(w.store, &w.arena, 2, &spec, &w.err));
    str_same(spec.body, full.body);
    assert_int_equal(spec.attempts_max, 3);
    assert_int_equal(spec.backoff_ms, 1000);
    assert_int_equal(spec.retry_on, full.retry_on);
    assert_int_equal(spec.n_slots, 3);
    assert_memory_equal(spec.slots, ids, sizeof ids);
    MUST(&w, OPS(&w)->load_spec(w.store, &w.arena, 1, &spec, &w.err));
    assert_int_equal(spec.n_slots, 0);
    assert_false(OPS(&w)->load_spec(w.store, &w.arena, 99, &spec, &w.err)); /* a task names it: it must be there */

    MUST(&w, OPS(&w)->load_slots(w.store, &w.arena, &out_slots, &n, &w.err));
    assert_int_equal(n, 1);
    str_same(out_slots[0]->name, semaphore.name);
    assert_int_equal(out_slots[0]->limit, 5);
    assert_int_equal(out_slots[0]->used, 4);
    MUST(&w, reader_slots(w.reader, &w.arena, &out_slots, &n, &w.err));
    assert_int_equal(out_slots[0]->used, 4);
    world_release(&w);
}

static void tasks_are_kept_whole(void **state)
{
    struct world w;
    struct task row, out;
    const struct task *rows[] = { &row };
    bool found;
    (void)state;
    world_make(&w);
    row = task_sample(&w, 1, 1);
    turn_begin(&w);
    w.c.tasks_new.at = rows, w.c.tasks_new.n = 1;
    turn_end(&w);
    MUST(&w, OPS(&w)->load_task(w.store, &w.arena, 1, &out, &found, &w.err));
    assert_true(found);
    task_same(&out, &row);

    struct task changed = task_sample(&w, 1, 2); /* whatever may change does; what a task is made as stays */
    changed.lane = row.lane, changed.rev = row.rev, changed.name = row.name, changed.variant = row.variant,
    changed.run = row.run;
    changed.spec = row.spec, changed.created = row.created;
    row = changed;
    turn_begin(&w);
    w.c.tasks_changed.at = rows, w.c.tasks_changed.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_task(w.store, &w.arena, 1, &out, &found, &w.err));
    assert_true(found);
    task_same(&out, &changed);
    world_release(&w);
}

static void every_state_and_outcome_is_kept(void **state)
{
    struct world w;
    struct task rows[STATE_COUNT + OUTCOME_COUNT];
    const struct task *pointers[STATE_COUNT + OUTCOME_COUNT];
    size_t n = 0;
    (void)state;
    world_make(&w);
    for (int s = STATE_Q; s < STATE_COUNT; s++)
        rows[n++] = (struct task){ .state = (enum task_state)s };
    for (int o = OUTCOME_none; o < OUTCOME_COUNT; o++)
        rows[n++] = (struct task){ .state = STATE_D, .outcome = (enum outcome)o };
    for (size_t i = 0; i < n; i++)
        rows[i].id = (int64_t)i + 1, pointers[i] = &rows[i];
    turn_begin(&w);
    w.c.tasks_new.at = pointers, w.c.tasks_new.n = n;
    turn_end(&w);
    for (size_t i = 0; i < n; i++) {
        struct task out;
        bool found;
        MUST(&w, OPS(&w)->load_task(w.store, &w.arena, rows[i].id, &out, &found, &w.err));
        task_same(&out, &rows[i]);
    }
    world_release(&w);
}

static void edges_are_kept_and_marked(void **state)
{
    struct world w;
    struct edge edges[] = {
        { .waiter = 5, .pred = 1, .kind = EDGE_AFTER },
        { .waiter = 3, .pred = 1, .kind = EDGE_DEPENDS },
        { .waiter = 3, .pred = 2, .kind = EDGE_CANCELS },
        { .waiter = 3, .pred = 1, .kind = EDGE_AFTER },
    };
    struct edge *out;
    size_t n;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.edges_new.at = edges, w.c.edges_new.n = 4;
    turn_end(&w);
    edges[2].flags = EDGE_FIRED;
    turn_begin(&w);
    w.c.edges_changed.at = &edges[2], w.c.edges_changed.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 1, true, &out, &n, &w.err));
    assert_int_equal(n, 3);
    assert_int_equal(out[0].waiter, 3);
    assert_int_equal(out[0].kind, EDGE_AFTER);
    assert_int_equal(out[1].kind, EDGE_DEPENDS);
    assert_int_equal(out[2].waiter, 5);
    MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 3, false, &out, &n, &w.err));
    assert_int_equal(n, 3);
    assert_int_equal(out[2].pred, 2);
    assert_int_equal(out[2].kind, EDGE_CANCELS);
    assert_int_equal(out[2].flags, EDGE_FIRED);
    assert_int_equal(out[0].flags, 0);
    MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 9, false, &out, &n, &w.err));
    assert_int_equal(n, 0);
    /* by waiter, and no more than were asked for */
    MUST(&w, OPS(&w)->load_outs(w.store, &w.arena, 1, 0, 2, &out, &n, &w.err));
    assert_true(
        n == 2 && out[0].waiter == 3 && out[0].kind == EDGE_AFTER && out[1].waiter == 3 && out[1].kind == EDGE_DEPENDS);
    MUST(&w, OPS(&w)->load_outs(w.store, &w.arena, 1, 3, 9, &out, &n, &w.err));
    assert_true(n == 1 && out[0].waiter == 5);
    MUST(&w, OPS(&w)->load_outs(w.store, &w.arena, 1, 5, 9, &out, &n, &w.err));
    assert_int_equal(n, 0);
    /* all but those of one kind */
    MUST(&w, OPS(&w)->load_others_outs(w.store, &w.arena, 1, EDGE_AFTER, &out, &n, &w.err));
    assert_true(n == 1 && out[0].waiter == 3 && out[0].kind == EDGE_DEPENDS);
    MUST(&w, OPS(&w)->load_others_outs(w.store, &w.arena, 1, EDGE_CANCELS, &out, &n, &w.err));
    assert_int_equal(n, 3);
    world_release(&w);
}

/* Before begin and within a turn; what wasn't named is loaded as ever; nothing outlives the turn. */
static void what_is_expected_is_what_is_loaded(void **state)
{
    struct world w;
    struct task rows[4], out;
    const struct task *list[4];
    struct edge edges[] = { { .waiter = 3, .pred = 1, .kind = EDGE_AFTER },
        { .waiter = 4, .pred = 1, .kind = EDGE_DEPENDS }, { .waiter = 4, .pred = 3, .kind = EDGE_AFTER } },
                *found_edges;
    struct attempt live = attempt_sample(2, 7, 3), attempt;
    int64_t ids[] = { 1, 2, 99 }, later[] = { 3 }, twice[] = { 2, 1, 3, 1 };
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    for (int i = 0; i < 4; i++)
        rows[i] = task_sample(&w, i + 1, i + 1), list[i] = &rows[i];
    live.finished = 0;
    turn_begin(&w);
    w.c.tasks_new.at = list, w.c.tasks_new.n = 4;
    w.c.edges_new.at = edges, w.c.edges_new.n = 3;
    w.c.attempts_new.at = &live, w.c.attempts_new.n = 1;
    turn_end(&w);
    for (int round = 0; round < 2; round++) { /* 1: with a turn between, so that old rows would show */
        struct turn_needs needs = {
            .since = &w.head, .tasks = ids, .n_tasks = 3, .preds = ids, .n_preds = 3, .grants = ids, .n_grants = 3
        };
        if (OPS(&w)->shared) /* a hint: without it the same is loaded */
            MUST(&w, OPS(&w)->shared->expect(w.store, &needs, &w.err));
        turn_begin(&w);
        for (int id = 1; id <= 4; id++) {
            MUST(&w, OPS(&w)->load_task(w.store, &w.arena, id, &out, &found, &w.err));
            assert_true(found);
            task_same(&out, &rows[id - 1]);
        }
        MUST(&w, OPS(&w)->load_task(w.store, &w.arena, 99, &out, &found, &w.err));
        assert_false(found);
        MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 1, true, &found_edges, &n, &w.err));
        assert_true(
            n == 2 && found_edges[0].waiter == 3 && found_edges[1].waiter == 4 && found_edges[1].kind == EDGE_DEPENDS);
        assert_int_equal(found_edges[0].flags, edges[0].flags);
        MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 2, true, &found_edges, &n, &w.err));
        assert_int_equal(n, 0);
        MUST(&w, OPS(&w)->load_attempt(w.store, 2, 7, &attempt, &found, &w.err));
        assert_true(
            found && attempt.executor == live.executor && attempt.poll_seq == live.poll_seq && !attempt.finished);
        MUST(&w, OPS(&w)->load_attempt(w.store, 2, 6, &attempt, &found, &w.err));
        assert_false(found);
        struct turn_needs more = { .preds = later, .n_preds = 1 }, few = { .preds = twice, .n_preds = 4, .n_edges = 1 };
        if (OPS(&w)->shared && round)
            MUST(&w, OPS(&w)->shared->expect(w.store, &few, &w.err)); /* not all of them come: the others are loaded */
        MUST(&w, OPS(&w)->load_outs(w.store, &w.arena, 1, 0, 1, &found_edges, &n, &w.err));
        assert_true(n == 1 && found_edges[0].waiter == 3);
        MUST(&w, OPS(&w)->load_outs(w.store, &w.arena, 1, 3, 5, &found_edges, &n, &w.err));
        assert_true(n == 1 && found_edges[0].waiter == 4);
        MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 1, true, &found_edges, &n, &w.err));
        assert_int_equal(n, 2);
        if (OPS(&w)->shared)
            MUST(&w, OPS(&w)->shared->expect(w.store, &more, &w.err));
        MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 3, true, &found_edges, &n, &w.err));
        assert_true(n == 1 && found_edges[0].waiter == 4);
        edges[0].flags = EDGE_FIRED;
        rows[0].state = rows[0].state == STATE_D ? STATE_F : STATE_D;
        rows[1].state = rows[1].state == STATE_D ? STATE_F : STATE_D;
        w.c.tasks_changed.at = list, w.c.tasks_changed.n = 2;
        w.c.edges_changed.at = edges, w.c.edges_changed.n = 1;
        turn_end(&w);
    }
    MUST(&w, OPS(&w)->load_task(w.store, &w.arena, 1, &out, &found, &w.err));
    task_same(&out, &rows[0]);
    world_release(&w);
}

static void unique_expect(struct world *w, const char *tenant, const char *key, int64_t task)
{
    int64_t found;
    MUST(w, OPS(w)->unique_find(w->store, str_of(tenant), str_of(key), &found, &w->err));
    assert_int_equal(found, task);
}

static void unique_keys_have_one_owner(void **state)
{
    struct world w;
    struct unique_claim a = { STR("t"), STR("k"), 1 }, other = { STR("u"), STR("k"), 2 }, b = { STR("t"), STR("k"), 3 };
    (void)state;
    world_make(&w);
    turn_begin(&w);
    struct unique_claim both[] = { a, other };
    w.c.unique_add.at = both, w.c.unique_add.n = 2;
    turn_end(&w);
    unique_expect(&w, "t", "k", 1);
    unique_expect(&w, "u", "k", 2);
    unique_expect(&w, "t", "nothing", 0);
    turn_begin(&w); /* not the owner's to give back */
    w.c.unique_remove.at = &b, w.c.unique_remove.n = 1;
    turn_end(&w);
    unique_expect(&w, "t", "k", 1);
    turn_begin(&w); /* handed over within one turn */
    w.c.unique_remove.at = &a, w.c.unique_remove.n = 1;
    w.c.unique_add.at = &b, w.c.unique_add.n = 1;
    turn_end(&w);
    world_reopen(&w);
    unique_expect(&w, "t", "k", 3);
    struct unique_claim fresh = { STR("t"), STR("once"), 4 };
    turn_begin(&w); /* created and granted within one turn */
    w.c.unique_add.at = &fresh, w.c.unique_add.n = 1;
    w.c.unique_remove.at = &fresh, w.c.unique_remove.n = 1;
    turn_end(&w);
    unique_expect(&w, "t", "once", 0);
    world_release(&w);
}

static bool idempotency_has(struct world *w, const char *token, const char *key, struct idempotency *out)
{
    bool found;
    MUST(w, OPS(w)->idempotency_find(w->store, &w->arena, STR("t"), str_of(token), STR("POST /v1/tasks"), str_of(key),
                out, &found, &w->err));
    return found;
}

static void idempotency_keys_are_kept_until_they_expire(void **state)
{
    struct world w;
    struct idempotency items[30], out;
    int64_t ids[] = { 1, 2, 300000000000 };
    (void)state;
    world_make(&w);
    for (int i = 0; i < 30; i++) {
        items[i] = (struct idempotency){ .tenant = STR("t"),
            .token = STR("ci"),
            .route = STR("POST /v1/tasks"),
            .key = str_fmt(&w.arena, "key-%d", i),
            .status = 201,
            .ids = ids,
            .n_ids = 3,
            .expires = 1000 + i };
        memset(items[i].body_hash, i, sizeof items[i].body_hash);
    }
    items[29].n_ids = 0;
    turn_begin(&w);
    w.c.idempotency.at = items, w.c.idempotency.n = 30;
    turn_end(&w);
    world_reopen(&w);
    assert_true(idempotency_has(&w, "ci", "key-7", &out));
    assert_int_equal(out.status, 201);
    assert_int_equal(out.n_ids, 3);
    assert_memory_equal(out.ids, ids, sizeof ids);
    assert_memory_equal(out.body_hash, items[7].body_hash, sizeof out.body_hash);
    assert_int_equal(out.expires, 1007);
    assert_true(idempotency_has(&w, "ci", "key-29", &out));
    assert_int_equal(out.n_ids, 0);
    assert_false(idempotency_has(&w, "other", "key-7", &out));

    turn_begin(&w); /* of the eleven that are due, at most five a turn, the oldest first */
    MUST(&w, OPS(&w)->idempotency_expire(w.store, 1010, 5, &w.err));
    turn_end(&w);
    assert_false(idempotency_has(&w, "ci", "key-4", &out));
    assert_true(idempotency_has(&w, "ci", "key-5", &out));
    turn_begin(&w);
    MUST(&w, OPS(&w)->idempotency_expire(w.store, 1010, 100, &w.err));
    turn_end(&w);
    assert_false(idempotency_has(&w, "ci", "key-10", &out));
    assert_true(idempotency_has(&w, "ci", "key-11", &out));
    turn_begin(&w);
    MUST(&w, OPS(&w)->idempotency_expire(w.store, 1020, 100, &w.err));
    OPS(&w)->rollback(w.store);
    assert_true(idempotency_has(&w, "ci", "key-11", &out));

    items[11].status = 409, items[11].expires = 9000; /* a key used again after its time */
    turn_begin(&w);
    w.c.idempotency.at = &items[11], w.c.idempotency.n = 1;
    turn_end(&w);
    assert_true(idempotency_has(&w, "ci", "key-11", &out));
    assert_int_equal(out.status, 409);
    assert_int_equal(out.expires, 9000);
    world_release(&w);
}

static void executors_are_kept(void **state)
{
    struct world w;
    struct label labels[] = { { STR("os"), STR("linux") } };
    struct executor e = { .id = 1,
        .name = STR("a"),
        .instance = STR("i1"),
        .host = STR("h"),
        .version = STR("0.1"),
        .zone = STR("z"),
        .slots = 4,
        .kinds = 6,
        .labels = labels,
        .n_labels = 1,
        .state = EXECUTOR_ACTIVE,
        .registered = 11,
        .tenant = STR("red") };
    const struct executor *rows[] = { &e };
    struct executor **out;
    size_t n;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.executors.at = rows, w.c.executors.n = 1;
    turn_end(&w);
    struct executor_count counts[] = { { 1, 99, 3 } };
    e.state = EXECUTOR_LOST, e.processed = 99, e.failed = 3, e.instance = STR("i2"), e.n_labels = 0;
    turn_begin(&w);
    w.c.executors.at = rows, w.c.executors.n = 1;
    w.c.shared.counts.at = counts, w.c.shared.counts.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_executors(w.store, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 1);
    str_same(out[0]->instance, e.instance);
    str_same(out[0]->host, e.host);
    str_same(out[0]->tenant, e.tenant);
    str_same(out[0]->version, e.version);
    str_same(out[0]->zone, e.zone);
    assert_int_equal(out[0]->slots, 4);
    assert_int_equal(out[0]->kinds, 6);
    assert_int_equal(out[0]->state, EXECUTOR_LOST);
    assert_int_equal(out[0]->registered, 11);
    assert_int_equal(out[0]->processed, 99);
    assert_int_equal(out[0]->failed, 3);
    assert_int_equal(out[0]->n_labels, 0);
    MUST(&w, reader_executors(w.reader, &w.arena, &out, &n, &w.err));
    str_same(out[0]->name, e.name);
    world_release(&w);
}

static void tokens_are_kept_and_revoked(void **state)
{
    struct world w;
    struct token a = { .id = 1,
        .name = STR("ci"),
        .tenant = STR("default"),
        .scopes = SCOPE_READ | SCOPE_ENQUEUE,
        .created = 5,
        .expires = 6 };
    struct token b = { .id = 2, .name = STR("root"), .tenant = STR("default"), .scopes = SCOPE_ADMIN };
    const struct token *rows[] = { &a, &b };
    struct token **out;
    int64_t gone = 2;
    size_t n;
    (void)state;
    world_make(&w);
    memset(a.hash, 0xa5, sizeof a.hash);
    turn_begin(&w);
    w.c.tokens.at = rows, w.c.tokens.n = 2;
    turn_end(&w);
    MUST(&w, reader_tokens(w.reader, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 2);
    turn_begin(&w);
    w.c.tokens_remove.at = &gone, w.c.tokens_remove.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_tokens(w.store, &w.arena, 0, SIZE_MAX, &out, &n, &w.err));
    assert_int_equal(n, 1);
    str_same(out[0]->name, a.name);
    str_same(out[0]->tenant, a.tenant);
    assert_memory_equal(out[0]->hash, a.hash, sizeof a.hash);
    assert_int_equal(out[0]->scopes, a.scopes);
    assert_int_equal(out[0]->created, 5);
    assert_int_equal(out[0]->expires, 6);
    world_release(&w);
}

static void site_keys_are_kept(void **state)
{
    struct world w;
    struct site_key rows[] = { { STR("tenants"), STR("{\"red\": {}}"), 1, 7, STR("uid:0") },
        { STR("semaphores"), STR("{}"), 3, 8, STR("") } };
    struct site_key *out;
    size_t n;
    (void)state;
    world_make(&w);
    MUST(&w, OPS(&w)->load_site(w.store, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 0);
    turn_begin(&w);
    w.c.site.at = rows, w.c.site.n = 2;
    turn_end(&w);
    rows[0].body = STR("{}"), rows[0].version = 2, rows[0].changed = 9, rows[0].changed_by = STR("configuration");
    turn_begin(&w);
    w.c.site.at = rows, w.c.site.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_site(w.store, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 2);
    str_same(out[0].name, rows[1].name);
    assert_int_equal(out[0].version, 3);
    str_same(out[1].body, rows[0].body);
    str_same(out[1].changed_by, rows[0].changed_by);
    assert_int_equal(out[1].version, 2);
    assert_int_equal(out[1].changed, 9);
    MUST(&w, reader_site(w.reader, &w.arena, &out, &n, &w.err));
    assert_int_equal(n, 2);
    str_same(out[0].body, rows[1].body);
    world_release(&w);
}

static void the_head_is_kept(void **state)
{
    struct world w;
    struct store_head head, before;
    (void)state;
    world_make(&w);
    before = w.head;
    turn_begin(&w); /* no event: the numbers are kept, the chain stays where it is */
    w.head.next_task = 100, w.head.next_spec = 101, w.head.next_lane = 102, w.head.next_class = 103,
    w.head.next_slot = 104;
    w.head.next_executor = 105, w.head.next_token = 106, w.head.v_now = 107;
    turn_end(&w);
    world_reopen(&w);
    assert_int_equal(w.head.next_task, 100);
    assert_int_equal(w.head.next_spec, 101);
    assert_int_equal(w.head.next_lane, 102);
    assert_int_equal(w.head.next_class, 103);
    assert_int_equal(w.head.next_slot, 104);
    assert_int_equal(w.head.next_executor, 105);
    assert_int_equal(w.head.next_token, 106);
    assert_int_equal(w.head.v_now, 107);
    assert_int_equal(w.head.turn, 0);
    assert_true(w.head.incarnation == before.incarnation);
    assert_memory_equal(w.head.hash, before.hash, sizeof before.hash);
    turn_begin(&w);
    turn_event(&w, (struct event){ .kind = EVENT_started, .actor = STR("x") });
    turn_end(&w);
    MUST(&w, OPS(&w)->load_head(w.store, &head, &w.err));
    assert_int_equal(head.turn, 1);
    assert_int_equal(head.seq, 1);
    assert_memory_not_equal(head.hash, before.hash, sizeof before.hash);
    world_release(&w);
}

static void what_is_rolled_back_never_was(void **state)
{
    struct world w;
    struct task row, out;
    const struct task *rows[] = { &row, &row };
    struct edge edge = { .waiter = 1, .pred = 2, .kind = EDGE_AFTER }, *edges;
    struct store_head head;
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    row = task_sample(&w, 1, 1);
    turn_begin(&w);
    OPS(&w)->rollback(w.store);
    OPS(&w)->rollback(w.store); /* harmless without a turn */

    turn_begin(&w); /* the same task twice contradicts itself: nothing of the turn is kept */
    w.c.edges_new.at = &edge, w.c.edges_new.n = 1;
    w.c.tasks_new.at = rows, w.c.tasks_new.n = 2;
    turn_event(&w, (struct event){ .kind = EVENT_started, .actor = STR("x") });
    assert_false(turn_try(&w));
    assert_int_equal(w.err.code, ERR_internal);
    assert_non_null(strstr(w.err.text, "task_insert")); /* says which statement */
    MUST(&w, OPS(&w)->load_task(w.store, &w.arena, 1, &out, &found, &w.err));
    assert_false(found);
    MUST(&w, OPS(&w)->load_edges(w.store, &w.arena, 2, true, &edges, &n, &w.err));
    assert_int_equal(n, 0);
    MUST(&w, OPS(&w)->load_head(w.store, &head, &w.err));
    assert_int_equal(head.turn, 0);

    turn_begin(&w); /* and the store goes on */
    w.c.tasks_new.at = rows, w.c.tasks_new.n = 1;
    turn_end(&w);
    row.id = 55;
    turn_begin(&w);
    w.c.tasks_changed.at = rows, w.c.tasks_changed.n = 1;
    assert_false(turn_try(&w)); /* a change of what isn't there is a bug, and said */
    assert_int_equal(w.err.code, ERR_internal);
    turn_begin(&w);
    w.c.ready_remove.at = rows, w.c.ready_remove.n = 1;
    assert_false(turn_try(&w));
    assert_int_equal(w.err.code, ERR_internal);
    world_release(&w);
}

const struct CMUnitTest contract_rows[] = {
    cmocka_unit_test(a_new_store_is_empty),
    cmocka_unit_test(lanes_are_kept),
    cmocka_unit_test(classes_specs_and_slots_are_kept),
    cmocka_unit_test(tasks_are_kept_whole),
    cmocka_unit_test(every_state_and_outcome_is_kept),
    cmocka_unit_test(edges_are_kept_and_marked),
    cmocka_unit_test(what_is_expected_is_what_is_loaded),
    cmocka_unit_test(unique_keys_have_one_owner),
    cmocka_unit_test(idempotency_keys_are_kept_until_they_expire),
    cmocka_unit_test(executors_are_kept),
    cmocka_unit_test(site_keys_are_kept),
    cmocka_unit_test(tokens_are_kept_and_revoked),
    cmocka_unit_test(the_head_is_kept),
    cmocka_unit_test(what_is_rolled_back_never_was),
};
const size_t n_contract_rows = sizeof contract_rows / sizeof contract_rows[0];
