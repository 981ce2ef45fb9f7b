#!/usr/bin/env python3
"""Vacuum after vacuum under readers, writers and deleters; then with kill -9 at random moments of it.
scale: every"""
import os

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('23_vacuum_live')
rng = random.Random(SEED)
full = o.scale == 'full'
# So much is done beside each other, however long it takes; half a minute is the end on any machine, and a tenth of it is enough.
VACUUMS, WRITES = (400, 3000) if full else (100, 800)
LONGEST_S = 30
OPTIONS = ['-volume.max=30', '-master.volumeSizeLimitMB=64', '-master.growth=2']

for index in ('memory', 'leveldb'):
    s = Server(o.dfs, options=[*OPTIONS, f'-volume.index={index}'])
    ledger = Ledger()
    storm = Storm(s.master, ledger, SEED, threads=8, max_bytes=12000, delete=0.3)
    latencies, runs, moved = [], 0, 0
    end = time.monotonic() + LONGEST_S
    while (moved < VACUUMS or storm.counts['write'] < WRITES) and time.monotonic() < end:
        results = vacuum(s.master)
        runs += 1
        moved += sum(r['Outcome'] == 'vacuumed' for r in results or [])
        p = rng.choice(ledger.live() or ['/0,0'])
        t = time.monotonic()
        ask(s.volume, p)
        latencies.append(time.monotonic() - t)
    errors = storm.stop()
    latencies.sort()
    print(f'{index}: {runs} runs, {storm.counts}, reads p50 {latencies[len(latencies) // 2] * 1000:.1f} ms, '
          f'longest {latencies[-1] * 1000:.1f} ms')
    c.ok(f'{index}: {moved} vacuums done beside {storm.counts["write"]} writes',
         moved >= VACUUMS // 10 and storm.counts['write'] >= WRITES // 10)
    c.equal(f'{index}: no request went wrong', errors[:4], [])
    c.equal(f'{index}: every file is right', ledger.wrong(s.volume)[:3], [])
    c.equal(f'{index}: SIGTERM', s.end(60), 0)
    s = Server(o.dfs, folder=s.folder, ports=s.ports, options=[*OPTIONS, f'-volume.index={index}'], name='again')
    wait_for('all volumes', lambda: 'index rows applied' in s.log_text())
    c.equal(f'{index}: and after a restart', ledger.wrong(s.volume)[:3], [])
    s.end()

# A slow vacuum, so that the kill falls into it.
if full:
    folder, ports, ledger, interrupted = temp_folder(), None, Ledger(), 0

    def copies():
        """Files of a vacuum that has not ended."""
        return [f for f in os.listdir(s.data) if f.endswith(('.cpd', '.cpx', '.cpc'))]

    for i in range(10):
        slow = ['-volume.compactionMBps=4'] if i % 3 else []
        s = Server(o.dfs, folder=folder, ports=ports, options=[*OPTIONS, *slow], name=f'round{i}')
        wait_for('all volumes', lambda: 'index rows applied' in s.log_text())
        ports = s.ports
        wrong = ledger.wrong(s.volume)
        c.equal(f'kill in a vacuum, round {i}: {len(ledger.may)} files', wrong[:3], [])
        ledger.settle(s.volume)
        if i == 0:
            put_many(s, ledger, 1500, SEED, 3000, 9000, upload='')
        storm = Storm(s.master, ledger, SEED + i, threads=4, expect_down=True, delete=0.3)
        wait_for('some deletes', lambda: storm.counts['delete'] > 30, 60)
        threading.Thread(target=get, args=(f'http://{s.master}/vol/vacuum?garbageThreshold=0.0001', 60), daemon=True).start()
        pause_s = rng.random() * (1.0 if slow else 0.15)
        if slow:
            wait_for('a copy', copies, 60)
        time.sleep(pause_s)
        s.kill()
        storm.stop()
        interrupted += bool(copies())
    s = Server(o.dfs, folder=folder, ports=ports, options=OPTIONS, name='last')
    wait_for('all volumes', lambda: 'index rows applied' in s.log_text())
    c.equal('kill in a vacuum: all of it at the end', ledger.wrong(s.volume)[:3], [])
    c.equal('no copies are left over', copies(), [])
    c.ok(f'{interrupted} of 10 kills fell into a copy', interrupted >= 2)
    c.equal('SIGTERM', s.end(), 0)
c.done()
