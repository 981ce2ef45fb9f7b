/* main for a fuzz target without libFuzzer: runs each file that is named, or each file of a folder that is named, once.
 * So a corpus can be run by any compiler, and a crash be looked at under gdb.  Exit 2: something could not be read. */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096
#define INPUT_MAX (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned ran, failed;

static int complain(const char *path)
{
    fprintf(stderr, "cannot read '%s': %s\n", path, strerror(errno));
    failed++;
    return -1;
}

/* The copy handed to the target ends where its memory does. */
static int run_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *p;

    if (f == NULL)
        return complain(path);
    p = malloc(size > 0 ? size : 1);
    if (p == NULL || fread(p, 1, size, f) != size) {
        complain(path);
    } else {
        LLVMFuzzerTestOneInput(p, size);
        ran++;
    }
    free(p);
    return fclose(f);
}

static int run_path(const char *path, int depth)
{
    char child[PATH_BYTES];
    struct dirent *e;
    struct stat st;
    DIR *d;

    if (stat(path, &st) == -1)
        return complain(path);
    if (S_ISREG(st.st_mode))
        return st.st_size <= INPUT_MAX ? run_file(path, (size_t)st.st_size) : 0;
    if (!S_ISDIR(st.st_mode) || depth == 0)
        return 0;
    d = opendir(path);
    if (d == NULL)
        return complain(path);
    while ((e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' && snprintf(child, sizeof child, "%s/%s", path, e->d_name) < (int)sizeof child)
            run_path(child, depth - 1);
    return closedir(d);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_path(argv[i], 2);
    printf("%s: %u inputs\n", argv[0], ran);
    return failed > 0 || ran == 0 ? 2 : 0;
}
