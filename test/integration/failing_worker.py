"""Runs the worker through start, requests and stop while one of its allocations fails."""
import json
import os
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

from ports import free_port
from worker_process import BINARY, BUILD, PATIENCE, NotInTime, wait_until

PRELOADED = BUILD / 'libfailing_allocation.so'
BODY = json.dumps({'job_id': 'job', 'prompt': 'Once upon a time', 'max_tokens': 12, 'temperature': 0.0,
                   'seed': 42, 'ignore_eos': True}).encode()
ATTEMPTS = 4
ATTEMPTS_MAX = 50


def ask(port: int, method: str, path: str, body: bytes = b'') -> bytes:
    """The whole answer; empty when there is none. Every wait is bounded."""
    head = (f'{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n'
            f'Content-Length: {len(body)}\r\nConnection: close\r\n\r\n').encode()
    answer = b''
    try:
        with socket.create_connection(('127.0.0.1', port), timeout=PATIENCE) as connection:
            connection.sendall(head + body)
            while piece := connection.recv(65536):
                answer += piece
    except ConnectionError:
        pass
    return answer


def text_of(answer: bytes) -> Optional[str]:
    """What a stream that ended well says; None for any other."""
    if b'\nevent: end\n' not in answer:
        return None
    data = [line[6:] for line in answer.split(b'\n') if line.startswith(b'data: {"t":')]
    return ''.join(json.loads(line)['t'] for line in data)


@dataclass
class Outcome:
    code: int
    log: List[str]
    ready: bool = False
    texts: List[Optional[str]] = field(default_factory=list)
    hung: bool = False

    def sentences(self) -> List[str]:
        """What was said about a failure."""
        return [line for line in self.log if line.startswith('worker-orcd: ')
                or '"level":"error"' in line or '"level":"critical"' in line]


def run_once(model: Path, environment: Dict[str, str], *options: str, prefix: List[str] = []) -> Outcome:
    port = free_port()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(('WORKER_', 'ORCD_', 'NOTIFY_'))}
    process = subprocess.Popen(
        [*prefix, str(BINARY), '--backend', 'host', '--model', str(model), '--port', str(port),
         '--threads', '2', '--drain-timeout', '2', *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**clean, **environment})
    try:
        ready = wait_for(process, port)
        texts: List[Optional[str]] = []
        # More while they are refused: a shortage of some allocations is over after as many requests.
        while ready and process.poll() is None and (
                len(texts) < ATTEMPTS or texts[-1] is None and len(texts) < ATTEMPTS_MAX):
            texts.append(text_of(ask(port, 'POST', '/execute', BODY)))
            ask(port, 'GET', '/health')
        process.terminate()
        log = process.communicate(timeout=PATIENCE)[1].decode(errors='replace').splitlines()
        return Outcome(process.returncode, log, ready, texts)
    except (NotInTime, subprocess.TimeoutExpired, socket.timeout):
        process.kill()
        log = process.communicate()[1].decode(errors='replace').splitlines()
        return Outcome(process.returncode, log, hung=True)


def wait_for(process: subprocess.Popen, port: int) -> bool:
    """Whether the worker says so before it ends; its log may have lost the line, so it is asked."""
    def state() -> str:
        if process.poll() is not None:
            return 'ended'
        return 'ready' if b' 200 ' in ask(port, 'GET', '/ready')[:16] else ''
    return wait_until(state, PATIENCE, 'it is ready or ends', 0.01) == 'ready'


def judge(outcome: Outcome, text: str) -> List[str]:
    """What is wrong with it."""
    wrong = []
    if outcome.hung:
        wrong.append('it hung')
    elif outcome.code not in (0, 1):
        wrong.append(f'it ended with {outcome.code}')
    elif outcome.code == 1 and not outcome.sentences():
        wrong.append('it failed without a sentence')
    elif outcome.code == 0 and outcome.ready and outcome.texts[-1:] != [text]:
        wrong.append('it did not go on serving')
    if any(t not in (None, text) for t in outcome.texts):
        wrong.append(f'it answered something else: {outcome.texts}')
    return wrong
