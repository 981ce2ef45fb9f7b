/* Bytes that say they are gzip: at once and in slices must agree, and neither passes its limit.  The first byte chooses the
 * slices, the second the limit. */
#include <stdint.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/gzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int inflate_slices(struct bytes in, uint64_t limit, size_t take, size_t cap, uint64_t *total)
{
    struct gzip_inflate *g;
    struct bytes view = BYTES_NONE;
    char out[64];
    size_t at = 0, n;
    int rc = gzip_inflate_new(limit, &g);
    while (rc == 0) {
        if (view.n == 0 && at < in.n) {
            view = bytes_of(in.p + at, in.n - at < take ? in.n - at : take);
            at += view.n;
        }
        rc = gzip_inflate_step(g, &view, at == in.n, out, cap, &n);
        CHECK(n <= cap);
    }
    *total = gzip_inflate_total(g);
    gzip_inflate_free(g);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t counted = 0, total;
    char *out = NULL;
    size_t n = 0;
    if (size < 2 || size > 65536)
        return 0;
    uint64_t limit = (uint64_t)data[1] << (data[1] & 7);
    struct bytes in = bytes_of(data + 2, size - 2);
    int rc = gzip_inflate_all(in, limit, &out, &n);
    CHECK(gzip_inflated_bytes(in, limit, &counted) == rc);
    CHECK(rc != 0 || (n == counted && n <= limit));
    int sliced = inflate_slices(in, limit, 1 + (data[0] & 15), 1 + (data[0] >> 4), &total);
    CHECK(total <= limit && sliced == (rc == 0 ? 1 : rc) && (rc != 0 || total == n));
    free(out);
    return 0;
}
