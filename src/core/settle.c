#include "core/settle.h"

#include <stdlib.h>

#include "base/plant.h"
#include "core/verdict.h"

static const struct because by_engine = { .actor = { "engine", 6 } };

static void todo_add(struct slice *slice, struct node *node)
{
    if (node->in_todo) return;
    node->in_todo = true;
    *ARENA_PUSH(slice->arena, slice->todo, slice->n_todo, slice->cap_todo) = node;
}

void task_consider(struct slice *slice, struct node *node)
{
    todo_add(slice, node);
}

void slot_changed(struct slice *slice, int64_t slot)
{
    slice_slot_todo(slice, slot);
}

/* --- holds ------------------------------------------------------------------------------------------------------------------ */

static bool held(const struct node *node, enum hold_kind kind)
{
    return (node->row.holds & (1u << kind)) != 0;
}

/* Takes all of a task's holds of the kinds in `mask` away; slots it had, or waited for, are looked at again. */
static void holds_drop(struct slice *slice, struct node *node, unsigned mask)
{
    if (!(node->row.holds & mask)) return;
    size_t n;
    struct hold *holds = slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++) {
        if (!(mask & (1u << holds[i].kind))) continue;
        if (!PLANT(hold_rows_left) || holds[i].kind != HOLD_time) slice_hold_remove(slice, &holds[i]);
        if (holds[i].kind == HOLD_slot) slice_slot(slice, holds[i].key)->waiting--;
        if (holds[i].kind == HOLD_held) slice_slot(slice, holds[i].key)->used--;
        if (holds[i].kind == HOLD_slot || holds[i].kind == HOLD_held) slot_changed(slice, holds[i].key);
    }
    node->row.holds &= ~mask;
    node->dirty = true;
}

static void hold_put(struct slice *slice, struct node *node, enum hold_kind kind, int64_t key, int64_t rank)
{
    slice_hold_add(slice, &(struct hold){ .kind = kind, .key = key, .rank = rank, .task = node->row.id, .since = slice->now });
    node->row.holds |= 1u << kind;
    node->dirty = true;
}

enum {
    BIT_TIME = 1u << HOLD_time,
    BIT_PAUSE = 1u << HOLD_pause,
    BIT_SLOT = 1u << HOLD_slot,
    BIT_HELD = 1u << HOLD_held,
    BIT_EXECUTOR = 1u << HOLD_executor,
    BIT_TELLING = 1u << HOLD_telling,
    BIT_RETURNING = 1u << HOLD_returning,
};

const struct lane *lane_closed(struct slice *slice, int64_t lane)
{
    const struct lane *all = slice_lane(slice, 0), *own = slice_lane(slice, lane);
    return all->paused_since ? all : own->paused_since ? own : NULL;
}

/* A back-off is a duration: when the wall clock was set back meanwhile it doesn't grow by that. */
static void backoff_limit(struct slice *slice, struct node *node)
{
    int64_t tries = node->row.attempts - node->row.base;
    if (tries <= 0 || node->row.not_before <= slice->now) return;
    int64_t longest = slice->now + backoff_ms(slice_spec(slice, node)->backoff_ms, tries);
    if (node->row.not_before > longest) node->row.not_before = longest;
}

/* Time and pause are what the calendar and people say: looked at anew each time. True: nothing of that kind is in the way. */
static bool gates_open(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, BIT_TIME | BIT_PAUSE);
    backoff_limit(slice, node);
    bool open = true;
    if (node->row.not_before > slice->now) {
        hold_put(slice, node, HOLD_time, node->row.not_before, 0);
        open = false;
    }
    const struct lane *closed = lane_closed(slice, node->row.lane);
    if (closed) {
        hold_put(slice, node, HOLD_pause, closed->id, 0);
        open = false;
    }
    return open;
}

/* --- slots: semaphores and concurrency keys ------------------------------------------------------------------------------------ */

/* Larger priorities first, then first come first served; the same order in every queue, so that two tasks never wait for each other. */
static int64_t slot_rank(struct slice *slice, const struct node *node)
{
    return ((1000 - node->row.prio) << 52) | (++slice->arrivals & 0xfffffffffffff);
}

struct wants { /* the slots that a task takes, ascending */
    const int64_t *ids;
    size_t n;
};

/* Those of its spec, and where its tenant's running tasks are limited the one that stands for that. */
static struct wants slots_wanted(struct slice *slice, const struct node *node)
{
    const struct spec *spec = slice_spec(slice, node);
    int64_t quota = slice_lane(slice, node->row.lane)->quota;
    if (!quota) return (struct wants){ spec->slots, spec->n_slots };
    int64_t *ids = ARENA_ARRAY(slice->arena, int64_t, spec->n_slots + 1);
    size_t n = 0;
    for (size_t i = 0; i < spec->n_slots && spec->slots[i] < quota; i++) ids[n++] = spec->slots[i];
    ids[n++] = quota;
    for (size_t i = n - 1; i < spec->n_slots; i++) ids[n++] = spec->slots[i];
    return (struct wants){ ids, n };
}

static void slots_take(struct slice *slice, struct node *node, struct wants wants)
{
    for (size_t i = 0; i < wants.n; i++) {
        slice_slot(slice, wants.ids[i])->used++;
        hold_put(slice, node, HOLD_held, wants.ids[i], 0);
    }
}

/* Could anybody start it? Who can't be started takes no slot from those who can: it waits for its executor first, then for its slots. */
static bool served(struct slice *slice, struct node *node)
{
    slice_class(slice, node);
    return slice->rows->served(slice->rows->owner, node->row.class_id) || PLANT(slots_unserved);
}

/* All or none, and never past somebody who was there first. */
static bool slots_get(struct slice *slice, struct node *node)
{
    struct wants wants = slots_wanted(slice, node);
    bool goes_on = wants.n == 0 || served(slice, node);
    holds_drop(slice, node, goes_on ? BIT_EXECUTOR : BIT_SLOT | BIT_HELD);
    if (!goes_on && !held(node, HOLD_executor)) hold_put(slice, node, HOLD_executor, node->row.class_id, slot_rank(slice, node));
    if (!goes_on) return false;
    if (wants.n == 0 || held(node, HOLD_held)) return true;
    if (held(node, HOLD_slot)) return false; /* its turn comes through slot_admit */
    bool room = true;
    for (size_t i = 0; i < wants.n; i++) {
        const struct slot *slot = slice_slot_for(slice, node, wants.ids[i]);
        room &= slot->used < slot->limit && (slot->waiting == 0 || PLANT(slot_overtake));
    }
    if (room) {
        slots_take(slice, node, wants);
        return true;
    }
    int64_t rank = slot_rank(slice, node);
    for (size_t i = 0; i < wants.n; i++) {
        slice_slot(slice, wants.ids[i])->waiting++;
        hold_put(slice, node, HOLD_slot, wants.ids[i], rank);
        slot_changed(slice, wants.ids[i]); /* a larger priority may have put it first, with room for it */
    }
    return false;
}

int64_t slot_reach(const struct slot *slot)
{
    int64_t room = slot->limit - slot->used;
    if (room < 0 && PLANT(limit_overrun)) return 1;
    return room <= 0 ? 0 : room < SLOT_REACH_MAX ? room : SLOT_REACH_MAX;
}

/* May a waiter go? Only when every slot it wants has room for it behind those who were there first. */
static bool slots_room(struct slice *slice, const struct node *node, struct wants wants)
{
    for (size_t i = 0; i < wants.n; i++) {
        const struct slot *slot = slice_slot(slice, wants.ids[i]);
        size_t reach = (size_t)slot_reach(slot);
        if (!reach || !slice_hold_is_first(slice, HOLD_slot, slot->id, reach, node->row.id)) return false;
    }
    return true;
}

/* It began to wait before its tenant's running tasks were limited: it isn't in that queue yet. */
static bool quota_unasked(struct slice *slice, const struct node *node)
{
    int64_t quota = slice_lane(slice, node->row.lane)->quota;
    if (!quota) return false;
    size_t n;
    const struct hold *holds = slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind == HOLD_slot && holds[i].key == quota) return false;
    return true;
}

static bool slot_admit_one(struct slice *slice, int64_t id)
{
    const struct slot *slot = slice_slot(slice, id);
    size_t reach = (size_t)slot_reach(slot);
    struct hold first[SLOT_REACH_MAX];
    if (slot->waiting == 0 || reach == 0 || slice->failed || PLANT(slot_unwaited)) return false;
    slice->looks_left--;
    size_t n = slice_holds_first(slice, HOLD_slot, id, reach, first);
    for (size_t k = 0; k < n && (k == 0 || !PLANT(slot_first_only)); k++) {
        struct node *node = slice_find(slice, first[k].task);
        if (!node) continue;
        struct wants wants = slots_wanted(slice, node);
        /* paused since, or its executors are gone, or the clock was set back: it comes back when that is over */
        bool gives_way = lane_closed(slice, node->row.lane) || node->row.not_before > slice->now || !served(slice, node) ||
                         quota_unasked(slice, node);
        if (!gives_way && !slots_room(slice, node, wants)) continue;
        holds_drop(slice, node, BIT_SLOT);
        if (!gives_way) slots_take(slice, node, wants);
        task_consider(slice, node);
        return true;
    }
    return false;
}

/* A long queue is admitted in several turns: each waiter that leaves it has put the slot on the list again (holds_drop). Nobody can go past
 * those who wait meanwhile. */
static void slot_admit(struct slice *slice, int64_t id)
{
    while (slice->looks_left > 0 && slot_admit_one(slice, id)) continue;
}

/* --- cancels ------------------------------------------------------------------------------------------------------------------- */

/* What one task cancels, another one is to cancel; `begun`: also what it has begun to cancel. Those of them that were stopped hand on their
 * own, too. */
static void cancels_copy(struct slice *slice, struct node *heir, struct node *from, bool begun)
{
    struct walk walk = slice_walk(slice, from);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = walk.list[at]->row.marks & MARK_CANCELS ? slice_ins(slice, walk.list[at], &n) : NULL;
        for (size_t i = 0; ins && i < n; i++) {
            if (ins[i].kind != EDGE_CANCELS || ins[i].pred == heir->row.id) continue;
            if (ins[i].flags & EDGE_FIRED && !(begun && at == 0)) continue;
            struct node *other = slice_find(slice, ins[i].pred);
            if (!other) continue;
            bool kept = state_ended(walk.list[at]->row.state) && !(ins[i].flags & (EDGE_FIRED | EDGE_HANDED));
            if (!state_ended(other->row.state)) slice_edge_add(slice, heir, other, EDGE_CANCELS);
            else if (kept || !state_ended(other->was)) slice_walk_add(&walk, other);
        }
    }
}

void cancels_inherit(struct slice *slice, struct node *waiter, struct node *stopped)
{
    if (!(stopped->row.marks & MARK_CANCELS) || PLANT(cancels_not_handed_on)) return;
    cancels_copy(slice, waiter, stopped, false);
    slice_edge_flag(slice, waiter, stopped, EDGE_CANCELS, EDGE_HANDED);
}

/* The task has become ready: what it cancels is put to an end. True: all of it is dead. The list may grow while it is walked. */
static bool cancels_fire(struct slice *slice, struct node *node)
{
    size_t n;
    if (node->row.marks & MARK_CANCELS) slice_ins(slice, node, &n);
    for (size_t i = 0; node->row.marks & MARK_CANCELS && i < node->n_ins; i++) {
        struct edge edge = node->ins[i];
        if (edge.kind != EDGE_CANCELS || (edge.flags & EDGE_FIRED)) continue;
        struct node *other = slice_find(slice, edge.pred);
        if (!other) continue;
        if (!state_ended(other->was)) /* an abandoned task hands all that over to those that cancel it, also if one of them was first */
            cancels_copy(slice, node, other, !state_ended(other->row.state) || other->row.state == STATE_A);
        if (!state_ended(other->row.state)) {
            task_stop(
                slice, other, STATE_A, &(struct because){ .actor = by_engine.actor, .reason = STR("superseded"), .cause = node->row.id });
        }
        if (state_ended(other->row.state)) { /* once and for all: who retries it later means it */
            slice_edge_flag(slice, node, other, EDGE_CANCELS, EDGE_FIRED | EDGE_SPENT);
            continue;
        }
        slice_edge_flag(slice, node, other, EDGE_CANCELS, EDGE_FIRED);
        node->row.waits++;
        node->dirty = true;
    }
    return node->row.waits == 0 || PLANT(cancels_early);
}

void task_unhold(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, BIT_TIME | BIT_PAUSE | BIT_SLOT | BIT_EXECUTOR);
}

/* --- one task ------------------------------------------------------------------------------------------------------------------ */

/* Ready, for cancels: it waits for nothing but the archive's lock (and perhaps for the death of what it cancels). */
static bool cancels_ready(struct slice *slice, struct node *node)
{
    size_t n;
    if (node->row.waits == 0) return true;
    if (!(node->row.marks & MARK_CANCELS) || !(node->row.marks & MARK_LOCKED) || PLANT(cancels_behind_lock)) return false;
    const struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        if (ins[i].kind == EDGE_CANCELS || ins[i].flags & EDGE_LOCK || !edge_counts(ins[i].kind, ins[i].flags)) continue;
        struct node *pred = slice_find(slice, ins[i].pred);
        if (pred && slice_edge_open(slice, &ins[i], pred)) return false;
    }
    return true;
}

static void consider(struct slice *slice, struct node *node)
{
    if (node->row.state == STATE_Q) slice_move(slice, node, STATE_S, &by_engine);
    if (node->row.state != STATE_S) return;
    if (!cancels_ready(slice, node)) { /* looked at again when that is over: nothing else is kept for it, and it keeps nobody waiting */
        holds_drop(slice, node, BIT_TIME | BIT_PAUSE | BIT_SLOT | BIT_HELD | BIT_EXECUTOR);
        return;
    }
    bool skipped = (node->row.marks & MARK_SKIPPED) != 0; /* starts nothing: no gate is in its way */
    if ((!skipped && !gates_open(slice, node)) || !cancels_fire(slice, node) || slice->failed) {
        holds_drop(slice, node, BIT_SLOT | BIT_HELD | BIT_EXECUTOR);
        return;
    }
    if (node->row.class_id) { /* what has nothing to run takes no slots: it is done as soon as it is ready */
        if (slots_get(slice, node) && !slice->failed) slice_move(slice, node, STATE_P, &by_engine);
    } else if (skipped)
        task_end(slice, node, STATE_D, OUTCOME_skipped,
            &(struct because){ .actor = by_engine.actor, .reason = STR("the revision touches none of its paths") });
    else task_end(slice, node, STATE_D, OUTCOME_done, &by_engine); /* nothing to run */
}

void task_end(struct slice *slice, struct node *node, enum task_state to, enum outcome outcome, const struct because *because)
{
    holds_drop(slice, node, BIT_TIME | BIT_PAUSE | BIT_SLOT | BIT_EXECUTOR | (PLANT(slots_kept) ? 0u : BIT_HELD));
    slice_move(slice, node, to, because);
    node->row.outcome = outcome;
    node->row.ending = STATE_NONE;
    node->row.reason = because->reason;
    node->row.cause = because->cause;
    if (!PLANT(unique_kept))
        node->row.unique = (struct str){ 0 }; /* never granted: its key is free again, and isn't reclaimed by a retry */
    if (node->row.out > 0) todo_add(slice, node);
}

void task_stop(struct slice *slice, struct node *node, enum task_state to, const struct because *because)
{
    if (state_ended(node->row.state)) return;
    if (node->row.state != STATE_X) {
        task_end(slice, node, to, OUTCOME_cancelled, because);
        return;
    }
    if (node->row.ending) return;
    node->row.ending = to;
    node->row.reason = because->reason;
    node->row.cause = because->cause;
    slice_node_event(slice, node, EVENT_ending, STATE_X, to, because);
    *ARENA_PUSH(slice->arena, slice->endings, slice->n_endings, slice->cap_endings) = node;
}

/* How many of a task's edges stand in its way, from the edges themselves. */
static int64_t waits_count(struct slice *slice, struct node *node)
{
    int64_t waits = 0;
    size_t n;
    struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = slice_find(slice, ins[i].pred);
        if (!pred) continue; /* pruned: it has ended */
        if (ins[i].kind == EDGE_DEPENDS && pred->row.marks & MARK_OUTPUTS)
            node->row.marks |= MARK_NEEDS; /* they may have come while this one had ended */
        waits += edge_counts(ins[i].kind, ins[i].flags) && slice_edge_open(slice, &ins[i], pred);
    }
    return waits;
}

void task_wait(struct slice *slice, struct node *node, int64_t until, const struct because *because)
{
    holds_drop(slice, node, BIT_HELD);
    node->row.not_before = until;
    node->row.waits = node->row.ins ? waits_count(slice, node) : 0;
    slice_move(slice, node, STATE_S, because);
    task_consider(slice, node);
}

void task_return(struct slice *slice, struct node *node, const struct because *because)
{
    node->row.waits = node->row.ins ? waits_count(slice, node) : 0;
    if (node->row.waits == 0 && (held(node, HOLD_held) ? served(slice, node) : slots_wanted(slice, node).n == 0)) {
        slice_move(slice, node, STATE_P, because);
        return;
    }
    slice_move(slice, node, STATE_S, because); /* what it comes after was retried meanwhile, or its slots or executors are gone */
    task_consider(slice, node);
}

void task_park(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, BIT_HELD);
    slice_move(slice, node, STATE_S, &(struct because){ .actor = by_engine.actor, .reason = STR("paused") });
    task_consider(slice, node);
}

void task_unserved(struct slice *slice, struct node *node)
{
    if (node->row.state != STATE_P || !held(node, HOLD_held) || served(slice, node)) return;
    holds_drop(slice, node, BIT_HELD);
    slice_move(slice, node, STATE_S, &(struct because){ .actor = by_engine.actor, .reason = STR("no executor that fits is active") });
    task_consider(slice, node);
}

static void edge_satisfied(struct slice *slice, struct node *waiter, const struct edge *edge)
{
    if (waiter->row.waits > 0) waiter->row.waits--;
    waiter->dirty = true;
    bool cancels = waiter->row.marks & MARK_CANCELS && waiter->row.marks & MARK_LOCKED && !(edge->flags & EDGE_LOCK);
    if (waiter->row.waits == 0 || cancels) task_consider(slice, waiter);
}

static void telling_over(struct slice *slice, struct node *node)
{
    holds_drop(slice, node, BIT_TELLING);
    node->told_to = 0;
}

/* --- retries ---------------------------------------------------------------------------------------------------------------------- */

struct restaged { /* tasks that are taken back to S, in this turn and at once */
    const struct because *because;
    struct node **list;
    size_t n, cap;
};

static void restaged_add(struct slice *slice, struct restaged *all, struct node *node)
{
    slice_move(slice, node, STATE_S, all->because);
    *ARENA_PUSH(slice->arena, all->list, all->n, all->cap) = node;
}

/* Only `depends` passes an end on, so only there can a retry take it back. */
static void dependent_restage(struct slice *slice, struct restaged *all, struct node *waiter, const struct node *node)
{
    bool ended = waiter->row.state == STATE_F || waiter->row.state == STATE_A;
    if (ended && waiter->row.cause == node->row.id && waiter->row.outcome == OUTCOME_none) restaged_add(slice, all, waiter);
}

static void waiter_recount(struct slice *slice, struct node *waiter, const struct because *because)
{
    if (waiter->row.state == STATE_P && waits_count(slice, waiter) > 0) { /* not started yet: the order is kept */
        holds_drop(slice, waiter, BIT_HELD);
        slice_move(slice, waiter, STATE_S, because);
    }
    if (waiter->row.state != STATE_S) return;
    if (!PLANT(retry_no_recount)) waiter->row.waits = waits_count(slice, waiter);
    waiter->dirty = true;
    task_consider(slice, waiter); /* its place among the waiters for a slot is given up */
}

/* Those who come after the task wait for it again from now on. Of more dependents than this turn may bring back, all come in the next ones
 * (task_return_rest): they have ended, so nothing is counted for them meanwhile. A task of a revision takes all along at once: what is
 * allowed to come back, and in which order, was looked at just now. */
static void restage_waiters(struct slice *slice, struct restaged *all, struct node *node)
{
    size_t n;
    bool later = node->row.rev == 0 && (size_t)node->row.out > slice->tells_left;
    struct edge *outs = later ? slice_outs_others(slice, node, EDGE_DEPENDS, &n) : slice_outs(slice, node, &n);
    int64_t told_to = held(node, HOLD_telling) ? slice_told_to(slice, node) : INT64_MAX;
    telling_over(slice, node); /* who wasn't told of its end waits for the next one */
    holds_drop(slice, node, BIT_RETURNING);
    if (later) hold_put(slice, node, HOLD_returning, 0, 0);
    slice->telling |= later;
    slice->tells_left -= later ? 0 : n < slice->tells_left ? n : slice->tells_left;
    for (size_t i = 0; i < n; i++) { /* before anything is counted: the same waiter may have another edge */
        struct node *waiter = outs[i].kind == EDGE_CANCELS && outs[i].flags & EDGE_FIRED ? slice_find(slice, outs[i].waiter) : NULL;
        if (waiter && outs[i].waiter > told_to && edge_counts(EDGE_CANCELS, outs[i].flags)) edge_satisfied(slice, waiter, &outs[i]);
        if (waiter) slice_edge_flag(slice, waiter, node, EDGE_CANCELS, EDGE_SPENT);
    }
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = outs[i].kind == EDGE_CANCELS ? NULL : slice_find(slice, outs[i].waiter);
        if (waiter && outs[i].kind == EDGE_DEPENDS) dependent_restage(slice, all, waiter, node);
        if (waiter) waiter_recount(slice, waiter, all->because);
    }
}

static const struct node *dependency_failed(struct slice *slice, struct node *node)
{
    size_t n;
    struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        const struct node *pred = ins[i].kind == EDGE_DEPENDS ? slice_find(slice, ins[i].pred) : NULL;
        if (pred && state_ended(pred->row.state) && pred->row.state != STATE_D) return pred;
    }
    return NULL;
}

/* What comes back with them, and so on; then all of them are looked at. */
static void restaged_settle(struct slice *slice, struct restaged *all)
{
    for (size_t i = 0; i < all->n; i++) restage_waiters(slice, all, all->list[i]);
    for (size_t i = 0; i < all->n; i++) all->list[i]->row.waits = waits_count(slice, all->list[i]); /* all, before any of them ends again */
    for (size_t i = 0; i < all->n; i++)
        *ARENA_PUSH(slice->arena, slice->restaged, slice->n_restaged, slice->cap_restaged) = all->list[i];
    for (size_t i = 0; i < all->n; i++) {
        const struct node *failed = dependency_failed(slice, all->list[i]);
        if (failed) task_pass_on(slice, all->list[i], failed); /* another one it depends on has failed too */
        else task_consider(slice, all->list[i]);
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
    struct because because = { .actor = by_engine.actor, .reason = STR("a dependency was retried"), .cause = node->row.id };
    struct restaged all = { .because = &because };
    size_t n, most = slice->tells_left, n_holds;
    bool more;
    int64_t at = 0;
    const struct hold *holds = slice_holds_of_task(slice, node->row.id, &n_holds);
    for (size_t i = 0; i < n_holds; i++)
        if (holds[i].kind == HOLD_returning) at = holds[i].rank;
    slice->telling |= most == 0;
    if (most == 0 || !held(node, HOLD_returning)) return;
    const struct edge *outs = slice_outs_after(slice, node, at, most, &n, &more);
    slice->tells_left -= n < most ? n : most;
    holds_drop(slice, node, BIT_RETURNING);
    if (more && !PLANT(returns_once)) hold_put(slice, node, HOLD_returning, 0, outs[n - 1].waiter);
    slice->telling |= more;
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = outs[i].kind == EDGE_DEPENDS ? slice_find(slice, outs[i].waiter) : NULL;
        if (waiter) dependent_restage(slice, &all, waiter, node);
    }
    restaged_settle(slice, &all);
}

/* --- the consequences ----------------------------------------------------------------------------------------------------------- */

void task_pass_on(struct slice *slice, struct node *waiter, const struct node *node)
{
    enum task_state to = node->row.state == STATE_A ? STATE_A : STATE_F;
    struct str reason = node->row.state == STATE_F   ? STR("a dependency failed")
                        : node->row.state == STATE_T ? STR("a dependency was terminated")
                                                     : STR("a dependency was abandoned");
    if (waiter->row.state != STATE_S && waiter->row.state != STATE_Q) return;
    task_end(slice, waiter, to, OUTCOME_none, &(struct because){ .actor = by_engine.actor, .reason = reason, .cause = node->row.id });
}

struct out_rank { /* an edge to be settled: by the waiter's revision, then as they stand */
    int64_t rev;
    size_t at;
};

static int by_revision(const void *a, const void *b)
{
    const struct out_rank *x = a, *y = b;
    if (x->rev != y->rev) return x->rev < y->rev ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Among equals the older revision goes first, also when it was heard of later. Edges stand by the waiter's id, so mostly nothing moves. */
static struct edge *outs_by_revision(struct slice *slice, const struct node *node, struct edge *outs, size_t n)
{
    bool sorted = true;
    if (node->row.rev == 0 || n < 2) return outs;
    struct edge *edges = ARENA_ARRAY(slice->arena, struct edge, n);
    struct out_rank *ranks = ARENA_ARRAY(slice->arena, struct out_rank, n);
    for (size_t i = 0; i < n; i++) {
        const struct node *waiter = slice_find(slice, outs[i].waiter);
        ranks[i] = (struct out_rank){ waiter ? waiter->row.rev : 0, i };
        sorted &= i == 0 || ranks[i - 1].rev <= ranks[i].rev;
    }
    if (!sorted) qsort(ranks, n, sizeof *ranks, by_revision);
    for (size_t i = 0; i < n; i++) edges[i] = outs[ranks[i].at];
    return edges;
}

bool locks_clash(const struct task *a, const struct task *b)
{
    return a->lane == b->lane && a->marks & MARK_LOCKED && b->marks & MARK_LOCKED && (a->marks | b->marks) & MARK_EXCLUSIVE;
}

/* Those that were stopped in an earlier turn have handed on what they knew; those of this very turn may not have yet. */
static bool hands_on_later(const struct node *node)
{
    return state_ended(node->row.state) && !state_ended(node->was) && node->row.waits > 0;
}

struct lock_before { /* those that a stopped task waited for by the archive's lock, and that haven't ended */
    struct node **alone, **shared;
    size_t n_alone, cap_alone, n_shared, cap_shared;
};

/* A waiter with a shared lock stands for the tasks it waits for itself: further shared waiters wait for those tasks, not for it. */
static void lock_before_find(struct slice *slice, struct node *stopped, struct lock_before *out)
{
    struct walk walk = slice_walk(slice, stopped);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            struct node *before = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(slice, ins[i].pred) : NULL;
            bool counts = before && before->row.marks & MARK_LOCKED && before->row.lane == stopped->row.lane;
            if (!counts || before->visit == walk.visit) continue;
            bool ended = state_ended(before->row.state), alone = (before->row.marks & MARK_EXCLUSIVE) != 0 || PLANT(lock_shared_waits);
            if (ended ? hands_on_later(before) : !alone && before->row.state != STATE_X) slice_walk_add(&walk, before);
            else before->visit = walk.visit;
            if (!ended && alone) *ARENA_PUSH(slice->arena, out->alone, out->n_alone, out->cap_alone) = before;
            else if (!ended) *ARENA_PUSH(slice->arena, out->shared, out->n_shared, out->cap_shared) = before;
        }
    }
}

/* A task that is stopped while it waits for the archive's lock leaves its place: who comes after it comes after those before it. Shared
 * locks don't wait for each other, so what waits for a shared one behind it, and clashes with a shared one before it, needs its own edge.
 */
static void lock_hand_on(struct slice *slice, struct node *stopped)
{
    struct lock_before before = { 0 };
    if (!(stopped->row.marks & MARK_LOCKED) || stopped->row.waits == 0 || PLANT(lock_not_handed_on)) return;
    lock_before_find(slice, stopped, &before);
    struct walk walk = slice_walk(slice, stopped);
    for (size_t at = 0; at < walk.n && before.n_alone + before.n_shared > 0; at++) {
        size_t n;
        const struct edge *outs = slice_outs(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            bool waits = outs[i].kind != EDGE_CANCELS && edge_counts(outs[i].kind, outs[i].flags);
            struct node *after = waits ? slice_find(slice, outs[i].waiter) : NULL;
            if (!after || after->visit == walk.visit || !(after->row.marks & MARK_LOCKED) || after->row.lane != stopped->row.lane) continue;
            if (state_ended(after->row.state) || after->row.state == STATE_X) continue; /* who runs has the lock */
            bool alone = (after->row.marks & MARK_EXCLUSIVE) != 0;
            for (size_t k = 0; k < before.n_alone && (at == 0 || alone); k++) slice_edge_add_lock(slice, after, before.alone[k]);
            for (size_t k = 0; k < before.n_shared && alone; k++) slice_edge_add_lock(slice, after, before.shared[k]);
            if (alone || before.n_shared == 0) after->visit = walk.visit;
            else slice_walk_add(&walk, after);
        }
    }
}

void prev_inherit(struct slice *slice, struct node *waiter, struct node *stopped)
{
    if (stopped->row.waits == 0 || PLANT(prev_not_handed_on)) return;
    struct walk walk = slice_walk(slice, stopped);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            bool prev = ins[i].flags & EDGE_PREV && edge_counts(ins[i].kind, ins[i].flags);
            struct node *before = prev ? slice_find(slice, ins[i].pred) : NULL;
            if (!before || before == waiter) continue;
            if (!state_ended(before->row.state)) slice_edge_add_prev(slice, waiter, before, EDGE_AFTER);
            else if (before->row.waits > 0 && !(ins[i].flags & EDGE_HANDED)) slice_walk_add(&walk, before);
        }
    }
    slice_edge_flag(slice, waiter, stopped, EDGE_AFTER, EDGE_HANDED);
    slice_edge_flag(slice, waiter, stopped, EDGE_DEPENDS, EDGE_HANDED);
}

/* What the task leaves to the waiter of this edge. */
static void edge_inherit(struct slice *slice, struct node *waiter, struct node *node, const struct edge *edge)
{
    if (edge->kind == EDGE_CANCELS && !(edge->flags & EDGE_FIRED)) cancels_inherit(slice, waiter, node);
    if (edge->flags & EDGE_PREV && edge_counts(edge->kind, edge->flags) && waiter->row.state != STATE_X) prev_inherit(slice, waiter, node);
}

/* The waiter of this edge is told that the task has ended. */
static void edge_tell(struct slice *slice, struct node *waiter, struct node *node, const struct edge *edge)
{
    if (!edge_counts(edge->kind, edge->flags)) return;
    if (edge->kind == EDGE_DEPENDS && node->row.marks & MARK_OUTPUTS) waiter->row.marks |= MARK_NEEDS;
    if (edge->kind != EDGE_DEPENDS || node->row.state == STATE_D || PLANT(depends_any_end)) edge_satisfied(slice, waiter, edge);
    else task_pass_on(slice, waiter, node);
}

static struct node *edge_waiter(struct slice *slice, const struct edge *edge) /* NULL: it has ended */
{
    struct node *waiter = slice_find(slice, edge->waiter);
    return waiter && !state_ended(waiter->row.state) ? waiter : NULL;
}

/* Has it ended with anything in hand that those behind it take over? Who ran has nothing. */
static bool leaves_something(struct slice *slice, struct node *node)
{
    size_t n = 0;
    const struct edge *ins = node->row.marks & MARK_CANCELS ? slice_ins(slice, node, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        if (ins[i].kind == EDGE_CANCELS && !(ins[i].flags & EDGE_FIRED)) return true;
    return node->row.waits > 0 && (node->row.rev || node->row.marks & MARK_LOCKED);
}

/* There are more who wait for it than this turn may tell: those with the smallest numbers are told, the others in the next turns. Until
 * then the end hasn't come for them (slice_edge_open). What it leaves behind is handed on now: an order must never have a gap, in which
 * another turn could close a circle. */
static void propagate_part(struct slice *slice, struct node *node)
{
    bool begun = held(node, HOLD_telling), more = true;
    size_t n = 0, most = slice->tells_left;
    int64_t told_to = begun ? slice_told_to(slice, node) : 0;
    if (!begun && leaves_something(slice, node)) {
        lock_hand_on(slice, node);
        struct edge *outs = slice_outs(slice, node, &n);
        outs = outs_by_revision(slice, node, outs, n);
        for (size_t i = 0; i < n; i++) {
            struct node *waiter = edge_waiter(slice, &outs[i]);
            if (waiter) edge_inherit(slice, waiter, node, &outs[i]);
        }
        n = 0;
    }
    struct edge *outs = most ? slice_outs_after(slice, node, told_to, most, &n, &more) : NULL;
    if (n) told_to = outs[n - 1].waiter;
    slice->tells_left -= n < most ? n : most;
    outs = outs_by_revision(slice, node, outs, n);
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = edge_waiter(slice, &outs[i]);
        if (waiter) edge_tell(slice, waiter, node, &outs[i]);
    }
    slice->telling |= more;
    if (begun && (n || !more)) telling_over(slice, node);
    if (!more || (begun && !n)) return;
    hold_put(slice, node, HOLD_telling, 0, told_to);
    node->told_to = told_to + 1;
}

static void propagate(struct slice *slice, struct node *node)
{
    size_t n, out = (size_t)node->row.out;
    node->untold = false;
    if (held(node, HOLD_telling) || out > slice->tells_left) {
        propagate_part(slice, node);
        return;
    }
    slice->tells_left -= out;
    lock_hand_on(slice, node);
    struct edge *outs = slice_outs(slice, node, &n);
    outs = outs_by_revision(slice, node, outs, n);
    for (size_t i = 0; i < n; i++) {
        struct node *waiter = edge_waiter(slice, &outs[i]);
        if (!waiter) continue;
        edge_inherit(slice, waiter, node, &outs[i]);
        edge_tell(slice, waiter, node, &outs[i]);
    }
}

void slice_settle(struct slice *slice)
{
    size_t i = 0;
    while ((i < slice->n_todo || (slice->n_slots_todo && slice->looks_left)) && !slice->failed) {
        if (i < slice->n_todo) {
            struct node *node = slice->todo[i++];
            node->in_todo = false;
            if (!state_ended(node->row.state)) consider(slice, node);
            else if (node->untold || held(node, HOLD_telling)) propagate(slice, node); /* an end is told once */
        } else {
            slot_admit(slice, slice_slot_next(slice));
        }
    }
    slice->n_todo = 0;
}
