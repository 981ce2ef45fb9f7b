/* Addresses as text and as socket addresses. */
#include "net/addr.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

#include "needle/err.h"
#include "net/ascii.h"

static bool parse_port(struct bytes text, uint16_t *out)
{
    uint64_t v;
    if (text.n > 5 || !bytes_u64(text, &v) || v == 0 || v > UINT16_MAX)
        return false;
    *out = (uint16_t)v;
    return true;
}

static bool host_is_name(struct bytes host)
{
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];
        if (!ascii_is_alnum(c) && c != '-' && c != '.' && c != '_')
            return false;
    }
    return host.n > 0;
}

/* Splits off the host; what is left in *rest starts behind its colon. */
static bool take_host(struct bytes *rest, char host[ADDR_HOST_MAX + 1])
{
    struct in6_addr v6;
    struct bytes h = *rest;
    bool bracket = rest->n > 0 && rest->p[0] == '[';
    const char *end = rest->n > 0 ? memchr(rest->p, bracket ? ']' : ':', rest->n) : NULL;

    if (end == NULL)
        return false;
    h.n = (size_t)(end - h.p);
    *rest = bytes_of(end + 1, rest->n - h.n - 1);
    if (bracket) {
        h = bytes_of(h.p + 1, h.n - 1);
        if (rest->n == 0 || rest->p[0] != ':')
            return false;
        *rest = bytes_of(rest->p + 1, rest->n - 1);
    }
    if (h.n > ADDR_HOST_MAX)
        return false;
    if (h.n > 0)
        memcpy(host, h.p, h.n);
    host[h.n] = '\0';
    return bracket ? memchr(host, '\0', h.n) == NULL && inet_pton(AF_INET6, host, &v6) == 1 : host_is_name(h);
}

int addr_parse(struct bytes text, struct addr *out)
{
    struct addr a = {.port = 0};
    struct bytes rest = text, port;

    if (!take_host(&rest, a.host))
        return DFS_EINVAL;
    bool has_grpc = rest.n > 0 && memchr(rest.p, '.', rest.n) != NULL;
    if (!bytes_split(&rest, '.', &port) || !parse_port(port, &a.port))
        return DFS_EINVAL;
    if (has_grpc) {
        if (!parse_port(rest, &a.grpc_port))
            return DFS_EINVAL;
    } else if (a.port <= UINT16_MAX - ADDR_GRPC_PORT_STEP) {
        a.grpc_port = (uint16_t)(a.port + ADDR_GRPC_PORT_STEP);
    }
    *out = a;
    return 0;
}

size_t addr_format(const struct addr *a, char out[ADDR_TEXT_MAX])
{
    bool v6 = strchr(a->host, ':') != NULL;
    return (size_t)snprintf(out, ADDR_TEXT_MAX, v6 ? "[%s]:%u" : "%s:%u", a->host, a->port);
}

int addr_numeric(const char *host, uint16_t port, struct sockaddr_storage *out, socklen_t *len)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memset(out, 0, sizeof *out);
        memcpy(out, &v4, sizeof v4);
        *len = sizeof v4;
        return 0;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memset(out, 0, sizeof *out);
        memcpy(out, &v6, sizeof v6);
        *len = sizeof v6;
        return 0;
    }
    return DFS_EINVAL;
}

int addr_resolve(const struct addr *a, bool grpc, struct sockaddr_storage *out, socklen_t *len)
{
    uint16_t port = grpc ? a->grpc_port : a->port;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8];
    int rc = DFS_ENOTFOUND;

    if (port == 0)
        return DFS_EINVAL;
    if (addr_numeric(a->host, port, out, len) == 0)
        return 0;
    snprintf(service, sizeof service, "%u", port);
    int gai = getaddrinfo(a->host, service, &hints, &list);
    if (gai != 0)
        return gai == EAI_AGAIN ? DFS_EAGAIN : gai == EAI_MEMORY ? DFS_ENOMEM : DFS_ENOTFOUND;
    for (struct addrinfo *i = list; i != NULL; i = i->ai_next) {
        if ((i->ai_family != AF_INET && i->ai_family != AF_INET6) || i->ai_addrlen > sizeof *out)
            continue;
        memset(out, 0, sizeof *out);
        memcpy(out, i->ai_addr, i->ai_addrlen);
        *len = i->ai_addrlen;
        rc = 0;
        break;
    }
    freeaddrinfo(list);
    return rc;
}

int addr_list_each(struct bytes list, int (*fn)(struct bytes entry, void *arg), void *arg)
{
    struct bytes rest = list, entry;
    while (bytes_split(&rest, ',', &entry)) {
        entry = bytes_trim(entry);
        if (entry.n == 0)
            continue;
        int rc = fn(entry, arg);
        if (rc != 0)
            return rc;
    }
    return 0;
}
