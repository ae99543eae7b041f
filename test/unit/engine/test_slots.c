/* Waiters for slots: a turn admits a batch of them or sends a batch away, and the next turns go on; the order is the
 * engine's own. */
#include <stdio.h>
#include <string.h>

#include "rig.h"

#define RIG(rig, size) \
    __attribute__((cleanup(rig_close))) struct rig rig = { .batch = (size), .semaphores = { { STR("lic"), 1 } }, \
        .n_semaphores = 1 }; \
    rig_open(&rig); \
    (void)rig_executor(&rig, "e", NULL)

static int64_t wait_for(struct rig *rig, const char *task, size_t n)
{
    const char *tasks[32];
    assert_true(n <= 32);
    for (size_t i = 0; i < n; i++)
        tasks[i] = task;
    return rig_enqueue(rig, tasks, n);
}

static void limit_set(struct rig *rig, int64_t limit)
{
    struct command *site = rig_new(rig, CMD_SITE);
    rig->semaphores[0].limit = limit;
    site->in.site.conf = (struct site_conf){ .semaphores = { rig->semaphores, rig->n_semaphores }, .silent = ~1U };
    site->actor = (struct actor){ STR("admin"), STR("default") };
    assert_int_equal(rig_one(rig, site)->err.code, ERR_none);
}

static void test_a_raised_limit_admits_a_batch_a_turn(void **state)
{
    (void)state;
    RIG(rig, 4);
    int64_t id = wait_for(&rig, "t sem=lic", 12);
    assert_string_equal(rig_states(&rig, id, 12), "PSSSSSSSSSSS");
    limit_set(&rig, 20);
    assert_string_equal(rig_states(&rig, id, 12), "PPPPPSSSSSSS");
    assert_true(rig.next <= rig.boot);         /* the rest at once */
    int64_t late = ENQUEUE(&rig, "t sem=lic"); /* in the same turn as the next batch: not past those who wait */
    assert_string_equal(rig_states(&rig, id, 12), "PPPPPPPPPSSS");
    assert_int_equal(rig_state(&rig, late), 'S');
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 13), "PPPPPPPPPPPPP");
    for (int64_t i = 1; i < 13; i++)
        assert_true(rig_task(&rig, id + i).vt > rig_task(&rig, id + i - 1).vt);
}

static void test_what_a_turn_has_left_is_admitted_after_a_restart(void **state)
{
    (void)state;
    RIG(rig, 2);
    int64_t id = wait_for(&rig, "t sem=lic", 8);
    limit_set(&rig, 20);
    assert_string_equal(rig_states(&rig, id, 8), "PPPSSSSS");
    rig_restart(&rig);
    assert_string_equal(rig_states(&rig, id, 8), "PPPPPSSS");
    for (int i = 0; i < 2; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 8), "PPPPPPPP");
}

/* The turn of the end sends a batch of the paused lane's waiters away; who waits behind them gets the slot when they
 * are through. */
static void test_who_is_paused_gives_way_in_batches(void **state)
{
    (void)state;
    RIG(rig, 4);
    int64_t holder = ENQUEUE(&rig, "h sem=lic"), id = wait_for(&rig, "t queue=q sem=lic", 10),
            last = ENQUEUE(&rig, "z sem=lic");
    rig_pause(&rig, "q", true);
    rig_order(&rig, CMD_CANCEL, holder);
    assert_int_equal(rig_state(&rig, last), 'S');
    int turns = 0;
    for (; rig_state(&rig, last) == 'S' && turns < 5; turns++)
        rig_turn(&rig, NULL, 0);
    assert_int_equal(turns, 2);
    assert_true(rig.next > rig.boot); /* and then there is nothing left to do */
    rig_pause(&rig, "q", false);
    for (int i = 0; i < 4; i++)
        rig_turn(&rig, NULL, 0);
    rig_order(&rig, CMD_CANCEL, last);
    assert_string_equal(rig_states(&rig, id, 10), "PSSSSSSSSS");
}

/* Of two semaphores that are free the queue of one is led by a task that also wants a third: a pause lets those behind
 * it pass, whichever semaphore it is. */
static void test_a_pause_looks_at_the_slots_that_have_room(void **state)
{
    (void)state;
    RIG(rig, 4);
    rig.semaphores[rig.n_semaphores++] = (struct conf_semaphore){ STR("two"), 2 };
    rig_restart(&rig);
    ENQUEUE(&rig, "holder sem=lic", "other sem=two"); /* one of two is left, and it is kept for: */
    int64_t first = ENQUEUE(&rig, "first queue=q sem=lic,two"), second = ENQUEUE(&rig, "second sem=two");
    assert_int_equal(rig_state(&rig, second), 'S');
    rig_pause(&rig, "q", true);
    assert_int_equal(rig_state(&rig, second), 'P');
    assert_int_equal(rig_state(&rig, first), 'S');
}

/* `b` was heard of first and has the smaller number; slots are looked at by name. */
static void test_slots_are_looked_at_by_name(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t id = ENQUEUE(&rig, "one sem=b", "two sem=a");
    rig_order(&rig, CMD_CANCEL, id);
    rig_order(&rig, CMD_CANCEL, id + 1);
    id = ENQUEUE(&rig, "holder sem=b,a", "wb sem=b", "wa sem=a");
    assert_string_equal(rig_states(&rig, id, 3), "PSS");
    rig_order(&rig, CMD_CANCEL, id);
    assert_string_equal(rig_states(&rig, id, 3), "TPP");
    assert_true(rig_task(&rig, id + 2).vt < rig_task(&rig, id + 1).vt);
}

/* Somebody leaves the queue from the middle, somebody with a larger priority comes in, and both are seen in the turn
 * that admits. */
static void test_a_queue_that_changes_within_the_turn(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t holder = ENQUEUE(&rig, "h sem=lic"), id = wait_for(&rig, "t sem=lic", 20);
    struct command *turn[22];
    size_t n = 0;
    for (int64_t i = 0; i < 20; i += 2) { /* the even ones, first and last among them */
        turn[n] = rig_new(&rig, CMD_CANCEL);
        turn[n++]->in.task.task = id + i;
    }
    turn[n++] = rig_enqueue_command(&rig, (const char *const[]){ "urgent sem=lic prio=9" }, 1);
    turn[n] = rig_new(&rig, CMD_CANCEL);
    turn[n++]->in.task.task = holder;
    for (size_t i = 0; i < n; i++)
        turn[i]->actor = (struct actor){ STR("admin"), STR("default") };
    rig_turn(&rig, turn, n);
    assert_string_equal(rig_states(&rig, id, 21), "TSTSTSTSTSTSTSTSTSTSP");
    rig_order(&rig, CMD_CANCEL, id + 20);
    assert_string_equal(rig_states(&rig, id, 21), "TPTSTSTSTSTSTSTSTSTST");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_raised_limit_admits_a_batch_a_turn),
        cmocka_unit_test(test_what_a_turn_has_left_is_admitted_after_a_restart),
        cmocka_unit_test(test_who_is_paused_gives_way_in_batches),
        cmocka_unit_test(test_a_pause_looks_at_the_slots_that_have_room),
        cmocka_unit_test(test_slots_are_looked_at_by_name),
        cmocka_unit_test(test_a_queue_that_changes_within_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
