"""Strict functions under tool_choice auto: the text stays what it would be without, and the arguments of a
call that the model opens fit."""
import copy
import json

import pytest

from completion_worker import QWEN, TEMPLATE
from worker_process import Worker

TOOL = {'type': 'function', 'function': {
    'name': 'get_weather', 'strict': True,
    'parameters': {'type': 'object', 'additionalProperties': False, 'required': ['city', 'unit'],
                   'properties': {'city': {'type': 'string', 'maxLength': 20},
                                  'unit': {'type': 'string', 'enum': ['C', 'F']}}}}}


def relaxed(tool: dict) -> dict:
    out = copy.deepcopy(tool)
    del out['function']['strict']
    return out


def ask(worker: Worker, **body):
    return worker.call('POST', '/v1/chat/completions', {
        'messages': [{'role': 'user', 'content': 'What is the weather in Paris?'}], 'temperature': 0,
        'max_tokens': 40, 'seed': 3, **body})


FORMATS = {'hermes': '<tool_call><think></think>', 'llama3': '<|python_tag|>', 'mistral': '[TOOL_CALLS]',
           'harmony': '<|channel|><|message|>'}


@pytest.fixture(scope='module', params=FORMATS)
def worker(request, models, tmp_path_factory):
    """The prompt is the same with and without tools, so that only what is enforced can make a difference."""
    template = tmp_path_factory.mktemp('strict') / 'template.jinja'
    template.write_text(TEMPLATE + "{% if tools and false %}" + FORMATS[request.param] + '{% endif %}')
    with Worker('--model', models('strict', '--context', '2048'), '--chat-template', template) as running:
        running.wait_event('ready')
        yield running


@pytest.mark.parametrize('temperature', [0, 0.9])
def test_text_without_a_call_is_the_same_with_and_without_strict(worker, temperature):
    for seed in range(4):
        more = {'temperature': temperature, 'seed': seed, 'logprobs': True, 'top_logprobs': 2}
        free = ask(worker, tools=[relaxed(TOOL)], **more)
        strict = ask(worker, tools=[TOOL], **more)
        assert free.status == strict.status == 200, (free.body, strict.body)
        assert strict.json()['choices'] == free.json()['choices']


def test_a_schema_that_cannot_be_held_is_refused_where_it_is_strict_alone(worker):
    wrong = copy.deepcopy(TOOL)
    wrong['function']['parameters'] = {'type': 'object', 'properties': {'a': {'not': {}}}}
    refused = ask(worker, tools=[wrong])
    assert refused.status == 400 and refused.error['param'] == 'tools', refused.body
    assert '#/properties/a' in refused.error['message'] or '"get_weather": #' in refused.error['message']
    assert ask(worker, tools=[relaxed(wrong)]).status == 200


def call_with(unit: str, city: str) -> dict:
    return {'role': 'assistant', 'content': None, 'tool_calls': [{
        'id': 'call12345', 'type': 'function',
        'function': {'name': 'get_weather', 'arguments': json.dumps({'city': city, 'unit': unit})}}]}


def test_a_model_that_calls_with_wrong_arguments_is_kept_to_the_schema(demo_model):
    """A small model repeats what it has seen itself do: a unit that the schema does not have."""
    turns = []
    for city in ('Rome', 'Oslo', 'Lima', 'Bern', 'Cork'):
        turns += [{'role': 'user', 'content': f'Weather in {city}?'}, call_with('kelvin', city),
                  {'role': 'tool', 'tool_call_id': 'call12345', 'content': 'ok'}]
    turns.append({'role': 'user', 'content': 'Weather in Kiev?'})
    with Worker('--model', demo_model, '--context', '4096', '--chat-template',
                QWEN) as worker:
        worker.wait_event('ready')
        for tool, units in ((relaxed(TOOL), {'kelvin'}), (TOOL, {'C', 'F'})):
            answer = ask(worker, messages=turns, tools=[tool], parallel_tool_calls=False)
            assert answer.status == 200, answer.body
            (choice,) = answer.json()['choices']
            assert choice['finish_reason'] == 'tool_calls', choice
            arguments = json.loads(choice['message']['tool_calls'][0]['function']['arguments'])
            assert arguments['unit'] in units, arguments
