/* sim [--seeds FIRST COUNT | --seed N [trace]]: runs histories in a child process, so that an assertion of the engine counts too.
 *
 * Prints the seed and the invariant of each violated history and a summary; exit status 1 when there was one. One seed is one history: --seed N
 * replays it, with `trace` it is told move by move. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

struct totals { uint64_t turns, commands, crashes, lost, grants, tasks; };

static void run_here(struct choices *choices, bool tracing, struct totals *totals)
{
    struct world *w = mem_alloc(sizeof *w);
    *w = (struct world){ .choices = *choices };
    world_open(w, tracing);
    world_run(w);
    totals->turns += w->n_turns;
    totals->commands += w->n_commands;
    totals->crashes += w->n_crashes;
    totals->lost += w->n_lost;
    totals->grants += w->n_grants;
    totals->tasks += w->store->tasks.n;
    world_close(w);
    mem_free(w);
}

static void run_seed(uint64_t seed, bool tracing, struct totals *totals)
{
    struct choices choices;
    choices_seed(&choices, seed);
    run_here(&choices, tracing, totals);
}

/* Runs seeds in one child until one fails; returns how many were done. The last seed under way is in shared memory. */
static int run_range(uint64_t first, uint64_t count, struct totals *totals, uint64_t *at)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (*at = first; *at < first + count; (*at)++) run_seed(*at, false, totals);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    struct totals *totals = mmap(NULL, sizeof *totals + sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t *at = (uint64_t *)(totals + 1), first = 1, count = 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc >= 3 && strcmp(argv[1], "--seed") == 0) {
        run_seed(strtoull(argv[2], NULL, 10), argc > 3, totals);
        return 0;
    }
    if (argc >= 4 && strcmp(argv[1], "--seeds") == 0) {
        first = strtoull(argv[2], NULL, 10);
        count = strtoull(argv[3], NULL, 10);
    }
    uint64_t bad = 0;
    for (uint64_t seed = first; seed < first + count && bad < 20;) {
        int status = run_range(seed, first + count - seed, totals, at);
        if (status == 0) break;
        printf("seed %llu failed (status %d)\n", (unsigned long long)*at, status);
        bad++;
        seed = *at + 1;
    }
    printf("%llu histories, %llu violated; turns %llu, commands %llu, grants %llu, tasks %llu, server crashes %llu, messages lost %llu\n", (unsigned long long)count,
           (unsigned long long)bad, (unsigned long long)totals->turns, (unsigned long long)totals->commands, (unsigned long long)totals->grants,
           (unsigned long long)totals->tasks, (unsigned long long)totals->crashes, (unsigned long long)totals->lost);
    return bad > 0;
}
