/* Step over consecutive records in a buffer: the base of load, fix, vacuum and scrub.
 *
 * The scanner is fed a window of a .dat file and says what stands at its front.  It never takes zeros for a record: an
 * all-zero header ends the run.  After damage it looks for the next 8-byte-aligned record whose header, size and CRC
 * hold.  It does no I/O: the caller moves the window.  Pure; any thread. */
#ifndef DFS_NEEDLE_NEEDLE_SCAN_H
#define DFS_NEEDLE_NEEDLE_SCAN_H

#include <stdint.h>

#include "needle/needle.h"

enum needle_scan_kind {
    NEEDLE_SCAN_RECORD,   /* a whole record with a good checksum (or of Size 0) */
    NEEDLE_SCAN_BAD_DATA, /* header plausible and the record fits, but body or checksum do not hold */
    NEEDLE_SCAN_ZEROS,    /* header of zeros: an unwritten stretch */
    NEEDLE_SCAN_GARBAGE,  /* not a header: size impossible, or the record would pass the end of the file */
    NEEDLE_SCAN_MORE,     /* the window is too short to tell: `record_bytes` are needed from here */
};

struct needle_scan_item {
    enum needle_scan_kind kind;
    struct needle_header header;
    uint64_t record_bytes; /* step to the next record (RECORD, BAD_DATA), or window needed (MORE) */
    struct needle needle;  /* RECORD only; views into the window */
    struct bytes data;     /* RECORD only */
};

/* Look at the front of `window`, which stands at byte `pos` of a file of `file_bytes`.
 * pos must be a multiple of 8. */
void needle_scan_step(uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                      struct needle_scan_item *out);

/* The same where the whole record need not be in memory: only the header is judged (RECORD or BAD_DATA cannot be told
 * apart and RECORD is returned with needle/data unset).  window needs 16 bytes. */
void needle_scan_header(uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                        struct needle_scan_item *out);

/* Offset inside `window` of the next aligned record at or after `from` (multiple of 8) that is whole, inside the window,
 * non-zero, and verifies.  False when there is none; then *resume is the first offset that a longer window must look at
 * again. */
bool needle_scan_resync(uint8_t version, struct bytes window, size_t from, uint64_t pos, uint64_t file_bytes,
                        size_t *found, size_t *resume);

#endif
