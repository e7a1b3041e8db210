"""The canary: a long greedy stream and a prober, each watched by a process of its own, while something is
done to the worker. It must keep its bytes, and with `pace` its pace."""
import json
import os
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List

from client import Closed, Connection, execute_body, request
from crowd import WORKER_CORE, Crowd
from judge import Checks, ms, percentile

# The goals, on a machine that does nothing else (--strict): of the gaps between tokens, against the same
# stream with nothing beside it, and of /health, both p99.
GAP_FACTOR = 1.5
HEALTH_LIMIT = 0.010
# What no shared machine excuses: a stall that a person notices. The faults that this run was made for were
# stalls of 400 ms and more.
STALL = 0.150
# More of the worker's core than this and a stall may be of what else runs there: tried again, and said.
FOREIGN = 0.1
PROBE_EVERY = 0.010
PROBE_TIMEOUT = 5.0


@dataclass
class Sight:
    """What the observers saw in one stretch of time."""
    text: str = ''
    gaps: List[float] = field(default_factory=list)
    problems: List[str] = field(default_factory=list)
    probes: List[float] = field(default_factory=list)
    probe_failures: List[str] = field(default_factory=list)
    lags: List[float] = field(default_factory=list)  # how much later than asked for an observer was woken

    @property
    def lag_p99(self) -> float:
        """What an observer waited for a core of its own: no time of the worker's."""
        return percentile(self.lags, 0.99)

    @property
    def gap_p99(self) -> float:
        return percentile(self.gaps, 0.99)

    @property
    def probe_p99(self) -> float:
        return percentile(self.probes, 0.99)


def watch_stream(stop, port: int, tokens: int, fields: tuple) -> dict:
    """Reads one stream until told to stop; then leaves. Gaps are between arrivals at this process."""
    body = execute_body(job_id=f'canary-{time.monotonic_ns()}', max_tokens=tokens)
    text, gaps, last, pending = [], [], 0.0, b''
    with Connection(port, timeout=30.0) as connection:
        connection.send(request(port, 'POST', '/execute', body, *fields))
        response = connection.read_head()
        if response.status != 200:
            return {'problem': f'canary got {response.status}', 'text': '', 'gaps': []}
        for chunk in connection.chunks():
            now = time.monotonic()
            pending += chunk
            *events, pending = pending.split(b'\n\n')
            for event in events:
                if event.startswith(b'event: token'):
                    text.append(json.loads(event.split(b'data: ', 1)[1])['t'])
                    gaps += [now - last] if last else []
                    last = now
                elif event.startswith(b'event: error'):
                    return {'problem': 'canary: ' + event.decode(), 'text': ''.join(text), 'gaps': gaps}
            if stop.is_set():
                break
    return {'problem': '', 'text': ''.join(text), 'gaps': gaps}


def watch_probe(stop, port: int, path: str) -> dict:
    """Asks as a load balancer does."""
    return watch_request(stop, port, request(port, 'GET', path))


def watch_request(stop, port: int, raw: bytes, source: str = '') -> dict:
    """Asks on a new connection each time, one at a time, at even times."""
    took, failures = [], []
    next_at = time.monotonic()
    while not stop.is_set():
        begin = time.monotonic()
        try:
            with Connection(port, timeout=PROBE_TIMEOUT, source=source) as connection:
                connection.send(raw)
                status = connection.read_response().status
            took.append(time.monotonic() - begin)
            if status != 200:
                failures.append(str(status))
        except TimeoutError:
            took.append(time.monotonic() - begin)
            failures.append('timeout')
        except (Closed, ConnectionError, OSError) as failure:
            failures.append(type(failure).__name__)
        next_at = max(next_at + PROBE_EVERY, time.monotonic())
        time.sleep(max(0.0, next_at - time.monotonic()))
    return {'took': took, 'failures': failures}


def watch_clock(stop) -> List[float]:
    """How late one who does nothing else is woken: what observers wait for a core."""
    lags = []
    while not stop.is_set():
        due = time.monotonic() + PROBE_EVERY
        time.sleep(PROBE_EVERY)
        lags.append(time.monotonic() - due)
    return lags


class Watch:
    """The observers at work on one worker."""

    def __init__(self, port: int, tokens: int, path: str = '/health', fields: tuple = ()):
        self.stream = Crowd(watch_stream, port, tokens, fields, observer=True)
        self.prober = Crowd(watch_probe, port, path, observer=True)
        self.clock = Crowd(watch_clock, observer=True)

    def finish(self) -> Sight:
        self.stream.stop_event.set()
        self.prober.stop_event.set()
        self.clock.stop_event.set()
        stream, prober = self.stream.finish(20.0)[0], self.prober.finish(20.0)[0]
        lags = self.clock.finish(20.0)[0]
        sight = Sight(lags=[] if isinstance(lags, str) else lags)
        if isinstance(stream, str):
            sight.problems.append('canary ' + stream)
        else:
            sight.text, sight.gaps = stream['text'], stream['gaps']
            sight.problems += [stream['problem']] if stream['problem'] else []
        if isinstance(prober, str):
            sight.probe_failures.append('prober ' + prober)
        else:
            sight.probes, sight.probe_failures = prober['took'], prober['failures']
        return sight


class ForeignShare:
    """How much of the worker's core others had: said beside times, which are not only the worker's then."""

    def __init__(self, pid: int):
        self._pid, self._begin, self._at = pid, self._others(pid), time.monotonic()

    @staticmethod
    def _others(pid: int) -> float:
        with open('/proc/stat') as stat:
            line = next(x for x in stat if x.startswith(f'cpu{WORKER_CORE} '))
        busy = [int(x) for x in line.split()[1:9]]
        with open(f'/proc/{pid}/stat') as stat:
            own = stat.read().rsplit(')', 1)[1].split()
        return (sum(busy) - busy[3] - busy[4] - int(own[11]) - int(own[12])) / os.sysconf('SC_CLK_TCK')

    def end(self) -> float:
        try:
            return (self._others(self._pid) - self._begin) / (time.monotonic() - self._at)
        except OSError:
            return 0.0  # it died; that is seen elsewhere


def same_beginning(a: str, b: str) -> bool:
    length = min(len(a), len(b))
    return a[:length] == b[:length]


def stalls(alone: Sight, beside: Sight, strict: bool, pace: bool) -> List[str]:
    observers = 0.0 if strict else beside.lag_p99
    slack = GAP_FACTOR * alone.gap_p99 + (0.0 if strict else STALL + observers)
    out = []
    if pace and beside.gap_p99 > slack:
        out.append(f'gaps p99 {ms(beside.gap_p99)} beside, {ms(alone.gap_p99)} alone, '
                   f'longest {ms(max(beside.gaps))}')
    if beside.probe_p99 >= (HEALTH_LIMIT if strict else STALL + observers):
        out.append(f'/health p99 {ms(beside.probe_p99)}, longest {ms(max(beside.probes))}, '
                   f'observers woken late by {ms(beside.lag_p99)}')
    return out


def figures_of(alone: Sight, beside: Sight, foreign: float) -> Dict[str, float]:
    values = {'gap_alone_p99_ms': alone.gap_p99, 'gap_p99_ms': beside.gap_p99, 'gap_max_ms': max(beside.gaps),
              'health_p99_ms': beside.probe_p99, 'health_max_ms': max(beside.probes),
              'observers_late_p99_ms': beside.lag_p99}
    return {**{name: round(value * 1e3, 2) for name, value in values.items()}, 'foreign': round(foreign, 2)}


def judge_rest(alone: Sight, beside: Sight, checks: Checks) -> None:
    for problem in beside.problems:
        checks.expect(False, problem)
    if not beside.problems:
        checks.expect(len(beside.text) > 0, 'the canary got no token')
        checks.never(not same_beginning(alone.text, beside.text), 'the canary got other bytes')
    failed = beside.probe_failures
    checks.expect(not failed, f'{len(failed)} of {len(beside.probes) + len(failed)} probes failed: '
                              f'{", ".join(sorted(set(failed)))}')
    checks.expect(len(beside.probes) > 5, f'only {len(beside.probes)} probes came through')


def under(arena, name: str, attack: Callable[[Checks], None], checks: Checks, pace: bool = True) -> None:
    """Runs `attack(checks)` beside the canary on the worker of that name. A stall counts at once: that it
    does not come again is no excuse for it."""
    alone = arena.alone(name, again=checks.attempt > 0)
    watch = Watch(arena.port(name), arena.canary_tokens)
    share = ForeignShare(arena.get(name).pid)
    try:
        time.sleep(0.3)
        attack(checks)
    finally:
        foreign = share.end()
        beside = watch.finish()
    judge_rest(alone, beside, checks)
    for stall in stalls(alone, beside, arena.strict, pace) if arena.timed else ():
        if arena.strict or foreign <= FOREIGN:
            checks.never(True, stall)
        else:
            checks.late.append(stall)
    if beside.gaps and beside.probes:
        checks.canary.append(figures_of(alone, beside, foreign))
        checks.note(f'gaps {ms(alone.gap_p99)} → {ms(beside.gap_p99)}, /health {ms(beside.probe_p99)} p99')
    if foreign > FOREIGN:
        checks.note(f'others had {foreign:.0%} of the core of the worker')
