/* duties: work that one server does for the whole site (timers, schedules, watch, retention), and the site's locks.
 *
 * Each has a row with its holder, an epoch and a beat. src/coord decides which server holds it. A turn refuses a
 * command that was made under an older epoch. With its own beat a server writes the rows of the executors that polled
 * it. */
#include "engine/archives.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "io/clock.h"

static const char *const duty_names[DUTY_AND_LOCK_COUNT] = {
    [DUTY_timers] = "timers",
    [DUTY_schedules] = "schedules",
    [DUTY_watch] = "watch",
    [DUTY_retention] = "retention",
    [LOCK_config] = "config",
};

/* Reads who holds the duties: at the start, and after the store was lost, since the copy in memory may be outdated. */
bool duties_load(struct turn *turn, struct err *err)
{
    struct store *store = turn->engine->store;
    struct others others = { 0 };
    if (!store->ops->shared->load_others(store, turn->arena, &turn->engine->shared->taken, &others, err))
        return false;
    coord_rows_read(turn->engine->shared->coord, others.duties, others.n_duties, turn->boot);
    return true;
}

static void duty_say(struct turn *turn, const struct coord_step *step)
{
    bool taken = step->move == COORD_TAKE;
    slice_event(turn->slice,
        &(struct event){ .kind = EVENT_duty,
            .subject = step->row.name,
            .actor = turn->engine->config.server_name,
            .reason = str_fmt(turn->arena, "%sepoch %lld", taken ? "" : "gave up ", (long long)step->row.epoch) });
}

void duties_run(struct turn *turn)
{
    struct engine *engine = turn->engine;
    bool beats = !engine->shared->beaten || turn->boot - engine->shared->beaten >= COORD_BEAT_MS ||
                 engine->shared->coord->leaving;
    struct coord_step *steps = NULL;
    turn->beats = beats && !engine->store->exclusive;
    /* a poll without results writes no row; executors that polled are written with the server's own beat */
    executors_beat(turn);
    if (engine->store->exclusive || (!beats && turn->boot < coord_next(engine->shared->coord)))
        return;
    turn->server = engine->shared->server;
    turn->server.beat++;
    turn->server.differs = engine_site_differs(engine);
    if (beats)
        slots_sweep(turn);
    size_t n = coord_decide(engine->shared->coord, turn->arena, turn->boot, beats, &steps);
    for (size_t i = 0; i < n; i++) {
        if (steps[i].move != COORD_BEAT && !steps[i].lock)
            duty_say(turn, &steps[i]);
        *ARRAY_ADD(turn->arena, turn->changes.shared.duties) = steps[i].row;
    }
}

bool duties_elsewhere(const struct engine *engine)
{
    for (size_t i = 0; i < DUTY_COUNT && !engine->store->exclusive; i++) {
        struct str holder = engine->shared->coord->rows[i].duty.holder;
        if (holder.len && !str_eq(holder, engine->config.server_name))
            return true;
    }
    return false;
}

void duties_commit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    beats_commit(turn);
    if (turn->beats) {
        engine->shared->beaten = turn->boot;
        engine->shared->server = turn->server;
    }
    if (turn->changes.shared.duties.n == 0)
        return;
    bool timers = coord_holds(engine->shared->coord, DUTY_timers);
    coord_commit(engine->shared->coord, turn->changes.shared.duties.at, turn->changes.shared.duties.n, turn->boot);
    if (timers || !coord_holds(engine->shared->coord, DUTY_timers))
        return;
    engine->backlog->tells_due = true;
    /* look for work that the previous holder left, and check back-offs: the clock may have been set meanwhile */
    engine->backlog->next_time = 0;
    engine->backlog->clock_offset = engine->schedules->offset = OFFSET_UNKNOWN;
}

int64_t duties_next(struct engine *engine)
{
    if (engine->store->exclusive)
        return INT64_MAX;
    int64_t beat = engine->shared->beaten + COORD_BEAT_MS, free = coord_next(engine->shared->coord);
    return free < beat ? free : beat;
}

bool duty_acts(struct turn *turn, enum duty_kind duty)
{
    bool holds = coord_holds(turn->engine->shared->coord, duty);
    if (PLANT(duty_unlooked))
        holds |= duty == DUTY_schedules;
    return holds;
}

bool duty_refused(struct turn *turn, struct command *command)
{
    const struct coord_row *row = &turn->engine->shared->coord->rows[command->under.duty];
    bool same = row->duty.epoch == command->under.epoch;
    if (PLANT(epoch_unchecked))
        return false;
    if (PLANT(leader_trusted))
        same = true;
    if (command->under.epoch == 0 || turn->engine->store->exclusive)
        return false;
    if (duty_acts(turn, command->under.duty) && same)
        return false;
    return !turn_refuse(turn, command, ERR_stale_fence, "another server has the %s '%s' now",
        command->under.duty < DUTY_COUNT ? "duty" : "lock", duty_names[command->under.duty]);
}

/* Names the server and the epoch in the history of what it does for the whole site. */
struct str duty_text(struct turn *turn, enum duty_kind duty)
{
    const struct engine *engine = turn->engine;
    if (engine->store->exclusive)
        return (struct str){ 0 };
    return str_fmt(turn->arena, "%.*s, epoch %lld", STR_ARG(engine->config.server_name),
        (long long)engine->shared->coord->rows[duty].duty.epoch);
}

bool command_note(struct turn *turn, struct command *command)
{
    if (turn->engine->store->exclusive)
        return true; /* there are no peers to notify */
    *ARRAY_ADD(turn->arena, turn->changes.shared.notes) = str_dup(turn->arena, command->in.note.text);
    command->status = 202;
    return true;
}

bool engine_held(struct engine *engine)
{
    return atomic_load(&engine->site->held);
}

int64_t engine_duty(struct engine *engine, enum duty_kind duty)
{
    if (engine_held(engine))
        return 0;
    return coord_epoch(engine->shared->coord, duty, clock_boot_ms());
}

bool engine_duty_claimed(struct engine *engine, enum duty_kind duty)
{
    return !engine_held(engine) && coord_claims(engine->shared->coord, duty);
}

const char *engine_duty_name(enum duty_kind duty)
{
    return duty_names[duty];
}

void engine_locks_look(struct engine *engine)
{
    if (coord_locks_grant(engine->shared->coord, clock_boot_ms()))
        engine_wake(engine);
}

void engine_lock(struct engine *engine, enum duty_kind lock, struct coord_waiter *waiter)
{
    coord_lock(engine->shared->coord, lock, waiter);
    engine_locks_look(engine);
}

void engine_unlock(struct engine *engine, struct coord_waiter *waiter)
{
    if (!waiter->asks)
        return;
    coord_unlock(engine->shared->coord, waiter);
    engine_wake(engine);
    engine_locks_look(engine);
}

struct coord *engine_coord(struct engine *engine)
{
    return engine->shared->coord;
}

bool duties_open(struct engine *engine, struct err *err)
{
    struct coord_config config = { .url = engine->config.coordination,
        .auth = engine->config.coordination_auth,
        .alone = engine->store->exclusive,
        .member = engine->config.server_name,
        .names = duty_names,
        .n_names = DUTY_AND_LOCK_COUNT,
        .n_locks = DUTY_AND_LOCK_COUNT - DUTY_COUNT };
    engine->shared->coord = coord_open(&config, err);
    return engine->shared->coord != NULL;
}
