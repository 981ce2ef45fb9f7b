/* Keys and volume ids, persisted ahead of use. */
#include "master/sequencer.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "master/state_file.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"

struct state {
    uint64_t key_ceiling; /* keys below it may be in use */
    uint32_t max_volume_id;
    uint32_t servers; /* volume servers that were up at last */
};

struct sequencer {
    struct loop *loop;
    struct work_pool *pool;
    char dir[PATH_MAX], path[PATH_MAX];
    char cluster_id[SEQUENCER_ID_BYTES + 1];
    int lock_fd;

    uint64_t next_key;
    struct state wanted, written, writing;
    bool busy; /* `work` is under way, with a copy of `writing` */
    bool stopped;
    bool far_told;
    struct work work;
    int work_rc;
    /* for the next write; for the one under way; whose write has ended, being called */
    struct sequencer_waiter *waiting, *in_write, *answered;
    char trouble[SEQUENCER_TROUBLE_MAX];
    int failed_rc;         /* of the last write; 0 = it went well */
    uint64_t failed_ns;
};

static bool state_covers(const struct state *have, const struct state *want)
{
    return have->key_ceiling >= want->key_ceiling && have->max_volume_id >= want->max_volume_id &&
           have->servers == want->servers;
}

static int write_state(struct sequencer *s, const struct state *st)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "{\"format\": 1, \"cluster_id\": \"%s\", \"key_ceiling\": \"%" PRIu64 "\", \"max_volume_id\": %" PRIu32
                     ", \"servers\": %" PRIu32 "}\n",
                     s->cluster_id, st->key_ceiling, st->max_volume_id, st->servers);

    return state_file_replace(s->dir, s->path, text, (size_t)n);
}

static void run_write(struct work *w)
{
    struct sequencer *s = CONTAINER_OF(w, struct sequencer, work);

    s->work_rc = write_state(s, &s->writing);
}

static void start_write(struct sequencer *s)
{
    if (s->busy || s->stopped || (s->waiting == NULL && state_covers(&s->written, &s->wanted)))
        return;
    s->busy = true;
    s->writing = s->wanted;
    s->in_write = s->waiting;
    s->waiting = NULL;
    work_submit(s->pool, &s->work);
}

static void append(struct sequencer_waiter **list, struct sequencer_waiter *w)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = w;
}

static void answer_all(struct sequencer *s, struct sequencer_waiter *list, int rc)
{
    struct sequencer_waiter *w;

    append(&s->answered, list);
    while ((w = s->answered) != NULL) {
        s->answered = w->next;
        w->fn(w, rc);
    }
}

/* The end of a write, in what others ask for. */
static void note_write(struct sequencer *s, const struct state *st, int rc)
{
    s->failed_rc = rc;
    if (rc == 0) {
        s->written = *st;
        s->trouble[0] = '\0';
        return;
    }
    /* Nothing beyond `written` is used, so the next demand simply tries again. */
    s->failed_ns = clock_mono_ns();
    snprintf(s->trouble, sizeof s->trouble, "cannot write the state '%.*s': %s", SEQUENCER_TROUBLE_MAX - 96, s->path,
             dfs_err_text(rc));
    log_error("%s", s->trouble);
}

static bool failed_just_now(const struct sequencer *s)
{
    return s->failed_rc != 0 && clock_mono_ns() - s->failed_ns < SEQUENCER_RETRY_MS * 1000000ull;
}

static void on_written(struct work *w)
{
    struct sequencer *s = CONTAINER_OF(w, struct sequencer, work);
    struct sequencer_waiter *list = s->in_write;
    int rc = s->work_rc;

    s->busy = false;
    s->in_write = NULL;
    note_write(s, &s->writing, rc);
    answer_all(s, list, rc);
    /* Whoever began to wait while a write failed gets a try of its own. */
    if (rc == 0 || s->waiting != NULL)
        start_write(s);
}

static void make_cluster_id(char out[SEQUENCER_ID_BYTES + 1])
{
    uint8_t b[16];

    rand_bytes(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(out, SEQUENCER_ID_BYTES + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static int parse_state(struct sequencer *s, const char *text)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *id, *ceiling;
    json_int_t format, volume, servers;
    char *end;
    int rc = DFS_ECORRUPT;

    format = json_integer_value(json_object_get(root, "format"));
    id = json_string_value(json_object_get(root, "cluster_id"));
    ceiling = json_string_value(json_object_get(root, "key_ceiling"));
    volume = json_integer_value(json_object_get(root, "max_volume_id"));
    servers = json_integer_value(json_object_get(root, "servers"));
    if (format != 1 || id == NULL || strlen(id) != SEQUENCER_ID_BYTES || ceiling == NULL || ceiling[0] < '0' ||
        ceiling[0] > '9' || volume < 0 || volume > UINT32_MAX)
        goto out;
    s->written.key_ceiling = strtoull(ceiling, &end, 10);
    if (*end != '\0' || s->written.key_ceiling == 0)
        goto out;
    s->written.max_volume_id = (uint32_t)volume;
    s->written.servers = servers > 0 && servers < UINT32_MAX ? (uint32_t)servers : 0;
    memcpy(s->cluster_id, id, SEQUENCER_ID_BYTES);
    rc = 0;
out:
    json_decref(root);
    return rc;
}

/* By a block, but never down, and never past the end. */
static void raise_ceiling(struct sequencer *s, uint64_t at_least)
{
    uint64_t base = s->wanted.key_ceiling > at_least ? s->wanted.key_ceiling : at_least;

    if (base < SEQUENCER_KEY_END - SEQUENCER_BLOCK)
        base += SEQUENCER_BLOCK;
    else if (base < SEQUENCER_KEY_END)
        base = SEQUENCER_KEY_END;
    s->wanted.key_ceiling = base;
}

static int read_or_make(struct sequencer *s)
{
    char *text = NULL;
    int rc = state_file_read(s->path, &text);

    if (rc == 0)
        rc = parse_state(s, text);
    free(text);
    if (rc == DFS_ENOTFOUND) {
        make_cluster_id(s->cluster_id);
        s->written = (struct state){.key_ceiling = 1};
        rc = 0;
    }
    if (rc != 0)
        return rc;
    /* Keys start at the old ceiling; the new one is on the disk before the first is handed out. */
    s->next_key = s->written.key_ceiling;
    s->wanted = s->written;
    raise_ceiling(s, 0);
    rc = write_state(s, &s->wanted);
    note_write(s, &s->wanted, rc);
    if (rc != DFS_ENOSPC && rc != DFS_EIO)
        return rc;
    /* The disk's trouble, not the operator's: what there is can be found and read, and no key is handed out. */
    log_warning("file ids are refused until the master's state can be written: keys start at %" PRIu64, s->next_key);
    return 0;
}

int sequencer_open(const char *dir, struct loop *loop, struct work_pool *pool, struct sequencer **out)
{
    struct sequencer *s = calloc(1, sizeof *s);
    int rc = DFS_EINVAL;

    if (s == NULL)
        return DFS_ENOMEM;
    s->lock_fd = -1;
    s->loop = loop;
    s->pool = pool;
    s->work.loop = loop;
    s->work.privileged = true;
    s->work.run = run_write;
    s->work.done = on_written;
    if (snprintf(s->dir, sizeof s->dir, "%s", dir) >= (int)sizeof s->dir ||
        snprintf(s->path, sizeof s->path, "%s/state", dir) >= (int)sizeof s->path)
        goto fail;
    rc = state_folder_lock(dir, &s->lock_fd);
    if (rc != 0)
        goto fail;
    rc = read_or_make(s);
    if (rc != 0) {
        log_error("cannot use the master's state '%s': %s; it is left as it is", s->path, dfs_err_text(rc));
        goto fail;
    }
    *out = s;
    return 0;
fail:
    sequencer_free(s);
    return rc;
}

void sequencer_free(struct sequencer *s)
{
    if (s == NULL)
        return;
    if (s->lock_fd != -1)
        close(s->lock_fd);
    free(s);
}

int sequencer_keys(struct sequencer *s, uint64_t count, uint64_t *first)
{
    uint64_t left;

    if (count > SEQUENCER_COUNT_MAX)
        return DFS_ETOOBIG;
    if (s->stopped)
        return DFS_ECANCELLED;
    if (count == 0 || s->next_key > SEQUENCER_KEY_END - count)
        return count == 0 ? DFS_EINVAL : DFS_ENOSPC;
    if (s->next_key + count > s->written.key_ceiling) {
        if (failed_just_now(s))
            return DFS_EUNAVAILABLE;
        if (s->wanted.key_ceiling < s->next_key + count)
            raise_ceiling(s, s->next_key + count);
        start_write(s);
        return DFS_EAGAIN;
    }
    *first = s->next_key;
    s->next_key += count;
    left = s->written.key_ceiling - s->next_key;
    if (left < SEQUENCER_BLOCK / 2 && s->wanted.key_ceiling - s->next_key < SEQUENCER_BLOCK) {
        raise_ceiling(s, 0);
        start_write(s);
    }
    return 0;
}

void sequencer_wait(struct sequencer *s, struct sequencer_waiter *w)
{
    w->next = NULL;
    append(&s->waiting, w);
    start_write(s);
}

static bool take_out(struct sequencer_waiter **list, struct sequencer_waiter *w)
{
    for (; *list != NULL; list = &(*list)->next) {
        if (*list == w) {
            *list = w->next;
            return true;
        }
    }
    return false;
}

void sequencer_unwait(struct sequencer *s, struct sequencer_waiter *w)
{
    if (!take_out(&s->waiting, w) && !take_out(&s->in_write, w))
        take_out(&s->answered, w);
}

void sequencer_stop(struct sequencer *s)
{
    struct sequencer_waiter *list = s->in_write;

    s->stopped = true;
    append(&list, s->waiting);
    s->in_write = s->waiting = NULL;
    answer_all(s, list, DFS_ECANCELLED);
}

uint32_t sequencer_volume_id(struct sequencer *s, struct sequencer_waiter *w)
{
    if (s->wanted.max_volume_id == UINT32_MAX || s->stopped)
        return 0;
    s->wanted.max_volume_id++;
    sequencer_wait(s, w);
    return s->wanted.max_volume_id;
}

void sequencer_saw_key(struct sequencer *s, uint64_t key)
{
    if (key < s->next_key || key >= SEQUENCER_KEY_END)
        return;
    s->next_key = key + 1;
    if (s->wanted.key_ceiling < s->next_key + SEQUENCER_BLOCK / 2) {
        raise_ceiling(s, s->next_key);
        start_write(s);
    }
}

void sequencer_saw_volume(struct sequencer *s, uint32_t volume_id)
{
    if (volume_id <= s->wanted.max_volume_id)
        return;
    if (volume_id - s->wanted.max_volume_id > SEQUENCER_VOLUME_LEAP) {
        if (!s->far_told)
            log_warning("volume %" PRIu32 " is far beyond %" PRIu32 ", the greatest id so far: it is served, and new volumes go on "
                        "from there as before; others like it are not named", volume_id, s->wanted.max_volume_id);
        s->far_told = true;
        return;
    }
    s->wanted.max_volume_id = volume_id;
    start_write(s);
}

void sequencer_set_servers(struct sequencer *s, uint32_t servers)
{
    if (servers == s->wanted.servers)
        return;
    s->wanted.servers = servers;
    start_write(s);
}

uint32_t sequencer_servers(const struct sequencer *s)
{
    return s->wanted.servers;
}

uint32_t sequencer_max_volume_id(const struct sequencer *s)
{
    return s->wanted.max_volume_id;
}

const char *sequencer_cluster_id(const struct sequencer *s)
{
    return s->cluster_id;
}

const char *sequencer_trouble(const struct sequencer *s)
{
    return s->trouble;
}
