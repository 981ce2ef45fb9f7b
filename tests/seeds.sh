#!/bin/sh
# The workloads of the systems that dfs is measured against, in minutes, each beside its peer: tests/bench/seeds.py says how.
# Ceph takes part where it is installed (apt install ceph-mon ceph-osd ceph-common), fio and nginx by `make deps-bench`.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
make --no-print-directory B="$build" dfs
exec python3 tests/bench/seeds.py --build "$build" "$@"
