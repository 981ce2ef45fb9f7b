/* The power is cut at a random moment under load, and nothing that was promised may be lost.
 *
 * Each run: three volumes in `group` mode, puts, overwrites and deletes of many keys at once, readers beside them, and a vacuum that
 * goes round the volumes.  At a point given by the seed the simulated disk stops; what it may have kept of the un-synced bytes and
 * names is drawn from the seed (kept, dropped, torn).  The store is opened on that, and each key must be in a state that is allowed:
 *
 *   - what was acknowledged, or seen by a reader, or anything newer that was sent;
 *   - never something older, and never a content that nobody wrote.
 *
 * Then it is written to, closed, opened and looked at once more.  The same runs with a promise broken (no sync, no sync of the
 * folder, published before the flush) have to fail, or this test sees nothing.
 *
 * DFS_CRASH_RUNS and DFS_CRASH_SEED set how many and where to begin; a failure prints its seed. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/simdisk.h"
#include "tests/support/tmpdir.h"
#include "volume/volume.h"

#define VOLUMES 3u
#define READ_ONLY_ONE_IN 50u /* of the volumes that were open at a cut, at most */
#define KEYS 48u /* of each volume */
#define WRITERS 12u
#define READERS 4u
#define MUTATIONS_MAX 1500u
#define CONTENT_MAX 300000u
#define LARGE_MIN 150000u /* written from where it was staged, into blocks asked for ahead */
#define MIDDLE_MAX 40000u
#define STATES_PER_RUN 2
#define WAIT_MAX_MS 10000u

/* What is known of one key.  Versions count up; an odd draw makes one a delete. */
struct key_state {
    uint32_t volume;
    uint64_t key;
    uint32_t sent;  /* newest version that was sent */
    uint32_t floor; /* newest that was acknowledged or seen */
    bool deletes[4096]; /* version -> it is a delete */
    bool busy;
};

struct run {
    uint64_t seed, rng;
    struct simdisk *sim;
    struct engine e;
    pthread_mutex_t lock; /* keys, rng */
    struct key_state keys[VOLUMES * KEYS];
    atomic_bool stop;
    atomic_uint under_way;
    uint32_t vacuums, acks, damaged;
};

struct client {
    struct run *run;
    struct engine_op op;
    struct key_state *key;
    uint32_t version, floor_before;
    char data[CONTENT_MAX];
    bool reads;
};

static uint64_t draw_locked(struct run *r, uint64_t n)
{
    r->rng ^= r->rng << 13;
    r->rng ^= r->rng >> 7;
    r->rng ^= r->rng << 17;
    return (r->rng >> 11) % n;
}

/* ---- contents tell whose they are ---- */

static size_t content_bytes(const struct key_state *k, uint32_t version)
{
    uint64_t h = (k->key * 31 + version) * 0x9e3779b97f4a7c15u;

    if (h >> 57 == 0)
        return LARGE_MIN + (h >> 20) % (CONTENT_MAX - LARGE_MIN);
    return h >> 60 == 0 ? 16 + (h >> 20) % (MIDDLE_MAX - 16) : 16 + (h >> 20) % 2000;
}

static size_t content(const struct key_state *k, uint32_t version, char *out)
{
    size_t n = content_bytes(k, version);

    engine_fill(out, n, k->key << 20 ^ (uint64_t)k->volume << 50 ^ version);
    memcpy(out, &k->key, 8);
    memcpy(out + 8, &version, 4);
    memcpy(out + 12, &k->volume, 4);
    return n;
}

/* The version that a content is of; 0 for none. */
static uint32_t version_of(const struct key_state *k, const char *got, size_t n)
{
    static __thread char want[CONTENT_MAX];
    uint32_t version;

    if (n < 16)
        return 0;
    memcpy(&version, got + 8, 4);
    if (version == 0 || version > k->sent || content(k, version, want) != n || memcmp(want, got, n) != 0)
        return 0;
    return version;
}

static struct fid fid_of(const struct key_state *k)
{
    return (struct fid){k->volume, 0xabcd, k->key};
}

/* ---- the load ---- */

static void next(struct client *c);

static void on_written(struct client *c)
{
    struct run *r = c->run;

    if (c->version == 0)
        return; /* the look-up that it began with wrote nothing, and its key may be another's by now */
    pthread_mutex_lock(&r->lock);
    c->key->busy = false;
    /* Without power nobody hears an answer any more. */
    if (!simdisk_dead(r->sim) && (c->op.rc == 0 || (c->op.rc == DFS_ENOTFOUND && c->key->deletes[c->version]))) {
        if (c->version > c->key->floor)
            c->key->floor = c->version;
        r->acks++;
    }
    pthread_mutex_unlock(&r->lock);
}

/* Seen is promised: what a reader got must not vanish. */
static void on_read(struct client *c)
{
    struct run *r = c->run;
    uint32_t version;

    pthread_mutex_lock(&r->lock);
    if (c->op.rc == 0 && !simdisk_dead(r->sim)) {
        version = version_of(c->key, c->op.got, c->op.got_n);
        CHECK(version >= c->floor_before);
        if (version > c->key->floor)
            c->key->floor = version;
    }
    pthread_mutex_unlock(&r->lock);
    free(c->op.got);
    c->op.got = NULL;
    c->op.got_n = 0;
}

static void on_done(struct engine_op *op)
{
    struct client *c = CONTAINER_OF(op, struct client, op);

    if (c->reads)
        on_read(c);
    else
        on_written(c);
    if (atomic_load(&c->run->stop))
        atomic_fetch_sub(&c->run->under_way, 1);
    else
        next(c);
}

/* A key that nobody else writes at the moment. */
static void pick_locked(struct client *c)
{
    struct run *r = c->run;

    if (c->reads) { /* where something is being written, mostly */
        for (int tries = 0; tries < 16; tries++) {
            c->key = &r->keys[draw_locked(r, VOLUMES * KEYS)];
            if (c->key->busy)
                return;
        }
        return;
    }
    do
        c->key = &r->keys[draw_locked(r, VOLUMES * KEYS)];
    while (c->key->busy || c->key->sent + 1 >= ARRAY_LEN(c->key->deletes));
}

static void next(struct client *c)
{
    struct run *r = c->run;
    struct engine_op *op = &c->op;
    struct loop *loop = op->loop;

    pthread_mutex_lock(&r->lock);
    pick_locked(c);
    memset(&op->write, 0, sizeof op->write);
    memset(&op->read, 0, sizeof op->read);
    op->kind = ENGINE_GET;
    c->floor_before = c->key->floor;
    if (!c->reads) {
        c->key->busy = true;
        c->version = ++c->key->sent;
        c->key->deletes[c->version] = draw_locked(r, 4) == 0;
        op->kind = c->key->deletes[c->version] ? ENGINE_DELETE : ENGINE_PUT;
        op->data = c->data;
        op->n = content(c->key, c->version, c->data);
    }
    op->fid = fid_of(c->key);
    pthread_mutex_unlock(&r->lock);
    loop_post(loop, &op->msg);
}

static void *vacuum_main(void *arg)
{
    struct run *r = arg;

    for (uint32_t i = 0; !atomic_load(&r->stop); i++) {
        uint32_t id = 1 + i % VOLUMES;
        if (store_vacuum_compact(r->e.store, id, 0, NULL, NULL, NULL) == 0 &&
            store_vacuum_commit(r->e.store, id, 0, NULL) == 0)
            r->vacuums++;
    }
    return NULL;
}

/* Runs until the disk has seen so many more changes, and the power is cut in the middle of the last. */
static void load_and_cut(struct run *r, uint64_t mutations, const char *into)
{
    struct client *clients = calloc(WRITERS + READERS, sizeof *clients);
    uint64_t give_up_ms = clock_mono_ms() + WAIT_MAX_MS;
    pthread_t vacuum;

    CHECK(clients != NULL);
    atomic_store(&r->under_way, WRITERS + READERS);
    CHECK(pthread_create(&vacuum, NULL, vacuum_main, r) == 0);
    for (uint32_t i = 0; i < WRITERS + READERS; i++) {
        struct client *c = &clients[i];
        c->run = r;
        c->reads = i >= WRITERS;
        c->op.then = on_done;
        c->op.kind = ENGINE_GET; /* of nothing: only to begin on its loop */
        c->key = &r->keys[0];
        c->op.fid = (struct fid){1, 0, UINT64_MAX};
        c->op.rc = 0;
        engine_start(&r->e, i % 2, &c->op);
    }
    simdisk_crash_after(r->sim, mutations + 1);
    while (!simdisk_dead(r->sim) && clock_mono_ms() < give_up_ms)
        clock_sleep_ms(1);
    simdisk_crash(r->sim, r->seed, SIMDISK_RANDOM, into);
    atomic_store(&r->stop, true);
    while (atomic_load(&r->under_way) > 0)
        clock_sleep_ms(1);
    CHECK(pthread_join(vacuum, NULL) == 0);
    free(clients);
}

/* ---- the judgement ---- */

static bool is_allowed(const struct key_state *k, int rc, uint32_t version)
{
    if (rc == 0)
        return version != 0 && version >= k->floor;
    /* A record that was torn before anyone was told of it, and nothing else of that key. */
    if (rc == DFS_ECORRUPT && (k->floor == 0 || k->deletes[k->floor]))
        return true;
    if (rc != DFS_ENOTFOUND)
        return false;
    if (k->floor == 0)
        return true;
    for (uint32_t v = k->floor; v <= k->sent; v++)
        if (k->deletes[v])
            return true;
    return false;
}

static uint32_t judge(struct run *r, struct engine *e, const char *when, bool say)
{
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < VOLUMES * KEYS; i++) {
        struct key_state *k = &r->keys[i];
        char *got = NULL;
        size_t n = 0;
        int rc = engine_get(e, fid_of(k), &got, &n);
        uint32_t version = rc == 0 ? version_of(k, got, n) : 0;

        free(got);
        if (!is_allowed(k, rc, version)) {
            wrong++;
            if (say)
                print_error("seed %llu, %s: %u,%llu: %s, %zu bytes, version %u (0: nobody's); promised %u (%s), sent %u\n",
                            (unsigned long long)r->seed, when, k->volume, (unsigned long long)k->key, dfs_err_name(rc), n, version,
                            k->floor, k->deletes[k->floor] ? "deleted" : "put", k->sent);
        }
    }
    return wrong;
}

static uint32_t write_more(struct run *r, struct engine *e, bool say)
{
    uint32_t wrong = 0;

    for (uint32_t id = 1; id <= VOLUMES; id++) {
        struct fid fid = {id, 0xabcd, 1000000};
        struct volume *v = store_get(e->store, id);
        int rc = engine_put(e, fid, "after the crash", 15);

        struct volume_info info = {0};

        if (v != NULL)
            volume_info_get(v, &info);
        /* Found damage that it does not repair: nothing is lost, and the master makes another volume. */
        if (rc == DFS_EREADONLY && info.no_write == VOLUME_DAMAGED)
            r->damaged++;
        else if (rc != 0) {
            wrong++;
            if (say)
                print_error("seed %llu: volume %u takes no writes after the crash: %s, state %x, %s\n",
                            (unsigned long long)r->seed, id, dfs_err_name(rc), info.no_write, info.reason);
        }
        volume_unref(v);
    }
    return wrong;
}

static uint32_t open_and_judge(struct run *r, const char *dir, bool say)
{
    struct store_options o;
    struct engine e;
    uint32_t wrong;

    engine_options(&o, dir);
    if (engine_try_open(&e, &o, 1) != 0) {
        print_error("seed %llu: the store does not open\n", (unsigned long long)r->seed);
        return 1;
    }
    wrong = judge(r, &e, "after the crash", say);
    wrong += write_more(r, &e, say);
    engine_close(&e);
    engine_open(&e, &o, 1);
    wrong += judge(r, &e, "opened again", say);
    engine_close(&e);
    return wrong;
}

/* ---- one run ---- */

static void run_init(struct run *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    r->seed = seed;
    r->rng = seed * 0x9e3779b97f4a7c15u + 77;
    pthread_mutex_init(&r->lock, NULL);
    for (uint32_t i = 0; i < VOLUMES * KEYS; i++) {
        r->keys[i].volume = 1 + i / KEYS;
        r->keys[i].key = 1 + i % KEYS;
    }
}

struct totals {
    uint32_t acks, vacuums, damaged;
};

/* How many promises were broken. */
static uint32_t run_once(uint64_t seed, unsigned lies, bool publish_early, bool say, struct totals *t)
{
    struct run *r = malloc(sizeof *r);
    char *base = tmpdir_new("crash"), *root = tmpdir_path(base, "disk");
    struct store_options o;
    uint32_t wrong = 0;

    CHECK(r != NULL && disk_mkdir(root) == 0);
    run_init(r, seed);
    append_publish_early_for_tests = publish_early;
    r->sim = simdisk_new(root);
    simdisk_lie(r->sim, lies);
    simdisk_activate(r->sim);
    if (publish_early) { /* readers need time to look */
        fault_install(simdisk_ops());
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .every = 1, .delay_ms = 2});
    }
    engine_options(&o, root);
    o.size_limit_bytes = 64u << 20;
    engine_open(&r->e, &o, 2);
    for (uint32_t id = 1; id <= VOLUMES; id++)
        CHECK(engine_allocate(&r->e, id) == 0);
    for (int i = 0; i < STATES_PER_RUN; i++) {
        char name[32], *into;
        snprintf(name, sizeof name, "after-%d", i);
        into = tmpdir_path(base, name);
        if (i == 0) {
            load_and_cut(r, draw_locked(r, MUTATIONS_MAX), into);
            engine_close(&r->e);
        } else {
            simdisk_crash(r->sim, seed * 1000 + (uint64_t)i, SIMDISK_RANDOM, into);
        }
        if (i == STATES_PER_RUN - 1) {
            if (publish_early)
                fault_remove();
            simdisk_activate(NULL);
            append_publish_early_for_tests = false;
        }
        free(into);
    }
    for (int i = 0; i < STATES_PER_RUN; i++) {
        char name[32], *into;
        snprintf(name, sizeof name, "after-%d", i);
        into = tmpdir_path(base, name);
        wrong += open_and_judge(r, into, say);
        free(into);
    }
    t->acks += r->acks;
    t->vacuums += r->vacuums;
    t->damaged += r->damaged;
    simdisk_free(r->sim);
    if (wrong > 0 && say)
        print_error("seed %llu: %u promises broken\n", (unsigned long long)seed, wrong);
    free(root);
    tmpdir_free(base);
    pthread_mutex_destroy(&r->lock);
    free(r);
    return wrong;
}

/* ---- tests ---- */

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static void nothing_promised_is_lost(void **state)
{
    uint64_t runs = from_env("DFS_CRASH_RUNS", 200), first = from_env("DFS_CRASH_SEED", 1);
    struct totals t = {0};
    uint32_t wrong = 0;

    (void)state;
    for (uint64_t i = 0; i < runs; i++)
        wrong += run_once(first + i, 0, false, true, &t);
    print_message("%llu cuts from seed %llu on, %u writes acknowledged, %u vacuums committed, %u volumes read-only after it\n",
                  (unsigned long long)runs, (unsigned long long)first, t.acks, t.vacuums, t.damaged);
    assert_int_equal(wrong, 0);
    /* Closing volumes keeps every promise, too: it must not be how they are kept. */
    assert_true((uint64_t)t.damaged * READ_ONLY_ONE_IN <= runs * VOLUMES);
}

/* With that promise broken some run must show it. */
static void must_be_seen(unsigned lies, bool publish_early)
{
    uint64_t runs = from_env("DFS_CRASH_RUNS", 200);
    struct totals t = {0};

    for (uint64_t i = 0; i < runs; i++)
        if (run_once(1 + i, lies, publish_early, false, &t) > 0) {
            print_message("seen in run %llu\n", (unsigned long long)i + 1);
            return;
        }
    fail_msg("%llu runs without that promise, and nothing was lost: the test is blind", (unsigned long long)runs);
}

static void a_missing_sync_is_seen(void **state)
{
    (void)state;
    must_be_seen(SIMDISK_LIE_FDATASYNC, false);
}

static void a_missing_sync_of_the_folder_is_seen(void **state)
{
    (void)state;
    must_be_seen(SIMDISK_LIE_FOLDER_FSYNC, false);
}

static void publishing_before_the_flush_is_seen(void **state)
{
    (void)state;
    must_be_seen(0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_promised_is_lost),
        cmocka_unit_test(a_missing_sync_is_seen),
        cmocka_unit_test(a_missing_sync_of_the_folder_is_seen),
        cmocka_unit_test(publishing_before_the_flush_is_seen),
    };

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
