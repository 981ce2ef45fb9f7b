/* Blocks. */
#include "bench/mix_report.h"

#include <inttypes.h>

#define MIB 1048576.0

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
