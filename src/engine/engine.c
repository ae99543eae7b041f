/* engine: opens and closes the engine, rereads its caches from the store, answers questions of other rooms. */
#include <stdlib.h>

#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/expiry.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/seals.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/thread.h"
#include "engine/tokens.h"
#include "engine/waiters.h"
#include "io/clock.h"

/* --- life --- */

/* Lanes that were resumed but whose tasks have not all been returned. */
static bool resuming_load(struct engine *engine, struct err *err)
{
    bool ok = true;
    engine->backlog->resuming.n = 0;
    MAP_EACH (&engine->cache->lanes, e) {
        const struct lane *lane = e->value;
        struct hold *holds;
        size_t n = 0;
        if (!ok || lane->paused_since)
            continue;
        ok = engine->store->ops->holds_of(engine->store, &engine->turn_arena, HOLD_pause, lane->id, 1, &holds, &n, err);
        if (n)
            *ARRAY_ADD(&engine->arena, engine->backlog->resuming) = lane->id;
    }
    return ok;
}

bool engine_anew(struct engine *engine, int64_t boot, struct err *err)
{
    guard_enter(engine, GUARD_heard);
    MAP_EACH (&engine->cache->executors, e)
        ((struct known_executor *)e->value)->active_grants = (struct list){ 0 };
    guard_leave(engine, GUARD_heard);
    MAP_EACH (&engine->grants->active, e) {
        heap_take(&engine->grants->deadlines, &((struct active_grant *)e->value)->deadline);
        mem_free(e->value);
    }
    map_clear(&engine->grants->active);
    caches_drop(engine);
    if (!caches_load(engine, err) || !resuming_load(engine, err) || !leases_load(engine, boot, err) ||
        !tokens_load(engine, err))
        return false;
    engine->backlog->next_time = 0; /* look again */
    engine->backlog->clock_offset = engine->schedules->offset = OFFSET_UNKNOWN;
    engine->polls->left = true;
    archive_news_add(engine, 0);
    return true;
}

bool engine_recover(struct engine *engine, struct command **commands, size_t n, int64_t boot, struct err *err)
{
    commands_undo(engine, commands, n);
    caches_drop(engine);
    if (!caches_load(engine, err) || !resuming_load(engine, err))
        return false;
    engine->shared->stale = !engine->store->exclusive; /* what others did meanwhile to leases isn't in the caches */
    leases_watch_anew(engine, boot);
    leases_count(engine);
    engine->backlog->next_time = 0; /* look again */
    engine->backlog->clock_offset = engine->schedules->offset = OFFSET_UNKNOWN;
    engine->polls->left = true;
    return true;
}

/* Semaphores of the configuration; parked tasks of lanes that were resumed. */
static bool start_turn(struct engine *engine, int64_t wall, int64_t boot, struct err *err)
{
    struct turn turn;
    turn_open(&turn, engine, wall, boot, err);
    bool ok = engine->store->ops->begin(engine->store, err) && peers_follow(&turn, err);
    engine->shared->joined_site = ok && duties_elsewhere(engine);
    if (ok)
        site_start(&turn);
    if (ok)
        clock_tick(&turn);
    slice_event(turn.slice,
        &(struct event){ .kind = EVENT_started, .subject = engine->config.server_name, .actor = STR("engine") });
    slots_admit(&turn);
    slice_settle(turn.slice);
    if (ok && (turn.slice->failed || !turn_commit(&turn, err))) {
        engine->store->ops->rollback(engine->store);
        ok = false;
    }
    if (ok)
        turn_follow(&turn);
    turn_close(&turn);
    return ok && resuming_load(engine, err);
}

/* A crash between a commit and the sealing of its logs leaves them open: those that nobody will add to any more are
 * sealed now. */
static void log_seal_left(void *owner, int64_t id, int64_t grant)
{
    struct engine *engine = owner;
    struct arena scratch = { 0 };
    struct task task;
    struct attempt attempt;
    struct err ignored = { 0 };
    bool found, stored = false;
    const struct store_ops *ops = engine->store->ops;
    bool known = ops->load_task(engine->store, &scratch, id, &task, &found, &ignored);
    if (known && found)
        known = ops->load_attempt(engine->store, id, grant, &attempt, &stored, &ignored);
    bool over = !found || task.grant > grant || (stored && attempt.finished > 0 && attempt.outcome != OUTCOME_lost);
    int64_t size = 0, ends = stored ? attempt.log_bytes : 0;
    bool whole = ends <= 0 || !logs_size(engine->config.logs, id, grant, &size, &ignored) || size >= ends;
    if (known && over && whole)
        logs_seal(engine->config.logs, id, grant);
    else if (known && over)
        logs_expect(engine->config.logs, id, grant, ends); /* its executor has the rest */
    else if (known && stored && attempt.finished > 0)
        logs_lost(engine->config.logs, id, grant); /* the crash came before it was counted */
    arena_release(&scratch);
}

/* An engine and its parts, in one piece. */
struct engine_body {
    struct engine engine;
    struct cache cache;
    struct grants grants;
    struct polls polls;
    struct backlog backlog;
    struct slot_lists slots;
    struct served served;
    struct schedules schedules;
    struct site site;
    struct tokens tokens;
    struct shared shared;
    struct space space;
    struct health health;
    struct known_clock clock;
    struct tally tally;
};

static struct engine *engine_alloc(void)
{
    struct engine_body *body = mem_alloc_zero(sizeof *body);
    body->engine = (struct engine){ .cache = &body->cache,
        .grants = &body->grants,
        .polls = &body->polls,
        .backlog = &body->backlog,
        .slots = &body->slots,
        .served = &body->served,
        .schedules = &body->schedules,
        .site = &body->site,
        .tokens = &body->tokens,
        .shared = &body->shared,
        .space = &body->space,
        .health = &body->health,
        .clock = &body->clock,
        .tally = &body->tally };
    return &body->engine;
}

struct engine *engine_new(const struct engine_config *config, int64_t wall, int64_t boot, struct err *err)
{
    struct engine *engine = engine_alloc();
    engine->config = *config;
    engine->store = config->store;
    engine->shared->server = (struct server_row){ .name = config->server_name,
        .instance = config->server_instance,
        .host = config->server_host,
        .version = config->server_version,
        .address = config->server_address,
        .started = wall };
    engine->wanted = engine->boot = engine->shared->began = boot;
    engine->backlog->clock_offset = engine->schedules->offset = OFFSET_UNKNOWN;
    if (engine->config.lease_ms <= 0)
        engine->config.lease_ms = 15000;
    if (engine->config.keys_ms <= 0)
        engine->config.keys_ms = IDEMPOTENCY_MS;
    if (engine->config.silent_ms <= 0)
        engine->config.silent_ms = SILENT_MS;
    engine->batch = config->batch ? config->batch : BATCH;
    engine->many = config->many ? config->many : GRANTS_MANY;
    guards_open(engine);
    health_open(engine->health);
    engine->cache->rows = caches_rows(engine);
    atomic_store(&engine->seals_due, INT64_MAX);
    space_open(engine->space, config->data_dir);
    bool ok = duties_open(engine, err) && caches_load(engine, err) && leases_load(engine, boot, err) &&
              tokens_load(engine, err) && wall_load(engine, boot, err) && start_turn(engine, wall, boot, err);
    if (!ok) {
        engine_free(engine);
        return NULL;
    }
    if (engine->config.logs)
        logs_each_open(engine->config.logs, log_seal_left, engine);
    seals_listen(engine, true);
    return engine;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    engine_stop(engine);
    seals_listen(engine, false);
    coord_close(engine->shared->coord);
    engine_thread_free(engine);
    heap_release(&engine->grants->deadlines);
    heap_release(&engine->grants->silences);
    mem_free(engine->polls->due.nodes); /* without a look at the polls: their owners may have gone first */
    MAP_EACH (&engine->grants->active, e)
        mem_free(e->value);
    cache_slots_drop(engine);
    cache_classes_drop(engine);
    MAP_EACH (&engine->cache->executors, e) {
        struct known_executor *known = e->value;
        mem_free(known->fits);
        mem_free(known->texts);
        mem_free(known);
    }
    crews_free(engine);
    caches_texts_free(engine);
    mem_free(engine->cache->texts_old.at);
    struct map *maps[] = { &engine->cache->lanes, &engine->cache->classes, &engine->cache->slots,
        &engine->cache->executors, &engine->cache->specs, &engine->grants->active, &engine->slots->open,
        &engine->slots->left, &engine->slots->empty, &engine->served->waking };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        map_release(maps[i]);
    struct smap *smaps[] = { &engine->cache->lane_names, &engine->cache->class_keys, &engine->cache->slot_names,
        &engine->cache->executor_names, &engine->cache->spec_texts, &engine->cache->tenants };
    for (size_t i = 0; i < sizeof smaps / sizeof *smaps; i++)
        smap_release(smaps[i]);
    archives_drop(engine);
    schedules_drop(engine);
    map_release(&engine->cache->archives);
    map_release(&engine->cache->definitions);
    arena_release(&engine->schedules->arena);
    arena_release(&engine->site->arena);
    arena_release(&engine->site->file_arena);
    arena_release(&engine->site->told.arena);
    slice_release(&engine->slice);
    mem_free(engine->cache->recent);
    mem_free(engine->served->by_class);
    mem_free(engine->cache->indexes);
    arena_release(&engine->arena);
    arena_release(&engine->cache->arena);
    arena_release(&engine->cache->spec_arena);
    tokens_release(engine);
    arena_release(&engine->turn_arena);
    guards_release(engine);
    mem_free(CONTAINER_OF(engine, struct engine_body, engine));
}

int64_t engine_seq(const struct engine *engine)
{
    return engine->head.seq;
}

unsigned engine_weak(const struct engine *engine)
{
    return atomic_load(&engine->store->weak);
}

void engine_counters(struct engine *engine, struct engine_counters *out)
{
    *out = (struct engine_counters){ .turns = atomic_load(&engine->tally->turns),
        .commands = atomic_load(&engine->tally->commands),
        .commits = atomic_load(&engine->tally->commits),
        .events = atomic_load(&engine->tally->events),
        .granted = atomic_load(&engine->tally->granted),
        .finished = atomic_load(&engine->tally->finished),
        .lost = atomic_load(&engine->tally->lost),
        .turn_us = atomic_load(&engine->tally->turn_us),
        .commit_us = atomic_load(&engine->tally->commit_us),
        .begin_us = atomic_load(&engine->tally->begin_us),
        .failed_turns = atomic_load(&engine->tally->failed),
        .narrow = atomic_load(&engine->tally->narrow),
        .widened = atomic_load(&engine->tally->widened) };
}

int64_t executor_silent_ms(const struct engine *engine)
{
    return engine->config.lease_ms / 3 + 3000;
}

/* GUARD_heard is held */
static struct executor_live executor_live(const struct engine *engine, const struct known_executor *known, int64_t now)
{
    int64_t silent = executor_silent_ms(engine), ago = known->heard ? now - known->heard : -1;
    bool believed = ago < 0 && engine->shared->joined_site && known->row.state != EXECUTOR_LOST &&
                    now - engine->shared->began <= silent;
    /* of a shared store: what every server knows, whichever it polls */
    int64_t spare = known->row.slots - known->running;
    return (struct executor_live){
        .id = known->row.id,
        .live = (ago >= 0 && ago <= silent) || believed,
        .heard_ago_ms = ago,
        .running = known->running,
        .free = engine->store->exclusive ? known->free
                : spare > 0              ? spare
                                         : 0,
    };
}

static int by_id(const void *a, const void *b)
{
    const struct executor_live *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

size_t engine_executors(struct engine *engine, struct arena *arena, struct executor_live **out)
{
    int64_t now = clock_boot_ms();
    size_t n = 0;
    bool sorted = true;
    guard_enter(engine, GUARD_heard);
    *out = ARENA_ARRAY(arena, struct executor_live, engine->cache->executors.n + 1);
    MAP_EACH (&engine->cache->executors, e) {
        (*out)[n++] = executor_live(engine, e->value, now);
        sorted &= n < 2 || (*out)[n - 2].id < (*out)[n - 1].id;
    }
    guard_leave(engine, GUARD_heard);
    if (!sorted)
        qsort(*out, n, sizeof **out, by_id);
    return n;
}

bool engine_executor(struct engine *engine, int64_t id, struct executor_live *out)
{
    guard_enter(engine, GUARD_heard);
    const struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)id);
    if (known)
        *out = executor_live(engine, known, clock_boot_ms());
    guard_leave(engine, GUARD_heard);
    return known != NULL;
}

int64_t engine_executor_named(struct engine *engine, struct arena *arena, struct str tenant, struct str name)
{
    guard_enter(engine, GUARD_heard);
    const struct known_executor *known = executor_named(engine, arena, tenant, name);
    int64_t id = known ? known->row.id : 0;
    guard_leave(engine, GUARD_heard);
    return id;
}

bool engine_jobs_run(struct engine *engine)
{
    return atomic_load(&engine->tally->running) > 0;
}
