/* Replies on their way out: one sendmsg() for head and body, sendfile() for file pieces, a copy only of what the socket did
 * not take.  sendmsg() instead of writev(), because it can be told not to raise SIGPIPE and that more will follow. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_conn.h"

/* What one attempt to send came to. */
enum sent {
    SENT_ALL,
    SENT_PART,
    SENT_FAILED,
};

static enum sent fail(struct http_conn *c)
{
    conn_kill(c, true);
    return SENT_FAILED;
}

static void count_sent(struct http_exchange *x, size_t n)
{
    x->req.sent_bytes += n;
    x->out.started |= n > 0;
}

/* Sends the pieces from `*done` on; *done moves. */
static enum sent send_pieces(struct http_conn *c, struct http_exchange *x, const struct bytes *pieces, uint32_t count,
                             size_t total, size_t *done, int flags)
{
    while (*done < total) {
        struct iovec iov[REPLY_PIECES_MAX + 1];
        size_t skip = *done;
        uint32_t n = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (skip >= pieces[i].n) {
                skip -= pieces[i].n;
                continue;
            }
            iov[n++] = (struct iovec){(char *)pieces[i].p + skip, pieces[i].n - skip};
            skip = 0;
        }
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
        ssize_t put = sendmsg(c->fd, &msg, MSG_NOSIGNAL | flags);
        if (put == -1 && errno == EINTR)
            continue;
        if (put == -1 && errno == EAGAIN)
            return SENT_PART;
        if (put == -1)
            return fail(c);
        *done += (size_t)put;
        count_sent(x, (size_t)put);
    }
    return SENT_ALL;
}

/* ---- replies from memory ---- */

static void keep_rest(struct http_conn *c, struct exchange_out *o, const struct bytes *pieces, uint32_t count,
                      size_t total, size_t done)
{
    o->rest = malloc(total - done);
    if (o->rest == NULL) {
        conn_kill(c, true);
        return;
    }
    size_t skip = done;
    for (uint32_t i = 0; i < count; i++) {
        size_t from = skip < pieces[i].n ? skip : pieces[i].n;
        skip -= from;
        if (pieces[i].n > from)
            memcpy(o->rest + o->rest_len, pieces[i].p + from, pieces[i].n - from);
        o->rest_len += pieces[i].n - from;
    }
}

void out_send(struct http_conn *c, struct http_exchange *x, const struct bytes *pieces, uint32_t count)
{
    struct exchange_out *o = &x->out;
    struct bytes all[REPLY_PIECES_MAX + 1];
    size_t total = o->text_len, done = 0;
    all[0] = bytes_of(o->text, o->text_len);
    for (uint32_t i = 0; i < count; i++) {
        all[i + 1] = pieces[i];
        total += pieces[i].n;
    }
    switch (send_pieces(c, x, all, count + 1, total, &done, 0)) {
    case SENT_ALL:
        o->sent = true;
        break;
    case SENT_PART:
        keep_rest(c, o, all, count + 1, total, done);
        break;
    case SENT_FAILED:
        break;
    }
}

static enum flush flush_rest(struct http_conn *c, struct http_exchange *x)
{
    struct exchange_out *o = &x->out;
    struct bytes rest = bytes_of(o->rest, o->rest_len);
    switch (send_pieces(c, x, &rest, 1, o->rest_len, &o->rest_off, 0)) {
    case SENT_ALL:
        free(o->rest);
        o->rest = NULL;
        return FLUSH_DONE;
    case SENT_PART:
        return FLUSH_WAIT;
    case SENT_FAILED:
        break;
    }
    return FLUSH_FAILED;
}

/* ---- replies from a source ---- */

static void free_source(struct exchange_out *o)
{
    if (o->source == NULL)
        return;
    o->source->free(o->source);
    o->source = NULL;
}

/* The line before a chunk, and before it the end of the chunk before.  For the first chunk it goes behind the unsent head;
 * later it has the text's place to itself. */
static void frame_chunk(struct exchange_out *o, unsigned long long n)
{
    if (o->text_off == o->text_len)
        o->text_off = o->text_len = 0;
    CHECK(o->text_cap - o->text_len >= CHUNK_FRAME_MAX); /* http_reply_source() has seen to it */
    int len = snprintf(o->text + o->text_len, CHUNK_FRAME_MAX, "%s%llx\r\n%s", o->framed ? "\r\n" : "", n,
                       n == 0 ? "\r\n" : "");
    o->text_len += (uint32_t)len;
    o->framed = true;
}

static uint64_t piece_bytes(const struct http_piece *p)
{
    return p->is_file ? p->bytes : p->mem.n;
}

/* The body is over, or cannot go on. */
static enum flush end_source(struct http_conn *c, struct exchange_out *o, int rc)
{
    bool whole = rc == 1 && (o->source_left == 0 || o->source_left == HTTP_LENGTH_UNKNOWN);
    free_source(o);
    o->source_ended = true;
    if (!whole) {
        conn_kill(c, true);
        return FLUSH_FAILED;
    }
    if (o->chunked)
        frame_chunk(o, 0);
    return FLUSH_DONE;
}

/* Asks for the next piece: FLUSH_DONE when there is one or the end is reached. */
static enum flush next_piece(struct http_conn *c, struct http_exchange *x)
{
    struct exchange_out *o = &x->out;
    o->source_waits = o->source_ready = false;
    int rc = o->source->next(o->source, &o->piece);
    if (x->req.dead)
        return FLUSH_FAILED;
    if (rc == DFS_EAGAIN) {
        o->source_waits = !o->source_ready;
        return o->source_waits ? FLUSH_WAIT : FLUSH_YIELD;
    }
    if (rc != 0 && rc != 1 && !o->started) {
        free_source(o);
        reply_restart(x, rc);
        return FLUSH_YIELD;
    }
    if (rc != 0)
        return end_source(c, o, rc);
    uint64_t n = piece_bytes(&o->piece);
    if (n == 0)
        return FLUSH_YIELD; /* an empty chunk would be the last one */
    if (o->source_left != HTTP_LENGTH_UNKNOWN) {
        if (n > o->source_left)
            return end_source(c, o, DFS_EINVAL); /* more than was announced would be taken for the next reply */
        o->source_left -= n;
    }
    o->has_piece = true;
    if (o->chunked)
        frame_chunk(o, n);
    return FLUSH_DONE;
}

/* Head or framing text and, when it is in memory, the piece. */
static enum sent send_memory(struct http_conn *c, struct http_exchange *x, size_t *budget)
{
    struct exchange_out *o = &x->out;
    bool file = o->has_piece && o->piece.is_file && o->piece.bytes > 0;
    struct bytes all[2] = {bytes_of(o->text + o->text_off, o->text_len - o->text_off), BYTES_NONE};
    if (o->has_piece && !o->piece.is_file)
        all[1] = o->piece.mem;
    size_t total = all[0].n + all[1].n, done = 0;
    if (total == 0)
        return SENT_ALL;
    enum sent s = send_pieces(c, x, all, 2, total, &done, file ? MSG_MORE : 0);
    size_t text = done < all[0].n ? done : all[0].n;
    o->text_off += (uint32_t)text;
    if (o->has_piece && !o->piece.is_file) {
        o->piece.mem.p += done - text;
        o->piece.mem.n -= done - text;
    }
    *budget -= done < *budget ? done : *budget;
    return s;
}

static enum sent send_file(struct http_conn *c, struct http_exchange *x, size_t *budget)
{
    struct http_piece *p = &x->out.piece;
    while (p->bytes > 0 && *budget > 0) {
        off_t pos = (off_t)p->file_pos;
        size_t want = p->bytes < SENDFILE_BYTES_MAX ? (size_t)p->bytes : SENDFILE_BYTES_MAX;
        ssize_t n = sendfile(c->fd, p->fd, &pos, want);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1 && errno == EAGAIN)
            return SENT_PART;
        if (n <= 0)
            return fail(c); /* 0: the file is shorter than it should be, and the reply with it */
        p->file_pos += (uint64_t)n;
        p->bytes -= (uint64_t)n;
        count_sent(x, (size_t)n);
        *budget -= (size_t)n < *budget ? (size_t)n : *budget;
    }
    return p->bytes == 0 ? SENT_ALL : SENT_PART;
}

static enum flush flush_source(struct http_conn *c, struct http_exchange *x)
{
    struct exchange_out *o = &x->out;
    size_t budget = SEND_BYTES_MAX;
    for (;;) {
        if (!o->has_piece && !o->source_ended) {
            enum flush f = next_piece(c, x);
            if (f != FLUSH_DONE)
                return f;
        }
        enum sent s = send_memory(c, x, &budget);
        if (s == SENT_ALL && o->has_piece && o->piece.is_file)
            s = send_file(c, x, &budget);
        if (s == SENT_FAILED)
            return FLUSH_FAILED;
        if (s == SENT_PART)
            return budget > 0 ? FLUSH_WAIT : FLUSH_YIELD;
        if (o->source_ended)
            return FLUSH_DONE;
        o->has_piece = false;
        if (budget == 0)
            return FLUSH_YIELD;
    }
}

enum flush out_flush(struct http_conn *c, struct http_exchange *x)
{
    struct exchange_out *o = &x->out;
    if (o->source_waits)
        return FLUSH_WAIT;
    return o->rest != NULL ? flush_rest(c, x) : flush_source(c, x);
}

void http_source_ready(struct http_req *r)
{
    struct exchange_out *o = &exchange_of(r)->out;
    o->source_ready = true;
    o->source_waits = false;
    conn_run(r->conn);
}

void out_release(struct http_exchange *x)
{
    struct exchange_out *o = &x->out;
    free_source(o);
    free(o->rest);
    o->rest = NULL;
    if (o->text != x->text_inline)
        free(o->text);
    o->text = NULL;
}
