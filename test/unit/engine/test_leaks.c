/* What goes when nobody needs it any more: slots of concurrency keys, executors that nobody hears. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/turn.h"
#include "rig.h"

#define RIG(name) \
    struct rig name __attribute__((cleanup(rig_close))) = { 0 }; \
    rig_open(&name)

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define YEAR (366 * DAY)

static int64_t ask(const struct rig *rig, const char *sql)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *stmt;
    snprintf(path, sizeof path, "%s/weir.db", rig->dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return n;
}

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

/* --- concurrency keys ---------------------------------------------------------------------------------------------------------- */

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
    assert_int_equal(rig.engine->slots.n + rig.engine->slots_empty.n, 0);
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
        if (restarts) rig_restart(&rig);
        int64_t again = ENQUEUE(&rig, "again conc=k", "other conc=k2");
        assert_string_equal(rig_states(&rig, again, 2), "SP");
        assert_int_equal(rig_order(&rig, CMD_RETRY, first), ERR_none); /* its spec names a slot that has gone twice since */
        if (restarts) rig_restart(&rig);
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
    int64_t id = ENQUEUE(&rig, "t conc=k");
    struct command *other = rig_enqueue_command(&rig, (const char *const[]){ "t conc=k" }, 1);
    other->actor.tenant = STR("acme");
    assert_int_equal(rig_one(&rig, other)->err.code, ERR_none);
    assert_string_equal(rig_states(&rig, id, 2), "PP");
    assert_int_equal(ask(&rig, "SELECT count(DISTINCT id) FROM slot WHERE name = 'concurrency/k'"), 2);
}

/* --- executors ------------------------------------------------------------------------------------------------------------------- */

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
    for (int day = 0; day < 29; day++) rig_pass(&rig, DAY), rig_poll(&rig, here, 0);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 3);
    for (int day = 0; day < 2; day++) rig_pass(&rig, DAY), rig_poll(&rig, here, 0);
    rig_pass(&rig, 2 * HOUR);
    assert_int_equal(ask(&rig, "SELECT count(*) FROM executor"), 1);
    assert_int_equal(rig.engine->executors.n, 1);
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
    for (int day = 0; day < 32; day++) rig_pass(&rig, DAY);
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
        size_t now = rig.engine->arena.used_bytes + rig.engine->cache_arena.used_bytes;
        if (i == 1) before = now;
        if (i > 1) assert_true(now <= before);
        assert_true(rig.engine->n_texts_old <= 1);
    }
    assert_int_equal(rig.engine->executor_names.n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_leaves_nothing_when_nobody_is_in_it),
        cmocka_unit_test(test_a_key_means_the_same_slot_for_ever),
        cmocka_unit_test(test_a_key_is_a_tenants),
        cmocka_unit_test(test_an_executor_silent_for_thirty_days_goes),
        cmocka_unit_test(test_no_executor_goes_by_a_clock_that_is_wrong),
        cmocka_unit_test(test_a_late_result_of_an_executor_that_has_gone),
        cmocka_unit_test(test_registering_again_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
