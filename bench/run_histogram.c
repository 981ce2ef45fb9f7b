/* Histograms as JSON. */
#include "bench/run_histogram.h"

#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"

/* 2^128 has 39 digits. */
#define SUM_TEXT_MAX 40u

/* ---- out ---- */

static void put_sum(struct jsonw *w, const char *key, unsigned __int128 v)
{
    char text[SUM_TEXT_MAX];
    size_t at = sizeof text;

    text[--at] = '\0';
    do {
        text[--at] = (char)('0' + (int)(v % 10));
        v /= 10;
    } while (v > 0);
    jsonw_put_str(w, key, text + at);
}

static void put_pair(struct jsonw *w, uint64_t bucket, uint64_t samples)
{
    jsonw_u64(w, bucket);
    jsonw_u64(w, samples);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Samples kept one by one, as buckets of their own. */
static int put_longer(struct jsonw *w, const struct latency *l)
{
    uint32_t *sorted;

    if (l->longer_n == 0)
        return 0;
    if (l->longer_n > RUN_LONG_SAMPLES_MAX)
        return DFS_ETOOBIG;
    sorted = malloc(l->longer_n * sizeof *sorted);
    if (sorted == NULL)
        return DFS_ENOMEM;
    memcpy(sorted, l->longer, l->longer_n * sizeof *sorted);
    qsort(sorted, l->longer_n, sizeof *sorted, by_number);
    for (size_t i = 0, same; i < l->longer_n; i += same) {
        for (same = 1; i + same < l->longer_n && sorted[i + same] == sorted[i]; same++)
            ;
        put_pair(w, sorted[i], same);
    }
    free(sorted);
    return 0;
}

static void put_buckets(struct jsonw *w, const uint64_t *buckets, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (buckets[i] > 0)
            put_pair(w, i, buckets[i]);
}

/* On one line, whatever surrounds it. */
static int put_all(struct jsonw *w, const struct latency *l)
{
    int rc;

    jsonw_object(w);
    jsonw_put_u64(w, "samples", l->count);
    jsonw_put_u64(w, "min_ns", l->count > 0 ? l->min_ns : 0);
    jsonw_put_u64(w, "max_ns", l->max_ns);
    put_sum(w, "sum_ns", l->sum_ns);
    put_sum(w, "sum_squares_ns2", l->sum_squares_ns2);
    jsonw_put_array(w, "fine");
    put_buckets(w, l->fine, LATENCY_FINE_BUCKETS);
    jsonw_array_end(w);
    jsonw_put_array(w, "coarse");
    put_buckets(w, l->buckets, LATENCY_BUCKETS);
    rc = put_longer(w, l);
    jsonw_array_end(w);
    jsonw_object_end(w);
    return rc;
}

int run_histogram_put(struct jsonw *w, const char *key, const struct latency *l)
{
    struct jsonw line;
    struct bytes text;
    int rc;

    jsonw_init(&line, false);
    rc = put_all(&line, l);
    if (rc == 0)
        rc = jsonw_done(&line, &text);
    if (rc == 0) {
        jsonw_key(w, key);
        jsonw_raw(w, text);
    }
    jsonw_release(&line);
    return rc;
}

/* ---- in ---- */

static bool get_count(const json_t *json, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(json, key);

    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool get_sum(const json_t *json, const char *key, unsigned __int128 *out)
{
    const char *text = json_string_value(json_object_get(json, key));
    unsigned __int128 v = 0, max = ~(unsigned __int128)0;

    if (text == NULL || text[0] == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (; *text != '\0'; text++) {
        unsigned digit = (unsigned)(*text - '0');
        if (!ascii_is_digit(*text) || v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

typedef int put_bucket(struct latency *into, uint64_t bucket, uint64_t samples, uint64_t *long_budget);

static int put_fine(struct latency *into, uint64_t bucket, uint64_t samples, uint64_t *long_budget)
{
    (void)long_budget;
    if (bucket >= LATENCY_FINE_BUCKETS)
        return DFS_ECORRUPT;
    into->fine[bucket] = samples;
    return 0;
}

static int put_coarse(struct latency *into, uint64_t bucket, uint64_t samples, uint64_t *long_budget)
{
    size_t need;
    uint32_t *more;

    if (bucket < LATENCY_BUCKETS) {
        into->buckets[bucket] = samples;
        return 0;
    }
    if (bucket > UINT32_MAX || samples > *long_budget)
        return DFS_ECORRUPT;
    *long_budget -= samples;
    need = into->longer_n + samples;
    if (need > into->longer_cap) {
        size_t cap = need > into->longer_cap * 2 ? need : into->longer_cap * 2;
        more = realloc(into->longer, cap * sizeof *more);
        if (more == NULL)
            return DFS_ENOMEM;
        into->longer = more;
        into->longer_cap = cap;
    }
    while (samples-- > 0)
        into->longer[into->longer_n++] = (uint32_t)bucket;
    return 0;
}

/* Pairs in order, and as many samples as were said. */
static int read_buckets(const json_t *list, struct latency *into, put_bucket *put, uint64_t *long_budget)
{
    size_t n = json_array_size(list);
    uint64_t last = 0, sum = 0;

    if (!json_is_array(list) || n % 2 != 0)
        return DFS_ECORRUPT;
    for (size_t i = 0; i < n; i += 2) {
        const json_t *b = json_array_get(list, i), *s = json_array_get(list, i + 1);
        if (!json_is_integer(b) || !json_is_integer(s) || json_integer_value(b) < 0 || json_integer_value(s) <= 0)
            return DFS_ECORRUPT;
        uint64_t bucket = (uint64_t)json_integer_value(b), samples = (uint64_t)json_integer_value(s);
        if ((i > 0 && bucket <= last) || samples > into->count - sum)
            return DFS_ECORRUPT;
        int rc = put(into, bucket, samples, long_budget);
        if (rc != 0)
            return rc;
        sum += samples;
        last = bucket;
    }
    return sum == into->count ? 0 : DFS_ECORRUPT;
}

/* What bounds the exact sums. */
static bool sums_are_possible(const struct latency *l)
{
    unsigned __int128 least = (unsigned __int128)l->min_ns * l->count, most = (unsigned __int128)l->max_ns * l->count;

    return l->min_ns <= l->max_ns && l->sum_ns >= least && l->sum_ns <= most && l->sum_squares_ns2 >= l->sum_ns;
}

static int read_figures(const json_t *json, struct latency *into, const char **why)
{
    uint64_t count;

    if (!get_count(json, "samples", &count) || !get_count(json, "min_ns", &into->min_ns) ||
        !get_count(json, "max_ns", &into->max_ns)) {
        *why = "samples, min_ns or max_ns is no count";
        return DFS_ECORRUPT;
    }
    into->count = count;
    if (!get_sum(json, "sum_ns", &into->sum_ns) || !get_sum(json, "sum_squares_ns2", &into->sum_squares_ns2)) {
        *why = "sum_ns or sum_squares_ns2 is no text of digits below 2^128";
        return DFS_ECORRUPT;
    }
    if (!sums_are_possible(into)) {
        *why = "min_ns, max_ns and sums contradict each other";
        return DFS_ECORRUPT;
    }
    return 0;
}

int run_histogram_read(const json_t *json, struct latency *into, uint64_t *long_budget, const char **why)
{
    int rc;

    if (!json_is_object(json)) {
        *why = "is no object";
        return DFS_ECORRUPT;
    }
    rc = read_figures(json, into, why);
    if (rc != 0)
        return rc;
    *why = "fine is no list of pairs in order with as many samples as were said";
    rc = read_buckets(json_object_get(json, "fine"), into, put_fine, long_budget);
    if (rc != 0)
        return rc;
    *why = "coarse is no list of pairs in order with as many samples as were said";
    rc = read_buckets(json_object_get(json, "coarse"), into, put_coarse, long_budget);
    if (rc == 0 && into->count == 0)
        into->min_ns = UINT64_MAX; /* as latency_init() leaves it */
    return rc;
}
