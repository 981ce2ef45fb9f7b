/* See late_write.h. */
#include "volume/late_write.h"

#include <stddef.h>
#include <string.h>

#include "needle/err.h"

static void on_written(struct needle_write *w, int rc);

static void again(struct late_write *l)
{
    struct needle_write w = {
        .store = l->w.store,
        .loop = l->w.loop,
        .fid = l->w.fid,
        .is_delete = l->w.is_delete,
        .meta = l->w.meta,
        .stage = l->w.stage,
        .durability = l->w.durability,
        .explicit_ts = l->w.explicit_ts,
        .skip_cookie = l->w.skip_cookie,
        .privileged = l->w.privileged,
        .want_replaced = l->w.want_replaced,
        .undo = l->w.undo,
        .append_at_ns = l->given_ns,
        .late = true,
        .done = on_written,
    };
    l->reordered = true;
    l->w = w;
    int rc = needle_write_start(&l->w);
    if (rc != 0)
        l->done(l, rc);
}

static void looked(struct late_write *l, int rc)
{
    bool older = rc == DFS_ENOTFOUND || (rc == 0 && l->look.needle.append_at_ns < l->given_ns);
    needle_read_release(&l->look);
    if (older)
        again(l);
    else
        l->done(l, DFS_ESTALE);
}

static void on_looked(struct needle_read *look, int rc)
{
    looked((struct late_write *)((char *)look - offsetof(struct late_write, look)), rc);
}

static void on_written(struct needle_write *w, int rc)
{
    struct late_write *l = (struct late_write *)((char *)w - offsetof(struct late_write, w));
    if (rc != DFS_ESTALE || l->reordered) {
        l->done(l, rc);
        return;
    }
    memset(&l->look, 0, sizeof l->look);
    l->look.store = w->store;
    l->look.loop = w->loop;
    l->look.fid = w->fid;
    l->look.meta_only = true;
    l->look.skip_cookie = true;
    l->look.done = on_looked;
    rc = needle_read_start(&l->look);
    if (rc != DFS_EAGAIN)
        looked(l, rc);
}

int late_write_start(struct late_write *l)
{
    l->given_ns = l->w.append_at_ns;
    l->reordered = l->given_ns == 0; /* nothing was given: nothing can be late */
    l->w.done = on_written;
    return needle_write_start(&l->w);
}
