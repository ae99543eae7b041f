#include "core/settle.h"

#include <stdlib.h>

#include "base/plant.h"
#include "core/changeset.h"
#include "core/hold.h"
#include "core/rollback.h"

static const struct because by_engine = { .actor = { "engine", 6 } };

static void todo_add(struct slice *slice, struct node *node)
{
    if (node->in_todo)
        return;
    node->in_todo = true;
    *ARRAY_ADD(slice->arena, slice->todo) = node;
}

void task_consider(struct slice *slice, struct node *node)
{
    todo_add(slice, node);
}

/* --- cancels --- */

static void cancel_fire(struct slice *slice, struct node *node, const struct edge *edge, struct node *other)
{
    /* an abandoned task hands all that over to those that cancel it, also if one of them was first */
    if (!state_ended(other->was))
        cancels_copy(slice, node, other, !state_ended(other->row.state) || other->row.state == STATE_A);
    else if (slice_untold(slice, edge, other))
        cancels_inherit(slice, node, other);
    if (!state_ended(other->row.state)) {
        task_stop(slice, other, STATE_A,
            &(struct because){ .actor = by_engine.actor, .reason = STR("superseded"), .cause = node->row.id });
    }
    if (state_ended(other->row.state)) { /* once and for all: who retries it later means it */
        slice_edge_flag(slice, node, other, EDGE_CANCELS, EDGE_FIRED | EDGE_SPENT);
        return;
    }
    slice_edge_flag(slice, node, other, EDGE_CANCELS, EDGE_FIRED);
    node->row.waits++;
    node->dirty = true;
}

/* The task has become ready: what it cancels is put to an end. True: all of it is dead. The list may grow while it is
 * walked: what those were to cancel is the task's. Of very many a batch: the task goes on with the others in the next
 * turns, which a hold says. Its own edges are read in each of them. */
static bool cancels_fire(struct slice *slice, struct node *node)
{
    size_t n;
    if (node->row.marks & MARK_CANCELS)
        slice_ins(slice, node, &n);
    for (size_t i = 0; node->row.marks & MARK_CANCELS && i < node->n_ins; i++) {
        struct edge edge = node->ins[i];
        if (edge.kind != EDGE_CANCELS || (edge.flags & EDGE_FIRED))
            continue;
        struct node *other = slice_find(slice, edge.pred);
        if (!other)
            continue;
        if (slice->tells_left == 0) {
            slice->telling = true;
            if (!PLANT(cancels_once))
                hold_put(slice, node, HOLD_telling, TELLING_ENDS, 0);
            return false;
        }
        slice->tells_left--;
        cancel_fire(slice, node, &edge, other);
    }
    if (PLANT(cancels_early))
        return true;
    return node->row.waits == 0;
}

void task_unhold(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, HOLDS_LOOK | HOLD_BIT(telling));
}

/* --- one task --- */

/* Ready, for cancels: it waits for nothing but the archive's lock and, if it has begun to, for the death of what it
 * cancels. */
static bool cancels_ready(struct slice *slice, struct node *node)
{
    size_t n;
    if (node->row.waits == 0)
        return true;
    bool begun = hold_has(node, HOLD_telling);
    if (PLANT(cancels_behind_lock))
        return false;
    if (!(node->row.marks & MARK_CANCELS) || !(node->row.marks & MARK_LOCKED || begun))
        return false;
    const struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        if (ins[i].kind == EDGE_CANCELS || ins[i].flags & EDGE_LOCK || !edge_counts(ins[i].kind, ins[i].flags))
            continue;
        struct node *pred = slice_find(slice, ins[i].pred);
        if (pred && slice_edge_open(slice, &ins[i], pred))
            return false;
    }
    return true;
}

static void consider(struct slice *slice, struct node *node)
{
    if (node->row.state == STATE_Q)
        slice_move(slice, node, STATE_S, &by_engine);
    if (node->row.state != STATE_S)
        return;
    bool ready = cancels_ready(slice, node) && !rollback_holds(slice, node);
    holds_drop(slice, node, HOLD_BIT(telling)); /* of one that has begun to cancel: put again if it isn't through */
    if (!ready) { /* looked at again when that is over: nothing else is kept for it, and it keeps nobody waiting */
        holds_drop(slice, node, HOLDS_LOOK | HOLD_BIT(held));
        return;
    }
    bool skipped = (node->row.marks & MARK_SKIPPED) != 0; /* starts nothing: no gate is in its way */
    if ((!skipped && !gates_open(slice, node)) || !cancels_fire(slice, node) || slice->failed) {
        holds_drop(slice, node, (HOLDS_LOOK & ~HOLDS_GATE) | HOLD_BIT(held));
        return;
    }
    if (node->row.marks & MARK_ROLLBACK && !rollback_ready(slice, node))
        return;
    if (node->row.class_id) { /* what has nothing to run takes no slots: it is done as soon as it is ready */
        if (slots_get(slice, node) && !slice->failed)
            slice_move(slice, node, STATE_P, &by_engine);
    } else if (skipped)
        task_end(slice, node, STATE_D, OUTCOME_skipped,
            &(struct because){ .actor = by_engine.actor, .reason = STR("the revision touches none of its paths") });
    else
        task_end(slice, node, STATE_D, OUTCOME_done, &by_engine); /* nothing to run */
}

void task_end(
    struct slice *slice, struct node *node, enum task_state to, enum outcome outcome, const struct because *because)
{
    unsigned holds = HOLDS_LOOK | HOLD_BIT(telling) | HOLD_BIT(held);
    if (PLANT(slots_kept))
        holds &= ~HOLD_BIT(held);
    holds_drop(slice, node, holds);
    slice_move(slice, node, to, because);
    node->row.outcome = outcome;
    node->row.ending = STATE_NONE;
    node->row.reason = because->reason;
    node->row.cause = because->cause;
    if (!PLANT(unique_kept))
        node->row.unique = (struct str){ 0 }; /* never granted: its key is free again, and isn't reclaimed by a retry */
    if (node->row.marks & MARK_CHANGESET)
        changeset_ended(slice, node);
    if (node->row.out > 0)
        todo_add(slice, node);
}

void task_stop(struct slice *slice, struct node *node, enum task_state to, const struct because *because)
{
    unsigned look = node->row.marks & MARK_LOOK;
    if (state_ended(node->row.state))
        return;
    if (node->row.state == STATE_P && look) { /* it ends when it is known whether it was applied */
        if (to == STATE_T || (to == STATE_A && look == LOOK_OTHER))
            node->row.marks = (node->row.marks & ~(unsigned)MARK_LOOK) | (to == STATE_T ? LOOK_T : LOOK_A);
        node->dirty = true;
        return;
    }
    if (node->row.state != STATE_X) {
        task_end(slice, node, to, OUTCOME_cancelled, because);
        return;
    }
    if (node->row.ending)
        return;
    node->row.ending = to;
    node->row.reason = because->reason;
    node->row.cause = because->cause;
    slice_node_event(slice, node, EVENT_ending, STATE_X, to, because);
    *ARRAY_ADD(slice->arena, slice->endings) = node;
}

/* How many of a task's edges stand in its way, from the edges themselves. */
static int64_t waits_count(struct slice *slice, struct node *node)
{
    int64_t waits = 0;
    size_t n;
    struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = slice_find(slice, ins[i].pred);
        if (!pred)
            continue; /* pruned: it has ended */
        if (ins[i].kind == EDGE_DEPENDS && pred->row.marks & MARK_OUTPUTS)
            node->row.marks |= MARK_NEEDS; /* they may have come while this one had ended */
        waits += edge_counts(ins[i].kind, ins[i].flags) && slice_edge_open(slice, &ins[i], pred);
    }
    return waits;
}

void task_wait(struct slice *slice, struct node *node, int64_t until, const struct because *because)
{
    holds_drop(slice, node, HOLD_BIT(held));
    node->row.not_before = until;
    node->row.ending = STATE_NONE;
    node->row.waits = node->row.ins ? waits_count(slice, node) : 0;
    slice_move(slice, node, STATE_S, because);
    rollback_moved(slice, node);
    task_consider(slice, node);
}

void task_return(struct slice *slice, struct node *node, const struct because *because)
{
    node->row.waits = node->row.ins ? waits_count(slice, node) : 0;
    node->row.ending = STATE_NONE; /* a rollback that stopped it may have failed since: its next attempt runs on */
    if (node->row.waits == 0 && !hold_has(node, HOLD_rollback) &&
        (hold_has(node, HOLD_held) ? executor_there(slice, node) : !slots_wanted(slice, node))) {
        slice_move(slice, node, STATE_P, because);
        return;
    }
    /* what it comes after was retried meanwhile, its slots or executors are gone, or a rollback holds it */
    slice_move(slice, node, STATE_S, because);
    rollback_moved(slice, node);
    task_consider(slice, node);
}

void task_look(struct slice *slice, struct node *node, enum task_state ending, const struct because *because)
{
    unsigned look = ending == STATE_T ? LOOK_T : ending == STATE_A ? LOOK_A : LOOK_OTHER;
    node->row.marks = (node->row.marks & ~(unsigned)MARK_LOOK) | look;
    node->row.ending = STATE_NONE;
    node->row.reason = because->reason;
    node->row.cause = because->cause;
    slice_move(slice, node, STATE_P, because);
}

void task_park(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, HOLD_BIT(held));
    slice_move(slice, node, STATE_S, &(struct because){ .actor = by_engine.actor, .reason = STR("paused") });
    task_consider(slice, node);
}

void task_unserved(struct slice *slice, struct node *node)
{
    if (node->row.state != STATE_P || !hold_has(node, HOLD_held) || executor_there(slice, node))
        return;
    holds_drop(slice, node, HOLD_BIT(held));
    slice_move(slice, node, STATE_S,
        &(struct because){ .actor = by_engine.actor, .reason = STR("no executor that fits is active") });
    task_consider(slice, node);
}

static void edge_satisfied(struct slice *slice, struct node *waiter, const struct edge *edge)
{
    if (waiter->row.waits > 0)
        waiter->row.waits--;
    waiter->dirty = true;
    bool cancels = waiter->row.marks & MARK_CANCELS && waiter->row.marks & MARK_LOCKED && !(edge->flags & EDGE_LOCK);
    if (waiter->row.waits == 0 || cancels)
        task_consider(slice, waiter);
}

static void telling_over(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, HOLD_BIT(telling));
    node->told_to = 0;
}

/* --- retries --- */

struct restaged { /* tasks that are taken back to S, in this turn and at once */
    const struct because *because;
    struct node **list;
    size_t n, cap;
};

static void restaged_add(struct slice *slice, struct restaged *all, struct node *node)
{
    slice_move(slice, node, STATE_S, all->because);
    if (node->row.marks & MARK_CHANGESET)
        changeset_release(slice, node);
    *ARENA_PUSH(slice->arena, all->list, all->n, all->cap) = node;
}

/* Only `depends` passes an end on, so only there can a retry take it back. */
static void dependent_restage(struct slice *slice, struct restaged *all, struct node *waiter, const struct node *node)
{
    bool ended = waiter->row.state == STATE_F || waiter->row.state == STATE_A;
    if (ended && waiter->row.cause == node->row.id && waiter->row.outcome == OUTCOME_none)
        restaged_add(slice, all, waiter);
}

static void waiter_recount(struct slice *slice, struct node *waiter, const struct because *because)
{
    if (waiter->row.marks & MARK_LOOK)
        return;                                                           /* starts nothing */
    if (waiter->row.state == STATE_P && waits_count(slice, waiter) > 0) { /* not started yet: the order is kept */
        holds_drop(slice, waiter, HOLD_BIT(held));
        slice_move(slice, waiter, STATE_S, because);
    }
    if (waiter->row.state != STATE_S)
        return;
    if (!PLANT(retry_no_recount))
        waiter->row.waits = waits_count(slice, waiter);
    waiter->dirty = true;
    task_consider(slice, waiter); /* its place among the waiters for a slot is given up */
}

/* Those who come after the task wait for it again from now on. Of more dependents than this turn may bring back, all
 * come in the next ones (task_return_rest): they have ended, so nothing is counted for them meanwhile. A task of a
 * revision takes all along at once: what is allowed to come back, and in which order, was looked at just now. */
static void restage_waiters(struct slice *slice, struct restaged *all, struct node *node)
{
    size_t n;
    bool later = node->row.rev == 0 && (size_t)node->row.out > slice->tells_left;
    struct edge *outs = later ? slice_outs_others(slice, node, EDGE_DEPENDS, &n) : slice_outs(slice, node, &n);
    int64_t told_to = hold_has(node, HOLD_telling) ? slice_told_to(slice, node) : INT64_MAX;
    telling_over(slice, node); /* who wasn't told of its end waits for the next one */
    holds_drop(slice, node, HOLD_BIT(returning));
    if (later)
        hold_put(slice, node, HOLD_returning, 0, 0);
    slice->telling |= later;
    slice->tells_left -= later ? 0 : n < slice->tells_left ? n : slice->tells_left;
    for (size_t i = 0; i < n; i++) { /* before anything is counted: the same waiter may have another edge */
        struct node *waiter =
            outs[i].kind == EDGE_CANCELS && outs[i].flags & EDGE_FIRED ? slice_find(slice, outs[i].waiter) : NULL;
        if (waiter && outs[i].waiter > told_to && edge_counts(EDGE_CANCELS, outs[i].flags))
            edge_satisfied(slice, waiter, &outs[i]);
        if (waiter)
            slice_edge_flag(slice, waiter, node, EDGE_CANCELS, EDGE_SPENT);
    }
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = outs[i].kind == EDGE_CANCELS ? NULL : slice_find(slice, outs[i].waiter);
        if (waiter && outs[i].flags & EDGE_PLACED) /* the task has another place now */
            slice_edge_unflag(slice, waiter, node, outs[i].kind, EDGE_PLACED);
        if (waiter && outs[i].kind == EDGE_DEPENDS)
            dependent_restage(slice, all, waiter, node);
        if (waiter)
            waiter_recount(slice, waiter, all->because);
    }
}

bool dependency_lost(struct slice *slice, struct node *pred)
{
    if (pred->row.state != STATE_D)
        return state_ended(pred->row.state);
    const struct changeset *row = changeset_of(slice, pred);
    return row && row->rolled_back_by;
}

static const struct node *dependency_failed(struct slice *slice, struct node *node)
{
    size_t n;
    struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = ins[i].kind == EDGE_DEPENDS ? slice_find(slice, ins[i].pred) : NULL;
        if (pred && dependency_lost(slice, pred))
            return pred;
    }
    return NULL;
}

/* What comes back with them, and so on; then all of them are looked at. */
static void restaged_settle(struct slice *slice, struct restaged *all)
{
    for (size_t i = 0; i < all->n; i++)
        restage_waiters(slice, all, all->list[i]);
    for (size_t i = 0; i < all->n; i++)
        places_settled(slice, all->list[i]);
    changesets_again(slice, all->list, all->n);
    /* all, before any of them ends again */
    for (size_t i = 0; i < all->n; i++)
        all->list[i]->row.waits = waits_count(slice, all->list[i]);
    for (size_t i = 0; i < all->n; i++)
        *ARRAY_ADD(slice->arena, slice->restaged) = all->list[i];
    for (size_t i = 0; i < all->n; i++) {
        const struct node *failed = dependency_failed(slice, all->list[i]);
        if (failed)
            task_pass_on(slice, all->list[i], failed); /* another one it depends on has failed too */
        else
            task_consider(slice, all->list[i]);
    }
}

void task_restage(struct slice *slice, struct node *node, const struct because *because)
{
    struct restaged all = { .because = because };
    node->row.base = node->row.attempts;
    node->row.not_before = 0;
    restaged_add(slice, &all, node);
    node->row.waits = waits_count(slice, node);
    restaged_settle(slice, &all);
}

void task_return_rest(struct slice *slice, struct node *node)
{
    struct because because = {
        .actor = by_engine.actor, .reason = STR("a dependency was retried"), .cause = node->row.id
    };
    struct restaged all = { .because = &because };
    size_t n, most = slice->tells_left, n_holds;
    bool more;
    int64_t at = 0;
    const struct hold *holds = slice_holds_of_task(slice, node->row.id, &n_holds);
    for (size_t i = 0; i < n_holds; i++)
        if (holds[i].kind == HOLD_returning)
            at = holds[i].rank;
    slice->telling |= most == 0;
    if (most == 0 || !hold_has(node, HOLD_returning))
        return;
    const struct edge *outs = slice_outs_after(slice, node, at, most, &n, &more);
    slice->tells_left -= n < most ? n : most;
    holds_drop(slice, node, HOLD_BIT(returning));
    bool again = more;
    if (PLANT(returns_once))
        again = false;
    if (again)
        hold_put(slice, node, HOLD_returning, 0, outs[n - 1].waiter);
    slice->telling |= more;
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = outs[i].kind == EDGE_DEPENDS ? slice_find(slice, outs[i].waiter) : NULL;
        if (waiter)
            dependent_restage(slice, &all, waiter, node);
    }
    restaged_settle(slice, &all);
}

/* --- the consequences --- */

void task_pass_on(struct slice *slice, struct node *waiter, const struct node *node)
{
    bool abandoned = node->row.state == STATE_A && !(waiter->row.marks & MARK_CHANGESET);
    enum task_state to = abandoned ? STATE_A : STATE_F;
    struct str reason = node->row.state == STATE_F   ? STR("a dependency failed")
                        : node->row.state == STATE_T ? STR("a dependency was terminated")
                        : node->row.state == STATE_D ? STR("a dependency was rolled back")
                                                     : STR("a dependency was abandoned");
    if (waiter->row.state != STATE_S && waiter->row.state != STATE_Q)
        return;
    task_end(slice, waiter, to, OUTCOME_none,
        &(struct because){ .actor = by_engine.actor, .reason = reason, .cause = node->row.id });
}

enum { TELLS_ALL = 1 << 30 };

struct out_rank { /* an edge to be settled: by the waiter's revision, then as they stand */
    int64_t rev;
    size_t at;
};

static int by_revision(const void *a, const void *b)
{
    const struct out_rank *x = a, *y = b;
    if (x->rev != y->rev)
        return x->rev < y->rev ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Among equal tasks the older revision goes first, even if it was posted later. Edges are in the order of the waiters'
 * ids, so usually nothing moves. */
static struct edge *outs_by_revision(struct slice *slice, const struct node *node, struct edge *outs, size_t n)
{
    bool sorted = true;
    if (node->row.rev == 0 || n < 2)
        return outs;
    struct edge *edges = ARENA_ARRAY(slice->arena, struct edge, n);
    struct out_rank *ranks = ARENA_ARRAY(slice->arena, struct out_rank, n);
    for (size_t i = 0; i < n; i++) {
        const struct node *waiter = slice_find(slice, outs[i].waiter);
        ranks[i] = (struct out_rank){ waiter ? waiter->row.rev : 0, i };
        sorted &= i == 0 || ranks[i - 1].rev <= ranks[i].rev;
    }
    if (!sorted)
        qsort(ranks, n, sizeof *ranks, by_revision);
    for (size_t i = 0; i < n; i++)
        edges[i] = outs[ranks[i].at];
    return edges;
}

/* Informs the waiter of this edge that the task has ended. */
static void edge_tell(struct slice *slice, struct node *waiter, struct node *node, const struct edge *edge)
{
    if (!edge_counts(edge->kind, edge->flags))
        return;
    if (edge->kind == EDGE_DEPENDS && node->row.marks & MARK_OUTPUTS)
        waiter->row.marks |= MARK_NEEDS;
    bool satisfied = edge->kind != EDGE_DEPENDS || node->row.state == STATE_D;
    if (PLANT(depends_any_end))
        satisfied = true;
    if (satisfied)
        edge_satisfied(slice, waiter, edge);
    else
        task_pass_on(slice, waiter, node);
}

static struct node *edge_waiter(struct slice *slice, const struct edge *edge) /* NULL: it has ended */
{
    struct node *waiter = slice_find(slice, edge->waiter);
    return waiter && !state_ended(waiter->row.state) ? waiter : NULL;
}

/* These waiters inherit the task's edges and are informed that it has ended. */
static void outs_tell(struct slice *slice, struct node *node, struct edge *outs, size_t n)
{
    bool later = false;
    if (PLANT(heirs_first_only))
        later = hold_has(node, HOLD_telling);
    if (!later)
        lock_hand_on(slice, node, outs, n);
    outs = outs_by_revision(slice, node, outs, n);
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = edge_waiter(slice, &outs[i]);
        if (!waiter)
            continue;
        if (!later)
            edge_inherit(slice, waiter, node, &outs[i]);
        edge_tell(slice, waiter, node, &outs[i]);
    }
}

/* More tasks wait for it than one turn informs: those with the smallest numbers are informed now, the others in the
 * next turns. Until then the task counts as not ended for them (slice_edge_open) and keeps its place in every order
 * (core/heirs.h). */
static void propagate_part(struct slice *slice, struct node *node)
{
    bool begun = hold_has(node, HOLD_telling), more = true;
    size_t n = 0, most = slice->tells_left;
    int64_t told_to = begun ? slice_told_to(slice, node) : 0;
    struct edge *outs = most ? slice_outs_after(slice, node, told_to, most, &n, &more) : NULL;
    if (n)
        told_to = outs[n - 1].waiter;
    slice->tells_left -= n < most ? n : most;
    outs_tell(slice, node, outs, n);
    slice->telling |= more;
    if (begun && (n || !more))
        telling_over(slice, node);
    if (!more || (begun && !n))
        return;
    hold_put(slice, node, HOLD_telling, leaves_something(slice, node) ? TELLING_HEIRS : TELLING_ENDS, told_to);
    node->told_to = told_to + 1;
}

static void propagate(struct slice *slice, struct node *node)
{
    size_t n, out = (size_t)node->row.out;
    node->untold = false;
    if (hold_has(node, HOLD_telling) || out > slice->tells_left) {
        propagate_part(slice, node);
        return;
    }
    slice->tells_left -= out;
    struct edge *outs = slice_outs(slice, node, &n);
    outs_tell(slice, node, outs, n);
}

void task_tell_all(struct slice *slice, struct node *node)
{
    size_t left = slice->tells_left;
    if (!hold_has(node, HOLD_telling))
        return;
    slice->tells_left = TELLS_ALL;
    propagate(slice, node);
    slice->tells_left = left;
}

void slice_settle(struct slice *slice)
{
    size_t i = 0;
    while ((i < slice->todo.n || (slice->slots_todo.n && slice->looks_left)) && !slice->failed) {
        if (i < slice->todo.n) {
            struct node *node = slice->todo.at[i++];
            node->in_todo = false;
            if (!state_ended(node->row.state))
                consider(slice, node);
            else if (node->untold || hold_has(node, HOLD_telling))
                propagate(slice, node); /* waiters are informed of an end only once */
        } else {
            slot_admit(slice, slice_slot_next(slice));
        }
    }
    slice->todo.n = 0;
}
