"""The Responses API through the `openai` Python package, unchanged: with a small random model, and with the
real demo model under a template of a model that calls."""
import json
from typing import List, Optional

import pytest

from completion_worker import QWEN, write_thinker
from openai_client import openai, serve

pydantic = pytest.importorskip('pydantic', reason='the Python package openai brings it')
from openai.types.responses import Response, ResponseStreamEvent  # noqa: E402

ASK = 'What is the weather in Paris?'
WEATHER = {'type': 'function', 'name': 'get_weather', 'description': 'The weather in a city.', 'strict': True,
           'parameters': {'type': 'object', 'additionalProperties': False, 'required': ['city', 'unit'],
                          'properties': {'city': {'type': 'string', 'maxLength': 20},
                                         'unit': {'type': 'string', 'enum': ['C', 'F']}}}}
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)


@pytest.fixture(scope='module')
def keeper(slow_model):
    yield from serve(slow_model, '--chat-template', QWEN, '--response-store-mib', '4')


@pytest.fixture(scope='module')
def random(slow_model):
    yield from serve(slow_model, '--chat-template', QWEN)


@pytest.fixture(scope='module')
def qwen(demo_model):
    yield from serve(demo_model, '--chat-template', QWEN, '--context', '2048')


@pytest.fixture(scope='module')
def thinker(slow_model, tmp_path_factory):
    yield from serve(slow_model, '--chat-template', write_thinker(tmp_path_factory.mktemp('thinker')))


def asked(**changes) -> dict:
    return {'model': 'slow', 'input': 'Once upon a time', 'max_output_tokens': 12, 'temperature': 0,
            'extra_body': {'ignore_eos': True}, **changes}


def strictly(raw: str) -> Response:
    """The answer as the package's own types have it, with nothing missing and nothing converted."""
    return Response.model_validate_json(raw, strict=True)


@pytest.mark.parametrize('changes', [
    {}, {'include': ['message.output_text.logprobs'], 'top_logprobs': 3},
    {'tools': [WEATHER], 'tool_choice': 'required', 'max_output_tokens': 200},
    {'instructions': 'Be brief.', 'metadata': {'a': 'b'}, 'reasoning': {'effort': 'low', 'summary': 'auto'},
     'text': {'verbosity': 'low'}, 'user': 'u', 'top_p': 0.5}], ids=['plain', 'logprobs', 'call', 'much'])
def test_answers_and_events_have_what_the_types_demand(random, changes):
    answer = strictly(random.responses.with_raw_response.create(**asked(**changes)).text)
    assert answer.object == 'response' and answer.store is False
    streamed = random.responses.with_streaming_response.create(stream=True, **asked(**changes))
    with streamed as response:
        lines: List[str] = [line for line in response.iter_lines() if line.startswith('data: ')]
    told = [EVENT.validate_json(line[len('data: '):], strict=True) for line in lines]
    assert [e.sequence_number for e in told] == list(range(len(told)))
    assert told[-1].response.status == answer.status
    assert told[-1].response.output_text == answer.output_text


def test_a_stream_equals_the_answer(random):
    whole = random.responses.create(**asked())
    assert whole.status == 'incomplete' and whole.incomplete_details.reason == 'max_output_tokens'
    assert whole.usage.output_tokens == 12
    text, final = '', None
    with random.responses.stream(**asked()) as stream:
        for event in stream:
            text += event.delta if event.type == 'response.output_text.delta' else ''
            final = event
    assert text == whole.output_text == final.response.output_text


def test_log_probabilities(random):
    answer = random.responses.create(**asked(include=['message.output_text.logprobs'], top_logprobs=5))
    tokens = answer.output[0].content[0].logprobs
    assert len(tokens) == 12 and all(len(t.top_logprobs) == 5 for t in tokens)
    assert all(t.logprob == max(o.logprob for o in t.top_logprobs) for t in tokens)


def test_reasoning_is_told_and_can_be_sent_back(thinker):
    first = thinker.responses.create(**asked(include=['reasoning.encrypted_content']))
    [item] = first.output
    assert item.type == 'reasoning' and item.content[0].text and item.summary == []
    assert first.usage.output_tokens_details.reasoning_tokens == 12
    for sent in (item.model_dump(exclude_none=True), {**item.model_dump(), 'content': None}):
        again = thinker.responses.create(**asked(input=[
            {'role': 'user', 'content': 'Once upon a time'}, sent, {'role': 'user', 'content': 'Go on'}]))
        assert again.status == 'incomplete'
    told = [e.type for e in thinker.responses.create(stream=True, **asked())]
    assert told[3:5] == ['response.content_part.added', 'response.reasoning_text.delta']


def test_a_function_and_its_result(qwen):
    history = [{'role': 'user', 'content': ASK}]
    first = qwen.responses.create(**asked(model=None, input=history, tools=[WEATHER], tool_choice='required',
                                          max_output_tokens=200, extra_body=None, parallel_tool_calls=False))
    [call] = first.output
    assert call.type == 'function_call' and call.name == 'get_weather' and call.call_id
    arguments = json.loads(call.arguments)
    assert set(arguments) == {'city', 'unit'}
    history += [call.model_dump(exclude_none=True),
                {'type': 'function_call_output', 'call_id': call.call_id, 'output': '{"degrees": 21}'}]
    second = qwen.responses.create(**asked(model=None, input=history, tools=[WEATHER], max_output_tokens=40))
    assert second.output_text


def test_calls_as_the_package_s_stream_puts_them_together(qwen):
    choice = {'type': 'function', 'name': 'get_weather'}
    request = asked(model=None, input=ASK, tools=[WEATHER], tool_choice=choice, max_output_tokens=200,
                    extra_body=None, parallel_tool_calls=False)
    with qwen.responses.stream(**request) as stream:
        snapshots = [e.snapshot for e in stream if e.type == 'response.function_call_arguments.delta']
        final = stream.get_final_response()
    assert json.loads(snapshots[-1]) == json.loads(final.output[0].arguments)
    assert final.output[0].parsed_arguments == json.loads(snapshots[-1])


def test_parse_gives_an_object(qwen):
    class Weather(pydantic.BaseModel):
        city: str
        degrees: Optional[int]

    answer = qwen.responses.parse(model=None, input=ASK, text_format=Weather, max_output_tokens=200,
                                  temperature=0)
    assert isinstance(answer.output_parsed, Weather)


def test_a_response_is_gone_on_from_fetched_listed_and_deleted(keeper):
    first = keeper.responses.create(**asked())
    assert first.store is True
    second = keeper.responses.create(**asked(input='Go on', previous_response_id=first.id))
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens
    assert keeper.responses.retrieve(second.id) == second
    assert strictly(keeper.responses.with_raw_response.retrieve(second.id).text) == second
    # The package fetches one page after the other.
    items = list(keeper.responses.input_items.list(second.id, order='asc', limit=1))
    assert [item.role for item in items] == ['user', 'assistant', 'user']
    assert [item.content[0].text for item in items] == ['Once upon a time', first.output_text, 'Go on']
    with keeper.responses.stream(**asked(input='And?', previous_response_id=second.id)) as stream:
        third = list(stream)[-1].response
    assert keeper.responses.retrieve(third.id).output_text == third.output_text
    keeper.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        keeper.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as lost:
        keeper.responses.create(**asked(previous_response_id=first.id))
    assert lost.value.code == 'previous_response_not_found'
    assert keeper.responses.create(**asked(previous_response_id=third.id)).usage.input_tokens > 0


def test_calls_and_their_results_through_the_store(keeper):
    request = asked(tools=[WEATHER], tool_choice='required', max_output_tokens=200, parallel_tool_calls=False)
    first = keeper.responses.create(**request)
    [call] = [item for item in first.output if item.type == 'function_call']
    result = {'type': 'function_call_output', 'call_id': call.call_id, 'output': '21'}
    second = keeper.responses.create(**asked(input=[result], tools=[WEATHER], previous_response_id=first.id))
    by_hand = keeper.responses.create(**asked(
        input=[{'role': 'user', 'content': 'Once upon a time'}, call.model_dump(exclude_none=True), result],
        tools=[WEATHER], store=False))
    assert second.output_text == by_hand.output_text
    assert second.usage.input_tokens == by_hand.usage.input_tokens
    listed = [item.type for item in keeper.responses.input_items.list(second.id, order='asc')]
    assert listed == ['message', 'function_call', 'function_call_output']


def test_errors_are_the_package_s_own(random):
    with pytest.raises(openai.BadRequestError) as refused:
        random.responses.create(**asked(previous_response_id='resp_1'))
    assert refused.value.param == 'previous_response_id'
    with pytest.raises(openai.BadRequestError) as refused:
        random.responses.create(**asked(input=[{'role': 'user', 'content': [
            {'type': 'input_image', 'detail': 'auto', 'image_url': 'data:x'}]}]))
    assert refused.value.param == 'input[0].content[0].type'
    with pytest.raises(openai.NotFoundError):
        random.responses.create(**asked(model='gpt-0'))
