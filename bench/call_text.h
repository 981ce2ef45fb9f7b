/* Texts of one call to a volume server: its target, and what a server said that refused, on one line for an error.
 * Pure; any thread. */
#ifndef DFS_BENCH_CALL_TEXT_H
#define DFS_BENCH_CALL_TEXT_H

#include <stddef.h>

#include "needle/bytes.h"
#include "needle/fid.h"

#define CALL_TARGET_MAX 128u
#define CALL_REASON_MAX 160u                       /* of an answer that refuses */
#define CALL_REASON_TEXT_MAX (CALL_REASON_MAX + 16u)

/* Front of an answer's body.  Zeroed: nothing was said. */
struct call_reason {
    char text[CALL_REASON_MAX];
    size_t n;
};

/* "/3,01637037d6" and the query behind it, which must fit; returns the length. */
size_t call_target(const struct fid *fid, struct bytes query, char out[CALL_TARGET_MAX]);

/* Keeps what fits. */
void call_reason_add(struct call_reason *r, struct bytes in);

/* rc != 0: its text; else "404 ..." with control bytes blanked. */
void call_reason_text(const struct call_reason *r, int rc, int status, char out[CALL_REASON_TEXT_MAX]);

#endif
