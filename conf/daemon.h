/* What every daemon does at start and at the end: limits, umask, signals, files with its number.  conf only. */
#ifndef DFS_CONF_DAEMON_H
#define DFS_CONF_DAEMON_H

#include "conf/config.h"
#include "net/loop.h"

struct daemon;

/* Before the first thread: blocks all signals that are taken by signalfd, raises the limit of open files, sets umask 027,
 * seeds randomness, opens the log.  0 or -1 after one line. */
int daemon_prepare(const struct config *c);

/* Takes SIGTERM and SIGINT (stop: called once; a second signal ends the process at once), SIGHUP (reopens the log) on the loop.
 * Writes the pid file and tells systemd nothing: Type=simple. */
int daemon_new(struct loop *loop, const struct config *c, void (*stop)(void *arg), void *arg, struct daemon **out);

/* Removes the pid file, writes the CPU summary that -cpuprofile asked for. */
void daemon_free(struct daemon *d);

#endif
