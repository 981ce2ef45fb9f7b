/* What the two halves of an HTTP/2 connection share: h2.c (socket, entering and leaving), h2_session.c (what nghttp2 calls,
 * and the clock).  Nobody else includes this. */
#ifndef DFS_NET_H2_INTERNAL_H
#define DFS_NET_H2_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "net/h2.h"

enum h2_drain { H2_SERVING = 0, H2_NOTICE_GIVEN, H2_GOAWAY_SENT };

struct h2 {
    nghttp2_session *session;
    struct loop *loop;
    const struct h2_ops *ops;
    void *arg;
    unsigned depth; /* h2_enter() minus h2_leave() */
    int fd;         /* -1: none yet, or no more */
    int fail_rc;
    bool server;
    bool dial_pending;
    bool connecting;
    bool may_send;      /* server: not before the preface was right, so that others can be answered in HTTP/1.1 */
    bool settings_seen;
    bool failed;        /* the owner is still to be told */
    bool freed;         /* by the owner */
    enum h2_drain drain;
    uint32_t calls;
    uint32_t header_bytes; /* of the block that is coming in; there is one at a time */
    uint32_t empty_frames;
    uint64_t started_ms, heard_ms, idle_since_ms, drain_since_ms;
    uint64_t ping_ms; /* when the unanswered PING went out; 0 = none */
    uint8_t *rest;    /* what the socket did not take; NULL = nothing */
    size_t rest_n, rest_off;
    struct event read_ev, write_ev, touch_ev;
    struct loop_timer tick;
    struct sockaddr_storage to;
    socklen_t to_len;
};

/* Open a socket to h->to now. */
void h2_dial(struct h2 *h);
int h2_session_new(struct h2 *h, uint32_t streams_max);
void h2_on_tick(void *arg);

#endif
