/* One table of methods, one kind of job. */
#include "volume/volume_grpc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/grpc.h"
#include "net/log.h"
#include "net/pb/volume.pb-c.h"
#include "volume/chunk_delete.h"
#include "volume/disk.h"
#include "volume/handlers.h"
#include "volume/heartbeat.h"
#include "volume/volume_status.h"

#define SERVICE "/volume_server_pb.VolumeServer/"
#define BATCH_MESSAGE_MAX (8u * 1024u * 1024u)
#define VACUUM_PROGRESS_BYTES (64u << 20)

struct volume_grpc {
    struct volume_server *s;
    struct loop *control;
    struct grpc_server *server;
};

/* One request from arrival to answer.  `call` is NULL once the caller is gone. */
struct job {
    struct grpc_call *call;
    struct volume_server *s;
    struct volume_grpc *g;
    const struct method *method;
    ProtobufCMessage *req;
    struct work work;
    bool running; /* a worker or the engine has it */
    int rc;
    char error[256];

    /* results, by method */
    double ratio;
    uint64_t bytes;
    bool read_only;
    struct volume_info info;
    uint64_t idx_bytes, idx_s, dat_s;
    struct location_info locations[STORE_LOCATIONS_MAX];
    uint32_t location_count;
    struct needle_read look;
    struct bytes *fids;

    /* progress of a vacuum */
    struct loop_msg progress_msg;
    _Atomic uint64_t progress_bytes;
    atomic_bool progress_posted, gone;
};

struct method {
    const char *path;
    const ProtobufCMessageDescriptor *request;
    void (*run)(struct job *j);   /* worker: may block */
    void (*begin)(struct job *j); /* control loop, instead of run: answers now, or later after setting running */
    void (*reply)(struct job *j); /* control loop, after run with rc 0; NULL = the empty answer */
    size_t message_max;
};

static const struct method methods[];

static void job_free(struct job *j)
{
    if (j->req != NULL)
        protobuf_c_message_free_unpacked(j->req, NULL);
    free(j->fids);
    free(j);
}

/* The answer is out, or nobody wants it. */
static void job_end(struct job *j)
{
    if (j->call != NULL)
        grpc_call_set_user(j->call, NULL);
    job_free(j);
}

static void job_fail(struct job *j, int rc)
{
    if (j->call != NULL)
        grpc_call_finish(j->call, grpc_status_from_err(rc), "%s", j->error[0] != '\0' ? j->error : dfs_err_text(rc));
    job_end(j);
}

static void job_done(struct work *w)
{
    struct job *j = (struct job *)((char *)w - offsetof(struct job, work));
    j->running = false;
    if (j->call == NULL) {
        job_free(j);
        return;
    }
    if (j->rc != 0) {
        job_fail(j, j->rc);
        return;
    }
    j->method->reply(j);
    job_end(j);
}

static void job_run(struct work *w)
{
    struct job *j = (struct job *)((char *)w - offsetof(struct job, work));
    j->method->run(j);
}

static void on_message(struct grpc_call *call, struct bytes message)
{
    struct volume_grpc *g = grpc_call_server_arg(call);
    const struct method *m = methods;
    if (grpc_call_user(call) != NULL) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "one message was expected");
        return;
    }
    while (strcmp(m->path, grpc_call_path(call)) != 0)
        m++; /* the server only hands out paths of the table */
    struct job *j = calloc(1, sizeof *j);
    if (j != NULL)
        j->req = grpc_unpack(m->request, message);
    if (j == NULL || j->req == NULL) {
        free(j);
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "not a %s", m->request->name);
        return;
    }
    j->call = call;
    j->g = g;
    j->s = g->s;
    j->method = m;
    grpc_call_set_user(call, j);
    if (m->begin != NULL) {
        m->begin(j);
        return;
    }
    j->running = true;
    j->work = (struct work){.loop = g->control, .privileged = true, .run = job_run, .done = job_done};
    work_submit(store_pool(j->s->store), &j->work);
}

static void on_closed(struct grpc_call *call, enum grpc_status status, struct bytes message)
{
    struct job *j = grpc_call_user(call);
    (void)status;
    (void)message;
    if (j == NULL)
        return;
    j->call = NULL;
    atomic_store(&j->gone, true);
    if (!j->running)
        job_free(j);
}

static const struct grpc_call_ops call_ops = {
    .on_message = on_message,
    .on_closed = on_closed,
};

/* ---- making and removing volumes ---- */
static void run_allocate(struct job *j)
{
    const VolumeServerPb__AllocateVolumeRequest *q = (void *)j->req;
    struct replica_placement rp;
    struct ttl ttl;
    uint8_t version = q->version == 0 ? NEEDLE_V3 : (uint8_t)q->version;
    if (replica_placement_parse(bytes_str(q->replication), &rp) != 0 || ttl_parse(bytes_str(q->ttl), &ttl) != 0) {
        snprintf(j->error, sizeof j->error, "bad replication '%.32s' or ttl '%.32s'", q->replication, q->ttl);
        j->rc = DFS_EINVAL;
        return;
    }
    if (q->version > NEEDLE_V3 || (q->disk_type[0] != '\0' && strcmp(q->disk_type, "hdd") != 0)) {
        snprintf(j->error, sizeof j->error, "no disk of type '%.32s', or unknown version %u", q->disk_type, q->version);
        j->rc = DFS_EINVAL;
        return;
    }
    uint64_t preallocate = q->preallocate > 0 ? (uint64_t)q->preallocate : 0;
    if (preallocate == 0 && atomic_load(&j->s->preallocate))
        preallocate = store_size_limit(j->s->store);
    j->rc = store_allocate(j->s->store, q->volume_id, bytes_str(q->collection), rp, ttl, version, preallocate, j->error);
    if (j->rc != 0)
        log_warning("cannot make volume %u: %s", q->volume_id, j->error[0] != '\0' ? j->error : dfs_err_text(j->rc));
}

static void reply_allocate(struct job *j)
{
    VolumeServerPb__AllocateVolumeResponse m = VOLUME_SERVER_PB__ALLOCATE_VOLUME_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_delete_collection(struct job *j)
{
    const VolumeServerPb__DeleteCollectionRequest *q = (void *)j->req;
    uint32_t n = 0;
    if (q->collection[0] == '\0') {
        snprintf(j->error, sizeof j->error, "the default collection is not deleted as a whole");
        j->rc = DFS_EINVAL;
        return;
    }
    j->rc = store_delete_collection(j->s->store, bytes_str(q->collection), &n);
    if (j->rc == DFS_ENOTFOUND)
        j->rc = 0; /* nothing of it here */
    log_info("deleted collection '%s': %u volumes", q->collection, n);
}

static void reply_delete_collection(struct job *j)
{
    VolumeServerPb__DeleteCollectionResponse m = VOLUME_SERVER_PB__DELETE_COLLECTION_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_mount(struct job *j)
{
    j->rc = store_mount(j->s->store, ((VolumeServerPb__VolumeMountRequest *)j->req)->volume_id);
}

static void reply_mount(struct job *j)
{
    VolumeServerPb__VolumeMountResponse m = VOLUME_SERVER_PB__VOLUME_MOUNT_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_unmount(struct job *j)
{
    j->rc = store_unmount(j->s->store, ((VolumeServerPb__VolumeUnmountRequest *)j->req)->volume_id);
}

static void reply_unmount(struct job *j)
{
    VolumeServerPb__VolumeUnmountResponse m = VOLUME_SERVER_PB__VOLUME_UNMOUNT_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_delete_volume(struct job *j)
{
    const VolumeServerPb__VolumeDeleteRequest *q = (void *)j->req;
    j->rc = store_delete_volume(j->s->store, q->volume_id, q->only_empty || q->only_garbage);
    if (j->rc == DFS_EBUSY)
        snprintf(j->error, sizeof j->error, "volume %u is not empty", q->volume_id);
    else if (j->rc == 0)
        log_info("deleted volume %u", q->volume_id);
}

static void reply_delete_volume(struct job *j)
{
    VolumeServerPb__VolumeDeleteResponse m = VOLUME_SERVER_PB__VOLUME_DELETE_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_mark_readonly(struct job *j)
{
    const VolumeServerPb__VolumeMarkReadonlyRequest *q = (void *)j->req;
    j->rc = store_mark_readonly(j->s->store, q->volume_id, true, q->persist);
}

static void reply_mark_readonly(struct job *j)
{
    VolumeServerPb__VolumeMarkReadonlyResponse m = VOLUME_SERVER_PB__VOLUME_MARK_READONLY_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_mark_writable(struct job *j)
{
    j->rc = store_mark_readonly(j->s->store, ((VolumeServerPb__VolumeMarkWritableRequest *)j->req)->volume_id, false, true);
}

static void reply_mark_writable(struct job *j)
{
    VolumeServerPb__VolumeMarkWritableResponse m = VOLUME_SERVER_PB__VOLUME_MARK_WRITABLE_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

static void run_configure(struct job *j)
{
    const VolumeServerPb__VolumeConfigureRequest *q = (void *)j->req;
    struct replica_placement rp;
    int rc = replica_placement_parse(bytes_str(q->replication), &rp);
    if (rc == 0)
        rc = store_configure(j->s->store, q->volume_id, rp);
    if (rc != 0) /* told in the answer, as the peer does */
        snprintf(j->error, sizeof j->error, "cannot set replication '%.32s' of volume %u: %s", q->replication, q->volume_id,
                 dfs_err_text(rc));
}

static void reply_configure(struct job *j)
{
    VolumeServerPb__VolumeConfigureResponse m = VOLUME_SERVER_PB__VOLUME_CONFIGURE_RESPONSE__INIT;
    m.error = j->error;
    grpc_call_reply(j->call, &m.base);
}

/* ---- vacuum ---- */
static void run_vacuum_check(struct job *j)
{
    j->rc = store_vacuum_check(j->s->store, ((VolumeServerPb__VacuumVolumeCheckRequest *)j->req)->volume_id, &j->ratio);
}

static void reply_vacuum_check(struct job *j)
{
    VolumeServerPb__VacuumVolumeCheckResponse m = VOLUME_SERVER_PB__VACUUM_VOLUME_CHECK_RESPONSE__INIT;
    m.garbage_ratio = j->ratio;
    grpc_call_reply(j->call, &m.base);
}

static void send_progress(struct job *j)
{
    VolumeServerPb__VacuumVolumeCompactResponse m = VOLUME_SERVER_PB__VACUUM_VOLUME_COMPACT_RESPONSE__INIT;
    m.processed_bytes = (int64_t)atomic_load(&j->progress_bytes);
    if (j->call != NULL)
        grpc_call_send(j->call, &m.base);
}

static void on_progress(struct loop_msg *msg)
{
    struct job *j = (struct job *)((char *)msg - offsetof(struct job, progress_msg));
    atomic_store(&j->progress_posted, false);
    send_progress(j);
}

/* Worker.  The job outlives its messages: its own end comes through the same mailbox, behind them. */
static int vacuum_progress(void *arg, uint64_t bytes)
{
    struct job *j = arg;
    if (bytes - atomic_load(&j->progress_bytes) >= VACUUM_PROGRESS_BYTES && !atomic_exchange(&j->progress_posted, true)) {
        atomic_store(&j->progress_bytes, bytes);
        loop_post(j->g->control, &j->progress_msg);
    }
    return atomic_load(&j->gone) ? DFS_ECANCELLED : 0;
}

static void run_vacuum_compact(struct job *j)
{
    const VolumeServerPb__VacuumVolumeCompactRequest *q = (void *)j->req;
    j->progress_msg.run = on_progress;
    /* What it says of preallocation is not asked: the copy is sized to what is live, and a whole volume's room asked for and not
     * had would fail again and again. */
    struct vacuum_outcome out;
    j->rc = store_vacuum_compact(j->s->store, q->volume_id, q->run_token, vacuum_progress, j, &out);
    snprintf(j->error, sizeof j->error, "%s", out.why);
    if (j->rc != 0)
        log_warning("cannot compact volume %u: %s", q->volume_id, out.why[0] != '\0' ? out.why : dfs_err_text(j->rc));
}

static void reply_vacuum_compact(struct job *j)
{
    send_progress(j);
    grpc_call_finish(j->call, GRPC_OK, NULL);
}

static void run_vacuum_commit(struct job *j)
{
    const VolumeServerPb__VacuumVolumeCommitRequest *q = (void *)j->req;
    struct vacuum_outcome out;
    j->rc = store_vacuum_commit(j->s->store, q->volume_id, q->run_token, &out);
    j->bytes = out.dat_bytes;
    j->read_only = out.read_only;
    snprintf(j->error, sizeof j->error, "%s", out.why);
}

static void reply_vacuum_commit(struct job *j)
{
    VolumeServerPb__VacuumVolumeCommitResponse m = VOLUME_SERVER_PB__VACUUM_VOLUME_COMMIT_RESPONSE__INIT;
    m.is_read_only = j->read_only;
    m.volume_size = j->bytes;
    grpc_call_reply(j->call, &m.base);
}

static void run_vacuum_cleanup(struct job *j)
{
    const VolumeServerPb__VacuumVolumeCleanupRequest *q = (void *)j->req;
    struct vacuum_outcome out;
    j->rc = store_vacuum_cleanup(j->s->store, q->volume_id, q->run_token, &out);
    snprintf(j->error, sizeof j->error, "%s", out.why);
}

static void reply_vacuum_cleanup(struct job *j)
{
    VolumeServerPb__VacuumVolumeCleanupResponse m = VOLUME_SERVER_PB__VACUUM_VOLUME_CLEANUP_RESPONSE__INIT;
    grpc_call_reply(j->call, &m.base);
}

/* ---- telling ---- */
/* Numbers of one volume and of its files. */
static void look_at_volume(struct job *j, uint32_t volume_id)
{
    struct volume *v = store_get(j->s->store, volume_id);
    char path[VOLUME_PATH_MAX + 8];
    struct stat st;
    if (v == NULL) {
        snprintf(j->error, sizeof j->error, "not found volume id %u", volume_id);
        j->rc = DFS_ENOTFOUND;
        return;
    }
    volume_info_get(v, &j->info);
    snprintf(path, sizeof path, "%s.idx", v->base);
    if (disk_stat(path, &st) == 0) {
        j->idx_bytes = (uint64_t)st.st_size;
        j->idx_s = (uint64_t)st.st_mtim.tv_sec;
    }
    snprintf(path, sizeof path, "%s.dat", v->base);
    if (disk_stat(path, &st) == 0)
        j->dat_s = (uint64_t)st.st_mtim.tv_sec;
    volume_unref(v);
}

static void run_volume_status(struct job *j)
{
    look_at_volume(j, ((VolumeServerPb__VolumeStatusRequest *)j->req)->volume_id);
}

static void reply_volume_status(struct job *j)
{
    VolumeServerPb__VolumeStatusResponse m = VOLUME_SERVER_PB__VOLUME_STATUS_RESPONSE__INIT;
    m.is_read_only = j->info.no_write != 0;
    m.volume_size = j->info.dat_bytes;
    m.file_count = j->info.file_count;
    m.file_deleted_count = j->info.delete_count;
    grpc_call_reply(j->call, &m.base);
}

static void run_sync_status(struct job *j)
{
    look_at_volume(j, ((VolumeServerPb__VolumeSyncStatusRequest *)j->req)->volume_id);
}

static void reply_sync_status(struct job *j)
{
    VolumeServerPb__VolumeSyncStatusResponse m = VOLUME_SERVER_PB__VOLUME_SYNC_STATUS_RESPONSE__INIT;
    char rp[4], ttl[TTL_TEXT_MAX];
    replica_placement_format(j->info.placement, rp);
    ttl_format(j->info.ttl, ttl);
    m.volume_id = j->info.id;
    m.collection = j->info.collection;
    m.replication = rp;
    m.ttl = ttl;
    m.tail_offset = j->info.dat_bytes;
    m.compact_revision = j->info.compact_revision;
    m.idx_file_size = j->idx_bytes;
    m.version = j->info.version;
    grpc_call_reply(j->call, &m.base);
}

static void run_file_status(struct job *j)
{
    look_at_volume(j, ((VolumeServerPb__ReadVolumeFileStatusRequest *)j->req)->volume_id);
}

static void reply_file_status(struct job *j)
{
    VolumeServerPb__ReadVolumeFileStatusResponse m = VOLUME_SERVER_PB__READ_VOLUME_FILE_STATUS_RESPONSE__INIT;
    m.volume_id = j->info.id;
    m.idx_file_timestamp_seconds = j->idx_s;
    m.idx_file_size = j->idx_bytes;
    m.dat_file_timestamp_seconds = j->dat_s;
    m.dat_file_size = j->info.dat_bytes;
    m.file_count = j->info.file_count;
    m.compaction_revision = j->info.compact_revision;
    m.collection = j->info.collection;
    m.version = j->info.version;
    grpc_call_reply(j->call, &m.base);
}

static void run_server_status(struct job *j)
{
    j->location_count = store_location_count(j->s->store);
    for (uint32_t i = 0; i < j->location_count; i++)
        store_location_info(j->s->store, i, &j->locations[i]);
}

static void reply_server_status(struct job *j)
{
    VolumeServerPb__VolumeServerStatusResponse m = VOLUME_SERVER_PB__VOLUME_SERVER_STATUS_RESPONSE__INIT;
    VolumeServerPb__DiskStatus disk[STORE_LOCATIONS_MAX], *disks[STORE_LOCATIONS_MAX];
    VolumeServerPb__MemStatus mem = VOLUME_SERVER_PB__MEM_STATUS__INIT;
    VolumeServerPb__VolumeServerState state = VOLUME_SERVER_PB__VOLUME_SERVER_STATE__INIT;
    struct server_memory sm;
    for (uint32_t i = 0; i < j->location_count; i++) {
        const struct location_info *loc = &j->locations[i];
        volume_server_pb__disk_status__init(&disk[i]);
        disk[i].dir = (char *)(uintptr_t)loc->dir;
        disk[i].all = loc->total_bytes;
        disk[i].free = loc->free_bytes;
        disk[i].used = loc->total_bytes - loc->free_bytes;
        if (loc->total_bytes > 0) {
            disk[i].percent_free = (float)(100.0 * (double)loc->free_bytes / (double)loc->total_bytes);
            disk[i].percent_used = 100.0f - disk[i].percent_free;
        }
        disks[i] = &disk[i];
    }
    m.disk_statuses = disks;
    m.n_disk_statuses = j->location_count;
    server_memory(&sm);
    mem.goroutines = (int32_t)j->s->loop_count + 1;
    mem.all = sm.all_bytes;
    mem.free = sm.free_bytes;
    mem.used = sm.all_bytes - sm.free_bytes;
    mem.self = sm.self_bytes;
    mem.heap = sm.heap_bytes;
    m.memory_status = &mem;
    m.version = (char *)(uintptr_t)DFS_NAME_AND_VERSION;
    m.data_center = (char *)(uintptr_t)j->s->o.data_center;
    m.rack = (char *)(uintptr_t)j->s->o.rack;
    state.maintenance = atomic_load(&j->s->maintenance);
    state.version = atomic_load(&j->s->state_version);
    m.state = &state;
    grpc_call_reply(j->call, &m.base);
}

/* ---- answered at once ---- */
static void begin_get_state(struct job *j)
{
    VolumeServerPb__GetStateResponse m = VOLUME_SERVER_PB__GET_STATE_RESPONSE__INIT;
    VolumeServerPb__VolumeServerState state = VOLUME_SERVER_PB__VOLUME_SERVER_STATE__INIT;
    state.maintenance = atomic_load(&j->s->maintenance);
    state.version = atomic_load(&j->s->state_version);
    m.state = &state;
    grpc_call_reply(j->call, &m.base);
    job_end(j);
}

static void begin_set_state(struct job *j)
{
    const VolumeServerPb__SetStateRequest *q = (void *)j->req;
    VolumeServerPb__SetStateResponse m = VOLUME_SERVER_PB__SET_STATE_RESPONSE__INIT;
    VolumeServerPb__VolumeServerState state = VOLUME_SERVER_PB__VOLUME_SERVER_STATE__INIT;
    if (q->state != NULL && q->state->version != 0 && q->state->version != atomic_load(&j->s->state_version)) {
        snprintf(j->error, sizeof j->error, "version mismatch: have %u, got %u", atomic_load(&j->s->state_version),
                 q->state->version);
        job_fail(j, DFS_ESTALE);
        return;
    }
    if (q->state != NULL && q->state->maintenance != atomic_load(&j->s->maintenance)) {
        atomic_store(&j->s->maintenance, q->state->maintenance);
        atomic_fetch_add(&j->s->state_version, 1);
        log_info("maintenance is %s", q->state->maintenance ? "on: no new data is taken" : "off");
    }
    state.maintenance = atomic_load(&j->s->maintenance);
    state.version = atomic_load(&j->s->state_version);
    m.state = &state;
    grpc_call_reply(j->call, &m.base);
    job_end(j);
}

/* The peer dials whatever target it is given.  dfs does not: a master is known by its stream, itself by answering. */
static void begin_ping(struct job *j)
{
    const VolumeServerPb__PingRequest *q = (void *)j->req;
    VolumeServerPb__PingResponse m = VOLUME_SERVER_PB__PING_RESPONSE__INIT;
    bool master = strcmp(q->target_type, "master") == 0;
    m.start_time_ns = (int64_t)clock_wall_ns();
    if (q->target[0] != '\0' && strcmp(q->target, j->s->self_url) != 0 &&
        !(master && heartbeat_knows(j->s->heartbeat, q->target) && heartbeat_connected(j->s->heartbeat))) {
        snprintf(j->error, sizeof j->error, "'%.128s' is not pinged: only what this server is connected to", q->target);
        job_fail(j, DFS_EDENIED);
        return;
    }
    m.remote_time_ns = (int64_t)clock_wall_ns();
    m.stop_time_ns = (int64_t)clock_wall_ns();
    grpc_call_reply(j->call, &m.base);
    job_end(j);
}

static void begin_leave(struct job *j)
{
    VolumeServerPb__VolumeServerLeaveResponse m = VOLUME_SERVER_PB__VOLUME_SERVER_LEAVE_RESPONSE__INIT;
    log_info("told to leave the cluster");
    heartbeat_stop(j->s->heartbeat);
    grpc_call_reply(j->call, &m.base);
    job_end(j);
}

/* ---- needles ---- */
static void on_batch(void *arg, const struct batch_result *results, uint32_t count)
{
    struct job *j = arg;
    const VolumeServerPb__BatchDeleteRequest *q = (void *)j->req;
    VolumeServerPb__BatchDeleteResponse m = VOLUME_SERVER_PB__BATCH_DELETE_RESPONSE__INIT;
    VolumeServerPb__DeleteResult *row = calloc(count + 1, sizeof *row), **rows = calloc(count + 1, sizeof *rows);
    j->running = false;
    if (row == NULL || rows == NULL) {
        job_fail(j, DFS_ENOMEM);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            volume_server_pb__delete_result__init(&row[i]);
            row[i].file_id = q->file_ids[i];
            row[i].status = results[i].status;
            row[i].size = results[i].size;
            if (results[i].error != NULL)
                row[i].error = (char *)(uintptr_t)results[i].error;
            rows[i] = &row[i];
        }
        m.results = rows;
        m.n_results = count;
        if (j->call != NULL)
            grpc_call_reply(j->call, &m.base);
        job_end(j);
    }
    free(row);
    free(rows);
}

static void begin_batch_delete(struct job *j)
{
    const VolumeServerPb__BatchDeleteRequest *q = (void *)j->req;
    j->fids = calloc(q->n_file_ids + 1, sizeof *j->fids);
    if (j->fids == NULL) {
        job_fail(j, DFS_ENOMEM);
        return;
    }
    for (size_t i = 0; i < q->n_file_ids; i++)
        j->fids[i] = bytes_str(q->file_ids[i]);
    j->running = true;
    int rc = batch_delete_start(j->s, j->g->control, j->fids, (uint32_t)q->n_file_ids, q->skip_cookie_check, on_batch, j);
    if (rc != 0) {
        j->running = false;
        job_fail(j, rc);
    }
}

static void reply_needle_meta(struct job *j)
{
    const struct needle *n = &j->look.needle;
    VolumeServerPb__ReadNeedleMetaResponse m = VOLUME_SERVER_PB__READ_NEEDLE_META_RESPONSE__INIT;
    char ttl[TTL_TEXT_MAX];
    ttl_format(n->ttl, ttl);
    m.cookie = n->cookie;
    m.last_modified = n->last_modified_s;
    m.crc = j->look.data_crc;
    m.ttl = ttl;
    m.append_at_ns = n->append_at_ns;
    grpc_call_reply(j->call, &m.base);
}

static void reply_needle_status(struct job *j)
{
    const struct needle *n = &j->look.needle;
    VolumeServerPb__VolumeNeedleStatusResponse m = VOLUME_SERVER_PB__VOLUME_NEEDLE_STATUS_RESPONSE__INIT;
    char ttl[TTL_TEXT_MAX];
    ttl_format(n->ttl, ttl);
    m.needle_id = n->key;
    m.cookie = n->cookie;
    m.size = n->body_bytes;
    m.last_modified = n->last_modified_s;
    m.crc = j->look.data_crc;
    m.ttl = ttl;
    grpc_call_reply(j->call, &m.base);
}

static void looked(struct job *j, int rc)
{
    if (rc == 0 && j->call != NULL)
        j->method->reply(j);
    needle_read_release(&j->look);
    if (rc != 0)
        job_fail(j, rc);
    else
        job_end(j);
}

static void on_looked(struct needle_read *look, int rc)
{
    struct job *j = (struct job *)((char *)look - offsetof(struct job, look));
    j->running = false;
    looked(j, rc);
}

static void look_at_needle(struct job *j, uint32_t volume_id, uint64_t key)
{
    j->look.store = j->s->store;
    j->look.loop = j->g->control;
    j->look.fid = (struct fid){.volume_id = volume_id, .key = key};
    j->look.meta_only = true;
    j->look.skip_cookie = true;
    j->look.done = on_looked;
    int rc = needle_read_start(&j->look);
    if (rc == DFS_EAGAIN)
        j->running = true;
    else
        looked(j, rc);
}

static void begin_needle_meta(struct job *j)
{
    const VolumeServerPb__ReadNeedleMetaRequest *q = (void *)j->req;
    look_at_needle(j, q->volume_id, q->needle_id);
}

static void begin_needle_status(struct job *j)
{
    const VolumeServerPb__VolumeNeedleStatusRequest *q = (void *)j->req;
    look_at_needle(j, q->volume_id, q->needle_id);
}

#define REQUEST(name) &volume_server_pb__##name##_request__descriptor

static const struct method methods[] = {
    {SERVICE "AllocateVolume", REQUEST(allocate_volume), run_allocate, NULL, reply_allocate, 0},
    {SERVICE "DeleteCollection", REQUEST(delete_collection), run_delete_collection, NULL, reply_delete_collection, 0},
    {SERVICE "VolumeMount", REQUEST(volume_mount), run_mount, NULL, reply_mount, 0},
    {SERVICE "VolumeUnmount", REQUEST(volume_unmount), run_unmount, NULL, reply_unmount, 0},
    {SERVICE "VolumeDelete", REQUEST(volume_delete), run_delete_volume, NULL, reply_delete_volume, 0},
    {SERVICE "VolumeMarkReadonly", REQUEST(volume_mark_readonly), run_mark_readonly, NULL, reply_mark_readonly, 0},
    {SERVICE "VolumeMarkWritable", REQUEST(volume_mark_writable), run_mark_writable, NULL, reply_mark_writable, 0},
    {SERVICE "VolumeConfigure", REQUEST(volume_configure), run_configure, NULL, reply_configure, 0},
    {SERVICE "VacuumVolumeCheck", REQUEST(vacuum_volume_check), run_vacuum_check, NULL, reply_vacuum_check, 0},
    {SERVICE "VacuumVolumeCompact", REQUEST(vacuum_volume_compact), run_vacuum_compact, NULL, reply_vacuum_compact, 0},
    {SERVICE "VacuumVolumeCommit", REQUEST(vacuum_volume_commit), run_vacuum_commit, NULL, reply_vacuum_commit, 0},
    {SERVICE "VacuumVolumeCleanup", REQUEST(vacuum_volume_cleanup), run_vacuum_cleanup, NULL, reply_vacuum_cleanup, 0},
    {SERVICE "VolumeStatus", REQUEST(volume_status), run_volume_status, NULL, reply_volume_status, 0},
    {SERVICE "VolumeSyncStatus", REQUEST(volume_sync_status), run_sync_status, NULL, reply_sync_status, 0},
    {SERVICE "ReadVolumeFileStatus", REQUEST(read_volume_file_status), run_file_status, NULL, reply_file_status, 0},
    {SERVICE "VolumeServerStatus", REQUEST(volume_server_status), run_server_status, NULL, reply_server_status, 0},
    {SERVICE "VolumeServerLeave", REQUEST(volume_server_leave), NULL, begin_leave, NULL, 0},
    {SERVICE "GetState", REQUEST(get_state), NULL, begin_get_state, NULL, 0},
    {SERVICE "SetState", REQUEST(set_state), NULL, begin_set_state, NULL, 0},
    {SERVICE "Ping", REQUEST(ping), NULL, begin_ping, NULL, 0},
    {SERVICE "BatchDelete", REQUEST(batch_delete), NULL, begin_batch_delete, NULL, BATCH_MESSAGE_MAX},
    {SERVICE "ReadNeedleMeta", REQUEST(read_needle_meta), NULL, begin_needle_meta, reply_needle_meta, 0},
    {SERVICE "VolumeNeedleStatus", REQUEST(volume_needle_status), NULL, begin_needle_status, reply_needle_status, 0},
};
#define METHODS (sizeof methods / sizeof methods[0])

static struct grpc_method table[METHODS];

int volume_grpc_new(struct volume_server *s, struct loop *control, struct volume_grpc **out)
{
    struct volume_grpc *g = calloc(1, sizeof *g);
    if (g == NULL)
        return DFS_ENOMEM;
    g->s = s;
    g->control = control;
    for (size_t i = 0; i < METHODS; i++)
        table[i] = (struct grpc_method){methods[i].path, &call_ops, methods[i].message_max};
    struct grpc_server_options o = {
        .loop = control,
        .host = s->o.ip_bind,
        .port = s->o.port_grpc,
        .methods = table,
        .method_count = METHODS,
        .arg = g,
    };
    int rc = grpc_server_new(&o, &g->server);
    if (rc != 0) {
        free(g);
        return rc;
    }
    *out = g;
    return 0;
}

void volume_grpc_drain(struct volume_grpc *g)
{
    grpc_server_drain(g->server);
}

void volume_grpc_free(struct volume_grpc *g)
{
    if (g == NULL)
        return;
    grpc_server_free(g->server);
    free(g);
}
