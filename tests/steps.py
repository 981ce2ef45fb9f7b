"""The steps of the suite, simplest first, so that the first failure is the one to read."""
import glob
import os
import re


class Step:
    """A command; `alone` when it starts servers, so that nothing else should run beside it."""

    def __init__(self, name, argv, limit_s=120, env=None, alone=False):
        self.name, self.argv, self.limit_s, self.env, self.alone = name, argv, limit_s, env or {}, alone


ASAN_ENV = {
    'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=0:exitcode=99:detect_stack_use_after_return=0',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1',
}
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'support', 'tsan.supp')
TSAN_ENV = {'TSAN_OPTIONS': 'halt_on_error=1:exitcode=98:second_deadlock_stack=1:history_size=4:suppressions=' + SUPPRESSIONS}

FEWER_CRASHES = {'DFS_CRASH_RUNS': '30'}  # under a sanitizer it is the program that is watched, not the crash points


def unit_steps(root, build, prefix, env, limit_s=600):
    out = []
    for src in sorted(glob.glob(os.path.join(root, 'tests/unit/*/test_*.c'))):
        name = os.path.relpath(src, os.path.join(root, 'tests'))[:-2]
        out.append(Step(prefix + name, [os.path.join(root, build, 'tests', name)], limit_s, env))
    return out


def fault_steps(root, build, prefix, env, limit_s=1200):
    out = []
    for src in sorted(glob.glob(os.path.join(root, 'tests/fault/test_*.c'))):
        name = os.path.relpath(src, os.path.join(root, 'tests'))[:-2]
        out.append(Step(prefix + name, [os.path.join(root, build, 'tests', name)], limit_s, env))
    return out


def fuzz_steps(root, build, prefix, env):
    """One pass over each kept corpus."""
    out = []
    for src in sorted(glob.glob(os.path.join(root, 'tests/fuzz/fuzz_*.c'))):
        name = os.path.basename(src)[len('fuzz_'):-2]
        corpus = os.path.join(root, 'tests/fuzz/corpus', name)
        out.append(Step(f'{prefix}fuzz/{name}', [os.path.join(root, build, 'tests/fuzz', 'fuzz_' + name), corpus], 120, env))
    return out


def integration_steps(root, dfs, prefix, env, scale):
    """Scripts that start real processes; each ends with `N passed, N failed`, and may say its own `limit: N s` in its head."""
    out = []
    for path in sorted(glob.glob(os.path.join(root, 'tests/integration/[0-9][0-9]_*.py'))):
        name = os.path.basename(path)[:-3]
        with open(path) as f:
            head = f.read(2000)
        if scale != 'full' and f'scale: {scale}' not in head and 'scale: every' not in head:
            continue
        limit = re.search(r'^limit: (\d+) s', head, re.M)
        out.append(Step(f'{prefix}integration/{name}', ['python3', path, '--dfs', dfs, '--scale', scale],
                        int(limit.group(1)) if limit else 900, env, alone=True))
    return out


def all_steps(root, build, asan, tsan):
    s = [Step('lint', ['python3', os.path.join(root, 'tests/lint/lint.py'), '--build', build], 300)]
    s += unit_steps(root, build, '', {})
    s += fuzz_steps(root, build, '', {})
    s += fault_steps(root, build, '', {})
    s += integration_steps(root, os.path.join(root, build, 'dfs'), '', {}, 'full')
    if asan:
        s += unit_steps(root, asan, 'asan/', ASAN_ENV, 900)
        s += fault_steps(root, asan, 'asan/', {**ASAN_ENV, **FEWER_CRASHES})
        s += fuzz_steps(root, asan, 'asan/', ASAN_ENV)
        s += integration_steps(root, os.path.join(root, asan, 'dfs'), 'asan/', ASAN_ENV, 'asan')
    if tsan:
        s += [x for x in unit_steps(root, tsan, 'tsan/', TSAN_ENV, 900) if 'unit/needle/' not in x.name]
        s += fault_steps(root, tsan, 'tsan/', {**TSAN_ENV, **FEWER_CRASHES})
        s += integration_steps(root, os.path.join(root, tsan, 'dfs'), 'tsan/', TSAN_ENV, 'tsan')
    return s
