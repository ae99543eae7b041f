#include "core/slice.h"

#include <stdlib.h>
#include <string.h>

#include "base/plant.h"
#include "core/task_state.h"

/* One virtual second of fair queueing: what a start adds to its lane's time at weight 1. */
enum { VT_STEP = 1 << 10 };

void slice_init(
    struct slice *slice, struct arena *arena, const struct rows *rows, int64_t now, int64_t turn, struct err *err)
{
    struct map nodes = slice->nodes, lanes = slice->lanes, slots = slice->slots, queues = slice->queues,
               changed = slice->changed;
    struct map ins_at = slice->ins_at, outs_at = slice->outs_at, new_at = slice->new_at, paths = slice->paths;
    *slice = (struct slice){ .arena = arena,
        .rows = rows,
        .now = now,
        .stamp = now,
        .turn = turn,
        .err = err,
        .nodes = nodes,
        .lanes = lanes,
        .slots = slots,
        .queues = queues,
        .changed = changed,
        .ins_at = ins_at,
        .outs_at = outs_at,
        .new_at = new_at,
        .paths = paths,
        .rollback_limit = SIZE_MAX,
        .looks_left = SIZE_MAX,
        .tells_left = SIZE_MAX };
    map_clear(&slice->nodes);
    map_clear(&slice->lanes);
    map_clear(&slice->slots);
    map_clear(&slice->queues);
    map_clear(&slice->changed);
    map_clear(&slice->ins_at);
    map_clear(&slice->outs_at);
    map_clear(&slice->new_at);
    map_clear(&slice->paths);
}

void slice_release(struct slice *slice)
{
    map_release(&slice->nodes);
    map_release(&slice->lanes);
    map_release(&slice->slots);
    map_release(&slice->queues);
    map_release(&slice->changed);
    map_release(&slice->ins_at);
    map_release(&slice->outs_at);
    map_release(&slice->new_at);
    map_release(&slice->paths);
}

struct node *slice_find(struct slice *slice, int64_t id)
{
    struct node *node = map_find(&slice->nodes, (uint64_t)id);
    if (node)
        return node;
    struct task row;
    bool found = false;
    if (slice->failed)
        return NULL;
    if (!slice->rows->task(slice->rows->owner, slice->arena, id, &row, &found, slice->err)) {
        slice->failed = true;
        return NULL;
    }
    if (!found)
        return NULL;
    node = ARENA_NEW(slice->arena, struct node);
    node->row = row;
    node->was = row.state;
    node->was_class = row.class_id;
    node->was_prio = row.prio;
    node->was_vt = row.vt;
    node->was_unique = row.unique;
    map_put(&slice->nodes, (uint64_t)id, node);
    return node;
}

struct lane *slice_lane(struct slice *slice, int64_t id)
{
    struct lane *lane = map_find(&slice->lanes, (uint64_t)id + 1);
    if (lane)
        return lane;
    lane = ARENA_NEW(slice->arena, struct lane);
    *lane = *slice->rows->lane(slice->rows->owner, id);
    map_put(&slice->lanes, (uint64_t)id + 1, lane);
    return lane;
}

struct slot *slice_slot(struct slice *slice, int64_t id)
{
    struct slot *slot = map_find(&slice->slots, (uint64_t)id);
    if (slot)
        return slot;
    slot = ARENA_NEW(slice->arena, struct slot);
    *slot = *slice->rows->slot(slice->rows->owner, id);
    map_put(&slice->slots, (uint64_t)id, slot);
    return slot;
}

struct slot *slice_slot_for(struct slice *slice, const struct node *node, int64_t id)
{
    const struct rows *rows = slice->rows;
    if (id >= SLOT_NAMED && !map_find(&slice->slots, (uint64_t)id))
        rows->slot_open(rows->owner, id, slice_lane(slice, node->row.lane)->tenant, slice_spec(slice, node));
    return slice_slot(slice, id);
}

void slice_class(struct slice *slice, struct node *node)
{
    const struct rows *rows = slice->rows;
    if (!node->row.class_id || rows->class_there(rows->owner, node->row.class_id))
        return;
    struct str key = slice_spec(slice, node)->class_key;
    if (slice->failed)
        return;
    if (PLANT(class_lost))
        return;
    node->row.class_id = rows->class_make(rows->owner, node->row.class_id, key);
    node->dirty = true;
}

const struct spec *slice_spec(struct slice *slice, const struct node *node)
{
    static const struct spec none = { .attempts_max = 1 };
    const struct spec *spec = slice->rows->spec(slice->rows->owner, node->row.spec, slice->err);
    if (!spec)
        slice->failed = true;
    return spec ? spec : &none;
}

void slice_touch(struct slice *slice, struct node *node)
{
    (void)slice;
    node->dirty = true;
}

void slice_event(struct slice *slice, const struct event *event)
{
    struct event *e = ARRAY_ADD(slice->arena, slice->events);
    *e = *event;
}

void slice_node_event(struct slice *slice, struct node *node, enum event_kind kind, enum task_state from,
    enum task_state to, const struct because *because)
{
    slice_event(slice, &(struct event){ .kind = kind,
                           .task = node->row.id,
                           .lane = node->row.lane,
                           .from = from,
                           .to = to,
                           .attempt = node->row.attempts,
                           .grant = node->row.grant,
                           .actor = because->actor,
                           .reason = because->reason,
                           .cause = because->cause,
                           .prev_turn = node->row.last_turn == slice->turn ? 0 : node->row.last_turn });
    node->row.last_turn = slice->turn;
    node->dirty = true;
}

struct node *slice_create(struct slice *slice, const struct task *row, const struct because *because)
{
    struct node *node = ARENA_NEW(slice->arena, struct node);
    node->row = *row;
    node->row.state = STATE_Q;
    node->was = STATE_NONE;
    node->outs_loaded = node->ins_loaded = true;
    map_put(&slice->nodes, (uint64_t)row->id, node);
    slice_lane(slice, row->lane)->counts[STATE_Q]++;
    slice_node_event(slice, node, EVENT_created, STATE_NONE, STATE_Q, because);
    return node;
}

/* Start-time fair queueing: within a priority, lanes take turns whatever their length. */
static void virtual_start(struct slice *slice, struct task *row)
{
    struct lane *lane = slice_lane(slice, row->lane);
    bool promoted = row->marks & MARK_PROMOTED, fair = true;
    if (PLANT(promotion_parked))
        promoted = false;
    if (PLANT(unfair_lanes))
        fair = false;
    if (promoted)
        row->vt = 0;
    if (promoted || row->marks & MARK_CHANGESET) /* a target's own order is that of the labels, which vt holds */
        return;
    int64_t from = fair && lane->last_vt > slice->v_now ? lane->last_vt : slice->v_now;
    row->vt = lane->last_vt = from + VT_STEP;
}

void slice_fresh(struct slice *slice, struct node *node)
{
    if (node->in_fresh)
        return;
    node->in_fresh = true;
    *ARRAY_ADD(slice->arena, slice->fresh) = node;
}

void slice_move(struct slice *slice, struct node *node, enum task_state to, const struct because *because)
{
    struct task *row = &node->row;
    enum task_state from = row->state;
    ASSERT(move_legal(from, to));
    struct lane *lane = slice_lane(slice, row->lane);
    lane->counts[from]--;
    lane->counts[to]++;
    row->state = to;
    node->untold = state_ended(to);
    if (to == STATE_P) {
        slice_class(slice, node);
        if (from == STATE_S)
            row->ready = slice->stamp;
        if (from != STATE_X)
            virtual_start(slice, row); /* what was lost goes back to its old place */
        slice_fresh(slice, node);
    }
    if (from == STATE_X && row->marks & MARK_CHANGESET)
        *ARRAY_ADD(slice->arena, slice->freed) = row->class_id;
    if (to == STATE_X)
        row->started = slice->stamp;
    if (to == STATE_X)
        row->waits = 0; /* also by a late result */
    if (state_ended(to)) {
        row->finished = slice->stamp;
        row->marks &= ~(unsigned)(MARK_PROMOTED | MARK_LOOK);
        if (from != STATE_X)
            row->started = 0; /* it waited: `started` to `finished` would be no run of its */
    }
    if (state_ended(from)) {
        row->finished = row->started = 0;
        row->outcome = OUTCOME_none;
        row->reason = (struct str){ 0 };
        row->cause = 0;
        row->marks &= ~(unsigned)MARK_PRUNED; /* what it leaves behind from now on is counted, and pruned, again */
    }
    slice_node_event(slice, node, EVENT_move, from, to, because);
}

enum { EDGES_FEW = 16 }; /* are searched one by one; of more there is an index, made when it is asked for */

struct edge_mark {          /* where an edge stands in a list */
    struct edge_mark *next; /* of the same hash */
    size_t at;
    struct edge edge; /* its key */
};

static bool edge_same(const struct edge *a, const struct edge *b)
{
    return a->waiter == b->waiter && a->pred == b->pred && a->kind == b->kind;
}

static uint64_t edge_hash(const struct edge *edge)
{
    return ((uint64_t)edge->waiter * 0x9e3779b97f4a7c15u ^ (uint64_t)edge->pred) * 0xbf58476d1ce4e5b9u +
           (uint64_t)edge->kind;
}

static void edge_index(struct slice *slice, struct map *index, const struct edge *edge, size_t at)
{
    uint64_t hash = edge_hash(edge);
    struct edge_mark *mark = ARENA_NEW(slice->arena, struct edge_mark);
    *mark = (struct edge_mark){ map_find(index, hash), at, *edge };
    map_put(index, hash, mark);
}

static const struct edge_mark *edge_indexed(const struct map *index, const struct edge *key)
{
    const struct edge_mark *mark = map_find(index, edge_hash(key));
    while (mark && !edge_same(&mark->edge, key))
        mark = mark->next;
    return mark;
}

/* The edge of a list that only ever grows, from place `from` on; NULL: it isn't there. */
static struct edge *edge_in(struct slice *slice, struct map *index, size_t *indexed, struct edge *edges, size_t from,
    size_t n, const struct edge *key)
{
    if (n - from <= EDGES_FEW) {
        for (size_t i = from; i < n; i++)
            if (edge_same(&edges[i], key))
                return &edges[i];
        return NULL;
    }
    for (; *indexed < n; ++*indexed)
        edge_index(slice, index, &edges[*indexed], *indexed);
    const struct edge_mark *mark = edge_indexed(index, key);
    return mark ? &edges[mark->at] : NULL;
}

static struct edge *edge_of_waiter(struct slice *slice, struct node *waiter, const struct edge *key)
{
    return edge_in(slice, &slice->ins_at, &waiter->ins_indexed, waiter->ins, 0, waiter->n_ins, key);
}

/* The edge in edges_changed; NULL: this turn hasn't changed it. */
static struct edge *edge_changed(struct slice *slice, const struct edge *edge)
{
    const struct edge_mark *mark = slice->edges_changed.n ? edge_indexed(&slice->changed, edge) : NULL;
    return mark ? &slice->edges_changed.at[mark->at] : NULL;
}

/* Flags of stored edges that this turn has changed already. */
static void edges_patch(struct slice *slice, struct edge *edges, size_t n)
{
    for (size_t i = 0; i < n && slice->edges_changed.n; i++) {
        const struct edge *changed = edge_changed(slice, &edges[i]);
        if (changed)
            edges[i].flags = changed->flags;
    }
}

static void edges_load(struct slice *slice, struct node *node, bool by_pred)
{
    bool *loaded = by_pred ? &node->outs_loaded : &node->ins_loaded;
    int64_t count = by_pred ? node->row.out - (int64_t)node->n_outs_new : node->row.ins;
    if (*loaded)
        return;
    *loaded = true;
    struct edge *edges = NULL;
    size_t n = 0;
    if (count > 0 && !slice->failed &&
        !slice->rows->edges(slice->rows->owner, slice->arena, node->row.id, by_pred, &edges, &n, slice->err)) {
        slice->failed = true;
        n = 0;
    }
    edges_patch(slice, edges, n);
    if (!by_pred) {
        node->ins = edges;
        node->n_ins = node->cap_ins = n;
        return;
    }
    node->outs = edges;
    node->n_outs = node->cap_outs = n;
    for (size_t i = 0; i < node->n_outs_new; i++)
        *ARENA_PUSH(slice->arena, node->outs, node->n_outs, node->cap_outs) = node->outs_new[i];
}

struct edge *slice_outs(struct slice *slice, struct node *node, size_t *out_n)
{
    edges_load(slice, node, true);
    *out_n = node->n_outs;
    return node->outs;
}

struct edge *slice_ins(struct slice *slice, struct node *node, size_t *out_n)
{
    edges_load(slice, node, false);
    *out_n = node->n_ins;
    return node->ins;
}

static int by_waiter(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->waiter != y->waiter)
        return x->waiter < y->waiter ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* Those that the slice has of a node's edges as the predecessor and that lie behind `after`, in no order. */
static void outs_known(
    struct slice *slice, const struct node *node, int64_t after, struct edge **out, size_t *n, size_t *cap)
{
    const struct edge *known = node->outs_loaded ? node->outs : node->outs_new;
    size_t n_known = node->outs_loaded ? node->n_outs : node->n_outs_new;
    for (size_t i = 0; i < n_known; i++)
        if (known[i].waiter > after)
            *ARENA_PUSH(slice->arena, *out, *n, *cap) = known[i];
}

struct edge *slice_outs_after(
    struct slice *slice, struct node *node, int64_t after, size_t n, size_t *out_n, bool *out_more)
{
    struct edge *edges = NULL;
    size_t found = 0, cap = 0, asked = n + EDGE_KIND_COUNT; /* so many edges one waiter may have, at most */
    bool rest = !node->outs_loaded && !slice->failed && node->row.out > (int64_t)node->n_outs_new;
    if (rest && !slice->rows->outs_after(
                    slice->rows->owner, slice->arena, node->row.id, after, asked, &edges, &found, slice->err)) {
        slice->failed = true;
        found = 0;
    }
    cap = found;
    edges_patch(slice, edges, found);
    size_t stored = found, end = 0;
    outs_known(slice, node, after, &edges, &found, &cap);
    if (found > stored)
        qsort(edges, found, sizeof *edges, by_waiter);
    while (end < found && (end < n || edges[end].waiter == edges[end - 1].waiter))
        end++;
    *out_more = end < found;
    *out_n = end;
    return edges;
}

struct edge *slice_outs_others(struct slice *slice, struct node *node, enum edge_kind but, size_t *out_n)
{
    struct edge *edges = NULL;
    size_t n = 0, cap = 0, kept = 0;
    bool rest = !node->outs_loaded && !slice->failed && node->row.out > (int64_t)node->n_outs_new;
    if (rest &&
        !slice->rows->outs_others(slice->rows->owner, slice->arena, node->row.id, but, &edges, &n, slice->err)) {
        slice->failed = true;
        n = 0;
    }
    cap = n;
    edges_patch(slice, edges, n);
    outs_known(slice, node, 0, &edges, &n, &cap);
    for (size_t i = 0; i < n; i++)
        if (edges[i].kind != but)
            edges[kept++] = edges[i];
    *out_n = kept;
    return edges;
}

int64_t slice_told_to(struct slice *slice, struct node *node)
{
    size_t n = 0;
    const struct hold *holds = node->told_to ? NULL : slice_holds_of_task(slice, node->row.id, &n);
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind == HOLD_telling)
            node->told_to = holds[i].rank + 1;
    return node->told_to ? node->told_to - 1 : 0;
}

bool slice_edge_open(struct slice *slice, const struct edge *edge, struct node *pred)
{
    bool over = edge->kind == EDGE_DEPENDS ? pred->row.state == STATE_D : state_ended(pred->row.state);
    if (PLANT(tells_unread))
        return !over;
    return !over || slice_untold(slice, edge, pred);
}

bool slice_untold(struct slice *slice, const struct edge *edge, struct node *pred)
{
    bool telling = state_ended(pred->row.state) && pred->row.holds & 1u << HOLD_telling;
    return telling && edge->waiter > slice_told_to(slice, pred);
}

static void edge_change(struct slice *slice, struct node *waiter, struct node *pred, struct edge key);

static void edge_add(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags)
{
    struct edge edge = { .waiter = waiter->row.id, .pred = pred->row.id, .kind = kind, .flags = flags };
    edges_load(slice, waiter, false);
    const struct edge *known = edge_of_waiter(slice, waiter, &edge);
    if (known) {
        edge.flags = (known->flags & ~(unsigned)EDGE_LOCK) | flags; /* what somebody wrote says more than the lock */
        if (flags & (EDGE_PREV | EDGE_NEEDED) && edge.flags != known->flags)
            edge_change(slice, waiter, pred, edge);
        if (flags & EDGE_NEEDED)
            waiter->row.marks |= MARK_NEEDS;
        return;
    }
    *ARENA_PUSH(slice->arena, waiter->ins, waiter->n_ins, waiter->cap_ins) = edge;
    if (pred->outs_loaded)
        *ARENA_PUSH(slice->arena, pred->outs, pred->n_outs, pred->cap_outs) = edge;
    else
        *ARENA_PUSH(slice->arena, pred->outs_new, pred->n_outs_new, pred->cap_outs_new) = edge;
    *ARRAY_ADD(slice->arena, slice->edges_new) = edge;
    if (!waiter->edges_from)
        waiter->edges_from = slice->edges_new.n;
    waiter->row.ins++;
    pred->row.out++;
    if (kind != EDGE_CANCELS && slice_edge_open(slice, &edge, pred))
        waiter->row.waits++;
    if (kind == EDGE_CANCELS)
        waiter->row.marks |= MARK_CANCELS;
    if (flags & EDGE_NEEDED || (kind == EDGE_DEPENDS && pred->row.marks & MARK_OUTPUTS))
        waiter->row.marks |= MARK_NEEDS;
    waiter->dirty = pred->dirty = true;
}

void slice_edge_add(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind)
{
    edge_add(slice, waiter, pred, kind, 0);
}

void slice_edge_add_prev(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind)
{
    edge_add(slice, waiter, pred, kind, EDGE_PREV);
}

void slice_edge_add_as(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags)
{
    edge_add(slice, waiter, pred, kind, flags);
}

void slice_edge_add_lock(struct slice *slice, struct node *waiter, struct node *pred)
{
    edge_add(slice, waiter, pred, EDGE_AFTER, EDGE_LOCK);
}

static const struct edge *edge_find(
    struct slice *slice, struct node *waiter, const struct node *pred, enum edge_kind kind)
{
    edges_load(slice, waiter, false);
    return edge_of_waiter(
        slice, waiter, &(struct edge){ .waiter = waiter->row.id, .pred = pred->row.id, .kind = kind });
}

/* Sets the flags of the edge wherever it stands. */
static void edge_change(struct slice *slice, struct node *waiter, struct node *pred, struct edge key)
{
    /* mostly they were added one after the other */
    size_t from = waiter->edges_from ? waiter->edges_from - 1 : slice->edges_new.n;
    struct edge *in = edge_of_waiter(slice, waiter, &key);
    struct edge *out = edge_in(slice, &slice->outs_at, &pred->outs_indexed, pred->outs, 0, pred->n_outs, &key);
    struct edge *made =
        edge_in(slice, &slice->new_at, &slice->new_indexed, slice->edges_new.at, from, slice->edges_new.n, &key);
    if (in)
        in->flags = key.flags;
    if (out)
        out->flags = key.flags;
    for (size_t i = 0; !out && i < pred->n_outs_new; i++)
        if (edge_same(&pred->outs_new[i], &key))
            pred->outs_new[i].flags = key.flags;
    if (!made)
        made = edge_changed(slice, &key);
    if (made) {
        made->flags = key.flags;
        return;
    }
    edge_index(slice, &slice->changed, &key, slice->edges_changed.n);
    *ARRAY_ADD(slice->arena, slice->edges_changed) = key;
}

void slice_edge_flag(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags)
{
    const struct edge *edge = edge_find(slice, waiter, pred, kind);
    if (!edge || (edge->flags & flags) == flags)
        return;
    struct edge key = *edge;
    key.flags |= flags;
    edge_change(slice, waiter, pred, key);
}

void slice_edge_unflag(struct slice *slice, struct node *waiter, struct node *pred, enum edge_kind kind, unsigned flags)
{
    const struct edge *edge = edge_find(slice, waiter, pred, kind);
    if (!edge || !(edge->flags & flags))
        return;
    struct edge key = *edge;
    key.flags &= ~flags;
    edge_change(slice, waiter, pred, key);
}

void slice_edge_again(struct slice *slice, struct node *waiter, struct node *pred, unsigned flags)
{
    const struct edge *edge = edge_find(slice, waiter, pred, EDGE_AFTER);
    if (!edge || !(edge->flags & EDGE_SPENT)) {
        edge_add(slice, waiter, pred, EDGE_AFTER, flags);
        return;
    }
    struct edge key = *edge;
    key.flags &= ~(unsigned)EDGE_SPENT;
    edge_change(slice, waiter, pred, key);
    if (slice_edge_open(slice, &key, pred))
        waiter->row.waits++;
    waiter->dirty = true;
}

struct walk slice_walk(struct slice *slice, struct node *first)
{
    struct walk walk = { .slice = slice, .visit = ++slice->visits };
    slice_walk_add(&walk, first);
    return walk;
}

void slice_walk_add(struct walk *walk, struct node *node)
{
    if (node->visit == walk->visit)
        return;
    node->visit = walk->visit;
    *ARENA_PUSH(walk->slice->arena, walk->list, walk->n, walk->cap) = node;
}
