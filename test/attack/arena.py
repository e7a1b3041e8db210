"""The workers that are attacked: long-lived ones by name, whose state before and after is compared, and
short-lived ones for what ends a worker."""
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import canary
import crowd
from client import health, metrics, status_of

import worker_process
from worker_process import SANITIZED, SANITIZER, STRETCH, Worker

# Some milliseconds a token, so that the canary's gaps are those of a model and not of a scheduler's tick; a
# sanitizer slows the arithmetic by a factor, so its build gets a model with so much less of it.
SLOW_SHAPES = {'': '--layers 6 --embedding 512 --heads 8 --kv-heads 4 --ffn 1536',
               'address': '--layers 2 --embedding 256 --heads 8 --kv-heads 4 --ffn 512',
               'thread': '--layers 1 --embedding 128 --heads 4 --kv-heads 2 --ffn 256'}
SHAPES = {'slow': f'{SLOW_SHAPES[SANITIZER]} --context 8192 --type Q8_0',
          'tiny': '--context 1024',
          'normal': '--family qwen2 --context 1024',  # its tokenizer brings text to normal form C
          'encoder': '--family bert --context 512 --pooling 1'}
DEEP_SHAPE = ('--layers 64 --embedding 1024 --heads 16 --kv-heads 8 --ffn 3072 '
              '--context 8192 --type Q8_0')
TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
            "{% if tools %}{{ tools | tojson }}{% endif %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
CANARY_TOKENS = 7900
SOFT_DESCRIPTORS = 1024  # what a shell gives by default
KEYS = {'alpha': 'alpha-key-of-the-first-tenant', 'beta': 'beta-key-of-the-second-tenant',
        'operator': 'a-key-with-the-role-of-operators'}
# Resident memory after a flood may be this much above what it was: an allocator keeps what it may need.
RSS_MARGIN = 48 * 2**20
FRESH_MARGIN = 4 * 2**20
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS)
STUCK = 3.0  # seconds without an answer to /live
SETTLE = 15.0
ALONE_SECONDS = 2.5
ALONE_TOKENS = 100  # fewer say nothing of a p99: something else has the machine


class Arena:
    def __init__(self, folder: Path, tools: Path, seed: int, attempts: int):
        self.folder, self.tools, self.seed = folder, tools, seed
        self.attempts = attempts
        self.timed = not SANITIZED
        self.strict = False
        self.canary_tokens = CANARY_TOKENS
        self.backend = 'host'
        self._workers: Dict[str, Worker] = {}
        self._before: Dict[str, dict] = {}
        self._alone: Dict[str, canary.Sight] = {}
        self._started: List[Worker] = []  # by the probe that runs
        self.adapters = folder / 'adapters'  # from which clients may have some loaded
        self.adapters.mkdir()
        (folder / 'template.jinja').write_text(TEMPLATE)
        roles = {'operator': ' role=operator'}
        (folder / 'keys').write_text(''.join(f'{key}{roles.get(name, "")}\n' for name, key in KEYS.items()))
        self.help = subprocess.run([str(worker_process.BINARY), '--help'], stdout=subprocess.PIPE,
                                   check=True, timeout=60).stdout.decode()

    def use(self, backend: str) -> None:
        """On a GPU a small model has nothing to compute: the canary's is as deep as a real one."""
        self.backend = backend
        if backend == 'cuda':
            SHAPES['slow'] = DEEP_SHAPE

    # --- what a worker is started with ---------------------------------------------------------

    def model(self, name: str) -> Path:
        path = self.folder / f'{name}.gguf'
        if not path.exists():
            subprocess.run([str(self.tools / 'write_tiny_model'), '--out', str(path), *SHAPES[name].split()],
                           check=True, timeout=120)
        return path

    def has_option(self, option: str) -> bool:
        return f'--{option} ' in self.help

    def options(self, name: str) -> List[str]:
        slow = ['--model', str(self.model('slow')), '--slots', '2', '--threads', '1',
                '--max-tokens-out', '8000', '--chat-template', str(self.folder / 'template.jinja')]
        tiny = ['--model', str(self.model('tiny')), '--threads', '1',
                '--chat-template', str(self.folder / 'template.jinja')]
        return {'main': slow,
                'templates': [*slow, '--allow-request-template'],
                'tiny': tiny,
                'schemas': tiny,
                'normal': ['--model', str(self.model('normal')), '--threads', '1',
                           '--max-prompt-chars', '1000000'],
                'encoder': ['--model', str(self.model('encoder')), '--threads', '1'],
                'adapters': [*tiny, '--allow-lora-load', str(self.adapters)],
                'tenants': [*tiny, '--slots', '2', '--cache-min-tokens', '1',
                            '--api-key-file', str(self.folder / 'keys')]}[name]

    def start(self, *arguments: str, prefix: Sequence[str] = (), **options) -> Worker:
        """A worker that the caller ends. On the workers' core, beside a GPU on all that
        the crowd has not, with a shell's default of descriptors."""
        cores = str(crowd.WORKER_CORE) if self.backend == 'host' else f'{crowd.CORES[1]}-{crowd.WORKER_CORE}'
        pins = ['taskset', '-c', cores] if len(crowd.CORES) > 1 else []
        limits = ['prlimit', f'--nofile={SOFT_DESCRIPTORS}:'] if not prefix else []
        options.setdefault('backend', self.backend == 'host')
        if not options['backend']:
            arguments = ('--backend', self.backend, *arguments)
        worker = Worker(*arguments, prefix=[*pins, *limits, *prefix], **options)
        self._started.append(worker)
        return worker

    def excuse_last(self) -> None:
        """The last worker that was started had no chance: what became of it is no finding."""
        self._started.pop()

    def crashes(self) -> List[int]:
        """Codes of the workers that were started since the last call and ended by a signal of their own."""
        codes = [worker.process.poll() for worker in self._started]
        self._started.clear()
        return [code for code in codes if code is not None and -code in CRASHES]

    # --- the long-lived ones ---------------------------------------------------------------------

    def get(self, name: str) -> Worker:
        worker = self._workers.get(name)
        if worker is None or not worker.alive():
            worker = self.start(*self.options(name))
            worker.wait_event('ready')
            self._workers[name] = worker
            self._warm(worker, name)
            self._before[name] = self.state(name)
            self._alone.pop(name, None)
        return worker

    def port(self, name: str) -> int:
        return self.get(name).port

    def fresh(self, name: str) -> Worker:
        """One whose memory is as after the start: what was used and kept would hide what is used now."""
        worker = self.get(name)
        if worker.memory()['VmRSS'] > self._before[name]['resident bytes'] + FRESH_MARGIN:
            self.kill(name)
        return self.get(name)

    def stuck(self) -> List[str]:
        """Long-lived workers that do not answer; killed, so that the next probe finds one that does."""
        out = [name for name, worker in self._workers.items()
               if worker.alive() and status_of(worker.port, 'GET', '/live', timeout=STUCK * STRETCH) != '200']
        for name in out:
            self.kill(name)
        return out

    def _warm(self, worker: Worker, name: str) -> None:
        """What is made once, at the first request, is no leak."""
        deadline = time.monotonic() + 30 * STRETCH
        while health(worker.port)['digest'] is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if name in ('main', 'templates'):
            sight = self.watch_alone(worker.port, 1.0)
            assert not sight.problems, sight.problems

    def watch_alone(self, port: int, seconds: float) -> canary.Sight:
        watch = canary.Watch(port, self.canary_tokens)
        time.sleep(seconds)
        return watch.finish()

    def alone(self, name: str, again: bool = False) -> canary.Sight:
        """The canary with nothing beside it; measured again where the machine may have changed."""
        port = self.port(name)
        if again or name not in self._alone:
            for _ in range(3):
                sight = self.watch_alone(port, ALONE_SECONDS if not SANITIZED else 4.0)
                if len(sight.gaps) >= ALONE_TOKENS:
                    break
            self._alone[name] = sight
        return self._alone[name]

    def state(self, name: str) -> dict:
        worker = self._workers[name]
        time.sleep(0.3)  # connections of our own that the worker is still closing are not what is looked for
        descriptors = worker.descriptors()
        numbers, report = metrics(worker.port), health(worker.port)  # the first counts the connections
        return {'resident bytes': worker.memory()['VmRSS'], 'descriptors': descriptors,
                'threads': worker.threads(), 'slots in use': report['running'],
                'queue places in use': report['waiting'], 'connections': int(numbers['worker_connections']),
                'pages in use': report['kv_pages_used'] - report['kv_pages_cached']}

    def kill(self, name: str) -> None:
        """A worker that no longer answers, or that a probe is done with."""
        worker = self._workers.pop(name, None)
        if worker is not None:
            worker.process.kill()
            worker.process.wait(30)
            worker.end()

    def kill_all(self) -> None:
        for name in list(self._workers):
            self.kill(name)

    def dead(self) -> Dict[str, Optional[int]]:
        """Long-lived workers that ended by themselves, with their exit codes; forgotten here."""
        out = {name: worker.process.returncode for name, worker in self._workers.items()
               if not worker.alive()}
        for name in out:
            worker = self._workers.pop(name)
            tail = ' / '.join(worker.lines[-3:])[:300]
            print(f'        the log of {name} ends: {tail}', flush=True)
            worker.end()
        return out

    # --- afterwards ------------------------------------------------------------------------------

    def differences(self, name: str) -> List[str]:
        """What a long-lived worker holds now beyond what it held at first; waits for it to settle."""
        before = self._before[name]
        deadline = time.monotonic() + SETTLE * (2 if SANITIZED else 1)
        while True:
            now = self.state(name)
            margin = {'resident bytes': RSS_MARGIN if not SANITIZED else 2**40, 'threads': 0}
            more = [f'{key} {before[key]} → {now[key]}' for key in before
                    if now[key] > before[key] + margin.get(key, 0)]
            if not more or time.monotonic() > deadline:
                return more
            time.sleep(0.25)

    def end(self, report) -> None:
        """Every long-lived worker holds what it held, drains, and exits 0; no sanitizer had a word."""
        for name in list(self._workers):
            worker = self._workers[name]
            try:
                grown = self.differences(name)
                state = self.state(name)
                rss = f'resident {self._before[name]["resident bytes"] >> 20} → ' \
                      f'{state["resident bytes"] >> 20} MiB'
                worker.terminate()
                code = worker.wait_exit(20)
                report.add('afterwards', f'the worker of {name} is as before and drains',
                           not grown and code == 0, '; '.join([*grown, rss, f'exit {code}']))
                worker.end()
            except Exception as failure:
                report.add('afterwards', f'the worker of {name} is as before and drains', False,
                           f'{type(failure).__name__}: {str(failure)[:200]}')
                worker.process.kill()
        self._workers.clear()


def environment_of(binary: Path) -> Dict[str, str]:
    return {**os.environ, 'ORCD_BUILD_DIR': str(binary.resolve().parent)}
