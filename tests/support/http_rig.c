#include "tests/support/http_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/ascii.h"
#include "net/clock.h"

uint64_t rig_opened, rig_ended, rig_closed, rig_died;

static void count(uint64_t *c)
{
    __atomic_add_fetch(c, 1, __ATOMIC_RELAXED);
}

uint64_t rig_count(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

char rig_pattern(uint64_t at)
{
    return (char)('a' + (at * 7 + at / 311) % 26);
}

/* ---- handler ---- */

struct task {
    struct loop_timer timer;
    struct http_req *r;
    char *body;
    size_t body_n, body_cap;
    uint64_t pauses, direct_calls;
    bool held;
};

static bool path_is(const struct http_req *r, const char *path)
{
    return bytes_eq(r->head.path, bytes_str(path));
}

/* Value of "name=123" in the query. */
static uint64_t query_u64(const struct http_req *r, const char *name, uint64_t dflt)
{
    struct bytes rest = r->head.query, field, key;
    while (bytes_split(&rest, '&', &field)) {
        uint64_t v;
        if (bytes_split(&field, '=', &key) && bytes_eq(key, bytes_str(name)) && bytes_u64(field, &v))
            return v;
    }
    return dflt;
}

static void on_later(void *arg)
{
    struct task *t = arg;
    struct http_req *r = t->r;
    t->held = false;
    if (path_is(r, "/later"))
        http_reply_text(r, 200, "later%s", r->dead ? " and dead" : "");
    if ((path_is(r, "/pause") || path_is(r, "/direct")) && !r->dead)
        http_req_resume(r);
    http_req_drop(r);
}

static void start_later(struct task *t, uint64_t ms)
{
    http_req_hold(t->r);
    t->held = true;
    loop_timer_set(&t->timer, ms);
}

/* /source?len=N&piece=P&file=1&again=K&fail=F&chunked=1&short=1: a body of N bytes in pieces of P, from a file or from memory; every
 * K-th call says DFS_EAGAIN first; at call F it fails; chunked: its length is not told; short: says it is one longer. */
struct test_source {
    struct http_source src;
    struct loop_timer timer;
    struct http_req *r;
    uint64_t len, at, piece, again, fail, calls, slow_ms;
    bool file, again_said;
    int fd;
    char *mem;
};
static int pattern_fd = -1;
#define PATTERN_FILE_BYTES (8u << 20)

static void on_source_timer(void *arg)
{
    struct test_source *s = arg;
    struct http_req *r = s->r;
    if (!r->dead)
        http_source_ready(r);
    http_req_drop(r);
}

static int source_next(struct http_source *src, struct http_piece *out)
{
    struct test_source *s = (struct test_source *)src;
    s->calls++;
    if (s->again > 0 && s->calls % s->again == 0 && !s->again_said) {
        s->again_said = true;
        if (s->slow_ms == 0) {
            http_source_ready(s->r); /* from inside next(): must not be lost */
        } else {
            http_req_hold(s->r);
            loop_timer_set(&s->timer, s->slow_ms);
        }
        return DFS_EAGAIN;
    }
    s->again_said = false;
    if (s->fail > 0 && s->calls >= s->fail)
        return DFS_ECORRUPT;
    if (s->at == s->len)
        return 1;
    uint64_t n = s->len - s->at < s->piece ? s->len - s->at : s->piece;
    *out = (struct http_piece){.is_file = s->file};
    if (s->file) {
        out->fd = s->fd;
        out->file_pos = s->at;
        out->bytes = n;
    } else {
        s->mem = realloc(s->mem, n); /* the piece before is gone: the sanitizer watches */
        for (uint64_t i = 0; i < n; i++)
            s->mem[i] = rig_pattern(s->at + i);
        out->mem = bytes_of(s->mem, n);
    }
    s->at += n;
    return 0;
}

static void source_free(struct http_source *src)
{
    struct test_source *s = (struct test_source *)src;
    loop_timer_release(&s->timer);
    free(s->mem);
    free(s);
}

static void reply_source(struct http_req *r)
{
    struct test_source *s = calloc(1, sizeof *s);
    s->src.next = source_next;
    s->src.free = source_free;
    s->r = r;
    s->len = query_u64(r, "len", 0);
    s->piece = query_u64(r, "piece", 100000);
    s->again = query_u64(r, "again", 0);
    s->slow_ms = query_u64(r, "slow", 0);
    s->fail = query_u64(r, "fail", 0);
    s->file = query_u64(r, "file", 0);
    s->fd = pattern_fd;
    loop_timer_init(&s->timer, r->loop, on_source_timer, s);
    http_reply_begin(r, 200);
    http_reply_header(r, "Content-Type", BYTES_LIT("application/octet-stream"));
    http_reply_source(r, &s->src, query_u64(r, "chunked", 0) ? HTTP_LENGTH_UNKNOWN : s->len + query_u64(r, "short", 0));
}

static void reply_big(struct http_req *r)
{
    size_t n = query_u64(r, "n", 1000);
    char *p = malloc(n);
    for (size_t i = 0; i < n; i++)
        p[i] = rig_pattern(i);
    http_reply_begin(r, 200);
    http_reply_bytes(r, bytes_of(p, n));
    memset(p, '#', n); /* it was only lent */
    free(p);
}

static void reply_headers(struct http_req *r)
{
    http_reply_begin(r, 200);
    http_reply_header(r, "X-Good", BYTES_LIT("a \"b\" \xc3\xa4"));
    http_reply_header(r, "X-Evil", BYTES_LIT("a\r\nX-Injected: 1"));
    http_reply_header(r, "X-Nul", BYTES_LIT("a\0b"));
    http_reply_header(r, "X Evil", BYTES_LIT("a"));
    http_reply_header(r, "", BYTES_LIT("a"));
    http_reply_header(r, "Content-Length", BYTES_LIT("3"));
    http_reply_header(r, "transfer-ENCODING", BYTES_LIT("chunked"));
    http_reply_header(r, "Connection", BYTES_LIT("upgrade"));
    http_reply_headerf(r, "X-Number", "%d-%s", 42, "x");
    for (uint64_t i = 0; i < query_u64(r, "n", 0); i++) {
        char name[32];
        snprintf(name, sizeof name, "X-Many-%llu", (unsigned long long)i);
        http_reply_header(r, name, BYTES_LIT("0123456789012345678901234567890123456789"));
    }
    http_reply_bytes(r, BYTES_LIT("headers"));
}

static void reply_at_once(struct http_req *r)
{
    if (path_is(r, "/hello")) {
        http_reply_text(r, 200, "hello");
    } else if (path_is(r, "/early")) {
        http_reply_error(r, 413, "too \"much\"");
    } else if (path_is(r, "/source")) {
        reply_source(r);
    } else if (path_is(r, "/big")) {
        reply_big(r);
    } else if (path_is(r, "/headers")) {
        reply_headers(r);
    } else if (path_is(r, "/iov")) {
        struct bytes pieces[] = {BYTES_LIT("one "), BYTES_NONE, BYTES_LIT("two "), BYTES_LIT("three")};
        http_reply_begin(r, 200);
        http_reply_iov(r, pieces, 4);
    } else if (path_is(r, "/empty")) {
        http_reply_empty(r, (int)query_u64(r, "status", 200));
    } else if (path_is(r, "/peer")) {
        CHECK(http_req_peer_addr(r)->ss_family == AF_INET);
        CHECK(http_req_peer(r) == http_req_peer(r));
        http_reply_text(r, 200, "%s", http_req_peer(r));
    } else if (path_is(r, "/close")) {
        http_req_close_after(r);
        http_reply_text(r, 200, "bye");
    } else if (path_is(r, "/abort")) {
        http_req_abort(r);
    } else if (path_is(r, "/busy")) {
        http_reply_error(r, 503, "%s", "no room for \xff\x01 now");
    }
}

/* /direct: memory for the body of its own, a piece at a time and now and then none; takes all but a few bytes of what comes in
 * there, so that the rest has to come the other way. */
static size_t direct_room(struct http_req *r, void **p)
{
    struct task *t = r->user;
    t->direct_calls++;
    if (t->direct_calls % 5 == 0)
        return 0;
    size_t n = 1 + t->direct_calls * 7919 % 70000;
    if (t->body_n + n > t->body_cap) {
        t->body_cap = 2 * (t->body_n + n);
        t->body = realloc(t->body, t->body_cap);
    }
    *p = t->body + t->body_n;
    return n;
}

static size_t direct_filled(struct http_req *r, size_t n)
{
    struct task *t = r->user;
    size_t refused = t->direct_calls % 3 == 0 ? (n < 100 ? n : 100) : 0;
    CHECK(n > 0 && !r->replied && !r->dead);
    t->body_n += n - refused;
    return n - refused;
}

static const struct http_direct direct = {direct_room, direct_filled};

static void on_request(struct http_req *r)
{
    count(&rig_opened);
    struct task *t = http_req_alloc(r, sizeof *t);
    t->r = r;
    r->user = t;
    loop_timer_init(&t->timer, r->loop, on_later, t);
    if (path_is(r, "/direct"))
        r->direct = &direct;
    if (path_is(r, "/alloc")) {
        /* Up to the bound and not beyond; all of it zeroed and aligned. */
        uint32_t got = 0;
        unsigned char *p;
        while ((p = http_req_alloc(r, 1000)) != NULL) {
            CHECK((uintptr_t)p % 16 == 0);
            for (int i = 0; i < 1000; i++)
                CHECK(p[i] == 0);
            memset(p, 0xee, 1000);
            got++;
        }
        CHECK(http_req_alloc(r, HTTP_REQ_ARENA_MAX + 1) == NULL);
        http_reply_text(r, 200, "%u", got);
    } else if (path_is(r, "/dropped")) {
        start_later(t, 1);
    } else {
        reply_at_once(r);
    }
}

static int collect(struct task *t, struct bytes in)
{
    if (in.n == 0)
        return 0;
    if (t->body_n + in.n > t->body_cap) {
        t->body_cap = 2 * (t->body_n + in.n);
        t->body = realloc(t->body, t->body_cap);
    }
    memcpy(t->body + t->body_n, in.p, in.n);
    t->body_n += in.n;
    return 0;
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    struct task *t = r->user;
    CHECK(in.n > 0);
    CHECK(!r->replied);
    CHECK(!r->dead);
    if (path_is(r, "/mid")) {
        http_reply_error(r, 400, "not like this");
        return DFS_EINVAL;
    }
    if (path_is(r, "/mid0")) {
        http_reply_error(r, 400, "not like this");
        return 0;
    }
    if (path_is(r, "/broken"))
        return DFS_EIO;
    if (path_is(r, "/abort-body")) {
        http_req_abort(r);
        return 0;
    }
    if (path_is(r, "/resume-inside") && t->pauses++ < 3) {
        *taken = in.n / 2;
        collect(t, bytes_of(in.p, *taken));
        http_req_resume(r);
        return DFS_EAGAIN;
    }
    if (path_is(r, "/pause") || (path_is(r, "/direct") && in.n % 4 == 1)) {
        *taken = in.n > 2 ? in.n / 3 * 2 : t->pauses % 2;
        collect(t, bytes_of(in.p, *taken));
        t->pauses++;
        start_later(t, 0);
        return DFS_EAGAIN;
    }
    if (path_is(r, "/stuck")) {
        *taken = 0;
        t->pauses++;
        return DFS_EAGAIN; /* and nobody resumes */
    }
    if (path_is(r, "/count"))
        return 0;
    return collect(t, in);
}

static void on_end(struct http_req *r)
{
    struct task *t = r->user;
    count(&rig_ended);
    CHECK(!r->replied && !r->dead);
    if (path_is(r, "/later"))
        start_later(t, query_u64(r, "ms", 5));
    else if (path_is(r, "/count"))
        http_reply_text(r, 200, "%llu", (unsigned long long)r->body_bytes);
    else if (path_is(r, "/abort-end"))
        http_req_abort(r);
    else if (!path_is(r, "/forgotten") && !path_is(r, "/dropped")) {
        http_reply_begin(r, 200);
        http_reply_bytes(r, bytes_of(t->body, t->body_n));
    }
}

static void on_close(struct http_req *r)
{
    struct task *t = r->user;
    CHECK(!t->held);
    if (r->dead)
        count(&rig_died);
    loop_timer_release(&t->timer);
    free(t->body);
    r->user = NULL;
    count(&rig_closed);
}

static const struct http_handler handler = {on_request, on_body, on_end, on_close};

/* ---- life ---- */

static void make_pattern_file(void)
{
    if (pattern_fd != -1)
        return;
    pattern_fd = memfd_create("pattern", MFD_CLOEXEC);
    char *p = malloc(PATTERN_FILE_BYTES);
    assert_true(pattern_fd != -1 && p != NULL);
    for (size_t i = 0; i < PATTERN_FILE_BYTES; i++)
        p[i] = rig_pattern(i);
    assert_int_equal(write(pattern_fd, p, PATTERN_FILE_BYTES), PATTERN_FILE_BYTES);
    free(p);
}

void rig_init(struct rig *rig, uint32_t loops)
{
    memset(rig, 0, sizeof *rig);
    make_pattern_file();
    rig_opened = rig_ended = rig_closed = rig_died = 0;
    for (uint32_t i = 0; i < loops; i++)
        assert_int_equal(loop_new("rig", &rig->loops[i]), 0);
    http_server_options_init(&rig->opts);
    rig->opts.accept_loop = rig->loops[0];
    rig->opts.loops = rig->loops;
    rig->opts.loop_count = loops;
    rig->opts.host = "127.0.0.1";
    rig->opts.port = 0;
    rig->opts.handler = &handler;
    rig->opts.server_header = "dfs test";
}

void rig_start(struct rig *rig)
{
    assert_int_equal(http_server_new(&rig->opts, &rig->server), 0);
    rig->port = http_server_port(rig->server);
    assert_int_not_equal(rig->port, 0);
    for (uint32_t i = 0; i < rig->opts.loop_count; i++)
        assert_int_equal(loop_start(rig->loops[i]), 0);
}

void rig_stop(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->opts.loop_count; i++)
        loop_stop(rig->loops[i]);
    for (uint32_t i = 0; i < rig->opts.loop_count; i++)
        loop_join(rig->loops[i]);
    http_server_free(rig->server);
    for (uint32_t i = 0; i < rig->opts.loop_count; i++)
        loop_free(rig->loops[i]);
    assert_int_equal(rig_opened, rig_closed);
}

/* ---- client ---- */

/* What was read behind the last answer of `fd`. */
static struct {
    int fd;
    char *p;
    size_t n;
} left = {.fd = -1};

int rig_connect(const struct rig *rig)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(rig->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd != -1);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    struct timeval tv = {.tv_sec = RIG_WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    return fd;
}

bool rig_try_send(int fd, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t put = send(fd, at, n, MSG_NOSIGNAL);
        if (put == -1 && errno == EINTR)
            continue;
        if (put <= 0) {
            assert_int_not_equal(errno, EAGAIN); /* the server reads no more and closes nothing */
            return false;
        }
        at += put;
        n -= (size_t)put;
    }
    return true;
}

void rig_send_bytes(int fd, const void *p, size_t n)
{
    assert_true(rig_try_send(fd, p, n));
}

void rig_send(int fd, const char *fmt, ...)
{
    char text[8192];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof text);
    rig_send_bytes(fd, text, (size_t)n);
}

/* More bytes behind `*p`; false at the end of the stream (or a reset). */
static bool read_more(int fd, char **p, size_t *n)
{
    char chunk[65536];
    ssize_t got = recv(fd, chunk, sizeof chunk, 0);
    if (got == -1)
        assert_int_not_equal(errno, EAGAIN); /* waited in vain */
    if (got <= 0)
        return false;
    *p = realloc(*p, *n + (size_t)got + 1);
    memcpy(*p + *n, chunk, (size_t)got);
    *n += (size_t)got;
    (*p)[*n] = '\0';
    return true;
}

static void take_left(int fd, char **p, size_t *n)
{
    *p = NULL;
    *n = 0;
    if (left.fd == fd) {
        *p = left.p;
        *n = left.n;
    } else {
        free(left.p);
    }
    left.p = NULL;
    left.n = 0;
    left.fd = -1;
}

static void keep_left(int fd, const char *p, size_t n)
{
    left.fd = fd;
    left.p = malloc(n + 1);
    memcpy(left.p, p, n);
    left.p[n] = '\0';
    left.n = n;
}

/* Length of the body in `in`, -1 when it is not whole; *raw: bytes on the wire. */
static long body_length(struct rig_answer *a, struct bytes in, bool closed, size_t *raw)
{
    if (a->head.chunked) {
        struct http_chunked c;
        size_t at = 0, n = 0;
        http_chunked_init(&c);
        free(a->body);
        a->body = malloc(in.n + 1);
        for (;;) {
            struct bytes data;
            size_t used;
            int rc = http_chunked_feed(&c, bytes_of(in.p + at, in.n - at), &data, &used);
            assert_true(rc >= 0);
            if (data.n > 0)
                memcpy(a->body + n, data.p, data.n);
            n += data.n;
            at += used;
            *raw = at;
            if (rc == 1)
                return (long)n;
            if (at == in.n) {
                a->body_n = n;
                return -1;
            }
        }
    }
    size_t want = a->head.has_length ? a->head.content_length : closed ? in.n : SIZE_MAX;
    *raw = in.n < want ? in.n : want;
    a->body = realloc(a->body, *raw + 1);
    if (*raw > 0)
        memcpy(a->body, in.p, *raw);
    a->body_n = *raw;
    return in.n >= want ? (long)want : -1;
}

void rig_read(int fd, bool head_request, struct rig_answer *a)
{
    char *p;
    size_t n, scanned = 0, raw = 0;
    memset(a, 0, sizeof *a);
    take_left(fd, &p, &n);
    int rc;
    while ((rc = http_parse_response(bytes_of(p, n), &scanned, &a->head)) == DFS_ESHORT)
        if (!read_more(fd, &p, &n))
            fail_msg("closed before an answer came");
    assert_int_equal(rc, 0);
    size_t head_n = a->head.head_bytes;
    bool none = head_request || a->head.status == 204 || a->head.status == 304 || a->head.status < 200;
    bool closed = false;
    long len = 0;
    a->body = calloc(1, 1);
    if (!none)
        while ((len = body_length(a, bytes_of(p + head_n, n - head_n), closed, &raw)) < 0 && !closed)
            closed = !read_more(fd, &p, &n);
    a->whole = len >= 0;
    if (len >= 0)
        a->body_n = (size_t)len;
    a->body[a->body_n] = '\0';
    keep_left(fd, p + head_n + raw, n - head_n - raw);
    /* Parse once more: the text has moved while it grew. */
    a->text = p;
    scanned = 0;
    assert_int_equal(http_parse_response(bytes_of(p, n), &scanned, &a->head), 0);
}

void rig_answer_free(struct rig_answer *a)
{
    free(a->text);
    free(a->body);
    memset(a, 0, sizeof *a);
}

const char *rig_header(const struct rig_answer *a, const char *name)
{
    static char value[1024];
    struct bytes v = http_header_get(&a->head, name);
    size_t n = v.n < sizeof value - 1 ? v.n : sizeof value - 1;
    if (n > 0)
        memcpy(value, v.p, n);
    value[n] = '\0';
    return value;
}

void rig_expect(int fd, int status, const char *body)
{
    struct rig_answer a;
    rig_read(fd, false, &a);
    assert_int_equal(a.head.status, status);
    assert_true(a.whole);
    if (body != NULL)
        assert_string_equal(a.body, body);
    rig_answer_free(&a);
}

void rig_expect_closed(int fd, bool reset_ok)
{
    char *p;
    size_t n;
    take_left(fd, &p, &n);
    if (n > 0)
        fail_msg("unexpected bytes: %s", p);
    free(p);
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);
    if (got == -1 && reset_ok && errno == ECONNRESET)
        return;
    if (got != 0)
        fail_msg("not closed: recv says %zd, %s", got, got < 0 ? strerror(errno) : "a byte");
}

void rig_expect_silence(int fd, int ms)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    assert_int_equal(left.fd == fd ? left.n : 0, 0);
    assert_int_equal(poll(&pfd, 1, ms), 0);
}

void rig_close(int fd)
{
    if (left.fd == fd) {
        char *p;
        size_t n;
        take_left(fd, &p, &n);
        free(p);
    }
    close(fd);
}

void rig_reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    rig_close(fd);
}

void rig_wait_for(uint64_t *counter, uint64_t at_least)
{
    for (int i = 0; i < RIG_WAIT_MS; i++) {
        if (rig_count(counter) >= at_least)
            return;
        clock_sleep_ms(1);
    }
    fail_msg("waited in vain for a counter to reach %llu", (unsigned long long)at_least);
}
