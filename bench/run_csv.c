/* Seconds as CSV. */
#include "bench/run_csv.h"

#include <inttypes.h>
#include <string.h>

#include "needle/err.h"
#include "net/number_text.h"

static void put_name(FILE *out, const char *name)
{
    bool is_formula = name[0] != '\0' && strchr("=+-@", name[0]) != NULL;

    if (!is_formula && strpbrk(name, ",\"") == NULL) {
        fputs(name, out);
        return;
    }
    fputs(is_formula ? "\"'" : "\"", out);
    for (const char *c = name; *c != '\0'; c++)
        fputs(*c == '"' ? "\"\"" : (char[]){*c, '\0'}, out);
    fputc('"', out);
}

static void put_real(FILE *out, double v)
{
    char text[NUMBER_TEXT_MAX];

    if (v >= 0) {
        number_text_double(v, text);
        fputs(text, out);
    }
}

static void put_second(FILE *out, const struct run_phase *p, double end_s, const struct run_second *s)
{
    put_name(out, p->name);
    fprintf(out, ",%.3f,%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", end_s, s->seconds, s->completed, s->failed, s->bytes);
    put_real(out, s->avg_ms);
    fputc(',', out);
    put_real(out, s->max_ms);
    fputc('\n', out);
}

int run_csv_write(FILE *out, const struct run_result *r)
{
    fputs("phase,second,seconds,completed,failed,bytes,avg_ms,max_ms\n", out);
    for (uint32_t i = 0; i < r->phase_count; i++) {
        const struct run_phase *p = r->phases[i];
        double end_s = 0;
        for (size_t k = 0; k < p->series_n; k++) {
            end_s += p->series[k].seconds;
            put_second(out, p, end_s, &p->series[k]);
        }
    }
    return fflush(out) != 0 || ferror(out) ? DFS_EIO : 0;
}
