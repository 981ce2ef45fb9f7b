/* Counters, gauges and histograms, and their Prometheus text.
 *
 * A metric is static storage registered once; adding is a relaxed atomic on a per-loop cell, so the hot path shares no
 * cache line.  Label values are fixed at registration ("type=\"GET\"", alphabetical order, no blanks).  Gauges that are
 * derived from state are produced by collectors when the text is asked for. */
#ifndef DFS_NET_METRICS_H
#define DFS_NET_METRICS_H

#include <stddef.h>
#include <stdint.h>

#define METRICS_CELLS 16 /* loops and other threads share cells beyond this */
#define METRICS_BUCKETS 24 /* 0.0001 s * 2^k, k = 0 .. 23, as the peer's dashboards expect */

struct metric_counter {
    struct {
        uint64_t v;
        char pad[56];
    } cell[METRICS_CELLS];
};

struct metric_histogram {
    uint64_t bucket[METRICS_BUCKETS + 1];
    uint64_t sum_ns;
    uint64_t count;
};

/* Any thread. */
void metric_add(struct metric_counter *c, uint64_t n);
uint64_t metric_value(const struct metric_counter *c);
void metric_observe_ns(struct metric_histogram *h, uint64_t ns);
/* Upper bound of the bucket that holds quantile q (0..1); 0 when empty. */
uint64_t metric_quantile_ns(const struct metric_histogram *h, double q);

/* A growing text.  data is NUL-terminated; failed stays set after an allocation failure. */
struct metric_text {
    char *data;
    size_t len, cap;
    int failed;
};
void metric_text_printf(struct metric_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void metric_text_release(struct metric_text *t);

/* One set per daemon (master and volume server in one process keep apart). */
struct metrics;
int metrics_new(struct metrics **out);
void metrics_free(struct metrics *m);

/* Register; name, labels (may be "") and help must outlive the set.  Before threads start, or under the owner's loop. */
int metrics_counter(struct metrics *m, const char *name, const char *labels, const char *help, struct metric_counter *c);
int metrics_histogram(struct metrics *m, const char *name, const char *labels, const char *help,
                      struct metric_histogram *h);
/* fn appends complete lines (with their # HELP / # TYPE) on the thread that asks. */
int metrics_collector(struct metrics *m, void (*fn)(struct metric_text *out, void *arg), void *arg);

/* Prometheus text format 0.0.4: samples of one name stand together, one blank before the value. */
void metrics_render(struct metrics *m, struct metric_text *out);

#endif
