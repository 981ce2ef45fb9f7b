/* Volumes that are alike: same collection, replica placement and ttl.  Keeps which of them take writes and picks one for an
 * assign.
 *
 * Picking is sticky: on each disk location one volume is handed out for a short run, so that the volume server's batches stay
 * thick; then comes the one with the least bytes outstanding, so that the spread stays even; locations take turns.
 *
 * A volume server refuses what comes after the limit, so ids that would come too late are held back: a volume is roomy while what
 * it holds and what is on its way to it (volume_room.h) stay below 15/16 of the limit.
 * Belongs to the master's loop. */
#ifndef DFS_MASTER_VOLUME_LAYOUT_H
#define DFS_MASTER_VOLUME_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "master/topology.h"

#define LAYOUT_RUN_IDS 64u
#define LAYOUT_RUN_MS 5u
#define LAYOUT_LANES_MAX 4096u
/* Growing begins when each volume has less left than 1/10 of the limit, or than this if that is more, but not above 1/4: a small
 * volume is soon full. */
#define LAYOUT_AHEAD_BYTES (64ull << 20)
/* Volumes that may be full by estimate alone before growing on that ground ends, unless reports keep proving the estimate: a wrong
 * one must not eat all slots. */
#define LAYOUT_GUESSED_MAX 4u

struct volume_growth;

/* A disk location that has writable volumes of this layout. */
struct layout_lane {
    const struct data_node *node;
    uint32_t disk_id;
    struct topo_volume *current;
    uint32_t left;
    uint64_t until_ms;
    bool held; /* current was not roomy when it was chosen, nor was any other */
};

struct volume_layout {
    char collection[PLACE_NAME_MAX + 1];
    struct replica_placement placement;
    struct ttl ttl;
    const struct topology *topology;
    uint32_t volume_count; /* all of this layout */
    struct topo_volume **writable;
    uint32_t writable_count, writable_cap;
    struct layout_lane *lanes;
    uint32_t lane_count, lane_cap, turn;
    bool lanes_stale;
    struct volume_growth *growth; /* under way, or NULL */
    uint32_t users;               /* assigns that wait for one of these volumes */
    uint64_t growth_tried_ms;     /* when growing ahead was last tried */
    struct room_sizes sizes;      /* of what arrived in its volumes */
    uint32_t uncrowded;           /* where in writable one with room was last found */
    struct volume_layout *next;
};

/* Finds or makes.  collection must be a safe name.  DFS_ENOMEM, DFS_EINVAL, DFS_ENOSPC (TOPOLOGY_LAYOUTS_MAX). */
int volume_layout_get(struct topology *t, struct bytes collection, struct replica_placement rp, struct ttl ttl,
                      struct volume_layout **out);
struct volume_layout *volume_layout_find(struct topology *t, struct bytes collection, struct replica_placement rp,
                                         struct ttl ttl);

/* Where the caller wants it; empty fields mean anywhere. */
struct place_filter {
    struct bytes data_center, rack, data_node;
};
bool place_filter_empty(const struct place_filter *f);
bool place_filter_match(const struct place_filter *f, const struct data_node *n);

/* A writable volume with a replica that matches, or NULL.  expected_bytes of each id (0 = by what arrived lately).  Roomy ones go
 * first, then those that are full by estimate alone. */
struct topo_volume *volume_layout_pick(struct volume_layout *l, const struct place_filter *f, uint64_t count,
                                       uint64_t expected_bytes, uint64_t now_ms);

/* The same, but NULL when none that matches is roomy: none that all of the ids may go to without one being refused. */
struct topo_volume *volume_layout_pick_roomy(struct volume_layout *l, const struct place_filter *f, uint64_t count,
                                             uint64_t expected_bytes, uint64_t now_ms);

/* Whether all writable volumes that match will soon be full, so that growing should begin before none is left. */
bool volume_layout_crowded(struct volume_layout *l, const struct place_filter *f);

/* Whether there are volumes that match, and that they are full is no mere estimate for too many: good reason to grow. */
bool volume_layout_worth_growing(const struct volume_layout *l, const struct place_filter *f);

/* Puts the volume into the writable set or takes it out, by its state. */
void volume_layout_update(struct topology *t, struct topo_volume *v);
void volume_layout_remove(struct volume_layout *l, struct topo_volume *v);

/* Why a volume does not take writes, for refusals: a short static text; NULL when it does. */
const char *volume_layout_why_not(const struct topology *t, const struct topo_volume *v);

/* Calls fn for every layout; its non-zero return ends the walk and is returned. */
int volume_layout_each(struct topology *t, int (*fn)(struct volume_layout *l, void *arg), void *arg);

/* Frees layouts that hold no volume and that nobody waits for, when there are many: a name that was only asked for must not be
 * remembered for ever.  Not while a layout is in use further up the stack. */
void volume_layout_drop_idle(struct topology *t);

void volume_layout_free(struct volume_layout *l);

#endif
