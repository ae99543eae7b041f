#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MS = 40000, FAULTS_REAL_MS = 8000, HEALING_MS = 40 * 60 * 1000, WHY_EVERY = 8, FOLD_EVERY = 64 };

const char *const mark_texts[MARK_COUNT] = {
#define X(name, text) [MARK_##name] = text,
    MARKS(X) MARKS_SERVERS(X) MARKS_QUOTAS(X) MARKS_CHANGESETS(X)
#undef X
};
const char *const mark_names[MARK_COUNT] = {
#define X(name, text) [MARK_##name] = #name,
    MARKS(X) MARKS_SERVERS(X) MARKS_QUOTAS(X) MARKS_CHANGESETS(X)
#undef X
};

struct message {
    struct heap_node node;
    struct command *command;
    bool answer;
    int server; /* that it goes to, or comes from */
};

void trace(struct world *w, const char *fmt, ...)
{
    va_list args;
    if (!w->trace)
        return;
    printf("%8lld ", (long long)(w->boot - 1000000));
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* What has not ended, and what it holds. */
static void stuck_print(const struct world *w)
{
    static const char *const names[] = { "none", "time", "pause", "waits for slot", "has slot" };
    for (size_t i = 0; i < w->store->n_holds; i++) {
        const struct hold *hold = &w->store->holds[i];
        printf("  hold: %lld %s %lld rank %lld\n", (long long)hold->task, names[hold->kind], (long long)hold->key,
            (long long)(hold->rank & 0xffffffff));
    }
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (state_ended(task->state))
            continue;
        printf("  task %lld %c prio %lld lane %lld vt %lld waits %lld holds %x class %lld grant %lld attempts %lld "
               "not_before %lld\n",
            (long long)task->id, state_letter(task->state), (long long)task->prio, (long long)task->lane,
            (long long)task->vt, (long long)task->waits, task->holds, (long long)task->class_id, (long long)task->grant,
            (long long)task->attempts, (long long)(task->not_before ? task->not_before - w->wall : 0));
        const struct edges *ins = map_find(&w->store->ins, (uint64_t)task->id);
        for (size_t i = 0; ins && i < ins->n; i++)
            if (!state_ended(store_task(w, ins->edges[i].pred)->state))
                printf("    %s %lld flags %u\n", edge_kind_name(ins->edges[i].kind), (long long)ins->edges[i].pred,
                    ins->edges[i].flags);
    }
}

void world_fail(struct world *w, const char *invariant, int64_t task)
{
    if (w->trace)
        stuck_print(w);
    if (w->on_fail)
        w->on_fail(w, invariant, task);
    printf("VIOLATED %s (task %lld, at %lld ms, turn %llu)\n", invariant, (long long)task,
        (long long)(w->boot - 1000000), (unsigned long long)w->n_turns);
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

/* --- the network --- */

static void post(struct world *w, struct command *command, bool answer, int server)
{
    struct message *message = mem_alloc(sizeof *message);
    *message = (struct message){ .command = command, .answer = answer, .server = server };
    int64_t delay = 1 + (int64_t)choose(&w->choices, 10);
    if (!w->healing && chance(&w->choices, 50))
        delay += (int64_t)choose(&w->choices, 4000);
    heap_put(&w->mail, &message->node, w->boot + delay);
}

static bool lost(struct world *w)
{
    bool gone = !w->healing && chance(&w->choices, w->faults.lose);
    w->n_lost += gone;
    return gone;
}

void send_to(struct world *w, struct command *command, int from, int server)
{
    command->owner = (void *)(intptr_t)from;
    if (!lost(w))
        post(w, command, false, server);
    enum command_kind kind = command->kind;
    bool doubled = !w->healing && chance(&w->choices, w->faults.twice);
    bool again = kind == CMD_POLL || kind == CMD_REVISION ||
                 ((kind == CMD_ENQUEUE || kind == CMD_RUN || kind == CMD_CHANGESET) && command->idempotency.key.len);
    if (doubled && again) {
        struct command *twin = ARENA_NEW(&w->arena, struct command);
        *twin = *command;
        if (command->kind == CMD_POLL) { /* answers are written into the items */
            twin->in.poll.finishes = ARENA_ARRAY(&w->arena, struct finish_item, JOBS_MAX);
            memcpy(twin->in.poll.finishes, command->in.poll.finishes,
                command->in.poll.n_finishes * sizeof(struct finish_item));
        }
        post(w, twin, false, kind != CMD_POLL && several(w) ? server_choose(w) : server); /* asked again, elsewhere */
    }
}

void send_command(struct world *w, struct command *command, int from)
{
    send_to(w, command, from, from >= 0 ? w->executors[from].server : server_choose(w));
}

static void mail_deliver(struct world *w)
{
    struct heap_node *first;
    while ((first = heap_first(&w->mail)) && first->key <= w->boot) {
        struct message *message = CONTAINER_OF(first, struct message, node);
        heap_take(&w->mail, first);
        struct command *command = message->command;
        if (message->answer) {
            w->at = &w->servers[message->server]; /* who has answered */
            if ((intptr_t)command->owner >= 0)
                executor_answer(w, command);
            else
                client_answer(w, command);
        } else {
            struct server *server = &w->servers[message->server];
            if (server->engine && server->n_inbox < INBOX_MAX)
                server->inbox[server->n_inbox++] = command;
        }
        mem_free(message);
    }
}

void mail_hasten(struct world *w, struct server *server)
{
    struct message *soon[HASTENED_MAX];
    size_t n = 0;
    for (size_t i = 0; i < w->mail.n && n < HASTENED_MAX; i++) {
        struct message *message = CONTAINER_OF(w->mail.nodes[i], struct message, node);
        if (!message->answer && &w->servers[message->server] == server)
            soon[n++] = message;
    }
    for (size_t i = 0; i < n && server->n_inbox < INBOX_MAX; i++) {
        server->inbox[server->n_inbox++] = soon[i]->command;
        heap_take(&w->mail, &soon[i]->node);
        mem_free(soon[i]);
    }
}

void mail_lose(struct world *w)
{
    struct heap_node *first;
    for (; (first = heap_first(&w->mail)); w->n_lost++) {
        heap_take(&w->mail, first);
        mem_free(CONTAINER_OF(first, struct message, node));
    }
}

void mail_forget(struct world *w)
{
    struct heap_node *kept[INBOX_MAX], *first;
    size_t n = 0;
    while ((first = heap_first(&w->mail))) {
        struct message *message = CONTAINER_OF(first, struct message, node);
        heap_take(&w->mail, first);
        if ((intptr_t)message->command->owner >= 0 && n < INBOX_MAX)
            kept[n++] = first;
        else
            mem_free(message);
    }
    for (size_t i = 0; i < n; i++)
        heap_put(&w->mail, kept[i], kept[i]->key);
}

void mail_hold(struct world *w, int64_t ms)
{
    size_t n = w->mail.n;
    struct heap_node *nodes[INBOX_MAX];
    for (size_t i = 0; i < n && i < INBOX_MAX; i++)
        nodes[i] = w->mail.nodes[i];
    for (size_t i = 0; i < n && i < INBOX_MAX; i++)
        heap_put(&w->mail, nodes[i], nodes[i]->key + ms);
}

void mail_double(struct world *w, int64_t ms)
{
    size_t n = w->mail.n;
    struct message *twins[INBOX_MAX];
    size_t n_twins = 0;
    for (size_t i = 0; i < n && n_twins < INBOX_MAX; i++) {
        const struct message *message = CONTAINER_OF(w->mail.nodes[i], struct message, node);
        if (message->answer || message->command->kind != CMD_POLL)
            continue;
        struct command *twin = ARENA_NEW(&w->arena, struct command);
        *twin = *message->command;
        twin->in.poll.finishes = ARENA_ARRAY(&w->arena, struct finish_item, JOBS_MAX);
        memcpy(twin->in.poll.finishes, message->command->in.poll.finishes,
            twin->in.poll.n_finishes * sizeof(struct finish_item));
        twins[n_twins] = mem_alloc(sizeof *twins[n_twins]);
        *twins[n_twins++] = (struct message){ .command = twin };
    }
    for (size_t i = 0; i < n_twins; i++)
        heap_put(&w->mail, &twins[i]->node, w->boot + ms);
}

/* --- the server --- */

void server_start(struct world *w)
{
    struct server *server = w->at;
    struct err err = { 0 };
    struct conf_semaphore *semaphores = ARENA_NEW(&w->arena, struct conf_semaphore);
    *semaphores = (struct conf_semaphore){ .name = STR("two"), .limit = w->limit };
    struct engine_config config = { .store = &w->at->port->store,
        .lease_ms = LEASE_MS,
        .batch = w->batch,
        .many = w->many,
        .block = 4,
        .site = { .semaphores = { semaphores, 1 }, .tenants = tenants_conf(w), .changesets = changesets_conf(w) },
        .server_name = several(w) ? str_of(server->name) : STR("sim") };
    server->engine = engine_new(&config, w->wall + server->wall_ahead, w->boot + server->boot_ahead, &err);
    ASSERT(server->engine);
    server->next_turn = server->wanted = server->began = w->boot;
    server->well_since = w->boot;
    server->seen_commit = w->store->head.commit;
    memset(server->epochs, 0, sizeof server->epochs);
    w->at->renewals = 0;
    for (size_t i = 0; i < w->store->n_attempts; i++)
        if (!w->store->attempts[i].finished && w->n_crashes)
            MARK(w, restart_live);
    MAP_EACH (&w->store->lanes, l)
        if (((const struct lane *)l->value)->paused_since)
            MARK(w, restart_paused);
    for (size_t i = 0; i < w->n_executors; i++) {
        w->executors[i].server_seq[w->at->index] = 0;
        w->executors[i].seq_unsure[w->at->index] = false;
        w->executors[i].parked[w->at->index] = NULL;
    }
    watch_anew(w);
    trace(w, "the server%s%s is up", several(w) ? " " : "", server->name);
    admits_note(w, false);
    check_store(w);
}

void server_crash(struct world *w)
{
    trace(w, "the server%s%s dies", several(w) ? " " : "", w->at->name);
    engine_free(w->at->engine);
    w->at->engine = NULL;
    w->at->n_inbox = 0; /* connections are gone, and what waited on them */
    w->n_crashes++;
    MARK(w, crash);
    w->at->back_at = w->boot + (int64_t)choose(&w->choices, w->healing ? 10 : 2 * LEASE_MS);
}

static void cancels_note(struct world *w, const struct command *command)
{
    for (size_t i = 0; i < w->known.n_accepted; i++)
        if (w->known.accepted[i].id == command->in.task.task)
            w->known.accepted[i].cancelled = command->kind == CMD_CANCEL;
}

static void answers_note(struct world *w, const struct command *command)
{
    if (!command->err.code && command->kind == CMD_CANCEL)
        cancels_note(w, command);
    if ((!command->err.code || command->err.code == ERR_outcome_unknown) && command->kind == CMD_RETRY)
        cancels_note(w, command);
    if (command->kind == CMD_POLL)
        w->n_grants += command->out.poll.n_grants;
    if (command->kind != CMD_POLL)
        return;
    for (size_t i = 0; i < w->n_executors; i++)
        if (w->executors[i].parked[w->at->index] == command)
            w->executors[i].parked[w->at->index] = NULL;
}

static void inbox_trace(struct world *w, struct command **commands, size_t n)
{
    for (size_t i = 0; w->trace && i < n; i++) {
        const struct command *c = commands[i];
        if (c->kind == CMD_ENQUEUE && c->err.code)
            trace(w, "  call %.*s: %s", STR_ARG(c->idempotency.key), err_name(c->err.code));
        if (c->kind == CMD_LANE_PAUSE)
            trace(w, "  %s %.*s", c->in.pause.pause ? "pause" : "resume", STR_ARG(c->in.pause.lane));
        if (c->kind != CMD_POLL)
            continue;
        trace(w, "  poll %lld of executor %d: renews %zu, finishes %zu, free %lld: %s, %zu grants, %zu cancels",
            (long long)c->in.poll.seq, (int)(intptr_t)c->owner, c->in.poll.n_renew, c->in.poll.n_finishes,
            (long long)c->in.poll.free,
            c->err.code   ? err_name(c->err.code)
            : c->answered ? "answered"
                          : "waits",
            c->out.poll.n_grants, c->out.poll.n_cancels);
    }
}

static enum mem_fault fault_choose(struct world *w)
{
    if (w->healing)
        return MEM_OK;
    enum mem_fault fault = MEM_OK;
    if (chance(&w->choices, w->faults.commit_full))
        fault = MEM_FULL;
    if (chance(&w->choices, w->faults.commit_unknown))
        fault = chance(&w->choices, 500) ? MEM_UNKNOWN_KEPT : MEM_UNKNOWN_LOST;
    return fault;
}

void server_turn(struct world *w)
{
    struct list answered = { 0 };
    struct err err = { 0 };
    struct list_node *at;
    struct command *inbox[INBOX_MAX];
    struct server *server = w->at;
    size_t n = server->n_inbox;
    server->port->fault = fault_choose(w);
    if (several(w))
        turn_before(w);
    enum mem_fault fault = server->port->fault;
    w->wall += server->wall_ahead; /* what is judged is judged by its clock */
    memcpy(inbox, w->at->inbox, n * sizeof *inbox);
    w->at->n_inbox = 0;
    w->n_turns++;
    w->n_commands += n;
    if (w->boot - w->at->wanted > LEASE_MS / 3 && w->at->wanted != INT64_MAX) {
        MARK(w, stall);
        watch_anew(w);
    }
    watch_before(w);
    served_before(w);
    if (w->quotas)
        quotas_before(w);
    unsigned cuts = server->port->n_cut;
    bool ok = engine_turn(
             server->engine, inbox, n, w->wall, w->boot + server->boot_ahead, &answered, &server->next_turn, &err),
         spent = server->port->fault == MEM_OK, cut = server->port->n_cut != cuts;
    if (server->next_turn != INT64_MAX)
        server->next_turn -= server->boot_ahead;
    server->port->fault = MEM_OK;
    server->wanted = server->next_turn > w->boot ? server->next_turn : w->boot;
    if (spent && fault == MEM_FULL) {
        MARK(w, disk_full);
        watch_anew(w);
    }
    if (spent && fault == MEM_CUT)
        MARK(w, connection_cut);
    if (cut && fault == MEM_OK && !server->port->away)
        MARK(w, connection_cut_reading);
    if (spent && fault == MEM_UNKNOWN_KEPT)
        MARK(w, unknown_kept);
    if (spent && fault == MEM_UNKNOWN_LOST)
        MARK(w, unknown_lost);
    for (size_t i = 0; i < n; i++)
        if (inbox[i]->kind == CMD_POLL && !inbox[i]->answered)
            w->executors[(intptr_t)inbox[i]->owner].parked[w->at->index] = inbox[i];
    for (at = answered.first; at; at = at->next)
        answers_note(w, CONTAINER_OF(at, struct command, node));
    if (several(w))
        trace(w, "turn of %s: commit %lld", server->name, (long long)w->store->head.commit);
    inbox_trace(w, inbox, n);
    if (spent && fault)
        trace(w, "  the commit failed: %s",
            fault == MEM_FULL           ? "the disk is full"
            : fault == MEM_UNKNOWN_KEPT ? "unknown, kept"
            : fault == MEM_UNKNOWN_LOST ? "unknown, lost"
            : fault == MEM_CUT          ? "the connection is lost"
                                        : "the answer is lost");
    w->anew |= several(w) && (cut || server->port->too_far);
    admits_note(w, ok && fault == MEM_OK && !cut);
    check_store(w);
    if (ok)
        watch_after(w, inbox, n, (fault == MEM_OK || !spent) && !cut);
    if (ok && w->quotas)
        quotas_after(w, inbox, n, (fault == MEM_OK || !spent) && !cut);
    if (several(w))
        turn_after(w, inbox, n, ok && (fault == MEM_OK || !spent || fault == MEM_ANSWER_LOST) && !cut);
    if (ok && w->n_turns % WHY_EVERY == 0 && !admits_are_left(w) &&
        (!several(w) || (duty_had(w, DUTY_timers) && !w->clocks_differ)))
        check_why(w);
    if (w->n_turns % FOLD_EVERY == 0)
        store_fold(w);
    w->wall -= server->wall_ahead;
    bool dies = !ok || w->dies_next || (!w->healing && chance(&w->choices, w->faults.crash_after_commit));
    while ((at = list_take_first(&answered))) {
        struct command *command = CONTAINER_OF(at, struct command, node);
        if (!dies && !lost(w))
            post(w, command, true, server->index);
    }
    w->dies_next = false;
    if (dies)
        server_crash(w);
}

/* --- a history --- */

static void faults_choose(struct world *w)
{
    unsigned *rates = &w->faults.lose;
    static const unsigned most[] = { 150, 100, 4, 8, 8, 20, 10, 6, 4, 5, 4, 3 };
    _Static_assert(sizeof most / sizeof *most == sizeof(struct faults) / sizeof(unsigned), "a rate for each");
    /* a swarm: each history has its own mixture, many without most of them */
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        rates[i] = choose(&w->choices, 2) ? (unsigned)choose(&w->choices, most[i] + 1) : 0;
}

void world_open(struct world *w, bool tracing)
{
    w->trace = tracing;
    w->boot = 1000000;
    w->wall = INT64_C(1800000000000);
    w->store = memstore_new(0x5eed);
    w->at = w->servers;
    w->servers[0].port = &w->store->own;
    faults_choose(w);
    if (w->n_servers > 1)
        servers_open(w, w->n_servers);
    w->many = 2;
    if (w->real)
        stores_open(w);
    w->n_executors = 1 + choose(&w->choices, EXECUTORS_MAX);
    for (size_t i = 0; i < w->n_executors; i++)
        w->executors[i] =
            (struct sim_executor){ .index = (int)i, .slots = 1 + (int64_t)choose(&w->choices, 3), .seq = 1000 };
    static const size_t batches[] = { 0, 1, 2, 4 };
    w->batch = batches[choose(&w->choices, 4)];
    w->flat = choose(&w->choices, 4) == 3;
    w->limit = 2;
    w->n_limits = choose(&w->choices, 2);
    if (w->changesets)
        changesets_open(w);
    repositories_open(w);
    if (w->quotas)
        quotas_open(w);
    for (size_t i = 0; several(w) && i < w->n_executors; i++)
        w->executors[i].server = (int)choose(&w->choices, w->n_servers);
    for (size_t i = 0; i < (several(w) ? w->n_servers : 1); i++) {
        w->at = &w->servers[i];
        server_start(w);
    }
}

static void clock_jump(struct world *w)
{
    static const int64_t year = INT64_C(366) * 86400000;
    const int64_t jumps[] = { 3600000, -3600000, 86400000, -86400000, 1000, -1000, year, -year };
    int64_t jump = jumps[choose(&w->choices, 8)];
    w->wall += jump;
    if (jump > 0)
        MARK(w, clock_forward);
    else
        MARK(w, clock_back);
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (jump < -1000 && task->attempts > task->base && task->holds & (1u << HOLD_time))
            MARK(w, clock_back_waiting);
    }
    trace(w, "the wall clock is set by %lld ms", (long long)jump);
}

void world_step(struct world *w)
{
    choices_step(&w->choices);
    int64_t step = w->step_ms ? w->step_ms : 1 + (int64_t)choose(&w->choices, 20);
    w->boot += step;
    w->wall += step;
    if (!w->healing && chance(&w->choices, w->faults.clock_jump))
        clock_jump(w);
    backup_step(w);
    if (several(w)) {
        servers_step(w);
        clients_step(w);
        if (w->quotas)
            quotas_step(w);
        if (w->changesets)
            changesets_step(w);
        repositories_step(w);
        executors_step(w);
        mail_deliver(w);
        servers_turns(w);
        return;
    }
    if (!w->at->engine && w->at->back_at <= w->boot)
        server_start(w);
    clients_step(w);
    if (w->quotas)
        quotas_step(w);
    if (w->changesets)
        changesets_step(w);
    repositories_step(w);
    executors_step(w);
    mail_deliver(w);
    if (!w->at->engine)
        return;
    if (!w->healing && chance(&w->choices, w->faults.crash_server)) {
        server_crash(w);
        return;
    }
    if (!w->healing && chance(&w->choices, w->faults.stall)) {
        w->at->stalled_until = w->boot + LEASE_MS / 6 + (int64_t)choose(&w->choices, 8) * LEASE_MS / 2;
        trace(w, "the server stands still until %lld", (long long)(w->at->stalled_until - 1000000));
    }
    if (w->at->stalled_until > w->boot)
        return;
    if (w->at->n_inbox || w->at->next_turn <= w->boot)
        server_turn(w);
}

bool server_up(const struct world *w)
{
    for (size_t i = 0; i < SERVERS_MAX; i++)
        if (w->servers[i].engine)
            return true;
    return false;
}

static int64_t first_unended(struct world *w)
{
    MAP_EACH (&w->store->tasks, t) {
        const struct task *task = t->value;
        if (!state_ended(task->state))
            return task->id;
    }
    return 0;
}

static void times_come(struct world *w)
{
    MAP_EACH (&w->store->tasks, t) { /* times that were asked for have come */
        const struct task *task = t->value;
        if (task->not_before > w->wall)
            w->wall = task->not_before;
    }
}

static void world_heal(struct world *w)
{
    w->healing = true;
    w->at->stalled_until = 0;
    if (several(w))
        servers_heal(w);
    for (size_t i = 0; i < w->n_executors; i++)
        w->executors[i].frozen_until = 0;
    int64_t wall_behind = INT64_C(1800000000000) + (w->boot - 1000000);
    if (w->wall < wall_behind)
        w->wall = wall_behind;
}

void world_run(struct world *w)
{
    int64_t until = w->boot + (w->real ? FAULTS_REAL_MS : FAULTS_MS);
    while (w->boot < until && !choices_spent(&w->choices) && !w->unlooked)
        world_step(w);
    world_finish(w);
}

void world_finish(struct world *w)
{
    /* Peace: everything that can run ends, in bounded time. Tasks for label `even` have executor 0. */
    world_heal(w);
    int64_t began = w->boot, open_again = w->boot;
    while (w->boot < began + HEALING_MS && !w->unlooked) {
        if (w->boot >= open_again && server_up(w)) {
            lanes_open(w);
            times_come(w);
            open_again = w->boot + 5000;
        }
        world_step(w);
        bool over = server_up(w) && clients_answered(w) && repositories_told(w) && !first_unended(w);
        if (over && (!heap_first(&w->mail) || w->boot > began + 20000)) {
            if (w->changesets && !w->unlooked)
                changesets_over(w);
            store_fold(w);
            return;
        }
    }
    if (w->unlooked)
        return;
    bool answered = clients_answered(w) && repositories_told(w);
    world_fail(w, answered ? "R8 not everything ended after the faults were over" : "a call was never answered",
        first_unended(w));
}

void world_close(struct world *w)
{
    struct heap_node *first;
    for (size_t i = 0; i < SERVERS_MAX; i++)
        engine_free(w->servers[i].engine);
    for (size_t i = 0; i < SERVERS_MAX; i++)
        map_release(&w->servers[i].shared.locks);
    if (w->real)
        stores_close(w);
    while ((first = heap_first(&w->mail))) {
        heap_take(&w->mail, first);
        mem_free(CONTAINER_OF(first, struct message, node));
    }
    heap_release(&w->mail);
    backup_close(w);
    memstore_free(w->store);
    mem_free(w->attempts_before);
    mem_free(w->holds_before);
    arena_release(&w->arena);
    choices_release(&w->choices);
}
