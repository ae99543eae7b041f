/* narrow: turns of several servers side by side.
 *
 * A wide turn holds the store's lock alone. A narrow turn shares it with narrow turns of peers: it locks each task row
 * that it reads until its end, skips pending tasks that a peer has locked, and adds to counters (of lanes and
 * executors) instead of setting them. Servers contend only for the rows of one task or one large claim, and for the
 * head, which a turn locks last. A narrow turn's number comes from a block reserved by its server, because rows carry
 * the number of their turn and are written before the order of commits is known.
 *
 * Narrow turns create tasks (posted or of revisions), claim, finish, cancel and retry them. A turn that opens revisions
 * of an archive or passes its lock on locks the archive's row (archive_own); one that takes or releases a slot locks
 * the slot's row. A turn that creates tasks reserves their numbers when it begins, so that numbers follow the order of
 * requests, whichever server takes them. What belongs to the whole site is decided wide: pauses, duties, everything
 * due by time, executors, tokens, configuration, added and removed archives, new names. A narrow turn that finds out
 * that it needs any of these ends without a change (turn_widen), and its commands are decided again in a wide turn. */
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/expiry.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/seals.h"
#include "engine/shared/shared.h"
#include "engine/waiters.h"

enum {
    TURNS_OWN = 2000,  /* turn numbers in a block; when half are used, the next wide turn reserves a new block */
    SPECS_A_TURN = 10, /* spec numbers in a block, per turn number */
    NUMBERS_MORE = 64, /* least task numbers to reserve when a turn creates more tasks than it expected */
    WIDE_MS = 500,     /* after a turn had to be widened, so long all turns are wide: similar work is likely */
    /* from this many enqueue calls on, take the turn wide, so that one commit carries them all, */
    POSTS_MANY = 4,
    POSTS_MS = 100, /* and all turns for so long afterwards */
};

void turn_widen(struct turn *turn)
{
    if (!turn->narrow.is)
        return;
    turn->narrow.widened = turn->slice->failed = true;
}

static const bool kinds[CMD_KIND_COUNT] = {
    [CMD_POLL] = true,
    [CMD_FINISH] = true,
    [CMD_OUTPUTS] = true,
    [CMD_ENQUEUE] = true,
    [CMD_REVISION] = true,
    [CMD_CAUSE] = true,
    [CMD_RUN] = true,
    [CMD_ARCHIVE_SKIP] = true,
    [CMD_CANCEL] = true,
    [CMD_RETRY] = true,
    [CMD_PROMOTE] = true,
};

bool commands_are_narrow(struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!kinds[commands[i]->kind])
            return false;
    return true;
}

/* --- numbers --- */

static bool numbers_more(struct turn *turn)
{
    struct store *store = turn->engine->store;
    size_t n = turn->narrow.n_numbers > NUMBERS_MORE ? turn->narrow.n_numbers : NUMBERS_MORE;
    struct turn_needs needs = { .narrow = true, .numbers = ARENA_ARRAY(turn->arena, int64_t, n), .n_numbers = n };
    if (!store->ops->shared->expect(store, &needs, turn->err))
        return false;
    turn->narrow.numbers = needs.numbers;
    turn->narrow.n_numbers = n;
    turn->narrow.numbers_used = 0;
    return true;
}

int64_t task_number(struct turn *turn)
{
    if (!turn->narrow.is)
        return turn->head.next_task++;
    if (turn->narrow.numbers_used == turn->narrow.n_numbers && !numbers_more(turn))
        turn->slice->failed = true;
    int64_t number = turn->slice->failed ? 0 : turn->narrow.numbers[turn->narrow.numbers_used++];
    if (number == 0)
        turn_widen(turn);
    if (number < turn->head.next_task)
        return turn->head.next_task++; /* never stored: the turn is repeated wide */
    turn->head.next_task = number + 1;
    return number;
}

int64_t spec_number(struct turn *turn)
{
    if (!turn->narrow.is)
        return turn->head.next_spec++;
    if (turn->narrow.own.spec >= turn->narrow.own.spec_end)
        turn_widen(turn);
    return turn->narrow.own.spec++;
}

/* --- narrow or wide? --- */

bool something_due(struct engine *engine, int64_t wall, int64_t boot)
{
    const struct heap_node *first = heap_first(&engine->grants->deadlines);
    int64_t ahead = wall - boot - engine->backlog->clock_offset; /* the clock was set: see holds_lift */
    if (coord_holds(engine->shared->coord, DUTY_timers) && (ahead > 0 || ahead < -1000))
        return true;
    if ((first && first->key <= boot) || duties_next(engine) <= boot)
        return true;
    if (expiry_next(engine) <= boot || seals_next(engine) <= boot)
        return true;
    if (engine->backlog->resuming.n || engine->backlog->removing.n || engine->backlog->archives_left ||
        engine->slots->left.n || engine->shared->coord->leaving)
        return true;
    if (served_due(engine) || engine->backlog->tells_due || engine->grants->beats_due)
        return true;
    return (coord_holds(engine->shared->coord, DUTY_timers) && engine->backlog->next_time <= wall) ||
           schedules_due(engine, wall, boot);
}

static bool posts_many(struct command **commands, size_t n)
{
    size_t posts = 0;
    for (size_t i = 0; i < n; i++)
        posts += commands[i]->kind == CMD_ENQUEUE;
    return posts >= POSTS_MANY;
}

bool turn_can_be_narrow(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot)
{
    if (!engine->store->narrows || engine->shared->stale || engine->cache->limited || engine->space->full ||
        engine->shared->went_back)
        return false;
    if (!peers_are_about(engine, boot) || boot < engine->shared->wide_until || engine->shared->passed_over ||
        engine->shared->cancels_left)
        return false;
    if (engine->shared->own.turn >= engine->shared->own.turn_end ||
        engine->shared->own.incarnation != engine->head.incarnation)
        return false;
    return commands_are_narrow(commands, n) && !posts_many(commands, n) && !something_due(engine, wall, boot);
}

void turn_noted(struct engine *engine, struct command **commands, size_t n, int64_t boot)
{
    if (posts_many(commands, n) && engine->shared->wide_until < boot + POSTS_MS)
        engine->shared->wide_until = boot + POSTS_MS;
}

/* Part of a wide turn's commit: the block for this server's next narrow turns. */
void numbers_reserve(struct turn *turn, struct store_head *head)
{
    const struct engine *engine = turn->engine;
    int64_t block = engine->config.block ? engine->config.block : TURNS_OWN, specs = block * SPECS_A_TURN;
    struct numbers *own = &turn->narrow.own;
    if (!engine->store->narrows || !peers_are_about(engine, turn->boot))
        return;
    bool last = own->incarnation == head->incarnation;
    if (last && own->turn_end - own->turn > block / 2 && own->spec_end - own->spec > specs / 2)
        return;
    *own = (struct numbers){ head->incarnation, head->turn + 1, head->turn + 1 + block, head->next_spec,
        head->next_spec + specs };
    head->turn += block;
    head->next_spec += specs;
}

/* --- changes --- */

void executor_counted(struct turn *turn, int64_t executor, bool failed)
{
    struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)executor);
    if (!known)
        return; /* the executor was removed, and its counts with it */
    if (known->counted == turn->engine->serial) {
        turn->changes.shared.counts.at[known->counted_at].processed++;
        turn->changes.shared.counts.at[known->counted_at].failed += failed;
        return;
    }
    known->counted = turn->engine->serial;
    known->counted_at = turn->changes.shared.counts.n;
    *ARRAY_ADD(turn->arena, turn->changes.shared.counts) = (struct executor_count){ executor, 1, failed };
}

static bool holds_pause(const struct hold *holds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind == HOLD_pause)
            return true;
    return false;
}

static bool archives_are_own(struct turn *turn, const struct changes *c)
{
    bool own = true;
    for (size_t i = 0; i < c->archives.n && own; i++)
        own = map_find(&turn->narrow.locked, (uint64_t)c->archives.at[i]->lane);
    for (size_t i = 0; i < c->revisions.n && own; i++)
        own = map_find(&turn->narrow.locked, (uint64_t)c->revisions.at[i].lane);
    for (size_t i = 0; i < c->latest.n && own; i++)
        own = map_find(&turn->narrow.locked, (uint64_t)c->latest.at[i].lane);
    return own;
}

/* The lane as the turn found it. Its last_vt is where the turn began to count, so that the steps of two concurrent
 * turns add up. */
static const struct lane *lane_before(struct turn *turn, const struct lane *lane)
{
    if (PLANT(lanes_uncounted))
        return lane;
    struct lane *was = ARENA_NEW(turn->arena, struct lane);
    *was = *(const struct lane *)map_find(&turn->engine->cache->lanes, (uint64_t)lane->id + 1);
    if (was->last_vt < turn->head.v_now)
        was->last_vt = turn->head.v_now;
    if (was->last_vt > lane->last_vt)
        was->last_vt = lane->last_vt;
    return was;
}

bool changes_narrow(struct turn *turn)
{
    struct changes *c = &turn->changes;
    size_t others = c->classes.n + c->classes_remove.n + c->logs.seals.n + c->results_remove.n + c->executors.n +
                    c->executors_remove.n + c->tokens.n + c->tokens_remove.n + c->slots_remove.n + c->site.n +
                    c->schedules.n + c->schedules_remove.n + c->changesets.rows.n + c->changesets.files_add.n +
                    c->changesets.files_remove.n + c->shared.duties.n + c->shared.notes.n + (c->clock != NULL);
    bool pause = holds_pause(c->holds_add.at, c->holds_add.n) || holds_pause(c->holds_remove.at, c->holds_remove.n);
    if (others || c->shared.server || pause || !archives_are_own(turn, c))
        return turn_widen(turn), false;
    const struct lane **was = ARENA_ARRAY(turn->arena, const struct lane *, c->lanes.n + 1);
    for (size_t i = 0; i < c->lanes.n; i++)
        was[i] = lane_before(turn, c->lanes.at[i]);
    c->shared.lanes_was = was;
    c->shared.narrow = true;
    return true;
}

/* --- after the turn --- */

void narrow_committed(struct turn *turn, const struct store_head *head)
{
    struct engine *engine = turn->engine;
    engine->shared->cancels_left = false;
    if (!head->commit)
        return;                                                    /* nothing was written */
    bool alone = head->commit == engine->shared->taken.commit + 1; /* no other server has committed meanwhile */
    engine->shared->own = turn->narrow.own;
    engine->shared->own.turn += turn->slice->events.n > 0;
    if (alone)
        engine->shared->taken = *head;
    engine->shared->own_seq = alone ? 0 : head->seq; /* peers_take must not take our own events for a peer's */
    engine->shared->own_events = (int64_t)turn->slice->events.n;
    engine->head = *head;
    for (size_t i = 0; i < turn->changes.shared.counts.n; i++) {
        struct known_executor *known =
            map_find(&engine->cache->executors, (uint64_t)turn->changes.shared.counts.at[i].executor);
        known->row.processed += turn->changes.shared.counts.at[i].processed;
        known->row.failed += turn->changes.shared.counts.at[i].failed;
    }
}

/* Undoes a narrow turn that failed. What it learned of executors stays: the same commands say it again. */
void narrow_undo(struct turn *turn, struct command **commands, size_t n)
{
    struct engine *engine = turn->engine;
    commands_undo(engine, commands, n);
    bool made = turn->changes.specs.n > 0;
    if (PLANT(specs_kept))
        made = false;
    if (made) { /* the caches have specs that were never stored */
        caches_specs_drop(engine);
        definitions_drop(engine);
    }
    engine->polls->left = true;
    engine->shared->wide_until = turn->boot + WIDE_MS;
}
