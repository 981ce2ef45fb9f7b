/* A multipart body, twice: in one piece, and in pieces and pauses that the input itself chooses.  Both must tell the same.
 * The first byte chooses, the second is the length of the boundary, then boundary and body. */
#include <stdint.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sink {
    uint64_t hash; /* of parts and data, in order */
    uint64_t bytes;
    unsigned pause_every;
};

static void mix(struct sink *s, struct bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        s->hash = (s->hash ^ (uint8_t)b.p[i]) * UINT64_C(1099511628211);
}

static int on_part(void *arg, const struct multipart_part *part)
{
    struct sink *s = arg;
    mix(s, BYTES_LIT("part"));
    mix(s, part->name);
    mix(s, part->filename);
    mix(s, part->content_type);
    for (uint32_t i = 0; i < part->header_count; i++) {
        CHECK(part->headers[i].name.n > 0);
        mix(s, part->headers[i].name);
        mix(s, part->headers[i].value);
    }
    CHECK(part->filename.n == 0 || memchr(part->filename.p, '/', part->filename.n) == NULL);
    return 0;
}

static int on_data(void *arg, struct bytes data, size_t *taken)
{
    struct sink *s = arg;
    size_t n = data.n;
    CHECK(n > 0);
    bool pause = s->pause_every != 0 && n >= s->pause_every;
    if (pause)
        n = s->pause_every;
    mix(s, bytes_of(data.p, n));
    s->bytes += n;
    *taken = n;
    return pause ? DFS_EAGAIN : 0;
}

static const struct multipart_ops ops = {on_part, on_data};

static int run(struct bytes boundary, struct bytes body, size_t piece, struct sink *s)
{
    struct multipart *m;
    int rc = multipart_new(boundary, &ops, s, &m);
    if (rc != 0)
        return rc;
    for (size_t at = 0; at < body.n && rc == 0;) {
        size_t n = body.n - at < piece ? body.n - at : piece, used = 0;
        char *copy = malloc(n); /* of its own, so that a read beyond it is seen */
        CHECK(copy != NULL);
        memcpy(copy, body.p + at, n);
        rc = multipart_feed(m, bytes_of(copy, n), &used);
        free(copy);
        CHECK(used <= n && (rc != 0 || used == n));
        if (rc == DFS_EAGAIN)
            rc = 0;
        at += used;
    }
    if (rc == 0)
        rc = multipart_end(m);
    multipart_free(m);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sink whole = {0}, pieces = {0};
    if (size < 2 || size > 65536)
        return 0;
    size_t boundary_n = data[1] < size - 2 ? data[1] : size - 2;
    struct bytes boundary = bytes_of(data + 2, boundary_n);
    struct bytes body = bytes_of(data + 2 + boundary_n, size - 2 - boundary_n);
    pieces.pause_every = data[0] >> 5;
    int a = run(boundary, body, 65536, &whole);
    int b = run(boundary, body, 1 + (data[0] & 31), &pieces);
    CHECK(a == b);
    CHECK(a != 0 || (whole.hash == pieces.hash && whole.bytes == pieces.bytes));
    return 0;
}
