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
 * Tells systemd nothing: Type=simple. */
int daemon_new(struct loop *loop, const struct config *c, void (*stop)(void *arg), void *arg, struct daemon **out);

/* Everything runs: writes the pid file.  Not before, since a second daemon that ends because the first has the ports must leave
 * the first one's file alone.  DFS_EIO after one line. */
int daemon_started(struct daemon *d);

/* Removes the pid file if it was written, writes the CPU summary that -cpuprofile asked for. */
void daemon_free(struct daemon *d);

#endif
