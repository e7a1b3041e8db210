"""Bytes that no honest client sends. Each is refused, or taken as the one request that it is; in no case is
what follows a refusal read as a request, and in no case does the connection stand for long."""
import random
import re
import time
from typing import Dict, Tuple

from client import Closed, Connection, JSON, encoded, execute_body
from loads import drop, open_socket

HOST = b'Host: 127.0.0.1'
CANCEL = b'{"job_id":"x"}'
LENGTH = b'Content-Length: 14'
CHUNKED = b'Transfer-Encoding: chunked'
WITHIN = 8.0


def post(*fields: bytes, body: bytes = b'', line: bytes = b'POST /cancel HTTP/1.1',
         host: bytes = HOST) -> bytes:
    return b'\r\n'.join((line, *([host] if host else []), JSON) + fields) + b'\r\n\r\n' + body


def get(path: bytes, *fields: bytes, version: bytes = b'HTTP/1.1', method: bytes = b'GET') -> bytes:
    return b'\r\n'.join((method + b' ' + path + b' ' + version, HOST) + fields) + b'\r\n\r\n'


_HIDDEN = encoded(execute_body(job_id='smuggled', max_tokens=1))
SMUGGLED = post(b'Content-Length: %d' % len(_HIDDEN), body=_HIDDEN, line=b'POST /execute HTTP/1.1')

# name: (bytes, what must come): 'refused' is 4xx, 5xx or nothing, then a close; 'no' is 4xx or 5xx; 'one' is
# at most one answer of any kind; a number is that status, a list of them one for each request in it.
CASES: Dict[str, Tuple[bytes, object]] = {
    'CL.TE': (post(b'Content-Length: 6', CHUNKED, body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'TE.CL': (post(CHUNKED, b'Content-Length: 3', body=b'5c\r\n' + SMUGGLED), 'refused'),
    'TE.TE twice': (post(CHUNKED, b'Transfer-Encoding: identity', body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'TE xchunked': (post(b'Transfer-Encoding: xchunked', body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'TE chunked, identity': (post(b'Transfer-Encoding: chunked, identity', body=b'0\r\n\r\n' + SMUGGLED),
                             'refused'),
    'TE identity, chunked': (post(b'Transfer-Encoding: identity, chunked', body=b'0\r\n\r\n' + SMUGGLED),
                             'refused'),
    'TE with a vertical tab':
        (post(b'Transfer-Encoding:\x0bchunked', body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'TE with a NUL': (post(b'Transfer-Encoding: chunked\x00', body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'TE with a tab before its value': (post(b'Transfer-Encoding:\tchunked', body=b'e\r\n' + CANCEL
                                            + b'\r\n0\r\n\r\n'), 'one'),
    'TE in quotes': (post(b'Transfer-Encoding: "chunked"', body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'TE in HTTP/1.0': (post(CHUNKED, body=b'0\r\n\r\n' + SMUGGLED, line=b'POST /cancel HTTP/1.0'), 'refused'),
    'CL twice, differing': (post(LENGTH, b'Content-Length: 0', body=CANCEL + SMUGGLED), 'refused'),
    'CL twice, equal': (post(LENGTH, LENGTH, body=CANCEL + SMUGGLED), 'refused'),
    'CL 14, 14': (post(b'Content-Length: 14, 14', body=CANCEL + SMUGGLED), 'refused'),
    'CL +14': (post(b'Content-Length: +14', body=CANCEL + SMUGGLED), 'refused'),
    'CL 0xe': (post(b'Content-Length: 0xe', body=CANCEL + SMUGGLED), 'refused'),
    'CL -1': (post(b'Content-Length: -1', body=CANCEL + SMUGGLED), 'refused'),
    'CL 1 4': (post(b'Content-Length: 1 4', body=CANCEL + SMUGGLED), 'refused'),
    'CL empty': (post(b'Content-Length:', body=SMUGGLED), 'refused'),
    'CL 2^64': (post(b'Content-Length: 18446744073709551616', body=SMUGGLED), 'refused'),
    'CL 2^64 + 14': (post(b'Content-Length: 18446744073709551630', body=CANCEL + SMUGGLED), 'refused'),
    'CL 2^63 - 1': (post(b'Content-Length: 9223372036854775807', body=SMUGGLED), 'refused'),
    'CL with a form feed': (post(b'Content-Length: 14\x0c', body=CANCEL + SMUGGLED), 'refused'),
    'CL spaces around': (post(b'Content-Length:   14  ', body=CANCEL), 202),
    'CL of a name with a space': (post(b'Content-Length : 14', body=CANCEL + SMUGGLED), 'refused'),
    'a body with GET': (get(b'/live', LENGTH) + CANCEL, 'one'),
    'bare LF': (post(LENGTH, body=CANCEL).replace(b'\r\n', b'\n') + SMUGGLED, 'refused'),
    'bare CR': (post(b'X: a\rContent-Length: 0', LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'NUL in a header': (post(b'X: a\x00b', LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'NUL in a name': (post(b'X\x00: a', LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'obs-fold': (post(b'X: a\r\n b', LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'obs-fold of the length': (post(b'Content-Length:\r\n 14', body=CANCEL + SMUGGLED), 'refused'),
    'space before the colon': (post(b'Transfer-Encoding : chunked', body=b'0\r\n\r\n' + SMUGGLED), 'refused'),
    'a name that is no token': (post(b'X(y): a', LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'a name of UTF-8': (post('Ünicode: a'.encode(), LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'chunk size overflow': (post(CHUNKED, body=b'FFFFFFFFFFFFFFFFF\r\n' + SMUGGLED), 'refused'),
    'chunk size 2^64 - 1': (post(CHUNKED, body=b'FFFFFFFFFFFFFFFF\r\n' + SMUGGLED), 'refused'),
    'chunk size of 10,000 zeros':
        (post(CHUNKED, body=b'0' * 10_000 + b'e\r\n' + CANCEL + b'\r\n0\r\n\r\n'), 'one'),
    'chunk size 0x': (post(CHUNKED, body=b'0xe\r\n' + CANCEL + b'\r\n0\r\n\r\n' + SMUGGLED), 'refused'),
    'chunk size with a space':
        (post(CHUNKED, body=b' e\r\n' + CANCEL + b'\r\n0\r\n\r\n' + SMUGGLED), 'refused'),
    'chunk size ended by LF': (post(CHUNKED, body=b'e\n' + CANCEL + b'\r\n0\r\n\r\n' + SMUGGLED), 'refused'),
    'chunk without its CRLF': (post(CHUNKED, body=b'e\r\n' + CANCEL + b'XX0\r\n\r\n' + SMUGGLED), 'refused'),
    'chunk extension of 1 MiB': (post(CHUNKED, body=b'e;' + b'a' * 2**20 + b'\r\n'), 'refused'),
    'a chunk extension in each chunk': (post(CHUNKED, body=b''.join(
        b'1;' + b'x' * 500 + b'\r\n' + CANCEL[i:i + 1] + b'\r\n' for i in range(14)) + b'0\r\n\r\n'), 'one'),
    'a line end in a quoted extension':
        (post(CHUNKED, body=b'e;a="\r\n' + CANCEL + b'\r\n0\r\n\r\n' + SMUGGLED),
                                         'refused'),
    'trailer flood': (post(CHUNKED, body=b'e\r\n' + CANCEL + b'\r\n0\r\n' + b'X: y\r\n' * 200_000 + b'\r\n'),
                      'refused'),
    'a trailer that frames':
        (post(CHUNKED, body=b'e\r\n' + CANCEL + b'\r\n0\r\nContent-Length: 99\r\n\r\n'), 'one'),
    'no Host': (b'GET /live HTTP/1.1\r\n\r\n' + SMUGGLED, 'refused'),
    'two Hosts': (b'GET /live HTTP/1.1\r\n' + HOST + b'\r\n' + HOST + b'\r\n\r\n' + SMUGGLED, 'refused'),
    'an empty Host': (post(LENGTH, body=CANCEL, host=b'Host:') + SMUGGLED, 'one or two'),
    'a Host with a slash': (post(LENGTH, body=CANCEL, host=b'Host: localhost/x') + SMUGGLED, 'refused'),
    'a Host with a user':
        (post(LENGTH, body=CANCEL, host=b'Host: localhost@evil.example') + SMUGGLED, 'refused'),
    'a Host with two ports': (post(LENGTH, body=CANCEL, host=b'Host: localhost:80:80') + SMUGGLED, 'refused'),
    'a Host list': (post(LENGTH, body=CANCEL, host=b'Host: localhost, evil.example') + SMUGGLED, 'refused'),
    'absolute-form': (post(LENGTH, body=CANCEL, line=b'POST http://127.0.0.1/cancel HTTP/1.1'), 202),
    'absolute-form of another host':
        (post(LENGTH, body=CANCEL, line=b'POST http://evil.example/cancel HTTP/1.1'),
                                      'no'),
    'target //': (get(b'//metrics'), 'no'),
    'target with %00': (get(b'/health%00'), 'no'),
    'target with dots': (get(b'/v1/../health'), 'no'),
    'target *': (get(b'*', method=b'OPTIONS'), 'one'),
    'target of 60 KiB': (get(b'/' + b'a' * 60_000), 'refused'),
    'target with a space': (get(b'/hea lth') + SMUGGLED, 'refused'),
    'target with a raw byte above 127': (get(b'/h\xe4lth') + SMUGGLED, 'one or two'),
    'HTTP/0.9': (b'GET /health\r\n\r\n' + SMUGGLED, 'refused'),
    'HTTP/1.0 keep-alive': ((b'GET /live HTTP/1.0\r\nConnection: keep-alive\r\n' + HOST + b'\r\n\r\n') * 2,
                            [200, 200]),
    'HTTP/1.2': (get(b'/live', version=b'HTTP/1.2'), 'one'),
    'HTTP/3.0': (get(b'/live', version=b'HTTP/3.0') + SMUGGLED, 'refused'),
    'HTTP/2 preface': (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00', 'refused'),
    'TLS ClientHello': (b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + bytes(range(64)), 'refused'),
    'an SSH banner': (b'SSH-2.0-OpenSSH_9.2\r\n', 'refused'),
    'a PROXY line': (b'PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n' + get(b'/live'), 'refused'),
    'PROXY version 2': (b'\r\n\r\n\x00\r\nQUIT\n!\x11\x00\x0c' + bytes(12) + get(b'/live'), 'refused'),
    'Expect: bad value': (post(b'Expect: 200-maybe', LENGTH, body=CANCEL) + SMUGGLED, 'refused'),
    'Upgrade: h2c': (post(LENGTH, b'Upgrade: h2c', b'Connection: Upgrade, HTTP2-Settings', body=CANCEL), 202),
    'Upgrade: websocket': (get(b'/live', b'Upgrade: websocket', b'Connection: Upgrade'), 'one'),
    'CONNECT': (get(b'evil.example:443', method=b'CONNECT'), 'no'),
    'TRACE': (get(b'/live', b'Authorization: Bearer secret', method=b'TRACE'), 'no'),
    'a method of 9,000 letters': (get(b'/live', method=b'G' * 9_000), 'no'),
    'a method with a quote': (get(b'/live', method=b'G"T') + SMUGGLED, 'refused'),
    '64 KiB header': (get(b'/live', b'X: ' + b'a' * 65_536), 'refused'),
    '10,000 headers': (get(b'/live', *[b'X%d: y' % i for i in range(10_000)]), 'refused'),
    'empty lines before, 100,000': (b'\r\n' * 100_000 + get(b'/live'), 'refused'),
    'pipelined 100': (get(b'/live') * 50 + post(LENGTH, body=CANCEL) * 50, [200] * 50 + [202] * 50),
    'pipelined behind a close': (get(b'/live', b'Connection: close') + SMUGGLED, 'one'),
    'noise': (bytes((i * 167 + 13) % 256 for i in range(4096)), 'refused'),
}


def judge(data: bytes, expected, port: int) -> Tuple[bool, str]:
    """Sends the bytes, half-closes nothing, and reads until a close or until nothing comes."""
    begin = time.monotonic()
    with Connection(port, timeout=WITHIN) as connection:
        try:
            connection.send(data)
        except (ConnectionError, TimeoutError):
            pass
        if isinstance(expected, (int, list)):
            wanted = [expected] if isinstance(expected, int) else expected
            try:
                got = [connection.read_response().status for _ in wanted]
            except (Closed, ConnectionError, TimeoutError) as failure:
                return False, type(failure).__name__
            return got == wanted, f'{len(got)} × {got[0]}'
        if expected == 'no':
            status = connection.read_response().status
            return status >= 400, str(status)
        answer = connection.drain(WITHIN if expected == 'refused' else 0.4)
    took = time.monotonic() - begin
    statuses = [int(s) for s in re.findall(rb'HTTP/1\.[01] (\d{3}) ', answer)]
    text = ', '.join(map(str, statuses)) or 'closed'
    if expected == 'one or two':
        return len(statuses) <= 2, text
    if expected == 'one':
        return len(statuses) <= 1 and b'event:' not in answer, text
    if took > WITHIN - 0.5:
        return False, f'{text}, but open after {took:.1f} s'
    return len(statuses) <= 1 and all(s >= 400 for s in statuses) and b'event:' not in answer, text


def all_of_them(stop, port: int, seed: int) -> Dict[str, int]:
    """The whole list over and over in an order by the seed: a load."""
    rng, done = random.Random(seed), 0
    names = list(CASES)
    while not stop.is_set():
        rng.shuffle(names)
        for name in names:
            if stop.is_set():
                break
            try:
                s = open_socket(port)
                s.settimeout(0.3)
                try:
                    s.sendall(CASES[name][0])
                    s.recv(4096)
                except OSError:
                    pass
                drop([s])
                done += 1
            except OSError:
                time.sleep(0.01)
    return {'sent': done}
