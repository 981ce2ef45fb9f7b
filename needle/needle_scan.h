/* Step over consecutive records in a buffer: the base of load, fix, vacuum and scrub.
 *
 * The scanner is fed a window of a .dat file and says what stands at its front.  It never takes zeros for a record: an
 * all-zero header ends the run (the one exception, the smallest filler, has a checksum and a time that zeros lack).  After
 * damage it looks for the next 8-byte-aligned record whose header, size and CRC hold.  It does no I/O: the caller moves the
 * window.  Pure; any thread.
 *
 * What a caller owes its users:
 * - GARBAGE with `torn` set is the front of a record that the file's end cut off.  Do not resync inside it: its data may be
 *   a .dat file itself.
 * - The step of BAD_DATA is only as good as a Size that nothing verified.  Take it when a RECORD or the file's end stands
 *   there; else resync from pos + 8.
 * - What a resync finds may be the content of a blob.  Publish it only when an index row points at it, or when everything from it
 *   up to a known boundary verifies: a blob's own checksum, time and padding stand behind its content and do not. */
#ifndef DFS_NEEDLE_NEEDLE_SCAN_H
#define DFS_NEEDLE_NEEDLE_SCAN_H

#include <stdint.h>

#include "needle/needle.h"

enum needle_scan_kind {
    NEEDLE_SCAN_RECORD,   /* a whole record with a good checksum (or of Size 0; in version 3 then with a time) */
    NEEDLE_SCAN_BAD_DATA, /* header plausible and the record fits, but body or checksum do not hold */
    NEEDLE_SCAN_ZEROS,    /* header of zeros: an unwritten stretch */
    NEEDLE_SCAN_GARBAGE,  /* not a header: size impossible, or the record would pass the end of the file (see torn) */
    NEEDLE_SCAN_MORE,     /* the window is too short to tell: `record_bytes` are needed from here */
};

struct needle_scan_item {
    enum needle_scan_kind kind;
    struct needle_header header;
    uint64_t record_bytes; /* step to the next record (RECORD, BAD_DATA), window needed (MORE), or what it was to be (torn) */
    bool torn;             /* GARBAGE only: a header that agrees with itself, of a record that passes the end of the file */
    struct needle needle;  /* RECORD only; views into the window */
    struct bytes data;     /* RECORD only */
};

/* Look at the front of `window`, which stands at byte `pos` of a file of `file_bytes` (or of a gap that ends there).
 * pos must be a multiple of 8. */
void needle_scan_step(uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                      struct needle_scan_item *out);

/* A window of so many bytes (or up to the file's end) is never too short for needle_scan_header(). */
#define NEEDLE_SCAN_HEADER_BYTES 32u

/* The same where the whole record need not be in memory: only the header is judged (RECORD or BAD_DATA cannot be told
 * apart and RECORD is returned with needle/data unset).  16 bytes of window suffice for most; MORE asks for up to
 * NEEDLE_SCAN_HEADER_BYTES when the header is of zeros or passes the end of the file.  With 20 bytes or more, data bytes
 * that contradict Size are BAD_DATA. */
void needle_scan_header(uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                        struct needle_scan_item *out);

/* Bytes of zeros at the front of window, in steps of 8 (or to its end). */
size_t needle_scan_zero_bytes(struct bytes window);

/* What a pass over one file may still spend on checksums that turn out wrong.
 *
 * Hostile content can make every eighth byte look like the header of a long record, and checking each would be quadratic.
 * So a pass wastes at most 8 bytes of checksum per byte of file plus 1 MiB, and a single candidate at most half of what
 * is left; what costs more is passed over and counted.  Records that verify cost nothing, they are progress. */
struct needle_resync {
    uint64_t crc_bytes_left;
    uint64_t skipped; /* candidates passed over for want of budget: worth a line in the log */
};

/* Once for each pass over a file (or gap) of file_bytes. */
void needle_resync_init(struct needle_resync *r, uint64_t file_bytes);

/* Offset inside `window` of the next aligned record at or after `from` (multiple of 8) that is whole, inside the window,
 * non-zero, and verifies.  A record without a body, which nothing can verify, counts only when it leads, over at most 15
 * more of its kind, to one that does or exactly to the end of the file.
 *
 * False when there is none; then *resume is the first offset that a longer window must look at again: a candidate that
 * does not end inside this one hides what stands behind it, because that may be its data.  A caller that has no longer
 * window to give goes on from *resume + 8; at the end of the file *resume is the window's end, rounded up to 8. */
bool needle_resync_next(struct needle_resync *r, uint8_t version, struct bytes window, size_t from, uint64_t pos,
                        uint64_t file_bytes, size_t *found, size_t *resume);

/* needle_scan_step() within the budget: for a loop that takes steps from where resyncs lead.  A record that the budget cannot
 * afford to check is BAD_DATA and counted in r->skipped.  r NULL: no budget. */
void needle_resync_step(struct needle_resync *r, uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                        struct needle_scan_item *out);

/* For a caller that checks a record longer than its window piece by piece: whether the budget allows it (else counted in
 * r->skipped), and what to charge when the checksum was wrong. */
bool needle_resync_affords(struct needle_resync *r, uint64_t data_bytes);
void needle_resync_charge(struct needle_resync *r, uint64_t data_bytes);

/* needle_resync_next() with a budget for this window alone.  A loop of resyncs over one file keeps a struct needle_resync
 * instead, or the loop may take quadratic time. */
bool needle_scan_resync(uint8_t version, struct bytes window, size_t from, uint64_t pos, uint64_t file_bytes,
                        size_t *found, size_t *resume);

#endif
