/* gRPC: one call, whichever side it is on.  Messages queued and sent, bytes received and cut into messages. */
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/grpc_internal.h"

/* ---- what users ask ---- */

void *grpc_call_user(const struct grpc_call *call)
{
    return call->user;
}

void grpc_call_set_user(struct grpc_call *call, void *user)
{
    call->user = user;
}

void *grpc_call_server_arg(const struct grpc_call *call)
{
    return call->conn->server_arg;
}

const char *grpc_call_path(const struct grpc_call *call)
{
    return call->method != NULL ? call->method->path : call->path;
}

const char *grpc_call_peer(const struct grpc_call *call)
{
    return call->conn->peer;
}

size_t grpc_call_pending_bytes(const struct grpc_call *call)
{
    return call->out_bytes;
}

/* ---- sending ---- */

struct grpc_memory grpc_memory_max = {
    .received_bytes = GRPC_RECEIVE_BUFFER_MAX,
    .send_bytes = GRPC_SEND_BUFFERS_MAX,
};

static void add_out_bytes(struct grpc_call *call, ptrdiff_t n)
{
    call->out_bytes += (size_t)n;
    if (call->conn->memory != NULL)
        call->conn->memory->send_bytes += (size_t)n;
}

static bool send_room(const struct grpc_call *call, size_t n)
{
    const struct grpc_memory *memory = call->conn->memory;
    return n <= GRPC_SEND_BUFFER_MAX && call->out_bytes + n <= GRPC_SEND_BUFFER_MAX &&
           (memory == NULL || memory->send_bytes + n <= grpc_memory_max.send_bytes);
}

static struct grpc_out *out_new(struct grpc_call *call, size_t n)
{
    struct grpc_out *o;
    if (n <= GRPC_INLINE_BYTES && !call->inline_used) {
        call->inline_used = true;
        o = &call->first.out;
    } else {
        o = malloc(sizeof *o + n);
        if (o == NULL)
            return NULL;
    }
    o->next = NULL;
    o->n = (uint32_t)n;
    o->off = 0;
    return o;
}

static void out_free(struct grpc_call *call, struct grpc_out *o)
{
    if (o == &call->first.out)
        call->inline_used = false;
    else
        free(o);
}

static void out_clear(struct grpc_call *call)
{
    while (call->out_first != NULL) {
        struct grpc_out *o = call->out_first;
        call->out_first = o->next;
        out_free(call, o);
    }
    call->out_last = &call->out_first;
}

static size_t out_take(struct grpc_call *call, uint8_t *p, size_t cap)
{
    size_t taken = 0;
    while (call->out_first != NULL && taken < cap) {
        struct grpc_out *o = call->out_first;
        size_t n = o->n - o->off < cap - taken ? o->n - o->off : cap - taken;
        memcpy(p + taken, o->p + o->off, n);
        taken += n;
        o->off += (uint32_t)n;
        if (o->off < o->n)
            break;
        call->out_first = o->next;
        if (call->out_first == NULL)
            call->out_last = &call->out_first;
        out_free(call, o);
    }
    add_out_bytes(call, -(ptrdiff_t)taken);
    return taken;
}

/* nghttp2 asks for the next DATA frame's bytes. */
ssize_t call_fill(nghttp2_session *session, int32_t stream_id, uint8_t *p, size_t cap, uint32_t *flags,
                  nghttp2_data_source *source, void *user_data)
{
    (void)source;
    (void)user_data;
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t n = out_take(call, p, cap);
    if (call->was_high && call->out_bytes <= GRPC_SEND_LOW_BYTES) {
        call->was_high = false;
        call->writable_due = true;
        conn_call_ready(call);
    }
    if (call->out_bytes == 0 && call->out_ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (call->server) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (server_submit_trailers(call) != 0)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    } else if (n == 0) {
        call->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

void call_wake_sender(struct grpc_call *call)
{
    if (call->server)
        server_respond(call);
    if (call->deferred && call->stream_id != 0) {
        call->deferred = false;
        call_submitted(call, nghttp2_session_resume_data(h2_session(call->conn->h2), call->stream_id));
    }
    h2_touch(call->conn->h2);
}

static void end_sending(struct grpc_call *call)
{
    call->out_ended = true;
    call_wake_sender(call);
}

/* Room for a message; its bytes are the caller's to fill before queue_message(). */
static int message_new(struct grpc_call *call, size_t n, struct grpc_out **out)
{
    if (call->closed || call->out_ended || call->stream_id == 0)
        return DFS_ECLOSED;
    if (!send_room(call, GRPC_PREFIX_BYTES + n)) {
        call_reset_stream(call, NGHTTP2_CANCEL);
        conn_close_call(call, GRPC_RESOURCE_EXHAUSTED, BYTES_LIT("send buffer full: the peer does not read"));
        return DFS_ETOOBIG;
    }
    struct grpc_out *o = out_new(call, GRPC_PREFIX_BYTES + n);
    if (o == NULL)
        return DFS_ENOMEM;
    grpc_prefix_put(o->p, (uint32_t)n);
    *out = o;
    return 0;
}

static void queue_message(struct grpc_call *call, struct grpc_out *o)
{
    *call->out_last = o;
    call->out_last = &o->next;
    add_out_bytes(call, o->n);
    if (call->out_bytes > GRPC_SEND_HIGH_BYTES)
        call->was_high = true;
}

int grpc_call_send_raw(struct grpc_call *call, struct bytes message)
{
    struct grpc_out *o;
    int rc = message_new(call, message.n, &o);
    if (rc != 0)
        return rc;
    if (message.n > 0)
        memcpy(o->p + GRPC_PREFIX_BYTES, message.p, message.n);
    queue_message(call, o);
    call_wake_sender(call);
    return 0;
}

int grpc_call_send(struct grpc_call *call, const ProtobufCMessage *message)
{
    struct grpc_out *o;
    size_t n = protobuf_c_message_get_packed_size(message);
    int rc = message_new(call, n, &o);
    if (rc != 0)
        return rc;
    CHECK(protobuf_c_message_pack(message, o->p + GRPC_PREFIX_BYTES) == n);
    queue_message(call, o);
    call_wake_sender(call);
    return 0;
}

void grpc_call_half_close(struct grpc_call *call)
{
    CHECK(!call->server);
    if (!call->closed && !call->out_ended)
        end_sending(call);
}

void call_submitted(struct grpc_call *call, int rv)
{
    if (rv == NGHTTP2_ERR_NOMEM)
        h2_fail(call->conn->h2, DFS_ENOMEM);
}

void call_reset_stream(struct grpc_call *call, uint32_t code)
{
    if (call->stream_id != 0)
        call_submitted(call, nghttp2_submit_rst_stream(h2_session(call->conn->h2), NGHTTP2_FLAG_NONE, call->stream_id, code));
}

void grpc_call_cancel(struct grpc_call *call)
{
    if (call->closed)
        return;
    call_reset_stream(call, NGHTTP2_CANCEL);
    conn_close_call(call, GRPC_CANCELLED, BYTES_LIT("cancelled"));
}

/* ---- receiving ---- */

/* What the call holds counts against its owner; the one that goes beyond pays. */
static void count_received(struct grpc_call *call)
{
    size_t now_bytes = call->reader.cap + call->held_cap;
    size_t before_bytes = call->counted_bytes;
    call->counted_bytes = now_bytes;
    struct grpc_memory *memory = call->conn->memory;
    if (memory == NULL)
        return;
    memory->received_bytes += now_bytes - before_bytes;
    if (now_bytes > before_bytes && memory->received_bytes > grpc_memory_max.received_bytes && !call->closed) {
        call_reset_stream(call, NGHTTP2_ENHANCE_YOUR_CALM);
        conn_close_call(call, GRPC_RESOURCE_EXHAUSTED, BYTES_LIT("too much received is waiting in memory"));
    }
}

/* End the call because of what the peer sent. */
static void refuse(struct grpc_call *call, enum grpc_status status, const char *why)
{
    if (call->server) {
        grpc_call_finish(call, status, "%s", why);
        return;
    }
    call_reset_stream(call, NGHTTP2_CANCEL);
    conn_close_call(call, status, bytes_str(why));
}

static void refuse_message(struct grpc_call *call, int rc)
{
    switch (rc) {
    case DFS_ETOOBIG:
        refuse(call, GRPC_RESOURCE_EXHAUSTED, "message is larger than this method takes");
        return;
    case DFS_EUNSUPPORTED:
        refuse(call, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
        return;
    case DFS_ENOMEM:
        refuse(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    default:
        refuse(call, GRPC_INTERNAL, "malformed message prefix");
        return;
    }
}

/* A server that has answered listens no more. */
static bool listens(const struct grpc_call *call)
{
    return !call->closed && !(call->server && call->out_ended);
}

static void give_message(struct grpc_call *call, struct bytes message)
{
    call->any_message = true;
    if (call->unary_done != NULL)
        client_unary_message(call, message);
    else
        call->ops->on_message(call, message);
}

/* Returns what is not read yet, because of a pause. */
static struct bytes read_messages(struct grpc_call *call, struct bytes in)
{
    while (listens(call) && !call->paused) {
        struct bytes message;
        int rc = grpc_reader_next(&call->reader, &in, &message);
        if (rc == DFS_ESHORT)
            break;
        if (rc != 0) {
            refuse_message(call, rc);
            break;
        }
        give_message(call, message);
    }
    return listens(call) ? in : BYTES_NONE;
}

static void give_window_back(struct grpc_call *call, size_t n)
{
    if (call->stream_id != 0 && n > 0)
        nghttp2_session_consume_stream(h2_session(call->conn->h2), call->stream_id, n);
}

static void hold(struct grpc_call *call, struct bytes in)
{
    if (call->held_off > 0) {
        call->held_n -= call->held_off;
        memmove(call->held, call->held + call->held_off, call->held_n);
        call->held_off = 0;
    }
    if (call->held_n + in.n > call->held_cap) {
        size_t cap = call->held_cap * 2 > call->held_n + in.n ? call->held_cap * 2 : call->held_n + in.n;
        uint8_t *held = realloc(call->held, cap);
        if (held == NULL) {
            refuse_message(call, DFS_ENOMEM);
            return;
        }
        call->held = held;
        call->held_cap = cap;
    }
    memcpy(call->held + call->held_n, in.p, in.n);
    call->held_n += in.n;
}

static void held_drop(struct grpc_call *call)
{
    free(call->held);
    call->held = NULL;
    call->held_n = call->held_off = call->held_cap = 0;
}

static bool holds(const struct grpc_call *call)
{
    return call->held_n > call->held_off;
}

void call_data(struct grpc_call *call, struct bytes data)
{
    struct bytes rest = data;
    if (!call->server && !call->headers_seen)
        rest = BYTES_NONE; /* nghttp2 refuses this already */
    else if (!call->paused && !holds(call))
        rest = read_messages(call, data);
    give_window_back(call, data.n - rest.n);
    if (rest.n > 0 && listens(call))
        hold(call, rest);
    if (!call->closed)
        count_received(call);
}

/* Everything the peer sent has been given to the user. */
static void after_last_message(struct grpc_call *call)
{
    if (!call->server) {
        if (call->stream_ended)
            client_stream_closed(call, NGHTTP2_NO_ERROR);
        return;
    }
    if (!listens(call) || call->end_told)
        return;
    call->end_told = true;
    if (grpc_reader_partial(&call->reader))
        grpc_call_finish(call, GRPC_INTERNAL, "the last message was cut short");
    else if (call->ops->on_half_close != NULL)
        call->ops->on_half_close(call);
    else if (!call->any_message)
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "no message came");
}

void call_peer_ended(struct grpc_call *call)
{
    call->peer_ended = true;
    if (!call->paused && !holds(call))
        after_last_message(call);
}

void call_stream_closed(struct grpc_call *call, uint32_t code)
{
    call->stream_id = 0;
    if (!call->server) {
        if (code == NGHTTP2_NO_ERROR && (call->paused || holds(call)))
            call->stream_ended = true;
        else
            client_stream_closed(call, code);
        return;
    }
    if (code == NGHTTP2_NO_ERROR && call->out_ended)
        conn_close_call(call, call->status, bytes_of(call->message, call->message_n));
    else
        conn_close_call(call, GRPC_CANCELLED, BYTES_LIT("the client has reset the call"));
}

static void run_held(struct grpc_call *call)
{
    if (holds(call)) {
        struct bytes in = bytes_of(call->held + call->held_off, call->held_n - call->held_off);
        size_t rest = read_messages(call, in).n;
        if (call->closed)
            return;
        give_window_back(call, in.n - rest);
        call->held_off = call->held_n - rest;
    }
    if (!holds(call))
        held_drop(call);
    count_received(call);
    if (!call->closed && !call->paused && !holds(call) && (call->peer_ended || call->stream_ended))
        after_last_message(call);
}

void call_run_ready(struct grpc_call *call)
{
    if (call->resumed && !call->paused) {
        call->resumed = false;
        run_held(call);
    }
    if (call->writable_due && !call->closed) {
        call->writable_due = false;
        if (call->ops != NULL && call->ops->on_writable != NULL && !call->out_ended)
            call->ops->on_writable(call);
    }
}

void grpc_call_pause(struct grpc_call *call)
{
    call->paused = true;
}

void grpc_call_resume(struct grpc_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    call->resumed = true;
    conn_call_ready(call);
}

/* ---- the end ---- */

void call_uncount(struct grpc_call *call)
{
    if (call->conn->memory != NULL)
        call->conn->memory->received_bytes -= call->counted_bytes;
    call->counted_bytes = 0;
    add_out_bytes(call, -(ptrdiff_t)call->out_bytes);
}

void call_set_message(struct grpc_call *call, struct bytes message)
{
    free(call->message);
    call->message = NULL;
    call->message_n = 0;
    if (message.n == 0 || (call->message = malloc(message.n)) == NULL)
        return;
    memcpy(call->message, message.p, message.n);
    call->message_n = message.n;
}

void call_release(struct grpc_call *call)
{
    out_clear(call);
    grpc_reader_release(&call->reader);
    held_drop(call);
    free(call->message);
    call->message = NULL;
    if (call->unary_response != NULL)
        protobuf_c_message_free_unpacked(call->unary_response, NULL);
    call->unary_response = NULL;
}
