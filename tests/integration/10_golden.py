#!/usr/bin/env python3
"""The HTTP API case by case, hostile requests, and a clean stop and start after them.
scale: every"""
import os
import sys

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
full = o.scale == 'full'
s = Server(o.dfs, options=['-volume.fileSizeLimitMB=8', '-volume.max=100', '-master.volumeSizeLimitMB=64'])
c.add_runner('golden', [sys.executable, os.path.join(FIXTURES, 'golden.py'), '--master', s.master, '--volume', s.volume], 300)
limit = ['--volume-pid', str(s.pid), '--rss-limit-mb', '400'] if full else []
c.add_runner('abuse', [sys.executable, os.path.join(FIXTURES, 'abuse', 'abuse.py'), '--master', s.master, '--volume', s.volume,
                       *limit], 300)
path = s.put(b'{"name":"none","size":0,"chunks":[]}', query='cm=true')
status, _, body = get(f'http://{s.volume}{path}', method='DELETE')
c.equal('DELETE of a manifest without chunks: the size of what it stands for', (status, json.loads(body)), (202, {'size': 0}))
path = s.put(b'no manifest', query='cm=true')
c.equal('what only claims to be a chunk manifest is given as it is', get(f'http://{s.volume}{path}')[::2], (200, b'no manifest'))
ledger = Ledger()
storm = Storm(s.master, ledger, seed_of('10_golden'), threads=6)
for _ in range(3 if full else 6):
    time.sleep(0.7)
    c.ok('vacuum in the storm ends', vacuum(s.master) is not None)
errors = storm.stop()
c.ok(f'storm: {storm.counts}', not errors and storm.counts['write'] > 10, errors[:5])
c.equal('all that was acknowledged reads back', ledger.wrong(s.volume)[:3], [])
c.equal('SIGTERM ends it with', s.end(60), 0)
c.ok('it says that it stopped cleanly', 'stopped cleanly' in s.log_text(), s.log_text()[-500:])

s2 = Server(o.dfs, folder=s.folder, ports=s.ports, name='again',
            options=['-volume.fileSizeLimitMB=8', '-volume.max=100', '-master.volumeSizeLimitMB=64'])
wait_for('all volumes', lambda: 'index rows applied' in s2.log_text())
c.equal('after the restart all reads back', ledger.wrong(s2.volume)[:3], [])
bad = [x for x in s2.log_text().splitlines() if x[:1] in 'WE']
c.equal('nothing to repair after a clean stop', bad, [])
c.ok('no bytes were cut', not [f for f in os.listdir(s.data) if '.cut-' in f], os.listdir(s.data))
c.equal('SIGTERM again', s2.end(60), 0)
c.done()
