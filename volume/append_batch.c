/* One batch of writes to one volume: places and times are assigned, the bytes written, and then published or taken back.
 *
 * INVARIANTS
 *   1. Nothing of the volume changes before append_batch_finish(): a batch that fails leaves it as it found it.
 *   2. Places rise by exactly the record's length, times strictly, both in the order of the batch; but a late replica write
 *      keeps the time that it was given.
 *   3. A key stands in a batch once: what comes for it later waits for the next batch and sees what this one made of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/preallocate.h"
#include "volume/store.h"
#include "volume/store_internal.h"
#include "volume/volume_append.h"
#include "volume/volume_read.h"
#include "volume/zero_ahead.h"

/* Heads, trails and small records of one batch. */
#define BUF_BYTES ((1u << 20) + APPEND_COPY_MAX + NEEDLE_TRAILER_MAX)
/* One call writes at most this of small records, or one chunk of a long one. */
#define CALL_BYTES_MAX (1u << 20)

bool append_publish_early_for_tests;

int append_batch_new(struct append_queue *q, struct append_batch **out)
{
    struct append_batch *b = calloc(1, sizeof *b);

    if (b == NULL)
        return DFS_ENOMEM;
    b->queue = q;
    b->records = malloc(APPEND_BATCH_RECORDS_MAX * sizeof *b->records);
    b->iov = malloc(APPEND_IOV_MAX * sizeof *b->iov);
    b->buf = malloc(BUF_BYTES);
    if (b->records == NULL || b->iov == NULL || b->buf == NULL) {
        append_batch_free(b);
        return DFS_ENOMEM;
    }
    *out = b;
    return 0;
}

void append_batch_free(struct append_batch *b)
{
    if (b == NULL)
        return;
    free(b->records);
    free(b->iov);
    free(b->buf);
    free(b);
}

/* ---- what goes in ---- */

static enum durability durability_of(const struct needle_write *w)
{
    int own = store_options_get(w->store)->durability;

    return (int)w->durability > own ? w->durability : (enum durability)own;
}

/* Looks again at what w replaces, unless it is what the loop saw. */
static int settle_old(const struct append_batch *b, struct needle_write *w)
{
    struct needle_value value;
    int rc = volume_gen_find(b->gen, w->fid.key, &value);
    bool live = rc == 0 && !value.deleted;

    if (rc != 0 && rc != DFS_ENOTFOUND)
        return rc;
    if (w->old.looked && live == w->old.live && (!live || value.offset.units8 == w->old.value.offset.units8))
        return w->is_delete && !live ? DFS_ENOTFOUND : 0;
    w->old.looked = true;
    w->old.live = w->old.same = false;
    if (!live)
        return w->is_delete ? DFS_ENOTFOUND : 0;
    rc = needle_write_read_old(w, b->gen, &value, false);
    if (rc == DFS_ECORRUPT && w->privileged) {
        w->old.value = value;
        w->old.live = true;
        return 0;
    }
    return rc != 0 ? rc : needle_write_check_cookie(w);
}

/* What replicas of one volume may differ in length, as a part of its limit. */
#define REPLICA_SLACK_SHARE 16u

/* A put of n bytes: begun below the limit, so that a volume ends at most one record past it, and leaving room in the addressable
 * part for a tombstone of each live needle. */
static int check_limit(struct append_batch *b, const struct needle_write *w, uint64_t n)
{
    struct volume *v = b->volume;
    struct needle_map_stats stats;
    uint64_t limit = v->size_limit_bytes, end = b->end_pos + n, reserve;

    if (needle_write_is_replica(w))
        limit += limit / REPLICA_SLACK_SHARE;
    needle_map_stats(b->gen->map, &stats);
    reserve = (stats.live_count + b->count + 1) * NEEDLE_TOMBSTONE_MAX;
    if (limit != 0 && b->end_pos >= limit && w->undo.count == 0)
        volume_set_no_write(v, VOLUME_SEALED, "%" PRIu64 " bytes, its limit is %" PRIu64, b->end_pos, v->size_limit_bytes);
    else if (end + reserve > idx_addressable_end(v->offset_width))
        volume_set_no_write(v, VOLUME_SEALED, "%" PRIu64 " bytes: its offsets of %u bytes end at %" PRIu64
                            ", and the rest is kept for deletes", b->end_pos, v->offset_width,
                            idx_addressable_end(v->offset_width));
    else
        return 0;
    return DFS_EFULL;
}

static int assign_time(struct append_batch *b, struct needle_write *w, uint64_t now_ns)
{
    uint64_t at = w->append_at_ns;

    if (at == 0)
        at = now_ns > b->end_ns ? now_ns : b->end_ns + 1;
    else if (at <= b->end_ns && !w->late)
        return DFS_ESTALE;
    if (at > b->end_ns)
        b->end_ns = at;
    w->stamped_ns = at;
    return 0;
}

/* Bytes of the batch's buffer that a record takes. */
static size_t buf_bytes(uint64_t record_bytes, const struct needle_write *w)
{
    if (record_bytes <= APPEND_COPY_MAX)
        return (size_t)record_bytes;
    return (size_t)(record_bytes - w->meta.data_bytes);
}

/* Append time of the live record that w takes the place of; 0 where records have none. */
static int old_time(const struct append_batch *b, const struct needle_write *w, uint64_t *at_ns)
{
    uint8_t time[NEEDLE_TIME_BYTES];
    uint64_t pos = needle_offset_bytes(w->old.value.offset) + NEEDLE_HEADER_BYTES + w->old.value.size + NEEDLE_CHECKSUM_BYTES;
    int rc;

    *at_ns = 0;
    if (!w->old.live || b->gen->version != NEEDLE_V3)
        return 0;
    rc = disk_read(b->gen->fd, time, sizeof time, pos, NULL);
    if (rc == 0)
        *at_ns = be64_get(time);
    return rc;
}

static bool is_stamp_of(const struct needle_undo *u, uint64_t at_ns)
{
    for (uint32_t i = 0; i < u->count; i++)
        if (u->stamps_ns[i] == at_ns)
            return true;
    return false;
}

/* What an undo takes back must be what is there: a version since then belongs to somebody who was told that it is stored. */
static bool undo_is_due(const struct append_batch *b, const struct needle_write *w, uint64_t old_ns)
{
    uint64_t deleted_ns;

    if (w->old.live)
        return old_ns == 0 || (!w->undo.of_delete && is_stamp_of(&w->undo, old_ns));
    deleted_ns = recent_deletes_at(b->volume->recent_deletes, w->fid.key);
    return w->undo.of_delete && (deleted_ns == 0 || is_stamp_of(&w->undo, deleted_ns));
}

/* Has something newer come since w got its time?  A late write was looked at before it came here. */
static int check_order(const struct append_batch *b, struct needle_write *w)
{
    uint64_t old_ns = 0;
    int rc = w->late || w->want_replaced || w->undo.count > 0 ? old_time(b, w, &old_ns) : 0;

    if (rc != 0)
        return rc;
    w->replaced_ns = old_ns;
    if (w->undo.count > 0 && !undo_is_due(b, w, old_ns))
        return DFS_ESTALE;
    if (w->late && old_ns != 0 && old_ns >= w->append_at_ns)
        return DFS_ESTALE;
    if (!w->is_delete && !w->old.live && w->append_at_ns != 0 &&
        recent_deletes_after(b->volume->recent_deletes, w->fid.key, w->append_at_ns))
        return DFS_ESTALE;
    return 0;
}

/* A delete that another server ordered, whether it found something or not.  Without memory for it there is no order to keep. */
static void remember_delete(struct append_batch *b, const struct needle_write *w)
{
    struct volume *v = b->volume;

    if (v->recent_deletes == NULL)
        v->recent_deletes = calloc(1, sizeof *v->recent_deletes);
    if (v->recent_deletes != NULL)
        recent_deletes_note(v->recent_deletes, w->fid.key, w->append_at_ns);
}

static uint64_t record_bytes_of(const struct append_batch *b, const struct needle_write *w)
{
    return needle_record_bytes(b->gen->version, w->is_delete ? 0 : w->meta.body_bytes);
}

static bool has_room(const struct append_batch *b, const struct needle_write *w)
{
    uint64_t n = record_bytes_of(b, w);

    /* What is tried again after a full disk goes alone: see try_again(). */
    if (b->count > 0 && b->records[0].w->retried != w->retried)
        return false;
    if (b->count == APPEND_BATCH_RECORDS_MAX || b->buf_used + buf_bytes(n, w) > BUF_BYTES)
        return false;
    return b->count == 0 || b->end_pos - b->start_pos + n <= APPEND_BATCH_BYTES_MAX;
}

/* Puts the record's bytes, or what stands around its data, into the buffer. */
static int encode(struct append_batch *b, struct append_record *r)
{
    uint8_t version = b->gen->version;
    uint32_t data_bytes = r->n.data_bytes;
    bool copied = r->record_bytes <= APPEND_COPY_MAX;
    char *p = b->buf + b->buf_used;

    r->head = p;
    r->head_bytes = (uint32_t)needle_encode_head(version, &r->n, (uint8_t *)p);
    p += r->head_bytes;
    if (copied && data_bytes > 0) {
        int rc = stage_read(r->w->stage, 0, p, data_bytes);
        if (rc != 0)
            return rc;
        p += data_bytes;
    }
    r->trail = p;
    r->trail_bytes = (uint32_t)needle_encode_trail(version, &r->n, (uint8_t *)p);
    p += r->trail_bytes;
    if (copied) {
        r->head_bytes = (uint32_t)r->record_bytes;
        r->trail_bytes = 0;
    }
    b->buf_used = (size_t)(p - b->buf);
    return 0;
}

static int place(struct append_batch *b, struct needle_write *w, uint64_t now_ns)
{
    struct append_record *r = &b->records[b->count];
    uint64_t before_ns = b->end_ns;
    int rc;

    *r = (struct append_record){.w = w, .pos = b->end_pos, .record_bytes = record_bytes_of(b, w)};
    if (b->end_pos + r->record_bytes > idx_addressable_end(b->volume->offset_width))
        return DFS_EFULL;
    rc = w->is_delete ? 0 : check_limit(b, w, r->record_bytes);
    if (rc == 0)
        rc = assign_time(b, w, now_ns);
    if (rc != 0)
        return rc;
    if (w->is_delete)
        r->n = (struct needle){.cookie = w->old.cookie, .key = w->fid.key,
                               .checksum = needle_tombstone_checksum(w->old.checksum)};
    else
        r->n = w->meta;
    r->n.append_at_ns = w->stamped_ns;
    rc = encode(b, r);
    if (rc != 0) {
        b->end_ns = before_ns;
        return rc;
    }
    b->end_pos += r->record_bytes;
    b->count++;
    b->sync |= durability_of(w) == DURABILITY_GROUP;
    return 0;
}

/* The same content is there.  It may not be on the disk yet, if it was written in a weaker mode. */
static bool answer_unchanged(struct append_batch *b, struct needle_write *w)
{
    uint64_t end = needle_offset_bytes(w->old.value.offset) + needle_record_bytes(b->gen->version, w->old.value.size);

    w->unchanged = true;
    w->stamped_ns = w->old.append_at_ns;
    if (durability_of(w) != DURABILITY_GROUP || end <= b->volume->appends.synced_pos)
        return true;
    b->records[b->count++] = (struct append_record){.w = w};
    b->sync = true;
    return false;
}

/* Into the batch, or answered. */
static void take(struct append_batch *b, struct needle_write *w, uint64_t now_ns)
{
    int rc = needle_write_refusal(w, true);

    if (rc == 0)
        rc = settle_old(b, w);
    if (rc == 0 && w->is_delete)
        w->old_body_bytes = w->old.value.size;
    if (rc == 0 && w->old.same) {
        if (answer_unchanged(b, w))
            append_queue_answer(b->queue, w, 0);
        return;
    }
    if (rc == 0)
        rc = check_order(b, w);
    if (rc == 0)
        rc = place(b, w, now_ns);
    if (w->is_delete && w->append_at_ns != 0 && (rc == 0 || rc == DFS_ENOTFOUND))
        remember_delete(b, w);
    if (rc != 0)
        append_queue_answer(b->queue, w, rc);
}

static void answer_all(struct append_batch *b, struct volume_appends *a, int rc)
{
    while (a->head != NULL && a->head->run == append_queue_run_write) {
        struct writer_cmd *cmd = a->head;
        a->head = cmd->next;
        append_queue_answer(b->queue, needle_write_of(cmd), rc);
    }
    if (a->head == NULL)
        a->tail = NULL;
}

bool append_batch_fill(struct append_batch *b, struct volume *v)
{
    struct volume_appends *a = &v->appends;
    struct writer_cmd *before = NULL, **link = &a->head, *cmd;
    uint64_t now_ns = clock_wall_ns();

    b->volume = v;
    b->gen = volume_gen_peek(v);
    b->start_pos = b->end_pos = b->written_pos = v->append_pos;
    b->start_ns = b->end_ns = v->last_append_ns;
    b->count = b->at = 0;
    b->at_off = 0;
    b->buf_used = 0;
    b->sync = b->published = false;
    if (b->gen == NULL) {
        answer_all(b, a, DFS_EUNAVAILABLE);
        return false;
    }
    append_queue_clear_keys(b->queue);
    while ((cmd = *link) != NULL && cmd->run == append_queue_run_write) {
        struct needle_write *w = needle_write_of(cmd);
        if (!has_room(b, w))
            break;
        if (append_queue_mark_key(b->queue, w->fid.key)) {
            before = cmd;
            link = &cmd->next;
            continue;
        }
        *link = cmd->next;
        if (a->tail == cmd)
            a->tail = before;
        take(b, w, now_ns);
    }
    return b->count > 0;
}

/* ---- the bytes ---- */

/* One call's worth of pieces. */
struct call {
    size_t count;
    size_t bytes;
    bool bounced; /* the bounce buffer is in it */
};

static void add_piece(struct append_batch *b, struct call *c, const char *p, size_t n)
{
    struct iovec *last = &b->iov[c->count];

    if (c->count > 0 && (char *)last[-1].iov_base + last[-1].iov_len == p) {
        last[-1].iov_len += n;
    } else {
        *last = (struct iovec){(void *)p, n};
        c->count++;
    }
    c->bytes += n;
}

/* The next part of a body that was not copied. */
static int add_body(struct append_batch *b, struct call *c, const struct append_record *r)
{
    const struct stage *stage = r->w->stage;
    uint64_t off = b->at_off - r->head_bytes;
    size_t n;

    if (stage_in_memory(stage)) {
        struct bytes piece = stage_piece(stage, (size_t)(off / CHUNK_BYTES));
        size_t in = (size_t)(off % CHUNK_BYTES);
        n = piece.n - in;
        add_piece(b, c, piece.p + in, n);
    } else {
        char *bounce = append_queue_bounce(b->queue);
        uint64_t left = r->n.data_bytes - off;
        int rc;

        n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
        rc = stage_read(stage, off, bounce, n);
        if (rc != 0)
            return rc;
        add_piece(b, c, bounce, n);
        c->bounced = true;
    }
    b->at_off += n;
    return 0;
}

static int add_long(struct append_batch *b, struct call *c, const struct append_record *r)
{
    uint64_t data_end = (uint64_t)r->head_bytes + r->n.data_bytes;

    if (b->at_off == 0) {
        add_piece(b, c, r->head, r->head_bytes);
        b->at_off = r->head_bytes;
    }
    if (b->at_off < data_end) {
        int rc = add_body(b, c, r);
        if (rc != 0)
            return rc;
    }
    if (b->at_off == data_end) {
        add_piece(b, c, r->trail, r->trail_bytes);
        b->at++;
        b->at_off = 0;
    }
    return 0;
}

/* Small records together; a long body chunk by chunk, which costs less processor than all of it in one call. */
static int gather(struct append_batch *b, struct call *c)
{
    *c = (struct call){0};
    while (b->at < b->count && c->count + 4 <= APPEND_IOV_MAX && c->bytes < CALL_BYTES_MAX) {
        const struct append_record *r = &b->records[b->at];
        if (r->record_bytes <= APPEND_COPY_MAX) {
            if (r->record_bytes > 0)
                add_piece(b, c, r->head, r->head_bytes);
            b->at++;
            continue;
        }
        int rc = add_long(b, c, r);
        if (rc != 0)
            return rc;
        if (c->bounced || c->bytes >= CHUNK_BYTES)
            break;
    }
    return 0;
}

int append_batch_write(struct append_batch *b, bool *done)
{
    uint64_t turn_end = b->written_pos + APPEND_TURN_BYTES;

    if (b->written_pos == b->start_pos)
        volume_preallocate_ahead(b->volume, b->start_pos, b->end_pos);
    if (b->sync && b->written_pos == b->start_pos)
        zero_ahead_extend(b->volume, b->start_pos, b->end_pos, store_options_get(b->volume->store)->zero_ahead_bytes);
    while (b->at < b->count && b->written_pos < turn_end) {
        struct call c;
        int rc = gather(b, &c);
        if (rc == 0 && c.count > 0)
            rc = disk_writev(b->gen->fd, b->iov, c.count, b->written_pos);
        if (rc != 0)
            return rc;
        b->written_pos += c.bytes;
        writeback_wrote(&b->gen->wb, b->written_pos);
    }
    *done = b->at == b->count;
    return 0;
}

int append_batch_sync(struct append_batch *b)
{
    return volume_gen_datasync(b->gen);
}

/* ---- the end of it ---- */

/* The file as it was. */
static int take_back(struct append_batch *b)
{
    struct volume *v = b->volume;
    uint64_t bytes;
    int rc = disk_size(b->gen->fd, &bytes);

    if (rc == 0 && bytes > b->start_pos) {
        rc = volume_cut_dat(b->gen->fd, b->start_pos, v->preallocated_bytes);
        v->appends.zero_end = v->appends.room_end = 0;
    }
    writeback_wrote(&b->gen->wb, b->start_pos);
    return rc;
}

/* Tombstones of a batch that found no room are tried again without the puts; the location's ballast is for them. */
static bool try_again(struct append_batch *b, struct needle_write *w, int rc, struct writer_cmd **last)
{
    struct volume_appends *a = &b->volume->appends;

    if (rc != DFS_ENOSPC || !w->is_delete || w->retried)
        return false;
    w->retried = true;
    if (*last == NULL) {
        w->cmd.next = a->head;
        a->head = &w->cmd;
    } else {
        w->cmd.next = (*last)->next;
        (*last)->next = &w->cmd;
    }
    if (w->cmd.next == NULL)
        a->tail = &w->cmd;
    *last = &w->cmd;
    return true;
}

static void take_back_all(struct append_batch *b, int rc)
{
    struct volume *v = b->volume;
    struct writer_cmd *last = NULL;
    int cut = take_back(b);

    if (cut != 0)
        volume_set_no_write(v, VOLUME_FLUSH_FAILED, "cannot cut '%s.dat' back to %" PRIu64 ": %s", v->base, b->start_pos,
                            dfs_err_text(cut));
    for (uint32_t i = 0; i < b->count; i++) {
        struct needle_write *w = b->records[i].w;
        w->unchanged = false;
        if (cut != 0 || !try_again(b, w, rc, &last))
            append_queue_answer(b->queue, w, rc);
    }
    if (last != NULL)
        (void)location_ballast_release(v->location);
}

/* The record is on the disk and its row in the index: a map of files that fails is built anew from these, and has it then. */
static int settle_map(const struct append_batch *b, int rc)
{
    if (rc == 0 || rc == DFS_ENOTFOUND || !needle_map_failed(b->gen->map))
        return rc;
    volume_map_suspect(b->gen);
    return 0;
}

static int publish_record(struct append_batch *b, struct append_record *r)
{
    struct needle_write *w = r->w;
    struct idx_row row = {.key = w->fid.key, .offset = needle_offset_of(r->pos), .size = r->n.body_bytes};
    struct needle_value old = {.deleted = true};
    bool had = false;
    int rc;

    if (w->is_delete) {
        row.size = IDX_SIZE_TOMBSTONE;
        rc = needle_map_delete(b->gen->map, row.key, &old);
    } else {
        rc = needle_map_put(b->gen->map, row.key, row.offset, row.size, &old, &had);
        w->replaced = had && !old.deleted;
        if (needle_read_is_large(r->record_bytes))
            known_records_add(&b->gen->known, r->pos, r->record_bytes);
    }
    /* A row in any case: the record is on the disk, and the index has to cover it. */
    (void)volume_index_add(b->volume, &row);
    return settle_map(b, rc);
}

static void publish_numbers(struct append_batch *b)
{
    struct volume *v = b->volume;

    v->append_pos = b->end_pos;
    v->last_append_ns = b->end_ns;
    atomic_store_explicit(&v->dat_bytes, b->end_pos, memory_order_relaxed);
    atomic_store_explicit(&v->last_append_seen_ns, b->end_ns, memory_order_relaxed);
    if (b->end_pos != b->start_pos)
        atomic_store_explicit(&v->last_modified_s, clock_wall_s(), memory_order_relaxed);
    /* Before the map: whoever finds an entry must find that its bytes are inside. */
    atomic_store_explicit(&b->gen->end, b->end_pos, memory_order_release);
}

void append_batch_publish(struct append_batch *b)
{
    struct volume *v = b->volume;
    struct needle_map *map = b->gen->map;
    /* Up to where rows are in the file already: replaying some twice changes nothing. */
    struct needle_map_checkpoint ckp = {
        .idx_rows = v->idx_bytes / idx_row_bytes(v->offset_width),
        .dat_bytes = b->start_pos,
        .generation = b->gen->revision,
    };
    int rc;

    b->published = true;
    publish_numbers(b);
    needle_map_begin(map);
    for (uint32_t i = 0; i < b->count; i++) {
        struct append_record *r = &b->records[i];
        r->w->rc = r->record_bytes > 0 ? publish_record(b, r) : 0;
    }
    rc = settle_map(b, needle_map_commit(map, &ckp));
    if (rc != 0)
        volume_set_no_write(v, VOLUME_DAMAGED, "cannot write the needle map of '%s': %s", v->base, dfs_err_text(rc));
    volume_index_flush(v);
}

/* The volume has reached its limit: say so before the next put is refused for it.  On the last quarter of the way its size is
 * announced step by step, so that the master turns to other volumes in time. */
static void seal_if_full(const struct append_batch *b)
{
    struct volume *v = b->volume;
    uint64_t limit = v->size_limit_bytes;

    if (limit == 0)
        return;
    if (v->append_pos >= limit)
        volume_set_no_write(v, VOLUME_SEALED, "%" PRIu64 " bytes, its limit is %" PRIu64, v->append_pos, limit);
    else if (store_fill_step(limit, b->start_pos) != store_fill_step(limit, v->append_pos))
        store_changed(v->store);
}

void append_batch_fail(struct append_batch *b, int rc)
{
    log_error("cannot append to '%s.dat' at %" PRIu64 ": %s", b->volume->base, b->written_pos, dfs_err_text(rc));
    if (rc == DFS_ENOSPC)
        disk_location_space_ask(b->volume->location);
    take_back_all(b, rc);
}

void append_batch_finish(struct append_batch *b, int sync_rc)
{
    struct volume *v = b->volume;

    if (sync_rc != 0) {
        /* What the kernel has thrown away it will not report again: nobody may append behind it. */
        volume_set_no_write(v, VOLUME_FLUSH_FAILED, "cannot sync '%s.dat' at %" PRIu64 ": %s", v->base, b->end_pos,
                            dfs_err_text(sync_rc));
        take_back_all(b, DFS_EIO);
        return;
    }
    if (b->sync) {
        v->appends.synced_pos = b->end_pos;
        writeback_synced(&b->gen->wb, b->end_pos);
    }
    if (!b->published)
        append_batch_publish(b);
    for (uint32_t i = 0; i < b->count; i++)
        append_queue_answer(b->queue, b->records[i].w, b->records[i].w->rc);
    seal_if_full(b);
    if ((atomic_load_explicit(&v->no_write, memory_order_relaxed) & VOLUME_SEALED) != 0)
        zero_ahead_cut(v);
}
