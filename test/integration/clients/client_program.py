"""Runs a client from PyPI, unchanged, in a process of its own that sees only one folder of packages, that of
tools/python_clients.txt unless another is given: clients ask for other versions of shared packages than the
tests do."""
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from worker_process import PATIENCE, Worker

CLIENTS = Path(os.environ.get('ORCD_CLIENTS', '/nonexistent'))
# What would look for a network at start or at exit.
QUIET = {'HF_HUB_OFFLINE': '1', 'HF_HUB_DISABLE_TELEMETRY': '1', 'DO_NOT_TRACK': '1',
         'OTEL_SDK_DISABLED': 'true', 'LANGSMITH_TRACING': 'false', 'LITELLM_LOCAL_MODEL_COST_MAP': 'True'}
# One process runs all cases, because to import a client takes longer than to use it; a case that fails leaves
# the others their results.
RUN_ALL = '''
import json as _json, sys as _sys, traceback as _traceback
def _run_all():
    told = {}
    for name, case in list(globals().items()):
        if name.startswith('case_'):
            try:
                told[name[len('case_'):]] = {'result': case()}
            except Exception:
                told[name[len('case_'):]] = {'error': _traceback.format_exc()}
    with open(_sys.argv[1], 'w') as out:
        _json.dump(told, out)
_run_all()
'''


def needs(package: str):
    return pytest.mark.skipif(
        not (CLIENTS / package).is_dir(),
        reason=f'{package} is not here: set ORCD_CLIENTS (tools/python_packages.sh clients)')


class Told:
    """What the cases of a program returned."""

    def __init__(self, cases: Dict[str, dict]) -> None:
        self._cases = cases

    def __getitem__(self, case: str) -> Any:
        assert 'error' not in self._cases[case], self._cases[case]['error']
        return self._cases[case]['result']


def environment_of(worker: Worker, folder: Path, packages: Path = CLIENTS) -> Dict[str, str]:
    """Where a client finds the worker: URL, its /v1 in BASE_URL, the name of the model in MODEL."""
    url = f'http://127.0.0.1:{worker.port}'
    return {'PATH': os.environ['PATH'], 'HOME': str(folder), 'PYTHONPATH': str(packages), **QUIET,
            'URL': url, 'BASE_URL': f'{url}/v1', 'OPENAI_API_KEY': 'none',
            'MODEL': worker.get('/v1/models').json()['data'][0]['id']}


def run(worker: Worker, program: str, folder: Path, packages: Path = CLIENTS) -> Told:
    """The program defines functions case_NAME, which return what JSON can hold, and has environment_of()."""
    environment = environment_of(worker, folder, packages)
    # A file, because some clients read the source of a function that becomes a tool.
    (folder / 'program.py').write_text(program + RUN_ALL)
    ended = subprocess.run([sys.executable, '-B', 'program.py', 'told.json'], cwd=folder, env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=8 * PATIENCE,
                           check=False)
    assert ended.returncode == 0, ended.stdout.decode()[-4000:]
    return Told(json.loads((folder / 'told.json').read_text()))
