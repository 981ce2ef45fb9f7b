/* Bodies on their way in: from the socket through the loop's scratch memory to the handler, without a copy of ours, or into memory
 * that the handler has at hand.
 *
 * What a handler does not take at once is kept in the connection's buffer; how much a lane keeps in all is bounded by
 * reading less at a time. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_conn.h"

static bool is_unwanted(const struct http_exchange *x)
{
    return x->body.unwanted || x->req.replied;
}

/* Gives a run of body bytes to the handler; *taken tells how many it took. */
static enum feed deliver(struct http_conn *c, struct http_exchange *x, struct bytes run, size_t *taken)
{
    *taken = run.n;
    if (is_unwanted(x)) {
        x->body.skipped += run.n;
        return x->close_after || x->body.skipped > c->lane->server->opts.skip_body_max ? FEED_STOP : FEED_MORE;
    }
    x->req.body_bytes += run.n;
    x->body.resumed = false;
    size_t took = 0;
    int rc = c->lane->server->opts.handler->on_body(&x->req, run, &took);
    if (x->req.dead)
        return FEED_STOP;
    if (rc == 0 || is_unwanted(x))
        return FEED_MORE;
    if (rc == DFS_EAGAIN) {
        CHECK(took <= run.n);
        *taken = took;
        x->req.body_bytes -= run.n - took;
        x->body.paused = !x->body.resumed;
        return x->body.paused ? FEED_PAUSED : FEED_MORE;
    }
    return FEED_STOP; /* it failed without a reply: there is nothing to tell the client */
}

static enum feed feed_identity(struct http_conn *c, struct http_exchange *x, struct bytes in, size_t *used)
{
    size_t taken;
    struct bytes run = bytes_of(in.p, in.n < x->body.left ? in.n : (size_t)x->body.left);
    enum feed f = deliver(c, x, run, &taken);
    *used = taken;
    x->body.left -= taken;
    return f == FEED_MORE && x->body.left == 0 ? FEED_DONE : f;
}

static enum feed feed_chunked(struct http_conn *c, struct http_exchange *x, struct bytes in, size_t *used)
{
    struct http_chunked before = x->body.chunked;
    struct bytes data;
    size_t consumed = 0;
    int rc = http_chunked_feed(&x->body.chunked, in, &data, &consumed);
    if (rc < 0)
        return FEED_BAD;
    *used = consumed;
    if (data.n > 0) {
        size_t taken;
        enum feed f = deliver(c, x, data, &taken);
        if (taken < data.n) {
            /* Back to before, and over the same framing with as much data as was taken. */
            *used = consumed - (data.n - taken);
            x->body.chunked = before;
            rc = http_chunked_feed(&x->body.chunked, bytes_of(in.p, *used), &data, &consumed);
            CHECK(rc == 0 && consumed == *used);
        }
        return f;
    }
    return rc == 1 ? FEED_DONE : FEED_MORE;
}

enum feed body_feed(struct http_conn *c, struct http_exchange *x, struct bytes in, size_t *used)
{
    enum feed f = FEED_MORE;
    size_t at = 0;
    while (at < in.n && f == FEED_MORE) {
        size_t n = 0;
        struct bytes rest = bytes_of(in.p + at, in.n - at);
        f = x->req.head.chunked ? feed_chunked(c, x, rest, &n) : feed_identity(c, x, rest, &n);
        at += n;
    }
    *used = at;
    return f;
}

/* How much to ask the socket for: never what belongs behind an identity body. */
static size_t read_size(const struct http_conn *c, const struct http_exchange *x)
{
    size_t max = c->lane->kept_bytes > LANE_KEPT_BYTES_MAX ? READ_BUFFER_BYTES : LOOP_SCRATCH_BYTES;
    if (x->req.head.chunked)
        return max < 4 * READ_BUFFER_BYTES ? max : 4 * READ_BUFFER_BYTES; /* a pipelined request behind it must be kept */
    return x->body.left < max ? (size_t)x->body.left : max;
}

/* An unwanted identity body need not even be copied out of the kernel. */
static bool skip_identity(struct http_conn *c, struct http_exchange *x)
{
    size_t want = x->body.left < READ_BYTES_MAX ? (size_t)x->body.left : READ_BYTES_MAX;
    ssize_t n = recv(c->fd, NULL, want, MSG_TRUNC);
    if (n <= 0)
        return conn_received(c, n);
    c->more = false;
    x->body.skipped += (uint64_t)n;
    x->body.left -= (uint64_t)n;
    x->body.done = x->body.left == 0;
    return true;
}

/* Less than this is copied: it costs less than one more call. */
#define DIRECT_BYTES_MIN 8192u

/* Where the handler wants the next bytes, and how many of them fit; NULL: the loop's scratch memory. */
static void *direct_room(struct http_exchange *x, size_t *room)
{
    const struct http_direct *d = x->req.direct;
    void *p = NULL;
    if (d == NULL || x->req.head.chunked || is_unwanted(x) || x->body.left < DIRECT_BYTES_MIN)
        return NULL;
    *room = d->room(&x->req, &p);
    return *room == 0 ? NULL : p;
}

/* n bytes were received at `at`, in the handler's memory.  What it does not take comes to it the other way, out of ours. */
static enum feed feed_direct(struct http_conn *c, struct http_exchange *x, const char *at, size_t n, size_t *used)
{
    char *scratch = loop_scratch(c->lane->loop);
    size_t took = x->req.direct->filled(&x->req, n), more = 0;
    enum feed f = FEED_MORE;
    CHECK(took <= n && n <= LOOP_SCRATCH_BYTES);
    x->req.body_bytes += took;
    x->body.left -= took;
    if (took < n) {
        memcpy(scratch + took, at + took, n - took);
        f = body_feed(c, x, bytes_of(scratch + took, n - took), &more);
    } else if (x->body.left == 0) {
        f = FEED_DONE;
    }
    *used = took + more;
    return f;
}

bool body_read(struct http_conn *c, struct http_exchange *x)
{
    if (is_unwanted(x) && !x->req.head.chunked)
        return skip_identity(c, x);
    size_t budget = READ_BYTES_MAX;
    bool any = false;
    do {
        char *scratch = loop_scratch(c->lane->loop);
        size_t want = read_size(c, x), used, room = 0;
        void *direct = direct_room(x, &room);
        if (direct != NULL && want > room)
            want = room;
        ssize_t n = recv(c->fd, direct != NULL ? direct : scratch, want, 0);
        if (n <= 0)
            return conn_received(c, n) || any;
        any = true;
        c->more = (size_t)n == want;
        enum feed f = direct != NULL ? feed_direct(c, x, direct, (size_t)n, &used)
                                     : body_feed(c, x, bytes_of(scratch, (size_t)n), &used);
        exchange_fed(c, x, f);
        if (f == FEED_PAUSED || f == FEED_DONE)
            conn_keep(c, x, bytes_of(scratch + used, (size_t)n - used));
        if (f != FEED_MORE)
            return true;
        budget -= (size_t)n < budget ? (size_t)n : budget;
    } while (c->more && budget > 0);
    c->more = false; /* what is still there is told by the next event, after the others */
    return true;
}
