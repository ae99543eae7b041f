/* A branch of a git repository: commits, what they touched, which are new, forced pushes, and everything that can be
 * wrong. */
#include "bed.h"

#include <unistd.h>

static struct arena arena;

/* An ordinary repository; main: one, two, a merge of side, four. */
static int history_make(void **state)
{
    if (bed_make(state) != 0)
        return -1;
    return sh_status(
        "git init -q -b main $T/g && cd $T/g && mkdir -p docs/deep _workflows\n"
        "echo one > docs/a.txt && echo two > docs/deep/b.txt && echo '- name: a' > _workflows/a.yaml && git add . && "
        "git commit -qm one\n"
        "git tag first && git checkout -qb side && echo side > side.txt && git add . && git commit -qm side\n"
        "git checkout -q main && echo more >> docs/a.txt && git commit -qam 'two\n\nBody.\n\nSigned-off-by: "
        "x\nWeir-Cause: a@1:index'\n"
        "git tag second && git merge -q --no-ff -m merge side && git tag third\n"
        "git mv docs manual && chmod +x manual/a.txt && git commit -qam four && git tag fourth");
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
    for (size_t i = 0; i < revision->n_changes; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c %.*s", i > 0 ? ", " : "",
            " AMDR"[revision->changes[i].kind], STR_ARG(revision->changes[i].path));
    return text;
}

static struct source_revision read_ok(struct source *source, const char *name)
{
    struct source_revision revision;
    struct err err = { 0 };
    must(source_revision_read(source, &arena, git_id(in("g"), name), &revision, &err), &err);
    return revision;
}

static void revisions(void **state)
{
    (void)state;
    struct source *source = open_ok(ARCHIVE_GIT, in("g"), "");
    struct source_ident youngest;
    struct err err = { 0 };
    assert_true(str_eqz(source_branch(source), "main"));
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_true(str_eq(youngest.id, git_id(in("g"), "main").id));
    struct source_revision one = read_ok(source, "first");
    assert_true(one.is_first);
    assert_int_equal(one.n_parents, 0);
    assert_true(str_eqz(one.message, "one"));
    assert_true(str_eqz(one.author, "Ada <ada@example.org>"));
    assert_true(one.time_ms > 1500000000000);
    assert_string_equal(changes_text(&one), "A _workflows/a.yaml, A docs/a.txt, A docs/deep/b.txt");
    struct source_revision two = read_ok(source, "second");
    assert_true(str_eqz(two.cause, "a@1:index"));
    assert_string_equal(changes_text(&two), "M docs/a.txt");
    assert_false(two.is_first);
    struct source_revision three = read_ok(source, "third");
    assert_int_equal(three.n_parents, 2);
    assert_true(str_eq(three.parents[0], git_id(in("g"), "second").id));
    assert_true(str_eq(three.parents[1], git_id(in("g"), "side").id));
    assert_string_equal(changes_text(&three), "A side.txt");
    struct source_revision four = read_ok(source, "fourth");
    assert_string_equal(changes_text(&four), "D docs/a.txt, D docs/deep/b.txt, A manual/a.txt, A manual/deep/b.txt");
    source_close(source);
}

static void causes(void **state)
{
    (void)state;
    static const struct {
        const char *message, *cause;
    } cases[] = {
        { "x\n\nWeir-Cause: a@2:t", "a@2:t" },
        { "x\n\nweir-cause:a@2:t[k=v]", "a@2:t[k=v]" },
        { "x\n\nWeir-Cause: one\nWeir-Cause: two", "two" },
        { "x\n\nWeir-Cause: a@2:t\n\nNot the last paragraph.", "" },
        { "Weir-Cause: a@2:t", "" }, /* a subject isn't a trailer */
        { "x", "" },
    };
    sh("git init -q -b main $T/c");
    struct source *source = open_ok(ARCHIVE_GIT, in("c"), "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct source_revision revision;
        struct err err = { 0 };
        sh("git -C $T/c commit -q --allow-empty -m '%s'", cases[i].message);
        must(source_revision_read(source, &arena, git_id(in("c"), "main"), &revision, &err), &err);
        assert_true(str_eqz(revision.cause, cases[i].cause));
    }
    sh("cd $T/c && printf 'caf\\351' | git -c i18n.commitEncoding=ISO-8859-1 commit -q --allow-empty -F -");
    struct source_revision revision;
    struct err err = { 0 };
    must(source_revision_read(source, &arena, git_id(in("c"), "main"), &revision, &err), &err);
    assert_true(str_eqz(revision.message, "caf\xc3\xa9"));
    source_close(source);
}

static bool is_known(void *context, struct str commit)
{
    return strstr(context, str_dupz(&arena, commit)) != NULL; /* a list of ids */
}

static void new_commits(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_commits commits;
    char known_ids[1024] = "";
    sh("git clone -q --bare $T/g $T/bare");
    struct source *source = open_ok(ARCHIVE_GIT, in("bare"), "main");
    struct source_known known = { is_known, known_ids, { 0 } };
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 4); /* side isn't among the first parents */
    assert_int_equal(commits.left, 0);
    assert_false(commits.rewritten);
    assert_true(str_eq(commits.ids[0], git_id(in("g"), "first").id));
    assert_true(str_eq(commits.ids[3], commits.tip));
    for (size_t i = 0; i < commits.n; i++)
        snprintf(known_ids + strlen(known_ids), sizeof known_ids - strlen(known_ids), "%.*s ", STR_ARG(commits.ids[i]));
    known.tip = commits.tip;
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 0);
    assert_false(commits.rewritten);

    sh("cd $T/g && for i in 5 6; do git commit -q --allow-empty -m $i; done && git push -q $T/bare main");
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 2);
    assert_true(str_eq(commits.ids[0], git_id(in("g"), "main~1").id));
    assert_false(commits.rewritten);
    for (size_t i = 0; i < commits.n; i++)
        snprintf(known_ids + strlen(known_ids), sizeof known_ids - strlen(known_ids), "%.*s ", STR_ARG(commits.ids[i]));
    known.tip = commits.tip;

    sh("cd $T/g && git reset -q --hard main~2 && git commit -q --allow-empty -m other && git push -qf $T/bare main");
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 1);
    assert_true(commits.rewritten);
    sh("cd $T/g && git reset -q --hard main~1 && git push -qf $T/bare main"); /* back to what is known already */
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 0);
    assert_true(commits.rewritten);

    /* The old tip is the second parent of the new one: no forced push, and the other side's commits are new. */
    known.tip = str_dup(&arena, git_id(in("g"), "main").id);
    sh("cd $T/g && git checkout -q -b other main~1 && git commit -q --allow-empty -m o1 && git merge -q --no-ff -m m "
       "main && git push -q "
       "$T/bare other:main");
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 2);
    assert_false(commits.rewritten);
    known.tip = STR("0123456789012345678901234567890123456789"); /* pruned */
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_true(commits.rewritten);
    known.is_known = NULL; /* and nothing else is known either */
    source_close(source);
    source = open_ok(ARCHIVE_GIT, in("bare"), "main");
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_true(commits.rewritten && commits.n > 2);
    source_close(source);
}

static void empty_repository(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_ident youngest;
    struct source_commits commits;
    sh("git init -q --bare -b trunk $T/empty");
    struct source *source = open_ok(ARCHIVE_GIT, in("empty"), "");
    assert_true(str_eqz(source_branch(source), "trunk"));
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_int_equal(youngest.id.len, 0);
    struct source_known known = { 0 };
    must(source_new_commits(source, &arena, &known, &commits, &err), &err);
    assert_int_equal(commits.n, 0);
    assert_int_equal(commits.tip.len, 0);
    sh("git -C $T/g push -q $T/empty first:refs/heads/trunk");
    must(source_youngest(source, &arena, &youngest, &err), &err);
    assert_true(str_eq(youngest.id, git_id(in("g"), "first").id));
    source_close(source);
    source_close(open_ok(ARCHIVE_GIT, in("empty"), "trunk"));
}

static void workflows(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_workflows one, two;
    struct source *source = open_ok(ARCHIVE_GIT, in("g"), "");
    must(source_workflows_read(source, &arena, git_id(in("g"), "first"), (struct str){ 0 }, &one, &err), &err);
    assert_int_equal(one.n_files, 1);
    assert_true(str_eqz(one.files[0].text, "- name: a\n"));
    must(source_workflows_read(source, &arena, git_id(in("g"), "third"), one.content, &two, &err), &err);
    assert_true(two.same);
    source_close(source);
    sh("git init -q -b main $T/bad && cd $T/bad && mkdir _workflows && cd _workflows && ln -s /etc/passwd link.yaml && "
       "printf 'a\\0b' > "
       "nul.yml\n"
       "mkdir folder.json && touch folder.json/x && head -c 1048577 /dev/zero | tr '\\0' '#' > large.yaml && echo '[]' "
       "> \"$(printf "
       "'n\\377\\033.yaml')\"\n"
       "cd .. && git add . && git commit -qm 1 && git tag t1 && git rm -qr _workflows && ln -s docs _workflows && git "
       "add . && git commit "
       "-qm 2");
    source = open_ok(ARCHIVE_GIT, in("bad"), "");
    must(source_workflows_read(source, &arena, git_id(in("bad"), "t1"), (struct str){ 0 }, &one, &err), &err);
    assert_int_equal(one.n_files, 1);
    assert_true(str_eqz(one.files[0].name, "_workflows/n\xef\xbf\xbd\xef\xbf\xbd.yaml"));
    assert_true(str_eqz(one.fault, "_workflows/folder.json: error: this isn't a plain file\n"
                                   "_workflows/large.yaml: error: the file is larger than 1048576 bytes\n"
                                   "_workflows/link.yaml: error: a workflow file must not be a symbolic link\n"
                                   "_workflows/nul.yml: error: this is a binary file (it has a NUL byte in it)"));
    must(source_workflows_read(source, &arena, git_id(in("bad"), "main"), one.content, &two, &err), &err);
    assert_false(two.same);
    assert_true(str_eqz(two.fault, "_workflows: error: must be a folder of its own, not a link or a file"));
    source_close(source);
}

static void errors(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_revision revision;
    struct source_ident youngest;
    open_refused(ARCHIVE_GIT, in("nowhere"), "", ERR_not_found, "No such file");
    open_refused(ARCHIVE_GIT, bed, "", ERR_invalid, "no git repository");
    open_refused(ARCHIVE_GIT, in("g"), "mian", ERR_not_found, "did you mean 'main'?");
    open_refused(ARCHIVE_GIT, in("g"), "a..b", ERR_invalid, "can't be the name of a branch");
    open_refused(ARCHIVE_GIT, "https://example.org/x.git", "", ERR_invalid, "git clone --mirror");
    sh("git clone -q --depth 1 file://$T/g $T/shallow && git -C $T/g branch keep fourth && cp -r $T/g $T/detached && "
       "git -C $T/detached "
       "checkout -q --detach");
    open_refused(ARCHIVE_GIT, in("shallow"), "", ERR_invalid, "--unshallow");
    open_refused(ARCHIVE_GIT, in("detached"), "", ERR_invalid, "--branch");
    source_close(open_ok(ARCHIVE_GIT, in("detached"), "main"));
    struct source *source = open_ok(ARCHIVE_GIT, in("g"), "keep");
    said(source_revision_read(source, &arena, id("0123456789012345678901234567890123456789"), &revision, &err), &err,
        ERR_not_found, "no commit");
    said(source_revision_read(source, &arena, id("main"), &revision, &err), &err, ERR_not_found, "isn't a commit id");
    said(source_revision_read(source, &arena, rev(3), &revision, &err), &err, ERR_not_found, "isn't a commit id");
    source_close(source);

    sh("cp -r $T/g/.git $T/broken && git -C $T/broken config core.bare true");
    source = open_ok(ARCHIVE_GIT, in("broken"), "main");
    sh("cd $T/broken && t=$(git rev-parse second^{tree}) && f=objects/$(echo $t | cut -c1-2)/$(echo $t | cut -c3-) && "
       "chmod u+w $f && echo "
       "x > $f");
    said(source_revision_read(source, &arena, git_id(in("g"), "second"), &revision, &err), &err, ERR_corrupt, "fsck");
    sh("cd $T/broken && t=$(git rev-parse fourth:manual) && rm -f objects/$(echo $t | cut -c1-2)/$(echo $t | cut "
       "-c3-)");
    said(source_revision_read(source, &arena, git_id(in("g"), "fourth"), &revision, &err), &err, ERR_corrupt, "fsck");
    sh("rm -rf $T/broken");
    said(source_youngest(source, &arena, &youngest, &err), &err, ERR_not_found, "isn't there any more");
    source_close(source);
}

static void watches(void **state)
{
    (void)state;
    struct err err = { 0 };
    struct source_watch *list;
    size_t n;
    sh("git -C $T/g branch feature/x/y fourth");
    struct source *source = open_ok(ARCHIVE_GIT, in("g"), "feature/x/y");
    must(source_watch_paths(source, &arena, &list, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_string_equal(list[0].folder, in("g/.git"));
    assert_true(str_eqz(list[0].name, "packed-refs"));
    assert_string_equal(list[1].folder, in("g/.git/refs/heads"));
    assert_string_equal(list[3].folder, in("g/.git/refs/heads/feature/x"));
    source_close(source);
    sh("git -C $T/g worktree add -q $T/tree feature/x/y"); /* refs are the main repository's */
    source = open_ok(ARCHIVE_GIT, in("tree"), "");
    assert_true(str_eqz(source_branch(source), "feature/x/y"));
    assert_true(str_eqz(source_place(source), in("g/.git")));
    source_close(source);
}

/* A repository of somebody else, which git itself would refuse. */
static void other_owner(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: giving a repository to another user needs root\n");
        skip();
    }
    sh("cp -r $T/g $T/theirs && chown -R 12345 $T/theirs");
    source_close(open_ok(ARCHIVE_GIT, in("theirs"), ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions),
        cmocka_unit_test(causes),
        cmocka_unit_test(new_commits),
        cmocka_unit_test(empty_repository),
        cmocka_unit_test(workflows),
        cmocka_unit_test(errors),
        cmocka_unit_test(watches),
        cmocka_unit_test(other_owner),
    };
    return cmocka_run_group_tests(tests, history_make, history_drop);
}
