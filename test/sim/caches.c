/* caches: what a server keeps in memory is what the store has, after each turn of its own: it has followed all that the
 * others did. */
#include <string.h>

#include "core/why.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/grants.h"
#include "engine/waiters.h"
#include "world.h"

static void lanes_same(struct world *w, const struct engine *engine)
{
    MAP_EACH (&w->store->lanes, l) {
        const struct lane *row = l->value, *kept = map_find(&engine->cache->lanes, l->key);
        bool same = kept && kept->kind == row->kind && kept->last_vt == row->last_vt &&
                    kept->paused_since == row->paused_since &&
                    memcmp(kept->counts, row->counts, sizeof row->counts) == 0 && str_eq(kept->name, row->name) &&
                    str_eq(kept->paused_by, row->paused_by);
        if (!same)
            world_fail(w, "a server has another lane in memory than the store", row->id);
    }
}

static void slots_same(struct world *w, const struct engine *engine)
{
    MAP_EACH (&w->store->slots, s) {
        const struct slot *row = s->value, *kept = map_find(&engine->cache->slots, s->key);
        bool same = kept ? kept->limit == row->limit && kept->used == row->used && kept->waiting == row->waiting
                         : slot_is_empty(row);
        if (!same)
            world_fail(w, "a server has another slot in memory than the store", row->id);
        bool open = row->waiting > 0 && row->used < row->limit;
        if (open != (map_find(&engine->slots->open, s->key) != NULL))
            world_fail(w, "a server doesn't know which slots are open", row->id);
    }
    MAP_EACH (&w->store->classes, c)
        if (!map_find(&engine->cache->classes, c->key))
            world_fail(w, "a server doesn't know a class", (int64_t)c->key);
    MAP_EACH (&engine->cache->slots, s)
        if (!map_find(&w->store->slots, s->key) && (engine->store->exclusive || !slot_is_empty(s->value)))
            world_fail(w, "a server has a slot in memory that the store doesn't have", (int64_t)s->key);
    if (engine->cache->classes.n != w->store->classes.n)
        world_fail(w, "a server has more classes in memory than the store", 0);
}

static void executors_same(struct world *w, const struct engine *engine)
{
    MAP_EACH (&w->store->executors, e) {
        const struct executor *row = e->value;
        const struct known_executor *known = map_find(&engine->cache->executors, e->key);
        bool same = known && known->row.state == row->state && known->row.slots == row->slots &&
                    str_eq(known->row.host, row->host) && known->row.registered == row->registered &&
                    known->row.n_labels == row->n_labels;
        if (!same)
            world_fail(w, "a server has another executor in memory than the store", row->id);
    }
    MAP_EACH (&w->store->classes, c) { /* the counts that `why` uses; `live` is left out: it goes by the real clock */
        struct why_crew crew, is = { 0 };
        MAP_EACH (&w->store->executors, e) {
            const struct executor *row = e->value;
            if (!class_fits(c->value, row))
                continue;
            is.fit++;
            is.active += row->state == EXECUTOR_ACTIVE;
        }
        engine_crew(w->at->engine, c->value, &crew);
        if (crew.fit != is.fit || crew.active != is.active)
            world_fail(w, "a server counts other executors that fit", (int64_t)c->key);
    }
}

static void archives_same(struct world *w, const struct engine *engine)
{
    MAP_EACH (&w->store->archives, a) {
        const struct archive *row = a->value;
        const struct known_archive *known = map_find(&engine->cache->archives, a->key);
        bool same = known && known->row.next == row->next && known->row.youngest == row->youngest &&
                    known->row.removed == row->removed && known->row.definition == row->definition &&
                    known->row.n_lock_shared == row->n_lock_shared &&
                    known->row.lock_exclusive == row->lock_exclusive && str_eq(known->row.tip, row->tip);
        for (size_t i = 0; same && i < row->n_lock_shared; i++)
            same = known->row.lock_shared[i] == row->lock_shared[i];
        if (!same)
            world_fail(w, "a server has another archive in memory than the store", row->lane);
    }
    int64_t next = INT64_MAX;
    size_t n = 0;
    for (size_t i = 0; i < w->store->n_schedules; i++) {
        if (w->store->schedules[i].next < next)
            next = w->store->schedules[i].next;
        n += w->store->schedules[i].next < INT64_MAX;
    }
    if (schedules_next(engine) != next || engine->schedules->due.n != n)
        world_fail(w, "a server has other schedules in memory than the store", 0);
}

static void lives_same(struct world *w, const struct engine *engine)
{
    size_t n = 0;
    for (size_t i = 0; i < w->store->n_attempts; i++) {
        const struct attempt *is = &w->store->attempts[i];
        if (is->finished)
            continue;
        const struct active_grant *live = map_find(&engine->grants->active, (uint64_t)is->task);
        n++;
        if (!live || live->attempt.grant != is->grant)
            world_fail(w, "a server doesn't know of a grant", is->task);
        if (live->attempt.executor != is->executor)
            world_fail(w, "a server takes a grant for another executor's", is->task);
        if (live->ending != store_task(w, is->task)->ending)
            world_fail(w, "a server doesn't know that a task is to end", is->task);
        if (!live->unread && (live->attempt.poll_seq != is->poll_seq || live->attempt.forgotten != is->forgotten))
            world_fail(w, "a server has another attempt in memory than the store", is->task);
        if (!live->deadline.pos)
            world_fail(w, "a server doesn't watch a lease", is->task);
    }
    if (engine->grants->active.n != n)
        world_fail(w, "a server takes a grant for live that isn't", 0);
}

void admits_note(struct world *w, bool plain)
{
    const struct engine *engine = w->at->engine;
    size_t left = 0;
    for (size_t i = 0; i < engine->slice.slots_todo.n; i++)
        /* else nobody is in it any more */
        left += map_find(&engine->cache->slots, (uint64_t)slice_slot_left(&engine->slice, i)) != NULL;
    w->admits_due = engine->slots->left.n > 0 || (!plain && left > 0);
    if (!engine->slots->left.n && !left)
        return;
    MARK(w, admit_batches);
    w->admits_left = w->boot;
    if (plain && w->at->next_turn > w->boot && !several(w))
        world_fail(w, "I10 waiters for a slot were left, and no turn comes", 0);
}

int64_t tells_left(const struct world *w)
{
    for (size_t i = 0; i < w->store->n_holds; i++)
        if (w->store->holds[i].kind == HOLD_telling || w->store->holds[i].kind == HOLD_returning)
            return w->store->holds[i].task;
    return 0;
}

/* Of several servers the one that left them may be gone: another one looks at the slots once a lease. */
bool admits_are_left(const struct world *w)
{
    return several(w) ? w->admits_left && w->boot - w->admits_left <= 3 * LEASE_MS : w->admits_due;
}

void check_caches(struct world *w)
{
    const struct engine *engine = w->at->engine;
    struct store_head head = w->store->head;
    memcpy(head.hash, engine->head.hash, sizeof head.hash);
    if (w->at->overtaken) { /* others committed beside its turn: the next one follows them */
        MARK(w, beside);
        return;
    }
    if (memcmp(&head, &engine->head, sizeof head) != 0)
        world_fail(w, "a server doesn't stand on the newest commit after its turn", head.commit);
    lanes_same(w, engine);
    slots_same(w, engine);
    executors_same(w, engine);
    archives_same(w, engine);
    lives_same(w, engine);
    MAP_EACH (&w->store->tasks, t) {
        const struct task *row = t->value, *kept;
        bool same = !recent_row(engine, row->id, &kept) ||
                    (kept->state == row->state && kept->grant == row->grant && kept->holds == row->holds &&
                        kept->waits == row->waits && kept->ending == row->ending && kept->vt == row->vt &&
                        kept->attempts == row->attempts);
        if (!same)
            world_fail(w, "a server remembers another task than the store has", row->id);
    }
}
