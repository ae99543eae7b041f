/* order: what a retry must not break: the order of revisions, and the archive's lock.
 *
 * A task that is retried takes its place again before those that wait for it and haven't started; with what has started meanwhile it can
 * only be ordered behind. So a retry is refused when a later revision's task that was to come after it has started (unless it is forced),
 * and a task that has the archive's lock queues for it anew, last. */
#include "engine/turn.h"

enum { LOOK_MAX = 5000 }; /* tasks looked at on the way from a waiter to the task that is retried, each once */

static bool has_started(const struct task *row)
{
    return row->state == STATE_X || row->state == STATE_D || (state_ended(row->state) && row->grant > 0);
}

/* Those that come after it, also through others that were stopped before they began: what these waited for may have been over then, so
 * nothing was handed on. */
const struct node *order_passed(struct turn *turn, struct node *node)
{
    struct walk walk = slice_walk(turn->slice, node);
    for (size_t at = 0; node->row.rev && at < walk.n && at < LOOK_MAX; at++) {
        size_t n;
        const struct edge *outs = slice_outs(turn->slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            if (outs[i].kind == EDGE_CANCELS || outs[i].flags & EDGE_LOCK || (at > 0 && !(outs[i].flags & EDGE_PREV))) continue;
            struct node *waiter = slice_find(turn->slice, outs[i].waiter);
            if (!waiter || waiter->row.lane != node->row.lane || waiter->row.rev <= node->row.rev) continue;
            if (has_started(&waiter->row)) return waiter;
            if (state_ended(waiter->row.state)) slice_walk_add(&walk, waiter);
        }
    }
    return NULL;
}

/* --- circles ---------------------------------------------------------------------------------------------------------------------- */

struct circle {
    struct turn *turn;
    struct node **again; /* what is retried, and what it takes along */
    size_t n_again, cap_again;
    const struct node *from;
};

static bool is_again(const struct circle *c, const struct node *node)
{
    for (size_t i = 0; i < c->n_again; i++)
        if (c->again[i] == node) return true;
    return false;
}

/* What core's task_restage will take along. */
static void again_collect(struct circle *c)
{
    for (size_t i = 0; i < c->n_again && i < LOOK_MAX; i++) {
        size_t n;
        const struct edge *outs = slice_outs(c->turn->slice, c->again[i], &n);
        for (size_t k = 0; k < n; k++) {
            struct node *waiter = outs[k].kind == EDGE_DEPENDS ? slice_find(c->turn->slice, outs[k].waiter) : NULL;
            bool along = waiter && state_ended(waiter->row.state) && waiter->row.cause == c->again[i]->row.id;
            if (along && !is_again(c, waiter)) *ARENA_PUSH(c->turn->arena, c->again, c->n_again, c->cap_again) = waiter;
        }
    }
}

/* Does the task wait for `from`, by whatever way? Who runs waits again when its executor is lost. */
static bool comes_back(struct circle *c, struct node *node)
{
    struct walk walk = slice_walk(c->turn->slice, node);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(c->turn->slice, walk.list[at], &n);
        if (walk.n > LOOK_MAX) return true; /* too far to see: a refusal is safer than a circle */
        for (size_t i = 0; i < n; i++) {
            struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(c->turn->slice, ins[i].pred) : NULL;
            if (!pred) continue;
            if (pred == c->from) return true;
            if (!state_ended(pred->row.state) || is_again(c, pred)) slice_walk_add(&walk, pred);
        }
    }
    return false;
}

bool retry_circles(struct turn *turn, struct node *node)
{
    struct circle c = { .turn = turn };
    if (node->row.rev == 0) return false; /* only the lock ever puts a task behind what came after it */
    *ARENA_PUSH(turn->arena, c.again, c.n_again, c.cap_again) = node;
    again_collect(&c);
    for (size_t i = 0; i < c.n_again; i++) {
        c.from = c.again[i];
        if (comes_back(&c, c.again[i])) return true;
    }
    return false;
}

/* A late result can't be refused: who waits for the task, or for what it takes along, and would be waited for by it goes first by now. */
void circles_cut(struct turn *turn, struct node *node)
{
    struct circle c = { .turn = turn };
    if (node->row.rev == 0) return;
    *ARENA_PUSH(turn->arena, c.again, c.n_again, c.cap_again) = node;
    again_collect(&c);
    for (size_t i = 0; i < c.n_again; i++) {
        size_t n;
        const struct edge *outs = slice_outs(turn->slice, c.again[i], &n);
        for (size_t k = 0; k < n; k++) {
            struct node *waiter = outs[k].kind == EDGE_AFTER ? slice_find(turn->slice, outs[k].waiter) : NULL;
            if (!waiter || state_ended(waiter->row.state) || !edge_counts(outs[k].kind, outs[k].flags)) continue;
            c.from = waiter;
            if (comes_back(&c, c.again[i])) slice_edge_flag(turn->slice, waiter, c.again[i], EDGE_AFTER, EDGE_SPENT);
        }
    }
}

/* --- the archive's lock ----------------------------------------------------------------------------------------------------------- */

static char no, yes; /* what a look has found out about a task: tasks are met on many ways, and looked at once */

struct look {
    struct turn *turn;
    struct node *target;
    struct map waits, leads, placed; /* by task: waits_for, running_first, come_after */
    bool exclusive;                  /* the target's lock */
    bool blind;                      /* there was too much to look at */
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

/* The target is put behind `from`: who runs, and is that one or comes before it, goes first, also if its executor is lost. Its edges that
 * lead to the target, which was retried since it began, don't count any more. True: `from`, which doesn't run, comes after the target. */
static bool running_first(struct look *look, struct node *from)
{
    const void *seen = map_find(&look->leads, (uint64_t)from->row.id);
    if (seen) return seen == &yes;
    if (too_far(look, &look->leads)) return true; /* less order is safer than a circle */
    map_put(&look->leads, (uint64_t)from->row.id, &no);
    size_t n;
    bool found = false;
    const struct edge *ins = slice_ins(look->turn->slice, from, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(look->turn->slice, ins[i].pred) : NULL;
        if (!pred || state_ended(pred->row.state)) continue;
        bool leads = pred == look->target || running_first(look, pred);
        if (leads && from->row.state == STATE_X) slice_edge_flag(look->turn->slice, from, pred, EDGE_AFTER, EDGE_SPENT);
        else found |= leads;
    }
    if (found) map_put(&look->leads, (uint64_t)from->row.id, &yes);
    return found;
}

/* The target comes after `from`, which hasn't ended and doesn't wait for it; if their locks don't clash, after those before it. */
static void come_after(struct look *look, struct node *from)
{
    if (state_ended(from->row.state) || map_find(&look->placed, (uint64_t)from->row.id) || too_far(look, &look->placed)) return;
    map_put(&look->placed, (uint64_t)from->row.id, &yes);
    if (conflicts(look, from)) {
        if (!PLANT(running_waits)) running_first(look, from);
        slice_edge_lock_again(look->turn->slice, look->target, from);
        return;
    }
    size_t n;
    const struct edge *ins = slice_ins(look->turn->slice, from, &n);
    for (size_t i = 0; i < n && from->row.state != STATE_X; i++) {
        struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(look->turn->slice, ins[i].pred) : NULL;
        if (pred) come_after(look, pred);
    }
}

/* Does `from` wait for the target? Then the target comes after all on the way that don't: those that run, and their like. What it waits for
 * on the way may be stopped, and only those that clash hand on what they waited for: without one of them on the way it gets an edge. */
static bool waits_for(struct look *look, struct node *from)
{
    if (from == look->target) return true;
    if (state_ended(from->row.state) || from->row.state == STATE_X) return false; /* one that runs waits for nobody */
    const void *seen = map_find(&look->waits, (uint64_t)from->row.id);
    if (seen) return seen == &yes;
    if (too_far(look, &look->waits)) return true; /* no edge is safer than a circle */
    map_put(&look->waits, (uint64_t)from->row.id, &no);
    size_t n;
    bool found = false, clash = false;
    const struct edge *ins = slice_ins(look->turn->slice, from, &n);
    struct node **beside = ARENA_ARRAY(look->turn->arena, struct node *, n + 1);
    size_t n_beside = 0;
    for (size_t i = 0; i < n; i++) {
        struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(look->turn->slice, ins[i].pred) : NULL;
        if (!pred) continue;
        if (waits_for(look, pred)) {
            found = true;
            clash |= pred == look->target || conflicts(look, pred);
        } else beside[n_beside++] = pred;
    }
    if (!found) return false;
    map_put(&look->waits, (uint64_t)from->row.id, &yes);
    for (size_t i = 0; i < n_beside; i++) come_after(look, beside[i]);
    if (!clash && conflicts(look, from) && !look->blind) slice_edge_lock_again(look->turn->slice, from, look->target);
    return true;
}

struct before { /* those that haven't ended, of a task and of those that it came after */
    const struct node *again; /* looked through, as if it had ended */
    struct walk walk;         /* all that were looked at */
    struct node **list;
    size_t n, cap;
};

/* What the archive's lock is waited for through `node`: all its edges, if it was stopped while it waited or is retried; of one that shares
 * the lock and hasn't it yet, too, since others that share it don't wait for that one. */
static void before_look(struct before *b, struct node *node)
{
    struct slice *slice = b->walk.slice;
    bool ended = state_ended(node->row.state) || node == b->again, shared = !(node->row.marks & MARK_EXCLUSIVE);
    if (!ended) *ARENA_PUSH(slice->arena, b->list, b->n, b->cap) = node;
    if (ended ? node->row.waits == 0 && node != b->again : !shared || node->row.state == STATE_X)
        return; /* it had begun: all before it had ended then; or who comes after it comes after all before it */
    size_t n;
    const struct edge *ins = slice_ins(slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        bool was_before = node == b->again ? ins[i].kind != EDGE_CANCELS : edge_counts(ins[i].kind, ins[i].flags);
        struct node *pred = was_before ? slice_find(slice, ins[i].pred) : NULL;
        if (pred && pred->row.lane == node->row.lane && pred->row.marks & MARK_LOCKED && pred != b->again) slice_walk_add(&b->walk, pred);
    }
}

static void before_collect(struct before *b, struct node *node)
{
    size_t at = b->walk.n;
    slice_walk_add(&b->walk, node);
    for (; at < b->walk.n; at++) before_look(b, b->walk.list[at]);
}

struct node **lock_before(struct turn *turn, const struct archive *archive, size_t *out_n)
{
    struct before b = { .walk = { .slice = turn->slice, .visit = ++turn->slice->visits } };
    struct node *node = archive->lock_exclusive ? slice_find(turn->slice, archive->lock_exclusive) : NULL;
    if (node) before_collect(&b, node);
    *out_n = b.n;
    return b.list;
}

/* Called when the task stands in S again. It comes after all that have the lock or wait for it, but for those that wait for the task: those
 * keep the end of the queue. Its own edges lead to some that the end of the queue doesn't know when all between them were stopped. */
void lock_again(struct turn *turn, struct node *node)
{
    struct archive *archive = node->row.marks & MARK_LOCKED ? archive_own(turn, node->row.lane) : NULL;
    if (!archive || state_ended(node->row.state)) return;
    struct before b = { .again = node, .walk = { .slice = turn->slice, .visit = ++turn->slice->visits } };
    struct look look = { .turn = turn, .target = node, .exclusive = (node->row.marks & MARK_EXCLUSIVE) != 0 };
    struct node *end = archive->lock_exclusive ? slice_find(turn->slice, archive->lock_exclusive) : NULL;
    for (size_t i = 0; i < archive->n_lock_shared; i++) {
        struct node *user = slice_find(turn->slice, archive->lock_shared[i]);
        if (user && user != node && !state_ended(user->row.state)) before_collect(&b, user);
    }
    size_t n_shared = b.n, kept = 0;
    if (end) before_collect(&b, end);
    before_collect(&b, node);
    int64_t *shared = ARENA_ARRAY(turn->arena, int64_t, b.n + 1);
    bool last = true;
    for (size_t i = 0; i < b.n; i++) {
        struct node *user = b.list[i];
        bool behind = waits_for(&look, user), alone = (user->row.marks & MARK_EXCLUSIVE) != 0;
        if (!behind) come_after(&look, user);
        if (behind && alone) last = false;
        if (!alone && (look.exclusive ? behind : i < n_shared)) shared[kept++] = user->row.id;
    }
    if (look.exclusive && last) archive->lock_exclusive = node->row.id;
    if (!look.exclusive && last) shared[kept++] = node->row.id;
    archive->lock_shared = shared;
    archive->n_lock_shared = kept;
    map_release(&look.waits);
    map_release(&look.leads);
    map_release(&look.placed);
}

void locks_again(struct turn *turn, size_t from, const struct node *except)
{
    for (size_t i = from; i < turn->slice->n_restaged; i++)
        if (turn->slice->restaged[i] != except) lock_again(turn, turn->slice->restaged[i]);
}
