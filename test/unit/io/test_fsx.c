/* Files replaced as a whole or not at all. */
#include "bed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/fsx.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weir-fsx-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* every test tidies up after itself, and no file was left beside */
}

static const char *in(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void replaces(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    struct arena arena = { 0 };
    struct str got;
    assert_true(fsx_replace(in("a"), STR("one"), 0640, &err));
    assert_true(fsx_replace(in("a"), STR("two, longer"), 0600, &err));
    struct stat st;
    assert_int_equal(stat(in("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(fsx_read(in("a"), 11, &arena, &got, &err));
    assert_true(str_eqz(got, "two, longer"));
    assert_false(fsx_read(in("a"), 10, &arena, &got, &err));
    assert_int_equal(err.code, ERR_body_too_large);
    assert_false(fsx_read(in("b"), 10, &arena, &got, &err));
    assert_int_equal(err.code, ERR_not_found);
    assert_false(fsx_read(folder, 10, &arena, &got, &err));
    assert_int_equal(err.code, ERR_io);
    assert_true(fsx_read("/proc/self/status", 100000, &arena, &got, &err)); /* its size says 0 */
    assert_true(got.len > 100);
    assert_false(fsx_replace(in("no/such/folder"), STR("x"), 0600, &err));
    assert_int_equal(err.code, ERR_not_found);
    assert_true(fsx_remove(in("a"), &err));
    assert_true(fsx_remove(in("a"), &err));
    arena_release(&arena);
}

/* A file that may not grow stands for a full disk: the old content stays, nothing stays beside it. */
static void keeps_the_old_when_full(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    struct arena arena = { 0 };
    struct str got;
    assert_true(fsx_replace(in("a"), STR("old"), 0600, &err));
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){ 10, before.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_false(fsx_replace(in("a"), STR("new and much longer than that"), 0600, &err));
    assert_int_equal(err.code, ERR_disk_full);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_true(fsx_read(in("a"), 100, &arena, &got, &err));
    assert_true(str_eqz(got, "old"));
    unlink(in("a"));
    arena_release(&arena);
}

static void makes_folders(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    mode_t mask = umask(077);
    assert_true(fsx_make_dirs(in("x/y/z"), 0711, &err));
    umask(mask);
    struct stat st;
    assert_int_equal(stat(in("x/y"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0711);
    assert_true(fsx_make_dirs(in("x/y/z/"), 0700, &err));
    assert_true(fsx_replace(in("x/file"), STR(""), 0600, &err));
    assert_false(fsx_make_dirs(in("x/file"), 0700, &err));
    assert_false(fsx_make_dirs(in("x/file/below"), 0700, &err));
    assert_false(fsx_make_dirs("", 0700, &err));
    unlink(in("x/file"));
    rmdir(in("x/y/z"));
    rmdir(in("x/y"));
    rmdir(in("x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces),
        cmocka_unit_test(keeps_the_old_when_full),
        cmocka_unit_test(makes_folders),
    };
    return cmocka_run_group_tests_name("io-fsx", tests, make_folder, drop_folder);
}
