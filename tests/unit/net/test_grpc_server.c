/* What a gRPC port does with those who speak something else, or HTTP/2 badly: written byte by byte over a plain socket. */
#include "tests/unit/net/grpc_pair.h"

#include <event2/event.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>

#define MAGIC "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static struct pair P;

static void echo_message(struct grpc_call *call, struct bytes m)
{
    P.messages++;
    grpc_call_send_raw(call, m);
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void hang_message(struct grpc_call *call, struct bytes m)
{
    (void)m;
    P.messages++;
    P.hanging = call;
}

static void srv_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    (void)call;
    (void)text;
    P.closed++;
    P.closed_status = status;
}

static const struct grpc_call_ops echo = {.on_message = echo_message, .on_closed = srv_closed};
static const struct grpc_call_ops hang = {.on_message = hang_message, .on_closed = srv_closed};
static const struct grpc_method methods[] = {{"/t.T/Echo", &echo, 0}, {"/t.T/Hang", &hang, 0}};

/* ---- a client made of bytes ---- */

struct raw {
    int fd;
    struct event *ev;
    uint8_t in[256 * 1024];
    size_t in_n;
    int eof;
    nghttp2_hd_inflater *inflater;
    uint8_t out[64 * 1024];
    size_t out_n;
};

static struct raw R;

static void raw_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct raw *r = arg;
    ssize_t n = recv(fd, r->in + r->in_n, sizeof r->in - r->in_n, MSG_DONTWAIT);
    if (n > 0) {
        r->in_n += (size_t)n;
        return;
    }
    r->eof = 1;
    event_del(r->ev);
}

static void raw_open(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(P.addr.grpc_port)};
    memset(&R, 0, sizeof R);
    R.fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(R.fd, (struct sockaddr *)&in, sizeof in), 0);
    R.ev = event_new(loop_base(P.loop), R.fd, EV_READ | EV_PERSIST, raw_readable, &R);
    event_add(R.ev, NULL);
    assert_int_equal(nghttp2_hd_inflate_new(&R.inflater), 0);
}

static void raw_close(void)
{
    event_free(R.ev);
    close(R.fd);
    nghttp2_hd_inflate_del(R.inflater);
}

static void put(const void *p, size_t n)
{
    assert_true(R.out_n + n <= sizeof R.out);
    memcpy(R.out + R.out_n, p, n);
    R.out_n += n;
}

static void frame(uint8_t type, uint8_t flags, uint32_t id, const void *p, size_t n)
{
    uint8_t head[9] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, type, flags};
    be32_put(head + 5, id);
    put(head, 9);
    put(p, n);
}

static void flush(void)
{
    assert_int_equal(send(R.fd, R.out, R.out_n, MSG_NOSIGNAL), R.out_n);
    R.out_n = 0;
}

static void preface(void)
{
    put(MAGIC, sizeof MAGIC - 1);
    frame(NGHTTP2_SETTINGS, 0, 0, "", 0);
}

struct field {
    const char *name, *value;
};

static size_t literal(uint8_t *p, const char *name, const char *value)
{
    size_t n = strlen(name), v = strlen(value), at = 0;
    p[at++] = 0; /* literal, not indexed, new name */
    assert_true(n < 127 && v < 127);
    p[at++] = (uint8_t)n;
    memcpy(p + at, name, n);
    at += n;
    p[at++] = (uint8_t)v;
    memcpy(p + at, value, v);
    return at + v;
}

static void request(uint32_t id, uint8_t flags, const struct field *f, size_t n)
{
    uint8_t block[4096];
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += literal(block + at, f[i].name, f[i].value);
    frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | flags, id, block, at);
}

static void call_to(uint32_t id, const char *method, const char *path, const char *type, const char *timeout)
{
    struct field f[] = {{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "x"},
                        {"te", "trailers"}, {"content-type", type}, {"grpc-timeout", timeout}};
    request(id, 0, f, timeout != NULL ? 7 : 6);
}

static void message(uint32_t id, uint8_t frame_flags, uint8_t flag, const char *text)
{
    uint8_t p[256];
    size_t n = strlen(text);
    grpc_prefix_put(p, (uint32_t)n);
    p[0] = flag;
    memcpy(p + 5, text, n);
    frame(NGHTTP2_DATA, frame_flags, id, p, n + 5);
}

/* What came back for one stream: values of the headers, and whether it has ended. */
struct back {
    char status[8], grpc_status[8], grpc_message[128];
    size_t data_n;
    int ended, reset, goaway, settings, pings;
    uint32_t reset_code, goaway_code;
};

static void inflate(struct back *b, bool wanted, const uint8_t *p, size_t n)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(R.inflater, &nv, &flags, p, n, 1);
        assert_true(used >= 0);
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && wanted) {
            char *to = NULL;
            size_t cap = 0;
            struct bytes name = bytes_of(nv.name, nv.namelen);
            if (bytes_eq(name, BYTES_LIT(":status")))
                to = b->status, cap = sizeof b->status;
            else if (bytes_eq(name, BYTES_LIT("grpc-status")))
                to = b->grpc_status, cap = sizeof b->grpc_status;
            else if (bytes_eq(name, BYTES_LIT("grpc-message")))
                to = b->grpc_message, cap = sizeof b->grpc_message;
            if (to != NULL)
                snprintf(to, cap, "%.*s", (int)nv.valuelen, (const char *)nv.value);
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            nghttp2_hd_inflate_end_headers(R.inflater);
            return;
        }
    }
}

/* Reads the frames that are whole, once. */
static void look(struct back *b, uint32_t id)
{
    size_t at = 0;
    while (R.in_n - at >= 9) {
        const uint8_t *h = R.in + at;
        size_t n = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
        if (R.in_n - at < 9 + n)
            break;
        uint32_t sid = be32_get(h + 5);
        bool mine = sid == id;
        if (h[3] == NGHTTP2_HEADERS)
            inflate(b, mine, h + 9, n);
        if (h[3] == NGHTTP2_DATA && mine)
            b->data_n += n;
        if ((h[3] == NGHTTP2_HEADERS || h[3] == NGHTTP2_DATA) && mine && (h[4] & NGHTTP2_FLAG_END_STREAM))
            b->ended = 1;
        if (h[3] == NGHTTP2_RST_STREAM && mine)
            b->reset = 1, b->reset_code = be32_get(h + 9);
        if (h[3] == NGHTTP2_GOAWAY)
            b->goaway = 1, b->goaway_code = be32_get(h + 13);
        if (h[3] == NGHTTP2_SETTINGS)
            b->settings++;
        if (h[3] == NGHTTP2_PING)
            b->pings++;
        at += 9 + n;
    }
    memmove(R.in, R.in + at, R.in_n - at);
    R.in_n -= at;
}

static void expect(struct back *b, uint32_t id)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 2000 && !b->ended && !b->reset && !b->goaway && !R.eof; i++) {
        pair_nap(&P, 2);
        look(b, id);
    }
}

static int setup(void **state)
{
    (void)state;
    pair_new(&P, methods, 2);
    raw_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    raw_close();
    pair_free(&P);
    return 0;
}

/* ---- not HTTP/2 ---- */

static void test_http1(void **state)
{
    (void)state;
    static const char q[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    put(q, sizeof q - 1);
    flush();
    pair_until(&P, &R.eof, 1);
    R.in[R.in_n] = '\0';
    assert_memory_equal(R.in, "HTTP/1.1 400 Bad Request\r\n", 26);
    const char *body = strstr((char *)R.in, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(strlen(body + 4), 47);
    assert_int_equal(grpc_server_connections(P.server), 0);
}

static void test_upgrade_refused(void **state)
{
    (void)state;
    static const char q[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                            "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    put(q, sizeof q - 1);
    flush();
    pair_until(&P, &R.eof, 1);
    assert_memory_equal(R.in, "HTTP/1.1 400", 12);
}

static void test_garbage(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 50; round++) {
        uint8_t junk[600];
        for (size_t i = 0; i < sizeof junk; i++)
            junk[i] = (uint8_t)rand();
        if (round % 2) /* a good beginning */
            put(MAGIC, sizeof MAGIC - 1);
        put(junk, sizeof junk);
        flush();
        shutdown(R.fd, SHUT_WR);
        pair_until(&P, &R.eof, 1);
        raw_close();
        raw_open();
    }
    pair_nap(&P, 5);
    assert_int_equal(P.messages, 0);
    assert_int_equal(grpc_server_connections(P.server), 1);
}

static void test_half_preface(void **state)
{
    (void)state;
    put(MAGIC, 10);
    flush();
    pair_until(&P, &R.eof, 1); /* the preface's time is up */
    assert_int_equal(grpc_server_connections(P.server), 0);
}

static struct h2_times usual;

static int setup_short(void **state)
{
    usual = h2_times;
    h2_times.preface_ms = 60;
    return setup(state);
}

static int teardown_short(void **state)
{
    h2_times = usual;
    return teardown(state);
}

/* ---- requests that are not gRPC's ---- */

static void refused(const char *method, const char *path, const char *type, const char *timeout, const char *http,
                    const char *grpc)
{
    struct back b;
    preface();
    call_to(1, method, path, type, timeout);
    flush();
    expect(&b, 1);
    assert_string_equal(b.status, http);
    assert_string_equal(b.grpc_status, grpc);
    assert_int_equal(b.ended, 1);
    assert_int_equal(P.messages, 0);
}

static void test_get(void **state)
{
    (void)state;
    refused("GET", "/t.T/Echo", "application/grpc", NULL, "405", "13");
}

static void test_content_type(void **state)
{
    (void)state;
    refused("POST", "/t.T/Echo", "application/json", NULL, "415", "13");
}

static void test_bad_timeout(void **state)
{
    (void)state;
    refused("POST", "/t.T/Echo", "application/grpc", "soon", "400", "13");
}

static void test_unknown_path(void **state)
{
    (void)state;
    refused("POST", "/t.T/Ech", "application/grpc+proto", NULL, "200", "12");
}

/* After an early answer the client is told to send no more. */
static void test_reset_after_answer(void **state)
{
    (void)state;
    struct back b, more;
    preface();
    call_to(1, "POST", "/nothing", "application/grpc", NULL);
    flush();
    expect(&b, 1);
    assert_int_equal(b.ended, 1);
    if (!b.reset) {
        expect(&more, 1);
        b.reset = more.reset;
        b.reset_code = more.reset_code;
    }
    assert_int_equal(b.reset, 1);
    assert_int_equal(b.reset_code, NGHTTP2_NO_ERROR);
}

static void test_good(void **state)
{
    (void)state;
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Echo", "application/grpc", "10S");
    message(1, NGHTTP2_FLAG_END_STREAM, 0, "hello");
    flush();
    expect(&b, 1);
    assert_string_equal(b.status, "200");
    assert_string_equal(b.grpc_status, "0");
    assert_int_equal(b.data_n, 10);
    assert_int_equal(P.messages, 1);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Echo", "application/grpc", NULL);
    message(1, NGHTTP2_FLAG_END_STREAM, 0, "hello");
    for (size_t i = 0; i < R.out_n; i++) {
        assert_int_equal(send(R.fd, R.out + i, 1, MSG_NOSIGNAL), 1);
        pair_nap(&P, 0);
    }
    R.out_n = 0;
    expect(&b, 1);
    assert_string_equal(b.grpc_status, "0");
    assert_int_equal(b.data_n, 10);
}

static void bad_message(uint8_t flag, const char *text, const char *grpc_status)
{
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Echo", "application/grpc", NULL);
    message(1, NGHTTP2_FLAG_END_STREAM, flag, text);
    flush();
    expect(&b, 1);
    assert_string_equal(b.status, "200");
    assert_string_equal(b.grpc_status, grpc_status);
    assert_int_equal(P.messages, 0);
}

static void test_compressed(void **state)
{
    (void)state;
    bad_message(1, "\x1f\x8b", "12");
}

static void test_reserved_flag(void **state)
{
    (void)state;
    bad_message(7, "x", "13");
}

static void test_huge_prefix(void **state)
{
    (void)state;
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Echo", "application/grpc", NULL);
    frame(NGHTTP2_DATA, 0, 1, "\0\x7f\xff\xff\xff", 5);
    flush();
    expect(&b, 1);
    assert_string_equal(b.grpc_status, "8");
}

static void test_cut_message(void **state)
{
    (void)state;
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Echo", "application/grpc", NULL);
    frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\x0a" "abc", 8);
    flush();
    expect(&b, 1);
    assert_string_equal(b.grpc_status, "13");
    assert_string_equal(b.grpc_message, "the last message was cut short");
}

/* A client whose clock is slow is told by us. */
static void test_deadline_told(void **state)
{
    (void)state;
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Hang", "application/grpc", "30m");
    message(1, NGHTTP2_FLAG_END_STREAM, 0, "x");
    flush();
    expect(&b, 1);
    assert_string_equal(b.grpc_status, "4");
    assert_int_equal(P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_DEADLINE_EXCEEDED);
}

static void test_reset_is_cancel(void **state)
{
    (void)state;
    uint8_t code[4] = {0, 0, 0, NGHTTP2_CANCEL};
    preface();
    call_to(1, "POST", "/t.T/Hang", "application/grpc", NULL);
    message(1, 0, 0, "x");
    flush();
    pair_until(&P, &P.messages, 1);
    frame(NGHTTP2_RST_STREAM, 0, 1, code, 4);
    flush();
    pair_until(&P, &P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_CANCELLED);
}

/* ---- floods ---- */

static void test_header_list_too_long(void **state)
{
    (void)state;
    struct back b;
    uint8_t block[17000];
    size_t at = 0;
    char value[120];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    at += literal(block, ":method", "POST");
    at += literal(block + at, ":scheme", "http");
    at += literal(block + at, ":path", "/t.T/Echo");
    while (at < 15800)
        at += literal(block + at, "x-long", value);
    preface();
    frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, at);
    flush();
    expect(&b, 1);
    assert_int_equal(b.reset, 1);
    /* The connection is as good as before. */
    call_to(3, "POST", "/t.T/Echo", "application/grpc", NULL);
    message(3, NGHTTP2_FLAG_END_STREAM, 0, "y");
    flush();
    expect(&b, 3);
    assert_string_equal(b.grpc_status, "0");
}

/* Sends a frame again and again until the server has had enough. */
static void flood(uint8_t type, uint8_t flags, uint32_t id, const void *p, size_t n, struct back *b)
{
    memset(b, 0, sizeof *b);
    fcntl(R.fd, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 4000 && !b->goaway && !R.eof; i++) {
        R.out_n = 0;
        for (int k = 0; k < 500; k++)
            frame(type, flags, id, p, n);
        size_t at = 0;
        while (at < R.out_n && !R.eof) {
            ssize_t sent = send(R.fd, R.out + at, R.out_n - at, MSG_NOSIGNAL);
            if (sent > 0)
                at += (size_t)sent;
            pair_nap(&P, 0);
            look(b, id);
        }
    }
    R.out_n = 0;
    for (int i = 0; i < 500 && !R.eof; i++)
        pair_nap(&P, 2);
    look(b, id);
    assert_int_equal(R.eof, 1);
    assert_int_equal(grpc_server_connections(P.server), 0);
}

static void test_ping_flood(void **state)
{
    (void)state;
    struct back b;
    preface();
    flush();
    flood(NGHTTP2_PING, 0, 0, "12345678", 8, &b);
}

static void test_settings_flood(void **state)
{
    (void)state;
    struct back b;
    preface();
    flush();
    flood(NGHTTP2_SETTINGS, 0, 0, "", 0, &b);
}

static void test_empty_data_flood(void **state)
{
    (void)state;
    struct back b;
    preface();
    call_to(1, "POST", "/t.T/Hang", "application/grpc", NULL);
    message(1, 0, 0, "x");
    flush();
    pair_until(&P, &P.messages, 1);
    flood(NGHTTP2_DATA, 0, 1, "", 0, &b);
    assert_int_equal(P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_CANCELLED);
}

static void test_rapid_reset(void **state)
{
    (void)state;
    struct back b = {0};
    uint8_t code[4] = {0, 0, 0, NGHTTP2_CANCEL};
    fcntl(R.fd, F_SETFL, O_NONBLOCK);
    preface();
    uint32_t id = 1;
    for (int i = 0; i < 4000 && !b.goaway && !R.eof; i++) {
        for (int k = 0; k < 100; k++, id += 2) {
            call_to(id, "POST", "/t.T/Hang", "application/grpc", NULL);
            frame(NGHTTP2_RST_STREAM, 0, id, code, 4);
        }
        size_t at = 0;
        while (at < R.out_n && !R.eof) {
            ssize_t sent = send(R.fd, R.out + at, R.out_n - at, MSG_NOSIGNAL);
            if (sent > 0)
                at += (size_t)sent;
            pair_nap(&P, 0);
            look(&b, 1);
        }
        R.out_n = 0;
    }
    for (int i = 0; i < 500 && !R.eof; i++)
        pair_nap(&P, 2);
    assert_int_equal(R.eof, 1);
    assert_in_range(id / 2, 4096, 40000);
}

static void test_too_many_streams(void **state)
{
    (void)state;
    struct back b;
    preface();
    flush();
    /* The limit counts once our SETTINGS are acknowledged. */
    pair_nap(&P, 20);
    frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0);
    uint32_t id = 1;
    for (uint32_t i = 0; i < GRPC_STREAMS_MAX + 1; i++, id += 2) {
        call_to(id, "POST", "/t.T/Hang", "application/grpc", NULL);
        if (R.out_n > 60000) {
            flush();
            pair_nap(&P, 1);
        }
    }
    flush();
    expect(&b, id - 2);
    assert_true(b.reset || b.goaway);
    if (b.reset)
        assert_int_equal(b.reset_code, NGHTTP2_REFUSED_STREAM);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_http1), T(test_upgrade_refused), T(test_garbage),
        cmocka_unit_test_setup_teardown(test_half_preface, setup_short, teardown_short),
        T(test_get), T(test_content_type), T(test_bad_timeout), T(test_unknown_path), T(test_reset_after_answer),
        T(test_good), T(test_byte_by_byte), T(test_compressed), T(test_reserved_flag), T(test_huge_prefix),
        T(test_cut_message), T(test_deadline_told), T(test_reset_is_cancel), T(test_header_list_too_long),
        T(test_ping_flood), T(test_settings_flood), T(test_empty_data_flood), T(test_rapid_reset),
        T(test_too_many_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
