/* One volume server as the master sees it: where it is, what it holds, how it is reached.
 * Belongs to the master's loop. */
#ifndef DFS_MASTER_DATA_NODE_H
#define DFS_MASTER_DATA_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/grpc.h"

struct topology;
struct topo_volume;

#define PLACE_NAME_MAX 200
#define DATA_NODE_UUIDS_MAX 64
#define DATA_NODE_UUID_BYTES 36

/* After a failed allocation a node is left alone this long, doubling up to the maximum: an unreachable server must not eat volume
 * ids for ever. */
#define DATA_NODE_BACKOFF_MS 2000u
#define DATA_NODE_BACKOFF_MAX_MS 60000u

struct data_node {
    struct addr addr;              /* as it names itself; grpc_port filled in */
    char url[ADDR_TEXT_MAX];       /* "host:port" */
    char public_url[ADDR_TEXT_MAX];
    char id[ADDR_TEXT_MAX];        /* its own name, or url */
    char data_center[PLACE_NAME_MAX + 1];
    char rack[PLACE_NAME_MAX + 1];
    char uuids[DATA_NODE_UUIDS_MAX][DATA_NODE_UUID_BYTES + 1];
    uint32_t uuid_count;

    bool up;
    uint64_t last_beat_ms;
    bool decay;                    /* this beat halves what is expected of ids handed out: once a pulse */
    uint64_t decayed_ms;
    uint64_t beat_seq;             /* full beats so far: marks what the last one named */
    bool loading;                  /* not all of its volumes are named yet */
    bool maintenance;              /* it takes no new data: neither ids nor volumes */
    uint64_t max_volumes;
    uint64_t ec_slots;             /* volumes' worth of erasure-coded shards */
    uint64_t disk_total_bytes, disk_free_bytes;
    uint64_t pending_volumes;      /* allocations under way */
    struct topo_volume **volumes;
    uint32_t volume_count, volume_cap;

    struct addr reach;             /* addr with a numeric host, once reachable: see node_reach.h */
    bool reachable, looking_up;
    uint64_t lookup_again_ms;      /* a look-up failed; 0 = none did */
    struct grpc_channel *channel;  /* made on first use */
    bool closed;                   /* the master is ending: no new channel */
    uint64_t backoff_until_ms;
    uint32_t backoff_ms;
    char last_error[ADDR_TEXT_MAX + 128];          /* of the last failed allocation */
    struct grpc_call *stream;      /* its heartbeats, NULL when down */
    struct data_node *next;
};

/* A node that is down and holds nothing; addr is copied.  DFS_ENOMEM. */
int data_node_new(const struct addr *addr, struct data_node **out);
void data_node_free(struct data_node *n);

/* Ends its calls (they are closed with GRPC_CANCELLED) and makes no new ones. */
void data_node_close(struct data_node *n);

/* Slots for new volumes; 0 when down or in maintenance. */
uint64_t data_node_free_slots(const struct data_node *n);

/* The channel to it, dialled on first use.  DFS_ECANCELLED once closed, DFS_EUNAVAILABLE while its name is looked up. */
int data_node_channel(struct data_node *n, struct loop *loop, struct grpc_channel **out);

/* The set of volumes it holds, kept by topology.c together with the volume's own list.  DFS_ENOMEM. */
int data_node_add_volume(struct data_node *n, struct topo_volume *v);
void data_node_remove_volume(struct data_node *n, struct topo_volume *v);

/* How an AllocateVolume went: a failure makes growth leave the node alone for a while (why is copied, for the refusal's
 * text), a success ends that. */
void data_node_allocation_failed(struct data_node *n, uint64_t now_ms, const char *why);
void data_node_allocation_worked(struct data_node *n);

#endif
