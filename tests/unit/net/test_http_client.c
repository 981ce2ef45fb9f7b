/* The HTTP client against a server of raw bytes: reuse, retries, deadlines, cuts, pauses, crowds. */
#include "tests/unit/net/script_server.h"
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/clock.h"
#include "net/http_client.h"

static struct script_server server;
static struct loop *loop;
static struct http_client *client;
static struct addr addr;
static uint32_t pending; /* calls that the loop runs for */

/* One call and what came of it. */
struct probe {
    struct http_call *call;
    char body[8192];
    size_t body_n;
    uint64_t total, mismatches;
    int rc, status, head_status;
    uint32_t heads, bodies, dones;
    char header[64];
    int on_body_rc;
    uint32_t pauses, pause_ms;
    struct loop_timer resume;
    bool cancel_in_head, cancel_in_body, check_pattern, resume_inside;
    uint32_t chain; /* start so many more from on_done */
    const char *path;
};

static void start(struct probe *p, enum http_method method, const char *path);

static void one_done(void)
{
    if (--pending == 0)
        loop_stop(loop);
}

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct probe *p = arg;
    p->heads++;
    p->head_status = head->status;
    struct bytes h = http_header_get(head, "X-Name");
    if (h.n > 0)
        snprintf(p->header, sizeof p->header, "%.*s", (int)h.n, h.p);
    if (p->cancel_in_head)
        http_call_cancel(call);
}

static void on_resume(void *arg)
{
    struct probe *p = arg;
    http_call_resume(p->call);
}

static int on_body(void *arg, struct http_call *call, struct bytes in)
{
    struct probe *p = arg;
    assert_true(in.n > 0);
    assert_ptr_equal(call, p->call);
    p->bodies++;
    for (size_t i = 0; i < in.n && p->check_pattern; i++)
        p->mismatches += in.p[i] != script_pattern(p->total + i);
    p->total += in.n;
    size_t n = sizeof p->body - p->body_n < in.n ? sizeof p->body - p->body_n : in.n;
    memcpy(p->body + p->body_n, in.p, n);
    p->body_n += n;
    if (p->cancel_in_body) {
        http_call_cancel(call);
        return 0;
    }
    if (p->resume_inside) {
        http_call_resume(call);
        return DFS_EAGAIN;
    }
    if (p->pauses > 0) {
        p->pauses--;
        loop_timer_set(&p->resume, p->pause_ms != 0 ? p->pause_ms : 2);
        return DFS_EAGAIN;
    }
    return p->on_body_rc;
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct probe *p = arg;
    assert_ptr_equal(call, p->call);
    p->dones++;
    p->rc = rc;
    p->status = status;
    p->call = NULL;
    if (p->chain > 0) {
        p->chain--;
        p->body_n = 0;
        start(p, HTTP_GET, p->path);
    }
    one_done();
}

static const struct http_call_ops ops = {on_head, on_body, on_done};

static struct http_call_request request(struct probe *p, enum http_method method, const char *path)
{
    return (struct http_call_request){.addr = &addr, .method = method, .target = bytes_str(path), .ops = &ops, .arg = p,
                                      .deadline_ms = 20000};
}

static int start_request(struct probe *p, const struct http_call_request *r)
{
    int rc = http_call_start(client, r, &p->call);
    if (rc == 0)
        pending++;
    return rc;
}

static void start(struct probe *p, enum http_method method, const char *path)
{
    struct http_call_request r = request(p, method, path);
    p->path = path;
    assert_int_equal(start_request(p, &r), 0);
}

static void run(void)
{
    if (pending > 0)
        loop_run(loop);
}

static void get(struct probe *p, const char *path)
{
    memset(p, 0, sizeof *p);
    start(p, HTTP_GET, path);
    run();
    assert_int_equal(p->dones, 1);
}

static void new_client(uint32_t max_per_address, uint32_t max_waiting)
{
    struct http_client_options o;
    http_client_options_init(&o);
    o.loop = loop;
    o.max_per_address = max_per_address;
    o.max_waiting = max_waiting;
    assert_int_equal(http_client_new(&o, &client), 0);
}

static int setup(void **state)
{
    (void)state;
    script_start(&server);
    assert_int_equal(loop_new("client", &loop), 0);
    new_client(64, 65536);
    memset(&addr, 0, sizeof addr);
    strcpy(addr.host, "127.0.0.1");
    addr.port = server.port;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_client_free(client);
    script_stop(&server);
    loop_free(loop);
    assert_int_equal(pending, 0);
    return 0;
}

static void test_keep_alive(void **state)
{
    (void)state;
    struct probe p;
    for (int i = 0; i < 5; i++) {
        get(&p, "/ok");
        assert_int_equal(p.rc, 0);
        assert_int_equal(p.status, 200);
        assert_int_equal(p.head_status, 200);
        assert_int_equal(p.heads, 1);
        assert_bytes(bytes_of(p.body, p.body_n), "hello");
        assert_string_equal(p.header, "v");
    }
    assert_int_equal(server.accepted, 1);
    struct http_client_stats s = http_client_stats(client);
    assert_int_equal(s.connects, 1);
    assert_int_equal(s.reused, 4);
    assert_int_equal(s.open, 1);
    /* Asked for, a fresh one. */
    struct http_call_request r = request(&p, HTTP_GET, "/ok");
    r.fresh_connection = true;
    memset(&p, 0, sizeof p);
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, 0);
    assert_int_equal(server.accepted, 2);
    /* From inside on_done as well. */
    memset(&p, 0, sizeof p);
    p.chain = 20;
    start(&p, HTTP_GET, "/ok");
    run();
    assert_int_equal(p.dones, 21);
    assert_int_equal(server.accepted, 2);
}

static void test_post(void **state)
{
    (void)state;
    struct probe p;
    struct bytes pieces[] = {BYTES_LIT("one,"), BYTES_NONE, BYTES_LIT("two,"), BYTES_LIT("three,"), BYTES_LIT("four,"),
                             BYTES_LIT("five,"), BYTES_LIT("six")};
    static const enum http_method methods[] = {HTTP_POST, HTTP_PUT, HTTP_DELETE};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        memset(&p, 0, sizeof p);
        struct http_call_request r = request(&p, methods[i], "/echo");
        r.body = pieces;
        r.body_count = ARRAY_LEN(pieces);
        r.headers = BYTES_LIT("Content-Type: text/plain\r\nX-A: b\r\n");
        assert_int_equal(start_request(&p, &r), 0);
        run();
        assert_int_equal(p.rc, 0);
        assert_int_equal(p.status, 201);
        assert_bytes(bytes_of(p.body, p.body_n), "one,two,three,four,five,six");
    }
    /* Without a body: a length of 0. */
    memset(&p, 0, sizeof p);
    start(&p, HTTP_POST, "/echo");
    run();
    assert_int_equal(p.status, 201);
    assert_int_equal(p.body_n, 0);
    assert_int_equal(p.bodies, 0);
}

static void test_large(void **state)
{
    (void)state;
    struct probe p;
    size_t n = 3u << 20;
    char *big = malloc(n);
    assert_non_null(big);
    for (size_t i = 0; i < n; i++)
        big[i] = script_pattern(i);
    struct bytes pieces[40];
    for (size_t i = 0; i < 40; i++)
        pieces[i] = bytes_of(big + n / 40 * i, i == 39 ? n - n / 40 * 39 : n / 40);
    memset(&p, 0, sizeof p);
    p.check_pattern = true;
    struct http_call_request r = request(&p, HTTP_POST, "/echo");
    r.body = pieces;
    r.body_count = 40;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.total, n);
    assert_int_equal(p.mismatches, 0);
    free(big);
}

static void test_forms(void **state)
{
    (void)state;
    struct probe p;
    get(&p, "/chunked");
    assert_int_equal(p.rc, 0);
    assert_bytes(bytes_of(p.body, p.body_n), "abcdefghijklmnop");
    get(&p, "/interim");
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.status, 200);
    assert_int_equal(p.heads, 1);
    assert_bytes(bytes_of(p.body, p.body_n), "ok");
    get(&p, "/empty204");
    assert_int_equal(p.status, 204);
    get(&p, "/notmod");
    assert_int_equal(p.status, 304);
    memset(&p, 0, sizeof p);
    start(&p, HTTP_HEAD, "/head");
    run();
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.bodies, 0);
    get(&p, "/drip");
    assert_bytes(bytes_of(p.body, p.body_n), "hello");
    get(&p, "/fullhead");
    assert_int_equal(p.rc, 0);
    assert_bytes(bytes_of(p.body, p.body_n), "ok");
    assert_int_equal(server.accepted, 1); /* all of it on one connection */
    get(&p, "/old");
    assert_int_equal(p.rc, 0);
    assert_bytes(bytes_of(p.body, p.body_n), "until the end");
    get(&p, "/close");
    assert_int_equal(p.rc, 0);
    get(&p, "/ok");
    assert_int_equal(p.rc, 0);
    assert_int_equal(server.accepted, 3);
}

static void test_cut(void **state)
{
    (void)state;
    struct probe p;
    static const char *const paths[] = {"/cut/0", "/cut/1", "/cut/99", "/cutchunk", "/cuthead", "/cutold"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        get(&p, paths[i]);
        if (p.rc != DFS_ECLOSED)
            fail_msg("%s: %s", paths[i], dfs_err_name(p.rc));
    }
    get(&p, "/cut/99");
    assert_int_equal(p.status, 200); /* what had come */
    get(&p, "/cuthead");
    assert_int_equal(p.status, 0);
    get(&p, "/cut/100");
    assert_int_equal(p.rc, 0);
}

static void test_protocol(void **state)
{
    (void)state;
    struct probe p;
    static const char *const paths[] = {"/junk", "/bighead", "/badchunk", "/twolengths", "/interims"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        get(&p, paths[i]);
        if (p.rc != DFS_EPROTO)
            fail_msg("%s: %s", paths[i], dfs_err_name(p.rc));
    }
    /* Bytes behind an answer: the answer counts, the connection does not. */
    get(&p, "/extra");
    assert_int_equal(p.rc, 0);
    assert_bytes(bytes_of(p.body, p.body_n), "ok");
    int before = server.accepted;
    get(&p, "/ok");
    assert_int_equal(p.rc, 0);
    assert_int_equal(server.accepted, before + 1);
}

static void test_refused_requests(void **state)
{
    (void)state;
    struct probe p = {0};
    struct http_call *call;
    static const char *const targets[] = {"", "x", "/a b", "/a\r\nX: y", "/a\x7f", "http://h/"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        struct http_call_request r = request(&p, HTTP_GET, targets[i]);
        assert_int_equal(http_call_start(client, &r, &call), DFS_EINVAL);
    }
    static const char *const headers[] = {"A: b", "A: b\n", "A: b\r", "\r\n", "A: b\r\n\r\nGET / HTTP/1.1\r\n", "A: b\rc\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        struct http_call_request r = request(&p, HTTP_GET, "/ok");
        r.headers = bytes_str(headers[i]);
        assert_int_equal(http_call_start(client, &r, &call), DFS_EINVAL);
    }
    struct http_call_request r = request(&p, HTTP_OTHER, "/ok");
    assert_int_equal(http_call_start(client, &r, &call), DFS_EINVAL);
    struct addr name = {.host = "no-such-host.invalid", .port = 80};
    r = request(&p, HTTP_GET, "/ok");
    r.addr = &name;
    assert_int_equal(http_call_start(client, &r, &call), DFS_ENOTFOUND);
    assert_int_equal(p.dones, 0);
    /* A name works once it was resolved. */
    struct addr local = {.host = "localhost", .port = server.port};
    r.addr = &local;
    assert_int_equal(http_call_start(client, &r, &call), DFS_ENOTFOUND);
}

/* A kept connection that the server has closed: tried again where that is safe. */
static void test_stale(void **state)
{
    (void)state;
    struct probe p;
    get(&p, "/once");
    assert_int_equal(p.rc, 0);
    assert_int_equal(http_client_stats(client).open, 1);
    /* Sent at once: the close has not been seen by the loop. */
    get(&p, "/ok");
    assert_int_equal(p.rc, 0);
    get(&p, "/reset"); /* on the kept one: again on a fresh one, then it counts */
    assert_int_equal(p.rc, DFS_ECLOSED);
    assert_int_equal(http_client_stats(client).retries >= 1, 1);

    /* With a body: not again, unless not all of it was sent. */
    uint64_t retries = http_client_stats(client).retries;
    get(&p, "/ok");
    memset(&p, 0, sizeof p);
    struct bytes body = BYTES_LIT("data");
    struct http_call_request r = request(&p, HTTP_POST, "/reset");
    r.body = &body;
    r.body_count = 1;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, DFS_ECLOSED);
    assert_int_equal(http_client_stats(client).retries, retries);
    /* POST without a body again. */
    get(&p, "/ok");
    int before = server.requests;
    memset(&p, 0, sizeof p);
    start(&p, HTTP_POST, "/reset");
    run();
    assert_int_equal(p.rc, DFS_ECLOSED);
    assert_int_equal(server.requests, before + 2);
    /* A first use is never repeated. */
    before = server.requests;
    memset(&p, 0, sizeof p);
    r = request(&p, HTTP_GET, "/reset");
    r.fresh_connection = true;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(server.requests, before + 1);
}

static void on_stop_timer(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

/* An idle connection that is closed by the server is given up while idle. */
static void test_idle_close(void **state)
{
    (void)state;
    struct probe p;
    struct loop_timer t;
    get(&p, "/once");
    assert_int_equal(http_client_stats(client).open, 1);
    loop_timer_init(&t, loop, on_stop_timer, NULL);
    loop_timer_set(&t, 50);
    loop_run(loop);
    assert_int_equal(http_client_stats(client).open, 0);
    memset(&p, 0, sizeof p);
    struct bytes body = BYTES_LIT("data");
    struct http_call_request r = request(&p, HTTP_POST, "/echo");
    r.body = &body;
    r.body_count = 1;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, 0);
    loop_timer_release(&t);
}

static void test_idle_timeout(void **state)
{
    (void)state;
    struct probe p;
    struct loop_timer t;
    struct http_client_options o;
    http_client_options_init(&o);
    o.loop = loop;
    o.idle_timeout_ms = 20;
    http_client_free(client);
    assert_int_equal(http_client_new(&o, &client), 0);
    get(&p, "/ok");
    assert_int_equal(http_client_stats(client).open, 1);
    loop_timer_init(&t, loop, on_stop_timer, NULL);
    loop_timer_set(&t, 60);
    loop_run(loop);
    assert_int_equal(http_client_stats(client).open, 0);
    get(&p, "/ok");
    assert_int_equal(p.rc, 0);
    loop_timer_release(&t);
}

/* Without a deadline: a peer that goes silent is given up, one that is merely slow or held back by us is not. */
static void test_stall(void **state)
{
    (void)state;
    static struct probe p;
    struct http_client_options o;
    http_client_options_init(&o);
    o.loop = loop;
    o.stall_timeout_ms = 300;
    http_client_free(client);
    assert_int_equal(http_client_new(&o, &client), 0);
    static const char *const paths[] = {"/hang", "/ok", "/drips", "/hang"};
    static const int rcs[] = {DFS_ETIMEOUT, 0, 0, DFS_ETIMEOUT};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        memset(&p, 0, sizeof p);
        struct http_call_request r = request(&p, HTTP_GET, paths[i]);
        r.deadline_ms = 0;
        assert_int_equal(start_request(&p, &r), 0);
        run();
        assert_int_equal(p.rc, rcs[i]);
    }
    memset(&p, 0, sizeof p);
    p.pauses = 1;
    p.pause_ms = 450;
    loop_timer_init(&p.resume, loop, on_resume, &p);
    struct http_call_request r = request(&p, HTTP_GET, "/size/3000000");
    r.deadline_ms = 0;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.total, 3000000);
    loop_timer_release(&p.resume);
}

/* A body that could not be sent whole on a closed connection was not processed: it is sent again. */
static void test_stale_unsent(void **state)
{
    (void)state;
    struct probe p;
    size_t n = 32u << 20;
    char *big = calloc(1, n);
    assert_non_null(big);
    struct bytes body = bytes_of(big, n);
    get(&p, "/once");
    memset(&p, 0, sizeof p);
    struct http_call_request r = request(&p, HTTP_POST, "/echo");
    r.body = &body;
    r.body_count = 1;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.status, 201);
    assert_int_equal(p.total, n);
    free(big);
}

static void test_early_answer(void **state)
{
    (void)state;
    struct probe p;
    size_t n = 8u << 20;
    char *big = calloc(1, n);
    assert_non_null(big);
    struct bytes body = bytes_of(big, n);
    memset(&p, 0, sizeof p);
    struct http_call_request r = request(&p, HTTP_POST, "/early");
    r.body = &body;
    r.body_count = 1;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.status, 413);
    assert_bytes(bytes_of(p.body, p.body_n), "big");
    assert_int_equal(http_client_stats(client).open, 0);
    free(big);
}

static void test_deadline(void **state)
{
    (void)state;
    struct probe p = {0}, q = {0};
    struct http_call_request r = request(&p, HTTP_GET, "/hang");
    r.deadline_ms = 30;
    uint64_t from = clock_mono_ms();
    assert_int_equal(start_request(&p, &r), 0);
    run();
    assert_int_equal(p.rc, DFS_ETIMEOUT);
    assert_int_equal(p.status, 0);
    assert_true(clock_mono_ms() - from >= 30);
    /* Waiting in line counts. */
    http_client_free(client);
    new_client(1, 10);
    memset(&p, 0, sizeof p);
    start(&p, HTTP_GET, "/slow/120");
    r = request(&q, HTTP_GET, "/ok");
    r.deadline_ms = 20;
    assert_int_equal(start_request(&q, &r), 0);
    run();
    assert_int_equal(q.rc, DFS_ETIMEOUT);
    assert_int_equal(p.rc, 0);
    assert_bytes(bytes_of(p.body, p.body_n), "slow");
}

static void test_connect(void **state)
{
    (void)state;
    struct probe p[40];
    struct addr nobody = {.host = "127.0.0.1", .port = 1};
    http_client_free(client);
    new_client(4, 100);
    memset(p, 0, sizeof p);
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        struct http_call_request r = request(&p[i], HTTP_GET, "/ok");
        r.addr = &nobody;
        assert_int_equal(start_request(&p[i], &r), 0);
        assert_int_equal(p[i].dones, 0);
    }
    run();
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        assert_int_equal(p[i].dones, 1);
        assert_int_equal(p[i].rc, DFS_EUNAVAILABLE);
    }
    /* Nobody answers: a listener whose queue is full swallows the rest. */
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fill[8];
    assert_int_equal(bind(deaf, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(deaf, 0), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&a, &len), 0);
    for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fill[i], (struct sockaddr *)&a, len);
    }
    struct http_client_options o;
    http_client_options_init(&o);
    o.loop = loop;
    o.connect_timeout_ms = 40;
    http_client_free(client);
    assert_int_equal(http_client_new(&o, &client), 0);
    nobody.port = ntohs(a.sin_port);
    memset(p, 0, sizeof p);
    struct http_call_request r = request(&p[0], HTTP_GET, "/ok");
    r.addr = &nobody;
    assert_int_equal(start_request(&p[0], &r), 0);
    run();
    assert_int_equal(p[0].rc, DFS_EUNAVAILABLE);
    for (size_t i = 0; i < ARRAY_LEN(fill); i++)
        close(fill[i]);
    close(deaf);
}

static void test_cancel(void **state)
{
    (void)state;
    struct probe p = {0}, q = {0}, w = {0};
    p.cancel_in_head = true;
    start(&p, HTTP_GET, "/ok");
    run();
    assert_int_equal(p.rc, DFS_ECANCELLED);
    assert_int_equal(p.bodies, 0);
    assert_int_equal(http_client_stats(client).open, 0);
    q.cancel_in_body = true;
    start(&q, HTTP_GET, "/size/1000000");
    run();
    assert_int_equal(q.rc, DFS_ECANCELLED);
    assert_int_equal(q.bodies, 1);
    /* From a callback of another call, in line, and before anything happened. */
    http_client_free(client);
    new_client(1, 10);
    memset(&p, 0, sizeof p);
    memset(&q, 0, sizeof q);
    start(&p, HTTP_GET, "/hang");
    start(&q, HTTP_GET, "/ok");
    start(&w, HTTP_GET, "/ok");
    http_call_cancel(q.call);
    assert_int_equal(q.dones, 1);
    http_call_cancel(p.call);
    assert_int_equal(p.rc, DFS_ECANCELLED);
    run();
    assert_int_equal(w.rc, 0);
    /* A chain that starts anew inside a cancel's on_done. */
    memset(&p, 0, sizeof p);
    start(&p, HTTP_GET, "/hang");
    p.chain = 1;
    p.path = "/ok";
    http_call_cancel(p.call);
    run();
    assert_int_equal(p.dones, 2);
    assert_int_equal(p.rc, 0);
    /* One that could not connect. */
    struct addr nobody = {.host = "127.0.0.1", .port = 1};
    memset(&p, 0, sizeof p);
    struct http_call_request r = request(&p, HTTP_GET, "/ok");
    r.addr = &nobody;
    assert_int_equal(start_request(&p, &r), 0);
    http_call_cancel(p.call);
    assert_int_equal(p.rc, DFS_ECANCELLED);
    run();
}

static void test_body_refused(void **state)
{
    (void)state;
    struct probe p = {0};
    p.on_body_rc = DFS_ENOSPC;
    start(&p, HTTP_GET, "/size/1000000");
    run();
    assert_int_equal(p.rc, DFS_ENOSPC);
    assert_int_equal(p.status, 200);
    assert_int_equal(p.bodies, 1);
}

static void test_pause(void **state)
{
    (void)state;
    static struct probe p;
    static const char *const paths[] = {"/size/3000000", "/chunked", "/ok", "/drip", "/old"};
    static const uint64_t sizes[] = {3000000, 16, 5, 5, 13};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        for (int inside = 0; inside < 2; inside++) {
            memset(&p, 0, sizeof p);
            p.pauses = 5;
            p.resume_inside = inside;
            p.check_pattern = i == 0;
            loop_timer_init(&p.resume, loop, on_resume, &p);
            start(&p, HTTP_GET, paths[i]);
            run();
            assert_int_equal(p.rc, 0);
            assert_int_equal(p.total, sizes[i]);
            assert_int_equal(p.mismatches, 0);
            loop_timer_release(&p.resume);
        }
    /* Paused for good: the deadline ends it. */
    memset(&p, 0, sizeof p);
    p.pauses = 1;
    loop_timer_init(&p.resume, loop, on_stop_timer, NULL);
    struct http_call_request r = request(&p, HTTP_GET, "/size/3000000");
    r.deadline_ms = 60;
    assert_int_equal(start_request(&p, &r), 0);
    run();
    if (p.dones == 0) /* the timer above stopped the loop once */
        loop_run(loop);
    assert_int_equal(p.rc, DFS_ETIMEOUT);
    assert_int_equal(p.bodies, 1);
    loop_timer_release(&p.resume);
}

/* Thousands at once over a few connections, in order, bounded. */
static void test_crowd(void **state)
{
    (void)state;
    enum { CALLS = 5000 };
    struct probe *p = calloc(CALLS, sizeof *p);
    assert_non_null(p);
    http_client_free(client);
    new_client(32, CALLS - 32);
    for (size_t i = 0; i < CALLS; i++)
        start(&p[i], HTTP_GET, i % 100 == 7 ? "/once" : i % 100 == 8 ? "/close" : "/ok");
    struct probe extra = {0};
    struct http_call_request r = request(&extra, HTTP_GET, "/ok");
    assert_int_equal(start_request(&extra, &r), DFS_EBUSY);
    assert_int_equal(http_client_stats(client).waiting, CALLS - 32);
    run();
    for (size_t i = 0; i < CALLS; i++) {
        if (p[i].rc != 0)
            fail_msg("call %zu: %s", i, dfs_err_name(p[i].rc));
        assert_int_equal(p[i].dones, 1);
        assert_bytes(bytes_of(p[i].body, p[i].body_n), "hello");
    }
    assert_int_equal(http_client_stats(client).waiting, 0);
    assert_true(http_client_stats(client).open <= 32);
    free(p);
}

/* Freed with calls everywhere: each is told once. */
static void test_free_busy(void **state)
{
    (void)state;
    struct probe p[20];
    struct addr nobody = {.host = "127.0.0.1", .port = 1};
    memset(p, 0, sizeof p);
    http_client_free(client);
    new_client(4, 100);
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        struct http_call_request r = request(&p[i], HTTP_GET, i % 3 == 0 ? "/hang" : "/ok");
        if (i % 5 == 4)
            r.addr = &nobody;
        assert_int_equal(start_request(&p[i], &r), 0);
    }
    struct loop_timer t;
    loop_timer_init(&t, loop, on_stop_timer, NULL);
    loop_timer_set(&t, 20);
    loop_run(loop);
    loop_timer_release(&t);
    http_client_free(client);
    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        assert_int_equal(p[i].dones, 1);
    assert_int_equal(p[0].rc, DFS_ECANCELLED);
    new_client(4, 100);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_keep_alive), T(test_post),          T(test_large),    T(test_forms),        T(test_cut),
        T(test_protocol),   T(test_refused_requests), T(test_stale), T(test_idle_close),   T(test_early_answer),
        T(test_idle_timeout), T(test_stall), T(test_stale_unsent),
        T(test_deadline),   T(test_connect),       T(test_cancel),   T(test_body_refused), T(test_pause),
        T(test_crowd),      T(test_free_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
