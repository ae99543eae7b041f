/* Rules of edges and policies (locks, unique, cancels, paths, PREV, promote), each as the shortest story that broke it
 * once. States are read from the store: what is checked is what was committed. */
#include <stdio.h>
#include <string.h>

#include "engine/definition.h"
#include "rig.h"

#define TALE(t) \
    __attribute__((cleanup(tale_close))) struct tale t = { 0 }; \
    tale_open(&t)
#define RUNS " command: 'true'}\n"

struct tale { /* an external archive, one executor, and all that it was granted */
    struct rig rig;
    int64_t lane, executor;
    struct fence fences[64];
    size_t n_fences;
};

static void tale_open(struct tale *t)
{
    rig_open(&t->rig);
    struct command *add = rig_new(&t->rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("docs");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    t->lane = rig_one(&t->rig, add)->out.archive.archive.lane;
    t->executor = rig_executor(&t->rig, "e", NULL);
}

static void tale_close(struct tale *t)
{
    rig_close(&t->rig);
}

static void post_touched(struct tale *t, int64_t rev, const char *yaml, const bool *touched)
{
    struct command *command = rig_new(&t->rig, CMD_REVISION);
    command->in.revision.archive = STR("docs");
    command->in.revision.row = (struct revision){ .rev = rev, .author = STR("ann"), .message = STR("work") };
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(yaml) };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    command->in.revision.touched = touched;
    assert_true(command->in.revision.definition->valid);
    rig_one(&t->rig, command);
    definition_release(command->in.revision.definition);
    assert_int_equal(command->status, 202);
}

static void post(struct tale *t, int64_t rev, const char *yaml)
{
    post_touched(t, rev, yaml, NULL);
}

static int64_t id_of(struct tale *t, int64_t rev, const char *name) /* 0: there is none */
{
    int64_t id = 0, run;
    struct err err = { 0 };
    assert_true(t->rig.store->ops->task_find(t->rig.store, t->lane, rev, str_of(name), STR(""), 0, &id, &run, &err));
    return id;
}

/* "1:a=X 2:b=- ...": '-': there is none; a small x: it executes and is to end. */
static void expect(struct tale *t, const char *what)
{
    char text[300];
    snprintf(text, sizeof text, "%s", what);
    for (char *at, *word = strtok_r(text, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        char *letter = strchr(word, '='), *name = strchr(word, ':');
        *letter++ = *name++ = '\0';
        int64_t id = id_of(t, word[0] - '0', name);
        char is = id ? rig_state(&t->rig, id) : '-';
        if (is == 'X' && rig_task(&t->rig, id).ending)
            is = 'x';
        if (is != *letter)
            fail_msg("revision %s: %s is %c, not %c", word, name, is, *letter);
    }
}

/* What is pending starts. */
static void start(struct tale *t)
{
    struct command *poll = rig_poll(&t->rig, t->executor, 9);
    for (size_t i = 0; i < poll->out.poll.n_grants; i++)
        t->fences[t->n_fences++] = poll->out.poll.grants[i].fence;
}

static void finish(struct tale *t, int64_t rev, const char *name, int64_t exit)
{
    int64_t id = id_of(t, rev, name);
    for (size_t i = t->n_fences; i-- > 0;) {
        if (t->fences[i].task != id)
            continue;
        assert_int_equal(rig_finish(&t->rig, t->fences[i], exit, -1), ERR_none);
        return;
    }
    fail_msg("%s of revision %d wasn't granted", name, (int)rev);
}

static void cancel(struct tale *t, int64_t rev, const char *name)
{
    assert_int_equal(rig_order(&t->rig, CMD_CANCEL, id_of(t, rev, name)), ERR_none);
}

static void retry(struct tale *t, int64_t rev, const char *name)
{
    assert_int_equal(rig_order(&t->rig, CMD_RETRY, id_of(t, rev, name)), ERR_none);
}

/* --- cancels --- */

static void test_cancels_fires_behind_the_archives_lock(void **state)
{
    (void)state;
    TALE(t);
    static const char pdf[] = "- {name: pdf, lock: exclusive, cancels: [PREV]," RUNS;
    post(&t, 1, pdf);
    start(&t);
    post(&t, 2, pdf);
    expect(&t, "1:pdf=x 2:pdf=S");
    post(&t, 3, pdf); /* against one that only waits */
    expect(&t, "1:pdf=x 2:pdf=A 3:pdf=S");
    finish(&t, 1, "pdf", 0);
    expect(&t, "1:pdf=A 2:pdf=A 3:pdf=P");
}

static void test_cancels_behind_the_lock_waits_for_all_else(void **state)
{
    (void)state;
    TALE(t);
    static const char flow[] =
        "- {name: a, lock: shared," RUNS "- {name: pdf, depends: [a], lock: exclusive, cancels: [PREV]," RUNS;
    post(&t, 1, flow);
    start(&t);
    finish(&t, 1, "a", 0);
    start(&t);
    expect(&t, "1:pdf=X");
    post(&t, 2, "- {name: a," RUNS "- {name: pdf, depends: [a], lock: exclusive, cancels: [PREV]," RUNS);
    expect(&t, "1:pdf=X 2:a=P 2:pdf=S"); /* what it depends on isn't done */
    rig_pause(&t.rig, "docs", true);
    start(&t); /* parks */
    rig_pause(&t.rig, "docs", false);
    start(&t);
    rig_pause(&t.rig, "docs", true);
    finish(&t, 2, "a", 0);
    expect(&t, "1:pdf=X 2:pdf=S"); /* nor is it ready while its archive is paused */
    rig_pause(&t.rig, "docs", false);
    expect(&t, "1:pdf=x 2:pdf=S");
}

static const char chain[] = "- {name: a, cancels: [PREV]," RUNS "- {name: b, depends: [a], cancels: [PREV]," RUNS;

static void test_cancels_goes_on_through_an_abandoned_revision(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, chain);
    start(&t);
    finish(&t, 1, "a", 0);
    start(&t);
    post(&t, 2, chain);
    post(&t, 3, chain);
    expect(&t, "1:b=X 2:a=A 2:b=A 3:a=P 3:b=S");
    start(&t);
    finish(&t, 3, "a", 0);
    expect(&t, "1:b=x 3:b=S");
}

static void test_cancels_goes_on_through_an_end_before_the_next_revision(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, chain);
    start(&t);
    finish(&t, 1, "a", 0);
    start(&t);
    post(&t, 2, chain);
    start(&t);
    finish(&t, 2, "a", 1);
    expect(&t, "1:b=X 2:a=F 2:b=F");
    post(&t, 3, chain); /* 2:b had ended by then */
    start(&t);
    cancel(&t, 3, "b");
    post(&t, 4, chain); /* and 3:b, which a person stopped */
    start(&t);
    expect(&t, "1:b=X 3:a=x 3:b=T 4:b=S");
    finish(&t, 3, "a", 0);
    start(&t);
    finish(&t, 4, "a", 0);
    expect(&t, "1:b=x 4:b=S");
}

static void test_cancels_goes_on_through_those_stopped_from_the_end(void **state)
{
    (void)state;
    TALE(t);
    static const char flow[] = "- {name: a," RUNS "- {name: b, depends: [a], cancels: [PREV]," RUNS;
    post(&t, 1, flow);
    start(&t);
    finish(&t, 1, "a", 0);
    start(&t);
    for (int64_t rev = 2; rev <= 4; rev++)
        post(&t, rev, flow);
    for (int64_t rev = 4; rev >= 2; rev--)
        cancel(&t, rev, "b");
    post(&t, 5, flow);
    start(&t);
    expect(&t, "1:b=X 4:b=T 5:b=S");
    finish(&t, 5, "a", 0);
    expect(&t, "1:b=x 5:b=S");
}

/* Two tasks become ready in one turn and cancel the same waiting task. Both wait for the task that it was to cancel. */
static void test_cancels_goes_on_to_all_who_cancel_a_task_at_once(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1,
        "- {name: r," RUNS "- {name: gate," RUNS "- {name: late," RUNS "- {name: m, depends: [late], cancels: [r]," RUNS
        "- {name: a, depends: [gate], cancels: [m]," RUNS "- {name: b, depends: [gate], cancels: [m]," RUNS);
    start(&t);
    finish(&t, 1, "gate", 0);
    expect(&t, "1:r=x 1:m=A 1:a=S 1:b=S");
    finish(&t, 1, "r", 0);
    expect(&t, "1:r=A 1:a=P 1:b=P");
}

/* --- the archive's lock --- */

static void test_shared_locks_never_wait_for_shared_ones(void **state)
{
    (void)state;
    TALE(t);
    static const char s[] = "- {name: s, lock: shared," RUNS, e[] = "- {name: e, lock: exclusive," RUNS;
    post(&t, 1, s);
    start(&t);
    post(&t, 2, e);
    post(&t, 3, s);
    expect(&t, "1:s=X 2:e=S 3:s=S");
    cancel(&t, 2, "e");
    expect(&t, "1:s=X 2:e=T 3:s=P");
    post(&t, 4, s); /* no exclusive task is left */
    expect(&t, "4:s=P");
    post(&t, 5, e);
    expect(&t, "5:e=S");
    start(&t);
    finish(&t, 3, "s", 0);
    finish(&t, 4, "s", 0);
    expect(&t, "5:e=S"); /* still behind 1:s, which the stopped one stood for */
    finish(&t, 1, "s", 0);
    expect(&t, "5:e=P");
}

/* What a shared one before the stopped one waits for holds for those behind it, too. */
static void test_shared_locks_behind_a_stopped_one_wait_for_the_exclusive_before_it(void **state)
{
    (void)state;
    TALE(t);
    static const char s[] = "- {name: s, lock: shared," RUNS, e[] = "- {name: e, lock: exclusive," RUNS;
    post(&t, 1, e);
    start(&t);
    post(&t, 2, s);
    post(&t, 3, e);
    post(&t, 4, s);
    cancel(&t, 3, "e");
    expect(&t, "1:e=X 2:s=S 4:s=S");
    post(&t, 5, s);
    expect(&t, "5:s=S");
    finish(&t, 1, "e", 0);
    expect(&t, "2:s=P 4:s=P 5:s=P");
}

/* 5:e waits for 4:s, which needn't wait for 2:s any more; it needs its own edge then. */
static void test_an_exclusive_lock_behind_shared_ones_waits_for_those_before_a_stopped_one(void **state)
{
    (void)state;
    TALE(t);
    static const char s[] = "- {name: s, lock: shared," RUNS, e[] = "- {name: e, lock: exclusive," RUNS;
    post(&t, 1, s);
    start(&t);
    post(&t, 2, e);
    post(&t, 3, s);
    post(&t, 4, e);
    cancel(&t, 2, "e");
    start(&t);
    finish(&t, 3, "s", 0);
    expect(&t, "1:s=X 3:s=D 4:e=S");
    finish(&t, 1, "s", 0);
    expect(&t, "4:e=P");
}

static void test_an_exclusive_lock_stopped_behind_a_gap_opens_it_for_nobody(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, "- {name: s, lock: shared," RUNS);
    start(&t);
    post(&t, 3,
        "- {name: e, lock: exclusive," RUNS "- {name: s, lock: shared, depends: [{task: e, on: finished}]," RUNS
        "- {name: last, lock: exclusive, depends: [s]," RUNS);
    cancel(&t, 3, "e");
    post(&t, 2, "[]");
    expect(&t, "3:e=T 3:s=P 3:last=S");
    start(&t);
    finish(&t, 3, "s", 0);
    expect(&t, "1:s=X 3:last=S");
}

static void test_locks_go_on_behind_a_task_that_isnt_made(void **state)
{
    (void)state;
    TALE(t);
    static const char flow[] =
        "- {name: a, lock: exclusive," RUNS "- {name: d, lock: exclusive, unique: '{archive}/d'," RUNS;
    post(&t, 1, flow);
    start(&t);
    post(&t, 2, flow);
    post(&t, 3, "- {name: e, lock: exclusive," RUNS);
    expect(&t, "1:a=X 1:d=S 2:a=S 2:d=- 3:e=S");
    finish(&t, 1, "a", 0);
    start(&t);
    expect(&t, "1:d=X");
    finish(&t, 1, "d", 0);
    expect(&t, "2:a=P 3:e=S");
    start(&t);
    finish(&t, 2, "a", 0);
    expect(&t, "3:e=P");
}

static const char through[] = "- {name: f, after: ['PREV:a']," RUNS "- {name: a, lock: shared, depends: [f]," RUNS;

static void test_a_retried_task_keeps_its_lock_when_the_way_to_it_is_cut(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, "- {name: a, lock: shared," RUNS);
    cancel(&t, 1, "a");
    post(&t, 2, through);
    post(&t, 3, "- {name: d, lock: exclusive," RUNS);
    post(&t, 4, "- {name: d, lock: exclusive," RUNS); /* the end of the queue; what matters is the one in its middle */
    retry(&t, 1, "a");
    start(&t);
    expect(&t, "1:a=X 2:f=S 2:a=S 3:d=S 4:d=S");
    cancel(&t, 2, "f");
    expect(&t, "2:f=T 2:a=F 3:d=S 4:d=S");
    finish(&t, 1, "a", 0);
    expect(&t, "3:d=P 4:d=S");
}

static void test_a_retried_task_keeps_its_lock_when_its_waiter_is_stopped(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, "- {name: a, lock: shared," RUNS);
    cancel(&t, 1, "a");
    post(&t, 2, through);
    post(&t, 3, "- {name: d, lock: exclusive," RUNS);
    retry(&t, 1, "a");
    start(&t);
    cancel(&t, 2, "a");
    expect(&t, "1:a=X 2:a=T 3:d=S");
}

#define ALONE_IN_A_ROW \
    "- {name: a, lock: exclusive, retry: {attempts: 1}, depends: [{task: PREV, on: success}]," RUNS
#define ALONE "- {name: w, lock: exclusive," RUNS

/* A retry takes along a chain of tasks that have the lock alone: they queue behind who has it now, one after the other,
 * and who comes later is behind the last of them. */
static void test_a_chain_that_is_taken_along_queues_for_the_lock(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, ALONE_IN_A_ROW);
    start(&t);
    for (int64_t rev = 2; rev <= 4; rev++)
        post(&t, rev, ALONE_IN_A_ROW);
    finish(&t, 1, "a", 1);
    expect(&t, "1:a=F 2:a=F 3:a=F 4:a=F");
    post(&t, 5, ALONE);
    start(&t);
    retry(&t, 1, "a");
    post(&t, 6, ALONE);
    expect(&t, "5:w=X 1:a=S 2:a=S 3:a=S 4:a=S 6:w=S");
    finish(&t, 5, "w", 0);
    for (int64_t rev = 1; rev <= 4; rev++) {
        assert_int_equal(rig_state(&t.rig, id_of(&t, rev, "a")), 'P');
        expect(&t, "6:w=S");
        start(&t);
        finish(&t, rev, "a", 0);
    }
    expect(&t, "6:w=P");
}

/* The same by a late result: the task that it is of has no place in the queue, so the next one finds its own. */
static void test_a_chain_behind_a_late_result_queues_for_the_lock(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, ALONE_IN_A_ROW);
    start(&t);
    for (int64_t rev = 2; rev <= 3; rev++)
        post(&t, rev, ALONE_IN_A_ROW);
    rig_pass(&t.rig, 3100);
    expect(&t, "1:a=F 2:a=F 3:a=F");
    post(&t, 4, ALONE);
    start(&t);
    finish(&t, 1, "a", 0);
    expect(&t, "1:a=D 2:a=S 3:a=S 4:w=X");
    finish(&t, 4, "w", 0);
    expect(&t, "2:a=P 3:a=S");
}

/* Two shared locks behind each exclusive one: the ways from the last to the first double with each revision. */
static void test_a_retry_behind_many_shared_locks_closes_no_circle(void **state)
{
    (void)state;
    TALE(t);
    static const char flow[] =
        "- {name: r, lock: shared," RUNS "- {name: s, lock: shared," RUNS "- {name: e, lock: exclusive," RUNS;
    enum { REVS = 20 };
    for (int64_t rev = 1; rev <= REVS; rev++)
        post(&t, rev, flow);
    cancel(&t, REVS - 1, "s");
    retry(&t, REVS - 1, "s");
    size_t ended = 0;
    for (start(&t); ended < t.n_fences; start(&t))
        for (; ended < t.n_fences; ended++)
            assert_int_equal(rig_finish(&t.rig, t.fences[ended], 0, -1), ERR_none);
    assert_int_equal(ended, REVS * 3);
}

/* --- unique --- */

static const char ring[] = "- {name: a, depends: ['PREV:c']," RUNS
                           "- {name: b, depends: [a], unique: '{archive}/b'," RUNS "- {name: c, depends: [b]," RUNS;

static void test_keys_are_taken_in_the_order_of_revisions(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 2, ring);
    expect(&t, "2:a=Q 2:b=- 2:c=Q");
    post(&t, 1, ring);
    expect(&t, "1:a=P 1:b=S 1:c=S 2:a=S 2:b=- 2:c=S");
    start(&t);
    finish(&t, 1, "a", 0);
    start(&t);
    finish(&t, 1, "b", 0);
    start(&t);
    finish(&t, 1, "c", 0);
    start(&t); /* 2:c depended on 1:b, which stood for 2:b */
    expect(&t, "2:a=X 2:c=X");
}

static void test_a_task_waits_for_its_commit_behind_anothers_key(void **state)
{
    (void)state;
    TALE(t);
    static const char flow[] = "- {name: a, unique: '{archive}/a'," RUNS "- {name: b, depends: [a]," RUNS
                               "- {name: slow, priority: 9," RUNS "- {name: COMMIT, depends: ['PREV:slow']}\n";
    post(&t, 1, flow);
    struct command *poll = rig_poll(&t.rig, t.executor, 1);
    t.fences[t.n_fences++] = poll->out.poll.grants[0].fence;
    post(&t, 2, flow);
    expect(&t, "1:slow=X 1:a=P 2:COMMIT=S 2:a=- 2:b=S");
    start(&t);
    finish(&t, 1, "a", 0);
    expect(&t, "2:COMMIT=S 2:b=S");
    finish(&t, 1, "slow", 0);
    expect(&t, "2:COMMIT=D 2:b=P");
}

/* Two tasks of one workflow with one key are one task; who depends on the other must not close a circle by it. */
static void test_two_tasks_with_one_key_close_no_circle(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1,
        "- {name: a, depends: [c], unique: '{archive}'," RUNS "- {name: b, unique: '{archive}'," RUNS
        "- {name: c, depends: [b]," RUNS);
    expect(&t, "1:a=S 1:b=- 1:c=P");
}

static void test_a_run_of_a_task_whose_key_is_taken_is_that_task(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1,
        "- {name: a, unique: '{archive}/a', lock: exclusive," RUNS "- {name: b, depends: [a], lock: exclusive," RUNS);
    struct command *run = rig_new(&t.rig, CMD_RUN);
    run->in.run.archive = STR("docs");
    run->in.run.task = STR("a");
    rig_one(&t.rig, run);
    assert_int_equal(run->status, 200);
    assert_int_equal(run->out.run.task, id_of(&t, 1, "a"));
    start(&t);
    expect(&t, "1:a=X 1:b=S");
}

/* --- paths --- */

static void test_what_a_revision_behind_a_gap_touched_is_known(void **state)
{
    (void)state;
    TALE(t);
    static const char docs[] =
        "- {name: docs, paths: ['docs/**'], cancels: [PREV]," RUNS "- {name: u, paths: ['u'], unique: u," RUNS;
    static const bool none[2], all[2] = { true, true };
    post_touched(&t, 2, docs, none);
    rig_restart(&t.rig);
    t.executor = rig_executor(&t.rig, "e", NULL);
    post_touched(&t, 1, docs, all);
    expect(&t, "1:docs=P 1:u=P 2:docs=D 2:u=D");
    assert_int_equal(rig_task(&t.rig, id_of(&t, 2, "docs")).outcome, OUTCOME_skipped);
}

static void test_a_skipped_task_starts_nothing(void **state)
{
    (void)state;
    TALE(t);
    static const bool untouched[] = { true, false, true };
    static const char flow[] =
        "- {name: a," RUNS "- {name: p, depends: [a], paths: ['x'], lock: exclusive, semaphores: [one]," RUNS
        "- {name: e, lock: exclusive, depends: [a]," RUNS;
    post_touched(&t, 1, flow, untouched);
    start(&t);
    rig_pause(&t.rig, "docs", true);
    expect(&t, "1:a=X 1:p=S 1:e=S");
    finish(&t, 1, "a", 0);
    expect(&t, "1:p=D 1:e=S"); /* only what starts something waits for the pause */
}

/* --- PREV --- */

static const char index_[] = "- {name: index, depends: [PREV]," RUNS;

static void test_prev_goes_on_through_a_stopped_task(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, index_);
    start(&t);
    post(&t, 2, index_);
    post(&t, 3, index_);
    cancel(&t, 2, "index");
    expect(&t, "1:index=X 2:index=T 3:index=S");
    cancel(&t, 3, "index");
    post(&t, 4, index_); /* the one before it has left the queue already */
    expect(&t, "3:index=T 4:index=S");
    finish(&t, 1, "index", 1);
    expect(&t, "4:index=P");
}

/* All of them in one turn, whatever the order. */
static void test_prev_goes_on_through_those_that_end_at_once(void **state)
{
    (void)state;
    TALE(t);
    static const char flow[] = "- {name: gate," RUNS "- {name: index, depends: [PREV, gate]," RUNS;
    for (int64_t rev = 1; rev <= 4; rev++)
        post(&t, rev, flow);
    start(&t);
    finish(&t, 1, "gate", 0);
    start(&t);
    struct command *both[2] = { rig_new(&t.rig, CMD_CANCEL), rig_new(&t.rig, CMD_CANCEL) };
    both[0]->in.task.task = id_of(&t, 3, "index");
    both[1]->in.task.task = id_of(&t, 2, "index");
    rig_turn(&t.rig, both, 2);
    finish(&t, 4, "gate", 0);
    expect(&t, "1:index=X 2:index=T 3:index=T 4:index=S");
}

/* The later one first, in turns of their own: nobody was left to hand anything to when the earlier one was stopped. */
static void test_prev_goes_on_through_those_stopped_from_the_end(void **state)
{
    (void)state;
    TALE(t);
    post(&t, 1, index_);
    start(&t);
    for (int64_t rev = 2; rev <= 4; rev++)
        post(&t, rev, index_);
    for (int64_t rev = 4; rev >= 2; rev--)
        cancel(&t, rev, "index");
    post(&t, 5, index_);
    cancel(&t, 5, "index");
    post(&t, 6, index_);
    expect(&t, "1:index=X 4:index=T 5:index=T 6:index=S");
    finish(&t, 1, "index", 0);
    expect(&t, "6:index=P");
}

static void test_prev_of_a_task_that_the_workflow_doesnt_have(void **state)
{
    (void)state;
    TALE(t);
    static const char gone[] = "- {name: b, depends: ['PREV:old'], cancels: ['PREV:older']," RUNS;
    post(&t, 1, gone);
    expect(&t, "1:b=P"); /* no earlier task of that name */
    start(&t);
    post(&t, 2, "- {name: old," RUNS "- {name: older," RUNS);
    start(&t);
    post(&t, 3, gone);
    expect(&t, "2:old=X 2:older=X 3:b=S");
    finish(&t, 2, "old", 1);
    expect(&t, "2:older=x 3:b=S");
    finish(&t, 2, "older", 0);
    expect(&t, "3:b=P");
}

/* --- retries --- */

static void test_a_lost_task_waits_for_what_was_retried_meanwhile(void **state)
{
    (void)state;
    TALE(t);
    int64_t a = ENQUEUE(&t.rig, "a"), b = ENQUEUE(&t.rig, "b after=#1");
    start(&t);
    rig_finish(&t.rig, t.fences[0], 1, -1);
    start(&t);
    assert_string_equal(rig_states(&t.rig, a, 2), "FX");
    assert_int_equal(rig_order(&t.rig, CMD_RETRY, a), ERR_none);
    assert_int_equal(rig_finish(&t.rig, t.fences[1], -1, 9), ERR_none); /* killed: tried again */
    assert_string_equal(rig_states(&t.rig, a, 2), "PS");
    rig_pass(&t.rig, 60000);
    assert_int_equal(rig_state(&t.rig, b), 'S');
}

static void test_a_retried_task_runs_beside_its_superseder(void **state)
{
    (void)state;
    TALE(t);
    static const char b[] = "- {name: b, cancels: [PREV]," RUNS;
    post(&t, 1, b);
    post(&t, 2, b);
    expect(&t, "1:b=A 2:b=P");
    start(&t);
    retry(&t, 1, "b");
    start(&t);
    expect(&t, "1:b=X 2:b=X");
}

/* It waited for the older one by the lock and by its death: the retry is waited for once. */
static void test_a_superseder_behind_the_lock_counts_a_retry_once(void **state)
{
    (void)state;
    TALE(t);
    static const char b[] = "- {name: b, lock: exclusive, cancels: [PREV]," RUNS;
    post(&t, 1, b);
    start(&t);
    post(&t, 2, b);
    rig_pause(&t.rig, "docs", true);
    finish(&t, 1, "b", 0);
    retry(&t, 1, "b");
    rig_pause(&t.rig, "docs", false);
    start(&t);
    expect(&t, "1:b=X 2:b=S");
    finish(&t, 1, "b", 0);
    expect(&t, "1:b=D 2:b=P");
}

/* --- promote --- */

static void promotes(bool pause_first)
{
    struct rig rig = { 0 };
    rig_open(&rig);
    int64_t e = rig_executor(&rig, "e", NULL), first = ENQUEUE(&rig, "a", "b", "c");
    if (pause_first)
        rig_pause(&rig, "default", true);
    assert_int_equal(rig_order(&rig, CMD_PROMOTE, first + 2), ERR_none);
    if (!pause_first)
        rig_pause(&rig, "default", true);
    assert_int_equal(rig_poll(&rig, e, 1)->out.poll.n_grants, 0);
    assert_string_equal(rig_states(&rig, first, 3), "SSS");
    rig_restart(&rig);
    e = rig_executor(&rig, "e", NULL);
    rig_pause(&rig, "default", false);
    struct command *poll = rig_poll(&rig, e, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].task.id, first + 2);
    rig_close(&rig);
}

static void test_a_promotion_survives_a_pause(void **state)
{
    (void)state;
    promotes(true);
    promotes(false);
}

/* The order of revisions goes through one that was stopped before it began. */
static void test_a_retry_does_not_go_past_what_came_after_a_stopped_one(void **state)
{
    (void)state;
    TALE(t);
    static const char index[] = "- {name: index, after: [PREV]," RUNS;
    for (int64_t rev = 1; rev <= 4; rev++)
        post(&t, rev, index);
    start(&t);
    finish(&t, 1, "index", 1);
    cancel(&t, 2, "index"); /* it waited for nothing any more, so it leaves nothing to those behind it */
    cancel(&t, 3, "index");
    start(&t);
    expect(&t, "1:index=F 2:index=T 3:index=T 4:index=X");
    assert_int_equal(rig_order(&t.rig, CMD_RETRY, id_of(&t, 1, "index")), ERR_order_passed);
    assert_int_equal(rig_order(&t.rig, CMD_RETRY, id_of(&t, 2, "index")), ERR_order_passed);
    finish(&t, 4, "index", 0);
    assert_int_equal(rig_order(&t.rig, CMD_RETRY, id_of(&t, 1, "index")), ERR_order_passed);
    expect(&t, "1:index=F 2:index=T 3:index=T 4:index=D");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancels_fires_behind_the_archives_lock),
        cmocka_unit_test(test_cancels_behind_the_lock_waits_for_all_else),
        cmocka_unit_test(test_cancels_goes_on_through_an_abandoned_revision),
        cmocka_unit_test(test_cancels_goes_on_through_an_end_before_the_next_revision),
        cmocka_unit_test(test_cancels_goes_on_through_those_stopped_from_the_end),
        cmocka_unit_test(test_cancels_goes_on_to_all_who_cancel_a_task_at_once),
        cmocka_unit_test(test_shared_locks_never_wait_for_shared_ones),
        cmocka_unit_test(test_shared_locks_behind_a_stopped_one_wait_for_the_exclusive_before_it),
        cmocka_unit_test(test_an_exclusive_lock_behind_shared_ones_waits_for_those_before_a_stopped_one),
        cmocka_unit_test(test_an_exclusive_lock_stopped_behind_a_gap_opens_it_for_nobody),
        cmocka_unit_test(test_locks_go_on_behind_a_task_that_isnt_made),
        cmocka_unit_test(test_a_chain_that_is_taken_along_queues_for_the_lock),
        cmocka_unit_test(test_a_chain_behind_a_late_result_queues_for_the_lock),
        cmocka_unit_test(test_a_retry_behind_many_shared_locks_closes_no_circle),
        cmocka_unit_test(test_a_retried_task_keeps_its_lock_when_the_way_to_it_is_cut),
        cmocka_unit_test(test_a_retried_task_keeps_its_lock_when_its_waiter_is_stopped),
        cmocka_unit_test(test_keys_are_taken_in_the_order_of_revisions),
        cmocka_unit_test(test_a_task_waits_for_its_commit_behind_anothers_key),
        cmocka_unit_test(test_two_tasks_with_one_key_close_no_circle),
        cmocka_unit_test(test_a_run_of_a_task_whose_key_is_taken_is_that_task),
        cmocka_unit_test(test_what_a_revision_behind_a_gap_touched_is_known),
        cmocka_unit_test(test_a_skipped_task_starts_nothing),
        cmocka_unit_test(test_prev_goes_on_through_a_stopped_task),
        cmocka_unit_test(test_prev_goes_on_through_those_that_end_at_once),
        cmocka_unit_test(test_prev_goes_on_through_those_stopped_from_the_end),
        cmocka_unit_test(test_prev_of_a_task_that_the_workflow_doesnt_have),
        cmocka_unit_test(test_a_lost_task_waits_for_what_was_retried_meanwhile),
        cmocka_unit_test(test_a_retried_task_runs_beside_its_superseder),
        cmocka_unit_test(test_a_superseder_behind_the_lock_counts_a_retry_once),
        cmocka_unit_test(test_a_promotion_survives_a_pause),
        cmocka_unit_test(test_a_retry_does_not_go_past_what_came_after_a_stopped_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
