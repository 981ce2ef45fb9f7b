/* Who may write: a list of addresses and networks, "127.0.0.1,10.0.0.0/8,fd00::/8".  Built at start; then read by any thread. */
#ifndef DFS_NET_WHITELIST_H
#define DFS_NET_WHITELIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "needle/bytes.h"

#define WHITELIST_MAX 4096u

struct whitelist_entry {
    uint8_t ip[16]; /* v4 as ::ffff:a.b.c.d */
    uint8_t bits;   /* 0 to 128 */
};
struct whitelist {
    struct whitelist_entry *v;
    uint32_t n;
};

/* Empty: everyone may pass. */
void whitelist_init(struct whitelist *w);
/* Adds the entries of a comma list; nothing is added on failure.  DFS_EINVAL: *bad (may be NULL) is the entry that is none;
 * DFS_ETOOBIG, DFS_ENOMEM. */
int whitelist_add(struct whitelist *w, struct bytes list, struct bytes *bad);
void whitelist_release(struct whitelist *w);

/* Whether the address is on the list.  An empty list lets everyone in.  A v4 address that comes in through a v6 socket
 * (::ffff:a.b.c.d) is its v4 address.  Other address families (unix sockets) are never on a list that is not empty. */
bool whitelist_allows(const struct whitelist *w, const struct sockaddr *peer);

#endif
