/* gRPC, client side: channels, requests, unary calls in one go. */
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/grpc_internal.h"

/* A caller that starts anew whenever a call fails must not turn into a storm of connects. */
#define DIAL_INTERVAL_MS 100u

struct grpc_channel {
    struct loop *loop;
    struct addr addr;
    struct sockaddr_storage to;
    socklen_t to_len;
    struct grpc_channel_ops ops;
    void *arg;
    struct grpc_conn *current; /* new calls go here; NULL = dial first */
    struct grpc_conn_list conns; /* current, and older ones that end their calls */
    struct grpc_memory memory;
    size_t message_bytes_max;
    uint64_t dial_ms; /* of the last attempt; 0 = none */
    bool freed;
    char authority[ADDR_TEXT_MAX];
};

/* ---- channels ---- */

int grpc_channel_new(struct loop *loop, const struct addr *addr, const struct grpc_channel_ops *ops, void *arg,
                     struct grpc_channel **out)
{
    struct grpc_channel *ch = calloc(1, sizeof *ch);
    if (ch == NULL)
        return DFS_ENOMEM;
    int rc = addr_resolve(addr, true, &ch->to, &ch->to_len);
    if (rc != 0) {
        free(ch);
        return rc;
    }
    ch->loop = loop;
    ch->addr = *addr;
    if (ops != NULL)
        ch->ops = *ops;
    ch->arg = arg;
    ch->message_bytes_max = GRPC_RESPONSE_MAX_DEFAULT;
    struct addr grpc_addr = *addr;
    grpc_addr.port = addr->grpc_port;
    addr_format(&grpc_addr, ch->authority);
    TAILQ_INIT(&ch->conns);
    *out = ch;
    return 0;
}

void grpc_channel_set_message_max(struct grpc_channel *ch, size_t bytes)
{
    ch->message_bytes_max = bytes;
}

static void forget_conn(struct grpc_channel *ch, struct grpc_conn *conn)
{
    TAILQ_REMOVE(&ch->conns, conn, entry);
    conn->channel = NULL;
    conn->memory = NULL;
}

void grpc_channel_free(struct grpc_channel *ch)
{
    if (ch == NULL)
        return;
    CHECK(!ch->freed);
    ch->freed = true;
    ch->current = NULL;
    struct grpc_conn *conn;
    while ((conn = TAILQ_FIRST(&ch->conns)) != NULL) {
        forget_conn(ch, conn);
        conn_end(conn, GRPC_CANCELLED, "the channel was closed");
    }
    free(ch);
}

static int dial(struct grpc_channel *ch)
{
    struct grpc_conn *conn;
    int rc = conn_new(ch->loop, false, 0, &conn);
    if (rc != 0)
        return rc;
    conn->channel = ch;
    conn->memory = &ch->memory;
    memcpy(conn->peer, ch->authority, sizeof conn->peer);
    TAILQ_INSERT_TAIL(&ch->conns, conn, entry);
    ch->current = conn;

    uint64_t now_ms = loop_now_ms(ch->loop), delay_ms = 0;
    if (ch->dial_ms != 0 && now_ms < ch->dial_ms + DIAL_INTERVAL_MS)
        delay_ms = ch->dial_ms + DIAL_INTERVAL_MS - now_ms;
    ch->dial_ms = now_ms + delay_ms;
    h2_connect(conn->h2, &ch->to, ch->to_len, (uint32_t)delay_ms);
    return 0;
}

void client_conn_up(struct grpc_conn *conn)
{
    conn->connected = true;
    struct grpc_channel *ch = conn->channel;
    if (ch != NULL && ch->ops.on_up != NULL)
        ch->ops.on_up(ch->arg, ch);
}

void client_conn_down(struct grpc_conn *conn, int rc)
{
    struct grpc_channel *ch = conn->channel;
    bool was_current = ch != NULL && ch->current == conn;
    /* Calls that users start while they are told of the end are for the next connection. */
    if (was_current)
        ch->current = NULL;
    char why[ADDR_TEXT_MAX + 80];
    snprintf(why, sizeof why, conn->connected ? "connection to '%s' is lost: %s" : "cannot connect to '%s': %s", conn->peer,
             dfs_err_text(rc));
    conn_end(conn, GRPC_UNAVAILABLE, why);
    ch = conn->channel;
    if (ch == NULL)
        return; /* freed by one of them */
    forget_conn(ch, conn);
    if (was_current && ch->ops.on_down != NULL)
        ch->ops.on_down(ch->arg, ch, rc);
}

/* ---- requests ---- */

/* A connection that has had GOAWAY, or has used up its stream ids, ends its calls while new ones go to the next. */
static int usable_conn(struct grpc_channel *ch, struct grpc_conn **out)
{
    if (ch->current != NULL && !nghttp2_session_check_request_allowed(h2_session(ch->current->h2)))
        ch->current = NULL;
    if (ch->current == NULL) {
        int rc = dial(ch);
        if (rc != 0)
            return rc;
    }
    *out = ch->current;
    return 0;
}

static int submit(struct grpc_channel *ch, struct grpc_call *call, uint32_t deadline_ms)
{
    static const nghttp2_data_provider provider = {.read_callback = call_fill};
    char timeout[GRPC_TIMEOUT_TEXT_MAX];
    nghttp2_nv nv[8] = {
        GRPC_NV(":method", "POST"),
        GRPC_NV(":scheme", "http"),
        GRPC_NV_COPY(":path", call->path, strlen(call->path)),
        GRPC_NV_COPY(":authority", ch->authority, strlen(ch->authority)),
        GRPC_NV("te", "trailers"),
        GRPC_NV("content-type", "application/grpc"),
        GRPC_NV("user-agent", "grpc-c-dfs/1"),
    };
    size_t n = 7;
    if (deadline_ms != 0)
        nv[n++] = (nghttp2_nv)GRPC_NV_COPY("grpc-timeout", timeout, grpc_timeout_format(deadline_ms, timeout));
    int32_t id = nghttp2_submit_request(h2_session(call->conn->h2), NULL, nv, n, &provider, call);
    if (id < 0)
        return id == NGHTTP2_ERR_NOMEM ? DFS_ENOMEM : DFS_ECLOSED;
    call->stream_id = id;
    return 0;
}

/* For a call that the user never got to see. */
static void abandon(struct grpc_call *call)
{
    call->ops = NULL;
    call->unary_done = NULL;
    call_reset_stream(call, NGHTTP2_CANCEL);
    conn_close_call(call, GRPC_CANCELLED, BYTES_NONE);
}

static int start(struct grpc_channel *ch, const char *path, uint32_t deadline_ms, struct grpc_call **out)
{
    size_t path_n = strlen(path);
    if (path_n > GRPC_PATH_MAX)
        return DFS_EINVAL;
    if (ch->freed)
        return DFS_ECLOSED;
    struct grpc_conn *conn;
    int rc = usable_conn(ch, &conn);
    if (rc != 0)
        return rc;
    if (conn->open_calls >= GRPC_CHANNEL_CALLS_MAX)
        return DFS_EBUSY;
    struct grpc_call *call = conn_call_new(conn);
    if (call == NULL)
        return DFS_ENOMEM;
    memcpy(call->path, path, path_n + 1);
    grpc_reader_init(&call->reader, ch->message_bytes_max);
    rc = submit(ch, call, deadline_ms);
    if (rc != 0) {
        abandon(call);
        return rc;
    }
    if (deadline_ms != 0)
        conn_set_deadline(call, deadline_ms);
    h2_touch(conn->h2);
    *out = call;
    return 0;
}

int grpc_call_start(struct grpc_channel *ch, const char *path, const struct grpc_call_ops *ops, void *user,
                    uint32_t deadline_ms, struct grpc_call **out)
{
    CHECK(ops->on_message != NULL && ops->on_closed != NULL);
    struct grpc_call *call;
    int rc = start(ch, path, deadline_ms, &call);
    if (rc != 0)
        return rc;
    call->ops = ops;
    call->user = user;
    *out = call;
    return 0;
}

/* ---- responses ---- */

static void take_http_status(struct grpc_call *call, struct bytes value)
{
    call->http_status = 0;
    for (size_t i = 0; i < value.n && i < 3; i++)
        call->http_status = call->http_status * 10 + (uint32_t)(value.p[i] - '0');
}

static void take_message(struct grpc_call *call, struct bytes value)
{
    call_set_message(call, value);
    if (call->message != NULL)
        call->message_n = grpc_percent_decode(value, call->message);
}

void client_header(struct grpc_call *call, struct bytes name, struct bytes value)
{
    switch (name.n) {
    case 7:
        if (bytes_eq(name, BYTES_LIT(":status")))
            take_http_status(call, value);
        return;
    case 11:
        if (bytes_eq(name, BYTES_LIT("grpc-status"))) {
            call->status = grpc_status_parse(value);
            call->status_seen = true;
        }
        return;
    case 12:
        if (bytes_eq(name, BYTES_LIT("content-type")))
            call->content_type_seen = grpc_is_content_type(value);
        else if (bytes_eq(name, BYTES_LIT("grpc-message")))
            take_message(call, value);
        return;
    default:
        return;
    }
}

static void end_by_us(struct grpc_call *call, enum grpc_status status, const char *why)
{
    call_reset_stream(call, NGHTTP2_CANCEL);
    conn_close_call(call, status, bytes_str(why));
}

void client_headers(struct grpc_call *call)
{
    if (call->headers_seen || call->http_status < 200)
        return;
    call->headers_seen = true;
    if (call->status_seen)
        return;
    char why[64];
    if (call->http_status != 200) {
        snprintf(why, sizeof why, "HTTP status %u", call->http_status);
        end_by_us(call, grpc_status_from_http(call->http_status), why);
    } else if (!call->content_type_seen) {
        end_by_us(call, GRPC_UNKNOWN, "the answer's content-type is not application/grpc");
    }
}

void client_stream_closed(struct grpc_call *call, uint32_t code)
{
    if (call->status_seen && (code == NGHTTP2_NO_ERROR || call->peer_ended)) {
        if (call->status == GRPC_OK && grpc_reader_partial(&call->reader))
            conn_close_call(call, GRPC_INTERNAL, BYTES_LIT("the last message was cut short"));
        else
            conn_close_call(call, call->status, bytes_of(call->message, call->message_n));
        return;
    }
    if (code == NGHTTP2_NO_ERROR) {
        conn_close_call(call, GRPC_UNKNOWN, BYTES_LIT("the server ended the call without a status"));
        return;
    }
    /* A server whose clock is a little ahead gives up first. */
    if (code == NGHTTP2_CANCEL && call->deadline_ms != 0 && loop_now_ms(call->conn->loop) >= call->deadline_ms) {
        conn_close_call(call, GRPC_DEADLINE_EXCEEDED, BYTES_LIT("deadline exceeded"));
        return;
    }
    char why[96];
    snprintf(why, sizeof why, "the stream was reset: %s", nghttp2_http2_strerror(code));
    conn_close_call(call, grpc_status_from_h2(code), bytes_str(why));
}

/* ---- unary ---- */

void client_unary_message(struct grpc_call *call, struct bytes message)
{
    if (call->unary_response != NULL)
        call->unary_broken = true;
    else
        call->unary_response = grpc_unpack(call->unary_type, message);
}

void client_unary_closed(struct grpc_call *call)
{
    struct bytes message = bytes_of(call->message, call->message_n);
    enum grpc_status status = call->status;
    if (status == GRPC_OK && (call->unary_broken || call->unary_response == NULL)) {
        status = GRPC_INTERNAL;
        message = BYTES_LIT("the answer is not one message of the expected type");
    }
    call->unary_done(call->user, status, message, status == GRPC_OK ? call->unary_response : NULL);
}

int grpc_unary(struct grpc_channel *ch, const char *path, const ProtobufCMessage *request,
               const ProtobufCMessageDescriptor *response_type, uint32_t deadline_ms, grpc_unary_cb *done, void *arg)
{
    struct grpc_call *call;
    int rc = start(ch, path, deadline_ms, &call);
    if (rc != 0)
        return rc;
    rc = grpc_call_send(call, request);
    if (rc != 0) {
        abandon(call);
        return rc;
    }
    call->unary_done = done;
    call->unary_type = response_type;
    call->user = arg;
    grpc_call_half_close(call);
    return 0;
}
