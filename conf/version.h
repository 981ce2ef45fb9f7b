/* What the program calls itself: `dfs version`, the first line of its log, reports. */
#ifndef DFS_CONF_VERSION_H
#define DFS_CONF_VERSION_H

#include "net/version.h"

/* "0.1.0 linux amd64"; static. */
const char *version_text(void);

#endif
