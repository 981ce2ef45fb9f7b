/* Reports of the benchmark, as `dfs benchmark plot` reads them: whatever is in the file, it is a report or an error with one line;
 * what was read can be written, read again to the same bytes, and drawn. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plot.h"
#include "bench/run_csv.h"
#include "bench/run_json.h"
#include "needle/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *written(struct run_result *r, size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);

    CHECK(f != NULL && run_json_write(f, r) == 0 && fclose(f) == 0);
    return text;
}

static void draw(struct run_result *r)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    CHECK(f != NULL && plot_write(f, &r, 1) == 0 && run_csv_write(f, r) == 0 && fclose(f) == 0);
    /* A text of the report has no bare quotation mark in the picture, so these would be numbers of ours. */
    CHECK(strncmp(text, "<svg ", 5) == 0 && strstr(text, "=\"nan") == NULL && strstr(text, "=\"-nan") == NULL);
    CHECK(strstr(text, "=\"Mnan") == NULL && strstr(text, "=\"inf") == NULL && strstr(text, "=\"-inf") == NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[RUN_JSON_ERROR_MAX] = "", *first, *second;
    struct run_result *r = malloc(sizeof *r);
    size_t n, m;

    if (size > 1u << 18) {
        free(r);
        return 0;
    }
    CHECK(r != NULL);
    if (run_json_parse(bytes_of(data, size), r, error) != 0) {
        CHECK(error[0] != '\0' && strchr(error, '\n') == NULL && r->phase_count == 0);
    } else {
        first = written(r, &n);
        draw(r);
        run_result_release(r);
        CHECK(run_json_parse(bytes_of(first, n), r, error) == 0);
        second = written(r, &m);
        CHECK(n == m && memcmp(first, second, n) == 0);
        free(first);
        free(second);
    }
    run_result_release(r);
    free(r);
    return 0;
}
