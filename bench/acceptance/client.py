"""A worker seen from outside: its process, and requests over plain sockets."""
import http.client
import json
import re
import subprocess
import time
import urllib.parse
import uuid
from pathlib import Path
from typing import Dict, Iterator, List, Optional

START_LIMIT = 600.0  # seconds
ANSWER_LIMIT = 300.0


class Failure(Exception):
    """What ends the measurement, in words for the operator."""


class Client:
    def __init__(self, url: str, key: str = ''):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != 'http' or not parts.hostname:
            raise Failure(f'{url} is no http:// URL')
        self.address = (parts.hostname, parts.port or 80)
        self.headers = {'Authorization': 'Bearer ' + key} if key else {}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self.address, timeout=ANSWER_LIMIT)

    def get(self, path: str, connection: Optional[http.client.HTTPConnection] = None) -> bytes:
        used = connection or self.connect()
        used.request('GET', path, headers=self.headers)
        answer = used.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Failure(f'GET {path}: {answer.status} {body[:200].decode(errors="replace")}')
        if connection is None:
            used.close()
        return body

    def health(self) -> Dict:
        return json.loads(self.get('/health'))

    def metric(self, name: str, connection: Optional[http.client.HTTPConnection] = None) -> float:
        text = self.get('/metrics', connection).decode()
        found = re.search(rf'^{name} (\S+)$', text, re.M)
        if not found:
            raise Failure(f'/metrics has no {name}: is this a worker-orcd of the same version?')
        return float(found.group(1))

    def execute(self, **fields) -> 'Stream':
        return Stream(self, fields)


class Stream:
    """A running /execute."""

    def __init__(self, client: Client, fields: Dict):
        body = {'job_id': f'acceptance-{uuid.uuid4()}', 'temperature': 0.7, 'seed': 42, 'ignore_eos': True,
                'cache_prompt': False, **fields}
        self.connection = client.connect()
        self.connection.connect()  # the goal's time begins with the request
        self.begin = time.perf_counter()
        self.connection.request('POST', '/execute', json.dumps(body),
                                {'Content-Type': 'application/json', **client.headers})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise Failure(f'POST /execute: {self.answer.status} '
                          f'{self.answer.read(300).decode(errors="replace")}')

    def token_times(self) -> Iterator[float]:
        """When each token came, until the stream ends."""
        name = b''
        for line in self.answer:
            if line.startswith(b'event: '):
                name = line[7:].strip()
                if name == b'token':
                    yield time.perf_counter()
            elif line.startswith(b'data: ') and name == b'error':
                raise Failure('a job failed: ' + line[6:].decode(errors='replace').strip())
        if name != b'end':
            raise Failure('a stream broke off')

    def finish(self) -> List[float]:
        times = list(self.token_times())
        self.close()
        return times

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


class Process:
    """A worker that this program starts, and always ends."""

    def __init__(self, binary: Path, options: List[str]):
        self.command = [str(binary), '--port', '0', '--log-format', 'json', *options]
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE)
        self.log: List[str] = []

    def wait_ready(self) -> float:
        """Seconds from the start of the process until it said that it is ready."""
        for raw in self.process.stderr:
            self.log.append(raw.decode(errors='replace').strip())
            event = json.loads(self.log[-1]) if self.log[-1].startswith('{') else {}
            if event.get('event') == 'ready':
                self.port = event['port']
                took = time.perf_counter() - self.begin
                # The log must be read on, or the worker could not write it.
                self.drain = subprocess.Popen(['cat'], stdin=self.process.stderr, stdout=subprocess.DEVNULL)
                return took
            if time.perf_counter() - self.begin > START_LIMIT:
                break
        self.end()
        raise Failure('the worker did not start:\n' + '\n'.join(self.log[-5:]))

    def terminate(self) -> float:
        """Seconds from SIGTERM to the end of the process."""
        begin = time.perf_counter()
        self.process.terminate()
        code = self.process.wait(ANSWER_LIMIT)
        took = time.perf_counter() - begin
        self.end()
        if code != 0:
            raise Failure(f'the worker ended with {code} after SIGTERM')
        return took

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        if hasattr(self, 'drain'):
            self.drain.wait()

    def resident_bytes(self) -> int:
        status = Path(f'/proc/{self.process.pid}/status').read_text(encoding='ascii', errors='replace')
        return int(re.search(r'^VmRSS:\s+(\d+) kB$', status, re.M).group(1)) * 1024
