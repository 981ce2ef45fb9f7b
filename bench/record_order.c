/* A Feistel network over the smallest even number of bits that holds n - 1; what falls outside is sent through again, which ends
 * because a permutation leads back inside, after fewer than four rounds on average. */
#include "bench/record_order.h"

#include "net/rand.h"

#define ROUNDS 4u

void record_order_init(struct record_order *o, uint64_t n, uint64_t seed)
{
    o->n = n;
    o->seed = rand_mix64(seed);
    o->half_bits = 1;
    while ((n - 1) >> (2 * o->half_bits) != 0)
        o->half_bits++;
}

static uint64_t permute(const struct record_order *o, uint64_t x)
{
    uint64_t mask = (1ull << o->half_bits) - 1, left = x >> o->half_bits, right = x & mask;

    for (unsigned r = 0; r < ROUNDS; r++) {
        uint64_t next = left ^ (rand_mix64(right ^ o->seed ^ ((uint64_t)r << 61)) & mask);
        left = right;
        right = next;
    }
    return (left << o->half_bits) | right;
}

uint64_t record_order_at(const struct record_order *o, uint64_t i)
{
    uint64_t x = i;
    do
        x = permute(o, x);
    while (x >= o->n);
    return x;
}
