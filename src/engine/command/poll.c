/* polls: executors register, poll, renew and hear cancels. One poll of an executor is open at a time: a newer one
 * answers the older.
 *
 * seq: an executor counts its polls, upwards for ever, through its own restarts too, and only the answer to its newest
 * poll counts for it. Each grant remembers the number it was given to. So what a poll doesn't name says, however late
 * it comes and whoever was restarted since: the same number    the answer was lost: the grant comes again a larger
 * number    the executor doesn't have it and will never start it: it goes back to P. No attempt is spent, unless the
 * job may have begun: it was named before, or the executor may have forgotten since what it began. Then the attempt is
 * lost, and counts a smaller number   nothing */
#include <stdlib.h>
#include <string.h>

#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/health.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"
#include "store/row_copy.h"

/* --- registering --- */

static bool heard_lately(const struct turn *turn, const struct known_executor *known)
{
    return known->heard && turn->boot - known->heard <= turn->engine->config.lease_ms;
}

static uint64_t memory_of(const struct command *command)
{
    return command->in.reg.memory.len && command->in.reg.executor.instance.len ? str_hash(command->in.reg.memory) | 1
                                                                               : 0;
}

/* Grants of another server that will be looked at come in one piece. unnamed: only those that this poll doesn't name.
 */
static void active_grants_expect(struct turn *turn, const struct known_executor *known, bool unnamed)
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
    if (n > 1 && store->ops->expect && !store->ops->expect(store, &needs, turn->err))
        turn->slice->failed = true;
}

/* The executor was started anew, and not on the records it had: what it doesn't name any more may have begun. Written
 * down, since whoever hears its next poll may be another process. */
static void memory_lost(struct turn *turn, const struct known_executor *known)
{
    active_grants_expect(turn, known, false);
    for (struct list_node *at = known->active_grants.first; at; at = at->next) {
        struct attempt attempt = *active_grant_read(turn, CONTAINER_OF(at, struct active_grant, executor_link));
        const struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)attempt.task);
        if (attempt.poll_seq < 0 || (pending && (pending->ended || pending->removed)))
            continue;
        attempt.poll_seq = -2 - attempt.poll_seq;
        attempt_change(turn, &attempt);
    }
}

void grants_forget(struct turn *turn)
{
    MAP_EACH (&turn->engine->cache->executors, e)
        memory_lost(turn, e->value);
}

bool executor_owned(const struct executor *executor, const struct command *command)
{
    return command->admin || executor->owner == command->token;
}

/* May the command's token take the name over from another one? At once when it is the same executor, by its `instance`,
 * which nobody else knows (tokens are exchanged); else when the executor is gone: silent for a lease, and nothing is
 * granted to it any more. */
static bool takes_over(const struct turn *turn, const struct known_executor *known, const struct command *command)
{
    const struct executor *wish = &command->in.reg.executor;
    int64_t since = known->heard ? known->heard : turn->engine->shared->began;
    if (known->row.owner < 0 || known->row.owner == command->token)
        return true;
    if (wish->instance.len && str_eq(wish->instance, known->row.instance))
        return true;
    return !known->active_grants.first && turn->boot - since > turn->engine->config.lease_ms;
}

void command_register(struct turn *turn, struct command *command)
{
    struct engine *engine = turn->engine;
    struct executor *wish = &command->in.reg.executor;
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) { /* nothing begins anew: it is the answer that was lost */
        command->out.reg.id = kept.n ? kept.numbers[0] : 0;
        command->out.reg.lease_ms = engine->config.lease_ms;
        return;
    }
    struct known_executor *known = executor_named(engine, turn->arena, command->actor.tenant, wish->name);
    bool other = known && wish->instance.len && known->row.instance.len && !str_eq(wish->instance, known->row.instance);
    bool mine = !known || takes_over(turn, known, command);
    if (!mine && !command->admin) {
        turn_refuse(turn, command, ERR_name_taken,
            "an executor named '%.*s' was registered with another token, and is alive; choose another --name, or its "
            "token",
            STR_ARG(wish->name));
        return;
    }
    if (!known && quota_refused(turn, command, QUOTA_executors, 1))
        return;
    if (other && heard_lately(turn, known)) {
        turn_refuse(turn, command, ERR_name_taken, "an executor named '%.*s' is alive on %.*s; choose another --name",
            STR_ARG(wish->name), STR_ARG(known->row.host));
        return;
    }
    struct executor row = *wish;
    row.id = known ? known->row.id : turn->head.next_executor++;
    row.registered = turn->wall;
    row.owner = mine ? command->token : known->row.owner; /* `admin` speaks for it, and leaves it to whom it belongs */
    row.tenant = str_eqz(command->actor.tenant, TENANT_DEFAULT) ? (struct str){ 0 } : command->actor.tenant;
    row.processed = known ? known->row.processed : 0;
    row.failed = known ? known->row.failed : 0;
    row.state = known && known->row.state == EXECUTOR_PAUSED ? EXECUTOR_PAUSED : EXECUTOR_ACTIVE;
    if (known && known->parked) { /* of an earlier life: its numbers don't compare with what comes now */
        poll_answer(turn, known->parked);
        known->parked = NULL;
    }
    known = cache_executor_put(engine, &row);
    bool remembers = memory_of(command) && memory_of(command) == known->memory && !other;
    pthread_mutex_lock(&engine->heard_lock);
    known->heard = turn->boot;
    crew_heard(known);
    known->seq_known = false;
    known->life++;
    pthread_mutex_unlock(&engine->heard_lock);
    if (!remembers && !PLANT(forgetful_trusted))
        memory_lost(turn, known);
    executor_changed(turn, known);
    slice_event(turn->slice, &(struct event){ .kind = EVENT_executor,
                                 .actor = command->actor.name,
                                 .subject = tenant_subject(turn->arena, row.tenant, row.name) });
    command->out.reg.id = row.id;
    command->out.reg.lease_ms = engine->config.lease_ms;
    command->status = 201;
    idempotency_keep(turn, command, &row.id, 1);
}

/* --- what a poll says --- */

static void cancel_add(struct command *poll, struct fence fence, enum task_state ending, bool stale)
{
    struct cancel_order *all = poll->out.poll.cancels;
    size_t n = poll->out.poll.n_cancels++;
    if ((n & (n - 1)) == 0) { /* grows by doubling */
        all = ARENA_ARRAY(poll->arena, struct cancel_order, n ? n * 2 : 1);
        if (n)
            memcpy(all, poll->out.poll.cancels, n * sizeof *all);
        poll->out.poll.cancels = all;
    }
    all[n] = (struct cancel_order){ .fence = fence,
        .signal = stale               ? "KILL"
                  : ending == STATE_A ? "HUP"
                                      : "TERM",
        .stale = stale };
}

void poll_cancel(struct turn *turn, struct command *poll, const struct attempt *attempt, enum task_state ending)
{
    cancel_add(poll, (struct fence){ turn->engine->head.incarnation, attempt->task, attempt->grant }, ending, false);
    poll_answer(turn, poll);
}

/* A lapsed lease that nobody else was given in the meantime is taken up again. */
static bool lease_revive(struct turn *turn, struct known_executor *known, struct fence fence, int64_t seq)
{
    struct node *node = slice_find(turn->slice, fence.task);
    if (node && known->row.tenant.len && !str_eq(slice_lane(turn->slice, node->row.lane)->tenant, known->row.tenant))
        return false;
    /* it is there again; are its slots, too? */
    if (node && node->row.grant == fence.grant && node->row.holds & 1u << HOLD_executor) {
        task_consider(turn->slice, node);
        slice_settle(turn->slice);
    }
    if (!node || node->row.grant != fence.grant || node->row.state != STATE_P)
        return node && node->row.grant == fence.grant && node->row.state == STATE_X;
    struct pending_attempt *found = attempt_find(turn, fence.task, fence.grant);
    if (!found || found->attempt.executor != known->row.id || found->attempt.outcome != OUTCOME_lost)
        return false;
    struct attempt attempt = found->attempt;
    attempt.outcome = OUTCOME_none;
    attempt.finished = 0;
    /* it has begun, and whoever hears of it next may not have heard that (memory_lost) */
    attempt.poll_seq = seq < 0 ? seq : -2 - seq;
    attempt_change(turn, &attempt)->ended = false;
    slice_move(turn->slice, node, STATE_X,
        &(struct because){ .actor = known->row.name, .reason = STR("its lease was renewed late") });
    return true;
}

static uint64_t fence_hash(struct fence fence)
{
    return (uint64_t)fence.task * 0x9e3779b97f4a7c15u ^ (uint64_t)fence.grant;
}

/* The poll's finishes by task and grant. A key that another one has says nothing: then they are searched. */
static struct map finishes_index(const struct command *poll)
{
    struct map index = { 0 };
    for (size_t i = 0; i < poll->in.poll.n_finishes; i++)
        map_put(&index, fence_hash(poll->in.poll.finishes[i].fence), &poll->in.poll.finishes[i]);
    return index;
}

static bool finish_is(const struct finish_item *item, struct fence fence)
{
    return item->fence.task == fence.task && item->fence.grant == fence.grant;
}

static bool finished_in(const struct command *poll, const struct map *index, struct fence fence)
{
    const struct finish_item *found = map_find(index, fence_hash(fence));
    if (!found || finish_is(found, fence))
        return found != NULL;
    for (size_t i = 0; i < poll->in.poll.n_finishes; i++)
        if (finish_is(&poll->in.poll.finishes[i], fence))
            return true;
    return false;
}

/* Another executor of the same token, as one is that has another name since. */
static bool speaks_for(struct turn *turn, const struct command *poll, int64_t executor)
{
    const struct known_executor *other = map_find(&turn->engine->cache->executors, (uint64_t)executor);
    return !other || (tenant_of_executor(&other->row, poll->actor.tenant) && executor_owned(&other->row, poll));
}

static void renew_all(struct turn *turn, struct known_executor *known, struct command *poll)
{
    struct engine *engine = turn->engine;
    struct map finishes = finishes_index(poll);
    engine->polls->looks++;
    for (size_t i = 0; i < poll->in.poll.n_renew; i++) {
        struct fence fence = poll->in.poll.renew[i].fence;
        struct active_grant *live = map_find(&engine->grants->active, (uint64_t)fence.task);
        const struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)fence.task);
        /* in this very turn */
        if (pending && (pending->ended || pending->removed) && pending->attempt.grant == fence.grant)
            live = NULL;
        bool foreign =
            live && live->attempt.executor != known->row.id && !speaks_for(turn, poll, live->attempt.executor);
        bool own = live && !foreign && (live->attempt.grant == fence.grant || PLANT(renew_by_task)) &&
                   fence.incarnation == turn->head.incarnation;
        if (own) {
            heap_put(&engine->grants->deadlines, &live->deadline, turn->boot + engine->config.lease_ms);
            live->named = true;
            live->look = engine->polls->looks;
            if (live->ending)
                cancel_add(poll, fence, live->ending, false);
        } else if (finished_in(poll, &finishes, fence)) {
            continue; /* by this very poll, perhaps as lost: nothing to take up again, nothing to kill */
        } else if (!foreign && fence.incarnation == turn->head.incarnation &&
                   lease_revive(turn, known, fence, poll->in.poll.seq)) {
            live = map_find(
                &engine->grants->active, (uint64_t)fence.task); /* it lapsed in this very turn, and is alive again */
            if (live && live->attempt.grant == fence.grant)
                live->look = engine->polls->looks;
            else
                poll->revived++;
        } else {
            if (!PLANT(stale_untold))
                cancel_add(poll, fence, STATE_NONE, true);
        }
    }
    map_release(&finishes);
}

/* --- granting --- */

/* How the last attempt of a task that has ended went. Of one that is done nothing is read: that is said by its outcome.
 */
static void need_end(struct turn *turn, const struct task *row, struct need *need)
{
    need->exit = need->signal = -1;
    if (row->attempts == 0)
        return;
    if (row->state == STATE_D) {
        need->exit = row->outcome == OUTCOME_done ? 0 : -1;
        return;
    }
    const struct pending_attempt *last = attempt_find(turn, row->id, row->grant);
    if (!last)
        return;
    need->exit = last->attempt.exit;
    need->signal = last->attempt.signal;
}

static struct str need_outputs(struct turn *turn, const struct task *row)
{
    struct store *store = turn->engine->store;
    if (!(row->marks & MARK_OUTPUTS))
        return (struct str){ 0 };
    struct str outputs = outputs_told(turn, row->id);
    if (!outputs.len && !store->ops->load_outputs(store, turn->arena, row->id, &outputs, turn->err))
        turn->slice->failed = true;
    return outputs;
}

/* grant_needs: what the task is told of those it depends on, whatever their end; how many bytes that is, about. */
static size_t grant_needs(struct turn *turn, struct command *poll, struct node *node, struct grant *grant)
{
    size_t n, bytes = 0;
    if (!(node->row.marks & MARK_NEEDS))
        return 0;
    struct edge *ins = slice_ins(turn->slice, node, &n);
    grant->needs = ARENA_ARRAY(poll->arena, struct need, n + 1);
    for (size_t i = 0; i < n; i++) {
        bool wanted = ins[i].kind == EDGE_DEPENDS || ins[i].flags & EDGE_NEEDED;
        struct node *pred = wanted ? slice_find(turn->slice, ins[i].pred) : NULL;
        if (!pred || (!(ins[i].flags & EDGE_NEEDED) && !(pred->row.marks & MARK_OUTPUTS)))
            continue;
        const struct lane *lane = slice_lane(turn->slice, pred->row.lane);
        struct need *need = &grant->needs[grant->n_needs++];
        *need = (struct need){ .task = pred->row,
            .lane_name = str_dup(poll->arena, lane->name),
            .lane_kind = lane->kind,
            .by_id = ins[i].flags & EDGE_BY_ID,
            .on_success = ins[i].kind == EDGE_DEPENDS,
            .left = bytes > NEEDS_BYTES_MAX };
        row_copy_task(poll->arena, &need->task);
        need_end(turn, &pred->row, need);
        struct str outputs = need->left ? (struct str){ 0 } : need_outputs(turn, &pred->row);
        need->left |= bytes + outputs.len > NEEDS_BYTES_MAX;
        if (!need->left)
            need->outputs = str_dup(poll->arena, outputs);
        bytes += NEED_BYTES + need->outputs.len;
    }
    return bytes;
}

static void grant_render(struct turn *turn, struct command *poll, struct node *node)
{
    struct grant *grants = poll->out.poll.grants;
    size_t n = poll->out.poll.n_grants;
    if ((n & (n - 1)) == 0) { /* grows by doubling */
        struct grant *more = ARENA_ARRAY(poll->arena, struct grant, n ? n * 2 : 1);
        if (n)
            memcpy(more, grants, n * sizeof *more);
        poll->out.poll.grants = grants = more;
    }
    const struct spec *spec = slice_spec(turn->slice, node);
    const struct lane *lane = slice_lane(turn->slice, node->row.lane);
    struct grant *grant = &grants[poll->out.poll.n_grants++];
    *grant = (struct grant){ .task = node->row,
        .lane_name = str_dup(poll->arena, lane->name),
        .lane_kind = lane->kind,
        .fence = { turn->head.incarnation, node->row.id, node->row.grant },
        .body = str_dup(poll->arena, spec->body),
        .holds_slots = spec->n_slots > 0 || (node->row.marks & MARK_LOCKED),
        .source = archive_source(turn, &node->row, poll->arena) };
    row_copy_task(poll->arena, &grant->task);
    poll->out.poll.grant_bytes += grant->body.len + grant_needs(turn, poll, node, grant);
}

void grant_make(struct turn *turn, struct known_executor *known, struct command *poll, struct node *node)
{
    struct task *row = &node->row;
    row->grant++;
    row->attempts++;
    if (row->vt > turn->slice->v_now)
        turn->slice->v_now = row->vt;
    row->unique = (struct str){ 0 }; /* it has started: another may be made */
    slice_move(turn->slice, node, STATE_X, &(struct because){ .actor = known->row.name });
    struct attempt attempt = { .task = row->id,
        .number = row->attempts,
        .grant = row->grant,
        .executor = known->row.id,
        .started = turn->slice->stamp,
        .poll_seq = poll->in.poll.seq,
        .exit = -1,
        .signal = -1,
        .cpu_ms = -1,
        .max_rss_bytes = -1,
        .log_bytes = -1 };
    struct pending_attempt *pending = attempt_change(turn, &attempt);
    pending->is_new = true;
    if (row->grant > 1) /* what an older attempt might still have said is not heard any more */
        *ARRAY_ADD(turn->arena, turn->sealed) = (struct log_name){ row->id, row->grant - 1 };
    turn->n_granted++;
    grant_render(turn, poll, node);
}

/* The grant never reached its executor: as if it had not been made, but for its number. */
static void grant_undo(
    struct turn *turn, const struct known_executor *known, struct node *node, const struct attempt *attempt)
{
    struct because because = { .actor = known->row.name, .reason = STR("the grant did not arrive") };
    attempt_change(turn, attempt)->removed = true;
    node->row.attempts--;
    if (node->row.ending)
        task_end(turn->slice, node, node->row.ending, OUTCOME_cancelled, &because);
    else
        task_return(turn->slice, node, &because);
    slice_settle(turn->slice);
}

/* A live grant that the poll doesn't name: see above. */
static void grant_absent(
    struct turn *turn, struct known_executor *known, struct command *poll, struct active_grant *live)
{
    struct pending_attempt *changed = map_find(&turn->attempts, (uint64_t)live->attempt.task);
    const struct attempt *granted = active_grant_read(turn, live);
    int64_t seq = poll->in.poll.seq, given = changed ? changed->attempt.poll_seq : granted->poll_seq;
    bool forgot = given < -1;
    if (forgot)
        given = -2 - given;
    if (given < 0 || (seq < given && !PLANT(late_poll_believed)))
        return;
    if (seq == given && forgot)
        return; /* of the life before, and late: the new one counts on from there */
    struct node *node = slice_find(turn->slice, live->attempt.task);
    /* it ended in this very turn */
    if (!node || node->row.state != STATE_X || node->row.grant != live->attempt.grant)
        return;
    if (seq == given && !forgot && !PLANT(no_replay)) {
        heap_put(&turn->engine->grants->deadlines, &live->deadline, turn->boot + turn->engine->config.lease_ms);
        grant_render(turn, poll, node);
    } else if (PLANT(grant_not_returned)) {
        return;
    } else if (!forgot && !live->named) {
        grant_undo(turn, known, node, granted);
    } else {
        struct because because = { .actor = known->row.name, .reason = STR("its executor doesn't have it any more") };
        attempt_lost(turn, node, granted, &because);
    }
}

static void poll_seq(struct turn *turn, struct known_executor *known, struct command *poll)
{
    if (poll->in.poll.seq < 0)
        return;
    active_grants_expect(turn, known, true);
    for (struct list_node *at = known->active_grants.first; at; at = at->next) { /* changed by the commit, not here */
        struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
        if (live->look != turn->engine->polls->looks)
            grant_absent(turn, known, poll, live);
    }
}

/* An executor has seen more than this store knows: it is an older copy. Its fences must not be mistaken for those that
 * were given out since. */
static void store_went_back(struct turn *turn, const struct known_executor *known, const struct command *poll)
{
    struct engine *engine = turn->engine;
    /* all that was seen is older than that */
    bool renewed = engine->shared->went_back || turn->head.incarnation != engine->head.incarnation;
    /* another history */
    if (poll->in.poll.seen_incarnation != turn->head.incarnation && !PLANT(incarnation_each_poll))
        return;
    if (poll->in.poll.seen_seq <= engine->head.seq || (renewed && !PLANT(incarnation_each_poll)))
        return;
    turn_incarnate(turn, known->row.name, STR("an executor has seen later events: this store is an older copy"));
}

void command_poll(struct turn *turn, struct command *poll)
{
    struct engine *engine = turn->engine;
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)poll->in.poll.executor);
    if (!known || !tenant_of_executor(&known->row, poll->actor.tenant) || known->row.owner < 0) {
        turn_refuse(turn, poll, ERR_not_found, "there is no executor %lld; register it again",
            (long long)poll->in.poll.executor);
        return;
    }
    if (!executor_owned(&known->row, poll)) {
        turn_refuse(turn, poll, ERR_forbidden, "the executor %lld was registered with another token",
            (long long)poll->in.poll.executor);
        return;
    }
    poll->status = 200;
    poll->out.poll.n_grants = poll->out.poll.n_cancels = poll->out.poll.grant_bytes = 0; /* a turn may be replayed */
    poll->revived = 0;
    poll->life = known->life;
    bool overtaken = known->seq_known && poll->in.poll.seq < known->seq;
    /* also within one turn */
    overtaken |= known->parked && known->parked != poll && poll->in.poll.seq < known->parked->in.poll.seq;
    if (poll->in.poll.seq >= 0 && overtaken && !PLANT(poll_overtaken)) {
        poll_answer(turn, poll);
        return;
    }
    pthread_mutex_lock(&engine->heard_lock);
    executor_spoke(engine, known, turn->boot);
    known->free = poll->in.poll.free < known->row.slots ? poll->in.poll.free : known->row.slots;
    pthread_mutex_unlock(&engine->heard_lock);
    if ((known->row.state == EXECUTOR_LOST || known->row.silent) && turn->narrow.is) {
        turn_widen(turn);
        return;
    }
    if (known->row.silent) {
        known->row.silent = 0;
        turn_executor_changed(turn, known);
    }
    if (known->row.state == EXECUTOR_LOST) {
        known->row.state = EXECUTOR_ACTIVE;
        crew_state(engine, known);
        executor_changed(turn, known);
        slice_event(turn->slice, &(struct event){ .kind = EVENT_executor_state,
                                     .subject = tenant_subject(turn->arena, known->row.tenant, known->row.name),
                                     .actor = known->row.name,
                                     .reason = STR("heard again") });
    }
    store_went_back(turn, known, poll);
    if (known->parked && known->parked != poll)
        poll_answer(turn, known->parked);
    known->parked = poll;
    finish_items(turn, poll, poll->in.poll.finishes, poll->in.poll.n_finishes);
    renew_all(turn, known, poll);
    poll_seq(turn, known, poll);
    *ARRAY_ADD(turn->arena, turn->claims.polls) = poll;
}

/* --- pending tasks, by class --- */

struct supply {
    int64_t class_id;
    struct ready_row *rows; /* stored ones, in order */
    size_t n_rows, next, asked;
    struct node **fresh; /* this turn's, in order */
    size_t n_fresh, cap_fresh, next_fresh;
};

static int rank_order(int64_t prio_a, int64_t vt_a, int64_t id_a, int64_t prio_b, int64_t vt_b, int64_t id_b)
{
    if (prio_a != prio_b && !PLANT(prio_ignored))
        return prio_a > prio_b ? -1 : 1;
    if (vt_a != vt_b)
        return vt_a < vt_b ? -1 : 1;
    return id_a < id_b ? -1 : id_a > id_b;
}

static int by_rank(const void *a, const void *b)
{
    const struct task *x = &(*(const struct node *const *)a)->row, *y = &(*(const struct node *const *)b)->row;
    return rank_order(x->prio, x->vt, x->id, y->prio, y->vt, y->id);
}

static void supply_ask(struct turn *turn, struct supply *supply, size_t n)
{
    struct store *store = turn->engine->store;
    supply->asked = n;
    supply->next = 0;
    if (!store->ops->ready_first(store, turn->arena, supply->class_id, n, &supply->rows, &supply->n_rows, turn->err)) {
        turn->slice->failed = true;
        supply->n_rows = 0;
    }
}

static struct supply *supply_of(struct turn *turn, int64_t class_id)
{
    struct supply *supply = map_find(&turn->claims.supplies, (uint64_t)class_id);
    if (supply)
        return supply;
    supply = ARENA_NEW(turn->arena, struct supply);
    supply->class_id = class_id;
    map_put(&turn->claims.supplies, (uint64_t)class_id, supply);
    return supply;
}

/* What became pending since the last look goes to its class, each once, however many classes are asked for. */
static void supplies_fresh(struct turn *turn)
{
    for (; turn->claims.n_supplied < turn->slice->fresh.n; turn->claims.n_supplied++) {
        struct node *node = turn->slice->fresh.at[turn->claims.n_supplied];
        struct supply *supply = node->row.state == STATE_P ? supply_of(turn, node->row.class_id) : NULL;
        if (supply && !supply->asked)
            *ARENA_PUSH(turn->arena, supply->fresh, supply->n_fresh, supply->cap_fresh) = node;
    }
}

static struct supply *supply_get(struct turn *turn, int64_t class_id, size_t want)
{
    /* what these stand for may be gone from the front; what they don't suffice for is asked for later */
    if (!turn->claims.supplied)
        MAP_EACH (&turn->slice->nodes, e)
            turn->claims.n_were_pending += ((const struct node *)e->value)->was == STATE_P;
    turn->claims.supplied = true;
    supplies_fresh(turn);
    struct supply *supply = supply_of(turn, class_id);
    if (supply->asked)
        return supply;
    if (supply->n_fresh > 1)
        qsort(supply->fresh, supply->n_fresh, sizeof *supply->fresh, by_rank);
    supply_ask(turn, supply, want + turn->claims.n_were_pending);
    return supply;
}

/* A stored ready row stands for a task that this turn has not touched, or left where it was. */
static bool row_stands(struct turn *turn, const struct ready_row *row)
{
    const struct node *node = map_find(&turn->slice->nodes, (uint64_t)row->task);
    return !node || (node->row.state == STATE_P && !node->in_fresh && node->row.vt == row->vt);
}

static const struct ready_row *supply_row(struct turn *turn, struct supply *supply)
{
    for (;;) {
        while (supply->next < supply->n_rows && !row_stands(turn, &supply->rows[supply->next]))
            supply->next++;
        if (supply->next < supply->n_rows)
            return &supply->rows[supply->next];
        if (supply->n_rows < supply->asked || turn->slice->failed)
            return NULL;
        supply_ask(turn, supply, supply->asked * 2);
    }
}

static struct node *supply_fresh(struct supply *supply)
{
    while (supply->next_fresh < supply->n_fresh && supply->fresh[supply->next_fresh]->row.state != STATE_P)
        supply->next_fresh++;
    return supply->next_fresh < supply->n_fresh ? supply->fresh[supply->next_fresh] : NULL;
}

/* The rank of a class's first pending task; false: it has none. */
static bool supply_head(struct turn *turn, struct supply *supply, struct ready_row *out)
{
    const struct ready_row *row = supply_row(turn, supply);
    const struct node *fresh = supply_fresh(supply);
    if (!row && !fresh)
        return false;
    bool take_fresh =
        fresh && (!row || rank_order(fresh->row.prio, fresh->row.vt, fresh->row.id, row->prio, row->vt, row->task) < 0);
    *out = take_fresh ? (struct ready_row){ fresh->row.id, fresh->row.prio, fresh->row.vt } : *row;
    return true;
}

/* The classes that fit an executor and have something pending, a binary heap by the first of each. While one poll is
 * served a class's first only ever gives way to a later one, so what stands here is never too late. Classes are looked
 * at once a poll, not once a grant. */
struct pick {
    struct ready_row head;
    struct supply *supply;
};

struct picks {
    struct pick *list;
    size_t n, cap;
    bool open;
};

static bool pick_before(const struct pick *a, const struct pick *b)
{
    return rank_order(a->head.prio, a->head.vt, a->head.task, b->head.prio, b->head.vt, b->head.task) < 0;
}

static void picks_sift(struct picks *picks, size_t at)
{
    for (;;) {
        size_t first = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < picks->n; child++)
            if (pick_before(&picks->list[child], &picks->list[first]))
                first = child;
        if (first == at)
            return;
        struct pick swapped = picks->list[at];
        picks->list[at] = picks->list[first];
        picks->list[first] = swapped;
        at = first;
    }
}

static void picks_open(struct turn *turn, struct known_executor *known, size_t want, struct picks *picks)
{
    picks->open = true;
    MAP_EACH (&turn->engine->cache->classes, e) {
        const struct task_class *class_ = e->value;
        if (!cache_fits(turn->engine, known, class_->id))
            continue;
        struct pick pick = { .supply = supply_get(turn, class_->id, want) };
        if (supply_head(turn, pick.supply, &pick.head))
            *ARENA_PUSH(turn->arena, picks->list, picks->n, picks->cap) = pick;
    }
    for (size_t i = picks->n / 2; i-- > 0;)
        picks_sift(picks, i);
}

/* The first pending task that fits the executor, whatever its class. */
static struct node *pick_next(struct turn *turn, struct picks *picks)
{
    while (picks->n) {
        struct pick *top = &picks->list[0];
        struct ready_row head;
        bool has = supply_head(turn, top->supply, &head);
        if (has && head.task == top->head.task)
            return slice_find(turn->slice, head.task);
        if (has)
            top->head = head;
        else
            *top = picks->list[--picks->n];
        picks_sift(picks, 0);
    }
    return NULL;
}

/* How many grants the poll may bring: what it says is free counts as far as the executor's slots, and a few that it
 * takes ahead of them while its jobs are very short, aren't taken by what it holds already. */
static int64_t grants_most(struct turn *turn, const struct known_executor *known, const struct command *poll)
{
    int64_t free = poll->in.poll.free, again = (int64_t)poll->out.poll.n_grants;
    int64_t room = known->row.slots + poll->in.poll.ahead - (int64_t)known->active_grants.n - poll->revived;
    if (again + room >= free)
        return free;
    for (struct list_node *at = known->active_grants.first; at;
         at = at->next) { /* and those that end in this very turn? */
        const struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
        const struct pending_attempt *pending = map_find(&turn->attempts, (uint64_t)live->attempt.task);
        room += pending && (pending->ended || pending->removed) && pending->attempt.grant == live->attempt.grant;
    }
    room = again + (room > 0 ? room : 0);
    return room < free ? room : free;
}

static void grants_take(struct turn *turn, struct command *poll, size_t want)
{
    struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)poll->in.poll.executor);
    if (!known || known->parked != poll || known->row.state != EXECUTOR_ACTIVE)
        return;
    if (atomic_load(&poll->gone)) {
        poll_answer(turn, poll);
        return;
    }
    struct picks picks = { 0 };
    int64_t most = grants_most(turn, known, poll);
    poll->limited = most < poll->in.poll.free;
    while ((int64_t)poll->out.poll.n_grants < most && poll->out.poll.n_grants < GRANTS_MAX) {
        if (!picks.open)
            picks_open(turn, known, want, &picks);
        struct node *node = pick_next(turn, &picks);
        if (!node || turn->slice->failed)
            return;
        if (lane_closed(turn->slice, node->row.lane) && !PLANT(pause_ignored)) {
            if (turn->claims.n_parked_tasks++ >= turn->engine->batch)
                return; /* the next turn goes on parking */
            task_park(turn->slice, node);
            slice_settle(turn->slice);
            continue;
        }
        size_t bytes = slice_spec(turn->slice, node)->body.len;
        /* the next poll asks for it */
        if (poll->out.poll.n_grants && poll->out.poll.grant_bytes + bytes > GRANTS_BYTES_MAX)
            return;
        grant_make(turn, known, poll, node);
    }
}

/* Tasks whose numbers are near each other: as they are when they were made together. */
static bool grants_near(const struct pending_attempt *a, const struct pending_attempt *b)
{
    return a->attempt.task - b->attempt.task <= NEAR_MAX && b->attempt.task - a->attempt.task <= NEAR_MAX;
}

static void claim_for(struct turn *turn, struct command *poll, size_t want)
{
    size_t first = turn->attempt_list.n;
    if (engine_damaged(turn->engine))
        return; /* a result might not be recorded */
    grants_take(turn, poll, want);
    struct pending_attempt **list = turn->attempt_list.at;
    for (size_t i = first, end = turn->attempt_list.n; i < end && end - first >= turn->engine->many; i++)
        list[i]->attempt.many =
            (i > first && grants_near(list[i], list[i - 1])) || (i + 1 < end && grants_near(list[i], list[i + 1]));
}

/* Classes of what became pending in this turn and still is. */
struct fresh_classes {
    int64_t ids[32];
    size_t n;
    bool all; /* too many to tell apart: everybody is looked at */
};

static void fresh_class_add(struct fresh_classes *classes, int64_t id)
{
    for (size_t i = 0; i < classes->n; i++)
        if (classes->ids[i] == id)
            return;
    if (classes->n == sizeof classes->ids / sizeof *classes->ids)
        classes->all = true;
    else
        classes->ids[classes->n++] = id;
}

static bool fresh_fits(struct turn *turn, const struct fresh_classes *classes, const struct command *poll)
{
    bool fits = classes->all;
    for (size_t i = 0; i < classes->n && !fits; i++)
        fits = cache_fits(turn->engine, poll->known, classes->ids[i]);
    return fits;
}

void claims_run(struct turn *turn)
{
    size_t want = 0;
    for (size_t i = 0; i < turn->claims.polls.n; i++)
        want += (size_t)turn->claims.polls.at[i]->in.poll.free < GRANTS_MAX
                    ? (size_t)turn->claims.polls.at[i]->in.poll.free
                    : GRANTS_MAX;
    struct engine *engine = turn->engine;
    for (size_t i = 0; i < turn->claims.polls.n; i++)
        claim_for(turn, turn->claims.polls.at[i], want);
    /* A parked poll found nothing when it came: only what became pending in this turn can be news to it. */
    size_t fresh = 0;
    struct fresh_classes classes = { 0 };
    for (size_t i = 0; i < turn->slice->fresh.n; i++) {
        const struct task *row = &turn->slice->fresh.at[i]->row;
        if (row->state != STATE_P)
            continue;
        fresh++;
        if (!classes.all)
            fresh_class_add(&classes, row->class_id);
    }
    classes.all |= engine->polls->left;
    bool all = engine->polls->left;
    for (struct list_node *at = engine->polls->parked.first; at && (fresh > 0 || all); at = at->next) {
        struct command *poll = CONTAINER_OF(at, struct command, node);
        if (!fresh_fits(turn, &classes, poll))
            continue;
        size_t before = poll->out.poll.n_grants;
        /* what is asked for in vain is locked in vain */
        size_t more = turn->narrow.is ? (size_t)poll->in.poll.free : GRANTS_MAX;
        claim_for(turn, poll, all ? fresh + more : fresh);
        size_t granted = poll->out.poll.n_grants - before;
        if (granted)
            poll_answer(turn, poll);
        fresh = granted < fresh ? fresh - granted : 0;
    }
    engine->shared->passed_over = turn->narrow.is && engine->store->ops->ready_passed(engine->store);
    /* slots that they gave back may have made others pending, too late for this turn */
    engine->polls->left = turn->claims.n_parked_tasks > 0 || engine->shared->passed_over;
}

/* --- answering --- */

void poll_answer(struct turn *turn, struct command *poll)
{
    if (poll->answered)
        return;
    struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)poll->in.poll.executor);
    poll->out.poll.lease_ms = turn->engine->config.lease_ms;
    poll->out.poll.state = known ? known->row.state : EXECUTOR_ACTIVE;
    turn_answer(turn, poll);
}

static bool has_news(const struct command *poll)
{
    return poll->out.poll.n_grants || poll->out.poll.n_cancels || poll->in.poll.n_finishes || poll->err.code;
}

void polls_settle(struct turn *turn)
{
    struct engine *engine = turn->engine;
    for (size_t i = 0; i < turn->slice->endings.n; i++) { /* cancels for jobs whose executor listens now */
        struct node *node = turn->slice->endings.at[i];
        struct active_grant *live = map_find(&engine->grants->active, (uint64_t)node->row.id);
        struct known_executor *known =
            live ? map_find(&engine->cache->executors, (uint64_t)live->attempt.executor) : NULL;
        if (node->row.state != STATE_X || !known || !known->parked)
            continue;
        cancel_add(known->parked, (struct fence){ turn->head.incarnation, node->row.id, node->row.grant },
            node->row.ending, false);
        poll_answer(turn, known->parked);
    }
    struct heap_node *first;
    /* commands_undo puts them back when the turn fails */
    while ((first = heap_first(&engine->polls->due)) && first->key <= turn->boot) {
        heap_take(&engine->polls->due, first);
        poll_answer(turn, CONTAINER_OF(first, struct command, due));
    }
    for (size_t i = 0; i < turn->claims.polls.n; i++) {
        struct command *poll = turn->claims.polls.at[i];
        struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)poll->in.poll.executor);
        int64_t wait_max = engine->config.lease_ms / 3,
                wait = poll->in.poll.wait_ms < wait_max ? poll->in.poll.wait_ms : wait_max;
        if (has_news(poll) || wait <= 0 || !known || known->parked != poll) {
            poll_answer(turn, poll);
        } else {
            poll->deadline = turn->boot + wait;
            /* many are answered in one turn */
            if (wait > 8 * POLLS_TOGETHER_MS)
                poll->deadline &= ~(int64_t)(POLLS_TOGETHER_MS - 1);
            poll->known = known;
            *ARRAY_ADD(turn->arena, turn->claims.to_park) = poll;
        }
    }
}

void polls_commit(struct turn *turn)
{
    for (size_t i = 0; i < turn->claims.to_park.n; i++) {
        struct command *poll = turn->claims.to_park.at[i];
        poll->revived = 0; /* they are among the living now */
        list_append(&turn->engine->polls->parked, &poll->node);
        if (!PLANT(poll_kept))
            heap_put(&turn->engine->polls->due, &poll->due, poll->deadline);
    }
    for (size_t i = 0; i < turn->answered.n; i++) {
        struct command *poll = turn->answered.at[i];
        if (poll->kind == CMD_REGISTER && !poll->err.code && !poll->replay) {
            struct known_executor *anew = map_find(&turn->engine->cache->executors, (uint64_t)poll->out.reg.id);
            if (anew)
                anew->memory = memory_of(poll);
        }
        if (poll->kind != CMD_POLL)
            continue;
        list_remove(&turn->engine->polls->parked, &poll->node);
        heap_take(&turn->engine->polls->due, &poll->due);
        struct known_executor *known = map_find(&turn->engine->cache->executors, (uint64_t)poll->in.poll.executor);
        if (!known)
            continue;
        if (known->parked == poll)
            known->parked = NULL;
        if (poll->in.poll.seq < 0 || poll->life != known->life || (known->seq_known && poll->in.poll.seq < known->seq))
            continue;
        known->seq = poll->in.poll.seq;
        known->seq_known = true;
    }
}

int64_t polls_deadline(struct engine *engine)
{
    const struct heap_node *first = heap_first(&engine->polls->due);
    return first ? first->key : INT64_MAX;
}

/* Looks at every executor and every poll that waits; only after a turn that came to nothing, of which a narrow one is
 * followed by wide ones for a while (narrow_undo) and any other by reading all rows anew. */
void commands_undo(struct engine *engine, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        commands[i]->answered = false;
    MAP_EACH (&engine->cache->executors, e)
        ((struct known_executor *)e->value)->parked = NULL;
    for (struct list_node *at = engine->polls->parked.first; at; at = at->next) {
        struct command *poll = CONTAINER_OF(at, struct command, node);
        struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)poll->in.poll.executor);
        poll->out.poll.n_grants = poll->out.poll.n_cancels = poll->out.poll.grant_bytes = 0;
        poll->answered = false;
        heap_put(&engine->polls->due, &poll->due, poll->deadline);
        if (known)
            known->parked = poll;
    }
}

void polls_release(struct engine *engine, struct list *out)
{
    struct list_node *at;
    while ((at = list_take_first(&engine->polls->parked))) {
        struct command *poll = CONTAINER_OF(at, struct command, node);
        struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)poll->in.poll.executor);
        heap_take(&engine->polls->due, &poll->due);
        if (known)
            known->parked = NULL;
        poll->out.poll.lease_ms = engine->config.lease_ms;
        poll->out.poll.state = known ? known->row.state : EXECUTOR_ACTIVE;
        list_append(out, &poll->node);
    }
}
