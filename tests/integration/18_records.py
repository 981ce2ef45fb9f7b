#!/usr/bin/env python3
"""`dfs benchmark records` and its agents against a real store: what is printed against what the server counted and what lies in its
files, rows and grids, an agent killed in mid-run, a client killed in mid-run, and what an agent refuses.
scale: every"""
import glob
import json
import re
import signal
import struct

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
seed = seed_of('records')
SMALL = o.scale != 'full'
NEEDLES = 64 if SMALL else 256  # of a job
SIZE = str(NEEDLES * 4096)
RUN = '1s'

s = Server(o.dfs, options=['-master.volumeSizeLimitMB=20000', '-master.growth=2', '-volume.max=40', '-volume.durability=none'])
COMMON = ['-master', s.master_full, '-idleWait', '0', '-seed', str(seed)]


def records(*words, expect=0, name=None, timeout=240):
    p = subprocess.run([o.dfs, 'benchmark', 'records', *words, *COMMON], capture_output=True, text=True, timeout=timeout, cwd=s.folder)
    c.ok(f'{name or " ".join(words[:4])}: exit {expect}', p.returncode == expect, f'exit {p.returncode}: {p.stdout[-1500:]}{p.stderr[-800:]}')
    return p.stdout, p.stderr


def answered(method, code=None):
    labels = {'type': method, **({'code': code} if code else {})}
    return metric(s.volume, 'SeaweedFS_volumeServer_request_total', labels) or 0


def near(a, b, share=0.01):
    return abs(a - b) <= share * max(abs(a), abs(b))


def block(text, kind):
    """Figures of the block for one kind of request, or None."""
    m = re.search(rf'^  {kind}: IOPS=([\d.]+), BW=([\d.]+)MiB/s \(([\d.]+)MB/s\)\(.*/([\d.]+)s\), records=(\d+), failed=(\d+), corrupt=(\d+)\n'
                  r'    lat \(usec\): min=([\d.]+), max=([\d.]+), avg=([\d.]+), stdev=([\d.]+)\n'
                  r'    lat percentiles \(usec\): 50.00th=\[([\d.]+)\], 99.00th=\[([\d.]+)\], 99.90th=\[([\d.]+)\]$', text, re.M)
    names = 'iops mib mb seconds records failed corrupt min max avg stdev p50 p99 p999'.split()
    return dict(zip(names, map(float, m.groups()))) if m else None


def holds(what, b, record_bytes):
    """The figures of a block agree with one another."""
    if b is None:
        c.ok(f'{what}: a block', False)
        return
    # the time is printed in whole milliseconds
    c.ok(f'{what}: IOPS is records by time', near(b['iops'], b['records'] / b['seconds'], 0.01 + 0.0006 / b['seconds']), b)
    c.ok(f'{what}: MiB/s and MB/s are those of the records', abs(b['mib'] * 2**20 - b['iops'] * record_bytes) <= 0.01 * 2**20 + 0.01 *
         b['iops'] * record_bytes and abs(b['mb'] * 1e6 - b['mib'] * 2**20) <= 0.02e6, b)
    c.ok(f'{what}: times are in order', 0 < b['min'] <= b['p50'] <= b['p99'] <= b['p999'] <= b['max'] and b['min'] <= b['avg'] <= b['max'], b)
    c.ok(f'{what}: nothing failed', b['failed'] == 0 and b['corrupt'] == 0, b)


def stored(collection):
    """{key: [cookie of each record with content]} of all volumes of a collection, and how many tombstones there are."""
    out, tombstones = {}, 0
    for path in glob.glob(os.path.join(s.data, f'{collection}_*.dat')):
        with open(path, 'rb') as f:
            dat = f.read()
        pos = 8
        while pos + 28 <= len(dat):
            cookie, key, size = struct.unpack_from('>IQI', dat, pos)
            if key == 0 and size == 0 and cookie == 0:
                break
            if size > 0:
                out.setdefault(key, []).append(cookie)
            else:
                tombstones += 1
            used = 16 + size + 12
            pos += used + 8 - used % 8
    return out, tombstones


def memory_gb():
    with open('/proc/meminfo') as f:
        return int(re.search(r'MemAvailable: +(\d+)', f.read()).group(1)) / 2**20


# ---- one run of each pattern ----

for rw, jobs in (('write', 4), ('read', 3), ('randread', 4), ('randwrite', 2), ('randrw', 4)):
    before = {m: answered(m) for m in ('GET', 'PUT', 'DELETE')}
    out, err = records('-rw', rw, '-numjobs', str(jobs), '-size', SIZE, '-runtime', RUN, '-collection', 'p' + rw, name=rw)
    after = {m: answered(m) for m in ('GET', 'PUT', 'DELETE')}
    did = {m: after[m] - before[m] for m in after}
    n = jobs * NEEDLES
    read, write = block(out, 'read'), block(out, 'write')
    c.ok(f'{rw}: says that it is no file system', 'blob records over HTTP, not a file system' in out.splitlines()[0], out)
    takes = re.search(r'^this takes .* of memory in the client .* in the servers\' indexes', out, re.M)
    c.ok(f'{rw}: says before it starts what it takes', takes and takes.start() < out.index('IOPS='), out)
    c.equal(f'{rw}: a block for reads, one for writes', [read is not None, write is not None],
            [rw in ('read', 'randread', 'randrw'), rw in ('write', 'randwrite', 'randrw')])
    # /metrics and /status, of the benchmark's look around and of ours, are counted as GET too
    if read:
        holds(f'{rw}, reads', read, 4096)
        c.ok(f'{rw}: the server answered that many reads', near(did['GET'], read['records']) or abs(did['GET'] - read['records']) <= 16,
             (did, read))
    if write:
        holds(f'{rw}, writes', write, 4096)
    laid = 0 if rw == 'write' else n
    c.equal(f'{rw}: the server took that many writes', did['PUT'], (write['records'] if write else 0) + laid)
    c.equal(f'{rw}: all were deleted again', did['DELETE'], n)
    if rw == 'write':
        c.equal('write: each record once', write['records'], n)
        c.ok('write: says that it ended early', 'ended early' in out, out)
    kept, tombstones = stored('p' + rw)
    c.equal(f'{rw}: as many needles on the disk', len(kept), n)
    c.equal(f'{rw}: and tombstones', tombstones, n)

# ---- an overwrite keeps id and cookie; one pass is one pass ----

out, err = records('-rw', 'randwrite', '-size', SIZE, '-runtime', RUN, '-no-cleanup', '-collection', 'kept', name='overwrites')
kept, tombstones = stored('kept')
n, b = NEEDLES, block(out, 'write')
c.equal('overwrites: no needle more than was laid out', len(kept), n)
c.equal('overwrites: each record of a needle has its cookie', sum(len(set(v)) for v in kept.values()), n)
c.equal('overwrites: records in the files are those reported', sum(map(len, kept.values())), n + b['records'])
passes = [len(v) - 1 for v in kept.values()]
c.ok('overwrites: pass after pass, each needle once in a pass', max(passes) - min(passes) <= 1, passes[:9])
out, err = records('-rw', 'randwrite', '-numjobs', '2', '-size', SIZE, '-runtime', '0', '-no-cleanup', '-collection', 'once', name='one pass')
kept, _ = stored('once')
c.equal('one pass: each needle was overwritten once', sorted({len(v) for v in kept.values()}), [2])
c.equal('one pass: that is what it says', block(out, 'write')['records'], 2 * NEEDLES)
before = answered('GET', '206')
out, err = records('-rw', 'randread', '-numjobs', '2', '-size', '256k', '-needle', '32k', '-runtime', '0', name='ranges')
c.equal('ranges: each record once, as a range', (block(out, 'read')['records'], answered('GET', '206') - before), (128, 128))
c.ok('ranges: 16 needles', '16 needles in all' in out, out)

# ---- the row in operations a second ----

before = answered('PUT'), answered('GET')
out, err = records('-ops', '-r', '8', '-numjobs', '3', '-size', '128k', '-json', 'ops.json', name='ops')
table = re.findall(r'^(write|rewrite|read|reread|random read|random write|mixed) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$', out, re.M)
c.equal('ops: seven rows in order', [r[0] for r in table], ['write', 'rewrite', 'read', 'reread', 'random read', 'random write', 'mixed'])
for name, *numbers in table:
    parent, total, slowest, fastest = map(float, numbers)
    c.ok(f'ops: {name}: parent <= sum, slowest <= fastest, sum between', 0 < parent <= total * 1.01 and slowest <= fastest and
         3 * slowest <= total * 1.01 and total <= 3 * fastest * 1.01, numbers)
row = [x for x in out.splitlines() if re.fullmatch(r'\d+( \| \d+){6}', x)]
c.ok('ops: the row again on one line', len(row) == 1 and
     all(abs(int(x) - float(r[1])) <= 0.51 for x, r in zip(row[0].split(' | '), table)), (row, table))
puts, gets = answered('PUT') - before[0], answered('GET') - before[1]
with open(os.path.join(s.folder, 'ops.json')) as f:
    doc = json.load(f)
c.equal('ops: phases of the report', [p['name'] for p in doc['phases']],
        ['write', 'rewrite', 'read', 'reread', 'random read', 'random write', 'mixed read', 'mixed write'])
did = {p['name']: p['completed'] for p in doc['phases']}
c.equal('ops: seven passes over 48 records', sum(did.values()), 7 * 48)
c.equal('ops: the server took that many writes', puts, sum(n for name, n in did.items() if 'write' in name))
# its /status and /metrics are counted too, by the benchmark's look around and ours
c.ok('ops: and answered that many reads', 0 <= gets - sum(n for name, n in did.items() if 'read' in name) <= 16, (gets, did))

# ---- what is refused before anything is written ----

before = answered('PUT')
for words, expect, why in (
        (['-rw', 'randread', '-size', '1000g', '-numjobs', '512'], 2, 'needles in all'),
        *([(['-rw', 'randread', '-size', '16g', '-numjobs', '1024'], 1, 'of memory')] if memory_gb() < 150 else []),
        (['-rw', 'randwrite', '-needle', '64k'], 2, 'whole needles'),
        (['-rw', 'read', '-size', '100', '-bs', '4k'], 2, 'less than one needle'),
        (['-rw', 'read', '-procs', '1,0'], 2, '-procs'),
        (['-ops', '-procs', '1'], 2, '-ops'),
        (['-rw', 'read', '-r', '32'], 2, '-bs'),
        (['-rw', 'trim'], 2, 'rw'),
        (['-rw', 'read', 'word'], 2, 'word')):
    out, err = records(*words, expect=expect, name='refused: ' + ' '.join(words))
    lines = [x for x in err.splitlines() if x.startswith('dfs')]
    c.ok(f'{" ".join(words)}: one line says why', len(lines) == 1 and why in lines[0], err)
out, err = records('-rw', 'write', '-json', 'no/such/folder/x.json', expect=1, name='refused: a report that cannot be')
c.ok('a report that cannot be: named', err.count('\n') == 1 and 'no/such/folder' in err, err)
c.equal('refused: nothing was written', answered('PUT') - before, 0)

# ---- an interrupt: the run is reported and cleaned up ----

reads = answered('GET')
p = subprocess.Popen([o.dfs, 'benchmark', 'records', '-rw', 'randread', '-numjobs', '2', '-size', SIZE, '-runtime', '300s',
                      '-collection', 'int', *COMMON], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=s.folder)
wait_for('reads', lambda: answered('GET') > reads + 50, 60)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=60)
c.equal('SIGINT: exit 1', p.returncode, 1)
c.ok('SIGINT: the block is there, and why it is short', 'interrupted' in out and block(out, 'read') is not None, out)
c.equal('SIGINT: what was written is deleted', stored('int')[1], 2 * NEEDLES)

# ---- agents ----


class Agent(Process):
    def __init__(self, number):
        self.port = free_port()
        self.address = f'127.0.0.1:{self.port}'
        super().__init__([o.dfs, 'benchmark', 'agent', '-listen', self.address, '-master', s.master_full], s.folder, f'agent{number}')
        wait_for('the agent', lambda: self.state() is not None)

    def state(self, session=''):
        try:
            return get_json(f'http://{self.address}/benchmark/v1/state?session={session}', 5)
        except ValueError:
            return None

    def post(self, what, body, headers=None):
        return ask(self.address, '/benchmark/v1/' + what, 'POST', body if isinstance(body, bytes) else json.dumps(body).encode(),
                   headers or {'Content-Type': 'application/json'})


a, b = Agent(1), Agent(2)
both = f'{a.address},{b.address}'
c.ok('agent: says that nobody is asked who he is', a.says('nobody is asked who he is'), a.log_text())
for address in ('0.0.0.0', '[::]', '0'):
    p = subprocess.run([o.dfs, 'benchmark', 'agent', '-listen', f'{address}:{free_port()}'], capture_output=True, text=True, timeout=30)
    c.ok(f'agent: refuses {address}', p.returncode == 2 and p.stderr.count('\n') == 1 and '-listenToAll' in p.stderr, p.stderr)

before = answered('GET')
out, err = records('-rw', 'randread', '-procs', '1,3', '-clients', both, '-size', SIZE, '-runtime', RUN, '-json', 'grid.json', '-csv',
                   'grid.csv', '-svg', 'grid.svg', '-label', 'two agents', name='grid')
titles = re.findall(r'^randread 4 KiB: (.*)\nclients \\ processes +1 +3\n1 +([\d.]+) +([\d.]+)\n2 +([\d.]+) +([\d.]+)$', out, re.M)
c.equal('grid: three tables, rows clients, columns processes', [t[0] for t in titles], ['BW (MiB/s)', 'IOPS', 'latency (us)'])
with open(os.path.join(s.folder, 'grid.json')) as f:
    doc = json.load(f)
names = [f'{x} clients x {y} processes' for x in (1, 2) for y in (1, 3)]
c.equal('grid: a phase for each cell', [p['name'] for p in doc['phases']], names)
counts = {p['name']: p['completed'] for p in doc['phases']}
did = answered('GET') - before
# as above, and for two agents in four cells
c.ok('grid: the server answered that many reads', near(sum(counts.values()), did) or abs(did - sum(counts.values())) <= 64, (counts, did))
for i, (x, y) in enumerate((x, y) for x in range(2) for y in range(2)):
    p = doc['phases'][i]
    iops = float(titles[1][1 + 2 * x + y])
    c.ok(f'grid: {p["name"]}: the cell is the phase', near(iops, p['completed'] / p['seconds'], 0.02), (iops, p['completed'], p['seconds']))
for name in ('grid.csv', 'grid.svg'):
    c.ok(f'grid: {name} was written', os.path.getsize(os.path.join(s.folder, name)) > 100)
c.equal('grid: both are idle again', [a.state()['state'], b.state()['state']], ['idle', 'idle'])
records('-rw', 'write', '-procs', '2', '-clients', both, '-size', SIZE, '-runtime', RUN, '-collection', 'gw', name='grid of writes')
kept, tombstones = stored('gw')
c.equal('grid of writes: new needles in each cell, all deleted', (len(kept), tombstones), ((1 + 2) * 2 * NEEDLES, (1 + 2) * 2 * NEEDLES))

# ---- what an agent refuses ----

PLAN = {'protocol': 1, 'session': 'aa', 'plan': {'rw': 'read', 'jobs': 1, 'record_bytes': 100, 'needle_bytes': 0, 'file_bytes': 1000,
                                                 'read_percent': 0, 'seed': 1},
        'collection': 'x', 'replication': '', 'fsync': False, 'no_verify': False}
ORDER = {'session': 'aa', 'step': 'fill', 'jobs': 1, 'seconds': 0, 'once': True, 'start_ns': 0}
for what, body, headers, status in (
        ('plan', PLAN, {'Content-Type': 'text/plain'}, 415),
        ('plan', b'{', None, 400),
        ('plan', b'x' * 5000, None, 413),
        ('plan', {**PLAN, 'protocol': 2}, None, 400),
        ('plan', {**PLAN, 'collection': '../x'}, None, 400),
        ('plan', {**PLAN, 'plan': {**PLAN['plan'], 'jobs': 100000}}, None, 400),
        ('plan', {**PLAN, 'plan': {**PLAN['plan'], 'file_bytes': 2**62}}, None, 400),
        ('run', ORDER, None, 404),
        ('end', {'session': 'aa', 'keep': False}, None, 404),
        ('format', {}, None, 404)):
    got, _, body_text = a.post(what, body, headers)
    c.ok(f'agent: {what} refused with {status}', got == status and b'error' in body_text, (got, body_text))
c.equal('agent: DELETE', ask(a.address, '/benchmark/v1/plan', 'DELETE')[0], 405)
c.equal('agent: an outcome that is not there', ask(a.address, '/benchmark/v1/outcome?session=aa')[0], 404)
c.equal('agent: a plan', a.post('plan', PLAN)[0], 202)
c.equal('agent: a second one meanwhile', a.post('plan', {**PLAN, 'session': 'bb'})[0], 409)
c.equal('agent: more jobs than planned', a.post('run', {**ORDER, 'jobs': 2})[0], 400)
c.equal('agent: a start in a year', a.post('run', {**ORDER, 'start_ns': 2**62})[0], 400)
c.equal('agent: a stranger may not end it', a.post('end', {'session': 'bb', 'keep': False})[0], 404)
c.equal('agent: a phase', a.post('run', ORDER)[0], 202)
wait_for('the phase', lambda: a.state('aa')['runs'] == 1)
out = get_json(f'http://{a.address}/benchmark/v1/outcome?session=aa')
c.equal('agent: its outcome', (out['outcome']['write']['completed'], out['outcome']['write']['latency']['samples']), (10, 10))
p = subprocess.run([o.dfs, 'benchmark', 'records', '-clients', both, *COMMON], capture_output=True, text=True, timeout=60)
c.ok('a run on a busy agent names it', p.returncode == 1 and a.address in p.stderr and 'busy' in p.stderr, p.stderr)
a.post('end', {'session': 'aa', 'keep': False})
wait_for('the end', lambda: a.state()['state'] == 'idle')
c.equal('agent: what it wrote is deleted', stored('x')[1], 10)


# ---- losing one ----

def start(collection, *words):
    """A run by two agents that has laid out everything; its first row reads, with one of them."""
    puts = answered('PUT')
    p = subprocess.Popen([o.dfs, 'benchmark', 'records', '-rw', 'randread', '-procs', '2', '-clients', both, '-size', SIZE, '-runtime',
                          '120s', '-collection', collection, *COMMON, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         cwd=s.folder)
    wait_for('all records', lambda: answered('PUT') == puts + 4 * NEEDLES and a.state()['state'] == 'running', 60)
    time.sleep(0.5)
    return p


p = start('lost')
b.kill()
out, err = p.communicate(timeout=60)
c.equal('an agent killed: exit 1', p.returncode, 1)
said = [x for x in err.splitlines() if 'lost' in x]
c.ok('an agent killed: one line names it', len(said) == 1 and b.address in said[0] and a.address not in said[0], err)
wait_for('the other agent to stop by itself', lambda: a.state()['state'] == 'idle', 60)
reads = answered('GET')
time.sleep(0.5)
c.ok('an agent killed: the other one reads no more', answered('GET') - reads <= 2)
c.equal('an agent killed: the other one deleted what it wrote', stored('lost')[1], 2 * NEEDLES)

b = Agent(3)
both = f'{a.address},{b.address}'
if not SMALL:
    p = start('orphan')
    p.kill()
    p.communicate()
    wait_for('both agents to stop by themselves', lambda: [a.state()['state'], b.state()['state']] == ['idle', 'idle'], 60)
    c.equal('a client killed: both agents deleted what they wrote', stored('orphan')[1], 4 * NEEDLES)
    c.ok('a client killed: an agent says why', a.says('nothing was heard'), a.log_text())
p = start('ended')
b.p.send_signal(signal.SIGTERM)
out, err = p.communicate(timeout=60)
c.ok('an agent ended: exit 1, named', p.returncode == 1 and f'agent {b.address} is lost' in err, err)
c.equal('an agent ended: it exits with 0', b.p.wait(60), 0)
wait_for('the other agent to stop by itself', lambda: a.state()['state'] == 'idle', 60)
c.equal('an agent ended: both deleted what they wrote', stored('ended')[1], 4 * NEEDLES)
c.equal('SIGTERM ends an agent', a.end(), 0)
out, err = records('-clients', a.address, expect=1, name='no agent there')
c.ok('no agent there: named', a.address in err, err)
c.equal('SIGTERM ends the server', s.end(), 0)
c.done()
