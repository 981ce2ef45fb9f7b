/* Rows of the option table that fill the same field must agree on its default: defaults are set for all rows, whatever the
 * command, and the last one would win. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/option.h"

static bool has_field(const struct option *o)
{
    return o->type != OPTION_IGNORED && o->type != OPTION_REFUSED;
}

static const char *default_of(const struct option *o)
{
    return o->dflt != NULL ? o->dflt : "";
}

static void test_shared_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < option_count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct option *a = &option_table[i], *b = &option_table[j];
            if (!has_field(a) || !has_field(b) || a->offset != b->offset)
                continue;
            if (strcmp(default_of(a), default_of(b)) != 0)
                fail_msg("-%s and -%s fill one field with '%s' and '%s'", b->name, a->name, default_of(b), default_of(a));
            assert_int_equal(a->type, b->type);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
