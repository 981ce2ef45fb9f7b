/* A real HTTP server in the process, with a handler that behaves as the path says, and a blocking client to torment it.
 *
 * Paths: /hello /echo /direct /count /early /mid /broken /pause /later /forgotten /dropped /headers /big?n /iov /abort /peer /alloc
 * /source?... (see http_rig.c).  Every test ends with rig_stop(), which checks that each request was closed exactly once.
 * The client's functions fail the test when the server does not do its part within RIG_WAIT_MS. */
#ifndef DFS_TESTS_HTTP_RIG_H
#define DFS_TESTS_HTTP_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http_server.h"

#define RIG_WAIT_MS 10000
#define RIG_LOOPS_MAX 2

struct rig {
    struct http_server_options opts; /* may be changed between rig_init() and rig_start() */
    struct loop *loops[RIG_LOOPS_MAX];
    struct http_server *server;
    uint16_t port;
};

/* What the handler saw, over all requests since rig_init(); read with rig_count(). */
extern uint64_t rig_opened, rig_ended, rig_closed, rig_died;
uint64_t rig_count(const uint64_t *counter);

void rig_init(struct rig *rig, uint32_t loops);
void rig_start(struct rig *rig);
/* Ends the loops, frees the server, checks the books. */
void rig_stop(struct rig *rig);

/* ---- client ---- */
int rig_connect(const struct rig *rig);
/* printf into the socket. */
void rig_send(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rig_send_bytes(int fd, const void *p, size_t n);
/* False when the server has closed the direction. */
bool rig_try_send(int fd, const void *p, size_t n);

struct rig_answer {
    struct http_head head; /* views into text */
    char *text;
    char *body; /* framing removed; NUL behind it */
    size_t body_n;
    bool whole; /* as long as was said */
};
/* Reads one answer (to a HEAD: without body).  The bytes behind it stay for the next call on that fd: one fd at a time. */
void rig_read(int fd, bool head_request, struct rig_answer *a);
void rig_answer_free(struct rig_answer *a);
/* Reads one answer and checks status and body (NULL: any). */
void rig_expect(int fd, int status, const char *body);
/* The value of a header or "". */
const char *rig_header(const struct rig_answer *a, const char *name);
/* Nothing more comes but the end of the stream (or, when reset_ok, a reset). */
void rig_expect_closed(int fd, bool reset_ok);
/* Nothing comes within ms. */
void rig_expect_silence(int fd, int ms);
/* Closes fd, with a reset. */
void rig_reset(int fd);
void rig_close(int fd);

/* Waits until the condition holds. */
void rig_wait_for(uint64_t *counter, uint64_t at_least);
/* Content of bodies: a function of the place, so that a byte at the wrong place is seen. */
char rig_pattern(uint64_t at);

#endif
