"""The `litellm` package, unchanged, with its provider anthropic/: it speaks /v1/messages to the worker and
OpenAI's form to its caller. tools/python_packages.sh fetches it."""
import json
import os

import pytest

from completion_worker import QWEN, start
from worker_process import PATIENCE, Worker

# It would ask GitHub for prices otherwise.
os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'
litellm = pytest.importorskip('litellm', reason='the Python package litellm is not installed')

ASK = [{'role': 'system', 'content': 'You are brief.'}, {'role': 'user', 'content': 'Once upon a time'}]
LOOK_UP = {'type': 'function', 'function': {
    'name': 'look_up', 'description': 'Looks a city up.',
    'parameters': {'type': 'object', 'properties': {'city': {'type': 'string', 'maxLength': 12}},
                   'required': ['city'], 'additionalProperties': False}}}


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory):
    with start(tiny_model, tmp_path_factory.mktemp('litellm')) as running:
        yield running


@pytest.fixture(scope='module')
def qwen(demo_model):
    with Worker('--model', demo_model, '--context', '1024', '--chat-template', str(QWEN)) as running:
        running.wait_event('ready')
        yield running


def complete(worker: Worker, **changes):
    name = worker.call('GET', '/v1/models').json()['data'][0]['id']
    return litellm.completion(**{'model': f'anthropic/{name}', 'api_base': f'http://127.0.0.1:{worker.port}',
                                 'api_key': 'none', 'messages': ASK, 'max_tokens': 12, 'temperature': 0,
                                 'num_retries': 0, 'max_retries': 0, 'timeout': PATIENCE * 4, **changes})


def test_a_chat_and_its_stream(worker):
    whole = complete(worker)
    assert whole.choices[0].finish_reason in ('length', 'stop')
    pieces = [chunk.choices[0].delta.content or '' for chunk in complete(worker, stream=True)]
    assert ''.join(pieces) == whole.choices[0].message.content


def test_a_call_and_its_result(qwen):
    ask = {'tools': [LOOK_UP], 'max_tokens': 100, 'parallel_tool_calls': False}
    answer = complete(qwen, tool_choice='required', **ask).choices[0]
    assert answer.finish_reason == 'tool_calls'
    call = answer.message.tool_calls[0]
    assert set(json.loads(call.function.arguments)) == {'city'}
    result = {'role': 'tool', 'tool_call_id': call.id, 'content': 'Paris is a city.'}
    told = complete(qwen, messages=[*ASK, answer.message, result], **ask)
    assert told.choices[0].message.role == 'assistant'


@pytest.mark.parametrize('stream', [False, True])
def test_a_prompt_that_is_too_long_tells_agents_to_compact(worker, stream):
    with pytest.raises(litellm.ContextWindowExceededError):
        complete(worker, messages=[{'role': 'user', 'content': 'word ' * 1100}], stream=stream)


def test_what_is_wrong_is_a_bad_request(worker):
    with pytest.raises(litellm.BadRequestError) as refused:
        complete(worker, no_such_field=1)
    assert 'no_such_field' in str(refused.value)
