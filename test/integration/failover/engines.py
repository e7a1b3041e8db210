"""Engines that share one serving port, as processes."""
import json
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, List, Optional

from http_client import Closed, Connection, Response, Stream, metrics_of
from ports import free_port
from worker_process import PATIENCE, STRETCH, Worker, request_body, wait_until


def ask(port: int, path: str, method: str = 'GET') -> Optional[Response]:
    """None where nobody answers."""
    try:
        with Connection(port, timeout=PATIENCE) as connection:
            connection.request(method, path)
            return connection.read_response(head_only=method == 'HEAD')
    except (OSError, Closed):
        return None


def status(port: int, path: str) -> Optional[int]:
    answer = ask(port, path)
    return None if answer is None else answer.status


def metrics(port: int) -> Dict[str, float]:
    return metrics_of(ask(port, '/metrics').body.decode())


class Witness:
    """A stream of the slow model that is under way when its engine is killed, since a kill that hits none
    shows nothing. It is so long that it is not over before, however late the kill comes."""
    LONG = {'prompt': 'Once', 'max_tokens': 1500, 'seed': 6, 'temperature': 0.8, 'ignore_eos': True}

    def __init__(self, port: int):
        self.port = port
        connection = Connection(port, timeout=PATIENCE * STRETCH)
        connection.request('POST', '/execute', json.dumps(request_body(**self.LONG)).encode())
        self.stream = Stream(connection)
        self.stream.until('token', 3)

    def is_gone_on_with(self) -> None:
        """By the engine that serves now."""
        wait_until(lambda: metrics(self.port)['orcd_failover_streams_resumed_total'] > 0, PATIENCE * STRETCH,
                   'a stream is gone on with: else the kill hit none')
        self.stream.close()

    def is_cut(self) -> None:
        """Where nobody has its connection."""
        try:
            self.stream.rest()
        except (Closed, OSError, AssertionError):
            pass
        assert {event.name for event in self.stream.seen} == {'started', 'token'}, 'the kill hit no stream'
        self.stream.close()


def is_resumed(end) -> bool:
    """Whether an engine died with the stream that ends so."""
    return end.data.get('resumed', 0) >= 1


class Engine(Worker):
    """One engine. Its serving port is the pair's, its system port its own."""

    def __init__(self, pair: 'Engines', number: int, *options: str, **more):
        self.number = number
        self.told_to_end = False
        self.system = pair.system[number]
        super().__init__('--model', pair.model, '--failover-dir', str(pair.folder),
                         '--engine-id', str(number), '--system-port', str(self.system), *options,
                         port=str(pair.port), **more)

    def probe(self, path: str) -> Optional[int]:
        return status(self.system, path)

    def state(self) -> Optional[str]:
        answer = ask(self.system, '/health')
        return None if answer is None else answer.json()['failover_state']

    def wait_state(self, state: str) -> None:
        wait_until(lambda: self.state() == state, PATIENCE * STRETCH, f'engine {self.number} is {state}')

    def terminate(self) -> None:
        self.told_to_end = True
        super().terminate()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


class Engines:
    """Up to three engines of one model in one folder; whatever happens, none is left."""

    def __init__(self, model: Path, folder: Path):
        self.model, self.folder = model, folder
        ports: List[int] = []
        while len(ports) < 4:
            ports += [port for port in [free_port()] if port not in ports]
        self.port, *self.system = ports
        self.all: List[Engine] = []

    def __enter__(self) -> 'Engines':
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as each:
            for engine in self.all:
                each.callback(engine.end)

    def start(self, number: int, *options: str, state: Optional[str] = None, **more) -> Engine:
        for earlier in self.all:
            if earlier.number == number and earlier.told_to_end:
                earlier.process.wait(PATIENCE * STRETCH)  # it has the system port until then
        engine = Engine(self, number, *options, **more)
        self.all.append(engine)
        if state:
            engine.wait_state(state)
        return engine

    def pair(self, *options: str):
        """Engine 0 serves, engine 1 stands by."""
        first = self.start(0, *options, state='ACTIVE')
        first.wait_event('ready')
        return first, self.start(1, *options, state='STANDBY')


class Poller:
    """Asks for a path again and again, and keeps every answer that is not 200."""

    def __init__(self, port: int, path: str, interval: float = 0.001):
        self.port, self.path, self.interval = port, path, interval
        self.asked, self.others = 0, []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            found = status(self.port, self.path)
            self.asked += 1
            if found != 200:
                self.others.append(found)
            time.sleep(self.interval)

    def __enter__(self) -> 'Poller':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
