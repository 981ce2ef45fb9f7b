/* Bodies that do not go out in one piece: large needles, several ranges, inflated data. */
#include "volume/read_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

static const char trailer[] = "\r\n--" READ_BOUNDARY "--\r\n";

static size_t part_head(struct read_op *op, uint32_t i, char out[512])
{
    const struct http_range *g = &op->ranges[i];
    int n = snprintf(out, 512, "%s--" READ_BOUNDARY "\r\nContent-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64
                     "\r\nContent-Type: %.*s\r\n\r\n", i == 0 ? "" : "\r\n", g->first, g->first + g->count - 1, op->length,
                     (int)(op->type.n < NEEDLE_MIME_MAX ? op->type.n : NEEDLE_MIME_MAX), op->type.p);
    return (size_t)n;
}

uint64_t read_multipart_bytes(struct read_op *op)
{
    uint64_t sum = sizeof trailer - 1;
    for (uint32_t i = 0; i < op->range_count; i++)
        sum += part_head(op, i, op->part_head) + op->ranges[i].count;
    return sum;
}

static struct bytes keep_view(char **at, struct bytes b)
{
    if (b.n == 0)
        return b;
    memcpy(*at, b.p, b.n);
    *at += b.n;
    return bytes_of(*at - b.n, b.n);
}

int read_keep_data(struct read_op *op)
{
    struct needle *n = &op->nr.needle;
    if (op->copy != NULL || !op->nr.in_memory)
        return 0;
    op->copy = malloc(op->nr.data.n + n->name.n + n->mime.n + n->pairs.n + 1);
    if (op->copy == NULL)
        return DFS_ENOMEM;
    char *at = op->copy;
    bool type_is_mime = op->type.p != NULL && op->type.p == n->mime.p;
    op->nr.data = keep_view(&at, op->nr.data);
    n->name = keep_view(&at, n->name);
    n->mime = keep_view(&at, n->mime);
    n->pairs = keep_view(&at, n->pairs);
    if (type_is_mime)
        op->type = n->mime;
    return 0;
}

static int read_fetch_needle(struct read_op *op, uint64_t off, uint64_t want, struct http_piece *out)
{
    if (op->nr.in_memory) {
        *out = (struct http_piece){.mem = bytes_of(op->nr.data.p + off, want)};
        return 0;
    }
    int rc = needle_read_piece(&op->nr, off, want, out);
    op->pending = rc == DFS_EAGAIN;
    if (rc == DFS_ECORRUPT)
        server_metrics_event(&op->l->server->metrics, EVENT_CRC);
    return rc;
}

static uint64_t piece_bytes(const struct http_piece *p)
{
    return p->is_file ? p->bytes : p->mem.n;
}

static int next_piece(struct http_source *src, struct http_piece *out)
{
    struct read_op *op = (struct read_op *)((char *)src - offsetof(struct read_op, src));
    if (op->range_i < op->range_count && op->range_pos == op->ranges[op->range_i].count) {
        op->range_i++;
        op->range_pos = 0;
        op->part_head_out = false;
    }
    memset(out, 0, sizeof *out);
    if (op->range_i == op->range_count) {
        if (!op->multi || op->trailer_out)
            return 1;
        op->trailer_out = true;
        out->mem = bytes_of(trailer, sizeof trailer - 1);
        return 0;
    }
    if (op->multi && !op->part_head_out) {
        op->part_head_out = true;
        out->mem = bytes_of(op->part_head, part_head(op, op->range_i, op->part_head));
        return 0;
    }
    const struct http_range *g = &op->ranges[op->range_i];
    int rc = op->fetch(op, g->first + op->range_pos, g->count - op->range_pos, out);
    if (rc == 0)
        op->range_pos += piece_bytes(out);
    else if (rc == DFS_EAGAIN)
        read_op_hold(op);
    return rc;
}

static void free_source(struct http_source *src)
{
    read_op_abandon((struct read_op *)((char *)src - offsetof(struct read_op, src)));
}

void read_body_start(struct read_op *op, uint64_t body_bytes)
{
    struct http_req *r = op->r;
    if (op->fetch == NULL)
        op->fetch = read_fetch_needle;
    if (!op->head && op->fetch == read_fetch_needle && read_keep_data(op) != 0) {
        http_req_abort(r);
        read_op_release(op);
        return;
    }
    if (op->params != NULL) { /* lives in the request's memory, which may go first */
        if (op->multi) {
            struct bytes kept = vs_keep(r, op->type);
            if (kept.p != NULL)
                op->type = kept;
        }
        http_params_release(op->params);
        op->params = NULL;
    }
    op->in_body = true;
    op->src.next = next_piece;
    op->src.free = free_source;
    http_reply_source(r, &op->src, body_bytes);
}
