/* Looking up volume servers' names. */
#include "master/node_reach.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "master/assign.h"
#include "master/master.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"

struct name_lookup {
    struct work work;
    struct master_server *master;
    struct data_node *node;
    struct addr addr; /* in: a name; out: numeric */
    int rc;
};

/* What waited for calls that end here may call the server at once: by the new address. */
static void set_reach(struct data_node *n, const struct addr *to)
{
    bool moved = !n->reachable || n->reach.grpc_port != to->grpc_port || strcmp(n->reach.host, to->host) != 0;
    struct grpc_channel *old = moved ? n->channel : NULL;

    if (moved)
        n->channel = NULL;
    n->reach = *to;
    n->reachable = true;
    n->lookup_again_ms = 0;
    grpc_channel_free(old);
}

static void run_lookup(struct work *w)
{
    struct name_lookup *l = CONTAINER_OF(w, struct name_lookup, work);
    struct sockaddr_storage sa;
    socklen_t len;

    l->rc = addr_resolve(&l->addr, false, &sa, &len);
    if (l->rc == 0 &&
        getnameinfo((struct sockaddr *)&sa, len, l->addr.host, sizeof l->addr.host, NULL, 0, NI_NUMERICHOST) != 0)
        l->rc = DFS_EINVAL;
}

static void on_looked_up(struct work *w)
{
    struct name_lookup *l = CONTAINER_OF(w, struct name_lookup, work);
    struct master_server *m = l->master;
    struct data_node *n = l->node;
    struct addr to = n->addr; /* its ports may have changed meanwhile, its name is what it is found by */

    n->looking_up = false;
    if (l->rc == 0 && !n->closed) {
        memcpy(to.host, l->addr.host, sizeof to.host);
        set_reach(n, &to);
        if (!m->draining)
            assign_retry(m);
    } else if (l->rc != 0) {
        log_warning("volume server %s: its name cannot be looked up: %s", n->url, dfs_err_text(l->rc));
        n->lookup_again_ms = loop_now_ms(m->loop) + NODE_REACH_RETRY_MS;
    }
    free(l);
}

static void look_up(struct master_server *m, struct data_node *n)
{
    struct name_lookup *l = calloc(1, sizeof *l);

    if (l == NULL) {
        n->lookup_again_ms = loop_now_ms(m->loop) + NODE_REACH_RETRY_MS;
        return;
    }
    n->looking_up = true;
    n->lookup_again_ms = 0;
    l->work = (struct work){.loop = m->loop, .run = run_lookup, .done = on_looked_up};
    l->master = m;
    l->node = n;
    l->addr = n->addr;
    work_submit(m->names, &l->work);
}

void node_reach(struct master_server *m, struct data_node *n, const struct addr *addr)
{
    struct sockaddr_storage sa;
    socklen_t len;

    n->addr = *addr;
    if (addr_numeric(addr->host, addr->port, &sa, &len) == 0) {
        set_reach(n, addr);
        return;
    }
    if (n->reachable && n->reach.grpc_port != addr->grpc_port) {
        struct addr to = *addr; /* where it was, until the answer comes */

        memcpy(to.host, n->reach.host, sizeof to.host);
        set_reach(n, &to);
    }
    if (!n->looking_up)
        look_up(m, n);
}

void node_reach_sweep(struct master_server *m)
{
    uint64_t now_ms = loop_now_ms(m->loop);

    for (struct data_node *n = m->topology.nodes; n != NULL; n = n->next)
        if (n->up && !n->looking_up && n->lookup_again_ms != 0 && n->lookup_again_ms <= now_ms)
            look_up(m, n);
}
