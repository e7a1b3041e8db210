"""What operators tell holder and engines by signals, and what the next engine knows of it."""
import signal

import pytest

from held_file import ENVIRONMENT, HeldFile, holds_files
from holders import check, get
from http_client import Connection
from worker_process import PATIENCE, STRETCH, wait_until


def asks(port: int, key: str) -> int:
    with Connection(port, timeout=PATIENCE) as one:
        one.request('GET', '/v1/models', headers={'Authorization': f'Bearer {key}'})
        return one.read_response().status


def reloads(engine) -> int:
    return len(engine.events('reloaded'))


def tell(process, number: signal.Signals) -> None:
    process.process.send_signal(number)


@pytest.mark.parametrize('has_holder', [True, False])
def test_a_key_that_was_revoked_opens_nothing_at_the_next_engine(request, tmp_path, has_holder):
    engines = request.getfixturevalue('held' if has_holder else 'engines')
    keys = tmp_path / 'keys'
    keys.write_text('old-key\n')
    active, standby = engines.pair('--api-key-file', str(keys))
    assert (asks(engines.port, 'old-key'), asks(engines.port, 'new-key')) == (200, 401)
    keys.write_text('new-key\n')
    tell(active, signal.SIGHUP)
    active.wait_event('reloaded')
    active.kill()
    standby.wait_state('ACTIVE')
    assert (asks(engines.port, 'old-key'), asks(engines.port, 'new-key')) == (401, 200)


@holds_files
def test_files_that_cannot_be_read_keep_no_engine_from_serving(engines, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('old-key\n')
    active = engines.start(0, '--api-key-file', str(keys), state='ACTIVE')
    active.wait_event('ready')
    standby = engines.start(1, '--api-key-file', str(keys), state='STANDBY', environment=ENVIRONMENT)
    gone = HeldFile(keys)
    active.kill()
    assert standby.wait_event('reload_failed', level='error')['limit_ms'] > 0
    standby.wait_state('ACTIVE')
    assert (asks(engines.port, 'old-key'), asks(engines.port, 'new-key')) == (200, 401)
    keys.write_text('new-key\n')
    gone.let_go()
    wait_until(lambda: asks(engines.port, 'new-key') == 200, PATIENCE, 'what comes late counts all the same')


def test_sighup_to_the_holder_reaches_each_engine_once(held, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('old-key\n')
    pair = held.pair('--api-key-file', str(keys))
    for times in (1, 2):
        keys.write_text(f'key-{times}\n')
        tell(held.holder, signal.SIGHUP)
        for engine in pair:
            wait_until(lambda one=engine: reloads(one) >= times, PATIENCE * STRETCH, 'it reads again')
        assert asks(held.port, f'key-{times}') == 200
    tell(pair[1], signal.SIGHUP)
    for engine in pair:
        wait_until(lambda one=engine: reloads(one) >= 3, PATIENCE * STRETCH, 'the others are told')
    assert [reloads(engine) for engine in pair] == [3, 3], 'and tell nobody'
    assert held.holder.alive()


def test_sigusr2_to_the_holder_is_for_the_engine_that_serves(held):
    tell(held.holder, signal.SIGUSR2)
    assert held.holder.wait_event('signal_passed', level='warning')['engines'] == 0
    active, standby = held.pair()
    tell(held.holder, signal.SIGUSR2)
    standby.wait_state('ACTIVE')
    active.wait_state('STANDBY')
    with Connection(held.port) as one:
        assert get(one).json()['engine_id'] == 1


@pytest.mark.parametrize('name', ['SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGPIPE', 'SIGXFSZ'])
def test_the_holder_outlives_signals_that_are_not_for_its_end(held, name):
    for _ in range(3):
        tell(held.holder, getattr(signal, name))
        assert check(held.folder, 'startup') == 0
    assert held.holder.alive()
