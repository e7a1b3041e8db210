"""Runs integration tests with pytest's options. What fails is run once more, alone: beside other tests on
busy processors a limit of time may be missed that says nothing of the worker. Either way it is named at the
end. Some failures are not tried again: a report of a sanitizer or of a crash, a failure of many tests, and of
tests that nothing else on the machine excuses: of kills, of takeovers and of leaks.

    run_tests.py --cache BUILD/pytest/SUITE PYTEST-OPTION...

What passed only alone is counted over runs of the same suite on the same preset (passed_alone.py): the same
name twice in ten runs is a failure. ORCD_SHARE=N in the environment takes every Nth file alone, others each
time (share.py), and under a sanitizer ORCD_SANITIZER_SHARE=N does; what is left out is named.
"""
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent / 'verdicts'))

from passed_alone import KEPT_RUNS, Run, Runs, commit_of, now  # noqa: E402
from share import share_of, turn_of  # noqa: E402

FAILED_TESTS = 1  # pytest's exit code
TRIED_AGAIN = 3
NEVER_AGAIN = re.compile(
    rb'Sanitizer|runtime error:|SIGSEGV|SIGABRT|terminate called|(?<!\S)-(?:4|6|7|8|11)\b')
# By their files and names.
AT_ONCE = re.compile(r'(?:^|/)(?:failover/|fronts/|test_leaks\.py|test_memory_return\.py|test_pod\.py)'
                     r'|kill|death|leak', re.IGNORECASE)
NAME = re.compile(rb'^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$', re.MULTILINE)


def names_of(output: bytes) -> List[str]:
    return [name.decode(errors='replace') for name in NAME.findall(output)]


def may_be_tried_again(code: int, output: bytes) -> bool:
    names = names_of(output)
    return (code == FAILED_TESTS and 1 <= len(names) <= TRIED_AGAIN
            and not any(AT_ONCE.search(name) for name in names) and not NEVER_AGAIN.search(output))


def alone(options: List[str]) -> List[str]:
    """The same without processes beside one another."""
    kept, skip = [], False
    for option in options:
        if not skip and option not in ('-n', '--dist'):
            kept.append(option)
        skip = option in ('-n', '--dist')
    return kept


def run(options: List[str]) -> Tuple[int, bytes]:
    command = [sys.executable, '-B', '-m', 'pytest', '-q', '-rfE', '--durations=15', *options]
    output = b''
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            output += line
    return process.returncode, output


def try_again(options: List[str], failed: List[str], runs: Runs, this: Run) -> int:
    print('\nfailed beside others; once more, alone:', *failed, sep='\n  ', flush=True)
    code, _ = run([*alone(options), '--last-failed'])
    if code != 0:
        runs.add(this)
        return code
    print(*(f'PASSED ONLY ALONE {name}' for name in failed), sep='\n')
    earlier = runs.add(this._replace(alone=failed))
    for name, before in earlier.items():
        print(f'FAILED {name} - passed only alone twice in {KEPT_RUNS} runs of {runs.suite}: '
              f'{before.when} at {before.commit}, {this.when} at {this.commit}')
    return FAILED_TESTS if earlier else 0


def shared_out(options: List[str]) -> List[str]:
    name = 'ORCD_SANITIZER_SHARE' if os.environ.get('ORCD_SANITIZER') else 'ORCD_SHARE'
    count = int(os.environ.get(name, '1'))
    options, left_out = share_of(options, count, turn_of(Path(__file__).parent))
    if left_out:
        print(f'left out, {len(left_out)} files:', *(os.path.relpath(file) for file in left_out), flush=True)
    return options


def main(words: List[str]) -> int:
    if len(words) < 3 or words[0] != '--cache':
        print(__doc__)
        return 2
    cache = Path(words[1])
    options = ['-o', f'cache_dir={cache}', *shared_out(words[2:])]
    this = Run(now(), commit_of(Path(__file__).parent), [])
    try:
        runs = Runs(f'{cache.absolute().parent.parent.name}/{cache.name}')
    except (OSError, ValueError) as problem:
        print(f'nothing is tried again, since it cannot be counted: {problem}', flush=True)
        return run(options)[0]
    code, output = run(options)
    if may_be_tried_again(code, output):
        return try_again(options, names_of(output), runs, this)
    runs.add(this)
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
