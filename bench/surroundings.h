/* What stood around a run: which volume servers, how durable they are, what they read from their disks and sent meanwhile, and
 * what was left to be written when it ended.
 *
 * Everything is learnt from outside: the master's list of nodes, /status and /metrics of each, and for those on this machine
 * /proc.  What cannot be learnt is said to be unknown and never fails a run.  Main thread; blocks. */
#ifndef DFS_BENCH_SURROUNDINGS_H
#define DFS_BENCH_SURROUNDINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/addr.h"

#define SURROUNDINGS_SERVERS_MAX 16u
#define SURROUNDINGS_TEXT_MAX 64u
#define SURROUNDINGS_UNKNOWN (-1)

struct surroundings_server {
    struct addr addr;
    bool is_local;
    pid_t pid;          /* 0 = not known */
    int64_t read_bytes; /* of its process from disks, so far; SURROUNDINGS_UNKNOWN */
    int64_t sent_bytes; /* so far; SURROUNDINGS_UNKNOWN */
    bool has_disk;      /* the block device below its first data folder is known */
    unsigned disk_major, disk_minor;
};

struct surroundings {
    struct surroundings_server servers[SURROUNDINGS_SERVERS_MAX];
    uint32_t server_count;
    bool all_local;                          /* and there is one */
    char version[SURROUNDINGS_TEXT_MAX];     /* of the first server that says; "" */
    char durability[SURROUNDINGS_TEXT_MAX];  /* "" = not said; "mixed" = they differ */
    /* Of the phase between surroundings_begin() and surroundings_end(); SURROUNDINGS_UNKNOWN. */
    int64_t disk_read_bytes, sent_bytes;
    int64_t dirty_bytes;                     /* of this machine, at the end; only when a server is on it */
    int64_t dirty_later_bytes;               /* the same when the wait for the disks was over */
    double idle_s;                           /* from the end until its disks came to rest; unknown: not within the time given */
    bool waited_for_idle;                    /* there was a disk to look at, and time for it */
};

/* Just before a phase: finds the servers and remembers what they have read and sent. */
void surroundings_begin(struct surroundings *s, const char *masters, bool use_public_url);
/* Just after it.  idle_wait_ms: how long to wait for the disks at most; 0 = not at all. */
void surroundings_end(struct surroundings *s, uint32_t idle_wait_ms);

/* ---- parts, for tests ---- */

/* The value of a sample without labels in a text of metrics, or SURROUNDINGS_UNKNOWN. */
int64_t surroundings_metric(const char *text, const char *name);
/* The number behind "key:" in a text such as /proc/PID/io or /proc/meminfo, or SURROUNDINGS_UNKNOWN. */
int64_t surroundings_field(const char *text, const char *key);
/* Requests done so far (*done) and under way (*busy) on a device, of /proc/diskstats.  False: not there. */
bool surroundings_disk(const char *text, unsigned major, unsigned minor, uint64_t *done, uint64_t *busy);

#endif
