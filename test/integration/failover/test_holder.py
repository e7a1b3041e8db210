"""Clients' connections that outlive the engine that serves them, because a holder has them, too."""
import signal
import socket
import threading
import time

import pytest

from engines import Witness, ask, is_resumed
from holders import Held, Holder, check, descriptors, get, settle
from http_client import Closed, Connection
from test_takeover import story
from worker_process import PATIENCE, STRETCH, wait_until


def serving_engine(connection: Connection) -> int:
    answer = get(connection)
    assert answer.status == 200
    return answer.json()['engine_id']


def test_a_connection_between_two_requests_outlives_its_engine(held, slow_model):
    held.model = slow_model
    active, standby = held.pair('--holder', 'require')
    told = story(active)
    idle = [Connection(held.port) for _ in range(20)]
    assert {serving_engine(one) for one in idle} == {0}
    silent = Connection(held.port)  # it has sent nothing yet
    early = Connection(held.port)
    assert serving_engine(early) == 0
    witness = Witness(held.port)
    settle(held.port)
    active.process.send_signal(signal.SIGSTOP)
    wait_until(active.stopped, PATIENCE, 'it is stopped')
    early.request('GET', '/health')  # while nobody reads
    active.kill()
    assert early.read_response().json()['engine_id'] == 1
    witness.is_gone_on_with()
    assert [serving_engine(one) for one in (*idle, silent)] == [1] * 21
    assert story(standby) == told
    taken = standby.wait_event('connections_taken_over')
    assert taken['idle'] + taken['fresh'] >= 22 and taken['lost'] == taken['conflicts'] == 0
    for one in (*idle, silent, early):
        one.close()


def text_of(events) -> str:
    return ''.join(e.data['t'] for e in events if e.name == 'token')


def test_what_was_under_way_goes_on(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    half = Connection(held.port)
    assert serving_engine(half) == 0
    half.send(b'GET /health HTTP/1.1\r\nHos')
    asked = {'prompt': 'Once', 'max_tokens': 1000, 'seed': 5, 'ignore_eos': True}
    stream = active.open(**asked)
    events = iter(stream)
    told = stream.until('token', 1)
    settle(held.port)
    active.kill()
    half.send(b't: localhost\r\n\r\n')
    assert half.read_response().json()['engine_id'] == 1
    told += list(events)
    assert told[-1].name == 'end' and is_resumed(told[-1]), told[-1]
    again = standby.execute(**asked)
    assert text_of(told) == text_of(again)
    assert standby.wait_event('connections_taken_over')['resumed'] >= 1
    half.close()


def test_many_kills_with_the_same_connection_and_no_connect_refused(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    refused, connects, stop = [], [0], threading.Event()

    def connect() -> None:
        while not stop.is_set():
            try:
                socket.create_connection(('127.0.0.1', held.port), timeout=PATIENCE).close()
                connects[0] += 1
            except OSError as failure:
                refused.append(failure)
            time.sleep(0.002)

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        with Connection(held.port) as kept:
            for _ in range(20):
                assert serving_engine(kept) == active.number
                witness = Witness(held.port)
                settle(held.port)
                active.kill()
                assert serving_engine(kept) == standby.number
                witness.is_gone_on_with()
                active, standby = standby, held.follow(active)
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not refused and connects[0] > 100
    wait_until(lambda: descriptors(held.holder) < 40, PATIENCE, 'the holder lets go of what was closed')


def test_connections_that_end_leave_nothing_in_the_holder(held):
    active = held.start(0, state='ACTIVE')
    before = descriptors(held.holder)
    kinds = [Connection(held.port) for _ in range(30)]
    for number, one in enumerate(kinds):
        if number % 3 == 0:
            get(one)
    wait_until(lambda: descriptors(held.holder) == before + 30, PATIENCE, 'all are held')
    for number, one in enumerate(kinds):
        one.reset() if number % 2 else one.close()
    wait_until(lambda: descriptors(held.holder) == before, PATIENCE, 'none is held')
    # One that the engine itself ends: the client sees the end, although a duplicate was there.
    with Connection(held.port) as refused:
        refused.send(b'GET / HTTP/1.1\r\nbroken\r\n\r\n')
        assert refused.read_response().status == 400
        refused.socket.settimeout(PATIENCE)
        assert refused.socket.recv(100) == b''
    assert active.alive()


def test_the_death_of_a_holder_is_no_harm(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    kept = Connection(held.port)
    assert serving_engine(kept) == 0
    held.holder.kill()
    assert serving_engine(kept) == 0
    active.wait_event('holder_lost')
    alone = Connection(held.port)  # accepted by the engine itself
    assert serving_engine(alone) == 0
    held.start_holder(ready=False).wait_event('adopted')
    wait_until(lambda: check(held.folder, 'ready') == 0, PATIENCE, 'the new holder knows who serves')
    later = Connection(held.port)
    assert serving_engine(later) == 0
    witness = Witness(held.port)
    settle(held.port)
    active.kill()
    assert [serving_engine(one) for one in (kept, alone, later)] == [1, 1, 1]
    witness.is_gone_on_with()
    assert standby.wait_event('connections_taken_over')['lost'] == 0
    for one in (kept, alone, later):
        one.close()


def test_holder_and_active_die_together(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    kept = Connection(held.port)
    assert serving_engine(kept) == 0
    witness = Witness(held.port)
    held.holder.kill()
    active.kill()
    witness.is_cut()
    standby.wait_event('ready')
    with pytest.raises((Closed, OSError)):
        get(kept)
    with Connection(held.port) as later:
        assert serving_engine(later) == 1
        settle(held.port)
        held.start_holder(ready=False).wait_event('adopted')
        held.start(0, state='STANDBY')
        witness = Witness(held.port)
        standby.kill()
        assert serving_engine(later) == 0
        witness.is_gone_on_with()
    kept.close()


def test_the_death_of_a_standby_is_no_harm(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    with Connection(held.port) as kept:
        assert serving_engine(kept) == 0
        stream = active.open(prompt='Once', max_tokens=300, ignore_eos=True)
        stream.until('token', 3)
        standby.kill()
        assert serving_engine(kept) == 0
        end = stream.finish()
        assert end.name == 'end' and not is_resumed(end)
        held.start(1, state='STANDBY')
        witness = Witness(held.port)
        active.kill()
        assert serving_engine(kept) == 1
        witness.is_gone_on_with()


def test_an_engine_that_drains_hands_new_connections_over(held):
    active, standby = held.pair()
    active.terminate()
    assert active.wait_exit(30) == 0
    with Connection(held.port) as later:
        assert serving_engine(later) == 1
    assert len(story(standby)) > 10


def test_connects_wait_while_no_engine_serves(held):
    with Connection(held.port) as early:
        early.request('GET', '/health')
        assert check(held.folder, 'startup') == 0 and check(held.folder, 'ready') == 1
        held.start(0, state='ACTIVE')
        assert early.read_response().json()['engine_id'] == 0
    assert check(held.folder, 'ready') == 0


def test_the_holder_ends_in_order_and_takes_its_socket_away(held):
    held.holder.terminate()
    assert held.holder.wait_exit(10) == 0
    assert not (held.folder / 'connections.sock').exists()
    assert check(held.folder, 'startup') == 1


def test_an_engine_that_needs_a_holder_does_not_start_without_one(engines):
    engine = engines.start(0, '--holder', 'require')
    assert engine.wait_exit(30) == 1
    assert 'connections.sock' in engine.events('error')[0]['message']


def test_an_engine_without_a_holder_listens_itself(held, slow_model):
    held.model = slow_model
    held.holder.terminate()
    assert held.holder.wait_exit(10) == 0
    alone = held.start(0, state='ACTIVE')
    assert alone.get('/health').status == 200
    off = held.start(1, '--holder', 'off', state='STANDBY')
    witness = Witness(held.port)
    alone.kill()
    witness.is_cut()
    off.wait_event('ready')


def test_a_full_holder_says_so(held):
    """Every connection beyond its room is told, at once, and the next one is served when there is room."""
    held.holder.terminate()
    held.holder.wait_exit(PATIENCE)
    # Its own part of the descriptors leaves room for some hundreds.
    holder = Holder(held.folder, held.port, prefix=['prlimit', '--nofile=600:600', '--'])
    held.holders.append(holder)
    room = holder.wait_event('connections_limited')['connections']
    holder.wait_event('ready')
    held.start(0, state='ACTIVE')
    crowd = [Connection(held.port) for _ in range(room)]
    assert get(crowd[-1]).status == 200
    for _ in range(70):
        with Connection(held.port) as beyond:
            beyond.request('GET', '/health')
            told = beyond.read_response()
            assert told.status == 503 and told.headers['connection'] == 'close'
            assert int(told.headers['retry-after']) > 0
    for one in crowd[:10]:
        one.close()
    wait_until(lambda: ask(held.port, '/health').status == 200, PATIENCE, 'there is room again')
    for one in crowd:
        one.close()


def test_the_holder_stays_small(held):
    held.start(0, state='ACTIVE')
    crowd = [Connection(held.port) for _ in range(500)]
    wait_until(lambda: descriptors(held.holder) > 500, PATIENCE, 'they are held')
    status = (line.split() for line in open(f'/proc/{held.holder.pid}/status'))
    resident = next(int(words[1]) for words in status if words[0] == 'VmRSS:')
    assert resident < 16 * 1024 or STRETCH > 1
    limits = open(f'/proc/{held.holder.pid}/limits').read()
    assert [line.split()[4] for line in limits.splitlines() if line.startswith('Max core')] <= ['1']
    assert ask(held.port, '/health').status == 200
    for one in crowd:
        one.close()


def test_an_engine_that_does_not_know_that_its_lock_is_gone_is_waited_for(tiny_model, tmp_path):
    """Two engines serve at no moment: the next one has the lock of another file, and the first one stands
    still and cannot see that."""
    with Held(tiny_model, tmp_path) as pair:
        holder = pair.start_holder('--hang-timeout', '3')
        first = pair.start(0, '--holder', 'require', state='ACTIVE')
        told = story(first)
        first.process.send_signal(signal.SIGSTOP)
        wait_until(first.stopped, PATIENCE, 'it is stopped')
        (pair.folder / 'failover.lock').unlink()
        second = pair.start(1, '--holder', 'require', '--waking-timeout-ms', '60000', state='WAKING')
        holder.wait_event('takeover_waits', engine_id=1, active=0)
        second.wait_state('ACTIVE')
        assert first.wait_exit(PATIENCE) == -signal.SIGKILL
        (killed,) = holder.events('engine_hangs', engine_id=0)
        assert killed['ts'] < holder.wait_event('engine_active', engine_id=1)['ts']
        assert story(second) == told
