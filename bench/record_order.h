/* The order in which a random pattern visits records: a permutation of 0 .. n - 1, made from a seed, without a list.
 *
 * So a pass covers every record exactly once, as fio does with its map of what it has touched, and needs no memory for it.  Pure;
 * any thread. */
#ifndef DFS_BENCH_RECORD_ORDER_H
#define DFS_BENCH_RECORD_ORDER_H

#include <stdint.h>

struct record_order {
    uint64_t n, seed;
    unsigned half_bits;
};

/* n: 1 .. 2^60. */
void record_order_init(struct record_order *o, uint64_t n, uint64_t seed);

/* Which record is the i-th, i < n. */
uint64_t record_order_at(const struct record_order *o, uint64_t i);

#endif
