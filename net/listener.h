/* One acceptor deals sockets to loops.
 *
 * SO_REUSEPORT spreads few clients badly (up to 3/4 of 16 keep-alive clients on one of two loops), so one loop accepts and
 * hands each socket over by mailbox: to the loop that has the fewest, where the owner says how many each has, else in turn.
 * A spare descriptor is kept so that at EMFILE a connection is accepted and closed instead of spinning. */
#ifndef DFS_NET_LISTENER_H
#define DFS_NET_LISTENER_H

#include <stdint.h>
#include <sys/socket.h>

#include "net/loop.h"

struct listener;

struct listener_options {
    struct loop *accept_loop;
    struct loop *const *loops; /* where connections live; borrowed for the listener's life */
    uint32_t loop_count;
    const char *host; /* numeric or a name; NULL, "" or "0.0.0.0" = every IPv4 address; "::" = every address */
    uint16_t port;
    /* On the chosen loop.  fd is non-blocking, close-on-exec, TCP_NODELAY; taken. */
    void (*on_accept)(void *arg, struct loop *loop, int fd, const struct sockaddr_storage *peer);
    /* Connections that loop number `loop` has now; the sockets that are on their way to it are known here.  NULL: dealt in turn.
     * Accept loop. */
    uint32_t (*load)(void *arg, uint32_t loop);
    /* With load: sockets of clients on this machine go to the first loop that has fewer connections than this.  Such clients need
     * the processors themselves, and few connections on many loops cost more changes of threads than they gain.  0: never. */
    uint32_t gather_local;
    void *arg;
};

/* Binds and listens at once (SO_REUSEADDR, backlog 4096), accepts once the loop runs.  Before that, or on its thread.
 * DFS_EBUSY: address in use; DFS_EDENIED; DFS_EINVAL: host does not resolve.  Logs nothing: the caller names the option
 * to blame. */
int listener_new(const struct listener_options *opts, struct listener **out);

/* The port listened on: the one given, or what the kernel chose for port 0.  0 once stopped. */
uint16_t listener_port(const struct listener *l);

/* For the caller's log line: "address already in use" for DFS_EBUSY, else the text of the code.  Static. */
const char *listener_error_text(int rc);

/* Stop accepting (connections stay).  Accept loop's thread, or before it runs / after it ended. */
void listener_stop(struct listener *l);
/* Sockets on their way to a loop are still delivered; see loop_run_posted(). */
void listener_free(struct listener *l);

#endif
