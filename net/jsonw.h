/* A JSON writer: one pass into a growing buffer, for answers on hot paths and for status documents of megabytes.
 *
 * Commas, colons and indentation are its own business; the caller opens, names and closes.  Texts may hold anything: what is not
 * UTF-8 becomes U+FFFD, control bytes are escaped, so the result is valid JSON whatever a client stored.  Failures stick and are
 * asked for once, at the end.  Closing what is not open, or a value without a key inside an object, is a bug of ours: CHECK.
 * One thread at a time. */
#ifndef DFS_NET_JSONW_H
#define DFS_NET_JSONW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "needle/bytes.h"

#define JSONW_DEPTH_MAX 32u
#define JSONW_BYTES_MAX (256u * 1024u * 1024u)
#define JSONW_INLINE_BYTES 512u /* documents up to this need no allocation */

struct jsonw {
    char *p;
    size_t n, cap;
    int rc;
    bool pretty;
    bool after_key;
    uint8_t depth;
    uint32_t is_object, has_member; /* a bit per level */
    char small[JSONW_INLINE_BYTES];
};

/* pretty indents by two blanks.  The struct must not be moved while in use. */
void jsonw_init(struct jsonw *w, bool pretty);
void jsonw_release(struct jsonw *w);

/* Brackets; commas come by themselves. */
void jsonw_object(struct jsonw *w);
void jsonw_object_end(struct jsonw *w);
void jsonw_array(struct jsonw *w);
void jsonw_array_end(struct jsonw *w);

/* Name of the next value. */
void jsonw_key(struct jsonw *w, const char *key);
void jsonw_key_bytes(struct jsonw *w, struct bytes key);

/* Values.  Bytes that are no UTF-8 become U+FFFD. */
void jsonw_string(struct jsonw *w, struct bytes text);
void jsonw_u64(struct jsonw *w, uint64_t v);
void jsonw_i64(struct jsonw *w, int64_t v);
/* Shortest text that reads back the same; not a number or infinite: null. */
void jsonw_double(struct jsonw *w, double v);
void jsonw_bool(struct jsonw *w, bool v);
void jsonw_null(struct jsonw *w);
/* A value that is JSON already. */
void jsonw_raw(struct jsonw *w, struct bytes json);

/* Key and value at once. */
void jsonw_put_object(struct jsonw *w, const char *key);
void jsonw_put_array(struct jsonw *w, const char *key);
void jsonw_put_string(struct jsonw *w, const char *key, struct bytes text);
void jsonw_put_str(struct jsonw *w, const char *key, const char *text);
void jsonw_put_u64(struct jsonw *w, const char *key, uint64_t v);
void jsonw_put_i64(struct jsonw *w, const char *key, int64_t v);
void jsonw_put_double(struct jsonw *w, const char *key, double v);
void jsonw_put_bool(struct jsonw *w, const char *key, bool v);
/* A text of printf, at most 1023 bytes of it. */
void jsonw_put_printf(struct jsonw *w, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The document, complete (everything closed: CHECK) and without a closing zero; valid until release.  DFS_ENOMEM, DFS_ETOOBIG. */
int jsonw_done(struct jsonw *w, struct bytes *out);

#endif
