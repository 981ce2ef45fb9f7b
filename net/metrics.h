/* Counters, gauges and histograms, and their Prometheus text.
 *
 * A metric is static storage registered once; adding is a relaxed atomic on a cell of the calling thread, so the hot path
 * shares no cache line.  Label values are fixed at registration ("type=\"GET\"", alphabetical order, no blanks).  Gauges that are
 * derived from state are produced by collectors when the text is asked for. */
#ifndef DFS_NET_METRICS_H
#define DFS_NET_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "needle/bytes.h"

#define METRICS_CELLS 16 /* threads beyond this share cells */
#define METRICS_BUCKETS 24 /* 0.0001 s * 2^k, k = 0 .. 23, as the peer's dashboards expect */

struct metric_counter {
    struct {
        uint64_t v;
        char pad[56];
    } cell[METRICS_CELLS];
};

struct metric_histogram {
    struct {
        uint64_t bucket[METRICS_BUCKETS + 1]; /* the last is for what is above all bounds */
        uint64_t sum_ns;
        char pad[48];
    } cell[METRICS_CELLS];
};

/* Any thread. */
void metric_add(struct metric_counter *c, uint64_t n);
/* A counter that is registered as a gauge may also go down; its value is then a signed number. */
void metric_sub(struct metric_counter *c, uint64_t n);
uint64_t metric_value(const struct metric_counter *c);
void metric_observe_ns(struct metric_histogram *h, uint64_t ns);
/* Number and sum of what was observed. */
uint64_t metric_observed(const struct metric_histogram *h);
uint64_t metric_observed_ns(const struct metric_histogram *h);
/* Upper bound of the bucket that holds quantile q (0..1); 0 when empty; the largest bound for what is above it. */
uint64_t metric_quantile_ns(const struct metric_histogram *h, double q);

/* A growing text.  data is NUL-terminated (NULL while empty); failed stays set after an allocation failure or when the text
 * would pass METRIC_TEXT_MAX, and nothing is added from then on. */
#define METRIC_TEXT_MAX (64u * 1024u * 1024u)
struct metric_text {
    char *data;
    size_t len, cap;
    int failed;
};
void metric_text_printf(struct metric_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void metric_text_release(struct metric_text *t);

/* For collectors.  A name's head comes once, before its samples: type is "gauge" or "counter". */
void metric_text_head(struct metric_text *t, const char *name, const char *type, const char *help);
/* One sample; labels as at registration, may be "". */
void metric_text_u64(struct metric_text *t, const char *name, const char *labels, uint64_t value);
void metric_text_i64(struct metric_text *t, const char *name, const char *labels, int64_t value);
void metric_text_double(struct metric_text *t, const char *name, const char *labels, double value);
/* A label value that comes from outside (a path, a collection): written to out with \ " and line ends escaped, cut at a whole
 * character when cap is too small; returns out. */
const char *metric_label_escape(struct bytes value, char *out, size_t cap);

/* One set per daemon (master and volume server in one process keep apart). */
struct metrics;
int metrics_new(struct metrics **out);
void metrics_free(struct metrics *m);

/* Register; name, labels (may be "") and help must outlive the set.  Before threads start, or under the owner's loop.
 * DFS_ENOMEM. */
int metrics_counter(struct metrics *m, const char *name, const char *labels, const char *help, struct metric_counter *c);
int metrics_gauge(struct metrics *m, const char *name, const char *labels, const char *help, struct metric_counter *c);
int metrics_histogram(struct metrics *m, const char *name, const char *labels, const char *help,
                      struct metric_histogram *h);
/* fn appends complete lines (with their # HELP / # TYPE) on the thread that asks. */
int metrics_collector(struct metrics *m, void (*fn)(struct metric_text *out, void *arg), void *arg);

/* Prometheus text format 0.0.4: samples of one name stand together, one blank before the value. */
void metrics_render(struct metrics *m, struct metric_text *out);

#endif
