/* Drives the storage engine as a server does. */
#include "tests/support/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"

void engine_options(struct store_options *o, const char *dir)
{
    store_options_init(o);
    o->dirs[0] = dir;
    o->dir_count = 1;
    o->max_volumes[0] = 100;
    o->durability = DURABILITY_GROUP;
    o->dirty_bytes = 64u << 20;
    o->stage_bytes = 16u << 20;
    o->pool_bytes = 64u << 20;
    o->size_limit_bytes = 1u << 30;
    o->min_free_bytes = 0;
    o->min_free_percent = 0;
}

/* ---- the store ---- */

struct attach {
    struct loop_msg msg;
    struct engine *engine;
    struct loop *loop;
    sem_t done;
    int rc;
};

static void on_attach(struct loop_msg *msg)
{
    struct attach *a = CONTAINER_OF(msg, struct attach, msg);

    a->rc = store_loop_attach(a->engine->store, a->loop);
    sem_post(&a->done);
}

static void start_loop(struct engine *e, uint32_t i)
{
    struct attach a = {.msg.run = on_attach, .engine = e};
    char name[16];

    snprintf(name, sizeof name, "loop-%u", i);
    CHECK(loop_new(name, &e->loops[i]) == 0);
    loop_set_index(e->loops[i], (int)i);
    CHECK(loop_start(e->loops[i]) == 0);
    a.loop = e->loops[i];
    sem_init(&a.done, 0, 0);
    loop_post(e->loops[i], &a.msg);
    while (sem_wait(&a.done) != 0)
        ;
    CHECK(a.rc == 0);
    sem_destroy(&a.done);
}

int engine_try_open(struct engine *e, const struct store_options *o, uint32_t loop_count)
{
    int rc;

    memset(e, 0, sizeof *e);
    CHECK(loop_count <= ENGINE_LOOPS_MAX);
    rc = store_open(o, &e->store);
    if (rc != 0)
        return rc;
    rc = store_load_start(e->store);
    if (rc != 0) {
        store_stop(e->store);
        store_free(e->store);
        return rc;
    }
    store_load_wait(e->store);
    for (uint32_t i = 0; i < loop_count; i++)
        start_loop(e, i);
    e->loop_count = loop_count;
    return 0;
}

void engine_open(struct engine *e, const struct store_options *o, uint32_t loop_count)
{
    CHECK(engine_try_open(e, o, loop_count) == 0);
}

void engine_close(struct engine *e)
{
    store_stop(e->store);
    for (uint32_t i = 0; i < e->loop_count; i++) {
        loop_stop(e->loops[i]);
        loop_join(e->loops[i]);
    }
    store_free(e->store);
    for (uint32_t i = 0; i < e->loop_count; i++)
        loop_free(e->loops[i]);
    memset(e, 0, sizeof *e);
}

int engine_allocate(struct engine *e, uint32_t volume_id)
{
    char reason[256];

    return store_allocate(e->store, volume_id, BYTES_NONE, (struct replica_placement){0}, (struct ttl){0}, NEEDLE_V3, 0,
                          reason);
}

/* ---- operations ---- */

static void finish(struct engine_op *op, int rc)
{
    op->rc = rc;
    stage_free(op->stage);
    op->stage = NULL;
    if (op->then != NULL)
        op->then(op);
    else
        sem_post(&op->done);
}

static void on_written(struct needle_write *w, int rc)
{
    finish(CONTAINER_OF(w, struct engine_op, write), rc);
}

static void start_write(struct engine_op *op)
{
    struct needle_write *w = &op->write;
    int rc;

    w->store = op->engine->store;
    w->loop = op->loop;
    w->fid = op->fid;
    w->is_delete = op->kind == ENGINE_DELETE;
    w->stage = op->stage;
    w->done = on_written;
    rc = needle_write_start(w);
    if (rc != 0)
        finish(op, rc);
}

/* Calls itself as long as the stage makes it wait. */
static void stage_more(void *arg)
{
    struct engine_op *op = arg;
    size_t taken = 0;
    int rc = 0;

    if (op->staged < op->n) {
        rc = stage_append(op->stage, bytes_of(op->data + op->staged, op->n - op->staged), &taken);
        op->staged += taken;
    }
    if (rc == 0)
        rc = stage_finish(op->stage);
    if (rc == 0)
        start_write(op);
    else if (rc != DFS_EAGAIN)
        finish(op, rc);
}

static void start_put(struct engine_op *op)
{
    int rc = stage_new(op->engine->store, op->fid.volume_id, op->loop, op->write.privileged, UINT64_MAX / 2, stage_more, op,
                       &op->stage);

    if (rc != 0) {
        finish(op, rc);
        return;
    }
    op->staged = 0;
    stage_expect(op->stage, op->n);
    stage_more(op);
}

static void take_text(struct bytes in, char out[256])
{
    size_t n = in.n < 255 ? in.n : 255;

    if (n > 0)
        memcpy(out, in.p, n);
    out[n] = '\0';
}

static int take_pieces(struct engine_op *op)
{
    struct needle_read *r = &op->read;

    while (op->got_n < r->needle.data_bytes) {
        struct http_piece piece;
        int rc = needle_read_piece(r, op->got_n, r->needle.data_bytes - op->got_n, &piece);
        if (rc != 0)
            return rc;
        if (piece.is_file) {
            op->by_file = true;
            /* As sendfile would: not one of the engine's own calls. */
            CHECK(pread(piece.fd, op->got + op->got_n, (size_t)piece.bytes, (off_t)piece.file_pos) == (ssize_t)piece.bytes);
            op->got_n += (size_t)piece.bytes;
        } else {
            memcpy(op->got + op->got_n, piece.mem.p, piece.mem.n);
            op->got_n += piece.mem.n;
        }
    }
    return 0;
}

static void on_read(struct needle_read *r, int rc)
{
    struct engine_op *op = CONTAINER_OF(r, struct engine_op, read);

    if (rc == 0 && op->got == NULL) {
        op->version = r->version;
        op->flags = r->needle.flags;
        op->append_at_ns = r->needle.append_at_ns;
        op->data_crc = r->data_crc;
        take_text(r->needle.name, op->name);
        take_text(r->needle.mime, op->mime);
        op->got = malloc((size_t)r->needle.data_bytes + 1);
        CHECK(op->got != NULL);
        if (r->meta_only)
            op->got_n = r->needle.data_bytes;
    }
    if (rc == 0 && !r->meta_only)
        rc = take_pieces(op);
    if (rc == DFS_EAGAIN)
        return;
    needle_read_release(r);
    finish(op, rc);
}

static void start_get(struct engine_op *op)
{
    struct needle_read *r = &op->read;
    int rc;

    r->store = op->engine->store;
    r->loop = op->loop;
    r->fid = op->fid;
    r->done = on_read;
    rc = needle_read_start(r);
    if (rc != DFS_EAGAIN)
        on_read(r, rc);
}

static void on_start(struct loop_msg *msg)
{
    struct engine_op *op = CONTAINER_OF(msg, struct engine_op, msg);

    switch (op->kind) {
    case ENGINE_PUT:
        start_put(op);
        break;
    case ENGINE_DELETE:
        start_write(op);
        break;
    case ENGINE_GET:
        start_get(op);
        break;
    }
}

void engine_start(struct engine *e, uint32_t loop_index, struct engine_op *op)
{
    op->engine = e;
    op->loop = e->loops[loop_index];
    sem_init(&op->done, 0, 0);
    op->msg.run = on_start;
    loop_post(op->loop, &op->msg);
}

int engine_wait(struct engine_op *op)
{
    while (sem_wait(&op->done) != 0)
        ;
    return op->rc;
}

void engine_release(struct engine_op *op)
{
    free(op->got);
    op->got = NULL;
    sem_destroy(&op->done);
}

/* ---- shorthands ---- */

int engine_put(struct engine *e, struct fid fid, const char *data, size_t n)
{
    struct engine_op op = {.kind = ENGINE_PUT, .fid = fid, .data = data, .n = n};
    int rc;

    engine_start(e, 0, &op);
    rc = engine_wait(&op);
    engine_release(&op);
    return rc;
}

int engine_delete(struct engine *e, struct fid fid)
{
    struct engine_op op = {.kind = ENGINE_DELETE, .fid = fid};
    int rc;

    engine_start(e, 0, &op);
    rc = engine_wait(&op);
    engine_release(&op);
    return rc;
}

int engine_get(struct engine *e, struct fid fid, char **out, size_t *n)
{
    struct engine_op op = {.kind = ENGINE_GET, .fid = fid};
    int rc;

    engine_start(e, 0, &op);
    rc = engine_wait(&op);
    if (rc == 0) {
        *out = op.got;
        *n = op.got_n;
        op.got = NULL;
    }
    engine_release(&op);
    return rc;
}

int engine_check(struct engine *e, struct fid fid, const char *data, size_t n)
{
    char *got = NULL;
    size_t got_n = 0;
    int rc = engine_get(e, fid, &got, &got_n);

    if (rc == 0 && (got_n != n || memcmp(got, data, n) != 0))
        rc = DFS_ESTALE;
    free(got);
    return rc;
}

void engine_fill(char *out, size_t n, uint64_t seed)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (char)(x >> 32);
    }
}
