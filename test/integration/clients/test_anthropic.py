"""The `anthropic` Python package, unchanged: messages, streams and their helpers, tools, counts and errors.
tools/python_packages.sh fetches the package."""
import json

import pytest

from completion_worker import QWEN, start
from worker_process import PATIENCE, Worker

anthropic = pytest.importorskip('anthropic', reason='the Python package anthropic is not installed')

ASK = [{'role': 'user', 'content': 'What is the capital of France?'}]
WEATHER = {'name': 'get_weather', 'description': 'The weather in a city.', 'strict': True,
           'input_schema': {'type': 'object', 'additionalProperties': False, 'required': ['city', 'unit'],
                            'properties': {'city': {'type': 'string', 'maxLength': 20},
                                           'unit': {'type': 'string', 'enum': ['C', 'F']}}}}


def client_of(worker: Worker, **more) -> 'anthropic.Anthropic':
    return anthropic.Anthropic(base_url=f'http://127.0.0.1:{worker.port}', max_retries=0,
                               timeout=PATIENCE * 4, **{'api_key': 'test-key', **more})


@pytest.fixture(scope='module')
def worker(slow_model, tmp_path_factory):
    with start(slow_model, tmp_path_factory.mktemp('anthropic'), '--slots', '4', '--context', '2048',
               '--max-queue', '16') as running:
        yield running


@pytest.fixture
def client(worker):
    with client_of(worker) as made:
        yield made


@pytest.fixture(scope='module')
def qwen(demo_model):
    with Worker('--model', demo_model, '--slots', '2', '--context', '2048', '--chat-template',
                str(QWEN), '--cache-min-tokens', '16') as running:
        running.wait_event('ready')
        with client_of(running) as made:
            yield made
        assert running.alive()


# The package has no sampling parameters of its own any more.
GREEDY = {'temperature': 0, 'seed': 3, 'ignore_eos': True}


def create(client, **changes):
    return client.messages.create(**{'model': 'slow', 'messages': ASK, 'max_tokens': 12, 'extra_body': GREEDY,
                                     **changes})


def test_a_message(client):
    answer = create(client)
    assert answer.type == 'message' and answer.role == 'assistant' and answer.id.startswith('msg_')
    assert [block.type for block in answer.content] == ['text']
    assert (answer.stop_reason, answer.stop_sequence) == ('max_tokens', None)
    assert answer.usage.output_tokens == 12
    assert answer._request_id


def test_an_answer_whose_beginning_is_given(client):
    begun = [*ASK, {'role': 'assistant', 'content': 'Once upon a'}]
    whole = create(client, messages=begun)
    assert not whole.content[0].text.startswith('Once upon a')
    assert whole.usage.output_tokens == 12
    with client.messages.stream(model='slow', messages=begun, max_tokens=12, extra_body=GREEDY) as stream:
        assert ''.join(stream.text_stream) == whole.content[0].text
    begun[-1]['content'] = 'Once upon a '
    with pytest.raises(anthropic.BadRequestError, match='cannot end with trailing whitespace'):
        create(client, messages=begun)


def test_a_stream_equals_the_message(client):
    whole = create(client).content[0].text
    with client.messages.stream(model='slow', messages=ASK, max_tokens=12, extra_body=GREEDY) as stream:
        assert ''.join(stream.text_stream) == whole
        final = stream.get_final_message()
    assert final.content[0].text == whole
    assert final.usage.output_tokens == 12 and final.stop_reason == 'max_tokens'
    events = [event.type for event in create(client, stream=True)]
    assert events[0] == 'message_start' and events[-2:] == ['message_delta', 'message_stop']
    assert 'content_block_start' in events and 'content_block_stop' in events


def test_a_stop_sequence_is_named(client):
    whole = create(client).content[0].text
    stop = whole[4:7]
    answer = create(client, stop_sequences=['never', stop])
    assert (answer.stop_reason, answer.stop_sequence) == ('stop_sequence', stop)
    assert answer.content[0].text == whole[:whole.index(stop)]


def test_counted_tokens_are_those_of_the_message(client):
    ask = {'model': 'slow', 'messages': ASK, 'system': 'Be brief.'}
    counted = client.messages.count_tokens(**ask).input_tokens
    usage = create(client, **ask).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_tokens_of_the_cache_are_counted_apart(client):
    ask = {'system': 'You know all capitals. ' * 60}
    first, second = create(client, **ask).usage, create(client, **ask).usage
    assert second.cache_read_input_tokens > 0
    assert (second.input_tokens + second.cache_read_input_tokens
            == first.input_tokens + first.cache_read_input_tokens)


def test_a_forced_call_and_its_result(qwen):
    ask = {'model': qwen.models.list().data[0].id, 'max_tokens': 200, 'tools': [WEATHER],
           'extra_body': {'temperature': 0},
           'tool_choice': {'type': 'any', 'disable_parallel_tool_use': True}}
    messages = [{'role': 'user', 'content': 'What is the weather in Paris?'}]
    answer = qwen.messages.create(messages=messages, **ask)
    assert answer.stop_reason == 'tool_use'
    call = answer.content[-1]
    assert call.type == 'tool_use' and call.name == 'get_weather' and call.id.startswith('toolu_')
    assert set(call.input) == {'city', 'unit'} and call.input['unit'] in 'CF'
    with qwen.messages.stream(messages=messages, **ask) as stream:
        pieces = [event.partial_json for event in stream if event.type == 'input_json']
        assert stream.get_final_message().content[-1].input == call.input
    assert json.loads(''.join(pieces)) == call.input
    messages += [{'role': 'assistant', 'content': answer.content},
                 {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': call.id,
                                               'content': [{'type': 'text', 'text': '21 degrees, sunny'}]}]}]
    told = qwen.messages.create(messages=messages,
                                **{**ask, 'tool_choice': {'type': 'none'}, 'max_tokens': 20})
    assert told.content[0].type == 'text' and told.content[0].text


def test_the_tool_runner_runs(qwen):
    """The package's own loop: it calls the function until the model answers without a call."""
    asked = []

    @anthropic.beta_tool
    def look_up(city: str) -> str:
        """Looks a city up.

        Args:
            city: Its name.
        """
        asked.append(city)
        return 'nothing known'

    runner = qwen.beta.messages.tool_runner(
        model=qwen.models.list().data[0].id, max_tokens=40, tools=[look_up], max_iterations=2, thread=False,
        extra_body={'temperature': 0},
        tool_choice={'type': 'tool', 'name': 'look_up'},
        messages=[{'role': 'user', 'content': 'Find Paris.'}])
    answers = list(runner)
    assert answers and all(answer.type == 'message' for answer in answers)


@pytest.mark.parametrize('changes, field', [
    ({'extra_body': {'temperature': 2}}, 'temperature'),
    ({'messages': []}, 'messages'),
    ({'messages': [{'role': 'user', 'content': [{'type': 'image', 'source': {
        'type': 'base64', 'media_type': 'image/png', 'data': 'aGk='}}]}]}, 'messages[0].content[0].type'),
    ({'tools': [{'type': 'bash_20250124', 'name': 'bash'}]}, 'tools[0].type'),
    ({'extra_body': {'thread': {'type': 'create'}}}, 'thread')])
def test_a_refusal_names_the_field(client, changes, field):
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(client, **changes)
    assert caught.value.body['error']['type'] == 'invalid_request_error'
    assert field in caught.value.body['error']['message']
    assert caught.value.body['request_id'] == caught.value.request_id


def test_another_model_and_another_path(client):
    with pytest.raises(anthropic.NotFoundError) as caught:
        create(client, model='claude-nothing')
    assert caught.value.body['error']['type'] == 'not_found_error'
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.list()


def test_a_prompt_that_is_too_long(client):
    ask = [{'role': 'user', 'content': 'word ' * 3000}]
    with pytest.raises(anthropic.BadRequestError) as caught:
        create(client, messages=ask)
    counted = client.messages.count_tokens(model='slow', messages=ask).input_tokens
    assert caught.value.body['error']['message'] == f'prompt is too long: {counted} tokens > 2048 maximum'


def test_a_full_queue(slow_model, tmp_path):
    with start(slow_model, tmp_path, '--slots', '1', '--max-queue', '1', '--max-tokens-out',
               '4000') as worker:
        with client_of(worker) as client:
            ask = {'max_tokens': 3000, 'stream': True}
            with create(client, **ask) as running:
                next(iter(running))
                with create(client, **ask):
                    with pytest.raises(anthropic.RateLimitError) as caught:
                        create(client)
                    assert caught.value.body['error']['type'] == 'rate_limit_error'
                    assert caught.value.response.headers['retry-after']


def test_keys_and_a_drain(slow_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('test-key\n')
    with start(slow_model, tmp_path, '--slots', '1', '--api-key-file', str(keys), '--max-tokens-out',
               '4000') as worker:
        with client_of(worker, api_key='wrong') as stranger:
            with pytest.raises(anthropic.AuthenticationError) as caught:
                create(stranger)
            assert caught.value.body['error']['type'] == 'authentication_error'
        with client_of(worker) as client:
            assert create(client).stop_reason == 'max_tokens'
        with client_of(worker, api_key=None, auth_token='test-key') as bearer:
            assert create(bearer).stop_reason == 'max_tokens'
