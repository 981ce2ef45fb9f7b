#include "volume/md5_check.h"

#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

#define IN_BYTES (64u << 10)
#define OUT_BYTES (64u << 10)

void md5_check_init(struct md5_check *c, const struct stage *stage, struct bytes text, bool gzip, uint64_t limit_bytes)
{
    *c = (struct md5_check){.stage = stage, .limit_bytes = limit_bytes, .gzip = gzip};
    c->readable = md5_from_base64(text, c->want);
    md5_init(&c->md5);
}

void md5_check_release(struct md5_check *c)
{
    gzip_inflate_free(c->inflate);
    c->inflate = NULL;
}

static bool matches(struct md5_check *c)
{
    uint8_t got[MD5_BYTES];

    md5_final(&c->md5, got);
    md5_init(&c->md5);
    return memcmp(c->want, got, sizeof got) == 0;
}

static uint64_t left(const struct md5_check *c)
{
    return stage_bytes(c->stage) - c->pos;
}

/* The next bytes that were sent, into buf. */
static int read_some(const struct md5_check *c, char *buf, struct bytes *out)
{
    size_t n = left(c) < IN_BYTES ? (size_t)left(c) : IN_BYTES;

    *out = bytes_of(buf, n);
    return stage_read(c->stage, c->pos, buf, n);
}

static int step_as_sent(struct md5_check *c, char *buf)
{
    struct bytes in;

    for (uint64_t done = 0; done < MD5_CHECK_STEP_BYTES && left(c) > 0; done += in.n) {
        int rc = read_some(c, buf, &in);
        if (rc != 0)
            return rc;
        md5_update(&c->md5, in);
        c->pos += in.n;
    }
    if (left(c) > 0)
        return DFS_EAGAIN;
    if (matches(c))
        return 0;
    if (!c->gzip)
        return DFS_EINVAL;
    c->pos = 0;
    return gzip_inflate_new(c->limit_bytes, &c->inflate) == 0 ? DFS_EAGAIN : DFS_ENOMEM;
}

static int step_inflated(struct md5_check *c, char *buf)
{
    char *text = buf + IN_BYTES;

    for (uint64_t done = 0; done < MD5_CHECK_STEP_BYTES;) {
        struct bytes in;
        size_t n, had;
        int rc = read_some(c, buf, &in);
        if (rc != 0)
            return rc;
        had = in.n;
        rc = gzip_inflate_step(c->inflate, &in, had == left(c), text, OUT_BYTES, &n);
        if (rc < 0) /* no text, or too long a one: nothing that could match */
            return rc == DFS_ENOMEM ? rc : DFS_EINVAL;
        md5_update(&c->md5, bytes_of(text, n));
        if (rc == 1)
            return matches(c) ? 0 : DFS_EINVAL;
        c->pos += had - in.n;
        done += had - in.n + n;
    }
    return DFS_EAGAIN;
}

int md5_check_step(struct md5_check *c)
{
    char *buf;
    int rc;

    if (!c->readable)
        return DFS_EINVAL;
    buf = malloc(IN_BYTES + OUT_BYTES);
    if (buf == NULL)
        return DFS_ENOMEM;
    rc = c->inflate == NULL ? step_as_sent(c, buf) : step_inflated(c, buf);
    free(buf);
    return rc;
}
