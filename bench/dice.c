/* A counter-based generator, and the distributions that a mix needs. */
#include "bench/dice.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/rand.h"

uint64_t dice_u64(struct dice *d)
{
    uint64_t x = rand_mix64(d->state);

    d->state += 0x9e3779b97f4a7c15ull;
    return x;
}

double dice_unit(struct dice *d)
{
    return (double)(dice_u64(d) >> 11) * 0x1p-53;
}

/* Mean 0, deviation 1. */
static double dice_normal(struct dice *d)
{
    double radius = sqrt(-2 * log(1 - dice_unit(d)));
    return radius * cos(2 * M_PI * dice_unit(d));
}

/* ---- popularity ---- */

/* Integral of x^-s from 1 to x, and its inverse; continuous through s = 1. */
static double area(double x, double s)
{
    double t = (1 - s) * log(x);
    return fabs(t) > 1e-8 ? expm1(t) / (1 - s) : log(x) * (1 + t / 2);
}

static double area_inverse(double y, double s)
{
    double t = y * (1 - s);
    if (fabs(1 - s) < 1e-9)
        return exp(y);
    return t <= -1 ? HUGE_VAL : exp(log1p(t) / (1 - s));
}

/* Rejection-inversion (Hormann and Derflinger, 1996): draws under the hull of the bars, so the cost does not grow with n. */
uint64_t dice_zipf(struct dice *d, uint64_t n, double s)
{
    double low = area(1.5, s) - 1, high = area((double)n + 0.5, s);
    double sure = 2 - area_inverse(area(2.5, s) - pow(2, -s), s);

    if (n <= 1)
        return 1;
    for (;;) {
        double u = high + dice_unit(d) * (low - high), x = area_inverse(u, s), k = floor(x + 0.5);
        k = k < 1 ? 1 : k > (double)n ? (double)n : k;
        if (k - x <= sure || u >= area(k + 0.5, s) - pow(k, -s))
            return (uint64_t)k;
    }
}

/* ---- sizes ---- */

void sizes_init(struct sizes *s, uint64_t median_bytes, double sigma, uint64_t max_bytes)
{
    double most = (double)median_bytes * exp(SIZES_SIGMAS * sigma);
    memset(s, 0, sizeof *s);
    s->median_bytes = median_bytes;
    s->sigma = sigma;
    s->max_bytes = most < (double)max_bytes ? (uint64_t)ceil(most) : max_bytes;
}

void sizes_release(struct sizes *s)
{
    free(s->rows);
    free(s->sums);
    s->rows = NULL;
    s->sums = NULL;
    s->row_count = 0;
}

static int fail(char *error, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(char *error, int rc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, SIZES_ERROR_MAX, fmt, ap);
    va_end(ap);
    return rc;
}

static int take_row(struct sizes *s, const char *line, const char *path, unsigned number, uint64_t max_bytes, char *error)
{
    uint64_t bytes;
    double weight, before = s->row_count > 0 ? s->sums[s->row_count - 1] : 0;
    int end = 0;

    if (line[strspn(line, " \t\r\n")] == '\0' || line[0] == '#')
        return 0;
    if (sscanf(line, "%" SCNu64 " %lf %n", &bytes, &weight, &end) != 2 || line[end] != '\0' || !(weight >= 0 && weight < 1e15))
        return fail(error, DFS_EINVAL, "line %u of '%s' is no `BYTES WEIGHT`", number, path);
    if (bytes == 0 || bytes > max_bytes)
        return fail(error, DFS_EINVAL, "line %u of '%s': %" PRIu64 " bytes is not between 1 and %" PRIu64, number, path, bytes,
                    max_bytes);
    if (s->row_count == SIZES_ROWS_MAX)
        return fail(error, DFS_ETOOBIG, "'%s' has more than %u sizes", path, SIZES_ROWS_MAX);
    s->rows[s->row_count] = bytes;
    s->sums[s->row_count++] = before + weight;
    s->max_bytes = bytes > s->max_bytes ? bytes : s->max_bytes;
    return 0;
}

int sizes_read(struct sizes *s, const char *path, uint64_t max_bytes, char error[SIZES_ERROR_MAX])
{
    char line[256];
    unsigned number = 0;
    int rc = 0, saved;
    FILE *in = fopen(path, "re");

    saved = errno;
    memset(s, 0, sizeof *s);
    if (in == NULL)
        return fail(error, dfs_err_from_errno(saved), "cannot read sizes '%s': %s", path, strerror(saved));
    s->rows = malloc(SIZES_ROWS_MAX * sizeof *s->rows);
    s->sums = malloc(SIZES_ROWS_MAX * sizeof *s->sums);
    if (s->rows == NULL || s->sums == NULL)
        rc = fail(error, DFS_ENOMEM, "%s", dfs_err_text(DFS_ENOMEM));
    while (rc == 0 && fgets(line, sizeof line, in) != NULL) {
        rc = take_row(s, line, path, ++number, max_bytes, error);
        if (rc == 0 && number == SIZES_LINES_MAX)
            rc = fail(error, DFS_ETOOBIG, "'%s' has more than %u lines", path, SIZES_LINES_MAX - 1);
    }
    if (rc == 0 && (s->row_count == 0 || s->sums[s->row_count - 1] <= 0))
        rc = fail(error, DFS_EINVAL, "'%s' has no size with a weight", path);
    fclose(in);
    if (rc != 0)
        sizes_release(s);
    return rc;
}

/* The first row whose sum is above the draw: one without weight is never drawn. */
static uint64_t next_row(const struct sizes *s, struct dice *d)
{
    double at = dice_unit(d) * s->sums[s->row_count - 1];
    size_t low = 0, high = s->row_count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->sums[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return s->rows[low];
}

uint64_t sizes_next(const struct sizes *s, struct dice *d)
{
    double bytes;
    if (s->row_count > 0)
        return next_row(s, d);
    if (s->sigma <= 0)
        return s->median_bytes < s->max_bytes ? s->median_bytes : s->max_bytes;
    bytes = (double)s->median_bytes * exp(s->sigma * dice_normal(d)) + 0.5;
    return bytes < 1 ? 1 : bytes > (double)s->max_bytes ? s->max_bytes : (uint64_t)bytes;
}
