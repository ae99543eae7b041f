/* turn: one turn from commands to commit. See state.h for what lives how long. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/expiry.h"
#include "engine/grants.h"
#include "engine/seals.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/thread.h"
#include "engine/tokens.h"
#include "engine/waiters.h"
#include "store/pack.h"

/* --- the turn's own --- */

void turn_answer(struct turn *turn, struct command *command)
{
    if (command->answered)
        return;
    command->answered = true;
    *ARRAY_ADD(turn->arena, turn->answered) = command;
}

bool turn_refuse(struct turn *turn, struct command *command, enum err_code code, const char *fmt, ...)
{
    va_list args;
    (void)turn;
    command->err.code = code;
    va_start(args, fmt);
    vsnprintf(command->err.text, sizeof command->err.text, fmt, args);
    va_end(args);
    return false;
}

void turn_executor_changed(struct turn *turn, struct known_executor *known)
{
    ASSERT(!turn->narrow.is); /* widened before its row is changed */
    if (known->listed == turn->engine->serial)
        return;
    known->listed = turn->engine->serial;
    *ARRAY_ADD(turn->arena, turn->changes.executors) = &known->row;
}

static bool (*const apply[CMD_KIND_COUNT])(struct turn *turn, struct command *command) = {
    [CMD_ENQUEUE] = command_enqueue,
    [CMD_CANCEL] = command_cancel,
    [CMD_RETRY] = command_retry,
    [CMD_PROMOTE] = command_promote,
    [CMD_REGISTER] = command_register,
    [CMD_POLL] = command_poll,
    [CMD_FINISH] = command_finish,
    [CMD_LANE_PAUSE] = command_lane_pause,
    [CMD_EXECUTOR_STATE] = command_executor_state,
    [CMD_TOKEN_CREATE] = command_token_create,
    [CMD_TOKEN_REVOKE] = command_token_revoke,
    [CMD_SITE] = command_site,
    [CMD_ARCHIVE_ADD] = command_archive_add,
    [CMD_ARCHIVE_REMOVE] = command_archive_remove,
    [CMD_ARCHIVE_SKIP] = command_archive_skip,
    [CMD_REVISION] = command_revision,
    [CMD_CAUSE] = command_cause,
    [CMD_RUN] = command_run,
    [CMD_PRUNE] = command_prune,
    [CMD_LOG_GROWN] = command_log_grown,
    [CMD_NOTE] = command_note,
    [CMD_CHANGESET] = command_changeset,
    [CMD_APPROVE] = command_approve,
    [CMD_OUTPUTS] = command_outputs,
    [CMD_ROLLBACK_PLAN] = command_rollback_plan,
};

/* Above what any turn before has used, this server's or another's, or one before a restart; a turn without events is
 * only a commit. */
static int64_t arrivals_first(const struct store_head *head)
{
    return (head->turn + head->commit + 1) << 16;
}

void turn_stand(struct turn *turn)
{
    const struct engine *engine = turn->engine;
    struct slice *slice = turn->slice;
    int64_t first = arrivals_first(&engine->head);
    turn->head = engine->head;
    slice->turn = turn->narrow.is ? engine->shared->own.turn : engine->head.turn + 1;
    slice_stamp(slice, engine->head.time);
    slice->v_now = engine->head.v_now;
    slice->rollback_limit = (size_t)engine->site->changesets.rollback_limit;
    if (slice->arrivals < first)
        slice->arrivals = first;
}

void turn_open(struct turn *turn, struct engine *engine, int64_t wall, int64_t boot, struct err *err)
{
    arena_reset(&engine->turn_arena);
    engine->serial++;
    engine->boot = boot;
    caches_texts_free(engine);
    caches_trim(engine);
    *turn = (struct turn){ .engine = engine,
        .slice = &engine->slice,
        .arena = &engine->turn_arena,
        .wall = wall,
        .boot = boot,
        .narrow.own = engine->shared->own,
        .archives = ARENA_NEW(&engine->turn_arena, struct archive_work),
        .err = err };
    slice_init(turn->slice, turn->arena, &engine->cache->rows, wall, engine->head.turn + 1, err);
    turn->slice->arrivals = engine->arrivals;
    turn->slice->looks_left = turn->slice->tells_left = turn_batch(engine);
    turn_stand(turn);
}

void turn_close(struct turn *turn)
{
    map_release(&turn->attempts);
    map_release(&turn->outputs_of);
    smap_release(&turn->uniques);
    smap_release(&turn->idempotents);
    map_release(&turn->archives->rows);
    map_release(&turn->narrow.locked);
    map_release(&turn->claims.supplies);
    map_release(&turn->archives->revisions_at);
    smap_release(&turn->archives->names);
    smap_release(&turn->token_names);
}

/* --- what falls due by itself --- */

static void holds_lift(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct hold *due;
    size_t n;
    if (!duty_acts(turn, DUTY_timers))
        return;
    /* the clock was set back: back-offs are looked at again, whatever their time */
    bool set_back = engine->backlog->clock_offset - (turn->wall - turn->boot) > 1000;
    if (PLANT(clock_back))
        set_back = false;
    if (set_back || turn->wall - turn->boot > engine->backlog->clock_offset ||
        engine->backlog->clock_offset == OFFSET_UNKNOWN)
        engine->backlog->clock_offset = turn->wall - turn->boot;
    if (engine->backlog->next_time > turn->wall && !set_back)
        return;
    int64_t until = set_back ? INT64_MAX : turn->wall;
    if (!turn_read(turn, engine->store->ops->holds_due(engine->store, turn->arena, HOLD_time, until,
                             set_back ? 100 * engine->batch : engine->batch, &due, &n, turn->err)))
        return;
    for (size_t i = 0; i < n; i++) {
        struct node *node = slice_find(turn->slice, due[i].task);
        if (node)
            task_consider(turn->slice, node);
    }
    slice_settle(turn->slice);
}

/* The first time hold that will be left: from the store, this turn's own, and 'at once' when a batch was full. */
static bool holds_next(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    bool touched = engine->backlog->next_time <= turn->wall;
    for (size_t i = 0; i < turn->slice->holds_add.n && !touched; i++)
        touched = turn->slice->holds_add.at[i].kind == HOLD_time;
    for (size_t i = 0; i < turn->slice->holds_remove.n && !touched; i++)
        touched = turn->slice->holds_remove.at[i].kind == HOLD_time;
    if (!touched || !duty_acts(turn, DUTY_timers))
        return true;
    if (PLANT(wake_forgotten))
        return engine->backlog->next_time = INT64_MAX, true;
    struct hold *first;
    size_t n;
    if (!engine->store->ops->holds_due(engine->store, turn->arena, HOLD_time, INT64_MAX, 1, &first, &n, err))
        return false;
    engine->backlog->next_time = n ? first[0].key : INT64_MAX;
    return true;
}

/* --- changes --- */

static void changes_nodes(struct turn *turn)
{
    struct changes *c = &turn->changes;
    struct slice *slice = turn->slice;
    MAP_EACH (&slice->nodes, e) {
        struct node *node = e->value;
        if (!node->dirty)
            continue;
        if (node->was == STATE_NONE)
            *ARRAY_ADD(turn->arena, c->tasks_new) = &node->row;
        else
            *ARRAY_ADD(turn->arena, c->tasks_changed) = &node->row;
        bool was = node->was == STATE_P, is = node->row.state == STATE_P;
        bool moved =
            was && is &&
            (node->was_vt != node->row.vt || node->was_prio != node->row.prio || node->was_class != node->row.class_id);
        if (was && (!is || moved)) {
            struct task *old = ARENA_NEW(turn->arena, struct task);
            *old = (struct task){
                .id = node->row.id, .class_id = node->was_class, .prio = node->was_prio, .vt = node->was_vt
            };
            *ARRAY_ADD(turn->arena, c->ready_remove) = old;
        }
        if (is && (!was || moved))
            *ARRAY_ADD(turn->arena, c->ready_add) = &node->row;
        struct str tenant = slice_lane(slice, node->row.lane)->tenant;
        if (node->was_unique.len && !node->row.unique.len)
            *ARRAY_ADD(turn->arena, c->unique_remove) = (struct unique_claim){ tenant, node->was_unique, node->row.id };
        if (!node->was_unique.len && node->row.unique.len)
            *ARRAY_ADD(turn->arena, c->unique_add) = (struct unique_claim){ tenant, node->row.unique, node->row.id };
    }
}

static void changes_attempts(struct turn *turn)
{
    struct changes *c = &turn->changes;
    for (size_t i = 0; i < turn->attempt_list.n; i++) {
        const struct pending_attempt *pending = turn->attempt_list.at[i];
        if (pending->removed && pending->is_new)
            continue;
        if (pending->removed)
            *ARRAY_ADD(turn->arena, c->attempts_remove) = pending->attempt;
        else if (pending->is_new)
            *ARRAY_ADD(turn->arena, c->attempts_new) = pending->attempt;
        else
            *ARRAY_ADD(turn->arena, c->attempts_changed) = pending->attempt;
    }
}

static void changes_lanes_and_slots(struct turn *turn)
{
    struct changes *c = &turn->changes;
    const struct engine *engine = turn->engine;
    MAP_EACH (&turn->slice->lanes, e) {
        const struct lane *lane = e->value, *known = map_find(&engine->cache->lanes, e->key);
        if (known == NULL || memcmp(lane, known, sizeof *lane) != 0 || lane->id >= engine->head.next_lane)
            *ARRAY_ADD(turn->arena, c->lanes) = lane;
    }
    MAP_EACH (&turn->slice->slots, e) {
        const struct slot *slot = e->value, *known = map_find(&engine->cache->slots, e->key);
        bool new = slot->id >= engine->head.next_slot && slot->id < SLOT_NAMED;
        if (known && memcmp(slot, known, sizeof *slot) == 0 && !new)
            continue;
        if (engine->store->exclusive && slot_is_empty(slot))
            *ARRAY_ADD(turn->arena, c->slots_remove) = slot->id;
        else
            *ARRAY_ADD(turn->arena, c->slots) = slot;
    }
}

/* What core has decided: its lists are taken over as they are. */
static void changes_slice(struct turn *turn)
{
    struct changes *c = &turn->changes;
    const struct slice *slice = turn->slice;
    slice_holds_pack(turn->slice);
    c->edges_new.at = slice->edges_new.at, c->edges_new.n = slice->edges_new.n;
    c->edges_changed.at = slice->edges_changed.at, c->edges_changed.n = slice->edges_changed.n;
    c->holds_add.at = slice->holds_add.at, c->holds_add.n = slice->holds_add.n;
    c->holds_remove.at = slice->holds_remove.at, c->holds_remove.n = slice->holds_remove.n;
    for (size_t i = 0; i < slice->changesets.n; i++)
        *ARRAY_ADD(turn->arena, c->changesets.rows) = slice->changesets.at[i]->changeset;
    for (size_t i = 0; i < slice->files.n; i++) {
        const struct path_change *change = &slice->files.at[i];
        if (!change->undone && change->add)
            *ARRAY_ADD(turn->arena, c->changesets.files_add) = change->file;
        else if (!change->undone)
            *ARRAY_ADD(turn->arena, c->changesets.files_remove) = change->file;
    }
}

void turn_incarnate(struct turn *turn, struct str who, struct str reason)
{
    turn_widen(turn);
    store_head_renew(&turn->head);
    grants_forget(turn);
    slice_event(
        turn->slice, &(struct event){ .kind = EVENT_incarnation, .subject = who, .actor = who, .reason = reason });
}

bool turn_commit(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    struct slice *slice = turn->slice;
    struct changes *c = &turn->changes;
    struct buf events;
    changes_nodes(turn);
    changes_attempts(turn);
    changes_lanes_and_slots(turn);
    changes_slice(turn);
    changes_archives(turn);
    c->shared.server = turn->beats ? &turn->server : NULL;
    c->clock = turn->ticks ? &turn->clock : NULL;
    c->head = turn->head;
    for (size_t i = 0; i < turn->answered.n; i++)
        c->shared.acknowledges |= turn->answered.at[i]->kind != CMD_POLL;
    c->head.v_now = slice->v_now;
    c->history.first_seq = turn->head.seq + 1;
    c->history.time = turn->slice->stamp;
    buf_init(&events, SIZE_MAX);
    struct store_head committed = { 0 };
    c->out_head = &committed;
    if (turn->narrow.is && !changes_narrow(turn))
        return false;
    if (!slice->events.n && changes_tagged(c))
        slice_event(slice, &(struct event){ .kind = EVENT_noted, .actor = STR("engine") });
    if (slice->events.n) {
        c->history.turn = slice->turn;
        c->head.turn += !turn->narrow.is;
        c->head.seq += (int64_t)slice->events.n;
        c->head.time = c->history.time;
        pack_events(&events, slice->events.at, slice->events.n);
        c->history.events = buf_str(&events);
    }
    if (!turn->narrow.is)
        numbers_reserve(turn, &c->head);
    c->shared.numbers =
        !turn->narrow.is && c->head.next_task != engine->head.next_task && peers_are_about(engine, turn->boot);
    int64_t before = thread_stopwatch_us(engine);
    int64_t last = engine->store->commit;
    bool ok = engine->store->ops->commit(engine->store, c, err);
    if (PLANT(answer_early))
        ok |= err->code == ERR_outcome_unknown;
    engine->wrote |= ok && engine->store->commit != last;
    atomic_fetch_add(&engine->tally->commit_us, (uint64_t)(thread_stopwatch_us(engine) - before));
    buf_release(&events);
    if (ok && turn->narrow.is) {
        narrow_committed(turn, &committed);
    } else if (ok) {
        engine->shared->went_back |= engine->head.incarnation != c->head.incarnation;
        engine->head = c->head;
        engine->head.commit = engine->store->commit;
        if (committed.commit)
            memcpy(engine->head.hash, committed.hash, sizeof committed.hash);
        engine->shared->taken = engine->head;
        engine->shared->own = turn->narrow.own;
        engine->shared->own_seq = 0;
    }
    return ok;
}

/* --- after the commit --- */

void turn_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    MAP_EACH (&turn->slice->lanes, e) {
        struct lane *known = map_find(&engine->cache->lanes, e->key);
        tenant_lane_moved(engine, known, e->value);
        *known = *(struct lane *)e->value;
        if (known->id == 0)
            caches_held(engine);
    }
    slots_follow(turn);
    tells_follow(turn);
    archives_follow(turn);
    recent_follow(turn);
    engine->arrivals = turn->slice->arrivals;
    leases_commit(turn);
    tokens_follow(turn);
    /* whoever read them before the commit reads them again */
    if (turn->changes.site.n)
        atomic_fetch_add(&engine->site->version, 1);
    duties_commit(turn);
    expiry_commit(turn);
    seals_follow(turn);
    polls_commit(turn);
}

static void turn_count(struct turn *turn)
{
    struct engine *engine = turn->engine;
    atomic_fetch_add(&engine->tally->commits, 1);
    atomic_fetch_add(&engine->tally->events, turn->slice->events.n);
    atomic_fetch_add(&engine->tally->granted, turn->n_granted);
    atomic_fetch_add(&engine->tally->finished, turn->n_finished);
    atomic_fetch_add(&engine->tally->lost, turn->n_lost);
    atomic_fetch_add(&engine->tally->narrow, turn->narrow.is);
    prune_follow(turn);
    for (size_t i = 0; i < turn->sealed.n && engine->config.logs; i++)
        logs_seal(engine->config.logs, turn->sealed.at[i].task, turn->sealed.at[i].grant);
    for (size_t i = 0; i < turn->logs_lost.n && engine->config.logs; i++)
        logs_lost(engine->config.logs, turn->logs_lost.at[i].task, turn->logs_lost.at[i].grant);
}

/* --- one turn --- */

/* The store's lock, what peers have committed, and commands that came while they had the lock. */
static bool turn_begin(struct turn *turn, struct command **commands, size_t *n_commands, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    size_t n = *n_commands;
    engine->shared->narrow = turn->narrow.is ? turn : NULL;
    engine->turn = turn;
    needs_expect(turn, commands, n);
    int64_t before = thread_stopwatch_us(engine);
    if (!store->ops->begin(store, err))
        return false;
    turn->begun = true;
    atomic_fetch_add(&engine->tally->begin_us, (uint64_t)(thread_stopwatch_us(engine) - before));
    if (!peers_follow(turn, err)) {
        store->ops->rollback(store);
        return false;
    }
    if (engine->shared->gathers && !turn->narrow.is) {
        *n_commands = engine->gather(engine, commands, n);
        if (*n_commands > n)
            needs_expect(turn, commands + n, *n_commands - n);
        engine->shared->gathers = false;
    }
    return true;
}

/* What falls due by itself, before the commands. */
static void turn_due(struct turn *turn)
{
    if (turn->engine->shared->cancels_left && !turn->narrow.is)
        endings_tell(turn);
    if (!turn->narrow.is)
        leases_expire(turn);
    executors_watch(turn);
    if (turn->narrow.is)
        return;
    holds_lift(turn);
    schedules_fire(turn);
    revisions_left(turn);
    slots_admit(turn);
}

static void commands_apply(struct turn *turn, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n && !turn->slice->failed; i++) {
        struct command *command = commands[i];
        struct arena *items = command->arena;
        command->err = (struct err){ .arena = items };
        command->answered = false;
        ASSERT(command->kind > 0 && command->kind < CMD_KIND_COUNT);
        if (!duty_refused(turn, command) && !token_refused(turn, command))
            apply[command->kind](turn, command);
        slice_settle(turn->slice);
        if (command->kind != CMD_POLL || command->err.code)
            turn_answer(turn, command);
    }
}

bool turn_run(struct turn *turn, struct command **commands, size_t *n_commands, struct err *err)
{
    struct engine *engine = turn->engine;
    if (!turn_begin(turn, commands, n_commands, err))
        return false;
    size_t n = *n_commands;
    if (turn->narrow.is && (!commands_are_narrow(commands, n) || something_due(engine, turn->wall, turn->boot)))
        turn_widen(turn);
    turn_due(turn);
    commands_apply(turn, commands, n);
    if (!turn->narrow.is) {
        duties_run(turn);
        archives_removing(turn);
        lanes_resume(turn);
        served_run(turn);
        tells_run(turn);
    }
    claims_run(turn);
    polls_settle(turn);
    for (size_t i = 0; i < n && !turn->slice->failed; i++)
        if (commands[i]->kind == CMD_ENQUEUE && !commands[i]->err.code)
            enqueue_fill(turn, commands[i]);
    expiry_run(turn);
    slots_clear(turn);
    seals_note(turn);
    if (turn->slice->failed || !turn_commit(turn, err)) {
        engine->store->ops->rollback(engine->store);
        return false;
    }
    turn_follow(turn);
    turn_count(turn);
    /* It is committed, and answered so, whatever can't be read now: the next turn begins with reading everything. */
    struct err unread = { 0 };
    if (!holds_next(turn, &unread) || (turn->archives->schedules_changed && !schedules_load(engine, &unread))) {
        engine->shared->stale = true;
        engine->backlog->next_time = 0;
    }
    return true;
}
