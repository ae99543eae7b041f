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

static char on_way, looked; /* what a look for a circle has found out about a task */

struct circle {
    struct slice *slice;
    ARRAY(struct node *) again; /* what is retried, and what it takes along */
    struct map again_by;        /* the same, by task */
    struct map seen;            /* by task: on_way, looked */
    size_t others;              /* of those that were looked at: not retried */
    struct circle_step {        /* the way from the retried task to the one that is looked at */
        struct node *node;
        size_t at; /* in its edges */
    } * way;
    size_t n_way, cap_way;
};

static bool is_again(const struct circle *c, const struct node *node)
{
    return map_find(&c->again_by, (uint64_t)node->row.id) != NULL;
}

static void again_add(struct circle *c, struct node *node)
{
    if (is_again(c, node))
        return;
    map_put(&c->again_by, (uint64_t)node->row.id, node);
    *ARRAY_ADD(c->slice->arena, c->again) = node;
}

/* What core's task_restage will take along. */
static void circle_begin(struct circle *c, struct slice *slice, struct node *node)
{
    *c = (struct circle){ .slice = slice };
    again_add(c, node);
    for (size_t i = 0; i < c->again.n; i++) {
        size_t n;
        const struct node *cause = c->again.at[i];
        const struct edge *outs = slice_outs(slice, c->again.at[i], &n);
        for (size_t k = 0; k < n; k++) {
            struct node *waiter = outs[k].kind == EDGE_DEPENDS ? slice_find(slice, outs[k].waiter) : NULL;
            if (waiter && state_ended(waiter->row.state) && waiter->row.cause == cause->row.id)
                again_add(c, waiter);
        }
    }
}

static void circle_end(struct circle *c)
{
    map_release(&c->again_by);
    map_release(&c->seen);
}

/* The task that the edge leads to, if it is waited for when the retry is through; NULL: it isn't. */
static struct node *edge_ahead(const struct circle *c, const struct edge *edge)
{
    struct node *pred = edge_counts(edge->kind, edge->flags) ? slice_find(c->slice, edge->pred) : NULL;
    return pred && (!state_ended(pred->row.state) || is_again(c, pred)) ? pred : NULL;
}

static void step_add(struct circle *c, struct node *node)
{
    map_put(&c->seen, (uint64_t)node->row.id, &on_way);
    c->others += !is_again(c, node);
    *ARENA_PUSH(c->slice->arena, c->way, c->n_way, c->cap_way) = (struct circle_step){ node, 0 };
}

/* Does a way from this task come back to itself? Each task is looked at once, whichever of the retried ones leads to
 * it. Who runs waits again when its executor is lost. */
static bool comes_back(struct circle *c, struct node *from)
{
    if (map_find(&c->seen, (uint64_t)from->row.id))
        return false;
    step_add(c, from);
    while (c->n_way) {
        struct circle_step *step = &c->way[c->n_way - 1];
        size_t n;
        const struct edge *ins = slice_ins(c->slice, step->node, &n);
        if (step->at == n) {
            map_put(&c->seen, (uint64_t)step->node->row.id, &looked);
            c->n_way--;
            continue;
        }
        struct node *pred = edge_ahead(c, &ins[step->at++]);
        const char *known = pred ? map_find(&c->seen, (uint64_t)pred->row.id) : &looked;
        if (known == &on_way || c->others > LOOK_MAX)
            return true; /* or too far to see: a refusal is safer than a circle */
        if (!known)
            step_add(c, pred);
    }
    return false;
}

bool retry_circles(struct slice *slice, struct node *node)
{
    struct circle c;
    bool found = false;
    if (node->row.rev == 0)
        return false; /* only the lock ever puts a task behind what came after it */
    circle_begin(&c, slice, node);
    for (size_t i = 0; i < c.again.n && !found; i++)
        found = comes_back(&c, c.again.at[i]);
    circle_end(&c);
    return found;
}

/* All that the task waits for, by whatever way. False: too far to see. */
static bool ahead_of(struct circle *c, struct node *node, struct walk *out)
{
    *out = slice_walk(c->slice, node);
    for (size_t at = 0; at < out->n && out->n <= LOOK_MAX; at++) {
        size_t n;
        const struct edge *ins = slice_ins(c->slice, out->list[at], &n);
        for (size_t i = 0; i < n; i++) {
            struct node *pred = edge_ahead(c, &ins[i]);
            if (pred)
                slice_walk_add(out, pred);
        }
    }
    return out->n <= LOOK_MAX;
}

static bool edge_stays(struct slice *slice, const struct edge *edge, struct node **out_waiter)
{
    *out_waiter = edge->kind == EDGE_AFTER ? slice_find(slice, edge->waiter) : NULL;
    return *out_waiter && !state_ended((*out_waiter)->row.state) && edge_counts(edge->kind, edge->flags);
}

/* A late result can't be refused. If accepting it closes a circle, the waiter that closes it loses its `after` edge and
 * runs first. */
void circles_cut(struct slice *slice, struct node *node)
{
    struct circle c;
    struct node *waiter;
    if (node->row.rev == 0)
        return;
    circle_begin(&c, slice, node);
    for (size_t i = 0; i < c.again.n; i++) {
        size_t n;
        struct walk ahead = { 0 };
        bool seen = true;
        const struct edge *outs = slice_outs(slice, c.again.at[i], &n);
        for (size_t k = 0; k < n; k++) {
            if (!edge_stays(slice, &outs[k], &waiter))
                continue;
            if (!ahead.n)
                seen = ahead_of(&c, c.again.at[i], &ahead);
            if (!seen || waiter->visit == ahead.visit)
                slice_edge_flag(slice, waiter, c.again.at[i], EDGE_AFTER, EDGE_SPENT);
        }
    }
    circle_end(&c);
}
