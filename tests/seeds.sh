#!/bin/sh
# The workloads of the systems that dfs is measured against, in minutes, each beside its peer: tests/bench/seeds.py says how.
# `make deps-seeds` installs the peers, weed comes by pip; one that is not there leaves its cells empty.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
make --no-print-directory B="$build" dfs
exec python3 tests/bench/seeds.py --build "$build" "$@"
