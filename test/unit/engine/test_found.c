/* What the simulator found in the engine, each as the shortest story that shows it (test/sim/README.md has the list). */
#include <stdio.h>
#include <string.h>

#include "rig.h"

#define RIG(rig) __attribute__((cleanup(rig_close))) struct rig rig = { 0 }; rig_open(&rig)

static struct fence granted(struct command *poll, size_t i)
{
    assert_true(poll->out.poll.n_grants > i);
    return poll->out.poll.grants[i].fence;
}

static int64_t registered(struct rig *rig, const char *memory)
{
    struct command *command = rig_new(rig, CMD_REGISTER);
    command->in.reg.executor =
        (struct executor){ .name = STR("m"), .instance = STR("i"), .slots = 4, .kinds = 1u << KIND_COMMAND, .state = EXECUTOR_ACTIVE };
    command->in.reg.memory = str_of(memory);
    return rig_one(rig, command)->out.reg.id;
}

/* --- commits that fail ------------------------------------------------------------------------------------------------------------ */

static const struct store_ops *real_ops;
static struct store_ops failing_ops;
static int failures;

static bool commit_failing(struct store *store, const struct changes *changes, struct err *err)
{
    if (failures == 0) return real_ops->commit(store, changes, err);
    failures--;
    real_ops->rollback(store);
    return err_set(err, ERR_io, "as the test wants it");
}

/* The next n commits come to nothing. */
static void fail_commits(struct rig *rig, int n)
{
    if (rig->store->ops != &failing_ops) {
        real_ops = rig->store->ops;
        failing_ops = *real_ops;
        failing_ops.commit = commit_failing;
        rig->store->ops = &failing_ops;
    }
    failures = n;
}

static struct command *waiting_poll(struct rig *rig, int64_t executor, int64_t seq)
{
    struct command *poll = rig_poll_command(rig, executor, 1, seq, NULL, 0);
    poll->in.poll.wait_ms = 900;
    return rig_one(rig, poll);
}

/* The engine took the refused poll for the one that waits: the next one answered it a second time, and left the other waiting. */
static void test_a_poll_of_a_failed_turn_is_answered_once(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    ENQUEUE(&rig, "t label=os:other at=3"); /* its time comes with the second poll: there is something to commit */
    struct command *first = waiting_poll(&rig, e, 1);
    rig.wall += 3;
    fail_commits(&rig, 2);
    struct command *second = waiting_poll(&rig, e, 2);
    assert_int_equal(failures, 0);
    assert_int_not_equal(second->err.code, ERR_none);
    assert_false(first->answered);
    waiting_poll(&rig, e, 3);
    assert_true(first->answered);
    assert_ptr_equal(rig.answered.first, &first->node);
    assert_null(rig.answered.first->next);
}

/* Its number was given to the next one, and both were one executor. */
static void test_an_executor_of_a_failed_turn_is_not_known(void **state)
{
    (void)state;
    RIG(rig);
    fail_commits(&rig, 2);
    struct command *refused = rig_new(&rig, CMD_REGISTER);
    refused->in.reg.executor = (struct executor){ .name = STR("x"), .slots = 1, .kinds = ~0u };
    assert_int_not_equal(rig_one(&rig, refused)->err.code, ERR_none);
    int64_t y = rig_executor(&rig, "y", NULL), x = rig_executor(&rig, "x", NULL);
    assert_int_not_equal(x, y);
}

/* What was left of the lane for later turns stayed parked for ever. */
static void test_a_resumed_lane_is_emptied_though_a_commit_failed(void **state)
{
    (void)state;
    RIG(rig);
    enum { N = 1500 }; /* more than a turn returns */
    const char **words = ARENA_ARRAY(&rig.arena, const char *, N);
    for (size_t i = 0; i < N; i++) words[i] = str_fmt(&rig.arena, "t%zu queue=q%c", i, 0).ptr;
    rig_pause(&rig, "q", true);
    int64_t id = rig_enqueue(&rig, words, N);
    rig_pause(&rig, "q", false);
    assert_int_equal(rig_state(&rig, id + N - 1), 'S');
    fail_commits(&rig, 1);
    rig_turn(&rig, NULL, 0);
    rig_pass(&rig, 1000);
    assert_int_equal(rig_state(&rig, id + N - 1), 'P');
}

/* --- polls and grants ------------------------------------------------------------------------------------------------------------- */

/* Seed 19231: a copy of the poll that had brought the grant, come after the host had been started anew, ended the attempt. */
static void test_a_late_poll_of_the_life_before_takes_nothing_back(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = registered(&rig, "boot 1");
    granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0)), 0);
    registered(&rig, "boot 2");
    struct command *late = rig_one(&rig, rig_poll_command(&rig, e, 0, 7, NULL, 0));
    assert_int_equal(late->out.poll.n_grants, 0);
    assert_int_equal(rig_state(&rig, id), 'X');
    rig_one(&rig, rig_poll_command(&rig, e, 0, 8, NULL, 0)); /* the new life's own: it hasn't got it */
    assert_int_equal(rig_state(&rig, id), 'P');
    assert_int_equal(rig_task(&rig, id).attempts, 1);
}

/* It was renewed as if it were alive, and the executor wasn't told. */
static void test_who_renews_what_ended_in_the_same_turn_is_told(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t"), e = rig_executor(&rig, "e", NULL);
    struct fence t = granted(rig_poll(&rig, e, 1), 0);
    struct command *finish = rig_new(&rig, CMD_FINISH), *poll = rig_poll_command(&rig, e, 0, -1, &t, 1);
    struct finish_item item = { .fence = t, .exit = 0, .signal = -1, .cpu_ms = 1, .max_rss_bytes = 1 };
    finish->in.finish.items = &item;
    finish->in.finish.n_items = 1;
    rig_turn(&rig, (struct command *[]){ finish, poll }, 2);
    assert_int_equal(rig_state(&rig, id), 'D');
    assert_int_equal(poll->out.poll.n_cancels, 1);
}

/* Grants that nobody named cost nothing: a job that takes its executor down at once ran for ever. */
static void test_a_task_whose_grants_are_never_named_comes_to_an_end(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "t attempts=2"), e = rig_executor(&rig, "e", NULL);
    for (int64_t seq = 1; seq <= 2; seq++) {
        granted(rig_one(&rig, rig_poll_command(&rig, e, 1, seq, NULL, 0)), 0);
        rig_pass(&rig, 3100);
    }
    assert_int_equal(rig_state(&rig, id), 'F');
}

/* The slot of a task that is parked as it is looked at makes another pending, too late for the polls of this turn. */
static void test_a_slot_given_back_by_who_is_parked_is_used_at_once(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a queue=q sem=s", "b sem=s"), e = rig_executor(&rig, "e", NULL);
    rig_pause(&rig, "q", true);
    struct command *poll = waiting_poll(&rig, e, 1);
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 2), "SX");
    assert_int_equal(granted(poll, 0).task, id + 1);
}

/* Of the waiting polls only as many were looked at then as a batch has tasks. */
static void test_slots_given_back_are_offered_to_all_waiting_polls(void **state)
{
    (void)state;
    __attribute__((cleanup(rig_close))) struct rig rig = { .batch = 1 };
    rig_open(&rig);
    int64_t id = ENQUEUE(&rig, "a queue=q sem=r,s label=os:x", "b sem=r", "c sem=s");
    int64_t x = rig_executor(&rig, "x", "os:x"), y = rig_executor(&rig, "y", NULL);
    rig_pause(&rig, "q", true);
    struct command *one = waiting_poll(&rig, y, 1), *two = waiting_poll(&rig, x, 1); /* the second finds a, which is parked */
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 3), "SXX");
    assert_int_equal(one->out.poll.n_grants + two->out.poll.n_grants, 2);
}

/* --- order and time --------------------------------------------------------------------------------------------------------------- */

/* It went back to P, though what it comes after was to run again. */
static void test_a_lost_task_does_not_go_past_a_retried_one(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a", "b after=0"), e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    granted(rig_poll(&rig, e, 1), 0);
    rig_order(&rig, CMD_RETRY, id);
    assert_string_equal(rig_states(&rig, id, 2), "PX");
    rig_pass(&rig, 3100);
    assert_string_equal(rig_states(&rig, id, 2), "PS");
}

/* Steps that are too small to be noticed one by one. */
static void test_a_back_off_is_not_stretched_by_small_steps_of_the_clock(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a"), e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 111, -1);
    for (int i = 0; i < 20; i++) {
        rig.wall -= 900;
        rig_turn(&rig, NULL, 0);
    }
    rig_pass(&rig, 6200);
    assert_int_equal(rig_state(&rig, id), 'P');
}

/* A job whose shim died is told as lost by a poll that still names it among what it has: the engine took it up again ("its lease was
 * renewed late"), and the next poll, without it, took the grant for one that never arrived: a run that no attempt was counted for. */
static void test_an_end_as_lost_is_not_taken_up_again(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "one"), e = registered(&rig, "m");
    struct fence fence = granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0)), 0);
    struct finish_item item = { .fence = fence, .exit = -1, .signal = -1, .outcome = OUTCOME_lost, .cpu_ms = -1, .max_rss_bytes = -1,
                                .log_bytes = -1 };
    struct command *poll = rig_poll_command(&rig, e, 0, 8, &fence, 1);
    poll->in.poll.finishes = &item;
    poll->in.poll.n_finishes = 1;
    rig_one(&rig, poll);
    assert_int_equal(poll->out.poll.n_cancels, 0);
    assert_int_equal(rig_state(&rig, id), 'P');
    rig_one(&rig, rig_poll_command(&rig, e, 0, 9, NULL, 0));
    assert_int_equal(rig_task(&rig, id).attempts, 1);
    granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 10, NULL, 0)), 0);
    assert_int_equal(rig_task(&rig, id).attempts, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_poll_of_a_failed_turn_is_answered_once),
        cmocka_unit_test(test_an_executor_of_a_failed_turn_is_not_known),
        cmocka_unit_test(test_a_resumed_lane_is_emptied_though_a_commit_failed),
        cmocka_unit_test(test_a_late_poll_of_the_life_before_takes_nothing_back),
        cmocka_unit_test(test_who_renews_what_ended_in_the_same_turn_is_told),
        cmocka_unit_test(test_a_task_whose_grants_are_never_named_comes_to_an_end),
        cmocka_unit_test(test_a_slot_given_back_by_who_is_parked_is_used_at_once),
        cmocka_unit_test(test_slots_given_back_are_offered_to_all_waiting_polls),
        cmocka_unit_test(test_a_lost_task_does_not_go_past_a_retried_one),
        cmocka_unit_test(test_a_back_off_is_not_stretched_by_small_steps_of_the_clock),
        cmocka_unit_test(test_an_end_as_lost_is_not_taken_up_again),
    };
    return cmocka_run_group_tests_name("found", tests, NULL, NULL);
}
