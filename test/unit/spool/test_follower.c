/* The directories follow the store: engine and store are real, the follower is stepped by hand. RQ numbers are those of
 * SEEDS.md. */
#include "yard.h"

#include <sys/time.h>

#include "../engine/rig.h"
#include "spool/hand_changes.h"
#include "store/read.h"
#include "text/tai64n.h"

static struct rig rig;
static struct yard yard;
static struct follower follower;
static struct hand_changes changes;
static struct store_config store;
static char url[96];
static int64_t labels;

static void follower_begin(void)
{
    struct err err = { 0 };
    follower = (struct follower){ .folders = &yard.folders,
        .limits = { .unpacked_bytes = 1 << 20, .meta_bytes = 1 << 16, .files = 100, .path_bytes = 300, .depth = 9 } };
    follower.reader = reader_open(&store, &err);
    assert_non_null(follower.reader);
    hand_changes_open(&changes, &yard.folders);
    assert_true(changes.fd >= 0);
}

static void follower_end(void)
{
    hand_changes_close(&changes);
    reader_close(follower.reader);
    follower_release(&follower);
}

static int set_up(void **state)
{
    (void)state;
    rig = (struct rig){ 0 };
    rig_open(&rig);
    yard_make(&yard);
    snprintf(url, sizeof url, "sqlite://%s", rig.dir);
    store = (struct store_config){ .url = url, .data_dir = rig.dir };
    labels = 0;
    follower_begin();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    follower_end();
    yard_drop(&yard);
    rig_close(&rig);
    return 0;
}

/* follow: until there is nothing more to do; how many steps that took. */
static unsigned follow(void)
{
    struct err err = { 0 };
    bool more = true;
    unsigned n = 0;
    for (; more && n < 1000; n++)
        if (!follower_step(&follower, &more, &err))
            fail_msg("%s", err.text);
    assert_false(more);
    return n;
}

static void look(void)
{
    struct err err = { 0 };
    if (!hand_changes_take(&changes, &follower, &err))
        fail_msg("%s", err.text);
}

static void archive_add_of(const char *tenant, const char *name)
{
    struct command *add = rig_new(&rig, CMD_ARCHIVE_ADD);
    add->actor.tenant = str_of(tenant);
    add->in.archive_add.name = str_of(name);
    add->in.archive_add.archive.kind = ARCHIVE_EXTERNAL;
    rig_one(&rig, add);
    assert_int_equal(add->err.code, ERR_none);
}

static void archive_add(const char *name)
{
    archive_add_of(TENANT_DEFAULT, name);
}

static const char *name_of(const char *csid, enum movetype movetype)
{
    return str_dupz(&rig.arena, str_fmt(&rig.arena, "%s_%s_7_host_%s_ada", csid,
                                    tai64n_format(tai64n_from_ns(1800000000000000000)).z, movetype_name(movetype)));
}

static int64_t submit_of(
    const char *tenant, const char *csid, enum movetype movetype, const char *files, const char *depends)
{
    struct command *command = rig_new(&rig, CMD_CHANGESET);
    struct changeset_def *def = &command->in.changeset.def;
    if (tenant != NULL)
        command->actor.tenant = str_of(tenant);
    struct str *list = ARENA_ARRAY(&rig.arena, struct str, 1);
    list[0] = str_of(depends);
    *def = (struct changeset_def){ .target = STR("docs"),
        .csid = str_of(csid),
        .name = str_of(name_of(csid, movetype)),
        .movetype = movetype,
        .tai = ++labels,
        .files = str_of(files),
        .submitter = STR("uid:7"),
        .body = STR("{}"),
        .depends = list,
        .n_depends = depends[0] != '\0' };
    if (movetype != MOVE_RB)
        memcpy(def->hash, csid, strlen(csid));
    rig_one(&rig, command);
    if (command->err.code)
        fail_msg("%s: %s", csid, command->err.text);
    return command->out.changeset.task;
}

static int64_t submit(const char *csid, const char *files)
{
    return submit_of(NULL, csid, MOVE_DC, files, "");
}

static int64_t applier(void)
{
    struct command *reg = rig_new(&rig, CMD_REGISTER);
    reg->in.reg.executor =
        (struct executor){ .name = STR("x"), .instance = STR("i"), .slots = 4, .kinds = 1u << KIND_APPLY };
    rig_one(&rig, reg);
    assert_int_equal(reg->err.code, ERR_none);
    return reg->out.reg.id;
}

static void says(const char *folder, const char *csid, const char *text)
{
    char *is = yard_read(&yard, folder, name_of(csid, MOVE_DC));
    if (is == NULL)
        fail_msg("%s isn't in %s/", csid, folder);
    if (strstr(is, text) == NULL)
        fail_msg("%s/%s doesn't say %s:\n%s", folder, csid, text, is);
    free(is);
}

static const char *where(const char *csid)
{
    return yard_where(&yard, name_of(csid, MOVE_DC));
}

/* --- the stories --- */

static void rq13_directories_follow_states(void **state)
{
    (void)state;
    archive_add("docs");
    follow();
    submit("c1", "a\nb"), submit("c2", "b");
    int64_t c3 = submit("c3", "x");
    follow();
    assert_string_equal(where("c1"), "P");
    assert_string_equal(where("c2"), "S");
    says("pending", "c1", "##movetype\nDC\n##target\ndocs\n##files\na\nb\n##csid\nc1\n##state\nP\n##history\n4000000");
    says("staging", "c2", "##precursors\nc1\n");
    int64_t executor = applier();
    struct command *poll = rig_poll(&rig, executor, 1);
    assert_int_equal(poll->out.poll.n_grants, 1);
    follow();
    assert_string_equal(where("c1"), "X");
    assert_int_equal(rig_finish(&rig, poll->out.poll.grants[0].fence, 1, -1), ERR_none);
    assert_int_equal(rig_order(&rig, CMD_CANCEL, c3), ERR_none);
    follow();
    assert_string_equal(where("c1"), "F");
    assert_string_equal(where("c2"), "P");
    assert_string_equal(where("c3"), "T");
    says("fail", "c1", " P ");
    says("fail", "c1", " X ");
    says("fail", "c1", " F ");
    uint64_t n_put = follower.n_put;
    follow();
    assert_int_equal(follower.n_put, n_put); /* nothing happened: nothing is written */
    assert_int_equal(yard_count(&yard, "tmp", ""), 0);
    assert_int_equal(yard_count(&yard, "corrupt", ""), 0);
}

/* The server is killed after its turn and before the projection, and the spool is changed while it is away. */
static void the_start_repairs_from_the_store(void **state)
{
    (void)state;
    archive_add("docs");
    submit("c1", "a"), submit("c2", "a"), submit("c3", "c"), submit("c4", "d"), submit("c5", "e");
    follow();
    follower_end();
    submit("c6", "f");
    assert_int_equal(unlink(yard_path(&yard, "pending", name_of("c3", MOVE_DC))), 0);
    assert_int_equal(
        rename(yard_path(&yard, "pending", name_of("c4", MOVE_DC)), yard_path(&yard, "done", name_of("c4", MOVE_DC))),
        0);
    char *text = yard_read(&yard, "pending", name_of("c5", MOVE_DC));
    *strstr(text, "##files\ne") = '!'; /* edited, and put where it doesn't belong, too */
    yard_write(&yard, "pending", name_of("c5", MOVE_DC), text);
    yard_write(&yard, "run", name_of("c5", MOVE_DC), text);
    free(text);
    yard_write(&yard, "staging", name_of("c9", MOVE_DC), "nobody knows it\n");
    yard_write(&yard, "done", "no name at all", "");
    assert_int_equal(truncate(yard_path(&yard, "staging", name_of("c2", MOVE_DC)), 0), 0); /* as by a power cut */
    follower_begin();
    follow();
    for (unsigned i = 1; i <= 6; i++) {
        char csid[8];
        snprintf(csid, sizeof csid, "c%u", i);
        assert_string_equal(where(csid), i == 2 ? "S" : "P");
    }
    says("pending", "c5", "##files\ne\n##csid");
    says("staging", "c2", "##files\na\n##precursors\nc1\n##csid");
    assert_string_equal(where("c9"), "");
    assert_int_equal(yard_count(&yard, "corrupt", "c9"), 2);
    assert_int_equal(yard_count(&yard, "corrupt", "c5"), 2);
    assert_int_equal(yard_count(&yard, "corrupt", "no name"), 2);
    assert_int_equal(yard_count(&yard, "corrupt", ""), 6);
}

static void what_is_changed_by_hand_is_put_right_at_once(void **state)
{
    (void)state;
    archive_add("docs");
    submit("c1", "a"), submit("c2", "b"), submit("c3", "c");
    follow();
    look();
    uint64_t n_put = follower.n_put;
    look();
    assert_int_equal(follower.n_put, n_put); /* our own renames are nobody's */
    assert_int_equal(rename(yard_path(&yard, "pending", name_of("c1", MOVE_DC)),
                         yard_path(&yard, "abandon", name_of("c1", MOVE_DC))),
        0);
    assert_int_equal(unlink(yard_path(&yard, "pending", name_of("c2", MOVE_DC))), 0);
    yard_write(&yard, "pending", name_of("c3", MOVE_DC), "something else\n");
    assert_int_equal(symlink("/etc/passwd", yard_path(&yard, "fail", "link")), 0);
    look();
    assert_string_equal(where("c1"), "P");
    assert_string_equal(where("c2"), "P");
    says("pending", "c2", "##csid\nc2\n");
    says("pending", "c3", "##files\nc\n##csid\nc3\n");
    assert_int_equal(yard_count(&yard, "corrupt", "link"), 2);
    look(); /* of what that was */
    n_put = follower.n_put;
    look();
    assert_int_equal(follower.n_put, n_put);
}

static void unknown_sections_stay(void **state)
{
    (void)state;
    const char *meta = "##movetype\nDC\n##files\na\n\n##target\ndocs\n##ours\n  blanks \n##message\nwhy\n";
    archive_add("docs");
    yard_write(&yard, "prequeue", name_of("c1", MOVE_DC), meta); /* RQ18: an entry that is a job file */
    submit("c1", "a");
    follow();
    assert_string_equal(where("c1"), "P");
    assert_false(yard_has(&yard, "prequeue", name_of("c1", MOVE_DC)));
    says("pending", "c1", meta);
}

static void a_rollback_without_a_tarball_and_another_tenant(void **state)
{
    (void)state;
    archive_add("docs");
    submit("c1", "a");
    submit_of(NULL, "r1", MOVE_RB, "", "c1");
    follow();
    char *text = yard_read(&yard, "pending", name_of("r1", MOVE_RB));
    if (text == NULL)
        fail_msg("r1 is in '%s'", yard_where(&yard, name_of("r1", MOVE_RB)));
    assert_non_null(strstr(text, "##movetype\nRB\n##target\ndocs\n##dependencies\nc1\n##csid\nr1\n##state\nP\n"));
    free(text);
    assert_string_equal(where("c1"), "S"); /* held by it */
    archive_add_of("other", "docs");
    submit_of("other", "c7", MOVE_DC, "a", ""); /* names belong to tenants: only one tenant's are shown */
    follow();
    assert_string_equal(where("c7"), "");
    follower_repair(&follower);
    follow();
    assert_string_equal(where("c7"), "");
}

static void many_change_sets_are_repaired_in_pages(void **state)
{
    char csid[16], file[16];
    (void)state;
    archive_add("docs");
    for (int i = 0; i < 250; i++) {
        snprintf(csid, sizeof csid, "c%d", i);
        snprintf(file, sizeof file, "f%d", i);
        submit_of(NULL, str_dupz(&rig.arena, str_of(csid)), MOVE_DC, str_dupz(&rig.arena, str_of(file)), "");
    }
    assert_true(follow() > 3);
    assert_int_equal(yard_count(&yard, "pending", "c"), 250);
    assert_int_equal(follower.n_put, 250);
    follower_repair(&follower);
    follow();
    assert_int_equal(follower.n_put, 250); /* all of them stand right */
}

/* A step that fails passes nothing over. */
static void what_fails_is_done_again(void **state)
{
    struct err err = { 0 };
    bool more = true;
    (void)state;
    archive_add("docs");
    follow();
    submit("c1", "a"), submit("c2", "b");
    int pending = yard.folders.fds[FOLDER_PENDING];
    yard.folders.fds[FOLDER_PENDING] = -1;
    assert_false(follower_step(&follower, &more, &err));
    assert_int_equal(err.code, ERR_io);
    yard.folders.fds[FOLDER_PENDING] = pending;
    follow();
    assert_string_equal(where("c1"), "P");
    assert_string_equal(where("c2"), "P");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rq13_directories_follow_states),
        TEST(the_start_repairs_from_the_store),
        TEST(what_is_changed_by_hand_is_put_right_at_once),
        TEST(unknown_sections_stay),
        TEST(a_rollback_without_a_tarball_and_another_tenant),
        TEST(many_change_sets_are_repaired_in_pages),
        TEST(what_fails_is_done_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
