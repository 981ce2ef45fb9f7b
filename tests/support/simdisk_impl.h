/* What simdisk.c (remembers) and simdisk_crash.c (forgets) share. */
#ifndef DFS_TESTS_SUPPORT_SIMDISK_IMPL_H
#define DFS_TESTS_SUPPORT_SIMDISK_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/simdisk.h"

#define SIMDISK_SECTOR 512u
#define SIMDISK_BUCKETS 1024u
#define SIMDISK_FDS 65536

enum sim_op_kind { SIM_WRITE, SIM_ZERO, SIM_TRUNCATE };

/* One change of a file since its last sync. */
struct sim_op {
    struct sim_op *next, *prev;
    enum sim_op_kind kind;
    uint64_t pos, n;           /* truncate: pos = the new size, n = 0 */
    uint64_t size_before;
    uint8_t *data;             /* write: the new bytes */
    uint8_t *old;              /* what stood at pos before, old_n bytes (ends at the old end of the file) */
    uint64_t old_n;
    bool durable;              /* kept in the list because a lost one stands before it */
    bool lost;                 /* its sync failed: not on the disk, whatever comes */
};

struct sim_inode {
    struct sim_inode *next;    /* hash chain */
    uint64_t id;
    dev_t dev;
    ino_t ino;
    bool hashed, folder, shadowed;
    uint32_t refs;             /* open files, durable names, remembered changes of names */
    uint32_t open_count;
    int read_fd;
    uint64_t size;             /* as the engine sees it */
    struct sim_op *first, *last;
};

struct sim_name {
    struct sim_inode *folder;
    char *name;
    struct sim_inode *inode;   /* NULL: no such name (in a change) */
};

/* One atomic change of names. */
struct sim_change {
    struct sim_change *next;
    struct sim_name set[2];
    unsigned sets;
    bool marked;
};

/* The names that are sure, of all folders. */
struct sim_names {
    struct sim_name *name;
    size_t count, cap;
};

struct simdisk {
    pthread_mutex_t lock;
    _Atomic bool dead;
    _Atomic uint64_t mutations;
    uint64_t crash_at;         /* value of mutations; 0 = never */
    uint64_t fail_sync_in;     /* 1 = the next */
    unsigned lies;
    char *root, *shadow;
    uint64_t next_id;
    struct sim_inode *bucket[SIMDISK_BUCKETS];
    struct sim_inode *root_inode;
    struct sim_names durable;
    struct sim_change *changes, **changes_end;
};

/* Marks each change that must survive when the marked ones do: earlier ones that touch the same names. */
void sim_changes_close(struct sim_change *changes);
bool sim_same_name(const struct sim_name *a, const struct sim_name *b);
/* Applies one change; names are copied, reference counts untouched. */
void sim_names_apply(struct sim_names *names, const struct sim_change *change);
void sim_names_release(struct sim_names *names);
char *sim_shadow_path(const struct simdisk *sim, const struct sim_inode *inode);

#endif
