"""What test/integration/run_tests.py tries once more, and what counts at once."""
import subprocess
import sys
from pathlib import Path

import pytest

from worker_process import PATIENCE, PROJECT

RUN = PROJECT / 'test' / 'integration' / 'run_tests.py'
ONCE = """
from pathlib import Path
def test_misses_a_limit_once():
    mark = Path(__file__).with_name('mark')
    tried = mark.exists()
    mark.touch()
    assert tried, {text!r}
"""


def run(folder: Path, text: str):
    (folder / 'test_it.py').write_text(text)
    command = [sys.executable, '-B', str(RUN), '--cache', str(folder / 'cache'), '-n', '2', str(folder)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE, check=False)
    return done.returncode, done.stdout.decode()


def test_what_fails_once_is_named(tmp_path):
    code, said = run(tmp_path, ONCE.format(text='late') + 'def test_another():\n    pass\n')
    assert code == 0 and 'PASSED ONLY ALONE' in said and '::test_misses_a_limit_once' in said, said
    assert '1 passed' in said.splitlines()[-2], 'only what failed is tried again'


@pytest.mark.parametrize('text', ['ThreadSanitizer: data race', 'assert -11 == 0', 'terminate called after'])
def test_a_crash_is_not_tried_again(tmp_path, text):
    code, said = run(tmp_path, ONCE.format(text=text))
    assert code == 1 and 'once more' not in said, said


def test_what_fails_twice_fails(tmp_path):
    code, said = run(tmp_path, 'def test_never():\n    assert False\n')
    assert code == 1 and 'once more' in said and 'PASSED ONLY ALONE' not in said, said


def test_many_failures_are_no_chance(tmp_path):
    code, said = run(tmp_path, ''.join(f'def test_{n}():\n    assert False\n' for n in range(4)))
    assert code == 1 and 'once more' not in said, said


def test_nothing_to_run_is_a_failure(tmp_path):
    code, _ = run(tmp_path, 'VALUE = 1\n')
    assert code == 5
