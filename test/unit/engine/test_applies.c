/* Change sets whose attempts say what they commit against, and die: outputs of running attempts, the base, and the
 * grant that only looks before an end is final. On SQLite; under test/lib/postgres.py on PostgreSQL. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static struct rig rig;

static int set_up(void **state)
{
    (void)state;
    static char url[256], name[32];
    static int databases;
    rig = (struct rig){ 0 };
    if (getenv("WEIR_TEST_POSTGRES")) {
        snprintf(name, sizeof name, "applies%d", databases++);
        rig_database(name, url, sizeof url);
        rig.url = url;
    }
    rig_open(&rig);
    struct command *add = rig_new(&rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("docs");
    add->in.archive_add.archive.kind = ARCHIVE_SVN;
    add->in.archive_add.archive.url = STR("/nowhere");
    rig_one(&rig, add);
    assert_int_equal(add->err.code, ERR_none);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static int64_t submit(const char *csid, enum movetype movetype, const char *file, const char *depends)
{
    struct command *command = rig_new(&rig, CMD_CHANGESET);
    struct changeset_def *def = &command->in.changeset.def;
    static int64_t labels = 1000000;
    static struct str undone;
    undone = str_of(depends);
    *def = (struct changeset_def){ .target = STR("docs"),
        .csid = str_of(csid),
        .name = str_of(csid),
        .movetype = movetype,
        .prio = movetype == MOVE_RB ? 900 : 0,
        .tai = ++labels,
        .files = str_of(file),
        .depends = &undone,
        .n_depends = undone.len > 0,
        .submitter = STR("uid:7"),
        .body = STR("{\"message\":\"m\"}") };
    if (movetype != MOVE_RB)
        memcpy(def->hash, csid, strlen(csid));
    rig_one(&rig, command);
    assert_int_equal(command->err.code, ERR_none);
    return command->out.changeset.task;
}

static int64_t applier(const char *name)
{
    struct command *reg = rig_new(&rig, CMD_REGISTER);
    reg->in.reg.executor =
        (struct executor){ .name = str_of(name), .instance = STR("i"), .slots = 4, .kinds = 1u << KIND_APPLY };
    rig_one(&rig, reg);
    assert_int_equal(reg->err.code, ERR_none);
    return reg->out.reg.id;
}

static const struct grant *start(int64_t executor, int64_t task)
{
    struct command *poll = rig_poll(&rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].task.id, task);
    return &poll->out.poll.grants[0];
}

static enum err_code tell(struct fence fence, const char *outputs)
{
    struct command *command = rig_new(&rig, CMD_OUTPUTS);
    command->in.outputs.fence = fence;
    command->in.outputs.text = str_of(outputs);
    return rig_one(&rig, command)->err.code;
}

struct end {
    int64_t exit, signal; /* 0: not given */
    enum outcome outcome;
    const char *revision, *outputs, *reason;
};

static enum err_code end_as(struct fence fence, struct end end)
{
    struct command *command = rig_new(&rig, CMD_FINISH);
    struct finish_item *item = ARENA_NEW(&rig.arena, struct finish_item);
    *item = (struct finish_item){ .fence = fence,
        .exit = end.signal || end.outcome ? -1 : end.exit,
        .signal = end.signal ? end.signal : -1,
        .outcome = end.outcome,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1,
        .outputs = end.outputs ? str_of(end.outputs) : (struct str){ 0 },
        .reason = end.reason ? str_of(end.reason) : (struct str){ 0 },
        .revision = end.revision ? str_of(end.revision) : (struct str){ 0 } };
    memcpy(item->hash, &fence.grant, sizeof fence.grant);
    item->hash[15] = (uint8_t)(end.exit + 2 * end.signal + end.outcome + 1);
    command->in.finish.items = item;
    command->in.finish.n_items = 1;
    rig_one(&rig, command);
    return item->code;
}

static struct changeset row_of(int64_t task)
{
    struct changeset row = { 0 };
    bool found = false;
    struct err err = { 0 };
    assert_true(rig.store->ops->begin(rig.store, &err));
    assert_true(rig.store->ops->load_changeset(rig.store, &rig.arena, task, &row, &found, &err));
    rig.store->ops->rollback(rig.store);
    assert_true(found);
    return row;
}

static void assert_outputs(int64_t task, const char *wanted)
{
    struct str text = { 0 };
    struct err err = { 0 };
    assert_true(rig.store->ops->begin(rig.store, &err));
    assert_true(rig.store->ops->load_outputs(rig.store, &rig.arena, task, &text, &err));
    rig.store->ops->rollback(rig.store);
    assert_string_equal(str_dupz(&rig.arena, str_trim(text)), wanted); /* the line feed of those told while it runs */
}

static void lapse(void)
{
    rig_pass(&rig, 60000);
}

/* --- outputs --- */

static void test_outputs_of_a_running_attempt_are_kept_and_join_those_of_its_end(void **state)
{
    (void)state;
    int64_t task = ENQUEUE(&rig, "t"), executor = rig_executor(&rig, "x", NULL);
    struct fence fence = rig_granted(rig_poll(&rig, executor, 1)), wrong = fence;
    assert_int_equal(tell(fence, "{\"a\":\"1\",\"b\":\"2\"}"), ERR_none);
    assert_outputs(task, "{\"a\":\"1\",\"b\":\"2\"}");
    assert_int_equal(tell(fence, "{\"b\":\"3\"}"), ERR_none);
    assert_outputs(task, "{\"a\":\"1\",\"b\":\"3\"}");
    wrong.grant++;
    assert_int_equal(tell(wrong, "{\"b\":\"4\"}"), ERR_stale_fence);
    wrong = fence;
    wrong.incarnation++;
    assert_int_equal(tell(wrong, "{\"b\":\"4\"}"), ERR_stale_fence);
    assert_int_equal(end_as(fence, (struct end){ .outputs = "{\"b\":\"5\",\"c\":\"6\"}" }), ERR_none);
    assert_outputs(task, "{\"a\":\"1\",\"b\":\"5\",\"c\":\"6\"}");
    assert_int_equal(tell(fence, "{\"b\":\"7\"}"), ERR_stale_fence); /* it has ended */
    assert_outputs(task, "{\"a\":\"1\",\"b\":\"5\",\"c\":\"6\"}");
    rig_order(&rig, CMD_RETRY, task); /* refused: it is done; nothing told since is joined to what comes */
}

static void test_outputs_have_a_limit(void **state)
{
    (void)state;
    ENQUEUE(&rig, "t");
    int64_t executor = rig_executor(&rig, "x", NULL);
    struct fence fence = rig_granted(rig_poll(&rig, executor, 1));
    struct buf text;
    buf_init(&text, 8 << 20);
    for (int i = 0; i <= 1000; i++)
        buf_addf(&text, "%s\"n%d\":\"\"", i ? "," : "{", i);
    buf_add_str(&text, STR("}"));
    assert_int_equal(tell(fence, str_dupz(&rig.arena, buf_str(&text))), ERR_body_too_large);
    char *large = arena_alloc(&rig.arena, (5 << 20) + 16);
    memset(large, 'x', 5 << 20);
    memcpy(large, "{\"a\":\"", 6);
    memcpy(large + (5 << 20) - 3, "\"}", 3);
    assert_int_equal(tell(fence, large), ERR_body_too_large);
    buf_release(&text);
}

static void test_the_oldest_base_counts(void **state)
{
    (void)state;
    int64_t task = submit("c1", MOVE_DC, "a", ""), executor = applier("x");
    const struct grant *grant = start(executor, task);
    assert_true(grant->apply->base.len == 0 && str_eqz(grant->apply->target, "docs"));
    assert_true(grant->apply->archive.kind == ARCHIVE_SVN && str_eqz(grant->apply->archive.url, "/nowhere"));
    assert_false(grant->apply->look);
    assert_int_equal(tell(grant->fence, "{\"base\":\"r7\"}"), ERR_invalid);
    assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
    assert_true(str_eqz(row_of(task).base, "7"));
    lapse();
    assert_int_equal(rig_state(&rig, task), 'P');
    assert_int_equal(tell(grant->fence, "{\"base\":\"5\"}"), ERR_stale_fence); /* it may not commit any more */
    rig_restart(&rig);
    grant = start(applier("x"), task);
    assert_true(str_eqz(grant->apply->base, "7") && !grant->apply->look);
    assert_int_equal(tell(grant->fence, "{\"base\":\"9\"}"), ERR_none);
    assert_true(str_eqz(row_of(task).base, "7"));
    assert_outputs(task, "{\"base\":\"9\"}");
    assert_int_equal(end_as(grant->fence, (struct end){ .revision = "10" }), ERR_none);
    assert_int_equal(rig_state(&rig, task), 'D');
    assert_true(str_eqz(row_of(task).revision, "10"));
}

/* --- ends --- */

static void test_RQ25_later_has_no_limit(void **state)
{
    (void)state;
    int64_t task = submit("c1", MOVE_DC, "a", ""), executor = applier("x");
    for (int i = 0; i < 8; i++) {
        const struct grant *grant = start(executor, task);
        assert_int_equal(end_as(grant->fence, (struct end){ .exit = 111, .reason = "away" }), ERR_none);
        assert_int_equal(rig_state(&rig, task), 'S');
        rig_pass(&rig, 600000);
        executor = applier("x");
    }
    assert_int_equal(rig_state(&rig, task), 'P');
}

/* A change set that was lost after it had recorded its base, and was cancelled: the next grant finds it. */
static void test_RQ26_a_cancelled_one_that_was_lost_is_looked_for(void **state)
{
    (void)state;
    int64_t executor = applier("x");
    for (int found = 0; found < 2; found++) {
        char csid[] = { 'c', (char)('1' + found), '\0' };
        int64_t task = submit(csid, MOVE_DC, "a", "");
        const struct grant *grant = start(executor, task);
        struct fence fence = grant->fence;
        assert_int_equal(tell(fence, "{\"base\":\"7\"}"), ERR_none);
        assert_int_equal(rig_order(&rig, CMD_CANCEL, task), ERR_none);
        lapse();
        assert_int_equal(rig_state(&rig, task), 'P');
        rig_pause(&rig, "docs", true); /* looking starts nothing */
        rig_restart(&rig);
        executor = applier("x");
        grant = start(executor, task);
        assert_true(grant->apply->look);
        if (found)
            assert_int_equal(end_as(grant->fence, (struct end){ .revision = "8" }), ERR_none);
        else
            assert_int_equal(end_as(grant->fence, (struct end){ .signal = SIGTERM }), ERR_none);
        assert_int_equal(rig_state(&rig, task), found ? 'D' : 'T');
        rig_pause(&rig, "docs", false);
    }
}

/* Killed as its grace was over, it couldn't look; by TERM it has. */
static void test_RQ26_a_time_out_is_final_when_somebody_has_looked(void **state)
{
    (void)state;
    int64_t executor = applier("x"), task = submit("c1", MOVE_DC, "a", "");
    const struct grant *grant = start(executor, task);
    assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
    assert_int_equal(end_as(grant->fence, (struct end){ .signal = SIGTERM, .outcome = OUTCOME_timeout }), ERR_none);
    assert_int_equal(rig_state(&rig, task), 'T');
    task = submit("c2", MOVE_DC, "a", "");
    grant = start(executor, task);
    assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
    assert_int_equal(end_as(grant->fence, (struct end){ .signal = SIGKILL, .outcome = OUTCOME_timeout }), ERR_none);
    assert_int_equal(rig_state(&rig, task), 'P');
    grant = start(executor, task);
    assert_true(grant->apply->look);
    assert_int_equal(end_as(grant->fence, (struct end){ .exit = 111 }), ERR_none); /* the repository is away */
    assert_int_equal(rig_state(&rig, task), 'P');
    grant = start(executor, task);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, task), ERR_none);
    assert_int_equal(end_as(grant->fence, (struct end){ .signal = SIGTERM }), ERR_none);
    assert_int_equal(rig_state(&rig, task), 'T');
    task = submit("c3", MOVE_DC, "a", ""); /* without a base nothing was committed */
    grant = start(executor, task);
    assert_int_equal(end_as(grant->fence, (struct end){ .signal = SIGKILL, .outcome = OUTCOME_timeout }), ERR_none);
    assert_int_equal(rig_state(&rig, task), 'T');
}

static void test_RQ26_quarantine(void **state)
{
    (void)state;
    for (int found = 0; found < 2; found++) {
        char csid[] = { 'c', (char)('1' + found), '\0' };
        int64_t task = submit(csid, MOVE_DC, "a", "");
        for (int i = 0; i < 3; i++) {
            const struct grant *grant = start(applier("x"), task);
            assert_false(grant->apply->look);
            assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
            lapse();
        }
        assert_int_equal(rig_state(&rig, task), 'P');
        const struct grant *grant = start(applier("x"), task);
        assert_true(grant->apply->look);
        assert_int_equal(
            end_as(grant->fence, found ? (struct end){ .revision = "8" } : (struct end){ .signal = SIGTERM }),
            ERR_none);
        assert_int_equal(rig_state(&rig, task), found ? 'D' : 'F');
        struct task row = rig_task(&rig, task);
        assert_true(found || str_starts(row.reason, STR("quarantined: 3 attempts")));
    }
    /* what takes down whoever looks is given up */
    int64_t task = submit("c3", MOVE_DC, "a", "");
    for (int i = 0; i < 6; i++) {
        const struct grant *grant = start(applier("x"), task);
        if (i < 3)
            assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
        lapse();
    }
    assert_int_equal(rig_state(&rig, task), 'F');
}

/* A late result of one that was lost, and is to be looked for, counts. */
static void test_RQ25_a_late_result_counts(void **state)
{
    (void)state;
    int64_t executor = applier("x"), task = submit("c1", MOVE_DC, "a", "");
    const struct grant *grant = start(executor, task);
    assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, task), ERR_none);
    lapse();
    assert_int_equal(end_as(grant->fence, (struct end){ .revision = "8" }), ERR_none);
    assert_int_equal(rig_state(&rig, task), 'D');
}

/* RQ27: a running member that is lost after its HUP may have committed: the rollback waits until that is known, and
 * undoes it if so. */
static void test_RQ27_a_lost_member_is_looked_for(void **state)
{
    (void)state;
    for (int found = 0; found < 2; found++) {
        char csid[] = { 'c', (char)('1' + found), '\0' }, undo[] = { 'r', (char)('1' + found), '\0' };
        int64_t executor = applier("x"), member = submit(csid, MOVE_DC, "a", "");
        const struct grant *grant = start(executor, member);
        assert_int_equal(tell(grant->fence, "{\"base\":\"7\"}"), ERR_none);
        int64_t rollback = submit(undo, MOVE_RB, "", csid);
        lapse();
        assert_int_equal(rig_state(&rig, member), 'P');
        assert_int_equal(rig_state(&rig, rollback), 'S');
        rig_restart(&rig);
        executor = applier("x");
        grant = start(executor, member);
        assert_true(grant->apply->look);
        assert_int_equal(
            end_as(grant->fence, found ? (struct end){ .revision = "8" } : (struct end){ .signal = SIGTERM }),
            ERR_none);
        assert_int_equal(rig_state(&rig, member), found ? 'D' : 'S');
        grant = start(executor, rollback);
        assert_int_equal(grant->n_undoes, found);
        assert_int_equal(
            end_as(grant->fence, found ? (struct end){ .revision = "9" } : (struct end){ .exit = 99 }), ERR_none);
        assert_int_equal(rig_state(&rig, rollback), 'D');
        assert_int_equal(rig_state(&rig, member), found ? 'D' : 'A');
        assert_int_equal(row_of(member).rolled_back_by, found ? rollback : 0);
    }
}

/* What a rollback has undone is stored, beyond what it named: a later rollback may undo that. */
static void test_RQ27_what_was_undone_is_kept(void **state)
{
    (void)state;
    int64_t executor = applier("x"), c1 = submit("c1", MOVE_DC, "a", ""), c2 = submit("c2", MOVE_DC, "b", "c1");
    assert_int_equal(end_as(start(executor, c1)->fence, (struct end){ .revision = "1" }), ERR_none);
    assert_int_equal(end_as(start(executor, c2)->fence, (struct end){ .revision = "2" }), ERR_none);
    int64_t rollback = submit("r1", MOVE_RB, "", "c1");
    assert_int_equal(end_as(start(executor, rollback)->fence, (struct end){ .revision = "3" }), ERR_none);
    assert_int_equal(row_of(rollback).n_undoes, 2);
    rig_restart(&rig);
    executor = applier("x");
    int64_t again = submit("r2", MOVE_RB, "", "r1");
    assert_int_equal(end_as(start(executor, again)->fence, (struct end){ .revision = "4" }), ERR_none);
    assert_true(row_of(c1).rolled_back_by == 0 && row_of(c2).rolled_back_by == 0);
    assert_int_equal(row_of(rollback).rolled_back_by, again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_outputs_of_a_running_attempt_are_kept_and_join_those_of_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_outputs_have_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_oldest_base_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ25_later_has_no_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ26_a_cancelled_one_that_was_lost_is_looked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ26_a_time_out_is_final_when_somebody_has_looked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ26_quarantine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ25_a_late_result_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_a_lost_member_is_looked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_what_was_undone_is_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
