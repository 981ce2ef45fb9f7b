#!/usr/bin/env python3
"""kill -9 under writes, round after round on the same folder: every line of the benchmark's list, which it writes before its
worker asks for anything else, reads back with the right content after each restart (G157: long runs of faults are a
part of the suite).  Two minutes at most: a machine that is too slow for all rounds does fewer, and says so.
scale: full
limit: 120 s"""
import os

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('22_kill')
rng = random.Random(SEED)
ROUNDS, FEWEST = 20, 6
LAST_BEGINS_S = 80
BEGAN = time.monotonic()


class Lot:
    """One folder that is killed over and over, and what must be in it."""

    def __init__(self, index):
        self.index, self.folder, self.ports, self.ledger = index, temp_folder(), None, Ledger()
        self.options = ['-volume.max=60', '-master.volumeSizeLimitMB=32', f'-volume.index={index}', '-master.growth=2']

    def start(self, name):
        s = Server(o.dfs, folder=self.folder, ports=self.ports, options=self.options, name=name)
        self.ports = s.ports
        return s

    def again(self, name):
        s = self.start(name)
        wait_for('all volumes', lambda: 'index rows applied' in s.log_text(), 60)
        return s

    def write_and_kill(self, i):
        """The benchmark's list."""
        s = self.start(f'round{i}')
        listed = os.path.join(self.folder, f'list{i}')
        b = subprocess.Popen([o.dfs, 'benchmark', f'-master={s.master_full}', '-n', '10000000', '-c', '16', '-size',
                              str(rng.choice((100, 1024, 20000))), '-read=false', '-list', listed, '-timeout', '5s'],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        storm = Storm(s.master, self.ledger, SEED + i, threads=3, expect_down=True)
        wait_for('writes', lambda: os.path.exists(listed) and os.path.getsize(listed) > 2000 and storm.counts['write'] > 20, 60)
        time.sleep(rng.random() * 0.8)
        s.kill()
        storm.stop()
        b.kill()
        b.wait()
        return listed

    def check(self, i, listed):
        """How many files the list has."""
        s = self.again(f'check{i}')
        with open(listed) as f:
            n = len([x for x in f.read().splitlines() if x and not x.startswith('#')])
        status, text = benchmark(o.dfs, s.master_full, '-readOnly', '-readSequentially', '-n', str(n), '-c', '16', '-list', listed)
        wrong = self.ledger.wrong(s.volume)
        self.ledger.settle(s.volume)
        good = status == 0 and complete_and_failed(text) == [(n, 0)] and not wrong
        c.ok(f'{self.index} round {i}: {n} listed and {len(self.ledger.may)} other files', good, (status, text[-600:], wrong[:3]))
        s.kill() if i % 2 else s.end()
        return n

    def end(self):
        s = self.again('last')
        c.equal(f'{self.index}: at the end everything of all rounds', self.ledger.wrong(s.volume)[:3], [])
        c.equal(f'{self.index}: SIGTERM', s.end(), 0)


memory, leveldb = Lot('memory'), Lot('leveldb')
total = done = 0
while done < ROUNDS and (done < FEWEST or time.monotonic() - BEGAN < LAST_BEGINS_S):
    lot = leveldb if done % 3 == 2 else memory
    total += lot.check(done, lot.write_and_kill(done))
    done += 1
memory.end()
leveldb.end()
print(f'{done} of {ROUNDS} rounds, {total} benchmark files in all')
c.done()
