/* slots: semaphores, concurrency keys and quotas of running tasks, between turns.
 *
 * The slot of a concurrency key has a number that is computed from the key (slot_of_key), so that its row can be
 * removed when no task holds it or waits for it: the next task that wants it makes the same slot again
 * (slice_slot_for). The same is true of a tenant's semaphore that has the default limit and isn't named by the
 * configuration. In a store of one server both are removed in the turn in which they empty. On a shared store they
 * stay for two leases, since only a wide turn can make them again; wide turns with a beat remove them. Peers aren't
 * notified: each of them has read the empty row in the meantime, or hasn't followed the others for a lease, and then it
 * reads everything again. So the two leases begin when this server sees the row's last change.
 *
 * core/settle.c admits waiters; a turn admits at most a batch of them. Owns what is left for the next turn
 * (slots_left) and the slots that have room and waiters (slots_open). Both are only in memory: when rows are read
 * again, every open slot is considered again. On a shared store a server may die with slots left: the server that has
 * the timers looks at the open ones once a lease. */
#include <string.h>

#include <sodium.h>

#include "engine/cache/cache.h"
#include "engine/shared/shared.h"
#include "engine/waiters.h"

/* A collision can't be made on purpose, so a tenant can't take another tenant's slot. Two keys with one number would
 * only wait for each other. */
static int64_t number_of(struct str text, int64_t from)
{
    unsigned char hash[crypto_generichash_BYTES_MIN];
    uint64_t number;
    crypto_generichash(hash, sizeof hash, (const unsigned char *)text.ptr, text.len, NULL, 0);
    memcpy(&number, hash, sizeof number);
    return from | (int64_t)(number & ((uint64_t)from - 1));
}

int64_t slot_of_name(struct arena *arena, struct str tenant, struct str name)
{
    return number_of(str_fmt(arena, "%.*s\x1f%.*s", STR_ARG(tenant), STR_ARG(name)), SLOT_NAMED);
}

int64_t slot_of_key(struct turn *turn, struct str tenant, struct str key)
{
    const struct slot *known = cache_slot_find(turn, tenant, str_fmt(turn->arena, SLOT_KEY "%.*s", STR_ARG(key)));
    if (known)
        return known->id; /* of a store that is older than these numbers */
    return number_of(str_fmt(turn->arena, "%.*s\x1f%.*s", STR_ARG(tenant), STR_ARG(key)), SLOT_KEYED);
}

void slot_note(struct engine *engine, struct slot *slot)
{
    if (!slot_is_empty(slot))
        map_take(&engine->slots->empty, (uint64_t)slot->id);
    else if (!map_find(&engine->slots->empty, (uint64_t)slot->id))
        map_put(&engine->slots->empty, (uint64_t)slot->id, (void *)(uintptr_t)(engine->boot + 1));
    bool open = slot->waiting > 0 && slot->used < slot->limit;
    if (open)
        map_put(&engine->slots->open, (uint64_t)slot->id, slot);
    else
        map_take(&engine->slots->open, (uint64_t)slot->id);
}

void slots_admit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!engine->slots->left.n)
        return;
    MAP_EACH (&engine->slots->left, e)
        slot_changed(turn->slice, (int64_t)e->key);
    slice_settle(turn->slice);
}

void slots_admit_all(struct engine *engine)
{
    MAP_EACH (&engine->slots->open, e)
        map_put(&engine->slots->left, e->key, e->value);
}

void slots_pass(struct turn *turn)
{
    MAP_EACH (&turn->slice->slots, e)
        slot_changed(turn->slice, (int64_t)e->key);
    MAP_EACH (&turn->engine->slots->open, e)
        slot_changed(turn->slice, (int64_t)e->key);
}

void slots_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    MAP_EACH (&turn->slice->slots, e) {
        struct slot *known = map_find(&engine->cache->slots, e->key);
        *known = *(const struct slot *)e->value;
        slot_note(engine, known);
    }
    if (!turn->narrow.is)
        map_clear(&engine->slots->left);
    for (size_t i = 0; i < turn->slice->slots_todo.n; i++) {
        uint64_t id = (uint64_t)slice_slot_left(turn->slice, i);
        if (PLANT(admits_forgotten))
            continue;
        map_put(&engine->slots->left, id, map_find(&engine->cache->slots, id));
    }
    for (size_t i = 0; i < turn->changes.slots_remove.n; i++)
        cache_slot_drop(engine, turn->changes.slots_remove.at[i]);
    if (!engine->store->exclusive)
        return;
    MAP_EACH (&turn->slice->slots, e)
        if (slot_is_empty(e->value))
            cache_slot_drop(engine, (int64_t)e->key);
}

void slots_clear(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (turn->narrow.is || (!turn->beats && !turn->ticks))
        return;
    MAP_EACH (&engine->slots->empty, e) {
        const struct slot *now = map_find(&turn->slice->slots, e->key);
        int64_t since = (int64_t)((uintptr_t)e->value - 1);
        if (turn->boot - since < 2 * engine->config.lease_ms || turn->changes.slots_remove.n >= engine->batch)
            return;
        if (now && !slot_is_empty(now))
            continue;
        *ARRAY_ADD(turn->arena, turn->changes.slots_remove) = (int64_t)e->key;
    }
}

void slots_sweep(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!coord_holds(engine->shared->coord, DUTY_timers) || turn->boot - engine->slots->swept < engine->config.lease_ms)
        return;
    engine->slots->swept = turn->boot;
    engine->backlog->tells_due = true;
    MAP_EACH (&engine->slots->open, e)
        slot_changed(turn->slice, (int64_t)e->key);
    slice_settle(turn->slice);
}
