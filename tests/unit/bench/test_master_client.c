/* Asking masters: tries, failover, waiting, refusals, and places that are remembered.  The masters are threads that give canned
 * answers in order. */
#include "tests/unit/bench/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/master_client.h"
#include "needle/err.h"
#include "net/rand.h"

#define ANSWERS_MAX 16u
#define GOOD "{\"fid\":\"5,011ab639e2\",\"url\":\"127.0.0.1:8080\",\"publicUrl\":\"127.0.0.2:8080\",\"count\":1}"
#define PLACES "{\"volumeId\":\"7\",\"locations\":[{\"url\":\"127.0.0.1:8080\",\"publicUrl\":\"127.0.0.2:80\"}]}"

struct answer {
    int status;
    const char *headers, *body;
};

/* Gives its answers one by one, whatever is asked, each on a connection of its own. */
struct fake_master {
    int fd;
    uint16_t port;
    pthread_t thread;
    struct answer answers[ANSWERS_MAX];
    uint32_t count;
    char asked[ANSWERS_MAX][256]; /* first lines */
};

static void *serve(void *arg)
{
    struct fake_master *m = arg;
    for (uint32_t i = 0; i < m->count; i++) {
        char in[2048], out[8192];
        int c = accept(m->fd, NULL, NULL);
        ssize_t n = c != -1 ? recv(c, in, sizeof in - 1, 0) : -1;
        if (n <= 0)
            break;
        in[n] = '\0';
        snprintf(m->asked[i], sizeof m->asked[i], "%.*s", (int)strcspn(in, "\r"), in);
        int len = snprintf(out, sizeof out, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                           m->answers[i].status, m->answers[i].headers, strlen(m->answers[i].body), m->answers[i].body);
        if (send(c, out, (size_t)len, MSG_NOSIGNAL) != len)
            break;
        close(c);
    }
    return NULL;
}

static void master_start(struct fake_master *m, const struct answer *answers, uint32_t count)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    memset(m, 0, sizeof *m);
    if (count > 0)
        memcpy(m->answers, answers, count * sizeof *answers);
    m->count = count;
    m->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(m->fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(m->fd, 16), 0);
    assert_int_equal(getsockname(m->fd, (struct sockaddr *)&sa, &len), 0);
    m->port = ntohs(sa.sin_port);
    assert_int_equal(pthread_create(&m->thread, NULL, serve, m), 0);
}

/* Returns when all answers were given. */
static void master_stop(struct fake_master *m)
{
    pthread_join(m->thread, NULL);
    close(m->fd);
}

/* A port that nobody listens on. */
static uint16_t dead_port(void)
{
    struct fake_master m;
    master_start(&m, NULL, 0);
    master_stop(&m);
    return m.port;
}

/* ---- one client, and what came of a question ---- */

static struct loop *loop;
static struct http_client *http;
static struct master_client *client;
static int got_rc;
static uint32_t waiting;

static void client_start(const char *masters, bool public_url)
{
    char error[ASSIGN_ERROR_MAX];
    struct http_client_options ho;
    assert_int_equal(rand_init(), 0);
    assert_int_equal(loop_new("test", &loop), 0);
    http_client_options_init(&ho);
    ho.loop = loop;
    assert_int_equal(http_client_new(&ho, &http), 0);
    struct master_client_options mo = {loop, http, masters, 5000, public_url};
    assert_int_equal(master_client_new(&mo, &client, error), 0);
}

static void client_end(void)
{
    http_client_free(http);
    master_client_free(client);
    loop_free(loop);
}

static void over(int rc)
{
    got_rc = rc;
    if (--waiting == 0)
        loop_stop(loop);
}

static void on_assigned(struct master_assign *a, int rc)
{
    (void)a;
    over(rc);
}

static void on_looked_up(struct master_lookup *l, int rc)
{
    (void)l;
    over(rc);
}

static struct master_assign assign;

static int ask_assign(void)
{
    memset(&assign, 0, sizeof assign);
    assign.query = BYTES_LIT("count=1&collection=x");
    assign.done = on_assigned;
    waiting = 1;
    assert_int_equal(master_assign_start(client, &assign), 0);
    loop_run(loop);
    return got_rc;
}

static const char *master_text(uint16_t first, uint16_t second)
{
    static char text[64];
    if (second != 0)
        snprintf(text, sizeof text, "127.0.0.1:%u, 127.0.0.1:%u", first, second);
    else
        snprintf(text, sizeof text, "127.0.0.1:%u", first);
    return text;
}

static void test_assign(void **state)
{
    (void)state;
    struct fake_master m;
    master_start(&m, (struct answer[]){{200, "", GOOD}}, 1);
    client_start(master_text(m.port, 0), false);
    assert_int_equal(ask_assign(), 0);
    master_stop(&m);
    assert_string_equal(m.asked[0], "GET /dir/assign?count=1&collection=x HTTP/1.1");
    assert_int_equal(assign.reply.fid.volume_id, 5);
    assert_string_equal(assign.addr->host, "127.0.0.1");
    assert_int_equal(assign.addr->port, 8080);
    client_end();
}

static void test_public_url(void **state)
{
    (void)state;
    struct fake_master m;
    master_start(&m, (struct answer[]){{200, "", GOOD}}, 1);
    client_start(master_text(m.port, 0), true);
    assert_int_equal(ask_assign(), 0);
    master_stop(&m);
    assert_string_equal(assign.addr->host, "127.0.0.2");
    client_end();
}

static void test_waits_for_growth(void **state)
{
    (void)state;
    struct fake_master m;
    master_start(&m,
                 (struct answer[]){{503, "Retry-After: 1\r\n", "{\"error\":\"volume growth in progress\"}"},
                                   {503, "", "{\"error\":\"warming up\"}"},
                                   {200, "", GOOD}},
                 3);
    client_start(master_text(m.port, 0), false);
    assert_int_equal(ask_assign(), 0);
    assert_string_equal(assign.reply.error, "");
    master_stop(&m);
    client_end();
}

static void test_next_master(void **state)
{
    (void)state;
    struct fake_master m;
    uint16_t dead = dead_port();
    master_start(&m, (struct answer[]){{200, "", GOOD}, {200, "", GOOD}}, 2);
    client_start(master_text(dead, m.port), false);
    assert_int_equal(ask_assign(), 0);
    /* The dead one is not asked first again. */
    assert_int_equal(ask_assign(), 0);
    assert_int_equal(http_client_stats(http).calls, 3);
    master_stop(&m);
    client_end();
}

static void test_no_master(void **state)
{
    (void)state;
    client_start(master_text(dead_port(), dead_port()), false);
    assert_int_equal(ask_assign(), DFS_EUNAVAILABLE);
    assert_non_null(strstr(assign.reply.error, "no answer from a master"));
    client_end();
}

static void test_refusal(void **state)
{
    (void)state;
    struct fake_master m;
    master_start(&m,
                 (struct answer[]){{406, "", "{\"error\":\"No free volumes left!\"}"},
                                   {200, "", "{\"error\":\"said so with 200\"}"},
                                   {500, "", "oops"},
                                   {200, "", "{\"fid\":\"5,011ab639e2\",\"url\":\"no port\"}"}},
                 4);
    client_start(master_text(m.port, 0), false);
    assert_int_equal(ask_assign(), DFS_ENOSPC);
    assert_string_equal(assign.reply.error, "No free volumes left!");
    assert_int_equal(ask_assign(), DFS_ENOSPC);
    assert_string_equal(assign.reply.error, "said so with 200");
    assert_int_equal(ask_assign(), DFS_EPROTO);
    assert_non_null(strstr(assign.reply.error, "oops"));
    assert_int_equal(ask_assign(), DFS_EINVAL);
    assert_non_null(strstr(assign.reply.error, "no port"));
    master_stop(&m);
    client_end();
}

static void test_answer_without_end(void **state)
{
    (void)state;
    static char body[MASTER_ANSWER_MAX + 2];
    struct fake_master m;
    memset(body, ' ', sizeof body - 1);
    master_start(&m, (struct answer[]){{200, "", body}}, 1);
    client_start(master_text(m.port, 0), false);
    assert_int_equal(ask_assign(), DFS_ETOOBIG);
    master_stop(&m);
    client_end();
}

static void test_lookup(void **state)
{
    (void)state;
    struct fake_master m;
    struct master_lookup l[3];
    master_start(&m, (struct answer[]){{200, "", PLACES}, {404, "", "{\"error\":\"volume id 9 not found\"}"}}, 2);
    client_start(master_text(m.port, 0), false);
    assert_null(master_client_place(client, 7));
    /* Three ask at once, the master is asked once. */
    waiting = 3;
    for (size_t i = 0; i < 3; i++) {
        l[i] = (struct master_lookup){.volume_id = 7, .done = on_looked_up};
        assert_int_equal(master_lookup_start(client, &l[i]), 0);
    }
    loop_run(loop);
    assert_int_equal(got_rc, 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(l[i].addr->port, 8080);
    assert_ptr_equal(master_client_place(client, 7), l[0].addr);
    l[0] = (struct master_lookup){.volume_id = 9, .done = on_looked_up};
    waiting = 1;
    assert_int_equal(master_lookup_start(client, &l[0]), 0);
    loop_run(loop);
    assert_int_equal(got_rc, DFS_ENOTFOUND);
    assert_string_equal(l[0].error, "volume 9: volume id 9 not found");
    assert_null(master_client_place(client, 9));
    master_stop(&m);
    assert_string_equal(m.asked[0], "GET /dir/lookup?volumeId=7 HTTP/1.1");
    client_end();
}

static void test_bad_masters(void **state)
{
    (void)state;
    static const char *const bad[] = {"", ",", "host", "h:99999", "127.0.0.1:80,x:0"};
    client_start("127.0.0.1:80", false);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char error[ASSIGN_ERROR_MAX] = "";
        struct master_client *m;
        struct master_client_options mo = {loop, http, bad[i], 5000, false};
        assert_int_equal(master_client_new(&mo, &m, error), DFS_EINVAL);
        assert_string_not_equal(error, "");
    }
    client_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assign),      cmocka_unit_test(test_public_url), cmocka_unit_test(test_waits_for_growth),
        cmocka_unit_test(test_next_master), cmocka_unit_test(test_no_master),  cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_answer_without_end), cmocka_unit_test(test_lookup), cmocka_unit_test(test_bad_masters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
