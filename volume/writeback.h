/* Dirty pages, bounded and paced: the answer to the write cliff.
 *
 * A store that only writes fills the page cache until the kernel stops every writer for seconds.  Here each disk location has a
 * window of bytes that may be written and not yet on the disk.  The writer thread reports what it wrote; one flusher thread
 * starts write-back in steps of 1 to 2 MB behind it (sync_file_range), waits for old steps, and so keeps the window bounded.
 * When the window is full, admission stops: bodies are not read from sockets until there is room, first come first served.
 * Nothing here waits under a mutex.
 *
 * In `paced` mode each window is closed with an fdatasync, at the latest after a second, so that at most one window of
 * acknowledged bytes can be lost.  An error of sync_file_range or fdatasync is a failed flush: the volume is told. */
#ifndef DFS_VOLUME_WRITEBACK_H
#define DFS_VOLUME_WRITEBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct writeback;

#define WRITEBACK_WINDOW_MIN (4u * 1024u * 1024u)
#define WRITEBACK_AGE_DEFAULT_MS 1000u

struct writeback_options {
    const char *name;       /* thread name */
    uint64_t window_bytes;  /* -dirtyMB; at least WRITEBACK_WINDOW_MIN */
    bool datasync;          /* close each window with fdatasync (paced) */
    uint32_t max_age_ms;    /* of dirty bytes before they are flushed anyway; 0 = WRITEBACK_AGE_DEFAULT_MS */
    bool drop_behind;       /* give pages back once clean */
};

/* One file that is written to; embedded in its owner (a volume generation), all of it private but on_error.  Must be detached
 * before the fd is closed. */
struct writeback_file {
    int fd;
    /* Bytes before waited_pos are on the disk, before started_pos on their way, before written_pos in the page cache. */
    uint64_t started_pos, waited_pos, written_pos;
    /* The oldest dirty byte is of dirty_since_ns, or once waited_pos has reached mark_pos, of mark_ns. */
    uint64_t dirty_since_ns, mark_pos, mark_ns;
    struct writeback *wb;
    struct writeback_file *next, *prev; /* dirty files, least recently served first */
    bool listed;
    bool busy;         /* the flusher uses fd, without the lock */
    uint32_t syncing;  /* calls of writeback_datasync() that do */
    int failed;        /* the code of a flush that failed: from then on it counts for nothing */
    /* On the flusher thread, once, when a flush of this file failed.  May be NULL.  Must not detach. */
    void (*on_error)(struct writeback_file *f, int rc);
};

/* Starts the flusher thread.  DFS_ENOMEM, DFS_ENOTHREAD. */
int writeback_new(const struct writeback_options *o, struct writeback **out);
/* Every file detached, no waiter left. */
void writeback_free(struct writeback *wb);

/* pos: where the next byte is written; all before it counts as clean.  Set f->on_error first. */
void writeback_attach(struct writeback *wb, struct writeback_file *f, int fd, uint64_t pos);
/* Waits until the flusher has let go of it.  What is still dirty is dirty no more for us: sync first where that matters.  Not on
 * a loop thread. */
void writeback_detach(struct writeback_file *f);

/* The writer wrote up to pos; a pos below the last one means that the file was cut.  Writer thread. */
void writeback_wrote(struct writeback_file *f, uint64_t pos);
/* The one way to fdatasync a file that is written to: 0 = all that was written before is on the disk; DFS_EIO and the like = it is
 * not known to be, now and for ever.  The kernel tells an error once for each open file, so when the flusher or another call of
 * this function met it, an fdatasync beside or after that says 0 for bytes that are lost: each waits for the others that are under
 * way, and one error counts for all.  wb is that of the file's location; with NULL, or for a file that is not attached (any more),
 * it is a bare fdatasync of fd.  on_error is not called: the caller tells the volume.  Not on a loop thread. */
int writeback_datasync(struct writeback *wb, struct writeback_file *f, int fd);
/* All bytes of f up to pos are on the disk (the writer did its own fdatasync). */
void writeback_synced(struct writeback_file *f, uint64_t pos);

/* Admission of n body bytes.  True: go on; the bytes count against the window until writeback_return().  False: w is queued, and
 * w->msg.run is posted to w->loop when they are admitted.  w->loop, w->privileged and w->msg.run are the caller's; n > 0.
 *
 * First come, first served.  Privileged and other bytes wait in two queues that take turns by bytes, and neither kind may hold
 * more than three quarters of the window, so neither can starve the other.  Ask in pieces: more than a quarter of the window at
 * once is admitted only when its kind holds nothing and little is dirty.  Loop threads. */
struct writeback_waiter {
    struct loop_msg msg;
    struct loop *loop;
    struct writeback_waiter *next, *prev;
    uint64_t bytes, since_ns;
    bool queued, posted, privileged;
};
bool writeback_admit(struct writeback *wb, struct writeback_waiter *w, uint64_t n);
/* Takes back a w that waits: true, and run will not be called.  False: it was admitted before (or never asked): if it is posted
 * still, run comes and has to return the bytes, so w must live until then.  The loop that asked. */
bool writeback_cancel(struct writeback *wb, struct writeback_waiter *w);
/* n admitted bytes are held no longer: they were reported by writeback_wrote(), or will never be written.  Each admitted byte is
 * returned exactly once.  Any thread. */
void writeback_return(struct writeback *wb, uint64_t n, bool privileged);

struct writeback_stats {
    uint64_t dirty_bytes, window_bytes, admitted_bytes;
    uint64_t paced_ns;  /* time that writers were held back, summed */
    uint64_t waiting;   /* writers held back now */
    uint64_t flushes, flush_errors;
    uint64_t flush_p50_ns, flush_p99_ns, flush_max_ns;
};
void writeback_stats(const struct writeback *wb, struct writeback_stats *out);

#endif
