#!/usr/bin/env python3
"""Measures dfs beside its peer, nginx and a floor, interleaved, and says how far each target is.

usage: bench.py [--quick] [--rounds N] [--only TEST[,TEST ...]] [--build DIR] [--results FILE.md] [--plot FILE.svg]
                [--records FILE.jsonl] [--port N] [--report-only]

Rounds are outermost, tests inside, servers innermost, so that what else the machine does hits all alike.  Each server starts
fresh in an empty folder.  Nothing here fails because a machine is slow: the exit status says only whether it could measure.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import time

import clients
import report
import servers
import special
from servers import rig

KB, MB = 1024, 1000000
STORES = ('dfs', 'dfs-none', 'weed')


class Sizes:
    """How much of everything; dfs gets more requests than weed, so that both run for seconds."""

    def __init__(self, quick):
        self.rounds = 1 if quick else 3
        self.small = {'weed': 15000 if quick else 40000, 'dfs': 80000 if quick else 300000}
        self.large = {'weed': 500 if quick else 1500, 'dfs': 1200 if quick else 3000}
        self.fill_small = 10000 if quick else 20000
        self.fill_large = 200 if quick else 500
        self.wrk_s = 3 if quick else 6
        self.calls_s = 2

    def n(self, size, kind):
        table = self.small if size == KB else self.large
        return table['weed' if kind == 'weed' else 'dfs']


def by_own_benchmark(setup, sizes, kind, size, c):
    server = servers.start_store(setup, kind)
    try:
        n = sizes.n(size, kind)
        w = clients.own_benchmark(setup, server, 'write', size, n, c)
        r = clients.own_benchmark(setup, server, 'read', size, n, c)
        return {'write': w, 'read': r, 'rss_mb': server.rss_mb()}
    finally:
        server.stop()


def by_wrk_get(setup, sizes, kind, size, connections):
    count = sizes.fill_small if size == KB else sizes.fill_large
    if kind == 'nginx':
        server = servers.start_nginx(setup, size, count)
    elif kind == 'floor':
        server = servers.start_floor(setup, size + 31)
    else:
        server = servers.start_store(setup, kind)
    try:
        if kind in STORES:
            clients.dfs_benchmark(setup, server, 'write', size, count, 16)
            settle_needles(setup)
        lines = os.path.join(setup.data, 'list.txt')
        # one pass unmeasured: caches of descriptors and pages are warm for all
        clients.wrk(setup, server, 'get.lua', connections, 1, [lines])
        return {'read': clients.wrk(setup, server, 'get.lua', connections, sizes.wrk_s, [lines]), 'rss_mb': server.rss_mb()}
    finally:
        server.stop()


def settle_needles(_setup):
    """What was just written is flushed, so that no write-back runs beside the reads."""
    os.sync()
    time.sleep(0.3)


def by_wrk_post(setup, sizes, kind, size, connections):
    server = servers.start_store(setup, kind)
    try:
        path = os.path.join(setup.data, 'ranges.txt')
        volumes = servers.ranges(setup, path)
        r = clients.wrk(setup, server, 'post.lua', connections, sizes.wrk_s, [path, size])
        return {'write': r, 'volumes': volumes, 'rss_mb': server.rss_mb()}
    finally:
        server.stop()


def by_wrk_assign(setup, sizes, kind, connections):
    server = servers.start_store(setup, kind)
    try:
        path = os.path.join(setup.data, 'assign.txt')
        with open(path, 'w') as f:
            f.write('dir/assign?collection=benchmark\n')
        r = clients.wrk(setup, server, 'get.lua', connections, sizes.wrk_s, [path], url=f'http://{setup.master}')
        return {'assign': r, 'rss_mb': server.rss_mb()}
    finally:
        server.stop()


def calls_of_get(setup, sizes, kind, connections):
    if kind == 'nginx':
        server = servers.start_nginx(setup, KB, 1000)
    elif kind == 'floor':
        server = servers.start_floor(setup, KB + 31)
    else:
        server = servers.start_store(setup, kind)
    try:
        if kind in STORES:
            clients.dfs_benchmark(setup, server, 'write', KB, 1000, 16)
        lines = os.path.join(setup.data, 'list.txt')
        clients.wrk(setup, server, 'get.lua', connections, 1, [lines])
        return {'calls': clients.count_calls(setup, server, connections, sizes.calls_s, [lines])}
    finally:
        server.stop()


# name: (servers, function of (setup, sizes, kind), every round?, in a quick run?)
TESTS = {
    '1k16': (STORES, lambda s, z, k: by_own_benchmark(s, z, k, KB, 16), True, True),
    '1k16-growth1': (('dfs-growth1',), lambda s, z, k: by_own_benchmark(s, z, k, KB, 16), True, False),
    '1k100': (STORES, lambda s, z, k: by_own_benchmark(s, z, k, KB, 100), True, True),
    '1m16': (STORES, lambda s, z, k: by_own_benchmark(s, z, k, MB, 16), True, True),
    '1m100': (STORES, lambda s, z, k: by_own_benchmark(s, z, k, MB, 100), True, False),
    'get64': (('floor', 'dfs', 'nginx', 'weed'), lambda s, z, k: by_wrk_get(s, z, k, KB, 64), True, True),
    'get1m16': (('dfs', 'nginx', 'weed'), lambda s, z, k: by_wrk_get(s, z, k, MB, 16), True, True),
    'post64': (STORES, lambda s, z, k: by_wrk_post(s, z, k, KB, 64), True, True),
    'assign16': (('dfs', 'weed'), lambda s, z, k: by_wrk_assign(s, z, k, 16), True, True),
    'calls1': (('floor', 'dfs', 'nginx'), lambda s, z, k: calls_of_get(s, z, k, 1), False, True),
    'calls16': (('floor', 'dfs', 'nginx'), lambda s, z, k: calls_of_get(s, z, k, 16), False, True),
    'idle': (('dfs',), special.idle_connections, False, False),
    'startup': (('dfs',), special.start_up, False, False),
    'fio': (('fio',), special.disk_limit, False, False),
    'cold': (('dfs',), special.cold_reads, False, False),
    'cliff': (('dfs', 'weed'), special.cliff, False, False),
    'cliff-raid10': (('dfs', 'weed'), special.cliff_raid10, False, False),
}


def brief(record):
    out = []
    for op in ('write', 'read', 'assign'):
        if op in record:
            r = record[op]
            out.append(f"{op} {r['requests_per_s']:,.0f}/s p99 {r['p99']} ms, server {r['server_us']:.1f} us, "
                       f"client {r['client_us']:.1f} us" + (f", {r['failed']:.0f} FAILED" if r['failed'] else ''))
    if 'calls' in record:
        out.append(f"{record['calls']['calls']:.2f} calls/request {record['calls']['names']}")
    out += [f'{k} {record[k]}' for k in record if k in ('skipped', 'error', 'figures')]
    return '; '.join(out)


def run(options, setup, sizes):
    chosen = [t for t in options.only.split(',') if t] or [t for t in TESTS if TESTS[t][3] or not options.quick]
    bad = 0
    with open(options.records, 'w') as records:
        records.write(json.dumps({'machine': report.machine(setup.data), 'quick': options.quick, 'rounds': sizes.rounds}) + '\n')
        for number in range(sizes.rounds):
            for test in chosen:
                kinds, function, every_round, _ = TESTS[test]
                if number > 0 and not every_round:
                    continue
                for kind in kinds:
                    record = {'test': test, 'kind': kind, 'round': number}
                    try:
                        servers.settle()
                        clients.other_shares.clear()
                        record.update(function(setup, sizes, kind))
                    except special.Unavailable as e:
                        record['skipped'] = str(e)
                    except (RuntimeError, OSError, ValueError, KeyError, statistics.StatisticsError) as e:
                        record['error'] = repr(e)[-1000:]
                        bad += 1
                    if clients.other_shares:
                        record['others'] = max(clients.other_shares)
                    records.write(json.dumps(record) + '\n')
                    records.flush()
                    print(f"{time.strftime('%H:%M:%S')} {test} {kind} {number}: {brief(record)}", file=sys.stderr, flush=True)
    return bad


def main():
    build = os.path.join(servers.ROOT, 'build/release')
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('--quick', action='store_true')
    a.add_argument('--rounds', type=int, default=0)
    a.add_argument('--only', default='')
    a.add_argument('--build', default=build)
    a.add_argument('--port', type=int, default=26100)
    a.add_argument('--records', default='')
    a.add_argument('--results', default='')
    a.add_argument('--plot', default='')
    a.add_argument('--report-only', action='store_true', help='only write the report of --records anew')
    o = a.parse_args()
    o.build = os.path.abspath(o.build)
    os.makedirs(os.path.join(servers.ROOT, 'build/bench'), exist_ok=True)
    o.records = o.records or os.path.join(servers.ROOT, 'build/bench/records.jsonl')
    bad = 0
    if not o.report_only:
        for program in ('wrk', 'nginx', 'strace'):
            if shutil.which(program) is None and not os.path.exists('/usr/sbin/' + program):
                sys.exit(f'no {program}: run `make deps-bench`')
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
        setup = servers.Setup(os.path.join(o.build, 'dfs'), o.build, o.port)
        setup.weed = rig.weed_binary()
        sizes = Sizes(o.quick)
        sizes.rounds = o.rounds or sizes.rounds
        setup.folder()
        bad = run(o, setup, sizes)
    text, plot = report.make(o.records)
    print(text)
    if o.results:
        with open(o.results, 'w') as f:
            f.write(text)
    if o.plot and plot:
        with open(o.plot, 'w') as f:
            f.write(plot)
    print(f'records: {o.records}', file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
