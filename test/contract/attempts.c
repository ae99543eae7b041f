/* attempts: from the grant to the result, one and many at once: which are live, which have ended, and what they leave
 * behind. All is read back by each way there is, after a restart too. */
#include <string.h>

#include "world.h"

static void attempt_expect(struct world *w, const struct attempt *expected, size_t n_live)
{
    struct attempt out, *live;
    size_t n;
    bool found;
    MUST(w, OPS(w)->load_attempt(w->store, expected->task, expected->grant, &out, &found, &w->err));
    assert_true(found);
    attempt_same(&out, expected);
    if (!expected->finished)
        assert_int_equal(out.poll_seq, expected->poll_seq);
    if (!expected->finished)
        assert_int_equal(out.forgotten, expected->forgotten);
    assert_int_equal(out.ended_before, expected->finished != 0);
    MUST(w, OPS(w)->load_active_grants(w->store, &w->arena, &live, &n, &w->err));
    assert_int_equal(n, n_live);
}

static struct attempt attempt_running(int64_t task, int64_t grant)
{
    return (struct attempt){ .task = task,
        .grant = grant,
        .number = 1,
        .executor = 4,
        .started = 10,
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1 };
}

static void attempts_live_and_end(void **state)
{
    struct world w;
    struct attempt running = attempt_running(7, 1);
    struct attempt ended = attempt_sample(7, 1, 20), at_once = attempt_sample(8, 1, 30), out;
    bool found;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.attempts_new.at = &running, w.c.attempts_new.n = 1;
    turn_end(&w);
    attempt_expect(&w, &running, 1);
    running.executor = 5; /* adopted */
    turn_begin(&w);
    w.c.attempts_changed.at = &running, w.c.attempts_changed.n = 1;
    turn_end(&w);
    attempt_expect(&w, &running, 1);
    turn_begin(&w);
    w.c.attempts_changed.at = &ended, w.c.attempts_changed.n = 1;
    turn_end(&w);
    attempt_expect(&w, &ended, 0);
    turn_begin(&w); /* given up, and its lease is taken up again */
    w.c.attempts_changed.at = &running, w.c.attempts_changed.n = 1;
    turn_end(&w);
    world_reopen(&w);
    attempt_expect(&w, &running, 1);
    turn_begin(&w);
    w.c.attempts_changed.at = &ended, w.c.attempts_changed.n = 1;
    turn_end(&w);
    attempt_expect(&w, &ended, 0);
    /* the late result of an attempt that was given up */
    ended.outcome = OUTCOME_done, ended.exit = 0, ended.ended_before = true;
    turn_begin(&w);
    w.c.attempts_changed.at = &ended, w.c.attempts_changed.n = 1;
    w.c.attempts_new.at = &at_once, w.c.attempts_new.n = 1;
    turn_end(&w);
    world_reopen(&w);
    attempt_expect(&w, &ended, 0);
    attempt_expect(&w, &at_once, 0);

    running.grant = 2; /* granted, never arrived */
    turn_begin(&w);
    w.c.attempts_new.at = &running, w.c.attempts_new.n = 1;
    turn_end(&w);
    attempt_expect(&w, &running, 1);
    turn_begin(&w);
    w.c.attempts_remove.at = &running, w.c.attempts_remove.n = 1;
    turn_end(&w);
    MUST(&w, OPS(&w)->load_attempt(w.store, 7, 2, &out, &found, &w.err));
    assert_false(found);
    attempt_expect(&w, &ended, 0);
    world_release(&w);
}

/* Of one claim and one report: the same in every field but task, grant and hash; or all but one of them are. */
static void many_attempts_at_once(void **state)
{
    enum { N = 40 };
    struct world w;
    struct attempt running[N], ended[N];
    (void)state;
    world_make(&w);
    for (int64_t grant = 1; grant <= 3; grant++) {
        for (int64_t i = 0; i < N; i++) {
            ended[i] = attempt_sample(100 + i, grant, 60);
            memset(ended[i].finish_hash, (int)i + 1, sizeof ended[i].finish_hash);
            running[i] = attempt_running(ended[i].task, grant);
            running[i].poll_seq = 77;
        }
        if (grant == 2)
            running[N - 1].poll_seq++, ended[N - 1].log_bytes++;
        if (grant == 3)
            ended[0].outcome = OUTCOME_lost;
        turn_begin(&w);
        w.c.attempts_new.at = running, w.c.attempts_new.n = N;
        turn_end(&w);
        for (int i = 0; i < N; i++)
            attempt_expect(&w, &running[i], N);
        turn_begin(&w);
        w.c.attempts_changed.at = ended, w.c.attempts_changed.n = N;
        turn_end(&w);
        for (int i = 0; i < N; i++)
            attempt_expect(&w, &ended[i], 0);
    }
    for (int i = 0; i < N; i++)
        ended[i].ended_before = true, ended[i].exit = 1, ended[i].outcome = OUTCOME_done;
    turn_begin(&w);
    w.c.attempts_changed.at = ended, w.c.attempts_changed.n = N;
    turn_end(&w);
    for (int i = 0; i < N; i++)
        attempt_expect(&w, &ended[i], 0);
    world_release(&w);
}

/* Two claims of many: the tasks are 60 .. 209 by threes and those behind them, so that neighbours come apart; every
 * tenth was granted before. */
enum { CLAIMED = 150 };

static void claims_make(struct world *w, struct attempt all[CLAIMED])
{
    for (int64_t i = 0; i < CLAIMED; i++) {
        all[i] = attempt_running(60 + i % 50 * 3 + i / 50, 1 + (i % 10 == 0));
        all[i].many = true;
        all[i].number = all[i].grant;
        all[i].executor = i < CLAIMED / 2 ? 4 : 5;
        all[i].poll_seq = 100 + all[i].executor;
    }
    turn_begin(w);
    w->c.attempts_new.at = all, w->c.attempts_new.n = CLAIMED;
    turn_end(w);
}

/* All run, and each ends, changes, is lost and taken up again, or is taken back by itself, whichever others are in the
 * same turn. */
static void large_claims_come_apart(void **state)
{
    struct world w;
    struct attempt all[CLAIMED], left[CLAIMED], changed[CLAIMED], removed[CLAIMED], alone = attempt_running(61, 7);
    struct rng rng;
    size_t n = CLAIMED, n_running = CLAIMED;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 5);
    claims_make(&w, all);
    turn_begin(&w);
    w.c.attempts_new.at = &alone, w.c.attempts_new.n = 1;
    turn_end(&w);
    for (size_t i = 0; i < n; i++)
        attempt_expect(&w, &all[i], n + 1);
    world_reopen(&w);

    while (n) {
        size_t n_left = 0, n_changed = 0, n_removed = 0;
        for (size_t i = 0; i < n; i++) {
            struct attempt *a = &all[i];
            unsigned what = (unsigned)rng_below(&rng, 12);
            if (a->finished) { /* taken up again: a row of its own */
                a->finished = 0, a->outcome = OUTCOME_none, a->many = false, a->poll_seq = 7, a->forgotten = true;
                changed[n_changed++] = *a;
                n_running++;
            } else if (what < 2) {
                removed[n_removed++] = *a;
                n_running--;
                continue;
            } else if (what < 5) {
                a->finished = 50, a->outcome = what == 4 ? OUTCOME_lost : OUTCOME_done;
                changed[n_changed++] = *a;
                n_running--;
                if (what < 4)
                    continue;
            } else if (what < 7) {
                a->forgotten = !a->forgotten;
                changed[n_changed++] = *a;
            }
            left[n_left++] = *a;
        }
        turn_begin(&w);
        w.c.attempts_changed.at = changed, w.c.attempts_changed.n = n_changed;
        w.c.attempts_remove.at = removed, w.c.attempts_remove.n = n_removed;
        turn_end(&w);
        n = n_left;
        memcpy(all, left, n * sizeof all[0]);
        for (size_t i = 0; i < n; i++)
            attempt_expect(&w, &all[i], n_running + 1);
        attempt_expect(&w, &alone, n_running + 1);
    }
    world_release(&w);
}

/* PostgreSQL looks for an attempt where `many` says it is: a turn that is wrong about it comes to nothing. */
static void a_wrong_end_comes_to_nothing(void **state)
{
    struct world w;
    struct attempt all[CLAIMED], ended;
    (void)state;
    world_make(&w);
    claims_make(&w, all);
    if (strcmp(backend_chosen()->name, "postgres") == 0) {
        ended = all[3];
        ended.grant += 5, ended.finished = 50, ended.outcome = OUTCOME_done;
        turn_begin(&w);
        w.c.attempts_changed.at = &ended, w.c.attempts_changed.n = 1;
        assert_false(turn_try(&w));
    }
    attempt_expect(&w, &all[3], CLAIMED);
    world_release(&w);
}

static void outputs_and_log_tails_are_kept(void **state)
{
    struct world w;
    struct task_outputs outputs = { .task = 3, .json = STR("{\"a\":1}") };
    struct log_tail tail = { .task = 3, .grant = 2, .offset = 100, .bytes = { "a\0b\n\xff", 5 } }, got;
    struct str json;
    bool found;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.outputs.at = &outputs, w.c.outputs.n = 1;
    w.c.logs.tails.at = &tail, w.c.logs.tails.n = 1;
    turn_end(&w);
    outputs.json = STR("{\"a\":2}");
    tail.offset = 200;
    turn_begin(&w);
    w.c.outputs.at = &outputs, w.c.outputs.n = 1;
    w.c.logs.tails.at = &tail, w.c.logs.tails.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_outputs(w.store, &w.arena, 3, &json, &w.err));
    str_same(json, outputs.json);
    MUST(&w, OPS(&w)->load_outputs(w.store, &w.arena, 4, &json, &w.err));
    assert_int_equal(json.len, 0);
    MUST(&w, reader_log_tail(w.reader, &w.arena, 3, 2, &got, &found, &w.err));
    assert_true(found);
    assert_int_equal(got.offset, 200);
    str_same(got.bytes, tail.bytes);
    MUST(&w, reader_log_tail(w.reader, &w.arena, 3, 1, &got, &found, &w.err));
    assert_false(found);
    world_release(&w);
}

static void seals_of_logs_are_kept(void **state)
{
    struct world w;
    struct log_seal seals[] = { { .task = 3, .grant = 1, .bytes = 5, .hash = { 1, 0, 255 } },
        { .task = 3, .grant = 2, .bytes = 9 } },
                    got;
    struct log_name gone[] = { { 3, 1 }, { 7, 1 } };
    bool found;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.logs.seals.at = seals, w.c.logs.seals.n = 2;
    turn_end(&w);
    seals[1].bytes = 10;
    turn_begin(&w);
    w.c.logs.seals.at = &seals[1], w.c.logs.seals.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->load_log_seal(w.store, 3, 1, &got, &found, &w.err));
    assert_true(found);
    assert_int_equal(got.bytes, 5);
    assert_memory_equal(got.hash, seals[0].hash, sizeof got.hash);
    turn_begin(&w);
    w.c.logs.seals.at = &seals[1], w.c.logs.seals.n = 1;
    w.c.logs.seals_remove.at = gone, w.c.logs.seals_remove.n = 2;
    turn_end(&w);
    MUST(&w, OPS(&w)->load_log_seal(w.store, 3, 1, &got, &found, &w.err));
    assert_false(found);
    MUST(&w, OPS(&w)->load_log_seal(w.store, 3, 2, &got, &found, &w.err));
    assert_true(found);
    assert_int_equal(got.bytes, 10);
    world_release(&w);
}

const struct CMUnitTest contract_attempts[] = {
    cmocka_unit_test(attempts_live_and_end),
    cmocka_unit_test(many_attempts_at_once),
    cmocka_unit_test(large_claims_come_apart),
    cmocka_unit_test(a_wrong_end_comes_to_nothing),
    cmocka_unit_test(outputs_and_log_tails_are_kept),
    cmocka_unit_test(seals_of_logs_are_kept),
};
const size_t n_contract_attempts = sizeof contract_attempts / sizeof contract_attempts[0];
