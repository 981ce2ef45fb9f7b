/* Building heartbeats. */
#include "volume/heartbeat_message.h"

#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/log.h"
#include "net/pb/master.pb-c.h"
#include "volume/handlers.h"

static int by_id(const void *a, const void *b)
{
    const struct volume_info *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* A volume whose superblock has not been read yet cannot be told: the master would file it under the wrong replication and ttl,
 * and peers never move it again.  It is told when it is loaded. */
static uint32_t drop_unknown(struct heartbeat_report *r)
{
    uint32_t kept = 0, all = r->n;
    for (uint32_t i = 0; i < all; i++)
        if (r->v[i].version != 0)
            r->v[kept++] = r->v[i];
    r->n = kept;
    return all - kept;
}

int heartbeat_report_new(struct volume_server *s, struct heartbeat_report **out)
{
    struct heartbeat_report *r = calloc(1, sizeof *r);
    if (r == NULL)
        return DFS_ENOMEM;
    r->s = s;
    r->loading = store_loading(s->store); /* before the list: what is opened meanwhile is told twice, not never */
    int rc = store_snapshot(s->store, &r->v, &r->n);
    if (rc != 0) {
        free(r);
        return rc;
    }
    r->unknown = drop_unknown(r);
    if (r->n > 0)
        qsort(r->v, r->n, sizeof *r->v, by_id);
    *out = r;
    return 0;
}

void heartbeat_report_free(struct heartbeat_report *r)
{
    if (r == NULL)
        return;
    free(r->v);
    free(r);
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* protobuf-c does not change what it packs */
}

static void fill_volume(MasterPb__VolumeInformationMessage *m, const struct volume_info *v)
{
    master_pb__volume_information_message__init(m);
    m->id = v->id;
    m->size = v->dat_bytes;
    m->collection = text(v->collection);
    m->file_count = v->file_count;
    m->delete_count = v->delete_count;
    m->deleted_byte_count = v->deleted_bytes;
    m->read_only = v->no_write != 0;
    m->replica_placement = replica_placement_to_byte(v->placement);
    m->version = v->version;
    m->ttl = ttl_to_u32(v->ttl);
    m->compact_revision = v->compact_revision;
    m->modified_at_second = (int64_t)v->last_modified_s;
    m->disk_id = v->location_index;
}

static void fill_short(MasterPb__VolumeShortInformationMessage *m, const struct volume_info *v)
{
    master_pb__volume_short_information_message__init(m);
    m->id = v->id;
    m->collection = text(v->collection);
    m->replica_placement = replica_placement_to_byte(v->placement);
    m->version = v->version;
    m->ttl = ttl_to_u32(v->ttl);
    m->disk_id = v->location_index;
    m->read_only = v->no_write != 0;
}

static void fill_node(MasterPb__Heartbeat *m, const struct volume_server *s)
{
    m->ip = text(s->o.ip);
    m->port = s->o.port;
    m->public_url = text(s->public_url);
    m->grpc_port = s->o.port_grpc;
    m->data_center = text(s->o.data_center);
    m->rack = text(s->o.rack);
    m->id = text(s->o.id);
}

/* One array for all repeated fields of a message: rows of structs and the pointers to them. */
struct rows {
    void *structs;
    void **pointers;
};

static bool rows_new(struct rows *r, size_t n, size_t size)
{
    r->structs = calloc(n + 1, size);
    r->pointers = calloc(n + 1, sizeof *r->pointers);
    for (size_t i = 0; r->structs != NULL && r->pointers != NULL && i < n; i++)
        r->pointers[i] = (char *)r->structs + i * size;
    return r->structs != NULL && r->pointers != NULL;
}

static void rows_free(struct rows *r)
{
    free(r->structs);
    free(r->pointers);
}

void heartbeat_send_full(struct grpc_call *call, const struct heartbeat_report *now)
{
    struct volume_server *s = now->s;
    MasterPb__Heartbeat m = MASTER_PB__HEARTBEAT__INIT;
    MasterPb__MaxVolumeCount slots = MASTER_PB__MAX_VOLUME_COUNT__INIT;
    MasterPb__DiskBytes total = MASTER_PB__DISK_BYTES__INIT, free_bytes = MASTER_PB__DISK_BYTES__INIT;
    MasterPb__MaxVolumeCount *slots_p = &slots;
    MasterPb__DiskBytes *total_p = &total, *free_p = &free_bytes;
    VolumeServerPb__VolumeServerState state = VOLUME_SERVER_PB__VOLUME_SERVER_STATE__INIT;
    char *uuids[STORE_LOCATIONS_MAX];
    struct rows rows;
    if (!rows_new(&rows, now->n, sizeof(MasterPb__VolumeInformationMessage))) {
        rows_free(&rows);
        return;
    }
    fill_node(&m, s);
    for (uint32_t i = 0; i < now->n; i++)
        fill_volume(rows.pointers[i], &now->v[i]);
    m.volumes = (MasterPb__VolumeInformationMessage **)rows.pointers;
    m.n_volumes = now->n;
    m.has_no_volumes = now->n == 0 && now->unknown == 0;
    m.has_no_ec_shards = true;
    m.max_file_key = store_max_key(s->store);
    for (uint32_t i = 0; i < store_location_count(s->store); i++) {
        struct location_info loc;
        memset(&loc, 0, sizeof loc);
        store_location_info(s->store, i, &loc);
        slots.count += loc.volumes + loc.free_slots; /* a location that is low or gone has no free ones */
        total.bytes += loc.total_bytes;
        free_bytes.bytes += loc.free_bytes;
        if (loc.uuid != NULL)
            uuids[m.n_location_uuids++] = text(loc.uuid);
    }
    m.location_uuids = uuids;
    m.max_volume_counts = &slots_p;
    m.n_max_volume_counts = 1;
    m.loading = now->loading;
    m.disk_total_bytes = &total_p;
    m.n_disk_total_bytes = 1;
    m.disk_free_bytes = &free_p;
    m.n_disk_free_bytes = 1;
    state.maintenance = atomic_load(&s->maintenance);
    state.version = atomic_load(&s->state_version);
    m.state = &state;
    int rc = grpc_call_send(call, &m.base);
    if (rc != 0 && rc != DFS_ECLOSED)
        log_warning("cannot send a heartbeat: %s", dfs_err_text(rc));
    rows_free(&rows);
}

bool heartbeat_send_changes(struct grpc_call *call, const struct heartbeat_report *before, const struct heartbeat_report *now)
{
    struct rows came = {0}, went = {0};
    size_t n_came = 0, n_went = 0;
    uint64_t limit = store_size_limit(now->s->store);
    uint32_t i = 0, j = 0;
    bool told = false;
    if (before == NULL || before->loading != now->loading)
        goto out;
    if (!rows_new(&came, now->n, sizeof(MasterPb__VolumeShortInformationMessage)) ||
        !rows_new(&went, before->n, sizeof(MasterPb__VolumeShortInformationMessage)))
        goto out;
    while (i < before->n || j < now->n) {
        const struct volume_info *b = i < before->n ? &before->v[i] : NULL, *a = j < now->n ? &now->v[j] : NULL;
        if (a == NULL || (b != NULL && b->id < a->id)) {
            fill_short(went.pointers[n_went++], b);
            i++;
        } else if (b == NULL || a->id < b->id) {
            if (a->no_write != 0)
                goto out; /* not to be taken for writable */
            fill_short(came.pointers[n_came++], a);
            j++;
        } else {
            if (a->no_write != b->no_write || strcmp(a->collection, b->collection) != 0 ||
                store_fill_step(limit, a->dat_bytes) != store_fill_step(limit, b->dat_bytes))
                goto out;
            i++;
            j++;
        }
    }
    told = true;
    if (n_came + n_went > 0) {
        MasterPb__Heartbeat m = MASTER_PB__HEARTBEAT__INIT;
        fill_node(&m, now->s);
        m.new_volumes = (MasterPb__VolumeShortInformationMessage **)came.pointers;
        m.n_new_volumes = n_came;
        m.deleted_volumes = (MasterPb__VolumeShortInformationMessage **)went.pointers;
        m.n_deleted_volumes = n_went;
        grpc_call_send(call, &m.base);
    }
out:
    rows_free(&came);
    rows_free(&went);
    return told;
}
