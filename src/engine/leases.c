/* leases: active grants, when they were last renewed, and how attempts end.
 *
 * No deadline is stored: a grant lapses when this process's boot-time clock saw no renewal of it for a lease. After a
 * restart, or when this process itself was stopped for long, every lease begins again. */
#include <signal.h>
#include <string.h>

#include "core/changeset.h"
#include "core/hold.h"
#include "core/lease.h"
#include "core/verdict.h"
#include "core/why.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

/* LOST_MAX: attempts of a change set (command/changeset.c). LOOKS_MAX: after so many what nobody could find out is
 * given up. */
enum { LOST_MAX = 3, LOOKS_MAX = 6 };

struct pending_attempt *attempt_change(struct turn *turn, const struct attempt *attempt)
{
    struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)attempt->task);
    if (pending && pending->attempt.grant == attempt->grant) {
        pending->attempt = *attempt;
        return pending;
    }
    struct pending_attempt *before = pending;
    pending = ARENA_NEW(turn->arena, struct pending_attempt);
    *pending = (struct pending_attempt){ .attempt = *attempt, .before = before };
    map_put(&turn->attempts, (uint64_t)attempt->task, pending);
    *ARRAY_ADD(turn->arena, turn->attempt_list) = pending;
    return pending;
}

const struct attempt *active_grant_read(struct turn *turn, struct active_grant *live)
{
    struct store *store = turn->engine->store;
    struct attempt stored;
    bool found = false;
    if (!live->unread)
        return &live->attempt;
    turn_read(
        turn, store->ops->load_attempt(store, live->attempt.task, live->attempt.grant, &stored, &found, turn->err));
    if (found)
        live->attempt = stored;
    live->unread = turn->slice->failed;
    return &live->attempt;
}

/* Marks of this poll (polls.looks) tell which grants it named. */
void active_grants_expect(struct turn *turn, const struct known_executor *known, bool unnamed)
{
    struct store *store = turn->engine->store;
    int64_t *tasks = NULL;
    size_t n = 0, cap = 0;
    for (struct list_node *at = known->active_grants.first; at; at = at->next) {
        const struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
        if (live->unread && (!unnamed || live->look != turn->engine->polls->looks))
            *ARENA_PUSH(turn->arena, tasks, n, cap) = live->attempt.task;
    }
    struct turn_needs needs = { .tasks = tasks, .n_tasks = n, .grants = tasks, .n_grants = n };
    if (n > 1 && store->ops->shared && !store->ops->shared->expect(store, &needs, turn->err))
        turn->slice->failed = true;
}

struct pending_attempt *attempt_find(struct turn *turn, int64_t task, int64_t grant)
{
    for (struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)task); pending;
         pending = pending->before)
        if (pending->attempt.grant == grant)
            return pending->removed ? NULL : pending;
    struct pending_attempt *found = ARENA_NEW(turn->arena, struct pending_attempt);
    struct active_grant *live = map_find(&turn->engine->grants->active, (uint64_t)task);
    const struct node *node = turn->narrow.is ? map_find(&turn->slice->nodes, (uint64_t)task) : NULL;
    /* by a turn of another server beside this one */
    bool ended = node && (node->was != STATE_X || node->row.grant != grant);
    if (live && live->attempt.grant == grant && !ended) {
        found->attempt = *active_grant_read(turn, live);
        return turn->slice->failed ? NULL : found;
    }
    bool stored = false;
    struct store *store = turn->engine->store;
    turn_read(turn, store->ops->load_attempt(store, task, grant, &found->attempt, &stored, turn->err));
    return stored && !turn->slice->failed ? found : NULL;
}

/* Closes the row of an attempt and counts it for its executor. */
static void attempt_close(struct turn *turn, const struct attempt *attempt)
{
    struct pending_attempt *pending = attempt_change(turn, attempt);
    pending->ended = true;
    struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)attempt->executor);
    if (known && attempt->outcome != OUTCOME_lost) {
        static const unsigned others =
            1u << OUTCOME_done | 1u << OUTCOME_skipped | 1u << OUTCOME_cancelled | 1u << OUTCOME_timeout;
        /* a cancelled or timed out task ends in T, not in F */
        bool failed = (others >> attempt->outcome & 1) == 0;
        executor_counted(turn, attempt->executor, failed);
        if (!turn->narrow.is) {
            known->row.processed++;
            known->row.failed += failed;
            turn_executor_changed(turn, known);
        }
    }
    /* the result of a lost one is accepted until the task is granted again */
    if (attempt->outcome != OUTCOME_lost)
        *ARRAY_ADD(turn->arena, turn->sealed) = (struct log_name){ attempt->task, attempt->grant };
}

/* image_failed: the executor reports that the container program itself failed, before there was a container. */
static bool image_failed(struct turn *turn, const struct node *node, const struct attempt *end)
{
    const struct task_class *class_ = map_find(&turn->engine->cache->classes, (uint64_t)node->row.class_id);
    struct task_class gone;
    if (!class_)
        class_ = class_of_key(turn->arena, slice_spec(turn->slice, node)->class_key, &gone);
    return end->outcome == OUTCOME_temporary && end->exit == 125 && class_ && class_->kind == KIND_IMAGE;
}

/* look_end: where a change set that was granted to look is to go. Of one that a rollback stopped, the rollback may have
 * failed since: then it goes on. One that is in quarantine had lost all its attempts before it was granted to look. */
enum task_state look_end(const struct node *node)
{
    unsigned look = node->row.marks & MARK_LOOK;
    bool quarantine = node->row.attempts - node->row.base > LOST_MAX;
    if (look == LOOK_OTHER)
        return hold_has(node, HOLD_rollback) || !quarantine ? STATE_S : STATE_F;
    return look == LOOK_T ? STATE_T : look == LOOK_A ? STATE_A : STATE_NONE;
}

/* Nobody has looked whether the attempt had committed: it died, or was killed as its grace was over, or the repository
 * was away. */
static bool fate_unknown(const struct attempt *end, enum outcome outcome, bool ending)
{
    bool by_order = end->signal == SIGTERM || end->signal == SIGHUP;
    if (outcome == OUTCOME_temporary)
        return ending;
    return outcome == OUTCOME_lost || outcome == OUTCOME_killed ||
           ((outcome == OUTCOME_timeout || outcome == OUTCOME_cancelled) && !by_order);
}

/* changeset_verdict: a change set that is in the repository is done, whatever was ordered meanwhile, and it doesn't end
 * otherwise before somebody has looked; a temporary failure is tried again without a limit, and doesn't count.
 * *ending: where its end leads by order; STATE_NONE: by itself. True: it is granted once more, to look. */
static bool changeset_verdict(struct turn *turn, struct node *node, const struct attempt *end, enum task_state *ending,
    struct verdict *verdict, struct str *out_reason)
{
    const struct changeset *row = changeset_of(turn->slice, node);
    enum outcome outcome = verdict->outcome;
    int64_t attempts = node->row.attempts - node->row.base;
    bool looked_for = (node->row.marks & MARK_LOOK) != 0;
    if (!*ending)
        *ending = look_end(node);
    node->row.marks &= ~(unsigned)MARK_LOOK;
    bool unknown = row && row->base.len && fate_unknown(end, outcome, *ending != STATE_NONE);
    if (row && row->revision.len) {
        *verdict = (struct verdict){ .to = STATE_D, .outcome = OUTCOME_done };
        *ending = STATE_NONE;
        return false;
    }
    if (outcome == OUTCOME_temporary && (!*ending || unknown)) {
        *verdict = (struct verdict){
            .to = STATE_S, .outcome = OUTCOME_temporary, .wait_ms = backoff_ms(0, node->row.attempts)
        };
        node->row.base++;
    }
    bool gone = outcome == OUTCOME_lost || outcome == OUTCOME_killed, over = gone && verdict->to == STATE_F;
    if (!*ending && over)
        *out_reason = str_fmt(turn->arena, "quarantined: %lld attempts of it took their executor or their process down",
            (long long)attempts);
    if (unknown && !*ending && (over || verdict->to == STATE_T))
        *ending = verdict->to;
    if (unknown && *ending && !(looked_for && gone && attempts >= LOOKS_MAX))
        return true;
    if (*ending)
        *verdict = (struct verdict){ .to = *ending, .outcome = *ending == STATE_F ? OUTCOME_lost : OUTCOME_cancelled };
    return false;
}

void attempt_over(struct turn *turn, struct node *node, const struct attempt *attempt, const struct attempt *end,
    struct str reason, const struct because *because)
{
    struct attempt closed = *attempt;
    struct because why = *because;
    const struct spec *spec = slice_spec(turn->slice, node);
    struct attempt_end said = { .exit = end->exit, .signal = end->signal, .outcome = end->outcome };
    struct verdict verdict = verdict_of(&said, spec, node->row.attempts - node->row.base);
    enum task_state ending = node->row.ending;
    if (PLANT(ending_ignored))
        ending = STATE_NONE;
    bool changeset = node->row.marks & MARK_CHANGESET;
    if (ending && !changeset)
        verdict = (struct verdict){ .to = ending, .outcome = OUTCOME_cancelled };
    bool ordered = ending || node->row.marks & MARK_LOOK, look = false;
    if (changeset)
        look = changeset_verdict(turn, node, end, &ending, &verdict, &why.reason);
    closed.finished = turn->slice->stamp;
    closed.exit = end->exit;
    closed.signal = end->signal;
    closed.outcome = verdict.outcome;
    closed.cpu_ms = end->cpu_ms;
    closed.max_rss_bytes = end->max_rss_bytes;
    closed.log_bytes = end->log_bytes;
    memcpy(closed.finish_hash, end->finish_hash, sizeof closed.finish_hash);
    attempt_close(turn, &closed);

    if (ending && ordered) {
        why.reason = node->row.reason;
        why.cause = node->row.cause;
    } else if (!why.reason.len && verdict.outcome != OUTCOME_done) {
        if (image_failed(turn, node, end))
            why.reason = STR("there was no container: its image can't be had, or was refused (see the log)");
        else if (end->signal > 0)
            why.reason =
                str_fmt(turn->arena, "%s (signal %lld)", outcome_name(verdict.outcome), (long long)end->signal);
        else if (end->exit >= 0)
            why.reason = str_fmt(turn->arena, "%s (exit %lld)", outcome_name(verdict.outcome), (long long)end->exit);
        else
            why.reason = str_of(outcome_name(verdict.outcome));
        if (reason.len)
            why.reason = str_fmt(turn->arena, "%.*s: %.*s", STR_ARG(why.reason), STR_ARG(reason));
    } else if (!why.reason.len) {
        why.reason = reason;
    }
    if (look)
        task_look(turn->slice, node, ending, &why);
    else if (verdict.to == STATE_S)
        task_wait(turn->slice, node, turn->wall + verdict.wait_ms, &why);
    else if (verdict.to == STATE_P)
        task_return(turn->slice, node, &why);
    else
        task_end(turn->slice, node, verdict.to, verdict.outcome, &why);
}

void attempt_lost(struct turn *turn, struct node *node, const struct attempt *attempt, const struct because *because)
{
    struct attempt lost = { .exit = -1,
        .signal = -1,
        .outcome = OUTCOME_lost,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = log_lost(turn, node, attempt) };
    turn->n_lost++;
    attempt_over(turn, node, attempt, &lost, (struct str){ 0 }, because);
    kept_add(turn, node, attempt, lost.log_bytes, (struct str){ 0 });
    slice_settle(turn->slice);
}

void lease_renew(struct engine *engine, struct active_grant *live, int64_t boot)
{
    heap_put(&engine->grants->deadlines, &live->deadline, boot + engine->config.lease_ms);
}

/* An attempt that lapses counts: whether its job began can't be known. At most a batch a turn: the next turn follows at
 * once, and a lease that is renewed before it has not lapsed. */
void leases_expire(struct turn *turn)
{
    struct engine *engine = turn->engine;
    struct heap_node *first;
    if (engine->grants->deaf)
        return;
    int64_t now = turn->boot;
    if (PLANT(wall_leases) && engine->backlog->clock_offset != OFFSET_UNKNOWN)
        now = turn->wall - engine->backlog->clock_offset;
    if (PLANT(lease_long))
        now -= 2 * engine->config.lease_ms;
    for (size_t left = turn_batch(engine);
         left > 0 && (first = heap_first(&engine->grants->deadlines)) && lease_lapsed(first->key, now); left--) {
        struct active_grant *live = CONTAINER_OF(first, struct active_grant, deadline);
        heap_take(&engine->grants->deadlines, first); /* tried once; leases_commit puts back those that live on */
        struct node *node = slice_find(turn->slice, live->attempt.task);
        if (!node || node->row.state != STATE_X || node->row.grant != live->attempt.grant)
            continue;
        if (PLANT(lapse_uncounted) && !live->named)
            node->row.attempts--;
        const struct attempt *attempt = active_grant_read(turn, live);
        attempt_lost(turn, node, attempt,
            &(struct because){ .actor = STR("engine"), .reason = STR("its executor fell silent") });
    }
}

enum { KEPT_MS = 2000 }; /* until the engine notices that the loop stands still */

/* Visits every executor and every active grant, no waiting task: about 30 instructions each (bench/cost,
 * keep-leases), only while the loop stands still, and beside it. */
void leases_keep(struct engine *engine, int64_t boot)
{
    MAP_EACH (&engine->cache->executors, e) {
        struct known_executor *known = e->value;
        /* it was silent before the loop stood still, too */
        if (!known->spoke || boot - known->spoke > 2 * engine->config.lease_ms + KEPT_MS)
            continue;
        guard_enter(engine, GUARD_heard);
        executor_spoke(engine, known, boot);
        guard_leave(engine, GUARD_heard);
        for (struct list_node *at = known->active_grants.first; at; at = at->next) {
            struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
            lease_renew(engine, live, boot);
        }
    }
}

void leases_watch_anew(struct engine *engine, int64_t boot)
{
    MAP_EACH (&engine->grants->active, e) {
        struct active_grant *live = e->value;
        lease_renew(engine, live, boot);
    }
}

/* Its executor runs n more jobs (`weir nodes`). */
void active_grant_count(struct engine *engine, const struct attempt *attempt, int64_t n)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)attempt->executor);
    if (!known)
        return;
    known->running += n;
    atomic_fetch_add(&engine->tally->running, n);
}

void leases_count(struct engine *engine)
{
    guard_enter(engine, GUARD_heard);
    MAP_EACH (&engine->cache->executors, e)
        ((struct known_executor *)e->value)->running = 0;
    atomic_store(&engine->tally->running, 0);
    MAP_EACH (&engine->grants->active, e)
        active_grant_count(engine, &((struct active_grant *)e->value)->attempt, 1);
    guard_leave(engine, GUARD_heard);
}

static void active_grant_forget(struct engine *engine, int64_t task, int64_t grant)
{
    struct active_grant *live = map_find(&engine->grants->active, (uint64_t)task);
    if (!live || live->attempt.grant != grant)
        return;
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)live->attempt.executor);
    active_grant_count(engine, &live->attempt, -1);
    heap_take(&engine->grants->deadlines, &live->deadline);
    if (known)
        list_remove(&known->active_grants, &live->executor_link);
    /* its poll was limited by its slots: it may get more now */
    if (known && known->parked && known->parked->limited)
        engine->polls->left = true;
    map_take(&engine->grants->active, (uint64_t)task);
    mem_free(live);
}

void active_grant_forget_any(struct engine *engine, int64_t task)
{
    const struct active_grant *live = map_find(&engine->grants->active, (uint64_t)task);
    if (!live)
        return;
    guard_enter(engine, GUARD_heard);
    active_grant_forget(engine, task, live->attempt.grant);
    guard_leave(engine, GUARD_heard);
}

struct active_grant *active_grant_put(struct engine *engine, const struct attempt *attempt, int64_t boot)
{
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)attempt->executor);
    struct active_grant *live = mem_alloc(sizeof *live);
    *live = (struct active_grant){ .attempt = *attempt };
    if (known)
        list_append(&known->active_grants, &live->executor_link);
    map_put(&engine->grants->active, (uint64_t)attempt->task, live);
    lease_renew(engine, live, boot);
    return live;
}

bool leases_load(struct engine *engine, int64_t boot, struct err *err)
{
    struct arena scratch = { 0 };
    struct attempt *attempts;
    size_t n;
    bool ok = engine->store->ops->load_active_grants(engine->store, &scratch, &attempts, &n, err);
    for (size_t i = 0; ok && i < n; i++) {
        struct task task;
        bool found;
        if (!(ok = engine->store->ops->load_task(engine->store, &scratch, attempts[i].task, &task, &found, err)))
            break;
        if (!found || task.state != STATE_X || task.grant != attempts[i].grant)
            continue;
        active_grant_put(engine, &attempts[i], boot)->ending = task.ending;
    }
    arena_release(&scratch);
    leases_count(engine);
    return ok;
}

void leases_commit(struct turn *turn)
{
    struct engine *engine = turn->engine;
    if (turn->attempt_list.n)
        guard_enter(engine, GUARD_heard);
    for (size_t i = 0; i < turn->attempt_list.n; i++) {
        struct pending_attempt *pending = turn->attempt_list.at[i];
        if (pending->ended || pending->removed) {
            active_grant_forget(engine, pending->attempt.task, pending->attempt.grant);
            continue;
        }
        struct active_grant *live = map_find(&engine->grants->active, (uint64_t)pending->attempt.task);
        /* it lapsed and was revived, or its row changed */
        if (live && live->attempt.grant == pending->attempt.grant) {
            live->attempt = pending->attempt;
            if (live->deadline.pos == 0)
                lease_renew(engine, live, turn->boot);
            continue;
        }
        if (live)
            active_grant_forget(engine, live->attempt.task, live->attempt.grant);
        live = active_grant_put(engine, &pending->attempt, turn->boot);
        active_grant_count(engine, &pending->attempt, 1);
        live->named = !pending->is_new; /* a revived one was named by a poll */
    }
    if (turn->attempt_list.n)
        guard_leave(engine, GUARD_heard);
    for (size_t i = 0; i < turn->slice->endings.n; i++) {
        struct node *node = turn->slice->endings.at[i];
        struct active_grant *live = map_find(&engine->grants->active, (uint64_t)node->row.id);
        if (PLANT(cancel_untold))
            continue;
        if (live)
            live->ending = node->row.ending;
    }
}
