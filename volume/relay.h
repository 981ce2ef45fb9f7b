/* The body of another server's answer, on its way into one of ours: buffered a little, held back when our client is slow.
 *
 * Embedded in its owner; one fetch at a time.  Loop thread.  The owner is told once that the head is there (or that there will
 * be none) and, after relay_take() said DFS_EAGAIN, once that there is something to take. */
#ifndef DFS_VOLUME_RELAY_H
#define DFS_VOLUME_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/http_client.h"

#define RELAY_BUFFER_BYTES (256u * 1024u)
#define RELAY_DEADLINE_MS 3600000u /* a slow client may take its time */

struct relay {
    void (*on_head)(struct relay *y, const struct http_head *head); /* status and headers, views valid until return */
    void (*on_failed)(struct relay *y, int rc);                     /* before a head came */
    void (*on_ready)(struct relay *y);                              /* take again; may be NULL when nobody waits */

    /* private */
    struct http_call *call;
    struct relay_buffer {
        char *p;
        size_t n, cap;
    } fill, out;
    bool head_seen, ended, paused, waiting, unwanted;
    int rc;
};

/* GET of target at addr; the callbacks are set.  0 or DFS_E*: then no callback comes. */
int relay_start(struct relay *y, struct http_client *c, const struct addr *addr, struct bytes target, struct bytes headers);
/* 0: *out are the next bytes, valid until the next take or release.  1: the end.  DFS_EAGAIN: on_ready will be called.  Other
 * negative: the answer broke off. */
int relay_take(struct relay *y, struct bytes *out);
/* Inside on_head: the answer is of no use after all; on_failed follows. */
void relay_refuse(struct relay *y);
/* Ends a fetch in progress; no callback comes any more.  The struct may be used again. */
void relay_release(struct relay *y);

#endif
