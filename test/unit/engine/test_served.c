/* Slots are for tasks that somebody can start: with one engine on SQLite, and with two on PostgreSQL. Runs under
 * test/lib/postgres.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model.h"
#include "rig.h"

#define RIG(rig, size) \
    __attribute__((cleanup(rig_close))) struct rig rig = { .batch = (size), .semaphores = { { STR("wide"), 100 } }, \
        .n_semaphores = 1 }; \
    rig_open(&rig)

static bool waits_for_executor(struct rig *rig, int64_t id)
{
    struct task task = rig_task(rig, id);
    return task.state == STATE_S && task.holds == 1u << HOLD_executor;
}

/* Advances the clock while only this executor polls; 0: none polls. */
static void pass_with(struct rig *rig, int64_t executor, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        rig_pass(rig, 1000);
        if (executor)
            rig_poll(rig, executor, 0);
    }
    for (int i = 0; i < 20 && rig->next <= rig->boot; i++)
        rig_turn(rig, NULL, 0); /* what is left to do is done */
}

static void state_set(struct rig *rig, int64_t executor, enum executor_state state)
{
    struct command *command = rig_new(rig, CMD_EXECUTOR_STATE);
    command->in.executor_state.executor = executor;
    command->in.executor_state.state = state;
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
}

static void test_who_nobody_can_start_takes_no_slot(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t e = rig_executor(&rig, "e", NULL);
    int64_t id = ENQUEUE(&rig, "a sem=s label=os:x", "b sem=s", "c conc=k label=os:x", "d conc=k", "plain label=os:x");
    assert_string_equal(rig_states(&rig, id, 5), "SPSPP"); /* without slots it is pending, as ever */
    assert_true(waits_for_executor(&rig, id) && waits_for_executor(&rig, id + 2));
    (void)rig_executor(&rig, "x", "os:x");
    assert_string_equal(rig_states(&rig, id, 5), "SPSPP"); /* now they wait for their slots */
    assert_false(waits_for_executor(&rig, id));
    rig_finish(&rig, rig_granted(rig_poll(&rig, e, 1)), 0, -1);
    rig_finish(&rig, rig_granted(rig_poll(&rig, e, 1)), 0, -1);
    assert_string_equal(rig_states(&rig, id, 5), "PDPDP");
}

static void test_who_lost_its_executors_gives_its_slot_to_others(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t e = rig_executor(&rig, "e", NULL), x = rig_executor(&rig, "x", "os:x");
    int64_t id = ENQUEUE(&rig, "a sem=s label=os:x", "b sem=s", "plain label=os:x");
    assert_string_equal(rig_states(&rig, id, 3), "PSP");
    pass_with(&rig, e, 4);
    assert_string_equal(rig_states(&rig, id, 3), "SPP");
    assert_true(waits_for_executor(&rig, id));
    assert_true(rig.next > rig.boot); /* nothing is left to do */
    rig_poll(&rig, x, 0);             /* heard again: it queues for the slot */
    assert_false(waits_for_executor(&rig, id));
    rig_finish(&rig, rig_granted(rig_poll(&rig, e, 1)), 0, -1);
    assert_string_equal(rig_states(&rig, id, 3), "PDP");
}

/* Who waits for its slots before others, and loses its executors, doesn't keep them waiting. */
static void test_a_waiter_without_executors_lets_others_pass(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t e = rig_executor(&rig, "e", NULL), x = rig_executor(&rig, "x", "os:x");
    rig.semaphores[rig.n_semaphores++] = (struct conf_semaphore){ STR("two"), 2 };
    rig_restart(&rig);
    int64_t id = ENQUEUE(&rig, "h sem=r", "h2 sem=two", "a sem=r,two label=os:x", "b sem=two");
    assert_string_equal(rig_states(&rig, id, 4), "PPSS");
    state_set(&rig, x, EXECUTOR_PAUSED);
    pass_with(&rig, e, 1);
    assert_string_equal(rig_states(&rig, id, 4), "PPSP");
}

static void test_paused_and_draining_executors_do_not_count(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t e = rig_executor(&rig, "e", NULL), id = ENQUEUE(&rig, "a sem=s", "b");
    static const enum executor_state states[] = { EXECUTOR_PAUSED, EXECUTOR_DRAINING };
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(rig_states(&rig, id, 2), "PP");
        state_set(&rig, e, states[i]);
        pass_with(&rig, e, 1);
        assert_string_equal(rig_states(&rig, id, 2), "SP");
        state_set(&rig, e, EXECUTOR_ACTIVE);
    }
    assert_int_equal(rig_poll(&rig, e, 5)->out.poll.n_grants, 2);
    pass_with(&rig, e, 1);
    assert_string_equal(rig_states(&rig, id, 2), "XX"); /* one that is full counts */
    assert_string_equal(rig_states(&rig, ENQUEUE(&rig, "c sem=t"), 1), "P");
}

static void test_batches(void **state)
{
    (void)state;
    RIG(rig, 4);
    const char *tasks[10];
    for (size_t i = 0; i < 10; i++)
        tasks[i] = i == 9 ? "t sem=wide prio=5" : "t sem=wide";
    int64_t id = rig_enqueue(&rig, tasks, 10);
    assert_string_equal(rig_states(&rig, id, 10), "SSSSSSSSSS");
    int64_t e = rig_executor(&rig, "e", NULL);
    assert_string_equal(rig_states(&rig, id, 10), "PPPSSSSSSP"); /* in the same turn, larger priorities first */
    assert_true(rig.next <= rig.boot);
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 10), "PPPPPPPSSP");
    rig_restart(&rig); /* the rest isn't forgotten */
    for (int i = 0; i < 3; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 10), "PPPPPPPPPP");
    pass_with(&rig, e, 4);
    assert_string_equal(rig_states(&rig, id, 10), "PPPPPPPPPP");
    state_set(&rig, e, EXECUTOR_PAUSED);
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 10), "SSSSPPPPPP");
    assert_true(rig.next <= rig.boot);
    rig_restart(&rig);
    for (int i = 0; i < 6; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 10), "SSSSSSSSSS");
    assert_true(rig.next > rig.boot);
}

/* After a restart who was there counts, until it is found silent; then its tasks give their slots back, though it was
 * never heard. */
static void test_a_restart_gives_nothing_back_before_time(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t e = rig_executor(&rig, "e", NULL), id = ENQUEUE(&rig, "a sem=s");
    rig_restart(&rig);
    rig_turn(&rig, NULL, 0);
    pass_with(&rig, 0, 2);
    assert_string_equal(rig_states(&rig, id, 1), "P");
    pass_with(&rig, 0, 2);
    assert_string_equal(rig_states(&rig, id, 1), "S");
    rig_restart(&rig);
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 1), "S");
    assert_int_equal(rig_poll(&rig, e, 1)->out.poll.n_grants, 1); /* in the turn in which it is heard again */
}

/* It was pending when the turn's next command paused the last executor: its slot isn't stored yet when others give
 * theirs back. */
static void test_what_became_pending_in_the_same_turn_gives_back_too(void **state)
{
    (void)state;
    RIG(rig, 0);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct command *turn[] = { rig_enqueue_command(&rig, (const char *const[]){ "a sem=s" }, 1),
        rig_new(&rig, CMD_EXECUTOR_STATE) };
    turn[1]->in.executor_state.executor = e;
    turn[1]->in.executor_state.state = EXECUTOR_PAUSED;
    rig_turn(&rig, turn, 2);
    pass_with(&rig, 0, 1);
    assert_true(waits_for_executor(&rig, turn[0]->out.enqueue.tasks[0].task.id));
}

/* A job whose executor was lost and comes back: it goes on while its slot is free, and is stale when somebody else has
 * it; its late result counts all the same. */
static void test_who_comes_back_goes_on_if_its_slot_is_free(void **state)
{
    for (int taken = 0; taken < 2; taken++) {
        (void)state;
        RIG(rig, 0);
        int64_t e = rig_executor(&rig, "e", NULL), x = rig_executor(&rig, "x", "os:x"),
                id = ENQUEUE(&rig, "a sem=s label=os:x");
        struct fence fence = rig_granted(rig_one(&rig, rig_poll_command(&rig, x, 1, 1, NULL, 0)));
        pass_with(&rig, e, 5);
        assert_true(waits_for_executor(&rig, id));
        if (taken)
            assert_string_equal(rig_states(&rig, ENQUEUE(&rig, "b sem=s"), 1), "P");
        struct command *poll = rig_one(&rig, rig_poll_command(&rig, x, 0, 2, &fence, 1));
        assert_int_equal(poll->out.poll.n_cancels, taken);
        assert_int_equal(rig_state(&rig, id), taken ? 'S' : 'X');
        assert_int_equal(rig_finish(&rig, fence, 0, -1), ERR_none);
        assert_int_equal(rig_state(&rig, id), 'D');
    }
}

/* --- two engines --- */

struct pair {
    struct rig a, b;
    char url[200];
};

static void pair_open(struct pair *pair, const char *name, size_t batch)
{
    *pair = (struct pair){ 0 };
    rig_database(name, pair->url, sizeof pair->url);
    pair->a.url = pair->url;
    pair->a.name = "a";
    pair->b.name = "b";
    pair->a.batch = pair->b.batch = batch;
    pair->a.semaphores[0] = pair->b.semaphores[0] = (struct conf_semaphore){ STR("wide"), 100 };
    pair->a.n_semaphores = pair->b.n_semaphores = 1;
    rig_open(&pair->a);
    rig_join(&pair->b, &pair->a);
}

static void pair_close(struct pair *pair)
{
    rig_close(&pair->b);
    rig_close(&pair->a);
}

static void test_an_executor_at_another_server_counts(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, "served1", 0);
    int64_t id = ENQUEUE(&pair.b, "a sem=s", "b sem=s");
    assert_string_equal(rig_states(&pair.b, id, 2), "SS");
    int64_t e = rig_executor(&pair.a, "e", NULL);
    assert_string_equal(rig_states(&pair.b, id, 2), "PS"); /* in the turn in which it came */
    int64_t more = ENQUEUE(&pair.b, "c sem=t");
    assert_string_equal(rig_states(&pair.b, more, 1), "P");
    state_set(&pair.a, e, EXECUTOR_PAUSED);
    assert_string_equal(rig_states(&pair.b, ENQUEUE(&pair.b, "d sem=u"), 1), "S");
    for (int i = 0; i < 3; i++)
        rig_turn(&pair.b, NULL, 0); /* b gives back what was pending, whoever paused it */
    assert_string_equal(rig_states(&pair.b, id, 2), "SS");
    assert_string_equal(rig_states(&pair.b, more, 1), "S");
    pair_close(&pair);
}

/* a lets the first ones go and is gone: b goes on. The same when they are to give back. */
static void test_another_server_goes_on_with_what_one_began(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair, "served2", 2);
    int64_t id = ENQUEUE(&pair.b, "1 sem=wide", "2 sem=wide", "3 sem=wide", "4 sem=wide", "5 sem=wide");
    int64_t e = rig_executor(&pair.a, "e", NULL);
    assert_string_equal(rig_states(&pair.b, id, 5), "PPSSS");
    for (int i = 0; i < 4; i++)
        rig_turn(&pair.b, NULL, 0);
    assert_string_equal(rig_states(&pair.b, id, 5), "PPPPP");
    state_set(&pair.a, e, EXECUTOR_DRAINING);
    rig_turn(&pair.a, NULL, 0);
    assert_string_equal(rig_states(&pair.b, id, 5), "SSPPP");
    for (int i = 0; i < 6; i++)
        rig_turn(&pair.b, NULL, 0);
    assert_string_equal(rig_states(&pair.b, id, 5), "SSSSS");
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_nobody_can_start_takes_no_slot),
        cmocka_unit_test(test_who_lost_its_executors_gives_its_slot_to_others),
        cmocka_unit_test(test_a_waiter_without_executors_lets_others_pass),
        cmocka_unit_test(test_paused_and_draining_executors_do_not_count),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_a_restart_gives_nothing_back_before_time),
        cmocka_unit_test(test_what_became_pending_in_the_same_turn_gives_back_too),
        cmocka_unit_test(test_who_comes_back_goes_on_if_its_slot_is_free),
        cmocka_unit_test(test_an_executor_at_another_server_counts),
        cmocka_unit_test(test_another_server_goes_on_with_what_one_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
