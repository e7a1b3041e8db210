"""Bytes that no honest client sends: request smuggling, framing attacks, other protocols, odd closes.
Each must end in the right status or a close, never reach /execute, and leave the worker as it was."""
import json
import re
import socket
import threading
import time

import pytest

from http_client import Connection, Stream, check_stream
from worker_process import PATIENCE, STRETCH, Worker, request_body, wait_until

BODY = json.dumps({'job_id': 'smuggled', 'prompt': 'a', 'max_tokens': 1}).encode()
EXECUTE = (b'POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
           b'Content-Length: %d\r\n\r\n')
SMUGGLED = EXECUTE % len(BODY) + BODY


def post(*fields: bytes, body: bytes = b'', line: bytes = b'POST /cancel HTTP/1.1') -> bytes:
    head = (line, b'Host: localhost', b'Content-Type: application/json')
    return b'\r\n'.join(head + fields) + b'\r\n\r\n' + body


CANCEL = b'{"job_id":"x"}'
CHUNKED = b'Transfer-Encoding: chunked'
LENGTH = b'Content-Length: %d' % len(CANCEL)

REFUSED = [
    ('CL.TE', post(b'Content-Length: 6', CHUNKED, body=b'0\r\n\r\n' + SMUGGLED)),
    ('TE.CL', post(CHUNKED, b'Content-Length: 3', body=b'5c\r\n' + SMUGGLED)),
    ('TE.TE twice', post(CHUNKED, b'Transfer-Encoding: identity', body=b'0\r\n\r\n' + SMUGGLED)),
    ('xchunked', post(b'Transfer-Encoding: xchunked', body=b'0\r\n\r\n' + SMUGGLED)),
    ('chunked, identity', post(b'Transfer-Encoding: chunked, identity', body=b'0\r\n\r\n' + SMUGGLED)),
    ('vertical tab before chunked', post(b'Transfer-Encoding:\x0bchunked', body=b'0\r\n\r\n' + SMUGGLED)),
    ('space before the colon', post(b'Transfer-Encoding : chunked', body=b'0\r\n\r\n' + SMUGGLED)),
    ('folded header', post(b'Transfer-Encoding:\r\n chunked', body=b'0\r\n\r\n' + SMUGGLED)),
    ('Content-Length twice, differing', post(LENGTH, b'Content-Length: 0', body=CANCEL + SMUGGLED)),
    ('Content-Length twice, equal', post(LENGTH, LENGTH, body=CANCEL + SMUGGLED)),
    ('Content-Length list', post(b'Content-Length: 14, 14', body=CANCEL + SMUGGLED)),
    ('Content-Length +14', post(b'Content-Length: +14', body=CANCEL + SMUGGLED)),
    ('Content-Length 0xe', post(b'Content-Length: 0xe', body=CANCEL + SMUGGLED)),
    ('Content-Length -1', post(b'Content-Length: -1', body=CANCEL + SMUGGLED)),
    ('Content-Length 1 4', post(b'Content-Length: 1 4', body=CANCEL + SMUGGLED)),
    ('Content-Length empty', post(b'Content-Length:', body=SMUGGLED)),
    ('Content-Length 14.0', post(b'Content-Length: 14.0', body=CANCEL + SMUGGLED)),
    ('Content-Length 2^64', post(b'Content-Length: 18446744073709551616', body=SMUGGLED)),
    ('Content-Length 2^64 + 14', post(b'Content-Length: 18446744073709551630', body=CANCEL + SMUGGLED)),
    ('bare LF', post(LENGTH, body=CANCEL).replace(b'\r\n', b'\n') + SMUGGLED),
    ('bare CR', post(b'X: a\rContent-Length: 0', LENGTH, body=CANCEL) + SMUGGLED),
    ('NUL in a header', post(b'X: a\x00b', LENGTH, body=CANCEL) + SMUGGLED),
    ('no Host', b'GET /health HTTP/1.1\r\n\r\n' + SMUGGLED),
    ('two Hosts', b'GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n' + SMUGGLED),
    ('header without colon', post(b'Nonsense', LENGTH, body=CANCEL) + SMUGGLED),
    ('empty header name', post(b': a', LENGTH, body=CANCEL) + SMUGGLED),
    ('HTTP/1.1 with two spaces', b'GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n' + SMUGGLED),
    ('HTTP/0.9', b'GET /health\r\n\r\n' + SMUGGLED),
    ('HTTP/3.0', b'GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n' + SMUGGLED),
    ('http/1.1 in small letters', b'GET /health http/1.1\r\nHost: localhost\r\n\r\n' + SMUGGLED),
    ('HTTP/2 preface', b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\x00\x00\x00\x04\x00\x00\x00\x00\x00'),
    ('TLS hello', b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(range(64))),
    ('binary noise', bytes((i * 167 + 13) % 256 for i in range(512))),
    ('space in the target', b'GET /hea lth HTTP/1.1\r\nHost: localhost\r\n\r\n' + SMUGGLED),
    ('bad Expect', post(b'Expect: 200-maybe', LENGTH, body=CANCEL) + SMUGGLED),
    ('chunk size overflow', post(CHUNKED, body=b'FFFFFFFFFFFFFFFFF\r\n' + SMUGGLED)),
    ('chunk size negative', post(CHUNKED, body=b'-1\r\n' + SMUGGLED)),
    ('chunk size 0x', post(CHUNKED, body=b'0xe\r\n' + CANCEL + b'\r\n0\r\n\r\n' + SMUGGLED)),
    ('chunk without its CRLF', post(CHUNKED, body=b'e\r\n' + CANCEL + b'XX0\r\n\r\n' + SMUGGLED)),
    ('chunk extension of 1 MiB', post(CHUNKED, body=b'e;' + b'a' * 2**20 + b'\r\n')),
]


@pytest.mark.parametrize('data', [c[1] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused_and_closed(tiny, data):
    """A 4xx or 5xx or nothing, then a close; what follows is never read as a request."""
    with tiny.connect() as connection:
        try:
            connection.send(data)
        except ConnectionError:
            pass
        begin = time.monotonic()
        answer = connection.drain(20)
        assert time.monotonic() - begin < 8, 'it stays open, or until the limit of 10 s for a head'
    assert not answer or re.match(rb'HTTP/1\.[01] [45]\d\d ', answer), answer[:300]
    answers = re.findall(rb'HTTP/1\.[01] \d{3} ', answer)
    assert len(answers) <= 1, f'the bytes after the refusal were taken as a request: {answer!r}'
    assert b'event:' not in answer
    assert tiny.get('/health').status == 200


TAKEN = [
    ('chunked body', post(CHUNKED, body=b'e\r\n' + CANCEL + b'\r\n0\r\n\r\n')),
    ('Chunked in capitals', post(b'Transfer-Encoding: Chunked', body=b'E\r\n' + CANCEL + b'\r\n0\r\n\r\n')),
    ('chunk extension', post(CHUNKED, body=b'e;a=b\r\n' + CANCEL + b'\r\n0\r\n\r\n')),
    ('trailer', post(CHUNKED, body=b'e\r\n' + CANCEL + b'\r\n0\r\nX: y\r\n\r\n')),
    ('Content-Length with zeros', post(b'Content-Length: 00014', body=CANCEL)),
    ('Content-Length with spaces around', post(b'Content-Length:   14  ', body=CANCEL)),
    ('absolute form', post(LENGTH, body=CANCEL, line=b'POST http://localhost/cancel HTTP/1.1')),
    ('query', post(LENGTH, body=CANCEL, line=b'POST /cancel?x=1 HTTP/1.1')),
    ('Upgrade h2c is ignored',
     post(LENGTH, b'Upgrade: h2c', b'Connection: Upgrade, HTTP2-Settings', body=CANCEL)),
]


@pytest.mark.parametrize('data', [c[1] for c in TAKEN], ids=[c[0] for c in TAKEN])
def test_taken(tiny, data):
    with tiny.connect() as connection:
        connection.send(data)
        assert connection.read_response().status == 202


def test_expect_100_continue(tiny):
    with tiny.connect() as connection:
        connection.send(post(LENGTH, b'Expect: 100-continue'))
        assert connection.read_head().status == 100
        connection.send(CANCEL)
        assert connection.read_response().status == 202


def test_a_hundred_pipelined_requests(tiny):
    with tiny.connect() as connection:
        connection.send(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' * 50
                        + post(LENGTH, body=CANCEL) * 50)
        statuses = [connection.read_response().status for _ in range(100)]
    assert statuses == [200] * 50 + [202] * 50


def test_pipelined_behind_a_stream(tiny):
    body = json.dumps(request_body(max_tokens=4)).encode()
    with tiny.connect() as connection:
        connection.send(EXECUTE % len(body) + body
                        + b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
        stream = Stream(connection)
        assert stream.finish().name == 'end'
        assert connection.read_response().status == 200


def test_http_1_0_closes_and_keep_alive_is_honoured(tiny):
    with tiny.connect() as connection:
        connection.send(b'GET /health HTTP/1.0\r\n\r\n')
        assert connection.read_response().status == 200 and connection.at_end(PATIENCE)
    with tiny.connect() as connection:
        for _ in range(2):
            connection.send(b'GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n')
            assert connection.read_response().status == 200
    with tiny.connect() as connection:
        connection.send(b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        assert connection.read_response().status == 200 and connection.at_end(PATIENCE)


def test_half_close_after_the_request(tiny):
    """A client that says "no more from me" and waits gets its answer; for streams see test_room.py."""
    with tiny.connect() as connection:
        connection.request('GET', '/health')
        connection.half_close()
        assert connection.read_response().status == 200


def test_reset_in_every_place(tiny):
    body = json.dumps(request_body(max_tokens=50)).encode()
    whole = EXECUTE % len(body) + body
    for cut in [0, 1, 10, 30, len(whole) - len(body), len(whole) - 1, len(whole)]:
        for way in ('close', 'reset'):
            connection = tiny.connect()
            connection.send(whole[:cut])
            getattr(connection, way)()
    tiny.wait_idle()
    assert tiny.execute(max_tokens=2)[-1].name == 'end'


def test_client_that_reads_nothing_does_not_stall_others(slow):
    """A zero-window reader: its job may end by itself or be cut, the GPU thread never waits for it."""
    lazy = Connection(slow.port, receive_buffer=2048)
    lazy.request('POST', '/execute', json.dumps(request_body(max_tokens=300, ignore_eos=True)).encode())
    wait_until(lambda: slow.running() == 1, PATIENCE, 'the lazy job runs')
    begin = time.monotonic()
    assert slow.execute(max_tokens=3)[-1].name == 'end', 'the next job ran'
    assert time.monotonic() - begin < 10 * STRETCH
    stream = Stream(lazy)
    assert check_stream(stream.rest()).name == 'end', 'all events had been kept for the lazy reader'
    lazy.close()


def test_one_byte_at_a_time(tiny):
    body = json.dumps(request_body(max_tokens=2)).encode()
    whole = EXECUTE % len(body) + body
    with tiny.connect() as connection:
        for byte in whole:
            connection.send(bytes([byte]))
        assert Stream(connection).finish().name == 'end'


def test_many_idle_connections(tiny):
    idle = [tiny.connect() for _ in range(500)]
    try:
        assert tiny.get('/health').status == 200
        assert tiny.execute(max_tokens=2)[-1].name == 'end'
    finally:
        for connection in idle:
            connection.close()
    wait_until(lambda: tiny.descriptors() < 100, PATIENCE, 'the descriptors are given back')


def test_slow_clients_are_cut_off(tiny_model):
    """A head must come within 10 s and a body within 30 s, in however small pieces, and meanwhile others
    are served."""
    with Worker('--model', tiny_model) as worker:
        outcome = {}

        def drip(name, first, rest):
            begin = time.monotonic()
            with worker.connect(timeout=60) as connection:
                connection.send(first)
                connection.socket.settimeout(0.5)
                for byte in rest:
                    try:
                        connection.send(bytes([byte]))
                        if connection.socket.recv(4096) == b'':
                            break
                        outcome[name + ' answer'] = True
                    except (TimeoutError, socket.timeout):
                        continue
                    except ConnectionError:
                        break
            outcome[name] = time.monotonic() - begin

        cases = {'head': (b'GET /health HTTP/1.1\r\nX: ', b'a' * 200),
                 'body': (EXECUTE % 5000 + b'{', b' ' * 200),
                 'nothing': (b'G', b'E' * 200)}
        threads = [threading.Thread(target=drip, args=(name, *case)) for name, case in cases.items()]
        for thread in threads:
            thread.start()
        for _ in range(20):
            assert worker.execute(max_tokens=3)[-1].name == 'end'
        for thread in threads:
            thread.join(90)
        assert 8 < outcome['head'] < 15 * STRETCH and 8 < outcome['nothing'] < 15 * STRETCH, outcome
        assert 25 < outcome['body'] < 40 * STRETCH, outcome
