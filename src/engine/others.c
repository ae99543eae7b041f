/* others: several servers on one store. A turn of a shared store begins with the store's lock, alone or shared
 * (narrow.c); what other servers have committed since this one's last turn is then taken over: rows of the small
 * tables, and from the events who was granted what, who ended, who is to end. So every turn decides on the present,
 * wherever it is taken.
 *
 * Before it begins a turn says what it will ask for (needs_expect), so that it comes with the lock instead of one by
 * one under it.
 *
 * Leases across servers hang on each executor's row, which whoever hears the executor writes anew once a second (its
 * beat): a server that sees no beat for a lease, by its own clock, may give the executor up. Duties that one server is
 * enough for are rows too; whose they are is src/coord's to say, and what is done under an epoch that isn't the row's
 * any more is refused by the turn it comes to. */
#include <string.h>

#include "engine/turn.h"
#include "io/clock.h"

enum {
    HEARD_MS = 200,    /* a row that is written with every finish says nothing new so soon */
    NEEDS_MAX = 10000, /* finishes whose rows are asked for ahead */
    ABOUT_MS = 10000,  /* so long without a commit of another server: there is none */
    AHEAD_MS = 5000,   /* clocks of servers don't differ by more */
};

static const char *const duty_names[DUTY_AND_LOCK_COUNT] = {
    [DUTY_timers] = "timers",
    [DUTY_schedules] = "schedules",
    [DUTY_watch] = "watch",
    [DUTY_retention] = "retention",
    [LOCK_config] = "config",
};

bool others_are_about(const struct engine *engine, int64_t boot)
{
    return engine->others_seen && boot - engine->others_seen <= ABOUT_MS;
}

/* --- taking over --- */

static void executor_heard(struct engine *engine, struct known_executor *known, int64_t boot)
{
    pthread_mutex_lock(&engine->heard_lock);
    known->heard = boot;
    crew_heard(known);
    pthread_mutex_unlock(&engine->heard_lock);
    known->told = boot;
    for (struct list_node *at = known->lives.first; at; at = at->next) {
        struct live *live = CONTAINER_OF(at, struct live, mate);
        heap_put(&engine->deadlines, &live->deadline, boot + engine->config.lease_ms);
    }
}

/* Who was granted: the tenant's own executor of that name, or one that serves everybody. Where there are both, the row
 * says which. */
static const struct known_executor *granted_to(struct turn *turn, const struct event *event)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    const struct lane *lane = map_find(&engine->lanes, (uint64_t)event->lane + 1);
    const struct known_executor *shared = smap_find(&engine->executor_names, event->actor), *own = NULL;
    if (lane && !str_eqz(lane->tenant, TENANT_DEFAULT))
        own = executor_named(engine, turn->arena, lane->tenant, event->actor);
    if (!own || !shared)
        return own ? own : shared;
    struct attempt stored;
    bool found = false;
    if (!store->ops->load_attempt(store, event->task, event->grant, &stored, &found, turn->err))
        turn->slice->failed = true;
    return found && stored.executor == own->row.id ? own : shared;
}

static void granted_elsewhere(struct turn *turn, const struct event *event)
{
    struct engine *engine = turn->engine;
    const struct known_executor *known = granted_to(turn, event);
    if (!known)
        return;
    struct attempt attempt = { .task = event->task,
        .number = event->attempt,
        .grant = event->grant,
        .executor = known->row.id,
        .started = event->time,
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1 };
    live_forget_any(engine, event->task);
    pthread_mutex_lock(&engine->heard_lock);
    live_put(engine, &attempt, turn->boot)->unread = true;
    live_count(engine, &attempt, 1);
    pthread_mutex_unlock(&engine->heard_lock);
}

/* Another server wrote its grants anew, as those of who may have forgotten them (memory_lost): their rows are read when
 * asked for. */
static void grants_unread(const struct known_executor *known)
{
    for (struct list_node *at = known ? known->lives.first : NULL; at; at = at->next)
        CONTAINER_OF(at, struct live, mate)->unread = true;
}

/* The executor of an event: NAME, or TENANT/NAME. */
static const struct known_executor *executor_told(struct engine *engine, struct str subject)
{
    return smap_find(&engine->executor_names, subject);
}

static void event_follow(
    struct turn *turn, const struct event *event, bool *out_tokens, bool *out_schedules, bool *out_site)
{
    struct engine *engine = turn->engine;
    struct live *live = event->task ? map_find(&engine->lives, (uint64_t)event->task) : NULL;
    /* it came before a grant of our own, in a turn beside ours */
    bool passed = live && live->attempt.grant > event->grant;
    bool move = event->kind == EVENT_move && !passed;
    if (event->kind == EVENT_move && event->to == STATE_X && PLANT(grants_unfollowed))
        return;
    if (move && event->to == STATE_X)
        granted_elsewhere(turn, event);
    else if (move && event->from == STATE_X)
        live_forget_any(engine, event->task);
    else if (event->kind == EVENT_ending && live && !passed) {
        struct known_executor *known = map_find(&engine->executors, (uint64_t)live->attempt.executor);
        live->ending = event->to;
        if (known && known->parked)
            poll_cancel(turn, known->parked, &live->attempt, event->to);
        engine->cancels_left |= turn->narrow; /* unless its answer is told, see narrow_committed */
    }
    if (event->kind == EVENT_executor)
        grants_unread(executor_told(engine, event->subject));
    if (event->kind == EVENT_incarnation)
        MAP_EACH (&engine->executors, e)
            grants_unread(e->value);
    if (event->kind == EVENT_resume) /* a batch was returned; whoever is there goes on with the rest */
        *ARENA_PUSH(&engine->arena, engine->resuming, engine->n_resuming, engine->cap_resuming) = event->lane;
    engine->went_back |= event->kind == EVENT_incarnation;
    engine->claims_left |= (event->kind == EVENT_move && event->to == STATE_P) || event->kind == EVENT_resume ||
                           /* its poll may wait here */
                           event->kind == EVENT_executor_state || event->kind == EVENT_executor;
    if (event->kind == EVENT_token_revoked)
        token_gone_elsewhere(turn, event->subject);
    *out_tokens |= event->kind == EVENT_token || event->kind == EVENT_token_revoked || event->kind == EVENT_config;
    *out_site |= event->kind == EVENT_config;
    if (event->kind == EVENT_archive || event->kind == EVENT_archive_removed || event->kind == EVENT_revision_skipped)
        archive_news_add(engine, event->lane);
    *out_schedules |= event->kind == EVENT_scheduled;
}

void endings_tell(struct turn *turn)
{
    struct engine *engine = turn->engine;
    engine->cancels_left = false;
    MAP_EACH (&engine->lives, e) {
        struct live *live = e->value;
        struct known_executor *known = map_find(&engine->executors, (uint64_t)live->attempt.executor);
        if (live->ending != STATE_NONE && known && known->parked)
            poll_cancel(turn, known->parked, &live->attempt, live->ending);
    }
}

/* Everything is read again: a cancel among it that another server took must not wait for its executor's next poll. */
static bool anew(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    if (!engine_anew(engine, turn->boot, err))
        return false;
    engine->others_seen = turn->boot; /* they may be there */
    endings_tell(turn);
    return true;
}

/* Whose the duties are now: when this server begins, and after it was away. What it remembers may be long over. */
static bool duties_load(struct turn *turn, struct err *err)
{
    struct store *store = turn->engine->store;
    struct others others = { 0 };
    if (!store->ops->load_others(store, turn->arena, &turn->engine->taken, &others, err))
        return false;
    coord_rows_read(turn->engine->coord, others.duties, others.n_duties, turn->boot);
    return true;
}

/* Another server's clock was far ahead of ours, perhaps for a moment: back-offs that it made are looked at anew
 * (holds_lift, which takes it for ours that was set back). */
static void clock_follow(struct turn *turn, const struct others *others)
{
    int64_t *offset = &turn->engine->offset, latest = 0;
    for (size_t i = 0; i < others->n_events; i++)
        if (others->events[i].time > latest)
            latest = others->events[i].time;
    if (latest - turn->wall > AHEAD_MS && latest - turn->boot > *offset)
        *offset = latest - turn->boot;
}

static bool others_take(struct turn *turn, const struct store_head *head, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    struct others others = { 0 };
    bool tokens = false, site = false;
    if (!store->ops->load_others(store, turn->arena, &engine->taken, &others, err))
        return false;
    bool schedules = others.n_archives > 0; /* a newer workflow, however its revision came to be opened */
    if (others.too_far && turn->narrow)
        return turn_widen(turn), false;
    if (others.too_far)
        return anew(turn, err) && duties_load(turn, err);
    int64_t own = engine->own_seq, classes = head->next_class - engine->taken.next_class;
    engine->head = engine->taken = *head;
    clock_follow(turn, &others);
    engine->own_seq = 0;
    engine->recent_since += !PLANT(recent_kept); /* any task may have changed */
    caches_refresh(engine, &others);
    bool gone = (int64_t)others.n_classes != classes; /* a number was spent on telling that (expiry.c) */
    if (gone && !caches_classes_again(engine, err))
        return false;
    for (size_t i = 0; i < others.n_executors; i++) {
        struct known_executor *known = map_find(&engine->executors, (uint64_t)others.executors[i]->id);
        bool news = known && (!known->told || turn->boot - known->told >= HEARD_MS);
        if (news && !PLANT(beats_unheard))
            executor_heard(engine, known, turn->boot);
        if (known)
            silence_watch(engine, known);
    }
    for (size_t i = 0; i < others.n_events && !PLANT(events_unfollowed); i++) {
        const struct event *event = &others.events[i];
        bool ours = own && event->seq <= own && event->seq > own - engine->own_events;
        ours &= event->kind != EVENT_ending; /* of a grant that we hear of only now, by an event before this one */
        /* what is newer comes next time */
        if (!ours && event->seq <= head->seq)
            event_follow(turn, event, &tokens, &schedules, &site);
    }
    coord_rows_read(engine->coord, others.duties, others.n_duties, turn->boot);
    engine->others_seen = turn->boot;
    engine->next_time = others.next_time;
    return (!site || tenants_load(engine, err)) && (!tokens || tokens_take(turn, err)) &&
           (!schedules || schedules_load(engine, err)) && !turn->slice->failed;
}

/* A standby that wasn't synchronous was promoted, or an older copy put in the store's place: less is there than this
 * server has seen. Or as much again: another server, which has seen less, may have gone on with it before this one was
 * back. So after a new connection the history itself is asked for the turn that this server has seen last. */
static bool store_went_elsewhere(
    struct engine *engine, const struct store_head *now, const struct store_head *known, bool *out, struct err *err)
{
    struct store *store = engine->store;
    bool holds = true, same = now->incarnation == known->incarnation;
    *out = same && (now->commit < known->commit || now->seq < known->seq);
    if (!same || *out || !engine->stale || !known->seq || !store->ops->history_holds)
        return true;
    if (!store->ops->history_holds(store, known->seq, known->hash, &holds, err))
        return false;
    *out = !holds;
    return true;
}

bool others_follow(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    struct store_head head, known = engine->head;
    if (store->exclusive && !engine->stale)
        return true;
    engine->stale |= store->reopened != engine->reopened;
    engine->stale |= engine->followed && turn->boot - engine->followed >= engine->config.lease_ms; /* see slots_clear */
    engine->reopened = store->reopened;
    if (!store->ops->load_head(store, &head, err))
        return false;
    bool older = false;
    if (!store->exclusive && !store_went_elsewhere(engine, &head, &known, &older, err))
        return false;
    bool another = head.incarnation != known.incarnation; /* also by a commit of our own whose outcome wasn't known */
    engine->went_back |= another;
    if (PLANT(stale_kept))
        engine->stale = false;
    if (turn->narrow && (engine->stale || older || engine->went_back))
        return turn_widen(turn), false;
    /* the commits of another incarnation have numbers that this server may have seen before */
    if (engine->stale || older || another) {
        if (!anew(turn, err) || (!store->exclusive && !duties_load(turn, err)))
            return false;
        engine->stale = false;
    } else if ((engine->others_about = head.commit != engine->taken.commit) && !others_take(turn, &head, err)) {
        return false;
    } else if (!engine->beaten && !duties_load(turn, err)) {
        return false;
    }
    engine->followed = turn->boot;
    turn_stand(turn);
    if (older && head.commit >= known.commit && head.seq >= known.seq)
        turn_incarnate(turn, engine->config.server_name,
            str_fmt(turn->arena, "the store went back: its event %lld isn't the one that was committed",
                (long long)known.seq));
    else if (older)
        turn_incarnate(turn, engine->config.server_name,
            str_fmt(turn->arena, "the store went back from commit %lld to %lld", (long long)known.commit,
                (long long)head.commit));
    return true;
}

/* --- what a turn will ask for --- */

static const struct finish_item *finishes_of(const struct command *command, size_t *out_n)
{
    bool finish = command->kind == CMD_FINISH, poll = command->kind == CMD_POLL;
    *out_n = finish ? command->in.finish.n_items : poll ? command->in.poll.n_finishes : 0;
    return finish ? command->in.finish.items : poll ? command->in.poll.finishes : NULL;
}

static void finish_need(struct turn *turn, const struct finish_item *item, struct turn_needs *needs, int64_t *tasks,
    int64_t *preds, int64_t *grants)
{
    struct engine *engine = turn->engine;
    const struct task *row = NULL;
    if (item->malformed)
        return;
    const struct live *live = map_find(&engine->lives, (uint64_t)item->fence.task);
    /* what others commit makes it forgotten */
    bool kept = !engine->others_about && recent_row(engine, item->fence.task, &row);
    if (!kept)
        tasks[needs->n_tasks++] = item->fence.task;
    if (!kept || row->out > 0)
        preds[needs->n_preds++] = item->fence.task;
    if (!live || live->unread)
        grants[needs->n_grants++] = item->fence.task;
}

/* The archive that a command is about, by its lane; 0: none. */
static int64_t archive_of(struct turn *turn, const struct command *command)
{
    struct str name = { 0 };
    if (command->kind == CMD_REVISION || command->kind == CMD_CAUSE)
        name = command->in.revision.archive;
    if (command->kind == CMD_RUN)
        name = command->in.run.archive;
    if (command->kind == CMD_ARCHIVE_SKIP)
        name = command->in.archive.name;
    const struct lane *lane = name.len ? cache_lane_find(turn, command->actor.tenant, name) : NULL;
    return lane && map_find(&turn->engine->archives, (uint64_t)lane->id) ? lane->id : 0;
}

static size_t numbers_of(const struct command *command)
{
    const struct definition *definition = command->kind == CMD_REVISION ? command->in.revision.definition : NULL;
    if (command->kind == CMD_ENQUEUE)
        return command->in.enqueue.n_defs;
    return command->kind != CMD_REVISION ? 0 : 1 + (definition ? definition->workflow.n_tasks : 0);
}

static bool is_order(const struct command *command)
{
    return command->kind == CMD_CANCEL || command->kind == CMD_RETRY || command->kind == CMD_PROMOTE;
}

/* How many tasks it names that a narrow turn locks before it looks at them. */
static size_t named_of(const struct command *command)
{
    size_t n = is_order(command);
    for (size_t i = 0; command->kind == CMD_ENQUEUE && i < command->in.enqueue.n_defs; i++)
        n += command->in.enqueue.defs[i].n_refs;
    return n;
}

/* Of a narrow turn: what it can wait for, and the numbers of the tasks that it will make. */
static void narrow_need(struct turn *turn, struct command **commands, size_t n, struct turn_needs *needs,
    int64_t *tasks, int64_t *preds, size_t most)
{
    int64_t *archives = ARENA_ARRAY(turn->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        const struct command *command = commands[i];
        int64_t archive = archive_of(turn, command);
        if (archive)
            archives[needs->n_archives++] = archive;
        needs->n_numbers += numbers_of(command);
        if (is_order(command) && needs->n_tasks < most)
            tasks[needs->n_tasks++] = preds[needs->n_preds++] = command->in.task.task;
        for (size_t k = 0; command->kind == CMD_ENQUEUE && k < command->in.enqueue.n_defs; k++) {
            const struct task_def *def = &command->in.enqueue.defs[k];
            for (size_t r = 0; r < def->n_refs && needs->n_tasks < most; r++)
                if (def->refs[r].id)
                    tasks[needs->n_tasks++] = def->refs[r].id;
        }
    }
    needs->archives = archives;
    needs->numbers = turn->numbers = ARENA_ARRAY(turn->arena, int64_t, needs->n_numbers + 1);
    turn->n_numbers = needs->n_numbers;
}

/* A hint: what isn't named is loaded one by one. Several servers: what the others did comes too. */
void needs_expect(struct turn *turn, struct command **commands, size_t n)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    if (!store->ops->expect)
        return;
    size_t n_items = 0, n_named = 0, n_of;
    for (size_t i = 0; i < n; i++) {
        (void)finishes_of(commands[i], &n_of);
        n_items += n_of;
        if (turn->narrow)
            n_named += named_of(commands[i]);
    }
    size_t left = n_items < NEEDS_MAX ? n_items : NEEDS_MAX, most = left + (n_named < NEEDS_MAX ? n_named : NEEDS_MAX);
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, most + 1), *preds = ARENA_ARRAY(turn->arena, int64_t, most + 1),
            *grants = ARENA_ARRAY(turn->arena, int64_t, left + 1);
    struct turn_needs needs = { .since = turn->begun || !engine->others_about || engine->stale ? NULL : &engine->taken,
        .narrow = turn->narrow,
        .tasks = tasks,
        .preds = preds,
        .grants = grants };
    for (size_t i = 0; i < n; i++) {
        const struct finish_item *items = finishes_of(commands[i], &n_of);
        for (size_t k = 0; k < n_of && left > 0; k++, left--)
            finish_need(turn, &items[k], &needs, tasks, preds, grants);
    }
    if (turn->narrow)
        narrow_need(turn, commands, n, &needs, tasks, preds, most);
    needs.n_edges = turn_batch(engine) + needs.n_preds * tells_more(engine) + EDGE_KIND_COUNT;
    bool any = needs.n_tasks || needs.n_preds || needs.n_grants || !turn->begun;
    if (any && !store->ops->expect(store, &needs, turn->err))
        turn->slice->failed = true;
}

/* --- beats and duties --- */

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
    bool beats = !engine->beaten || turn->boot - engine->beaten >= COORD_BEAT_MS || engine->coord->leaving;
    struct coord_step *steps = NULL;
    turn->beats = beats && !engine->store->exclusive;
    /* a poll that brings nothing writes nothing: those who were heard go with the server's own beat */
    executors_beat(turn);
    if (engine->store->exclusive || (!beats && turn->boot < coord_next(engine->coord)))
        return;
    turn->server = engine->server;
    turn->server.beat++;
    turn->server.differs = engine_site_differs(engine);
    if (beats)
        slots_sweep(turn);
    size_t n = coord_decide(engine->coord, turn->arena, turn->boot, beats, &steps);
    for (size_t i = 0; i < n; i++) {
        if (steps[i].move != COORD_BEAT && !steps[i].lock)
            duty_say(turn, &steps[i]);
        *ARRAY_ADD(turn->arena, turn->changes.duties) = steps[i].row;
    }
}

bool duties_elsewhere(const struct engine *engine)
{
    for (size_t i = 0; i < DUTY_COUNT && !engine->store->exclusive; i++) {
        struct str holder = engine->coord->rows[i].duty.holder;
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
        engine->beaten = turn->boot;
        engine->server = turn->server;
    }
    if (turn->changes.duties.n == 0)
        return;
    bool timers = coord_holds(engine->coord, DUTY_timers);
    coord_commit(engine->coord, turn->changes.duties.at, turn->changes.duties.n, turn->boot);
    if (timers || !coord_holds(engine->coord, DUTY_timers))
        return;
    engine->tells_due = true;
    /* what the one before has left; back-offs too: the clock may have been set since this server had the duty */
    engine->next_time = 0;
    engine->offset = engine->schedules_offset = OFFSET_UNKNOWN;
}

int64_t duties_next(struct engine *engine)
{
    if (engine->store->exclusive)
        return INT64_MAX;
    int64_t beat = engine->beaten + COORD_BEAT_MS, free = coord_next(engine->coord);
    return free < beat ? free : beat;
}

bool duty_acts(struct turn *turn, enum duty_kind duty)
{
    return coord_holds(turn->engine->coord, duty) || (PLANT(duty_unlooked) && duty == DUTY_schedules);
}

bool duty_refused(struct turn *turn, struct command *command)
{
    const struct coord_row *row = &turn->engine->coord->rows[command->under.duty];
    if (command->under.epoch == 0 || turn->engine->store->exclusive || PLANT(epoch_unchecked))
        return false;
    if (duty_acts(turn, command->under.duty) && (row->duty.epoch == command->under.epoch || PLANT(leader_trusted)))
        return false;
    return !turn_refuse(turn, command, ERR_stale_fence, "another server has the %s '%s' now",
        command->under.duty < DUTY_COUNT ? "duty" : "lock", duty_names[command->under.duty]);
}

/* Under what a server does for all of a shared store. */
struct str duty_text(struct turn *turn, enum duty_kind duty)
{
    const struct engine *engine = turn->engine;
    if (engine->store->exclusive)
        return (struct str){ 0 };
    return str_fmt(turn->arena, "%.*s, epoch %lld", STR_ARG(engine->config.server_name),
        (long long)engine->coord->rows[duty].duty.epoch);
}

void cmd_note(struct turn *turn, struct command *command)
{
    if (turn->engine->store->exclusive)
        return; /* nobody else is there */
    *ARRAY_ADD(turn->arena, turn->changes.notes) = str_dup(turn->arena, command->in.note.text);
    command->status = 202;
}

void archive_news_add(struct engine *engine, int64_t lane)
{
    bool known = false;
    pthread_mutex_lock(&engine->heard_lock);
    for (size_t i = 0; i < engine->archive_news.n; i++)
        known |= engine->archive_news.lanes[i] == lane;
    if (lane == 0 || (!known && engine->archive_news.n == ARCHIVE_NEWS_MAX))
        engine->archive_news.all = true;
    else if (!known)
        engine->archive_news.lanes[engine->archive_news.n++] = lane;
    pthread_mutex_unlock(&engine->heard_lock);
    atomic_fetch_add(&engine->archives_version, 1);
}

size_t engine_archive_news(struct engine *engine, int64_t lanes[ARCHIVE_NEWS_MAX], bool *out_all)
{
    pthread_mutex_lock(&engine->heard_lock);
    size_t n = engine->archive_news.n;
    memcpy(lanes, engine->archive_news.lanes, n * sizeof *lanes);
    *out_all = engine->archive_news.all;
    engine->archive_news.n = 0;
    engine->archive_news.all = false;
    pthread_mutex_unlock(&engine->heard_lock);
    return n;
}

uint64_t engine_archives_version(struct engine *engine)
{
    return atomic_load(&engine->archives_version);
}

bool engine_held(struct engine *engine)
{
    return atomic_load(&engine->held);
}

int64_t engine_duty(struct engine *engine, enum duty_kind duty)
{
    if (engine_held(engine))
        return 0;
    return coord_epoch(engine->coord, duty, clock_boot_ms());
}

bool engine_duty_claimed(struct engine *engine, enum duty_kind duty)
{
    return !engine_held(engine) && coord_claims(engine->coord, duty);
}

const char *engine_duty_name(enum duty_kind duty)
{
    return duty_names[duty];
}

void engine_locks_look(struct engine *engine)
{
    if (coord_locks_grant(engine->coord, clock_boot_ms()))
        engine_wake(engine);
}

void engine_lock(struct engine *engine, enum duty_kind lock, struct coord_waiter *waiter)
{
    coord_lock(engine->coord, lock, waiter);
    engine_locks_look(engine);
}

void engine_unlock(struct engine *engine, struct coord_waiter *waiter)
{
    if (!waiter->asks)
        return;
    coord_unlock(engine->coord, waiter);
    engine_wake(engine);
    engine_locks_look(engine);
}

struct coord *engine_coord(struct engine *engine)
{
    return engine->coord;
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
    engine->coord = coord_open(&config, err);
    return engine->coord != NULL;
}
