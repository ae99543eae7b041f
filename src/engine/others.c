/* others: several servers on one store. A turn of a shared store begins with the store's lock; what other servers have committed since this
 * one's last turn is then taken over: rows of the small tables, and from the events who was granted what, who ended, who is to end. So
 * every turn decides on the present, wherever it is taken.
 *
 * Leases across servers hang on each executor's row, which whoever hears the executor writes anew once a second (its beat): a server that
 * sees no beat for a lease, by its own clock, may give the executor up. Duties that one server is enough for (following repositories,
 * pruning) belong to the server that their row names; it moves the row's beat on, and when that stands still for DUTY_MS
 * another takes over with the next epoch. A server that could not commit for so long doesn't believe itself any more. */
#include <string.h>

#include "engine/turn.h"
#include "io/clock.h"

enum { BEAT_MS = 1000, DUTY_MS = 4000 };

static const char *const duty_names[DUTY_COUNT] = { [DUTY_watch] = "watch", [DUTY_retention] = "retention" };

/* --- taking over ---------------------------------------------------------------------------------------------------------------------- */

static void executor_heard(struct engine *engine, struct known_executor *known, int64_t boot)
{
    pthread_mutex_lock(&engine->heard_lock);
    known->heard = boot;
    pthread_mutex_unlock(&engine->heard_lock);
    for (struct list_node *at = known->lives.first; at; at = at->next) {
        struct live *live = CONTAINER_OF(at, struct live, mate);
        heap_put(&engine->deadlines, &live->deadline, boot + engine->config.lease_ms);
    }
}

static void granted_elsewhere(struct turn *turn, const struct event *event)
{
    struct engine *engine = turn->engine;
    const struct known_executor *known = smap_find(&engine->executor_names, event->actor);
    if (!known) return;
    struct attempt attempt = { .task = event->task, .number = event->attempt, .grant = event->grant, .executor = known->row.id,
                               .started = event->time, .exit = -1, .signal = -1, .cpu_ms = -1, .max_rss_bytes = -1, .log_bytes = -1 };
    bool found = false;
    struct attempt stored;
    struct store *store = engine->store;
    if (!store->ops->load_attempt(store, event->task, event->grant, &stored, &found, turn->err)) turn->slice->failed = true;
    if (found && stored.finished > 0) return; /* ended since */
    if (found) attempt = stored;
    live_forget_any(engine, event->task);
    pthread_mutex_lock(&engine->heard_lock);
    live_put(engine, &attempt, turn->boot);
    pthread_mutex_unlock(&engine->heard_lock);
}

static void event_follow(struct turn *turn, const struct event *event, bool *out_tokens, bool *out_schedules)
{
    struct engine *engine = turn->engine;
    struct live *live = event->task ? map_find(&engine->lives, (uint64_t)event->task) : NULL;
    if (event->kind == EVENT_move && event->to == STATE_X) granted_elsewhere(turn, event);
    else if (event->kind == EVENT_move && event->from == STATE_X) live_forget_any(engine, event->task);
    else if (event->kind == EVENT_ending && live) {
        struct known_executor *known = map_find(&engine->executors, (uint64_t)live->attempt.executor);
        live->ending = event->to;
        if (known && known->parked) poll_cancel(turn, known->parked, &live->attempt, event->to);
    }
    engine->claims_left |= (event->kind == EVENT_move && event->to == STATE_P) || event->kind == EVENT_resume;
    *out_tokens |= event->kind == EVENT_token || event->kind == EVENT_token_revoked;
    *out_schedules |= event->kind == EVENT_scheduled || event->kind == EVENT_revision || event->kind == EVENT_archive_removed;
}

static void duties_follow(struct engine *engine, const struct others *others, int64_t boot)
{
    for (size_t i = 0; i < others->n_duties; i++)
        for (size_t d = 0; d < DUTY_COUNT; d++) {
            struct known_duty *known = &engine->duties[d];
            if (!str_eqz(others->duties[i].name, duty_names[d])) continue;
            if (known->row.epoch == others->duties[i].epoch && known->row.beat == others->duties[i].beat && known->seen) continue;
            known->row = others->duties[i];
            known->row.name = str_of(duty_names[d]);
            size_t n = known->row.holder.len < sizeof known->holder ? known->row.holder.len : sizeof known->holder;
            if (n) memcpy(known->holder, known->row.holder.ptr, n);
            known->row.holder = (struct str){ known->holder, n };
            known->seen = boot;
        }
}

/* Everything is read again: a cancel among it that another server took must not wait for its executor's next poll. */
static bool anew(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    if (!engine_anew(engine, turn->boot, err)) return false;
    MAP_EACH(&engine->lives, e) {
        struct live *live = e->value;
        struct known_executor *known = map_find(&engine->executors, (uint64_t)live->attempt.executor);
        if (live->ending != STATE_NONE && known && known->parked) poll_cancel(turn, known->parked, &live->attempt, live->ending);
    }
    return true;
}

/* Whose the duties are now: when this server begins, and after it was away. What it remembers may be long over. */
static bool duties_load(struct turn *turn, struct err *err)
{
    struct store *store = turn->engine->store;
    struct others others = { 0 };
    if (!store->ops->load_others(store, turn->arena, &turn->engine->head, &others, err)) return false;
    duties_follow(turn->engine, &others, turn->boot);
    return true;
}

static bool others_take(struct turn *turn, const struct store_head *head, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    struct others others = { 0 };
    bool tokens = false, schedules = false;
    if (!store->ops->load_others(store, turn->arena, &engine->head, &others, err)) return false;
    if (others.too_far) return anew(turn, err) && duties_load(turn, err);
    engine->head = *head;
    caches_refresh(engine, &others);
    for (size_t i = 0; i < others.n_executors; i++) {
        struct known_executor *known = map_find(&engine->executors, (uint64_t)others.executors[i]->id);
        if (known) executor_heard(engine, known, turn->boot);
    }
    for (size_t i = 0; i < others.n_events; i++) event_follow(turn, &others.events[i], &tokens, &schedules);
    leases_count(engine);
    duties_follow(engine, &others, turn->boot);
    engine->next_time = 0;  /* look again */
    engine->next_watch = 0;
    return (!tokens || tokens_load(engine, err)) && (!schedules || schedules_load(engine, err)) && !turn->slice->failed;
}

/* A standby that wasn't synchronous was promoted, or an older copy put in the store's place: less is there than this server has seen. */
static bool store_is_older(const struct store_head *now, const struct store_head *known)
{
    return now->incarnation == known->incarnation && (now->commit < known->commit || now->seq < known->seq);
}

bool others_follow(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    struct store_head head, known = engine->head;
    if (store->exclusive && !engine->stale) return true;
    if (!store->ops->load_head(store, &head, err)) return false;
    bool older = !store->exclusive && store_is_older(&head, &known);
    if (engine->stale || older) {
        if (!anew(turn, err) || (!store->exclusive && !duties_load(turn, err))) return false;
        engine->stale = false;
    } else if (head.commit != engine->head.commit && !others_take(turn, &head, err)) {
        return false;
    } else if (!engine->beaten && !duties_load(turn, err)) {
        return false;
    }
    turn->head = engine->head;
    turn->slice->turn = engine->head.turn + 1;
    slice_stamp(turn->slice, engine->head.time);
    turn->slice->v_now = engine->head.v_now;
    int64_t first = (engine->head.turn + 1) << 16;
    if (turn->slice->arrivals < first) turn->slice->arrivals = first;
    if (older)
        turn_incarnate(turn, engine->config.server_name, str_fmt(turn->arena, "the store went back from commit %lld to %lld",
            (long long)known.commit, (long long)head.commit));
    return true;
}

/* --- beats and duties ----------------------------------------------------------------------------------------------------------------- */

void executor_beat(struct turn *turn, struct known_executor *known)
{
    if (turn->engine->store->exclusive || (known->beaten && turn->boot - known->beaten < BEAT_MS)) return;
    known->beaten = turn->boot;
    turn_executor_changed(turn, known);
}

static void duty_run(struct turn *turn, struct known_duty *known)
{
    struct engine *engine = turn->engine;
    bool own = str_eq(known->row.holder, engine->config.server_name);
    bool free = known->row.epoch == 0 || (known->seen && turn->boot - known->seen > DUTY_MS);
    if (!known->seen) known->seen = turn->boot; /* the watch begins */
    if (!own && !free) return;
    struct duty *row = ARENA_NEW(turn->arena, struct duty);
    *row = known->row;
    row->holder = engine->config.server_name;
    row->beat++;
    if (!own) {
        row->epoch++;
        slice_event(turn->slice, &(struct event){ .kind = EVENT_duty, .subject = row->name, .actor = engine->config.server_name,
                                                  .reason = str_fmt(turn->arena, "epoch %lld", (long long)row->epoch) });
    }
    *ARENA_PUSH(turn->arena, turn->duties, turn->n_duties, turn->cap_duties) = *row;
}

void duties_run(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (engine->store->exclusive || (engine->beaten && turn->boot - engine->beaten < BEAT_MS)) return;
    turn->server = engine->server;
    turn->server.beat++;
    turn->beats = true;
    for (size_t d = 0; d < DUTY_COUNT; d++) {
        engine->duties[d].row.name = str_of(duty_names[d]);
        duty_run(turn, &engine->duties[d]);
    }
}

void duties_commit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!turn->beats) return;
    engine->beaten = turn->boot;
    engine->server = turn->server;
    struct others own = { .duties = turn->duties, .n_duties = turn->n_duties };
    duties_follow(engine, &own, turn->boot);
    for (size_t d = 0; d < DUTY_COUNT; d++) {
        bool held = str_eq(engine->duties[d].row.holder, engine->config.server_name);
        atomic_store(&engine->duty_epoch[d], held ? engine->duties[d].row.epoch : 0);
    }
    atomic_store(&engine->duty_until, turn->boot + DUTY_MS - BEAT_MS);
}

int64_t duties_next(const struct engine *engine)
{
    return engine->store->exclusive ? INT64_MAX : engine->beaten + BEAT_MS;
}

int64_t engine_duty(struct engine *engine, enum duty_kind duty)
{
    if (engine->store->exclusive) return 1;
    return clock_boot_ms() < atomic_load(&engine->duty_until) ? atomic_load(&engine->duty_epoch[duty]) : 0;
}
