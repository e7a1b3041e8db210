"""Nothing on the io thread grows with a request: while eight clients send the worst bodies of a kind without
a pause, /health answers in time and a stream keeps its pace. Clients are processes: the threads of one
interpreter keep one another waiting."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Tuple

import pytest

from completion_worker import CHAT, start
from worker_process import PATIENCE, SANITIZED, Worker, fastest, never_stalls

CLIENTS = 8
SECONDS = 1.5
# Of the slowest hundredth of answers, and of a stream's gaps, on a machine that does nothing else.
HEALTH_LIMIT = 0.02
GAP_LIMIT = 0.05
MANY = 32_000

# It says with an empty line that it has begun, and ends with a SIGTERM.
CLIENT = """import json, os, signal, sys
from http_client import Connection
os.nice(5)
port, path = int(sys.argv[1]), sys.argv[2]
body, statuses, over = sys.stdin.buffer.read(), {}, []
signal.signal(signal.SIGTERM, lambda *_: over.append(True))
client = Connection(port)
while not over:
    client.request('POST', path, body)
    answer = client.read_response()
    if not statuses:
        print(flush=True)
    statuses[answer.status] = statuses.get(answer.status, 0) + 1
    if answer.headers.get('connection') == 'close':
        client.close()
        client = Connection(port)
print(json.dumps(statuses))"""

# These print seconds: what /health took, and the gaps of a stream.
PROBE = """import json, sys, time
from http_client import Connection
from pauses import pause
port, seconds = int(sys.argv[1]), float(sys.argv[2])
client, took, end = Connection(port), [], time.monotonic() + seconds
while time.monotonic() < end:
    begin = time.monotonic()
    client.request('GET', '/health')
    assert client.read_response().status == 200
    took.append(time.monotonic() - begin)
    pause(0.002, 'a pace that leaves others a processor')
print(json.dumps(took))"""
CANARY = """import json, sys, time
from http_client import Connection
port, seconds = int(sys.argv[1]), float(sys.argv[2])
client, gaps, end = Connection(port), [], time.monotonic() + seconds
client.request('POST', '/execute', json.dumps({'job_id': 'canary', 'prompt': 'Once upon', 'max_tokens': 4000,
               'temperature': 0, 'seed': 1, 'ignore_eos': True}).encode())
last = None
while time.monotonic() < end:
    assert client.socket.recv(65536), 'the stream broke off'
    now = time.monotonic()
    if last is not None:
        gaps.append(now - last)
    last = now
print(json.dumps(gaps))"""


def list_of(before: str, item: str, count: int, after: str) -> bytes:
    return (before + ','.join([item] * count) + after).encode()


def keys(objects: int, members: int) -> bytes:
    one = ','.join(f'"a key like all others {i}":1' for i in range(members))
    return ('{"metadata":{' + ','.join(f'"{i}":{{{one}}}' for i in range(objects)) + '}}').encode()


CHAT_PATH = '/v1/chat/completions'
# Each is refused, or answered without a job.
WORST: Dict[str, Tuple[str, bytes]] = {
    'detokenize': ('/detokenize', json.dumps({'tokens': list(range(60, 260)) * 1_000}).encode()),
    'tokenize': ('/tokenize', json.dumps({'content': 'a b1cZ.' * (MANY // 7), 'with_pieces': True}).encode()),
    'an escaped prompt': ('/execute', b'{"job_id":"x","max_tokens":1,"prompt":"' + b'\\ud83d\\ude00' * MANY
                          + b'"}'),
    'token ids': ('/v1/completions', json.dumps({'prompt': list(range(60, 260)) * 1_000}).encode()),
    'objects of many keys': (CHAT_PATH, keys(8, 4_000)),
    'many small objects': (CHAT_PATH, list_of('{"metadata":{"a":[', '{"a":1}', 120_000, ']}}')),
    'many numbers': (CHAT_PATH, list_of('{"metadata":{"a":[', '1', 480_000, ']}}')),
    'many parts of a message': (CHAT_PATH, list_of('{"messages":[{"role":"user","content":[',
                                                   '{"type":"text","text":"a"}', 36_000, ']}]}')),
    'many stop strings': (CHAT_PATH, list_of('{"messages":[{"role":"user","content":"x"}],"stop":[', '"s"',
                                             240_000, ']}')),
    'an id of many escapes': ('/cancel', b'{"job_id":"' + b'\\u0041' * 160_000 + b'"}'),
}


@pytest.fixture(scope='module')
def worker(slow_model, tmp_path_factory):
    """On one processor, with its clients on another, where there are two."""
    mine = sorted(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, mine[:1])  # what is started now inherits it
        running = start(slow_model, tmp_path_factory.mktemp('io'), '--slots', '1', '--max-queue', '16',
                        '--max-tokens-out', '4000', '--threads', '1')
        os.sched_setaffinity(0, mine[1:2] or mine)
        with running:
            yield running
    finally:
        os.sched_setaffinity(0, mine)


def spawn(script: str, *arguments) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, '-B', '-c', script, *map(str, arguments)],
                            cwd=Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def result_of(process: subprocess.Popen):
    out, _ = process.communicate(timeout=PATIENCE * 4)
    assert process.returncode == 0
    return json.loads(out)


def p99(values: List[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def measure(worker: Worker, path: str = '', body: bytes = b'') -> Tuple[float, float]:
    """What /health takes and how long a stream stands, in the slowest hundredth, beside such clients."""
    clients = [spawn(CLIENT, worker.port, path) for _ in range(CLIENTS if path else 0)]
    for client in clients:
        client.stdin.write(body)
        client.stdin.close()
        client.stdin = None
    for client in clients:
        assert client.stdout.readline() == b'\n', 'it has been answered'
    probe, canary = spawn(PROBE, worker.port, SECONDS), spawn(CANARY, worker.port, SECONDS)
    shown = p99(result_of(probe)), p99(result_of(canary))
    for client in clients:
        client.terminate()
    for client in clients:
        statuses = result_of(client)
        assert statuses and set(statuses) <= {'200', '400'}, statuses
    worker.wait_idle()
    return shown


def disturbance(worker: Worker, path: str, body: bytes) -> float:
    """Below 1: /health and a stream were within their limits, or as slow as they are without the clients."""
    health, gap = measure(worker, path, body)
    if health < HEALTH_LIMIT and gap < GAP_LIMIT:
        return max(health / HEALTH_LIMIT, gap / GAP_LIMIT)
    health_alone, gap_alone = measure(worker)
    return max(health / max(HEALTH_LIMIT, 3 * health_alone), gap / max(GAP_LIMIT, 3 * gap_alone))


def seconds_on_a_processor(worker: Worker) -> float:
    """Of the io thread, which is the first one."""
    return int(Path(f'/proc/{worker.pid}/task/{worker.pid}/schedstat').read_text().split()[0]) * 1e-9


def work_of(worker: Worker, path: str, body: bytes, requests: int = 8) -> float:
    """Seconds that the io thread works for a request."""
    with worker.connect() as client:
        before = seconds_on_a_processor(worker)
        for _ in range(requests):
            client.request('POST', path, body)
            assert client.read_response().status in (200, 400)
        return (seconds_on_a_processor(worker) - before) / requests


@pytest.mark.skipif(SANITIZED, reason='a sanitizer has a pace of its own')
@pytest.mark.parametrize('path, body', WORST.values(), ids=WORST)
def test_the_io_thread_only_receives_a_long_body(worker, path, body):
    """A mebibyte takes one to two milliseconds to receive and 5 to 40 more to read."""
    limit = 0.0015 + 0.0025 * len(body) / (1 << 20)
    fastest(lambda: work_of(worker, path, body), limit, apart=0.1)


@pytest.mark.parametrize('path, body', WORST.values(), ids=WORST)
def test_health_and_a_stream_go_on_beside_the_worst_bodies(worker, path, body):
    if SANITIZED:
        measure(worker, path, body)
        return
    never_stalls(lambda: disturbance(worker, path, body), 1.0, worker.pid)


SHORT = {
    'a chat': (CHAT_PATH, CHAT),
    'a chat without messages': (CHAT_PATH, {'temperature': 0}),
    'a chat of an unknown role': (CHAT_PATH, {'messages': [{'role': 'x', 'content': 'y'}]}),
    'a text': ('/v1/completions', {'prompt': 'Once upon a time', 'temperature': 0, 'max_tokens': 5}),
    'a text of no length': ('/v1/completions', {'prompt': 'x', 'max_tokens': -5}),
    'an execution': ('/execute', {'job_id': 'x', 'prompt': 'x', 'max_tokens': 3, 'temperature': 0,
                                  'seed': 1}),
    'an execution without a prompt': ('/execute', {'job_id': 'x'}),
    'a text to tokens': ('/tokenize', {'content': 'Once upon a time', 'with_pieces': True}),
    'no text to tokens': ('/tokenize', {'content': 3}),
    'tokens to a text': ('/detokenize', {'tokens': [60, 61, 62]}),
    'no tokens to a text': ('/detokenize', {'tokens': [-1]}),
    'a cancel': ('/cancel', {'job_id': 'nobody'}),
    'a cancel of nothing': ('/cancel', {}),
    'a shutdown with a field': ('/shutdown', {'now': True}),
}


def without_times(body: bytes) -> bytes:
    """An answer without what differs from one request to the next."""
    body = re.sub(rb'"(id|created|started_at)":("[^"]*"|\d+)', b'', body)
    return re.sub(rb'"(\w+_ms|tokens_per_second|tokens_cached|cached_tokens)":[0-9.]+', b'', body)


@pytest.mark.parametrize('path, asked', SHORT.values(), ids=SHORT)
def test_where_a_body_is_read_does_not_show(worker, path, asked):
    body = json.dumps(asked).encode()
    at_once = worker.call('POST', path, body)
    beside = worker.call('POST', path, body[:-1] + b' ' * 8_192 + b'}')
    assert beside.status == at_once.status
    assert without_times(beside.body) == without_times(at_once.body)
    assert set(beside.headers) == set(at_once.headers)


def test_no_more_tokens_are_made_text_than_a_context_holds(worker):
    limit = json.loads(worker.get('/v1/models').body)['data'][0]['meta']['context_tokens']
    assert worker.call('POST', '/detokenize', {'tokens': [60] * limit}).status == 200
    refused = worker.call('POST', '/detokenize', {'tokens': [60] * (limit + 1)})
    assert refused.status == 400 and refused.error['param'] == 'tokens'
    assert str(limit) in refused.error['message'] and str(limit + 1) in refused.error['message']
