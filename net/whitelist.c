/* Addresses and networks that are let in.  Everything is compared as a v6 address; v4 lives in ::ffff:0:0/96. */
#include "net/whitelist.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "needle/err.h"
#include "net/ascii.h"

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

void whitelist_init(struct whitelist *w)
{
    w->v = NULL;
    w->n = 0;
}

void whitelist_release(struct whitelist *w)
{
    free(w->v);
    whitelist_init(w);
}

static bool parse_ip(struct bytes text, uint8_t ip[16], unsigned *max_bits)
{
    char buf[INET6_ADDRSTRLEN];
    if (text.n == 0 || text.n >= sizeof buf || memchr(text.p, '\0', text.n) != NULL)
        return false;
    memcpy(buf, text.p, text.n);
    buf[text.n] = '\0';
    memcpy(ip, mapped_prefix, 12);
    if (inet_pton(AF_INET, buf, ip + 12) == 1) {
        *max_bits = 32;
        return true;
    }
    *max_bits = 128;
    return inet_pton(AF_INET6, buf, ip) == 1;
}

static bool parse_entry(struct bytes text, struct whitelist_entry *e)
{
    struct bytes rest = text, ip;
    unsigned max_bits;
    uint64_t bits;

    bytes_split(&rest, '/', &ip);
    if (!parse_ip(ip, e->ip, &max_bits))
        return false;
    if (rest.p == NULL)
        bits = max_bits;
    else if (rest.n > 3 || !bytes_u64(rest, &bits) || bits > max_bits)
        return false;
    e->bits = (uint8_t)(bits + 128 - max_bits);
    return true;
}

int whitelist_add(struct whitelist *w, struct bytes list, struct bytes *bad)
{
    struct bytes rest = list, text;
    struct whitelist_entry *v = NULL;
    uint32_t n = 0, commas = 0;
    int rc = 0;

    for (size_t i = 0; i < list.n; i++)
        commas += list.p[i] == ',';
    if (commas + 1 > WHITELIST_MAX - w->n)
        return DFS_ETOOBIG;
    v = malloc((w->n + commas + 1) * sizeof *v);
    if (v == NULL)
        return DFS_ENOMEM;
    while (bytes_split(&rest, ',', &text)) {
        text = bytes_trim(text);
        if (text.n == 0)
            continue;
        if (!parse_entry(text, &v[w->n + n])) {
            if (bad != NULL)
                *bad = text;
            rc = DFS_EINVAL;
            goto done;
        }
        n++;
    }
    if (w->n > 0)
        memcpy(v, w->v, w->n * sizeof *v);
    free(w->v);
    w->v = v;
    w->n += n;
    v = NULL;
done:
    free(v);
    return rc;
}

static bool entry_matches(const struct whitelist_entry *e, const uint8_t ip[16])
{
    unsigned whole = e->bits / 8, part = e->bits % 8;
    if (memcmp(e->ip, ip, whole) != 0)
        return false;
    return part == 0 || ((e->ip[whole] ^ ip[whole]) >> (8 - part)) == 0;
}

bool whitelist_allows(const struct whitelist *w, const struct sockaddr *peer)
{
    uint8_t ip[16];

    if (w->n == 0)
        return true;
    if (peer->sa_family == AF_INET) {
        memcpy(ip, mapped_prefix, 12);
        memcpy(ip + 12, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    } else if (peer->sa_family == AF_INET6) {
        memcpy(ip, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, 16);
    } else {
        return false;
    }
    for (uint32_t i = 0; i < w->n; i++)
        if (entry_matches(&w->v[i], ip))
            return true;
    return false;
}
