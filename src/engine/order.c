/* order: what a retry must not break: the order of revisions, and the archive's lock.
 *
 * A task that is retried takes its place again before those that wait for it and haven't started; with what has started meanwhile it can
 * only be ordered behind. So a retry is refused when a later revision's task that was to come after it has started (unless it is forced),
 * and a task that has the archive's lock queues for it anew, last. */
#include "engine/turn.h"

enum { LOOK_MAX = 2000 }; /* tasks looked at on the way from a waiter to the task that is retried */

const struct node *order_passed(struct turn *turn, struct node *node)
{
    size_t n = 0;
    const struct edge *outs = node->row.rev ? slice_outs(turn->slice, node, &n) : NULL;
    for (size_t i = 0; i < n; i++) {
        if (outs[i].kind == EDGE_CANCELS || outs[i].flags & EDGE_LOCK) continue;
        const struct node *waiter = slice_find(turn->slice, outs[i].waiter);
        if (!waiter || waiter->row.lane != node->row.lane || waiter->row.rev <= node->row.rev) continue;
        bool started =
            waiter->row.state == STATE_X || waiter->row.state == STATE_D || (state_ended(waiter->row.state) && waiter->row.grant > 0);
        if (started) return waiter;
    }
    return NULL;
}

/* --- circles ---------------------------------------------------------------------------------------------------------------------- */

struct circle {
    struct turn *turn;
    struct node **again; /* what is retried, and what it takes along */
    size_t n_again, cap_again, left;
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

static bool comes_back(struct circle *c, struct node *node)
{
    size_t n;
    const struct edge *ins = slice_ins(c->turn->slice, node, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = ins[i].kind == EDGE_CANCELS ? NULL : slice_find(c->turn->slice, ins[i].pred);
        if (!pred) continue;
        if (pred == c->from) return true;
        if (pred->row.state == STATE_X || (state_ended(pred->row.state) && !is_again(c, pred))) continue;
        if (c->left == 0) return true; /* too far to see: a refusal is safer than a circle */
        c->left--;
        if (comes_back(c, pred)) return true;
    }
    return false;
}

bool retry_circles(struct turn *turn, struct node *node)
{
    struct circle c = { .turn = turn, .left = LOOK_MAX };
    if (node->row.rev == 0) return false; /* only the lock ever puts a task behind what came after it */
    *ARENA_PUSH(turn->arena, c.again, c.n_again, c.cap_again) = node;
    again_collect(&c);
    for (size_t i = 0; i < c.n_again; i++) {
        c.from = c.again[i];
        if (comes_back(&c, c.again[i])) return true;
    }
    return false;
}

/* --- the archive's lock ----------------------------------------------------------------------------------------------------------- */

struct look {
    struct turn *turn;
    struct node *target;
    size_t left;
    bool exclusive; /* the target's lock */
};

static bool conflicts(const struct look *look, const struct node *other)
{
    return other->row.marks & MARK_LOCKED && (look->exclusive || other->row.marks & MARK_EXCLUSIVE);
}

/* Does `from`, which hasn't started, wait for the target? Whoever runs with the lock on the way is waited for by the target. */
static bool waits_for(struct look *look, struct node *from)
{
    if (from == look->target) return true;
    if (state_ended(from->row.state)) return false;
    if (from->row.state == STATE_X) {
        if (conflicts(look, from)) slice_edge_add_lock(look->turn->slice, look->target, from);
        return false;
    }
    if (look->left == 0) return true; /* too far to see: no edge is safer than a circle */
    look->left--;
    size_t n;
    bool found = false;
    const struct edge *ins = slice_ins(look->turn->slice, from, &n);
    for (size_t i = 0; i < n; i++) {
        struct node *pred = ins[i].kind == EDGE_CANCELS ? NULL : slice_find(look->turn->slice, ins[i].pred);
        if (pred && waits_for(look, pred)) found = true;
    }
    return found;
}

static void before_collect(struct turn *turn, struct node *node, size_t *left, struct node ***out, size_t *n, size_t *cap)
{
    for (size_t i = 0; i < *n; i++)
        if ((*out)[i] == node) return;
    if (!state_ended(node->row.state)) {
        *ARENA_PUSH(turn->arena, *out, *n, *cap) = node;
        return;
    }
    if (node->row.waits == 0 || *left == 0) return; /* it had begun: all before it had ended then */
    (*left)--;
    size_t n_ins;
    const struct edge *ins = slice_ins(turn->slice, node, &n_ins);
    for (size_t i = 0; i < n_ins; i++) {
        struct node *pred = ins[i].kind == EDGE_CANCELS ? NULL : slice_find(turn->slice, ins[i].pred);
        bool counts = pred && pred->row.lane == node->row.lane && pred->row.marks & MARK_LOCKED;
        if (counts) before_collect(turn, pred, left, out, n, cap);
    }
}

struct node **lock_before(struct turn *turn, const struct archive *archive, size_t *out_n)
{
    struct node **list = NULL, *node = archive->lock_exclusive ? slice_find(turn->slice, archive->lock_exclusive) : NULL;
    size_t cap = 0, left = LOOK_MAX;
    *out_n = 0;
    if (node) before_collect(turn, node, &left, &list, out_n, &cap);
    return list;
}

/* Called when the task stands in S again. */
static void lock_again(struct turn *turn, struct node *node)
{
    struct archive *archive = node->row.marks & MARK_LOCKED ? turn_archive(turn, node->row.lane) : NULL;
    if (!archive || state_ended(node->row.state)) return;
    size_t n = archive->n_lock_shared, kept = 0, n_before;
    struct node **before = lock_before(turn, archive, &n_before);
    int64_t *shared = ARENA_ARRAY(turn->arena, int64_t, n + 2);
    struct look look = { turn, node, LOOK_MAX, (node->row.marks & MARK_EXCLUSIVE) != 0 };
    int64_t waits = node->row.waits;
    bool others = false;
    for (size_t i = 0; i < n + n_before; i++) { /* those that share it, then the last that had it alone, or those in its place */
        int64_t id = i < n ? archive->lock_shared[i] : before[i - n]->row.id;
        struct node *user = id && id != node->row.id ? slice_find(turn->slice, id) : NULL;
        if (!user || state_ended(user->row.state)) continue;
        others = true;
        bool behind = waits_for(&look, user);
        if (!behind && conflicts(&look, user)) slice_edge_add_lock(turn->slice, node, user);
        if (i < n && (behind || !look.exclusive)) shared[kept++] = id;
    }
    bool last = node->row.waits > waits || !others;
    if (look.exclusive && last) archive->lock_exclusive = node->row.id;
    if (!look.exclusive || (last && kept > 0)) shared[kept++] = node->row.id;
    archive->lock_shared = shared;
    archive->n_lock_shared = kept;
}

void locks_again(struct turn *turn, size_t from, const struct node *except)
{
    for (size_t i = from; i < turn->slice->n_restaged; i++)
        if (turn->slice->restaged[i] != except) lock_again(turn, turn->slice->restaged[i]);
}
