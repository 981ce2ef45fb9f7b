/* Randomness: libsodium behind one door, seedable in tests.  Any thread. */
#ifndef DFS_NET_RAND_H
#define DFS_NET_RAND_H

#include <stddef.h>
#include <stdint.h>

/* Once, before any thread starts.  0 or DFS_EUNAVAILABLE. */
int rand_init(void);

/* Cannot fail once rand_init() has worked.  Any thread. */
void rand_bytes(void *p, size_t n);
uint32_t rand_u32(void);
uint64_t rand_u64(void);

/* Uniform in [0, n), n > 0. */
uint32_t rand_below(uint32_t n);

/* splitmix64 of x: every bit of the result hangs on every bit of x, and no two x give the same.  Not random: for what must be the
 * same on every run.  Pure. */
static inline uint64_t rand_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* From now on deterministic, for tests. */
void rand_seed_for_tests(uint64_t seed);

#endif
