/* Shares and rates. */
#include "bench/live.h"

#include "net/clock.h"

void live_begin(struct live *l, const char *what, double seconds, uint64_t count)
{
    *l = (struct live){.what = what, .seconds = seconds, .count = count, .steps = 1, .begun_ns = clock_mono_ns()};
    progress_init(&l->bar, stderr);
}

void live_step(struct live *l, uint32_t step, uint32_t steps, const char *what, double seconds, uint64_t count)
{
    l->step = step;
    l->steps = steps;
    l->what = what;
    l->seconds = seconds;
    l->count = count;
    l->completed = l->failed = 0;
}

/* Whichever limit is nearer; negative without one. */
static double share_of(const struct live *l, double at_s)
{
    double share = l->seconds > 0 ? at_s / l->seconds : -1, by_count = -1;

    if (l->count > 0)
        by_count = (double)(l->completed + l->failed) / (double)l->count;
    if (by_count > share)
        share = by_count;
    if (share < 0)
        return l->steps > 1 ? (double)l->step / l->steps : -1;
    return (l->step + (share < 1 ? share : 1)) / l->steps;
}

void live_second(void *arg, const struct load_second *s)
{
    struct live *l = arg;
    struct progress_state state = {.what = l->what, .bytes_per_s = -1};
    uint64_t right = s->finished - s->failed;

    l->completed += right;
    l->failed += s->failed;
    state.share = share_of(l, s->at_s);
    state.elapsed_s = (double)(clock_mono_ns() - l->begun_ns) / 1e9;
    state.completed = l->completed;
    state.failed = l->failed;
    state.requests_per_s = s->seconds > 0 ? (double)right / s->seconds : -1;
    if (s->bytes > 0 && s->seconds > 0)
        state.bytes_per_s = (double)s->bytes / s->seconds;
    progress_draw(&l->bar, &state);
}

void live_clear(struct live *l)
{
    progress_clear(&l->bar);
}
