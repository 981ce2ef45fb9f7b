/* Growth: place, number, allocate, register. */
#include "master/volume_growth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "needle/superblock.h"
#include "net/log.h"
#include "net/pb/volume.pb-c.h"
#include "net/rand.h"

/* ---- placement ---- */

struct placing {
    struct grower *grower;
    const struct place_filter *filter;
    uint64_t now_ms;
    struct data_node **chosen;
    uint32_t count;
};

static bool chosen_already(const struct placing *p, const struct data_node *n)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->chosen[i] == n)
            return true;
    return false;
}

static bool host_taken(const struct placing *p, const struct data_node *n)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (strcmp(p->chosen[i]->addr.host, n->addr.host) == 0)
            return true;
    return false;
}

static bool usable(const struct placing *p, const struct data_node *n)
{
    return data_node_free_slots(n) > 0 && n->reachable && n->backoff_until_ms <= p->now_ms && !chosen_already(p, n);
}

enum place_rule { MAIN_SERVER, SAME_RACK, OTHER_RACK, OTHER_DATA_CENTER };

static bool same_data_center(const struct data_node *a, const struct data_node *b)
{
    return strcmp(a->data_center, b->data_center) == 0;
}

static bool same_rack(const struct data_node *a, const struct data_node *b)
{
    return same_data_center(a, b) && strcmp(a->rack, b->rack) == 0;
}

/* Racks and data centers must each be one of their own among the copies placed there. */
static bool allowed(const struct placing *p, const struct data_node *n, enum place_rule rule)
{
    const struct data_node *first = p->chosen[0];

    CHECK(rule == MAIN_SERVER || p->count > 0);
    switch (rule) {
    case MAIN_SERVER:
        return place_filter_match(p->filter, n);
    case SAME_RACK:
        return same_rack(first, n);
    case OTHER_RACK:
        for (uint32_t i = 0; i < p->count; i++)
            if (same_rack(p->chosen[i], n))
                return false;
        return same_data_center(first, n);
    case OTHER_DATA_CENTER:
        for (uint32_t i = 0; i < p->count; i++)
            if (same_data_center(p->chosen[i], n))
                return false;
        return true;
    }
    return false;
}

/* One more server by the rule, at random, weighted by free slots; servers on hosts that have no copy yet go first. */
static bool choose(struct placing *p, enum place_rule rule)
{
    struct data_node *pick = NULL;
    uint64_t weight = 0;
    bool fresh_host = false;

    for (struct data_node *n = p->grower->topology->nodes; n != NULL; n = n->next) {
        bool fresh;
        uint64_t w;

        if (!usable(p, n) || !allowed(p, n, rule))
            continue;
        fresh = !host_taken(p, n);
        if (fresh_host && !fresh)
            continue;
        if (fresh && !fresh_host) {
            fresh_host = true;
            weight = 0;
        }
        w = data_node_free_slots(n);
        weight += w;
        if (rand_u64() % weight < w)
            pick = n;
    }
    if (pick == NULL)
        return false;
    p->chosen[p->count++] = pick;
    return true;
}

static bool choose_all(struct placing *p, struct replica_placement rp)
{
    if (!choose(p, MAIN_SERVER))
        return false;
    for (unsigned i = 0; i < rp.same_rack; i++)
        if (!choose(p, SAME_RACK))
            return false;
    for (unsigned i = 0; i < rp.other_racks; i++)
        if (!choose(p, OTHER_RACK))
            return false;
    for (unsigned i = 0; i < rp.other_data_centers; i++)
        if (!choose(p, OTHER_DATA_CENTER))
            return false;
    return true;
}

/* Different places among servers, counted as far as a placement can ask for. */
struct place_count {
    const struct data_node *seen[GROWTH_COPIES_MAX];
    uint32_t count;
};

static void count_place(struct place_count *c, const struct data_node *n, bool by_rack)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->seen[i]->data_center, n->data_center) == 0 && (!by_rack || strcmp(c->seen[i]->rack, n->rack) == 0))
            return;
    if (c->count < GROWTH_COPIES_MAX)
        c->seen[c->count++] = n;
}

/* What was looked at and why each fell out. */
static void explain(const struct placing *p, struct replica_placement rp, char *reason, size_t cap)
{
    uint32_t up = 0, down = 0, full = 0, elsewhere = 0, resting = 0;
    struct place_count centers = {.count = 0}, racks = {.count = 0};
    const char *error = "";
    char rp_text[4];

    for (struct data_node *n = p->grower->topology->nodes; n != NULL; n = n->next) {
        if (!n->up) {
            down++;
            continue;
        }
        up++;
        if (data_node_free_slots(n) == 0)
            full++;
        else if (!place_filter_match(p->filter, n))
            elsewhere++;
        else if (!n->reachable || n->backoff_until_ms > p->now_ms) {
            resting++;
            error = n->reachable ? n->last_error : "its name cannot be looked up";
        } else {
            count_place(&centers, n, false);
            count_place(&racks, n, true);
        }
    }
    replica_placement_format(rp, rp_text);
    snprintf(reason, cap,
             "no free volumes: of %u volume server%s up %u had no free slot, %u were in another place than asked for, %u had "
             "just failed to make one%s%s%s, %u more down; the rest stand in %u rack%s of %u data center%s; replication %s needs "
             "%u with free slots: 1 and %u more in its rack, %u in other racks, %u in other data centers; add servers or disks, "
             "raise -max, or free volumes",
             up, up == 1 ? "" : "s", full, elsewhere, resting, error[0] != '\0' ? " (" : "", error,
             error[0] != '\0' ? ")" : "", down, racks.count, racks.count == 1 ? "" : "s", centers.count,
             centers.count == 1 ? "" : "s", rp_text, replica_placement_copies(rp), rp.same_rack, rp.other_racks,
             rp.other_data_centers);
}

int volume_growth_place(struct grower *g, struct replica_placement rp, const struct place_filter *f,
                        struct data_node *out[GROWTH_COPIES_MAX], uint32_t *count, char *reason, size_t cap)
{
    struct placing p = {.grower = g, .filter = f, .now_ms = loop_now_ms(g->loop), .chosen = out};
    unsigned copies = replica_placement_copies(rp);

    if (copies > GROWTH_COPIES_MAX)
        return DFS_EINVAL;
    /* A random main server may stand where the rest cannot be met though another could: several tries, then the verdict. */
    for (int tries = 0; tries < 32; tries++) {
        p.count = 0;
        if (choose_all(&p, rp)) {
            *count = copies;
            return 0;
        }
    }
    explain(&p, rp, reason, cap);
    return DFS_ENOSPC;
}

/* ---- one growth ---- */

struct volume_growth {
    struct grower *grower;
    struct volume_layout *layout;
    uint32_t wanted, made, pending;
    bool active; /* between start and end */
    struct growth_waiter *waiters;
    char trouble[512];
};

/* One volume of it, on its way to every server. */
struct allocation {
    struct volume_growth *growth;
    struct sequencer_waiter numbered;
    struct data_node *nodes[GROWTH_COPIES_MAX];
    bool worked[GROWTH_COPIES_MAX];
    uint32_t count, pending;
    uint32_t volume_id;
    uint64_t preallocate_bytes;
    bool failed;
};

struct allocate_call {
    struct allocation *allocation;
    uint32_t index;
};

static void end_growth(struct volume_growth *g)
{
    struct growth_waiter *w = g->waiters;

    g->active = false;
    g->waiters = NULL;
    g->layout->grown_ms = loop_now_ms(g->grower->loop);
    if (g->made < g->wanted && g->trouble[0] != '\0')
        log_warning("made %u of %u volumes for collection '%s': %s", g->made, g->wanted, g->layout->collection, g->trouble);
    while (w != NULL) {
        struct growth_waiter *next = w->next;

        w->fn(w);
        w = next;
    }
}

static void on_removed(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    (void)arg;
    (void)status;
    (void)message;
    (void)response;
}

/* Copies of a volume that could not be made everywhere are taken back; the number is burnt. */
static void undo(struct allocation *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        VolumeServerPb__VolumeDeleteRequest req = VOLUME_SERVER_PB__VOLUME_DELETE_REQUEST__INIT;
        struct grpc_channel *ch;

        if (!a->worked[i] || data_node_channel(a->nodes[i], a->growth->grower->loop, &ch) != 0)
            continue;
        req.volume_id = a->volume_id;
        req.only_empty = true;
        grpc_unary(ch, "/volume_server_pb.VolumeServer/VolumeDelete", &req.base,
                   &volume_server_pb__volume_delete_response__descriptor, GROWTH_ALLOCATE_TIMEOUT_MS, on_removed, NULL);
    }
}

static void register_volume(struct allocation *a)
{
    struct volume_layout *l = a->growth->layout;
    struct volume_report r = {
        .id = a->volume_id,
        .collection = bytes_str(l->collection),
        .placement = l->placement,
        .ttl = l->ttl,
        .version = NEEDLE_V3,
        .size_bytes = SUPERBLOCK_BYTES,
        .fresh = true,
    };

    for (uint32_t i = 0; i < a->count; i++) {
        int rc = a->nodes[i]->up ? topology_report(a->growth->grower->topology, a->nodes[i], &r) : 0;

        if (rc != 0)
            log_error("cannot register volume %u at %s: %s", a->volume_id, a->nodes[i]->url, dfs_err_text(rc));
    }
}

static void finish_allocation(struct allocation *a)
{
    struct volume_growth *g = a->growth;

    for (uint32_t i = 0; i < a->count; i++)
        a->nodes[i]->pending_volumes--;
    if (a->failed) {
        g->grower->failed++;
        undo(a);
    } else {
        g->grower->created++;
        g->made++;
        register_volume(a);
    }
    free(a);
    if (--g->pending == 0)
        end_growth(g);
}

static void on_allocated(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    struct allocate_call *c = arg;
    struct allocation *a = c->allocation;
    struct data_node *n = a->nodes[c->index];

    (void)response;
    if (status == GRPC_OK) {
        a->worked[c->index] = true;
        data_node_allocation_worked(n);
    } else {
        char why[sizeof n->url + 128];

        a->failed = true;
        snprintf(why, sizeof why, "%s: %.*s", n->url, (int)(message.n < 120 ? message.n : 120),
                 message.n != 0 ? message.p : "");
        data_node_allocation_failed(n, loop_now_ms(a->growth->grower->loop), why);
        snprintf(a->growth->trouble, sizeof a->growth->trouble, "cannot make volume %u at %s", a->volume_id, why);
    }
    free(c);
    if (--a->pending == 0)
        finish_allocation(a);
}

static int call_allocate(struct allocation *a, uint32_t i, const char *replication, const char *ttl)
{
    VolumeServerPb__AllocateVolumeRequest req = VOLUME_SERVER_PB__ALLOCATE_VOLUME_REQUEST__INIT;
    struct allocate_call *c = malloc(sizeof *c);
    struct grpc_channel *ch;
    int rc = c == NULL ? DFS_ENOMEM : data_node_channel(a->nodes[i], a->growth->grower->loop, &ch);

    if (rc == 0) {
        *c = (struct allocate_call){a, i};
        req.volume_id = a->volume_id;
        req.collection = a->growth->layout->collection;
        req.preallocate = (int64_t)a->preallocate_bytes;
        req.replication = (char *)(uintptr_t)replication;
        req.ttl = (char *)(uintptr_t)ttl;
        req.version = NEEDLE_V3;
        rc = grpc_unary(ch, "/volume_server_pb.VolumeServer/AllocateVolume", &req.base,
                        &volume_server_pb__allocate_volume_response__descriptor, GROWTH_ALLOCATE_TIMEOUT_MS, on_allocated, c);
    }
    if (rc != 0)
        free(c);
    return rc;
}

/* The number is on the disk: it may be used. */
static void on_numbered(struct sequencer_waiter *w, int rc)
{
    struct allocation *a = CONTAINER_OF(w, struct allocation, numbered);
    char replication[4], ttl[TTL_TEXT_MAX];

    replica_placement_format(a->growth->layout->placement, replication);
    ttl_format(a->growth->layout->ttl, ttl);
    a->pending = 1;
    for (uint32_t i = 0; rc == 0 && i < a->count; i++) {
        a->pending++;
        rc = call_allocate(a, i, replication, ttl);
        if (rc != 0)
            a->pending--;
    }
    if (rc != 0) {
        const char *why = sequencer_trouble(a->growth->grower->sequencer);

        a->failed = true;
        snprintf(a->growth->trouble, sizeof a->growth->trouble, "cannot make volume %u: %.400s", a->volume_id,
                 why[0] != '\0' ? why : dfs_err_text(rc));
    }
    if (--a->pending == 0)
        finish_allocation(a);
}

/* Places one volume and asks for its number. */
static int begin_allocation(struct volume_growth *g, const struct growth_request *r, char *reason, size_t cap)
{
    struct allocation *a = calloc(1, sizeof *a);
    int rc;

    if (a == NULL)
        return DFS_ENOMEM;
    rc = volume_growth_place(g->grower, r->layout->placement, &r->filter, a->nodes, &a->count, reason, cap);
    if (rc != 0) {
        free(a);
        return rc;
    }
    a->growth = g;
    a->preallocate_bytes = r->preallocate_bytes != 0 ? r->preallocate_bytes : g->grower->preallocate_bytes;
    a->numbered.fn = on_numbered;
    for (uint32_t i = 0; i < a->count; i++)
        a->nodes[i]->pending_volumes++;
    g->pending++;
    a->volume_id = sequencer_volume_id(g->grower->sequencer, &a->numbered);
    if (a->volume_id != 0)
        return 0;
    g->pending--;
    for (uint32_t i = 0; i < a->count; i++)
        a->nodes[i]->pending_volumes--;
    free(a);
    snprintf(reason, cap, "all volume ids are used up");
    return DFS_ENOSPC;
}

static uint32_t usual_step(const struct grower *g, const struct volume_layout *l)
{
    unsigned copies = replica_placement_copies(l->placement);

    if (g->step != 0)
        return g->step;
    return g->step_by_copies[copies <= 3 ? copies - 1 : 3];
}

static void add_waiter(struct volume_growth *g, struct growth_waiter *w)
{
    struct growth_waiter **at = &g->waiters;

    if (w == NULL)
        return;
    while (*at != NULL)
        at = &(*at)->next;
    w->next = NULL;
    *at = w;
}

int volume_growth_start(struct grower *grower, const struct growth_request *r, struct growth_waiter *w, char *reason, size_t cap)
{
    struct volume_growth *g = r->layout->growth;
    int rc = 0;

    if (g == NULL) {
        g = calloc(1, sizeof *g);
        if (g == NULL)
            return DFS_ENOMEM;
        g->grower = grower;
        g->layout = r->layout;
        r->layout->growth = g;
    }
    if (g->active) {
        add_waiter(g, w);
        return 0;
    }
    g->made = 0;
    g->trouble[0] = '\0';
    g->wanted = r->count == 0 ? usual_step(grower, r->layout) : r->count < GROWTH_VOLUMES_MAX ? r->count : GROWTH_VOLUMES_MAX;
    /* Fewer than the step is fine: whatever the slots allow, one at least. */
    for (uint32_t i = 0; rc == 0 && i < g->wanted; i++) {
        rc = begin_allocation(g, r, reason, cap);
        if (rc != 0 && i > 0) {
            g->wanted = r->count != 0 ? g->wanted : i;
            snprintf(g->trouble, sizeof g->trouble, "%s", reason);
            rc = 0;
            break;
        }
    }
    if (rc == 0) {
        g->active = true;
        add_waiter(g, w);
    }
    return rc;
}

bool volume_growth_active(const struct volume_layout *l)
{
    return l->growth != NULL && l->growth->active;
}

void volume_growth_unwait(struct volume_layout *l, struct growth_waiter *w)
{
    struct growth_waiter **at;

    if (l->growth == NULL)
        return;
    for (at = &l->growth->waiters; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            return;
        }
    }
}

uint32_t volume_growth_made(const struct volume_layout *l)
{
    return l->growth != NULL ? l->growth->made : 0;
}

const char *volume_growth_trouble(const struct volume_layout *l)
{
    return l->growth != NULL ? l->growth->trouble : "";
}
