/* Table and blocks. */
#include "bench/mix_report.h"

#include <inttypes.h>

#define MIB 1048576.0

static void print_head(const struct mix_table *t)
{
    fprintf(t->out, "%5s %7s %9s %9s %9s %9s %7s %11s %11s\n", "sec", "Cur ops", "reads/s", "writes/s", "deletes/s", "MB/s",
            "errors", "last lat(s)", "avg lat(s)");
}

void mix_table_begin(struct mix_table *t, FILE *out)
{
    *t = (struct mix_table){.out = out};
    print_head(t);
    fflush(out);
}

static void print_latency(FILE *out, double seconds)
{
    if (seconds < 0)
        fprintf(out, " %11s", "-");
    else
        fprintf(out, " %11.6g", seconds);
}

void mix_table_line(struct mix_table *t, const struct load_second *s)
{
    if (s->seconds < 0.5)
        return;
    if (t->lines > 0 && t->lines % MIX_HEAD_EVERY == 0)
        print_head(t);
    fprintf(t->out, "%5.0f %7u %9.6g %9.6g %9.6g %9.6g %7" PRIu64, s->at_s, s->in_flight,
            (double)s->kind_finished[LOAD_READ] / s->seconds, (double)s->kind_finished[LOAD_WRITE] / s->seconds,
            (double)s->kind_finished[LOAD_DELETE] / s->seconds, (double)s->bytes / MIB / s->seconds, s->failed);
    print_latency(t->out, s->latency_last_s);
    print_latency(t->out, s->latency_avg_s);
    fputc('\n', t->out);
    fflush(t->out);
    t->lines++;
}

void mix_kind_print(FILE *out, const struct load_result *r, enum load_kind kind)
{
    const struct load_kind_result *k = &r->kinds[kind];
    struct latency_summary l = latency_fine_summary(&k->latency);
    double seconds = r->seconds > 0 ? r->seconds : 1e-9;

    if (k->started == 0)
        return;
    fprintf(out, "%ss: %" PRIu64 " right, %" PRIu64 " failed (%" PRIu64 " corrupt), %.6g/s, %.6g MB/s\n", load_kind_name(kind),
            k->finished, k->failed, k->corrupt, (double)k->finished / seconds, (double)k->bytes / MIB / seconds);
    fprintf(out, "  latency(s): min %.6g avg %.6g 50%% %.6g 90%% %.6g 99%% %.6g 99.9%% %.6g max %.6g\n", l.min_ms / 1e3,
            l.avg_ms / 1e3, latency_fine_percentile_ms(&k->latency, 50) / 1e3, latency_fine_percentile_ms(&k->latency, 90) / 1e3,
            latency_fine_percentile_ms(&k->latency, 99) / 1e3, latency_fine_percentile_ms(&k->latency, 99.9) / 1e3, l.max_ms / 1e3);
}

void mix_arrivals_print(FILE *out, const struct load_result *r, double rate)
{
    if (rate <= 0) {
        fprintf(out, "Arrivals:               closed loop: a slow answer holds back the requests behind it (-rate would "
                     "count their waiting)\n");
        return;
    }
    fprintf(out, "Arrivals:               open loop at %.6g/s; coordinated omission is avoided: times count from when each request "
                 "was due\n", rate);
    fprintf(out, "Missed:                 %" PRIu64 " requests were due and never begun%s\n", r->missed,
            r->missed > 0 ? ": the store, or -t, does not keep up with -rate" : "");
}
