#include "choice.h"

#include <string.h>

#include "base/arena.h"

void choices_seed(struct choices *c, uint64_t seed)
{
    *c = (struct choices){ 0 };
    rng_seed(&c->rng, seed);
}

void choices_replay(struct choices *c, const uint32_t *list, size_t n)
{
    *c = (struct choices){ .replay = true, .n = n };
    c->list = mem_alloc((n + 1) * sizeof *c->list);
    if (n)
        memcpy(c->list, list, n * sizeof *list);
}

void choices_release(struct choices *c)
{
    mem_free(c->list);
    mem_free(c->starts);
    c->list = NULL;
    c->starts = NULL;
}

uint64_t choose(struct choices *c, uint64_t n)
{
    if (c->dull)
        return 0;
    if (c->replay && c->next >= c->n)
        return 0;
    if (c->replay)
        return c->list[c->next++] % n;
    uint64_t chosen = rng_below(&c->rng, n);
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 4096;
        c->list = mem_realloc(c->list, c->cap * sizeof *c->list);
    }
    c->list[c->n++] = (uint32_t)chosen;
    return chosen;
}

void choices_step(struct choices *c)
{
    if (c->n_starts == c->cap_starts) {
        c->cap_starts = c->cap_starts ? c->cap_starts * 2 : 1024;
        c->starts = mem_realloc(c->starts, c->cap_starts * sizeof *c->starts);
    }
    c->starts[c->n_starts++] = c->replay ? c->next : c->n;
}

bool choices_spent(const struct choices *c)
{
    return c->replay && c->next >= c->n;
}

bool chance(struct choices *c, unsigned in_1000)
{
    return in_1000 > 0 && choose(c, 1000) >= 1000 - in_1000;
}
