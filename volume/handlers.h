/* Internal to the volume daemon: what its request handlers share.
 *
 * Every request runs on the loop of its connection.  What hangs on r->user begins with a struct vs_request, which says who
 * takes the body and who cleans up.  A read that is answered at once leaves r->user empty: the hot path allocates nothing. */
#ifndef DFS_VOLUME_HANDLERS_H
#define DFS_VOLUME_HANDLERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "needle/fid.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/http_util.h"
#include "net/metrics.h"
#include "net/version.h"
#include "net/whitelist.h"
#include "net/work.h"
#include "volume/needle_io.h"
#include "volume/replica_suspects.h"
#include "volume/server_metrics.h"
#include "volume/volume_lookup.h"
#include "volume/volume_server.h"

#define VS_SERVER_HEADER "dfs Volume " DFS_VERSION
#define VS_PATH_MAX 4096u

struct heartbeat;
struct volume_grpc;
struct read_op;

/* ---- the server ---- */
enum vs_door_kind { VS_DOOR_MAIN, VS_DOOR_PUBLIC, VS_DOOR_METRICS };

struct vs_door {
    struct volume_server *server;
    enum vs_door_kind kind;
    struct http_server *http;
};

/* What belongs to one HTTP loop; its thread only. */
struct vs_loop {
    struct volume_server *server;
    struct loop *loop;
    struct http_client *client; /* replica writes, chunks, proxied reads */
    struct volume_lookup *lookup;
    struct read_op *spare_reads; /* kept for the next requests */
    uint32_t spare_read_count;
    struct undo_queue *undos;
    struct replica_suspects suspects;
    bool started;
};

struct volume_server {
    struct volume_options o;
    struct loop *accept_loop;
    struct loop *control; /* heartbeat, look-ups, gRPC */
    struct vs_loop *loops;
    struct loop **loop_list;
    uint32_t loop_count;
    bool control_started;

    struct store *store;
    struct vs_door main_door, public_door, metrics_door;
    struct heartbeat *heartbeat;
    struct volume_lookup_asker *asker;
    struct fid_turns *turns;
    struct volume_grpc *grpc;
    struct whitelist white_list;
    struct work_pool *pool; /* inflating, compressing, resolving names, rendering status */
    struct server_metrics metrics;

    char self_url[ADDR_TEXT_MAX];   /* ip:port */
    char public_url[ADDR_TEXT_MAX];
    struct addr self_addr;          /* where this process reaches itself: numeric */
    uint64_t start_s;

    atomic_bool stopping;
    atomic_bool maintenance;          /* told by SetState: no new data */
    atomic_bool preallocate;          /* told by the master: volumes get their whole size at once */
    atomic_uint state_version;
    _Atomic uint64_t upload_bytes;    /* in flight */
    _Atomic uint64_t download_bytes;
    _Atomic uint64_t last_stamp_ns;   /* newest version time given or seen */

    struct loop_timer drain_timer;
    uint64_t drain_until_ms;
    void (*drained)(void *arg);
    void *drained_arg;

    struct loop_timer maintain_timer; /* control loop */
    struct work maintain_work;
    bool maintaining;
};

static inline struct vs_door *vs_door_of(const struct http_req *r)
{
    return r->server_arg;
}
static inline struct volume_server *vs_of(const struct http_req *r)
{
    return vs_door_of(r)->server;
}
static inline struct vs_loop *vs_loop_of(const struct http_req *r)
{
    return &vs_of(r)->loops[loop_index(r->loop)];
}

/* A version time above all that this process has given or seen.  Any thread. */
uint64_t vs_stamp(struct volume_server *s);
void vs_stamp_seen(struct volume_server *s, uint64_t ns);

/* ---- requests (handlers.c) ---- */
struct vs_request {
    int (*on_body)(struct http_req *r, struct bytes in, size_t *taken);
    void (*on_end)(struct http_req *r);
    void (*on_close)(struct http_req *r);
};

extern const struct http_handler vs_http_handler;

/* Query parameters (NULL when there is no query), in the request's memory.  On failure the request has been answered. */
int vs_params(struct http_req *r, struct http_params **params);
/* Copies into the request's memory, with a closing zero; BYTES_NONE when that is used up. */
struct bytes vs_keep(struct http_req *r, struct bytes b);

/* Replies with the headers that every answer has (CORS).  vs_reply_begin is http_reply_begin with those. */
void vs_reply_begin(struct http_req *r, int status);
void vs_reply_empty(struct http_req *r, int status);
void vs_reply_json(struct http_req *r, int status, struct bytes json);
void vs_reply_error(struct http_req *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with an X-Dfs-Reason, so that a client can tell "look up again" from "gone". */
void vs_reply_refused(struct http_req *r, int status, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* What a failed write or delete is answered with: status, reason, text, and for a full disk the path and the bytes free. */
void vs_reply_write_failed(struct http_req *r, uint32_t volume_id, int rc);
/* The same as data, for those who answer otherwise (gRPC, batches). */
int vs_write_status(int rc, const char **reason);
void vs_write_failed_text(struct volume_server *s, uint32_t volume_id, int rc, char *out, size_t cap);

/* ---- one entry for each kind of request ---- */
void vs_read_request(struct http_req *r, struct bytes path);                 /* handlers_read.c */
void vs_read_loop_release(struct vs_loop *l);
void vs_write_request(struct http_req *r, struct bytes path);                /* handlers_write.c */
void vs_delete_request(struct http_req *r, struct bytes path);               /* handlers_delete.c */
void vs_batch_delete_request(struct http_req *r);                            /* handlers_delete.c */
bool vs_fixed_request(struct http_req *r, struct bytes path);                /* volume_status.c: false when it is no fixed path */

#endif
