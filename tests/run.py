#!/usr/bin/env python3
"""Runs the test suite and closes with one line: N passed, N failed, N skipped.

usage: run.py [--build DIR] [--only WORD[,WORD ...]] [--list] [--asan DIR] [--tsan DIR]

Every step is a command with a time limit.  Its output goes to <build>/test-logs/NAME.log; of a failed step the end is
shown.  A step counts what it says itself ("N passed, N failed", cmocka's closing line), or as one.  Steps that keep to
themselves (one thread, a folder of their own, no server) run two at a time; one that starts servers has the machine alone:
it may have two cores, and servers under test want them.
"""
import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import steps  # noqa: E402

COUNT = re.compile(r'^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$', re.M)
CMOCKA_OK = re.compile(r'^\[  PASSED  \] (\d+) test', re.M)
CMOCKA_BAD = re.compile(r'^\[  FAILED  \] .*?(\d+) test', re.M)
CMOCKA_SKIP = re.compile(r'^\[  SKIPPED \] .*?(\d+) test', re.M)
LANES = min(2, os.cpu_count() or 1)
END_LINES = 30  # of a failed step, and as many of its checks that failed
LINE_CHARS = 600


def counts(text, status):
    """(passed, failed, skipped) of a step by its own words; a bad exit status is at least one failure."""
    passed = failed = skipped = 0
    for m in COUNT.finditer(text):
        passed += int(m.group(1))
        failed += int(m.group(2))
        skipped += int(m.group(3) or 0)
    for pattern, what in ((CMOCKA_OK, 0), (CMOCKA_BAD, 1), (CMOCKA_SKIP, 2)):
        n = sum(int(m.group(1)) for m in pattern.finditer(text))
        passed, failed, skipped = (passed + n if what == 0 else passed, failed + n if what == 1 else failed,
                                   skipped + n if what == 2 else skipped)
    if status != 0 and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        passed = 1
    return passed, failed, skipped


def run(step, log_path):
    """Returns (exit status, output, seconds); the whole process group is ended at the limit."""
    start = time.monotonic()
    with open(log_path, 'wb') as log:
        p = subprocess.Popen(step.argv, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                             env={**os.environ, **step.env}, start_new_session=True)
        try:
            status = p.wait(step.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            log.write(b'\nended after %d s\n' % step.limit_s)
            status = 124
    with open(log_path, errors='replace') as f:
        return status, f.read(), time.monotonic() - start


def shown(text):
    """What of a failed step's output is worth reading at once: each check that failed, and the end."""
    lines = text.splitlines()
    bad = [x for x in lines[:-END_LINES] if x.startswith(('FAIL', '[  ERROR', '[  FAILED'))]
    return [x[:LINE_CHARS] for x in bad[:END_LINES] + lines[-END_LINES:]]


class Report:
    """Adds up what the steps said, and says it."""

    def __init__(self, logs):
        self.logs, self.total, self.failures = logs, [0, 0, 0], []

    def log_of(self, step):
        return os.path.join(self.logs, step.name.replace('/', '.') + '.log')

    def add(self, step, outcome):
        status, text, seconds = outcome
        n = counts(text, status)
        self.total = [x + y for x, y in zip(self.total, n)]
        good = status == 0 and n[1] == 0
        print(f"{'ok  ' if good else 'FAIL'} {step.name}: {n[0]} of {sum(n)} in {seconds:.1f} s", flush=True)
        if not good:
            self.failures.append(step.name)
            print('\n'.join('    ' + line for line in shown(text)), flush=True)
            print(f'    (exit status {status}; whole output: {os.path.relpath(self.log_of(step), ROOT)})', flush=True)

    def run_all(self, todo):
        """In order; neighbours that keep to themselves side by side."""
        with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
            while todo:
                together = []
                while todo and (not together or (together[-1].alone, todo[0].alone) == (False, False)):
                    together.append(todo.pop(0))
                for step, outcome in zip(together, pool.map(lambda s: run(s, self.log_of(s)), together)):
                    self.add(step, outcome)


def choose_temp_folder():
    """What is asked of the page cache cannot be asked of a file system that is nothing else: a /tmp in memory will not do."""
    if os.environ.get('TMPDIR'):
        return
    with open('/proc/mounts') as f:
        in_memory = any(line.split()[1:3] == ['/tmp', 'tmpfs'] for line in f)
    if in_memory:
        os.environ['TMPDIR'] = os.path.join(ROOT, 'build', 'tmp')
        os.makedirs(os.environ['TMPDIR'], exist_ok=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build/release')
    a.add_argument('--asan', default='')
    a.add_argument('--tsan', default='')
    a.add_argument('--only', default='')
    a.add_argument('--list', action='store_true')
    o = a.parse_args()
    todo = steps.all_steps(ROOT, o.build, o.asan, o.tsan)
    words = [w for w in o.only.split(',') if w]
    if words:
        todo = [s for s in todo if any(w in s.name for w in words)]
    if o.list:
        for s in todo:
            print(s.name, '-', ' '.join(s.argv))
        return 0
    choose_temp_folder()
    logs = os.path.join(ROOT, o.build, 'test-logs')
    os.makedirs(logs, exist_ok=True)
    report = Report(logs)
    empty = not todo
    report.run_all(todo)
    if report.failures:
        print('failed: ' + ' '.join(report.failures))
    if empty:
        print('no such step')
        return 2
    passed, failed, skipped = report.total
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed or report.failures else 0


if __name__ == '__main__':
    sys.exit(main())
