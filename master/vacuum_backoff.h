/* How long a volume is left alone after a vacuum of it has failed.
 *
 * A vacuum that fails for want of room or because of a sick disk fails the next time too, and each try reads and writes for
 * nothing.  So each failure in a row doubles the pause, up to a day.  Only tries by the clock are held back: an operator who asks
 * for a vacuum gets one.  Kept with the volume in the topology; forgotten with it.  Master thread. */
#ifndef DFS_MASTER_VACUUM_BACKOFF_H
#define DFS_MASTER_VACUUM_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define VACUUM_BACKOFF_MAX_MS ((uint64_t)24 * 3600 * 1000)
#define VACUUM_WHY_BYTES 240u

struct vacuum_backoff {
    uint32_t failures; /* in a row */
    uint64_t until_ms; /* of the loop's clock */
    char why[VACUUM_WHY_BYTES];
};

/* One more failure.  interval_ms: between two tries by the clock; the pause is twice that, then doubled.  Returns whether it is
 * news that belongs in the log: the first of a row, or another reason than the last. */
bool vacuum_backoff_failed(struct vacuum_backoff *b, uint64_t now_ms, uint64_t interval_ms, const char *why);
/* Whether a try by the clock has to wait. */
bool vacuum_backoff_waits(const struct vacuum_backoff *b, uint64_t now_ms);
/* It was looked at and nothing failed.  Returns whether that is news. */
bool vacuum_backoff_clear(struct vacuum_backoff *b);

#endif
