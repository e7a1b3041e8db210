"""Tools, structured outputs and reasoning through the `openai` Python package, unchanged: with the real demo
model where it is here, under templates of models that call and that think."""
import json

import pytest

from completion_worker import QWEN, start, write_thinker
from openai_client import client_of, openai, serve

ASK = [{'role': 'system', 'content': 'You are a helpful assistant.'},
       {'role': 'user', 'content': 'What is the weather in Paris?'}]
WEATHER = {'type': 'function', 'function': {
    'name': 'get_weather', 'description': 'The weather in a city.', 'strict': True,
    'parameters': {'type': 'object', 'additionalProperties': False, 'required': ['city', 'unit'],
                   'properties': {'city': {'type': 'string', 'maxLength': 20},
                                  'unit': {'type': 'string', 'enum': ['C', 'F']}}}}}
TIME = {'type': 'function', 'function': {
    'name': 'get_time', 'description': 'The time in a city.',
    'parameters': {'type': 'object', 'properties': {'city': {'type': 'string', 'maxLength': 20}},
                   'required': ['city']}}}
PERSON = {'type': 'object', 'additionalProperties': False, 'required': ['name', 'age', 'tags'],
          'properties': {'name': {'type': 'string', 'maxLength': 20},
                         'age': {'type': 'integer', 'minimum': 0, 'maximum': 150},
                         'tags': {'type': 'array', 'maxItems': 3,
                                  'items': {'type': 'string', 'enum': ['a', 'b', 'c']}}}}


def serve_demo(model, template):
    return serve(model, '--context', '2048', '--cache-min-tokens', '16', '--chat-template', str(template))


@pytest.fixture(scope='module')
def qwen(demo_model):
    yield from serve_demo(demo_model, QWEN)


@pytest.fixture(scope='module')
def thinker(demo_model, tmp_path_factory):
    yield from serve_demo(demo_model, write_thinker(tmp_path_factory.mktemp('thinker')))


def ask(client, **changes):
    return client.chat.completions.create(**{'model': None, 'messages': ASK, 'temperature': 0,
                                             'max_tokens': 200, **changes})


def check_weather(call) -> None:
    assert call.type == 'function' and call.id
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {'city', 'unit'} and arguments['unit'] in 'CF' and len(arguments['city']) <= 20


@pytest.mark.parametrize('seed', range(3))
def test_a_named_function_is_called(qwen, seed):
    answer = ask(qwen, tools=[TIME, WEATHER], temperature=1.5, seed=seed, parallel_tool_calls=False,
                 tool_choice={'type': 'function', 'function': {'name': 'get_weather'}})
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == 'tool_calls' and message.content is None
    assert [c.function.name for c in message.tool_calls] == ['get_weather']
    check_weather(message.tool_calls[0])


def test_a_required_call_streamed_and_not(qwen):
    asked = dict(tools=[TIME, WEATHER], tool_choice='required', parallel_tool_calls=False, temperature=1,
                 seed=5)
    whole = ask(qwen, **asked).choices[0].message.tool_calls
    calls, finish, usage = {}, None, None
    for chunk in ask(qwen, stream=True, stream_options={'include_usage': True}, **asked):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish = choice.finish_reason or finish
            assert not choice.delta.content
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index,
                                        {'id': part.id, 'name': part.function.name, 'arguments': ''})
                call['arguments'] += part.function.arguments
    assert finish == 'tool_calls' and usage.completion_tokens > 5
    assert [(c['name'], c['arguments']) for c in calls.values()] == [
        (c.function.name, c.function.arguments) for c in whole]
    assert all(c['id'] and isinstance(json.loads(c['arguments']), dict) for c in calls.values())


def test_the_package_s_own_accumulation_of_calls(qwen):
    with qwen.chat.completions.stream(model=None, messages=ASK, tools=[WEATHER], tool_choice='required',
                                      temperature=0, max_tokens=200, parallel_tool_calls=False) as stream:
        kinds = {event.type for event in stream}
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert 'tool_calls.function.arguments.delta' in kinds
    assert call.function.parsed_arguments['unit'] in 'CF'


def test_a_call_and_its_result_go_back(qwen):
    first = ask(qwen, tools=[WEATHER], tool_choice='required', parallel_tool_calls=False).choices[0].message
    history = [*ASK, first, {'role': 'tool', 'tool_call_id': first.tool_calls[0].id, 'content': '21 degrees'}]
    answer = ask(qwen, messages=history, tools=[WEATHER], tool_choice='auto', max_tokens=8)
    assert answer.usage.prompt_tokens > 200
    assert answer.usage.prompt_tokens_details.cached_tokens > 100  # the tools and the first turn


def test_no_tools_no_calls(qwen):
    with_tools = ask(qwen, tools=[WEATHER], max_tokens=4).usage.prompt_tokens
    none = ask(qwen, tools=[WEATHER], tool_choice='none', max_tokens=4)
    assert none.usage.prompt_tokens == ask(qwen, max_tokens=4).usage.prompt_tokens < with_tools
    assert none.choices[0].message.tool_calls is None


@pytest.mark.parametrize('strict', [True, False])
@pytest.mark.parametrize('seed', range(3))
def test_json_schema(qwen, strict, seed):
    answer = ask(qwen, temperature=1.3, seed=seed, messages=[{'role': 'user', 'content': 'Invent a person.'}],
                 response_format={'type': 'json_schema',
                                  'json_schema': {'name': 'person', 'strict': strict, 'schema': PERSON}})
    person = json.loads(answer.choices[0].message.content)
    assert answer.choices[0].finish_reason == 'stop'
    assert list(person) == ['name', 'age', 'tags']
    assert len(person['name']) <= 20 and type(person['age']) is int and 0 <= person['age'] <= 150
    assert len(person['tags']) <= 3 and set(person['tags']) <= set('abc')


def test_json_object(qwen):
    """A small model may go on for ever; what has ended is an object, the rest the beginning of one."""
    ended = 0
    for seed in range(6):
        chunks = list(ask(qwen, stream=True, response_format={'type': 'json_object'}, max_tokens=150,
                          seed=seed, temperature=1,
                          messages=[{'role': 'user', 'content': 'JSON object: a colour, shortly.'}]))
        text = ''.join(c.choices[0].delta.content or '' for c in chunks)
        assert text.startswith('{')
        if chunks[-1].choices[0].finish_reason == 'stop':
            assert isinstance(json.loads(text), dict)
            ended += 1
    assert ended


def test_an_answer_in_a_schema_beside_tools(qwen):
    """Either a call or an answer, and both are valid."""
    for seed in range(4):
        answer = ask(qwen, tools=[WEATHER], temperature=1.5, seed=seed, parallel_tool_calls=False,
                     response_format={'type': 'json_schema', 'json_schema': {'name': 'p', 'schema': PERSON}})
        message = answer.choices[0].message
        if message.tool_calls:
            check_weather(message.tool_calls[0])
        else:
            assert set(json.loads(message.content)) == set(PERSON['properties'])


def test_choices_have_matchers_of_their_own(qwen):
    answer = ask(qwen, n=2, temperature=1.2, seed=1, response_format={
        'type': 'json_schema', 'json_schema': {'name': 'person', 'schema': PERSON}})
    assert all(set(json.loads(c.message.content)) == set(PERSON['properties']) for c in answer.choices)


BOMB = {'type': 'object', 'properties': {
    f'p{i}': {'type': 'string', 'pattern': f'^(a|b){{{i}}}[ab]*a[ab]{{18}}$'} for i in range(3)}}
BAD_SCHEMAS = [
    ({'type': 'object', 'properties': {'a': {'not': {}}}}, '#/properties/a/not'),
    ({'$ref': 'http://elsewhere/schema'}, '#'),
    ({'type': 'sandwich'}, '#/type'),
    (BOMB, '#/properties/p'),
]


@pytest.mark.parametrize('schema, path', BAD_SCHEMAS, ids=range(len(BAD_SCHEMAS)))
def test_bad_schemas_are_named_with_their_path(qwen, schema, path):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(qwen, response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': schema}})
    assert refused.value.param == 'response_format' and path in refused.value.body['message']
    tool = {'type': 'function', 'function': {'name': 'f', 'parameters': schema}}
    with pytest.raises(openai.BadRequestError) as refused:
        ask(qwen, tools=[tool], tool_choice='required')
    assert refused.value.param == 'tools' and path in refused.value.body['message']


def test_strict_refuses_what_openai_refuses(qwen):
    with pytest.raises(openai.BadRequestError) as refused:
        open_object = {'type': 'object', 'properties': {'a': {'type': 'string'}},
                       'additionalProperties': True}
        ask(qwen, response_format={'type': 'json_schema', 'json_schema': {
            'name': 'x', 'strict': True, 'schema': open_object}})
    assert refused.value.param == 'response_format'


def test_reasoning_is_apart_from_the_answer(thinker):
    cut = ask(thinker, max_tokens=20)
    assert cut.choices[0].message.reasoning_content and cut.choices[0].message.content == ''
    assert cut.usage.completion_tokens_details.reasoning_tokens == 20
    streamed = ''.join(getattr(c.choices[0].delta, 'reasoning_content', None) or ''
                       for c in ask(thinker, max_tokens=20, stream=True))
    assert streamed == cut.choices[0].message.reasoning_content
    unstopped = ask(thinker, max_tokens=20, stop=[streamed[:3]])
    assert unstopped.choices[0].finish_reason == 'length'


def test_an_enforced_call_comes_after_the_reasoning(thinker):
    """A small model ends its reasoning where it has seen it done."""
    turn = [{'role': 'user', 'content': 'Think.'},
            {'role': 'assistant', 'content': '<think>\nfine\n</think>\n'}]
    answer = ask(thinker, messages=[*turn * 3, turn[0]], tools=[WEATHER], tool_choice='required',
                 parallel_tool_calls=False)
    message = answer.choices[0].message
    assert answer.choices[0].finish_reason == 'tool_calls' and message.content is None
    assert message.reasoning_content == 'fine'
    check_weather(message.tool_calls[0])
    details = answer.usage.completion_tokens_details
    assert 0 < details.reasoning_tokens < answer.usage.completion_tokens


def test_a_template_without_tools_has_calls_and_formats_all_the_same(tiny_model, tmp_path):
    with start(tiny_model, tmp_path) as worker, client_of(worker) as client:
        called = ask(client, tools=[WEATHER], tool_choice='required', parallel_tool_calls=False)
        if called.choices[0].finish_reason == 'tool_calls':
            check_weather(called.choices[0].message.tool_calls[0])
        answer = ask(client, response_format={'type': 'json_object'}, max_tokens=900,
                     messages=[{'role': 'user', 'content': 'x'}])
        if answer.choices[0].finish_reason == 'stop':
            assert isinstance(json.loads(answer.choices[0].message.content), dict)
        else:
            assert answer.choices[0].message.content.startswith('{')
