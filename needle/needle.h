/* One needle record: encode and decode, versions 1, 2 and 3.
 *
 * OFFSET     SIZE MEANING (big endian; TS = 8 in version 3, else 0)
 *      0        4 cookie
 *      4        8 needle key
 *     12        4 Size = bytes of the body
 *     16     Size body
 * 16+Size       4 checksum of the stored data bytes (see crc.h)
 * 20+Size      TS append time, Unix nanoseconds
 *  ...    1 .. 8 padding to a multiple of 8 (never 0; written as zeros, ignored by readers)
 *
 * Body of version 1: the data.  Of versions 2 and 3: empty when the data is empty, else
 *   4 data size | data | 1 flags | [1+n name] [1+m mime] [5 last modified, s] [2 ttl] [2+p pairs, JSON object]
 * A body may end early between two fields (an old writer's slip): missing fields read as absent, their flags as 0.
 * A body that ends inside a field, or has more than NEEDLE_META_MAX behind its data, is corrupt.
 *
 * A tombstone and an empty file have the same shape (Size 0).  dfs writes an empty file with checksum 0 and a tombstone
 * with the checksum of what it deletes (0xffffffff where that is 0); needle_looks_deleted() gives the reading rule.
 *
 * Nothing here trusts a length: every decode is bounded by the view it is given.  Pure; any thread. */
#ifndef DFS_NEEDLE_NEEDLE_H
#define DFS_NEEDLE_NEEDLE_H

#include <stdint.h>

#include "needle/bytes.h"
#include "needle/superblock.h"
#include "needle/ttl.h"

#define NEEDLE_HEADER_BYTES 16u
#define NEEDLE_CHECKSUM_BYTES 4u
#define NEEDLE_TIME_BYTES 8u
#define NEEDLE_NAME_MAX 255u
#define NEEDLE_MIME_MAX 255u
#define NEEDLE_PAIRS_MAX 65535u

/* Size is read as a signed 32-bit number by others. */
#define NEEDLE_BODY_MAX 0x7fffffffu

/* What stands in a record of versions 2 and 3 around the data: 4 in front, at most this much behind. */
#define NEEDLE_META_MAX (1u + 1u + NEEDLE_NAME_MAX + 1u + NEEDLE_MIME_MAX + 5u + 2u + 2u + NEEDLE_PAIRS_MAX)

/* Longest piece behind the data: metadata, checksum, time, padding. */
#define NEEDLE_TRAILER_MAX (NEEDLE_META_MAX + NEEDLE_CHECKSUM_BYTES + NEEDLE_TIME_BYTES + NEEDLE_ALIGN)

enum needle_flag {
    NEEDLE_COMPRESSED = 0x01,
    NEEDLE_HAS_NAME = 0x02,
    NEEDLE_HAS_MIME = 0x04,
    NEEDLE_HAS_LAST_MODIFIED = 0x08,
    NEEDLE_HAS_TTL = 0x10,
    NEEDLE_HAS_PAIRS = 0x20,
    NEEDLE_CHUNK_MANIFEST = 0x80,
};

/* Cookies that other writers put into tombstones of their own making. */
#define NEEDLE_COOKIE_BATCH_DELETE 0x00000000u
#define NEEDLE_COOKIE_CATCH_UP 0x12345678u

/* Checksum of a tombstone whose victim's checksum was that of no data. */
#define NEEDLE_CHECKSUM_DELETED_EMPTY 0xffffffffu

/* Checksum of a filler without data: key 0, cookie 0 and Size 0 alone would be zeros like those of an unwritten stretch. */
#define NEEDLE_CHECKSUM_FILLER 0xffffffffu

#define NEEDLE_TOMBSTONE_MAX 32u

struct needle_header {
    uint32_t cookie;
    uint64_t key;
    uint32_t size; /* body bytes */
};

/* A needle without its data; views point into the caller's memory. */
struct needle {
    uint32_t cookie;
    uint64_t key;
    uint32_t body_bytes; /* Size */
    uint32_t data_bytes;
    uint8_t flags;
    struct ttl ttl;
    struct bytes name;
    struct bytes mime;
    struct bytes pairs;          /* JSON text */
    uint64_t last_modified_s;    /* 40 bits */
    uint32_t checksum;           /* as stored: raw or masked */
    uint64_t append_at_ns;       /* version 3; else 0 */
};

/* The fixed part that every record begins with; any bytes decode, whether they make sense is for the caller to judge. */
void needle_header_decode(const uint8_t in[NEEDLE_HEADER_BYTES], struct needle_header *out);
void needle_header_encode(const struct needle_header *h, uint8_t out[NEEDLE_HEADER_BYTES]);

/* Whole record for a body of that many bytes: header, body, checksum, [time], padding.  At most 2^31 + 40 for a body of
 * NEEDLE_BODY_MAX. */
uint64_t needle_record_bytes(uint8_t version, uint32_t body_bytes);

/* The shortest record, which is that of a tombstone, an empty file or the smallest filler: 24 or (version 3) 32. */
uint32_t needle_record_bytes_min(uint8_t version);

/* The longest start of `text` of at most max_bytes bytes that does not end inside a UTF-8 character: for names and types
 * that are longer than their length byte can say. */
struct bytes needle_text_fit(struct bytes text, size_t max_bytes);

/* Size for n->data_bytes, flags and metadata as given.  DFS_ETOOBIG past NEEDLE_BODY_MAX, or when name, mime or pairs are
 * longer than their length field can say. */
int needle_body_bytes(uint8_t version, const struct needle *n, uint32_t *out);

/* Everything in front of the data: header and, in versions 2 and 3 with data, the data size.  n->body_bytes must be set.
 * Returns the length, 16 or 20. */
size_t needle_encode_head(uint8_t version, const struct needle *n, uint8_t out[NEEDLE_HEADER_BYTES + 4]);

/* Everything behind the data: metadata, checksum (n->checksum as it is), time, zero padding.  Returns the length, at most
 * NEEDLE_TRAILER_MAX.  head + data + trail is exactly needle_record_bytes(). */
size_t needle_encode_trail(uint8_t version, const struct needle *n, uint8_t out[NEEDLE_TRAILER_MAX]);

/* The whole record that deletes `deleted` (its size is not looked at): key and cookie of the victim, Size 0, and
 * needle_tombstone_checksum() of the checksum stored with it.  append_at_ns counts in version 3.  Returns 24 or 32. */
size_t needle_encode_tombstone(uint8_t version, const struct needle_header *deleted, uint32_t deleted_checksum,
                               uint64_t append_at_ns, uint8_t out[NEEDLE_TOMBSTONE_MAX]);

/* A record of key 0 and cookie 0 that covers dead bytes, so that every scanner steps over them.  Its data are zeros, which
 * need not exist in memory: write head, needle.data_bytes zero bytes, trail. */
struct needle_filler {
    uint64_t record_bytes; /* head + data + trail */
    struct needle needle;  /* data_bytes, body_bytes (for the index row), checksum */
    uint32_t head_bytes;
    uint32_t trail_bytes;
    uint8_t head[NEEDLE_HEADER_BYTES + 4];
    uint8_t trail[24];
};

/* The filler for the front of a gap.  record_bytes is gap_bytes, or less when that is more than a record can be (2 GiB):
 * then what is left is again long enough for one.  append_at_ns as for any record; in version 3 not 0.
 * DFS_EINVAL: the gap is no multiple of 8, or shorter than needle_record_bytes_min(). */
int needle_filler_make(uint8_t version, uint64_t gap_bytes, uint64_t append_at_ns, struct needle_filler *out);

/* Whether a record is a filler: never a blob, never a tombstone, whatever its Size.  (No assign hands out key 0.) */
bool needle_is_filler(const struct needle_header *h);

/* Decode a record whose bytes are all in `rec` (at least header + body + checksum [+ time]).
 * out->name and so on point into rec; *data is the stored data.  The checksum is not compared: see needle_verify().
 * DFS_ESHORT: rec ends too early.  DFS_ECORRUPT: lengths contradict each other. */
int needle_decode(uint8_t version, struct bytes rec, struct needle *out, struct bytes *data);

/* The same for a large record read in two pieces: `head` is the first 20 bytes (16 suffice in version 1 and for Size 0),
 * `trail` starts at needle_trail_offset() and reaches at least to the end of the time.  Data is not looked at. */
int needle_decode_split(uint8_t version, struct bytes head, struct bytes trail, struct needle *out);

/* Data bytes of a record from its first 20 bytes (16 suffice in version 1 and for Size 0).  DFS_ESHORT, or DFS_ECORRUPT
 * when Size is past NEEDLE_BODY_MAX or data bytes and Size contradict each other. */
int needle_data_bytes(uint8_t version, struct bytes head, uint32_t *out);

/* 16 in version 1, 20 in versions 2 and 3. */
uint32_t needle_data_offset(uint8_t version);

/* Where the piece behind the data stands in the record: data offset + data bytes, but 16 when there is no body. */
uint64_t needle_trail_offset(uint8_t version, uint32_t body_bytes, uint32_t data_bytes);

/* DFS_ECORRUPT unless the stored checksum is that of `data` in either form.  (Size 0: always 0.) */
int needle_verify(const struct needle *n, struct bytes data);

/* The checksum to store for raw CRC `crc` in a volume of that version.  An empty file stores 0 in every version. */
uint32_t needle_checksum_for(uint8_t version, uint32_t crc);

/* What `checksum` a tombstone for a record with that stored checksum carries: the same, or
 * NEEDLE_CHECKSUM_DELETED_EMPTY for the checksum of no data (0, masked 0xa282ead8), which would read as an empty file. */
uint32_t needle_tombstone_checksum(uint32_t deleted_checksum);

/* Reading rule for a record of Size 0 found in a .dat without an index row to say what it is.
 * known_cookie   cookie of the id's last earlier record, when has_earlier;
 * live_and_empty the id is already live with Size 0.
 * True = tombstone, false = a live empty file (or a record that has a body).  Ask needle_is_filler() first.  A cookie
 * drawn for a new file must be neither of the two above. */
bool needle_looks_deleted(const struct needle *n, bool has_earlier, uint32_t known_cookie, bool live_and_empty);

/* Whether a needle has outlived its own ttl at now_s.  Version 3 counts from append_at_ns, 1 and 2 (and a version 3
 * record without a time) from last_modified_s; a needle with neither never expires. */
bool needle_expired(uint8_t version, const struct needle *n, uint64_t now_s);

#endif
