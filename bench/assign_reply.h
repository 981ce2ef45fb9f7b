/* A master's answer to /dir/assign: {"fid":"5,011ab639e2","url":"127.0.0.1:8080","publicUrl":"..","count":1}, or
 * {"error":".."}.  The usual answer is taken apart in place, since a benchmark reads one for each write; anything that is not
 * flat and plain goes through the JSON library.  Bytes from the network: any input is fine.  Pure; any thread. */
#ifndef DFS_BENCH_ASSIGN_REPLY_H
#define DFS_BENCH_ASSIGN_REPLY_H

#include <stdint.h>

#include "needle/bytes.h"
#include "needle/fid.h"
#include "net/addr.h"

#define ASSIGN_ERROR_MAX 256

struct assign_reply {
    struct fid fid;
    uint64_t count; /* at least 1 */
    char url[ADDR_TEXT_MAX];
    char public_url[ADDR_TEXT_MAX];
    char error[ASSIGN_ERROR_MAX]; /* what the master says; "" when it assigned */
};

/* 0: assigned, or error is not empty.  DFS_EPROTO: neither (error says so too). */
int assign_reply_parse(struct bytes body, struct assign_reply *out);

#endif
