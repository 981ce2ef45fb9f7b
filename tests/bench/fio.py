"""The raw disk as a yardstick: fio on files, in the patterns of the file systems that are compared."""
import json
import os
import shutil
import subprocess

import commands
from special import Unavailable


def run(folder, rw, block, jobs, job_bytes, seconds=0, mix_read=50):
    """{'read': ..., 'write': ...} of one fio run with synchronous direct I/O, each with iops, bytes_per_s, avg_us; seconds 0: each
    block once.  The files stay for the next run."""
    if shutil.which('fio') is None:
        raise Unavailable('no fio')
    argv = ['fio', '--name=job', f'--directory={folder}', '--output-format=json', f'--rw={rw}', f'--bs={block}', f'--numjobs={jobs}',
            f'--size={job_bytes}', '--ioengine=psync', '--direct=1', '--fallocate=none', '--nrfiles=1', '--group_reporting',
            f'--rwmixread={mix_read}', '--invalidate=1']
    if seconds:
        argv += [f'--runtime={seconds}', '--time_based']
    commands.note(argv, folder)
    text = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True).stdout
    job = json.loads(text[text.index('{'):])['jobs'][0]
    out = {}
    for kind in ('read', 'write'):
        k = job[kind]
        if k['total_ios']:
            out[kind] = {'iops': k['iops'], 'bytes_per_s': k['bw_bytes'], 'avg_us': k['clat_ns']['mean'] / 1000}
    return out


def grid(folder, rw, block, procs, job_bytes, seconds):
    """One cell for each number of processes: {procs: {'iops': ...}}."""
    out = {}
    for n in procs:
        place = os.path.join(folder, f'fio-{rw}-{n}')
        os.makedirs(place, exist_ok=True)
        out[n] = run(place, rw, block, n, job_bytes, seconds)['write' if 'write' in rw else 'read']
        shutil.rmtree(place)
    return out


def operations(folder, block, jobs, job_bytes):
    """The rows of a file system's own benchmark: {'write': iops, ...}."""
    place = os.path.join(folder, 'fio-ops')
    os.makedirs(place, exist_ok=True)
    out = {}
    for name, rw in (('write', 'write'), ('rewrite', 'write'), ('read', 'read'), ('reread', 'read'), ('random read', 'randread'),
                     ('random write', 'randwrite'), ('mixed', 'randrw')):
        r = run(place, rw, block, jobs, job_bytes)
        out[name] = sum(k['iops'] for k in r.values())
    shutil.rmtree(place)
    return out
