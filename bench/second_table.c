/* Columns. */
#include "bench/second_table.h"

#include <inttypes.h>

#define MIB 1048576.0
#define SECOND_LEAST 0.5

static void print_head(const struct second_table *t)
{
    fprintf(t->out, "%5s %7s %9s %9s", "sec", "Cur ops", "reads/s", "writes/s");
    if (t->has_deletes)
        fprintf(t->out, " %9s", "deletes/s");
    fprintf(t->out, " %9s %7s %11s %11s\n", "MB/s", "errors", "last lat(s)", "avg lat(s)");
}

void second_table_begin(struct second_table *t, FILE *out, const char *title, bool has_deletes)
{
    *t = (struct second_table){.out = out, .title = title, .has_deletes = has_deletes};
}

static void print_latency(FILE *out, double seconds)
{
    if (seconds < 0)
        fprintf(out, " %11s", "-");
    else
        fprintf(out, " %11.6g", seconds);
}

static void print_rate(FILE *out, uint64_t n, double seconds)
{
    fprintf(out, " %9.6g", (double)n / seconds);
}

void second_table_line(struct second_table *t, const struct load_second *s)
{
    if (s->seconds < SECOND_LEAST)
        return;
    if (t->lines == 0 && t->title != NULL)
        fprintf(t->out, "%s:\n", t->title);
    if (t->lines % SECOND_TABLE_HEAD_EVERY == 0)
        print_head(t);
    fprintf(t->out, "%5.0f %7u", s->at_s, s->in_flight);
    print_rate(t->out, s->kind_finished[LOAD_READ], s->seconds);
    print_rate(t->out, s->kind_finished[LOAD_WRITE] + s->kind_finished[LOAD_OVERWRITE], s->seconds);
    if (t->has_deletes)
        print_rate(t->out, s->kind_finished[LOAD_DELETE], s->seconds);
    fprintf(t->out, " %9.6g %7" PRIu64, (double)s->bytes / MIB / s->seconds, s->failed);
    print_latency(t->out, s->latency_last_s);
    print_latency(t->out, s->latency_avg_s);
    fputc('\n', t->out);
    fflush(t->out);
    t->lines++;
}
