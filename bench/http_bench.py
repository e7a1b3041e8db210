#!/usr/bin/env python3
"""Measures a worker over HTTP and prints, for each figure, a line of a table and a line of JSON.

    bench/http_bench.py --model FILE [--build DIR] [--only health,cancel,memory,latency] [--seconds N]

health   p99 of GET /health with 64 busy keep-alive connections while a job runs   (needs wrk)
cancel   POST /cancel to the end of the stream and to the job stopped, 50 cancels
memory   resident memory over 1,000 requests
latency  time to first token and between tokens, 20 requests of 64 tokens

Every JSON line holds the command, the machine and the commit. Nothing else should run meanwhile.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PROMPT = '<|im_start|>user\nTell me a long story about a lighthouse.<|im_end|>\n<|im_start|>assistant\n'
LONG = {'prompt': PROMPT, 'max_tokens': 1500, 'ignore_eos': True, 'temperature': 0.8, 'seed': 1}


def machine() -> dict:
    text = subprocess.run(['lscpu'], capture_output=True, text=True, check=True).stdout
    model = re.search(r'^Model name:\s+(.*)$', text, re.M)
    return {'cpu': model.group(1) if model else 'unknown', 'cores': os.cpu_count()}


def commit() -> str:
    found = subprocess.run(['git', '-C', str(PROJECT), 'describe', '--always', '--dirty'],
                           capture_output=True, text=True)
    return found.stdout.strip() or 'unknown'


def percentile(values, share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values) -> dict:
    return {'p50': round(percentile(values, 0.50), 3), 'p95': round(percentile(values, 0.95), 3),
            'p99': round(percentile(values, 0.99), 3), 'max': round(max(values), 3), 'n': len(values)}


class Report:
    def __init__(self, model: Path):
        self.common = {'command': ' '.join(sys.argv), 'model': model.name, 'machine': machine(),
                       'commit': commit(), 'date': time.strftime('%Y-%m-%d', time.gmtime())}
        self.failed = False

    def add(self, name: str, figures: dict, limit: str, good: bool) -> None:
        self.failed = self.failed or not good
        shown = '  '.join(f'{k} {v}' for k, v in figures.items())
        print(f'{name:<26} {shown:<64} limit {limit:<10} {"ok" if good else "MISSED"}')
        line = {'name': name, 'figures': figures, 'limit': limit, 'ok': good, **self.common}
        print(json.dumps(line), flush=True)


def measure_health(worker, report: Report, seconds: int) -> None:
    unit = {'us': 1e-3, 'ms': 1.0, 's': 1e3}
    stream = worker.open(**LONG)
    stream.until('token')
    before = worker.metric('worker_steps_total')
    url = f'http://127.0.0.1:{worker.port}/health'
    wrk = subprocess.run(['wrk', '-t2', '-c64', f'-d{seconds}s', '--latency', url],
                         capture_output=True, text=True, check=True).stdout
    steps = worker.metric('worker_steps_total') - before
    stream.close()
    shares = {share: float(value) * unit[name]
              for share, value, name in re.findall(r'(50|75|90|99)%\s+([\d.]+)(us|ms|s)\b', wrk)}
    rate = float(re.search(r'Requests/sec:\s+([\d.]+)', wrk).group(1))
    errors = re.findall(r'(?:Non-2xx|Socket errors).*', wrk)
    figures = {'p50_ms': shares['50'], 'p99_ms': shares['99'], 'requests_per_s': round(rate),
               'steps_meanwhile': int(steps)}
    report.add('/health under load', figures, 'p99 10 ms', shares['99'] < 10 and not errors)


def measure_cancel(worker, report: Report) -> None:
    told, stopped = [], []
    for number in range(50):
        stream = worker.open(job_id=f'cancel-{number}', **LONG)
        stream.until('token', 1 + number % 5)
        begin = time.perf_counter()
        worker.cancel(f'cancel-{number}')
        stream.finish()
        told.append((time.perf_counter() - begin) * 1e3)
        while worker.running() > 0:
            pass
        stopped.append((time.perf_counter() - begin) * 1e3)
        stream.close()
    report.add('cancel to error event, ms', spread(told), '100 ms', max(told) < 100)
    report.add('cancel to job stopped, ms', spread(stopped), '100 ms', max(stopped) < 100)


def measure_memory(worker, report: Report) -> None:
    def requests(count: int) -> None:
        for number in range(count):
            worker.execute(prompt=f'Say {number}.', max_tokens=2, temperature=1.0, seed=number)
    requests(100)
    begin = worker.memory()['VmRSS']
    samples = []
    for _ in range(10):
        requests(100)
        samples.append(worker.memory()['VmRSS'])
    growth = (samples[-1] - begin) / begin * 100
    figures = {'before_mb': round(begin / 1e6, 2), 'after_mb': round(samples[-1] / 1e6, 2),
               'growth_percent': round(growth, 3)}
    report.add('resident memory, 1000 req', figures, '1 %', growth < 1)


def measure_latency(worker, report: Report) -> None:
    first, between, rates = [], [], []
    for number in range(20):
        begin = time.monotonic()
        stream = worker.open(**{**LONG, 'max_tokens': 64, 'seed': number})
        stream.finish()
        tokens = [e.at for e in stream.seen if e.name == 'token']
        first.append((tokens[0] - begin) * 1e3)
        between += [(b - a) * 1e3 for a, b in zip(tokens, tokens[1:])]
        rates.append(stream.seen[-1].data['tokens_per_second'])
        stream.close()
    report.add('time to first token, ms', spread(first), '100 ms', percentile(first, 0.95) < 100)
    report.add('between tokens, ms', spread(between), '50 ms', percentile(between, 0.95) < 50)
    figures = {'median': round(percentile(rates, 0.5), 1), 'least': round(min(rates), 1)}
    report.add('tokens/s', figures, '25', min(rates) >= 25)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', type=Path, required=True)
    parser.add_argument('--build', type=Path, default=PROJECT / 'build' / 'release')
    parser.add_argument('--only', default='health,cancel,memory,latency')
    parser.add_argument('--seconds', type=int, default=10)
    chosen = parser.parse_args()
    os.environ['ORCD_BUILD_DIR'] = str(chosen.build)
    sys.path.insert(0, str(PROJECT / 'test' / 'integration'))
    from worker_process import Worker  # after ORCD_BUILD_DIR is set

    report = Report(chosen.model)
    with Worker('--model', chosen.model.resolve()) as worker:
        worker.wait_event('ready')
        worker.execute(prompt=PROMPT, max_tokens=8)
        parts = {'health': lambda: measure_health(worker, report, chosen.seconds),
                 'cancel': lambda: measure_cancel(worker, report),
                 'memory': lambda: measure_memory(worker, report),
                 'latency': lambda: measure_latency(worker, report)}
        for name in chosen.only.split(','):
            parts[name]()
    return 1 if report.failed else 0


if __name__ == '__main__':
    sys.exit(main())
