#include "core/retry.h"

static bool has_started(const struct task *row)
{
    return row->state == STATE_X || row->state == STATE_D || (state_ended(row->state) && row->grant > 0);
}

/* Those that come after it, also through others that were stopped before they began: what these waited for may have
 * been over then, so nothing was handed on. */
const struct node *order_passed(struct slice *slice, struct node *node)
{
    struct walk walk = slice_walk(slice, node);
    for (size_t at = 0; node->row.rev && at < walk.n && at < LOOK_MAX; at++) {
        size_t n;
        const struct edge *outs = slice_outs(slice, walk.list[at], &n);
        for (size_t i = 0; i < n; i++) {
            if (outs[i].kind == EDGE_CANCELS || outs[i].flags & EDGE_LOCK || (at > 0 && !(outs[i].flags & EDGE_PREV)))
                continue;
            struct node *waiter = slice_find(slice, outs[i].waiter);
            if (!waiter || waiter->row.lane != node->row.lane || waiter->row.rev <= node->row.rev)
                continue;
            if (has_started(&waiter->row))
                return waiter;
            if (state_ended(waiter->row.state))
                slice_walk_add(&walk, waiter);
        }
    }
    return NULL;
}

/* --- circles --- */

struct circle {
    struct slice *slice;
    struct node **again; /* what is retried, and what it takes along */
    size_t n_again, cap_again;
    const struct node *from;
};

static bool is_again(const struct circle *c, const struct node *node)
{
    for (size_t i = 0; i < c->n_again; i++)
        if (c->again[i] == node)
            return true;
    return false;
}

/* What core's task_restage will take along. */
static void again_collect(struct circle *c)
{
    for (size_t i = 0; i < c->n_again && i < LOOK_MAX; i++) {
        size_t n;
        const struct edge *outs = slice_outs(c->slice, c->again[i], &n);
        for (size_t k = 0; k < n; k++) {
            struct node *waiter = outs[k].kind == EDGE_DEPENDS ? slice_find(c->slice, outs[k].waiter) : NULL;
            bool along = waiter && state_ended(waiter->row.state) && waiter->row.cause == c->again[i]->row.id;
            if (along && !is_again(c, waiter))
                *ARENA_PUSH(c->slice->arena, c->again, c->n_again, c->cap_again) = waiter;
        }
    }
}

/* Does the task wait for `from`, by whatever way? Who runs waits again when its executor is lost. */
static bool comes_back(struct circle *c, struct node *node)
{
    struct walk walk = slice_walk(c->slice, node);
    for (size_t at = 0; at < walk.n; at++) {
        size_t n;
        const struct edge *ins = slice_ins(c->slice, walk.list[at], &n);
        if (walk.n > LOOK_MAX)
            return true; /* too far to see: a refusal is safer than a circle */
        for (size_t i = 0; i < n; i++) {
            struct node *pred = edge_counts(ins[i].kind, ins[i].flags) ? slice_find(c->slice, ins[i].pred) : NULL;
            if (!pred)
                continue;
            if (pred == c->from)
                return true;
            if (!state_ended(pred->row.state) || is_again(c, pred))
                slice_walk_add(&walk, pred);
        }
    }
    return false;
}

bool retry_circles(struct slice *slice, struct node *node)
{
    struct circle c = { .slice = slice };
    if (node->row.rev == 0)
        return false; /* only the lock ever puts a task behind what came after it */
    *ARENA_PUSH(slice->arena, c.again, c.n_again, c.cap_again) = node;
    again_collect(&c);
    for (size_t i = 0; i < c.n_again; i++) {
        c.from = c.again[i];
        if (comes_back(&c, c.again[i]))
            return true;
    }
    return false;
}

/* A late result can't be refused. If accepting it closes a circle, the waiter that closes it loses its `after` edge and
 * runs first. */
void circles_cut(struct slice *slice, struct node *node)
{
    struct circle c = { .slice = slice };
    if (node->row.rev == 0)
        return;
    *ARENA_PUSH(slice->arena, c.again, c.n_again, c.cap_again) = node;
    again_collect(&c);
    for (size_t i = 0; i < c.n_again; i++) {
        size_t n;
        const struct edge *outs = slice_outs(slice, c.again[i], &n);
        for (size_t k = 0; k < n; k++) {
            struct node *waiter = outs[k].kind == EDGE_AFTER ? slice_find(slice, outs[k].waiter) : NULL;
            if (!waiter || state_ended(waiter->row.state) || !edge_counts(outs[k].kind, outs[k].flags))
                continue;
            c.from = waiter;
            if (comes_back(&c, c.again[i]))
                slice_edge_flag(slice, waiter, c.again[i], EDGE_AFTER, EDGE_SPENT);
        }
    }
}
