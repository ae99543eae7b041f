/* ready_starts: from where on a class's pending tasks are searched for while somebody's snapshot is open.
 *
 * Rows of `ready` come and go with every task, those that go from the front. While a snapshot is open they stay in its
 * index, and a search from the front walks past all of them. So this server remembers for each class a key that none of
 * its rows was below, as of a commit (`commit`), and searches from there. It knows every row that is added later, from
 * its own turns or from the events of other servers (each move to P, and each promotion, is one); a row below the start
 * moves the start towards the front. That is rare, since virtual time goes on: only tasks that were lost or promoted.
 * A turn whose head isn't at `commit` knows nothing, and searches from the front.
 *
 * Narrow turns pass over what others have locked, and see commits that they don't know yet: their start is what a plain
 * look brings (ready_lowest), and what it didn't see is in the events that come next. */
#include <string.h>

#include "store/postgres/postgres.h"

enum { STARTS_MAX = 4096, NEWS_MAX = 2048 };

struct ready_start {
    int64_t nprio, vt, task; /* INT64_MAX: it has no pending task */
};

static int start_order(const struct ready_start *a, const struct ready_start *b)
{
    if (a->nprio != b->nprio)
        return a->nprio < b->nprio ? -1 : 1;
    if (a->vt != b->vt)
        return a->vt < b->vt ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

void ready_start_forget(struct postgres_store *self)
{
    struct ready_starts *starts = &self->starts;
    map_clear(&starts->map);
    arena_reset(&starts->arena);
    starts->n_news = 0;
    starts->commit = -1;
}

void ready_start_release(struct postgres_store *self)
{
    map_release(&self->starts.map);
    arena_release(&self->starts.arena);
    mem_free(self->starts.news);
}

bool ready_start_current(struct postgres_store *self)
{
    struct ready_starts *starts = &self->starts;
    if (!self->ctids.crowded)
        return false;
    if (starts->commit != self->head.commit) {
        ready_start_forget(self);
        starts->commit = self->head.commit;
    }
    return true;
}

static void ready_start_add(struct postgres_store *self, int64_t class_id, int64_t prio, int64_t vt, int64_t task)
{
    struct ready_start key = { -prio, vt, task }, *start = map_find(&self->starts.map, (uint64_t)class_id);
    if (start && start_order(&key, start) < 0)
        *start = key;
}

void ready_start_commit(struct postgres_store *self, const struct changes *changes)
{
    struct ready_starts *starts = &self->starts;
    if (starts->commit < 0)
        return;
    for (size_t i = 0; i < changes->ready_add.n; i++) {
        const struct task *task = changes->ready_add.at[i];
        ready_start_add(self, task->class_id, task->prio, task->vt, task->id);
    }
}

void ready_start_follow(struct postgres_store *self, int64_t before)
{
    if (self->starts.commit == before)
        self->starts.commit = before + 1;
}

void ready_start_others(struct postgres_store *self, const struct store_head *since, const struct others *others)
{
    struct ready_starts *starts = &self->starts;
    if (starts->commit < 0)
        return;
    if (others->too_far || since->commit > starts->commit || starts->n_news + others->n_events > NEWS_MAX) {
        ready_start_forget(self);
        return;
    }
    if (!starts->news)
        starts->news = mem_alloc(NEWS_MAX * sizeof *starts->news);
    for (size_t i = 0; i < others->n_events && starts->map.n; i++)
        if (others->events[i].to == STATE_P)
            starts->news[starts->n_news++] = others->events[i].task;
    starts->commit = self->head.commit;
}

/* What tasks that others made pending, or moved, have as their keys. */
static bool news_take(struct postgres_store *self, const PGresult *result, struct err *err)
{
    struct query q = pg_query(result);
    while (query_next(&q, err) == QUERY_ROW) {
        struct task task = { 0 };
        int64_t id = next_i64(&q);
        enum task_state state = row_state(next_view(&q));
        if (!task_unpack(next_view(&q), &task))
            return row_damaged(&q, "task", id, err);
        if (state == STATE_P)
            ready_start_add(self, task.class_id, task.prio, task.vt, id);
    }
    return true;
}

bool ready_start_empty(struct postgres_store *self, int64_t class_id, bool *out_known)
{
    const struct ready_start *start =
        ready_start_current(self) ? map_find(&self->starts.map, (uint64_t)class_id) : NULL;
    *out_known = start != NULL;
    return start && start->nprio == INT64_MAX && !self->starts.n_news;
}

void ready_start_none(struct postgres_store *self, int64_t class_id)
{
    struct ready_starts *starts = &self->starts;
    struct ready_start *start = map_find(&starts->map, (uint64_t)class_id);
    if (!start && starts->map.n >= STARTS_MAX)
        return;
    if (!start)
        map_put(&starts->map, (uint64_t)class_id, start = ARENA_NEW(&starts->arena, struct ready_start));
    *start = (struct ready_start){ INT64_MAX, INT64_MAX, INT64_MAX };
}

/* The first row of a look that passes over nobody: task, nprio, vt. */
static void start_learn(struct postgres_store *self, int64_t class_id, const PGresult *result)
{
    ready_start_none(self, class_id);
    struct ready_start *start = map_find(&self->starts.map, (uint64_t)class_id);
    if (!start || PQntuples(result) == 0)
        return;
    struct query q = pg_query_row(result, 0);
    start->task = next_i64(&q);
    start->nprio = next_i64(&q);
    start->vt = next_i64(&q);
}

void ready_start_learn(struct postgres_store *self, int64_t class_id, const PGresult *result)
{
    if (ready_start_current(self))
        start_learn(self, class_id, result);
}

/* Of a prefetched claim, which is asked for between turns. */
bool ready_start_args(struct postgres_store *self, int64_t class_id, int64_t n, struct pg_args *out)
{
    const struct ready_start *start = self->ctids.crowded ? map_find(&self->starts.map, (uint64_t)class_id) : NULL;
    arg_i64(out, class_id);
    arg_i64(out, n);
    if (!start || self->starts.n_news)
        return false;
    arg_i64(out, start->nprio);
    arg_i64(out, start->vt);
    arg_i64(out, start->task);
    return true;
}

/* One round trip; a second one when the news brings the start down. */
bool ready_start_look(struct postgres_store *self, int64_t class_id, int64_t n, PGresult **out, struct err *err)
{
    static const struct ready_start lowest = { INT64_MIN, INT64_MIN, INT64_MIN };
    struct ready_starts *starts = &self->starts;
    struct pg *pg = &self->pg;
    for (;;) {
        const struct ready_start *start = map_find(&starts->map, (uint64_t)class_id);
        const struct ready_start from = start ? *start : lowest;
        bool news = starts->n_news > 0;
        const struct pg_args *args = PG_ARGS(NUM(class_id), NUM(n), NUM(from.nprio), NUM(from.vt), NUM(from.task));
        if (news)
            ids_queue(pg, SQL_ready_news, starts->news, starts->n_news);
        starts->n_news = 0;
        size_t first = news;
        if (self->narrow)
            pg_queue(pg, SQL_ready_lowest, args);
        pg_queue(pg, self->narrow ? SQL_ready_tasks_lock_from : SQL_ready_tasks_from, args);
        if (!pg_exchange(pg, err) || (news && !news_take(self, pg->results[0], err))) {
            ready_start_forget(self);
            return false;
        }
        if (start && start_order(start, &from) < 0)
            continue;
        if (n > 0)
            start_learn(self, class_id, pg->results[first]);
        *out = pg->results[pg->n_queue - 1];
        return true;
    }
}
