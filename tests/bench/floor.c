/* The least that an HTTP server can do: threads that wait with epoll and answer each head with one constant.
 * usage: floor PORT THREADS BODY_BYTES.  A yardstick for CPU time a request; it parses nothing and serves nothing. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS_MAX 64
#define BODY_MAX (2u << 20)
#define EVENTS_MAX 256
#define HEAD_ROOM 256

static char answer[BODY_MAX + HEAD_ROOM];
static size_t answer_bytes;
static int epolls[THREADS_MAX];
static int threads;

static int listen_on(unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 4096) != 0) {
        perror("floor: listen");
        exit(1);
    }
    return fd;
}

/* A whole head came (clients here send one request and wait): the constant goes out. */
static void on_readable(int fd)
{
    char in[65536];
    ssize_t n = recv(fd, in, sizeof in, 0);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        close(fd);
        return;
    }
    if (n >= 4 && memcmp(in + n - 4, "\r\n\r\n", 4) == 0)
        (void)send(fd, answer, answer_bytes, MSG_NOSIGNAL);
}

static void *serve(void *arg)
{
    int ep = *(int *)arg;
    struct epoll_event events[EVENTS_MAX];

    for (;;) {
        int n = epoll_wait(ep, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++)
            on_readable(events[i].data.fd);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long port = argc == 4 ? strtoul(argv[1], NULL, 10) : 0, body = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    pthread_t thread;
    int listener;

    threads = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (port == 0 || port > 65535 || threads < 1 || threads > THREADS_MAX || body > BODY_MAX) {
        fprintf(stderr, "usage: floor PORT THREADS BODY_BYTES\n");
        return 2;
    }
    answer_bytes = (size_t)snprintf(answer, HEAD_ROOM, "HTTP/1.1 200 OK\r\nContent-Length: %lu\r\n"
                                    "Content-Type: application/octet-stream\r\n\r\n", body) + body;
    listener = listen_on((unsigned)port);
    for (int i = 0; i < threads; i++) {
        epolls[i] = epoll_create1(EPOLL_CLOEXEC);
        if (epolls[i] < 0 || pthread_create(&thread, NULL, serve, &epolls[i]) != 0) {
            perror("floor: thread");
            return 1;
        }
    }
    for (unsigned next = 0;; next++) {
        int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

        if (fd < 0)
            continue;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (epoll_ctl(epolls[next % (unsigned)threads], EPOLL_CTL_ADD, fd, &e) != 0)
            close(fd);
    }
}
