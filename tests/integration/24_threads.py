#!/usr/bin/env python3
"""No loop waits for a disk: every call that the loop threads make on a file, as strace sees it, under the API cases, the
benchmark, vacuums and reads of files that have left the page cache.  And what the program is not linked with.
scale: full"""
import collections
import glob
import os
import sys

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('24_threads')
CALLS = ('open,openat,creat,read,readv,pread64,preadv,preadv2,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,'
         'fallocate,ftruncate,truncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,stat,lstat,fstat,newfstatat,statx,'
         'statfs,fstatfs,getdents64,sendfile,mincore,copy_file_range,splice,msync,fadvise64,readahead,flock,close')
# Loops that serve requests, heartbeats or assigns; all others may wait.
LOOPS = re.compile(r'vs-\d+$|vs-control$|dfs-master$|dfs-main$')
folder = temp_folder()
s = Server(o.dfs, folder=folder, options=['-volume.fileSizeLimitMB=8', '-volume.max=100', '-master.volumeSizeLimitMB=64'])
ledger = Ledger()
put_many(s, ledger, 200, SEED, 100, 4000)
for n in (70000, 300000, 1000000, 4000000):
    p = s.put(random.Random(SEED).randbytes(n))
    ledger.wrote(p, random.Random(SEED).randbytes(n))
names = thread_names(s.pid)
loops = {t: n for t, n in names.items() if LOOPS.match(n) or t == s.pid}
c.ok(f'loop threads are known by name: {sorted(loops.values())}', len(loops) >= 4, names)
trace = Strace(s.pid, CALLS, folder)
# Under strace every call is many times slower: a part of the cases is enough to go through every handler.
c.add_runner('golden under strace', [sys.executable, os.path.join(FIXTURES, 'golden.py'), '--master', s.master, '--volume', s.volume],
             200)
status, text = benchmark(o.dfs, s.master_full, '-n', '300', '-c', '8', '-list', 'l', cwd=folder)
c.equal('benchmark under strace', (status, complete_and_failed(text)), (0, [(300, 0), (300, 0)]))
live = ledger.live()
for p in live[:60]:
    if ask(s.volume, p, 'DELETE')[0] == 202:
        ledger.deleted(p)
done = vacuum(s.master) or []
c.ok('a volume was vacuumed under strace', any(r['Outcome'] == 'vacuumed' for r in done), done)
os.sync()
for turn in range(3):
    for f in glob.glob(os.path.join(s.data, '*.dat')):
        fd = os.open(f, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    c.equal(f'cold reads, turn {turn}', ledger.wrong(s.volume)[:3], [])
for path in ('/status', '/metrics', '/healthz', '/ui/index.html', '/stats/disk', '/stats/memory'):
    ask(s.volume, path)
for path in ('/dir/status', '/vol/status', '/metrics', '/cluster/status', '/stats/memory', '/'):
    ask(s.master, path)
calls = trace.stop()
names.update(thread_names(s.pid))
c.equal('SIGTERM', s.end(60), 0)

seen, bad = collections.Counter(), collections.Counter()
log = os.path.realpath(s.log_path)
for tid, _, call, rest, _ in calls:
    name = names.get(tid, '?')
    if not (LOOPS.match(name) or tid == s.pid):
        if call in ('preadv2', 'pread64', 'pwritev', 'pwrite64', 'fdatasync'):
            seen['elsewhere ' + call] += 1
        continue
    fds = re.findall(r'\b\d+<(/[^>]*)>', rest)
    by_path = re.match(r'(?:AT_FDCWD(?:<[^>]*>)?, )?"(/[^"]*|[^"/][^"]*)"', rest)
    if call == 'mincore':
        seen[call] += 1
    elif call in ('preadv2', 'sendfile') and fds:
        if call == 'sendfile' or 'RWF_NOWAIT' in rest:
            seen[call] += 1
        else:
            bad[f'{name}: {call} {fds[-1]} without RWF_NOWAIT'] += 1
    elif fds and os.path.realpath(fds[0]) != log and not fds[0].startswith(('/dev/null', '/proc/')):
        bad[f'{name}: {call} {os.path.basename(fds[0])}'] += 1
    elif by_path and call not in ('write', 'read') and not by_path.group(1).startswith('/proc/'):
        bad[f'{name}: {call} {by_path.group(1)}'] += 1
print(dict(seen))
c.ok('hot reads were made on the loops', seen['preadv2'] > 100 and seen['sendfile'] > 0, seen)
c.ok('cold reads and writes were made elsewhere', seen['elsewhere preadv2'] + seen['elsewhere pread64'] > 0 and
     seen['elsewhere fdatasync'] > 0, seen)
c.equal('loop threads made no other call on a file', dict(bad), {})

status, symbols = run(['nm', '-u', o.dfs])
status2, all_symbols = run(['nm', o.dfs])
found = [x for x in (symbols + all_symbols).split() if re.match(r'(evhttp_|bufferevent_|evthread_use_pthreads)', x)]
c.ok('nm', status == 0, symbols[:200])
c.equal('no evhttp, no bufferevent, no evthread_use_pthreads', found, [])
status, libs = run(['ldd', o.dfs])
c.ok('libevent is linked without threads', 'libevent_core' in libs and 'libevent_pthreads' not in libs, libs)
c.done()
