/* Sisters that did not answer in time: a server that is stopped, or whose disk is, costs one write its patience, not each.
 *
 * While one is suspected, writes that need it are refused at once, but for one after every REPLICA_PROBE_MS, which finds out.  Any
 * answer clears it.  A refused connection is known at once and needs no memory.  One table for each loop; its thread only. */
#ifndef DFS_VOLUME_REPLICA_SUSPECTS_H
#define DFS_VOLUME_REPLICA_SUSPECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

/* More than there are replicas that can be stopped before somebody looks; the one suspected longest gives way. */
#define REPLICA_SUSPECTS_MAX 16u
#define REPLICA_PROBE_MS 2000u

struct replica_suspects {
    struct {
        char url[ADDR_TEXT_MAX];
        uint64_t since_ms; /* first unanswered call */
        uint64_t probe_ms; /* last time that it was let through, or did not answer */
    } v[REPLICA_SUSPECTS_MAX];
    uint32_t count;
};

/* Should a call to url not be made?  Then *silent_ms says how long it has not answered.  False also when the call is to find out;
 * the caller then makes it.  Times from clock_mono_ms(). */
bool replica_suspects_hold(struct replica_suspects *t, const char *url, uint64_t now_ms, uint64_t *silent_ms);
/* How a call to url that began at start_ms has ended now: DFS_ETIMEOUT makes it a suspect, all else clears it. */
void replica_suspects_note(struct replica_suspects *t, const char *url, int rc, uint64_t start_ms, uint64_t now_ms);

#endif
