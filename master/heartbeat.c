/* SendHeartbeat: one stream a volume server, for ever.
 *
 * The node is bound to the stream by its first full beat; later beats carry deltas only, or the whole list again.  A beat with
 * neither volumes nor has_no_volumes changes nothing.  The stream's end takes the node down at once; so do three missed beats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/assign.h"
#include "master/master.h"
#include "master/node_reach.h"
#include "needle/err.h"
#include "needle/superblock.h"
#include "net/grpc.h"
#include "net/log.h"
#include "net/pb/master.pb-c.h"

#define MISSED_BEATS_MAX 3u

static struct master_server *master_of(struct grpc_call *call)
{
    return grpc_call_server_arg(call);
}

/* Names come from the network and go into status documents, comparisons and other clients' messages: odd ones become the
 * default. */
static void copy_name(char *out, size_t cap, const char *name, const char *dflt)
{
    if (name == NULL || name[0] == '\0' || !name_is_safe(bytes_str(name)) || strlen(name) >= cap)
        name = dflt;
    snprintf(out, cap, "%s", name);
}

static void copy_public_url(struct data_node *n, const char *text)
{
    struct addr a;

    if (strlen(text) >= sizeof n->public_url || addr_parse(bytes_str(text), &a) != 0)
        text = n->url;
    snprintf(n->public_url, sizeof n->public_url, "%s", text);
}

static void take_uuids(struct data_node *n, const MasterPb__Heartbeat *hb)
{
    n->uuid_count = 0;
    for (size_t i = 0; i < hb->n_location_uuids && n->uuid_count < DATA_NODE_UUIDS_MAX; i++)
        if (strlen(hb->location_uuids[i]) == DATA_NODE_UUID_BYTES)
            memcpy(n->uuids[n->uuid_count++], hb->location_uuids[i], DATA_NODE_UUID_BYTES + 1);
}

/* One folder served by two servers would be written by both. */
static bool refuse_duplicates(struct master_server *m, struct grpc_call *call, const struct data_node *n,
                              const MasterPb__Heartbeat *hb)
{
    MasterPb__HeartbeatResponse resp = MASTER_PB__HEARTBEAT_RESPONSE__INIT;
    char *uuids[DATA_NODE_UUIDS_MAX];

    resp.duplicated_uuids = uuids;
    for (size_t i = 0; i < hb->n_location_uuids && resp.n_duplicated_uuids < DATA_NODE_UUIDS_MAX; i++) {
        const struct data_node *owner = topology_uuid_owner(&m->topology, n, bytes_str(hb->location_uuids[i]));

        if (owner == NULL)
            continue;
        log_error("%s and %s both serve the folder with uuid %.40s: the later one is refused", owner->url, n->url,
                  hb->location_uuids[i]);
        uuids[resp.n_duplicated_uuids++] = hb->location_uuids[i];
    }
    if (resp.n_duplicated_uuids == 0)
        return false;
    grpc_call_send(call, &resp.base);
    grpc_call_finish(call, GRPC_FAILED_PRECONDITION, "a folder of this server is served by another one");
    return true;
}

static int node_address(const MasterPb__Heartbeat *hb, struct addr *out)
{
    char text[ADDR_TEXT_MAX];

    if (hb->port == 0 || hb->port > UINT16_MAX || hb->grpc_port > UINT16_MAX || strlen(hb->ip) > ADDR_HOST_MAX)
        return DFS_EINVAL;
    snprintf(text, sizeof text, strchr(hb->ip, ':') != NULL ? "[%s]:%u" : "%s:%u", hb->ip, hb->port);
    if (addr_parse(bytes_str(text), out) != 0)
        return DFS_EINVAL;
    if (hb->grpc_port != 0)
        out->grpc_port = (uint16_t)hb->grpc_port;
    return 0;
}

static void count_servers(struct master_server *m)
{
    struct topology_sums sums;
    uint32_t before = sequencer_servers(m->sequencer);
    uint64_t now_ms = loop_now_ms(m->loop);

    topology_sums(&m->topology, &sums);
    if (sums.nodes_up >= before || m->draining) {
        m->fewer_since_ms = 0;
        if (!m->draining)
            sequencer_set_servers(m->sequencer, sums.nodes_up);
        return;
    }
    /* Fewer only after a good while: servers that restart, or leave because all is being stopped, will be back. */
    if (m->fewer_since_ms == 0)
        m->fewer_since_ms = now_ms;
    if (now_ms - m->fewer_since_ms < MASTER_FORGET_SERVERS_MS)
        return;
    m->fewer_since_ms = 0;
    sequencer_set_servers(m->sequencer, sums.nodes_up);
}

static void greet(struct master_server *m, struct grpc_call *call)
{
    MasterPb__HeartbeatResponse resp = MASTER_PB__HEARTBEAT_RESPONSE__INIT;

    resp.volume_size_limit = m->options.volume_size_limit_bytes;
    resp.preallocate = m->options.volume_preallocate;
    resp.leader = m->self_grpc;
    grpc_call_send(call, &resp.base);
}

/* The first beat of a stream: who is it? */
static struct data_node *bind_node(struct master_server *m, struct grpc_call *call, const MasterPb__Heartbeat *hb)
{
    struct data_node *n;
    struct addr addr;

    if (node_address(hb, &addr) != 0) {
        m->counts[COUNT_BEAT_ERROR]++;
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "heartbeat without a usable address: ip '%.60s' port %u", hb->ip,
                         hb->port);
        return NULL;
    }
    if (topology_node(&m->topology, &addr, &n) != 0) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "no room for another volume server");
        return NULL;
    }
    if (refuse_duplicates(m, call, n, hb))
        return NULL;
    if (n->stream != NULL && n->stream != call) {
        /* The server came back before its old stream was seen to break. */
        grpc_call_set_user(n->stream, NULL);
        grpc_call_cancel(n->stream);
        topology_node_down(&m->topology, n);
    }
    node_reach(m, n, &addr);
    n->stream = call;
    n->up = true;
    data_node_allocation_worked(n);
    copy_public_url(n, hb->public_url);
    copy_name(n->id, sizeof n->id, hb->id, n->url);
    copy_name(n->data_center, sizeof n->data_center, hb->data_center, DEFAULT_DATA_CENTER);
    copy_name(n->rack, sizeof n->rack, hb->rack, DEFAULT_RACK);
    take_uuids(n, hb);
    grpc_call_set_user(call, n);
    log_info("volume server %s is up: data center %s, rack %s", n->url, n->data_center, n->rack);
    greet(m, call);
    count_servers(m);
    return n;
}

static void report(struct master_server *m, struct data_node *n, const struct volume_report *r)
{
    int rc = topology_report(&m->topology, n, r);

    if (rc != 0) {
        m->counts[COUNT_BEAT_ERROR]++;
        log_warning("volume %u of %s is not taken up: %s", r->id, n->url, dfs_err_text(rc));
        return;
    }
    sequencer_saw_volume(m->sequencer, r->id);
}

static void report_full(struct master_server *m, struct data_node *n, const MasterPb__VolumeInformationMessage *v)
{
    struct volume_report r = {
        .id = v->id,
        .collection = bytes_str(v->collection),
        .ttl = ttl_from_u32(v->ttl),
        .version = (uint8_t)v->version,
        .size_bytes = v->size,
        .file_count = v->file_count,
        .delete_count = v->delete_count,
        .deleted_bytes = v->deleted_byte_count,
        .read_only = v->read_only,
        .compact_revision = v->compact_revision,
        .modified_s = v->modified_at_second,
        .disk_id = v->disk_id,
    };

    if (v->replica_placement > UINT8_MAX || replica_placement_from_byte((uint8_t)v->replica_placement, &r.placement) != 0)
        r.id = 0; /* refused, counted */
    report(m, n, &r);
}

static void report_short(struct master_server *m, struct data_node *n, const MasterPb__VolumeShortInformationMessage *v)
{
    struct topo_volume *known = topology_find(&m->topology, v->id);
    struct volume_report r = {
        .id = v->id,
        .collection = bytes_str(v->collection),
        .ttl = ttl_from_u32(v->ttl),
        .version = (uint8_t)v->version,
        .size_bytes = SUPERBLOCK_BYTES,
        .read_only = v->read_only,
        .disk_id = v->disk_id,
    };
    const struct replica *had = known != NULL ? topo_volume_replica(known, n) : NULL;

    if (v->replica_placement > UINT8_MAX || replica_placement_from_byte((uint8_t)v->replica_placement, &r.placement) != 0)
        r.id = 0;
    if (had != NULL) { /* the short form has no numbers: keep ours */
        r.size_bytes = had->size_bytes;
        r.file_count = had->file_count;
        r.delete_count = had->delete_count;
        r.deleted_bytes = had->deleted_bytes;
        r.compact_revision = had->compact_revision;
        r.modified_s = had->modified_s;
    }
    report(m, n, &r);
}

static void take_capacity(struct data_node *n, const MasterPb__Heartbeat *hb)
{
    uint64_t max = 0;

    if (hb->n_max_volume_counts > 0) {
        for (size_t i = 0; i < hb->n_max_volume_counts; i++)
            max += hb->max_volume_counts[i]->count;
        n->max_volumes = max;
        n->loading = hb->loading;
    }
    if (hb->n_disk_total_bytes > 0)
        n->disk_total_bytes = 0;
    for (size_t i = 0; i < hb->n_disk_total_bytes; i++)
        n->disk_total_bytes += hb->disk_total_bytes[i]->bytes;
    if (hb->n_disk_free_bytes > 0)
        n->disk_free_bytes = 0;
    for (size_t i = 0; i < hb->n_disk_free_bytes; i++)
        n->disk_free_bytes += hb->disk_free_bytes[i]->bytes;
}

/* What SetState told it.  A beat without a state says nothing of it. */
static void take_state(struct master_server *m, struct data_node *n, const MasterPb__Heartbeat *hb)
{
    if (hb->state == NULL || (hb->state->maintenance != 0) == n->maintenance)
        return;
    n->maintenance = hb->state->maintenance != 0;
    log_info("volume server %s %s", n->url,
             n->maintenance ? "is in maintenance: no new data is placed there" : "takes new data again");
    for (uint32_t i = 0; i < n->volume_count; i++)
        volume_layout_update(&m->topology, n->volumes[i]);
}

static void take_beat(struct master_server *m, struct data_node *n, const MasterPb__Heartbeat *hb)
{
    bool full = hb->n_volumes > 0 || hb->has_no_volumes;

    n->last_beat_ms = loop_now_ms(m->loop);
    take_capacity(n, hb);
    take_state(m, n, hb);
    if (hb->max_file_key != 0)
        sequencer_saw_key(m->sequencer, hb->max_file_key);
    if (full) {
        m->counts[COUNT_BEAT_FULL]++;
        n->beat_seq++;
        n->decay = n->last_beat_ms - n->decayed_ms >= (uint64_t)m->options.pulse_s * 500;
        if (n->decay)
            n->decayed_ms = n->last_beat_ms;
        for (size_t i = 0; i < hb->n_volumes; i++)
            report_full(m, n, hb->volumes[i]);
        topology_full_beat_done(&m->topology, n);
        n->decay = false;
    }
    if (hb->n_new_volumes + hb->n_deleted_volumes + hb->n_changed_volumes > 0)
        m->counts[COUNT_BEAT_DELTA]++;
    for (size_t i = 0; i < hb->n_changed_volumes; i++)
        report_full(m, n, hb->changed_volumes[i]);
    for (size_t i = 0; i < hb->n_new_volumes; i++)
        report_short(m, n, hb->new_volumes[i]);
    for (size_t i = 0; i < hb->n_deleted_volumes; i++)
        topology_forget(&m->topology, n, hb->deleted_volumes[i]->id);
    assign_retry(m);
}

static void on_message(struct grpc_call *call, struct bytes message)
{
    struct master_server *m = master_of(call);
    struct data_node *n = grpc_call_user(call);
    MasterPb__Heartbeat *hb = (MasterPb__Heartbeat *)grpc_unpack(&master_pb__heartbeat__descriptor, message);

    m->counts[COUNT_BEAT]++;
    if (hb == NULL) {
        m->counts[COUNT_BEAT_ERROR]++;
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "this is no heartbeat");
        return;
    }
    /* Before a node is bound, a beat without an address (the peer's shard report) says nothing. */
    if (n == NULL && hb->ip[0] != '\0')
        n = bind_node(m, call, hb);
    if (n != NULL)
        take_beat(m, n, hb);
    protobuf_c_message_free_unpacked(&hb->base, NULL);
}

static void on_half_close(struct grpc_call *call)
{
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void node_down(struct master_server *m, struct data_node *n, const char *why)
{
    log_warning("volume server %s is down: %s", n->url, why);
    n->stream = NULL;
    topology_node_down(&m->topology, n);
    count_servers(m);
}

static void on_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct data_node *n = grpc_call_user(call);

    (void)status;
    (void)message;
    if (n != NULL && n->stream == call)
        node_down(master_of(call), n, "its heartbeat stream has ended");
}

const struct grpc_call_ops heartbeat_ops = {
    .on_message = on_message,
    .on_half_close = on_half_close,
    .on_closed = on_closed,
};

/* When this process itself stood still (suspended, starved), beats wait unread in the sockets: the time does not count. */
static void forgive_own_pause(struct master_server *m, uint64_t now_ms)
{
    uint64_t since_ms = now_ms - m->swept_ms;

    m->swept_ms = now_ms;
    if (since_ms < 2 * MASTER_SWEEP_MS)
        return;
    for (struct data_node *n = m->topology.nodes; n != NULL; n = n->next)
        if (n->up)
            n->last_beat_ms += since_ms - MASTER_SWEEP_MS;
}

void heartbeat_sweep(struct master_server *m)
{
    uint64_t now_ms = loop_now_ms(m->loop), limit_ms = (uint64_t)m->options.pulse_s * 1000 * MISSED_BEATS_MAX;

    forgive_own_pause(m, now_ms);
    count_servers(m);
    for (struct data_node *n = m->topology.nodes; n != NULL; n = n->next) {
        struct grpc_call *stream = n->stream;

        if (!n->up || stream == NULL || now_ms <= n->last_beat_ms + limit_ms)
            continue;
        node_down(m, n, "three heartbeats are missing");
        grpc_call_set_user(stream, NULL);
        grpc_call_cancel(stream);
    }
}
