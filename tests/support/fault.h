/* A disk table that wraps another one and misbehaves on demand: the n-th call of a kind fails, a write tears, a call takes long.
 *
 * One per process, since the table has no argument of its own.  Typical use:
 *
 *     fault_install(NULL);                                       // over the system calls
 *     int id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 3, .err = EIO});
 *     ...
 *     assert_int_equal(fault_hits(id), 1);
 *     fault_remove();
 *
 * The rule that finds most bugs: for each operation let its 1st, 2nd, 3rd ... call fail until it succeeds, and look at the
 * invariants each time.  Any thread. */
#ifndef DFS_TESTS_SUPPORT_FAULT_H
#define DFS_TESTS_SUPPORT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/disk.h"

enum fault_call {
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_FDATASYNC,
    FAULT_FSYNC,
    FAULT_SYNC_FILE_RANGE,
    FAULT_FALLOCATE,
    FAULT_FTRUNCATE,
    FAULT_FSTAT,
    FAULT_STAT,
    FAULT_STATVFS,
    FAULT_RENAME,
    FAULT_LINK,
    FAULT_UNLINK,
    FAULT_MKDIR,
    FAULT_RMDIR,
    FAULT_MINCORE,
    FAULT_MAP,
    FAULT_FLOCK,
    FAULT_LIST,
    FAULT_CALLS
};

#define FAULT(call) (1u << (call))
#define FAULT_ANY (FAULT(FAULT_CALLS) - 1)
/* Those that change something. */
#define FAULT_MUTATING                                                                                                     \
    (FAULT(FAULT_WRITE) | FAULT(FAULT_FDATASYNC) | FAULT(FAULT_FSYNC) | FAULT(FAULT_FALLOCATE) | FAULT(FAULT_FTRUNCATE) |   \
     FAULT(FAULT_RENAME) | FAULT(FAULT_LINK) | FAULT(FAULT_UNLINK) | FAULT(FAULT_MKDIR) | FAULT(FAULT_RMDIR))

#define FAULT_RULES_MAX 32
/* delay_ms: until fault_release(). */
#define FAULT_UNTIL_RELEASED UINT32_MAX

struct fault_rule {
    uint32_t calls;       /* FAULT(...) | FAULT(...) */
    const char *path_has; /* only when the path (of the open file, too) contains this; NULL = any.  Borrowed */
    uint64_t first;       /* the n-th matching call, 1 = the next (0 counts as 1) */
    uint64_t every;       /* then each k-th: 1 = for ever; 0 = once only */
    uint32_t delay_ms;    /* it is held that long before anything else happens */
    /* What then happens.  err != 0: it fails with that errno.  tear: a read or write first does only tear_bytes of its bytes; with
     * err == 0 it returns that short count, else the bytes are there and the call fails.  Neither: it goes through. */
    int err;
    bool tear;
    uint64_t tear_bytes;
};

/* Puts the wrapper in place with no rule.  under: the table that is wrapped, NULL = system calls. */
void fault_install(const struct disk_ops *under);
/* Releases what is held, then puts the system calls back. */
void fault_remove(void);
/* The wrapping table, for putting something around it. */
const struct disk_ops *fault_ops(void);

/* Returns the rule's id.  Several rules may match one call: delays add up, the first failure counts. */
int fault_add(const struct fault_rule *rule);
void fault_clear(void); /* no rules any more; counters stay */

/* How often a rule has struck / calls seen of a kind since fault_install(). */
uint64_t fault_hits(int id);
uint64_t fault_count(enum fault_call call);

/* Calls held now; let go of those held until released (and of later ones). */
uint32_t fault_held(void);
void fault_release(void);

#endif
