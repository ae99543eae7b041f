/* Two thousand revisions of each kind, read as an import reads them. Prints how fast; asserts only what was read. */
#include "bed.h"

#define REVISIONS 2000

static struct arena arena;

/* read_all: each revision and its workflow files, the way an import does. */
static void read_all(const char *what, struct source *source, const struct source_ident *idents, size_t n)
{
    struct err err = { 0 };
    char known[128] = "";
    size_t n_read = 0, n_changes = 0;
    uint64_t began = now_us();
    for (size_t i = 0; i < n; i++) {
        struct source_revision revision;
        struct source_workflows workflows;
        struct arena scratch = { 0 };
        must(source_revision_read(source, &scratch, idents[i], &revision, &err), &err);
        must(source_workflows_read(source, &scratch, idents[i], str_of(known), &workflows, &err), &err);
        n_changes += revision.n_changes;
        n_read += !workflows.same;
        snprintf(known, sizeof known, "%.*s", STR_ARG(workflows.content));
        arena_release(&scratch);
    }
    uint64_t took = now_us() - began;
    print_message("%s: %zu revisions, %zu changes, in %llu ms: %llu a second\n", what, n, n_changes,
        (unsigned long long)took / 1000, (unsigned long long)(n * 1000000 / (took + 1)));
    assert_true(n_changes >= n);
    assert_int_equal(n_read, n / 100); /* the workflow changes every hundred revisions */
}

static void svn_two_thousand(void **state)
{
    (void)state;
    sh("svnadmin create $T/r && printf '[rep-sharing]\\nenable-rep-sharing = false\\n' > $T/r/db/fsfs.conf && python3 "
       "- <<'END' > $T/dump\n"
       "import sys\n"
       "out = sys.stdout.buffer\n"
       "def props(p):\n"
       "    return b''.join(b'K %%d\\n%%s\\nV %%d\\n%%s\\n' %% (len(k), k, len(v), v) for k, v in p) + "
       "b'PROPS-END\\n'\n"
       "out.write(b'SVN-fs-dump-format-version: 2\\n\\n')\n"
       "seen = set()\n"
       "def node(path, text):\n"
       "    kind = b'change' if path in seen else b'add'\n"
       "    seen.add(path)\n"
       "    out.write(b'Node-path: %%s\\nNode-kind: file\\nNode-action: %%s\\nText-content-length: "
       "%%d\\nContent-length: "
       "%%d\\n\\n%%s\\n\\n' %% (path, kind, len(text), len(text), text))\n"
       "for rev in range(1, %d + 1):\n"
       "    p = props([(b'svn:author', b'ada'), (b'svn:date', b'2024-01-01T00:00:00.000000Z'), (b'svn:log', b'revision "
       "%%d' %% rev)])\n"
       "    out.write(b'Revision-number: %%d\\nProp-content-length: %%d\\nContent-length: %%d\\n\\n%%s\\n' %% (rev, "
       "len(p), len(p), p))\n"
       "    if rev == 1:\n"
       "        for folder in [b'_workflows', b'docs'] + [b'docs/%%d' %% i for i in range(20)]:\n"
       "            out.write(b'Node-path: %%s\\nNode-kind: dir\\nNode-action: add\\n\\n\\n' %% folder)\n"
       "    node(b'docs/%%d/page%%d.txt' %% (rev %% 20, rev %% 200), b'text %%d\\n' %% rev * 20)\n"
       "    if rev %% 100 == 1:\n"
       "        node(b'_workflows/a.yaml', b'- name: t%%d\\n' %% rev)\n"
       "END\n"
       "svnadmin load -q --no-flush-to-disk $T/r < $T/dump",
        REVISIONS);
    struct source_ident *idents = calloc(REVISIONS, sizeof *idents);
    for (int i = 0; i < REVISIONS; i++)
        idents[i] = rev(i + 1);
    struct source *source = open_ok(ARCHIVE_SVN, in("r"), "");
    read_all("svn", source, idents, REVISIONS);
    read_all("svn again", source, idents, REVISIONS);
    source_close(source);
    free(idents);
}

struct numbered {
    struct source_ident *idents;
    size_t n;
};

static bool is_numbered(void *context, struct str commit)
{
    const struct numbered *numbered = context;
    for (size_t i = 0; i < numbered->n; i++)
        if (str_eq(numbered->idents[i].id, commit))
            return true;
    return false;
}

static void git_two_thousand(void **state)
{
    (void)state;
    sh("git init -q --bare -b main $T/g && python3 - <<'END' > $T/stream\n"
       "import sys\n"
       "out = sys.stdout.buffer\n"
       "for rev in range(1, %d + 1):\n"
       "    message = b'revision %%d' %% rev\n"
       "    out.write(b'commit refs/heads/main\\ncommitter Ada <ada@example.org> %%d +0000\\ndata %%d\\n%%s\\n' %% "
       "(1700000000 + rev, "
       "len(message), message))\n"
       "    files = [(b'docs/%%d/page%%d.txt' %% (rev %% 20, rev %% 200), b'text %%d\\n' %% rev * 20)]\n"
       "    if rev %% 100 == 1:\n"
       "        files.append((b'_workflows/a.yaml', b'- name: t%%d\\n' %% rev))\n"
       "    for path, text in files:\n"
       "        out.write(b'M 100644 inline %%s\\ndata %%d\\n%%s\\n' %% (path, len(text), text))\n"
       "END\n"
       "git -C $T/g fast-import --quiet < $T/stream",
        REVISIONS);
    struct source *source = open_ok(ARCHIVE_GIT, in("g"), "");
    struct source_ident *idents = calloc(REVISIONS, sizeof *idents);
    struct numbered numbered = { idents, 0 };
    struct source_known known = { is_numbered, &numbered, { 0 } };
    struct source_commits commits = { .left = 1 };
    struct err err = { 0 };
    uint64_t began = now_us();
    for (int call = 0; commits.left > 0 && call < 10; call++) {
        must(source_new_commits(source, &arena, &known, &commits, &err), &err);
        assert_false(commits.rewritten);
        assert_int_equal(numbered.n + commits.n + commits.left, REVISIONS);
        for (size_t i = 0; i < commits.n; i++)
            idents[numbered.n++].id = commits.ids[i];
        known.tip = idents[numbered.n - 1].id;
    }
    print_message("git: %zu commits found in %llu ms\n", numbered.n, (unsigned long long)(now_us() - began) / 1000);
    assert_int_equal(numbered.n, REVISIONS);
    assert_true(str_eq(known.tip, commits.tip));
    read_all("git", source, idents, REVISIONS);
    source_close(source);
    free(idents);
}

static int drop(void **state)
{
    arena_release(&arena);
    return bed_drop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(svn_two_thousand),
        cmocka_unit_test(git_two_thousand),
    };
    return cmocka_run_group_tests(tests, bed_make, drop);
}
