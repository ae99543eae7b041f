/* served: which classes of tasks have an executor that could start them, and what follows when that changes.
 *
 * A task takes slots only while its class is served (core/settle.c). An executor serves while its row says that it is
 * active: neither lost, paused nor draining, whether or not all its slots are in use. Rows of executors change in wide
 * turns only, so every turn of every server decides by the same rows. After a restart an executor that has not polled
 * counts until it is found silent (executors_watch).
 *
 * For each class one executor that serves it is remembered: a changed executor costs a short check of each class, and a
 * task's turn reads one pointer. Tasks that waited for a class that is served now go on; tasks of a class that isn't
 * served any more release their slots, a batch a turn. Every server does both when it learns of the change, so that it
 * gets done even if one of them dies. What is left to do is kept in memory; when rows are read again, all classes are
 * checked again. */
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/grants.h"
#include "engine/waiters.h"

static bool serves(struct engine *engine, struct known_executor *known, int64_t class_id)
{
    return known->row.state == EXECUTOR_ACTIVE && cache_fits(engine, known, class_id);
}

static struct known_executor **serving_of(struct engine *engine, const struct task_class *class_)
{
    size_t i = class_->index;
    if (i >= engine->served->n) {
        size_t n = i + 32;
        engine->served->by_class = mem_realloc(engine->served->by_class, n * sizeof *engine->served->by_class);
        memset(engine->served->by_class + engine->served->n, 0,
            (n - engine->served->n) * sizeof *engine->served->by_class);
        engine->served->n = n;
    }
    return &engine->served->by_class[i];
}

bool class_is_served(const struct engine *engine, int64_t class_id)
{
    const struct task_class *class_ = map_find(&engine->cache->classes, (uint64_t)class_id);
    return class_ && class_->index < engine->served->n && engine->served->by_class[class_->index];
}

void served_class_made(struct engine *engine, const struct task_class *class_)
{
    *serving_of(engine, class_) = crew_serves(engine, class_);
}

void served_class_gone(struct engine *engine, const struct task_class *class_)
{
    *serving_of(engine, class_) = NULL;
    map_take(&engine->served->waking, (uint64_t)class_->id);
}

/* Checks each class when an executor registers, goes or changes: about 180 instructions (bench/cost,
 * executor-among-classes). Unused classes are removed (expiry.c), so there are as many as there are kinds of tasks,
 * however many tasks wait. */
void served_look(struct engine *engine, struct known_executor *changed)
{
    MAP_EACH (&engine->cache->classes, e) {
        int64_t id = (int64_t)e->key;
        struct known_executor **by = serving_of(engine, e->value), *was = *by;
        if (was && serves(engine, was, id))
            continue;
        *by = was ? crew_serves(engine, e->value) : changed && serves(engine, changed, id) ? changed : NULL;
        if (*by && !was)
            map_put(&engine->served->waking, e->key, engine);
        if (*by || !was)
            continue;
        map_take(&engine->served->waking, e->key);
        if (PLANT(unserved_kept))
            continue;
        engine->served->unserved.pass = engine->served->unserved.again = true;
    }
}

void executor_changed(struct turn *turn, struct known_executor *known)
{
    struct engine *engine = turn->engine;
    silence_watch(engine, known); /* it may never poll again, and no other turn may come */
    turn_executor_changed(turn, known);
    served_look(engine, known);
}

void served_drop(struct engine *engine)
{
    if (engine->served->n)
        memset(engine->served->by_class, 0, engine->served->n * sizeof *engine->served->by_class);
    map_clear(&engine->served->waking);
    engine->served->unserved = (struct unserved){ 0 };
}

void served_load(struct engine *engine)
{
    served_drop(engine);
    MAP_EACH (&engine->cache->classes, e) {
        served_class_made(engine, e->value);
        if (class_is_served(engine, (int64_t)e->key))
            map_put(&engine->served->waking, e->key, engine);
        else
            engine->served->unserved.again = true;
    }
}

bool served_due(const struct engine *engine)
{
    return engine->served->waking.n || engine->served->unserved.pass || engine->served->unserved.due ||
           engine->served->unserved.again;
}

/* Considers tasks that waited for an executor, in their order; returns how many. */
static size_t class_wake(struct turn *turn, int64_t class_id, size_t most)
{
    struct hold *holds = ARENA_ARRAY(turn->arena, struct hold, most);
    size_t n = slice_holds_first(turn->slice, HOLD_executor, class_id, most, holds);
    holds_expect(turn, holds, n);
    for (size_t i = 0; i < n; i++) {
        struct node *node = slice_find(turn->slice, holds[i].task);
        if (node)
            task_consider(turn->slice, node);
    }
    slice_settle(turn->slice);
    return n;
}

/* Goes on with the walk over all held slots; true: it has reached the end. */
static bool unserved_walk(struct turn *turn, size_t most)
{
    struct engine *engine = turn->engine;
    struct hold *holds, *at = &engine->served->unserved.at;
    size_t n;
    if (!turn_read(turn,
            engine->store->ops->holds_after(engine->store, turn->arena, HOLD_held, at, most, &holds, &n, turn->err)))
        return false;
    holds_expect(turn, holds, n);
    for (size_t i = 0; i < n; i++) {
        struct node *node = slice_find(turn->slice, holds[i].task);
        if (node)
            task_unserved(turn->slice, node);
    }
    slice_settle(turn->slice);
    if (n)
        *at = holds[n - 1];
    return n < most;
}

void served_run(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct unserved *unserved = &engine->served->unserved;
    size_t left = turn_batch(engine);
    if (!served_due(engine))
        return;
    /* a waiter that no executor can start gives up its place in the slot's queue */
    if (unserved->pass)
        slots_pass(turn);
    unserved->pass = false;
    size_t most = left;
    MAP_EACH (&engine->served->waking, e) {
        if (!left || turn->slice->failed)
            break;
        size_t n = class_wake(turn, (int64_t)e->key, left);
        bool woken = n < left;
        if (PLANT(wake_once))
            woken = true;
        if (woken)
            map_take(&engine->served->waking, e->key);
        left -= n < left ? n + 1 : left; /* a class without waiters counts, too */
    }
    if (unserved->due && unserved_walk(turn, most))
        *unserved = (struct unserved){ .again = unserved->again };
    if (!unserved->due && unserved->again) /* from the next turn on: slots taken in this one aren't stored yet */
        *unserved = (struct unserved){ .due = true };
    slice_settle(turn->slice);
}
