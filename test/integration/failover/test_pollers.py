"""Whoever asks a thousand times a second while engines are killed one after the other sees no gap: a standby
is healthy from STANDBY to ACTIVE, no connect is refused, and two are never ACTIVE."""
import json
import os
import socket
import threading
import time
from typing import Callable, List

from engines import Engine, Witness, ask
from holders import get, settle
from http_client import Connection
from worker_process import PATIENCE, SANITIZED, wait_until

KILLS = int(os.environ.get('ORCD_POLLED_KILLS', 4 if SANITIZED else 12))
TICK = 0.001


class Often:
    """Does something each millisecond, or as often as this machine lets it, until it is stopped; it returns
    what was wrong, if anything."""

    def __init__(self, what: Callable[[], str]):
        self.what, self.wrong, self.times, self.began = what, [], 0, time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            found = self.what()
            if found:
                self.wrong.append(found)
            self.times += 1
            due = max(due + TICK, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def stop(self) -> 'Often':
        self._stop.set()
        self._thread.join(PATIENCE)
        return self


def health_of(engine: Engine) -> Callable[[], str]:
    def look() -> str:
        answer = ask(engine.system, '/health')
        return '' if answer and answer.status == 200 else f'{engine.number}: {answer and answer.status}'
    return look


def is_active(engine: Engine) -> bool:
    answer = ask(engine.system, '/health')
    return bool(answer) and json.loads(answer.body).get('failover_state') == 'ACTIVE'


def two_active(pair: List[Engine]) -> Callable[[], str]:
    """What one says counts if it says so before and after the other one."""
    def look() -> str:
        one, other = pair
        if is_active(one) and is_active(other) and is_active(one):
            return f'{one.number} and {other.number}'
        return ''
    return look


def connects(port: int) -> Callable[[], str]:
    def look() -> str:
        try:
            socket.create_connection(('127.0.0.1', port), timeout=PATIENCE).close()
            return ''
        except OSError as failure:
            return str(failure)
    return look


def test_pollers_see_no_gap_and_never_two_active(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    pair = [active, standby]
    knocking, watching = Often(connects(held.port)), Often(two_active(pair))
    healthy = [Often(health_of(standby))]
    asked, rate, wrong = 0, 0.0, []
    with Connection(held.port) as kept:
        assert get(kept).json()['engine_id'] == active.number
        for _ in range(KILLS):
            witness = Witness(held.port)
            settle(held.port)
            active.kill()
            assert get(kept).json()['engine_id'] == standby.number
            witness.is_gone_on_with()
            before = healthy[-1].times
            wait_until(lambda: healthy[-1].times > before + 5, PATIENCE, 'it is asked as ACTIVE, too')
            last = healthy.pop().stop()
            asked, wrong = asked + last.times, wrong + last.wrong
            rate = max(rate, last.times / (time.monotonic() - last.began))
            active, standby = standby, held.follow(active)
            pair[:] = active, standby
            healthy.append(Often(health_of(standby)))
    for each in (knocking, watching, *healthy):
        wrong += each.stop().wrong
    print(f'{KILLS} kills, {asked} probes of standbys ({rate:.0f} a second), {watching.times} looks at both, '
          f'{knocking.times} connects')
    assert wrong == [] and asked > 5 * KILLS and knocking.times > KILLS and watching.times > KILLS
