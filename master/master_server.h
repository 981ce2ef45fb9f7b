/* The master daemon: lifecycle, options, routes.
 *
 * One loop thread owns the topology: no lock.  HTTP and gRPC are served on it; what must reach the disk (the state file) goes
 * through a small worker pool and is posted back.  Between master and volume server everything is gRPC, also when both live in
 * one process.
 *
 * Used by conf only. */
#ifndef DFS_MASTER_MASTER_SERVER_H
#define DFS_MASTER_MASTER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct master_server;
struct metric_text;

struct master_options {
    const char *ip;      /* what others are told */
    const char *ip_bind; /* where we listen; "" = ip */
    uint32_t port;       /* 9333 */
    uint32_t port_grpc;  /* 0 = port + 10000 */
    uint32_t metrics_port; /* 0 = none besides /metrics on the HTTP port */
    const char *metrics_ip; /* "" = ip_bind */
    /* Appends to what -metricsPort shows, on a worker; NULL = the master's own alone.  `dfs server` shows its volume server. */
    void (*more_metrics)(struct metric_text *out, void *arg);
    void *more_metrics_arg;
    const char *dir;     /* state folder; made when missing */
    const char *peers;   /* comma list; itself and "none" do not count */

    uint64_t volume_size_limit_bytes;
    bool volume_preallocate;
    const char *default_replication; /* "xyz" */
    double garbage_threshold;        /* 0 .. 1 */
    uint32_t vacuum_interval_s;      /* 0 = never by itself */
    uint32_t growth;                 /* volumes in one growth; 0 = by number of copies */
    uint32_t growth_copy[4];         /* [0] one copy, [1] two, [2] three, [3] more: 7, 6, 3, 1 */
    uint32_t pulse_s;                /* heartbeats; three missed = down */
    uint64_t file_size_limit_bytes;  /* /submit */
    uint32_t idle_timeout_s;
    uint32_t max_connections;
    const char *white_list;
};

/* Defaults; no pointer is left NULL. */
void master_options_init(struct master_options *o);

/* Whether this master may run alone with these peers: 0; DFS_EUNSUPPORTED after one line on standard error when more than itself is
 * named; DFS_EINVAL. */
int master_peers_check(const struct master_options *o);

/* Reads (or makes) the state, binds both ports.  o is copied, its strings are borrowed for the server's life.  The HTTP and gRPC
 * servers run on `loop`, which the caller runs.  On failure one log line says what and why: DFS_EBUSY address in use,
 * DFS_EINVAL, DFS_EIO, ... */
int master_server_new(struct loop *loop, const struct master_options *o, struct master_server **out);

/* Refuse new work, end running requests; `done` is called on the loop when all is out (at the latest after timeout_ms). */
void master_server_drain(struct master_server *s, uint32_t timeout_ms, void (*done)(void *arg), void *arg);

/* After the loop has ended. */
void master_server_free(struct master_server *s);

#endif
