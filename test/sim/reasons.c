/* reasons: `why`, checked. For every waiting task the facts are collected as the api does it, core explains them, and then the named
 * conditions are lifted in a slice of their own: with all of them lifted the task goes on, with any one left it doesn't. Nothing of that
 * reaches the store.
 *
 * What can only stand in the way once the task is ready is allowed to appear then: slots that it has not queued for yet, and the end of
 * what it supersedes. */
#include <stdlib.h>
#include <string.h>

#include "core/settle.h"
#include "core/why.h"
#include "world.h"

/* --- the store as a slice's rows
 * ------------------------------------------------------------------------------------------------------------- */

static bool rows_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->store;
    return store->ops->load_task(store, arena, id, out, out_found, err);
}

static bool rows_edges(void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->store;
    return store->ops->load_edges(store, arena, id, by_pred, out, out_n, err);
}

static const struct spec *rows_spec(void *owner, int64_t id, struct err *err)
{
    (void)err;
    return map_find(&((struct memstore *)owner)->specs, (uint64_t)id);
}

static bool rows_holds_of(
    void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n, struct hold **out, size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->store;
    return store->ops->holds_of(store, arena, kind, key, n, out, out_n, err);
}

static bool rows_holds_of_task(void *owner, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->store;
    return store->ops->holds_of_task(store, arena, task, out, out_n, err);
}

static const struct lane *rows_lane(void *owner, int64_t id)
{
    static const struct lane all = { .kind = LANE_QUEUE, .name = { "all", 3 } };
    const struct lane *lane = map_find(&((struct memstore *)owner)->lanes, (uint64_t)id + 1);
    return lane ? lane : &all;
}

static const struct slot *rows_slot(void *owner, int64_t id)
{
    return map_find(&((struct memstore *)owner)->slots, (uint64_t)id);
}

/* --- facts, as api/explain.c collects them
 * --------------------------------------------------------------------------------------------------- */

static void slots_collect(struct memstore *m, struct arena *arena, struct why_facts *facts)
{
    facts->slots = ARENA_ARRAY(arena, struct why_slot, facts->n_holds + 1);
    for (size_t i = 0; i < facts->n_holds; i++) {
        const struct hold *hold = &facts->holds[i];
        if (hold->kind != HOLD_slot) continue;
        struct why_slot *out = &facts->slots[facts->n_slots++];
        *out = (struct why_slot){ .slot = *rows_slot(m, hold->key), .since = hold->since };
        for (size_t k = 0; k < m->n_holds; k++)
            out->ahead += m->holds[k].kind == HOLD_slot && m->holds[k].key == hold->key && m->holds[k].rank < hold->rank;
    }
}

static void facts_collect(struct world *w, const struct task *task, struct arena *arena, struct why_facts *facts)
{
    struct memstore *m = w->store;
    struct err err = { 0 };
    const struct edges *ins = map_find(&m->ins, (uint64_t)task->id);
    *facts = (struct why_facts){ .task = *task, .lane_name = STR("q"), .ready_ahead = -1, .now = w->wall };
    facts->preds = ARENA_ARRAY(arena, struct why_pred, (ins ? ins->n : 0) + 1);
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        facts->preds[facts->n_preds++] = (struct why_pred){ .id = e->pred,
            .key = str_fmt(arena, "%lld", (long long)e->pred),
            .state = store_task(w, e->pred)->state,
            .kind = e->kind,
            .fired = e->flags == EDGE_FIRED };
    }
    facts->lane = rows_lane(m, task->lane);
    facts->all = rows_lane(m, 0);
    rows_holds_of_task(m, arena, task->id, &facts->holds, &facts->n_holds, &err);
    slots_collect(m, arena, facts);
    facts->class_ = task->class_id ? map_find(&m->classes, (uint64_t)task->class_id) : NULL;
    const struct executor **list = ARENA_ARRAY(arena, const struct executor *, m->executors.n + 1);
    bool *live = ARENA_ARRAY(arena, bool, m->executors.n + 1);
    MAP_EACH(&m->executors, e) {
        list[facts->n_executors] = e->value;
        live[facts->n_executors++] = ((const struct executor *)e->value)->state == EXECUTOR_ACTIVE;
    }
    facts->executors = list;
    facts->live = live;
}

/* --- lifting
 * -------------------------------------------------------------------------------------------------------------------------------- */

enum group { GROUP_EDGE, GROUP_TIME, GROUP_PAUSE, GROUP_SLOT, GROUP_EXECUTOR };

static enum group group_of(const struct why_condition *c)
{
    if (strcmp(c->kind, "dependency") == 0 || strcmp(c->kind, "precursor") == 0) return GROUP_EDGE;
    if (strcmp(c->kind, "not_before") == 0) return GROUP_TIME;
    if (strcmp(c->kind, "pause") == 0) return GROUP_PAUSE;
    return strcmp(c->kind, "executor") == 0 ? GROUP_EXECUTOR : GROUP_SLOT;
}

static void slots_lift(struct slice *slice, struct node *node, const struct why_facts *facts)
{
    for (size_t i = 0; i < facts->n_slots; i++) {
        int64_t id = facts->slots[i].slot.id;
        size_t n;
        struct hold *waiters = slice_holds_of(slice, HOLD_slot, id, 1000, &n);
        for (size_t k = 0; k < n; k++) {
            if (waiters[k].task == node->row.id) continue;
            slice_hold_remove(slice, &waiters[k]);
            slice_slot(slice, id)->waiting--;
        }
        slice_slot(slice, id)->limit = slice_slot(slice, id)->used + 1;
        slot_changed(slice, id);
    }
}

static void lift(struct slice *slice, struct node *node, const struct why_facts *facts, const struct why_condition *c)
{
    switch (group_of(c)) {
    case GROUP_EDGE:
        slice_find(slice, strtoll(str_dupz(slice->arena, c->holder), NULL, 10))->row.state = STATE_D;
        node->row.waits--;
        break;
    case GROUP_TIME: node->row.not_before = 0; break;
    case GROUP_PAUSE: slice_lane(slice, str_starts(c->detail, STR("all ")) ? 0 : node->row.lane)->paused_since = 0; break;
    case GROUP_SLOT: slots_lift(slice, node, facts); break;
    case GROUP_EXECUTOR: break; /* what is asked here is whether it becomes pending */
    }
}

/* Where the task stands with all named conditions lifted but one (SIZE_MAX: all of them). Slots count as one: they are had all or none. */
static struct task lifted(struct world *w, const struct why_facts *facts, const struct why *why, size_t except)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct slice slice = { 0 };
    struct rows rows = { .owner = w->store, .task = rows_task, .edges = rows_edges, .spec = rows_spec, .holds_of = rows_holds_of,
                         .holds_of_task = rows_holds_of_task, .lane = rows_lane, .slot = rows_slot };
    bool slots_stay = except != SIZE_MAX && group_of(&why->conditions[except]) == GROUP_SLOT, slots_done = false;
    slice_init(&slice, &arena, &rows, w->wall, w->store->head.turn + 1, &err);
    slice.arrivals = w->store->head.seq;
    struct node *node = slice_find(&slice, facts->task.id);
    for (size_t i = 0; i < why->n_conditions; i++) {
        bool slot = group_of(&why->conditions[i]) == GROUP_SLOT;
        if (i == except || (slot && (slots_stay || slots_done))) continue;
        slots_done |= slot;
        lift(&slice, node, facts, &why->conditions[i]);
    }
    task_consider(&slice, node);
    slice_settle(&slice);
    struct task result = node->row;
    slice_release(&slice);
    arena_release(&arena);
    return result;
}

static void why_fail(struct world *w, const struct why_facts *facts, const struct why *why, const char *invariant)
{
    trace(w, "why %lld (%c, waits %lld, holds %x) names:", (long long)facts->task.id, state_letter(facts->task.state),
        (long long)facts->task.waits, facts->task.holds);
    for (size_t i = 0; i < why->n_conditions; i++) trace(w, "  %s: %.*s", why->conditions[i].kind, STR_ARG(why->conditions[i].detail));
    world_fail(w, invariant, facts->task.id);
}

static void check_executor_part(struct world *w, const struct why_facts *facts, const struct why *why)
{
    bool named = false, could = false;
    for (size_t i = 0; i < why->n_conditions; i++) named |= group_of(&why->conditions[i]) == GROUP_EXECUTOR;
    for (size_t i = 0; i < facts->n_executors; i++)
        could |= facts->live[i] && facts->class_ && executor_fits(w, executor_of(w, facts->executors[i]->id), &facts->task);
    bool expected = facts->class_ && (!could || facts->task.state == STATE_P);
    if (named != expected) why_fail(w, facts, why, "why: an executor is named wrongly");
}

static void why_mark(struct world *w, const struct why *why)
{
    for (size_t i = 0; i < why->n_conditions; i++) {
        switch (group_of(&why->conditions[i])) {
        case GROUP_EDGE: MARK(w, why_edges); break;
        case GROUP_TIME: MARK(w, why_time); break;
        case GROUP_PAUSE: MARK(w, why_pause); break;
        case GROUP_SLOT: MARK(w, why_slot); break;
        case GROUP_EXECUTOR: break;
        }
    }
    if (why->n_conditions > 1) MARK(w, why_many);
    if (why->verdict == WHY_NEVER) MARK(w, why_never);
    w->n_why++;
    w->n_why_conditions += why->n_conditions;
}

static void check_one(struct world *w, const struct task *task)
{
    struct arena arena = { 0 };
    struct why_facts facts;
    struct why why;
    facts_collect(w, task, &arena, &facts);
    why_explain(&facts, &arena, &why);
    why_mark(w, &why);
    check_executor_part(w, &facts, &why);
    if (task->state == STATE_S) {
        struct task all = lifted(w, &facts, &why, SIZE_MAX);
        bool late = all.state == STATE_S && (all.waits > 0 || all.holds & (1u << HOLD_slot)); /* what comes up only when it is ready */
        if (all.state == STATE_S && !late) why_fail(w, &facts, &why, "why: with all it names lifted the task still waits");
        bool fresh = !(task->holds & (1u << HOLD_slot)) || !(all.holds & (1u << HOLD_slot));
        if (late && all.waits == 0 && !fresh) why_fail(w, &facts, &why, "why: with its slots free the task still waits for them");
        for (size_t i = 0; i < why.n_conditions; i++) {
            if (group_of(&why.conditions[i]) == GROUP_EXECUTOR) continue;
            if (lifted(w, &facts, &why, i).state != STATE_S) why_fail(w, &facts, &why, "why: it names what isn't in the way");
        }
    }
    arena_release(&arena);
}

void check_why(struct world *w)
{
    MAP_EACH(&w->store->tasks, t) {
        const struct task *task = t->value;
        if (task->state == STATE_S || task->state == STATE_P) check_one(w, task);
    }
}
