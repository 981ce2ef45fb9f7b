/* Two buffers: one that the other server fills, one that our client drains. */
#include "volume/relay.h"

#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

static void tell_ready(struct relay *y)
{
    if (!y->waiting)
        return;
    y->waiting = false;
    if (y->on_ready != NULL)
        y->on_ready(y);
}

static void on_call_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct relay *y = arg;
    (void)call;
    y->head_seen = true;
    y->on_head(y, head);
}

static int buffer_append(struct relay_buffer *b, struct bytes in)
{
    if (in.n > b->cap - b->n) {
        size_t cap = b->cap == 0 ? 16384 : b->cap;
        while (cap - b->n < in.n)
            cap *= 2;
        char *p = realloc(b->p, cap);
        if (p == NULL)
            return DFS_ENOMEM;
        b->p = p;
        b->cap = cap;
    }
    memcpy(b->p + b->n, in.p, in.n);
    b->n += in.n;
    return 0;
}

static int on_call_body(void *arg, struct http_call *call, struct bytes in)
{
    struct relay *y = arg;
    (void)call;
    if (y->unwanted)
        return DFS_ECANCELLED;
    int rc = buffer_append(&y->fill, in);
    if (rc != 0)
        return rc;
    y->paused = y->fill.n >= RELAY_BUFFER_BYTES;
    bool paused = y->paused;
    tell_ready(y);
    return paused ? DFS_EAGAIN : 0;
}

static void on_call_done(void *arg, struct http_call *call, int rc, int status)
{
    struct relay *y = arg;
    (void)call;
    (void)status;
    y->call = NULL;
    y->ended = true;
    y->rc = rc;
    if (!y->head_seen || y->unwanted)
        y->on_failed(y, rc != 0 ? rc : DFS_EPROTO);
    else
        tell_ready(y);
}

static const struct http_call_ops call_ops = {on_call_head, on_call_body, on_call_done};

int relay_start(struct relay *y, struct http_client *c, const struct addr *addr, struct bytes target, struct bytes headers)
{
    y->head_seen = y->ended = y->paused = y->waiting = y->unwanted = false;
    y->rc = 0;
    y->fill.n = y->out.n = 0;
    struct http_call_request req = {
        .addr = addr,
        .method = HTTP_GET,
        .target = target,
        .headers = headers,
        .deadline_ms = RELAY_DEADLINE_MS,
        .ops = &call_ops,
        .arg = y,
    };
    return http_call_start(c, &req, &y->call);
}

void relay_refuse(struct relay *y)
{
    y->unwanted = true;
}

int relay_take(struct relay *y, struct bytes *out)
{
    if (y->fill.n > 0) {
        struct relay_buffer b = y->out;
        y->out = y->fill;
        y->fill = b;
        y->fill.n = 0;
        *out = bytes_of(y->out.p, y->out.n);
        if (y->paused && y->call != NULL) {
            y->paused = false;
            http_call_resume(y->call);
        }
        return 0;
    }
    if (y->ended)
        return y->rc != 0 ? y->rc : 1;
    y->waiting = true;
    return DFS_EAGAIN;
}

static void ignore_failed(struct relay *y, int rc)
{
    (void)y;
    (void)rc;
}

void relay_release(struct relay *y)
{
    y->waiting = false;
    y->on_ready = NULL;
    y->on_failed = ignore_failed;
    if (y->call != NULL)
        http_call_cancel(y->call); /* on_call_done clears it */
    free(y->fill.p);
    free(y->out.p);
    memset(&y->fill, 0, sizeof y->fill);
    memset(&y->out, 0, sizeof y->out);
}
