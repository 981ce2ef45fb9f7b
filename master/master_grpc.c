/* The gRPC service: what volume servers and clients call all the time.  Administration is in master_grpc_admin.c. */
#include "master/master_grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/lookup.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

#define LOCATIONS_MAX 64

struct master_server *master_of_call(struct grpc_call *call)
{
    return grpc_call_server_arg(call);
}

void grpc_ignore_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    (void)call;
    (void)status;
    (void)message;
}

void *grpc_request(struct grpc_call *call, const ProtobufCMessageDescriptor *type, struct bytes message)
{
    ProtobufCMessage *req = grpc_unpack(type, message);

    if (req == NULL)
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "this is no %s", type->name);
    return req;
}

static void describe(MasterPb__Location *l, const struct data_node *n)
{
    master_pb__location__init(l);
    l->url = (char *)(uintptr_t)n->url;
    l->public_url = (char *)(uintptr_t)n->public_url;
    l->grpc_port = n->addr.grpc_port;
    l->data_center = (char *)(uintptr_t)n->data_center;
}

static uint32_t describe_all(MasterPb__Location *storage, MasterPb__Location **list, const struct topo_volume *v)
{
    uint32_t n = v->replica_count < LOCATIONS_MAX ? v->replica_count : LOCATIONS_MAX;

    for (uint32_t i = 0; i < n; i++) {
        describe(&storage[i], v->replicas[i].node);
        list[i] = &storage[i];
    }
    return n;
}

/* ---- Assign ---- */

struct grpc_assign {
    struct assign assign;
    struct grpc_call *call;
    MasterPb__AssignRequest *request;
    bool streamed; /* StreamAssign: the call goes on */
    bool last;     /* but for the client having said that this is its last */
};

static void free_assign(struct grpc_assign *g)
{
    if (g->request != NULL)
        protobuf_c_message_free_unpacked(&g->request->base, NULL);
    free(g);
}

static void answer_assign(struct grpc_assign *g, int rc)
{
    MasterPb__AssignResponse resp = MASTER_PB__ASSIGN_RESPONSE__INIT;
    MasterPb__Location storage[LOCATIONS_MAX], *list[LOCATIONS_MAX];
    char fid[FID_TEXT_MAX];

    if (rc != 0) {
        if (g->streamed) {
            resp.error = g->assign.reason;
            grpc_call_send(g->call, &resp.base);
        } else {
            /* Unknown is what clients retry on without dropping their shared connection. */
            grpc_call_finish(g->call, rc == DFS_ENOSPC || rc == DFS_EBUSY ? GRPC_RESOURCE_EXHAUSTED : GRPC_UNKNOWN, "%s",
                             g->assign.reason);
        }
        return;
    }
    fid_format(&g->assign.fid, fid);
    resp.fid = fid;
    resp.count = g->assign.count;
    resp.n_replicas = describe_all(storage, list, g->assign.volume);
    if (g->assign.at < resp.n_replicas) {
        MasterPb__Location *first = list[0];

        list[0] = list[g->assign.at];
        list[g->assign.at] = first;
    }
    resp.location = list[0];
    resp.replicas = list + 1;
    resp.n_replicas--;
    if (g->streamed)
        grpc_call_send(g->call, &resp.base);
    else
        grpc_call_reply(g->call, &resp.base);
}

static void on_assigned(struct assign *a, int rc)
{
    struct grpc_assign *g = CONTAINER_OF(a, struct grpc_assign, assign);

    grpc_call_set_user(g->call, NULL);
    answer_assign(g, rc);
    if (g->last)
        grpc_call_finish(g->call, GRPC_OK, NULL);
    free_assign(g);
}

static void start_assign(struct grpc_call *call, struct bytes message, bool streamed)
{
    MasterPb__AssignRequest *req = grpc_request(call, &master_pb__assign_request__descriptor, message);
    struct grpc_assign *g;
    int rc;

    if (req == NULL)
        return;
    g = calloc(1, sizeof *g);
    if (g == NULL || grpc_call_user(call) != NULL) {
        protobuf_c_message_free_unpacked(&req->base, NULL);
        free(g);
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, g == NULL ? "out of memory" : "one assign at a time on a stream");
        return;
    }
    g->call = call;
    g->request = req;
    g->streamed = streamed;
    g->assign = (struct assign){
        .master = master_of_call(call),
        .count = req->count != 0 ? req->count : 1,
        .collection = bytes_str(req->collection),
        .replication = bytes_str(req->replication),
        .ttl = bytes_str(req->ttl),
        .disk = bytes_str(req->disk_type),
        .filter = {bytes_str(req->data_center), bytes_str(req->rack), bytes_str(req->data_node)},
        .growth_count = req->writable_volume_count < 10000 ? req->writable_volume_count : 0,
        .expected_bytes = req->expected_data_size,
        .done = on_assigned,
    };
    rc = assign_start(&g->assign);
    if (rc == DFS_EAGAIN) {
        grpc_call_set_user(call, g);
        return;
    }
    answer_assign(g, rc);
    free_assign(g);
}

static void on_assign(struct grpc_call *call, struct bytes message)
{
    start_assign(call, message, false);
}

static void on_stream_assign(struct grpc_call *call, struct bytes message)
{
    start_assign(call, message, true);
}

static void on_stream_half_close(struct grpc_call *call)
{
    struct grpc_assign *g = grpc_call_user(call);

    if (g != NULL)
        g->last = true; /* its answer first */
    else
        grpc_call_finish(call, GRPC_OK, NULL);
}

static void on_assign_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct grpc_assign *g = grpc_call_user(call);

    (void)status;
    (void)message;
    if (g == NULL)
        return;
    assign_cancel(&g->assign);
    free_assign(g);
}

/* ---- LookupVolume ---- */

struct lookup_storage {
    MasterPb__LookupVolumeResponse__VolumeIdLocation entry;
    MasterPb__Location locations[LOCATIONS_MAX], *list[LOCATIONS_MAX];
    char error[160];
};

static void look_up(struct master_server *m, const MasterPb__LookupVolumeRequest *req, size_t i, struct lookup_storage *s)
{
    struct topo_volume *v = NULL;
    char *text = req->volume_or_file_ids[i];
    uint32_t id = 0;
    int rc = lookup_volume(m, bytes_str(text), bytes_str(req->collection), &id, &v);

    master_pb__lookup_volume_response__volume_id_location__init(&s->entry);
    s->entry.volume_or_file_id = text;
    if (rc == 0) {
        s->entry.n_locations = describe_all(s->locations, s->list, v);
        s->entry.locations = s->list;
        return;
    }
    if (rc == DFS_EINVAL)
        snprintf(s->error, sizeof s->error, "this is no volume id and no file id");
    else
        snprintf(s->error, sizeof s->error, "volume id %u not found", id);
    s->entry.error = s->error;
}

#define LOOKUP_IDS_MAX 4096u

static void on_lookup(struct grpc_call *call, struct bytes message)
{
    MasterPb__LookupVolumeRequest *req = grpc_request(call, &master_pb__lookup_volume_request__descriptor, message);
    MasterPb__LookupVolumeResponse resp = MASTER_PB__LOOKUP_VOLUME_RESPONSE__INIT;
    MasterPb__LookupVolumeResponse__VolumeIdLocation **list = NULL;
    struct lookup_storage *storage = NULL;

    if (req == NULL)
        return;
    if (req->n_volume_or_file_ids > LOOKUP_IDS_MAX) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "at most %u ids in one lookup", LOOKUP_IDS_MAX);
        goto out;
    }
    storage = calloc(req->n_volume_or_file_ids + 1, sizeof *storage);
    list = calloc(req->n_volume_or_file_ids + 1, sizeof *list);
    if (storage == NULL || list == NULL) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < req->n_volume_or_file_ids; i++) {
        look_up(master_of_call(call), req, i, &storage[i]);
        list[i] = &storage[i].entry;
    }
    resp.volume_id_locations = list;
    resp.n_volume_id_locations = req->n_volume_or_file_ids;
    grpc_call_reply(call, &resp.base);
out:
    free(storage);
    free(list);
    protobuf_c_message_free_unpacked(&req->base, NULL);
}

/* ---- small ones ---- */

static void on_configuration(struct grpc_call *call, struct bytes message)
{
    MasterPb__GetMasterConfigurationResponse resp = MASTER_PB__GET_MASTER_CONFIGURATION_RESPONSE__INIT;
    struct master_server *m = master_of_call(call);
    char rp[4];

    (void)message;
    replica_placement_format(m->default_placement, rp);
    resp.default_replication = rp;
    resp.leader = m->self_grpc;
    resp.volume_size_limit_m_b = (uint32_t)(m->options.volume_size_limit_bytes >> 20);
    resp.volume_preallocate = m->options.volume_preallocate;
    grpc_call_reply(call, &resp.base);
}

/* Answers for itself; a target that is named is not called: dfs connects to no address from a request. */
static void on_ping(struct grpc_call *call, struct bytes message)
{
    MasterPb__PingResponse resp = MASTER_PB__PING_RESPONSE__INIT;

    (void)message;
    resp.start_time_ns = (int64_t)clock_wall_ns();
    resp.remote_time_ns = resp.start_time_ns;
    resp.stop_time_ns = (int64_t)clock_wall_ns();
    grpc_call_reply(call, &resp.base);
}

static const struct grpc_call_ops assign_ops = {.on_message = on_assign, .on_closed = on_assign_closed};
static const struct grpc_call_ops stream_assign_ops = {
    .on_message = on_stream_assign, .on_half_close = on_stream_half_close, .on_closed = on_assign_closed};
static const struct grpc_call_ops lookup_ops = {.on_message = on_lookup, .on_closed = grpc_ignore_closed};
static const struct grpc_call_ops configuration_ops = {.on_message = on_configuration, .on_closed = grpc_ignore_closed};
static const struct grpc_call_ops ping_ops = {.on_message = on_ping, .on_closed = grpc_ignore_closed};

#define HEARTBEAT_BYTES_MAX (256u * 1024u * 1024u)

const struct grpc_method master_grpc_methods[] = {
    {"/master_pb.Seaweed/SendHeartbeat", &heartbeat_ops, HEARTBEAT_BYTES_MAX},
    {"/master_pb.Seaweed/KeepConnected", &keep_connected_ops, 0},
    {"/master_pb.Seaweed/Assign", &assign_ops, 0},
    {"/master_pb.Seaweed/StreamAssign", &stream_assign_ops, 0},
    {"/master_pb.Seaweed/LookupVolume", &lookup_ops, 0},
    {"/master_pb.Seaweed/GetMasterConfiguration", &configuration_ops, 0},
    {"/master_pb.Seaweed/Ping", &ping_ops, 0},
    {"/master_pb.Seaweed/ListClusterNodes", &list_cluster_nodes_ops, 0},
    {"/master_pb.Seaweed/Statistics", &statistics_ops, 0},
    {"/master_pb.Seaweed/CollectionList", &collection_list_ops, 0},
    {"/master_pb.Seaweed/CollectionDelete", &collection_delete_ops, 0},
    {"/master_pb.Seaweed/CollectionStatistics", &collection_statistics_ops, 0},
    {"/master_pb.Seaweed/VolumeList", &volume_list_ops, 0},
    {"/master_pb.Seaweed/VolumeGrow", &volume_grow_ops, 0},
    {"/master_pb.Seaweed/VacuumVolume", &vacuum_volume_ops, 0},
    {"/master_pb.Seaweed/DisableVacuum", &disable_vacuum_ops, 0},
    {"/master_pb.Seaweed/EnableVacuum", &enable_vacuum_ops, 0},
    {"/master_pb.Seaweed/LeaseAdminToken", &lease_token_ops, 0},
    {"/master_pb.Seaweed/ReleaseAdminToken", &release_token_ops, 0},
    {"/master_pb.Seaweed/GetAdminLockStatus", &lock_status_ops, 0},
    {"/master_pb.Seaweed/RaftListClusterServers", &raft_list_ops, 0},
    {"/master_pb.Seaweed/VolumeMarkReadonly", &mark_readonly_ops, 0},
};
const uint32_t master_grpc_method_count = ARRAY_LEN(master_grpc_methods);
