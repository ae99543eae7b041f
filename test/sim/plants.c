/* plants: the checker's own test. Each bug of base/plant.h is put in, alone, and has to be found. Only the simulator's
 * planted twin has them. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runs.h"

static const struct { const char *name, *text; } plants[PLANT_changesets_end] = {
#define X(name, text) [PLANT_##name] = { #name, text },
    PLANTS(X) PLANTS_SEVERAL(X) PLANTS_QUOTAS(X) PLANTS_CHANGESETS(X)
#undef X
};

#ifdef WEIR_PLANTED
enum plant plant_selected;

bool plant_select(const char *name)
{
    for (int i = 1; i < PLANT_changesets_end; i++)
        if (plants[i].name && strcmp(plants[i].name, name) == 0)
            plant_selected = (enum plant)i;
    return plant_selected != PLANT_none;
}

struct search {
    enum plant plant;
    struct shared *shared;
    pid_t pid;
};

static void search_begin(struct search *search, enum plant plant, uint64_t limit)
{
    *search = (struct search){ .plant = plant, .shared = shared_new() };
    fflush(stdout);
    search->pid = fork();
    ASSERT(search->pid >= 0);
    if (search->pid)
        return;
    child_quiet();
    plant_selected = plant;
    for (search->shared->at = 1; search->shared->at <= limit; search->shared->at++)
        run_seed(search->shared->at, false, search->shared);
    _exit(0);
}

static bool search_end(struct search *search, int status)
{
    bool found = child_failed(status, search->shared);
    const char *name = plants[search->plant].name;
    if (found)
        printf(
            "%-20s seed %5llu   %s\n", name, (unsigned long long)search->shared->at, search->shared->verdict.invariant);
    else
        printf("%-20s NOT FOUND    %s\n", name, plants[search->plant].text);
    shared_free(search->shared);
    *search = (struct search){ 0 };
    return found;
}

static bool wanted(enum plant plant, char **names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], plants[plant].name) == 0)
            return true;
    return n == 0;
}

int plants_run(uint64_t limit, char **names, int n_names)
{
    struct search running[2] = { 0 };
    unsigned found = 0, all = 0, out = 0;
    int first = PLANT_none, last = PLANT_COUNT;
    if (mode_changesets)
        first = PLANT_changesets, last = PLANT_changesets_end;
    else if (mode_quotas)
        first = PLANT_quotas, last = PLANT_quotas_end;
    else if (mode_servers)
        first = PLANT_several, last = PLANT_several_end;
    for (int next = first + 1; next < last || out > 0;) {
        while (next < last && !wanted((enum plant)next, names, n_names))
            next++;
        struct search *idle = !running[0].pid ? &running[0] : !running[1].pid ? &running[1] : NULL;
        if (idle && next < last) {
            search_begin(idle, (enum plant)next++, limit);
            all++;
            out++;
            continue;
        }
        if (out == 0)
            break;
        int status = 0;
        pid_t pid = wait(&status);
        struct search *over = running[0].pid == pid ? &running[0] : &running[1];
        found += search_end(over, status);
        out--;
    }
    printf("%u of %u planted bugs found within %llu seeds each\n", found, all, (unsigned long long)limit);
    return found == all && all > 0 ? 0 : 1;
}
#else
bool plant_select(const char *name)
{
    (void)name, (void)plants;
    return false;
}

int plants_run(uint64_t limit, char **names, int n_names)
{
    (void)limit, (void)names, (void)n_names;
    printf("this simulator has no planted bugs in it: use sim-planted\n");
    return 2;
}
#endif
