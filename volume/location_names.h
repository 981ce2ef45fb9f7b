/* Names of files in a data folder: "7.dat", "photos_7.dat".  Pure; any thread. */
#ifndef DFS_VOLUME_LOCATION_NAMES_H
#define DFS_VOLUME_LOCATION_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"

/* The one check of names that become part of a path: letters, digits, "_", "-", ".", but not "." or ".." and nothing longer than
 * VOLUME_COLLECTION_MAX.  Empty is fine: the collection without a name. */
bool collection_name_valid(struct bytes name);

/* "photos_7" -> collection "photos", id 7 (split at the last "_"); "7" -> "", 7.  Only the spelling that we would write
 * ourselves counts: no leading zeros.  DFS_EINVAL. */
int volume_base_parse(struct bytes base, struct bytes *collection, uint32_t *id);

/* Whether name ends in suffix; *base is what stands in front. */
bool name_strip_suffix(struct bytes name, const char *suffix, struct bytes *base);

#endif
