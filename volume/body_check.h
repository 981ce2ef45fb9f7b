/* What is staged, looked at before it is stored: whether its digest is the one that was sent (Content-MD5, of the bytes as they
 * came or, where those are gzip, of their text), and whether what calls itself gzip can be inflated, whole and within the limit,
 * since nothing else could ever be answered to who does not accept gzip.
 *
 * One pass for both, a slice at a time, so that neither a loop nor the work pool is kept by one upload, and in a fixed amount of
 * memory whatever the bytes inflate to.  One thread at a time; the stage is finished and stays as it is meanwhile. */
#ifndef DFS_VOLUME_BODY_CHECK_H
#define DFS_VOLUME_BODY_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "net/gzip.h"
#include "net/md5.h"
#include "volume/stage.h"

/* What one step reads and inflates at most: a few milliseconds. */
#define BODY_CHECK_STEP_BYTES (1u << 20)
/* A body up to so long, and then a step up to so long, takes no longer than a loop step may. */
#define BODY_CHECK_INLINE_BYTES (64u << 10)
#define BODY_CHECK_INLINE_GZIP_BYTES (8u << 10)

struct body_check {
    /* private */
    const struct stage *stage;
    uint64_t limit_bytes, pos;
    uint8_t want[MD5_BYTES];
    bool md5_wanted, readable; /* readable: what was given is a digest */
    struct md5 as_sent, of_text;
    bool gzip;
    struct gzip_inflate *inflate; /* made by the first step */
    char *kept;                   /* input that the inflater has not taken yet */
    struct bytes in;
};

/* md5_text: the header's value; md5_wanted: it is to be right.  gzip: is to inflate to at most limit_bytes. */
void body_check_init(struct body_check *c, const struct stage *stage, bool md5_wanted, struct bytes md5_text, bool gzip,
                     uint64_t limit_bytes);
void body_check_release(struct body_check *c);
/* Whether a first step of BODY_CHECK_INLINE_BYTES may be done on a loop. */
bool body_check_is_little(const struct body_check *c);
/* Does about step_bytes of the work.  DFS_EAGAIN: call again.  0: all is right.  DFS_EINVAL: the digest is not.  DFS_ECORRUPT: this
 * does not inflate.  DFS_ETOOBIG: to more than the limit.  DFS_ENOMEM, DFS_EIO: cannot be told.  Reads the stage's file: not on a
 * loop, but for what is little. */
int body_check_step(struct body_check *c, uint64_t step_bytes);
/* After 0: how long the text is, over all members; as long as what was sent when that is not gzip. */
uint64_t body_check_text_bytes(const struct body_check *c);

#endif
