/* What HTTP handlers share: percent decoding, query parameters, dates, media types, ranges, entity tags, names in headers.
 * Pure; any thread. */
#ifndef DFS_NET_HTTP_UTIL_H
#define DFS_NET_HTTP_UTIL_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"

/* Decodes %XX into out (cap at least in.n; may be in.p itself); plus_is_space for form fields.  *n is the length.
 * DFS_EINVAL for a broken escape or a NUL. */
int http_percent_decode(struct bytes in, bool plus_is_space, char *out, size_t *n);

/* Query or form parameters, decoded into one owned buffer.  At most HTTP_PARAMS_MAX; more is DFS_ETOOBIG. */
#define HTTP_PARAMS_MAX 64u
struct http_param {
    struct bytes name, value; /* NUL-terminated inside the owned buffer */
};
struct http_params {
    struct http_param v[HTTP_PARAMS_MAX];
    uint32_t count;
    char *owned;
};
void http_params_init(struct http_params *p);
/* Adds the fields of a query string or form body; earlier ones stay valid, nothing is added on failure.  DFS_EINVAL (broken
 * escape), DFS_ETOOBIG, DFS_ENOMEM. */
int http_params_parse(struct http_params *p, struct bytes text);
/* First field of the name; p == NULL when absent. */
struct bytes http_params_get(const struct http_params *p, const char *name);
/* Absent or empty -> dflt; "1", "t", "true", "T", "TRUE", "True" -> true; "0", "f", ... -> false; else dflt. */
bool http_params_bool(const struct http_params *p, const char *name, bool dflt);
/* Absent or empty -> dflt with 0; else the whole text must be a decimal number: DFS_EINVAL. */
int http_params_u64(const struct http_params *p, const char *name, uint64_t dflt, uint64_t *out);
void http_params_release(struct http_params *p);

/* "Mon, 30 Nov 2026 20:01:02 GMT"; times beyond the year 9999 are written as its last second. */
#define HTTP_DATE_BYTES 29
void http_date_format(uint64_t unix_s, char out[HTTP_DATE_BYTES + 1]);
/* The three date forms of HTTP, from 1970 on; DFS_EINVAL. */
int http_date_parse(struct bytes text, uint64_t *unix_s);

/* Media type by extension (with its dot, any case), from a table of our own; p == NULL when unknown. */
struct bytes http_mime_by_ext(struct bytes ext);
/* The extension of a name, with its dot, or empty. */
struct bytes http_name_ext(struct bytes name);
/* By content, as browsers' sniffers do for the common kinds (html, xml, pdf, images, gzip, plain text, ...); else
 * application/octet-stream. */
struct bytes http_mime_sniff(struct bytes head);

/* One Range header against a length. */
#define HTTP_RANGES_MAX 16u
struct http_range {
    uint64_t first, count; /* count >= 1 */
};
enum http_range_verdict {
    HTTP_RANGE_NONE,          /* absent or to be ignored (malformed unit, too many or overlapping ranges): answer 200 */
    HTTP_RANGE_OK,            /* ranges[0..n) */
    HTTP_RANGE_UNSATISFIABLE, /* 416 with "bytes * / length" */
};
enum http_range_verdict http_range_parse(struct bytes value, uint64_t length, struct http_range ranges[HTTP_RANGES_MAX],
                                         uint32_t *n);

/* Whether If-None-Match / If-Match / If-Range lists name the strong tag `etag` (with quotes); `*` matches; W/ is compared
 * weakly when weak_ok. */
bool http_etag_listed(struct bytes value, struct bytes etag, bool weak_ok);

/* Appends a Content-Disposition value: inline; filename=h.txt | quoted when needed | RFC 8187 form for others.  Never emits
 * CR, LF or control bytes.  Returns bytes written (out cap >= 3 * name.n + 64). */
size_t http_disposition_format(bool attachment, struct bytes name, char *out);

/* The file name of a Content-Disposition: filename*=charset'lang'... (UTF-8, ISO-8859-1) before filename=, of it only the
 * last path element; p == NULL when none, empty, "." or "..".  Points into out (cap >= value.n + 1). */
struct bytes http_disposition_name(struct bytes value, char *out);
/* The last path element ('/' and '\\' both separate); p == NULL when that is empty, "." or "..". */
struct bytes http_name_last(struct bytes name);

/* Value of parameter `key` in "type; a=b; c=\"d\"" (quotes undone, and \" and \\ but no other backslash, into out, cap >=
 * value.n + 1; closed by a NUL that *n does not count).  False when absent. */
bool http_value_param(struct bytes value, const char *key, char *out, size_t *n);

/* Letters, digits, '_', '-', '.', not "." or "..", at most 200 bytes; empty is fine (the default collection). */
bool name_is_safe(struct bytes name);

#endif
