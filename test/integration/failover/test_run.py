"""A holder that runs its engines itself: starts, restarts, kills and ends them."""
import json
import os
import shutil
import signal
from contextlib import ExitStack
from typing import Dict, List, Sequence

import pytest

from engines import Witness, ask
from holders import HOLDER, Held, Holder, check, get, said, settle
from http_client import Connection, Stream
from ports import free_port
from worker_process import BACKEND, BINARY, PATIENCE, STRETCH, request_body, wait_until


class Running:
    """worker-orcd-holder --run 2, and whatever engines it leaves."""

    def __init__(self, held: Held):
        self.held = held
        self.holders: List[Holder] = []

    def start(self, *options: str, run: int = 2, model: str = '', engine_options: Sequence[str] = (),
              system: Sequence[str] = ('--system-enabled', 'false'), **more) -> Holder:
        engine = ['--backend', BACKEND, '--log-format', 'json', *system, '--model',
                  model or str(self.held.model), *engine_options]
        holder = Holder(self.held.folder, self.held.port, *options, '--run', str(run), '--', *engine, **more)
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


def test_a_stopped_standby_is_killed_and_followed_while_another_serves(running):
    holder = running.start('--hang-timeout', '5')
    first = serving(running)
    wait_standby(holder, 1 - first)
    os.kill(pid_of(holder, 1 - first), signal.SIGSTOP)
    holder.wait_event('engine_hangs', engine_id=1 - first)
    holder.wait_event('engine_ended', engine_id=1 - first, signal=signal.SIGKILL)
    wait_standby(holder, 1 - first, 2)
    assert serving(running) == first and len(holder.events('engine_hangs')) == 1


def begins_to_drain(holder: Holder, engine: int) -> str:
    """When it does, by the log."""
    return holder.wait_event('failover_state', engine_id=engine, to='DRAINING')['ts']


def test_the_engine_that_serves_ends_last_and_finishes_what_runs(running):
    """It must not hand over to one that is about to end, too."""
    holder = running.start()
    first = serving(running)
    wait_standby(holder, 1 - first)
    with Connection(running.held.port, timeout=PATIENCE) as one:
        one.request('POST', '/execute', json.dumps(request_body(prompt='Once', max_tokens=300)).encode())
        stream = Stream(one)
        stream.until('token', 3)
        holder.terminate()
        ended = holder.wait_event('engine_ended', engine_id=1 - first, exit_code=0)['ts']
        assert begins_to_drain(holder, first) >= ended
        end = stream.rest()[-1]
    assert end.name == 'end' and 'resumed' not in end.data
    assert holder.wait_exit(60) == 0
    assert not holder.events('hand_over')


@pytest.mark.parametrize('again', [False, True])
def test_a_standby_that_does_not_end_keeps_nobody(running, again):
    holder = running.start('--hang-timeout', '0')
    first = serving(running)
    wait_standby(holder, 1 - first)
    os.kill(pid_of(holder, 1 - first), signal.SIGSTOP)
    holder.terminate()
    if again:
        holder.wait_event('shutdown', worker_id='holder')
        holder.terminate()
    assert holder.wait_exit(60) == 0
    killed = holder.wait_event('engine_hangs', engine_id=1 - first)['ts']
    drains = begins_to_drain(holder, first)
    assert drains < killed if again else drains >= killed, 'the second one is for all at once'


def free_pair() -> int:
    """The first of two ports that follow each other."""
    while True:
        first, second = free_port(), free_port()
        if second == first + 1:
            return first


def system_ports(holder: Holder) -> Dict[int, int]:
    return {event['engine_id']: event['port'] for event in holder.events('system_port')}


@pytest.mark.parametrize('by', ['option', 'variable'])
def test_each_engine_has_a_system_port_of_its_own(running, by, monkeypatch):
    first = free_pair()
    system = ('--system-port', str(first)) if by == 'option' else ()
    if by == 'variable':
        monkeypatch.setenv('DYN_SYSTEM_PORT', str(first))
    holder = running.start(system=system)
    active = serving(running)
    wait_standby(holder, 1 - active)
    assert system_ports(holder) == {0: first, 1: first + 1}
    told = said(running.held.folder, 'ready')
    assert told[0].startswith(f'holder: ready, port {running.held.port}, connections ')
    assert told[1:] == [f'engine {n}: {"serves" if n == active else "stands by"}, pid {pid_of(holder, n)}, '
                        f'system port {first + n}' for n in (0, 1)]
    for number in (0, 1):
        assert ask(first + number, '/health').json()['engine_id'] == number


def test_two_pairs_of_a_host_have_no_port_in_common(tiny_model, tmp_path):
    with ExitStack() as both:
        holders = []
        for name in ('a', 'b'):
            held = both.enter_context(Held(tiny_model, tmp_path / name))
            pair = both.enter_context(Running(held))
            (tmp_path / name).mkdir()
            holders.append(pair.start(system=()))
            active = serving(pair)
            wait_standby(holders[-1], 1 - active)
        ports = [port for holder in holders for port in system_ports(holder).values()]
        assert len(set(ports)) == 4 and not any(holder.events('engine_ended') for holder in holders)
        assert [ask(port, '/live').status for port in ports] == [200] * 4


def test_the_upgrade_of_the_documents_loses_no_stream(running, tmp_path):
    """Of both engines and the holder, while one stream goes on."""
    asked = {'prompt': 'Once', 'max_tokens': 1200, 'seed': 3, 'temperature': 0.7, 'ignore_eos': True}
    for program in (HOLDER, BINARY):
        shutil.copy2(program, tmp_path)
    holder = running.start(binary=tmp_path / HOLDER.name)
    first = serving(running)
    wait_standby(holder, 1 - first)
    with Connection(running.held.port, timeout=PATIENCE * STRETCH) as one:
        one.request('POST', '/execute', json.dumps(request_body(**asked)).encode())
        stream = Stream(one)
        stream.until('token', 3)
        (tmp_path / BINARY.name).unlink()
        shutil.copy2(BINARY, tmp_path)
        for old in (1 - first, first):
            stood_by = [states(holder, engine).count('STANDBY') for engine in (0, 1)]
            os.kill(pid_of(holder, old), signal.SIGTERM)
            holder.wait_event('engine_ended', engine_id=old, exit_code=0)
            wait_standby(holder, old, stood_by[old] + 1)
            assert os.readlink(f'/proc/{pid_of(holder, old)}/exe') == str(tmp_path / BINARY.name)
            holder.process.send_signal(signal.SIGUSR2)
            wait_until(lambda: serving(running) == old, PATIENCE * STRETCH, 'it serves')
            wait_standby(holder, 1 - old, stood_by[1 - old] + 1)
        holder.kill()
        running.start().wait_event('adopted')
        end = stream.rest()[-1]
    assert end.name == 'end' and end.data['tokens_out'] == 1200 and 'resumed' not in end.data


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
