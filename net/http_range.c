/* Range requests and entity tags. */
#include "net/ascii.h"
#include "net/http_util.h"

/* More ranges than this that overlap another one are an attempt to make us send the same bytes again and again. */
#define RANGE_OVERLAPS_MAX 2u

/* Digits at the front of *in, saturating: a position beyond 64 bits is beyond every length.  False when there is none. */
static bool take_position(struct bytes *in, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < in->n && ascii_is_digit(in->p[i]); i++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(in->p[i] - '0'), &v)) {
            for (; i < in->n && ascii_is_digit(in->p[i]); i++)
                ;
            v = UINT64_MAX;
            break;
        }
    in->p += i;
    in->n -= i;
    *out = v;
    return i > 0;
}

enum spec { SPEC_BAD, SPEC_OK, SPEC_NOWHERE, SPEC_EMPTY };

/* One of "a-b", "a-", "-n" against the length.  NOWHERE: well formed, selects nothing.  EMPTY: the end of an empty body. */
static enum spec range_spec(struct bytes s, uint64_t length, struct http_range *out)
{
    uint64_t first, last = UINT64_MAX;

    if (s.n > 0 && s.p[0] == '-') {
        s.p++;
        s.n--;
        if (!take_position(&s, &last) || s.n != 0)
            return SPEC_BAD;
        if (last == 0)
            return SPEC_NOWHERE;
        if (length == 0)
            return SPEC_EMPTY;
        out->count = last < length ? last : length;
        out->first = length - out->count;
        return SPEC_OK;
    }
    if (!take_position(&s, &first) || s.n == 0 || s.p[0] != '-')
        return SPEC_BAD;
    s.p++;
    s.n--;
    if (s.n > 0 && (!take_position(&s, &last) || s.n != 0 || last < first))
        return SPEC_BAD;
    if (first >= length)
        return SPEC_NOWHERE;
    if (last > length - 1)
        last = length - 1;
    out->first = first;
    out->count = last - first + 1;
    return SPEC_OK;
}

static bool overlap(const struct http_range *a, const struct http_range *b)
{
    return a->first < b->first + b->count && b->first < a->first + a->count;
}

/* Whether sending all of them would send more than the whole, or the same bytes over and over. */
static bool ranges_abusive(const struct http_range *ranges, uint32_t n, uint64_t length)
{
    uint64_t left = length;
    uint32_t overlaps = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (ranges[i].count > left)
            return true;
        left -= ranges[i].count;
        for (uint32_t j = 0; j < i; j++)
            if (overlap(&ranges[i], &ranges[j])) {
                overlaps++;
                break;
            }
    }
    return overlaps > RANGE_OVERLAPS_MAX;
}

enum http_range_verdict http_range_parse(struct bytes value, uint64_t length, struct http_range ranges[HTTP_RANGES_MAX],
                                         uint32_t *n)
{
    struct bytes rest = bytes_trim(value), unit, spec;
    uint32_t count = 0, specs = 0;

    *n = 0;
    if (!bytes_split(&rest, '=', &unit) || !bytes_ieq(unit, BYTES_LIT("bytes")) || rest.p == NULL)
        return HTTP_RANGE_NONE;
    while (bytes_split(&rest, ',', &spec)) {
        struct http_range r;
        spec = bytes_trim(spec);
        if (spec.n == 0)
            continue; /* lists may have empty elements */
        if (++specs > HTTP_RANGES_MAX)
            return HTTP_RANGE_NONE;
        switch (range_spec(spec, length, &r)) {
        case SPEC_BAD:
        case SPEC_EMPTY:
            return HTTP_RANGE_NONE;
        case SPEC_NOWHERE:
            break;
        case SPEC_OK:
            ranges[count++] = r;
            break;
        }
    }
    if (specs == 0)
        return HTTP_RANGE_NONE;
    if (count == 0)
        return HTTP_RANGE_UNSATISFIABLE;
    if (ranges_abusive(ranges, count, length))
        return HTTP_RANGE_NONE;
    *n = count;
    return HTTP_RANGE_OK;
}

bool http_etag_listed(struct bytes value, struct bytes etag, bool weak_ok)
{
    struct bytes v = bytes_trim(value);
    size_t i = 0;

    if (bytes_eq(v, BYTES_LIT("*")))
        return true;
    /* Commas may stand inside the quotes, so tags are walked, not split. */
    while (i < v.n) {
        if (v.p[i] == ',' || ascii_is_blank(v.p[i])) {
            i++;
            continue;
        }
        bool weak = v.n - i > 2 && v.p[i] == 'W' && v.p[i + 1] == '/';
        if (weak)
            i += 2;
        if (v.p[i] != '"')
            return false;
        const char *close = memchr(v.p + i + 1, '"', v.n - i - 1);
        if (close == NULL)
            return false;
        struct bytes tag = bytes_of(v.p + i, (size_t)(close + 1 - (v.p + i)));
        if ((weak_ok || !weak) && bytes_eq(tag, etag))
            return true;
        i += tag.n;
    }
    return false;
}
