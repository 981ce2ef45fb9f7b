/* What the loop's half of a write (volume_write.c) and the writer's half (append_queue.c, append_batch.c) tell each other.
 * Internal to the engine. */
#ifndef DFS_VOLUME_VOLUME_APPEND_H
#define DFS_VOLUME_VOLUME_APPEND_H

#include "volume/disk_location.h"
#include "volume/needle_io.h"

/* ---- volume_write.c ---- */
/* Why the volume does not take w, by its state bits; 0 when it does.  `queued`: the write was taken before the volume began to
 * close, and is still answered.  Any thread. */
int needle_write_refusal(const struct needle_write *w, bool queued);
/* Sent by the volume's first server for this needle, which has decided that it is to be. */
static inline bool needle_write_is_replica(const struct needle_write *w)
{
    return w->privileged && w->append_at_ns != 0;
}
/* Reads what is needed of the old record at `value`: its cookie, and for deletes its checksum.  cached: DFS_EAGAIN rather than
 * wait for the disk.  DFS_ECORRUPT when another record (or none) stands there. */
int needle_write_read_old(struct needle_write *w, const struct volume_gen *g, const struct needle_value *value, bool cached);
/* Whether w may replace or delete the old record that was read. */
int needle_write_check_cookie(const struct needle_write *w);

/* ---- append_queue.c ---- */
void append_queue_write(struct append_queue *q, struct needle_write *w); /* any thread */

#define APPEND_BATCH_RECORDS_MAX 1024u
#define APPEND_BATCH_BYTES_MAX (16u << 20)

/* Bytes written for one volume before others have their turn. */
#define APPEND_TURN_BYTES (2u << 20)
/* Records up to this are put together in one buffer; the bodies of longer ones are written from where they are staged. */
#define APPEND_COPY_MAX (16u << 10)
#define APPEND_IOV_MAX 512u

struct append_record {
    struct needle_write *w;
    struct needle n;
    uint64_t pos, record_bytes; /* record_bytes 0: nothing to write, only to be answered after a sync */
    char *head, *trail;         /* head: the whole record when it was copied */
    uint32_t head_bytes, trail_bytes;
};

/* Writes of one volume that are under way together. */
struct append_batch {
    struct append_batch *next_free;
    struct append_queue *queue;
    struct volume *volume;
    struct volume_gen *gen; /* the writer's own: it is the only one that could exchange it */
    uint64_t start_pos, end_pos, written_pos;
    uint64_t start_ns, end_ns; /* last append time before and after */
    bool sync, published;

    struct append_record *records;
    uint32_t count;
    uint32_t at;    /* record that is being written */
    uint64_t at_off; /* bytes of it that are */
    char *buf;      /* heads, trails, small records */
    size_t buf_used;
    struct iovec *iov;

    int sync_rc;
    uint64_t sync_ns;      /* how long it took */
    struct work work;      /* the sync */
    struct writer_cmd cmd; /* "the sync is done" */
};

/* ---- append_batch.c; writer thread ---- */
int append_batch_new(struct append_queue *q, struct append_batch **out);
void append_batch_free(struct append_batch *b);
/* Takes from the volume's waiting writes as many as fit and may go together, assigns places and times; those that are refused
 * are answered.  False when nothing is left to do for it. */
bool append_batch_fill(struct append_batch *b, struct volume *v);
/* Writes the next part; *done when all is written. */
int append_batch_write(struct append_batch *b, bool *done);
/* The write failed: the file is cut back to what it was, and the writes are answered (tombstones may go back into the queue). */
void append_batch_fail(struct append_batch *b, int rc);
/* Any thread. */
int append_batch_sync(struct append_batch *b);
/* After the write, and the sync if there was one: publishes and answers; after a failed sync, takes back and refuses. */
void append_batch_finish(struct append_batch *b, int sync_rc);
/* Part of finish; in front of the sync only where a test proves that this loses data. */
void append_batch_publish(struct append_batch *b);

/* ---- append_queue.c, for append_batch.c ---- */
void append_queue_answer(struct append_queue *q, struct needle_write *w, int rc);
/* One buffer of CHUNK_BYTES for bodies that are staged in a file. */
char *append_queue_bounce(struct append_queue *q);
/* True when the key is marked already since the last clear; else marks it. */
bool append_queue_mark_key(struct append_queue *q, uint64_t key);
void append_queue_clear_keys(struct append_queue *q);

static inline struct needle_write *needle_write_of(struct writer_cmd *cmd)
{
    return (struct needle_write *)((char *)cmd - offsetof(struct needle_write, cmd));
}
/* Marks a place in the queue as that of a write. */
void append_queue_run_write(struct writer_cmd *cmd);

#endif
