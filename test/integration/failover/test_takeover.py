"""One engine serves, another one waits, and takes over when the first one ends, however it ends."""
import json
import os
import signal
import socket

import pytest

from engines import Poller, Witness, ask, status
from http_client import Connection
from worker_process import PATIENCE, STRETCH, run_to_exit, wait_until, waits_in

ASKED = {'job_id': None, 'prompt': 'Once upon a time', 'max_tokens': 24, 'temperature': 0.8, 'seed': 11}


def story(engine) -> list:
    """What an answer says, without times and ids."""
    events = engine.execute(**{k: v for k, v in ASKED.items() if v is not None})
    return [(e.data['t'], e.data['i']) for e in events if e.name == 'token']


def moves(engine) -> list:
    """Changes of state. An engine that is cut off ends its log with a line of plain text."""
    told = [json.loads(line) for line in engine.lines if line.startswith('{')]
    return [(e['from'], e['to']) for e in told if e['event'] == 'failover_state']


def test_a_killed_engine_is_followed_by_the_other_with_the_same_answers(engines, slow_model):
    engines.model = slow_model
    active, standby = engines.pair()
    told = story(active)
    assert len(told) > 10 and not standby.events('ready')
    witness = Witness(engines.port)
    active.kill()
    witness.is_cut()
    ready = standby.wait_event('ready')
    assert int(ready['port']) == engines.port
    assert story(standby) == told
    assert moves(standby) == [('INIT', 'STANDBY'), ('STANDBY', 'WAKING'), ('WAKING', 'ACTIVE')]
    health = standby.get('/health').json()
    assert (health['engine_id'], health['role'], health['lock_owner']) == (1, 'active', 'engine-1')
    assert standby.metric('orcd_failover_state', state='ACTIVE') == 1


def test_engines_follow_each_other_many_times(engines, slow_model):
    engines.model = slow_model
    active, standby = engines.pair()
    told = story(active)
    for _ in range(4):
        witness = Witness(engines.port)
        active.kill()
        witness.is_cut()
        standby.wait_event('ready')
        assert story(standby) == told
        again = engines.start(active.number, state='STANDBY')
        active, standby = standby, again


def test_an_engine_that_drains_hands_over_when_its_port_is_closed(engines):
    active, standby = engines.pair()
    active.terminate()
    assert active.wait_exit(30) == 0
    standby.wait_event('ready')
    assert ('ACTIVE', 'DRAINING') in moves(active)
    assert len(story(standby)) > 10


def test_an_engine_that_is_stopped_keeps_its_lock(engines):
    active, standby = engines.pair()
    active.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(active.stopped, PATIENCE, 'it is stopped')
        assert {standby.state() for _ in range(100)} == {'STANDBY'}
    finally:
        active.process.send_signal(signal.SIGCONT)
    assert len(story(active)) > 10


def test_of_three_engines_one_serves(engines):
    started = [engines.start(number) for number in range(3)]
    wait_until(lambda: sorted(str(e.state()) for e in started) == ['ACTIVE', 'STANDBY', 'STANDBY'],
               PATIENCE * STRETCH, 'one serves and two wait')
    serving = next(e for e in started if e.state() == 'ACTIVE')
    rest = [e for e in started if e is not serving]
    serving.wait_event('ready')
    serving.kill()
    wait_until(lambda: sorted(str(e.state()) for e in rest) == ['ACTIVE', 'STANDBY'],
               PATIENCE * STRETCH, 'one of the two serves')


def test_a_standby_that_is_asked_to_end_ends_at_once(engines):
    active, standby = engines.pair()
    standby.terminate()
    assert standby.wait_exit(10) == 0
    assert not standby.events('error')
    assert len(story(active)) > 10


def test_a_wake_that_finds_no_port_ends_with_70(engines):
    with socket.socket() as stranger:
        stranger.bind(('127.0.0.1', engines.port))
        stranger.listen()
        engine = engines.start(0, '--waking-timeout-ms', '300')
        assert engine.wait_exit(30) == 70
    assert moves(engine) == [('INIT', 'STANDBY'), ('STANDBY', 'WAKING')]
    assert any('"phase":"waking"' in line for line in engine.lines)


def test_a_lock_whose_file_is_deleted_ends_the_engine(engines):
    active, standby = engines.pair()
    (engines.folder / 'failover.lock').unlink()
    assert active.wait_exit(30) == 1
    assert 'deleted or replaced' in active.events('error')[0]['message']
    standby.wait_event('ready')
    assert len(story(standby)) > 10


def test_an_engine_that_cannot_load_asks_for_no_lock(engines, tmp_path):
    engines.model = tmp_path / 'missing.gguf'
    engine = engines.start(0)
    assert engine.wait_exit(30) == 1
    assert moves(engine) == [('INIT', 'DEAD')]
    assert not (engines.folder / 'failover.lock').read_text()


@pytest.mark.parametrize('place', ['a folder', 'no folder', 'a pipe'])
def test_a_lock_that_cannot_be_is_refused_before_the_load(engines, place, tmp_path):
    lock = tmp_path / 'lock'
    if place == 'a folder':
        lock.mkdir()
    elif place == 'no folder':
        lock = tmp_path / 'nowhere' / 'lock'
    else:
        os.mkfifo(lock)
    engine = engines.start(0, '--failover-lock-path', str(lock))
    assert engine.wait_exit(30) == 1
    (error,) = engine.events('error')
    assert str(lock) in error['message'] and not engine.events('model_load_start')


def test_a_taken_system_port_is_refused(engines):
    with socket.socket() as stranger:
        stranger.bind(('127.0.0.1', engines.system[0]))
        stranger.listen()
        engine = engines.start(0)
        assert engine.wait_exit(30) == 1
    assert 'system port' in engine.events('error')[0]['message']


@pytest.mark.parametrize('value', ['x', '-1', '64', '1.0'])
def test_an_engine_id_that_is_none_is_wrong_usage(tiny_model, tmp_path, value):
    code, worker = run_to_exit('--model', str(tiny_model), log_format='', port='8080',
                               environment={'ENGINE_ID': value,
                                            'FAILOVER_LOCK_PATH': str(tmp_path / 'lock')})
    assert code == 2 and 'ENGINE_ID' in worker.lines[0]


def test_normal_mode_unchanged(shared_tiny):
    """Without a failover folder there is no trace of it."""
    shared_tiny.wait_event('ready')
    assert not shared_tiny.events('failover_state')
    assert 'engine_id' not in shared_tiny.get('/health').json()
    assert not [m for m in shared_tiny.metrics() if 'failover' in m]


def test_the_health_of_a_standby_has_no_gap_while_it_takes_over(engines, slow_model):
    engines.model = slow_model
    active, standby = engines.pair()
    witness = Witness(engines.port)
    with Poller(standby.system, '/health') as health, Poller(standby.system, '/live') as live:
        wait_until(lambda: health.asked > 50, PATIENCE, 'the pollers run')
        active.kill()
        witness.is_cut()
        standby.wait_event('ready')
        seen = health.asked
        wait_until(lambda: health.asked > seen + 50, PATIENCE, 'they run on')
    assert health.others == [] and live.others == [], (health.asked, health.others, live.others)
    assert status(standby.system, '/ready') == 200


def test_probes_by_state(engines):
    active, standby = engines.pair()
    assert [standby.probe(p) for p in ('/live', '/health', '/ready')] == [200, 200, 503]
    assert [active.probe(p) for p in ('/live', '/health', '/ready')] == [200, 200, 200]
    # The worker's own state follows the engine's by an instant.
    wait_until(lambda: ask(standby.system, '/health').json()['state'] == 'standby', PATIENCE, 'it stands by')
    told = ask(standby.system, '/health').json()
    assert told == {'status': 'ok', 'failover_state': 'STANDBY', 'state': 'standby', 'role': 'standby',
                    'engine_id': 1, 'lock_owner': 'engine-0', 'resumed_total': 0}
    scraped = ask(standby.system, '/metrics').body.decode()
    assert 'orcd_failover_state{state="STANDBY"} 1\n' in scraped and 'worker_info{' in scraped
    assert standby.probe('/execute') == 404 and ask(standby.system, '/live', 'POST').status == 405
    assert ask(standby.system, '/ready', 'HEAD').status == 503


def test_the_system_port_takes_what_strangers_send(engines):
    engine = engines.start(0, state='ACTIVE')
    held = [socket.create_connection(('127.0.0.1', engine.system)) for _ in range(100)]
    for number, one in enumerate(held):
        one.settimeout(PATIENCE)
        try:
            one.sendall((b'\x16\x03\x01' * 40 + b'\r\n\r\n', b'GET /health HTTP/1.1\r\nHost:' + b'a' * 20_000,
                         b'G', b'')[number % 4])
        except OSError:
            pass  # closed for being one too many
    for one in held:
        one.close()
    wait_until(lambda: engine.probe('/live') == 200, PATIENCE, 'it answers again')
    assert engine.alive()


def test_an_engine_whose_io_thread_is_stuck_gives_the_lock_up(engines, silent_systemd):
    """It has the lock and is not even told: the thread of the system port ends it."""
    path, read = silent_systemd
    active = engines.start(0, state='ACTIVE')
    active.wait_event('ready')
    standby = engines.start(1, '--waking-timeout-ms', '500',
                            environment={'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '20000'})
    read('READY=1')
    wait_until(lambda: waits_in(standby.pid, 'sendmsg'), PATIENCE, 'the io thread is stuck')
    active.kill()
    assert standby.wait_exit(60) == 70


def test_the_system_port_answers_names_of_the_worker_alone(engines):
    engine = engines.start(0, state='ACTIVE')
    with Connection(engine.system) as connection:
        connection.send(b'GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n')
        assert connection.read_response().status == 403
