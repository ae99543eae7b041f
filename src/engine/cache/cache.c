/* caches: the small tables in memory, loaded, refreshed and dropped together; lanes; the rows port of core/slice.
 *
 * They are copies: the store is right. New rows are put here as the turn makes them; when its commit fails, everything
 * is read again (caches_drop, caches_load). Strings of lanes and archives live until then, in an arena of their own;
 * those of classes, slots and executors have memory of their own, since these come and go. */
#include <string.h>

#include "core/why.h"
#include "engine/archives.h"
#include "engine/cache/parts.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

struct str parts_join(struct arena *arena, const struct str *parts, size_t n)
{
    size_t len = n - 1;
    for (size_t i = 0; i < n; i++)
        len += parts[i].len;
    char *text = arena_alloc(arena, len + 1), *at = text;
    for (size_t i = 0; i < n; i++) {
        if (i)
            *at++ = '\x1f';
        if (parts[i].len)
            memcpy(at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
    }
    return (struct str){ text, len };
}

struct str cache_key(struct arena *arena, struct str tenant, struct str name)
{
    return parts_join(arena, (struct str[]){ tenant, name }, 2);
}

struct str text_keep(char **at, struct str s)
{
    struct str kept = { *at, s.len };
    if (!s.len)
        return (struct str){ 0 };
    memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return kept;
}

/* --- lanes --- */

static struct lane *lane_put(struct engine *engine, const struct lane *row)
{
    struct lane *lane = ARENA_NEW(&engine->cache->arena, struct lane);
    *lane = *row;
    lane->tenant = str_dup(&engine->cache->arena, row->tenant);
    lane->name = str_dup(&engine->cache->arena, row->name);
    lane->paused_by = str_dup(&engine->cache->arena, row->paused_by);
    lane->paused_reason = str_dup(&engine->cache->arena, row->paused_reason);
    map_put(&engine->cache->lanes, (uint64_t)lane->id + 1, lane);
    smap_put(&engine->cache->lane_names, cache_key(&engine->cache->arena, lane->tenant, lane->name), lane);
    tenant_lane_made(engine, lane);
    return lane;
}

struct lane *cache_lane_find(struct turn *turn, struct str tenant, struct str name)
{
    if (str_eqz(name, "all"))
        return map_find(&turn->engine->cache->lanes, 1);
    return smap_find(&turn->engine->cache->lane_names, cache_key(turn->arena, tenant, name));
}

struct lane *cache_lane_make(struct turn *turn, struct str tenant, struct str name, enum lane_kind kind)
{
    if (turn->narrow.is)
        return turn_widen(turn), map_find(&turn->engine->cache->lanes, 1);
    struct lane row = { .id = turn->head.next_lane++, .kind = kind, .tenant = tenant, .name = name };
    struct lane *lane = lane_put(turn->engine, &row);
    slice_lane(turn->slice, lane->id); /* the turn writes the lanes that it has looked up */
    return lane;
}

struct lane *cache_lane_get(struct turn *turn, struct str tenant, struct str name)
{
    struct lane *lane = cache_lane_find(turn, tenant, name);
    return lane ? lane : cache_lane_make(turn, tenant, name, LANE_QUEUE);
}

static const struct lane *rows_lane(void *owner, int64_t id)
{
    struct engine *engine = owner;
    struct lane *lane = map_find(&engine->cache->lanes, (uint64_t)id + 1);
    ASSERT(lane);
    lane->quota = tenant_quota(engine, lane->tenant); /* as it is configured now */
    return lane;
}

/* --- the rows port --- */

static bool rows_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct engine *engine = owner;
    struct store *store = engine->store;
    if (recent_find(engine, arena, id, out)) {
        *out_found = true;
        return true;
    }
    return store->ops->load_task(store, arena, id, out, out_found, err);
}

static bool rows_edges(
    void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->load_edges(store, arena, id, by_pred, out, out_n, err);
}

static bool rows_outs_after(void *owner, struct arena *arena, int64_t pred, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->load_outs(store, arena, pred, after, n, out, out_n, err);
}

static bool rows_outs_others(void *owner, struct arena *arena, int64_t pred, enum edge_kind but, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->load_others_outs(store, arena, pred, but, out, out_n, err);
}

static bool rows_holds_of(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct engine *engine = owner;
    if (engine->shared->narrow && kind != HOLD_slot)
        turn_widen(engine->shared->narrow); /* waiters of a slot are locked with its row (slot_own) */
    return engine->store->ops->holds_of(engine->store, arena, kind, key, n, out, out_n, err);
}

static bool rows_holds_of_task(
    void *owner, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->holds_of_task(store, arena, task, out, out_n, err);
}

static bool rows_changeset(
    void *owner, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    struct engine *engine = owner;
    if (engine->shared->narrow)
        turn_widen(engine->shared->narrow);
    return engine->store->ops->load_changeset(engine->store, arena, task, out, out_found, err);
}

static bool rows_changeset_near(void *owner, struct arena *arena, int64_t lane, bool applied, struct str path,
    int64_t rank, bool after, struct changeset_file *out, bool *out_found, struct err *err)
{
    struct store *store = ((struct engine *)owner)->store;
    return store->ops->changeset_file_near(store, arena, lane, applied, path, rank, after, out, out_found, err);
}

static int64_t rows_rank(void *owner)
{
    return task_number(((struct engine *)owner)->turn);
}

static bool rows_served(void *owner, int64_t class_id)
{
    return class_is_served(owner, class_id);
}

struct rows caches_rows(struct engine *engine)
{
    return (struct rows){ .owner = engine,
        .task = rows_task,
        .edges = rows_edges,
        .outs_after = rows_outs_after,
        .outs_others = rows_outs_others,
        .spec = rows_spec,
        .holds_of = rows_holds_of,
        .holds_of_task = rows_holds_of_task,
        .lane = rows_lane,
        .slot = rows_slot,
        .slot_open = rows_slot_open,
        .class_there = rows_class_there,
        .class_make = rows_class_make,
        .served = rows_served,
        .changeset = rows_changeset,
        .changeset_near = rows_changeset_near,
        .rank = rows_rank };
}

/* --- all of them --- */

void caches_drop(struct engine *engine)
{
    cache_executors_unmake(engine);
    served_drop(engine);
    map_clear(&engine->cache->lanes);
    cache_classes_drop(engine);
    cache_slots_drop(engine);
    smap_clear(&engine->cache->lane_names);
    caches_specs_drop(engine);
    tenants_drop(engine);
    archives_drop(engine);
    schedules_drop(engine);
    recent_drop(engine);
    arena_reset(&engine->cache->arena);
    /* the executors stay in memory, so they count for their tenants again */
    MAP_EACH (&engine->cache->executors, e)
        tenant_executors_moved(engine, &((const struct known_executor *)e->value)->row, 1);
}

/* text_refresh: the old copy where the text hasn't changed, so that refreshing for years doesn't fill the memory. */
static struct str text_refresh(struct engine *engine, struct str kept, struct str now)
{
    return str_eq(kept, now) ? kept : str_dup(&engine->cache->arena, now);
}

void caches_held(struct engine *engine)
{
    const struct lane *all = map_find(&engine->cache->lanes, 1);
    atomic_store(&engine->site->held, all && all->paused_since && str_eqz(all->paused_by, PAUSED_BY_RESTORE));
}

void caches_refresh(struct engine *engine, const struct others *others)
{
    for (size_t i = 0; i < others->n_lanes; i++) {
        const struct lane *row = others->lanes[i];
        struct lane *lane = map_find(&engine->cache->lanes, (uint64_t)row->id + 1);
        if (!lane) {
            lane_put(engine, row);
            continue;
        }
        struct lane was = *lane;
        tenant_lane_moved(engine, lane, row);
        *lane = *row;
        lane->quota = was.quota;
        lane->tenant = was.tenant;
        lane->name = was.name;
        lane->paused_by = text_refresh(engine, was.paused_by, row->paused_by);
        lane->paused_reason = text_refresh(engine, was.paused_reason, row->paused_reason);
    }
    for (size_t i = 0; i < others->n_classes; i++)
        if (!map_find(&engine->cache->classes, (uint64_t)others->classes[i]->id))
            cache_class_put(engine, others->classes[i]);
    for (size_t i = 0; i < others->n_slots; i++) {
        const struct slot *row = others->slots[i];
        struct slot *slot = map_find(&engine->cache->slots, (uint64_t)row->id);
        if (!slot)
            slot = cache_slot_keep(engine, row);
        slot->limit = row->limit;
        if (PLANT(slots_unfollowed))
            continue;
        slot->used = row->used;
        slot->waiting = row->waiting;
        /* other servers may still know it as used: if it is empty, it is so since now (slots_clear) */
        map_take(&engine->slots->empty, (uint64_t)slot->id);
        slot_note(engine, slot);
    }
    for (size_t i = 0; i < others->n_executors; i++) {
        struct known_executor *changed = cache_executor_refresh(engine, others->executors[i]);
        if (PLANT(served_unfollowed))
            continue;
        if (changed)
            served_look(engine, changed);
    }
    for (size_t i = 0; i < others->n_archives; i++)
        archive_put(engine, others->archives[i]);
    if (others->n_lanes)
        caches_held(engine);
}

bool caches_load(struct engine *engine, struct err *err)
{
    struct store *store = engine->store;
    struct arena scratch = { 0 };
    struct lane **lanes;
    struct task_class **classes;
    struct slot **slots;
    struct executor **executors;
    size_t n_lanes, n_classes, n_slots, n_executors;
    bool ok = store->ops->load_head(store, &engine->head, err) &&
              store->ops->load_lanes(store, &scratch, &lanes, &n_lanes, err) &&
              store->ops->load_classes(store, &scratch, &classes, &n_classes, err) &&
              store->ops->load_slots(store, &scratch, &slots, &n_slots, err) &&
              store->ops->load_executors(store, &scratch, &executors, &n_executors, err);
    engine->shared->taken = engine->head;
    engine->shared->own_seq = 0;
    if (ok) {
        recent_open(engine);
        /* replaced below if the store has it */
        lane_put(engine, &(struct lane){ .id = 0, .kind = LANE_QUEUE, .tenant = STR(""), .name = STR("all") });
        for (size_t i = 0; i < n_lanes; i++)
            lane_put(engine, lanes[i]);
        caches_held(engine);
        for (size_t i = 0; i < n_classes; i++)
            cache_class_put(engine, classes[i])->used = 0; /* not known */
        for (size_t i = 0; i < n_slots; i++)
            cache_slot_keep(engine, slots[i]);
        slots_admit_all(engine);
        engine->backlog->tells_due = true;
        for (size_t i = 0; i < n_executors; i++)
            cache_executor_refresh(engine, executors[i]);
        MAP_EACH (
            &engine->cache->executors, e) { /* a class that came to nothing may have had the number of another one */
            struct known_executor *known = e->value;
            if (known->fits)
                memset(known->fits, 0, known->n_fits);
            silence_watch(engine, known);
        }
        served_load(engine);
    }
    arena_release(&scratch);
    return ok && tenants_load(engine, err) && archives_load(engine, err) && schedules_load(engine, err);
}
