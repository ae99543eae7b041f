/* Hooks: real commits and pushes call ours; what was there still runs, with its output and status; removing puts it
 * back; a weir that hangs delays nobody. */
#include "bed.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/hook.h"

static struct arena arena;

static int make(void **state)
{
    if (bed_make(state) != 0)
        return -1;
    /* A weir that writes down how it was called. A quote and a blank in its path: words are quoted. */
    return sh_status("mkdir \"$T/it's here\" && cat > \"$T/it's here/weir\" <<END\n"
                     "#!/bin/sh\n"
                     "echo \"\\$@ key=\\${WEIR_KEY:-none}\" >> $T/calls.new\n"
                     "while [ -e $T/hang ]; do sleep 0.05; done\n"
                     "cat $T/calls.new > $T/calls\n"
                     "END\n"
                     "chmod +x \"$T/it's here/weir\"\n"
                     "svnadmin create $T/r && svn co -q file://$T/r $T/w && git init -q --bare -b main $T/g && git "
                     "init -q -b main $T/gw");
}

static int drop(void **state)
{
    arena_release(&arena);
    return bed_drop(state);
}

static const char *install(enum archive_kind kind, const char *repository, const char *archive)
{
    struct err err = { 0 };
    struct str options[] = { STR("--server"), STR("unix:/a b/run/notify.sock") };
    struct hook_call call = { str_of(archive), str_of(in("it's here/weir")),
        kind == ARCHIVE_GIT ? STR("main") : STR(""), options, 2 };
    struct hook_paths paths = { 0 };
    must(hook_install(kind, in(repository), &call, &arena, &paths, &err), &err);
    assert_int_equal(paths.n_installed, paths.n_wanted);
    return paths.installed[0];
}

/* refuses: hook_install of these words, with that text. */
static void refuses(enum archive_kind kind, const char *repository, const char *archive, const char *program,
    struct str option, enum err_code code, const char *text)
{
    struct err err = { 0 };
    struct hook_call call = { str_of(archive), str_of(program), { 0 }, &option, option.len > 0 };
    said(hook_install(kind, in(repository), &call, &arena, NULL, &err), &err, code, text);
}

static size_t installed(enum archive_kind kind, const char *repository, const char *archive)
{
    struct err err = { 0 };
    struct hook_paths paths;
    must(hook_find(kind, in(repository), str_of(archive), &arena, &paths, &err), &err);
    return paths.n_installed;
}

static void removed(enum archive_kind kind, const char *repository, const char *archive)
{
    struct err err = { 0 };
    must(hook_remove(kind, in(repository), str_of(archive), &err), &err);
}

/* calls_are: weir was called so, as it will be in a moment. */
static void calls_are(const char *expected)
{
    uint64_t deadline = now_us() + 20 * 1000000u;
    while (strcmp(sh_out("sort $T/calls 2>/dev/null || :"), expected) != 0) {
        if (now_us() > deadline)
            assert_string_equal(sh_out("sort $T/calls || :"), expected);
        poll(NULL, 0, 20);
    }
    sh("rm -f $T/calls $T/calls.new");
}

static void commit(const char *name)
{
    sh("cd $T/w && echo %s >> %s && svn add -q --force . && svn ci -qm 'a commit'", name, name);
}

static void plain(void **state)
{
    (void)state;
    const char *path = install(ARCHIVE_SVN, "r", "docs");
    assert_string_equal(path, in("r/hooks/post-commit"));
    assert_string_equal(sh_out("wc -l < %s", path), "2");
    commit("one");
    calls_are("notify docs 1 --txn 0-0 --server unix:/a b/run/notify.sock key=none");
    sh("cp %s $T/before", path);
    install(ARCHIVE_SVN, "r", "docs");
    sh("cmp %s $T/before", path);
    install(ARCHIVE_SVN, "r", "more");
    commit("two");
    calls_are(
        "notify docs 2 --txn 1-1 --server unix:/a b/run/notify.sock key=none\nnotify more 2 --txn 1-1 --server unix:/a "
        "b/run/notify.sock key=none");
    assert_int_equal(installed(ARCHIVE_SVN, "r", "docs"), 1);
    removed(ARCHIVE_SVN, "r", "docs");
    assert_int_equal(installed(ARCHIVE_SVN, "r", "docs"), 0);
    commit("three");
    calls_are("notify more 3 --txn 2-2 --server unix:/a b/run/notify.sock key=none");
    removed(ARCHIVE_SVN, "r", "more");
    removed(ARCHIVE_SVN, "r", "more");
    assert_int_not_equal(access(path, F_OK), 0);
    /* a job's commit: its hook has no environment, but the process that commits has */
    sh("svnadmin create $T/j");
    install(ARCHIVE_SVN, "j", "docs");
    /* told before the commit came back */
    sh("WEIR_KEY=docs@1:t svn mkdir -q -m job file://$T/j/by-a-job && test -s $T/calls");
    calls_are("notify docs 1 --txn 0-0 --server unix:/a b/run/notify.sock key=docs@1:t");
    /* the hook's own environment is passed on */
    install(ARCHIVE_SVN, "r", "docs");
    sh("env -i WEIR_KEY=a@1:t %s repo 7 txn", path);
    calls_are("notify docs 7 --txn txn --server unix:/a b/run/notify.sock key=a@1:t");
    removed(ARCHIVE_SVN, "r", "docs");
}

static void beside_another(void **state)
{
    (void)state;
    sh("cat > $T/r/hooks/post-commit <<END\n#!/bin/sh\necho \"theirs $T \\$#\" > $T/theirs; echo told >&2; exit "
       "3\nEND\nchmod 750 "
       "$T/r/hooks/post-commit\n"
       "cp -p $T/r/hooks/post-commit $T/original");
    const char *path = install(ARCHIVE_SVN, "r", "docs");
    install(ARCHIVE_SVN, "r", "docs");
    sh("cd $T/w && svn up -q && echo 4 >> four && svn add -q four && svn ci -m 'a commit' > $T/said 2>&1; grep -q told "
       "$T/said && grep -q "
       "'exit code 3' $T/said");
    calls_are("notify docs 4 --txn 3-3 --server unix:/a b/run/notify.sock key=none");
    sh("grep -q 'theirs .* 3' $T/theirs && test $(stat -c %%a %s.before-weir) = 750", path);
    removed(ARCHIVE_SVN, "r", "docs");
    sh("cmp %s $T/original && test $(stat -c %%a %s) = 750 && test ! -e %s.before-weir", path, path, path);
    /* one that isn't executable isn't run, as before, and fails nothing */
    sh("chmod 644 %s && rm $T/theirs", path);
    install(ARCHIVE_SVN, "r", "docs");
    sh("%s a 5 b && test ! -e $T/theirs", path);
    calls_are("notify docs 5 --txn b --server unix:/a b/run/notify.sock key=none");
    removed(ARCHIVE_SVN, "r", "docs");
    sh("cmp %s $T/original && test $(stat -c %%a %s) = 644 && rm %s", path, path, path);
    /* a link stays a link */
    sh("ln -s $T/original %s", path);
    install(ARCHIVE_SVN, "r", "docs");
    removed(ARCHIVE_SVN, "r", "docs");
    sh("test $(readlink %s) = $T/original && rm %s", path, path);
}

static void git_push(void **state)
{
    (void)state;
    sh("cat > $T/g/hooks/post-receive <<END\n#!/bin/sh\ncat > $T/lines\nEND\nchmod +x $T/g/hooks/post-receive");
    const char *path = install(ARCHIVE_GIT, "g", "code");
    sh("cd $T/gw && git commit -q --allow-empty -m 1 && WEIR_KEY=code@1:t git push -q $T/g main && grep -q "
       "refs/heads/main $T/lines");
    calls_are(
        sh_out("echo notify code $(git -C $T/gw rev-parse main) --server unix:/a b/run/notify.sock key=code@1:t"));
    removed(ARCHIVE_GIT, "g", "code");
    sh("grep -q 'cat >' %s", path);
    sh("git -C $T/g config core.hooksPath /elsewhere");
    refuses(ARCHIVE_GIT, "g", "code", "/weir", STR(""), ERR_invalid, "core.hooksPath");
    sh("git -C $T/g config --unset core.hooksPath && rm -rf $T/g/hooks");
    install(ARCHIVE_GIT, "g", "code"); /* makes the folder */
    removed(ARCHIVE_GIT, "g", "code");
}

/* An ordinary repository: a commit comes by more ways than a push. Each tells the branch's commit; what was there runs
 * on. */
static void git_ordinary(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "git commit -q --allow-empty -m 1",
        "git commit -q --amend --allow-empty -m 1b",
        "git checkout -q -b side && echo s > s && git add s && git commit -q -m s && git checkout -q main && "
        "git merge -q --no-ff -m m side",
        "git checkout -q -b pick HEAD~1 && echo p > p && git add p && git commit -q -m p && git checkout -q main && "
        "git cherry-pick pick",
        "git revert --no-edit HEAD",
        "git checkout -q -b base HEAD~1 && echo b > b && git add b && git commit -q -m b && git checkout -q main && "
        "git rebase -q base",
        "echo a > a && git add a && git commit -q -m a && git format-patch -1 -o $T/patches && git reset -q --hard "
        "HEAD~1 && "
        "git am -q $T/patches/*",
        "git checkout -q -b ahead && git commit -q --allow-empty -m f && git checkout -q main && git merge -q "
        "--ff-only ahead",
        "git checkout -q side && git clone -q $T/o $T/o2 && cd $T/o2 && git checkout -q main && git commit -q "
        "--allow-empty -m push && "
        "git push -q origin main",
    };
    sh("git init -q -b main $T/o && printf '#!/bin/sh\necho \"$@\" >> %s/amends; exit 1\n' > "
       "$T/o/.git/hooks/post-rewrite && "
       "cd $T/o && chmod +x .git/hooks/post-rewrite && cp -p .git/hooks/post-rewrite $T/rewrite && git commit -q "
       "--allow-empty -m 0",
        in(""));
    install(ARCHIVE_GIT, "o/.git", "code");
    assert_int_equal(installed(ARCHIVE_GIT, "o/.git", "code"), 5);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        sh("cd $T/o && export WEIR_KEY=code@1:t && %s", ways[i]);
        sh("grep -q \"notify code $(git -C $T/o rev-parse main) .*key=code@1:t\" $T/calls && rm -f $T/calls "
           "$T/calls.new");
    }
    sh("grep -q amend $T/amends && grep -q rebase $T/amends");
    removed(ARCHIVE_GIT, "o/.git", "code");
    sh("cmp $T/o/.git/hooks/post-rewrite $T/rewrite && cd $T/o/.git/hooks && ! ls | grep -v sample | grep -v "
       "post-rewrite");
    /* one that is in the way keeps all of them out, and none is left there */
    sh("mkdir $T/o/.git/hooks/post-applypatch");
    refuses(ARCHIVE_GIT, "o/.git", "code", "/weir", STR(""), ERR_invalid, "isn't a file");
    sh("cd $T/o/.git/hooks && ! ls | grep -v sample | grep -v post-rewrite | grep -v post-applypatch");
}

/* weir hangs: the commit is through while it does. */
static void hanging(void **state)
{
    (void)state;
    install(ARCHIVE_SVN, "r", "docs");
    install(ARCHIVE_GIT, "g", "code");
    sh("touch $T/hang");
    uint64_t began = now_us();
    sh("cd $T/w && svn up -q && echo h >> hang && svn add -q hang && timeout 20 svn ci -qm 'a commit'");
    sh("cd $T/gw && git commit -q --allow-empty -m h && timeout 20 git push -q $T/g main");
    print_message("commit and push beside a weir that hangs: %llu ms\n", (unsigned long long)(now_us() - began) / 1000);
    assert_int_not_equal(access(in("calls"), F_OK), 0);
    sh("rm $T/hang");
    calls_are(sh_out("echo notify code $(git -C $T/gw rev-parse main) --server unix:/a b/run/notify.sock key=none; "
                     "echo notify docs 5 --txn 4-4 --server unix:/a b/run/notify.sock key=none"));
    removed(ARCHIVE_SVN, "r", "docs");
    removed(ARCHIVE_GIT, "g", "code");
}

static void refused(void **state)
{
    (void)state;
    struct err err = { 0 };
    refuses(ARCHIVE_SVN, "nowhere", "a", "/weir", STR(""), ERR_not_found, "no repository");
    refuses(ARCHIVE_EXTERNAL, "r", "a", "/weir", STR(""), ERR_invalid, "only local");
    refuses(ARCHIVE_SVN, "r", "a;b", "/weir", STR(""), ERR_invalid, "name of an archive");
    refuses(ARCHIVE_SVN, "r", "a", "weir", STR(""), ERR_invalid, "full path");
    refuses(ARCHIVE_SVN, "r", "a", "/weir", STR("a\nb"), ERR_invalid, "control");
    install(ARCHIVE_SVN, "r", "docs");
    sh("echo mine >> $T/r/hooks/post-commit");
    refuses(ARCHIVE_SVN, "r", "b", "/weir", STR(""), ERR_invalid, "somebody changed");
    said(hook_remove(ARCHIVE_SVN, in("r"), STR("docs"), &err), &err, ERR_invalid, "somebody changed");
    sh("printf '#!/bin/sh\\n' > $T/r/hooks/post-commit && echo old > $T/r/hooks/post-commit.before-weir");
    refuses(ARCHIVE_SVN, "r", "b", "/weir", STR(""), ERR_invalid, "in the way");
    /* as an install leaves it that was cut short */
    sh("ln -f $T/r/hooks/post-commit $T/r/hooks/post-commit.before-weir");
    install(ARCHIVE_SVN, "r", "docs");
    removed(ARCHIVE_SVN, "r", "docs");
    assert_string_equal(sh_out("cat $T/r/hooks/post-commit"), "#!/bin/sh");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(beside_another),
        cmocka_unit_test(git_push),
        cmocka_unit_test(git_ordinary),
        cmocka_unit_test(hanging),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
