#!/usr/bin/env python3
"""What every mode of `dfs benchmark` reports, as text, JSON, CSV and picture, and `dfs benchmark plot` of all of them; the progress
bar on a terminal, and nothing of it elsewhere.
scale: every"""
import csv
import json
import os
import pty
import re
import signal
import subprocess
import threading
import xml.etree.ElementTree as ElementTree

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
seed = seed_of('reports')
s = Server(o.dfs, options=['-master.volumeSizeLimitMB=20000', '-master.growth=2', '-volume.max=20', '-volume.durability=none'])
lists = os.path.join(s.folder, 'lists')
SVG = '{http://www.w3.org/2000/svg}'
STEADINESS = {'worst_second', 'seconds_at_zero', 'last_third_to_first_third'}
RESOURCES = {'server_disk_read_bytes', 'server_sent_bytes', 'dirty_bytes', 'idle_s', 'cpu_user_s', 'cpu_system_s', 'client_cpu_share'}
LISTED = ['-listDir', lists]
# name, words, what the text says of how even it was, whether the figures beside the report are on standard error
MODES = (
    ('plain', ['-n', '3000', '-size', '2000', '-list', 'plain.txt'], r'^write: (worst second [\d.]+/s, seconds at zero \d+|over within)'),
    ('objects', ['objects', '2', 'write', '-b', '256k', '-t', '4', *LISTED], r'^Last third/first third: '),
    ('mix', ['mix', '-runtime', '3s', '-n', '50', '-rate', '100', '-sizeMedian', '2k', *LISTED],
     r'(?s)^Of the reads:\nWorst second .*^Of the writes:\nWorst second '),
    ('records', ['records', '-rw', 'randrw', '-size', '64k', '-numjobs', '2', '-runtime', '3s'], r'^Worst second \(MB/sec\): +[\d.]+$'),
    ('ops', ['records', '-ops', '-r', '4', '-size', '64k', '-numjobs', '2'], r'^steadiness .*worst second .*at zero .*third/first third$'),
    ('grid', ['records', '-rw', 'randread', '-size', '64k', '-procs', '1,2', '-runtime', '1s'], r'^1 clients x 2 processes +[\d.]+ +\d+ '),
)
RESOURCE_LINES = (r'[Ss]ervers? read from (?:disk|their disks): +\S', r'(?i)dirty pages at the end: +\S', r'(?i)disk idle|-idleWait',
                  r'(?i)^client(?: CPU)?: +\d+% of a core in its busiest thread', r'(?i)durability(?: of the server)?: +none')


def argv_of(name, words, more=()):
    master = ['-server' if name == 'plain' else '-master', s.master_full]
    fixed = [] if name == 'plain' else ['-seed', str(seed)]
    return [o.dfs, 'benchmark', *words, *master, *fixed, '-idleWait', '0', *more]


def benchmark(name, words, more=(), expect=0):
    p = subprocess.run(argv_of(name, words, more), capture_output=True, text=True, timeout=200, cwd=s.folder)
    c.ok(f'{name}: exit {expect}', p.returncode == expect, f'exit {p.returncode}: {p.stdout[-1000:]}{p.stderr[-800:]}')
    return p.stdout, p.stderr


def plot(*words, expect=0, name):
    p = subprocess.run([o.dfs, 'benchmark', 'plot', *words], capture_output=True, text=True, timeout=60, cwd=s.folder)
    c.ok(f'plot, {name}: exit {expect}', p.returncode == expect, f'exit {p.returncode}: {p.stderr}')
    return p.stderr


def path(name):
    return os.path.join(s.folder, name)


def texts_of(name):
    """Every text of a picture; that it is XML, of the right root and with a size, is checked on the way."""
    root = ElementTree.parse(path(name)).getroot()
    c.ok(f'{name}: a picture with a size', root.tag == SVG + 'svg' and root.get('viewBox'), root.attrib)
    c.ok(f'{name}: no scripts, nothing from elsewhere',
         not [e for e in root.iter() if e.tag in (SVG + 'script', SVG + 'image', SVG + 'use', SVG + 'foreignObject')])
    return [''.join(e.itertext()) for e in root.iter(SVG + 'text')]


def check_json(name):
    with open(path(name + '.json')) as f:
        doc = json.load(f)
    c.equal(f'{name}: schema and tool', (doc['schema'], doc['tool'], doc['good'], doc['label']), (1, 'dfs benchmark', True, 'run ' + name))
    c.equal(f'{name}: its resources', set(doc['resources']), RESOURCES)
    c.ok(f'{name}: what was sent is known, and the client used CPU',
         doc['resources']['server_sent_bytes'] is not None and doc['resources']['cpu_user_s'] + doc['resources']['cpu_system_s'] > 0,
         doc['resources'])
    c.ok(f'{name}: the client\'s share is one', 0 <= doc['resources']['client_cpu_share'] <= 1.05, doc['resources'])
    c.equal(f'{name}: its durability', doc['server']['durability'], 'none')
    c.ok(f'{name}: each phase says how even it was', all(STEADINESS <= set(p['steadiness']) for p in doc['phases']))
    return doc


def check_csv(name, doc):
    with open(path(name + '.csv'), newline='') as f:
        rows = list(csv.DictReader(f))
    for p in doc['phases']:
        mine = [r for r in rows if r['phase'] == p['name']]
        c.equal(f'{name}: {p["name"]}: a row for each second of the series', [int(r['completed']) for r in mine],
                [x['completed'] for x in p['series']])
        c.ok(f'{name}: {p["name"]}: no more in the seconds than in all', sum(int(r['completed']) for r in mine) <= p['completed'])


def every_mode():
    docs = {}
    for name, words, even in MODES:
        out, err = benchmark(name, words, ['-json', name + '.json', '-csv', name + '.csv', '-svg', name + '.svg', '-label', 'run ' + name])
        said = err if name == 'plain' else out
        c.ok(f'{name}: says how even it was', re.search(even, said, re.M), said)
        for line in RESOURCE_LINES:
            c.ok(f'{name}: says {line}', re.search(line, said, re.M), said)
        c.ok(f'{name}: no bar where there is no terminal', '\x1b' not in out + err and '\r' not in out + err)
        docs[name] = check_json(name)
        check_csv(name, docs[name])
        texts = texts_of(name + '.svg')
        c.ok(f'{name}: the picture names its run', any('run ' + name in t for t in texts), texts)
    return docs


def plots(docs):
    for name, doc in docs.items():
        plot(name + '.json', '-svg', 'again.svg', name=f'{name} alone')
        with open(path(name + '.svg')) as a, open(path('again.svg')) as b:
            c.ok(f'{name}: plot of the report is the picture of the run', a.read() == b.read())
        plot(name + '.json', '-csv', 'again.csv', name=f'{name} as CSV')
        with open(path(name + '.csv')) as a, open(path('again.csv')) as b:
            c.equal(f'{name}: and its seconds those of the run', b.read(), a.read())
    plot('objects.json', 'records.json', '-svg', 'two.svg', name='two runs')
    texts = texts_of('two.svg')
    c.ok('two runs: both are named', [x for x in ('run objects', 'run records') if not any(x in t for t in texts)] == [], texts)
    for axis in ('(s)', 'requests/s', 'percentile', 'latency'):
        c.ok(f'two runs: an axis says {axis}', any(axis in t for t in texts), texts)
    c.ok('large objects: megabytes, not requests', 'MiB/s' in texts_of('objects.svg'))
    c.ok('latencies: a unit at each', all(re.fullmatch(r'[\d.]+ (µs|ms|s)', t) for t in texts if re.search(r'\d (µs|ms|s)$', t)))
    plot(*[n + '.json' for n in docs], '-svg', 'all.svg', name='one of each mode')
    texts = texts_of('all.svg')
    c.ok('one of each: all are named', [n for n in docs if not any('run ' + n in t for t in texts)] == [], texts)


def refused():
    with open(path('objects.json')) as f:
        whole = f.read()
    for name, text in (('cut', whole[:len(whole) // 2]), ('empty', ''), ('foreign', '{"schema": 1, "tool": "other"}'),
                       ('future', whole.replace('"schema": 1', '"schema": 99', 1)),
                       ('negative', re.sub(r'"completed": \d+', '"completed": -5', whole, count=1)),
                       ('list', '[]'), ('zero', '\0' * 100)):
        with open(path(name + '.json'), 'w') as f:
            f.write(text)
        err = plot(name + '.json', '-svg', 'not.svg', expect=1, name=name)
        c.ok(f'plot, {name}: one line with the file\'s name', err.count('\n') == 1 and name + '.json' in err, err)
    err = plot('objects.json', 'cut.json', '-svg', 'not.svg', expect=1, name='a good one and a bad one')
    c.ok('plot: the bad one is named', 'cut.json' in err, err)
    err = plot('nowhere.json', '-svg', 'not.svg', expect=1, name='a file that is not there')
    c.ok('plot: and named', 'nowhere.json' in err and err.count('\n') == 1, err)
    plot(lists, '-svg', 'not.svg', expect=1, name='a folder')
    c.ok('plot: nothing was drawn', not os.path.exists(path('not.svg')))
    plot('objects.json', '-svg', 'no/such/folder.svg', expect=1, name='a place that is not there')
    plot('objects.json', '-svg', '/dev/full', expect=1, name='a full disk')
    plot('-svg', 'not.svg', expect=2, name='no report')
    plot('objects.json', expect=2, name='no picture')
    plot('objects.json', 'mix.json', '-csv', 'not.csv', expect=2, name='the seconds of two')
    for option in ('-json', '-csv', '-svg'):
        p = subprocess.run(argv_of('plain', MODES[0][1], [option, '/dev/full']), capture_output=True, text=True, timeout=200, cwd=s.folder)
        c.ok(f'plain, {option} to a full disk: exit 1, one line says why', p.returncode == 1 and 'cannot write' in p.stderr, p.stderr)


# ---- the bar ----

def on_terminals(argv, out_too=False, columns='80', term='xterm'):
    """Standard error on a terminal of its own, standard output on another or in a pipe; what each got."""
    err_r, err_w = pty.openpty()
    out_r, out_w = pty.openpty() if out_too else os.pipe()
    p = subprocess.Popen(['stty', 'cols', columns], stdin=err_w)
    p.wait(20)
    p = subprocess.Popen(argv, stdout=out_w, stderr=err_w, stdin=subprocess.DEVNULL, cwd=s.folder, env={**os.environ, 'TERM': term})
    os.close(err_w)
    os.close(out_w)
    got = {err_r: b'', out_r: b''}
    threads = []
    for fd in got:
        def read_all(fd=fd):
            while True:
                try:
                    piece = os.read(fd, 65536)
                except OSError:
                    break
                if not piece:
                    break
                got[fd] += piece
            os.close(fd)
        threads.append(threading.Thread(target=read_all))
        threads[-1].start()
    p.wait(200)
    for t in threads:
        t.join(60)
    return p.returncode, got[out_r].decode().replace('\r\n', '\n'), got[err_r].decode().replace('\r\n', '\n')


CLEAR = '\r\x1b[K'


def bars_of(err):
    """What was drawn, each without its control bytes."""
    return [x for x in err.split(CLEAR)[1:] if x]


def bar():
    words = {'objects': ['objects', '3', 'write', '-b', '64k', '-t', '2', *LISTED],
             'mix': ['mix', '-runtime', '3s', '-n', '20', '-rate', '50', '-sizeMedian', '2k', *LISTED],
             'records': ['records', '-rw', 'randread', '-size', '64k', '-runtime', '3s'],
             'grid': ['records', '-rw', 'randread', '-size', '64k', '-procs', '1,2', '-runtime', '2s']}
    for name, what in words.items():
        code, out, err = on_terminals(argv_of(name, what))
        drawn = bars_of(err)
        c.ok(f'bar, {name}: exit 0', code == 0, out[-800:] + err)
        c.ok(f'bar, {name}: drawn, with share and rate', any(re.search(r'\d+%.*/s.*\d+ done', x) for x in drawn), err)
        c.ok(f'bar, {name}: the time that is left', any(re.search(r'\d+ s left$', x) for x in drawn), err)
        c.ok(f'bar, {name}: standard output has nothing of it', '\x1b' not in out and ' left' not in out, out)
        # The last thing drawn is taken away, so that what follows begins at the edge.
        c.ok(f'bar, {name}: gone at the end', ' done' not in err.rsplit(CLEAR, 1)[1], err)
        c.ok(f'bar, {name}: within 80 columns', all(len(x.split('\n')[0]) < 80 for x in drawn), drawn)
    shares = [int(m.group(1)) for x in bars_of(err) for m in [re.search(r'processes.* (\d+)%', x)] if m]
    c.ok('bar, grid: one share over all cells', shares == sorted(shares), err)
    code, out, err = on_terminals(argv_of('objects', words['objects']), columns='40')
    drawn = [x for x in bars_of(err) if '%' in x]
    c.ok('bar, 40 columns: it fits, and ends with a whole figure',
         code == 0 and drawn and all(len(x) < 40 and x.endswith((' left', ' done')) for x in drawn), err)
    code, out, err = on_terminals(argv_of('objects', words['objects']), term='dumb')
    c.ok('bar, dumb terminal: none', code == 0 and '\x1b' not in err, err)
    n = '40000' if o.scale == 'full' else '4000'
    plain = ['-n', n, '-size', '1', '-c', '1', '-writeOnly', '-list', 'bar_not.txt']
    for name, what in {**words, 'plain': plain}.items():
        code, out, err = on_terminals(argv_of(name, what), out_too=True)
        c.ok(f'bar, {name}: none where standard output is a terminal too', code == 0 and '\x1b' not in out + err and ' left' not in out + err,
             out[-800:] + err)
    code, out, err = on_terminals(argv_of('plain', ['-n', n, '-size', '1', '-c', '1', '-writeOnly', '-list', 'bar.txt']))
    c.ok('bar, plain: drawn when it takes a second, out of weed\'s report',
         code == 0 and '\x1b' not in out and ('Completed ' not in out or any('write' in x for x in bars_of(err))), out + err)


# ---- what goes wrong ----

def store_dies():
    """What was measured before is told, and the report says that it was no good."""
    p = subprocess.Popen(argv_of('ops', ['records', '-ops', '-r', '4', '-size', '512m', '-numjobs', '2'], ['-json', 'died.json']),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=s.folder)
    puts = metric(s.volume, 'SeaweedFS_volumeServer_request_total', {'type': 'PUT'}) or 0
    wait_for('writes', lambda: (metric(s.volume, 'SeaweedFS_volumeServer_request_total', {'type': 'PUT'}) or 0) > puts + 100, 60)
    s.kill()
    out, err = p.communicate(timeout=120)
    c.equal('a store that dies: exit 1', p.returncode, 1)
    c.ok('a store that dies: the row that was begun', re.search(r'^write +[\d.]+ ', out, re.M) and 'given up' in err, out + err)
    with open(path('died.json')) as f:
        doc = json.load(f)
    c.ok('a store that dies: the report says so', not doc['good'] and [x['name'] for x in doc['phases']] == ['write'] and
         doc['phases'][0]['failed'] > 0 and 'cannot write' in doc['phases'][0]['first_error'], doc['phases'])
    c.ok('a store that dies: what can be known is', doc['resources']['server_sent_bytes'] is None and
         doc['resources']['cpu_user_s'] is not None and doc['resources']['dirty_bytes'] is not None, doc['resources'])
    plot('died.json', '-svg', 'died.svg', name='a run that failed')


def no_master():
    """A wrong address is found before anything is written or waited for."""
    for name, words, _ in MODES:
        argv = [x if x != s.master_full else f'127.0.0.1:{free_port()}' for x in argv_of(name, words)]
        p = subprocess.run(argv, capture_output=True, text=True, timeout=100, cwd=s.folder)
        c.ok(f'no master, {name}: exit 1, one line says so', p.returncode == 1 and p.stderr.count('\n') == 1 and 'no answer' in p.stderr,
             p.stdout[-300:] + p.stderr)
    c.equal('no master: no list is left', os.listdir(lists), [])


def same_name():
    """A second run of a name is refused while the first is under way, and so are its cleanup and its reading."""
    p = subprocess.Popen(argv_of('objects', ['objects', '60', 'write', '-b', '4k', '-run-name', 'same', *LISTED]), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, cwd=s.folder)
    while not re.match(r' +1 ', p.stdout.readline() or ' 1 '):
        pass
    _, err = benchmark('objects', ['objects', '1', 'write', '-run-name', 'same', *LISTED], expect=1)
    c.ok('the same name: one line says that a run is under way', err.count('\n') == 1 and 'under way' in err, err)
    _, err = benchmark('objects', ['objects', '1', 'seq', '-run-name', 'same', *LISTED], expect=1)
    c.ok('the same name: it is not read meanwhile', 'same.fids' in err, err)
    q = subprocess.run([o.dfs, 'benchmark', 'cleanup', '-run-name', 'same', '-master', s.master_full, *LISTED], capture_output=True,
                       text=True, timeout=60)
    c.ok('the same name: nor cleaned up', q.returncode == 1 and 'same.fids' in q.stderr, q.stderr)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=100)
    c.ok('the same name: the first one ends as if alone', re.search(r'^Errors: +0 ', out, re.M) and 'Removed' in out, out + err)


docs = every_mode()
plots(docs)
refused()
no_master()
same_name()
bar()
c.equal('nothing is left in lists', os.listdir(lists), [])
if o.scale == 'full':
    store_dies()  # gives up after ten seconds, twice
else:
    c.equal('SIGTERM ends the server', s.end(), 0)
c.done()
