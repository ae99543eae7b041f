/* tasks: lists of tasks, newest first, for any filter.
 *
 * The hot path pays for no index that only lists need. So a list is taken from the narrowest source there is: a
 * revision's tasks from task_key; Q, S, F, T and A from an index of their own; X from `live`; P from `ready` while
 * there are few; and what is left (no state, D, many P) from the task table's end downwards. Each source is walked,
 * under one snapshot, by the database's own means (reader_ops.walk) for step_us; a walk that was stopped hands back
 * what it has, and *out_next lets the next call go on there: a page may be short, or empty, while there is more.
 * Change sets likewise, from one source. */
#include <stdlib.h>

#include "io/clock.h"
#include "store/read_ops.h"

enum { READY_SORT_MAX = 5000, STATES_ALL = (1u << STATE_COUNT) - 2 };

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

static bool few_pending(struct listing *l, bool *out, struct err *err)
{
    struct query q;
    int64_t n;
    if (!ASK(&q, &l->reader->sql, SQL_count_pending, err, NUM(READY_SORT_MAX + 1)) ||
        !query_numbers(&q, (int64_t *[]){ &n }, 1, NULL, err))
        return false;
    *out = n <= READY_SORT_MAX;
    return true;
}

static bool sources_walk(struct listing *l, struct arena *arena, struct err *err)
{
    const struct reader_ops *ops = l->reader->ops;
    bool few = true, whole = (l->states & 1u << STATE_D) != 0;
    if (l->filter->rev > 0 && l->by_lane)
        return ops->walk(l, arena, SQL_tasks_of_rev, STATE_NONE, err);
    if (!whole && l->states & 1u << STATE_P && !few_pending(l, &few, err))
        return false;
    if (whole || !few)
        return ops->walk(l, arena, SQL_tasks_newest, STATE_NONE, err);
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        if (l->states & 1u << state && !ops->walk(l, arena, state_sources[state], (enum task_state)state, err))
            return false;
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

static bool lanes_find(struct listing *l, struct arena *arena, struct err *err)
{
    struct query q;
    return !l->by_lane ||
           (ASK(&q, &l->reader->sql, SQL_lanes_named, err, TXT(l->filter->lane), TXT(l->filter->tenant)) &&
               query_ids(&q, arena, &l->lanes, &l->n_lanes, err));
}

/* ids_in_snapshot: *out_n of l->ids are the page. */
static bool ids_in_snapshot(struct listing *l, struct arena *arena, size_t *out_n, int64_t *out_next, struct err *err)
{
    *out_n = 0, *out_next = 0;
    if (!lanes_find(l, arena, err))
        return false;
    if (l->by_lane && !l->n_lanes)
        return true;
    if (!sources_walk(l, arena, err))
        return false;
    if (l->n_ids > 1)
        qsort(l->ids, l->n_ids, sizeof *l->ids, newest_first);
    size_t n = 0;
    /* below the floor a source may hold what wasn't seen */
    while (n < l->n_ids && n < l->limit && l->ids[n] >= l->floor)
        n++;
    *out_next = n < l->n_ids && l->ids[n] >= l->floor ? l->ids[n - 1] : l->floor; /* full: go on below the last one */
    *out_n = n;
    return true;
}

static struct listing listing_of(struct reader *reader, const struct task_filter *filter)
{
    return (struct listing){
        .reader = reader,
        .filter = filter,
        .limit = filter->limit ? filter->limit : 1,
        .states = filter->states ? filter->states & STATES_ALL : STATES_ALL,
        .by_lane = filter->lane.len > 0,
        .deadline = clock_boot_us() + reader->step_us,
    };
}

static bool tasks_once(struct reader *reader, struct arena *arena, const struct task_filter *filter,
    struct task_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    struct listing l = listing_of(reader, filter);
    size_t n = 0;
    *out = NULL, *out_n = 0;
    if (!sql_begin(&reader->sql, err))
        return false;
    bool ok =
        ids_in_snapshot(&l, arena, &n, out_next, err) && reader->ops->views(reader, arena, l.ids, n, out, out_n, err);
    sql_end(&reader->sql);
    return ok;
}

static bool ids_once(struct reader *reader, struct arena *arena, const struct task_filter *filter, int64_t **out,
    size_t *out_n, int64_t *out_next, struct err *err)
{
    struct listing l = listing_of(reader, filter);
    if (!sql_begin(&reader->sql, err))
        return false;
    bool ok = ids_in_snapshot(&l, arena, out_n, out_next, err);
    sql_end(&reader->sql);
    *out = l.ids;
    return ok;
}

bool reader_task_ids(struct reader *reader, struct arena *arena, const struct task_filter *filter, int64_t **out,
    size_t *out_n, int64_t *out_next, struct err *err)
{
    return ids_once(reader, arena, filter, out, out_n, out_next, err) ||
           (reader->ops->again && reader->ops->again(reader, err) &&
               ids_once(reader, arena, filter, out, out_n, out_next, err));
}

bool reader_tasks(struct reader *reader, struct arena *arena, const struct task_filter *filter, struct task_view **out,
    size_t *out_n, int64_t *out_next, struct err *err)
{
    return tasks_once(reader, arena, filter, out, out_n, out_next, err) ||
           (reader->ops->again && reader->ops->again(reader, err) &&
               tasks_once(reader, arena, filter, out, out_n, out_next, err));
}

/* --- change sets --- */

bool row_changeset_view(struct query *q, struct arena *arena, struct changeset_view *out, struct err *err)
{
    if (!row_changeset(q, arena, &out->changeset, err) || !row_task(q, arena, &out->task, err))
        return false;
    out->lane_name = next_text(q, arena);
    return true;
}

static bool changesets_in_snapshot(struct reader *reader, struct arena *arena, const struct changeset_filter *f,
    struct changeset_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    int64_t *tasks = NULL;
    size_t n = 0;
    if (!reader->ops->changesets_walk(reader, arena, f, &tasks, &n, out_next, err))
        return false;
    if (n > 1)
        qsort(tasks, n, sizeof *tasks, newest_first);
    if (n > f->limit)
        *out_next = tasks[(n = f->limit) - 1];
    return !n || reader->ops->changeset_views(reader, arena, tasks, n, out, out_n, err);
}

static bool changesets_once(struct reader *reader, struct arena *arena, const struct changeset_filter *filter,
    struct changeset_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    struct changeset_filter f = *filter;
    f.limit = f.limit ? f.limit : 1;
    f.states = f.states ? f.states : STATES_ALL;
    *out = NULL, *out_n = 0, *out_next = 0;
    if (!sql_begin(&reader->sql, err))
        return false;
    bool ok = changesets_in_snapshot(reader, arena, &f, out, out_n, out_next, err);
    sql_end(&reader->sql);
    return ok;
}

bool reader_changesets(struct reader *reader, struct arena *arena, const struct changeset_filter *filter,
    struct changeset_view **out, size_t *out_n, int64_t *out_next, struct err *err)
{
    return changesets_once(reader, arena, filter, out, out_n, out_next, err) ||
           (reader->ops->again && reader->ops->again(reader, err) &&
               changesets_once(reader, arena, filter, out, out_n, out_next, err));
}

static bool changesets_of_once(struct reader *reader, struct arena *arena, const int64_t *tasks, size_t n,
    struct changeset_view **out, size_t *out_n, struct err *err)
{
    *out = NULL, *out_n = 0;
    if (!sql_begin(&reader->sql, err))
        return false;
    bool ok = !n || reader->ops->changeset_views(reader, arena, tasks, n, out, out_n, err);
    sql_end(&reader->sql);
    return ok;
}

bool reader_changesets_of(struct reader *reader, struct arena *arena, const int64_t *tasks, size_t n,
    struct changeset_view **out, size_t *out_n, struct err *err)
{
    return changesets_of_once(reader, arena, tasks, n, out, out_n, err) ||
           (reader->ops->again && reader->ops->again(reader, err) &&
               changesets_of_once(reader, arena, tasks, n, out, out_n, err));
}
