/* gRPC's own forms on top of HTTP/2: the message prefix, the percent-encoded status message, timeouts, and the numbers that
 * HTTP/2 and HTTP have for the same things.  Bytes in, bytes out; used by net/grpc_*.c only.  Any thread. */
#ifndef DFS_NET_GRPC_WIRE_H
#define DFS_NET_GRPC_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "net/grpc.h"

/* Before each message: 1 byte flags (1 = compressed), 4 bytes length, big-endian. */
#define GRPC_PREFIX_BYTES 5u

/* Cuts a stream of bytes into messages, wherever the DATA frames end. */
struct grpc_reader {
    size_t message_bytes_max;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint8_t prefix_n;
    bool given;      /* buf went out as a message; forgotten by the next call */
    uint32_t want;   /* length of the message, once the prefix is whole */
    uint8_t *buf;    /* the part of it that came before */
    size_t n, cap;
};

/* Expects the first prefix; longer messages are refused as soon as their prefix is here. */
void grpc_reader_init(struct grpc_reader *r, size_t message_bytes_max);
void grpc_reader_release(struct grpc_reader *r);

/* Take the next message off the front of *in.  0: *message is whole, and lies in *in or in the reader until the next call.
 * DFS_ESHORT: all of *in is taken and more is needed; DFS_ETOOBIG; DFS_EUNSUPPORTED: compressed; DFS_EPROTO; DFS_ENOMEM.
 * Memory grows with what has come, not with what the prefix promises. */
int grpc_reader_next(struct grpc_reader *r, struct bytes *in, struct bytes *message);

/* Whether a message has begun that is not whole. */
bool grpc_reader_partial(const struct grpc_reader *r);

/* The five bytes in front of a message: not compressed, its length. */
void grpc_prefix_put(uint8_t p[GRPC_PREFIX_BYTES], uint32_t message_bytes);

/* Everything but printable ASCII, and '%', as %XX.  Writes at most cap bytes, never half an escape; returns the length. */
size_t grpc_percent_encode(struct bytes in, char *out, size_t cap);
/* Lenient: what is no escape stays.  out has room for in.n bytes; returns the length. */
size_t grpc_percent_decode(struct bytes in, char *out);

/* A grpc-timeout: at most 8 digits and one of H M S m u n.  Rounded up to ms, at least 1.  DFS_EINVAL. */
int grpc_timeout_parse(struct bytes text, uint64_t *ms);
#define GRPC_TIMEOUT_TEXT_MAX 16
size_t grpc_timeout_format(uint32_t ms, char out[GRPC_TIMEOUT_TEXT_MAX]);

/* "application/grpc", alone or with "+proto" or parameters behind it. */
bool grpc_is_content_type(struct bytes value);

/* A status from a trailer; anything but a known number is GRPC_UNKNOWN. */
enum grpc_status grpc_status_parse(struct bytes text);
/* The status that an HTTP/2 error code of a reset, or an HTTP status other than 200, stands for. */
enum grpc_status grpc_status_from_h2(uint32_t code);
enum grpc_status grpc_status_from_http(uint32_t http_status);

#endif
