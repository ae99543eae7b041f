/* tasks: lists of tasks, newest first, for any filter.
 *
 * As in the SQLite store a list is taken from the narrowest source there is: a revision's tasks from task_key; Q, S, F,
 * T and A from task_listed; X from `live` and live_many; P from `ready` while there are few; what is left (no state, D,
 * many P) from the task table's end downwards. The database looks through a window of rows and gives those that fit;
 * windows grow until the page is full or STEP_US is over. A list that was stopped hands back what it has, and *out_next
 * lets the next call go on there. All of it is one snapshot. */
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "store/postgres/reader.h"

enum { READY_SORT_MAX = 5000, WINDOW_FIRST = 512, WINDOW_MAX = 32768, WINDOW_GROWTH = 8 };

struct listing {
    struct postgres_reader *self;
    const struct task_filter *filter;
    size_t limit;
    unsigned states;
    bool by_lane;   /* `lanes` counts */
    int64_t *lanes; /* in the arena */
    size_t n_lanes;
    struct pg_bulk letters; /* the states as text[] */
    int64_t *ids;           /* in the arena: what was found */
    size_t n_ids, cap_ids;
    int64_t start; /* below this id a source wasn't looked through; 0: all were, to their end */
    int64_t deadline;
};

/* Those of the name that the filter has. */
static bool lanes_find(struct listing *l, struct arena *arena, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    if (!l->by_lane)
        return true;
    arg_text(&args, l->filter->lane);
    arg_text(&args, l->filter->tenant);
    if (!pg_run(&l->self->pg, PG_lanes_named, &args, &result, err))
        return false;
    l->n_lanes = (size_t)PQntuples(result);
    l->lanes = l->n_lanes ? ARENA_ARRAY(arena, int64_t, l->n_lanes) : NULL;
    for (size_t i = 0; i < l->n_lanes; i++)
        l->lanes[i] = cell_i64(result, (int)i, 0);
    return true;
}

static void letters_make(struct listing *l)
{
    bulk_begin(&l->letters, "t");
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        if (l->states & 1u << state)
            bulk_text(&l->letters, state_text((enum task_state)state));
}

static bool window_read(struct listing *l, enum pg_id id, enum task_state state, int64_t before, int64_t window,
    PGresult **out, struct err *err)
{
    struct pg_args args = { 0 };
    arg_i64(&args, before);
    if (l->by_lane)
        arg_ids(l->self, &args, l->lanes, l->n_lanes);
    else
        arg_null(&args);
    arg_i64(&args, l->filter->rev);
    bool fits = bulk_args(&l->letters, &args);
    ASSERT(fits);
    arg_text(&args, l->filter->name);
    arg_i64(&args, window);
    arg_text(&args, l->by_lane ? (struct str){ 0 } : l->filter->tenant); /* a tenant may have very many lanes */
    if (id == PG_tasks_in_state)
        arg_text(&args, state_text(state));
    return pg_run(&l->self->pg, id, &args, out, err);
}

/* The page at once, where nothing but other tenants' rows may not fit: then one window is a whole page, however slow it
 * is. */
static int64_t window_first(const struct listing *l, enum pg_id id, int64_t page)
{
    const struct task_filter *f = l->filter;
    bool any_state = id != PG_tasks_newest || l->states == (1u << STATE_COUNT) - 2; /* other sources have one state */
    bool all_fit = !l->by_lane && !f->rev && !f->name.len && any_state;
    return all_fit || page > WINDOW_FIRST ? page : WINDOW_FIRST;
}

static int64_t window_next(int64_t window)
{
    if (window < WINDOW_FIRST)
        return WINDOW_FIRST;
    return window * WINDOW_GROWTH < WINDOW_MAX ? window * WINDOW_GROWTH : WINDOW_MAX;
}

/* One more than the limit is looked for, so that the last page knows that it is the last. A tenant that has few tasks
 * among very many of others is told so in steps of WINDOW_FIRST at least, also where each takes the database longer
 * than a call has: small windows are no quicker there, only more. */
static bool source_walk(struct listing *l, struct arena *arena, enum pg_id id, enum task_state state, struct err *err)
{
    int64_t page = (int64_t)l->limit + 1, below = l->filter->before > 0 ? l->filter->before : INT64_MAX;
    int64_t window = window_first(l, id, page), looked = 0;
    size_t found = 0;
    for (;;) {
        PGresult *result;
        int64_t end = 0;
        if (!window_read(l, id, state, below, window, &result, err))
            return false;
        for (int i = 0; i < PQntuples(result); i++) {
            int64_t task = cell_i64(result, i, 1);
            if (cell_i64(result, i, 0) == 1) {
                end = task;
                continue;
            }
            *ARENA_PUSH(arena, l->ids, l->n_ids, l->cap_ids) = task;
            found++;
        }
        if (end == 0)
            return true;
        below = end;
        looked += window;
        if (found > l->limit || (looked >= WINDOW_FIRST && clock_boot_us() > l->deadline))
            break;
        window = window_next(window);
    }
    l->start = below > l->start ? below : l->start;
    return true;
}

/* By state: its source, when it has one of its own. */
static const enum pg_id state_sources[STATE_COUNT] = {
    [STATE_Q] = PG_tasks_in_state,
    [STATE_S] = PG_tasks_in_state,
    [STATE_P] = PG_tasks_pending,
    [STATE_X] = PG_tasks_live,
    [STATE_D] = PG_tasks_newest,
    [STATE_F] = PG_tasks_in_state,
    [STATE_T] = PG_tasks_in_state,
    [STATE_A] = PG_tasks_in_state,
};

static bool few_pending(struct listing *l, bool *out, struct err *err)
{
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, READY_SORT_MAX + 1);
    if (!pg_run(&l->self->pg, PG_count_pending, &args, &result, err))
        return false;
    *out = cell_i64(result, 0, 0) <= READY_SORT_MAX;
    return true;
}

static bool sources_walk(struct listing *l, struct arena *arena, struct err *err)
{
    bool few = true, whole = (l->states & 1u << STATE_D) != 0;
    if (l->filter->rev > 0 && l->by_lane)
        return source_walk(l, arena, PG_tasks_of_rev, STATE_NONE, err);
    if (!whole && l->states & 1u << STATE_P && !few_pending(l, &few, err))
        return false;
    if (whole || !few)
        return source_walk(l, arena, PG_tasks_newest, STATE_NONE, err);
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        if (l->states & 1u << state && !source_walk(l, arena, state_sources[state], (enum task_state)state, err))
            return false;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

static bool tasks_in_snapshot(
    struct listing *l, struct arena *arena, struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    *out = NULL, *out_n = 0, *out_next = 0;
    if (!lanes_find(l, arena, err))
        return false;
    if (l->by_lane && !l->n_lanes)
        return true;
    letters_make(l);
    if (!sources_walk(l, arena, err))
        return false;
    if (l->n_ids > 1)
        qsort(l->ids, l->n_ids, sizeof *l->ids, newest_first);
    size_t n = 0;
    /* below the start a source may hold what wasn't seen */
    while (n < l->n_ids && n < l->limit && l->ids[n] >= l->start)
        n++;
    *out_next = n < l->n_ids && l->ids[n] >= l->start ? l->ids[n - 1] : l->start; /* full: go on below the last one */
    return views_load(l->self, arena, l->ids, n, out, out_n, err);
}

static bool tasks_once(struct postgres_reader *self, struct arena *arena, const struct task_filter *filter,
    struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    struct listing l = {
        .self = self,
        .filter = filter,
        .limit = filter->limit ? filter->limit : 1,
        .states = filter->states ? filter->states & ((1u << STATE_COUNT) - 2) : (1u << STATE_COUNT) - 2,
        .by_lane = filter->lane.len > 0,
        .deadline = clock_boot_us() + self->port.step_us,
    };
    PGresult *result;
    if (!reader_ask(l.self, PG_begin_snapshot, NULL, &result, err))
        return false;
    bool ok = tasks_in_snapshot(&l, arena, out, out_n, out_next, err);
    pg_snapshot_end(l.self);
    bulk_release(&l.letters);
    return ok;
}

bool postgres_read_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter,
    struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    return tasks_once(self, arena, filter, out, out_n, out_next, err) ||
           (reader_lost_midway(self, err) && tasks_once(self, arena, filter, out, out_n, out_next, err));
}
