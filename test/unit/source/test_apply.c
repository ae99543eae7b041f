/* Applying change sets, on a local and a served Subversion repository and on a bare git repository: one commit each,
 * what it says of itself, merges, conflicts, checks, differences, rollbacks and the history read back. */
#include "apply_bed.h"

#include <sys/stat.h>

/* on_all: runs a test's body on each kind, in one bed. */
static void on_all(const char *path, void (*body)(struct rig *rig))
{
    for (enum kind kind = LOCAL; kind < KINDS; kind++) {
        struct rig rig;
        rig_make(&rig, kind, path);
        body(&rig);
        rig_drop(&rig);
        arena = (struct arena){ 0 };
    }
}

/* --- one change set, one commit --- */

static void commit_body(struct rig *rig)
{
    struct set set;
    struct source_ident before = head(rig);
    set_begin(&set, "CS1");
    set_file(&set, "docs/deep/a b%20c.txt", "one\n", false);
    set_file(&set, "run.sh", "#!/bin/sh\n", true);
    set_file(&set, "first", "two\n", false);
    struct source_ident first = commit_ok(rig, &set);
    FILES(rig, first, "docs/deep/a b%20c.txt one/|first two/|run.sh* #!/bin/sh/|");
    FILES(rig, before, "first one/|");
    if (rig->kind != GIT)
        assert_int_equal(first.rev, before.rev + 1);
    /* the bit goes, one file goes, a file becomes a folder */
    set_begin(&set, "CS2");
    set_file(&set, "run.sh", "#!/bin/sh\n", false);
    set_file(&set, "first/now/a folder", "", false);
    set_removed(&set, "first");
    set_removed(&set, "docs/deep/a b%20c.txt");
    FILES(rig, commit_ok(rig, &set), "first/now/a folder |run.sh #!/bin/sh/|");
    /* a folder goes with all that is in it, and what is listed below it too */
    one(rig, "CS3", "first/more", "x");
    set_begin(&set, "CS4");
    set_removed(&set, "first/more");
    set_removed(&set, "first");
    set_file(&set, "first/again", "y", true);
    FILES(rig, commit_ok(rig, &set), "first/again* y|run.sh #!/bin/sh/|");
}

static void test_commit(void **state)
{
    (void)state;
    on_all("", commit_body);
}

static void below_body(struct rig *rig)
{
    struct set set;
    set_begin(&set, "CS1");
    set_file(&set, "a/b", "1", false);
    struct source_ident revision = commit_ok(rig, &set);
    FILES(rig, revision, rig->kind == GIT ? "branches/1.x/a/b 1|first one/|" : "branches/1.x/a/b 1|first one/|");
    set_begin(&set, "CS2");
    set_removed(&set, "a/b");
    set_file(&set, "c", "2", false);
    set_base(&set, head(rig));
    FILES(rig, commit_ok(rig, &set), "branches/1.x/c 2|first one/|");
}

static void test_below_a_path(void **state)
{
    (void)state;
    for (enum kind kind = LOCAL; kind < KINDS; kind++) {
        struct rig rig;
        rig_make(&rig, kind, "/branches/1.x/");
        if (kind != GIT) { /* a folder of Subversion is a branch: somebody makes it */
            struct err err = { 0 };
            struct apply_result result;
            struct set set;
            set_begin(&set, "CS0");
            set_file(&set, "a", "1", false);
            said(apply_commit(rig.apply, &arena, &set.change, &set.identity, head(&rig), &result, &err), &err,
                ERR_not_found, "there is no folder 'branches/1.x'");
            assert_false(apply_is_temporary(&err));
            set_end(&set);
            sh("svn mkdir -q --parents -m branch file://$T/r/branches/1.x");
        }
        below_body(&rig);
        rig_drop(&rig);
        arena = (struct arena){ 0 };
    }
}

/* content that the head has already: the change set is in the history all the same */
static void same_body(struct rig *rig)
{
    struct set set;
    struct source_ident before = head(rig);
    set_begin(&set, "CS1");
    set_file(&set, "first", "one\n", false);
    struct source_ident after = commit_ok(rig, &set);
    assert_false(after.rev == before.rev && str_eq(after.id, before.id));
    FILES(rig, after, "first one/|");
    bool found = false;
    struct source_ident revision;
    struct err err = { 0 };
    must(apply_find(rig->apply, &arena, STR("CS1"), before, &found, &revision, &err), &err);
    assert_true(found && revision.rev == after.rev && str_eq(revision.id, after.id));
    must(apply_find(rig->apply, &arena, STR("CS1"), after, &found, &revision, &err), &err);
    assert_false(found);
    /* a second attempt with an older base finds it */
    struct apply_result result;
    must(apply_commit(rig->apply, &arena, &set.change, &set.identity, before, &result, &err), &err);
    assert_int_equal(result.end, APPLY_FOUND);
    assert_true(result.revision.rev == after.rev && str_eq(result.revision.id, after.id));
}

static void test_same_content_and_find(void **state)
{
    (void)state;
    on_all("", same_body);
}

/* --- what commits say of themselves --- */

struct seen {
    char text[8000];
};

static bool seen_take(void *context, const struct apply_revision *r)
{
    struct seen *seen = context;
    size_t len = strlen(seen->text);
    snprintf(seen->text + len, sizeof seen->text - len,
        "[csid=%.*s sub=%.*s ticket=%.*s type=%.*s dep=%.*s rolls=%.*s cause=%.*s msg=%.*s]", STR_ARG(r->csid),
        STR_ARG(r->submitter), STR_ARG(r->ticket), STR_ARG(r->movetype), STR_ARG(r->depends), STR_ARG(r->rolls_back),
        STR_ARG(r->cause), STR_ARG(r->message));
    assert_true(r->time_ms > 1500000000000);
    return true;
}

static void walk_body(struct rig *rig)
{
    struct set set;
    struct err err = { 0 };
    struct seen seen = { "" };
    struct source_ident before = head(rig);
    const struct str depends[] = { STR("X.1"), STR("Y-2") }, rolls[] = { STR("Z3") };
    set_begin(&set, "CS1");
    set_file(&set, "a", "1", false);
    set.identity.message = STR("Subject\n\nbody\xff\x01 \xc3\xa4\n---\nWeir-CSID: fake\nSigned-off-by: x\n");
    set.identity.submitter = STR("J\xc3\xb6rg <odd>\n name");
    set.identity.ticket = STR("T-1\nWeir-CSID: other");
    set.identity.cause = STR("T:CS1");
    set.identity.depends = depends;
    set.identity.n_depends = 2;
    set.identity.rolls_back = rolls;
    set.identity.n_rolls_back = 1;
    struct source_ident first = commit_ok(rig, &set);
    one(rig, "CS2", "a", "2");
    const struct apply_visitor visitor = { seen_take, &seen };
    must(apply_walk(rig->apply, before, &visitor, &err), &err);
    const char *dashes = rig->kind == GIT ? " ---" : "---";
    char expected[1000];
    snprintf(expected, sizeof expected,
        "[csid=CS1 sub=J\xc3\xb6rg <odd>\xef\xbf\xbd name ticket=T-1\xef\xbf\xbdWeir-CSID: other type=DC dep=X.1 Y-2 "
        "rolls=Z3 cause=T:CS1 "
        "msg=Subject\n\nbody\xef\xbf\xbd\xef\xbf\xbd \xc3\xa4\n%s\nWeir-CSID: fake\nSigned-off-by: x]"
        "[csid=CS2 sub=ada ticket= type=DC dep= rolls= cause= msg=message of CS2]",
        dashes);
    assert_string_equal(seen.text, expected);
    /* the readers of the archive see the cause and the author too */
    struct source_revision revision;
    must(source_revision_read(rig->source, &arena, first, &revision, &err), &err);
    assert_true(str_eqz(revision.cause, "T:CS1"));
    if (rig->kind != SERVED) /* a server sets its own account, here none */
        assert_non_null(strstr(str_dupz(&arena, revision.author), "J\xc3\xb6rg"));
    seen.text[0] = '\0';
    must(apply_walk(rig->apply, (struct source_ident){ 0 }, &visitor, &err), &err);
    assert_non_null(strstr(seen.text, "msg=first][csid=CS1"));
}

static void test_walk(void **state)
{
    (void)state;
    on_all("", walk_body);
}

/* --- merges --- */

#define TEN "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"

static void merge_body(struct rig *rig)
{
    struct set set;
    struct source_ident base = one(rig, "CS1", "f", TEN);
    struct source_ident theirs = one(rig, "CS2", "f", "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    /* another part of the same file: both are kept */
    set_begin(&set, "CS3");
    set_file(&set, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n", true);
    set_base(&set, base);
    FILES(rig, commit_ok(rig, &set), "f* one/2/3/4/5/6/7/8/9/ten/|first one/|");
    /* the same line */
    set_begin(&set, "CS4");
    set_file(&set, "f", "uno\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", false);
    set_file(&set, "g", "new", false);
    set_base(&set, base);
    struct source_ident before = head(rig);
    struct apply_result result = commit(rig, &set);
    conflicts(&result, "f: line 1 was changed by ");
    conflicts(&result, "(change set CS3)");
    assert_int_equal(result.n_conflicts, 1);
    assert_true(str_eqz(result.conflicts[0].path, "f") && str_eqz(result.conflicts[0].csid, "CS3"));
    assert_int_equal(result.conflicts[0].first_line, 1);
    struct source_ident now = head(rig);
    assert_true(now.rev == before.rev && str_eq(now.id, before.id));
    /* the check says the same, and writes nothing */
    struct err err = { 0 };
    struct apply_result checked;
    must(apply_check(rig->apply, &arena, &set.change, &checked, &err), &err);
    conflicts(&checked, "f: line 1 was changed by ");
    set.change.has_base = false; /* without a base it is taken as it is */
    must(apply_check(rig->apply, &arena, &set.change, &checked, &err), &err);
    assert_int_equal(checked.end, APPLY_NONE);
    FILES(rig, commit_ok(rig, &set), "f uno/2/3/4/5/6/7/8/9/10/|first one/|g new|");
    (void)theirs;
}

static void test_merge(void **state)
{
    (void)state;
    on_all("", merge_body);
}

static void kinds_body(struct rig *rig)
{
    struct set set;
    struct source_ident base = one(rig, "CS1", "d/f", "1\n");
    set_begin(&set, "CS2");
    set_removed(&set, "d/f");
    set_file(&set, "n", "theirs\n", false);
    commit_ok(rig, &set);
    struct {
        const char *file, *content, *removed, *text;
        bool based;
    } rows[] = {
        { "d/f", "2\n", NULL, "d/f: was removed by ", true }, { "n", "mine\n", NULL, "n: was added by ", true },
        { "first/x", "", NULL, "first/x: 'first' is no folder there", false },
        { NULL, NULL, "nothing", "nothing: is to be removed and isn't there", false },
        { NULL, NULL, "nothing", "nothing: is to be removed and isn't there", true },
        { NULL, NULL, "d/f", "d/f: nothing is left to do: it was removed by ", true },
        { "n", "theirs\n", "d/f", NULL, true }, /* both did the same */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_begin(&set, str_fmt(&arena, "R%zu", i).ptr);
        if (rows[i].file != NULL)
            set_file(&set, rows[i].file, rows[i].content, false);
        if (rows[i].removed != NULL)
            set_removed(&set, rows[i].removed);
        if (rows[i].based)
            set_base(&set, base);
        struct apply_result result = commit(rig, &set);
        if (rows[i].text != NULL)
            conflicts(&result, rows[i].text);
        else
            assert_int_equal(result.end, APPLY_COMMITTED);
        if (rows[i].text != NULL && strstr(rows[i].text, "by ") != NULL)
            conflicts(&result, "(change set CS2)");
        set_end(&set);
    }
    one(rig, "CS3", "d/g/h", "x");
    set_begin(&set, "CS4");
    set_file(&set, "d", "file", false);
    struct apply_result result = commit(rig, &set);
    conflicts(&result, "d: is a folder there");
    set_end(&set);
    /* a folder in which something has changed since */
    set_begin(&set, "CS5");
    set_removed(&set, "d");
    set_base(&set, base);
    result = commit(rig, &set);
    conflicts(&result, "d: is to be removed and was changed by ");
    conflicts(&result, "(change set CS3)");
    set.change.base = head(rig);
    FILES(rig, commit_ok(rig, &set), "first one/|n theirs/|");
    /* removed by us, changed by them */
    base = head(rig);
    one(rig, "CS6", "n", "other\n");
    set_begin(&set, "CS7");
    set_removed(&set, "n");
    set_base(&set, base);
    result = commit(rig, &set);
    conflicts(&result, "n: is to be removed and was changed by ");
    set_end(&set);
    /* gone, back and gone again: the last one is named */
    set_begin(&set, "CS9");
    set_removed(&set, "n");
    commit_ok(rig, &set);
    one(rig, "CS10", "n", "other\n");
    set_begin(&set, "CS11");
    set_removed(&set, "n");
    commit_ok(rig, &set);
    set_begin(&set, "CS12");
    set_file(&set, "n", "mine\n", false);
    set_base(&set, base);
    result = commit(rig, &set);
    conflicts(&result, "n: was removed by ");
    conflicts(&result, "(change set CS11)");
    set_end(&set);
    one(rig, "CS13", "n", "other\n");
    /* bytes that aren't lines */
    set_begin(&set, "CS8");
    set_file(&set, "n", "x", false);
    set_base(&set, base);
    char path[300];
    snprintf(path, sizeof path, "%s/lroot-%d/n", bed, set.n);
    file_put(path, "a\0b", 3);
    result = commit(rig, &set);
    conflicts(&result, "n: isn't text and was changed by ");
    set_end(&set);
}

static void test_conflicts_of_kinds(void **state)
{
    (void)state;
    on_all("", kinds_body);
}

static void refused_body(struct rig *rig)
{
    static const char *const bad[] = { "../x", "a//b", "/x", ".git/config", "a/.SVN/b", "a/", "x\ny", "\xff" };
    struct apply_result result;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct set set;
        struct err err = { 0 };
        set_begin(&set, "CS1");
        set_removed(&set, bad[i]);
        said(apply_commit(rig->apply, &arena, &set.change, &set.identity, head(rig), &result, &err), &err, ERR_invalid,
            "can't be a path in a change set");
        set_end(&set);
    }
    struct set set;
    struct err err = { 0 };
    set_begin(&set, "CS1");
    set_file(&set, "a", "1", false);
    set_base(&set, rig->kind == GIT ? id("0123456789012345678901234567890123456789") : rev(99));
    said(apply_commit(rig->apply, &arena, &set.change, &set.identity, head(rig), &result, &err), &err, ERR_not_found,
        rig->kind == GIT ? "there is no commit 0123" : "made from revision 99");
    assert_false(apply_is_temporary(&err));
    set_end(&set);
    /* the tarball's files are read without following links */
    set_begin(&set, "CS1");
    set_file(&set, "a", "1", false);
    sh("rm $T/lroot-%d/a && ln -s /etc/passwd $T/lroot-%d/a", set.n, set.n);
    err = (struct err){ 0 };
    said(apply_commit(rig->apply, &arena, &set.change, &set.identity, head(rig), &result, &err), &err, ERR_io,
        "in the unpacked change set");
    set_end(&set);
    FILES(rig, head(rig), "first one/|");
    /* and the place can be used afterwards */
    one(rig, "CS2", "b", "2");
}

static void test_refused(void **state)
{
    (void)state;
    on_all("", refused_body);
}

/* --- differences --- */

static void diff_body(struct rig *rig)
{
    struct set set;
    struct err err = { 0 };
    struct buf text;
    struct source_ident base = one(rig, "CS1", "f", TEN);
    one(rig, "CS2", "f", "one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    one(rig, "CS3", "dir/x y", "gone");
    set_begin(&set, "CS4");
    set_file(&set, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n", true);
    set_file(&set, "new file", "a\nb", false);
    set_removed(&set, "dir");
    set_base(&set, base);
    set.change.has_base = false;
    buf_init(&text, 1 << 20);
    must(apply_diff(rig->apply, &set.change, NULL, &text, &err), &err);
    file_put(in("patch"), text.ptr, text.len);
    struct source_ident before = head(rig);
    sh("rm -rf $T/d");
    export_to(rig->source, before, "d");
    sh("cd $T/d && git init -q . && git apply $T/patch && rm -rf .git");
    struct source_ident after = commit_ok(rig, &set);
    sh("rm -rf $T/e");
    export_to(rig->source, after, "e");
    sh("rmdir $T/e/dir 2>/dev/null || :");
    assert_true(trees_equal(in("d"), in("e")));
    sh("rm -rf $T/d $T/e");
    /* merged: only what the change set does */
    set_begin(&set, "CS5");
    set_file(&set, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\nand\n", false);
    set_base(&set, base);
    buf_reset(&text);
    struct source_ident then = { 0 };
    must(apply_head(rig->apply, &arena, &then, &err), &err);
    must(apply_diff(rig->apply, &set.change, &base, &text, &err), &err);
    assert_non_null(strstr(text.ptr, "@@ -8,3 +8,4 @@"));
    assert_non_null(strstr(text.ptr, "\n+and\n"));
    assert_null(strstr(text.ptr, "-1\n"));
    set_end(&set);
    buf_release(&text);
}

static void test_diff(void **state)
{
    (void)state;
    on_all("", diff_body);
}

/* --- rollbacks --- */

static void rollback_body(struct rig *rig)
{
    struct set set;
    one(rig, "CS1", "f", TEN);
    struct source_ident before = head(rig);
    char *files = strdup(files_of(rig, before));
    set_begin(&set, "CS2");
    set_file(&set, "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\nten\n", true);
    set_file(&set, "new/deep/file", "x", false);
    set_removed(&set, "first");
    struct source_ident second = commit_ok(rig, &set);
    struct source_ident third = one(rig, "CS3", "f", "1\n2\n3\n4\n5\n6\n7\n8\n9\nTEN\n");
    one(rig, "CS4", "f", "one\n2\n3\n4\n5\n6\n7\n8\n9\nTEN\n"); /* stays */
    /* newest first; the later change on another line is kept */
    const struct source_ident both[] = { third, second };
    struct apply_result undone = rollback(rig, "RB1", both, 2);
    assert_int_equal(undone.end, APPLY_COMMITTED);
    FILES(rig, undone.revision, "f one/2/3/4/5/6/7/8/9/10/|first one/|");
    if (rig->kind != GIT) /* the folders that it made are gone as well */
        assert_int_equal(
            sh_status("svn ls -r %lld file://$T/r/new >/dev/null 2>&1", (long long)undone.revision.rev), 1);
    /* the second alone: the third has changed the same line */
    struct source_ident again = { 0 };
    struct apply_result redo = rollback(rig, "RB2", &undone.revision, 1);
    assert_int_equal(redo.end, APPLY_COMMITTED);
    again = redo.revision;
    FILES(rig, again, "f one/2/3/4/5/6/7/8/9/TEN/|new/deep/file x|"); /* the rollback undone: applied again */
    struct apply_result alone = rollback(rig, "RB3", &second, 1);
    conflicts(&alone, "f: line 10 was changed by ");
    assert_true(str_eqz(alone.conflicts[0].csid, "RB2"));
    /* and back: the same tree as before but for the change that stays */
    undone = rollback(rig, "RB4", &again, 1);
    assert_int_equal(undone.end, APPLY_COMMITTED);
    FILES(rig, undone.revision, "f one/2/3/4/5/6/7/8/9/10/|first one/|");
    free(files);
}

static void test_rollback(void **state)
{
    (void)state;
    on_all("", rollback_body);
}

static void rollback_kinds_body(struct rig *rig)
{
    struct set set;
    one(rig, "CS1", "dir/a", "a\n");
    one(rig, "CS2", "dir/b", "b\n");
    set_begin(&set, "CS3"); /* a folder becomes nothing, a file a folder */
    set_removed(&set, "dir");
    set_removed(&set, "first");
    set_file(&set, "first/x", "x", true);
    struct source_ident third = commit_ok(rig, &set);
    FILES(rig, third, "first/x* x|");
    struct apply_result undone = rollback(rig, "RB1", &third, 1);
    assert_int_equal(undone.end, APPLY_COMMITTED);
    FILES(rig, undone.revision, "dir/a a/|dir/b b/|first one/|");
    struct apply_result redone = rollback(rig, "RB2", &undone.revision, 1);
    assert_int_equal(redone.end, APPLY_COMMITTED);
    FILES(rig, redone.revision, "first/x* x|");
    /* an added file that somebody changed, or removed, since */
    struct source_ident added = one(rig, "CS4", "n", "1\n");
    one(rig, "CS5", "n", "2\n");
    struct apply_result result = rollback(rig, "RB3", &added, 1);
    conflicts(&result, "n: was changed by ");
    conflicts(&result, "(change set CS5)");
    set_begin(&set, "CS6");
    set_removed(&set, "n");
    struct source_ident gone = commit_ok(rig, &set);
    /* all three at once are fine; what is undone isn't named as being in the way */
    struct source_ident five = { 0 };
    bool found = false;
    struct err err = { 0 };
    must(apply_find(rig->apply, &arena, STR("CS5"), added, &found, &five, &err), &err);
    assert_true(found);
    const struct source_ident all[] = { gone, five, added };
    result = rollback(rig, "RB4", all, 2);
    assert_int_equal(result.end, APPLY_COMMITTED);
    FILES(rig, result.revision, "first/x* x|n 1/|");
    result = rollback(rig, "RB5", &result.revision, 1);
    assert_int_equal(result.end, APPLY_COMMITTED);
    FILES(rig, result.revision, "first/x* x|");
    result = rollback(rig, "RB6", all, 3);
    FILES(rig, result.revision, "first/x* x|");
    assert_int_equal(result.end, APPLY_COMMITTED);
    /* the last change of the file is a member's: the one before it is in the way */
    one(rig, "M0", "m", "1\n2\n3\n4\n");
    struct source_ident older = one(rig, "M1", "m", "1\n2\n3\nfour\n");
    one(rig, "X1", "m", "1\n2\n3\nFOUR\n");
    const struct source_ident members[] = { one(rig, "M2", "m", "one\n2\n3\nFOUR\n"), older };
    result = rollback(rig, "RB7", members, 2);
    conflicts(&result, "m: line 4 was changed by ");
    conflicts(&result, "(change set X1)");
}

static void test_rollback_of_kinds(void **state)
{
    (void)state;
    on_all("", rollback_kinds_body);
}

/* --- a foreign commit in between: begins again from the new head --- */

static void foreign_body(struct rig *rig)
{
    struct set set;
    struct err err = { 0 };
    struct apply_result result;
    struct source_ident base = head(rig);
    if (rig->kind == GIT)
        sh("cd $T/w && git pull -q $T/r main && echo other >other && git add other && git commit -qm other && git push "
           "-q $T/r main");
    else
        sh("svnmucc -m other put $T/first.txt file://$T/r/other >/dev/null");
    set_begin(&set, "CS1");
    set_file(&set, "first", "two\n", false);
    must(apply_commit(rig->apply, &arena, &set.change, &set.identity, base, &result, &err), &err);
    assert_int_equal(result.end, APPLY_COMMITTED);
    FILES(rig, result.revision, rig->kind == GIT ? "first two/|other other/|" : "first two/|other one/|");
    set_end(&set);
}

static void test_foreign(void **state)
{
    (void)state;
    on_all("", foreign_body);
}

/* --- many files: the cost is theirs --- */

static int n_entries(const char *text)
{
    int n = 0;
    for (; *text != '\0'; text++)
        n += *text == '|';
    return n;
}

static void many_body(struct rig *rig)
{
    const int N = getenv("WEIR_FILES") != NULL ? (int)strtol(getenv("WEIR_FILES"), NULL, 10) : 200;
    struct set set;
    struct apply_file *files = calloc((size_t)N, sizeof *files);
    set_begin(&set, "CS1");
    sh("cd $T/lroot-%d && for d in 0 1 2 3 4 5 6 7 8 9; do mkdir -p d$d && (cd d$d && seq 1 %d | split -l 1 -a 4 -d - "
       "f); done",
        set.n, N / 10);
    for (int i = 0; i < N; i++)
        files[i] = (struct apply_file){ str_fmt(&arena, "d%d/f%04d", i / (N / 10), i % (N / 10)), i % 7 == 0 };
    set.change.files = files;
    set.change.n_files = (size_t)N;
    uint64_t began = now_us();
    commit_ok(rig, &set);
    uint64_t first_us = now_us() - began;
    print_message("    %d files: %llu ms\n", N, (unsigned long long)(first_us / 1000));
    struct source_ident all = head(rig);
    struct source_ident at = head(rig);
    const char *text = files_of(rig, at);
    assert_int_equal(n_entries(text), N + 1);
    one(rig, "CS2", "first", "two\n");
    began = now_us();
    assert_int_equal(rollback(rig, "RB1", &all, 1).end, APPLY_COMMITTED);
    print_message("    undone: %llu ms\n", (unsigned long long)((now_us() - began) / 1000));
    FILES(rig, head(rig), "first two/|");
    free(files);
}

static void test_many(void **state)
{
    (void)state;
    on_all("", many_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_commit, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_below_a_path, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_same_content_and_find, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_walk, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_merge, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_conflicts_of_kinds, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_refused, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_diff, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_rollback, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_rollback_of_kinds, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_foreign, bed_make, bed_drop),
        cmocka_unit_test_setup_teardown(test_many, bed_make, bed_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
