"""rados bench on a Ceph of one monitor and one OSD, made for the run and gone after it; where Ceph is installed."""
import os
import re
import shutil
import subprocess
import time
import uuid

import commands
import rig
from special import Unavailable

POOL = 'bench'
OSD_PORTS = 40
OSD_BYTES = 6 << 30
CONF = '''[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{port}]
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
ms bind msgr1 = false
ms bind port min = {first}
ms bind port max = {last}
run dir = {folder}
log file = {folder}/$name.log
pid file = {folder}/$name.pid
admin socket = {folder}/$name.asok
mon data = {folder}/mon
osd data = {folder}/osd
osd objectstore = bluestore
bluestore block size = {osd_bytes}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
'''
PROGRAMS = ('ceph-mon', 'ceph-osd', 'ceph', 'rados', 'monmaptool')


class Ceph:
    def __init__(self, folder, port):
        missing = [p for p in PROGRAMS if shutil.which(p) is None]
        if missing:
            raise Unavailable('no Ceph here (apt install ceph-mon ceph-osd ceph-common)')
        self.folder, self.port = os.path.join(folder, 'ceph'), port
        self.conf = os.path.join(self.folder, 'ceph.conf')
        self.running = []

    def do(self, *argv, limit=60):
        p = subprocess.run([argv[0], '-c', self.conf, *argv[1:]], capture_output=True, text=True, timeout=limit)
        if p.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {p.stderr[-600:]}")
        return p.stdout

    def start(self, *argv):
        self.running.append(rig.Process([argv[0], '-c', self.conf, '-f', *argv[1:]], self.folder, argv[0]))

    def __enter__(self):
        fsid, osd = str(uuid.uuid4()), str(uuid.uuid4())
        for name in ('mon', 'osd'):
            os.makedirs(os.path.join(self.folder, name))
        with open(self.conf, 'w') as f:
            f.write(CONF.format(fsid=fsid, port=self.port, first=self.port + 1, last=self.port + OSD_PORTS, folder=self.folder,
                                osd_bytes=OSD_BYTES))
        try:
            monmap = os.path.join(self.folder, 'monmap')
            self.do('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', f'[v2:127.0.0.1:{self.port}]', monmap)
            self.do('ceph-mon', '-i', 'a', '--mkfs', '--monmap', monmap)
            self.start('ceph-mon', '-i', 'a')
            self.do('ceph', '--connect-timeout', '30', 'osd', 'new', osd)
            self.do('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', osd)
            self.start('ceph-osd', '-i', '0')
            self.wait_for_osd()
            self.do('ceph', 'osd', 'pool', 'create', POOL, '8', '8')
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_for_osd(self):
        limit = time.monotonic() + 60
        while ' 1 up' not in self.do('ceph', 'osd', 'stat'):
            if time.monotonic() > limit:
                raise RuntimeError('the OSD does not come up')
            time.sleep(0.5)

    def __exit__(self, *_):
        for p in reversed(self.running):
            p.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def bench(self, mode, t, seconds, keep):
        """MiB/s."""
        more = (['-b', '4194304'] if mode == 'write' else []) + (['--no-cleanup'] if keep else [])
        argv = ['rados', '-p', POOL, 'bench', str(seconds), mode, '-t', str(t), *more]
        commands.note(argv)
        text = self.do(*argv, limit=seconds + 120)
        return float(re.search(r'Bandwidth \(MB/sec\):\s+([\d.]+)', text).group(1))


def version():
    m = re.search(r'version (\S+)', subprocess.run(['rados', '--version'], capture_output=True, text=True, check=False).stdout)
    return m.group(1) if m else '?'


def bench(folder, port, runs, seconds):
    """{(mode, requests under way): MiB/s} of each run; writes with 16 under way are kept for the reads behind them."""
    with Ceph(folder, port) as ceph:
        return {(mode, t): ceph.bench(mode, t, seconds, mode == 'write' and t == 16) for mode, t in runs}
