"""/v1/chat/completions, /v1/completions, /v1/models, /tokenize and /detokenize of the shipped binary, byte by
byte."""
import json
import threading
import time
from typing import Iterator

import pytest

from completion_worker import CHAT, chat, contents, frames, send, start, text
from worker_process import PATIENCE, SANITIZED, STRETCH, Worker, never_stalls, wait_until


@pytest.fixture(scope='module')
def serving(slow_model, tmp_path_factory) -> Iterator[Worker]:
    """Milliseconds a token, four slots, keys for nobody."""
    with start(slow_model, tmp_path_factory.mktemp('chat'), '--slots', '4', '--context', '2048') as worker:
        yield worker


def stable(response) -> dict:
    """An answer without what differs from request to request."""
    assert response.status == 200, response.body
    return {k: v for k, v in response.json().items() if k not in ('id', 'created')}


# --- what is answered -----------------------------------------------------------------------------


def test_a_chat_is_answered_whole(worker):
    answer = chat(worker, logprobs=True, top_logprobs=3).json()
    assert answer['object'] == 'chat.completion' and answer['id'].startswith('chatcmpl-')
    assert answer['model'] == 'slow'
    assert answer['system_fingerprint'] == worker.get('/health').json()['system_fingerprint']
    (choice,) = answer['choices']
    assert choice['message']['role'] == 'assistant' and choice['finish_reason'] == 'length'
    assert len(choice['logprobs']['content']) == 8
    for token in choice['logprobs']['content']:
        assert token['top_logprobs'][0]['logprob'] == token['logprob'], 'greedy takes the likeliest'
        assert len(token['top_logprobs']) == 3 and bytes(token['bytes']) is not None
    usage = answer['usage']
    assert usage['completion_tokens'] == 8
    assert usage['total_tokens'] == usage['prompt_tokens'] + 8
    assert usage['prompt_tokens_details'] == {'cached_tokens': 0}
    assert usage['completion_tokens_details'] == {'reasoning_tokens': 0}


def test_a_stream_says_what_the_whole_answer_says(worker):
    whole = chat(worker, logprobs=True, top_logprobs=2, n=2, temperature=1).json()
    stream = chat(worker, logprobs=True, top_logprobs=2, n=2, temperature=1, stream=True,
                  stream_options={'include_usage': True})
    assert stream.headers['content-type'] == 'text/event-stream'
    assert stream.headers['cache-control'] == 'no-cache'
    chunks = [json.loads(f) for f in frames(stream.body)[:-1]]
    assert len({c['id'] for c in chunks}) == 1
    assert chunks[-1]['choices'] == [] and chunks[-1]['usage'] == whole['usage']
    assert all(c['usage'] is None for c in chunks[:-1])
    for choice in whole['choices']:
        mine = [c['choices'][0] for c in chunks[:-1] if c['choices'][0]['index'] == choice['index']]
        assert mine[0]['delta'] == {'role': 'assistant', 'content': ''}
        assert contents(stream.body, choice['index']) == choice['message']['content']
        listed = [t for c in mine if c['logprobs'] for t in c['logprobs']['content']]
        assert listed == choice['logprobs']['content']
        assert [c['finish_reason'] for c in mine if c['finish_reason']] == [choice['finish_reason']]
    assert whole['choices'][0]['message'] != whole['choices'][1]['message'], 'each choice has its own draws'


def test_the_prompt_of_a_chat_is_what_its_template_makes(worker):
    rendered = 'user: Once upon a time\nassistant:'
    tokens = worker.call('POST', '/tokenize', {'content': rendered, 'add_special': True}).json()
    by_chat = chat(worker).json()
    by_text = text(worker, prompt=rendered).json()
    by_ids = text(worker, prompt=tokens['tokens']).json()
    assert by_chat['usage']['prompt_tokens'] == tokens['count']
    assert by_chat['choices'][0]['message']['content'] == by_text['choices'][0]['text']
    assert by_ids['choices'] == by_text['choices']
    assert worker.call('POST', '/detokenize', {'tokens': worker.call(
        'POST', '/tokenize', {'content': rendered}).json()['tokens']}).json()['content'] == rendered


def test_template_variables_are_honoured_or_left(worker):
    plain = chat(worker).json()['usage']['prompt_tokens']
    assert chat(worker, enable_thinking=False).json()['usage']['prompt_tokens'] > plain
    by_kwargs = chat(worker, chat_template_kwargs={'enable_thinking': True}).json()
    assert by_kwargs['usage']['prompt_tokens'] > plain
    assert chat(worker, reasoning_effort='low').json()['usage']['prompt_tokens'] > plain
    assert chat(worker, verbosity='low').json()['usage']['prompt_tokens'] == plain


def test_stop_strings_end_the_text_before_them(worker):
    full = chat(worker, max_tokens=16).json()['choices'][0]['message']['content']
    stop = full[len(full) // 2:][:3]
    stopped = chat(worker, max_tokens=16, stop=stop).json()
    assert stopped['choices'][0]['finish_reason'] == 'stop'
    assert stopped['choices'][0]['message']['content'] == full[:full.index(stop)]
    stream = chat(worker, max_tokens=16, stop=[stop, 'never there'], stream=True)
    assert contents(stream.body) == full[:full.index(stop)]


def test_a_bias_forces_and_forbids_a_token(worker):
    token = worker.call('POST', '/tokenize', {'content': 'hello'}).json()['tokens'][0]
    forced = chat(worker, logit_bias={str(token): 100}, logprobs=True).json()['choices'][0]
    assert {bytes(t['bytes']) for t in forced['logprobs']['content']} == {b'hello'}
    first = chat(worker, logprobs=True, max_tokens=1).json()['choices'][0]['logprobs']['content'][0]['token']
    ids = worker.call('POST', '/tokenize', {'content': first}).json()['tokens']
    if len(ids) == 1:
        other = chat(worker, logit_bias={str(ids[0]): -100}, max_tokens=1, logprobs=True).json()
        assert other['choices'][0]['logprobs']['content'][0]['token'] != first


def test_log_probabilities_of_the_text_endpoint(worker):
    choice = text(worker, logprobs=2).json()['choices'][0]
    logprobs = choice['logprobs']
    assert len(logprobs['tokens']) == len(logprobs['token_logprobs']) == len(logprobs['text_offset']) == 8
    assert all(len(top) == 2 for top in logprobs['top_logprobs'])
    assert logprobs['text_offset'][0] == 0 and logprobs['text_offset'] == sorted(logprobs['text_offset'])


def test_the_same_request_gives_the_same_bytes_beside_any_neighbours(worker):
    asked = dict(n=2, temperature=1.2, max_tokens=40, logprobs=True, top_logprobs=5)
    alone = stable(chat(worker, **asked))
    neighbours = [send(worker, messages=[{'role': 'user', 'content': f'neighbour {i} ' * 20}], stream=True,
                       max_tokens=400, temperature=1, seed=i) for i in range(2)]
    for neighbour in neighbours:
        neighbour.read_response(head_only=True)
    assert stable(chat(worker, **asked)) == alone
    assert stable(chat(worker, **{**asked, 'n': 1}))['choices'] == alone['choices'][:1]
    for neighbour in neighbours:
        neighbour.close()


def test_the_models(worker):
    listed = worker.get('/v1/models').json()
    assert listed['object'] == 'list'
    assert worker.get('/v1/models/slow').json() == listed['data'][0]
    assert listed['data'][0]['meta']['slots'] == 4
    other = worker.get('/v1/models/other')
    assert (other.status, other.error['code'], other.error['param']) == (404, 'model_not_found', 'model')
    assert chat(worker, model='slow').status == 200
    assert chat(worker, model='other').status == 404


# --- what ends early ------------------------------------------------------------------------------


@pytest.mark.parametrize('stream', [False, True])
def test_a_client_that_leaves_frees_every_slot(worker, stream):
    connection = send(worker, n=4, max_tokens=1500, stream=stream)
    wait_until(lambda: worker.running() == 4, PATIENCE, 'four choices run')
    begin = time.monotonic()
    connection.close()
    wait_until(lambda: worker.running() == 0, PATIENCE, 'they stopped', step=0.001)
    assert time.monotonic() - begin < 2 * STRETCH
    wait_until(lambda: worker.metric('worker_requests_total', outcome='disconnected') >= 4, PATIENCE,
               'they are counted')


def test_a_completion_is_cancelled_by_its_id(worker):
    connection = send(worker, n=2, max_tokens=1500, stream=True)
    head = connection.socket.recv(65536).decode()
    while '"id":"' not in head:
        head += connection.socket.recv(65536).decode()
    name = head.split('"id":"')[1].split('"')[0]
    assert worker.cancel(name).status == 202
    rest = head
    connection.socket.settimeout(PATIENCE)
    while not rest.endswith('0\r\n\r\n'):
        piece = connection.socket.recv(65536).decode()
        assert piece, 'the connection closed before the end of the body'
        rest += piece
    assert '"code":"CANCELLED"' in rest and '[DONE]' not in rest
    connection.close()


def test_a_request_that_runs_out_of_time_says_so(worker):
    whole = chat(worker, max_tokens=1500, timeout_ms=50)
    assert (whole.status, whole.error['code']) == (504, 'INFERENCE_TIMEOUT')
    stream = chat(worker, max_tokens=1500, timeout_ms=50, stream=True)
    assert stream.status == 200
    *_, last = frames(stream.body)
    assert json.loads(last)['error']['code'] == 'INFERENCE_TIMEOUT'


def test_more_choices_than_places_are_refused_and_leave_nothing_behind(slow_model, tmp_path):
    with start(slow_model, tmp_path, '--slots', '2', '--max-queue', '0') as worker:
        held = send(worker, max_tokens=1500, stream=True)
        wait_until(lambda: worker.running() == 1, PATIENCE, 'one runs')
        refused = chat(worker, n=2)
        assert (refused.status, refused.error['code']) == (429, 'QUEUE_FULL')
        assert int(refused.headers['retry-after']) >= 1
        assert chat(worker).status == 200, 'one place is still free'
        held.close()


# --- what is refused ------------------------------------------------------------------------------

LONG_LIST = ['x'] * 100_000
BAD = [
    ({'messages': []}, 'messages'),
    ({'messages': 'hi'}, 'messages'),
    ({'messages': [{'role': 'robot', 'content': 'x'}]}, 'messages[0].role'),
    ({'messages': [{'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'http://x'}}]}]},
     'messages[0].content[0].type'),
    ({'messages': [{'role': 'judge', 'content': 'x'}]}, 'messages[0].role'),
    ({'messages': [{'role': 'user', 'content': 'x' * 40_000}]}, 'messages'),
    ({'stop': LONG_LIST}, 'stop'),
    ({'logit_bias': {str(i): 1 for i in range(50_000)}}, 'logit_bias'),
    ({'max_tokens': -2}, 'max_tokens'),
    ({'max_tokens': 5, 'max_completion_tokens': 6}, 'max_completion_tokens'),
    ({'n': 129}, 'n'),
    ({'top_logprobs': 2}, 'top_logprobs'),
    ({'tools': [{'type': 'function'}]}, 'tools[0].function'),
    ({'tool_choice': 'required'}, 'tool_choice'),
    ({'response_format': {'type': 'xml'}}, 'response_format.type'),
    ({'response_format': {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {'not': {}}}}},
     'response_format'),
    ({'chat_template': '{{ 1 }}'}, 'chat_template'),
    ({'chat_template_kwargs': {'messages': []}}, 'chat_template_kwargs'),
    ({'functions': [{'name': 'f'}]}, 'functions'),
    ({'nonsense': 1}, 'nonsense'),
]


@pytest.mark.parametrize('changes, param', BAD, ids=[f'{i}-{p}' for i, (_, p) in enumerate(BAD)])
def test_bad_requests_name_what_is_wrong(worker, changes, param):
    begin = time.monotonic()
    refused = chat(worker, **changes)
    assert time.monotonic() - begin < 2 * STRETCH
    assert refused.status == 400, refused.body
    error = refused.error
    assert set(error) >= {'message', 'type', 'param', 'code'}
    assert (error['type'], error['param']) == ('invalid_request_error', param)
    assert isinstance(error['code'], str)


@pytest.mark.parametrize('body', [
    b'', b'[]', b'{', b'\xff', b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    b'{"messages":[{"role":"user","content":"x","content":"y"}]}', b'{"messages":' + b'[' * 100_000,
    b'{"a":' * 100_000], ids=range(8))
def test_bodies_that_are_no_json(worker, body):
    for path in ('/v1/chat/completions', '/v1/completions', '/tokenize', '/detokenize'):
        assert worker.call('POST', path, body).status == 400


def test_a_stream_keeps_its_pace_beside_bad_requests(worker):
    """A canary: its longest silence must not grow to that of the requests beside it."""
    never_stalls(lambda: longest_silence(worker), 1.0 * STRETCH, worker.pid)


def longest_silence(worker) -> float:
    canary = send(worker, stream=True, max_tokens=300)
    stop = threading.Event()

    def annoy() -> None:
        while not stop.is_set():
            for changes in ({'stop': LONG_LIST}, {'messages': []}, {'n': 129}):
                assert chat(worker, **changes).status == 400
    annoying = threading.Thread(target=annoy)
    annoying.start()
    longest, last, body = 0.0, time.monotonic(), b''
    while b'0\r\n\r\n' not in body[-7:]:
        piece = canary.socket.recv(65536)
        assert piece
        body += piece
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    stop.set()
    annoying.join(PATIENCE)
    assert b'[DONE]' in body
    canary.close()
    return longest


def schema_bomb(number: int) -> dict:
    """A schema that is worked on for some fifty milliseconds before it is refused; each is another, since
    what is asked for twice is compiled once."""
    return {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {
        'type': 'object', 'properties': {f'a{number}': {'type': 'string', 'pattern': '^[ab]*a[ab]{18}$'}}}}}


def test_schemas_are_compiled_beside_everything_else(worker):
    """Two dozen schema bombs at once are refused for what they are, while /health answers and whoever asks
    for no schema is served."""
    begin = time.monotonic()
    bombs = [send(worker, response_format=schema_bomb(i)) for i in range(24)]
    longest = 0.0
    for _ in range(20):
        asked = time.monotonic()
        assert worker.get('/health').status == 200
        longest = max(longest, time.monotonic() - asked)
    assert chat(worker, response_format={'type': 'json_object'}).status == 200
    served = time.monotonic() - begin
    bombs.pop().close()  # a client that does not wait for its refusal
    statuses = [bomb.read_response().status for bomb in bombs]
    together = time.monotonic() - begin
    late = {504} if SANITIZED else set()  # a second and more a schema there
    assert {400} <= set(statuses) <= {400} | late
    assert longest < together / 3 and served < together / 2
    for bomb in bombs:
        bomb.close()


def test_a_worker_that_compiles_can_be_stopped(tiny_model, tmp_path):
    with start(tiny_model, tmp_path) as leaving:
        bombs = [send(leaving, response_format=schema_bomb(i)) for i in range(12)]
        leaving.terminate()
        assert leaving.wait_exit(PATIENCE) == 0
        for bomb in bombs:
            bomb.close()


# --- who may ask ----------------------------------------------------------------------------------


def test_keys(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('# for the tests\nfirst-key\nsecond-key\n')
    with start(tiny_model, tmp_path, '--api-key-file', str(keys)) as worker:
        for path in ('/v1/chat/completions', '/v1/completions', '/execute', '/cancel', '/shutdown',
                     '/tokenize'):
            refused = worker.call('POST', path, {})
            assert refused.status == 401, path
            assert refused.headers['www-authenticate'] == 'Bearer'
            assert refused.error['type'] == 'authentication_error' and refused.error['code'] == 'UNAUTHORIZED'
        assert worker.get('/v1/models').status == 401
        assert chat(worker, {'Authorization': 'Bearer wrong'}).status == 401
        assert chat(worker, {'Authorization': 'Bearer second-key'}).status == 200
        for path in ('/health', '/live', '/ready', '/metrics'):
            assert worker.get(path).status == 200, path
    assert not any('key' in line and ('first-key' in line or 'second-key' in line) for line in worker.lines)


@pytest.mark.parametrize('content', ['', 'three words here\n'])
def test_a_key_file_without_a_key_stops_the_start(tiny_model, tmp_path, content):
    keys = tmp_path / 'keys'
    keys.write_text(content)
    with Worker('--model', tiny_model, '--api-key-file', str(keys)) as worker:
        assert worker.wait_exit(PATIENCE) == 1
        assert worker.events('error')[-1]['code'] == 'WORKER_START_FAILED'
        assert 'three words' not in ''.join(worker.lines)


def test_other_origins_read_nothing_unless_listed(tiny_model, tmp_path):
    origin = 'https://chat.example'
    with start(tiny_model, tmp_path) as worker:
        assert 'access-control-allow-origin' not in chat(worker, {'Origin': origin}).headers
    with start(tiny_model, tmp_path, '--cors-origins', origin) as worker:
        assert chat(worker, {'Origin': origin}).headers['access-control-allow-origin'] == origin
        assert 'access-control-allow-origin' not in chat(worker, {'Origin': 'https://evil.example'}).headers
        preflight = worker.call('OPTIONS', '/v1/chat/completions', None, {
            'Origin': origin, 'Access-Control-Request-Method': 'POST'})
        assert preflight.status == 204
        assert 'POST' in preflight.headers['access-control-allow-methods']


def test_a_template_file_that_is_none_stops_the_start(tiny_model, tmp_path):
    broken = tmp_path / 'broken.jinja'
    broken.write_text('{% for %}')
    with Worker('--model', tiny_model, '--chat-template', str(broken)) as worker:
        assert worker.wait_exit(PATIENCE) == 1


def test_template_bombs_of_requests_end_in_time(tiny_model, tmp_path):
    with start(tiny_model, tmp_path, '--allow-request-template') as worker:
        assert chat(worker, chat_template='{{ messages[0].content }}').status == 200
        for bomb in ('{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}',
                     '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', "{{ 'x' * 999999999 }}",
                     '{{ ' + '(' * 50_000, '{{ messages.__class__ }}{{ raise_exception("no") }}'):
            begin = time.monotonic()
            refused = chat(worker, chat_template=bomb)
            assert refused.status == 400 and refused.error['param'] in ('chat_template', 'messages')
            assert time.monotonic() - begin < 2 * STRETCH
    assert CHAT['messages'][0]['content'] not in ''.join(worker.lines), 'no prompt is logged'
