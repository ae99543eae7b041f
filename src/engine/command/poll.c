/* polls: executors poll, renew their leases and receive cancels. One poll of an executor is open at a time: a newer one
 * answers the older.
 *
 * seq: an executor numbers its polls, upwards for ever, through its own restarts too, and only the answer to its newest
 * poll counts for it. Each grant remembers the number of the poll it answered. What it means that a poll doesn't name a
 * grant follows from the two numbers, however late the poll comes and whichever side was restarted since:
 *
 * Same number: the answer was lost; the grant is sent again.
 *
 * Larger number: the executor doesn't have the grant and will never start it. The task is requeued and no attempt is
 * spent, unless the job may have begun: a poll named it before, or the executor may have forgotten jobs it started.
 * Then the attempt is lost, and counts.
 *
 * Smaller number: nothing. */
#include <string.h>

#include "core/lease.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/grants.h"
#include "engine/shared/shared.h"
#include "engine/targets.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

/* --- renewals --- */

static void cancel_add(struct turn *turn, struct command *poll, struct fence fence, enum task_state ending, bool stale)
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
                  : ending == STATE_T ? "TERM"
                                      : "HUP",
        .stop_ms = !stale && ending == STATE_S ? turn->engine->site->changesets.stop_ms : 0,
        .stale = stale };
}

void poll_cancel(struct turn *turn, struct command *poll, const struct attempt *attempt, enum task_state ending)
{
    cancel_add(
        turn, poll, (struct fence){ turn->engine->head.incarnation, attempt->task, attempt->grant }, ending, false);
    poll_answer(turn, poll);
}

/* Of a change set: another one of its target runs since, or the target has gone. Two servers would revive and start two
 * of one target, so the turn is a wide one. */
static bool target_is_lost(struct turn *turn, struct node *node)
{
    struct target target;
    struct str why;
    if (!(node->row.marks & MARK_CHANGESET))
        return false;
    if (turn->narrow.is) {
        turn_widen(turn);
        return true;
    }
    return !target_of(turn, &node->row, &target, &why) || !target_is_free(turn, node, &target);
}

/* Revives a lapsed lease if the task was granted to no other executor since. */
static bool lease_revive(struct turn *turn, struct known_executor *known, struct fence fence, int64_t seq)
{
    struct node *node = slice_find(turn->slice, fence.task);
    if (node && known->row.tenant.len && !str_eq(slice_lane(turn->slice, node->row.lane)->tenant, known->row.tenant))
        return false;
    /* its executor is back; are its slots free, too? */
    if (node && node->row.grant == fence.grant && node->row.holds & 1u << HOLD_executor) {
        task_consider(turn->slice, node);
        slice_settle(turn->slice);
    }
    enum late_renewal late = node ? late_renewal_of(&node->row, fence.grant) : LATE_STALE;
    if (late != LATE_LAPSED)
        return late == LATE_ALIVE;
    struct pending_attempt *found = attempt_find(turn, fence.task, fence.grant);
    if (!found || !attempt_revivable(found->attempt.outcome, found->attempt.executor, known->row.id) ||
        target_is_lost(turn, node))
        return false;
    struct attempt attempt = found->attempt;
    attempt.outcome = OUTCOME_none;
    attempt.finished = 0;
    /* the job has begun; the server that receives the next poll may not know that (memory_lost) */
    attempt.poll_seq = seq;
    attempt.forgotten = seq >= 0;
    attempt_change(turn, &attempt)->ended = false;
    slice_move(turn->slice, node, STATE_X,
        &(struct because){ .actor = known->row.name, .reason = STR("its lease was renewed late") });
    return true;
}

static uint64_t fence_hash(struct fence fence)
{
    return (uint64_t)fence.task * 0x9e3779b97f4a7c15u ^ (uint64_t)fence.grant;
}

/* The poll's finishes by a hash of task and grant. Two with one hash: the list is searched (finished_in). */
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

/* The grant belongs to another executor of the same token: the same executor under an older name. */
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
        /* it ended in this turn */
        if (pending && (pending->ended || pending->removed) && pending->attempt.grant == fence.grant)
            live = NULL;
        bool foreign =
            live && live->attempt.executor != known->row.id && !speaks_for(turn, poll, live->attempt.executor);
        bool known_fence = fence.incarnation == turn->head.incarnation;
        bool newest = live && live->attempt.grant == fence.grant;
        if (PLANT(renew_by_task))
            newest = live != NULL;
        if (newest && !foreign && known_fence) {
            lease_renew(engine, live, turn->boot);
            live->named = true;
            live->look = engine->polls->looks;
            if (live->ending)
                cancel_add(turn, poll, fence, live->ending, false);
        } else if (finished_in(poll, &finishes, fence)) {
            continue; /* this poll finished it, perhaps as lost: nothing to revive, nothing to kill */
        } else if (!foreign && known_fence && lease_revive(turn, known, fence, poll->in.poll.seq)) {
            live = map_find(&engine->grants->active, (uint64_t)fence.task); /* it lapsed in this turn, and is revived */
            if (live && live->attempt.grant == fence.grant)
                live->look = engine->polls->looks;
            else
                poll->revived++;
        } else {
            if (PLANT(stale_untold))
                continue;
            cancel_add(turn, poll, fence, STATE_NONE, true);
        }
    }
    map_release(&finishes);
}

static void poll_seq(struct turn *turn, struct known_executor *known, struct command *poll)
{
    if (poll->in.poll.seq < 0)
        return;
    active_grants_expect(turn, known, true);
    for (struct list_node *at = known->active_grants.first; at;
         at = at->next) { /* the commit changes this list, not this loop */
        struct active_grant *live = CONTAINER_OF(at, struct active_grant, executor_link);
        if (live->look != turn->engine->polls->looks)
            grant_absent(turn, known, poll, live);
    }
}

/* An executor has seen later events than this store has: the store is an older copy. A new incarnation keeps fences of
 * the lost history from being taken for those that this store makes. */
static void store_went_back(struct turn *turn, const struct known_executor *known, const struct command *poll)
{
    struct engine *engine = turn->engine;
    /* a new incarnation since: what executors have seen is older */
    bool renewed = engine->shared->went_back || turn->head.incarnation != engine->head.incarnation;
    bool other_history = poll->in.poll.seen_incarnation != turn->head.incarnation;
    if (PLANT(incarnation_each_poll))
        renewed = other_history = false;
    if (renewed || other_history || poll->in.poll.seen_seq <= engine->head.seq)
        return;
    turn_incarnate(turn, known->row.name, STR("an executor has seen later events: this store is an older copy"));
}

bool command_poll(struct turn *turn, struct command *poll)
{
    struct engine *engine = turn->engine;
    struct known_executor *known = map_find(&engine->cache->executors, (uint64_t)poll->in.poll.executor);
    if (!known || !tenant_of_executor(&known->row, poll->actor.tenant) || known->row.owner < 0)
        return turn_refuse(turn, poll, ERR_not_found, "there is no executor %lld; register it again",
            (long long)poll->in.poll.executor);
    if (!executor_owned(&known->row, poll))
        return turn_refuse(turn, poll, ERR_forbidden, "the executor %lld was registered with another token",
            (long long)poll->in.poll.executor);
    poll->status = 200;
    poll->out.poll.n_grants = poll->out.poll.n_cancels = poll->out.poll.grant_bytes = 0; /* a turn may be replayed */
    poll->revived = 0;
    poll->life = known->life;
    int64_t answered = known->seq_known ? known->seq : -1;
    int64_t open = known->parked && known->parked != poll ? known->parked->in.poll.seq : -1; /* also of this turn */
    if (poll_is_overtaken(poll->in.poll.seq, answered) || poll_is_overtaken(poll->in.poll.seq, open)) {
        poll_answer(turn, poll);
        return true;
    }
    guard_enter(engine, GUARD_heard);
    executor_spoke(engine, known, turn->boot);
    known->free = poll->in.poll.free < known->row.slots ? poll->in.poll.free : known->row.slots;
    guard_leave(engine, GUARD_heard);
    if ((known->row.state == EXECUTOR_LOST || known->row.silent) && turn->narrow.is) {
        turn_widen(turn);
        return true;
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
    return true;
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
    for (size_t i = 0; i < turn->slice->endings.n; i++) { /* cancels for jobs whose executor has an open poll */
        struct node *node = turn->slice->endings.at[i];
        struct active_grant *live = map_find(&engine->grants->active, (uint64_t)node->row.id);
        struct known_executor *known =
            live ? map_find(&engine->cache->executors, (uint64_t)live->attempt.executor) : NULL;
        if (node->row.state != STATE_X || !known || !known->parked)
            continue;
        cancel_add(turn, known->parked, (struct fence){ turn->head.incarnation, node->row.id, node->row.grant },
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
        poll->revived = 0; /* they are active grants now */
        list_append(&turn->engine->polls->parked, &poll->node);
        if (PLANT(poll_kept))
            continue;
        heap_put(&turn->engine->polls->due, &poll->due, poll->deadline);
    }
    for (size_t i = 0; i < turn->answered.n; i++) {
        struct command *poll = turn->answered.at[i];
        if (poll->kind == CMD_REGISTER)
            register_commit(turn->engine, poll);
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

/* Visits every executor and every parked poll, but only after a failed turn: after a narrow one wide turns follow for
 * a while (narrow_undo), after any other all rows are read again. */
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
