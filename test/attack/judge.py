"""What a probe found, and the tables of it."""
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Sequence


@dataclass
class Row:
    kind: str
    name: str
    held: bool
    text: str


@dataclass
class Checks:
    """Collects what one probe expects. All of it is looked at, so that one failure hides no other. A busy
    machine makes times longer, and clients of the probe's own give up: what failed is tried again and said,
    but for what no load excuses (`never`)."""
    attempt: int = 0
    failures: List[str] = field(default_factory=list)
    unforgivable: List[str] = field(default_factory=list)
    late: List[str] = field(default_factory=list)
    figures: List[str] = field(default_factory=list)
    canary: List[Dict[str, float]] = field(default_factory=list)

    def expect(self, condition: bool, text: str) -> bool:
        if not condition:
            self.failures.append(text)
        return condition

    def never(self, condition: bool, text: str) -> bool:
        """What must not happen once: an end, a hang, a stall, other bytes."""
        if condition:
            self.unforgivable.append(text)
        return not condition

    def in_time(self, took: float, limit: float, text: str = '') -> bool:
        """An expectation of time alone."""
        if took >= limit:
            self.late.append(f'{text or "it"} took {ms(took)}, the limit is {ms(limit)}')
        return took < limit

    def note(self, text: str) -> None:
        self.figures.append(text)

    @property
    def held(self) -> bool:
        return not self.wrong

    @property
    def wrong(self) -> List[str]:
        return self.unforgivable + self.failures + self.late

    @property
    def text(self) -> str:
        return '; '.join(self.wrong + self.figures) or 'as it should'


@dataclass
class Probe:
    kind: str
    name: str
    run: Callable


PROBES: List[Probe] = []


def probe(kind: str, name: str):
    """Registers `function(arena, checks)`."""
    def register(function: Callable) -> Callable:
        PROBES.append(Probe(kind, name, function))
        return function
    return register


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def ms(seconds: float) -> str:
    return f'{seconds * 1000:.1f} ms' if seconds < 10 else f'{seconds:.0f} s'


class Report:
    """Rows in the order of the run; prints each as it comes, so that a run that is killed says where."""

    def __init__(self, only: Sequence[str] = ()):
        self.rows: List[Row] = []
        self.canary: List[dict] = []  # of every attempt
        self.only = [text.lower() for text in only]
        self._begin = time.monotonic()

    def wants(self, kind: str, name: str) -> bool:
        full = f'{kind}: {name}'.lower()
        return not self.only or any(text in full for text in self.only)

    def add(self, kind: str, name: str, held: bool, text: str) -> None:
        self.rows.append(Row(kind, name, held, text))
        at = time.monotonic() - self._begin
        print(f'{at:6.1f} s  {"held" if held else "FAIL"}  {kind}: {name}: {text}', flush=True)

    def failures(self) -> List[Row]:
        return [row for row in self.rows if not row.held]

    def worst(self) -> Dict[str, float]:
        """Of each figure of the canary, and how often as long as alone the p99 of its gaps was."""
        out = {name: max(one[name] for one in self.canary)
               for name in (self.canary[0] if self.canary else {}) if name not in ('kind', 'name', 'attempt')}
        if out:
            out['gap_factor'] = round(max(one['gap_p99_ms'] / max(one['gap_alone_p99_ms'], 0.01)
                                          for one in self.canary), 2)
        return out


def cell(row: Row) -> str:
    text = ' '.join(row.text.replace('|', '\\|').split())
    return ('holds: ' if row.held else '**fails**: ') + text[:220]


def table(columns: Dict[str, List[Row]]) -> str:
    """Markdown: a line for each probe, a column for each run of it."""
    titles = list(columns)
    found: Dict[tuple, Dict[str, Row]] = {}
    for title, rows in columns.items():
        for row in rows:
            found.setdefault((row.kind, row.name), {})[title] = row
    lines = ['| probe | ' + ' | '.join(titles) + ' |', '|---' * (len(titles) + 1) + '|']
    for (kind, name), by_title in found.items():
        cells = [cell(by_title[t]) if t in by_title else 'not run' for t in titles]
        lines.append(f'| {kind}: {name} | ' + ' | '.join(cells).replace('\n', ' ') + ' |')
    for title, rows in columns.items():
        lines.append(f'\n{title}: {sum(r.held for r in rows)} of {len(rows)} hold.')
    return '\n'.join(lines) + '\n'
