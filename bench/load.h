/* The load engine: a number of slots that carry out operations on a store, as fast as it answers or at a given rate, for a time or
 * a count, and what came of it, second by second and by kind of operation.
 *
 * Who decides what is done is a source: two functions that the engine asks for the next operation of a slot and tells how it
 * ended.  What is done is the engine's: ids from the master, uploads of content made from (seed, id, version), downloads compared
 * with it byte by byte, deletes.  A new mode of the benchmark is a new source and a new report; it needs nothing from inside.
 *
 *   load_new()   threads, connections; once
 *   load_run()   one phase: blocks the calling thread, calls on_second about once a second
 *   load_run()   the next, over the same connections
 *   load_free()
 *
 * Threads: load_* belong to one thread, and on_second is called there.  The functions of a source are called on the engine's loop
 * threads, but never two at once (one lock around them), so a source needs no lock of its own; what it does must be short (a list
 * in memory, one write(2)), since every slot of every loop waits for it.
 *
 * Time of an operation.  Closed loop (rate 0): from its start, the question for an id included, to the last byte of the answer.
 * Open loop: from the moment it was due, whether or not a slot was free then, so that waiting counts (coordinated omission is
 * avoided).  What was due before the end and never begun is `missed`. */
#ifndef DFS_BENCH_LOAD_H
#define DFS_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/latency.h"
#include "needle/fid.h"
#include "net/addr.h"

#define LOAD_ERROR_MAX 512u
#define LOAD_LOOPS_MAX 64u
#define LOAD_SLOTS_MAX 10000u
#define LOAD_OBJECT_BYTES_MAX 2146435072u
#define LOAD_BODIES_BYTES_MAX (8ull << 30) /* contents of all slots together */
/* A phase without a single success for so long, and with so many failures since, is given up. */
#define LOAD_GIVE_UP_MS 10000u
#define LOAD_GIVE_UP_FAILURES 100u
#define LOAD_LATER_MS 2u             /* after a source said "later" */

enum load_kind {
    LOAD_WRITE,     /* an id from the master, then an upload */
    LOAD_READ,      /* of an object, or of a range of it */
    LOAD_OVERWRITE, /* an upload under an id that has an object already */
    LOAD_DELETE,
    LOAD_KINDS
};
/* "write", "read", "overwrite", "delete". */
const char *load_kind_name(enum load_kind kind);

struct load_op {
    enum load_kind kind;
    struct fid fid;        /* of the object; LOAD_WRITE: set by the engine before done() is called (key 0: none was given) */
    uint64_t size_bytes;   /* of the object, exactly, at most LOAD_OBJECT_BYTES_MAX */
    uint64_t offset_bytes; /* LOAD_READ: first byte of the range */
    uint64_t length_bytes; /* LOAD_READ: of the range, within the object; 0 = the whole object */
    uint64_t version;      /* of the content: what is read back must name the version that was written last */
    bool no_verify;        /* LOAD_READ: compare the length alone (somebody else may be overwriting) */
    uint64_t token;        /* the source's own */
};

enum load_next {
    LOAD_DO,    /* *op is to be done */
    LOAD_WAIT,  /* nothing just now: ask again in LOAD_LATER_MS */
    LOAD_NO_MORE, /* nothing any more, for this slot */
};

struct load_source {
    /* slot: 0 .. slots - 1, the same number for the same slot always.  *op is zeroed. */
    enum load_next (*next)(void *arg, uint32_t slot, struct load_op *op);
    /* Once for each operation that next() gave: rc 0, DFS_ECORRUPT (other bytes than were written), or why it failed
     * (DFS_EPROTO: the server refused).  end_ns: of the monotonic clock.  May be NULL. */
    void (*done)(void *arg, uint32_t slot, const struct load_op *op, int rc, uint64_t end_ns);
    void *arg;
};

struct load_options {
    const char *masters;     /* comma list of host:port; all texts are borrowed until load_free() */
    const char *collection, *replication; /* "" = none, the master's default */
    bool fsync;
    bool use_public_url;
    bool no_verify;          /* compare no content, only lengths */
    uint32_t timeout_ms;     /* of one request */
    uint32_t slots;          /* operations under way at once */
    uint32_t loops;          /* threads; 0 = one for each two cores, at most 4 */
    uint32_t assign_batch;   /* ids that one question to the master brings; 0 = 1 */
    uint64_t seed;           /* of contents */
    uint64_t object_bytes_max; /* the largest upload that a source will ask for: bounds memory */
};

/* One second of a phase: differences to the one before, but for in_flight and latency_avg_s. */
struct load_second {
    double at_s;          /* its end, from the start of the phase */
    double seconds;       /* its length as measured */
    uint64_t started, finished; /* finished: right ones and failed ones */
    uint64_t failed;
    uint64_t bytes;       /* of contents, of right ones */
    uint64_t kind_finished[LOAD_KINDS], kind_bytes[LOAD_KINDS]; /* right ones */
    double kind_avg_s[LOAD_KINDS], kind_max_s[LOAD_KINDS]; /* latency of right ones that ended in it; negative: none did */
    uint64_t kind_failed[LOAD_KINDS];
    uint32_t in_flight;   /* at its end */
    double latency_last_s; /* of the right one that ended last in it; negative: none did */
    double latency_avg_s; /* of all right ones since the start; negative: there were none */
};

/* One kind of operation in one phase.  The histogram has the right ones. */
struct load_kind_result {
    uint64_t started, finished, failed, corrupt; /* finished: right ones; corrupt: counted in failed too */
    uint64_t bytes;
    struct latency latency;
};

struct load_result {
    double seconds;           /* from the start to the last answer */
    uint64_t started_unix_s;
    struct load_kind_result kinds[LOAD_KINDS];
    struct load_second *series;
    size_t series_n, series_cap;
    uint64_t missed;          /* open loop: due before the end and never begun */
    bool ran_out;             /* every slot was told LOAD_NO_MORE */
    bool gave_up;             /* nothing succeeded any more */
    double user_s, system_s;  /* CPU of this process */
    double busiest_loop;      /* share of the phase that the busiest loop thread used its core, 0 .. 1 */
    double verify_s;          /* CPU for comparing what was read */
    uint32_t loops;
    char first_error[LOAD_ERROR_MAX]; /* of all; "" = none failed */
    char errors[LOAD_KINDS][LOAD_ERROR_MAX]; /* the first of each kind */
};
void load_result_init(struct load_result *r);
/* Idempotent. */
void load_result_release(struct load_result *r);
/* Of all kinds together. */
uint64_t load_result_failed(const struct load_result *r);

struct load_plan {
    struct load_source source;
    double seconds;   /* begin nothing after so long; 0 = no limit */
    uint64_t count;   /* begin no more than so many; 0 = no limit */
    double rate;      /* operations a second, evenly spaced; 0 = as fast as they are answered */
    /* At the end of each second, and once for the rest after the last answer (seconds < 1); may be NULL. */
    void (*on_second)(void *arg, const struct load_second *s);
    void *arg;
};

struct load;

/* 0, or a code with one line in error: a master that does not parse, too much memory for slots times object_bytes_max, too few
 * open files.  Contacts nobody yet. */
int load_new(const struct load_options *o, struct load **out, char error[LOAD_ERROR_MAX]);
void load_free(struct load *l);

/* One phase; blocks until the last operation under way has been answered.  *out is initialised and filled.  0; DFS_ENOMEM,
 * DFS_EUNAVAILABLE: not begun.  Failed operations are no error here: look at *out. */
int load_run(struct load *l, const struct load_plan *plan, struct load_result *out);
/* Any thread, while load_run() is under way and until it returns: begin nothing more. */
void load_stop(struct load *l);


#endif
