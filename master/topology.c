/* The tree of servers and the table of volumes. */
#include "master/topology.h"

#include <stdlib.h>
#include <string.h>

#include "master/volume_layout.h"
#include "needle/err.h"
#include "net/http_util.h"

#define FIRST_BUCKETS 1024u

static uint32_t bucket_of(const struct topology *t, uint32_t volume_id)
{
    return (volume_id * 2654435761u) & (t->bucket_count - 1);
}

int topology_init(struct topology *t, uint64_t size_limit_bytes)
{
    memset(t, 0, sizeof *t);
    t->size_limit_bytes = size_limit_bytes;
    t->bucket_count = FIRST_BUCKETS;
    t->buckets = calloc(t->bucket_count, sizeof *t->buckets);
    t->layouts = calloc(TOPOLOGY_LAYOUT_BUCKETS, sizeof *t->layouts);
    if (t->buckets == NULL || t->layouts == NULL) {
        topology_release(t);
        return DFS_ENOMEM;
    }
    return 0;
}

static void free_volume(struct topo_volume *v)
{
    free(v->replicas);
    free(v);
}

void topology_release(struct topology *t)
{
    for (uint32_t i = 0; t->buckets != NULL && i < t->bucket_count; i++) {
        while (t->buckets[i] != NULL) {
            struct topo_volume *v = t->buckets[i];

            t->buckets[i] = v->next;
            free_volume(v);
        }
    }
    for (uint32_t i = 0; t->layouts != NULL && i < TOPOLOGY_LAYOUT_BUCKETS; i++) {
        while (t->layouts[i] != NULL) {
            struct volume_layout *l = t->layouts[i];

            t->layouts[i] = l->next;
            volume_layout_free(l);
        }
    }
    while (t->nodes != NULL) {
        struct data_node *n = t->nodes;

        t->nodes = n->next;
        data_node_free(n);
    }
    free(t->buckets);
    free(t->layouts);
    memset(t, 0, sizeof *t);
}

/* ---- nodes ---- */

struct data_node *topology_find_node(struct topology *t, struct bytes url)
{
    for (struct data_node *n = t->nodes; n != NULL; n = n->next)
        if (bytes_eq(bytes_str(n->url), url) || bytes_eq(bytes_str(n->id), url))
            return n;
    return NULL;
}

int topology_node(struct topology *t, const struct addr *addr, struct data_node **out)
{
    char url[ADDR_TEXT_MAX];
    struct data_node *n;
    int rc;

    addr_format(addr, url);
    n = topology_find_node(t, bytes_str(url));
    if (n == NULL) {
        if (t->node_count >= TOPOLOGY_NODES_MAX)
            return DFS_ENOSPC;
        rc = data_node_new(addr, &n);
        if (rc != 0)
            return rc;
        n->next = t->nodes;
        t->nodes = n;
        t->node_count++;
    }
    *out = n;
    return 0;
}

struct data_node *topology_uuid_owner(struct topology *t, const struct data_node *but, struct bytes uuid)
{
    for (struct data_node *n = t->nodes; n != NULL; n = n->next) {
        if (n == but || !n->up)
            continue;
        for (uint32_t i = 0; i < n->uuid_count; i++)
            if (bytes_eq(bytes_str(n->uuids[i]), uuid))
                return n;
    }
    return NULL;
}

void topology_node_down(struct topology *t, struct data_node *n)
{
    n->up = false;
    while (n->volume_count > 0)
        topology_forget(t, n, n->volumes[n->volume_count - 1]->id);
    n->ec_slots = 0;
    n->uuid_count = 0;
    n->loading = false;
    n->maintenance = false;
}

bool topology_first_of_data_center(const struct topology *t, const struct data_node *n)
{
    for (const struct data_node *o = t->nodes; o != n; o = o->next)
        if (o->up && strcmp(o->data_center, n->data_center) == 0)
            return false;
    return true;
}

bool topology_first_of_rack(const struct topology *t, const struct data_node *n)
{
    for (const struct data_node *o = t->nodes; o != n; o = o->next)
        if (o->up && strcmp(o->data_center, n->data_center) == 0 && strcmp(o->rack, n->rack) == 0)
            return false;
    return true;
}

void topology_sums(const struct topology *t, struct topology_sums *out)
{
    memset(out, 0, sizeof *out);
    for (const struct data_node *n = t->nodes; n != NULL; n = n->next) {
        if (!n->up) {
            out->nodes_down++;
            continue;
        }
        out->nodes_up++;
        out->nodes_loading += n->loading || !n->reachable;
        out->max_volumes += n->max_volumes;
        out->free_slots += data_node_free_slots(n);
        out->volumes += n->volume_count;
    }
}

/* ---- volumes ---- */

struct topo_volume *topology_find(struct topology *t, uint32_t volume_id)
{
    struct topo_volume *v = t->buckets[bucket_of(t, volume_id)];

    while (v != NULL && v->id != volume_id)
        v = v->next;
    return v;
}

static void grow_table(struct topology *t)
{
    uint32_t old_count = t->bucket_count;
    struct topo_volume **old = t->buckets, **grown = calloc(old_count * 2, sizeof *grown);

    if (grown == NULL)
        return; /* longer chains, nothing worse */
    t->buckets = grown;
    t->bucket_count = old_count * 2;
    for (uint32_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct topo_volume *v = old[i];
            uint32_t b = bucket_of(t, v->id);

            old[i] = v->next;
            v->next = grown[b];
            grown[b] = v;
        }
    }
    free(old);
}

static int add_volume(struct topology *t, const struct volume_report *r, struct volume_layout *l, struct topo_volume **out)
{
    struct topo_volume *v;
    uint32_t b;

    if (t->volume_count >= TOPOLOGY_VOLUMES_MAX)
        return DFS_ENOSPC;
    v = calloc(1, sizeof *v);
    if (v == NULL)
        return DFS_ENOMEM;
    if (t->volume_count >= t->bucket_count)
        grow_table(t);
    v->id = r->id;
    v->layout = l;
    v->writable_index = -1;
    b = bucket_of(t, v->id);
    v->next = t->buckets[b];
    t->buckets[b] = v;
    t->volume_count++;
    l->volume_count++;
    *out = v;
    return 0;
}

static void remove_volume(struct topology *t, struct topo_volume *v)
{
    struct topo_volume **at = &t->buckets[bucket_of(t, v->id)];

    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    t->volume_count--;
    volume_layout_remove(v->layout, v);
    v->layout->volume_count--;
    free_volume(v);
}

struct replica *topo_volume_replica(struct topo_volume *v, const struct data_node *n)
{
    for (uint32_t i = 0; i < v->replica_count; i++)
        if (v->replicas[i].node == n)
            return &v->replicas[i];
    return NULL;
}

uint64_t topo_volume_size(const struct topo_volume *v)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < v->replica_count; i++)
        if (v->replicas[i].size_bytes > size)
            size = v->replicas[i].size_bytes;
    return size;
}

static uint64_t most_files(const struct topo_volume *v)
{
    uint64_t files = 0;

    for (uint32_t i = 0; i < v->replica_count; i++)
        if (v->replicas[i].file_count > files)
            files = v->replicas[i].file_count;
    return files;
}

static int add_replica(struct topology *t, struct topo_volume *v, struct data_node *n, struct replica **out)
{
    int rc;

    if (v->replica_count == v->replica_cap) {
        uint32_t cap = v->replica_cap == 0 ? 1 : v->replica_cap * 2;
        struct replica *grown = realloc(v->replicas, cap * sizeof *grown);

        if (grown == NULL)
            return DFS_ENOMEM;
        v->replicas = grown;
        v->replica_cap = cap;
    }
    rc = data_node_add_volume(n, v);
    if (rc != 0)
        return rc;
    *out = &v->replicas[v->replica_count++];
    memset(*out, 0, sizeof **out);
    (*out)->node = n;
    if (t->on_location != NULL)
        t->on_location(t->arg, n, v->id, true);
    return 0;
}

/* A volume may come back under another placement or ttl (configured anew): it moves to that layout. */
static void move_layout(struct topo_volume *v, struct volume_layout *l)
{
    volume_layout_remove(v->layout, v);
    v->layout->volume_count--;
    l->volume_count++;
    v->layout = l;
}

/* What a report shows more than any copy had before.  Every copy reports the same ids: the first to do so counts. */
static void count_arrivals(struct topo_volume *v, uint64_t size_before, uint64_t files_before)
{
    uint64_t size = topo_volume_size(v), files = most_files(v);

    if (size > size_before && files > files_before)
        volume_room_arrived(&v->room, &v->layout->sizes, files - files_before, size - size_before);
}

int topology_report(struct topology *t, struct data_node *n, const struct volume_report *r)
{
    struct topo_volume *v = topology_find(t, r->id);
    struct volume_layout *l;
    struct replica *rep;
    uint64_t size, files;
    int rc;

    if (!name_is_safe(r->collection) || r->id == 0)
        return DFS_EINVAL;
    rc = volume_layout_get(t, r->collection, r->placement, r->ttl, &l);
    if (rc == 0 && v == NULL)
        rc = add_volume(t, r, l, &v);
    if (rc != 0)
        return rc;
    if (v->layout != l)
        move_layout(v, l);
    rep = topo_volume_replica(v, n);
    if (rep == NULL)
        rc = add_replica(t, v, n, &rep);
    if (rc == 0) {
        size = topo_volume_size(v);
        files = most_files(v);
        rep->size_bytes = r->size_bytes;
        rep->file_count = r->file_count;
        rep->delete_count = r->delete_count;
        rep->deleted_bytes = r->deleted_bytes;
        rep->read_only = r->read_only;
        rep->compact_revision = r->compact_revision;
        rep->modified_s = r->modified_s;
        rep->disk_id = r->disk_id;
        rep->seen_beat = r->fresh ? n->beat_seq + 1 : n->beat_seq;
        v->version = r->version;
        count_arrivals(v, size, files);
        if (n->decay && v->replicas[0].node == n)
            volume_room_decay(&v->room);
    }
    if (v->replica_count == 0)
        remove_volume(t, v);
    else
        volume_layout_update(t, v);
    return rc;
}

void topology_forget(struct topology *t, struct data_node *n, uint32_t volume_id)
{
    struct topo_volume *v = topology_find(t, volume_id);
    struct replica *rep = v != NULL ? topo_volume_replica(v, n) : NULL;

    if (rep == NULL)
        return;
    *rep = v->replicas[--v->replica_count];
    data_node_remove_volume(n, v);
    if (t->on_location != NULL)
        t->on_location(t->arg, n, volume_id, false);
    if (v->replica_count == 0)
        remove_volume(t, v);
    else
        volume_layout_update(t, v);
}

void topology_full_beat_done(struct topology *t, struct data_node *n)
{
    for (uint32_t i = n->volume_count; i-- > 0;) {
        struct topo_volume *v = n->volumes[i];
        const struct replica *rep = topo_volume_replica(v, n);

        if (rep != NULL && rep->seen_beat < n->beat_seq)
            topology_forget(t, n, v->id);
    }
}

void topology_refresh(struct topology *t, struct topo_volume *v)
{
    volume_layout_update(t, v);
}

int topology_each_volume(struct topology *t, int (*fn)(struct topo_volume *v, void *arg), void *arg)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < t->bucket_count; i++)
        for (struct topo_volume *v = t->buckets[i]; rc == 0 && v != NULL; v = v->next)
            rc = fn(v, arg);
    return rc;
}
