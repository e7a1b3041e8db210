"""The seven figures of M0-W-1830, their goals, and how samples are judged. No I/O."""
import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence

TOLERANCE = 0.10  # M0-W-1830: comparison against the goals with 10 % tolerance


@dataclass(frozen=True)
class Goal:
    name: str
    title: str
    unit: str
    limit: float    # what the judged quantile must stay below
    quantile: int   # 50, 95 or 99
    tolerance: float = TOLERANCE


# The requirement gives a quantile for three of them; of the others, of which there are fewer samples, p99 is
# judged. "10-50 ms" between tokens is read as at most 50: nobody waits for a token that comes sooner.
GOALS = (
    Goal('first_token', 'POST /execute to the first token', 'ms', 100, 95),
    Goal('between_tokens', 'between two tokens', 'ms', 50, 95),
    Goal('start', 'process start to ready', 's', 60, 99),
    Goal('health', 'GET /health while a job runs', 'ms', 10, 99),
    Goal('shutdown', 'SIGTERM to exit while a job runs', 's', 5, 99),
    Goal('disconnect', 'stream closed to job stopped', 'ms', 100, 99),
    # Not a time, so that a tenth of it means nothing; the driver itself may keep a few pages.
    Goal('vram', 'VRAM after 100 requests above before', 'MiB', 8, 99, 0),
)


def quantile(samples: Sequence[float], percent: int) -> float:
    """The least sample that so many per cent of all do not exceed (nearest rank); never one in between."""
    if not samples or not 0 < percent <= 100:
        raise ValueError('a quantile needs samples and a percentage above 0')
    ordered = sorted(samples)
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


@dataclass
class Figure:
    """What was measured for a goal. Without samples `note` says why there are none."""
    goal: Goal
    samples: List[float] = field(default_factory=list)
    note: str = ''

    def judged(self) -> Optional[float]:
        return quantile(self.samples, self.goal.quantile) if self.samples else None

    def verdict(self) -> str:
        """pass, tolerated (above the goal, within its tolerance), fail, or left out."""
        value = self.judged()
        if value is None:
            return 'left out'
        if value <= self.goal.limit:
            return 'pass'
        return 'tolerated' if value <= self.goal.limit * (1 + self.goal.tolerance) else 'fail'

    def to_json(self) -> Dict:
        shown = {f'p{p}': round(quantile(self.samples, p), 3) if self.samples else None for p in (50, 95, 99)}
        return {'name': self.goal.name, 'title': self.goal.title, 'unit': self.goal.unit,
                'samples': len(self.samples), **shown, 'goal': self.goal.limit,
                'judged': f'p{self.goal.quantile}', 'verdict': self.verdict(), 'note': self.note}


def passed(figures: Sequence[Figure]) -> bool:
    """Nothing failed, and something was measured."""
    verdicts = [f.verdict() for f in figures]
    return 'fail' not in verdicts and any(v in ('pass', 'tolerated') for v in verdicts)


def table(figures: Sequence[Figure]) -> str:
    """A table of Markdown, as docs/performance.md has it."""
    lines = ['| figure | n | p50 | p95 | p99 | goal | verdict |', '|---|---|---|---|---|---|---|']
    for figure in figures:
        goal, said = figure.goal, figure.verdict()
        shown = [f'{quantile(figure.samples, p):.3g}' if figure.samples else '–' for p in (50, 95, 99)]
        note = f' ({figure.note})' if figure.note else ''
        lines.append(f'| {goal.title}, {goal.unit}{note} | {len(figure.samples)} | ' + ' | '.join(shown) +
                     f' | p{goal.quantile} {goal.limit:g} | {said} |')
    return '\n'.join(lines)
