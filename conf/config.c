/* What one row of the table cannot see: lists, ports that hang together, shared options spread over the daemons. */
#include "conf/config.h"

#include <ctype.h>
#include <strings.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/option.h"
#include "needle/check.h"
#include "net/addr.h"

const char *config_keep(struct config *c, const char *text, size_t n)
{
    char *copy;

    if (c->owned_count == c->owned_cap) {
        uint32_t cap = c->owned_cap == 0 ? 64 : c->owned_cap * 2;
        char **grown = realloc(c->owned, cap * sizeof *grown);

        if (grown == NULL)
            return NULL;
        c->owned = grown;
        c->owned_cap = cap;
    }
    copy = strndup(text, n);
    if (copy != NULL)
        c->owned[c->owned_count++] = copy;
    return copy;
}

void config_release(struct config *c)
{
    for (uint32_t i = 0; i < c->owned_count; i++)
        free(c->owned[i]);
    free(c->owned);
    free(c->given);
    memset(c, 0, sizeof *c);
}

/* Whether the user set the option of that name whose row has all the bits of `scope`. */
static bool config_given(const struct config *c, const char *name, unsigned scope)
{
    for (size_t i = 0; i < option_count; i++)
        if (c->given != NULL && c->given[i] && (option_table[i].scope & scope) == scope &&
            strcmp(option_table[i].name, name) == 0)
            return true;
    return false;
}

static int refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int refuse(const char *fmt, ...)
{
    va_list ap;

    fputs("dfs: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return -1;
}

/* What stands in front of a daemon's option in this command. */
static const char *prefix_of(int cmd, const char *in_server)
{
    return cmd == CMD_SERVER ? in_server : "";
}

/* "1" or "40%" percent, "5GiB", "100MB", "1k" bytes (powers of 1024 whatever the spelling, as the peer counts). */
static int parse_min_free(const char *text, double *percent, uint64_t *bytes)
{
    static const char units[] = "KMGTP";
    char *end;
    double v = strtod(text, &end);

    if (end == text || !(v >= 0) || !isdigit((unsigned char)text[0]))
        return -1;
    if (*end == '\0' || strcmp(end, "%") == 0) {
        *percent = v;
        *bytes = 0;
        return v <= 100 ? 0 : -1;
    }
    for (int i = 0; units[i] != '\0'; i++) {
        if (toupper((unsigned char)*end) != units[i])
            continue;
        if (end[1] != '\0' && strcasecmp(end + 1, "b") != 0 && strcasecmp(end + 1, "ib") != 0)
            return -1;
        v *= (double)(1ull << (10 * (i + 1)));
        *bytes = v < 9e18 ? (uint64_t)v : 0;
        return *bytes != 0 ? 0 : -1;
    }
    return -1;
}

/* Splits a comma list into at most cap kept texts; -1 when there are more, or an empty one. */
static int split_list(struct config *c, const char *list, const char **out, size_t cap)
{
    int n = 0;

    for (const char *p = list;;) {
        const char *end = strchrnul(p, ',');

        while (*p == ' ')
            p++;
        if (end == p || (size_t)n == cap)
            return -1;
        out[n] = config_keep(c, p, (size_t)(end - p));
        if (out[n++] == NULL)
            return -1;
        if (*end == '\0')
            return n;
        p = end + 1;
    }
}

static int finish_folders(struct config *c, int cmd)
{
    const char *prefix = prefix_of(cmd, "volume.");
    const char *max[STORE_LOCATIONS_MAX];
    int dirs = split_list(c, c->common.dir, c->volume.dirs, STORE_LOCATIONS_MAX);
    int maxes = split_list(c, c->common.max, max, STORE_LOCATIONS_MAX);

    if (dirs < 0)
        return refuse("value '%s' of option '-dir' has an empty name in it, or more than %d", c->common.dir,
                      STORE_LOCATIONS_MAX);
    if (maxes < 0 || (maxes != 1 && maxes != dirs))
        return refuse("value '%s' of option '-%smax' must be one number, or one for each folder of -dir (%d)",
                      c->common.max, prefix, dirs);
    for (int i = 0; i < dirs; i++) {
        const char *text = max[maxes == 1 ? 0 : i];
        char *end;
        unsigned long v = strtoul(text, &end, 10);

        if (!isdigit((unsigned char)text[0]) || *end != '\0' || v > 10000000)
            return refuse("value '%s' of option '-%smax' is no number of volumes", text, prefix);
        c->volume.max_volumes[i] = (uint32_t)v;
    }
    c->volume.dir_count = (uint32_t)dirs;
    return 0;
}

static int finish_volume(struct config *c, int cmd)
{
    static const uint32_t leveldb_cache[] = {0, 2u << 20, 4u << 20, 8u << 20};
    const char *prefix = prefix_of(cmd, "volume.");
    struct volume_options *v = &c->volume;

    v->ip = c->common.ip;
    v->ip_bind = c->common.ip_bind;
    v->data_center = c->common.data_center;
    v->rack = c->common.rack;
    v->white_list = c->common.white_list;
    v->idle_timeout_s = c->common.idle_timeout_s;
    v->pulse_s = c->common.pulse_s;
    v->max_connections = c->common.max_connections;
    v->pre_stop_s = c->common.stop_timeout_s;
    /* In `dfs server` the master has that port. */
    v->metrics_port = cmd == CMD_VOLUME || !c->common.run_master ? (uint16_t)c->common.metrics_port : 0;
    v->metrics_ip = c->common.metrics_ip;
    v->index_kind = c->common.index == 0 ? NEEDLE_MAP_MEMORY : NEEDLE_MAP_LEVELDB;
    v->leveldb_cache_bytes = leveldb_cache[c->common.index];
    v->offset_width = c->common.offset_bytes == 0 ? 4 : 5;
    v->read_check_always = c->common.read_check == 1;
    if (config_given(c, "read.redirect", IN_VOLUME) && !config_given(c, "readMode", IN_VOLUME))
        v->read_mode = c->common.read_redirect ? VOLUME_READ_REDIRECT : VOLUME_READ_LOCAL;
    if (parse_min_free(c->common.min_free, &v->min_free_percent, &v->min_free_bytes) != 0)
        return refuse("value '%s' of option '-%sminFreeSpace' is neither a percentage nor a size such as 5GiB",
                      c->common.min_free, prefix);
    if (v->port_grpc == 0 && v->port > UINT16_MAX - ADDR_GRPC_PORT_STEP)
        return refuse("volume port %u leaves no room for the gRPC port at plus %d: give -%sport.grpc", v->port,
                      ADDR_GRPC_PORT_STEP, prefix);
    return finish_folders(c, cmd);
}

static int finish_master(struct config *c, int cmd)
{
    struct master_options *m = &c->master;

    m->ip = c->common.ip;
    m->ip_bind = c->common.ip_bind;
    m->white_list = c->common.white_list;
    m->idle_timeout_s = c->common.idle_timeout_s;
    m->pulse_s = c->common.pulse_s;
    m->max_connections = c->common.max_connections;
    m->metrics_port = c->common.metrics_port;
    m->metrics_ip = c->common.metrics_ip;
    if (m->port_grpc == 0 && m->port > UINT16_MAX - ADDR_GRPC_PORT_STEP)
        return refuse("master port %u leaves no room for the gRPC port at plus %d: give -%sport.grpc", m->port,
                      ADDR_GRPC_PORT_STEP, prefix_of(cmd, "master."));
    if (m->dir[0] == '\0' && cmd == CMD_MASTER)
        m->dir = "./data";
    return (cmd == CMD_SERVER && !c->common.run_master) || master_peers_check(m) == 0 ? 0 : -1;
}

/* The volume server of `dfs server` talks to the master beside it over the advertised address, as if apart. */
static int finish_server(struct config *c)
{
    char text[ADDR_TEXT_MAX + 32];
    uint32_t grpc = c->master.port_grpc;

    if (!c->common.run_master && !c->common.run_volume)
        return refuse("-master=false and -volume=false leave nothing to run");
    if (c->master.dir[0] == '\0')
        c->master.dir = c->volume.dirs[0];
    if (!c->common.run_master || config_given(c, "master", IN_VOLUME))
        return 0;
    if (grpc == 0)
        grpc = c->master.port + ADDR_GRPC_PORT_STEP;
    snprintf(text, sizeof text, "%s:%u.%u", c->common.ip, c->master.port, grpc);
    c->volume.masters = config_keep(c, text, strlen(text));
    return c->volume.masters != NULL ? 0 : refuse("out of memory");
}

int config_finish(struct config *c, int cmd)
{
    int rc = 0;

    if (c->common.ip[0] == '\0')
        c->common.ip = "127.0.0.1";
    if (cmd == CMD_VOLUME || cmd == CMD_SERVER)
        rc = finish_volume(c, cmd);
    if (rc == 0 && (cmd == CMD_MASTER || cmd == CMD_SERVER))
        rc = finish_master(c, cmd);
    if (rc == 0 && cmd == CMD_SERVER)
        rc = finish_server(c);
    return rc;
}
