/* enqueue: posted tasks become rows and edges. Everything is checked before anything is made: a call is accepted whole
 * or refused whole. */
#include "core/graph.h"
#include "engine/archives.h"
#include "engine/cache/cache.h"
#include "engine/command/command.h"
#include "engine/health.h"
#include "engine/shared/shared.h"
#include "engine/tenants.h"
#include "engine/waiters.h"

/* --- checks --- */

/* Archives and queues share one namespace: tasks of an archive come from its revisions. */
static bool queue_check(struct turn *turn, struct command *command, const struct task_def *def)
{
    const struct lane *lane = cache_lane_find(turn, command->actor.tenant, def->queue);
    if (!lane || !turn_archive(turn, lane->id))
        return true;
    command->err.arena = command->arena;
    return err_item(&command->err, ERR_invalid, str_fmt(command->arena, "%.*s/queue", STR_ARG(def->path)),
        "'%.*s' is an archive, not a queue: its tasks come from its revisions (weir run starts one by hand)",
        STR_ARG(def->queue));
}

static bool refs_check(struct turn *turn, struct command *command, const struct task_def *def)
{
    bool good = true;
    for (size_t i = 0; i < def->n_refs; i++) {
        const struct task_ref *ref = &def->refs[i];
        if (ref->id == 0)
            continue;
        struct node *node = slice_find(turn->slice, ref->id);
        if (node && str_eq(slice_lane(turn->slice, node->row.lane)->tenant, command->actor.tenant))
            continue;
        command->err.arena = command->arena;
        good = err_item(&command->err, ERR_unknown_task, ref->path, "there is no task %lld", (long long)ref->id);
    }
    for (size_t i = 0; i < def->n_refs; i++) {
        for (size_t k = 0; def->refs[i].kind == EDGE_CANCELS && k < def->n_refs; k++) {
            const struct task_ref *a = &def->refs[i], *b = &def->refs[k];
            if (b->kind == EDGE_CANCELS || a->id != b->id || (a->id == 0 && a->index != b->index))
                continue;
            command->err.arena = command->arena;
            good = err_item(&command->err, ERR_invalid, a->path, "a task can't cancel what it waits for");
        }
    }
    return good;
}

static bool cycle_check(struct turn *turn, struct command *command)
{
    const struct task_def *defs = command->in.enqueue.defs;
    size_t n = command->in.enqueue.n_defs, n_arcs = 0, cap = 0;
    struct graph_arc *arcs = NULL;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < defs[i].n_refs; k++)
            if (defs[i].refs[k].id == 0 && (defs[i].refs[k].kind != EDGE_CANCELS || defs[i].refs[k].index == i))
                *ARENA_PUSH(turn->arena, arcs, n_arcs, cap) = (struct graph_arc){ i, defs[i].refs[k].index };
    size_t *cycle, length = n_arcs ? graph_cycle(n, arcs, n_arcs, turn->arena, &cycle) : 0;
    if (length == 0)
        return true;
    struct buf text;
    buf_init(&text, 360);
    for (size_t i = 0; i < length && !text.full; i++)
        buf_addf(&text, "%.*s -> ", STR_ARG(defs[cycle[i]].name));
    buf_add_str(&text, defs[cycle[0]].name);
    command->err.arena = command->arena;
    struct str path = str_fmt(command->arena, "%.*s/depends", STR_ARG(defs[cycle[0]].path));
    err_item(&command->err, ERR_cycle, path, "tasks wait for each other in a circle: %.*s%s", STR_ARG(buf_str(&text)),
        text.full ? " ..." : "");
    buf_release(&text);
    return false;
}

/* --- making --- */

struct node *unique_find(struct turn *turn, struct str tenant, struct str key)
{
    struct node *node = smap_find(&turn->uniques, str_fmt(turn->arena, "%.*s\x1f%.*s", STR_ARG(tenant), STR_ARG(key)));
    struct store *store = turn->engine->store;
    int64_t id = 0;
    if (!node && !store->ops->unique_find(store, tenant, key, &id, turn->err))
        turn->slice->failed = true;
    if (!node && id)
        node = slice_find(turn->slice, id);
    /* this turn may have released the key */
    return node && !state_ended(node->row.state) && str_eq(node->row.unique, key) ? node : NULL;
}

void unique_tell(struct turn *turn, struct node *node, struct str actor, struct str asked)
{
    struct because because = { .actor = actor,
        .reason = str_fmt(turn->arena, "%.*s was not made: this task has its unique key '%.*s'", STR_ARG(asked),
            STR_ARG(node->row.unique)) };
    slice_node_event(turn->slice, node, EVENT_unique, node->row.state, node->row.state, &because);
}

static size_t slots_of(struct turn *turn, struct str tenant, const struct task_def *def, int64_t **out)
{
    int64_t *ids = ARENA_ARRAY(turn->arena, int64_t, def->n_semaphores + 2);
    size_t n = 0;
    for (size_t i = 0; i < def->n_semaphores; i++) {
        const struct slot *known = cache_slot_find(turn, tenant, def->semaphores[i]);
        /* made when it is waited for */
        ids[n++] = known ? known->id : slot_of_name(turn->arena, tenant, def->semaphores[i]);
    }
    if (def->concurrency.len)
        ids[n++] = slot_of_key(turn, tenant, def->concurrency);
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && ids[k] < ids[k - 1]; k--) {
            int64_t swap = ids[k];
            ids[k] = ids[k - 1];
            ids[k - 1] = swap;
        }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || ids[kept - 1] != ids[i])
            ids[kept++] = ids[i];
    *out = ids;
    return kept;
}

struct node *task_make_of(struct turn *turn, struct str tenant, const struct task_def *def, const struct task *like,
    const struct because *because)
{
    int64_t *slots = NULL;
    size_t n_slots = slots_of(turn, tenant, def, &slots);
    struct task row = *like;
    row.id = task_number(turn);
    row.name = def->name;
    row.class_id = cache_class_get(turn, tenant, def);
    row.prio = def->prio;
    row.not_before = def->not_before;
    row.spec = cache_spec_get(turn, def, row.class_id, slots, n_slots);
    row.created = turn->slice->stamp;
    row.unique = def->unique;
    struct node *node = slice_create(turn->slice, &row, because);
    if (def->unique.len)
        smap_put(&turn->uniques, str_fmt(turn->arena, "%.*s\x1f%.*s", STR_ARG(tenant), STR_ARG(def->unique)), node);
    return node;
}

static struct node *task_make(struct turn *turn, const struct command *command, const struct task_def *def)
{
    struct str tenant = command->actor.tenant;
    struct task like = { .lane = cache_lane_get(turn, tenant, def->queue)->id };
    return task_make_of(turn, tenant, def, &like, &(struct because){ .actor = command->actor.name });
}

/* An edge to a task that has ended already is judged by its end; what that one had been waiting for, or was to cancel,
 * is taken over. */
void edge_make(struct turn *turn, struct node *node, struct node *other, enum edge_kind kind, unsigned flags,
    struct node **doomed_by)
{
    enum task_state state = other->row.state;
    bool prev = flags & EDGE_PREV;
    slice_edge_add_as(turn->slice, node, other, kind, flags);
    if (prev && state_ended(state))
        prev_inherit(turn->slice, node, other);
    if (kind == EDGE_CANCELS && state_ended(state))
        cancels_inherit(turn->slice, node, other);
    if (kind == EDGE_DEPENDS && state_ended(state) && state != STATE_D && !*doomed_by)
        *doomed_by = other;
}

/* The same ids as the first time, and behind them the places of those that were there already; what they are now is
 * filled in when the turn is decided. */
static void enqueue_again(struct command *command, const struct kept_answer *kept)
{
    /* the same body: it has as many */
    size_t n = kept->n < command->in.enqueue.n_defs ? kept->n : command->in.enqueue.n_defs;
    command->out.enqueue.n_tasks = n;
    command->out.enqueue.tasks = ARENA_ARRAY(command->arena, struct enqueued, n + 1);
    for (size_t i = 0; i < n; i++)
        command->out.enqueue.tasks[i].task.id = kept->numbers[i];
    for (size_t i = n; i < kept->n; i++)
        if (kept->numbers[i] >= 0 && (size_t)kept->numbers[i] < n)
            command->out.enqueue.tasks[kept->numbers[i]].existing = true;
}

/* Keeps the answer for a client that sends the same call again. */
static void enqueue_keep(struct turn *turn, struct command *command)
{
    const struct enqueued *tasks = command->out.enqueue.tasks;
    size_t n = command->out.enqueue.n_tasks, n_numbers = n;
    int64_t *numbers = ARENA_ARRAY(turn->arena, int64_t, 2 * n + 1);
    for (size_t i = 0; i < n; i++)
        numbers[i] = tasks[i].task.id;
    for (size_t i = 0; i < n; i++)
        if (tasks[i].existing)
            numbers[n_numbers++] = (int64_t)i;
    idempotency_keep(turn, command, numbers, n_numbers);
}

bool command_enqueue(struct turn *turn, struct command *command)
{
    struct task_def *defs = command->in.enqueue.defs;
    size_t n = command->in.enqueue.n_defs;
    struct kept_answer kept = { 0 };
    if (idempotency_met(turn, command, &kept)) {
        enqueue_again(command, &kept);
        return true;
    }
    if (intake_closed(turn, command))
        return false;
    if (quota_enqueue_refused(turn, command))
        return false;
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good &= queue_check(turn, command, &defs[i]) && refs_check(turn, command, &defs[i]);
    if (!good || !cycle_check(turn, command))
        return true;

    struct node **nodes = ARENA_ARRAY(turn->arena, struct node *, n + 1),
                **doomed_by = ARENA_ARRAY(turn->arena, struct node *, n + 1);
    command->out.enqueue.tasks = ARENA_ARRAY(command->arena, struct enqueued, n + 1);
    command->out.enqueue.n_tasks = n;
    size_t existing = 0;
    for (size_t i = 0; i < n; i++) {
        nodes[i] = defs[i].unique.len ? unique_find(turn, command->actor.tenant, defs[i].unique) : NULL;
        command->out.enqueue.tasks[i].existing = nodes[i] != NULL;
        existing += nodes[i] != NULL;
        if (!nodes[i])
            nodes[i] = task_make(turn, command, &defs[i]);
        else
            unique_tell(turn, nodes[i], command->actor.name,
                str_fmt(turn->arena, "%.*s of queue %.*s", STR_ARG(defs[i].name), STR_ARG(defs[i].queue)));
        command->out.enqueue.tasks[i].task.id = nodes[i]->row.id;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < defs[i].n_refs && !command->out.enqueue.tasks[i].existing; k++) {
            const struct task_ref *ref = &defs[i].refs[k];
            struct node *other = ref->id ? slice_find(turn->slice, ref->id) : nodes[ref->index];
            unsigned flags = !ref->needed ? 0 : ref->id ? EDGE_NEEDED | EDGE_BY_ID : EDGE_NEEDED;
            if (other && other != nodes[i])
                edge_make(turn, nodes[i], other, ref->kind, flags, &doomed_by[i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (command->out.enqueue.tasks[i].existing)
            continue;
        if (doomed_by[i])
            task_pass_on(turn->slice, nodes[i], doomed_by[i]);
        else
            task_consider(turn->slice, nodes[i]);
    }
    command->status = existing == n ? 200 : 201;
    enqueue_keep(turn, command);
    return true;
}

/* The answer's texts are the command's own: the loop reads them when the next turn may have emptied the caches already.
 */
void enqueue_fill(struct turn *turn, struct command *command)
{
    int64_t lane = -1;
    struct str lane_name = { 0 };
    for (size_t i = 0; i < command->out.enqueue.n_tasks; i++) {
        struct enqueued *out = &command->out.enqueue.tasks[i];
        struct node *node = slice_find(turn->slice, out->task.id);
        if (!node)
            continue; /* pruned meanwhile: only its id is known */
        bool own = node->was == STATE_NONE && !out->existing && !command->replay; /* its strings live in this command */
        out->task = node->row;
        if (!own)
            out->task.name = str_dup(command->arena, node->row.name);
        out->task.reason = str_dup(command->arena, node->row.reason);
        if (lane != node->row.lane)
            lane_name = str_dup(command->arena, slice_lane(turn->slice, node->row.lane)->name);
        lane = node->row.lane;
        out->lane_name = lane_name;
    }
}
