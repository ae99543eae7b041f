/* silence: executors that fell silent are marked LOST; rows of executors that polled are written for other servers.
 * Both go in batches and cost as much as there are changes.
 *
 * Active executors stand in a heap by the time at which they may have fallen silent. A poll doesn't move its executor:
 * when the time has come the executor is checked, and put back if it polled since. So a poll costs nothing here, and
 * each executor is checked once a lease.
 *
 * A lease that another server granted is renewed by the executor's row (peers.c). With its own beat, once a second, a
 * server writes the rows of the executors that polled it since the last beat, in that order. */
#include "core/lease.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

static int64_t heard_since(const struct engine *engine, const struct known_executor *known)
{
    return known->heard ? known->heard
                        : engine->shared->began; /* else an executor that never polls would never be lost */
}

void silence_watch(struct engine *engine, struct known_executor *known)
{
    /* it is in the heap already, at an early enough time */
    if (known->row.state != EXECUTOR_ACTIVE || known->silence.pos)
        return;
    heap_put(&engine->grants->silences, &known->silence,
        silence_begins(heard_since(engine, known), false, engine->config.lease_ms));
}

int64_t silence_next(const struct engine *engine)
{
    const struct heap_node *first = heap_first(&engine->grants->silences);
    return first ? first->key : INT64_MAX;
}

static void executor_lose(struct turn *turn, struct known_executor *known)
{
    known->row.state = EXECUTOR_LOST;
    crew_state(turn->engine, known);
    turn_executor_changed(turn, known);
    slice_event(turn->slice, &(struct event){ .kind = EVENT_executor_lost,
                                 .subject = tenant_subject(turn->arena, known->row.tenant, known->row.name),
                                 .actor = STR("engine"),
                                 .reason = STR("it fell silent") });
}

void executors_watch(struct turn *turn)
{
    struct engine *engine = turn->engine;
    bool lost = false;
    if (engine->grants->deaf)
        return;
    /* the rest follows in the next turn */
    for (size_t left = turn_batch(engine); left > 0 && silence_next(engine) <= turn->boot; left--) {
        struct heap_node *first = heap_first(&engine->grants->silences);
        struct known_executor *known = CONTAINER_OF(first, struct known_executor, silence);
        int64_t begins = silence_begins(heard_since(engine, known), known->parked, engine->config.lease_ms);
        bool active = known->row.state == EXECUTOR_ACTIVE;
        if (active && begins > turn->boot) {
            if (PLANT(silence_once))
                heap_take(&engine->grants->silences, first);
            else
                heap_put(&engine->grants->silences, first, begins);
            continue;
        }
        if (active && turn->narrow.is) {
            turn_widen(turn);
            return;
        }
        heap_take(&engine->grants->silences, first); /* if the turn fails, reading the rows again puts it back */
        if (active)
            executor_lose(turn, known);
        lost |= active;
    }
    if (lost)
        served_look(engine, NULL);
}

/* --- beats --- */

void executor_spoke(struct engine *engine, struct known_executor *known, int64_t boot)
{
    known->heard = known->spoke = boot;
    crew_heard(known);
    if (!engine->store->exclusive && !known->spoken.in)
        list_append(&engine->grants->spoken, &known->spoken);
}

/* Without other servers no row is written; a server that starts waits for a lease before it marks executors LOST. */
void executors_beat(struct turn *turn)
{
    struct engine *engine = turn->engine;
    size_t due = turn->beats ? engine->grants->spoken.n : engine->grants->beats_due, most = turn_batch(engine);
    bool told = peers_are_about(engine, turn->boot);
    struct list_node *at = engine->grants->spoken.first;
    turn->n_beaten = told && due > most ? most : due;
    for (size_t i = 0; told && at && i < turn->n_beaten; i++, at = at->next)
        turn_executor_changed(turn, CONTAINER_OF(at, struct known_executor, spoken));
}

void beats_commit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (turn->beats)
        engine->grants->beats_due = engine->grants->spoken.n;
    for (size_t i = 0; i < turn->n_beaten; i++)
        (void)list_take_first(&engine->grants->spoken);
    engine->grants->beats_due -=
        turn->n_beaten < engine->grants->beats_due ? turn->n_beaten : engine->grants->beats_due;
    if (engine->grants->beats_due > engine->grants->spoken.n)
        engine->grants->beats_due = engine->grants->spoken.n; /* some executors were removed */
}

void silence_forget(struct engine *engine, struct known_executor *known)
{
    heap_take(&engine->grants->silences, &known->silence);
    list_remove(&engine->grants->spoken, &known->spoken);
}
