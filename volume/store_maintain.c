/* What the store does every few seconds: looks at its folders, checkpoints, lets expired volumes go; and limits from the master. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/store_expiry.h"
#include "volume/store_internal.h"

/* An index checkpoint is made after so many new bytes, or so long after the first of them. */
#define CHECKPOINT_BYTES ((uint64_t)64 << 20)
#define CHECKPOINT_AGE_MS 60000u
/* Checkpoints of one round: each is an fsync that appends wait for. */
#define CHECKPOINTS_MAX 8u
#define EXPIRY_GRACE_MAX_MINUTES 10u

/* ---- ttl volumes ---- */

static bool outlived(const struct volume_info *v, uint64_t size_limit_bytes, uint64_t now_s, uint64_t extra_minutes_div)
{
    uint64_t minutes = ttl_minutes(v->ttl), grace = 0;

    if (ttl_is_none(v->ttl) || minutes == 0 || size_limit_bytes == 0 || v->file_count == 0 || v->last_modified_s == 0 ||
        (v->no_write & (VOLUME_LOADING | VOLUME_BROKEN | VOLUME_OFFLINE)) != 0 || now_s < v->last_modified_s)
        return false;
    if (extra_minutes_div != 0) {
        grace = minutes / extra_minutes_div;
        if (grace > EXPIRY_GRACE_MAX_MINUTES)
            grace = EXPIRY_GRACE_MAX_MINUTES;
    }
    return (now_s - v->last_modified_s) / 60 > minutes + grace;
}

bool volume_expired(const struct volume_info *v, uint64_t size_limit_bytes, uint64_t now_s)
{
    return outlived(v, size_limit_bytes, now_s, 0);
}

/* Expired for a tenth of its ttl, at most 10 minutes, more: the master has forgotten it by now. */
static bool may_be_removed(const struct volume_info *v, uint64_t size_limit_bytes, uint64_t now_s)
{
    return outlived(v, size_limit_bytes, now_s, 10);
}

static void expire(struct store *s, struct volume *v, uint64_t now_s)
{
    struct volume_info info;
    int rc;

    if (ttl_is_none(v->sb.ttl))
        return;
    volume_info_get(v, &info);
    if (!may_be_removed(&info, store_size_limit(s), now_s))
        return;
    rc = store_delete_volume(s, v->id, false);
    if (rc == 0)
        log_info("volume %" PRIu32 " has outlived its ttl", v->id);
    else if (rc != DFS_EBUSY)
        log_warning("cannot remove volume %" PRIu32 ", which has outlived its ttl: %s", v->id, dfs_err_text(rc));
}

/* ---- checkpoints ---- */

static int checkpoint_on_writer(struct volume *v, void *arg)
{
    (void)arg;
    volume_index_flush(v); /* rows that could not be written before */
    return volume_index_checkpoint(v);
}

static bool checkpoint_wanted(struct volume *v, uint64_t now_ms)
{
    uint64_t now_bytes = atomic_load_explicit(&v->dat_bytes, memory_order_relaxed);
    uint64_t covered = atomic_load_explicit(&v->ckp_dat_bytes, memory_order_relaxed);
    uint64_t tried_ms = atomic_load_explicit(&v->ckp_at_ms, memory_order_relaxed);
    const unsigned hopeless = VOLUME_LOADING | VOLUME_BROKEN | VOLUME_CLOSING | VOLUME_FLUSH_FAILED | VOLUME_OFFLINE |
                              VOLUME_DAMAGED;

    if (now_bytes == covered || (atomic_load(&v->no_write) & hopeless) != 0)
        return false;
    if (tried_ms == 0) { /* its time runs from when it was first seen behind */
        atomic_store_explicit(&v->ckp_at_ms, now_ms | 1, memory_order_relaxed);
        return now_bytes - covered >= CHECKPOINT_BYTES && covered != 0;
    }
    return now_ms - tried_ms >= CHECKPOINT_AGE_MS ||
           (now_bytes > covered + CHECKPOINT_BYTES && now_ms - tried_ms >= CHECKPOINT_AGE_MS / 10);
}

/* Most of the waiting is done here, so that little is left for the writer, whom appends wait for. */
static int sync_ahead(struct volume *v)
{
    struct volume_gen *g = volume_gen_ref(v);
    int rc = g == NULL ? 0 : volume_gen_datasync(g);

    if (rc != 0)
        volume_set_no_write(v, VOLUME_FLUSH_FAILED, "cannot sync '%s.dat': %s", v->base, dfs_err_text(rc));
    volume_gen_unref(g);
    return rc;
}

static void checkpoint(struct volume *v, uint64_t now_ms)
{
    atomic_store_explicit(&v->ckp_at_ms, now_ms | 1, memory_order_relaxed);
    if (sync_ahead(v) == 0 && store_on_writer(v, checkpoint_on_writer, NULL) == 0)
        atomic_store_explicit(&v->ckp_at_ms, 0, memory_order_relaxed);
}

/* ---- large records that were checked ---- */

/* Everything of a page cache of 24 GB is looked at in half a minute, for a few milliseconds a time. */
#define SWEEP_BLOCKS ((uint64_t)16384)

static uint64_t sweep_one(struct volume *v, uint64_t budget)
{
    struct volume_gen *g = volume_gen_ref(v);
    uint64_t bytes, asked = 0;

    if (g != NULL && disk_size(g->fd, &bytes) == 0)
        asked = known_records_sweep(&g->known, g->residency, bytes, &v->sweep_block, budget);
    volume_gen_unref(g);
    return asked;
}

/* Begins where the last round stopped. */
static void sweep(struct store *s, struct volume **list, uint32_t count)
{
    uint64_t left = SWEEP_BLOCKS;

    for (uint32_t i = 0; i < count && left > 0; i++) {
        struct volume *v = list[(s->sweep_next + i) % count];
        uint64_t asked = sweep_one(v, left);

        left -= asked < left ? asked : left;
        if (left == 0)
            s->sweep_next = (s->sweep_next + i + (v->sweep_block == 0)) % count;
    }
}

void store_maintain(struct store *s)
{
    uint64_t now_s = clock_wall_s(), now_ms = clock_mono_ms();
    struct volume **list;
    uint32_t count, checkpoints = 0;

    if (atomic_load(&s->stopping))
        return;
    for (uint32_t i = 0; i < s->location_count; i++)
        disk_location_check(s->locations[i]);
    if (store_volumes(s, &list, &count) == 0) {
        for (uint32_t i = 0; i < count; i++) {
            volume_map_retry(list[i]);
            expire(s, list[i], now_s);
            if (checkpoints < CHECKPOINTS_MAX && checkpoint_wanted(list[i], now_ms)) {
                checkpoint(list[i], now_ms);
                checkpoints++;
            }
        }
        sweep(s, list, count);
        store_volumes_free(list, count);
    }
    if (epoch_reclaim(s->epoch) > 0)
        store_nudge_loops(s);
}

/* ---- limits ---- */

struct limit_cmd {
    struct writer_cmd cmd;
    struct disk_location *loc;
};

static void set_limit(struct volume *v, uint64_t bytes)
{
    v->size_limit_bytes = bytes;
    if (bytes != 0 && v->append_pos >= bytes)
        volume_set_no_write(v, VOLUME_SEALED, NULL);
    else
        volume_clear_no_write(v, VOLUME_SEALED);
}

static void run_limit(struct writer_cmd *cmd)
{
    struct limit_cmd *c = CONTAINER_OF(cmd, struct limit_cmd, cmd);
    struct volume **list;
    uint32_t count;

    if (store_volumes(c->loc->store, &list, &count) == 0) {
        for (uint32_t i = 0; i < count; i++)
            if (list[i]->location == c->loc && (atomic_load(&list[i]->no_write) & VOLUME_LOADING) == 0)
                set_limit(list[i], store_size_limit(c->loc->store));
        store_volumes_free(list, count);
    }
    free(c);
}

void store_post_size_limit(struct disk_location *loc)
{
    struct limit_cmd *c = calloc(1, sizeof *c);

    if (c == NULL)
        return; /* volumes keep the limit they had */
    c->cmd.run = run_limit;
    c->loc = loc;
    append_queue_cmd(loc->appends, &c->cmd);
}

void store_set_size_limit(struct store *s, uint64_t bytes)
{
    if (atomic_exchange(&s->size_limit_bytes, bytes) == bytes || atomic_load(&s->stopping))
        return;
    for (uint32_t i = 0; i < s->location_count; i++)
        store_post_size_limit(s->locations[i]);
}
