/* gzip with zlib, bounded. */
#include "net/gzip.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "needle/check.h"
#include "needle/err.h"

#define GZIP_WINDOW (15 + 16) /* 32 KB, gzip framing and its check sum */
#define INFLATE_FIRST_CAP 4096u
#define INFLATE_SCRATCH 65536u

bool gzip_looks_like(struct bytes head)
{
    return head.n >= 3 && memcmp(head.p, "\x1f\x8b\x08", 3) == 0;
}

/* zlib counts in unsigned int. */
static uInt clamp(size_t n)
{
    return n < UINT_MAX ? (uInt)n : UINT_MAX;
}

int gzip_compress(struct bytes in, int level, void *out, size_t cap, size_t *n)
{
    z_stream z = {0};
    size_t in_left = in.n, out_left = cap;
    int rc = DFS_ETOOBIG, zrc = Z_OK;

    CHECK(level >= 1 && level <= 9);
    if (deflateInit2(&z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return DFS_ENOMEM;
    z.next_in = (Bytef *)(uintptr_t)in.p;
    z.next_out = out;
    while (out_left > 0) {
        uInt give = clamp(in_left), take = clamp(out_left);
        z.avail_in = give;
        z.avail_out = take;
        zrc = deflate(&z, give == in_left ? Z_FINISH : Z_NO_FLUSH);
        in_left -= give - z.avail_in;
        out_left -= take - z.avail_out;
        if (zrc == Z_STREAM_END) {
            *n = cap - out_left;
            rc = 0;
            break;
        }
        CHECK(zrc == Z_OK || zrc == Z_BUF_ERROR);
    }
    deflateEnd(&z);
    return rc;
}

enum inflate_state { INFLATE_BETWEEN, INFLATE_MEMBER, INFLATE_DONE };

struct gzip_inflate {
    z_stream z;
    uint64_t limit, total;
    int rc;
    enum inflate_state state;
    bool any;     /* a member was complete */
    bool padding; /* zero bytes were seen behind it */
};

int gzip_inflate_new(uint64_t limit, struct gzip_inflate **out)
{
    struct gzip_inflate *g = calloc(1, sizeof *g);
    if (g == NULL)
        return DFS_ENOMEM;
    if (inflateInit2(&g->z, GZIP_WINDOW) != Z_OK) {
        free(g);
        return DFS_ENOMEM;
    }
    g->limit = limit;
    *out = g;
    return 0;
}

void gzip_inflate_free(struct gzip_inflate *g)
{
    if (g == NULL)
        return;
    inflateEnd(&g->z);
    free(g);
}

uint64_t gzip_inflate_total(const struct gzip_inflate *g)
{
    return g->total;
}

/* Before a member: skips padding, then starts the next one.  Returns whether there is input for it. */
static int between_members(struct gzip_inflate *g, struct bytes *in)
{
    while (g->any && in->n > 0 && in->p[0] == '\0') {
        g->padding = true;
        *in = bytes_of(in->p + 1, in->n - 1);
    }
    if (in->n == 0)
        return 0;
    if (g->padding)
        return DFS_ECORRUPT;
    if (g->any && inflateReset(&g->z) != Z_OK)
        return DFS_ECORRUPT;
    g->state = INFLATE_MEMBER;
    return 0;
}

/* Inflates what fits.  One byte of room beyond the limit tells "just fits" from "too big". */
static int inflate_some(struct gzip_inflate *g, struct bytes *in, void *out, size_t cap, size_t *n)
{
    char probe;
    uint64_t left = g->limit - g->total;
    bool at_limit = left == 0;
    uInt give = clamp(in->n), take = at_limit ? 1 : clamp(left < cap ? (size_t)left : cap);

    g->z.next_in = (Bytef *)(uintptr_t)in->p;
    g->z.avail_in = give;
    g->z.next_out = at_limit ? (Bytef *)&probe : out;
    g->z.avail_out = take;
    int zrc = inflate(&g->z, Z_NO_FLUSH);
    size_t made = take - g->z.avail_out;
    *in = bytes_of(in->p + (give - g->z.avail_in), in->n - (give - g->z.avail_in));
    if (at_limit && made > 0)
        return DFS_ETOOBIG;
    *n += made;
    g->total += made;
    switch (zrc) {
    case Z_STREAM_END:
        g->any = true;
        g->state = INFLATE_BETWEEN;
        return 0;
    case Z_OK:
    case Z_BUF_ERROR:
        return 0;
    case Z_MEM_ERROR:
        return DFS_ENOMEM;
    default:
        return DFS_ECORRUPT;
    }
}

static int step(struct gzip_inflate *g, struct bytes *in, bool last, char *out, size_t cap, size_t *n)
{
    int rc;
    for (;;) {
        if (g->state == INFLATE_DONE)
            return 1;
        if (g->state == INFLATE_BETWEEN && (rc = between_members(g, in)) != 0)
            return rc;
        if (g->state == INFLATE_BETWEEN) {
            if (!last)
                return 0;
            if (!g->any)
                return DFS_ECORRUPT;
            g->state = INFLATE_DONE;
            continue;
        }
        size_t had_in = in->n, had_out = *n;
        if (*n == cap)
            return 0;
        if ((rc = inflate_some(g, in, out + *n, cap - *n, n)) != 0)
            return rc;
        if (g->state == INFLATE_MEMBER && in->n == had_in && *n == had_out) /* nothing moved: it wants input */
            return last && in->n == 0 ? DFS_ECORRUPT : 0;
    }
}

int gzip_inflate_step(struct gzip_inflate *g, struct bytes *in, bool last, void *out, size_t cap, size_t *n)
{
    CHECK(cap > 0);
    *n = 0;
    int rc = g->rc;
    if (rc == 0)
        rc = step(g, in, last, out, cap, n);
    if (rc < 0)
        g->rc = rc;
    return rc;
}

int gzip_inflated_bytes(struct bytes in, uint64_t limit, uint64_t *n)
{
    struct gzip_inflate *g = NULL;
    char *scratch = malloc(INFLATE_SCRATCH);
    size_t got;
    int rc = scratch != NULL ? gzip_inflate_new(limit, &g) : DFS_ENOMEM;

    while (rc == 0)
        rc = gzip_inflate_step(g, &in, true, scratch, INFLATE_SCRATCH, &got);
    if (rc == 1) {
        *n = g->total;
        rc = 0;
    }
    gzip_inflate_free(g);
    free(scratch);
    return rc;
}

int gzip_inflate_all(struct bytes in, uint64_t limit, char **out, size_t *n)
{
    struct gzip_inflate *g = NULL;
    char *buf = NULL;
    size_t cap = 0, len = 0, got;
    int rc = gzip_inflate_new(limit, &g);

    while (rc == 0) {
        if (len == cap) {
            /* Grown as output comes, never by what the data claims; one byte so that a full buffer can learn its end. */
            size_t want = cap == 0 ? INFLATE_FIRST_CAP : cap * 2;
            if (want > limit + 1 && limit < SIZE_MAX)
                want = (size_t)limit + 1;
            if (want <= cap)
                want = cap + 1;
            char *p = realloc(buf, want);
            if (p == NULL) {
                rc = DFS_ENOMEM;
                break;
            }
            buf = p;
            cap = want;
        }
        rc = gzip_inflate_step(g, &in, true, buf + len, cap - len, &got);
        if (rc >= 0)
            len += got;
    }
    gzip_inflate_free(g);
    if (rc != 1) {
        free(buf);
        return rc;
    }
    *out = buf;
    *n = len;
    return 0;
}
