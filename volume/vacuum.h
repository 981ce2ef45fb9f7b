/* Vacuum: the live needles of a volume are copied beside it, what was appended meanwhile is caught up with, and the copy takes the
 * volume's place.  Internal to the engine; servers call store_vacuum_*() of store.h.
 *
 * FILES  (B is the volume's base path; the names are those of the peer, which finishes or clears them in the same way)
 *   B.cpd   the new .dat        B.cpx   the new .idx        B.cpc   empty: "both are whole and on the disk"
 *   B.cpl   the new leveldb map, which is a cache: the present one stays open in B.ldb until its last reader has gone, so the two
 *           folders take turns while the process lives, and the next start begins with B.ldb again
 *
 * THE SWAP, each step on the disk before the next
 *   1. B.cpd, B.cpx and the folder synced    2. B.cpc created, folder synced    3. B.cpx -> B.idx    4. B.cpd -> B.dat,
 * folder synced   5. B.cpc removed, folder synced
 * What a crash may leave, and what vacuum_recover() does about it:
 *   no B.cpc             the copy is worth nothing: B.cpd and B.cpx are removed
 *   B.cpc                the copy is whole: whichever of B.cpd, B.cpx is still there is renamed, then B.cpc removed
 *
 * A run belongs to its volume (volume->vacuum) from compact to commit or cleanup, so there is one at a time.  A commit or cleanup
 * names the run that it means by the token that compact was given: one that comes late, for a copy that is gone or that another
 * master has made since, is refused. */
#ifndef DFS_VOLUME_VACUUM_H
#define DFS_VOLUME_VACUUM_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/volume.h"

#define VACUUM_DAT_SUFFIX ".cpd"
#define VACUUM_IDX_SUFFIX ".cpx"
#define VACUUM_COMMIT_SUFFIX ".cpc"
#define VACUUM_LDB_SUFFIX ".cpl"

/* For each volume of a folder before it is opened.  *swapped: a commit was finished, and whatever was derived from the old .dat
 * and .idx (leveldb map, index checkpoint) is void.  0 or DFS_E* of the first file call that failed: then nothing of the volume
 * may be opened for writing.  Blocks. */
int vacuum_recover(const char *base, bool *swapped);

/* The volume is closing: a run that copies is told to give up, a finished copy is removed.  Before volume->idx_fd is closed.
 * Writer thread. */
void vacuum_drop(struct volume *v);

#endif
