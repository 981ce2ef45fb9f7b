/* What the parts of the store tell each other.  Internal to the engine. */
#ifndef DFS_VOLUME_STORE_INTERNAL_H
#define DFS_VOLUME_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "net/loop.h"
#include "volume/disk_location.h"
#include "volume/epoch.h"
#include "volume/store.h"
#include "volume/volume.h"

#define STORE_LOOPS_MAX (EPOCH_THREADS_MAX)
#define STORE_WATCHERS_MAX 4
#define STORE_ADMIN_THREADS 4
/* Kept for replica writes, repair and the like: they must never wait behind uploads that wait for them. */
#define STORE_CHUNKS_RESERVED_DIV 4

struct volume_table; /* store_table.c */

/* A loop that reads and writes. */
struct store_loop {
    struct store *store;
    struct loop *loop;
    struct epoch_slot *slot;
    struct loop_msg nudge; /* makes an idle loop take a step, so that what was retired can be freed */
    atomic_bool nudged;
};

struct store_watcher {
    struct loop_msg msg;
    struct loop *loop;
    void (*fn)(void *arg);
    void *arg;
    atomic_bool posted;
};

/* A volume that is in the folders and is not served: another location has the id already. */
struct store_duplicate {
    struct store_duplicate *next;
    uint32_t id;
    char path[VOLUME_PATH_MAX];
};

struct store {
    struct store_options options;
    struct epoch *epoch;
    struct chunk_pool *chunks;
    struct work_pool *admin;
    uint32_t location_count;
    struct disk_location *locations[STORE_LOCATIONS_MAX];
    _Atomic(struct volume_table *) table; /* read without a lock; changed under the lock */

    pthread_mutex_t preallocating; /* taken alone: see preallocate.c */
    pthread_mutex_t lock;
    pthread_cond_t loaded; /* a location has finished loading */
    uint32_t loading_locations;
    uint32_t rebuilds; /* maps that are being built anew */
    bool load_started, stopped;
    struct store_duplicate *duplicates;
    uint32_t sweep_next; /* maintenance: the volume whose known records are looked at next */

    _Atomic uint64_t size_limit_bytes;
    _Atomic uint64_t map_rebuilds; /* since start */
    atomic_bool stopping;
    atomic_uint loop_count;
    struct store_loop *loops[STORE_LOOPS_MAX];
    atomic_uint watcher_count;
    struct store_watcher watchers[STORE_WATCHERS_MAX];
};

/* ---- store_table.c: volume id to volume ---- */
int store_table_init(struct store *s);
void store_table_release(struct store *s); /* nobody reads any more; drops the references */
/* Takes over the caller's reference.  DFS_EEXIST, DFS_ENOMEM (the reference stays the caller's). */
int store_table_add(struct store *s, struct volume *v);
/* Drops the table's reference once no thread can be looking.  False when another (or no) volume has the id. */
bool store_table_remove(struct store *s, struct volume *v);
/* All volumes, each with a reference; *out is malloc'd.  Any thread. */
int store_volumes(struct store *s, struct volume ***out, uint32_t *count);
void store_volumes_free(struct volume **list, uint32_t count);

/* ---- store.c ---- */
/* Something that heartbeats tell has changed.  Any thread; never blocks. */
void store_changed(struct store *s);
/* Makes every attached loop take a step soon.  Any thread. */
void store_nudge_loops(struct store *s);
/* Tells the writer of the location the store's size limit; it seals and unseals by it.  Any thread. */
void store_post_size_limit(struct disk_location *loc);
/* One location has finished loading. */
void store_location_loaded(struct store *s, struct disk_location *loc);
/* A volume that was open is loaded once more; a stop waits for the end of it.  False: the store is stopping. */
bool store_rebuild_begin(struct store *s);
void store_rebuild_end(struct store *s);
void store_add_duplicate(struct store *s, uint32_t id, const char *path);
/* Runs fn(v) on the location's writer thread, behind what is queued there, and waits. */
int store_on_writer(struct volume *v, int (*fn)(struct volume *v, void *arg), void *arg);

#endif
