/* HTTP/1.1 in place: request and status lines, headers, chunked framing.
 *
 * The head parser works on a buffer that holds a whole head or not yet: it is called again with a longer view, never keeps
 * bytes of its own, and is linear overall.  Strict where leniency lets requests be smuggled: two lengths, a length beside
 * chunked, a space before a colon, a bare CR, LF or NUL, an unknown transfer coding are errors.  Pure; any thread. */
#ifndef DFS_NET_HTTP_PARSE_H
#define DFS_NET_HTTP_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"

#define HTTP_HEAD_MAX (64u * 1024u)
#define HTTP_HEADERS_MAX 128u
#define HTTP_TARGET_MAX (16u * 1024u)

enum http_method {
    HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER,
};

struct http_header {
    struct bytes name; /* as sent */
    struct bytes value; /* blanks around it dropped */
};

struct http_head {
    /* request */
    enum http_method method;
    struct bytes method_text;
    struct bytes target; /* as sent */
    struct bytes path;   /* raw, up to '?', never empty; absolute-form is reduced to its path, "*" (OPTIONS only) stays */
    struct bytes query;  /* raw, behind '?', may be empty */
    /* response */
    int status;

    int minor; /* HTTP/1.minor */
    uint32_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];

    bool has_length;
    uint64_t content_length;
    bool chunked;
    bool keep_alive;      /* by version and Connection */
    bool connection_keep_alive_sent; /* a 1.0 client asked for it: the answer must echo it */
    bool expect_continue;
    bool expect_other; /* an expectation that is not 100-continue */
    uint32_t head_bytes; /* length of the head with its closing empty line */
};

/* Parses a request head at the front of `in`.
 * 0: *out is filled, views point into `in`.  DFS_ESHORT: the head is not complete; `*scanned` (0 at first) remembers how
 * far was looked, so that repeated calls stay linear; *out is scratch then.  Any other negative value: *status is what to
 * answer (400, 414, 431, 501 unknown transfer coding, 505), and the connection must be closed after it.  What can never
 * become a request (a TLS hello, a line without a version) is refused before the empty line comes. */
int http_parse_request(struct bytes in, size_t *scanned, struct http_head *out, int *status);

/* The same for a response head.  DFS_EPROTO when it is none. */
int http_parse_response(struct bytes in, size_t *scanned, struct http_head *out);

/* Whether b may be a header's name (a token), and its value (no control bytes but tab). */
bool http_is_token(struct bytes b);
bool http_is_value(struct bytes b);

/* First header of that name (any case), or BYTES_NONE with p == NULL. */
struct bytes http_header_get(const struct http_head *h, const char *name);

/* Whether a comma list holds the token (any case), ignoring parameters and, for Accept-Encoding, honouring q=0. */
bool http_list_has(struct bytes value, const char *token);

/* Chunked transfer coding, fed in any pieces. */
struct http_chunked {
    uint64_t left; /* of the current chunk */
    uint32_t line_bytes; /* of the current size line, or of all trailers so far */
    uint8_t state;
    bool digits;
};
#define HTTP_CHUNK_LINE_MAX 256u
#define HTTP_TRAILERS_MAX 8192u

/* Ready for the first size line. */
void http_chunked_init(struct http_chunked *c);
/* Looks at `in`: *data is the next run of body bytes (may be empty), *consumed how many bytes of `in` were used, framing and
 * data together.  Call until consumed == in.n or done.  0: go on.  1: the body is complete (trailers read and dropped).
 * DFS_EPROTO. */
int http_chunked_feed(struct http_chunked *c, struct bytes in, struct bytes *data, size_t *consumed);

#endif
