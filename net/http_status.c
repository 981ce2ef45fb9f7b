/* Status texts, and the one place where our codes become HTTP's. */
#include "needle/err.h"
#include "net/http_server.h"

const char *http_status_text(int status)
{
    switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 423: return "Locked";
    case 424: return "Failed Dependency";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Unknown";
    }
}

int http_status_from_err(int rc)
{
    /* No default: the compiler names the code that is missing. */
    switch ((enum dfs_err)rc) {
    case DFS_OK:
        return 200;
    case DFS_EINVAL:
    case DFS_EPROTO:
    case DFS_ESHORT:
        return 400;
    case DFS_EDENIED:
        return 401;
    case DFS_ENOTFOUND:
    case DFS_ECOOKIE: /* the same answer as for a missing one: existence is not told */
    case DFS_ENOVOLUME:
        return 404;
    case DFS_EEXIST:
    case DFS_ESTALE:
        return 409;
    case DFS_ETOOBIG:
        return 413;
    case DFS_EIO:
    case DFS_ECORRUPT:
    case DFS_EREADONLY: /* clients of the peer take 500 as "try another volume" */
    case DFS_EVERSION:
        return 500;
    case DFS_EUNSUPPORTED:
        return 501;
    case DFS_ENOMEM:
    case DFS_ENOFILES:
    case DFS_ENOTHREAD:
    case DFS_EAGAIN:
    case DFS_ELOADING:
    case DFS_EBUSY:
    case DFS_ECLOSED:
    case DFS_ECANCELLED:
    case DFS_EUNAVAILABLE:
        return 503;
    case DFS_ETIMEOUT:
        return 504;
    case DFS_ENOSPC:
    case DFS_EFULL:
        return 507;
    }
    return 500;
}
