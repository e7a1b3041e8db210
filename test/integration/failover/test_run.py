"""A holder that runs its engines itself: starts, restarts, kills and ends them."""
import os
import signal
from typing import List, Sequence

import pytest

from engines import Witness
from holders import Held, Holder, check, get, settle
from http_client import Connection
from worker_process import BACKEND, PATIENCE, STRETCH, wait_until


class Running:
    """worker-orcd-holder --run 2, and whatever engines it leaves."""

    def __init__(self, held: Held):
        self.held = held
        self.holders: List[Holder] = []

    def start(self, *options: str, run: int = 2, model: str = '',
              engine_options: Sequence[str] = ()) -> Holder:
        # Other tests may have the system ports.
        engine = ['--backend', BACKEND, '--log-format', 'json', '--system-enabled', 'false', '--model',
                  model or str(self.held.model), *engine_options]
        holder = Holder(self.held.folder, self.held.port, *options, '--run', str(run), '--', *engine)
        self.holders.append(holder)
        return holder

    def pids(self) -> List[int]:
        return [event['pid'] for holder in self.holders for event in holder.events('engine_started')]

    def __enter__(self) -> 'Running':
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self.holders:
            if holder.alive():
                holder.process.send_signal(signal.SIGSTOP)  # it must not start another one
        for pid in self.pids():
            # Only a process that still is one of these engines.
            try:
                with open(f'/proc/{pid}/cmdline', 'rb') as words:
                    if os.fsencode(str(self.held.folder)) in words.read().split(b'\0'):
                        os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for holder in self.holders:
            if holder.alive():
                holder.kill()  # it is stopped, and would not hear anything else
            holder.end()


@pytest.fixture
def running(slow_model, tmp_path):
    with Held(slow_model, tmp_path) as held, Running(held) as all_of_them:
        yield all_of_them


def serving(running: Running) -> int:
    """The engine that serves; a standby is there, too."""
    wait_until(lambda: check(running.held.folder, 'ready') == 0, PATIENCE * STRETCH, 'one serves')
    with Connection(running.held.port) as connection:
        return get(connection).json()['engine_id']


def pid_of(holder: Holder, engine: int) -> int:
    return holder.events('engine_started', engine_id=engine)[-1]['pid']


def states(holder: Holder, engine: int) -> List[str]:
    return [event['to'] for event in holder.events('failover_state') if event['engine_id'] == engine]


def wait_standby(holder: Holder, engine: int, times: int = 1) -> None:
    wait_until(lambda: states(holder, engine).count('STANDBY') >= times, PATIENCE * STRETCH,
               f'engine {engine} stands by')


def test_engines_are_started_and_those_that_end_again(running):
    holder = running.start()
    first = serving(running)
    wait_standby(holder, 1 - first)
    with Connection(running.held.port) as kept:
        assert get(kept).json()['engine_id'] == first
        witness = Witness(running.held.port)
        settle(running.held.port)
        os.kill(pid_of(holder, first), signal.SIGKILL)
        assert get(kept).json()['engine_id'] == 1 - first
        witness.is_gone_on_with()
    assert holder.wait_event('engine_ended', engine_id=first)['signal'] == signal.SIGKILL
    wait_until(lambda: len(holder.events('engine_started', engine_id=first)) == 2, PATIENCE, 'again')
    wait_standby(holder, first, 2)
    holder.terminate()
    assert holder.wait_exit(60) == 0
    assert len(holder.events('engine_ended', exit_code=0)) == 2
    assert not (running.held.folder / 'connections.sock').exists()


def test_a_stopped_engine_is_killed_and_followed(running):
    holder = running.start('--hang-timeout', '5')
    first = serving(running)
    wait_standby(holder, 1 - first)
    with Connection(running.held.port) as kept:
        assert get(kept).json()['engine_id'] == first
        witness = Witness(running.held.port)
        settle(running.held.port)
        os.kill(pid_of(holder, first), signal.SIGSTOP)
        assert get(kept).json()['engine_id'] == 1 - first
        witness.is_gone_on_with()
    holder.wait_event('engine_hangs', engine_id=first)
    holder.wait_event('engine_ended', engine_id=first, signal=signal.SIGKILL)


def test_engines_that_cannot_start_end_all_with_2(running):
    bad = Holder(running.held.folder, running.held.port, '--run', '2', '--', '--slots', 'many')
    running.holders.append(bad)
    assert bad.wait_exit(60) == 2
    assert any('--slots' in line for line in bad.lines)


def test_an_engine_that_fails_is_started_later_and_later(running):
    holder = running.start(run=1, model='/nowhere.gguf')
    wait_until(lambda: len(holder.events('engine_ended', engine_id=0)) >= 4, PATIENCE * STRETCH, 'four tries')
    assert check(running.held.folder, 'startup') == 0 and check(running.held.folder, 'ready') == 1
    holder.terminate()
    assert holder.wait_exit(30) == 0


def test_a_holder_that_follows_a_dead_one_starts_only_what_is_missing(running):
    first = running.start()
    active = serving(running)
    wait_standby(first, 1 - active)
    with Connection(running.held.port) as kept:
        assert get(kept).json()['engine_id'] == active
        first.kill()
        os.kill(pid_of(first, 1 - active), signal.SIGKILL)
        second = running.start()
        second.wait_event('adopted')
        second.wait_event('engine_started', engine_id=1 - active)
        wait_standby(second, 1 - active)
        assert not second.events('engine_started', engine_id=active)
        assert get(kept).json()['engine_id'] == active
        witness = Witness(running.held.port)
        settle(running.held.port)
        os.kill(pid_of(first, active), signal.SIGKILL)
        assert get(kept).json()['engine_id'] == 1 - active
        witness.is_gone_on_with()
        second.wait_event('engine_started', engine_id=active)
    second.terminate()
    assert second.wait_exit(60) == 0
