"""Starts, watches and always ends one worker process."""
import json
import os
import re
import signal
import subprocess
import threading
import time
import uuid
import weakref
import zlib
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from http_client import Connection, Event, Response, Stream, check_stream, metrics_of
from pauses import pause

PROJECT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('ORCD_BUILD_DIR', PROJECT / 'build' / 'release')).resolve()
BINARY = BUILD / 'worker-orcd'
SANITIZER = os.environ.get('ORCD_SANITIZER', '')  # '', 'address' or 'thread'
SANITIZED = SANITIZER != ''
# Sanitizers cost a factor; limits of time are stretched by it, never loosened otherwise.
STRETCH = 15.0 if SANITIZED else 1.0
# For what must happen while nothing is said of how soon: a machine under load may take its time.
PATIENCE = 60.0 if SANITIZED else 180.0  # stretched in a sanitizer's build
CUDA = BINARY.exists() and 'backends: cuda' in subprocess.run(
    [str(BINARY), '--version'], stdout=subprocess.PIPE, check=True, timeout=30).stdout.decode()
# The tests of what is the same on every backend can be run on a GPU, too: ORCD_BACKEND=cuda.
BACKEND = os.environ.get('ORCD_BACKEND', 'host')
START_TIMEOUT = PATIENCE * STRETCH
SANITIZER_REPORT = re.compile(r'(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error: ')


def cannot_be_mapped(code: int, address_space: int) -> bool:
    """Whether the system itself ended the program, before its first instruction, because its image is larger
    than the addresses that it may have."""
    return code in (-signal.SIGSEGV, -signal.SIGKILL) and address_space < BINARY.stat().st_size


class NotInTime(AssertionError):
    """What was waited for has not come."""


def wait_until(condition, timeout: float, what: str, step: float = 0.005):
    """The condition's first true value; every wait of the tests is bounded by this."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NotInTime(f'not within {timeout:.1f} s: {what}')
        pause(step, 'nothing tells when it comes true: it is asked again')


def slowness(tries: int = 10) -> float:
    """How many times as long this machine takes for a piece of work as the one that the limits of time were
    set on, which took 5 ms; at least 1."""
    numbers, block = '[' + ','.join(['123456'] * 100_000) + ']', bytes(1 << 20)
    took = []
    for _ in range(tries):
        begin = time.perf_counter()
        json.loads(numbers)
        for _ in range(4):
            zlib.crc32(block)
        took.append(time.perf_counter() - begin)
    return max(1.0, min(took) / 0.005)


def fastest(attempt, limit: float, attempts: int = 5, apart: float = 1.0) -> None:
    """Some attempt must take less than the limit, which is longer on a slower machine. Each returns its
    seconds; what else runs on the machine can only add to them, so the least of a few is the time of the
    worker. They are some time apart, or one burst of something else would take them all."""
    took = [attempt()]
    while min(took) >= limit and len(took) < attempts:
        pause(apart, 'a burst of something else goes by')
        took.append(attempt())
    if min(took) < limit:
        return
    factor = slowness()
    print(f'this machine is {factor:.2f} times as slow as the one that the limit is for')
    assert min(took) < limit * factor, (f'{[round(t * 1000, 1) for t in took]} ms; the limit is '
                                        f'{limit * 1000:.0f} ms times {factor:.2f}')


class ForeignLoad:
    """How many processors others had meanwhile: neither this process, with the children that it has waited
    for, nor the worker."""

    def __init__(self, pid: int):
        self._pid = pid
        self._begin, self._at = self._others(), time.monotonic()

    def _others(self) -> float:
        tick = os.sysconf('SC_CLK_TCK')
        busy = [int(x) for x in Path('/proc/stat').read_text().split('\n', 1)[0].split()[1:9]]
        own = Path(f'/proc/{self._pid}/stat').read_text().rsplit(')', 1)[1].split()
        idle, waits = busy[3:5]
        return (sum(busy) - idle - waits - int(own[11]) - int(own[12])) / tick - sum(os.times()[:4])

    def end(self) -> float:
        return (self._others() - self._begin) / (time.monotonic() - self._at)


CALM = 0.2  # processors that others may have


def never_stalls(attempt, limit: float, pid: int) -> None:
    """For stalls, where the best of several says nothing: each attempt counts, unless something else ran
    meanwhile, which may be what made it wait. Two that count are enough. Where there is none, since the
    machine is busy all the time, one of five must do."""
    disturbed, calm = [], 0
    for _ in range(5):
        load = ForeignLoad(pid)
        stalled = attempt()
        others = load.end()
        if others < CALM:
            assert stalled < limit, f'{stalled:.3f}, limit {limit:.3f}; others had {others:.2f} processors'
            calm += 1
        else:
            disturbed.append(round(stalled, 3))
        if calm == 2:
            return
    assert calm or min(disturbed) < limit, f'{disturbed}, the limit is {limit:.3f}, beside other work'


class Worker:
    """One worker-orcd on a free port. Its log is parsed line by line while it runs."""

    def __init__(self, *arguments: str, environment: Optional[Dict[str, str]] = None, backend: bool = True,
                 log_format: str = 'json', port: str = '0', directory: Optional[Path] = None,
                 prefix: Sequence[str] = (), keep_descriptors: bool = False,
                 binary: Path = BINARY):
        command = [*prefix, str(binary)]  # a prefix sets something for the process and becomes it: prlimit
        if backend:
            command += ['--backend', BACKEND]
        if port:
            command += ['--port', port]
        if log_format:
            command += ['--log-format', log_format]
        self.command = command + [str(a) for a in arguments]
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith(('WORKER_', 'ORCD_', 'NOTIFY_', 'LISTEN_', 'WATCHDOG_', 'OTEL_'))}
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**clean, **(environment or {})},
                                        cwd=directory, close_fds=not keep_descriptors)
        self.pid = self.process.pid
        self.lines: List[str] = []
        self.stdout = b''
        self._changed = threading.Condition()
        self._readers = [threading.Thread(target=self._read_log, daemon=True),
                         threading.Thread(target=self._read_stdout, daemon=True)]
        for reader in self._readers:
            reader.start()
        self._port: Optional[int] = None
        self._connections: 'weakref.WeakSet[Connection]' = weakref.WeakSet()

    def _read_log(self) -> None:
        for raw in self.process.stderr:
            with self._changed:
                self.lines.append(raw.decode('utf-8', errors='strict').rstrip('\n'))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _read_stdout(self) -> None:
        self.stdout = self.process.stdout.read()

    def __enter__(self) -> 'Worker':
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # --- the process ---------------------------------------------------------------------------

    def end(self) -> None:
        """Whatever happened: no process is left, and no sanitizer had anything to report."""
        if SANITIZED and self.alive():
            self._stop_in_order()
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        for reader in self._readers:
            reader.join(PATIENCE)
        self.process.stderr.close()
        self.process.stdout.close()
        reports = [line for line in self.lines if SANITIZER_REPORT.search(line)]
        assert not reports, '\n'.join(self.lines[-80:])

    def _stop_in_order(self) -> None:
        """Leaks are looked for at exit only, so the process must get there: drain, then insist."""
        for patience in (10, PATIENCE):
            self.terminate()
            try:
                self.process.wait(patience)
                return
            except subprocess.TimeoutExpired:
                continue

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_exit(self, timeout: float) -> int:
        code = self.process.wait(timeout * STRETCH)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code

    def alive(self) -> bool:
        return self.process.poll() is None

    # --- the log -------------------------------------------------------------------------------

    def events(self, name: Optional[str] = None, **fields) -> List[dict]:
        """Parsed log lines; every line must be one JSON object."""
        def object_of(line: str) -> dict:
            try:
                return json.loads(line)
            except ValueError as failure:
                raise AssertionError(f'a line of the log is no JSON: {line!r}') from failure
        with self._changed:
            parsed = [object_of(line) for line in self.lines if line]
        return [e for e in parsed if (name is None or e.get('event') == name)
                and all(e.get(k) == v for k, v in fields.items())]

    def wait_event(self, name: str, timeout: float = START_TIMEOUT, **fields) -> dict:
        deadline = time.monotonic() + timeout
        while True:
            found = self.events(name, **fields)
            if found:
                return found[-1]
            if self.process.poll() is not None:
                for reader in self._readers:
                    reader.join(5)
                found = self.events(name, **fields)
                if found:
                    return found[-1]
                raise AssertionError(
                    f'exit {self.process.returncode} before {name}:\n' + '\n'.join(self.lines))
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f'no {name} within {timeout} s:\n' + '\n'.join(self.lines[-20:]))
            with self._changed:
                self._changed.wait(min(left, 0.1))

    @property
    def port(self) -> int:
        if self._port is None:
            self._port = int(self.wait_event('ready')['port'])
        return self._port

    # --- requests ------------------------------------------------------------------------------

    def connect(self, **options) -> Connection:
        connection = Connection(self.port, **options)
        self._connections.add(connection)
        return connection

    def drop_connections(self) -> None:
        """Closes what a failed test left open, so that the next one finds an idle worker."""
        for connection in list(self._connections):
            connection.close()

    def call(self, method: str, path: str, body=None, headers: Optional[Dict[str, str]] = None) -> Response:
        """One request on a connection of its own; `body` may be bytes or something for json.dumps."""
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with self.connect() as connection:
            connection.request(method, path, payload, headers)
            return connection.read_response(head_only=method == 'HEAD')

    def get(self, path: str) -> Response:
        return self.call('GET', path)

    def open(self, headers: Optional[Dict[str, str]] = None, **body) -> Stream:
        """Sends /execute and returns its stream as soon as the response head is there."""
        return Stream(self.send_execute(headers, **body))

    def send_execute(self, headers: Optional[Dict[str, str]] = None, **body) -> Connection:
        connection = self.connect()
        connection.request('POST', '/execute', json.dumps(request_body(**body)).encode(), headers)
        return connection

    def execute(self, headers: Optional[Dict[str, str]] = None, **body) -> List[Event]:
        """A whole stream, checked."""
        stream = self.open(headers, **body)
        assert stream.response.status == 200, (stream.response.status, stream.response.body)
        events = stream.rest()
        stream.close()
        check_stream(events)
        return events

    def cancel(self, job_id: str) -> Response:
        return self.call('POST', '/cancel', {'job_id': job_id})

    def metrics(self) -> Dict[str, float]:
        return metrics_of(self.get('/metrics').body.decode('utf-8'))

    def metric(self, name: str, **labels: str) -> float:
        """Sum over the series of that name whose labels match."""
        total = 0.0
        for series, value in self.metrics().items():
            match = re.fullmatch(r'([\w:]+)(?:\{(.*)\})?', series)
            found = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match.group(2) or ''))
            if match.group(1) == name and all(found.get(k) == v for k, v in labels.items()):
                total += value
        return total

    def running(self) -> float:
        return self.metric('worker_requests_running')

    def waiting(self) -> float:
        return self.metric('worker_requests_waiting')

    def wait_idle(self) -> None:
        wait_until(lambda: self.running() == 0 and self.waiting() == 0, PATIENCE, 'the worker is idle')

    # --- what the process holds ----------------------------------------------------------------

    def descriptors(self) -> int:
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def stopped(self) -> bool:
        """Whether a SIGSTOP has reached every thread."""
        return all(stat.rsplit(')', 1)[1].split()[0] == 'T' for stat in of_each_thread(self.pid, 'stat'))

    def threads(self) -> int:
        return len(os.listdir(f'/proc/{self.pid}/task'))

    def memory(self) -> Dict[str, int]:
        """Bytes by name from /proc/PID/status (VmRSS, RssAnon, RssFile, ...)."""
        text = Path(f'/proc/{self.pid}/status').read_text()
        return {k: int(v) * 1024 for k, v in re.findall(r'^(\w+):\s+(\d+) kB$', text, re.M)}


def of_each_thread(pid: int, file: str) -> List[str]:
    """What /proc says in that file of each thread; one that ends while they are read is left out."""
    texts = []
    for thread in os.listdir(f'/proc/{pid}/task'):
        try:
            texts.append(Path(f'/proc/{pid}/task/{thread}/{file}').read_text().strip())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return texts


SYSTEM_CALLS = {'write': '1', 'sendmsg': '46', 'openat': '257'}  # of x86-64


def waits_in(pid: int, call: str) -> bool:
    """Whether some thread of the process waits in that system call, by the kernel's word."""
    return any(text.split()[0] == SYSTEM_CALLS[call] for text in of_each_thread(pid, 'syscall'))


def request_body(**changes) -> dict:
    """A valid /execute body; None removes a field."""
    body = {'job_id': f'job-{uuid.uuid4()}', 'prompt': 'Once upon a time', 'max_tokens': 16,
            'temperature': 0.0, 'seed': 42, **changes}
    return {k: v for k, v in body.items() if v is not None}


def run_to_exit(*arguments: str, timeout: float = 30.0, **options) -> Tuple[int, Worker]:
    """Runs the binary until it exits by itself."""
    worker = Worker(*arguments, **options)
    try:
        return worker.wait_exit(timeout), worker
    finally:
        worker.end()
