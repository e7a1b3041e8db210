"""An engine that is asked to end while another one could serve lets it: nobody's answer ends, no connect is
refused. Without one it drains."""
import os
import shutil
import signal
from typing import Callable, Dict

import pytest

from engines import Engine, ask
from holders import get
from http_client import Connection, text_of
from test_hand_over import Watch, connect
from test_streams import ask_all, chat_options
from worker_process import BACKEND, BINARY, PATIENCE, STRETCH, wait_until

ROLLS = int(os.environ.get('ORCD_RESTARTS', 2))

WAYS: Dict[str, Callable[[Engine], object]] = {
    'SIGTERM': lambda engine: engine.process.send_signal(signal.SIGTERM),
    'SIGINT': lambda engine: engine.process.send_signal(signal.SIGINT),
    'POST /shutdown': lambda engine: engine.call('POST', '/shutdown'),
    'hand over and end': lambda engine: (engine.process.send_signal(signal.SIGUSR2),
                                         engine.process.send_signal(signal.SIGTERM)),
}
# Not over before the stop.
LONG = {'prompt': 'Once', 'max_tokens': 1500, 'seed': 5, 'temperature': 0.7, 'ignore_eos': True}
pytestmark = pytest.mark.skipif(BACKEND != 'host', reason='the stream is over too soon on a GPU')


@pytest.fixture
def slow(held, slow_model):
    held.model = slow_model
    return held


def begin(engine: Engine, tokens: int = 5):
    stream = engine.open(**LONG)
    stream.until('token', tokens)
    return stream


@pytest.mark.parametrize('way', WAYS)
def test_a_stop_hands_over(slow, tmp_path, way):
    options = chat_options(tmp_path)
    active, standby = slow.pair(*options)
    alone = {one.kind: one for one in ask_all(slow.port, 'alone', lambda: None)}
    witness = begin(active)
    codes = []

    def stop() -> None:
        WAYS[way](active)
        codes.append(active.wait_exit(15))

    with Watch(lambda: connect(slow.port), 0.002) as connects:
        clients = ask_all(slow.port, 'stopped', stop)
        standby.wait_state('ACTIVE')
    assert codes == [0] and active.events('drain_timeout') == [] == active.events('stop_drains')
    assert connects.wrong == [] and connects.looks > 5
    for one in clients:
        assert one.failure is None, (one.kind, one.failure, one.body[-300:])
        assert one.by_choice() == alone[one.kind].by_choice(), one.kind
        assert b'"resumed"' not in one.body and one.still_serves(), one.kind
    # A stream that ran all the time was not cut, and nobody has died.
    witness.until('token', 20)
    witness.close()
    assert standby.metric('orcd_failover_connections_total', became='lost') == 0


def test_restarts_of_one_after_the_other_under_load_change_no_byte(slow, tmp_path):
    """As `systemctl restart` of each unit does it, or an upgrade: whichever engine serves is restarted, and
    waits then. Each is of another file than the one before."""
    options = chat_options(tmp_path)
    serving, standby = slow.pair(*options)
    alone = {one.kind: one for one in ask_all(slow.port, 'alone', lambda: None)}
    witness = begin(serving)
    with Watch(lambda: connect(slow.port), 0.002) as connects:
        for roll in range(ROLLS):
            def restart() -> None:
                serving.terminate()
                assert serving.wait_exit(15) == 0
            clients = ask_all(slow.port, f'roll{roll}', restart)
            for one in clients:
                assert one.failure is None, (roll, one.kind, one.failure, one.body[-300:])
                assert one.by_choice() == alone[one.kind].by_choice(), (roll, one.kind)
                assert one.still_serves(), (roll, one.kind)
            copy = tmp_path / f'worker-orcd-{roll}'
            shutil.copy2(BINARY, copy)
            follower = slow.start(serving.number, *options, state='STANDBY', binary=copy)
            standby.wait_event('ready')
            serving, standby = standby, follower
    assert connects.wrong == [] and connects.looks > 5
    if ROLLS < 5:  # it lasts as long
        witness.until('token', 5)
    witness.close()


def test_without_an_equal_one_it_drains(slow):
    active = slow.start(0, state='ACTIVE')
    active.wait_event('ready')
    slow.start(1, '--max-tokens-out', '50', state='STANDBY')
    alone = text_of(active.execute(**{**LONG, 'max_tokens': 300}))
    stream = active.open(**{**LONG, 'max_tokens': 300})
    stream.until('token', 5)
    active.terminate()
    told = active.wait_event('stop_drains')
    assert 'max-tokens-out' in told['message'], told
    assert stream.finish().name == 'end' and text_of(stream.seen) == alone
    assert active.wait_exit(30) == 0
    wait_until(lambda: ask(slow.port, '/health').json()['engine_id'] == 1, PATIENCE * STRETCH, 'it serves')


def test_both_at_once_drain(slow):
    """As a service manager stops the pair: the one that stands by is no help."""
    active, standby = slow.pair()
    stream = active.open(**{**LONG, 'max_tokens': 300})
    stream.until('token', 5)
    standby.terminate()
    active.terminate()
    assert stream.finish().name == 'end'
    assert active.wait_exit(30) == 0 and standby.wait_exit(15) == 0


def test_one_that_nobody_follows_serves_again_and_drains(slow):
    """The standby hangs, and is given the lock: it is none after five seconds without a sign of life."""
    active, standby = slow.pair()
    with Connection(slow.port) as idle:
        assert get(idle).json()['engine_id'] == 0
        standby.process.send_signal(signal.SIGSTOP)
        wait_until(standby.stopped, PATIENCE, 'it has stopped')
        stream = active.open(**{**LONG, 'max_tokens': 300})
        stream.until('token', 5)
        active.terminate()
        standby.kill()
        assert stream.finish().name == 'end'
    assert active.wait_exit(30) == 0
