/* The objects of a run of `dfs benchmark objects`: R.fids in the folder of lists, one id a line below
 *
 *   # dfs objects: host=H pid=P size=S count=N seed=X
 *
 * host and pid say who wrote it, size is that of each object, seed the one its content is made from, count how many ids there are,
 * 0 while the run that writes is under way (or when it was killed: then the lines count).  Every object that was acknowledged is
 * in the file before its slot goes on.  The file is locked: for itself by who writes or deletes, together by those who read, so a
 * run's objects cannot be deleted under its readers.  Main thread, but for object_list_add(). */
#ifndef DFS_BENCH_OBJECT_LIST_H
#define DFS_BENCH_OBJECT_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/list_file.h"
#include "needle/fid.h"

#define OBJECT_LIST_PATH_MAX 4096u
#define OBJECT_LIST_HOST_MAX 256u

struct object_list {
    char path[OBJECT_LIST_PATH_MAX];
    struct list_file file;
    char host[OBJECT_LIST_HOST_MAX];
    uint64_t pid, size_bytes, count, seed;
    struct list ids; /* when read; those added, when written */
};

/* Nothing open, nothing listed. */
void object_list_init(struct object_list *l);
/* Closes and frees; idempotent. */
void object_list_release(struct object_list *l);

/* "DIR/RUN.fids" into l->path, with the folder made.  dir "": ~/.cache/dfs/bench.  0, or a code with one line in error. */
int object_list_locate(struct object_list *l, const char *dir, const char *run, char error[LIST_FILE_ERROR_MAX]);

/* A new, empty list at l->path.  DFS_EEXIST: the run has objects already; error says what to do. */
int object_list_create(struct object_list *l, uint64_t size_bytes, uint64_t seed, char error[LIST_FILE_ERROR_MAX]);
/* One more.  One thread at a time.  0, DFS_ENOMEM, DFS_ENOSPC, DFS_EIO. */
int object_list_add(struct object_list *l, const struct fid *fid);
/* Writes the count into the first line.  0, DFS_ENOSPC, DFS_EIO. */
int object_list_seal(struct object_list *l);

/* Reads the list at l->path and keeps it locked: alone for whoever wants to delete.  DFS_ENOTFOUND: there is no such run;
 * DFS_EBUSY: another program has it; DFS_EINVAL: it is no such list, or cut off. */
int object_list_open(struct object_list *l, bool alone, char error[LIST_FILE_ERROR_MAX]);

/* The file goes.  0 or DFS_EIO. */
int object_list_unlink(struct object_list *l);

#endif
