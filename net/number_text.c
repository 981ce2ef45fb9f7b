/* Numbers as text. */
#include "net/number_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t put_digits(uint64_t v, char *out)
{
    char tmp[NUMBER_TEXT_MAX];
    size_t n = 0;
    do {
        tmp[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    for (size_t i = 0; i < n; i++)
        out[i] = tmp[n - 1 - i];
    out[n] = '\0';
    return n;
}

size_t number_text_u64(uint64_t v, char out[NUMBER_TEXT_MAX])
{
    return put_digits(v, out);
}

size_t number_text_i64(int64_t v, char out[NUMBER_TEXT_MAX])
{
    if (v >= 0)
        return put_digits((uint64_t)v, out);
    out[0] = '-';
    return 1 + put_digits(-(uint64_t)v, out + 1);
}

size_t number_text_double(double v, char out[NUMBER_TEXT_MAX])
{
    if (!isfinite(v)) {
        const char *text = isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf";
        size_t n = strlen(text);
        memcpy(out, text, n + 1);
        return n;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, NUMBER_TEXT_MAX, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            break;
    }
    /* Whatever bytes the locale takes for its decimal point become one point. */
    size_t w = 0;
    for (size_t i = 0; out[i] != '\0'; i++) {
        char c = out[i];
        if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e')
            out[w++] = c;
        else if (w == 0 || out[w - 1] != '.')
            out[w++] = '.';
    }
    out[w] = '\0';
    return w;
}
