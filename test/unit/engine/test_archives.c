/* Archives, as short stories on virtual time: revisions in any order, what PREV means, locks, runs, schedules. States
 * are read from the store: what is checked is what was committed. */
#include <stdio.h>
#include <string.h>

#include "engine/definition.h"
#include "rig.h"

#define RIG(rig) \
    __attribute__((cleanup(rig_close))) struct rig rig = { 0 }; \
    rig_open(&rig)

static const char ark[] = "- name: indexing\n"
                          "  depends:\n"
                          "    - PREV\n"
                          "  command: 'true'\n"
                          "- name: build-PDF\n"
                          "  depends:\n"
                          "    - indexing\n"
                          "  cancels:\n"
                          "    - PREV\n"
                          "  command: 'true'\n";

static int64_t archive(struct rig *rig, const char *name)
{
    struct command *add = rig_new(rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = str_of(name);
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    rig_one(rig, add);
    assert_int_equal(add->err.code, ERR_none);
    return add->out.archive.archive.lane;
}

static struct command *revision_command(struct rig *rig, const char *name, int64_t rev, const char *yaml)
{
    struct command *command = rig_new(rig, CMD_REVISION);
    command->in.revision.archive = str_of(name);
    command->in.revision.row = (struct revision){ .rev = rev, .author = STR("ann"), .message = STR("work") };
    struct definition_file file = { STR("_workflows/w.yaml"), str_of(yaml ? yaml : "[]") };
    command->in.revision.definition = definition_read(&file, 1, STR(""));
    return command;
}

static int post(struct rig *rig, const char *name, int64_t rev, const char *yaml)
{
    struct command *command = rig_one(rig, revision_command(rig, name, rev, yaml));
    definition_release(command->in.revision.definition);
    return command->err.code ? -(int)command->err.code : command->status;
}

/* The letter of a task by its key; '-': there is none. */
static char state_of(struct rig *rig, int64_t lane, int64_t rev, const char *name, int64_t run)
{
    int64_t id = 0, found;
    struct err err = { 0 };
    assert_true(rig->store->ops->task_find(rig->store, lane, rev, str_of(name), STR(""), run, &id, &found, &err));
    return id ? rig_state(rig, id) : '-';
}

static int64_t id_of(struct rig *rig, int64_t lane, int64_t rev, const char *name)
{
    int64_t id = 0, found;
    struct err err = { 0 };
    assert_true(rig->store->ops->task_find(rig->store, lane, rev, str_of(name), STR(""), 0, &id, &found, &err));
    assert_true(id > 0);
    return id;
}

static void expect(struct rig *rig, int64_t lane, int64_t rev, const char *names_and_letters)
{
    char text[200];
    snprintf(text, sizeof text, "%s", names_and_letters);
    for (char *at, *word = strtok_r(text, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
        char *letter = strchr(word, '=');
        *letter++ = '\0';
        char is = state_of(rig, lane, rev, word, 0);
        if (is != *letter)
            fail_msg("revision %d: %s is %c, not %c", (int)rev, word, is, *letter);
    }
}

static struct fence granted_name(struct command *poll, const char *name, int64_t rev)
{
    for (size_t i = 0; i < poll->out.poll.n_grants; i++)
        if (str_eqz(poll->out.poll.grants[i].task.name, name) && poll->out.poll.grants[i].task.rev == rev)
            return poll->out.poll.grants[i].fence;
    fail_msg("%s of revision %d wasn't granted", name, (int)rev);
    return (struct fence){ 0 };
}

/* The document's own story: revision 3 is heard of before revision 2. */
static void test_the_documents_example(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    assert_int_equal(post(&rig, "docs", 1, NULL), 202);
    expect(&rig, lane, 1, "COMMIT=D");
    assert_int_equal(post(&rig, "docs", 3, ark), 202);
    expect(&rig, lane, 3, "COMMIT=Q indexing=Q build-PDF=Q");
    rig_restart(&rig);
    e = rig_executor(&rig, "e", NULL);
    expect(&rig, lane, 3, "COMMIT=Q indexing=Q build-PDF=Q");
    assert_int_equal(post(&rig, "docs", 2, ark), 202);
    expect(&rig, lane, 2, "COMMIT=D indexing=P build-PDF=S");
    expect(&rig, lane, 3, "COMMIT=D indexing=S build-PDF=S");
    struct command *poll = rig_poll(&rig, e, 9);
    assert_int_equal(poll->out.poll.n_grants, 1);
    rig_finish(&rig, granted_name(poll, "indexing", 2), 0, -1);
    poll = rig_poll(&rig, e, 9);
    struct fence pdf = granted_name(poll, "build-PDF", 2), indexing = granted_name(poll, "indexing", 3);
    expect(&rig, lane, 3, "build-PDF=S");
    rig_finish(&rig, indexing, 0, -1);
    assert_int_equal(rig_task(&rig, pdf.task).ending, STATE_A);
    expect(&rig, lane, 3, "build-PDF=S"); /* the older isn't dead yet */
    rig_finish(&rig, pdf, -1, 15);
    expect(&rig, lane, 2, "build-PDF=A");
    expect(&rig, lane, 3, "build-PDF=P");
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "build-PDF", 3), 0, -1);
    expect(&rig, lane, 3, "COMMIT=D indexing=D build-PDF=D");
    assert_int_equal(post(&rig, "docs", 3, ark), 200); /* heard of again */
    assert_int_equal(post(&rig, "docs", 2, NULL), 200);
}

static void test_a_gap_is_waited_for_or_skipped(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs");
    assert_int_equal(post(&rig, "docs", 4, ark), 202);
    assert_int_equal(post(&rig, "docs", 2, ark), 202);
    assert_int_equal(post(&rig, "docs", 4, ark), 200);
    expect(&rig, lane, 2, "COMMIT=Q");
    assert_int_equal(post(&rig, "docs", 1, ark), 202);
    expect(&rig, lane, 1, "COMMIT=D indexing=P");
    expect(&rig, lane, 2, "COMMIT=D indexing=S");
    expect(&rig, lane, 4, "COMMIT=Q indexing=Q");
    struct command *skip = rig_new(&rig, CMD_ARCHIVE_SKIP);
    skip->in.archive.name = STR("docs");
    skip->in.archive.rev = 3;
    skip->in.archive.reason = STR("it never was");
    rig_one(&rig, skip);
    assert_int_equal(skip->err.code, ERR_none);
    expect(&rig, lane, 4, "COMMIT=D indexing=S");
    assert_int_equal(post(&rig, "docs", 3, ark), 200);
    assert_int_equal(post(&rig, "docs", 2000000, ark), -ERR_gap_too_large);
    assert_int_equal(post(&rig, "none", 1, ark), -ERR_not_found);
}

static void test_a_bad_workflow_blocks_nobody(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs");
    post(&rig, "docs", 1, ark);
    post(&rig, "docs", 2, "- name: a\n  comand: x\n");
    post(&rig, "docs", 3, ark);
    expect(&rig, lane, 2, "COMMIT=D WORKFLOW=F indexing=-");
    expect(&rig, lane, 3, "COMMIT=D indexing=S");
    struct task failed = rig_task(&rig, id_of(&rig, lane, 2, "WORKFLOW"));
    assert_non_null(memmem(failed.reason.ptr, failed.reason.len, "w.yaml:2:3", 10));
    assert_int_equal(failed.attempts, 1);
    rig_restart(&rig);
    expect(&rig, lane, 3, "COMMIT=D indexing=S");
}

static const char locks[] = "- {name: read, lock: shared, command: 'true'}\n"
                            "- {name: write, lock: exclusive, command: 'true'}\n"
                            "- {name: free, command: 'true'}\n";

static void test_the_archives_lock_is_fair(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 3; rev++)
        post(&rig, "docs", rev, locks);
    /* by place: read 1, write 1, read 2, write 2, ...; `free` waits for nobody */
    for (int rev = 1; rev <= 3; rev++)
        expect(&rig, lane, rev, "free=P");
    expect(&rig, lane, 1, "read=P write=S");
    expect(&rig, lane, 2, "read=S write=S");
    struct command *poll = rig_poll(&rig, e, 9);
    assert_int_equal(poll->out.poll.n_grants, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(poll->out.poll.grants[i].holds_slots, str_eqz(poll->out.poll.grants[i].task.name, "read"));
    rig_restart(&rig);
    e = rig_executor(&rig, "e", NULL);
    rig_finish(&rig, granted_name(poll, "read", 1), 0, -1);
    expect(&rig, lane, 1, "write=P");
    expect(&rig, lane, 2, "read=S write=S");
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "write", 1), 1, -1);
    expect(&rig, lane, 1, "write=F");
    expect(&rig, lane, 2, "read=P write=S");
    expect(&rig, lane, 3, "read=S");
}

static enum err_code retry(struct rig *rig, int64_t task, bool force)
{
    struct command *command = rig_new(rig, CMD_RETRY);
    command->in.task.task = task;
    command->in.task.force = force;
    command->in.task.reason = STR("again");
    return rig_one(rig, command)->err.code;
}

static void test_a_retry_queues_for_the_lock_anew(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    static const char yaml[] = "- {name: write, lock: exclusive, command: 'true'}\n";
    for (int rev = 1; rev <= 3; rev++)
        post(&rig, "docs", rev, yaml);
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "write", 1), 1, -1);
    struct fence second = granted_name(rig_poll(&rig, e, 9), "write", 2);
    assert_int_equal(retry(&rig, id_of(&rig, lane, 1, "write"), false), ERR_none);
    expect(&rig, lane, 1, "write=S"); /* the second runs, the third is ahead */
    post(&rig, "docs", 4, yaml);
    rig_finish(&rig, second, 0, -1);
    expect(&rig, lane, 3, "write=P");
    expect(&rig, lane, 1, "write=S");
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "write", 3), 0, -1);
    expect(&rig, lane, 1, "write=P");
    expect(&rig, lane, 4, "write=S");
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "write", 1), 1, -1);
    expect(&rig, lane, 4, "write=P");
    /* nobody has started since: its old place is good */
    assert_int_equal(retry(&rig, id_of(&rig, lane, 1, "write"), false), ERR_none);
}

static void test_an_order_that_has_passed(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    static const char yaml[] = "- {name: a, depends: [PREV], command: 'true'}\n";
    post(&rig, "docs", 1, yaml);
    post(&rig, "docs", 2, yaml);
    int64_t first = id_of(&rig, lane, 1, "a");
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "a", 1), 1, -1);
    expect(&rig, lane, 2, "a=P");
    assert_int_equal(retry(&rig, first, false), ERR_none); /* the second hasn't started: it waits again */
    expect(&rig, lane, 1, "a=P");
    expect(&rig, lane, 2, "a=S");
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "a", 1), 1, -1);
    struct fence second = granted_name(rig_poll(&rig, e, 9), "a", 2);
    assert_int_equal(retry(&rig, first, false), ERR_order_passed);
    assert_int_equal(retry(&rig, first, true), ERR_none);
    rig_finish(&rig, second, 0, -1);
    expect(&rig, lane, 1, "a=P");
}

static void test_paths_that_arent_touched_are_skipped(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs");
    static const char yaml[] = "- {name: a, paths: ['x/**'], cancels: [PREV], command: 'true'}\n"
                               "- {name: b, depends: [a], command: 'true'}\n";
    struct command *command = revision_command(&rig, "docs", 1, yaml);
    command->in.revision.touched = (const bool[]){ false, true };
    rig_one(&rig, command);
    definition_release(command->in.revision.definition);
    expect(&rig, lane, 1, "a=D b=P");
    assert_int_equal(rig_task(&rig, id_of(&rig, lane, 1, "a")).outcome, OUTCOME_skipped);
    post(&rig, "docs", 2, yaml);
    expect(&rig, lane, 2, "a=P");
}

static struct command *run(struct rig *rig, const char *name, const char *task, int64_t rev)
{
    struct command *command = rig_new(rig, CMD_RUN);
    command->in.run.archive = str_of(name);
    command->in.run.task = str_of(task);
    command->in.run.rev = rev;
    command->in.run.params = STR("{\"who\":\"me\"}");
    command->in.run.reason = STR("because");
    return rig_one(rig, command);
}

static void test_runs_are_counted(void **state)
{
    (void)state;
    RIG(rig);
    static const char yaml[] = "- {name: a, command: 'true'}\n"
                               "- {name: by-hand, detached: true, command: 'true'}\n"
                               "- {name: after-hand, depends: [by-hand], command: 'true'}\n";
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    post(&rig, "docs", 1, yaml);
    post(&rig, "docs", 2, yaml);
    expect(&rig, lane, 1, "a=P by-hand=- after-hand=-");
    struct command *first = run(&rig, "docs", "by-hand", 0);
    assert_int_equal(first->status, 201);
    expect(&rig, lane, 2, "by-hand=P after-hand=S");
    run(&rig, "docs", "by-hand", 2);
    assert_int_equal(state_of(&rig, lane, 2, "by-hand", 2), 'P');
    run(&rig, "docs", "a", 1);
    run(&rig, "docs", "a", 1);
    assert_int_equal(state_of(&rig, lane, 1, "a", 2), 'P');
    assert_int_equal(state_of(&rig, lane, 1, "a", 3), 'P');
    struct command *poll = rig_poll(&rig, e, 1);
    for (size_t i = 0; i < 6; i++) {
        if (str_eqz(poll->out.poll.grants[0].task.name, "by-hand"))
            assert_non_null(memmem(poll->out.poll.grants[0].body.ptr, poll->out.poll.grants[0].body.len,
                "\"params\":{\"who\":\"me\"}", 21));
        rig_finish(&rig, poll->out.poll.grants[0].fence, 0, -1);
        poll = rig_poll(&rig, e, 1);
    }
    assert_int_equal(run(&rig, "docs", "nothing", 1)->err.code, ERR_not_found);
    assert_int_equal(run(&rig, "docs", "a", 9)->err.code, ERR_not_found);
}

static void test_the_clock_fires_once(void **state)
{
    (void)state;
    RIG(rig);
    static const char yaml[] = "- {name: nightly, schedule: '*/10 * * * *', command: 'true'}\n";
    int64_t lane = archive(&rig, "docs");
    rig.wall = 1700000000000; /* 22:13:20 */
    post(&rig, "docs", 1, yaml);
    expect(&rig, lane, 1, "nightly=-");
    rig_pass(&rig, 399000);
    expect(&rig, lane, 1, "nightly=-");
    rig_pass(&rig, 2000);
    expect(&rig, lane, 1, "nightly=P");
    rig_restart(&rig);
    rig_turn(&rig, NULL, 0);
    rig_pass(&rig, 1000);
    assert_int_equal(state_of(&rig, lane, 1, "nightly", 2), '-');
    rig.wall -= 3600000; /* set back: what was fired isn't fired again */
    rig_pass(&rig, 1800000);
    assert_int_equal(state_of(&rig, lane, 1, "nightly", 2), '-');
    rig.wall += 3600000 + 3 * 600000; /* slots were missed: they are one run */
    rig_restart(&rig);
    rig_turn(&rig, NULL, 0);
    assert_int_equal(state_of(&rig, lane, 1, "nightly", 2), 'P');
    assert_int_equal(state_of(&rig, lane, 1, "nightly", 3), '-');
    post(&rig, "docs", 2, "- {name: other, command: 'true'}\n"); /* the newest workflow has no schedule */
    rig_pass(&rig, 3600000);
    assert_int_equal(state_of(&rig, lane, 1, "nightly", 3), '-');
    assert_int_equal(state_of(&rig, lane, 2, "nightly", 0), '-');
}

static void test_causes_have_a_depth(void **state)
{
    (void)state;
    RIG(rig);
    static const char yaml[] = "- {name: a, command: 'true'}\n";
    int64_t lane = archive(&rig, "docs");
    char key[40] = "";
    for (int64_t rev = 1; rev <= CAUSE_DEPTH_MAX + 2; rev++) {
        struct command *command = revision_command(&rig, "docs", rev, yaml);
        command->in.revision.cause = str_of(key);
        rig_one(&rig, command);
        definition_release(command->in.revision.definition);
        assert_int_equal(command->out.revision.row.depth, rev - 1);
        assert_int_equal(command->out.revision.row.cause, rev > 1 ? id_of(&rig, lane, rev - 1, "a") : 0);
        snprintf(key, sizeof key, "docs@%d:a", (int)rev);
    }
    assert_int_equal(state_of(&rig, lane, CAUSE_DEPTH_MAX + 1, "a", 0), 'P');
    assert_int_equal(state_of(&rig, lane, CAUSE_DEPTH_MAX + 2, "a", 0), '-');
    assert_int_equal(state_of(&rig, lane, CAUSE_DEPTH_MAX + 2, "COMMIT", 0), 'D');
}

/* caused: a cause, said of a revision; what came of it. */
static struct revision caused(struct rig *rig, int64_t rev, const char *cause, const char *txn, bool late)
{
    struct command *command =
        late ? rig_new(rig, CMD_CAUSE) : revision_command(rig, "docs", rev, "- {name: a, command: 'true'}\n");
    command->in.revision.archive = STR("docs");
    command->in.revision.row.rev = rev;
    command->in.revision.row.txn = str_of(txn);
    command->in.revision.cause = str_of(cause);
    rig_one(rig, command);
    if (!late)
        definition_release(command->in.revision.definition);
    assert_int_equal(command->err.code, ERR_none);
    return command->out.revision.row;
}

static void test_a_cause_may_come_late(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), worker = rig_executor(&rig, "w", NULL);
    char key[40] = "";
    for (int64_t rev = 1; rev <= CAUSE_DEPTH_MAX + 1; rev++) {
        caused(&rig, rev, key, "", false);
        snprintf(key, sizeof key, "docs@%d:a", (int)rev);
    }
    rig_pass(&rig, 1000);
    assert_int_equal(rig_poll(&rig, worker, 20)->out.poll.n_grants, CAUSE_DEPTH_MAX + 1); /* the last of them commits */
    rig_pass(&rig, 1000);
    assert_int_equal(caused(&rig, 10, "", "", false).depth, 0); /* taken for a person's */
    assert_int_equal(caused(&rig, 11, "docs@10:a", "", false).depth, 1);
    assert_int_equal(state_of(&rig, lane, 10, "a", 0), 'P');
    struct revision row = caused(&rig, 10, key, "9-9", true);
    assert_int_equal(row.cause, id_of(&rig, lane, 9, "a"));
    assert_int_equal(row.depth, 9);
    assert_true(str_eqz(row.txn, "9-9"));
    assert_int_equal(state_of(&rig, lane, 10, "a", 0), 'A');    /* too deep: what hasn't begun doesn't */
    assert_int_equal(caused(&rig, 11, "", "", true).depth, 10); /* and what came of it is deeper than it seemed */
    assert_int_equal(state_of(&rig, lane, 11, "a", 0), 'A');
    /* said again, by another, or of a time when that job didn't run: nothing comes of it */
    assert_int_equal(caused(&rig, 10, "docs@1:a", "", true).cause, id_of(&rig, lane, 9, "a"));
    assert_int_equal(caused(&rig, 1, key, "", true).cause, 0);
    assert_int_equal(caused(&rig, 1, "nonsense", "", true).cause, 0);
    assert_int_equal(caused(&rig, 99, key, "", true).rev, 0);
}

static void test_many_waiting_revisions_open_in_batches(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs");
    for (int64_t rev = 250; rev >= 2; rev--)
        assert_int_equal(post(&rig, "docs", rev, NULL), 202);
    rig_restart(&rig);
    post(&rig, "docs", 1, NULL);
    for (int i = 0; i < 4; i++)
        rig_pass(&rig, 1);
    for (int64_t rev = 1; rev <= 250; rev++)
        expect(&rig, lane, rev, "COMMIT=D");
}

static void test_a_merge_waits_for_each_parent(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    static const char yaml[] = "- {name: a, depends: [PREV], command: 'true'}\n";
    post(&rig, "docs", 1, yaml);
    struct command *commands[3];
    static const int64_t of_one[] = { 1 }, of_both[] = { 2, 3 };
    for (int i = 0; i < 3; i++) {
        commands[i] = revision_command(&rig, "docs", 2 + i, yaml);
        commands[i]->in.revision.row.prevs = i < 2 ? of_one : of_both;
        commands[i]->in.revision.row.n_prevs = i < 2 ? 1 : 2;
    }
    rig_turn(&rig, commands, 3);
    for (int i = 0; i < 3; i++)
        definition_release(commands[i]->in.revision.definition);
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "a", 1), 0, -1);
    struct command *poll = rig_poll(&rig, e, 9);
    assert_int_equal(poll->out.poll.n_grants, 2);
    rig_finish(&rig, granted_name(poll, "a", 3), 0, -1);
    expect(&rig, lane, 4, "a=S");
    rig_finish(&rig, granted_name(poll, "a", 2), 0, -1);
    expect(&rig, lane, 4, "a=P");
}

static void test_a_removed_archive_ends(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    post(&rig, "docs", 1, ark);
    post(&rig, "docs", 3, ark);
    struct fence fence = granted_name(rig_poll(&rig, e, 1), "indexing", 1);
    struct command *gone = rig_new(&rig, CMD_ARCHIVE_REMOVE);
    gone->in.archive.name = STR("docs");
    rig_one(&rig, gone);
    assert_int_equal(gone->err.code, ERR_none);
    expect(&rig, lane, 1, "indexing=X build-PDF=A");
    expect(&rig, lane, 3, "COMMIT=A indexing=A");
    rig_finish(&rig, fence, -1, 1);
    expect(&rig, lane, 1, "indexing=A");
    assert_int_equal(post(&rig, "docs", 2, ark), -ERR_not_found);
    assert_int_equal(archive(&rig, "docs"), lane);
    assert_int_equal(post(&rig, "docs", 2, ark), 202);
    expect(&rig, lane, 2, "COMMIT=D indexing=P");
}

static struct command *prune(struct rig *rig, int64_t before, bool dry_run)
{
    struct command *command = rig_new(rig, CMD_PRUNE);
    command->in.prune.before = before;
    command->in.prune.dry_run = dry_run;
    return rig_one(rig, command);
}

static void test_pruned_tasks_keep_their_end(void **state)
{
    (void)state;
    RIG(rig);
    static const char yaml[] = "- {name: a, command: 'true', depends: [{task: 'PREV', on: success}]}\n- {name: b, "
                               "command: 'true', depends: [a]}\n";
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    post(&rig, "docs", 1, yaml);
    struct fence fence = granted_name(rig_poll(&rig, e, 9), "a", 1);
    struct command *finish = rig_new(&rig, CMD_FINISH);
    struct finish_item item = { .fence = fence,
        .exit = 0,
        .signal = -1,
        .outputs = STR("{\"x\":\"1\"}"),
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = 7 };
    finish->in.finish.items = &item;
    finish->in.finish.n_items = 1;
    rig_one(&rig, finish);
    rig_pass(&rig, 10000);
    assert_int_equal(prune(&rig, rig.wall - 1000, true)->out.prune.tasks, 0); /* b may still ask for its outputs */
    rig_finish(&rig, granted_name(rig_poll(&rig, e, 9), "b", 1), 0, -1);
    assert_int_equal(prune(&rig, rig.wall - 1000, true)->out.prune.tasks, 1);
    assert_int_equal(prune(&rig, rig.wall - 1000, false)->out.prune.log_bytes, 7);
    assert_int_equal(prune(&rig, rig.wall - 1000, false)->out.prune.tasks, 0);
    struct str outputs;
    struct err err = { 0 };
    assert_true(rig.store->ops->load_outputs(rig.store, &rig.arena, fence.task, &outputs, &err));
    assert_int_equal(outputs.len, 0);
    expect(&rig, lane, 1, "a=D");
    post(&rig, "docs", 2, yaml);
    expect(&rig, lane, 2, "a=P"); /* PREV is found, and done */
}

static void test_queues_and_archives_share_names(void **state)
{
    (void)state;
    RIG(rig);
    archive(&rig, "docs");
    ENQUEUE(&rig, "one");
    struct command *add = rig_new(&rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("default");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    assert_int_equal(rig_one(&rig, add)->err.code, ERR_name_taken);
    struct command *task = rig_enqueue_command(&rig, (const char *const[]){ "one" }, 1);
    task->in.enqueue.defs[0].queue = STR("docs");
    assert_int_equal(rig_one(&rig, task)->err.code, ERR_invalid);
}

/* The name is the archive's then, and the pause stays: nothing of it starts before it is resumed. */
static void test_a_name_that_was_only_paused_can_become_an_archive(void **state)
{
    (void)state;
    RIG(rig);
    rig_pause(&rig, "docs", true);
    int64_t lane = archive(&rig, "docs");
    rig_restart(&rig); /* the store has it so too */
    post(&rig, "docs", 1, "- {name: a, command: 'true'}\n");
    expect(&rig, lane, 1, "a=S");
    struct command *task = rig_enqueue_command(&rig, (const char *const[]){ "one" }, 1);
    task->in.enqueue.defs[0].queue = STR("docs");
    assert_int_equal(rig_one(&rig, task)->err.code, ERR_invalid);
    rig_pause(&rig, "docs", false);
    expect(&rig, lane, 1, "a=P");
}

/* In one turn: who comes first has the name. */
static void test_a_paused_name_is_given_away_once(void **state)
{
    (void)state;
    RIG(rig);
    rig_pause(&rig, "docs", true);
    rig_pause(&rig, "jobs", true);
    struct command *adds[2], *tasks[2];
    const char *const names[2] = { "docs", "jobs" };
    for (int i = 0; i < 2; i++) {
        adds[i] = rig_new(&rig, CMD_ARCHIVE_ADD);
        adds[i]->in.archive_add.name = str_of(names[i]);
        adds[i]->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
        tasks[i] = rig_enqueue_command(&rig, (const char *const[]){ "one" }, 1);
        tasks[i]->in.enqueue.defs[0].queue = str_of(names[i]);
    }
    rig_turn(&rig, (struct command *[]){ adds[0], tasks[0], tasks[1], adds[1] }, 4);
    assert_int_equal(adds[0]->err.code, ERR_none);
    assert_int_equal(tasks[0]->err.code, ERR_invalid);
    assert_int_equal(tasks[1]->err.code, ERR_none);
    assert_int_equal(adds[1]->err.code, ERR_name_taken);
}

/* It was done at once, without anything having been read. */
static void test_a_workflow_that_cant_be_read_is_not_retried(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs");
    post(&rig, "docs", 1, "- {name: a, depends: [b], command: 'true'}\n");
    expect(&rig, lane, 1, "COMMIT=D WORKFLOW=F");
    assert_int_equal(rig_order(&rig, CMD_RETRY, id_of(&rig, lane, 1, "WORKFLOW")), ERR_conflict);
    expect(&rig, lane, 1, "WORKFLOW=F");
    post(&rig, "docs", 2, "- {name: a, command: 'true'}\n");
    expect(&rig, lane, 2, "a=P");
}

/* A late result that asks for another try at once: the archive's lock has gone on, so it queues for it. */
static void test_a_late_result_tried_at_once_queues_for_the_lock(void **state)
{
    static const char writes[] =
        "- {name: write, lock: exclusive, retry: {attempts: 2, backoff: 1s, on: [lost, killed]}, command: 'true'}\n";
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    post(&rig, "docs", 1, writes);
    post(&rig, "docs", 2, writes);
    rig_poll(&rig, e, 1);
    rig_pass(&rig, 3100);
    struct command *poll = rig_poll(&rig, e, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    struct fence late = poll->out.poll.grants[0].fence;
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, late.task), 'F');
    poll = rig_poll(&rig, e, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].fence.task, id_of(&rig, lane, 2, "write"));
    assert_int_equal(rig_finish(&rig, late, -1, 9), ERR_none);
    assert_int_equal(rig_state(&rig, late.task), 'S');
    assert_int_equal(rig_finish(&rig, poll->out.poll.grants[0].fence, 0, -1), ERR_none);
    assert_int_equal(rig_state(&rig, late.task), 'P');
}

static const char writes_once[] = "- {name: write, lock: exclusive, retry: {attempts: 1}, command: 'true'}\n";

/* A task is retried, queues for the lock as the last, and then the result of before comes after all: who is next stands
 * behind those that it stood behind. */
static void test_a_late_result_leaves_its_place_in_the_locks_queue(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    for (int rev = 1; rev <= 3; rev++)
        post(&rig, "docs", rev, writes_once);
    struct fence late = granted_name(rig_poll(&rig, e, 1), "write", 1);
    rig_pass(&rig, 3100);
    expect(&rig, lane, 1, "write=F");
    struct fence second = granted_name(rig_poll(&rig, e, 1), "write", 2);
    assert_int_equal(retry(&rig, late.task, false), ERR_none);
    expect(&rig, lane, 1, "write=S");
    post(&rig, "docs", 4, writes_once); /* behind the first */
    assert_int_equal(rig_finish(&rig, late, 1, -1), ERR_none);
    expect(&rig, lane, 1, "write=F");
    expect(&rig, lane, 4, "write=S");
    assert_int_equal(rig_finish(&rig, second, 0, -1), ERR_none);
    expect(&rig, lane, 3, "write=P");
    expect(&rig, lane, 4, "write=S");
}

static void test_a_late_result_leaves_the_end_of_the_locks_queue(void **state)
{
    (void)state;
    RIG(rig);
    int64_t lane = archive(&rig, "docs"), e = rig_executor(&rig, "e", NULL);
    post(&rig, "docs", 1, writes_once);
    post(&rig, "docs", 2, writes_once);
    struct fence late = granted_name(rig_poll(&rig, e, 1), "write", 1);
    rig_pass(&rig, 3100);
    struct fence second = granted_name(rig_poll(&rig, e, 1), "write", 2);
    assert_int_equal(retry(&rig, late.task, false), ERR_none);
    assert_int_equal(rig_finish(&rig, late, 1, -1), ERR_none);
    post(&rig, "docs", 3, writes_once);
    expect(&rig, lane, 3, "write=S"); /* the second runs */
    assert_int_equal(rig_finish(&rig, second, 0, -1), ERR_none);
    expect(&rig, lane, 3, "write=P");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_documents_example),
        cmocka_unit_test(test_a_gap_is_waited_for_or_skipped),
        cmocka_unit_test(test_a_bad_workflow_blocks_nobody),
        cmocka_unit_test(test_the_archives_lock_is_fair),
        cmocka_unit_test(test_a_retry_queues_for_the_lock_anew),
        cmocka_unit_test(test_an_order_that_has_passed),
        cmocka_unit_test(test_paths_that_arent_touched_are_skipped),
        cmocka_unit_test(test_runs_are_counted),
        cmocka_unit_test(test_the_clock_fires_once),
        cmocka_unit_test(test_causes_have_a_depth),
        cmocka_unit_test(test_a_cause_may_come_late),
        cmocka_unit_test(test_many_waiting_revisions_open_in_batches),
        cmocka_unit_test(test_a_merge_waits_for_each_parent),
        cmocka_unit_test(test_a_removed_archive_ends),
        cmocka_unit_test(test_pruned_tasks_keep_their_end),
        cmocka_unit_test(test_queues_and_archives_share_names),
        cmocka_unit_test(test_a_name_that_was_only_paused_can_become_an_archive),
        cmocka_unit_test(test_a_paused_name_is_given_away_once),
        cmocka_unit_test(test_a_workflow_that_cant_be_read_is_not_retried),
        cmocka_unit_test(test_a_late_result_tried_at_once_queues_for_the_lock),
        cmocka_unit_test(test_a_late_result_leaves_its_place_in_the_locks_queue),
        cmocka_unit_test(test_a_late_result_leaves_the_end_of_the_locks_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
