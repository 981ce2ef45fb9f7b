/* One call to one sister, the form that carries a needle to it, and the queue of undos that wait to be delivered.
 * Internal to replicate.c.  Loop thread. */
#ifndef DFS_VOLUME_REPLICA_CALL_H
#define DFS_VOLUME_REPLICA_CALL_H

#include "volume/replicate.h"

#define REPLICA_TARGET_MAX 384u
#define REPLICA_ERROR_MAX 256u

struct sister {
    struct replicated_write *owner;
    struct addr addr;
    char url[ADDR_TEXT_MAX];
    void (*done)(struct sister *s);
    struct http_call *call;
    bool retried, refused; /* refused: it answered that it did nothing */
    int rc;
    uint64_t last_ns;
    char error[REPLICA_ERROR_MAX];
    size_t error_len;
    /* for a second try on a fresh connection */
    struct vs_loop *l;
    enum http_method method;
    char target[REPLICA_TARGET_MAX];
    size_t target_len;
    char *headers;
    const struct bytes *pieces;
    uint32_t piece_count, deadline_ms;
};

/* Names the server at that address; owner is told of its answer. */
void sister_init(struct sister *s, struct replicated_write *owner, const struct volume_location *at);
/* meta: whose pairs and flags go into the headers; NULL for a delete.  done is called once, never inside. */
int sister_start(struct sister *s, struct vs_loop *l, enum http_method method, struct bytes target, const struct needle *meta,
                 const struct bytes *pieces, uint32_t piece_count, uint32_t deadline_ms, void (*done)(struct sister *s));
void sister_release(struct sister *s);

/* "/3,01637037d6?type=replicate&ts=...": returns its length.  undo: this takes back a write with those stamps; NULL = none. */
size_t replica_target(const struct fid *fid, const struct needle *meta, bool is_delete, bool fsync, uint64_t stamp_ns,
                      bool explicit_ts, const struct needle_undo *undo, char out[REPLICA_TARGET_MAX]);
/* The other end: what stands in the query.  DFS_EINVAL. */
int replica_undo_parse(const struct http_params *p, struct needle_undo *out);
/* What stands before and behind the data in the form; malloc'd texts. */
int replica_form(const struct needle *meta, char **head, char **tail);
/* "Content-Type: ...\r\n", flags and pairs; malloc'd. */
int replica_headers(const struct needle *meta, char **out);

/* The bound on bodies that were read back from staging for sisters: at least one fits always.  Any thread. */
bool replica_spill_take(uint64_t n);
void replica_spill_give(uint64_t n);

#define UNDO_CONFIRMS 2u
#define UNDO_CONFIRM_MS 5000u
/* meta NULL: a delete; else a write of data.  Copies all.  Tried now and, until it is answered, again with growing pauses.
 * in_doubt: the write to be undone was not answered, and may arrive behind its undo: then it is said again, twice. */
void undo_queue_add(struct undo_queue *q, const struct addr *addr, struct bytes target, const struct needle *meta,
                    struct bytes data, bool in_doubt);

#endif
