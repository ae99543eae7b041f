/* intake: what a tarball becomes: its name, its CSID, the definition that the engine gets; what is refused; tmp/. The
 * child that unpacks is the one of test/unit/unpack. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unpack/tarball.h"
#include "spool/intake.h"

#define NOW_NS (int64_t)1700000000123456789
#define NOW_TAI "400000006553f10a075bcd15"
#define META \
    "##movetype\nBF\n##target\ndocs\n##files\na\nd/b\n##removed\nold\n##dependencies\nc-1\nc-2\n" \
    "##message\nWhy\n##base\n7\n##approval\nT-1\n##precursors\nc-3\n"

static const char *program;
static const struct changeset_limits limits = {
    .unpacked_bytes = 1 << 20, .meta_bytes = 1 << 16, .files = 100, .path_bytes = 100, .depth = 10
};
static struct arena arena;
static struct err err;

static int tarball_of(const char *meta, bool has_files)
{
    struct buf out;
    buf_init(&out, SIZE_MAX);
    tarball_put(&out, (struct tar_put){ .name = "meta", .data = str_of(meta) });
    if (has_files) {
        tarball_put(&out, (struct tar_put){ .name = "lroot/a", .data = STR("A") });
        tarball_put(&out, (struct tar_put){ .name = "lroot/d/b", .data = STR("B"), .mode = 0755 });
    }
    tarball_end(&out);
    int fd = tarball_file(buf_str(&out));
    buf_release(&out);
    return fd;
}

static struct intake_order order_of(int fd, const char *name)
{
    return (struct intake_order){ .tarball_fd = fd,
        .name = str_of(name),
        .host = "node a",
        .now_ns = NOW_NS,
        .actor = { STR("token:ada"), STR("default") },
        .limits = &limits,
        .program = program };
}

static bool read_it(int fd, const char *name, struct intake *out)
{
    struct intake_order order = order_of(fd, name);
    arena_reset(&arena);
    err = (struct err){ .arena = &arena };
    bool good = intake_read(&order, &arena, out, &err);
    if (fd >= 0)
        close(fd);
    return good;
}

static void assert_str(struct str got, const char *wanted)
{
    if (!str_eqz(got, wanted))
        fail_msg("'%.*s' instead of '%s'", STR_ARG(got), wanted);
}

static void a_definition_has_all(void **state)
{
    (void)state;
    struct intake intake;
    char wanted[400], hex[2 * UNPACK_HASH_BYTES + 1];
    static const char name[] = "c-17_" NOW_TAI "_812_node-a_BF05_ada";
    if (!read_it(tarball_of(META, true), name, &intake))
        fail_msg("%s", err.text);
    const struct changeset_def *def = &intake.def;
    assert_str(def->csid, "c-17");
    assert_str(def->name, name);
    assert_str(def->target, "docs");
    assert_int_equal(def->movetype, MOVE_BF);
    assert_int_equal(def->prio, 305);
    assert_int_equal(def->tai, NOW_NS);
    assert_str(def->files, "a\nd/b");
    assert_str(def->removed, "old");
    assert_int_equal(def->n_depends, 2);
    assert_str(def->depends[1], "c-2");
    assert_int_equal(def->n_precursors, 1);
    assert_str(def->submitter, "token:ada");
    assert_str(def->ticket, "T-1");
    assert_memory_equal(def->hash, intake.content.sha256, sizeof def->hash);
    assert_int_equal(def->bytes, intake.content.tarball_bytes);
    assert_false(def->overlapping || def->again);
    for (size_t i = 0; i < UNPACK_HASH_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", def->hash[i]);
    snprintf(wanted, sizeof wanted,
        "{\"message\":\"Why\",\"depends\":[\"c-1\",\"c-2\"],\"base\":\"7\",\"sha256\":\"%s\",\"tarball_bytes\":%lld}",
        hex, (long long)def->bytes);
    assert_str(def->body, wanted);
}

static void a_name_is_made(void **state)
{
    (void)state;
    struct intake one, two;
    struct changeset_name name;
    static const char plain[] = "##movetype\nDC\n##target\ndocs\n##removed\nold\n";
    assert_true(read_it(tarball_of(plain, false), "", &one));
    struct str text = one.def.name;
    assert_true(changeset_name_parse(text, &name, &err));
    assert_true(csid_check(one.def.csid, &err) && str_eq(name.csid, one.def.csid));
    assert_true(str_starts(one.def.csid, STR("c20231114-221320-")));
    assert_str(name.host, "node-a");
    assert_str(name.extra, "token-ada");
    assert_int_equal(name.pid, getpid());
    assert_int_equal(name.movetype, MOVE_DC);
    assert_int_equal(name.n_digits, 0);
    assert_int_equal(one.def.tai, NOW_NS);
    char first[CSID_CHARS_MAX + 1];
    snprintf(first, sizeof first, "%.*s", STR_ARG(one.def.csid));
    assert_true(read_it(tarball_of(plain, false), "", &two)); /* the same moment */
    assert_false(str_eqz(two.def.csid, first));
}

/* Names of the spool are other people's. */
static void names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "c-17", "c-17_" NOW_TAI "_812_node-a_DC_ada", /* another move type */
        "../x_" NOW_TAI "_812_node-a_BF_ada", "17_" NOW_TAI "_812_node-a_BF_ada",
        "c-1_" NOW_TAI "_812_node-a_BF_ada", /* depends on itself */
        "c-17_400000006553f14800000000_812_h_BF_ada" /* 62 s */ };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct intake intake;
        if (read_it(tarball_of(META, true), names[i], &intake))
            fail_msg("%s is taken", names[i]);
        assert_int_equal(err.code, ERR_invalid);
    }
    struct intake intake;
    assert_true(read_it(tarball_of(META, true), "c-17_400000006553f14600000000_812_h_BF_ada", &intake)); /* 60 s */
}

static void bytes_are_refused(void **state)
{
    (void)state;
    struct intake intake;
    assert_false(read_it(tarball_file((struct str){ 0 }), "", &intake));
    assert_int_equal(err.code, ERR_bad_request);
    assert_false(read_it(tarball_file(STR("no tar")), "", &intake));
    assert_int_equal(err.code, ERR_invalid);
    assert_false(read_it(open("/tmp", O_RDONLY | O_DIRECTORY), "", &intake));
    assert_int_equal(err.code, ERR_io);
    assert_false(read_it(tarball_of("##movetype\nDC\n##files\na\n", true), "", &intake));
    assert_true(err.code == ERR_invalid && err.n_items >= 2); /* no target; a file that isn't listed */
}

static void a_rollback_needs_no_tarball(void **state)
{
    (void)state;
    struct intake intake;
    struct intake_order order = order_of(-1, "rb-1_" NOW_TAI "_812_node-a_RB_ada");
    static const uint8_t none[32];
    arena_reset(&arena);
    err = (struct err){ .arena = &arena };
    assert_true(intake_meta(&order,
        STR("##movetype\nRB\n##target\ndocs\n##dependencies\nc-1\n##overlapping\n##message\nBack\n"), &arena, &intake,
        &err));
    assert_memory_equal(intake.def.hash, none, sizeof none);
    assert_true(intake.def.overlapping && intake.def.n_depends == 1 && intake.def.bytes == 0);
    assert_int_equal(intake.def.prio, 900);
    assert_str(intake.def.body, "{\"message\":\"Back\"}");
    order.name = (struct str){ 0 };
    assert_false(intake_meta(&order, STR("##movetype\nDC\n##target\ndocs\n##removed\na\n"), &arena, &intake, &err));
    assert_int_equal(err.code, ERR_invalid);
    assert_false(intake_meta(&order, STR("##movetype\nRB\n##target\ndocs\n"), &arena, &intake, &err));
}

static void tmp_is_cleared(void **state)
{
    (void)state;
    char dir[] = "/tmp/weir-intake-XXXXXX", path[100];
    struct stat st;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/tmp", dir);
    err = (struct err){ .arena = &arena };
    assert_true(intake_temp_open(path, &err));
    assert_true(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdirat(folder, "intake.dir", 0700) + mkdirat(folder, "intake.dir/lroot", 0700), 0);
    close(openat(folder, "intake.dir/lroot/a", O_WRONLY | O_CREAT, 0600));
    close(openat(folder, "intake.file", O_WRONLY | O_CREAT, 0600));
    close(openat(folder, "other", O_WRONLY | O_CREAT, 0600));
    assert_int_equal(symlinkat("/etc", folder, "intake.link"), 0);
    assert_true(intake_temp_open(path, &err));
    assert_int_equal(unlinkat(folder, "other", 0), 0);
    int fd = intake_temp_file(path, &err);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 0 && (st.st_mode & 0777) == 0600);
    close(fd);
    close(folder);
    assert_int_equal(rmdir(path), 0); /* nothing else was left */
    assert_int_equal(rmdir(dir), 0);
    assert_true(access("/etc/passwd", F_OK) == 0);
    assert_int_equal(intake_temp_file("/nonexistent", &err), -1);
}

static void the_longest_tarball_fits_all(void **state)
{
    (void)state;
    /* a hundred files in a hundred folders, each with a name of its own header */
    assert_true(
        intake_tarball_bytes_max(&limits) > limits.unpacked_bytes + limits.meta_bytes + 200 * (512 + 512 + 512 + 512));
    struct changeset_limits large = { UINT64_C(1) << 40, 1 << 30, 10000000, 2048, 1024 };
    assert_true(intake_tarball_bytes_max(&large) > large.unpacked_bytes); /* no overflow */
}

static int arena_end(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(int argc, char **argv)
{
    program = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_has_all),
        cmocka_unit_test(a_name_is_made),
        cmocka_unit_test(names_are_refused),
        cmocka_unit_test(bytes_are_refused),
        cmocka_unit_test(a_rollback_needs_no_tarball),
        cmocka_unit_test(tmp_is_cleared),
        cmocka_unit_test(the_longest_tarball_fits_all),
    };
    return cmocka_run_group_tests_name("spool-intake", tests, NULL, arena_end);
}
