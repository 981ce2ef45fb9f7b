#!/usr/bin/env python3
"""Volumes that SeaweedFS 0.76 and 4.48 wrote, whole and damaged, each asked for every file in it.
scale: every"""
import glob
import json
import os
import shutil
import subprocess
import sys

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
VOLUMES = os.path.join(FIXTURES, 'volumes')
names = sorted(os.path.basename(os.path.dirname(f)) for f in glob.glob(os.path.join(VOLUMES, '*', 'manifest.json')))
families = {
    'idx16': [n for n in names if n.endswith('-idx16')],
    'v2': [n for n in names if n.startswith('v2-')],
    'main': [n for n in names if not n.endswith('-idx16') and not n.startswith('v2-') and n != 'ec'],
}
c.equal('all 26 volumes are there', len(names), 26)


def copy_of(some):
    folder = temp_folder()
    data = os.path.join(folder, 'data')
    os.mkdir(data)
    for n in some:
        for f in glob.glob(os.path.join(VOLUMES, n, '*')):
            if f.endswith(('.dat', '.idx', '.vif')):
                shutil.copy(f, data)
    return folder


def check(title, s, some):
    c.add_runner(title, [sys.executable, os.path.join(FIXTURES, 'volcheck.py'), '--volume', s.volume,
                         *[os.path.join(VOLUMES, n) for n in some]], 300)


for index in ('memory', 'leveldb'):
    for title, some in families.items():
        folder = copy_of(some)
        s = Server(o.dfs, folder=folder, options=['-volume.max=100', f'-volume.index={index}'])
        wait_for('all volumes', lambda: 'index rows applied' in s.log_text())
        check(f'{title}, {index}', s, some)
        c.equal(f'{title}, {index}: SIGTERM', s.end(), 0)
        first = {f: d for f, d in folder_digest(s.data).items() if f.endswith(('.dat', '.idx'))}
        s = Server(o.dfs, folder=folder, options=['-volume.max=100', f'-volume.index={index}'], name='again')
        wait_for('all volumes', lambda: 'index rows applied' in s.log_text())
        check(f'{title}, {index}, opened again', s, some)
        c.equal(f'{title}, {index}: SIGTERM again', s.end(), 0)
        again = {f: d for f, d in folder_digest(s.data).items() if f.endswith(('.dat', '.idx'))}
        c.equal(f'{title}, {index}: opening a second time changes nothing', [f for f in first if first[f] != again.get(f)], [])

# Erasure-coded shards: dfs does not read them, and must not harm them.
folder = temp_folder()
data = os.path.join(folder, 'data')
os.mkdir(data)
subprocess.run(['tar', 'xJf', os.path.join(VOLUMES, 'ec', 'shards.tar.xz'), '-C', data], check=True)
inner = [os.path.join(d, f) for d, _, files in os.walk(data) for f in files]
for f in inner:
    if os.path.dirname(f) != data:
        shutil.move(f, data)
before = folder_digest(data)
s = Server(o.dfs, folder=folder, options=['-volume.max=100'])
with open(os.path.join(VOLUMES, 'ec', 'manifest.json')) as f:
    entries = json.load(f)['entries']
got = {e['path']: ask(s.volume, e['path'], headers=e.get('request_headers', {}))[0] for e in entries}
c.equal('ec: every file is 404', {p: g for p, g in got.items() if g != 404}, {})
c.ok('ec: files can be written beside the shards', s.put(b'beside') is not None)
c.equal('ec: SIGTERM', s.end(), 0)
after = folder_digest(data)
c.equal('ec: the shards are untouched', [f for f in before if before[f] != after.get(f)], [])
c.done()
