#include "volume/body_check.h"

#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

#define IN_BYTES (64u << 10)
#define OUT_BYTES (64u << 10)

void body_check_init(struct body_check *c, const struct stage *stage, bool md5_wanted, struct bytes md5_text, bool gzip,
                     uint64_t limit_bytes)
{
    *c = (struct body_check){.stage = stage, .limit_bytes = limit_bytes, .md5_wanted = md5_wanted, .gzip = gzip};
    c->readable = !md5_wanted || md5_from_base64(md5_text, c->want);
    md5_init(&c->as_sent);
    md5_init(&c->of_text);
}

void body_check_release(struct body_check *c)
{
    gzip_inflate_free(c->inflate);
    free(c->kept);
    c->inflate = NULL;
    c->kept = NULL;
}

bool body_check_is_little(const struct body_check *c)
{
    return stage_in_memory(c->stage) &&
           stage_bytes(c->stage) <= (c->gzip ? BODY_CHECK_INLINE_GZIP_BYTES : BODY_CHECK_INLINE_BYTES);
}

uint64_t body_check_text_bytes(const struct body_check *c)
{
    return c->gzip ? gzip_inflate_total(c->inflate) : stage_bytes(c->stage);
}

static uint64_t left(const struct body_check *c)
{
    return stage_bytes(c->stage) - c->pos;
}

/* Room for a slice, as long as one can be. */
static int begin(struct body_check *c)
{
    c->kept = malloc(left(c) < IN_BYTES ? (size_t)left(c) + 1 : IN_BYTES);
    if (c->kept == NULL)
        return DFS_ENOMEM;
    return c->gzip ? gzip_inflate_new(c->limit_bytes, &c->inflate) : 0;
}

/* The next bytes that were sent. */
static int read_some(struct body_check *c)
{
    size_t n = left(c) < IN_BYTES ? (size_t)left(c) : IN_BYTES;
    int rc = stage_read(c->stage, c->pos, c->kept, n);

    if (rc != 0)
        return rc;
    c->in = bytes_of(c->kept, n);
    c->pos += n;
    if (c->md5_wanted)
        md5_update(&c->as_sent, c->in);
    return 0;
}

static bool equals(const struct body_check *c, struct md5 *md5)
{
    uint8_t got[MD5_BYTES];

    md5_final(md5, got);
    return memcmp(c->want, got, sizeof got) == 0;
}

static int judge(struct body_check *c)
{
    if (!c->md5_wanted || equals(c, &c->as_sent) || (c->gzip && equals(c, &c->of_text)))
        return 0;
    return DFS_EINVAL;
}

static int step_as_sent(struct body_check *c, uint64_t step_bytes)
{
    for (uint64_t done = 0; done < step_bytes && left(c) > 0; done += c->in.n) {
        int rc = read_some(c);

        if (rc != 0)
            return rc;
    }
    return left(c) > 0 ? DFS_EAGAIN : judge(c);
}

static int step_inflated(struct body_check *c, uint64_t step_bytes, char *text)
{
    for (uint64_t done = 0; done < step_bytes;) {
        size_t had, n;
        int rc = c->in.n == 0 && left(c) > 0 ? read_some(c) : 0;

        if (rc != 0)
            return rc;
        had = c->in.n;
        rc = gzip_inflate_step(c->inflate, &c->in, left(c) == 0, text, OUT_BYTES, &n);
        if (rc < 0)
            return rc;
        if (c->md5_wanted)
            md5_update(&c->of_text, bytes_of(text, n));
        if (rc == 1)
            return judge(c);
        done += had - c->in.n + n;
    }
    return DFS_EAGAIN;
}

int body_check_step(struct body_check *c, uint64_t step_bytes)
{
    char *text;
    int rc = c->readable ? 0 : DFS_EINVAL;

    if (rc == 0 && c->kept == NULL)
        rc = begin(c);
    if (rc != 0)
        return rc;
    if (!c->gzip)
        return step_as_sent(c, step_bytes);
    text = malloc(OUT_BYTES);
    if (text == NULL)
        return DFS_ENOMEM;
    rc = step_inflated(c, step_bytes, text);
    free(text);
    return rc;
}
