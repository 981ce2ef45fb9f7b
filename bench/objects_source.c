/* Four ways through a list of objects. */
#include "bench/objects_source.h"

#include "needle/err.h"

/* Reads of one object that together read all of it. */
static uint64_t objects_blocks(const struct objects_source *s)
{
    return s->block_bytes == 0 || s->object_bytes == 0 ? 1 : (s->object_bytes + s->block_bytes - 1) / s->block_bytes;
}

/* ---- write ---- */

static enum load_next next_write(void *arg, uint32_t slot, struct load_op *op)
{
    struct objects_source *s = arg;
    (void)slot;
    if (s->list_rc != 0 || (s->max_objects > 0 && s->next >= s->max_objects))
        return LOAD_NO_MORE;
    s->next++;
    op->kind = LOAD_WRITE;
    op->size_bytes = s->object_bytes;
    return LOAD_DO;
}

/* A write that failed may have left an object all the same: its id, when it got one, is listed nowhere. */
static void write_done(void *arg, uint32_t slot, const struct load_op *op, int rc, uint64_t end_ns)
{
    struct objects_source *s = arg;
    (void)slot;
    (void)end_ns;
    if (rc == 0 && s->list_rc == 0)
        s->list_rc = object_list_add(s->list, &op->fid);
}

struct load_source objects_write_source(struct objects_source *s)
{
    return (struct load_source){next_write, write_done, s};
}

/* ---- read ---- */

static void read_block(const struct objects_source *s, uint64_t object, uint64_t block, struct load_op *op)
{
    uint64_t left;
    op->kind = LOAD_READ;
    op->fid = s->list->ids.fids[object];
    op->size_bytes = s->object_bytes;
    op->offset_bytes = block * s->block_bytes;
    left = s->object_bytes - op->offset_bytes;
    /* An object that is one block is read without a range. */
    op->length_bytes = s->block_bytes >= s->object_bytes ? 0 : left < s->block_bytes ? left : s->block_bytes;
}

static enum load_next next_seq(void *arg, uint32_t slot, struct load_op *op)
{
    struct objects_source *s = arg;
    uint64_t blocks = objects_blocks(s);
    (void)slot;
    if (s->next / blocks >= s->list->ids.count)
        return LOAD_NO_MORE;
    read_block(s, s->next / blocks, s->next % blocks, op);
    s->next++;
    return LOAD_DO;
}

static enum load_next next_rand(void *arg, uint32_t slot, struct load_op *op)
{
    struct objects_source *s = arg;
    uint64_t blocks = objects_blocks(s), which;
    (void)slot;
    which = dice_u64(&s->dice) % (s->list->ids.count * blocks);
    read_block(s, which / blocks, which % blocks, op);
    s->next++;
    return LOAD_DO;
}

struct load_source objects_seq_source(struct objects_source *s)
{
    return (struct load_source){next_seq, NULL, s};
}

struct load_source objects_rand_source(struct objects_source *s)
{
    return (struct load_source){next_rand, NULL, s};
}

/* ---- delete ---- */

static enum load_next next_delete(void *arg, uint32_t slot, struct load_op *op)
{
    struct objects_source *s = arg;
    (void)slot;
    if (s->next >= s->list->ids.count)
        return LOAD_NO_MORE;
    op->kind = LOAD_DELETE;
    op->fid = s->list->ids.fids[s->next++];
    return LOAD_DO;
}

static void delete_done(void *arg, uint32_t slot, const struct load_op *op, int rc, uint64_t end_ns)
{
    struct objects_source *s = arg;
    (void)slot;
    (void)op;
    (void)end_ns;
    s->gone += rc == DFS_ENOTFOUND;
}

struct load_source objects_delete_source(struct objects_source *s)
{
    return (struct load_source){next_delete, delete_done, s};
}
