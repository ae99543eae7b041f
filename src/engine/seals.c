/* seals: what sealed logs were goes into the history, so that `verify` finds a log that was changed.
 *
 * The log store hashes a log once it is sealed and durable (store/logs/logs.h); here the hashes become rows (log_seal),
 * as many as wait in one turn: in the next one that commits anyway, or in one of their own (told as `noted`) when they
 * have waited for SEALS_MS. So no task costs a commit more, and one without a log costs nothing.
 *
 * Promises: what is noted stays. A log that is hashed again (after a crash, a restore or a copy) and isn't what was
 * noted is not believed, but logged. A log that was pruned meanwhile gets no row. It fails with the turn: the hashes
 * wait for the next one.
 *
 * By the same way the log store tells how long a log is whose attempt was given up (lost): it is not sealed, but its
 * bytes count. */
#include <inttypes.h>
#include <string.h>

#include "engine/seals.h"
#include "engine/tenants.h"
#include "io/clock.h"
#include "io/log.h"

enum { SEALS_MS = 1000, SEALS_MAX = 256, SEALS_ON_LOOP = 32 };

/* From a thread of the log store. */
static void seals_wait(void *owner)
{
    struct engine *engine = owner;
    atomic_store(&engine->seals_due, clock_boot_ms() + SEALS_MS);
}

static void seals_wake(void *owner)
{
    seals_wait(owner);
    engine_wake(owner); /* to sleep no longer than that */
}

void seals_listen(struct engine *engine, bool on)
{
    if (engine->config.logs)
        logs_on_seal(engine->config.logs, on ? engine->thread ? seals_wake : seals_wait : NULL, engine);
}

int64_t seals_next(struct engine *engine)
{
    return atomic_load(&engine->seals_due);
}

/* On a shared store the log store has looked, where the log is. */
static bool noted_before(struct turn *turn, const struct log_sealed *sealed)
{
    struct store *store = turn->engine->store;
    struct log_seal known;
    bool found = false;
    if (!store->exclusive)
        return false;
    if (!turn_read(
            turn, store->ops->load_log_seal(store, sealed->seal.task, sealed->seal.grant, &known, &found, turn->err)))
        return true;
    if (found && (known.bytes != sealed->seal.bytes || memcmp(known.hash, sealed->seal.hash, sizeof known.hash) != 0))
        log_error("logs.changed",
            "task=%" PRId64 " grant=%" PRId64 " error=\"the log isn't as it was noted: weir verify\"",
            sealed->seal.task, sealed->seal.grant);
    return found;
}

void seals_note(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    int64_t due = seals_next(engine);
    if (due == INT64_MAX || turn->narrow.is || turn->slice->failed || (!turn->slice->events.n && due > turn->boot))
        return;
    size_t max = engine->on_loop ? SEALS_ON_LOOP : SEALS_MAX;
    turn->sealed_seen = ARENA_ARRAY(turn->arena, struct log_sealed, max);
    turn->n_sealed_seen = logs_sealed(engine->config.logs, turn->sealed_seen, max);
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, turn->n_sealed_seen + 1);
    for (size_t i = 0; i < turn->n_sealed_seen; i++)
        tasks[i] = turn->sealed_seen[i].seal.task;
    struct turn_needs needs = { .tasks = tasks, .n_tasks = turn->n_sealed_seen };
    if (store->ops->shared && turn->n_sealed_seen && !store->ops->shared->expect(store, &needs, turn->err))
        turn->slice->failed = true;
    for (size_t i = 0; i < turn->n_sealed_seen && !turn->slice->failed; i++) {
        const struct log_sealed *sealed = &turn->sealed_seen[i];
        struct node *node = slice_find(turn->slice, sealed->seal.task);
        bool wanted = node && sealed->seal.grant <= node->row.grant && task_pruned(&node->row) < sealed->seal.grant;
        if (!wanted || (!sealed->lost && noted_before(turn, sealed)))
            continue;
        if (!sealed->lost)
            *ARRAY_ADD(turn->arena, turn->changes.logs.seals) = sealed->seal;
        log_grown(turn, node, sealed->seal.grant, sealed->seal.bytes);
    }
}

/* After the commit. Those that come meanwhile tell of themselves only when none is left. */
void seals_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (!turn->n_sealed_seen) {
        if (turn->sealed_seen)
            atomic_store(&engine->seals_due, INT64_MAX);
        return;
    }
    atomic_store(&engine->seals_due, INT64_MAX);
    if (logs_noted(engine->config.logs, turn->sealed_seen, turn->n_sealed_seen))
        atomic_store(&engine->seals_due, turn->boot);
}
