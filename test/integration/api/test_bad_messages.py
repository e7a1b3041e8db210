"""Bodies of /v1/messages and its count that are wrong, contradict themselves or are made to cost much: each
is refused in time, with the field named, in that API's words; a stream beside all of them keeps its bytes."""
import json
import threading
import time

import pytest

from completion_worker import chat, contents, start
from worker_process import STRETCH

PATHS = ('/v1/messages', '/v1/messages/count_tokens')
LIMIT = 3.0  # seconds for one refusal
CALL = {'type': 'tool_use', 'id': 't1', 'name': 'f', 'input': {}}
RESULT = {'type': 'tool_result', 'tool_use_id': 't1', 'content': 'again'}
GOOD = {'max_tokens': 4, 'messages': [{'role': 'user', 'content': 'Once'}]}


def nested(depth: int) -> dict:
    value: dict = {}
    for _ in range(depth):
        value = {'a': value}
    return value


def user(*blocks) -> dict:
    return {'messages': [{'role': 'user', 'content': list(blocks)}]}


BAD = {
    'no messages': ({'messages': []}, 'messages'),
    'null as messages': ({'messages': None}, 'messages'),
    'messages of 5,000': ({'messages': [{'role': 'user', 'content': 'a'}] * 5_000}, 'messages'),
    'a prompt of a megabyte': ({'messages': [{'role': 'user', 'content': 'x ' * 450_000}]}, None),
    'a system of a megabyte': ({'system': 'x ' * 450_000}, None),
    'blocks of no object': (user('hi', 7), 'messages[0].content[0]'),
    'a block without a type': (user({'text': 'hi'}), 'messages[0].content[0].type'),
    'a type that is a number': (user({'type': 7}), 'messages[0].content[0].type'),
    'an image': (user({'type': 'image', 'source': {'type': 'base64', 'data': 'x'}}),
                 'messages[0].content[0].type'),
    'a document': (user({'type': 'document', 'source': {'type': 'url', 'url': 'http://x'}}),
                   'messages[0].content[0].type'),
    'a document as result': (user({**RESULT, 'content': [{'type': 'document', 'source': {}}]}),
                             'messages[0].content[0].content[0].type'),
    'a result of no call': (user({**RESULT, 'tool_use_id': None}), 'messages[0].content[0].tool_use_id'),
    'a user that calls': (user(CALL), 'messages[0].content[0].type'),
    'a call with text as input': ({'messages': [{'role': 'assistant',
                                                 'content': [{**CALL, 'input': '{}'}]}]},
                                  'messages[0].content[0].input'),
    'a role of another API': ({'messages': [{'role': 'tool', 'content': 'x'}]}, 'messages[0].role'),
    'a loop of 3,000 calls': ({'messages': [{'role': 'assistant', 'content': [CALL]},
                                            {'role': 'user', 'content': [RESULT]}] * 3_000}, 'messages'),
    'a message of 20,000 calls': ({'messages': [{'role': 'assistant', 'content': [CALL] * 10_000}]}, None),
    'an input of 100 levels': ({'messages': [{'role': 'assistant', 'content': [
        {**CALL, 'input': nested(100)}]}]}, None),
    'max_tokens -1': ({'max_tokens': -1}, 'max_tokens'),
    'max_tokens 10^30': ({'max_tokens': 10**30}, 'max_tokens'),
    'temperature 1.1': ({'temperature': 1.1}, 'temperature'),
    'top_k -5': ({'top_k': -5}, 'top_k'),
    'stop_sequences of 100,000': ({'stop_sequences': [f's{i}' for i in range(100_000)]}, 'stop_sequences'),
    'stop_sequences as text': ({'stop_sequences': 'x'}, 'stop_sequences'),
    'a stop sequence of a megabyte': ({'stop_sequences': ['x' * 500_000]}, 'stop_sequences'),
    'tools of 5,000': ({'tools': [{'name': f'f{i}', 'input_schema': {}} for i in range(5_000)]}, 'tools'),
    'a tool twice': ({'tools': [{'name': 'f', 'input_schema': {}}] * 2}, 'tools[1].name'),
    'a tool of the servers': ({'tools': [{'type': 'bash_20250124', 'name': 'bash'}]}, 'tools[0].type'),
    'a choice without tools': ({'tool_choice': {'type': 'any'}}, 'tool_choice'),
    'a choice as text': ({'tool_choice': 'any'}, 'tool_choice'),
    'thinking as text': ({'thinking': 'enabled'}, 'thinking'),
    'a budget of 10^30': ({'thinking': {'type': 'enabled', 'budget_tokens': 10**30}},
                          'thinking.budget_tokens'),
    'a beginning that ends with a space': ({'messages': [
        *GOOD['messages'], {'role': 'assistant', 'content': [{'type': 'text', 'text': 'The '}]}]}, None),
    'a call without its result': ({'messages': [*GOOD['messages'], {'role': 'assistant', 'content': [CALL]}]},
                                  None),
    'a field of another API': ({'stop': ['x']}, 'stop'),
    'a field of nobody': ({'x': 1}, 'x'),
}

RAW = {
    'a lone surrogate': b'{"max_tokens":4,"messages":[{"role":"user","content":"\\ud800"}]}',
    'a surrogate in an input': b'{"max_tokens":4,"messages":[{"role":"assistant","content":['
                               b'{"type":"tool_use","id":"t","name":"f","input":{"a":"\\udfff"}}]}]}',
    'bytes that are no text': b'{"max_tokens":4,"messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
    'a key twice': b'{"max_tokens":4,"messages":[{"role":"user","content":"x","content":"y"}]}',
    '100,000 levels': b'{"messages":' + b'[' * 100_000 + b']' * 100_000 + b'}',
    'no object': b'[]',
    'nothing': b'',
    'a number of 500,000 digits': b'{"messages":[{"role":"user","content":"x"}],"max_tokens":'
                                  + b'9' * 500_000 + b'}',
}


@pytest.fixture(scope='module')
def worker(slow_model, tmp_path_factory):
    with start(slow_model, tmp_path_factory.mktemp('bad_messages'), '--slots', '2', '--max-queue', '8',
               '--max-tokens-out', '4000', '--threads', '1') as running:
        yield running


def check(answer, param) -> None:
    assert answer.status == 400, (answer.status, answer.body)
    body = answer.json()
    assert body['type'] == 'error' and body['error']['type'] == 'invalid_request_error', body
    assert body['request_id'] == answer.headers['request-id']
    if param is not None:
        assert f"'{param}'" in body['error']['message'], body


@pytest.mark.parametrize('changes, param', BAD.values(), ids=BAD)
def test_a_bad_field_is_named_in_time(worker, changes, param):
    for path in PATHS:
        begin = time.monotonic()
        answer = worker.call('POST', path, {**GOOD, **changes})
        assert time.monotonic() - begin < LIMIT * STRETCH
        if param is None and answer.status == 200:
            continue  # costly, but within the limits
        check(answer, param)


@pytest.mark.parametrize('body', RAW.values(), ids=RAW)
def test_a_body_that_is_no_request_is_refused_in_time(worker, body):
    for path in PATHS:
        begin = time.monotonic()
        check(worker.call('POST', path, body), None)
        assert time.monotonic() - begin < LIMIT * STRETCH


def test_a_final_message_of_the_assistant_is_gone_on_with(worker):
    """As a chat does that is told to: with the same prompt and the same bytes."""
    greedy = {'temperature': 0, 'max_tokens': 12, 'ignore_eos': True,
              'messages': [{'role': 'user', 'content': 'Once'}, {'role': 'assistant', 'content': 'The an'}]}
    begun = worker.call('POST', '/v1/messages', greedy).json()
    told = worker.call('POST', '/v1/chat/completions', {**greedy, 'continue_final_message': True}).json()
    assert begun['content'][0]['text'] == told['choices'][0]['message']['content']
    assert begun['usage']['input_tokens'] == told['usage']['prompt_tokens']
    counted = worker.call('POST', '/v1/messages/count_tokens', {'messages': greedy['messages']}).json()
    assert counted['input_tokens'] == begun['usage']['input_tokens']


@pytest.mark.parametrize('field', ['output_config.format', 'output_format'])
def test_a_schema_that_cannot_be_served_is_told_with_the_field_of_this_api(worker, field):
    value = {'type': 'json_schema', 'schema': {'$ref': 'http://127.0.0.1:1/x'}}
    for part in reversed(field.split('.')):
        value = {part: value}
    answer = worker.call('POST', '/v1/messages', {**GOOD, **value})
    check(answer, None)
    assert answer.json()['error']['message'].startswith(f'{field}: #'), answer.body


def test_refusals_before_the_body(worker):
    wrong = worker.call('GET', '/v1/messages')
    assert wrong.status == 405 and wrong.headers['allow'] == 'POST, OPTIONS'
    assert wrong.json()['error']['type'] == 'invalid_request_error'
    unknown = worker.call('POST', '/v1/messages/batches', {})
    assert unknown.status == 404 and unknown.json()['error']['type'] == 'not_found_error'
    with worker.connect() as connection:
        connection.send(b'POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                        b'Content-Length: 99999999\r\n\r\n')
        large = connection.read_response()
    assert large.status == 413 and large.json()['error']['type'] == 'request_too_large'


def test_a_stream_beside_all_of_them_keeps_its_bytes(worker):
    ask = {'stream': True, 'max_tokens': 300, 'temperature': 0.9, 'seed': 3}
    expected = contents(chat(worker, **ask).body)
    told = []
    running = threading.Thread(target=lambda: told.append(contents(chat(worker, **ask).body)))
    running.start()
    while running.is_alive():
        for changes, _ in BAD.values():
            worker.call('POST', '/v1/messages', json.dumps({**GOOD, **changes}).encode())
    running.join()
    assert told == [expected]
