"""schemathesis against docs/openapi.yaml and the shipped binary: whatever it makes of the description must be
answered as described. tools/python_packages.sh fetches it."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from completion_worker import start
from worker_process import PROJECT, SANITIZED, SANITIZER, STRETCH

PACKAGES = Path(os.environ.get('ORCD_SCHEMATHESIS', '/nonexistent'))
EXAMPLES = '10' if SANITIZED else '40'
# A time limit of a millisecond is a valid request that ends with 504.
CONFIG = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]
[checks.positive_data_acceptance]
enabled = false  # the description cannot say which token ids, lengths and n fit this model
"""


@pytest.mark.skipif(not (PACKAGES / 'schemathesis').exists(),
                    reason='schemathesis is not here: set ORCD_SCHEMATHESIS (tools/python_packages.sh)')
@pytest.mark.skipif(SANITIZER == 'thread', reason='minutes of one request after another; other builds do it')
@pytest.mark.parametrize('family, pooling, seed', [('llama', None, '1'), ('llama', None, '2'),
                                                   ('bert', '1', '3'), ('bert', '4', '4')])
def test_the_description_is_true(models, tmp_path, family, pooling, seed):
    shape = ['--family', family, '--context', '1024', *(['--pooling', pooling] if pooling else [])]
    model = models(f'{family}-{pooling}', *shape)
    config = tmp_path / 'schemathesis.toml'
    config.write_text(CONFIG)
    with start(model, tmp_path, '--slots', '4', '--max-tokens-out', '16',
               '--allow-request-template', '--slots-endpoint', '--response-store-mib', '1') as worker:
        run = subprocess.run(
            [sys.executable, '-c', 'from schemathesis.cli import schemathesis; schemathesis()',
             '--config-file', str(config), 'run', str(PROJECT / 'docs' / 'openapi.yaml'),
             '--url', f'http://127.0.0.1:{worker.port}', '--seed', seed, '--max-examples', EXAMPLES,
             '--exclude-path', '/shutdown', '--phases', 'examples,coverage,fuzzing',
             '--generation-database', 'none', '--request-timeout', '30'],
            cwd=tmp_path, env={**os.environ, 'PYTHONPATH': str(PACKAGES)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=300 * STRETCH, check=False)
        assert run.returncode == 0, run.stdout.decode()[-8000:]
        assert worker.alive()
        worker.wait_idle()
