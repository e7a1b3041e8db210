"""The measurements of bench/failover: engines killed under readers, and the same engines unharmed."""
import json
import random
import selectors
import signal
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Tuple

import gpu_memory
from engines import Engine
from gpu_http import WORD, Stream, percentile, words_of
from holders import Held
from http_client import Connection
from kinds import begin
from worker_process import Worker

BEFORE, AFTER, MAX_TOKENS = 4, 8, 400  # tokens that are read before and after a kill, at least; of a stream
RATE_TOKENS = 64
STARTS_PATIENCE = 600.0
READ_PATIENCE = 600.0


@dataclass
class Setup:
    model: Path
    folder: Path
    backend: str
    options: List[str]  # of every worker
    engine_options: List[str]  # of engines that stand in for one another


class TimedEngine(Engine):
    """Knows when each line of its log came."""

    def __init__(self, *arguments, **more):
        self.came: List[float] = []
        self.began = time.perf_counter()
        super().__init__(*arguments, **more)

    def _read_log(self) -> None:
        for raw in self.process.stderr:
            with self._changed:
                self.came.append(time.perf_counter())
                self.lines.append(raw.decode().rstrip('\n'))
                self._changed.notify_all()

    def entered(self, state: str) -> float:
        """When its log said so, for the last time."""
        self.wait_event('failover_state', timeout=STARTS_PATIENCE, to=state)
        told = [at for at, line in zip(self.came, list(self.lines))
                if json.loads(line).get('event') == 'failover_state' and json.loads(line)['to'] == state]
        return told[-1]


class Pair(Held):
    """Two engines and a holder; one that was killed is started again."""

    def __init__(self, setup: Setup, name: str, *options: str):
        self.setup = setup
        self.options = ['--backend', setup.backend, '--holder', 'require', *options, *setup.options,
                        *setup.engine_options]
        self.cold: List[float] = []
        folder = setup.folder / name
        folder.mkdir()
        super().__init__(setup.model, folder)

    def __enter__(self) -> 'Pair':
        self.start_holder()
        self.active = self.launch(0)
        self.active.entered('ACTIVE')
        before = gpu_memory.used() if self.setup.backend == 'cuda' else 0
        self.standby = self.launch(1)
        self.standby_vram = gpu_memory.used() - before if self.setup.backend == 'cuda' else 0
        return self

    def launch(self, number: int) -> TimedEngine:
        engine = TimedEngine(self, number, *self.options, backend=False)
        self.all.append(engine)
        self.cold.append(engine.entered('STANDBY') - engine.began)
        return engine

    def follow_up(self) -> None:
        """The one that was killed comes back and waits."""
        gone = self.active
        gone.process.wait(60)
        self.all.remove(gone)
        gone.end()
        self.active, self.standby = self.standby, self.launch(gone.number)


def read_until(streams: List[Stream], done) -> None:
    """Reads all of them until done(stream) of each."""
    deadline = time.monotonic() + READ_PATIENCE
    with selectors.DefaultSelector() as ready:
        for one in streams:
            ready.register(one.socket, selectors.EVENT_READ, one)
        while not all(done(one) for one in streams):
            if time.monotonic() > deadline:
                raise SystemExit('a stream stands still')
            for key, _ in ready.select(1):
                key.data.read()
                if key.data.over:
                    raise SystemExit('a stream ended before the kill was measured')


def after(stream: Stream, moment: float) -> List[float]:
    return [at for at, _ in stream.pieces if at > moment]


def kill_once(pair: Pair, streams: List[Stream], tokens: int, found: Dict[str, List[float]]) -> Dict:
    read_until(streams, lambda one: one.tokens() >= tokens)
    successor = pair.standby
    killed = time.perf_counter()
    pair.active.process.send_signal(signal.SIGKILL)
    # What the dead engine had sent comes before the lock is free.
    read_until(streams, lambda one: len(after(one, killed)) >= AFTER)
    lock, ready = successor.entered('WAKING'), successor.entered('ACTIVE')
    nexts = [after(one, lock)[0] for one in streams]
    found['kill_to_lock'].append(lock - killed)
    found['lock_to_ready'].append(ready - lock)
    found['ready_to_token'].append(min(nexts) - ready)
    found['kill_to_next'] += [at - killed for at in nexts]
    for one in streams:
        around = [at for at, _ in one.pieces if at < killed][-1:] + after(one, killed)
        found['pause'].append(max(b - a for a, b in zip(around, around[1:])))
        one.socket.close()
    return successor.wait_event('connections_taken_over')


def spread(seconds: List[float]) -> Dict:
    ms = [at * 1e3 for at in seconds]
    return {'p50': round(percentile(ms, 0.5), 2), 'p95': round(percentile(ms, 0.95), 2),
            'max': round(max(ms), 2), 'n': len(ms)}


def kills(setup: Setup, kind: str, streams: int, positions: int, count: int) -> Dict:
    """Kills in one scenario of streams of one kind. The figures are in ms."""
    found: Dict[str, List[float]] = {name: [] for name in ('kill_to_lock', 'lock_to_ready', 'ready_to_token',
                                                           'kill_to_next', 'pause')}
    total = {'resumed': 0, 'lost': 0, 'conflicts': 0}
    missed = 0
    draw = random.Random(positions * 100 + streams)
    context = positions + MAX_TOKENS + 112
    slots = streams * (2 if kind == 'choices' else 1)
    name = f'{kind}-{streams}x{positions}'
    with Pair(setup, name, '--slots', str(slots), '--context', str(context)) as pair:
        words = max(1, words_of(pair.active, positions) - 4)
        for number in range(count):
            # No two begin alike.
            prompts = [f'{number:04}-{n:02} of all' + WORD * words for n in range(streams)]
            running = [begin(kind, pair.active, prompt, MAX_TOKENS) for prompt in prompts]
            taken = kill_once(pair, running, BEFORE + draw.randrange(12), found)
            for count_of in total:
                total[count_of] += taken[count_of]
            missed += taken['resumed'] < streams
            pair.follow_up()
            pair.active.wait_idle()
        cold = statistics.median(pair.cold)
    figures = {name: spread(values) for name, values in found.items()}
    return {'kind': kind, 'streams': streams, 'positions': positions, 'kills': count, 'missed': missed,
            **total, 'cold_start_s': round(cold, 3), 'figures': figures}


def rate(worker: Worker, name: str) -> float:
    """Tokens a second of one stream."""
    stream = Stream(worker, name, RATE_TOKENS)
    with selectors.DefaultSelector() as ready:
        ready.register(stream.socket, selectors.EVENT_READ)
        while not stream.over and ready.select(READ_PATIENCE):
            stream.read()
    stream.socket.close()
    return (stream.tokens() - stream.pieces[0][1]) / (stream.pieces[-1][0] - stream.pieces[0][0])


def first_byte(port: int) -> float:
    """Microseconds from the connect to the first byte of an answer."""
    begin = time.perf_counter()
    with Connection(port) as connection:
        connection.request('GET', '/live')
        connection.socket.recv(1)
        return (time.perf_counter() - begin) * 1e6


def cost(setup: Setup, runs: int) -> Tuple[Dict, Dict]:
    """A worker alone and a pair, asked in turn, so that whatever else runs meets both. And the standby."""
    alone = Worker('--model', setup.model, '--backend', setup.backend, '--context', '1024',
                   *setup.options, backend=False)
    rates, bytes_us = {'alone': [], 'failover': []}, {'alone': [], 'failover': []}
    with alone, Pair(setup, 'cost', '--slots', '1', '--context', '1024') as pair:
        alone.wait_event('ready', timeout=STARTS_PATIENCE)
        both = {'alone': alone, 'failover': pair.active}
        for number in range(runs):
            for name, worker in both.items():
                rates[name].append(rate(worker, f'{number} {name} story'))
        for _ in range(400):
            for name, worker in both.items():
                bytes_us[name].append(first_byte(worker.port if name == 'alone' else pair.port))
        memory = pair.standby.memory()
        holder = pair.holder.memory()
        vram = pair.standby_vram
        cold = pair.cold
    found = {f'decode_tok_s_{name}': round(statistics.median(values), 1) for name, values in rates.items()}
    for name, values in bytes_us.items():
        found[f'first_byte_us_{name}_p50'] = round(percentile(values, 0.5))
        found[f'first_byte_us_{name}_p95'] = round(percentile(values, 0.95))
    return found, {'cold_start_to_standby_s': round(statistics.median(cold), 3),
                   'standby_vram_mib': round(vram / 2**20, 1),
                   'standby_rss_mib': round(memory['VmRSS'] / 2**20, 1),
                   'standby_rss_of_files_mib': round(memory['RssFile'] / 2**20, 1),
                   'holder_rss_mib': round(holder['VmRSS'] / 2**20, 1)}
