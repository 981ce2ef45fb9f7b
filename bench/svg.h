/* Writing SVG: a growing text with the few shapes that pictures of a benchmark need, and an estimate of how wide a text is, since
 * nobody tells before it is drawn.
 *
 * Plain attributes, no scripts, no style sheets, no fonts of its own: light viewers draw it too.  Texts may hold anything.
 * Failures stick and are asked for once, at the end.  Coordinates in pixels, y downwards.  One thread at a time. */
#ifndef DFS_BENCH_SVG_H
#define DFS_BENCH_SVG_H

#include <stddef.h>
#include <stdio.h>

#define SVG_BYTES_MAX (64u << 20)
#define SVG_FONT "Helvetica,Arial,sans-serif"

struct svg {
    char *p;
    size_t n, cap;
    int rc;
    size_t points;   /* of the path under way */
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

/* An empty text. */
void svg_init(struct svg *s);
void svg_release(struct svg *s);

/* Anything, as printf makes it; what comes from outside goes through svg_escaped(). */
void svg_add(struct svg *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* With & < > " as entities, and control bytes and what is no UTF-8 replaced: valid in an element and in an attribute. */
void svg_escaped(struct svg *s, const char *text);

/* A straight line, of one pixel. */
void svg_line(struct svg *s, double x1, double y1, double x2, double y2, const char *stroke);
/* opacity 0 .. 1. */
void svg_rect(struct svg *s, double x, double y, double width, double height, const char *fill, double opacity);
void svg_dot(struct svg *s, double x, double y, double radius, const char *fill);

/* A text; x, y: its base line at the anchor; size in pixels; fill NULL = the picture's own. */
void svg_text(struct svg *s, double x, double y, double size, enum svg_anchor anchor, const char *fill, const char *text);
/* The same, cut in the middle with an ellipsis so that it is no wider than max_width. */
void svg_text_cut(struct svg *s, double x, double y, double size, enum svg_anchor anchor, const char *fill, double max_width,
                  const char *text);
/* Upwards, with its middle at x, y. */
void svg_text_upwards(struct svg *s, double x, double y, double size, const char *text);

/* A line through points; dash "" = none. */
void svg_path_begin(struct svg *s);
void svg_path_point(struct svg *s, double x, double y);
void svg_path_end(struct svg *s, const char *stroke, double width, const char *dash);

/* How wide a text will be about, in pixels; a little more rather than less. */
double svg_text_width(const char *text, double size);
/* How many bytes of it fit, ending between two characters. */
size_t svg_text_fit(const char *text, double size, double max_width);

/* 0, DFS_ENOMEM, DFS_ETOOBIG, DFS_EIO. */
int svg_write(const struct svg *s, FILE *out);

#endif
