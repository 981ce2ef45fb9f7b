/* When needles of a volume were deleted last, for as long as writes of before may still be on their way.
 *
 * A delete leaves no version to compare with, and one that finds nothing leaves no trace at all.  A write of another server with an
 * older time that comes in behind it would bring the needle back, on this replica alone.  Remembered are deletes whose time was
 * given, a bounded number of them; of those that were forgotten, the newest time of their set: a write from before that is refused
 * as stale, which costs its sender another round with a newer time and nothing else.  Writer thread. */
#ifndef DFS_VOLUME_RECENT_DELETES_H
#define DFS_VOLUME_RECENT_DELETES_H

#include <stdbool.h>
#include <stdint.h>

#define RECENT_DELETES_SETS 256u
#define RECENT_DELETES_WAYS 4u

struct recent_deletes {
    struct recent_delete_set {
        uint64_t key[RECENT_DELETES_WAYS], at_ns[RECENT_DELETES_WAYS]; /* 0 = free */
        uint64_t forgotten_ns;
    } sets[RECENT_DELETES_SETS];
};

/* key was deleted at at_ns (> 0), which others ordered. */
void recent_deletes_note(struct recent_deletes *d, uint64_t key, uint64_t at_ns);
/* Of the key's last delete; 0 = none is remembered.  d may be NULL. */
uint64_t recent_deletes_at(const struct recent_deletes *d, uint64_t key);
/* Whether the key may have been deleted after at_ns. */
bool recent_deletes_after(const struct recent_deletes *d, uint64_t key, uint64_t at_ns);

#endif
