/* The daemon's counters and how they are shown. */
#include "volume/server_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/clock.h"
#include "volume/handlers.h"

/* The last slot takes every code that is not named. */
static const int codes[SERVER_METRICS_CODES - 1] = {
    200, 201, 202, 204, 206, 301, 304, 307, 400, 401, 403, 404, 405, 409, 411, 412, 413, 414, 416, 417, 429, 499, 500, 503, 507,
};
static const char *const methods[SERVER_METRICS_METHODS] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "OTHER"};
static const char *const method_labels[SERVER_METRICS_METHODS] = {
    "type=\"GET\"", "type=\"HEAD\"", "type=\"POST\"", "type=\"PUT\"", "type=\"DELETE\"", "type=\"OPTIONS\"", "type=\"OTHER\"",
};
static const char *const event_names[EVENT_COUNT] = {
    [EVENT_GET_NOT_FOUND] = "errorGetNotFound",
    [EVENT_GET_INTERNAL] = "errorGetInternal",
    [EVENT_CRC] = "errorCRC",
    [EVENT_WRITE_LOCAL] = "errorWriteToLocalDisk",
    [EVENT_WRITE_REPLICAS] = "errorWriteToReplicas",
    [EVENT_WRITE_REFUSED] = "writeRefused",
    [EVENT_DELETE_FAILED] = "errorDelete",
    [EVENT_UPLOAD_LIMIT] = "uploadLimitCond",
    [EVENT_DOWNLOAD_LIMIT] = "downloadLimitCond",
    [EVENT_DENIED] = "denied",
    [EVENT_UNDO] = "undo",
    [EVENT_UNDO_LOST] = "undoLost",
    [EVENT_REPAIR_READ] = "readFromReplica",
    [EVENT_STALE_RETRY] = "staleRetry",
};
static const char *const failure_names[REPLICATION_FAILURES] = {
    [REPLICATION_REFUSED_CONNECTION] = "connection_refused",
    [REPLICATION_TIMEOUT] = "timeout",
    [REPLICATION_CANCELLED] = "context_cancelled",
    [REPLICATION_SERVER_ERROR] = "server_error",
};
static const char *const operations[2] = {"write", "delete"};

static void head(struct metric_text *out, const char *name, const char *type, const char *help)
{
    metric_text_printf(out, "# HELP SeaweedFS_%s %s\n# TYPE SeaweedFS_%s %s\n", name, help, name, type);
}

static void show_requests(struct metric_text *out, struct server_metrics *m)
{
    head(out, "volumeServer_request_total", "counter", "Requests answered.");
    for (unsigned i = 0; i < SERVER_METRICS_METHODS; i++) {
        for (unsigned c = 0; c < SERVER_METRICS_CODES; c++) {
            uint64_t v = metric_value(&m->requests[i][c]);
            if (v == 0)
                continue;
            if (c < SERVER_METRICS_CODES - 1)
                metric_text_printf(out, "SeaweedFS_volumeServer_request_total{code=\"%d\",type=\"%s\"} %" PRIu64 "\n", codes[c],
                                   methods[i], v);
            else
                metric_text_printf(out, "SeaweedFS_volumeServer_request_total{code=\"other\",type=\"%s\"} %" PRIu64 "\n",
                                   methods[i], v);
        }
    }
    head(out, "volumeServer_handler_total", "counter", "What requests met.");
    for (unsigned i = 0; i < EVENT_COUNT; i++)
        metric_text_printf(out, "SeaweedFS_volumeServer_handler_total{type=\"%s\"} %" PRIu64 "\n", event_names[i],
                           metric_value(&m->events[i]));
}

static void show_replication(struct metric_text *out, struct server_metrics *m)
{
    head(out, "volumeServer_replication_operations_total", "counter", "Calls to sister replicas.");
    for (unsigned op = 0; op < 2; op++) {
        uint64_t bad = 0;
        for (unsigned f = 0; f < REPLICATION_FAILURES; f++)
            bad += metric_value(&m->replication_failed[op][f]);
        metric_text_printf(out,
                           "SeaweedFS_volumeServer_replication_operations_total{operation=\"%s\",result=\"failure\"} "
                           "%" PRIu64 "\n",
                           operations[op], bad);
        metric_text_printf(out,
                           "SeaweedFS_volumeServer_replication_operations_total{operation=\"%s\",result=\"success\"} "
                           "%" PRIu64 "\n",
                           operations[op], metric_value(&m->replication_ok[op]));
    }
    head(out, "volumeServer_replication_failures_total", "counter", "Failed calls to sister replicas.");
    for (unsigned op = 0; op < 2; op++)
        for (unsigned f = 0; f < REPLICATION_FAILURES; f++)
            metric_text_printf(out,
                               "SeaweedFS_volumeServer_replication_failures_total{operation=\"%s\",reason=\"%s\"} "
                               "%" PRIu64 "\n",
                               operations[op], failure_names[f], metric_value(&m->replication_failed[op][f]));
}

static void show_limits(struct metric_text *out, struct volume_server *s)
{
    head(out, "volumeServer_concurrent_upload_limit", "gauge", "Bound on upload bytes in flight; 0 = none.");
    metric_text_printf(out, "SeaweedFS_volumeServer_concurrent_upload_limit %" PRIu64 "\n", s->o.upload_limit_bytes);
    head(out, "volumeServer_concurrent_download_limit", "gauge", "Bound on download bytes in flight; 0 = none.");
    metric_text_printf(out, "SeaweedFS_volumeServer_concurrent_download_limit %" PRIu64 "\n", s->o.download_limit_bytes);
    head(out, "volumeServer_in_flight_upload_size", "gauge", "Upload bytes in flight.");
    metric_text_printf(out, "SeaweedFS_volumeServer_in_flight_upload_size %" PRIu64 "\n", atomic_load(&s->upload_bytes));
    head(out, "volumeServer_in_flight_download_size", "gauge", "Download bytes in flight.");
    metric_text_printf(out, "SeaweedFS_volumeServer_in_flight_download_size %" PRIu64 "\n", atomic_load(&s->download_bytes));
    head(out, "volumeServer_start_time_seconds", "gauge", "When the server started.");
    metric_text_printf(out, "SeaweedFS_volumeServer_start_time_seconds %" PRIu64 "\n", s->start_s);
    head(out, "volumeServer_connections", "gauge", "Open HTTP connections.");
    metric_text_printf(out, "SeaweedFS_volumeServer_connections %u\n",
                       s->main_door.http != NULL ? http_server_connections(s->main_door.http) : 0);
    head(out, "build_info", "gauge", "What is running.");
    metric_text_printf(out,
                       "SeaweedFS_build_info{commit=\"\",goarch=\"amd64\",goos=\"linux\",sizelimit=\"8000GB\",version=\"%s\"} "
                       "1\n",
                       DFS_NAME_AND_VERSION);
}

static void collect(struct metric_text *out, void *arg)
{
    struct volume_server *s = arg;
    show_requests(out, &s->metrics);
    show_replication(out, &s->metrics);
    show_limits(out, s);
    store_metrics(s->store, out);
}

int server_metrics_init(struct server_metrics *m, struct volume_server *s)
{
    int rc = metrics_new(&m->set);
    for (unsigned i = 0; rc == 0 && i < SERVER_METRICS_METHODS; i++)
        rc = metrics_histogram(m->set, "SeaweedFS_volumeServer_request_seconds", method_labels[i], "Time of requests.",
                               &m->seconds[i]);
    if (rc == 0)
        rc = metrics_histogram(m->set, "SeaweedFS_volumeServer_request_seconds", "type=\"writeToLocalDisk\"",
                               "Time of requests.", &m->local_write_seconds);
    if (rc == 0)
        rc = metrics_histogram(m->set, "SeaweedFS_volumeServer_request_seconds", "type=\"writeToReplicas\"",
                               "Time of requests.", &m->replica_write_seconds);
    if (rc == 0)
        rc = metrics_counter(m->set, "SeaweedFS_volumeServer_master_disconnections", "", "Lost streams to the master.",
                             &m->master_disconnections);
    if (rc == 0)
        rc = metrics_counter(m->set, "SeaweedFS_volumeServer_bytes_in_total", "", "Body bytes received.", &m->bytes_in);
    if (rc == 0)
        rc = metrics_counter(m->set, "SeaweedFS_volumeServer_bytes_out_total", "", "Bytes sent.", &m->bytes_out);
    if (rc == 0)
        rc = metrics_collector(m->set, collect, s);
    return rc;
}

void server_metrics_release(struct server_metrics *m)
{
    if (m->set != NULL)
        metrics_free(m->set);
    m->set = NULL;
}

static unsigned code_slot(int status)
{
    switch (status) { /* the two that matter come first */
    case 200:
        return 0;
    case 201:
        return 1;
    default:
        for (unsigned c = 2; c < SERVER_METRICS_CODES - 1; c++)
            if (codes[c] == status)
                return c;
        return SERVER_METRICS_CODES - 1;
    }
}

void server_metrics_request(struct server_metrics *m, enum http_method method, int status, uint64_t ns)
{
    unsigned i = (unsigned)method < SERVER_METRICS_METHODS ? (unsigned)method : SERVER_METRICS_METHODS - 1;
    metric_add(&m->requests[i][code_slot(status)], 1);
    metric_observe_ns(&m->seconds[i], ns);
}

void server_metrics_event(struct server_metrics *m, enum server_event e)
{
    metric_add(&m->events[e], 1);
}

uint64_t server_metrics_requests(const struct server_metrics *m, enum http_method method)
{
    uint64_t sum = 0;
    for (unsigned c = 0; c < SERVER_METRICS_CODES; c++)
        sum += metric_value(&m->requests[method][c]);
    return sum;
}

void volume_server_metrics(struct volume_server *s, struct metric_text *out)
{
    metrics_render(s->metrics.set, out);
}
