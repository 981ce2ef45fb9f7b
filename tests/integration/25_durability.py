#!/usr/bin/env python3
"""What an answer promises, in the order of system calls: the record is written, its file is flushed, then the client is told.
scale: full"""
import os

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
CALLS = 'pwrite64,pwritev,pwritev2,write,writev,fdatasync,fsync,sync_file_range,sendmsg,sendto'


def order_of(calls):
    """[(kind, start, end)] of what concerns .dat files and answers."""
    out = []
    for _, start, call, rest, end in calls:
        if call in ('pwrite64', 'pwritev', 'pwritev2') and '.dat>' in rest:
            out.append(('write', start, end))
        elif call in ('fdatasync', 'fsync') and '.dat>' in rest and rest.rstrip().endswith('= 0'):
            out.append(('flush', start, end))
        elif call in ('sendmsg', 'writev', 'write', 'sendto') and 'socket:[' in rest:
            m = re.search(r'HTTP/1\.1 (\d+)', rest)
            if m and m.group(1) in ('201', '202', '204'):
                out.append((m.group(1), start, end))
    return sorted(out, key=lambda x: x[1])


def traced(s, work):
    t = Strace(s.pid, CALLS, s.folder)
    try:
        work()
    finally:
        calls = t.stop()
    return order_of(calls)


def unflushed(events):
    """Answers that were given while a written record of before was not flushed."""
    bad = []
    for kind, start, _ in events:
        if kind not in ('201', '202', '204'):
            continue
        written = [e for k, _, e in events if k == 'write' and e <= start]
        flushed = [b for k, b, e in events if k == 'flush' and e <= start]
        # The last record before this answer must have been on its way to the disk after it was written.
        if written and (not flushed or max(flushed) < max(written)):
            bad.append((kind, start))
    return bad


def kinds(events):
    return [k for k, _, _ in events]


ledger = Ledger()
one = ['-master.growth=1', '-volume.max=8']
s = Server(o.dfs, options=one)
path = s.put(b'first')


def some(query=''):
    for i in range(10):
        a = s.assign()
        ask(s.volume, f"/{a['fid']}{query}", 'PUT', os.urandom(2000))


def rest():
    ask(s.volume, path, 'PUT', b'second')
    ask(s.volume, path, 'PUT', b'second')
    ask(s.volume, path, 'DELETE')


events = traced(s, some)
c.equal('G01 group: ten answers', kinds(events).count('201'), 10)
c.ok('G01 group: each after a flush that covers it', unflushed(events) == [] and kinds(events).count('flush') >= 10, events[:12])
events = traced(s, rest)
c.equal('group: overwrite, the same again, delete', [k for k in kinds(events) if k.startswith('2')], ['201', '204', '202'])
c.equal('group: each after a flush', unflushed(events), [])


def many():
    threads = [threading.Thread(target=some) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


events = traced(s, many)
n, flushes = kinds(events).count('201'), kinds(events).count('flush')
c.ok(f'group: {n} answers of 8 clients share {flushes} flushes', n == 80 and 1 <= flushes <= n)
# With clients at the same time an answer may come while a later batch is being written: each answer still needs a flush that
# began after its own record; at least one flush must have ended between any write and the answers that follow it.
answers = [(b, e) for k, b, e in events if k == '201']
c.ok('group: no answer before the first flush', min(b for b, _ in answers) >= min(e for k, _, e in events if k == 'flush'))
c.equal('group: SIGTERM', s.end(), 0)

s = Server(o.dfs, options=[*one, '-volume.durability=none'])
path = s.put(b'first')
events = traced(s, some)
c.equal('none: ten answers and no flush', (kinds(events).count('201'), kinds(events).count('flush')), (10, 0))
events = traced(s, lambda: some('?fsync=true'))
c.ok('none with ?fsync=true: each after a flush', kinds(events).count('201') == 10 and unflushed(events) == [] and
     kinds(events).count('flush') >= 10, events[:12])
events = traced(s, lambda: some('?fsync=false'))
c.equal('none with ?fsync=false: no flush', kinds(events).count('flush'), 0)
c.equal('none: SIGTERM', s.end(), 0)

s = Server(o.dfs, options=one)
s.put(b'first')
events = traced(s, lambda: some('?fsync=false'))
c.ok('group: ?fsync=false does not lower it', unflushed(events) == [] and kinds(events).count('flush') >= 10)
c.equal('SIGTERM', s.end(), 0)

s = Server(o.dfs, options=[*one, '-volume.durability=paced'])
s.put(b'first')
t = Strace(s.pid, CALLS, s.folder)
some()
wait_for('a flush behind the last write', lambda: 'fdatasync' in open(t.path, errors='replace').read().rpartition('pwritev')[2], 60)
events = order_of(t.stop())
writes = [e for k, _, e in events if k == 'write']
flushes = [b for k, b, _ in events if k == 'flush']
c.ok('paced: written bytes are flushed soon after', writes and flushes and max(flushes) >= max(writes), events[-6:])
# One second is what is promised; the kernel by itself would take thirty.
c.ok('paced: within seconds', flushes and min(b for b in flushes if b >= max(writes)) - max(writes) < 10, (writes[-1], flushes[-2:]))
c.equal('paced: SIGTERM', s.end(), 0)

# The benchmark's -fsync raises the mode too.
s = Server(o.dfs, options=[*one, '-volume.durability=none'])
t = Strace(s.pid, CALLS, s.folder)
status, text = benchmark(o.dfs, s.master_full, '-n', '40', '-c', '1', '-fsync', '-read=false', '-list', 'l', cwd=s.folder)
events = order_of(t.stop())
c.ok('benchmark -fsync: each answer after a flush', status == 0 and kinds(events).count('201') == 40 and unflushed(events) == [],
     (status, kinds(events).count('201'), unflushed(events)[:3]))
c.equal('SIGTERM of the last', s.end(), 0)
c.done()
