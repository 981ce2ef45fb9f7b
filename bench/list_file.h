/* The list of what was written: a file with one id a line, which the read phase, a later run, or `weed benchmark` reads back.
 *
 * Writing: every id that was acknowledged is in the file before its worker asks for anything else, so that whoever kills a
 * server, or this program, finds in it everything that must still be there.  Several threads may append: whole lines, one
 * write(2) a call on an O_APPEND descriptor.  The file is locked while it is written, so that two runs cannot mix their ids.
 *
 * A first line "# dfs benchmark: size=1024" (a comment to other readers) says that the content can be reckoned from the keys;
 * a list without it is foreign, and its objects are checked by length and ETag only. */
#ifndef DFS_BENCH_LIST_FILE_H
#define DFS_BENCH_LIST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "needle/fid.h"

#define LIST_FILE_ERROR_MAX 512

struct list_file {
    int fd;
};

/* Creates or truncates.  0, or a negative code with one line in error (no folder, no permission, DFS_EBUSY: another run
 * writes it). */
int list_file_create(struct list_file *f, const char *path, uint64_t size_bytes, char error[LIST_FILE_ERROR_MAX]);

/* Whole lines.  Any thread.  0 or DFS_ENOSPC, DFS_EIO. */
int list_file_append(const struct list_file *f, struct bytes lines);

/* Idempotent. */
void list_file_close(struct list_file *f);

/* A list in memory. */
struct list {
    struct fid *fids;
    size_t count, cap;
    bool foreign;        /* no line of ours in front */
    uint64_t size_bytes; /* what -size was, when it is not foreign */
};

/* Empty, and foreign until its first line says otherwise. */
void list_init(struct list *l);
/* Idempotent: leaves an empty list. */
void list_release(struct list *l);

/* Adds one.  0 or DFS_ENOMEM. */
int list_push(struct list *l, struct fid fid);

/* Blank lines and comments are skipped; a last line without its end is dropped when it is no id (a writer was killed in it);
 * any other line that is no id is DFS_EINVAL.  error gets one line. */
int list_read(struct list *l, const char *path, char error[LIST_FILE_ERROR_MAX]);

#endif
