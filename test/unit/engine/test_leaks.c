/* What goes when nobody needs it any more: slots of concurrency keys, semaphores, classes, executors that nobody hears.
 * On SQLite; under test/lib/postgres.py what concerns two servers, on PostgreSQL. A long life as a whole: test_soak.c.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asking.h"
#include "engine/cache/cache.h"
#include "engine/waiters.h"
#include "rig.h"

#define RIG(name) \
    struct rig name __attribute__((cleanup(rig_close))) = { 0 }; \
    rig_open(&name)

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define YEAR (366 * DAY)

static void ended(struct rig *rig, int64_t executor, int64_t exit)
{
    struct command *poll = rig_poll(rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(rig_finish(rig, poll->out.poll.grants[0].fence, exit, -1), ERR_none);
}

static void done(struct rig *rig, int64_t executor)
{
    ended(rig, executor, 0);
}

/* --- concurrency keys --- */

static void test_a_key_leaves_nothing_when_nobody_is_in_it(void **state)
{
    (void)state;
    RIG(rig);
    char text[64];
    int64_t e = rig_executor(&rig, "e", NULL);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "t conc=pull-request-%d", i);
        ENQUEUE(&rig, text, "n kind= conc=nothing-to-run");
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 1);
        done(&rig, e);
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
    }
    assert_int_equal(rig.engine->cache->slots.n + rig.engine->slots->empty.n, 0);
}

/* Two of one key never run at once, whether the slot was there all the time or not. */
static void test_a_key_means_the_same_slot_for_ever(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        RIG(rig);
        int64_t e = rig_executor(&rig, "e", NULL);
        int64_t first = ENQUEUE(&rig, "t conc=k", "last after=0 conc=k", "gate", "behind depends=2 conc=k");
        ended(&rig, e, 100); /* t: its slot goes, `last` makes it again */
        assert_string_equal(rig_states(&rig, first, 4), "FPPS");
        if (restarts)
            rig_restart(&rig);
        int64_t again = ENQUEUE(&rig, "again conc=k", "other conc=k2");
        assert_string_equal(rig_states(&rig, again, 2), "SP");
        /* its spec names a slot that has gone twice since */
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
        if (restarts)
            rig_restart(&rig);
        assert_int_equal(rig_state(&rig, first), 'S');
        assert_int_equal(ask(&rig, "SELECT used FROM slot WHERE name = 'concurrency/k'"), 1);
        for (int i = 0; i < 6; i++) {
            done(&rig, e);
            assert_true(ask(&rig, "SELECT count(*) FROM slot WHERE name = 'concurrency/k'") <= 1);
            assert_true(ask(&rig, "SELECT coalesce(max(used), 0) FROM slot") <= 1);
        }
        assert_string_equal(rig_states(&rig, first, 6), "DDDDDD");
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
    }
}

/* The key of one tenant isn't another's. */
static void test_a_key_is_a_tenants(void **state)
{
    (void)state;
    RIG(rig);
    (void)rig_executor(&rig, "e", NULL);
    int64_t id = ENQUEUE(&rig, "t conc=k");
    struct command *other = rig_enqueue_command(&rig, (const char *const[]){ "t conc=k" }, 1);
    other->actor.tenant = STR("acme");
    assert_int_equal(rig_one(&rig, other)->err.code, ERR_none);
    assert_string_equal(rig_states(&rig, id, 2), "PP");
    assert_int_equal(ask(&rig, "SELECT count(DISTINCT id) FROM slot WHERE name = 'concurrency/k'"), 2);
}

/* --- semaphores --- */

static void test_a_semaphore_that_nobody_has_set_goes(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        RIG(rig);
        char text[64];
        int64_t e = rig_executor(&rig, "e", NULL), first = 0;
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "t sem=s%d,same", i);
            int64_t id = ENQUEUE(&rig, text);
            if (!i)
                first = id;
            assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 2);
            ended(&rig, e, 100);
            assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
        }
        assert_int_equal(rig.engine->cache->slots.n + rig.engine->cache->slot_names.n, 0);
        int64_t now = ENQUEUE(&rig, "now sem=same", "other sem=s1");
        if (restarts)
            rig_restart(&rig);
        /* its spec names slots that have gone: the same ones come again */
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
        assert_string_equal(rig_states(&rig, now, 2), "PP");
        assert_int_equal(rig_state(&rig, first), 'S');
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot WHERE name = 'same' AND used = 1 AND waiting = 1"), 1);
        for (int i = 0; i < 3; i++)
            done(&rig, e);
        assert_int_equal(rig_state(&rig, first), 'D');
        assert_int_equal(ask(&rig, "SELECT count(*) FROM slot"), 0);
    }
}

/* --- classes --- */

static void hours(struct rig *rig, int n)
{
    for (int i = 0; i < n; i++)
        rig_pass(rig, HOUR);
    for (int i = 0; i < 5; i++)
        rig_turn(rig, NULL, 0);
}

static void test_a_class_that_nobody_needs_goes(void **state)
{
    (void)state;
    for (int restarts = 0; restarts < 2; restarts++) {
        RIG(rig);
        char text[64];
        int64_t first = 0;
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "t label=pull-request:%d", i);
            int64_t id = ENQUEUE(&rig, text);
            if (!i)
                first = id;
            assert_int_equal(rig_order(&rig, CMD_CANCEL, id), ERR_none);
            if (i % 10 == 9)
                hours(&rig, 2);
        }
        assert_int_equal(ask(&rig, "SELECT count(*) FROM class"), 0);
        assert_int_equal(rig.engine->cache->classes.n + rig.engine->cache->class_keys.n, 0);
        assert_true(rig.engine->served->n <= 64);
        if (restarts)
            rig_restart(&rig);
        int64_t e = rig_executor(&rig, "e", "pull-request:1"), x = rig_executor(&rig, "x", "pull-request:0");
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none);
        assert_int_equal(rig_state(&rig, first), 'P');
        assert_true(rig_task(&rig, first).class_id > 100); /* no number means another class */
        if (restarts)
            rig_restart(&rig);
        int64_t again = ENQUEUE(&rig, "t label=pull-request:0");
        assert_int_equal(rig_task(&rig, again).class_id, rig_task(&rig, first).class_id);
        assert_int_equal(rig_poll(&rig, e, 2)->out.poll.n_grants, 0);
        assert_int_equal(rig_poll(&rig, x, 2)->out.poll.n_grants, 2);
    }
}

/* Of those that wait some keep their class, and the others get it back. */
static void test_who_waits_finds_its_class(void **state)
{
    (void)state;
    RIG(rig);
    char later[64];
    snprintf(later, sizeof later, "later label=os:x at=%lld", (long long)(10 * HOUR));
    int64_t id = ENQUEUE(
        &rig, "pending label=os:a", "unserved label=os:b sem=s", later, "gate label=os:c", "behind label=os:x after=3");
    assert_string_equal(rig_states(&rig, id, 5), "PSSPS");
    hours(&rig, 5);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM class"), 3);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id + 3), ERR_none);
    hours(&rig, 6);
    assert_string_equal(rig_states(&rig, id, 5), "PSPTP");
    assert_int_equal(ask(&rig, "SELECT count(*) FROM class"), 3); /* that of `gate` has gone */
    int64_t b = rig_executor(&rig, "b", "os:b"), x = rig_executor(&rig, "x", "os:x");
    assert_int_equal(rig_poll(&rig, x, 5)->out.poll.n_grants, 2);
    assert_int_equal(rig_poll(&rig, b, 5)->out.poll.n_grants, 1);
}

/* --- executors --- */

static void test_an_executor_silent_for_thirty_days_goes(void **state)
{
    (void)state;
    RIG(rig);
    int64_t gone = rig_executor(&rig, "gone", NULL), paused = rig_executor(&rig, "paused", NULL);
    struct command *pause = rig_new(&rig, CMD_EXECUTOR_STATE);
    pause->in.executor_state.executor = paused;
    pause->in.executor_state.state = EXECUTOR_PAUSED;
    assert_int_equal(rig_one(&rig, pause)->err.code, ERR_none);
    int64_t here = rig_executor(&rig, "here", NULL);
    for (int day = 0; day < 29; day++)
        rig_pass(&rig, DAY), rig_poll(&rig, here, 0);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 3);
    for (int day = 0; day < 2; day++)
        rig_pass(&rig, DAY), rig_poll(&rig, here, 0);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 1);
    assert_int_equal(rig.engine->cache->executors.n, 1);
    assert_int_equal(rig_poll(&rig, gone, 1)->err.code, ERR_not_found); /* it registers again, and is another one */
    assert_true(rig_executor(&rig, "gone", NULL) > here);
    assert_int_equal(rig_poll(&rig, paused, 1)->err.code, ERR_not_found);
}

static void test_no_executor_goes_by_a_clock_that_is_wrong(void **state)
{
    (void)state;
    RIG(rig);
    rig_executor(&rig, "e", NULL);
    rig_pass(&rig, DAY);
    for (int round = 0; round < 2; round++) {
        rig.wall += round ? -YEAR : YEAR;
        rig_pass(&rig, 12 * HOUR);
        rig_restart(&rig);
        rig_pass(&rig, 6 * HOUR);
        rig.wall -= round ? -YEAR : YEAR;
        rig_pass(&rig, 6 * HOUR);
    }
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 1);
    rig_pass(&rig, 31 * DAY);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 0);
}

/* A late result of one that has gone counts, though nobody counts it. */
static void test_a_late_result_of_an_executor_that_has_gone(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "gone", NULL), id = ENQUEUE(&rig, "t attempts=1");
    struct fence fence = rig_poll(&rig, e, 1)->out.poll.grants[0].fence;
    for (int day = 0; day < 32; day++)
        rig_pass(&rig, DAY);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 0);
    assert_int_equal(rig_finish(&rig, fence, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, id), 'D');
}

static void test_registering_again_takes_no_more_memory(void **state)
{
    (void)state;
    RIG(rig);
    size_t before = 0;
    for (int i = 0; i < 100; i++) {
        rig_executor(&rig, "e", i % 2 ? "os:linux" : "os:hurd");
        size_t now = rig.engine->arena.used_bytes + rig.engine->cache->arena.used_bytes;
        if (i == 1)
            before = now;
        if (i > 1)
            assert_true(now <= before);
        assert_true(rig.engine->cache->texts_old.n <= 1);
    }
    assert_int_equal(rig.engine->cache->executor_names.n, 1);
}

/* --- two servers --- */

#define SHARED(a, b, database) \
    struct rig a __attribute__((cleanup(rig_close))) = { 0 }, b __attribute__((cleanup(rig_close))) = { .name = "b" }; \
    postgres_open(&a, database); \
    rig_join(&b, &a)

/* One of them removes a class, or a semaphore, that the other has in memory and uses next. */
static void test_what_another_server_has_removed_is_made_again(void **state)
{
    (void)state;
    SHARED(a, b, "leaks1");
    int64_t e = rig_executor(&a, "e", "os:x");
    for (int round = 0; round < 3; round++) {
        int64_t id = ENQUEUE(&b, "t label=os:x sem=s", "behind label=os:x sem=s");
        done(&a, e);
        done(&b, e);
        assert_string_equal(rig_states(&b, id, 2), "DD");
        assert_int_equal(ask(&a, "SELECT count(*) FROM class"), 1);
        for (int i = 0; i < 240; i++) { /* e and both servers go on for two hours */
            rig_pass(&a, HOUR / 120);
            if (i % 120 == 60)
                rig_pass(&b, HOUR / 120);
            rig_poll(&a, e, 0);
        }
        assert_int_equal(ask(&a, "SELECT count(*) FROM class"), 0);
        assert_int_equal(ask(&a, "SELECT count(*) FROM slot WHERE name = 's'"), 0);
        assert_int_equal(a.engine->cache->classes.n, 0);
        rig_turn(&b, NULL, 0);
    }
    assert_int_equal(ask(&a, "SELECT count(*) FROM spec WHERE class_key = ''"), 0);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(test_what_another_server_has_removed_is_made_again),
    };
    if (getenv("WEIR_TEST_POSTGRES"))
        return cmocka_run_group_tests(shared, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_leaves_nothing_when_nobody_is_in_it),
        cmocka_unit_test(test_a_key_means_the_same_slot_for_ever),
        cmocka_unit_test(test_a_key_is_a_tenants),
        cmocka_unit_test(test_a_semaphore_that_nobody_has_set_goes),
        cmocka_unit_test(test_a_class_that_nobody_needs_goes),
        cmocka_unit_test(test_who_waits_finds_its_class),
        cmocka_unit_test(test_an_executor_silent_for_thirty_days_goes),
        cmocka_unit_test(test_no_executor_goes_by_a_clock_that_is_wrong),
        cmocka_unit_test(test_a_late_result_of_an_executor_that_has_gone),
        cmocka_unit_test(test_registering_again_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
