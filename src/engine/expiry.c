/* expiry: what goes when its time has come: idempotency keys and tokens. Owns what the engine believes of the wall clock (core/wall.h), so
 * that nothing goes because a clock was set wrong.
 *
 * Once an hour, and at a start, a wide turn compares the wall clock with the stored row and writes the row anew; on a shared store every
 * server does, so that one whose clock agrees keeps the others from confirming a clock that doesn't. Expired tokens go in the same turn, a
 * batch at a time. Keys go as they come: about twice as many are removed as were added since, and a batch every hour.
 *
 * It fails with the turn: nothing is believed, or gone, before the commit. */
#include "core/wall.h"
#include "engine/turn.h"
#include "io/clock.h"

enum { EVERY_MS = 3600 * 1000, FIRST_MS = 60 * 1000, KEYS_STEP = 256, KEYS_BATCHES_MAX = 4 };

/* --- the wall clock ------------------------------------------------------------------------------------------------------------------- */

bool wall_load(struct engine *engine, int64_t boot, struct err *err)
{
    struct wall_known known;
    if (!engine->store->ops->load_clock(engine->store, &known, err)) return false;
    if (!known.time) known.time = engine->head.time; /* a store that is new, or was written before there was a row */
    engine->clock = (struct known_clock){ .known = known, .boot = boot, .due = boot };
    return true;
}

int64_t turn_past(const struct turn *turn)
{
    const struct known_clock *clock = &turn->engine->clock;
    return wall_past(&clock->known, turn->boot - clock->boot, turn->wall);
}

int64_t turn_late(const struct turn *turn)
{
    const struct known_clock *clock = &turn->engine->clock;
    return wall_late(&clock->known, turn->boot - clock->boot, turn->wall);
}

bool turn_agrees(const struct turn *turn)
{
    const struct known_clock *clock = &turn->engine->clock;
    return wall_agrees(&clock->known, turn->boot - clock->boot, turn->wall);
}

static struct known_clock clock_copy(struct engine *engine)
{
    pthread_mutex_lock(&engine->heard_lock);
    struct known_clock clock = engine->clock;
    pthread_mutex_unlock(&engine->heard_lock);
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
    return engine->clock.due;
}

void clock_tick(struct turn *turn)
{
    const struct known_clock *clock = &turn->engine->clock;
    struct store *store = turn->engine->store;
    struct wall_known stored;
    if (turn->slice->failed) return;
    if (!store->ops->load_clock(store, &stored, turn->err)) {
        turn->slice->failed = true;
        return;
    }
    int64_t passed = turn->boot - clock->boot, counted = clock->known.time + passed;
    struct wall_known known = stored.time ? stored : clock->known;
    known.time = (stored.time > counted ? stored.time : counted) - passed;
    turn->clock = wall_next(&known, passed, turn->wall);
    turn->ticks = true;
    turn->clock_due = turn->boot + (passed ? EVERY_MS : FIRST_MS);
}

/* --- what goes ------------------------------------------------------------------------------------------------------------------------ */

static void tokens_expire(struct turn *turn)
{
    struct engine *engine = turn->engine;
    int64_t past = turn_past(turn);
    size_t n = 0;
    MAP_EACH(&engine->tokens.by_id, e) {
        struct known_token *known = e->value;
        if (!known->row.expires || known->row.expires > past || known->gone == engine->serial) continue;
        if (n++ == engine->batch) {
            turn->clock_due = turn->boot; /* the rest in the next turn */
            return;
        }
        token_revoke(turn, known, STR("engine"), STR("expired"));
    }
}

static void keys_expire(struct turn *turn)
{
    struct engine *engine = turn->engine;
    size_t n = 0, most = KEYS_BATCHES_MAX * engine->batch;
    engine->keys_added += turn->n_idempotency;
    if (turn->narrow) return;
    if (engine->keys_added >= KEYS_STEP) n = 2 * engine->keys_added < most ? 2 * engine->keys_added : most;
    engine->keys_added -= n / 2;
    if (turn->ticks && n < engine->batch) n = engine->batch;
    if (n && !engine->store->ops->idempotency_expire(engine->store, turn_past(turn), n, turn->err)) turn->slice->failed = true;
}

void expiry_run(struct turn *turn)
{
    if (turn->slice->failed) return;
    if (!turn->narrow && turn->boot >= turn->engine->clock.due) {
        clock_tick(turn);
        tokens_expire(turn);
    }
    keys_expire(turn);
}

void expiry_commit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!turn->ticks) return;
    pthread_mutex_lock(&engine->heard_lock);
    engine->clock = (struct known_clock){ .known = turn->clock, .boot = turn->boot, .due = turn->clock_due };
    pthread_mutex_unlock(&engine->heard_lock);
}
