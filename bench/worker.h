/* Closed loops: each of c slots has one request under way and asks for the next when it is answered.
 *
 * A worker is a loop thread with its share of the slots, an HTTP client, a master client and counters of its own; workers meet
 * only in the phase, at one atomic number per request.  The main thread makes workers, starts a phase on all of them, watches
 * the counters, and reads the samples when the phase has ended.
 *
 * What a slot does in a phase is in one file each (worker_write.c, worker_read.c); a new kind of phase is one more of them. */
#ifndef DFS_BENCH_WORKER_H
#define DFS_BENCH_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/benchmark.h"
#include "bench/latency.h"
#include "bench/list_file.h"
#include "bench/report.h"

#define BENCH_ERROR_MAX 512
/* Content of all slots together. */
#define BENCH_BODIES_MAX (8ull << 30)
/* A phase without a single success for so long, and with so many failures since, is given up. */
#define BENCH_GIVE_UP_MS 10000u
#define BENCH_GIVE_UP_FAILURES 100u

struct worker;

/* What the workers of one phase share.  Made and read by the main thread; fields marked atomic change while it runs. */
struct bench_phase {
    enum report_phase kind;
    const struct benchmark_options *o;
    uint64_t total;
    const struct list *list;          /* read: what to read */
    const struct list_file *list_out; /* write: where acknowledged ids go */
    int ended_fd;                     /* eventfd; written when the last worker has ended; nobody frees the phase before */
    uint64_t start_ns;                /* of the monotonic clock */

    uint64_t next;         /* atomic: number of the next request */
    uint64_t abandoned;    /* atomic: requests that were given up unasked */
    uint64_t success_ms;   /* atomic: when a request last succeeded */
    uint64_t failures;     /* atomic: since then */
    uint32_t running;      /* atomic: workers that have not ended */
    pthread_mutex_t mutex; /* of what follows */
    char first_error[BENCH_ERROR_MAX];
};

struct worker_counts {
    uint64_t completed, failed; /* deletes included */
    uint64_t corrupt;           /* of the failed: answered with other bytes than were written */
    uint64_t transferred_bytes;
    uint64_t deletes;           /* queued: they add to the phase's total */
    uint64_t acknowledged;      /* writes that the server has taken */
};

/* The caller sets total, lists, running and start_ns.  DFS_EUNAVAILABLE: no descriptor for it. */
int bench_phase_init(struct bench_phase *p, enum report_phase kind, const struct benchmark_options *o);
void bench_phase_release(struct bench_phase *p);
/* Keeps the first. */
void bench_phase_error(struct bench_phase *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* No more requests are begun; what was not begun counts as failed.  Any thread. */
void bench_phase_stop(struct bench_phase *p);

/* One of the workers that `running` counts has ended; from here on the phase may be gone.  Any thread. */
void bench_phase_worker_ended(struct bench_phase *p);

/* A worker with its thread running, for `slots` requests at once over at most `connections` to one address.  0 or a code with
 * one line in error. */
int worker_new(const struct benchmark_options *o, int index, uint32_t slots, uint32_t connections,
               struct worker **out, char error[BENCH_ERROR_MAX]);
/* Ends the thread.  After its phase has ended. */
void worker_free(struct worker *w);

/* Main thread; the phase, whose `running` counts this worker already, must live until it has ended.  DFS_ENOMEM: not begun. */
int worker_begin(struct worker *w, struct bench_phase *p);
/* Of the phase under way or ended last.  Any thread. */
struct worker_counts worker_counts(const struct worker *w);
/* After the phase has ended: its samples, when its last request was answered, and "host:port" of a volume server that it spoke
 * to (or ""). */
struct latency *worker_latency(struct worker *w);
uint64_t worker_end_ns(const struct worker *w);
/* CPU of its thread in the phase that has ended. */
uint64_t worker_cpu_ns(const struct worker *w);
void worker_server(const struct worker *w, char *out, size_t cap);

#endif
