/* Every look at a clock, replaceable in tests.  Nothing else in the project calls clock_gettime, time or gettimeofday.
 * Any thread. */
#ifndef DFS_NET_CLOCK_H
#define DFS_NET_CLOCK_H

#include <stdint.h>

struct clock_ops {
    uint64_t (*wall_ns)(void *arg);
    uint64_t (*mono_ns)(void *arg);
    void (*sleep_ms)(void *arg, uint64_t ms);
    void *arg;
};

/* Unix time. */
uint64_t clock_wall_ns(void);
uint64_t clock_wall_s(void);

/* Never goes back; the zero point means nothing. */
uint64_t clock_mono_ns(void);
uint64_t clock_mono_ms(void);

/* CPU time of the calling thread, never replaced; costs a system call. */
uint64_t clock_thread_cpu_ns(void);

/* Blocks the calling thread.  Never on a loop thread. */
void clock_sleep_ms(uint64_t ms);

/* Replace the clock (tests only, before any thread starts); NULL puts the real one back. */
void clock_set_ops(const struct clock_ops *ops);

#endif
