/* gzip in memory: compress at once, inflate at once or in slices.
 *
 * Every output has a limit given by the caller; no size that stands in the data is believed.  Files of several members are one
 * text; zero bytes behind the last member are padding; anything else there is DFS_ECORRUPT.
 *
 * Compressing or inflating more than 64 KB takes longer than a loop step may: do it elsewhere, or in slices. */
#ifndef DFS_NET_GZIP_H
#define DFS_NET_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "needle/bytes.h"

/* Whether it begins as a gzip member does. */
bool gzip_looks_like(struct bytes head);

/* One member into out; level 1 to 9.  DFS_ETOOBIG when cap does not do, which is also how a caller asks for "only if it gets
 * smaller than that".  DFS_ENOMEM.  Any thread. */
int gzip_compress(struct bytes in, int level, void *out, size_t cap, size_t *n);

/* All of it into new memory (*out: free()).  DFS_ETOOBIG beyond limit bytes, DFS_ECORRUPT (a cut file too), DFS_ENOMEM.
 * Any thread. */
int gzip_inflate_all(struct bytes in, uint64_t limit, char **out, size_t *n);

/* The inflated length, with nothing kept.  The same errors. */
int gzip_inflated_bytes(struct bytes in, uint64_t limit, uint64_t *n);

/* In slices.  One thread at a time. */
struct gzip_inflate;
int gzip_inflate_new(uint64_t limit, struct gzip_inflate **out);
/* Takes input off the front of *in and writes at most cap (> 0) bytes to out, *n of them.
 * 0: go on, with more room when *n == cap, with more input when *in is used up.  1: the text is complete, *n last bytes of it are
 * here.  last: there is no more input behind *in; a text that is not complete then is DFS_ECORRUPT.
 * Negative codes as above; they stick. */
int gzip_inflate_step(struct gzip_inflate *g, struct bytes *in, bool last, void *out, size_t cap, size_t *n);
/* So far. */
uint64_t gzip_inflate_total(const struct gzip_inflate *g);
void gzip_inflate_free(struct gzip_inflate *g);

#endif
