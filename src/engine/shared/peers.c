/* peers: what other servers on the same store have committed. A turn on a shared store first takes the store's lock,
 * alone or shared (narrow.c), then takes over what peers committed since this server's last turn: rows of the small
 * tables, and from the events which tasks were granted, have ended or are to end. So each turn decides on the present
 * state, whichever server takes it.
 *
 * Before it begins, a turn names the rows that it will read (needs_expect), so that they arrive together with the lock
 * instead of one by one while it is held.
 *
 * Leases across servers depend on each executor's row. The server that the executor polls writes the row once a second
 * (the beat). A server that sees no beat for the length of a lease, by its own clock, may mark the executor lost. */
#include <string.h>

#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/tokens.h"
#include "engine/waiters.h"

enum {
    HEARD_MS = 200,    /* an executor's row changes with each finish; leases are renewed by it at most this often */
    NEEDS_MAX = 10000, /* finishes whose rows are read ahead */
    ABOUT_MS = 10000,  /* after so long without a peer's commit, no peer is assumed to be there */
    AHEAD_MS = 5000,   /* a peer's clock that is further ahead was set wrong */
};

bool peers_are_about(const struct engine *engine, int64_t boot)
{
    return engine->shared->peers_seen && boot - engine->shared->peers_seen <= ABOUT_MS;
}

/* --- taking over what peers committed --- */

static void executor_heard(struct engine *engine, struct known_executor *known, int64_t boot)
{
    guard_enter(engine, GUARD_heard);
    known->heard = boot;
    crew_heard(known);
    guard_leave(engine, GUARD_heard);
    known->told = boot;
    for (struct list_node *at = known->active_grants.first; at; at = at->next) {
        struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
        lease_renew(engine, live, boot);
    }
}

/* The executor that was granted the task. An event has only its name; if both the tenant and the site have an executor
 * of that name, the attempt's row decides. */
static const struct known_executor *granted_to(struct turn *turn, const struct event *event)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    const struct lane *lane = map_find(&engine->cache->lanes, (uint64_t)event->lane + 1);
    const struct known_executor *shared = smap_find(&engine->cache->executor_names, event->actor), *own = NULL;
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
    active_grant_forget_any(engine, event->task);
    guard_enter(engine, GUARD_heard);
    active_grant_put(engine, &attempt, turn->boot)->unread = true;
    active_grant_count(engine, &attempt, 1);
    guard_leave(engine, GUARD_heard);
}

/* A peer rewrote the grants of an executor that may have forgotten its jobs (memory_lost): our copies are outdated, and
 * each row is read when it is needed. */
static void grants_unread(const struct known_executor *known)
{
    for (struct list_node *at = known ? known->active_grants.first : NULL; at; at = at->next)
        CONTAINER_OF(at, struct active_grant, executor_link)->unread = true;
}

/* The executor of an event: NAME, or TENANT/NAME. */
static const struct known_executor *executor_told(struct engine *engine, struct str subject)
{
    return smap_find(&engine->cache->executor_names, subject);
}

static void event_follow(
    struct turn *turn, const struct event *event, bool *out_tokens, bool *out_schedules, bool *out_site)
{
    struct engine *engine = turn->engine;
    struct active_grant *live = event->task ? map_find(&engine->grants->active, (uint64_t)event->task) : NULL;
    /* a concurrent turn committed it before we granted the task again */
    bool passed = live && live->attempt.grant > event->grant;
    bool move = event->kind == EVENT_move && !passed;
    if (PLANT(grants_unfollowed))
        move = move && event->to != STATE_X;
    if (move && event->to == STATE_X)
        granted_elsewhere(turn, event);
    else if (move && event->from == STATE_X)
        active_grant_forget_any(engine, event->task);
    else if (event->kind == EVENT_ending && live && !passed) {
        struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)live->attempt.executor);
        live->ending = event->to;
        if (known && known->parked)
            poll_cancel(turn, known->parked, &live->attempt, event->to);
        engine->shared->cancels_left |= turn->narrow.is; /* until this turn commits (narrow_committed): it may fail */
    }
    if (event->kind == EVENT_executor)
        grants_unread(executor_told(engine, event->subject));
    if (event->kind == EVENT_incarnation)
        MAP_EACH (&engine->cache->executors, e)
            grants_unread(e->value);
    if (event->kind == EVENT_resume) /* a peer resumed one batch; this server may go on with the rest */
        *ARRAY_ADD(&engine->arena, engine->backlog->resuming) = event->lane;
    engine->shared->went_back |= event->kind == EVENT_incarnation;
    bool freed = event->from == STATE_X && engine->cache->applies; /* a target may be free */
    engine->polls->left |= (event->kind == EVENT_move && (event->to == STATE_P || freed)) ||
                           event->kind == EVENT_resume ||
                           /* the executor's poll may be parked at this server */
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
    engine->shared->cancels_left = false;
    MAP_EACH (&engine->grants->active, e) {
        struct active_grant *live = e->value;
        struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)live->attempt.executor);
        if (live->ending != STATE_NONE && known && known->parked)
            poll_cancel(turn, known->parked, &live->attempt, live->ending);
    }
}

/* Reads everything again. A cancel that a peer committed meanwhile must not wait for the executor's next poll. */
static bool anew(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    if (!engine_anew(engine, turn->boot, err))
        return false;
    engine->shared->peers_seen = turn->boot; /* peers may be there */
    endings_tell(turn);
    return true;
}

/* A peer's clock was far ahead of ours, perhaps for a moment only. Back-offs that it computed are checked again: the
 * larger offset makes holds_lift act as if our own clock had been set back. */
static void clock_follow(struct turn *turn, const struct others *others)
{
    int64_t *offset = &turn->engine->backlog->clock_offset, latest = 0;
    for (size_t i = 0; i < others->n_events; i++)
        if (others->events[i].time > latest)
            latest = others->events[i].time;
    if (latest - turn->wall > AHEAD_MS && latest - turn->boot > *offset)
        *offset = latest - turn->boot;
}

static bool peers_take(struct turn *turn, const struct store_head *head, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    struct others others = { 0 };
    bool tokens = false, site = false;
    if (!store->ops->shared->load_others(store, turn->arena, &engine->shared->taken, &others, err))
        return false;
    bool schedules = others.n_archives > 0; /* one of them may have a newer workflow */
    if (others.too_far && turn->narrow.is)
        return turn_widen(turn), false;
    if (others.too_far)
        return anew(turn, err) && duties_load(turn, err);
    int64_t own = engine->shared->own_seq, classes = head->next_class - engine->shared->taken.next_class;
    engine->head = engine->shared->taken = *head;
    clock_follow(turn, &others);
    engine->shared->own_seq = 0;
    engine->cache->recent_since++; /* any task may have changed */
    if (PLANT(recent_kept))
        engine->cache->recent_since--;
    caches_refresh(engine, &others);
    bool gone = (int64_t)others.n_classes != classes; /* classes were removed: expiry.c skips a number to signal it */
    if (gone && !caches_classes_again(engine, err))
        return false;
    for (size_t i = 0; i < others.n_executors; i++) {
        struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)others.executors[i]->id);
        bool news = known && (!known->told || turn->boot - known->told >= HEARD_MS);
        if (PLANT(beats_unheard))
            news = false;
        if (news)
            executor_heard(engine, known, turn->boot);
        if (known)
            silence_watch(engine, known);
    }
    if (PLANT(events_unfollowed))
        others.n_events = 0;
    for (size_t i = 0; i < others.n_events; i++) {
        const struct event *event = &others.events[i];
        bool ours = own && event->seq <= own && event->seq > own - engine->shared->own_events;
        ours &= event->kind != EVENT_ending; /* its task may have been granted by a peer, in an event just before */
        /* later events are followed by the next turn */
        if (!ours && event->seq <= head->seq)
            event_follow(turn, event, &tokens, &schedules, &site);
    }
    coord_rows_read(engine->shared->coord, others.duties, others.n_duties, turn->boot);
    engine->shared->peers_seen = turn->boot;
    engine->backlog->next_time = others.next_time;
    return (!site || tenants_load(engine, err)) && (!tokens || tokens_take(turn, err)) &&
           (!schedules || schedules_load(engine, err)) && !turn->slice->failed;
}

/* Did the store lose commits that this server has seen? That happens when an asynchronous standby is promoted or an
 * older copy is put in place. A smaller head shows it. But a peer that had seen less may have gone on with the older
 * store until its head was as large again; so after a reconnect the history is checked for the last turn that this
 * server saw. */
static bool store_went_elsewhere(
    struct engine *engine, const struct store_head *now, const struct store_head *known, bool *out, struct err *err)
{
    struct store *store = engine->store;
    bool holds = true, same = now->incarnation == known->incarnation;
    *out = same && (now->commit < known->commit || now->seq < known->seq);
    if (!same || *out || !engine->shared->stale || !known->seq || !store->ops->shared->history_holds)
        return true;
    if (!store->ops->shared->history_holds(store, known->seq, known->hash, &holds, err))
        return false;
    *out = !holds;
    return true;
}

bool peers_follow(struct turn *turn, struct err *err)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    struct store_head head, known = engine->head;
    if (store->exclusive && !engine->shared->stale)
        return true;
    engine->shared->stale |= store->reopened != engine->shared->reopened;
    engine->shared->stale |= engine->shared->followed &&
                             turn->boot - engine->shared->followed >= engine->config.lease_ms; /* see slots_clear */
    engine->shared->reopened = store->reopened;
    if (!store->ops->load_head(store, &head, err))
        return false;
    bool older = false;
    if (!store->exclusive && !store_went_elsewhere(engine, &head, &known, &older, err))
        return false;
    bool another = head.incarnation != known.incarnation; /* a peer's, or our own commit whose answer was lost */
    engine->shared->went_back |= another;
    if (PLANT(stale_kept))
        engine->shared->stale = false;
    if (turn->narrow.is && (engine->shared->stale || older || engine->shared->went_back))
        return turn_widen(turn), false;
    /* another incarnation reuses commit numbers that this server may have seen */
    if (engine->shared->stale || older || another) {
        if (!anew(turn, err) || (!store->exclusive && !duties_load(turn, err)))
            return false;
        engine->shared->stale = false;
    } else if ((engine->shared->peers_about = head.commit != engine->shared->taken.commit) &&
               !peers_take(turn, &head, err)) {
        return false;
    } else if (!engine->shared->beaten && !duties_load(turn, err)) {
        return false;
    }
    engine->shared->followed = turn->boot;
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

/* --- rows that a turn will read --- */

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
    const struct active_grant *live = map_find(&engine->grants->active, (uint64_t)item->fence.task);
    /* a peer's commit clears the recent rows */
    bool kept = !engine->shared->peers_about && recent_row(engine, item->fence.task, &row);
    if (!kept)
        tasks[needs->n_tasks++] = item->fence.task;
    if (!kept || row->out > 0)
        preds[needs->n_preds++] = item->fence.task;
    if (!live || live->unread)
        grants[needs->n_grants++] = item->fence.task;
}

/* The lane of the archive that a command names; 0: none. */
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
    return lane && map_find(&turn->engine->cache->archives, (uint64_t)lane->id) ? lane->id : 0;
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

/* How many tasks a command names; a narrow turn locks their rows before it reads them. */
static size_t named_of(const struct command *command)
{
    size_t n = is_order(command);
    for (size_t i = 0; command->kind == CMD_ENQUEUE && i < command->in.enqueue.n_defs; i++)
        n += command->in.enqueue.defs[i].n_refs;
    return n;
}

/* Of a narrow turn: the rows that it locks, and the numbers of the tasks that it will create. */
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
    needs->numbers = turn->narrow.numbers = ARENA_ARRAY(turn->arena, int64_t, needs->n_numbers + 1);
    turn->narrow.n_numbers = needs->n_numbers;
}

/* Only a hint: a row that isn't named is loaded when it is needed. With peers about, what they committed is requested
 * in the same round trip. */
void needs_expect(struct turn *turn, struct command **commands, size_t n)
{
    struct engine *engine = turn->engine;
    struct store *store = engine->store;
    if (!store->ops->shared)
        return;
    size_t n_items = 0, n_named = 0, n_of;
    for (size_t i = 0; i < n; i++) {
        (void)finishes_of(commands[i], &n_of);
        n_items += n_of;
        if (turn->narrow.is)
            n_named += named_of(commands[i]);
    }
    size_t left = n_items < NEEDS_MAX ? n_items : NEEDS_MAX, most = left + (n_named < NEEDS_MAX ? n_named : NEEDS_MAX);
    int64_t *tasks = ARENA_ARRAY(turn->arena, int64_t, most + 1), *preds = ARENA_ARRAY(turn->arena, int64_t, most + 1),
            *grants = ARENA_ARRAY(turn->arena, int64_t, left + 1);
    struct turn_needs needs = {
        .since = turn->begun || !engine->shared->peers_about || engine->shared->stale ? NULL : &engine->shared->taken,
        .narrow = turn->narrow.is,
        .tasks = tasks,
        .preds = preds,
        .grants = grants
    };
    for (size_t i = 0; i < n; i++) {
        const struct finish_item *items = finishes_of(commands[i], &n_of);
        for (size_t k = 0; k < n_of && left > 0; k++, left--)
            finish_need(turn, &items[k], &needs, tasks, preds, grants);
    }
    if (turn->narrow.is)
        narrow_need(turn, commands, n, &needs, tasks, preds, most);
    needs.n_edges = turn_batch(engine) + needs.n_preds * tells_more(engine) + EDGE_KIND_COUNT;
    bool any = needs.n_tasks || needs.n_preds || needs.n_grants || !turn->begun;
    if (any && !store->ops->shared->expect(store, &needs, turn->err))
        turn->slice->failed = true;
}

/* --- changed archives, for src/watch --- */

void archive_news_add(struct engine *engine, int64_t lane)
{
    bool known = false;
    guard_enter(engine, GUARD_heard);
    for (size_t i = 0; i < engine->archive_news.n; i++)
        known |= engine->archive_news.lanes[i] == lane;
    if (lane == 0 || (!known && engine->archive_news.n == ARCHIVE_NEWS_MAX))
        engine->archive_news.all = true;
    else if (!known)
        engine->archive_news.lanes[engine->archive_news.n++] = lane;
    guard_leave(engine, GUARD_heard);
    atomic_fetch_add(&engine->archives_version, 1);
}

size_t engine_archive_news(struct engine *engine, int64_t lanes[ARCHIVE_NEWS_MAX], bool *out_all)
{
    guard_enter(engine, GUARD_heard);
    size_t n = engine->archive_news.n;
    memcpy(lanes, engine->archive_news.lanes, n * sizeof *lanes);
    *out_all = engine->archive_news.all;
    engine->archive_news.n = 0;
    engine->archive_news.all = false;
    guard_leave(engine, GUARD_heard);
    return n;
}

uint64_t engine_archives_version(struct engine *engine)
{
    return atomic_load(&engine->archives_version);
}
