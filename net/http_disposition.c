/* File names in and out of headers, and names that become part of a path. */
#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_util.h"

#define NAME_SAFE_MAX 200u

bool name_is_safe(struct bytes name)
{
    if (name.n > NAME_SAFE_MAX || bytes_eq(name, BYTES_LIT(".")) || bytes_eq(name, BYTES_LIT("..")))
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!ascii_is_alnum(c) && c != '_' && c != '-' && c != '.')
            return false;
    }
    return true;
}

/* The separators of MIME (RFC 2045), which is the token that the peer goes by: braces and % are not among them. */
static bool is_separator(char c)
{
    return c != '\0' && strchr("()<>@,;:\\\"/[]?=", c) != NULL;
}

static bool is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

enum name_form { FORM_TOKEN, FORM_QUOTED, FORM_EXTENDED };

static enum name_form name_form(struct bytes name)
{
    enum name_form form = FORM_TOKEN;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!is_printable(c))
            return FORM_EXTENDED;
        if (c == ' ' || is_separator(c))
            form = FORM_QUOTED;
    }
    return form;
}

static char *put_text(char *w, const char *s)
{
    size_t n = strlen(s);
    memcpy(w, s, n);
    return w + n;
}

static char *put_quoted(char *w, struct bytes name)
{
    *w++ = '"';
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] == '"' || name.p[i] == '\\')
            *w++ = '\\';
        *w++ = name.p[i];
    }
    *w++ = '"';
    return w;
}

static char *put_extended(char *w, struct bytes name)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (is_printable(c) && c != ' ' && !is_separator(c) && c != '*' && c != '\'' && c != '%') {
            *w++ = c;
            continue;
        }
        *w++ = '%';
        *w++ = hex[(unsigned char)c >> 4];
        *w++ = hex[(unsigned char)c & 15];
    }
    return w;
}

size_t http_disposition_format(bool attachment, struct bytes name, char *out)
{
    char *w = put_text(out, attachment ? "attachment" : "inline");
    if (name.n == 0)
        return (size_t)(w - out);
    switch (name_form(name)) {
    case FORM_TOKEN:
        w = put_text(w, "; filename=");
        memcpy(w, name.p, name.n);
        w += name.n;
        break;
    case FORM_QUOTED:
        w = put_quoted(put_text(w, "; filename="), name);
        break;
    case FORM_EXTENDED:
        w = put_extended(put_text(w, "; filename*=utf-8''"), name);
        break;
    }
    return (size_t)(w - out);
}

/* "charset'language'percent-encoded", in place.  Latin-1 becomes UTF-8: its two bytes fit where "%XX" stood. */
static bool extended_decode(char *text, size_t *n)
{
    struct bytes rest = bytes_of(text, *n), charset, language;
    if (!bytes_split(&rest, '\'', &charset) || !bytes_split(&rest, '\'', &language) || rest.p == NULL)
        return false;
    bool latin1 = bytes_ieq(charset, BYTES_LIT("iso-8859-1"));
    if (!latin1 && !bytes_ieq(charset, BYTES_LIT("utf-8")))
        return false;
    if (!latin1)
        return http_percent_decode(rest, false, text, n) == 0;
    size_t w = 0;
    for (size_t i = 0; i < rest.n; i++) {
        size_t used = rest.p[i] == '%' ? 3 : 1, one;
        char c;
        if (used > rest.n - i || http_percent_decode(bytes_of(rest.p + i, used), false, &c, &one) != 0)
            return false;
        if ((unsigned char)c >= 0x80 && used == 3) {
            text[w++] = (char)(0xc0 | (unsigned char)c >> 6);
            text[w++] = (char)(0x80 | ((unsigned char)c & 0x3f));
        } else {
            text[w++] = c;
        }
        i += used - 1;
    }
    *n = w;
    return true;
}

struct bytes http_name_last(struct bytes name)
{
    while (name.n > 0 && (name.p[name.n - 1] == '/' || name.p[name.n - 1] == '\\'))
        name.n--;
    for (size_t i = name.n; i > 0; i--)
        if (name.p[i - 1] == '/' || name.p[i - 1] == '\\') {
            name = bytes_of(name.p + i, name.n - i);
            break;
        }
    if (name.n == 0 || bytes_eq(name, BYTES_LIT(".")) || bytes_eq(name, BYTES_LIT("..")))
        return BYTES_NONE;
    return name;
}

struct bytes http_disposition_name(struct bytes value, char *out)
{
    size_t n;
    if ((http_value_param(value, "filename*", out, &n) && extended_decode(out, &n)) ||
        http_value_param(value, "filename", out, &n))
        return http_name_last(bytes_of(out, n));
    return BYTES_NONE;
}

struct bytes http_name_ext(struct bytes name)
{
    for (size_t i = name.n; i > 0 && name.p[i - 1] != '/'; i--)
        if (name.p[i - 1] == '.')
            return i == name.n ? BYTES_NONE : bytes_of(name.p + i - 1, name.n - i + 1);
    return BYTES_NONE;
}
