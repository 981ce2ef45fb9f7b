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

enum room_class { ROOMY, GUESSED_FULL, FULL };

struct rank {
    enum room_class class;
    uint64_t expected_bytes, size_bytes;
};

/* What the volume will hold, at worst by what is known. */
static uint64_t will_hold(const struct topo_volume *v)
{
    const struct volume_layout *l = v->layout;

    return topo_volume_size(v) + volume_room_expected(&v->room, &l->sizes) +
           volume_room_doubt(&v->room, &l->sizes, l->topology->size_limit_bytes);
}

/* more_bytes: what the ids asked for bring ahead of the last one, which may itself pass the limit. */
static struct rank rank_of(const struct topo_volume *v, uint64_t more_bytes)
{
    uint64_t limit = v->layout->topology->size_limit_bytes, size = topo_volume_size(v);
    struct rank r = {.expected_bytes = volume_room_expected(&v->room, &v->layout->sizes), .size_bytes = size};

    if (will_hold(v) + more_bytes < limit - limit / 16)
        return r;
    /* A server tells at once when a volume enters its last quarter: one that has not is full only by estimate. */
    r.class = size < limit - limit / 4 ? GUESSED_FULL : FULL;
    r.expected_bytes += size;
    return r;
}

static bool roomy(const struct topo_volume *v, uint64_t more_bytes)
{
    return rank_of(v, more_bytes).class == ROOMY;
}

/* Whether a is the better choice for the next run of ids. */
static bool before(const struct rank *a, const struct rank *b)
{
    if (a->class != b->class)
        return a->class < b->class;
    if (a->expected_bytes != b->expected_bytes)
        return a->expected_bytes < b->expected_bytes;
    return a->size_bytes < b->size_bytes;
}

/* Of those that a walk has come to. */
struct best {
    struct topo_volume *volume;
    struct rank rank;
};

static void consider(struct best *best, struct topo_volume *v, uint64_t more_bytes)
{
    struct rank r = rank_of(v, more_bytes);

    if (best->volume == NULL || before(&r, &best->rank))
        *best = (struct best){v, r};
}

static struct best best_of_lane(struct volume_layout *l, const struct layout_lane *lane, uint64_t more_bytes)
{
    struct best best = {0};

    for (uint32_t i = 0; i < l->writable_count; i++) {
        struct topo_volume *v = l->writable[i];

        if (v->lane_node == lane->node && v->lane_disk_id == lane->disk_id)
            consider(&best, v, more_bytes);
    }
    return best;
}

/* The lane's volume for the next ids; a run ends early when its volume is no longer roomy, unless it began so. */
static struct topo_volume *lane_volume(struct volume_layout *l, struct layout_lane *lane, uint64_t more_bytes, uint64_t now_ms)
{
    if (lane->current == NULL || lane->left == 0 || now_ms >= lane->until_ms ||
        (!lane->held && !roomy(lane->current, more_bytes))) {
        struct best best = best_of_lane(l, lane, more_bytes);

        lane->current = best.volume;
        lane->held = best.rank.class != ROOMY;
        lane->left = LAYOUT_RUN_IDS;
        lane->until_ms = now_ms + LAYOUT_RUN_MS;
    }
    return lane->current;
}

/* What is wanted of a volume. */
struct wish {
    const struct place_filter *filter;
    uint64_t count, more_bytes, now_ms;
    bool roomy_only;
};

static struct topo_volume *pick_anywhere(struct volume_layout *l, const struct wish *w)
{
    struct layout_lane *chosen = NULL;
    struct rank least = {0};

    if (l->lanes_stale)
        rebuild_lanes(l);
    for (uint32_t i = 0; i < l->lane_count; i++) {
        struct layout_lane *lane = &l->lanes[l->turn++ % l->lane_count];
        struct rank r = rank_of(lane_volume(l, lane, w->more_bytes, w->now_ms), w->more_bytes);

        if (chosen == NULL || before(&r, &least)) {
            chosen = lane;
            least = r;
        }
        if (r.class == ROOMY)
            break;
    }
    if (chosen == NULL || (w->roomy_only && least.class != ROOMY))
        return NULL;
    chosen->left -= w->count < chosen->left ? (uint32_t)w->count : chosen->left;
    return chosen->current;
}

static bool volume_matches(const struct topo_volume *v, const struct place_filter *f)
{
    for (uint32_t i = 0; i < v->replica_count; i++)
        if (place_filter_match(f, v->replicas[i].node))
            return true;
    return false;
}

static struct topo_volume *pick_matching(struct volume_layout *l, const struct wish *w)
{
    struct best best = {0};

    for (uint32_t i = 0; i < l->writable_count; i++)
        if (volume_matches(l->writable[i], w->filter))
            consider(&best, l->writable[i], w->more_bytes);
    return w->roomy_only && best.rank.class != ROOMY ? NULL : best.volume;
}

static struct topo_volume *pick(struct volume_layout *l, struct wish *w, uint64_t expected_bytes)
{
    uint64_t each = expected_bytes != 0 ? expected_bytes : room_each_bytes(&l->sizes);
    uint64_t half = l->topology->size_limit_bytes / 2;
    struct topo_volume *v;

    /* More than a volume holds goes to one that is half empty at least. */
    if (w->count > 1 && (__builtin_mul_overflow(each, w->count - 1, &w->more_bytes) || w->more_bytes > half))
        w->more_bytes = half;
    v = place_filter_empty(w->filter) ? pick_anywhere(l, w) : pick_matching(l, w);
    if (v != NULL)
        volume_room_hand_out(&v->room, &l->sizes, w->count, expected_bytes);
    return v;
}

struct topo_volume *volume_layout_pick(struct volume_layout *l, const struct place_filter *f, uint64_t count,
                                       uint64_t expected_bytes, uint64_t now_ms)
{
    struct wish w = {.filter = f, .count = count, .now_ms = now_ms};

    return pick(l, &w, expected_bytes);
}

struct topo_volume *volume_layout_pick_roomy(struct volume_layout *l, const struct place_filter *f, uint64_t count,
                                             uint64_t expected_bytes, uint64_t now_ms)
{
    struct wish w = {.filter = f, .count = count, .now_ms = now_ms, .roomy_only = true};

    return pick(l, &w, expected_bytes);
}

/* ---- growing ---- */

static bool crowded(const struct topo_volume *v)
{
    uint64_t limit = v->layout->topology->size_limit_bytes;
    uint64_t ahead = LAYOUT_AHEAD_BYTES < limit / 4 ? LAYOUT_AHEAD_BYTES : limit / 4;

    return will_hold(v) >= limit - (ahead > limit / 10 ? ahead : limit / 10);
}

bool volume_layout_crowded(struct volume_layout *l, const struct place_filter *f)
{
    uint32_t n = l->writable_count;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (l->uncrowded + i) % n;

        if (crowded(l->writable[at]) || !volume_matches(l->writable[at], f))
            continue;
        l->uncrowded = at;
        return false;
    }
    return true;
}

bool volume_layout_worth_growing(const struct volume_layout *l, const struct place_filter *f)
{
    uint32_t matching = 0, guessed = 0;

    for (uint32_t i = 0; i < l->writable_count; i++) {
        if (!volume_matches(l->writable[i], f))
            continue;
        matching++;
        guessed += rank_of(l->writable[i], 0).class == GUESSED_FULL;
    }
    return matching > 0 && (guessed <= LAYOUT_GUESSED_MAX || room_sizes_trusted(&l->sizes));
}

int volume_layout_each(struct topology *t, int (*fn)(struct volume_layout *l, void *arg), void *arg)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < TOPOLOGY_LAYOUT_BUCKETS; i++)
        for (struct volume_layout *l = t->layouts[i]; rc == 0 && l != NULL; l = l->next)
            rc = fn(l, arg);
    return rc;
}
