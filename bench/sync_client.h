/* One question at a time, waited for: what the tools and the benchmark's first look at a store are made of.
 *
 * A loop of its own, turned on the calling thread only while it waits.  One thread. */
#ifndef DFS_BENCH_SYNC_CLIENT_H
#define DFS_BENCH_SYNC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/assign_reply.h"
#include "needle/bytes.h"
#include "net/addr.h"
#include "net/http_parse.h"

#define SYNC_ANSWER_MAX (1u << 20) /* bodies that are kept */
#define SYNC_HEADER_MAX 1024u
#define SYNC_ERROR_MAX 512u

struct sync_client;

/* 0, or a code with one line in error. */
int sync_client_new(const char *masters, uint32_t timeout_ms, bool use_public_url, struct sync_client **out,
                    char error[SYNC_ERROR_MAX]);
void sync_client_free(struct sync_client *c);

/* 0, or a code with one line in error.  *addr is valid as long as the client. */
int sync_assign(struct sync_client *c, struct bytes query, struct fid *fid, const struct addr **addr,
                char error[SYNC_ERROR_MAX]);
/* DFS_ENOTFOUND: the master answered that nobody has the volume. */
int sync_lookup(struct sync_client *c, uint32_t volume_id, const struct addr **addr, char error[SYNC_ERROR_MAX]);

struct sync_request {
    const struct addr *addr;
    enum http_method method;
    const char *target;
    struct bytes headers;
    const struct bytes *body;
    uint32_t body_count;
    /* Body of a 2xx answer in pieces, instead of into the answer; its negative return ends the call with that.  May be NULL. */
    int (*sink)(void *arg, struct bytes in);
    void *arg;
};

struct sync_answer {
    int status;
    char *body; /* SYNC_ANSWER_MAX at most, the rest is dropped; closed by a NUL; owned */
    size_t body_n;
    uint64_t total_bytes;
    char disposition[SYNC_HEADER_MAX], etag[64]; /* headers, "" when absent or longer */
    bool is_manifest;                            /* X-File-Store: chunked */
};

/* 0: an answer came, whatever its status; release it.  Negative: none, nothing to release. */
int sync_call(struct sync_client *c, const struct sync_request *req, struct sync_answer *a);
void sync_answer_release(struct sync_answer *a);

/* "404 Not here" on one line: the status and the front of the body. */
void sync_answer_text(const struct sync_answer *a, char *out, size_t cap);

#endif
