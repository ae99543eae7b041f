#include "core/expand.h"

#include "base/err.h"
#include "base/map.h"
#include "base/plant.h"

struct want {                    /* what one task wants of another */
    enum edge_kind same, prev;   /* waits: EDGE_NONE, EDGE_AFTER or EDGE_DEPENDS */
    bool needs_same, needs_prev; /* `depends` wrote it */
    bool cancels_same, cancels_prev;
    bool listed;
};

struct expander {
    const struct expand_input *input;
    const struct workflow *workflow;
    struct arena *arena;
    struct expansion *out;
    struct smap by_name;   /* -> index + 1; COMMIT is n; behind it stand the names in `gone` */
    size_t n;              /* tasks of the workflow; index n is COMMIT */
    size_t *depth, *order; /* order: by depth, then place in the files */
    bool *created, *skipped, *replaced;
    struct want *wants;
    size_t *listed;
    size_t n_listed;
    struct str *gone; /* names behind PREV: that this workflow doesn't have; index n + 1 on */
    size_t n_gone, cap_gone;
};

static size_t index_of(const struct expander *x, struct str name)
{
    return (size_t)(uintptr_t)smap_find(&x->by_name, name) - 1;
}

static struct str name_of(const struct expander *x, size_t index)
{
    if (index > x->n)
        return x->gone[index - x->n - 1];
    return index == x->n ? STR("COMMIT") : x->workflow->tasks[index].name;
}

/* gone_add: names that only earlier revisions may have. */
static void gone_add(struct expander *x, const struct workflow_refs *refs)
{
    for (size_t i = 0; i < refs->n; i++) {
        if (!refs->items[i].prev || smap_find(&x->by_name, refs->items[i].name) != NULL)
            continue;
        *ARENA_PUSH(x->arena, x->gone, x->n_gone, x->cap_gone) = refs->items[i].name;
        smap_put(&x->by_name, refs->items[i].name, (void *)(uintptr_t)(x->n + 1 + x->n_gone));
    }
}

static void names_learn(struct expander *x)
{
    for (size_t i = 0; i <= x->n; i++)
        smap_put(&x->by_name, name_of(x, i), (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; i < x->n; i++) {
        gone_add(x, &x->workflow->tasks[i].depends);
        gone_add(x, &x->workflow->tasks[i].after);
        gone_add(x, &x->workflow->tasks[i].cancels);
    }
    gone_add(x, &x->workflow->commit.depends);
}

/* -- order -- */

struct arcs { /* the waiters of v: waiter[start[v]] .. waiter[start[v + 1]] */
    size_t *start, *waiter, *open;
};

static void refs_count(struct expander *x, const struct workflow_refs *refs, size_t from, struct arcs *arcs, bool fill)
{
    for (size_t i = 0; i < refs->n; i++) {
        size_t to = refs->items[i].prev ? SIZE_MAX : index_of(x, refs->items[i].name);
        if (to >= x->n) /* earlier revisions, and COMMIT, which stands before all */
            continue;
        if (fill) {
            arcs->waiter[arcs->start[to + 1]++] = from;
        } else {
            arcs->start[to + 2]++;
            arcs->open[from]++;
        }
    }
}

/* depths_find: Kahn's way through the waits of the revision; `order` comes out by depth, then place, because levels are
 * taken one by one.
 */
static void depths_find(struct expander *x)
{
    size_t n = x->n, n_arcs = 0, done = 0;
    struct arcs arcs = { ARENA_ARRAY(x->arena, size_t, n + 3), NULL, ARENA_ARRAY(x->arena, size_t, n + 1) };
    for (size_t i = 0; i < n; i++) {
        refs_count(x, &x->workflow->tasks[i].depends, i, &arcs, false);
        refs_count(x, &x->workflow->tasks[i].after, i, &arcs, false);
    }
    for (size_t v = 2; v < n + 2; v++)
        arcs.start[v] += arcs.start[v - 1];
    n_arcs = arcs.start[n + 1];
    arcs.waiter = ARENA_ARRAY(x->arena, size_t, n_arcs + 1);
    for (size_t i = 0; i < n; i++) {
        refs_count(x, &x->workflow->tasks[i].depends, i, &arcs, true);
        refs_count(x, &x->workflow->tasks[i].after, i, &arcs, true);
    }
    for (size_t i = 0; i < n; i++)
        if (arcs.open[i] == 0)
            x->order[done++] = i;
    for (size_t at = 0; at < done; at++) {
        size_t v = x->order[at];
        for (size_t k = arcs.start[v]; k < arcs.start[v + 1]; k++) {
            size_t w = arcs.waiter[k];
            if (x->depth[w] < x->depth[v] + 1)
                x->depth[w] = x->depth[v] + 1;
            if (--arcs.open[w] == 0)
                x->order[done++] = w;
        }
    }
    ASSERT(done == n); /* the reader of the workflow has refused circles */
    /* Within a level the walk's order is that in which tasks became free: sort each level by the order of the files. */
    size_t *first = ARENA_ARRAY(x->arena, size_t, n + 2);
    for (size_t i = 0; i < n; i++)
        first[x->depth[i] + 1]++;
    for (size_t d = 1; d <= n; d++)
        first[d] += first[d - 1];
    for (size_t i = 0; i < n; i++)
        x->order[first[x->depth[i]]++] = i;
}

/* -- what is created -- */

/* blocked: does it depend on a task of the revision that isn't created? */
static bool blocked(const struct expander *x, const struct workflow_task *task)
{
    for (size_t i = 0; i < task->depends.n; i++) {
        size_t other = task->depends.items[i].prev ? x->n : index_of(x, task->depends.items[i].name);
        if (other < x->n && !x->created[other])
            return true;
    }
    return false;
}

static void commit_choose(struct expander *x)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct workflow_task *task = &x->workflow->tasks[x->order[i]];
        x->created[x->order[i]] = (task->triggers & TRIGGER_COMMIT) != 0 && !task->detached && !blocked(x, task);
    }
}

/* run_choose: the tasks named, and what depends on them and isn't created by commits. `created` holds the latter when
 * this begins. */
static void run_choose(struct expander *x)
{
    bool *chosen = ARENA_ARRAY(x->arena, bool, x->n + 1);
    for (size_t i = 0; i < x->input->n_run; i++) {
        size_t index = index_of(x, x->input->run[i]);
        if (index < x->n)
            chosen[index] = true;
    }
    for (size_t i = 0; i < x->n; i++) {
        size_t at = x->order[i];
        const struct workflow_task *task = &x->workflow->tasks[at];
        bool follows = false, blocks = task->starts_alone || x->created[at];
        for (size_t k = 0; k < task->depends.n && !blocks; k++) {
            size_t other = task->depends.items[k].prev ? x->n : index_of(x, task->depends.items[k].name);
            follows = follows || (other < x->n && chosen[other]);
            blocks = other < x->n && !chosen[other] && !x->created[other];
        }
        chosen[at] = chosen[at] || (follows && !blocks);
    }
    for (size_t i = 0; i < x->n; i++)
        x->created[i] = chosen[i];
}

/* -- edges -- */

static void edge_add(struct expander *x, size_t task, int64_t rev, struct str name, enum edge_kind kind, bool needed)
{
    *ARENA_PUSH(x->arena, x->out->edges, x->out->n_edges, x->out->cap_edges) = (struct expand_edge){ .task = task,
        .other = { .rev = rev, .name = name },
        .kind = kind,
        .prev = kind != EDGE_CANCELS && rev < x->input->rev,
        .needed = needed };
}

static struct want *want_of(struct expander *x, size_t index)
{
    if (!x->wants[index].listed) {
        x->wants[index].listed = true;
        x->listed[x->n_listed++] = index;
    }
    return &x->wants[index];
}

static void waits_want(struct expander *x, const struct workflow_refs *refs, bool depends)
{
    for (size_t i = 0; i < refs->n; i++) {
        const struct workflow_ref *ref = &refs->items[i];
        size_t other = index_of(x, ref->name);
        bool success = depends && ref->on == WORKFLOW_ON_SUCCESS;
        if (depends && ref->on == WORKFLOW_ON_DEFAULT && !ref->prev)
            success = other == x->n || !x->workflow->tasks[other].allow_failure;
        enum edge_kind kind = success ? EDGE_DEPENDS : EDGE_AFTER;
        struct want *want = want_of(x, other);
        enum edge_kind *wanted = ref->prev ? &want->prev : &want->same;
        if (*wanted != EDGE_DEPENDS)
            *wanted = kind;
        *(ref->prev ? &want->needs_prev : &want->needs_same) |= depends;
    }
}

static void cancels_want(struct expander *x, const struct workflow_refs *refs)
{
    for (size_t i = 0; i < refs->n; i++) {
        struct want *want = want_of(x, index_of(x, refs->items[i].name));
        if (refs->items[i].prev)
            want->cancels_prev = true;
        else
            want->cancels_same = true;
    }
}

/* earlier_add: an edge to the task of each revision that PREV means, each once. */
static void earlier_add(struct expander *x, size_t task, struct str name, enum edge_kind kind, bool needed)
{
    const struct expand_input *input = x->input;
    for (size_t i = 0; i < input->n_prevs; i++) {
        int64_t rev = input->earlier(input->context, name, input->prevs[i], kind == EDGE_CANCELS);
        bool there = rev <= 0;
        for (size_t k = x->out->n_edges; k-- > 0 && x->out->edges[k].task == task && !there;)
            there = x->out->edges[k].other.rev == rev && x->out->edges[k].kind == kind &&
                    str_eq(x->out->edges[k].other.name, name);
        if (!there)
            edge_add(x, task, rev, name, kind, needed);
    }
}

/* is_there: is there such a task in this revision, made now or (a run) by its commit? */
static bool is_there(struct expander *x, size_t index)
{
    if (index < x->n && x->created[index])
        return true;
    if (x->input->run == NULL)
        return index == x->n;
    return x->input->earlier(x->input->context, name_of(x, index), x->input->rev, false) == x->input->rev;
}

static void wants_emit(struct expander *x, size_t task, bool skipped)
{
    bool implied = false;
    size_t n = x->n;
    for (size_t i = 0; i < x->n_listed; i++) {
        size_t other = x->listed[i];
        bool made = other < n && !x->replaced[other];
        if (PLANT(commit_unwaited))
            made = other < n;
        if (made && x->wants[other].same == EDGE_DEPENDS && is_there(x, other))
            implied = true;
    }
    bool commit = x->out->tasks[task].def == &x->workflow->commit;
    if (!commit && x->wants[n].same == EDGE_AFTER)
        x->wants[n].same = EDGE_DEPENDS; /* `after: [COMMIT]` doesn't loosen what every task does */
    if (!commit && !implied && !x->wants[n].listed && is_there(x, n))
        edge_add(x, task, x->input->rev, STR("COMMIT"), EDGE_DEPENDS, false);
    for (size_t i = 0; i < x->n_listed; i++) {
        size_t other = x->listed[i];
        const struct want want = x->wants[other];
        struct str name = name_of(x, other);
        x->wants[other] = (struct want){ 0 };
        /* PREV:COMMIT is listed, COMMIT isn't */
        if (other == n && want.same == EDGE_NONE && !commit && !implied && is_there(x, n))
            edge_add(x, task, x->input->rev, name, EDGE_DEPENDS, false);
        if (want.same != EDGE_NONE && is_there(x, other))
            edge_add(x, task, x->input->rev, name, want.same, want.needs_same && other < n);
        if (want.prev != EDGE_NONE)
            earlier_add(x, task, name, want.prev, want.needs_prev && other < n);
        if (want.cancels_same && !skipped && is_there(x, other))
            edge_add(x, task, x->input->rev, name, EDGE_CANCELS, false);
        if (want.cancels_prev && !skipped)
            earlier_add(x, task, name, EDGE_CANCELS, false);
    }
    x->n_listed = 0;
}

static void tasks_make(struct expander *x)
{
    const struct expand_input *input = x->input;
    struct expansion *out = x->out;
    out->tasks = ARENA_ARRAY(x->arena, struct expand_task, x->n + 1);
    if (input->run == NULL) {
        out->tasks[out->n_tasks++] = (struct expand_task){ .def = &x->workflow->commit, .name = STR("COMMIT") };
        want_of(x, x->n)->prev = EDGE_AFTER;
        waits_want(x, &x->workflow->commit.depends, true);
        wants_emit(x, 0, false);
    }
    for (size_t i = 0; i < x->n; i++) {
        const struct workflow_task *task = &x->workflow->tasks[i];
        if (!x->created[i])
            continue;
        size_t at = out->n_tasks++;
        out->tasks[at] = (struct expand_task){
            .def = task, .name = task->name, .skipped = x->skipped[i], .replaced = x->replaced[i], .depth = x->depth[i]
        };
        if (x->replaced[i])
            continue;
        waits_want(x, &task->depends, true);
        waits_want(x, &task->after, false);
        cancels_want(x, &task->cancels);
        wants_emit(x, at, x->skipped[i]);
    }
}

/* standing_find: which of the created tasks are skipped, and which are another task. Known before the first edge is
 * made. */
static void standing_find(struct expander *x)
{
    const struct expand_input *input = x->input;
    x->skipped = ARENA_ARRAY(x->arena, bool, x->n + 1);
    x->replaced = ARENA_ARRAY(x->arena, bool, x->n + 1);
    for (size_t i = 0; i < x->n; i++) {
        const struct workflow_task *task = &x->workflow->tasks[i];
        if (!x->created[i])
            continue;
        /* Who runs a task by hand means it, whatever the revision touched. */
        x->skipped[i] =
            task->paths.n > 0 && input->run == NULL && input->touched != NULL && !input->touched(input->context, task);
        x->replaced[i] = !x->skipped[i] && input->replaced != NULL && input->replaced(input->context, task);
    }
}

/* -- locks -- */

static void lock_wait(struct expander *x, size_t task, struct expand_ref other, const size_t *begin)
{
    for (size_t i = begin[task]; i < begin[task + 1] && other.run == 0; i++) {
        const struct expand_edge *edge = &x->out->edges[i];
        if (edge->kind != EDGE_CANCELS && edge->other.rev == other.rev && str_eq(edge->other.name, other.name))
            return; /* it waits for it anyway */
    }
    *ARENA_PUSH(x->arena, x->out->edges, x->out->n_edges, x->out->cap_edges) =
        (struct expand_edge){ .task = task, .other = other, .kind = EDGE_AFTER, .lock = true };
}

static void lock_take(struct expander *x, size_t task, enum workflow_lock kind, const size_t *begin)
{
    struct expand_lock *lock = &x->out->lock;
    struct expand_ref self = {
        .rev = x->input->rev, .name = x->out->tasks[task].name, .shared = kind == WORKFLOW_LOCK_SHARED
    };
    for (size_t i = 0; i < lock->n_before; i++)
        if (!self.shared || !lock->before[i].shared)
            lock_wait(x, task, lock->before[i], begin);
    if (kind == WORKFLOW_LOCK_SHARED) {
        if (lock->exclusive.rev > 0)
            lock_wait(x, task, lock->exclusive, begin);
        *ARENA_PUSH(x->arena, lock->shared, lock->n_shared, lock->cap_shared) = self;
        return;
    }
    size_t n_shared = lock->n_shared;
    if (PLANT(lock_past_shared))
        n_shared = 0;
    for (size_t i = 0; i < n_shared; i++)
        lock_wait(x, task, lock->shared[i], begin);
    if (lock->n_shared == 0 && lock->exclusive.rev > 0)
        lock_wait(x, task, lock->exclusive, begin);
    *lock = (struct expand_lock){ .exclusive = self };
}

static void locks_make(struct expander *x)
{
    struct expansion *out = x->out;
    size_t *place = ARENA_ARRAY(x->arena, size_t, x->n + 1), *begin = ARENA_ARRAY(x->arena, size_t, out->n_tasks + 2);
    out->lock.exclusive = x->input->lock.exclusive;
    out->lock.before = x->input->lock.before;
    out->lock.n_before = x->input->lock.n_before;
    for (size_t i = 0; i < x->input->lock.n_shared; i++)
        *ARENA_PUSH(x->arena, out->lock.shared, out->lock.n_shared, out->lock.cap_shared) = x->input->lock.shared[i];
    for (size_t i = 0; i < out->n_tasks; i++)
        if (out->tasks[i].def != &x->workflow->commit)
            place[out->tasks[i].def - x->workflow->tasks] = i + 1;
    for (size_t i = 0; i < out->n_edges; i++) /* edges stand by task */
        begin[out->edges[i].task + 1] = i + 1;
    for (size_t i = 1; i <= out->n_tasks; i++)
        if (begin[i] == 0)
            begin[i] = begin[i - 1];
    for (size_t i = 0; i < x->n; i++) {
        size_t task = place[x->order[i]];
        enum workflow_lock kind = x->workflow->tasks[x->order[i]].lock;
        if (task == 0 || kind == WORKFLOW_LOCK_NONE)
            continue;
        const struct expand_task *made = &out->tasks[task - 1];
        bool over = x->input->over != NULL && x->input->over(x->input->context, made->def);
        bool replaced = made->replaced;
        if (PLANT(lock_replaced))
            replaced = false;
        if (!made->skipped && !over && !replaced)
            lock_take(x, task - 1, kind, begin);
    }
}

void expand(const struct expand_input *input, struct arena *arena, struct expansion *out)
{
    *out = (struct expansion){ 0 };
    struct expander x = {
        .input = input, .workflow = input->workflow, .arena = arena, .out = out, .n = input->workflow->n_tasks
    };
    x.depth = ARENA_ARRAY(arena, size_t, x.n + 1);
    x.order = ARENA_ARRAY(arena, size_t, x.n + 1);
    x.created = ARENA_ARRAY(arena, bool, x.n + 1);
    names_learn(&x);
    x.wants = ARENA_ARRAY(arena, struct want, x.n + x.n_gone + 1);
    x.listed = ARENA_ARRAY(arena, size_t, x.n + x.n_gone + 1);
    depths_find(&x);
    commit_choose(&x);
    if (input->run != NULL)
        run_choose(&x);
    standing_find(&x);
    tasks_make(&x);
    locks_make(&x);
    smap_release(&x.by_name);
}
