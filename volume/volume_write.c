/* The loop's half of a write: is it allowed, what does it replace, and into the writer's queue.
 *
 * Nothing here is final.  The writer looks at the volume's state, its limits and the map entry again, under the append. */
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/store.h"
#include "volume/volume_append.h"

/* ---- may it be written? ---- */

int needle_write_refusal(const struct needle_write *w, bool queued)
{
    unsigned bits = atomic_load_explicit(&w->volume->no_write, memory_order_acquire);

    if (queued)
        bits &= ~(unsigned)VOLUME_CLOSING;
    if (bits == 0)
        return 0;
    if ((bits & VOLUME_UNMOUNTED) != 0)
        return DFS_ENOVOLUME;
    if ((bits & VOLUME_BROKEN) != 0)
        return DFS_EIO;
    if ((bits & VOLUME_LOADING) != 0)
        return DFS_ELOADING;
    if ((bits & (VOLUME_CLOSING | VOLUME_OFFLINE)) != 0)
        return DFS_EUNAVAILABLE;
    if ((bits & (VOLUME_MARKED | VOLUME_DAMAGED | VOLUME_FLUSH_FAILED)) != 0)
        return DFS_EREADONLY;
    if (w->is_delete || w->undo.count > 0)
        return 0; /* what frees space is allowed where there is none */
    if ((bits & VOLUME_SEALED) != 0 && !needle_write_is_replica(w))
        return DFS_EFULL;
    return (bits & VOLUME_DISK_LOW) != 0 ? DFS_ENOSPC : 0;
}

/* A needle without a ttl takes that of its volume, or it would outlive the volume's promise. */
static void inherit_ttl(struct needle_write *w, struct ttl ttl)
{
    if (ttl_is_none(w->meta.ttl) || (w->meta.flags & NEEDLE_HAS_TTL) == 0)
        w->meta.ttl = ttl;
    if (ttl_is_none(w->meta.ttl))
        w->meta.flags &= (uint8_t)~NEEDLE_HAS_TTL;
    else
        w->meta.flags |= NEEDLE_HAS_TTL;
}

/* Everything of the record but its time. */
static int fill_meta(struct needle_write *w, uint8_t version)
{
    uint64_t bytes = w->stage != NULL && !w->is_delete ? stage_bytes(w->stage) : 0;

    if (bytes > NEEDLE_BODY_MAX)
        return DFS_ETOOBIG;
    w->data_crc = bytes > 0 ? stage_crc(w->stage) : 0;
    w->meta.cookie = w->fid.cookie;
    w->meta.key = w->fid.key;
    w->meta.data_bytes = (uint32_t)bytes;
    w->meta.checksum = bytes > 0 ? needle_checksum_for(version, w->data_crc) : 0;
    if (!w->is_delete)
        inherit_ttl(w, w->volume->sb.ttl);
    return needle_body_bytes(version, &w->meta, &w->meta.body_bytes);
}

/* ---- the record before ---- */

int needle_write_read_old(struct needle_write *w, const struct volume_gen *g, const struct needle_value *value, bool cached)
{
    uint8_t head[NEEDLE_HEADER_BYTES], checksum[NEEDLE_CHECKSUM_BYTES];
    uint64_t pos = needle_offset_bytes(value->offset);
    uint64_t end = atomic_load_explicit(&g->end, memory_order_acquire);
    struct needle_header h;
    int rc;

    if (pos + needle_record_bytes(g->version, value->size) > end)
        return DFS_ECORRUPT;
    rc = cached ? disk_read_cached(g->fd, head, sizeof head, pos) : disk_read(g->fd, head, sizeof head, pos, NULL);
    if (rc != 0)
        return rc == DFS_ESHORT ? DFS_ECORRUPT : rc;
    needle_header_decode(head, &h);
    if (h.key != w->fid.key || h.size != value->size)
        return DFS_ECORRUPT;
    if (w->is_delete) {
        pos += NEEDLE_HEADER_BYTES + value->size;
        rc = cached ? disk_read_cached(g->fd, checksum, sizeof checksum, pos)
                    : disk_read(g->fd, checksum, sizeof checksum, pos, NULL);
        if (rc != 0)
            return rc == DFS_ESHORT ? DFS_ECORRUPT : rc;
        w->old.checksum = be32_get(checksum);
    }
    w->old.cookie = h.cookie;
    w->old.value = *value;
    w->old.live = true;
    return 0;
}

int needle_write_check_cookie(const struct needle_write *w)
{
    if (!w->old.live || (w->is_delete && w->skip_cookie))
        return 0;
    return cookie_eq(w->old.cookie, w->fid.cookie) ? 0 : DFS_ECOOKIE;
}

/* ---- unchanged? ---- */

/* Worth comparing: same length, and a rewrite would say nothing new.  An empty file carries nothing but its key and cookie. */
static bool may_be_same(const struct needle_write *w, const struct needle_value *old)
{
    if (w->is_delete || old->size != w->meta.body_bytes)
        return false;
    if (w->meta.body_bytes == 0)
        return true;
    return !w->explicit_ts && ttl_is_none(w->volume->sb.ttl) && (w->meta.flags & NEEDLE_HAS_TTL) == 0;
}

static bool same_meta(const struct needle_write *w, const struct needle *old)
{
    const struct needle *n = &w->meta;

    return n->flags == old->flags && bytes_eq(n->name, old->name) && bytes_eq(n->mime, old->mime) &&
           bytes_eq(n->pairs, old->pairs);
}

/* What the peer and we write behind the data is short; a longer piece is simply a change. */
#define SAME_TRAIL_MAX 8192u

static int read_old_trail(const struct needle_write *w, uint8_t version, uint64_t pos, uint8_t *trail, struct needle *out)
{
    uint8_t head[NEEDLE_HEADER_BYTES + 4];
    uint64_t trail_at, n;
    int rc = disk_read(w->gen->fd, head, sizeof head, pos, NULL);

    if (rc != 0)
        return rc;
    trail_at = needle_trail_offset(version, w->meta.body_bytes, w->meta.data_bytes);
    n = needle_record_bytes(version, w->meta.body_bytes) - trail_at;
    if (n > SAME_TRAIL_MAX)
        return DFS_ETOOBIG;
    rc = disk_read(w->gen->fd, trail, (size_t)n, pos + trail_at, NULL);
    if (rc != 0)
        return rc;
    return needle_decode_split(version, bytes_of(head, sizeof head), bytes_of(trail, (size_t)n), out);
}

/* Reader pool.  Any doubt, an error too, is "not the same": then the record is appended, which is never wrong. */
static bool is_same(const struct needle_write *w, uint64_t pos, uint64_t *append_at_ns)
{
    uint8_t version = w->gen->version, trail[SAME_TRAIL_MAX];
    struct needle old;
    uint64_t n = w->meta.data_bytes;
    char *a = NULL;
    bool same = false;

    if (w->meta.body_bytes == 0)
        return true;
    if (read_old_trail(w, version, pos, trail, &old) != 0 || old.data_bytes != n ||
        !crc32c_matches(old.checksum, w->data_crc) || !same_meta(w, &old))
        return false;
    /* A replica stores the time it is given; only the very version that is here already is no news. */
    if (w->append_at_ns != 0 && w->append_at_ns != old.append_at_ns)
        return false;
    a = malloc(2 * (size_t)CHUNK_BYTES);
    if (a == NULL)
        return false;
    pos += needle_data_offset(version);
    for (uint64_t off = 0; off < n; off += CHUNK_BYTES) {
        size_t part = n - off < CHUNK_BYTES ? (size_t)(n - off) : CHUNK_BYTES;
        same = disk_read(w->gen->fd, a, part, pos + off, NULL) == 0 &&
               stage_read(w->stage, off, a + CHUNK_BYTES, part) == 0 && memcmp(a, a + CHUNK_BYTES, part) == 0;
        if (!same)
            break;
    }
    free(a);
    *append_at_ns = old.append_at_ns;
    return same;
}

/* ---- into the queue ---- */

static void queue(struct needle_write *w)
{
    append_queue_write(w->volume->location->appends, w);
}

static void on_refused(struct loop_msg *msg)
{
    struct needle_write *w = CONTAINER_OF(msg, struct needle_write, msg);

    volume_unref(w->volume);
    w->done(w, w->rc);
}

/* Reader pool: the old record was not in the page cache, or has to be compared. */
static void run_old(struct work *work)
{
    struct needle_write *w = CONTAINER_OF(work, struct needle_write, work);
    struct needle_value value = w->old.value;
    int rc = needle_write_read_old(w, w->gen, &value, false);

    if (rc == DFS_ECORRUPT && w->privileged)
        rc = 0, w->old.live = true, w->old.cookie = w->fid.cookie; /* a repair may replace what nobody can read */
    if (rc == 0)
        rc = needle_write_check_cookie(w);
    if (rc == 0 && may_be_same(w, &value))
        w->old.same = is_same(w, needle_offset_bytes(value.offset), &w->old.append_at_ns);
    volume_gen_unref(w->gen);
    w->gen = NULL;
    if (rc == 0) {
        w->old.looked = true;
        queue(w);
        return;
    }
    w->rc = rc;
    w->msg.run = on_refused;
    loop_post(w->loop, &w->msg);
}

/* Looks at what w replaces.  0: known, queue it.  DFS_EAGAIN: the reader pool goes on from here. */
static int look(struct needle_write *w, struct volume_gen *g)
{
    struct needle_value value;
    int rc = volume_gen_find(g, w->fid.key, &value);

    if (rc == DFS_ENOTFOUND || (rc == 0 && value.deleted)) {
        w->old.looked = true;
        return w->is_delete ? DFS_ENOTFOUND : 0;
    }
    if (rc != 0)
        return rc;
    if (!may_be_same(w, &value)) {
        rc = needle_write_read_old(w, g, &value, true);
        if (rc == 0) {
            w->old.looked = true;
            return needle_write_check_cookie(w);
        }
        if (rc != DFS_EAGAIN && !(rc == DFS_ECORRUPT && w->privileged))
            return rc;
    }
    w->old.value = value;
    return DFS_EAGAIN;
}

static int look_and_queue(struct needle_write *w)
{
    struct volume_gen *g = volume_gen_peek(w->volume);
    int rc;

    if (g == NULL)
        return DFS_EUNAVAILABLE;
    rc = fill_meta(w, g->version);
    if (rc != 0)
        return rc;
    /* A look-up that may block is the writer's; so is one whose answer depends on writes that are queued already. */
    rc = needle_map_may_block(g->map) ? 0 : look(w, g);
    if (rc == DFS_ENOTFOUND && w->is_delete)
        rc = 0; /* the put may be queued in front of it: the writer says */
    if (rc == 0) {
        queue(w);
        return 0;
    }
    if (rc != DFS_EAGAIN)
        return rc;
    w->gen = volume_gen_ref(w->volume);
    if (w->gen == NULL)
        return DFS_EUNAVAILABLE;
    if (w->gen != g) { /* exchanged this very moment: offsets of the other one mean nothing here */
        volume_gen_unref(w->gen);
        w->gen = NULL;
        queue(w);
        return 0;
    }
    w->work = (struct work){.run = run_old, .privileged = w->privileged};
    work_submit(w->volume->location->readers, &w->work);
    return 0;
}

int needle_write_start(struct needle_write *w)
{
    struct volume *v = store_find(w->store, w->fid.volume_id);
    int rc;

    if (v == NULL)
        return DFS_ENOVOLUME;
    w->volume = v;
    w->old.looked = w->old.live = w->old.same = w->retried = false;
    w->unchanged = w->replaced = false;
    w->last_ns = atomic_load_explicit(&v->last_append_seen_ns, memory_order_relaxed);
    rc = needle_write_refusal(w, false);
    if (rc != 0)
        return rc;
    /* The last reference may go on the writer or a pool thread; from here it is the request's. */
    volume_ref(v);
    rc = look_and_queue(w);
    if (rc != 0)
        volume_unref(v);
    return rc;
}
