/* Where else a volume is: a cache of the master's answers.
 *
 * One cache for each HTTP loop (no lock), one asker on the control loop that has the channel to the leader.  An entry lives
 * VOLUME_LOOKUP_TTL_MS and is forgotten at once when a server it named refuses or cannot be reached.  Addresses in it are
 * numeric: names are resolved on a worker thread before an answer is handed out.  Addresses come from the master only, never
 * from a request. */
#ifndef DFS_VOLUME_VOLUME_LOOKUP_H
#define DFS_VOLUME_VOLUME_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "net/work.h"

#define VOLUME_LOOKUP_TTL_MS 60000u
#define VOLUME_LOOKUP_MISS_TTL_MS 1000u /* of "nobody has it" */
#define VOLUME_LOOKUP_ENTRIES_MAX 8192u
#define VOLUME_LOOKUP_LOCATIONS_MAX 32u
#define VOLUME_LOOKUP_DEADLINE_MS 2000u

struct volume_location {
    struct addr addr;                  /* numeric host */
    char url[ADDR_TEXT_MAX];           /* as the master says it: host:port */
    char public_url[ADDR_TEXT_MAX];
};
struct volume_locations {
    uint32_t count;
    struct volume_location v[];
};

/* ---- the asker: control loop ---- */
struct volume_lookup_asker;
/* channel(arg) is the channel to the leader or NULL; called on `control`. */
int volume_lookup_asker_new(struct loop *control, struct work_pool *pool, struct grpc_channel *(*channel)(void *arg), void *arg,
                            struct volume_lookup_asker **out);
/* After the loops have ended. */
void volume_lookup_asker_free(struct volume_lookup_asker *a);

/* ---- the cache: one loop ---- */
struct volume_lookup;
struct volume_lookup_wait {
    /* rc 0: locations (borrowed until return, perhaps none); else DFS_EUNAVAILABLE, DFS_ENOMEM.  Loop's thread. */
    void (*done)(struct volume_lookup_wait *w, int rc, const struct volume_locations *locations);
    void *arg;
    struct volume_lookup_wait *next; /* private */
};
int volume_lookup_new(struct loop *loop, struct volume_lookup_asker *asker, struct volume_lookup **out);
/* After the loops have ended; waiters are not called. */
void volume_lookup_free(struct volume_lookup *l);
/* 0: *out, borrowed until control returns to the loop.  DFS_EAGAIN: w->done will be called.  DFS_ENOMEM. */
int volume_lookup_get(struct volume_lookup *l, uint32_t volume_id, struct volume_lookup_wait *w,
                      const struct volume_locations **out);
void volume_lookup_forget(struct volume_lookup *l, uint32_t volume_id);

#endif
