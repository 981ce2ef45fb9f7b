/* Table and summary. */
#include "bench/objects_report.h"

#include <inttypes.h>
#include <time.h>

#include "bench/run_stats.h"
#include "bench/spread.h"
#include "net/clock.h"

#define MIB 1048576.0

static void print_time_of_day(const struct objects_table *t)
{
    time_t now = (time_t)clock_wall_s();
    struct tm tm;
    char text[32];

    if (t->show_time && localtime_r(&now, &tm) != NULL && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S ", &tm) > 0)
        fputs(text, t->out);
}

static void print_head(const struct objects_table *t)
{
    print_time_of_day(t);
    fprintf(t->out, "%5s %7s %9s %9s %9s %9s %11s %11s\n", "sec", "Cur ops", "started", "finished", "avg MB/s", "cur MB/s",
            "last lat(s)", "avg lat(s)");
}

static void print_latency(FILE *out, double seconds)
{
    if (seconds < 0)
        fprintf(out, " %11s", "-");
    else
        fprintf(out, " %11.6g", seconds);
}

/* The average is there as long as anything has finished at all, the last one only when this second had one. */
static void print_line(struct objects_table *t, uint64_t sec, uint32_t in_flight, double avg, double cur, double last_s,
                       double avg_s)
{
    if (t->lines > 0 && t->lines % OBJECTS_HEAD_EVERY == 0)
        print_head(t);
    print_time_of_day(t);
    fprintf(t->out, "%5" PRIu64 " %7u %9" PRIu64 " %9" PRIu64 " %9.6g %9.6g", sec, in_flight, t->started, t->finished, avg, cur);
    print_latency(t->out, last_s);
    print_latency(t->out, avg_s);
    fputc('\n', t->out);
    fflush(t->out);
    t->lines++;
}

void objects_table_begin(struct objects_table *t, FILE *out, bool show_time)
{
    *t = (struct objects_table){.out = out, .show_time = show_time};
    print_head(t);
    print_line(t, 0, 0, 0, 0, -1, 0);
}

void objects_table_line(struct objects_table *t, const struct load_second *s)
{
    t->started += s->started;
    t->finished += s->finished;
    t->bytes += s->bytes;
    if (s->seconds < 0.5)
        return;
    print_line(t, (uint64_t)(s->at_s + 0.5), s->in_flight, (double)t->bytes / MIB / s->at_s,
               (double)s->bytes / MIB / s->seconds, s->latency_last_s, s->latency_avg_s < 0 ? 0 : s->latency_avg_s);
}

static void take_seconds(const struct run_phase *p, struct spread *bandwidth, struct spread *iops)
{
    size_t n = run_phase_whole_seconds(p);
    for (size_t i = 0; i < n; i++) {
        spread_add(bandwidth, run_second_rate(&p->series[i], RUN_BYTES) / MIB);
        spread_add(iops, run_second_rate(&p->series[i], RUN_REQUESTS));
    }
}

static void print_number(FILE *out, const char *name, double v)
{
    fprintf(out, "%-23s %.6g\n", name, v);
}

/* The tool counts whole operations. */
static void print_whole(FILE *out, const char *name, double v)
{
    fprintf(out, "%-23s %" PRIu64 "\n", name, (uint64_t)v);
}

void objects_summary_print(FILE *out, const struct objects_summary *s, const struct run_phase *p)
{
    struct spread bandwidth = {0}, iops = {0};
    struct latency_summary l = latency_fine_summary(&p->latency);

    take_seconds(p, &bandwidth, &iops);
    print_number(out, "Total time run:", p->seconds);
    fprintf(out, "%-23s %" PRIu64 "\n", s->write ? "Total writes made:" : "Total reads made:", p->completed);
    fprintf(out, "%-23s %" PRIu64 "\n", s->write ? "Write size:" : "Read size:", s->block_bytes);
    fprintf(out, "%-23s %" PRIu64 "\n", "Object size:", s->object_bytes);
    print_number(out, "Bandwidth (MB/sec):", run_phase_rate(p, RUN_BYTES) / MIB);
    if (s->write) {
        print_number(out, "Stddev Bandwidth:", spread_std(&bandwidth));
        print_number(out, "Max bandwidth (MB/sec):", bandwidth.max);
        print_number(out, "Min bandwidth (MB/sec):", bandwidth.min);
    }
    print_whole(out, "Average IOPS:", run_phase_rate(p, RUN_REQUESTS));
    print_number(out, "Stddev IOPS:", spread_std(&iops));
    print_whole(out, "Max IOPS:", iops.max + 0.5);
    print_whole(out, "Min IOPS:", iops.min + 0.5);
    print_number(out, "Average Latency(s):", l.avg_ms / 1e3);
    if (s->write)
        print_number(out, "Stddev Latency(s):", l.std_ms / 1e3);
    print_number(out, "Max latency(s):", l.max_ms / 1e3);
    print_number(out, "Min latency(s):", l.min_ms / 1e3);
}
