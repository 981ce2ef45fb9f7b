/* Assign, waiting for growth, and refusing with reasons. */
#include "master/assign.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "master/master.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"

static int refuse(struct assign *a, int rc, int http_status, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static int refuse(struct assign *a, int rc, int http_status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(a->reason, sizeof a->reason, fmt, ap);
    va_end(ap);
    a->http_status = http_status;
    return rc;
}

int assign_layout(struct assign *a, struct volume_layout **out)
{
    struct master_server *m = a->master;
    struct replica_placement rp = m->default_placement;
    struct ttl ttl;
    int rc;

    if (!name_is_safe(a->collection))
        return refuse(a, DFS_EINVAL, 400, "collection '%.*s' is no name of letters, digits, '_', '-' and '.'",
                      (int)(a->collection.n < 100 ? a->collection.n : 100), a->collection.p);
    if (a->replication.n != 0 && replica_placement_parse(a->replication, &rp) != 0)
        return refuse(a, DFS_EINVAL, 406, "unexpected replication type: %.*s",
                      (int)(a->replication.n < 40 ? a->replication.n : 40), a->replication.p);
    if (replica_placement_copies(rp) > GROWTH_COPIES_MAX)
        return refuse(a, DFS_EINVAL, 406, "replication asks for %u copies: at most %d", replica_placement_copies(rp),
                      GROWTH_COPIES_MAX);
    if (ttl_parse(a->ttl, &ttl) != 0)
        return refuse(a, DFS_EINVAL, 406, "ttl '%.*s' is not one of 1..255 with a unit m, h, d, w, M or y",
                      (int)(a->ttl.n < 40 ? a->ttl.n : 40), a->ttl.n != 0 ? a->ttl.p : "");
    if (a->disk.n != 0 && !bytes_eq(a->disk, BYTES_LIT("hdd")))
        return refuse(a, DFS_EINVAL, 406, "no volume server has a disk of type '%.*s': there is only hdd",
                      (int)(a->disk.n < 40 ? a->disk.n : 40), a->disk.p);
    rc = volume_layout_get(&m->topology, a->collection, rp, ttl, out);
    if (rc == DFS_ENOSPC)
        return refuse(a, rc, 503, "more than %u collections are asked for", TOPOLOGY_LAYOUTS_MAX);
    return rc == 0 ? 0 : refuse(a, rc, 500, "%s", dfs_err_text(rc));
}

/* Names that exist, for the answer to one that does not. */
static bool place_known(const struct master_server *m, struct bytes name, size_t field, char *known, size_t cap)
{
    size_t n = 0;

    known[0] = '\0';
    for (const struct data_node *d = m->topology.nodes; d != NULL; d = d->next) {
        const char *have = (const char *)d + field;

        if (!d->up)
            continue;
        if (bytes_eq(bytes_str(have), name) || (field == offsetof(struct data_node, url) && bytes_eq(bytes_str(d->id), name)))
            return true;
        if (strstr(known, have) == NULL && n + strlen(have) + 3 < cap)
            n += (size_t)snprintf(known + n, cap - n, "%s%s", n != 0 ? ", " : "", have);
    }
    return false;
}

static int check_places(struct assign *a)
{
    static const struct {
        const char *what;
        size_t in_filter, in_node;
    } places[] = {
        {"data center", offsetof(struct place_filter, data_center), offsetof(struct data_node, data_center)},
        {"rack", offsetof(struct place_filter, rack), offsetof(struct data_node, rack)},
        {"volume server", offsetof(struct place_filter, data_node), offsetof(struct data_node, url)},
    };
    char known[256];

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct bytes *name = (const struct bytes *)((const char *)&a->filter + places[i].in_filter);

        if (name->n != 0 && !place_known(a->master, *name, places[i].in_node, known, sizeof known))
            return refuse(a, DFS_ENOTFOUND, 400, "%s '%.*s' is not known; known: %s", places[i].what,
                          (int)(name->n < 60 ? name->n : 60), name->p, known[0] != '\0' ? known : "none (no server is up)");
    }
    return 0;
}

/* ---- waiting ---- */

static void link_waiting(struct assign *a)
{
    struct master_server *m = a->master;

    a->next = m->waiting;
    a->prev = NULL;
    if (m->waiting != NULL)
        m->waiting->prev = a;
    m->waiting = a;
    m->waiting_count++;
    a->layout->users++;
}

static void unlink_waiting(struct assign *a)
{
    struct master_server *m = a->master;

    if (a->prev != NULL)
        a->prev->next = a->next;
    else if (m->waiting == a)
        m->waiting = a->next;
    if (a->next != NULL)
        a->next->prev = a->prev;
    a->next = a->prev = NULL;
    m->waiting_count--;
    a->layout->users--;
}

static int attempt(struct assign *a);

static void try_again(struct assign *a)
{
    int rc = attempt(a);

    if (rc == DFS_EAGAIN)
        return;
    unlink_waiting(a);
    a->done(a, rc);
}

static void on_grown(struct growth_waiter *w)
{
    struct assign *a = CONTAINER_OF(w, struct assign, growth_wait);

    a->in_growth = false;
    try_again(a);
}

static void on_keys(struct sequencer_waiter *w, int rc)
{
    struct assign *a = CONTAINER_OF(w, struct assign, key_wait);

    a->in_keys = false;
    if (rc == 0) {
        try_again(a);
        return;
    }
    unlink_waiting(a);
    refuse(a, rc, 503, "no file ids: %s", rc == DFS_ECANCELLED ? "the master is stopping"
                                                                : sequencer_trouble(a->master->sequencer));
    a->done(a, rc);
}

/* ---- one attempt ---- */

/* A master that has just started waits for the servers it knew before it calls volumes missing; a first start waits a moment for
 * the first server. */
static bool warming_up(const struct master_server *m)
{
    uint64_t up_ms = loop_now_ms(m->loop) - m->start_ms;
    struct topology_sums sums;

    topology_sums(&m->topology, &sums);
    /* A server that restarts names its volumes as it opens them.  While it does, the wanted ones may be among them; with other
     * servers at hand, and a master that knew what there was, growing beats waiting. */
    if (sums.nodes_loading > 0 && (sums.nodes_up == 1 || up_ms < MASTER_LOADING_MS))
        return true;
    return up_ms < MASTER_WARM_UP_MS && (sums.nodes_up == 0 || sums.nodes_up < m->servers_before);
}

static int wait_for_growth(struct assign *a)
{
    struct growth_request r = {.layout = a->layout, .filter = a->filter, .count = a->growth_count,
                               .preallocate_bytes = a->preallocate_bytes};
    char reason[ASSIGN_REASON_MAX - 64];
    const char *trouble = volume_growth_trouble(a->layout);
    int rc;

    a->master->counts[COUNT_PICK_FAILED]++;
    if (warming_up(a->master))
        return DFS_EAGAIN; /* parked: assign_retry() comes with the next full heartbeat */
    if (a->rounds > 0 && volume_growth_made(a->layout) == 0 && trouble[0] != '\0')
        return refuse(a, DFS_ENOSPC, 503, "no writable volumes: %s", trouble);
    if (++a->rounds > 3)
        return refuse(a, DFS_ENOSPC, 503, "no writable volumes, though some were just made: they filled up or went read-only at "
                                          "once; see /vol/status");
    a->growth_wait.fn = on_grown;
    rc = volume_growth_start(&a->master->grower, &r, &a->growth_wait, reason, sizeof reason);
    if (rc != 0)
        return refuse(a, rc, rc == DFS_ENOSPC ? 406 : 500, "%s", rc == DFS_ENOSPC ? reason : dfs_err_text(rc));
    a->in_growth = true;
    return DFS_EAGAIN;
}

static int wait_for_keys(struct assign *a)
{
    a->key_wait.fn = on_keys;
    a->in_keys = true;
    sequencer_wait(a->master->sequencer, &a->key_wait);
    return DFS_EAGAIN;
}

/* Growing begins before the last volume is full; its outcome shows in the next assigns. */
static void grow_ahead(struct assign *a)
{
    struct growth_request r = {.layout = a->layout, .filter = a->filter};
    uint64_t now_ms = loop_now_ms(a->master->loop);
    char reason[ASSIGN_REASON_MAX];

    if (volume_growth_active(a->layout) || !volume_growth_hopeful(a->layout, &a->filter, now_ms) ||
        (a->layout->growth_tried_ms != 0 && now_ms < a->layout->growth_tried_ms + ASSIGN_AHEAD_MS))
        return;
    if (!volume_layout_crowded(a->layout, &a->filter)) /* last: it may have to look at many */
        return;
    a->layout->growth_tried_ms = now_ms;
    if (!warming_up(a->master) && volume_layout_worth_growing(a->layout, &a->filter))
        volume_growth_start(&a->master->grower, &r, NULL, reason, sizeof reason);
}

/* All volumes that match are nearly full: whether the assign now waits for others. */
static bool hold_back(struct assign *a)
{
    struct growth_request r = {.layout = a->layout, .filter = a->filter, .count = a->growth_count,
                               .preallocate_bytes = a->preallocate_bytes};
    char reason[ASSIGN_REASON_MAX];

    a->held = false;
    if (a->held_rounds >= ASSIGN_HELD_ROUNDS || !volume_growth_hopeful(a->layout, &a->filter, loop_now_ms(a->master->loop)) ||
        !volume_layout_worth_growing(a->layout, &a->filter) || warming_up(a->master))
        return false;
    a->growth_wait.fn = on_grown;
    if (volume_growth_start(&a->master->grower, &r, &a->growth_wait, reason, sizeof reason) != 0)
        return false;
    a->held_rounds++;
    a->in_growth = a->held = true;
    return true;
}

static int attempt(struct assign *a)
{
    struct master_server *m = a->master;
    uint64_t count = a->count != 0 ? a->count : 1;
    int rc;

    if (m->draining)
        return refuse(a, DFS_ECANCELLED, 503, "the master is stopping");
    /* Taken once, however often a parked assign tries again. */
    rc = a->keyed ? 0 : sequencer_keys(m->sequencer, count, &a->fid.key);
    if (rc == DFS_EAGAIN)
        return wait_for_keys(a);
    if (rc == DFS_EUNAVAILABLE)
        return refuse(a, rc, 503, "no file ids: %s", sequencer_trouble(m->sequencer));
    if (rc != 0)
        return refuse(a, rc, 406, "count %llu: %s", (unsigned long long)count, dfs_err_text(rc));
    a->keyed = true;
    a->volume = volume_layout_pick_roomy(a->layout, &a->filter, count, a->expected_bytes, loop_now_ms(m->loop));
    if (a->volume == NULL && hold_back(a))
        return DFS_EAGAIN;
    if (a->volume == NULL)
        a->volume = volume_layout_pick(a->layout, &a->filter, count, a->expected_bytes, loop_now_ms(m->loop));
    if (a->volume == NULL)
        return wait_for_growth(a);
    grow_ahead(a);
    a->at = a->volume->replica_count > 1 ? rand_below(a->volume->replica_count) : 0;
    a->fid.volume_id = a->volume->id;
    a->fid.cookie = rand_u32();
    return 0;
}

int assign_start(struct assign *a)
{
    struct master_server *m = a->master;
    int rc = assign_layout(a, &a->layout);

    m->counts[COUNT_ASSIGN]++;
    if (rc == 0 && !place_filter_empty(&a->filter))
        rc = check_places(a);
    if (rc == 0 && m->waiting_count >= ASSIGN_WAITING_MAX)
        rc = refuse(a, DFS_EBUSY, 503, "%u assigns wait already", m->waiting_count);
    if (rc == 0)
        rc = attempt(a);
    if (rc == DFS_EAGAIN) {
        a->until_ms = loop_now_ms(m->loop) + ASSIGN_WAIT_MS;
        link_waiting(a);
    } else if (rc != 0) {
        m->counts[COUNT_ASSIGN_REFUSED]++;
    }
    return rc;
}

/* Nobody holds a waiter of it any more. */
static void stop_waiting(struct assign *a)
{
    unlink_waiting(a);
    if (a->in_growth)
        volume_growth_unwait(a->layout, &a->growth_wait);
    if (a->in_keys)
        sequencer_unwait(a->master->sequencer, &a->key_wait);
    a->in_growth = a->in_keys = false;
}

void assign_cancel(struct assign *a)
{
    stop_waiting(a);
}

void assign_retry(struct master_server *m)
{
    for (struct assign *a = m->waiting, *next; a != NULL; a = next) {
        next = a->next;
        if (!a->in_keys && !a->in_growth)
            try_again(a);
    }
}

void assign_refuse_all(struct master_server *m)
{
    for (struct assign *a = m->waiting, *next; a != NULL; a = next) {
        next = a->next;
        stop_waiting(a);
        refuse(a, DFS_ECANCELLED, 503, "the master is stopping");
        a->done(a, DFS_ECANCELLED);
    }
}

void assign_sweep(struct master_server *m)
{
    uint64_t now_ms = loop_now_ms(m->loop);

    for (struct assign *a = m->waiting, *next; a != NULL; a = next) {
        next = a->next;
        if (a->in_growth && a->held && !volume_growth_hopeful(a->layout, &a->filter, now_ms)) {
            volume_growth_unwait(a->layout, &a->growth_wait);
            a->in_growth = false;
            try_again(a); /* with what there is */
            continue;
        }
        if (a->until_ms > now_ms)
            continue;
        refuse(a, DFS_ETIMEOUT, 503, "%s for %u s",
               a->in_keys     ? "no file ids: the state is being written"
               : a->in_growth ? "no writable volumes, volume growth in progress"
                              : "no writable volumes, waiting for volume servers",
               ASSIGN_WAIT_MS / 1000);
        stop_waiting(a);
        a->done(a, DFS_ETIMEOUT);
    }
}
