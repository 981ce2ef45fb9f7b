/* Lines and tables. */
#include "bench/record_report.h"

#include <inttypes.h>

#include "bench/run_stats.h"
#include "needle/check.h"

#define MIB 1048576.0
#define MB 1e6

void record_report_plan(FILE *out, const struct record_plan *p, uint32_t clients, double runtime_s)
{
    struct record_need n = record_plan_need(p);
    char a[RECORD_SIZE_TEXT_MAX], b[RECORD_SIZE_TEXT_MAX], c[RECORD_SIZE_TEXT_MAX];

    fprintf(out, "blob records over HTTP, not a file system\n");
    fprintf(out, "a record is %s; ",
            p->needle_bytes == p->record_bytes ? "a whole needle, which an overwrite replaces" : "a range of a larger needle");
    fprintf(out, "%u job%s, each with %s of its own and one request under way", p->jobs, p->jobs == 1 ? "" : "s",
            record_size_text(p->file_bytes, a));
    if (clients > 1)
        fprintf(out, ", in each of %u clients", clients);
    fprintf(out, "\nrecords of %s, needles of %s, %" PRIu64 " needles in all, ", record_size_text(p->record_bytes, a),
            record_size_text(p->needle_bytes, b), n.needles * clients);
    if (runtime_s > 0)
        fprintf(out, "%g s", runtime_s);
    else
        fprintf(out, "each record once");
    fprintf(out, ", seed %" PRIu64 "\n", p->seed);
    fprintf(out, "this takes %s of memory in %s client (%u bytes an id, and contents under way), %s in the servers' indexes ",
            record_size_text(n.client_bytes, a), clients > 1 ? "each" : "the", RECORD_CLIENT_BYTES,
            record_size_text(n.index_bytes * clients, b));
    fprintf(out, "(%u bytes a needle and copy), %s on their disks (each copy; overwrites add to it)\n", RECORD_INDEX_BYTES,
            record_size_text(n.disk_bytes * clients, c));
}

static double per_second(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

void record_report_phase(FILE *out, const struct run_phase *p)
{
    struct latency_summary l = latency_fine_summary(&p->latency);
    double bytes_per_s = per_second((double)p->bytes, p->seconds);
    char size[RECORD_SIZE_TEXT_MAX];

    fprintf(out, "  %s: IOPS=%.1f, BW=%.2fMiB/s (%.2fMB/s)(%s/%.3fs), ", p->name, per_second((double)p->completed, p->seconds),
            bytes_per_s / MIB, bytes_per_s / MB, record_size_text(p->bytes, size), p->seconds);
    fprintf(out, "records=%" PRIu64 ", failed=%" PRIu64 ", corrupt=%" PRIu64 "\n", p->completed, p->failed, p->corrupt);
    fprintf(out, "    lat (usec): min=%.1f, max=%.1f, avg=%.2f, stdev=%.2f\n", l.min_ms * 1e3, l.max_ms * 1e3, l.avg_ms * 1e3,
            l.std_ms * 1e3);
    fprintf(out, "    lat percentiles (usec): 50.00th=[%.1f], 99.00th=[%.1f], 99.90th=[%.1f]\n",
            latency_fine_percentile_ms(&p->latency, 50) * 1e3, latency_fine_percentile_ms(&p->latency, 99) * 1e3,
            latency_fine_percentile_ms(&p->latency, 99.9) * 1e3);
}

void record_report_ops(FILE *out, const struct record_ops_row *rows, uint32_t count, uint32_t jobs, uint64_t record_bytes)
{
    char size[RECORD_SIZE_TEXT_MAX];

    fprintf(out, "\noperations a second, records of %s, %u job%s; ", record_size_text(record_bytes, size), jobs,
            jobs == 1 ? "" : "s");
    fprintf(out, "parent: all operations by the time from the first begin to the last end\n");
    fprintf(out, "%-14s %14s %14s %14s %14s\n", "", "parent sees", "sum of jobs", "slowest job", "fastest job");
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%-14s %14.2f %14.2f %14.2f %14.2f\n", rows[i].name, rows[i].parent_per_s, rows[i].sum_per_s,
                rows[i].min_per_s, rows[i].max_per_s);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " | " : "", rows[i].name);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%.0f", i > 0 ? " | " : "", rows[i].parent_per_s);
    fprintf(out, "\n");
}

static void print_known(FILE *out, double v, int decimals)
{
    if (v < 0)
        fprintf(out, " %22s", "-");
    else
        fprintf(out, " %22.*f", decimals, v);
}

void record_report_steadiness(FILE *out, const struct run_result *r)
{
    fprintf(out, "\n%-32s %22s %22s %22s\n", "steadiness", "worst second (IOPS)", "seconds at zero", "last third/first third");
    for (uint32_t i = 0; i < r->phase_count; i++) {
        struct run_steadiness s;
        if (run_phase_steadiness(r->phases[i], RUN_REQUESTS, &s) != 0)
            continue;
        fprintf(out, "%-32s", r->phases[i]->name);
        print_known(out, s.worst, 1);
        print_known(out, s.worst < 0 ? RUN_UNKNOWN : (double)s.seconds_at_zero, 0);
        print_known(out, s.last_to_first, 3);
        fprintf(out, "\n");
    }
}

enum table { TABLE_BW, TABLE_IOPS, TABLE_LATENCY, TABLES };

static double value_of(const struct run_cell *c, enum table t)
{
    return t == TABLE_BW ? c->bytes_per_s / MIB : t == TABLE_IOPS ? c->requests_per_s : c->avg_us;
}

static void print_table(FILE *out, const struct run_grid *g, enum table t)
{
    static const char *const titles[TABLES] = {"BW (MiB/s)", "IOPS", "latency (us)"};

    fprintf(out, "\n%s: %s\n%-20s", g->name, titles[t], "clients \\ processes");
    for (uint32_t col = 0; col < g->cols; col++)
        fprintf(out, " %12u", g->processes[col]);
    fprintf(out, "\n");
    for (uint32_t row = 0; row < g->rows; row++) {
        fprintf(out, "%-20u", g->clients[row]);
        for (uint32_t col = 0; col < g->cols; col++) {
            const struct run_cell *c = &g->cells[(size_t)row * g->cols + col];
            if (c->known)
                fprintf(out, " %12.*f", t == TABLE_IOPS ? 0 : 2, value_of(c, t));
            else
                fprintf(out, " %12s", "-");
        }
        fprintf(out, "\n");
    }
}

void record_report_grid(FILE *out, const struct run_grid *g)
{
    for (int t = 0; t < TABLES; t++)
        print_table(out, g, (enum table)t);
}
