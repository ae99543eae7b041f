/* A Subversion repository whose folder is here: revisions, what they touched, workflow files, and everything that can
 * be wrong. */
#include "bed.h"

#include <sys/wait.h>
#include <unistd.h>

static struct arena arena;

/* A repository with a working copy and seven revisions. */
static int history_make(void **state)
{
    if (bed_make(state) != 0)
        return -1;
    return sh_status(
        "svnadmin create $T/r && svn co -q file://$T/r $T/w && cd $T/w\n"
        "mkdir -p docs/deep _workflows && echo one > docs/a.txt && echo two > docs/deep/b.txt && echo '- name: a' > "
        "_workflows/a.yaml\n"
        "svn add -q docs _workflows && svn ci -qm 'first\nsecond line'\n"                                     /* 1 */
        "echo more >> docs/a.txt && svn ci -qm 'change' --with-revprop weir:cause='a@1:index'\n"              /* 2 */
        "svn up -q && svn cp -q docs manual && echo x >> manual/a.txt && svn ci -qm copy\n"                   /* 3 */
        "svn up -q && svn rm -q docs && svn ci -qm delete\n"                                                  /* 4 */
        "svn up -q && echo '{}' > _workflows/b.json && svn add -q _workflows/b.json && svn ci -qm workflow\n" /* 5 */
        "svn up -q && svn rm -q manual/deep && svn cp -q _workflows manual/deep && svn ci -qm replace\n"      /* 6 */
        "svn up -q && svn ps -q color red . && svn ci -qm 'property of the root'\n");                         /* 7 */
}

static int history_drop(void **state)
{
    arena_release(&arena);
    return bed_drop(state);
}

static const char *changes_text(const struct source_revision *revision)
{
    static char text[4096];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < revision->n_changes; i++) {
        const struct source_change *change = &revision->changes[i];
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c %.*s%s", i > 0 ? ", " : "", " AMDR"[change->kind],
            STR_ARG(change->path), change -> is_folder ? "/" : "");
        if (change->copied_from.len > 0)
            len += (size_t)snprintf(text + len, sizeof text - len, " < %.*s@%lld", STR_ARG(change->copied_from),
                (long long)change->copied_rev);
    }
    return text;
}

static struct source_revision read_ok(struct source *source, int64_t n)
{
    struct source_revision revision;
    struct err err = { 0 };
    must(source_revision_read(source, &arena, rev(n), &revision, &err), &err);
    assert_int_equal(revision.ident.rev, n);
    return revision;
}

static void revisions(void **state)
{
    (void)state;
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    struct err err = { 0 };
    struct source_ident youngest;
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_int_equal(youngest.rev, 7);
    assert_true(source_is_local(source));
    assert_int_equal(source_uuid(source).len, 36);
    struct source_revision one = read_ok(source, 1);
    assert_true(one.is_first);
    assert_true(str_eqz(one.message, "first\nsecond line"));
    assert_true(one.author.len > 0);
    assert_true(one.time_ms > 1500000000000);
    assert_int_equal(one.cause.len, 0);
    assert_string_equal(changes_text(&one),
        "A _workflows/, A _workflows/a.yaml, A docs/, A docs/a.txt, A docs/deep/, A docs/deep/b.txt");
    struct source_revision two = read_ok(source, 2);
    assert_false(two.is_first);
    assert_true(str_eqz(two.cause, "a@1:index"));
    assert_string_equal(changes_text(&two), "M docs/a.txt");
    struct source_revision three = read_ok(source, 3);
    assert_string_equal(
        changes_text(&three), "A manual/ < docs@2, A manual/a.txt, A manual/deep/, A manual/deep/b.txt");
    struct source_revision four = read_ok(source, 4);
    assert_string_equal(changes_text(&four), "D docs/, D docs/a.txt, D docs/deep/, D docs/deep/b.txt");
    struct source_revision six = read_ok(source, 6);
    assert_string_equal(changes_text(&six),
        "R manual/deep/ < _workflows@5, A manual/deep/a.yaml, A manual/deep/b.json, D manual/deep/b.txt");
    struct source_revision seven = read_ok(source, 7);
    assert_int_equal(seven.n_changes, 0);
    struct source_revision zero = read_ok(source, 0);
    assert_int_equal(zero.n_changes, 0);
    source_close(source);
}

static struct source_workflows workflows_of(struct source *source, int64_t n, struct str known)
{
    struct source_workflows workflows;
    struct err err = { 0 };
    must(source_workflows_read(source, &arena, rev(n), known, &workflows, &err), &err);
    return workflows;
}

static void workflows(void **state)
{
    (void)state;
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    struct source_workflows zero = workflows_of(source, 0, (struct str){ 0 });
    assert_true(str_eqz(zero.content, "-"));
    assert_int_equal(zero.n_files, 0);
    struct source_workflows one = workflows_of(source, 1, zero.content);
    assert_false(one.same);
    assert_int_equal(one.n_files, 1);
    assert_true(str_eqz(one.files[0].name, "_workflows/a.yaml"));
    assert_true(str_eqz(one.files[0].text, "- name: a\n"));
    assert_int_equal(one.fault.len, 0);
    struct source_workflows four = workflows_of(source, 4, one.content);
    assert_true(four.same);
    assert_true(str_eq(four.content, one.content));
    struct source_workflows five = workflows_of(source, 5, one.content);
    assert_false(five.same);
    assert_int_equal(five.n_files, 2);
    assert_true(str_eqz(five.files[1].name, "_workflows/b.json"));
    source_close(source);
}

/* The archive's root is a folder of the repository: paths are seen from there, the rest of the repository isn't seen.
 */
static void folder_of_repository(void **state)
{
    (void)state;
    char url[128];
    snprintf(url, sizeof url, "file://%s/r/manual", bed);
    struct source *source = open_ok(ARCHIVE_SVN, url, "");
    struct source_revision two = read_ok(source, 2), three = read_ok(source, 3), four = read_ok(source, 4),
                           six = read_ok(source, 6);
    assert_int_equal(two.n_changes, 0);
    assert_string_equal(changes_text(&three), "A a.txt, A deep/, A deep/b.txt");
    assert_int_equal(four.n_changes, 0);
    assert_string_equal(changes_text(&six), "R deep/ < _workflows@5, A deep/a.yaml, A deep/b.json, D deep/b.txt");
    assert_true(str_eqz(workflows_of(source, 7, (struct str){ 0 }).content, "-"));
    export_to(source, rev(2), "manual2"); /* not there yet: an empty tree */
    export_to(source, rev(7), "manual7");
    sh("svn export -q %s@7 $T/manual7-svn && test -z \"$(ls $T/manual2)\"", url);
    assert_true(trees_equal(in("manual7"), in("manual7-svn")));
    source_close(source);
    snprintf(url, sizeof url, "%s/r/docs", bed);
    open_refused(ARCHIVE_SVN, url, "", ERR_not_found, "no folder 'docs'");
}

static void bad_workflows(void **state)
{
    (void)state;
    sh("svnadmin create $T/bad && svn co -q file://$T/bad $T/bw && cd $T/bw && mkdir _workflows && cd _workflows\n"
       "ln -s /etc/passwd link.yaml && printf 'a\\0b' > nul.yml && mkdir folder.json && echo x > .hidden.yaml && echo "
       "x > notes.txt\n"
       "head -c 1048577 /dev/zero | tr '\\0' '#' > large.yaml && head -c 1048576 /dev/zero | tr '\\0' '#' > fits.yaml\n"
       "cd .. && svn add -q _workflows && svn ci -qm 1\n"
       "svn rm -q _workflows && svn ci -qm 2 && ln -s docs _workflows && svn add -q _workflows && svn ci -qm 3\n"
       "svn rm -q _workflows && svn ci -qm 4 && mkdir _workflows && cd _workflows && seq 1001 | sed 's/.*/f&.yaml/' | "
       "xargs touch\n"
       "cd .. && svn add -q _workflows && svn ci -qm 5");
    struct source *source = open_ok(ARCHIVE_SVN, in("bad"), "");
    struct source_workflows one = workflows_of(source, 1, (struct str){ 0 });
    assert_int_equal(one.n_files, 1);
    assert_true(str_eqz(one.files[0].name, "_workflows/fits.yaml"));
    assert_true(str_eqz(one.fault, "_workflows/folder.json: error: this isn't a plain file\n"
                                   "_workflows/large.yaml: error: the file is larger than 1048576 bytes\n"
                                   "_workflows/link.yaml: error: a workflow file must not be a symbolic link\n"
                                   "_workflows/nul.yml: error: this is a binary file (it has a NUL byte in it)"));
    struct source_workflows three = workflows_of(source, 3, one.content);
    assert_true(str_eqz(three.fault, "_workflows: error: must be a folder of its own, not a link or a file"));
    assert_int_equal(three.n_files, 0);
    struct source_workflows five = workflows_of(source, 5, (struct str){ 0 });
    assert_true(str_eqz(five.fault, "_workflows: error: there are more than 1000 workflow files"));
    assert_int_equal(five.n_files, 0);
    source_close(source);
}

static void errors(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_revision revision;
    struct source_ident youngest;
    open_refused(ARCHIVE_SVN, in("nowhere"), "", ERR_not_found, "No such file");
    open_refused(ARCHIVE_SVN, in("w/docs"), "", ERR_not_found, "No such file");
    open_refused(ARCHIVE_SVN, in("w"), "", ERR_invalid, "working copy");
    open_refused(ARCHIVE_SVN, bed, "", ERR_invalid, "no Subversion repository");
    open_refused(ARCHIVE_SVN, in("r"), "main", ERR_invalid, "has no branch");
    open_refused(ARCHIVE_SVN, "", "", ERR_invalid, "path or URL");
    open_refused(ARCHIVE_SVN, "gopher://x/y", "", ERR_invalid, "svn+ssh");
    open_refused(ARCHIVE_SVN, "svn://127.0.0.1:1/x", "", ERR_unreachable, "check the address");
    open_refused(ARCHIVE_SVN, "/\xff", "", ERR_invalid, "UTF-8");
    open_refused(ARCHIVE_EXTERNAL, in("r"), "", ERR_invalid, "posted");
    sh("cp -r $T/r $T/broken && cp -r $T/r $T/gone && cp -r $T/r $T/newer && chmod -R u+w $T/broken $T/newer && "
       "echo 99 > $T/newer/db/format"); /* Subversion makes files that only root writes to */
    open_refused(ARCHIVE_SVN, in("newer"), "", ERR_invalid, "newer Subversion");
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    said(source_revision_read(source, &arena, rev(8), &revision, &err), &err, ERR_not_found,
        "there is no revision 8; the youngest is 7");
    said(source_revision_read(source, &arena, rev(-1), &revision, &err), &err, ERR_not_found, "no revision -1");
    read_ok(source, 7); /* it goes on after a failure */
    source_close(source);

    source = open_ok(ARCHIVE_SVN, in("broken"), "");
    sh("truncate -s 100 $T/broken/db/revs/0/6");
    said(source_revision_read(source, &arena, rev(6), &revision, &err), &err, ERR_corrupt, "svnadmin verify");
    sh("rm $T/broken/db/revs/0/5");
    said(source_revision_read(source, &arena, rev(5), &revision, &err), &err, ERR_corrupt, "svnadmin verify");
    sh("head -c 3000 /dev/urandom > $T/broken/db/revs/0/4");
    said(source_revision_read(source, &arena, rev(4), &revision, &err), &err, ERR_corrupt, "svnadmin verify");
    sh("cp $T/r/db/revs/0/6 $T/broken/db/revs/0/6 && cp $T/r/db/revs/0/5 $T/broken/db/revs/0/5 && cp $T/r/db/revs/0/4 "
       "$T/broken/db/revs/0/4");
    read_ok(source, 6);
    sh("echo nonsense > $T/broken/db/current");
    said(source_youngest(source, &arena, &youngest, &err), &err, ERR_corrupt, "svnadmin verify");
    source_close(source);

    source = open_ok(ARCHIVE_SVN, in("gone"), "");
    sh("rm -rf $T/gone");
    said(source_youngest(source, &arena, &youngest, &err), &err, ERR_not_found, "isn't there any more");
    sh("cp -r $T/r $T/gone");
    must(source_youngest(source, &arena, &youngest, &err), &err);
    source_close(source);
}

/* New revisions are seen by a source that is open, and where they show is watched. */
static void news(void **state)
{
    (void)state;
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    struct source_watch *watches;
    size_t n;
    struct err err = { 0 };
    struct source_ident youngest;
    must(source_watch_paths(source, &arena, &watches, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_string_equal(watches[0].folder, in("r/db"));
    assert_true(str_eqz(watches[0].name, "current"));
    sh("svnadmin pack -q $T/r && cd $T/w && svn up -q && echo n > n.txt && svn add -q n.txt && svn ci -qm news");
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_int_equal(youngest.rev, 8);
    struct source_revision eight = read_ok(source, 8);
    assert_string_equal(changes_text(&eight), "A n.txt");
    source_close(source);
}

/* Permissions only bind who isn't root, so a child that is somebody else tries. */
static void permissions(void **state)
{
    (void)state;
    sh("svnadmin create $T/closed && git init -q --bare $T/closed.git && chmod 0 $T/closed $T/closed.git && chmod 755 "
       "$T\n"
       "svnadmin create $T/half && chmod 0 $T/half/db/current && git init -q --bare $T/half.git && chmod 0 "
       "$T/half.git/HEAD");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct err err[4] = { { 0 } };
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        bool opened = source_open(ARCHIVE_SVN, str_of(in("closed")), (struct str){ 0 }, &err[0]) != NULL;
        opened |= source_open(ARCHIVE_GIT, str_of(in("closed.git")), (struct str){ 0 }, &err[1]) != NULL;
        opened |= source_open(ARCHIVE_SVN, str_of(in("half")), (struct str){ 0 }, &err[2]) != NULL;
        opened |= source_open(ARCHIVE_GIT, str_of(in("half.git")), (struct str){ 0 }, &err[3]) != NULL;
        bool good = !opened;
        for (int i = 0; i < 4; i++) {
            if (err[i].code != ERR_io || strstr(err[i].text, "let the user that runs weir read") == NULL) {
                fprintf(stderr, "%d: %s: %s\n", i, err_name(err[i].code), err[i].text);
                good = false;
            }
        }
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions),
        cmocka_unit_test(workflows),
        cmocka_unit_test(folder_of_repository),
        cmocka_unit_test(bad_workflows),
        cmocka_unit_test(errors),
        cmocka_unit_test(news),
        cmocka_unit_test(permissions),
    };
    return cmocka_run_group_tests(tests, history_make, history_drop);
}
