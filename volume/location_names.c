/* Names of files in a data folder. */
#include "volume/location_names.h"

#include <inttypes.h>
#include <stdio.h>

#include "needle/err.h"
#include "needle/fid.h"
#include "volume/volume.h"

static bool name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

bool collection_name_valid(struct bytes name)
{
    if (name.n > VOLUME_COLLECTION_MAX || bytes_eq(name, BYTES_LIT(".")) || bytes_eq(name, BYTES_LIT("..")))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!name_byte(name.p[i]))
            return false;
    return true;
}

int volume_base_parse(struct bytes base, struct bytes *collection, uint32_t *id)
{
    size_t split = base.n;
    struct bytes digits = base, name = BYTES_NONE;
    uint32_t parsed;
    char again[16];
    int n;

    while (split > 0 && base.p[split - 1] != '_')
        split--;
    if (split > 0) {
        name = bytes_of(base.p, split - 1);
        digits = bytes_of(base.p + split, base.n - split);
        if (name.n == 0)
            return DFS_EINVAL; /* "_7": a collection without a name is written without the "_" */
    }
    if (!collection_name_valid(name) || volume_id_parse(digits, &parsed) != 0)
        return DFS_EINVAL;
    n = snprintf(again, sizeof again, "%" PRIu32, parsed);
    if (!bytes_eq(bytes_of(again, (size_t)n), digits))
        return DFS_EINVAL;
    *collection = name;
    *id = parsed;
    return 0;
}

bool name_strip_suffix(struct bytes name, const char *suffix, struct bytes *base)
{
    size_t n = strlen(suffix);

    if (name.n <= n || memcmp(name.p + name.n - n, suffix, n) != 0)
        return false;
    *base = bytes_of(name.p, name.n - n);
    return true;
}
