/* The gRPC service: what gateways and the peer's shell ask now and then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/master_grpc.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"

static void free_request(void *req)
{
    protobuf_c_message_free_unpacked(req, NULL);
}

/* ---- ListClusterNodes, Statistics ---- */

static void on_list_cluster_nodes(struct grpc_call *call, struct bytes message)
{
    MasterPb__ListClusterNodesRequest *req = grpc_request(call, &master_pb__list_cluster_nodes_request__descriptor, message);

    if (req == NULL)
        return;
    keep_connected_cluster_nodes(master_of_call(call), call, req->client_type);
    free_request(req);
}

struct statistics {
    struct bytes collection;
    bool all;
    uint64_t volumes, used, files;
};

static int add_statistics(struct topo_volume *v, void *arg)
{
    struct statistics *s = arg;

    if (!s->all && !bytes_eq(bytes_str(v->layout->collection), s->collection))
        return 0;
    s->volumes++;
    s->used += topo_volume_size(v);
    s->files += v->replicas[0].file_count;
    return 0;
}

static void on_statistics(struct grpc_call *call, struct bytes message)
{
    MasterPb__StatisticsRequest *req = grpc_request(call, &master_pb__statistics_request__descriptor, message);
    MasterPb__StatisticsResponse resp = MASTER_PB__STATISTICS_RESPONSE__INIT;
    struct master_server *m = master_of_call(call);
    struct statistics s = {0};
    struct topology_sums sums;

    if (req == NULL)
        return;
    s.collection = bytes_str(req->collection);
    s.all = s.collection.n == 0;
    topology_each_volume(&m->topology, add_statistics, &s);
    topology_sums(&m->topology, &sums);
    resp.total_size = sums.max_volumes * m->topology.size_limit_bytes;
    resp.used_size = s.used;
    resp.file_count = s.files;
    resp.logical_total_size = resp.total_size;
    resp.logical_used_size = resp.used_size;
    grpc_call_reply(call, &resp.base);
    free_request(req);
}

/* ---- collections ---- */

struct collection_names {
    MasterPb__Collection *storage, **list;
    size_t n, cap;
};

static int add_name(struct volume_layout *l, void *arg)
{
    struct collection_names *c = arg;

    if (l->volume_count == 0)
        return 0;
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->storage[i].name, l->collection) == 0)
            return 0;
    if (c->n < c->cap) {
        master_pb__collection__init(&c->storage[c->n]);
        c->storage[c->n].name = l->collection;
        c->list[c->n] = &c->storage[c->n];
        c->n++;
    }
    return 0;
}

static bool collect_names(struct master_server *m, struct collection_names *c)
{
    c->cap = m->topology.layout_count;
    c->storage = calloc(c->cap + 1, sizeof *c->storage);
    c->list = calloc(c->cap + 1, sizeof *c->list);
    if (c->storage == NULL || c->list == NULL)
        return false;
    volume_layout_each(&m->topology, add_name, c);
    return true;
}

static void on_collection_list(struct grpc_call *call, struct bytes message)
{
    MasterPb__CollectionListResponse resp = MASTER_PB__COLLECTION_LIST_RESPONSE__INIT;
    struct collection_names c = {0};

    (void)message;
    if (collect_names(master_of_call(call), &c)) {
        resp.collections = c.list;
        resp.n_collections = c.n;
        grpc_call_reply(call, &resp.base);
    } else {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    }
    free(c.storage);
    free(c.list);
}

struct pending_call {
    struct grpc_call *call; /* NULL when the client went away */
    struct master_server *master;
    struct vacuum_waiter vacuum;
    struct growth_waiter growth;
    struct volume_layout *layout;
};

static struct pending_call *pend(struct grpc_call *call)
{
    struct pending_call *p = calloc(1, sizeof *p);

    if (p == NULL) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    p->call = call;
    p->master = master_of_call(call);
    grpc_call_set_user(call, p);
    return p;
}

static void unpend(struct pending_call *p)
{
    if (p->call != NULL)
        grpc_call_set_user(p->call, NULL);
    free(p);
}

/* The work goes on; only its answer has nobody to go to. */
static void on_pending_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct pending_call *p = grpc_call_user(call);

    (void)status;
    (void)message;
    if (p != NULL)
        p->call = NULL;
}

static void on_collection_deleted(void *arg, int rc, const char *why)
{
    MasterPb__CollectionDeleteResponse resp = MASTER_PB__COLLECTION_DELETE_RESPONSE__INIT;
    struct pending_call *p = arg;

    if (p->call != NULL && rc == 0)
        grpc_call_reply(p->call, &resp.base);
    else if (p->call != NULL)
        grpc_call_finish(p->call, grpc_status_from_err(rc), "%s", why);
    unpend(p);
}

static void on_collection_delete(struct grpc_call *call, struct bytes message)
{
    MasterPb__CollectionDeleteRequest *req = grpc_request(call, &master_pb__collection_delete_request__descriptor, message);
    MasterPb__CollectionDeleteResponse resp = MASTER_PB__COLLECTION_DELETE_RESPONSE__INIT;
    struct pending_call *p;
    int rc;

    if (req == NULL)
        return;
    p = pend(call);
    if (p != NULL) {
        rc = collection_delete(p->master, bytes_str(req->name), on_collection_deleted, p);
        if (rc == DFS_ENOTFOUND) /* deleting what is not there is what was wanted */
            grpc_call_reply(call, &resp.base);
        else if (rc != 0)
            grpc_call_finish(call, grpc_status_from_err(rc), "collection '%.100s': %s", req->name, dfs_err_text(rc));
        if (rc != 0)
            unpend(p);
    }
    free_request(req);
}

static void on_collection_statistics(struct grpc_call *call, struct bytes message)
{
    MasterPb__CollectionStatisticsResponse resp = MASTER_PB__COLLECTION_STATISTICS_RESPONSE__INIT;
    struct master_server *m = master_of_call(call);
    struct collection_names c = {0};
    MasterPb__CollectionStatistics *storage = NULL, **list = NULL;

    (void)message;
    if (collect_names(m, &c)) {
        storage = calloc(c.n + 1, sizeof *storage);
        list = calloc(c.n + 1, sizeof *list);
    }
    if (storage == NULL || list == NULL) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < c.n; i++) {
        struct statistics s = {.collection = bytes_str(c.storage[i].name)};

        topology_each_volume(&m->topology, add_statistics, &s);
        master_pb__collection_statistics__init(&storage[i]);
        storage[i].collection = c.storage[i].name;
        storage[i].file_count = s.files;
        storage[i].size = s.used;
        storage[i].physical_size = s.used;
        storage[i].volume_count = s.volumes;
        list[i] = &storage[i];
    }
    resp.collections = list;
    resp.n_collections = c.n;
    grpc_call_reply(call, &resp.base);
out:
    free(storage);
    free(list);
    free(c.storage);
    free(c.list);
}

/* ---- VolumeList: the whole topology as one message, built in an arena that goes with it ---- */

struct arena {
    void **blocks;
    size_t n, cap;
    bool failed;
};

static void *arena_new(struct arena *a, size_t n)
{
    void *p = calloc(1, n != 0 ? n : 1);

    if (a->n == a->cap) {
        size_t cap = a->cap == 0 ? 64 : a->cap * 2;
        void **grown = realloc(a->blocks, cap * sizeof *grown);

        if (grown == NULL) {
            free(p);
            p = NULL;
        } else {
            a->blocks = grown;
            a->cap = cap;
        }
    }
    if (p == NULL)
        a->failed = true;
    else
        a->blocks[a->n++] = p;
    return p;
}

static void arena_release(struct arena *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->blocks[i]);
    free(a->blocks);
}

static MasterPb__VolumeInformationMessage *describe_volume(struct arena *a, const struct data_node *n, struct topo_volume *v)
{
    MasterPb__VolumeInformationMessage *i = arena_new(a, sizeof *i);
    const struct replica *r = topo_volume_replica(v, n);

    if (i == NULL)
        return NULL;
    master_pb__volume_information_message__init(i);
    i->id = v->id;
    i->size = r->size_bytes;
    i->collection = v->layout->collection;
    i->file_count = r->file_count;
    i->delete_count = r->delete_count;
    i->deleted_byte_count = r->deleted_bytes;
    i->read_only = r->read_only;
    i->replica_placement = replica_placement_to_byte(v->layout->placement);
    i->version = v->version;
    i->ttl = ttl_to_u32(v->layout->ttl);
    i->compact_revision = r->compact_revision;
    i->modified_at_second = r->modified_s;
    i->disk_id = r->disk_id;
    return i;
}

/* Sums of one place as the one default disk; volumes only for a server. */
static MasterPb__DiskInfoEntry **describe_disk(struct arena *a, uint64_t max, uint64_t used, struct data_node *n)
{
    MasterPb__DiskInfoEntry *e = arena_new(a, sizeof *e), **list = arena_new(a, sizeof *list);
    MasterPb__DiskInfo *d = arena_new(a, sizeof *d);

    if (a->failed)
        return NULL;
    master_pb__disk_info_entry__init(e);
    master_pb__disk_info__init(d);
    e->info = d;
    list[0] = e;
    d->volume_count = (int64_t)used;
    d->max_volume_count = (int64_t)max;
    d->free_volume_count = (int64_t)(max > used ? max - used : 0);
    d->active_volume_count = (int64_t)used;
    if (n == NULL)
        return list;
    d->disk_total_bytes = n->disk_total_bytes;
    d->disk_free_bytes = n->disk_free_bytes;
    d->volume_infos = arena_new(a, n->volume_count * sizeof *d->volume_infos);
    for (uint32_t i = 0; !a->failed && i < n->volume_count; i++)
        d->volume_infos[d->n_volume_infos++] = describe_volume(a, n, n->volumes[i]);
    return list;
}

static MasterPb__DataNodeInfo *describe_node(struct arena *a, struct data_node *n)
{
    MasterPb__DataNodeInfo *i = arena_new(a, sizeof *i);

    if (i == NULL)
        return NULL;
    master_pb__data_node_info__init(i);
    i->id = n->id;
    i->address = n->url;
    i->grpc_port = n->addr.grpc_port;
    i->disk_infos = describe_disk(a, n->max_volumes, n->volume_count, n);
    i->n_disk_infos = i->disk_infos != NULL;
    return i;
}

static MasterPb__RackInfo *describe_rack(struct arena *a, const struct topology *t, struct data_node *first)
{
    MasterPb__RackInfo *r = arena_new(a, sizeof *r);
    uint64_t max = 0, used = 0;

    if (r == NULL)
        return NULL;
    master_pb__rack_info__init(r);
    r->id = first->rack;
    r->data_node_infos = arena_new(a, t->node_count * sizeof *r->data_node_infos);
    for (struct data_node *n = first; !a->failed && n != NULL; n = n->next) {
        if (!n->up || strcmp(n->rack, first->rack) != 0 || strcmp(n->data_center, first->data_center) != 0)
            continue;
        r->data_node_infos[r->n_data_node_infos++] = describe_node(a, n);
        max += n->max_volumes;
        used += n->volume_count;
    }
    r->disk_infos = describe_disk(a, max, used, NULL);
    r->n_disk_infos = r->disk_infos != NULL;
    return r;
}

static MasterPb__DataCenterInfo *describe_data_center(struct arena *a, const struct topology *t, struct data_node *first)
{
    MasterPb__DataCenterInfo *d = arena_new(a, sizeof *d);
    uint64_t max = 0, used = 0;

    if (d == NULL)
        return NULL;
    master_pb__data_center_info__init(d);
    d->id = first->data_center;
    d->rack_infos = arena_new(a, t->node_count * sizeof *d->rack_infos);
    for (struct data_node *n = first; !a->failed && n != NULL; n = n->next) {
        if (!n->up || strcmp(n->data_center, first->data_center) != 0)
            continue;
        if (topology_first_of_rack(t, n))
            d->rack_infos[d->n_rack_infos++] = describe_rack(a, t, n);
        max += n->max_volumes;
        used += n->volume_count;
    }
    d->disk_infos = describe_disk(a, max, used, NULL);
    d->n_disk_infos = d->disk_infos != NULL;
    return d;
}

static void on_volume_list(struct grpc_call *call, struct bytes message)
{
    MasterPb__VolumeListResponse resp = MASTER_PB__VOLUME_LIST_RESPONSE__INIT;
    MasterPb__TopologyInfo t = MASTER_PB__TOPOLOGY_INFO__INIT;
    struct master_server *m = master_of_call(call);
    struct topology_sums sums;
    struct arena a = {0};

    (void)message;
    topology_sums(&m->topology, &sums);
    t.id = (char *)(uintptr_t)sequencer_cluster_id(m->sequencer);
    t.data_center_infos = arena_new(&a, m->topology.node_count * sizeof *t.data_center_infos);
    for (struct data_node *n = m->topology.nodes; !a.failed && n != NULL; n = n->next)
        if (n->up && topology_first_of_data_center(&m->topology, n))
            t.data_center_infos[t.n_data_center_infos++] = describe_data_center(&a, &m->topology, n);
    t.disk_infos = describe_disk(&a, sums.max_volumes, sums.volumes, NULL);
    t.n_disk_infos = t.disk_infos != NULL;
    resp.topology_info = &t;
    resp.volume_size_limit_mb = m->topology.size_limit_bytes >> 20;
    if (a.failed)
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    else
        grpc_call_reply(call, &resp.base);
    arena_release(&a);
}

/* ---- growth and vacuum ---- */

static void on_grown(struct growth_waiter *w)
{
    MasterPb__VolumeGrowResponse resp = MASTER_PB__VOLUME_GROW_RESPONSE__INIT;
    struct pending_call *p = CONTAINER_OF(w, struct pending_call, growth);

    if (p->call != NULL && volume_growth_made(p->layout) > 0)
        grpc_call_reply(p->call, &resp.base);
    else if (p->call != NULL)
        grpc_call_finish(p->call, GRPC_UNKNOWN, "%s", volume_growth_trouble(p->layout));
    unpend(p);
}

static void start_grow(struct grpc_call *call, const MasterPb__VolumeGrowRequest *req)
{
    struct growth_request g = {.count = req->writable_volume_count};
    struct assign *a = calloc(1, sizeof *a);
    struct pending_call *p = a != NULL ? pend(call) : NULL;
    int rc;

    if (p == NULL) {
        free(a);
        return;
    }
    a->master = p->master;
    a->collection = bytes_str(req->collection);
    a->replication = bytes_str(req->replication);
    a->ttl = bytes_str(req->ttl);
    a->disk = bytes_str(req->disk_type);
    g.filter = (struct place_filter){bytes_str(req->data_center), bytes_str(req->rack), bytes_str(req->data_node)};
    rc = assign_layout(a, &p->layout);
    if (rc == 0 && volume_growth_active(p->layout)) {
        rc = DFS_EBUSY;
        snprintf(a->reason, sizeof a->reason, "these volumes are growing already: try again when that is done");
    }
    if (rc == 0) {
        g.layout = p->layout;
        p->growth.fn = on_grown;
        rc = volume_growth_start(&p->master->grower, &g, &p->growth, a->reason, sizeof a->reason);
    }
    if (rc != 0) {
        grpc_call_finish(call, grpc_status_from_err(rc), "%s", a->reason[0] != '\0' ? a->reason : dfs_err_text(rc));
        unpend(p);
    }
    free(a);
}

static void on_volume_grow(struct grpc_call *call, struct bytes message)
{
    MasterPb__VolumeGrowRequest *req = grpc_request(call, &master_pb__volume_grow_request__descriptor, message);

    if (req == NULL)
        return;
    start_grow(call, req);
    free_request(req);
}

static void on_vacuumed(struct vacuum_waiter *w, int rc)
{
    MasterPb__VacuumVolumeResponse resp = MASTER_PB__VACUUM_VOLUME_RESPONSE__INIT;
    struct pending_call *p = CONTAINER_OF(w, struct pending_call, vacuum);

    if (p->call != NULL && rc == 0)
        grpc_call_reply(p->call, &resp.base);
    else if (p->call != NULL)
        grpc_call_finish(p->call, grpc_status_from_err(rc), "%s", dfs_err_text(rc));
    unpend(p);
}

static void on_vacuum_volume(struct grpc_call *call, struct bytes message)
{
    MasterPb__VacuumVolumeRequest *req = grpc_request(call, &master_pb__vacuum_volume_request__descriptor, message);
    struct pending_call *p = req != NULL ? pend(call) : NULL;
    int rc;

    if (p != NULL) {
        p->vacuum.fn = on_vacuumed;
        rc = vacuum_start(p->master, req->garbage_threshold, req->volume_id, req->collection[0] != '\0' ? req->collection : NULL,
                          &p->vacuum);
        if (rc != 0) {
            grpc_call_finish(call, grpc_status_from_err(rc), "%s", dfs_err_text(rc));
            unpend(p);
        }
    }
    if (req != NULL)
        free_request(req);
}

static void on_disable_vacuum(struct grpc_call *call, struct bytes message)
{
    MasterPb__DisableVacuumResponse resp = MASTER_PB__DISABLE_VACUUM_RESPONSE__INIT;

    (void)message;
    master_of_call(call)->vacuum_disabled = true;
    grpc_call_reply(call, &resp.base);
}

static void on_enable_vacuum(struct grpc_call *call, struct bytes message)
{
    MasterPb__EnableVacuumResponse resp = MASTER_PB__ENABLE_VACUUM_RESPONSE__INIT;

    (void)message;
    master_of_call(call)->vacuum_disabled = false;
    grpc_call_reply(call, &resp.base);
}

/* ---- the administrators' lock ---- */

static struct admin_lock *find_lock(struct master_server *m, const char *name, bool make)
{
    struct admin_lock *spare = NULL;
    uint64_t now_ms = loop_now_ms(m->loop);

    for (size_t i = 0; i < MASTER_LOCKS_MAX; i++) {
        struct admin_lock *l = &m->locks[i];

        if (l->until_ms > now_ms && strcmp(l->name, name) == 0)
            return l;
        if (l->until_ms <= now_ms && spare == NULL)
            spare = l;
    }
    return make ? spare : NULL;
}

static void on_lease_token(struct grpc_call *call, struct bytes message)
{
    MasterPb__LeaseAdminTokenRequest *req = grpc_request(call, &master_pb__lease_admin_token_request__descriptor, message);
    MasterPb__LeaseAdminTokenResponse resp = MASTER_PB__LEASE_ADMIN_TOKEN_RESPONSE__INIT;
    struct master_server *m = master_of_call(call);
    struct admin_lock *l;

    if (req == NULL)
        return;
    l = strlen(req->lock_name) < sizeof l->name ? find_lock(m, req->lock_name, true) : NULL;
    if (l == NULL) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "no room for this lock");
    } else if (l->until_ms > loop_now_ms(m->loop) &&
               (req->previous_token == 0 || req->previous_token != l->token || req->previous_lock_time != l->time_ns)) {
        grpc_call_finish(call, GRPC_UNKNOWN, "already locked by %s", l->client);
    } else {
        snprintf(l->name, sizeof l->name, "%s", req->lock_name);
        snprintf(l->client, sizeof l->client, "%.100s", req->client_name);
        snprintf(l->message, sizeof l->message, "%.100s", req->message);
        l->token = (int64_t)(rand_u64() >> 1);
        l->time_ns = (int64_t)clock_wall_ns();
        l->until_ms = loop_now_ms(m->loop) + MASTER_LOCK_LEASE_MS;
        resp.token = l->token;
        resp.lock_ts_ns = l->time_ns;
        grpc_call_reply(call, &resp.base);
    }
    free_request(req);
}

static void on_release_token(struct grpc_call *call, struct bytes message)
{
    MasterPb__ReleaseAdminTokenRequest *req = grpc_request(call, &master_pb__release_admin_token_request__descriptor, message);
    MasterPb__ReleaseAdminTokenResponse resp = MASTER_PB__RELEASE_ADMIN_TOKEN_RESPONSE__INIT;
    struct admin_lock *l;

    if (req == NULL)
        return;
    l = find_lock(master_of_call(call), req->lock_name, false);
    if (l != NULL && l->token == req->previous_token && l->time_ns == req->previous_lock_time)
        l->until_ms = 0;
    grpc_call_reply(call, &resp.base);
    free_request(req);
}

static void on_lock_status(struct grpc_call *call, struct bytes message)
{
    MasterPb__GetAdminLockStatusRequest *req =
        grpc_request(call, &master_pb__get_admin_lock_status_request__descriptor, message);
    MasterPb__GetAdminLockStatusResponse resp = MASTER_PB__GET_ADMIN_LOCK_STATUS_RESPONSE__INIT;
    struct admin_lock *l;

    if (req == NULL)
        return;
    l = find_lock(master_of_call(call), req->lock_name, false);
    if (l != NULL) {
        resp.is_locked = true;
        resp.client_name = l->client;
        resp.message = l->message;
    }
    grpc_call_reply(call, &resp.base);
    free_request(req);
}

/* ---- the group of masters, which is this one ---- */

static void on_raft_list(struct grpc_call *call, struct bytes message)
{
    MasterPb__RaftListClusterServersResponse resp = MASTER_PB__RAFT_LIST_CLUSTER_SERVERS_RESPONSE__INIT;
    MasterPb__RaftListClusterServersResponse__ClusterServers s =
        MASTER_PB__RAFT_LIST_CLUSTER_SERVERS_RESPONSE__CLUSTER_SERVERS__INIT;
    MasterPb__RaftListClusterServersResponse__ClusterServers *list[1] = {&s};
    struct master_server *m = master_of_call(call);

    (void)message;
    s.id = m->self;
    s.address = m->self_grpc;
    s.suffrage = (char *)(uintptr_t)"Voter";
    s.is_leader = true;
    resp.cluster_servers = list;
    resp.n_cluster_servers = 1;
    grpc_call_reply(call, &resp.base);
}

/* The volume server itself reports the change too; this only makes it quick. */
static void on_mark_readonly(struct grpc_call *call, struct bytes message)
{
    MasterPb__VolumeMarkReadonlyRequest *req = grpc_request(call, &master_pb__volume_mark_readonly_request__descriptor, message);
    MasterPb__VolumeMarkReadonlyResponse resp = MASTER_PB__VOLUME_MARK_READONLY_RESPONSE__INIT;
    struct master_server *m = master_of_call(call);
    char url[ADDR_TEXT_MAX];
    struct data_node *n;
    struct topo_volume *v;
    struct replica *r;

    if (req == NULL)
        return;
    snprintf(url, sizeof url, "%.200s:%u", req->ip, req->port);
    n = topology_find_node(&m->topology, bytes_str(url));
    v = topology_find(&m->topology, req->volume_id);
    r = n != NULL && v != NULL ? topo_volume_replica(v, n) : NULL;
    if (r != NULL) {
        r->read_only = req->is_readonly;
        topology_refresh(&m->topology, v);
    }
    grpc_call_reply(call, &resp.base);
    free_request(req);
}

#define UNARY(name, fn) const struct grpc_call_ops name = {.on_message = fn, .on_closed = grpc_ignore_closed}
#define PENDING(name, fn) const struct grpc_call_ops name = {.on_message = fn, .on_closed = on_pending_closed}
UNARY(list_cluster_nodes_ops, on_list_cluster_nodes);
UNARY(statistics_ops, on_statistics);
UNARY(collection_list_ops, on_collection_list);
PENDING(collection_delete_ops, on_collection_delete);
UNARY(collection_statistics_ops, on_collection_statistics);
UNARY(volume_list_ops, on_volume_list);
PENDING(volume_grow_ops, on_volume_grow);
PENDING(vacuum_volume_ops, on_vacuum_volume);
UNARY(disable_vacuum_ops, on_disable_vacuum);
UNARY(enable_vacuum_ops, on_enable_vacuum);
UNARY(lease_token_ops, on_lease_token);
UNARY(release_token_ops, on_release_token);
UNARY(lock_status_ops, on_lock_status);
UNARY(raft_list_ops, on_raft_list);
UNARY(mark_readonly_ops, on_mark_readonly);
