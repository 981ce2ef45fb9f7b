/* Collections: which exist, and deleting one with all its volumes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/master.h"
#include "needle/err.h"
#include "net/grpc.h"
#include "net/log.h"
#include "net/pb/volume.pb-c.h"

#define DELETE_TIMEOUT_MS 60000u

struct deletion {
    struct master_server *master;
    char name[PLACE_NAME_MAX + 1];
    uint32_t pending;
    int rc;
    char why[ADDR_TEXT_MAX + 256];
    collection_delete_cb *done;
    void *arg;
};

struct deletion_call {
    struct deletion *deletion;
    struct data_node *node;
};

static int has_volumes(struct volume_layout *l, void *arg)
{
    const struct bytes *name = arg;

    return l->volume_count > 0 && bytes_eq(bytes_str(l->collection), *name) ? 1 : 0;
}

bool collection_exists(struct master_server *m, struct bytes name)
{
    return volume_layout_each(&m->topology, has_volumes, &name) != 0;
}

static bool node_has_it(const struct data_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->volume_count; i++)
        if (strcmp(n->volumes[i]->layout->collection, name) == 0)
            return true;
    return false;
}

static void forget_all(struct deletion *d, struct data_node *n)
{
    for (uint32_t i = n->volume_count; i-- > 0;)
        if (i < n->volume_count && strcmp(n->volumes[i]->layout->collection, d->name) == 0)
            topology_forget(&d->master->topology, n, n->volumes[i]->id);
}

static void end_deletion(struct deletion *d)
{
    d->done(d->arg, d->rc, d->why);
    free(d);
}

static void on_deleted(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    struct deletion_call *c = arg;
    struct deletion *d = c->deletion;

    (void)response;
    if (status == GRPC_OK) {
        forget_all(d, c->node);
    } else {
        d->rc = DFS_EIO;
        snprintf(d->why, sizeof d->why, "collection '%.80s' could not be deleted at %.60s: %.*s", d->name, c->node->url,
                 (int)(message.n < 80 ? message.n : 80), message.n != 0 ? message.p : "");
    }
    free(c);
    if (--d->pending == 0)
        end_deletion(d);
}

static int delete_at(struct deletion *d, struct data_node *n)
{
    VolumeServerPb__DeleteCollectionRequest req = VOLUME_SERVER_PB__DELETE_COLLECTION_REQUEST__INIT;
    struct deletion_call *c = malloc(sizeof *c);
    struct grpc_channel *ch;
    int rc = c == NULL ? DFS_ENOMEM : data_node_channel(n, d->master->loop, &ch);

    if (rc == 0) {
        *c = (struct deletion_call){d, n};
        req.collection = d->name;
        rc = grpc_unary(ch, "/volume_server_pb.VolumeServer/DeleteCollection", &req.base,
                        &volume_server_pb__delete_collection_response__descriptor, DELETE_TIMEOUT_MS, on_deleted, c);
    }
    if (rc != 0)
        free(c);
    else
        d->pending++;
    return rc;
}

int collection_delete(struct master_server *m, struct bytes name, collection_delete_cb *done, void *arg)
{
    struct deletion *d;

    if (name.n == 0 || !name_is_safe(name) || name.n > PLACE_NAME_MAX)
        return DFS_EINVAL;
    if (!collection_exists(m, name))
        return DFS_ENOTFOUND;
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return DFS_ENOMEM;
    d->master = m;
    d->done = done;
    d->arg = arg;
    memcpy(d->name, name.p, name.n);
    log_info("collection '%s' is being deleted", d->name);
    for (struct data_node *n = m->topology.nodes; n != NULL; n = n->next) {
        int rc = n->up && node_has_it(n, d->name) ? delete_at(d, n) : 0;

        if (rc != 0) {
            d->rc = rc;
            snprintf(d->why, sizeof d->why, "%s: %s", n->url, dfs_err_text(rc));
        }
    }
    if (d->pending == 0) {
        int rc = d->rc != 0 ? d->rc : DFS_ENOTFOUND;

        free(d);
        return rc;
    }
    return 0;
}
