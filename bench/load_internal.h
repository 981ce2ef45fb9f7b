/* What the load engine's files share.  Nobody else includes this.
 *
 * A slot has an operation under way, or sits in one of: the ready list (done in this step, goes on at the end of it), the queue of
 * those whose time has not come (open loop), the wheel (pausing after a failure, or told to wait), or it has ended.  A slot belongs
 * to its worker's loop thread; workers meet in the phase, under its mutex; counters are written by their worker and read by the
 * main thread. */
#ifndef DFS_BENCH_LOAD_INTERNAL_H
#define DFS_BENCH_LOAD_INTERNAL_H

#include <pthread.h>

#include "bench/arrivals.h"
#include "bench/call_text.h"
#include "bench/load.h"
#include "bench/master_client.h"
#include "net/wheel.h"

#define LOAD_PAUSE_MS 20u /* after a failure, so that a dead server is not asked a million times a second */
#define LOAD_QUERY_MAX 384u

struct load_worker;

struct load_slot {
    struct load_worker *worker;
    struct load_slot *next; /* in the ready list or in the queue of those that are not due */
    struct wheel_node pause;
    uint32_t number;
    bool has_due;           /* it took an arrival that has not begun */
    uint64_t start_ns;      /* of the operation; open loop: when it was or is due */

    struct load_op op;
    const struct addr *addr;
    int status;
    bool corrupt;
    uint64_t got_bytes, content_key;
    char *body;             /* upload */
    size_t body_cap;
    char target[CALL_TARGET_MAX];
    char query[LOAD_QUERY_MAX];
    struct call_reason reason;
    union {
        struct master_assign assign;
        struct master_lookup lookup;
    } ask;
};

/* Ids that an assign brought beyond the first. */
struct load_ids {
    struct fid fid; /* the next one */
    uint64_t left;
    const struct addr *addr;
};

struct load_count {
    uint64_t started, finished, failed, corrupt, bytes;
    uint64_t latency_sum_ns;
    uint64_t latency_max_ns; /* since the main thread last took it, and set it to 0 */
};

/* Written by the worker with relaxed stores; latency_max_ns by the main thread too, which may lose a sample between two seconds. */
struct load_counters {
    struct load_count kinds[LOAD_KINDS];
    uint64_t last_latency_ns, last_end_ns; /* of the right one that ended last */
};

/* What the workers of one phase share.  Made and read by the main thread. */
struct load_phase {
    const struct load_plan *plan;
    uint64_t start_ns, deadline_ns; /* deadline: UINT64_MAX when there is none */
    int ended_fd;                   /* eventfd; written when the last worker has ended */
    uint32_t running;               /* atomic: workers that have not ended */
    bool stopped;                   /* atomic: begin nothing more */

    pthread_mutex_t mutex; /* of what follows, and of the source */
    struct arrivals arrivals;
    uint64_t begun;
    uint64_t missed;
    uint32_t ran_out;      /* slots that were told LOAD_NO_MORE */
    uint64_t success_ms;   /* when an operation last succeeded */
    uint64_t failures;     /* since then */
    bool gave_up;
    char first_error[LOAD_ERROR_MAX];
    char errors[LOAD_KINDS][LOAD_ERROR_MAX];
};

struct load_worker {
    const struct load_options *o;
    struct loop *loop;
    bool started;
    struct http_client *http;
    struct master_client *masters;
    struct wheel pauses;
    int due_fd;             /* timerfd: the head of the queue is due */
    struct event *due_event;
    struct load_slot *due_first, **due_last; /* in the order of their time */
    struct load_slot *ready_first, **ready_last;

    struct load_phase *phase; /* under way; NULL between phases */
    struct load_phase *begin_phase;
    struct loop_msg begin_msg;
    struct load_slot *slots;
    uint32_t slot_count, busy; /* busy: slots that have not ended */
    struct load_ids *ids;      /* at most one for each slot */
    uint32_t ids_count;
    char assign_query[LOAD_QUERY_MAX - 64];
    char upload_query[16];     /* with its question mark, or empty */

    uint64_t begin_cpu_ns, cpu_ns, verify_ns; /* CPU of this thread in the phase */
    uint64_t end_ns;           /* of its last answer */
    struct latency latency[LOAD_KINDS];

    /* Away from the rest. */
    _Alignas(64) struct load_counters counters;
};

/* ---- load_worker.c ---- */

/* A worker with its thread running.  first_slot: number of its first one.  0 or a code with one line in error. */
int load_worker_new(const struct load_options *o, uint32_t index, uint32_t first_slot, uint32_t slots, uint32_t connections,
                    struct load_worker **out, char error[LOAD_ERROR_MAX]);
/* Ends the thread; no phase may be under way. */
void load_worker_free(struct load_worker *w);
/* Main thread.  DFS_ENOMEM: not begun. */
int load_worker_begin(struct load_worker *w, struct load_phase *p);
/* Any thread.  latency_max_ns is 0 here. */
struct load_counters load_worker_counters(const struct load_worker *w);
/* The longest right one of a kind since the last call. */
uint64_t load_worker_take_max_ns(struct load_worker *w, int kind);

/* The operation is over: rc 0, or why not.  The slot goes on at the end of this step, or after a pause. */
void load_slot_ended(struct load_slot *s, int rc);
/* Keeps the text if it is the first of its kind, and the first of all; LOAD_KINDS: of no kind. */
void load_phase_error(struct load_phase *p, enum load_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- load_ops.c ---- */

/* Texts that stay the same. */
void load_ops_prepare(struct load_worker *w);
/* Begins s->op; ends in load_slot_ended(), perhaps before it returns. */
void load_slot_begin(struct load_slot *s);

#endif
