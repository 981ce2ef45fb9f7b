/* gRPC, server side: connections, requests, answers. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/grpc_internal.h"
#include "net/listener.h"
#include "net/log.h"

struct grpc_server {
    struct grpc_server_options opts;
    struct listener *listener;
    struct loop *loop; /* opts.loop, as the listener's list of one */
    struct grpc_conn_list conns;
    uint32_t conn_count;
    struct grpc_memory memory;
    bool draining;
    uint32_t *path_lengths; /* of opts.methods, so that most are told apart without reading them */
};

/* ---- requests ---- */

static const struct grpc_method *find_method(const struct grpc_server *s, struct bytes path)
{
    for (uint32_t i = 0; i < s->opts.method_count; i++)
        if (s->path_lengths[i] == path.n && memcmp(s->opts.methods[i].path, path.p, path.n) == 0)
            return &s->opts.methods[i];
    return NULL;
}

static void take_path(struct grpc_call *call, struct bytes path)
{
    if (call->conn->server != NULL)
        call->method = find_method(call->conn->server, path);
    if (call->method != NULL)
        return;
    size_t n = path.n < GRPC_PATH_MAX ? path.n : GRPC_PATH_MAX;
    memcpy(call->path, path.p, n);
    call->path[n] = '\0';
}

void server_header(struct grpc_call *call, struct bytes name, struct bytes value)
{
    if (call->headers_seen) /* trailers of a request mean nothing to gRPC */
        return;
    switch (name.n) {
    case 5:
        if (bytes_eq(name, BYTES_LIT(":path")))
            take_path(call, value);
        return;
    case 7:
        if (bytes_eq(name, BYTES_LIT(":method")))
            call->bad_method = !bytes_eq(value, BYTES_LIT("POST"));
        return;
    case 12:
        if (bytes_eq(name, BYTES_LIT("content-type")))
            call->content_type_seen = grpc_is_content_type(value);
        else if (bytes_eq(name, BYTES_LIT("grpc-timeout")) && grpc_timeout_parse(value, &call->timeout_ms) != 0)
            call->bad_timeout = true;
        return;
    default:
        return;
    }
}

/* Not gRPC at all: an answer that HTTP clients understand, too. */
static void refuse_request(struct grpc_call *call, const char *http_status, const char *why)
{
    nghttp2_nv nv[] = {
        GRPC_NV_COPY(":status", http_status, strlen(http_status)),
        GRPC_NV("content-type", "application/grpc"),
        GRPC_NV("grpc-status", "13"),
        GRPC_NV_COPY("grpc-message", why, strlen(why)),
    };
    call_submitted(call, nghttp2_submit_response(h2_session(call->conn->h2), call->stream_id, nv, 4, NULL));
    call->responded = call->out_ended = true;
    call->status = GRPC_INTERNAL;
}

void server_headers(struct grpc_call *call)
{
    if (call->headers_seen)
        return;
    call->headers_seen = true;
    if (call->bad_method) {
        refuse_request(call, "405", "gRPC requests are POST");
    } else if (!call->content_type_seen) {
        refuse_request(call, "415", "the content-type is not application/grpc");
    } else if (call->bad_timeout) {
        refuse_request(call, "400", "malformed grpc-timeout");
    } else if (call->method == NULL) {
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "unknown method %s", call->path);
    } else {
        size_t max = call->method->message_bytes_max;
        grpc_reader_init(&call->reader, max != 0 ? max : GRPC_MESSAGE_MAX_DEFAULT);
        call->ops = call->method->ops;
        if (call->timeout_ms != 0)
            conn_set_deadline(call, call->timeout_ms);
        if (call->ops->on_open != NULL)
            call->ops->on_open(call);
    }
}

/* ---- answers ---- */

static const nghttp2_data_provider provider = {.read_callback = call_fill};

void server_respond(struct grpc_call *call)
{
    if (call->responded || call->stream_id == 0)
        return;
    nghttp2_nv nv[] = {GRPC_NV(":status", "200"), GRPC_NV("content-type", "application/grpc")};
    call->responded = true;
    call_submitted(call, nghttp2_submit_response(h2_session(call->conn->h2), call->stream_id, nv, 2, &provider));
}

/* Status and message as they go out; nv has room for two. */
static size_t status_fields(const struct grpc_call *call, nghttp2_nv *nv, char status[4],
                            char message[3 * GRPC_STATUS_MESSAGE_MAX])
{
    int status_n = snprintf(status, 4, "%u", (unsigned)call->status & 0xff);
    nv[0] = (nghttp2_nv)GRPC_NV_COPY("grpc-status", status, (size_t)status_n);
    if (call->message_n == 0)
        return 1;
    size_t n = grpc_percent_encode(bytes_of(call->message, call->message_n), message, 3 * GRPC_STATUS_MESSAGE_MAX);
    nv[1] = (nghttp2_nv)GRPC_NV_COPY("grpc-message", message, n);
    return 2;
}

int server_submit_trailers(struct grpc_call *call)
{
    nghttp2_nv nv[2];
    char status[4], message[3 * GRPC_STATUS_MESSAGE_MAX];
    size_t n = status_fields(call, nv, status, message);
    return nghttp2_submit_trailer(h2_session(call->conn->h2), call->stream_id, nv, n);
}

/* No message went out, none waits: headers and trailers are one block. */
static void submit_trailers_only(struct grpc_call *call)
{
    char status[4], message[3 * GRPC_STATUS_MESSAGE_MAX];
    nghttp2_nv nv[4] = {GRPC_NV(":status", "200"), GRPC_NV("content-type", "application/grpc")};
    size_t n = 2 + status_fields(call, nv + 2, status, message);
    call->responded = true;
    call_submitted(call, nghttp2_submit_response(h2_session(call->conn->h2), call->stream_id, nv, n, NULL));
}

static void finish(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    call->status = status;
    call_set_message(call, message);
    call->out_ended = true;
    if (!call->responded && call->out_bytes == 0)
        submit_trailers_only(call);
    else
        call_wake_sender(call);
    h2_touch(call->conn->h2);
}

/* A cut in the middle of a character would make peers throw the whole message away. */
static size_t cut_utf8(const char *p, size_t n)
{
    size_t i = n;
    while (i > 0 && n - i < 3 && ((uint8_t)p[i - 1] & 0xc0) == 0x80)
        i--;
    return i > 0 && (uint8_t)p[i - 1] >= 0xc0 ? i - 1 : n;
}

void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
{
    CHECK(call->server);
    if (call->closed || call->out_ended || call->stream_id == 0)
        return;
    char text[GRPC_STATUS_MESSAGE_MAX + 1];
    int n = 0;
    if (fmt != NULL) {
        va_list ap;
        va_start(ap, fmt);
        n = vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
    }
    size_t len = n > 0 ? (size_t)n : 0;
    if (len >= sizeof text)
        len = cut_utf8(text, sizeof text - 1);
    finish(call, status, bytes_of(text, len));
}

void grpc_call_reply(struct grpc_call *call, const ProtobufCMessage *message)
{
    int rc = grpc_call_send(call, message);
    if (rc == DFS_ENOMEM)
        finish(call, GRPC_RESOURCE_EXHAUSTED, BYTES_LIT("out of memory"));
    else if (rc == 0)
        finish(call, GRPC_OK, BYTES_NONE);
}

/* The client's clock is up as well, so the answer is a courtesy; a message half sent rules it out. */
void server_deadline(struct grpc_call *call)
{
    if (!call->responded && !call->out_ended) {
        finish(call, GRPC_DEADLINE_EXCEEDED, BYTES_LIT("deadline exceeded"));
    } else {
        call_reset_stream(call, NGHTTP2_CANCEL);
    }
    conn_close_call(call, GRPC_DEADLINE_EXCEEDED, BYTES_LIT("deadline exceeded"));
}

/* ---- connections ---- */

static void peer_text(const struct sockaddr_storage *ss, char out[ADDR_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";
    uint16_t port = 0;
    bool v6 = ss->ss_family == AF_INET6;
    if (ss->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        port = ntohs(in->sin_port);
    } else if (v6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        port = ntohs(in6->sin6_port);
    }
    snprintf(out, ADDR_TEXT_MAX, v6 ? "[%s]:%u" : "%s:%u", host, port);
}

static bool at_limit(const struct grpc_server *s)
{
    static struct log_gate gate;
    uint64_t swallowed;
    if (s->conn_count < GRPC_CONNECTIONS_MAX)
        return false;
    if (log_every(&gate, 10000, &swallowed))
        log_warning("gRPC port %u has its limit of %u connections, refused one (and %llu before)", s->opts.port,
                    GRPC_CONNECTIONS_MAX, (unsigned long long)swallowed);
    return true;
}

static void on_accept(void *arg, struct loop *loop, int fd, const struct sockaddr_storage *peer)
{
    struct grpc_server *s = arg;
    struct grpc_conn *conn;
    if (s->draining || at_limit(s) || conn_new(loop, true, GRPC_STREAMS_MAX, &conn) != 0) {
        close(fd);
        return;
    }
    conn->server = s;
    conn->server_arg = s->opts.arg;
    conn->memory = &s->memory;
    peer_text(peer, conn->peer);
    TAILQ_INSERT_TAIL(&s->conns, conn, entry);
    s->conn_count++;
    h2_accept(conn->h2, fd);
}

static void forget_conn(struct grpc_conn *conn)
{
    if (conn->server == NULL)
        return;
    TAILQ_REMOVE(&conn->server->conns, conn, entry);
    conn->server->conn_count--;
    conn->server = NULL;
    conn->memory = NULL;
}

void server_conn_down(struct grpc_conn *conn)
{
    conn_end(conn, GRPC_CANCELLED, "the client is gone");
    forget_conn(conn); /* last, for its calls are counted in the server */
}

int grpc_server_new(const struct grpc_server_options *o, struct grpc_server **out)
{
    int rc = DFS_ENOMEM;
    struct grpc_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return rc;
    s->opts = *o;
    s->loop = o->loop;
    TAILQ_INIT(&s->conns);
    s->path_lengths = calloc(o->method_count + 1, sizeof *s->path_lengths);
    if (s->path_lengths == NULL)
        goto fail;
    for (uint32_t i = 0; i < o->method_count; i++) {
        CHECK(o->methods[i].ops->on_message != NULL && o->methods[i].ops->on_closed != NULL);
        s->path_lengths[i] = (uint32_t)strlen(o->methods[i].path);
    }
    struct listener_options lo = {
        .accept_loop = o->loop,
        .loops = &s->loop,
        .loop_count = 1,
        .host = o->host,
        .port = o->port,
        .on_accept = on_accept,
        .arg = s,
    };
    rc = listener_new(&lo, &s->listener);
    if (rc != 0)
        goto fail;
    *out = s;
    return 0;
fail:
    free(s->path_lengths);
    free(s);
    return rc;
}

void grpc_server_drain(struct grpc_server *s)
{
    if (s->draining)
        return;
    s->draining = true;
    listener_stop(s->listener);
    struct grpc_conn *conn;
    TAILQ_FOREACH(conn, &s->conns, entry)
        h2_drain(conn->h2);
}

uint32_t grpc_server_connections(const struct grpc_server *s)
{
    return s->conn_count;
}

void grpc_server_free(struct grpc_server *s)
{
    if (s == NULL)
        return;
    s->draining = true;
    listener_free(s->listener);
    struct grpc_conn *conn;
    while ((conn = TAILQ_FIRST(&s->conns)) != NULL) {
        forget_conn(conn);
        conn_end(conn, GRPC_CANCELLED, "the server is shutting down");
    }
    free(s->path_lengths);
    free(s);
}
