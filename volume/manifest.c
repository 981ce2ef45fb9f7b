/* {"name":"big.txt","mime":"text/plain","size":11,"chunks":[{"fid":"4,16..","offset":0,"size":6},...]} */
#include "volume/manifest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/gzip.h"

static int by_offset(const void *a, const void *b)
{
    const struct manifest_chunk *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static char *text_of(const json_t *doc, const char *key)
{
    const char *s = json_string_value(json_object_get(doc, key));
    return strdup(s != NULL ? s : "");
}

static int parse_chunk(const json_t *doc, struct manifest_chunk *out)
{
    const char *fid = json_string_value(json_object_get(doc, "fid"));
    json_int_t offset = json_integer_value(json_object_get(doc, "offset"));
    json_int_t size = json_integer_value(json_object_get(doc, "size"));
    if (fid == NULL || fid_parse(bytes_str(fid), &out->fid) != 0 || offset < 0 || size < 0)
        return DFS_EPROTO;
    out->offset = (uint64_t)offset;
    out->bytes = (uint64_t)size;
    return 0;
}

static int check_tiles(struct manifest *m, const json_t *doc)
{
    uint64_t at = 0;
    qsort(m->chunks, m->count, sizeof *m->chunks, by_offset);
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->chunks[i].offset != at || m->chunks[i].bytes > INT64_MAX - at)
            return DFS_EPROTO;
        at += m->chunks[i].bytes;
    }
    const json_t *size = json_object_get(doc, "size");
    m->size = at;
    return size != NULL && (uint64_t)json_integer_value(size) != at ? DFS_EPROTO : 0;
}

int manifest_parse(struct bytes json, struct manifest *out)
{
    struct manifest m;
    json_t *doc = json_loadb(json.p != NULL ? json.p : "", json.n, 0, NULL);
    json_t *list = json_object_get(doc, "chunks");
    size_t n = json_array_size(list);
    int rc = DFS_EPROTO;
    memset(&m, 0, sizeof m);
    if (!json_is_object(doc))
        goto out;
    rc = DFS_ETOOBIG;
    if (n > MANIFEST_CHUNKS_MAX)
        goto out;
    rc = DFS_ENOMEM;
    m.name = text_of(doc, "name");
    m.mime = text_of(doc, "mime");
    m.chunks = calloc(n + 1, sizeof *m.chunks);
    if (m.name == NULL || m.mime == NULL || m.chunks == NULL)
        goto out;
    for (rc = 0; rc == 0 && m.count < n;) {
        rc = parse_chunk(json_array_get(list, m.count), &m.chunks[m.count]);
        m.count++;
    }
    if (rc == 0)
        rc = check_tiles(&m, doc);
    if (rc == 0) {
        *out = m;
        memset(&m, 0, sizeof m);
    }
out:
    manifest_release(&m);
    json_decref(doc);
    return rc;
}

int manifest_parse_stored(struct bytes stored, bool compressed, struct manifest *out)
{
    char *plain = NULL;
    size_t n;
    if (!compressed || !gzip_looks_like(stored))
        return manifest_parse(stored, out);
    int rc = gzip_inflate_all(stored, MANIFEST_JSON_MAX, &plain, &n);
    if (rc == 0)
        rc = manifest_parse(bytes_of(plain, n), out);
    free(plain);
    return rc;
}

void manifest_release(struct manifest *m)
{
    free(m->name);
    free(m->mime);
    free(m->chunks);
    memset(m, 0, sizeof *m);
}
