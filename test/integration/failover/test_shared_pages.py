"""Engines that share the weights use one KV cache after the other: who takes over goes on from what the dead
one had computed, and is as warm as it was."""
import json

import pytest

from engines import Engine, ask, is_resumed
from holders import OWN_DEVICE, Held
from http_client import Connection, Stream, text_of
from worker_process import PATIENCE, STRETCH, wait_until

SHARE = ('--share-weights', 'require', '--holder', 'require', '--slots', '4', '--context', '2048')
LONG = 'one and another ' * 100  # some pages
WAIT = PATIENCE * STRETCH


@pytest.fixture
def sharing(slow_model, tmp_path):
    with Held(slow_model, tmp_path) as all_of_them:
        all_of_them.start_holder(*OWN_DEVICE)
        yield all_of_them


def pair(held: Held, *options: str):
    first = held.start(0, *SHARE, *options, state='ACTIVE')
    second = held.start(1, *SHARE, *options, state='STANDBY')
    assert second.wait_event('weights_imported')['kv_cache'] == 'shared'
    return first, second


def cached(held: Held, prompt: str) -> int:
    """Tokens of the prompt that were known."""
    with Connection(held.port, timeout=WAIT) as connection:
        asked = {'prompt': prompt, 'max_tokens': 1, 'seed': 7}
        connection.request('POST', '/v1/completions', json.dumps(asked).encode())
        reply = connection.read_response()
    assert reply.status == 200, reply.body
    return reply.json()['usage']['prompt_tokens_details']['cached_tokens']


def begin(engine: Engine, name: str, tokens: int) -> Stream:
    asked = {'prompt': name + LONG, 'max_tokens': 800, 'seed': 3, 'temperature': 0.9, 'ignore_eos': True}
    stream = Stream(engine.send_execute(job_id=name, **asked))
    while sum(event.name == 'token' for event in stream.seen) < tokens:
        stream.next()
    return stream


def finish(stream: Stream, resumed: bool = False) -> str:
    end = stream.finish()
    assert end.name == 'end' and is_resumed(end) == resumed, end
    return text_of(stream.seen)


def test_streams_go_on_from_the_pages_of_the_dead(sharing):
    first, second = pair(sharing)
    names = ('a', 'b', 'c')
    expected = [finish(begin(first, name, 1)) for name in names]
    sharing.all.remove(first)
    first.end()
    second.wait_state('ACTIVE')
    third = sharing.start(0, *SHARE, state='STANDBY')
    streams = [begin(second, name, 5) for name in names]
    second.kill()
    assert [finish(stream, resumed=True) for stream in streams] == expected
    taken = third.wait_event('pages_taken_over')
    assert taken['known'] >= 3 * len(names) and taken['closed'] > 0, taken
    assert third.wait_event('pages_open')['waited_ms'] < 10_000
    assert not third.events('pages_not_told')


def test_the_next_engine_is_warm(sharing):
    first, second = pair(sharing)
    assert cached(sharing, LONG) == 0
    warm = cached(sharing, LONG)
    assert warm > 256
    first.kill()
    second.wait_state('ACTIVE')
    assert cached(sharing, LONG) >= warm // 256 * 256
    third = sharing.start(0, *SHARE, state='STANDBY')
    second.kill()
    third.wait_state('ACTIVE')
    assert cached(sharing, LONG) >= warm // 256 * 256


def test_it_is_warm_after_a_hand_over_and_back(sharing):
    first, second = pair(sharing)
    cached(sharing, LONG)
    warm = cached(sharing, LONG)
    for one, other in ((first, second), (second, first)):
        assert ask(one.system, '/engine/sleep', 'POST').status == 200
        other.wait_state('ACTIVE')
        one.wait_state('STANDBY')
        assert cached(sharing, LONG) >= warm // 256 * 256


def test_tenants_stay_apart_after_a_death(slow_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('one\ntwo\n')

    def of(key: str) -> int:
        with Connection(held.port, timeout=WAIT) as connection:
            asked = json.dumps({'prompt': LONG, 'max_tokens': 1}).encode()
            connection.request('POST', '/v1/completions', asked, {'Authorization': 'Bearer ' + key})
            reply = connection.read_response()
        assert reply.status == 200, reply.body
        return reply.json()['usage']['prompt_tokens_details']['cached_tokens']

    folder = tmp_path / 'pair'
    folder.mkdir()
    with Held(slow_model, folder) as held:
        held.start_holder(*OWN_DEVICE)
        first, second = pair(held, '--api-key-file', str(keys))
        of('one')
        first.kill()
        second.wait_state('ACTIVE')
        assert of('two') == 0
        assert of('one') > 256


def test_another_size_of_the_cache_is_a_cache_of_its_own(sharing):
    sharing.start(0, *SHARE, state='ACTIVE')
    other = sharing.start(1, *SHARE[:-3], '3', *SHARE[-2:], state='STANDBY')
    assert other.wait_event('weights_imported')['kv_cache'] == 'own'


def test_pages_in_use_are_all_given_back(sharing):
    first, second = pair(sharing, '--no-prefix-cache')
    stream = begin(first, 'a', 5)
    first.kill()
    finish(stream, resumed=True)
    second.wait_event('pages_open')
    second.wait_idle()
    wait_until(lambda: second.metric('worker_kv_blocks_used') == 0, PATIENCE, 'given back')
