/* The daemon's life: options, store, loops, doors, and all of that in reverse. */
#include "volume/volume_server.h"

#include <arpa/inet.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/listener.h"
#include "net/log.h"
#include "volume/handlers.h"
#include "volume/heartbeat.h"
#include "volume/replicate.h"
#include "volume/volume_grpc.h"

#define WORK_THREADS_MIN 2u
#define MAINTAIN_EVERY_MS 5000u
#define DRAIN_POLL_MS 20u
/* On a machine of so few cores its own clients need them too: they share a loop up to so many connections (volume/DESIGN.md). */
#define FEW_CORES 2
#define GATHER_LOCAL 32u

void volume_options_init(struct volume_options *o)
{
    struct store_options so;
    store_options_init(&so);
    memset(o, 0, sizeof *o);
    o->ip = "127.0.0.1";
    o->ip_bind = o->metrics_ip = o->public_url = o->id = o->data_center = o->rack = o->dir_idx = o->white_list = "";
    o->port = VOLUME_PORT_DEFAULT;
    o->masters = VOLUME_MASTER_DEFAULT;
    o->pulse_s = VOLUME_PULSE_S_DEFAULT;
    o->index_kind = so.index_kind;
    o->leveldb_cache_bytes = so.leveldb_cache_bytes;
    o->offset_width = so.offset_width;
    o->min_free_percent = so.min_free_percent;
    o->min_free_bytes = so.min_free_bytes;
    o->durability = DURABILITY_GROUP;
    o->dirty_bytes = so.dirty_bytes;
    o->zero_ahead_bytes = so.zero_ahead_bytes;
    o->stage_bytes = so.stage_bytes;
    o->pool_bytes = so.pool_bytes;
    o->file_limit_bytes = VOLUME_FILE_LIMIT_BYTES_DEFAULT;
    o->compress = VOLUME_COMPRESS_OFF;
    o->read_mode = VOLUME_READ_PROXY;
    o->vacuum_bytes_per_s = so.vacuum_bytes_per_s;
    o->max_connections = VOLUME_MAX_CONNECTIONS_DEFAULT;
    o->idle_timeout_s = VOLUME_IDLE_TIMEOUT_S_DEFAULT;
    o->pre_stop_s = VOLUME_PRE_STOP_S_DEFAULT;
}

/* ---- new ---- */
static int check_options(struct volume_server *s)
{
    struct volume_options *o = &s->o;
    if (o->dir_count == 0 || o->dir_count > STORE_LOCATIONS_MAX) {
        log_error("-dir: between 1 and %u folders", STORE_LOCATIONS_MAX);
        return DFS_EINVAL;
    }
    if (o->dir_idx[0] != '\0') {
        log_error("-dir.idx is not supported: an index lies beside its data");
        return DFS_EINVAL;
    }
    if (o->ip[0] == '\0')
        o->ip = "127.0.0.1";
    if (o->ip_bind[0] == '\0')
        o->ip_bind = o->ip;
    if (o->metrics_ip[0] == '\0')
        o->metrics_ip = o->ip_bind;
    if (o->port == 0) {
        log_error("-port: 0 is no port");
        return DFS_EINVAL;
    }
    if (o->port_grpc == 0) {
        if (o->port > UINT16_MAX - ADDR_GRPC_PORT_STEP) {
            log_error("-port %u leaves no room for gRPC at port + %u: say -port.grpc", o->port, ADDR_GRPC_PORT_STEP);
            return DFS_EINVAL;
        }
        o->port_grpc = (uint16_t)(o->port + ADDR_GRPC_PORT_STEP);
    }
    if (o->port_grpc == o->port) {
        log_error("-port.grpc must differ from -port (%u)", o->port);
        return DFS_EINVAL;
    }
    if (o->port_public == o->port)
        o->port_public = 0;
    if (o->pulse_s == 0)
        o->pulse_s = VOLUME_PULSE_S_DEFAULT;
    if (o->file_limit_bytes > NEEDLE_BODY_MAX - NEEDLE_META_MAX - 4)
        o->file_limit_bytes = NEEDLE_BODY_MAX - NEEDLE_META_MAX - 4;
    if (o->loops == 0) {
        int n = get_nprocs();
        o->loops = n < 1 ? 1 : n > 8 ? 8 : (uint32_t)n;
    }
    if (o->loops > VOLUME_LOOPS_MAX)
        o->loops = VOLUME_LOOPS_MAX;
    struct bytes bad;
    int rc = whitelist_add(&s->white_list, bytes_str(o->white_list), &bad);
    if (rc != 0)
        log_error("-whiteList: '%.*s' is no address or network", (int)bad.n, bad.p);
    return rc;
}

/* Where this process reaches itself: the address bound to, or loopback when that is every address. */
static void find_self(struct volume_server *s)
{
    struct volume_options *o = &s->o;
    struct sockaddr_storage sa;
    socklen_t len;
    const char *bind = o->ip_bind;
    bool any = strcmp(bind, "0.0.0.0") == 0 || strcmp(bind, "::") == 0;
    memset(&s->self_addr, 0, sizeof s->self_addr);
    snprintf(s->self_addr.host, sizeof s->self_addr.host, "%s", any ? "127.0.0.1" : bind);
    s->self_addr.port = o->port;
    s->self_addr.grpc_port = o->port_grpc;
    if (addr_resolve(&s->self_addr, false, &sa, &len) == 0) {
        const void *ip = sa.ss_family == AF_INET6 ? (const void *)&((struct sockaddr_in6 *)&sa)->sin6_addr
                                                  : (const void *)&((struct sockaddr_in *)&sa)->sin_addr;
        inet_ntop(sa.ss_family, ip, s->self_addr.host, sizeof s->self_addr.host);
    }
    bool v6 = strchr(o->ip, ':') != NULL;
    snprintf(s->self_url, sizeof s->self_url, v6 ? "[%.255s]:%u" : "%.255s:%u", o->ip, o->port);
    if (o->public_url[0] != '\0')
        snprintf(s->public_url, sizeof s->public_url, "%s", o->public_url);
    else
        snprintf(s->public_url, sizeof s->public_url, v6 ? "[%.255s]:%u" : "%.255s:%u", o->ip,
                 o->port_public != 0 ? o->port_public : o->port);
}

static int open_store(struct volume_server *s)
{
    const struct volume_options *o = &s->o;
    struct store_options so;
    store_options_init(&so);
    memcpy(so.dirs, o->dirs, sizeof so.dirs);
    memcpy(so.max_volumes, o->max_volumes, sizeof so.max_volumes);
    so.dir_count = o->dir_count;
    so.index_kind = o->index_kind;
    so.leveldb_cache_bytes = o->leveldb_cache_bytes;
    so.durability = (int)o->durability;
    so.offset_width = o->offset_width;
    so.dirty_bytes = o->dirty_bytes;
    so.zero_ahead_bytes = o->zero_ahead_bytes;
    so.stage_bytes = o->stage_bytes;
    so.pool_bytes = o->pool_bytes;
    so.min_free_bytes = o->min_free_bytes;
    so.min_free_percent = o->min_free_percent;
    so.read_check_always = o->read_check_always;
    so.vacuum_bytes_per_s = o->vacuum_bytes_per_s;
    return store_open(&so, &s->store);
}

static int new_loops(struct volume_server *s)
{
    s->loops = calloc(s->o.loops, sizeof *s->loops);
    s->loop_list = calloc(s->o.loops, sizeof *s->loop_list);
    if (s->loops == NULL || s->loop_list == NULL)
        return DFS_ENOMEM;
    int rc = loop_new("vs-control", &s->control);
    for (uint32_t i = 0; rc == 0 && i < s->o.loops; i++) {
        char name[16];
        struct vs_loop *l = &s->loops[i];
        snprintf(name, sizeof name, "vs-%u", i);
        l->server = s;
        rc = loop_new(name, &l->loop);
        if (rc == 0) {
            loop_set_index(l->loop, (int)i);
            s->loop_list[i] = l->loop;
            s->loop_count++;
        }
    }
    return rc;
}

static struct grpc_channel *leader_channel(void *arg)
{
    return heartbeat_channel(arg);
}

static void maintain(void *arg);

int volume_server_new(const struct volume_options *o, struct loop *accept_loop, struct volume_server **out)
{
    struct volume_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return DFS_ENOMEM;
    s->o = *o;
    s->accept_loop = accept_loop;
    s->start_s = clock_wall_s();
    whitelist_init(&s->white_list);
    s->main_door = (struct vs_door){s, VS_DOOR_MAIN, NULL};
    s->public_door = (struct vs_door){s, VS_DOOR_PUBLIC, NULL};
    s->metrics_door = (struct vs_door){s, VS_DOOR_METRICS, NULL};
    int rc = check_options(s);
    if (rc == 0) {
        find_self(s);
        rc = open_store(s);
    }
    if (rc == 0)
        rc = new_loops(s);
    if (rc == 0)
        rc = server_metrics_init(&s->metrics, s);
    if (rc == 0)
        rc = work_pool_new("vs-work", s->o.loops < WORK_THREADS_MIN ? WORK_THREADS_MIN : s->o.loops, &s->pool);
    if (rc == 0)
        rc = heartbeat_new(s, s->control, &s->heartbeat);
    if (rc == 0)
        rc = volume_lookup_asker_new(s->control, s->pool, leader_channel, s->heartbeat, &s->asker);
    if (rc == 0)
        rc = fid_turns_new(&s->turns);
    if (rc != 0) {
        volume_server_free(s);
        return rc;
    }
    loop_timer_init(&s->drain_timer, accept_loop, NULL, s);
    loop_timer_init(&s->maintain_timer, s->control, maintain, s);
    *out = s;
    return 0;
}

struct store *volume_server_store(struct volume_server *s)
{
    return s->store;
}

/* ---- start ---- */

/* What each loop does first, on its own thread; the starter waits. */
struct attach {
    struct loop_msg msg;
    struct volume_server *s;
    struct vs_loop *l; /* NULL: the control loop */
    sem_t *ready;
    int rc;
};

static int attach_http_loop(struct vs_loop *l)
{
    struct http_client_options co;
    http_client_options_init(&co);
    co.loop = l->loop;
    co.connect_timeout_ms = REPLICA_CONNECT_MS;
    int rc = http_client_new(&co, &l->client);
    if (rc == 0)
        rc = volume_lookup_new(l->loop, l->server->asker, &l->lookup);
    if (rc == 0)
        rc = undo_queue_new(l, &l->undos);
    return rc;
}

static void on_attach(struct loop_msg *msg)
{
    struct attach *a = (struct attach *)((char *)msg - offsetof(struct attach, msg));
    a->rc = store_loop_attach(a->s->store, a->l != NULL ? a->l->loop : a->s->control);
    if (a->rc == 0 && a->l != NULL)
        a->rc = attach_http_loop(a->l);
    sem_post(a->ready);
}

static int run_attach(struct volume_server *s, struct vs_loop *l)
{
    sem_t ready;
    struct attach a = {.msg.run = on_attach, .s = s, .l = l, .ready = &ready};
    sem_init(&ready, 0, 0);
    loop_post(l != NULL ? l->loop : s->control, &a.msg);
    while (sem_wait(&ready) != 0) {
    }
    sem_destroy(&ready);
    return a.rc;
}

static int start_loops(struct volume_server *s)
{
    int rc = loop_start(s->control);
    if (rc != 0)
        return rc;
    s->control_started = true;
    rc = run_attach(s, NULL);
    for (uint32_t i = 0; rc == 0 && i < s->loop_count; i++) {
        rc = loop_start(s->loops[i].loop);
        if (rc != 0)
            break;
        s->loops[i].started = true;
        rc = run_attach(s, &s->loops[i]);
    }
    return rc;
}

static int open_door(struct volume_server *s, struct vs_door *door, const char *host, uint16_t port, const char *option)
{
    struct http_server_options o;
    http_server_options_init(&o);
    o.accept_loop = s->accept_loop;
    o.loops = s->loop_list;
    o.loop_count = s->loop_count;
    o.host = host;
    o.port = port;
    o.handler = &vs_http_handler;
    o.arg = door;
    o.server_header = VS_SERVER_HEADER;
    o.max_connections = s->o.max_connections;
    o.gather_local = get_nprocs() <= FEW_CORES ? GATHER_LOCAL : 0;
    if (s->o.idle_timeout_s != 0) {
        o.idle_timeout_ms = 1000 * s->o.idle_timeout_s;
        o.body_timeout_ms = 1000 * s->o.idle_timeout_s;
        if (o.head_timeout_ms > o.idle_timeout_ms)
            o.head_timeout_ms = o.idle_timeout_ms;
    }
    int rc = http_server_new(&o, &door->http);
    if (rc != 0)
        log_error("cannot listen on %s:%u (%s): %s", host, port, option, listener_error_text(rc));
    return rc;
}

static void on_control_start(struct loop_msg *msg)
{
    struct volume_server *s = ((struct attach *)((char *)msg - offsetof(struct attach, msg)))->s;
    sem_t *ready = ((struct attach *)((char *)msg - offsetof(struct attach, msg)))->ready;
    heartbeat_start(s->heartbeat);
    loop_timer_set(&s->maintain_timer, MAINTAIN_EVERY_MS);
    sem_post(ready);
}

static void start_control(struct volume_server *s)
{
    sem_t ready;
    struct attach a = {.msg.run = on_control_start, .s = s, .ready = &ready};
    sem_init(&ready, 0, 0);
    loop_post(s->control, &a.msg);
    while (sem_wait(&ready) != 0) {
    }
    sem_destroy(&ready);
}

int volume_server_start(struct volume_server *s)
{
    const struct volume_options *o = &s->o;
    int rc = volume_grpc_new(s, s->control, &s->grpc); /* before its loop runs */
    if (rc != 0) {
        log_error("cannot listen on %s:%u (-port.grpc): %s", o->ip_bind, o->port_grpc, listener_error_text(rc));
        return rc;
    }
    rc = start_loops(s);
    if (rc != 0) {
        log_error("cannot start the server's threads: %s", dfs_err_text(rc));
        return rc;
    }
    rc = open_door(s, &s->main_door, o->ip_bind, o->port, "-port");
    if (rc == 0 && o->port_public != 0)
        rc = open_door(s, &s->public_door, o->ip_bind, o->port_public, "-port.public");
    if (rc == 0 && o->metrics_port != 0)
        rc = open_door(s, &s->metrics_door, o->metrics_ip, o->metrics_port, "-metricsPort");
    if (rc != 0)
        return rc;
    rc = store_load_start(s->store);
    if (rc != 0) {
        log_error("cannot start loading volumes: %s", dfs_err_text(rc));
        return rc;
    }
    start_control(s);
    log_info("volume server %s is at %s:%u, gRPC at %u, %u loops", s->self_url, o->ip_bind, o->port, o->port_grpc, s->loop_count);
    return 0;
}

/* ---- while it runs ---- */
static void run_maintain(struct work *w)
{
    store_maintain(((struct volume_server *)((char *)w - offsetof(struct volume_server, maintain_work)))->store);
}

static void done_maintain(struct work *w)
{
    struct volume_server *s = (struct volume_server *)((char *)w - offsetof(struct volume_server, maintain_work));
    s->maintaining = false;
    if (!atomic_load(&s->stopping))
        loop_timer_set(&s->maintain_timer, MAINTAIN_EVERY_MS);
}

static void maintain(void *arg)
{
    struct volume_server *s = arg;
    if (s->maintaining || atomic_load(&s->stopping))
        return;
    s->maintaining = true;
    s->maintain_work = (struct work){.loop = s->control, .run = run_maintain, .done = done_maintain};
    work_submit(store_pool(s->store), &s->maintain_work);
}

/* ---- drain ---- */
struct control_stop {
    struct loop_msg msg;
    struct volume_server *s;
};

static void on_control_stop(struct loop_msg *msg)
{
    struct control_stop *c = (struct control_stop *)((char *)msg - offsetof(struct control_stop, msg));
    heartbeat_stop(c->s->heartbeat);
    volume_grpc_drain(c->s->grpc);
    loop_timer_cancel(&c->s->maintain_timer);
    free(c);
}

static uint32_t open_connections(const struct volume_server *s)
{
    const struct vs_door *doors[] = {&s->main_door, &s->public_door, &s->metrics_door};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
        if (doors[i]->http != NULL)
            n += http_server_connections(doors[i]->http);
    return n;
}

static void on_drain(void *arg)
{
    struct volume_server *s = arg;
    uint32_t n = open_connections(s);
    if (n > 0 && clock_mono_ms() < s->drain_until_ms) {
        loop_timer_set(&s->drain_timer, DRAIN_POLL_MS);
        return;
    }
    if (n > 0)
        log_warning("stopping with %u connections open", n);
    s->drained(s->drained_arg);
}

void volume_server_drain(struct volume_server *s, void (*done)(void *arg), void *arg)
{
    struct control_stop *c = calloc(1, sizeof *c);
    struct vs_door *doors[] = {&s->main_door, &s->public_door, &s->metrics_door};
    atomic_store(&s->stopping, true);
    if (c != NULL && s->control_started) { /* the master first: no new ids for this server */
        c->msg.run = on_control_stop;
        c->s = s;
        loop_post(s->control, &c->msg);
    } else {
        free(c);
    }
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
        if (doors[i]->http != NULL)
            http_server_drain(doors[i]->http);
    s->drained = done;
    s->drained_arg = arg;
    s->drain_until_ms = clock_mono_ms() + 1000ull * s->o.pre_stop_s;
    loop_timer_release(&s->drain_timer);
    loop_timer_init(&s->drain_timer, s->accept_loop, on_drain, s);
    loop_timer_set(&s->drain_timer, 0);
}

/* ---- free ---- */
static void stop_loops(struct volume_server *s)
{
    for (uint32_t i = 0; i < s->loop_count; i++)
        if (s->loops[i].started) {
            loop_stop(s->loops[i].loop);
            loop_join(s->loops[i].loop);
        }
    if (s->control_started) {
        loop_stop(s->control);
        loop_join(s->control);
    }
}

/* Requests may still be held by the store or by calls to others: those end first, then the doors close what is left. */
static void close_doors(struct volume_server *s)
{
    struct vs_door *doors[] = {&s->main_door, &s->public_door, &s->metrics_door};
    if (s->pool != NULL)
        work_pool_free(s->pool);
    s->pool = NULL;
    if (s->store != NULL)
        store_stop(s->store);
    for (uint32_t i = 0; i < s->loop_count; i++)
        if (s->loops[i].client != NULL)
            http_client_free(s->loops[i].client);
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
        if (doors[i]->http != NULL)
            http_server_free(doors[i]->http);
}

void volume_server_free(struct volume_server *s)
{
    if (s == NULL)
        return;
    atomic_store(&s->stopping, true);
    stop_loops(s);
    close_doors(s);
    volume_grpc_free(s->grpc);
    loop_timer_release(&s->maintain_timer);
    loop_timer_release(&s->drain_timer);
    heartbeat_free(s->heartbeat);
    volume_lookup_asker_free(s->asker);
    fid_turns_free(s->turns);
    for (uint32_t i = 0; i < s->loop_count; i++) {
        struct vs_loop *l = &s->loops[i];
        undo_queue_free(l->undos);
        volume_lookup_free(l->lookup);
        vs_read_loop_release(l);
    }
    /* Its threads may still be waking a loop that has taken their message already. */
    if (s->store != NULL)
        store_free(s->store);
    for (uint32_t i = 0; i < s->loop_count; i++)
        loop_free(s->loops[i].loop);
    if (s->control != NULL)
        loop_free(s->control);
    free(s->loops);
    free(s->loop_list);
    server_metrics_release(&s->metrics);
    whitelist_release(&s->white_list);
    free(s);
}
