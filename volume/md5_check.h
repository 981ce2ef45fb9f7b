/* Content-MD5 against what is staged: of the bytes as they were sent or, where those are gzip, of their text.
 *
 * A slice at a time, so that neither a loop nor the work pool is kept by one upload, and in a fixed amount of memory whatever the
 * bytes inflate to.  One thread at a time; the stage is finished and stays as it is meanwhile. */
#ifndef DFS_VOLUME_MD5_CHECK_H
#define DFS_VOLUME_MD5_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "net/gzip.h"
#include "net/md5.h"
#include "volume/stage.h"

/* What one step reads or inflates at most: a few milliseconds. */
#define MD5_CHECK_STEP_BYTES (1u << 20)
/* Up to so much, not gzip, takes no longer than a loop step may. */
#define MD5_CHECK_INLINE_BYTES (64u << 10)

struct md5_check {
    /* private */
    const struct stage *stage;
    uint64_t limit_bytes, pos;
    uint8_t want[MD5_BYTES];
    bool readable; /* what was given is a digest */
    bool gzip;
    struct md5 md5;
    struct gzip_inflate *inflate; /* the second pass, over the text */
};

/* text: the header's value.  limit_bytes: a longer text is not looked at, and so does not match. */
void md5_check_init(struct md5_check *c, const struct stage *stage, struct bytes text, bool gzip, uint64_t limit_bytes);
void md5_check_release(struct md5_check *c);
/* DFS_EAGAIN: call again.  0: it is right.  DFS_EINVAL: it is not.  DFS_ENOMEM, DFS_EIO: cannot be told.  Reads the stage's file:
 * not on a loop, but for MD5_CHECK_INLINE_BYTES that are staged in memory. */
int md5_check_step(struct md5_check *c);

#endif
