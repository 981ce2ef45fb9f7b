/* Rows of the .idx behind the writer, and the checkpoint that says how far it is known to be good.
 *
 * B.ckp, 64 bytes, big endian, replaced whole:
 *   OFFSET SIZE MEANING
 *        0    8 "DFSCKP01"
 *        8    8 bytes of the .idx that are on the disk
 *       16    8 bytes of the .dat that are on the disk; the rows in front describe exactly these
 *       24    8 append time of the newest record among them, ns
 *       32    4 CRC-32C of those bytes of the .idx
 *       36    2 compaction revision
 *       38    1 offset width
 *       39    1 version of the .dat
 *       40    4 flags: 1 = damage in front was left as it was
 *       44   16 zero
 *       60    4 CRC-32C of bytes 0..59
 * It is a promise, not a need: one that does not fit the files is ignored, and the rows are checked like any others. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/store_internal.h"

#define CHECKPOINT_BYTES 64u
#define CHECKPOINT_DAMAGED 1u
#define PENDING_MIN 64u
#define CRC_PIECE (1u << 20)

static const char checkpoint_magic[8] = "DFSCKP01";

/* ---- rows ---- */

void volume_index_attach(struct volume *v, int idx_fd, uint64_t idx_bytes, uint32_t idx_crc)
{
    v->idx_fd = idx_fd;
    v->idx_bytes = idx_bytes;
    v->idx_crc = idx_crc;
    v->idx_crc_bytes = idx_bytes;
}

int volume_index_add(struct volume *v, const struct idx_row *row)
{
    if (v->idx_pending_count == v->idx_pending_cap) {
        uint32_t cap = v->idx_pending_cap == 0 ? PENDING_MIN : v->idx_pending_cap * 2;
        struct idx_row *rows;

        if (v->idx_pending_count >= VOLUME_INDEX_PENDING_MAX)
            return DFS_ENOSPC;
        rows = realloc(v->idx_pending, cap * sizeof *rows);
        if (rows == NULL)
            return DFS_ENOMEM;
        v->idx_pending = rows;
        v->idx_pending_cap = cap;
    }
    v->idx_pending[v->idx_pending_count++] = *row;
    return 0;
}

/* Encodes up to `max` rows from `first` on. */
static size_t encode_rows(const struct volume *v, uint32_t first, uint32_t max, uint8_t *out)
{
    size_t n = 0;

    for (uint32_t i = first; i < v->idx_pending_count && i - first < max; i++)
        n += idx_row_encode(v->offset_width, &v->idx_pending[i], out + n);
    return n;
}

static void rows_failed(struct volume *v, int rc)
{
    bool first = !v->idx_behind;

    v->idx_behind = true;
    if (first)
        log_error("cannot write '%s.idx' at %" PRIu64 ", its rows wait: %s", v->base, v->idx_bytes,
                  errno != 0 ? strerror(errno) : dfs_err_text(rc));
    if (v->idx_pending_count >= VOLUME_INDEX_PENDING_MAX)
        volume_set_no_write(v, VOLUME_FLUSH_FAILED, "'%s.idx' cannot be written and %u rows wait for it", v->base,
                            VOLUME_INDEX_PENDING_MAX);
}

void volume_index_flush(struct volume *v)
{
    uint8_t stack[256 * IDX_ROW_BYTES_MAX];
    const uint32_t step = sizeof stack / IDX_ROW_BYTES_MAX;
    uint32_t done = 0;

    while (done < v->idx_pending_count) {
        size_t n = encode_rows(v, done, step, stack);
        int rc = v->idx_fd < 0 ? DFS_EIO : disk_write(v->idx_fd, stack, n, v->idx_bytes);

        if (rc != 0) {
            memmove(v->idx_pending, v->idx_pending + done, (v->idx_pending_count - done) * sizeof *v->idx_pending);
            v->idx_pending_count -= done;
            rows_failed(v, rc);
            return;
        }
        if (v->idx_crc_bytes == v->idx_bytes) {
            v->idx_crc = crc32c(v->idx_crc, stack, n);
            v->idx_crc_bytes += n;
        }
        v->idx_bytes += n;
        done += (uint32_t)(n / idx_row_bytes(v->offset_width));
    }
    if (v->idx_behind)
        log_info("'%s.idx' can be written again", v->base);
    v->idx_behind = false;
    v->idx_pending_count = 0;
}

/* ---- checkpoints ---- */

static void checkpoint_encode(const struct volume_checkpoint *c, uint8_t out[CHECKPOINT_BYTES])
{
    memset(out, 0, CHECKPOINT_BYTES);
    memcpy(out, checkpoint_magic, sizeof checkpoint_magic);
    be64_put(out + 8, c->idx_bytes);
    be64_put(out + 16, c->dat_bytes);
    be64_put(out + 24, c->last_append_ns);
    be32_put(out + 32, c->idx_crc);
    be16_put(out + 36, c->revision);
    out[38] = c->offset_width;
    out[39] = c->version;
    be32_put(out + 40, c->damaged ? CHECKPOINT_DAMAGED : 0);
    be32_put(out + 60, crc32c(0, out, 60));
}

static int checkpoint_decode(struct bytes in, struct volume_checkpoint *out)
{
    if (in.n != CHECKPOINT_BYTES || memcmp(in.p, checkpoint_magic, sizeof checkpoint_magic) != 0 ||
        be32_get(in.p + 60) != crc32c(0, in.p, 60))
        return DFS_ECORRUPT;
    *out = (struct volume_checkpoint){
        .idx_bytes = be64_get(in.p + 8),
        .dat_bytes = be64_get(in.p + 16),
        .last_append_ns = be64_get(in.p + 24),
        .idx_crc = be32_get(in.p + 32),
        .revision = be16_get(in.p + 36),
        .offset_width = (uint8_t)in.p[38],
        .version = (uint8_t)in.p[39],
        .damaged = (be32_get(in.p + 40) & CHECKPOINT_DAMAGED) != 0,
    };
    return out->offset_width == 4 || out->offset_width == 5 ? 0 : DFS_ECORRUPT;
}

int volume_checkpoint_read(const char *base, struct volume_checkpoint *out)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    char *text = NULL;
    size_t n = 0;
    int rc;

    (void)snprintf(path, sizeof path, "%s" VOLUME_CHECKPOINT_SUFFIX, base);
    rc = disk_read_file(path, CHECKPOINT_BYTES, &text, &n);
    if (rc == DFS_ETOOBIG)
        rc = DFS_ECORRUPT;
    if (rc == 0)
        rc = checkpoint_decode(bytes_of(text, n), out);
    free(text);
    return rc;
}

int volume_checkpoint_write(const char *base, const struct volume_checkpoint *ckp)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    uint8_t buf[CHECKPOINT_BYTES];

    (void)snprintf(path, sizeof path, "%s" VOLUME_CHECKPOINT_SUFFIX, base);
    checkpoint_encode(ckp, buf);
    return disk_replace_file(path, buf, sizeof buf);
}

/* The .idx was exchanged behind our back (vacuum): read it once to know its checksum. */
static int learn_idx_crc(struct volume *v)
{
    uint8_t *buf;
    uint32_t crc = 0;
    int rc = 0;

    if (v->idx_crc_bytes == v->idx_bytes)
        return 0;
    buf = malloc(CRC_PIECE);
    if (buf == NULL)
        return DFS_ENOMEM;
    for (uint64_t pos = 0; pos < v->idx_bytes && rc == 0;) {
        size_t n = v->idx_bytes - pos < CRC_PIECE ? (size_t)(v->idx_bytes - pos) : CRC_PIECE;

        rc = disk_read(v->idx_fd, buf, n, pos, NULL);
        if (rc == 0)
            crc = crc32c(crc, buf, n);
        pos += n;
    }
    free(buf);
    if (rc == 0) {
        v->idx_crc = crc;
        v->idx_crc_bytes = v->idx_bytes;
    }
    return rc;
}

/* Was something appended since the last one? */
static bool checkpoint_due(const struct volume *v)
{
    return v->idx_bytes != v->ckp.idx_bytes || v->append_pos != v->ckp.dat_bytes || v->sb.compact_revision != v->ckp.revision;
}

static struct volume_checkpoint checkpoint_now(const struct volume *v, uint16_t revision)
{
    return (struct volume_checkpoint){
        .idx_bytes = v->idx_bytes,
        .dat_bytes = v->append_pos,
        .last_append_ns = v->last_append_ns,
        .idx_crc = v->idx_crc,
        .revision = revision,
        .offset_width = (uint8_t)v->offset_width,
        .version = v->sb.version,
        .damaged = (atomic_load(&v->no_write) & VOLUME_DAMAGED) != 0,
    };
}

int volume_index_checkpoint(struct volume *v)
{
    struct volume_gen *g = volume_gen_peek(v); /* the writer is the one that exchanges it */
    struct volume_checkpoint now;
    int rc;

    if (g == NULL || v->idx_fd < 0)
        return DFS_ESTALE;
    volume_index_flush(v);
    if (v->idx_behind || v->vacuum != NULL || v->appends.flight != NULL)
        return DFS_EBUSY;
    if ((atomic_load(&v->no_write) & (VOLUME_FLUSH_FAILED | VOLUME_OFFLINE)) != 0)
        return DFS_EIO; /* what is on the disk is not known */
    if (!checkpoint_due(v))
        return 0;
    rc = learn_idx_crc(v);
    if (rc != 0)
        return rc;
    now = checkpoint_now(v, g->revision);
    rc = volume_gen_datasync(g);
    if (rc != 0) {
        volume_set_no_write(v, VOLUME_FLUSH_FAILED, "cannot sync '%s.dat': %s", v->base, dfs_err_text(rc));
        return rc;
    }
    if (v->appends.synced_pos < now.dat_bytes)
        v->appends.synced_pos = now.dat_bytes;
    if (g->wb.wb != NULL)
        writeback_synced(&g->wb, now.dat_bytes);
    rc = disk_datasync(v->idx_fd);
    if (rc == 0)
        rc = volume_checkpoint_write(v->base, &now);
    if (rc != 0) {
        log_error("cannot checkpoint '%s.idx': %s", v->base, strerror(errno));
        return rc;
    }
    v->ckp = now;
    atomic_store_explicit(&v->ckp_dat_bytes, now.dat_bytes, memory_order_relaxed);
    return 0;
}
