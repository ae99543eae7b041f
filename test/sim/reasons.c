/* reasons: `why`, checked. For every waiting task the facts are collected as the api does it, core explains them, and
 * then the named conditions are lifted in a slice of their own: with all of them lifted the task goes on, with any
 * single one left it doesn't. Nothing of that reaches the store. */
#include <stdlib.h>
#include <string.h>

#include "core/hold.h"
#include "core/rollback.h"
#include "core/settle.h"
#include "world.h"

/* --- the store as a slice's rows --- */

static bool rows_task(void *owner, struct arena *arena, int64_t id, struct task *out, bool *out_found, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->load_task(store, arena, id, out, out_found, err);
}

static bool rows_edges(
    void *owner, struct arena *arena, int64_t id, bool by_pred, struct edge **out, size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->load_edges(store, arena, id, by_pred, out, out_n, err);
}

static const struct spec *rows_spec(void *owner, int64_t id, struct err *err)
{
    (void)err;
    return map_find(&((struct memstore *)owner)->specs, (uint64_t)id);
}

static bool rows_outs_after(void *owner, struct arena *arena, int64_t pred, int64_t after, size_t n, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->load_outs(store, arena, pred, after, n, out, out_n, err);
}

static bool rows_outs_others(void *owner, struct arena *arena, int64_t pred, enum edge_kind but, struct edge **out,
    size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->load_others_outs(store, arena, pred, but, out, out_n, err);
}

static bool rows_holds_of(void *owner, struct arena *arena, enum hold_kind kind, int64_t key, size_t n,
    struct hold **out, size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->holds_of(store, arena, kind, key, n, out, out_n, err);
}

static bool rows_holds_of_task(
    void *owner, struct arena *arena, int64_t task, struct hold **out, size_t *out_n, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
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
    static struct slot empty; /* of a concurrency key with nobody in it */
    const struct slot *slot = map_find(&((struct memstore *)owner)->slots, (uint64_t)id);
    empty = (struct slot){ .id = id, .limit = 1 };
    return slot ? slot : id >= SLOT_NAMED ? &empty : NULL;
}

static void rows_slot_open(void *owner, int64_t id, struct str tenant, const struct spec *spec)
{
    (void)owner, (void)id, (void)tenant, (void)spec;
}

static bool rows_class_there(void *owner, int64_t class_id)
{
    (void)owner, (void)class_id;
    return true;
}

static bool rows_changeset(
    void *owner, struct arena *arena, int64_t task, struct changeset *out, bool *out_found, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->load_changeset(store, arena, task, out, out_found, err);
}

static bool rows_changeset_near(void *owner, struct arena *arena, int64_t lane, bool applied, struct str path,
    int64_t rank, bool after, struct changeset_file *out, bool *out_found, struct err *err)
{
    struct store *store = &((struct memstore *)owner)->own.store;
    return store->ops->changeset_file_near(store, arena, lane, applied, path, rank, after, out, out_found, err);
}

static int64_t rows_rank(void *owner)
{
    (void)owner;
    return INT64_MAX; /* nothing is retried here */
}

static struct world *asked; /* of: */

static bool rows_served(void *owner, int64_t class_id)
{
    (void)owner;
    MAP_EACH (&asked->store->tasks, t) {
        const struct task *task = t->value;
        if (task->class_id == class_id)
            return task_served(asked, task);
    }
    return true;
}

/* --- facts, as api/explain.c collects them --- */

/* What the task will put to an end the moment it is ready: all that it cancels and that doesn't execute, and what those
 * were to cancel. Executing ones become preds that have to die first. */
struct doomed {
    int64_t ids[IDS_MAX];
    size_t n;
};

static bool is_doomed(const struct doomed *doomed, int64_t id)
{
    for (size_t i = 0; i < doomed->n; i++)
        if (doomed->ids[i] == id)
            return true;
    return false;
}

static void doomed_collect(struct world *w, const struct task *task, int64_t of, struct doomed *doomed,
    struct arena *arena, struct why_facts *facts, size_t *cap)
{
    const struct edges *ins = map_find(&w->store->ins, (uint64_t)of);
    for (size_t i = 0; ins && i < ins->n; i++) {
        const struct edge *e = &ins->edges[i];
        const struct task *pred = store_task(w, e->pred);
        if (e->kind != EDGE_CANCELS || pred->id == task->id)
            continue;
        if ((of == task->id || state_ended(store_task(w, of)->state)) && e->flags & EDGE_FIRED)
            continue;
        if (state_ended(pred->state)) { /* what it was to cancel may still have to be handed on */
            bool due = !(e->flags & (EDGE_FIRED | EDGE_HANDED)) && (edge_untold(w, e) || of != task->id);
            if (due && !is_doomed(doomed, pred->id)) {
                doomed->ids[doomed->n++] = pred->id;
                doomed_collect(w, task, pred->id, doomed, arena, facts, cap);
            }
            continue;
        }
        if (pred->state == STATE_X) {
            if (!is_doomed(doomed, pred->id))
                doomed->ids[doomed->n++] = pred->id;
            *ARENA_PUSH(arena, facts->preds, facts->n_preds, *cap) = (struct why_pred){ .id = pred->id,
                .key = str_fmt(arena, "%lld", (long long)pred->id),
                .state = STATE_X,
                .kind = EDGE_CANCELS,
                .due = true };
        } else if (!is_doomed(doomed, pred->id)) {
            doomed->ids[doomed->n++] = pred->id;
            doomed_collect(w, task, pred->id, doomed, arena, facts, cap);
        }
    }
}

/* A waiter whose own lane was paused since, or whose time is still to come by a clock that was set back, lets others
 * pass; one that the same pause keeps back goes on with the task. */
static bool gives_way(struct world *w, int64_t id, const struct why_facts *facts, bool queued)
{
    const struct task *task = store_task(w, id);
    bool paused = task->lane != facts->task.lane && rows_lane(w->store, task->lane)->paused_since != 0;
    paused |= task->class_id != facts->task.class_id && !task_served(w, task);
    return paused || (task->not_before > w->wall && !queued);
}

static void slots_collect(struct world *w, const struct doomed *doomed, struct arena *arena, struct why_facts *facts)
{
    struct memstore *m = w->store;
    const struct spec *spec = map_find(&m->specs, (uint64_t)facts->task.spec);
    int64_t running = running_slot(w, facts->task.lane);
    facts->slots = ARENA_ARRAY(arena, struct why_slot, spec->n_slots + 2);
    /* with nothing to run it takes none */
    for (size_t i = 0; i < spec->n_slots + (running != 0) && facts->task.class_id; i++) {
        struct why_slot *out = &facts->slots[facts->n_slots++];
        int64_t id = i < spec->n_slots ? spec->slots[i] : running;
        *out = (struct why_slot){ .slot = *rows_slot(m, id) };
        int64_t rank = (1001 - facts->task.prio) << 52; /* behind all of its priority, when it comes */
        for (size_t k = 0; k < facts->n_holds; k++) {
            if (facts->holds[k].key != id)
                continue;
            out->held |= facts->holds[k].kind == HOLD_held;
            if (facts->holds[k].kind == HOLD_slot)
                out->since = facts->holds[k].since, rank = facts->holds[k].rank;
        }
        for (size_t k = 0; k < m->n_holds; k++) {
            const struct hold *hold = &m->holds[k];
            if (hold->key != id)
                continue;
            bool first = hold->rank < rank || (hold->rank == rank && hold->task < facts->task.id);
            if (hold->kind == HOLD_slot && first && !is_doomed(doomed, hold->task))
                out->ahead += !gives_way(w, hold->task, facts, out->since != 0);
            out->slot.used -= hold->kind == HOLD_held && is_doomed(doomed, hold->task);
        }
    }
}

/* Which rollbacks hold it, by the numbers of their tasks; which change set of its target runs. */
static void sets_collect(struct world *w, struct arena *arena, struct why_facts *facts)
{
    struct str *rollbacks = ARENA_ARRAY(arena, struct str, facts->n_holds + 1);
    for (size_t i = 0; i < facts->n_holds; i++)
        rollbacks[i] = str_fmt(arena, "%lld", (long long)facts->holds[i].key);
    facts->rollbacks = rollbacks;
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (facts->task.state == STATE_P && task->state == STATE_X && task->lane == facts->task.lane)
            facts->applying = task->name;
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
        if (e->kind != EDGE_CANCELS && !edge_counts(e->kind, e->flags))
            continue;
        facts->preds[facts->n_preds++] = (struct why_pred){ .id = e->pred,
            .key = str_fmt(arena, "%lld", (long long)e->pred),
            .state = store_task(w, e->pred)->state,
            .kind = e->kind,
            .fired = edge_counts(EDGE_CANCELS, e->flags),
            .lock = (e->flags & EDGE_LOCK) != 0,
            .untold = edge_untold(w, e) };
    }
    facts->lane = rows_lane(m, task->lane);
    facts->all = rows_lane(m, 0);
    rows_holds_of_task(m, arena, task->id, &facts->holds, &facts->n_holds, &err);
    struct doomed doomed = { .n = 0 };
    size_t cap = facts->n_preds;
    for (size_t i = 0; i < facts->n_preds; i++) { /* by then they have ended */
        const struct why_pred *pred = &facts->preds[i];
        if (!state_ended(pred->state) && (pred->kind != EDGE_CANCELS || pred->fired))
            doomed.ids[doomed.n++] = pred->id;
    }
    doomed_collect(w, task, task->id, &doomed, arena, facts, &cap);
    slots_collect(w, &doomed, arena, facts);
    facts->class_ = class_of(w, task, arena);
    if (task->marks & MARK_CHANGESET)
        sets_collect(w, arena, facts);
    MAP_EACH (&m->executors, e) {
        const struct executor *row = e->value;
        if (!facts->class_ || !class_fits(facts->class_, row))
            continue;
        facts->crew.fit++;
        if (row->state != EXECUTOR_ACTIVE)
            continue;
        facts->crew.live++;
        facts->crew.open++;
        facts->crew.active++;
    }
}

/* --- lifting --- */

/* The slot that a condition names: they are named in the order of the facts. */
static int64_t slot_named(const struct why_facts *facts, const struct why *why, size_t condition)
{
    size_t nth = 0;
    for (size_t i = 0; i < condition; i++)
        nth += hold_of_word(why->conditions[i].kind) == HOLD_slot;
    for (size_t i = 0; i < facts->n_slots; i++) {
        const struct why_slot *slot = &facts->slots[i];
        if (!slot->held && slot->ahead >= slot_reach(&slot->slot) && nth-- == 0)
            return slot->slot.id;
    }
    return 0;
}

static void slot_lift(struct slice *slice, const struct node *node, int64_t id)
{
    if (!id)
        return;
    struct hold *waiters = ARENA_ARRAY(slice->arena, struct hold, 1000);
    size_t n = slice_holds_first(slice, HOLD_slot, id, 1000, waiters);
    for (size_t k = 0; k < n; k++) {
        if (waiters[k].task == node->row.id)
            continue;
        slice_hold_remove(slice, &waiters[k]);
        slice_slot(slice, id)->waiting--;
    }
    slice_slot(slice, id)->limit = slice_slot(slice, id)->used + 1;
    slot_changed(slice, id);
}

/* What it comes after has ended; what it will supersede was not counted yet. */
static void edge_lift(struct slice *slice, struct node *node, const struct why_facts *facts, int64_t pred)
{
    size_t n;
    struct hold *holds = slice_holds_of_task(slice, pred, &n);
    /* nothing else follows from this end: others that come after it stay where they are */
    for (size_t i = 0; i < n; i++) {
        slice_hold_remove(slice, &holds[i]);
        if (hold_rule(holds[i].kind)->dropped)
            hold_rule(holds[i].kind)->dropped(slice, &holds[i]);
    }
    struct node *ended = slice_find(slice, pred);
    ended->row.holds = 0;
    ended->row.state = STATE_D;
    const struct edge *ins = slice_ins(slice, ended, &n);
    for (size_t i = 0; i < n; i++) /* it was ready then: what it was to cancel is its own matter */
        if (ins[i].kind == EDGE_CANCELS)
            slice_edge_flag(slice, ended, slice_find(slice, ins[i].pred), EDGE_CANCELS, EDGE_FIRED | EDGE_SPENT);
    for (size_t i = 0; i < facts->n_preds; i++) {
        const struct why_pred *p = &facts->preds[i];
        bool over = p->kind == EDGE_DEPENDS ? p->state == STATE_D : state_ended(p->state);
        bool counts = p->id == pred && (p->kind != EDGE_CANCELS || p->fired) && (!over || p->untold);
        if (counts)
            node->row.waits--;
    }
}

/* The rollback has let it go; of a rollback itself (none is named): the members that ran don't any more. */
static void rollback_lift(struct slice *slice, struct node *node, struct str holder)
{
    size_t n;
    int64_t key = node->row.id;
    if (holder.len)
        str_to_i64(holder, &key);
    struct hold *holds = ARENA_ARRAY(slice->arena, struct hold, SETS_MAX + 1);
    n = slice_holds_first(slice, HOLD_rollback, key, SETS_MAX + 1, holds);
    for (size_t i = 0; i < n; i++)
        if (holder.len ? holds[i].task == node->row.id : holds[i].rank == MEMBER_RUNS)
            slice_hold_remove(slice, &holds[i]);
    const struct hold *left = slice_holds_of_task(slice, node->row.id, &n);
    bool held = false;
    for (size_t i = 0; i < n; i++)
        held |= left[i].kind == HOLD_rollback;
    if (!held)
        node->row.holds &= ~(1u << HOLD_rollback);
}

static void lift(struct slice *slice, struct node *node, const struct why_facts *facts, const struct why *why, size_t i)
{
    const struct why_condition *c = &why->conditions[i];
    enum hold_kind kind = hold_of_word(c->kind); /* executor: see rows_served_now */
    if (kind == HOLD_approval)
        node->row.marks &= ~(unsigned)MARK_UNAPPROVED;
    if (kind == HOLD_rollback)
        rollback_lift(slice, node, c->holder);
    if (kind == HOLD_none)
        edge_lift(slice, node, facts, strtoll(str_dupz(slice->arena, c->holder), NULL, 10));
    if (kind == HOLD_time)
        node->row.not_before = 0;
    if (kind == HOLD_pause)
        slice_lane(slice, str_starts(c->detail, STR("all ")) ? 0 : node->row.lane)->paused_since = 0;
    if (kind == HOLD_slot)
        slot_lift(slice, node, slot_named(facts, why, i));
}

static int64_t lifted_class; /* it has an executor now; 0: none */

static bool rows_served_now(void *owner, int64_t class_id)
{
    return class_id == lifted_class || rows_served(owner, class_id);
}

/* Where the task stands with all named conditions lifted but one (SIZE_MAX: all of them). */
static struct task lifted(struct world *w, const struct why_facts *facts, const struct why *why, size_t except)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct slice slice = { 0 };
    struct rows rows = { .owner = w->store,
        .task = rows_task,
        .edges = rows_edges,
        .outs_after = rows_outs_after,
        .outs_others = rows_outs_others,
        .spec = rows_spec,
        .holds_of = rows_holds_of,
        .holds_of_task = rows_holds_of_task,
        .lane = rows_lane,
        .slot = rows_slot,
        .slot_open = rows_slot_open,
        .class_there = rows_class_there,
        .served = rows_served_now,
        .changeset = rows_changeset,
        .changeset_near = rows_changeset_near,
        .rank = rows_rank };
    asked = w;
    lifted_class = 0;
    for (size_t i = 0; i < why->n_conditions; i++)
        if (i != except && hold_of_word(why->conditions[i].kind) == HOLD_executor)
            lifted_class = facts->task.class_id;
    slice_init(&slice, &arena, &rows, w->wall, w->store->head.turn + 1, &err);
    slice.rollback_limit = SETS_MAX;
    slice.arrivals = (w->store->head.turn + 1) << 16; /* behind all that have come, as in a turn */
    for (size_t i = 0; i < w->store->n_holds; i++)
        if ((w->store->holds[i].rank & 0xfffffffffffff) > slice.arrivals)
            slice.arrivals = w->store->holds[i].rank & 0xfffffffffffff;
    struct node *node = slice_find(&slice, facts->task.id);
    for (size_t i = 0; i < why->n_conditions; i++)
        if (i != except)
            lift(&slice, node, facts, why, i);
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
    for (size_t i = 0; i < why->n_conditions; i++)
        trace(w, "  %s: %.*s", why->conditions[i].kind, STR_ARG(why->conditions[i].detail));
    for (size_t i = 0; i < facts->n_preds; i++)
        trace(w, "  fact: %s to %lld, %c%s%s", edge_kind_name(facts->preds[i].kind), (long long)facts->preds[i].id,
            state_letter(facts->preds[i].state), facts->preds[i].fired ? ", fired" : "",
            facts->preds[i].due ? ", due" : "");
    for (size_t i = 0; i < facts->n_slots; i++)
        trace(w, "  fact: slot %lld, %lld of %lld, %lld ahead%s", (long long)facts->slots[i].slot.id,
            (long long)facts->slots[i].slot.used, (long long)facts->slots[i].slot.limit,
            (long long)facts->slots[i].ahead, facts->slots[i].held ? ", held" : "");
    world_fail(w, invariant, facts->task.id);
}

static void check_executor_part(struct world *w, const struct why_facts *facts, const struct why *why)
{
    bool named = false, could = false;
    for (size_t i = 0; i < why->n_conditions; i++)
        named |= hold_of_word(why->conditions[i].kind) == HOLD_executor;
    MAP_EACH (&w->store->executors, e) {
        const struct executor *row = e->value;
        could |=
            row->state == EXECUTOR_ACTIVE && facts->class_ && executor_fits(w, executor_of(w, row->id), &facts->task);
    }
    bool expected = facts->class_ && (!could || (facts->task.state == STATE_P && !facts->applying.len) ||
                                         facts->task.holds & 1u << HOLD_executor);
    if (named != expected)
        why_fail(w, facts, why, "why: an executor is named wrongly");
}

static void why_mark(struct world *w, const struct why_facts *facts, const struct why *why)
{
    for (size_t i = 0; i < facts->n_slots; i++)
        if (!facts->slots[i].held && !facts->slots[i].since &&
            facts->slots[i].ahead >= slot_reach(&facts->slots[i].slot))
            MARK(w, why_slot_ahead);
    for (size_t i = 0; i < why->n_conditions; i++) {
        const struct why_condition *c = &why->conditions[i];
        enum hold_kind kind = hold_of_word(c->kind);
        if (kind == HOLD_none)
            MARK(w, why_edges);
        if (str_starts(c->detail, STR("when it is ready")))
            MARK(w, why_supersedes);
        if (strcmp(c->kind, "lock") == 0)
            MARK(w, why_lock);
        if (kind == HOLD_time)
            MARK(w, why_time);
        if (kind == HOLD_pause)
            MARK(w, why_pause);
        if (kind == HOLD_slot)
            MARK(w, why_slot);
        if (strcmp(c->kind, "quota") == 0)
            MARK(w, why_quota);
        if (kind == HOLD_approval)
            MARK(w, why_approval);
        if (kind == HOLD_rollback)
            MARK(w, why_rollback);
        if (strcmp(c->kind, "target") == 0)
            MARK(w, why_target);
    }
    if (why->n_conditions > 1)
        MARK(w, why_many);
    if (why->verdict == WHY_NEVER)
        MARK(w, why_never);
    w->n_why++;
    w->n_why_conditions += why->n_conditions;
}

static bool cancels_open(const struct why_facts *facts)
{
    bool open = false;
    for (size_t i = 0; i < facts->n_preds; i++)
        open |= facts->preds[i].kind == EDGE_CANCELS && !facts->preds[i].fired &&
                /* what that one was to cancel is still to be handed on */
                (!state_ended(facts->preds[i].state) || facts->preds[i].untold);
    return open;
}

/* A task of a revision that waits says which one is due, and whether anybody has told of that. */
static void check_gap(struct world *w, const struct task *task)
{
    struct arena arena = { 0 };
    struct why_facts facts;
    struct why why;
    const struct archive *archive = map_find(&w->store->archives, (uint64_t)task->lane);
    facts_collect(w, task, &arena, &facts);
    bool missing = !memstore_revision(w->store, task->lane, archive->next);
    facts.gap =
        (struct why_gap){ .rev = archive->next, .missing = missing, .posted = archive->kind == ARCHIVE_EXTERNAL };
    why_explain(&facts, &arena, &why);
    MARK(w, why_gap);
    bool named = why.n_conditions > 0 && strcmp(why.conditions[0].kind, "gap") == 0;
    if (!named || archive->next >= task->rev)
        why_fail(w, &facts, &why, "why: a gap is named wrongly");
    arena_release(&arena);
}

/* A pending change set waits for the one of its target that runs; nothing else is said of one. */
static void check_target_part(struct world *w, const struct why_facts *facts, const struct why *why)
{
    bool named = false, busy = false;
    for (size_t i = 0; i < why->n_conditions; i++)
        named |= strcmp(why->conditions[i].kind, "target") == 0;
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        busy |= facts->task.marks & MARK_CHANGESET && task->state == STATE_X && task->lane == facts->task.lane;
    }
    if (named != (busy && facts->task.state == STATE_P))
        why_fail(w, facts, why, "why: a target is named wrongly");
}

/* A rollback that isn't ready will stop the members that run then, and wait for that. */
static bool stops_later(struct world *w, const struct task *task)
{
    const struct sim_set *set = set_of_task(w, task);
    bool later = set && set->movetype == MOVE_RB && !(task->marks & MARK_FIXED);
    uint64_t members = later ? set_members(w, set, true) : 0;
    for (size_t i = 0; i < w->n_sets; i++)
        if (members >> i & 1 && w->sets[i].task && store_task(w, w->sets[i].task)->state == STATE_X)
            return true;
    return false;
}

static void check_one(struct world *w, const struct task *task)
{
    struct arena arena = { 0 };
    struct why_facts facts;
    struct why why;
    facts_collect(w, task, &arena, &facts);
    why_explain(&facts, &arena, &why);
    why_mark(w, &facts, &why);
    check_executor_part(w, &facts, &why);
    check_target_part(w, &facts, &why);
    if (task->state == STATE_S && !stops_later(w, task)) {
        struct task all = lifted(w, &facts, &why, SIZE_MAX);
        /* what it ends may set others free */
        bool overtaken = all.state == STATE_S && all.waits == 0 && cancels_open(&facts);
        if (all.state == STATE_S && !overtaken)
            trace(w, "  with all lifted it waits for %lld edges, holds %x", (long long)all.waits, all.holds);
        if (all.state == STATE_S && !overtaken)
            why_fail(w, &facts, &why, "why: with all it names lifted the task still waits");
        for (size_t i = 0; i < why.n_conditions; i++) {
            bool executor = hold_of_word(why.conditions[i].kind) == HOLD_executor;
            /* without slots it goes on to wait for it in P */
            if (executor && (facts.n_slots == 0 || task_served(w, task)))
                continue;
            struct task left = lifted(w, &facts, &why, i);
            /* else superseded by something that went on itself */
            bool goes_on = left.state == STATE_P || left.state == STATE_D;
            bool shared =
                hold_of_word(why.conditions[i].kind) == HOLD_slot || strcmp(why.conditions[i].kind, "lock") == 0;
            if (goes_on && cancels_open(&facts) && shared)
                continue; /* it may end, with those that it supersedes, who has the slot or the lock */
            if (goes_on)
                trace(w, "  with condition %zu left it is %c", i, state_letter(left.state));
            if (goes_on)
                why_fail(w, &facts, &why, "why: it names what isn't in the way");
        }
    }
    arena_release(&arena);
}

void check_why(struct world *w)
{
    MAP_EACH (&w->store->lanes, l) /* not stored: servers know it by heart */
        ((struct lane *)l->value)->quota = running_slot(w, ((const struct lane *)l->value)->id);
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (task->state == STATE_S || task->state == STATE_P)
            check_one(w, task);
        if (task->state == STATE_Q)
            check_gap(w, task);
    }
}
