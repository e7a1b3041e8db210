"""Which tests passed only when they were run again alone, in the last runs of each suite of each preset.
Kept outside of the checkout, which CI makes anew: in $ORCD_ALONE_FILE, else in the user's cache."""
import datetime
import fcntl
import json
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple

KEPT_RUNS = 10  # of a suite
KEPT_SUITES = 100  # those that ran last


class Run(NamedTuple):
    when: str
    commit: str
    alone: List[str]  # names of tests


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds')


def commit_of(folder: Path) -> str:
    told = subprocess.run(['git', '-C', str(folder), 'describe', '--always', '--dirty'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return told.stdout.decode().strip() or 'no commit'


def place() -> Path:
    given = os.environ.get('ORCD_ALONE_FILE')
    if given:
        return Path(given)
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return Path(cache) / 'worker-orcd' / 'passed_alone.json'


class Runs:
    """The last runs of one suite. OSError or ValueError where they cannot be kept."""

    def __init__(self, suite: str):
        self.suite, self.path = suite, place()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as all_of_them:
            self._write(all_of_them)  # what cannot be written must be known before it is needed

    @contextmanager
    def _locked(self) -> Iterator[Dict[str, list]]:
        """All suites' runs, while no other one changes them. The file is replaced: the lock is beside it."""
        with open(f'{self.path}.lock', 'a', encoding='ascii') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._read()

    def _read(self) -> Dict[str, list]:
        try:
            text = self.path.read_text(encoding='utf-8')
        except FileNotFoundError:
            return {}
        try:
            return {suite: [Run(*run) for run in runs] for suite, runs in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError) as problem:
            raise ValueError(f'{self.path} is not what was written there: {problem}') from problem

    def _write(self, all_of_them: Dict[str, list]) -> None:
        with tempfile.NamedTemporaryFile('w', dir=self.path.parent, delete=False, encoding='utf-8') as new:
            json.dump(all_of_them, new, indent=1)
        os.replace(new.name, self.path)

    def add(self, this: Run) -> Dict[str, Run]:
        """Keeps this run. Of the names in it, those that an earlier one of the kept runs has, with the last
        such run."""
        with self._locked() as all_of_them:
            earlier = all_of_them.pop(self.suite, [])[-(KEPT_RUNS - 1):]
            all_of_them[self.suite] = [*earlier, this]  # the last one in the order of the file
            kept = list(all_of_them)[-KEPT_SUITES:]
            self._write({suite: all_of_them[suite] for suite in kept})
        return {name: run for name in this.alone for run in earlier if name in run.alone}
