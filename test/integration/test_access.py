"""Who may ask what of the shipped binary: pages of other origins, foreign names, content types, keys that are
judged before a body is read, and tenants that do not meet."""
import json
import signal

import pytest

from http_client import Stream
from worker_process import PATIENCE, Worker, request_body, wait_until

EVIL = 'https://evil.example'


def body(**changes) -> bytes:
    return json.dumps(request_body(**changes)).encode()


@pytest.mark.parametrize('headers', [
    {'Origin': EVIL}, {'Origin': 'null'}, {'Origin': 'http://localhost:1'},
    {'Sec-Fetch-Site': 'cross-site'}, {'Sec-Fetch-Site': 'same-site'},
    {'Origin': EVIL, 'Sec-Fetch-Site': 'same-origin'},
], ids=str)
@pytest.mark.parametrize(
    'path', ['/execute', '/cancel', '/v1/chat/completions', '/v1/completions', '/tokenize'])
def test_pages_of_others_cannot_act(tiny, path, headers):
    before = tiny.metric('worker_requests_total')
    answer = tiny.call('POST', path, body(), headers)
    assert answer.status == 403 and answer.error['code'] == 'FORBIDDEN', answer
    assert not answer.error['retriable']
    assert tiny.metric('worker_requests_total') == before


def test_own_pages_and_programs_may(tiny):
    own = f'http://localhost:{tiny.port}'
    with tiny.connect() as connection:
        connection.send(f'POST /execute HTTP/1.1\r\nHost: localhost:{tiny.port}\r\nOrigin: {own}\r\n'
                        'Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n'.encode()
                        + b'Content-Length: %d\r\n\r\n' % len(body(job_id='own')) + body(job_id='own'))
        assert Stream(connection).finish().name == 'end'
    assert tiny.call('POST', '/tokenize', {'content': 'a'}, {'Sec-Fetch-Site': 'none'}).status == 200


@pytest.mark.parametrize('way', [
    b'', b'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n',
    b'Content-Type: text/plain\r\nContent-Length: 2\r\n'])
def test_a_form_of_a_page_does_not_stop_the_worker(tiny, way):
    head = b'POST /shutdown HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n'
    with tiny.connect() as connection:
        connection.send(head + way + b'\r\n')
        assert connection.read_response().status == 403
    assert tiny.get('/ready').status == 200


def test_not_even_the_own_page_stops_the_worker(tiny):
    with tiny.connect() as connection:
        connection.send(b'POST /shutdown HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n')
        assert connection.read_response().status == 403
    assert tiny.get('/ready').status == 200


@pytest.mark.parametrize('path', ['/', '/health', '/v1/models', '/metrics', '/nothing'])
def test_foreign_names_read_nothing(tiny, path):
    for host in ('evil.example', f'evil.example:{tiny.port}', 'localhost.evil.example',
                 '127.0.0.1.evil.example'):
        with tiny.connect() as connection:
            connection.send(f'GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode())
            answer = connection.read_response()
            assert answer.status == 403 and answer.error['code'] == 'FORBIDDEN'
    with tiny.connect() as connection:
        connection.send(f'GET http://evil.example{path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
        assert connection.read_response().status == 403


def test_own_and_allowed_names_are_served(tiny_model):
    with Worker('--model', tiny_model, '--allow-host', 'chat.example,10.1.2.3',
                '--public-uri', 'https://llm.example/base') as worker:
        for host in ('localhost', 'app.localhost', '[::1]:80', '127.0.0.1', 'chat.example:8443', '10.1.2.3',
                     'llm.example'):
            with worker.connect() as connection:
                connection.send(f'GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode())
                assert connection.read_response().status == 200, host


@pytest.mark.parametrize(
    'kind', ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', ''])
def test_bodies_are_json(tiny, kind):
    field = f'Content-Type: {kind}\r\n' if kind else ''
    with tiny.connect() as connection:
        connection.send(f'POST /execute HTTP/1.1\r\nHost: localhost\r\n{field}'
                        f'Content-Length: {len(body())}\r\n\r\n'.encode() + body())
        answer = connection.read_response()
        assert answer.status == 415 and 'application/json' in answer.error['message']


@pytest.fixture(scope='module')
def keyed(tiny_model, tmp_path_factory):
    keys = tmp_path_factory.mktemp('keys') / 'keys'
    keys.write_text('key-a alpha\nkey-b beta\nkey-a2 alpha\n')
    with Worker('--model', tiny_model, '--api-key-file', keys, '--slots', '2',
                '--cache-min-tokens', '1') as worker:
        worker.wait_event('ready')
        yield worker


def bearer(key: str) -> dict:
    return {'Authorization': f'Bearer {key}'}


@pytest.mark.parametrize('line, status', [
    ('POST /execute', 401), ('POST /nothing', 404), ('GET /execute', 405), ('POST /health', 405)])
def test_the_head_is_judged_before_the_body(keyed, line, status):
    """The refusal comes although not one byte of the body does, and no 100 Continue asks for it."""
    for more in ('', 'Expect: 100-continue\r\n'):
        with keyed.connect() as connection:
            connection.send(f'{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}'
                            'Content-Length: 1000\r\n\r\n'.encode())
            assert connection.read_response().status == status
            assert connection.at_end(PATIENCE), 'nothing tells where the next request would begin'


def test_a_refusal_whose_body_is_there_keeps_the_connection(keyed):
    with keyed.connect() as connection:
        for _ in range(3):
            connection.request('POST', '/execute', body())
            assert connection.read_response().status == 401
        connection.request('GET', '/health')
        assert connection.read_response().status == 200


def test_without_a_key_nobody_stops_it(keyed):
    assert keyed.call('POST', '/shutdown').status == 401
    assert keyed.get('/ready').status == 200


def cached(worker: Worker, key: str, prompt: str, **more) -> int:
    return worker.execute(bearer(key), prompt=prompt, max_tokens=1, **more)[-1].data['tokens_cached']


def test_prefixes_are_their_keys_own(keyed):
    prompt = 'The secret of the first tenant is written here at some length.'
    assert cached(keyed, 'key-a', prompt) == 0
    assert cached(keyed, 'key-a', prompt) > 0
    assert cached(keyed, 'key-b', prompt) == 0, "another tenant's text shows"
    assert cached(keyed, 'key-a2', prompt) == 0, 'a key of its own'
    # A salt is shared by the keys of one name, and by nobody else, whatever it is called.
    assert cached(keyed, 'key-a', prompt, cache_salt='team') == 0
    assert cached(keyed, 'key-a2', prompt, cache_salt='team') > 0
    assert cached(keyed, 'key-b', prompt, cache_salt='team') == 0


def test_cancel_is_for_the_key_that_started_the_job(slow_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('key-a alpha\nkey-b\n')
    with Worker('--model', slow_model, '--api-key-file', keys, '--slots', '2') as worker:
        mine = worker.open(bearer('key-a'), job_id='same', max_tokens=400, ignore_eos=True)
        mine.until('token', 2)
        assert worker.call('POST', '/cancel', {'job_id': 'same'}, bearer('key-b')).status == 202
        # The same name is free for the other key, and its job is another.
        theirs = worker.open(bearer('key-b'), job_id='same', max_tokens=400, ignore_eos=True)
        theirs.until('token', 2)
        again = worker.call('POST', '/execute', request_body(job_id='same'), bearer('key-a'))
        assert again.status == 409 and "job_id 'same' is in use" in again.error['message']
        assert worker.call('POST', '/cancel', {'job_id': 'same'}, bearer('key-a')).status == 202
        assert mine.finish().data['code'] == 'CANCELLED'
        theirs.until('token', 2)
        assert worker.call('POST', '/cancel', {'job_id': 'same'}, bearer('key-b')).status == 202
        assert theirs.finish().data['code'] == 'CANCELLED'
        wait_until(lambda: {e['key_name'] for e in worker.events('execute_start')} == {'alpha', 'line 2'},
                   PATIENCE, 'the log names the keys')
        assert not any('key-a' in line or 'key-b' in line for line in worker.lines)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.wait_exit(PATIENCE) == 0
