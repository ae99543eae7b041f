/* changesets: change sets and the index of their paths: written, found by each way there is, still there after a
 * restart and in a copy of the store; and an edit of any of their columns behind the store's back is found. */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "store/read_ops.h"
#include "store/rows.h"
#include "world.h"

/* Every field set, from a number. */
static struct changeset changeset_sample(struct world *w, int64_t task)
{
    long long n = task;
    int64_t *undoes = ARENA_ARRAY(&w->arena, int64_t, 2);
    undoes[0] = task - 1, undoes[1] = task * 1000000007;
    struct changeset row = {
        .task = task,
        .lane = 100 + task,
        .tenant = STR("default"),
        .csid = str_fmt(&w->arena, "cs-%lld", n),
        .movetype = (enum movetype)(MOVE_DC + task % (MOVE_COUNT - MOVE_DC)),
        .name = str_fmt(&w->arena, "cs-%lld_400000006919_1_host_DC", n),
        .tai = INT64_C(1763200000000000000) + task,
        .files = str_fmt(&w->arena, "src/%lld.c\ndoc/\xc3\xa9.md", n),
        .removed = str_fmt(&w->arena, "old/%lld", n),
        .submitter = str_fmt(&w->arena, "user-%lld", n),
        .ticket = str_fmt(&w->arena, "T-%lld", n),
        .approver = str_fmt(&w->arena, "boss-%lld", n),
        .approved = 200 + task,
        .rank = 300 + task,
        .overlapping = task % 2 == 1,
        .undoes = undoes,
        .n_undoes = (size_t)(task % 3),
        .base = str_fmt(&w->arena, "base-%lld", n),
        .revision = str_fmt(&w->arena, "rev-%lld", n),
        .rolled_back_by = 400 + task,
    };
    memset(row.hash, (int)(task & 0xff), sizeof row.hash);
    return row;
}

static void changeset_same(const struct changeset *a, const struct changeset *b)
{
    assert_int_equal(a->task, b->task);
    assert_int_equal(a->lane, b->lane);
    str_same(a->tenant, b->tenant);
    str_same(a->csid, b->csid);
    assert_memory_equal(a->hash, b->hash, sizeof a->hash);
    assert_int_equal(a->movetype, b->movetype);
    str_same(a->name, b->name);
    assert_int_equal(a->tai, b->tai);
    str_same(a->files, b->files);
    str_same(a->removed, b->removed);
    str_same(a->submitter, b->submitter);
    str_same(a->ticket, b->ticket);
    str_same(a->approver, b->approver);
    assert_int_equal(a->approved, b->approved);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->overlapping, b->overlapping);
    assert_int_equal(a->n_undoes, b->n_undoes);
    if (a->n_undoes)
        assert_memory_equal(a->undoes, b->undoes, a->n_undoes * sizeof *a->undoes);
    str_same(a->base, b->base);
    str_same(a->revision, b->revision);
    assert_int_equal(a->rolled_back_by, b->rolled_back_by);
}

static void changesets_put(struct world *w, const struct changeset *rows, size_t n)
{
    const struct changeset **list = ARENA_ARRAY(&w->arena, const struct changeset *, n);
    for (size_t i = 0; i < n; i++)
        list[i] = &rows[i];
    w->c.changesets.rows.at = list, w->c.changesets.rows.n = n;
    turn_event(w, (struct event){ .kind = EVENT_noted });
}

static void changeset_is(struct world *w, const struct changeset *row)
{
    struct changeset got;
    int64_t task;
    bool found;
    MUST(w, OPS(w)->load_changeset(w->store, &w->arena, row->task, &got, &found, &w->err));
    assert_true(found);
    changeset_same(&got, row);
    MUST(w, OPS(w)->changeset_find(w->store, row->tenant, row->csid, &task, &w->err));
    assert_int_equal(task, row->task);
}

static void a_change_set_is_kept_and_found(void **state)
{
    struct world w;
    struct changeset rows[7], got;
    int64_t task;
    bool found;
    (void)state;
    world_make(&w);
    for (int64_t i = 0; i < 7; i++)
        rows[i] = changeset_sample(&w, i + 1);
    rows[6] =
        (struct changeset){ .task = 7, .csid = STR("plain"), .movetype = MOVE_RB }; /* nothing that may be missing */
    turn_begin(&w);
    changesets_put(&w, rows, 7);
    turn_end(&w);
    for (size_t i = 0; i < 7; i++)
        changeset_is(&w, &rows[i]);
    rows[1].ticket = STR("T2"), rows[1].approver = STR("me"), rows[1].approved = 5, rows[1].rank = 6;
    rows[1].base = STR("b2"), rows[1].revision = STR("r2"), rows[1].rolled_back_by = 0;
    turn_begin(&w);
    changesets_put(&w, &rows[1], 1);
    turn_end(&w);
    for (size_t i = 0; i < 7; i++)
        changeset_is(&w, &rows[i]);
    world_reopen(&w);
    for (size_t i = 0; i < 7; i++)
        changeset_is(&w, &rows[i]);
    MUST(&w, OPS(&w)->load_changeset(w.store, &w.arena, 8, &got, &found, &w.err));
    assert_false(found);
    MUST(&w, OPS(&w)->changeset_find(w.store, STR("default"), STR("cs-8"), &task, &w.err));
    assert_int_equal(task, 0);
    MUST(&w, OPS(&w)->changeset_find(w.store, STR("other"), STR("cs-1"), &task, &w.err)); /* another tenant's */
    assert_int_equal(task, 0);
    world_release(&w);
}

/* The last one of a turn counts. */
static void a_change_set_that_one_turn_writes_twice(void **state)
{
    struct world w;
    struct changeset rows[2];
    (void)state;
    world_make(&w);
    rows[0] = rows[1] = changeset_sample(&w, 1);
    rows[1].revision = STR("the last");
    turn_begin(&w);
    changesets_put(&w, rows, 2);
    turn_end(&w);
    changeset_is(&w, &rows[1]);
    world_release(&w);
}

static void no_two_have_one_csid(void **state)
{
    struct world w;
    struct changeset rows[2];
    (void)state;
    world_make(&w);
    rows[0] = changeset_sample(&w, 1), rows[1] = changeset_sample(&w, 2);
    rows[1].csid = rows[0].csid;
    turn_begin(&w);
    changesets_put(&w, &rows[0], 1);
    turn_end(&w);
    turn_begin(&w);
    changesets_put(&w, &rows[1], 1);
    assert_false(turn_try(&w));
    assert_int_equal(w.err.code, ERR_internal);
    w.err = (struct err){ 0 };
    OPS(&w)->rollback(w.store);
    rows[1].tenant = STR("other"); /* each tenant has its own */
    turn_begin(&w);
    changesets_put(&w, &rows[1], 1);
    turn_end(&w);
    changeset_is(&w, &rows[0]);
    changeset_is(&w, &rows[1]);
    world_release(&w);
}

static void hash_is(struct world *w, struct str tenant, int byte, int64_t expected)
{
    uint8_t hash[32];
    int64_t task;
    memset(hash, byte, sizeof hash);
    MUST(w, OPS(w)->changeset_of_hash(w->store, tenant, hash, &task, &w->err));
    assert_int_equal(task, expected);
}

static void the_newest_of_a_content_is_found(void **state)
{
    struct world w;
    struct changeset rows[40];
    (void)state;
    world_make(&w);
    for (int64_t i = 0; i < 40; i++) { /* contents 0, 1, 2 again and again, the last of each from another tenant */
        rows[i] = changeset_sample(&w, i + 1);
        memset(rows[i].hash, (int)(i % 3), sizeof rows[i].hash);
        if (i >= 37)
            rows[i].tenant = STR("other");
    }
    rows[36].hash[31] = 9; /* differs in its last byte alone */
    turn_begin(&w);
    changesets_put(&w, rows, 40);
    turn_end(&w);
    hash_is(&w, STR("default"), 0, 34);
    hash_is(&w, STR("default"), 1, 35);
    hash_is(&w, STR("default"), 2, 36);
    hash_is(&w, STR("default"), 3, 0);
    hash_is(&w, STR("other"), 0, 40);
    hash_is(&w, STR("nobody"), 0, 0);
    hash_is(&w, STR("def"), 0, 0);
    world_release(&w);
}

/* --- paths --- */

enum { RANKS = 300 };

static struct changeset_file file_of(bool applied, const char *path, int64_t rank)
{
    return (struct changeset_file){
        .lane = 1, .applied = applied, .path = str_of(path), .rank = rank, .task = 10000 + rank
    };
}

static void files_put(
    struct world *w, struct changeset_file *add, size_t n_add, struct changeset_file *remove, size_t n_remove)
{
    turn_begin(w);
    w->c.changesets.files_add.at = add, w->c.changesets.files_add.n = n_add;
    w->c.changesets.files_remove.at = remove, w->c.changesets.files_remove.n = n_remove;
    turn_event(w, (struct event){ .kind = EVENT_noted });
    turn_end(w);
}

/* near_is: expected 0: none. */
static void near_is(
    struct world *w, int64_t lane, bool applied, const char *path, int64_t rank, bool after, int64_t expected)
{
    struct changeset_file got;
    bool found;
    MUST(w, OPS(w)->changeset_file_near(
                w->store, &w->arena, lane, applied, str_of(path), rank, after, &got, &found, &w->err));
    if (found != (expected != 0) || (found && got.rank != expected))
        fail_msg("%s, rank %lld, %s: %lld, not %lld", path, (long long)rank, after ? "after" : "before",
            (long long)(found ? got.rank : 0), (long long)expected);
    if (!found)
        return;
    assert_true(got.lane == lane && got.applied == applied && got.task == 10000 + expected);
    str_same(got.path, str_of(path));
}

static void nears_are(struct world *w)
{
    for (int64_t rank = 0; rank <= 3 * RANKS + 3; rank++) { /* those of "a" are 3, 6, 9 ... */
        int64_t below = (rank - 1) / 3 * 3, above = rank / 3 * 3 + 3;
        near_is(w, 1, false, "a", rank, true, above <= 3 * RANKS ? above : 0);
        near_is(w, 1, false, "a", rank, false, below <= 3 * RANKS ? below : 3 * RANKS);
    }
    near_is(w, 1, false, "a", INT64_MAX, false, 3 * RANKS);
    near_is(w, 1, false, "a", INT64_MIN, true, 3);
    near_is(w, 1, false, "A", INT64_MAX, false, 5); /* its neighbours by any order of texts */
    near_is(w, 1, false, "a/b", INT64_MAX, false, 7);
    near_is(w, 1, false, "a\xc3\xa9", 0, true, 8);
    near_is(w, 1, true, "a", 0, true, 11);
    near_is(w, 1, true, "a", 11, true, 0);
    near_is(w, 1, true, "a", 11, false, 0);
    near_is(w, 1, false, "b", INT64_MAX, false, 0);
    near_is(w, 2, false, "a", INT64_MAX, false, 0);
}

/* Of a target's change sets those that haven't ended, each once for each of its paths. */
static void open_ones_are_found(void **state)
{
    struct world w;
    struct changeset_file files[] = { file_of(false, "a", 1), file_of(false, "b", 1), file_of(false, "c", 2),
        file_of(true, "d", 3), file_of(false, "a", 4), file_of(false, "z", 5) };
    int64_t *ids;
    size_t n;
    (void)state;
    world_make(&w);
    files[5].lane = 2;
    files_put(&w, files, 6, NULL, 0);
    MUST(&w, OPS(&w)->changesets_open(w.store, &w.arena, 1, 9, &ids, &n, &w.err));
    assert_int_equal(n, 4);
    assert_true(ids[0] == 10001 && ids[1] == 10004 && ids[2] == 10001 && ids[3] == 10002);
    MUST(&w, OPS(&w)->changesets_open(w.store, &w.arena, 1, 2, &ids, &n, &w.err));
    assert_true(n == 2 && ids[1] == 10004);
    MUST(&w, OPS(&w)->changesets_open(w.store, &w.arena, 3, 2, &ids, &n, &w.err));
    assert_int_equal(n, 0);
    world_release(&w);
}

static void the_nearest_row_of_a_path_is_found(void **state)
{
    struct world w;
    struct changeset_file files[RANKS + 4];
    (void)state;
    world_make(&w);
    for (int64_t i = 0; i < RANKS; i++)
        files[i] = file_of(false, "a", 3 * (i * 7 % RANKS + 1)); /* in no order */
    files[RANKS] = file_of(false, "A", 5);
    files[RANKS + 1] = file_of(false, "a/b", 7);
    files[RANKS + 2] = file_of(false, "a\xc3\xa9", 8);
    files[RANKS + 3] = file_of(true, "a", 11);
    files_put(&w, files, RANKS + 4, NULL, 0);
    nears_are(&w);
    world_reopen(&w);
    nears_are(&w);
    world_release(&w);
}

/* A change set is applied: its path goes from one half to the other. Others are retried: removed, and added with
 * another rank; or with the same one, since what is removed goes first. */
static void a_path_is_added_and_removed_in_one_turn(void **state)
{
    struct world w;
    struct changeset_file first[] = { file_of(false, "a", 1), file_of(false, "a", 2), file_of(false, "a", 3) };
    struct changeset_file gone[] = { first[0], first[1], first[2], file_of(false, "never", 1) };
    struct changeset_file added[] = { file_of(true, "a", 1), file_of(false, "a", 9), first[2] };
    (void)state;
    world_make(&w);
    files_put(&w, first, 3, NULL, 0);
    gone[2].task = 5; /* found by its key alone */
    files_put(&w, added, 3, gone, 4);
    for (int i = 0; i < 2; i++) {
        near_is(&w, 1, false, "a", 0, true, 3);
        near_is(&w, 1, false, "a", 3, true, 9);
        near_is(&w, 1, false, "a", 9, true, 0);
        near_is(&w, 1, true, "a", 0, true, 1);
        near_is(&w, 1, true, "a", 1, true, 0);
        world_reopen(&w);
    }
    files_put(&w, NULL, 0, added, 3);
    near_is(&w, 1, false, "a", 0, true, 0);
    near_is(&w, 1, true, "a", 0, true, 0);
    world_release(&w);
}

/* As long as changesets.limits.path lets it be, and nothing in it that could be packed. */
static void the_longest_path_has_a_place_in_the_index(void **state)
{
    struct world w;
    struct rng rng;
    char path[2048 + 1];
    (void)state;
    world_make(&w);
    rng_seed(&rng, 3);
    for (size_t i = 0; i < sizeof path - 1; i++)
        path[i] = (char)('!' + rng_below(&rng, '~' - '!'));
    path[sizeof path - 1] = 0;
    struct changeset_file files[] = { file_of(false, path, 1), file_of(false, path, 2) };
    files_put(&w, files, 2, NULL, 0);
    near_is(&w, 1, false, path, 1, true, 2);
    world_release(&w);
}

/* --- the whole store --- */

static const char *fault_of(struct world *w)
{
    static struct verify_report report;
    struct store_config config = world_config(w, false);
    MUST(w, store_verify_at(&config, 0, NULL, &report, &w->err));
    return report.ok ? NULL : report.fault;
}

static void rows_make(struct world *w, struct changeset rows[3], struct changeset_file files[4])
{
    for (int64_t i = 0; i < 3; i++)
        rows[i] = changeset_sample(w, i + 1);
    for (int64_t i = 0; i < 4; i++)
        files[i] = file_of(i == 3, "src/a.c", i + 1);
    turn_begin(w);
    w->c.changesets.files_add.at = files, w->c.changesets.files_add.n = 4;
    changesets_put(w, rows, 3);
    turn_end(w);
    rows[2].revision = STR("17");
    turn_begin(w);
    w->c.changesets.files_remove.at = &files[1], w->c.changesets.files_remove.n = 1;
    changesets_put(w, &rows[2], 1);
    turn_end(w);
    MUST(w, OPS(w)->load_head(w->store, &w->head, &w->err));
}

static void rows_are(struct world *w, const struct changeset rows[3])
{
    for (size_t i = 0; i < 3; i++)
        changeset_is(w, &rows[i]);
    near_is(w, 1, false, "src/a.c", 1, true, 3);
    near_is(w, 1, false, "src/a.c", 3, false, 1);
    near_is(w, 1, true, "src/a.c", 0, true, 4);
}

/* world_copy: the store of `from`, which is closed, as one of its own. */
static void world_copy(struct world *to, struct world *from, bool sqlite)
{
    memset(to, 0, sizeof *to);
    world_dir_make(to->dir);
    if (sqlite)
        snprintf(to->url, sizeof to->url, "sqlite://%s", to->dir);
    else
        backend_chosen()->url(to->dir, to->url, sizeof to->url);
    struct store_config source = world_config(from, false), target = world_config(to, false);
    MUST(to, store_copy(&source, &target, NULL, &to->err));
    MUST(to, to->store = store_open(&target, &to->err));
}

static void store_shut(struct world *w)
{
    OPS(w)->close(w->store);
    w->store = NULL;
}

/* Into SQLite, and from there into another store of the kind that is tested. */
static void a_copy_has_them(void **state)
{
    struct world w, copies[2];
    struct changeset rows[3];
    struct changeset_file files[4];
    (void)state;
    world_make(&w);
    rows_make(&w, rows, files);
    store_shut(&w);
    for (int i = 0; i < 2; i++) {
        world_copy(&copies[i], i ? &copies[0] : &w, i == 0);
        rows_are(&copies[i], rows);
        const char *fault = fault_of(&copies[i]);
        if (fault)
            fail_msg("%s", fault);
        store_shut(&copies[i]);
    }
    for (int i = 0; i < 2; i++) {
        arena_release(&copies[i].arena);
        if (i == 1)
            backend_chosen()->drop(copies[i].dir);
        world_dir_remove(copies[i].dir);
    }
    world_release(&w);
}

/* --- readers --- */

enum { LISTED = 1500, LONE = 41, STEP = 512 }; /* STEP: as many as a call looks at that has no time left, or fewer */

static enum task_state state_of(int64_t task)
{
    return task % 100 == 0 ? STATE_F : task % 7 == 0 ? STATE_S : STATE_D;
}

static int64_t lane_of(int64_t task)
{
    return 1 + task % 2;
}

/* Tasks 1 to LISTED with their change sets; LONE is another tenant's. */
static void list_make(struct world *w)
{
    static struct task tasks[LISTED];
    static struct changeset rows[LISTED];
    const struct task *list[LISTED];
    struct lane lanes[3] = { 0 };
    const struct lane *lane_list[3];
    for (int64_t i = 0; i < 3; i++) {
        lanes[i] = (struct lane){ .id = i + 1,
            .kind = LANE_TARGET,
            .tenant = i == 2 ? STR("small") : STR("default"),
            .name = str_fmt(&w->arena, "target-%lld", (long long)i + 1) };
        lane_list[i] = &lanes[i];
    }
    for (int64_t i = 0; i < LISTED; i++) {
        int64_t id = i + 1;
        rows[i] = changeset_sample(w, id);
        rows[i].lane = id == LONE ? 3 : lane_of(id);
        rows[i].tenant = id == LONE ? STR("small") : STR("default");
        tasks[i] = (struct task){ .id = id, .lane = rows[i].lane, .state = state_of(id), .name = rows[i].csid };
        list[i] = &tasks[i];
    }
    turn_begin(w);
    w->c.lanes.at = lane_list, w->c.lanes.n = 3;
    w->c.tasks_new.at = list, w->c.tasks_new.n = LISTED;
    changesets_put(w, rows, LISTED);
    turn_end(w);
}

static bool wanted(const struct changeset_filter *f, int64_t task)
{
    bool lone = task == LONE;
    return str_eq(f->tenant, lone ? STR("small") : STR("default")) &&
           (!f->states || f->states & 1u << state_of(task)) && (!f->lane || f->lane == (lone ? 3 : lane_of(task))) &&
           (!f->movetype || (int64_t)f->movetype == MOVE_DC + task % (MOVE_COUNT - MOVE_DC));
}

static void view_is(struct world *w, const struct changeset_view *view, int64_t task)
{
    struct changeset row;
    struct task alone;
    bool found;
    assert_int_equal(view->changeset.task, task);
    MUST(w, reader_changeset(w->reader, &w->arena, task, &row, &found, &w->err));
    assert_true(found && row.files.len && row.removed.len);
    row.files = row.removed = (struct str){ 0 };
    changeset_same(&view->changeset, &row);
    MUST(w, reader_row(w->reader, &w->arena, task, &alone, &found, &w->err));
    assert_true(found);
    task_same(&view->task, &alone);
    str_same(view->lane_name, str_fmt(&w->arena, "target-%lld", (long long)row.lane));
}

/* All pages together are the list, in order, nothing twice; gives the number of calls. */
static size_t pages_are(struct world *w, struct changeset_filter f)
{
    int64_t expected = LISTED;
    size_t calls = 0;
    do {
        struct changeset_view *views;
        size_t n;
        int64_t next;
        MUST(w, reader_changesets(w->reader, &w->arena, &f, &views, &n, &next, &w->err));
        assert_true(n <= f.limit);
        for (size_t i = 0; i < n; i++, expected--) {
            while (expected > 0 && !wanted(&f, expected))
                expected--;
            assert_int_equal(views[i].changeset.task, expected);
            if (expected % 50 == 0 || expected == LONE)
                view_is(w, &views[i], expected);
        }
        assert_true(next == 0 || f.before == 0 || next < f.before);
        f.before = next;
        calls++;
    } while (f.before);
    for (; expected > 0; expected--)
        assert_false(wanted(&f, expected));
    return calls;
}

static void lists_of_change_sets_are_whole(void **state)
{
    struct world w;
    struct changeset row;
    int64_t task;
    bool found;
    (void)state;
    world_make(&w);
    list_make(&w);
    for (int cut = 0; cut < 2; cut++) {
        struct changeset_filter all = { .tenant = STR("default"), .limit = 400 };
        assert_int_equal(pages_are(&w, all), 4); /* where all fit a page is whole */
        struct changeset_filter failed = { .tenant = STR("default"), .states = 1u << STATE_F, .limit = 20 };
        size_t calls = pages_are(&w, failed);
        assert_true(cut ? calls >= LISTED / STEP : calls == 1);
        struct changeset_filter narrow = all;
        narrow.states = 1u << STATE_S | 1u << STATE_F, narrow.lane = 2, narrow.movetype = MOVE_BF, narrow.limit = 3;
        assert_true(pages_are(&w, narrow) > 5);
        narrow.lane = 9;
        pages_are(&w, narrow);
        assert_int_equal(pages_are(&w, (struct changeset_filter){ .tenant = STR("small"), .limit = 1 }), 1);
        assert_int_equal(pages_are(&w, (struct changeset_filter){ .tenant = STR("nobody"), .limit = 1 }), 1);
        w.reader->step_us = -1; /* from now on a walk's time is over at its first look at the clock */
    }
    MUST(&w, reader_changeset_find(w.reader, STR("small"), STR("cs-41"), &task, &w.err));
    assert_int_equal(task, LONE);
    MUST(&w, reader_changeset_find(w.reader, STR("default"), STR("cs-41"), &task, &w.err));
    assert_int_equal(task, 0);
    MUST(&w, reader_changeset(w.reader, &w.arena, LISTED + 1, &row, &found, &w.err));
    assert_false(found);
    world_release(&w);
}

/* --- edits behind the store's back --- */

static bool on_postgres(void)
{
    return strcmp(backend_chosen()->name, "postgres") == 0;
}

static void sql_run(struct world *w, const char *text)
{
    if (on_postgres()) {
        PGconn *conn = PQconnectdb(w->url);
        PGresult *result = PQexec(conn, text);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            fail_msg("%s: %s", text, PQerrorMessage(conn));
        PQclear(result);
        PQfinish(conn);
        return;
    }
    char path[200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/weir.db", w->dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void edit_is_found(struct world *w, const char *table, const char *change)
{
    char text[400];
    snprintf(text, sizeof text, "CREATE TABLE saved AS SELECT * FROM %s", table);
    sql_run(w, text);
    sql_run(w, change);
    const char *fault = fault_of(w);
    if (!fault || !strstr(fault, table))
        fail_msg("%s: %s", change, fault ? fault : "not found");
    snprintf(text, sizeof text, "BEGIN; DELETE FROM %s; INSERT INTO %s SELECT * FROM saved; DROP TABLE saved; COMMIT",
        table, table);
    sql_run(w, text);
    if ((fault = fault_of(w)))
        fail_msg("after its undoing: %s", fault);
}

static void column_is_told(struct world *w, const char *table, const char *column, char type)
{
    char change[200];
    if (type == 'i')
        snprintf(change, sizeof change, "UPDATE %s SET %s = %s + 1000001", table, column, column);
    else if (type == 't')
        snprintf(change, sizeof change, "UPDATE %s SET %s = %s || 'x'", table, column, column);
    else if (on_postgres())
        snprintf(change, sizeof change, "UPDATE %s SET %s = %s || '\\x07'::bytea", table, column, column);
    else
        snprintf(change, sizeof change, "UPDATE %s SET %s = CAST(%s || x'07' AS BLOB)", table, column, column);
    edit_is_found(w, table, change);
}

static void an_edit_of_any_column_is_found(void **state)
{
    struct world w;
    struct changeset rows[3];
    struct changeset_file files[4];
    (void)state;
    world_make(&w);
    rows_make(&w, rows, files);
    assert_null(fault_of(&w));
#define TOLD(column, type, member, role) column_is_told(&w, table, #column, *ROW_LETTER_##type);
    const char *table = "changeset";
    ROW_changeset(TOLD) edit_is_found(&w, table, "DELETE FROM changeset WHERE task = 2");
    table = "changeset_file";
    ROW_changeset_file(TOLD) edit_is_found(&w, table, "DELETE FROM changeset_file WHERE rank = 4");
    edit_is_found(
        &w, table, "INSERT INTO changeset_file (lane, applied, path, rank, task) VALUES (1, 0, 'src/a.c', 2, 10002)");
    rows_are(&w, rows);
    world_release(&w);
}

const struct CMUnitTest contract_changesets[] = {
    cmocka_unit_test(a_change_set_is_kept_and_found),
    cmocka_unit_test(a_change_set_that_one_turn_writes_twice),
    cmocka_unit_test(no_two_have_one_csid),
    cmocka_unit_test(the_newest_of_a_content_is_found),
    cmocka_unit_test(open_ones_are_found),
    cmocka_unit_test(the_nearest_row_of_a_path_is_found),
    cmocka_unit_test(a_path_is_added_and_removed_in_one_turn),
    cmocka_unit_test(the_longest_path_has_a_place_in_the_index),
    cmocka_unit_test(lists_of_change_sets_are_whole),
    cmocka_unit_test(a_copy_has_them),
    cmocka_unit_test(an_edit_of_any_column_is_found),
};
const size_t n_contract_changesets = sizeof contract_changesets / sizeof contract_changesets[0];
