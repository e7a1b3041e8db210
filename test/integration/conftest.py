"""Fixtures: tiny models written by the project's own tool, shared workers, the real demo model."""
import os
import socket
import subprocess
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Iterator

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent / 'verdicts')]

from expected_skips import (pytest_make_collect_report, pytest_runtest_makereport,  # noqa: E402, F401
                            pytest_terminal_summary)
from worker_process import BACKEND, BINARY, BUILD, PATIENCE, SANITIZED, SANITIZER, Worker  # noqa: E402

# One to five milliseconds a token in every build: long enough to cancel, to disconnect from and to drain.
# A sanitizer slows the arithmetic by a factor, so its build gets a model with so much less of it. On a GPU
# it is the layers that take time, however narrow they are.
SLOW_SHAPES = {'': '--layers 6 --embedding 512 --heads 8 --kv-heads 4 --ffn 1536',
               'address': '--layers 2 --embedding 256 --heads 8 --kv-heads 4 --ffn 512',
               'thread': '--layers 1 --embedding 128 --heads 4 --kv-heads 2 --ffn 256',
               'cuda': '--layers 128 --embedding 128 --heads 2 --kv-heads 1 --ffn 256'}
SLOW_SHAPE = (*SLOW_SHAPES['cuda' if BACKEND == 'cuda' else SANITIZER].split(), '--context', '8192',
              '--type', 'Q8_0')
SLOW_TOKENS = 4000


def pytest_configure(config) -> None:
    if not BINARY.exists():
        raise pytest.UsageError(f'{BINARY} is not built; ORCD_BUILD_DIR names the directory')


@pytest.fixture(scope='session')
def models(tmp_path_factory):
    """models(name, *options): the path of a tiny model, written once per session and shape."""
    folder = tmp_path_factory.mktemp('models')

    def write(name: str, *options: str) -> Path:
        shape = f'{zlib.crc32(" ".join(options).encode()):08x}'
        path = folder / shape / f'{name}.gguf'
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            tool = str(BUILD / 'write_tiny_model')
            subprocess.run([tool, '--out', str(path), *options], check=True, timeout=60)
        return path
    return write


@pytest.fixture(scope='session')
def tiny_model(models) -> Path:
    return models('tiny', '--context', '1024')


@pytest.fixture(scope='session')
def slow_model(models) -> Path:
    return models('slow', *SLOW_SHAPE)


@pytest.fixture(scope='session')
def slow_twin(models) -> Path:
    """The slow model with other weights: the same header, name and size."""
    return models('slow', *SLOW_SHAPE, '--seed', '77')


@pytest.fixture(scope='session')
def demo_model() -> Path:
    if SANITIZED:
        pytest.skip('a token of the demo model takes up to a second here; tiny models take the same paths')
    path = os.environ.get('ORCD_DEMO_MODEL', '')
    if not path or not Path(path).exists():
        pytest.skip('the demo model is not here: set ORCD_DEMO_MODEL (tools/fetch_demo_model.sh)')
    return Path(path)


@pytest.fixture
def started():
    """started(*arguments, **more): a worker that is ready. It ends with the test."""
    with ExitStack() as all_of_them:
        def one(*arguments, **more) -> Worker:
            worker = all_of_them.enter_context(Worker(*arguments, **more))
            worker.wait_event('ready')
            return worker
        yield one


@pytest.fixture(scope='session')
def shared_tiny(tiny_model) -> Iterator[Worker]:
    with Worker('--model', tiny_model) as worker:
        worker.wait_event('ready')
        yield worker


@pytest.fixture(scope='session')
def shared_slow(slow_model) -> Iterator[Worker]:
    with Worker('--model', slow_model, '--max-queue', '2', '--max-tokens-out', str(SLOW_TOKENS)) as worker:
        worker.wait_event('ready')
        yield worker


@pytest.fixture(scope='session')
def shared_demo(demo_model) -> Iterator[Worker]:
    with Worker('--model', demo_model) as worker:
        worker.wait_event('ready')
        yield worker


def _idle(worker: Worker) -> Iterator[Worker]:
    worker.wait_idle()
    yield worker
    worker.drop_connections()
    assert worker.alive(), 'the worker died:\n' + '\n'.join(worker.lines[-20:])
    worker.wait_idle()


@pytest.fixture
def broken(tmp_path):
    """Writes the bytes of a damaged model file."""
    def write(data: bytes):
        path = tmp_path / 'broken.gguf'
        path.write_bytes(data)
        return path
    return write


@pytest.fixture
def worker(serving) -> Iterator[Worker]:
    """The worker that a module has made its `serving`."""
    yield from _idle(serving)


@pytest.fixture
def tiny(shared_tiny) -> Iterator[Worker]:
    """A worker with a model that takes microseconds a token; idle before and after, alive after."""
    yield from _idle(shared_tiny)


@pytest.fixture
def slow(shared_slow) -> Iterator[Worker]:
    """The same with milliseconds a token, one slot, a queue of two."""
    yield from _idle(shared_slow)


@pytest.fixture
def demo(shared_demo) -> Iterator[Worker]:
    yield from _idle(shared_demo)


@pytest.fixture
def silent_systemd(tmp_path):
    """A service manager's socket that nobody reads once `until` was seen: who writes to it waits for ever."""
    path = str(tmp_path / 'notify')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(PATIENCE)

        def read(until):
            while until not in receiver.recv(4096).decode():
                pass
        yield path, read
