"""Deaths at bad moments, and of several processes at once. Where anything is left, answers go on."""
import os
import signal

import pytest

from engines import ask
from holders import settle
from http_client import Closed, Connection, Stream, text_of
from test_holder import serving_engine
from worker_process import BACKEND, PATIENCE, SANITIZED, STRETCH, wait_until

LONG = ('--max-tokens-out', '8000')
REQUIRE = ('--holder', 'require', *LONG)
# Not over before the death, however late that comes: some come when another engine has started, which takes a
# GPU's seconds.
STORY = {'prompt': 'Once', 'max_tokens': 1000 if BACKEND == 'host' else 6000, 'seed': 5, 'temperature': 0.8,
         'ignore_eos': True}


@pytest.fixture
def held(held, slow_model):
    held.model = slow_model
    return held


def begin(engine, **more):
    """A story under way."""
    stream = engine.open(**{**STORY, **more})
    stream.until('token', 3)
    return stream


def deaths(stream) -> int:
    """Engines that died with it."""
    return stream.seen[-1].data.get('resumed', 0)


def finish(stream) -> str:
    end = stream.finish()
    assert end.name == 'end', end
    return text_of(stream.seen)


def test_a_death_while_loading_is_no_harm(held):
    active = held.start(0, *REQUIRE, state='ACTIVE')
    stream = begin(active)
    loading = held.start(1, *REQUIRE)
    loading.wait_event('model_load_start')
    loading.kill()
    assert [e for e in loading.events('failover_state') if e['to'] != 'STANDBY'] == []
    standby = held.start(1, *REQUIRE, state='STANDBY')
    active.kill()
    told = finish(stream)
    assert deaths(stream) == 1 and told == finish(begin(standby))


def test_a_death_of_the_only_engine_while_loading_keeps_clients_waiting(held):
    with Connection(held.port, timeout=PATIENCE * STRETCH) as early:
        early.request('GET', '/health')
        loading = held.start(0, *REQUIRE)
        loading.wait_event('model_load_start')
        loading.kill()
        held.start(0, *REQUIRE, state='ACTIVE')
        assert early.read_response().json()['engine_id'] == 0


def test_a_death_between_lock_and_port(held):
    """The holder does not answer for a while: the successor has the lock and waits for connections."""
    active, second = held.pair(*REQUIRE)
    third = held.start(2, *REQUIRE, state='STANDBY')
    stream = begin(active)
    held.holder.process.send_signal(signal.SIGSTOP)
    try:
        active.kill()
        waking, last = second, third
        wait_until(lambda: second.events('failover_state', to='WAKING') or
                   third.events('failover_state', to='WAKING'), PATIENCE, 'one of them wakes')
        if third.events('failover_state', to='WAKING'):
            waking, last = third, second
        assert not waking.events('failover_state', to='ACTIVE')
        waking.kill()
    finally:
        held.holder.process.send_signal(signal.SIGCONT)
    told = finish(stream)
    # The one that woke had not begun with it.
    assert deaths(stream) == last.wait_event('connections_taken_over')['resumed'] == 1
    assert told == finish(begin(last))


def test_two_deaths_in_a_row(held):
    active, second = held.pair(*REQUIRE)
    third = held.start(2, *REQUIRE, state='STANDBY')
    stream = begin(active)
    active.kill()
    wait_until(lambda: second.events('connections_taken_over') or third.events('connections_taken_over'),
               PATIENCE, 'one of them goes on')
    successor, last = (second, third) if second.events('connections_taken_over') else (third, second)
    successor.kill()
    told = finish(stream)
    taken = [e.wait_event('connections_taken_over') for e in (successor, last)]
    assert deaths(stream) == sum(t['resumed'] for t in taken) == 2
    assert sum(t['lost'] + t['conflicts'] for t in taken) == 0
    assert told == finish(begin(last))


def test_holder_and_standby_die_together(held):
    active, standby = held.pair(*LONG)
    stream = begin(active)
    held.holder.kill()
    standby.kill()
    active.wait_event('holder_lost')
    held.start_holder(ready=False).wait_event('adopted')
    successor = held.start(1, *LONG, state='STANDBY')
    with Connection(held.port) as later:
        assert serving_engine(later) == 0
        settle(held.port)
        active.kill()
        assert serving_engine(later) == 1
    told = finish(stream)
    assert deaths(stream) == 1 and told == finish(begin(successor))


@pytest.mark.skipif(BACKEND != 'host', reason='the stream is over too soon on a GPU')
def test_all_die_and_the_next_start_serves(held):
    active, standby = held.pair(*LONG)
    stream = begin(active)
    for process in (held.holder, standby, active):
        process.kill()
    with pytest.raises((Closed, OSError, AssertionError)):
        stream.finish()
    assert stream.seen[-1].name == 'token', 'it was over before'
    assert ask(held.port, '/health') is None
    held.start_holder()
    again = held.start(0, *REQUIRE, state='ACTIVE')
    assert len(finish(begin(again))) > 0
    assert again.metric('orcd_failover_journal_free_bytes') > 0


@pytest.mark.skipif(SANITIZED, reason='a sanitizer reports the signal as a fault')
@pytest.mark.parametrize('number', [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_is_as_good_as_a_kill(held, number):
    """No core is written meanwhile: it would keep the lock."""
    active, standby = held.pair(*REQUIRE)
    stream = begin(active)
    os.kill(active.pid, number)
    assert finish(stream) == finish(begin(standby))
    assert active.wait_exit(30) != 0
    assert deaths(stream) == standby.wait_event('connections_taken_over')['resumed'] == 1


def test_a_death_inside_a_long_prompt(held):
    long = {**STORY, 'prompt': 'one and another ' * 60, 'max_tokens': 20}
    active, standby = held.pair(*REQUIRE, '--no-prefix-cache')
    alone = text_of(active.execute(**long))
    for _ in range(5):
        steps, made = active.metric('worker_steps_total'), active.metric('worker_tokens_generated_total')
        connection = active.send_execute(**long)
        settle(held.port)
        wait_until(lambda: active.metric('worker_steps_total') > steps, PATIENCE, 'the prompt is begun')
        if active.metric('worker_tokens_generated_total') == made:
            break
        finish(Stream(connection))  # it was over too soon
    else:
        assert BACKEND != 'host', 'the prompt is over too soon each time'
        pytest.skip(f'a tiny prompt is over too soon on {BACKEND}')
    active.kill()
    stream = Stream(connection)
    assert finish(stream) == alone and deaths(stream) == 1
