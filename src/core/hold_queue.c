/* hold_queue: the holds of tasks as one turn sees them: the stored rows, less those that the turn took away, plus those
 * that it added.
 *
 * Each change of the turn is listed twice: with its task (a task has few) and, for kinds that are asked for by key, in
 * the ordered queue of (kind, key). A queue is a skip list; stored rows come into it in growing pages, as far as it is
 * read. So adding, removing and reading the first n cost the logarithm of what the turn has seen of that queue, never
 * what else waits or what else the turn did.
 *
 * Fails as the slice does: a load that fails sets `failed`. */
#include "core/hold.h"

enum {
    QUEUE_LEVELS = 16,
    QUEUE_PAGE = 32, /* stored rows of the first load; each later one asks for four times as many */
    QUEUE_GROWTH = 4,
};

struct queued { /* next[]: one for each level that it is in */
    struct hold hold;
    struct queued *next[];
};

struct hold_queue {
    enum hold_kind kind;
    int64_t key;
    struct queued *first[QUEUE_LEVELS];
    size_t asked;     /* stored rows that were asked for so far; 0: none */
    struct hold last; /* of those; what stands behind it may have stored rows before it */
    bool whole;       /* there are no more */
    bool in_todo;     /* of a slot: it will be looked at (slots_todo) */
};

struct hold_mark { /* a change of this turn, with its task */
    struct hold_mark *next;
    size_t at; /* in holds_add or holds_remove */
};

static bool hold_same(const struct hold *a, const struct hold *b)
{
    return a->kind == b->kind && a->key == b->key && a->rank == b->rank && a->task == b->task;
}

static int hold_order(const struct hold *a, const struct hold *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

/* --- marks --- */

/* Takes the mark of this very hold out of a task's list; false: there is none. */
static bool mark_take(struct hold_mark **list, struct hold *holds, const struct hold *hold)
{
    for (struct hold_mark **at = list; *at; at = &(*at)->next) {
        if (!hold_same(&holds[(*at)->at], hold))
            continue;
        holds[(*at)->at].kind = HOLD_none; /* left out by slice_holds_pack */
        *at = (*at)->next;
        return true;
    }
    return false;
}

static bool mark_find(const struct hold_mark *list, const struct hold *holds, const struct hold *hold)
{
    for (; list; list = list->next)
        if (hold_same(&holds[list->at], hold))
            return true;
    return false;
}

static void mark_put(struct slice *slice, struct hold_mark **list, size_t at)
{
    struct hold_mark *mark = ARENA_NEW(slice->arena, struct hold_mark);
    *mark = (struct hold_mark){ *list, at };
    *list = mark;
}

/* --- queues --- */

static bool kind_queues(enum hold_kind kind)
{
    return (HOLDS_QUEUED & 1u << kind) != 0;
}

static struct hold_queue *queue_get(struct slice *slice, enum hold_kind kind, int64_t key)
{
    uint64_t at = (uint64_t)key << HOLD_KIND_BITS | (uint64_t)kind; /* keys are numbers of lanes, slots and classes */
    struct hold_queue *queue = map_find(&slice->queues, at);
    if (queue)
        return queue;
    queue = ARENA_NEW(slice->arena, struct hold_queue);
    queue->kind = kind;
    queue->key = key;
    map_put(&slice->queues, at, queue);
    return queue;
}

/* As random as the numbers are not, and the same for the same hold: every second one reaches the level above. */
static size_t levels_of(const struct hold *hold)
{
    uint64_t mix = ((uint64_t)hold->task ^ (uint64_t)hold->rank << 20) * 0x9e3779b97f4a7c15u;
    mix = (mix ^ mix >> 29) * 0xbf58476d1ce4e5b9u;
    size_t levels = 1;
    for (mix ^= mix >> 32; mix & 1 && levels < QUEUE_LEVELS; mix >>= 1)
        levels++;
    return levels;
}

/* The places, level by level, that point behind what comes before the hold. */
static void queue_seek(struct hold_queue *queue, const struct hold *hold, struct queued **places[QUEUE_LEVELS])
{
    struct queued **next = queue->first;
    for (size_t level = QUEUE_LEVELS; level-- > 0;) {
        while (next[level] && hold_order(&next[level]->hold, hold) < 0)
            next = next[level]->next;
        places[level] = &next[level];
    }
}

static void queue_put(struct slice *slice, struct hold_queue *queue, const struct hold *hold)
{
    struct queued **places[QUEUE_LEVELS];
    size_t levels = levels_of(hold);
    queue_seek(queue, hold, places);
    if (*places[0] && hold_same(&(*places[0])->hold, hold))
        return; /* taken away and put back before the stored rows were read */
    struct queued *queued = arena_alloc(slice->arena, sizeof *queued + levels * sizeof queued->next[0]);
    queued->hold = *hold;
    for (size_t i = 0; i < levels; i++) {
        queued->next[i] = *places[i];
        *places[i] = queued;
    }
}

static void queue_take(struct hold_queue *queue, const struct hold *hold)
{
    struct queued **places[QUEUE_LEVELS];
    queue_seek(queue, hold, places);
    struct queued *queued = *places[0];
    if (!queued || !hold_same(&queued->hold, hold))
        return; /* stored, and not read yet */
    for (size_t i = levels_of(hold); i-- > 0;)
        *places[i] = queued->next[i];
}

/* More of the stored rows. False: they can't be read. */
static bool queue_load(struct slice *slice, struct hold_queue *queue)
{
    struct hold *stored = NULL;
    size_t n = 0, ask = queue->asked ? queue->asked * QUEUE_GROWTH : QUEUE_PAGE;
    if (slice->failed)
        return false;
    if (!slice->rows->holds_of(
            slice->rows->owner, slice->arena, queue->kind, queue->key, ask, &stored, &n, slice->err)) {
        slice->failed = true;
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (queue->asked && hold_order(&stored[i], &queue->last) <= 0)
            continue;
        const struct node *node = map_find(&slice->nodes, (uint64_t)stored[i].task);
        if (!node || !mark_find(node->holds_removed, slice->holds_remove.at, &stored[i]))
            queue_put(slice, queue, &stored[i]);
    }
    queue->asked = ask;
    queue->whole = n < ask;
    if (n)
        queue->last = stored[n - 1];
    return true;
}

/* The next one behind `at` (NULL: the first); NULL: there is none. */
static const struct queued *queue_next(struct slice *slice, struct hold_queue *queue, const struct queued *at)
{
    for (;;) {
        const struct queued *next = at ? at->next[0] : queue->first[0];
        if (queue->whole || (queue->asked && next && hold_order(&next->hold, &queue->last) <= 0))
            return next;
        if (!queue_load(slice, queue))
            return NULL;
    }
}

size_t slice_holds_first(struct slice *slice, enum hold_kind kind, int64_t key, size_t n, struct hold *out)
{
    struct hold_queue *queue = queue_get(slice, kind, key);
    const struct queued *at = NULL;
    size_t found = 0;
    while (found < n && (at = queue_next(slice, queue, at)))
        out[found++] = at->hold;
    return slice->failed ? 0 : found;
}

bool slice_hold_is_first(struct slice *slice, enum hold_kind kind, int64_t key, size_t n, int64_t task)
{
    struct hold_queue *queue = queue_get(slice, kind, key);
    const struct queued *at = NULL;
    while (n-- > 0 && (at = queue_next(slice, queue, at)))
        if (at->hold.task == task)
            return true;
    return false;
}

/* --- what the turn changes --- */

void slice_hold_add(struct slice *slice, const struct hold *hold)
{
    struct node *node = slice_find(slice, hold->task);
    if (!node)
        return; /* the slice has failed */
    if (kind_queues(hold->kind))
        queue_put(slice, queue_get(slice, hold->kind, hold->key), hold);
    if (mark_take(&node->holds_removed, slice->holds_remove.at, hold))
        return; /* taken away and put back: as if nothing had been */
    *ARRAY_ADD(slice->arena, slice->holds_add) = *hold;
    mark_put(slice, &node->holds_added, slice->holds_add.n - 1);
}

void slice_hold_remove(struct slice *slice, const struct hold *hold)
{
    struct node *node = slice_find(slice, hold->task);
    if (!node)
        return;
    if (kind_queues(hold->kind))
        queue_take(queue_get(slice, hold->kind, hold->key), hold);
    if (mark_take(&node->holds_added, slice->holds_add.at, hold))
        return;
    *ARRAY_ADD(slice->arena, slice->holds_remove) = *hold;
    mark_put(slice, &node->holds_removed, slice->holds_remove.n - 1);
}

static size_t holds_pack(struct hold *holds, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (holds[i].kind != HOLD_none)
            holds[kept++] = holds[i];
    return kept;
}

void slice_holds_pack(struct slice *slice)
{
    slice->holds_add.n = holds_pack(slice->holds_add.at, slice->holds_add.n);
    slice->holds_remove.n = holds_pack(slice->holds_remove.at, slice->holds_remove.n);
}

/* --- by task --- */

/* The order in which a task's holds are given up: the same whatever order the store brought them in. */
static int task_hold_order(const struct hold *a, const struct hold *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key ? 1 : hold_order(a, b);
}

struct hold *slice_holds_of_task(struct slice *slice, int64_t task, size_t *out_n)
{
    struct hold *stored = NULL, *out = NULL;
    size_t n_stored = 0, n = 0, cap = 0;
    struct node *node = slice_find(slice, task);
    *out_n = 0;
    if (node && node->was != STATE_NONE && !slice->failed &&
        !slice->rows->holds_of_task(slice->rows->owner, slice->arena, task, &stored, &n_stored, slice->err))
        slice->failed = true;
    if (!node || slice->failed)
        return NULL;
    for (size_t i = 0; i < n_stored; i++)
        if (!mark_find(node->holds_removed, slice->holds_remove.at, &stored[i]))
            *ARENA_PUSH(slice->arena, out, n, cap) = stored[i];
    for (const struct hold_mark *mark = node->holds_added; mark; mark = mark->next)
        *ARENA_PUSH(slice->arena, out, n, cap) = slice->holds_add.at[mark->at];
    for (size_t i = 1; i < n; i++) { /* few, and nearly sorted */
        struct hold h = out[i];
        size_t j = i;
        for (; j > 0 && task_hold_order(&h, &out[j - 1]) < 0; j--)
            out[j] = out[j - 1];
        out[j] = h;
    }
    *out_n = n;
    return out;
}

/* --- slots that are to be looked at, a heap by name --- */

/* By tenant and name: the order in which slots are looked at is the engine's own, whatever the store. */
static bool slot_before(struct slice *slice, const struct hold_queue *a, const struct hold_queue *b)
{
    const struct slot *x = slice_slot(slice, a->key), *y = slice_slot(slice, b->key);
    int order = str_cmp(x->name, y->name);
    if (order == 0)
        order = str_cmp(x->tenant, y->tenant);
    return order ? order < 0 : a->key < b->key;
}

void slice_slot_todo(struct slice *slice, int64_t slot)
{
    struct hold_queue *queue = queue_get(slice, HOLD_slot, slot);
    if (queue->in_todo)
        return;
    (void)slice_slot(slice, slot); /* it is compared with the others */
    queue->in_todo = true;
    (void)ARRAY_ADD(slice->arena, slice->slots_todo);
    struct hold_queue **heap = slice->slots_todo.at;
    size_t at = slice->slots_todo.n - 1;
    for (; at > 0 && slot_before(slice, queue, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = queue;
}

int64_t slice_slot_next(struct slice *slice)
{
    struct hold_queue **heap = slice->slots_todo.at, *first = heap[0], *last = heap[--slice->slots_todo.n];
    size_t at = 0, n = slice->slots_todo.n;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && slot_before(slice, heap[child + 1], heap[child]))
            child++;
        if (!slot_before(slice, heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    first->in_todo = false;
    return first->key;
}

int64_t slice_slot_left(const struct slice *slice, size_t i)
{
    return slice->slots_todo.at[i]->key;
}
