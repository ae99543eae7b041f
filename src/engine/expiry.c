/* expiry: what goes when its time has come: idempotency keys, tokens, executors that nobody has heard of for 30 days,
 * classes that nobody needs. Owns what the engine believes of the wall clock (core/wall.h), so that nothing goes
 * because a clock was set wrong.
 *
 * Once an hour, and at a start, a wide turn compares the wall clock with the stored row and writes the row anew; on a
 * shared store every server does, so that one whose clock agrees keeps the others from confirming a clock that doesn't.
 * Expired tokens go in the same turn, and executors and classes are looked at, a batch at a time. Keys go as they come:
 * about twice as many are removed as were added since, and a batch every hour.
 *
 * It fails with the turn: nothing is believed, or gone, before the commit. */
#include "engine/cache/cache.h"
#include "engine/expiry.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tokens.h"
#include "engine/waiters.h"
#include "io/clock.h"

enum { EVERY_MS = 3600 * 1000, FIRST_MS = 60 * 1000, KEYS_STEP = 256, KEYS_BATCHES_MAX = 4 };

/* --- the wall clock --- */

bool wall_load(struct engine *engine, int64_t boot, struct err *err)
{
    struct wall_known known;
    if (!engine->store->ops->load_clock(engine->store, &known, err))
        return false;
    if (!known.time)
        known.time = engine->head.time; /* a store that is new, or was written before there was a row */
    *engine->clock = (struct known_clock){ .known = known, .boot = boot, .due = boot };
    return true;
}

int64_t turn_past(const struct turn *turn)
{
    const struct known_clock *clock = turn->engine->clock;
    return wall_past(&clock->known, turn->boot - clock->boot, turn->wall);
}

int64_t turn_late(const struct turn *turn)
{
    const struct known_clock *clock = turn->engine->clock;
    return wall_late(&clock->known, turn->boot - clock->boot, turn->wall);
}

bool turn_agrees(const struct turn *turn)
{
    const struct known_clock *clock = turn->engine->clock;
    return wall_agrees(&clock->known, turn->boot - clock->boot, turn->wall);
}

static struct known_clock clock_copy(struct engine *engine)
{
    guard_enter(engine, GUARD_heard);
    struct known_clock clock = *engine->clock;
    guard_leave(engine, GUARD_heard);
    return clock;
}

int64_t engine_past(struct engine *engine)
{
    struct known_clock clock = clock_copy(engine);
    return wall_past(&clock.known, clock_boot_ms() - clock.boot, clock_wall_ms());
}

int64_t engine_late(struct engine *engine)
{
    struct known_clock clock = clock_copy(engine);
    return wall_late(&clock.known, clock_boot_ms() - clock.boot, clock_wall_ms());
}

bool engine_clock_agrees(struct engine *engine)
{
    struct known_clock clock = clock_copy(engine);
    return wall_agrees(&clock.known, clock_boot_ms() - clock.boot, clock_wall_ms());
}

int64_t expiry_next(const struct engine *engine)
{
    return engine->clock->due;
}

void clock_tick(struct turn *turn)
{
    const struct known_clock *clock = turn->engine->clock;
    struct store *store = turn->engine->store;
    struct wall_known stored;
    if (turn->slice->failed)
        return;
    if (!turn_read(turn, store->ops->load_clock(store, &stored, turn->err)))
        return;
    int64_t passed = turn->boot - clock->boot, counted = clock->known.time + passed;
    struct wall_known known = stored.time ? stored : clock->known;
    known.time = (stored.time > counted ? stored.time : counted) - passed;
    turn->clock = wall_next(&known, passed, turn->wall);
    turn->ticks = true;
    turn->clock_due = turn->boot + (passed ? EVERY_MS : FIRST_MS);
}

/* --- what goes --- */

static void tokens_expire(struct turn *turn)
{
    struct engine *engine = turn->engine;
    int64_t past = turn_past(turn);
    size_t n = 0;
    if (PLANT(token_kept))
        return;
    MAP_EACH (&engine->tokens->by_id, e) {
        struct known_token *known = e->value;
        if (!known->row.expires || known->row.expires > past || known->gone == engine->serial)
            continue;
        if (n++ == engine->batch) {
            turn->clock_due = turn->boot; /* the rest in the next turn */
            return;
        }
        token_revoke(turn, known, STR("engine"), STR("expired"));
    }
}

/* An executor that nobody hears is marked with the time, whatever its state, and goes when that was long ago. It has
 * nothing in hand then: leases lapse after seconds. One that comes back is told to register again. */
static void executor_age(struct turn *turn, struct known_executor *known)
{
    const struct engine *engine = turn->engine;
    int64_t since = known->heard ? known->heard : engine->shared->began;
    if (known->active_grants.first || known->parked || turn->boot - since <= 2 * engine->config.lease_ms)
        return;
    if (!known->row.silent) {
        known->row.silent = turn_late(turn);
        turn_executor_changed(turn, known);
        return;
    }
    if (PLANT(executor_kept))
        return;
    if (known->row.silent > turn_past(turn) - engine->config.silent_ms)
        return;
    *ARRAY_ADD(turn->arena, turn->changes.executors_remove) = known->row.id;
    slice_event(turn->slice, &(struct event){ .kind = EVENT_executor_state,
                                 .subject = known->subject,
                                 .actor = STR("engine"),
                                 .reason = STR("removed: silent for 30 days") });
}

static void executors_expire(struct turn *turn)
{
    const struct map *all = &turn->engine->cache->executors;
    size_t i = turn->engine->backlog->executors_looked, end = i + turn->engine->batch;
    for (; i < all->n_entries && i < end; i++)
        if (all->entries[i].live)
            executor_age(turn, all->entries[i].value);
    turn->executors_looked = i < all->n_entries ? i : 0;
    if (turn->executors_looked)
        turn->clock_due = turn->boot; /* the rest in the next turn */
}

/* A class of which no task was made for two leases goes, unless one of its tasks is pending or waits for an executor.
 * All others find it again by the key that their spec has (slice_class). The number that this spends is how other
 * servers hear of it (peers.c). */
static void class_age(struct turn *turn, const struct task_class *class_, const struct map *touched)
{
    struct store *store = turn->engine->store;
    struct ready_row *pending;
    struct hold *waiting;
    size_t n_pending = 0, n_waiting = 0;
    bool used =
        turn->boot - class_->used < 2 * turn->engine->config.lease_ms || map_find(touched, (uint64_t)class_->id);
    if (PLANT(class_kept))
        return;
    if (!class_->goes || used || turn->slice->failed)
        return;
    turn->slice->failed =
        !store->ops->ready_first(store, turn->arena, class_->id, 1, &pending, &n_pending, turn->err) ||
        !store->ops->holds_of(store, turn->arena, HOLD_executor, class_->id, 1, &waiting, &n_waiting, turn->err);
    bool needed = n_pending || n_waiting;
    if (PLANT(class_early))
        needed = false;
    if (!turn->slice->failed && !needed)
        *ARRAY_ADD(turn->arena, turn->changes.classes_remove) = class_->id;
}

static void classes_expire(struct turn *turn)
{
    const struct map *all = &turn->engine->cache->classes;
    size_t i = turn->engine->backlog->classes_looked, end = i + turn->engine->batch;
    struct map touched = { 0 };
    MAP_EACH (&turn->slice->nodes, e) {
        const struct node *node = e->value;
        map_put(&touched, (uint64_t)node->row.class_id, turn);
        map_put(&touched, (uint64_t)node->was_class, turn);
    }
    for (; i < all->n_entries && i < end; i++)
        if (all->entries[i].live)
            class_age(turn, all->entries[i].value, &touched);
    map_release(&touched);
    turn->classes_looked = i < all->n_entries ? i : 0;
    if (turn->classes_looked)
        turn->clock_due = turn->boot;
    turn->head.next_class += turn->changes.classes_remove.n > 0;
}

static void keys_expire(struct turn *turn)
{
    struct engine *engine = turn->engine;
    size_t n = 0, most = KEYS_BATCHES_MAX * engine->batch;
    engine->backlog->keys_added += turn->changes.idempotency.n;
    if (PLANT(key_kept))
        return;
    if (turn->narrow.is)
        return;
    if (engine->backlog->keys_added >= KEYS_STEP)
        n = 2 * engine->backlog->keys_added < most ? 2 * engine->backlog->keys_added : most;
    engine->backlog->keys_added -= n / 2;
    if (turn->ticks && n < engine->batch)
        n = engine->batch;
    if (n && !engine->store->ops->idempotency_expire(engine->store, turn_past(turn), n, turn->err))
        turn->slice->failed = true;
}

void expiry_run(struct turn *turn)
{
    if (turn->slice->failed)
        return;
    if (!turn->narrow.is && turn->boot >= turn->engine->clock->due) {
        clock_tick(turn);
        tokens_expire(turn);
        executors_expire(turn);
        classes_expire(turn);
    }
    keys_expire(turn);
}

void expiry_commit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!turn->ticks)
        return;
    engine->cache->hour_over |= turn->clock_due > turn->boot;
    engine->backlog->executors_looked = turn->executors_looked;
    engine->backlog->classes_looked = turn->classes_looked;
    for (size_t i = 0; i < turn->changes.classes_remove.n; i++)
        cache_class_drop(engine, turn->changes.classes_remove.at[i]);
    for (size_t i = 0; i < turn->changes.executors_remove.n; i++)
        cache_executor_drop(engine, turn->changes.executors_remove.at[i]);
    guard_enter(engine, GUARD_heard);
    *engine->clock = (struct known_clock){ .known = turn->clock, .boot = turn->boot, .due = turn->clock_due };
    guard_leave(engine, GUARD_heard);
}
