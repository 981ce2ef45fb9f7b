#!/usr/bin/env python3
"""Runs the workloads of the systems that dfs is measured against, scaled to minutes, dfs beside a peer where there is one.

usage: seeds.py [--build DIR] [--results FILE.md] [--only 000,001,003,004] [--port N]

Writes a table: seed, workload, published number, dfs here, peer here, ratio.  The published numbers are of other machines:
they say what each workload is, not who is faster.  Client and server share this machine.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import clients
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
MB = 1000000


class Row:
    def __init__(self, seed, workload, unit, here, said=None, peer=None, peer_name='', note=''):
        self.seed, self.workload, self.unit, self.said = seed, workload, unit, said
        self.here, self.peer, self.peer_name, self.note = here, peer, peer_name, note


def modes(setup, *argv):
    """One run of `dfs benchmark MODE ...`; its JSON."""
    out = os.path.join(setup.data, 'mode.json')
    p = subprocess.run([setup.dfs, 'benchmark', *map(str, argv), '-json', out], capture_output=True, text=True, timeout=LIMIT_S,
                       cwd=setup.data)
    if p.returncode != 0:
        raise RuntimeError(f"dfs benchmark {' '.join(map(str, argv))}: exit {p.returncode}: {(p.stdout + p.stderr)[-800:]}")
    with open(out) as f:
        return json.load(f)


def with_dfs(setup, run):
    server = servers.start_store(setup, 'dfs')
    try:
        return run()
    finally:
        server.stop()
        servers.settle()


def peer_or_why(run):
    """(result, why there is none)."""
    try:
        return run(), ''
    except Unavailable as e:
        return None, str(e)


# ---- 000: blobs, by the benchmark of each side ----

def blobs(setup):
    rows = []
    sizes = {(1000000, 16): (1500, 600), (1000000, 100): (1500, 600), (1024, 100): (60000, 15000)}
    for (size, c), (ours, theirs) in sizes.items():
        got = {}
        for kind, n in (('dfs', ours), ('weed', theirs)):
            server = servers.start_store(setup, kind)
            try:
                got[kind] = {op: clients.own_benchmark(setup, server, op, size, n, c) for op in ('write', 'read')}
            finally:
                server.stop()
                servers.settle()
        for op in ('write', 'read'):
            failed = {k: got[k][op]['failed'] for k in got if got[k][op]['failed']}
            rows.append(Row('000 SeaweedFS', f"{op} {ours if op == 'write' else 'all'} x {size:,} B, c={c}", 'requests/s',
                            got['dfs'][op]['requests_per_s'], published.BLOBS.get((size, c, op)), got['weed'][op]['requests_per_s'],
                            f'weed 4.48, {theirs:,} of them, not durable', f'FAILED {failed}' if failed else ''))
    return rows


# ---- 001: a grid of patterns, records for a file system's blocks ----

def start_agents(setup, n):
    out = []
    for i in range(n):
        port = setup.other + 1 + i
        out.append((f'127.0.0.1:{port}', rig.Process([setup.dfs, 'benchmark', 'agent', '-listen', f'127.0.0.1:{port}', '-master',
                                                      setup.master], setup.data, f'agent{i}')))
        servers.wait_for_port(port)
    return out


def grid_cells(setup, pattern, block, job, agents=''):
    more = ['-clients', agents] if agents else []
    r = modes(setup, 'records', '-master', setup.master, '-rw', pattern, '-bs', block, '-size', job, '-runtime', f'{CELL_S}s',
              '-idleWait', '0', '-procs', ','.join(map(str, published.CUBEFS_PROCS)), *more)
    g = r['grids'][0]
    return {clients_n: [c['requests_per_s'] for c in cells] for clients_n, cells in zip(g['clients'], g['cells'])}


def grid(setup):
    rows = []
    for pattern, block, job in (('read', '128k', '4m'), ('write', '128k', '16m'), ('randread', '4k', '1m'), ('randwrite', '4k', '1m')):
        def ours(pattern=pattern, block=block, job=job):
            cells = grid_cells(setup, pattern, block, job)
            agents = start_agents(setup, 2)
            try:
                more = grid_cells(setup, pattern, block, job, ','.join(a for a, _ in agents))
            finally:
                for _, p in agents:
                    p.end()
            return {1: cells[1], 2: more[2]}
        here = with_dfs(setup, ours)
        setup.folder()
        disk, why = peer_or_why(lambda pattern=pattern, block=block: fio.grid(setup.data, pattern, block, published.CUBEFS_PROCS,
                                                                              '16m', CELL_S))
        for n in (1, 2):
            rows.append(Row('001 CubeFS', f'{pattern} {block}, {n} client{"s" if n > 1 else ""}, 1/4/16/64 processes', 'IOPS', here[n],
                            published.CUBEFS[pattern, block, n], [disk[p]['iops'] for p in published.CUBEFS_PROCS] if disk and n == 1
                            else None, 'this disk by fio, psync, direct' if disk and n == 1 else why))
    return rows


# ---- 003: large objects ----

def objects(setup):
    rows, lists = [], os.path.join(setup.folder(), 'lists')

    def ours():
        os.makedirs(lists)
        out = {}
        for mode, t in published.RADOS:
            name = 'a' if t == 16 else f'b{t}'
            keep = ['-no-cleanup'] if mode == 'write' and t == 16 else []
            r = modes(setup, 'objects', OBJECTS_S, mode, '-master', setup.master, '-t', t, '-b', '4m', '-run-name', name, '-listDir', lists,
                      '-idleWait', '0', *keep)
            out[mode, t] = r['phases'][0]['bytes_per_s'] / 1048576
        return out
    here = with_dfs(setup, ours)
    setup.folder()
    peer, why = peer_or_why(lambda: rados.bench(setup.data, published.RADOS, OBJECTS_S))
    for key in published.RADOS:
        rows.append(Row('003 Ceph', f'objects of 4 MiB, {key[0]}, {key[1]} under way, {OBJECTS_S} s', 'MiB/s', here[key], published.RADOS[key],
                        peer and peer[key], 'rados bench, one OSD here' if peer else why))
    return rows


# ---- 004: the rows of a file system's own benchmark ----

def operations(setup):
    rows = []
    for jobs, job, job_bytes in ((1, '32m', 32 << 20), (15, '8m', 8 << 20)):
        def ours(jobs=jobs, job=job):
            r = modes(setup, 'records', '-master', setup.master, '-ops', '-r', '32', '-numjobs', jobs, '-size', job, '-idleWait', '0')
            return {p['name']: p['requests_per_s'] for p in r['phases']}
        here = with_dfs(setup, ours)
        setup.folder()
        disk, why = peer_or_why(lambda jobs=jobs, job_bytes=job_bytes: fio.operations(setup.data, '32k', jobs, job_bytes))
        for op in published.OPERATIONS:
            rows.append(Row('004 iozone', f"{op}, records of 32 KiB, {jobs} thread{'s' if jobs > 1 else ''}", 'ops/s',
                            sum(v for k, v in here.items() if k == op or (op == 'mixed' and k.startswith('mixed'))),
                            published.IOZONE[jobs].get(op), disk and disk[op], 'this disk by fio, psync, direct' if disk else why))
    return rows


SEEDS = {'000': blobs, '001': grid, '003': objects, '004': operations}


# ---- the table ----

def text_of(v):
    if v is None:
        return '-'
    if isinstance(v, (tuple, list)):
        return ' / '.join(text_of(x) for x in v)
    return f'{v:,.0f}' if abs(v) >= 100 else f'{v:,.2f}'


def ratio(here, peer):
    if peer is None:
        return '-'
    if isinstance(here, (tuple, list)):
        return ' / '.join(ratio(a, b) for a, b in zip(here, peer))
    return f'{here / peer:.2f}' if peer else '-'


def machine_text(m):
    return (f"{m['model']}, {m['cores']} cores, {m['memory_gib']} GiB, Linux {m['kernel']}, {m['filesystem']}; {m['date']}, commit "
            f"{m['commit']}.")


def table(rows, machine, seconds):
    out = ['# The seeds\' workloads', '',
           f'{machine}', '',
           f'Command: `make seeds` ({seconds / 60:.0f} minutes). Each workload is scaled to seconds; client and server share the machine. The',
           'published numbers are of other machines and of their time (for iozone: Quobyte / BeeGFS): they say what each workload is.',
           'dfs answers a write when it is on the disk (`group`). "Records" are blobs over HTTP and no file system; what dfs reads here comes',
           'from the page cache, what fio reads from the disk. A ratio is dfs : peer.', '',
           '| seed | workload | unit | published | dfs here | peer here | ratio | peer, remarks |', '| --- | --- | --- | --- | --- | --- | --- | --- |']
    for r in rows:
        out.append(f'| {r.seed} | {r.workload} | {r.unit} | {text_of(r.said)} | {text_of(r.here)} | {text_of(r.peer)} | '
                   f'{ratio(r.here, r.peer)} | {"; ".join(x for x in (r.peer_name, r.note) if x)} |')
    for line in published.SHEEPDOG:
        out.append(f'| 002 Sheepdog | {line.rsplit(":", 1)[0]} | IOPS |{line.rsplit(":", 1)[1].replace(" IOPS", "")} | - | - | - | '
                   'needs a block device, which dfs does not have |')
    out += ['', 'The write cliff of 000 (a disk of 120 MB/s, 1 GiB of dirty pages) is a test of `make bench`: [RESULTS.md](RESULTS.md).', '']
    return '\n'.join(out)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('--build', default=os.path.join(servers.ROOT, 'build/release'))
    a.add_argument('--results', default=os.path.join(servers.ROOT, 'build/bench/SEEDS.md'))
    a.add_argument('--only', default=','.join(SEEDS))
    a.add_argument('--port', type=int, default=28400)
    o = a.parse_args()
    setup = servers.Setup(os.path.abspath(os.path.join(o.build, 'dfs')), os.path.abspath(o.build), o.port)
    setup.weed = rig.weed_binary()
    setup.folder()
    rows, bad, start = [], 0, time.monotonic()
    for name in o.only.split(','):
        began = time.monotonic()
        try:
            rows += SEEDS[name](setup)
        except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            bad += 1
            print(f'{name}: FAILED: {e}', file=sys.stderr)
        print(f'{name}: {time.monotonic() - began:.0f} s', file=sys.stderr, flush=True)
    bad += sum('FAILED' in r.note for r in rows)
    text = table(rows, machine_text(report.machine(setup.data)), time.monotonic() - start)
    shutil.rmtree(setup.data, ignore_errors=True)
    os.makedirs(os.path.dirname(os.path.abspath(o.results)), exist_ok=True)
    with open(o.results, 'w') as f:
        f.write(text)
    with open(os.path.join(servers.ROOT, 'build/bench/seeds.json'), 'w') as f:
        json.dump([vars(r) for r in rows], f, indent=1)
    print(text)
    print(f'{len(rows)} rows, {bad} failed')
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
