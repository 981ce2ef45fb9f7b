/* The HTTP client against the HTTP server, both real, on loops of their own: thousands of calls of all kinds. */
#include <stdlib.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/http_client.h"
#include "net/http_server.h"

#define CALLS 5000u
#define ECHO_MAX 200000u

/* ---- the server ---- */

struct echo {
    size_t n;
    char data[];
};

static void on_request(struct http_req *r)
{
    if (r->head.method == HTTP_POST) {
        struct echo *e = malloc(sizeof *e + ECHO_MAX);
        assert_non_null(e);
        e->n = 0;
        r->user = e;
    }
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    struct echo *e = r->user;
    *taken = in.n;
    if (e == NULL || in.n > ECHO_MAX - e->n)
        return DFS_ETOOBIG;
    memcpy(e->data + e->n, in.p, in.n);
    e->n += in.n;
    return 0;
}

struct count_source {
    struct http_source src;
    uint32_t left;
    char text[32];
};

static int count_next(struct http_source *s, struct http_piece *out)
{
    struct count_source *c = (struct count_source *)s;
    if (c->left == 0)
        return 1;
    memset(out, 0, sizeof *out);
    out->mem = bytes_of(c->text, (size_t)snprintf(c->text, sizeof c->text, "%u,", --c->left));
    return 0;
}

static void count_free(struct http_source *s)
{
    free(s);
}

static void on_end(struct http_req *r)
{
    struct echo *e = r->user;
    if (e != NULL) {
        http_reply_begin(r, 201);
        http_reply_bytes(r, bytes_of(e->data, e->n));
    } else if (bytes_eq(r->head.path, BYTES_LIT("/count"))) {
        struct count_source *c = calloc(1, sizeof *c);
        assert_non_null(c);
        c->src = (struct http_source){count_next, count_free};
        c->left = 10;
        http_reply_begin(r, 200);
        http_reply_source(r, &c->src, HTTP_LENGTH_UNKNOWN);
    } else if (bytes_eq(r->head.path, BYTES_LIT("/close"))) {
        http_req_close_after(r);
        http_reply_text(r, 200, "bye");
    } else if (bytes_eq(r->head.path, BYTES_LIT("/gone"))) {
        http_req_abort(r);
    } else {
        http_reply_error(r, 404, "no '%s'", "this");
    }
}

static void on_close(struct http_req *r)
{
    free(r->user);
}

static const struct http_handler handler = {on_request, on_body, on_end, on_close};

/* ---- the client ---- */

static struct loop *loop;
static struct http_client *client;
static uint32_t pending, wrong;

struct probe {
    const char *path;
    size_t body_n; /* of a POST */
    char *got;
    size_t got_n;
    int rc, status;
};

static char *payload;

static int client_body(void *arg, struct http_call *call, struct bytes in)
{
    struct probe *p = arg;
    (void)call;
    char *got = realloc(p->got, p->got_n + in.n);
    assert_non_null(got);
    memcpy(got + p->got_n, in.p, in.n);
    p->got = got;
    p->got_n += in.n;
    return 0;
}

static bool probe_right(const struct probe *p)
{
    struct bytes got = bytes_of(p->got, p->got_n);
    if (strcmp(p->path, "/gone") == 0)
        return p->rc == DFS_ECLOSED;
    if (p->rc != 0)
        return false;
    if (strcmp(p->path, "/echo") == 0)
        return p->status == 201 && bytes_eq(got, bytes_of(payload, p->body_n));
    if (strcmp(p->path, "/count") == 0)
        return p->status == 200 && bytes_eq(got, BYTES_LIT("9,8,7,6,5,4,3,2,1,0,"));
    if (strcmp(p->path, "/close") == 0)
        return p->status == 200;
    return p->status == 404 && got.n > 0;
}

static void client_done(void *arg, struct http_call *call, int rc, int status)
{
    struct probe *p = arg;
    (void)call;
    p->rc = rc;
    p->status = status;
    if (!probe_right(p)) {
        print_error("%s (%zu bytes): %s %d, %zu bytes\n", p->path, p->body_n, dfs_err_name(rc), status, p->got_n);
        wrong++;
    }
    free(p->got);
    p->got = NULL;
    if (--pending == 0)
        loop_stop(loop);
}

static const struct http_call_ops ops = {NULL, client_body, client_done};

static void test_crowd(void **state)
{
    (void)state;
    static const char *const paths[] = {"/echo", "/count", "/echo", "/none", "/echo", "/close", "/echo", "/gone"};
    struct loop *server_loop;
    struct http_server_options so;
    struct http_client_options co;
    struct http_server *server;
    struct addr addr = {.host = "127.0.0.1"};
    struct probe *p = calloc(CALLS, sizeof *p);
    uint32_t x = 4711;

    payload = malloc(ECHO_MAX);
    assert_non_null(p);
    assert_non_null(payload);
    for (size_t i = 0; i < ECHO_MAX; i++)
        payload[i] = (char)(i * 7 + i / 251);
    assert_int_equal(loop_new("server", &server_loop), 0);
    assert_int_equal(loop_new("client", &loop), 0);
    http_server_options_init(&so);
    so.accept_loop = server_loop;
    so.loops = &server_loop;
    so.loop_count = 1;
    so.host = "127.0.0.1";
    so.port = 0;
    so.handler = &handler;
    assert_int_equal(http_server_new(&so, &server), 0);
    addr.port = http_server_port(server);
    assert_int_equal(loop_start(server_loop), 0);
    http_client_options_init(&co);
    co.loop = loop;
    assert_int_equal(http_client_new(&co, &client), 0);

    for (size_t i = 0; i < CALLS; i++) {
        struct http_call *call;
        p[i].path = paths[i % ARRAY_LEN(paths)];
        bool post = strcmp(p[i].path, "/echo") == 0;
        x = x * 1664525u + 1013904223u;
        p[i].body_n = !post ? 0 : i % 50 == 0 ? (x >> 8) % ECHO_MAX : (x >> 8) % 3000;
        struct bytes body[2] = {bytes_of(payload, p[i].body_n / 3), bytes_of(payload + p[i].body_n / 3, p[i].body_n - p[i].body_n / 3)};
        struct http_call_request r = {.addr = &addr, .method = post ? HTTP_POST : HTTP_GET, .target = bytes_str(p[i].path),
                                      .body = body, .body_count = 2, .deadline_ms = 60000, .ops = &ops, .arg = &p[i]};
        assert_int_equal(http_call_start(client, &r, &call), 0);
        pending++;
    }
    loop_run(loop);
    assert_int_equal(wrong, 0);
    struct http_client_stats s = http_client_stats(client);
    assert_int_equal(s.calls, CALLS);
    assert_true(s.open <= co.max_per_address);
    assert_true(s.reused > s.connects);

    http_client_free(client);
    loop_stop(server_loop);
    loop_join(server_loop);
    http_server_free(server);
    loop_free(loop);
    loop_free(server_loop);
    free(payload);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crowd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
