/* multipart/form-data, fed in any pieces.  Which part is the file: the first part; when it has no file name, the first later
 * part that has one takes its place (data and headers).  Other parts are skipped.  The parser finds the boundary with a
 * bounded carry, copies nothing, and hands the data of the current candidate part out as it comes.
 * One request, one thread. */
#ifndef DFS_NET_MULTIPART_H
#define DFS_NET_MULTIPART_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"

#define MULTIPART_BOUNDARY_MAX 200u
#define MULTIPART_PART_HEAD_MAX 8192u
#define MULTIPART_PARTS_MAX 256u

struct multipart;

struct multipart_part {
    struct bytes name;         /* of the field; decoded quotes; owned by the parser until the next part starts */
    struct bytes filename;     /* last path element (after '/' or '\\'); p == NULL when none was given */
    struct bytes content_type; /* p == NULL when none */
    bool gzip;                 /* part header Content-Encoding: gzip */
    struct bytes content_md5;
    uint32_t header_count;     /* all headers of the part, for pairs */
    const struct multipart_header { struct bytes name, value; } *headers;
};

struct multipart_ops {
    /* A part begins that is the best candidate so far: whatever was collected before is to be dropped.  Non-zero aborts and
     * is returned from multipart_feed(). */
    int (*part)(void *arg, const struct multipart_part *part);
    /* Data of it.  Consumes all or returns an error.  DFS_EAGAIN with *taken set pauses: feed returns DFS_EAGAIN and how much
     * of its input was used. */
    int (*data)(void *arg, struct bytes data, size_t *taken);
};

/* boundary: from the Content-Type.  DFS_EINVAL when empty or too long. */
int multipart_new(struct bytes boundary, const struct multipart_ops *ops, void *arg, struct multipart **out);
/* DFS_EPROTO for broken framing, DFS_ETOOBIG for endless part heads or too many parts, DFS_ENOMEM; these stick. */
int multipart_feed(struct multipart *m, struct bytes in, size_t *consumed);
/* How many bytes at the front of `in`, which comes next, are data of the current candidate and nothing else: who has them where
 * they belong already need not feed them.  What stands behind them is fed. */
size_t multipart_plain(const struct multipart *m, struct bytes in);
/* Whether it may be more than 0. */
bool multipart_in_data(const struct multipart *m);
/* The body has ended: DFS_EPROTO unless the closing boundary was seen and at least one part. */
int multipart_end(struct multipart *m);
void multipart_free(struct multipart *m);

#endif
