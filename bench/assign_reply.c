/* A scanner for one flat object of plain strings and numbers, and the JSON library behind it. */
#include "bench/assign_reply.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "needle/err.h"

struct fields {
    struct bytes fid, url, public_url, error;
    uint64_t count;
};

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* A string without escapes; NULL when it is none. */
static const char *take_string(const char *p, const char *end, struct bytes *out)
{
    if (p >= end || *p != '"')
        return NULL;
    const char *start = ++p;
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
        p++;
    if (p >= end || *p != '"')
        return NULL;
    *out = bytes_of(start, (size_t)(p - start));
    return p + 1;
}

static const char *take_number(const char *p, const char *end, uint64_t *out)
{
    const char *start = p;
    uint64_t v = 0;
    while (p < end && *p >= '0' && *p <= '9' && p - start < 18)
        v = v * 10 + (uint64_t)(*p++ - '0');
    *out = v;
    return p == start ? NULL : p;
}

static struct bytes *field_of(struct fields *f, struct bytes key)
{
    if (bytes_eq(key, BYTES_LIT("fid")))
        return &f->fid;
    if (bytes_eq(key, BYTES_LIT("url")))
        return &f->url;
    if (bytes_eq(key, BYTES_LIT("publicUrl")))
        return &f->public_url;
    return bytes_eq(key, BYTES_LIT("error")) ? &f->error : NULL;
}

static const char *take_member(const char *p, const char *end, struct fields *f)
{
    struct bytes key, text;
    uint64_t number;

    p = take_string(p, end, &key);
    if (p == NULL)
        return NULL;
    p = skip_blanks(p, end);
    if (p >= end || *p != ':')
        return NULL;
    p = skip_blanks(p + 1, end);
    if (p < end && *p == '"') {
        struct bytes *to = field_of(f, key);
        return take_string(p, end, to != NULL ? to : &text);
    }
    return take_number(p, end, bytes_eq(key, BYTES_LIT("count")) ? &f->count : &number);
}

/* False when the object is not of the plain kind. */
static bool scan_flat(struct bytes body, struct fields *f)
{
    const char *end = body.p + body.n;
    const char *p = skip_blanks(body.p, end);

    if (p >= end || *p != '{')
        return false;
    do {
        p = take_member(skip_blanks(p + 1, end), end, f);
        if (p == NULL)
            return false;
        p = skip_blanks(p, end);
    } while (p < end && *p == ',');
    return p < end && *p == '}' && skip_blanks(p + 1, end) == end;
}

static void copy_text(struct bytes from, char *to, size_t cap)
{
    size_t n = from.n < cap ? from.n : cap - 1;
    if (n > 0)
        memcpy(to, from.p, n);
    to[n] = '\0';
}

static int take_fields(const struct fields *f, struct assign_reply *out)
{
    copy_text(f->error, out->error, sizeof out->error);
    if (out->error[0] != '\0')
        return 0;
    if (f->url.n >= sizeof out->url || f->public_url.n >= sizeof out->public_url || f->url.n == 0 ||
        fid_parse(f->fid, &out->fid) != 0) {
        copy_text(BYTES_LIT("the master's answer names no file id and server"), out->error, sizeof out->error);
        return DFS_EPROTO;
    }
    copy_text(f->url, out->url, sizeof out->url);
    copy_text(f->public_url.n > 0 ? f->public_url : f->url, out->public_url, sizeof out->public_url);
    out->count = f->count > 0 ? f->count : 1;
    return 0;
}

static struct bytes json_text(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_string(v) ? bytes_of(json_string_value(v), json_string_length(v)) : BYTES_NONE;
}

static int parse_any(struct bytes body, struct assign_reply *out)
{
    json_t *root = json_loadb(body.p, body.n, 0, NULL);
    int rc;

    if (!json_is_object(root)) {
        snprintf(out->error, sizeof out->error, "the master's answer is no JSON object: '%.*s'",
                 (int)(body.n < 80 ? body.n : 80), body.p);
        rc = DFS_EPROTO;
    } else {
        json_int_t count = json_integer_value(json_object_get(root, "count"));
        struct fields f = {
            .fid = json_text(root, "fid"),
            .url = json_text(root, "url"),
            .public_url = json_text(root, "publicUrl"),
            .error = json_text(root, "error"),
            .count = count > 0 ? (uint64_t)count : 0,
        };
        rc = take_fields(&f, out);
    }
    json_decref(root);
    return rc;
}

int assign_reply_parse(struct bytes body, struct assign_reply *out)
{
    struct fields f = {0};
    out->error[0] = '\0';
    if (body.n == 0) {
        copy_text(BYTES_LIT("the master's answer is empty"), out->error, sizeof out->error);
        return DFS_EPROTO;
    }
    return scan_flat(body, &f) ? take_fields(&f, out) : parse_any(body, out);
}
