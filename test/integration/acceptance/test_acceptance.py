"""bench/acceptance: its statistics and its judging, and one run of each form."""
import json
import subprocess
import sys

import pytest

from worker_process import BINARY, PROJECT, SANITIZED, Worker

BENCH = PROJECT / 'bench' / 'acceptance'
sys.path.insert(0, str(BENCH))

import figures  # noqa: E402
from figures import Figure, Goal, passed, quantile, table  # noqa: E402

NAMES = ['first_token', 'between_tokens', 'start', 'health', 'shutdown', 'disconnect', 'vram']


def test_quantiles_are_samples_by_nearest_rank():
    hundred = [float(n) for n in range(100, 0, -1)]
    assert [quantile(hundred, p) for p in (1, 50, 95, 99, 100)] == [1, 50, 95, 99, 100]
    assert [quantile([3, 1, 2], p) for p in (33, 34, 50, 66, 67, 99)] == [1, 2, 2, 2, 3, 3]
    assert quantile([7], 50) == quantile([7], 99) == 7
    # 20 samples: the 19th is not exceeded by 95 % of them, and p99 is the highest.
    assert quantile(list(range(20)), 95) == 18 and quantile(list(range(20)), 99) == 19


@pytest.mark.parametrize('samples, percent', [([], 50), ([1], 0), ([1], 101), ([1], -5)])
def test_a_quantile_of_nothing_is_refused(samples, percent):
    with pytest.raises(ValueError):
        quantile(samples, percent)


@pytest.mark.parametrize('value, said', [
    (0, 'pass'), (100, 'pass'), (100.01, 'tolerated'), (110, 'tolerated'), (110.01, 'fail'), (1e9, 'fail')])
def test_a_goal_is_missed_beyond_ten_per_cent(value, said):
    figure = Figure(Goal('x', 'x', 'ms', 100, 95), [value])
    assert figure.verdict() == said and passed([figure]) == (said != 'fail')


def test_the_quantile_of_the_goal_is_judged_and_not_the_worst():
    samples = [1.0] * 95 + [1000.0] * 5
    assert Figure(Goal('x', 'x', 'ms', 100, 95), samples).verdict() == 'pass'
    assert Figure(Goal('x', 'x', 'ms', 100, 99), samples).verdict() == 'fail'


def test_what_was_not_measured_is_neither_a_pass_nor_a_failure():
    out, good, bad = (Figure(Goal('x', 'x', 'ms', 10, 99), s, 'why') for s in ([], [1], [100]))
    assert out.verdict() == 'left out' and out.judged() is None
    assert passed([out, good]) and not passed([out, bad]) and not passed([good, bad])
    assert not passed([out]), 'nothing measured is nothing shown'
    shown = out.to_json()
    assert shown['p50'] is None and shown['note'] == 'why' and json.dumps(shown)
    assert '| – | – | – |' in table([out]) and '(why)' in table([out])


def test_the_goals_are_those_of_the_requirement():
    said = {g.name: (g.limit, g.unit, g.quantile) for g in figures.GOALS}
    assert list(said) == NAMES
    assert said['first_token'] == (100, 'ms', 95) and said['between_tokens'] == (50, 'ms', 95)
    assert said['health'] == (10, 'ms', 99) and said['start'][:2] == (60, 's')
    assert said['shutdown'][:2] == (5, 's') and said['disconnect'][:2] == (100, 'ms')


def run(tmp_path, *words) -> tuple:
    out = tmp_path / 'out.json'
    done = subprocess.run([sys.executable, '-B', str(BENCH), '--json', str(out), *map(str, words)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode(), out


def check_report(code: int, text: str, path) -> dict:
    report = json.loads(path.read_text())
    by_name = {f['name']: f for f in report['figures']}
    assert list(by_name) == NAMES and code == (0 if report['passed'] else 1)
    for figure in by_name.values():
        if figure['samples']:
            assert figure['p50'] <= figure['p95'] <= figure['p99']
            assert figure['verdict'] in ('pass', 'tolerated', 'fail'), figure
        else:
            assert figure['verdict'] == 'left out' and figure['note'], figure
        assert figure['title'] in text
    assert report['worker']['backend'] == 'host' and report['worker']['digest'] is not None
    assert set(report['machine']) >= {'cpu', 'cores', 'memory_gib'} and report['commit'] and report['date']
    assert 'VRAM' in by_name['vram']['note'] and by_name['vram']['verdict'] == 'left out'
    return by_name


@pytest.mark.skipif(SANITIZED, reason='times of an instrumented build say nothing')
def test_a_worker_that_it_starts(tmp_path, tiny_model):
    code, text, errors, out = run(tmp_path, '--worker', BINARY, '--model', tiny_model, '--backend', 'host',
                                  '--requests', 3, '--tokens', 8, '--', '--slots', 2)
    assert not errors
    found = check_report(code, text, out)
    samples = [found[n]['samples'] for n in NAMES]
    assert 0 < samples.pop(1) <= 21, 'a token that completes no text has no event'
    assert samples == [3, 3, 60, 3, 3, 0]
    assert 'resident memory grew' in found['vram']['note']
    assert json.loads(out.read_text())['worker']['slots'] == 2, 'options after -- are the worker\'s'


def test_a_worker_that_runs(tmp_path, tiny_model):
    with Worker('--model', tiny_model) as worker:
        url = f'http://127.0.0.1:{worker.port}'
        code, text, errors, out = run(tmp_path, '--url', url, '--requests', 2, '--tokens', 4)
        assert not errors
        found = check_report(code, text, out)
        assert worker.alive() and found['start']['samples'] == 1
        assert found['shutdown']['samples'] == 0 and 'not stopped' in found['shutdown']['note']


@pytest.mark.parametrize('words, said', [
    (['--url', 'http://127.0.0.1:9'], 'refused'),
    (['--url', 'ftp://x'], 'no http:// URL'),
    (['--worker', BINARY, '--model', '/nothing.gguf', '--backend', 'host'], 'did not start'),
    ([], 'either --url or both'),
    (['--url', 'http://x', '--worker', BINARY, '--model', 'm'], 'either --url or both'),
])
def test_what_cannot_be_measured_is_said_with_code_2(tmp_path, words, said):
    code, text, errors, out = run(tmp_path, *words)
    assert code == 2 and said in errors and not out.exists(), (code, text, errors)
