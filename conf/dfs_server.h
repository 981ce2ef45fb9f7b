/* The daemons as processes: `dfs server`, `dfs master`, `dfs volume`.  conf only. */
#ifndef DFS_CONF_DFS_SERVER_H
#define DFS_CONF_DFS_SERVER_H

#include "conf/config.h"

/* Runs until a signal ends it; blocks.  Returns the exit status. */
int daemons_run(const struct config *c, bool with_master, bool with_volume);

#endif
