/* A store on a folder with loops of its own, and puts, gets and deletes that a test can wait for.
 *
 * Calls are made from the test's thread; what they start runs on the engine's loops as it does in a server.  Aborts on failures of
 * its own making; what the engine answers is the test's to judge. */
#ifndef DFS_TESTS_SUPPORT_ENGINE_H
#define DFS_TESTS_SUPPORT_ENGINE_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "needle/fid.h"
#include "net/loop.h"
#include "volume/needle_io.h"
#include "volume/stage.h"
#include "volume/store.h"

#define ENGINE_LOOPS_MAX 4u

struct engine {
    struct store *store;
    struct loop *loops[ENGINE_LOOPS_MAX];
    uint32_t loop_count;
    const char *dirs[STORE_LOCATIONS_MAX];
};

/* Options for a test: one folder, small pools, no free-space mark, `group`. */
void engine_options(struct store_options *o, const char *dir);
/* Opens, loads all volumes, starts the loops.  engine_open() aborts where engine_try_open() returns a code. */
int engine_try_open(struct engine *e, const struct store_options *o, uint32_t loop_count);
void engine_open(struct engine *e, const struct store_options *o, uint32_t loop_count);
/* Stops cleanly: no operation may be under way. */
void engine_close(struct engine *e);
/* A volume of the newest version. */
int engine_allocate(struct engine *e, uint32_t volume_id);

/* ---- operations ---- */
enum engine_kind { ENGINE_PUT, ENGINE_DELETE, ENGINE_GET };

struct engine_op {
    /* in; zero the rest */
    struct engine *engine;
    struct loop *loop;
    enum engine_kind kind;
    struct fid fid;
    const char *data; /* PUT; borrowed until done */
    size_t n;
    struct needle_write write; /* PUT, DELETE: meta, durability, append_at_ns and so on may be set */
    struct needle_read read;   /* GET: meta_only and so on may be set */
    void (*then)(struct engine_op *op); /* loop thread, instead of engine_wait() */
    void *arg;

    /* out */
    int rc;
    char *got; /* GET: malloc'd by engine_op, given back by engine_release() */
    size_t got_n;
    bool by_file; /* GET: some pieces were file ranges */
    uint8_t version;
    uint8_t flags;
    uint64_t append_at_ns;
    uint32_t data_crc;
    char name[256], mime[256];

    /* private */
    struct loop_msg msg;
    struct stage *stage;
    size_t staged;
    sem_t done;
};

/* loop_index picks the loop. */
void engine_start(struct engine *e, uint32_t loop_index, struct engine_op *op);
int engine_wait(struct engine_op *op); /* its rc */
void engine_release(struct engine_op *op);

/* ---- shorthands: start, wait, release ---- */
int engine_put(struct engine *e, struct fid fid, const char *data, size_t n);
int engine_delete(struct engine *e, struct fid fid);
/* *out is malloc'd. */
int engine_get(struct engine *e, struct fid fid, char **out, size_t *n);
/* 0 when the content is exactly that, DFS_ESTALE when it is another one, else what the read said. */
int engine_check(struct engine *e, struct fid fid, const char *data, size_t n);

/* Bytes that depend on the seed alone. */
void engine_fill(char *out, size_t n, uint64_t seed);

#endif
