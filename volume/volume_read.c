/* Reading one needle: from the page cache on the loop when all of it is there, else by the location's reader pool.
 *
 * A small record is read with one call and always checked against its CRC.  What a larger one takes is in volume_read_large.c. */
#include "volume/volume_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/store.h"

/* A HEAD reads records up to this whole: that is as cheap as two calls, and tells the CRC for the ETag whatever form is stored. */
#define META_WHOLE_MAX (64u * 1024u)
#define LOG_INTERVAL_MS 1000u

/* ---- what went wrong ---- */

int needle_read_corrupt(const struct needle_read *r, const struct volume_gen *g, const char *what)
{
    static struct log_gate gate;
    struct volume *v = r->volume;
    uint64_t suppressed;

    atomic_fetch_add_explicit(&v->corrupt_count, 1, memory_order_relaxed);
    if (log_every(&gate, LOG_INTERVAL_MS, &suppressed))
        log_error("corrupt record of %" PRIu32 ",%" PRIx64 " in '%s.dat' (revision %u) at %" PRIu64 ": %s (%" PRIu64
                  " more not shown)",
                  v->id, r->fid.key, v->base, g->revision, r->pos, what, suppressed);
    return DFS_ECORRUPT;
}

int needle_read_failed(const struct needle_read *r, const struct volume_gen *g, int rc)
{
    static struct log_gate gate;
    int err = errno;
    uint64_t suppressed;

    if (rc == DFS_EAGAIN)
        return rc;
    if (rc == DFS_ESHORT)
        return needle_read_corrupt(r, g, "the file ends inside it");
    if (log_every(&gate, LOG_INTERVAL_MS, &suppressed))
        log_error("cannot read '%s.dat' at %" PRIu64 ": %s (%" PRIu64 " more not shown)", r->volume->base, r->pos,
                  strerror(err), suppressed);
    return rc;
}

static int refusal(struct volume *v, const struct volume_gen *g)
{
    unsigned bits = atomic_load_explicit(&v->no_write, memory_order_acquire);

    if ((bits & VOLUME_UNMOUNTED) != 0)
        return DFS_ENOVOLUME;
    if ((bits & VOLUME_BROKEN) != 0)
        return DFS_EIO;
    if ((bits & VOLUME_LOADING) != 0)
        return DFS_ELOADING;
    if ((bits & VOLUME_OFFLINE) != 0)
        return DFS_EUNAVAILABLE;
    if (g == NULL) /* or it has come this very moment */
        return volume_gen_peek(v) != NULL ? DFS_ELOADING : DFS_EUNAVAILABLE;
    return 0;
}

/* ---- where it is ---- */

static int locate(struct needle_read *r, const struct volume_gen *g)
{
    int rc = volume_gen_find(g, r->fid.key, &r->value);

    if (rc != 0)
        return rc;
    if (r->value.deleted && !r->read_deleted)
        return DFS_ENOTFOUND;
    r->pos = needle_offset_bytes(r->value.offset);
    r->record_bytes = needle_record_bytes(g->version, r->value.size);
    if (r->pos + r->record_bytes > atomic_load_explicit(&g->end, memory_order_acquire))
        return needle_read_corrupt(r, g, "it would pass the end of the data");
    return 0;
}

int needle_read_judge(const struct needle_read *r, const struct volume_gen *g, const struct needle *n, uint64_t now_s)
{
    if (n->key != r->fid.key || n->body_bytes != r->value.size)
        return needle_read_corrupt(r, g, "another record stands there");
    if (!r->skip_cookie && !cookie_eq(n->cookie, r->fid.cookie))
        return DFS_ECOOKIE;
    return needle_expired(g->version, n, now_s) ? DFS_ENOTFOUND : 0;
}

/* ---- small records ---- */

static bool read_whole(const struct needle_read *r)
{
    return r->meta_only ? r->record_bytes <= META_WHOLE_MAX : !needle_read_is_large(r->record_bytes);
}

static int take_whole(struct needle_read *r, const struct volume_gen *g, const void *buf, uint64_t now_s)
{
    struct needle n;
    struct bytes data;
    uint32_t crc;
    int rc = needle_decode(g->version, bytes_of(buf, (size_t)r->record_bytes), &n, &data);

    if (rc != 0)
        return needle_read_corrupt(r, g, "its lengths contradict each other");
    rc = needle_read_judge(r, g, &n, now_s);
    if (rc != 0)
        return rc;
    crc = crc32c(0, data.p, data.n);
    if (n.body_bytes != 0 && !crc32c_matches(n.checksum, crc)) {
        if (!r->meta_only)
            return needle_read_corrupt(r, g, "checksum");
        crc = g->version == NEEDLE_V3 ? n.checksum : crc32c_unmask(n.checksum);
    }
    r->version = g->version;
    r->needle = n;
    r->data_crc = crc;
    r->data = r->meta_only ? BYTES_NONE : data;
    r->in_memory = true;
    return 0;
}

/* On the loop, without waiting for anything. */
static int fetch_cached(struct needle_read *r, const struct volume_gen *g)
{
    uint64_t now_s = loop_wall_s(r->loop);
    void *buf;
    int rc;

    if (!read_whole(r))
        return needle_read_ends(r, g, true, now_s);
    buf = loop_scratch(r->loop);
    rc = disk_read_cached(g->fd, buf, (size_t)r->record_bytes, r->pos);
    if (rc != 0)
        return needle_read_failed(r, g, rc);
    return take_whole(r, g, buf, now_s);
}

static int fetch_blocking(struct needle_read *r)
{
    uint64_t now_s = clock_wall_s();
    int rc;

    if (!read_whole(r))
        return needle_read_ends(r, r->gen, false, now_s);
    r->buf = malloc((size_t)r->record_bytes);
    if (r->buf == NULL)
        return DFS_ENOMEM;
    rc = disk_read(r->gen->fd, r->buf, (size_t)r->record_bytes, r->pos, NULL);
    if (rc != 0)
        return needle_read_failed(r, r->gen, rc);
    return take_whole(r, r->gen, r->buf, now_s);
}

/* ---- the pool ---- */

static void run_fetch(struct needle_read *r)
{
    /* A map in memory was looked at on the loop: pool threads take no part in its epochs. */
    r->rc = needle_map_may_block(r->gen->map) ? locate(r, r->gen) : 0;
    if (r->rc == 0)
        r->rc = fetch_blocking(r);
}

static void run_step(struct work *work)
{
    struct needle_read *r = CONTAINER_OF(work, struct needle_read, work);

    switch ((enum needle_read_step)r->step) {
    case NEEDLE_READ_FETCH:
        run_fetch(r);
        break;
    case NEEDLE_READ_CHECK:
        needle_read_check_part(r);
        break;
    case NEEDLE_READ_PIECE:
        needle_read_fetch_piece(r);
        break;
    case NEEDLE_READ_READY:
        break;
    }
}

static void on_step(struct work *work)
{
    struct needle_read *r = CONTAINER_OF(work, struct needle_read, work);
    int rc = r->rc;

    if (rc == 0 && r->step == NEEDLE_READ_CHECK) {
        needle_read_submit(r, NEEDLE_READ_CHECK);
        return;
    }
    if (rc == 0 && r->step == NEEDLE_READ_FETCH && !r->in_memory) {
        rc = needle_read_large_ready(r);
        if (rc == DFS_EAGAIN)
            return; /* r is the pool's again: nothing of it may be touched */
        r->rc = rc;
    }
    r->done(r, rc);
}

void needle_read_submit(struct needle_read *r, enum needle_read_step step)
{
    r->step = (uint8_t)step;
    r->rc = 0;
    r->work = (struct work){.loop = r->loop, .run = run_step, .done = on_step};
    work_submit(r->volume->location->readers, &r->work);
}

/* Keeps a generation beyond this step: g, or a newer one that has been published since it was looked at. */
static int hold(struct needle_read *r, const struct volume_gen *g)
{
    if (r->gen != NULL)
        return 0;
    r->gen = volume_gen_ref(r->volume);
    if (r->gen == NULL)
        return refusal(r->volume, NULL);
    if (r->gen == g || needle_map_may_block(r->gen->map))
        return 0;
    return locate(r, r->gen);
}

static int fetch_by_pool(struct needle_read *r, const struct volume_gen *g)
{
    int rc = hold(r, g);

    if (rc != 0)
        return rc;
    needle_read_submit(r, NEEDLE_READ_FETCH);
    return DFS_EAGAIN;
}

/* ---- the calls ---- */

static int start(struct needle_read *r)
{
    struct volume_gen *g = volume_gen_peek(r->volume);
    int rc = refusal(r->volume, g);

    if (rc != 0)
        return rc;
    if (needle_map_may_block(g->map))
        return fetch_by_pool(r, g);
    rc = locate(r, g);
    if (rc != 0)
        return rc;
    if (!read_whole(r)) {
        rc = hold(r, g);
        if (rc != 0)
            return rc;
        g = r->gen;
    }
    rc = fetch_cached(r, g);
    if (rc == DFS_EAGAIN)
        return fetch_by_pool(r, g);
    return rc == 0 && !r->in_memory ? needle_read_large_ready(r) : rc;
}

int needle_read_start(struct needle_read *r)
{
    int rc;

    r->volume = store_find(r->store, r->fid.volume_id);
    if (r->volume == NULL)
        return DFS_ENOVOLUME;
    rc = start(r);
    if (rc != 0 && rc != DFS_EAGAIN)
        needle_read_release(r);
    return rc;
}

void needle_read_release(struct needle_read *r)
{
    needle_read_large_release(r);
    free(r->buf);
    r->buf = NULL;
    if (r->gen != NULL)
        volume_gen_unref(r->gen);
    r->gen = NULL;
    r->in_memory = false;
    r->data = BYTES_NONE;
}
