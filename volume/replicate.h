/* A write or delete on every replica of a volume: here and on the sisters at the same time, with one version time.
 *
 * The first server decides everything (bytes, flags, name, times) and sends the very same to each sister over HTTP with
 * type=replicate.  Too few sisters known: refused before anything is written.  One failed: everyone goes back to the version
 * before (or to a tombstone when there was none) and the client gets an error; what cannot be delivered is tried again for a
 * while.  A sister whose volume has a newer time refuses, and all is done once more with a newer stamp.
 *
 * Going back must not take a version with it that was acknowledged.  Writes of one needle by this server take turns (fid_turns.h),
 * so what was read as the version before is what the write replaces; an undo says which stamps it takes back, and whoever has
 * another version by then leaves it; and where a write of another first server came between, nothing is taken back.
 *
 * Embedded in its owner, zeroed before use.  Loop thread. */
#ifndef DFS_VOLUME_REPLICATE_H
#define DFS_VOLUME_REPLICATE_H

#include "volume/fid_turns.h"
#include "volume/handlers.h"
#include "volume/late_write.h"

#define REPLICA_CONNECT_MS 1000u
#define REPLICA_DEADLINE_MS 2500u
#define REPLICA_BYTES_PER_MS 4000u     /* and so much more time for a body: 4 MB/s */
#define REPLICA_STAMPS_MAX NEEDLE_UNDO_STAMPS_MAX /* tries with a newer time */
#define REPLICA_SPILL_BYTES_MAX (512ull << 20) /* bodies read back from staging files, all together */
#define UNDO_QUEUE_MAX 4096u
#define UNDO_TRIES_MAX 12u

struct sister;

struct replicated_write {
    /* in; all that is pointed to stays until done */
    struct vs_loop *l;
    struct fid fid;
    bool is_delete;
    struct needle meta;
    struct stage *stage;
    enum durability durability;
    bool fsync, explicit_ts;
    void (*done)(struct replicated_write *w, int rc); /* exactly once if started; loop thread */

    /* out */
    bool unchanged;
    uint32_t old_body_bytes, data_crc;
    char error[512]; /* more than the code says; may be "" */

    /* private */
    uint32_t copies;
    struct fid_turn turn;
    bool has_turn;
    struct volume_lookup_wait wait;
    struct needle_read before; /* the version before, for going back to it */
    bool before_open, had_before;
    char *before_copy;
    uint64_t before_bytes;    /* taken from the bound on bodies in memory, when it had to be read back */
    uint64_t before_pos;      /* read back so far; then: staged so far */
    struct http_piece before_piece;
    struct sister *sisters;
    uint32_t sister_count;
    uint32_t running; /* parts that have not answered */
    struct needle_undo tried; /* the stamps of each round */
    uint64_t stamp_ns, started_ns;
    bool local_was_done;
    uint64_t replaced_ns;     /* time of the version that the local write took the place of, in its first round */
    struct late_write local;
    struct loop_msg msg;
    int local_rc;
    int rc;
    char *head, *tail, *spill;
    uint64_t spill_bytes;
    struct bytes *pieces;
    uint32_t piece_count;
    struct work work;
    struct stage *undo_stage;
};

/* 0: done() will be called, never inside.  Negative: refused, done() will not be called. */
int replicated_write_start(struct replicated_write *w, uint32_t copies);

/* Undos that no sister has answered yet; one queue for each loop.  DFS_ENOMEM. */
struct undo_queue;
int undo_queue_new(struct vs_loop *l, struct undo_queue **out);
/* After the loops have ended and the client has been freed. */
void undo_queue_free(struct undo_queue *q);

#endif
