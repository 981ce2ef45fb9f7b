/* Addresses as text: "host:port", and the peer's "host:port.grpcPort".  Pure parsing; resolving blocks (start-up and tools
 * only).  Any thread. */
#ifndef DFS_NET_ADDR_H
#define DFS_NET_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "needle/bytes.h"

#define ADDR_HOST_MAX 255
#define ADDR_TEXT_MAX (ADDR_HOST_MAX + 16)
/* gRPC listens on the HTTP port plus this when nothing else is said. */
#define ADDR_GRPC_PORT_STEP 10000

struct addr {
    char host[ADDR_HOST_MAX + 1];
    uint16_t port;
    uint16_t grpc_port; /* as written behind the dot, else port + 10000, or 0 when that leaves 16 bits */
};

/* "host:port", "host:port.grpcPort", "[v6]:port".  Ports are 1 to 65535.  DFS_EINVAL. */
int addr_parse(struct bytes text, struct addr *out);

/* "host:port" and a closing zero; returns the length. */
size_t addr_format(const struct addr *a, char out[ADDR_TEXT_MAX]);

/* To a socket address without any look-up: host is a numeric address of either family (no brackets).  DFS_EINVAL. */
int addr_numeric(const char *host, uint16_t port, struct sockaddr_storage *out, socklen_t *len);

/* To a socket address (numeric fast; a name through getaddrinfo, which blocks).  grpc picks the port.  DFS_EINVAL: that port is
 * 0; DFS_ENOTFOUND, DFS_EAGAIN (name server), DFS_ENOMEM. */
int addr_resolve(const struct addr *a, bool grpc, struct sockaddr_storage *out, socklen_t *len);

/* Comma list of entries; blanks around them dropped, empty entries skipped.  Calls fn for each; its non-zero return ends
 * the walk and is returned. */
int addr_list_each(struct bytes list, int (*fn)(struct bytes entry, void *arg), void *arg);

#endif
