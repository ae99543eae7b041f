/* Who waits for a task is told of its end a batch a turn: however many wait, however far the end goes on, no turn
 * grows. With one engine on SQLite, and with one and two on PostgreSQL. Runs under test/lib/postgres.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/grants.h"
#include "rig.h"

enum { MANY = 12 };

#define RIG(rig, size) \
    __attribute__((cleanup(rig_close))) struct rig rig = { .batch = (size) }; \
    rig_open(&rig)

static struct fence granted(const struct command *poll)
{
    assert_int_equal(poll->out.poll.n_grants, 1);
    return poll->out.poll.grants[0].fence;
}

/* n tasks; `text` ends with `#`: of the one before it (chain), or of `first`. The first of them. */
static int64_t make(struct rig *rig, const char *text, int64_t first, size_t n, bool chain)
{
    int64_t id = 0;
    for (size_t made = 0; made < n;) {
        char texts[100][64];
        const char *tasks[100];
        size_t some = chain ? 1 : n - made < 100 ? n - made : 100;
        for (size_t i = 0; i < some; i++) {
            if (first)
                snprintf(texts[i], sizeof texts[i], "%s%lld", text, (long long)first);
            else
                snprintf(texts[i], sizeof texts[i], "%s", text);
            tasks[i] = texts[i];
        }
        int64_t got = rig_enqueue(rig, tasks, some);
        if (!id)
            id = got;
        if (chain)
            first = got;
        made += some;
    }
    return id;
}

static size_t count(struct rig *rig, int64_t id, size_t n, char letter)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += rig_state(rig, id + (int64_t)i) == letter;
    return found;
}

/* A task that runs, and its fence. */
static struct fence begin(struct rig *rig, int64_t *out_id)
{
    int64_t e = rig_executor(rig, "e", NULL);
    *out_id = ENQUEUE(rig, "first");
    return granted(rig_poll(rig, e, 1));
}

static void test_successors_go_on_a_batch_a_turn(void **state)
{
    (void)state;
    RIG(rig, 4);
    int64_t first;
    struct fence fence = begin(&rig, &first);
    int64_t id = make(&rig, "t after=#", first, MANY, false);
    assert_int_equal(rig_finish(&rig, fence, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, first), 'D'); /* what was answered is so at once */
    assert_string_equal(rig_states(&rig, id, MANY), "PPPPSSSSSSSS");
    assert_true(rig.next <= rig.boot); /* the rest at once */
    char late[32];
    snprintf(late, sizeof late, "late after=#%lld", (long long)first);
    /* others are served meanwhile, and who comes now is told in its turn */
    int64_t last = ENQUEUE(&rig, late, "other");
    assert_string_equal(rig_states(&rig, id, MANY), "PPPPPPPPSSSS");
    assert_string_equal(rig_states(&rig, last, 2), "SP");
    rig_turn(&rig, NULL, 0);
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, MANY), "PPPPPPPPPPPP");
    assert_string_equal(rig_states(&rig, last, 2), "PP");
    assert_int_equal(rig_task(&rig, first).holds, 0);
    for (int64_t i = 1; i < MANY; i++)
        assert_true(rig_task(&rig, id + i).vt > rig_task(&rig, id + i - 1).vt);
    rig_turn(&rig, NULL, 0);
    assert_true(rig.next > rig.boot); /* and nothing is left to do */
}

/* The server ends between two batches: after its restart it finds the waiters that are left in the stored rows. */
static void test_a_restart_goes_on_with_the_rest(void **state)
{
    (void)state;
    RIG(rig, 2);
    int64_t first;
    struct fence fence = begin(&rig, &first);
    int64_t id = make(&rig, "t depends=#", first, 7, false);
    assert_int_equal(rig_finish(&rig, fence, 1, -1), ERR_none);
    assert_string_equal(rig_states(&rig, id, 7), "FFSSSSS");
    rig_restart(&rig);
    for (int i = 0; i < 3; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 7), "FFFFFFF");
    assert_int_equal(rig_finish(&rig, fence, 1, -1), ERR_none); /* the same answer as then */
}

/* Each end brings the next one about: a chain of those that depend on each other, of those with nothing to run. */
static void test_a_chain_is_walked_in_batches(void **state)
{
    (void)state;
    static const struct {
        const char *task;
        int64_t exit;
        char end;
    } table[] = { { "t depends=#", 1, 'F' }, { "t kind=none after=#", 0, 'D' } };
    for (size_t k = 0; k < 2; k++) {
        RIG(rig, 4);
        int64_t first;
        struct fence fence = begin(&rig, &first);
        int64_t id = make(&rig, table[k].task, first, MANY, true);
        assert_int_equal(count(&rig, id, MANY, 'S'), MANY);
        assert_int_equal(rig_finish(&rig, fence, table[k].exit, -1), ERR_none);
        assert_int_equal(count(&rig, id, MANY, table[k].end), 4);
        rig_restart(&rig);
        for (int i = 0; i < 3; i++)
            rig_turn(&rig, NULL, 0);
        assert_int_equal(count(&rig, id, MANY, table[k].end), MANY);
    }
}

/* Retried before all know that it had failed: those who were told wait for it again, the others still do; nobody counts
 * it twice. */
static void test_a_retry_before_all_are_told(void **state)
{
    (void)state;
    RIG(rig, 2);
    int64_t first, e;
    struct fence fence = begin(&rig, &first);
    int64_t other = ENQUEUE(&rig, "other");
    char text[64];
    snprintf(text, sizeof text, "t depends=#%lld after=#%lld", (long long)first, (long long)other);
    int64_t id = ENQUEUE(&rig, text, text, text, text, text);
    assert_int_equal(rig_finish(&rig, fence, 1, -1), ERR_none);
    assert_string_equal(rig_states(&rig, id, 5), "FFSSS");
    assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
    assert_string_equal(rig_states(&rig, id, 5), "SSSSS");
    for (int i = 0; i < 4; i++)
        rig_turn(&rig, NULL, 0);
    for (int64_t i = 0; i < 5; i++)
        assert_int_equal(rig_task(&rig, id + i).waits, 2);
    e = rig_executor(&rig, "e", NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rig_finish(&rig, granted(rig_poll(&rig, e, 1)), 0, -1), ERR_none);
    for (int i = 0; i < 8; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 5), "PPPPP");
}

static void turns(struct rig *rig, int n)
{
    for (int i = 0; i < n; i++)
        rig_turn(rig, NULL, 0);
}

/* Those who had ended because of what is retried come back a batch a turn: side by side or one behind the other, also
 * when the server ends between, and the task itself goes on meanwhile. */
static void test_a_retry_brings_dependents_back_in_batches(void **state)
{
    (void)state;
    for (int chain = 0; chain < 2; chain++) {
        RIG(rig, 4);
        int64_t first, e;
        struct fence fence = begin(&rig, &first);
        int64_t id = make(&rig, "t depends=#", first, MANY, chain);
        assert_int_equal(rig_finish(&rig, fence, 1, -1), ERR_none);
        turns(&rig, MANY);
        assert_int_equal(count(&rig, id, MANY, 'F'), MANY);
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
        assert_int_equal(rig_state(&rig, first), 'P');
        assert_in_range(count(&rig, id, MANY, 'S'), 0, 4);
        assert_true(rig.next <= rig.boot); /* the rest at once */
        turns(&rig, 1);
        assert_in_range(count(&rig, id, MANY, 'S'), 4, 8);
        rig_restart(&rig);
        e = rig_executor(&rig, "e", NULL);
        /* it is done before all are back */
        assert_int_equal(rig_finish(&rig, granted(rig_poll(&rig, e, 1)), 0, -1), ERR_none);
        turns(&rig, 2 * MANY);
        assert_int_equal(count(&rig, id, MANY, 'P'), chain ? 1 : MANY);
        assert_int_equal(count(&rig, id, MANY, 'S'), chain ? MANY - 1 : 0);
        assert_int_equal(rig_task(&rig, first).holds, 0);
        assert_true(rig.next > rig.boot); /* and nothing is left to do */
    }
}

/* It fails again, or is retried twice, before all are back: in the end all stand as if each had been one turn. */
static void test_a_retry_that_fails_before_all_are_back(void **state)
{
    (void)state;
    RIG(rig, 2);
    int64_t first, other = ENQUEUE(&rig, "other at=99999999999999");
    struct fence fence = begin(&rig, &first);
    char text[64];
    snprintf(text, sizeof text, "t depends=#%lld after=#%lld", (long long)first, (long long)other);
    int64_t id = ENQUEUE(&rig, text, text, text, text, text, text, text);
    assert_int_equal(rig_finish(&rig, fence, 1, -1), ERR_none);
    turns(&rig, 8);
    assert_string_equal(rig_states(&rig, id, 7), "FFFFFFF");
    for (int i = 0; i < 2; i++) { /* cancelled, and retried again, each time with some of them back */
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
        turns(&rig, 1);
        assert_in_range(count(&rig, id, 7, 'S'), 1, 6);
        assert_int_equal(rig_order(&rig, CMD_CANCEL, first), ERR_none);
    }
    turns(&rig, 12);
    assert_string_equal(rig_states(&rig, id, 7), "FFFFFFF");
    assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
    turns(&rig, 12);
    assert_string_equal(rig_states(&rig, id, 7), "SSSSSSS");
    for (int64_t i = 0; i < 7; i++)
        assert_int_equal(rig_task(&rig, id + i).waits, 2);
}

/* Executors that fall silent together: a batch of their jobs is given up in each turn. */
static void test_leases_lapse_in_batches(void **state)
{
    (void)state;
    RIG(rig, 4);
    int64_t id = make(&rig, "t", 0, MANY, false);
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "e%d", i);
        (void)granted(rig_poll(&rig, rig_executor(&rig, name, NULL), 1));
    }
    assert_int_equal(count(&rig, id, MANY, 'X'), MANY);
    rig_pass(&rig, 2900);
    rig.boot += 200; /* all of them at once */
    rig_turn(&rig, NULL, 0);
    assert_int_equal(count(&rig, id, MANY, 'X'), MANY - 4);
    assert_true(rig.next <= rig.boot);
    for (int i = 0; i < 3; i++)
        rig_turn(&rig, NULL, 0);
    assert_int_equal(count(&rig, id, MANY, 'X'), 0);
}

/* n executors that are heard by this engine; the number of the first. */
static int64_t executors(struct rig *rig, size_t n)
{
    int64_t id = 0;
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "e%zu", i);
        int64_t made = rig_executor(rig, name, NULL);
        if (!id)
            id = made;
    }
    return id;
}

/* All of them poll, in one turn. */
static void heard(struct rig *rig, int64_t first, size_t n)
{
    struct command **polls = ARENA_ARRAY(&rig->arena, struct command *, n);
    for (size_t i = 0; i < n; i++)
        polls[i] = rig_poll_command(rig, first + (int64_t)i, 0, -1, NULL, 0);
    rig_turn(rig, polls, n);
}

static size_t active(struct rig *rig)
{
    size_t n = 0;
    MAP_EACH (&rig->engine->cache->executors, e)
        n += ((const struct known_executor *)e->value)->row.state == EXECUTOR_ACTIVE;
    return n;
}

/* Executors that fall silent together are given up a batch a turn; those that are left are found after a restart, too.
 */
static void test_silent_executors_are_lost_in_batches(void **state)
{
    (void)state;
    RIG(rig, 4);
    int64_t id = executors(&rig, MANY);
    rig_pass(&rig, 2900);
    (void)rig_poll(&rig, id + 1, 1); /* one of them is heard */
    rig.boot += 200;
    rig_turn(&rig, NULL, 0);
    assert_in_range(active(&rig), MANY - 4, MANY - 1);
    assert_true(rig.next <= rig.boot);
    rig_turn(&rig, NULL, 0);
    rig_turn(&rig, NULL, 0);
    assert_int_equal(active(&rig), 1);
    assert_true(rig.next > rig.boot);
    rig_pass(&rig, 2900);
    assert_int_equal(active(&rig), 0);
    for (int64_t i = 0; i < MANY; i++)
        (void)rig_poll(&rig, id + i, 1); /* heard again */
    assert_int_equal(active(&rig), MANY);
    rig.boot += 3100;
    rig_turn(&rig, NULL, 0);
    assert_int_equal(active(&rig), MANY - 4);
    rig_restart(&rig);
    for (int i = 0; i < 8; i++)
        rig_pass(&rig, 900);
    assert_int_equal(active(&rig), 0);
}

/* --- how large a turn is --- */

static struct rig_largest largest_turn(struct rig *rig, struct fence fence, int64_t exit)
{
    int64_t seq = engine_seq(rig->engine);
    assert_int_equal(rig_finish(rig, fence, exit, -1), ERR_none);
    return rig_follow(rig, seq);
}

static struct rig_largest cascade(struct rig *rig, const char *task, size_t n, bool chain, int64_t exit, char end)
{
    int64_t first;
    struct fence fence = begin(rig, &first);
    int64_t id = make(rig, task, first, n, chain);
    struct rig_largest most = largest_turn(rig, fence, exit);
    assert_int_equal(count(rig, id, n, end), n);
    return most;
}

/* The largest turn of a cascade of N is that of one of 4N. */
static void cascades(const char *url_small, const char *url_large)
{
    static const struct {
        const char *task;
        bool chain;
        int64_t exit;
        char end;
    } table[] = { { "t after=#", false, 0, 'P' }, { "t depends=#", false, 1, 'F' }, { "t depends=#", true, 1, 'F' } };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        struct rig_largest most[2];
        const char *urls[] = { url_small, url_large };
        for (size_t i = 0; i < 2; i++) {
            struct rig rig = { .batch = 20, .url = k == 0 ? urls[i] : NULL };
            rig_open(&rig);
            most[i] = cascade(&rig, table[k].task, i ? 320 : 80, table[k].chain, table[k].exit, table[k].end);
            rig_close(&rig);
        }
        rig_not_larger("cascade", &most[0], &most[1]);
        assert_true(most[0].events <= 50);
    }
}

/* Nor does one grow with those who come back with what is retried. */
static void retries(const char *url_small, const char *url_large)
{
    for (int chain = 0; chain < 2; chain++) {
        struct rig_largest most[2];
        const char *urls[] = { url_small, url_large };
        for (size_t i = 0; i < 2; i++) {
            size_t n = i ? 320 : 80;
            struct rig rig = { .batch = 20, .url = chain ? NULL : urls[i] };
            rig_open(&rig);
            int64_t first;
            struct fence fence = begin(&rig, &first);
            int64_t id = make(&rig, "t depends=#", first, n, chain);
            (void)largest_turn(&rig, fence, 1);
            assert_int_equal(count(&rig, id, n, 'F'), n);
            int64_t seq = engine_seq(rig.engine);
            assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
            most[i] = rig_follow(&rig, seq);
            assert_int_equal(count(&rig, id, n, 'S'), n);
            rig_close(&rig);
        }
        rig_not_larger(chain ? "retry of a chain" : "retry", &most[0], &most[1]);
        assert_true(most[0].events <= 50);
    }
}

static void test_no_turn_grows_with_a_retry(void **state)
{
    (void)state;
    char small[200], large[200];
    rig_database("retry_small", small, sizeof small);
    rig_database("retry_large", large, sizeof large);
    retries(NULL, NULL);
    retries(small, large);
}

static void test_no_turn_grows_with_a_cascade(void **state)
{
    (void)state;
    char small[200], large[200];
    rig_database("tells_small", small, sizeof small);
    rig_database("tells_large", large, sizeof large);
    cascades(NULL, NULL);
    cascades(small, large);
}

/* Executors that fall silent together, N and 4N: no turn marks more of them than a batch, on either store. */
static void silences(const char *url_small, const char *url_large)
{
    struct rig_largest most[2];
    const char *urls[] = { url_small, url_large };
    for (size_t i = 0; i < 2; i++) {
        struct rig rig = { .batch = 20, .url = urls[i] };
        rig_open(&rig);
        heard(&rig, executors(&rig, i ? 320 : 80), i ? 320 : 80);
        rig.boot += 3100;
        most[i] = rig_follow(&rig, engine_seq(rig.engine));
        assert_int_equal(active(&rig), 0);
        rig_close(&rig);
    }
    if (most[1].events > 25 || most[1].bytes > most[0].bytes * 5 / 4)
        fail_msg("silent executors: a turn of %lld events and %zu bytes became one of %lld and %zu",
            (long long)most[0].events, most[0].bytes, (long long)most[1].events, most[1].bytes);
}

static void test_no_turn_grows_with_silent_executors(void **state)
{
    (void)state;
    char small[200], large[200];
    rig_database("silent_small", small, sizeof small);
    rig_database("silent_large", large, sizeof large);
    silences(NULL, NULL);
    silences(small, large);
}

/* What a server says of executors that it hears goes a batch a turn, too: with another server about, N and 4N. */
static void test_no_turn_grows_with_executors_that_are_heard(void **state)
{
    (void)state;
    size_t bytes[2];
    for (size_t i = 0; i < 2; i++) {
        char url[200];
        struct rig a = { .batch = 20, .name = "a", .url = url }, b = { .batch = 20, .name = "b" };
        rig_database(i ? "heard_large" : "heard_small", url, sizeof url);
        rig_open(&a);
        rig_join(&b, &a);
        size_t n = i ? 320 : 80;
        int64_t id = executors(&a, n);
        rig_pass(&b, 500);
        heard(&a, id, n);
        a.boot += 1500;
        bytes[i] = rig_follow(&a, engine_seq(a.engine)).bytes;
        assert_int_equal(a.engine->grants->spoken.n, 0);
        b.boot = a.boot + 1000; /* and the other one hears of all of them */
        rig_turn(&b, NULL, 0);
        for (size_t k = 0; k < n; k++) {
            const struct known_executor *known = map_find(&b.engine->cache->executors, (uint64_t)id + k);
            assert_int_equal(known->told, b.boot);
        }
        rig_close(&b);
        rig_close(&a);
    }
    if (bytes[1] > bytes[0] * 5 / 4)
        fail_msg("a turn of %zu bytes became one of %zu", bytes[0], bytes[1]);
}

/* --- two engines --- */

/* a tells the first ones and is gone: b, which has the timers after a while, tells the others. */
static void test_another_server_goes_on_with_the_rest(void **state)
{
    (void)state;
    char url[200];
    struct rig a = { .batch = 2, .name = "a", .url = url }, b = { .batch = 2, .name = "b" };
    rig_database("tells_two", url, sizeof url);
    rig_open(&a);
    rig_join(&b, &a);
    int64_t first;
    struct fence fence = begin(&a, &first);
    int64_t id = make(&b, "t after=#", first, 7, false);
    assert_int_equal(rig_finish(&a, fence, 0, -1), ERR_none);
    assert_string_equal(rig_states(&b, id, 7), "PPSSSSS");
    for (int i = 0; i < 30; i++)
        rig_pass(&b, 1000);
    assert_string_equal(rig_states(&b, id, 7), "PPPPPPP");
    rig_close(&b);
    rig_close(&a);
}

/* A hold that is taken away and put back in one turn stands once among those of its lane: its task, which ends at the
 * first look, isn't told of a second time when the lane is looked at again. */
static void test_an_end_is_told_once(void **state)
{
    (void)state;
    RIG(rig, 0);
    rig_pause(&rig, "default", true);
    int64_t id = ENQUEUE(&rig, "nothing kind=none", "other", "last after=0,1");
    struct command *turn[5];
    for (size_t i = 0; i < 5; i++) {
        turn[i] = rig_new(&rig, i == 0 ? CMD_CANCEL : i == 1 ? CMD_RETRY : CMD_LANE_PAUSE);
        if (i < 2)
            turn[i]->in.task.task = id;
        else
            turn[i]->in.pause.lane = STR("default");
    }
    turn[3]->in.pause.pause = true; /* resumed, paused, resumed: it is looked at twice */
    rig_turn(&rig, turn, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(turn[i]->err.code, ERR_none);
    assert_string_equal(rig_states(&rig, id, 3), "DPS");
    assert_int_equal(rig_task(&rig, id + 2).waits, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_successors_go_on_a_batch_a_turn),
        cmocka_unit_test(test_a_restart_goes_on_with_the_rest),
        cmocka_unit_test(test_a_chain_is_walked_in_batches),
        cmocka_unit_test(test_a_retry_before_all_are_told),
        cmocka_unit_test(test_a_retry_brings_dependents_back_in_batches),
        cmocka_unit_test(test_a_retry_that_fails_before_all_are_back),
        cmocka_unit_test(test_leases_lapse_in_batches),
        cmocka_unit_test(test_silent_executors_are_lost_in_batches),
        cmocka_unit_test(test_no_turn_grows_with_a_cascade),
        cmocka_unit_test(test_no_turn_grows_with_a_retry),
        cmocka_unit_test(test_no_turn_grows_with_silent_executors),
        cmocka_unit_test(test_no_turn_grows_with_executors_that_are_heard),
        cmocka_unit_test(test_another_server_goes_on_with_the_rest),
        cmocka_unit_test(test_an_end_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
