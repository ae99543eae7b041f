/* workflow_check: the checks that need all files: names without a definition, cycles, contradictions.
 *
 * Cost is bounded by tasks and references: cycles are found in linear time, and which task waits for which, over any
 * number of steps, is kept as bits (5,000 tasks: 3 MiB). */
#include <string.h>

#include "core/graph.h"
#include "text/workflow_read.h"

enum { CYCLES_MAX = 20, SUGGESTIONS_MAX = 20, SHOWN_MAX = 30 };

struct arc { /* `from` waits for `to`; n_tasks stands for COMMIT */
    size_t from, to;
    struct workflow_place place;
};

struct check {
    struct workflow_read *read;
    struct workflow *workflow;
    struct str *names; /* of all tasks, for suggestions */
    struct arc *arcs;
    size_t n_arcs, cap_arcs;
};

static size_t task_index(const struct check *check, struct str name) /* SIZE_MAX: none */
{
    if (str_eqz(name, "COMMIT"))
        return check->workflow->n_tasks;
    return (size_t)(uintptr_t)smap_find(&check->read->by_name, name) - 1;
}

static const struct workflow_task *task_at(const struct check *check, size_t index)
{
    return index == check->workflow->n_tasks ? &check->workflow->commit : &check->workflow->tasks[index];
}

static struct str name_at(const struct check *check, size_t index)
{
    return index == check->workflow->n_tasks ? STR("COMMIT") : check->workflow->tasks[index].name;
}

static bool fault(const struct check *check, struct workflow_place place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool fault(const struct check *check, struct workflow_place place, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_verror(check->read->diags, workflow_diag_place(check->read, place), fmt, args);
    va_end(args);
    return false;
}

static void names_suggest(struct check *check, struct str name)
{
    struct workflow *workflow = check->workflow;
    if (check->read->diags->n > SUGGESTIONS_MAX) /* each one is compared with every name */
        return;
    if (check->names == NULL) {
        check->names = ARENA_ARRAY(check->read->arena, struct str, workflow->n_tasks + 1);
        for (size_t i = 0; i < workflow->n_tasks; i++)
            check->names[i] = workflow->tasks[i].name;
    }
    diag_suggest_closest(check->read->diags, name, check->names, workflow->n_tasks);
}

static void name_unknown(struct check *check, struct workflow_place place, struct str name)
{
    if (check->read->incomplete)
        return; /* it may stand in the file that couldn't be read */
    fault(check, place, "there is no task '%.*s'", STR_ARG(diag_shown(name)));
    names_suggest(check, name);
}

/* An earlier revision may have it: nothing is wrong, but a slip of the pen would look the same. */
static void name_gone(struct check *check, const struct workflow_ref *ref)
{
    if (check->read->incomplete)
        return;
    diag_warning(check->read->diags, workflow_diag_place(check->read, ref->place),
        "this workflow has no task '%.*s': PREV:%.*s is satisfied unless an earlier revision has it",
        STR_ARG(diag_shown(ref->name)), STR_ARG(diag_shown(ref->name)));
    names_suggest(check, ref->name);
}

static bool ref_equal(const struct workflow_ref *a, const struct workflow_ref *b)
{
    return a->prev == b->prev && str_eq(a->name, b->name) && str_eq(a->variant, b->variant);
}

/* refs_check: names that exist, and no reference twice. */
static void refs_check(struct check *check, const struct workflow_refs *refs)
{
    struct smap seen = { 0 };
    for (size_t i = 0; i < refs->n; i++) {
        const struct workflow_ref *ref = &refs->items[i];
        if (ref->name.len == 0)
            continue; /* of a task whose name is wrong */
        bool known = task_index(check, ref->name) != SIZE_MAX;
        if (!known && ref->prev)
            name_gone(check, ref);
        else if (!known)
            name_unknown(check, ref->place, ref->name);
        const struct workflow_ref *first = smap_find(&seen, ref->name);
        if (first != NULL && ref_equal(first, ref))
            diag_warning(check->read->diags, workflow_diag_place(check->read, ref->place),
                "'%.*s' stands twice in this list", STR_ARG(ref->name));
        else if (first == NULL)
            smap_put(&seen, ref->name, &refs->items[i]);
    }
    smap_release(&seen);
}

static void arcs_add(struct check *check, size_t from, const struct workflow_refs *refs)
{
    for (size_t i = 0; i < refs->n; i++) {
        size_t to = refs->items[i].prev ? SIZE_MAX : task_index(check, refs->items[i].name);
        if (to != SIZE_MAX)
            *ARENA_PUSH(check->read->arena, check->arcs, check->n_arcs, check->cap_arcs) =
                (struct arc){ from, to, refs->items[i].place };
    }
}

/* links_settle: the shorthand becomes `depends`, without doubling what a task says itself. */
static void links_settle(struct check *check)
{
    struct workflow_read *read = check->read;
    for (size_t i = 0; i < read->n_steps; i++)
        if (task_index(check, read->steps[i].name) == SIZE_MAX)
            name_unknown(check, read->steps[i].place, read->steps[i].name);
    for (size_t i = 0; i < read->n_links; i++) {
        const struct workflow_link *link = &read->links[i];
        size_t waiter = task_index(check, link->waiter);
        if (waiter == SIZE_MAX || task_index(check, link->step.name) == SIZE_MAX)
            continue;
        bool commit = waiter == check->workflow->n_tasks, there = false;
        struct workflow_task *task = commit ? &check->workflow->commit : &check->workflow->tasks[waiter];
        /* a double does no harm; many comparisons would */
        for (size_t k = 0; k < task->depends.n && k < 100 && !there; k++)
            there = !task->depends.items[k].prev && task->depends.items[k].variant.len == 0 &&
                    str_eq(task->depends.items[k].name, link->step.name);
        if (!there)
            *ARENA_PUSH(read->arena, task->depends.items, task->depends.n, task->depends.cap) =
                (struct workflow_ref){ .name = link->step.name, .place = link->step.place };
    }
}

static void arcs_collect(struct check *check)
{
    struct workflow *workflow = check->workflow;
    for (size_t i = 0; i < workflow->n_tasks; i++) {
        arcs_add(check, i, &workflow->tasks[i].depends);
        arcs_add(check, i, &workflow->tasks[i].after);
    }
    size_t before = check->n_arcs;
    arcs_add(check, workflow->n_tasks, &workflow->commit.depends);
    if (check->n_arcs == before)
        return;
    /* Only when COMMIT waits for a task of its own revision do the implicit edges to it matter. */
    for (size_t i = 0; i < workflow->n_tasks; i++)
        *ARENA_PUSH(check->read->arena, check->arcs, check->n_arcs, check->cap_arcs) =
            (struct arc){ i, workflow->n_tasks, workflow->tasks[i].place };
}

/* cycle_say: the circle from its first task on, at the reference that leads on from there. */
static void cycle_say(struct check *check, const size_t *cycle, size_t n)
{
    size_t first = 0;
    for (size_t i = 1; i < n; i++)
        if (cycle[i] < cycle[first])
            first = i;
    struct workflow_place place = task_at(check, cycle[first])->place;
    size_t next = cycle[(first + 1) % n];
    for (size_t i = 0; i < check->n_arcs; i++) {
        if (check->arcs[i].from == cycle[first] && check->arcs[i].to == next) {
            place = check->arcs[i].place;
            break;
        }
    }
    if (n == 1) {
        fault(check, place, "'%.*s' waits for itself", STR_ARG(name_at(check, cycle[0])));
        diag_suggest(check->read->diags, "did you mean 'PREV', the task of the revision before?");
        return;
    }
    struct buf text;
    buf_init(&text, 6000);
    for (size_t i = 0; i <= n; i++) {
        if (n > SHOWN_MAX && i == SHOWN_MAX / 2) {
            buf_addf(&text, " -> ... %zu more ...", n - SHOWN_MAX);
            i = n - SHOWN_MAX / 2;
        }
        buf_addf(&text, "%s%.*s", i == 0 ? "" : " -> ", STR_ARG(name_at(check, cycle[(first + i) % n])));
    }
    fault(check, place, "tasks wait for each other in a circle: %.*s", STR_ARG(buf_str(&text)));
    buf_release(&text);
}

/* cycles_check: circles that share no task, up to a number of them; false when there is one. */
static bool cycles_check(struct check *check)
{
    size_t n = check->workflow->n_tasks + 1, n_arcs = check->n_arcs;
    struct arena *arena = check->read->arena;
    struct graph_arc *arcs = ARENA_ARRAY(arena, struct graph_arc, n_arcs + 1);
    bool *used = ARENA_ARRAY(arena, bool, n);
    for (size_t i = 0; i < n_arcs; i++)
        arcs[i] = (struct graph_arc){ check->arcs[i].from, check->arcs[i].to };
    for (size_t round = 0; round < CYCLES_MAX; round++) {
        size_t *cycle = NULL, length = graph_cycle(n, arcs, n_arcs, arena, &cycle);
        if (length == 0)
            return round == 0;
        cycle_say(check, cycle, length);
        for (size_t i = 0; i < length; i++)
            used[cycle[i]] = true;
        size_t kept = 0;
        for (size_t i = 0; i < n_arcs; i++)
            if (!used[arcs[i].from])
                arcs[kept++] = arcs[i];
        n_arcs = kept;
    }
    return false;
}

/* -- contradictions -- */

static bool bit_get(const uint64_t *bits, size_t i)
{
    return (bits[i / 64] >> (i % 64) & 1) != 0;
}

/* waits_collect: for every task the bits of all that it waits for in its revision, over any number of steps. There must
 * be no circle. */
static uint64_t **waits_collect(struct check *check)
{
    size_t n = check->workflow->n_tasks + 1, words = (n + 63) / 64, n_ready = 0;
    struct arena *arena = check->read->arena;
    uint64_t **waits = ARENA_ARRAY(arena, uint64_t *, n);
    size_t *open = ARENA_ARRAY(arena, size_t, n), *ready = ARENA_ARRAY(arena, size_t, n),
           *start = ARENA_ARRAY(arena, size_t, n + 2);
    size_t *waiter = ARENA_ARRAY(arena, size_t, check->n_arcs + 1);
    for (size_t i = 0; i < check->n_arcs; i++) {
        open[check->arcs[i].from]++;
        start[check->arcs[i].to + 2]++;
    }
    for (size_t v = 2; v < n + 2; v++)
        start[v] += start[v - 1];
    for (size_t i = 0; i < check->n_arcs; i++)
        waiter[start[check->arcs[i].to + 1]++] = check->arcs[i].from;
    for (size_t v = 0; v < n; v++) {
        waits[v] = ARENA_ARRAY(arena, uint64_t, words);
        if (open[v] == 0)
            ready[n_ready++] = v;
    }
    for (size_t at = 0; at < n_ready; at++) {
        size_t v = ready[at];
        for (size_t k = start[v]; k < start[v + 1]; k++) {
            uint64_t *mine = waits[waiter[k]];
            for (size_t w = 0; w < words; w++)
                mine[w] |= waits[v][w];
            mine[v / 64] |= UINT64_C(1) << (v % 64);
            if (--open[waiter[k]] == 0)
                ready[n_ready++] = waiter[k];
        }
    }
    return waits;
}

static const struct workflow_ref *ref_find(const struct workflow_refs *refs, const struct workflow_ref *wanted)
{
    for (size_t i = 0; i < refs->n; i++)
        if (ref_equal(&refs->items[i], wanted))
            return &refs->items[i];
    return NULL;
}

static void cancel_check(
    struct check *check, const struct workflow_task *task, const struct workflow_ref *ref, uint64_t **waits)
{
    struct str name = task->name, other = ref->name;
    const char *prev = ref->prev ? "PREV:" : "";
    size_t index = task_index(check, other), own = task_index(check, name);
    if ((index == SIZE_MAX && !ref->prev) || own == SIZE_MAX || index == check->workflow->n_tasks) {
        if (index == check->workflow->n_tasks)
            fault(check, ref->place, "COMMIT can't be cancelled: every task waits for it");
    } else if (ref_find(&task->depends, ref) != NULL) {
        fault(check, ref->place, "'%.*s' depends on '%s%.*s' and cancels it", STR_ARG(name), prev, STR_ARG(other));
    } else if (ref_find(&task->after, ref) != NULL) {
        fault(check, ref->place, "'%.*s' waits for the end of '%s%.*s' and cancels it", STR_ARG(name), prev,
            STR_ARG(other));
    } else if (!ref->prev && own == index) {
        fault(check, ref->place, "'%.*s' cancels itself", STR_ARG(name));
        diag_suggest(check->read->diags, "did you mean 'PREV', the task of the revision before?");
    } else if (!ref->prev && waits != NULL && bit_get(waits[own], index)) {
        fault(check, ref->place, "'%.*s' cancels '%.*s', but waits for it through other tasks", STR_ARG(name),
            STR_ARG(other));
    } else if (!ref->prev && waits != NULL && bit_get(waits[index], own)) {
        fault(check, ref->place, "'%.*s' cancels '%.*s', which waits for it: it would never run", STR_ARG(name),
            STR_ARG(other));
    }
}

static void cancels_check(struct check *check, bool acyclic)
{
    struct workflow *workflow = check->workflow;
    bool within = false;
    for (size_t i = 0; i < workflow->n_tasks && !within; i++)
        for (size_t k = 0; k < workflow->tasks[i].cancels.n && !within; k++)
            within = !workflow->tasks[i].cancels.items[k].prev;
    uint64_t **waits = within && acyclic ? waits_collect(check) : NULL;
    for (size_t i = 0; i < workflow->n_tasks; i++)
        for (size_t k = 0; k < workflow->tasks[i].cancels.n; k++)
            cancel_check(check, &workflow->tasks[i], &workflow->tasks[i].cancels.items[k], waits);
}

void workflow_check(struct workflow_read *read)
{
    struct check check = { .read = read, .workflow = read->out };
    if (read->tasks_over || read->refs_over)
        return; /* names would be said to be unknown that aren't */
    for (size_t i = 0; i < read->out->n_tasks; i++) {
        refs_check(&check, &read->out->tasks[i].depends);
        refs_check(&check, &read->out->tasks[i].after);
        refs_check(&check, &read->out->tasks[i].cancels);
        refs_check(&check, &read->out->tasks[i].reserved.blocked_by);
    }
    refs_check(&check, &read->out->commit.depends);
    links_settle(&check);
    arcs_collect(&check);
    cancels_check(&check, cycles_check(&check));
}
