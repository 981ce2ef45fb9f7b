/* Reading, writing and deleting one needle: what request handlers call.
 *
 * Nothing here blocks.  What needs the disk goes to the location's reader pool or writer thread, and `done` is posted to the
 * request's loop.  The structs are embedded in the request's state and zeroed by the caller before use. */
#ifndef DFS_VOLUME_NEEDLE_IO_H
#define DFS_VOLUME_NEEDLE_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/fid.h"
#include "needle/needle.h"
#include "net/http_server.h"
#include "net/work.h"
#include "volume/append_queue.h"
#include "volume/stage.h"
#include "volume/store.h"

/* Records up to this are read whole with one call and always verified. */
#define NEEDLE_READ_SMALL_MAX (256u * 1024u)

/* ---- read ---- */
struct needle_read {
    /* in */
    struct store *store;
    struct loop *loop;
    struct fid fid;
    bool meta_only;    /* HEAD: no body, CRC not checked */
    bool read_deleted; /* serve a deleted needle until it is vacuumed */
    bool skip_cookie;  /* caller is trusted (BatchDelete with skip_cookie_check, manifests) */
    void (*done)(struct needle_read *r, int rc); /* loop thread; only after DFS_EAGAIN */

    /* out, valid until needle_read_release(); small data of a synchronous read: until control returns to the loop */
    uint8_t version;
    struct needle needle;
    uint32_t data_crc;  /* unmasked, for the ETag */
    bool in_memory;
    struct bytes data;  /* in_memory */

    /* private */
    struct volume *volume;
    struct volume_gen *gen;     /* a reference, once the request outlives the loop step; it keeps the volume */
    struct needle_value value;
    uint64_t pos, record_bytes;
    void *buf;                  /* the record, or what stands behind the data of a large one */
    struct needle_large *large; /* volume_read_large.c */
    struct work work;
    int rc;
    uint8_t step;
};
/* 0: ready.  DFS_EAGAIN: done() will be called.  DFS_ENOVOLUME, DFS_ELOADING, DFS_ENOTFOUND (also deleted, expired), DFS_ECOOKIE,
 * DFS_ECORRUPT, DFS_EIO, DFS_EUNAVAILABLE (closing, or its files are gone), DFS_ENOMEM. */
int needle_read_start(struct needle_read *r);
/* The next piece of the data at [off, off + want), which must be inside and not empty: at most 256 KB, as a file range that is in
 * the page cache, for sendfile, or as memory (valid until the next piece is asked for).  DFS_EAGAIN: done() will be called, then
 * ask again.  DFS_ECORRUPT, DFS_EIO, DFS_ENOMEM: the rest cannot be had. */
int needle_read_piece(struct needle_read *r, uint64_t off, uint64_t want, struct http_piece *out);
/* In any state but between DFS_EAGAIN and done(). */
void needle_read_release(struct needle_read *r);

/* ---- write and delete ---- */
enum durability { DURABILITY_NONE, DURABILITY_PACED, DURABILITY_GROUP };

/* A write that takes another one back, which was sent with one of these times: due only while that one is what is there. */
#define NEEDLE_UNDO_STAMPS_MAX 4u
struct needle_undo {
    uint64_t stamps_ns[NEEDLE_UNDO_STAMPS_MAX];
    uint32_t count; /* 0: no undo */
    bool of_delete; /* what is taken back was a delete */
};

struct needle_write {
    /* in; everything pointed to stays valid until done() */
    struct store *store;
    struct loop *loop;
    struct fid fid;
    bool is_delete;
    struct needle meta;      /* flags, name, mime, pairs, ttl, last_modified_s; the rest is filled in */
    struct stage *stage;     /* data, finished; NULL = empty or delete */
    enum durability durability; /* raised to the store's own mode when lower */
    uint64_t append_at_ns;   /* given by the first server; 0 = stamp here */
    bool explicit_ts;        /* last_modified_s was asked for: counts as a change */
    bool skip_cookie;        /* deletes only */
    bool privileged;         /* replica write, undo */
    bool want_replaced;      /* replaced_ns is asked for */
    struct needle_undo undo; /* DFS_ESTALE when it is not due any more; may pass the volume's limit */
    bool late;               /* append_at_ns may be below the volume's newest: the caller has seen that the needle's own record is
                              * older (replica writes sent side by side arrive in any order) */
    void (*done)(struct needle_write *w, int rc); /* loop thread, exactly once, if needle_write_start() returned 0 */

    /* out */
    bool unchanged;          /* nothing was appended: the same is there already */
    bool replaced;           /* another content of the key was there */
    uint64_t stamped_ns;     /* append time in the record */
    uint64_t replaced_ns;    /* append time of the live record that it took the place of; 0 = none, or not known (v1, v2) */
    uint64_t last_ns;        /* newest append time of the volume */
    uint32_t old_body_bytes; /* delete: Size of what was deleted */
    uint32_t data_crc;       /* unmasked */

    /* private */
    struct writer_cmd cmd;     /* place in the writer's queue */
    struct loop_msg msg;
    struct needle_write *next; /* answered together, on one loop */
    struct volume *volume;
    struct volume_gen *gen;    /* while the old record is read by the pool */
    struct work work;
    struct needle_old {        /* the record before, for cookie and "unchanged" */
        struct needle_value value;
        bool looked, live;     /* looked: as seen on the loop */
        bool same;             /* content compared and equal */
        uint32_t cookie;
        uint32_t checksum;     /* deletes */
        uint64_t append_at_ns; /* same */
    } old;
    int rc;
    bool retried;
};
/* Checks and queues.  0: done() will be called, never inside.  Negative: refused at once, done() will not be called:
 * DFS_ENOVOLUME, DFS_ELOADING, DFS_EREADONLY, DFS_EFULL (over the volume's limit), DFS_ENOSPC, DFS_ETOOBIG, DFS_EIO (volume
 * broken), DFS_EUNAVAILABLE (closing, or its files are gone), DFS_ECOOKIE, DFS_ENOTFOUND.
 * done() may bring: DFS_ECOOKIE, DFS_ENOTFOUND (delete of what is not there), DFS_ESTALE (given time not above the volume's
 * last), DFS_EIO, DFS_ENOSPC, DFS_EREADONLY, DFS_EFULL, DFS_ENOVOLUME, DFS_ECORRUPT (the old record cannot be read, so its cookie
 * cannot be compared).
 *
 * A limit is not passed but by the last record, which is begun below it.  The first server has decided that for its sisters: their
 * copies, whose lengths may differ a little, take a replica write up to a sixteenth of the limit beyond. */
int needle_write_start(struct needle_write *w);

#endif
