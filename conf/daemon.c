/* Start and end of a daemon process. */
#include "conf/daemon.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"

#define OPEN_FILES_WANTED 1048576u
#define SAME_WISH_MS 1000u

struct daemon {
    struct loop *loop;
    const struct config *config;
    void (*stop)(void *arg);
    void *arg;
    int signal_fd;
    struct event event;
    bool event_added, stopping, pid_written;
    uint64_t stop_ms; /* when the first signal came */
};

static void taken_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGPIPE);
}

static void raise_open_files(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur >= OPEN_FILES_WANTED)
        return;
    lim.rlim_cur = lim.rlim_max < OPEN_FILES_WANTED ? lim.rlim_max : OPEN_FILES_WANTED;
    if (setrlimit(RLIMIT_NOFILE, &lim) != 0)
        log_warning("cannot raise the limit of open files to %llu", (unsigned long long)lim.rlim_cur);
}

int daemon_prepare(const struct config *c)
{
    sigset_t set;
    int rc;

    taken_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    umask(027);
    log_threshold = (enum log_level)c->common.log_level;
    if (c->common.log_file[0] != '\0') {
        rc = log_open(c->common.log_file);
        if (rc != 0) {
            fprintf(stderr, "dfs: cannot open log file '%s': %s\n", c->common.log_file, dfs_err_text(rc));
            return -1;
        }
    }
    raise_open_files();
    rc = rand_init();
    if (rc != 0)
        fprintf(stderr, "dfs: no source of randomness: %s\n", dfs_err_text(rc));
    return rc != 0 ? -1 : 0;
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    struct signalfd_siginfo info;

    (void)what;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGHUP) {
            log_open(d->config->common.log_file[0] != '\0' ? d->config->common.log_file : NULL);
            continue;
        }
        if (info.ssi_signo == SIGPIPE)
            continue;
        /* A wrapper such as timeout(1) signals the process and then its group: that is one wish, not two. */
        if (d->stopping && clock_mono_ms() - d->stop_ms < SAME_WISH_MS)
            continue;
        if (d->stopping) {
            log_warning("second signal %u: ending at once", info.ssi_signo);
            _exit(1);
        }
        d->stopping = true;
        d->stop_ms = clock_mono_ms();
        log_info("signal %u: stopping", info.ssi_signo);
        d->stop(d->arg);
    }
}

static int write_pid_file(const char *path)
{
    FILE *f;

    if (path[0] == '\0')
        return 0;
    f = fopen(path, "we");
    if (f == NULL) {
        fprintf(stderr, "dfs: cannot write '%s': %m\n", path);
        return -1;
    }
    fprintf(f, "%d\n", (int)getpid());
    return fclose(f) == 0 ? 0 : -1;
}

int daemon_new(struct loop *loop, const struct config *c, void (*stop)(void *arg), void *arg, struct daemon **out)
{
    struct daemon *d = calloc(1, sizeof *d);
    sigset_t set;

    if (d == NULL)
        return DFS_ENOMEM;
    d->loop = loop;
    d->config = c;
    d->stop = stop;
    d->arg = arg;
    taken_signals(&set);
    d->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (d->signal_fd == -1)
        goto fail;
    if (event_assign(&d->event, loop_base(loop), d->signal_fd, EV_READ | EV_PERSIST, on_signal, d) != 0 ||
        event_add(&d->event, NULL) != 0)
        goto fail;
    d->event_added = true;
    *out = d;
    return 0;
fail:
    if (d->event_added)
        event_del(&d->event);
    if (d->signal_fd != -1)
        close(d->signal_fd);
    free(d);
    return DFS_EIO;
}

int daemon_started(struct daemon *d)
{
    if (write_pid_file(d->config->common.pid_file) != 0)
        return DFS_EIO;
    d->pid_written = true;
    return 0;
}

/* Plain text: what the process used. */
static void write_cpu_summary(const char *path)
{
    struct rusage u;
    FILE *f = fopen(path, "we");

    if (f == NULL || getrusage(RUSAGE_SELF, &u) != 0) {
        log_warning("cannot write '%s': %m", path);
        if (f != NULL)
            fclose(f);
        return;
    }
    fprintf(f, "user_s %ld.%06ld\nsystem_s %ld.%06ld\nmax_rss_kb %ld\nvoluntary_switches %ld\ninvoluntary_switches %ld\n",
            (long)u.ru_utime.tv_sec, (long)u.ru_utime.tv_usec, (long)u.ru_stime.tv_sec, (long)u.ru_stime.tv_usec,
            u.ru_maxrss, u.ru_nvcsw, u.ru_nivcsw);
    fclose(f);
}

void daemon_free(struct daemon *d)
{
    if (d == NULL)
        return;
    if (d->config->common.cpuprofile[0] != '\0')
        write_cpu_summary(d->config->common.cpuprofile);
    if (d->pid_written && d->config->common.pid_file[0] != '\0')
        unlink(d->config->common.pid_file);
    event_del(&d->event);
    close(d->signal_fd);
    free(d);
}
