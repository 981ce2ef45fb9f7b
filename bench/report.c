/* The formats are those of the peer, down to the drifting columns: every width is a minimum. */
#include "bench/report.h"

#define MIB 1048576.0

const int report_percentiles[REPORT_PERCENTILES] = {50, 66, 75, 80, 90, 95, 98, 99, 100};

void report_version(FILE *out, const char *version)
{
    fprintf(out, "This is dfs version %s\n", version);
}

static const char *title(enum report_phase phase)
{
    return phase == REPORT_WRITE ? "Writing Benchmark" : "Randomly Reading Benchmark";
}

void report_title(FILE *out, enum report_phase phase)
{
    fprintf(out, "\n------------ %s ----------\n", title(phase));
}

static double per_second(uint64_t now, uint64_t last, double interval_s)
{
    return interval_s > 0 ? (double)(now - last) / interval_s : 0;
}

static double percent_done(const struct report_progress *p)
{
    return p->total > 0 ? (double)p->completed * 100 / (double)p->total : 0;
}

void report_progress_line(FILE *out, const struct report_progress *p)
{
    fprintf(out, "Completed %llu of %llu requests, %3.1f%% %3.1f/s %3.1fMB/s\n", (unsigned long long)p->completed,
            (unsigned long long)p->total, percent_done(p), per_second(p->completed, p->last_completed, p->interval_s),
            per_second(p->transferred_bytes, p->last_transferred_bytes, p->interval_s) / MIB);
}

static void print_times(FILE *out, const struct latency_summary *s, bool precise)
{
    fprintf(out, "\nConnection Times (ms)\n");
    fprintf(out, "              min      avg        max      std\n");
    if (precise)
        fprintf(out, "Total:        %2.3f      %3.3f       %3.3f      %3.3f\n", s->min_ms, s->avg_ms, s->max_ms, s->std_ms);
    else
        fprintf(out, "Total:        %2.1f      %3.1f       %3.1f      %3.1f\n", s->min_ms, s->avg_ms, s->max_ms, s->std_ms);
}

static void print_percentiles(FILE *out, struct latency *l, bool precise)
{
    fprintf(out, "\nPercentage of the requests served within a certain time (ms)\n");
    for (int i = 0; i < REPORT_PERCENTILES; i++) {
        int p = report_percentiles[i];
        if (precise)
            fprintf(out, "  %3d%%    %7.3f ms\n", p, latency_fine_percentile_ms(l, p));
        else
            fprintf(out, "  %3d%%    %5.1f ms\n", p, latency_coarse_percentile_ms(l, p));
    }
}

void report_summary(FILE *out, const struct report_result *r, struct latency *l, bool precise)
{
    double s = r->seconds > 0 ? r->seconds : 1e-9;
    struct latency_summary times = precise ? latency_fine_summary(l) : latency_coarse_summary(l);

    fprintf(out, "\nConcurrency Level:      %u\n", r->concurrency);
    fprintf(out, "Time taken for tests:   %.3f seconds\n", r->seconds);
    fprintf(out, "Complete requests:      %llu\n", (unsigned long long)r->completed);
    fprintf(out, "Failed requests:        %llu\n", (unsigned long long)r->failed);
    fprintf(out, "Total transferred:      %llu bytes\n", (unsigned long long)r->transferred_bytes);
    fprintf(out, "Requests per second:    %.2f [#/sec]\n", (double)r->completed / s);
    fprintf(out, "Transfer rate:          %.2f [Kbytes/sec]\n", (double)r->transferred_bytes / 1024 / s);
    print_times(out, &times, precise);
    print_percentiles(out, l, precise);
}
