/* archives: an archive with its revisions, the latest task of every name in it, and its schedules: written, read back
 * by each way there is, still there after a restart; and the task that "prev" means is found by them. */
#include <stdio.h>

#include "world.h"

static void archive_same(const struct archive *a, const struct archive *b)
{
    assert_int_equal(a->lane, b->lane);
    assert_int_equal(a->kind, b->kind);
    str_same(a->url, b->url);
    str_same(a->branch, b->branch);
    str_same(a->tip, b->tip);
    assert_int_equal(a->added, b->added);
    assert_int_equal(a->removed, b->removed);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->next, b->next);
    assert_int_equal(a->youngest, b->youngest);
    assert_int_equal(a->definition, b->definition);
    assert_int_equal(a->lock_exclusive, b->lock_exclusive);
    assert_int_equal(a->n_lock_shared, b->n_lock_shared);
    if (a->n_lock_shared)
        assert_memory_equal(a->lock_shared, b->lock_shared, a->n_lock_shared * sizeof *a->lock_shared);
}

static void revision_same(const struct revision *a, const struct revision *b)
{
    assert_int_equal(a->lane, b->lane);
    assert_int_equal(a->rev, b->rev);
    assert_int_equal(a->state, b->state);
    str_same(a->ident, b->ident);
    str_same(a->txn, b->txn);
    str_same(a->author, b->author);
    str_same(a->message, b->message);
    assert_int_equal(a->time, b->time);
    assert_int_equal(a->noted, b->noted);
    assert_int_equal(a->cause, b->cause);
    assert_int_equal(a->depth, b->depth);
    assert_int_equal(a->definition, b->definition);
    assert_int_equal(a->n_prevs, b->n_prevs);
    if (a->n_prevs)
        assert_memory_equal(a->prevs, b->prevs, a->n_prevs * sizeof *a->prevs);
}

/* archive_is_read: by the engine and by the api; it is the only one, named "trunk", and was removed. */
static void archive_is_read(struct world *w, const struct archive *archive)
{
    struct archive **out;
    struct archive_view *views, view;
    size_t n;
    bool found;
    MUST(w, OPS(w)->load_archives(w->store, &w->arena, &out, &n, &w->err));
    assert_int_equal(n, 1);
    archive_same(out[0], archive);
    MUST(w, reader_archives(w->reader, &w->arena, &views, &n, &w->err));
    assert_int_equal(n, 1);
    archive_same(&views[0].archive, archive);
    str_same(views[0].lane.name, STR("trunk"));
    MUST(w, reader_archives_page(w->reader, &w->arena, STR("default"), 0, 10, &views, &n, &w->err));
    assert_int_equal(n, 0); /* it is removed */
    MUST(w, reader_archive(w->reader, &w->arena, STR("default"), STR("trunk"), &view, &found, &w->err));
    assert_true(found);
    archive_same(&view.archive, archive);
    MUST(w, reader_archive(w->reader, &w->arena, STR("default"), STR("nowhere"), &view, &found, &w->err));
    assert_false(found);
    MUST(w, reader_archive(w->reader, &w->arena, STR("other"), STR("trunk"), &view, &found, &w->err));
    assert_false(found);
}

static void archives_and_revisions_are_kept(void **state)
{
    struct world w;
    struct lane lane = { .id = 1, .kind = LANE_ARCHIVE, .tenant = STR("default"), .name = STR("trunk") };
    const struct lane *lanes[] = { &lane };
    int64_t shared[] = { 7, 9 }, prevs[] = { 3, 4 };
    struct archive archive = { .lane = 1,
        .kind = ARCHIVE_GIT,
        .url = STR("/srv/git"),
        .branch = STR("main"),
        .added = 5,
        .first = 2,
        .next = 6,
        .youngest = 8,
        .tip = STR("abc"),
        .definition = 11,
        .lock_exclusive = 12,
        .lock_shared = shared,
        .n_lock_shared = 2 };
    const struct archive *archives[] = { &archive };
    struct revision revisions[] = {
        { .lane = 1,
            .rev = 4,
            .state = REVISION_KNOWN,
            .ident = STR("c4"),
            .author = STR("anna"),
            .message = STR("first\nand more"),
            .time = 1,
            .noted = 2 },
        { .lane = 1,
            .rev = 5,
            .state = REVISION_WAITING,
            .ident = STR("c5"),
            .txn = STR("4-5"),
            .cause = 3,
            .depth = 1,
            .definition = 9,
            .prevs = prevs,
            .n_prevs = 2 },
    };
    struct revision revision, *list;
    int64_t rev;
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    turn_begin(&w);
    w.c.lanes.at = lanes, w.c.lanes.n = 1;
    w.c.archives.at = archives, w.c.archives.n = 1;
    w.c.revisions.at = revisions, w.c.revisions.n = 2;
    turn_end(&w);
    archive.next = 7, archive.n_lock_shared = 0, archive.removed = 99;
    revisions[1].state = REVISION_SKIPPED, revisions[1].n_prevs = 0;
    turn_begin(&w);
    w.c.archives.at = archives, w.c.archives.n = 1;
    w.c.revisions.at = &revisions[1], w.c.revisions.n = 1;
    turn_end(&w);
    world_reopen(&w);
    archive_is_read(&w, &archive);
    for (int i = 0; i < 2; i++) {
        MUST(&w, OPS(&w)->load_revision(w.store, &w.arena, 1, 4 + i, &revision, &found, &w.err));
        assert_true(found);
        revision_same(&revision, &revisions[i]);
        MUST(&w, reader_revision(w.reader, &w.arena, 1, 4 + i, &revision, &found, &w.err));
        revision_same(&revision, &revisions[i]);
    }
    MUST(&w, OPS(&w)->load_revision(w.store, &w.arena, 1, 6, &revision, &found, &w.err));
    assert_false(found);
    MUST(&w, reader_revisions(w.reader, &w.arena, 1, 0, 10, &list, &n, &w.err));
    assert_int_equal(n, 2);
    assert_int_equal(list[0].rev, 5);
    MUST(&w, reader_revisions(w.reader, &w.arena, 1, 5, 10, &list, &n, &w.err));
    assert_int_equal(n, 1);
    MUST(&w, OPS(&w)->revision_of_ident(w.store, 1, STR("c5"), &rev, &w.err));
    assert_int_equal(rev, 5);
    MUST(&w, reader_revision_of_ident(w.reader, 1, STR("c9"), &rev, &w.err));
    assert_int_equal(rev, 0);
    world_release(&w);
}

static void a_page_of_archives_and_one_lane(void **state)
{
    enum { ARCHIVES = 9 };
    struct world w;
    struct lane rows[ARCHIVES], lane;
    struct archive archive_rows[ARCHIVES];
    const struct lane *lanes[ARCHIVES];
    const struct archive *archives[ARCHIVES];
    struct archive_view *views;
    char names[ARCHIVES][8];
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    for (int i = 0; i < ARCHIVES; i++) { /* every third is another tenant's, the fifth is removed */
        snprintf(names[i], sizeof names[i], "a%d", i % 3 == 2 ? i - 1 : i);
        rows[i] = (struct lane){ .id = i + 1,
            .kind = LANE_ARCHIVE,
            .tenant = i % 3 == 2 ? STR("other") : STR("default"),
            .name = str_of(names[i]) };
        archive_rows[i] = (struct archive){
            .lane = i + 1, .kind = ARCHIVE_EXTERNAL, .added = 5, .first = 1, .next = 1, .removed = i == 4 ? 99 : 0
        };
        lanes[i] = &rows[i];
        archives[i] = &archive_rows[i];
    }
    turn_begin(&w);
    w.c.lanes.at = lanes, w.c.lanes.n = ARCHIVES;
    w.c.archives.at = archives, w.c.archives.n = ARCHIVES;
    turn_end(&w);
    MUST(&w, reader_archives_page(w.reader, &w.arena, STR("default"), 0, 3, &views, &n, &w.err));
    assert_int_equal(n, 3);
    assert_int_equal(views[0].archive.lane, 8);
    assert_int_equal(views[1].archive.lane, 7);
    assert_int_equal(views[2].archive.lane, 4);
    str_same(views[2].lane.name, STR("a3"));
    MUST(&w, reader_archives_page(w.reader, &w.arena, STR("default"), 4, 3, &views, &n, &w.err));
    assert_int_equal(n, 2);
    assert_int_equal(views[1].archive.lane, 1);
    MUST(&w, reader_archives_page(w.reader, &w.arena, STR("nobody"), 0, 3, &views, &n, &w.err));
    assert_int_equal(n, 0);
    /* both tenants have one of that name */
    MUST(&w, reader_lane(w.reader, &w.arena, STR("other"), STR("a1"), &lane, &found, &w.err));
    assert_true(found);
    assert_int_equal(lane.id, 3);
    MUST(&w, reader_lane(w.reader, &w.arena, STR("default"), STR("a1"), &lane, &found, &w.err));
    assert_int_equal(lane.id, 2);
    MUST(&w, reader_lane(w.reader, &w.arena, STR("default"), STR("a99"), &lane, &found, &w.err));
    assert_false(found);
    world_release(&w);
}

static void what_is_known_of_the_clock_is_kept(void **state)
{
    struct world w;
    struct wall_known known = { 1000, 20, 3000 }, got;
    (void)state;
    world_make(&w);
    MUST(&w, OPS(&w)->load_clock(w.store, &got, &w.err));
    assert_true(got.time == 0 && got.ran == 0 && got.seen == 0);
    for (int i = 0; i < 2; i++, known.time += 5, known.ran = 0, known.seen = 0) {
        int64_t before = w.store->commit;
        turn_begin(&w);
        w.c.clock = &known;
        turn_end(&w);
        assert_int_equal(w.store->commit, before + 1); /* without an event, but a commit */
        world_reopen(&w);
        MUST(&w, OPS(&w)->load_clock(w.store, &got, &w.err));
        assert_true(got.time == known.time && got.ran == known.ran && got.seen == known.seen);
    }
    world_release(&w);
}

static void what_prev_means_is_kept(void **state)
{
    struct world w;
    struct latest latest[] = {
        { .lane = 1, .name = STR("build"), .variant = STR("os=a"), .rev = 5, .task = 50, .ran_rev = 4, .ran_task = 40 },
        { .lane = 1, .name = STR("build"), .rev = 6, .task = 60 },
    }, got;
    struct schedule schedules[] = {
        { 1, STR("nightly"), STR("0 3 * * *"), STR("UTC"), 1000, 0 },
        { 2, STR("weekly"), STR("0 4 * * 0"), { 0 }, 2000, 0 },
    };
    struct schedule *out;
    struct task tasks[6];
    const struct task *rows[6];
    int64_t task, rev, run, *ids;
    size_t n;
    bool found;
    (void)state;
    world_make(&w);
    for (int i = 0; i < 6; i++) { /* revisions 1, 1#1, 2, 2#1, 3, 3#1 of one name */
        tasks[i] = (struct task){ .id = i + 1, .lane = 1, .rev = 1 + i / 2, .run = i % 2, .name = STR("build") };
        tasks[i].state = i < 3 ? STATE_D : STATE_S;
        rows[i] = &tasks[i];
    }
    turn_begin(&w);
    w.c.tasks_new.at = rows, w.c.tasks_new.n = 6;
    w.c.latest.at = latest, w.c.latest.n = 2;
    w.c.schedules.at = schedules, w.c.schedules.n = 2;
    turn_end(&w);
    latest[0].rev = 9, latest[0].task = 90;
    schedules[0].next = 1500;
    schedules[0].fired = 1400;
    turn_begin(&w);
    w.c.latest.at = latest, w.c.latest.n = 1;
    w.c.schedules.at = schedules, w.c.schedules.n = 1;
    w.c.schedules_remove.at = &schedules[1], w.c.schedules_remove.n = 1;
    turn_end(&w);
    world_reopen(&w);
    MUST(&w, OPS(&w)->latest_find(w.store, &w.arena, 1, STR("build"), STR("os=a"), &got, &found, &w.err));
    assert_true(found && got.rev == 9 && got.task == 90 && got.ran_rev == 4 && got.ran_task == 40);
    MUST(&w, OPS(&w)->latest_find(w.store, &w.arena, 1, STR("build"), STR(""), &got, &found, &w.err));
    assert_true(found && got.rev == 6 && got.ran_rev == 0);
    MUST(&w, OPS(&w)->latest_find(w.store, &w.arena, 2, STR("build"), STR(""), &got, &found, &w.err));
    assert_false(found);
    MUST(&w, OPS(&w)->load_schedules(w.store, &w.arena, &out, &n, &w.err));
    assert_true(n == 1 && out[0].next == 1500);
    str_same(out[0].cron, schedules[0].cron);
    assert_int_equal(out[0].fired, 1400);
    MUST(&w, reader_schedules(w.reader, &w.arena, 2, &out, &n, &w.err));
    assert_int_equal(n, 0);
    MUST(&w, OPS(&w)->task_upto(w.store, 1, STR("build"), STR(""), 2, &task, &rev, &w.err));
    assert_true(task == 3 && rev == 2); /* not its second run */
    MUST(&w, OPS(&w)->task_upto(w.store, 1, STR("build"), STR(""), 0, &task, &rev, &w.err));
    assert_int_equal(task, 0);
    MUST(&w, OPS(&w)->task_find(w.store, 1, 3, STR("build"), STR(""), -1, &task, &run, &w.err));
    assert_true(task == 6 && run == 1);
    MUST(&w, OPS(&w)->task_find(w.store, 1, 3, STR("build"), STR(""), 0, &task, &run, &w.err));
    assert_true(task == 5 && run == 0);
    MUST(&w, OPS(&w)->tasks_open(w.store, &w.arena, 1, 2, &ids, &n, &w.err));
    assert_true(n == 2 && ids[0] == 4);
    MUST(&w, OPS(&w)->tasks_after(w.store, &w.arena, 4, 10, &ids, &n, &w.err));
    assert_true(n == 2 && ids[0] == 5 && ids[1] == 6);
    world_release(&w);
}

const struct CMUnitTest contract_archives[] = {
    cmocka_unit_test(archives_and_revisions_are_kept),
    cmocka_unit_test(a_page_of_archives_and_one_lane),
    cmocka_unit_test(what_prev_means_is_kept),
    cmocka_unit_test(what_is_known_of_the_clock_is_kept),
};
const size_t n_contract_archives = sizeof contract_archives / sizeof contract_archives[0];
