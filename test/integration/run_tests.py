"""Runs integration tests with pytest's options. What fails is run once more, alone: beside other tests on
busy processors a limit of time may be missed that says nothing of the worker. Either way it is named at the
end. A report of a sanitizer or of a crash counts at once, and so does a failure of many tests.

    run_tests.py --cache FOLDER PYTEST-OPTION...
"""
import re
import subprocess
import sys
from typing import List, Tuple

FAILED_TESTS = 1  # pytest's exit code
TRIED_AGAIN = 3
NEVER_AGAIN = re.compile(
    rb'Sanitizer|runtime error:|SIGSEGV|SIGABRT|terminate called|(?<!\S)-(?:4|6|7|8|11)\b')
NAME = re.compile(rb'^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$', re.MULTILINE)


def names_of(output: bytes) -> List[str]:
    return [name.decode(errors='replace') for name in NAME.findall(output)]


def may_be_tried_again(code: int, output: bytes) -> bool:
    return (code == FAILED_TESTS and 1 <= len(names_of(output)) <= TRIED_AGAIN
            and not NEVER_AGAIN.search(output))


def alone(options: List[str]) -> List[str]:
    """The same without processes beside one another."""
    kept, skip = [], False
    for option in options:
        if not skip and option not in ('-n', '--dist'):
            kept.append(option)
        skip = option in ('-n', '--dist')
    return kept


def run(options: List[str]) -> Tuple[int, bytes]:
    command = [sys.executable, '-B', '-m', 'pytest', '-q', '-ra', '--durations=15', *options]
    output = b''
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            output += line
    return process.returncode, output


def main(words: List[str]) -> int:
    if len(words) < 3 or words[0] != '--cache':
        print(__doc__)
        return 2
    options = ['-o', f'cache_dir={words[1]}', *words[2:]]
    code, output = run(options)
    if not may_be_tried_again(code, output):
        return code
    failed = names_of(output)
    print('\nfailed beside others; once more, alone:', *failed, sep='\n  ', flush=True)
    code, _ = run([*alone(options), '--last-failed'])
    if code == 0:
        print(*(f'PASSED ONLY ALONE {name}' for name in failed), sep='\n')
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
