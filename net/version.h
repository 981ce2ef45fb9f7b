/* What every part of the program calls itself: one place to change at a release. */
#ifndef DFS_NET_VERSION_H
#define DFS_NET_VERSION_H

#define DFS_VERSION "0.1.0"
/* As Server headers and status documents say it. */
#define DFS_NAME_AND_VERSION "dfs " DFS_VERSION

#endif
