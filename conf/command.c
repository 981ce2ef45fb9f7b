/* Finding a command by its words, and what was meant by a word that names none. */
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "conf/option.h"

unsigned name_distance(const char *a, const char *b)
{
    unsigned row[OPTION_NAME_MAX + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > OPTION_NAME_MAX || nb > OPTION_NAME_MAX)
        return UINT_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

int command_find(int argc, char *const *argv, int *words)
{
    int found = -1;
    size_t n;

    *words = 0;
    for (int i = 0; argc > 0 && i < CMD_COUNT; i++) {
        const char *name = command_table[i].name;

        n = strcspn(name, " ");
        if (strlen(argv[0]) != n || memcmp(argv[0], name, n) != 0)
            continue;
        if (name[n] == '\0' && found < 0) {
            found = i;
            *words = 1;
        } else if (name[n] == ' ' && argc > 1 && strcmp(argv[1], name + n + 1) == 0) {
            found = i;
            *words = 2;
        }
    }
    return found;
}

/* The words of a name behind those of `of`; NULL when it does not begin with them. */
static const char *behind(const char *name, const char *of)
{
    size_t n = strlen(of);

    if (n == 0)
        return name;
    return strncmp(name, of, n) == 0 && name[n] == ' ' ? name + n + 1 : NULL;
}

const char *command_nearest(const char *of, const char *word)
{
    const char *near = NULL;
    unsigned best = 2 + (unsigned)(strnlen(word, OPTION_NAME_MAX) / 3);

    for (int i = 0; i < CMD_COUNT; i++) {
        const char *name = behind(command_table[i].name, of);
        unsigned d = name != NULL ? name_distance(word, name) : UINT_MAX;

        if (d <= best && name != NULL && d < strlen(name)) {
            near = command_table[i].name;
            best = d - (d > 0);
        }
    }
    return near;
}
