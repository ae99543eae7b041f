#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MS = 40000, HEALING_MS = 40 * 60 * 1000, SENT_MAX = 60 };

struct message {
    struct heap_node node;
    struct command *command;
    bool answer;
    unsigned life; /* of the server it is meant for, or comes from */
};

void trace(struct world *w, const char *fmt, ...)
{
    va_list args;
    if (!w->trace) return;
    printf("%8lld ", (long long)w->boot);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

void world_fail(struct world *w, const char *invariant, int64_t task)
{
    printf("VIOLATED %s (task %lld, at %lld ms, turn %llu)\n", invariant, (long long)task, (long long)w->boot, (unsigned long long)w->n_turns);
    fflush(stdout);
    abort();
}

struct command *command_new(struct world *w, enum command_kind kind)
{
    struct command *command = ARENA_NEW(&w->arena, struct command);
    command->kind = kind;
    command->arena = &w->arena;
    command->actor = (struct actor){ STR("sim"), STR("default") };
    return command;
}

/* --- the network -------------------------------------------------------------------------------------------------------------------- */

static void post(struct world *w, struct command *command, bool answer)
{
    struct message *message = mem_alloc(sizeof *message);
    *message = (struct message){ .command = command, .answer = answer, .life = w->server_life };
    int64_t delay = 1 + (int64_t)choose(&w->choices, 10);
    if (!w->healing && chance(&w->choices, 50)) delay += (int64_t)choose(&w->choices, 4000);
    heap_put(&w->mail, &message->node, w->boot + delay);
}

static bool lost(struct world *w)
{
    bool gone = !w->healing && chance(&w->choices, w->faults.lose);
    w->n_lost += gone;
    return gone;
}

void send_command(struct world *w, struct command *command, int from)
{
    command->owner = (void *)(intptr_t)from;
    if (!lost(w)) post(w, command, false);
    if (!w->healing && chance(&w->choices, w->faults.twice) && (command->kind == CMD_POLL || command->kind == CMD_ENQUEUE)) {
        struct command *twin = ARENA_NEW(&w->arena, struct command);
        *twin = *command;
        if (command->kind == CMD_POLL) { /* answers are written into the items */
            twin->in.poll.finishes = ARENA_ARRAY(&w->arena, struct finish_item, JOBS_MAX);
            memcpy(twin->in.poll.finishes, command->in.poll.finishes, command->in.poll.n_finishes * sizeof(struct finish_item));
        }
        post(w, twin, false);
    }
}

static void client_answer(struct world *w, struct command *command)
{
    if (command->err.code) return;
    if (command->kind == CMD_ENQUEUE)
        for (size_t i = 0; i < command->out.enqueue.n_tasks && w->n_accepted < TASKS_MAX; i++)
            w->accepted[w->n_accepted++].id = command->out.enqueue.tasks[i].task.id;
}

static void mail_deliver(struct world *w)
{
    struct heap_node *first;
    while ((first = heap_first(&w->mail)) && first->key <= w->boot) {
        struct message *message = CONTAINER_OF(first, struct message, node);
        heap_take(&w->mail, first);
        struct command *command = message->command;
        if (message->answer) {
            if ((intptr_t)command->owner >= 0) executor_answer(w, command);
            else client_answer(w, command);
        } else if (w->engine && w->n_inbox < sizeof w->inbox / sizeof *w->inbox) {
            w->inbox[w->n_inbox++] = command;
        }
        mem_free(message);
    }
}

/* --- the server ----------------------------------------------------------------------------------------------------------------------- */

static void server_start(struct world *w)
{
    struct err err = { 0 };
    static struct semaphore_conf semaphores[] = { { { "two", 3 }, 2 } };
    struct engine_config config = { .store = &w->store->store, .lease_ms = LEASE_MS, .semaphores = semaphores, .n_semaphores = 1, .server_name = STR("sim") };
    w->engine = engine_new(&config, w->wall, w->boot, &err);
    ASSERT(w->engine);
    w->next_turn = w->boot;
    w->server_life++;
    trace(w, "the server is up");
    check_store(w);
}

static void server_crash(struct world *w)
{
    trace(w, "the server dies");
    engine_free(w->engine);
    w->engine = NULL;
    w->n_inbox = 0; /* connections are gone, and what waited on them */
    w->n_crashes++;
    w->server_back_at = w->boot + (int64_t)choose(&w->choices, w->healing ? 10 : 2 * LEASE_MS);
}

static void cancels_note(struct world *w, struct command *command)
{
    for (size_t i = 0; i < w->n_accepted; i++)
        if (w->accepted[i].id == command->in.task.task) w->accepted[i].cancelled = command->kind == CMD_CANCEL;
}

static void server_turn(struct world *w)
{
    struct list answered = { 0 };
    struct err err = { 0 };
    struct list_node *at;
    if (!w->healing) {
        if (chance(&w->choices, w->faults.commit_full)) w->store->fault = MEM_FULL;
        if (chance(&w->choices, w->faults.commit_unknown)) w->store->fault = chance(&w->choices, 500) ? MEM_UNKNOWN_KEPT : MEM_UNKNOWN_LOST;
    }
    w->n_turns++;
    w->n_commands += w->n_inbox;
    bool ok = engine_turn(w->engine, w->inbox, w->n_inbox, w->wall, w->boot, &answered, &w->next_turn, &err);
    w->store->fault = MEM_OK;
    w->n_inbox = 0;
    bool dies = !ok || (!w->healing && chance(&w->choices, w->faults.crash_after_commit));
    while ((at = list_take_first(&answered))) {
        struct command *command = CONTAINER_OF(at, struct command, node);
        if (!command->err.code && command->kind == CMD_CANCEL) cancels_note(w, command);
        if ((!command->err.code || command->err.code == ERR_outcome_unknown) && command->kind == CMD_RETRY) cancels_note(w, command);
        if (command->kind == CMD_POLL) w->n_grants += command->out.poll.n_grants;
        if (!dies && !lost(w)) post(w, command, true);
    }
    check_store(w);
    if (dies) server_crash(w);
}

/* --- clients -------------------------------------------------------------------------------------------------------------------------- */

static int64_t any_task(struct world *w)
{
    return w->n_accepted ? w->accepted[choose(&w->choices, w->n_accepted)].id : 0;
}

static void client_enqueue(struct world *w)
{
    size_t n = 1 + choose(&w->choices, 5);
    struct command *command = command_new(w, CMD_ENQUEUE);
    struct task_def *defs = ARENA_ARRAY(&w->arena, struct task_def, n);
    static const char *const queues[] = { "a", "b", "c" };
    for (size_t i = 0; i < n; i++) {
        struct task_def *def = &defs[i];
        *def = (struct task_def){ .name = STR("t"), .kind = KIND_COMMAND, .body = STR("{}"), .attempts_max = 1 + (int64_t)choose(&w->choices, 3), .backoff_ms = 200,
                                  .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED, .path = STR("") };
        def->queue = str_of(queues[choose(&w->choices, 3)]);
        def->prio = (int64_t)choose(&w->choices, 3);
        if (chance(&w->choices, 150)) def->kind = KIND_NONE;
        if (chance(&w->choices, 100)) def->not_before = w->wall + (int64_t)choose(&w->choices, 5000);
        if (chance(&w->choices, 100)) def->unique = str_fmt(&w->arena, "u%d", (int)choose(&w->choices, 2));
        if (chance(&w->choices, 150)) def->concurrency = str_fmt(&w->arena, "k%d", (int)choose(&w->choices, 2));
        def->semaphores = ARENA_ARRAY(&w->arena, struct str, 2);
        if (chance(&w->choices, 200)) def->semaphores[def->n_semaphores++] = STR("one");
        if (chance(&w->choices, 200)) def->semaphores[def->n_semaphores++] = STR("two");
        def->labels = ARENA_ARRAY(&w->arena, struct label, 1);
        if (chance(&w->choices, 100)) def->labels[def->n_labels++] = (struct label){ STR("os"), STR("even") };
        def->refs = ARENA_ARRAY(&w->arena, struct task_ref, 8);
        for (size_t k = choose(&w->choices, 3); k > 0; k--) {
            struct task_ref ref = { .kind = chance(&w->choices, 300) ? EDGE_CANCELS : chance(&w->choices, 400) ? EDGE_AFTER : EDGE_DEPENDS };
            if (i > 0 && chance(&w->choices, 500)) ref.index = choose(&w->choices, i);
            else if (!(ref.id = any_task(w))) continue;
            bool clash = false;
            for (size_t r = 0; r < def->n_refs; r++) clash |= def->refs[r].id == ref.id && def->refs[r].index == ref.index;
            if (!clash) def->refs[def->n_refs++] = ref;
        }
    }
    command->in.enqueue.defs = defs;
    command->in.enqueue.n_defs = n;
    command->idempotency.key = str_fmt(&w->arena, "k%zu", w->n_sent);
    command->idempotency.route = STR("tasks");
    command->idempotency.body_hash[0] = 7;
    w->n_sent += n;
    send_command(w, command, -1);
}

static void client_order(struct world *w, enum command_kind kind)
{
    struct command *command = command_new(w, kind);
    command->in.task.task = any_task(w);
    command->in.task.reason = STR("sim");
    if (command->in.task.task) send_command(w, command, -1);
}

static void client_pause(struct world *w, bool pause)
{
    static const char *const lanes[] = { "a", "b", "all" };
    struct command *command = command_new(w, CMD_LANE_PAUSE);
    command->in.pause.lane = str_of(lanes[choose(&w->choices, 3)]);
    command->in.pause.pause = pause;
    send_command(w, command, -1);
}

static void clients_step(struct world *w)
{
    if (w->n_sent < SENT_MAX && chance(&w->choices, 60)) client_enqueue(w);
    if (chance(&w->choices, 8)) client_order(w, CMD_CANCEL);
    if (chance(&w->choices, 6)) client_order(w, CMD_RETRY);
    if (chance(&w->choices, 4)) client_order(w, CMD_PROMOTE);
    if (chance(&w->choices, 4)) client_pause(w, true);
    if (chance(&w->choices, 6)) client_pause(w, false);
}

/* --- a history ------------------------------------------------------------------------------------------------------------------------ */

static void faults_choose(struct world *w)
{
    unsigned *rates = &w->faults.lose;
    static const unsigned most[] = { 150, 100, 4, 8, 8, 20, 10, 6, 4, 5, 0 };
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) /* a swarm: each history has its own mixture, many without most of them */
        rates[i] = choose(&w->choices, 2) ? (unsigned)choose(&w->choices, most[i] + 1) : 0;
}

void world_open(struct world *w, bool tracing)
{
    w->trace = tracing;
    w->boot = 1000000;
    w->wall = INT64_C(1800000000000);
    w->store = memstore_new(0x5eed);
    faults_choose(w);
    w->n_executors = 1 + choose(&w->choices, EXECUTORS_MAX);
    for (size_t i = 0; i < w->n_executors; i++)
        w->executors[i] = (struct sim_executor){ .index = (int)i, .slots = 1 + (int64_t)choose(&w->choices, 3), .seq = 1000 };
    server_start(w);
}

static void world_step(struct world *w)
{
    int64_t step = 1 + (int64_t)choose(&w->choices, 20);
    w->boot += step;
    w->wall += step;
    if (!w->healing && chance(&w->choices, w->faults.clock_jump)) {
        static const int64_t jumps[] = { 3600000, -3600000, 86400000, -86400000, 1000, -1000 };
        w->wall += jumps[choose(&w->choices, 6)];
        trace(w, "the wall clock is set");
    }
    if (!w->engine && w->server_back_at <= w->boot) server_start(w);
    if (!w->healing) clients_step(w);
    executors_step(w);
    mail_deliver(w);
    if (!w->engine) return;
    if (!w->healing && chance(&w->choices, w->faults.crash_server)) {
        server_crash(w);
        return;
    }
    if (w->n_inbox || w->next_turn <= w->boot) server_turn(w);
}

static bool all_ended(struct world *w)
{
    MAP_EACH(&w->store->tasks, t) {
        const struct task *task = t->value;
        if (!state_ended(task->state)) return false;
    }
    return true;
}

static int64_t first_unended(struct world *w)
{
    MAP_EACH(&w->store->tasks, t) {
        const struct task *task = t->value;
        if (!state_ended(task->state)) return task->id;
    }
    return 0;
}

static void lanes_open(struct world *w)
{
    static const char *const lanes[] = { "a", "b", "all" };
    for (size_t i = 0; i < 3; i++) {
        struct command *command = command_new(w, CMD_LANE_PAUSE);
        command->in.pause.lane = str_of(lanes[i]);
        send_command(w, command, -1);
    }
}

void world_run(struct world *w)
{
    int64_t until = w->boot + FAULTS_MS;
    while (w->boot < until) world_step(w);
    /* Peace: everything that can run ends, in bounded time. Tasks for label `even` have executor 0. */
    w->healing = true;
    for (size_t i = 0; i < w->n_executors; i++) w->executors[i].frozen_until = 0;
    int64_t wall_behind = INT64_C(1800000000000) + (w->boot - 1000000);
    if (w->wall < wall_behind) w->wall = wall_behind;
    MAP_EACH(&w->store->tasks, t) { /* times that were asked for have come */
        const struct task *task = t->value;
        if (task->not_before > w->wall) w->wall = task->not_before;
    }
    until = w->boot + HEALING_MS;
    int64_t open_again = w->boot;
    while (w->boot < until) {
        if (w->boot >= open_again && w->engine) {
            lanes_open(w);
            open_again = w->boot + 5000;
        }
        world_step(w);
        if (w->engine && all_ended(w) && !heap_first(&w->mail)) return;
        if (w->engine && all_ended(w) && w->boot > until - HEALING_MS + 20000) return;
    }
    MAP_EACH(&w->store->tasks, t) { /* what is stuck, and why */
        const struct task *task = t->value;
        if (!state_ended(task->state))
            printf("  task %lld %c waits %lld holds %x class %lld grant %lld attempts %lld not_before %lld\n", (long long)task->id, state_letter(task->state),
                   (long long)task->waits, task->holds, (long long)task->class_id, (long long)task->grant, (long long)task->attempts,
                   (long long)(task->not_before ? task->not_before - w->wall : 0));
    }
    world_fail(w, "R8 not everything ended after the faults were over", first_unended(w));
}

void world_close(struct world *w)
{
    struct heap_node *first;
    engine_free(w->engine);
    while ((first = heap_first(&w->mail))) {
        heap_take(&w->mail, first);
        mem_free(CONTAINER_OF(first, struct message, node));
    }
    heap_release(&w->mail);
    memstore_free(w->store);
    arena_release(&w->arena);
    choices_release(&w->choices);
}
