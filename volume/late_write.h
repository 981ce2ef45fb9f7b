/* A replica's write whose time is not above the volume's newest, because writes that were sent side by side arrived in another
 * order (measured with 64 clients and placement 001: one write in four).  What counts is the needle: when its own record is older
 * than the given time, or there is none, the write is right and is appended with the time it was given; when it is newer, the
 * write has come too late and is refused.
 *
 * Wraps needle_write_start(): same contract, and done() brings DFS_ESTALE only when the needle itself is newer.  Loop thread. */
#ifndef DFS_VOLUME_LATE_WRITE_H
#define DFS_VOLUME_LATE_WRITE_H

#include "volume/needle_io.h"

struct late_write {
    struct needle_write w; /* in and out as for needle_write; but its done is ours: */
    void (*done)(struct late_write *l, int rc);
    bool reordered; /* out: it was late for the volume, not for the needle */
    struct needle_read look;
    uint64_t given_ns;
};
int late_write_start(struct late_write *l);

#endif
