/* Counters and histograms in cells per thread. */
#include "net/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/number_text.h"

#define METRICS_FIRST_BOUND_NS UINT64_C(100000)
#define METRIC_TEXT_FIRST_CAP 4096u

_Static_assert(sizeof(((struct metric_histogram *)0)->cell[0]) % 64 == 0, "cells of two threads never share a cache line");

/* ---- counting ---- */

/* Threads are numbered as they first count something. */
static uint32_t cell_index(void)
{
    static uint32_t threads;
    static _Thread_local uint32_t mine; /* index + 1 */
    if (mine == 0)
        mine = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % METRICS_CELLS + 1;
    return mine - 1;
}

void metric_add(struct metric_counter *c, uint64_t n)
{
    __atomic_fetch_add(&c->cell[cell_index()].v, n, __ATOMIC_RELAXED);
}

void metric_sub(struct metric_counter *c, uint64_t n)
{
    metric_add(c, -n);
}

uint64_t metric_value(const struct metric_counter *c)
{
    uint64_t v = 0;
    for (size_t i = 0; i < METRICS_CELLS; i++)
        v += __atomic_load_n(&c->cell[i].v, __ATOMIC_RELAXED);
    return v;
}

static uint64_t bound_ns(size_t bucket)
{
    return METRICS_FIRST_BOUND_NS << bucket;
}

/* The first bucket whose bound is not below ns. */
static size_t bucket_of(uint64_t ns)
{
    if (ns <= METRICS_FIRST_BOUND_NS)
        return 0;
    uint64_t steps = (ns - 1) / METRICS_FIRST_BOUND_NS; /* >= 1; bound k is reached at steps < 2^k */
    size_t k = 64 - (size_t)__builtin_clzll(steps);
    return k < METRICS_BUCKETS ? k : METRICS_BUCKETS;
}

void metric_observe_ns(struct metric_histogram *h, uint64_t ns)
{
    uint32_t i = cell_index();
    __atomic_fetch_add(&h->cell[i].bucket[bucket_of(ns)], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&h->cell[i].sum_ns, ns, __ATOMIC_RELAXED);
}

/* All cells together; returns how many were observed. */
static uint64_t histogram_read(const struct metric_histogram *h, uint64_t bucket[METRICS_BUCKETS + 1], uint64_t *sum_ns)
{
    uint64_t count = 0;
    memset(bucket, 0, (METRICS_BUCKETS + 1) * sizeof *bucket);
    *sum_ns = 0;
    for (size_t i = 0; i < METRICS_CELLS; i++) {
        for (size_t k = 0; k <= METRICS_BUCKETS; k++)
            bucket[k] += __atomic_load_n(&h->cell[i].bucket[k], __ATOMIC_RELAXED);
        *sum_ns += __atomic_load_n(&h->cell[i].sum_ns, __ATOMIC_RELAXED);
    }
    for (size_t k = 0; k <= METRICS_BUCKETS; k++)
        count += bucket[k];
    return count;
}

uint64_t metric_observed(const struct metric_histogram *h)
{
    uint64_t bucket[METRICS_BUCKETS + 1], sum_ns;
    return histogram_read(h, bucket, &sum_ns);
}

uint64_t metric_observed_ns(const struct metric_histogram *h)
{
    uint64_t bucket[METRICS_BUCKETS + 1], sum_ns;
    histogram_read(h, bucket, &sum_ns);
    return sum_ns;
}

uint64_t metric_quantile_ns(const struct metric_histogram *h, double q)
{
    uint64_t bucket[METRICS_BUCKETS + 1], sum_ns, seen = 0;
    uint64_t count = histogram_read(h, bucket, &sum_ns);
    if (count == 0)
        return 0;
    double want = q * (double)count;
    for (size_t k = 0; k < METRICS_BUCKETS; k++) {
        seen += bucket[k];
        if (seen > 0 && (double)seen >= want)
            return bound_ns(k);
    }
    return bound_ns(METRICS_BUCKETS - 1);
}

/* ---- text ---- */

/* Makes room for n bytes and a closing zero. */
static bool text_room(struct metric_text *t, size_t n)
{
    if (t->failed)
        return false;
    if (t->cap - t->len > n)
        return true;
    size_t cap = t->cap > 0 ? t->cap : METRIC_TEXT_FIRST_CAP;
    while (cap - t->len <= n && cap <= METRIC_TEXT_MAX)
        cap *= 2;
    char *data = cap <= METRIC_TEXT_MAX ? realloc(t->data, cap) : NULL;
    if (data == NULL) {
        t->failed = 1;
        return false;
    }
    t->data = data;
    t->cap = cap;
    return true;
}

static void text_add(struct metric_text *t, const char *s)
{
    size_t n = strlen(s);
    if (!text_room(t, n))
        return;
    memcpy(t->data + t->len, s, n + 1);
    t->len += n;
}

void metric_text_printf(struct metric_text *t, const char *fmt, ...)
{
    va_list ap;
    if (!text_room(t, 255))
        return;
    va_start(ap, fmt);
    int n = vsnprintf(t->data + t->len, t->cap - t->len, fmt, ap);
    va_end(ap);
    if (n < 0) {
        t->data[t->len] = '\0';
        t->failed = 1;
        return;
    }
    if ((size_t)n >= t->cap - t->len) {
        if (!text_room(t, (size_t)n)) {
            t->data[t->len] = '\0';
            return;
        }
        va_start(ap, fmt);
        vsnprintf(t->data + t->len, t->cap - t->len, fmt, ap);
        va_end(ap);
    }
    t->len += (size_t)n;
}

void metric_text_release(struct metric_text *t)
{
    free(t->data);
    memset(t, 0, sizeof *t);
}

void metric_text_head(struct metric_text *t, const char *name, const char *type, const char *help)
{
    metric_text_printf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void text_sample(struct metric_text *t, const char *name, const char *labels, const char *value)
{
    text_add(t, name);
    if (labels[0] != '\0') {
        text_add(t, "{");
        text_add(t, labels);
        text_add(t, "}");
    }
    text_add(t, " ");
    text_add(t, value);
    text_add(t, "\n");
}

void metric_text_u64(struct metric_text *t, const char *name, const char *labels, uint64_t value)
{
    char text[NUMBER_TEXT_MAX];
    number_text_u64(value, text);
    text_sample(t, name, labels, text);
}

void metric_text_i64(struct metric_text *t, const char *name, const char *labels, int64_t value)
{
    char text[NUMBER_TEXT_MAX];
    number_text_i64(value, text);
    text_sample(t, name, labels, text);
}

void metric_text_double(struct metric_text *t, const char *name, const char *labels, double value)
{
    char text[NUMBER_TEXT_MAX];
    number_text_double(value, text);
    text_sample(t, name, labels, text);
}

const char *metric_label_escape(struct bytes value, char *out, size_t cap)
{
    size_t w = 0, whole = 0;
    CHECK(cap > 0);
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        bool escape = c == '\\' || c == '"' || c == '\n';
        if ((c & 0xc0) != 0x80)
            whole = w; /* a character begins here */
        if (w + 1 + escape >= cap) {
            w = whole;
            break;
        }
        if (escape)
            out[w++] = '\\';
        out[w++] = c == '\n' ? 'n' : (char)c;
    }
    out[w] = '\0';
    return out;
}

/* ---- the set ---- */

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM, KIND_COLLECTOR };

struct entry {
    enum kind kind;
    bool rendered;
    const char *name, *labels, *help;
    const struct metric_counter *counter;
    const struct metric_histogram *histogram;
    void (*fn)(struct metric_text *out, void *arg);
    void *arg;
};

struct metrics {
    struct entry *v;
    size_t n, cap;
};

int metrics_new(struct metrics **out)
{
    struct metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return DFS_ENOMEM;
    *out = m;
    return 0;
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    free(m->v);
    free(m);
}

static int metrics_push(struct metrics *m, struct entry e)
{
    if (m->n == m->cap) {
        size_t cap = m->cap > 0 ? m->cap * 2 : 64;
        struct entry *v = realloc(m->v, cap * sizeof *v);
        if (v == NULL)
            return DFS_ENOMEM;
        m->v = v;
        m->cap = cap;
    }
    m->v[m->n++] = e;
    return 0;
}

int metrics_counter(struct metrics *m, const char *name, const char *labels, const char *help, struct metric_counter *c)
{
    return metrics_push(m, (struct entry){.kind = KIND_COUNTER, .name = name, .labels = labels, .help = help, .counter = c});
}

int metrics_gauge(struct metrics *m, const char *name, const char *labels, const char *help, struct metric_counter *c)
{
    return metrics_push(m, (struct entry){.kind = KIND_GAUGE, .name = name, .labels = labels, .help = help, .counter = c});
}

int metrics_histogram(struct metrics *m, const char *name, const char *labels, const char *help, struct metric_histogram *h)
{
    return metrics_push(m, (struct entry){.kind = KIND_HISTOGRAM, .name = name, .labels = labels, .help = help, .histogram = h});
}

int metrics_collector(struct metrics *m, void (*fn)(struct metric_text *out, void *arg), void *arg)
{
    return metrics_push(m, (struct entry){.kind = KIND_COLLECTOR, .name = "", .fn = fn, .arg = arg});
}

/* Seconds of a nanosecond count, exact, without closing zeros: "0.0001", "838.8608", "12". */
static void seconds_text(uint64_t ns, char out[NUMBER_TEXT_MAX])
{
    size_t n = number_text_u64(ns / 1000000000, out);
    uint64_t part = ns % 1000000000;
    if (part == 0)
        return;
    out[n++] = '.';
    for (uint64_t unit = 100000000; part != 0; unit /= 10) {
        out[n++] = (char)('0' + part / unit);
        part %= unit;
    }
    out[n] = '\0';
}

static void render_histogram(const struct entry *e, struct metric_text *out)
{
    uint64_t bucket[METRICS_BUCKETS + 1], sum_ns, seen = 0;
    uint64_t count = histogram_read(e->histogram, bucket, &sum_ns);
    const char *comma = e->labels[0] != '\0' ? "," : "";
    char text[NUMBER_TEXT_MAX];

    for (size_t k = 0; k < METRICS_BUCKETS; k++) {
        seen += bucket[k];
        seconds_text(bound_ns(k), text);
        metric_text_printf(out, "%s_bucket{%s%sle=\"%s\"} %llu\n", e->name, e->labels, comma, text, (unsigned long long)seen);
    }
    metric_text_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", e->name, e->labels, comma, (unsigned long long)count);
    seconds_text(sum_ns, text);
    metric_text_printf(out, *comma != '\0' ? "%s_sum{%s} %s\n" : "%s_sum%s %s\n", e->name, e->labels, text);
    metric_text_printf(out, *comma != '\0' ? "%s_count{%s} %llu\n" : "%s_count%s %llu\n", e->name, e->labels,
                       (unsigned long long)count);
}

static void render_entry(const struct entry *e, struct metric_text *out)
{
    switch (e->kind) {
    case KIND_COUNTER:
        metric_text_u64(out, e->name, e->labels, metric_value(e->counter));
        break;
    case KIND_GAUGE:
        metric_text_i64(out, e->name, e->labels, (int64_t)metric_value(e->counter));
        break;
    case KIND_HISTOGRAM:
        render_histogram(e, out);
        break;
    case KIND_COLLECTOR:
        e->fn(out, e->arg);
        break;
    }
}

void metrics_render(struct metrics *m, struct metric_text *out)
{
    static const char *const kinds[] = {[KIND_COUNTER] = "counter", [KIND_GAUGE] = "gauge", [KIND_HISTOGRAM] = "histogram"};

    /* A name's samples may have been registered far apart, so the first one gathers the others; a few hundred entries. */
    for (size_t i = 0; i < m->n; i++)
        m->v[i].rendered = false;
    for (size_t i = 0; i < m->n; i++) {
        struct entry *e = &m->v[i];
        if (e->rendered)
            continue;
        if (e->kind == KIND_COLLECTOR) {
            render_entry(e, out);
            continue;
        }
        metric_text_head(out, e->name, kinds[e->kind], e->help);
        for (size_t j = i; j < m->n; j++)
            if (m->v[j].kind == e->kind && strcmp(m->v[j].name, e->name) == 0) {
                render_entry(&m->v[j], out);
                m->v[j].rendered = true;
            }
    }
}
