/* choice: everything random in a simulated history goes through here, so that a history is a list of numbers: it can be
 * replayed, and shrunk. */
#ifndef WEIR_SIM_CHOICE_H
#define WEIR_SIM_CHOICE_H

#include "base/rng.h"
#include <stdbool.h>
#include <stddef.h>

struct choices {
    struct rng rng;
    uint32_t *list; /* what was chosen, or what is to be chosen */
    size_t n, cap, next;
    bool replay;    /* past the end of the list: always 0 */
    size_t *starts; /* where the world's steps begin: the shrinker takes out whole ones */
    size_t n_starts, cap_starts;
    bool dull; /* always 0, and nothing is written down: small worlds have their own way to choose */
};

void choices_seed(struct choices *c, uint64_t seed);
void choices_replay(struct choices *c, const uint32_t *list, size_t n);
void choices_release(struct choices *c);
uint64_t choose(struct choices *c, uint64_t n); /* 0..n-1; 0 is the dull choice */
void choices_step(struct choices *c);
bool choices_spent(const struct choices *c); /* a replay that has come to the end of its list */
bool chance(struct choices *c, unsigned in_1000);

#endif
