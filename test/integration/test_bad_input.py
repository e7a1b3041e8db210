"""Every refusal: status, code, param, a message that names the limit and the value; then the worker
still answers, and a stream beside it all has the bytes of an undisturbed one.
Sources: M0-W-1300, 1302, 1500, WORK-3090, 3120."""
import json

import pytest

from http_client import Connection, Stream, text_of
from worker_process import Worker, request_body

EXECUTE = b'POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
STATUS_TYPE = {400: 'invalid_request_error', 404: 'invalid_request_error', 405: 'invalid_request_error',
               409: 'invalid_request_error', 413: 'invalid_request_error'}


def expect_refusal(answer, status: int, code: str, param=..., words=()) -> None:
    assert answer.status == status, (answer.status, answer.body)
    error = answer.error
    assert set(answer.json()) == {'error'}
    assert set(error) >= {'code', 'message', 'type', 'param', 'retriable'}, error
    assert error['code'] == code and error['type'] == STATUS_TYPE.get(status, error['type'])
    assert isinstance(error['retriable'], bool) and error['message']
    if param is not ...:
        assert error['param'] == param, error
    for word in words:
        assert str(word) in error['message'], f'{word!r} is not in {error["message"]!r}'


FIELD_CASES = [
    # name, changed fields, param, what the message must name
    ('no job_id', {'job_id': None}, 'job_id', ()),
    ('empty job_id', {'job_id': ''}, 'job_id', ('empty',)),
    ('number as job_id', {'job_id': 7}, 'job_id', ('string',)),
    ('long job_id', {'job_id': 'x' * 257}, 'job_id', (256, 257)),
    ('control character in job_id', {'job_id': 'a\nb'}, 'job_id', ()),
    ('no prompt', {'prompt': None}, 'prompt', ()),
    ('empty prompt', {'prompt': ''}, 'prompt', ('empty',)),
    ('list as prompt', {'prompt': ['a']}, 'prompt', ()),
    ('object as prompt', {'prompt': {'a': 'b'}}, 'prompt', ()),
    ('long prompt', {'prompt': 'x' * 32769}, 'prompt', (32768, 32769)),
    ('long prompt in code points', {'prompt': '\u20ac' * 32769}, 'prompt', (32768, 32769)),
    ('max_tokens 0', {'max_tokens': 0}, 'max_tokens', (1, 2048, 0)),
    ('max_tokens 2049', {'max_tokens': 2049}, 'max_tokens', (2048, 2049)),
    ('max_tokens -1', {'max_tokens': -1}, 'max_tokens', (1, -1)),
    ('max_tokens 2^63', {'max_tokens': 2**63}, 'max_tokens', (2048, 2**63)),
    ('max_tokens 2^64', {'max_tokens': 2**64}, 'max_tokens', (2048,)),
    ('max_tokens 1.5', {'max_tokens': 1.5}, 'max_tokens', (1.5,)),
    ('max_tokens string', {'max_tokens': '5'}, 'max_tokens', ()),
    ('max_tokens true', {'max_tokens': True}, 'max_tokens', ()),
    ('temperature -0.1', {'temperature': -0.1}, 'temperature', (0, 2, -0.1)),
    ('temperature 2.01', {'temperature': 2.01}, 'temperature', (2, 2.01)),
    ('temperature string', {'temperature': 'hot'}, 'temperature', ()),
    ('temperature list', {'temperature': [1]}, 'temperature', ()),
    ('seed -1', {'seed': -1}, 'seed', (-1,)),
    ('seed 2^64', {'seed': 2**64}, 'seed', (2**64 - 1,)),
    ('seed 1.5', {'seed': 1.5}, 'seed', (1.5,)),
    ('top_k -1', {'top_k': -1}, 'top_k', (-1,)),
    ('top_p 0', {'top_p': 0}, 'top_p', (0, 1)),
    ('top_p 1.1', {'top_p': 1.1}, 'top_p', (1, 1.1)),
    ('min_p -1', {'min_p': -1}, 'min_p', (0, 1, -1)),
    ('repetition_penalty 0', {'repetition_penalty': 0}, 'repetition_penalty', (0,)),
    ('presence_penalty 3', {'presence_penalty': 3}, 'presence_penalty', (-2, 2, 3)),
    ('frequency_penalty -3', {'frequency_penalty': -3}, 'frequency_penalty', (-2, 2, -3)),
    ('repeat_last_n -1', {'repeat_last_n': -1}, 'repeat_last_n', (-1,)),
    ('stop number', {'stop': 5}, 'stop', ()),
    ('stop with empty string', {'stop': ['']}, 'stop', ('empty',)),
    ('stop with number', {'stop': ['a', 5]}, 'stop', ()),
    ('stop too many', {'stop': ['a'] * 17}, 'stop', (16,)),
    ('stop of 100,000', {'stop': ['a'] * 100_000}, 'stop', (16,)),
    ('stop too long', {'stop': 'x' * 257}, 'stop', (256, 257)),
    ('parse_special string', {'parse_special': 'yes'}, 'parse_special', ()),
    ('unknown field', {'tempature': 1}, 'tempature', ('tempature',)),
]


@pytest.mark.parametrize('changes, param, words', [c[1:] for c in FIELD_CASES],
                         ids=[c[0] for c in FIELD_CASES])
def test_field(tiny, changes, param, words):
    stream = tiny.open(**changes)
    stream.close()
    expect_refusal(stream.response, 400, 'INVALID_REQUEST', param, words)


@pytest.mark.parametrize('changes', [{'max_tokens': 2048, 'stop': ['\n']}, {'prompt': 'x' * 500},
                                     {'temperature': 2.0}, {'temperature': 0}, {'temperature': 1},
                                     {'top_p': 1},
                                     {'job_id': 'x' * 256}, {'job_id': '\u96ea'}, {'stop': ['a'] * 16},
                                     {'repeat_last_n': 0}, {'seed': None}, {'stop': None}])
def test_values_at_the_limit_are_taken(models, changes):
    with Worker('--model', models('roomy', '--context', '4096')) as worker:
        body = {'max_tokens': 2, **changes}
        if body['max_tokens'] == 2048:
            body['ignore_eos'] = False
        assert worker.execute(**body)[-1].name == 'end'


RAW_BODIES = [
    ('empty', b''), ('no object', b'[]'), ('string', b'"x"'), ('null', b'null'),
    ('truncated', b'{"job_id":"a"'),
    ('trailing comma', b'{"job_id":"a","prompt":"b",}'), ('two objects', b'{}{}'), ('comment', b'{/*a*/}'),
    ('single quotes', b"{'job_id':'a'}"), ('NaN', b'{"job_id":"a","prompt":"b","temperature":NaN}'),
    ('Infinity', b'{"job_id":"a","prompt":"b","temperature":Infinity}'),
    ('1e999', b'{"job_id":"a","prompt":"b","temperature":1e999}'),
    ('duplicate key', b'{"job_id":"a","prompt":"b","prompt":"c"}'),
    ('invalid UTF-8', b'{"job_id":"a","prompt":"\xff\xfe"}'),
    ('overlong UTF-8', b'{"job_id":"a","prompt":"\xc0\xaf"}'),
    ('UTF-8 surrogate', b'{"job_id":"a","prompt":"\xed\xa0\x80"}'),
    ('lone high surrogate', b'{"job_id":"a","prompt":"\\ud800"}'),
    ('lone low surrogate', b'{"job_id":"a","prompt":"\\udc00x"}'),
    ('surrogates in the wrong order', b'{"job_id":"a","prompt":"\\udc00\\ud800"}'),
    ('raw control character', b'{"job_id":"a","prompt":"\x01"}'), ('NUL byte', b'{"job_id":"a"\x00}'),
    ('bad escape', b'{"job_id":"a","prompt":"\\x41"}'),
    ('two byte order marks', b'\xef\xbb\xbf\xef\xbb\xbf{"job_id":"a","prompt":"b"}'),
    ('UTF-16', '{"job_id":"a","prompt":"b"}'.encode('utf-16')),
    ('depth bomb of arrays', b'[' * 100_000), ('depth bomb of objects', b'{"a":' * 100_000),
    ('depth bomb inside', b'{"job_id":"a","prompt":"b","stop":' + b'[' * 100_000 + b']' * 100_000 + b'}'),
    ('leading zero', b'{"job_id":"a","prompt":"b","max_tokens":01}'),
    ('million digits', b'{"job_id":"a","prompt":"b","max_tokens":' + b'9' * 900_000 + b'}'),
    ('million fields', b'{' + b','.join(b'"%d":1' % n for n in range(50_000)) + b'}'),
]


@pytest.mark.parametrize('body', [b[1] for b in RAW_BODIES], ids=[b[0] for b in RAW_BODIES])
def test_body(tiny, body):
    expect_refusal(tiny.call('POST', '/execute', body), 400, 'INVALID_REQUEST')


def test_pairs_of_surrogates_are_text(tiny):
    body = b'{"job_id":"a","prompt":"\\ud83d\\ude00 \\u0000?","max_tokens":2}'
    with tiny.connect() as connection:
        connection.request('POST', '/execute', body)
        stream = Stream(connection)
        assert stream.response.status == 200 and stream.finish().name == 'end'


def test_prompt_beyond_the_context(tiny):
    stream = tiny.open(prompt='\u0416\u0416' * 600, max_tokens=5)
    stream.close()
    expect_refusal(stream.response, 400, 'CONTEXT_LENGTH_EXCEEDED', 'prompt', (1024, 2400))


def test_prompt_and_max_tokens_beyond_the_context(tiny):
    stream = tiny.open(prompt='ab', max_tokens=1500)
    stream.close()
    expect_refusal(stream.response, 400, 'CONTEXT_LENGTH_EXCEEDED', 'max_tokens', (1024, 1500))


def test_max_tokens_in(tiny_model):
    with Worker('--model', tiny_model, '--max-tokens-in', '10', '--max-tokens-out', '7',
                '--max-prompt-chars', '100') as worker:
        for changes, code, words in (({'prompt': '\u0416' * 20}, 'CONTEXT_LENGTH_EXCEEDED', (10, 40)),
                                     ({'max_tokens': 8}, 'INVALID_REQUEST', (7, 8)),
                                     ({'prompt': 'x' * 101}, 'INVALID_REQUEST', (100, 101))):
            stream = worker.open(**{'max_tokens': 2, **changes})
            stream.close()
            expect_refusal(stream.response, 400, code, words=words)
        assert worker.execute(prompt='a', max_tokens=None, ignore_eos=True)[-1].data['tokens_out'] == 7


def test_unknown_path(tiny):
    for path in ('/cancel/', '/Execute', '/v1/nothing', '//shutdown', '/execute%00', '/health/../execute'):
        expect_refusal(tiny.call('POST', path, b'{}'), 404, 'NOT_FOUND', None)


def test_wrong_method(tiny):
    for method, path, allowed in (('GET', '/execute', 'POST'), ('PUT', '/execute', 'POST'),
                                  ('POST', '/health', 'GET'), ('DELETE', '/cancel', 'POST'),
                                  ('GET', '/shutdown', 'POST'), ('POST', '/metrics', 'GET'),
                                  ('POST', '/', 'GET')):
        answer = tiny.call(method, path, b'{}' if method != 'GET' else None)
        expect_refusal(answer, 405, 'METHOD_NOT_ALLOWED')
        assert allowed in answer.headers['allow'] and allowed in answer.error['message']
    assert tiny.alive(), 'GET /shutdown ends nothing'


def test_body_too_large(tiny):
    for size in (1024 * 1024 + 1, 2**40, 2**63, 2**64, 10**30):
        with tiny.connect() as connection:
            connection.send(EXECUTE + b'Content-Length: %d\r\n\r\n' % size)
            answer = connection.read_response()
        expect_refusal(answer, 413, 'PAYLOAD_TOO_LARGE', words=(1024 * 1024,))


def test_chunked_body_too_large(tiny):
    with tiny.connect() as connection:
        connection.send(EXECUTE + b'Transfer-Encoding: chunked\r\n\r\n')
        try:
            for _ in range(40):
                connection.send(b'8000\r\n' + b'x' * 0x8000 + b'\r\n')
        except ConnectionError:
            pass
        answer = connection.drain(5)
    assert answer.split(b' ')[1:2] == [b'413'] or answer == b'', answer[:200]


def test_body_of_the_largest_size_is_read(tiny):
    body = json.dumps(request_body(max_tokens=1)).encode()
    expect = tiny.call('POST', '/execute', body + b' ' * (1024 * 1024 - len(body)))
    assert expect.status == 200


def test_headers_too_large(tiny):
    for headers in (b'X-A: ' + b'a' * 65536 + b'\r\n', b'X-A: b\r\n' * 10_000):
        with tiny.connect() as connection:
            try:
                connection.send(b'GET /health HTTP/1.1\r\nHost: localhost\r\n' + headers + b'\r\n')
            except ConnectionError:
                pass
            answer = connection.drain(5)
        assert answer.split(b' ')[1:2] == [b'431'] or answer == b'', answer[:200]


@pytest.mark.parametrize('body, param', [
    (b'{}', 'job_id'), (b'{"job_id":""}', 'job_id'), (b'{"job_id":1}', 'job_id'),
    (b'{"job_id":"a","x":1}', 'x'), (b'[', ...), (b'', ...)])
def test_cancel_body(tiny, body, param):
    expect_refusal(tiny.call('POST', '/cancel', body), 400, 'INVALID_REQUEST', param)


def test_nothing_disturbs_a_stream_beside_it(slow):
    body = dict(prompt='The canary sings', max_tokens=500, temperature=0.8, seed=99, ignore_eos=True)
    undisturbed = text_of(slow.execute(**body))
    canary = slow.open(**body)
    canary.until('started')
    for name, changes, _, _ in FIELD_CASES:
        if name == 'max_tokens 2049':
            continue  # this worker allows more
        stream = slow.open(**changes)
        assert stream.response.status == 400, name
        stream.close()
    for _, raw in RAW_BODIES:
        assert slow.call('POST', '/execute', raw).status == 400
    with Connection(slow.port) as connection:
        connection.send(b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03')
        connection.drain(0.2)
    assert canary.finish().name == 'end'
    assert text_of(canary.seen) == undisturbed
    canary.close()
