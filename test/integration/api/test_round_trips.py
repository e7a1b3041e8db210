"""What a worker answered goes back to it as it came, with the results of its calls and the user's next words,
in each API. Every template, API and shape of an answer without a socket: test/unit/net/turns."""
from typing import Iterator

import pytest

from worker_process import PROJECT, Worker

# A template that refuses several calls in one turn, and one that wants user and assistant in turns.
TEMPLATES = ['meta-llama-Llama-3.2-3B-Instruct', 'mistralai-Mistral-Nemo-Instruct-2407']
PARAMETERS = {'type': 'object', 'properties': {'n': {'const': 7}}, 'required': ['n'],
              'additionalProperties': False}
FUNCTION = {'name': 'now', 'description': 'The time', 'parameters': PARAMETERS}
USER = {'role': 'user', 'content': 'What time is it?'}
NEXT = {'role': 'user', 'content': 'And now?'}


@pytest.fixture(scope='module', params=TEMPLATES)
def worker(request, models) -> Iterator[Worker]:
    template = PROJECT / 'test' / 'data' / 'chat' / 'templates' / f'{request.param}.jinja'
    with Worker('--model', models('turns', '--context', '8192'), '--chat-template', str(template)) as running:
        running.wait_event('ready')
        yield running
        assert running.alive()


def post(worker: Worker, path: str, body: dict) -> dict:
    answer = worker.call('POST', path, {'seed': 1, **body})
    assert answer.status == 200, answer.body
    return answer.json()


def results(calls, field: str, **more) -> list:
    return [{'role': 'tool', field: call.get('id', 'now'), 'content': 'noon', **more} for call in calls]


def test_a_chat_goes_on(worker):
    tools = [{'type': 'function', 'function': FUNCTION}]
    asked = {'tools': tools, 'tool_choice': 'required', 'max_tokens': 600}
    message = post(worker, '/v1/chat/completions', {**asked, 'messages': [USER]})['choices'][0]['message']
    calls = message['tool_calls']
    assert {call['function']['name'] for call in calls} == {'now'}
    # As if the model had made two.
    second = {**calls[0], 'id': 'call_second'}
    message['tool_calls'] = [calls[0], second]
    messages = [USER, message, *results(message['tool_calls'], 'tool_call_id'), NEXT]
    post(worker, '/v1/chat/completions', {**asked, 'messages': messages})
    prompt = post(worker, '/apply-template', {'messages': messages, 'tools': tools})['prompt']
    assert prompt.count(calls[0]['function']['arguments']) == 2 and prompt.count('noon') == 2
    assert 'And now?' in prompt


def test_messages_go_on(worker):
    tool = {'name': 'now', 'description': 'The time', 'input_schema': PARAMETERS}
    asked = {'tools': [tool], 'tool_choice': {'type': 'any'}, 'max_tokens': 600}
    answer = post(worker, '/v1/messages', {**asked, 'messages': [USER]})
    calls = [block for block in answer['content'] if block['type'] == 'tool_use']
    assert calls
    given = [{'type': 'tool_result', 'tool_use_id': call['id'], 'content': 'noon'} for call in calls]
    turn = {'role': 'assistant', 'content': answer['content']}
    next_turn = {'role': 'user', 'content': [*given, {'type': 'text', 'text': 'And now?'}]}
    post(worker, '/v1/messages', {**asked, 'messages': [USER, turn, next_turn]})


def test_responses_go_on(worker):
    asked = {'tools': [{'type': 'function', **FUNCTION}], 'tool_choice': 'required', 'max_output_tokens': 600}
    answer = post(worker, '/v1/responses', {**asked, 'input': [USER]})
    calls = [item for item in answer['output'] if item['type'] == 'function_call']
    assert calls
    given = [{'type': 'function_call_output', 'call_id': call['call_id'], 'output': 'noon'} for call in calls]
    post(worker, '/v1/responses', {**asked, 'input': [USER, *answer['output'], *given, NEXT]})


def test_ollamas_chat_goes_on(worker):
    model = worker.call('GET', '/v1/models').json()['data'][0]['id']
    asked = {'model': model, 'tools': [{'type': 'function', 'function': FUNCTION}], 'tool_choice': 'required',
             'stream': False, 'options': {'num_predict': 600}}
    message = post(worker, '/api/chat', {**asked, 'messages': [USER]})['message']
    assert message['tool_calls']
    given = results(message['tool_calls'], 'tool_name')
    post(worker, '/api/chat', {**asked, 'messages': [USER, message, *given, NEXT]})
