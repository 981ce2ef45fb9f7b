/* Texts from a URL: file ids in all forms, TTLs, replica placements.  What parses formats to what parses to the same. */
#include "needle/check.h"
#include "needle/fid.h"
#include "needle/replica_placement.h"
#include "needle/ttl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fid(const struct fid *fid)
{
    char text[FID_TEXT_MAX];
    struct fid again;
    size_t n = fid_format(fid, text);

    CHECK(n < FID_TEXT_MAX && fid_parse(bytes_of(text, n), &again) == 0);
    CHECK(again.volume_id == fid->volume_id && again.key == fid->key && cookie_eq(again.cookie, fid->cookie));
}

static void check_inside(struct bytes part, struct bytes whole)
{
    CHECK(part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size);
    struct replica_placement rp, rp_again;
    char ttl_text[TTL_TEXT_MAX], rp_text[4];
    struct ttl ttl, ttl_again;
    struct fid_path path;
    uint32_t volume_id;
    struct fid fid;

    if (fid_parse(text, &fid) == 0)
        check_fid(&fid);
    if (fid_parse_path(text, &path) == 0) {
        check_fid(&path.fid);
        check_inside(path.ext, text);
        check_inside(path.filename, text);
        CHECK(path.ext.n == 0 || path.ext.p[0] == '.');
    }
    if (volume_id_parse(text, &volume_id) == 0)
        CHECK(volume_id != 0);
    if (ttl_parse(text, &ttl) == 0) {
        size_t n = ttl_format(ttl, ttl_text);
        CHECK(ttl_is_none(ttl) == (size == 0) && ttl_parse(bytes_of(ttl_text, n), &ttl_again) == 0);
        CHECK(ttl_to_u32(ttl) == ttl_to_u32(ttl_again));
    }
    if (replica_placement_parse(text, &rp) == 0) {
        replica_placement_format(rp, rp_text);
        CHECK(replica_placement_parse(bytes_str(rp_text), &rp_again) == 0);
        CHECK(replica_placement_to_byte(rp) == replica_placement_to_byte(rp_again));
    }
    return 0;
}
