/* tasks: lists of tasks, newest first, for any filter.
 *
 * The hot path pays for no index that only lists need. So a list is taken from the narrowest source there is: a
 * revision's tasks from task_key; Q, S, F, T and A from task_state; X from `live`; P from `ready` while there are few;
 * and what is left (no state, D, many P) from the task table's end downwards. Each source is walked under one snapshot
 * for step_us at most; a walk that was stopped hands back what it has, and *out_next lets the next call go on there: a
 * page may be short, or empty, while there is more. */
#include <stdlib.h>

#include "io/clock.h"
#include "store/damage.h"
#include "store/sqlite/reader.h"

enum { READY_SORT_MAX = 5000, LANES_MAX = 64, CLOCK_STEPS = 64 };

#define LANE_COLUMN(column, type, member, role) LANE_COLUMN_##column,
enum { ROW_lane(LANE_COLUMN) }; /* where they stand in a result */

struct source {
    enum sql_id sql;
    enum task_state state; /* tasks_in_state: $2 */
};

struct listing {
    struct db *db;
    const struct task_filter *filter;
    size_t limit;
    int64_t lanes[LANES_MAX]; /* those with the name wanted */
    size_t n_lanes;
    unsigned states;
    int64_t *ids; /* in the arena: what was found, per source newest first */
    size_t n_ids, cap_ids;
    int64_t floor; /* below this id a source wasn't walked; 0: all were walked to their end */
    int64_t deadline;
};

static bool lanes_resolve(struct listing *l, struct str name, struct str tenant, struct err *err)
{
    sqlite3_stmt *stmt = l->db->stmts[SQL_lanes_named];
    enum db_step step;
    bind_text(stmt, 1, name);
    while ((step = db_next(l->db, SQL_lanes_named, err)) == DB_ROW) {
        if (tenant.len && !str_eq(column_view(stmt, LANE_COLUMN_tenant), tenant))
            continue;
        if (l->n_lanes < LANES_MAX)
            l->lanes[l->n_lanes++] = sqlite3_column_int64(stmt, LANE_COLUMN_id);
    }
    return step == DB_DONE;
}

static bool tenant_fits(struct listing *l, int64_t lane, struct err *err, bool *out_fits)
{
    bind_i64(l->db->stmts[SQL_lane_get], 1, lane);
    enum db_step step = db_next(l->db, SQL_lane_get, err);
    if (step == DB_ERROR)
        return false;
    *out_fits =
        step == DB_ROW && str_eq(column_view(l->db->stmts[SQL_lane_get], LANE_COLUMN_tenant), l->filter->tenant);
    db_reset(l->db, SQL_lane_get);
    return true;
}

/* The cells behind the id. Numbers first: they are read without touching text. */
static bool row_fits(struct listing *l, struct cells *c, struct err *err, bool *out_fits)
{
    const struct task_filter *f = l->filter;
    int64_t lane = next_i64(c), rev = next_i64(c);
    *out_fits = false;
    if (f->lane.len) {
        bool of_lane = false;
        for (size_t i = 0; i < l->n_lanes && !of_lane; i++)
            of_lane = l->lanes[i] == lane;
        if (!of_lane)
            return true;
    }
    if ((f->rev && rev != f->rev) || !(l->states & 1u << row_state(next_view(c))))
        return true;
    if (f->name.len && !str_eq(next_view(c), f->name))
        return true;
    *out_fits = true;
    return !f->tenant.len || f->lane.len || tenant_fits(l, lane, err, out_fits);
}

/* One more than the limit is looked for, so that the last page knows that it is the last. */
static bool source_walk(struct listing *l, struct arena *arena, struct source source, struct err *err)
{
    size_t found = 0, steps = 0;
    int64_t id = 0;
    bool ok = true, fits, stopped = false;
    enum db_step step = DB_ROW;
    while (ok && found <= l->limit && (step = db_next(l->db, source.sql, err)) == DB_ROW) {
        struct cells c = cells_of(l->db, source.sql);
        id = next_i64(&c);
        ok = row_fits(l, &c, err, &fits);
        if (ok && fits) {
            *ARENA_PUSH(arena, l->ids, l->n_ids, l->cap_ids) = id;
            found++;
        }
        /* rows that all fit are a whole page */
        if (++steps % CLOCK_STEPS == 0 && steps > l->limit && clock_boot_us() > l->deadline) {
            stopped = true;
            break;
        }
    }
    db_reset(l->db, source.sql);
    if ((stopped || found > l->limit) && id > l->floor)
        l->floor = id;
    return ok && step != DB_ERROR;
}

static bool source_start(struct listing *l, struct arena *arena, struct source source, struct err *err)
{
    sqlite3_stmt *stmt = l->db->stmts[source.sql];
    bind_i64(stmt, 1, l->filter->before > 0 ? l->filter->before : INT64_MAX);
    if (source.sql == SQL_tasks_in_state)
        bind_text(stmt, 2, state_text(source.state));
    if (source.sql != SQL_tasks_of_rev)
        return source_walk(l, arena, source, err);
    for (size_t i = 0; i < l->n_lanes; i++) {
        bind_i64(stmt, 2, l->lanes[i]);
        bind_i64(stmt, 3, l->filter->rev);
        if (!source_walk(l, arena, source, err))
            return false;
    }
    return true;
}

static bool few_pending(struct listing *l, bool *out, struct err *err)
{
    struct cells c = cells_of(l->db, SQL_count_pending);
    bind_i64(c.stmt, 1, READY_SORT_MAX + 1);
    enum db_step step = db_next(l->db, SQL_count_pending, err);
    if (step == DB_ERROR)
        return false;
    *out = step == DB_ROW && next_i64(&c) <= READY_SORT_MAX;
    db_reset(l->db, SQL_count_pending);
    return true;
}

/* By state: its source, when it has one of its own. */
static const enum sql_id state_sources[STATE_COUNT] = {
    [STATE_Q] = SQL_tasks_in_state,
    [STATE_S] = SQL_tasks_in_state,
    [STATE_P] = SQL_tasks_pending,
    [STATE_X] = SQL_tasks_live,
    [STATE_D] = SQL_tasks_newest,
    [STATE_F] = SQL_tasks_in_state,
    [STATE_T] = SQL_tasks_in_state,
    [STATE_A] = SQL_tasks_in_state,
};

static bool sources_walk(struct listing *l, struct arena *arena, struct err *err)
{
    bool few = true, whole = false;
    if (l->filter->rev > 0 && l->n_lanes)
        return source_start(l, arena, (struct source){ .sql = SQL_tasks_of_rev }, err);
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        whole |= l->states & 1u << state && state_sources[state] == SQL_tasks_newest;
    if (!whole && l->states & 1u << STATE_P && !few_pending(l, &few, err))
        return false;
    whole |= !few;
    if (whole)
        return source_start(l, arena, (struct source){ .sql = SQL_tasks_newest }, err);
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        if (l->states & 1u << state &&
            !source_start(l, arena, (struct source){ state_sources[state], (enum task_state)state }, err))
            return false;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

static bool views_load(
    struct listing *l, struct arena *arena, size_t n, struct task_view **out, size_t *out_n, struct err *err)
{
    struct lane lane = { .id = -1 };
    *out = n ? ARENA_ARRAY(arena, struct task_view, n) : NULL;
    *out_n = n;
    for (size_t i = 0; i < n; i++) {
        struct task_view *view = &(*out)[i];
        bool found;
        if (!rows_task(l->db, arena, l->ids[i], &view->task, &found, err))
            return false;
        if (!found)
            return damage_set(err, "task %lld is listed but has no row", (long long)l->ids[i]);
        if (lane.id != view->task.lane && !lane_view(l->db, arena, view->task.lane, &lane, err))
            return false;
        if (!view_fill(l->db, arena, &lane, view, err))
            return false;
    }
    return true;
}

static bool tasks_in_snapshot(
    struct listing *l, struct arena *arena, struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    const struct task_filter *f = l->filter;
    *out = NULL, *out_n = 0, *out_next = 0;
    if (f->lane.len && !lanes_resolve(l, f->lane, f->tenant, err))
        return false;
    if (f->lane.len && !l->n_lanes)
        return true;
    if (!sources_walk(l, arena, err))
        return false;
    if (l->n_ids > 1)
        qsort(l->ids, l->n_ids, sizeof *l->ids, newest_first);
    size_t n = 0;
    /* below the floor a source may hold what wasn't seen */
    while (n < l->n_ids && n < l->limit && l->ids[n] >= l->floor)
        n++;
    if (n < l->n_ids && l->ids[n] >= l->floor) /* full: go on below the last one */
        *out_next = l->ids[n - 1];
    else
        *out_next = l->floor;
    return views_load(l, arena, n, out, out_n, err);
}

bool sqlite_read_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter,
    struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    struct listing l = {
        .db = &sqlite_reader_of(reader)->db,
        .filter = filter,
        .limit = filter->limit ? filter->limit : 1,
        .states = filter->states ? filter->states : (1u << STATE_COUNT) - 2,
        .deadline = clock_boot_us() + reader->step_us,
    };
    return snapshot_begin(l.db, err) && snapshot_end(l.db, tasks_in_snapshot(&l, arena, out, out_n, out_next, err));
}

static bool find_in_snapshot(
    struct listing *l, int64_t rev, struct str name, struct str variant, int64_t run, int64_t *out_id, struct err *err)
{
    for (size_t i = 0; i < l->n_lanes; i++) {
        struct cells c = cells_of(l->db, SQL_task_find);
        BIND_NUMBERS(c.stmt, l->lanes[i], rev);
        BIND_TEXTS(c.stmt, 3, name, variant);
        bind_i64(c.stmt, 5, run);
        enum db_step step = db_next(l->db, SQL_task_find, err);
        if (step == DB_ERROR)
            return false;
        if (step == DB_ROW) {
            *out_id = next_i64(&c);
            db_reset(l->db, SQL_task_find);
            return true;
        }
    }
    return true;
}

bool sqlite_read_find(struct reader *reader, struct str tenant, struct str lane, int64_t rev, struct str name,
    struct str variant, int64_t run, int64_t *out_id, struct err *err)
{
    struct listing l = { .db = &sqlite_reader_of(reader)->db };
    *out_id = 0;
    return snapshot_begin(l.db, err) &&
           snapshot_end(l.db,
               lanes_resolve(&l, lane, tenant, err) && find_in_snapshot(&l, rev, name, variant, run, out_id, err));
}
