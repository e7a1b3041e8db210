"""Runs what takes too long for each change, part by part, and keeps what came of it in
docs/measured/night.json.

    tools/night.sh [OPTION...] [PART...]     without a part: all; one that fails keeps no other one back

exit code: 0, or 1 where a part failed, the record is damaged or there is no such part
"""
import argparse
import signal
import subprocess
import sys
from pathlib import Path
from typing import List

import record
import runner
from parts import PARTS, Part


def arguments(words: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='tools/night.sh', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('parts', nargs='*', metavar='PART')
    parser.add_argument('--list', action='store_true',
                        help='name the parts, and what each may take and needs')
    parser.add_argument('--stale', action='store_true', help='name the parts that never ran, that failed, or '
                        f'that ran over {record.COMMITS_MAX} commits ago')
    parser.add_argument('--build-dir', type=Path, metavar='FOLDER',
                        help='of given binaries: nothing is installed or built for the named parts')
    parser.add_argument('--commit', metavar='ID', help='what is tested, where no git says it')
    parser.add_argument('--record', type=Path, default=runner.RECORD, metavar='FILE',
                        help='written to instead of docs/measured/night.json')
    parser.add_argument('--merge', type=Path, metavar='FILE',
                        help="take up another machine's record, and end")
    return parser.parse_args(words)


def chosen_parts(names: List[str]) -> List[Part]:
    by_name = {part.name: part for part in PARTS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise SystemExit(f'no such part: {", ".join(unknown)}; tools/night.sh --list names them')
    return [by_name[name] for name in names] or list(PARTS)


def git(*words: str) -> str:
    done = subprocess.run(['git', '-C', str(runner.PROJECT), *words], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else ''


def changed(record_file: Path) -> str:
    """What differs from the commit, but for the record itself."""
    own = record_file.resolve()
    lines = git('status', '--porcelain').splitlines()
    names = [line.split()[-1] for line in lines]
    return ', '.join(name for name in names if (runner.PROJECT / name).resolve() != own)


def show_list() -> None:
    for part in PARTS:
        needs = f'; needs {", ".join(part.needs)}' if part.needs else ''
        print(f'{part.name:<26} {part.about} ({part.minutes:g} min at most{needs})')


def show_stale(record_file: Path) -> int:
    try:
        lines = record.read(record_file)
    except record.Damaged as problem:
        print(f'{record_file}: {problem}', file=sys.stderr)
        return 1
    told = record.stale([part.name for part in PARTS], lines,
                        lambda commit: record.commits_since(runner.PROJECT, commit))
    for sentence in told:
        print(f'STALE {sentence}')
    print(f'the night: {len(PARTS) - len(told)} of {len(PARTS)} parts passed within '
          f'{record.COMMITS_MAX} commits (tools/night.sh PART)')
    return 0


def main(words: List[str]) -> int:
    chosen = arguments(words)
    if chosen.list:
        show_list()
        return 0
    if chosen.stale:
        return show_stale(chosen.record)
    if chosen.merge:
        record.merge(chosen.record, chosen.merge)
        return 0
    parts = chosen_parts(chosen.parts)
    if chosen.build_dir and not chosen.parts:
        raise SystemExit('--build-dir is for parts that are named')
    commit = chosen.commit or git('rev-parse', '--short', 'HEAD')
    if not commit:
        raise SystemExit('no git says what is tested: --commit ID')
    differing = '' if chosen.commit else changed(chosen.record)
    if differing:
        print(f'not recorded, since these differ from {commit}: {differing}', flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what a part has started ends with it
    night = runner.Night(commit, chosen.build_dir and chosen.build_dir.resolve(), chosen.record)
    return 1 if runner.run_all(parts, night, recorded=not differing) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
