"""Clients that ask one request after the other through a front, and what becomes of each."""
import re
import threading
import time
from dataclasses import dataclass
from typing import List, Optional

from fronts import completion
from http_client import Closed, Connection
from worker_process import PATIENCE, wait_until

# What tells of time, or was drawn for one request.
FIGURES = re.compile(rb'"(created|id)": ?("[^"]*"|[0-9.]+)')
TOKENS = 150
PROMPTS = [f'Story {i}: once upon a time' for i in range(4)]


def bare(body: bytes) -> bytes:
    return FIGURES.sub(rb'"\1":0', body)


@dataclass
class Outcome:
    began: float
    ended: float
    what: str  # whole, other, cut, or a status


class Client:
    def __init__(self, load: 'Load', number: int):
        self.load, self.number = load, number
        self.outcomes: List[Outcome] = []
        self.connection: Optional[Connection] = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self.load.over.is_set():
            began = time.monotonic()
            what = self._ask()
            self.outcomes.append(Outcome(began, time.monotonic(), what))
            if what.isdigit():
                time.sleep(0.02)  # as a client would who was asked to come again
        self._leave()

    def _leave(self) -> None:
        if self.connection:
            self.connection.close()
        self.connection = None

    def _ask(self) -> str:
        which = self.number % len(PROMPTS)
        try:
            if not self.connection:
                self.connection = Connection(self.load.port, timeout=PATIENCE)
            self.connection.request('POST', '/v1/completions',
                                    completion(PROMPTS[which], max_tokens=self.load.tokens, stream=True))
            response = self.connection.read_response()
        except TimeoutError:
            self._leave()
            return 'hangs'
        except (Closed, OSError, ValueError):
            self._leave()
            return 'cut'
        if response.headers.get('connection', '').lower() == 'close':
            self._leave()
        if response.status != 200:
            return str(response.status)
        if not response.body.endswith(b'data: [DONE]\n\n'):
            return 'cut'
        return 'whole' if bare(response.body) == self.load.expected[which] else 'other'


class Load:
    """So many clients at once, through the front's port, until it is left."""

    def __init__(self, port: int, expected: List[bytes], clients: int = 4, tokens: int = TOKENS):
        self.port, self.expected, self.tokens = port, expected, tokens
        self.over = threading.Event()
        self.clients = [Client(self, number) for number in range(clients)]

    def __enter__(self) -> 'Load':
        for client in self.clients:
            client.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for client in self.clients:
            client.thread.join(2 * PATIENCE)
            assert not client.thread.is_alive(), 'a client hangs'

    def outcomes(self) -> List[Outcome]:
        return [outcome for client in self.clients for outcome in list(client.outcomes)]

    def wait_each(self, count: int, since: float) -> None:
        """Until each client has had so many whole answers to what it asked after that time."""
        def had(client: Client) -> bool:
            return sum(o.what == 'whole' and o.began > since for o in list(client.outcomes)) >= count
        try:
            wait_until(lambda: all(had(client) for client in self.clients), PATIENCE,
                       f'{count} whole answers for each client', 0.02)
        except AssertionError as late:
            seen = [[o.what for o in c.outcomes][-5:] for c in self.clients]
            raise AssertionError(f'{late}; {seen}') from None
