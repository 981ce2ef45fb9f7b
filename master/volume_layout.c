/* Which volumes take writes, and which one an assign gets. */
#include "master/volume_layout.h"

#include <stdlib.h>
#include <string.h>

#include "master/volume_growth.h"
#include "needle/err.h"

static uint32_t layout_bucket(struct bytes collection, struct replica_placement rp, struct ttl ttl)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < collection.n; i++)
        h = (h ^ (uint8_t)collection.p[i]) * 16777619u;
    h = (h ^ replica_placement_to_byte(rp)) * 16777619u;
    h = (h ^ ttl_to_u32(ttl)) * 16777619u;
    return h & (TOPOLOGY_LAYOUT_BUCKETS - 1);
}

struct volume_layout *volume_layout_find(struct topology *t, struct bytes collection, struct replica_placement rp,
                                         struct ttl ttl)
{
    struct volume_layout *l = t->layouts[layout_bucket(collection, rp, ttl)];

    while (l != NULL && !(bytes_eq(bytes_str(l->collection), collection) && ttl_to_u32(l->ttl) == ttl_to_u32(ttl) &&
                          replica_placement_to_byte(l->placement) == replica_placement_to_byte(rp)))
        l = l->next;
    return l;
}

int volume_layout_get(struct topology *t, struct bytes collection, struct replica_placement rp, struct ttl ttl,
                      struct volume_layout **out)
{
    struct volume_layout *l = volume_layout_find(t, collection, rp, ttl);
    uint32_t b;

    if (l == NULL) {
        if (collection.n > PLACE_NAME_MAX)
            return DFS_EINVAL;
        if (t->layout_count >= TOPOLOGY_LAYOUTS_MAX)
            return DFS_ENOSPC;
        l = calloc(1, sizeof *l);
        if (l == NULL)
            return DFS_ENOMEM;
        if (collection.n != 0)
            memcpy(l->collection, collection.p, collection.n);
        l->topology = t;
        l->placement = rp;
        l->ttl = ttl;
        b = layout_bucket(collection, rp, ttl);
        l->next = t->layouts[b];
        t->layouts[b] = l;
        t->layout_count++;
    }
    *out = l;
    return 0;
}

void volume_layout_drop_idle(struct topology *t)
{
    if (t->layout_count <= TOPOLOGY_LAYOUTS_KEPT)
        return;
    for (uint32_t i = 0; i < TOPOLOGY_LAYOUT_BUCKETS; i++) {
        for (struct volume_layout **at = &t->layouts[i]; *at != NULL;) {
            struct volume_layout *l = *at;

            if (l->volume_count > 0 || l->users > 0 || volume_growth_active(l)) {
                at = &l->next;
                continue;
            }
            *at = l->next;
            t->layout_count--;
            volume_layout_free(l);
        }
    }
}

void volume_layout_free(struct volume_layout *l)
{
    if (l == NULL)
        return;
    free(l->writable);
    free(l->lanes);
    free(l->growth); /* nothing is under way any more: the loop has ended */
    free(l);
}

/* ---- writable or not ---- */

const char *volume_layout_why_not(const struct topology *t, const struct topo_volume *v)
{
    uint64_t size = topo_volume_size(v);

    if (v->vacuuming)
        return "being vacuumed";
    if (v->replica_count < replica_placement_copies(v->layout->placement))
        return "missing copies";
    for (uint32_t i = 0; i < v->replica_count; i++)
        if (v->replicas[i].node->maintenance)
            return "in maintenance";
    for (uint32_t i = 0; i < v->replica_count; i++)
        if (v->replicas[i].read_only)
            return size >= t->size_limit_bytes ? "full" : "read-only";
    return size >= t->size_limit_bytes ? "full" : NULL;
}

/* The first replica names the lane: that one may go, or turn out to lie on another disk than was thought. */
static void stand_in_lane(struct volume_layout *l, struct topo_volume *v)
{
    const struct replica *first = &v->replicas[0];

    if (v->lane_node == first->node && v->lane_disk_id == first->disk_id)
        return;
    v->lane_node = first->node;
    v->lane_disk_id = first->disk_id;
    l->lanes_stale = true;
}

static void take_out(struct volume_layout *l, struct topo_volume *v)
{
    uint32_t i = (uint32_t)v->writable_index;

    l->writable[i] = l->writable[--l->writable_count];
    l->writable[i]->writable_index = (int32_t)i;
    v->writable_index = -1;
    l->lanes_stale = true;
}

static void put_in(struct volume_layout *l, struct topo_volume *v)
{
    if (l->writable_count == l->writable_cap) {
        uint32_t cap = l->writable_cap == 0 ? 8 : l->writable_cap * 2;
        struct topo_volume **grown = realloc(l->writable, cap * sizeof *grown);

        if (grown == NULL)
            return; /* the next report tries again */
        l->writable = grown;
        l->writable_cap = cap;
    }
    v->writable_index = (int32_t)l->writable_count;
    l->writable[l->writable_count++] = v;
    v->lane_node = NULL;
    stand_in_lane(l, v);
}

void volume_layout_update(struct topology *t, struct topo_volume *v)
{
    bool writable = volume_layout_why_not(t, v) == NULL;

    if (writable && v->writable_index < 0)
        put_in(v->layout, v);
    else if (!writable && v->writable_index >= 0)
        take_out(v->layout, v);
    else if (writable)
        stand_in_lane(v->layout, v);
}

void volume_layout_remove(struct volume_layout *l, struct topo_volume *v)
{
    if (v->writable_index >= 0)
        take_out(l, v);
}

/* ---- picking ---- */

bool place_filter_empty(const struct place_filter *f)
{
    return f->data_center.n == 0 && f->rack.n == 0 && f->data_node.n == 0;
}

bool place_filter_match(const struct place_filter *f, const struct data_node *n)
{
    return (f->data_center.n == 0 || bytes_eq(f->data_center, bytes_str(n->data_center))) &&
           (f->rack.n == 0 || bytes_eq(f->rack, bytes_str(n->rack))) &&
           (f->data_node.n == 0 || bytes_eq(f->data_node, bytes_str(n->url)) || bytes_eq(f->data_node, bytes_str(n->id)));
}

static struct layout_lane *lane_for(struct volume_layout *l, const struct topo_volume *v)
{
    for (uint32_t i = 0; i < l->lane_count; i++)
        if (l->lanes[i].node == v->lane_node && l->lanes[i].disk_id == v->lane_disk_id)
            return &l->lanes[i];
    return NULL;
}

/* One lane for each disk location that has a writable volume.  Runs in progress end here, which costs no more than a shorter
 * run: this happens only when the set of writable volumes changes. */
static void rebuild_lanes(struct volume_layout *l)
{
    l->lane_count = 0;
    l->lanes_stale = false;
    for (uint32_t i = 0; i < l->writable_count; i++) {
        const struct topo_volume *v = l->writable[i];

        if (lane_for(l, v) != NULL)
            continue;
        if (l->lane_count == l->lane_cap) {
            uint32_t cap = l->lane_cap == 0 ? 4 : l->lane_cap * 2;
            struct layout_lane *grown = cap <= LAYOUT_LANES_MAX ? realloc(l->lanes, cap * sizeof *grown) : NULL;

            if (grown == NULL)
                return; /* the volumes of the lanes that exist still serve */
            l->lanes = grown;
            l->lane_cap = cap;
        }
        l->lanes[l->lane_count++] =
            (struct layout_lane){.node = v->lane_node, .disk_id = v->lane_disk_id};
    }
}

/* Full once what was handed out has arrived.  Such a volume stays writable, since ids may never be used, but others go first. */
static bool nearly_full(const struct topo_volume *v)
{
    uint64_t limit = v->layout->topology->size_limit_bytes;

    return topo_volume_size(v) + v->outstanding_bytes >= limit - limit / 16;
}

/* Whether a is the better choice for the next run of ids. */
static bool better(const struct topo_volume *a, const struct topo_volume *b)
{
    if (b == NULL || nearly_full(a) != nearly_full(b))
        return b == NULL || !nearly_full(a);
    if (a->outstanding_bytes != b->outstanding_bytes)
        return a->outstanding_bytes < b->outstanding_bytes;
    return topo_volume_size(a) < topo_volume_size(b);
}

static struct topo_volume *least_outstanding(struct volume_layout *l, const struct layout_lane *lane)
{
    struct topo_volume *best = NULL;

    for (uint32_t i = 0; i < l->writable_count; i++) {
        struct topo_volume *v = l->writable[i];

        if (v->lane_node != lane->node || v->lane_disk_id != lane->disk_id)
            continue;
        if (better(v, best))
            best = v;
    }
    return best;
}

/* The lane's volume for the next ids; a run ends early when its volume is nearly full. */
static struct topo_volume *lane_volume(struct volume_layout *l, struct layout_lane *lane, uint64_t now_ms)
{
    if (lane->current == NULL || lane->left == 0 || now_ms >= lane->until_ms || nearly_full(lane->current)) {
        lane->current = least_outstanding(l, lane);
        lane->left = LAYOUT_RUN_IDS;
        lane->until_ms = now_ms + LAYOUT_RUN_MS;
    }
    return lane->current;
}

static struct topo_volume *pick_anywhere(struct volume_layout *l, uint64_t count, uint64_t now_ms)
{
    struct layout_lane *lane = NULL;

    if (l->lanes_stale)
        rebuild_lanes(l);
    for (uint32_t i = 0; i < l->lane_count; i++) {
        lane = &l->lanes[l->turn++ % l->lane_count];
        if (!nearly_full(lane_volume(l, lane, now_ms)))
            break;
    }
    if (lane == NULL)
        return NULL;
    lane->left -= count < lane->left ? (uint32_t)count : lane->left;
    return lane->current;
}

static bool volume_matches(const struct topo_volume *v, const struct place_filter *f)
{
    for (uint32_t i = 0; i < v->replica_count; i++)
        if (place_filter_match(f, v->replicas[i].node))
            return true;
    return false;
}

static struct topo_volume *pick_matching(struct volume_layout *l, const struct place_filter *f)
{
    struct topo_volume *best = NULL;

    for (uint32_t i = 0; i < l->writable_count; i++) {
        struct topo_volume *v = l->writable[i];

        if (volume_matches(v, f) && better(v, best))
            best = v;
    }
    return best;
}

/* What one more id will bring, by what the volume holds. */
static uint64_t average_bytes(const struct topo_volume *v)
{
    const struct replica *r = &v->replicas[0];

    return r->file_count != 0 ? r->size_bytes / r->file_count : LAYOUT_EXPECTED_BYTES;
}

struct topo_volume *volume_layout_pick(struct volume_layout *l, const struct place_filter *f, uint64_t count,
                                       uint64_t expected_bytes, uint64_t now_ms)
{
    struct topo_volume *v = place_filter_empty(f) ? pick_anywhere(l, count, now_ms) : pick_matching(l, f);
    uint64_t each, sum;

    if (v == NULL)
        return NULL;
    each = expected_bytes != 0 ? expected_bytes : average_bytes(v);
    if (__builtin_mul_overflow(each, count, &sum) || __builtin_add_overflow(v->outstanding_bytes, sum, &sum))
        sum = UINT64_MAX / 2;
    v->outstanding_bytes = sum;
    return v;
}

bool volume_layout_crowded(const struct volume_layout *l, uint64_t size_limit_bytes)
{
    for (uint32_t i = 0; i < l->writable_count; i++) {
        const struct topo_volume *v = l->writable[i];

        if (topo_volume_size(v) + v->outstanding_bytes < size_limit_bytes - size_limit_bytes / 10)
            return false;
    }
    return true;
}

int volume_layout_each(struct topology *t, int (*fn)(struct volume_layout *l, void *arg), void *arg)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < TOPOLOGY_LAYOUT_BUCKETS; i++)
        for (struct volume_layout *l = t->layouts[i]; rc == 0 && l != NULL; l = l->next)
            rc = fn(l, arg);
    return rc;
}
