/* Dialling, beating, following: see heartbeat.h. */
#include "volume/heartbeat.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/log.h"
#include "net/pb/master.pb-c.h"
#include "volume/handlers.h"
#include "volume/heartbeat_message.h"

struct heartbeat {
    struct volume_server *s;
    struct loop *control;
    struct addr masters[HEARTBEAT_MASTERS_MAX];
    uint32_t master_count, next_master;

    struct addr target;       /* being dialled or talked to, as text */
    bool to_leader;           /* it was named by a master */
    struct grpc_channel *channel;
    struct grpc_call *call;
    bool answered, stopped, resolving;
    atomic_bool connected;
    uint32_t backoff_ms;
    struct loop_timer dial_timer, pulse_timer, answer_timer;
    struct heartbeat_report *last; /* what the master was told */

    struct work work;         /* resolving the target's name */
    struct addr resolved;
    int resolve_rc;
    struct log_gate down_gate, uuid_gate;
};

static void dial(void *arg);
static void give_up_channel(struct heartbeat *h);

static int add_master(struct bytes entry, void *arg)
{
    struct heartbeat *h = arg;
    struct addr a;
    if (addr_parse(entry, &a) != 0 || a.grpc_port == 0) {
        log_error("-master: '%.*s' is not host:port or host:port.grpcPort", (int)entry.n, entry.p);
        return DFS_EINVAL;
    }
    if (h->master_count == HEARTBEAT_MASTERS_MAX) {
        log_error("-master: more than %u masters", HEARTBEAT_MASTERS_MAX);
        return DFS_EINVAL;
    }
    h->masters[h->master_count++] = a;
    return 0;
}

static void beat(struct heartbeat *h, bool full);

static void on_pulse(void *arg)
{
    struct heartbeat *h = arg;
    if (h->call == NULL)
        return;
    beat(h, true);
    loop_timer_set(&h->pulse_timer, 1000ull * h->s->o.pulse_s);
}

static void on_silence(void *arg)
{
    struct heartbeat *h = arg;
    if (h->answered || h->call == NULL)
        return;
    grpc_call_cancel(h->call); /* on_closed goes on to the next master */
}

int heartbeat_new(struct volume_server *s, struct loop *control, struct heartbeat **out)
{
    struct heartbeat *h = calloc(1, sizeof *h);
    if (h == NULL)
        return DFS_ENOMEM;
    h->s = s;
    h->control = control;
    h->backoff_ms = HEARTBEAT_BACKOFF_MIN_MS;
    loop_timer_init(&h->dial_timer, control, dial, h);
    loop_timer_init(&h->pulse_timer, control, on_pulse, h);
    loop_timer_init(&h->answer_timer, control, on_silence, h);
    int rc = addr_list_each(bytes_str(s->o.masters), add_master, h);
    if (rc == 0 && h->master_count == 0) {
        log_error("-master: no master given");
        rc = DFS_EINVAL;
    }
    if (rc != 0) {
        heartbeat_free(h);
        return rc;
    }
    *out = h;
    return 0;
}

bool heartbeat_connected(const struct heartbeat *h)
{
    return h != NULL && atomic_load(&h->connected);
}

struct grpc_channel *heartbeat_channel(struct heartbeat *h)
{
    return h->channel;
}

static bool same_addr(const struct addr *a, const struct addr *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool heartbeat_knows(const struct heartbeat *h, const char *address)
{
    struct addr a;
    if (addr_parse(bytes_str(address), &a) != 0)
        return false;
    for (uint32_t i = 0; i < h->master_count; i++)
        if (same_addr(&a, &h->masters[i]))
            return true;
    return same_addr(&a, &h->target);
}

/* ---- the stream ---- */
static void beat(struct heartbeat *h, bool full)
{
    if (h->call == NULL || h->stopped)
        return;
    struct heartbeat_report *now;
    if (heartbeat_report_new(h->s, &now) != 0)
        return; /* next pulse */
    if (full || !heartbeat_send_changes(h->call, h->last, now))
        heartbeat_send_full(h->call, now);
    heartbeat_report_free(h->last);
    h->last = now;
}

static void on_store_change(void *arg)
{
    struct heartbeat *h = arg;
    beat(h, false);
}

static void follow(struct heartbeat *h, const char *leader)
{
    struct addr a;
    if (leader[0] == '\0' || addr_parse(bytes_str(leader), &a) != 0 || a.grpc_port == 0 || same_addr(&a, &h->target))
        return;
    log_info("the leader is %s", leader);
    h->target = a;
    h->to_leader = true;
    h->backoff_ms = 0; /* at once */
    grpc_call_cancel(h->call);
}

static void told_duplicate(struct heartbeat *h, const MasterPb__HeartbeatResponse *m)
{
    uint64_t more;
    for (size_t i = 0; i < m->n_duplicated_uuids; i++) {
        const char *dir = "?";
        for (uint32_t l = 0; l < store_location_count(h->s->store); l++) {
            struct location_info loc;
            store_location_info(h->s->store, l, &loc);
            if (strcmp(loc.uuid, m->duplicated_uuids[i]) == 0)
                dir = loc.dir;
        }
        if (log_every(&h->uuid_gate, 10000, &more))
            log_error("the master knows another live server with the folder '%s' (vol_dir.uuid %s): one folder, one server", dir,
                      m->duplicated_uuids[i]);
    }
}

static void on_message(struct grpc_call *call, struct bytes message)
{
    struct heartbeat *h = grpc_call_user(call);
    MasterPb__HeartbeatResponse *m =
        (MasterPb__HeartbeatResponse *)grpc_unpack(&master_pb__heartbeat_response__descriptor, message);
    if (m == NULL || h->call != call)
        goto out;
    if (!h->answered) {
        h->answered = true;
        h->backoff_ms = HEARTBEAT_BACKOFF_MIN_MS;
        loop_timer_cancel(&h->answer_timer);
    }
    if (m->volume_size_limit != 0) {
        store_set_size_limit(h->s->store, m->volume_size_limit);
        atomic_store(&h->s->preallocate, m->preallocate);
        if (!atomic_exchange(&h->connected, true))
            log_info("connected to master %s:%u, volume size limit %lu MB", h->target.host, h->target.port,
                     (unsigned long)(m->volume_size_limit >> 20));
    }
    if (m->n_duplicated_uuids > 0)
        told_duplicate(h, m);
    if (m->resend_full_volume_list)
        beat(h, true);
    if (m->leader != NULL)
        follow(h, m->leader);
out:
    if (m != NULL)
        protobuf_c_message_free_unpacked(&m->base, NULL);
}

static void dial_later(struct heartbeat *h)
{
    if (h->stopped)
        return;
    loop_timer_set(&h->dial_timer, h->backoff_ms);
    h->backoff_ms = h->backoff_ms == 0 ? HEARTBEAT_BACKOFF_MIN_MS : 2 * h->backoff_ms;
    if (h->backoff_ms > HEARTBEAT_BACKOFF_MAX_MS)
        h->backoff_ms = HEARTBEAT_BACKOFF_MAX_MS;
}

static void on_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct heartbeat *h = grpc_call_user(call);
    uint64_t more;
    if (h->call != call)
        return;
    h->call = NULL;
    bool was = atomic_exchange(&h->connected, false);
    loop_timer_cancel(&h->pulse_timer);
    loop_timer_cancel(&h->answer_timer);
    if (h->stopped)
        return;
    if (was)
        metric_add(&h->s->metrics.master_disconnections, 1);
    bool following = h->to_leader && h->backoff_ms == 0;
    if (!following && log_every(&h->down_gate, 5000, &more))
        log_warning("no stream to master %s:%u: %s %.*s", h->target.host, h->target.port, grpc_status_name(status),
                    (int)message.n, message.p);
    if (!following)
        h->to_leader = false;
    dial_later(h);
}

static const struct grpc_call_ops stream_ops = {
    .on_message = on_message,
    .on_closed = on_closed,
};

/* ---- dialling ---- */
static void give_up_channel(struct heartbeat *h)
{
    struct grpc_channel *ch = h->channel;
    h->channel = NULL;
    grpc_channel_free(ch);
}

static void open_stream(struct heartbeat *h)
{
    int rc = h->resolve_rc;
    if (rc == 0)
        rc = grpc_channel_new(h->control, &h->resolved, NULL, h, &h->channel);
    if (rc == 0)
        rc = grpc_call_start(h->channel, "/master_pb.Seaweed/SendHeartbeat", &stream_ops, h, 0, &h->call);
    if (rc != 0) {
        uint64_t more;
        if (log_every(&h->down_gate, 5000, &more))
            log_warning("cannot reach master %s:%u: %s", h->target.host, h->target.port, dfs_err_text(rc));
        h->to_leader = false;
        dial_later(h);
        return;
    }
    h->answered = false;
    heartbeat_report_free(h->last);
    h->last = NULL;
    beat(h, true);
    loop_timer_set(&h->pulse_timer, 1000ull * h->s->o.pulse_s);
    loop_timer_set(&h->answer_timer, HEARTBEAT_ANSWER_MS);
}

static void run_resolve(struct work *w)
{
    struct heartbeat *h = (struct heartbeat *)((char *)w - offsetof(struct heartbeat, work));
    struct sockaddr_storage sa;
    socklen_t len;
    h->resolve_rc = addr_resolve(&h->resolved, true, &sa, &len);
    if (h->resolve_rc == 0 && getnameinfo((struct sockaddr *)&sa, len, h->resolved.host, sizeof h->resolved.host, NULL, 0,
                                          NI_NUMERICHOST) != 0)
        h->resolve_rc = DFS_EINVAL;
}

static void done_resolve(struct work *w)
{
    struct heartbeat *h = (struct heartbeat *)((char *)w - offsetof(struct heartbeat, work));
    h->resolving = false;
    if (!h->stopped)
        open_stream(h);
}

static void dial(void *arg)
{
    struct heartbeat *h = arg;
    struct in_addr v4;
    struct in6_addr v6;
    if (h->stopped || h->resolving)
        return;
    give_up_channel(h);
    if (!h->to_leader) {
        h->target = h->masters[h->next_master];
        h->next_master = (h->next_master + 1) % h->master_count;
    }
    h->resolved = h->target;
    h->resolve_rc = 0;
    if (inet_pton(AF_INET, h->target.host, &v4) == 1 || inet_pton(AF_INET6, h->target.host, &v6) == 1) {
        open_stream(h);
        return;
    }
    h->resolving = true; /* a name server may take its time: not on this loop */
    h->work = (struct work){.loop = h->control, .run = run_resolve, .done = done_resolve};
    work_submit(h->s->pool, &h->work);
}

void heartbeat_start(struct heartbeat *h)
{
    store_on_change(h->s->store, h->control, on_store_change, h);
    dial(h);
}

void heartbeat_stop(struct heartbeat *h)
{
    if (h->stopped)
        return;
    h->stopped = true;
    atomic_store(&h->connected, false);
    loop_timer_cancel(&h->dial_timer);
    loop_timer_cancel(&h->pulse_timer);
    loop_timer_cancel(&h->answer_timer);
    if (h->call != NULL)
        grpc_call_half_close(h->call);
}

void heartbeat_free(struct heartbeat *h)
{
    if (h == NULL)
        return;
    h->stopped = true;
    give_up_channel(h);
    loop_timer_release(&h->dial_timer);
    loop_timer_release(&h->pulse_timer);
    loop_timer_release(&h->answer_timer);
    heartbeat_report_free(h->last);
    free(h);
}
