/* Volumes made by hand. */
#include "tests/support/volume_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "needle/needle.h"
#include "net/rand.h"

#define RIG_TIME_NS 1700000000000000000u

/* ---- building ---- */

void vrig_append(struct rig_volume *b, const void *bytes, size_t n)
{
    if (b->dat_cap - b->dat_bytes < n) {
        b->dat_cap = (b->dat_cap + n) * 2;
        b->dat = realloc(b->dat, b->dat_cap);
        CHECK(b->dat != NULL);
    }
    memcpy(b->dat + b->dat_bytes, bytes, n);
    b->dat_bytes += n;
}

void vrig_volume_init(struct rig_volume *b, uint8_t version, unsigned width)
{
    struct superblock sb = {.version = version};
    uint8_t head[SUPERBLOCK_BYTES];

    *b = (struct rig_volume){.version = version, .width = width, .next_ns = RIG_TIME_NS};
    superblock_encode(&sb, head);
    vrig_append(b, head, sizeof head);
}

void vrig_volume_release(struct rig_volume *b)
{
    free(b->dat);
    free(b->rows);
}

void vrig_add_row(struct rig_volume *b, uint64_t key, uint64_t pos, uint32_t size)
{
    if (b->count == b->cap) {
        b->cap = b->cap * 2 + 64;
        b->rows = realloc(b->rows, b->cap * sizeof *b->rows);
        CHECK(b->rows != NULL);
    }
    b->rows[b->count++] = (struct idx_row){key, needle_offset_of(pos), size};
}

void vrig_drop_row(struct rig_volume *b)
{
    CHECK(b->count > 0);
    b->count--;
}

uint64_t vrig_put(struct rig_volume *b, uint64_t key, uint32_t cookie, const void *data, size_t n)
{
    struct needle needle = {.cookie = cookie, .key = key, .data_bytes = (uint32_t)n, .append_at_ns = b->next_ns++};
    uint8_t head[NEEDLE_HEADER_BYTES + 4];
    static uint8_t trail[NEEDLE_TRAILER_MAX];
    uint64_t pos = b->dat_bytes;

    if (b->version != NEEDLE_V1) {
        needle.flags = NEEDLE_HAS_LAST_MODIFIED;
        needle.last_modified_s = 1700000000;
    }
    needle.checksum = n == 0 ? 0 : needle_checksum_for(b->version, crc32c(0, data, n));
    CHECK(needle_body_bytes(b->version, &needle, &needle.body_bytes) == 0);
    vrig_append(b, head, needle_encode_head(b->version, &needle, head));
    vrig_append(b, data, n);
    vrig_append(b, trail, needle_encode_trail(b->version, &needle, trail));
    vrig_add_row(b, key, pos, needle.body_bytes);
    return pos;
}

void vrig_fill(uint64_t key, void *out, size_t n)
{
    uint64_t x = key * 0x9e3779b97f4a7c15u + n + 1;
    uint8_t *p = out;

    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (uint8_t)(x >> 32);
    }
}

uint64_t vrig_put_n(struct rig_volume *b, uint64_t key, size_t n)
{
    char *data = malloc(n + 1);
    uint64_t pos;

    CHECK(data != NULL);
    vrig_fill(key, data, n);
    pos = vrig_put(b, key, RIG_COOKIE, data, n);
    free(data);
    return pos;
}

uint64_t vrig_delete(struct rig_volume *b, uint64_t key, uint32_t cookie, uint32_t checksum)
{
    struct needle_header h = {cookie, key, 0};
    uint8_t rec[NEEDLE_TOMBSTONE_MAX];
    uint64_t pos = b->dat_bytes;

    vrig_append(b, rec, needle_encode_tombstone(b->version, &h, checksum, b->next_ns++, rec));
    if (checksum == 0) /* as a sloppy writer leaves it, not as ours does */
        memset(b->dat + pos + NEEDLE_HEADER_BYTES, 0, 4);
    vrig_add_row(b, key, pos, IDX_SIZE_TOMBSTONE);
    return pos;
}

static int by_key(const void *a, const void *b)
{
    const struct idx_row *x = a, *y = b;

    return x->key < y->key ? -1 : x->key > y->key;
}

static int by_offset(const void *a, const void *b)
{
    const struct idx_row *x = a, *y = b;

    return x->offset.units8 < y->offset.units8 ? -1 : x->offset.units8 > y->offset.units8;
}

void vrig_sort_rows(struct rig_volume *b, bool keys)
{
    qsort(b->rows, b->count, sizeof *b->rows, keys ? by_key : by_offset);
}

void vrig_write(const struct rig_volume *b, const char *dir, const char *base, bool with_vif)
{
    uint8_t *idx = malloc((size_t)b->count * IDX_ROW_BYTES_MAX + 1);
    char name[128], vif[256];
    size_t n = 0;

    CHECK(idx != NULL);
    for (uint32_t i = 0; i < b->count; i++)
        n += idx_row_encode(b->width, &b->rows[i], idx + n);
    (void)snprintf(name, sizeof name, "%s.dat", base);
    vrig_write_file(dir, name, b->dat, b->dat_bytes);
    (void)snprintf(name, sizeof name, "%s.idx", base);
    vrig_write_file(dir, name, idx, n);
    free(idx);
    if (!with_vif)
        return;
    (void)snprintf(name, sizeof name, "%s.vif", base);
    (void)snprintf(vif, sizeof vif, "{\"files\": [], \"version\": %u, \"bytesOffset\": %u, \"expireAtSec\": \"0\"}", b->version,
                   b->width);
    vrig_write_file(dir, name, vif, strlen(vif));
}

/* ---- files ---- */

static void path_in(const char *dir, const char *name, char out[VOLUME_PATH_MAX])
{
    CHECK(snprintf(out, VOLUME_PATH_MAX, "%s/%s", dir, name) < VOLUME_PATH_MAX);
}

void vrig_write_file(const char *dir, const char *name, const void *p, size_t n)
{
    char path[VOLUME_PATH_MAX];
    FILE *f;

    path_in(dir, name, path);
    f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK(fwrite(p, 1, n, f) == n);
    CHECK(fclose(f) == 0);
}

char *vrig_read_file(const char *dir, const char *name, size_t *n)
{
    char path[VOLUME_PATH_MAX];
    struct stat st;
    char *buf;
    FILE *f;

    path_in(dir, name, path);
    f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    CHECK(fstat(fileno(f), &st) == 0);
    buf = malloc((size_t)st.st_size + 1);
    CHECK(buf != NULL);
    *n = fread(buf, 1, (size_t)st.st_size, f);
    CHECK(*n == (size_t)st.st_size);
    buf[*n] = '\0';
    fclose(f);
    return buf;
}

bool vrig_exists(const char *dir, const char *name)
{
    char path[VOLUME_PATH_MAX];

    path_in(dir, name, path);
    return access(path, F_OK) == 0;
}

uint64_t vrig_file_bytes(const char *dir, const char *name)
{
    char path[VOLUME_PATH_MAX];
    struct stat st;

    path_in(dir, name, path);
    CHECK(stat(path, &st) == 0);
    return (uint64_t)st.st_size;
}

void vrig_hash(const char *dir, const char *name, unsigned char out[32])
{
    size_t n;
    char *p = vrig_read_file(dir, name, &n);

    CHECK(p != NULL);
    crypto_hash_sha256(out, (unsigned char *)p, n);
    free(p);
}

void vrig_copy_folder(const char *from, const char *to)
{
    DIR *d = opendir(from);
    struct dirent *e;

    CHECK(d != NULL);
    while ((e = readdir(d)) != NULL) {
        size_t n;
        char *p;

        if (e->d_name[0] == '.')
            continue;
        p = vrig_read_file(from, e->d_name, &n);
        CHECK(p != NULL);
        vrig_write_file(to, e->d_name, p, n);
        free(p);
    }
    closedir(d);
}

void vrig_truncate(const char *dir, const char *name, uint64_t n)
{
    char path[VOLUME_PATH_MAX];

    path_in(dir, name, path);
    CHECK(truncate(path, (off_t)n) == 0);
}

void vrig_overwrite(const char *dir, const char *name, uint64_t pos, const void *p, size_t n)
{
    char path[VOLUME_PATH_MAX];
    int fd;

    path_in(dir, name, path);
    fd = open(path, O_WRONLY);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, p, n, (off_t)pos) == (ssize_t)n);
    close(fd);
}

/* ---- a store ---- */

struct store *vrig_open_kind(const char *dir, enum needle_map_kind kind)
{
    struct store_options o;
    struct store *s = NULL;

    CHECK(rand_init() == 0);
    store_options_init(&o);
    o.dirs[0] = dir;
    o.dir_count = 1;
    o.index_kind = kind;
    o.pool_bytes = 8 << 20;
    o.min_free_percent = 0;
    CHECK(store_open(&o, &s) == 0);
    CHECK(store_load_start(s) == 0);
    store_load_wait(s);
    return s;
}

struct store *vrig_open(const char *dir)
{
    return vrig_open_kind(dir, NEEDLE_MAP_MEMORY);
}

void vrig_close(struct store *s)
{
    store_stop(s);
    store_free(s);
}

static int get_from(struct volume_gen *g, uint64_t key, uint32_t cookie, char **data, size_t *n)
{
    struct needle_value v;
    struct needle needle;
    struct bytes body = BYTES_NONE;
    uint64_t record_bytes;
    char *buf;
    int rc = needle_map_get(g->map, key, &v);

    if (rc != 0 || v.deleted)
        return rc != 0 ? rc : DFS_ENOTFOUND;
    record_bytes = needle_record_bytes(g->version, v.size);
    buf = malloc(record_bytes);
    CHECK(buf != NULL);
    rc = disk_read(g->fd, buf, record_bytes, needle_offset_bytes(v.offset), NULL);
    if (rc == DFS_ESHORT)
        rc = DFS_ECORRUPT;
    if (rc == 0 && be32_get(buf + 12) != v.size)
        rc = DFS_ECORRUPT;
    if (rc == 0)
        rc = needle_decode(g->version, bytes_of(buf, record_bytes), &needle, &body);
    if (rc == 0 && needle.key != key)
        rc = DFS_ECORRUPT;
    if (rc == 0 && needle.cookie != cookie)
        rc = DFS_ECOOKIE;
    if (rc == 0)
        rc = needle_verify(&needle, body);
    if (rc == 0 && data != NULL) {
        *data = malloc(body.n + 1);
        CHECK(*data != NULL);
        memcpy(*data, body.n > 0 ? body.p : "", body.n);
        *n = body.n;
    }
    free(buf);
    return rc;
}

int vrig_get(struct store *s, uint32_t volume_id, uint64_t key, uint32_t cookie, char **data, size_t *n)
{
    struct volume *v = store_get(s, volume_id);
    struct volume_gen *g;
    int rc;

    if (v == NULL)
        return DFS_ENOVOLUME;
    g = volume_gen_ref(v);
    rc = g == NULL ? DFS_EUNAVAILABLE : get_from(g, key, cookie, data, n);
    volume_gen_unref(g);
    volume_unref(v);
    return rc;
}

bool vrig_holds(struct store *s, uint32_t volume_id, uint64_t key, size_t n)
{
    char *data = NULL, *want = malloc(n + 1);
    size_t got = 0;
    bool same;

    CHECK(want != NULL);
    vrig_fill(key, want, n);
    same = vrig_get(s, volume_id, key, RIG_COOKIE, &data, &got) == 0 && got == n && memcmp(data, want, n) == 0;
    free(data);
    free(want);
    return same;
}

void vrig_info(struct store *s, uint32_t volume_id, struct volume_info *out)
{
    struct volume *v = store_get(s, volume_id);

    CHECK(v != NULL);
    volume_info_get(v, out);
    volume_unref(v);
}

bool vrig_tiles(const char *dir, const char *base, uint8_t version, unsigned width)
{
    char name[128];
    size_t n, step = idx_row_bytes(width);
    uint64_t pos = SUPERBLOCK_BYTES;
    char *idx;
    bool good;

    (void)snprintf(name, sizeof name, "%s.idx", base);
    idx = vrig_read_file(dir, name, &n);
    good = idx != NULL && n % step == 0;
    for (size_t at = 0; good && at < n; at += step) {
        struct idx_row row;

        idx_row_decode(width, (uint8_t *)idx + at, &row);
        if (row.offset.units8 == 0)
            continue;
        good = needle_offset_bytes(row.offset) == pos;
        pos += needle_record_bytes(version, idx_row_deletes(&row) ? 0 : row.size);
    }
    free(idx);
    (void)snprintf(name, sizeof name, "%s.dat", base);
    return good && pos == vrig_file_bytes(dir, name);
}
