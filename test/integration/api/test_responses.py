"""POST /v1/responses over raw HTTP: requests as Codex CLI sends them, and bodies that are wrong, contradict
themselves or are made to cost much."""
import json
import time
from typing import Iterator, List

import pytest

from completion_worker import QWEN, contents, refuses, send
from http_client import Response
from worker_process import PROJECT, STRETCH, Worker

REQUESTS = PROJECT / 'test' / 'data' / 'clients'
LIMIT = 3.0  # seconds for one refusal
SHORT = {'temperature': 0, 'max_output_tokens': 8, 'ignore_eos': True}
TOOL = {'type': 'function', 'name': 'f', 'parameters': {'type': 'object'}}


@pytest.fixture(scope='module')
def worker(slow_model) -> Iterator[Worker]:
    with Worker('--model', slow_model, '--model-name', 'slow,*', '--slots', '2', '--max-queue', '8',
                '--chat-template', QWEN, '--max-tokens-out', '4000') as running:
        running.wait_event('ready')
        yield running
        assert running.alive()


def respond(worker: Worker, **changes) -> Response:
    return worker.call('POST', '/v1/responses', {'input': 'Once upon a time', **SHORT, **changes})


def events(body: bytes) -> List[dict]:
    """The events of a stream, each with its name and its number as they must be."""
    out = []
    for block in body.decode('utf-8').split('\n\n'):
        if not block or block.startswith(':'):
            continue
        name, data = block.split('\n')
        out.append(json.loads(data[len('data: '):]))
        assert name == f'event: {out[-1]["type"]}'
        assert out[-1]['sequence_number'] == len(out) - 1
    return out


def without_ids(value):
    """The same request gives the same bytes, but for ids and times."""
    if isinstance(value, list):
        return [without_ids(one) for one in value]
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items()
                if k not in ('id', 'call_id', 'created_at', 'completed_at')}
    return value


@pytest.mark.parametrize('name', ['codex_first', 'codex_second'])
def test_codex(worker, name):
    body = json.loads((REQUESTS / f'{name}.json').read_text())
    answer = worker.call('POST', '/v1/responses', {**body, **SHORT})
    assert answer.status == 200, answer.body
    assert answer.headers['content-type'].startswith('text/event-stream')
    told = events(answer.body)
    assert [e['type'] for e in told[:2]] == ['response.created', 'response.in_progress']
    assert told[-1]['type'] == 'response.incomplete'
    final = told[-1]['response']
    assert final['usage']['output_tokens'] == 8 and final['usage']['input_tokens'] > 100
    assert final['output'] == [e['item'] for e in told if e['type'] == 'response.output_item.done']
    # What a model of a file cannot call is not offered.
    assert [t['type'] for t in final['tools']] == ['function', 'function', 'function', 'custom', 'function',
                                                   'namespace']
    assert final['prompt_cache_key'] == body['prompt_cache_key'] and final['store'] is False


def test_a_stream_ends_with_the_answer_that_is_no_stream(worker):
    whole = respond(worker).json()
    told = events(respond(worker, stream=True).body)
    assert without_ids(told[-1]['response']) | {'usage': 0} == without_ids(whole) | {'usage': 0}
    deltas = ''.join(e['delta'] for e in told if e['type'] == 'response.output_text.delta')
    assert deltas == whole['output'][0]['content'][0]['text'] != ''


def test_the_same_prompt_as_a_chat(worker):
    """Instructions and input are what a chat calls messages."""
    chat = worker.call('POST', '/v1/chat/completions', {
        'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}],
        'temperature': 0, 'max_tokens': 8, 'ignore_eos': True}).json()
    answer = respond(worker, instructions='Be brief.', input='Hi').json()
    assert answer['output'][0]['content'][0]['text'] == chat['choices'][0]['message']['content']
    assert answer['usage']['input_tokens'] == chat['usage']['prompt_tokens']
    # Cut off, it can be sent back as it is.
    again = respond(worker, input=[{'role': 'user', 'content': 'Hi'}, *answer['output'],
                                   {'role': 'user', 'content': 'Go on'}])
    assert again.status == 200, again.body


def test_a_custom_tool_is_called_with_text(worker):
    tool = {'type': 'custom', 'name': 'note', 'description': 'Takes a note.'}
    answer = respond(worker, tools=[tool], tool_choice={'type': 'custom', 'name': 'note'}, stream=True,
                     max_output_tokens=60)
    told = events(answer.body)
    item = told[-1]['response']['output'][0]
    assert item['type'] == 'custom_tool_call' and item['name'] == 'note'
    done = [e['input'] for e in told if e['type'] == 'response.custom_tool_call_input.done']
    assert done == [item['input']]


def test_a_client_that_goes_away_frees_its_slot(worker):
    connection = worker.connect()
    connection.request('POST', '/v1/responses', json.dumps(
        {'input': 'x', 'stream': True, 'max_output_tokens': 4000, 'ignore_eos': True}).encode())
    connection.close()
    worker.wait_idle()


def test_cancel_ends_a_stream_with_what_went_wrong(worker):
    connection = worker.connect()
    connection.request('POST', '/v1/responses', json.dumps(
        {'input': 'x', 'stream': True, 'max_output_tokens': 4000, 'ignore_eos': True}).encode())
    assert connection.read_head().status == 200
    chunks = connection.chunks()
    begun = events(next(chunks))
    worker.call('POST', '/cancel', {'job_id': begun[0]['response']['id']})
    told = json.loads(b''.join(chunks).split(b'data: ')[-1])
    assert told['type'] == 'response.failed' and told['response']['status'] == 'failed'
    assert 'CANCELLED' in told['response']['error']['message'].upper()


def message(content) -> dict:
    return {'input': [{'role': 'user', 'content': content}]}


def schema(value) -> dict:
    return {'text': {'format': {'type': 'json_schema', 'name': 'x', 'schema': value}}}


BAD = {
    # too much of something
    'input of 5,000 items': ({'input': [{'role': 'user', 'content': 'a'}] * 5_000}, 'input'),
    'a text longer than the context': (message('x y ' * 200_000), 'input'),
    'parts of a megabyte': (message([{'type': 'input_text', 'text': 'x'}] * 20_000), None),
    'tools of 1,000': ({'tools': [{'type': 'function', 'name': f'f{i}'} for i in range(1_000)]}, 'tools'),
    'metadata of 17': ({'metadata': {str(i): 'x' for i in range(17)}}, 'metadata'),
    'include of 50,000': ({'include': ['reasoning.encrypted_content'] * 20_000}, None),
    'max_output_tokens 0': ({'max_output_tokens': 0}, 'max_output_tokens'),
    'max_output_tokens as text': ({'max_output_tokens': 'x'}, 'max_output_tokens'),
    'allowed tools that are none': ({'tools': [TOOL], 'tool_choice': {
        'type': 'allowed_tools', 'mode': 'auto', 'tools': [{'type': 'function', 'name': 'g'}] * 9}},
        'tool_choice.tools[0]'),
    # items
    'no input': ({'input': None}, 'input'),
    'an empty input': ({'input': []}, 'input'),
    'a number as input': ({'input': 7}, 'input'),
    'an item that is no object': ({'input': [[]]}, 'input[0]'),
    'an item of no kind': ({'input': [{'type': 'telepathy'}]}, 'input[0].type'),
    'a type that is no text': ({'input': [{'type': 7}]}, 'input[0].type'),
    'an image': (message([{'type': 'input_image', 'image_url': 'data:x'}]), 'input[0].content[0].type'),
    'a reference': ({'input': [{'type': 'item_reference', 'id': 'msg_1'}]}, 'input[0]'),
    'a call without a name': ({'input': [{'type': 'function_call', 'call_id': 'c', 'arguments': '{}'}]},
                              'input[0].name'),
    'reasoning that is no list': ({'input': [{'type': 'reasoning', 'summary': 7}]}, 'input[0].summary'),
    'reasoning sealed with a number': ({'input': [{'type': 'reasoning', 'encrypted_content': 7}]},
                                       'input[0].encrypted_content'),
    # what needs a memory, or what is not there
    'an earlier response': ({'previous_response_id': 'resp_1'}, 'previous_response_id'),
    'a conversation': ({'conversation': {'id': 'conv_1'}}, 'conversation'),
    'a stored prompt': ({'prompt': {'id': 'pmpt_1'}}, 'prompt'),
    'storing': ({'store': True}, 'store'),
    'the background': ({'background': True}, 'background'),
    'truncation': ({'truncation': 'auto'}, 'truncation'),
    'compaction': ({'context_management': [{'type': 'compaction'}]}, 'context_management'),
    "a chat's field": ({'messages': []}, 'messages'),
    'files': ({'tools': [{'type': 'file_search', 'vector_store_ids': []}]}, 'tools[0].type'),
    # contradictions
    'a call without tools': ({'tool_choice': 'required'}, 'tool_choice'),
    'a call of another tool': ({'tools': [TOOL], 'tool_choice': {'type': 'function', 'name': 'g'}},
                               'tool_choice'),
    'a call and a format of no kind': ({'tools': [TOOL], 'tool_choice': 'required',
                                        'text': {'format': {'type': 'xml'}}}, 'text.format.type'),
    'a tool twice': ({'tools': [{'type': 'web_search'}, TOOL, TOOL]}, 'tools[2].name'),
    'a strict function of no strict schema': ({'tools': [{**TOOL, 'strict': True, 'parameters': {
        'type': 'object', 'not': {}}}], 'tool_choice': 'required'}, 'tools'),
    # schemas
    'a schema with not': (schema({'not': {}}), 'text.format'),
    'a schema of itself': (schema({'$defs': {'a': {'$ref': '#/$defs/a'}}, '$ref': '#/$defs/a'}),
                           'text.format'),
    'a schema without a name': ({'text': {'format': {'type': 'json_schema', 'schema': {}}}},
                                'text.format.name'),
}

RAW = {
    'a lone surrogate': b'{"input":"\\ud800"}',
    'bytes that are no text': b'{"input":"\xed\xa0\x80"}',
    'a key twice': b'{"input":"x","input":"y"}',
    '100,000 levels': b'{"input":' + b'[' * 100_000 + b']' * 100_000 + b'}',
    'no object': b'[]',
}


@pytest.mark.parametrize('changes, param', BAD.values(), ids=BAD)
def test_a_bad_field_is_named_in_time(worker, changes, param):
    begin = time.monotonic()
    answer = respond(worker, **changes)
    assert time.monotonic() - begin < LIMIT * STRETCH
    refuses(answer, param)


@pytest.mark.parametrize('body', RAW.values(), ids=RAW)
def test_a_body_that_is_no_json_of_ours(worker, body):
    answer = worker.call('POST', '/v1/responses', body)
    assert answer.status == 400 and answer.error['type'] == 'invalid_request_error'


def test_more_than_the_context_holds(worker):
    answer = respond(worker, input='word ' * 5_000)
    assert answer.status == 400
    assert answer.error['code'].lower() == 'context_length_exceeded', answer.error


def test_mistakes_end_nobody_else_s_stream(worker):
    alone = contents(worker.call('POST', '/v1/chat/completions', CHAT).body)
    stream = send(worker, **CHAT)
    for changes, _ in BAD.values():
        respond(worker, **changes)
    assert contents(stream.read_response().body) == alone


CHAT = {'messages': [{'role': 'user', 'content': 'Once upon a time'}], 'temperature': 0, 'max_tokens': 600,
        'seed': 7, 'ignore_eos': True, 'stream': True}
