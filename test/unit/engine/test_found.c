/* What the simulator found in the engine, each as the shortest story that shows it (test/sim/README.md has the list).
 */
#include <stdio.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/tenants.h"
#include "rig.h"

#define RIG(rig) \
    __attribute__((cleanup(rig_close))) struct rig rig = { 0 }; \
    rig_open(&rig)

static struct fence granted(struct command *poll, size_t i)
{
    assert_true(poll->out.poll.n_grants > i);
    return poll->out.poll.grants[i].fence;
}

static int64_t registered(struct rig *rig, const char *memory)
{
    struct command *command = rig_new(rig, CMD_REGISTER);
    command->in.reg.executor = (struct executor){
        .name = STR("m"), .instance = STR("i"), .slots = 4, .kinds = 1u << KIND_COMMAND, .state = EXECUTOR_ACTIVE
    };
    command->in.reg.memory = str_of(memory);
    return rig_one(rig, command)->out.reg.id;
}

/* --- commits that fail --- */

static const struct store_ops *real_ops;
static struct store_ops failing_ops;
static int failures;

static bool commit_failing(struct store *store, const struct changes *changes, struct err *err)
{
    if (failures == 0)
        return real_ops->commit(store, changes, err);
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

/* A failed turn empties the caches while the loop may not have rendered the answers of the turn before: their texts
 * must be the command's own. Without that the sanitizer ends this program. */
static void test_an_answer_outlives_the_caches(void **state)
{
    (void)state;
    RIG(rig);
    int64_t executor = rig_executor(&rig, "m", NULL);
    const char *first[] = { "a" }, *second[] = { "b depends=#1" };
    struct command *made = rig_one(&rig, rig_enqueue_command(&rig, first, 1));
    struct command *poll = rig_poll(&rig, executor, 1);
    assert_int_equal(rig_finish(&rig, granted(poll, 0), 0, -1), ERR_none);
    struct command *waits = rig_enqueue_command(&rig, second, 1);
    waits->in.enqueue.defs[0].refs[0].needed = true;
    rig_one(&rig, waits);
    struct command *after = rig_poll(&rig, executor, 1);
    assert_int_equal(after->out.poll.n_grants, 1);
    assert_int_equal(after->out.poll.grants[0].n_needs, 1);
    caches_drop(rig.engine);
    struct str names[] = { made->out.enqueue.tasks[0].lane_name, poll->out.poll.grants[0].lane_name,
        waits->out.enqueue.tasks[0].lane_name, after->out.poll.grants[0].lane_name,
        after->out.poll.grants[0].needs[0].lane_name };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(str_eqz(names[i], "default"));
    assert_true(str_eqz(after->out.poll.grants[0].needs[0].task.name, "a"));
}

/* The engine took the refused poll for the one that waits: the next one answered it a second time, and left the other
 * waiting. */
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
    for (size_t i = 0; i < N; i++)
        words[i] = str_fmt(&rig.arena, "t%zu queue=q%c", i, 0).ptr;
    rig_pause(&rig, "q", true);
    int64_t id = rig_enqueue(&rig, words, N);
    rig_pause(&rig, "q", false);
    assert_int_equal(rig_state(&rig, id + N - 1), 'S');
    fail_commits(&rig, 1);
    rig_turn(&rig, NULL, 0);
    rig_pass(&rig, 1000);
    assert_int_equal(rig_state(&rig, id + N - 1), 'P');
}

/* --- polls and grants --- */

/* Seed 19231: a copy of the poll that had brought the grant, come after the host had been started anew, ended the
 * attempt. */
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
    /* the second finds a, which is parked */
    struct command *one = waiting_poll(&rig, y, 1), *two = waiting_poll(&rig, x, 1);
    rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, id, 3), "SXX");
    assert_int_equal(one->out.poll.n_grants + two->out.poll.n_grants, 2);
}

/* --- order and time --- */

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

/* A job whose shim died is told as lost by a poll that still names it among what it has: the engine took it up again
 * ("its lease was renewed late"), and the next poll, without it, took the grant for one that never arrived: a run that
 * no attempt was counted for. */
static void test_an_end_as_lost_is_not_taken_up_again(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "one"), e = registered(&rig, "m");
    struct fence fence = granted(rig_one(&rig, rig_poll_command(&rig, e, 1, 7, NULL, 0)), 0);
    struct finish_item item = { .fence = fence,
        .exit = -1,
        .signal = -1,
        .outcome = OUTCOME_lost,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
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

/* --- archives --- */

static int64_t archive(struct rig *rig)
{
    struct command *add = rig_new(rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("docs");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    return rig_one(rig, add)->out.archive.archive.lane;
}

static void revision(struct rig *rig, int64_t rev, const char *yaml)
{
    struct command *command = rig_new(rig, CMD_REVISION);
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(yaml) };
    command->in.revision.archive = STR("docs");
    command->in.revision.row = (struct revision){ .rev = rev };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    rig_one(rig, command);
    definition_release(command->in.revision.definition);
    assert_int_equal(command->err.code, ERR_none);
}

static int64_t id_of(struct rig *rig, int64_t lane, int64_t rev, const char *name, int64_t run)
{
    int64_t id = 0, found;
    struct err err = { 0 };
    assert_true(rig->store->ops->task_find(rig->store, lane, rev, str_of(name), STR(""), run, &id, &found, &err));
    return id;
}

static const char writes[] = "- {name: write, lock: exclusive, command: 'true'}\n";

/* The lock is a chain of edges: with a link taken out, whoever came behind it went ahead beside the one that had the
 * lock. */
static void test_who_is_stopped_while_it_waits_for_the_lock_lets_nobody_past(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 3; rev++)
        revision(&rig, rev, writes);
    struct fence first = granted(rig_poll(&rig, e, 9), 0);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id_of(&rig, lane, 2, "write", 0)), ERR_none);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 3, "write", 0)), 'S');
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id_of(&rig, lane, 3, "write", 0)), ERR_none);
    /* the last that was to have it alone has ended */
    revision(&rig, 4, "- {name: read, lock: shared, command: 'true'}\n");
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 4, "read", 0)), 'S');
    assert_int_equal(rig_order(&rig, CMD_RETRY, id_of(&rig, lane, 2, "write", 0)), ERR_none);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 2, "write", 0)), 'S');
    rig_finish(&rig, first, 0, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 4, "read", 0)), 'P');
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 2, "write", 0)), 'S');
}

/* Stopped behind a gap, before it had edges at all. */
static void test_who_was_stopped_behind_a_gap_has_its_place(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    static const char ordered[] =
        "- {name: a, depends: [PREV], command: 'true'}\n- {name: read, lock: shared, command: 'true'}\n"
        "- {name: write, lock: exclusive, command: 'true'}\n";
    revision(&rig, 2, ordered);
    int64_t a = id_of(&rig, lane, 2, "a", 0), write = id_of(&rig, lane, 2, "write", 0);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, a), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id_of(&rig, lane, 2, "read", 0)), ERR_none);
    revision(&rig, 1, "- {name: a, command: 'true'}\n- {name: write, lock: exclusive, command: 'true'}\n");
    assert_int_equal(rig_poll(&rig, e, 9)->out.poll.n_grants, 2);
    assert_int_equal(rig_state(&rig, write), 'S'); /* nobody shares the lock before it: the one of revision 1 has it */
    assert_int_equal(rig_order(&rig, CMD_RETRY, a), ERR_none);
    assert_int_equal(rig_state(&rig, a), 'S');
}

/* A second run of what PREV names isn't PREV, and has the lock all the same. */
static void test_a_second_run_has_the_lock_beside_prev(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    static const char yaml[] = "- {name: write, lock: exclusive, depends: [PREV], command: 'true'}\n";
    revision(&rig, 1, yaml);
    struct command *run = rig_new(&rig, CMD_RUN);
    run->in.run.archive = STR("docs");
    run->in.run.task = STR("write");
    assert_int_equal(rig_one(&rig, run)->err.code, ERR_none);
    revision(&rig, 2, yaml);
    rig_finish(&rig, granted(rig_poll(&rig, e, 9), 0), 0, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 1, "write", 2)), 'P');
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 2, "write", 0)), 'S');
}

/* The retried one queues behind who has the lock; lost, that one waited for it again, as it once had, and both for
 * ever. */
static void test_who_had_the_lock_does_not_wait_for_who_queues_behind_it(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 2; rev++)
        revision(&rig, rev, writes);
    int64_t one = id_of(&rig, lane, 1, "write", 0), two = id_of(&rig, lane, 2, "write", 0);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(rig_order(&rig, CMD_RETRY, one), ERR_none);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, two), 'P');
    assert_int_equal(rig_state(&rig, one), 'S');
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    granted(rig_poll(&rig, e, 1), 0);
    /* and the other way round: it waits for the first again */
    assert_int_equal(rig_order(&rig, CMD_RETRY, two), ERR_none);
    assert_int_equal(rig_state(&rig, one), 'X');
    assert_int_equal(rig_state(&rig, two), 'S');
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, one), 'P');
    assert_int_equal(rig_state(&rig, two), 'S');
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_int_equal(rig_state(&rig, two), 'P');
}

/* The same with one between the two. */
static void test_who_had_the_lock_does_not_wait_for_the_end_of_its_queue(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 3; rev++)
        revision(&rig, rev, writes);
    int64_t one = id_of(&rig, lane, 1, "write", 0), two = id_of(&rig, lane, 2, "write", 0),
            three = id_of(&rig, lane, 3, "write", 0);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(rig_order(&rig, CMD_RETRY, one), ERR_none);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, two), 'P');
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_int_equal(rig_state(&rig, three), 'P');
    assert_int_equal(rig_state(&rig, one), 'S');
}

/* What a retry takes along queues for the lock anew, as the retried task does. */
static void test_dependents_of_a_retried_task_queue_for_the_lock_anew(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    static const char yaml[] =
        "- {name: b, command: 'true'}\n- {name: write, depends: [b], lock: exclusive, command: 'true'}\n";
    revision(&rig, 1, yaml);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 1, "write", 0)), 'F');
    revision(&rig, 2, yaml);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    struct fence second = granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(second.task, id_of(&rig, lane, 2, "write", 0));
    assert_int_equal(rig_order(&rig, CMD_RETRY, id_of(&rig, lane, 1, "b", 0)), ERR_none);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 1, "write", 0)), 'S');
    rig_finish(&rig, second, 0, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 1, "write", 0)), 'P');
}

/* Seed 9314: it had its edge already, and so wasn't taken for the end of the queue. */
static void test_a_retried_task_is_the_end_of_the_locks_queue(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 2; rev++)
        revision(&rig, rev, writes);
    struct fence first = granted(rig_poll(&rig, e, 9), 0);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id_of(&rig, lane, 2, "write", 0)), ERR_none);
    rig_finish(&rig, first, 1, -1);
    assert_int_equal(rig_order(&rig, CMD_RETRY, first.task), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_RETRY, id_of(&rig, lane, 2, "write", 0)), ERR_none);
    revision(&rig, 3, writes);
    rig_finish(&rig, granted(rig_poll(&rig, e, 9), 0), 0, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 2, "write", 0)), 'P');
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 3, "write", 0)), 'S');
}

/* Seed 869: one that took its place again before the end of the queue, and behind one that ran, was taken for the end.
 */
static void test_who_is_retried_before_the_end_of_the_locks_queue_is_not_the_end(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    revision(&rig, 1, writes);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    int64_t write = id_of(&rig, lane, 1, "write", 0);
    assert_int_equal(rig_order(&rig, CMD_RETRY, write), ERR_none);
    revision(&rig, 2,
        "- {name: read, lock: shared, command: 'true'}\n- {name: look, lock: shared, command: 'true'}\n"
        "- {name: write, lock: exclusive, command: 'true'}\n");
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    struct fence read = granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(rig_order(&rig, CMD_RETRY, write), ERR_none);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 2, "look", 0)), 'S'); /* and the last one waits for it */
    revision(&rig, 3, writes);
    rig_finish(&rig, read, 0, -1);
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 0, -1);
    assert_int_equal(rig_state(&rig, write), 'D');
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 2, "look", 0)), 'P');
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 3, "write", 0)), 'S');
}

/* Seed 14739: it was stopped itself before the one between it and the one that has the lock, and so heard nothing from
 * that one. */
static void test_who_was_stopped_before_whom_it_waited_for_has_its_place(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 3; rev++)
        revision(&rig, rev, writes);
    struct fence first = granted(rig_poll(&rig, e, 9), 0);
    int64_t last = id_of(&rig, lane, 3, "write", 0);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, last), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, id_of(&rig, lane, 2, "write", 0)), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_RETRY, last), ERR_none);
    assert_int_equal(rig_state(&rig, last), 'S');
    rig_finish(&rig, first, 0, -1);
    assert_int_equal(rig_state(&rig, last), 'P');
}

/* The same with one behind it that was stopped first: the end of the queue leads to the task itself, and no further. */
static void test_who_was_stopped_between_others_has_its_place(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 4; rev++)
        revision(&rig, rev, writes);
    struct fence first = granted(rig_poll(&rig, e, 9), 0);
    for (int rev = 4; rev >= 2; rev--)
        assert_int_equal(rig_order(&rig, CMD_CANCEL, id_of(&rig, lane, rev, "write", 0)), ERR_none);
    int64_t third = id_of(&rig, lane, 3, "write", 0);
    assert_int_equal(rig_order(&rig, CMD_RETRY, third), ERR_none);
    assert_int_equal(rig_state(&rig, third), 'S');
    rig_finish(&rig, first, 0, -1);
    assert_int_equal(rig_state(&rig, third), 'P');
}

/* One that has the lock was put behind one that waits for it, when what it had once waited for was retried and stopped.
 */
static void test_who_has_the_lock_is_put_behind_nobody(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 3; rev++)
        revision(&rig, rev, writes);
    struct fence first = granted(rig_poll(&rig, e, 1), 0);
    rig_finish(&rig, first, 1, -1);
    struct fence second = granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(rig_order(&rig, CMD_RETRY, first.task), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, first.task), ERR_none);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, second.task), 'P'); /* its executor fell silent */
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 3, "write", 0)), 'S');
}

/* A late result that asks for another try: others have had the lock since. */
static void test_a_late_result_queues_for_the_lock_anew(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    revision(&rig, 1, "- {name: write, lock: exclusive, retry: {attempts: 2, backoff: 1s}, command: 'true'}\n");
    revision(&rig, 2, writes);
    rig_poll(&rig, e, 1);
    rig_pass(&rig, 3100);
    struct fence late = granted(rig_poll(&rig, e, 1), 0);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, late.task), 'F');
    struct fence second = granted(rig_poll(&rig, e, 1), 0);
    assert_int_equal(second.task, id_of(&rig, lane, 2, "write", 0));
    assert_int_equal(rig_finish(&rig, late, 111, -1), ERR_none);
    rig_pass(&rig, 2900);
    assert_int_equal(rig_state(&rig, late.task), 'S');
    assert_int_equal(rig_state(&rig, second.task), 'X');
    rig_finish(&rig, second, 0, -1);
    rig_pass(&rig, 60000);
    assert_int_equal(rig_state(&rig, late.task), 'P');
}

/* --- circles: who is retried queues for the lock last, behind those too that come after it by other ways --- */

struct ring { /* `last` comes after `write` by `note`, which has no lock, and by `other`, whose turn was between them */
    int64_t write, note, other, last;
};
static const char ring_yaml[] = "- {name: write, lock: exclusive, command: 'true'}\n"
                                "- {name: note, after: [write], retry: {attempts: 2, backoff: 1s}, command: 'true'}\n"
                                "- {name: other, after: [write], lock: exclusive, command: 'true'}\n"
                                "- {name: last, after: [note], lock: exclusive, command: 'true'}\n";

static struct fence granted_of(struct command *poll, int64_t task)
{
    for (size_t i = 0; i < poll->out.poll.n_grants; i++)
        if (poll->out.poll.grants[i].fence.task == task)
            return poll->out.poll.grants[i].fence;
    fail_msg("task %lld was not granted", (long long)task);
    return (struct fence){ 0 };
}

/* write has failed, other is done, note runs. */
static struct fence ring_begin(struct rig *rig, int64_t executor, const char *yaml, struct ring *out)
{
    int64_t lane = archive(rig);
    revision(rig, 1, yaml);
    *out = (struct ring){ id_of(rig, lane, 1, "write", 0), id_of(rig, lane, 1, "note", 0),
        id_of(rig, lane, 1, "other", 0), id_of(rig, lane, 1, "last", 0) };
    rig_finish(rig, granted_of(rig_poll(rig, executor, 9), out->write), 1, -1);
    struct command *poll = rig_poll(rig, executor, 9);
    assert_int_equal(rig_finish(rig, granted_of(poll, out->other), 0, -1), ERR_none);
    assert_int_equal(rig_state(rig, out->last), 'S');
    return granted_of(poll, out->note);
}

/* note would wait for write, write for last, and last for note. */
static void test_a_retry_that_would_close_a_circle_is_refused(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct ring ring;
    rig_finish(&rig, ring_begin(&rig, e, ring_yaml, &ring), 1, -1);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.write), ERR_none);
    assert_int_equal(rig_state(&rig, ring.write), 'S');
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.note), ERR_conflict);
    assert_int_equal(rig_state(&rig, ring.last), 'P');
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.last), 0, -1);
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.write), 0, -1);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.note), ERR_none);
    assert_int_equal(rig_state(&rig, ring.note), 'P');
}

/* The same while last runs: it waits for note when its executor is lost. */
static void test_a_retry_that_would_close_a_circle_with_who_runs_is_refused(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct ring ring;
    rig_finish(&rig, ring_begin(&rig, e, ring_yaml, &ring), 1, -1);
    granted_of(rig_poll(&rig, e, 9), ring.last);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.write), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.note), ERR_conflict);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, ring.last), 'P');
    assert_int_equal(rig_state(&rig, ring.write), 'S');
}

/* note runs without a lock; lost, it waited for write, which by now waited for last, which waits for note. */
static void test_who_runs_before_a_waiter_for_the_lock_does_not_wait_for_who_is_behind_that(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct ring ring;
    ring_begin(&rig, e, ring_yaml, &ring);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.write), ERR_none);
    assert_int_equal(rig_state(&rig, ring.write), 'S');
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, ring.note), 'P');
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.note), 0, -1);
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.last), 0, -1);
    assert_int_equal(rig_state(&rig, ring.write), 'P');
}

/* last has the lock and runs; lost, it waited for note, that was retried and waits for write, which waits for last. */
static void test_who_had_the_lock_does_not_wait_for_it_by_way_of_others(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct ring ring;
    rig_finish(&rig, ring_begin(&rig, e, ring_yaml, &ring), 1, -1);
    granted_of(rig_poll(&rig, e, 9), ring.last);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.note), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.write), ERR_none);
    assert_int_equal(rig_state(&rig, ring.note), 'S');
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, ring.last), 'P');
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.last), 0, -1);
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.write), 0, -1);
    assert_int_equal(rig_state(&rig, ring.note), 'P');
}

/* A late result can't be refused: if it asks for another try, who came after it has its place before it by now. */
static void test_a_late_result_closes_no_circle(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct ring ring;
    ring_begin(&rig, e, ring_yaml, &ring);
    rig_pass(&rig, 3100);
    struct fence late = granted_of(rig_poll(&rig, e, 9), ring.note);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, ring.note), 'F');
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.write), ERR_none);
    assert_int_equal(rig_finish(&rig, late, 111, -1), ERR_none);
    rig_pass(&rig, 2000);
    assert_int_equal(rig_state(&rig, ring.note), 'S');
    assert_int_equal(rig_state(&rig, ring.last), 'P');
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.last), 0, -1);
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.write), 0, -1);
    rig_pass(&rig, 60000);
    assert_int_equal(rig_state(&rig, ring.note), 'P');
}

/* Nor do the dependents that it takes along. */
static void test_dependents_of_a_late_result_close_no_circle(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    struct ring ring;
    static const char yaml[] = "- {name: write, lock: exclusive, command: 'true'}\n"
                               "- {name: note, after: [write], retry: {attempts: 1}, command: 'true'}\n"
                               "- {name: heir, depends: [note], after: [write], command: 'true'}\n"
                               "- {name: other, after: [write], lock: exclusive, command: 'true'}\n"
                               "- {name: last, after: [heir], lock: exclusive, command: 'true'}\n";
    struct fence late = ring_begin(&rig, e, yaml, &ring);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, ring.last), 'P');
    assert_int_equal(rig_order(&rig, CMD_RETRY, ring.write), ERR_none);
    assert_int_equal(rig_finish(&rig, late, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, ring.note), 'D');
    assert_int_equal(rig_state(&rig, ring.last), 'P');
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.last), 0, -1);
    rig_finish(&rig, granted_of(rig_poll(&rig, e, 9), ring.write), 0, -1);
    assert_int_equal(rig_state(&rig, ring.note + 1), 'P');
}

/* The task of a late result was taken for one that was stopped while it waited: who came after it was put behind what
 * it waited for. */
static void test_who_brings_a_late_result_has_begun(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig), e = rig_executor(&rig, "e", NULL);
    revision(&rig, 1, "- {name: read, lock: shared, command: 'true'}\n");
    revision(&rig, 2, "- {name: write, lock: exclusive, retry: {attempts: 1}, command: 'true'}\n");
    rig_finish(&rig, granted(rig_poll(&rig, e, 1), 0), 1, -1);
    struct fence late = granted(rig_poll(&rig, e, 1), 0);
    revision(&rig, 3, "- {name: b, command: 'true'}\n- {name: read, depends: [b], lock: shared, command: 'true'}\n");
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, late.task), 'F');
    assert_int_equal(rig_order(&rig, CMD_RETRY, id_of(&rig, lane, 1, "read", 0)), ERR_none);
    struct command *poll = rig_poll(&rig, e, 9);
    granted_of(poll, id_of(&rig, lane, 1, "read", 0));
    assert_int_equal(rig_finish(&rig, late, 0, -1), ERR_none);
    rig_finish(&rig, granted_of(poll, id_of(&rig, lane, 3, "b", 0)), 0, -1);
    assert_int_equal(rig_state(&rig, id_of(&rig, lane, 3, "read", 0)), 'P'); /* both share the lock */
}

/* The newest revision was a gap that somebody gave up: there is nothing of it to check out, and no workflow. */
static void test_a_gap_that_was_given_up_is_not_the_newest_revision(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig);
    revision(&rig, 1, "- {name: nightly, schedule: '* * * * *', command: 'true'}\n");
    struct command *skip = rig_new(&rig, CMD_ARCHIVE_SKIP), *run = rig_new(&rig, CMD_RUN);
    skip->in.archive.name = STR("docs");
    skip->in.archive.rev = 2;
    assert_int_equal(rig_one(&rig, skip)->err.code, ERR_none);
    rig_pass(&rig, 61000);
    assert_int_equal(id_of(&rig, lane, 2, "nightly", 0), 0);
    assert_true(id_of(&rig, lane, 1, "nightly", 0) > 0);
    run->in.run.archive = STR("docs");
    run->in.run.task = STR("nightly");
    assert_int_equal(rig_one(&rig, run)->err.code, ERR_none);
    assert_int_equal(run->out.run.task, id_of(&rig, lane, 1, "nightly", 2));
}

/* --- what an executor says of itself --- */

static int64_t narrow_executor(struct rig *rig, int64_t slots)
{
    struct command *command = rig_new(rig, CMD_REGISTER);
    command->in.reg.executor = (struct executor){ .name = STR("narrow"), .slots = slots, .kinds = ~0u };
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
    return command->out.reg.id;
}

/* What it says is free counts up to its slots less what it holds: at once, over polls, and with what ends by the same
 * poll. */
static void test_an_executor_is_granted_no_more_than_its_slots(void **state)
{
    (void)state;
    RIG(rig);
    ENQUEUE(&rig, "a", "b", "c", "d", "e", "f");
    int64_t e = narrow_executor(&rig, 2);
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 100000, 1, NULL, 0));
    assert_int_equal(poll->out.poll.n_grants, 2);
    struct fence held[2] = { granted(poll, 0), granted(poll, 1) };
    poll = rig_one(&rig, rig_poll_command(&rig, e, 100000, 1, NULL, 0)); /* its answer was lost: the same two */
    assert_int_equal(poll->out.poll.n_grants, 2);
    poll = rig_one(&rig, rig_poll_command(&rig, e, 100000, 2, held, 2));
    assert_int_equal(poll->out.poll.n_grants, 0);
    poll = rig_poll_command(&rig, e, 100000, 3, held, 2);
    struct finish_item end = {
        .fence = held[0], .exit = 0, .signal = -1, .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1, .hash = { 1 }
    };
    poll->in.poll.finishes = &end;
    poll->in.poll.n_finishes = 1;
    rig_one(&rig, poll);
    assert_int_equal(end.code, ERR_none);
    assert_int_equal(poll->out.poll.n_grants, 1);
    struct fence kept[2] = { held[1], granted(poll, 0) };
    /* one that it doesn't name any more isn't held either */
    poll = rig_one(&rig, rig_poll_command(&rig, e, 100000, 4, &kept[1], 1));
    assert_int_equal(poll->out.poll.n_grants, 1);
    struct fence last[2] = { kept[1], granted(poll, 0) };
    /* it waits before its end is told, and is granted when it is */
    struct command *waits = rig_poll_command(&rig, e, 9, 5, last, 2);
    waits->in.poll.wait_ms = 4000;
    rig_turn(&rig, &waits, 1);
    assert_false(waits->answered);
    assert_int_equal(rig_finish(&rig, last[0], 0, -1), ERR_none);
    rig_turn(&rig, NULL, 0);
    assert_int_equal(waits->out.poll.n_grants, 1);
    assert_int_equal(
        rig_one(&rig, rig_poll_command(&rig, narrow_executor(&rig, 0), 9, 9, NULL, 0))->out.poll.n_grants, 0);
}

/* Only the token that has registered an executor speaks for it, or `admin`; a name goes over to another token when its
 * executor is gone. */
static void test_an_executor_is_its_tokens(void **state)
{
    (void)state;
    RIG(rig);
    ENQUEUE(&rig, "a", "b");
    struct command *command = rig_new(&rig, CMD_REGISTER);
    command->in.reg.executor = (struct executor){ .name = STR("e"), .instance = STR("i"), .slots = 2, .kinds = ~0u };
    command->token = 7;
    int64_t e = rig_one(&rig, command)->out.reg.id;
    struct command *poll = rig_poll_command(&rig, e, 1, 1, NULL, 0);
    poll->token = 8;
    assert_int_equal(rig_one(&rig, poll)->err.code, ERR_forbidden);
    poll = rig_poll_command(&rig, e, 1, 1, NULL, 0);
    poll->token = 7;
    struct fence fence = granted(rig_one(&rig, poll), 0);
    static const struct {
        int64_t token;
        bool admin;
        const char *instance;
        enum err_code code;
    } takes[] = {
        { 8, false, "", ERR_name_taken },
        { 8, false, "j", ERR_name_taken },
        { 0, false, "", ERR_name_taken },
        { 9, false, "i", ERR_none }, /* the same executor, with a new token */
        { 7, false, "", ERR_name_taken },
        { 10, true, "", ERR_none },
        { 10, false, "", ERR_name_taken },
        { 9, false, "", ERR_none },
    };
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        command = rig_new(&rig, CMD_REGISTER);
        command->in.reg.executor =
            (struct executor){ .name = STR("e"), .instance = str_of(takes[i].instance), .slots = 2, .kinds = ~0u };
        command->token = takes[i].token;
        command->admin = takes[i].admin;
        assert_int_equal(rig_one(&rig, command)->err.code, takes[i].code);
        assert_true(takes[i].code != ERR_none || command->out.reg.id == e);
    }
    struct finish_item end = {
        .fence = fence, .exit = 0, .signal = -1, .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1, .hash = { 1 }
    };
    static const struct {
        int64_t token;
        bool admin;
        enum err_code code;
    } ends[] = {
        { 7, false, ERR_forbidden },
        { 8, false, ERR_forbidden },
        { 0, false, ERR_forbidden },
        { 9, false, ERR_none },
        { 8, false, ERR_forbidden },
        { 1, true, ERR_none },
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        command = rig_new(&rig, CMD_FINISH);
        command->in.finish.items = &end;
        command->in.finish.n_items = 1;
        command->token = ends[i].token;
        command->admin = ends[i].admin;
        rig_one(&rig, command);
        assert_int_equal(end.code, ends[i].code);
    }
    rig.boot += 16000; /* it is silent for longer than a lease, and has nothing */
    command = rig_new(&rig, CMD_REGISTER);
    command->in.reg.executor = (struct executor){ .name = STR("e"), .slots = 2, .kinds = ~0u };
    command->token = 8;
    assert_int_equal(rig_one(&rig, command)->err.code, ERR_none);
    assert_int_equal(command->out.reg.id, e);
}

/* --- an older copy of the store --- */

static struct command *seeing_poll(
    struct rig *rig, int64_t executor, int64_t free, const struct fence *renew, size_t n_renew)
{
    static int64_t seq = 1000;
    struct command *poll = rig_poll_command(rig, executor, free, ++seq, renew, n_renew);
    poll->in.poll.seen_seq = 100000;
    poll->in.poll.seen_incarnation = rig_incarnation(rig);
    return rig_one(rig, poll);
}

/* An executor that keeps the largest number it has seen made all grants stale at each of its polls, its own and those
 * of the others. */
static void test_a_store_that_went_back_takes_one_new_incarnation(void **state)
{
    (void)state;
    RIG(rig);
    int64_t first = ENQUEUE(&rig, "a", "b"), e = rig_executor(&rig, "e", NULL);
    struct fence old = granted(rig_poll(&rig, e, 1), 0), fence = granted(seeing_poll(&rig, e, 1, NULL, 0), 0);
    assert_true(fence.incarnation != old.incarnation);
    assert_int_equal(fence.task, first + 1);
    struct command *poll = seeing_poll(&rig, e, 0, &fence, 1);
    assert_int_equal(poll->out.poll.n_cancels, 0);
    assert_int_equal(rig_finish(&rig, fence, 0, -1), ERR_none);
    assert_int_equal(rig_finish(&rig, old, 0, -1), ERR_stale_fence);
    assert_int_equal(rig_states(&rig, first, 2)[1], 'D');
}

/* A number that another store gave, or this one before it took the incarnation it has, says nothing about this history.
 */
static void test_what_was_seen_in_another_incarnation_says_nothing(void **state)
{
    (void)state;
    RIG(rig);
    int64_t e = rig_executor(&rig, "e", NULL);
    uint64_t before = rig_incarnation(&rig);
    struct command *poll = rig_poll_command(&rig, e, 0, 1, NULL, 0);
    poll->in.poll.seen_seq = 100000;
    poll->in.poll.seen_incarnation = before + 1;
    assert_int_equal(rig_one(&rig, poll)->err.code, ERR_none);
    assert_true(rig_incarnation(&rig) == before);
}

/* What was granted in the incarnation before can't be named any more; it may have begun, so its attempt counts. */
static void test_a_grant_of_the_incarnation_before_counts(void **state)
{
    (void)state;
    RIG(rig);
    int64_t id = ENQUEUE(&rig, "a attempts=1"), e = rig_executor(&rig, "e", NULL);
    struct command *poll = rig_one(&rig, rig_poll_command(&rig, e, 1, 1, NULL, 0));
    struct fence old = granted(poll, 0);
    seeing_poll(&rig, e, 0, &old, 1);
    assert_int_equal(rig_task(&rig, id).attempts, 1);
    assert_int_equal(rig_state(&rig, id), 'F');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_outlives_the_caches),
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
        cmocka_unit_test(test_who_is_stopped_while_it_waits_for_the_lock_lets_nobody_past),
        cmocka_unit_test(test_who_was_stopped_behind_a_gap_has_its_place),
        cmocka_unit_test(test_a_second_run_has_the_lock_beside_prev),
        cmocka_unit_test(test_who_had_the_lock_does_not_wait_for_who_queues_behind_it),
        cmocka_unit_test(test_who_had_the_lock_does_not_wait_for_the_end_of_its_queue),
        cmocka_unit_test(test_dependents_of_a_retried_task_queue_for_the_lock_anew),
        cmocka_unit_test(test_a_retried_task_is_the_end_of_the_locks_queue),
        cmocka_unit_test(test_who_is_retried_before_the_end_of_the_locks_queue_is_not_the_end),
        cmocka_unit_test(test_who_was_stopped_before_whom_it_waited_for_has_its_place),
        cmocka_unit_test(test_who_was_stopped_between_others_has_its_place),
        cmocka_unit_test(test_who_has_the_lock_is_put_behind_nobody),
        cmocka_unit_test(test_a_late_result_queues_for_the_lock_anew),
        cmocka_unit_test(test_a_retry_that_would_close_a_circle_is_refused),
        cmocka_unit_test(test_a_retry_that_would_close_a_circle_with_who_runs_is_refused),
        cmocka_unit_test(test_who_runs_before_a_waiter_for_the_lock_does_not_wait_for_who_is_behind_that),
        cmocka_unit_test(test_who_had_the_lock_does_not_wait_for_it_by_way_of_others),
        cmocka_unit_test(test_a_late_result_closes_no_circle),
        cmocka_unit_test(test_dependents_of_a_late_result_close_no_circle),
        cmocka_unit_test(test_who_brings_a_late_result_has_begun),
        cmocka_unit_test(test_a_gap_that_was_given_up_is_not_the_newest_revision),
        cmocka_unit_test(test_an_executor_is_granted_no_more_than_its_slots),
        cmocka_unit_test(test_an_executor_is_its_tokens),
        cmocka_unit_test(test_a_store_that_went_back_takes_one_new_incarnation),
        cmocka_unit_test(test_what_was_seen_in_another_incarnation_says_nothing),
        cmocka_unit_test(test_a_grant_of_the_incarnation_before_counts),
    };
    return cmocka_run_group_tests_name("found", tests, NULL, NULL);
}
