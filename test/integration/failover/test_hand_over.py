"""The active engine hands over to the one that stands by, and back: no client sees more than a pause."""
import shutil
import signal
import socket
import threading
import time
from typing import Callable, List

import pytest

from engines import Engine, ask
from holders import get, settle
from http_client import Connection
from test_streams import ask_all, chat_options
from worker_process import BACKEND, BINARY, PATIENCE, STRETCH, wait_until

LONG = {'prompt': 'Once', 'max_tokens': 80, 'seed': 5, 'temperature': 0.7}


def sleep(engine: Engine):
    return ask(engine.system, '/engine/sleep', 'POST')


def hand_over(engine: Engine) -> None:
    def is_done() -> bool:
        answer = sleep(engine)
        # A holder that gets no processor for a second is asked again.
        assert answer.status == 200 or b'the holder does not answer' in answer.body, answer.body
        return answer.status == 200
    wait_until(is_done, PATIENCE * STRETCH, 'it hands over')


class Watch:
    """Does something again and again in a thread, and keeps what was wrong."""

    def __init__(self, look: Callable[[], object], interval: float):
        self.wrong: List[object] = []
        self.looks = 0
        self._look, self._interval, self._stop = look, interval, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            found = self._look()
            self.looks += 1
            if found:
                self.wrong.append(found)
            time.sleep(self._interval)

    def __enter__(self) -> 'Watch':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)


def connect(port: int) -> object:
    try:
        socket.create_connection(('127.0.0.1', port), timeout=PATIENCE).close()
        return None
    except OSError as failure:
        return failure


def text_of(events) -> str:
    return ''.join(e.data['t'] for e in events if e.name == 'token')


def test_every_kind_of_answer_goes_on_over_five_hand_overs(held, slow_model, tmp_path):
    held.model = slow_model
    options = chat_options(tmp_path)
    active, standby = held.pair(*options)
    alone = {one.kind: one for one in ask_all(held.port, 'alone', lambda: None)}
    pair = [active, standby]

    def five() -> None:
        for number in range(5):
            wait_until(lambda: pair[number % 2].probe('/ready') == 200, PATIENCE * STRETCH, 'it serves')
            hand_over(pair[number % 2])

    with Watch(lambda: connect(held.port), 0.002) as connects:
        clients = ask_all(held.port, 'handed', five)
    assert connects.wrong == [] and connects.looks > 5

    def turns() -> list:
        return sorted((e['ts'], e['to'] == 'ACTIVE') for engine in pair
                      for e in engine.events('failover_state') if 'ACTIVE' in (e['from'], e['to']))
    # The one that leaves knows of the other one by the holder, which is before that one says so.
    standby.wait_state('ACTIVE')
    active.wait_state('STANDBY')
    wait_until(lambda: len(turns()) >= 11, PATIENCE, 'the log tells of all of them')
    # Never two at a time: each has left before the other one comes.
    assert [to for _, to in turns()] == [n % 2 == 0 for n in range(11)], turns()
    for one in clients:
        assert one.status == 200 and one.failure is None, (one.kind, one.status, one.failure)
        assert one.by_choice() == alone[one.kind].by_choice(), one.kind
        # Nobody has died, and the last event of a stream does not say so.
        assert b'"resumed"' not in one.body, one.kind
        assert one.still_serves(), one.kind
    assert standby.metric('orcd_failover_conflicts_total') == 0
    assert standby.metric('orcd_failover_connections_total', became='lost') == 0

    def last_moves() -> list:
        return [(e['from'], e['to']) for e in active.events('failover_state')][-2:]
    wait_until(lambda: last_moves() == [('ACTIVE', 'YIELDING'), ('YIELDING', 'STANDBY')], PATIENCE,
               'the log tells how it left')


@pytest.mark.skipif(BACKEND != 'host', reason='the stream is over too soon on a GPU')
def test_sigusr2_hands_over_and_the_next_death_is_as_any(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    asked = {**LONG, 'max_tokens': 800, 'ignore_eos': True}  # not over before the death
    alone = text_of(active.execute(**asked))
    stream = active.open(**asked)
    events = iter(stream)
    told = [next(events) for _ in range(5)]
    with Connection(held.port) as idle:
        assert get(idle).json()['engine_id'] == 0
        active.process.send_signal(signal.SIGUSR2)
        active.wait_state('STANDBY')
        assert get(idle).json()['engine_id'] == 1
        told.append(next(events))
        settle(held.port)
        standby.kill()
        assert get(idle).json()['engine_id'] == 0
    told += list(events)
    assert told[-1].name == 'end' and text_of(told) == alone
    assert told[-1].data['resumed'] == 1  # the death, not the hand-over
    health = ask(active.system, '/health').json()
    assert health['role'] == 'active' and health['resumed_total'] == 1 and health['holder_connected'] is True


def test_an_engine_that_handed_over_ends_at_once_and_streams_go_on(held, slow_model):
    """An upgrade: another binary takes the place of the engine that serves."""
    held.model = slow_model
    active, standby = held.pair()
    alone = text_of(active.execute(**LONG))
    stream = active.open(**LONG)
    events = iter(stream)
    told = [next(events) for _ in range(5)]
    hand_over(active)
    active.terminate()
    assert active.wait_exit(10) == 0
    other = held.folder / 'another-binary'
    shutil.copy2(BINARY, other)
    newer = held.start(0, binary=other, state='STANDBY')
    wait_until(lambda: standby.probe('/ready') == 200, PATIENCE * STRETCH, 'it serves')
    hand_over(standby)
    told += list(events)
    assert told[-1].name == 'end' and text_of(told) == alone
    assert get_one(held.port) == 0 and newer.alive()


def get_one(port: int) -> int:
    with Connection(port) as one:
        return get(one).json()['engine_id']


def reason(answer) -> str:
    assert answer.status == 409, (answer.status, answer.body)
    return answer.json()['reason']


def test_without_an_engine_that_would_answer_the_same_it_goes_on(held, slow_model):
    held.model = slow_model
    active = held.start(0, state='ACTIVE')
    active.wait_event('ready')
    assert 'no engine stands by' in reason(sleep(active))
    other = held.start(1, '--kv-type-k', 'bf16', state='STANDBY')
    assert 'no engine stands by' in reason(sleep(active))
    assert 'STANDBY' in reason(sleep(other))
    assert 'only the lock' in reason(ask(other.system, '/engine/wake_up', 'POST'))
    assert ask(active.system, '/engine/wake_up', 'POST').status == 200
    assert active.state() == 'ACTIVE'
    wait_until(lambda: len(active.events('hand_over_refused')) == 2, PATIENCE, 'the log tells')
    active.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: len(active.events('hand_over_refused')) == 3, PATIENCE, 'it is refused')
    assert ask(active.system, '/engine/sleep').status == 405
    # One that would is not enough: the lock may go to either.
    held.start(2, state='STANDBY')
    assert 'otherwise' in reason(sleep(active))
    other.kill()
    wait_until(lambda: sleep(active).status == 200, PATIENCE, 'the other one is gone')
    assert get_one(held.port) == 2


def test_a_standby_that_is_stopped_is_none(held):
    active, standby = held.pair()
    standby.process.send_signal(signal.SIGSTOP)
    try:
        # At first nobody knows; then the active engine serves again.
        wait_until(lambda: sleep(active).status == 409, PATIENCE, 'it does not come')
        active.wait_state('ACTIVE')
        assert get_one(held.port) == 0
    finally:
        standby.process.send_signal(signal.SIGCONT)


def test_a_holder_that_dies_during_a_hand_over_takes_no_engine_with_it(held):
    pair = active, standby = held.pair()
    standby.process.send_signal(signal.SIGSTOP)
    active.process.send_signal(signal.SIGUSR2)
    active.wait_state('YIELDING')
    held.holder.kill()
    standby.process.send_signal(signal.SIGCONT)
    # Whichever of them has the lock.
    wait_until(lambda: sorted(one.state() or '' for one in pair) == ['ACTIVE', 'STANDBY'], PATIENCE * STRETCH,
               'one of them serves')
    held.start_holder(ready=False).wait_event('adopted')
    assert get_one(held.port) in (0, 1)
    serving = pair[get_one(held.port)]
    wait_until(lambda: sleep(serving).status == 200, PATIENCE * STRETCH, 'and can hand over')


def test_without_a_holder_nothing_is_handed_over(engines):
    active, _ = engines.pair()
    assert 'no holder' in reason(sleep(active))


def test_pages_cannot_put_an_engine_to_sleep(held):
    active, _ = held.pair()
    with Connection(active.system) as page:
        page.request('POST', '/engine/sleep', b'', {'Origin': 'http://elsewhere.example'})
        assert page.read_response().status == 403
    assert active.state() == 'ACTIVE'


def test_a_holder_that_is_away_degrades_the_engine(held):
    active, _ = held.pair()
    assert ask(held.port, '/health').json()['status'] == 'healthy'
    held.holder.kill()
    active.wait_event('holder_lost')
    health = ask(held.port, '/health').json()
    assert health['status'] == 'degraded' and 'holder' in health['reason']
    assert ask(active.system, '/health').json()['holder_connected'] is False
    assert active.metric('orcd_failover_holder_connected') == 0
    assert 'no holder' in reason(sleep(active))
    held.start_holder(ready=False).wait_event('adopted')
    wait_until(lambda: ask(held.port, '/health').json()['status'] == 'healthy', PATIENCE, 'it is well')
    assert active.metric('orcd_failover_holder_connected') == 1
