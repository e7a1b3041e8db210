#!/usr/bin/env python3
"""Load through HTTP by guidellm, an existing load generator for OpenAI-compatible servers, unchanged.

    python3 -m venv VENV && VENV/bin/pip install guidellm==0.8.1
    bench/load_run.py --model FILE --build DIR --guidellm VENV/bin/guidellm [--out FILE] [--seconds 40]

Starts a worker with eight slots and asks it for chats of 64 tokens over as many streams as --streams says,
one number after the other. A model without a chat template gets one with --chat-template. The prompts are a
hundred of 20 to 200 words, each used once a run, which ends with them at the latest. Prints a table and
writes a summary: JSON with the command, machine and commit."""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'test' / 'integration'))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True)
    parser.add_argument('--build', required=True)
    parser.add_argument('--guidellm', required=True)
    parser.add_argument('--backend', default='host', choices=['host', 'cuda'])
    parser.add_argument('--streams', default='1,4,8')
    parser.add_argument('--seconds', type=int, default=40)
    parser.add_argument('--tokens', type=int, default=64)
    parser.add_argument('--chat-template', default='')
    parser.add_argument('--context', default='1024')
    parser.add_argument('--out', default='')
    return parser.parse_args()


OPTIONS = arguments()
os.environ['ORCD_BUILD_DIR'] = OPTIONS.build

from http_bench import commit, machine  # noqa: E402
from worker_process import Worker  # noqa: E402

WORDS = 'light house sea storm night keeper lamp wave stone bird letter harbour boat rope wind'.split()
FIGURES = {'first token ms': 'time_to_first_token_ms', 'between tokens ms': 'inter_token_latency_ms',
           'request s': 'request_latency'}


def write_prompts(path: Path) -> None:
    source = random.Random(1)
    with path.open('w') as out:
        for _ in range(100):
            words = ' '.join(source.choice(WORDS) for _ in range(source.randrange(20, 200)))
            out.write(json.dumps({'prompt': 'Go on with this story: ' + words,
                                  'output_tokens_count': OPTIONS.tokens}) + '\n')


def run(worker: Worker, streams: str, folder: Path) -> dict:
    report = folder / f'{streams}.json'
    backend = {'kind': 'openai_http', 'target': f'http://127.0.0.1:{worker.port}', 'http2': False,
               'extras': {'body': {'temperature': 0.8, 'seed': 1}}}
    command = [OPTIONS.guidellm, 'run', '--backend', json.dumps(backend),
               '--profile', f'kind=concurrent,streams={streams}',
               '--constraint', f'kind=max_duration,seconds={OPTIONS.seconds}',
               '--constraint', 'kind=max_errors,count=1',
               '--data', f'kind=json_file,path={folder / "prompts.jsonl"}',
               '--output', f'kind=json,path={report}', '--disable-console']
    subprocess.run(command, check=True, timeout=OPTIONS.seconds + 90,
                   env={**os.environ, 'HF_HUB_OFFLINE': '1'}, stdout=subprocess.DEVNULL)
    (benchmark,) = json.loads(report.read_text())['benchmarks']
    metrics = benchmark['metrics']
    out = {'streams': int(streams), 'requests': metrics['request_totals'],
           'tok_s': round(metrics['output_tokens_per_second']['successful']['mean'], 2)}
    for name, key in FIGURES.items():
        shares = metrics[key]['successful']['percentiles']
        out[name] = {p: round(shares[p], 3) for p in ('p50', 'p95', 'p99')}
    return out


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_prompts(folder / 'prompts.jsonl')
        template = ('--chat-template', OPTIONS.chat_template) if OPTIONS.chat_template else ()
        with Worker('--model', OPTIONS.model, '--backend', OPTIONS.backend, '--slots', '8',
                    '--context', OPTIONS.context, '--max-queue', '32', *template, backend=False) as worker:
            worker.wait_event('ready')
            runs = [run(worker, streams, folder) for streams in OPTIONS.streams.split(',')]
            health = worker.get('/health').json()
            errors = [e for e in worker.events() if e['level'] in ('error', 'critical')]
    print('| streams | requests (failed) | tok/s | first token p50/p99, ms | between tokens p50/p99, ms |')
    print('|---|---|---|---|---|')
    for r in runs:
        first, between = r['first token ms'], r['between tokens ms']
        ended = r['requests']
        print(f"| {r['streams']} | {ended['successful']} ({ended['errored']}) | {r['tok_s']:.1f} | "
              f"{first['p50']:.0f} / {first['p99']:.0f} | {between['p50']:.1f} / {between['p99']:.1f} |")
    summary = {'generator': subprocess.run([OPTIONS.guidellm, '--version'], capture_output=True,
                                           text=True).stdout.strip(),
               'model': health['model'], 'backend': health['backend'], 'tokens': OPTIONS.tokens,
               'machine': machine(), 'commit': commit(), 'command': ' '.join(
                   ['bench/load_run.py', '--streams', OPTIONS.streams, '--seconds', str(OPTIONS.seconds)]),
               'runs': runs}
    if OPTIONS.out:
        Path(OPTIONS.out).write_text(json.dumps(summary, indent=1) + '\n')
    assert not errors, errors
    assert all(r['requests']['errored'] == 0 and r['requests']['successful'] > 0 for r in runs), runs


if __name__ == '__main__':
    main()
