#include "runs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MAX = 30 };

bool mode_servers, mode_quotas, mode_changesets;
const char *mode_store, *mode_store_dir;
uint64_t mode_seed;

static struct shared *told; /* of this process: where a violation is written down */

struct shared *shared_new(void)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(shared != MAP_FAILED);
    return shared;
}

void shared_free(struct shared *shared)
{
    munmap(shared, sizeof *shared);
}

static void failed(struct world *w, const char *invariant, int64_t task)
{
    struct verdict_of_run *verdict = &told->verdict;
    const struct choices *c = &w->choices;
    snprintf(verdict->invariant, sizeof verdict->invariant, "%s", invariant);
    verdict->n = c->replay ? c->next : c->n;
    if (verdict->n > CHOICES_MAX)
        verdict->n = CHOICES_MAX;
    memcpy(told->list, c->list, verdict->n * sizeof *c->list);
    verdict->n_starts = c->n_starts < STEPS_MAX ? c->n_starts : STEPS_MAX;
    memcpy(told->starts, c->starts, verdict->n_starts * sizeof *c->starts);
    verdict->failed = true;
    printf("VIOLATED %s (task %lld, at %lld ms, turn %llu)\n", invariant, (long long)task,
        (long long)(w->boot - 1000000), (unsigned long long)w->n_turns);
    fflush(stdout);
    _exit(3);
}

static struct world *running;

/* An assertion of the engine or of the store is a violation like any other: its choices are kept, so that it can be
 * shrunk. */
static void aborted(int signal)
{
    (void)signal;
    failed(running, "an assertion of the engine", 0);
}

static void differs(const char *what)
{
    char text[NAME_MAX_LEN];
    snprintf(text, sizeof text, "the store says something else than was committed: %s", what);
    world_fail(running, text, 0);
}

uint64_t run_here(struct choices *choices, bool tracing, struct shared *shared)
{
    struct world *w = mem_alloc(sizeof *w);
    *w = (struct world){ .choices = *choices,
        .on_fail = failed,
        .n_servers = mode_servers ? 2 : 1,
        .quotas = mode_quotas,
        .changesets = mode_changesets,
        .real = mode_store != NULL };
    told = shared;
    running = w;
    signal(SIGABRT, aborted);
    memstore_differs = differs;
    alarm(mode_store ? 10 * SECONDS_MAX : SECONDS_MAX);
    world_open(w, tracing);
    world_run(w);
    alarm(0);
    struct totals *t = &shared->totals;
    t->histories++;
    t->turns += w->n_turns;
    t->commands += w->n_commands;
    t->crashes += w->n_crashes;
    t->lost += w->n_lost;
    t->grants += w->n_grants;
    t->effective += w->n_effective;
    t->late += w->n_late;
    t->tasks += w->store->tasks.n;
    t->why += w->n_why;
    t->why_conditions += w->n_why_conditions;
    for (size_t i = 0; i < MARK_COUNT; i++)
        t->marks[i] += w->marks[i];
    uint64_t hash = w->hash;
    world_close(w);
    mem_free(w);
    return hash;
}

uint64_t run_seed(uint64_t seed, bool tracing, struct shared *shared)
{
    struct choices choices;
    choices_seed(&choices, seed);
    mode_seed = seed;
    return run_here(&choices, tracing, shared);
}

bool child_failed(int status, struct shared *shared)
{
    struct verdict_of_run *verdict = &shared->verdict;
    if (verdict->failed)
        return true;
    if (status == 0)
        return false;
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    snprintf(verdict->invariant, sizeof verdict->invariant, "%s",
        signal == SIGABRT   ? "an assertion of the engine"
        : signal == SIGALRM ? "a history without an end"
                            : "the process died");
    return true;
}

void child_quiet(void)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, 1);
    dup2(null, 2);
}

bool run_list(const uint32_t *list, size_t n, bool tracing, struct shared *shared)
{
    shared->verdict = (struct verdict_of_run){ 0 };
    fflush(stdout);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        if (!tracing)
            child_quiet();
        struct choices choices;
        choices_replay(&choices, list, n);
        run_here(&choices, tracing, shared);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return child_failed(status, shared);
}
