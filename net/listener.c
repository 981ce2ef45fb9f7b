/* Accepting: bursts from one listening socket, each socket dealt to one of the loops.
 *
 * A listener is reference-counted, because sockets on their way to another loop still name it. */
#include "net/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"

#define LISTEN_BACKLOG 4096
#define ACCEPT_BURST 64
/* When the kernel cannot give a socket for lack of memory: wait instead of spinning. */
#define ACCEPT_PAUSE_MS 100

struct listener {
    struct listener_options opts;
    int fd;
    int spare_fd; /* given up at EMFILE so that one more connection can be taken and told so by closing it */
    struct event event;
    struct loop_timer resume;
    uint32_t next_loop;
    uint32_t *on_way; /* for each loop, sockets that have not got there; atomic */
    uint32_t refs; /* one for the owner, one for each socket on its way */
};

struct handover {
    struct loop_msg msg;
    struct listener *listener;
    uint32_t loop; /* its place among the loops */
    int fd;
    struct sockaddr_storage peer;
};

static void listener_unref(struct listener *l)
{
    if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    free(l->on_way);
    free(l);
}

static void run_handover(struct loop_msg *msg)
{
    struct handover *h = CONTAINER_OF(msg, struct handover, msg);
    struct listener *l = h->listener;
    l->opts.on_accept(l->opts.arg, l->opts.loops[h->loop], h->fd, &h->peer);
    __atomic_sub_fetch(&l->on_way[h->loop], 1, __ATOMIC_RELAXED);
    listener_unref(l);
    free(h);
}

/* Whether the other end has our address: then it runs on this machine. */
static bool is_local(int fd, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &len) == -1 || own.ss_family != peer->ss_family)
        return false;
    if (own.ss_family == AF_INET)
        return ((struct sockaddr_in *)&own)->sin_addr.s_addr == ((const struct sockaddr_in *)peer)->sin_addr.s_addr;
    return own.ss_family == AF_INET6 && memcmp(&((struct sockaddr_in6 *)&own)->sin6_addr,
                                               &((const struct sockaddr_in6 *)peer)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static uint32_t load_of(const struct listener *l, uint32_t i)
{
    return l->opts.load(l->opts.arg, i) + __atomic_load_n(&l->on_way[i], __ATOMIC_RELAXED);
}

/* Of loops with the same load, the one whose turn it is. */
static uint32_t choose_loop(struct listener *l, int fd, const struct sockaddr_storage *peer)
{
    uint32_t count = l->opts.loop_count, best = l->next_loop;
    l->next_loop = (best + 1) % count;
    if (l->opts.load == NULL || count == 1)
        return best;
    if (l->opts.gather_local > 0 && is_local(fd, peer))
        for (uint32_t i = 0; i < count; i++)
            if (load_of(l, i) < l->opts.gather_local)
                return i;
    for (uint32_t n = 1, least = load_of(l, best); n < count; n++) {
        uint32_t i = (l->next_loop + n - 1) % count, load = load_of(l, i);
        if (load < least) {
            least = load;
            best = i;
        }
    }
    return best;
}

static void deal(struct listener *l, int fd, const struct sockaddr_storage *peer)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    uint32_t i = choose_loop(l, fd, peer);
    struct loop *loop = l->opts.loops[i];
    if (loop_is_current(loop)) {
        l->opts.on_accept(l->opts.arg, loop, fd, peer);
        return;
    }
    struct handover *h = malloc(sizeof *h);
    if (h == NULL) {
        close(fd);
        return;
    }
    *h = (struct handover){.msg.run = run_handover, .listener = l, .loop = i, .fd = fd, .peer = *peer};
    __atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&l->on_way[i], 1, __ATOMIC_RELAXED);
    loop_post(loop, &h->msg);
}

/* Out of descriptors: the connection at the head of the line is closed, so that its client learns at once and the
 * level-triggered event does not spin. */
static void shed_one(struct listener *l)
{
    static struct log_gate gate;
    uint64_t swallowed;
    if (log_every(&gate, 5000, &swallowed))
        log_warning("cannot accept: out of file descriptors (%llu more like this)", (unsigned long long)swallowed);
    if (l->spare_fd != -1)
        close(l->spare_fd);
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd != -1)
        close(fd);
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void pause_accepting(struct listener *l)
{
    event_del(&l->event);
    loop_timer_set(&l->resume, ACCEPT_PAUSE_MS);
}

static void on_resume(void *arg)
{
    struct listener *l = arg;
    if (l->fd != -1)
        event_add(&l->event, NULL);
}

/* False when this burst is over. */
static bool accept_one(struct listener *l)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd != -1) {
        deal(l, fd, &peer);
        return l->fd != -1; /* on_accept may have stopped us */
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
        shed_one(l);
        if (l->spare_fd == -1)
            pause_accepting(l); /* another thread was quicker to take the descriptor: nothing to shed with */
        return false;
    case ENOMEM:
    case ENOBUFS:
        pause_accepting(l);
        return false;
    default:
        return true; /* ECONNABORTED and network errors of that one connection */
    }
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct listener *l = arg;
    for (int i = 0; i < ACCEPT_BURST && accept_one(l); i++)
        ;
}

/* ---- making the socket ---- */

static int bind_error(int err)
{
    switch (err) {
    case EADDRINUSE:
        return DFS_EBUSY;
    case EACCES:
    case EPERM:
        return DFS_EDENIED;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return DFS_EINVAL;
    default:
        return dfs_err_from_errno(err);
    }
}

static int listen_on(const struct addrinfo *ai, int *out)
{
    int one = 1;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return bind_error(errno);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == -1 || listen(fd, LISTEN_BACKLOG) == -1) {
        int rc = bind_error(errno);
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

static int open_socket(const char *host, uint16_t port, int *out)
{
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    bool any = host == NULL || host[0] == '\0' || strcmp(host, "0.0.0.0") == 0;
    if (any)
        hints.ai_family = AF_INET;
    if (getaddrinfo(any ? NULL : host, service, &hints, &list) != 0)
        return DFS_EINVAL;
    int rc = DFS_EINVAL;
    for (const struct addrinfo *ai = list; ai != NULL && rc != 0; ai = ai->ai_next)
        rc = listen_on(ai, out);
    freeaddrinfo(list);
    return rc;
}

int listener_new(const struct listener_options *opts, struct listener **out)
{
    CHECK(opts->loop_count > 0 && opts->on_accept != NULL);
    struct listener *l = calloc(1, sizeof *l);
    if (l == NULL)
        return DFS_ENOMEM;
    l->opts = *opts;
    l->refs = 1;
    l->on_way = calloc(opts->loop_count, sizeof *l->on_way);
    int rc = l->on_way != NULL ? open_socket(opts->host, opts->port, &l->fd) : DFS_ENOMEM;
    if (rc != 0) {
        listener_unref(l);
        return rc;
    }
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    loop_timer_init(&l->resume, opts->accept_loop, on_resume, l);
    event_assign(&l->event, loop_base(opts->accept_loop), l->fd, EV_READ | EV_PERSIST, on_acceptable, l);
    if (event_add(&l->event, NULL) == -1) {
        listener_free(l);
        return DFS_EUNAVAILABLE;
    }
    *out = l;
    return 0;
}

uint16_t listener_port(const struct listener *l)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (l->fd == -1 || getsockname(l->fd, (struct sockaddr *)&a, &len) == -1)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

void listener_stop(struct listener *l)
{
    if (l->fd == -1)
        return;
    loop_timer_release(&l->resume);
    event_del(&l->event);
    close(l->fd);
    l->fd = -1;
}

void listener_free(struct listener *l)
{
    if (l == NULL)
        return;
    listener_stop(l);
    if (l->spare_fd != -1)
        close(l->spare_fd);
    l->spare_fd = -1;
    listener_unref(l);
}

const char *listener_error_text(int rc)
{
    return rc == DFS_EBUSY ? "address already in use" : rc == DFS_EINVAL ? "no such address here" : dfs_err_text(rc);
}
