#!/usr/bin/env python3
"""Client libraries of others, as they are published.  One that cannot be installed is a failure.
scale: full"""
import os
import re

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
s = Server(o.dfs, options=['-volume.max=100', '-master.volumeSizeLimitMB=64'])
status, text = run(['sh', os.path.join(FIXTURES, 'clients', 'run.sh'), s.master, os.path.join(ROOT, 'build', 'clients')], 500)
print('\n'.join('    ' + x for x in text.splitlines()))
m = re.search(r'^clients: (\d+) passed, (\d+) failed, (\d+) skipped$', text, re.M)
for name in ('pyseaweed', 'node-seaweedfs', 'weed-fs'):
    part = re.search(rf'^== {name}.*?(?=^== |^clients:)', text, re.M | re.S)
    c.ok(name, bool(part) and re.search(r'^[1-9]\d* passed, 0 failed', part.group(0), re.M), 'skipped or failed, see above')
c.ok('none skipped, none failed', m and m.groups() == ('3', '0', '0') and status == 0, m and m.groups())
c.equal('SIGTERM', s.end(), 0)
c.done()
