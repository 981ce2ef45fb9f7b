/* Every file call of the storage engine, behind one table of operations: the seam where tests let the n-th call fail, a write
 * tear, a call take half a second, or un-synced bytes be lost.
 *
 * The functions below finish what they begin (no short reads or writes but at the end of a file, EINTR retried) and return 0 or
 * a DFS_E* code; errno then still holds the cause, for the caller's one log line.  No fsync is ever retried.
 * Any thread, except where a loop thread is excluded: only disk_read_cached(), disk_resident() and sendfile on a disk_fd() never
 * wait for the device. */
#ifndef DFS_VOLUME_DISK_H
#define DFS_VOLUME_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The system calls themselves: same arguments, same results, -1 and errno. */
struct disk_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*preadv2)(int fd, const struct iovec *iov, int count, off_t pos, int flags);
    ssize_t (*pwritev)(int fd, const struct iovec *iov, int count, off_t pos);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    int (*sync_file_range)(int fd, off_t pos, off_t bytes, unsigned flags);
    int (*fallocate)(int fd, int mode, off_t pos, off_t bytes);
    int (*ftruncate)(int fd, off_t bytes);
    int (*fadvise)(int fd, off_t pos, off_t bytes, int advice); /* returns an errno value, as posix_fadvise does */
    int (*fstat)(int fd, struct stat *out);
    int (*stat)(const char *path, struct stat *out);
    int (*statvfs)(const char *path, struct statvfs *out);
    int (*rename)(const char *from, const char *to);
    int (*link)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rmdir)(const char *path);
    int (*mincore)(void *addr, size_t bytes, unsigned char *vec);
    void *(*map)(int fd, off_t pos, size_t bytes); /* shared, read only, MAP_FAILED; for mincore alone */
    int (*unmap)(void *addr, size_t bytes);
    int (*flock)(int fd, int operation);
    /* Names in a folder but "." and "..", each closed by a zero, in one malloc'd block of *bytes bytes. */
    int (*list)(const char *folder, char **names, size_t *bytes);
};

/* Replace the table (tests; before any thread of the engine starts); NULL puts the system calls back.  The table must outlive
 * its use. */
void disk_set_ops(const struct disk_ops *ops);
const struct disk_ops *disk_system_ops(void);

#define DISK_FILE_MODE 0640
#define DISK_FOLDER_MODE 0750

int disk_open(const char *path, int flags, int *fd); /* O_CLOEXEC added; new files get DISK_FILE_MODE */
void disk_close(int *fd);                              /* -1 is fine; becomes -1 */

/* Whole range or DFS_ESHORT at the end of the file (*got tells; may be NULL). */
int disk_read(int fd, void *buf, size_t n, uint64_t pos, size_t *got);
/* From the page cache only: DFS_EAGAIN when any byte of it is not there.  Never waits. */
int disk_read_cached(int fd, void *buf, size_t n, uint64_t pos);
int disk_write(int fd, const void *buf, size_t n, uint64_t pos);
int disk_write_zeros(int fd, uint64_t pos, uint64_t n);
/* Consumes iov (it is changed).  Any count; split by IOV_MAX inside. */
int disk_writev(int fd, struct iovec *iov, size_t count, uint64_t pos);

/* One call each, never repeated: an error means that written bytes may be lost, whatever a second call would say. */
int disk_datasync(int fd);
int disk_sync(int fd);
/* Starts writing a range back / waits for it; an error is a failed flush and must be treated as one. */
int disk_writeback_start(int fd, uint64_t pos, uint64_t n);
int disk_writeback_wait(int fd, uint64_t pos, uint64_t n);
void disk_drop_cache(int fd, uint64_t pos, uint64_t n);

/* fallocate(KEEP_SIZE).  DFS_EUNSUPPORTED where the file system cannot. */
int disk_preallocate(int fd, uint64_t pos, uint64_t n);
int disk_truncate(int fd, uint64_t n);
int disk_size(int fd, uint64_t *n);
int disk_stat(const char *path, struct stat *out); /* DFS_ENOTFOUND */
int disk_fstat(int fd, struct stat *out);

struct disk_space {
    uint64_t total_bytes, free_bytes; /* free to us (f_bavail) */
    uint64_t files_free;
};
int disk_space(const char *folder, struct disk_space *out);

/* Last after a power cut only once the folder has been synced. */
int disk_rename(const char *from, const char *to);
int disk_link(const char *from, const char *to);
int disk_unlink(const char *path); /* a missing file is 0 */
int disk_mkdir(const char *path);  /* an existing folder is 0 */
int disk_rmdir(const char *path);
/* fsync of the folder itself, after creating, renaming or removing in it. */
int disk_sync_folder(const char *path);
/* Writes a small file so that after a crash it is the old or the new one, whole: tmp, fsync, rename, fsync of the folder. */
int disk_replace_file(const char *path, const void *buf, size_t n);
/* Reads a small file whole into malloc'd memory with a closing zero; DFS_ETOOBIG over `max`. */
int disk_read_file(const char *path, size_t max, char **buf, size_t *n);
/* Creates the file if need be and locks it against other processes until *fd is closed; DFS_EBUSY when another holds it. */
int disk_lock(const char *path, int *fd);
/* The same where no file can be made: DFS_ENOTFOUND when there is none. */
int disk_lock_existing(const char *path, int *fd);
/* Calls fn for every name in the folder but "." and "..", in alphabetical order; its non-zero return ends the walk and is
 * returned.  The names are read before the first call: fn may create and remove files. */
int disk_list(const char *folder, int (*fn)(const char *name, void *arg), void *arg);

/* A mapping for mincore alone; NULL when it cannot be had. */
void *disk_map(int fd, uint64_t pos, size_t n);
void disk_unmap(void *p, size_t n);
int disk_mincore(void *p, size_t n, unsigned char *vec);

/* Pages of a file that are in memory, without touching them: a mapping that is never dereferenced.  fd is borrowed until
 * disk_residency_free(). */
struct disk_residency;
int disk_residency_new(int fd, struct disk_residency **out);
/* Whether [pos, pos+n) is wholly in the page cache; false when it cannot be told (r is NULL, too).  Never waits for the device. */
bool disk_resident(struct disk_residency *r, uint64_t pos, uint64_t n);
void disk_residency_free(struct disk_residency *r);

#endif
