/* What the parts of opening a volume share: volume_load.c (the straight way), volume_repair.c (rows that do not cover the data),
 * volume_gap.c (bytes that no row covers), idx_rewrite.c.  Internal to the engine; loader thread. */
#ifndef DFS_VOLUME_VOLUME_LOAD_H
#define DFS_VOLUME_VOLUME_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/idx.h"
#include "needle/superblock.h"
#include "volume/dat_scan.h"
#include "volume/volume.h"
#include "volume/volume_vif.h"

/* Bytes of .idx read at once: a whole number of rows of either width. */
#define IDX_PIECE_BYTES (IDX_ROW_BYTES_4 * IDX_ROW_BYTES_5 * 3855u)

/* Where the map comes from; each is tried when the one before failed by an error of the map's own. */
enum load_map {
    LOAD_MAP_KEPT,   /* leveldb: what was closed cleanly is used */
    LOAD_MAP_EMPTY,  /* leveldb: all from the .idx */
    LOAD_MAP_MEMORY, /* whatever the options say: better served from memory than not at all */
};

struct load {
    struct volume *v;
    enum load_map map_from;
    bool again;              /* it was open before: the writer may be looking at it */
    bool map_failed;         /* the map could not even be opened */
    char why[256];           /* why it cannot be opened */
    int fd, idx_fd;
    bool can_write;          /* files and folder: else nothing is repaired */
    struct superblock sb;
    struct volume_vif vif;
    uint64_t first_pos;      /* end of the superblock */
    uint64_t dat_bytes;      /* shrinks when a torn tail is cut */
    uint64_t modified_s;
    uint64_t preallocated_bytes;
    uint64_t idx_bytes;
    unsigned width;          /* of the rows in the file; 0 = they cannot be read */
    unsigned width_out;      /* what the volume goes on with */
    bool have_ckp;
    struct volume_checkpoint ckp;
    uint64_t verify_from;    /* rows whose records stand here or behind are compared with them */
    struct needle_map *map;
    uint64_t map_rows;       /* leveldb: so many rows are in it already */
    uint64_t rows_applied;
    uint32_t idx_crc;        /* of idx_bytes */
    uint64_t last_append_ns;
    struct dat_scan scan;
    bool damaged;            /* something was found that must not be repaired */
    bool tail_left;          /* of it at the end of the .dat: there must be no new .idx, or what it leaves out passes for recent */
    char reason[256];
};

/* ---- volume_load.c ---- */
/* A first remark is kept as the volume's reason. */
void load_remark(struct load *l, bool damaged, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Applies a row to the map; pos 0 = a tombstone without a place. */
int load_apply(struct load *l, const struct idx_row *row);
/* An empty map in the place of the one there is. */
int load_new_map(struct load *l, bool empty);
/* Reads the .idx from byte `from` to `to` piece by piece.  fn's non-zero return ends it and is returned. */
int load_each_row(struct load *l, uint64_t from, uint64_t to, int (*fn)(struct load *l, const struct idx_row *row, void *arg),
                  void *arg);

/* Nobody deletes with a size: what is left of the row of an empty file would delete it.  Only the record tells what it was. */
static inline bool load_row_torn(const struct idx_row *row)
{
    return (int32_t)row->size < 0 && row->size != IDX_SIZE_TOMBSTONE;
}

/* Whether a row of size 0 points at what must be a tombstone: its own mark was torn away.  DFS_EIO. */
int load_hides_tombstone(struct load *l, const struct idx_row *row, bool *yes);

/* Continues *crc over bytes [from, to) of the .idx. */
int load_crc_of_idx(struct load *l, uint64_t from, uint64_t to, uint32_t *crc);

/* ---- volume_repair.c ---- */
/* The rows do not cover the data: finds out what is there, builds the map, cuts a torn tail, writes the .idx anew. */
int load_repair(struct load *l);

/* ---- idx_rewrite.c: an .idx written beside the old one ---- */
struct idx_rewrite {
    struct load *load;
    int fd;
    uint8_t *buf;
    size_t buf_n;
    uint64_t bytes;
    uint32_t crc;
};
int idx_rewrite_open(struct load *l, struct idx_rewrite *w);
int idx_rewrite_row(struct idx_rewrite *w, const struct idx_row *row);
/* Rows of the old file as they are: its first n bytes. */
int idx_rewrite_prefix(struct idx_rewrite *w, uint64_t n);
/* Synced, renamed over the .idx, folder synced; the load goes on with it. */
int idx_rewrite_commit(struct idx_rewrite *w);
void idx_rewrite_discard(struct idx_rewrite *w);

/* ---- volume_gap.c: what stands in bytes that no row covers ---- */
enum gap_find {
    GAP_RECORD,  /* reached by stepping from a known boundary */
    GAP_BAD,     /* likewise, and its data do not verify */
    GAP_RESYNC,  /* found after damage; from it on everything verifies up to the next known boundary */
};
/* on_record: the record may not be believed. */
#define GAP_REFUSED 1
struct gap_sink {
    /* recent: it stands behind all rows. */
    int (*on_record)(void *arg, enum gap_find find, uint64_t pos, const struct needle_scan_item *item, bool recent);
    int (*on_filler)(void *arg, uint64_t pos, uint32_t body_bytes); /* dead bytes were covered */
    void *arg;
};
/* The gap [from, to); to is where a row's record begins, or the end of the file.  A torn tail is cut (l->dat_bytes). */
int load_scan_gap(struct load *l, uint64_t from, uint64_t to, const struct gap_sink *sink);

/* ---- volume_cut.c ---- */
/* Keeps [from, to) in a file of its own as far as the bound allows: *kept says whether all of it. */
int load_save_aside(struct load *l, uint64_t from, uint64_t to, bool *kept);
uint64_t load_keep_left(const struct load *l);
/* Cuts the .dat at `pos`. */
int load_cut(struct load *l, uint64_t pos);
/* The same where nothing but zeros stands from `pos` on, and says so. */
int load_cut_zeros(struct load *l, uint64_t pos);
/* Covers dead bytes [from, to) with fillers and tells each. */
int load_fill(struct load *l, uint64_t from, uint64_t to, const struct gap_sink *sink);

#endif
