"""The `litellm` package, unchanged, with its provider openai/ against the shipped binary.
tools/python_packages.sh fetches it."""
import os
from typing import Iterator

import pytest

from completion_worker import start
from worker_process import PATIENCE, Worker

# It would ask GitHub for prices otherwise.
os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'
litellm = pytest.importorskip('litellm', reason='the Python package litellm is not installed')

ASK = [{'role': 'user', 'content': 'Once upon a time'}]
TOO_LONG = [{'role': 'user', 'content': 'word ' * 1100}]


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory) -> Iterator[Worker]:
    with start(tiny_model, tmp_path_factory.mktemp('litellm'), '--model-name', 'Small') as running:
        yield running


def complete(worker: Worker, base: str = '/v1', **changes):
    return litellm.completion(**{'model': 'openai/small', 'api_base': f'http://127.0.0.1:{worker.port}{base}',
                                 'api_key': 'none', 'messages': ASK, 'max_tokens': 12, 'seed': 3,
                                 'num_retries': 0, 'max_retries': 0, 'timeout': PATIENCE, **changes})


@pytest.mark.parametrize('base', ['/v1', '/v1/', '', '/'])
def test_a_chat(worker, base):
    answer = complete(worker, base)
    assert answer.choices[0].message.role == 'assistant'
    assert answer.choices[0].finish_reason in ('length', 'stop')
    assert answer.usage.completion_tokens <= 12


def test_a_stream_equals_the_answer(worker):
    whole = complete(worker).choices[0].message.content
    pieces = [chunk.choices[0].delta.content or '' for chunk in complete(worker, stream=True)]
    assert ''.join(pieces) == whole


def test_more_tokens_than_there_is_room_for(worker):
    answer = complete(worker, max_tokens=8192, logit_bias={}, extra_body={'ignore_eos': True})
    assert answer.choices[0].finish_reason == 'length'
    assert answer.usage.total_tokens == 1025


@pytest.mark.parametrize('stream', [False, True])
def test_a_prompt_that_is_too_long_tells_agents_to_compact(worker, stream):
    with pytest.raises(litellm.ContextWindowExceededError) as refused:
        complete(worker, messages=TOO_LONG, stream=stream)
    assert 'maximum context length is 1024 tokens' in str(refused.value)


def test_another_model(worker):
    with pytest.raises(litellm.NotFoundError):
        complete(worker, model='openai/other')


def test_what_is_wrong_is_a_bad_request(worker):
    with pytest.raises(litellm.BadRequestError) as refused:
        complete(worker, extra_body={'no_such_field': 1})
    assert 'no_such_field' in str(refused.value)
    assert not isinstance(refused.value, litellm.ContextWindowExceededError)
