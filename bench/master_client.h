/* Asking the masters: assign and lookup over HTTP, with failover, waiting for growth, and a cache of places.
 *
 * One per loop, on that loop's thread, over the loop's HTTP client.  A master that does not answer costs one try, then the
 * next of the list is asked; 503 and 429 (a leader that warms up, volumes that grow) are waited out, a bounded number of
 * times.  A refusal is final and its text is kept.  Names of hosts are resolved once, when first seen, and that blocks. */
#ifndef DFS_BENCH_MASTER_CLIENT_H
#define DFS_BENCH_MASTER_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/assign_reply.h"
#include "needle/bytes.h"
#include "needle/fid.h"
#include "net/addr.h"
#include "net/http_client.h"
#include "net/loop.h"

#define MASTERS_MAX 16u
#define MASTER_RETRIES 8u          /* waits for a master that says "later" */
#define MASTER_WAIT_FIRST_MS 100u  /* doubled each time */
#define MASTER_WAIT_MAX_MS 2000u
#define MASTER_ANSWER_MAX 2048u    /* of an assign */
#define MASTER_LOOKUP_MAX 65536u   /* of a lookup */
#define MASTER_PLACES_MAX 16u      /* of one volume; more are not remembered */
#define MASTER_CACHE_MS 600000u
#define MASTER_ADDRESSES_MAX 65536u

struct master_client;

struct master_client_options {
    struct loop *loop;
    struct http_client *http;
    const char *masters;     /* comma list of host:port */
    uint32_t timeout_ms;     /* of one request; all tries together: three times that */
    bool use_public_url;
};

/* Parses and resolves the masters.  DFS_EINVAL, DFS_ENOTFOUND, DFS_ENOMEM with one line in error. */
int master_client_new(const struct master_client_options *o, struct master_client **out, char error[ASSIGN_ERROR_MAX]);
/* The same for a worker that puts load on servers, over an HTTP client that is made for it: up to `connections` to each address and
 * `waiting` calls that wait for one.  o->http is set here.  What was made is left in *http and *out, also on failure, and is the
 * caller's to free. */
int master_client_new_for_load(struct master_client_options *o, uint32_t connections, uint32_t waiting, struct http_client **http,
                               struct master_client **out, char error[ASSIGN_ERROR_MAX]);
/* Nothing may be under way. */
void master_client_free(struct master_client *m);

/* A question with its tries; embedded in what asks. */
struct master_question {
    /* private */
    struct master_client *client;
    struct http_call *call;
    struct loop_timer again;
    char target[512];
    uint32_t master;      /* which one is asked */
    uint32_t unanswered;  /* masters that failed since one answered */
    uint32_t waits;
    uint64_t give_up_ms;
    uint32_t retry_after_ms;
    char *answer;
    size_t answer_n, answer_cap;
    void (*answered)(struct master_question *q, int rc, int status);
};

struct master_assign {
    /* set by the caller */
    struct bytes query; /* "count=1&collection=x"; borrowed until done */
    void (*done)(struct master_assign *a, int rc);
    /* for done, when rc is 0 */
    struct assign_reply reply;
    const struct addr *addr; /* of the server; valid as long as the client */
    /* private */
    struct master_question question;
    char answer[MASTER_ANSWER_MAX];
};

/* done is called once, never inside: 0, or a code with the reason in reply.error (DFS_ENOSPC: the master refused;
 * DFS_EUNAVAILABLE, DFS_ETIMEOUT, ...).  Negative: not started, reply.error says why. */
int master_assign_start(struct master_client *m, struct master_assign *a);

struct master_lookup {
    uint32_t volume_id;
    void (*done)(struct master_lookup *l, int rc);
    const struct addr *addr; /* one of the places, by chance */
    char error[ASSIGN_ERROR_MAX];
    struct master_lookup *next; /* private */
};

/* A place of the volume by chance, when known; else NULL, and it must be looked up. */
const struct addr *master_client_place(struct master_client *m, uint32_t volume_id);
/* done is called once, never inside: 0, DFS_ENOTFOUND (nobody has the volume), or as above.  Negative: not started. */
int master_lookup_start(struct master_client *m, struct master_lookup *l);
/* What was known is doubtful: ask again next time.  At most once a second for each volume. */
void master_client_forget(struct master_client *m, uint32_t volume_id);

#endif
