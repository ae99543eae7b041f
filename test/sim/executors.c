/* executors: agents that keep the protocol of ENGINE.md while they crash, freeze and lose answers. Jobs run on while
 * their agent is down; a host that crashes takes its jobs with it. */
#include <string.h>

#include "world.h"

enum { WAIT_MS = 900, GIVE_UP_MS = 1500 };

static struct job *job_find(struct sim_executor *e, struct fence fence)
{
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (e->jobs[i].used && e->jobs[i].fence.task == fence.task && e->jobs[i].fence.grant == fence.grant &&
            e->jobs[i].fence.incarnation == fence.incarnation)
            return &e->jobs[i];
    return NULL;
}

static void job_start(struct world *w, struct sim_executor *e, const struct grant *grant)
{
    struct fence fence = grant->fence;
    if (job_find(e, fence))
        return;
    for (size_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &e->jobs[i];
        if (job->used)
            continue;
        static const struct {
            int64_t exit, signal;
        } ends[] = { { 0, -1 }, { 0, -1 }, { 0, -1 }, { 1, -1 }, { 111, -1 }, { 99, -1 }, { 100, -1 }, { -1, 9 },
            { -1, 15 } };
        size_t k = choose(&w->choices, w->healing ? 4 : sizeof ends / sizeof *ends);
        *job = (struct job){ .used = true, .fence = fence, .exit = ends[k].exit, .signal = ends[k].signal };
        job->ends_at = w->boot + 1 + (int64_t)choose(&w->choices, 8) * (chance(&w->choices, 100) ? 2000 : 60);
        job->ends_at += w->job_ms;
        if (grant->task.marks & MARK_CHANGESET)
            apply_begin(w, e, job, grant);
        watch_start(w, e, fence);
        job_commits(w, fence.task);
        trace(w, "executor %d starts %lld/%lld", e->index, (long long)fence.task, (long long)fence.grant);
        return;
    }
    world_fail(w, "more grants than were asked for", fence.task);
}

static void job_cancel(struct world *w, struct sim_executor *e, const struct cancel_order *order)
{
    struct job *job = job_find(e, order->fence);
    if (!job)
        return;
    if (order->stale) {
        trace(w, "executor %d drops %lld/%lld", e->index, (long long)order->fence.task, (long long)order->fence.grant);
        job->used = false;
        return;
    }
    if (job->ended)
        return;
    job->apply.ordered = true;
    bool obeys = chance(&w->choices, 700);
    int64_t soon = w->boot + (obeys ? 5 : 400);
    if (job->ends_at > soon)
        job->ends_at = soon;
    if (!chance(&w->choices, 200)) { /* some come to a good end all the same */
        job->exit = -1;
        job->signal = obeys ? (strcmp(order->signal, "HUP") == 0 ? 1 : 15) : 9;
    }
}

static void jobs_end(struct world *w, struct sim_executor *e)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &e->jobs[i];
        if (job->used)
            apply_step(w, e, job);
        if (!job->used || job->ended || job->ends_at > w->boot)
            continue;
        job->ended = true;
        apply_end(w, job);
    }
}

static void registration(struct world *w, struct sim_executor *e)
{
    struct command *command = command_new(w, CMD_REGISTER);
    struct executor *row = &command->in.reg.executor;
    row->name = str_fmt(&w->arena, "e%d", e->index);
    row->instance = str_fmt(&w->arena, "i%d", e->index);
    command->in.reg.memory = str_fmt(&w->arena, "host %u", e->hosts);
    row->host = str_fmt(&w->arena, "boot %u", (unsigned)e->boots);
    row->slots = e->slots;
    row->kinds = 1u << KIND_COMMAND | 1u << KIND_SCRIPT | (e->applies ? 1u << KIND_APPLY : 0u);
    if (e->index % 2 == 0) {
        row->labels = ARENA_ARRAY(&w->arena, struct label, 1);
        row->labels[0] = (struct label){ STR("os"), STR("even") };
        row->n_labels = 1;
    }
    e->poll_open = true;
    e->poll_sent = w->boot;
    send_command(w, command, e->index);
}

static void poll_send(struct world *w, struct sim_executor *e, bool again)
{
    struct command *command = command_new(w, CMD_POLL);
    if (!again)
        e->seq++;
    command->in.poll.executor = e->id;
    command->in.poll.seq = e->seq;
    command->in.poll.wait_ms = WAIT_MS;
    command->in.poll.seen_seq = e->seen_seq;
    command->in.poll.seen_incarnation = e->seen_incarnation;
    command->in.poll.renew = ARENA_ARRAY(&w->arena, struct renew_item, JOBS_MAX);
    command->in.poll.finishes = ARENA_ARRAY(&w->arena, struct finish_item, JOBS_MAX);
    int64_t used = 0;
    for (size_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &e->jobs[i];
        if (!job->used)
            continue;
        used++;
        command->in.poll.renew[command->in.poll.n_renew++].fence = job->fence;
        if (!job->ended)
            continue;
        struct finish_item *item = &command->in.poll.finishes[command->in.poll.n_finishes++];
        *item = (struct finish_item){ .fence = job->fence,
            .exit = job->exit,
            .signal = job->signal,
            .outcome = job->outcome,
            .cpu_ms = 1,
            .max_rss_bytes = 1,
            .log_bytes = w->quotas ? 100 + job->fence.task % 7 : 0 };
        item->hash[0] = (uint8_t)(job->exit + 2);
        item->hash[1] = (uint8_t)(job->signal + 2);
        item->hash[2] = (uint8_t)job->outcome;
        item->hash[3] = (uint8_t)job->apply.revision;
        if (job->apply.revision)
            item->revision = str_fmt(&w->arena, "r%lld", (long long)job->apply.revision);
        item->hash[15] = 1;
    }
    command->in.poll.free = e->slots > used ? e->slots - used : 0;
    e->poll_open = true;
    e->poll_sent = w->boot;
    send_command(w, command, e->index);
}

/* To another server, where it registers, unless it is a balancer that turns it. */
static void server_next(struct world *w, struct sim_executor *e)
{
    e->server = (int)((size_t)(e->server + 1) % w->n_servers);
    if (!chance(&w->choices, 300))
        e->id = 0; /* else something between them has turned it */
    MARK(w, failover);
    trace(w, "executor %d turns to %s", e->index, w->servers[e->server].name);
}

static bool something_to_report(const struct sim_executor *e)
{
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (e->jobs[i].used && e->jobs[i].ended)
            return true;
    return false;
}

void executor_die(struct world *w, struct sim_executor *e, bool host)
{
    trace(w, "executor %d: the %s dies", e->index, host ? "host" : "agent");
    e->down = true;
    if (!host)
        return;
    memset(e->jobs, 0, sizeof e->jobs);
    e->hosts++;
}

static void executor_mishap(struct world *w, struct sim_executor *e)
{
    if (w->healing)
        return;
    if (chance(&w->choices, w->faults.freeze)) {
        e->frozen_until = w->boot + 500 + (int64_t)choose(&w->choices, 10) * LEASE_MS / 2;
        trace(w, "executor %d freezes until %lld", e->index, (long long)(e->frozen_until - 1000000));
    }
    if (chance(&w->choices, w->faults.crash_agent)) {
        executor_die(w, e, false);
        e->frozen_until = w->boot + (int64_t)choose(&w->choices, 3000);
    }
    if (chance(&w->choices, w->faults.crash_host)) {
        executor_die(w, e, true);
        e->frozen_until = w->boot + (int64_t)choose(&w->choices, 8000);
    }
}

void executors_step(struct world *w)
{
    for (size_t i = 0; i < w->n_executors; i++) {
        struct sim_executor *e = &w->executors[i];
        jobs_end(w, e);
        executor_mishap(w, e);
        if (e->frozen_until > w->boot)
            continue;
        if (e->down) { /* a new agent: it registers again and counts its polls from anew */
            e->down = false;
            e->id = 0;
            e->boots++;
            e->seq = (int64_t)((e->boots + 1) * 10000); /* above every number of an earlier life */
            e->poll_open = false;
        }
        bool gave_up = e->poll_open && w->boot - e->poll_sent > GIVE_UP_MS;
        if (gave_up && several(w) && !chance(&w->choices, 300))
            server_next(w, e);
        if (e->id == 0) {
            if (!e->poll_open || gave_up)
                registration(w, e);
        } else if (!e->poll_open) {
            poll_send(w, e, false);
        } else if (gave_up) {
            poll_send(w, e, true);
        } else if (something_to_report(e) && w->boot - e->poll_sent > 20) {
            poll_send(w, e, false); /* the open poll is overtaken */
        }
    }
}

void executor_answer(struct world *w, struct command *command)
{
    struct sim_executor *e = &w->executors[(size_t)(intptr_t)command->owner];
    if (e->down || e->frozen_until > w->boot) {
        if (!e->down)
            e->poll_open = false; /* it reads the answer when it thaws; here: too late */
        return;
    }
    if (command->kind == CMD_REGISTER) {
        if (!str_eq(command->in.reg.executor.host, str_fmt(&w->arena, "boot %u", (unsigned)e->boots)))
            return; /* an answer to the agent before: nobody hears it */
        e->poll_open = false;
        if (command->err.code == ERR_unavailable && w->at->index == e->server)
            server_next(w, e);
        if (!command->err.code && w->at->index == e->server)
            e->id = command->out.reg.id;
        return;
    }
    for (size_t i = 0; i < command->in.poll.n_finishes; i++) {
        const struct finish_item *item = &command->in.poll.finishes[i];
        struct job *job = job_find(e, item->fence);
        if (job && job->ended && !command->err.code)
            job->used = false; /* answered, one way or the other */
    }
    if (command->err.code == ERR_unavailable && w->at->index == e->server)
        server_next(w, e);
    if (command->err.code == ERR_not_found)
        e->id = 0;
    if (command->in.poll.seq != e->seq || command->in.poll.executor != e->id)
        return; /* an answer to an older poll: its grants aren't ours */
    e->poll_open = false;
    if (command->err.code)
        return;
    e->lease_from = e->poll_sent;
    /* as our own executor does: what it is told last counts. Others keep the largest */
    bool forgets = e->index % 2 == 0;
    if (forgets || command->out.poll.head_seq > e->seen_seq) {
        e->seen_seq = command->out.poll.head_seq;
        e->seen_incarnation = command->out.poll.incarnation;
    }
    for (size_t i = 0; i < command->out.poll.n_cancels; i++)
        job_cancel(w, e, &command->out.poll.cancels[i]);
    for (size_t i = 0; i < command->out.poll.n_grants; i++)
        job_start(w, e, &command->out.poll.grants[i]);
}
