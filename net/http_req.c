/* What a handler may do with a request besides replying. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "net/http_conn.h"

#define ARENA_ALIGN 16u

void http_req_hold(struct http_req *r)
{
    exchange_of(r)->holds++;
}

void http_req_drop(struct http_req *r)
{
    struct http_exchange *x = exchange_of(r);
    CHECK(x->holds > 0);
    if (--x->holds == 0)
        conn_run(r->conn);
}

void http_req_resume(struct http_req *r)
{
    struct exchange_body *b = &exchange_of(r)->body;
    b->resumed = true;
    b->paused = false;
    conn_run(r->conn);
}

void *http_req_alloc(struct http_req *r, size_t n)
{
    struct http_exchange *x = exchange_of(r);
    struct exchange_arena *a = &x->arena;
    if (n > HTTP_REQ_ARENA_MAX)
        return NULL;
    uint32_t size = ((uint32_t)n + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
    if (size > HTTP_REQ_ARENA_MAX - a->total)
        return NULL;
    void *p;
    if (size <= ARENA_INLINE - a->inline_used) {
        p = x->arena_inline + a->inline_used;
        a->inline_used += size;
        memset(p, 0, size);
    } else {
        struct arena_block *block = calloc(1, sizeof *block + size);
        if (block == NULL)
            return NULL;
        block->next = a->blocks;
        a->blocks = block;
        p = block->bytes;
    }
    a->total += size;
    return p;
}

const struct sockaddr_storage *http_req_peer_addr(const struct http_req *r)
{
    struct http_exchange *x = (struct http_exchange *)r; /* a cache behind the caller's view */
    if (x->peer.ss_family == AF_UNSPEC) {
        memset(&x->peer, 0, sizeof x->peer);
        memcpy(&x->peer, &r->conn->peer, sizeof r->conn->peer);
    }
    return &x->peer;
}

const char *http_req_peer(struct http_req *r)
{
    struct http_exchange *x = exchange_of(r);
    const union conn_peer *p = &r->conn->peer;
    if (x->peer_text[0] != '\0')
        return x->peer_text;
    const void *at = p->any.sa_family == AF_INET6 ? (const void *)&p->v6.sin6_addr : &p->v4.sin_addr;
    /* An IPv4 client of an IPv6 socket is written as people know it. */
    if (p->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&p->v6.sin6_addr))
        inet_ntop(AF_INET, p->v6.sin6_addr.s6_addr + 12, x->peer_text, sizeof x->peer_text);
    else
        inet_ntop(p->any.sa_family, at, x->peer_text, sizeof x->peer_text);
    return x->peer_text;
}

void http_req_close_after(struct http_req *r)
{
    exchange_of(r)->close_after = true;
}

void http_req_abort(struct http_req *r)
{
    conn_kill(r->conn, true);
    conn_run(r->conn);
}
