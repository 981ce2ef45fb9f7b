/* The server as a whole: options, listener, one lane per loop, start and end. */
#include "net/http_server.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_conn.h"
#include "net/log.h"

void http_server_options_init(struct http_server_options *o)
{
    *o = (struct http_server_options){
        .server_header = "dfs",
        .max_connections = 65536,
        .idle_timeout_ms = 60000,
        .head_timeout_ms = 20000,
        .body_timeout_ms = 60000,
        .skip_body_max = 256 * 1024,
    };
}

static struct http_lane *lane_of(struct http_server *s, const struct loop *loop)
{
    for (uint32_t i = 0; i < s->lane_count; i++)
        if (s->lanes[i].loop == loop)
            return &s->lanes[i];
    return NULL;
}

static void on_accept(void *arg, struct loop *loop, int fd, const struct sockaddr_storage *peer)
{
    struct http_server *s = arg;
    struct http_lane *lane = lane_of(s, loop);
    CHECK(lane != NULL);
    uint32_t open = lane_opened(lane);
    if (open <= s->opts.max_connections) {
        conn_open(lane, fd, peer, false);
        return;
    }
    STAT_ADD(lane, refused, 1);
    if (open <= s->opts.max_connections + REFUSED_MAX) {
        conn_open(lane, fd, peer, true);
        return;
    }
    lane_closed(lane);
    close(fd);
}

static uint32_t lane_load(void *arg, uint32_t i)
{
    const struct http_server *s = arg;
    return __atomic_load_n(&s->lanes[i].connections, __ATOMIC_RELAXED);
}

int http_server_new(const struct http_server_options *o, struct http_server **out)
{
    CHECK(o->loop_count > 0 && o->handler != NULL);
    struct http_server *s = calloc(1, sizeof *s);
    struct http_lane *lanes = calloc(o->loop_count, sizeof *lanes);
    if (s == NULL || lanes == NULL) {
        free(lanes);
        free(s);
        return DFS_ENOMEM;
    }
    s->opts = *o;
    s->lanes = lanes;
    s->lane_count = o->loop_count;
    for (uint32_t i = 0; i < o->loop_count; i++)
        lane_init(&lanes[i], s, o->loops[i]);

    struct listener_options lo = {
        .accept_loop = o->accept_loop, .loops = o->loops, .loop_count = o->loop_count,
        .host = o->host, .port = o->port, .on_accept = on_accept, .load = lane_load,
        .gather_local = o->gather_local, .arg = s,
    };
    int rc = listener_new(&lo, &s->listener);
    if (rc != 0) {
        free(s->lanes); /* nothing is registered with the loops yet, which may be running */
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

uint16_t http_server_port(const struct http_server *s)
{
    return listener_port(s->listener);
}

void http_server_drain(struct http_server *s)
{
    listener_stop(s->listener);
    if (s->draining)
        return;
    s->draining = true;
    for (uint32_t i = 0; i < s->lane_count; i++)
        loop_post(s->lanes[i].loop, &s->lanes[i].drain_msg);
}

uint32_t http_server_connections(const struct http_server *s)
{
    return __atomic_load_n(&s->connections, __ATOMIC_RELAXED);
}

void http_server_stats(const struct http_server *s, struct http_server_stats *out)
{
    *out = (struct http_server_stats){.connections = http_server_connections(s)};
    for (uint32_t i = 0; i < s->lane_count; i++) {
        const struct lane_stats *l = &s->lanes[i].stats;
        out->requests += __atomic_load_n(&l->requests, __ATOMIC_RELAXED);
        out->bad_requests += __atomic_load_n(&l->bad_requests, __ATOMIC_RELAXED);
        out->refused += __atomic_load_n(&l->refused, __ATOMIC_RELAXED);
        out->timeouts += __atomic_load_n(&l->timeouts, __ATOMIC_RELAXED);
        out->dropped_headers += __atomic_load_n(&l->dropped_headers, __ATOMIC_RELAXED);
        out->unanswered += __atomic_load_n(&l->unanswered, __ATOMIC_RELAXED);
    }
}

void http_server_free(struct http_server *s)
{
    if (s == NULL)
        return;
    bool all = true;
    listener_free(s->listener);
    for (uint32_t i = 0; i < s->lane_count; i++) {
        loop_run_posted(s->lanes[i].loop); /* sockets on their way, results of work elsewhere */
        all &= lane_release(&s->lanes[i]);
    }
    if (!all) {
        log_error("http server freed while requests are held: their memory is left alone");
        return;
    }
    free(s->lanes);
    free(s);
}
