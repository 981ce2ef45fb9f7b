/* One read in progress: internal to handlers_read.c, read_body.c, gunzip.c, proxy.c and manifest.c.
 *
 * A read that is answered from memory at once lives for one call and goes back to its loop's spare list.  Otherwise it belongs
 * to the request (held) until the answer's head is out, then to the answer's source.  An engine call or work item in flight
 * keeps it alive as an orphan when the client goes away.  Loop thread. */
#ifndef DFS_VOLUME_READ_OP_H
#define DFS_VOLUME_READ_OP_H

#include "volume/handlers.h"

#define READ_SPARES_MAX 64u
/* A chunk manifest larger than this is not served (and not accepted). */
#define MANIFEST_BYTES_MAX (NEEDLE_READ_SMALL_MAX - 4096u)

struct gunzip;
struct manifest_read;

/* The request headers that matter, found in one pass. */
struct read_wants {
    struct bytes range, if_range, if_match, if_none_match, if_modified_since, if_unmodified_since;
    bool gzip, origin;
};

struct read_op {
    struct http_req *r;
    struct vs_loop *l;
    struct read_wants wants;
    struct http_params *params; /* NULL without a query */
    struct bytes url_name, ext; /* from the path */
    bool head, raw_manifest, attachment;
    bool started; /* nr holds something */
    bool pending; /* the engine or a worker has it */
    bool held;    /* so is the request */
    bool in_body; /* a source has it: what arrives is asked for by next() */
    bool orphan;  /* nobody waits any more: release when pending ends */

    struct needle_read nr;
    void (*after_read)(struct read_op *op, int rc); /* what goes on when nr brings something; NULL = the answer */

    /* the body */
    struct http_source src;
    int (*fetch)(struct read_op *op, uint64_t off, uint64_t want, struct http_piece *out);
    struct http_range ranges[HTTP_RANGES_MAX];
    uint32_t range_count, range_i;
    uint64_t range_pos;
    bool multi, part_head_out, trailer_out;
    uint64_t length;         /* of the whole representation */
    struct bytes type;       /* of it, for part heads */
    struct bytes pair_type, pair_disposition; /* stored as pairs; they stand in for what we would say.  The request's memory */
    char part_head[512];
    char *copy;              /* of small data that outlives the step */
    struct gunzip *gz;
    struct manifest_read *mf;
    uint64_t counted_bytes;  /* in download_bytes */

    struct read_op *next_spare;
};

/* Frees or keeps for later; takes everything with it.  Not while pending. */
void read_op_release(struct read_op *op);
/* The request is not needed any more: release now, or when what is pending ends. */
void read_op_abandon(struct read_op *op);
/* What was pending has come: goes on with the body's source, or with next(op, rc), or releases an orphan. */
void read_op_arrived(struct read_op *op, int rc, void (*next)(struct read_op *op, int rc));
/* Keeps the request while the op waits, until read_op_arrived() or the op's release. */
void read_op_hold(struct read_op *op);

/* The needle (or its inflated form: `length`) as an answer: conditions, ranges, headers, body.  Takes op. */
void read_answer(struct read_op *op, uint64_t length, bool gzip_encoding);
/* Answers with what is stored, inflated for who takes no gzip: files, and what only claims to be a chunk manifest. */
void read_stored(struct read_op *op);
/* Body of op->ranges over op->fetch: hands op to a source.  Takes op. */
void read_body_start(struct read_op *op, uint64_t body_bytes);
/* Bytes of a multipart/byteranges body, and its boundary. */
uint64_t read_multipart_bytes(struct read_op *op);
#define READ_BOUNDARY "dfs_byteranges_7c4b1f0a92de"
/* Copies an in-memory needle, texts and data, so that it outlives this step of the loop; DFS_ENOMEM. */
int read_keep_data(struct read_op *op);

/* gunzip.c: answers with the inflated bytes.  Takes op; its needle is loaded with data. */
void gunzip_answer(struct read_op *op);
void gunzip_free(struct gunzip *g);

/* manifest_read.c: answers with the content that the chunks make up.  Takes op; data in memory. */
void manifest_answer(struct read_op *op);
void manifest_read_free(struct manifest_read *g);
/* The client is gone.  True when nothing is in flight any more. */
bool manifest_read_stop(struct manifest_read *g);

/* proxy.c: the needle is elsewhere (or broken here).  Takes op, whose needle read has been released. */
enum proxy_reason { PROXY_NOT_HERE, PROXY_BROKEN };
void proxy_answer(struct read_op *op, uint32_t volume_id, enum proxy_reason why);
void redirect_answer(struct read_op *op, const struct fid *fid);

#endif
