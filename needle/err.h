/* The one table of status codes.
 *
 * Every function that can fail returns 0 or one of these negative codes; counts and sizes never share a return value
 * with a code.  Server, client, log and benchmark print the same names and texts.  net/http_status.c maps a code to an
 * HTTP status, and the compiler complains there when a new code is missing.
 *
 * Pure; any thread. */
#ifndef DFS_NEEDLE_ERR_H
#define DFS_NEEDLE_ERR_H

#include <stdbool.h>

/* X(name, value, text, retryable) */
#define DFS_ERR_TABLE(X)                                                                       \
    X(DFS_OK, 0, "ok", false)                                                                  \
    X(DFS_EINVAL, -1, "invalid argument", false)                                               \
    X(DFS_ENOMEM, -2, "out of memory", true)                                                   \
    X(DFS_EIO, -3, "input/output error", false)                                                \
    X(DFS_ENOSPC, -4, "no space left", true)                                                   \
    X(DFS_ECORRUPT, -5, "corrupt data", false)                                                 \
    X(DFS_ENOTFOUND, -6, "not found", false)                                                   \
    X(DFS_EEXIST, -7, "already exists", false)                                                 \
    X(DFS_EREADONLY, -8, "read only", false)                                                   \
    X(DFS_ECOOKIE, -9, "cookie does not match", false)                                         \
    X(DFS_EAGAIN, -10, "would block", true)                                                    \
    X(DFS_ESHORT, -11, "more bytes needed", true)                                              \
    X(DFS_ETOOBIG, -12, "too large", false)                                                    \
    X(DFS_EVERSION, -13, "unknown version", false)                                             \
    X(DFS_ENOVOLUME, -14, "volume not here", false)                                            \
    X(DFS_ELOADING, -15, "still loading", true)                                                \
    X(DFS_EFULL, -16, "volume is full", true)                                                  \
    X(DFS_EBUSY, -17, "busy", true)                                                            \
    X(DFS_ECLOSED, -18, "connection closed", true)                                             \
    X(DFS_ETIMEOUT, -19, "timed out", true)                                                    \
    X(DFS_EPROTO, -20, "protocol error", false)                                                \
    X(DFS_EUNSUPPORTED, -21, "not supported", false)                                           \
    X(DFS_ESTALE, -22, "state has changed", true)                                              \
    X(DFS_ECANCELLED, -23, "cancelled", true)                                                  \
    X(DFS_EDENIED, -24, "not allowed", false)                                                  \
    X(DFS_EUNAVAILABLE, -25, "unavailable", true)                                              \
    X(DFS_ENOFILES, -26, "too many open files", true)                                          \
    X(DFS_ENOTHREAD, -27, "no thread could be had: see the limits of memory and of processes", true)

enum dfs_err {
#define X(name, value, text, retryable) name = value,
    DFS_ERR_TABLE(X)
#undef X
};

/* "DFS_EIO" for DFS_EIO; "DFS_E?" for a value outside the table.  Static string. */
const char *dfs_err_name(int rc);

/* "input/output error" for DFS_EIO; static string, lowercase, no full stop. */
const char *dfs_err_text(int rc);

/* Whether the same call may succeed later without anyone changing it. */
bool dfs_err_retryable(int rc);

/* The code for an errno value: ENOSPC, EDQUOT, EFBIG -> DFS_ENOSPC; EROFS, EPERM, EACCES -> DFS_EREADONLY; and so on;
 * anything not named is DFS_EIO.  Never returns 0. */
int dfs_err_from_errno(int err);

#endif
