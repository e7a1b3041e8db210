#!/usr/bin/env python3
"""Streams a story, kills the engine that serves it in the middle, and reads on from the same connection.

usage: tools/watch_takeover.py BUILD_FOLDER MODEL [--backend cuda]

Starts worker-orcd-holder with two engines in a folder of its own. Exit code 0: the whole story came, once,
and its tokens are those of the same story without a kill.
"""
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PATIENCE = 120.0
TOKENS = 160
KILL_AT = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Pair:
    """A holder and its engines; what they say is read as it comes."""

    def __init__(self, build: Path, model: Path, backend: str, folder: Path):
        self.port = free_port()
        self.said, self.came = [], threading.Condition()
        self.process = subprocess.Popen(
            [build / 'worker-orcd-holder', '--failover-dir', folder, '--port', str(self.port), '--run', '2',
             '--', '--model', model.resolve(), '--backend', backend, '--log-format', 'json'],
            stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stderr:
            with self.came:
                if line.startswith('{'):
                    self.said.append(json.loads(line))
                self.came.notify_all()

    def wait(self, event: str, **fields) -> dict:
        """The newest such line of their logs, once there is one."""
        def newest():
            fit = [one for one in self.said if one.get('event') == event
                   and all(one.get(k) == v for k, v in fields.items())]
            return fit[-1] if fit else None
        with self.came:
            self.came.wait_for(lambda: newest() or self.process.poll() is not None, PATIENCE)
            if not newest():
                raise SystemExit(f'no {event} within {PATIENCE:.0f} s: {self.said[-3:]}')
            return newest()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()


def read_story(port: int, name: str, at_token=None, show: bool = False) -> tuple:
    """(pieces of text, longest pause in seconds, fields of the end). `at_token(n)` comes after the n-th."""
    body = json.dumps({'job_id': name, 'prompt': 'Once upon a time there was a small computer that',
                       'max_tokens': TOKENS, 'temperature': 0.8, 'seed': 7}).encode()
    head = (f'POST /execute HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n'
            f'Content-Length: {len(body)}\r\n\r\n').encode()
    pieces, longest, name = [], 0.0, ''
    with socket.create_connection(('127.0.0.1', port), timeout=PATIENCE) as connection:
        connection.sendall(head + body)
        last = None
        for line in connection.makefile('r', encoding='utf-8', newline='\n'):
            if line.startswith('event: '):
                name = line[7:].strip()
            elif line.startswith('data: ') and name == 'token':
                now = time.monotonic()
                longest, last = max(longest, now - last if last else 0.0), now
                pieces.append(json.loads(line[6:])['t'])
                if show:
                    print(pieces[-1], end='', flush=True)
                if at_token:
                    at_token(len(pieces))
            elif line.startswith('data: ') and name in ('end', 'error'):
                return pieces, longest, json.loads(line[6:])
    raise SystemExit('the stream ended without an end')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('build', type=Path, metavar='BUILD_FOLDER')
    parser.add_argument('model', type=Path, metavar='MODEL')
    parser.add_argument('--backend', default='host', choices=('cuda', 'host'))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='takeover-') as folder:
        pair = Pair(chosen.build, chosen.model, chosen.backend, Path(folder) / 'pair')
        try:
            pair.wait('failover_state', to='ACTIVE')
            pair.wait('failover_state', to='STANDBY', engine_id=1 - pair.wait('engine_active')['engine_id'])
            whole, pause, _ = read_story(pair.port, 'undisturbed')
            print(f'== the story without a kill: {len(whole)} pieces, longest pause {pause * 1000:.1f} ms')
            serving = pair.wait('engine_active')['engine_id']
            pid = pair.wait('engine_started', engine_id=serving)['pid']

            def kill(count: int) -> None:
                if count == KILL_AT:
                    print(f'\n== kill -9 {pid}, engine {serving}, which is in the middle of it\n', flush=True)
                    os.kill(pid, signal.SIGKILL)

            told, pause, end = read_story(pair.port, 'disturbed', kill, show=True)
            same = told == whole
            print(f'\n== {len(told)} pieces on one connection, longest pause {pause * 1000:.1f} ms, '
                  f'resumed {end.get("resumed", 0)} time(s), the same story: {"yes" if same else "NO"}')
            return 0 if same and end.get('resumed') == 1 else 1
        finally:
            pair.end()


if __name__ == '__main__':
    sys.exit(main())
