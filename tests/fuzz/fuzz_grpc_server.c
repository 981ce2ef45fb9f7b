/* A gRPC port: the input is what a client writes behind its preface, in one connection; afterwards every call that was opened
 * has been closed, once, and the connection is gone. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "needle/check.h"
#include "net/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"

static struct loop *loop;
static struct grpc_server *server;
static uint16_t port;
static long open_calls;
static bool seen;

static void on_open(struct grpc_call *call)
{
    (void)call;
    open_calls++;
}

static void on_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    (void)call;
    (void)text;
    CHECK(status <= GRPC_UNAUTHENTICATED);
    open_calls--;
}

static void echo_message(struct grpc_call *call, struct bytes m)
{
    grpc_call_send_raw(call, m);
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void chat_message(struct grpc_call *call, struct bytes m)
{
    grpc_call_send_raw(call, m);
    if (m.n > 0 && m.p[0] == 'p')
        grpc_call_pause(call);
    if (m.n > 0 && m.p[0] == 'c')
        grpc_call_cancel(call);
    if (m.n > 0 && m.p[0] == 'f')
        grpc_call_finish(call, GRPC_UNKNOWN, "%.*s", (int)m.n, m.p);
    if (m.n > 0 && m.p[0] == 'r') {
        grpc_call_pause(call);
        grpc_call_resume(call);
    }
}

static void chat_half_close(struct grpc_call *call)
{
    grpc_call_finish(call, GRPC_OK, NULL);
}

static const struct grpc_call_ops echo = {.on_open = on_open, .on_message = echo_message, .on_closed = on_closed};
static const struct grpc_call_ops chat = {
    .on_open = on_open, .on_message = chat_message, .on_half_close = chat_half_close, .on_closed = on_closed};
static const struct grpc_method methods[] = {{"/e", &echo, 0}, {"/c", &chat, 1000}};

static uint16_t free_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&in, len) == 0 && getsockname(fd, (struct sockaddr *)&in, &len) == 0);
    close(fd);
    return ntohs(in.sin_port);
}

/* Until the connection has come and gone. */
static void on_step(void *arg)
{
    (void)arg;
    if (grpc_server_connections(server) > 0)
        seen = true;
    else if (seen)
        loop_stop(loop);
}

static void start(void)
{
    port = free_port();
    CHECK(loop_new("fuzz", &loop) == 0 && loop_on_step(loop, on_step, NULL) == 0);
    struct grpc_server_options o = {
        .loop = loop, .host = "127.0.0.1", .port = port, .methods = methods, .method_count = ARRAY_LEN(methods)};
    CHECK(grpc_server_new(&o, &server) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (loop == NULL)
        start();
    if (size > 65536)
        return 0;
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&in, sizeof in) == 0);
    CHECK(send(fd, PREFACE, sizeof PREFACE - 1, MSG_NOSIGNAL) == sizeof PREFACE - 1);
    CHECK(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size);
    shutdown(fd, SHUT_WR);
    seen = false;
    loop_run(loop);
    close(fd);
    CHECK(open_calls == 0);
    return 0;
}
