/* attempts: from the grant to the result, one and many at once: which are live, which have ended, and what they leave behind. All is
 * read back by each way there is, after a restart too. */
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
    assert_int_equal(out.ended_before, expected->finished != 0);
    MUST(w, OPS(w)->load_live(w->store, &w->arena, &live, &n, &w->err));
    assert_int_equal(n, n_live);
}

static struct attempt attempt_running(int64_t task, int64_t grant)
{
    return (struct attempt){ .task = task, .grant = grant, .number = 1, .executor = 4, .started = 10, .exit = -1, .signal = -1,
                             .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1 };
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
    w.c.attempts_new = &running, w.c.n_attempts_new = 1;
    turn_end(&w);
    attempt_expect(&w, &running, 1);
    running.executor = 5; /* adopted */
    turn_begin(&w);
    w.c.attempts_changed = &running, w.c.n_attempts_changed = 1;
    turn_end(&w);
    attempt_expect(&w, &running, 1);
    turn_begin(&w);
    w.c.attempts_changed = &ended, w.c.n_attempts_changed = 1;
    turn_end(&w);
    attempt_expect(&w, &ended, 0);
    turn_begin(&w); /* given up, and its lease is taken up again */
    w.c.attempts_changed = &running, w.c.n_attempts_changed = 1;
    turn_end(&w);
    world_reopen(&w);
    attempt_expect(&w, &running, 1);
    turn_begin(&w);
    w.c.attempts_changed = &ended, w.c.n_attempts_changed = 1;
    turn_end(&w);
    attempt_expect(&w, &ended, 0);
    ended.outcome = OUTCOME_done, ended.exit = 0, ended.ended_before = true; /* the late result of an attempt that was given up */
    turn_begin(&w);
    w.c.attempts_changed = &ended, w.c.n_attempts_changed = 1;
    w.c.attempts_new = &at_once, w.c.n_attempts_new = 1;
    turn_end(&w);
    world_reopen(&w);
    attempt_expect(&w, &ended, 0);
    attempt_expect(&w, &at_once, 0);

    running.grant = 2; /* granted, never arrived */
    turn_begin(&w);
    w.c.attempts_new = &running, w.c.n_attempts_new = 1;
    turn_end(&w);
    attempt_expect(&w, &running, 1);
    turn_begin(&w);
    w.c.attempts_remove = &running, w.c.n_attempts_remove = 1;
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
        w.c.attempts_new = running, w.c.n_attempts_new = N;
        turn_end(&w);
        for (int i = 0; i < N; i++)
            attempt_expect(&w, &running[i], N);
        turn_begin(&w);
        w.c.attempts_changed = ended, w.c.n_attempts_changed = N;
        turn_end(&w);
        for (int i = 0; i < N; i++)
            attempt_expect(&w, &ended[i], 0);
    }
    for (int i = 0; i < N; i++)
        ended[i].ended_before = true, ended[i].exit = 1, ended[i].outcome = OUTCOME_done;
    turn_begin(&w);
    w.c.attempts_changed = ended, w.c.n_attempts_changed = N;
    turn_end(&w);
    for (int i = 0; i < N; i++)
        attempt_expect(&w, &ended[i], 0);
    world_release(&w);
}

/* One claim of many: all run, each can end, change or be taken back by itself, in any order, whichever others are in the same turn. The
 * tasks are 60 .. 209 by threes and the two behind them, so that neighbours come apart; every tenth was granted before. */
static void large_claims_come_apart(void **state)
{
    enum { N = 150, CLAIMS = 2 };
    struct world w;
    struct attempt all[N], some[N];
    struct rng rng;
    size_t n_left = N, n_some;
    (void)state;
    world_make(&w);
    rng_seed(&rng, 5);
    for (int64_t i = 0; i < N; i++) {
        all[i] = attempt_running(60 + i % 50 * 3 + i / 50, 1 + (i % 10 == 0));
        all[i].many = true;
        all[i].number = all[i].grant;
        all[i].executor = i < N / CLAIMS ? 4 : 5;
        all[i].poll_seq = 100 + all[i].executor;
    }
    struct attempt alone = attempt_running(61, 7);
    turn_begin(&w);
    w.c.attempts_new = all, w.c.n_attempts_new = N;
    turn_end(&w);
    turn_begin(&w);
    w.c.attempts_new = &alone, w.c.n_attempts_new = 1;
    turn_end(&w);
    for (int i = 0; i < N; i++)
        attempt_expect(&w, &all[i], N + 1);
    world_reopen(&w);

    while (n_left) { /* some end, some change, some are taken back */
        unsigned what = (unsigned)rng_below(&rng, 3);
        size_t first = (size_t)rng_below(&rng, n_left), most = 1 + (size_t)rng_below(&rng, 40);
        for (n_some = 0; n_some < most && first + n_some < n_left; n_some++) {
            some[n_some] = all[first + n_some];
            if (what == 0)
                some[n_some].finished = 50, some[n_some].exit = 0, some[n_some].outcome = OUTCOME_done;
            if (what == 1)
                all[first + n_some].poll_seq = some[n_some].poll_seq = -2 - some[n_some].poll_seq;
        }
        turn_begin(&w);
        if (what == 2)
            w.c.attempts_remove = some, w.c.n_attempts_remove = n_some;
        else
            w.c.attempts_changed = some, w.c.n_attempts_changed = n_some;
        turn_end(&w);
        if (what != 1) {
            memmove(&all[first], &all[first + n_some], (n_left - first - n_some) * sizeof all[0]);
            n_left -= n_some;
        }
        if (what == 0)
            attempt_expect(&w, &some[0], n_left + 1);
        attempt_expect(&w, &alone, n_left + 1);
        for (size_t i = 0; i < n_left; i++)
            attempt_expect(&w, &all[i], n_left + 1);
    }
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
    w.c.outputs = &outputs, w.c.n_outputs = 1;
    w.c.log_tails = &tail, w.c.n_log_tails = 1;
    turn_end(&w);
    outputs.json = STR("{\"a\":2}");
    tail.offset = 200;
    turn_begin(&w);
    w.c.outputs = &outputs, w.c.n_outputs = 1;
    w.c.log_tails = &tail, w.c.n_log_tails = 1;
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

const struct CMUnitTest contract_attempts[] = {
    cmocka_unit_test(attempts_live_and_end),
    cmocka_unit_test(many_attempts_at_once),
    cmocka_unit_test(large_claims_come_apart),
    cmocka_unit_test(outputs_and_log_tails_are_kept),
};
const size_t n_contract_attempts = sizeof contract_attempts / sizeof contract_attempts[0];
