/* slot rows: copies of the rows of slots (semaphores, concurrency keys, a tenant's running tasks) by number and name;
 * src/engine/slots.c decides which waiters may take them. Each has one piece of memory: slots of concurrency keys come
 * and go. */
#include <string.h>

#include "core/why.h"
#include "engine/cache/parts.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

/* The slot's name, TENANT 0x1f NAME, stands behind it in the same piece of memory. */
struct slot *cache_slot_keep(struct engine *engine, const struct slot *row)
{
    struct slot *slot = mem_alloc(sizeof *slot + row->tenant.len + 1 + row->name.len);
    char *text = (char *)(slot + 1);
    struct str key = { text, row->tenant.len + 1 + row->name.len };
    *slot = *row;
    if (row->tenant.len)
        memcpy(text, row->tenant.ptr, row->tenant.len);
    text[row->tenant.len] = '\x1f';
    if (row->name.len)
        memcpy(text + row->tenant.len + 1, row->name.ptr, row->name.len);
    slot->tenant = str_sub(key, 0, row->tenant.len);
    slot->name = str_sub(key, row->tenant.len + 1, key.len);
    slot->configured = slot->tenant.len && semaphore_is_configured(engine, slot->tenant, slot->name);
    map_put(&engine->cache->slots, (uint64_t)slot->id, slot);
    if (slot->id < SLOT_KEYED)
        smap_put(&engine->cache->slot_names, key, slot);
    slot_note(engine, slot);
    tenant_slot_made(engine, slot);
    return slot;
}

void cache_slot_drop(struct engine *engine, int64_t id)
{
    struct slot *slot = map_take(&engine->cache->slots, (uint64_t)id);
    if (!slot)
        return;
    map_take(&engine->slots->open, (uint64_t)id);
    map_take(&engine->slots->left, (uint64_t)id);
    map_take(&engine->slots->empty, (uint64_t)id);
    struct str key = { slot->tenant.ptr, slot->tenant.len + 1 + slot->name.len };
    if (id < SLOT_KEYED && smap_find(&engine->cache->slot_names, key) == slot)
        smap_take(&engine->cache->slot_names, key);
    tenant_slot_gone(engine, slot);
    mem_free(slot);
}

void cache_slots_drop(struct engine *engine)
{
    MAP_EACH (&engine->cache->slots, e)
        mem_free(e->value);
    map_clear(&engine->cache->slots);
    map_clear(&engine->slots->open);
    map_clear(&engine->slots->left);
    map_clear(&engine->slots->empty);
    smap_clear(&engine->cache->slot_names);
}

struct slot *cache_slot_put(struct turn *turn, struct str tenant, struct str name, int64_t limit)
{
    static struct slot none;
    if (turn->narrow.is)
        return turn_widen(turn), &none;
    /* global slots and those of running tasks are never removed: their numbers are counted up */
    bool named = tenant.len && !str_eqz(name, SLOT_RUNNING);
    int64_t id = named ? slot_of_name(turn->arena, tenant, name) : turn->head.next_slot++;
    struct slot *slot =
        cache_slot_keep(turn->engine, &(struct slot){ .id = id, .tenant = tenant, .name = name, .limit = limit });
    slice_slot(turn->slice, slot->id);
    return slot;
}

struct slot *cache_slot_find(struct turn *turn, struct str tenant, struct str name)
{
    struct slot *slot = smap_find(&turn->engine->cache->slot_names, cache_key(turn->arena, STR(""), name));
    return slot ? slot : smap_find(&turn->engine->cache->slot_names, cache_key(turn->arena, tenant, name));
}

/* Locks the slot's row, and with it the slot's waiters, until the end of the turn, and reads it as it is now. */
static const struct slot *slot_own(struct turn *turn, struct slot *slot)
{
    struct store *store = turn->engine->store;
    struct slot row;
    if (PLANT(slot_unlocked))
        return slot;
    if (turn->slice->failed)
        return slot;
    if (!turn_read(turn, store->ops->shared->slot_lock(store, turn->arena, slot->id, &row, turn->err)))
        return slot;
    slot->limit = row.limit;
    slot->used = row.used;
    slot->waiting = row.waiting;
    slot_note(turn->engine, slot);
    return slot;
}

/* A slot's number follows from its name, so it is the same slot whichever server makes it again. A narrow turn finds
 * its row, or is repeated as a wide turn (slot_own). */
void rows_slot_open(void *owner, int64_t id, struct str tenant, const struct spec *spec)
{
    struct engine *engine = owner;
    if (map_find(&engine->cache->slots, (uint64_t)id))
        return;
    struct str names = spec->semaphores, name = { 0 };
    if (id >= SLOT_KEYED)
        name = str_fmt(&engine->turn_arena, SLOT_KEY "%.*s", STR_ARG(spec->slot_key));
    else
        while (str_cut(&names, SPEC_JOINT, &name) && slot_of_name(&engine->turn_arena, tenant, name) != id)
            continue;
    cache_slot_keep(engine, &(struct slot){ .id = id, .tenant = tenant, .name = name, .limit = 1 });
}

const struct slot *rows_slot(void *owner, int64_t id)
{
    struct engine *engine = owner;
    struct slot *slot = map_find(&engine->cache->slots, (uint64_t)id);
    ASSERT(slot);
    return engine->shared->narrow ? slot_own(engine->shared->narrow, slot) : slot;
}
