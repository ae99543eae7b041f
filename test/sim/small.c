/* small: every history of a few small worlds. Two tasks, one or two executors; in each of the first steps nothing
 * happens, or one of the faults below, at most `faults` of them in a history. After that peace, in which all has to
 * end. Nothing is drawn by chance: what is walked through is walked through whole. A history is named by its world and
 * its steps, one character each: `1:..S...p....`. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runs.h"

enum { STEPS = 14, STEP_MS = 350, LATE_MS = LEASE_MS + 200 };

static void nothing(struct world *w)
{
    (void)w;
}
static void lose(struct world *w)
{
    mail_lose(w);
}
static void hold_back(struct world *w)
{
    mail_hold(w, LATE_MS);
}
static void come_again(struct world *w)
{
    mail_double(w, LATE_MS);
}
static void come_again_soon(struct world *w)
{
    mail_double(w, 3 * STEP_MS);
}
static void server_dies(struct world *w)
{
    if (w->at->engine)
        server_crash(w);
}
static void dies_after_commit(struct world *w)
{
    w->dies_next = true;
}
static void agent_dies(struct world *w)
{
    executor_die(w, &w->executors[0], false);
}
static void host_dies(struct world *w)
{
    executor_die(w, &w->executors[0], true);
}
static void freezes(struct world *w)
{
    w->executors[0].frozen_until = w->boot + LATE_MS;
}

static const struct {
    char letter;
    void (*happens)(struct world *w);
    const char *text;
} faults[] = {
    { '.', nothing, "nothing" },
    { 'l', lose, "all messages under way are lost" },
    { 'h', hold_back, "they come a lease later" },
    { 'd', come_again, "polls under way come once more, a lease later" },
    { 'D', come_again_soon, "polls under way come once more, a little later" },
    { 'S', server_dies, "the server dies" },
    { 'C', dies_after_commit, "the server dies between its next commit and its answers" },
    { 'p', agent_dies, "the first executor's agent dies" },
    { 'H', host_dies, "its host dies" },
    { 'f', freezes, "it stands still for more than a lease" },
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* --- worlds --- */

static const struct small {
    const char *text;
    size_t executors;
    int64_t attempts;
    bool semaphore, depends, cancels;
} worlds[] = {
    { "b depends on a; one executor", 1, 3, false, true, false },
    { "a and b share a semaphore; two executors", 2, 2, true, false, false },
    { "b supersedes a while a runs; two executors", 2, 3, false, false, true },
    { "a and b may be tried once; one executor", 1, 1, false, false, false },
};
enum { WORLDS = sizeof worlds / sizeof *worlds };

static struct task_def def_of(struct world *w, const struct small *small, const char *name)
{
    struct task_def def = { .queue = STR("a"),
        .name = str_of(name),
        .kind = KIND_COMMAND,
        .body = STR("{}"),
        .attempts_max = small->attempts,
        .backoff_ms = 200,
        .retry_on = RETRY_LOST | RETRY_TEMPORARY | RETRY_KILLED,
        .path = STR("") };
    def.semaphores = ARENA_ARRAY(&w->arena, struct str, 1);
    def.refs = ARENA_ARRAY(&w->arena, struct task_ref, 1);
    if (small->semaphore)
        def.semaphores[def.n_semaphores++] = STR("one");
    return def;
}

/* The tasks of one call, or b in a call of its own when it is to find a at work. */
static void small_post(struct world *w, const struct small *small, bool second)
{
    struct command *command = command_new(w, CMD_ENQUEUE);
    struct call *call = &w->calls[w->n_calls];
    size_t n = small->cancels ? 1 : 2;
    struct task_def *defs = command->in.enqueue.defs = ARENA_ARRAY(&w->arena, struct task_def, n);
    command->in.enqueue.n_defs = n;
    if (!second)
        defs[0] = def_of(w, small, "a");
    if (n == 2 || second) {
        defs[n - 1] = def_of(w, small, "b");
        if (small->depends)
            defs[1].refs[defs[1].n_refs++] = (struct task_ref){ .kind = EDGE_DEPENDS };
        if (second)
            defs[0].refs[defs[0].n_refs++] = (struct task_ref){ .kind = EDGE_CANCELS, .id = w->known.accepted[0].id };
    }
    command->idempotency.key = str_fmt(&w->arena, "k%zu", w->n_calls);
    command->idempotency.route = STR("tasks");
    *call = (struct call){ .command = command, .sent = w->boot };
    command->owner = (void *)(intptr_t)(-1 - (int)w->n_calls++);
    struct command *copy = ARENA_NEW(&w->arena, struct command);
    *copy = *command;
    send_command(w, copy, (int)(intptr_t)command->owner);
}

/* --- one history --- */

static const char *told_path;
static struct world *running;

static void failed(struct world *w, const char *invariant, int64_t task)
{
    printf("VIOLATED %s (task %lld, at %lld ms): sim --small 1 %s\n", invariant, (long long)task,
        (long long)(w->boot - 1000000), told_path);
    fflush(stdout);
    _exit(3);
}

static void aborted(int signal)
{
    (void)signal;
    failed(running, "an assertion of the engine", 0);
}

static void history(const struct small *small, const unsigned *path, bool tracing, struct totals *totals)
{
    struct world *w = mem_alloc_zero(sizeof *w);
    *w = (struct world){
        .choices = { .dull = true }, .on_fail = failed, .n_servers = 1, .step_ms = STEP_MS, .job_ms = 5 * STEP_MS
    };
    running = w;
    alarm(60);
    world_open(w, tracing);
    w->n_executors = small->executors;
    for (size_t i = 0; i < w->n_executors; i++)
        w->executors[i] = (struct sim_executor){ .index = (int)i, .slots = 1, .seq = 1000 };
    small_post(w, small, false);
    for (size_t i = 0; i < STEPS; i++) {
        if (path[i])
            trace(w, "%s", faults[path[i]].text);
        faults[path[i]].happens(w);
        if (small->cancels && w->n_calls == 1 && w->known.n_accepted && i >= 5)
            small_post(w, small, true);
        world_step(w);
    }
    world_finish(w);
    alarm(0);
    totals->histories++;
    totals->turns += w->n_turns;
    totals->grants += w->n_grants;
    totals->crashes += w->n_crashes;
    totals->effective += w->n_effective;
    totals->why += w->n_why;
    world_close(w);
    mem_free(w);
}

/* The next path with at most `most` faults; false: that was the last. */
static bool path_next(unsigned *path, unsigned most)
{
    for (size_t i = STEPS; i-- > 0;) {
        unsigned used = 0;
        for (size_t k = 0; k < i; k++)
            used += path[k] > 0;
        if (path[i] + 1 < FAULTS && (path[i] > 0 || used < most)) {
            path[i]++;
            return true;
        }
        path[i] = 0;
    }
    return false;
}

static int history_again(const char *name)
{
    unsigned path[STEPS] = { 0 };
    struct totals totals = { 0 };
    size_t world = (size_t)(name[0] - '0');
    if (world >= WORLDS || strlen(name) < 2)
        return 2;
    for (size_t i = 0; i < STEPS && name[2 + i]; i++)
        for (unsigned k = 0; k < FAULTS; k++)
            if (faults[k].letter == name[2 + i])
                path[i] = k;
    told_path = name;
    history(&worlds[world], path, true, &totals);
    printf("all went well\n");
    return 0;
}

int small_worlds(unsigned most, const char *name)
{
    struct totals sum = { 0 };
    signal(SIGABRT, aborted);
    if (name)
        return history_again(name);
    for (size_t i = 0; i < WORLDS; i++) {
        unsigned path[STEPS] = { 0 };
        struct totals totals = { 0 };
        char text[STEPS + 8];
        do {
            int n = snprintf(text, sizeof text, "%zu:", i);
            for (size_t k = 0; k < STEPS; k++)
                text[n++] = faults[path[k]].letter;
            text[n] = '\0';
            told_path = text;
            history(&worlds[i], path, false, &totals);
        } while (path_next(path, most));
        printf("%-46s %8llu histories, %9llu turns, %8llu grants\n", worlds[i].text,
            (unsigned long long)totals.histories, (unsigned long long)totals.turns, (unsigned long long)totals.grants);
        sum.histories += totals.histories;
    }
    printf("all %llu histories of %d small worlds with at most %u faults in %d steps: nothing violated\n",
        (unsigned long long)sum.histories, WORLDS, most, STEPS);
    return 0;
}
