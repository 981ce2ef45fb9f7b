/* Inside of the master daemon: what its files share.  Everything here belongs to the master's loop. */
#ifndef DFS_MASTER_MASTER_H
#define DFS_MASTER_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "master/assign.h"
#include "master/master_server.h"
#include "master/sequencer.h"
#include "master/topology.h"
#include "master/volume_growth.h"
#include "net/chunkq.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/http_util.h"
#include "net/jsonw.h"
#include "net/metrics.h"
#include "net/version.h"
#include "net/whitelist.h"
#include "net/work.h"

struct subscriber;
struct vacuum_run;

/* How long a fresh master waits for the servers it knew. */
#define MASTER_WARM_UP_MS 15000u
/* And how long, after its own start, for those that are up to open their volumes. */
#define MASTER_LOADING_MS 600000u
#define MASTER_SWEEP_MS 500u
/* A server that has been away for so long is not waited for after a restart. */
#define MASTER_FORGET_SERVERS_MS 600000u

#define MASTER_LOCKS_MAX 64
#define MASTER_LOCK_LEASE_MS 10000u

/* An administrator's lock ("shell"), leased for ten seconds at a time. */
struct admin_lock {
    char name[64];
    char client[128];
    char message[128];
    int64_t token;
    int64_t time_ns;
    uint64_t until_ms;
};

enum master_count {
    COUNT_ASSIGN, COUNT_ASSIGN_REFUSED, COUNT_LOOKUP, COUNT_LOOKUP_FAILED, COUNT_BEAT, COUNT_BEAT_FULL, COUNT_BEAT_DELTA,
    COUNT_BEAT_ERROR, COUNT_PICK_FAILED, COUNT_BROADCAST_FULL, COUNT_HTTP, MASTER_COUNTS,
};

struct master_server {
    struct master_options options;
    struct loop *loop;
    char self[ADDR_TEXT_MAX + 8];      /* "ip:port" */
    char self_grpc[ADDR_TEXT_MAX + 8]; /* "ip:port.grpcPort" */
    struct replica_placement default_placement;

    struct work_pool *pool;  /* writes the state */
    struct work_pool *names; /* looks names up */
    struct work_pool *metrics_pool; /* NULL without options.more_metrics; apart, so that it ends before what it answers */
    struct sequencer *sequencer;
    struct topology topology;
    struct grower grower;
    struct http_server *http, *http_metrics;
    struct grpc_server *grpc;
    struct http_client *client; /* for /submit and /delete */
    struct whitelist white_list;
    struct chunk_pool *chunks; /* bodies of /submit */
    uint64_t submit_bytes;     /* admitted and not yet answered */
    struct metrics *metrics;

    struct subscriber *subscribers;
    uint32_t subscriber_count;
    struct assign *waiting;     /* assigns that wait for a growth or for keys */
    uint32_t waiting_count;
    struct vacuum_run *vacuum;
    bool vacuum_disabled;
    struct admin_lock locks[MASTER_LOCKS_MAX];

    struct loop_timer sweep;    /* nodes without heartbeats */
    struct loop_timer vacuum_timer;
    struct loop_timer drain_timer;
    void (*drain_done)(void *arg);
    void *drain_arg;
    uint64_t drain_until_ms;
    bool draining;
    uint64_t start_s, start_ms;
    uint32_t servers_before; /* up when the master last ran */
    uint64_t swept_ms;       /* when the sweep last ran */
    uint64_t fewer_since_ms; /* since when fewer servers are up than the state says; 0 = not */
    uint64_t counts[MASTER_COUNTS];
};

/* ---- keep_connected.c ---- */
extern const struct grpc_call_ops keep_connected_ops;
/* Tells every subscriber; slow ones are dropped, never waited for. */
void keep_connected_location(struct master_server *m, const struct data_node *n, uint32_t volume_id, bool added);
void keep_connected_cluster_nodes(struct master_server *m, struct grpc_call *call, const char *type);

/* ---- heartbeat.c ---- */
extern const struct grpc_call_ops heartbeat_ops;
void heartbeat_sweep(struct master_server *m);

/* ---- vacuum.c ---- */
/* What to look at, and what of it to vacuum. */
struct vacuum_scope {
    double threshold;
    uint32_t only_volume; /* 0 = all */
    bool any_collection;
    char collection[PLACE_NAME_MAX + 1];
};
struct vacuum_waiter {
    void (*fn)(struct vacuum_waiter *w, int rc);
    struct vacuum_waiter *next; /* private from here on */
    struct vacuum_scope scope;
};
/* Looks at every volume (or one, or those of a collection when it is not NULL) and vacuums what is over the threshold; w->fn is
 * called when all is done, with 0, or DFS_ECANCELLED when the master ends before; never inside.  While a run is under way the next
 * one waits for it: what was passed already is looked at again.  w NULL: by the clock; nothing when a run is under way.
 * DFS_ECANCELLED when the master is stopping, DFS_EINVAL, DFS_ENOMEM. */
int vacuum_start(struct master_server *m, double threshold, uint32_t only_volume, const char *collection,
                 struct vacuum_waiter *w);
/* The master is stopping: who waits is called with DFS_ECANCELLED; the volume under way is finished as far as there is time. */
void vacuum_refuse_all(struct master_server *m);
void vacuum_free(struct master_server *m);
/* The last run and the volumes whose vacuum fails, for /dir/status: a JSON value. */
void vacuum_status(struct master_server *m, struct jsonw *w);

/* ---- submit.c ---- */
struct master_req;
/* POST /submit: assign, then hand the body on to the volume server.  The handler's four steps. */
void submit_request(struct master_req *q);
int submit_body(struct master_req *q, struct bytes in, size_t *taken);
void submit_end(struct master_req *q);
void submit_close(struct master_req *q);
/* /delete?fid=a&fid=b of release 0.76. */
void batch_delete(struct master_req *q);

/* One HTTP request to the master. */
struct master_req {
    struct http_req *http;
    struct master_server *master;
    const struct master_route *route;
    struct http_params params;
    char *form; /* body of a form post */
    size_t form_bytes;
    struct assign assign;
    struct vacuum_waiter vacuum_wait;
    struct growth_waiter growth_wait;
    struct volume_layout *grow_layout;
    uint64_t grow_count;
    struct submit *submit;
};
void master_reply_json(struct master_req *q, int status, struct jsonw *w);
bool master_req_pretty(const struct master_req *q);
/* The assign parameters of a request. */
int master_req_assign(struct master_req *q);

/* ---- master_http.c, master_status.c ---- */
extern const struct http_handler master_http_handler, master_metrics_handler;
void status_dir(struct master_server *m, struct jsonw *w);
void status_volumes(struct master_server *m, struct jsonw *w);
void status_cluster(struct master_server *m, struct jsonw *w);
void status_collection(struct master_server *m, const char *name, bool detail, struct jsonw *w);
void status_page(struct master_server *m, struct metric_text *out);
int master_metrics_init(struct master_server *m);
/* Resident memory of this process; 0 when it cannot be told. */
uint64_t master_resident_bytes(void);

/* ---- collection.c ---- */
/* Deletes every volume of it on every server; done is called with the number deleted or DFS_ENOTFOUND ... never inside. */
typedef void collection_delete_cb(void *arg, int rc, const char *why);
int collection_delete(struct master_server *m, struct bytes name, collection_delete_cb *done, void *arg);
bool collection_exists(struct master_server *m, struct bytes name);

/* ---- master_grpc.c ---- */
extern const struct grpc_method master_grpc_methods[];
extern const uint32_t master_grpc_method_count;

#endif
