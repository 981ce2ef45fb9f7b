/* Vacuum, as the master drives it: ask every replica for its share of garbage, have those over the threshold compact, commit.
 *
 * One volume at a time on the whole cluster: a vacuum reads and writes a volume's live bytes, and two on one disk only slow
 * each other down.  A volume is out of the writable set between its compaction and its commit.  Each replica decides by its
 * own garbage, so one that missed a run catches up in the next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/master.h"
#include "needle/check.h"
#include "needle/err.h"
#include "needle/superblock.h"
#include "net/clock.h"
#include "net/grpc.h"
#include "net/log.h"
#include "net/pb/volume.pb-c.h"
#include "net/rand.h"

#define CHECK_TIMEOUT_MS 30000u
#define COMMIT_TIMEOUT_MS 600000u
/* Compaction: three minutes for each GB, and three more. */
#define COMPACT_TIMEOUT_MS_PER_GB 180000u
#define REPLICAS_MAX GROWTH_COPIES_MAX
#define RESULTS_KEPT 32
/* Of what a volume server says of a failure. */
#define MESSAGE_MAX 160u
/* Failing volumes that the status names. */
#define FAILING_SHOWN 100u

enum vacuum_step { STEP_CHECK, STEP_COMPACT, STEP_COMMIT, STEP_CLEANUP };

struct vacuum_result {
    uint32_t volume_id;
    double garbage;
    uint64_t before_bytes, after_bytes;
    char outcome[VACUUM_WHY_BYTES];
};

struct vacuum_replica {
    struct vacuum_run *run;
    struct data_node *node;
    double garbage;
    bool chosen, compacted, committed;
    struct grpc_call *compacting;
};

struct vacuum_run {
    struct master_server *master;
    struct vacuum_scope scope;
    bool asked_for; /* by someone who waits for it, not by the clock */
    uint32_t *ids; /* volumes still to look at */
    uint32_t id_count, id_at;
    /* the volume under way */
    uint32_t volume_id;
    uint64_t token; /* by which its replicas tell this try from others */
    enum vacuum_step step;
    struct vacuum_replica replicas[REPLICAS_MAX];
    uint32_t replica_count, pending;
    bool failed;
    char why[VACUUM_WHY_BYTES];
    bool active;
    struct vacuum_waiter *waiters, *queued; /* for this run; for later ones, in order */
    /* for status; the newest of the last runs */
    struct vacuum_result results[RESULTS_KEPT];
    uint32_t result_count;
    uint64_t started_s, ended_s;
    uint64_t looked_at, vacuumed;
    struct loop_timer next_timer;
};

static void next_volume(struct vacuum_run *r);

static void note(struct vacuum_run *r, double garbage, uint64_t before, uint64_t after, const char *outcome)
{
    struct vacuum_result *res = &r->results[r->result_count++ % RESULTS_KEPT];

    *res = (struct vacuum_result){.volume_id = r->volume_id, .garbage = garbage, .before_bytes = before, .after_bytes = after};
    snprintf(res->outcome, sizeof res->outcome, "%s", outcome);
}

static void fail(struct vacuum_run *r, const char *node, const char *what, struct bytes message)
{
    r->failed = true;
    snprintf(r->why, sizeof r->why, "%s at %.40s: %.*s", what, node, (int)(message.n < MESSAGE_MAX ? message.n : MESSAGE_MAX),
             message.n != 0 ? message.p : "");
}

static void answer_all(struct vacuum_waiter *w, int rc)
{
    while (w != NULL) {
        struct vacuum_waiter *next = w->next;

        w->fn(w, rc);
        w = next;
    }
}

static void start_queued(struct vacuum_run *r);

static void end_run(struct vacuum_run *r)
{
    struct vacuum_waiter *w = r->waiters;

    r->waiters = NULL;
    r->ended_s = clock_wall_s();
    free(r->ids);
    r->ids = NULL;
    answer_all(w, 0); /* still active: who asks for another one now is queued */
    r->active = false;
    start_queued(r);
}

/* What the clock's next run does about the volume.  A row of failures is logged once. */
static void remember(struct vacuum_run *r, struct topo_volume *v)
{
    struct vacuum_backoff *b = &v->vacuum_backoff;
    struct master_server *m = r->master;

    if (!r->failed) {
        if (vacuum_backoff_clear(b))
            log_info("volume %u: nothing is in the way of its vacuum any more", v->id);
        return;
    }
    if (vacuum_backoff_failed(b, loop_now_ms(m->loop), (uint64_t)m->options.vacuum_interval_s * 1000, r->why))
        log_warning("no vacuum of volume %u: %s; it is tried again less and less often", v->id, r->why);
}

/* Done with this volume; the next one in a fresh step of the loop, so that no stack grows and assigns get their turn. */
static void end_volume(struct vacuum_run *r)
{
    struct topo_volume *v = topology_find(&r->master->topology, r->volume_id);

    if (v != NULL)
        remember(r, v);
    if (v != NULL && v->vacuuming) {
        v->vacuuming = false;
        topology_refresh(&r->master->topology, v);
    }
    loop_timer_set(&r->next_timer, 0);
}

static int unary(struct vacuum_replica *rep, const char *path, const ProtobufCMessage *req,
                 const ProtobufCMessageDescriptor *type, uint32_t timeout_ms, grpc_unary_cb *done)
{
    struct grpc_channel *ch;
    int rc = data_node_channel(rep->node, rep->run->master->loop, &ch);

    if (rc == 0)
        rc = grpc_unary(ch, path, req, type, timeout_ms, done, rep);
    if (rc == 0)
        rep->run->pending++;
    return rc;
}

/* ---- cleanup ---- */

static void on_cleaned(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    struct vacuum_replica *rep = arg;

    (void)status;
    (void)message;
    (void)response;
    if (--rep->run->pending == 0)
        end_volume(rep->run);
}

static void start_cleanup(struct vacuum_run *r)
{
    VolumeServerPb__VacuumVolumeCleanupRequest req = VOLUME_SERVER_PB__VACUUM_VOLUME_CLEANUP_REQUEST__INIT;

    note(r, 0, 0, 0, r->why);
    r->step = STEP_CLEANUP;
    req.volume_id = r->volume_id;
    req.run_token = r->token;
    for (uint32_t i = 0; i < r->replica_count; i++)
        if (r->replicas[i].chosen && !r->replicas[i].committed)
            unary(&r->replicas[i], "/volume_server_pb.VolumeServer/VacuumVolumeCleanup", &req.base,
                  &volume_server_pb__vacuum_volume_cleanup_response__descriptor, CHECK_TIMEOUT_MS, on_cleaned);
    if (r->pending == 0)
        end_volume(r);
}

/* ---- commit: one replica after the other, so that one always serves ---- */

static void commit_next(struct vacuum_run *r);

/* What is known of the size may be from a heartbeat before the last writes; the share of garbage is from just before. */
static uint64_t size_before(const struct replica *known, double garbage, uint64_t after)
{
    uint64_t told = known != NULL ? known->size_bytes : 0;
    uint64_t reckoned = garbage < 1 ? (uint64_t)((double)after / (1 - garbage)) : 0;

    return told > reckoned ? told : reckoned;
}

static void on_committed(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    struct vacuum_replica *rep = arg;
    struct vacuum_run *r = rep->run;
    struct topo_volume *v = topology_find(&r->master->topology, r->volume_id);
    struct replica *known = v != NULL ? topo_volume_replica(v, rep->node) : NULL;

    r->pending--;
    rep->committed = true;
    if (status != GRPC_OK) {
        fail(r, rep->node->url, "commit", message);
    } else {
        const VolumeServerPb__VacuumVolumeCommitResponse *resp =
            (const VolumeServerPb__VacuumVolumeCommitResponse *)response;

        note(r, rep->garbage, size_before(known, rep->garbage, resp->volume_size), resp->volume_size, "vacuumed");
        r->vacuumed++;
        if (known != NULL) {
            known->size_bytes = resp->volume_size;
            known->deleted_bytes = 0;
            known->delete_count = 0;
            known->read_only = resp->is_read_only;
        }
    }
    commit_next(r);
}

static void commit_next(struct vacuum_run *r)
{
    VolumeServerPb__VacuumVolumeCommitRequest req = VOLUME_SERVER_PB__VACUUM_VOLUME_COMMIT_REQUEST__INIT;

    req.volume_id = r->volume_id;
    req.run_token = r->token;
    for (uint32_t i = 0; i < r->replica_count; i++) {
        struct vacuum_replica *rep = &r->replicas[i];

        if (!rep->compacted || rep->committed)
            continue;
        if (unary(rep, "/volume_server_pb.VolumeServer/VacuumVolumeCommit", &req.base,
                  &volume_server_pb__vacuum_volume_commit_response__descriptor, COMMIT_TIMEOUT_MS, on_committed) == 0)
            return;
        rep->committed = true;
    }
    if (r->failed)
        start_cleanup(r);
    else
        end_volume(r);
}

/* ---- compact ---- */

static void on_progress(struct grpc_call *call, struct bytes message)
{
    (void)call;
    (void)message;
}

static void on_compacted(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct vacuum_replica *rep = grpc_call_user(call);
    struct vacuum_run *r = rep->run;

    rep->compacting = NULL;
    if (status == GRPC_OK)
        rep->compacted = true;
    else
        fail(r, rep->node->url, "compaction", message);
    if (--r->pending > 0)
        return;
    r->step = STEP_COMMIT;
    if (r->failed)
        start_cleanup(r);
    else
        commit_next(r);
}

static const struct grpc_call_ops compact_ops = {.on_message = on_progress, .on_closed = on_compacted};

static int compact(struct vacuum_replica *rep, uint64_t size_bytes)
{
    VolumeServerPb__VacuumVolumeCompactRequest req = VOLUME_SERVER_PB__VACUUM_VOLUME_COMPACT_REQUEST__INIT;
    struct vacuum_run *r = rep->run;
    uint64_t timeout_ms = COMPACT_TIMEOUT_MS_PER_GB * (1 + (size_bytes >> 30));
    struct grpc_channel *ch;
    int rc = data_node_channel(rep->node, r->master->loop, &ch);

    if (rc == 0)
        rc = grpc_call_start(ch, "/volume_server_pb.VolumeServer/VacuumVolumeCompact", &compact_ops, rep,
                             timeout_ms < UINT32_MAX ? (uint32_t)timeout_ms : UINT32_MAX, &rep->compacting);
    if (rc != 0)
        return rc;
    r->pending++;
    req.volume_id = r->volume_id;
    req.run_token = r->token;
    req.preallocate = (int64_t)r->master->grower.preallocate_bytes;
    rc = grpc_call_send(rep->compacting, &req.base);
    if (rc == 0)
        grpc_call_half_close(rep->compacting);
    else
        grpc_call_cancel(rep->compacting); /* on_closed follows and counts it */
    return 0;
}

static void start_compact(struct vacuum_run *r)
{
    struct topo_volume *v = topology_find(&r->master->topology, r->volume_id);
    int rc = 0;

    if (v == NULL) {
        end_volume(r);
        return;
    }
    r->step = STEP_COMPACT;
    r->token = rand_u64() | 1; /* 0 would be no token */
    v->vacuuming = true;
    topology_refresh(&r->master->topology, v);
    r->pending = 1; /* held until all are started */
    for (uint32_t i = 0; rc == 0 && i < r->replica_count; i++)
        if (r->replicas[i].chosen)
            rc = compact(&r->replicas[i], topo_volume_size(v));
    if (rc != 0)
        fail(r, "?", "compaction", bytes_str(dfs_err_text(rc)));
    if (--r->pending == 0)
        start_cleanup(r);
}

/* ---- check ---- */

static void checked(struct vacuum_run *r)
{
    bool any = false;

    if (r->failed)
        note(r, 0, 0, 0, r->why);
    for (uint32_t i = 0; i < r->replica_count; i++) {
        struct vacuum_replica *rep = &r->replicas[i];

        rep->chosen = !r->failed && rep->garbage > 0 && rep->garbage >= r->scope.threshold;
        any = any || rep->chosen;
    }
    if (any)
        start_compact(r);
    else
        end_volume(r);
}

static void on_checked(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    struct vacuum_replica *rep = arg;
    struct vacuum_run *r = rep->run;

    if (status == GRPC_OK)
        rep->garbage = ((const VolumeServerPb__VacuumVolumeCheckResponse *)response)->garbage_ratio;
    else
        fail(r, rep->node->url, "check", message);
    if (--r->pending == 0)
        checked(r);
}

static bool worth_asking(const struct vacuum_run *r, const struct topo_volume *v)
{
    if (r->scope.only_volume != 0)
        return true;
    if (v->replica_count < replica_placement_copies(v->layout->placement))
        return false; /* repair first */
    /* Sizes here are a heartbeat old: good enough for the clock, not for someone who has just deleted. */
    if (r->asked_for)
        return true;
    if (vacuum_backoff_waits(&v->vacuum_backoff, loop_now_ms(r->master->loop)))
        return false;
    for (uint32_t i = 0; i < v->replica_count; i++)
        if (v->replicas[i].size_bytes > SUPERBLOCK_BYTES)
            return true;
    return false;
}

static void start_check(struct vacuum_run *r, const struct topo_volume *v)
{
    VolumeServerPb__VacuumVolumeCheckRequest req = VOLUME_SERVER_PB__VACUUM_VOLUME_CHECK_REQUEST__INIT;
    int rc = 0;

    r->step = STEP_CHECK;
    r->failed = false;
    r->why[0] = '\0';
    r->looked_at++;
    r->replica_count = v->replica_count < REPLICAS_MAX ? v->replica_count : REPLICAS_MAX;
    req.volume_id = r->volume_id;
    memset(r->replicas, 0, sizeof r->replicas);
    r->pending = 1;
    for (uint32_t i = 0; rc == 0 && i < r->replica_count; i++) {
        r->replicas[i].run = r;
        r->replicas[i].node = v->replicas[i].node;
        rc = unary(&r->replicas[i], "/volume_server_pb.VolumeServer/VacuumVolumeCheck", &req.base,
                   &volume_server_pb__vacuum_volume_check_response__descriptor, CHECK_TIMEOUT_MS, on_checked);
    }
    if (rc != 0)
        fail(r, "?", "check", bytes_str(dfs_err_text(rc)));
    if (--r->pending == 0)
        checked(r);
}

static void next_volume(struct vacuum_run *r)
{
    while (r->id_at < r->id_count && !r->master->draining) {
        const struct topo_volume *v;

        r->volume_id = r->ids[r->id_at++];
        v = topology_find(&r->master->topology, r->volume_id);
        if (v != NULL && worth_asking(r, v)) {
            start_check(r, v);
            return;
        }
    }
    end_run(r);
}

static void on_next(void *arg)
{
    next_volume(arg);
}

/* ---- runs ---- */

static int collect(struct topo_volume *v, void *arg)
{
    struct vacuum_run *r = arg;

    if (r->scope.only_volume != 0 && v->id != r->scope.only_volume)
        return 0;
    if (!r->scope.any_collection && strcmp(v->layout->collection, r->scope.collection) != 0)
        return 0;
    r->ids[r->id_count++] = v->id;
    return 0;
}

static void append(struct vacuum_waiter **list, struct vacuum_waiter *w)
{
    while (*list != NULL)
        list = &(*list)->next;
    w->next = NULL;
    *list = w;
}

static bool same_scope(const struct vacuum_scope *a, const struct vacuum_scope *b)
{
    return a->threshold == b->threshold && a->only_volume == b->only_volume && a->any_collection == b->any_collection &&
           strcmp(a->collection, b->collection) == 0;
}

/* Starts a run; w may be NULL. */
static int begin_run(struct vacuum_run *r, const struct vacuum_scope *scope, struct vacuum_waiter *w)
{
    r->ids = malloc(((size_t)r->master->topology.volume_count + 1) * sizeof *r->ids);
    if (r->ids == NULL)
        return DFS_ENOMEM;
    r->active = true;
    r->scope = *scope;
    r->asked_for = w != NULL;
    r->id_count = r->id_at = 0;
    r->looked_at = r->vacuumed = 0;
    r->started_s = clock_wall_s();
    topology_each_volume(&r->master->topology, collect, r);
    if (w != NULL)
        append(&r->waiters, w);
    loop_timer_set(&r->next_timer, 0);
    return 0;
}

/* The run that was asked for first, for all who asked for the same. */
static void start_queued(struct vacuum_run *r)
{
    struct vacuum_waiter *first = r->queued, **at = &r->queued;
    int rc;

    if (first == NULL)
        return;
    r->queued = first->next;
    rc = begin_run(r, &first->scope, first);
    if (rc != 0) {
        struct vacuum_waiter *rest = r->queued;

        r->queued = NULL;
        first->fn(first, rc);
        answer_all(rest, rc);
        return;
    }
    while (*at != NULL) {
        struct vacuum_waiter *w = *at;

        if (!same_scope(&w->scope, &r->scope)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        append(&r->waiters, w);
    }
}

static int make_scope(double threshold, uint32_t only_volume, const char *collection, struct vacuum_scope *out)
{
    if (!(threshold >= 0 && threshold <= 1) || (collection != NULL && strlen(collection) >= sizeof out->collection))
        return DFS_EINVAL;
    *out = (struct vacuum_scope){.threshold = threshold, .only_volume = only_volume, .any_collection = collection == NULL};
    snprintf(out->collection, sizeof out->collection, "%s", collection != NULL ? collection : "");
    return 0;
}

static struct vacuum_run *get_run(struct master_server *m)
{
    struct vacuum_run *r = m->vacuum;

    if (r != NULL)
        return r;
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->master = m;
    loop_timer_init(&r->next_timer, m->loop, on_next, r);
    m->vacuum = r;
    return r;
}

int vacuum_start(struct master_server *m, double threshold, uint32_t only_volume, const char *collection,
                 struct vacuum_waiter *w)
{
    struct vacuum_run *r;
    struct vacuum_scope scope;
    int rc = m->draining ? DFS_ECANCELLED : make_scope(threshold, only_volume, collection, &scope);

    if (rc != 0)
        return rc;
    r = get_run(m);
    if (r == NULL)
        return DFS_ENOMEM;
    if (w != NULL)
        w->scope = scope;
    if (!r->active)
        return begin_run(r, &scope, w);
    if (w != NULL)
        append(&r->queued, w);
    return 0;
}

void vacuum_refuse_all(struct master_server *m)
{
    struct vacuum_run *r = m->vacuum;
    struct vacuum_waiter *waiters, *queued;

    if (r == NULL)
        return;
    waiters = r->waiters;
    queued = r->queued;
    r->waiters = r->queued = NULL;
    answer_all(waiters, DFS_ECANCELLED);
    answer_all(queued, DFS_ECANCELLED);
}

void vacuum_free(struct master_server *m)
{
    struct vacuum_run *r = m->vacuum;

    if (r == NULL)
        return;
    loop_timer_release(&r->next_timer);
    vacuum_refuse_all(m);
    free(r->ids);
    free(r);
    m->vacuum = NULL;
}

struct failing_list {
    struct jsonw *w;
    uint64_t now_ms;
    uint32_t count;
};

static int put_failing(struct topo_volume *v, void *arg)
{
    const struct vacuum_backoff *b = &v->vacuum_backoff;
    struct failing_list *l = arg;

    if (b->failures == 0)
        return 0;
    if (l->count++ < FAILING_SHOWN) {
        jsonw_object(l->w);
        jsonw_put_u64(l->w, "Id", v->id);
        jsonw_put_u64(l->w, "Failures", b->failures);
        jsonw_put_u64(l->w, "NextTryInSeconds", vacuum_backoff_waits(b, l->now_ms) ? (b->until_ms - l->now_ms) / 1000 : 0);
        jsonw_put_str(l->w, "Reason", b->why);
        jsonw_object_end(l->w);
    }
    return 0;
}

/* The volumes that the clock leaves alone for a while. */
static void put_all_failing(struct master_server *m, struct jsonw *w)
{
    struct failing_list l = {.w = w, .now_ms = loop_now_ms(m->loop)};

    jsonw_put_array(w, "Failing");
    (void)topology_each_volume(&m->topology, put_failing, &l);
    jsonw_array_end(w);
    jsonw_put_u64(w, "FailingCount", l.count);
}

void vacuum_status(struct master_server *m, struct jsonw *w)
{
    const struct vacuum_run *r = m->vacuum;
    uint32_t n = r == NULL ? 0 : r->result_count < RESULTS_KEPT ? r->result_count : RESULTS_KEPT;

    jsonw_object(w);
    jsonw_put_bool(w, "Running", r != NULL && r->active);
    jsonw_put_u64(w, "StartedAtSecond", r != NULL ? r->started_s : 0);
    jsonw_put_u64(w, "LookedAt", r != NULL ? r->looked_at : 0);
    jsonw_put_u64(w, "Vacuumed", r != NULL ? r->vacuumed : 0);
    put_all_failing(m, w);
    jsonw_put_array(w, "Results");
    for (uint32_t i = 0; i < n; i++) {
        const struct vacuum_result *res = &r->results[(r->result_count - 1 - i) % RESULTS_KEPT];

        jsonw_object(w);
        jsonw_put_u64(w, "Id", res->volume_id);
        jsonw_put_double(w, "Garbage", res->garbage);
        jsonw_put_u64(w, "Before", res->before_bytes);
        jsonw_put_u64(w, "After", res->after_bytes);
        jsonw_put_str(w, "Outcome", res->outcome);
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
    jsonw_object_end(w);
}
