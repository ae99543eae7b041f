/* Applying to Subversion repositories: hooks, properties, locks, transactions that killed processes leave, a repository
 * that goes and comes back, a server likewise. */
#include "apply_bed.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void hooks_body(enum kind kind)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    rig_make(&rig, kind, "");
    sh("rm -f $T/calls $T/start; for h in start-commit pre-commit post-commit; do printf '%%s\\n' '#!/bin/sh' "
       ">$T/r/hooks/$h; chmod +x $T/r/hooks/$h; done\n"
       "echo \"echo \\$2 >>$T/start\" >>$T/r/hooks/start-commit\n"
       "echo \"/usr/bin/svnlook propget --revprop -t \\$2 \\$1 weir:csid >>$T/calls; /usr/bin/svnlook author -t \\$2 "
       "\\$1 >>$T/calls; /usr/bin/svnlook log -t "
       "\\$2 \\$1 >>$T/calls\" >>$T/r/hooks/pre-commit\n"
       "echo \"echo post \\$2 >>$T/calls; exit 7\" >>$T/r/hooks/post-commit");
    must(try_one(rig.apply, "CS1", "1", &result, &err), &err);
    assert_int_equal(result.end, APPLY_COMMITTED); /* whatever post-commit says */
    assert_string_equal(sh_out("tr '\\n' '|' <$T/calls"),
        kind == LOCAL ? "CS1ada|message of CS1|post 2|" : "CS1|message of CS1|post 2|");
    assert_string_equal(sh_out("cat $T/start"), kind == LOCAL ? "ada" : "");
    sh("echo 'echo no ticket >&2; exit 1' >>$T/r/hooks/pre-commit");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_REFUSED);
    assert_non_null(strstr(result.reason.ptr, "locked by pre-commit hook (exit code 1) with output:\nno ticket"));
    assert_int_equal(head(&rig).rev, 2);
    assert_string_equal(sh_out("svnadmin lstxns $T/r"), "");
    sh("rm $T/r/hooks/pre-commit; echo 'echo closed >&2; exit 1' >>$T/r/hooks/start-commit");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_REFUSED);
    assert_non_null(strstr(result.reason.ptr, "closed"));
    sh("rm $T/r/hooks/start-commit");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_COMMITTED);
    rig_drop(&rig);
}

static void test_hooks(void **state)
{
    (void)state;
    hooks_body(LOCAL);
    hooks_body(SERVED);
}

/* what comes back comes with its properties and its history */
static void props_body(enum kind kind)
{
    struct rig rig;
    struct set set;
    rig_make(&rig, kind, "");
    sh("rm -rf $T/w && svn co -q file://$T/r $T/w && cd $T/w && echo a >a && ln -s a link && mkdir d && echo b >d/b && "
       "svn add -q a link d && "
       "svn ps -q svn:mime-type text/x-a a && svn ps -q svn:executable '*' a && svn ci -qm props");
    set_begin(&set, "CS1");
    set_removed(&set, "a");
    set_removed(&set, "d");
    set_file(&set, "link", "now a file\n", false);
    struct source_ident first = commit_ok(&rig, &set);
    assert_string_equal(sh_out("svn pl -R file://$T/r"), "");
    struct apply_result undone = rollback(&rig, "RB1", &first, 1);
    assert_int_equal(undone.end, APPLY_COMMITTED);
    FILES(&rig, undone.revision, "a* a/|d/b b/|first one/|link@ a|");
    assert_string_equal(sh_out("svn pg svn:mime-type file://$T/r/a"), "text/x-a");
    assert_string_equal(sh_out("svn pg weir:movetype --revprop -r HEAD file://$T/r"), "RB");
    sh("svn log -q file://$T/r/a | grep -q '^r2 '"); /* its history goes on to where it was added */
    rig_drop(&rig);
}

static void test_properties(void **state)
{
    (void)state;
    props_body(LOCAL);
    props_body(SERVED);
}

static void test_locked(void **state)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    (void)state;
    for (enum kind kind = LOCAL; kind <= SERVED; kind++) {
        rig_make(&rig, kind, "");
        must(try_one(rig.apply, "CS1", "1", &result, &err), &err);
        sh("svn lock -q --username eve file://$T/r/f");
        said(try_one(rig.apply, "CS2", "2", &result, &err), &err, ERR_unavailable, "a file is locked");
        assert_true(apply_is_temporary(&err));
        sh("svn unlock -q --force file://$T/r/f");
        must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
        assert_int_equal(result.end, APPLY_COMMITTED);
        rig_drop(&rig);
    }
}

static void test_stale_transactions(void **state)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    (void)state;
    rig_make(&rig, LOCAL, "");
    /* as a killed process leaves them; the second is a day old, the third somebody else's */
    sh("printf '#!/bin/sh\\nkill -9 $PPID\\n' >$T/r/hooks/pre-commit; chmod +x $T/r/hooks/pre-commit");
    for (int i = 0; i < 3; i++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            struct apply *own = apply_open(ARCHIVE_SVN, str_of(rig.url), (struct str){ 0 }, (struct str){ 0 }, &err);
            bool did = try_one(own, "CS1", "1", &result, &err);
            _exit(did);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    sh("rm $T/r/hooks/pre-commit; test $(svnadmin lstxns $T/r | wc -l) = 3");
    sh("cd $T/r && svnadmin setrevprop . -t 1-2 svn:date /dev/stdin <<E\n2020-01-01T00:00:00.000000Z\nE\n"
       "svnadmin setrevprop . -t 1-3 svn:date /dev/stdin <<E\n2020-01-01T00:00:00.000000Z\nE\n"
       "svnadmin delrevprop . -t 1-3 weir:csid");
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_COMMITTED);
    assert_string_equal(sh_out("svnadmin lstxns $T/r | sort | tr '\\n' ' '"), "1-1 1-3 ");
    sh("svnadmin verify -q $T/r");
    rig_drop(&rig);
}

static void test_away(void **state)
{
    struct rig rig;
    struct err err = { 0 };
    struct apply_result result;
    (void)state;
    rig_make(&rig, LOCAL, "");
    assert_null(
        apply_open(ARCHIVE_SVN, str_fmt(&arena, "%s/trunk", rig.url), (struct str){ 0 }, (struct str){ 0 }, &err));
    assert_non_null(strstr(err.text, "no folder 'trunk'"));
    assert_false(apply_is_temporary(&err));
    sh("mv $T/r $T/away");
    assert_false(try_one(rig.apply, "CS1", "1", &result, &err));
    assert_true(apply_is_temporary(&err));
    err = (struct err){ 0 };
    assert_null(apply_open(ARCHIVE_SVN, str_of(rig.url), (struct str){ 0 }, (struct str){ 0 }, &err));
    assert_true(apply_is_temporary(&err));
    sh("mv $T/away $T/r && mv $T/r/db/revs/0/1 $T/lost && mv $T/r/db/current $T/current");
    assert_false(try_one(rig.apply, "CS1", "1", &result, &err));
    assert_true(apply_is_temporary(&err)); /* damaged */
    sh("mv $T/lost $T/r/db/revs/0/1 && mv $T/current $T/r/db/current");
    must(try_one(rig.apply, "CS1", "1", &result, &err), &err);
    assert_int_equal(result.end, APPLY_COMMITTED);
    rig_drop(&rig);
}

static void test_server_away(void **state)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    (void)state;
    rig_make(&rig, SERVED, "");
    must(try_one(rig.apply, "CS1", "1", &result, &err), &err);
    svnserve_end(rig.server);
    rig.server = 0;
    assert_false(try_one(rig.apply, "CS2", "2", &result, &err));
    assert_true(apply_is_temporary(&err));
    rig.server = svnserve_start(&rig.port);
    must(try_one(rig.apply, "CS2", "2", &result, &err), &err);
    assert_int_equal(result.end, APPLY_COMMITTED);
    sh("printf '[general]\\nanon-access = read\\n' >$T/r/conf/svnserve.conf"); /* no right to write: heals too */
    svnserve_end(rig.server);
    rig.server = svnserve_start(&rig.port);
    assert_false(try_one(rig.apply, "CS3", "3", &result, &err));
    assert_true(apply_is_temporary(&err));
    rig_drop(&rig);
}

/* a disk without room: a limit on the size of files stands in for it */
static void test_no_room(void **state)
{
    struct rig rig;
    struct err err;
    struct apply_result result;
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_make(&rig, i == 0 ? LOCAL : GIT, "");
        struct set set;
        set_begin(&set, "CS1");
        set_file(&set, "f", "1", false);
        sh("head -c 300000 /dev/urandom >$T/lroot-%d/f", set.n);
        struct source_ident base = head(&rig);
        struct rlimit old, small;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        signal(SIGXFSZ, SIG_IGN);
        small = (struct rlimit){ 100000, old.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        err = (struct err){ 0 };
        bool did = apply_commit(rig.apply, &arena, &set.change, &set.identity, base, &result, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        said(did, &err, ERR_disk_full, "no room");
        assert_true(apply_is_temporary(&err));
        assert_true(str_eq(head(&rig).id, base.id) && head(&rig).rev == base.rev);
        commit_ok(&rig, &set);
        rig_drop(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hooks, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_properties, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_locked, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_stale_transactions, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_away, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_server_away, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_no_room, bed_make, bed_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
