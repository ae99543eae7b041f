/* Two engines on one PostgreSQL, turn by turn on virtual time: what one takes over of the other when its own turn fails
 * in the middle, and the times that both write. Run by test/lib/postgres.py, which starts the database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "pair.h"

/* Faults of a store: its table of operations with one of them replaced. */
static struct {
    const struct store_ops *real;
    struct store_ops ops;
    struct store_shared_ops shared;
    int commits_fail; /* this many, before anything is written */
    int reads_fail;   /* this many, after the next commit */
    bool committed;
    enum err_code code;
    struct pair *pair; /* a grants to this executor, while b's turn has failed */
    int64_t executor;
} fault;

static bool commit_faulty(struct store *store, const struct changes *changes, struct err *err)
{
    if (fault.commits_fail > 0) {
        fault.commits_fail--;
        fault.real->rollback(store);
        assert_int_equal(rig_poll(&fault.pair->a, fault.executor, 1)->out.poll.n_grants, 1);
        return err_set(err, fault.code, "as the test wants it");
    }
    fault.committed = true;
    return fault.real->commit(store, changes, err);
}

static bool holds_due_faulty(struct store *store, struct arena *arena, enum hold_kind kind, int64_t key_max, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    if (fault.committed && fault.reads_fail > 0) {
        fault.reads_fail--;
        return err_set(err, fault.code, "as the test wants it");
    }
    return fault.real->holds_due(store, arena, kind, key_max, n, out, out_n, err);
}

static void fault_plant(struct rig *rig, int commits_fail, int reads_fail, enum err_code code)
{
    fault.real = rig->store->ops;
    fault.ops = *rig->store->ops;
    fault.ops.commit = commit_faulty;
    fault.ops.holds_due = holds_due_faulty;
    fault.commits_fail = commits_fail;
    fault.reads_fail = reads_fail;
    fault.committed = false;
    fault.code = code;
    rig->store->ops = &fault.ops;
}

static void fault_remove(struct rig *rig)
{
    rig->store->ops = fault.real;
}

/* b's turn fails, a grants a task, b's turn is done again, a is gone: b must know of the grant, or the task would run
 * for ever. */
static void test_a_failed_turn_forgets_nothing_of_the_others(void **state)
{
    static const enum err_code codes[] = { ERR_internal, ERR_disk_full, ERR_unavailable };
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct pair pair;
        pair_open(&pair);
        int64_t executor = rig_executor(&pair.a, "e", NULL);
        rig_turn(&pair.b, NULL, 0); /* b knows the executor */
        int64_t task = ENQUEUE(&pair.a, "long attempts=3");
        fault.pair = &pair;
        fault.executor = executor;
        fault_plant(&pair.b, 1, 0, codes[i]);
        const char *const more[] = { "more" };
        struct command *command = rig_one(&pair.b, rig_enqueue_command(&pair.b, more, 1));
        fault_remove(&pair.b);
        assert_int_equal(command->err.code, codes[i] == ERR_disk_full ? ERR_disk_full : ERR_none);
        assert_int_equal(rig_state(&pair.b, task), 'X');
        rig_pass(&pair.b, 20000); /* nobody hears the executor any more */
        if (rig_state(&pair.b, task) == 'X')
            fail_msg("%s: b doesn't know of a's grant", err_name(codes[i]));
        pair_close(&pair);
    }
}

static int commits_tried;

static bool commit_refused(struct store *store, const struct changes *changes, struct err *err)
{
    (void)changes;
    commits_tried++;
    fault.real->rollback(store);
    return err_set(err, fault.code, "as the test wants it");
}

static void commits_refuse(struct rig *rig, enum err_code code)
{
    fault_plant(rig, 0, 0, code);
    fault.ops.commit = commit_refused;
    commits_tried = 0;
}

static bool still_locked(struct store *store)
{
    return store == NULL;
}

/* A turn waits too long for a lock of somebody else (CREATE INDEX): its commands are all told so, once, and none of
 * them is tried alone. */
static void test_a_lock_is_waited_for_once(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    (void)ENQUEUE(&pair.a, "first");
    const char *const more[] = { "more" };
    struct command *commands[5];
    for (size_t i = 0; i < 5; i++)
        commands[i] = rig_enqueue_command(&pair.a, more, 1);
    commits_refuse(&pair.a, ERR_conflict);
    rig_turn(&pair.a, commands, 5);
    assert_true(commits_tried <= 2); /* narrow, then wide: that one had met another's turn, as far as anybody knows */
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(commands[i]->err.code, ERR_unavailable);
    assert_int_equal(engine_health(pair.a.engine), ENGINE_STORE_LOCKED);
    fault.ops.commit = fault.real->commit;
    fault.shared = *fault.real->shared;
    fault.shared.writable = still_locked;
    fault.ops.shared = &fault.shared;
    (void)ENQUEUE(&pair.a, "after"); /* it gets through: the lock may be on another table */
    assert_int_equal(engine_health(pair.a.engine), ENGINE_STORE_LOCKED);
    fault_remove(&pair.a);
    rig_turn(&pair.a, NULL, 0);
    assert_int_equal(engine_health(pair.a.engine), ENGINE_OK);
    pair_close(&pair);
}

/* Every turn is refused, with and without commands: the server says so, and says no more when one gets through. */
static void test_a_server_whose_turns_fail_says_so(void **state)
{
    static const enum err_code codes[] = { ERR_forbidden, ERR_internal, ERR_io };
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct pair pair;
        struct engine_counters counters;
        char text[ENGINE_TEXT_MAX];
        pair_open(&pair);
        commits_refuse(&pair.a, codes[i]);
        rig_pass(&pair.a, 2000); /* a beat */
        assert_int_equal(engine_health(pair.a.engine), ENGINE_TURNS_FAIL);
        assert_true(engine_trouble(pair.a.engine, true, text));
        if (!strstr(text, "as the test wants it"))
            fail_msg("%s", text);
        engine_counters(pair.a.engine, &counters);
        assert_true(counters.failed_turns >= 1);
        fault_remove(&pair.a);
        rig_pass(&pair.a, 2000);
        assert_int_equal(engine_health(pair.a.engine), ENGINE_OK);
        pair_close(&pair);
    }
}

/* The same of a store that is one server's, where no turn is taken without need. One command that fails may be the
 * command's fault. */
static void test_a_server_alone_whose_turns_fail_says_so(void **state)
{
    struct rig rig = { 0 };
    const char *const more[] = { "more" };
    (void)state;
    rig_open(&rig);
    (void)ENQUEUE(&rig, "first");
    commits_refuse(&rig, ERR_internal);
    assert_int_equal(rig_one(&rig, rig_enqueue_command(&rig, more, 1))->err.code, ERR_internal);
    assert_int_equal(engine_health(rig.engine), ENGINE_OK);
    for (int i = 0; i < 4; i++) {
        rig_pass(&rig, 1000);
        (void)rig_one(&rig, rig_enqueue_command(&rig, more, 1));
    }
    assert_int_equal(engine_health(rig.engine), ENGINE_TURNS_FAIL);
    rig_pass(&rig, 1000); /* writes nothing, so it shows nothing */
    assert_int_equal(engine_health(rig.engine), ENGINE_TURNS_FAIL);
    fault_remove(&rig);
    (void)ENQUEUE(&rig, "after");
    assert_int_equal(engine_health(rig.engine), ENGINE_OK);
    rig_close(&rig);
}

/* What is read anew again and again takes no more memory than once. */
static void test_small_tables_read_anew_take_no_memory(void **state)
{
    enum { LANES = 300, ROUNDS = 30 };
    struct pair pair;
    size_t before = 0;
    (void)state;
    pair_open(&pair);
    for (int i = 0; i < LANES; i++) {
        char text[64];
        snprintf(text, sizeof text, "t queue=a-queue-%d conc=a-key-%d", i, i);
        (void)ENQUEUE(&pair.a, text);
    }
    (void)rig_executor(&pair.a, "e", NULL);
    for (int i = 0; i < ROUNDS; i++) {
        connections_end();
        rig_turn(&pair.a, NULL, 0);
        size_t now = pair.a.engine->arena.used_bytes + pair.a.engine->cache->arena.used_bytes;
        if (i == 3)
            before = now;
        if (i > 3 && now > before + 20000)
            fail_msg("%zu bytes more after %d times", now - before, i - 3);
    }
    pair_close(&pair);
}

/* The turn is committed and then something can't be read: it is answered once, and isn't done again. */
static void test_what_is_committed_is_not_done_again(void **state)
{
    static const enum err_code codes[] = { ERR_unavailable, ERR_internal, ERR_io };
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct pair pair;
        pair_open(&pair);
        fault_plant(&pair.a, 0, 1, codes[i]);
        int64_t first = ENQUEUE(&pair.a, "later at=5000");
        assert_int_equal(fault.reads_fail, 0);
        fault_remove(&pair.a);
        assert_int_equal(first, 1);
        assert_int_equal(ENQUEUE(&pair.b, "next"), first + 1);
        assert_int_equal(rig_state(&pair.a, first), 'S');
        rig_pass(&pair.a, 6000); /* and its time comes */
        assert_int_equal(rig_state(&pair.a, first), 'P');
        pair_close(&pair);
    }
}

/* b's clock is behind a's: what it writes isn't older than what a wrote before it. */
static void test_times_never_step_back(void **state)
{
    struct pair pair;
    int64_t last = 0;
    (void)state;
    pair_open(&pair);
    pair.a.wall += 900;
    for (int i = 0; i < 20; i++) {
        struct rig *rig = i % 2 ? &pair.b : &pair.a;
        struct task task = rig_task(rig, ENQUEUE(rig, "x"));
        struct store_head head;
        struct err err = { 0 };
        assert_true(rig->store->ops->load_head(rig->store, &head, &err));
        assert_int_equal(task.created, head.time); /* what the turn's events say */
        assert_true(head.time >= last);
        last = head.time;
    }
    assert_true(last > pair.b.wall);                /* it was needed */
    int64_t later = ENQUEUE(&pair.b, "due at=500"); /* by b's clock not yet */
    assert_int_equal(rig_state(&pair.b, later), 'S');
    pair.b.wall -= 3600000; /* a clock that was wrong before is believed, not followed into the future */
    assert_true(rig_task(&pair.b, ENQUEUE(&pair.b, "y")).created < last - 3000000);
    pair_close(&pair);
}

/* A batch of a resumed lane's tasks is let go on by a, which is gone then: b goes on with the rest. */
static void test_a_resumed_lane_is_emptied_by_another_server(void **state)
{
    struct pair pair;
    (void)state;
    pair_open_batched(&pair, 2);
    ENQUEUE(&pair.a, "first");
    rig_pause(&pair.a, "default", true);
    int64_t id = ENQUEUE(&pair.a, "1", "2", "3", "4", "5");
    assert_string_equal(rig_states(&pair.a, id, 5), "SSSSS");
    rig_turn(&pair.b, NULL, 0);
    rig_pause(&pair.a, "default", false);
    for (int i = 0; i < 3; i++)
        rig_turn(&pair.b, NULL, 0);
    assert_string_equal(rig_states(&pair.b, id, 5), "PPPPP");
    pair_close(&pair);
}

/* b finishes the holder and sends the first of a paused lane's waiters away; then it is gone. a, which has the timers,
 * goes on. */
static void test_waiters_that_a_lost_server_has_left_are_looked_at(void **state)
{
    struct pair pair;
    (void)state;
    pair_open_batched(&pair, 2);
    rig_turn(&pair.a, NULL, 0);
    int64_t e = rig_executor(&pair.b, "e", NULL);
    int64_t id = ENQUEUE(
        &pair.b, "h sem=s", "1 queue=q sem=s", "2 queue=q sem=s", "3 queue=q sem=s", "4 queue=q sem=s", "last sem=s");
    rig_pause(&pair.b, "q", true);
    rig_order(&pair.b, CMD_CANCEL, id);
    assert_string_equal(rig_states(&pair.b, id, 6), "TSSSSS");
    for (int i = 0; i < 6; i++)
        rig_pass(&pair.a, 1000), rig_poll(&pair.a, e, 0);
    assert_string_equal(rig_states(&pair.a, id, 6), "TSSSSP");
    pair_close(&pair);
}

/* a has the schedules; b opens the revision that has one, by giving up the gap before it. */
static void test_a_schedule_behind_a_gap_is_known_to_who_fires_it(void **state)
{
    struct pair pair;
    int64_t id = 0, run;
    struct err err = { 0 };
    (void)state;
    pair_open(&pair);
    rig_turn(&pair.a, NULL, 0);
    struct command *add = rig_new(&pair.a, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("docs");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    assert_int_equal(rig_one(&pair.a, add)->err.code, ERR_none);
    struct definition_file file = { STR("_workflows/w.yaml"),
        STR("- {name: nightly, schedule: '* * * * *', command: 'true'}\n") };
    struct command *posted = rig_new(&pair.a, CMD_REVISION), *skip = rig_new(&pair.b, CMD_ARCHIVE_SKIP);
    posted->in.revision.archive = STR("docs");
    posted->in.revision.row = (struct revision){ .rev = 2, .author = STR("ann"), .message = STR("work") };
    posted->in.revision.definition = definition_read(&file, 1, STR(""));
    assert_int_equal(rig_one(&pair.a, posted)->err.code, ERR_none);
    definition_release(posted->in.revision.definition);
    skip->in.archive.name = STR("docs");
    skip->in.archive.rev = 1;
    assert_int_equal(rig_one(&pair.b, skip)->err.code, ERR_none);
    rig_turn(&pair.a, NULL, 0);
    rig_pass(&pair.a, 61000);
    struct store *store = pair.a.store;
    int64_t lane = add->out.archive.archive.lane;
    assert_true(store->ops->task_find(store, lane, 2, STR("nightly"), STR(""), -1, &id, &run, &err));
    assert_true(id > 0);
    pair_close(&pair);
}

/* The executor was started anew without its records, and told b so: what it doesn't name to a may have begun, and
 * counts. */
static void test_a_job_forgotten_elsewhere_counts(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int64_t e = rig_executor(&pair.a, "e", NULL), id = ENQUEUE(&pair.a, "t attempts=3");
    rig_granted(rig_one(&pair.a, rig_poll_command(&pair.a, e, 1, 7, NULL, 0)));
    assert_int_equal(rig_executor(&pair.b, "e", NULL), e);
    rig_one(&pair.a, rig_poll_command(&pair.a, e, 0, 8, NULL, 0));
    assert_int_equal(rig_task(&pair.a, id).attempts, 1);
    pair_close(&pair);
}

/* Its lease had lapsed and was renewed at a: the job has begun, also for b, which didn't hear that. */
static void test_a_lease_renewed_late_elsewhere_counts(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int64_t e = rig_executor(&pair.a, "e", NULL), id = ENQUEUE(&pair.a, "t attempts=3");
    struct fence t = rig_granted(rig_one(&pair.a, rig_poll_command(&pair.a, e, 1, 7, NULL, 0)));
    rig_pass(&pair.a, 20000);
    assert_int_equal(rig_state(&pair.a, id), 'P');
    rig_one(&pair.a, rig_poll_command(&pair.a, e, 0, 8, &t, 1));
    assert_int_equal(rig_state(&pair.a, id), 'X');
    rig_one(&pair.b, rig_poll_command(&pair.b, e, 0, 9, NULL, 0));
    assert_int_equal(rig_task(&pair.b, id).attempts, 1);
    pair_close(&pair);
}

static void executor_set(struct rig *rig, int64_t executor, enum executor_state to)
{
    struct command *command = rig_new(rig, CMD_EXECUTOR_STATE);
    command->in.executor_state.executor = executor;
    command->in.executor_state.state = to;
    assert_int_equal(rig_one(rig, command)->err.code, ERR_none);
}

/* Its poll waits at b; a lets the executor go on: the task that is there goes to that poll. */
static void test_who_may_go_on_elsewhere_is_given_work(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int64_t e = rig_executor(&pair.b, "e", NULL);
    executor_set(&pair.a, e, EXECUTOR_PAUSED);
    int64_t id = ENQUEUE(&pair.a, "t");
    struct command *poll = rig_poll_command(&pair.b, e, 1, 7, NULL, 0);
    poll->in.poll.wait_ms = 1000;
    rig_turn(&pair.b, &poll, 1);
    rig_turn(&pair.b, NULL, 0);
    assert_false(poll->answered);
    executor_set(&pair.a, e, EXECUTOR_ACTIVE);
    rig_turn(&pair.b, NULL, 0);
    assert_int_equal(rig_granted(poll).task, id);
    pair_close(&pair);
}

static bool commit_unanswered(struct store *store, const struct changes *changes, struct err *err)
{
    assert_true(fault.real->commit(store, changes, err));
    return err_set(err, ERR_outcome_unknown, "as the test wants it");
}

static struct store_head head_of(struct rig *rig)
{
    struct store_head head;
    struct err err = { 0 };
    assert_true(rig->store->ops->load_head(rig->store, &head, &err));
    return head;
}

static uint64_t incarnation(struct rig *rig)
{
    return head_of(rig).incarnation;
}

static struct command *poll_from_later(struct rig *rig, int64_t executor)
{
    struct command *poll = rig_poll_command(rig, executor, 0, -1, NULL, 0);
    poll->in.poll.seen_seq = INT64_MAX / 2;
    poll->in.poll.seen_incarnation = incarnation(rig);
    return rig_one(rig, poll);
}

/* The store is an older copy, as an executor tells. That a new incarnation was taken is told by nobody, and yet it
 * isn't taken again. */
static void test_an_incarnation_of_unknown_outcome_is_taken_once(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int64_t e = rig_executor(&pair.a, "e", NULL);
    uint64_t before = incarnation(&pair.a);
    fault_plant(&pair.a, 0, 0, ERR_none);
    fault.ops.commit = commit_unanswered;
    assert_int_equal(poll_from_later(&pair.a, e)->err.code, ERR_outcome_unknown);
    fault_remove(&pair.a);
    uint64_t taken = incarnation(&pair.a);
    assert_true(taken != before);
    assert_int_equal(poll_from_later(&pair.a, e)->err.code, ERR_none);
    assert_true(incarnation(&pair.a) == taken);
    pair_close(&pair);
}

/* A copy takes the store's place that lacks the last commit, a's: b sees that and takes a new incarnation, with a
 * commit of the number that a's had. That is another one for a, though the number is the same. */
static void test_a_commit_of_another_incarnation_is_another_one(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    (void)ENQUEUE(&pair.a, "kept");
    rig_turn(&pair.b, NULL, 0);
    connections_end();
    database_do("CREATE DATABASE older", " TEMPLATE shared", "");
    (void)ENQUEUE(&pair.a, "lost");
    rig_turn(&pair.b, NULL, 0);
    connections_end();
    database_do("ALTER DATABASE shared", " RENAME TO newer", "");
    database_do("ALTER DATABASE older", " RENAME TO shared", "");
    uint64_t before = incarnation(&pair.b);
    int64_t known = pair.a.store->commit;
    rig_turn(&pair.b, NULL, 0);
    struct store_head taken = head_of(&pair.b);
    assert_true(taken.incarnation != before);
    assert_int_equal(taken.commit, known); /* what makes it hard to see */
    int64_t task = ENQUEUE(&pair.a, "after");
    assert_int_equal(
        rig_database_ask(pair.url, "SELECT first_seq FROM turn ORDER BY turn DESC LIMIT 1"), taken.seq + 1);
    assert_int_equal(rig_state(&pair.b, task), 'P');
    pair_close(&pair);
}

/* A standby that lacks what a committed last, a grant, is promoted. b, which hasn't seen that commit, is there first:
 * it gives out the same fence again, and commits more than a had seen. The numbers tell a nothing; the hash of the turn
 * that it saw last does. */
static void story_of_two_histories(bool within_a_turn)
{
    struct pair pair;
    pair_open(&pair);
    int64_t x = rig_executor(&pair.a, "x", NULL), y = rig_executor(&pair.a, "y", NULL);
    int64_t task = ENQUEUE(&pair.a, "t attempts=1");
    rig_turn(&pair.b, NULL, 0);
    connections_end();
    database_do("CREATE DATABASE older", " TEMPLATE shared", "");
    struct fence lost = rig_granted(rig_poll(&pair.a, x, 1));
    uint64_t before = incarnation(&pair.a);
    connections_end();
    database_do("ALTER DATABASE shared", " RENAME TO newer", "");
    database_do("ALTER DATABASE older", " RENAME TO shared", "");
    /* what a saw last is in the middle of this */
    if (within_a_turn)
        (void)ENQUEUE(&pair.b, "m", "n", "o", "p", "q", "r");
    struct fence given = rig_granted(rig_poll(&pair.b, y, 1));
    for (int i = 0; i < 4; i++)
        (void)ENQUEUE(&pair.b, "more");
    assert_true(given.task == lost.task && given.grant == lost.grant && given.incarnation == lost.incarnation);
    assert_true(head_of(&pair.b).commit > pair.a.store->commit);
    assert_int_equal(rig_finish(&pair.a, lost, 1, -1), ERR_stale_fence);
    assert_int_equal(rig_state(&pair.a, task), 'X');
    assert_true(incarnation(&pair.a) != before);
    uint64_t taken = incarnation(&pair.a);
    (void)ENQUEUE(&pair.b, "after");
    connections_end();
    (void)ENQUEUE(&pair.a, "and after"); /* the history is the same one now: nothing is taken anew */
    (void)ENQUEUE(&pair.b, "and after");
    assert_true(incarnation(&pair.a) == taken && incarnation(&pair.b) == taken);
    pair_close(&pair);
}

static void test_a_history_is_known_by_its_hash(void **state)
{
    (void)state;
    story_of_two_histories(false);
}

static void test_a_history_with_other_turns_is_another_one(void **state)
{
    (void)state;
    story_of_two_histories(true);
}

/* A standby that lacks what a committed last was promoted, and others have committed on, as many as a had seen: the
 * numbers don't tell. */
static void test_what_a_new_connection_leads_to_is_read_anew(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int64_t e = rig_executor(&pair.a, "e", NULL), task = ENQUEUE(&pair.a, "t queue=q");
    rig_turn(&pair.a, NULL, 0);
    rig_database_ask(pair.url, "UPDATE lane SET paused_since = 1 WHERE name = 'q'"); /* no commit of a server's */
    connections_end();
    assert_int_equal(rig_poll(&pair.a, e, 1)->out.poll.n_grants, 0);
    assert_int_equal(rig_state(&pair.a, task), 'S');
    pair_close(&pair);
}

/* The timers go to b, whose clock is a day ahead, and come back to a: the back-off that b began takes no day. */
static void test_a_back_off_begun_elsewhere_is_not_stretched(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    for (int i = 0; i < 2; i++)
        rig_turn(&pair.a, NULL, 0);
    assert_true(coord_holds(engine_coord(pair.a.engine), DUTY_timers));
    rig_turn(&pair.b, NULL, 0);
    rig_pass(&pair.b, 3000);
    assert_true(coord_holds(engine_coord(pair.b.engine), DUTY_timers));
    pair.b.wall += 86400000;
    int64_t e = rig_executor(&pair.b, "e", NULL), id = ENQUEUE(&pair.b, "t");
    assert_int_equal(rig_finish(&pair.b, rig_granted(rig_poll(&pair.b, e, 1)), 111, -1), ERR_none);
    assert_int_equal(rig_state(&pair.b, id), 'S');
    rig_turn(&pair.a, NULL, 0);
    rig_pass(&pair.a, 3000);
    assert_true(coord_holds(engine_coord(pair.a.engine), DUTY_timers));
    rig_pass(&pair.a, 7000);
    assert_int_equal(rig_state(&pair.a, id), 'P');
    pair_close(&pair);
}

/* b hears the executor register, and a moment later that a hears it too: that counts for what a granted, whose lease is
 * about to lapse. */
static void test_who_has_just_registered_is_heard_elsewhere_too(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    int64_t e = rig_executor(&pair.a, "e", NULL), id = ENQUEUE(&pair.a, "t");
    struct fence t = rig_granted(rig_poll(&pair.a, e, 1));
    rig_turn(&pair.b, NULL, 0);
    rig_pass(&pair.b, 2900);
    assert_int_equal(rig_executor(&pair.b, "e", NULL), e);
    rig_one(&pair.a, rig_poll_command(&pair.a, e, 0, -1, &t, 1));
    rig_pass(&pair.a, 1100); /* says whom it hears once a second */
    rig_turn(&pair.b, NULL, 0);
    rig_pass(&pair.b, 1000);
    assert_int_equal(rig_state(&pair.b, id), 'X');
    pair_close(&pair);
}

/* Its row would say for ever that it is there, and whoever begins later believes it for a while. */
static void test_who_never_came_back_is_lost_in_its_row_too(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    rig_executor(&pair.a, "e", NULL);
    rig_restart(&pair.a);
    rig_pass(&pair.a, 2000);
    assert_int_equal(rig_database_ask(pair.url, "SELECT state FROM executor"), EXECUTOR_ACTIVE);
    rig_pass(&pair.a, 2000);
    assert_int_equal(rig_database_ask(pair.url, "SELECT state FROM executor"), EXECUTOR_LOST);
    pair_close(&pair);
}

/* 2 is let go on by a, right after another's time came there; 3 by b. None of that is an event, and yet they have an
 * order. */
static void test_waiters_keep_their_order_over_two_servers(void **state)
{
    static const int64_t order[] = { 1, 4, 2, 3 };
    struct pair pair;
    (void)state;
    pair_open_batched(&pair, 1);
    int64_t e = rig_executor(&pair.a, "e", NULL), id = ENQUEUE(&pair.a, "holder queue=p sem=s");
    struct fence has = rig_granted(rig_poll(&pair.a, e, 1));
    rig_pause(&pair.a, "p", true);
    ENQUEUE(&pair.a, "1 queue=p sem=s", "2 queue=p sem=s", "3 queue=p sem=s", "timed sem=s at=1000");
    rig_pause(&pair.a, "p", false); /* 1 waits for the slot */
    pair.a.wall += 1000;
    rig_turn(&pair.a, NULL, 0);
    rig_turn(&pair.b, NULL, 0);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        assert_int_equal(rig_finish(&pair.a, has, 0, -1), ERR_none);
        has = rig_granted(rig_poll(&pair.a, e, 1));
        assert_int_equal(has.task - id, order[i]);
    }
    pair_close(&pair);
}

/* a has known the key's slot as empty for nearly two leases when b uses it and c empties it. a follows both at once: it
 * must not remove the row before b has seen it empty, or the key is taken for ever at b. */
static void test_a_slot_emptied_elsewhere_is_not_removed_at_once(void **state)
{
    struct pair pair;
    struct rig c = { .name = "c" };
    (void)state;
    pair_open(&pair);
    rig_join(&c, &pair.a);
    struct rig *rigs[] = { &pair.a, &pair.b, &c };
    int64_t e = rig_executor(&pair.a, "e", NULL);
    rig_order(&pair.a, CMD_CANCEL, ENQUEUE(&pair.a, "first conc=k"));
    for (int i = 0; i < 11; i++) { /* a lease is 3 s */
        for (size_t k = 0; k < 3; k++)
            rig_pass(rigs[k], 500);
        rig_poll(&pair.a, e, 0);
    }
    assert_int_equal(rig_database_ask(pair.url, "SELECT count(*) FROM slot"), 1);
    int64_t task = ENQUEUE(&pair.b, "second conc=k");
    assert_int_equal(rig_state(&pair.b, task), 'P');
    assert_int_equal(rig_order(&c, CMD_CANCEL, task), ERR_none);
    rig_pass(&pair.a, 1000);
    assert_int_equal(rig_state(&pair.b, ENQUEUE(&pair.b, "third conc=k")), 'P');
    rig_close(&c);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_turn_forgets_nothing_of_the_others),
        cmocka_unit_test(test_a_lock_is_waited_for_once),
        cmocka_unit_test(test_a_server_whose_turns_fail_says_so),
        cmocka_unit_test(test_a_server_alone_whose_turns_fail_says_so),
        cmocka_unit_test(test_small_tables_read_anew_take_no_memory),
        cmocka_unit_test(test_what_is_committed_is_not_done_again),
        cmocka_unit_test(test_times_never_step_back),
        cmocka_unit_test(test_a_resumed_lane_is_emptied_by_another_server),
        cmocka_unit_test(test_waiters_that_a_lost_server_has_left_are_looked_at),
        cmocka_unit_test(test_a_schedule_behind_a_gap_is_known_to_who_fires_it),
        cmocka_unit_test(test_a_job_forgotten_elsewhere_counts),
        cmocka_unit_test(test_a_lease_renewed_late_elsewhere_counts),
        cmocka_unit_test(test_who_may_go_on_elsewhere_is_given_work),
        cmocka_unit_test(test_an_incarnation_of_unknown_outcome_is_taken_once),
        cmocka_unit_test(test_a_commit_of_another_incarnation_is_another_one),
        cmocka_unit_test(test_a_history_is_known_by_its_hash),
        cmocka_unit_test(test_a_history_with_other_turns_is_another_one),
        cmocka_unit_test(test_what_a_new_connection_leads_to_is_read_anew),
        cmocka_unit_test(test_a_back_off_begun_elsewhere_is_not_stretched),
        cmocka_unit_test(test_who_has_just_registered_is_heard_elsewhere_too),
        cmocka_unit_test(test_who_never_came_back_is_lost_in_its_row_too),
        cmocka_unit_test(test_waiters_keep_their_order_over_two_servers),
        cmocka_unit_test(test_a_slot_emptied_elsewhere_is_not_removed_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
