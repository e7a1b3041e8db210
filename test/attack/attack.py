#!/usr/bin/env python3
"""Attacks a worker as strangers, shortages and signals do, and says what held.

    attack.py [--binary BINARY] [--before BINARY] [--seed N] [--only TEXT]... [--minutes M] [--table FILE]
              [--strict] [--figures FILE]

Every probe is one line: what was tried, and whether it held. With --before the same is tried on another
binary first, and a table of both is printed. What is drawn at random comes from the seed, which is printed.
What the canary saw beside each probe is printed at the end, the worst of it, and kept in a file, all of it.
Exit code 0: everything held.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'integration'))

import crowd  # noqa: E402
from judge import PROBES, Checks, Report, Row, table  # noqa: E402


def arguments() -> argparse.Namespace:
    default = Path(os.environ.get('ORCD_BUILD_DIR', 'build/release')) / 'worker-orcd'
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--binary', type=Path, default=default, help='the worker that is attacked')
    parser.add_argument('--before', type=Path, help='another worker, for the table')
    parser.add_argument('--tools', type=Path, help='where write_tiny_model lies: beside the binary')
    parser.add_argument('--seed', type=int, help='of what is drawn at random: one of the clock')
    parser.add_argument('--only', action='append', default=[], metavar='TEXT',
                        help='only probes with this text in "kind: name"; may be given again')
    parser.add_argument('--minutes', type=float, default=5.0,
                        help='drawn cases fill what is left of this; the fixed ones run in any case')
    parser.add_argument('--backend', choices=('host', 'cuda'), default='host')
    parser.add_argument('--strict', action='store_true',
                        help='judges the canary by the goals; else by stalls that a person notices')
    parser.add_argument('--attempts', type=int, default=5,
                        help='of a probe that fails, but where the worker ended, hung, stalled or sent other '
                             'bytes')
    parser.add_argument('--figures', type=Path,
                        help='what the canary saw goes there, as JSON: attack_figures.json beside the binary')
    parser.add_argument('--table', type=Path, help='writes the table there as well')
    parser.add_argument('--rows', type=Path, help='writes the rows there, as JSON')
    parser.add_argument('--list', action='store_true', help='names the probes')
    return parser.parse_args()


def try_probe(arena, one, attempt: int) -> Checks:
    """One attempt, bounded by its own timeouts; whatever it throws is its failure. A worker that it ended, or
    that answers no more, is another one for the next."""
    checks = Checks(attempt)
    try:
        one.run(arena, checks)
    except Exception as failure:
        where = traceback.extract_tb(failure.__traceback__)[-1]
        checks.expect(False, f'{type(failure).__name__}: {str(failure)[:160]} ({where.name}:{where.lineno})')
    for name, code in arena.dead().items():
        checks.never(True, f'the worker of {name} ended with {code}')
    for code in arena.crashes():
        checks.never(True, f'a worker ended by signal {-code}')
    for name in arena.stuck():
        checks.never(True, f'the worker of {name} answers no more')
    return checks


def run_probe(arena, report: Report, one) -> None:
    earlier = []
    for attempt in range(arena.attempts):
        checks = try_probe(arena, one, attempt)
        report.canary += [{'kind': one.kind, 'name': one.name, 'attempt': attempt + 1, **seen}
                          for seen in checks.canary]
        if checks.held or checks.unforgivable:
            break
        earlier.append(f'attempt {attempt + 1}: {"; ".join(checks.wrong)}')
    before = earlier if checks.held or checks.unforgivable else earlier[:-1]
    report.add(one.kind, one.name, checks.held, ' | '.join([checks.text, *before]))


def attack(options: argparse.Namespace) -> Report:
    """All probes on one binary."""
    os.environ['ORCD_BUILD_DIR'] = str(options.binary.resolve().parent)
    import worker_process
    worker_process.BINARY = options.binary.resolve()
    from arena import Arena
    import kinds  # noqa: F401
    report = Report(options.only)
    with tempfile.TemporaryDirectory(prefix='attack-') as folder:
        os.chmod(folder, 0o755)  # a worker under another user reads its model from there
        arena = Arena(Path(folder), options.tools or options.binary.resolve().parent, options.seed,
                      options.attempts)
        arena.strict = options.strict
        arena.use(options.backend)
        arena.deadline = time.monotonic() + options.minutes * 60
        try:
            for one in PROBES:
                if report.wants(one.kind, one.name):
                    run_probe(arena, report, one)
            arena.end(report)
        finally:
            arena.kill_all()
    return report


def run_before(options: argparse.Namespace) -> list:
    """The same in a process of its own, on the other binary."""
    with tempfile.NamedTemporaryFile(suffix='.json') as rows:
        command = [sys.executable, '-B', __file__, '--binary', str(options.before), '--rows', rows.name,
                   '--seed', str(options.seed), '--minutes', str(options.minutes),
                   '--attempts', str(options.attempts)]
        tools = options.tools or options.binary.resolve().parent
        command += ['--tools', str(tools), '--backend', options.backend,
                    *(['--strict'] if options.strict else [])]
        for text in options.only:
            command += ['--only', text]
        subprocess.run(command, check=False, timeout=3600)
        return [Row(**row) for row in json.loads(Path(rows.name).read_text())]


def keep_figures(options: argparse.Namespace, report: Report) -> None:
    place = options.figures or options.binary.resolve().parent / 'attack_figures.json'
    kept = {'binary': str(options.binary), 'seed': options.seed, 'strict': options.strict,
            'load': os.getloadavg()[0], 'worst': report.worst(), 'canary': report.canary}
    place.write_text(json.dumps(kept, indent=1) + '\n')
    worst = ', '.join(f'{name} {value}' for name, value in report.worst().items())
    print(f'the worst of {len(report.canary)} canaries: {worst or "none was beside a probe"}; all: {place}')


def main() -> int:
    options = arguments()
    if options.list:
        import kinds  # noqa: F401
        print('\n'.join(f'{one.kind}: {one.name}' for one in PROBES))
        return 0
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**32)
    print(f'seed {options.seed}, {options.binary}', flush=True)
    columns = {'before': run_before(options)} if options.before else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an end in order: no process is left
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children would ignore it, and the worker is one
    crowd.prepare()
    report = attack(options)
    columns['after' if options.before else 'result'] = report.rows
    if options.rows:
        options.rows.write_text(json.dumps([vars(row) for row in report.rows]))
    if options.before or options.table:
        text = table(columns)
        print(text)
        if options.table:
            options.table.write_text(text)
    keep_figures(options, report)
    failed = report.failures()
    print(f'{len(report.rows) - len(failed)} of {len(report.rows)} held; seed {options.seed}')
    for row in failed:
        print(f'FAIL {row.kind}: {row.name}: {row.text}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
