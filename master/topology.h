/* Who has which bytes: volume servers in racks in data centers, and every volume with its replicas.
 *
 * Built from heartbeats alone, kept in memory, owned by the master's loop: no lock.  Counters are derived from the sets, never kept
 * beside them, so they cannot drift. */
#ifndef DFS_MASTER_TOPOLOGY_H
#define DFS_MASTER_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "master/data_node.h"
#include "master/vacuum_backoff.h"
#include "master/volume_room.h"
#include "needle/bytes.h"
#include "needle/replica_placement.h"
#include "needle/ttl.h"

struct volume_layout;

#define DEFAULT_DATA_CENTER "DefaultDataCenter"
#define DEFAULT_RACK "DefaultRack"

/* What one server says of its copy. */
struct volume_report {
    uint32_t id;
    struct bytes collection;
    struct replica_placement placement;
    struct ttl ttl;
    uint8_t version;
    uint64_t size_bytes, file_count, delete_count, deleted_bytes;
    bool read_only;
    uint32_t compact_revision;
    int64_t modified_s;
    uint32_t disk_id;
    bool fresh; /* just made: a full beat that was put together before may be on its way and not name it */
};

struct replica {
    struct data_node *node;
    uint64_t size_bytes, file_count, delete_count, deleted_bytes;
    bool read_only;
    uint32_t compact_revision;
    int64_t modified_s;
    uint32_t disk_id;
    uint64_t seen_beat; /* node->beat_seq of the last full beat that named it, or that may miss it */
};

struct topo_volume {
    uint32_t id;
    uint8_t version;
    struct volume_layout *layout;
    struct replica *replicas;
    uint32_t replica_count, replica_cap;
    bool vacuuming;               /* taken out of the writable set meanwhile */
    struct vacuum_backoff vacuum_backoff;
    int32_t writable_index;       /* in layout->writable, or -1 */
    const struct data_node *lane_node; /* the disk location that it is handed out under while it is writable */
    uint32_t lane_disk_id;
    struct volume_room room;      /* ids handed out since the last report */
    struct topo_volume *next;     /* hash chain */
};

struct topology {
    struct data_node *nodes;      /* known since start, up or down */
    uint32_t node_count;
    struct topo_volume **buckets;
    uint32_t bucket_count, volume_count;
    struct volume_layout **layouts; /* hash table of chains */
    uint32_t layout_count;
    uint64_t size_limit_bytes;
    /* A replica appeared (added) or went; may be NULL. */
    void (*on_location)(void *arg, struct data_node *node, uint32_t volume_id, bool added);
    void *arg;
};

#define TOPOLOGY_LAYOUT_BUCKETS 1024u
/* Bounds of what heartbeats can make us remember. */
#define TOPOLOGY_NODES_MAX 65536u
#define TOPOLOGY_VOLUMES_MAX 16777216u
/* Layouts come into being when someone asks for a name; above the first number those without volumes go again. */
#define TOPOLOGY_LAYOUTS_KEPT 1024u
#define TOPOLOGY_LAYOUTS_MAX 65536u

/* Empty.  DFS_ENOMEM. */
int topology_init(struct topology *t, uint64_t size_limit_bytes);
void topology_release(struct topology *t);

/* By "host:port", up or down; NULL. */
struct data_node *topology_find_node(struct topology *t, struct bytes url);
/* Finds or makes.  DFS_ENOMEM, DFS_ENOSPC. */
int topology_node(struct topology *t, const struct addr *addr, struct data_node **out);
/* Another node that is up and has one of these folders; NULL. */
struct data_node *topology_uuid_owner(struct topology *t, const struct data_node *but, struct bytes uuid);
/* The node is gone: its replicas too. */
void topology_node_down(struct topology *t, struct data_node *n);

/* NULL when no server has reported it. */
struct topo_volume *topology_find(struct topology *t, uint32_t volume_id);
/* One copy on one node: added or updated.  DFS_ENOMEM, DFS_EINVAL (unsafe collection name), DFS_ENOSPC. */
int topology_report(struct topology *t, struct data_node *n, const struct volume_report *r);
void topology_forget(struct topology *t, struct data_node *n, uint32_t volume_id);
/* After a full beat: what it did not name is gone. */
void topology_full_beat_done(struct topology *t, struct data_node *n);

/* Numbers that change whether a volume takes writes: call after changing them. */
void topology_refresh(struct topology *t, struct topo_volume *v);

/* The copy on that node, or NULL; valid until a replica of the volume comes or goes. */
struct replica *topo_volume_replica(struct topo_volume *v, const struct data_node *n);
/* Greatest size that a replica reports. */
uint64_t topo_volume_size(const struct topo_volume *v);

/* Sums over nodes that are up. */
struct topology_sums {
    uint32_t nodes_up, nodes_down, nodes_loading; /* loading ones, and those whose name is looked up, are up, too */
    uint64_t max_volumes, free_slots, volumes;
};
void topology_sums(const struct topology *t, struct topology_sums *out);

/* Whether n is the first server up, in the order of t->nodes, of its data center, of its rack: so places are walked without
 * lists of them. */
bool topology_first_of_data_center(const struct topology *t, const struct data_node *n);
bool topology_first_of_rack(const struct topology *t, const struct data_node *n);

/* Calls fn for every volume; its non-zero return ends the walk and is returned.  fn must not add or remove volumes. */
int topology_each_volume(struct topology *t, int (*fn)(struct topo_volume *v, void *arg), void *arg);

#endif
