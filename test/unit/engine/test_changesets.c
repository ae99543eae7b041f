/* Change sets through the engine, on a real store: intake, order, approval, rollback, ends. RQ numbers are those of
 * SEEDS.md. On SQLite; under test/lib/postgres.py on PostgreSQL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "text/diag.h"

static struct rig rig;
static int64_t labels; /* the label of the last change set; the next is later */

static int set_up_with(size_t batch)
{
    static char url[256], name[32];
    static int databases;
    rig = (struct rig){ .batch = batch };
    if (getenv("WEIR_TEST_POSTGRES")) {
        snprintf(name, sizeof name, "changesets%d", databases++);
        rig_database(name, url, sizeof url);
        rig.url = url;
    }
    rig_open(&rig);
    labels = 1000000;
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(0);
}

static int set_up_small_batches(void **state)
{
    (void)state;
    return set_up_with(3);
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
    /* where nobody may approve its own, the ticket that a submitter brings waits for somebody else, too */
    int64_t c3 = submit("docs c3 EM files=c ticket=T-3");
    submit("docs c4 BF files=d");
    int64_t rb = submit("docs rb RB depends=c4");
    assert_string_equal(rig_states(&rig, c3, 3), "SPS");
    approve->in.approve.csid = STR("rb");
    rig_one(&rig, approve);
    assert_int_equal(approve->err.code, ERR_none);
    assert_int_equal(rig_state(&rig, rb), 'P');
    (void)c2;
}

/* The limit of a rollback, and how long its running members have after HUP, are the site's, from the turn on in which
 * they were changed. */
static void test_rollback_limit_and_stop_are_the_sites(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t executor = applier("x", 1), c1 = submit("docs c1 DC files=a");
    submit("docs c2 DC files=b depends=c1");
    submit("docs c3 DC files=c depends=c2");
    struct fence running = start(executor, c1);
    site("changesets: {rollback_limit: 2, stop: 7s}\n");
    int64_t first = submit("docs rb1 RB depends=c1");
    assert_int_equal(rig_state(&rig, first), 'F');
    assert_int_equal(rig_state(&rig, c1), 'X');
    rig_restart(&rig); /* it is stored */
    executor = applier("x", 1);
    assert_int_equal(rig_state(&rig, submit("docs rb2 RB depends=c1")), 'F');
    site("changesets: {rollback_limit: 3, stop: 7s}\n");
    int64_t third = submit("docs rb3 RB depends=c1");
    assert_int_equal(rig_state(&rig, third), 'S');
    struct command *poll = rig_poll_command(&rig, executor, 0, -1, &running, 1);
    rig_turn(&rig, &poll, 1);
    assert_int_equal(poll->out.poll.n_cancels, 1);
    assert_string_equal(poll->out.poll.cancels[0].signal, "HUP");
    assert_int_equal(poll->out.poll.cancels[0].stop_ms, 7000);
    assert_int_equal(end_as(running, -1, 1, ""), ERR_none);
    assert_int_equal(rig_state(&rig, third), 'P');
    /* a person's cancel leaves the executor its own time */
    running = start(executor, third);
    rig_order(&rig, CMD_CANCEL, third);
    poll = rig_poll_command(&rig, executor, 0, -1, &running, 1);
    rig_turn(&rig, &poll, 1);
    assert_int_equal(poll->out.poll.n_cancels, 1);
    assert_int_equal(poll->out.poll.cancels[0].stop_ms, 0);
}

static bool says(struct str text, const char *words)
{
    return strstr(str_dupz(&rig.arena, text), words) != NULL;
}

/* RQ25: `independent` lets several of a target run; a rollback still runs alone, also after a restart. */
static void test_RQ25_independent(void **state)
{
    (void)state;
    archive_add("docs");
    site("targets: {docs: {independent: true}}\n");
    int64_t executor = applier("x", 9), c0 = submit("docs c0 DC files=z");
    assert_int_equal(end_as(start(executor, c0), 0, -1, "1"), ERR_none);
    int64_t c1 = submit("docs c1 DC files=a");
    struct fence one = start(executor, c1);
    int64_t c2 = submit("docs c2 DC files=b"), c3 = submit("docs c3 DC files=c"), c4 = submit("docs c4 DC files=a");
    struct command *poll = rig_poll_command(&rig, executor, 8, -1, &one, 1);
    rig_turn(&rig, &poll, 1);
    assert_int_equal(poll->out.poll.n_grants, 2); /* c4 waits for c1, whose file it has */
    assert_string_equal(rig_states(&rig, c1, 4), "XXXS");
    struct fence run[] = { one, poll->out.poll.grants[0].fence, poll->out.poll.grants[1].fence };
    /* a rollback waits until nothing runs, and what is pending waits behind it */
    int64_t rb = submit("docs rb RB depends=c0"), c5 = submit("docs c5 DC files=e");
    assert_int_equal(rig_state(&rig, rb), 'P');
    for (size_t i = 0; i < 3; i++) {
        poll = rig_poll_command(&rig, executor, 8, -1, &run[i], 3 - i);
        rig_turn(&rig, &poll, 1);
        assert_int_equal(poll->out.poll.n_grants, 0);
        assert_int_equal(end_as(run[i], 0, -1, "2"), ERR_none);
    }
    assert_string_equal(rig_states(&rig, c1, 6), "DDDPPP");
    poll = rig_poll(&rig, executor, 8);
    assert_int_equal(poll->out.poll.n_grants, 1); /* alone, also in the turn in which it is granted */
    assert_int_equal(poll->out.poll.grants[0].task.id, rb);
    struct fence undo = poll->out.poll.grants[0].fence;
    for (int i = 0; i < 2; i++) {
        poll = rig_poll_command(&rig, executor, 8, -1, &undo, 1);
        rig_turn(&rig, &poll, 1);
        assert_int_equal(poll->out.poll.n_grants, 0);
        rig_restart(&rig);
        executor = applier("x", 9);
    }
    assert_int_equal(end_as(undo, 0, -1, "3"), ERR_none);
    assert_int_equal(rig_poll(&rig, executor, 8)->out.poll.n_grants, 2);
    assert_string_equal(rig_states(&rig, c1, 6), "DDDXDX");
    (void)c2, (void)c3, (void)c4, (void)c5;
}

/* A target that is configured: what a grant says of it, and what the configuration can't say. */
static void test_targets_of_the_configuration(void **state)
{
    (void)state;
    archive_add("docs");
    struct command *bad = rig_one(
        &rig, site_command("semaphores: {s: 3}\ntargets:\n  web: {archive: dogs}\n  lone:\n  docs: {archive: docs}\n"));
    assert_int_equal(bad->err.code, ERR_invalid);
    assert_int_equal(bad->err.n_items, 2);
    assert_true(str_eqz(bad->err.items[0].file, "weir.yaml"));
    assert_int_equal(bad->err.items[0].line, 3);
    assert_int_equal(bad->err.items[0].column, 18);
    assert_true(says(bad->err.items[0].suggestion, "did you mean 'docs'?"));
    assert_int_equal(bad->err.items[1].line, 4);
    assert_true(says(bad->err.items[1].message, "needs an archive"));
    archive_add("code");
    bad = rig_one(&rig, site_command("targets: {code: {archive: docs}}\n"));
    assert_int_equal(bad->err.code, ERR_invalid);
    assert_true(says(bad->err.items[0].message, "the name of another archive"));
    assert_int_equal(submit_refused("web c0 DC files=a"), ERR_invalid); /* nothing of it is in force */
    site("targets: {web: {archive: docs, path: site/x, apply: [deploy, -q], timeout: 90s}}\n"
         "changesets: {limits: {files: 12}}\n");
    struct command *add = rig_new(&rig, CMD_ARCHIVE_ADD);
    add->in.archive_add.name = STR("web");
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    assert_int_equal(rig_one(&rig, add)->err.code, ERR_name_taken);
    int64_t executor = applier("x", 2), c1 = submit("web c1 DC files=a"), c2 = submit("docs c2 DC files=a");
    assert_string_equal(rig_states(&rig, c1, 2), "PP"); /* targets of one archive have queues of their own */
    struct command *poll = rig_poll(&rig, executor, 2);
    assert_int_equal(poll->out.poll.n_grants, 2);
    const struct grant_apply *apply = poll->out.poll.grants[0].apply;
    assert_non_null(apply);
    assert_true(str_eqz(apply->target, "web") && str_eqz(apply->csid, "c1") && str_eqz(apply->submitter, "uid:7"));
    assert_true(str_eqz(apply->archive.name, "docs") && str_eqz(apply->archive.path, "site/x"));
    assert_int_equal(apply->archive.kind, ARCHIVE_EXTERNAL);
    assert_int_equal(apply->n_program, 2);
    assert_true(str_eqz(apply->program[0], "deploy") && str_eqz(apply->program[1], "-q"));
    assert_int_equal(apply->timeout_ms, 90000);
    assert_int_equal(apply->limits.files, 12);
    assert_int_equal(apply->limits.depth, 64);
    apply = poll->out.poll.grants[1].apply;
    assert_true(str_eqz(apply->target, "docs") && !apply->archive.path.len && !apply->n_program);
    assert_int_equal(apply->timeout_ms, 0);
    /* other threads are told the same */
    struct conf_target told;
    struct conf_changesets changesets;
    engine_target(rig.engine, STR("web"), &rig.arena, &told);
    assert_true(str_eqz(told.archive, "docs") && str_eqz(told.apply[1], "-q"));
    engine_target(rig.engine, STR("other"), &rig.arena, &told);
    assert_true(str_eqz(told.archive, "other") && !told.n_apply);
    engine_changesets(rig.engine, &changesets);
    assert_int_equal(changesets.limits.files, 12);
    /* the key loses the target: what waits for it is told */
    int64_t c3 = submit("web c3 DC files=b");
    site("targets:\n");
    assert_int_equal(rig_state(&rig, c3), 'A');
    assert_true(says(rig_task(&rig, c3).reason, "there is no target 'web'"));
    assert_int_equal(rig_task(&rig, c1).ending, STATE_A); /* it runs: HUP */
    assert_int_equal(rig_state(&rig, c2), 'X');
}

/* An archive is removed while change sets of its targets wait: they are A, with the reason, a batch a turn, whatever
 * they wait for; other targets aren't disturbed. What is in force can be applied again. */
static void test_an_archive_is_removed_under_its_targets(void **state)
{
    (void)state;
    archive_add("docs");
    archive_add("code");
    site("targets: {web: {archive: docs}}\nchangesets: {approval: [EM]}\n");
    int64_t executor = applier("x", 2), c1 = submit("docs c1 DC files=a");
    struct fence running = start(executor, c1);
    submit("docs c2 DC files=a");
    submit("docs c3 DC files=b depends=c2");
    submit("docs c4 EM files=c");
    submit("web c5 DC files=a");
    submit("docs rb RB depends=c2");
    int64_t c6 = submit("code c6 DC files=a");
    assert_string_equal(rig_states(&rig, c1, 7), "XSSSPPP");
    struct command *removed = rig_new(&rig, CMD_ARCHIVE_REMOVE);
    removed->in.archive.name = STR("docs");
    assert_int_equal(rig_one(&rig, removed)->err.code, ERR_none);
    rig_restart(&rig); /* the rest of them after a restart */
    for (int i = 0; i < 6; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, c1, 7), "XAAAAPP"); /* the rollback, when it would be granted */
    executor = applier("x", 2);
    struct command *poll = rig_poll_command(&rig, executor, 1, -1, &running, 1);
    rig_turn(&rig, &poll, 1);
    assert_int_equal(poll->out.poll.n_cancels, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].task.id, c6);
    assert_string_equal(rig_states(&rig, c1, 7), "XAAAAAX");
    assert_int_equal(end_as(running, -1, 1, "7"), ERR_none);
    for (int64_t id = c1 + 1; id < c6; id++)
        if (rig_state(&rig, id) != 'A' || !says(rig_task(&rig, id).reason, "archive was removed"))
            fail_msg("%lld: %.*s", (long long)id, STR_ARG(rig_task(&rig, id).reason));
    assert_int_equal(rig_state(&rig, c1), 'D'); /* it had committed */
    assert_int_equal(submit_refused("docs c7 DC files=a"), ERR_invalid);
    assert_int_equal(submit_refused("web c7 DC files=a"), ERR_invalid);
    site("targets: {web: {archive: docs}}\n"); /* as it was: it isn't looked at */
    assert_int_equal(rig_one(&rig, site_command("targets: {web: {archive: docs, path: a}}\n"))->err.code, ERR_invalid);
    archive_add("docs");
    assert_int_equal(rig_state(&rig, submit("web c8 DC files=a")), 'P');
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

/* RQ22: what depends on a change set stands behind it on every path, also when that is retried before everybody was
 * informed of its end: they would wait for each other. */
static void test_RQ22_a_retry_before_all_know_of_the_end(void **state)
{
    (void)state;
    rig.batch = 1;
    rig_restart(&rig);
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a"), c2 = submit("docs c2 DC files=b depends=c1"),
            c3 = submit("docs c3 DC files=c depends=c1"), c4 = submit("docs c4 DC files=d depends=c3"),
            last = submit("docs last DC files=a,b,c,d");
    struct command *orders[] = { rig_new(&rig, CMD_CANCEL), rig_new(&rig, CMD_RETRY) };
    orders[0]->in.task.task = orders[1]->in.task.task = c1;
    rig_turn(&rig, orders, 2);
    assert_int_equal(orders[1]->err.code, ERR_none);
    for (int i = 0; i < 12; i++)
        rig_turn(&rig, NULL, 0);
    assert_string_equal(rig_states(&rig, c1, 5), "SSSSP"); /* all of them come behind the last one now */
    int64_t executor = applier("x", 4), order[] = { last, c1, c2, c3, c4 };
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(end_as(start(executor, order[i]), 0, -1, "7"), ERR_none);
    assert_string_equal(rig_states(&rig, c1, 5), "DDDDD");
}

/* RQ27: the members of a rollback are looked up once more when it starts: another one may have restored a member. */
static void test_RQ27_a_restored_member_is_undone_again(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a");
    int64_t executor = applier("x", 4);
    assert_int_equal(end_as(start(executor, c1), 0, -1, "1"), ERR_none);
    int64_t undo = submit("docs undo RB depends=c1");
    assert_int_equal(end_as(start(executor, undo), 0, -1, "2"), ERR_none);
    assert_int_equal(row_of(c1).rolled_back_by, undo);
    int64_t redo = submit("docs redo RB depends=undo"), last = submit("docs last RB depends=c1");
    assert_string_equal(rig_states(&rig, redo, 2), "PP"); /* so far `last` has nothing to undo */
    assert_int_equal(end_as(start(executor, redo), 0, -1, "3"), ERR_none);
    assert_int_equal(row_of(c1).rolled_back_by, 0);
    rig_restart(&rig);
    executor = applier("x", 4);
    struct command *poll = rig_poll(&rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    assert_int_equal(poll->out.poll.grants[0].n_undoes, 1);
    assert_true(str_eqz(poll->out.poll.grants[0].undoes[0].csid, "c1"));
    assert_int_equal(end_as(poll->out.poll.grants[0].fence, 0, -1, "4"), ERR_none);
    assert_int_equal(row_of(c1).rolled_back_by, last);
}

/* RQ27: a member whose HUP never reached it, since its grant didn't, isn't stopped any more when the rollback is over.
 */
static void test_RQ27_a_stop_ends_with_its_rollback(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a"), executor = applier("x", 4);
    assert_int_equal(rig_one(&rig, rig_poll_command(&rig, executor, 1, 1, NULL, 0))->out.poll.n_grants, 1);
    int64_t rb = submit("docs rb RB depends=c1");
    assert_int_equal(rig_task(&rig, c1).ending, STATE_S);
    rig_order(&rig, CMD_CANCEL, rb);
    struct command *next = rig_one(&rig, rig_poll_command(&rig, executor, 1, 2, NULL, 0)); /* it has no such grant */
    assert_int_equal(next->out.poll.n_grants, 1);
    assert_int_equal(rig_task(&rig, c1).ending, STATE_NONE);
    assert_int_equal(end_as(next->out.poll.grants[0].fence, 1, -1, ""), ERR_none);
    assert_int_equal(rig_state(&rig, c1), 'F');
}

/* RQ25: a lease that is renewed late isn't taken up again when another change set of the target has started since. */
static void test_RQ25_a_late_renewal_starts_nothing_beside(void **state)
{
    (void)state;
    archive_add("docs");
    int64_t c1 = submit("docs c1 DC files=a"), first = applier("first", 1);
    struct fence slow = start(first, c1);
    rig_pass(&rig, 3100);
    assert_int_equal(rig_state(&rig, c1), 'P');
    int64_t c2 = submit("docs c2 EM files=b"), second = applier("second", 1);
    start(second, c2);
    struct command *late = rig_one(&rig, rig_poll_command(&rig, first, 0, -1, &slow, 1));
    assert_string_equal(rig_states(&rig, c1, 2), "PX");
    assert_int_equal(late->out.poll.n_cancels, 1);
    assert_true(late->out.poll.cancels[0].stale);
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
        cmocka_unit_test_setup_teardown(test_rollback_limit_and_stop_are_the_sites, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ25_independent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_targets_of_the_configuration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_archive_is_removed_under_its_targets, set_up_small_batches, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_a_failed_rollback_lets_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ22_a_retry_before_all_know_of_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_a_restored_member_is_undone_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ27_a_stop_ends_with_its_rollback, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ25_a_late_renewal_starts_nothing_beside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_RQ28_ends, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
