/* All disk locations and volumes of one volume server.
 *
 * The server's loops register with store_loop_attach() so that look-ups may follow pointers without locks for one step.  Calls
 * marked "blocks" are for worker threads (store_pool()), never for a loop. */
#ifndef DFS_VOLUME_STORE_H
#define DFS_VOLUME_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "net/chunkq.h"
#include "net/loop.h"
#include "net/metrics.h"
#include "net/work.h"
#include "volume/needle_map.h"
#include "volume/volume.h"

#define STORE_LOCATIONS_MAX 64

struct store_options {
    const char *dirs[STORE_LOCATIONS_MAX]; /* borrowed for store_open() */
    uint32_t max_volumes[STORE_LOCATIONS_MAX]; /* 0 = max(8, free disk / limit), at least 1 when one fits */
    uint32_t dir_count;
    enum needle_map_kind index_kind;
    uint32_t leveldb_cache_bytes; /* each volume */
    int durability;               /* enum durability */
    unsigned offset_width;        /* of new volumes: 4 or 5 */
    uint64_t dirty_bytes;         /* -dirtyMB */
    uint64_t zero_ahead_bytes;    /* -zeroAheadMB */
    uint64_t stage_bytes;         /* -stageMB: larger bodies wait in a file */
    uint64_t pool_bytes;          /* -poolMB: all chunks together */
    uint64_t cut_keep_bytes;
    uint64_t size_limit_bytes;    /* until the master says otherwise */
    uint64_t min_free_bytes;      /* or */
    double min_free_percent;
    bool read_check_always;
    uint64_t vacuum_bytes_per_s;  /* 0 = unbounded */
};
void store_options_init(struct store_options *o);

struct store;

/* Opens the folders and lists the volumes by file name; nothing is loaded yet.  Blocks.  On failure one log line names the
 * folder and the cause. */
int store_open(const struct store_options *o, struct store **out);
/* Loads all volumes, one thread per location, in the background; volumes appear as they are ready. */
int store_load_start(struct store *s);
bool store_loading(const struct store *s);
/* Waits for all loads, and for maps that are being rebuilt (tools and tests). */
void store_load_wait(struct store *s);
/* Finishes queued writes, syncs, checkpoints, closes every volume cleanly.  Blocks.  No request may come afterwards. */
void store_stop(struct store *s);
void store_free(struct store *s);

/* On each loop that will read or write, before its first request, on its own thread. */
int store_loop_attach(struct store *s, struct loop *loop);

/* What the store shares with its server; valid as long as the store. */
struct chunk_pool *store_chunks(struct store *s);
struct epoch *store_epoch(struct store *s);
struct work_pool *store_pool(struct store *s); /* admin work: allocate, delete, mark, vacuum steps */
const struct store_options *store_options_get(const struct store *s);

/* The volume, or NULL; without a reference, for one step of an attached loop.  Loading and broken volumes are found too. */
struct volume *store_find(struct store *s, uint32_t volume_id);
/* With a reference; any thread. */
struct volume *store_get(struct store *s, uint32_t volume_id);

/* From the master: limit of new puts, and what -max 0 means. */
void store_set_size_limit(struct store *s, uint64_t bytes);
uint64_t store_size_limit(const struct store *s);

/* Told on `loop` when a volume appeared, went, or changed its writability: look at store_snapshot() again.  Coalesced. */
void store_on_change(struct store *s, struct loop *loop, void (*fn)(void *arg), void *arg);

/* How full a volume of that size is, in the steps in which the master is told at once: sixteenths of the limit in its last quarter;
 * below that always 0. */
static inline unsigned store_fill_step(uint64_t limit_bytes, uint64_t size_bytes)
{
    uint64_t step = limit_bytes / 16 != 0 ? size_bytes / (limit_bytes / 16) : 16;

    return step < 12 ? 0 : step > 16 ? 16 : (unsigned)step;
}

/* All volumes; *out is malloc'd.  Any thread. */
int store_snapshot(struct store *s, struct volume_info **out, uint32_t *count);
uint64_t store_max_key(struct store *s);

struct location_info {
    const char *dir;          /* absolute; lives as long as the store */
    const char *dir_as_given;
    const char *uuid;
    uint32_t volumes, max_volumes, free_slots;
    uint64_t total_bytes, free_bytes;
    bool low_space, offline, loading;
    uint64_t dirty_bytes, window_bytes, paced_ns, waiting;
};
uint32_t store_location_count(const struct store *s);
/* May look at the file system (statvfs, cached for a second).  Any thread but loops only with the cached values. */
void store_location_info(struct store *s, uint32_t index, struct location_info *out);
void store_metrics(struct store *s, struct metric_text *out);

/* ---- blocks ---- */
/* DFS_EEXIST, DFS_ENOSPC (no slot or no room; *reason says which), DFS_EINVAL (names). */
int store_allocate(struct store *s, uint32_t volume_id, struct bytes collection, struct replica_placement rp, struct ttl ttl,
                   uint8_t version, uint64_t preallocate_bytes, char reason[256]);
/* Removes the files.  only_empty: DFS_EBUSY when there are live needles. */
int store_delete_volume(struct store *s, uint32_t volume_id, bool only_empty);
int store_delete_collection(struct store *s, struct bytes collection, uint32_t *deleted);
/* persist: written to .vif. */
int store_mark_readonly(struct store *s, uint32_t volume_id, bool read_only, bool persist);
/* Stop serving a volume and close it cleanly, files kept / serve it again. */
int store_unmount(struct store *s, uint32_t volume_id);
int store_mount(struct store *s, uint32_t volume_id);
/* Other replica placement, into superblock and .vif. */
int store_configure(struct store *s, uint32_t volume_id, struct replica_placement rp);

/* ---- vacuum (vacuum.c); blocks ---- */
int store_vacuum_check(struct store *s, uint32_t volume_id, double *garbage_ratio);
/* What the end of a run told. */
struct vacuum_outcome {
    uint64_t dat_bytes;
    bool read_only;
    char why[192]; /* it was refused: that it is another run's, or nobody's, or that there is no room; "" otherwise */
};

/* A run is told from others by its token, which whoever starts it chooses and names again in commit and cleanup.  0 = whoever asks
 * knows of no tokens (masters of the peer): a commit or cleanup then means whatever run there is.
 *
 * Copies the live needles beside the volume; progress(arg, bytes) may be NULL and its non-zero return cancels.  Checks room first
 * (DFS_ENOSPC, with the figures in *out, which may be NULL); where only the location's reserve makes enough, it is given up for
 * this.  A run that is under way: DFS_EBUSY; so is a finished copy to a caller without a token.  With one, the copy is
 * taken for that of a master that is gone: it is dropped, and a late commit of it refused. */
int store_vacuum_compact(struct store *s, uint32_t volume_id, uint64_t token, int (*progress)(void *arg, uint64_t bytes),
                         void *arg, struct vacuum_outcome *out);
/* Catches up and swaps.  Without a finished copy of this run: DFS_ESTALE.  out may be NULL. */
int store_vacuum_commit(struct store *s, uint32_t volume_id, uint64_t token, struct vacuum_outcome *out);
/* Gives the run up and removes what it left.  DFS_ESTALE when there is another one; DFS_EBUSY while it commits. */
int store_vacuum_cleanup(struct store *s, uint32_t volume_id, uint64_t token, struct vacuum_outcome *out);

/* Removes expired ttl volumes, checks locations, checkpoints indexes: called by a timer every few seconds on the admin pool. */
void store_maintain(struct store *s);

#endif
