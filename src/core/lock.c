#include "core/lock.h"

#include "base/plant.h"
#include "core/retry.h"
#include "core/settle.h"

static char no, yes; /* results of a search, kept by task: many ways lead to a task, and it is examined once */

struct look {
    struct slice *slice;
    struct node *target;
    struct map waits, leads, placed; /* by task: waits_for, running_first, come_after */
    bool exclusive;                  /* the target's lock */
    bool blind;                      /* the search was given up: too many tasks */
};

static bool too_far(struct look *look, const struct map *seen)
{
    look->blind |= seen->n >= LOOK_MAX;
    return look->blind;
}

static bool conflicts(const struct look *look, const struct node *other)
{
    return locks_clash(&look->target->row, &other->row);
}

/* The target is queued behind `from`. If `from`, or a task before it, runs, the running task goes first, even if its
 * executor is lost: its edges to the target, which was retried after that task began, are dropped. True: `from` doesn't
 * run and comes after the target. */
static bool running_first(struct look *look, struct node *from)
{
    const void *seen = map_find(&look->leads, (uint64_t)from->row.id);
    if (seen)
        return seen == &yes;
    if (too_far(look, &look->leads))
        return true; /* less order is safer than a circle */
    map_put(&look->leads, (uint64_t)from->row.id, &no);
    size_t n;
    bool found = false;
    const struct edge *ins = slice_ins(look->slice, from, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(look->slice, ins[i].pred) : NULL;
        if (!pred || state_ended(pred->row.state))
            continue;
        bool leads = pred == look->target || running_first(look, pred);
        if (leads && from->row.state == STATE_X)
            slice_edge_flag(look->slice, from, pred, EDGE_AFTER, EDGE_SPENT);
        else
            found |= leads;
    }
    if (found)
        map_put(&look->leads, (uint64_t)from->row.id, &yes);
    return found;
}

/* The target comes after `from`, which hasn't ended and doesn't wait for it; if their locks don't clash, after those
 * before it. */
static void come_after(struct look *look, struct node *from)
{
    if (state_ended(from->row.state) || map_find(&look->placed, (uint64_t)from->row.id) || too_far(look, &look->placed))
        return;
    map_put(&look->placed, (uint64_t)from->row.id, &yes);
    if (conflicts(look, from)) {
        if (!PLANT(running_waits))
            running_first(look, from);
        slice_edge_again(look->slice, look->target, from, EDGE_LOCK);
        return;
    }
    size_t n;
    const struct edge *ins = slice_ins(look->slice, from, &n);
    for (size_t i = 0; i < n && from->row.state != STATE_X; i++) {
        struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(look->slice, ins[i].pred) : NULL;
        if (pred)
            come_after(look, pred);
    }
}

/* Does `from` wait for the target? Then the target comes after all on the way that don't: those that run, and their
 * like. What it waits for on the way may be stopped, and only those that clash hand on what they waited for: without
 * one of them on the way it gets an edge. */
static bool waits_for(struct look *look, struct node *from)
{
    if (from == look->target)
        return true;
    if (state_ended(from->row.state) || from->row.state == STATE_X)
        return false; /* a running task waits for nothing */
    const void *seen = map_find(&look->waits, (uint64_t)from->row.id);
    if (seen)
        return seen == &yes;
    if (too_far(look, &look->waits))
        return true; /* no edge is safer than a circle */
    map_put(&look->waits, (uint64_t)from->row.id, &no);
    size_t n;
    bool found = false, clash = false;
    const struct edge *ins = slice_ins(look->slice, from, &n);
    struct node **beside = ARENA_ARRAY(look->slice->arena, struct node *, n + 1);
    size_t n_beside = 0;
    for (size_t i = 0; i < n; i++) {
        struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(look->slice, ins[i].pred) : NULL;
        if (!pred)
            continue;
        if (waits_for(look, pred)) {
            found = true;
            clash |= pred == look->target || conflicts(look, pred);
        } else
            beside[n_beside++] = pred;
    }
    if (!found)
        return false;
    map_put(&look->waits, (uint64_t)from->row.id, &yes);
    for (size_t i = 0; i < n_beside; i++)
        come_after(look, beside[i]);
    if (!clash && conflicts(look, from) && !look->blind)
        slice_edge_again(look->slice, from, look->target, EDGE_LOCK);
    return true;
}

struct before {               /* those that haven't ended, of a task and of those that it came after */
    const struct node *again; /* looked through, as if it had ended */
    struct walk walk;         /* all that were looked at */
    struct node **list;
    size_t n, cap;
};

/* What the archive's lock is waited for through `node`: all its edges, if it was stopped while it waited or is retried;
 * likewise of a task that shares the lock and doesn't have it yet, since other sharing tasks don't wait for it. */
static void before_look(struct before *b, struct node *node)
{
    struct slice *slice = b->walk.slice;
    bool ended = state_ended(node->row.state) || node == b->again, shared = !(node->row.marks & MARK_EXCLUSIVE);
    if (!ended)
        *ARENA_PUSH(slice->arena, b->list, b->n, b->cap) = node;
    if (ended ? node->row.waits == 0 && node != b->again : !shared || node->row.state == STATE_X)
        return; /* it had begun, so all before it had ended; or what comes after it comes after all before it */
    size_t n;
    const struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        bool was_before = node == b->again ? ins[i].kind != EDGE_CANCELS : edge_counts(ins[i].kind, ins[i].flags);
        struct node *pred = was_before ? slice_find(slice, ins[i].pred) : NULL;
        if (pred && pred->row.lane == node->row.lane && pred->row.marks & MARK_LOCKED && pred != b->again)
            slice_walk_add(&b->walk, pred);
    }
}

static void before_collect(struct before *b, struct node *node)
{
    size_t at = b->walk.n;
    slice_walk_add(&b->walk, node);
    for (; at < b->walk.n; at++)
        before_look(b, b->walk.list[at]);
}

struct node **lock_before(struct slice *slice, const struct archive *archive, size_t *out_n)
{
    struct before b = { .walk = { .slice = slice, .visit = ++slice->visits } };
    struct node *node = archive->lock_exclusive ? slice_find(slice, archive->lock_exclusive) : NULL;
    if (node)
        before_collect(&b, node);
    *out_n = b.n;
    return b.list;
}

/* --- a task that is in its place already --- */

enum { NEAR_MAX = 16 }; /* tasks looked at */

/* The task that the edge leads to (`pred`) or that waits by it; NULL: it has ended, or the edge doesn't count. */
static struct node *edge_alive(struct slice *slice, const struct edge *edge, bool pred)
{
    struct node *other =
        edge_counts(edge->kind, edge->flags) ? slice_find(slice, pred ? edge->pred : edge->waiter) : NULL;
    return other && !state_ended(other->row.state) ? other : NULL;
}

static bool waits_directly(struct slice *slice, struct node *waiter, const struct node *pred)
{
    size_t n;
    const struct edge *ins = slice_ins(slice, waiter, &n);
    for (size_t i = 0; i < n; i++)
        if (ins[i].pred == pred->row.id && edge_counts(ins[i].kind, ins[i].flags))
            return true;
    return false;
}

/* Every task with a lock that waits for `before` is one that `node` waits for, or waits for `node`. */
static bool nobody_between(struct slice *slice, struct node *before, struct node *node)
{
    struct walk walk = slice_walk(slice, before);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *outs = slice_outs(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            struct node *waiter = edge_alive(slice, &outs[i], false);
            if (!waiter || waiter == node || waiter->visit == walk.visit || waits_directly(slice, waiter, node))
                continue;
            bool locked = waiter->row.lane == node->row.lane && waiter->row.marks & MARK_LOCKED;
            if (walk.n > NEAR_MAX || (locked && !waits_directly(slice, node, waiter)))
                return false;
            slice_walk_add(&walk, waiter);
        }
    }
    return true;
}

static bool is_alone(const struct node *node, int64_t lane)
{
    return node && node->row.lane == lane && node->row.marks & MARK_LOCKED && node->row.marks & MARK_EXCLUSIVE;
}

/* A retry takes a chain along, and each task of it queues for the lock: one that comes right after another that has the
 * lock alone, and right before a third, is in its place. To see that takes a look at its neighbours instead of at all
 * that is between it and the end of the queue. */
static bool in_its_place(struct slice *slice, struct archive *archive, struct node *node, const struct node *leaves)
{
    size_t n;
    bool last = true;
    const struct edge *edges = slice_outs(slice, node, &n);
    for (size_t i = 0; i < n && i < NEAR_MAX && last; i++)
        last = !is_alone(edge_alive(slice, &edges[i], false), node->row.lane);
    edges = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n && i < NEAR_MAX && !last; i++) {
        struct node *before = edge_alive(slice, &edges[i], true);
        if (before == leaves || !is_alone(before, node->row.lane))
            continue;
        bool end = before->row.id == archive->lock_exclusive;
        if ((end && (archive->n_lock_shared || !is_alone(node, node->row.lane))) ||
            !nobody_between(slice, before, node))
            return false;
        if (end)
            archive->lock_exclusive = node->row.id;
        return true;
    }
    return false;
}

/* It comes after all that have the lock or wait for it, but for those that wait for the task: those
 * keep the end of the queue. Its own edges lead to some that the end of the queue doesn't know when all between them
 * were stopped. */
void lock_again(struct slice *slice, struct archive *archive, struct node *node, const struct node *leaves)
{
    struct before b = { .again = node, .walk = { .slice = slice, .visit = ++slice->visits } };
    struct look look = { .slice = slice, .target = node, .exclusive = (node->row.marks & MARK_EXCLUSIVE) != 0 };
    if (in_its_place(slice, archive, node, leaves))
        return;
    struct node *end = archive->lock_exclusive ? slice_find(slice, archive->lock_exclusive) : NULL;
    for (size_t i = 0; i < archive->n_lock_shared; i++) {
        struct node *user = slice_find(slice, archive->lock_shared[i]);
        if (user && user != node && !state_ended(user->row.state))
            before_collect(&b, user);
    }
    size_t n_shared = b.n, kept = 0;
    if (end)
        before_collect(&b, end);
    before_collect(&b, node);
    int64_t *shared = ARENA_ARRAY(slice->arena, int64_t, b.n + 1);
    bool last = true;
    for (size_t i = 0; i < b.n; i++) {
        struct node *user = b.list[i];
        bool behind = waits_for(&look, user), alone = (user->row.marks & MARK_EXCLUSIVE) != 0;
        if (!behind)
            come_after(&look, user);
        if (behind && alone)
            last = false;
        if (!alone && (look.exclusive ? behind : i < n_shared))
            shared[kept++] = user->row.id;
    }
    if (look.exclusive && last)
        archive->lock_exclusive = node->row.id;
    if (!look.exclusive && last)
        shared[kept++] = node->row.id;
    archive->lock_shared = shared;
    archive->n_lock_shared = kept;
    map_release(&look.waits);
    map_release(&look.leads);
    map_release(&look.placed);
}
