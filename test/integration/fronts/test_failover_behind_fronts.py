"""A failover pair with its holder and a worker alone, behind each proxy: the engine that serves is killed
under load, and no client notices."""
import time

import pytest

from fronts import FRONTS, ask
from engines import Witness
from holders import Held
from load import PROMPTS, TOKENS, Load, bare
from worker_process import PATIENCE, Worker, wait_until

OPTIONS = ('--slots', '4', '--threads', '1')


@pytest.fixture(scope='module')
def pair(model, tmp_path_factory):
    with Held(model, tmp_path_factory.mktemp('pair')) as held:
        held.start_holder()
        held.serving, held.waiting = held.pair(*OPTIONS)
        yield held


@pytest.fixture(scope='module')
def alone(model):
    with Worker('--model', model, *OPTIONS) as worker:
        worker.wait_event('ready')
        yield worker


@pytest.mark.parametrize('kind', FRONTS)
def test_a_kill_loses_nothing(kind, pair, alone, tmp_path):
    expected = [bare(ask(alone, prompt, max_tokens=TOKENS, stream=True).body) for prompt in PROMPTS]
    with FRONTS[kind](tmp_path, [pair.port, alone.port]) as front:
        with Load(front.port, expected) as load:
            load.wait_each(1, 0)
            wait_until(lambda: pair.serving.running() > 0, PATIENCE, 'the pair has work')
            witness = Witness(pair.port)
            pair.serving.kill()
            witness.is_gone_on_with()
            load.wait_each(2, time.monotonic())
        others = [outcome.what for outcome in load.outcomes() if outcome.what != 'whole']
        print(f'{kind}: an engine of a pair killed: {len(load.outcomes())} requests, {len(others)} lost')
    pair.waiting.wait_state('ACTIVE')
    gone, pair.serving = pair.serving.number, pair.waiting
    pair.waiting = pair.start(gone, *OPTIONS, state='STANDBY')
    assert others == []
