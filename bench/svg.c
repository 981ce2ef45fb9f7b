/* Shapes as text. */
#include "bench/svg.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

#define FRONT_SHARE 0.65
#define ELLIPSIS "\xe2\x80\xa6"
#define REPLACEMENT "\xef\xbf\xbd"

void svg_init(struct svg *s)
{
    memset(s, 0, sizeof *s);
}

void svg_release(struct svg *s)
{
    free(s->p);
    svg_init(s);
}

int svg_write(const struct svg *s, FILE *out)
{
    if (s->rc != 0)
        return s->rc;
    return fwrite(s->p, 1, s->n, out) == s->n && fflush(out) == 0 ? 0 : DFS_EIO;
}

/* ---- bytes ---- */

static bool room(struct svg *s, size_t n)
{
    size_t cap = s->cap > 0 ? s->cap : 16384;
    char *more;

    if (s->rc != 0)
        return false;
    if (n > SVG_BYTES_MAX - s->n) {
        s->rc = DFS_ETOOBIG;
        return false;
    }
    while (cap - s->n < n)
        cap *= 2;
    if (cap == s->cap)
        return true;
    more = realloc(s->p, cap);
    if (more == NULL) {
        s->rc = DFS_ENOMEM;
        return false;
    }
    s->p = more;
    s->cap = cap;
    return true;
}

static void put(struct svg *s, const char *text, size_t n)
{
    if (!room(s, n))
        return;
    memcpy(s->p + s->n, text, n);
    s->n += n;
}

void svg_add(struct svg *s, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        s->rc = s->rc != 0 ? s->rc : DFS_ETOOBIG;
    else
        put(s, text, (size_t)n);
}

/* One UTF-8 character: its bytes, and the code point; a byte that begins none is U+FFFD of one byte. */
static size_t character(const char *text, uint32_t *code)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char b = s[0];
    size_t len = b < 0x80 ? 1 : b >= 0xc2 && b <= 0xdf ? 2 : (b & 0xf0) == 0xe0 ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = len == 1 ? s[0] : len == 2 ? s[0] & 0x1f : len == 3 ? s[0] & 0x0f : s[0] & 7;

    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            len = 0;
        else
            c = c << 6 | (s[i] & 0x3f);
    }
    if (len == 0 || c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        *code = 0xfffd;
        return 1;
    }
    *code = c;
    return len;
}

static void put_escaped(struct svg *s, const char *text, size_t n)
{
    uint32_t c;

    for (size_t i = 0, len; i < n; i += len) {
        len = character(text + i, &c);
        if (c == '&')
            put(s, "&amp;", 5);
        else if (c == '<')
            put(s, "&lt;", 4);
        else if (c == '>')
            put(s, "&gt;", 4);
        else if (c == '"')
            put(s, "&quot;", 6);
        else if (c < ' ' || c == 0x7f)
            put(s, " ", 1);
        else if (c == 0xfffd || c == 0xfffe || c == 0xffff) /* the last two are no characters of XML */
            put(s, REPLACEMENT, 3);
        else
            put(s, text + i, len);
    }
}

void svg_escaped(struct svg *s, const char *text)
{
    put_escaped(s, text, strlen(text));
}

/* ---- widths ---- */

/* In shares of the size, after the widest of the usual sans-serif faces. */
static double character_width(uint32_t c)
{
    if (c >= 0x1100)
        return c >= 0x2000 && c < 0x2e80 ? 0.75 : 1.05;
    if (c >= 0x80)
        return 0.66;
    if (c == '\0' || strchr("iljI.,:;'|!`", (int)c) != NULL)
        return 0.31;
    if (strchr(" ftr()[]/\\-\"", (int)c) != NULL)
        return 0.4;
    if (strchr("mwMW@%", (int)c) != NULL)
        return 0.97;
    return c >= 'A' && c <= 'Z' ? 0.73 : 0.63;
}

double svg_text_width(const char *text, double size)
{
    double width = 0;
    uint32_t c;

    for (size_t i = 0; text[i] != '\0';) {
        i += character(text + i, &c);
        width += character_width(c) * size;
    }
    return width;
}

size_t svg_text_fit(const char *text, double size, double max_width)
{
    double width = 0;
    size_t i = 0;
    uint32_t c;

    while (text[i] != '\0') {
        size_t len = character(text + i, &c);
        width += character_width(c) * size;
        if (width > max_width)
            break;
        i += len;
    }
    return i;
}

/* ---- shapes ---- */

void svg_line(struct svg *s, double x1, double y1, double x2, double y2, const char *stroke)
{
    svg_add(s, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\" fill=\"none\"/>\n", x1, y1, x2, y2, stroke);
}

void svg_rect(struct svg *s, double x, double y, double width, double height, const char *fill, double opacity)
{
    svg_add(s, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"", x, y, width, height, fill);
    if (opacity < 1)
        svg_add(s, " fill-opacity=\"%.2f\"", opacity);
    svg_add(s, "/>\n");
}

void svg_dot(struct svg *s, double x, double y, double radius, const char *fill)
{
    svg_add(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius, fill);
}

static void text_begin(struct svg *s, double x, double y, double size, enum svg_anchor anchor, const char *fill)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

    svg_add(s, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\"%s", x, y, size, anchors[anchor]);
    if (fill != NULL)
        svg_add(s, " fill=\"%s\"", fill);
    svg_add(s, ">");
}

void svg_text(struct svg *s, double x, double y, double size, enum svg_anchor anchor, const char *fill, const char *text)
{
    text_begin(s, x, y, size, anchor, fill);
    svg_escaped(s, text);
    svg_add(s, "</text>\n");
}

/* Front and end of it: labels often differ at their ends only. */
static void put_cut(struct svg *s, double size, double max_width, const char *text)
{
    size_t front = svg_text_fit(text, size, max_width * FRONT_SHARE), end = front;
    uint32_t c;

    while (text[end] != '\0' && svg_text_width(text + end, size) > max_width * (1 - FRONT_SHARE))
        end += character(text + end, &c);
    while (front > 0 && text[front - 1] == ' ')
        front--;
    put_escaped(s, text, front);
    svg_add(s, "%s", ELLIPSIS);
    svg_escaped(s, text + end);
}

void svg_text_cut(struct svg *s, double x, double y, double size, enum svg_anchor anchor, const char *fill, double max_width,
                  const char *text)
{
    size_t n = svg_text_fit(text, size, max_width);

    text_begin(s, x, y, size, anchor, fill);
    if (text[n] == '\0') {
        svg_escaped(s, text);
    } else {
        put_cut(s, size, max_width - svg_text_width(ELLIPSIS, size), text);
        svg_add(s, "<title>");
        svg_escaped(s, text);
        svg_add(s, "</title>");
    }
    svg_add(s, "</text>\n");
}

void svg_text_upwards(struct svg *s, double x, double y, double size, const char *text)
{
    svg_add(s, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" font-size=\"%g\" text-anchor=\"middle\">", x, y, size);
    svg_escaped(s, text);
    svg_add(s, "</text>\n");
}

void svg_path_begin(struct svg *s)
{
    s->points = 0;
    svg_add(s, "<path d=\"");
}

void svg_path_point(struct svg *s, double x, double y)
{
    svg_add(s, "%c%.1f %.1f", s->points == 0 ? 'M' : 'L', x, y);
    s->points++;
}

void svg_path_end(struct svg *s, const char *stroke, double width, const char *dash)
{
    svg_add(s, "\" stroke=\"%s\" stroke-width=\"%g\" fill=\"none\" stroke-linejoin=\"round\"", stroke, width);
    if (dash[0] != '\0')
        svg_add(s, " stroke-dasharray=\"%s\"", dash);
    svg_add(s, "/>\n");
}
