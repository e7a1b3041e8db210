#!/usr/bin/env python3
"""Many short requests with shared prefixes, random cancels and disconnects against a host worker with little
KV memory; afterwards memory, descriptors and pages must be where they were, and every answer the same as the
first of its kind.

    bench/prefix_soak.py --model FILE --build DIR [--requests 100000] [--clients 6] [--seed 1]
    bench/prefix_soak.py ... --requests 15000 --clients 256 --slots 256 --kv-tokens 25600 --longest 600

The second is for jobs that grow on pages for few of them: how many were set back is told.
"""
import argparse
import json
import os
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'test' / 'integration'))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True)
    parser.add_argument('--build', required=True)
    parser.add_argument('--requests', type=int, default=100_000)
    parser.add_argument('--clients', type=int, default=6)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--slots', type=int, default=4)
    parser.add_argument('--kv-tokens', type=int, default=2048)
    parser.add_argument('--longest', type=int, default=30, help='tokens of the longest answers, one of five')
    parser.add_argument('--warm-up', type=int, default=2_000, help='requests before the first look at memory')
    return parser.parse_args()


OPTIONS = arguments()
os.environ['ORCD_BUILD_DIR'] = OPTIONS.build

from http_client import Closed, Connection, Stream, text_of  # noqa: E402
from worker_process import Worker  # noqa: E402

# The worker closes a connection that has sent nothing for so many seconds: a new one, and one whose last
# answer it has written. Clients ask on such a connection only where they had no processor for as long.
SILENCE_MAX = {False: 10.0, True: 75.0}

SYSTEMS = [f'System {s}: ' + ' '.join(f'rule {i * s % 17}' for i in range(60)) for s in range(1, 6)]


class Client(threading.Thread):
    """Requests until the shared count runs out."""

    def __init__(self, worker: Worker, number: int, counts: dict, answers: dict, lock: threading.Lock):
        super().__init__()
        self.worker, self.counts, self.answers, self.lock = worker, counts, answers, lock
        self.random = random.Random(OPTIONS.seed * 1000 + number)
        self.number = number
        self.connect()
        self.failure = None

    def connect(self) -> None:
        self.asking_at = time.monotonic()
        self.connection = Connection(self.worker.port)
        self.used = self.answered = False

    def run(self) -> None:
        try:
            while self.take():
                self.one_in_time()
        except Exception as failure:  # noqa: BLE001 - told by the main thread
            self.failure = failure
        self.connection.close()

    def one_in_time(self) -> None:
        try:
            self.one()
        except (Closed, ConnectionError) as failure:
            silent = self.asked_at - self.asked_before
            if self.answered or silent < SILENCE_MAX[self.used] - 0.5:
                raise RuntimeError(f'{failure}, {silent:.1f} s after the request before') from failure
            self.connect()
            self.count('too late')

    def take(self) -> bool:
        with self.lock:
            self.counts['left'] -= 1
            return self.counts['left'] >= 0

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def one(self) -> None:
        pick = self.random
        prompt = pick.choice(SYSTEMS)[:pick.randrange(1, 400)] + ' and' * pick.randrange(3)
        tokens = pick.choice((1, 2, 4, 8, OPTIONS.longest))
        job = f'c{self.number}-{pick.getrandbits(60)}'
        body = {'job_id': job, 'prompt': prompt, 'max_tokens': tokens, 'temperature': 0.8, 'seed': 7,
                'ignore_eos': True}
        if pick.random() < 0.2:
            body['cache_salt'] = pick.choice(('a', 'b'))
        if pick.random() < 0.3:
            body['imc_id'] = f's{pick.randrange(4)}'
        if pick.random() < 0.1:
            body['cache_prompt'] = False
        # The worker may have written its last answer as soon as that was asked for, however much later this
        # client had a processor to read it: its silence is counted from before it sent the last request.
        self.answered, self.asked_before = False, self.asking_at
        self.asking_at = time.monotonic()
        try:
            self.connection.request('POST', '/execute', json.dumps(body).encode())
        finally:
            self.asked_at = time.monotonic()
        fate = pick.random()
        if fate < 0.05:
            self.connection.close()
            self.connect()
            return self.count('disconnected')
        if fate < 0.12:
            self.worker.call('POST', '/cancel', {'job_id': job})
        stream = Stream(self.connection)
        self.answered = True
        # A refusal is no stream, and an error event ends the connection.
        events = stream.rest() if stream.response.status == 200 else []
        if not events or events[-1].name == 'error':
            self.connection.close()
            self.connect()
            return self.count('cancelled' if events else str(stream.response.status))
        text = text_of(events)
        with self.lock:
            if self.answers.setdefault((prompt, tokens), text) != text:
                raise AssertionError(f'{job}: another answer to the same request')
        self.used = True
        self.count('completed')


def run(worker: Worker, requests: int, answers: dict) -> dict:
    counts, lock = {'left': requests}, threading.Lock()
    clients = [Client(worker, i, counts, answers, lock) for i in range(OPTIONS.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for client in clients:
        if client.failure:
            raise client.failure
    worker.wait_idle()
    time.sleep(1.5)  # connections linger for up to a second
    del counts['left']
    return counts


def main() -> int:
    answers: dict = {}
    with Worker('--model', OPTIONS.model, '--slots', str(OPTIONS.slots), '--kv-tokens',
                str(OPTIONS.kv_tokens), '--cache-min-tokens', '8', '--imc-sessions', '2', '--max-queue',
                str(max(16, OPTIONS.clients)), '--max-connections', str(256 + 2 * OPTIONS.clients)) as worker:
        worker.wait_event('ready')
        run(worker, min(OPTIONS.warm_up, OPTIONS.requests), answers)
        before = (worker.memory()['VmRSS'], worker.descriptors())
        begin = time.monotonic()
        counts = run(worker, OPTIONS.requests, answers)
        took = time.monotonic() - begin
        after = (worker.memory()['VmRSS'], worker.descriptors())
        health = worker.get('/health').json()
        saved = worker.metric('worker_prefix_cache_hit_tokens_total')
        asked = worker.metric('worker_prefix_cache_query_tokens_total')
        print(f'{counts} in {took:.0f} s')
        print(f'resident bytes {before[0]} -> {after[0]}, descriptors {before[1]} -> {after[1]}, '
              f'pages used {health["kv_pages_used"]}')
        print(f'hits {health["cache_hits"]} of {health["cache_queries"]}, {saved / asked:.0%} of the prompt '
              f'tokens, evictions {health["cache_evictions"]}, jobs set back {health["jobs_set_back"]}')
        good = (after[0] < before[0] * 1.02 and after[1] <= before[1] and health['kv_pages_used'] == 0
                and health['status'] == 'healthy')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
