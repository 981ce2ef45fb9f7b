/* Growth: place (volume_place.c), number, allocate, register. */
#include "master/volume_growth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "needle/superblock.h"
#include "net/log.h"
#include "net/pb/volume.pb-c.h"

struct volume_growth {
    struct grower *grower;
    struct volume_layout *layout;
    uint32_t wanted, made, pending;
    bool active; /* between start and end */
    bool filtered; /* it looked not everywhere */
    uint64_t started_ms;
    uint64_t hopeless_ms[2]; /* until when no other is tried: [0] anywhere, [1] in some places */
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
    if (g->made == 0)
        g->hopeless_ms[g->filtered] = loop_now_ms(g->grower->loop) + GROWTH_HOPELESS_MS;
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
    g->filtered = !place_filter_empty(&r->filter);
    g->started_ms = loop_now_ms(grower->loop);
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
    } else {
        g->hopeless_ms[g->filtered] = g->started_ms + GROWTH_HOPELESS_MS;
    }
    return rc;
}

bool volume_growth_active(const struct volume_layout *l)
{
    return l->growth != NULL && l->growth->active;
}

bool volume_growth_hopeful(const struct volume_layout *l, const struct place_filter *f, uint64_t now_ms)
{
    const struct volume_growth *g = l->growth;

    if (g == NULL)
        return true;
    if (g->active)
        return now_ms < g->started_ms + GROWTH_SLOW_MS;
    return now_ms >= g->hopeless_ms[0] && (place_filter_empty(f) || now_ms >= g->hopeless_ms[1]);
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
