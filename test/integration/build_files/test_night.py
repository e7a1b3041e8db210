"""The night (tools/night): its table, what it makes of a part, its record, and which parts it names as
stale."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from worker_process import PATIENCE, PROJECT, wait_until

sys.path.insert(0, str(PROJECT / 'tools' / 'night'))

import record  # noqa: E402
import runner  # noqa: E402
from counts import counts  # noqa: E402
from parts import ALLOCATIONS, GPU, PARTS, Part  # noqa: E402

NIGHT = PROJECT / 'tools' / 'night.sh'
PASSES = 'echo "3 passed, 1 skipped in 1.20s"'


@pytest.fixture
def night(tmp_path):
    return runner.Night('abc1234', record=tmp_path / 'night.json', logs=tmp_path / 'logs', project=tmp_path)


def line_of(night, part: str) -> dict:
    return record.read(night.record)[part]


def call(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(NIGHT), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE, check=False)


# --- the table ---------------------------------------------------------------------------------


def test_parts_have_names_of_their_own_and_end_within_an_hour():
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names) and len(names) > 20
    assert all(re.fullmatch(r'[a-z0-9.-]+', name) for name in names)
    assert all(0 < part.minutes <= (10 if GPU in part.needs else 60) for part in PARTS)


@pytest.mark.parametrize('part', PARTS, ids=lambda part: part.name)
def test_what_a_part_names_is_there(part):
    command = runner.PRELUDE + runner.preparation(part) + '\n' + part.command
    assert subprocess.run(['bash', '-n', '-c', command], timeout=PATIENCE, check=False).returncode == 0
    for path in re.findall(r'(?<![\w/$"}.-])(?:tools|bench|test)/[\w./*\[\]-]+', command):
        assert list(PROJECT.glob(path)), path
    presets = json.loads((PROJECT / 'CMakePresets.json').read_text())['buildPresets']
    assert not part.builds or part.builds[0] in [preset['name'] for preset in presets]
    for variable in re.findall(r'\bORCD_\w+(?==\d|=all)', command):
        assert any(variable in path.read_text() for path in (PROJECT / 'test').rglob('*.py')), variable


def collected_by(part: Part) -> set:
    """The files whose tests a part runs, or skips whole. A GPU is not asked for its name here."""
    command = runner.PRELUDE + part.command.replace('ORCD_BACKEND=cuda', 'ORCD_BACKEND=host')
    done = subprocess.run(['bash', '-c', command], stdout=subprocess.PIPE, cwd=PROJECT,
                          env={**os.environ, 'PYTEST_ADDOPTS': '--collect-only -p no:cacheprovider'},
                          timeout=PATIENCE, check=True)
    return set(re.findall(r'^(?:SKIPPED )?(test/\S+?\.py):', done.stdout.decode(), re.M))


def test_every_integration_test_of_a_worker_is_in_one_part_for_a_gpu_but_for_allocations():
    parts = [part for part in PARTS if part.name.startswith('gpu-') and 'pytest' in part.command]
    collected = [name for part in parts for name in collected_by(part)]
    folders = ('', 'gpu', 'api', 'failover', 'models', 'pipe', 'traces')
    wanted = [str(path.relative_to(PROJECT)) for folder in folders
              for path in (PROJECT / 'test' / 'integration' / folder).glob('test_*.py')]
    wanted.remove(ALLOCATIONS)
    assert len(wanted) > 60 and sorted(collected) == sorted(wanted)


def test_the_list_names_every_part():
    done = call('--list')
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == [part.name for part in PARTS]


def test_an_unknown_part_is_refused():
    done = call('no-such-part')
    assert done.returncode == 1 and b'no such part: no-such-part' in done.stdout


# --- what is counted ---------------------------------------------------------------------------


@pytest.mark.parametrize('text, found', [
    ('=== 2 failed, 30 passed, 4 skipped, 1 error in 12.34s (0:01:02) ===',
     {'failed': 3, 'passed': 30, 'skipped': 4}),
    ('1 failed, 30 passed in 9.10s\n1 passed in 1.00s\nPASSED ONLY ALONE test_a.py::test_b\n',
     {'passed': 31, 'only_alone': 1}),
    ('Test module "unit_text" has passed with:\n  40 test cases out of 41 passed\n'
     '  1 test case out of 41 skipped', {'passed': 40, 'skipped': 1}),
    ('117 of 118 held; seed 7\n', {'passed': 117, 'failed': 1}),
    ('clang-tidy: 182 sources, 2 with findings\n', {'passed': 180, 'failed': 2}),
    ('  any instruction    8 kills\n1000 kills, seed 5\n', {'kills': 1000}),
    ('1 streams at 512 positions, 50 kills: 49 connections resumed, 1 lost, 0 conflicts\n',
     {'kills': 50, 'resumed': 49}),
    ('\n200 takeovers in 1700 s, 900 stories resumed\n1 passed in 1701.00s', {'takeovers': 200, 'passed': 1}),
    ('stat::number_of_executed_units: 1200\nstat::number_of_executed_units: 34\n', {'inputs': 1234}),
    ('== install\n== removal\nother\n', {'steps': 2}),
    (f'{"0" * 64}  first/worker-orcd_0.1.0_amd64.deb\n{"0" * 64}  again/worker-orcd_0.1.0_amd64.deb\n',
     {'same_packages': 2}),
    ('nothing of all that', {})])
def test_summaries_are_counted(text, found):
    assert counts(text) == found


# --- a part ------------------------------------------------------------------------------------


def test_a_part_that_passes_has_its_line_and_its_log(night):
    assert runner.run_all([Part('fake', 'a fake', 1, PASSES)], night) == []
    line = line_of(night, 'fake')
    assert line['result'] == 'passed' and line['commit'] == 'abc1234'
    assert line['counts'] == {'passed': 3, 'skipped': 1}
    assert set(line['machine']) == {'cpu', 'cores', 'gpu'} and os.uname().nodename not in str(line['machine'])
    assert 'passed' in (night.logs / 'fake.log').read_text()


@pytest.mark.parametrize('command, result', [
    (f'{PASSES}; exit 3', 'failed: exit code 3'),
    ('echo "1 failed, 3 passed in 1.20s"', 'failed: what was counted'),
    ('echo "4 skipped in 1.20s"', 'failed: nothing was counted'),
    ('true', 'failed: nothing was counted'),
    ('false | true\n' + PASSES, 'failed: exit code 1')])
def test_what_does_not_pass_fails(night, command, result):
    assert runner.run_all([Part('fake', 'a fake', 1, command)], night) == ['fake']
    assert line_of(night, 'fake')['result'] == result


def test_a_part_must_say_what_it_proves(night):
    runner.run_all([Part('fake', 'a fake', 1, 'echo "== unpacked only"', proof='^== removed')], night)
    assert line_of(night, 'fake')['result'].startswith('failed: its log does not say')


def runs(pid: str) -> bool:
    try:
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_part_beyond_its_time_is_ended_with_all_that_it_started(night, monkeypatch):
    monkeypatch.setattr(runner, 'END_SECONDS', 0.1)
    pids, wait = night.project / 'pids', subprocess.Popen.wait

    def wait_for_start(process, timeout=None):
        """The part's time is over as soon as it has written what it is, however busy the machine."""
        if timeout is None or 'sleep 600' not in process.args[-1]:
            return wait(process, timeout)
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, PATIENCE, 'it has begun')
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, 'wait', wait_for_start)
    command = f'trap "" TERM; sleep 600 & echo $$ $! >{pids}; wait; wait'
    assert runner.run_all([Part('fake', 'a fake', 7, command)], night) == ['fake']
    assert line_of(night, 'fake')['result'] == 'failed: over 7 minutes'
    wait_until(lambda: not any(map(runs, pids.read_text().split())), PATIENCE, 'nothing of it runs')


def test_a_part_without_what_it_needs_is_named_and_writes_nothing(night, monkeypatch, capsys):
    monkeypatch.setattr(runner, 'gpu_name', lambda: '')
    parts = [Part('on-gpu', 'a fake', 1, PASSES, needs=(GPU,)), Part('fake', 'a fake', 1, PASSES)]
    assert runner.run_all(parts, night) == []
    assert 'LEFT OUT on-gpu: needs a GPU' in capsys.readouterr().out
    assert list(record.read(night.record)) == ['fake']


def test_parts_go_on_after_one_that_fails(night, capsys):
    parts = [Part('a', 'a fake', 1, 'exit 1'), Part('b', 'a fake', 1, PASSES)]
    assert runner.run_all(parts, night) == ['a']
    assert line_of(night, 'b')['result'] == 'passed' and 'FAILED a\n' in capsys.readouterr().out


def test_what_cannot_be_built_fails_and_given_binaries_are_not_built(night, tmp_path):
    part = Part('fake', 'a fake', 1, f'[ "$BUILD" = {tmp_path} ]\n{PASSES}', ('release', 'x'), ('test',))
    assert runner.run_all([part], night) == ['fake']  # there are no tools in this folder
    assert line_of(night, 'fake')['result'] == 'failed: it was not built'
    night.build = tmp_path
    assert runner.run_all([part], night) == [] and line_of(night, 'fake')['result'] == 'passed'


# --- the record --------------------------------------------------------------------------------


def line(part: str, **changes) -> dict:
    return {'part': part, 'commit': 'abc1234', 'date': '2026-01-02', 'machine': {'cores': 2}, 'seconds': 1,
            'counts': {'passed': 1}, 'result': 'passed', **changes}


def test_the_record_is_sorted_and_changes_a_line_a_part(tmp_path):
    file = tmp_path / 'night.json'
    record.write(file, [line('b'), line('a')])
    before = file.read_text().splitlines()
    record.write(file, [line('b', seconds=9)])
    after = file.read_text().splitlines()
    assert [json.loads(text.rstrip(','))['part'] for text in after[1:-1]] == ['a', 'b']
    assert [old == new for old, new in zip(before, after)] == [True, True, False, True]


def test_another_record_is_taken_up_but_for_older_lines(tmp_path):
    ours, other = tmp_path / 'ours.json', tmp_path / 'other.json'
    record.write(ours, [line('a', date='2026-01-05'), line('b')])
    record.write(other, [line('a', seconds=7), line('b', seconds=7), line('c')])
    record.merge(ours, other)
    assert {part: one['seconds'] for part, one in record.read(ours).items()} == {'a': 1, 'b': 7, 'c': 1}


@pytest.mark.parametrize('text', [
    'not JSON', '{"part": "a"}', '[1]', json.dumps([line('a'), line('a')]),
    json.dumps([{**line('a'), 'host': 'x'}]), json.dumps([line('a', seconds='1')]),
    json.dumps([line('a', commit='HEAD; x')])])
def test_a_damaged_record_is_an_error(tmp_path, text):
    file = tmp_path / 'night.json'
    file.write_text(text)
    with pytest.raises(record.Damaged):
        record.read(file)
    assert call('--stale', '--record', str(file)).returncode == 1


# --- what is stale -----------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', '-C', str(folder), *words],
                          stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
    return done.stdout.decode().strip()


@pytest.fixture(scope='module')
def history(tmp_path_factory):
    """A repository of 103 commits, the oldest first, and one that is not in its history."""
    folder = tmp_path_factory.mktemp('history')
    git(folder, 'init', '--quiet')
    for number in range(103):
        git(folder, 'commit', '--quiet', '--allow-empty', '-m', str(number))
    commits = git(folder, 'rev-list', '--reverse', 'HEAD').split()
    elsewhere = git(folder, 'commit-tree', '-m', 'elsewhere', 'HEAD^{tree}')
    return folder, commits, elsewhere


def test_parts_are_named_that_must_be_run_again(history):
    folder, commits, elsewhere = history
    ran = {'new': line('new', commit=commits[-1][:9]), 'hundred': line('hundred', commit=commits[2]),
           'old': line('old', commit=commits[1]), 'broken': line('broken', result='failed: exit code 1'),
           'elsewhere': line('elsewhere', commit=elsewhere), 'unknown': line('unknown', commit='1234567')}
    told = record.stale([*ran, 'never'], ran, lambda commit: record.commits_since(folder, commit))
    assert [sentence.split(':')[0] for sentence in told] == ['old', 'broken', 'elsewhere', 'unknown', 'never']
    assert 'run 101 commits ago' in told[0] and 'failed: exit code 1' in told[1]
    assert 'not in this history' in told[2] and 'not in this history' in told[3] and 'never run' in told[4]


def test_stale_parts_are_no_failure(tmp_path):
    done = call('--stale', '--record', str(tmp_path / 'none.json'))
    text = done.stdout.decode()
    assert done.returncode == 0 and text.count('never run') == len(PARTS)
    assert f'0 of {len(PARTS)} parts' in text


def test_the_kept_record_is_whole_and_about_parts_that_there_are():
    kept = record.read(runner.RECORD)
    assert set(kept) <= {part.name for part in PARTS}
    assert all(set(one['machine']) == {'cpu', 'cores', 'gpu'} for one in kept.values())
