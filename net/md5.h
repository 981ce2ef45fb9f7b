/* MD5, only because HTTP's Content-MD5 asks for it: it finds damage in transit, it protects nothing.  Pure; any thread. */
#ifndef DFS_NET_MD5_H
#define DFS_NET_MD5_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "needle/bytes.h"

#define MD5_BYTES 16
#define MD5_BASE64_BYTES 24

struct md5 {
    uint32_t state[4];
    uint64_t bytes;
    uint8_t block[64]; /* bytes % 64 of it are filled */
};

/* Bytes may come in any pieces. */
void md5_init(struct md5 *m);
void md5_update(struct md5 *m, struct bytes in);
/* The struct is used up. */
void md5_final(struct md5 *m, uint8_t out[MD5_BYTES]);

/* As Content-MD5 writes it, with a closing zero. */
void md5_base64(const uint8_t digest[MD5_BYTES], char out[MD5_BASE64_BYTES + 1]);
/* A Content-MD5 value; false when it is none. */
bool md5_from_base64(struct bytes text, uint8_t digest[MD5_BYTES]);

#endif
