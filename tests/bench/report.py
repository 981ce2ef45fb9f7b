"""Turns the records of a run into the table of targets, the table of figures, and the plot of the cliff test."""
import json
import os
import platform
import re
import statistics
import subprocess
import time

import plot
from servers import ROOT


def first(path, pattern):
    try:
        with open(path) as f:
            m = re.search(pattern, f.read(), re.M)
            return m.group(1).strip() if m else '?'
    except OSError:
        return '?'


def output(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()
    except OSError:
        return ''


def machine(folder):
    memory = first('/proc/meminfo', r'^MemTotal:\s+(\d+)')
    changed = output('git', 'status', '--porcelain', '--untracked-files=no', '--', '*.c', '*.h')
    return {'model': first('/proc/cpuinfo', r'^model name\s*:\s*(.*)$'), 'cores': os.cpu_count(),
            'memory_gib': round(int(memory) / 1048576, 1) if memory.isdigit() else memory, 'kernel': platform.release(),
            'filesystem': output('findmnt', '-no', 'FSTYPE', '-T', folder) or '?',
            'commit': output('git', 'rev-parse', '--short', 'HEAD') + (' with changes' if changed else ''),
            'date': time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime()), 'nginx': nginx_version()}


def nginx_version():
    for name in ('nginx', '/usr/sbin/nginx'):
        try:
            return subprocess.run([name, '-v'], capture_output=True, text=True, check=False).stderr.strip().split('/')[-1]
        except OSError:
            continue
    return '?'


class Records:
    """Medians over the rounds."""

    def __init__(self, lines):
        self.head, self.rows = lines[0], lines[1:]

    def values(self, test, kind, op, field):
        out = []
        for r in self.rows:
            v = (r.get(op) or {}).get(field) if field else r.get(op)
            if r['test'] == test and r['kind'] == kind and v is not None:
                out.append((r['round'], v))
        return out

    def median(self, test, kind, op, field=None):
        v = [x for _, x in self.values(test, kind, op, field)]
        return statistics.median(v) if v else None

    def ratio(self, over, under):
        """Median over rounds of a quotient taken inside each round: (test, kind, op, field) each."""
        a, b = dict(self.values(*over)), dict(self.values(*under))
        q = [a[i] / b[i] for i in a if b.get(i)]
        return statistics.median(q) if q else None

    def figure(self, test, kind, name):
        return self.median(test, kind, 'figures', name)


def quotient(a, b):
    return a / b if a is not None and b else None


class Row:
    """What is measured against a target; at_most: smaller is better."""

    def __init__(self, what, target, value, at_most=True, unit='', detail='', digits=2):
        # what is printed is what is judged
        value = None if value is None else round(value, digits)
        self.digits = digits
        self.what, self.target, self.value, self.at_most, self.unit, self.detail = what, target, value, at_most, unit, detail

    def cells(self):
        sign = '<=' if self.at_most else '>='
        if self.value is None:
            return f'| {self.what} | {sign} {self.target:g}{self.unit} | not measured | - | |'
        met = self.value <= self.target if self.at_most else self.value >= self.target
        digits = 0 if self.value >= 1000 else self.digits
        return (f'| {self.what} | {sign} {self.target:,g}{self.unit} | {self.value:,.{digits}f}{self.unit} | '
                f"{'met' if met else 'missed'} | {self.detail} |")


def us(r, test, kind, op):
    v = r.median(test, kind, op, 'server_us')
    return '-' if v is None else f'{v:.1f}'


def rate(r, test, kind, op):
    v = r.median(test, kind, op, 'requests_per_s')
    return '-' if v is None else f'{v:,.0f}'


def cpu_rows(r):
    out = []
    for other, target in (('floor', 1.35), ('nginx', 0.75), ('weed', 0.17)):
        out.append(Row(f'GET 1 KB, server CPU a request, dfs : {other}', target,
                       r.ratio(('get64', 'dfs', 'read', 'server_us'), ('get64', other, 'read', 'server_us')),
                       detail=f"{us(r, 'get64', 'dfs', 'read')} us : {us(r, 'get64', other, 'read')} us"))
    for c, target in ((1, 4), (16, 3.3)):
        names = r.values(f'calls{c}', 'dfs', 'calls', 'names')
        out.append(Row(f'system calls of a 1 KB GET, c={c}', target, r.median(f'calls{c}', 'dfs', 'calls', 'calls'), digits=1,
                       detail=', '.join(f'{k} {v:g}' for k, v in names[0][1].items()) if names else ''))
    put, get, weed = us(r, 'post64', 'dfs-none', 'write'), us(r, 'get64', 'dfs', 'read'), us(r, 'post64', 'weed', 'write')
    out.append(Row('PUT 1 KB (form), `none`, server CPU, against GET', 1.9,
                   r.ratio(('post64', 'dfs-none', 'write', 'server_us'), ('get64', 'dfs', 'read', 'server_us')), detail=f'{put} us : {get} us'))
    out.append(Row('the same, dfs : weed', 0.2, r.ratio(('post64', 'dfs-none', 'write', 'server_us'), ('post64', 'weed', 'write', 'server_us')),
                   detail=f'{put} us : {weed} us'))
    return out


def rate_row(r, what, target, test, op, kind, other):
    return Row(what, target, r.ratio((test, kind, op, 'requests_per_s'), (test, other, op, 'requests_per_s')), at_most=False,
               detail=f'{rate(r, test, kind, op)}/s : {rate(r, test, other, op)}/s')


def benchmark_rows(r):
    out = [
        rate_row(r, 'PUT 1 KB c=100, `group` : `none`', 0.5, '1k100', 'write', 'dfs', 'dfs-none'),
        rate_row(r, 'PUT 1 KB c=100, `group` : weed (not durable)', 2, '1k100', 'write', 'dfs', 'weed'),
        rate_row(r, 'benchmark 1 KB c=16 writes, `none` : weed', 10, '1k16', 'write', 'dfs-none', 'weed'),
        rate_row(r, 'benchmark 1 KB c=16 reads, `none` : weed', 8, '1k16', 'read', 'dfs-none', 'weed'),
        rate_row(r, 'benchmark 1 KB c=16 writes, `group` : weed (not durable)', 4, '1k16', 'write', 'dfs', 'weed'),
        rate_row(r, '1 MB c=16 writes, `group` : weed (not durable)', 3, '1m16', 'write', 'dfs', 'weed'),
        rate_row(r, '1 MB c=16 writes, `none` : weed', 3, '1m16', 'write', 'dfs-none', 'weed'),
        rate_row(r, '1 MB c=16 reads, dfs : weed', 3, '1m16', 'read', 'dfs', 'weed'),
    ]
    for kind in ('dfs', 'dfs-none'):
        out.append(Row(f"1 MB write, server CPU, {'`group`' if kind == 'dfs' else '`none`'} : weed", 0.3,
                       r.ratio(('1m16', kind, 'write', 'server_us'), ('1m16', 'weed', 'write', 'server_us')),
                       detail=f"{us(r, '1m16', kind, 'write')} us : {us(r, '1m16', 'weed', 'write')} us"))
    out.append(Row('1 MB hot GET, server CPU, dfs : nginx', 1.1,
                   r.ratio(('get1m16', 'dfs', 'read', 'server_us'), ('get1m16', 'nginx', 'read', 'server_us')),
                   detail=f"{us(r, 'get1m16', 'dfs', 'read')} us : {us(r, 'get1m16', 'nginx', 'read')} us"))
    disk, ours = r.figure('fio', 'fio', 'direct_mb_s'), r.median('1m16', 'dfs', 'write', 'bytes_per_s')
    out.append(Row('1 MB c=16 writes, `group`, MB/s : fio, same depth, growing file', 0.8, quotient(ours and ours / 1e6, disk), at_most=False,
                   detail=f"{(ours or 0) / 1e6:,.0f} : {disk or 0:,.0f} MB/s; counts where the disk is the limit"))
    return out


def cliff_rows(r, test='cliff', where=''):
    f = lambda name, kind='dfs': r.figure(test, kind, name)  # noqa: E731
    weed = '' if f('median', 'weed') is None else ', weed {:.2f}'
    out = [Row(f'cliff{where}: slowest second : median', 0.85, f('slowest_to_median'), at_most=False,
               detail=f"{f('slowest') or 0:.0f} : {f('median') or 0:.0f} objects/s" + (weed and weed.format(f('slowest_to_median', 'weed')))),
           Row(f'cliff{where}: slowest second : best three', 0.8, f('slowest_to_best3'), at_most=False,
               detail=f"best three {f('best3') or 0:.0f}/s" + (weed and weed.format(f('slowest_to_best3', 'weed')))),
           Row(f'cliff{where}: seconds at zero', 0, f('seconds_at_zero'),
               detail=f"of {f('seconds') or 0:.0f}" + (weed and f", weed {f('seconds_at_zero', 'weed'):.0f}"))]
    for name, target in (('p999', 3), ('max', 10)):
        q = [quotient(r.median(test, k, 'write', name), r.median(test, k, 'write', 'p50')) for k in ('dfs', 'weed')]
        out.append(Row(f'cliff{where}: {"p99.9" if name == "p999" else "max"} : p50', target, q[0],
                       detail=f"{r.median(test, 'dfs', 'write', name) or 0:.0f} : {r.median(test, 'dfs', 'write', 'p50') or 0:.0f} ms" +
                       (f', weed {q[1]:.1f}' if q[1] else '')))
    return out


def other_rows(r):
    cold = quotient(r.figure('cold', 'dfs', 'beside'), r.figure('cold', 'dfs', 'alone'))
    out = [Row('hot GETs beside cold reads : alone', 0.8, cold, at_most=False,
               detail=f"{r.figure('cold', 'dfs', 'beside') or 0:,.0f}/s : {r.figure('cold', 'dfs', 'alone') or 0:,.0f}/s, "
               f"{r.figure('cold', 'dfs', 'cold') or 0:,.0f} cold/s")]
    out.append(Row('index memory, bytes a needle, resident', 22, r.figure('startup', 'dfs', 'again_bytes_per_needle')))
    out.append(Row('index memory, bytes a needle, peak', 24, r.figure('startup', 'dfs', 'again_peak_bytes_per_needle'),
                   detail='at loading; growth while writing is not measured here'))
    out.append(Row('start-up, index rows a CPU second', 5e6, r.figure('startup', 'dfs', 'again_rows_per_cpu_s'), at_most=False,
                   detail=f"first time {r.figure('startup', 'dfs', 'first_rows_per_cpu_s') or 0:,.0f}; port after "
                   f"{r.figure('startup', 'dfs', 'again_port_s') or 0:.2f} s, all there after {r.figure('startup', 'dfs', 'again_s') or 0:.2f} s"))
    out.append(Row('RSS of master + volume server, 1 KB benchmark, dfs : weed', 0.25, r.ratio(('1k16', 'dfs', 'rss_mb', None), ('1k16', 'weed', 'rss_mb', None)),
                   detail=f"{r.median('1k16', 'dfs', 'rss_mb') or 0:.0f} : {r.median('1k16', 'weed', 'rss_mb') or 0:.0f} MiB"))
    out.append(Row('RSS under 1 MB, c=100', 256, r.median('1m100', 'dfs', 'rss_mb'), unit=' MiB'))
    out.append(Row('10,000 idle connections, bytes each', 1024, r.figure('idle', 'dfs', 'bytes_each')))
    out.append(Row('a burst of 8,000 connects, taken', 8000, r.figure('idle', 'dfs', 'burst_taken'), at_most=False))
    for test, size, target in (('1k16', '1 KB', 1.3), ('1m16', '1 MB', 1.0)):
        for op in ('write', 'read'):
            out.append(Row(f'client CPU : server CPU, {size} {op}s', target,
                           r.ratio((test, 'dfs', op, 'client_us'), (test, 'dfs', op, 'server_us')),
                           detail=f"{r.median(test, 'dfs', op, 'client_us') or 0:.1f} us : {us(r, test, 'dfs', op)} us"))
    assign = r.median('assign16', 'dfs', 'assign', 'server_us')
    out.append(Row('/dir/assign c=16, answers a CPU second', 1e5, 1e6 / assign if assign else None, at_most=False,
                   detail=f"{rate(r, 'assign16', 'dfs', 'assign')}/s beside the client; weed {rate(r, 'assign16', 'weed', 'assign')}/s"))
    return out


def target_table(r):
    rows = cpu_rows(r) + benchmark_rows(r)
    for test, where in (('cliff', ''), ('cliff-raid10', ' on RAID10')):
        if any(x['test'] == test and 'figures' in x for x in r.rows):
            rows += cliff_rows(r, test, where)
    rows += other_rows(r)
    return ['| what | target | measured | | figures |', '| --- | --- | --- | --- | --- |'] + [x.cells() for x in rows]


def cell(v, digits=2):
    return '-' if v is None else f'{v:,.{digits}f}'


def figure_table(r):
    out = ['| test | op | server | rounds | requests/s (min .. max) | p50 | p99 | p99.9 | max ms | server us | client us | RSS MiB | failed |',
           '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |']
    seen = []
    for row in r.rows:
        for op in ('write', 'read', 'assign'):
            key = (row['test'], op, row['kind'])
            if op in row and key not in seen:
                seen.append(key)
    tests = list(dict.fromkeys(x['test'] for x in r.rows))
    for test, op, kind in sorted(seen, key=lambda k: (tests.index(k[0]), k[1] != 'write')):
        v = [x for _, x in r.values(test, kind, op, 'requests_per_s')]
        worst = max([x for _, x in r.values(test, kind, op, 'max')], default=None)
        m = lambda name: r.median(test, kind, op, name)  # noqa: E731
        out.append(f"| {test} | {op} | {kind} | {len(v)} | {cell(m('requests_per_s'), 0)} ({min(v):,.0f} .. {max(v):,.0f}) | {cell(m('p50'))} | "
                   f"{cell(m('p99'))} | {cell(m('p999'))} | {cell(worst, 1)} | {cell(m('server_us'), 1)} | {cell(m('client_us'), 1)} | "
                   f"{cell(r.median(test, kind, 'rss_mb'), 0)} | {sum(x for _, x in r.values(test, kind, op, 'failed')):.0f} |")
    return out


def call_table(r):
    out = []
    for row in r.rows:
        if 'calls' in row:
            out.append(f"| {row['test'][5:]} | {row['kind']} | {row['calls']['calls']:.2f} | " +
                       ', '.join(f'{k} {v:g}' for k, v in row['calls']['names'].items()) + ' |')
    return out and ['| c | server | calls a request | which |', '| --- | --- | --- | --- |'] + out


LEGEND = '''Tests: `1k16`, `1k100`, `1m16`, `1m100` are each program's own benchmark (1 KB or 1 MB, 16 or 100 clients, master
included); `get64`, `get1m16`, `post64` are wrk on the volume server alone (random ids of a list; forms); `assign16` is wrk on the
master; `cliff` writes 1 MB objects (the client of dfs for both) to a disk of 120 MB/s with at most 1 GiB of dirty pages. Servers:
`dfs` in its default (`group`: an answer means flushed), `dfs-none` with `-durability none`, which is what weed does, `weed` 4.48,
`nginx` with static files, `floor` a bare epoll loop that answers a constant. Server and client CPU are microseconds a request, of
all threads. Client and server share the machine. Medians over the rounds; a ratio is taken inside each round.'''


def others_line(r):
    """How quiet the machine was: what else ran, the kernel's own threads included."""
    v = [x['others'] for x in r.rows if 'others' in x]
    if not v:
        return ''
    return (f'Share of the CPUs that neither server nor client used while they ran: median {statistics.median(v):.0%}, at most '
            f'{max(v):.0%} (kernel threads that write to the disk, and whatever else ran).')


def make(path):
    """(text of RESULTS.md, SVG of the cliff test or None) of a file of records."""
    with open(path) as f:
        r = Records([json.loads(line) for line in f])
    m = r.head['machine']
    text = ['# What `make bench` measured', '',
            f"{m['model']}, {m['cores']} cores, {m['memory_gib']} GiB, Linux {m['kernel']}, {m['filesystem']}; nginx {m['nginx']}; "
            f"{m['date']}, commit {m['commit']}.", '',
            f"Commands: `make {'bench-quick' if r.head['quick'] else 'bench'}` ({r.head['rounds']} round{'s' if r.head['rounds'] > 1 else ''}, "
            'interleaved: each test runs all servers in turn).', '', others_line(r), '', '## Against the targets', '', *target_table(r), '']
    notes = [f"- {x['test']} {x['kind']}: {'skipped, ' + x['skipped'] if 'skipped' in x else x['error']}" for x in r.rows
             if 'skipped' in x or 'error' in x]
    if notes:
        text += ['Not measured:', '', *dict.fromkeys(notes), '']
    text += ['## All figures', '', LEGEND, '', *figure_table(r), '']
    calls = call_table(r)
    if calls:
        text += ['## System calls of a 1 KB GET', '', 'By `strace -c`, which slows the server and so makes its batches thicker.', '', *calls, '']
    series = [(k, x) for k in ('dfs', 'weed') for _, x in r.values('cliff', k, 'write', 'series')[:1]]
    picture = None
    if series:
        picture = plot.line_chart('Writing 1 MB objects to a disk of 120 MB/s, at most 1 GiB dirty', 'seconds', 'objects a second', series)
        text += ['## The cliff test', '', '![objects a second over time](cliff.svg)', '']
    return '\n'.join(text), picture
