/* slots: semaphores, concurrency keys and quotas of running tasks, between turns.
 *
 * core/settle.c admits waiters; a turn admits at most a batch of them. Owns what is left for the next turn (slots_left) and the slots that
 * have room and waiters (slots_open). Both are memory: when rows are read anew, every open slot is looked at again. On a shared store a
 * server may die with slots left: the server that has the timers looks at the open ones once a lease. */
#include "engine/turn.h"

void slot_note(struct engine *engine, struct slot *slot)
{
    bool open = slot->waiting > 0 && slot->used < slot->limit;
    if (open) map_put(&engine->slots_open, (uint64_t)slot->id, slot);
    else map_take(&engine->slots_open, (uint64_t)slot->id);
}

void slots_admit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!engine->slots_left.n) return;
    MAP_EACH(&engine->slots_left, e) slot_changed(turn->slice, (int64_t)e->key);
    slice_settle(turn->slice);
}

void slots_admit_all(struct engine *engine)
{
    MAP_EACH(&engine->slots_open, e) map_put(&engine->slots_left, e->key, e->value);
}

void slots_pass(struct turn *turn)
{
    MAP_EACH(&turn->slice->slots, e) slot_changed(turn->slice, (int64_t)e->key);
    MAP_EACH(&turn->engine->slots_open, e) slot_changed(turn->slice, (int64_t)e->key);
}

void slots_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    MAP_EACH(&turn->slice->slots, e) {
        struct slot *known = map_find(&engine->slots, e->key);
        *known = *(const struct slot *)e->value;
        slot_note(engine, known);
    }
    if (!turn->narrow) map_clear(&engine->slots_left);
    for (size_t i = 0; i < turn->slice->n_slots_todo && !PLANT(admits_forgotten); i++) {
        uint64_t id = (uint64_t)slice_slot_left(turn->slice, i);
        map_put(&engine->slots_left, id, map_find(&engine->slots, id));
    }
}

void slots_sweep(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!coord_holds(engine->coord, DUTY_timers) || turn->boot - engine->slots_swept < engine->config.lease_ms) return;
    engine->slots_swept = turn->boot;
    MAP_EACH(&engine->slots_open, e) slot_changed(turn->slice, (int64_t)e->key);
    slice_settle(turn->slice);
}
