/* Lookups. */
#include "master/lookup.h"

#include "master/master.h"
#include "needle/err.h"
#include "needle/fid.h"

int lookup_volume(struct master_server *m, struct bytes text, struct bytes collection, uint32_t *volume_id,
                  struct topo_volume **out)
{
    const char *comma = text.n != 0 ? memchr(text.p, ',', text.n) : NULL;
    struct topo_volume *v;

    m->counts[COUNT_LOOKUP]++;
    if (comma != NULL)
        text.n = (size_t)(comma - text.p);
    if (volume_id_parse(text, volume_id) != 0) {
        m->counts[COUNT_LOOKUP_FAILED]++;
        return DFS_EINVAL;
    }
    v = topology_find(&m->topology, *volume_id);
    if (v == NULL || (collection.n != 0 && !bytes_eq(collection, bytes_str(v->layout->collection)))) {
        m->counts[COUNT_LOOKUP_FAILED]++;
        return DFS_ENOTFOUND;
    }
    *out = v;
    return 0;
}
