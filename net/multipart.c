/* multipart/form-data.
 *
 * Data ends at the delimiter, CRLF "--" boundary.  Since CR stands only at its front, a match that fails in the middle can
 * begin again only at the byte that failed: what was carried from earlier input is then data, and since it is the front of the
 * delimiter itself, nothing but a count has to be kept.
 *
 * Bodies whose first boundary line ends with a bare LF use LF throughout: the delimiter then starts at its second byte. */
#include "net/multipart.h"

#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_util.h"

#define PART_HEADERS_MAX 64u
#define PADDING_MAX 64u /* blanks behind a boundary */
#define DELIM_MAX (4u + MULTIPART_BOUNDARY_MAX)
/* What nearly every form fits; a struct of its worst case would cost a slow upload seven pages. */
#define HEAD_INLINE_BYTES 1024u

enum state {
    STATE_PREAMBLE, /* before the first boundary: dropped */
    STATE_DATA,     /* inside a part */
    STATE_TAIL,     /* the delimiter matched: blanks and CRLF, or "--", or it was data after all */
    STATE_HEAD,     /* headers of a part */
    STATE_DONE,     /* behind the closing boundary: dropped */
};

struct multipart {
    const struct multipart_ops *ops;
    void *arg;
    enum state state;
    enum state before_tail; /* PREAMBLE or DATA */
    bool lf_only;
    bool wanted;    /* data of this part goes out */
    bool have_part; /* a candidate was announced */
    bool have_name; /* and it has a file name */
    int failed;     /* sticky */
    uint32_t parts;

    /* Positions in `delim`; matched == delim_start() means that nothing is. */
    size_t matched; /* the input so far ends with the delimiter up to here */
    size_t implied; /* up to here it was never there: the start of a part counts as the start of a line */
    size_t pending_from, pending_to; /* range of `delim` that turned out to be data and waits to go out */
    size_t delim_len;
    size_t tail_len; /* bytes behind the delimiter, kept in delim[delim_len..] */
    char *head; /* inline_head, or of its own */
    size_t head_len, head_cap;
    char *names; /* decoded field and file name of the current part */

    struct multipart_part part;
    struct multipart_header headers[PART_HEADERS_MAX];
    char delim[DELIM_MAX + PADDING_MAX + 2];
    char inline_head[HEAD_INLINE_BYTES];
};

/* The delimiter in use starts here. */
static size_t delim_start(const struct multipart *m)
{
    return m->lf_only ? 1 : 0;
}

/* The next byte is at the start of a line, as if its line end had been seen. */
static void line_start(struct multipart *m)
{
    m->matched = m->implied = 2;
}

int multipart_new(struct bytes boundary, const struct multipart_ops *ops, void *arg, struct multipart **out)
{
    if (boundary.n == 0 || boundary.n > MULTIPART_BOUNDARY_MAX)
        return DFS_EINVAL;
    for (size_t i = 0; i < boundary.n; i++)
        if ((unsigned char)boundary.p[i] < ' ' || boundary.p[i] == 0x7f)
            return DFS_EINVAL;
    struct multipart *m = malloc(sizeof *m); /* not zeroed: the big arrays are filled as far as they are used */
    if (m == NULL)
        return DFS_ENOMEM;
    memset(m, 0, offsetof(struct multipart, headers));
    m->ops = ops;
    m->arg = arg;
    m->state = STATE_PREAMBLE;
    m->head = m->inline_head;
    m->head_cap = sizeof m->inline_head;
    memcpy(m->delim, "\r\n--", 4);
    memcpy(m->delim + 4, boundary.p, boundary.n);
    m->delim_len = 4 + boundary.n;
    line_start(m);
    *out = m;
    return 0;
}

void multipart_free(struct multipart *m)
{
    if (m == NULL)
        return;
    if (m->head != m->inline_head)
        free(m->head);
    free(m->names);
    free(m);
}

/* ---- headers of a part ---- */

/* One line of the head into the next header.  DFS_EPROTO, DFS_ETOOBIG. */
static int part_line(struct multipart *m, struct bytes line)
{
    struct multipart_header *h = &m->headers[m->part.header_count];
    const char *colon = memchr(line.p, ':', line.n);

    if (m->part.header_count == PART_HEADERS_MAX)
        return DFS_ETOOBIG;
    if (colon == NULL || colon == line.p)
        return DFS_EPROTO;
    h->name = bytes_of(line.p, (size_t)(colon - line.p));
    for (size_t i = 0; i < h->name.n; i++)
        if ((unsigned char)h->name.p[i] <= ' ')
            return DFS_EPROTO;
    h->value = bytes_trim(bytes_of(colon + 1, line.n - h->name.n - 1));
    m->part.header_count++;
    return 0;
}

/* Splits the head (complete, with its closing empty line) into headers.  Folded lines are joined in place: their line end
 * becomes blanks. */
static int part_split(struct multipart *m)
{
    size_t from = 0;
    for (size_t i = 0; i < m->head_len; i++) {
        char c = m->head[i];
        if (c == '\0' || (c == '\r' && (i + 1 == m->head_len || m->head[i + 1] != '\n')))
            return DFS_EPROTO;
        if (c != '\n')
            continue;
        size_t to = i > from && m->head[i - 1] == '\r' ? i - 1 : i;
        if (to == from) {
            from = i + 1; /* the empty line, which is the last */
            continue;
        }
        if (i + 1 < m->head_len && ascii_is_blank(m->head[i + 1])) {
            memset(m->head + to, ' ', i + 1 - to);
            continue;
        }
        int rc = part_line(m, bytes_of(m->head + from, to - from));
        if (rc != 0)
            return rc;
        from = i + 1;
    }
    return 0;
}

static struct bytes part_header(const struct multipart *m, const char *name)
{
    for (uint32_t i = 0; i < m->part.header_count; i++)
        if (bytes_ieq(m->headers[i].name, bytes_str(name)))
            return m->headers[i].value;
    return BYTES_NONE;
}

/* Field and file name, decoded side by side into memory that lasts as long as the part. */
static int part_names(struct multipart *m, struct bytes disposition)
{
    size_t n;
    free(m->names);
    m->names = NULL;
    if (disposition.n == 0)
        return 0;
    m->names = malloc(2 * (disposition.n + 1));
    if (m->names == NULL)
        return DFS_ENOMEM;
    if (http_value_param(disposition, "name", m->names, &n))
        m->part.name = bytes_of(m->names, n);
    m->part.filename = http_disposition_name(disposition, m->names + disposition.n + 1);
    return 0;
}

static int part_parse(struct multipart *m)
{
    memset(&m->part, 0, sizeof m->part);
    int rc = part_split(m);
    if (rc == 0)
        rc = part_names(m, part_header(m, "Content-Disposition"));
    if (rc != 0)
        return rc;
    m->part.headers = m->headers;
    m->part.content_type = part_header(m, "Content-Type");
    if (m->part.content_type.n == 0)
        m->part.content_type = BYTES_NONE;
    m->part.content_md5 = part_header(m, "Content-MD5");
    m->part.gzip = bytes_ieq(part_header(m, "Content-Encoding"), BYTES_LIT("gzip"));
    return 0;
}

/* The head is complete: is this part the file? */
static int part_begin(struct multipart *m)
{
    if (m->parts == MULTIPART_PARTS_MAX)
        return DFS_ETOOBIG;
    m->parts++;
    int rc = part_parse(m);
    if (rc != 0)
        return rc;
    bool named = m->part.filename.p != NULL;
    m->wanted = !m->have_part || (named && !m->have_name);
    m->state = STATE_DATA;
    line_start(m);
    if (!m->wanted)
        return 0;
    m->have_part = true;
    m->have_name = named;
    return m->ops->part(m->arg, &m->part);
}

static int head_grow(struct multipart *m)
{
    if (m->head_cap == MULTIPART_PART_HEAD_MAX)
        return DFS_ETOOBIG;
    char *head = malloc(MULTIPART_PART_HEAD_MAX);
    if (head == NULL)
        return DFS_ENOMEM;
    memcpy(head, m->head, m->head_len);
    m->head = head;
    m->head_cap = MULTIPART_PART_HEAD_MAX;
    return 0;
}

/* Takes head bytes up to the empty line.  *used is set also on failure. */
static int feed_head(struct multipart *m, struct bytes in, size_t *used)
{
    size_t i = 0;
    while (i < in.n) {
        int rc = m->head_len == m->head_cap ? head_grow(m) : 0;
        if (rc != 0)
            return rc;
        char c = m->head[m->head_len++] = in.p[i++];
        if (c != '\n')
            continue;
        size_t n = m->head_len;
        bool empty = n == 1 || (n == 2 && m->head[0] == '\r') || m->head[n - 2] == '\n' ||
                     (m->head[n - 2] == '\r' && m->head[n - 3] == '\n');
        if (empty) {
            *used = i;
            return part_begin(m);
        }
    }
    *used = i;
    return 0;
}

/* ---- data ---- */

/* Hands out data of the wanted part.  *taken always says how much was used up. */
static int emit(struct multipart *m, struct bytes data, size_t *taken)
{
    *taken = data.n;
    if (!m->wanted || m->state == STATE_PREAMBLE || data.n == 0)
        return 0;
    size_t n = data.n;
    int rc = m->ops->data(m->arg, data, &n);
    if (rc == DFS_EAGAIN) {
        CHECK(n <= data.n);
        *taken = n;
    }
    return rc;
}

/* Sends what was held back as a possible delimiter. */
static int flush_pending(struct multipart *m)
{
    size_t taken;
    if (m->pending_from == m->pending_to)
        return 0;
    int rc = emit(m, bytes_of(m->delim + m->pending_from, m->pending_to - m->pending_from), &taken);
    m->pending_from += taken;
    return rc;
}

/* The delimiter did not come about: delim[..upto), as far as it was there, is data.  The byte that failed is looked at again. */
static void give_back(struct multipart *m, size_t upto)
{
    size_t from = m->implied > delim_start(m) ? m->implied : delim_start(m);
    m->pending_from = from < upto ? from : upto;
    m->pending_to = upto;
    m->matched = delim_start(m);
    m->implied = 0;
}

static void delim_complete(struct multipart *m)
{
    m->before_tail = m->state;
    m->state = STATE_TAIL;
    m->tail_len = 0;
}

/* A delimiter that began in earlier input (or at an implied line start). */
static int feed_carry(struct multipart *m, struct bytes in, size_t *used)
{
    size_t i = 0;
    while (i < in.n && m->matched < m->delim_len && in.p[i] == m->delim[m->matched]) {
        i++;
        m->matched++;
    }
    if (m->matched == m->delim_len) {
        *used = i;
        delim_complete(m);
    } else if (i < in.n) {
        /* What matched of this input is no CR, so it is plain data and is scanned again; only older bytes are given back. */
        give_back(m, m->matched - i);
        *used = 0;
    } else {
        *used = i;
    }
    return 0;
}

/* How many bytes at the end of `in` may be the front of a delimiter. */
static size_t partial_at_end(const struct multipart *m, struct bytes in)
{
    const char *delim = m->delim + delim_start(m);
    size_t len = m->delim_len - delim_start(m);
    size_t look = in.n < len - 1 ? in.n : len - 1;
    const char *at = look > 0 ? memrchr(in.p + in.n - look, delim[0], look) : NULL;
    if (at == NULL)
        return 0;
    size_t n = (size_t)(in.p + in.n - at);
    return memcmp(at, delim, n) == 0 ? n : 0;
}

typedef unsigned char block __attribute__((vector_size(16)));
#define BLOCK_BYTES sizeof(block)
#define BLOCKS 4u /* looked at together */

static block block_of(const char *p)
{
    block b;
    memcpy(&b, p, sizeof b);
    return b;
}

static bool is_zero(block b)
{
    uint64_t half[2];
    memcpy(half, &b, sizeof half);
    return (half[0] | half[1]) == 0;
}

/* What a delimiter is looked for by: its first byte and its last. */
struct probe {
    block first, last;
    size_t apart;
};

/* Places at p, as many as a block has, where both stand. */
static inline block hits_at(const struct probe *probe, const char *p)
{
    return (block)(block_of(p) == probe->first) & (block)(block_of(p + probe->apart) == probe->last);
}

/* memmem() at one and a half to twice its pace: 64 places at a time.  The delimiter's first byte stands nowhere else in it, so that
 * places that turn out to be none cost no more than the bytes they are like. */
static const char *find_delim(struct bytes in, const char *delim, size_t len)
{
    const block zero = {0};
    const struct probe probe = {zero + (unsigned char)delim[0], zero + (unsigned char)delim[len - 1], len - 1};
    size_t at = 0;

    for (; at + BLOCKS * BLOCK_BYTES + len - 1 <= in.n; at += BLOCKS * BLOCK_BYTES) {
        const char *p = in.p + at, *found;
        /* Written out: as a loop it is not unrolled, and twice as slow. */
        block low = hits_at(&probe, p) | hits_at(&probe, p + BLOCK_BYTES);
        block high = hits_at(&probe, p + 2 * BLOCK_BYTES) | hits_at(&probe, p + 3 * BLOCK_BYTES);
        if (is_zero(low | high))
            continue;
        found = memmem(p, BLOCKS * BLOCK_BYTES + len - 1, delim, len);
        if (found != NULL)
            return found;
    }
    return memmem(in.p + at, in.n - at, delim, len);
}

bool multipart_in_data(const struct multipart *m)
{
    return m->failed == 0 && m->state == STATE_DATA && m->wanted && m->matched == delim_start(m) &&
           m->pending_from == m->pending_to;
}

size_t multipart_plain(const struct multipart *m, struct bytes in)
{
    const char *at;
    if (!multipart_in_data(m))
        return 0;
    at = find_delim(in, m->delim + delim_start(m), m->delim_len - delim_start(m));
    return at != NULL ? (size_t)(at - in.p) : in.n - partial_at_end(m, in);
}

static int feed_data(struct multipart *m, struct bytes in, size_t *used)
{
    const char *delim = m->delim + delim_start(m);
    size_t len = m->delim_len - delim_start(m), taken;

    if (m->matched > delim_start(m))
        return feed_carry(m, in, used);
    const char *at = find_delim(in, delim, len);
    size_t held = at == NULL ? partial_at_end(m, in) : 0;
    size_t run = at != NULL ? (size_t)(at - in.p) : in.n - held;
    int rc = emit(m, bytes_of(in.p, run), &taken);
    *used = taken;
    if (rc != 0)
        return rc;
    if (at != NULL) {
        *used = run + len;
        m->matched = m->delim_len;
        delim_complete(m);
    } else {
        *used = in.n;
        m->matched = delim_start(m) + held;
    }
    return 0;
}

/* ---- behind a delimiter ---- */

static void head_start(struct multipart *m)
{
    m->state = STATE_HEAD;
    m->head_len = 0;
}

/* "--boundary" followed by something else: it was data that looked like it. */
static void tail_is_data(struct multipart *m)
{
    size_t upto = m->delim_len + m->tail_len;
    /* A CR at the end may be the front of the real delimiter. */
    bool cr = !m->lf_only && m->tail_len > 0 && m->delim[upto - 1] == '\r';
    m->state = m->before_tail;
    give_back(m, upto - cr);
    m->matched += cr;
}

/* One byte of the tail at a time; few bytes.  *used stays 0 for a byte that is to be looked at again. */
static int feed_tail(struct multipart *m, char c, size_t *used)
{
    const char *tail = m->delim + m->delim_len;
    char last = m->tail_len > 0 ? tail[m->tail_len - 1] : '\0';
    bool lf_allowed = m->lf_only || m->before_tail == STATE_PREAMBLE;

    *used = 1;
    if (c == '-' && m->tail_len == 0) {
        m->delim[m->delim_len + m->tail_len++] = c;
        return 0;
    }
    if (last == '-') {
        if (c == '-') {
            m->state = STATE_DONE;
            return 0;
        }
    } else if (c == '\n' && (last == '\r' || lf_allowed)) {
        if (last != '\r' && m->before_tail == STATE_PREAMBLE)
            m->lf_only = true;
        head_start(m);
        return 0;
    } else if (last != '\r' && (c == '\r' || ascii_is_blank(c))) {
        if (m->tail_len == PADDING_MAX)
            return DFS_EPROTO;
        m->delim[m->delim_len + m->tail_len++] = c;
        return 0;
    }
    *used = 0;
    tail_is_data(m);
    return 0;
}

/* ---- the outside ---- */

static int feed_step(struct multipart *m, struct bytes in, size_t *used)
{
    *used = 0;
    switch (m->state) {
    case STATE_PREAMBLE:
    case STATE_DATA:
        return feed_data(m, in, used);
    case STATE_TAIL:
        return feed_tail(m, in.p[0], used);
    case STATE_HEAD:
        return feed_head(m, in, used);
    case STATE_DONE:
        *used = in.n;
        return 0;
    }
    CHECK(!"state");
    return DFS_EPROTO;
}

int multipart_feed(struct multipart *m, struct bytes in, size_t *consumed)
{
    size_t at = 0, used;
    int rc = m->failed;

    while (rc == 0) {
        rc = flush_pending(m);
        if (rc != 0 || at == in.n)
            break;
        rc = feed_step(m, bytes_of(in.p + at, in.n - at), &used);
        at += used;
    }
    *consumed = at;
    if (rc != 0 && rc != DFS_EAGAIN)
        m->failed = rc;
    return rc;
}

int multipart_end(struct multipart *m)
{
    if (m->failed != 0)
        return m->failed;
    return m->state == STATE_DONE && m->have_part ? 0 : DFS_EPROTO;
}
