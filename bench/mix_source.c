/* Choosing operations, and remembering what is there. */
#include "bench/mix_source.h"

#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"

#define SHARE_MAX 1000000u
#define DELETE_TRIES 16 /* to find an object that nobody reads */

enum { READ, WRITE, DELETE };

bool mix_parse_shares(const char *text, uint32_t shares[3])
{
    uint32_t v[3];
    int end = 0;
    if (sscanf(text, "%7u:%7u:%7u%n", &v[READ], &v[WRITE], &v[DELETE], &end) != 3 || text[end] != '\0' || text[0] == '-')
        return false;
    for (int i = READ; i <= DELETE; i++)
        if (v[i] > SHARE_MAX)
            return false;
    if (v[READ] + v[WRITE] + v[DELETE] == 0)
        return false;
    for (int i = READ; i <= DELETE; i++)
        shares[i] = v[i];
    return true;
}

void mix_source_release(struct mix_source *s)
{
    free(s->objects);
    free(s->live);
    free(s->free_ones);
    s->objects = NULL;
    s->live = s->free_ones = NULL;
    s->object_count = s->object_cap = s->live_count = s->free_count = 0;
}

/* ---- objects ---- */

static int grow(struct mix_source *s)
{
    size_t cap = s->object_cap == 0 ? 1024 : s->object_cap * 2;
    struct mix_object *objects = realloc(s->objects, cap * sizeof *objects);
    size_t *live, *free_ones;

    if (objects == NULL)
        return DFS_ENOMEM;
    s->objects = objects;
    live = realloc(s->live, cap * sizeof *live);
    if (live == NULL)
        return DFS_ENOMEM;
    s->live = live;
    free_ones = realloc(s->free_ones, cap * sizeof *free_ones);
    if (free_ones == NULL)
        return DFS_ENOMEM;
    s->free_ones = free_ones;
    s->object_cap = cap;
    return 0;
}

static void revive(struct mix_source *s, size_t index)
{
    s->objects[index].place = s->live_count;
    s->live[s->live_count++] = index;
}

static int remember(struct mix_source *s, const struct load_op *op)
{
    size_t index;
    int rc = 0;

    if (s->list != NULL)
        rc = object_list_add(s->list, &op->fid);
    if (rc == 0 && s->free_count == 0 && s->object_count == s->object_cap)
        rc = grow(s);
    if (rc != 0)
        return rc;
    index = s->free_count > 0 ? s->free_ones[--s->free_count] : s->object_count++;
    s->objects[index] = (struct mix_object){.fid = op->fid, .size_bytes = op->size_bytes};
    revive(s, index);
    s->written++;
    s->written_bytes += op->size_bytes;
    return 0;
}

static void take_out(struct mix_source *s, size_t index)
{
    size_t place = s->objects[index].place, last = s->live[--s->live_count];
    s->live[place] = last;
    s->objects[last].place = place;
}

/* ---- choices ---- */

static void give_write(struct mix_source *s, struct load_op *op)
{
    op->kind = LOAD_WRITE;
    op->size_bytes = sizes_next(s->sizes, &s->dice);
}

static bool give_read(struct mix_source *s, struct load_op *op)
{
    size_t index;
    if (s->live_count == 0)
        return false;
    index = s->live[dice_zipf(&s->dice, s->live_count, s->zipf) - 1];
    s->objects[index].readers++;
    *op = (struct load_op){
        .kind = LOAD_READ,
        .fid = s->objects[index].fid,
        .size_bytes = s->objects[index].size_bytes,
        .token = index,
    };
    return true;
}

static bool give_delete(struct mix_source *s, struct load_op *op)
{
    for (int i = 0; i < DELETE_TRIES && s->live_count > 0; i++) {
        size_t index = s->live[dice_u64(&s->dice) % s->live_count];
        if (s->objects[index].readers > 0)
            continue;
        take_out(s, index);
        *op = (struct load_op){.kind = LOAD_DELETE, .fid = s->objects[index].fid, .token = index};
        return true;
    }
    return false;
}

static enum load_next next_preload(void *arg, uint32_t slot, struct load_op *op)
{
    struct mix_source *s = arg;
    (void)slot;
    if (s->rc != 0 || s->next >= s->preload)
        return LOAD_NO_MORE;
    s->next++;
    give_write(s, op);
    return LOAD_DO;
}

static enum load_next next_mixed(void *arg, uint32_t slot, struct load_op *op)
{
    struct mix_source *s = arg;
    uint64_t draw = dice_u64(&s->dice) % (s->shares[READ] + s->shares[WRITE] + s->shares[DELETE]);

    (void)slot;
    if (s->rc != 0)
        return LOAD_NO_MORE;
    s->next++;
    if (draw < s->shares[READ] && give_read(s, op))
        return LOAD_DO;
    if (draw >= s->shares[READ] + s->shares[WRITE] && give_delete(s, op))
        return LOAD_DO;
    give_write(s, op);
    return LOAD_DO;
}

static void mixed_done(void *arg, uint32_t slot, const struct load_op *op, int rc, uint64_t end_ns)
{
    struct mix_source *s = arg;
    (void)slot;
    (void)end_ns;
    switch (op->kind) {
    case LOAD_WRITE:
    case LOAD_OVERWRITE:
        if (rc == 0 && s->rc == 0)
            s->rc = remember(s, op);
        return;
    case LOAD_READ:
        s->objects[op->token].readers--;
        return;
    case LOAD_DELETE:
        /* Whether it is still there is not known after a failure: it may be asked for again. */
        if (rc != 0 && rc != DFS_ENOTFOUND)
            revive(s, op->token);
        else
            s->free_ones[s->free_count++] = op->token;
        return;
    case LOAD_KINDS:
        return;
    }
}

struct load_source mix_preload_source(struct mix_source *s)
{
    return (struct load_source){next_preload, mixed_done, s};
}

struct load_source mix_load_source(struct mix_source *s)
{
    return (struct load_source){next_mixed, mixed_done, s};
}
