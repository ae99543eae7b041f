/* engine: one turn from commands to commit. See turn.h for what lives how long. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/turn.h"
#include "io/clock.h"
#include "store/pack.h"

/* --- the turn's own --------------------------------------------------------------------------------------------------------------- */

void turn_answer(struct turn *turn, struct command *command)
{
    if (command->answered) return;
    command->answered = true;
    *ARENA_PUSH(turn->arena, turn->answered, turn->n_answered, turn->cap_answered) = command;
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
    ASSERT(!turn->narrow); /* widened before its row is changed */
    if (known->listed == turn->engine->serial) return;
    known->listed = turn->engine->serial;
    *ARENA_PUSH(turn->arena, turn->executors, turn->n_executors, turn->cap_executors) = &known->row;
}

static void (*const apply[CMD_KIND_COUNT])(struct turn *turn, struct command *command) = {
    [CMD_ENQUEUE] = cmd_enqueue,
    [CMD_CANCEL] = cmd_cancel,
    [CMD_RETRY] = cmd_retry,
    [CMD_PROMOTE] = cmd_promote,
    [CMD_REGISTER] = cmd_register,
    [CMD_POLL] = cmd_poll,
    [CMD_FINISH] = cmd_finish,
    [CMD_LANE_PAUSE] = cmd_lane_pause,
    [CMD_EXECUTOR_STATE] = cmd_executor_state,
    [CMD_TOKEN_CREATE] = cmd_token_create,
    [CMD_TOKEN_REVOKE] = cmd_token_revoke,
    [CMD_SITE] = cmd_site,
    [CMD_ARCHIVE_ADD] = cmd_archive_add,
    [CMD_ARCHIVE_REMOVE] = cmd_archive_remove,
    [CMD_ARCHIVE_SKIP] = cmd_archive_skip,
    [CMD_REVISION] = cmd_revision,
    [CMD_CAUSE] = cmd_cause,
    [CMD_RUN] = cmd_run,
    [CMD_PRUNE] = cmd_prune,
    [CMD_NOTE] = cmd_note,
};

/* Above what any turn before has used, this server's or another's, or one before a restart; a turn without events is only a commit. */
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
    slice->turn = turn->narrow ? engine->own.turn : engine->head.turn + 1;
    slice_stamp(slice, engine->head.time);
    slice->v_now = engine->head.v_now;
    if (slice->arrivals < first) slice->arrivals = first;
}

static void turn_open(struct turn *turn, struct engine *engine, int64_t wall, int64_t boot, struct err *err)
{
    arena_reset(&engine->turn_arena);
    engine->serial++;
    engine->boot = boot;
    caches_texts_free(engine);
    caches_specs_trim(engine);
    *turn = (struct turn){ .engine = engine,
        .slice = &engine->slice,
        .arena = &engine->turn_arena,
        .wall = wall,
        .boot = boot,
        .own = engine->own,
        .err = err };
    slice_init(turn->slice, turn->arena, &engine->rows, wall, engine->head.turn + 1, err);
    turn->slice->arrivals = engine->arrivals;
    turn->slice->looks_left = turn->slice->tells_left = turn_batch(engine);
    turn_stand(turn);
}

static void turn_close(struct turn *turn)
{
    map_release(&turn->attempts);
    map_release(&turn->outputs_of);
    smap_release(&turn->uniques);
    smap_release(&turn->idempotents);
    map_release(&turn->archives);
    map_release(&turn->locked);
    map_release(&turn->supplies);
    map_release(&turn->revisions_at);
    smap_release(&turn->names);
    smap_release(&turn->token_names);
}

/* --- what falls due by itself ------------------------------------------------------------------------------------------------------ */

static void holds_lift(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct hold *due;
    size_t n;
    if (!duty_acts(turn, DUTY_timers)) return;
    bool set_back = engine->offset - (turn->wall - turn->boot) > 1000 &&
                    !PLANT(clock_back); /* then back-offs are looked at anew, whatever their time */
    if (set_back || turn->wall - turn->boot > engine->offset || engine->offset == OFFSET_UNKNOWN) engine->offset = turn->wall - turn->boot;
    if (engine->next_time > turn->wall && !set_back) return;
    int64_t until = set_back ? INT64_MAX : turn->wall;
    if (!engine->store->ops->holds_due(
            engine->store, turn->arena, HOLD_time, until, set_back ? 100 * engine->batch : engine->batch, &due, &n, turn->err)) {
        turn->slice->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct node *node = slice_find(turn->slice, due[i].task);
        if (node) task_consider(turn->slice, node);
    }
    slice_settle(turn->slice);
}

/* The first time hold that will be left: from the store, this turn's own, and 'at once' when a batch was full. */
static bool holds_next(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    bool touched = engine->next_time <= turn->wall;
    for (size_t i = 0; i < turn->slice->n_holds_add && !touched; i++) touched = turn->slice->holds_add[i].kind == HOLD_time;
    for (size_t i = 0; i < turn->slice->n_holds_remove && !touched; i++) touched = turn->slice->holds_remove[i].kind == HOLD_time;
    if (!touched || !duty_acts(turn, DUTY_timers)) return true;
    if (PLANT(wake_forgotten)) return engine->next_time = INT64_MAX, true;
    struct hold *first;
    size_t n;
    if (!engine->store->ops->holds_due(engine->store, turn->arena, HOLD_time, INT64_MAX, 1, &first, &n, err)) return false;
    engine->next_time = n ? first[0].key : INT64_MAX;
    return true;
}

/* --- changes ----------------------------------------------------------------------------------------------------------------------- */

static void changes_nodes(struct turn *turn, struct changes *c)
{
    struct slice *slice = turn->slice;
    size_t n = slice->nodes.n;
    const struct task **created = ARENA_ARRAY(turn->arena, const struct task *, n + 1),
                      **changed = ARENA_ARRAY(turn->arena, const struct task *, n + 1);
    const struct task **add = ARENA_ARRAY(turn->arena, const struct task *, n + 1),
                      **gone = ARENA_ARRAY(turn->arena, const struct task *, n + 1);
    MAP_EACH(&slice->nodes, e) {
        struct node *node = e->value;
        if (!node->dirty) continue;
        if (node->was == STATE_NONE) created[c->n_tasks_new++] = &node->row;
        else changed[c->n_tasks_changed++] = &node->row;
        bool was = node->was == STATE_P, is = node->row.state == STATE_P;
        bool moved =
            was && is && (node->was_vt != node->row.vt || node->was_prio != node->row.prio || node->was_class != node->row.class_id);
        if (was && (!is || moved)) {
            struct task *old = ARENA_NEW(turn->arena, struct task);
            *old = (struct task){ .id = node->row.id, .class_id = node->was_class, .prio = node->was_prio, .vt = node->was_vt };
            gone[c->n_ready_remove++] = old;
        }
        if (is && (!was || moved)) add[c->n_ready_add++] = &node->row;
        struct str tenant = slice_lane(slice, node->row.lane)->tenant;
        if (node->was_unique.len && !node->row.unique.len)
            *ARENA_PUSH(turn->arena, turn->unique_remove, turn->n_unique_remove, turn->cap_unique_remove) =
                (struct unique_claim){ tenant, node->was_unique, node->row.id };
        if (!node->was_unique.len && node->row.unique.len)
            *ARENA_PUSH(turn->arena, turn->unique_add, turn->n_unique_add, turn->cap_unique_add) =
                (struct unique_claim){ tenant, node->row.unique, node->row.id };
    }
    c->tasks_new = created;
    c->tasks_changed = changed;
    c->ready_add = add;
    c->ready_remove = gone;
}

static void changes_attempts(struct turn *turn, struct changes *c)
{
    size_t n = turn->n_attempts;
    struct attempt *created = ARENA_ARRAY(turn->arena, struct attempt, n + 1), *changed = ARENA_ARRAY(turn->arena, struct attempt, n + 1),
                   *gone = ARENA_ARRAY(turn->arena, struct attempt, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct pending_attempt *pending = turn->attempt_list[i];
        if (pending->removed && pending->is_new) continue;
        if (pending->removed) gone[c->n_attempts_remove++] = pending->attempt;
        else if (pending->is_new) created[c->n_attempts_new++] = pending->attempt;
        else changed[c->n_attempts_changed++] = pending->attempt;
    }
    c->attempts_new = created;
    c->attempts_changed = changed;
    c->attempts_remove = gone;
}

static void changes_small(struct turn *turn, struct changes *c)
{
    struct slice *slice = turn->slice;
    slice_holds_pack(slice);
    const struct lane **lanes = ARENA_ARRAY(turn->arena, const struct lane *, slice->lanes.n + 1);
    const struct slot **slots = ARENA_ARRAY(turn->arena, const struct slot *, slice->slots.n + 1);
    MAP_EACH(&slice->lanes, e) {
        const struct lane *lane = e->value, *known = map_find(&turn->engine->lanes, e->key);
        if (known == NULL || memcmp(lane, known, sizeof *lane) != 0 || lane->id >= turn->engine->head.next_lane) lanes[c->n_lanes++] = lane;
    }
    MAP_EACH(&slice->slots, e) {
        const struct slot *slot = e->value, *known = map_find(&turn->engine->slots, e->key);
        bool new = slot->id >= turn->engine->head.next_slot && slot->id < SLOT_NAMED;
        if (known && memcmp(slot, known, sizeof *slot) == 0 && !new) continue;
        if (turn->engine->store->exclusive && slot_is_empty(slot))
            *ARENA_PUSH(turn->arena, turn->slots_gone, turn->n_slots_gone, turn->cap_slots_gone) = slot->id;
        else slots[c->n_slots++] = slot;
    }
    c->lanes = lanes;
    c->slots = slots;
    c->slots_remove = turn->slots_gone; c->n_slots_remove = turn->n_slots_gone;
    c->classes = turn->classes_new; c->n_classes = turn->n_classes_new;
    c->classes_remove = turn->classes_gone; c->n_classes_remove = turn->n_classes_gone;
    c->specs = turn->specs_new; c->n_specs = turn->n_specs_new;
    c->edges_new = slice->edges_new; c->n_edges_new = slice->n_edges_new;
    c->edges_changed = slice->edges_changed; c->n_edges_changed = slice->n_edges_changed;
    c->holds_add = slice->holds_add; c->n_holds_add = slice->n_holds_add;
    c->holds_remove = slice->holds_remove; c->n_holds_remove = slice->n_holds_remove;
    c->outputs = turn->outputs; c->n_outputs = turn->n_outputs;
    c->log_tails = turn->tails; c->n_log_tails = turn->n_tails;
    c->log_seals = turn->seals; c->n_log_seals = turn->n_seals;
    c->log_seals_remove = turn->seals_gone; c->n_log_seals_remove = turn->n_seals_gone;
    c->duties = turn->duties; c->n_duties = turn->n_duties;
    c->notes = turn->notes; c->n_notes = turn->n_notes;
    c->server = turn->beats ? &turn->server : NULL;
    c->clock = turn->ticks ? &turn->clock : NULL;
    c->results_remove = turn->pruned; c->n_results_remove = turn->n_pruned;
    c->unique_add = turn->unique_add; c->n_unique_add = turn->n_unique_add;
    c->unique_remove = turn->unique_remove; c->n_unique_remove = turn->n_unique_remove;
    c->idempotency = turn->idempotency; c->n_idempotency = turn->n_idempotency;
    c->tokens = turn->tokens_new; c->n_tokens = turn->n_tokens_new;
    c->site = turn->site; c->n_site = turn->n_site;
    c->tokens_remove = turn->tokens_gone; c->n_tokens_remove = turn->n_tokens_gone;
    const struct executor **executors = ARENA_ARRAY(turn->arena, const struct executor *, turn->n_executors + 1);
    for (size_t i = 0; i < turn->n_executors; i++) executors[i] = turn->executors[i];
    c->executors = executors; c->n_executors = turn->n_executors;
    c->executors_remove = turn->executors_gone; c->n_executors_remove = turn->n_executors_gone;
    c->counts = turn->counts; c->n_counts = turn->n_counts;
}

void turn_incarnate(struct turn *turn, struct str who, struct str reason)
{
    turn_widen(turn);
    store_head_renew(&turn->head);
    grants_forget(turn);
    slice_event(turn->slice, &(struct event){ .kind = EVENT_incarnation, .subject = who, .actor = who, .reason = reason });
}

static bool turn_commit(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    struct slice *slice = turn->slice;
    struct changes c = { 0 };
    struct buf events;
    changes_nodes(turn, &c);
    changes_attempts(turn, &c);
    changes_small(turn, &c);
    changes_archives(turn, &c);
    c.head = turn->head;
    for (size_t i = 0; i < turn->n_answered; i++) c.told |= turn->answered[i]->kind != CMD_POLL;
    c.head.v_now = slice->v_now;
    c.first_seq = turn->head.seq + 1;
    c.time = turn->slice->stamp;
    buf_init(&events, SIZE_MAX);
    struct store_head committed = { 0 };
    c.out_head = &committed;
    if (turn->narrow && !changes_narrow(turn, &c)) return false;
    if (!slice->n_events && changes_told(&c)) slice_event(slice, &(struct event){ .kind = EVENT_noted, .actor = STR("engine") });
    if (slice->n_events) {
        c.turn = slice->turn;
        c.head.turn += !turn->narrow;
        c.head.seq += (int64_t)slice->n_events;
        c.head.time = c.time;
        pack_events(&events, slice->events, slice->n_events);
        c.events = buf_str(&events);
    }
    if (!turn->narrow) numbers_reserve(turn, &c.head);
    c.numbers = !turn->narrow && c.head.next_task != engine->head.next_task && others_are_about(engine, turn->boot);
    int64_t before = clock_boot_us();
    int64_t last = engine->store->commit;
    bool ok = engine->store->ops->commit(engine->store, &c, err) || (PLANT(answer_early) && err->code == ERR_outcome_unknown);
    engine->wrote |= ok && engine->store->commit != last;
    atomic_fetch_add(&engine->commit_us, (uint64_t)(clock_boot_us() - before));
    buf_release(&events);
    if (ok && turn->narrow) {
        narrow_committed(turn, &committed);
    } else if (ok) {
        engine->went_back |= engine->head.incarnation != c.head.incarnation;
        engine->head = c.head;
        engine->head.commit = engine->store->commit;
        if (committed.commit) memcpy(engine->head.hash, committed.hash, sizeof committed.hash);
        engine->taken = engine->head;
        engine->own = turn->own;
        engine->own_seq = 0;
    }
    return ok;
}

/* --- after the commit ---------------------------------------------------------------------------------------------------------------- */

static void caches_follow(struct turn *turn)
{
    struct engine *engine = turn->engine;
    MAP_EACH(&turn->slice->lanes, e) {
        struct lane *known = map_find(&engine->lanes, e->key);
        tenant_lane_moved(engine, known, e->value);
        *known = *(struct lane *)e->value;
        if (known->id == 0) caches_held(engine);
    }
    slots_follow(turn);
    tells_follow(turn);
    archives_follow(turn);
    recent_follow(turn);
    engine->arrivals = turn->slice->arrivals;
    leases_commit(turn);
    tokens_follow(turn);
    if (turn->n_site) atomic_fetch_add(&engine->site_version, 1); /* whoever read them before the commit reads them again */
    duties_commit(turn);
    expiry_commit(turn);
    seals_follow(turn);
    polls_commit(turn);
}

static void turn_count(struct turn *turn)
{
    struct engine *engine = turn->engine;
    atomic_fetch_add(&engine->n_commits, 1);
    atomic_fetch_add(&engine->n_events, turn->slice->n_events);
    atomic_fetch_add(&engine->n_granted, turn->n_granted);
    atomic_fetch_add(&engine->n_finished, turn->n_finished);
    atomic_fetch_add(&engine->n_lost, turn->n_lost);
    atomic_fetch_add(&engine->n_narrow, turn->narrow);
    prune_follow(turn);
    for (size_t i = 0; i < turn->n_sealed && engine->config.logs; i++)
        logs_seal(engine->config.logs, turn->sealed[i].task, turn->sealed[i].grant);
}

/* Another server may have revoked the token since this one looked at it. */
static bool token_refused(struct turn *turn, struct command *command)
{
    const struct engine *engine = turn->engine;
    if (!command->token || engine->store->exclusive || PLANT(revoked_trusted)) return false;
    if (map_find(&engine->tokens.by_id, (uint64_t)command->token)) return false;
    return !turn_refuse(turn, command, ERR_unauthorized, "this needs a valid token: Authorization: Bearer TOKEN");
}

/* --- one turn ------------------------------------------------------------------------------------------------------------------------ */

/* Applies commands and what is due, decides, writes. False: nothing was changed, err says why. */
static bool turn_run(struct turn *turn, struct command **commands, size_t *n_commands, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    size_t n = *n_commands;
    engine->narrow = turn->narrow ? turn : NULL;
    engine->turn = turn;
    needs_expect(turn, commands, n);
    int64_t before = clock_boot_us();
    if (!store->ops->begin(store, err)) return false;
    turn->begun = true;
    atomic_fetch_add(&engine->begin_us, (uint64_t)(clock_boot_us() - before));
    if (!others_follow(turn, err)) {
        store->ops->rollback(store);
        return false;
    }
    if (engine->gathers && !turn->narrow) { /* what came while others had the lock */
        *n_commands = thread_gather(engine, commands, n);
        if (*n_commands > n) needs_expect(turn, commands + n, *n_commands - n);
        n = *n_commands;
        engine->gathers = false;
    }
    if (turn->narrow && (!commands_are_narrow(commands, n) || something_due(engine, turn->wall, turn->boot))) turn_widen(turn);
    if (engine->cancels_left && !turn->narrow) endings_tell(turn);
    if (!turn->narrow) leases_expire(turn);
    executors_watch(turn);
    if (!turn->narrow) {
        holds_lift(turn);
        schedules_fire(turn);
        revisions_left(turn);
        slots_admit(turn);
    }
    for (size_t i = 0; i < n && !turn->slice->failed; i++) {
        struct command *command = commands[i];
        struct arena *items = command->arena;
        command->err = (struct err){ .arena = items };
        command->answered = false;
        ASSERT(command->kind > 0 && command->kind < CMD_KIND_COUNT);
        if (!duty_refused(turn, command) && !token_refused(turn, command)) apply[command->kind](turn, command);
        slice_settle(turn->slice);
        if (command->kind != CMD_POLL || command->err.code) turn_answer(turn, command);
    }
    if (!turn->narrow) {
        duties_run(turn);
        archives_removing(turn);
        lanes_resume(turn);
        served_run(turn);
        tells_run(turn);
    }
    claims_run(turn);
    polls_settle(turn);
    for (size_t i = 0; i < n && !turn->slice->failed; i++)
        if (commands[i]->kind == CMD_ENQUEUE && !commands[i]->err.code) enqueue_fill(turn, commands[i]);
    expiry_run(turn);
    slots_clear(turn);
    seals_note(turn);
    if (turn->slice->failed || !turn_commit(turn, err)) {
        store->ops->rollback(store);
        return false;
    }
    caches_follow(turn);
    turn_count(turn);
    /* It is committed, and answered so, whatever can't be read now: the next turn begins with reading everything anew. */
    struct err unread = { 0 };
    if (!holds_next(turn, &unread) || (turn->schedules_changed && !schedules_load(engine, &unread))) {
        engine->stale = true;
        engine->next_time = 0;
    }
    return true;
}

/* Lanes that were resumed but whose tasks have not all been returned. */
static bool resuming_load(struct engine *engine, struct err *err)
{
    bool ok = true;
    engine->n_resuming = 0;
    MAP_EACH(&engine->lanes, e) {
        const struct lane *lane = e->value;
        struct hold *holds;
        size_t n = 0;
        if (!ok || lane->paused_since) continue;
        ok = engine->store->ops->holds_of(engine->store, &engine->turn_arena, HOLD_pause, lane->id, 1, &holds, &n, err);
        if (n) *ARENA_PUSH(&engine->arena, engine->resuming, engine->n_resuming, engine->cap_resuming) = lane->id;
    }
    return ok;
}

bool engine_anew(struct engine *engine, int64_t boot, struct err *err)
{
    pthread_mutex_lock(&engine->heard_lock);
    MAP_EACH(&engine->executors, e) ((struct known_executor *)e->value)->lives = (struct list){ 0 };
    pthread_mutex_unlock(&engine->heard_lock);
    MAP_EACH(&engine->lives, e) {
        heap_take(&engine->deadlines, &((struct live *)e->value)->deadline);
        mem_free(e->value);
    }
    map_clear(&engine->lives);
    caches_drop(engine);
    if (!caches_load(engine, err) || !resuming_load(engine, err) || !leases_load(engine, boot, err) || !tokens_load(engine, err))
        return false;
    engine->next_time = 0; /* look again */
    engine->offset = engine->schedules_offset = OFFSET_UNKNOWN;
    engine->claims_left = true;
    archive_news_add(engine, 0);
    return true;
}

/* The turn came to nothing: what it had put into the caches is forgotten, polls stand as they stood. */
static bool engine_recover(struct engine *engine, struct command **commands, size_t n, int64_t boot, struct err *err)
{
    commands_undo(engine, commands, n);
    caches_drop(engine);
    if (!caches_load(engine, err) || !resuming_load(engine, err)) return false;
    engine->stale = !engine->store->exclusive; /* what others did meanwhile to leases isn't in the caches */
    leases_watch_anew(engine, boot);
    leases_count(engine);
    engine->next_time = 0; /* look again */
    engine->offset = engine->schedules_offset = OFFSET_UNKNOWN;
    engine->claims_left = true;
    return true;
}

static void answers_take(struct turn *turn, struct list *out)
{
    for (size_t i = 0; i < turn->n_answered; i++) {
        struct command *command = turn->answered[i];
        if (command->kind == CMD_POLL) {
            command->out.poll.head_seq = turn->engine->head.seq;
            command->out.poll.incarnation = turn->engine->head.incarnation;
        }
        list_append(out, &turn->answered[i]->node);
    }
}

static void answer_all(struct command **commands, size_t n, enum err_code code, const char *text, struct list *out)
{
    for (size_t i = 0; i < n; i++) {
        err_set(&commands[i]->err, code, "%s", text);
        list_append(out, &commands[i]->node);
    }
}

/* *out_again: it was narrow, and has to be taken once more, wide. */
static bool run_as(struct engine *engine, struct command **commands, size_t *n, int64_t wall, int64_t boot, bool narrow, bool *out_again,
    struct list *out, struct err *err)
{
    struct turn turn;
    turn_open(&turn, engine, wall, boot, err);
    turn.narrow = narrow;
    bool ok = turn_run(&turn, commands, n, err);
    engine->narrow = engine->turn = NULL;
    if (ok) answers_take(&turn, out);
    *out_again = !ok && narrow && (turn.widened || err->code == ERR_conflict || err->code == ERR_internal);
    if (*out_again) narrow_undo(&turn, commands, *n);
    else if (!ok && !PLANT(numbers_kept))
        engine->own = (struct numbers){ 0 }; /* some of them may be in use: it isn't known what became of the turn */
    turn_close(&turn);
    return ok;
}

static bool run_once(
    struct engine *engine, struct command **commands, size_t *n, int64_t wall, int64_t boot, struct list *out, struct err *err)
{
    bool narrow = turn_can_be_narrow(engine, commands, *n, wall, boot), again = false;
    int64_t before = clock_boot_ms();
    bool ok = run_as(engine, commands, n, wall, boot, narrow, &again, out, err);
    turn_noted(engine, commands, *n, boot);
    if (!again) return ok;
    if (err->code == ERR_conflict && clock_boot_ms() - before > WAITED_MS) return false; /* a wide one would wait as long again */
    *err = (struct err){ .arena = err->arena };
    engine->gathers = false;
    atomic_fetch_add(&engine->n_widened, 1);
    return run_as(engine, commands, n, wall, boot, false, &again, out, err);
}

/* A shared store was lost in the middle of a turn: nothing of it was recorded, or the store would have said 'unknown'. */
static void store_lost(struct engine *engine, struct command **commands, size_t n)
{
    commands_undo(engine, commands, n);
    engine->stale = true;
    engine->offset = engine->schedules_offset = OFFSET_UNKNOWN; /* looked at again: the turn may have seen that the clock was set */
}

/* A turn failed: the caches are reloaded. Of a shared store the next turn does it, since it may have to wait; of our own, now. */
static bool turn_forget(struct engine *engine, struct command **commands, size_t n, int64_t boot, struct err *err)
{
    if (engine->store->exclusive) return engine_recover(engine, commands, n, boot, err);
    store_lost(engine, commands, n);
    return true;
}

/* A turn that could not be written is tried again: without intake when the disk is full, else one command at a time so that only the one at
 * fault is refused. A shared store that keeps one of them waiting would keep the others waiting, too: they are refused with it. */
static bool run_again(
    struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot, struct list *out, struct err *err)
{
    bool full = err->code == ERR_disk_full;
    if (full && engine->store->exclusive) space_ran_out(&engine->space);
    else if (full) space_ran_out_away(&engine->space, boot);
    if (err->code == ERR_corrupt) health_corrupt(engine, err);
    if (!turn_forget(engine, commands, n, boot, err)) return false;
    for (size_t i = 0; i < n; i++) {
        struct err why = { 0 };
        size_t one = 1;
        if (run_once(engine, &commands[i], &one, wall, boot, out, &why)) continue;
        if (why.code == ERR_outcome_unknown) {
            *err = why;
            answer_all(&commands[i], n - i, ERR_outcome_unknown, why.text, out);
            return false;
        }
        if (!turn_forget(engine, commands, n, boot, err)) {
            answer_all(&commands[i], n - i, ERR_outcome_unknown, why.text, out);
            return false;
        }
        if (why.code == ERR_corrupt) health_corrupt(engine, &why);
        bool waits = !engine->store->exclusive && (why.code == ERR_unavailable || why.code == ERR_conflict);
        bool later = why.code == ERR_disk_full || why.code == ERR_unavailable || waits;
        answer_all(&commands[i], waits ? n - i : 1, waits ? ERR_unavailable : later ? why.code : ERR_internal, why.text, out);
        if (waits) break;
    }
    return true;
}

static int64_t next_turn(struct engine *engine, int64_t wall, int64_t boot)
{
    int64_t next = polls_deadline(engine);
    struct heap_node *first = heap_first(&engine->deadlines);
    if (first && first->key < next) next = first->key;
    if (engine->n_resuming || engine->claims_left || engine->n_removing || engine->archives_left || engine->slots_left.n) next = boot;
    if (served_due(engine) || engine->tells_due || engine->beats_due) next = boot;
    if (engine->taken.commit != engine->head.commit) next = boot; /* others committed beside the last turn */
    if (schedules_due(engine, wall, boot)) next = boot;
    if (silence_next(engine) < next) next = silence_next(engine);
    if (duties_next(engine) < next) next = duties_next(engine);
    if (expiry_next(engine) < next) next = expiry_next(engine);
    if (seals_next(engine) < next) next = seals_next(engine);
    int64_t due = coord_holds(engine->coord, DUTY_schedules) ? schedules_next(engine) : INT64_MAX;
    if (coord_holds(engine->coord, DUTY_timers) && engine->next_time < due) due = engine->next_time;
    if (engine->space.full && boot + SPACE_LOOK_MS < next) next = boot + SPACE_LOOK_MS; /* intake opens by itself */
    if (due != INT64_MAX) {
        int64_t in = due - wall;
        if (in < 0) in = 0;
        if (in > 60000) in = 60000; /* the wall clock may be set */
        if (boot + in < next) next = boot + in;
    }
    return next;
}

/* The first try failed. When the store was lost, once more: it comes back, or another server does the work. A commit of unknown outcome
 * isn't the end of the process: everything is read anew, and what was recorded is seen then. A turn that waited too long for a lock (of a
 * table: somebody works on it) isn't tried again: its commands are told at once. *out_trouble: what became of it is the store's fault. */
static bool shared_again(struct engine *engine, struct command **commands, size_t *n, int64_t wall, int64_t boot, struct list *out,
    enum engine_health *out_trouble, struct err *err)
{
    bool ok = false;
    if (err->code == ERR_unavailable) {
        store_lost(engine, commands, *n);
        *err = (struct err){ .code = ERR_none };
        ok = run_once(engine, commands, n, wall, boot, out, err);
    }
    bool waited = !ok && err->code == ERR_conflict, unknown = !ok && err->code == ERR_outcome_unknown;
    if (ok || !(waited || unknown || err->code == ERR_unavailable)) return ok;
    *out_trouble = waited ? ENGINE_STORE_LOCKED : ENGINE_STORE_AWAY;
    store_lost(engine, commands, *n);
    if (unknown) answer_all(commands, *n, ERR_outcome_unknown, err->text, out);
    else if (waited) answer_all(commands, *n, ERR_unavailable, "a lock in the database holds up every turn; nothing was recorded", out);
    else answer_all(commands, *n, ERR_unavailable, "the database can't be reached; nothing was recorded", out);
    return true;
}

/* A turn met a lock, this one didn't: it may have written nothing that the lock is on. */
static bool lock_gone(const struct engine *engine, size_t n, int64_t boot)
{
    const struct store_ops *ops = engine->store->ops;
    return ops->writable ? ops->writable(engine->store) : (n && engine->wrote) || boot - engine->health.locked > LOCKED_MS;
}

/* What the turn says of the store. again: its first try failed; why: in the store's words. */
static void turn_judge(
    struct engine *engine, bool ok, bool again, size_t n, int64_t boot, enum engine_health trouble, const struct err *why)
{
    struct health *health = &engine->health;
    if (trouble == ENGINE_STORE_LOCKED) health->locked = boot;
    else if (health->locked && lock_gone(engine, n, boot)) health->locked = 0;
    bool refused = why->code != ERR_disk_full && why->code != ERR_corrupt && why->code != ERR_unavailable;
    bool failed = ok && again && trouble == ENGINE_OK && !engine->wrote && refused;
    bool failing = health_turn(health, failed, n == 0, engine->wrote, boot);
    if (failed) atomic_fetch_add(&engine->n_failed_turns, 1);
    enum engine_health state = !ok ? ENGINE_FAILED : trouble ? trouble : engine->space.full ? ENGINE_DISK_FULL : ENGINE_OK;
    if (state == ENGINE_OK && failing) state = ENGINE_TURNS_FAIL;
    if (state == ENGINE_OK && health->locked) state = ENGINE_STORE_LOCKED;
    health_set(engine, state, ok && !failed && !trouble ? "" : why->text);
}

/* While the loop stands still nobody can be heard, so nobody is late. */
static void hearing_look(struct engine *engine, int64_t boot)
{
    const struct heap_node *first = heap_first(&engine->deadlines);
    bool due = (first && first->key <= boot) || silence_next(engine) <= boot;
    enum hearing hears = thread_hears(engine, boot, due);
    engine->deaf = hears != HEARS;
    if (hears == HEARS_NOTHING) leases_keep(engine, boot);
}

bool engine_turn(struct engine *engine, struct command **commands, size_t n, int64_t wall, int64_t boot, struct list *out_answered,
    int64_t *out_next, struct err *err)
{
    int64_t before = clock_boot_us();
    struct err first = { 0 };
    enum engine_health trouble = ENGINE_OK;
    /* This process was stopped or starved: nobody could have been heard, so nobody is late. */
    if (boot - engine->wanted > engine->config.lease_ms / 3 && engine->wanted != INT64_MAX && !PLANT(no_new_watch))
        leases_watch_anew(engine, boot);
    hearing_look(engine, boot);
    health_clock(&engine->health, wall, boot);
    space_look(&engine->space, boot);
    /* Alone there is no wait: what comes now makes the next turn meanwhile. */
    engine->gathers = engine->thread && commands && engine->others_about;
    engine->wrote = false;
    bool ok = run_once(engine, commands, &n, wall, boot, out_answered, err), again = !ok;
    if (!ok && !engine->store->exclusive) ok = shared_again(engine, commands, &n, wall, boot, out_answered, &trouble, err);
    first = *err;
    if (!ok && err->code != ERR_outcome_unknown) {
        ok = run_again(engine, commands, n, wall, boot, out_answered, err);
    } else if (!ok) {
        answer_all(commands, n, ERR_outcome_unknown, err->text, out_answered);
    }
    *out_next = next_turn(engine, wall, boot);
    int64_t pause = engine_damaged(engine) ? DAMAGED_AGAIN_MS : TRY_AGAIN_MS; /* what failed now will fail at once again */
    if (again && *out_next < boot + pause) *out_next = boot + pause;
    if (engine->deaf && !engine->on_loop && *out_next < boot + HEAR_AGAIN_MS) /* else turns of the loop would put it off for ever */
        *out_next = boot + HEAR_AGAIN_MS;
    engine->wanted = *out_next > boot ? *out_next : boot;
    turn_judge(engine, ok, again, n, boot, trouble, ok ? &first : err);
    if ((engine->health.failing_since || engine->health.locked) && *out_next > boot + FAILING_AGAIN_MS) *out_next = boot + FAILING_AGAIN_MS;
    if (ok) *err = (struct err){ .code = ERR_none };
    atomic_fetch_add(&engine->n_turns, 1);
    atomic_fetch_add(&engine->n_commands, n);
    atomic_fetch_add(&engine->turn_us, (uint64_t)(clock_boot_us() - before));
    return ok;
}

/* --- life ---------------------------------------------------------------------------------------------------------------------------- */

/* Semaphores of the configuration; parked tasks of lanes that were resumed. */
static bool start_turn(struct engine *engine, int64_t wall, int64_t boot, struct err *err)
{
    struct turn turn;
    turn_open(&turn, engine, wall, boot, err);
    bool ok = engine->store->ops->begin(engine->store, err) && others_follow(&turn, err);
    engine->beside = ok && duties_elsewhere(engine);
    if (ok) site_start(&turn);
    if (ok) clock_tick(&turn);
    slice_event(turn.slice, &(struct event){ .kind = EVENT_started, .subject = engine->config.server_name, .actor = STR("engine") });
    slots_admit(&turn);
    slice_settle(turn.slice);
    if (ok && (turn.slice->failed || !turn_commit(&turn, err))) {
        engine->store->ops->rollback(engine->store);
        ok = false;
    }
    if (ok) caches_follow(&turn);
    turn_close(&turn);
    return ok && resuming_load(engine, err);
}

/* A crash between a commit and the sealing of its logs leaves them open: those that nobody will add to any more are sealed now. */
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
    if (known && found) known = ops->load_attempt(engine->store, id, grant, &attempt, &stored, &ignored);
    bool over = !found || task.grant > grant || (stored && attempt.finished > 0 && attempt.outcome != OUTCOME_lost);
    int64_t size = 0, ends = stored ? attempt.log_bytes : 0;
    bool whole = ends <= 0 || !logs_size(engine->config.logs, id, grant, &size, &ignored) || size >= ends;
    if (known && over && whole) logs_seal(engine->config.logs, id, grant);
    else if (known && over) logs_expect(engine->config.logs, id, grant, ends); /* its executor has the rest */
    arena_release(&scratch);
}

struct engine *engine_new(const struct engine_config *config, int64_t wall, int64_t boot, struct err *err)
{
    struct engine *engine = mem_alloc(sizeof *engine);
    *engine = (struct engine){ .config = *config,
        .store = config->store,
        .server = { .name = config->server_name,
            .instance = config->server_instance,
            .host = config->server_host,
            .version = config->server_version,
            .address = config->server_address,
            .started = wall },
        .wanted = boot,
        .boot = boot,
        .began = boot,
        .offset = OFFSET_UNKNOWN,
        .schedules_offset = OFFSET_UNKNOWN };
    if (engine->config.lease_ms <= 0) engine->config.lease_ms = 15000;
    engine->batch = config->batch ? config->batch : BATCH;
    engine->many = config->many ? config->many : GRANTS_MANY;
    pthread_mutex_init(&engine->heard_lock, NULL);
    tokens_open(engine);
    health_open(&engine->health);
    engine->rows = caches_rows(engine);
    atomic_store(&engine->seals_due, INT64_MAX);
    space_open(&engine->space, config->data_dir);
    bool ok = duties_open(engine, err) && caches_load(engine, err) && leases_load(engine, boot, err) && tokens_load(engine, err) &&
              wall_load(engine, boot, err) && start_turn(engine, wall, boot, err);
    if (!ok) {
        engine_free(engine);
        return NULL;
    }
    if (engine->config.logs) logs_each_open(engine->config.logs, log_seal_left, engine);
    seals_listen(engine, true);
    return engine;
}

void engine_free(struct engine *engine)
{
    if (!engine) return;
    engine_stop(engine);
    seals_listen(engine, false);
    coord_close(engine->coord);
    engine_thread_free(engine);
    heap_release(&engine->deadlines);
    heap_release(&engine->silences);
    mem_free(engine->polls_due.nodes); /* without a look at the polls: their owners may have gone first */
    MAP_EACH(&engine->lives, e) mem_free(e->value);
    cache_slots_drop(engine);
    cache_classes_drop(engine);
    MAP_EACH(&engine->executors, e) {
        struct known_executor *known = e->value;
        mem_free(known->fits);
        mem_free(known->texts);
        mem_free(known);
    }
    crews_free(engine);
    caches_texts_free(engine);
    mem_free(engine->texts_old);
    struct map *maps[] = { &engine->lanes, &engine->classes, &engine->slots, &engine->executors, &engine->specs, &engine->lives,
        &engine->slots_open, &engine->slots_left, &engine->slots_empty, &engine->classes_waking };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) map_release(maps[i]);
    struct smap *smaps[] = { &engine->lane_names, &engine->class_keys, &engine->slot_names, &engine->executor_names, &engine->spec_texts,
        &engine->tenants };
    for (size_t i = 0; i < sizeof smaps / sizeof *smaps; i++) smap_release(smaps[i]);
    archives_drop(engine);
    schedules_drop(engine);
    map_release(&engine->archives);
    map_release(&engine->definitions);
    arena_release(&engine->schedule_arena);
    arena_release(&engine->site_arena);
    arena_release(&engine->file_arena);
    slice_release(&engine->slice);
    mem_free(engine->recent);
    mem_free(engine->serving);
    mem_free(engine->indexes);
    arena_release(&engine->arena);
    arena_release(&engine->cache_arena);
    arena_release(&engine->spec_arena);
    tokens_release(engine);
    arena_release(&engine->turn_arena);
    health_release(&engine->health);
    pthread_mutex_destroy(&engine->heard_lock);
    mem_free(engine);
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
    *out = (struct engine_counters){ .turns = atomic_load(&engine->n_turns), .commands = atomic_load(&engine->n_commands),
                                     .commits = atomic_load(&engine->n_commits), .events = atomic_load(&engine->n_events),
                                     .granted = atomic_load(&engine->n_granted), .finished = atomic_load(&engine->n_finished),
                                     .lost = atomic_load(&engine->n_lost), .turn_us = atomic_load(&engine->turn_us),
                                     .commit_us = atomic_load(&engine->commit_us), .begin_us = atomic_load(&engine->begin_us),
                                     .failed_turns = atomic_load(&engine->n_failed_turns),
                                     .narrow = atomic_load(&engine->n_narrow), .widened = atomic_load(&engine->n_widened) };
}

int64_t executor_silent_ms(const struct engine *engine)
{
    return engine->config.lease_ms / 3 + 3000;
}

/* heard_lock is held */
static struct executor_live executor_live(const struct engine *engine, const struct known_executor *known, int64_t now)
{
    int64_t silent = executor_silent_ms(engine), ago = known->heard ? now - known->heard : -1;
    bool believed = ago < 0 && engine->beside && known->row.state != EXECUTOR_LOST && now - engine->began <= silent;
    int64_t spare = known->row.slots - known->running; /* of a shared store: what every server knows, whichever it polls */
    return (struct executor_live){
        .id = known->row.id, .live = (ago >= 0 && ago <= silent) || believed, .heard_ago_ms = ago, .running = known->running,
        .free = engine->store->exclusive ? known->free : spare > 0 ? spare : 0,
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
    pthread_mutex_lock(&engine->heard_lock);
    *out = ARENA_ARRAY(arena, struct executor_live, engine->executors.n + 1);
    MAP_EACH(&engine->executors, e) {
        (*out)[n++] = executor_live(engine, e->value, now);
        sorted &= n < 2 || (*out)[n - 2].id < (*out)[n - 1].id;
    }
    pthread_mutex_unlock(&engine->heard_lock);
    if (!sorted) qsort(*out, n, sizeof **out, by_id);
    return n;
}

bool engine_executor(struct engine *engine, int64_t id, struct executor_live *out)
{
    pthread_mutex_lock(&engine->heard_lock);
    const struct known_executor *known = map_find(&engine->executors, (uint64_t)id);
    if (known) *out = executor_live(engine, known, clock_boot_ms());
    pthread_mutex_unlock(&engine->heard_lock);
    return known != NULL;
}

int64_t engine_executor_named(struct engine *engine, struct arena *arena, struct str tenant, struct str name)
{
    pthread_mutex_lock(&engine->heard_lock);
    const struct known_executor *known = executor_named(engine, arena, tenant, name);
    int64_t id = known ? known->row.id : 0;
    pthread_mutex_unlock(&engine->heard_lock);
    return id;
}

bool engine_jobs_run(struct engine *engine)
{
    return atomic_load(&engine->n_running) > 0;
}
