/* Applying to git repositories: hooks as for a push, locks that killed processes leave, branches that are checked out,
 * missing or new, histories with merges and forced pushes. */
#include "apply_bed.h"

#include <sys/stat.h>
#include <unistd.h>

static struct apply *open_at(const char *path, const char *branch)
{
    struct err err = { 0 };
    struct apply *apply = apply_open(ARCHIVE_GIT, str_of(path), str_of(branch), (struct str){ 0 }, &err);
    if (apply == NULL)
        fail_msg("%s: %s", err_name(err.code), err.text);
    return apply;
}

/* try_one: one file "f" by a change set. */
static bool try_one(
    struct apply *apply, const char *csid, const char *content, struct apply_result *out, struct err *err)
{
    struct set set;
    struct source_ident base;
    *err = (struct err){ 0 };
    set_begin(&set, csid);
    set_file(&set, "f", content, false);
    bool good = apply_head(apply, &arena, &base, err) &&
                apply_commit(apply, &arena, &set.change, &set.identity, base, out, err);
    set_end(&set);
    return good;
}

static void committed(struct apply *apply, const char *csid, const char *content)
{
    struct err err;
    struct apply_result result;
    must(try_one(apply, csid, content, &result, &err), &err);
    if (result.end != APPLY_COMMITTED)
        fail_msg("end %d: %.*s", result.end, STR_ARG(result.reason));
}

static void test_checked_out(void **state)
{
    struct err err;
    struct apply_result result;
    (void)state;
    sh("git init -q -b main $T/o && cd $T/o && echo 1 >f && git add f && git commit -qm 1 && git branch side");
    struct apply *apply = open_at(in("o"), "main");
    said(try_one(apply, "CS1", "2", &result, &err), &err, ERR_invalid, "branch 'main' is checked out");
    assert_non_null(strstr(err.text, "check out another branch there, or make the target a bare repository"));
    assert_false(apply_is_temporary(&err));
    sh("git -C $T/o checkout -q side");
    committed(apply, "CS1", "2");
    assert_string_equal(sh_out("git -C $T/o show main:f"), "2");
    sh("git -C $T/o worktree add -q $T/tree main 2>/dev/null"); /* in another work tree */
    said(try_one(apply, "CS2", "3", &result, &err), &err, ERR_invalid, "is checked out");
    apply_close(apply);
    /* an ordinary repository without a commit has its branch checked out too */
    sh("git init -q -b main $T/new");
    apply = open_at(in("new"), "main");
    said(try_one(apply, "CS1", "2", &result, &err), &err, ERR_invalid, "is checked out");
    apply_close(apply);
    arena_release(&arena);
}

static void test_first_commit(void **state)
{
    (void)state;
    sh("git init -q --bare -b main $T/b");
    struct apply *apply = open_at(in("b"), "main");
    struct err err = { 0 };
    struct source_ident at;
    must(apply_head(apply, &arena, &at, &err), &err);
    assert_int_equal(at.id.len, 0);
    committed(apply, "CS1", "1");
    committed(apply, "CS2", "2");
    assert_string_equal(
        sh_out("git -C $T/b log --format=%%an:%%cn:%%s main"), "ada:weir:message of CS2\nada:weir:message of CS1");
    assert_string_equal(
        sh_out("git -C $T/b log -1 --format='%%(trailers:key=Weir-CSID,valueonly)' main | head -1"), "CS2");
    sh("git -C $T/b pack-refs --all && git -C $T/b gc -q");
    committed(apply, "CS3", "3");
    sh("git -C $T/b fsck --strict --no-dangling");
    apply_close(apply);
    arena_release(&arena);
}

static void test_places(void **state)
{
    struct rig rig;
    struct err err = { 0 };
    struct apply_result result;
    (void)state;
    rig_make(&rig, GIT, "");
    assert_null(apply_open(ARCHIVE_GIT, str_of(rig.url), STR("mian"), (struct str){ 0 }, &err));
    assert_int_equal(err.code, ERR_not_found);
    assert_non_null(strstr(err.text, "did you mean 'main'"));
    assert_false(apply_is_temporary(&err));
    sh("mv $T/r $T/away");
    err = (struct err){ 0 };
    assert_null(apply_open(ARCHIVE_GIT, str_of(rig.url), STR("main"), (struct str){ 0 }, &err));
    assert_true(apply_is_temporary(&err));
    assert_false(try_one(rig.apply, "CS1", "1", &result, &err));
    assert_true(apply_is_temporary(&err));
    sh("mkdir $T/r"); /* the disk isn't mounted */
    err = (struct err){ 0 };
    assert_null(apply_open(ARCHIVE_GIT, str_of(rig.url), STR("main"), (struct str){ 0 }, &err));
    assert_true(apply_is_temporary(&err));
    sh("rmdir $T/r && mv $T/away $T/r");
    committed(rig.apply, "CS1", "1"); /* healed, without being opened again */
    sh("cd $T/r && git update-ref refs/heads/side main && git symbolic-ref HEAD refs/heads/side && git update-ref -d "
       "refs/heads/main");
    said(try_one(rig.apply, "CS2", "2", &result, &err), &err, ERR_not_found, "there is no branch 'main'");
    assert_false(apply_is_temporary(&err));
    rig_drop(&rig);
}

/* --- hooks: the same calls as for a push --- */

#define RECORD \
    "for h in pre-receive update post-receive post-update; do printf '%%s\\n' '#!/bin/sh' 'in=$(cat)' " \
    "'in=$(echo $in | sed -E s/[0-9a-f]{40}/ID/g); args=$(echo $* | sed -E s/[0-9a-f]{40}/ID/g)' " \
    "'echo \"${0##*/} [$args] [$in] GIT_DIR=$GIT_DIR index=${GIT_INDEX_FILE-none} $(pwd)\" >>'$T/calls " \
    ">$T/r/hooks/$h; chmod +x $T/r/hooks/$h; done"

static void test_hooks(void **state)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    (void)state;
    rig_make(&rig, GIT, "");
    sh(RECORD);
    sh("cd $T/w && echo x >x && git add x && git commit -qm x && git push -q $T/r main && mv $T/calls $T/pushed");
    setenv("GIT_INDEX_FILE", "/nowhere", 1);
    committed(rig.apply, "CS1", "1");
    unsetenv("GIT_INDEX_FILE");
    sh("diff $T/pushed $T/calls && test $(wc -l <$T/calls) = 4");
    /* a refusal: nothing is committed, the words are the hook's */
    struct source_ident before = head(&rig);
    sh("printf '#!/bin/sh\\necho no ticket >&2; echo ask Eve; exit 3\\n' >$T/r/hooks/update");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_REFUSED);
    assert_true(str_eqz(result.reason, "Blocked by update hook (exit code 3) with output:\nno ticket\nask Eve"));
    assert_true(str_eq(head(&rig).id, before.id));
    sh("printf '#!/bin/sh\\nkill -9 $$\\n' >$T/r/hooks/pre-receive");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_REFUSED);
    assert_true(str_eqz(result.reason, "Blocked by pre-receive hook (killed by signal 9) with no output"));
    /* what is no program refuses, what may not be executed doesn't run, what fails afterwards changes nothing */
    sh("printf '#!/no/such/shell\\n' >$T/r/hooks/pre-receive");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_REFUSED);
    sh("chmod -x $T/r/hooks/pre-receive $T/r/hooks/update && printf '#!/bin/sh\\nexit 9\\n' >$T/r/hooks/post-receive");
    committed(rig.apply, "CS2", "2");
    /* a hook that leaves a process behind, which holds its output open, holds nobody up */
    sh("printf '#!/bin/sh\\nsleep 30 & echo $! >>'$T'/left\\n' >$T/r/hooks/pre-receive && chmod +x "
       "$T/r/hooks/pre-receive");
    uint64_t began = now_us();
    committed(rig.apply, "CS3", "3");
    assert_true(now_us() - began < 20 * 1000000u);
    sh("kill $(cat $T/left)");
    /* elsewhere */
    sh("mkdir $T/hooks && printf '#!/bin/sh\\necho elsewhere; exit 1\\n' >$T/hooks/pre-receive && chmod +x "
       "$T/hooks/pre-receive && "
       "git -C $T/r config core.hooksPath $T/hooks");
    must(try_one(rig.apply, "CS4", "4", &result, &err), &err);
    assert_true(str_eqz(result.reason, "Blocked by pre-receive hook (exit code 1) with output:\nelsewhere"));
    rig_drop(&rig);
}

/* --- locks --- */

static void test_stale_lock(void **state)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    (void)state;
    rig_make(&rig, GIT, "");
    committed(rig.apply, "CS1", "1");
    /* a commit of weir's that was about to follow, its process killed */
    sh("cd $T/r && git commit-tree -p main -m 'x\n\nWeir-CSID: DEAD' main^{tree} >refs/heads/main.lock");
    committed(rig.apply, "CS2", "2");
    /* empty, and old */
    sh("touch -d '2 minutes ago' $T/r/refs/heads/main.lock");
    committed(rig.apply, "CS3", "3");
    /* somebody else's: not touched, named, temporary */
    static const char *const foreign[] = { "touch $T/r/refs/heads/main.lock",
        "git -C $T/r rev-parse main~1 >$T/r/refs/heads/main.lock",
        "cd $T/r && git commit-tree -p main -m foreign main^{tree} >refs/heads/main.lock" };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        sh("%s", foreign[i]);
        said(try_one(rig.apply, "CS4", "4", &result, &err), &err, ERR_unavailable,
            "refs/heads/main.lock: the branch is locked");
        assert_true(apply_is_temporary(&err));
        sh("rm $T/r/refs/heads/main.lock");
    }
    committed(rig.apply, "CS4", "4");
    sh("git -C $T/r fsck --strict --no-dangling");
    rig_drop(&rig);
}

/* --- histories --- */

static bool found_since(struct rig *rig, const char *csid, struct source_ident base)
{
    struct err err = { 0 };
    bool found = false;
    struct source_ident revision;
    must(apply_find(rig->apply, &arena, str_of(csid), base, &found, &revision, &err), &err);
    return found;
}

static void test_histories(void **state)
{
    struct rig rig;
    (void)state;
    rig_make(&rig, GIT, "");
    struct source_ident base = head(&rig);
    committed(rig.apply, "CS1", "1");
    /* somebody merges the branch into his own work and pushes that: our commit is a second parent */
    sh("cd $T/w && echo mine >mine && git add mine && git commit -qm mine && git pull -q --no-rebase --no-edit $T/r "
       "main && "
       "git push -q $T/r main && test $(git rev-list --first-parent main | wc -l) = 3");
    assert_true(found_since(&rig, "CS1", base));
    assert_false(found_since(&rig, "CS1", head(&rig)));
    /* a forced push that drops it: it isn't in the branch */
    struct source_ident merged = head(&rig);
    sh("git -C $T/w push -qf $T/r HEAD~1:main");
    assert_false(found_since(&rig, "CS1", base));
    assert_false(found_since(&rig, "CS1", merged));
    committed(rig.apply, "CS1", "1");
    assert_true(found_since(&rig, "CS1", base));
    /* the base is pruned: all of the branch is searched */
    assert_true(found_since(&rig, "CS1", id("0123456789012345678901234567890123456789")));
    rig_drop(&rig);
}

/* --- kinds of entries: what a change set doesn't name stays, links come back --- */

static void test_entries(void **state)
{
    struct rig rig;
    struct set set;
    (void)state;
    rig_make(&rig, GIT, "");
    sh("cd $T/w && ln -s first link && mkdir keep && echo k >keep/k && echo z >z && chmod +x z && git add . && "
       "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub && git commit -qm kinds && git push -q "
       "$T/r main");
    set_begin(&set, "CS1");
    set_file(&set, "link", "now a file\n", false);
    set_file(&set, "z/x", "x", false);
    set_removed(&set, "z");
    set_removed(&set, "keep/k");
    struct source_ident first = commit_ok(&rig, &set);
    assert_string_equal(sh_out("git -C $T/r ls-tree -r --format='%%(objectmode) %%(path)' main"),
        "100644 first\n100644 link\n160000 sub\n100644 z/x");
    struct apply_result undone = rollback(&rig, "RB1", &first, 1);
    assert_int_equal(undone.end, APPLY_COMMITTED);
    assert_string_equal(sh_out("git -C $T/r ls-tree -r --format='%%(objectmode) %%(path)' main"),
        "100644 first\n100644 keep/k\n120000 link\n160000 sub\n100755 z");
    sh("git -C $T/r diff --exit-code main~2 main");
    set_begin(&set, "CS2");
    set_file(&set, "sub", "x", false);
    struct apply_result result = commit(&rig, &set);
    conflicts(&result, "sub: is neither file nor folder there");
    set_end(&set);
    set_begin(&set, "CS3"); /* all that is there: an empty tree is a tree too */
    static const char *const all[] = { "first", "keep", "link", "sub", "z" };
    for (size_t i = 0; i < 5; i++)
        set_removed(&set, all[i]);
    commit_ok(&rig, &set);
    assert_string_equal(sh_out("git -C $T/r ls-tree -r main"), "");
    sh("git -C $T/r fsck --strict --no-dangling");
    rig_drop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_checked_out, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_first_commit, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_places, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_hooks, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_stale_lock, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_histories, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_entries, bed_make, bed_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
