"""docs/measured/night.json: the newest run of each part, a line a part, so that a difference is small. And
which parts must be run again."""
import json
import re
import subprocess
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Optional

FIELDS = {'part': str, 'commit': str, 'date': str, 'machine': dict, 'seconds': int, 'counts': dict,
          'result': str}
PASSED = 'passed'
COMMITS_MAX = 100
Line = Dict[str, object]


class Damaged(Exception):
    """The record is not what this program writes."""


def _check(line: object) -> str:
    """The part that a line is about."""
    if not isinstance(line, dict) or set(line) != set(FIELDS):
        raise Damaged(f'a line has not the fields {", ".join(FIELDS)}: {line}')
    for name, kind in FIELDS.items():
        if not isinstance(line[name], kind):
            raise Damaged(f'{name} of {line["part"]} is {line[name]!r}')
    if not re.fullmatch(r'[0-9a-f]{7,40}', line['commit']):
        raise Damaged(f'commit of {line["part"]} is {line["commit"]!r}')
    return line['part']


def read(path: Path) -> Dict[str, Line]:
    """By part; empty where there is no file yet."""
    if not path.exists():
        return {}
    try:
        lines = json.loads(path.read_text(encoding='utf-8'))
    except ValueError as problem:
        raise Damaged(str(problem)) from problem
    if not isinstance(lines, list):
        raise Damaged('it is no list of parts')
    found = {_check(line): line for line in lines}
    if len(found) != len(lines):
        raise Damaged('a part stands in it twice')
    return found


def write(path: Path, lines: Iterable[Line]) -> None:
    """Puts the lines beside those of other parts."""
    kept = {**read(path), **{_check(line): line for line in lines}}
    rows = ',\n '.join(json.dumps(kept[part]) for part in sorted(kept))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[\n {rows}\n]\n', encoding='utf-8')


def merge(path: Path, other: Path) -> None:
    """Takes up what another record has, but for parts that ran here on a later day."""
    ours = read(path)
    write(path, [line for part, line in read(other).items()
                 if part not in ours or line['date'] >= ours[part]['date']])


def commits_since(project: Path, commit: str) -> Optional[int]:
    """How many commits HEAD is ahead; None where the commit is not in its history."""
    git = ['git', '-C', str(project)]
    known = subprocess.run([*git, 'merge-base', '--is-ancestor', commit, 'HEAD'], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if known.returncode != 0:
        return None
    counted = subprocess.run([*git, 'rev-list', '--count', f'{commit}..HEAD'], check=True,
                             stdout=subprocess.PIPE)
    return int(counted.stdout)


def stale(parts: Iterable[str], lines: Dict[str, Line], age: Callable[[str], Optional[int]]) -> List[str]:
    """A sentence for each part that must be run again."""
    told = []
    for part in parts:
        line = lines.get(part)
        if line is None:
            told.append(f'{part}: never run')
            continue
        commits = age(line['commit'])
        if line['result'] != PASSED:
            told.append(f'{part}: {line["result"]} at {line["commit"]}, {line["date"]}')
        elif commits is None:
            told.append(f'{part}: run at {line["commit"]}, which is not in this history')
        elif commits > COMMITS_MAX:
            told.append(f'{part}: run {commits} commits ago, {line["date"]}')
    return told
