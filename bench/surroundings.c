/* Asking servers, and reading /proc. */
#include "bench/surroundings.h"

#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "bench/sync_client.h"
#include "needle/bytes.h"
#include "net/clock.h"

#define ASK_TIMEOUT_MS 2000u
#define PROC_TEXT_MAX (1u << 20)
#define KEY_MAX 128u
#define IDLE_LOOK_MS 50u
#define IDLE_QUIET_MS 300u /* at rest: nothing under way and nothing done for so long */
#define SENT_BYTES "SeaweedFS_volumeServer_bytes_out_total"

/* ---- texts ---- */

/* Behind "name" at the front of a line, or NULL. */
static const char *line_of(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n'), p = p != NULL ? p + 1 : NULL)
        if (strncmp(p, name, n) == 0)
            return p + n;
    return NULL;
}

static int64_t number_at(const char *p)
{
    char *end;
    double v = strtod(p, &end);
    return end != p && v >= 0 && v < 9e18 ? (int64_t)v : SURROUNDINGS_UNKNOWN;
}

int64_t surroundings_metric(const char *text, const char *name)
{
    char front[KEY_MAX];
    const char *p;
    snprintf(front, sizeof front, "%s ", name);
    p = line_of(text, front);
    return p != NULL ? number_at(p) : SURROUNDINGS_UNKNOWN;
}

int64_t surroundings_field(const char *text, const char *key)
{
    char front[KEY_MAX];
    const char *p;
    snprintf(front, sizeof front, "%s:", key);
    p = line_of(text, front);
    return p != NULL ? number_at(p) : SURROUNDINGS_UNKNOWN;
}

bool surroundings_disk(const char *text, unsigned major, unsigned minor, uint64_t *done, uint64_t *busy)
{
    for (const char *p = text; p != NULL && *p != '\0'; p = strchr(p, '\n'), p = p != NULL ? p + 1 : NULL) {
        unsigned at_major, at_minor;
        unsigned long long reads, writes, under_way;
        /* major minor name reads merged sectors ms writes merged sectors ms under_way */
        if (sscanf(p, " %u %u %*s %llu %*u %*u %*u %llu %*u %*u %*u %llu", &at_major, &at_minor, &reads, &writes, &under_way) != 5)
            continue;
        if (at_major == major && at_minor == minor) {
            *done = reads + writes;
            *busy = under_way;
            return true;
        }
    }
    return false;
}

/* The whole file as text, "" when it cannot be read; the caller's to free(3); NULL: no memory. */
static char *read_text(const char *path)
{
    char *text = malloc(PROC_TEXT_MAX);
    FILE *f = text != NULL ? fopen(path, "re") : NULL;
    size_t n = f != NULL ? fread(text, 1, PROC_TEXT_MAX - 1, f) : 0;

    if (f != NULL)
        fclose(f);
    if (text != NULL)
        text[n] = '\0';
    return text;
}

static int64_t file_field(const char *path, const char *key)
{
    char *text = read_text(path);
    int64_t v = text != NULL ? surroundings_field(text, key) : SURROUNDINGS_UNKNOWN;
    free(text);
    return v;
}

/* ---- processes ---- */

/* Inode of the socket that listens on the port, of /proc/net/tcp or tcp6; 0 = none. */
static unsigned long listener_inode(const char *path, unsigned port)
{
    char *text = read_text(path);
    unsigned long found = 0;

    for (const char *p = text; found == 0 && p != NULL && *p != '\0'; p = strchr(p, '\n'), p = p != NULL ? p + 1 : NULL) {
        unsigned at, state;
        unsigned long inode;
        if (sscanf(p, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu", &at, &state, &inode) == 3 &&
            at == port && state == 0x0a)
            found = inode;
    }
    free(text);
    return found;
}

static bool has_socket(const char *pid, const char *want)
{
    char path[300], link[64];
    struct dirent *e;
    bool found = false;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    d = opendir(path);
    while (d != NULL && !found && (e = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "/proc/%s/fd/%.20s", pid, e->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n > 0) {
            link[n] = '\0';
            found = strcmp(link, want) == 0;
        }
    }
    if (d != NULL)
        closedir(d);
    return found;
}

/* The process on this machine that listens on the port; 0: none that we may look at. */
static pid_t process_of_port(unsigned port)
{
    char want[64];
    struct dirent *e;
    pid_t pid = 0;
    unsigned long inode = listener_inode("/proc/net/tcp", port);
    DIR *d;

    if (inode == 0)
        inode = listener_inode("/proc/net/tcp6", port);
    if (inode == 0)
        return 0;
    snprintf(want, sizeof want, "socket:[%lu]", inode);
    d = opendir("/proc");
    while (d != NULL && pid == 0 && (e = readdir(d)) != NULL)
        if (isdigit((unsigned char)e->d_name[0]) && has_socket(e->d_name, want))
            pid = (pid_t)strtol(e->d_name, NULL, 10);
    if (d != NULL)
        closedir(d);
    return pid;
}

static int64_t disk_reads_of(pid_t pid)
{
    char path[64];
    if (pid == 0)
        return SURROUNDINGS_UNKNOWN;
    snprintf(path, sizeof path, "/proc/%d/io", (int)pid);
    return file_field(path, "read_bytes");
}

/* A relative folder is one of the server's own working folder. */
static void find_disk(struct surroundings_server *v, const char *dir)
{
    char path[4200];
    struct stat st;

    if (dir == NULL || !v->is_local || (dir[0] != '/' && v->pid == 0))
        return;
    if (dir[0] == '/')
        snprintf(path, sizeof path, "%.4000s", dir);
    else
        snprintf(path, sizeof path, "/proc/%d/cwd/%.4000s", (int)v->pid, dir);
    /* Major number 0: a file system without a device of its own. */
    if (stat(path, &st) != 0 || major(st.st_dev) == 0)
        return;
    v->disk_major = major(st.st_dev);
    v->disk_minor = minor(st.st_dev);
    v->has_disk = true;
}

/* ---- servers ---- */

static bool ask(struct sync_client *c, const struct addr *addr, const char *target, struct sync_answer *a)
{
    struct sync_request req = {.addr = addr, .method = HTTP_GET, .target = target};
    struct sockaddr_storage storage;
    socklen_t n;

    if (addr_numeric(addr->host, addr->port, &storage, &n) != 0 || sync_call(c, &req, a) != 0)
        return false;
    if (a->status == 200 && a->body != NULL)
        return true;
    sync_answer_release(a);
    return false;
}

static json_t *ask_json(struct sync_client *c, const struct addr *addr, const char *target)
{
    struct sync_answer a;
    json_t *root;

    if (!ask(c, addr, target, &a))
        return NULL;
    root = json_loadb(a.body, a.body_n, 0, NULL);
    sync_answer_release(&a);
    return root;
}

static bool is_local(const struct addr *a)
{
    return strncmp(a->host, "127.", 4) == 0 || strcmp(a->host, "::1") == 0 || strcmp(a->host, "localhost") == 0;
}

static void add_node(struct surroundings *s, const json_t *node, bool use_public_url)
{
    const char *url = json_string_value(json_object_get(node, use_public_url ? "PublicUrl" : "Url"));
    struct surroundings_server *v = &s->servers[s->server_count];

    if (url == NULL || s->server_count == SURROUNDINGS_SERVERS_MAX)
        return;
    memset(v, 0, sizeof *v);
    v->read_bytes = v->sent_bytes = SURROUNDINGS_UNKNOWN;
    if (addr_parse(bytes_str(url), &v->addr) != 0)
        return;
    v->is_local = is_local(&v->addr);
    v->pid = v->is_local ? process_of_port(v->addr.port) : 0;
    s->server_count++;
}

struct search {
    struct surroundings *s;
    struct sync_client *client;
    bool use_public_url, found;
};

/* The nodes that a master lists. */
static int ask_master(struct bytes entry, void *arg)
{
    struct search *search = arg;
    struct addr addr;
    json_t *root, *center, *rack, *node;
    size_t i, j, k;

    if (search->found || addr_parse(entry, &addr) != 0)
        return 0;
    root = ask_json(search->client, &addr, "/dir/status");
    json_array_foreach(json_object_get(json_object_get(root, "Topology"), "DataCenters"), i, center)
        json_array_foreach(json_object_get(center, "Racks"), j, rack)
            json_array_foreach(json_object_get(rack, "DataNodes"), k, node)
                add_node(search->s, node, search->use_public_url);
    search->found = search->s->server_count > 0;
    json_decref(root);
    return 0;
}

static void take_text(char out[SURROUNDINGS_TEXT_MAX], const json_t *value, const char *differ)
{
    const char *text = json_string_value(value);
    if (text == NULL || strcmp(out, text) == 0)
        return;
    snprintf(out, SURROUNDINGS_TEXT_MAX, "%s", out[0] == '\0' || differ == NULL ? text : differ);
}

static void ask_server(struct surroundings *s, struct sync_client *c, struct surroundings_server *v)
{
    json_t *root = ask_json(c, &v->addr, "/status");

    if (s->version[0] == '\0')
        take_text(s->version, json_object_get(root, "Version"), NULL);
    take_text(s->durability, json_object_get(root, "Durability"), "mixed");
    find_disk(v, json_string_value(json_object_get(json_array_get(json_object_get(root, "DiskStatuses"), 0), "dir")));
    json_decref(root);
}

static int64_t sent_by(struct sync_client *c, const struct surroundings_server *v)
{
    struct sync_answer a;
    int64_t n;

    if (!ask(c, &v->addr, "/metrics", &a))
        return SURROUNDINGS_UNKNOWN;
    n = surroundings_metric(a.body, SENT_BYTES);
    sync_answer_release(&a);
    return n;
}

/* What all have read and sent so far; unknown when one of them is. */
static void take_counters(struct surroundings *s, struct sync_client *c, int64_t *read_bytes, int64_t *sent_bytes)
{
    *read_bytes = *sent_bytes = s->server_count > 0 ? 0 : SURROUNDINGS_UNKNOWN;
    for (uint32_t i = 0; i < s->server_count; i++) {
        struct surroundings_server *v = &s->servers[i];
        bool counted = false;
        v->sent_bytes = c != NULL ? sent_by(c, v) : SURROUNDINGS_UNKNOWN;
        v->read_bytes = disk_reads_of(v->pid);
        for (uint32_t j = 0; j < i; j++)
            counted |= s->servers[j].pid == v->pid;
        if (v->read_bytes < 0 || *read_bytes < 0)
            *read_bytes = SURROUNDINGS_UNKNOWN;
        else if (!counted)
            *read_bytes += v->read_bytes;
        *sent_bytes = v->sent_bytes < 0 || *sent_bytes < 0 ? SURROUNDINGS_UNKNOWN : *sent_bytes + v->sent_bytes;
    }
}

void surroundings_begin(struct surroundings *s, const char *masters, bool use_public_url)
{
    struct search search = {.s = s, .use_public_url = use_public_url};
    char error[SYNC_ERROR_MAX];

    memset(s, 0, sizeof *s);
    s->dirty_bytes = s->dirty_later_bytes = SURROUNDINGS_UNKNOWN;
    s->idle_s = SURROUNDINGS_UNKNOWN;
    if (sync_client_new(masters, ASK_TIMEOUT_MS, use_public_url, &search.client, error) != 0)
        search.client = NULL;
    if (search.client != NULL)
        addr_list_each(bytes_str(masters), ask_master, &search);
    s->all_local = s->server_count > 0;
    for (uint32_t i = 0; i < s->server_count; i++) {
        ask_server(s, search.client, &s->servers[i]);
        s->all_local = s->all_local && s->servers[i].is_local;
    }
    take_counters(s, search.client, &s->disk_read_bytes, &s->sent_bytes);
    sync_client_free(search.client);
}

/* ---- the disks ---- */

/* Requests done so far on all disks; false when one is under way. */
static bool disks_quiet(const struct surroundings *s, uint64_t *done)
{
    char *text = read_text("/proc/diskstats");
    bool quiet = text != NULL;

    *done = 0;
    for (uint32_t i = 0; quiet && i < s->server_count; i++) {
        uint64_t n, busy;
        if (!s->servers[i].has_disk || !surroundings_disk(text, s->servers[i].disk_major, s->servers[i].disk_minor, &n, &busy))
            continue;
        *done += n;
        quiet = busy == 0;
    }
    free(text);
    return quiet;
}

static bool knows_a_disk(const struct surroundings *s)
{
    for (uint32_t i = 0; i < s->server_count; i++)
        if (s->servers[i].has_disk)
            return true;
    return false;
}

/* At rest from the moment after which nothing happened for IDLE_QUIET_MS. */
static double wait_for_rest(const struct surroundings *s, uint32_t wait_ms)
{
    uint64_t begun = clock_mono_ms(), quiet_since = begun, last = 0, done;
    bool was_quiet = disks_quiet(s, &last);

    while (clock_mono_ms() - begun < wait_ms) {
        clock_sleep_ms(IDLE_LOOK_MS);
        if (!disks_quiet(s, &done) || done != last || !was_quiet) {
            last = done;
            was_quiet = true;
            quiet_since = clock_mono_ms();
        } else if (clock_mono_ms() - quiet_since >= IDLE_QUIET_MS) {
            return (double)(quiet_since - begun) / 1e3;
        }
    }
    return SURROUNDINGS_UNKNOWN;
}

static int64_t dirty_bytes(void)
{
    char *text = read_text("/proc/meminfo");
    int64_t dirty = text != NULL ? surroundings_field(text, "Dirty") : SURROUNDINGS_UNKNOWN;
    int64_t under_way = text != NULL ? surroundings_field(text, "Writeback") : SURROUNDINGS_UNKNOWN;
    free(text);
    return dirty < 0 || under_way < 0 ? SURROUNDINGS_UNKNOWN : (dirty + under_way) * 1024;
}

/* A server that was started anew counts from 0 again: then nothing is known. */
static int64_t grown_by(int64_t before, int64_t now)
{
    return before < 0 || now < before ? SURROUNDINGS_UNKNOWN : now - before;
}

void surroundings_end(struct surroundings *s, uint32_t idle_wait_ms)
{
    int64_t read_before = s->disk_read_bytes, sent_before = s->sent_bytes;
    char error[SYNC_ERROR_MAX];
    struct sync_client *c = NULL;
    bool any_local = false;

    for (uint32_t i = 0; i < s->server_count; i++)
        any_local |= s->servers[i].is_local;
    if (any_local)
        s->dirty_bytes = dirty_bytes();
    /* Any address will do: the client speaks to servers alone. */
    if (s->server_count > 0 && sync_client_new("127.0.0.1:1", ASK_TIMEOUT_MS, false, &c, error) != 0)
        c = NULL;
    take_counters(s, c, &s->disk_read_bytes, &s->sent_bytes);
    sync_client_free(c);
    s->disk_read_bytes = grown_by(read_before, s->disk_read_bytes);
    s->sent_bytes = grown_by(sent_before, s->sent_bytes);
    s->waited_for_idle = idle_wait_ms > 0 && knows_a_disk(s);
    if (s->waited_for_idle)
        s->idle_s = wait_for_rest(s, idle_wait_ms);
    s->dirty_later_bytes = any_local ? dirty_bytes() : SURROUNDINGS_UNKNOWN;
}
