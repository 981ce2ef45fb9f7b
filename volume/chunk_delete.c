/* Deletes in the plural: see chunk_delete.h. */
#include "volume/chunk_delete.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/rand.h"

/* ---- chunks ---- */
struct chunk_slot {
    struct chunk_delete *owner;
    struct volume_lookup_wait wait;
    const struct manifest_chunk *chunk; /* NULL = free */
    uint32_t tries;
};
struct chunk_delete {
    struct vs_loop *l;
    struct manifest m;
    void (*done)(void *arg, int rc, const char *error);
    void *arg;
    struct loop_msg msg;
    uint32_t next, running;
    int rc;
    char error[256];
    struct chunk_slot slot[CHUNK_DELETE_PARALLEL];
};

static void slot_try(struct chunk_slot *s);

static void run_more(struct chunk_delete *d)
{
    d->running++; /* this function, so that nothing ends under it */
    for (uint32_t i = 0; i < CHUNK_DELETE_PARALLEL && d->rc == 0; i++) {
        struct chunk_slot *s = &d->slot[i];
        if (s->chunk != NULL || d->next == d->m.count)
            continue;
        s->owner = d;
        s->chunk = &d->m.chunks[d->next++];
        s->tries = 0;
        d->running++;
        slot_try(s);
    }
    if (--d->running > 0)
        return;
    if (d->rc == 0 && d->next < d->m.count) {
        run_more(d);
        return;
    }
    d->done(d->arg, d->rc, d->error);
    manifest_release(&d->m);
    free(d);
}

static void slot_done(struct chunk_slot *s, int rc, int status)
{
    struct chunk_delete *d = s->owner;
    if (rc != 0 && d->rc == 0) {
        char fid[FID_TEXT_MAX];
        fid_format(&s->chunk->fid, fid);
        snprintf(d->error, sizeof d->error, "%s: %s (%d)", fid, dfs_err_text(rc), status);
        d->rc = rc;
    }
    s->chunk = NULL;
    d->running--;
    run_more(d);
}

static void on_call_done(void *arg, struct http_call *call, int rc, int status)
{
    struct chunk_slot *s = arg;
    (void)call;
    bool fine = rc == 0 && (status == 200 || status == 202 || status == 404);
    if (!fine) {
        volume_lookup_forget(s->owner->l->lookup, s->chunk->fid.volume_id);
        if (s->tries < CHUNK_DELETE_TRIES) {
            slot_try(s);
            return;
        }
    }
    slot_done(s, fine ? 0 : rc != 0 ? rc : DFS_EIO, status);
}

static const struct http_call_ops call_ops = {NULL, NULL, on_call_done};

static int slot_call(struct chunk_slot *s, const struct volume_locations *at)
{
    struct volume_server *server = s->owner->l->server;
    char fid[FID_TEXT_MAX], target[FID_TEXT_MAX + 1];
    if (at->count == 0)
        return DFS_ENOVOLUME;
    const struct volume_location *v = &at->v[rand_below(at->count)];
    size_t n = fid_format(&s->chunk->fid, fid);
    target[0] = '/';
    memcpy(target + 1, fid, n);
    struct http_call *call;
    struct http_call_request req = {
        .addr = strcmp(v->url, server->self_url) == 0 ? &server->self_addr : &v->addr,
        .method = HTTP_DELETE,
        .target = bytes_of(target, n + 1),
        .deadline_ms = CHUNK_DELETE_DEADLINE_MS,
        .ops = &call_ops,
        .arg = s,
    };
    return http_call_start(s->owner->l->client, &req, &call);
}

static void on_locations(struct volume_lookup_wait *w, int rc, const struct volume_locations *at)
{
    struct chunk_slot *s = w->arg;
    if (rc == 0)
        rc = slot_call(s, at);
    if (rc != 0)
        slot_done(s, rc, 0);
}

static void slot_try(struct chunk_slot *s)
{
    const struct volume_locations *at;
    s->tries++;
    s->wait.done = on_locations;
    s->wait.arg = s;
    int rc = volume_lookup_get(s->owner->l->lookup, s->chunk->fid.volume_id, &s->wait, &at);
    if (rc != DFS_EAGAIN)
        on_locations(&s->wait, rc, at);
}

static void on_start(struct loop_msg *msg)
{
    run_more((struct chunk_delete *)((char *)msg - offsetof(struct chunk_delete, msg)));
}

int chunk_delete_start(struct vs_loop *l, struct manifest *m, void (*done)(void *arg, int rc, const char *error), void *arg,
                       struct chunk_delete **out)
{
    struct chunk_delete *d = calloc(1, sizeof *d);
    if (d == NULL) {
        manifest_release(m);
        return DFS_ENOMEM;
    }
    d->l = l;
    d->m = *m;
    memset(m, 0, sizeof *m);
    d->done = done;
    d->arg = arg;
    d->msg.run = on_start;
    loop_post(l->loop, &d->msg);
    *out = d;
    return 0;
}

/* ---- batches ---- */
struct batch_slot {
    struct batch_delete *owner;
    uint32_t index;
    bool busy;
    struct fid fid;
    struct needle_read look;
    struct needle_write write;
};
struct batch_delete {
    struct volume_server *s;
    struct loop *loop;
    const struct bytes *fids;
    uint32_t count, next, running;
    bool skip_cookie;
    void (*done)(void *arg, const struct batch_result *results, uint32_t count);
    void *arg;
    struct loop_msg msg;
    struct batch_result *results;
    struct batch_slot slot[BATCH_DELETE_PARALLEL];
};

static void batch_more(struct batch_delete *b);

static void batch_result(struct batch_slot *t, int status, uint32_t size, const char *error)
{
    t->owner->results[t->index] = (struct batch_result){status, size, error};
    t->busy = false;
    t->owner->running--;
}

static void result_of_rc(struct batch_slot *t, int rc)
{
    if (rc == DFS_ENOTFOUND || rc == DFS_ENOVOLUME || rc == DFS_ECOOKIE) /* a wrong cookie learns nothing */
        batch_result(t, 404, 0, "not found");
    else
        batch_result(t, vs_write_status(rc, NULL), 0, dfs_err_text(rc));
}

static void on_written(struct needle_write *w, int rc)
{
    struct batch_slot *t = (struct batch_slot *)((char *)w - offsetof(struct batch_slot, write));
    struct batch_delete *b = t->owner;
    if (rc == 0)
        batch_result(t, 202, w->old_body_bytes, NULL);
    else
        result_of_rc(t, rc);
    batch_more(b);
}

/* True when the slot goes on by itself. */
static bool batch_write(struct batch_slot *t)
{
    struct needle_write *w = &t->write;
    memset(w, 0, sizeof *w);
    w->store = t->owner->s->store;
    w->loop = t->owner->loop;
    w->fid = t->fid;
    w->is_delete = true;
    w->skip_cookie = t->owner->skip_cookie;
    w->done = on_written;
    int rc = needle_write_start(w);
    if (rc != 0)
        result_of_rc(t, rc);
    return rc == 0;
}

static bool batch_looked(struct batch_slot *t, int rc)
{
    bool manifest = rc == 0 && (t->look.needle.flags & NEEDLE_CHUNK_MANIFEST) != 0;
    needle_read_release(&t->look);
    if (manifest) {
        batch_result(t, 406, 0, "ChunkManifest: not allowed in batch delete mode.");
        return false;
    }
    if (rc == DFS_ENOVOLUME || rc == DFS_ENOTFOUND || rc == DFS_ECOOKIE) {
        result_of_rc(t, rc);
        return false;
    }
    return batch_write(t);
}

static void on_looked(struct needle_read *r, int rc)
{
    struct batch_slot *t = (struct batch_slot *)((char *)r - offsetof(struct batch_slot, look));
    struct batch_delete *b = t->owner;
    if (!batch_looked(t, rc))
        batch_more(b);
}

static bool batch_begin(struct batch_slot *t)
{
    struct batch_delete *b = t->owner;
    if (fid_parse(b->fids[t->index], &t->fid) != 0) {
        batch_result(t, 400, 0, "Wrong fid format.");
        return false;
    }
    memset(&t->look, 0, sizeof t->look);
    t->look.store = b->s->store;
    t->look.loop = b->loop;
    t->look.fid = t->fid;
    t->look.meta_only = true;
    t->look.skip_cookie = b->skip_cookie;
    t->look.done = on_looked;
    int rc = needle_read_start(&t->look);
    return rc == DFS_EAGAIN || batch_looked(t, rc);
}

static void batch_more(struct batch_delete *b)
{
    for (uint32_t i = 0; i < BATCH_DELETE_PARALLEL && b->next < b->count; i++) {
        struct batch_slot *t = &b->slot[i];
        while (!t->busy && b->next < b->count) {
            t->owner = b;
            t->index = b->next++;
            t->busy = true;
            b->running++;
            batch_begin(t);
        }
    }
    if (b->running > 0)
        return;
    b->done(b->arg, b->results, b->count);
    free(b->results);
    free(b);
}

static void on_batch_start(struct loop_msg *msg)
{
    batch_more((struct batch_delete *)((char *)msg - offsetof(struct batch_delete, msg)));
}

int batch_delete_start(struct volume_server *s, struct loop *loop, const struct bytes *fids, uint32_t count, bool skip_cookie,
                       void (*done)(void *arg, const struct batch_result *results, uint32_t count), void *arg)
{
    struct batch_delete *b = calloc(1, sizeof *b);
    if (b == NULL || (b->results = calloc(count + 1, sizeof *b->results)) == NULL) {
        free(b);
        return DFS_ENOMEM;
    }
    b->s = s;
    b->loop = loop;
    b->fids = fids;
    b->count = count;
    b->skip_cookie = skip_cookie;
    b->done = done;
    b->arg = arg;
    b->msg.run = on_batch_start;
    loop_post(loop, &b->msg);
    return 0;
}
