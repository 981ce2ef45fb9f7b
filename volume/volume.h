/* One volume: a .dat of needle records, its .idx, and what is known of both.  Internal to the storage engine: servers use
 * store.h and needle_io.h.
 *
 * THREADS
 *   loader     one per disk location: opens, repairs, builds the needle map; owns the volume until volume_publish().
 *   writer     one per disk location: the only one that appends, changes the map, or swaps the generation afterwards.
 *   readers    any loop, and the location's reader pool: take the generation, look up inside it, read.
 *   compactor  one maintenance thread per location: copies live needles; the swap itself runs on the writer.
 *
 * A generation (open .dat + needle map + revision) is immutable as a set and reference-counted; vacuum publishes a new one and
 * the old one closes with its last reader.  volume->gen is read with an acquire load inside one loop step, or kept with
 * volume_gen_ref().
 *
 * LOCK ORDER: store->lock > location->lock > volume->lock (names, counters for /status; never held over a file call by a loop).
 * store->preallocating is taken alone, and held over the call that reserves blocks.
 *
 * INVARIANTS
 *   1. A record is published in the map only after its bytes are written and, in `group`, synced.
 *   2. append_pos is a multiple of 8 and the end of the last good record; nothing beyond it is ever pointed at.
 *   3. Rows in the .idx stand in the order of append.
 *   4. Opening never shortens a file but for a torn tail proven by header or CRC, and cut bytes are kept aside.
 */
#ifndef DFS_VOLUME_VOLUME_H
#define DFS_VOLUME_VOLUME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "needle/idx.h"
#include "needle/superblock.h"
#include "net/work.h"
#include "volume/append_queue.h"
#include "volume/disk.h"
#include "volume/known_records.h"
#include "volume/needle_map.h"
#include "volume/recent_deletes.h"
#include "volume/writeback.h"

struct disk_location;
struct store;

#define VOLUME_COLLECTION_MAX 200
#define VOLUME_PATH_MAX 4096
/* Room kept behind a base path for ".cut-18446744073709551615.tmp" and its like. */
#define VOLUME_SUFFIX_MAX 48
/* Verified-bytes bitmap: one bit for each of these. */
/* Cut-away bytes kept for each volume. */
#define VOLUME_CUT_KEEP_MAX (64u * 1024u * 1024u)
/* Rows that may wait for an .idx that cannot be written, before the volume stops taking writes. */
#define VOLUME_INDEX_PENDING_MAX (1u << 20)

/* Files of a volume of our own, beside .dat, .idx and .vif. */
#define VOLUME_CHECKPOINT_SUFFIX ".ckp" /* how far the .idx was known to be good */
#define VOLUME_LDB_SUFFIX ".ldb"        /* folder of the leveldb map */
#define VOLUME_CUT_INFIX ".cut-"        /* bytes cut off, then their offset in the .dat */

/* Why a volume does not take writes; bits of volume->no_write. */
enum volume_no_write {
    VOLUME_LOADING = 1 << 0,      /* not opened yet: 503 */
    VOLUME_SEALED = 1 << 1,       /* at its size limit */
    VOLUME_MARKED = 1 << 2,       /* told so (persisted in .vif) */
    VOLUME_DAMAGED = 1 << 3,      /* opening found what it must not repair: reads only */
    VOLUME_FLUSH_FAILED = 1 << 4, /* a failed flush: the tail is not to be trusted */
    VOLUME_DISK_LOW = 1 << 5,     /* location below its free-space mark */
    VOLUME_OFFLINE = 1 << 6,      /* files or folder are gone */
    VOLUME_BROKEN = 1 << 7,       /* could not be opened at all: 500 for every fid, files untouched */
    VOLUME_CLOSING = 1 << 8,      /* server is stopping or the volume is being deleted */
    VOLUME_UNMOUNTED = 1 << 9,    /* closed by an operator; files kept */
};

/* What the side file B.ckp says: these many bytes of .idx and .dat are on the disk and belong together. */
struct volume_checkpoint {
    uint64_t idx_bytes;
    uint64_t dat_bytes;
    uint64_t last_append_ns;
    uint32_t idx_crc;     /* of those bytes of the .idx */
    uint16_t revision;
    uint8_t offset_width;
    uint8_t version;
    bool damaged;         /* something in front of dat_bytes was left as it was: look again at the next opening */
};

struct volume_gen {
    atomic_uint refs;
    struct volume *volume;
    int fd; /* .dat */
    struct needle_map *map;
    struct disk_residency *residency;
    struct writeback_file wb; /* writer and flusher */
    uint16_t revision;
    uint8_t version;
    struct known_records known;
    _Atomic uint64_t end; /* published end of data, for bounds checks */
    struct work closing;  /* private: the last reference may be dropped on a loop, which must not close files */
};

struct volume {
    /* fixed after creation */
    uint32_t id;
    char collection[VOLUME_COLLECTION_MAX + 1];
    struct disk_location *location;
    struct store *store;
    char base[VOLUME_PATH_MAX]; /* "<dir>/<collection>_<id>": add ".dat" and so on */

    /* set by the loader before publication, then by the writer only */
    struct superblock sb;
    unsigned offset_width; /* 4 or 5 */
    uint64_t size_limit_bytes;
    uint64_t preallocated_bytes;
    struct recent_deletes *recent_deletes; /* NULL until the first */

    atomic_uint refs;
    atomic_uint no_write; /* enum volume_no_write */
    atomic_bool swapping; /* a vacuum exchanges the files: names and the open file differ for a moment */
    _Atomic(struct volume_gen *) gen; /* NULL while loading or broken */

    /* writer only */
    uint64_t append_pos;
    uint64_t last_append_ns; /* strictly rising */
    int idx_fd;
    uint64_t idx_bytes;      /* written to the .idx */
    uint32_t idx_crc;        /* of the first idx_crc_bytes of it */
    uint64_t idx_crc_bytes;
    struct volume_checkpoint ckp; /* the one in the side file; idx_bytes 0 = none */
    bool idx_behind;         /* rows are missing in the file: written later */
    struct idx_row *idx_pending; /* rows not in the file yet */
    uint32_t idx_pending_count, idx_pending_cap;
    struct vacuum *vacuum;   /* a run in progress, else NULL */
    bool ldb_other;          /* leveldb: the map is in VACUUM_LDB_SUFFIX, since the last vacuum; also the loader's */
    struct volume_appends appends;

    /* numbers for /status and heartbeats; written by the writer or loader, relaxed */
    _Atomic uint64_t dat_bytes;       /* append_pos */
    _Atomic uint64_t last_modified_s; /* newest write */
    _Atomic uint64_t last_append_seen_ns;
    _Atomic uint64_t corrupt_count;   /* records that failed verification since start */
    _Atomic uint64_t expire_at_s;     /* ttl volumes: 0 = never */
    _Atomic uint64_t cut_bytes;       /* kept aside in B.cut-* files */
    _Atomic uint64_t ckp_dat_bytes;   /* covered by the last checkpoint */
    uint64_t sweep_block;             /* maintenance: where known records are looked at next */
    _Atomic uint64_t ckp_at_ms;       /* when it was tried last */
    _Atomic uint64_t idx_rows_replayed; /* rows that the last opening had to apply */
    atomic_uint generations;          /* alive: a mount waits until those of before are closed */

    /* map_rebuild.c */
    struct work rebuild;          /* queued or running while the volume is VOLUME_LOADING for it */
    atomic_bool rebuild_again;    /* the last attempt failed and may be repeated */
    atomic_uint map_rebuilds;     /* since start */

    pthread_mutex_t lock; /* reason; gen while it is exchanged or a reference of it is taken */
    char reason[256];     /* why it is damaged or broken, for /status and logs */
};

struct volume_info {
    uint32_t id;
    char collection[VOLUME_COLLECTION_MAX + 1];
    uint64_t dat_bytes;
    uint64_t file_count, delete_count, deleted_bytes, live_count, file_bytes;
    uint64_t max_key;
    uint8_t version;
    struct replica_placement placement;
    struct ttl ttl;
    uint16_t compact_revision;
    uint64_t last_modified_s;
    uint64_t last_append_ns;
    unsigned no_write;
    uint64_t corrupt_count;
    uint64_t memory_bytes;
    uint64_t cut_bytes; /* kept aside */
    uint32_t location_index;
    char reason[256];
};

/* Whoever keeps a volume past a step of its thread holds a reference. */
void volume_ref(struct volume *v);
void volume_unref(struct volume *v); /* the last one frees; files are closed, never removed, by it */

struct volume_gen *volume_gen_ref(struct volume *v); /* NULL when there is none; any thread */
void volume_gen_unref(struct volume_gen *g);
/* fdatasync of its .dat, as writeback_datasync() has it: the only way to do that.  The caller marks the volume when it fails.  Not
 * on a loop thread. */
int volume_gen_datasync(struct volume_gen *g);
/* Within one step of a registered epoch thread, without a reference. */
static inline struct volume_gen *volume_gen_peek(struct volume *v)
{
    return atomic_load_explicit(&v->gen, memory_order_acquire);
}

static inline bool volume_writable(const struct volume *v)
{
    return atomic_load_explicit(&v->no_write, memory_order_relaxed) == 0;
}
/* Sets or takes bits.  reason_fmt NULL leaves the text as it is; else it is logged when a bit is new.  Any thread. */
void volume_set_no_write(struct volume *v, unsigned bits, const char *reason_fmt, ...) __attribute__((format(printf, 3, 4)));
void volume_clear_no_write(struct volume *v, unsigned bits);

/* Snapshot for status and heartbeats; any thread. */
void volume_info_get(struct volume *v, struct volume_info *out);

/* ---- volume_load.c: the loader ---- */
/* A volume known by its file name, not opened.  Listed as loading. */
int volume_new(struct disk_location *loc, uint32_t id, struct bytes collection, struct volume **out);
/* Opens, repairs what may be repaired, builds the map, publishes the first generation.  On failure the volume is VOLUME_BROKEN
 * with a reason, files untouched.  Loader thread. */
int volume_load(struct volume *v);
/* The same for a volume that was closed because its map failed: the map is built anew from the other files, in memory if
 * in_memory or if the leveldb cannot be used; published by the writer.  On failure the volume stays VOLUME_LOADING and why says
 * what it was.  Maintenance thread. */
int volume_load_again(struct volume *v, bool in_memory, char why[256]);
/* Removes the files of a volume that is closed: the .dat first, whose absence is what makes the volume gone, then its folder is
 * synced, then what belonged to it.  Blocks. */
int volume_remove_files(struct volume *v);
/* Removes a folder of plain files (a leveldb map); missing is 0. */
int volume_remove_folder(const char *path);
/* Creates the files of a new volume, preallocates, syncs files and folder, publishes.  May block. */
int volume_create(struct volume *v, const struct superblock *sb, uint64_t preallocate_bytes);
/* Clean close: index rows, sync, checkpoint, tail of zeros cut, preallocation beyond a sealed end given back.  Writer thread. */
int volume_close(struct volume *v);
/* Makes a generation of an open .dat and map. */
int volume_gen_new(struct volume *v, int fd, struct needle_map *map, uint16_t revision, uint64_t end, struct volume_gen **out);
/* Installs g (its reference is taken), retiring the old one.  Loader or writer thread. */
void volume_publish(struct volume *v, struct volume_gen *g);

/* ---- map_rebuild.c: a map that fails is a cache that is built anew ---- */
/* needle_map_get() in a published map.  An error of the map's own starts its rebuild and is DFS_ELOADING. */
int volume_gen_find(const struct volume_gen *g, uint64_t key, struct needle_value *out);
/* The map of g has failed.  If g is the volume's, it is VOLUME_LOADING from here on, until the maintenance thread has built
 * another.  Any thread that holds g; never blocks. */
void volume_map_suspect(const struct volume_gen *g);
/* Another attempt, if the last one failed.  Maintenance. */
void volume_map_retry(struct volume *v);

/* ---- volume_index.c: .idx rows and checkpoints; writer thread ---- */
/* Remembers a row to be written; volume_index_flush writes all rows of the batch in one call.  A failed write marks the volume
 * index-behind and is tried again later: it never fails a request that is on disk. */
int volume_index_add(struct volume *v, const struct idx_row *row);
void volume_index_flush(struct volume *v);
/* fsync of .idx, then a side file with its length and the .dat position covered: rows before it need no check when loading. */
int volume_index_checkpoint(struct volume *v);
/* Reads B.ckp.  DFS_ENOTFOUND; DFS_ECORRUPT when it is not one. */
int volume_checkpoint_read(const char *base, struct volume_checkpoint *out);
int volume_checkpoint_write(const char *base, const struct volume_checkpoint *ckp);
/* The .idx is another file now (loading, vacuum): rows go on at its end; crc is that of its bytes. */
void volume_index_attach(struct volume *v, int idx_fd, uint64_t idx_bytes, uint32_t idx_crc);

#endif
