/* What the modes have in common. */
#include "bench/mode.h"

void mode_options_init(struct mode_options *o)
{
    *o = (struct mode_options){
        .masters = "127.0.0.1:9333",
        .collection = "benchmark",
        .replication = "",
        .timeout_ms = 60000,
        .slots = 16,
        .json = "",
        .csv = "",
        .svg = "",
        .label = "",
        .list_dir = "",
        .run_name = "default",
        .idle_wait_ms = 10000,
        .block_bytes = 4u << 20,
        .size_median_bytes = 16384,
        .size_sigma = 1,
        .sizes = "",
        .shares = "70:25:5",
        .zipf = 0.99,
        .runtime_ms = 30000,
        .preload = 1000,
        .record_bytes = 4096,
        .jobs = 1,
        .file_bytes = 64u << 20,
        .record_runtime_ms = 30000,
        .read_percent = 50,
        .processes = "",
        .clients = "",
        .listen = "127.0.0.1:9340",
    };
}
