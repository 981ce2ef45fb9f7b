/* One data folder: its volumes, its writer thread with the append queue, its reader pool, its pacing, its space.
 * Internal to the engine. */
#ifndef DFS_VOLUME_DISK_LOCATION_H
#define DFS_VOLUME_DISK_LOCATION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/work.h"
#include "volume/append_queue.h"
#include "volume/epoch.h"
#include "volume/volume.h"
#include "volume/writeback.h"

#define LOCATION_READERS 4
#define LOCATION_SYNCERS 4
/* Readers of all locations together. */
#define LOCATION_READERS_ALL 32

#define LOCATION_LOCK_NAME "dfs.lock"
#define LOCATION_UUID_NAME "vol_dir.uuid"
/* Blocks held back so that deletes and a small vacuum still go through on a full disk: 262,144 tombstones at most. */
#define LOCATION_BALLAST_NAME "dfs.ballast"
#define LOCATION_BALLAST_BYTES (8u << 20)
/* How old figures of the file system may be. */
#define LOCATION_SPACE_AGE_MS 1000u
/* Auto-sized locations offer at least so many slots. */
#define LOCATION_SLOTS_MIN 8u

struct disk_location {
    struct store *store;
    uint32_t index;
    char dir[VOLUME_PATH_MAX];      /* as opened, absolute */
    char dir_as_given[VOLUME_PATH_MAX];
    char uuid[40];                  /* vol_dir.uuid */
    int dir_fd;                     /* O_PATH; identity: device and inode at opening */
    dev_t dev;
    ino_t ino;
    int lock_fd;                    /* one process per folder */
    bool read_only;                 /* nothing can be written here; as found at opening */
    uint32_t max_volumes;           /* as given; what it comes to: disk_location_max_volumes() */
    bool max_volumes_auto;
    atomic_uint volume_count;
    atomic_bool low_space, offline;

    struct work_pool *readers;      /* cold reads, staging files, gzip */
    struct work_pool *syncers;      /* fdatasync of a batch's files side by side */
    struct work_pool *maintenance;  /* closes generations, builds maps anew: one thread */
    struct append_queue *appends;   /* the writer thread */
    struct writeback *writeback;
    pthread_t loader;
    bool loader_started;
    pthread_mutex_t lock;           /* space and its age */
    struct disk_space space;        /* as last asked for */
    uint64_t space_at_ms;           /* 0 = never */
    _Atomic uint64_t ballast_bytes; /* held back; 0 = there is no reserve */
    atomic_bool no_room_told;       /* "no room to preallocate" is said once */
    uint32_t identity_cursor;       /* next volume whose file is looked at */
    _Atomic uint64_t loaded, to_load;
};

/* ---- the folder (disk_location.c) ---- */
/* Creates the folder if need be, locks it, reads or makes vol_dir.uuid, checks identity. */
int disk_location_open(struct store *store, uint32_t index, const char *dir, uint32_t max_volumes,
                       struct disk_location **out);
/* Adds a VOLUME_LOADING volume to the store for each .dat found (and cleans what a crash left of vacuums: see vacuum.h). */
int disk_location_list(struct disk_location *loc);
/* Adds the volume with that id, if there is a .dat of it here.  *out with a reference; DFS_ENOTFOUND, DFS_EEXIST. */
int disk_location_add(struct disk_location *loc, uint32_t id, struct volume **out);
int disk_location_load_start(struct disk_location *loc);
/* Identity and free space; sets low_space / offline and the volumes' bits, with hysteresis.  Maintenance, every few seconds. */
void disk_location_check(struct disk_location *loc);
/* Slots left for new volumes; 0 when low or offline. */
uint32_t disk_location_free_slots(struct disk_location *loc);
uint32_t disk_location_max_volumes(struct disk_location *loc);
/* Free and total bytes, at most LOCATION_SPACE_AGE_MS old; on a loop as old as they are (it never asks the file system). */
void disk_location_space(struct disk_location *loc, struct disk_space *out);
/* Asks the file system at once, so that a refusal for lack of space tells how much there was.  Never on a loop. */
void disk_location_space_ask(struct disk_location *loc);
/* Whether the folder still is the one that was opened: nothing is created when it is not (an unmounted disk leaves an empty
 * folder).  DFS_EUNAVAILABLE. */
int disk_location_verify(struct disk_location *loc);
/* Gives the reserve back to the file system, for tombstones on a full disk.  True: there was one, try again.  It is set up again
 * by disk_location_check() once there is room.  Writer or maintenance thread. */
bool location_ballast_release(struct disk_location *loc);
/* At opening: a reserve that is there already is ours, however little is free. */
void location_ballast_adopt(struct disk_location *loc);
/* Makes one of LOCATION_BALLAST_BYTES, less where less is free, none where there is one.  Maintenance, and at opening. */
void location_ballast_setup(struct disk_location *loc, uint64_t free_bytes);
/* What location_ballast_release() would give.  Any thread. */
uint64_t location_ballast_bytes(const struct disk_location *loc);
/* 4 when the location holds volumes and all have 4-byte offsets, else as the store's options say. */
unsigned disk_location_offset_width(struct disk_location *loc);
void disk_location_stop(struct disk_location *loc);
void disk_location_free(struct disk_location *loc);

#endif
