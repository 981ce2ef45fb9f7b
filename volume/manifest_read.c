/* GET of a file that is kept in chunks: each chunk is fetched from a server that has it, in order, and passed on.
 *
 * A chunk here is fetched over our own address like any other: one way for all, and the loop never waits for itself because
 * every fetch is asynchronous. */
#include "volume/read_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/rand.h"
#include "volume/manifest.h"
#include "volume/relay.h"

#define CHUNK_TRIES 3u

struct manifest_read {
    struct read_op *op;
    struct manifest m;
    struct relay relay;
    struct volume_lookup_wait wait;
    bool open;          /* relay brings the chunk that is current */
    bool asked;         /* a look-up is on its way: the op is pending until it is answered */
    uint32_t chunk;     /* the current one */
    uint64_t pos;       /* of the next byte wanted */
    uint64_t end;       /* of the current fetch: chunk end, or range end */
    uint32_t tries;
    struct bytes piece; /* what the relay brought and is not handed out */
    int rc;
};

static int open_chunk(struct manifest_read *g);

void manifest_read_free(struct manifest_read *g)
{
    relay_release(&g->relay);
    manifest_release(&g->m);
    free(g);
}

bool manifest_read_stop(struct manifest_read *g)
{
    relay_release(&g->relay);
    g->open = false;
    return !g->asked;
}

static uint32_t chunk_at(const struct manifest *m, uint64_t off)
{
    uint32_t lo = 0, hi = m->count;
    while (lo + 1 < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->chunks[mid].offset <= off)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void arrived(struct manifest_read *g, int rc)
{
    if (g->rc == 0)
        g->rc = rc;
    read_op_arrived(g->op, rc, NULL);
}

static void on_head(struct relay *y, const struct http_head *head)
{
    struct manifest_read *g = (struct manifest_read *)((char *)y - offsetof(struct manifest_read, relay));
    const struct manifest_chunk *c = &g->m.chunks[g->chunk];
    bool whole = g->pos == c->offset && g->end == c->offset + c->bytes;
    bool fits = head->status == (whole ? 200 : 206) && (!head->has_length || head->content_length == g->end - g->pos);
    if (!fits)
        relay_refuse(y);
}

static void on_failed(struct relay *y, int rc)
{
    struct manifest_read *g = (struct manifest_read *)((char *)y - offsetof(struct manifest_read, relay));
    g->open = false;
    volume_lookup_forget(g->op->l->lookup, g->m.chunks[g->chunk].fid.volume_id);
    rc = g->tries < CHUNK_TRIES ? open_chunk(g) : DFS_EUNAVAILABLE;
    if (rc != DFS_EAGAIN)
        arrived(g, rc);
}

static void on_ready(struct relay *y)
{
    struct manifest_read *g = (struct manifest_read *)((char *)y - offsetof(struct manifest_read, relay));
    arrived(g, 0);
}

static int start_fetch(struct manifest_read *g, const struct addr *addr)
{
    const struct manifest_chunk *c = &g->m.chunks[g->chunk];
    char fid[FID_TEXT_MAX], target[FID_TEXT_MAX + 1], range[96];
    size_t n = fid_format(&c->fid, fid);
    target[0] = '/';
    memcpy(target + 1, fid, n);
    int len = 0;
    if (g->pos != c->offset || g->end != c->offset + c->bytes)
        len = snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n", g->pos - c->offset,
                       g->end - c->offset - 1);
    g->relay.on_head = on_head;
    g->relay.on_failed = on_failed;
    g->relay.on_ready = on_ready;
    int rc = relay_start(&g->relay, g->op->l->client, addr, bytes_of(target, n + 1), bytes_of(range, (size_t)len));
    g->open = rc == 0;
    return rc;
}

static int fetch_from(struct manifest_read *g, const struct volume_locations *at)
{
    struct volume_server *s = g->op->l->server;
    if (at->count == 0)
        return DFS_EUNAVAILABLE;
    const struct volume_location *v = &at->v[rand_below(at->count)];
    return start_fetch(g, strcmp(v->url, s->self_url) == 0 ? &s->self_addr : &v->addr);
}

static void on_locations(struct volume_lookup_wait *w, int rc, const struct volume_locations *at)
{
    struct manifest_read *g = w->arg;
    g->asked = false;
    if (rc == 0 && !g->op->orphan)
        rc = fetch_from(g, at);
    if (rc != 0 || g->op->orphan)
        arrived(g, rc != 0 ? rc : DFS_ECANCELLED);
    else
        arrived(g, 0);
}

/* Starts a fetch at g->pos.  0: it runs.  DFS_EAGAIN: when the look-up is answered. */
static int open_chunk(struct manifest_read *g)
{
    struct volume_server *s = g->op->l->server;
    uint32_t vid = g->m.chunks[g->chunk].fid.volume_id;
    const struct volume_locations *at;
    g->tries++;
    if (g->tries == 1 && store_find(s->store, vid) != NULL)
        return start_fetch(g, &s->self_addr);
    g->wait.done = on_locations;
    g->wait.arg = g;
    int rc = volume_lookup_get(s->loops[loop_index(g->op->l->loop)].lookup, vid, &g->wait, &at);
    g->asked = rc == DFS_EAGAIN;
    return rc == 0 ? fetch_from(g, at) : rc;
}

static int wait_more(struct manifest_read *g)
{
    g->op->pending = true;
    return DFS_EAGAIN;
}

static int fetch_chunks(struct read_op *op, uint64_t off, uint64_t want, struct http_piece *out)
{
    struct manifest_read *g = op->mf;
    for (;;) {
        if (g->rc != 0)
            return g->rc;
        if (g->open && off == g->pos && g->piece.n > 0) {
            size_t n = g->piece.n < want ? g->piece.n : want;
            out->mem = bytes_of(g->piece.p, n);
            g->piece = bytes_of(g->piece.p + n, g->piece.n - n);
            g->pos += n;
            return 0;
        }
        if (!g->open || off != g->pos || g->pos == g->end) {
            relay_release(&g->relay);
            g->open = false;
            g->piece = BYTES_NONE;
            g->chunk = chunk_at(&g->m, off);
            const struct manifest_chunk *c = &g->m.chunks[g->chunk];
            g->pos = off;
            g->end = c->offset + c->bytes - off < want ? c->offset + c->bytes : off + want;
            g->tries = 0;
            int rc = open_chunk(g);
            if (rc == DFS_EAGAIN)
                return wait_more(g);
            if (rc != 0)
                return rc;
        }
        int rc = relay_take(&g->relay, &g->piece);
        if (rc == DFS_EAGAIN)
            return wait_more(g);
        if (rc == 1)
            return DFS_ESHORT; /* less than the chunk's size */
        if (rc != 0)
            return rc;
        if (g->piece.n > g->end - g->pos)
            return DFS_EPROTO;
    }
}

void manifest_answer(struct read_op *op)
{
    struct http_req *r = op->r;
    struct manifest_read *g = NULL;
    int rc = DFS_ETOOBIG;
    if (op->nr.in_memory)
        rc = read_keep_data(op);
    if (rc == 0 && (g = calloc(1, sizeof *g)) == NULL)
        rc = DFS_ENOMEM;
    if (rc == 0)
        rc = manifest_parse_stored(op->nr.data, (op->nr.needle.flags & NEEDLE_COMPRESSED) != 0, &g->m);
    if (rc == DFS_ENOMEM) {
        free(g);
        read_op_release(op);
        vs_reply_refused(r, 503, "manifest", "no memory for a chunk manifest");
        return;
    }
    if (rc != 0) { /* cm=true was said of something else: the bytes are all there is to give */
        free(g);
        op->raw_manifest = true;
        read_stored(op);
        return;
    }
    g->op = op;
    op->mf = g;
    op->nr.needle.flags &= (uint8_t)~NEEDLE_COMPRESSED; /* what is answered is not */
    op->fetch = fetch_chunks;
    if (g->m.name[0] != '\0')
        op->nr.needle.name = bytes_str(g->m.name);
    if (g->m.mime[0] != '\0')
        op->nr.needle.mime = bytes_str(g->m.mime);
    read_answer(op, g->m.size, false);
}
