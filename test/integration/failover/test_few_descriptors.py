"""An engine that has fewer file descriptors than the one before had connections."""
import pytest

from engines import is_resumed
from holders import get, settle
from http_client import Connection, text_of
from worker_process import BACKEND

# Not over before the death.
LONG = {'prompt': 'Once', 'max_tokens': 1000, 'seed': 5, 'temperature': 0.7, 'ignore_eos': True}


@pytest.mark.skipif(BACKEND != 'host', reason="a GPU's driver takes a number of descriptors of its own")
def test_an_engine_with_few_descriptors_takes_what_it_can(held, slow_model):
    """The rest waits with the holder, and is served as others end."""
    held.model = slow_model
    active = held.start(0, state='ACTIVE')
    active.wait_event('ready')
    alone = text_of(active.execute(**LONG))
    crowd = [Connection(held.port) for _ in range(40)]
    for one in crowd:
        assert get(one).json()['engine_id'] == 0
    second = held.start(1, state='STANDBY', prefix=['prlimit', '--nofile=195:195', '--'])
    stream = active.open(**LONG)
    events = iter(stream)
    told = [next(events) for _ in range(4)]
    settle(held.port)
    active.kill()
    room = held.holder.wait_event('connections_wait')
    assert room['connections'] + room['waiting'] > 40 and second.alive()
    # In the order of their places: the last ones wait. Each is served as soon as one before it has gone.
    for one in crowd:
        assert get(one).json()['engine_id'] == 1
        one.close()
    told += list(events)
    assert told[-1].name == 'end' and is_resumed(told[-1]) and text_of(told) == alone
    assert get_later(held.port) == 1
    taken = second.wait_event('connections_taken_over')
    assert taken['lost'] == taken['conflicts'] == 0
    assert not second.events('holder_lost')


def get_later(port: int) -> int:
    with Connection(port) as later:
        return get(later).json()['engine_id']
