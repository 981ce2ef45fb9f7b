/* Chunked transfer coding: a machine of one byte at a time for the framing, whole runs for the data.
 *
 * Lines end with CR LF only: a reader that takes a bare LF sees other chunks than one that does not. */
#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_parse.h"

enum chunk_state {
    CHUNK_SIZE,     /* hex digits */
    CHUNK_EXT,      /* extension, dropped */
    CHUNK_SIZE_LF,  /* CR seen */
    CHUNK_DATA,
    CHUNK_DATA_CR,  /* behind the data */
    CHUNK_DATA_LF,
    CHUNK_LINE,     /* first byte of a trailer line */
    CHUNK_TRAILER,  /* inside one, dropped */
    CHUNK_TRAILER_LF,
    CHUNK_LAST_LF,  /* CR of the empty line seen */
    CHUNK_DONE,
};

void http_chunked_init(struct http_chunked *c)
{
    *c = (struct http_chunked){.state = CHUNK_SIZE};
}

static bool line_byte_ok(char b)
{
    return ((unsigned char)b >= 0x20 && b != 0x7f) || b == '\t';
}

static int step_size(struct http_chunked *c, char b)
{
    int digit = ascii_hex(b);
    if (++c->line_bytes > HTTP_CHUNK_LINE_MAX)
        return DFS_EPROTO;
    if (digit >= 0) {
        if (c->left > (INT64_MAX >> 4))
            return DFS_EPROTO;
        c->left = c->left << 4 | (uint64_t)digit;
        c->digits = true;
        return 0;
    }
    if (!c->digits)
        return DFS_EPROTO;
    if (b == '\r')
        c->state = CHUNK_SIZE_LF;
    else if (b == ';' || ascii_is_blank(b))
        c->state = CHUNK_EXT;
    else
        return DFS_EPROTO;
    return 0;
}

static int step_extension(struct http_chunked *c, char b)
{
    if (++c->line_bytes > HTTP_CHUNK_LINE_MAX)
        return DFS_EPROTO;
    if (b == '\r')
        c->state = CHUNK_SIZE_LF;
    else if (!line_byte_ok(b))
        return DFS_EPROTO;
    return 0;
}

static int step_trailer(struct http_chunked *c, char b)
{
    if (++c->line_bytes > HTTP_TRAILERS_MAX)
        return DFS_EPROTO;
    if (b == '\r')
        c->state = c->state == CHUNK_LINE ? CHUNK_LAST_LF : CHUNK_TRAILER_LF;
    else if (line_byte_ok(b))
        c->state = CHUNK_TRAILER;
    else
        return DFS_EPROTO;
    return 0;
}

static int expect(struct http_chunked *c, char b, char want, enum chunk_state next)
{
    if (b != want)
        return DFS_EPROTO;
    c->state = (uint8_t)next;
    return 0;
}

/* One byte of framing. */
static int step(struct http_chunked *c, char b)
{
    switch ((enum chunk_state)c->state) {
    case CHUNK_SIZE:
        return step_size(c, b);
    case CHUNK_EXT:
        return step_extension(c, b);
    case CHUNK_SIZE_LF:
        c->line_bytes = 0;
        c->digits = false;
        return expect(c, b, '\n', c->left > 0 ? CHUNK_DATA : CHUNK_LINE);
    case CHUNK_DATA_CR:
        return expect(c, b, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return expect(c, b, '\n', CHUNK_SIZE);
    case CHUNK_LINE:
    case CHUNK_TRAILER:
        return step_trailer(c, b);
    case CHUNK_TRAILER_LF:
        c->line_bytes++;
        return expect(c, b, '\n', CHUNK_LINE);
    case CHUNK_LAST_LF:
        return expect(c, b, '\n', CHUNK_DONE);
    case CHUNK_DATA:
    case CHUNK_DONE:
        break;
    }
    return DFS_EPROTO;
}

int http_chunked_feed(struct http_chunked *c, struct bytes in, struct bytes *data, size_t *consumed)
{
    size_t at = 0;
    *data = BYTES_NONE;
    while (c->state != CHUNK_DONE) {
        if (at == in.n) {
            *consumed = at;
            return 0;
        }
        if (c->state == CHUNK_DATA) {
            size_t run = in.n - at < c->left ? in.n - at : (size_t)c->left;
            *data = bytes_of(in.p + at, run);
            c->left -= run;
            if (c->left == 0)
                c->state = CHUNK_DATA_CR;
            *consumed = at + run;
            return 0;
        }
        int rc = step(c, in.p[at]);
        if (rc != 0)
            return rc;
        at++;
    }
    *consumed = at;
    return 1;
}
