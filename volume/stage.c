/* An upload in memory chunks, or moved to an unlinked file by the location's reader pool.
 *
 * INVARIANTS
 *   1. In memory mode the body holds everything; in file mode the file and the chunks on their way to it do.
 *   2. At most one work item is in flight, so the file is written in order.
 *   3. In file mode the stage owns at least one chunk (being filled, queued, or in flight), so it can always go on.
 *   4. Only bytes in memory mode are admitted; moving to the file returns them. */
#include "volume/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "net/work.h"
#include "volume/disk_location.h"
#include "volume/store.h"

/* Full chunks that may wait for the pool before reading stops. */
#define SPILL_QUEUED_MAX 4u
/* Chunks that one work item writes. */
#define SPILL_BATCH_MAX 16u
/* Bytes of one stage's file that may be dirty: a big upload must not fill the page cache behind the window's back. */
#define SPILL_DIRTY_MAX (8u << 20)
/* No upload asks for more than this part of the window at once. */
#define ADMIT_WINDOW_PART 4u
/* From so many bytes on an upload may have a chunk before it has bytes for one. */
#define DIRECT_FROM_BYTES 4096u
/* An upload that brings less than this in that time is slow: it keeps what it has sent and gives the rest of its admission back, so
 * that the window is never full of bytes that nobody sends. */
#define SLOW_MS 200u
#define SLOW_BYTES (64u << 10)

struct stage {
    struct disk_location *loc;
    struct loop *loop;
    void (*on_ready)(void *arg);
    void *arg;
    bool privileged;
    uint64_t limit_bytes, memory_max, admit_max;

    uint64_t bytes, expect_bytes;
    uint32_t crc;
    struct body body; /* memory mode: everything */

    uint64_t admitted;
    struct writeback_waiter admit;
    bool admit_asked; /* its run is still to come */
    struct loop_timer slow_timer;
    uint64_t slow_from; /* bytes when it was armed */
    bool slow;          /* asks only for what is at hand */
    struct chunk_waiter chunk;
    bool chunk_asked;

    bool in_file;
    char *head; /* STAGE_HEAD_BYTES */
    size_t head_bytes;
    void *fill; /* chunk being filled, or NULL */
    uint32_t fill_bytes;
    void **queue; /* full chunks for the file; the last may be short once finishing */
    uint32_t queued, queue_cap;
    uint32_t queue_last_bytes; /* of the last queued one */
    uint64_t file_bytes;       /* written or in flight */
    bool finishing;

    struct work work;
    bool busy;
    uint32_t flight_count;
    void *flight[SPILL_BATCH_MAX];
    uint64_t flight_pos, flight_bytes;
    uint32_t flight_era, era; /* a reset makes what is in flight meaningless */
    int flight_rc;
    int fd; /* pool thread while busy, else loop */

    int rc;       /* a spill failed */
    bool waiting; /* on_ready is owed */
    bool freed;
};

static void spill_start(struct stage *s);

static struct chunk_pool *pool_of(const struct stage *s)
{
    return s->body.pool;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- life ---- */

static void on_admitted(struct loop_msg *msg);
static void on_slow(void *arg);
static void on_chunk(struct loop_msg *msg);

int stage_new(struct store *store, uint32_t volume_id, struct loop *loop, bool privileged, uint64_t limit_bytes,
              void (*on_ready)(void *arg), void *arg, struct stage **out)
{
    const struct store_options *o = store_options_get(store);
    struct volume *v = store_find(store, volume_id);
    struct stage *s;

    if (v == NULL)
        return DFS_ENOVOLUME;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return DFS_ENOMEM;
    s->loc = v->location;
    s->loop = loop;
    s->on_ready = on_ready;
    s->arg = arg;
    s->privileged = privileged;
    s->limit_bytes = limit_bytes;
    s->memory_max = o->stage_bytes > CHUNK_BYTES ? o->stage_bytes : CHUNK_BYTES;
    s->admit_max = o->dirty_bytes / ADMIT_WINDOW_PART;
    if (s->admit_max < CHUNK_BYTES)
        s->admit_max = CHUNK_BYTES;
    s->fd = -1;
    loop_timer_init(&s->slow_timer, loop, on_slow, s);
    body_init(&s->body, store_chunks(store), privileged);
    s->admit = (struct writeback_waiter){.loop = loop, .privileged = privileged, .msg.run = on_admitted};
    s->chunk = (struct chunk_waiter){.loop = loop, .privileged = privileged, .msg.run = on_chunk};
    *out = s;
    return 0;
}

void stage_expect(struct stage *s, uint64_t bytes)
{
    s->expect_bytes = bytes;
}

static void return_admission(struct stage *s)
{
    if (s->admitted > 0)
        writeback_return(s->loc->writeback, s->admitted, s->privileged);
    s->admitted = 0;
}

static void put_chunks(struct stage *s, void **chunks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        chunk_put(pool_of(s), chunks[i]);
}

/* What the loop owns of the content; not what is in flight. */
static void drop_content(struct stage *s)
{
    body_release(&s->body);
    body_init(&s->body, pool_of(s), s->privileged);
    put_chunks(s, s->queue, s->queued);
    s->queued = 0;
    if (s->fill != NULL)
        chunk_put(pool_of(s), s->fill);
    s->fill = NULL;
    s->fill_bytes = 0;
    return_admission(s);
}

static void stage_destroy(struct stage *s)
{
    free(s->queue);
    free(s->head);
    disk_close(&s->fd);
    free(s);
}

/* Giving back the extents of a big file may take long: not on the loop. */
static void run_destroy(struct work *w)
{
    stage_destroy(CONTAINER_OF(w, struct stage, work));
}

/* Once freed, and when nothing that points here is under way any more. */
static void destroy_when_quiet(struct stage *s)
{
    if (!s->freed || s->busy || s->admit_asked || s->chunk_asked)
        return;
    if (s->fd == -1) {
        stage_destroy(s);
        return;
    }
    s->work = (struct work){.run = run_destroy, .privileged = s->privileged};
    work_submit(s->loc->readers, &s->work);
}

void stage_free(struct stage *s)
{
    if (s == NULL)
        return;
    CHECK(!s->freed);
    s->freed = true;
    s->waiting = false;
    loop_timer_release(&s->slow_timer);
    if (s->admit_asked && writeback_cancel(s->loc->writeback, &s->admit))
        s->admit_asked = false;
    if (s->chunk_asked && chunk_pool_unwait(pool_of(s), &s->chunk))
        s->chunk_asked = false;
    drop_content(s);
    destroy_when_quiet(s);
}

/* Something that the caller may have waited for has happened. */
static void ready(struct stage *s)
{
    if (s->freed) {
        destroy_when_quiet(s);
        return;
    }
    if (!s->waiting)
        return;
    s->waiting = false;
    s->on_ready(s->arg);
}

static int wait_for_it(struct stage *s)
{
    s->waiting = true;
    return DFS_EAGAIN;
}

/* ---- admission and chunks ---- */

static void on_admitted(struct loop_msg *msg)
{
    struct stage *s = CONTAINER_OF(msg, struct stage, admit.msg);

    s->admit_asked = false;
    if (s->freed || s->in_file)
        writeback_return(s->loc->writeback, s->admit.bytes, s->privileged);
    else
        s->admitted += s->admit.bytes;
    ready(s);
}

/* More was admitted than is here: look again soon. */
static void watch_admission(struct stage *s)
{
    if (s->slow || s->freed || s->in_file || s->admitted <= s->bytes || loop_timer_pending(&s->slow_timer))
        return;
    s->slow_from = s->bytes;
    loop_timer_set(&s->slow_timer, SLOW_MS);
}

static void on_slow(void *arg)
{
    struct stage *s = arg;

    if (s->in_file || s->admitted <= s->bytes)
        return;
    if (s->bytes - s->slow_from < SLOW_BYTES) {
        s->slow = true;
        writeback_return(s->loc->writeback, s->admitted - s->bytes, s->privileged);
        s->admitted = s->bytes;
        return;
    }
    watch_admission(s);
}

static void on_chunk(struct loop_msg *msg)
{
    struct stage *s = CONTAINER_OF(msg, struct stage, chunk.msg);

    s->chunk_asked = false;
    ready(s);
}

static int wait_for_chunk(struct stage *s)
{
    if (!s->chunk_asked) {
        s->chunk_asked = true;
        chunk_pool_wait(pool_of(s), &s->chunk);
    }
    return wait_for_it(s);
}

/* Whether moving to the file would give chunks back. */
static bool holds_chunk(const struct stage *s)
{
    return s->body.small == NULL && s->body.body_bytes >= CHUNK_BYTES;
}

/* How much to ask for, when n bytes are at hand: the whole body when its length is known, so that it never waits half
 * admitted. */
static uint64_t admission_wanted(const struct stage *s, size_t n)
{
    uint64_t want = s->bytes + n;

    if (s->slow)
        return min_u64(n, s->admit_max);
    if (s->expect_bytes > s->memory_max && want < CHUNK_BYTES)
        want = CHUNK_BYTES;
    else if (s->expect_bytes <= s->memory_max && want < s->expect_bytes)
        want = s->expect_bytes;
    else if (s->bytes > 0 && want < s->admitted + CHUNK_BYTES)
        want = s->admitted + CHUNK_BYTES;
    return min_u64(want - s->admitted, s->admit_max);
}

/* Bytes of the next n that may be taken in memory mode now, in *room; DFS_EAGAIN when none and the caller must wait. */
static int memory_room(struct stage *s, size_t n, size_t *room)
{
    if (s->bytes >= s->admitted) {
        if (s->admit_asked)
            return wait_for_it(s);
        uint64_t want = admission_wanted(s, n);
        if (writeback_admit(s->loc->writeback, &s->admit, want)) {
            s->admitted += want;
        } else {
            s->admit_asked = true;
            /* Who holds memory does not wait for more of it: see stage.h. */
            if (!holds_chunk(s) || !writeback_cancel(s->loc->writeback, &s->admit))
                return wait_for_it(s);
            s->admit_asked = false;
            spill_start(s);
            return 0;
        }
    }
    *room = (size_t)min_u64(n, s->admitted - s->bytes);
    if (s->admitted - s->bytes > *room)
        watch_admission(s);
    return 0;
}

static bool should_spill(const struct stage *s, size_t n)
{
    if (!holds_chunk(s))
        return false;
    return s->bytes + n > s->memory_max || s->expect_bytes > s->memory_max;
}

/* One step in memory mode; *took may be 0 when it has switched to file mode. */
static int append_memory(struct stage *s, struct bytes in, size_t *took)
{
    size_t room = 0;
    int rc;

    *took = 0;
    if (should_spill(s, in.n)) {
        spill_start(s);
        return s->rc;
    }
    rc = memory_room(s, in.n, &room);
    if (rc != 0 || s->in_file)
        return rc != 0 ? rc : s->rc;
    rc = body_append(&s->body, bytes_of(in.p, room), took);
    if (rc != DFS_EAGAIN || *took > 0)
        return rc == DFS_EAGAIN ? 0 : rc;
    if (!holds_chunk(s))
        return wait_for_chunk(s);
    spill_start(s);
    return s->rc;
}

/* ---- the file ---- */

static int open_file(struct stage *s)
{
    static atomic_uint serial;
    char path[VOLUME_PATH_MAX + 64];
    int rc = disk_open(s->loc->dir, O_TMPFILE | O_RDWR, &s->fd);

    if (rc == 0 || rc == DFS_ENOSPC || rc == DFS_ENOMEM || rc == DFS_ENOFILES)
        return rc;
    snprintf(path, sizeof path, "%s/.stage-%ld-%u", s->loc->dir, (long)getpid(), atomic_fetch_add(&serial, 1));
    rc = disk_open(path, O_CREAT | O_EXCL | O_RDWR, &s->fd);
    if (rc != 0)
        return rc;
    rc = disk_unlink(path);
    if (rc != 0)
        disk_close(&s->fd);
    return rc;
}

static int write_flight(struct stage *s)
{
    struct iovec iov[SPILL_BATCH_MAX];
    uint64_t left = s->flight_bytes;
    int rc = s->fd == -1 ? open_file(s) : 0;

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < s->flight_count; i++) {
        iov[i].iov_base = s->flight[i];
        iov[i].iov_len = (size_t)min_u64(left, CHUNK_BYTES);
        left -= iov[i].iov_len;
    }
    rc = disk_writev(s->fd, iov, s->flight_count, s->flight_pos);
    if (rc != 0 || s->flight_pos + s->flight_bytes <= SPILL_DIRTY_MAX)
        return rc;
    rc = disk_writeback_start(s->fd, s->flight_pos, s->flight_bytes);
    if (rc == 0 && s->flight_pos > SPILL_DIRTY_MAX)
        rc = disk_writeback_wait(s->fd, s->flight_pos - SPILL_DIRTY_MAX, s->flight_bytes);
    return rc == DFS_EUNSUPPORTED ? 0 : rc;
}

static void run_spill(struct work *w)
{
    struct stage *s = CONTAINER_OF(w, struct stage, work);

    s->flight_rc = write_flight(s);
    if (s->flight_rc != 0)
        log_error("cannot write an upload's staging file in '%s' at %llu: %s", s->loc->dir,
                  (unsigned long long)s->flight_pos, strerror(errno));
}

static void spill_next(struct stage *s);

static void on_spilled(struct work *w)
{
    struct stage *s = CONTAINER_OF(w, struct stage, work);
    uint32_t count = s->flight_count;

    s->busy = false;
    if (s->flight_era == s->era && s->flight_rc != 0 && s->rc == 0)
        s->rc = s->flight_rc;
    /* Keep one to go on with: the pool may be empty (invariant 3). */
    if (!s->freed && s->in_file && s->fill == NULL && !s->finishing && s->flight_era == s->era) {
        s->fill = s->flight[--count];
        s->fill_bytes = 0;
    }
    put_chunks(s, s->flight, count);
    s->flight_count = 0;
    if (!s->freed)
        spill_next(s);
    ready(s);
}

/* Give the pool the next chunks, when it is idle. */
static void spill_next(struct stage *s)
{
    uint32_t n = s->queued < SPILL_BATCH_MAX ? s->queued : SPILL_BATCH_MAX;

    if (s->busy || n == 0 || s->rc != 0)
        return;
    memcpy(s->flight, s->queue, n * sizeof s->flight[0]);
    s->flight_bytes = (uint64_t)n * CHUNK_BYTES;
    if (n == s->queued)
        s->flight_bytes -= CHUNK_BYTES - s->queue_last_bytes;
    s->queued -= n;
    memmove(s->queue, s->queue + n, s->queued * sizeof s->queue[0]);
    s->flight_count = n;
    s->flight_pos = s->file_bytes;
    s->flight_era = s->era;
    s->file_bytes += s->flight_bytes;
    s->busy = true;
    s->work = (struct work){.loop = s->loop, .privileged = s->privileged, .run = run_spill, .done = on_spilled};
    work_submit(s->loc->readers, &s->work);
}

/* From now on in file mode: the body's chunks are queued for the file, an unfilled last one goes on being filled. */
static void spill_start(struct stage *s)
{
    struct body *b = &s->body;
    uint32_t rest = (uint32_t)(b->body_bytes % CHUNK_BYTES);

    CHECK(holds_chunk(s));
    body_truncate(b, b->body_bytes); /* a chunk that nothing has come into yet */
    s->head = s->head != NULL ? s->head : malloc(STAGE_HEAD_BYTES);
    if (s->head == NULL) {
        s->rc = DFS_ENOMEM;
        return;
    }
    s->head_bytes = STAGE_HEAD_BYTES;
    memcpy(s->head, b->chunks[0], STAGE_HEAD_BYTES);
    free(s->queue);
    s->queue = b->chunks;
    s->queued = b->chunk_count;
    s->queue_cap = b->chunk_cap;
    s->queue_last_bytes = CHUNK_BYTES;
    b->chunks = NULL;
    b->chunk_count = b->chunk_cap = 0;
    b->body_bytes = 0;
    if (rest != 0) {
        s->fill = s->queue[--s->queued];
        s->fill_bytes = rest;
    }
    s->in_file = true;
    return_admission(s);
    spill_next(s);
}

static int queue_fill(struct stage *s)
{
    if (s->queued == s->queue_cap) {
        uint32_t cap = s->queue_cap < SPILL_BATCH_MAX ? SPILL_BATCH_MAX : s->queue_cap * 2;
        void **grown = realloc(s->queue, cap * sizeof *grown);
        if (grown == NULL)
            return DFS_ENOMEM;
        s->queue = grown;
        s->queue_cap = cap;
    }
    s->queue[s->queued++] = s->fill;
    s->queue_last_bytes = s->fill_bytes;
    s->fill = NULL;
    s->fill_bytes = 0;
    spill_next(s);
    return 0;
}

/* A chunk to fill; DFS_EAGAIN: the spill in flight will leave one, or the pool calls. */
static int get_fill(struct stage *s)
{
    int rc;

    if (s->queued >= SPILL_QUEUED_MAX)
        return wait_for_it(s);
    rc = chunk_get(pool_of(s), s->privileged, &s->fill);
    if (rc == 0)
        s->fill_bytes = 0;
    else if (rc == DFS_EAGAIN)
        rc = s->busy ? wait_for_it(s) : wait_for_chunk(s);
    return rc;
}

static int append_file(struct stage *s, struct bytes in, size_t *took)
{
    size_t n;
    int rc;

    *took = 0;
    if (s->fill == NULL) {
        rc = get_fill(s);
        if (rc != 0)
            return rc;
    }
    n = (size_t)min_u64(in.n, CHUNK_BYTES - s->fill_bytes);
    memcpy((char *)s->fill + s->fill_bytes, in.p, n);
    s->fill_bytes += (uint32_t)n;
    *took = n;
    return s->fill_bytes == CHUNK_BYTES ? queue_fill(s) : 0;
}

/* ---- the content ---- */

int stage_append(struct stage *s, struct bytes in, size_t *taken)
{
    int rc = s->rc;
    size_t took;

    *taken = 0;
    if (rc != 0)
        return rc;
    if (in.n > s->limit_bytes || s->bytes > s->limit_bytes - in.n)
        return DFS_ETOOBIG;
    while (*taken < in.n) {
        struct bytes rest = bytes_of(in.p + *taken, in.n - *taken);
        rc = s->in_file ? append_file(s, rest, &took) : append_memory(s, rest, &took);
        if (took > 0) {
            s->crc = crc32c(s->crc, rest.p, took);
            s->bytes += took;
            *taken += took;
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* A chunk to fill, if there is one without waiting. */
static size_t file_room(struct stage *s, void **p)
{
    if (s->fill == NULL && s->queued < SPILL_QUEUED_MAX && chunk_get(pool_of(s), s->privileged, &s->fill) == 0)
        s->fill_bytes = 0;
    if (s->fill == NULL)
        return 0;
    *p = (char *)s->fill + s->fill_bytes;
    return CHUNK_BYTES - s->fill_bytes;
}

size_t stage_room(struct stage *s, void **p)
{
    uint64_t most = s->limit_bytes - s->bytes;

    if (s->rc != 0 || most == 0)
        return 0;
    if (s->in_file)
        return (size_t)min_u64(file_room(s, p), most);
    if (s->bytes < DIRECT_FROM_BYTES || s->bytes >= s->admitted || should_spill(s, 1))
        return 0;
    most = min_u64(most, min_u64(s->admitted, s->memory_max) - s->bytes);
    return (size_t)min_u64(body_room(&s->body, p), most);
}

void stage_filled(struct stage *s, size_t n)
{
    const void *p;

    if (s->in_file) {
        p = (const char *)s->fill + s->fill_bytes;
        s->fill_bytes += (uint32_t)n;
    } else {
        p = (const char *)s->body.chunks[s->body.body_bytes / CHUNK_BYTES] + s->body.body_bytes % CHUNK_BYTES;
        body_filled(&s->body, n);
    }
    s->crc = crc32c(s->crc, p, n);
    s->bytes += n;
    if (!s->in_file)
        watch_admission(s);
    else if (s->fill_bytes == CHUNK_BYTES)
        s->rc = queue_fill(s);
}

int stage_reset(struct stage *s)
{
    drop_content(s);
    s->era++;
    s->in_file = s->finishing = false;
    s->bytes = s->file_bytes = 0;
    s->crc = 0;
    s->rc = 0;
    return 0;
}

uint64_t stage_bytes(const struct stage *s)
{
    return s->bytes;
}

uint32_t stage_crc(const struct stage *s)
{
    return s->crc;
}

bool stage_in_memory(const struct stage *s)
{
    return !s->in_file;
}

size_t stage_pieces(const struct stage *s)
{
    return s->in_file ? 1 : body_pieces(&s->body);
}

struct bytes stage_piece(const struct stage *s, size_t i)
{
    return s->in_file ? bytes_of(s->head, s->head_bytes) : body_piece(&s->body, i);
}

int stage_finish(struct stage *s)
{
    if (s->rc != 0 || !s->in_file)
        return s->rc;
    s->finishing = true;
    if (s->fill != NULL && s->fill_bytes > 0) {
        int rc = queue_fill(s);
        if (rc != 0)
            return rc;
    }
    if (s->busy || s->queued > 0)
        return wait_for_it(s);
    return 0;
}

int stage_read(const struct stage *s, uint64_t off, void *buf, size_t n)
{
    CHECK(off <= s->bytes && n <= s->bytes - off);
    if (!s->in_file) {
        body_copy_out(&s->body, off, buf, n);
        return 0;
    }
    return disk_read(s->fd, buf, n, off, NULL);
}
