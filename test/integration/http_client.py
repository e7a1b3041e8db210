"""A raw-socket HTTP/1.1 and SSE client that is strict about what it accepts and free in what it sends.

Everything it reads ends by a deadline; a peer that stays silent raises TimeoutError.
"""
import json
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Tuple

READ_TIMEOUT = 180.0
EVENT_NAMES = {'started', 'token', 'metrics', 'end', 'error'}


class Closed(Exception):
    """The peer closed the connection before what was asked for had come."""


@dataclass
class Response:
    status: int
    reason: str
    headers: Dict[str, str]
    body: bytes = b''

    def json(self):
        try:
            return json.loads(self.body.decode('utf-8'))
        except ValueError as failure:
            raise AssertionError(f'{self.status}: the body is no JSON: {self.body[:300]!r}') from failure

    @property
    def error(self) -> dict:
        return self.json()['error']


@dataclass
class Event:
    name: str
    data: dict
    id: Optional[str]
    raw: bytes
    at: float = field(default_factory=time.monotonic)


class Connection:
    """One TCP connection to the worker."""

    def __init__(self, port: int, timeout: float = READ_TIMEOUT, receive_buffer: int = 0, source: str = ''):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.timeout = timeout
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b''

    def __enter__(self) -> 'Connection':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.socket.close()

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, method: str, path: str, body: Optional[bytes] = None,
                headers: Optional[Dict[str, str]] = None) -> None:
        lines = [f'{method} {path} HTTP/1.1', 'Host: localhost']
        if body is not None:
            lines += ['Content-Type: application/json', f'Content-Length: {len(body)}']
        lines += [f'{name}: {value}' for name, value in (headers or {}).items()]
        self.send('\r\n'.join(lines).encode() + b'\r\n\r\n' + (body or b''))

    def _fill(self) -> None:
        chunk = self.socket.recv(65536)
        if not chunk:
            raise Closed(f'closed by the worker; unread: {self.buffer[:200]!r}')
        self.buffer += chunk

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            self._fill()
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self._fill()
        found, self.buffer = self.buffer[:count], self.buffer[count:]
        return found

    def read_head(self) -> Response:
        lines = self._until(b'\r\n\r\n').decode('ascii').split('\r\n')
        version, status, reason = (lines[0].split(' ', 2) + [''])[:3]
        assert version in ('HTTP/1.1', 'HTTP/1.0'), lines[0]
        headers: Dict[str, str] = {}
        for line in lines[1:]:
            name, value = line.split(':', 1)
            assert name.lower() not in headers, f'header twice: {name}'
            headers[name.lower()] = value.strip()
        assert not ('content-length' in headers and 'transfer-encoding' in headers), headers
        return Response(int(status), reason, headers)

    def chunks(self) -> Iterator[bytes]:
        while True:
            size = int(self._until(b'\r\n'), 16)
            data = self._exactly(size)
            assert self._exactly(2) == b'\r\n'
            if size == 0:
                return
            yield data

    def read_response(self, head_only: bool = False) -> Response:
        response = self.read_head()
        if head_only or response.status in (204, 304) or response.status < 200:
            return response
        if response.headers.get('transfer-encoding') == 'chunked':
            response.body = b''.join(self.chunks())
        else:
            response.body = self._exactly(int(response.headers['content-length']))
        return response

    def at_end(self, within: float) -> bool:
        """Whether the worker closes (FIN or RST) within so many seconds without sending more."""
        self.socket.settimeout(within)
        try:
            return not self.buffer and self.socket.recv(1) == b''
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(self.timeout)

    def drain(self, within: float) -> bytes:
        """Everything the worker sends until it closes or so many seconds have passed."""
        deadline = time.monotonic() + within
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                self._fill()
        except (Closed, ConnectionError, TimeoutError):
            pass
        self.socket.settimeout(self.timeout)
        found, self.buffer = self.buffer, b''
        return found


def parse_event(block: bytes) -> Optional[Event]:
    """One SSE block without its blank line; None for a block of comments. Strict: the worker emits
    only lines `event:`, `id:`, `data:` and comments, in valid UTF-8."""
    name, identity, data = None, None, []
    for line in block.decode('utf-8', errors='strict').split('\n'):
        assert not line.endswith('\r'), line
        if line.startswith(':'):
            continue
        key, separator, value = line.partition(':')
        assert separator and key in ('event', 'id', 'data'), f'unexpected SSE line {line!r}'
        value = value[1:] if value.startswith(' ') else value
        if key == 'event':
            assert name is None
            name = value
        elif key == 'id':
            assert identity is None
            identity = value
        else:
            data.append(value)
    if name is None and not data:
        return None
    assert name in EVENT_NAMES, f'unknown event {name!r}'
    return Event(name, json.loads('\n'.join(data)), identity, block)


class Stream:
    """A running /execute. `response` is the head; iterate for events; the connection stays open
    for reuse unless the worker says otherwise."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.response = connection.read_head()
        self.comments = 0
        self.seen: List[Event] = []
        if self.response.status != 200:
            self.response.body = connection._exactly(int(self.response.headers['content-length']))
        self._events = self._parse()

    def _parse(self) -> Iterator[Event]:
        text = b''
        for chunk in self.connection.chunks():
            text += chunk
            while b'\n\n' in text:
                block, text = text.split(b'\n\n', 1)
                event = parse_event(block)
                if event is None:
                    self.comments += 1
                else:
                    self.seen.append(event)
                    yield event
        assert text == b'', f'the stream ends inside an event: {text!r}'

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def next(self) -> Event:
        return next(self._events)

    def until(self, name: str, count: int = 1) -> List[Event]:
        """Events up to and with the count-th one of that name."""
        seen: List[Event] = []
        for event in self._events:
            seen.append(event)
            if event.name == name:
                count -= 1
                if count == 0:
                    return seen
        raise AssertionError(f'no event {name}; got {[e.name for e in seen][-5:]}')

    def rest(self) -> List[Event]:
        return list(self._events)

    def finish(self) -> Event:
        """Reads to the end, checks the whole stream and returns its terminal event."""
        self.rest()
        return check_stream(self.seen)

    def close(self) -> None:
        self.connection.close()


def text_of(events: List[Event]) -> str:
    return ''.join(e.data['t'] for e in events if e.name == 'token')


def check_stream(events: List[Event]) -> Event:
    """The order and payload rules of M0-W-1311, 1312 and 1510. Returns the terminal event."""
    names = [e.name for e in events]
    assert names, 'no event at all'
    assert names[-1] in ('end', 'error'), names[-5:]
    assert sum(n in ('end', 'error') for n in names) == 1, 'more than one terminal event'
    assert names.count('started') <= 1
    if names[0] != 'started':
        assert names == ['error'], f'tokens without started: {names[:5]}'
    indices = []
    for event in events:
        json.dumps(event.data, ensure_ascii=False).encode('utf-8')  # no lone surrogates
        if event.name == 'started':
            assert set(event.data) >= {'job_id', 'model', 'started_at', 'seed'}, event.data
        elif event.name == 'token':
            assert isinstance(event.data['t'], str) and isinstance(event.data['i'], int)
            assert event.id == str(event.data['i']), (event.id, event.data)
            indices.append(event.data['i'])
    assert indices == sorted(set(indices)), indices
    last = events[-1]
    if last.name == 'end':
        assert isinstance(last.data['tokens_out'], int) and isinstance(last.data['decode_time_ms'], int)
        assert abs(last.data['decode_time_ms'] - last.data['decode_ms']) <= 0.5
        assert last.data['finish_reason'] in ('stop', 'length')
        # Text that the end-of-generation token set free has that token's index.
        beyond = last.data['tokens_out'] + (last.data['finish_reason'] == 'stop')
        assert not indices or indices[-1] < beyond, (indices[-1], last.data)
    else:
        assert set(last.data) >= {'code', 'message', 'retriable'}, last.data
        assert isinstance(last.data['retriable'], bool) and last.data['message']
    return last


def split_metric(line: str) -> Tuple[str, float]:
    series, value = line.rsplit(' ', 1)
    return series, float(value)


def metrics_of(text: str) -> Dict[str, float]:
    """The series of a scrape, with their labels, and their values."""
    return dict(split_metric(line) for line in text.splitlines() if line and not line.startswith('#'))
