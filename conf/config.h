/* Everything that options can set, in one struct, so that a table row is an offset into it.  conf only. */
#ifndef DFS_CONF_CONFIG_H
#define DFS_CONF_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/benchmark.h"
#include "bench/mode.h"
#include "bench/plot.h"
#include "bench/tool.h"
#include "master/master_server.h"
#include "volume/volume_server.h"

/* Options that both daemons share. */
struct common_options {
    const char *ip, *ip_bind;
    const char *dir;         /* comma list of data folders */
    const char *max;         /* comma list */
    const char *min_free;    /* percent, or bytes with a unit */
    const char *data_center, *rack;
    uint32_t idle_timeout_s;
    uint32_t max_connections;
    const char *white_list;
    uint32_t pulse_s;
    const char *cpuprofile;
    const char *pid_file;
    const char *log_file;
    int log_level;
    uint32_t metrics_port;
    const char *metrics_ip;
    const char *options_file;
    const char *conf_file;
    bool run_master, run_volume;
    uint32_t stop_timeout_s; /* SIGTERM: time for requests under way */
    bool read_redirect;      /* the older spelling of -readMode */
    int index;               /* memory, leveldb, leveldbMedium, leveldbLarge */
    int offset_bytes;        /* choice: 4, 5 */
    int read_check;          /* choice: auto, always */
};

struct config {
    struct common_options common;
    struct master_options master;
    struct volume_options volume;
    struct benchmark_options bench;
    struct mode_options mode;
    struct plot_options plot;
    struct tool_options tool;
    /* text that the values point into */
    char **owned;
    uint32_t owned_count, owned_cap;
    uint8_t *given; /* one byte per table row: set by the user */
};

/* Copies a text and keeps it until config_release(); NULL when out of memory. */
const char *config_keep(struct config *c, const char *text, size_t n);
void config_release(struct config *c);

/* Spreads the shared options over the daemons' own, splits lists, and checks what one row cannot see (lists of unequal length,
 * ports that leave 16 bits, unsafe names, ...).  0, or -1 after one line on standard error. */
int config_finish(struct config *c, int cmd);

#endif
