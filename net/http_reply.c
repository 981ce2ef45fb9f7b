/* Building replies: a head text that grows in the exchange, then one of the ways to finish. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_conn.h"
#include "net/jsonw.h"

#define MESSAGE_BYTES_MAX 1024u
#define CANNED_BYTES_MAX 2048u
#define REPLY_TAIL_ROOM 256u /* for the lines that end a head, whatever a handler adds */

/* ---- text ---- */

static bool reserve(struct http_exchange *x, size_t n)
{
    struct exchange_out *o = &x->out;
    if (o->text_cap - o->text_len >= n)
        return true;
    size_t cap = o->text_cap;
    while (cap - o->text_len < n)
        cap *= 2;
    if (cap > REPLY_HEAD_MAX)
        return false;
    char *bigger = o->text == x->text_inline ? malloc(cap) : realloc(o->text, cap);
    if (bigger == NULL)
        return false;
    if (o->text == x->text_inline)
        memcpy(bigger, o->text, o->text_len);
    o->text = bigger;
    o->text_cap = (uint32_t)cap;
    return true;
}

/* Room was reserved. */
static void put(struct exchange_out *o, struct bytes b)
{
    memcpy(o->text + o->text_len, b.p, b.n);
    o->text_len += (uint32_t)b.n;
}

static bool append(struct http_exchange *x, struct bytes b)
{
    if (b.n == 0)
        return true;
    if (!reserve(x, b.n))
        return false;
    put(&x->out, b);
    return true;
}

static struct bytes decimal(char buf[24], uint64_t v)
{
    char *end = buf + 24, *p = end;
    do
        *--p = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    return bytes_of(p, (size_t)(end - p));
}

/* ---- head ---- */

static void begin(struct http_exchange *x, int status)
{
    struct exchange_out *o = &x->out;
    /* By hand: formatting it cost a fifth of what a small GET takes outside the kernel. */
    char line[] = "HTTP/1.1 200 ";
    line[7] = (char)('0' + x->req.head.minor);
    line[9] = (char)('0' + status / 100);
    line[10] = (char)('0' + status / 10 % 10);
    line[11] = (char)('0' + status % 10);
    o->text_len = o->text_off = 0;
    append(x, bytes_of(line, sizeof line - 1));
    append(x, bytes_str(http_status_text(status)));
    append(x, BYTES_LIT("\r\n"));
    append(x, lane_date(x->req.conn->lane));
    if (x->req.cors)
        append(x, BYTES_LIT("Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n"));
    o->begun = true;
    x->req.status = status;
}

void http_reply_begin(struct http_req *r, int status)
{
    CHECK(status >= 200 && status <= 599);
    CHECK(!r->replied || r->dead);
    if (!r->dead)
        begin(exchange_of(r), status);
}

/* Names that only the server itself says: a stored header of that name would let an uploader frame our replies. */
static bool is_ours(struct bytes name)
{
    static const struct bytes ours[] = {
        BYTES_LIT("connection"), BYTES_LIT("content-length"), BYTES_LIT("date"), BYTES_LIT("keep-alive"),
        BYTES_LIT("server"), BYTES_LIT("trailer"), BYTES_LIT("transfer-encoding"), BYTES_LIT("upgrade"),
    };
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (bytes_ieq(name, ours[i]))
            return true;
    return false;
}

void http_reply_header(struct http_req *r, const char *name, struct bytes value)
{
    struct http_exchange *x = exchange_of(r);
    if (r->dead)
        return;
    CHECK(x->out.begun && !r->replied);
    struct bytes n = bytes_str(name);
    size_t line = n.n + value.n + 4;
    bool fits = line < REPLY_HEAD_MAX && x->out.text_len + line + REPLY_TAIL_ROOM <= REPLY_HEAD_MAX;
    if (!http_is_token(n) || !http_is_value(value) || is_ours(n) || !fits || !reserve(x, line)) {
        STAT_ADD(r->conn->lane, dropped_headers, 1);
        return;
    }
    put(&x->out, n);
    put(&x->out, BYTES_LIT(": "));
    if (value.n > 0)
        put(&x->out, value);
    put(&x->out, BYTES_LIT("\r\n"));
}

void http_reply_headerf(struct http_req *r, const char *name, const char *fmt, ...)
{
    char value[MESSAGE_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof value) {
        STAT_ADD(r->conn->lane, dropped_headers, 1);
        return;
    }
    http_reply_header(r, name, bytes_of(value, (size_t)n));
}

static bool has_body(const struct http_req *r)
{
    return r->head.method != HTTP_HEAD && r->status != 204 && r->status != 304;
}

/* Whether the connection can go on after this reply although the body is not all here. */
static void settle_body(struct http_exchange *x)
{
    const struct http_conn *c = x->req.conn;
    struct exchange_body *b = &x->body;
    if (b->done)
        return;
    bool none_yet = x->req.body_bytes == 0 && c->buf_pos == c->buf_len;
    bool unasked = x->req.head.expect_continue && !b->continued && none_yet;
    /* A client that waits for "100 Continue" may now send the body or not: the next bytes could be either. */
    if (unasked || (!x->req.head.chunked && b->left > c->lane->server->opts.skip_body_max))
        x->close_after = true;
    b->unwanted = true;
    b->paused = false;
}

/* Content-Length (or what stands for it), Connection, empty line.  False: out of memory, the connection is killed. */
static bool end_head(struct http_exchange *x, uint64_t length)
{
    struct http_req *r = &x->req;
    char digits[24];
    bool framed = r->status != 204 && r->status != 304;
    settle_body(x);
    x->close_after |= r->conn->lane->draining || x->out.close_delimited;
    if (!reserve(x, REPLY_TAIL_ROOM - CHUNK_FRAME_MAX)) {
        conn_kill(r->conn, true);
        return false;
    }
    if (framed && length != HTTP_LENGTH_UNKNOWN) {
        put(&x->out, BYTES_LIT("Content-Length: "));
        put(&x->out, decimal(digits, length));
        put(&x->out, BYTES_LIT("\r\n"));
    } else if (framed && x->out.chunked) {
        put(&x->out, BYTES_LIT("Transfer-Encoding: chunked\r\n"));
    }
    if (x->close_after)
        put(&x->out, BYTES_LIT("Connection: close\r\n"));
    else if (r->head.connection_keep_alive_sent)
        put(&x->out, BYTES_LIT("Connection: keep-alive\r\n"));
    put(&x->out, BYTES_LIT("\r\n"));
    return true;
}

/* ---- finishing ---- */

void http_reply_iov(struct http_req *r, const struct bytes *pieces, uint32_t count)
{
    struct http_exchange *x = exchange_of(r);
    CHECK(count <= REPLY_PIECES_MAX);
    CHECK(r->dead || (x->out.begun && !r->replied));
    r->replied = true;
    if (r->dead)
        return;
    uint64_t length = 0;
    for (uint32_t i = 0; i < count; i++)
        length += pieces[i].n;
    if (end_head(x, length))
        out_send(r->conn, x, pieces, has_body(r) ? count : 0);
    conn_run(r->conn);
}

void http_reply_bytes(struct http_req *r, struct bytes body)
{
    http_reply_iov(r, &body, body.n > 0 ? 1 : 0);
}

void http_reply_source(struct http_req *r, struct http_source *src, uint64_t length)
{
    struct http_exchange *x = exchange_of(r);
    CHECK(r->dead || (x->out.begun && !r->replied));
    r->replied = true;
    bool body = has_body(r);
    if (src != NULL && (r->dead || !body)) {
        src->free(src);
        src = NULL;
    }
    if (r->dead)
        return;
    CHECK(src != NULL || !body);
    x->out.chunked = body && length == HTTP_LENGTH_UNKNOWN && r->head.minor > 0;
    x->out.close_delimited = body && length == HTTP_LENGTH_UNKNOWN && r->head.minor == 0;
    x->out.source = src;
    x->out.source_left = length;
    if (end_head(x, length) && body && !reserve(x, CHUNK_FRAME_MAX))
        conn_kill(r->conn, true);
    if (!r->dead && !body)
        out_send(r->conn, x, NULL, 0);
    conn_run(r->conn);
}

void reply_restart(struct http_exchange *x, int rc)
{
    x->req.replied = false;
    x->out.chunked = x->out.close_delimited = false;
    http_reply_error(&x->req, http_status_from_err(rc), "cannot read the body: %s", dfs_err_text(rc));
}

/* ---- whole replies ---- */

void http_reply_empty(struct http_req *r, int status)
{
    http_reply_begin(r, status);
    http_reply_bytes(r, BYTES_NONE);
}

__attribute__((format(printf, 2, 0))) static int format_message(char *out, const char *fmt, va_list ap)
{
    int n = vsnprintf(out, MESSAGE_BYTES_MAX, fmt, ap);
    return n < 0 ? 0 : (uint32_t)n >= MESSAGE_BYTES_MAX ? (int)MESSAGE_BYTES_MAX - 1 : n;
}

void http_reply_text(struct http_req *r, int status, const char *fmt, ...)
{
    char text[MESSAGE_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = format_message(text, fmt, ap);
    va_end(ap);
    http_reply_begin(r, status);
    http_reply_header(r, "Content-Type", BYTES_LIT("text/plain; charset=utf-8"));
    http_reply_bytes(r, bytes_of(text, (size_t)n));
}

static void add_retry_after(struct http_req *r, int status)
{
    if (status == 429 || status == 503)
        http_reply_header(r, "Retry-After", BYTES_LIT("1"));
}

void http_reply_json_text(struct http_req *r, int status, struct bytes text)
{
    http_reply_begin(r, status);
    http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
    add_retry_after(r, status);
    http_reply_bytes(r, text);
}

/* {"error":"..."}, valid until jsonw_release(w). */
static struct bytes error_json(struct jsonw *w, struct bytes message)
{
    struct bytes json;
    jsonw_init(w, false);
    jsonw_object(w);
    jsonw_put_string(w, "error", message);
    jsonw_object_end(w);
    return jsonw_done(w, &json) == 0 ? json : BYTES_LIT("{\"error\":\"out of memory\"}");
}

void http_reply_error_body(struct http_req *r, struct bytes message)
{
    struct jsonw w;
    http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
    http_reply_bytes(r, error_json(&w, message));
    jsonw_release(&w);
}

void http_reply_error(struct http_req *r, int status, const char *fmt, ...)
{
    char text[MESSAGE_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = format_message(text, fmt, ap);
    va_end(ap);
    http_reply_begin(r, status);
    add_retry_after(r, status);
    http_reply_error_body(r, bytes_of(text, (size_t)n));
}

void reply_canned(struct http_conn *c, int status, const char *text)
{
    char out[CANNED_BYTES_MAX];
    struct jsonw w;
    struct bytes body = error_json(&w, bytes_str(text));
    struct bytes date = lane_date(c->lane);
    int n = snprintf(out, sizeof out,
                     "HTTP/1.1 %d %s\r\n%.*sContent-Type: application/json\r\nContent-Length: %zu\r\n"
                     "%sConnection: close\r\n\r\n%.*s",
                     status, http_status_text(status), (int)date.n, date.p, body.n,
                     status == 503 ? "Retry-After: 1\r\n" : "", (int)body.n, body.p);
    jsonw_release(&w);
    if ((size_t)n >= sizeof out)
        n = (int)sizeof out - 1;
    /* As far as it goes: the connection closes anyway. */
    ssize_t put_bytes = send(c->fd, out, (size_t)n, MSG_NOSIGNAL);
    (void)put_bytes;
}
