/* The one table of options, and the table of commands. */
#include <stddef.h>

#include "conf/config.h"
#include "conf/option.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/addr.h"
#include "net/http_util.h"
#include "net/whitelist.h"

#define COMMON(field) offsetof(struct config, common.field)
#define MASTER(field) offsetof(struct config, master.field)
#define VOLUME(field) offsetof(struct config, volume.field)
#define BENCH(field) offsetof(struct config, bench.field)
#define MODE(field) offsetof(struct config, mode.field)
#define PLOT(field) offsetof(struct config, plot.field)
#define TOOL(field) offsetof(struct config, tool.field)

#define MB (1ull << 20)

static const char *check_replication(const char *value)
{
    struct replica_placement rp;

    return replica_placement_parse(bytes_str(value), &rp) == 0 ? NULL : "is no replica placement such as 000, 001 or 110";
}

static const char *check_ttl(const char *value)
{
    struct ttl ttl;

    return ttl_parse(bytes_str(value), &ttl) == 0 ? NULL : "is no time to live such as 5m, 3h, 2d, 4w, 6M or 1y";
}

static const char *check_collection(const char *value)
{
    return name_is_safe(bytes_str(value)) ? NULL : "is no name of letters, digits, '_', '-' and '.'";
}

static const char *check_run_name(const char *value)
{
    return value[0] != '\0' && value[0] != '.' && name_is_safe(bytes_str(value)) ? NULL :
        "is no name of letters, digits, '_', '-' and '.'";
}

static const char *check_white_list(const char *value)
{
    struct whitelist list;
    int rc;

    whitelist_init(&list);
    rc = whitelist_add(&list, bytes_str(value), NULL);
    if (rc == 0 && list.n == 0 && value[0] != '\0')
        rc = DFS_EINVAL; /* an empty list lets everyone in: only when asked for */
    whitelist_release(&list);
    return rc == 0 ? NULL : "is no list of addresses and networks such as 10.0.0.7,192.168.0.0/16";
}

static int check_address(struct bytes entry, void *arg)
{
    struct addr a;

    *(bool *)arg = true;
    return addr_parse(entry, &a);
}

static const char *check_addresses(const char *value)
{
    bool any = false;
    int rc = addr_list_each(bytes_str(value), check_address, &any);

    return rc == 0 && any ? NULL : "is no list of host:port or host:port.grpcPort";
}

static const char *check_no_dir_idx(const char *value)
{
    return value[0] == '\0' ? NULL : "is not supported: an index lies beside its data";
}

const struct option option_table[] = {
    /* where and who */
    {"dir", NULL, SHARED | IN_VOLUME, OPTION_TEXT, COMMON(dir), 0, 0, 0, NULL, "./data", "folder[,folder]",
     "data folders, made when missing", NULL},
    {"ip", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(ip), 0, 0, 0, NULL, "127.0.0.1", "address",
     "the address that others are told to reach this node at", NULL},
    {"ip.bind", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(ip_bind), 0, 0, 0, NULL, "", "address",
     "the address to listen on; empty: that of -ip", NULL},
    {"dataCenter", NULL, SHARED | IN_VOLUME, OPTION_TEXT, COMMON(data_center), 0, 0, 0, NULL, "", "name",
     "the data center this node stands in", check_collection},
    {"rack", NULL, SHARED | IN_VOLUME, OPTION_TEXT, COMMON(rack), 0, 0, 0, NULL, "", "name",
     "the rack this node stands in", check_collection},
    {"whiteList", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(white_list), 0, 0, 0, NULL, "", "address[,network]",
     "who may write, delete and administrate; empty: everyone", check_white_list},
    {"idleTimeout", NULL, IN_DAEMONS, OPTION_U32, COMMON(idle_timeout_s), 0, 1, 86400, NULL, "30", "s",
     "close a connection without progress after this", NULL},
    {"pulseSeconds", NULL, IN_DAEMONS, OPTION_U32, COMMON(pulse_s), 0, 1, 60, NULL, "5", "s",
     "time between heartbeats; three missed and the node counts as down", NULL},
    {"maxConnections", NULL, IN_DAEMONS, OPTION_U32, COMMON(max_connections), 0, 16, 1000000, NULL, "65536", NULL,
     "connections to each daemon; more are answered 503", NULL},
    {"stopTimeout", "volume.preStopSeconds,preStopSeconds", IN_DAEMONS, OPTION_U32, COMMON(stop_timeout_s), 0, 0, 3600, NULL,
     "10", "s", "time that SIGTERM gives to requests under way", NULL},
    {"metricsPort", NULL, IN_DAEMONS, OPTION_U32, COMMON(metrics_port), 0, 0, 65535, NULL, "0", "port",
     "serve /metrics here too; 0: only beside everything else", NULL},
    {"metricsIp", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(metrics_ip), 0, 0, 0, NULL, "", "address",
     "the address of -metricsPort; empty: that of -ip.bind", NULL},
    {"cpuprofile", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(cpuprofile), 0, 0, 0, NULL, "", "file",
     "write the CPU time and the memory that were used, at the end", NULL},
    {"pidFile", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(pid_file), 0, 0, 0, NULL, "", "file", "write the process id there", NULL},
    {"logFile", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(log_file), 0, 0, 0, NULL, "", "file",
     "log there; empty: standard error; SIGHUP opens it anew", NULL},
    {"logLevel", NULL, IN_DAEMONS, OPTION_CHOICE, COMMON(log_level), 0, 0, 0, "debug|info|warning|error", "info", NULL,
     "the least level that is logged", NULL},
    {"conf", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(conf_file), 0, 0, 0, NULL, "", "file",
     "read this dfs.ini; empty: ./dfs.ini or /etc/dfs/dfs.ini if there", NULL},
    {"options", NULL, IN_DAEMONS, OPTION_TEXT, COMMON(options_file), 0, 0, 0, NULL, "", "file",
     "read `name=value` lines from a file; the command line wins", NULL},
    {"master", NULL, IN_SERVER, OPTION_BOOL, COMMON(run_master), 0, 0, 0, NULL, "true", NULL, "run a master", NULL},
    {"volume", NULL, IN_SERVER, OPTION_BOOL, COMMON(run_volume), 0, 0, 0, NULL, "true", NULL, "run a volume server", NULL},

    /* master */
    {"port", NULL, IN_MASTER, OPTION_U32, MASTER(port), 0, 1, 65535, NULL, "9333", "port", "HTTP port", NULL},
    {"port.grpc", NULL, IN_MASTER, OPTION_U32, MASTER(port_grpc), 0, 0, 65535, NULL, "0", "port",
     "gRPC port; 0: the HTTP port plus 10000", NULL},
    {"dir", "mdir", IN_MASTER, OPTION_TEXT, MASTER(dir), 0, 0, 0, NULL, "", "folder",
     "folder of the master's state; empty: ./data, in `dfs server` the first of -dir", NULL},
    {"peers", NULL, IN_MASTER, OPTION_TEXT, MASTER(peers), 0, 0, 0, NULL, "", "host:port[,host:port]",
     "all masters; its own address may be among them", NULL},
    {"volumeSizeLimitMB", NULL, IN_MASTER, OPTION_U64, MASTER(volume_size_limit_bytes), MB, 1, 8388608, NULL, "30720", "MB",
     "stop writing to a volume at this size", NULL},
    {"volumePreallocate", NULL, IN_MASTER, OPTION_BOOL, MASTER(volume_preallocate), 0, 0, 0, NULL, "false", NULL,
     "reserve the disk space of a volume when it is made", NULL},
    {"defaultReplication", "defaultReplicaPlacement", IN_MASTER, OPTION_TEXT, MASTER(default_replication), 0, 0, 0, NULL,
     "000", "xyz", "copies in other data centers, other racks, on other servers", check_replication},
    {"garbageThreshold", NULL, IN_MASTER, OPTION_DOUBLE, MASTER(garbage_threshold), 0, 0, 1, NULL, "0.3", NULL,
     "vacuum a volume when this share of it is deleted", NULL},
    {"vacuumIntervalSeconds", NULL, IN_MASTER, OPTION_U32, MASTER(vacuum_interval_s), 0, 0, 31536000, NULL, "840", "s",
     "look for volumes to vacuum this often; 0: never", NULL},
    {"growth", NULL, IN_MASTER, OPTION_U32, MASTER(growth), 0, 0, 1000, NULL, "0", NULL,
     "volumes made when more are needed; 0: by the number of copies", NULL},
    {"growth.copy1", NULL, IN_MASTER, OPTION_U32, MASTER(growth_copy[0]), 0, 1, 1000, NULL, "7", NULL,
     "volumes made at once when each has one copy", NULL},
    {"growth.copy2", NULL, IN_MASTER, OPTION_U32, MASTER(growth_copy[1]), 0, 1, 1000, NULL, "6", NULL,
     "the same for two copies", NULL},
    {"growth.copy3", NULL, IN_MASTER, OPTION_U32, MASTER(growth_copy[2]), 0, 1, 1000, NULL, "3", NULL,
     "the same for three copies", NULL},
    {"growth.copy4", NULL, IN_MASTER, OPTION_U32, MASTER(growth_copy[3]), 0, 1, 1000, NULL, "1", NULL,
     "the same for more copies", NULL},
    {"fileSizeLimitMB", NULL, IN_MASTER, OPTION_U64, MASTER(file_size_limit_bytes), MB, 1, 2047, NULL, "256", "MB",
     "largest file that /submit takes", NULL},

    /* volume server */
    {"port", NULL, IN_VOLUME, OPTION_U16, VOLUME(port), 0, 1, 65535, NULL, "8080", "port", "HTTP port", NULL},
    {"port.public", NULL, IN_VOLUME, OPTION_U16, VOLUME(port_public), 0, 0, 65535, NULL, "0", "port",
     "a second port that only reads; 0: none", NULL},
    {"port.grpc", NULL, IN_VOLUME, OPTION_U16, VOLUME(port_grpc), 0, 0, 65535, NULL, "0", "port",
     "gRPC port; 0: the HTTP port plus 10000", NULL},
    {"publicUrl", NULL, IN_VOLUME, OPTION_TEXT, VOLUME(public_url), 0, 0, 0, NULL, "", "host:port",
     "the address that clients from outside are told", NULL},
    {"id", NULL, IN_VOLUME, OPTION_TEXT, VOLUME(id), 0, 0, 0, NULL, "", "name", "a name of its own for this server",
     check_collection},
    {"master", "mserver", IN_VOLUME, OPTION_TEXT, VOLUME(masters), 0, 0, 0, NULL, "127.0.0.1:9333", "host:port[,host:port]",
     "the masters", check_addresses},
    {"max", NULL, IN_VOLUME, OPTION_TEXT, COMMON(max), 0, 0, 0, NULL, "0", "int[,int]",
     "most volumes in each folder, one number for all or one each; 0: by free space, at least 8", NULL},
    {"dir.idx", NULL, IN_VOLUME, OPTION_TEXT, VOLUME(dir_idx), 0, 0, 0, NULL, "", "folder",
     "folder of the indexes; must stay empty", check_no_dir_idx},
    {"index", NULL, IN_VOLUME, OPTION_CHOICE, COMMON(index), 0, 0, 0, "memory|leveldb|leveldbMedium|leveldbLarge", "memory",
     NULL, "where the needle maps live; leveldb bounds memory and costs a few microseconds a request", NULL},
    {"offsetBytes", NULL, IN_VOLUME, OPTION_CHOICE, COMMON(offset_bytes), 0, 0, 0, "4|5", "5", NULL,
     "width of offsets in new volumes: 4 ends at 32 GiB a volume", NULL},
    {"durability", NULL, IN_VOLUME, OPTION_CHOICE, VOLUME(durability), 0, 0, 0, "none|paced|group", "group", NULL,
     "when a write is answered: from memory, from memory with at most -dirtyMB unwritten, or when it is on the disk", NULL},
    {"dirtyMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(dirty_bytes), MB, 4, 65536, NULL, "64", "MB",
     "bytes of each folder that may wait to be written back", NULL},
    {"zeroAheadMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(zero_ahead_bytes), MB, 0, 64, NULL, "1", "MB",
     "small writes that are flushed go over zeros, at most so many at a time ahead of a volume's data; 0: never", NULL},
    {"stageMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(stage_bytes), MB, 1, 1024, NULL, "16", "MB",
     "larger uploads wait in an unnamed file instead of in memory", NULL},
    {"poolMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(pool_bytes), MB, 4, 65536, NULL, "128", "MB",
     "memory for uploads under way, all together", NULL},
    {"fileSizeLimitMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(file_limit_bytes), MB, 1, 2047, NULL, "256", "MB",
     "largest file that is taken", NULL},
    {"compress", NULL, IN_VOLUME, OPTION_CHOICE, VOLUME(compress), 0, 0, 0, "off|auto", "off", NULL,
     "store text as gzip when that saves a tenth", NULL},
    {"readMode", NULL, IN_VOLUME, OPTION_CHOICE, VOLUME(read_mode), 0, 0, 0, "local|proxy|redirect", "proxy", NULL,
     "what a read of a volume that another server has gets", NULL},
    {"read.redirect", NULL, IN_VOLUME, OPTION_BOOL, COMMON(read_redirect), 0, 0, 0, NULL, "true", NULL,
     "older form of -readMode: true is redirect, false is local", NULL},
    {"readCheck", NULL, IN_VOLUME, OPTION_CHOICE, COMMON(read_check), 0, 0, 0, "auto|always", "auto", NULL,
     "check the CRC of large files when they come from the disk, or at each read", NULL},
    {"compactionMBps", NULL, IN_VOLUME, OPTION_U64, VOLUME(vacuum_bytes_per_s), MB, 0, 1048576, NULL, "0", "MB/s",
     "bound of a vacuum's speed; 0: none", NULL},
    {"minFreeSpace", "minFreeSpacePercent", IN_VOLUME, OPTION_TEXT, COMMON(min_free), 0, 0, 0, NULL, "1", "percent|size",
     "below this much free space no more is written; percent, or a size such as 5GiB", NULL},
    {"concurrentUploadLimitMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(upload_limit_bytes), MB, 0, 1048576, NULL, "0", "MB",
     "bodies of uploads under way, more are answered 429; 0: bounded by -poolMB alone", NULL},
    {"concurrentDownloadLimitMB", NULL, IN_VOLUME, OPTION_U64, VOLUME(download_limit_bytes), MB, 0, 1048576, NULL, "0", "MB",
     "bodies of downloads under way, more are answered 429; 0: no bound", NULL},
    {"loops", NULL, IN_VOLUME, OPTION_U32, VOLUME(loops), 0, 0, VOLUME_LOOPS_MAX, NULL, "0", NULL,
     "threads that serve HTTP; 0: one for each core, at most 8", NULL},

    /* benchmark */
    {"server", "master", IN_BENCHMARK, OPTION_TEXT, BENCH(server), 0, 0, 0, NULL, "127.0.0.1:9333", "host:port[,host:port]",
     "the masters", check_addresses},
    {"c", NULL, IN_BENCHMARK, OPTION_U32, BENCH(concurrency), 0, 1, 10000, NULL, "16", NULL, "requests under way at once",
     NULL},
    {"n", NULL, IN_BENCHMARK, OPTION_U64, BENCH(count), 0, 1, 1e12, NULL, "1048576", NULL, "objects, all together", NULL},
    {"size", NULL, IN_BENCHMARK, OPTION_U64, BENCH(size_bytes), 0, 0, 2146435072, NULL, "1024", "bytes",
     "size of an object; up to 63 random bytes are added", NULL},
    {"list", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(list), 0, 0, 0, NULL, "", "file",
     "file of the ids that were written; empty: benchmark_list.txt in the system's folder for temporary files", NULL},
    {"write", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(write), 0, 0, 0, NULL, "true", NULL, "run the write phase", NULL},
    {"read", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(read), 0, 0, 0, NULL, "true", NULL, "run the read phase", NULL},
    {"writeOnly", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(write_only), 0, 0, 0, NULL, "false", NULL, "only the write phase",
     NULL},
    {"readOnly", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(read_only), 0, 0, 0, NULL, "false", NULL,
     "only the read phase, of the ids in -list", NULL},
    {"deletePercent", NULL, IN_BENCHMARK, OPTION_U32, BENCH(delete_percent), 0, 0, 100, NULL, "0", "percent",
     "delete this share of what was written, a second later", NULL},
    {"readSequentially", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(read_sequentially), 0, 0, 0, NULL, "false", NULL,
     "read the list once from front to end instead of at random", NULL},
    {"collection", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(collection), 0, 0, 0, NULL, "benchmark", "name",
     "collection to write to", check_collection},
    {"replication", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(replication), 0, 0, 0, NULL, "", "xyz",
     "replica placement; empty: the master's", check_replication},
    {"ttl", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(ttl), 0, 0, 0, NULL, "", "ttl", "time to live of what is written",
     check_ttl},
    {"disk", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(disk), 0, 0, 0, NULL, "", "type", "disk type to write to", check_collection},
    {"fsync", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(fsync), 0, 0, 0, NULL, "false", NULL,
     "ask for each write to be on the disk before it is answered", NULL},
    {"assignBatch", NULL, IN_BENCHMARK, OPTION_U32, BENCH(assign_batch), 0, 1, 10000, NULL, "1", NULL,
     "ids that one assign brings", NULL},
    {"loops", NULL, IN_BENCHMARK, OPTION_U32, BENCH(loops), 0, 0, 64, NULL, "0", NULL,
     "threads of the client; 0: one for each two cores, at most 4", NULL},
    {"precise", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(precise), 0, 0, 0, NULL, "false", NULL,
     "three decimals in the times", NULL},
    {"json", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(json), 0, 0, 0, NULL, "", "file", "write the report there as JSON too", NULL},
    {"csv", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(csv), 0, 0, 0, NULL, "", "file", "write the seconds there as CSV", NULL},
    {"svg", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(svg), 0, 0, 0, NULL, "", "file", "draw the run there", NULL},
    {"label", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(label), 0, 0, 0, NULL, "", "text", "name of the run in reports and pictures",
     NULL},
    {"idleWait", NULL, IN_BENCHMARK, OPTION_DURATION, BENCH(idle_wait_ms), 0, 0, 0, NULL, "0", NULL,
     "wait so long at most for the disk to come to rest at the end; 0: not at all", NULL},
    {"usePublicUrl", NULL, IN_BENCHMARK, OPTION_BOOL, BENCH(use_public_url), 0, 0, 0, NULL, "false", NULL,
     "reach volume servers at their public address", NULL},
    {"timeout", NULL, IN_BENCHMARK, OPTION_DURATION, BENCH(timeout_ms), 0, 0, 0, NULL, "60s", NULL, "bound of one request", NULL},
    {"cpuprofile", NULL, IN_BENCHMARK, OPTION_TEXT, BENCH(cpuprofile), 0, 0, 0, NULL, "", "file",
     "write the client's CPU time there", NULL},

    /* modes of the benchmark */
    {"master", "server", IN_MODES, OPTION_TEXT, MODE(masters), 0, 0, 0, NULL, "127.0.0.1:9333", "host:port[,host:port]",
     "the masters", check_addresses},
    {"t", NULL, IN_LISTED, OPTION_U32, MODE(slots), 0, 1, 10000, NULL, "16", NULL, "requests under way at once", NULL},
    {"b", NULL, IN_OBJECTS, OPTION_BYTES, MODE(block_bytes), 0, 1, 2146435072, NULL, "4m", "size", "bytes of one request", NULL},
    {"o", NULL, IN_OBJECTS, OPTION_BYTES, MODE(object_bytes), 0, 0, 2146435072, NULL, "0", "size",
     "size of an object, written whole and read in requests of -b; 0: that of -b", NULL},
    {"max-objects", NULL, IN_OBJECTS, OPTION_U64, MODE(max_objects), 0, 0, 1e12, NULL, "0", NULL,
     "write no more than this many; 0: as many as there is time for", NULL},
    {"no-cleanup", NULL, IN_OBJECTS, OPTION_BOOL, MODE(no_cleanup), 0, 0, 0, NULL, "false", NULL,
     "leave what was written, for seq and rand", NULL},
    {"rw", NULL, IN_RECORDS, OPTION_CHOICE, MODE(rw), 0, 0, 0, "read|write|randread|randwrite|randrw", "read", NULL,
     "write: new needles, in order; randwrite: overwrites of needles that were laid out before", NULL},
    {"bs", NULL, IN_RECORDS, OPTION_BYTES, MODE(record_bytes), 0, 1, 67108864, NULL, "4k", "size",
     "bytes of a record, which is what one request moves", NULL},
    {"needle", NULL, IN_RECORDS, OPTION_BYTES, MODE(needle_bytes), 0, 0, 67108864, NULL, "0", "size",
     "for read and randread: needles of this size, of which a record is a range; 0: each record is a needle", NULL},
    {"numjobs", NULL, IN_RECORDS, OPTION_U32, MODE(jobs), 0, 1, 1024, NULL, "1", NULL,
     "jobs, each with one request under way and records of its own", NULL},
    {"size", NULL, IN_RECORDS, OPTION_BYTES, MODE(file_bytes), 0, 1, 1e15, NULL, "64m", "size", "bytes of the records of each job",
     NULL},
    {"runtime", NULL, IN_RECORDS, OPTION_DURATION, MODE(record_runtime_ms), 0, 0, 0, NULL, "30s", NULL,
     "how long; 0: each record once; write ends when every record was written", NULL},
    {"rwmixread", NULL, IN_RECORDS, OPTION_U32, MODE(read_percent), 0, 0, 100, NULL, "50", "percent", "share of reads in randrw",
     NULL},
    {"ops", NULL, IN_RECORDS, OPTION_BOOL, MODE(ops), 0, 0, 0, NULL, "false", NULL,
     "write, rewrite, read, reread, random read, random write and mixed, each record once, in operations a second", NULL},
    {"r", NULL, IN_RECORDS, OPTION_U64, MODE(ops_record_bytes), 1024, 0, 65536, NULL, "0", "KiB",
     "with -ops: size of a record; 0: that of -bs", NULL},
    {"procs", NULL, IN_RECORDS, OPTION_TEXT, MODE(processes), 0, 0, 0, NULL, "", "int[,int]",
     "a grid: the run once for each of these numbers of jobs", NULL},
    {"clients", NULL, IN_RECORDS, OPTION_TEXT, MODE(clients), 0, 0, 0, NULL, "", "host:port[,host:port]",
     "a grid: the run by one, two, four .. of these agents, and by all", NULL},
    {"no-cleanup", NULL, IN_RECORDS, OPTION_BOOL, MODE(no_cleanup), 0, 0, 0, NULL, "false", NULL,
     "leave what was written", NULL},
    {"listen", NULL, IN_AGENT, OPTION_TEXT, MODE(listen), 0, 0, 0, NULL, "127.0.0.1:9340", "address:port",
     "where to wait for `dfs benchmark records -clients`; whoever reaches it may start a load: nobody is asked who he is", NULL},
    {"listenToAll", NULL, IN_AGENT, OPTION_BOOL, MODE(listen_to_all), 0, 0, 0, NULL, "false", NULL,
     "let -listen be 0.0.0.0 or [::], an address of every network", NULL},
    {"show-time", NULL, IN_OBJECTS, OPTION_BOOL, MODE(show_time), 0, 0, 0, NULL, "false", NULL,
     "the time of day in front of each line of the table", NULL},
    {"sizeMedian", NULL, IN_MIX, OPTION_BYTES, MODE(size_median_bytes), 0, 1, 1073741824, NULL, "16k", "size",
     "half of the objects are smaller; their sizes are log-normal", NULL},
    {"sizeSigma", NULL, IN_MIX, OPTION_DOUBLE, MODE(size_sigma), 0, 0, 5, NULL, "1", NULL,
     "deviation of the sizes' logarithm; 0: all of -sizeMedian", NULL},
    {"sizes", NULL, IN_MIX, OPTION_TEXT, MODE(sizes), 0, 0, 0, NULL, "", "file",
     "sizes from a file instead, a line `BYTES WEIGHT` for each", NULL},
    {"mix", NULL, IN_MIX, OPTION_TEXT, MODE(shares), 0, 0, 0, NULL, "70:25:5", "read:write:delete", "shares of the requests", NULL},
    {"zipf", NULL, IN_MIX, OPTION_DOUBLE, MODE(zipf), 0, 0, 5, NULL, "0.99", NULL,
     "exponent of the popularity of what is read; 0: all alike", NULL},
    {"rate", NULL, IN_MIX, OPTION_DOUBLE, MODE(rate), 0, 0, 1e7, NULL, "0", "requests/s",
     "begin this many a second, whatever the answers do, and count their waiting; 0: as fast as -t allows", NULL},
    {"runtime", NULL, IN_MIX, OPTION_DURATION, MODE(runtime_ms), 0, 0, 0, NULL, "30s", NULL, "how long", NULL},
    {"n", NULL, IN_MIX, OPTION_U64, MODE(preload), 0, 0, 1e9, NULL, "1000", NULL, "objects written before the clock starts", NULL},
    {"run-name", NULL, IN_LISTED, OPTION_TEXT, MODE(run_name), 0, 0, 0, NULL, "default", "name",
     "whose objects: runs of different names never touch each other's", check_run_name},
    {"listDir", NULL, IN_LISTED, OPTION_TEXT, MODE(list_dir), 0, 0, 0, NULL, "", "folder",
     "where the lists of runs are; empty: ~/.cache/dfs/bench", NULL},
    {"no-verify", NULL, IN_LOADS, OPTION_BOOL, MODE(no_verify), 0, 0, 0, NULL, "false", NULL,
     "do not compare what is read with what was written", NULL},
    {"seed", NULL, IN_LOADS, OPTION_U64, MODE(seed), 0, 0, 0, NULL, "0", NULL, "of contents and choices; 0: a random one", NULL},
    {"collection", NULL, IN_LOADS, OPTION_TEXT, MODE(collection), 0, 0, 0, NULL, "benchmark", "name", "collection to write to",
     check_collection},
    {"replication", NULL, IN_LOADS, OPTION_TEXT, MODE(replication), 0, 0, 0, NULL, "", "xyz",
     "replica placement; empty: the master's", check_replication},
    {"fsync", NULL, IN_LOADS, OPTION_BOOL, MODE(fsync), 0, 0, 0, NULL, "false", NULL,
     "ask for each write to be on the disk before it is answered", NULL},
    {"json", NULL, IN_LOADS, OPTION_TEXT, MODE(json), 0, 0, 0, NULL, "", "file", "write the report there as JSON too", NULL},
    {"csv", NULL, IN_LOADS, OPTION_TEXT, MODE(csv), 0, 0, 0, NULL, "", "file", "write the seconds there as CSV", NULL},
    {"svg", NULL, IN_LOADS, OPTION_TEXT, MODE(svg), 0, 0, 0, NULL, "", "file", "draw the run there", NULL},
    {"label", NULL, IN_LOADS, OPTION_TEXT, MODE(label), 0, 0, 0, NULL, "", "text", "name of the run in reports and pictures", NULL},
    {"idleWait", NULL, IN_LOADS, OPTION_DURATION, MODE(idle_wait_ms), 0, 0, 0, NULL, "10s", NULL,
     "wait so long at most for the disk to come to rest at the end; 0: not at all", NULL},
    {"loops", NULL, IN_MODES, OPTION_U32, MODE(loops), 0, 0, 64, NULL, "0", NULL,
     "threads of the client; 0: one for each two cores, at most 4", NULL},
    {"usePublicUrl", NULL, IN_MODES, OPTION_BOOL, MODE(use_public_url), 0, 0, 0, NULL, "false", NULL,
     "reach volume servers at their public address", NULL},
    {"timeout", NULL, IN_MODES, OPTION_DURATION, MODE(timeout_ms), 0, 0, 0, NULL, "60s", NULL, "bound of one request", NULL},

    /* pictures of the benchmark */
    {"svg", NULL, IN_PLOT, OPTION_TEXT, PLOT(svg), 0, 0, 0, NULL, "", "file", "draw the runs there", NULL},
    {"png", NULL, IN_PLOT, OPTION_TEXT, PLOT(png), 0, 0, 0, NULL, "", "file", "the same as PNG, made by rsvg-convert", NULL},
    {"csv", NULL, IN_PLOT, OPTION_TEXT, PLOT(csv), 0, 0, 0, NULL, "", "file", "write the seconds of one run there as CSV", NULL},

    /* tools */
    {"master", "server", IN_TOOLS, OPTION_TEXT, TOOL(server), 0, 0, 0, NULL, "127.0.0.1:9333", "host:port[,host:port]",
     "the masters", check_addresses},
    {"dir", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(dir), 0, 0, 0, NULL, "", "folder", "upload all files below it", NULL},
    {"include", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(include), 0, 0, 0, NULL, "", "pattern",
     "with -dir: only files whose name matches", NULL},
    {"dir", NULL, IN_DOWNLOAD, OPTION_TEXT, TOOL(into), 0, 0, 0, NULL, ".", "folder", "where the files go", NULL},
    {"replication", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(replication), 0, 0, 0, NULL, "", "xyz", "replica placement",
     check_replication},
    {"collection", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(collection), 0, 0, 0, NULL, "", "name", "collection to write to",
     check_collection},
    {"dataCenter", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(data_center), 0, 0, 0, NULL, "", "name", "data center to write to",
     check_collection},
    {"ttl", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(ttl), 0, 0, 0, NULL, "", "ttl", "time to live", check_ttl},
    {"disk", NULL, IN_UPLOAD, OPTION_TEXT, TOOL(disk), 0, 0, 0, NULL, "", "type", "disk type to write to", check_collection},
    {"maxMB", NULL, IN_UPLOAD, OPTION_U64, TOOL(max_bytes), MB, 0, 2047, NULL, "4", "MB",
     "cut larger files into chunks of this size; 0: never", NULL},
    {"fsync", NULL, IN_UPLOAD, OPTION_BOOL, TOOL(fsync), 0, 0, 0, NULL, "false", NULL,
     "ask for each write to be on the disk before it is answered", NULL},
    {"usePublicUrl", NULL, IN_UPLOAD | IN_DOWNLOAD | IN_DELETE, OPTION_BOOL, TOOL(use_public_url), 0, 0, 0, NULL, "false", NULL,
     "reach volume servers at their public address", NULL},
    {"timeout", NULL, IN_TOOLS, OPTION_DURATION, TOOL(timeout_ms), 0, 0, 0, NULL, "60s", NULL, "bound of one request", NULL},

    /* what deployments of the peer pass and dfs does not need */
#define IGNORED(name, scope, why) {name, NULL, scope, OPTION_IGNORED, 0, 0, 0, 0, NULL, NULL, NULL, why, NULL}
/* Boolean with the peer: the word after it is not its value. */
#define IGNORED_FLAG(name, scope, why) {name, NULL, scope, OPTION_IGNORED, 0, 0, 0, 0, NULL, "false", NULL, why, NULL}
    IGNORED_FLAG("raftBootstrap", IN_MASTER, "a single master needs no bootstrap"),
    IGNORED_FLAG("raftHashicorp", IN_MASTER, "dfs has one consensus of its own"),
    IGNORED_FLAG("resumeState", IN_MASTER, "the state is always resumed"),
    IGNORED("electionTimeout", IN_MASTER, "a single master holds no elections"),
    IGNORED("heartbeatInterval", IN_MASTER, "a single master holds no elections"),
    IGNORED_FLAG("telemetry", IN_MASTER, "dfs reports to nobody"),
    IGNORED("telemetry.url", IN_MASTER, "dfs reports to nobody"),
    IGNORED("maxParallelVacuumPerServer", IN_MASTER, "one volume is vacuumed at a time"),
    IGNORED("vacuumDeleteEmptyAfterSeconds", IN_MASTER, "empty volumes are kept"),
    IGNORED("metrics.address", IN_DAEMONS, "metrics are fetched, not pushed"),
    IGNORED("metrics.intervalSeconds", IN_DAEMONS, "metrics are fetched, not pushed"),
    IGNORED("memprofile", IN_DAEMONS, "there is no garbage collector to look at"),
    IGNORED("maxCpu", IN_DAEMONS | IN_BENCHMARK, "use -loops"),
    IGNORED_FLAG("debug", IN_DAEMONS | IN_BENCHMARK | IN_TOOLS, "use -logLevel=debug"),
    IGNORED("debug.port", IN_DAEMONS, "no other port is opened"),
    IGNORED("disk", IN_VOLUME, "every folder is of one type"),
    IGNORED("cacheMB", IN_VOLUME, "what is written stays in the page cache"),
    IGNORED("writeCache", IN_VOLUME, "what is written stays in the page cache"),
    IGNORED("tags", IN_VOLUME, "folders have no tags"),
    IGNORED("inflightUploadDataTimeout", IN_VOLUME, "an upload beyond its limit is answered at once"),
    IGNORED("inflightDownloadDataTimeout", IN_VOLUME, "a download beyond its limit is answered at once"),
    IGNORED("index.leveldbTimeout", IN_VOLUME, "maps stay open"),
    IGNORED_FLAG("images.fix.orientation", IN_VOLUME, "bytes are stored as they are sent"),
    IGNORED_FLAG("cache.enable", IN_VOLUME, "the page cache is the cache"),
    IGNORED_FLAG("hasSlowRead", IN_VOLUME, "slow reads never hold others up"),
    IGNORED("readBufferSizeMB", IN_VOLUME, "large files are sent without a buffer"),
    IGNORED("maintenanceMBps", IN_VOLUME, "use -compactionMBps"),
    IGNORED_FLAG("pprof", IN_VOLUME, "use perf"),
    IGNORED_FLAG("allowUntrustedRemoteEndpoints", IN_VOLUME, "dfs connects to no address from a request"),
#undef IGNORED
#undef IGNORED_FLAG
#define REFUSED(name, scope, why) {name, NULL, scope, OPTION_REFUSED, 0, 0, 0, 0, NULL, NULL, NULL, why, NULL}
    REFUSED("filer", IN_SERVER, "dfs has no filer; the peer's can stand on a dfs master"),
    REFUSED("s3", IN_SERVER, "dfs has no S3 gateway; the peer's can stand on a dfs master"),
    REFUSED("iam", IN_SERVER, "dfs has none"),
    REFUSED("webdav", IN_SERVER, "dfs has none"),
    REFUSED("sftp", IN_SERVER, "dfs has none"),
    REFUSED("mq.broker", IN_SERVER, "dfs has none"),
    REFUSED("mq.agent", IN_SERVER, "dfs has none"),
    REFUSED("disableHttp", IN_MASTER, "clients need HTTP"),
    REFUSED("secure.secret", IN_DAEMONS | IN_BENCHMARK | IN_TOOLS, "signed requests are not built yet"),
#undef REFUSED
};
const size_t option_count = ARRAY_LEN(option_table);

const struct command command_table[CMD_COUNT] = {
    [CMD_SERVER] = {"server", IN_SERVER | IN_MASTER | IN_VOLUME | SHARED, NULL, "a master and a volume server in one process",
                    "dfs server -dir ./data -master.volumeSizeLimitMB 1024", false},
    [CMD_MASTER] = {"master", IN_MASTER, NULL, "a master: ids, places, volumes",
                    "dfs master -mdir ./master -ip 127.0.0.1 -port 9333", false},
    [CMD_VOLUME] = {"volume", IN_VOLUME, NULL, "a volume server: the bytes",
                    "dfs volume -dir /disk1,/disk2 -master 127.0.0.1:9333 -port 8080", false},
    [CMD_BENCHMARK] = {"benchmark", IN_BENCHMARK, NULL, "write objects, read them back, verify and report",
                       "dfs benchmark -server 127.0.0.1:9333 -size 1000000 -n 40000", false},
    [CMD_OBJECTS] = {"benchmark objects", IN_OBJECTS, "SECONDS write|seq|rand", "write or read large objects, a line a second",
                     "dfs benchmark objects 10 write -no-cleanup -run-name a", true},
    [CMD_CLEANUP] = {"benchmark cleanup", IN_CLEANUP, NULL, "delete what `benchmark objects` left",
                     "dfs benchmark cleanup -run-name a", true},
    [CMD_MIX] = {"benchmark mix", IN_MIX, NULL, "reads, writes and deletes of objects of many sizes",
                 "dfs benchmark mix -rate 2000 -runtime 60s", true},
    [CMD_RECORDS] = {"benchmark records", IN_RECORDS, NULL, "small reads and writes in a file system benchmark's patterns",
                     "dfs benchmark records -rw randread -bs 4k -numjobs 16 -size 64m -runtime 60s", true},
    [CMD_AGENT] = {"benchmark agent", IN_AGENT, NULL, "one of several clients of `benchmark records -clients`",
                   "dfs benchmark agent -listen 127.0.0.1:9340 -master 127.0.0.1:9333", true},
    [CMD_PLOT] = {"benchmark plot", IN_PLOT, "REPORT.json ...", "draw reports of the benchmark, on top of one another",
                  "dfs benchmark plot a.json b.json -svg out.svg", true},
    [CMD_UPLOAD] = {"upload", IN_UPLOAD, "[FILE ...]", "store files and print their ids as JSON",
                    "dfs upload -master 127.0.0.1:9333 picture.jpg", false},
    [CMD_DOWNLOAD] = {"download", IN_DOWNLOAD, "FID ...", "fetch files by id",
                      "dfs download -master 127.0.0.1:9333 -dir . 3,01637037d6", false},
    [CMD_DELETE] = {"delete", IN_DELETE, "FID ...", "delete files by id", "dfs delete -master 127.0.0.1:9333 3,01637037d6", false},
};
