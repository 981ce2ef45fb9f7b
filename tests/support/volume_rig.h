/* Volumes made by hand for tests of the storage engine: records and rows in memory, put into a folder in whatever state a test
 * wants; a store opened on that folder; a look at one needle without HTTP.  Aborts on failure of its own calls.  One thread. */
#ifndef DFS_TESTS_SUPPORT_VOLUME_RIG_H
#define DFS_TESTS_SUPPORT_VOLUME_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/idx.h"
#include "volume/store.h"
#include "volume/volume.h"

struct rig_volume {
    uint8_t version;
    unsigned width;
    char *dat;
    size_t dat_bytes, dat_cap;
    struct idx_row *rows;
    uint32_t count, cap;
    uint64_t next_ns;
};

/* A superblock and nothing else. */
void vrig_volume_init(struct rig_volume *b, uint8_t version, unsigned width);
void vrig_volume_release(struct rig_volume *b);
/* Each returns the record's position and adds a row. */
uint64_t vrig_put(struct rig_volume *b, uint64_t key, uint32_t cookie, const void *data, size_t n);
/* n bytes that follow from key and n: see vrig_fill(). */
uint64_t vrig_put_n(struct rig_volume *b, uint64_t key, size_t n);
uint64_t vrig_delete(struct rig_volume *b, uint64_t key, uint32_t cookie, uint32_t checksum);
void vrig_drop_row(struct rig_volume *b); /* the last one */
void vrig_add_row(struct rig_volume *b, uint64_t key, uint64_t pos, uint32_t size);
void vrig_append(struct rig_volume *b, const void *bytes, size_t n); /* to the .dat */
void vrig_sort_rows(struct rig_volume *b, bool by_key);

#define RIG_COOKIE 0xa1b2c3d4u
void vrig_fill(uint64_t key, void *out, size_t n);
/* "<dir>/<base>.dat", ".idx" and, unless !with_vif, ".vif". */
void vrig_write(const struct rig_volume *b, const char *dir, const char *base, bool with_vif);

/* Files. */
void vrig_write_file(const char *dir, const char *name, const void *p, size_t n);
char *vrig_read_file(const char *dir, const char *name, size_t *n); /* malloc'd; NULL = none */
bool vrig_exists(const char *dir, const char *name);
uint64_t vrig_file_bytes(const char *dir, const char *name);
void vrig_hash(const char *dir, const char *name, unsigned char out[32]);
void vrig_copy_folder(const char *from, const char *to); /* plain files */
void vrig_truncate(const char *dir, const char *name, uint64_t n);
void vrig_overwrite(const char *dir, const char *name, uint64_t pos, const void *p, size_t n);

/* A store on one folder, all loaded. */
struct store *vrig_open(const char *dir);
struct store *vrig_open_kind(const char *dir, enum needle_map_kind kind);
void vrig_close(struct store *s);

/* What a GET would meet: 0, DFS_ENOVOLUME, DFS_ENOTFOUND, DFS_ECOOKIE, DFS_ECORRUPT, DFS_EUNAVAILABLE (not open).  *data is
 * malloc'd when not NULL. */
int vrig_get(struct store *s, uint32_t volume_id, uint64_t key, uint32_t cookie, char **data, size_t *n);
/* Whether the needle is there with the content of vrig_put_n(). */
bool vrig_holds(struct store *s, uint32_t volume_id, uint64_t key, size_t n);
void vrig_info(struct store *s, uint32_t volume_id, struct volume_info *out);
/* Do the rows of the .idx tile the .dat exactly, in offset order? */
bool vrig_tiles(const char *dir, const char *base, uint8_t version, unsigned width);

#endif
