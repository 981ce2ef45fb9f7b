/* What the worker's files share.  Nobody else includes this.
 *
 * A slot is idle, has one request under way, sits in the ready list (done in this step, goes on at the end of it), or pauses
 * after a failure.  Everything here belongs to the worker's loop thread, but for the counters, which others read. */
#ifndef DFS_BENCH_WORKER_INTERNAL_H
#define DFS_BENCH_WORKER_INTERNAL_H

#include "bench/call_text.h"
#include "bench/master_client.h"
#include "bench/worker.h"
#include "net/wheel.h"

#define WORKER_PAUSE_MS 20u         /* after a failure, so that a dead server is not asked a million times a second */
#define WORKER_DELETE_AFTER_MS 1000u
#define WORKER_DELETES_PER_SLOT 7u  /* under way at once */
#define WORKER_LINES_BYTES 65536u
#define WORKER_QUERY_MAX 384u

struct slot {
    struct worker *worker;
    struct slot *next_ready;
    struct wheel_node pause;
    uint64_t start_ns;
    uint64_t number;
    struct fid fid;
    const struct addr *addr;
    int status;
    uint64_t expected_bytes, got_bytes; /* read */
    bool corrupt;
    bool has_etag;                      /* read of a foreign list */
    uint32_t etag, crc;
    char *body;                         /* write */
    uint64_t body_bytes;
    char target[CALL_TARGET_MAX];
    struct call_reason reason; /* of an answer that refuses, for the first error */
    union {
        struct master_assign assign;
        struct master_lookup lookup;
    } ask;
};

/* Ids that an assign brought beyond the first. */
struct id_run {
    struct fid fid; /* the next one */
    uint64_t left;
    const struct addr *addr;
};

struct delete_entry {
    struct fid fid;
    const struct addr *addr;
    uint64_t due_ms;
};

struct delete_call {
    struct worker *worker;
    struct delete_call *next;
    struct fid fid;
    char target[CALL_TARGET_MAX];
};

struct worker {
    const struct benchmark_options *o;
    struct loop *loop;
    bool started;
    struct http_client *http;
    struct master_client *masters;
    struct wheel pauses;

    struct bench_phase *phase; /* under way; NULL between phases */
    struct loop_msg begin_msg;
    struct bench_phase *begin_phase;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t busy; /* slots that have not run out of requests */
    bool hook_set;
    struct slot *ready_first, **ready_last;
    bool any_success; /* in this step */

    char *lines; /* acknowledged in this step, not yet in the list file */
    size_t lines_n;

    struct id_run *runs; /* at most one for each slot */
    uint32_t run_count;

    char assign_query[WORKER_QUERY_MAX];
    char upload_query[WORKER_QUERY_MAX]; /* with its question mark, or empty */
    char upload_headers[128];
    char part_head[256], part_tail[80];
    size_t upload_headers_n, part_head_n, part_tail_n, upload_query_n;

    struct delete_entry *deletes; /* a ring */
    size_t delete_first, delete_count, delete_cap;
    uint32_t deletes_under_way;
    struct delete_call *free_deletes;
    struct loop_timer delete_timer;

    struct latency latency;
    uint64_t end_ns;
    uint64_t begin_cpu_ns, cpu_ns; /* CPU of this thread in the phase */
    char server[ADDR_TEXT_MAX];

    /* Written here with relaxed stores, read by the main thread; away from the rest. */
    _Alignas(64) struct worker_counts counts;
};

/* ---- worker.c ---- */

static inline void count_add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* Takes the sample of a slot's request. */
void slot_sample(struct slot *s);
/* The slot's request is over and it asks for the next one, at the end of this step or after a pause. */
void slot_succeeded(struct slot *s, uint64_t bytes);
void slot_failed(struct slot *s);
/* First error of a request: "cannot write 3,01637037d6 to 127.0.0.1:8080: 500 {...}". */
void slot_report(const struct slot *s, const char *what, int rc);
/* Ends the phase on this worker when nothing is left to do. */
void worker_look_for_end(struct worker *w);

/* ---- worker_write.c, worker_read.c ---- */

/* Texts and memory that the phase needs.  0 or DFS_ENOMEM. */
int worker_write_prepare(struct worker *w);
/* Begin the slot's request; ends in slot_succeeded() or slot_failed(). */
void slot_write(struct slot *s);
void slot_read(struct slot *s);

/* ---- worker_delete.c ---- */

/* Later.  DFS_ENOMEM. */
int worker_delete_later(struct worker *w, const struct fid *fid, const struct addr *addr);
void worker_delete_release(struct worker *w);
void on_delete_timer(void *arg);

#endif
