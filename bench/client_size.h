/* How large a load client is made: threads, open files, connections.  Main thread. */
#ifndef DFS_BENCH_CLIENT_SIZE_H
#define DFS_BENCH_CLIENT_SIZE_H

#include <stdint.h>

#define CLIENT_LOOPS_MAX 64u
/* Above this share of its core the busiest client thread is taken for the limit of what was measured. */
#define CLIENT_BUSY 0.9

/* Of this machine, that are on line; at least 1. */
uint32_t client_cores(void);

/* Loop threads for so many slots.  asked: 0 = half as many as cores, 1 to 4. */
uint32_t client_loops(uint32_t asked, uint32_t slots);

/* Raises the limit of open files for `slots` requests at once, and returns how many connections to one address it leaves them;
 * 0: too few, then *least and *limit say what was needed and what there is. */
uint64_t client_connections(uint32_t slots, uint64_t *least, uint64_t *limit);

#endif
