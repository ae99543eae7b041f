/* clients: they post tasks, repeat a call with its key until it was answered, cancel, retry, promote and pause. */
#include <string.h>

#include "world.h"

enum { SENT_MAX = 60, REPEAT_MS = 2500 };

static int64_t any_task(struct world *w)
{
    /* also of archives: nobody was told their numbers, all the same they are known */
    const struct map *tasks = &w->store->tasks;
    if (w->n_repositories && tasks->n && chance(&w->choices, 400))
        return (int64_t)tasks->entries[choose(&w->choices, tasks->n_entries)].key;
    return w->known.n_accepted ? w->known.accepted[choose(&w->choices, w->known.n_accepted)].id : 0;
}

static void refs_choose(struct world *w, struct task_def *def, size_t i)
{
    def->refs = ARENA_ARRAY(&w->arena, struct task_ref, 8);
    for (size_t k = choose(&w->choices, 3); k > 0; k--) {
        struct task_ref ref = { .kind = chance(&w->choices, 300)   ? EDGE_CANCELS
                                        : chance(&w->choices, 400) ? EDGE_AFTER
                                                                   : EDGE_DEPENDS };
        if (i > 0 && chance(&w->choices, 500))
            ref.index = choose(&w->choices, i);
        else if (!(ref.id = any_task(w)) || task_is_red(w, ref.id))
            continue;
        bool clash = false;
        for (size_t r = 0; r < def->n_refs; r++)
            clash |= def->refs[r].id == ref.id && def->refs[r].index == ref.index;
        if (!clash)
            def->refs[def->n_refs++] = ref;
    }
}

static void def_choose(struct world *w, struct task_def *def, size_t i)
{
    static const char *const queues[] = { "a", "b", "c" };
    *def = (struct task_def){ .name = str_fmt(&w->arena, "k%zu.%zu", w->n_calls, i),
        .kind = KIND_COMMAND,
        .body = STR("{}"),
        .attempts_max = 1 + (int64_t)choose(&w->choices, 3),
        .backoff_ms = 200,
        .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED,
        .path = STR("") };
    def->queue = str_of(queues[choose(&w->choices, 3)]);
    def->semaphores = ARENA_ARRAY(&w->arena, struct str, 2);
    def->labels = ARENA_ARRAY(&w->arena, struct label, 1);
    if (w->flat && chance(&w->choices, 700))
        return;
    if (!w->flat)
        def->prio = (int64_t)choose(&w->choices, 3);
    if (chance(&w->choices, 150))
        def->kind = KIND_NONE;
    if (chance(&w->choices, 100))
        def->not_before = w->wall + (int64_t)choose(&w->choices, 5000);
    if (chance(&w->choices, 100))
        def->unique = str_fmt(&w->arena, "u%d", (int)choose(&w->choices, 2));
    if (chance(&w->choices, 150))
        def->concurrency = str_fmt(&w->arena, "k%d", (int)choose(&w->choices, 2));
    if (chance(&w->choices, 200))
        def->semaphores[def->n_semaphores++] = STR("one");
    if (chance(&w->choices, 200))
        def->semaphores[def->n_semaphores++] = STR("two");
    if (!w->flat && chance(&w->choices, 100))
        def->labels[def->n_labels++] = (struct label){ STR("os"), STR("even") };
    refs_choose(w, def, i);
}

/* Each time a command of its own: the server writes into it. */
static void call_send(struct world *w, struct call *call)
{
    struct command *command = ARENA_NEW(&w->arena, struct command);
    *command = *call->command;
    call->sent = w->boot;
    send_command(w, command, -1 - (int)(call - w->calls));
}

void call_new(struct world *w, struct command *command)
{
    w->calls[w->n_calls] = (struct call){ .command = command, .crashes = w->n_crashes };
    call_send(w, &w->calls[w->n_calls++]);
}

static void client_enqueue(struct world *w)
{
    bool red = w->quotas && chance(&w->choices, 500);
    size_t n = 1 + choose(&w->choices, red ? 3 : 5);
    struct call *call = &w->calls[w->n_calls];
    struct command *command = command_new(w, CMD_ENQUEUE);
    command->in.enqueue.defs = ARENA_ARRAY(&w->arena, struct task_def, n);
    command->in.enqueue.n_defs = n;
    if (red)
        red_tasks_choose(w, command);
    for (size_t i = 0; !red && i < n; i++)
        def_choose(w, &command->in.enqueue.defs[i], i);
    bool once = several(w) && chance(&w->choices, 150);
    if (!once)
        command->idempotency.key = str_fmt(&w->arena, "k%zu", w->n_calls);
    command->idempotency.route = STR("tasks");
    command->idempotency.body_hash[0] = 7;
    *call = (struct call){ .command = command, .crashes = w->n_crashes, .once = once, .answered = once };
    w->n_calls++;
    w->n_sent += n;
    trace(w, "a client posts %zu task%s with key k%zu", n, n == 1 ? "" : "s", w->n_calls - 1);
    call_send(w, call);
}

static void client_run(struct world *w)
{
    struct command *command = run_command(w);
    if (!command)
        return;
    command->idempotency.key = str_fmt(&w->arena, "r%zu", w->n_calls);
    command->idempotency.route = STR("run");
    command->idempotency.body_hash[0] = 7;
    call_new(w, command);
}

/* The configuration has another limit: told to the server now, or read when it starts next. */
static void client_limit(struct world *w)
{
    static const struct str name = { "two", 3 };
    w->limit = 1 + (int64_t)choose(&w->choices, 3);
    trace(w, "semaphore two is %lld now", (long long)w->limit);
    if (chance(&w->choices, 300))
        return;
    struct command *command = command_new(w, CMD_SITE);
    struct conf_semaphore *semaphore = ARENA_NEW(&w->arena, struct conf_semaphore);
    *semaphore = (struct conf_semaphore){ .name = name, .limit = w->limit };
    command->in.site.conf.semaphores.items = semaphore;
    command->in.site.conf.semaphores.n = 1;
    command->in.site.conf.tenants = tenants_conf(w);
    command->in.site.conf.changesets = changesets_conf(w);
    send_command(w, command, OWNER_ORDER);
}

static void client_order(struct world *w, enum command_kind kind)
{
    struct command *command = command_new(w, kind);
    command->in.task.task = any_task(w);
    command->in.task.reason = STR("sim");
    if (!command->in.task.task)
        return;
    if (task_is_red(w, command->in.task.task))
        command->actor.tenant = STR("red");
    trace(w, "a client says %s %lld",
        kind == CMD_CANCEL  ? "cancel"
        : kind == CMD_RETRY ? "retry"
                            : "promote",
        (long long)command->in.task.task);
    send_command(w, command, OWNER_ORDER);
}

static const char *const lanes[] = { "a", "b", "all", "x", "g" };

static void client_pause(struct world *w, bool pause)
{
    struct command *command = command_new(w, CMD_LANE_PAUSE);
    command->in.pause.lane = str_of(lanes[choose(&w->choices, 3 + w->n_repositories)]);
    command->in.pause.pause = pause;
    size_t known = 0; /* to pause what isn't there makes a queue of it */
    MAP_EACH (&w->store->lanes, l)
        known += str_eq(((const struct lane *)l->value)->name, command->in.pause.lane);
    if (w->n_repositories && !known)
        return;
    trace(w, "a client says %s %.*s", pause ? "pause" : "resume", STR_ARG(command->in.pause.lane));
    send_command(w, command, OWNER_ORDER);
}

static void executor_order(struct world *w, int64_t id, enum executor_state state)
{
    struct command *command = command_new(w, CMD_EXECUTOR_STATE);
    command->in.executor_state.executor = id;
    command->in.executor_state.state = state;
    trace(w, "a client says %s to executor %lld", executor_state_name(state), (long long)id);
    send_command(w, command, OWNER_ORDER);
}

static void client_executor(struct world *w)
{
    static const enum executor_state states[] = { EXECUTOR_PAUSED, EXECUTOR_DRAINING, EXECUTOR_ACTIVE,
        EXECUTOR_ACTIVE };
    int64_t id = w->executors[choose(&w->choices, w->n_executors)].id;
    enum executor_state state = states[choose(&w->choices, 4)];
    if (!id)
        return;
    if (state == EXECUTOR_PAUSED)
        MARK(w, executor_paused);
    executor_order(w, id, state);
}

void lanes_open(struct world *w)
{
    MAP_EACH (&w->store->executors, e) {
        const struct executor *row = e->value;
        if (row->state == EXECUTOR_PAUSED || row->state == EXECUTOR_DRAINING)
            executor_order(w, row->id, EXECUTOR_ACTIVE);
    }

    for (size_t i = 0; i < 3 + w->n_repositories; i++) {
        struct command *command = command_new(w, CMD_LANE_PAUSE);
        command->in.pause.lane = str_of(lanes[i]);
        send_command(w, command, OWNER_ORDER);
    }
}

void clients_step(struct world *w)
{
    for (size_t i = 0; i < w->n_calls; i++)
        if (!w->calls[i].answered && w->boot - w->calls[i].sent > REPEAT_MS)
            call_send(w, &w->calls[i]);
    if (w->healing)
        return;
    size_t most = w->n_repositories ? SENT_MAX / 3 : SENT_MAX;
    if (w->n_sent < most && w->n_calls < CALLS_MAX && chance(&w->choices, w->n_repositories ? 20 : 60))
        client_enqueue(w);
    if (w->n_repositories && w->n_calls < CALLS_MAX && chance(&w->choices, 5))
        client_run(w);
    if (w->n_limits && chance(&w->choices, 6))
        client_limit(w);
    if (chance(&w->choices, 8))
        client_order(w, CMD_CANCEL);
    if (chance(&w->choices, 6))
        client_order(w, CMD_RETRY);
    if (!w->flat && chance(&w->choices, 4))
        client_order(w, CMD_PROMOTE);
    if (chance(&w->choices, 4))
        client_pause(w, true);
    if (chance(&w->choices, 6))
        client_pause(w, false);
    if (chance(&w->choices, 2))
        client_executor(w);
}

bool clients_answered(const struct world *w)
{
    for (size_t i = 0; i < w->n_calls; i++)
        if (!w->calls[i].answered)
            return false;
    return true;
}

/* R16: however often a call is repeated, it is answered with the same ids. */
static void call_answer(struct world *w, struct call *call, const struct command *command)
{
    bool run = command->kind == CMD_RUN, set = command->kind == CMD_CHANGESET;
    size_t n = run || set ? 1 : command->out.enqueue.n_tasks;
    if (command->replay)
        MARK(w, idempotent_replay);
    if (command->replay && w->n_crashes > call->crashes)
        MARK(w, idempotent_after_crash);
    if (command->replay && call->first_answer > 0 && call->first_answer != w->at->index + 1)
        MARK(w, replayed_elsewhere);
    for (size_t i = 0; i < n; i++) {
        int64_t id = run   ? command->out.run.task
                     : set ? command->out.changeset.task
                           : command->out.enqueue.tasks[i].task.id;
        if (!run && !set && command->out.enqueue.tasks[i].existing)
            MARK(w, unique_met);
        if (call->n_ids && (n != call->n_ids || id != call->ids[i]))
            world_fail(w, "R16 the same call was answered with other ids", id);
        call->ids[i] = id;
        if (!call->n_ids && w->known.n_accepted < TASKS_MAX)
            w->known.accepted[w->known.n_accepted++].id = id;
    }
    call->n_ids = n;
    call->answered = true;
    if (!call->first_answer)
        call->first_answer = w->at->index + 1;
}

void client_answer(struct world *w, struct command *command)
{
    if ((intptr_t)command->owner <= OWNER_ARCHIVE) {
        repository_answer(w, command);
        return;
    }
    if (command->kind == CMD_PRUNE)
        prune_answer(w, command);
    if (command->kind == CMD_CHANGESET)
        changeset_answer(w, command);
    if ((intptr_t)command->owner <= OWNER_ORDER)
        return;
    struct call *call = &w->calls[-1 - (intptr_t)command->owner];
    enum err_code code = command->err.code;
    bool targetless = command->kind == CMD_CHANGESET && code == ERR_invalid; /* until its archive is added again */
    bool again = targetless || code == ERR_outcome_unknown || code == ERR_unavailable || code == ERR_disk_full ||
                 code == ERR_internal || (w->quotas && code == ERR_quota_exceeded);
    if (!command->err.code)
        call_answer(w, call, command);
    else if (command->kind == CMD_RUN && !again)
        call->answered = true; /* no such revision or task, or not yet */
    else if (!again)
        world_fail(w, "a good call was refused", 0);
}
