/* Assign: a writable volume, a fresh needle key, a random cookie.
 *
 * From memory, with no disk and no lock on the path.  When no volume takes writes, or all are so full that a write may be
 * refused, a growth is started and the assign waits for it instead of failing; nearly full volumes are handed out where no other
 * can be made (no free slot, or it takes too long).  When it must refuse, the answer says what was looked at, why each fell out,
 * and what to do.
 * Belongs to the master's loop. */
#ifndef DFS_MASTER_ASSIGN_H
#define DFS_MASTER_ASSIGN_H

#include "master/volume_growth.h"
#include "needle/fid.h"

struct master_server;

#define ASSIGN_WAIT_MS 20000u
#define ASSIGN_WAITING_MAX 65536u
#define ASSIGN_REASON_MAX 768
/* Growths that an assign waits for because all volumes are nearly full; then it takes one of those. */
#define ASSIGN_HELD_ROUNDS 32u
/* Growing ahead is not tried more often. */
#define ASSIGN_AHEAD_MS 50u

struct assign {
    /* in: views must stay valid until done() */
    struct master_server *master;
    uint64_t count; /* 0 = 1 */
    struct bytes collection, replication, ttl, disk;
    struct place_filter filter;
    uint64_t preallocate_bytes;
    uint32_t growth_count; /* volumes to grow when growing is needed; 0 = the usual */
    uint64_t expected_bytes;
    /* On the loop, exactly once, only after assign_start() returned DFS_EAGAIN. */
    void (*done)(struct assign *a, int rc);

    /* out, valid until control returns to the loop */
    struct fid fid;
    struct topo_volume *volume;
    uint32_t at;                /* its replica to write to: any of them, so that no server takes all first copies */
    int http_status;            /* when it failed: 400, 406, 429, 503 ... */
    char reason[ASSIGN_REASON_MAX];

    /* private */
    struct volume_layout *layout;
    struct growth_waiter growth_wait;
    struct sequencer_waiter key_wait;
    bool in_growth, in_keys;
    bool keyed; /* fid.key is taken */
    bool held;  /* there are volumes, nearly full */
    uint32_t rounds, held_rounds;
    uint64_t until_ms;
    struct assign *next, *prev;
};

/* 0: out is filled.  DFS_EAGAIN: done() will be called.  Other negative: refused, see http_status and reason. */
int assign_start(struct assign *a);
/* The caller is going away while the assign waits: done() will not be called. */
void assign_cancel(struct assign *a);
/* Servers have come or the warm-up is over: parked assigns try again. */
void assign_retry(struct master_server *m);
/* The master is stopping: answers all that wait. */
void assign_refuse_all(struct master_server *m);
/* Answers what has waited too long. */
void assign_sweep(struct master_server *m);

/* The layout that the parameters name; 0 or DFS_EINVAL with a reason and 400 or 406. */
int assign_layout(struct assign *a, struct volume_layout **out);

#endif
