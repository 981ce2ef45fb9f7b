/* The order of a replicated write: sisters known, version before kept, all at once, judge, perhaps go back. */
#include "volume/replicate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/disk.h"
#include "volume/replica_call.h"

static void judge(struct replicated_write *w);
static void go_back(struct replicated_write *w);

static struct volume_server *server_of(struct replicated_write *w)
{
    return w->l->server;
}

static void release(struct replicated_write *w)
{
    if (w->before_open)
        needle_read_release(&w->before);
    w->before_open = false;
    free(w->before_copy);
    for (uint32_t i = 0; i < w->sister_count; i++)
        sister_release(&w->sisters[i]);
    free(w->sisters);
    free(w->head);
    free(w->tail);
    free(w->spill);
    free(w->pieces);
    if (w->spill_bytes != 0)
        replica_spill_give(w->spill_bytes);
    if (w->before_bytes != 0)
        replica_spill_give(w->before_bytes);
    stage_free(w->undo_stage);
    w->before_copy = w->head = w->tail = w->spill = NULL;
    w->pieces = NULL;
    w->sisters = NULL;
    w->sister_count = 0;
    w->spill_bytes = w->before_bytes = 0;
    w->undo_stage = NULL;
}

static void finish(struct replicated_write *w, int rc)
{
    release(w);
    if (w->has_turn)
        fid_turn_give(server_of(w)->turns, &w->turn);
    w->has_turn = false;
    w->done(w, rc);
}

/* ---- all at once ---- */
static void part_done(struct replicated_write *w)
{
    if (--w->running == 0)
        judge(w);
}

static void on_local(struct late_write *late, int rc)
{
    struct replicated_write *w = (struct replicated_write *)((char *)late - offsetof(struct replicated_write, local));
    struct needle_write *local = &late->w;
    metric_observe_ns(&server_of(w)->metrics.local_write_seconds, clock_mono_ns() - w->started_ns);
    vs_stamp_seen(server_of(w), local->last_ns);
    if (rc == DFS_ENOTFOUND && w->is_delete && w->local_was_done)
        rc = 0; /* the round before did it */
    if (rc == 0 && !w->local_was_done) {
        w->unchanged = local->unchanged;
        w->old_body_bytes = local->old_body_bytes;
        w->data_crc = local->data_crc;
        w->replaced_ns = local->replaced_ns;
    }
    if (rc == 0)
        w->local_was_done = true;
    w->local_rc = rc;
    part_done(w);
}

static void start_local(struct replicated_write *w)
{
    struct needle_write *n = &w->local.w;
    memset(&w->local, 0, sizeof w->local);
    n->store = server_of(w)->store;
    n->loop = w->l->loop;
    n->fid = w->fid;
    n->is_delete = w->is_delete;
    n->meta = w->meta;
    n->stage = w->stage;
    n->durability = w->durability;
    n->append_at_ns = w->stamp_ns;
    n->explicit_ts = w->explicit_ts;
    n->want_replaced = true;
    w->local.done = on_local;
    int rc = late_write_start(&w->local);
    if (rc != 0) {
        w->local_rc = rc;
        part_done(w);
    }
}

static void on_sister(struct sister *s)
{
    struct replicated_write *w = s->owner;
    if (s->last_ns != 0)
        vs_stamp_seen(server_of(w), s->last_ns);
    replica_suspects_note(&w->l->suspects, s->url, s->rc, w->started_ns / 1000000, clock_mono_ms());
    if (s->rc != 0 && s->rc != DFS_ESTALE)
        volume_lookup_forget(w->l->lookup, w->fid.volume_id);
    part_done(w);
}

static uint32_t deadline_ms(const struct replicated_write *w)
{
    uint64_t bytes = w->stage != NULL ? stage_bytes(w->stage) : 0;
    return REPLICA_DEADLINE_MS + (uint32_t)(bytes / REPLICA_BYTES_PER_MS);
}

static void round_start(struct replicated_write *w)
{
    char target[REPLICA_TARGET_MAX];
    struct volume_server *s = server_of(w);
    w->stamp_ns = vs_stamp(s);
    w->started_ns = clock_mono_ns();
    w->tried.stamps_ns[w->tried.count++] = w->stamp_ns;
    w->running = w->sister_count + 2; /* the local write, and this function */
    w->local_rc = 0;
    size_t n = replica_target(&w->fid, &w->meta, w->is_delete, w->fsync || s->o.durability == DURABILITY_GROUP, w->stamp_ns,
                              w->explicit_ts, NULL, target);
    for (uint32_t i = 0; i < w->sister_count; i++) {
        struct sister *t = &w->sisters[i];
        int rc = sister_start(t, w->l, w->is_delete ? HTTP_DELETE : HTTP_POST, bytes_of(target, n), w->is_delete ? NULL : &w->meta,
                              w->pieces, w->piece_count, deadline_ms(w), on_sister);
        if (rc != 0) {
            t->rc = rc;
            part_done(w);
        }
    }
    start_local(w);
    part_done(w);
}

/* ---- judging ---- */
static enum replication_failure failure_kind(int rc)
{
    return rc == DFS_EUNAVAILABLE ? REPLICATION_REFUSED_CONNECTION : rc == DFS_ETIMEOUT ? REPLICATION_TIMEOUT :
           rc == DFS_ECANCELLED ? REPLICATION_CANCELLED : REPLICATION_SERVER_ERROR;
}

/* The worst of the sisters: 0, DFS_ESTALE, or a failure, which is counted and described. */
static int sisters_verdict(struct replicated_write *w)
{
    struct server_metrics *m = &server_of(w)->metrics;
    unsigned op = w->is_delete ? 1 : 0;
    int verdict = 0;
    for (uint32_t i = 0; i < w->sister_count; i++) {
        struct sister *t = &w->sisters[i];
        if (t->rc == 0) {
            metric_add(&m->replication_ok[op], 1);
        } else if (t->rc == DFS_ESTALE) {
            if (verdict == 0)
                verdict = DFS_ESTALE;
        } else {
            metric_add(&m->replication_failed[op][failure_kind(t->rc)], 1);
            if (verdict == 0 || verdict == DFS_ESTALE) {
                snprintf(w->error, sizeof w->error, "failed to %s replicas for volume %u: [%.128s]: %.200s",
                         w->is_delete ? "delete on" : "write to", w->fid.volume_id, t->url,
                         t->error[0] != '\0' ? t->error : dfs_err_text(t->rc));
                verdict = t->rc;
            }
        }
    }
    return verdict;
}

static void judge(struct replicated_write *w)
{
    struct server_metrics *m = &server_of(w)->metrics;
    int sisters = sisters_verdict(w);
    metric_observe_ns(&m->replica_write_seconds, clock_mono_ns() - w->started_ns);
    bool local_fine = w->local_rc == 0 || (w->is_delete && w->local_rc == DFS_ENOTFOUND);
    bool stale = w->local_rc == DFS_ESTALE || sisters == DFS_ESTALE;
    bool failed = (!local_fine && w->local_rc != DFS_ESTALE) || (sisters != 0 && sisters != DFS_ESTALE);
    if (!stale && !failed) {
        finish(w, w->local_rc);
        return;
    }
    if (stale && !failed && w->tried.count < REPLICA_STAMPS_MAX) {
        server_metrics_event(m, EVENT_STALE_RETRY);
        round_start(w);
        return;
    }
    w->rc = !local_fine && w->local_rc != DFS_ESTALE ? w->local_rc : DFS_EUNAVAILABLE;
    if (w->rc == DFS_EUNAVAILABLE) {
        server_metrics_event(m, EVENT_WRITE_REPLICAS);
        if (w->error[0] == '\0')
            snprintf(w->error, sizeof w->error, "replicas of volume %u disagree on its newest time", w->fid.volume_id);
    }
    go_back(w);
}

/* ---- going back ---- */
static void on_local_undone(struct late_write *late, int rc)
{
    struct replicated_write *w = (struct replicated_write *)((char *)late - offsetof(struct replicated_write, local));
    if (rc != 0 && rc != DFS_ENOTFOUND && rc != DFS_ESTALE) { /* stale: another version has come, and stays */
        server_metrics_event(&server_of(w)->metrics, EVENT_UNDO_LOST);
        log_error("cannot take back %u,%" PRIx64 ": %s", w->fid.volume_id, w->fid.key, dfs_err_text(rc));
    }
    finish(w, w->rc);
}

static void undo_local(struct replicated_write *w, int rc)
{
    server_metrics_event(&server_of(w)->metrics, EVENT_UNDO);
    if (rc == 0)
        rc = late_write_start(&w->local);
    if (rc != 0)
        on_local_undone(&w->local, rc);
}

/* The version before, staged once more. */
static void stage_before(void *arg)
{
    struct replicated_write *w = arg;
    struct bytes data = w->before.data;
    size_t taken = 0;
    int rc = 0;
    if (w->undo_stage == NULL)
        rc = stage_new(server_of(w)->store, w->fid.volume_id, w->l->loop, true, UINT64_MAX, stage_before, w, &w->undo_stage);
    if (rc == 0 && w->before_pos < data.n) {
        rc = stage_append(w->undo_stage, bytes_of(data.p + w->before_pos, data.n - w->before_pos), &taken);
        w->before_pos = rc == 0 ? data.n : w->before_pos + taken;
    }
    if (rc == 0)
        rc = stage_finish(w->undo_stage);
    if (rc == DFS_EAGAIN)
        return; /* called again when there is room */
    w->local.w.stage = w->undo_stage;
    undo_local(w, rc);
}

static void undo_sisters(struct replicated_write *w, uint64_t stamp_ns)
{
    char target[REPLICA_TARGET_MAX];
    bool restore = w->had_before;
    size_t n = replica_target(&w->fid, restore ? &w->before.needle : &w->meta, !restore, true, stamp_ns, true, &w->tried, target);
    for (uint32_t i = 0; i < w->sister_count; i++) {
        struct sister *t = &w->sisters[i];
        if (t->rc == DFS_EUNAVAILABLE || t->rc == DFS_ESTALE || t->refused)
            continue; /* it certainly did nothing */
        server_metrics_event(&server_of(w)->metrics, EVENT_UNDO);
        undo_queue_add(w->l->undos, &t->addr, bytes_of(target, n), restore ? &w->before.needle : NULL,
                       restore ? w->before.data : BYTES_NONE, t->rc == DFS_ETIMEOUT || t->rc == DFS_ECLOSED);
    }
}

/* Everyone goes back: the sisters by the queue of undos, this server now. */
static void undo_all(struct replicated_write *w)
{
    struct volume_server *s = server_of(w);
    uint64_t stamp_ns = vs_stamp(s);
    struct needle_write *n = &w->local.w;
    undo_sisters(w, stamp_ns);
    if (!w->local_was_done || (w->is_delete && !w->had_before)) {
        finish(w, w->rc);
        return;
    }
    memset(&w->local, 0, sizeof w->local);
    n->store = s->store;
    n->loop = w->l->loop;
    n->fid = w->fid;
    n->is_delete = !w->had_before;
    n->durability = w->durability;
    n->append_at_ns = stamp_ns;
    n->privileged = true;
    n->undo = w->tried;
    w->local.done = on_local_undone;
    if (!w->had_before) {
        undo_local(w, 0);
        return;
    }
    n->meta = w->before.needle;
    n->explicit_ts = true;
    w->before_pos = 0;
    if (w->before.data.n == 0)
        undo_local(w, 0);
    else
        stage_before(w);
}

static void read_back(struct replicated_write *w, int rc);

static void run_read_back(struct work *work)
{
    struct replicated_write *w = (struct replicated_write *)((char *)work - offsetof(struct replicated_write, work));
    struct http_piece *p = &w->before_piece;
    w->local_rc = disk_read(p->fd, w->before_copy + w->before_pos, p->bytes, p->file_pos, NULL);
}

static void done_read_back(struct work *work)
{
    struct replicated_write *w = (struct replicated_write *)((char *)work - offsetof(struct replicated_write, work));
    w->before_pos += w->before_piece.bytes;
    read_back(w, w->local_rc);
}

static void on_read_back(struct needle_read *r, int rc)
{
    read_back((struct replicated_write *)((char *)r - offsetof(struct replicated_write, before)), rc);
}

static void give_up_before(struct replicated_write *w, const char *why)
{
    server_metrics_event(&server_of(w)->metrics, EVENT_UNDO_LOST);
    log_error("the version before of %u,%" PRIx64 " cannot be put back (%s): replicas differ until repaired", w->fid.volume_id,
              w->fid.key, why);
    finish(w, w->rc);
}

/* A large version before is still where it was in its generation of the volume: all of it into memory. */
static void read_back(struct replicated_write *w, int rc)
{
    uint64_t all = w->before.needle.data_bytes;
    while (rc == 0 && w->before_pos < all) {
        struct http_piece *p = &w->before_piece;
        uint64_t left = all - w->before_pos;
        rc = needle_read_piece(&w->before, w->before_pos, left < CHUNK_BYTES ? left : CHUNK_BYTES, p);
        if (rc == DFS_EAGAIN)
            return;
        if (rc == 0 && p->is_file) {
            w->work = (struct work){.loop = w->l->loop, .privileged = true, .run = run_read_back, .done = done_read_back};
            work_submit(server_of(w)->pool, &w->work);
            return;
        }
        if (rc == 0) {
            memcpy(w->before_copy + w->before_pos, p->mem.p, p->mem.n);
            w->before_pos += p->mem.n;
        }
    }
    if (rc != 0) {
        give_up_before(w, dfs_err_text(rc));
        return;
    }
    w->before.data = bytes_of(w->before_copy, all);
    undo_all(w);
}

static void go_back(struct replicated_write *w)
{
    uint64_t n = w->before.needle.data_bytes;
    w->tried.of_delete = w->is_delete;
    if (w->unchanged) { /* nobody has anything new */
        finish(w, w->rc);
        return;
    }
    if (w->local_was_done && w->replaced_ns != (w->had_before ? w->before.needle.append_at_ns : 0)) {
        give_up_before(w, "another server's write came between");
        return;
    }
    if (!w->had_before || w->before.in_memory) {
        undo_all(w);
        return;
    }
    if (!replica_spill_take(n)) {
        give_up_before(w, "too many at a time");
        return;
    }
    w->before_bytes = n;
    w->before_copy = malloc(n);
    if (w->before_copy == NULL) {
        give_up_before(w, "out of memory");
        return;
    }
    w->before.done = on_read_back;
    w->before_pos = 0;
    read_back(w, 0);
}

/* ---- before the first round ---- */
static int build_body(struct replicated_write *w)
{
    if (w->is_delete)
        return 0;
    bool spilled = w->spill != NULL;
    size_t data_pieces = w->stage == NULL ? 0 : spilled ? 1 : stage_pieces(w->stage);
    w->pieces = calloc(data_pieces + 2, sizeof *w->pieces);
    if (w->pieces == NULL)
        return DFS_ENOMEM;
    int rc = replica_form(&w->meta, &w->head, &w->tail);
    if (rc != 0)
        return rc;
    w->pieces[w->piece_count++] = bytes_str(w->head);
    for (size_t i = 0; i < data_pieces; i++)
        w->pieces[w->piece_count++] = spilled ? bytes_of(w->spill, w->spill_bytes) : stage_piece(w->stage, i);
    w->pieces[w->piece_count++] = bytes_str(w->tail);
    return 0;
}

static void body_ready(struct replicated_write *w, int rc)
{
    if (rc == 0)
        rc = build_body(w);
    if (rc != 0)
        finish(w, rc);
    else
        round_start(w);
}

static void run_spill(struct work *work)
{
    struct replicated_write *w = (struct replicated_write *)((char *)work - offsetof(struct replicated_write, work));
    w->rc = stage_read(w->stage, 0, w->spill, w->spill_bytes);
}

static void done_spill(struct work *work)
{
    struct replicated_write *w = (struct replicated_write *)((char *)work - offsetof(struct replicated_write, work));
    body_ready(w, w->rc);
}

/* A body that waits in a file is read back for the sisters; how much of that is in memory at a time has a bound. */
static void prepare_body(struct replicated_write *w)
{
    if (w->is_delete || w->stage == NULL || stage_in_memory(w->stage)) {
        body_ready(w, 0);
        return;
    }
    uint64_t n = stage_bytes(w->stage);
    if (!replica_spill_take(n)) {
        snprintf(w->error, sizeof w->error, "too many large replicated uploads at a time");
        finish(w, DFS_EBUSY);
        return;
    }
    w->spill_bytes = n;
    w->spill = malloc(n);
    if (w->spill == NULL) {
        finish(w, DFS_ENOMEM);
        return;
    }
    w->work = (struct work){.loop = w->l->loop, .run = run_spill, .done = done_spill};
    work_submit(server_of(w)->pool, &w->work);
}

static int keep_before(struct replicated_write *w)
{
    struct needle *n = &w->before.needle;
    w->had_before = true;
    if (!w->before.in_memory)
        return 0;
    w->before_copy = malloc(w->before.data.n + n->name.n + n->mime.n + n->pairs.n + 1);
    if (w->before_copy == NULL)
        return DFS_ENOMEM;
    char *at = w->before_copy;
    struct bytes *views[] = {&w->before.data, &n->name, &n->mime, &n->pairs};
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        if (views[i]->n > 0)
            memcpy(at, views[i]->p, views[i]->n);
        views[i]->p = at;
        at += views[i]->n;
    }
    return 0;
}

static void before_known(struct replicated_write *w, int rc)
{
    if (rc == 0)
        rc = keep_before(w);
    else if (rc == DFS_ENOTFOUND)
        rc = 0;
    else if (rc == DFS_ECOOKIE && w->is_delete)
        rc = DFS_ENOTFOUND;
    else if (rc == DFS_ECORRUPT || rc == DFS_EIO)
        rc = 0; /* what cannot be read cannot be put back: the new version is all the better */
    if (rc != 0)
        finish(w, rc);
    else
        prepare_body(w);
}

static void on_before(struct needle_read *r, int rc)
{
    before_known((struct replicated_write *)((char *)r - offsetof(struct replicated_write, before)), rc);
}

static void read_before(struct replicated_write *w)
{
    w->before.store = server_of(w)->store;
    w->before.loop = w->l->loop;
    w->before.fid = w->fid;
    w->before.done = on_before;
    w->before_open = true;
    int rc = needle_read_start(&w->before);
    if (rc != DFS_EAGAIN)
        before_known(w, rc);
}

/* Before anything is written: a sister that has just let another write wait in vain. */
static bool sister_is_silent(struct replicated_write *w)
{
    for (uint32_t i = 0; i < w->sister_count; i++) {
        const char *url = w->sisters[i].url;
        uint64_t silent_ms;

        if (!replica_suspects_hold(&w->l->suspects, url, clock_mono_ms(), &silent_ms))
            continue;
        snprintf(w->error, sizeof w->error, "the replica of volume %u at %s has not answered for %" PRIu64 " ms",
                 w->fid.volume_id, url, silent_ms);
        return true;
    }
    return false;
}

static void on_locations(struct volume_lookup_wait *wait, int rc, const struct volume_locations *at)
{
    struct replicated_write *w = wait->arg;
    struct volume_server *s = server_of(w);
    if (rc != 0) {
        snprintf(w->error, sizeof w->error, "cannot ask the master for the replicas of volume %u", w->fid.volume_id);
        finish(w, rc);
        return;
    }
    uint32_t here = 0;
    w->sisters = calloc(at->count + 1, sizeof *w->sisters);
    if (w->sisters == NULL) {
        finish(w, DFS_ENOMEM);
        return;
    }
    for (uint32_t i = 0; i < at->count; i++) {
        if (strcmp(at->v[i].url, s->self_url) == 0)
            here = 1;
        else
            sister_init(&w->sisters[w->sister_count++], w, &at->v[i]);
    }
    if (w->sister_count + 1 < w->copies) {
        volume_lookup_forget(w->l->lookup, w->fid.volume_id);
        snprintf(w->error, sizeof w->error,
                 "writable replication locations [%u] is less than volume %u replication copy count [%u]",
                 w->sister_count + here, w->fid.volume_id, w->copies);
        finish(w, DFS_EUNAVAILABLE);
        return;
    }
    if (sister_is_silent(w)) {
        volume_lookup_forget(w->l->lookup, w->fid.volume_id);
        server_metrics_event(&s->metrics, EVENT_WRITE_REPLICAS);
        finish(w, DFS_EUNAVAILABLE);
        return;
    }
    read_before(w);
}

static void find_sisters(struct replicated_write *w)
{
    const struct volume_locations *at;
    w->wait.done = on_locations;
    w->wait.arg = w;
    int rc = volume_lookup_get(w->l->lookup, w->fid.volume_id, &w->wait, &at);
    if (rc != DFS_EAGAIN)
        on_locations(&w->wait, rc, at);
}

static void on_turn(struct fid_turn *turn)
{
    struct replicated_write *w = (struct replicated_write *)((char *)turn - offsetof(struct replicated_write, turn));
    w->has_turn = true;
    find_sisters(w);
}

/* done() must not be called inside start: what is known at once goes through the mailbox. */
static void start_later(struct loop_msg *msg)
{
    struct replicated_write *w = (struct replicated_write *)((char *)msg - offsetof(struct replicated_write, msg));
    w->turn = (struct fid_turn){.loop = w->l->loop, .volume_id = w->fid.volume_id, .key = w->fid.key, .run = on_turn};
    if (fid_turn_take(server_of(w)->turns, &w->turn))
        on_turn(&w->turn);
}

int replicated_write_start(struct replicated_write *w, uint32_t copies)
{
    w->copies = copies;
    w->msg.run = start_later;
    loop_post(w->l->loop, &w->msg);
    return 0;
}
