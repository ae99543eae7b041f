/* reader: what the SQLite store does in its own way for who reads, on a read-only connection (store/reader.c has the
 * rest): a task with what belongs to it, and the walk of a list's source, row by row. */

#include "io/clock.h"
#include "store/damage.h"
#include "store/sqlite/query.h"
#include "store/sqlite/sqlite.h"

enum { CLOCK_STEPS = 64 };

struct sqlite_reader {
    struct reader port; /* first */
    struct db db;
};

static struct db *db_of(struct reader *reader)
{
    return &((struct sqlite_reader *)(void *)reader)->db;
}

static void close_reader(struct reader *reader)
{
    db_close(db_of(reader));
    mem_free(reader);
}

/* --- views of tasks --- */

/* One without a row has only its id. */
static bool lane_read(struct reader *reader, struct arena *arena, int64_t id, struct lane *out, struct err *err)
{
    struct query q;
    bool found;
    if (!ASK(&q, &reader->sql, SQL_lane_get, err, NUM(id)) || !get_lane(&q, arena, out, &found, err))
        return false;
    if (!found)
        *out = (struct lane){ .id = id };
    return true;
}

static bool executor_name(struct reader *reader, struct arena *arena, int64_t id, struct str *out, struct err *err)
{
    struct query q;
    if (!ASK(&q, &reader->sql, SQL_executor_name, err, NUM(id)))
        return false;
    enum query_step step = query_next(&q, err);
    *out = step == QUERY_ROW ? next_text(&q, arena) : (struct str){ 0 };
    q.ops->end(&q);
    return step != QUERY_ERROR;
}

static bool view_attempts(struct reader *reader, struct arena *arena, struct task_view *view, struct err *err)
{
    struct query q;
    bool ok = ASK(&q, &reader->sql, SQL_attempts_of_task, err, NUM(view->task.id)) &&
              list_attempt(&q, arena, &view->attempts, &view->n_attempts, err);
    view->executor_names = ok && view->n_attempts ? ARENA_ARRAY(arena, struct str, view->n_attempts) : NULL;
    for (size_t i = 0; ok && i < view->n_attempts; i++)
        ok = executor_name(reader, arena, view->attempts[i].executor, &view->executor_names[i], err);
    return ok;
}

/* All but view->task. The row says what there is to be read: nothing for a task that just waits in a queue. */
static bool view_fill(
    struct reader *reader, struct arena *arena, const struct lane *lane, struct task_view *view, struct err *err)
{
    view->lane_name = lane->name;
    view->tenant = lane->tenant;
    view->lane_kind = lane->kind;
    return (view->task.grant == 0 || view_attempts(reader, arena, view, err)) &&
           (view->task.ins == 0 ||
               reader_edges(reader, arena, view->task.id, false, &view->needs, &view->n_needs, err)) &&
           (!(view->task.marks & MARK_OUTPUTS) || ask_outputs(&reader->sql, arena, view->task.id, &view->outputs, err));
}

static bool task_in_snapshot(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    struct lane lane;
    *out = (struct task_view){ 0 };
    return ask_task(&reader->sql, arena, id, &out->task, out_found, err) &&
           (!*out_found ||
               (lane_read(reader, arena, out->task.lane, &lane, err) && view_fill(reader, arena, &lane, out, err)));
}

static bool read_task(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    if (!sql_begin(&reader->sql, err))
        return false;
    bool ok = task_in_snapshot(reader, arena, id, out, out_found, err);
    sql_end(&reader->sql);
    return ok;
}

static bool read_views(struct reader *reader, struct arena *arena, const int64_t *ids, size_t n, struct task_view **out,
    size_t *out_n, struct err *err)
{
    struct lane lane = { .id = -1 };
    *out = n ? ARENA_ARRAY(arena, struct task_view, n) : NULL;
    *out_n = n;
    for (size_t i = 0; i < n; i++) {
        struct task_view *view = &(*out)[i];
        bool found;
        if (!ask_task(&reader->sql, arena, ids[i], &view->task, &found, err))
            return false;
        if (!found)
            return damage_set(err, "task %lld is listed but has no row", (long long)ids[i]);
        if ((lane.id != view->task.lane && !lane_read(reader, arena, view->task.lane, &lane, err)) ||
            !view_fill(reader, arena, &lane, view, err))
            return false;
    }
    return true;
}

/* --- lists --- */

static bool tenant_fits(const struct listing *l, int64_t lane, bool *out, struct err *err)
{
    struct query q;
    if (!ASK(&q, &l->reader->sql, SQL_lane_tenant, err, NUM(lane)))
        return false;
    enum query_step step = query_next(&q, err);
    *out = step == QUERY_ROW && str_eq(next_view(&q), l->filter->tenant);
    q.ops->end(&q);
    return step != QUERY_ERROR;
}

/* The cells behind the id. Numbers first: they are read without touching text. */
static bool row_fits(const struct listing *l, struct query *q, bool *out_fits, struct err *err)
{
    const struct task_filter *f = l->filter;
    int64_t lane = next_i64(q), rev = next_i64(q);
    bool of_lane = !l->by_lane;
    for (size_t i = 0; i < l->n_lanes && !of_lane; i++)
        of_lane = l->lanes[i] == lane;
    *out_fits = of_lane && (!f->rev || rev == f->rev) && l->states & 1u << row_state(next_view(q)) &&
                (!f->name.len || str_eq(next_view(q), f->name));
    return !*out_fits || !f->tenant.len || l->by_lane || tenant_fits(l, lane, out_fits, err);
}

/* One more than the limit is looked for, so that the last page knows that it is the last. */
static bool rows_walk(struct listing *l, struct arena *arena, struct query *q, struct err *err)
{
    size_t found = 0, steps = 0;
    int64_t id = 0;
    bool ok = true, fits, stopped = false;
    enum query_step step = QUERY_ROW;
    while (ok && !stopped && found <= l->limit && (step = query_next(q, err)) == QUERY_ROW) {
        id = next_i64(q);
        ok = row_fits(l, q, &fits, err);
        if (ok && fits) {
            *ARENA_PUSH(arena, l->ids, l->n_ids, l->cap_ids) = id;
            found++;
        }
        /* rows that all fit are a whole page */
        stopped = ++steps % CLOCK_STEPS == 0 && steps > l->limit && clock_boot_us() > l->deadline;
    }
    q->ops->end(q);
    if ((stopped || found > l->limit) && id > l->floor)
        l->floor = id;
    return ok && step != QUERY_ERROR;
}

static bool read_walk(
    struct listing *l, struct arena *arena, enum sql_id source, enum task_state state, struct err *err)
{
    int64_t before = l->filter->before > 0 ? l->filter->before : INT64_MAX;
    struct query q;
    if (source == SQL_tasks_in_state)
        return ASK(&q, &l->reader->sql, source, err, NUM(before), TXT(state_text(state))) &&
               rows_walk(l, arena, &q, err);
    if (source != SQL_tasks_of_rev)
        return ASK(&q, &l->reader->sql, source, err, NUM(before)) && rows_walk(l, arena, &q, err);
    for (size_t i = 0; i < l->n_lanes; i++)
        if (!ASK(&q, &l->reader->sql, source, err, NUM(before), NUM(l->lanes[i]), NUM(l->filter->rev)) ||
            !rows_walk(l, arena, &q, err))
            return false;
    return true;
}

/* --- change sets --- */

static bool changeset_views(struct reader *reader, struct arena *arena, const int64_t *tasks, size_t n,
    struct changeset_view **out, size_t *out_n, struct err *err)
{
    struct query q;
    *out = ARENA_ARRAY(arena, struct changeset_view, n);
    for (*out_n = 0; *out_n < n; (*out_n)++) {
        if (!ASK(&q, &reader->sql, SQL_changeset_views, err, NUM(tasks[*out_n])))
            return false;
        enum query_step step = query_next(&q, err);
        if (step == QUERY_DONE)
            return damage_set(err, "change set %lld is listed but has no row", (long long)tasks[*out_n]);
        if (step == QUERY_ERROR || !row_changeset_view(&q, arena, &(*out)[*out_n], err))
            return false;
        q.ops->end(&q);
    }
    return true;
}

/* The cells behind the task's number. */
static bool changeset_fits(const struct changeset_filter *f, struct query *q)
{
    int64_t lane = next_i64(q), movetype = next_i64(q);
    return (!f->lane || f->lane == lane) && (!f->movetype || (int64_t)f->movetype == movetype) &&
           f->states & 1u << row_state(next_view(q));
}

/* What fits, newest first, and one more than the limit, so that the last page knows that it is the last. */
static bool changesets_walk(struct reader *reader, struct arena *arena, const struct changeset_filter *f, int64_t **out,
    size_t *out_n, int64_t *out_next, struct err *err)
{
    int64_t deadline = clock_boot_us() + reader->step_us, task;
    size_t cap = 0, steps = 0;
    enum query_step step = QUERY_ROW;
    struct query q;
    if (!ASK(&q, &reader->sql, SQL_changesets_newest, err, NUM(f->before > 0 ? f->before : INT64_MAX), TXT(f->tenant)))
        return false;
    while (!*out_next && *out_n <= f->limit && (step = query_next(&q, err)) == QUERY_ROW) {
        task = next_i64(&q);
        if (changeset_fits(f, &q))
            *ARENA_PUSH(arena, *out, *out_n, cap) = task;
        /* rows that all fit are a whole page */
        if (++steps % CLOCK_STEPS == 0 && steps > f->limit && *out_n <= f->limit && clock_boot_us() > deadline)
            *out_next = task;
    }
    q.ops->end(&q);
    return step != QUERY_ERROR;
}

static const struct reader_ops ops = {
    .close = close_reader,
    .task = read_task,
    .walk = read_walk,
    .views = read_views,
    .changesets_walk = changesets_walk,
    .changeset_views = changeset_views,
};

struct reader *sqlite_reader_open(const char *dir, struct err *err)
{
    struct sqlite_reader *self = mem_alloc_zero(sizeof *self);
    self->port = (struct reader){ .ops = &ops, .sql = db_sql(&self->db), .step_us = STEP_US };
    if (db_open_read(&self->db, dir, SQL_FOR_READER, err))
        return &self->port;
    close_reader(&self->port);
    return NULL;
}
