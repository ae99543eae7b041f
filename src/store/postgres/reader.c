/* reader: what the api shows, on a connection of its own.
 *
 * Each call is one snapshot: a single statement, or several in a REPEATABLE READ transaction, pipelined. If the
 * connection is lost before or during a call, the reader reconnects once and repeats the call. While the database is
 * away, every call fails at once with ERR_unavailable or ERR_unreachable; reader_present tells that beforehand. */
#include "store/postgres/reader.h"

#include <sodium.h>
#include <string.h>

#include "io/clock.h"
#include "store/postgres/timeline.h"

enum { WINDOW_FIRST = 512, WINDOW_MAX = 32768, WINDOW_GROWTH = 8 };

static bool connection_open(struct postgres_reader *self, struct err *err)
{
    int64_t version;
    if (!pg_connect(&self->pg, self->url, err) || !pg_schema_check(&self->pg, &version, err))
        return false;
    return pg_schema_ours(&self->pg, version, false, err) && pg_exec(&self->pg, SQL_session_reader, err) &&
           (self->hurried ? pg_hurry : pg_brief)(&self->pg, err) &&
           pg_prepare(&self->pg, SQL_FOR_READER | SQL_FOR_VERIFIER, err);
}

static void close_reader(struct reader *reader)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    pg_close(&self->pg);
    bulk_release(&self->letters);
    sodium_memzero(self->url, strlen(self->url)); /* it may hold a password */
    mem_free(self->url);
    mem_free(self);
}

static bool in_time(const struct postgres_reader *self, struct err *err)
{
    return self->limit_ms == 0 || clock_boot_ms() < self->limit_ms ||
           err_set(
               err, ERR_unavailable, "the database of the store is slow: what was asked for couldn't be read in time");
}

static bool reader_ready(struct postgres_reader *self, struct err *err)
{
    if (!self->pg.lost && timeline_current(&self->pg))
        return true;
    bool tried = self->pg.lost && clock_boot_ms() < self->retry_ms && self->retry_epoch == writer_epoch();
    if (!in_time(self, err))
        return false;
    if (writer_is_away() || tried)
        return err_set(err, ERR_unavailable, "the database of the store is away");
    pg_close(&self->pg);
    self->retry_epoch = writer_epoch();
    self->retry_ms = 0;
    if (connection_open(self, err))
        return true;
    self->pg.lost = true;
    self->retry_ms = clock_boot_ms() + RETRY_MS;
    return false;
}

static bool reader_ask(
    struct postgres_reader *self, enum sql_id id, const struct pg_args *args, PGresult **out, struct err *err)
{
    struct err why = { 0 };
    if (self->in_snapshot) /* don't reconnect: the rows read so far belong to the lost snapshot */
        return pg_run(&self->pg, id, args, out, err);
    bool current = timeline_current(&self->pg);
    if (!in_time(self, err))
        return false;
    if (current && pg_run(&self->pg, id, args, out, &why))
        return true;
    if (current && !self->pg.lost)
        return err_set(err, why.code, "%s", why.text);
    return reader_ready(self, err) && pg_run(&self->pg, id, args, out, err);
}

static bool read_present(struct reader *reader)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    struct err ignored = { 0 };
    if (!self->pg.lost)
        pg_look(&self->pg);
    return reader_ready(self, &ignored);
}

static bool read_there(struct reader *reader)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    if (!self->pg.lost)
        pg_look(&self->pg);
    return !self->pg.lost && timeline_current(&self->pg);
}

static void read_limit(struct reader *reader, int64_t boot_ms)
{
    postgres_reader_of(reader)->limit_ms = boot_ms;
}

static bool reader_ask_query(struct query *q, const struct arg *args, size_t n, struct err *err)
{
    PGresult *result;
    return reader_ask(q->on, q->id, pg_args_fill(&(struct pg_args){ 0 }, args, n), &result, err) &&
           pg_answer(q, result);
}

static bool snapshot_begin(void *on, struct err *err)
{
    struct postgres_reader *self = on;
    PGresult *result;
    self->in_snapshot = reader_ask(self, SQL_begin_snapshot, NULL, &result, err);
    return self->in_snapshot;
}

/* After a refused statement COMMIT rolls back. */
static void snapshot_end(void *on)
{
    struct postgres_reader *self = on;
    struct err ignored = { 0 };
    self->in_snapshot = false;
    (void)pg_run(&self->pg, SQL_commit, NULL, NULL, &ignored);
}

struct sql pg_reader_sql(struct postgres_reader *self, bool snapshots)
{
    self->in_snapshot = !snapshots;
    return (struct sql){
        .ops = &pg_query_ops,
        .ask = reader_ask_query,
        .begin = snapshots ? snapshot_begin : NULL,
        .end = snapshots ? snapshot_end : NULL,
        .on = self,
    };
}

static void arg_ids(struct postgres_reader *self, struct pg_args *args, const int64_t *ids, size_t n)
{
    struct pg_bulk *bulk = &self->pg.bulk;
    bulk_begin(bulk, "i");
    for (size_t i = 0; i < n; i++)
        bulk_i64(bulk, ids[i]);
    bool fits = bulk_args(bulk, args);
    ASSERT(fits);
}

static void arg_states(struct postgres_reader *self, struct pg_args *args, unsigned states)
{
    bulk_begin(&self->letters, "t");
    for (int state = STATE_Q; state < STATE_COUNT; state++)
        if (states & 1u << state)
            bulk_text(&self->letters, state_text((enum task_state)state));
    bool fits = bulk_args(&self->letters, args);
    ASSERT(fits);
}

/* --- views --- */

static bool view_row(struct query *q, struct arena *arena, struct task_view *out, struct err *err)
{
    *out = (struct task_view){ 0 };
    if (!row_task(q, arena, &out->task, err))
        return false;
    out->lane_name = next_text(q, arena);
    out->tenant = next_text(q, arena);
    out->lane_kind = (enum lane_kind)next_i64(q);
    return true;
}

/* The row says what there is to be read: nothing beside it for a task that just waits in a queue. */
static bool view_whole(const struct task_view *view)
{
    return view->task.grant == 0 && view->task.ins == 0 && !(view->task.marks & MARK_OUTPUTS);
}

/* Rows of attempts, needs and outputs stand in the order of the views, the task's number first; `q` goes on to the
 * first of the next view, which isn't read yet. How many are this one's; *out: before the first of them. */
static size_t view_rows(struct query *q, const struct task_view *view, struct query *out)
{
    *out = *q;
    while (q->row + 1 < q->n_rows && cell_i64(q->result, q->row + 1, 0) == view->task.id)
        q->row++;
    out->n_rows = q->row + 1;
    return (size_t)(q->row - out->row);
}

static bool view_attempts(struct query *all, struct arena *arena, struct task_view *view, struct err *err)
{
    struct query q;
    view->n_attempts = view_rows(all, view, &q);
    if (!view->n_attempts)
        return true;
    view->attempts = ARENA_ARRAY(arena, struct attempt, view->n_attempts);
    view->executor_names = ARENA_ARRAY(arena, struct str, view->n_attempts);
    for (size_t i = 0; query_next(&q, err) == QUERY_ROW; i++) {
        if (!row_attempt(&q, arena, &view->attempts[i], err))
            return false;
        view->executor_names[i] = next_text(&q, arena);
    }
    return true;
}

static bool view_needs(struct query *all, struct arena *arena, struct task_view *view, struct err *err)
{
    struct query q;
    view->n_needs = view_rows(all, view, &q);
    view->needs = view->n_needs ? ARENA_ARRAY(arena, struct edge_view, view->n_needs) : NULL;
    for (size_t i = 0; query_next(&q, err) == QUERY_ROW; i++) {
        (void)next_i64(&q); /* the waiter: this task */
        if (!row_edge_view(&q, arena, &view->needs[i], err))
            return false;
    }
    return true;
}

static bool view_outputs(struct query *all, struct arena *arena, struct task_view *view, struct err *err)
{
    struct query q;
    struct task_outputs outputs = { 0 };
    bool found;
    view_rows(all, view, &q);
    if (!get_outputs(&q, arena, &outputs, &found, err))
        return false;
    view->outputs = outputs.json;
    return true;
}

/* Those that are gone are left out. */
static bool read_views(struct reader *reader, struct arena *arena, const int64_t *ids, size_t n, struct task_view **out,
    size_t *out_n, struct err *err)
{
    static const enum sql_id parts[] = { SQL_task_views, SQL_attempt_views, SQL_need_views, SQL_outputs_of };
    struct pg *pg = &postgres_reader_of(reader)->pg;
    struct pg_args args = { 0 };
    struct query q[4];
    *out = NULL, *out_n = 0;
    if (!n)
        return true;
    arg_ids(postgres_reader_of(reader), &args, ids, n);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        pg_queue(pg, parts[i], &args);
    if (!pg_exchange(pg, err))
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        q[i] = pg_query(pg->results[i]);
    *out = q[0].n_rows ? ARENA_ARRAY(arena, struct task_view, (size_t)q[0].n_rows) : NULL;
    while (query_next(&q[0], err) == QUERY_ROW) {
        struct task_view *view = &(*out)[(*out_n)++];
        if (!view_row(&q[0], arena, view, err) || !view_attempts(&q[1], arena, view, err) ||
            !view_needs(&q[2], arena, view, err) || !view_outputs(&q[3], arena, view, err))
            return false;
    }
    return true;
}

static bool task_once(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    struct query q;
    struct task_view *views;
    size_t n;
    if (!ASK(&q, &reader->sql, SQL_task_view, err, NUM(id)))
        return false;
    *out_found = query_next(&q, err) == QUERY_ROW;
    if (!*out_found)
        return true;
    if (!view_row(&q, arena, out, err))
        return false;
    if (view_whole(out))
        return true;
    if (!sql_begin(&reader->sql, err))
        return false;
    bool ok = read_views(reader, arena, &id, 1, &views, &n, err);
    sql_end(&reader->sql);
    if (ok && (*out_found = n == 1))
        *out = views[0];
    return ok;
}

static bool read_again(struct reader *reader, struct err *err)
{
    if (!postgres_reader_of(reader)->pg.lost)
        return false;
    *err = (struct err){ .arena = err->arena };
    return true;
}

static bool read_task(
    struct reader *reader, struct arena *arena, int64_t id, struct task_view *out, bool *out_found, struct err *err)
{
    return task_once(reader, arena, id, out, out_found, err) ||
           (read_again(reader, err) && task_once(reader, arena, id, out, out_found, err));
}

/* --- lists: the database looks through a window of rows and gives those that fit; windows grow --- */

static bool window_read(const struct listing *l, enum sql_id source, enum task_state state, int64_t before,
    int64_t window, struct query *out, struct err *err)
{
    struct postgres_reader *self = postgres_reader_of(l->reader);
    struct pg_args args = { 0 };
    PGresult *result;
    arg_i64(&args, before);
    if (l->by_lane)
        arg_ids(self, &args, l->lanes, l->n_lanes);
    else
        arg_null(&args);
    arg_i64(&args, l->filter->rev);
    arg_states(self, &args, l->states);
    arg_text(&args, l->filter->name);
    arg_i64(&args, window);
    arg_text(&args, l->by_lane ? (struct str){ 0 } : l->filter->tenant); /* a tenant may have very many lanes */
    if (source == SQL_tasks_in_state)
        arg_text(&args, state_text(state));
    if (!pg_run(&self->pg, source, &args, &result, err))
        return false;
    *out = pg_query(result);
    return true;
}

/* The page at once, where nothing but other tenants' rows may not fit: then one window is a whole page, however slow it
 * is. */
static int64_t window_first(const struct listing *l, enum sql_id source, int64_t page)
{
    const struct task_filter *f = l->filter;
    bool any_state =
        source != SQL_tasks_newest || l->states == (1u << STATE_COUNT) - 2; /* other sources have one state */
    bool all_fit = !l->by_lane && !f->rev && !f->name.len && any_state;
    return all_fit || page > WINDOW_FIRST ? page : WINDOW_FIRST;
}

static int64_t window_next(int64_t window)
{
    if (window < WINDOW_FIRST)
        return WINDOW_FIRST;
    return window * WINDOW_GROWTH < WINDOW_MAX ? window * WINDOW_GROWTH : WINDOW_MAX;
}

/* Searches for one row more than the limit, which shows whether this page is the last. For a tenant with few tasks
 * among very many of others a window is never smaller than WINDOW_FIRST, even if each takes the database longer than a
 * call may take: smaller windows would not be faster, only more. */
static bool read_walk(
    struct listing *l, struct arena *arena, enum sql_id source, enum task_state state, struct err *err)
{
    int64_t page = (int64_t)l->limit + 1, below = l->filter->before > 0 ? l->filter->before : INT64_MAX;
    int64_t window = window_first(l, source, page), looked = 0;
    size_t found = 0;
    for (;;) {
        struct query q;
        int64_t end = 0;
        if (!window_read(l, source, state, below, window, &q, err))
            return false;
        while (query_next(&q, err) == QUERY_ROW)
            if (next_i64(&q) == 1) {
                end = next_i64(&q);
            } else {
                *ARENA_PUSH(arena, l->ids, l->n_ids, l->cap_ids) = next_i64(&q);
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
    l->floor = below > l->floor ? below : l->floor;
    return true;
}

/* --- change sets --- */

/* What fits, and one more than the limit, so that the last page knows that it is the last. Windows grow until the page
 * is full or the call's time is over. */
static bool changesets_walk(struct reader *reader, struct arena *arena, const struct changeset_filter *f, int64_t **out,
    size_t *out_n, int64_t *out_next, struct err *err)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    int64_t below = f->before > 0 ? f->before : INT64_MAX, page = (int64_t)f->limit + 1;
    int64_t window = page > WINDOW_FIRST ? page : WINDOW_FIRST, deadline = clock_boot_us() + reader->step_us;
    size_t cap = 0;
    do {
        struct pg_args args = { 0 };
        PGresult *result;
        (void)pg_args_fill(&args, ARGS(NUM(below), TXT(f->tenant), NUM(window), NUM(f->lane), NUM(f->movetype)));
        arg_states(self, &args, f->states);
        if (!pg_run(&self->pg, SQL_changesets_newest, &args, &result, err))
            return false;
        struct query q = pg_query(result);
        for (below = 0; query_next(&q, err) == QUERY_ROW;)
            if (next_i64(&q) == 1)
                below = next_i64(&q);
            else
                *ARENA_PUSH(arena, *out, *out_n, cap) = next_i64(&q);
        *out_next = below;
        window = window_next(window);
    } while (below && *out_n <= f->limit && clock_boot_us() <= deadline);
    return true;
}

static bool changeset_views(struct reader *reader, struct arena *arena, const int64_t *tasks, size_t n,
    struct changeset_view **out, size_t *out_n, struct err *err)
{
    struct postgres_reader *self = postgres_reader_of(reader);
    struct pg_args args = { 0 };
    PGresult *result;
    arg_ids(self, &args, tasks, n);
    if (!pg_run(&self->pg, SQL_changeset_views, &args, &result, err))
        return false;
    struct query q = pg_query(result);
    *out = q.n_rows ? ARENA_ARRAY(arena, struct changeset_view, (size_t)q.n_rows) : NULL;
    while (query_next(&q, err) == QUERY_ROW)
        if (!row_changeset_view(&q, arena, &(*out)[(*out_n)++], err))
            return false;
    return true;
}

static const struct reader_ops ops = {
    .shared = true,
    .close = close_reader,
    .present = read_present,
    .there = read_there,
    .limit = read_limit,
    .held_until = pg_held_until,
    .again = read_again,
    .task = read_task,
    .walk = read_walk,
    .views = read_views,
    .changesets_walk = changesets_walk,
    .changeset_views = changeset_views,
};

struct reader *postgres_reader_open(const struct store_config *config, struct err *err)
{
    struct postgres_reader *self = mem_alloc_zero(sizeof *self);
    size_t n = strlen(config->url) + 1;
    self->port.ops = &ops;
    self->port.sql = pg_reader_sql(self, true);
    self->port.step_us = STEP_US;
    self->hurried = config->hurried;
    self->url = mem_alloc(n);
    memcpy(self->url, config->url, n);
    if (!connection_open(self, err)) {
        close_reader(&self->port);
        return NULL;
    }
    return &self->port;
}
