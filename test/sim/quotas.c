/* quotas: worlds with a tenant that may have so many open and so many running tasks (`red`), and in which what old
 * tasks have left behind is pruned while work goes on (--quotas). Clients of that tenant repeat a call that was refused
 * until there is room. What must hold, besides what holds of every turn (check, watch, reasons):
 *   - no task is created beyond the quota, and none is refused while there is room, whatever was lost or is counted
 * elsewhere;
 *   - a server's count of what the tenant has is the store's;
 *   - nothing is pruned that hasn't ended, that a dependent may still ask for, or that nobody asked to prune; it stays
 * in the history;
 *   - a lane's bytes of logs are those of its tasks that haven't been pruned. */
#include <string.h>

#include "engine/tenants.h"
#include "world.h"

#define RED "red"
enum { AGE_MAX = 4000 };

/* --- the tenant --- */

static bool lane_is_red(const struct world *w, int64_t lane)
{
    const struct lane *row = map_find(&w->store->lanes, (uint64_t)lane + 1);
    return row && str_eqz(row->tenant, RED);
}

bool task_is_red(const struct world *w, int64_t id)
{
    const struct task *task = w->quotas ? store_task(w, id) : NULL;
    return task && lane_is_red(w, task->lane);
}

int64_t running_slot(const struct world *w, int64_t lane)
{
    if (!w->quotas || !lane_is_red(w, lane))
        return 0;
    MAP_EACH (&w->store->slots, s) {
        const struct slot *slot = s->value;
        if (str_eqz(slot->name, SLOT_RUNNING) && str_eqz(slot->tenant, RED))
            return slot->id;
    }
    return 0;
}

void quotas_open(struct world *w)
{
    w->open_max = 3 + (int64_t)choose(&w->choices, 4);
    w->running_max = 1 + (int64_t)choose(&w->choices, 2);
}

struct conf_tenants tenants_conf(struct world *w)
{
    if (!w->quotas)
        return (struct conf_tenants){ 0 };
    struct conf_tenant *tenant = ARENA_NEW(&w->arena, struct conf_tenant);
    *tenant = (struct conf_tenant){ .name = STR(RED) };
    for (int q = 0; q < QUOTA_COUNT; q++)
        tenant->quotas[q] = -1;
    tenant->quotas[QUOTA_tasks] = w->open_max;
    tenant->quotas[QUOTA_running] = w->running_max;
    return (struct conf_tenants){ tenant, 1 };
}

static int64_t open_red(const struct world *w)
{
    int64_t n = 0;
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        n += !state_ended(task->state) && lane_is_red(w, task->lane);
    }
    return n;
}

/* --- what is done --- */

void red_tasks_choose(struct world *w, struct command *command)
{
    size_t n = command->in.enqueue.n_defs;
    command->actor.tenant = STR(RED);
    for (size_t i = 0; i < n; i++) {
        struct task_def *def = &command->in.enqueue.defs[i];
        *def = (struct task_def){ .name = str_fmt(&w->arena, "r%zu.%zu", w->n_calls, i),
            .kind = KIND_COMMAND,
            .body = STR("{}"),
            .queue = STR("r"),
            .attempts_max = 1 + (int64_t)choose(&w->choices, 3),
            .backoff_ms = 200,
            .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED,
            .path = STR(""),
            .refs = ARENA_ARRAY(&w->arena, struct task_ref, 2) };
        if (!w->flat)
            def->prio = (int64_t)choose(&w->choices, 3);
        if (chance(&w->choices, 100))
            def->kind = KIND_NONE;
        struct task_ref ref = { .kind = chance(&w->choices, 300) ? EDGE_AFTER : EDGE_DEPENDS };
        if (chance(&w->choices, 500))
            continue;
        if (i > 0 && chance(&w->choices, 300))
            ref.index = choose(&w->choices, i);
        else if (w->known.n_accepted)
            ref.id = w->known.accepted[choose(&w->choices, w->known.n_accepted)].id;
        if (ref.id ? task_is_red(w, ref.id) : i > 0)
            def->refs[def->n_refs++] = ref;
    }
}

/* Somebody clears away: the rule of the site, under its duty where servers share a store; or a tenant's own. */
static void prune_send(struct world *w)
{
    int server = server_choose(w);
    struct command *command = command_new(w, CMD_PRUNE);
    command->actor = (struct actor){ STR("retention"), { 0 } };
    if (chance(&w->choices, 300))
        command->actor.tenant = STR(RED);
    else if (several(w) && chance(&w->choices, 700))
        duty_under(w, command, DUTY_retention, &server);
    if (server < 0)
        return;
    command->in.prune.before = w->wall - (int64_t)choose(&w->choices, AGE_MAX);
    command->in.prune.after = w->prune_after;
    trace(w, "what ended before %lld is pruned, behind %lld", (long long)(command->in.prune.before - w->wall),
        (long long)w->prune_after);
    send_to(w, command, OWNER_ORDER, server);
}

void quotas_step(struct world *w)
{
    if (!w->healing && chance(&w->choices, 20))
        prune_send(w);
}

void prune_answer(struct world *w, const struct command *command)
{
    if (!command->err.code)
        w->prune_after = command->out.prune.after;
}

/* --- what must hold --- */

/* Told by the fold of events, so at the very moment at which the task was made. */
void quotas_created(struct world *w, const struct task *task)
{
    int64_t open = 1;
    w->created_red += lane_is_red(w, task->lane);
    if (!lane_is_red(w, task->lane))
        return;
    MAP_EACH (&w->store->tasks, t) {
        const struct task *other = t->value;
        enum task_state state = w->known.folded[other->id];
        open += other->id != task->id && state && !state_ended(state) && lane_is_red(w, other->lane);
    }
    if (open > w->open_max)
        world_fail(w, "a task was created beyond its tenant's quota", task->id);
    if (open == w->open_max)
        MARK(w, quota_reached);
}

void quotas_before(struct world *w)
{
    w->open_before = open_red(w);
    w->created_red = w->resumed_red = 0;
    memset(w->resumed, 0, sizeof w->resumed);
    memset(w->pruned_before, 0, sizeof w->pruned_before);
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        w->pruned_before[task->id] = (task->marks & MARK_PRUNED) != 0;
    }
}

/* An ended task goes on: retried, or by a late result. */
void quotas_resumed(struct world *w, int64_t id)
{
    w->resumed[id] = true;
    w->resumed_red += task_is_red(w, id);
    const struct task *task = store_task(w, id);
    if (task && task->marks & MARK_PRUNED)
        MARK(w, pruned_went_on);
}

static void check_refused(struct world *w, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct command *command = commands[i];
        if (command->kind != CMD_ENQUEUE || command->err.code != ERR_quota_exceeded)
            continue;
        MARK(w, quota_refused);
        int64_t most = w->open_before + w->created_red + w->resumed_red + (int64_t)command->in.enqueue.n_defs;
        if (most <= w->open_max)
            world_fail(w, "a call was refused though its tenant's quota had room", 0);
    }
}

static bool asked_to_prune(const struct world *w, const struct task *task, struct command **commands, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct command *command = commands[i];
        bool its = !command->actor.tenant.len || lane_is_red(w, task->lane) == str_eqz(command->actor.tenant, RED);
        if (command->kind == CMD_PRUNE && its && (task->finished < command->in.prune.before || w->resumed[task->id]))
            return true;
    }
    return false;
}

/* Has not ended all this turn, and may ask for the outputs of what it depends on. One that stood in Q has its edges
 * since this very turn: its revision may have been opened behind the pruning. */
static int64_t dependent_of(const struct world *w, int64_t id)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        enum task_state before = w->before[task->id].state;
        if (state_ended(task->state) || !before || before == STATE_Q || state_ended(before) || w->resumed[task->id])
            continue;
        const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
        for (size_t i = 0; ins && i < ins->n; i++)
            if (ins->edges[i].kind == EDGE_DEPENDS && ins->edges[i].pred == id)
                return task->id;
    }
    return 0;
}

static void check_pruned(struct world *w, struct command **commands, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= commands[i]->kind == CMD_PRUNE;
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        bool pruned = task->marks & MARK_PRUNED && !w->pruned_before[task->id];
        bool ended = state_ended(task->state) || w->resumed[task->id];
        if (any && !pruned && state_ended(task->state) && task->grant > 0 && dependent_of(w, task->id))
            MARK(w, prune_spared);
        if (!pruned)
            continue;
        MARK(w, pruned);
        if (!ended)
            world_fail(w, "a task was pruned that hasn't ended", task->id);
        if (!asked_to_prune(w, task, commands, n))
            world_fail(w, "a task was pruned that nobody asked for", task->id);
        if (dependent_of(w, task->id))
            world_fail(w, "a task was pruned though one that depends on it hasn't ended", task->id);
    }
}

static void check_bytes(struct world *w)
{
    const struct memstore *m = w->store;
    MAP_EACH (&m->lanes, l) {
        const struct lane *lane = l->value;
        int64_t bytes = 0;
        for (size_t i = 0; i < m->n_attempts; i++) {
            const struct task *task = store_task(w, m->attempts[i].task);
            bool removed = m->attempts[i].grant <= task_pruned(task);
            bool counts = task->lane == lane->id && task->marks & MARK_KEPT && !removed;
            if (counts && m->attempts[i].log_bytes > 0)
                bytes += m->attempts[i].log_bytes;
        }
        if (bytes != lane->log_bytes)
            world_fail(w, "a lane's bytes of logs are wrong", lane->id);
    }
}

void quotas_after(struct world *w, struct command **commands, size_t n, bool plain)
{
    check_pruned(w, commands, n);
    check_bytes(w);
    if (!plain)
        return;
    check_refused(w, commands, n);
    const struct known_tenant *known = tenant_find(w->at->engine, STR(RED));
    if (!known || known->open != open_red(w))
        world_fail(w, "a server counts other tasks of a tenant than the store has", 0);
}
