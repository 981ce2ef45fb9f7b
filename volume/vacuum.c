/* The calls that start, finish and clear a vacuum, and what they ask of the writer thread.
 *
 *   compact   start (writer) -> room? -> copy -> rounds of catching up -> ready (writer)
 *   commit    take (writer) -> rounds -> sync -> hold (writer) -> last round, verify, swap -> publish and let go (writer)
 *
 * While the volume is held its writes wait; those of the location's other volumes go on.  Reads never notice. */
#include "volume/vacuum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/preallocate.h"
#include "volume/store.h"
#include "volume/vacuum_run.h"

/* On top of the copy, where it can be had: for what is written meanwhile. */
#define ROOM_MARGIN_BYTES (4u << 20)
/* So little may be left to catch up with while writes wait. */
#define LAST_ROUND_BYTES (256u << 10)
#define ROUNDS_MAX 10
/* A sealed volume that loses this part of its bytes takes writes again. */
#define UNSEAL_PERCENT 10u
/* How long a commit waits for the old generation's last reader. */
#define OLD_WAIT_STEPS 100
#define OLD_WAIT_STEP_MS 2u

/* ---- on the writer thread ---- */

struct vacuum_call {
    struct writer_cmd cmd;
    struct volume *volume;
    struct vacuum *run;
    struct volume_gen *gen; /* publish */
    uint64_t bytes;         /* preallocated */
    uint64_t token;         /* of the run that is meant; 0 = of any */
    uint64_t found_token;   /* of the one that is there */
    bool found;
    int rc;
};

/* run_fn on the writer, behind what was queued for the volume before. */
static int on_writer(struct volume *v, struct vacuum *r, void (*run_fn)(struct writer_cmd *cmd))
{
    struct vacuum_call c = {.cmd = {.run = run_fn, .volume = v}, .volume = v, .run = r};

    append_queue_cmd_wait(v->location->appends, &c.cmd);
    return c.rc;
}

/* The same while the volume is held. */
static int on_writer_at_once(struct vacuum_call *c, void (*run_fn)(struct writer_cmd *cmd))
{
    c->cmd = (struct writer_cmd){.run = run_fn, .at_once = true};
    append_queue_cmd_wait(c->volume->location->appends, &c->cmd);
    return c->rc;
}

static struct vacuum_call *call_of(struct writer_cmd *cmd)
{
    return CONTAINER_OF(cmd, struct vacuum_call, cmd);
}

/* Where the volume stands; its rows must be in the file, because that is what a round reads. */
static int look(struct vacuum *r)
{
    struct volume *v = r->volume;

    volume_index_flush(v);
    if (v->idx_behind)
        return DFS_EBUSY;
    r->idx_end = v->idx_bytes;
    r->dat_end_before = r->dat_end;
    r->dat_end = v->append_pos;
    return 0;
}

static void run_look(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);

    c->rc = c->run->volume->vacuum == c->run ? look(c->run) : DFS_ECANCELLED;
}

static bool is_meant(const struct vacuum *r, uint64_t token)
{
    return token == 0 || r->token == token;
}

/* A finished copy that nobody has come for is no reason to refuse a master that begins anew. */
static void drop_abandoned(struct volume *v, uint64_t token)
{
    if (v->vacuum == NULL || v->vacuum->state != VACUUM_READY || is_meant(v->vacuum, token))
        return;
    log_warning("vacuum of '%s': the finished copy of run %016" PRIx64 " is dropped, run %016" PRIx64 " begins", v->base,
                v->vacuum->token, token);
    vacuum_drop(v);
}

static void run_start(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);
    struct volume *v = c->volume;
    const unsigned no = VOLUME_LOADING | VOLUME_BROKEN | VOLUME_CLOSING | VOLUME_UNMOUNTED | VOLUME_OFFLINE |
                        VOLUME_DAMAGED | VOLUME_FLUSH_FAILED;

    drop_abandoned(v, c->run->token);
    if (v->vacuum != NULL) {
        c->rc = DFS_EBUSY;
        return;
    }
    if ((atomic_load_explicit(&v->no_write, memory_order_acquire) & no) != 0) {
        c->rc = DFS_EREADONLY;
        return;
    }
    c->run->gen = volume_gen_ref(v);
    if (c->run->gen == NULL) {
        c->rc = DFS_EUNAVAILABLE;
        return;
    }
    c->rc = look(c->run);
    if (c->rc != 0)
        return;
    c->run->sb = v->sb;
    c->run->sb.compact_revision++;
    c->run->ldb_other = v->ldb_other;
    c->run->state = VACUUM_COPYING;
    v->vacuum = c->run;
}

static void run_ready(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);
    bool cancelled = atomic_load_explicit(&c->run->cancel, memory_order_relaxed);

    c->rc = cancelled || c->volume->vacuum != c->run ? DFS_ECANCELLED : 0;
    if (c->rc == 0)
        c->run->state = VACUUM_READY;
}

static void note_found(struct vacuum_call *c)
{
    c->found = c->volume->vacuum != NULL;
    c->found_token = c->found ? c->volume->vacuum->token : 0;
}

static void run_take(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);

    note_found(c);
    c->run = c->volume->vacuum;
    if (c->run == NULL || c->run->state != VACUUM_READY || !is_meant(c->run, c->token)) {
        c->run = NULL;
        c->rc = DFS_ESTALE;
        return;
    }
    c->run->state = VACUUM_COMMITTING;
    c->bytes = c->volume->preallocated_bytes;
}

static void run_hold(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);

    c->rc = volume_gen_peek(c->volume) == c->run->gen ? look(c->run) : DFS_ECANCELLED;
    if (c->rc == 0)
        append_queue_hold(c->volume);
}

static void run_detach(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);

    if (c->volume->vacuum == c->run)
        c->volume->vacuum = NULL;
}

static void run_unhold(struct writer_cmd *cmd)
{
    append_queue_unhold(call_of(cmd)->volume);
}

/* Bytes are freed and the limit is not reached: it takes writes again. */
static void unseal(struct volume *v, uint64_t before, uint64_t after)
{
    uint64_t freed = before > after ? before - after : 0;

    if (freed * 100 <= before * UNSEAL_PERCENT || (v->size_limit_bytes != 0 && after >= v->size_limit_bytes))
        return;
    volume_clear_no_write(v, VOLUME_SEALED);
}

/* The map in the folder is complete up to here, should the next start find it trustworthy. */
static void commit_map(const struct vacuum *r)
{
    struct needle_map_checkpoint ckp = {
        .idx_rows = r->idx_bytes / idx_row_bytes(r->volume->offset_width),
        .dat_bytes = r->dat_bytes,
        .generation = r->sb.compact_revision,
    };

    needle_map_begin(r->map);
    if (needle_map_commit(r->map, &ckp) != 0)
        log_warning("the leveldb map of '%s' will be built anew at the next start", r->volume->base);
}

/* The copy is the volume from here on. */
static void run_publish(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);
    struct vacuum *r = c->run;
    struct volume *v = c->volume;
    uint64_t before = v->append_pos;

    disk_close(&v->idx_fd);
    volume_index_attach(v, r->idx_fd, r->idx_bytes, r->idx_crc);
    r->idx_fd = r->dat_fd = -1;
    /* The rest of it stays what it was, and loops look at that. */
    pthread_mutex_lock(&v->lock);
    v->sb.compact_revision = r->sb.compact_revision;
    v->sb.extra_bytes = r->sb.extra_bytes;
    pthread_mutex_unlock(&v->lock);
    v->append_pos = r->dat_bytes;
    v->preallocated_bytes = 0;
    volume_appends_moved(&v->appends, r->dat_bytes);
    atomic_store_explicit(&v->dat_bytes, r->dat_bytes, memory_order_relaxed);
    if (r->map_in_folder) {
        commit_map(r);
        v->ldb_other = !v->ldb_other;
    }
    volume_publish(v, c->gen);
    r->map = NULL;
    v->vacuum = NULL;
    if (c->rc != 0)
        volume_set_no_write(v, VOLUME_DAMAGED, "the exchange of its files was cut short: the next start finishes it");
    unseal(v, before, r->dat_bytes);
    append_queue_unhold(v);
}

static void run_preallocated(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);

    c->volume->preallocated_bytes = c->bytes;
}

/* What an attempt that ran out on the way was given: with nothing of the volume under way, since the file is cut. */
static void run_give_back(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);
    struct volume *v = c->volume;

    if (volume_gen_peek(v) != c->gen)
        return; /* it is closed, or another copy has its place */
    v->appends.zero_end = 0;
    c->rc = disk_truncate(c->gen->fd, v->append_pos);
    if (c->rc != 0)
        log_warning("cannot give back what was preallocated of '%s.dat': %s", v->base, strerror(errno));
}

/* ---- a run ---- */

/* Gives back what only waits for readers to say that they have gone: the old .dat keeps its blocks until then. */
void vacuum_wait_for_old(struct volume *v)
{
    for (int i = 0; i < OLD_WAIT_STEPS; i++) {
        (void)epoch_reclaim(store_epoch(v->store));
        if (atomic_load_explicit(&v->generations, memory_order_acquire) <= 1)
            return;
        clock_sleep_ms(OLD_WAIT_STEP_MS);
    }
}

static void run_free(struct vacuum *r)
{
    struct volume *v = r->volume;
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    bool remove_map = r->map != NULL && r->map_in_folder;

    disk_close(&r->idx_in);
    disk_close(&r->dat_fd);
    disk_close(&r->idx_fd);
    needle_map_free(r->map);
    needle_map_free(r->dropped);
    if (remove_map)
        (void)volume_remove_folder(vacuum_path(v, vacuum_map_suffix(r), path));
    if (r->epoch != NULL)
        epoch_unregister(store_epoch(v->store), r->epoch);
    volume_gen_unref(r->gen);
    free(r->rows_raw);
    free(r->rows);
    free(r->window);
    free(r->dat_buf);
    free(r->idx_buf);
    free(r);
    volume_unref(v);
}

static int run_new(struct volume *v, struct vacuum **out)
{
    struct vacuum *r = calloc(1, sizeof *r);
    int rc;

    if (r == NULL)
        return DFS_ENOMEM;
    volume_ref(v);
    r->volume = v;
    r->idx_in = r->dat_fd = r->idx_fd = -1;
    r->bytes_per_s = store_options_get(v->store)->vacuum_bytes_per_s;
    r->paced_from_ns = clock_mono_ns();
    rc = epoch_register(store_epoch(v->store), &r->epoch);
    if (rc != 0) {
        run_free(r);
        return rc;
    }
    /* It holds pointers only while it looks keys up. */
    epoch_offline(r->epoch);
    *out = r;
    return 0;
}

/* Leaves nothing behind.  The volume is free for another run only after the files are gone. */
static void give_up(struct vacuum *r)
{
    struct volume *v = r->volume;

    disk_close(&r->dat_fd);
    disk_close(&r->idx_fd);
    if (vacuum_remove_files(v->base) != 0)
        log_warning("cannot remove the copy of '%s'; the next run or start does", v->base);
    (void)on_writer(v, r, run_detach);
    run_free(r);
}

void vacuum_drop(struct volume *v)
{
    struct vacuum *r = v->vacuum;

    if (r == NULL)
        return;
    atomic_store_explicit(&r->cancel, true, memory_order_relaxed);
    if (r->state != VACUUM_READY)
        return; /* its thread sees it soon, and cleans up */
    v->vacuum = NULL;
    disk_close(&r->dat_fd);
    disk_close(&r->idx_fd);
    (void)vacuum_remove_files(v->base);
    run_free(r);
}

/* ---- compact ---- */

/* What the copy may need, without what is written meanwhile. */
static uint64_t copy_bytes(const struct vacuum *r)
{
    struct needle_map_stats stats;

    needle_map_stats(r->gen->map, &stats);
    return SUPERBLOCK_BYTES + stats.live_bytes +
           stats.live_count * (NEEDLE_TOMBSTONE_MAX + NEEDLE_ALIGN + IDX_ROW_BYTES_MAX);
}

/* A disk with room to spare keeps its reserve and some more.  On a full one the last bytes are for this: the copy gives back more
 * than it takes, and without it nothing ever would. */
static int check_room(const struct vacuum *r, struct vacuum_outcome *out)
{
    struct disk_location *loc = r->volume->location;
    struct disk_space space;
    uint64_t need = copy_bytes(r), reserve = location_ballast_bytes(loc);
    int rc = disk_space(loc->dir, &space);

    if (rc != 0 || space.free_bytes >= need + ROOM_MARGIN_BYTES)
        return rc;
    if (space.free_bytes >= need || (space.free_bytes + reserve >= need && location_ballast_release(loc))) {
        log_info("vacuum of '%s' with the last %" PRIu64 " bytes of '%s', %" PRIu64 " of them held back for this: its copy may "
                 "need %" PRIu64, r->volume->base, space.free_bytes + reserve, loc->dir_as_given, reserve, need);
        return 0;
    }
    (void)snprintf(out->why, sizeof out->why,
                   "no space left: the copy may need %" PRIu64 " bytes, %" PRIu64 " are free and %" PRIu64 " held back for it",
                   need, space.free_bytes, reserve);
    return DFS_ENOSPC;
}

/* Until little enough is left that writes may wait for the rest, or writes come as fast as we copy. */
static int catch_up(struct vacuum *r)
{
    int rc = 0;

    for (int i = 0; i < ROUNDS_MAX && rc == 0; i++) {
        rc = on_writer(r->volume, r, run_look);
        if (rc != 0 || r->idx_end == r->idx_done)
            break;
        rc = vacuum_copy_tail(r);
        if (r->dat_end - r->dat_end_before < LAST_ROUND_BYTES)
            break;
    }
    return rc;
}

static int compact(struct vacuum *r, struct vacuum_outcome *out)
{
    int rc = check_room(r, out);

    if (rc == 0)
        rc = vacuum_copy_open(r);
    if (rc == 0)
        rc = vacuum_copy_live(r);
    if (rc == 0)
        rc = catch_up(r);
    if (rc == 0)
        rc = vacuum_copy_flush(r);
    return rc == 0 ? on_writer(r->volume, r, run_ready) : rc;
}

int store_vacuum_compact(struct store *s, uint32_t volume_id, uint64_t token, int (*progress)(void *arg, uint64_t bytes),
                         void *arg, struct vacuum_outcome *out)
{
    struct volume *v = store_get(s, volume_id);
    struct vacuum *r = NULL;
    uint64_t start_ns = clock_mono_ns(), before, after;
    struct vacuum_outcome told = {0};
    int rc;

    if (out != NULL)
        *out = told;
    if (v == NULL)
        return DFS_ENOVOLUME;
    rc = run_new(v, &r);
    if (rc != 0) {
        volume_unref(v);
        return rc;
    }
    r->token = token;
    r->progress = progress;
    r->progress_arg = arg;
    rc = on_writer(v, r, run_start);
    if (rc != 0) {
        run_free(r);
        volume_unref(v);
        return rc;
    }
    rc = compact(r, &told);
    if (out != NULL)
        *out = told;
    /* Its argument lives as long as this call; the commit copies too, for another caller. */
    r->progress = NULL;
    r->progress_arg = NULL;
    before = r->dat_end;
    after = r->dat_bytes;
    if (rc != 0) {
        log_warning("vacuum of '%s' given up after %" PRIu64 " bytes: %s", v->base, after,
                    told.why[0] != '\0' ? told.why : dfs_err_text(rc));
        give_up(r);
    } else {
        log_info("vacuum of '%s': %" PRIu64 " of %" PRIu64 " bytes copied in %" PRIu64 " ms", v->base, after, before,
                 (clock_mono_ns() - start_ns) / 1000000);
    }
    volume_unref(v);
    return rc;
}

/* ---- commit ---- */

/* With writes held.  *c says what became of it; the volume is let go in any case. */
static int swap_held(struct vacuum *r, struct vacuum_call *c)
{
    struct superblock sb;
    bool swapped = false;
    int rc = vacuum_copy_tail(r);

    if (rc == 0)
        rc = vacuum_copy_flush(r);
    if (rc == 0)
        rc = vacuum_copy_verify(r);
    pthread_mutex_lock(&r->volume->lock);
    sb = r->volume->sb;
    pthread_mutex_unlock(&r->volume->lock);
    if (rc == 0)
        rc = vacuum_copy_superblock(r, &sb);
    if (rc == 0)
        rc = volume_gen_new(r->volume, r->dat_fd, r->map, r->sb.compact_revision, r->dat_bytes, &c->gen);
    if (rc == 0) {
        atomic_store(&r->volume->swapping, true);
        rc = vacuum_swap_files(r, &swapped);
        if (!swapped) {
            /* The generation was never seen: its parts stay the run's. */
            c->gen->fd = -1;
            c->gen->map = NULL;
            volume_gen_unref(c->gen);
        }
    }
    c->rc = rc;
    (void)on_writer_at_once(c, swapped ? run_publish : run_unhold);
    atomic_store(&r->volume->swapping, false);
    return rc;
}

/* Room for it to grow into again, if the disk has that and its reserve. */
static void preallocate(struct volume *v, uint64_t bytes)
{
    struct vacuum_call c = {.cmd = {.run = run_give_back, .volume = v}, .volume = v, .bytes = bytes};
    int rc;

    if (bytes == 0 || (atomic_load(&v->no_write) & VOLUME_SEALED) != 0)
        return;
    c.gen = volume_gen_ref(v);
    if (c.gen == NULL)
        return;
    rc = volume_preallocate(v->location, c.gen->fd, bytes);
    if (rc == 0)
        (void)on_writer_at_once(&c, run_preallocated);
    else if (rc != DFS_EFULL && rc != DFS_EUNSUPPORTED) /* those took nothing */
        append_queue_cmd_wait(v->location->appends, &c.cmd);
    volume_gen_unref(c.gen);
}

static int commit(struct vacuum *r, struct vacuum_call *c)
{
    int rc = catch_up(r);

    if (rc == 0)
        rc = vacuum_copy_flush(r);
    /* Most of it now, so that the sync under the hold has little to do. */
    if (rc == 0)
        rc = disk_sync(r->dat_fd);
    if (rc == 0)
        rc = disk_sync(r->idx_fd);
    if (rc == 0)
        rc = catch_up(r);
    if (rc == 0)
        rc = on_writer(r->volume, r, run_hold);
    if (rc != 0)
        return rc;
    r->hurry = true;
    return swap_held(r, c);
}

/* Says to who asked, and to the log, why nothing was done. */
static void refuse(const struct vacuum_call *c, const char *what, struct vacuum_outcome *out)
{
    struct vacuum_outcome refused = {0};
    char there[64] = "there is no finished copy";

    if (c->found && c->token != 0 && c->found_token != c->token)
        (void)snprintf(there, sizeof there, "the copy there is that of run %016" PRIx64, c->found_token);
    (void)snprintf(refused.why, sizeof refused.why, "the %s of run %016" PRIx64 " of the vacuum of volume %" PRIu32
                   " is refused: %s", what, c->token, c->volume->id, there);
    log_warning("%s", refused.why);
    if (out != NULL)
        *out = refused;
}

int store_vacuum_commit(struct store *s, uint32_t volume_id, uint64_t token, struct vacuum_outcome *out)
{
    struct volume *v = store_get(s, volume_id);
    struct vacuum_call c = {.volume = v, .token = token};
    uint64_t before, after;
    int rc;

    if (out != NULL)
        *out = (struct vacuum_outcome){0};

    if (v == NULL)
        return DFS_ENOVOLUME;
    c.cmd = (struct writer_cmd){.run = run_take, .volume = v};
    append_queue_cmd_wait(v->location->appends, &c.cmd);
    rc = c.rc;
    if (rc != 0) {
        refuse(&c, "commit", out);
        volume_unref(v);
        return rc;
    }
    rc = commit(c.run, &c);
    before = c.run->dat_end;
    after = c.run->dat_bytes;
    if (c.run->map != NULL) { /* not published */
        log_warning("vacuum of '%s' not committed: %s", v->base, dfs_err_text(rc));
        give_up(c.run);
    } else {
        log_info("vacuum of '%s' committed: %" PRIu64 " bytes, %" PRIu64 " before, revision %u, %" PRIu64 " corrupt", v->base,
                 after, before, c.run->sb.compact_revision, c.run->corrupt);
        run_free(c.run);
        vacuum_wait_for_old(v);
    }
    if (rc == 0)
        preallocate(v, c.bytes);
    if (out != NULL) {
        out->dat_bytes = atomic_load_explicit(&v->dat_bytes, memory_order_relaxed);
        out->read_only = !volume_writable(v);
    }
    volume_unref(v);
    return rc;
}

/* ---- the rest ---- */

int store_vacuum_check(struct store *s, uint32_t volume_id, double *garbage_ratio)
{
    struct volume *v = store_get(s, volume_id);
    struct volume_info info;

    if (v == NULL)
        return DFS_ENOVOLUME;
    volume_info_get(v, &info);
    *garbage_ratio = info.file_bytes == 0 ? 0 : (double)info.deleted_bytes / (double)info.file_bytes;
    volume_unref(v);
    return 0;
}

static void run_cleanup(struct writer_cmd *cmd)
{
    struct vacuum_call *c = call_of(cmd);
    struct vacuum *r = c->volume->vacuum;

    note_found(c);
    if (r == NULL)
        c->rc = vacuum_remove_files(c->volume->base);
    else if (!is_meant(r, c->token))
        c->rc = DFS_ESTALE;
    else if (r->state == VACUUM_COMMITTING)
        c->rc = DFS_EBUSY;
    else
        vacuum_drop(c->volume);
}

int store_vacuum_cleanup(struct store *s, uint32_t volume_id, uint64_t token, struct vacuum_outcome *out)
{
    struct volume *v = store_get(s, volume_id);
    struct vacuum_call c = {.volume = v, .token = token};

    if (out != NULL)
        *out = (struct vacuum_outcome){0};
    if (v == NULL)
        return DFS_ENOVOLUME;
    c.cmd = (struct writer_cmd){.run = run_cleanup, .volume = v};
    append_queue_cmd_wait(v->location->appends, &c.cmd);
    if (c.rc == DFS_ESTALE)
        refuse(&c, "cleanup", out);
    volume_unref(v);
    return c.rc;
}
