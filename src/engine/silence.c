/* silence: executors that nobody hears, and those whose polls other servers are to hear of; each costs what has
 * changed, and a turn does a batch of it.
 *
 * Active executors stand in a heap by the time at which one might have fallen silent. Being heard doesn't move it
 * there: when its time has come it is looked at, and put back if it was heard meanwhile. So a poll costs nothing here,
 * and a look is due once a lease for each.
 *
 * Leases across servers hang on executors' rows (peers.c), which go with the server's own beat, once a second: those
 * that polled since the last one, in the order in which they did. */
#include "core/lease.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

static int64_t heard_since(const struct engine *engine, const struct known_executor *known)
{
    return known->heard ? known->heard : engine->shared->began; /* else its row would be believed for ever */
}

void silence_watch(struct engine *engine, struct known_executor *known)
{
    /* in the heap already, never with too late a time */
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
    /* the rest in the next turn */
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

/* Nobody else, nobody to tell; a server that begins waits for a lease before it gives anybody up. */
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
        engine->grants->beats_due = engine->grants->spoken.n; /* some have gone */
}

void silence_forget(struct engine *engine, struct known_executor *known)
{
    heap_take(&engine->grants->silences, &known->silence);
    list_remove(&engine->grants->spoken, &known->spoken);
}
