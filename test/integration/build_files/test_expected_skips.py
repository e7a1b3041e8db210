"""With ORCD_NO_SKIP=1 a skip is a failure, unless verdicts/expected_skips.py expects it here; every one is
named."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import expected_skips
from worker_process import PATIENCE, PROJECT

FOLDER = PROJECT / 'test' / 'integration'
MODULES = f'{FOLDER}:{FOLDER / "verdicts"}'
TEST = """
import pytest
@pytest.mark.skipif(True, reason={reason!r})
def test_that_is_marked():
    pass
def test_that_skips_itself():
    pytest.skip({reason!r})
@pytest.fixture
def needed():
    pytest.skip({reason!r})
def test_whose_fixture_skips(needed):
    pass
def test_that_runs():
    pass
"""
MISSING = 'promtool is not here (tools/promtool.sh)'
EXPECTED = 'vllm-router passes every path on, which docs/operations.md says'


def run(folder: Path, text: str, no_skip: str = '1', *options: str):
    (folder / 'test_it.py').write_text(text)
    done = subprocess.run([sys.executable, '-B', '-m', 'pytest', '-q', '-p', 'expected_skips', '-p',
                           'no:cacheprovider', *options, str(folder)], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE, check=False,
                          env={**os.environ, 'ORCD_NO_SKIP': no_skip, 'PYTHONPATH': MODULES})
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize('options', [(), ('-n', '2')])
def test_a_skip_that_nothing_expects_fails(tmp_path, options):
    code, said = run(tmp_path, TEST.format(reason=MISSING), '1', *options)
    assert code == 1 and '1 passed' in said, said
    for name in ('that_is_marked', 'that_skips_itself', 'whose_fixture_skips'):
        assert f'::test_{name}: skipped, which is not expected' in said, said
    assert MISSING in said


def test_one_that_is_expected_does_not(tmp_path):
    code, said = run(tmp_path, TEST.format(reason=EXPECTED))
    assert code == 0 and '1 passed, 3 skipped' in said, said
    assert said.count(f': {EXPECTED}') == 3 and 'SKIPPED test_it.py::test_that_is_marked: ' in said, said


def test_whole_files_are_no_exception(tmp_path):
    text = 'import pytest\npytest.importorskip("no_such_package")\ndef test_it():\n    pass\n'
    code, said = run(tmp_path, text)
    assert code == 2 and 'no_such_package' in said and 'not expected' in said, said
    code, said = run(tmp_path, text, no_skip='')
    assert code == 5 and 'SKIPPED test_it.py: ' in said, said


def test_without_the_variable_skips_are_named(tmp_path):
    code, said = run(tmp_path, TEST.format(reason=MISSING), no_skip='')
    assert code == 0 and said.count(f': {MISSING}') == 3, said


@pytest.mark.parametrize('reason', [
    MISSING, 'etcd is not here (tools/etcd.sh)', 'Chromium is not here: set ORCD_CHROMIUM',
    'the demo model is not here: set ORCD_DEMO_MODEL (tools/fetch_demo_model.sh)',
    'the Python package openai is not installed', 'groff is not installed', "could not import 'yaml'"])
def test_a_missing_tool_is_never_expected(reason, monkeypatch):
    everywhere = [one._replace(here=True) for one in expected_skips.EXPECTED]
    monkeypatch.setattr(expected_skips, 'EXPECTED', everywhere)
    assert not expected_skips.is_expected(reason)
