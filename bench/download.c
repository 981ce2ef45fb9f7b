/* dfs download: each id into a file of the folder, under the name it was stored with, or its id.
 *
 * The name comes from outside: only its last element counts, control bytes are replaced, and the file is made beside under a
 * name of ours and moved over when it is whole and right, so neither a path nor a link in the folder leads out of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/tool_run.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/http_util.h"
#include "net/rand.h"

#define NAME_BYTES_MAX 255u

struct download {
    struct sync_client *client;
    const char *dir;
    int dir_fd;
    char **done; /* names that this run wrote */
    size_t done_n;
};

struct sink {
    int fd;
    int write_errno;
    uint32_t crc;
};

static int on_bytes(void *arg, struct bytes in)
{
    struct sink *s = arg;
    s->crc = crc32c(s->crc, in.p, in.n);
    while (in.n > 0) {
        ssize_t n = write(s->fd, in.p, in.n);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1) {
            s->write_errno = errno;
            return dfs_err_from_errno(errno);
        }
        in = bytes_of(in.p + n, in.n - (size_t)n);
    }
    return 0;
}

/* The ETag is the CRC-32C of what is stored; that of a manifest is of something else. */
static bool is_right(const struct sync_answer *a, const struct sink *s)
{
    char want[16];
    if (a->is_manifest || strlen(a->etag) != 10 || a->etag[0] != '"' || strspn(a->etag + 1, "0123456789abcdef") != 8)
        return true;
    snprintf(want, sizeof want, "\"%08x\"", s->crc);
    return strcmp(want, a->etag) == 0;
}

static bool is_written(const struct download *d, const char *name)
{
    for (size_t i = 0; i < d->done_n; i++)
        if (strcmp(d->done[i], name) == 0)
            return true;
    return false;
}

/* name: NAME_BYTES_MAX + 1 bytes. */
static void choose_name(const struct download *d, const struct sync_answer *a, const char *fid, char *name)
{
    char decoded[SYNC_HEADER_MAX + 1];
    struct bytes stored = http_disposition_name(bytes_str(a->disposition), decoded);

    name[0] = '\0';
    if (stored.p != NULL && stored.n <= NAME_BYTES_MAX && memchr(stored.p, '\0', stored.n) == NULL) {
        for (size_t i = 0; i < stored.n; i++)
            name[i] = (unsigned char)stored.p[i] < ' ' || stored.p[i] == 0x7f ? '_' : stored.p[i];
        name[stored.n] = '\0';
    }
    if (name[0] == '\0' || is_written(d, name))
        snprintf(name, NAME_BYTES_MAX + 1, "%s", fid);
}

static int keep_name(struct download *d, const char *name)
{
    d->done[d->done_n] = strdup(name);
    if (d->done[d->done_n] == NULL)
        return tool_complain("download", "%s", dfs_err_text(DFS_ENOMEM));
    d->done_n++;
    return 0;
}

/* The body is in the file `part`: move it to its name when it is right. */
static int finish(struct download *d, const struct sync_answer *a, struct sink *s, const char *fid, const char *part)
{
    char name[NAME_BYTES_MAX + 1];

    if (!is_right(a, s))
        return tool_complain("download", "%s is corrupt: what came has CRC %08x, its ETag is %s", fid, s->crc, a->etag);
    choose_name(d, a, fid, name);
    int failed = close(s->fd);
    s->fd = -1;
    if (failed != 0 || renameat(d->dir_fd, part, d->dir_fd, name) != 0)
        return tool_complain("download", "cannot write '%s/%s': %s", d->dir, name, strerror(errno));
    printf("%s\n", name);
    return keep_name(d, name);
}

static int fetch(struct download *d, const struct addr *addr, const char *fid, struct sink *s, const char *part)
{
    struct sync_answer a;
    char target[FID_TEXT_MAX + 1];
    struct sync_request req = {.addr = addr, .method = HTTP_GET, .target = target, .sink = on_bytes, .arg = s};
    int status;

    snprintf(target, sizeof target, "/%s", fid);
    s->fd = openat(d->dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd == -1)
        return tool_complain("download", "cannot write in folder '%s': %s", d->dir, strerror(errno));
    status = tool_call("download", d->client, &req, "fetch", fid, &a);
    if (s->write_errno != 0)
        tool_complain("download", "cannot write in folder '%s': %s", d->dir, strerror(s->write_errno));
    if (status == 0) {
        status = finish(d, &a, s, fid, part);
        sync_answer_release(&a);
    }
    if (s->fd != -1)
        close(s->fd);
    if (status != 0)
        unlinkat(d->dir_fd, part, 0);
    return status;
}

static int download_one(struct download *d, const char *text)
{
    struct fid fid;
    const struct addr *addr;
    struct sink s = {.fd = -1};
    char canonical[FID_TEXT_MAX], part[64];

    if (tool_locate("download", d->client, text, &fid, &addr) != 0)
        return 1;
    fid_format(&fid, canonical);
    snprintf(part, sizeof part, ".dfs-download-%016llx", (unsigned long long)rand_u64());
    return fetch(d, addr, canonical, &s, part);
}

int tool_download(const struct tool_options *o, int argc, char **argv)
{
    struct download d = {.dir = o->into != NULL && o->into[0] != '\0' ? o->into : ".", .dir_fd = -1};
    int status = 1;

    if (argc == 0)
        return tool_usage("download", "name the ids to fetch");
    d.dir_fd = open(d.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d.dir_fd == -1)
        return tool_complain("download", "cannot use folder '%s': %s", d.dir, strerror(errno));
    d.done = calloc((size_t)argc, sizeof *d.done);
    d.client = d.done != NULL ? tool_client("download", o) : NULL;
    if (d.client != NULL) {
        status = 0;
        for (int i = 0; i < argc; i++)
            status |= download_one(&d, argv[i]);
    }
    if (fflush(stdout) != 0)
        status = 1;
    sync_client_free(d.client);
    for (size_t i = 0; i < d.done_n; i++)
        free(d.done[i]);
    free(d.done);
    close(d.dir_fd);
    return status;
}
