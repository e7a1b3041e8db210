"""Proxies in front of workers, as processes: nginx and HAProxy with their Debian configuration and the files
of etc/, vllm-router by the command of docs/operations.md. Only addresses, and where logs and the like are
written, are replaced by the test's."""
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Dict, List, Optional

import pytest

from engines import free_port, status
from http_client import Closed, Connection, Response
from worker_process import PATIENCE, PROJECT, Worker, wait_until

ROUTER = Path(os.environ.get('ORCD_ROUTER', '/nonexistent'))


def replaced(text: str, *pairs) -> str:
    """Each pattern must be there: else a file has changed and the test would run something else."""
    for pattern, replacement in pairs:
        text, count = re.subn(pattern, replacement, text, flags=re.M)
        assert count, f'not found: {pattern}'
    return text


def documented(start: str) -> str:
    """The command of docs/operations.md that begins with these words."""
    text = (PROJECT / 'docs' / 'operations.md').read_text().replace('\\\n', ' ')
    found = re.findall(rf'^{re.escape(start)} .*$', text, re.M)
    assert len(found) == 1, (start, found)
    return re.sub(r'\s+# .*$', '', found[0])


class Front:
    """One proxy that serves two workers' ports."""
    name = ''
    body_session = False  # whether it reads the session out of the body
    own_refusals = False  # whether it answers itself, in words of its own, while all workers drain

    def __init__(self, folder: Path, workers: List[int]):
        self.folder, self.workers, self.port = folder / self.name, workers, free_port()
        self.folder.mkdir()
        self.output = open(self.folder / 'output', 'wb')
        environment = {k: v for k, v in os.environ.items() if not k.startswith(('WORKER_', 'ORCD_'))}
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=self.output, cwd=self.folder,
                                        env={**environment, **self.environment()})
        try:
            wait_until(lambda: self.process.poll() is not None or self.serves(), PATIENCE,
                       f'{self.name} serves', 0.05)
            assert self.process.poll() is None, self.told()
        except BaseException:
            self.end()
            raise

    def command(self) -> List[str]:
        raise NotImplementedError

    def environment(self) -> Dict[str, str]:
        return {}

    def serves(self) -> bool:
        return status(self.port, '/v1/models') == 200

    def session(self, name: str) -> Dict[str, str]:
        return {'KRONK_IMC_ID': name}

    def retried(self) -> int:
        """How many requests went to a second worker."""
        raise NotImplementedError

    def told(self) -> str:
        return (self.folder / 'output').read_text(errors='replace')[-2000:]

    def __enter__(self) -> 'Front':
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # at once, with nginx's helpers
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE)
        self.output.close()


class Nginx(Front):
    name = 'nginx'

    def command(self) -> List[str]:
        assert shutil.which('nginx'), 'nginx is not here: tools/packages.sh fronts'
        site = replaced((PROJECT / 'etc' / 'nginx' / 'worker-orcd.conf').read_text(),
                        (r'127\.0\.0\.1:8081', f'127.0.0.1:{self.workers[0]}'),
                        (r'127\.0\.0\.1:8082', f'127.0.0.1:{self.workers[1]}'),
                        (r'listen 8080;', f'listen 127.0.0.1:{self.port};'),
                        (r'/var/log/nginx', str(self.folder)))
        (self.folder / 'conf.d').mkdir()
        (self.folder / 'conf.d' / 'worker-orcd.conf').write_text(site)
        temporary = '\n'.join(f'{kind}_temp_path {self.folder}/{kind};' for kind in (
            'client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        whole = replaced(Path('/etc/nginx/nginx.conf').read_text(),
                         (r'^user .*$', 'daemon off;'), (r'/run/nginx\.pid', f'{self.folder}/pid'),
                         (r'^worker_processes .*$', 'worker_processes 2;'),
                         (r'/var/log/nginx', str(self.folder)), (r'^include /etc/nginx/modules.*$', ''),
                         (r'/etc/nginx/conf\.d', f'{self.folder}/conf.d'),
                         (r'include /etc/nginx/sites-enabled/\*;', temporary))
        (self.folder / 'nginx.conf').write_text(whole)
        return ['nginx', '-c', str(self.folder / 'nginx.conf'), '-e', str(self.folder / 'output')]

    def retried(self) -> int:
        lines = (self.folder / 'worker-orcd.log').read_text().splitlines()
        return sum(bool(re.search(r' \S+:\d+(?:,| :) \S+:\d+', line)) for line in lines)


class Haproxy(Front):
    name = 'haproxy'
    body_session = True

    def command(self) -> List[str]:
        assert shutil.which('haproxy'), 'haproxy is not here: tools/packages.sh fronts'
        site = replaced((PROJECT / 'etc' / 'haproxy' / 'worker-orcd.cfg').read_text(),
                        (r'127\.0\.0\.1:8081', f'127.0.0.1:{self.workers[0]}'),
                        (r'127\.0\.0\.1:8082', f'127.0.0.1:{self.workers[1]}'),
                        (r'bind :8080', f'bind 127.0.0.1:{self.port}'))
        (self.folder / 'worker-orcd.cfg').write_text(site)
        whole = replaced(Path('/etc/haproxy/haproxy.cfg').read_text(),
                         (r'^\s+(log\s+/dev/log.*|chroot .*|user .*|group .*|daemon)$', ''),
                         (r'stats socket \S+', f'stats socket {self.folder}/s'))
        (self.folder / 'haproxy.cfg').write_text(whole)
        files = ['-f', str(self.folder / 'haproxy.cfg'), '-f', str(self.folder / 'worker-orcd.cfg')]
        subprocess.run(['haproxy', '-c', *files], check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
        return ['haproxy', '-db', *files]

    def ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.folder / 's'))
            asking.sendall(command.encode() + b'\n')
            return b''.join(iter(lambda: asking.recv(65536), b'')).decode()

    def retried(self) -> int:
        head, *rows = [line.split(',') for line in self.ask('show stat').splitlines() if line]
        total = next(row for row in rows if row[:2] == ['orcd_workers', 'BACKEND'])
        return int(total[head.index('wretr')]) + int(total[head.index('wredis')])


class Router(Front):
    name = 'vllm-router'
    own_refusals = True

    def command(self) -> List[str]:
        if not ROUTER.exists():
            pytest.skip('vllm-router is not here: set ORCD_ROUTER (tools/python_packages.sh vllm-router)')
        self.prometheus = free_port()
        line = replaced(documented('vllm-router'), (r'--port 8080', f'--port {self.port}'),
                        (r':8081\b', f':{self.workers[0]}'), (r':8082\b', f':{self.workers[1]}'),
                        (r'--prometheus-port \d+', f'--prometheus-port {self.prometheus}'))
        program, *words = shlex.split(line)
        return [sys.executable, '-B', str(ROUTER / 'bin' / program), *words]

    def environment(self) -> Dict[str, str]:
        return {'PYTHONPATH': str(ROUTER)}

    def session(self, name: str) -> Dict[str, str]:
        return {'X-Session-Id': name}

    def retried(self) -> int:
        try:
            with Connection(self.prometheus, timeout=PATIENCE) as asking:
                asking.request('GET', '/metrics')
                text = asking.read_response().body.decode()
        except (OSError, Closed):
            return 0
        return int(sum(float(n) for n in re.findall(r'^vllm_router_retries_total\S* (\S+)$', text, re.M)))


FRONTS = {front.name: front for front in (Nginx, Haproxy, Router)}


def completion(prompt: str, **more) -> bytes:
    return json.dumps({'model': 'front', 'prompt': prompt, 'seed': 5, 'temperature': 0.8, 'ignore_eos': True,
                       **more}).encode()


def ask(where, prompt: str, headers: Optional[Dict[str, str]] = None, **more) -> Response:
    """One completion of a worker or through a front, on a connection of its own."""
    with Connection(where.port, timeout=PATIENCE) as connection:
        connection.request('POST', '/v1/completions', completion(prompt, **more), headers)
        return connection.read_response()


class Site:
    """Two workers and what is in front of them."""

    def __init__(self, kind: str, model: Path, folder: Path, *options: str):
        self.model, self.options = model, options
        self.ports = [free_port(), free_port()]
        self.workers = [self._start(port) for port in self.ports]
        try:
            for worker in self.workers:
                worker.wait_event('ready')
            self.front = FRONTS[kind](folder, self.ports)
        except BaseException:
            self.end_workers()
            raise

    def _start(self, port: int) -> Worker:
        return Worker('--model', self.model, '--threads', '1', *self.options, port=str(port))

    def again(self, which: int) -> None:
        """Starts a worker that has ended at its place, until the front sends requests there."""
        self.workers[which].end()
        self.workers[which] = worker = self._start(self.ports[which])
        worker.wait_event('ready')

        def reached() -> bool:
            ask(self.front, 'x', self.front.session(uuid.uuid4().hex), max_tokens=1)
            return worker.metric('worker_tokens_generated_total') > 0
        wait_until(reached, PATIENCE, f'{self.front.name} sends requests to a worker that is back', 0.1)

    def total(self, metric: str) -> float:
        return sum(worker.metric(metric) for worker in self.workers)

    def running(self) -> float:
        return self.total('worker_requests_running')

    def wait_idle(self) -> None:
        for worker in self.workers:
            worker.wait_idle()

    def end_workers(self) -> None:
        for worker in self.workers:
            worker.end()

    def end(self) -> None:
        self.front.end()
        self.end_workers()
