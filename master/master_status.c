/* Status documents, metrics and the page for browsers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "master/master.h"
#include "needle/check.h"
#include "net/clock.h"

uint64_t master_resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL)
        return 0;
    if (fscanf(f, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- /dir/status ---- */

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* " 2 4 6 14 16-17": as the peer writes the ids of a server. */
static void put_volume_ids(struct jsonw *w, const struct data_node *n)
{
    uint32_t *ids = malloc(((size_t)n->volume_count + 1) * sizeof *ids);
    struct metric_text t = {0};

    for (uint32_t i = 0; ids != NULL && i < n->volume_count; i++)
        ids[i] = n->volumes[i]->id;
    if (ids != NULL)
        qsort(ids, n->volume_count, sizeof *ids, compare_ids);
    for (uint32_t i = 0; ids != NULL && i < n->volume_count;) {
        uint32_t j = i;

        while (j + 1 < n->volume_count && ids[j + 1] == ids[j] + 1)
            j++;
        metric_text_printf(&t, j > i ? " %u-%u" : " %u", ids[i], ids[j]);
        i = j + 1;
    }
    jsonw_put_string(w, "VolumeIds", bytes_of(t.data, t.failed ? 0 : t.len));
    metric_text_release(&t);
    free(ids);
}

static void put_node(struct jsonw *w, const struct data_node *n)
{
    jsonw_object(w);
    jsonw_put_str(w, "Url", n->url);
    jsonw_put_str(w, "PublicUrl", n->public_url);
    jsonw_put_u64(w, "Volumes", n->volume_count);
    jsonw_put_u64(w, "EcShards", 0);
    jsonw_put_u64(w, "Max", n->max_volumes);
    jsonw_put_u64(w, "Free", data_node_free_slots(n));
    put_volume_ids(w, n);
    if (n->last_error[0] != '\0')
        jsonw_put_str(w, "LastError", n->last_error);
    jsonw_object_end(w);
}

static void put_racks(const struct topology *t, struct jsonw *w, const char *data_center)
{
    jsonw_put_array(w, "Racks");
    for (const struct data_node *n = t->nodes; n != NULL; n = n->next) {
        if (!n->up || strcmp(n->data_center, data_center) != 0 || !topology_first_of_rack(t, n))
            continue;
        jsonw_object(w);
        jsonw_put_str(w, "Id", n->rack);
        jsonw_put_array(w, "DataNodes");
        for (const struct data_node *o = n; o != NULL; o = o->next)
            if (o->up && strcmp(o->data_center, data_center) == 0 && strcmp(o->rack, n->rack) == 0)
                put_node(w, o);
        jsonw_array_end(w);
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
}

static void put_ttl(struct jsonw *w, struct ttl ttl)
{
    char text[TTL_TEXT_MAX];

    jsonw_put_string(w, "ttl", bytes_of(text, ttl_format(ttl, text)));
}

static int put_layout(struct volume_layout *l, void *arg)
{
    struct jsonw *w = arg;
    char rp[4];

    if (l->volume_count == 0)
        return 0;
    replica_placement_format(l->placement, rp);
    jsonw_object(w);
    jsonw_put_str(w, "replication", rp);
    put_ttl(w, l->ttl);
    jsonw_put_array(w, "writables");
    for (uint32_t i = 0; i < l->writable_count; i++)
        jsonw_u64(w, l->writable[i]->id);
    jsonw_array_end(w);
    jsonw_put_str(w, "collection", l->collection);
    jsonw_put_str(w, "diskType", "hdd");
    jsonw_object_end(w);
    return 0;
}

void status_dir(struct master_server *m, struct jsonw *w)
{
    const struct topology *t = &m->topology;
    struct topology_sums sums;

    topology_sums(t, &sums);
    jsonw_object(w);
    jsonw_put_object(w, "Topology");
    jsonw_put_u64(w, "Max", sums.max_volumes);
    jsonw_put_u64(w, "Free", sums.free_slots);
    jsonw_put_array(w, "DataCenters");
    for (const struct data_node *n = t->nodes; n != NULL; n = n->next) {
        if (!n->up || !topology_first_of_data_center(t, n))
            continue;
        jsonw_object(w);
        jsonw_put_str(w, "Id", n->data_center);
        put_racks(t, w, n->data_center);
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
    jsonw_put_array(w, "Layouts");
    volume_layout_each(&m->topology, put_layout, w);
    jsonw_array_end(w);
    jsonw_object_end(w);
    jsonw_put_str(w, "TopologyId", sequencer_cluster_id(m->sequencer));
    jsonw_key(w, "Vacuum");
    vacuum_status(m, w);
    if (sequencer_trouble(m->sequencer)[0] != '\0')
        jsonw_put_str(w, "Trouble", sequencer_trouble(m->sequencer));
    jsonw_put_str(w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(w);
}

/* ---- /vol/status ---- */

static void put_volume(struct master_server *m, struct jsonw *w, const struct topo_volume *v, const struct replica *r)
{
    const struct replica_placement *rp = &v->layout->placement;
    const char *why = volume_layout_why_not(&m->topology, v);

    jsonw_object(w);
    jsonw_put_u64(w, "Id", v->id);
    jsonw_put_str(w, "Collection", v->layout->collection);
    jsonw_put_str(w, "DiskType", "");
    jsonw_put_object(w, "ReplicaPlacement");
    if (rp->same_rack != 0)
        jsonw_put_u64(w, "node", rp->same_rack);
    if (rp->other_racks != 0)
        jsonw_put_u64(w, "rack", rp->other_racks);
    if (rp->other_data_centers != 0)
        jsonw_put_u64(w, "dc", rp->other_data_centers);
    jsonw_object_end(w);
    jsonw_put_object(w, "Ttl");
    jsonw_put_u64(w, "Count", v->layout->ttl.count);
    jsonw_put_u64(w, "Unit", v->layout->ttl.unit);
    jsonw_object_end(w);
    jsonw_put_u64(w, "Size", r->size_bytes);
    jsonw_put_u64(w, "FileCount", r->file_count);
    jsonw_put_u64(w, "DeleteCount", r->delete_count);
    jsonw_put_u64(w, "DeletedByteCount", r->deleted_bytes);
    jsonw_put_i64(w, "ModifiedAtSecond", r->modified_s);
    jsonw_put_u64(w, "CompactRevision", r->compact_revision);
    jsonw_put_u64(w, "DiskId", r->disk_id);
    jsonw_put_u64(w, "Version", v->version);
    jsonw_put_bool(w, "ReadOnly", r->read_only);
    if (why != NULL)
        jsonw_put_str(w, "NotWritable", why);
    jsonw_object_end(w);
}

static void put_rack_volumes(struct master_server *m, struct jsonw *w, const struct data_node *first)
{
    jsonw_put_object(w, first->rack);
    for (const struct data_node *n = first; n != NULL; n = n->next) {
        if (!n->up || strcmp(n->data_center, first->data_center) != 0 || strcmp(n->rack, first->rack) != 0)
            continue;
        jsonw_put_array(w, n->url);
        for (uint32_t i = 0; i < n->volume_count; i++)
            put_volume(m, w, n->volumes[i], topo_volume_replica(n->volumes[i], n));
        jsonw_array_end(w);
    }
    jsonw_object_end(w);
}

void status_volumes(struct master_server *m, struct jsonw *w)
{
    const struct topology *t = &m->topology;
    struct topology_sums sums;

    topology_sums(t, &sums);
    jsonw_object(w);
    jsonw_put_str(w, "Version", DFS_NAME_AND_VERSION);
    jsonw_put_object(w, "Volumes");
    jsonw_put_object(w, "DataCenters");
    for (const struct data_node *n = t->nodes; n != NULL; n = n->next) {
        if (!n->up || !topology_first_of_data_center(t, n))
            continue;
        jsonw_put_object(w, n->data_center);
        for (const struct data_node *o = n; o != NULL; o = o->next)
            if (o->up && strcmp(o->data_center, n->data_center) == 0 && topology_first_of_rack(t, o))
                put_rack_volumes(m, w, o);
        jsonw_object_end(w);
    }
    jsonw_object_end(w);
    jsonw_put_u64(w, "Free", sums.free_slots);
    jsonw_put_u64(w, "Max", sums.max_volumes);
    jsonw_object_end(w);
    jsonw_object_end(w);
}

void status_cluster(struct master_server *m, struct jsonw *w)
{
    jsonw_object(w);
    jsonw_put_bool(w, "IsLeader", true);
    jsonw_put_str(w, "Leader", m->self_grpc);
    jsonw_put_u64(w, "MaxVolumeId", sequencer_max_volume_id(m->sequencer));
    jsonw_put_str(w, "TopologyId", sequencer_cluster_id(m->sequencer));
    jsonw_object_end(w);
}

/* ---- /collection/info ---- */

struct collection_sums {
    const char *name;
    uint64_t files, deleted, size, volumes;
    struct jsonw *detail;
};

static int add_collection(struct topo_volume *v, void *arg)
{
    struct collection_sums *c = arg;
    const struct replica *r = &v->replicas[0];

    if (strcmp(v->layout->collection, c->name) != 0)
        return 0;
    c->volumes++;
    c->files += r->file_count - r->delete_count;
    c->deleted += r->deleted_bytes;
    c->size += r->size_bytes;
    if (c->detail != NULL) {
        jsonw_object(c->detail);
        jsonw_put_u64(c->detail, "Id", v->id);
        jsonw_put_u64(c->detail, "Size", r->size_bytes);
        jsonw_put_u64(c->detail, "FileCount", r->file_count);
        jsonw_put_u64(c->detail, "DeleteCount", r->delete_count);
        jsonw_put_u64(c->detail, "DeletedByteCount", r->deleted_bytes);
        jsonw_object_end(c->detail);
    }
    return 0;
}

void status_collection(struct master_server *m, const char *name, bool detail, struct jsonw *w)
{
    struct collection_sums c = {.name = name, .detail = detail ? w : NULL};

    if (detail) {
        jsonw_array(w);
        topology_each_volume(&m->topology, add_collection, &c);
        jsonw_array_end(w);
        return;
    }
    topology_each_volume(&m->topology, add_collection, &c);
    jsonw_object(w);
    jsonw_put_str(w, "Collection", name);
    jsonw_put_u64(w, "FileCount", c.files);
    jsonw_put_u64(w, "TotalSize", c.volumes * m->topology.size_limit_bytes);
    jsonw_put_u64(w, "UsedSize", c.size);
    jsonw_put_str(w, "Version", DFS_NAME_AND_VERSION);
    jsonw_put_u64(w, "VolumeCount", c.volumes);
    jsonw_object_end(w);
}

/* ---- the page ---- */

void status_page(struct master_server *m, struct metric_text *out)
{
    struct topology_sums sums;

    topology_sums(&m->topology, &sums);
    metric_text_printf(out,
                       "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>dfs master %s</title>"
                       "<style>body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}td,th{border:1px solid #ccc;"
                       "padding:.3em .7em;text-align:left}</style></head><body><h1>dfs master %s</h1><p>%s, up %llu s. %u volume "
                       "server%s up, %u down; %llu volumes, %llu of %llu slots free.</p><table><tr><th>server</th><th>data "
                       "center</th><th>rack</th><th>volumes</th><th>free slots</th></tr>",
                       m->self, m->self, DFS_NAME_AND_VERSION, (unsigned long long)(clock_wall_s() - m->start_s), sums.nodes_up,
                       sums.nodes_up == 1 ? "" : "s", sums.nodes_down, (unsigned long long)sums.volumes,
                       (unsigned long long)sums.free_slots, (unsigned long long)sums.max_volumes);
    /* Every text here is an address or a checked name: nothing to escape. */
    for (const struct data_node *n = m->topology.nodes; n != NULL; n = n->next)
        metric_text_printf(out, "<tr><td>%s</td><td>%s</td><td>%s</td><td>%u</td><td>%s%llu</td></tr>", n->url,
                           n->data_center, n->rack, n->volume_count, n->up ? "" : "down, ",
                           (unsigned long long)data_node_free_slots(n));
    metric_text_printf(out, "</table><p><a href=\"/dir/status?pretty=y\">/dir/status</a> <a "
                            "href=\"/vol/status?pretty=y\">/vol/status</a> <a href=\"/metrics\">/metrics</a></p></body></html>\n");
}

/* ---- metrics ---- */

static void put_counter(struct metric_text *t, const char *name, const char *help, uint64_t v)
{
    metric_text_printf(t, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", name, help, name, name, (unsigned long long)v);
}

static int put_layout_gauge(struct volume_layout *l, void *arg)
{
    struct metric_text *t = arg;
    char rp[4], ttl[TTL_TEXT_MAX];

    if (l->volume_count == 0)
        return 0;
    replica_placement_format(l->placement, rp);
    ttl_format(l->ttl, ttl);
    metric_text_printf(t, "SeaweedFS_master_volume_layout_writable{collection=\"%s\",disk=\"hdd\",rp=\"%s\",ttl=\"%s\"} %u\n",
                       l->collection, rp, ttl, l->writable_count);
    return 0;
}

static int put_crowded_gauge(struct volume_layout *l, void *arg)
{
    struct metric_text *t = arg;
    char rp[4], ttl[TTL_TEXT_MAX];
    uint32_t crowded = 0;

    if (l->volume_count == 0)
        return 0;
    for (uint32_t i = 0; i < l->writable_count; i++)
        crowded += topo_volume_size(l->writable[i]) > l->topology->size_limit_bytes / 10 * 9;
    replica_placement_format(l->placement, rp);
    ttl_format(l->ttl, ttl);
    metric_text_printf(t, "SeaweedFS_master_volume_layout_crowded{collection=\"%s\",disk=\"hdd\",rp=\"%s\",ttl=\"%s\"} %u\n",
                       l->collection, rp, ttl, crowded);
    return 0;
}

static void collect(struct metric_text *t, void *arg)
{
    struct master_server *m = arg;
    const uint64_t *c = m->counts;

    metric_text_printf(t, "# TYPE SeaweedFS_master_start_time_seconds gauge\nSeaweedFS_master_start_time_seconds %llu\n"
                          "# TYPE SeaweedFS_master_is_leader gauge\nSeaweedFS_master_is_leader 1\n",
                       (unsigned long long)m->start_s);
    metric_text_printf(t,
                       "# TYPE SeaweedFS_master_received_heartbeats counter\n"
                       "SeaweedFS_master_received_heartbeats{type=\"Volumes\"} %llu\n"
                       "SeaweedFS_master_received_heartbeats{type=\"error\"} %llu\n"
                       "SeaweedFS_master_received_heartbeats{type=\"newVolumes\"} %llu\n"
                       "SeaweedFS_master_received_heartbeats{type=\"total\"} %llu\n",
                       (unsigned long long)c[COUNT_BEAT_FULL], (unsigned long long)c[COUNT_BEAT_ERROR],
                       (unsigned long long)c[COUNT_BEAT_DELTA], (unsigned long long)c[COUNT_BEAT]);
    metric_text_printf(t, "# TYPE SeaweedFS_master_volume_layout_writable gauge\n");
    volume_layout_each(&m->topology, put_layout_gauge, t);
    metric_text_printf(t, "# TYPE SeaweedFS_master_volume_layout_crowded gauge\n");
    volume_layout_each(&m->topology, put_crowded_gauge, t);
    metric_text_printf(t,
                       "# TYPE SeaweedFS_master_volume_creation_total counter\n"
                       "SeaweedFS_master_volume_creation_total{result=\"failure\"} %llu\n"
                       "SeaweedFS_master_volume_creation_total{result=\"success\"} %llu\n",
                       (unsigned long long)m->grower.failed, (unsigned long long)m->grower.created);
    put_counter(t, "SeaweedFS_master_pick_for_write_error", "assigns that found no writable volume at first",
                c[COUNT_PICK_FAILED]);
    put_counter(t, "SeaweedFS_master_broadcast_to_full", "clients dropped because they did not read",
                c[COUNT_BROADCAST_FULL]);
    put_counter(t, "dfs_master_assigns_total", "assigns asked for", c[COUNT_ASSIGN]);
    put_counter(t, "dfs_master_assigns_refused_total", "assigns refused", c[COUNT_ASSIGN_REFUSED]);
    put_counter(t, "dfs_master_lookups_total", "lookups asked for", c[COUNT_LOOKUP]);
    put_counter(t, "dfs_master_lookups_failed_total", "lookups of what is not known", c[COUNT_LOOKUP_FAILED]);
    put_counter(t, "dfs_master_http_requests_total", "HTTP requests", c[COUNT_HTTP]);
}

int master_metrics_init(struct master_server *m)
{
    int rc = metrics_new(&m->metrics);

    return rc != 0 ? rc : metrics_collector(m->metrics, collect, m);
}
