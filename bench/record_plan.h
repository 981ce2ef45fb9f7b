/* What `dfs benchmark records` does, as numbers: which pattern, how many jobs, records of which size, and what that costs.
 *
 * A job has a "file" of its own: a list of needles, each written under an id of its own.  A record is what one request moves.  It
 * is a whole needle, because an append-only store replaces a needle as a whole: a record that is to be overwritten must be a
 * needle, and a read should read what a write has written.  Patterns that only read may use larger needles (needle_bytes) and read
 * ranges of them: fewer ids to remember for the same bytes.  Pure; any thread. */
#ifndef DFS_BENCH_RECORD_PLAN_H
#define DFS_BENCH_RECORD_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"

#define RECORD_JOBS_MAX 1024u
#define RECORD_BYTES_MAX (64ull << 20)    /* of a record, and of a needle */
#define RECORD_NEEDLES_MAX (1ull << 32)   /* of all jobs */
#define RECORD_RUNTIME_MAX_MS 86400000u
#define RECORD_ERROR_MAX 512u
#define RECORD_LIST_MAX 32u               /* numbers, or clients, of a grid's side */

/* Of one needle: what its id takes in the client's memory, what its entry takes in a volume server's map (at the peak of its
 * growth), and what lies around its content on the disk (header, name of its type, checksum, time, padding; rounded up). */
#define RECORD_CLIENT_BYTES 20u
#define RECORD_INDEX_BYTES 24u
#define RECORD_DISK_EXTRA_BYTES 80u

enum record_rw { RECORD_READ, RECORD_WRITE, RECORD_RANDREAD, RECORD_RANDWRITE, RECORD_RANDRW, RECORD_RWS };

/* "read", "write", "randread", "randwrite", "randrw". */
const char *record_rw_name(enum record_rw rw);
/* DFS_EINVAL. */
int record_rw_parse(struct bytes text, enum record_rw *out);
bool record_rw_reads(enum record_rw rw);
bool record_rw_writes(enum record_rw rw);

struct record_plan {
    enum record_rw rw;
    uint32_t jobs;         /* files; each has at most one request under way */
    uint64_t record_bytes;
    uint64_t needle_bytes; /* a multiple of record_bytes; 0 before record_plan_check(): the same */
    uint64_t file_bytes;   /* of each job; record_plan_check() rounds down to whole needles */
    uint32_t read_percent; /* RECORD_RANDRW */
    uint64_t seed;         /* of contents and of orders */
};

/* Completes the plan.  0; DFS_EINVAL, DFS_ETOOBIG with one line in error. */
int record_plan_check(struct record_plan *p, char error[RECORD_ERROR_MAX]);

/* Of one job. */
uint64_t record_plan_needles(const struct record_plan *p);
uint64_t record_plan_records(const struct record_plan *p);

struct record_need {
    uint64_t needles;      /* of all jobs */
    uint64_t client_bytes; /* memory: ids, and contents under way */
    uint64_t index_bytes;  /* memory of the volume servers, of each copy */
    uint64_t disk_bytes;   /* of each copy, once everything is written; an overwrite adds to it until it is vacuumed */
};
struct record_need record_plan_need(const struct record_plan *p);

/* Refuses what cannot fit: DFS_ENOMEM with one line in error.  available_bytes: free memory here; 0 = unknown.  with_server: the
 * servers take theirs from the same memory. */
int record_need_fits(const struct record_need *n, uint64_t available_bytes, bool with_server, char error[RECORD_ERROR_MAX]);

/* Memory that this machine can still give, in bytes; 0 = unknown.  Reads /proc/meminfo. */
uint64_t record_memory_available(void);

/* "1,4,16,64": each between 1 and max, at most RECORD_LIST_MAX.  DFS_EINVAL. */
int record_list_parse(struct bytes text, uint32_t max, uint32_t out[RECORD_LIST_MAX], uint32_t *count);

/* 4096 -> "4 KiB", 1000 -> "1000 B", 1610612736 -> "1.5 GiB". */
#define RECORD_SIZE_TEXT_MAX 32u
const char *record_size_text(uint64_t bytes, char out[RECORD_SIZE_TEXT_MAX]);

#endif
