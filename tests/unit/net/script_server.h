/* A server of raw bytes for client tests: a thread per connection, blocking calls, answers chosen by path.
 *
 *   /ok            200, "hello", keep-alive            /echo      200 with the body that came
 *   /size/N        200 with N bytes of a pattern       /chunked   200 chunked in odd pieces
 *   /old           1.0, no length, until close         /empty204  204 with a length line
 *   /interim       two 1xx before 200                  /cut/N     says 100 bytes, sends N, closes
 *   /cutchunk      chunked, closed in the middle       /cutold    a reset in a body without length
 *   /once          answers, says keep-alive, closes    /hang      never answers
 *   /slow/MS       answers after MS milliseconds       /bighead   a head without an end
 *   /junk          no HTTP at all                      /extra     200 and bytes behind it
 *   /early         413 before the body is read, closes /close     200 with Connection: close
 *   /reset         closes without a byte, always       /drip      a byte at a time
 *   /drips         10 bytes, one each 50 ms
 *   /head          200 with a length (for HEAD: no body follows)
 */
#ifndef DFS_TESTS_UNIT_NET_SCRIPT_SERVER_H
#define DFS_TESTS_UNIT_NET_SCRIPT_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct script_server {
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_bool stop;
    atomic_int running;
    atomic_int accepted, requests;
};

struct script_conn {
    struct script_server *server;
    int fd;
    char buf[65536];
    size_t n;
};

static char script_pattern(size_t i)
{
    return (char)('a' + i % 23);
}

static bool script_send(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

static bool script_text(int fd, const char *s)
{
    return script_send(fd, s, strlen(s));
}

/* More bytes into the buffer; false when the client is gone or the server stops. */
static bool script_more(struct script_conn *c)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (atomic_load(&c->server->stop))
            return false;
        if (poll(&p, 1, 20) == 0)
            continue;
        ssize_t n = recv(c->fd, c->buf + c->n, sizeof c->buf - c->n, 0);
        if (n <= 0)
            return false;
        c->n += (size_t)n;
        return true;
    }
}

static bool script_size(int fd, size_t n)
{
    char head[128], body[8192];
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
    if (!script_text(fd, head))
        return false;
    for (size_t at = 0; at < n;) {
        size_t take = n - at < sizeof body ? n - at : sizeof body;
        for (size_t i = 0; i < take; i++)
            body[i] = script_pattern(at + i);
        if (!script_send(fd, body, take))
            return false;
        at += take;
    }
    return true;
}

static void script_reset(int fd)
{
    struct linger l = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
}

/* Answers one request; false: close. */
static bool script_answer(struct script_conn *c, const char *method, const char *path, const char *body, size_t body_n)
{
    int fd = c->fd;
    char text[512];
    if (strcmp(path, "/ok") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Name: v\r\n\r\nhello");
    if (strcmp(path, "/echo") == 0) {
        snprintf(text, sizeof text, "HTTP/1.1 201 Created\r\nX-Method: %s\r\nContent-Length: %zu\r\n\r\n", method, body_n);
        return script_text(fd, text) && script_send(fd, body, body_n);
    }
    if (strncmp(path, "/size/", 6) == 0)
        return script_size(fd, (size_t)atoll(path + 6));
    if (strcmp(path, "/chunked") == 0) {
        script_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n5;x=y\r\nbcdef\r\n");
        usleep(3000);
        return script_text(fd, "A\r\nghijklmnop\r") && (usleep(3000), script_text(fd, "\n0\r\nTrailer: t\r\n\r\n"));
    }
    if (strcmp(path, "/old") == 0)
        return script_text(fd, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end") && false;
    if (strcmp(path, "/empty204") == 0)
        return script_text(fd, "HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\n");
    if (strcmp(path, "/notmod") == 0)
        return script_text(fd, "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\nETag: \"x\"\r\n\r\n");
    if (strcmp(path, "/head") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    if (strcmp(path, "/interim") == 0)
        return script_text(fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
                               "Content-Length: 2\r\n\r\nok");
    if (strcmp(path, "/interims") == 0) {
        for (int i = 0; i < 100; i++)
            script_text(fd, "HTTP/1.1 100 Continue\r\n\r\n");
        return true;
    }
    if (strncmp(path, "/cut/", 5) == 0) {
        script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        for (int i = 0; i < atoi(path + 5); i++)
            script_text(fd, "x");
        return false;
    }
    if (strcmp(path, "/cutchunk") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n") && false;
    if (strcmp(path, "/cuthead") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Le") && false;
    if (strcmp(path, "/cutold") == 0) {
        script_text(fd, "HTTP/1.0 200 OK\r\n\r\nnot all of it");
        usleep(20000);
        script_reset(fd);
        return false;
    }
    if (strcmp(path, "/once") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") && false;
    if (strcmp(path, "/close") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello") && script_more(c);
    if (strncmp(path, "/slow/", 6) == 0) {
        for (int ms = atoi(path + 6); ms > 0 && !atomic_load(&c->server->stop); ms -= 5)
            usleep(5000);
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
    }
    if (strcmp(path, "/hang") == 0) {
        c->n = 0;
        return script_more(c);
    }
    if (strcmp(path, "/bighead") == 0) {
        script_text(fd, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 5000; i++)
            if (!script_text(fd, "X-Filler: 0123456789012345678901234567890123456789\r\n"))
                return false;
        return script_text(fd, "\r\n");
    }
    if (strcmp(path, "/fullhead") == 0) {
        script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "X-Filler-%d: %0400d\r\n", i, 0);
            script_text(fd, text);
        }
        return script_text(fd, "\r\nok");
    }
    if (strcmp(path, "/junk") == 0)
        return script_text(fd, "220 mail.example ESMTP\r\n") && script_more(c);
    if (strcmp(path, "/extra") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 Evil\r\n\r\n") && script_more(c);
    if (strcmp(path, "/badchunk") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n") && script_more(c);
    if (strcmp(path, "/twolengths") == 0)
        return script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab") && script_more(c);
    if (strcmp(path, "/drip") == 0) {
        const char *s = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for (; *s != '\0'; s++) {
            if (!script_send(fd, s, 1))
                return false;
            usleep(300);
        }
        return true;
    }
    if (strcmp(path, "/drips") == 0) {
        script_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        for (int i = 0; i < 10; i++) {
            usleep(50000);
            script_text(fd, "x");
        }
        return true;
    }
    if (strcmp(path, "/reset") == 0)
        return false;
    return script_text(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
}

/* One request off the buffer; false: close. */
static bool script_request(struct script_conn *c)
{
    char *end, method[16], path[256];
    while ((end = memmem(c->buf, c->n, "\r\n\r\n", 4)) == NULL)
        if (c->n == sizeof c->buf || !script_more(c))
            return false;
    size_t head_n = (size_t)(end - c->buf) + 4, length = 0;
    end[2] = '\0';
    char *at = strcasestr(c->buf, "\r\nContent-Length:");
    if (at != NULL)
        length = (size_t)atoll(at + 17);
    if (sscanf(c->buf, "%15s %255s", method, path) != 2)
        return false;
    atomic_fetch_add(&c->server->requests, 1);
    if (strcmp(path, "/early") == 0) {
        script_text(c->fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
        shutdown(c->fd, SHUT_WR);
        usleep(50000);
        return false;
    }
    char *body = malloc(length + 1);
    size_t have = c->n - head_n < length ? c->n - head_n : length;
    memcpy(body, c->buf + head_n, have);
    memmove(c->buf, c->buf + head_n + have, c->n - head_n - have);
    c->n -= head_n + have;
    while (have < length) {
        if (!script_more(c)) {
            free(body);
            return false;
        }
        size_t take = c->n < length - have ? c->n : length - have;
        memcpy(body + have, c->buf, take);
        memmove(c->buf, c->buf + take, c->n - take);
        c->n -= take;
        have += take;
    }
    bool keep = script_answer(c, method, path, body, length);
    free(body);
    return keep;
}

static void *script_conn_main(void *arg)
{
    struct script_conn *c = arg;
    struct script_server *s = c->server;
    while (script_request(c))
        ;
    close(c->fd);
    free(c);
    atomic_fetch_sub(&s->running, 1);
    return NULL;
}

static void *script_main(void *arg)
{
    struct script_server *s = arg;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    while (!atomic_load(&s->stop)) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0)
            continue;
        int fd = accept(s->fd, NULL, NULL), one = 1;
        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct script_conn *c = calloc(1, sizeof *c);
        pthread_t t;
        c->server = s;
        c->fd = fd;
        atomic_fetch_add(&s->accepted, 1);
        atomic_fetch_add(&s->running, 1);
        if (pthread_create(&t, &attr, script_conn_main, c) != 0)
            abort();
    }
    pthread_attr_destroy(&attr);
    return NULL;
}

/* Listens on a free port of loopback. */
static void script_start(struct script_server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    memset(s, 0, sizeof *s);
    signal(SIGPIPE, SIG_IGN);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s->fd, (struct sockaddr *)&a, len) != 0 || listen(s->fd, 1024) != 0 || getsockname(s->fd, (struct sockaddr *)&a, &len) != 0)
        abort();
    s->port = ntohs(a.sin_port);
    if (pthread_create(&s->thread, NULL, script_main, s) != 0)
        abort();
}

static void script_stop(struct script_server *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
    while (atomic_load(&s->running) > 0)
        usleep(1000);
    close(s->fd);
}

#endif
