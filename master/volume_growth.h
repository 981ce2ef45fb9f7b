/* Making volumes: choose servers that satisfy a replica placement, create the volume on each.
 *
 * Placement xyz exactly: one main server; z more on other servers of its rack, y in other racks of its data center, x in other data
 * centers, each on a server of its own; on other hosts where there are any.  Choice is random, weighted by free slots, so growth
 * alternates between servers.
 * Belongs to the master's loop. */
#ifndef DFS_MASTER_VOLUME_GROWTH_H
#define DFS_MASTER_VOLUME_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "master/sequencer.h"
#include "master/topology.h"
#include "master/volume_layout.h"

#define GROWTH_COPIES_MAX 28 /* 1 + 9 + 9 + 9 */
#define GROWTH_ALLOCATE_TIMEOUT_MS 30000u
/* Volumes of one growth, whatever was asked for. */
#define GROWTH_VOLUMES_MAX 4096u
/* After one that brought nothing, so long no other one is hoped for; nor from one that has been under way for this long. */
#define GROWTH_HOPELESS_MS 1000u
#define GROWTH_SLOW_MS 2000u

/* Someone who waits for a growth to end; embedded. */
struct growth_waiter {
    void (*fn)(struct growth_waiter *w);
    struct growth_waiter *next;
};

struct grower {
    struct loop *loop;
    struct topology *topology;
    struct sequencer *sequencer;
    uint64_t preallocate_bytes; /* of new volumes; 0 = none */
    uint32_t step;              /* -master.growth; 0 = by copies */
    uint32_t step_by_copies[4];
    uint64_t created, failed;   /* counters */
};

struct growth_request {
    struct volume_layout *layout;
    struct place_filter filter; /* copied */
    uint32_t count;             /* volumes wanted, at most GROWTH_VOLUMES_MAX; 0 = the usual step, cut to the free slots */
    uint64_t preallocate_bytes; /* 0 = the grower's */
};

/* Servers for one volume; *count is the number of copies.  DFS_ENOSPC with a reason when the placement cannot be met now. */
int volume_growth_place(struct grower *g, struct replica_placement rp, const struct place_filter *f,
                        struct data_node *out[GROWTH_COPIES_MAX], uint32_t *count, char *reason, size_t cap);

/* Starts a growth, or joins the one that the layout has under way; w->fn is called when it has ended, whatever it brought, never
 * inside.  DFS_ENOSPC with a reason: nothing can be placed, w will not be called.  w may be NULL. */
int volume_growth_start(struct grower *g, const struct growth_request *r, struct growth_waiter *w, char *reason, size_t cap);
/* Whether a growth is under way: another one would only join it. */
bool volume_growth_active(const struct volume_layout *l);
/* Whether waiting for volumes that match promises more than waiting: cheap, by how the last growths went. */
bool volume_growth_hopeful(const struct volume_layout *l, const struct place_filter *f, uint64_t now_ms);
/* Forget a waiter. */
void volume_growth_unwait(struct volume_layout *l, struct growth_waiter *w);
/* Volumes that the layout's growth made in its last run, and why it made no more ("" when it made all). */
uint32_t volume_growth_made(const struct volume_layout *l);
const char *volume_growth_trouble(const struct volume_layout *l);

#endif
