/* explain: /why and /graph: what surrounds a task.
 *
 * It reads the facts that core/why judges, and walks the edges around a task in both directions. The walk is done in
 * pieces between other work of the loop and ends at 5,000 tasks, which the answer says (`truncated`). */
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "core/changeset.h"
#include "core/settle.h"
#include "core/why.h"
#include "io/clock.h"

enum {
    GRAPH_TASKS_MAX = 5000,
    GRAPH_STEP = 100,
    HOLDERS_MAX = 20,
    AHEAD_MAX = 10000,
    DOOMED_MAX = 200,
    GAP_READ_MAX = 200
};

static const char *const verdicts[] = {
    [WHY_RUNNING] = "running", [WHY_ENDED] = "ended", [WHY_WAITING] = "waiting", [WHY_NEVER] = "never"
};

static struct str view_key(struct api *api, struct arena *arena, const struct edge_view *view)
{
    buf_reset(&api->scratch);
    key_add_view(&api->scratch, view);
    return str_dup(arena, buf_str(&api->scratch));
}

static void preds_collect(struct call *call, const struct task_view *view, struct why_facts *facts)
{
    facts->preds = ARENA_ARRAY(&call->arena, struct why_pred, view->n_needs);
    for (size_t i = 0; i < view->n_needs; i++) {
        const struct edge_view *edge = &view->needs[i];
        /* it had the lock before that one */
        if (edge->kind != EDGE_CANCELS && !edge_counts(edge->kind, edge->flags))
            continue;
        facts->preds[facts->n_preds++] = (struct why_pred){ .id = edge->id,
            .key = view_key(call->api, &call->arena, edge),
            .state = edge->state,
            .kind = edge->kind,
            .fired = edge_counts(EDGE_CANCELS, edge->flags), /* what was retried since isn't waited for */
            .lock = (edge->flags & EDGE_LOCK) != 0 };
    }
}

static bool edge_is_open(const struct why_pred *pred)
{
    bool ended = state_ended(pred->state);
    return pred->kind == EDGE_DEPENDS ? pred->state != STATE_D
           : pred->kind == EDGE_AFTER ? !ended
                                      : pred->fired && !ended;
}

/* untold_collect: the task counts more open edges than are open: a predecessor has ended, and a later turn will take
 * that off its count. */
static bool untold_collect(struct call *call, struct why_facts *facts)
{
    int64_t open = 0;
    if (facts->task.state != STATE_S && facts->task.state != STATE_Q)
        return true;
    for (size_t i = 0; i < facts->n_preds; i++)
        open += edge_is_open(&facts->preds[i]);
    for (size_t i = 0; i < facts->n_preds && open < facts->task.waits; i++) {
        struct why_pred *pred = &facts->preds[i];
        struct hold *holds;
        size_t n;
        if (edge_is_open(pred) || (pred->kind == EDGE_CANCELS && !pred->fired))
            continue;
        if (!reader_holds(call->api->config.reader, &call->arena, pred->id, &holds, &n, &call->err))
            return false;
        for (size_t k = 0; k < n; k++)
            pred->untold |= holds[k].kind == HOLD_telling && holds[k].rank < facts->task.id;
        open += pred->untold;
    }
    return true;
}

static bool lanes_collect(struct call *call, struct why_facts *facts)
{
    struct reader *reader = call->api->config.reader;
    struct lane *own, *all;
    if (!reader_lane_of(reader, &call->arena, facts->task.lane, &own, &call->err) ||
        !reader_lane_of(reader, &call->arena, 0, &all, &call->err))
        return false;
    facts->lane = own;
    facts->all = all;
    return true;
}

/* gap_read: which other revisions are missing below `rev`. Of very many that wait, only the oldest are read. */
static bool gap_read(struct call *call, int64_t lane, int64_t rev, struct why_gap *gap)
{
    struct reader *reader = call->api->config.reader;
    struct revision *known;
    size_t n;
    int64_t end = rev;
    if (!reader_revisions(reader, &call->arena, lane, end, GAP_READ_MAX, &known, &n, &call->err))
        return false;
    if (n == GAP_READ_MAX && known[n - 1].rev > gap->rev) {
        end = known[n - 1].rev < gap->rev + GAP_READ_MAX ? known[n - 1].rev : gap->rev + GAP_READ_MAX;
        gap->unread = true;
        if (!reader_revisions(reader, &call->arena, lane, end, GAP_READ_MAX, &known, &n, &call->err))
            return false;
    }
    why_gap_ranges(gap, known, n, end);
    return true;
}

/* gap_collect: of a task in Q: which revision its own waits for. */
static bool gap_collect(struct call *call, struct why_facts *facts)
{
    struct archive_view view;
    bool found;
    int64_t missing;
    if (facts->task.state != STATE_Q || facts->task.rev == 0)
        return true;
    if (!reader_archive(
            call->api->config.reader, &call->arena, call->actor.tenant, facts->lane_name, &view, &found, &call->err))
        return false;
    if (!found || view.archive.next > facts->task.rev)
        return true;
    if (!archive_missing(call->api, &call->arena, &view.archive, &missing, &call->err))
        return false;
    facts->gap = (struct why_gap){
        .rev = view.archive.next, .missing = missing > 0, .posted = view.archive.kind == ARCHIVE_EXTERNAL
    };
    return missing == 0 || gap_read(call, view.archive.lane, facts->task.rev, &facts->gap);
}

/* What will have ended by the time the task is ready: all that it comes after, what it supersedes then, and what those
 * would have superseded. */
struct doomed {
    int64_t *ids;
    size_t n, cap;
};

static bool doomed_has(const struct doomed *doomed, int64_t id)
{
    for (size_t i = 0; i < doomed->n; i++)
        if (doomed->ids[i] == id)
            return true;
    return false;
}

/* doomed_collect: `of`'s cancels edges; executing tasks behind them have to die first and become facts of their own. */
static bool doomed_collect(struct call *call, struct why_facts *facts, size_t *cap, struct doomed *doomed)
{
    /* 0: the task itself; the list grows while it is walked */
    for (size_t at = 0; at <= doomed->n && at < DOOMED_MAX; at++) {
        int64_t of = at == 0 ? facts->task.id : doomed->ids[at - 1];
        struct edge_view *views;
        size_t n;
        if (!reader_edges(call->api->config.reader, &call->arena, of, false, &views, &n, &call->err))
            return false;
        for (size_t i = 0; i < n; i++) {
            bool waits = at == 0 && edge_counts(views[i].kind, views[i].flags);
            bool due = views[i].kind == EDGE_CANCELS && !(at == 0 && views[i].flags & EDGE_FIRED);
            if (state_ended(views[i].state) || views[i].id == facts->task.id || (!waits && !due))
                continue;
            if (due && views[i].state == STATE_X)
                *ARENA_PUSH(&call->arena, facts->preds, facts->n_preds, *cap) = (struct why_pred){ .id = views[i].id,
                    .key = view_key(call->api, &call->arena, &views[i]),
                    .state = STATE_X,
                    .kind = EDGE_CANCELS,
                    .due = true };
            if (!doomed_has(doomed, views[i].id) && (waits || views[i].state == STATE_X))
                continue; /* noted below: nothing of theirs is inherited */
            if (!doomed_has(doomed, views[i].id))
                *ARENA_PUSH(&call->arena, doomed->ids, doomed->n, doomed->cap) = views[i].id;
        }
    }
    for (size_t i = 0; i < facts->n_preds; i++) {
        const struct why_pred *pred = &facts->preds[i];
        if (!state_ended(pred->state) && (pred->kind != EDGE_CANCELS || pred->fired || pred->due) &&
            !doomed_has(doomed, pred->id))
            *ARENA_PUSH(&call->arena, doomed->ids, doomed->n, doomed->cap) = pred->id;
    }
    return true;
}

/* class_find: of a task; one that has gone, since no task of it was ready to start, as it will be again. NULL: none. */
static bool class_find(struct call *call, const struct task *task, const struct task_class **out)
{
    struct reader *reader = call->api->config.reader;
    struct task_class *row, *again = ARENA_NEW(&call->arena, struct task_class);
    struct str key = { 0 };
    if (!reader_class(reader, &call->arena, task->class_id, &row, &call->err) ||
        (row == NULL && task->class_id != 0 && !reader_spec_class(reader, &call->arena, task->spec, &key, &call->err)))
        return false;
    *out = row != NULL ? row : class_of_key(&call->arena, key, again);
    return true;
}

/* class_served: as the engine has it: an active executor fits. */
static bool class_served(struct call *call, const struct task *task)
{
    const struct task_class *class_;
    struct why_crew crew;
    if (!class_find(call, task, &class_) || class_ == NULL)
        return true;
    engine_crew(call->api->config.engine, class_, &crew);
    return crew.active > 0;
}

/* A waiter whose own lane was paused since, or whose executors are gone, lets others pass; one that the same keeps back
 * goes on with the task. */
static bool gives_way(struct call *call, const struct why_facts *facts, int64_t waiter)
{
    struct reader *reader = call->api->config.reader;
    struct task row;
    struct lane *lane = NULL;
    bool found;
    if (!reader_row(reader, &call->arena, waiter, &row, &found, &call->err) || !found)
        return false;
    if (row.class_id != facts->task.class_id && !class_served(call, &row))
        return true;
    if (row.lane == facts->task.lane)
        return false;
    return reader_lane_of(reader, &call->arena, row.lane, &lane, &call->err) && lane != NULL && lane->paused_since != 0;
}

static struct str holder_text(struct call *call, int64_t task)
{
    bool foreign = !call->site && task_is_foreign(call->api, task, call->actor.tenant);
    return foreign ? STR("another tenant") : key_text(call->api, &call->arena, 0, task);
}

static bool slot_collect(
    struct call *call, const struct why_facts *facts, const struct doomed *doomed, struct why_slot *out)
{
    struct reader *reader = call->api->config.reader;
    struct hold *users;
    size_t n;
    int64_t rank = (1001 - facts->task.prio) << 52; /* behind all of its priority, when it comes */
    for (size_t i = 0; i < facts->n_holds; i++) {
        const struct hold *hold = &facts->holds[i];
        out->held |= hold->kind == HOLD_held && hold->key == out->slot.id;
        if (hold->kind == HOLD_slot && hold->key == out->slot.id)
            out->since = hold->since, rank = hold->rank;
    }
    if (out->held)
        return true;
    if (!reader_hold_users(reader, &call->arena, HOLD_held, out->slot.id, HOLDERS_MAX, &users, &n, &call->err))
        return false;
    out->holders = ARENA_ARRAY(&call->arena, struct str, n);
    for (size_t i = 0; i < n; i++)
        if (doomed_has(doomed, users[i].task))
            out->slot.used--;
        else
            out->holders[out->n_holders++] = holder_text(call, users[i].task);
    if (!reader_hold_users(reader, &call->arena, HOLD_slot, out->slot.id, AHEAD_MAX, &users, &n, &call->err))
        return false;
    /* by rank, then by number: two servers may give one rank at the same moment */
    for (size_t i = 0; i < n && users[i].rank <= rank; i++)
        out->ahead += (users[i].rank < rank || users[i].task < facts->task.id) && !doomed_has(doomed, users[i].task) &&
                      !(out->ahead <= SLOT_REACH_MAX && gives_way(call, facts, users[i].task));
    return true;
}

static bool slot_add(struct call *call, struct why_facts *facts, const struct doomed *doomed, const struct slot *slot)
{
    struct why_slot *out = &facts->slots[facts->n_slots++];
    *out = (struct why_slot){ .slot = *slot };
    return slot_collect(call, facts, doomed, out);
}

/* quota_find: the one that stands for the running tasks of the tenant, where these are limited. It stays while the
 * configuration does, so it is looked for once. */
static bool quota_find(struct call *call, struct slot **out)
{
    struct reader *reader = call->api->config.reader;
    struct api_tenant *tenant = smap_find(&call->api->tenants.by_name, call->actor.tenant);
    struct slot **slots;
    size_t n;
    *out = NULL;
    if (tenant == NULL || !tenant->runs_limited)
        return true;
    if (tenant->quota != 0)
        return reader_slot(reader, &call->arena, tenant->quota, out, &call->err);
    if (!reader_slots(reader, &call->arena, &slots, &n, &call->err))
        return false;
    for (size_t i = 0; i < n && *out == NULL; i++)
        if (str_eqz(slots[i]->name, SLOT_RUNNING) && str_eq(slots[i]->tenant, call->actor.tenant))
            *out = slots[i];
    tenant->quota = *out != NULL ? (*out)->id : 0;
    return true;
}

static bool holds_collect(struct call *call, struct why_facts *facts)
{
    struct reader *reader = call->api->config.reader;
    struct slot *slot;
    struct doomed doomed = { 0 };
    const int64_t *wanted;
    size_t n_wanted, cap = facts->n_preds;
    if (state_ended(facts->task.state) || facts->task.state == STATE_X)
        return true;
    if (!reader_holds(reader, &call->arena, facts->task.id, &facts->holds, &facts->n_holds, &call->err) ||
        !reader_spec_slots(reader, &call->arena, facts->task.spec, &wanted, &n_wanted, &call->err) ||
        !doomed_collect(call, facts, &cap, &doomed))
        return false;
    if (facts->task.class_id == 0) /* with nothing to run it takes none */
        return true;
    facts->slots = ARENA_ARRAY(&call->arena, struct why_slot, n_wanted + 1);
    for (size_t i = 0; i < n_wanted; i++)
        if (!reader_slot(reader, &call->arena, wanted[i], &slot, &call->err) ||
            (slot != NULL && !slot_add(call, facts, &doomed, slot)))
            return false;
    if (!quota_find(call, &slot))
        return false;
    return slot == NULL || slot->limit >= SLOT_FREE || slot_add(call, facts, &doomed, slot);
}

static bool executors_collect(struct call *call, struct why_facts *facts)
{
    const struct task_class *class_;
    if (!class_find(call, &facts->task, &class_))
        return false;
    if (class_ == NULL || class_->kind == KIND_NONE)
        return true;
    facts->class_ = class_;
    engine_crew(call->api->config.engine, class_, &facts->crew);
    return true;
}

/* path_shared: one that two change sets have; empty: none. */
static struct str path_shared(struct arena *arena, const struct changeset *a, const struct changeset *b)
{
    struct smap paths = { 0 };
    struct changeset_paths of_a = changeset_paths(a), of_b = changeset_paths(b);
    struct str path, found = { 0 };
    while (changeset_path_next(&of_a, &path))
        smap_put(&paths, path, &paths);
    while (found.len == 0 && changeset_path_next(&of_b, &path))
        if (smap_find(&paths, path) != NULL)
            found = str_dup(arena, path);
    smap_release(&paths);
    return found;
}

/* changeset_collect: what a change set waits for besides: why its precursors are, and which rollbacks have it. */
static bool changeset_collect(struct call *call, struct why_facts *facts)
{
    struct reader *reader = call->api->config.reader;
    struct changeset own, other;
    bool found;
    if (!(facts->task.marks & MARK_CHANGESET) || state_ended(facts->task.state))
        return true;
    if (!reader_changeset(reader, &call->arena, facts->task.id, &own, &found, &call->err))
        return false;
    facts->movetype = found ? own.movetype : MOVE_NONE;
    for (size_t i = 0; i < facts->n_preds && found; i++) {
        struct why_pred *pred = &facts->preds[i];
        bool known;
        if (pred->kind != EDGE_AFTER || state_ended(pred->state))
            continue;
        if (!reader_changeset(reader, &call->arena, pred->id, &other, &known, &call->err))
            return false;
        if (known)
            pred->path = path_shared(&call->arena, &own, &other);
    }
    struct str *keys = ARENA_ARRAY(&call->arena, struct str, facts->n_holds + 1);
    for (size_t i = 0; i < facts->n_holds; i++)
        if (facts->holds[i].kind == HOLD_rollback)
            keys[i] = key_text(call->api, &call->arena, 0, facts->holds[i].key);
    facts->rollbacks = keys;
    return true;
}

/* applying_collect: of a pending change set: which one of its target runs. */
static bool applying_collect(struct call *call, struct why_facts *facts)
{
    struct task_view *running;
    size_t n = 0;
    int64_t next;
    const struct task_filter filter = {
        .tenant = call->actor.tenant, .states = 1u << STATE_X, .lane = facts->lane_name, .limit = 1
    };
    if (!(facts->task.marks & MARK_CHANGESET) || facts->task.state != STATE_P || facts->lane->counts[STATE_X] == 0)
        return true;
    if (!reader_tasks(call->api->config.reader, &call->arena, &filter, &running, &n, &next, &call->err))
        return false;
    if (n > 0) {
        facts->applying = key_text(call->api, &call->arena, 0, running[0].task.id);
        facts->applying_since = running[0].task.started;
    }
    return true;
}

RENDERER(condition_render, Condition, struct json *json, const struct why_condition *condition)

static void why_render(struct call *call, const struct task *task, const struct task_view *view, const struct why *why)
{
    struct api *api = call->api;
    struct json out = json_to(&call->out), *json = &out;
    buf_reset(&api->scratch);
    key_add_task(&api->scratch, view->lane_name, view->lane_kind, &view->task);
    ANSWER_WRITE(ANSWER_Why);
}

bool serve_tasks_why(struct call *call)
{
    struct task_view view;
    if (!call_task_view(call, &view))
        return false;
    struct why_facts facts = {
        .task = view.task, .lane_name = view.lane_name, .ready_ahead = -1, .now = clock_wall_ms()
    };
    preds_collect(call, &view, &facts);
    if (!untold_collect(call, &facts) || !gap_collect(call, &facts) || !lanes_collect(call, &facts) ||
        !holds_collect(call, &facts) || !executors_collect(call, &facts) || !changeset_collect(call, &facts) ||
        !applying_collect(call, &facts))
        return call_problem(call);
    struct why why;
    why_explain(&facts, &call->arena, &why);
    why_render(call, &facts.task, &view, &why);
    return call_answer(call, 200);
}

struct graph_edge {
    struct str from, to;
    enum edge_kind kind;
};

struct graph {
    struct loop_timer timer;
    struct map known; /* id -> struct edge_view */
    struct edge_view **tasks;
    size_t n_tasks, cap_tasks, at;
    struct graph_edge *edges;
    size_t n_edges, cap_edges;
    bool truncated;
};

static void graph_release(struct call *call)
{
    struct graph *graph = call->state;
    loop_disarm(call->api->config.loop, &graph->timer);
    map_release(&graph->known);
}

static bool graph_meet(struct call *call, struct graph *graph, const struct edge_view *view)
{
    if (map_find(&graph->known, (uint64_t)view->id) != NULL)
        return true;
    if (graph->n_tasks >= GRAPH_TASKS_MAX) {
        graph->truncated = true;
        return false;
    }
    struct edge_view *copy = ARENA_NEW(&call->arena, struct edge_view);
    *copy = *view;
    map_put(&graph->known, (uint64_t)view->id, copy);
    *ARENA_PUSH(&call->arena, graph->tasks, graph->n_tasks, graph->cap_tasks) = copy;
    return true;
}

/* graph_expand: an edge is written down from its waiter's side only, so that each stands there once. */
static bool graph_expand(struct call *call, struct graph *graph, const struct edge_view *task)
{
    struct edge_view *views;
    size_t n;
    struct reader *reader = call->api->config.reader;
    struct str from = view_key(call->api, &call->arena, task);
    if (!reader_edges(reader, &call->arena, task->id, false, &views, &n, &call->err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (graph_meet(call, graph, &views[i]))
            *ARENA_PUSH(&call->arena, graph->edges, graph->n_edges, graph->cap_edges) =
                (struct graph_edge){ from, view_key(call->api, &call->arena, &views[i]), views[i].kind };
    if (!reader_edges(reader, &call->arena, task->id, true, &views, &n, &call->err))
        return false;
    for (size_t i = 0; i < n; i++)
        graph_meet(call, graph, &views[i]);
    return true;
}

RENDERER(graph_task_render, GraphTask, struct call *call, struct json *json, const struct edge_view *task)

static void graph_edge_render(struct json *json, const struct graph_edge *edge)
{
    struct str from = edge->from, to = edge->to;
    ANSWER_WRITE(ANSWER_Edge);
}

static void graph_step(struct loop_timer *timer)
{
    struct call *call = timer->owner;
    struct graph *graph = call->state;
    bool good = true;
    bool whole = call->on_thread != NULL; /* on the loop in steps, so that others are answered in between */
    for (size_t i = 0; (i < GRAPH_STEP || whole) && graph->at < graph->n_tasks && good; i++)
        good = graph_expand(call, graph, graph->tasks[graph->at++]);
    if (good && graph->at < graph->n_tasks) {
        loop_arm(call->api->config.loop, &graph->timer, loop_now(call->api->config.loop));
        return;
    }
    if (good)
        ANSWER_CALL(200, ANSWER_Graph);
    else
        call_problem(call);
}

bool serve_tasks_graph(struct call *call)
{
    struct task_view view;
    if (!call_task_view(call, &view))
        return false;
    struct graph *graph = ARENA_NEW(&call->arena, struct graph);
    graph->timer.due = graph_step;
    graph->timer.owner = call;
    call->state = graph;
    call->on_release = graph_release;
    struct edge_view self = { .id = view.task.id,
        .lane = view.task.lane,
        .rev = view.task.rev,
        .lane_name = view.lane_name,
        .name = view.task.name,
        .variant = view.task.variant,
        .run = view.task.run,
        .state = view.task.state,
        .finished = view.task.finished };
    graph_meet(call, graph, &self);
    graph_step(&graph->timer);
    return true;
}
