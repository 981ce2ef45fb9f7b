/* Appending and reading ids. */
#include "bench/list_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "needle/err.h"

#define LINE_MAX_BYTES 4096u
#define HEAD_LINE "# dfs benchmark: size="

static int fail(char *error, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(char *error, int rc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, LIST_FILE_ERROR_MAX, fmt, ap);
    va_end(ap);
    return rc;
}

int list_file_create(struct list_file *f, const char *path, uint64_t size_bytes, char error[LIST_FILE_ERROR_MAX])
{
    char head[64];
    int n = snprintf(head, sizeof head, HEAD_LINE "%" PRIu64 "\n", size_bytes);
    int rc, saved;

    f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (f->fd == -1) {
        saved = errno;
        return fail(error, dfs_err_from_errno(saved), "cannot write list '%s': %s", path, strerror(saved));
    }
    /* Locked before it is emptied: the loser of two runs must not destroy the winner's list. */
    if (flock(f->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        rc = fail(error, DFS_EBUSY, "another run is writing list '%s': name one of its own with -list", path);
        goto close;
    }
    /* A pipe or a terminal is as good as a file, but cannot be emptied. */
    if (ftruncate(f->fd, 0) != 0 && errno != EINVAL) {
        saved = errno;
        rc = fail(error, dfs_err_from_errno(saved), "cannot empty list '%s': %s", path, strerror(saved));
        goto close;
    }
    rc = list_file_append(f, bytes_of(head, (size_t)n));
    if (rc == 0)
        return 0;
    fail(error, rc, "cannot write list '%s': %s", path, dfs_err_text(rc));
close:
    list_file_close(f);
    return rc;
}

int list_file_append(const struct list_file *f, struct bytes lines)
{
    while (lines.n > 0) {
        ssize_t n = write(f->fd, lines.p, lines.n);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return dfs_err_from_errno(errno);
        lines = bytes_of(lines.p + n, lines.n - (size_t)n);
    }
    return 0;
}

void list_file_close(struct list_file *f)
{
    if (f->fd != -1)
        close(f->fd);
    f->fd = -1;
}

/* ---- reading ---- */

void list_init(struct list *l)
{
    memset(l, 0, sizeof *l);
    l->foreign = true;
}

void list_release(struct list *l)
{
    free(l->fids);
    list_init(l);
}

int list_push(struct list *l, struct fid fid)
{
    if (l->count == l->cap) {
        size_t cap = l->cap == 0 ? 1024 : l->cap * 2;
        struct fid *p = realloc(l->fids, cap * sizeof *p);
        if (p == NULL)
            return DFS_ENOMEM;
        l->fids = p;
        l->cap = cap;
    }
    l->fids[l->count++] = fid;
    return 0;
}

static struct bytes trimmed(struct bytes line)
{
    while (line.n > 0 && strchr(" \t\r\n", line.p[line.n - 1]) != NULL)
        line.n--;
    while (line.n > 0 && strchr(" \t", line.p[0]) != NULL)
        line = bytes_of(line.p + 1, line.n - 1);
    return line;
}

static void take_comment(struct list *l, struct bytes line, uint64_t number)
{
    char text[64];
    unsigned long long size;
    int end = 0;

    if (number != 1 || line.n >= sizeof text)
        return;
    memcpy(text, line.p, line.n);
    text[line.n] = '\0';
    if (sscanf(text, HEAD_LINE "%llu%n", &size, &end) == 1 && text[end] == '\0') {
        l->foreign = false;
        l->size_bytes = size;
    }
}

/* whole: the line has its end. */
static int take_line(struct list *l, struct bytes line, uint64_t number, bool whole)
{
    struct fid fid;

    line = trimmed(line);
    if (line.n == 0)
        return 0;
    if (line.p[0] == '#') {
        take_comment(l, line, number);
        return 0;
    }
    /* Our own lines all have an end, and the front of an id may look like another one. */
    if (!whole && !l->foreign)
        return 0;
    if (fid_parse(line, &fid) != 0)
        return whole ? DFS_EINVAL : 0;
    return list_push(l, fid);
}

int list_read(struct list *l, const char *path, char error[LIST_FILE_ERROR_MAX])
{
    char line[LINE_MAX_BYTES];
    uint64_t number = 0;
    int rc = 0;
    FILE *in = fopen(path, "re");

    if (in == NULL) {
        int saved = errno;
        return fail(error, dfs_err_from_errno(saved), "cannot read list '%s': %s", path, strerror(saved));
    }
    while (rc == 0 && fgets(line, sizeof line, in) != NULL) {
        size_t n = strlen(line);
        bool whole = n > 0 && line[n - 1] == '\n';
        number++;
        if (!whole && !feof(in))
            rc = DFS_EINVAL;
        else
            rc = take_line(l, bytes_of(line, n), number, whole);
    }
    if (rc == DFS_EINVAL)
        fail(error, rc, "line %" PRIu64 " of list '%s' is no file id: '%.*s'", number, path,
             (int)strnlen(line, strcspn(line, "\r\n") < 60 ? strcspn(line, "\r\n") : 60), line);
    else if (rc != 0)
        fail(error, rc, "cannot read list '%s': %s", path, dfs_err_text(rc));
    else if (ferror(in))
        rc = fail(error, DFS_EIO, "cannot read list '%s': %s", path, strerror(errno));
    fclose(in);
    return rc;
}
