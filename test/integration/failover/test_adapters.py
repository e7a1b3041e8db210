"""Requests with LoRA adapters whose engine dies."""
import pytest

from http_client import text_of
from lora_files import Shape, write_adapter
from worker_process import SANITIZED

# A sanitizer slows the arithmetic by a factor.
SLOW = Shape(1, 128, 4, 2, 256) if SANITIZED else Shape(4, 256, 4, 2, 1024)


@pytest.fixture
def slow(models):
    return models('lora-slow', *SLOW.options('--type', 'Q8_0'))


def options(adapter, *more: str):
    return ('--holder', 'require', '--lora', f'x={adapter}', *more)


def open_stream(engine):
    """Not over before the death."""
    stream = engine.open(prompt='Once', max_tokens=800, seed=4, ignore_eos=True,
                         lora=[{'id': 0, 'scale': 0.5}])
    return stream, [next(iter(stream)) for _ in range(10)]


def test_the_next_engine_goes_on_with_the_same_adapter(held, slow, tmp_path):
    held.model = slow
    given = options(write_adapter(tmp_path / 'x', 1, shape=SLOW))
    active, _ = held.pair(*given)
    alone = text_of(active.execute(prompt='Once', max_tokens=800, seed=4, ignore_eos=True,
                                   lora=[{'id': 0, 'scale': 0.5}]))
    plain = text_of(active.execute(prompt='Once', max_tokens=800, seed=4, ignore_eos=True, lora=[]))
    stream, seen = open_stream(active)
    active.kill()
    seen += list(stream)
    assert seen[-1].name == 'end' and seen[-1].data['resumed'] == 1, seen[-1]
    assert text_of(seen) == alone != plain
    assert active.events('adapter_loaded')[0]['name'] == 'x'


@pytest.mark.parametrize('change', ['content', 'strength', 'unapplied'])
def test_an_engine_with_another_adapter_does_not(held, slow, tmp_path, change):
    held.model = slow
    first = write_adapter(tmp_path / 'x', 1, shape=SLOW)
    second = {'content': options(write_adapter(tmp_path / 'y', 2, shape=SLOW)),
              'strength': options(f'{first}:0.5'),
              'unapplied': options(first, '--lora-init-without-apply')}[change]
    active = held.start(0, *options(first), state='ACTIVE')
    held.start(1, *second, state='STANDBY')
    stream, seen = open_stream(active)
    active.kill()
    seen += list(stream)
    assert seen[-1].name == 'error' and seen[-1].data['code'] == 'ENGINE_CHANGED', seen[-1]


def test_scales_are_those_of_the_start(held, slow, tmp_path):
    held.model = slow
    active, _ = held.pair(*options(write_adapter(tmp_path / 'x', 1, shape=SLOW)))
    refused = active.call('POST', '/lora-adapters', [{'id': 0, 'scale': 0}])
    assert refused.status == 403 and '--failover-dir' in refused.error['message']
    assert active.get('/lora-adapters').json()[0]['scale'] == 1
