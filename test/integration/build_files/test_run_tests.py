"""What test/integration/run_tests.py tries once more, what counts at once, and what it keeps of its runs."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from worker_process import PATIENCE, PROJECT

sys.path.insert(0, str(PROJECT / 'test' / 'integration' / 'verdicts'))

from passed_alone import Run, Runs, now  # noqa: E402
from share import share_of  # noqa: E402

RUN = PROJECT / 'test' / 'integration' / 'run_tests.py'
# Fails in each run of the suite, and passes when it is tried again.
ONCE = """
from pathlib import Path
def test_misses_a_limit_once():
    mark = Path(__file__).with_name('mark')
    tried = mark.exists()
    mark.unlink() if tried else mark.touch()
    assert tried, {text!r}
"""
FLAKY = ONCE.format(text='late')
PASSES = 'def test_misses_a_limit_once():\n    pass\n'


def begin(folder: Path, text: str, file: str = 'test_it.py', suite: str = 'suite') -> subprocess.Popen:
    place = folder / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    cache = folder / 'build' / 'preset' / 'pytest' / suite
    command = [sys.executable, '-B', str(RUN), '--cache', str(cache), '-n', '2', str(place)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={**os.environ, 'ORCD_ALONE_FILE': str(folder / 'kept' / 'alone.json')})


def run(folder: Path, text: str, **more):
    begun = begin(folder, text, **more)
    said, _ = begun.communicate(timeout=PATIENCE)
    return begun.returncode, said.decode()


def kept(folder: Path, suite: str = 'suite') -> List[List[str]]:
    """The names in each run that is kept."""
    runs = json.loads((folder / 'kept' / 'alone.json').read_text())[f'preset/{suite}']
    return [names for _, _, names in runs]


def test_what_fails_once_is_named(tmp_path):
    code, said = run(tmp_path, FLAKY + 'def test_another():\n    pass\n')
    assert code == 0 and 'PASSED ONLY ALONE' in said and '::test_misses_a_limit_once' in said, said
    assert '1 passed' in said.splitlines()[-2], 'only what failed is tried again'


@pytest.mark.parametrize('text', ['ThreadSanitizer: data race', 'assert -11 == 0', 'terminate called after'])
def test_a_crash_is_not_tried_again(tmp_path, text):
    code, said = run(tmp_path, ONCE.format(text=text))
    assert code == 1 and 'once more' not in said, said


@pytest.mark.parametrize('file', ['failover/test_it.py', 'fronts/test_it.py', 'test_leaks.py',
                                  'test_memory_return.py', 'test_some_kills.py'])
def test_what_is_about_kills_and_leaks_is_not_tried_again(tmp_path, file):
    code, said = run(tmp_path, FLAKY, file=file)
    assert code == 1 and 'once more' not in said, said
    assert kept(tmp_path) == [[]]


def test_what_fails_twice_fails(tmp_path):
    code, said = run(tmp_path, 'def test_never():\n    assert False\n')
    assert code == 1 and 'once more' in said and 'PASSED ONLY ALONE' not in said, said


def test_many_failures_are_no_chance(tmp_path):
    code, said = run(tmp_path, ''.join(f'def test_{n}():\n    assert False\n' for n in range(4)))
    assert code == 1 and 'once more' not in said, said


def test_nothing_to_run_is_a_failure(tmp_path):
    code, _ = run(tmp_path, 'VALUE = 1\n')
    assert code == 5


# --- over several runs ------------------------------------------------------------------------------

def pass_runs(folder: Path, count: int, monkeypatch) -> None:
    """Runs in which all passes, as they are kept."""
    monkeypatch.setenv('ORCD_ALONE_FILE', str(folder / 'kept' / 'alone.json'))
    for _ in range(count):
        Runs('preset/suite').add(Run(now(), 'commit', []))


def test_what_passes_only_alone_twice_in_ten_runs_fails(tmp_path, monkeypatch):
    assert run(tmp_path, FLAKY)[0] == 0
    pass_runs(tmp_path, 8, monkeypatch)
    code, said = run(tmp_path, FLAKY)
    assert code == 1, said
    (failed,) = re.findall(r'^FAILED .* passed only alone .*', said, re.M)
    assert 'test_misses_a_limit_once' in failed and 'of preset/suite' in failed
    assert len(re.findall(r'20\d\d-\S+ at \S+', failed)) == 2, failed
    name = 'test_it.py::test_misses_a_limit_once'
    assert kept(tmp_path) == [[name], *[[]] * 8, [name]]


def test_what_passes_only_alone_once_in_ten_runs_passes(tmp_path, monkeypatch):
    assert run(tmp_path, FLAKY)[0] == 0
    assert run(tmp_path, PASSES)[0] == 0
    pass_runs(tmp_path, 8, monkeypatch)
    code, said = run(tmp_path, FLAKY)
    assert code == 0 and 'PASSED ONLY ALONE' in said, said
    assert len(kept(tmp_path)) == 10, 'no more is kept than is asked for'


def test_runs_of_another_suite_are_others(tmp_path):
    assert run(tmp_path, FLAKY)[0] == 0
    assert run(tmp_path, FLAKY, suite='another')[0] == 0
    assert run(tmp_path, FLAKY, suite='another')[0] == 1


def test_suites_at_the_same_time_keep_a_record_each(tmp_path):
    place = tmp_path / 'alone.json'
    script = ('import sys; sys.path.insert(0, sys.argv[1]); from passed_alone import Run, Runs\n'
              'runs = Runs(sys.argv[2])\n'
              'for n in range(20): runs.add(Run(str(n), "x", []))\n')
    writers = [subprocess.Popen([sys.executable, '-c', script, str(RUN.parent / 'verdicts'),
                                 f'suite-{n}'],
                                env={**os.environ, 'ORCD_ALONE_FILE': str(place)}) for n in range(8)]
    assert [one.wait(PATIENCE) for one in writers] == [0] * 8
    found = json.loads(place.read_text())
    assert {suite: len(runs) for suite, runs in found.items()} == {f'suite-{n}': 10 for n in range(8)}


@pytest.mark.parametrize('spoilt', ['[1]', '{"preset/suite": [1]}', '{', 'a folder'])
def test_where_it_cannot_be_counted_nothing_is_tried_again(tmp_path, spoilt):
    place = tmp_path / 'kept' / 'alone.json'
    place.parent.mkdir()
    place.mkdir() if spoilt == 'a folder' else place.write_text(spoilt)
    code, said = run(tmp_path, FLAKY)
    assert code == 1 and 'nothing is tried again' in said and 'once more' not in said, said


def test_a_share_is_every_nth_file_and_all_come_in_turn(tmp_path):
    for name in ('test_a.py', 'test_b.py', 'deep/test_c.py', 'test_d.py', 'helper.py', 'not/test_e.py'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    options = ['-n', '3', str(tmp_path), f'--ignore={tmp_path / "not"}']
    taken = [share_of(options, 3, turn) for turn in range(4)]
    assert [len(left_out) for _, left_out in taken] == [2, 3, 3, 2]
    names = [sorted(Path(word).name for word in words if word.endswith('.py')) for words, _ in taken]
    assert sorted(sum(names[:3], [])) == ['test_a.py', 'test_b.py', 'test_c.py', 'test_d.py']
    assert names[3] == names[0] and str(tmp_path) not in taken[0][0] and '--ignore' in taken[0][0][2]
    assert share_of(options, 1, 0) == (options, [])
