/* Checks, sums and texts of a plan. */
#include "bench/record_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/load.h"
#include "needle/check.h"
#include "needle/err.h"

static const char *const rw_names[RECORD_RWS] = {"read", "write", "randread", "randwrite", "randrw"};

const char *record_rw_name(enum record_rw rw)
{
    return rw_names[rw];
}

int record_rw_parse(struct bytes text, enum record_rw *out)
{
    for (int i = 0; i < RECORD_RWS; i++) {
        if (bytes_eq(text, bytes_str(rw_names[i]))) {
            *out = (enum record_rw)i;
            return 0;
        }
    }
    return DFS_EINVAL;
}

bool record_rw_reads(enum record_rw rw)
{
    return rw == RECORD_READ || rw == RECORD_RANDREAD || rw == RECORD_RANDRW;
}

bool record_rw_writes(enum record_rw rw)
{
    return rw == RECORD_WRITE || rw == RECORD_RANDWRITE || rw == RECORD_RANDRW;
}

#define REFUSE(rc, ...)                                   \
    do {                                                  \
        snprintf(error, RECORD_ERROR_MAX, __VA_ARGS__);   \
        return (rc);                                      \
    } while (0)

static int check_sizes(const struct record_plan *p, char error[RECORD_ERROR_MAX])
{
    if (p->record_bytes == 0 || p->record_bytes > RECORD_BYTES_MAX)
        REFUSE(DFS_EINVAL, "a record of %" PRIu64 " bytes is not between 1 and %llu", p->record_bytes, RECORD_BYTES_MAX);
    if (p->needle_bytes > RECORD_BYTES_MAX || p->needle_bytes % p->record_bytes != 0)
        REFUSE(DFS_EINVAL, "a needle of %" PRIu64 " bytes is no multiple of the record's %" PRIu64 " up to %llu", p->needle_bytes,
               p->record_bytes, RECORD_BYTES_MAX);
    if (p->needle_bytes != p->record_bytes && record_rw_writes(p->rw))
        REFUSE(DFS_EINVAL, "%s replaces whole needles: a needle cannot be larger than a record", record_rw_name(p->rw));
    if (p->file_bytes < p->needle_bytes)
        REFUSE(DFS_EINVAL, "%" PRIu64 " bytes for each job are less than one needle of %" PRIu64, p->file_bytes, p->needle_bytes);
    return 0;
}

int record_plan_check(struct record_plan *p, char error[RECORD_ERROR_MAX])
{
    int rc;

    if (p->rw >= RECORD_RWS || p->read_percent > 100)
        REFUSE(DFS_EINVAL, "no such pattern");
    if (p->jobs == 0 || p->jobs > RECORD_JOBS_MAX)
        REFUSE(DFS_EINVAL, "%u jobs are not between 1 and %u", p->jobs, RECORD_JOBS_MAX);
    if (p->needle_bytes == 0)
        p->needle_bytes = p->record_bytes;
    rc = check_sizes(p, error);
    if (rc != 0)
        return rc;
    if (p->needle_bytes * p->jobs > LOAD_BODIES_BYTES_MAX)
        REFUSE(DFS_ETOOBIG, "%u needles of %" PRIu64 " bytes at once are more than %llu MB", p->jobs, p->needle_bytes,
               LOAD_BODIES_BYTES_MAX >> 20);
    if (p->file_bytes / p->needle_bytes > RECORD_NEEDLES_MAX / p->jobs)
        REFUSE(DFS_ETOOBIG, "%u jobs of %" PRIu64 " needles are more than %llu needles in all", p->jobs,
               p->file_bytes / p->needle_bytes, RECORD_NEEDLES_MAX);
    p->file_bytes -= p->file_bytes % p->needle_bytes;
    return 0;
}

uint64_t record_plan_needles(const struct record_plan *p)
{
    return p->file_bytes / p->needle_bytes;
}

uint64_t record_plan_records(const struct record_plan *p)
{
    return p->file_bytes / p->record_bytes;
}

struct record_need record_plan_need(const struct record_plan *p)
{
    uint64_t n = record_plan_needles(p) * p->jobs;
    return (struct record_need){
        .needles = n,
        .client_bytes = n * RECORD_CLIENT_BYTES + p->needle_bytes * p->jobs,
        .index_bytes = n * RECORD_INDEX_BYTES,
        .disk_bytes = n * (p->needle_bytes + RECORD_DISK_EXTRA_BYTES),
    };
}

int record_need_fits(const struct record_need *n, uint64_t available_bytes, bool with_server, char error[RECORD_ERROR_MAX])
{
    uint64_t need = n->client_bytes + (with_server ? n->index_bytes : 0);
    char a[RECORD_SIZE_TEXT_MAX], b[RECORD_SIZE_TEXT_MAX];

    if (available_bytes == 0 || need <= available_bytes)
        return 0;
    REFUSE(DFS_ENOMEM, "%" PRIu64 " needles need %s of memory%s and %s are free: fewer jobs, a smaller -size or a larger -bs",
           n->needles, record_size_text(need, a), with_server ? ", server and client together," : "",
           record_size_text(available_bytes, b));
}

uint64_t record_memory_available(void)
{
    char line[128];
    unsigned long long kb = 0;
    FILE *f = fopen("/proc/meminfo", "re");

    if (f == NULL)
        return 0;
    while (kb == 0 && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kb) != 1)
            kb = 0;
    fclose(f);
    return (uint64_t)kb << 10;
}

int record_list_parse(struct bytes text, uint32_t max, uint32_t out[RECORD_LIST_MAX], uint32_t *count)
{
    uint32_t list[RECORD_LIST_MAX], n = 0;
    size_t i = 0;

    for (;;) {
        uint64_t v = 0;
        size_t from = i;
        while (i < text.n && text.p[i] >= '0' && text.p[i] <= '9' && v <= max)
            v = v * 10 + (uint64_t)(text.p[i++] - '0');
        if (i == from || v == 0 || v > max || n == RECORD_LIST_MAX)
            return DFS_EINVAL;
        list[n++] = (uint32_t)v;
        if (i == text.n)
            break;
        if (text.p[i++] != ',')
            return DFS_EINVAL;
    }
    memcpy(out, list, n * sizeof *list);
    *count = n;
    return 0;
}

const char *record_size_text(uint64_t bytes, char out[RECORD_SIZE_TEXT_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    size_t unit = 0;

    while (v >= 1024 && unit + 1 < ARRAY_LEN(units)) {
        v /= 1024;
        unit++;
    }
    snprintf(out, RECORD_SIZE_TEXT_MAX, v == (double)(uint64_t)v ? "%.0f %s" : "%.1f %s", v, units[unit]);
    return out;
}
