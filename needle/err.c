/* Names, texts and the retryable column of the status table in err.h; the mapping from errno. */
#include "needle/err.h"

#include <errno.h>
#include <stddef.h>

struct err_row {
    const char *name;
    const char *text;
    bool retryable;
};

/* Codes are 0, -1, -2, ...: the negated code is the place in the table. */
static const struct err_row rows[] = {
#define X(code, value, what, again) [-(value)] = {#code, what, again},
    DFS_ERR_TABLE(X)
#undef X
};

static const struct err_row *err_row(int rc)
{
    static const struct err_row unknown = {"DFS_E?", "unknown error", false};
    const int last = (int)(sizeof rows / sizeof rows[0]) - 1;

    if (rc > 0 || rc < -last || rows[-rc].name == NULL)
        return &unknown;
    return &rows[-rc];
}

const char *dfs_err_name(int rc)
{
    return err_row(rc)->name;
}

const char *dfs_err_text(int rc)
{
    return err_row(rc)->text;
}

bool dfs_err_retryable(int rc)
{
    return err_row(rc)->retryable;
}

int dfs_err_from_errno(int err)
{
    switch (err) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* RLIMIT_FSIZE or the file system's own limit: no byte more fits here */
        return DFS_ENOSPC;
    case EROFS:
    case EPERM:
    case EACCES:
        return DFS_EREADONLY;
    case ENOMEM:
    case ENOBUFS:
        return DFS_ENOMEM;
    case EMFILE: /* the same call works when some are given back */
    case ENFILE:
        return DFS_ENOFILES;
    case ENOENT:
        return DFS_ENOTFOUND;
    case EEXIST:
    case ENOTEMPTY:
        return DFS_EEXIST;
    case EAGAIN:
#if EWOULDBLOCK != EAGAIN
    case EWOULDBLOCK:
#endif
    case EINTR:
    case EINPROGRESS:
        return DFS_EAGAIN;
    case EBUSY:
    case ETXTBSY:
    case EADDRINUSE:
        return DFS_EBUSY;
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
        return DFS_ECLOSED;
    case ETIMEDOUT:
        return DFS_ETIMEOUT;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
        return DFS_EUNAVAILABLE;
    case EINVAL:
    case ENAMETOOLONG:
    case EBADF:
        return DFS_EINVAL;
    case ENOSYS:
    case EOPNOTSUPP:
#if ENOTSUP != EOPNOTSUPP
    case ENOTSUP:
#endif
        return DFS_EUNSUPPORTED;
    case ECANCELED:
        return DFS_ECANCELLED;
    case ESTALE:
        return DFS_ESTALE;
    default:
        return DFS_EIO;
    }
}
