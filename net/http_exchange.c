/* One request and its reply: begins when the head is parsed, ends when the reply is sent, the body is over and nobody holds
 * it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "needle/check.h"
#include "net/clock.h"
#include "net/http_conn.h"

static void init_exchange(struct http_conn *c, struct http_exchange *x)
{
    struct http_req *r = &x->req;
    struct http_server *s = c->lane->server;
    r->server = s;
    r->conn = c;
    r->loop = c->lane->loop;
    r->user = NULL;
    r->direct = NULL;
    r->server_arg = s->opts.arg;
    r->start_ns = c->first_byte_ns;
    r->body_bytes = r->sent_bytes = 0;
    r->dead = r->replied = r->cors = false;
    r->status = 0;
    x->holds = 0;
    x->shown = false;
    x->close_after = !r->head.keep_alive || c->lane->draining;
    x->head_buf = NULL;
    x->body = (struct exchange_body){.left = r->head.content_length};
    x->body.done = !r->head.chunked && r->head.content_length == 0;
    if (r->head.chunked)
        http_chunked_init(&x->body.chunked);
    x->out = (struct exchange_out){.text = x->text_inline, .text_cap = REPLY_HEAD_INLINE};
    x->arena = (struct exchange_arena){0};
    x->peer.ss_family = AF_UNSPEC;
    x->peer_text[0] = '\0';
}

static void free_arena(struct http_exchange *x)
{
    while (x->arena.blocks != NULL) {
        struct arena_block *block = x->arena.blocks;
        x->arena.blocks = block->next;
        free(block);
    }
}

/* The one place where an exchange ends. */
static void end_exchange(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    out_release(x);
    if (x->shown)
        c->lane->server->opts.handler->on_close(&x->req);
    CHECK(x->holds == 0);
    free_arena(x);
    lane_put_buffer(c->lane, x->head_buf, x->head_buf_cap);
    c->x = NULL;
    c->head_end = 0;
    lane_put_exchange(c->lane, x);
    if (conn_buffered(c) == 0)
        conn_release_buffer(c);
    else
        c->first_byte_ns = clock_mono_ns();
}

static void send_continue(struct http_conn *c, struct http_exchange *x)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ssize_t n = send(c->fd, text, sizeof text - 1, MSG_NOSIGNAL);
    x->body.continued = true;
    /* When the socket is full the client sends after a while even so; half a line is beyond mending. */
    if (n > 0 && (size_t)n < sizeof text - 1)
        conn_kill(c, true);
}

void exchange_start(struct http_conn *c, struct http_exchange *x)
{
    c->x = x;
    c->buf_pos += x->req.head.head_bytes;
    c->head_end = c->buf_pos;
    c->scanned = 0;
    init_exchange(c, x);
    STAT_ADD(c->lane, requests, 1);
    if (x->req.head.expect_other) {
        x->close_after = true;
        http_reply_error(&x->req, 417, "only 100-continue can be expected");
        return;
    }
    x->shown = true;
    c->lane->server->opts.handler->on_request(&x->req);
    if (x->req.head.expect_continue && !x->req.replied && !x->req.dead && !x->body.done && conn_buffered(c) == 0)
        send_continue(c, x);
}

/* ---- steps ---- */

void exchange_fed(struct http_conn *c, struct http_exchange *x, enum feed f)
{
    switch (f) {
    case FEED_MORE:
    case FEED_PAUSED:
        break;
    case FEED_DONE:
        x->body.done = true;
        break;
    case FEED_BAD:
        STAT_ADD(c->lane, bad_requests, 1);
        conn_refuse(c, 400, "malformed chunked body");
        break;
    case FEED_STOP:
        if (!x->req.replied)
            conn_kill(c, true);
        x->close_after = true;
        break;
    }
}

/* What of the body is in the buffer already. */
static enum step step_body(struct http_conn *c, struct http_exchange *x)
{
    if (x->body.paused || (x->req.replied && x->close_after))
        return STEP_WAIT;
    if (!x->req.head.chunked && x->body.left == 0) { /* the handler took the last bytes, but wanted to be asked again */
        x->body.done = true;
        return STEP_AGAIN;
    }
    if (conn_buffered(c) > 0) {
        size_t used;
        enum feed f = body_feed(c, x, bytes_of(c->buf + c->buf_pos, conn_buffered(c)), &used);
        c->buf_pos += (uint32_t)used;
        if (conn_buffered(c) == 0)
            conn_forget_kept(c);
        exchange_fed(c, x, f);
        return f == FEED_PAUSED ? STEP_WAIT : STEP_AGAIN;
    }
    if (c->eof) {
        x->close_after = true;
        if (x->req.replied)
            return STEP_WAIT;
        STAT_ADD(c->lane, bad_requests, 1);
        conn_refuse(c, 400, "request body was cut short");
        return STEP_AGAIN;
    }
    if (c->more) /* the buffer was full: there is more in the socket */
        return body_read(c, x) ? STEP_AGAIN : STEP_WAIT;
    return STEP_WAIT;
}

static enum step answer_forgotten(struct http_conn *c, struct http_exchange *x)
{
    STAT_ADD(c->lane, unanswered, 1);
    http_reply_error(&x->req, 500, "request was not answered");
    return STEP_AGAIN;
}

static enum step step_end(struct http_conn *c, struct http_exchange *x)
{
    x->body.ended = true;
    if (!x->req.replied)
        c->lane->server->opts.handler->on_end(&x->req);
    return STEP_AGAIN;
}

/* The reply is in the socket. */
static enum step step_sent(struct http_conn *c, struct http_exchange *x)
{
    if (x->holds > 0 || (!x->body.done && !x->close_after))
        return STEP_WAIT;
    bool close_now = x->close_after, unread_body = !x->body.done;
    end_exchange(c);
    if (close_now && c->fd != -1)
        conn_close(c, unread_body);
    return STEP_AGAIN;
}

static enum step step_flush(struct http_conn *c, struct http_exchange *x)
{
    switch (out_flush(c, x)) {
    case FLUSH_DONE:
        x->out.sent = true;
        return STEP_AGAIN;
    case FLUSH_FAILED:
        return STEP_AGAIN;
    case FLUSH_YIELD:
        return STEP_YIELD;
    case FLUSH_WAIT:
        break;
    }
    return STEP_WAIT;
}

enum step exchange_step(struct http_conn *c)
{
    struct http_exchange *x = c->x;
    if (conn_is_gone(c)) {
        if (x->holds > 0)
            return STEP_WAIT;
        end_exchange(c);
        return STEP_AGAIN;
    }
    if (!x->body.done) {
        enum step s = step_body(c, x);
        if (s != STEP_WAIT)
            return s;
    } else if (!x->body.ended) {
        return step_end(c, x);
    }
    if (x->req.replied && !x->out.sent)
        return step_flush(c, x);
    if (x->out.sent)
        return step_sent(c, x);
    /* Not replied: its body is on its way, or its handler holds it, or has forgotten it. */
    if (x->body.ended && x->holds == 0)
        return answer_forgotten(c, x);
    return STEP_WAIT;
}
