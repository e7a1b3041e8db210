"""Requests as clients put them together: paths, keys, and bytes around the body."""
import gzip
import json
from typing import Iterator

import pytest

from completion_worker import CHAT, start
from worker_process import PATIENCE, Worker, wait_until

BODY = json.dumps(CHAT).encode()


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory) -> Iterator[Worker]:
    with start(tiny_model, tmp_path_factory.mktemp('paths')) as running:
        yield running


def ask(worker: Worker, path: str = '/v1/chat/completions', body: bytes = BODY, before: bytes = b'',
        **headers):
    head = [f'POST {path} HTTP/1.1', 'Host: localhost', 'Content-Type: application/json',
            f'Content-Length: {len(body)}']
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    with worker.connect() as connection:
        connection.send(before + '\r\n'.join(head).encode() + b'\r\n\r\n' + body)
        return connection.read_response()


@pytest.mark.parametrize('path', ['/v1/chat/completions/', '/chat/completions', '/chat/completions/',
                                  '//v1/chat/completions', '/v1//chat/completions', '/v1/v1/chat/completions',
                                  '/chat/completions?api-version=1'])
def test_a_base_url_that_ends_elsewhere(worker, path):
    answer = ask(worker, path)
    assert (answer.status, answer.json()['object']) == (200, 'chat.completion')


def test_twins_of_the_other_paths(worker):
    assert ask(worker, '/completions', b'{"prompt":"a","max_tokens":1}').json()['object'] == 'text_completion'
    listed = worker.get('/v1/models').json()
    for path in ('/models', '/models/', '/v1/models/', '/v1/v1/models'):
        assert worker.get(path).json() == listed
    assert worker.get('/models/tiny').json() == listed['data'][0]
    assert ask(worker, '/tokenize/', b'{"content":"a"}').status == 200
    assert ask(worker, '/embeddings', b'{"input":"a"}').error['param'] == 'model'
    refused = ask(worker, '/completions', b'{"prompt":"a","model":"other"}')
    assert refused.error['code'] == 'model_not_found'


@pytest.mark.parametrize('path', ['/shutdown/', '//shutdown', '/v1/shutdown', '/cancel/', '//lora-adapters',
                                  '/lora-adapters/', '/v1//load_lora_adapter', '/load_lora_adapter',
                                  '/v1/unload_lora_adapter/'])
def test_what_a_proxy_may_forbid_has_one_path(worker, path):
    assert ask(worker, path, b'').status == 404
    assert worker.alive()


def test_a_byte_order_mark_is_left_out(worker):
    mark = b'\xef\xbb\xbf'
    assert ask(worker, body=mark + BODY).json()['choices'] == ask(worker).json()['choices']
    assert ask(worker, '/tokenize', mark + b'{"content":"a"}').status == 200
    assert ask(worker, body=mark + mark + BODY).status == 400


def test_an_empty_line_before_a_request(worker):
    assert ask(worker, before=b'\r\n').status == 200
    refused = ask(worker, before=b'\r\n\r\n')
    assert refused.status == 400 and refused.headers['connection'] == 'close'
    with worker.connect() as connection:
        for _ in range(3):  # after a body, as old clients send it
            connection.send(b'POST /tokenize HTTP/1.1\r\nHost: localhost\r\n'
                            b'Content-Type: application/json\r\nContent-Length: 15\r\n\r\n'
                            b'{"content":"a"}\r\n')
            assert connection.read_response().status == 200


@pytest.mark.parametrize('coding', ['gzip', 'deflate', 'br', 'zstd'])
def test_compressed_bodies(worker, coding):
    answer = ask(worker, body=gzip.compress(BODY), Content_Encoding=coding)
    assert (answer.status, answer.headers['accept-encoding']) == (415, 'identity')
    assert 'Content-Encoding' in answer.error['message']
    assert ask(worker, Content_Encoding='identity').status == 200


def test_a_key_in_a_field_of_its_own(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('first one\nsecond two\n')
    with start(tiny_model, tmp_path, '--api-key-file', str(keys)) as worker:
        assert ask(worker, X_Api_Key='first').status == 200
        assert ask(worker, x_api_key='second', Authorization='Basic abc').status == 200
        assert ask(worker, Authorization='Bearer second', X_Api_Key='wrong').status == 200
        for wrong in ({}, {'X_Api_Key': 'other'}, {'X_Api_Key': ''}, {'X_Api_Key': 'Bearer first'}):
            refused = ask(worker, **wrong)
            assert refused.status == 401 and 'X-Api-Key' in refused.error['message']
        wait_until(lambda: {e['key_name'] for e in worker.events('execute_start')} == {'one', 'two'},
                   PATIENCE, 'the log names the keys')


def test_pages_of_this_machine(tiny_model, tmp_path):
    with start(tiny_model, tmp_path, '--cors-origins', 'localhost') as worker:
        for origin in ('http://localhost:3000', 'https://localhost', 'http://127.0.0.1:5173',
                       'http://[::1]:8000'):
            answer = ask(worker, Origin=origin, Sec_Fetch_Site='cross-site')
            assert (answer.status, answer.headers['access-control-allow-origin']) == (200, origin)
        for origin in ('http://localhost.example', 'https://a.example', 'null'):
            answer = ask(worker, Origin=origin, Sec_Fetch_Site='cross-site')
            assert answer.status == 403 and 'access-control-allow-origin' not in answer.headers
