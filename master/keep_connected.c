/* KeepConnected: clients that want to be told where volumes are, as it changes.
 *
 * The first message carries `leader`, then one for each server with all its volumes; afterwards a message for each change.
 * A client that reads too slowly is dropped, never waited for. */
#include <stdlib.h>
#include <string.h>

#include "master/master.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/grpc.h"
#include "net/log.h"
#include "net/pb/master.pb-c.h"

#define SUBSCRIBERS_MAX 10000u
#define SUBSCRIBER_PENDING_MAX (8u * 1024u * 1024u)

struct subscriber {
    struct master_server *master;
    struct grpc_call *call;
    char type[64], address[ADDR_TEXT_MAX], version[64], filer_group[64];
    int64_t since_ns;
    bool greeted, dropped;
    struct subscriber *next, *prev;
};

/* A client that misses one message would keep a wrong map for good: it is dropped and comes back for all of it. */
static void drop(struct subscriber *s, const char *why)
{
    s->dropped = true;
    s->master->counts[COUNT_BROADCAST_FULL]++;
    log_warning("client %s (%s) is not told any more where volumes are: %s", grpc_call_peer(s->call), s->type, why);
    grpc_call_cancel(s->call);
}

static void send_to(struct subscriber *s, const ProtobufCMessage *message)
{
    int rc;

    if (s->dropped)
        return;
    if (grpc_call_pending_bytes(s->call) > SUBSCRIBER_PENDING_MAX) {
        drop(s, "it does not read");
        return;
    }
    rc = grpc_call_send(s->call, message);
    if (rc != 0 && rc != DFS_ECLOSED)
        drop(s, dfs_err_text(rc));
}

static void describe_node(MasterPb__VolumeLocation *l, const struct data_node *n)
{
    l->url = (char *)(uintptr_t)n->url;
    l->public_url = (char *)(uintptr_t)n->public_url;
    l->data_center = (char *)(uintptr_t)n->data_center;
    l->grpc_port = n->addr.grpc_port;
}

static void send_leader(struct subscriber *s)
{
    MasterPb__KeepConnectedResponse resp = MASTER_PB__KEEP_CONNECTED_RESPONSE__INIT;
    MasterPb__VolumeLocation l = MASTER_PB__VOLUME_LOCATION__INIT;

    l.leader = s->master->self_grpc;
    resp.volume_location = &l;
    send_to(s, &resp.base);
}

static void send_node(struct subscriber *s, const struct data_node *n)
{
    MasterPb__KeepConnectedResponse resp = MASTER_PB__KEEP_CONNECTED_RESPONSE__INIT;
    MasterPb__VolumeLocation l = MASTER_PB__VOLUME_LOCATION__INIT;
    uint32_t *ids = malloc(((size_t)n->volume_count + 1) * sizeof *ids);

    if (ids == NULL) {
        drop(s, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < n->volume_count; i++)
        ids[i] = n->volumes[i]->id;
    describe_node(&l, n);
    l.new_vids = ids;
    l.n_new_vids = n->volume_count;
    resp.volume_location = &l;
    send_to(s, &resp.base);
    free(ids);
}

static void send_cluster_node(struct subscriber *to, const struct subscriber *about, bool added)
{
    MasterPb__KeepConnectedResponse resp = MASTER_PB__KEEP_CONNECTED_RESPONSE__INIT;
    MasterPb__ClusterNodeUpdate u = MASTER_PB__CLUSTER_NODE_UPDATE__INIT;

    u.node_type = (char *)(uintptr_t)about->type;
    u.address = (char *)(uintptr_t)about->address;
    u.filer_group = (char *)(uintptr_t)about->filer_group;
    u.is_add = added;
    u.created_at_ns = about->since_ns;
    resp.cluster_node_update = &u;
    send_to(to, &resp.base);
}

/* Filers want to know of each other, and which of them hold locks. */
static void announce_filer(struct subscriber *s, bool added)
{
    MasterPb__KeepConnectedResponse resp = MASTER_PB__KEEP_CONNECTED_RESPONSE__INIT;
    MasterPb__LockRingUpdate ring = MASTER_PB__LOCK_RING_UPDATE__INIT;
    char *servers[256];

    if (strcmp(s->type, "filer") != 0)
        return;
    ring.filer_group = s->filer_group;
    ring.servers = servers;
    ring.version = (int64_t)clock_wall_ns();
    for (struct subscriber *o = s->master->subscribers; o != NULL; o = o->next)
        if (strcmp(o->type, "filer") == 0 && strcmp(o->filer_group, s->filer_group) == 0 && (added || o != s) &&
            ring.n_servers < 256)
            servers[ring.n_servers++] = o->address;
    resp.lock_ring_update = &ring;
    for (struct subscriber *o = s->master->subscribers; o != NULL; o = o->next) {
        if (!o->greeted || strcmp(o->filer_group, s->filer_group) != 0)
            continue;
        if (o != s)
            send_cluster_node(o, s, added);
        if (strcmp(o->type, "filer") == 0)
            send_to(o, &resp.base);
    }
}

static void greet(struct subscriber *s)
{
    s->greeted = true;
    send_leader(s);
    for (const struct data_node *n = s->master->topology.nodes; n != NULL; n = n->next)
        if (n->up)
            send_node(s, n);
    for (const struct subscriber *o = s->master->subscribers; o != NULL; o = o->next)
        if (strcmp(o->type, "filer") == 0 && o->address[0] != '\0')
            send_cluster_node(s, o, true);
    announce_filer(s, true);
}

static void on_open(struct grpc_call *call)
{
    struct master_server *m = grpc_call_server_arg(call);
    struct subscriber *s;

    if (m->subscriber_count >= SUBSCRIBERS_MAX) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "too many clients are connected");
        return;
    }
    s = calloc(1, sizeof *s);
    if (s == NULL) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    s->master = m;
    s->call = call;
    s->since_ns = (int64_t)clock_wall_ns();
    s->next = m->subscribers;
    if (s->next != NULL)
        s->next->prev = s;
    m->subscribers = s;
    m->subscriber_count++;
    grpc_call_set_user(call, s);
}

/* Printable and short, since it goes on to other clients, who refuse a whole message for one bad text. */
static void keep_text(char *out, size_t cap, const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~')
            return;
    if (n < cap)
        memcpy(out, text, n + 1);
}

static void on_message(struct grpc_call *call, struct bytes message)
{
    struct subscriber *s = grpc_call_user(call);
    MasterPb__KeepConnectedRequest *req;

    if (s == NULL || s->greeted)
        return; /* later messages repeat who they are */
    req = (MasterPb__KeepConnectedRequest *)grpc_unpack(&master_pb__keep_connected_request__descriptor, message);
    if (req == NULL) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "this is no KeepConnectedRequest");
        return;
    }
    keep_text(s->type, sizeof s->type, req->client_type);
    keep_text(s->address, sizeof s->address, req->client_address);
    keep_text(s->version, sizeof s->version, req->version);
    keep_text(s->filer_group, sizeof s->filer_group, req->filer_group);
    protobuf_c_message_free_unpacked(&req->base, NULL);
    greet(s);
}

static void on_half_close(struct grpc_call *call)
{
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void on_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct subscriber *s = grpc_call_user(call);

    (void)status;
    (void)message;
    if (s == NULL)
        return;
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        s->master->subscribers = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    s->master->subscriber_count--;
    if (s->greeted)
        announce_filer(s, false);
    free(s);
}

const struct grpc_call_ops keep_connected_ops = {
    .on_open = on_open,
    .on_message = on_message,
    .on_half_close = on_half_close,
    .on_closed = on_closed,
};

void keep_connected_location(struct master_server *m, const struct data_node *n, uint32_t volume_id, bool added)
{
    MasterPb__KeepConnectedResponse resp = MASTER_PB__KEEP_CONNECTED_RESPONSE__INIT;
    MasterPb__VolumeLocation l = MASTER_PB__VOLUME_LOCATION__INIT;

    describe_node(&l, n);
    if (added) {
        l.new_vids = &volume_id;
        l.n_new_vids = 1;
    } else {
        l.deleted_vids = &volume_id;
        l.n_deleted_vids = 1;
    }
    resp.volume_location = &l;
    for (struct subscriber *s = m->subscribers; s != NULL; s = s->next)
        if (s->greeted)
            send_to(s, &resp.base);
}

void keep_connected_cluster_nodes(struct master_server *m, struct grpc_call *call, const char *type)
{
    MasterPb__ListClusterNodesResponse resp = MASTER_PB__LIST_CLUSTER_NODES_RESPONSE__INIT;
    MasterPb__ListClusterNodesResponse__ClusterNode *nodes, **list;
    uint32_t cap = m->subscriber_count + 1;

    nodes = calloc(cap, sizeof *nodes);
    list = calloc(cap, sizeof *list);
    for (struct subscriber *s = m->subscribers; nodes != NULL && list != NULL && s != NULL; s = s->next) {
        MasterPb__ListClusterNodesResponse__ClusterNode *n = &nodes[resp.n_cluster_nodes];

        if (strcmp(s->type, type) != 0 || s->address[0] == '\0')
            continue;
        master_pb__list_cluster_nodes_response__cluster_node__init(n);
        n->address = s->address;
        n->version = s->version;
        n->created_at_ns = s->since_ns;
        list[resp.n_cluster_nodes++] = n;
    }
    resp.cluster_nodes = list;
    grpc_call_reply(call, &resp.base);
    free(nodes);
    free(list);
}
