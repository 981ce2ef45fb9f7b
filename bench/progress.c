/* A line that is drawn over again. */
#include "bench/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench/axis.h"

#define COLUMNS_DEFAULT 80u
#define COLUMNS_MAX 200u
#define BAR_MIN 10u
#define BAR_MAX 40u
#define WHAT_MAX 32u
#define BAR_EXTRA 10u /* around the marks: " [", "] 100%", two blanks */
#define MIB 1048576.0
/* Before so much of the whole is done, the time left is a guess and is not told. */
#define SHARE_FOR_TIME_LEFT 0.005

static uint32_t columns_of(int fd)
{
    struct winsize w;

    if (ioctl(fd, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
        return COLUMNS_DEFAULT;
    return w.ws_col < PROGRESS_COLUMNS_MIN ? PROGRESS_COLUMNS_MIN : w.ws_col > COLUMNS_MAX ? COLUMNS_MAX : w.ws_col;
}

void progress_init(struct progress *p, FILE *out)
{
    const char *term = getenv("TERM");

    *p = (struct progress){.out = out, .columns = COLUMNS_DEFAULT};
    /* Where the report itself is read on a terminal, its lines a second say enough, and a line drawn over again is in their way. */
    p->is_shown = isatty(fileno(out)) == 1 && isatty(STDOUT_FILENO) != 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

static void time_text(double seconds, char *out, size_t cap)
{
    uint64_t s = seconds < 1e9 ? (uint64_t)llround(seconds) : 1000000000u;

    if (s < 100)
        snprintf(out, cap, "%llu s", (unsigned long long)s);
    else if (s < 6000)
        snprintf(out, cap, "%llu:%02llu min", (unsigned long long)(s / 60), (unsigned long long)(s % 60));
    else
        snprintf(out, cap, "%llu:%02llu h", (unsigned long long)(s / 3600), (unsigned long long)(s / 60 % 60));
}

/* What is left out, in this order, on a line that is too short for everything. */
enum detail { WITHOUT_RATES, WITHOUT_COUNT, WITHOUT_BYTES, WITH_ALL };

static void add(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);

    snprintf(out + n, cap - n, "%s%s", n > 0 ? ", " : "", text);
}

static void figures(const struct progress_state *s, enum detail detail, char *out, size_t cap)
{
    char text[96], number[AXIS_LABEL_MAX];

    out[0] = '\0';
    if (s->bytes_per_s >= 0 && detail >= WITH_ALL) {
        snprintf(text, sizeof text, "%.1f MiB/s", s->bytes_per_s / MIB);
        add(out, cap, text);
    }
    if (s->requests_per_s >= 0 && detail > WITHOUT_RATES) {
        axis_number(s->requests_per_s, number);
        snprintf(text, sizeof text, "%s/s", number);
        add(out, cap, text);
    }
    if (detail > WITHOUT_COUNT) {
        snprintf(text, sizeof text, "%llu done", (unsigned long long)s->completed);
        add(out, cap, text);
    }
    if (s->failed > 0) {
        snprintf(text, sizeof text, "%llu failed", (unsigned long long)s->failed);
        add(out, cap, text);
    }
    if (s->share >= SHARE_FOR_TIME_LEFT && s->share < 1) {
        time_text(s->elapsed_s / s->share * (1 - s->share), number, sizeof number);
        snprintf(text, sizeof text, "%s left", number);
        add(out, cap, text);
    }
}

/* " [====>    ]  52%", and without the bar when there is no room for it; nothing when the share is not known. */
static void scale(double share, size_t room, char *out, size_t cap)
{
    char marks[BAR_MAX + 1];
    size_t width = room < BAR_MAX ? room : BAR_MAX, full;

    out[0] = '\0';
    if (share < 0)
        return;
    share = share < 1 ? share : 1;
    full = (size_t)(share * (double)width);
    if (room < BAR_MIN) {
        snprintf(out, cap, " %3d%%", (int)(share * 100));
        return;
    }
    memset(marks, ' ', width);
    memset(marks, '=', full);
    if (full < width)
        marks[full] = '>';
    marks[width] = '\0';
    snprintf(out, cap, " [%s] %3d%%", marks, (int)(share * 100));
}

size_t progress_line(const struct progress_state *s, uint32_t columns, char out[PROGRESS_LINE_MAX])
{
    char text[256], bar[BAR_MAX + 16];
    size_t room = columns < PROGRESS_LINE_MAX ? columns - 1 : PROGRESS_LINE_MAX - 1, n = room + 1;

    for (int detail = WITH_ALL; detail >= WITHOUT_RATES && n > room; detail--) {
        size_t used;
        figures(s, (enum detail)detail, text, sizeof text);
        used = strnlen(s->what, WHAT_MAX) + strlen(text) + BAR_EXTRA;
        scale(s->share, room > used ? room - used : 0, bar, sizeof bar);
        n = (size_t)snprintf(out, PROGRESS_LINE_MAX, "%.*s%s  %s", (int)WHAT_MAX, s->what, bar, text);
    }
    if (n > room) {
        n = room;
        out[n] = '\0';
    }
    return n;
}

/* A program behind the shell's prompt does not write over it. */
static bool is_background(int fd)
{
    pid_t foreground = tcgetpgrp(fd);
    return foreground != -1 && foreground != getpgrp();
}

void progress_draw(struct progress *p, const struct progress_state *s)
{
    char line[PROGRESS_LINE_MAX];

    if (!p->is_shown || is_background(fileno(p->out)))
        return;
    p->columns = columns_of(fileno(p->out)); /* windows change their size */
    progress_line(s, p->columns, line);
    fprintf(p->out, "\r\033[K%s", line);
    fflush(p->out);
    p->is_drawn = true;
}

void progress_clear(struct progress *p)
{
    if (p->is_drawn)
        fputs("\r\033[K", p->out);
    if (p->is_drawn)
        fflush(p->out);
    p->is_drawn = false;
}
