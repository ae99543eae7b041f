/* Random change sets on a Subversion and a git repository and on a model of a tree (a map from path to bytes and bit):
 * the same answers and the same tree at every revision; merges and rollbacks give both repositories the same tree. */
#include "apply_bed.h"

#include "base/rng.h"

/* No path is a folder of another: what happens then, test_apply.c shows. */
static const char *const paths[] = { "a/x", "a/y", "b/c/d/z", "b/c/e", "b/f", "t", "u v%41", "\xc3\xa4/\xc3\xb6" };
static const char *const folders[] = { "a", "b", "b/c", "b/c/d" };
enum { PATHS = sizeof paths / sizeof *paths, FOLDERS = sizeof folders / sizeof *folders, STEPS = 45 };

struct tree {
    char content[PATHS][400]; /* "": there is none; else lines */
    bool executable[PATHS];
};

static const char *tree_text(const struct tree *tree)
{
    static char text[8000];
    static const int order[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    size_t len = 0;
    text[0] = '\0';
    for (int i = 0; i < PATHS; i++) {
        int n = order[i];
        if (tree->content[n][0] == '\0')
            continue;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s ", paths[n], tree->executable[n] ? "*" : "");
        for (const char *at = tree->content[n]; *at != '\0'; at++)
            text[len++] = *at == '\n' ? '/' : *at;
        text[len++] = '|';
        text[len] = '\0';
    }
    return text;
}

/* tree_read: the text of a tree, back. */
static void tree_read(struct tree *tree, const char *text)
{
    struct str rest = str_of(text), entry;
    memset(tree, 0, sizeof *tree);
    while (str_cut(&rest, '|', &entry))
        for (int i = 0; i < PATHS; i++) {
            struct str path = str_of(paths[i]);
            if (!str_starts(entry, path))
                continue;
            struct str left = str_sub(entry, path.len, entry.len);
            tree->executable[i] = left.ptr[0] == '*';
            left = str_sub(left, left.ptr[0] == '*' ? 2 : 1, left.len);
            memcpy(tree->content[i], left.ptr, left.len);
            for (char *at = tree->content[i]; *at != '\0'; at++)
                *at = *at == '/' ? '\n' : *at;
        }
}

/* content_make: from what was, with a few lines changed. */
static void content_make(struct rng *rng, const char *was, char *out, size_t size)
{
    size_t len = 0;
    struct str rest = str_of(was), line;
    for (int i = 0; was[0] == '\0' && i < 8; i++)
        len += (size_t)snprintf(out + len, size - len, "%c\n", (char)('a' + i));
    while (was[0] != '\0' && str_cut(&rest, '\n', &line)) {
        uint64_t what = rng_below(rng, 14);
        if (what == 0 && len < size / 2)
            len += (size_t)snprintf(out + len, size - len, "n%llu\n", (unsigned long long)rng_below(rng, 1000));
        if (what != 1 && len < size / 2)
            len += (size_t)snprintf(
                out + len, size - len, "%.*s%s\n", STR_ARG(line), what == 2 && line.len < 10 ? "+" : "");
    }
    if (len == 0)
        snprintf(out, size, "e\n");
}

struct world {
    struct rig rigs[2];
    struct source_ident revisions[2][STEPS + 2];
    struct tree trees[STEPS + 2];
    int n; /* revisions[.][n - 1] are the heads */
    unsigned commits, conflicts, rollbacks, merges;
};

static bool is_below(const char *path, const char *folder)
{
    return strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/';
}

/* change_make: a random change set made from the tree `from`; out: that tree with the change. */
static void change_make(struct rng *rng, const struct tree *from, struct set *set, struct tree *out, const char *csid)
{
    static char contents[PATHS][400];
    set_begin(set, csid);
    *out = *from;
    int folder = rng_below(rng, 6) == 0 ? (int)rng_below(rng, FOLDERS) : -1;
    bool any = false;
    for (int i = 0; folder >= 0 && i < PATHS; i++)
        if (from->content[i][0] != '\0' && is_below(paths[i], folders[folder])) {
            any = true;
            out->content[i][0] = '\0';
            out->executable[i] = false;
        }
    if (any)
        set_removed(set, folders[folder]);
    for (int i = 0; i < PATHS; i++) {
        uint64_t what = rng_below(rng, 6);
        bool there = out->content[i][0] != '\0';
        if (what == 0 && there) {
            set_removed(set, paths[i]);
            out->content[i][0] = '\0';
            out->executable[i] = false;
        } else if (what == 1 || (i == PATHS - 1 && set->change.n_files + set->change.n_removed == 0)) {
            content_make(rng, from->content[i], contents[i], sizeof contents[i]);
            out->executable[i] = rng_below(rng, 3) == 0;
            memcpy(out->content[i], contents[i], sizeof contents[i]);
            set_file(set, paths[i], contents[i], out->executable[i]);
        }
    }
}

/* both: the same end in both repositories, and the same tree. */
static void both(struct world *world, const struct apply_result *results, const char *what)
{
    if (results[0].end != results[1].end)
        fail_msg("%s: svn %d (%.*s), git %d (%.*s)", what, results[0].end, STR_ARG(results[0].reason), results[1].end,
            STR_ARG(results[1].reason));
    if (results[0].end == APPLY_CONFLICT) {
        assert_int_equal(results[0].n_conflicts, results[1].n_conflicts);
        for (size_t i = 0; i < results[0].n_conflicts; i++) {
            const struct apply_conflict *a = &results[0].conflicts[i], *b = &results[1].conflicts[i];
            bool same_name = str_eq(a->csid, b->csid) || a->revision.rev > 0; /* of equal content svn knows more */
            if (!str_eq(a->path, b->path) || !same_name || a->first_line != b->first_line)
                fail_msg("%s: svn says %.*s, git says %.*s", what, STR_ARG(a->text), STR_ARG(b->text));
        }
        world->conflicts++;
        return;
    }
    assert_int_equal(results[0].end, APPLY_COMMITTED);
    char *svn = strdup(files_of(&world->rigs[0], results[0].revision));
    if (strcmp(svn, files_of(&world->rigs[1], results[1].revision)) != 0)
        fail_msg("%s: svn has %s, git has %s", what, svn, files_of(&world->rigs[1], results[1].revision));
    for (int r = 0; r < 2; r++)
        world->revisions[r][world->n] = results[r].revision;
    tree_read(&world->trees[world->n], svn);
    assert_string_equal(tree_text(&world->trees[world->n]), svn); /* the reader reads what was there */
    world->n++;
    world->commits++;
    free(svn);
}

static void step_change(struct world *world, struct rng *rng, int step, bool based)
{
    struct set set;
    struct tree expected;
    struct apply_result results[2];
    const char *csid = str_fmt(&arena, "CS%d", step).ptr;
    int from = based ? (int)rng_below(rng, (uint64_t)world->n) : world->n - 1;
    bool newest = from == world->n - 1;
    change_make(rng, &world->trees[from], &set, &expected, csid);
    for (int r = 0; r < 2; r++) {
        if (based)
            set_base(&set, world->revisions[r][from]);
        results[r] = commit(&world->rigs[r], &set);
    }
    set_end(&set);
    world->merges += based && results[0].end == APPLY_COMMITTED;
    both(world, results, csid);
    if (newest) {
        assert_int_equal(results[0].end, APPLY_COMMITTED);
        assert_string_equal(files_of(&world->rigs[0], results[0].revision), tree_text(&expected));
    }
}

static void step_rollback(struct world *world, struct rng *rng, int step)
{
    struct source_ident list[2][4];
    struct apply_result results[2];
    size_t n = 0;
    int last = world->n;
    while (n < 3 && last > 1 && (n == 0 || rng_below(rng, 2) == 0)) { /* newest first, no more than the last few */
        last -= 1 + (int)rng_below(rng, 2);
        if (last < 1)
            break;
        for (int r = 0; r < 2; r++)
            list[r][n] = world->revisions[r][last];
        n++;
    }
    if (n == 0)
        return;
    bool newest = n == 1 && last == world->n - 1;
    struct tree before = world->trees[last - 1];
    const char *csid = str_fmt(&arena, "RB%d", step).ptr;
    for (int r = 0; r < 2; r++)
        results[r] = rollback(&world->rigs[r], csid, list[r], n);
    both(world, results, csid);
    world->rollbacks += results[0].end == APPLY_COMMITTED;
    if (newest) { /* nothing came after it: all is as before */
        assert_int_equal(results[0].end, APPLY_COMMITTED);
        assert_string_equal(files_of(&world->rigs[0], results[0].revision), tree_text(&before));
    }
}

static void test_model(void **state)
{
    static struct world world;
    struct rng rng;
    (void)state;
    const char *seed = getenv("WEIR_SEED");
    rng_seed(&rng, seed != NULL ? strtoull(seed, NULL, 10) : 14);
    rig_make(&world.rigs[0], LOCAL, "");
    sh("mv $T/r $T/svn");
    apply_close(world.rigs[0].apply);
    source_close(world.rigs[0].source);
    rig_make(&world.rigs[1], GIT, "");
    struct err err = { 0 };
    world.rigs[0].apply = apply_open(ARCHIVE_SVN, str_of(in("svn")), (struct str){ 0 }, (struct str){ 0 }, &err);
    world.rigs[0].source = open_ok(ARCHIVE_SVN, in("svn"), "");
    struct set set;
    set_begin(&set, "CLEAN");
    set_removed(&set, "first");
    set_file(&set, "t", "t\n", false);
    struct apply_result results[2] = { commit(&world.rigs[0], &set), commit(&world.rigs[1], &set) };
    set_end(&set);
    both(&world, results, "CLEAN");
    for (int step = 0; step < STEPS; step++) {
        uint64_t what = rng_below(&rng, 10);
        if (what < 5)
            step_change(&world, &rng, step, false);
        else if (what < 8)
            step_change(&world, &rng, step, true);
        else
            step_rollback(&world, &rng, step);
    }
    print_message("  %u commits, %u of them merges and %u rollbacks; %u conflicts\n", world.commits, world.merges,
        world.rollbacks, world.conflicts);
    assert_true(seed != NULL || (world.merges > 2 && world.rollbacks > 2 && world.conflicts > 2));
    for (int r = 0; r < 2; r++) /* and what the head says of itself is the last tree */
        assert_string_equal(files_of(&world.rigs[r], head(&world.rigs[r])), tree_text(&world.trees[world.n - 1]));
    rig_drop(&world.rigs[0]);
    rig_drop(&world.rigs[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_model, bed_make, bed_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
