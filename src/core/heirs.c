#include "core/heirs.h"

#include "base/plant.h"

/* --- cancels --- */

/* Those of them that were stopped hand on their own, too. */
void cancels_copy(struct slice *slice, struct node *heir, struct node *from, bool begun)
{
    struct walk walk = slice_walk(slice, from);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = walk.list[at]->row.marks & MARK_CANCELS ? slice_ins(slice, walk.list[at], &n) : NULL;
        for (size_t i = 0; ins && i < n; i++) {
            if (ins[i].kind != EDGE_CANCELS || ins[i].pred == heir->row.id)
                continue;
            if (ins[i].flags & EDGE_FIRED && !(begun && at == 0))
                continue;
            struct node *other = slice_find(slice, ins[i].pred);
            if (!other)
                continue;
            bool kept = state_ended(walk.list[at]->row.state) && !(ins[i].flags & (EDGE_FIRED | EDGE_HANDED));
            if (!state_ended(other->row.state))
                slice_edge_add(slice, heir, other, EDGE_CANCELS);
            else if (kept || !state_ended(other->was) || slice_untold(slice, &ins[i], other))
                slice_walk_add(&walk, other);
        }
    }
}

void cancels_inherit(struct slice *slice, struct node *waiter, struct node *stopped)
{
    if (PLANT(cancels_not_handed_on))
        return;
    if (!(stopped->row.marks & MARK_CANCELS))
        return;
    cancels_copy(slice, waiter, stopped, false);
    slice_edge_flag(slice, waiter, stopped, EDGE_CANCELS, EDGE_HANDED);
}

/* --- order --- */

bool locks_clash(const struct task *a, const struct task *b)
{
    return a->lane == b->lane && a->marks & MARK_LOCKED && b->marks & MARK_LOCKED &&
           (a->marks | b->marks) & MARK_EXCLUSIVE;
}

/* `before` has ended, and `at`, which waited for it, hasn't taken over its place: it ended in this turn, or `at` isn't
 * told of it so far, or `at` had ended first, and still stands in its own place for some. */
static bool heir_due(struct slice *slice, const struct node *at, const struct edge *edge, struct node *before)
{
    if (!state_ended(before->row.state) || before->row.waits == 0)
        return false;
    if (!state_ended(before->was))
        return true;
    return state_ended(at->row.state) ? !(edge->flags & EDGE_PLACED) : slice_untold(slice, edge, before);
}

/* The edge's waiter has not been told that `pred` has ended: for this waiter, `pred` still stands in its place. */
static bool stands_for(struct slice *slice, const struct edge *edge, struct node *pred)
{
    return pred->untold || slice_untold(slice, edge, pred);
}

struct lock_before { /* those that a stopped task waited for by the archive's lock, and that haven't ended */
    struct node **alone, **shared;
    size_t n_alone, cap_alone, n_shared, cap_shared;
};

/* A waiter with a shared lock stands for the tasks it waits for itself: further shared waiters wait for those tasks,
 * not for it. */
static void lock_before_find(struct slice *slice, struct node *stopped, struct lock_before *out)
{
    struct walk walk = slice_walk(slice, stopped);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            struct node *before = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(slice, ins[i].pred) : NULL;
            bool counts = before && before->row.marks & MARK_LOCKED && before->row.lane == stopped->row.lane;
            if (!counts || before->visit == walk.visit)
                continue;
            bool ended = state_ended(before->row.state), alone = (before->row.marks & MARK_EXCLUSIVE) != 0;
            if (PLANT(lock_shared_waits))
                alone = true;
            bool through =
                ended ? heir_due(slice, walk.list[at], &ins[i], before) : !alone && before->row.state != STATE_X;
            if (through)
                slice_walk_add(&walk, before);
            else if (!ended)
                before->visit = walk.visit; /* one that has ended may still be looked through from another */
            if (!ended && alone)
                *ARENA_PUSH(slice->arena, out->alone, out->n_alone, out->cap_alone) = before;
            else if (!ended)
                *ARENA_PUSH(slice->arena, out->shared, out->n_shared, out->cap_shared) = before;
        }
    }
}

struct place { /* in the queue for the archive's lock, that a task leaves */
    struct slice *slice;
    struct node *stopped;
    struct lock_before before;
    /* the stopped one, and those behind it that share the lock: others behind them are reached through them */
    struct walk walk;
};

/* The waiter of an edge takes over the place. `direct`: the edge leads to the stopped task. A waiter that has ended
 * takes nothing over; its own waiters, which aren't informed yet, will look through its edges and find the tasks before
 * `stopped`. They can't look past a task that shares the lock and is informed already, so those behind such a task take
 * over the place now. */
static void place_take(struct place *p, const struct edge *edge, bool direct)
{
    struct slice *slice = p->slice;
    bool waits = edge->kind != EDGE_CANCELS && edge_counts(edge->kind, edge->flags);
    struct node *after = waits ? slice_find(slice, edge->waiter) : NULL;
    if (!after || !(after->row.marks & MARK_LOCKED) || after->row.lane != p->stopped->row.lane)
        return;
    bool stands = after->row.waits > 0 && (after->untold || after->row.holds & 1u << HOLD_telling);
    if (state_ended(after->row.state) && !direct && stands)
        slice_walk_add(&p->walk, after);
    if (state_ended(after->row.state))
        return;
    if (direct)
        slice_edge_flag(slice, after, p->stopped, edge->kind, EDGE_PLACED);
    if (after->visit == p->walk.visit || after->row.state == STATE_X)
        return; /* who runs has the lock */
    bool alone = (after->row.marks & MARK_EXCLUSIVE) != 0;
    for (size_t k = 0; k < p->before.n_alone && (direct || alone); k++)
        slice_edge_add_lock(slice, after, p->before.alone[k]);
    for (size_t k = 0; k < p->before.n_shared && alone; k++)
        slice_edge_add_lock(slice, after, p->before.shared[k]);
    if (alone || p->before.n_shared == 0)
        after->visit = p->walk.visit;
    else
        slice_walk_add(&p->walk, after);
}

/* A task that is stopped while it waits for the archive's lock leaves the queue: tasks behind it now wait for those
 * before it. Shared locks don't wait for each other; so a task that waits for a shared lock behind the stopped task and
 * conflicts with a shared one before it needs its own edge. What the stopped task waited for is read again for each
 * batch of its waiters, and so are the waiters of tasks that share the lock. */
void lock_hand_on(struct slice *slice, struct node *stopped, const struct edge *outs, size_t n)
{
    struct place p = { .slice = slice, .stopped = stopped };
    if (PLANT(lock_not_handed_on))
        return;
    if (!(stopped->row.marks & MARK_LOCKED) || stopped->row.waits == 0 || n == 0)
        return;
    lock_before_find(slice, stopped, &p.before);
    p.walk = slice_walk(slice, stopped);
    for (size_t i = 0; i < n; i++)
        place_take(&p, &outs[i], true);
    for (size_t at = 1; at < p.walk.n; at++) {
        struct node *behind = p.walk.list[at];
        outs = slice_outs(slice, behind, &n);
        for (size_t i = 0; i < n; i++)
            if (!state_ended(behind->row.state) || stands_for(slice, &outs[i], behind))
                place_take(&p, &outs[i], false);
    }
}

void places_settled(struct slice *slice, struct node *node)
{
    size_t n = 0;
    const struct edge *ins = node->row.marks & MARK_LOCKED ? slice_ins(slice, node, &n) : NULL;
    for (size_t i = 0; i < n; i++) {
        struct edge edge = ins[i];
        struct node *pred = edge.kind != EDGE_CANCELS ? slice_find(slice, edge.pred) : NULL;
        if (pred && state_ended(pred->row.state) && pred->row.waits > 0)
            slice_edge_flag(slice, node, pred, edge.kind, EDGE_PLACED);
    }
}

void prev_inherit(struct slice *slice, struct node *waiter, struct node *stopped)
{
    if (PLANT(prev_not_handed_on))
        return;
    if (stopped->row.waits == 0)
        return;
    struct walk walk = slice_walk(slice, stopped);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            bool prev = ins[i].flags & EDGE_PREV && edge_counts(ins[i].kind, ins[i].flags);
            struct node *before = prev ? slice_find(slice, ins[i].pred) : NULL;
            if (!before || before == waiter)
                continue;
            if (!state_ended(before->row.state))
                slice_edge_add_prev(slice, waiter, before, EDGE_AFTER);
            else if (before->row.waits > 0 && !(ins[i].flags & EDGE_HANDED))
                slice_walk_add(&walk, before);
        }
    }
    slice_edge_flag(slice, waiter, stopped, EDGE_AFTER, EDGE_HANDED | EDGE_PLACED);
    slice_edge_flag(slice, waiter, stopped, EDGE_DEPENDS, EDGE_HANDED | EDGE_PLACED);
}

void edge_inherit(struct slice *slice, struct node *waiter, struct node *node, const struct edge *edge)
{
    if (edge->kind == EDGE_CANCELS && !(edge->flags & EDGE_FIRED))
        cancels_inherit(slice, waiter, node);
    if (edge->flags & EDGE_PREV && edge_counts(edge->kind, edge->flags) && waiter->row.state != STATE_X)
        prev_inherit(slice, waiter, node);
}

bool leaves_something(struct slice *slice, struct node *node)
{
    size_t n = 0;
    const struct edge *ins = node->row.marks & MARK_CANCELS ? slice_ins(slice, node, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        if (ins[i].kind == EDGE_CANCELS && !(ins[i].flags & EDGE_FIRED))
            return true;
    return node->row.waits > 0 && (node->row.rev || node->row.marks & MARK_LOCKED);
}
