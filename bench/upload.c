/* dfs upload: files, or all files below a folder; large ones in chunks behind a manifest.
 *
 * Prints what `weed upload` prints: one JSON array for the named files, one for each file of a folder.  A file that fails has
 * the error beside its name, a line on standard error, and its chunks are deleted again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/tool_run.h"
#include "needle/err.h"
#include "net/http_util.h"
#include "net/jsonw.h"
#include "net/rand.h"

#define TOOL "upload"
#define DEPTH_MAX 64
#define PATH_BYTES_MAX 4096
#define NAME_BYTES_MAX 255u
#define FILE_BYTES_MAX (1ull << 31) /* without chunks */

struct upload {
    const struct tool_options *o;
    struct sync_client *client;
    char assign_query[512];
    char upload_query[128];
    char boundary[33];
    char *buffer; /* of one piece */
    size_t buffer_cap;
};

/* Where one needle went. */
struct stored {
    struct fid fid;
    const struct addr *addr;
};

struct chunk {
    struct stored at;
    uint64_t offset, bytes;
};

/* ---- texts ---- */

static void query_add(char *query, size_t cap, const char *key, const char *value)
{
    size_t n = strlen(query);
    if (value != NULL && value[0] != '\0')
        snprintf(query + n, cap - n, "%s%s=%s", n > 0 ? "&" : "", key, value);
}

/* The values were checked to be names and times; none needs escaping. */
static void make_texts(struct upload *u)
{
    const struct tool_options *o = u->o;
    query_add(u->assign_query, sizeof u->assign_query, "count", "1");
    query_add(u->assign_query, sizeof u->assign_query, "replication", o->replication);
    query_add(u->assign_query, sizeof u->assign_query, "collection", o->collection);
    query_add(u->assign_query, sizeof u->assign_query, "dataCenter", o->data_center);
    query_add(u->assign_query, sizeof u->assign_query, "ttl", o->ttl);
    query_add(u->assign_query, sizeof u->assign_query, "disk", o->disk);
    query_add(u->upload_query, sizeof u->upload_query, "ttl", o->ttl);
    query_add(u->upload_query, sizeof u->upload_query, "fsync", o->fsync ? "true" : "");
    snprintf(u->boundary, sizeof u->boundary, "%016llx%016llx", (unsigned long long)rand_u64(),
             (unsigned long long)rand_u64());
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static struct bytes mime_of(const char *name)
{
    struct bytes mime = http_mime_by_ext(http_name_ext(bytes_str(name)));
    return mime.p != NULL ? mime : BYTES_LIT("application/octet-stream");
}

/* A name between double quotes: these, and what would end the line, are escaped as browsers do. */
static void quote_name(const char *name, char *out, size_t cap)
{
    size_t n = 0;
    for (; *name != '\0' && n + 4 < cap; name++) {
        if (*name == '"' || *name == '\\') {
            out[n++] = '\\';
            out[n++] = *name;
        } else if ((unsigned char)*name < ' ' || *name == 0x7f) {
            n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned)(unsigned char)*name);
        } else {
            out[n++] = *name;
        }
    }
    out[n] = '\0';
}

/* ---- one needle ---- */

static int store(struct upload *u, const char *name, struct bytes mime, struct bytes content, bool manifest,
                 struct stored *out)
{
    char error[SYNC_ERROR_MAX], target[FID_TEXT_MAX + 192], headers[128], head[1280], tail[48], quoted[1024];
    char fid[FID_TEXT_MAX];
    struct sync_answer a;

    if (sync_assign(u->client, bytes_str(u->assign_query), &out->fid, &out->addr, error) != 0)
        return tool_complain(TOOL, "%s", error);
    fid_format(&out->fid, fid);
    snprintf(target, sizeof target, "/%s%s%s%s%s", fid, u->upload_query[0] != '\0' || manifest ? "?" : "", u->upload_query,
             u->upload_query[0] != '\0' && manifest ? "&" : "", manifest ? "cm=true" : "");
    snprintf(headers, sizeof headers, "Content-Type: multipart/form-data; boundary=%s\r\n", u->boundary);
    quote_name(name, quoted, sizeof quoted);
    snprintf(head, sizeof head,
             "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\nContent-Type: %.*s\r\n\r\n",
             u->boundary, quoted, (int)mime.n, mime.p);
    snprintf(tail, sizeof tail, "\r\n--%s--\r\n", u->boundary);
    struct bytes body[3] = {bytes_str(head), content, bytes_str(tail)};
    struct sync_request req = {
        .addr = out->addr,
        .method = HTTP_POST,
        .target = target,
        .headers = bytes_str(headers),
        .body = body,
        .body_count = 3,
    };
    if (tool_call(TOOL, u->client, &req, "store", fid, &a) != 0)
        return 1;
    sync_answer_release(&a);
    return 0;
}

static void take_back(struct upload *u, const struct stored *s)
{
    struct sync_answer a;
    char target[FID_TEXT_MAX + 1] = "/";
    struct sync_request req = {.addr = s->addr, .method = HTTP_DELETE, .target = target};
    fid_format(&s->fid, target + 1);
    if (sync_call(u->client, &req, &a) == 0)
        sync_answer_release(&a);
}

/* ---- a file ---- */

/* Exactly n bytes at offset into the buffer. */
static int read_piece(struct upload *u, const char *path, int fd, uint64_t offset, size_t n)
{
    size_t got = 0;
    if (n > u->buffer_cap) {
        char *p = realloc(u->buffer, n);
        if (p == NULL)
            return tool_complain(TOOL, "cannot read '%s': %s", path, dfs_err_text(DFS_ENOMEM));
        u->buffer = p;
        u->buffer_cap = n;
    }
    while (got < n) {
        ssize_t r = pread(fd, u->buffer + got, n - got, (off_t)(offset + got));
        if (r == -1 && errno == EINTR)
            continue;
        if (r == -1)
            return tool_complain(TOOL, "cannot read '%s': %s", path, strerror(errno));
        if (r == 0)
            return tool_complain(TOOL, "cannot read '%s': it became shorter meanwhile", path);
        got += (size_t)r;
    }
    return 0;
}

static int store_manifest(struct upload *u, const char *name, uint64_t size, const struct chunk *chunks, size_t count,
                          struct stored *out)
{
    struct jsonw w;
    struct bytes json;
    struct bytes mime = mime_of(name);
    char fid[FID_TEXT_MAX];
    int status;

    jsonw_init(&w, false);
    jsonw_object(&w);
    jsonw_put_str(&w, "name", name);
    jsonw_put_string(&w, "mime", mime);
    jsonw_put_u64(&w, "size", size);
    jsonw_put_array(&w, "chunks");
    for (size_t i = 0; i < count; i++) {
        fid_format(&chunks[i].at.fid, fid);
        jsonw_object(&w);
        jsonw_put_str(&w, "fid", fid);
        jsonw_put_u64(&w, "offset", chunks[i].offset);
        jsonw_put_u64(&w, "size", chunks[i].bytes);
        jsonw_object_end(&w);
    }
    jsonw_array_end(&w);
    jsonw_object_end(&w);
    if (jsonw_done(&w, &json) != 0)
        status = tool_complain(TOOL, "cannot store '%s': %s", name, dfs_err_text(DFS_ENOMEM));
    else
        status = store(u, name, BYTES_LIT("application/json"), json, true, out);
    jsonw_release(&w);
    return status;
}

static int store_chunks(struct upload *u, const char *path, int fd, uint64_t size, struct stored *out)
{
    size_t count = (size_t)((size + u->o->max_bytes - 1) / u->o->max_bytes), done = 0;
    struct chunk *chunks = calloc(count, sizeof *chunks);
    int status = chunks != NULL ? 0 : tool_complain(TOOL, "cannot store '%s': %s", path, dfs_err_text(DFS_ENOMEM));

    for (; status == 0 && done < count; done += status == 0) {
        struct chunk *c = &chunks[done];
        char name[NAME_BYTES_MAX + 32];
        c->offset = done * u->o->max_bytes;
        c->bytes = size - c->offset < u->o->max_bytes ? size - c->offset : u->o->max_bytes;
        snprintf(name, sizeof name, "%.255s-%zu", base_name(path), done + 1);
        status = read_piece(u, path, fd, c->offset, (size_t)c->bytes);
        if (status == 0)
            status = store(u, name, BYTES_LIT("application/octet-stream"), bytes_of(u->buffer, (size_t)c->bytes), false, &c->at);
    }
    if (status == 0)
        status = store_manifest(u, base_name(path), size, chunks, count, out);
    /* The one that failed too: it may have arrived all the same. */
    for (size_t i = 0; status != 0 && chunks != NULL && i < count && chunks[i].at.addr != NULL; i++)
        take_back(u, &chunks[i].at);
    free(chunks);
    return status;
}

static int store_whole(struct upload *u, const char *path, int fd, uint64_t size, struct stored *out)
{
    const char *name = base_name(path);
    if (size >= FILE_BYTES_MAX)
        return tool_complain(TOOL, "cannot store '%s' in one piece: it is 2 GB or more; set -maxMB", path);
    if (read_piece(u, path, fd, 0, (size_t)size) != 0)
        return 1;
    return store(u, name, mime_of(name), bytes_of(u->buffer, (size_t)size), false, out);
}

static int store_file(struct upload *u, const char *path, uint64_t *size, struct stored *out)
{
    struct stat st;
    int status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd == -1)
        return tool_complain(TOOL, "cannot read '%s': %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = tool_complain(TOOL, "cannot read '%s': it is no regular file", path);
    } else {
        *size = (uint64_t)st.st_size;
        if (u->o->max_bytes > 0 && *size > u->o->max_bytes)
            status = store_chunks(u, path, fd, *size, out);
        else
            status = store_whole(u, path, fd, *size, out);
    }
    close(fd);
    return status;
}

/* ---- results ---- */

static void put_result(struct jsonw *w, const char *path, int status, uint64_t size, const struct stored *s)
{
    char fid[FID_TEXT_MAX], address[ADDR_TEXT_MAX], url[ADDR_TEXT_MAX + FID_TEXT_MAX + 1];

    jsonw_object(w);
    jsonw_put_str(w, "fileName", base_name(path));
    if (status == 0) {
        fid_format(&s->fid, fid);
        addr_format(s->addr, address);
        snprintf(url, sizeof url, "%s/%s", address, fid);
        jsonw_put_str(w, "url", url);
        jsonw_put_str(w, "fid", fid);
        jsonw_put_u64(w, "size", size);
        jsonw_put_str(w, "fileUrl", url); /* what release 0.76 of the peer called it */
    } else {
        jsonw_put_str(w, "error", tool_last_complaint());
    }
    jsonw_object_end(w);
}

static int upload_into(struct upload *u, const char *path, struct jsonw *w)
{
    struct stored s;
    uint64_t size = 0;
    int status = store_file(u, path, &size, &s);
    put_result(w, path, status, size, &s);
    return status;
}

static int print_array(struct jsonw *w)
{
    struct bytes text;
    int status = 0;
    jsonw_array_end(w);
    if (jsonw_done(w, &text) != 0 || printf("%.*s\n", (int)text.n, text.p) < 0 || fflush(stdout) != 0)
        status = tool_complain(TOOL, "cannot print what was stored");
    jsonw_release(w);
    return status;
}

static int upload_files(struct upload *u, int argc, char **argv)
{
    struct jsonw w;
    int status = 0;
    jsonw_init(&w, false);
    jsonw_array(&w);
    for (int i = 0; i < argc; i++)
        status |= upload_into(u, argv[i], &w);
    return print_array(&w) | status;
}

static int upload_found(struct upload *u, const char *path)
{
    struct jsonw w;
    int status;
    if (u->o->include != NULL && u->o->include[0] != '\0' && fnmatch(u->o->include, base_name(path), 0) != 0)
        return 0;
    jsonw_init(&w, false);
    jsonw_array(&w);
    status = upload_into(u, path, &w);
    return print_array(&w) | status;
}

/* Links to folders are not followed: they may lead in a circle. */
static int upload_folder(struct upload *u, const char *dir, int depth)
{
    struct dirent **entries;
    int status = 0, n;

    if (depth > DEPTH_MAX)
        return tool_complain(TOOL, "folder '%s' is more than %d deep", dir, DEPTH_MAX);
    n = scandir(dir, &entries, NULL, alphasort);
    if (n == -1)
        return tool_complain(TOOL, "cannot read folder '%s': %s", dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[PATH_BYTES_MAX];
        const char *name = entries[i]->d_name;
        struct stat st;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
            status |= tool_complain(TOOL, "path of '%s' is too long", name);
        else if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            status |= upload_folder(u, path, depth + 1);
        else if (stat(path, &st) != 0)
            status |= tool_complain(TOOL, "cannot read '%s': %s", path, strerror(errno));
        else if (S_ISREG(st.st_mode))
            status |= upload_found(u, path);
    }
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    return status;
}

int tool_upload(const struct tool_options *o, int argc, char **argv)
{
    bool folder = o->dir != NULL && o->dir[0] != '\0';
    struct upload u = {.o = o};
    int status = 0;

    if (argc == 0 && !folder)
        return tool_usage(TOOL, "name files, or a folder with -dir");
    u.client = tool_client(TOOL, o);
    if (u.client == NULL)
        return 1;
    make_texts(&u);
    if (folder)
        status |= upload_folder(&u, o->dir, 0);
    if (argc > 0)
        status |= upload_files(&u, argc, argv);
    sync_client_free(u.client);
    free(u.buffer);
    return status;
}
