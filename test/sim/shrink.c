/* shrink: from a seed that fails to the shortest list of choices that fails by the same invariant. Whole steps are
 * taken out first, then single choices are made dull (0) or smaller. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runs.h"

enum { SHRINK_SECONDS = 30 };

struct shrinker {
    struct shared *shared;
    uint32_t *list, *trial;
    size_t n;
    size_t *starts;
    size_t n_starts;
    char invariant[NAME_MAX_LEN];
    unsigned tries, good;
    time_t until;
};

/* What the last failing run used becomes the list to go on from. */
static void adopt(struct shrinker *s)
{
    s->n = s->shared->verdict.n;
    memcpy(s->list, s->shared->list, s->n * sizeof *s->list);
    s->n_starts = s->shared->verdict.n_starts;
    memcpy(s->starts, s->shared->starts, s->n_starts * sizeof *s->starts);
}

static bool attempt(struct shrinker *s, size_t n)
{
    s->tries++;
    if (!run_list(s->trial, n, false, s->shared) || strcmp(s->shared->verdict.invariant, s->invariant) != 0)
        return false;
    if (!s->shared->verdict.failed) { /* died without a word: nothing is known but that the list does it */
        memcpy(s->list, s->trial, n * sizeof *s->list);
        s->n = n;
    } else {
        adopt(s);
    }
    s->good++;
    return true;
}

static bool time_left(const struct shrinker *s)
{
    return time(NULL) < s->until;
}

static bool steps_delete(struct shrinker *s)
{
    bool shorter = false;
    for (size_t chunk = s->n_starts / 2; chunk > 0 && time_left(s); chunk /= 2) {
        for (size_t i = 0; i < s->n_starts && time_left(s);) {
            size_t from = s->starts[i], to = i + chunk < s->n_starts ? s->starts[i + chunk] : s->n;
            if (from >= s->n || from >= to)
                break;
            memcpy(s->trial, s->list, from * sizeof *s->trial);
            memcpy(s->trial + from, s->list + to, (s->n - to) * sizeof *s->trial);
            if (attempt(s, s->n - (to - from)))
                shorter = true;
            else
                i += chunk;
        }
    }
    return shorter;
}

static bool choices_lower(struct shrinker *s)
{
    bool lower = false;
    for (size_t chunk = 64; chunk > 0 && time_left(s); chunk /= 8) {
        for (size_t i = 0; i < s->n && time_left(s); i += chunk) {
            size_t to = i + chunk < s->n ? i + chunk : s->n;
            bool any = false;
            for (size_t k = i; k < to; k++)
                any |= s->list[k] != 0;
            if (!any)
                continue;
            memcpy(s->trial, s->list, s->n * sizeof *s->trial);
            memset(s->trial + i, 0, (to - i) * sizeof *s->trial);
            if (attempt(s, s->n))
                lower = true;
        }
    }
    return lower;
}

int shrink(uint64_t seed)
{
    struct shrinker s = { .shared = shared_new(), .until = time(NULL) + SHRINK_SECONDS };
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        child_quiet();
        run_seed(seed, false, s.shared);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!child_failed(status, s.shared) || !s.shared->verdict.failed) {
        printf(status ? "seed %llu: %s; without its choices it can't be shrunk\n" : "seed %llu does not fail%s\n",
            (unsigned long long)seed, status ? s.shared->verdict.invariant : "");
        shared_free(s.shared);
        return status ? 1 : 0;
    }
    memcpy(s.invariant, s.shared->verdict.invariant, sizeof s.invariant);
    s.list = mem_alloc(CHOICES_MAX * sizeof *s.list);
    s.trial = mem_alloc(CHOICES_MAX * sizeof *s.trial);
    s.starts = mem_alloc(STEPS_MAX * sizeof *s.starts);
    adopt(&s);
    size_t from = s.n, from_steps = s.n_starts;
    for (bool smaller = true; smaller && time_left(&s);) {
        smaller = steps_delete(&s);
        smaller = choices_lower(&s) || smaller;
    }
    printf("seed %llu, %s: %zu choices in %zu steps became %zu in %zu (%u of %u tries were good)\n",
        (unsigned long long)seed, s.invariant, from, from_steps, s.n, s.n_starts, s.good, s.tries);
    memcpy(s.trial, s.list, s.n * sizeof *s.trial);
    run_list(s.trial, s.n, true, s.shared);
    mem_free(s.list);
    mem_free(s.trial);
    mem_free(s.starts);
    shared_free(s.shared);
    return 1;
}
