"""A worker that the clients of tools/python_clients.txt share."""
from typing import Iterator

import pytest

from completion_worker import QWEN
from worker_process import Worker


@pytest.fixture(scope='session')
def calling_demo(demo_model) -> Iterator[Worker]:
    """The demo model under a template of a model that calls tools; its own has none."""
    with Worker('--model', demo_model, '--slots', '2', '--context', '4096', '--chat-template',
                QWEN) as running:
        running.wait_event('ready')
        yield running
