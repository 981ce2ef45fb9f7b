/* Making, reading and locking lists of objects. */
#include "bench/object_list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "needle/err.h"

#define HEAD_MAX 512u
/* Numbers of one width, so that the count can be written over. */
#define HEAD_FORMAT "# dfs objects: host=%s pid=%" PRIu64 " size=%" PRIu64 " count=%020" PRIu64 " seed=%" PRIu64 "\n"
#define HEAD_PARSE "# dfs objects: host=%255s pid=%" SCNu64 " size=%" SCNu64 " count=%" SCNu64 " seed=%" SCNu64 "%n"

static int fail(char *error, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(char *error, int rc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, LIST_FILE_ERROR_MAX, fmt, ap);
    va_end(ap);
    return rc;
}

static int fail_errno(char *error, const char *what, const char *path)
{
    int saved = errno;
    return fail(error, dfs_err_from_errno(saved), "cannot %s '%s': %s", what, path, strerror(saved));
}

void object_list_init(struct object_list *l)
{
    memset(l, 0, sizeof *l);
    l->file.fd = -1;
    list_init(&l->ids);
}

void object_list_release(struct object_list *l)
{
    list_file_close(&l->file);
    list_release(&l->ids);
}

/* ---- where ---- */

static int make_folders(char *path, char *error)
{
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(path, 0750) != 0 && errno != EEXIST)
            return fail_errno(error, "make folder", path);
        *p = '/';
    }
    return mkdir(path, 0750) == 0 || errno == EEXIST ? 0 : fail_errno(error, "make folder", path);
}

int object_list_locate(struct object_list *l, const char *dir, const char *run, char error[LIST_FILE_ERROR_MAX])
{
    char folder[OBJECT_LIST_PATH_MAX];
    const char *home = getenv("HOME");
    int n, rc;

    if (dir[0] != '\0')
        n = snprintf(folder, sizeof folder, "%s", dir);
    else if (home != NULL && home[0] != '\0')
        n = snprintf(folder, sizeof folder, "%s/.cache/dfs/bench", home);
    else
        return fail(error, DFS_EINVAL, "HOME is not set: name a folder for lists with -listDir");
    if ((size_t)n + strlen(run) + 8 > sizeof l->path)
        return fail(error, DFS_ETOOBIG, "the name of the folder of lists is too long");
    rc = make_folders(folder, error);
    if (rc != 0)
        return rc;
    snprintf(l->path, sizeof l->path, "%.*s/%s.fids", n, folder, run);
    return 0;
}

/* ---- writing ---- */

static int write_head(struct object_list *l, int fd)
{
    char head[HEAD_MAX];
    int n = snprintf(head, sizeof head, HEAD_FORMAT, l->host, l->pid, l->size_bytes, l->count, l->seed);
    ssize_t done = pwrite(fd, head, (size_t)n, 0);
    return done == n ? 0 : done == -1 ? dfs_err_from_errno(errno) : DFS_EIO;
}

/* Whether another program holds the list; errno stays. */
static bool is_locked(const char *path)
{
    int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC);
    bool locked = fd != -1 && flock(fd, LOCK_SH | LOCK_NB) != 0;

    if (fd != -1)
        close(fd);
    errno = saved;
    return locked;
}

/* What a run of the same name left is never written over: its objects would have no list any more. */
int object_list_create(struct object_list *l, uint64_t size_bytes, uint64_t seed, char error[LIST_FILE_ERROR_MAX])
{
    int rc;

    l->file.fd = open(l->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (l->file.fd == -1 && errno == EEXIST && is_locked(l->path))
        return fail(error, DFS_EBUSY, "a run of this name is under way, by '%s': give this one another -run-name", l->path);
    if (l->file.fd == -1 && errno == EEXIST)
        return fail(error, DFS_EEXIST, "'%s' lists objects of a run of this name: delete them with `dfs benchmark cleanup`, or "
                    "give this one another -run-name", l->path);
    if (l->file.fd == -1)
        return fail_errno(error, "write list", l->path);
    flock(l->file.fd, LOCK_EX | LOCK_NB);
    if (gethostname(l->host, sizeof l->host - 1) != 0 || l->host[0] == '\0')
        snprintf(l->host, sizeof l->host, "localhost");
    l->pid = (uint64_t)getpid();
    l->size_bytes = size_bytes;
    l->seed = seed;
    l->count = 0;
    rc = write_head(l, l->file.fd);
    if (rc == 0 && lseek(l->file.fd, 0, SEEK_END) == -1)
        rc = DFS_EIO;
    if (rc != 0)
        fail(error, rc, "cannot write list '%s': %s", l->path, dfs_err_text(rc));
    return rc;
}

int object_list_add(struct object_list *l, const struct fid *fid)
{
    char line[FID_TEXT_MAX + 1];
    size_t n = fid_format(fid, line);
    int rc;

    line[n++] = '\n';
    rc = list_file_append(&l->file, bytes_of(line, n));
    return rc == 0 ? list_push(&l->ids, *fid) : rc;
}

int object_list_seal(struct object_list *l)
{
    l->count = l->ids.count;
    return write_head(l, l->file.fd);
}

/* ---- reading ---- */

static int read_head(struct object_list *l, char *error)
{
    char head[HEAD_MAX];
    int end = 0;
    ssize_t n = pread(l->file.fd, head, sizeof head - 1, 0);

    if (n == -1)
        return fail_errno(error, "read list", l->path);
    head[n] = '\0';
    head[strcspn(head, "\n")] = '\0';
    if (sscanf(head, HEAD_PARSE, l->host, &l->pid, &l->size_bytes, &l->count, &l->seed, &end) != 5 || head[end] != '\0')
        return fail(error, DFS_EINVAL, "'%s' is no list of objects", l->path);
    return 0;
}

int object_list_open(struct object_list *l, bool alone, char error[LIST_FILE_ERROR_MAX])
{
    int rc;

    l->file.fd = open(l->path, O_RDONLY | O_CLOEXEC);
    if (l->file.fd == -1 && errno == ENOENT)
        return fail(error, DFS_ENOTFOUND, "there is no '%s': no run of this name left objects (write with -no-cleanup)", l->path);
    if (l->file.fd == -1)
        return fail_errno(error, "read list", l->path);
    if (flock(l->file.fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail(error, DFS_EBUSY, "another program is using '%s'", l->path);
    rc = read_head(l, error);
    if (rc != 0)
        return rc;
    l->ids.foreign = false; /* a last line that a kill cut off does not count */
    rc = list_read(&l->ids, l->path, error);
    if (rc == 0 && l->ids.count < l->count)
        rc = fail(error, DFS_EINVAL, "'%s' is cut off: %zu of %" PRIu64 " ids", l->path, l->ids.count, l->count);
    return rc;
}

int object_list_unlink(struct object_list *l)
{
    return unlink(l->path) == 0 || errno == ENOENT ? 0 : DFS_EIO;
}
