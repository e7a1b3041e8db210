"""Lengths under /v1 are the model's: max_tokens is an upper bound, and what does not fit is refused in
OpenAI's words. /execute keeps the limits of its requirements."""
import json
from typing import Iterator

import pytest

from completion_worker import chat, frames, start, text
from worker_process import PATIENCE, SANITIZED, Worker

CONTEXT = 65536


@pytest.fixture(scope='module')
def small(tiny_model, tmp_path_factory) -> Iterator[Worker]:
    with start(tiny_model, tmp_path_factory.mktemp('small')) as worker:
        yield worker


@pytest.fixture(scope='module')
def long(models, tmp_path_factory) -> Iterator[Worker]:
    shape = '--layers 1 --embedding 32 --heads 1 --kv-heads 1 --ffn 32'.split()
    with start(models('long', '--context', str(CONTEXT), *shape), tmp_path_factory.mktemp('long')) as worker:
        yield worker


def check_overflow(answer, most: int, noun: str) -> None:
    assert answer.status == 400, answer.body
    assert (answer.error['code'], answer.error['type'], answer.error['param']) == (
        'context_length_exceeded', 'invalid_request_error', noun)
    begin = f"This model's maximum context length is {most} tokens. However, your {noun} resulted in "
    assert answer.error['message'].startswith(begin)
    assert int(answer.error['message'][len(begin):].split()[0]) > most
    assert answer.error['message'].endswith(f'Please reduce the length of the {noun}.')


@pytest.mark.parametrize('most', [4096, 10 ** 6, 2 ** 63, 2 ** 64 - 1, -1, None])
def test_an_answer_may_fill_the_context(small, most):
    for answer in (chat(small, max_tokens=most), text(small, max_tokens=most)):
        assert answer.status == 200, answer.body
        usage = answer.json()['usage']
        # The last token needs no position.
        assert usage['total_tokens'] == 1024 + 1
        assert answer.json()['choices'][0]['finish_reason'] == 'length'


def test_the_newer_name_is_the_same(small):
    answer = chat(small, max_tokens=None, max_completion_tokens=5000).json()
    assert answer['usage']['total_tokens'] == 1025 and answer['choices'][0]['finish_reason'] == 'length'


@pytest.mark.parametrize('stream', [False, True])
def test_what_does_not_fit_is_refused_in_words_that_clients_know(small, stream):
    words = 'word ' * 1100
    messages = [{'role': 'user', 'content': words}]
    check_overflow(chat(small, messages=messages, stream=stream), 1024, 'messages')
    check_overflow(text(small, prompt=words, stream=stream), 1024, 'prompt')
    check_overflow(text(small, prompt=[5] * 1025, stream=stream), 1024, 'prompt')


def test_execute_keeps_its_own_words_and_limits(small, long):
    stream = small.open(prompt='word ' * 1100)
    stream.close()
    assert stream.response.error['code'] == 'CONTEXT_LENGTH_EXCEEDED'
    for changes, limit in (({'prompt': 'a' * 32769}, '32768'), ({'max_tokens': 2049}, '2048')):
        stream = long.open(**changes)
        stream.close()
        assert stream.response.status == 400 and limit in stream.response.error['message']


@pytest.mark.skipif(SANITIZED, reason='two minutes of arithmetic here; a shorter prompt takes the same path')
def test_a_long_prompt_of_an_agent_is_served_where_the_context_allows_it(long):
    messages = [{'role': 'system', 'content': 'Be brief. ' * 3400}, {'role': 'user', 'content': 'hi'}]
    body = json.dumps({'messages': messages, 'max_tokens': 2, 'ignore_eos': True}).encode()
    with long.connect(timeout=5 * PATIENCE) as connection:  # some ten seconds of arithmetic
        connection.request('POST', '/v1/chat/completions', body)
        answer = connection.read_response()
    assert answer.status == 200, answer.body
    assert answer.json()['usage']['completion_tokens'] == 2
    assert chat(long, max_tokens=3000).json()['usage']['completion_tokens'] == 3000


def test_a_body_may_be_as_long_as_the_context_asks_for(small, long):
    words = 'a' * (1536 * 1024)
    check_overflow(text(long, prompt=words), CONTEXT, 'prompt')
    answer = text(small, prompt=words)
    assert (answer.status, answer.error['code']) == (413, 'PAYLOAD_TOO_LARGE')
    tokens = long.call('POST', '/tokenize', {'content': 'ab ' * 20000}).json()
    assert tokens['count'] > 20000


def test_what_an_operator_sets_bounds_all(tiny_model, tmp_path):
    with start(tiny_model, tmp_path, '--max-tokens-out', '7', '--max-tokens-in', '100', '--max-prompt-chars',
               '500') as worker:
        for most in (None, 7, 8, 5000, -1):
            answer = chat(worker, max_tokens=most).json()
            assert answer['usage']['completion_tokens'] == 7, most
            assert answer['choices'][0]['finish_reason'] == 'length'
        check_overflow(text(worker, prompt=[5] * 101), 100, 'prompt')
        refused = text(worker, prompt='a' * 501)
        assert (refused.status, refused.error['code']) == (400, 'INVALID_REQUEST')


def test_a_streamed_answer_ends_with_length(small):
    last = frames(chat(small, max_tokens=5000, stream=True).body)
    assert last[-1] == '[DONE]' and '"finish_reason":"length"' in last[-2]
