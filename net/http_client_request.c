/* The text of a request, checked so that no target and no header can end the head early. */
#include <stdlib.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_client_internal.h"
#include "net/number_text.h"

static const char *const method_texts[] = {
    [HTTP_GET] = "GET", [HTTP_HEAD] = "HEAD", [HTTP_POST] = "POST", [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE",
    [HTTP_OPTIONS] = "OPTIONS",
};

static bool target_ok(struct bytes target)
{
    if (target.n == 0 || target.n > HTTP_TARGET_MAX || (target.p[0] != '/' && !bytes_eq(target, BYTES_LIT("*"))))
        return false;
    for (size_t i = 0; i < target.n; i++)
        if ((unsigned char)target.p[i] <= ' ' || target.p[i] == 0x7f)
            return false;
    return true;
}

/* Whole lines, none of them empty: an empty one would end the head early and make the rest a body. */
static bool headers_ok(struct bytes h)
{
    size_t line = 0;
    if (h.n > HTTP_HEAD_MAX / 2)
        return false;
    for (size_t i = 0; i < h.n; i++) {
        char c = h.p[i];
        if (c == '\0' || (c == '\n' && (i == 0 || h.p[i - 1] != '\r')))
            return false;
        if (c == '\r' && (line == 0 || i + 1 == h.n || h.p[i + 1] != '\n'))
            return false;
        line = c == '\n' ? 0 : line + 1;
    }
    return line == 0;
}

static char *put(char *w, const char *s, size_t n)
{
    if (n > 0)
        memcpy(w, s, n);
    return w + n;
}

static int build_text(struct http_call *call, const struct http_call_request *req, uint64_t body_bytes)
{
    const char *method = method_texts[req->method];
    const struct client_peer *peer = call->peer;
    size_t need = strlen(method) + req->target.n + peer->host_n + req->headers.n + NUMBER_TEXT_MAX + 64;
    bool with_length = call->has_body || req->method == HTTP_POST || req->method == HTTP_PUT;

    if (need > call->text_cap) {
        size_t cap = need < 512 ? 512 : need;
        char *text = realloc(call->text, cap);
        if (text == NULL)
            return DFS_ENOMEM;
        call->text = text;
        call->text_cap = cap;
    }
    char *w = put(call->text, method, strlen(method));
    *w++ = ' ';
    w = put(w, req->target.p, req->target.n);
    w = put(w, " HTTP/1.1\r\nHost: ", 17);
    w = put(w, peer->host_text, peer->host_n);
    w = put(w, "\r\n", 2);
    if (with_length) {
        char number[NUMBER_TEXT_MAX];
        w = put(w, "Content-Length: ", 16);
        w = put(w, number, number_text_u64(body_bytes, number));
        w = put(w, "\r\n", 2);
    }
    w = put(w, req->headers.p, req->headers.n);
    w = put(w, "\r\n", 2);
    call->text_n = (size_t)(w - call->text);
    call->send_bytes = call->text_n + body_bytes;
    return 0;
}

static int copy_pieces(struct http_call *call, const struct http_call_request *req, uint64_t *body_bytes)
{
    *body_bytes = 0;
    call->pieces = call->inline_pieces;
    call->piece_count = 0;
    if (req->body_count > CLIENT_INLINE_PIECES) {
        struct bytes *pieces = malloc(req->body_count * sizeof *pieces);
        if (pieces == NULL)
            return DFS_ENOMEM;
        call->pieces = pieces;
    }
    for (uint32_t i = 0; i < req->body_count; i++) {
        if (req->body[i].n == 0)
            continue;
        call->pieces[call->piece_count++] = req->body[i];
        *body_bytes += req->body[i].n;
    }
    call->has_body = *body_bytes > 0;
    return 0;
}

bool client_request_ok(const struct http_call_request *req)
{
    return req->method < HTTP_OTHER && target_ok(req->target) && headers_ok(req->headers);
}

int client_request_build(struct http_call *call, const struct http_call_request *req)
{
    uint64_t body_bytes;
    int rc = copy_pieces(call, req, &body_bytes);
    return rc != 0 ? rc : build_text(call, req, body_bytes);
}
