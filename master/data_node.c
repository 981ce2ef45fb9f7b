/* Volume servers. */
#include "master/data_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

int data_node_new(const struct addr *addr, struct data_node **out)
{
    struct data_node *n = calloc(1, sizeof *n);

    if (n == NULL)
        return DFS_ENOMEM;
    n->addr = *addr;
    addr_format(addr, n->url);
    *out = n;
    return 0;
}

void data_node_close(struct data_node *n)
{
    struct grpc_channel *ch = n->channel;

    n->closed = true;
    n->channel = NULL;
    if (ch != NULL)
        grpc_channel_free(ch);
}

void data_node_free(struct data_node *n)
{
    if (n == NULL)
        return;
    data_node_close(n);
    free(n->volumes);
    free(n);
}

uint64_t data_node_free_slots(const struct data_node *n)
{
    uint64_t used = n->volume_count + n->pending_volumes + n->ec_slots;

    return n->up && !n->maintenance && n->max_volumes > used ? n->max_volumes - used : 0;
}

int data_node_channel(struct data_node *n, struct loop *loop, struct grpc_channel **out)
{
    int rc = n->closed ? DFS_ECANCELLED : n->reachable ? 0 : DFS_EUNAVAILABLE;

    if (rc == 0 && n->channel == NULL)
        rc = grpc_channel_new(loop, &n->reach, NULL, NULL, &n->channel);
    if (rc == 0)
        *out = n->channel;
    return rc;
}

int data_node_add_volume(struct data_node *n, struct topo_volume *v)
{
    if (n->volume_count == n->volume_cap) {
        uint32_t cap = n->volume_cap == 0 ? 16 : n->volume_cap * 2;
        struct topo_volume **grown = realloc(n->volumes, cap * sizeof *grown);

        if (grown == NULL)
            return DFS_ENOMEM;
        n->volumes = grown;
        n->volume_cap = cap;
    }
    n->volumes[n->volume_count++] = v;
    return 0;
}

void data_node_remove_volume(struct data_node *n, struct topo_volume *v)
{
    /* From the end: a server that goes down is emptied from there. */
    for (uint32_t i = n->volume_count; i-- > 0;) {
        if (n->volumes[i] == v) {
            n->volumes[i] = n->volumes[--n->volume_count];
            return;
        }
    }
}

void data_node_allocation_failed(struct data_node *n, uint64_t now_ms, const char *why)
{
    n->backoff_ms = n->backoff_ms == 0 ? DATA_NODE_BACKOFF_MS : n->backoff_ms * 2;
    if (n->backoff_ms > DATA_NODE_BACKOFF_MAX_MS)
        n->backoff_ms = DATA_NODE_BACKOFF_MAX_MS;
    n->backoff_until_ms = now_ms + n->backoff_ms;
    snprintf(n->last_error, sizeof n->last_error, "%s", why);
}

void data_node_allocation_worked(struct data_node *n)
{
    n->backoff_ms = 0;
    n->backoff_until_ms = 0;
    n->last_error[0] = '\0';
}
