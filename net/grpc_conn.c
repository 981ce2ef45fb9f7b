/* gRPC: the calls of one connection; their beginning, their deadlines, and telling users of their end. */
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/grpc_internal.h"

/* Calls whose users are told of room or given held messages in one pass. */
#define READY_PER_PASS 256

static void on_header_server(void *arg, void *stream, struct bytes name, struct bytes value)
{
    (void)arg;
    server_header(stream, name, value);
}

static void on_header_client(void *arg, void *stream, struct bytes name, struct bytes value)
{
    (void)arg;
    client_header(stream, name, value);
}

static void on_headers_server(void *arg, void *stream)
{
    (void)arg;
    server_headers(stream);
}

static void on_headers_client(void *arg, void *stream)
{
    (void)arg;
    client_headers(stream);
}

static void *on_request(void *arg, int32_t stream_id)
{
    struct grpc_conn *conn = arg;
    struct grpc_call *call = conn_call_new(conn);
    if (call != NULL)
        call->stream_id = stream_id;
    return call;
}

static void on_data(void *arg, void *stream, struct bytes data)
{
    (void)arg;
    call_data(stream, data);
}

static void on_end(void *arg, void *stream)
{
    (void)arg;
    call_peer_ended(stream);
}

static void on_stream_closed(void *arg, void *stream, uint32_t code)
{
    (void)arg;
    call_stream_closed(stream, code);
}

static void on_up(void *arg)
{
    client_conn_up(arg);
}

static void on_down_client(void *arg, int rc)
{
    client_conn_down(arg, rc);
}

static void on_down_server(void *arg, int rc)
{
    (void)rc;
    server_conn_down(arg);
}

static void call_free(struct grpc_conn *conn, struct grpc_call *call)
{
    call_release(call);
    if (conn->spare_count == GRPC_SPARE_CALLS_MAX) {
        free(call);
        return;
    }
    conn->spare_count++;
    TAILQ_INSERT_HEAD(&conn->spare, call, entry);
}

static bool tell_closed(struct grpc_conn *conn)
{
    bool any = false;
    struct grpc_call *call;
    while ((call = TAILQ_FIRST(&conn->closing)) != NULL) {
        any = true;
        TAILQ_REMOVE(&conn->closing, call, entry);
        TAILQ_INSERT_TAIL(&conn->told, call, entry);
        if (call->unary_done != NULL)
            client_unary_closed(call);
        else if (call->ops != NULL)
            call->ops->on_closed(call, call->status, bytes_of(call->message, call->message_n));
    }
    return any;
}

static bool on_pass(void *arg)
{
    struct grpc_conn *conn = arg;
    bool any = false;
    for (int i = 0; i < READY_PER_PASS; i++) {
        struct grpc_call *call = TAILQ_FIRST(&conn->ready);
        if (call == NULL)
            break;
        any = true;
        TAILQ_REMOVE(&conn->ready, call, ready_entry);
        call->ready = false;
        call_run_ready(call);
    }
    return tell_closed(conn) || any;
}

static void on_settled(void *arg)
{
    struct grpc_conn *conn = arg;
    struct grpc_call *call;
    while ((call = TAILQ_FIRST(&conn->told)) != NULL) {
        TAILQ_REMOVE(&conn->told, call, entry);
        call_free(conn, call);
    }
}

static void on_destroy(void *arg)
{
    struct grpc_conn *conn = arg;
    struct grpc_call *call;
    CHECK(TAILQ_EMPTY(&conn->calls) && TAILQ_EMPTY(&conn->closing) && TAILQ_EMPTY(&conn->told));
    while ((call = TAILQ_FIRST(&conn->spare)) != NULL) {
        TAILQ_REMOVE(&conn->spare, call, entry);
        free(call);
    }
    loop_timer_release(&conn->deadline);
    free(conn);
}

const struct h2_ops grpc_h2_server_ops = {
    .on_request = on_request,
    .on_header = on_header_server,
    .on_headers = on_headers_server,
    .on_data = on_data,
    .on_end = on_end,
    .on_stream_closed = on_stream_closed,
    .on_pass = on_pass,
    .on_down = on_down_server,
    .on_settled = on_settled,
    .on_destroy = on_destroy,
};

const struct h2_ops grpc_h2_client_ops = {
    .on_header = on_header_client,
    .on_headers = on_headers_client,
    .on_data = on_data,
    .on_end = on_end,
    .on_stream_closed = on_stream_closed,
    .on_up = on_up,
    .on_pass = on_pass,
    .on_down = on_down_client,
    .on_settled = on_settled,
    .on_destroy = on_destroy,
};

/* ---- deadlines: one timer a connection, at the earliest of its calls ---- */

static void arm_deadline(struct grpc_conn *conn, uint64_t at_ms)
{
    uint64_t now_ms = loop_now_ms(conn->loop);
    conn->deadline_at_ms = at_ms;
    loop_timer_set(&conn->deadline, at_ms > now_ms ? at_ms - now_ms : 0);
}

static void expire_call(struct grpc_call *call)
{
    if (call->server) {
        server_deadline(call);
    } else {
        call_reset_stream(call, NGHTTP2_CANCEL);
        conn_close_call(call, GRPC_DEADLINE_EXCEEDED, BYTES_LIT("deadline exceeded"));
    }
}

/* Calls that ended in time leave the timer alone: it finds nothing due, looks for the next deadline, and sleeps on. */
static void on_deadline(void *arg)
{
    struct grpc_conn *conn = arg;
    h2_enter(conn->h2);
    uint64_t now_ms = loop_now_ms(conn->loop), next_ms = 0;
    conn->deadline_at_ms = 0;
    struct grpc_call *call = TAILQ_FIRST(&conn->calls);
    while (call != NULL) {
        struct grpc_call *next = TAILQ_NEXT(call, entry);
        if (call->deadline_ms != 0 && call->deadline_ms <= now_ms)
            expire_call(call);
        else if (call->deadline_ms != 0 && (next_ms == 0 || call->deadline_ms < next_ms))
            next_ms = call->deadline_ms;
        call = next;
    }
    if (next_ms != 0)
        arm_deadline(conn, next_ms);
    h2_leave(conn->h2);
}

void conn_set_deadline(struct grpc_call *call, uint64_t timeout_ms)
{
    struct grpc_conn *conn = call->conn;
    call->deadline_ms = loop_now_ms(conn->loop) + timeout_ms;
    if (conn->deadline_at_ms == 0 || call->deadline_ms < conn->deadline_at_ms)
        arm_deadline(conn, call->deadline_ms);
}

/* ---- connections and calls ---- */

int conn_new(struct loop *loop, bool server, uint32_t streams_max, struct grpc_conn **out)
{
    struct grpc_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return DFS_ENOMEM;
    conn->loop = loop;
    TAILQ_INIT(&conn->calls);
    TAILQ_INIT(&conn->closing);
    TAILQ_INIT(&conn->told);
    TAILQ_INIT(&conn->ready);
    TAILQ_INIT(&conn->spare);
    loop_timer_init(&conn->deadline, loop, on_deadline, conn);
    struct h2_options o = {
        .loop = loop,
        .server = server,
        .streams_max = streams_max,
        .ops = server ? &grpc_h2_server_ops : &grpc_h2_client_ops,
        .arg = conn,
    };
    int rc = h2_new(&o, &conn->h2);
    if (rc != 0) {
        loop_timer_release(&conn->deadline);
        free(conn);
        return rc;
    }
    *out = conn;
    return 0;
}

void conn_end(struct grpc_conn *conn, enum grpc_status status, const char *why)
{
    struct grpc_call *call;
    h2_enter(conn->h2);
    while ((call = TAILQ_FIRST(&conn->calls)) != NULL)
        conn_close_call(call, status, bytes_str(why));
    tell_closed(conn);
    loop_timer_cancel(&conn->deadline);
    h2_free(conn->h2);
    h2_leave(conn->h2);
}

struct grpc_call *conn_call_new(struct grpc_conn *conn)
{
    struct grpc_call *call = TAILQ_FIRST(&conn->spare);
    if (call != NULL) {
        TAILQ_REMOVE(&conn->spare, call, entry);
        conn->spare_count--;
    } else {
        call = malloc(sizeof *call);
        if (call == NULL)
            return NULL;
    }
    /* The room for the first message needs no clearing, it comes last. */
    memset(call, 0, offsetof(struct grpc_call, first));
    call->conn = conn;
    call->server = conn->server != NULL;
    call->status = GRPC_UNKNOWN;
    call->out_last = &call->out_first;
    TAILQ_INSERT_TAIL(&conn->calls, call, entry);
    conn->open_calls++;
    h2_call_opened(conn->h2);
    return call;
}

void conn_close_call(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    if (call->closed)
        return;
    struct grpc_conn *conn = call->conn;
    call->closed = true;
    call->status = status;
    /* The message may be the call's own. */
    if (message.p != call->message)
        call_set_message(call, message);
    if (call->stream_id != 0)
        nghttp2_session_set_stream_user_data(h2_session(conn->h2), call->stream_id, NULL);
    call->stream_id = 0;
    if (call->ready) {
        TAILQ_REMOVE(&conn->ready, call, ready_entry);
        call->ready = false;
    }
    call_uncount(call);
    TAILQ_REMOVE(&conn->calls, call, entry);
    TAILQ_INSERT_TAIL(&conn->closing, call, entry);
    conn->open_calls--;
    h2_call_closed(conn->h2);
    h2_touch(conn->h2);
}

void conn_call_ready(struct grpc_call *call)
{
    if (call->ready || call->closed)
        return;
    call->ready = true;
    TAILQ_INSERT_TAIL(&call->conn->ready, call, ready_entry);
    h2_touch(call->conn->h2);
}
