/* rng: xoshiro256** by Blackman and Vigna (public domain), seeded through splitmix64 as they advise.
 *
 * Promises the same numbers for the same seed on every machine. Can't fail. */
#include "base/rng.h"

#include "base/err.h"

__extension__ typedef unsigned __int128 u128;

static uint64_t rotl(uint64_t x, unsigned k)
{
    return (x << k) | (x >> (64 - k));
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->s[i] = z ^ (z >> 31);
    }
}

uint64_t rng_u64(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* Lemire's multiplication: a division only in the rare case that could be biased. */
uint64_t rng_below(struct rng *rng, uint64_t n)
{
    ASSERT(n > 0);
    u128 product = (u128)rng_u64(rng) * n;
    if ((uint64_t)product < n) {
        uint64_t floor = (0 - n) % n;
        while ((uint64_t)product < floor) {
            product = (u128)rng_u64(rng) * n;
        }
    }
    return (uint64_t)(product >> 64);
}
