/* Counters of the volume daemon, under the names that the peer's dashboards read.  Any thread. */
#ifndef DFS_VOLUME_SERVER_METRICS_H
#define DFS_VOLUME_SERVER_METRICS_H

#include <stdint.h>

#include "net/http_parse.h"
#include "net/metrics.h"

#define SERVER_METRICS_METHODS 7u /* enum http_method */
#define SERVER_METRICS_CODES 26u

/* What went wrong or was done, SeaweedFS_volumeServer_handler_total{type=...}. */
enum server_event {
    EVENT_GET_NOT_FOUND, EVENT_GET_INTERNAL, EVENT_CRC, EVENT_WRITE_LOCAL, EVENT_WRITE_REPLICAS, EVENT_WRITE_REFUSED,
    EVENT_DELETE_FAILED, EVENT_UPLOAD_LIMIT, EVENT_DOWNLOAD_LIMIT, EVENT_DENIED, EVENT_UNDO, EVENT_UNDO_LOST,
    EVENT_REPAIR_READ, EVENT_STALE_RETRY,
    EVENT_COUNT,
};
/* SeaweedFS_volumeServer_replication_failures_total{reason=...}. */
enum replication_failure {
    REPLICATION_REFUSED_CONNECTION, REPLICATION_TIMEOUT, REPLICATION_CANCELLED, REPLICATION_SERVER_ERROR, REPLICATION_FAILURES,
};

struct volume_server;

struct server_metrics {
    struct metrics *set;
    struct metric_counter requests[SERVER_METRICS_METHODS][SERVER_METRICS_CODES];
    struct metric_histogram seconds[SERVER_METRICS_METHODS];
    struct metric_histogram local_write_seconds, replica_write_seconds;
    struct metric_counter events[EVENT_COUNT];
    struct metric_counter replication_ok[2], replication_failed[2][REPLICATION_FAILURES]; /* 0 write, 1 delete */
    struct metric_counter master_disconnections;
    struct metric_counter bytes_in, bytes_out;
};

/* Registers what /metrics shows.  The others count from any loop; ns is from the head's first byte to the reply. */
int server_metrics_init(struct server_metrics *m, struct volume_server *s);
void server_metrics_release(struct server_metrics *m);
void server_metrics_request(struct server_metrics *m, enum http_method method, int status, uint64_t ns);
void server_metrics_event(struct server_metrics *m, enum server_event e);
uint64_t server_metrics_requests(const struct server_metrics *m, enum http_method method);

#endif
