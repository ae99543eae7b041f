/* narrow: turns of several servers side by side.
 *
 * A wide turn has the store to itself. A narrow one shares it with narrow turns of other servers: each task's row that it reads is locked
 * until it is over, pending tasks that somebody else has locked are passed over, what it counts (of lanes, of executors) is added and not
 * set. Servers meet at the rows of one task, and at the head, which is taken last. Its number comes from a block of its server's own: rows
 * carry the number of their turn, and are written before it is known which turn is the next.
 *
 * Narrow are the turns that executors make: polls, claims, finishes and what follows from them over the edges. Slots, the archive's lock,
 * pauses, duties and whatever makes tasks (their numbers are in the order in which they came) are decided wide, while nobody else decides
 * anything. What turns out to need that in the middle of a narrow turn ends it (turn_widen): nothing was changed, and the same commands are
 * decided once more, wide. */
#include "engine/turn.h"

enum {
    TURNS_OWN = 2000, /* a block of numbers; half used up, the next wide turn takes another */
    WIDE_MS = 500,    /* so long nothing is tried narrow after it had to be widened: the work is of that kind */
    MADE_MS = 100,    /* and so long after tasks were made here: wide turns that wait take along what comes, which is worth more */
};

void turn_widen(struct turn *turn)
{
    if (!turn->narrow) return;
    turn->widened = turn->slice->failed = true;
}

bool commands_are_narrow(struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (commands[i]->kind != CMD_POLL && commands[i]->kind != CMD_FINISH) return false;
    return true;
}

bool something_due(struct engine *engine, int64_t wall, int64_t boot)
{
    const struct heap_node *first = heap_first(&engine->deadlines);
    int64_t ahead = wall - boot - engine->offset; /* the clock was set: see holds_lift */
    if (coord_holds(engine->coord, DUTY_timers) && (ahead > 0 || ahead < -1000)) return true;
    if ((first && first->key <= boot) || duties_next(engine) <= boot) return true;
    if (engine->n_resuming || engine->n_removing || engine->archives_left || engine->coord->leaving) return true;
    return (coord_holds(engine->coord, DUTY_timers) && engine->next_time <= wall) ||
           (coord_holds(engine->coord, DUTY_schedules) && schedules_next(engine) <= wall);
}

bool turn_can_be_narrow(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot)
{
    if (!engine->store->narrows || engine->stale || engine->limited || engine->space.full || engine->went_back) return false;
    if (!others_are_about(engine, boot) || boot < engine->wide_until || engine->passed_over || engine->cancels_left) return false;
    if (engine->own.turn >= engine->own.turn_end || engine->own.incarnation != engine->head.incarnation) return false;
    return commands_are_narrow(commands, n) && !something_due(engine, wall, boot);
}

void turn_noted(struct engine *engine, struct command **commands, size_t n, int64_t boot)
{
    if (!commands_are_narrow(commands, n) && engine->wide_until < boot + MADE_MS) engine->wide_until = boot + MADE_MS;
}

/* In a wide turn's commit. */
void numbers_reserve(struct turn *turn, struct store_head *head)
{
    const struct engine *engine = turn->engine;
    int64_t block = engine->config.block ? engine->config.block : TURNS_OWN;
    struct numbers *own = &turn->own;
    *own = engine->own;
    if (!engine->store->narrows || !others_are_about(engine, turn->boot)) return;
    if (own->incarnation == head->incarnation && own->turn_end - own->turn > block / 2) return;
    *own = (struct numbers){ head->incarnation, head->turn + 1, head->turn + 1 + block };
    head->turn += block;
}

/* --- changes ------------------------------------------------------------------------------------------------------------------------- */

void executor_counted(struct turn *turn, int64_t executor, bool failed)
{
    for (size_t i = 0; i < turn->n_counts; i++) {
        if (turn->counts[i].executor != executor) continue;
        turn->counts[i].processed++;
        turn->counts[i].failed += failed;
        return;
    }
    *ARENA_PUSH(turn->arena, turn->counts, turn->n_counts, turn->cap_counts) = (struct executor_count){ executor, 1, failed };
}

static bool holds_are_times(const struct hold *holds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind != HOLD_time) return false;
    return true;
}

bool changes_narrow(struct turn *turn, struct changes *c)
{
    size_t others = c->n_classes + c->n_specs + c->n_slots + c->n_tasks_new + c->n_edges_new + c->n_results_remove + c->n_unique_add +
                    c->n_idempotency + c->n_executors + c->n_tokens + c->n_tokens_remove + c->n_site + c->n_archives + c->n_revisions +
                    c->n_latest + c->n_schedules + c->n_schedules_remove + c->n_duties + c->n_notes;
    if (others || c->server || !holds_are_times(c->holds_add, c->n_holds_add) || !holds_are_times(c->holds_remove, c->n_holds_remove))
        return turn_widen(turn), false;
    const struct lane **was = ARENA_ARRAY(turn->arena, const struct lane *, c->n_lanes + 1);
    for (size_t i = 0; i < c->n_lanes; i++)
        was[i] = PLANT(lanes_uncounted) ? c->lanes[i] : map_find(&turn->engine->lanes, (uint64_t)c->lanes[i]->id + 1);
    c->lanes_was = was;
    c->narrow = true;
    return true;
}

/* --- afterwards ---------------------------------------------------------------------------------------------------------------------- */

void narrow_committed(struct turn *turn, const struct store_head *head)
{
    struct engine *engine = turn->engine;
    engine->cancels_left = false;
    if (!head->commit) return; /* nothing was written */
    bool alone = head->commit == engine->taken.commit + 1; /* nobody else has committed meanwhile */
    engine->own.turn += turn->slice->n_events > 0;
    if (alone) engine->taken = *head;
    engine->own_seq = alone ? 0 : head->seq; /* our own turn isn't followed as another's */
    engine->own_events = (int64_t)turn->slice->n_events;
    engine->head = *head;
    for (size_t i = 0; i < turn->n_counts; i++) {
        struct known_executor *known = map_find(&engine->executors, (uint64_t)turn->counts[i].executor);
        known->row.processed += turn->counts[i].processed;
        known->row.failed += turn->counts[i].failed;
    }
}

/* The narrow turn came to nothing. What it heard is told again by the same commands. */
void narrow_undo(struct turn *turn, struct command **commands, size_t n)
{
    struct engine *engine = turn->engine;
    polls_unpark_failed(engine);
    for (size_t i = 0; i < n; i++) commands[i]->answered = false;
    engine->claims_left = true;
    engine->wide_until = turn->boot + WIDE_MS;
}
