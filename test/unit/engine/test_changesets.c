/* Change sets through the engine, on a real store: intake, order, approval, rollback, ends. RQ numbers are those of
 * SEEDS.md. On SQLite; under test/lib/postgres.py on PostgreSQL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "text/diag.h"

static struct rig rig;
static int64_t labels; /* the label of the last change set; the next is later */

static int set_up(void **state)
{
    (void)state;
    static char url[256], name[32];
    static int databases;
    rig = (struct rig){ 0 };
    if (getenv("WEIR_TEST_POSTGRES")) {
        snprintf(name, sizeof name, "changesets%d", databases++);
        rig_database(name, url, sizeof url);
        rig.url = url;
    }
    rig_open(&rig);
    labels = 1000000;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static void archive_add(const char *name)
{
    struct command *add = rig_new(&rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = str_of(name);
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    rig_one(&rig, add);
    assert_int_equal(add->err.code, ERR_none);
}

/* What `weir config apply` does with a document. */
static struct command *site_command(const char *text)
{
    struct command *command = rig_new(&rig, CMD_SITE);
    struct diag_file file = { STR("weir.yaml"), str_of(text) };
    struct diags diags = { .arena = &rig.arena };
    command->actor.name = STR("uid:0");
    command->in.site.file = file.name;
    if (!site_parse(&file, &rig.arena, &diags, &command->in.site.conf))
        fail_msg("%s: %.*s", text, STR_ARG(diags.items[0].message));
    return command;
}

static void site(const char *text)
{
    struct command *command = rig_one(&rig, site_command(text));
    if (command->err.code)
        fail_msg("%s: %s", text, command->err.text);
}

/* "docs c1 BF files=a,b removed=c depends=c0 after=c0 ticket=T again overlapping hash=7 tai=N prio=N" */
static struct command *submit_command(const char *text)
{
    struct command *command = rig_new(&rig, CMD_CHANGESET);
    struct changeset_def *def = &command->in.changeset.def;
    struct str rest = str_dup(&rig.arena, str_of(text)), word, type;
    static const int64_t prios[MOVE_COUNT] = { 0, 0, 300, 600, 900 };
    str_cut(&rest, ' ', &def->target);
    str_cut(&rest, ' ', &def->csid);
    str_cut(&rest, ' ', &type);
    def->movetype = movetype_find(type);
    assert_true(def->movetype != MOVE_NONE);
    def->prio = prios[def->movetype];
    def->tai = ++labels;
    def->name = def->csid;
    def->submitter = STR("uid:7");
    def->body = STR("{}");
    if (def->movetype != MOVE_RB)
        memcpy(def->hash, def->csid.ptr, def->csid.len < 32 ? def->csid.len : 32);
    while (str_cut(&rest, ' ', &word)) {
        struct str key, item, *list = ARENA_ARRAY(&rig.arena, struct str, 16);
        struct str value = word;
        str_cut(&value, '=', &key);
        size_t n = 0;
        struct str items = value;
        while (str_cut(&items, ',', &item))
            list[n++] = item;
        struct str joined = str_dup(&rig.arena, value);
        for (size_t i = 0; i < joined.len; i++)
            if (joined.ptr[i] == ',')
                ((char *)(uintptr_t)joined.ptr)[i] = CHANGESET_JOINT;
        if (str_eqz(key, "files"))
            def->files = joined;
        else if (str_eqz(key, "removed"))
            def->removed = joined;
        else if (str_eqz(key, "depends"))
            def->depends = list, def->n_depends = n;
        else if (str_eqz(key, "after"))
            def->precursors = list, def->n_precursors = n;
        else if (str_eqz(key, "ticket"))
            def->ticket = value;
        else if (str_eqz(key, "again"))
            def->again = true;
        else if (str_eqz(key, "overlapping"))
            def->overlapping = true;
        else if (str_eqz(key, "hash"))
            memset(def->hash, value.ptr[0], sizeof def->hash);
        else if (str_eqz(key, "tai"))
            assert_true(str_to_i64(value, &def->tai));
        else
            fail_msg("unknown word %.*s", STR_ARG(key));
    }
    return command;
}

static int64_t submit(const char *text)
{
    struct command *command = rig_one(&rig, submit_command(text));
    if (command->err.code)
        fail_msg("%s: %s", text, command->err.text);
    return command->out.changeset.task;
}

static enum err_code submit_refused(const char *text)
{
    return rig_one(&rig, submit_command(text))->err.code;
}

static int64_t applier(const char *name, int64_t slots)
{
    struct command *reg = rig_new(&rig, CMD_REGISTER);
    reg->in.reg.executor =
        (struct executor){ .name = str_of(name), .instance = STR("i"), .slots = slots, .kinds = 1u << KIND_APPLY };
    rig_one(&rig, reg);
    assert_int_equal(reg->err.code, ERR_none);
    return reg->out.reg.id;
}

/* The one grant that a poll gets, of this task. */
static struct fence start(int64_t executor, int64_t task)
{
    struct command *poll = rig_poll(&rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].task.id, task);
    return poll->out.poll.grants[0].fence;
}

static enum err_code end_as(struct fence fence, int64_t exit, int64_t signal, const char *revision)
{
    struct command *command = rig_new(&rig, CMD_FINISH);
    struct finish_item *item = ARENA_NEW(&rig.arena, struct finish_item);
    *item = (struct finish_item){ .fence = fence,
        .exit = exit,
        .signal = signal,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1,
        .revision = str_of(revision) };
    memcpy(item->hash, &fence.grant, sizeof fence.grant);
    item->hash[15] = (uint8_t)(exit + 2 * signal + 1);
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

/* --- the stories --- */

/* RQ11, RQ19, RQ25: by move type, then by label, one at a time; the next is granted in the turn of the end before it,
 * to a poll that waits. */
static void test_RQ25_one_at_a_time_in_the_order_of_the_sort_key(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t late = submit("docs c-late DC files=a tai=900"), early = submit("docs c-early DC files=b tai=500"),
            fix = submit("docs c-fix BF files=c tai=950"), move = submit("docs c-move EM files=d tai=990");
    int64_t executor = applier("x", 4);
    struct fence first = start(executor, move);
    assert_int_equal(rig_poll(&rig, executor, 3)->out.poll.n_grants, 0); /* one of the target runs */
    assert_string_equal(rig_states(&rig, late, 4), "PPPX");
    struct command *waiting = rig_poll_command(&rig, executor, 1, -1, &first, 1);
    waiting->in.poll.wait_ms = 5000;
    rig_turn(&rig, &waiting, 1);
    assert_int_equal(end_as(first, 0, -1, "11"), ERR_none);
    assert_int_equal(waiting->out.poll.n_grants, 1);
    assert_int_equal(waiting->out.poll.grants[0].task.id, fix);
    assert_int_equal(end_as(waiting->out.poll.grants[0].fence, 0, -1, "12"), ERR_none);
    assert_int_equal(end_as(start(executor, early), 0, -1, "13"), ERR_none);
    assert_int_equal(end_as(start(executor, late), 0, -1, "14"), ERR_none);
    assert_string_equal(rig_states(&rig, late, 4), "DDDD");
    assert_true(str_eqz(row_of(move).revision, "11"));
}

/* Change sets of two targets don't wait for each other. */
static void test_targets_are_independent(void **state)
{
    (void)state;
    archive_add("docs");
    archive_add("code");
    submit("docs c1 DC files=a");
    submit("code c2 DC files=a");
    int64_t executor = applier("x", 4);
    assert_int_equal(rig_poll(&rig, executor, 4)->out.poll.n_grants, 2);
}

/* RQ20, RQ22: the chain of a path; one that leaves without having been applied hands its place on, path by path. */
static void test_RQ20_precursors(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a"), c2 = submit("docs c2 DC files=a,b"), c3 = submit("docs c3 DC files=b"),
            c4 = submit("docs c4 BF removed=a"), c5 = submit("docs c5 DC files=z after=c3");
    assert_string_equal(rig_states(&rig, c1, 5), "PSSSS");
    rig_order(&rig, CMD_CANCEL, c2);
    assert_string_equal(rig_states(&rig, c1, 5), "PTPSS"); /* c4 waits for c1 now, c3 for nobody */
    rig_restart(&rig);
    int64_t executor = applier("x", 4);
    assert_int_equal(end_as(start(executor, c1), 0, -1, "1"), ERR_none);
    assert_string_equal(rig_states(&rig, c1, 5), "DTPPS");
    assert_int_equal(end_as(start(executor, c4), 1, -1, ""), ERR_none);
    assert_int_equal(end_as(start(executor, c3), 0, -1, "2"), ERR_none);
    assert_string_equal(rig_states(&rig, c1, 5), "DTDFP");
    /* a retried one comes behind those that were accepted meanwhile */
    int64_t c6 = submit("docs c6 DC files=a");
    rig_order(&rig, CMD_RETRY, c4);
    assert_int_equal(rig_state(&rig, c6), 'P');
    assert_int_equal(rig_state(&rig, c4), 'S');
    (void)c5;
}

/* RQ8, RQ22: a dependency that is queued is waited for; one that ended otherwise than well makes its waiter F. */
static void test_RQ8_dependencies(void **state)
{
    (void)state;
    archive_add("docs");
    archive_add("code");
    int64_t c1 = submit("docs c1 DC files=a"), c2 = submit("docs c2 DC files=b depends=c1"),
            c3 = submit("docs c3 DC files=c depends=c2");
    assert_string_equal(rig_states(&rig, c1, 3), "PSS");
    rig_order(&rig, CMD_CANCEL, c1);
    assert_string_equal(rig_states(&rig, c1, 3), "TFF");
    assert_int_equal(rig_task(&rig, c3).cause, c2);
    assert_int_equal(rig_state(&rig, submit("docs c4 DC files=d depends=c1")), 'F');
    rig_order(&rig, CMD_RETRY, c1);
    assert_string_equal(rig_states(&rig, c1, 4), "PSSS");
    assert_int_equal(submit_refused("docs c5 DC files=e depends=nobody"), ERR_invalid);
    assert_int_equal(submit_refused("code c5 DC files=e depends=c1"), ERR_invalid);
    assert_int_equal(submit_refused("nowhere c5 DC files=e"), ERR_invalid);
    assert_int_equal(submit_refused("docs docs DC files=e"), ERR_name_taken);
}

/* RQ1, RQ17: the identity is the content. */
static void test_RQ17_the_same_content_is_the_same_change_set(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a hash=7");
    struct command *again = rig_one(&rig, submit_command("docs c9 DC files=a hash=7"));
    assert_int_equal(again->status, 200);
    assert_int_equal(again->out.changeset.task, c1);
    assert_true(again->out.changeset.existing && str_eqz(again->out.changeset.csid, "c1"));
    assert_int_equal(submit_refused("docs c1 DC files=a hash=8"), ERR_csid_taken);
    assert_int_equal(submit("docs c2 DC files=a hash=7 again"), c1); /* it hasn't ended */
    rig_order(&rig, CMD_CANCEL, c1);
    int64_t c2 = submit("docs c2 DC files=a hash=7 again");
    assert_true(c2 != c1);
    assert_int_equal(submit("docs c3 DC files=a hash=7"), c2); /* the newest */
    /* both in one turn */
    struct command *both[] = { submit_command("docs c5 DC files=q hash=5"),
        submit_command("docs c6 DC files=q hash=5") };
    rig_turn(&rig, both, 2);
    assert_int_equal(both[0]->out.changeset.task, both[1]->out.changeset.task);
}

/* RQ9, RQ34 */
static void test_RQ34_approval(void **state)
{
    (void)state;
    archive_add("docs");
    site("changesets: {approval: [EM]}\n");
    int64_t c1 = submit("docs c1 EM files=a"), c2 = submit("docs c2 EM files=b ticket=T-1");
    assert_string_equal(rig_states(&rig, c1, 2), "SP");
    struct command *approve = rig_new(&rig, CMD_APPROVE);
    approve->in.approve.csid = STR("c1");
    approve->in.approve.ticket = STR("T-2");
    site("changesets: {approval: [EM, RB], self_approval: false}\n");
    approve->actor.name = STR("uid:7");
    rig_one(&rig, approve);
    assert_int_equal(approve->err.code, ERR_forbidden);
    assert_int_equal(rig_state(&rig, c1), 'S');
    approve->actor.name = STR("uid:8");
    rig_one(&rig, approve);
    assert_int_equal(approve->err.code, ERR_none);
    assert_int_equal(rig_state(&rig, c1), 'P');
    assert_true(str_eqz(row_of(c1).ticket, "T-2") && str_eqz(row_of(c1).approver, "uid:8"));
    rig_order(&rig, CMD_CANCEL, c1);
    rig_one(&rig, approve);
    assert_int_equal(approve->err.code, ERR_already_ended);
    (void)c2;
}

/* RQ27: queued members are held and abandoned in the turn in which the rollback is done, running ones get HUP first,
 * applied ones are undone, newest first. A restart in the middle changes nothing. */
static void test_RQ27_rollback(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a"), c2 = submit("docs c2 DC files=b depends=c1"),
            c3 = submit("docs c3 DC files=c depends=c2"), c4 = submit("docs c4 DC files=d depends=c3"),
            other = submit("docs other DC files=e");
    int64_t executor = applier("x", 4);
    assert_int_equal(end_as(start(executor, c1), 0, -1, "1"), ERR_none);
    assert_int_equal(end_as(start(executor, c2), 0, -1, "2"), ERR_none);
    struct fence running = start(executor, c3);
    struct command *poll = rig_poll_command(&rig, executor, 3, -1, &running, 1);
    poll->in.poll.wait_ms = 5000;
    rig_turn(&rig, &poll, 1);
    int64_t rb = submit("docs rb RB depends=c1");
    assert_string_equal(rig_states(&rig, c1, 6), "DDXSPS");
    assert_int_equal(poll->out.poll.n_cancels, 1);
    assert_string_equal(poll->out.poll.cancels[0].signal, "HUP");
    int64_t joins = submit("docs joins DC files=j depends=c4");
    rig_restart(&rig);
    executor = applier("x", 4);
    assert_int_equal(end_as(running, -1, 1, ""), ERR_none);
    assert_string_equal(rig_states(&rig, c1, 7), "DDSSPPS");
    struct command *undo = rig_poll(&rig, executor, 4);
    assert_int_equal(undo->out.poll.n_grants, 1); /* a rollback runs alone */
    const struct grant *grant = &undo->out.poll.grants[0];
    assert_int_equal(grant->task.id, rb);
    assert_int_equal(grant->n_undoes, 2);
    assert_true(str_eqz(grant->undoes[0].csid, "c2") && str_eqz(grant->undoes[1].csid, "c1"));
    assert_true(str_eqz(grant->undoes[0].revision, "2"));
    assert_int_equal(end_as(grant->fence, 0, -1, "3"), ERR_none);
    assert_string_equal(rig_states(&rig, c1, 7), "DDAAPDA");
    assert_int_equal(row_of(c1).rolled_back_by, rb);
    assert_int_equal(row_of(c2).rolled_back_by, rb);
    assert_int_equal(rig_state(&rig, submit("docs late DC files=k depends=c1")), 'F'); /* it is rolled back */
    /* the rollback is rolled back: its members are applied again */
    int64_t redo = submit("docs redo RB depends=rb");
    undo = rig_poll(&rig, executor, 4);
    assert_int_equal(undo->out.poll.grants[0].task.id, redo);
    assert_int_equal(undo->out.poll.grants[0].n_undoes, 1);
    assert_int_equal(end_as(undo->out.poll.grants[0].fence, 0, -1, "4"), ERR_none);
    assert_int_equal(row_of(c1).rolled_back_by, 0);
    assert_int_equal(row_of(rb).rolled_back_by, redo);
    (void)other, (void)joins, (void)c4;
}

/* RQ27: a rollback that fails lets its members go on; one that is too large touches nothing. */
static void test_RQ27_a_failed_rollback_lets_go(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a"), c2 = submit("docs c2 DC files=b depends=c1");
    int64_t executor = applier("x", 1);
    assert_int_equal(end_as(start(executor, c1), 0, -1, "1"), ERR_none);
    int64_t rb = submit("docs rb RB depends=c1");
    assert_string_equal(rig_states(&rig, c1, 3), "DSP");
    assert_int_equal(end_as(start(executor, rb), 100, -1, ""), ERR_none);
    assert_string_equal(rig_states(&rig, c1, 3), "DPF");
    assert_int_equal(row_of(c1).rolled_back_by, 0);
    for (int i = 0; i < 55; i++) {
        char text[64];
        snprintf(text, sizeof text, "docs m%d DC files=m%d depends=c1", i, i);
        submit(text);
    }
    int64_t large = submit("docs large RB depends=c1");
    assert_int_equal(rig_state(&rig, large), 'F');
    assert_int_equal(rig_state(&rig, c2), 'P');
    /* nothing to undo: no member is applied */
    int64_t waits = submit("docs alone DC files=y"), nothing = submit("docs nothing RB depends=alone");
    assert_int_equal(rig_state(&rig, waits), 'S');
    struct command *poll = rig_poll(&rig, executor, 1);
    assert_int_equal(poll->out.poll.grants[0].task.id, nothing);
    assert_int_equal(poll->out.poll.grants[0].n_undoes, 0);
    assert_int_equal(end_as(poll->out.poll.grants[0].fence, 99, -1, ""), ERR_none);
    assert_int_equal(rig_state(&rig, nothing), 'D');
    assert_int_equal(rig_state(&rig, waits), 'A');
}

/* RQ26, RQ28: how an apply step ends. */
static void test_RQ28_ends(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t executor = applier("x", 1), c1 = submit("docs c1 DC files=a");
    for (int i = 0; i < 6; i++) { /* a repository that is away: without a limit of attempts */
        assert_int_equal(end_as(start(executor, c1), 111, -1, ""), ERR_none);
        assert_int_equal(rig_state(&rig, c1), 'S');
        rig_pass(&rig, 5 * 60 * 1000 + 1);
    }
    for (int i = 0; i < 3; i++) /* abnormal death: back to P, at most three times in all */
        assert_int_equal(end_as(start(executor, c1), -1, 11, ""), ERR_none);
    assert_int_equal(rig_state(&rig, c1), 'F');
    assert_true(strstr(str_dup(&rig.arena, rig_task(&rig, c1).reason).ptr, "quarantined") != NULL);
    int64_t c2 = submit("docs c2 DC files=a");
    struct fence fence = start(executor, c2);
    rig_order(&rig, CMD_CANCEL, c2);
    assert_int_equal(end_as(fence, -1, 15, "77"), ERR_none); /* it had committed before the cancel reached it */
    assert_int_equal(rig_state(&rig, c2), 'D');
    assert_true(str_eqz(row_of(c2).revision, "77"));
    int64_t c3 = submit("docs c3 DC files=a");
    fence = start(executor, c3);
    rig_order(&rig, CMD_CANCEL, c3);
    assert_int_equal(end_as(fence, -1, 15, ""), ERR_none);
    assert_int_equal(rig_state(&rig, c3), 'T');
    int64_t c4 = submit("docs c4 DC files=a");
    assert_int_equal(end_as(start(executor, c4), -1, 1, ""), ERR_none);
    assert_int_equal(rig_state(&rig, c4), 'A');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_RQ25_one_at_a_time_in_the_order_of_the_sort_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_targets_are_independent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ20_precursors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ8_dependencies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ17_the_same_content_is_the_same_change_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ34_approval, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_a_failed_rollback_lets_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ28_ends, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
