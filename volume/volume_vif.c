/* Read and write the volume info file. */
#include "volume/volume_vif.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"
#include "volume/disk.h"

void volume_vif_init(struct volume_vif *vif)
{
    *vif = (struct volume_vif){.present = false};
}

/* ---- read ---- */

/* A number, or a number in a text; absent and null are 0. */
static int get_u64(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);

    if (v == NULL || json_is_null(v)) {
        *out = 0;
        return 0;
    }
    if (json_is_integer(v)) {
        if (json_integer_value(v) < 0)
            return DFS_ECORRUPT;
        *out = (uint64_t)json_integer_value(v);
        return 0;
    }
    if (json_is_string(v)) {
        const char *s = json_string_value(v);
        char *end;

        if (s[0] < '0' || s[0] > '9')
            return DFS_ECORRUPT;
        *out = strtoull(s, &end, 10);
        return *end == '\0' ? 0 : DFS_ECORRUPT;
    }
    return DFS_ECORRUPT;
}

static int get_bool(const json_t *o, const char *key, bool *out)
{
    const json_t *v = json_object_get(o, key);

    if (v != NULL && !json_is_null(v) && !json_is_boolean(v))
        return DFS_ECORRUPT;
    *out = json_is_true(v);
    return 0;
}

static int get_replication(const json_t *o, char out[8])
{
    const json_t *v = json_object_get(o, "replication");

    out[0] = '\0';
    if (v == NULL || json_is_null(v))
        return 0;
    if (!json_is_string(v) || json_string_length(v) > 7)
        return DFS_ECORRUPT;
    memcpy(out, json_string_value(v), json_string_length(v) + 1);
    return 0;
}

static int vif_of_object(const json_t *o, struct volume_vif *vif)
{
    uint64_t version, width;
    int rc;

    if ((rc = get_u64(o, "version", &version)) != 0 || (rc = get_u64(o, "bytesOffset", &width)) != 0 ||
        (rc = get_replication(o, vif->replication)) != 0 ||
        (rc = get_u64(o, "datFileSize", &vif->dat_file_bytes)) != 0 ||
        (rc = get_u64(o, "expireAtSec", &vif->expire_at_s)) != 0 ||
        (rc = get_bool(o, "readOnly", &vif->read_only)) != 0 ||
        (rc = get_bool(o, "readOnlyCanDelete", &vif->read_only_can_delete)) != 0)
        return rc;
    if (version > UINT8_MAX || (width != 0 && width != 4 && width != 5))
        return DFS_ECORRUPT;
    vif->version = (uint8_t)version;
    vif->offset_width = (unsigned)width;
    vif->remote = json_array_size(json_object_get(o, "files")) > 0;
    vif->erasure_coded = json_is_object(json_object_get(o, "ecShardConfig"));
    vif->present = true;
    return 0;
}

int volume_vif_parse(struct bytes text, struct volume_vif *out)
{
    struct volume_vif vif;
    json_t *o;
    int rc;

    volume_vif_init(&vif);
    o = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
    rc = json_is_object(o) ? vif_of_object(o, &vif) : DFS_ECORRUPT;
    json_decref(o);
    if (rc == 0)
        *out = vif;
    return rc;
}

int volume_vif_read(const char *path, struct volume_vif *out)
{
    char *text = NULL;
    size_t n = 0;
    int rc = disk_read_file(path, VOLUME_VIF_BYTES_MAX, &text, &n);

    if (rc == DFS_ENOTFOUND || (rc == 0 && n == 0)) {
        volume_vif_init(out);
        rc = 0;
    } else if (rc == 0) {
        rc = volume_vif_parse(bytes_of(text, n), out);
    }
    free(text);
    return rc;
}

/* ---- write ---- */

/* What stands there already, so that keys of others survive; an empty object when that cannot be read. */
static json_t *existing_object(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    json_t *o = NULL;

    if (disk_read_file(path, VOLUME_VIF_BYTES_MAX, &text, &n) == 0)
        o = json_loadb(text, n, 0, NULL);
    free(text);
    if (json_is_object(o))
        return o;
    json_decref(o);
    return json_object();
}

static int set_u64_text(json_t *o, const char *key, uint64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, v);
    return json_object_set_new(o, key, json_string(text));
}

static int set_all(json_t *o, const struct volume_vif *vif)
{
    int bad = 0;

    if (json_object_get(o, "files") == NULL)
        bad |= json_object_set_new(o, "files", json_array());
    bad |= json_object_set_new(o, "version", json_integer(vif->version));
    bad |= json_object_set_new(o, "replication", json_string(vif->replication));
    bad |= json_object_set_new(o, "bytesOffset", json_integer((json_int_t)vif->offset_width));
    bad |= set_u64_text(o, "datFileSize", vif->dat_file_bytes);
    bad |= set_u64_text(o, "expireAtSec", vif->expire_at_s);
    bad |= json_object_set_new(o, "readOnly", json_boolean(vif->read_only));
    if (json_object_get(o, "ecShardConfig") == NULL)
        bad |= json_object_set_new(o, "ecShardConfig", json_null());
    bad |= json_object_set_new(o, "readOnlyCanDelete", json_boolean(vif->read_only_can_delete));
    return bad == 0 ? 0 : DFS_ENOMEM;
}

int volume_vif_write(const char *path, const struct volume_vif *vif)
{
    json_t *o = existing_object(path);
    char *text = NULL;
    int rc;

    if (o == NULL)
        return DFS_ENOMEM;
    rc = set_all(o, vif);
    if (rc == 0) {
        text = json_dumps(o, JSON_INDENT(2));
        rc = text == NULL ? DFS_ENOMEM : disk_replace_file(path, text, strlen(text));
    }
    free(text);
    json_decref(o);
    return rc;
}
