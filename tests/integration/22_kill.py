#!/usr/bin/env python3
"""kill -9 under writes, round after round on the same folder: every line of the benchmark's list, which it writes before its
worker asks for anything else, reads back with the right content after each restart.
scale: full"""
import os
import shutil

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('22_kill')
rng = random.Random(SEED)
ROUNDS = 20
ALL = None
lost, total = [], 0

for index, rounds in (('memory', ROUNDS - 6), ('leveldb', 6)):
    folder, ports = temp_folder(), None
    ledger = Ledger()
    options = ['-volume.max=60', '-master.volumeSizeLimitMB=32', f'-volume.index={index}', '-master.growth=2']
    whole = os.path.join(folder, 'all')
    for i in range(rounds):
        s = Server(o.dfs, folder=folder, ports=ports, options=options, name=f'round{i}')
        ports = s.ports
        listed = os.path.join(folder, f'list{i}')
        b = subprocess.Popen([o.dfs, 'benchmark', f'-master={s.master_full}', '-n', '10000000', '-c', '16', '-size',
                              str(rng.choice((100, 1024, 20000))), '-read=false', '-list', listed, '-timeout', '5s'],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        storm = Storm(s.master, ledger, SEED + i, threads=3, expect_down=True)
        wait_for('writes', lambda: os.path.exists(listed) and os.path.getsize(listed) > 2000 and storm.counts['write'] > 20, 60)
        time.sleep(rng.random() * 0.8)
        s.kill()
        storm.stop()
        b.kill()
        b.wait()
        s = Server(o.dfs, folder=folder, ports=ports, options=options, name=f'check{i}')
        wait_for('all volumes', lambda: 'index rows applied' in s.log_text(), 60)
        with open(listed) as f:
            lines = f.read().splitlines()
        n = len([x for x in lines if x and not x.startswith('#')])
        total += n
        status, text = benchmark(o.dfs, s.master_full, '-readOnly', '-readSequentially', '-n', str(n), '-c', '16', '-list', listed)
        wrong = ledger.wrong(s.volume)
        ledger.settle(s.volume)
        good = status == 0 and complete_and_failed(text) == [(n, 0)] and not wrong
        c.ok(f'{index} round {i}: {n} listed and {len(ledger.may)} other files', good, (status, text[-600:], wrong[:3]))
        s.kill() if i % 2 else s.end()
        if not good and os.environ.get('KEEP'):
            break
    s = Server(o.dfs, folder=folder, ports=ports, options=options, name='last')
    wait_for('all volumes', lambda: 'index rows applied' in s.log_text(), 60)
    c.equal(f'{index}: at the end everything of all rounds', ledger.wrong(s.volume)[:3], [])
    c.equal(f'{index}: SIGTERM', s.end(), 0)
print(f'{total} benchmark files in all')
c.done()
