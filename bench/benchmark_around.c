/* What stands around a run of plain `dfs benchmark`: the servers, and the figures that every report of this program has.  On
 * standard error: standard output is that of `weed benchmark`, line by line. */
#include <inttypes.h>
#include <stdio.h>

#include "bench/benchmark_run.h"
#include "bench/client_size.h"

#define MIB 1048576.0

void bench_around_begin(struct bench_run *run)
{
    surroundings_begin(&run->around, run->o->server, run->o->use_public_url);
}

void bench_around_end(struct bench_run *run)
{
    const struct surroundings *s = &run->around;
    struct run_resources *res = &run->resources;

    surroundings_end(&run->around, run->o->idle_wait_ms);
    res->server_disk_read_bytes = s->disk_read_bytes;
    res->server_sent_bytes = s->sent_bytes;
    res->dirty_bytes = s->dirty_bytes;
    res->idle_s = s->idle_s;
    res->cpu_user_s = res->cpu_system_s = res->client_cpu_share = 0;
    for (uint32_t i = 0; i < run->outcome_count; i++) {
        const struct bench_outcome *o = &run->outcomes[i];
        res->cpu_user_s += o->user_s;
        res->cpu_system_s += o->system_s;
        if (o->busiest_loop > res->client_cpu_share)
            res->client_cpu_share = o->busiest_loop;
    }
}

/* ---- how even it was ---- */

static double rate(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

/* Mean rate of seconds [from, to). */
static double mean_rate(const struct bench_outcome *o, size_t from, size_t to)
{
    double seconds = 0;
    uint64_t completed = 0;

    for (size_t i = from; i < to; i++) {
        seconds += o->series[i].seconds;
        completed += o->series[i].completed;
    }
    return rate(completed, seconds);
}

struct run_steadiness bench_steadiness(const struct bench_outcome *o)
{
    struct run_steadiness s = {.median = RUN_UNKNOWN, .worst = RUN_UNKNOWN, .last_to_first = RUN_UNKNOWN};
    size_t third = o->series_n / 3;
    double first = mean_rate(o, 0, third);

    for (size_t i = 0; i < o->series_n; i++) {
        double r = rate(o->series[i].completed, o->series[i].seconds);
        if (i == 0 || r < s.worst)
            s.worst = r;
        s.seconds_at_zero += o->series[i].completed == 0;
    }
    if (third > 0 && first > 0)
        s.last_to_first = mean_rate(o, o->series_n - third, o->series_n) / first;
    return s;
}

/* ---- lines ---- */

static void print_steadiness(FILE *out, const struct bench_outcome *o)
{
    struct run_steadiness s = bench_steadiness(o);

    fprintf(out, "%s: ", o->result.phase == REPORT_WRITE ? "write" : "read");
    if (s.worst < 0) {
        fprintf(out, "over within a second\n");
        return;
    }
    fprintf(out, "worst second %.1f/s, seconds at zero %" PRIu64 ", last third/first third ", s.worst, s.seconds_at_zero);
    if (s.last_to_first < 0)
        fprintf(out, "not known (too short)\n");
    else
        fprintf(out, "%.3f\n", s.last_to_first);
}

static void print_bytes(FILE *out, const char *what, int64_t bytes)
{
    fprintf(out, "%s ", what);
    if (bytes < 0)
        fprintf(out, "not known");
    else
        fprintf(out, "%.1f MB", (double)bytes / MIB);
}

static void print_resources(FILE *out, const struct bench_run *run)
{
    const struct run_resources *r = &run->resources;

    print_bytes(out, "the servers read from their disks:", r->server_disk_read_bytes);
    print_bytes(out, ", and sent:", r->server_sent_bytes);
    print_bytes(out, "\ndirty pages at the end:", r->dirty_bytes);
    if (r->idle_s >= 0)
        fprintf(out, ", disk idle after %.2f s\n", r->idle_s);
    else if (run->around.waited_for_idle)
        fprintf(out, ", disk not idle within %.1f s\n", run->o->idle_wait_ms / 1e3);
    else
        fprintf(out, "%s\n", run->o->idle_wait_ms == 0 ? " (-idleWait says how long to wait for an idle disk)" : "");
    fprintf(out, "client: %.0f%% of a core in its busiest thread, %.2f s of CPU in all\n", r->client_cpu_share * 100,
            r->cpu_user_s + r->cpu_system_s);
    if (r->client_cpu_share >= CLIENT_BUSY)
        fprintf(out, "warning: the client was the bottleneck: a thread of it used %.0f%% of its core; try -loops\n",
                r->client_cpu_share * 100);
}

void bench_around_print(FILE *out, const struct bench_run *run)
{
    const struct surroundings *s = &run->around;

    for (uint32_t i = 0; i < run->outcome_count; i++)
        print_steadiness(out, &run->outcomes[i]);
    if (run->outcome_count > 0)
        print_resources(out, run);
    if (s->durability[0] != '\0')
        fprintf(out, "durability of the server: %s%s\n", s->durability, run->o->fsync ? ", and -fsync" : "");
    if (s->all_local)
        fprintf(out, "client and server shared this machine (%u cores)\n", run->cores);
}

void bench_draw_progress(struct progress *bar, const struct bench_phase *p, const struct worker_counts *c,
                         const struct bench_second *s, double elapsed_s)
{
    double total = (double)(p->total + c->deletes);
    struct progress_state state = {
        .what = p->kind == REPORT_WRITE ? "write" : "read",
        .share = total > 0 ? (double)(c->completed + c->failed) / total : -1,
        .elapsed_s = elapsed_s,
        .requests_per_s = rate(s->completed, s->seconds),
        .bytes_per_s = rate(s->bytes, s->seconds),
        .completed = c->completed,
        .failed = c->failed,
    };
    progress_draw(bar, &state);
}
