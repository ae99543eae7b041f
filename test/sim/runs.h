/* runs: histories in child processes, so that an assertion of the engine, a crash or an endless loop counts as a
 * violation too. */
#ifndef WEIR_SIM_RUNS_H
#define WEIR_SIM_RUNS_H

#include "world.h"

enum { CHOICES_MAX = 1 << 22, STEPS_MAX = 1 << 20, NAME_MAX_LEN = 120 };

struct totals {
    uint64_t histories, turns, commands, crashes, lost, grants, effective, late, tasks, why, why_conditions, twice,
        marks[MARK_COUNT];
};

struct verdict_of_run { /* shared with the child */
    bool failed;
    char invariant[NAME_MAX_LEN];
    uint64_t hash;
    size_t n, n_starts; /* of the choices up to the violation */
};

struct shared {
    struct totals totals;
    uint64_t at; /* the seed under way */
    struct verdict_of_run verdict;
    uint32_t list[CHOICES_MAX];
    size_t starts[STEPS_MAX];
};

extern bool mode_servers;                       /* worlds have several servers */
extern bool mode_quotas;                        /* worlds have a tenant with quotas, and pruning */
extern bool mode_changesets;                    /* change sets are submitted */
extern const char *mode_store, *mode_store_dir; /* URL of a real store and a folder for data directories; NULL: none */
extern uint64_t mode_seed;                      /* the history under way */

struct shared *shared_new(void);
void shared_free(struct shared *shared);

/* run_here: one history in this process; returns the hash of its store. On a violation the name is put into *shared and
 * the process exits.
 */
uint64_t run_here(struct choices *choices, bool tracing, struct shared *shared);

/* run_seed: the same for a seed. */
uint64_t run_seed(uint64_t seed, bool tracing, struct shared *shared);

/* run_list: a list of choices in a child; true: it failed, the name is in shared->verdict, the choices used in
 * shared->list. quiet: nothing is printed. */
bool run_list(const uint32_t *list, size_t n, bool tracing, struct shared *shared);

/* child_failed: what a child's status says when it left no name. */
bool child_failed(int status, struct shared *shared);
void child_quiet(void);

bool plant_select(const char *name); /* false: there is none of that name in this build */
int shrink(uint64_t seed);
int small_worlds(unsigned faults, const char *path); /* small.c; path: one history again, told move by move */
int plants_run(uint64_t limit, char **names, int n_names);

#endif
