/* File ids: which volume, which needle, and the random cookie that makes the id unguessable.
 *
 * Text form: "<volume>,<hex>", hex = needle key and cookie as 12 bytes big endian without the leading zero bytes, lower
 * case, even number of digits, the last 8 are the cookie.  "_N" behind it adds N to the key (ids of one assign with a
 * count).  Pure; any thread. */
#ifndef DFS_NEEDLE_FID_H
#define DFS_NEEDLE_FID_H

#include <stdint.h>

#include "needle/bytes.h"

/* Longest text with its closing zero: 10 digits, comma, 24 hex digits. */
#define FID_TEXT_MAX 36

struct fid {
    uint32_t volume_id;
    uint32_t cookie;
    uint64_t key;
};

/* What a request path says (FORMAT 1.12): "/3,01637037d6", "/3,01637037d6.jpg", "/3/01637037d6",
 * "/3/01637037d6.jpg", "/3/01637037d6/some name.jpg", each with "_N". */
struct fid_path {
    struct fid fid;
    struct bytes ext;      /* with its dot, or empty; points into the path */
    struct bytes filename; /* third component, or empty; points into the path */
};

/* "3" -> 3.  Whole text, decimal, 0 < id <= 2^32-1; else DFS_EINVAL. */
int volume_id_parse(struct bytes text, uint32_t *out);

/* "3,01637037d6[_N]" -> fid; the whole text must be one: behind the comma more than 8 and at most 24 hex digits (either case),
 * key and cookie.  A key + N that leaves 64 bits, or any other byte, is DFS_EINVAL. */
int fid_parse(struct bytes text, struct fid *out);

/* A percent-decoded request path, starting with '/'.  DFS_EINVAL when it names no file. */
int fid_parse_path(struct bytes path, struct fid_path *out);

/* Writes the text and a closing zero; returns its length without the zero. */
size_t fid_format(const struct fid *fid, char out[FID_TEXT_MAX]);

/* The part behind the comma. */
size_t fid_format_key_cookie(uint64_t key, uint32_t cookie, char out[FID_TEXT_MAX]);

/* Equal without a data-dependent branch. */
bool cookie_eq(uint32_t a, uint32_t b);

#endif
