"""The `openai` Python package, unchanged, as the client of a worker. Without it no test of it is run."""
from typing import Iterator

import pytest

from worker_process import PATIENCE, Worker

openai = pytest.importorskip('openai', reason='the Python package openai is not installed')


def client_of(worker: Worker, **changes) -> 'openai.OpenAI':
    asked = {'api_key': 'none', 'max_retries': 0, 'timeout': PATIENCE, **changes}
    return openai.OpenAI(base_url=f'http://127.0.0.1:{worker.port}/v1', **asked)


def serve(model, *options: str) -> Iterator['openai.OpenAI']:
    """A client of a worker of its own, which is patient enough for the real demo model."""
    with Worker('--model', model, '--slots', '2', *options) as worker:
        worker.wait_event('ready')
        with client_of(worker, timeout=PATIENCE * 4) as client:
            yield client
        assert worker.alive()
