"""Requests as bytes, and one way to ask. What a probe sends is free; what comes back is read strictly."""
import json
import sys
from pathlib import Path
from typing import Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'integration'))

from http_client import Closed, Connection, Response  # noqa: E402,F401

JSON = b'Content-Type: application/json'


def encoded(body) -> Optional[bytes]:
    """Bytes as they are, nothing, or something for json.dumps."""
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()


def request(port: int, method: str, path: str, body=None, *fields: bytes, host: Optional[bytes] = None,
            kind: bytes = JSON) -> bytes:
    """A whole request as an honest client of this machine sends it, and what `fields` add."""
    lines = [f'{method} {path} HTTP/1.1'.encode(),
             b'Host: ' + (host if host is not None else b'127.0.0.1:%d' % port)]
    payload = encoded(body)
    if payload is not None:
        lines += [kind] if kind else []
        lines.append(b'Content-Length: %d' % len(payload))
    return b'\r\n'.join((*lines, *fields)) + b'\r\n\r\n' + (payload or b'')


def ask(port: int, method: str, path: str, body=None, *fields: bytes, timeout: float = 20.0,
        **options) -> Response:
    """One request on a connection of its own."""
    with Connection(port, timeout=timeout) as connection:
        connection.send(request(port, method, path, body, *fields, **options))
        return connection.read_response(head_only=method == 'HEAD')


def status_of(port: int, *arguments, **options) -> str:
    """The status as text, or how it failed: for probes that judge either."""
    try:
        return str(ask(port, *arguments, **options).status)
    except TimeoutError:
        return 'timeout'
    except (Closed, ConnectionError) as failure:
        return 'refused' if isinstance(failure, ConnectionRefusedError) else 'closed'


def health(port: int, timeout: float = 20.0) -> dict:
    return ask(port, 'GET', '/health', timeout=timeout).json()


def metrics(port: int, timeout: float = 20.0) -> dict:
    text = ask(port, 'GET', '/metrics', timeout=timeout).body.decode()
    lines = (line.rsplit(' ', 1) for line in text.splitlines() if line and not line.startswith('#'))
    return {series: float(value) for series, value in lines}


def execute_body(**changes) -> dict:
    """A valid and greedy /execute."""
    body = {'job_id': 'attack', 'prompt': 'Once upon a time', 'max_tokens': 8, 'temperature': 0, 'seed': 7,
            'ignore_eos': True, **changes}
    return {k: v for k, v in body.items() if v is not None}


def chat_body(content='Once upon a time', **changes) -> dict:
    body = {'messages': [{'role': 'user', 'content': content}], 'max_tokens': 4, 'temperature': 0,
            'ignore_eos': True, **changes}
    return {k: v for k, v in body.items() if v is not None}
