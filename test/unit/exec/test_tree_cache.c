/* Trees of revisions: made once, from each other, kept within limits; tars that come in pieces of any size. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "exec/tree/copy.h"
#include "exec/tree/tree_cache.h"
#include "exec/tree/untar.h"
#include "exec/workdir.h"

static char root[64];
static int root_fd, cache_fd;

static bool shell(const char *script)
{
    char sh[] = "sh", option[] = "-ec", *text = strdup(script);
    char *const argv[] = { sh, option, text, root, NULL };
    pid_t pid;
    int status = -1;
    bool good =
        posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0;
    free(text);
    return good;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/weir-trees-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cache_fd = workdir_open(root_fd, "trees");
    bool made = shell("cd $0; svnadmin create r; mkdir i\n"
                      "for n in 1 2 3 4 5 6; do echo $n >i/f; svn import -qm \"r $n\" i file://$0/r/d$n; done");
    return root_fd >= 0 && cache_fd >= 0 && made ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    close(cache_fd);
    workdir_empty(root_fd);
    close(root_fd);
    return rmdir(root);
}

static bool take(int64_t rev, struct tree_cache_limits limits, int *tree_fd, int *lock_fd, struct err *err)
{
    char url[128];
    snprintf(url, sizeof url, "%s/r", root);
    struct tree_request request = { .kind = ARCHIVE_SVN, .archive = STR("ark"), .url = str_of(url), .rev = rev };
    return tree_cache_take(cache_fd, &request, limits, NULL, tree_fd, lock_fd, err);
}

static size_t count(void)
{
    char text[16] = "";
    assert_true(shell("ls $0/trees | grep -vc lock >$0/n || :"));
    int fd = openat(root_fd, "n", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtoul(text, NULL, 10) : 0;
}

static void makes_and_forgets(void **state)
{
    (void)state;
    const struct tree_cache_limits two = { 2, UINT64_MAX };
    struct err err = { .code = ERR_none };
    int tree, lock, kept_tree, kept_lock;
    assert_true(take(1, two, &kept_tree, &kept_lock, &err));
    assert_int_equal(faccessat(kept_tree, "d1/f", R_OK, 0), 0);
    for (int64_t rev = 2; rev <= 5; rev++) {
        assert_true(take(rev, two, &tree, &lock, &err));
        char path[16];
        snprintf(path, sizeof path, "d%d/f", (int)rev);
        assert_int_equal(faccessat(tree, path, R_OK, 0), 0);
        assert_int_equal(faccessat(tree, "d1/f", R_OK, 0), 0);
        close(tree);
        close(lock);
    }
    assert_int_equal(count(), 3); /* the newest two, and the one that is in use */
    assert_int_equal(faccessat(kept_tree, "d1/f", R_OK, 0), 0);
    close(kept_tree);
    close(kept_lock);
    assert_true(take(6, two, &tree, &lock, &err));
    close(tree);
    close(lock);
    assert_int_equal(count(), 2);
}

static void tells_failures(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    int tree, lock;
    size_t before = count();
    assert_false(take(999, TREE_CACHE_LIMITS_USUAL, &tree, &lock, &err));
    assert_int_not_equal(err.code, ERR_none);
    struct tree_request request = { .kind = ARCHIVE_SVN, .archive = STR("../x"), .url = STR("/r"), .rev = 1 };
    assert_false(tree_cache_take(cache_fd, &request, TREE_CACHE_LIMITS_USUAL, NULL, &tree, &lock, &err));
    assert_int_equal(err.code, ERR_invalid);
    assert_int_equal(count(), before);
    assert_true(shell("test -z \"$(ls -A $0/trees | grep '^[.]' || :)\"")); /* nothing half */
}

/* The power cut: files lose their bytes, and the machine starts again. */
static void a_tree_of_another_boot_is_not_used(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    int tree, lock;
    for (int64_t rev = 5; rev <= 6; rev++) { /* used again, then as the base of another */
        assert_true(shell("rm -rf $0/trees/*"));
        assert_true(take(5, TREE_CACHE_LIMITS_USUAL, &tree, &lock, &err));
        close(tree);
        close(lock);
        assert_true(shell("for f in $0/trees/ark.*/d*/f; do touch -r $f $0/time; : >$f; touch -r $0/time $f; done\n"
                          "sed -i '2s/^./z/' $0/trees/ark.*.lock"));
        assert_true(take(rev, TREE_CACHE_LIMITS_USUAL, &tree, &lock, &err));
        assert_true(shell("test -s $0/trees/ark.*.5/d3/f -o -s $0/trees/ark.*.6/d3/f"));
        close(tree);
        close(lock);
    }
    assert_true(take(6, TREE_CACHE_LIMITS_USUAL, &tree, &lock, &err));
    close(tree);
    close(lock);
    assert_int_equal(count(), 1); /* the one of the other boot is gone */
}

static void a_tree_that_was_written_to_is_no_base(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    int tree, lock;
    assert_true(shell("rm -rf $0/trees/*"));
    assert_true(take(5, TREE_CACHE_LIMITS_USUAL, &tree, &lock, &err));
    close(tree);
    close(lock);
    assert_true(shell("for f in $0/trees/ark.*/d2/f; do : >$f; touch -d '1 minute' $f; done"));
    assert_true(take(6, TREE_CACHE_LIMITS_USUAL, &tree, &lock, &err));
    struct stat st;
    assert_int_equal(fstatat(tree, "d2/f", &st, 0), 0);
    assert_int_equal(st.st_size, 2);
    close(tree);
    close(lock);
}

static void leftovers_go(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    int tree, lock;
    assert_true(shell("mkdir -p $0/trees/.new.1.1/x $0/trees/.gone.1.1/y"));
    assert_true(take(3, (struct tree_cache_limits){ 2, UINT64_MAX }, &tree, &lock, &err));
    close(tree);
    close(lock);
    assert_true(shell("test -z \"$(ls -A $0/trees | grep '^[.]' || :)\""));
}

static void tar_in_pieces(void **state)
{
    (void)state;
    struct arena arena = { 0 };
    assert_true(shell(
        "cd $0; mkdir -p t/dir; echo hello >t/dir/file; ln -s dir/file t/link; printf x >t/exec; chmod +x t/exec\n"
        "tar -C t -cf tar ."));
    static char bytes[1 << 20];
    int fd = openat(root_fd, "tar", O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(len > 0);
    for (size_t step = 1; step < 2000; step = step * 3 + 1) {
        struct err err = { .code = ERR_none };
        struct untar untar;
        int out = workdir_open(root_fd, "out");
        untar_init(&untar, out);
        for (size_t at = 0; at < (size_t)len; at += step)
            assert_true(untar_add(&untar, str_sub((struct str){ bytes, (size_t)len }, at, at + step), &err));
        assert_true(untar_finish(&untar, &err));
        untar_release(&untar);
        assert_true(shell("cd $0/out; test \"$(cat link)\" = hello; test -x exec; test ! -x dir/file"));
        close(out);
        assert_true(workdir_remove(root_fd, "out"));
    }
    /* No damage of a header makes it write outside or crash; most of it is refused. */
    for (size_t at = 0; at < 2048; at++) {
        struct err err = { .code = ERR_none };
        struct untar untar;
        int out = workdir_open(root_fd, "out");
        bytes[at] ^= 0x15;
        untar_init(&untar, out);
        bool good = untar_add(&untar, (struct str){ bytes, (size_t)len }, &err) && untar_finish(&untar, &err);
        (void)good;
        untar_release(&untar);
        bytes[at] ^= 0x15;
        close(out);
        assert_true(workdir_remove(root_fd, "out"));
    }
    arena_release(&arena);
}

static void copies(void **state)
{
    (void)state;
    struct err err = { .code = ERR_none };
    assert_true(shell("cd $0; mkdir -p from/a/b; echo 1 >from/a/b/f; ln -s nowhere from/l; chmod +x from/a/b/f; mkdir "
                      "links content"));
    int from = workdir_open(root_fd, "from"), links = workdir_open(root_fd, "links"),
        content = workdir_open(root_fd, "content");
    int64_t newest;
    assert_true(copy_links(from, links, &newest, &err) && copy_content(from, content, &err));
    struct stat one, two, three;
    assert_true(fstatat(from, "a/b/f", &one, 0) == 0 && fstatat(links, "a/b/f", &two, 0) == 0 &&
                fstatat(content, "a/b/f", &three, 0) == 0);
    assert_true(one.st_ino == two.st_ino && one.st_ino != three.st_ino && three.st_mode == one.st_mode);
    assert_true(shell("cd $0; test \"$(readlink links/l)\" = nowhere; test \"$(readlink content/l)\" = nowhere\n"
                      "cmp from/a/b/f content/a/b/f"));
    assert_false(copy_links(from, links, &newest, &err)); /* they are there */
    close(from);
    close(links);
    close(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(makes_and_forgets), cmocka_unit_test(tells_failures),
        cmocka_unit_test(leftovers_go), cmocka_unit_test(a_tree_of_another_boot_is_not_used),
        cmocka_unit_test(a_tree_that_was_written_to_is_no_base), cmocka_unit_test(tar_in_pieces),
        cmocka_unit_test(copies) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
