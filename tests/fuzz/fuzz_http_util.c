/* What handlers take from headers and queries: parameters, dates, ranges, entity tags, names.  The first byte chooses what the
 * rest is. */
#include <stdint.h>
#include <stdlib.h>

#include "needle/check.h"
#include "net/http_util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_params(struct bytes in)
{
    struct http_params p;
    uint64_t v;
    http_params_init(&p);
    struct bytes half = bytes_of(in.p, in.n / 2);
    if (http_params_parse(&p, half) == 0) {
        http_params_parse(&p, in);
        for (uint32_t i = 0; i < p.count; i++) {
            CHECK(p.v[i].name.p[p.v[i].name.n] == '\0' && strlen(p.v[i].name.p) == p.v[i].name.n);
            CHECK(p.v[i].value.p[p.v[i].value.n] == '\0' && strlen(p.v[i].value.p) == p.v[i].value.n);
        }
        http_params_bool(&p, "a", false);
        http_params_u64(&p, "a", 1, &v);
    }
    http_params_release(&p);
}

static void fuzz_date(struct bytes in)
{
    char text[HTTP_DATE_BYTES + 1];
    uint64_t s, again;
    if (http_date_parse(in, &s) != 0)
        return;
    http_date_format(s, text);
    CHECK(http_date_parse(bytes_str(text), &again) == 0 && again == s);
}

/* The first bytes are the length. */
static void fuzz_range(struct bytes in)
{
    struct http_range r[HTTP_RANGES_MAX];
    uint64_t length = 0, sum = 0;
    uint32_t n = 99;
    if (in.n < 8)
        return;
    memcpy(&length, in.p, 8);
    if (length & 1)
        length >>= 56; /* short bodies as often as absurd ones */
    enum http_range_verdict v = http_range_parse(bytes_of(in.p + 8, in.n - 8), length, r, &n);
    CHECK(n <= HTTP_RANGES_MAX && (v == HTTP_RANGE_OK) == (n > 0));
    for (uint32_t i = 0; i < n; i++) {
        CHECK(r[i].count > 0 && r[i].first < length && r[i].count <= length - r[i].first);
        CHECK(r[i].count <= length - sum);
        sum += r[i].count;
    }
}

static void fuzz_etag(struct bytes in)
{
    struct bytes tag = BYTES_LIT("\"d3152e74\"");
    bool weak = http_etag_listed(in, tag, true), strong = http_etag_listed(in, tag, false);
    CHECK(weak || !strong);
}

/* What a name becomes in a header is printable, and reads back as the name. */
static void fuzz_disposition(struct bytes in)
{
    char *out = malloc(3 * in.n + 64), *back = malloc(3 * in.n + 65);
    CHECK(out != NULL && back != NULL);
    size_t n = http_disposition_format(in.n & 1, in, out);
    CHECK(n <= 3 * in.n + 64);
    for (size_t i = 0; i < n; i++)
        CHECK(out[i] >= ' ' && out[i] <= '~');
    struct bytes name = http_disposition_name(bytes_of(out, n), back);
    struct bytes last = http_name_last(in);
    bool has_nul = in.n > 0 && memchr(in.p, '\0', in.n) != NULL;
    CHECK(has_nul || bytes_eq(name, last));
    free(out);
    free(back);
}

static void fuzz_value(struct bytes in)
{
    char *out = malloc(in.n + 1);
    size_t n;
    CHECK(out != NULL);
    if (http_value_param(in, "boundary", out, &n))
        CHECK(n <= in.n && out[n] == '\0');
    struct bytes name = http_disposition_name(in, out);
    CHECK(name.n <= in.n);
    free(out);
}

static void fuzz_names(struct bytes in)
{
    struct bytes ext = http_name_ext(in);
    CHECK(ext.n == 0 || (ext.p[0] == '.' && ext.p + ext.n == in.p + in.n));
    http_mime_by_ext(ext);
    CHECK(http_mime_sniff(in).n > 0);
    if (name_is_safe(in))
        CHECK(in.n == 0 || memchr(in.p, '/', in.n) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(struct bytes in) = {
        fuzz_params, fuzz_date, fuzz_range, fuzz_etag, fuzz_disposition, fuzz_value, fuzz_names,
    };
    if (size == 0 || size > 65536)
        return 0;
    /* An exact copy, so that a read beyond it is seen. */
    char *copy = malloc(size - 1 > 0 ? size - 1 : 1);
    CHECK(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    kinds[data[0] % (sizeof kinds / sizeof kinds[0])](bytes_of(copy, size - 1));
    free(copy);
    return 0;
}
