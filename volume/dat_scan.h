/* A window that moves over a .dat file: steps over records, verifies them, looks for the next one after damage.
 *
 * Memory is bounded whatever a header claims: records longer than the window are verified in pieces.  Nothing is written.  One
 * thread: a loader, or one of the tools that read whole volumes. */
#ifndef DFS_VOLUME_DAT_SCAN_H
#define DFS_VOLUME_DAT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/needle_scan.h"

#define DAT_SCAN_WINDOW (2u << 20)

struct dat_scan {
    int fd;
    uint8_t version;
    uint64_t file_bytes;
    uint8_t *buf;
    uint64_t buf_pos;
    size_t buf_n;
    struct needle_resync resync;
};

/* fd is borrowed. */
int dat_scan_init(struct dat_scan *s, int fd, uint8_t version, uint64_t file_bytes);
void dat_scan_release(struct dat_scan *s);
/* The file was cut, or its bytes were changed: nothing read before counts. */
void dat_scan_reset(struct dat_scan *s, uint64_t file_bytes);

/* What stands at pos of a file (or gap) that ends at `limit`.  Never MORE; RECORD has been verified.  out->needle has no name,
 * mime, pairs; out->data is empty.  DFS_EIO. */
int dat_scan_step(struct dat_scan *s, uint64_t pos, uint64_t limit, struct needle_scan_item *out);
/* Only the header is judged. */
int dat_scan_peek(struct dat_scan *s, uint64_t pos, uint64_t limit, struct needle_scan_item *out);
/* The header at pos as it is, read alone.  DFS_ESHORT at the end of the file. */
int dat_scan_header(struct dat_scan *s, uint64_t pos, struct needle_header *out);
/* A header whose Size is not to be trusted: do its data size, what stands behind the data, and the checksum agree with each other?
 * Then *size is what Size must have been.  DFS_ENOTFOUND when nothing is proven, DFS_EIO. */
int dat_scan_true_size(struct dat_scan *s, uint64_t pos, uint64_t limit, uint32_t *size);
/* A header whose Size is not to be trusted, read as that of a record without a body, which no checksum proves: only a caller that
 * knows what stands behind it can tell.  *out is that record (RECORD).  DFS_ENOTFOUND when it cannot be one (zeros, a filler, the
 * limit, a time that is none or before earliest_ns), DFS_EIO. */
int dat_scan_no_body(struct dat_scan *s, uint64_t pos, uint64_t limit, uint64_t earliest_ns, struct needle_scan_item *out);
/* Append time of a version 3 record; 0 in other versions or when it cannot be read. */
uint64_t dat_scan_time(struct dat_scan *s, uint64_t pos, uint32_t body_bytes);
/* First position at or after pos that is not zero, in steps of 8, at most limit. */
int dat_scan_zeros(struct dat_scan *s, uint64_t pos, uint64_t limit, uint64_t *end);
/* The next whole and verified record in [from, limit).  DFS_ENOTFOUND, DFS_EIO. */
int dat_scan_resync(struct dat_scan *s, uint64_t from, uint64_t limit, uint64_t *found);

#endif
