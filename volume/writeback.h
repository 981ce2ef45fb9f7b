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

struct writeback_options {
    const char *name;       /* thread name */
    uint64_t window_bytes;  /* -dirtyMB; at least 4 MB */
    bool datasync;          /* close each window with fdatasync (paced) */
    uint32_t max_age_ms;    /* of dirty bytes before they are flushed anyway */
    bool drop_behind;       /* give pages back once clean */
};

/* One file that is written to; embedded in its owner (a volume generation).  Must be detached before the fd is closed. */
struct writeback_file {
    int fd;
    uint64_t started_pos, waited_pos, written_pos; /* private */
    struct writeback *wb;
    struct writeback_file *next;
    bool queued;
    /* On the flusher thread, once, when a flush of this file failed. */
    void (*on_error)(struct writeback_file *f, int rc);
};

int writeback_new(const struct writeback_options *o, struct writeback **out);
void writeback_free(struct writeback *wb);

void writeback_attach(struct writeback *wb, struct writeback_file *f, int fd, uint64_t pos);
/* Waits until the flusher has let go of it.  Not on a loop thread. */
void writeback_detach(struct writeback_file *f);

/* The writer wrote up to pos.  Writer thread. */
void writeback_wrote(struct writeback_file *f, uint64_t pos);
/* All bytes of f up to pos are on the disk (the writer did its own fdatasync). */
void writeback_synced(struct writeback_file *f, uint64_t pos);

/* Admission of n body bytes.  True: go on (counted until written or writeback_forget()).  False: w is queued; run is posted to
 * its loop when admitted.  Loop threads. */
struct writeback_waiter {
    struct loop_msg msg;
    struct loop *loop;
    struct writeback_waiter *next, *prev;
    uint64_t bytes, since_ns;
    bool queued, posted, privileged;
};
bool writeback_admit(struct writeback *wb, struct writeback_waiter *w, uint64_t n);
/* Admitted bytes that will not be written after all; also takes back a waiting w (w may be NULL). */
void writeback_forget(struct writeback *wb, struct writeback_waiter *w, uint64_t n);

struct writeback_stats {
    uint64_t dirty_bytes, window_bytes, admitted_bytes;
    uint64_t paced_ns;  /* time that writers were held back, summed */
    uint64_t waiting;   /* writers held back now */
    uint64_t flushes, flush_errors;
    uint64_t flush_p50_ns, flush_p99_ns, flush_max_ns;
};
void writeback_stats(const struct writeback *wb, struct writeback_stats *out);

#endif
