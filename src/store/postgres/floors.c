/* floors: from where on a class's pending tasks are looked for, beside somebody's snapshot.
 *
 * Rows of `ready` come and go with every task, those that go from the front. While a snapshot is open they stay in its
 * index, and a look from the front walks past all of them. So this server remembers for each class a key that none of
 * its rows was below, as of a commit
 * (`commit`), and looks from there. Whatever is added later is known, from this server's own turns or from the events
 * of others (each move to P, and each promotion, is one), and brings its class's floor down: mostly nothing is, since
 * virtual time goes on; what was lost or promoted is. A turn whose head isn't at `commit` knows nothing, and begins
 * anew.
 *
 * Narrow turns pass over what others have locked, and see commits that they don't know yet: their floor is what a plain
 * look brings (ready_lowest), and what it didn't see is in the events that come next. */
#include <string.h>

#include "store/postgres/postgres.h"

enum { FLOORS_MAX = 4096, NEWS_MAX = 2048 };

struct floor {
    int64_t nprio, vt, task; /* INT64_MAX: it has no pending task */
};

static int floor_order(const struct floor *a, const struct floor *b)
{
    if (a->nprio != b->nprio)
        return a->nprio < b->nprio ? -1 : 1;
    if (a->vt != b->vt)
        return a->vt < b->vt ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

void floors_forget(struct postgres_store *self)
{
    struct floors *floors = &self->floors;
    map_clear(&floors->map);
    arena_reset(&floors->arena);
    floors->n_news = 0;
    floors->commit = -1;
}

void floors_release(struct postgres_store *self)
{
    map_release(&self->floors.map);
    arena_release(&self->floors.arena);
    mem_free(self->floors.news);
}

bool floors_current(struct postgres_store *self)
{
    struct floors *floors = &self->floors;
    if (!self->places.crowded)
        return false;
    if (floors->commit != self->head.commit) {
        floors_forget(self);
        floors->commit = self->head.commit;
    }
    return true;
}

static void floors_add(struct postgres_store *self, int64_t class_id, int64_t prio, int64_t vt, int64_t task)
{
    struct floor key = { -prio, vt, task }, *floor = map_find(&self->floors.map, (uint64_t)class_id);
    if (floor && floor_order(&key, floor) < 0)
        *floor = key;
}

void floors_commit(struct postgres_store *self, const struct changes *changes)
{
    struct floors *floors = &self->floors;
    if (floors->commit < 0)
        return;
    for (size_t i = 0; i < changes->ready_add.n; i++) {
        const struct task *task = changes->ready_add.at[i];
        floors_add(self, task->class_id, task->prio, task->vt, task->id);
    }
}

void floors_follow(struct postgres_store *self, int64_t before)
{
    if (self->floors.commit == before)
        self->floors.commit = before + 1;
}

void floors_others(struct postgres_store *self, const struct store_head *since, const struct others *others)
{
    struct floors *floors = &self->floors;
    if (floors->commit < 0)
        return;
    if (others->too_far || since->commit > floors->commit || floors->n_news + others->n_events > NEWS_MAX) {
        floors_forget(self);
        return;
    }
    if (!floors->news)
        floors->news = mem_alloc(NEWS_MAX * sizeof *floors->news);
    for (size_t i = 0; i < others->n_events && floors->map.n; i++)
        if (others->events[i].to == STATE_P)
            floors->news[floors->n_news++] = others->events[i].task;
    floors->commit = self->head.commit;
}

/* What tasks that others made pending, or moved, have as their keys. */
static bool news_take(struct postgres_store *self, const PGresult *result, struct err *err)
{
    for (int i = 0; i < PQntuples(result); i++) {
        struct task task = { 0 };
        struct cells c = cells_of(result, i);
        int64_t id = next_i64(&c);
        enum task_state state = row_state(next_view(&c));
        if (!task_unpack(next_view(&c), &task))
            return pg_row_damaged("task", id, err);
        if (state == STATE_P)
            floors_add(self, task.class_id, task.prio, task.vt, id);
    }
    return true;
}

bool floors_empty(struct postgres_store *self, int64_t class_id, bool *out_known)
{
    const struct floor *floor = floors_current(self) ? map_find(&self->floors.map, (uint64_t)class_id) : NULL;
    *out_known = floor != NULL;
    return floor && floor->nprio == INT64_MAX && !self->floors.n_news;
}

void floors_none(struct postgres_store *self, int64_t class_id)
{
    struct floors *floors = &self->floors;
    struct floor *floor = map_find(&floors->map, (uint64_t)class_id);
    if (!floor && floors->map.n >= FLOORS_MAX)
        return;
    if (!floor)
        map_put(&floors->map, (uint64_t)class_id, floor = ARENA_NEW(&floors->arena, struct floor));
    *floor = (struct floor){ INT64_MAX, INT64_MAX, INT64_MAX };
}

/* The first row of a look that passes over nobody: task, nprio, vt. */
static void floor_learn(struct postgres_store *self, int64_t class_id, const PGresult *result)
{
    floors_none(self, class_id);
    struct floor *floor = map_find(&self->floors.map, (uint64_t)class_id);
    if (!floor || PQntuples(result) == 0)
        return;
    struct cells c = cells_of(result, 0);
    floor->task = next_i64(&c);
    floor->nprio = next_i64(&c);
    floor->vt = next_i64(&c);
}

void floors_learn(struct postgres_store *self, int64_t class_id, const PGresult *result)
{
    if (floors_current(self))
        floor_learn(self, class_id, result);
}

/* Of a page, which is asked for between turns. */
bool floors_args(struct postgres_store *self, int64_t class_id, int64_t n, struct pg_args *out)
{
    const struct floor *floor = self->places.crowded ? map_find(&self->floors.map, (uint64_t)class_id) : NULL;
    arg_i64(out, class_id);
    arg_i64(out, n);
    if (!floor || self->floors.n_news)
        return false;
    arg_i64(out, floor->nprio);
    arg_i64(out, floor->vt);
    arg_i64(out, floor->task);
    return true;
}

/* One round trip; a second one when the news brings the floor down. */
bool floors_look(struct postgres_store *self, int64_t class_id, int64_t n, PGresult **out, struct err *err)
{
    static const struct floor lowest = { INT64_MIN, INT64_MIN, INT64_MIN };
    struct floors *floors = &self->floors;
    struct pg *pg = &self->pg;
    for (;;) {
        const struct floor *floor = map_find(&floors->map, (uint64_t)class_id);
        const struct floor from = floor ? *floor : lowest;
        bool news = floors->n_news > 0;
        struct pg_args args = { 0 };
        arg_i64(&args, class_id);
        arg_i64(&args, n);
        arg_i64(&args, from.nprio);
        arg_i64(&args, from.vt);
        arg_i64(&args, from.task);
        if (news)
            ids_queue(pg, PG_ready_news, floors->news, floors->n_news);
        floors->n_news = 0;
        size_t first = news;
        if (self->narrow)
            pg_queue(pg, PG_ready_lowest, &args);
        pg_queue(pg, self->narrow ? PG_ready_tasks_lock_from : PG_ready_tasks_from, &args);
        if (!pg_exchange(pg, err) || (news && !news_take(self, pg->results[0], err))) {
            floors_forget(self);
            return false;
        }
        if (floor && floor_order(floor, &from) < 0)
            continue;
        if (n > 0)
            floor_learn(self, class_id, pg->results[first]);
        *out = pg->results[pg->n_queue - 1];
        return true;
    }
}
