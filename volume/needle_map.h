/* Needle key to (offset, size): one interface, two backends, one contract test.
 *
 * One writer at a time (the location's writer thread, or the loader before the map is published); any number of lock-free
 * readers on all loops (memory backend) or readers that may block (leveldb backend: a cached read does not touch the disk, yet
 * there is no promise; needle_map_may_block() tells, and then look-ups go to the reader pool).
 *
 * Deleted keys are remembered with the offset of what they deleted until the map is dropped, so that readDeleted and loading
 * in log order work; they do not count as live. */
#ifndef DFS_VOLUME_NEEDLE_MAP_H
#define DFS_VOLUME_NEEDLE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/idx.h"
#include "volume/epoch.h"

struct needle_map;

enum needle_map_kind { NEEDLE_MAP_MEMORY, NEEDLE_MAP_LEVELDB };

struct needle_value {
    struct needle_offset offset; /* of the live record; of the deleted one when deleted */
    uint32_t size;               /* body bytes of it */
    bool deleted;
};

/* Numbers as /status shows them. */
struct needle_map_stats {
    uint64_t live_count, live_bytes;       /* bytes: sum of body sizes */
    uint64_t deleted_count, deleted_bytes; /* overwrites and deletes, and what they freed */
    uint64_t max_key;
    uint64_t memory_bytes;
};

/* Memory backend.  expected = live needles to make room for (0 = none).  epoch may be NULL while nobody reads but the writer (a
 * tool, or a map that is being built): tables that were outgrown are then freed at once instead of when all readers have passed.
 * Before such a map is published, needle_map_share(). */
int needle_map_memory_new(struct epoch *epoch, unsigned offset_width, uint64_t expected, struct needle_map **out);

/* From now on there may be readers.  No effect on a map that has an epoch, or needs none. */
void needle_map_share(struct needle_map *m, struct epoch *epoch);

/* leveldb backend in folder `path` (B.ldb, made if need be); a cache of the .idx: any error in it means throw away and rebuild.
 * *checkpoint tells up to where it is complete: that of the last commit before a clean close, or zeros when it is new or was not
 * to be trusted and has been emptied.  A map is closed cleanly when its last change went into a commit with a checkpoint.
 * cache_bytes bounds its memory, at least 1 MB.  DFS_EIO: it cannot be opened even empty. */
struct needle_map_checkpoint {
    uint64_t idx_rows;
    uint64_t dat_bytes;
    uint32_t generation; /* compaction revision */
};
int needle_map_leveldb_new(const char *path, unsigned offset_width, uint32_t cache_bytes,
                           struct needle_map_checkpoint *checkpoint, struct needle_map **out);

/* Which backend it is; whether a look-up may wait for the disk, and so must not be made on a loop. */
enum needle_map_kind needle_map_kind_of(const struct needle_map *m);
bool needle_map_may_block(const struct needle_map *m);

/* Reader.  0 and *out (deleted entries too), or DFS_ENOTFOUND; leveldb: DFS_EIO / DFS_ECORRUPT = rebuild needed; DFS_ELOADING =
 * abandoned.  Of a published map: volume_gen_find(), which sees to that. */
int needle_map_get(struct needle_map *m, uint64_t key, struct needle_value *out);

/* Writer: key is about to be put or deleted.  Some ten keys ahead of the loop that does it, this doubles the speed of loading. */
void needle_map_prefetch(const struct needle_map *m, uint64_t key);

/* Writer.  *old (may be NULL) is what was there before when *had (may be NULL), deleted or not.  DFS_EINVAL: offset past what
 * offset_width can say, or size over NEEDLE_BODY_MAX.  DFS_ENOMEM: nothing changed. */
int needle_map_put(struct needle_map *m, uint64_t key, struct needle_offset offset, uint32_t size,
                   struct needle_value *old, bool *had);
/* Marks deleted, keeping offset and size of what was live.  DFS_ENOTFOUND when there is no live entry. */
int needle_map_delete(struct needle_map *m, uint64_t key, struct needle_value *old);
/* Batches for leveldb: everything between begin and commit goes into one WriteBatch with the checkpoint; no-ops for memory.
 * Readers see entries at once or at commit.  A failed commit: the caller rebuilds. */
void needle_map_begin(struct needle_map *m);
int needle_map_commit(struct needle_map *m, const struct needle_map_checkpoint *checkpoint);

/* Writer or stopped.  Every entry, deleted too when with_deleted; in no particular order for memory, by key for leveldb. */
int needle_map_each(struct needle_map *m, bool with_deleted, int (*fn)(uint64_t key, const struct needle_value *v, void *arg),
                    void *arg);

/* Whether an error of the map's own files was seen: what it says now may lack something, and it will not be trusted when it is
 * opened again.  Any thread. */
bool needle_map_failed(const struct needle_map *m);
/* Lets go of the files at once, whoever still holds the map: from here on look-ups answer DFS_ELOADING and the folder may be
 * used anew.  The writer is done with it, and no needle_map_each() runs.  Blocks for look-ups that are under way.  No effect on a
 * map in memory. */
void needle_map_abandon(struct needle_map *m);

/* Any thread, relaxed numbers. */
void needle_map_stats(const struct needle_map *m, struct needle_map_stats *out);

/* Clean close (leveldb: writes the clean-close mark).  Readers must be gone: retire through the epoch. */
void needle_map_free(struct needle_map *m);

#endif
