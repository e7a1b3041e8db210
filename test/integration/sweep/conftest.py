"""Frameworks and clients beside those of clients/, each unchanged and in a folder of its own, because they
ask for other versions of what they share. The night runs them; tools/python_sweep.txt pins them."""
import os
import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'clients'))

import client_program  # noqa: E402
from completion_worker import QWEN  # noqa: E402
from worker_process import PROJECT, Worker  # noqa: E402

FOLDERS = Path(os.environ.get('ORCD_SWEEP', PROJECT / 'build' / 'tools' / 'python'))


@pytest.fixture(scope='session')
def demo(demo_model) -> Iterator[Worker]:
    """The demo model under a template of a model that calls tools; its own has none."""
    with Worker('--model', demo_model, '--slots', '2', '--context', '8192', '--chat-template',
                QWEN) as running:
        running.wait_event('ready')
        yield running


@pytest.fixture(scope='session')
def packages_of():
    """packages_of(name): the folder of the client's packages."""
    def folder(name: str) -> Path:
        path = FOLDERS / f'sweep-{name}'
        if not path.is_dir():
            pytest.skip(f'{name} is not here: tools/python_packages.sh sweep-{name}')
        return path
    return folder


@pytest.fixture(scope='module')
def told(request, demo, packages_of, tmp_path_factory):
    """What the cases of the module's PROGRAM return under its CLIENT."""
    name = request.module.CLIENT
    folder = tmp_path_factory.mktemp(name)
    return client_program.run(demo, request.module.PROGRAM, folder, packages_of(name))
