"""The `litellm` package, unchanged, on the Responses API: its own call of it, and its bridge from chats."""
import os
from typing import Iterator

import pytest

from completion_worker import start
from worker_process import PATIENCE, Worker

# It would ask GitHub for prices otherwise.
os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'
litellm = pytest.importorskip('litellm', reason='the Python package litellm is not installed')


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory) -> Iterator[Worker]:
    with start(tiny_model, tmp_path_factory.mktemp('litellm')) as running:
        yield running


def at(worker: Worker) -> dict:
    return {'api_base': f'http://127.0.0.1:{worker.port}/v1', 'api_key': 'none', 'timeout': PATIENCE,
            'temperature': 0, 'num_retries': 0}


def respond(worker: Worker, **changes):
    return litellm.responses(model='openai/tiny', input='Once upon a time', max_output_tokens=20,
                             **at(worker), **changes)


def test_a_response(worker):
    answer = respond(worker)
    assert answer.status in ('completed', 'incomplete')
    assert answer.usage.output_tokens <= 20
    assert answer.output[0].content[0].type == 'output_text'


def test_a_streamed_response(worker):
    whole = respond(worker).output[0].content[0].text
    told = list(respond(worker, stream=True))
    assert told[-1].type in ('response.completed', 'response.incomplete')
    assert ''.join(e.delta for e in told if e.type == 'response.output_text.delta') == whole


@pytest.mark.parametrize('stream', [False, True], ids=['whole', 'streamed'])
def test_a_chat_over_the_bridge(worker, stream):
    """It sends the chat as input items and makes a chat of what comes back."""
    answer = litellm.completion(model='openai/responses/tiny', max_tokens=20, stream=stream, **at(worker),
                                messages=[{'role': 'system', 'content': 'Be brief.'},
                                          {'role': 'user', 'content': 'Once upon a time'}])
    if stream:
        text = ''.join(chunk.choices[0].delta.content or '' for chunk in answer if chunk.choices)
    else:
        text = answer.choices[0].message.content
        assert answer.usage.completion_tokens <= 20
    assert text == respond(worker, instructions='Be brief.').output[0].content[0].text
