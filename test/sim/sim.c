/* sim: histories of the engine on virtual time.
 *
 *   sim --seeds FIRST COUNT [JOBS]    runs COUNT histories in JOBS (2) processes; every 100th twice: both must be the
 * same sim --seed N [trace]              one of them again, told move by move sim --shrink N                    the
 * shortest history that fails as seed N does sim --small FAULTS [PATH]         every history of a few small worlds with
 * at most so many faults at any of their steps; PATH: one again sim --plants LIMIT [NAME...]      (planted twin) puts
 * each bug of base/plant.h in and looks for it in LIMIT seeds sim --plant NAME
 * ...              (planted twin) any of the above with that bug in
 *
 *   sim --servers ...                 any of the above but --small with two or three servers on one store; seeds are
 * others then
 *
 *   sim --quotas [--servers] ...      any of the above but --small with a tenant that has quotas, and with pruning;
 * seeds are others then
 *
 *   sim --changesets [--servers] ...  any of the above but --small with change sets; seeds are others then
 *
 *   sim --store URL DIR ...           --seed and --seeds on a real store: with --servers postgresql://..., where {seed}
 * is the history's number and its database empty; without, sqlite:. Data directories are made in DIR
 *
 * Exit status 1: something was violated, or a shape that 2000 histories must have had is missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/log.h"
#include "runs.h"

enum { JOBS_LIMIT = 16, BAD_MAX = 20, MARKS_NEED = 2000 };

struct worker {
    struct shared *shared;
    pid_t pid;
    uint64_t next;
};

static void worker_begin(struct worker *worker, uint64_t first, uint64_t step, uint64_t end)
{
    struct shared *shared = worker->shared;
    shared->verdict = (struct verdict_of_run){ 0 };
    fflush(stdout);
    worker->pid = fork();
    ASSERT(worker->pid >= 0);
    if (worker->pid)
        return;
    for (shared->at = first; shared->at < end; shared->at += step) {
        uint64_t hash = run_seed(shared->at, false, shared);
        if (shared->at % 100 != 0 || mode_store)
            continue;
        shared->totals.twice++;
        if (run_seed(shared->at, false, shared) == hash)
            continue;
        snprintf(shared->verdict.invariant, sizeof shared->verdict.invariant, "two runs of one seed differ");
        shared->verdict.failed = true;
        _exit(3);
    }
    fflush(stdout);
    _exit(0);
}

static void totals_add(struct totals *sum, const struct totals *one)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)one;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static unsigned totals_print(const struct totals *t, uint64_t count, uint64_t bad)
{
    unsigned missing = 0;
    printf("marks, in %llu histories:\n", (unsigned long long)t->histories);
    for (size_t i = 0; i < MARK_COUNT; i++) {
        if ((i >= MARK_ALONE_COUNT && i < MARK_SERVERS_COUNT && !mode_servers) ||
            (i >= MARK_SERVERS_COUNT && i < MARK_QUOTAS_COUNT && !mode_quotas) ||
            (i >= MARK_QUOTAS_COUNT && !mode_changesets))
            continue;
        /* quotas are counted by wide turns */
        if (mode_quotas && (i == MARK_beside || i == MARK_narrow || i == MARK_widened))
            continue;
        printf("  %10llu  %-24s %s%s\n", (unsigned long long)t->marks[i], mark_names[i], mark_texts[i],
            t->marks[i] ? "" : "   <- never");
        /* no backups, no flat worlds, and who submits a change set is a person */
        bool backups = i == MARK_restored || i == MARK_restored_live || i == MARK_stale_incarnation;
        bool without = backups || i == MARK_passed_over || i == MARK_cause_depth;
        missing += !t->marks[i] && !(mode_changesets && without);
    }
    printf("turns %llu, commands %llu, tasks %llu, grants %llu, effective completions %llu (late %llu), server crashes "
           "%llu, messages lost "
           "%llu\n",
        (unsigned long long)t->turns, (unsigned long long)t->commands, (unsigned long long)t->tasks,
        (unsigned long long)t->grants, (unsigned long long)t->effective, (unsigned long long)t->late,
        (unsigned long long)t->crashes, (unsigned long long)t->lost);
    printf("why: %llu explanations, %llu conditions lifted one by one; %llu seeds run twice, the same\n",
        (unsigned long long)t->why, (unsigned long long)t->why_conditions, (unsigned long long)t->twice);
    printf("%llu histories, %llu violated, %u shapes missing\n", (unsigned long long)count, (unsigned long long)bad,
        missing);
    return missing;
}

static int seeds_run(uint64_t first, uint64_t count, uint64_t jobs)
{
    struct worker workers[JOBS_LIMIT] = { 0 };
    uint64_t bad = 0, out = 0;
    if (jobs < 1)
        jobs = 1;
    if (jobs > JOBS_LIMIT)
        jobs = JOBS_LIMIT;
    for (uint64_t i = 0; i < jobs; i++, out++) {
        workers[i].shared = shared_new();
        worker_begin(&workers[i], first + i, jobs, first + count);
    }
    while (out > 0) {
        int status = 0;
        pid_t pid = wait(&status);
        struct worker *worker = workers;
        while (worker < workers + jobs && worker->pid != pid)
            worker++;
        if (worker == workers + jobs)
            continue;
        struct shared *shared = worker->shared;
        if (!child_failed(status, shared)) {
            out--;
            continue;
        }
        printf("seed %llu failed: %s\n", (unsigned long long)shared->at, shared->verdict.invariant);
        if (++bad < BAD_MAX)
            worker_begin(worker, shared->at + jobs, jobs, first + count);
        else
            out--;
    }
    struct totals sum = { 0 };
    for (uint64_t i = 0; i < jobs; i++) {
        totals_add(&sum, &workers[i].shared->totals);
        shared_free(workers[i].shared);
    }
    unsigned missing = totals_print(&sum, count, bad);
    return bad > 0 || (count >= MARKS_NEED && missing > 0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_set_level(LOG_ERROR_); /* servers with other limits than the stored ones say so each time */
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "--plant") == 0) {
        if (!plant_select(argv[2])) {
            fprintf(stderr, "sim: no planted bug is named '%s' here\n", argv[2]);
            return 2;
        }
        at = 3;
    }
    if (argc > at && strcmp(argv[at], "--quotas") == 0) {
        mode_quotas = true;
        at++;
    }
    if (argc > at && strcmp(argv[at], "--changesets") == 0) {
        mode_changesets = true;
        at++;
    }
    if (argc > at && strcmp(argv[at], "--servers") == 0) {
        mode_servers = true;
        at++;
    }
    if (argc > at + 2 && strcmp(argv[at], "--store") == 0) {
        mode_store = argv[at + 1];
        mode_store_dir = argv[at + 2];
        at += 3;
    }
    const char *mode = argc > at ? argv[at] : "--seeds";
    uint64_t number = argc > at + 1 ? strtoull(argv[at + 1], NULL, 10) : 1;
    if (strcmp(mode, "--seed") == 0) {
        struct shared *shared = shared_new();
        run_seed(number, argc > at + 2, shared);
        shared_free(shared);
        return 0;
    }
    if (strcmp(mode, "--shrink") == 0)
        return shrink(number);
    if (strcmp(mode, "--small") == 0)
        return small_worlds((unsigned)number, argc > at + 2 ? argv[at + 2] : NULL);
    if (strcmp(mode, "--plants") == 0)
        return plants_run(number, argv + at + 2, argc > at + 2 ? argc - at - 2 : 0);
    if (strcmp(mode, "--seeds") == 0)
        return seeds_run(number, argc > at + 2 ? strtoull(argv[at + 2], NULL, 10) : 1000,
            argc > at + 3 ? strtoull(argv[at + 3], NULL, 10) : 2);
    fprintf(stderr, "usage: sim [--plant NAME] [--quotas] [--changesets] [--servers] [--store URL DIR] --seeds FIRST "
                    "COUNT [JOBS] | "
                    "--seed N [trace] | "
                    "--shrink N | --plants LIMIT [NAME...] | "
                    "--small FAULTS [PATH]\n");
    return 2;
}
