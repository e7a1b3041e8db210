"""A collector of traces that keeps what it is sent, answers as it is told, and checks the encoding."""
import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Dict, List

from worker_process import PATIENCE, wait_until

# The published schema, where it is here: reads each body, refuses what it does not know.
SCHEMA = os.environ.get('ORCD_OTLP', '')
READ = '''
import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
for line in sys.stdin:
    json_format.Parse(line, ExportTraceServiceRequest())
'''
IDS = {'traceId': 16, 'spanId': 8, 'parentSpanId': 8}


def with_base64(value):
    """Ids as the JSON of protobuf has bytes. OTLP has them in hexadecimal digits."""
    if isinstance(value, list):
        return [with_base64(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {key: with_base64(one) for key, one in value.items()}
    for key, size in IDS.items():
        if key in out:
            raw = bytes.fromhex(out[key])
            assert len(raw) == size and out[key] == out[key].lower()
            out[key] = base64.b64encode(raw).decode()
    return out


def check_schema(bodies: List[bytes]) -> None:
    """Each body is an ExportTraceServiceRequest."""
    lines = [json.dumps(with_base64(json.loads(body))) for body in bodies]
    if not SCHEMA or not lines:
        return
    run = subprocess.run([sys.executable, '-c', READ], input='\n'.join(lines).encode(), timeout=PATIENCE,
                         env={**os.environ, 'PYTHONPATH': SCHEMA}, stderr=subprocess.PIPE, check=False)
    assert run.returncode == 0, run.stderr.decode()


def plain(value: dict):
    """An AnyValue as Python has it."""
    (kind, content), = value.items()
    if kind == 'arrayValue':
        return [plain(one) for one in content['values']]
    if kind == 'intValue':
        assert isinstance(content, str), '64-bit integers are texts'
        return int(content)
    assert kind == 'stringValue' and isinstance(content, str)
    return content


def attributes(holder: dict) -> Dict[str, object]:
    pairs = [(one['key'], plain(one['value'])) for one in holder['attributes']]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


class Span:
    def __init__(self, raw: dict):
        self.raw, self.name, self.kind = raw, raw['name'], raw['kind']
        self.trace, self.id, self.parent = raw['traceId'], raw['spanId'], raw.get('parentSpanId')
        self.begin, self.end = int(raw['startTimeUnixNano']), int(raw['endTimeUnixNano'])
        self.attributes = attributes(raw)
        self.failed = raw['status'].get('code') == 2
        assert isinstance(raw['startTimeUnixNano'], str) and self.begin <= self.end


class Collector:
    """`answers`: status, header fields and body in turn, the last one for ever; None hangs."""

    def __init__(self, *answers, port: int = 0):
        self.answers = list(answers) or [(200, {}, b'{}')]
        self.bodies: List[bytes] = []
        self.accepted: List[bytes] = []
        self.paths: List[str] = []
        self.over = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['content-length']))
                assert self.headers['content-type'] == 'application/json'
                collector.paths.append(self.path)
                collector.bodies.append(body)
                collector.answer(self, body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(('127.0.0.1', port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        self.url = f'http://127.0.0.1:{self.port}'
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, handler, body: bytes) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            self.over.wait(PATIENCE)
            return
        if isinstance(answer, bytes):
            handler.wfile.write(answer)
            return
        status, fields, content = answer
        if status == 200:
            self.accepted.append(body)
        handler.send_response(status)
        for name, value in {**fields, 'Content-Length': str(len(content))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def spans(self) -> List[Span]:
        found = []
        for body in list(self.accepted):
            for resource in json.loads(body)['resourceSpans']:
                for scope in resource['scopeSpans']:
                    found += [Span(raw) for raw in scope['spans']]
        return found

    def resource(self) -> Dict[str, object]:
        return attributes(json.loads(self.accepted[0])['resourceSpans'][0]['resource'])

    def wait(self, servers: int = 1) -> List[Span]:
        """All spans, once there are those of so many requests."""
        def came() -> bool:
            return len([span for span in self.spans() if span.kind == 2]) >= servers
        wait_until(came, PATIENCE, 'spans came', 0.02)
        return self.spans()

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
