"""The seven figures of M0-W-1830 with p50, p95, p99 and a verdict each, of any model and backend.

    bench/acceptance --worker build/release/worker-orcd --model FILE [--backend host] [-- WORKER OPTIONS]
    bench/acceptance --url http://127.0.0.1:8080 [--key-file FILE]

The first form starts the worker several times and ends it; the second asks one that runs and leaves out
what would need an end. A table goes to standard output, --json FILE has the same for programs. Exit code 0:
no goal was missed by more than its tolerance; 1: one was; 2: it could not be measured.
"""
import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import measure  # noqa: E402
from client import Client, Failure, Process  # noqa: E402
from figures import GOALS, Figure, passed, table  # noqa: E402

GOAL = {goal.name: goal for goal in GOALS}
STARTS = 3


def machine() -> Dict:
    cpu = re.search(r'^model name\s*: (.*)$', Path('/proc/cpuinfo').read_text(encoding='utf-8'), re.M)
    memory = re.search(r'^MemTotal:\s+(\d+)', Path('/proc/meminfo').read_text(encoding='ascii'), re.M)
    return {'cpu': cpu.group(1) if cpu else platform.machine(), 'cores': os.cpu_count(),
            'memory_gib': round(int(memory.group(1)) / (1 << 20), 1), 'system': platform.platform(),
            'load_before': round(os.getloadavg()[0], 2)}


def commit() -> str:
    folder = str(Path(__file__).resolve().parent)
    try:
        found = subprocess.run(['git', '-C', folder, 'describe', '--always', '--dirty'],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return 'unknown'
    return found.stdout.decode().strip() or 'unknown'


def facts(client: Client) -> Dict:
    state = client.health()
    return {name: state[name] for name in ('model', 'quant_kind', 'architecture', 'backend', 'gpu_name',
                                           'digest', 'version', 'context_tokens', 'slots')}


def ask(client: Client, process: Optional[Process], chosen: argparse.Namespace) -> Dict[str, Figure]:
    """What a running worker can be asked."""
    measure.wait_idle(client)
    client.execute(prompt=measure.PROMPT, max_tokens=chosen.tokens).finish()  # caches and clocks get warm
    first, between = measure.tokens(client, chosen.requests, chosen.tokens)
    memory, how = measure.vram(client, process)
    return {'first_token': Figure(GOAL['first_token'], first),
            'between_tokens': Figure(GOAL['between_tokens'], between),
            'health': Figure(GOAL['health'], measure.health(client, 20 * chosen.requests)),
            'disconnect': Figure(GOAL['disconnect'], measure.disconnect(client, chosen.requests)),
            'vram': Figure(GOAL['vram'], memory, how)}


def started(chosen: argparse.Namespace) -> tuple:
    options = ['--model', chosen.model, '--backend', chosen.backend, '--drain-timeout', str(measure.DRAIN),
               *chosen.options]
    found: Dict[str, Figure] = {}
    starts: List[float] = []
    ends: List[float] = []
    about: Dict = {}
    for number in range(STARTS):
        process = Process(chosen.worker, options)
        try:
            starts.append(process.wait_ready())
            client = Client(f'http://127.0.0.1:{process.port}')
            if number == 0:
                found, about = ask(client, process, chosen), facts(client)
            ends.append(measure.shutdown(process, client))
        finally:
            process.end()
    note = f'a job of as many tokens as fit, --drain-timeout {measure.DRAIN}'
    found['start'] = Figure(GOAL['start'], starts)
    found['shutdown'] = Figure(GOAL['shutdown'], ends, note)
    return found, about


def running(chosen: argparse.Namespace) -> tuple:
    key = ''
    if chosen.key_file:
        key = chosen.key_file.read_text(encoding='utf-8').split()[0]
    client = Client(chosen.url, key)
    found, about = ask(client, None, chosen), facts(client)
    told = client.metric('worker_startup_seconds')
    found['start'] = Figure(GOAL['start'], [told], 'as the worker tells it')
    found['shutdown'] = Figure(GOAL['shutdown'], [], 'left out: a running worker is not stopped')
    return found, about


def arguments(words: List[str]) -> argparse.Namespace:
    own, options = words, []
    if '--' in words:
        own, options = words[:words.index('--')], words[words.index('--') + 1:]
    parser = argparse.ArgumentParser(prog='bench/acceptance', description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--worker', type=Path, help='binary to start')
    parser.add_argument('--model', help='model for it')
    parser.add_argument('--backend', default='cuda', choices=('cuda', 'host'))
    parser.add_argument('--url', help='a running worker, instead of --worker and --model')
    parser.add_argument('--key-file', type=Path, help='file whose first word is an API key, for --url')
    parser.add_argument('--requests', type=int, default=30, help='jobs whose tokens are timed (30)')
    parser.add_argument('--tokens', type=int, default=64, help='tokens of each (64)')
    parser.add_argument('--json', type=Path, help='write all of it there as JSON')
    chosen = parser.parse_args(own)
    chosen.options = options
    if bool(chosen.url) == bool(chosen.worker and chosen.model):
        parser.error('give either --url or both --worker and --model')
    if chosen.requests < 1 or chosen.tokens < 2:
        parser.error('--requests must be at least 1 and --tokens at least 2')
    return chosen


def main(words: List[str]) -> int:
    chosen = arguments(words)
    report = {'machine': machine(), 'commit': commit(), 'date': time.strftime('%Y-%m-%d', time.gmtime())}
    try:
        found, report['worker'] = running(chosen) if chosen.url else started(chosen)
    except (Failure, OSError) as why:
        print(f'bench/acceptance: {why}', file=sys.stderr)
        return 2
    figures = [found[goal.name] for goal in GOALS]
    report.update(figures=[f.to_json() for f in figures], passed=passed(figures))
    about, here = report['worker'], report['machine']
    device = about['gpu_name'] or f'{here["cores"]} x {here["cpu"]}'
    print(f'{about["model"]} ({about["quant_kind"]}), backend {about["backend"]} on {device}, commit '
          f'{report["commit"]}, {report["date"]}, load before {here["load_before"]}\n')
    print(table(figures))
    print('\nall goals met' if report['passed'] else '\nNOT all goals met')
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')
    return 0 if report['passed'] else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
