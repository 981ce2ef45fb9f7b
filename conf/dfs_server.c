/* One process with a master, a volume server, or both.
 *
 * The main loop takes signals and accepts the volume server's connections; the master has a loop of its own, so that assigns
 * never wait behind accepts.  A stop first drains the volume server (its last heartbeat still reaches the master), then the
 * master, then ends the loops; files are closed last. */
#include "conf/dfs_server.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conf/daemon.h"
#include "conf/version.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"

struct process {
    const struct config *config;
    struct loop *main_loop, *master_loop;
    struct master_server *master;
    struct volume_server *volume;
    pthread_mutex_t metrics_lock; /* around `shown` */
    struct volume_server *shown;  /* the volume server while its metrics may be asked for */
    struct daemon *daemon;
    struct loop_msg drain_master, master_drained;
};

static void on_master_drained_main(struct loop_msg *msg)
{
    struct process *p = CONTAINER_OF(msg, struct process, master_drained);

    loop_stop(p->main_loop);
}

static void on_master_drained(void *arg)
{
    struct process *p = arg;

    loop_post(p->main_loop, &p->master_drained);
}

static void on_drain_master(struct loop_msg *msg)
{
    struct process *p = CONTAINER_OF(msg, struct process, drain_master);

    master_server_drain(p->master, p->config->common.stop_timeout_s * 1000, on_master_drained, p);
}

static void on_volume_drained(void *arg)
{
    struct process *p = arg;

    if (p->master == NULL)
        loop_stop(p->main_loop);
    else
        loop_post(p->master_loop, &p->drain_master);
}

static void on_stop(void *arg)
{
    struct process *p = arg;

    if (p->volume != NULL)
        volume_server_drain(p->volume, on_volume_drained, p);
    else
        on_volume_drained(p);
}

static void show_volume_metrics(struct metric_text *out, void *arg)
{
    struct process *p = arg;

    pthread_mutex_lock(&p->metrics_lock);
    if (p->shown != NULL)
        volume_server_metrics(p->shown, out);
    pthread_mutex_unlock(&p->metrics_lock);
}

static void show_metrics_of(struct process *p, struct volume_server *volume)
{
    pthread_mutex_lock(&p->metrics_lock);
    p->shown = volume;
    pthread_mutex_unlock(&p->metrics_lock);
}

static int start_master(struct process *p, bool with_volume)
{
    struct master_options o = p->config->master;
    int rc = loop_new("dfs-master", &p->master_loop);

    if (with_volume) {
        o.more_metrics = show_volume_metrics;
        o.more_metrics_arg = p;
    }
    if (rc == 0)
        rc = master_server_new(p->master_loop, &o, &p->master);
    if (rc == 0)
        rc = loop_start(p->master_loop);
    return rc;
}

static int start_volume(struct process *p)
{
    int rc = volume_server_new(&p->config->volume, p->main_loop, &p->volume);

    if (rc == 0)
        rc = volume_server_start(p->volume);
    if (rc == 0)
        show_metrics_of(p, p->volume);
    return rc;
}

static void say_hello(const struct config *c, bool with_master, bool with_volume)
{
    if (with_master)
        log_info("dfs %s: master at %s:%u", version_text(), c->common.ip, c->master.port);
    if (with_volume)
        log_info("dfs %s: volume server at %s:%u, %u folder%s", version_text(), c->common.ip, c->volume.port,
                 c->volume.dir_count, c->volume.dir_count == 1 ? "" : "s");
    if (strncmp(c->common.ip, "127.", 4) == 0 || strcmp(c->common.ip, "localhost") == 0)
        log_info("-ip is %s: other machines cannot reach this node", c->common.ip);
}

int daemons_run(const struct config *c, bool with_master, bool with_volume)
{
    struct process p = {.config = c, .metrics_lock = PTHREAD_MUTEX_INITIALIZER};
    bool master_started = false;
    int rc;

    p.drain_master.run = on_drain_master;
    p.master_drained.run = on_master_drained_main;
    if (daemon_prepare(c) != 0)
        return 1;
    rc = loop_new("dfs-main", &p.main_loop);
    if (rc == 0)
        rc = daemon_new(p.main_loop, c, on_stop, &p, &p.daemon);
    if (rc == 0 && with_master)
        rc = start_master(&p, with_volume);
    master_started = rc == 0 && with_master;
    if (rc == 0 && with_volume)
        rc = start_volume(&p);
    if (rc == 0)
        rc = daemon_started(p.daemon);
    if (rc == 0) {
        say_hello(c, with_master, with_volume);
        loop_run(p.main_loop);
    } else {
        log_error("cannot start: %s", dfs_err_text(rc));
    }
    show_metrics_of(&p, NULL);
    volume_server_free(p.volume);
    if (master_started) {
        loop_stop(p.master_loop);
        loop_join(p.master_loop);
    }
    master_server_free(p.master);
    loop_free(p.master_loop);
    daemon_free(p.daemon);
    loop_free(p.main_loop);
    if (rc == 0)
        log_info("stopped cleanly");
    return rc == 0 ? 0 : 1;
}
