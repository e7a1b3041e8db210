"""The clients of a load: processes whose streams are read as their bytes come."""
import dataclasses
import json
import multiprocessing
import queue
import random
import re
import selectors
import socket
import time
from threading import BrokenBarrierError
from typing import Iterator, List, Tuple

from servers import Failure

SILENCE_MAX = 300.0  # seconds in which no stream of a process gets a byte
CONNECTIONS_MAX = 10_000
ERROR = re.compile(rb'^data: \{"error"', re.M)
USAGE = re.compile(rb'"completion_tokens":\s*(\d+)')


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclasses.dataclass(frozen=True)
class Case:
    streams: int
    prompt: int  # tokens
    tokens: int  # of each answer
    rounds: int = 1

    @staticmethod
    def parse(text: str) -> 'Case':
        found = re.fullmatch(r'(\d+)x(\d+)/(\d+)(?:x(\d+))?', text)
        if not found or not all(int(n) for n in found.groups(default='1')):
            raise ValueError(f'{text} is no STREAMSxIN/OUT[xROUNDS]')
        case = Case(*(int(n) for n in found.groups(default='1')))
        if case.streams > CONNECTIONS_MAX:
            raise ValueError(f'{text}: at most {CONNECTIONS_MAX} streams')
        return case

    def __str__(self) -> str:
        return f'{self.streams}x{self.prompt}x{self.tokens}'


@dataclasses.dataclass
class Answer:
    """When a request was sent and when pieces of its answer with text came."""
    begin: float
    times: List[float]


def prompts_of(length: int, vocab: int, seed: str) -> Iterator[List[int]]:
    """Prompts without end. Those of another seed begin in another way, which a prefix cache must not know."""
    chooser = random.Random(seed)
    while True:
        yield [chooser.randrange(vocab // 10, vocab) for _ in range(length)]


class Stream:
    """One connection, which asks again when its answer has ended."""

    def __init__(self, address: Tuple[str, int], case: Case, prompts: Iterator[List[int]]):
        self.case, self.address, self.prompts = case, address, prompts
        self.answers: List[Answer] = []
        self.socket = socket.create_connection(address, timeout=SILENCE_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.body = self._request()

    def _request(self) -> bytes:
        body = json.dumps({
            'prompt': next(self.prompts), 'max_tokens': self.case.tokens, 'temperature': 0, 'stream': True,
            'ignore_eos': True, 'stream_options': {'include_usage': True}}).encode()
        return (b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                b'Content-Length: %d\r\n\r\n' % len(body)) + body

    def send(self) -> None:
        self.tail = b''
        self.answers.append(Answer(time.perf_counter(), []))
        self.socket.sendall(self.body)

    def read(self) -> bool:
        """Takes what has come; true when the stream has no more to ask for."""
        piece = self.socket.recv(1 << 18)
        now = time.perf_counter()
        if not piece:
            raise Failure('the server closed a stream: ' + self.tail[-300:].decode(errors='replace'))
        data = self.tail + piece
        refused = not self.answers[-1].times and b'HTTP/1.1 ' in data and b'HTTP/1.1 200' not in data
        if refused or ERROR.search(data):
            raise Failure('a request failed: ' + data[:400].decode(errors='replace'))
        if b'"text"' in piece:
            self.answers[-1].times.append(now)
        if b'data: [DONE]' not in data:
            self.tail = data[-2048:]
            return False
        told = USAGE.findall(data)
        if not told or int(told[-1]) != self.case.tokens or not self.answers[-1].times:
            raise Failure(f'an answer has {told[-1:]} tokens, not {self.case.tokens}')
        return self._next()

    def _next(self) -> bool:
        if len(self.answers) == self.case.rounds:
            self.socket.close()
            return True
        self.body = self._request()
        self.send()
        return False


def read_all(streams: List[Stream]) -> None:
    with selectors.DefaultSelector() as ready:
        for stream in streams:
            ready.register(stream.socket, selectors.EVENT_READ, stream)
            stream.send()
        left = len(streams)
        while left:
            events = ready.select(SILENCE_MAX)
            if not events:
                raise Failure(f'no byte came for {SILENCE_MAX:.0f} s')
            for key, _ in events:
                # Its socket is closed when it ends, so that it is forgotten first.
                stream = key.data
                descriptor = key.fd
                if stream.read():
                    ready.unregister(descriptor)
                    left -= 1


def client(address, case, streams: range, vocab, seed, opened, answers) -> None:
    try:
        mine = [Stream(address, case, prompts_of(case.prompt, vocab, f'{seed}/{i}')) for i in streams]
        opened.wait(SILENCE_MAX)
        read_all(mine)
        answers.put([a for stream in mine for a in stream.answers])
    except (Failure, OSError, BrokenBarrierError) as what:
        opened.abort()
        answers.put(str(what) or repr(what))


def answer_of(answers, children):
    """What the next client says; one that ended without a word says that."""
    while True:
        try:
            return answers.get(timeout=5)
        except queue.Empty:
            if any(child.exitcode for child in children):
                return 'a client process ended early'


def run_case(address, case: Case, processes: int, vocab: int, seed: str) -> List[Answer]:
    """All answers of a case, whose seed no other has. Throws Failure when any request failed."""
    processes = min(processes, case.streams)
    opened = multiprocessing.Barrier(processes)
    answers = multiprocessing.Queue()
    shares = [range(i, case.streams, processes) for i in range(processes)]
    # Daemons, which are ended when this process is.
    children = [multiprocessing.Process(target=client, daemon=True,
                                        args=(address, case, share, vocab, seed, opened, answers))
                for share in shares]
    for child in children:
        child.start()
    results = [answer_of(answers, children) for _ in children]
    for child in children:
        child.join()
    failures = [r for r in results if isinstance(r, str)]
    if failures:
        raise Failure(failures[0])
    return [a for r in results for a in r]
