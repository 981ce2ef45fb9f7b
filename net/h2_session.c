/* HTTP/2 connections: settings and callbacks of the nghttp2 session, keepalive, draining, floods. */
#include <stdlib.h>

#include "needle/err.h"
#include "net/h2_internal.h"

/* Settings entries and unsent answers to PING and SETTINGS that a peer may cause; beyond, nghttp2 gives up on it. */
#define SETTINGS_ENTRIES_MAX 32
#define ACKS_QUEUED_MAX 1000
/* Streams that a client may reset at once, and per second for long; a burst of all that it may have open is honest. */
#define RESETS_BURST 4096
#define RESETS_PER_S 200

/* Returned once the connection is over, so that nghttp2 stops reading what is left. */
static int stop_or(const struct h2 *h, int rv)
{
    return h->failed || h->freed ? NGHTTP2_ERR_CALLBACK_FAILURE : rv;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2 *h = user_data;
    h->header_bytes = 0;
    if (!h->server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    void *stream = h->ops->on_request(h->arg, frame->hd.stream_id);
    if (stream == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                     const uint8_t *value, size_t value_n, uint8_t flags, void *user_data)
{
    (void)flags;
    struct h2 *h = user_data;
    h->header_bytes += (uint32_t)(name_n + value_n + 32);
    if (h->header_bytes > H2_HEADER_LIST_MAX)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    void *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (stream != NULL)
        h->ops->on_header(h->arg, stream, bytes_of(name, name_n), bytes_of(value, value_n));
    return stop_or(h, 0);
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *p, size_t n,
                         void *user_data)
{
    (void)flags;
    struct h2 *h = user_data;
    void *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    nghttp2_session_consume_connection(session, n);
    if (stream != NULL)
        h->ops->on_data(h->arg, stream, bytes_of(p, n));
    else
        nghttp2_session_consume_stream(session, stream_id, n);
    return stop_or(h, 0);
}

/* Frames that carry nothing cost us work and the peer next to nothing. */
static int count_frame(struct h2 *h, const nghttp2_frame *frame)
{
    if (frame->hd.type == NGHTTP2_HEADERS || (frame->hd.type == NGHTTP2_DATA && frame->hd.length > 0)) {
        h->empty_frames = 0;
        return 0;
    }
    if (++h->empty_frames <= H2_EMPTY_FRAMES_MAX)
        return 0;
    return nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM) == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2 *h = user_data;
    if (count_frame(h, frame) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    switch (frame->hd.type) {
    case NGHTTP2_SETTINGS:
        h->settings_seen = true;
        return 0;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h->ping_ms = 0;
        return 0;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        break;
    default:
        return 0;
    }
    int32_t id = frame->hd.stream_id;
    void *stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream != NULL && frame->hd.type == NGHTTP2_HEADERS)
        h->ops->on_headers(h->arg, stream);
    if (h->freed)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return stop_or(h, 0);
    /* Asked again: the owner may have let go of the stream. */
    stream = nghttp2_session_get_stream_user_data(session, id);
    if (stream != NULL)
        h->ops->on_end(h->arg, stream);
    /* The server has said all: no use in sending it more. */
    if (!h->freed && !h->server && !nghttp2_session_get_stream_local_close(session, id))
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    return stop_or(h, 0);
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2 *h = user_data;
    if (frame->hd.type == NGHTTP2_DATA)
        h->empty_frames = 0;
    /* The answer is complete while the peer still sends: it need not go on. */
    if (h->server && frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *user_data)
{
    struct h2 *h = user_data;
    void *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    if (stream == NULL)
        return 0;
    nghttp2_session_set_stream_user_data(session, stream_id, NULL);
    h->ops->on_stream_closed(h->arg, stream, code);
    return 0;
}

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *cb;
    if (nghttp2_session_callbacks_new(&cb) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    return cb;
}

static int submit_settings(struct h2 *h, uint32_t streams_max)
{
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEADER_LIST_MAX},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
    };
    /* Only clients speak of pushes. */
    size_t n = h->server ? 3 : 4;
    if (nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, entries, n) != 0 ||
        nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW_BYTES) != 0)
        return DFS_ENOMEM;
    return 0;
}

int h2_session_new(struct h2 *h, uint32_t streams_max)
{
    int rc = DFS_ENOMEM;
    nghttp2_option *option = NULL;
    nghttp2_session_callbacks *cb = callbacks_new();
    if (cb == NULL || nghttp2_option_new(&option) != 0)
        goto done;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_settings(option, SETTINGS_ENTRIES_MAX);
    nghttp2_option_set_max_outbound_ack(option, ACKS_QUEUED_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_PER_S);
    int rv = h->server ? nghttp2_session_server_new2(&h->session, cb, h, option)
                       : nghttp2_session_client_new2(&h->session, cb, h, option);
    if (rv != 0)
        goto done;
    rc = submit_settings(h, streams_max);
    if (rc != 0)
        nghttp2_session_del(h->session);
done:
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    return rc;
}

/* ---- the clock ---- */

static void drain_step(struct h2 *h, uint64_t now_ms)
{
    if (h->drain != H2_NOTICE_GIVEN || now_ms - h->drain_since_ms < h2_times.drain_ms)
        return;
    h->drain = H2_GOAWAY_SENT;
    nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(h->session),
                          NGHTTP2_NO_ERROR, NULL, 0);
}

void h2_drain(struct h2 *h)
{
    if (h->drain != H2_SERVING || h->failed || h->freed)
        return;
    h->drain = H2_NOTICE_GIVEN;
    h->drain_since_ms = loop_now_ms(h->loop);
    nghttp2_submit_shutdown_notice(h->session);
    loop_timer_set(&h->tick, h2_times.drain_ms);
    h2_touch(h);
}

/* Returns in how many ms to look again. */
static uint64_t keepalive_step(struct h2 *h, uint64_t now_ms)
{
    if (h->ping_ms != 0 && now_ms - h->ping_ms >= h2_times.ping_wait_ms) {
        /* Whatever was heard since counts as an answer: the peer may have much to send before it. */
        if (h->heard_ms <= h->ping_ms) {
            h2_fail(h, DFS_ETIMEOUT);
            return h2_times.tick_ms;
        }
        h->ping_ms = 0;
    }
    if (h->ping_ms == 0 && h->calls > 0 && now_ms - h->heard_ms >= h2_times.ping_after_ms &&
        nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL) == 0) {
        h->ping_ms = now_ms;
        return h2_times.ping_wait_ms;
    }
    return h2_times.tick_ms;
}

static uint64_t tick(struct h2 *h, uint64_t now_ms)
{
    if (h->dial_pending) {
        h2_dial(h);
        return 0;
    }
    if (h->connecting || (h->server && !h->settings_seen)) {
        uint64_t limit_ms = h->connecting ? h2_times.connect_ms : h2_times.preface_ms;
        uint64_t age_ms = now_ms - h->started_ms;
        if (age_ms >= limit_ms)
            h2_fail(h, DFS_ETIMEOUT);
        return limit_ms > age_ms ? limit_ms - age_ms : 1;
    }
    if (h->server && h->calls == 0 && now_ms - h->idle_since_ms >= h2_times.idle_ms)
        h2_drain(h);
    drain_step(h, now_ms);
    uint64_t next_ms = keepalive_step(h, now_ms);
    return h->drain == H2_NOTICE_GIVEN && next_ms > h2_times.drain_ms ? h2_times.drain_ms : next_ms;
}

void h2_on_tick(void *arg)
{
    struct h2 *h = arg;
    h2_enter(h);
    if (!h->failed) {
        uint64_t next_ms = tick(h, loop_now_ms(h->loop));
        if (next_ms > 0)
            loop_timer_set(&h->tick, next_ms);
    }
    h2_leave(h);
}
