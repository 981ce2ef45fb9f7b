/* The one place that asks the kernel for the time; tests put their own table here. */
#include "net/clock.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "needle/check.h"

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

static uint64_t read_clock_ns(clockid_t id)
{
    struct timespec ts;
    CHECK(clock_gettime(id, &ts) == 0);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void real_sleep_ms(uint64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * NS_PER_MS)};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

/* Members that are NULL mean the real clock, so that the usual case costs one predicted branch and no indirect call. */
static struct clock_ops ops;

uint64_t clock_wall_ns(void)
{
    return __builtin_expect(ops.wall_ns == NULL, 1) ? read_clock_ns(CLOCK_REALTIME) : ops.wall_ns(ops.arg);
}

uint64_t clock_wall_s(void)
{
    return clock_wall_ns() / NS_PER_S;
}

uint64_t clock_mono_ns(void)
{
    return __builtin_expect(ops.mono_ns == NULL, 1) ? read_clock_ns(CLOCK_MONOTONIC) : ops.mono_ns(ops.arg);
}

uint64_t clock_mono_ms(void)
{
    return clock_mono_ns() / NS_PER_MS;
}

uint64_t clock_thread_cpu_ns(void)
{
    return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void clock_sleep_ms(uint64_t ms)
{
    if (ops.sleep_ms != NULL)
        ops.sleep_ms(ops.arg, ms);
    else
        real_sleep_ms(ms);
}

void clock_set_ops(const struct clock_ops *replacement)
{
    ops = replacement != NULL ? *replacement : (struct clock_ops){0};
}
