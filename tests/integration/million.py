#!/usr/bin/env python3
"""A million objects of 1 KB written, read back at random, and after a restart read once more from first to last.

Not part of the suite: `make soak`.  Prints what it took; fails only when an object is missing or wrong.
usage: million.py --dfs PATH [N]
"""
import sys

from kit import *  # noqa: F403
from rig import *  # noqa: F403

count = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 1_000_000
o = arguments(__doc__)
c = Checks()


def show(*text):
    print('  ', *text, flush=True)


s = Server(o.dfs, options=['-volume.max=50'])
status, text = benchmark(o.dfs, s.master_full, '-n', str(count), '-c', '64', '-list', 'list', cwd=s.folder, timeout=3600)
print('\n'.join(x for x in text.splitlines() if not x.startswith('Completed ')))
c.equal(f'{count} written and read', (status, complete_and_failed(text)), (0, [(count, 0)] * 2))
show(f'resident at the end: {s.rss_mb("VmRSS"):.0f} MB, at most {s.rss_mb():.0f} MB')
show(f'volumes: {len(volumes_of(s.volume))}, {sum(v["Size"] for v in volumes_of(s.volume).values()) >> 20} MB')
began = time.monotonic()
c.equal('SIGTERM', s.end(300), 0)
show(f'stopped in {time.monotonic() - began:.2f} s')

for title in ('after a clean stop', 'after kill -9'):
    if s.p.poll() is None:
        s.kill()
    began = time.monotonic()
    s = Server(o.dfs, folder=s.folder, ports=s.ports, options=['-volume.max=50'], name='again' + title[-1], wait=False)
    wait_for('an answer', lambda: ask(s.volume, '/status')[0] == 200, 600)
    show(f'{title}: the port answers after {time.monotonic() - began:.2f} s')
    wait_for('all volumes', lambda: 'index rows applied' in s.log_text(), 600)
    show(f'{title}: all volumes are served after {time.monotonic() - began:.2f} s')
    show(re.search(r'data folder .* index rows applied', s.log_text()).group(0))
    s.wait_ready()

status, text = benchmark(o.dfs, s.master_full, '-readOnly', '-readSequentially', '-n', str(count), '-c', '64', '-list', 'list',
                         cwd=s.folder, timeout=3600)
print('\n'.join(x for x in text.splitlines() if not x.startswith('Completed ')))
c.equal('all of them, one after the other', (status, complete_and_failed(text)), (0, [(count, 0)]))
c.equal('SIGTERM again', s.end(300), 0)
c.done()
