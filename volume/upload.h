/* One upload: from the request's head to a finished stage and the needle's texts.  Raw bodies and forms alike.
 *
 * What it decides, it decides once, on the first server: name, type, compression, times.  A replica (type=replicate) takes all of
 * that as it comes.  Lives in the request's memory; loop thread. */
#ifndef DFS_VOLUME_UPLOAD_H
#define DFS_VOLUME_UPLOAD_H

#include "net/multipart.h"
#include "volume/handlers.h"

/* A form may be so much longer than the file in it. */
#define UPLOAD_FORM_SLACK (1u << 20)
#define UPLOAD_PAIRS_MAX 256u

struct upload {
    struct http_req *r;
    struct vs_loop *l;
    struct fid_path path;
    struct bytes last_element; /* of the path: the name of a raw upload */

    /* from the query */
    bool replicate, manifest, fsync, explicit_ts;
    uint64_t ts_s, ts_ns;
    struct needle_undo undo;
    struct ttl ttl;
    int stored_flags; /* what the first server stored, or -1 (X-Dfs-Flags) */

    /* the body */
    struct stage *stage;
    struct multipart *form;
    bool gzip;          /* the bytes are gzip already */
    void *room;         /* where bytes are being received */
    bool paused;        /* waiting for the stage, the request is held */
    void (*on_stage_ready)(struct upload *u); /* instead of reading on */
    uint64_t counted_bytes; /* in upload_bytes */

    /* what is stored around the data */
    struct bytes name, mime, pairs;
    bool mime_given;
    struct bytes md5_text; /* Content-MD5 as sent */
    bool md5_wanted;
};

/* Reads head and query, checks volume and limits, opens the stage.  On failure the request has been answered (or will be). */
int upload_begin(struct upload *u, struct http_req *r, struct bytes path);
/* The handler's on_body. */
int upload_feed(struct upload *u, struct bytes in, size_t *taken);
/* The same for bytes that are received where the stage keeps them: see struct http_direct. */
size_t upload_room(struct upload *u, void **p);
size_t upload_filled(struct upload *u, size_t n);
/* The body is here.  0: complete.  DFS_EAGAIN: on_stage_ready will be called, then call again.  Else the request has been
 * answered. */
int upload_end(struct upload *u);
/* What the body may have at most, as it is sent and inflated. */
uint64_t upload_limit_bytes(const struct upload *u);
/* Frees what is not the request's. */
void upload_release(struct upload *u);

#endif
