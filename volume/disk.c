/* What the engine asks of files, said in terms of the table of system calls: whole reads and writes, codes instead of -1. */
#include "volume/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "needle/check.h"
#include "needle/err.h"

/* Zeros are written from one piece of them, many times in a vector. */
#define ZEROS_BYTES ((size_t)64 << 10)
#define ZEROS_VECTORS 16u

/* Set before the engine has threads; NULL = the system calls. */
static const struct disk_ops *replaced;

static const struct disk_ops *ops(void)
{
    return __builtin_expect(replaced == NULL, 1) ? disk_system_ops() : replaced;
}

void disk_set_ops(const struct disk_ops *table)
{
    replaced = table;
}

static int failed(void)
{
    return dfs_err_from_errno(errno);
}

/* A result of 0 bytes where some were due: the kernel gave no cause, so we name one for the caller's log line. */
static int failed_without_cause(void)
{
    errno = EIO;
    return DFS_EIO;
}

static int done_or_failed(int result)
{
    return result == -1 ? failed() : 0;
}

#define RETRY_EINTR(call)                       \
    ({                                          \
        __typeof__(call) result_;               \
        do                                      \
            result_ = (call);                   \
        while (result_ == -1 && errno == EINTR); \
        result_;                                \
    })

/* ---- open, read, write ---- */

int disk_open(const char *path, int flags, int *fd)
{
    int got = RETRY_EINTR(ops()->open(path, flags | O_CLOEXEC, DISK_FILE_MODE));
    if (got == -1)
        return failed();
    *fd = got;
    return 0;
}

void disk_close(int *fd)
{
    if (*fd == -1)
        return;
    /* Not repeated after EINTR: Linux has given the descriptor back by then. */
    ops()->close(*fd);
    *fd = -1;
}

int disk_read(int fd, void *buf, size_t n, uint64_t pos, size_t *got)
{
    size_t have = 0;
    int rc = 0;
    while (have < n) {
        struct iovec iov = {(char *)buf + have, n - have};
        ssize_t part = RETRY_EINTR(ops()->preadv2(fd, &iov, 1, (off_t)(pos + have), 0));
        if (part == -1) {
            rc = failed();
            break;
        }
        if (part == 0) {
            rc = DFS_ESHORT;
            break;
        }
        have += (size_t)part;
    }
    if (got != NULL)
        *got = have;
    return rc;
}

int disk_read_cached(int fd, void *buf, size_t n, uint64_t pos)
{
    struct iovec iov = {buf, n};
    ssize_t part = ops()->preadv2(fd, &iov, 1, (off_t)pos, RWF_NOWAIT);
    if (part == (ssize_t)n)
        return 0;
    /* A part of it, the end of the file, a file system that knows no RWF_NOWAIT: all for a thread that may wait. */
    if (part >= 0 || errno == EINTR || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
        return DFS_EAGAIN;
    return failed();
}

int disk_write(int fd, const void *buf, size_t n, uint64_t pos)
{
    struct iovec iov = {(void *)buf, n};
    return disk_writev(fd, &iov, 1, pos);
}

int disk_write_zeros(int fd, uint64_t pos, uint64_t n)
{
    static const char zeros[ZEROS_BYTES];

    while (n > 0) {
        struct iovec iov[ZEROS_VECTORS];
        size_t count = 0, bytes = 0;
        int rc;

        while (count < ZEROS_VECTORS && bytes < n) {
            size_t part = n - bytes < ZEROS_BYTES ? (size_t)(n - bytes) : ZEROS_BYTES;
            iov[count++] = (struct iovec){(char *)(uintptr_t)zeros, part};
            bytes += part;
        }
        rc = disk_writev(fd, iov, count, pos);
        if (rc != 0)
            return rc;
        pos += bytes;
        n -= bytes;
    }
    return 0;
}

int disk_writev(int fd, struct iovec *iov, size_t count, uint64_t pos)
{
    while (count > 0) {
        if (iov->iov_len == 0) {
            iov++;
            count--;
            continue;
        }
        int batch = count < IOV_MAX ? (int)count : IOV_MAX;
        ssize_t part = RETRY_EINTR(ops()->pwritev(fd, iov, batch, (off_t)pos));
        if (part == -1)
            return failed();
        if (part == 0)
            return failed_without_cause();
        pos += (uint64_t)part;
        for (size_t left = (size_t)part; left > 0;) {
            size_t step = left < iov->iov_len ? left : iov->iov_len;
            iov->iov_base = (char *)iov->iov_base + step;
            iov->iov_len -= step;
            left -= step;
            if (iov->iov_len == 0) {
                iov++;
                count--;
            }
        }
    }
    return 0;
}

/* ---- flush ---- */

int disk_datasync(int fd)
{
    return done_or_failed(ops()->fdatasync(fd));
}

int disk_sync(int fd)
{
    return done_or_failed(ops()->fsync(fd));
}

/* A file system that has no sync_file_range is no failed flush: there the next fdatasync does it all. */
static int sync_range(int fd, uint64_t pos, uint64_t n, unsigned flags)
{
    if (n == 0)
        return 0; /* to the kernel 0 means "to the end" */
    if (ops()->sync_file_range(fd, (off_t)pos, (off_t)n, flags) == 0)
        return 0;
    return errno == ENOSYS || errno == ESPIPE ? 0 : failed();
}

int disk_writeback_start(int fd, uint64_t pos, uint64_t n)
{
    return sync_range(fd, pos, n, SYNC_FILE_RANGE_WRITE);
}

int disk_writeback_wait(int fd, uint64_t pos, uint64_t n)
{
    return sync_range(fd, pos, n, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

void disk_drop_cache(int fd, uint64_t pos, uint64_t n)
{
    if (n > 0)
        ops()->fadvise(fd, (off_t)pos, (off_t)n, POSIX_FADV_DONTNEED);
}

/* ---- size ---- */

int disk_preallocate(int fd, uint64_t pos, uint64_t n)
{
    if (n == 0)
        return 0;
    return done_or_failed(RETRY_EINTR(ops()->fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)pos, (off_t)n)));
}

int disk_truncate(int fd, uint64_t n)
{
    return done_or_failed(RETRY_EINTR(ops()->ftruncate(fd, (off_t)n)));
}

int disk_size(int fd, uint64_t *n)
{
    struct stat st;
    int rc = disk_fstat(fd, &st);
    if (rc == 0)
        *n = (uint64_t)st.st_size;
    return rc;
}

int disk_stat(const char *path, struct stat *out)
{
    struct stat st;
    if (ops()->stat(path, &st) == -1)
        return failed();
    *out = st;
    return 0;
}

int disk_fstat(int fd, struct stat *out)
{
    struct stat st;
    if (ops()->fstat(fd, &st) == -1)
        return failed();
    *out = st;
    return 0;
}

int disk_space(const char *folder, struct disk_space *out)
{
    struct statvfs v;
    if (RETRY_EINTR(ops()->statvfs(folder, &v)) == -1)
        return failed();
    out->total_bytes = (uint64_t)v.f_blocks * v.f_frsize;
    out->free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    /* File systems that make inodes as they go say that they have none. */
    out->files_free = v.f_files == 0 ? UINT64_MAX : v.f_favail;
    return 0;
}

/* ---- names ---- */

int disk_rename(const char *from, const char *to)
{
    return done_or_failed(ops()->rename(from, to));
}

int disk_link(const char *from, const char *to)
{
    return done_or_failed(ops()->link(from, to));
}

int disk_unlink(const char *path)
{
    if (ops()->unlink(path) == 0 || errno == ENOENT)
        return 0;
    return failed();
}

int disk_mkdir(const char *path)
{
    if (ops()->mkdir(path, DISK_FOLDER_MODE) == 0)
        return 0;
    if (errno != EEXIST)
        return failed();
    struct stat st;
    int rc = disk_stat(path, &st);
    if (rc != 0)
        return rc;
    if (S_ISDIR(st.st_mode))
        return 0;
    errno = ENOTDIR;
    return DFS_EEXIST;
}

int disk_rmdir(const char *path)
{
    return done_or_failed(ops()->rmdir(path));
}

int disk_sync_folder(const char *path)
{
    int fd = -1;
    int rc = disk_open(path, O_RDONLY | O_DIRECTORY, &fd);
    if (rc != 0)
        return rc;
    rc = disk_sync(fd);
    /* Some network and user-space file systems have no such call for a folder: nothing better can be asked of them. */
    if (rc != 0 && errno == EINVAL)
        rc = 0;
    int err = errno;
    disk_close(&fd);
    errno = err;
    return rc;
}

static int lock_opened(const char *path, int flags, int *fd)
{
    int got = -1;
    int rc = disk_open(path, flags, &got);
    if (rc != 0)
        return rc;
    if (RETRY_EINTR(ops()->flock(got, LOCK_EX | LOCK_NB)) == -1) {
        int err = errno;
        rc = err == EWOULDBLOCK ? DFS_EBUSY : dfs_err_from_errno(err);
        disk_close(&got);
        errno = err;
        return rc;
    }
    *fd = got;
    return 0;
}

int disk_lock(const char *path, int *fd)
{
    return lock_opened(path, O_RDWR | O_CREAT, fd);
}

int disk_lock_existing(const char *path, int *fd)
{
    return lock_opened(path, O_RDONLY, fd);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int disk_list(const char *folder, int (*fn)(const char *name, void *arg), void *arg)
{
    char *names = NULL;
    size_t bytes = 0, count = 0;
    if (ops()->list(folder, &names, &bytes) == -1)
        return failed();
    for (size_t i = 0; i < bytes; i++)
        count += names[i] == '\0';

    int rc = 0;
    const char **sorted = malloc((count + 1) * sizeof *sorted);
    if (sorted == NULL) {
        errno = ENOMEM;
        rc = DFS_ENOMEM;
        goto out;
    }
    const char *name = names;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        sorted[i] = name;
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = fn(sorted[i], arg);
out:
    free(sorted);
    free(names);
    return rc;
}

/* ---- small files, whole ---- */

static int folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return DFS_EINVAL;
    }
    memcpy(out, slash == NULL ? "." : path, n);
    out[n] = '\0';
    return 0;
}

static int write_new_file(const char *path, const void *buf, size_t n)
{
    int fd = -1;
    int rc = disk_open(path, O_WRONLY | O_CREAT | O_TRUNC, &fd);
    if (rc != 0)
        return rc;
    rc = disk_write(fd, buf, n, 0);
    if (rc == 0)
        rc = disk_sync(fd);
    int err = errno;
    disk_close(&fd);
    errno = err;
    return rc;
}

int disk_replace_file(const char *path, const void *buf, size_t n)
{
    static const char suffix[] = ".tmp";
    char folder[PATH_MAX], tmp[PATH_MAX];
    size_t length = strlen(path);
    int rc = folder_of(path, folder);
    if (rc != 0)
        return rc;
    if (length + sizeof suffix > sizeof tmp) {
        errno = ENAMETOOLONG;
        return DFS_EINVAL;
    }
    memcpy(tmp, path, length);
    memcpy(tmp + length, suffix, sizeof suffix);

    rc = write_new_file(tmp, buf, n);
    if (rc == 0)
        rc = disk_rename(tmp, path);
    if (rc != 0) {
        int err = errno;
        ops()->unlink(tmp);
        errno = err;
        return rc;
    }
    return disk_sync_folder(folder);
}

int disk_read_file(const char *path, size_t max, char **buf, size_t *n)
{
    int fd = -1;
    uint64_t size = 0;
    size_t got = 0;
    char *data = NULL;
    int rc = disk_open(path, O_RDONLY, &fd);
    if (rc != 0)
        return rc;
    rc = disk_size(fd, &size);
    if (rc == 0 && size > max) {
        errno = EFBIG;
        rc = DFS_ETOOBIG;
    }
    if (rc != 0)
        goto out;
    data = malloc((size_t)size + 1);
    if (data == NULL) {
        errno = ENOMEM;
        rc = DFS_ENOMEM;
        goto out;
    }
    rc = disk_read(fd, data, (size_t)size, 0, &got);
    if (rc == DFS_ESHORT)
        rc = 0; /* it shrank under us: what is there is the file */
    if (rc != 0)
        goto out;
    data[got] = '\0';
    *buf = data;
    *n = got;
    data = NULL;
out:;
    int err = errno;
    free(data);
    disk_close(&fd);
    errno = err;
    return rc;
}

/* ---- for disk_residency.c ---- */

void *disk_map(int fd, uint64_t pos, size_t n)
{
    void *p = ops()->map(fd, (off_t)pos, n);
    return p == (void *)-1 ? NULL : p;
}

void disk_unmap(void *p, size_t n)
{
    ops()->unmap(p, n);
}

int disk_mincore(void *p, size_t n, unsigned char *vec)
{
    return done_or_failed(ops()->mincore(p, n, vec));
}
