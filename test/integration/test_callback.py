"""The ready callback against a small pool manager. Sources: WORK-3011, 3014."""
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from worker_process import PATIENCE, STRETCH, Worker, run_to_exit

WORKER_ID = '123e4567-e89b-12d3-a456-426614174000'


class PoolManager:
    """Answers with the given statuses in turn (the last one for ever) and checks that the worker's URI
    can be reached while it does."""

    def __init__(self, *statuses, retry_after=None):
        self.statuses, self.requests, self.reached, self.times = list(statuses), [], [], []
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['content-length']))
                manager.requests.append((self.path, dict(self.headers), body))
                manager.times.append(time.monotonic())
                try:
                    uri = json.loads(body)['uri']
                    manager.reached.append(urllib.request.urlopen(uri + '/health', timeout=PATIENCE).status)
                except OSError as problem:
                    manager.reached.append(repr(problem))
                status = manager.statuses.pop(0) if len(manager.statuses) > 1 else manager.statuses[0]
                self.send_response(status)
                self.send_header('Content-Length', '0')
                if retry_after and status == 429:
                    self.send_header('Retry-After', retry_after)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_port}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def pool():
    managers = []

    def start(*statuses, **more):
        managers.append(PoolManager(*statuses, **more))
        return managers[-1]
    yield start
    for manager in managers:
        manager.close()


def test_success(pool, tiny_model):
    manager = pool(200)
    with Worker('--model', tiny_model, '--callback-url', manager.url, '--worker-id', WORKER_ID) as worker:
        worker.wait_event('ready')
        assert worker.execute(max_tokens=1)[-1].name == 'end'
    assert len(manager.requests) == 1
    path, headers, body = manager.requests[0]
    assert path == '/v2/internal/workers/ready' and headers['Content-Type'].startswith('application/json')
    message = json.loads(body)
    assert message['worker_id'] == WORKER_ID and isinstance(message['vram_bytes'], int)
    assert message['model_ref'] and message['uri'].startswith('http://127.0.0.1:')
    assert manager.reached == [200], 'the server listens before it calls, and is well'


def test_a_slash_at_the_end_of_the_url(pool, tiny_model):
    manager = pool(204)
    with Worker('--model', tiny_model, '--callback-url', manager.url + '/base/') as worker:
        worker.wait_event('ready')
    assert manager.requests[0][0] == '/base/v2/internal/workers/ready'


def test_public_uri(pool, tiny_model):
    manager = pool(200)
    with Worker('--model', tiny_model, '--callback-url', manager.url,
                '--public-uri', 'http://gpu7:8001') as worker:
        worker.wait_event('ready')
    assert json.loads(manager.requests[0][2])['uri'] == 'http://gpu7:8001'


def test_retry_after_500(pool, tiny_model):
    manager = pool(500, 503, 200)
    with Worker('--model', tiny_model, '--callback-url', manager.url) as worker:
        worker.wait_event('ready')
        assert len(manager.requests) == 3
        assert len({r[2] for r in manager.requests}) == 1, 'the same message each time'
        assert worker.get('/ready').status == 200


def test_retry_after_429(pool, tiny_model):
    manager = pool(429, 200, retry_after='1')
    with Worker('--model', tiny_model, '--callback-url', manager.url) as worker:
        worker.wait_event('ready')
        told = worker.events('callback_waits', level='warning')
    assert len(manager.requests) == 2 and manager.times[1] - manager.times[0] >= 1.0
    assert [event['wait_ms'] for event in told] == [1000] and '429' in told[0]['message']


def failed_start(*options):
    exit_code, worker = run_to_exit(*options, timeout=40)
    assert exit_code == 1
    errors = [e for e in worker.events() if e['level'] in ('error', 'critical')]
    assert len(errors) == 1 and errors[0]['code'] == 'WORKER_START_FAILED', errors
    assert not worker.events('ready')
    return errors[0]['message']


def test_4xx_is_final(pool, tiny_model):
    manager = pool(404)
    message = failed_start('--model', tiny_model, '--callback-url', manager.url)
    assert '404' in message and len(manager.requests) == 1


def test_500_for_ever(pool, tiny_model):
    manager = pool(500)
    message = failed_start('--model', tiny_model, '--callback-url', manager.url)
    assert '500' in message and str(len(manager.requests)) in message and len(manager.requests) > 2


def test_nobody_listens(tiny_model):
    message = failed_start('--model', tiny_model, '--callback-url', 'http://127.0.0.1:9')
    assert '127.0.0.1:9' in message


def test_user_info_is_refused_and_not_repeated(tiny_model):
    exit_code, worker = run_to_exit('--model', tiny_model, '--callback-url', 'http://user:secret@127.0.0.1:9')
    told = '\n'.join(worker.lines)
    assert exit_code == 2 and '--callback-url' in told and 'secret' not in told


def test_not_ready_until_the_callback_has_succeeded(tiny_model):
    with socket.socket() as silent:
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        url = f'http://127.0.0.1:{silent.getsockname()[1]}'
        with Worker('--model', tiny_model, '--callback-url', url) as worker:
            silent.settimeout(PATIENCE * STRETCH)
            peer, _ = silent.accept()
            text = b''
            while not text.endswith(b'}'):
                text += peer.recv(65536)
            uri = json.loads(text.split(b'\r\n\r\n', 1)[1])['uri']
            for path, status in (('/live', 200), ('/health', 200), ('/ready', 503)):
                try:
                    assert urllib.request.urlopen(uri + path, timeout=PATIENCE).status == status
                except urllib.error.HTTPError as answer:
                    assert answer.code == status, path
            assert not worker.events('ready')
            peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
            worker.wait_event('ready')
            peer.close()
