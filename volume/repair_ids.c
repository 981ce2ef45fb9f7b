/* No checksum covers the id in a header, none the id in a row.  But whoever overwrites or deletes a file has to know its cookie:
 * where one of the two ids has another record with the very cookie, the record is a version of that file.  Under a wrong id it
 * would be lost, and what it superseded would be served again. */
#include "volume/repair_ids.h"

#include "needle/err.h"

struct claim {
    uint64_t key;
    bool known; /* it has another record */
    bool same;  /* with the same cookie */
    bool here;  /* it has another row for this place */
};

struct search {
    struct claim by_row, by_record;
    const struct idx_row *row; /* the one in question */
    uint64_t pos;
    uint32_t cookie;
};

static int look_at(struct load *l, const struct idx_row *row, void *arg)
{
    struct search *s = arg;
    struct claim *c = row->key == s->by_row.key ? &s->by_row : &s->by_record;
    uint64_t pos = needle_offset_bytes(row->offset);
    struct needle_header h;
    int rc;

    if (row->key != c->key || pos == 0)
        return 0;
    if (pos == s->pos) {
        c->here |= row != s->row;
        return 0;
    }
    rc = dat_scan_header(&l->scan, pos, &h);
    if (rc != 0)
        return rc == DFS_ESHORT || rc == DFS_EIO ? 0 : rc;
    if (h.key != c->key)
        return 0;
    c->known = true;
    c->same |= h.cookie == s->cookie;
    return 0;
}

/* Rows behind the checkpoint are in memory, those in front of it in the file. */
static int look_through(struct repair_rows *r, struct search *s)
{
    struct load *l = r->load;
    int rc = l->have_ckp ? load_each_row(l, 0, l->ckp.idx_bytes, look_at, s) : 0;

    for (uint32_t i = 0; i < r->count && rc == 0; i++)
        if (repair_row_placed(&r->rows[i]))
            rc = look_at(l, &r->rows[i].row, s);
    return rc;
}

static enum repair_owner judge(const struct search *s)
{
    bool row;

    if (s->by_record.here)
        return OWNER_OTHER_ROW;
    if (s->by_row.same || s->by_record.same)
        row = s->by_row.same;
    else if (idx_row_deletes(s->row)) /* nobody deletes what was never there; not every tombstone has the cookie */
        row = s->by_row.known;
    else /* a version of a file whose cookie is another one it is not */
        row = s->by_record.known;
    return row ? OWNER_ROW : OWNER_RECORD;
}

int repair_owner_of(struct repair_rows *r, const struct repair_row *row, const struct needle_header *h, enum repair_owner *out)
{
    struct search s = {
        .by_row = {.key = row->row.key},
        .by_record = {.key = h->key},
        .row = &row->row,
        .pos = repair_row_pos(row),
        .cookie = h->cookie,
    };
    int rc;

    *out = OWNER_RECORD;
    if (row->row.key == 0 || r->owner_searches >= REPAIR_OWNER_SEARCHES_MAX)
        return 0;
    r->owner_searches++;
    rc = look_through(r, &s);
    if (rc == 0)
        *out = judge(&s);
    return rc;
}
