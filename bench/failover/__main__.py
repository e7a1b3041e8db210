"""What a takeover costs those who read, and what failover costs while nothing fails, through HTTP.

    bench/failover --build DIR --model FILE [--backend host] [--kills 50] [--runs 11] [--json FILE]
                   [--scenarios 1x512,4x512,1x2048,8x4096] [--kinds execute] [--share-weights off]
                   [-- OPTIONS]

Two engines and a holder. In each scenario, streams x positions, so many streams of each kind (kinds.py) run
on prompts of so many tokens; the serving engine is killed by SIGKILL at some token; they are read on, and it
is started again. Lock and ready are the moments at which the successor's log says WAKING and ACTIVE.
--scenarios '' leaves the kills out. A table goes to standard output, --json FILE has the same for programs.
Exit code 1: a connection was lost, or journal and kernel contradicted one another, or a kill did not hit all
streams.
"""
import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
KINDS = ('execute', 'completion', 'choices', 'logprobs', 'schema')
ROWS = (('kill_to_lock', 'kill to lock'), ('lock_to_ready', 'lock to ready'),
        ('ready_to_token', 'ready to the first token'),
        ('kill_to_next', 'kill to the next token, every stream'),
        ('pause', 'longest pause of a stream'))


def arguments(words: List[str]) -> argparse.Namespace:
    own, options = words, []
    if '--' in words:
        own, options = words[:words.index('--')], words[words.index('--') + 1:]
    parser = argparse.ArgumentParser(prog='bench/failover', description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--build', type=Path, required=True, help='folder of the binaries')
    parser.add_argument('--model', type=Path, required=True)
    parser.add_argument('--backend', default=os.environ.get('ORCD_BACKEND', 'host'), choices=('cuda', 'host'),
                        help='the default is ORCD_BACKEND, else host')
    parser.add_argument('--kills', type=int, default=50, help='in each scenario (50)')
    parser.add_argument('--scenarios', default='1x512,4x512,1x2048,8x4096')
    parser.add_argument('--kinds', default='execute', help=f'of {",".join(KINDS)}, or all')
    parser.add_argument('--runs', type=int, default=11, help='streams whose pace is compared (11)')
    parser.add_argument('--share-weights', default='off', choices=('off', 'auto', 'require'))
    parser.add_argument('--json', type=Path, help='write all of it there as JSON')
    chosen = parser.parse_args(own)
    chosen.options = options
    chosen.kinds = KINDS if chosen.kinds == 'all' else tuple(chosen.kinds.split(','))
    if not set(chosen.kinds) <= set(KINDS):
        parser.error(f'--kinds are of {", ".join(KINDS)}')
    try:
        named = [one for one in chosen.scenarios.split(',') if one]
        chosen.scenarios = [tuple(int(n) for n in one.split('x')) for one in named]
    except ValueError:
        parser.error('--scenarios are STREAMSxPOSITIONS, parted by commas')
    if chosen.backend not in ('cuda', 'host'):  # argparse takes a default as it is
        parser.error(f'ORCD_BACKEND is {chosen.backend!r}; it must be cuda or host')
    if min(chosen.kills, chosen.runs) < 1 or any(len(one) != 2 or min(one) < 1 for one in chosen.scenarios):
        parser.error('there must be a kill and a run, and every scenario has streams and positions')
    return chosen


def show(report: Dict) -> None:
    print(f'{report["model"]}, backend {report["backend"]}, commit {report["commit"]}, {report["date"]}, '
          f'{report["machine"]["cores"]} cores, load {report["load_before"]} before and '
          f'{report["load_after"]} after\n')
    for one in report['scenarios']:
        print(f'{one["streams"]} streams of {one["kind"]} at {one["positions"]} positions, '
              f'{one["kills"]} kills: {one["resumed"]} connections resumed, {one["lost"]} lost, '
              f'{one["conflicts"]} conflicts, {one["missed"]} kills that did not hit all streams')
        for key, title in ROWS:
            shown = '  '.join(f'{k} {v:9.1f}' for k, v in one['figures'][key].items() if k != 'n')
            print(f'  {title + ", ms":<42} {shown}')
    for name, value in {**report['cost'], **report['standby']}.items():
        print(f'{name:<44} {value}')


def main(words: List[str]) -> int:
    chosen = arguments(words)
    os.environ.update(ORCD_BUILD_DIR=str(chosen.build.resolve()), ORCD_BACKEND=chosen.backend)
    for folder in (HERE, HERE.parent, PROJECT / 'test' / 'integration',
                   PROJECT / 'test' / 'integration' / 'failover'):
        sys.path.insert(0, str(folder))
    import measure  # after both are set
    from http_bench import commit, machine

    report = {'command': ' '.join(['bench/failover', *words]), 'machine': machine(), 'commit': commit(),
              'date': time.strftime('%Y-%m-%d', time.gmtime()), 'model': chosen.model.name,
              'backend': chosen.backend, 'load_before': round(os.getloadavg()[0], 1), 'scenarios': []}
    with tempfile.TemporaryDirectory() as folder:
        setup = measure.Setup(chosen.model.resolve(), Path(folder), chosen.backend, chosen.options,
                              ['--share-weights', chosen.share_weights])
        report['cost'], report['standby'] = measure.cost(setup, chosen.runs)
        for kind in chosen.kinds:
            for streams, positions in chosen.scenarios:
                report['scenarios'].append(measure.kills(setup, kind, streams, positions, chosen.kills))
    report['load_after'] = round(os.getloadavg()[0], 1)
    show(report)
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')
    return 1 if any(one['lost'] + one['conflicts'] + one['missed'] for one in report['scenarios']) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
