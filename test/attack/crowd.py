"""Attackers and observers in processes of their own: what they cost is neither the judge's time nor the
worker's core. The worker has the last core of the machine, everybody else the first; observers come before
attackers there, so that what they see late is the worker's lateness."""
import multiprocessing
import os
import time
import traceback
from typing import Any, List

CORES = sorted(os.sched_getaffinity(0))
CROWD_CORE, WORKER_CORE = CORES[0], CORES[-1]
ATTACKERS_NICE = 10
_context = multiprocessing.get_context('forkserver')


def prepare() -> None:
    """Children are forked from a clean process that has these modules, not from the judge: they must not
    inherit its sockets, which would stay open when the judge closes them."""
    _context.set_forkserver_preload(['client', 'crowd', 'canary', 'loads', 'cases_raw', 'cases_bodies'])


def pin(core: int) -> None:
    """To one core; a machine with one has nothing to pin."""
    if len(CORES) > 1:
        os.sched_setaffinity(0, {core})


def _go_first() -> None:
    """An observer is woken at once by what it waits for, where the machine permits it: that others are nicer
    does not end the turn they have."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass


def _child(pipe, stop, niceness: int, function, arguments) -> None:
    pin(CROWD_CORE)
    if niceness:
        os.nice(niceness)
    else:
        _go_first()
    try:
        result = (True, function(stop, *arguments))
    except BaseException:  # whatever it was, the judge is told
        result = (False, traceback.format_exc(limit=3))
    try:
        pipe.send(result)
    except (OSError, ValueError):
        pass


def worker_cpu(pid: int) -> float:
    """Seconds of CPU that the io thread of that process, its first, has used."""
    with open(f'/proc/{pid}/task/{pid}/stat') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Crowd:
    """`count` processes that run `function(stop, *arguments)` until `stop` is set or they are done."""

    def __init__(self, function, *arguments, count: int = 1, observer: bool = False):
        self.stop_event = _context.Event()
        self._ends: List[tuple] = []
        for number in range(count):
            ours, theirs = _context.Pipe(duplex=False)
            args = tuple(number if a is NUMBER else a for a in arguments)
            process = _context.Process(target=_child, daemon=True, args=(
                theirs, self.stop_event, 0 if observer else ATTACKERS_NICE, function, args))
            process.start()
            theirs.close()
            self._ends.append((process, ours))

    def finish(self, timeout: float, stop: bool = True) -> List[Any]:
        """What each returned; a string that begins with 'failed' for one that did not."""
        if stop:
            self.stop_event.set()
        deadline = time.monotonic() + timeout
        results = []
        for process, pipe in self._ends:
            text = 'failed: no result in time'
            try:
                if pipe.poll(max(0.0, deadline - time.monotonic())):
                    fine, value = pipe.recv()
                    text = value if fine else 'failed: ' + value.strip().splitlines()[-1]
            except EOFError:
                text = 'failed: ended without a word'
            results.append(text)
        self.stop_event.set()
        for process, pipe in self._ends:
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
            pipe.close()
        return results

    def __enter__(self) -> 'Crowd':
        return self

    def __exit__(self, *_: object) -> None:
        if any(process.is_alive() for process, _ in self._ends):
            self.finish(2.0)


NUMBER = object()  # among the arguments: each process gets its own number instead
