/* One vacuum of one volume; shared by vacuum.c (the calls), vacuum_copy.c and vacuum_commit.c.  Internal to the engine.
 *
 * The thread that called compact or commit works on the run; what concerns the volume is done by commands on its writer thread.
 * The old generation is held and read by descriptors of the run's own, so a volume that closes meanwhile takes nothing away. */
#ifndef DFS_VOLUME_VACUUM_RUN_H
#define DFS_VOLUME_VACUUM_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "volume/epoch.h"
#include "volume/volume.h"

enum vacuum_state { VACUUM_COPYING, VACUUM_READY, VACUUM_COMMITTING };

/* Rows read, looked up and copied at a time. */
#define VACUUM_ROWS 4096u
#define VACUUM_BUF_BYTES (1u << 20)
/* The copy is written back in steps of this behind the writing, with so much of it dirty at most. */
#define VACUUM_SYNC_STEP (2u << 20)
#define VACUUM_DIRTY_MAX (16u << 20)

struct vacuum {
    struct volume *volume;   /* a reference */
    struct volume_gen *gen;  /* the one that is copied; a reference */
    enum vacuum_state state; /* writer thread */
    uint64_t token;          /* of who started it; 0 = none was given */
    atomic_bool cancel;
    struct epoch_slot *epoch;
    struct superblock sb;    /* of the copy */
    bool ldb_other;          /* the volume's, at the start */

    /* as of the last look at the volume on its writer */
    uint64_t idx_end, dat_end, dat_end_before;
    uint64_t last_ns;

    /* the volume's files, read */
    int idx_in;
    uint64_t idx_done; /* rows before are dealt with */
    uint8_t *rows_raw;
    struct idx_row *rows;
    char *window;      /* of the .dat */
    uint64_t window_pos;
    size_t window_n;

    /* the copy */
    int dat_fd, idx_fd;
    uint64_t dat_bytes, idx_bytes; /* buffered ones included */
    uint64_t started_pos;          /* write-back was started up to here */
    uint32_t idx_crc;
    char *dat_buf;
    size_t dat_buf_n;
    uint8_t *idx_buf;
    size_t idx_buf_n;
    struct needle_map *map;
    bool map_in_folder; /* leveldb, in the folder that the volume does not use */
    struct needle_map *dropped; /* expired ones that the old map still has */
    uint64_t corrupt;

    int (*progress)(void *arg, uint64_t bytes);
    void *progress_arg;
    uint64_t bytes_per_s, paced_from_ns, paced_bytes;
    bool hurry; /* writes are held: no pacing, no progress */
};

/* ---- vacuum.c ---- */
/* Waits a moment for the readers of generations before the present one. */
void vacuum_wait_for_old(struct volume *v);

/* ---- vacuum_copy.c ---- */
int vacuum_copy_open(struct vacuum *r);
/* All that is live up to idx_end. */
int vacuum_copy_live(struct vacuum *r);
/* What was appended between idx_done and idx_end. */
int vacuum_copy_tail(struct vacuum *r);
/* Buffers to the files. */
int vacuum_copy_flush(struct vacuum *r);
/* The superblock again, if the volume's has changed. */
int vacuum_copy_superblock(struct vacuum *r, const struct superblock *sb);
/* Does the copy hold what the volume holds?  While nothing is written to either.  DFS_ESTALE. */
int vacuum_copy_verify(const struct vacuum *r);

/* ---- vacuum_commit.c ---- */
/* The files take the volume's names.  0: they have them.  *swapped tells, after a failure, whether there is no way back: then the
 * copy is the volume, the next start finishes what is missing, and until then nothing may be written: which of the two a crash
 * leaves is not known, and they are equal only as long as neither grows. */
int vacuum_swap_files(struct vacuum *r, bool *swapped);
/* Removes B.cpd, B.cpx and, first, B.cpc. */
int vacuum_remove_files(const char *base);

/* The base path with the suffix behind it, in out. */
/* Of the folder that the volume's map is not in. */
const char *vacuum_map_suffix(const struct vacuum *r);
const char *vacuum_path(const struct volume *v, const char *suffix, char out[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX]);

#endif
