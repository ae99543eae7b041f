/* A Subversion repository whose folder is here: revisions, what they touched, workflow files, and everything that can be wrong. */
#include "bed.h"

#include <unistd.h>

static struct arena arena;

/* A repository with a working copy and seven revisions. */
static int history_make(void **state)
{
    if (bed_make(state) != 0)
        return -1;
    return sh_status(
        "svnadmin create $T/r && svn co -q file://$T/r $T/w && cd $T/w\n"
        "mkdir -p docs/deep _workflows && echo one > docs/a.txt && echo two > docs/deep/b.txt && echo '- name: a' > _workflows/a.yaml\n"
        "svn add -q docs _workflows && svn ci -qm 'first\nsecond line'\n"                             /* 1 */
        "echo more >> docs/a.txt && svn ci -qm 'change' --with-revprop weir:cause='a@1:index'\n"      /* 2 */
        "svn up -q && svn cp -q docs manual && echo x >> manual/a.txt && svn ci -qm copy\n"           /* 3 */
        "svn up -q && svn rm -q docs && svn ci -qm delete\n"                                          /* 4 */
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
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c %.*s%s", i > 0 ? ", " : "", " AMDR"[change->kind], STR_ARG(change->path),
            change->is_folder ? "/" : "");
        if (change->copied_from.len > 0)
            len += (size_t)snprintf(text + len, sizeof text - len, " < %.*s@%lld", STR_ARG(change->copied_from), (long long)change->copied_rev);
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
    assert_string_equal(changes_text(&one), "A _workflows/, A _workflows/a.yaml, A docs/, A docs/a.txt, A docs/deep/, A docs/deep/b.txt");
    struct source_revision two = read_ok(source, 2);
    assert_false(two.is_first);
    assert_true(str_eqz(two.cause, "a@1:index"));
    assert_string_equal(changes_text(&two), "M docs/a.txt");
    struct source_revision three = read_ok(source, 3);
    assert_string_equal(changes_text(&three), "A manual/ < docs@2, A manual/a.txt, A manual/deep/, A manual/deep/b.txt");
    struct source_revision four = read_ok(source, 4);
    assert_string_equal(changes_text(&four), "D docs/, D docs/a.txt, D docs/deep/, D docs/deep/b.txt");
    struct source_revision six = read_ok(source, 6);
    assert_string_equal(changes_text(&six), "R manual/deep/ < _workflows@5, A manual/deep/a.yaml, A manual/deep/b.json, D manual/deep/b.txt");
    struct source_revision seven = read_ok(source, 7);
    assert_int_equal(seven.n_changes, 0);
    struct source_revision zero = read_ok(source, 0);
    assert_int_equal(zero.n_changes, 0);
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions),
    };
    return cmocka_run_group_tests(tests, history_make, history_drop);
}
