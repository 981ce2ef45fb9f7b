/* Stored gzip for a client that does not take it: inflated in slices, on the work pool when it is more than a little.
 *
 * The length must stand in the answer's head, so the text is inflated once to be counted and, unless it fits one buffer, once
 * more to be sent.  What the data says about its own length is not believed; beyond the limit for uploads it is refused. */
#include "volume/read_op.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/gzip.h"
#include "volume/disk.h"

#define GUNZIP_OUT_BYTES (256u * 1024u)
/* Up to so much is done on the loop. */
#define GUNZIP_INLINE_IN 8192u
#define GUNZIP_INLINE_OUT 65536u

struct gunzip {
    struct read_op *op;
    struct gzip_inflate *z;
    uint64_t limit;

    /* stored bytes */
    uint64_t in_pos;        /* of what comes behind `in` */
    struct bytes in;        /* not used yet */
    struct http_piece file; /* is_file: to be read into in_buf by the worker */
    bool need_read;
    char *in_buf;

    /* inflated bytes */
    char *out;
    size_t out_n;
    uint64_t out_pos;       /* of out[0] in the text */
    bool ended;
    bool counting;
    int rc;

    struct work work;
};

static void advance(struct gunzip *g);

void gunzip_free(struct gunzip *g)
{
    if (g->z != NULL)
        gzip_inflate_free(g->z);
    free(g->in_buf);
    free(g->out);
    free(g);
}

static int restart(struct gunzip *g)
{
    if (g->z != NULL)
        gzip_inflate_free(g->z);
    g->z = NULL;
    g->in_pos = 0;
    g->in = BYTES_NONE;
    g->need_read = false;
    g->out_n = 0;
    g->out_pos = 0;
    g->ended = false;
    return gzip_inflate_new(g->limit, &g->z);
}

/* One buffer of text, as far as the input at hand goes.  Worker, or the loop for little. */
static void inflate_some(struct gunzip *g, size_t cap)
{
    bool last = g->in_pos == g->op->nr.needle.data_bytes;
    if (g->need_read) {
        g->need_read = false;
        g->rc = disk_read(g->file.fd, g->in_buf, g->file.bytes, g->file.file_pos, NULL);
        g->in = bytes_of(g->in_buf, g->file.bytes);
        if (g->rc != 0)
            return;
    }
    size_t n;
    int rc = gzip_inflate_step(g->z, &g->in, last, g->out + g->out_n, cap - g->out_n, &n);
    if (rc >= 0)
        g->out_n += n;
    g->ended = rc == 1;
    g->rc = rc < 0 ? rc : 0;
}

static void run_inflate(struct work *w)
{
    inflate_some((struct gunzip *)((char *)w - offsetof(struct gunzip, work)), GUNZIP_OUT_BYTES);
}

static void fail(struct read_op *op, int rc)
{
    struct http_req *r = op->r;
    uint64_t limit = op->gz->limit;
    read_op_release(op);
    if (rc == DFS_ETOOBIG)
        vs_reply_refused(r, 413, "inflated", "the inflated content is over the limit of %" PRIu64
                         " bytes; ask with Accept-Encoding: gzip", limit);
    else if (rc == DFS_ENOMEM)
        vs_reply_error(r, 503, "out of memory");
    else
        vs_reply_refused(r, 500, "gzip", "cannot inflate this file: %s", dfs_err_text(rc));
}

static int fetch_text(struct read_op *op, uint64_t off, uint64_t want, struct http_piece *out);

/* The text is counted: answer with it. */
static void counted(struct read_op *op)
{
    struct gunzip *g = op->gz;
    uint64_t total = g->out_pos + g->out_n;
    bool whole = g->out_pos == 0;
    g->counting = false;
    op->fetch = fetch_text;
    int rc = whole ? 0 : restart(g);
    if (rc != 0)
        fail(op, rc);
    else
        read_answer(op, total, false);
}

static void stepped(struct read_op *op, int rc)
{
    (void)rc;
    struct gunzip *g = op->gz;
    if (g->rc != 0) {
        fail(op, g->rc);
        return;
    }
    if (g->ended) {
        counted(op);
        return;
    }
    if (g->out_n == GUNZIP_OUT_BYTES) { /* more than one buffer: only its length is wanted now */
        g->out_pos += g->out_n;
        g->out_n = 0;
    }
    advance(g);
}

static void done_inflate(struct work *w)
{
    struct gunzip *g = (struct gunzip *)((char *)w - offsetof(struct gunzip, work));
    read_op_arrived(g->op, 0, stepped);
}

/* Makes sure that there is input (or that there is none left).  DFS_EAGAIN: the engine brings it. */
static int feed(struct gunzip *g)
{
    struct read_op *op = g->op;
    uint64_t all = op->nr.needle.data_bytes;
    if (g->in.n > 0 || g->in_pos == all)
        return 0;
    if (op->nr.in_memory) {
        g->in = op->nr.data;
        g->in_pos = all;
        return 0;
    }
    if (g->in_buf == NULL && (g->in_buf = malloc(GUNZIP_OUT_BYTES)) == NULL)
        return DFS_ENOMEM;
    uint64_t want = all - g->in_pos < GUNZIP_OUT_BYTES ? all - g->in_pos : GUNZIP_OUT_BYTES;
    int rc = needle_read_piece(&op->nr, g->in_pos, want, &g->file);
    if (rc != 0)
        return rc;
    if (g->file.is_file) {
        if (g->file.bytes > GUNZIP_OUT_BYTES)
            g->file.bytes = GUNZIP_OUT_BYTES;
        g->need_read = true;
        g->in_pos += g->file.bytes;
        g->in = bytes_of(g->in_buf, g->file.bytes);
    } else {
        size_t n = g->file.mem.n < GUNZIP_OUT_BYTES ? g->file.mem.n : GUNZIP_OUT_BYTES;
        memcpy(g->in_buf, g->file.mem.p, n);
        g->in = bytes_of(g->in_buf, n);
        g->in_pos += n;
    }
    return 0;
}

static void resume_feed(struct read_op *op, int rc)
{
    if (rc != 0)
        fail(op, rc);
    else
        advance(op->gz);
}

static void submit(struct gunzip *g)
{
    struct read_op *op = g->op;
    op->pending = true;
    read_op_hold(op);
    g->work = (struct work){.loop = op->l->loop, .run = run_inflate, .done = done_inflate};
    work_submit(op->l->server->pool, &g->work);
}

/* While counting. */
static void advance(struct gunzip *g)
{
    struct read_op *op = g->op;
    int rc = feed(g);
    if (rc == DFS_EAGAIN) {
        op->pending = true;
        op->after_read = resume_feed;
        read_op_hold(op);
        return;
    }
    if (rc != 0) {
        fail(op, rc);
        return;
    }
    submit(g);
}

/* The body's source asks: text at `off`, which only ever goes forward, or back to an earlier range. */
static int fetch_text(struct read_op *op, uint64_t off, uint64_t want, struct http_piece *out)
{
    struct gunzip *g = op->gz;
    if (g->rc != 0)
        return g->rc;
    if (off < g->out_pos) {
        int rc = restart(g);
        if (rc != 0)
            return rc;
    }
    if (off < g->out_pos + g->out_n) {
        uint64_t skip = off - g->out_pos, have = g->out_n - skip;
        out->mem = bytes_of(g->out + skip, have < want ? have : want);
        return 0;
    }
    if (g->ended)
        return DFS_ECORRUPT;
    g->out_pos += g->out_n;
    g->out_n = 0;
    int rc = feed(g);
    if (rc == DFS_EAGAIN)
        op->pending = true;
    if (rc != 0)
        return rc;
    submit(g);
    return DFS_EAGAIN;
}

/* Little enough for the loop?  The claim of the data is only a guess: the buffer's bound holds. */
static bool inflate_inline(struct gunzip *g)
{
    struct bytes data = g->op->nr.data;
    if (!g->op->nr.in_memory || data.n > GUNZIP_INLINE_IN || data.n < 18)
        return false;
    const unsigned char *t = (const unsigned char *)data.p + data.n - 4;
    uint32_t claim = t[0] | (uint32_t)t[1] << 8 | (uint32_t)t[2] << 16 | (uint32_t)t[3] << 24;
    if (claim > GUNZIP_INLINE_OUT)
        return false;
    g->in = data;
    g->in_pos = data.n;
    inflate_some(g, GUNZIP_INLINE_OUT + 1);
    return g->rc != 0 || g->ended;
}

void gunzip_answer(struct read_op *op)
{
    struct http_req *r = op->r;
    if (op->nr.in_memory && !gzip_looks_like(op->nr.data)) { /* the flag lies: as it is */
        read_answer(op, op->nr.needle.data_bytes, false);
        return;
    }
    struct gunzip *g = calloc(1, sizeof *g);
    if (g == NULL || (g->out = malloc(GUNZIP_OUT_BYTES)) == NULL) {
        free(g);
        read_op_release(op);
        vs_reply_error(r, 503, "out of memory");
        return;
    }
    g->op = op;
    g->limit = op->l->server->o.file_limit_bytes;
    g->counting = true;
    op->gz = g;
    int rc = restart(g);
    if (rc != 0) {
        fail(op, rc);
        return;
    }
    if (inflate_inline(g)) {
        stepped(op, 0);
        return;
    }
    /* Data of a read that came at once is only there for this step. */
    if ((rc = read_keep_data(op)) != 0 || (rc = restart(g)) != 0) {
        fail(op, rc);
        return;
    }
    advance(g);
}
