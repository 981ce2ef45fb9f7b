/* Dates as HTTP writes them.  Own calendar arithmetic: neither locale nor time zone of the machine may change an answer. */
#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_util.h"

/* 9999-12-31 23:59:59, the last second that the format can hold. */
#define HTTP_DATE_MAX_S UINT64_C(253402300799)

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const long_day_names[7] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* Days since 1970-01-01 of a civil date, counting years from March so that the leap day is the last of its year. */
static int64_t days_from_civil(int64_t y, unsigned m, unsigned d)
{
    y -= m <= 2;
    int64_t era = y / 400; /* y >= 1969 here */
    unsigned yoe = (unsigned)(y - era * 400);
    unsigned doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
    unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + (int64_t)doe - 719468;
}

static void civil_from_days(uint64_t days, unsigned *y, unsigned *m, unsigned *d)
{
    uint64_t z = days + 719468;
    uint64_t era = z / 146097;
    unsigned doe = (unsigned)(z - era * 146097);
    unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    unsigned mp = (5 * doy + 2) / 153;
    *d = doy - (153 * mp + 2) / 5 + 1;
    *m = mp < 10 ? mp + 3 : mp - 9;
    *y = (unsigned)(yoe + era * 400) + (*m <= 2);
}

static char *put2(char *p, unsigned v)
{
    *p++ = (char)('0' + v / 10 % 10);
    *p++ = (char)('0' + v % 10);
    return p;
}

void http_date_format(uint64_t unix_s, char out[HTTP_DATE_BYTES + 1])
{
    unsigned y, m, d;
    if (unix_s > HTTP_DATE_MAX_S)
        unix_s = HTTP_DATE_MAX_S;
    uint64_t days = unix_s / 86400;
    unsigned sec = (unsigned)(unix_s % 86400);
    civil_from_days(days, &y, &m, &d);

    char *p = out;
    memcpy(p, day_names[(days + 4) % 7], 3);
    memcpy(p + 3, ", ", 2);
    p = put2(p + 5, d);
    *p++ = ' ';
    memcpy(p, month_names[m - 1], 3);
    p[3] = ' ';
    p = put2(p + 4, y / 100);
    p = put2(p, y % 100);
    *p++ = ' ';
    p = put2(p, sec / 3600);
    *p++ = ':';
    p = put2(p, sec / 60 % 60);
    *p++ = ':';
    p = put2(p, sec % 60);
    memcpy(p, " GMT", 5);
}

/* ---- parsing: each take_* moves the view on, or fails ---- */

static bool take_text(struct bytes *in, const char *s)
{
    size_t n = strlen(s);
    if (in->n < n || memcmp(in->p, s, n) != 0)
        return false;
    in->p += n;
    in->n -= n;
    return true;
}

static bool take_digits(struct bytes *in, size_t n, unsigned *out)
{
    unsigned v = 0;
    if (in->n < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!ascii_is_digit(in->p[i]))
            return false;
        v = v * 10 + (unsigned)(in->p[i] - '0');
    }
    in->p += n;
    in->n -= n;
    *out = v;
    return true;
}

static bool take_month(struct bytes *in, unsigned *m)
{
    for (unsigned i = 0; i < 12; i++)
        if (take_text(in, month_names[i])) {
            *m = i + 1;
            return true;
        }
    return false;
}

static bool take_clock(struct bytes *in, unsigned *sec)
{
    unsigned h, m, s;
    if (!take_digits(in, 2, &h) || !take_text(in, ":") || !take_digits(in, 2, &m) || !take_text(in, ":") ||
        !take_digits(in, 2, &s))
        return false;
    if (h > 23 || m > 59 || s > 60) /* 60: a leap second, the same moment as the next one for us */
        return false;
    *sec = h * 3600 + m * 60 + s;
    return true;
}

static bool take_day_name(struct bytes *in, bool *is_long)
{
    for (unsigned i = 0; i < 7; i++) {
        if (take_text(in, long_day_names[i])) {
            *is_long = true;
            return true;
        }
    }
    *is_long = false;
    for (unsigned i = 0; i < 7; i++)
        if (take_text(in, day_names[i]))
            return true;
    return false;
}

struct date {
    unsigned y, m, d, sec;
};

/* "06 Nov 1994 08:49:37 GMT" */
static bool take_fixdate(struct bytes *in, struct date *t)
{
    return take_digits(in, 2, &t->d) && take_text(in, " ") && take_month(in, &t->m) && take_text(in, " ") &&
           take_digits(in, 4, &t->y) && take_text(in, " ") && take_clock(in, &t->sec) && take_text(in, " GMT");
}

/* "06-Nov-94 08:49:37 GMT"; there was no HTTP before 1970, so two digits below 70 are of this century. */
static bool take_rfc850(struct bytes *in, struct date *t)
{
    if (!take_digits(in, 2, &t->d) || !take_text(in, "-") || !take_month(in, &t->m) || !take_text(in, "-") ||
        !take_digits(in, 2, &t->y) || !take_text(in, " ") || !take_clock(in, &t->sec) || !take_text(in, " GMT"))
        return false;
    t->y += t->y < 70 ? 2000 : 1900;
    return true;
}

/* "Nov  6 08:49:37 1994" */
static bool take_asctime(struct bytes *in, struct date *t)
{
    if (!take_month(in, &t->m) || !take_text(in, " "))
        return false;
    if (!(take_text(in, " ") ? take_digits(in, 1, &t->d) : take_digits(in, 2, &t->d)))
        return false;
    return take_text(in, " ") && take_clock(in, &t->sec) && take_text(in, " ") && take_digits(in, 4, &t->y);
}

static unsigned month_days(unsigned y, unsigned m)
{
    static const unsigned char days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return days[m - 1] + (m == 2 && leap);
}

int http_date_parse(struct bytes text, uint64_t *unix_s)
{
    struct bytes in = bytes_trim(text);
    struct date t;
    bool is_long, ok;

    if (!take_day_name(&in, &is_long))
        return DFS_EINVAL;
    if (is_long)
        ok = take_text(&in, ", ") && take_rfc850(&in, &t);
    else if (take_text(&in, ", "))
        ok = take_fixdate(&in, &t);
    else
        ok = take_text(&in, " ") && take_asctime(&in, &t);
    if (!ok || in.n != 0 || t.y < 1970 || t.d < 1 || t.d > month_days(t.y, t.m))
        return DFS_EINVAL;
    *unix_s = (uint64_t)days_from_civil(t.y, t.m, t.d) * 86400 + t.sec;
    return 0;
}
