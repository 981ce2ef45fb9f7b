/* The master's life: state, ports, timers, and its end. */
#include "master/master_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/assign.h"
#include "master/master.h"
#include "master/node_reach.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/listener.h"
#include "net/log.h"

#define SUBMIT_POOL_SPARE (4u << 20)
#define VACUUM_LATER_S 60u

void master_options_init(struct master_options *o)
{
    *o = (struct master_options){
        .ip = "127.0.0.1",
        .ip_bind = "",
        .port = 9333,
        .metrics_ip = "",
        .dir = "",
        .peers = "",
        .volume_size_limit_bytes = 30720ull << 20,
        .default_replication = "000",
        .garbage_threshold = 0.3,
        .vacuum_interval_s = 840,
        .growth_copy = {7, 6, 3, 1},
        .pulse_s = 5,
        .file_size_limit_bytes = 256ull << 20,
        .idle_timeout_s = 30,
        .max_connections = 65536,
        .white_list = "",
    };
}

static void on_location(void *arg, struct data_node *node, uint32_t volume_id, bool added)
{
    keep_connected_location(arg, node, volume_id, added);
}

static void on_sweep(void *arg)
{
    struct master_server *m = arg;

    heartbeat_sweep(m);
    node_reach_sweep(m);
    assign_sweep(m);
    if (loop_now_ms(m->loop) - m->start_ms < MASTER_WARM_UP_MS + 2 * MASTER_SWEEP_MS)
        assign_retry(m);
    volume_layout_drop_idle(&m->topology);
    loop_timer_set(&m->sweep, MASTER_SWEEP_MS);
}

/* The first is a little later: servers that start with the master are still opening their volumes. */
static uint64_t first_vacuum_ms(uint32_t interval_s)
{
    return ((uint64_t)interval_s + (interval_s < VACUUM_LATER_S ? interval_s : VACUUM_LATER_S)) * 1000;
}

static void on_vacuum_timer(void *arg)
{
    struct master_server *m = arg;
    uint32_t interval_s = m->options.vacuum_interval_s;

    if (!m->vacuum_disabled && !m->draining)
        vacuum_start(m, m->options.garbage_threshold, 0, NULL, NULL);
    loop_timer_set(&m->vacuum_timer, (uint64_t)interval_s * 1000);
}

/* More than one distinct peer needs a group of masters, which this master is not. */
struct peer_count {
    const struct master_server *master;
    struct addr first;
    uint32_t others;
};

static int count_peer(struct bytes entry, void *arg)
{
    struct peer_count *p = arg;
    struct addr a;
    char text[ADDR_TEXT_MAX];

    if (bytes_eq(entry, BYTES_LIT("none")))
        return 0;
    if (addr_parse(entry, &a) != 0) {
        fprintf(stderr, "dfs: option -master.peers: '%.*s' is no host:port\n", (int)entry.n, entry.p);
        return DFS_EINVAL;
    }
    addr_format(&a, text);
    if (strcmp(text, p->master->self) == 0)
        return 0;
    if (p->others == 0 || strcmp(p->first.host, a.host) != 0 || p->first.port != a.port)
        p->others++;
    p->first = a;
    return 0;
}

int master_peers_check(const struct master_options *o)
{
    struct master_server m = {.options = *o};
    struct peer_count p = {.master = &m};
    int rc;

    snprintf(m.self, sizeof m.self, "%s:%u", o->ip, o->port);
    rc = addr_list_each(bytes_str(o->peers), count_peer, &p);
    if (rc == 0 && p.others > 0) {
        fprintf(stderr, "dfs: -master.peers names %u other master%s: a group of masters is not supported yet, run one\n",
                p.others, p.others == 1 ? "" : "s");
        rc = DFS_EUNSUPPORTED;
    }
    return rc;
}

static int parse_options(struct master_server *m)
{
    struct master_options *o = &m->options;
    struct bytes bad;

    if (o->port_grpc == 0)
        o->port_grpc = o->port + ADDR_GRPC_PORT_STEP;
    if (o->port == 0 || o->port > UINT16_MAX || o->port_grpc > UINT16_MAX) {
        log_error("master ports %u and %u: both must be 1 to 65535", o->port, o->port_grpc);
        return DFS_EINVAL;
    }
    if (o->ip_bind[0] == '\0')
        o->ip_bind = o->ip;
    snprintf(m->self, sizeof m->self, "%s:%u", o->ip, o->port);
    snprintf(m->self_grpc, sizeof m->self_grpc, "%s:%u.%u", o->ip, o->port, o->port_grpc);
    if (replica_placement_parse(bytes_str(o->default_replication), &m->default_placement) != 0) {
        log_error("default replication '%s' is none", o->default_replication);
        return DFS_EINVAL;
    }
    whitelist_init(&m->white_list);
    if (whitelist_add(&m->white_list, bytes_str(o->white_list), &bad) != 0) {
        log_error("white list: '%.*s' is no address or network", (int)bad.n, bad.p);
        return DFS_EINVAL;
    }
    return master_peers_check(o);
}

static void init_grower(struct master_server *m)
{
    const struct master_options *o = &m->options;

    m->grower = (struct grower){
        .loop = m->loop,
        .topology = &m->topology,
        .sequencer = m->sequencer,
        .preallocate_bytes = o->volume_preallocate ? o->volume_size_limit_bytes : 0,
        .step = o->growth,
    };
    for (size_t i = 0; i < ARRAY_LEN(o->growth_copy); i++)
        m->grower.step_by_copies[i] = o->growth_copy[i];
}

static int start_http(struct master_server *m)
{
    const struct master_options *o = &m->options;
    struct http_server_options h;
    int rc;

    http_server_options_init(&h);
    h.accept_loop = m->loop;
    h.loops = &m->loop;
    h.loop_count = 1;
    h.host = o->ip_bind;
    h.port = (uint16_t)o->port;
    h.handler = &master_http_handler;
    h.arg = m;
    h.server_header = DFS_NAME_AND_VERSION;
    h.max_connections = o->max_connections;
    h.idle_timeout_ms = o->idle_timeout_s * 1000;
    rc = http_server_new(&h, &m->http);
    if (rc != 0) {
        log_error("cannot listen at %s:%u (-master.port): %s", o->ip_bind, o->port, listener_error_text(rc));
        return rc;
    }
    if (o->metrics_port == 0)
        return 0;
    h.host = o->metrics_ip[0] != '\0' ? o->metrics_ip : o->ip_bind;
    h.port = (uint16_t)o->metrics_port;
    h.handler = &master_metrics_handler;
    if (o->more_metrics != NULL) {
        rc = work_pool_new("dfs-m-metrics", 1, &m->metrics_pool);
        if (rc != 0)
            return rc;
    }
    rc = http_server_new(&h, &m->http_metrics);
    if (rc != 0) /* an optional listener never ends the daemon */
        log_error("cannot listen at %s:%u (-metricsPort): %s; going on without it", h.host, h.port, listener_error_text(rc));
    return 0;
}

static int start_grpc(struct master_server *m)
{
    struct grpc_server_options g = {
        .loop = m->loop,
        .host = m->options.ip_bind,
        .port = (uint16_t)m->options.port_grpc,
        .methods = master_grpc_methods,
        .method_count = master_grpc_method_count,
        .arg = m,
    };
    int rc = grpc_server_new(&g, &m->grpc);

    if (rc != 0)
        log_error("cannot listen at %s:%u (-master.port.grpc): %s", g.host, g.port, listener_error_text(rc));
    return rc;
}

static int start_client(struct master_server *m)
{
    struct http_client_options c;
    uint64_t pool_bytes = m->options.file_size_limit_bytes + SUBMIT_POOL_SPARE;
    int rc = chunk_pool_new(pool_bytes, 0, &m->chunks);

    http_client_options_init(&c);
    c.loop = m->loop;
    return rc != 0 ? rc : http_client_new(&c, &m->client);
}

int master_server_new(struct loop *loop, const struct master_options *o, struct master_server **out)
{
    struct master_server *m = calloc(1, sizeof *m);
    int rc;

    if (m == NULL)
        return DFS_ENOMEM;
    m->options = *o;
    m->loop = loop;
    m->start_s = clock_wall_s();
    m->start_ms = clock_mono_ms();
    loop_timer_init(&m->sweep, loop, on_sweep, m);
    loop_timer_init(&m->vacuum_timer, loop, on_vacuum_timer, m);
    rc = parse_options(m);
    if (rc == 0)
        rc = topology_init(&m->topology, m->options.volume_size_limit_bytes);
    if (rc != 0)
        goto fail;
    m->topology.on_location = on_location;
    m->topology.arg = m;
    rc = work_pool_new("dfs-m-state", 1, &m->pool);
    if (rc == 0)
        rc = work_pool_new("dfs-m-names", 1, &m->names);
    if (rc == 0)
        rc = sequencer_open(m->options.dir, loop, m->pool, &m->sequencer);
    if (rc != 0)
        goto fail;
    m->servers_before = sequencer_servers(m->sequencer);
    init_grower(m);
    rc = master_metrics_init(m);
    if (rc == 0)
        rc = start_client(m);
    if (rc == 0)
        rc = start_http(m);
    if (rc == 0)
        rc = start_grpc(m);
    if (rc != 0)
        goto fail;
    m->swept_ms = loop_now_ms(loop);
    loop_timer_set(&m->sweep, MASTER_SWEEP_MS);
    if (m->options.vacuum_interval_s != 0)
        loop_timer_set(&m->vacuum_timer, first_vacuum_ms(m->options.vacuum_interval_s));
    *out = m;
    return 0;
fail:
    master_server_free(m);
    return rc;
}

/* ---- the end ---- */

static void on_drain_timer(void *arg)
{
    struct master_server *m = arg;
    void (*done)(void *) = m->drain_done;

    if (http_server_connections(m->http) > 0 && loop_now_ms(m->loop) < m->drain_until_ms) {
        loop_timer_set(&m->drain_timer, 20);
        return;
    }
    m->drain_done = NULL;
    if (done != NULL)
        done(m->drain_arg);
}

void master_server_drain(struct master_server *m, uint32_t timeout_ms, void (*done)(void *arg), void *arg)
{
    m->draining = true;
    m->drain_done = done;
    m->drain_arg = arg;
    m->drain_until_ms = loop_now_ms(m->loop) + timeout_ms;
    loop_timer_cancel(&m->vacuum_timer);
    http_server_drain(m->http);
    if (m->http_metrics != NULL)
        http_server_drain(m->http_metrics);
    grpc_server_drain(m->grpc);
    assign_refuse_all(m);
    vacuum_refuse_all(m);
    loop_timer_init(&m->drain_timer, m->loop, on_drain_timer, m);
    loop_timer_set(&m->drain_timer, 0);
}

void master_server_free(struct master_server *m)
{
    if (m == NULL)
        return;
    /* First what requests wait for, so that each is answered and let go; then the servers; then what their ends still look at. */
    m->draining = true;
    if (m->sequencer != NULL)
        sequencer_stop(m->sequencer);
    http_client_free(m->client);
    for (struct data_node *n = m->topology.nodes; n != NULL; n = n->next)
        data_node_close(n);
    assign_refuse_all(m);
    vacuum_free(m);
    work_pool_free(m->metrics_pool);
    http_server_free(m->http);
    http_server_free(m->http_metrics);
    grpc_server_free(m->grpc);
    work_pool_free(m->pool);
    work_pool_free(m->names);
    loop_run_posted(m->loop); /* a state that was being written */
    topology_release(&m->topology);
    sequencer_free(m->sequencer);
    metrics_free(m->metrics);
    chunk_pool_free(m->chunks);
    whitelist_release(&m->white_list);
    loop_timer_release(&m->sweep);
    loop_timer_release(&m->vacuum_timer);
    if (m->drain_timer.loop != NULL)
        loop_timer_release(&m->drain_timer);
    free(m);
}
