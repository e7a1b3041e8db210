"""Engines that fail, or are asked to end, right after they have taken streams over: what was under way goes
on all the same."""
import socket
import threading
from typing import List

import pytest

from engines import is_resumed
from holders import get, settle
from http_client import Connection
from worker_process import BACKEND, PATIENCE, wait_until

# Not over before its engine fails.
LONG = {'prompt': 'Once', 'max_tokens': 400, 'seed': 5, 'temperature': 0.7, 'ignore_eos': True}


def text_of(events) -> str:
    return ''.join(e.data['t'] for e in events if e.name == 'token')


class SlowManager:
    """A pool manager that answers when the test says so."""

    def __init__(self):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{self.listener.getsockname()[1]}'
        self.waiting: List[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                self.waiting.append(self.listener.accept()[0])
        except OSError:
            pass

    def answer(self, status: str) -> None:
        wait_until(lambda: self.waiting, PATIENCE, 'the callback came')
        for one in self.waiting:
            one.sendall(f'HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'.encode())

    def close(self) -> None:
        for one in (self.listener, *self.waiting):
            one.close()


@pytest.fixture
def manager():
    made = SlowManager()
    yield made
    made.close()


def begin(engine) -> tuple:
    """A stream that has begun, and its first events."""
    stream = engine.open(**LONG)
    events = iter(stream)
    return events, [next(events) for _ in range(4)]


def test_a_callback_that_fails_after_a_takeover_ends_no_stream(held, slow_model, manager):
    held.model = slow_model
    active = held.start(0, state='ACTIVE')
    active.wait_event('ready')
    alone = text_of(active.execute(**LONG))
    second = held.start(1, '--callback-url', manager.url, state='STANDBY')
    events, told = begin(active)
    settle(held.port)
    active.kill()
    second.wait_event('connections_taken_over')
    held.start(0, state='STANDBY')
    told.append(next(events))
    manager.answer('400 Bad Request')
    assert second.wait_exit(30) == 1
    told += list(events)
    assert told[-1].name == 'end' and is_resumed(told[-1]) and text_of(told) == alone


@pytest.mark.skipif(BACKEND != 'host', reason='a GPU has a copy of the file')
def test_an_engine_that_cannot_go_on_leaves_its_streams(held, slow_model, tmp_path):
    """Its model file is changed under it: whatever makes it fail for good, the clients do not see it."""
    own = tmp_path / slow_model.name
    own.write_bytes(slow_model.read_bytes())
    held.model = own
    active = held.start(0, state='ACTIVE')
    active.wait_event('ready')
    alone = text_of(active.execute(**LONG))
    held.model = slow_model
    # Of two files it is the digest that tells that they are the same model.
    for engine in (active, held.start(1, state='STANDBY')):
        engine.wait_event('model_digest')
    events, told = begin(active)
    with Connection(held.port) as idle:
        assert get(idle).status == 200
        with open(own, 'r+b') as file:
            file.write(b'x')
        assert active.wait_exit(30) == 1
        assert get(idle).json()['engine_id'] == 1
    told += list(events)
    assert told[-1].name == 'end' and is_resumed(told[-1]) and text_of(told) == alone


@pytest.mark.parametrize('answered', [False, True])
def test_sigterm_before_the_callback_is_answered_drains(held, slow_model, manager, answered):
    held.model = slow_model
    active = held.start(0, state='ACTIVE')
    active.wait_event('ready')
    alone = text_of(active.execute(**LONG))
    second = held.start(1, '--callback-url', manager.url, '--drain-timeout', '120', state='STANDBY')
    events, told = begin(active)
    settle(held.port)
    active.kill()
    second.wait_event('connections_taken_over')
    second.terminate()
    second.wait_event('shutdown')
    if answered:
        manager.answer('200 OK')
    told += list(events)
    assert told[-1].name == 'end' and is_resumed(told[-1]) and text_of(told) == alone
    assert second.wait_exit(PATIENCE) == 0
