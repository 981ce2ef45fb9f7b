/* libsodium's generator behind a small buffer per thread, so that a cookie does not cost a system call. */
#include "net/rand.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"

#define BUFFER_BYTES 512u

/* Bytes [used, BUFFER_BYTES) have not been given out; what was is wiped, so that a later look at memory tells nothing.
 * No process of ours forks once it has begun to serve, so two processes never share a buffer. */
struct rand_buffer {
    size_t used;
    unsigned char bytes[BUFFER_BYTES];
};
static __thread struct rand_buffer buffer = {.used = BUFFER_BYTES};

static bool seeded;
static uint64_t seeded_state;

int rand_init(void)
{
    return sodium_init() == -1 ? DFS_EUNAVAILABLE : 0;
}

/* splitmix64: one atomic step per call, so threads may share it. */
static uint64_t seeded_next(void)
{
    return rand_mix64(__atomic_fetch_add(&seeded_state, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED));
}

static void seeded_bytes(unsigned char *p, size_t n)
{
    while (n > 0) {
        uint64_t v = seeded_next();
        size_t part = n < sizeof v ? n : sizeof v;
        memcpy(p, &v, part);
        p += part;
        n -= part;
    }
}

void rand_bytes(void *p, size_t n)
{
    if (__builtin_expect(seeded, 0)) {
        seeded_bytes(p, n);
        return;
    }
    if (n > BUFFER_BYTES / 2) {
        randombytes_buf(p, n);
        return;
    }
    if (BUFFER_BYTES - buffer.used < n) {
        randombytes_buf(buffer.bytes, sizeof buffer.bytes);
        buffer.used = 0;
    }
    memcpy(p, buffer.bytes + buffer.used, n);
    sodium_memzero(buffer.bytes + buffer.used, n);
    buffer.used += n;
}

uint32_t rand_u32(void)
{
    uint32_t v;
    rand_bytes(&v, sizeof v);
    return v;
}

uint64_t rand_u64(void)
{
    uint64_t v;
    rand_bytes(&v, sizeof v);
    return v;
}

uint32_t rand_below(uint32_t n)
{
    CHECK(n > 0);
    /* Lemire: the high half of a 32x32 product; low halves below 2^32 mod n would favour some results. */
    uint64_t product = (uint64_t)rand_u32() * n;
    if ((uint32_t)product < n) {
        uint32_t unfair = -n % n;
        while ((uint32_t)product < unfair)
            product = (uint64_t)rand_u32() * n;
    }
    return (uint32_t)(product >> 32);
}

void rand_seed_for_tests(uint64_t seed)
{
    seeded_state = seed;
    seeded = true;
}
