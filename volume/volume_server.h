/* The volume daemon: one store, its HTTP and gRPC doors, and the stream to the master.
 *
 * conf fills a struct volume_options and drives the life: new, start, drain, free.  Threads: the caller's loop accepts; L loops
 * (default min(cores, 8)) serve HTTP, each connection on one of them for life; one more loop of the server's own carries
 * heartbeat, look-ups and gRPC, so that load never looks like death.  The store has its own threads behind them. */
#ifndef DFS_VOLUME_VOLUME_SERVER_H
#define DFS_VOLUME_VOLUME_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"
#include "volume/needle_io.h"
#include "volume/needle_map.h"
#include "volume/store.h"

/* Defaults, for conf's help texts. */
#define VOLUME_PORT_DEFAULT 8080
#define VOLUME_MASTER_DEFAULT "127.0.0.1:9333"
#define VOLUME_PULSE_S_DEFAULT 5u
#define VOLUME_IDLE_TIMEOUT_S_DEFAULT 30u
#define VOLUME_FILE_LIMIT_BYTES_DEFAULT (256ull << 20)
#define VOLUME_PRE_STOP_S_DEFAULT 10u
#define VOLUME_MAX_CONNECTIONS_DEFAULT 65536u
#define VOLUME_LOOPS_MAX 64u

/* What a read does when the volume is not on this server. */
enum volume_read_mode {
    VOLUME_READ_LOCAL,    /* 404 (-readMode=local, -read.redirect=false) */
    VOLUME_READ_PROXY,    /* fetch it from a server that has it (default) */
    VOLUME_READ_REDIRECT, /* 301 to one (-readMode=redirect, -read.redirect) */
};

enum volume_compress {
    VOLUME_COMPRESS_OFF,  /* bytes are stored as sent (default) */
    VOLUME_COMPRESS_AUTO, /* text-like uploads are stored as gzip when that saves a tenth, as release 4.x of the peer does */
};

/* Every option of the daemon.  Strings are borrowed for the server's life and never NULL after volume_options_init(). */
struct volume_options {
    /* who and where we are */
    const char *ip;         /* -ip: what others are told; "127.0.0.1" */
    const char *ip_bind;    /* -ip.bind: where we listen; "" = ip */
    uint16_t port;          /* -port */
    uint16_t port_public;   /* -port.public: a second, read-only listener; 0 or equal to port = none */
    uint16_t port_grpc;     /* -port.grpc; 0 = port + 10000 */
    uint16_t metrics_port;  /* -metricsPort: /metrics alone, on ip_bind; 0 = only on the main port */
    const char *metrics_ip; /* -metricsIp; "" = ip_bind */
    const char *public_url; /* -publicUrl; "" = ip:port (of port_public when there is one) */
    const char *id;         /* -id: the server's name for the master; "" = none */
    const char *data_center;
    const char *rack;

    /* masters */
    const char *masters;    /* -master, -mserver: comma list of host:port[.grpcPort] */
    uint32_t pulse_s;       /* -pulseSeconds: heartbeat period */

    /* folders and index */
    const char *dirs[STORE_LOCATIONS_MAX];     /* -dir, in order, as given */
    uint32_t max_volumes[STORE_LOCATIONS_MAX]; /* -max, one each; 0 = automatic */
    uint32_t dir_count;
    const char *dir_idx;    /* -dir.idx: only "" (beside the data) is supported; else start fails with one line */
    enum needle_map_kind index_kind; /* -index */
    uint32_t leveldb_cache_bytes;    /* each volume; by -index leveldb, leveldbMedium, leveldbLarge */
    unsigned offset_width;  /* -offsetBytes of new volumes: 4 or 5 */
    double min_free_percent;  /* -minFreeSpacePercent, -minFreeSpace with a bare number or % */
    uint64_t min_free_bytes;  /* -minFreeSpace with a unit; when not 0 it alone counts */

    /* writing */
    enum durability durability;  /* -durability none|paced|group */
    uint64_t dirty_bytes;        /* -dirtyMB */
    uint64_t zero_ahead_bytes;   /* -zeroAheadMB */
    uint64_t stage_bytes;        /* -stageMB */
    uint64_t pool_bytes;         /* -poolMB */
    uint64_t file_limit_bytes;   /* -fileSizeLimitMB: largest body of an upload */
    enum volume_compress compress; /* -compress */

    /* reading */
    enum volume_read_mode read_mode;
    bool read_check_always;      /* -readCheck always */

    /* maintenance */
    uint64_t vacuum_bytes_per_s; /* -compactionMBps; 0 = unbounded */

    /* limits */
    const char *white_list;      /* -whiteList: comma list of addresses and networks for writes and deletes; "" = all */
    uint32_t loops;              /* -loops; 0 = min(cores, 8) */
    uint32_t max_connections;    /* -maxConnections */
    uint32_t idle_timeout_s;     /* -idleTimeout: of a connection without progress */
    uint64_t upload_limit_bytes;   /* -concurrentUploadLimitMB: bodies in flight; 0 = unbounded */
    uint64_t download_limit_bytes; /* -concurrentDownloadLimitMB */
    uint32_t pre_stop_s;         /* -preStopSeconds: how long a stop waits for requests in flight */
};

/* All defaults; no folder. */
void volume_options_init(struct volume_options *o);

struct volume_server;
struct metric_text;

/* Checks the options, opens the folders and lists their volumes.  Blocks.  `accept_loop` is borrowed for the server's life and
 * not run yet (or the caller is on its thread).  On failure one log line names the option or folder and the cause:
 * DFS_EINVAL for options, else what the folder said. */
int volume_server_new(const struct volume_options *o, struct loop *accept_loop, struct volume_server **out);

/* Opens the ports and starts to serve: volumes still loading answer 503.  DFS_EBUSY and so on when a port cannot be had, said in
 * one log line; then only volume_server_free() may follow.  Thread of new. */
int volume_server_start(struct volume_server *s);

/* Leaves the master, stops accepting, lets requests in flight end (at most pre_stop_s).  `done` is called once, on the accept
 * loop, perhaps before this returns.  Accept loop's thread. */
void volume_server_drain(struct volume_server *s, void (*done)(void *arg), void *arg);

/* Ends the loops, closes every volume cleanly (nothing to repair afterwards), frees.  Blocks.  After the accept loop has ended, or
 * on its thread; drained or not. */
void volume_server_free(struct volume_server *s);

/* Appends the text of /metrics.  Any thread, until volume_server_free(). */
void volume_server_metrics(struct volume_server *s, struct metric_text *out);

/* For tests and for `dfs server`, which waits for its own volumes. */
struct store *volume_server_store(struct volume_server *s);

#endif
