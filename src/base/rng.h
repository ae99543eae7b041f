/* rng: numbers that a seed determines (xoshiro256**), for simulation, jitter and tests; never for secrets. */
#ifndef WEIR_BASE_RNG_H
#define WEIR_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};
void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_u64(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t n); /* uniform in 0..n-1, n > 0 */

#endif
