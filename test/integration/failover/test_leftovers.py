"""Engines follow each other many times under one holder, with work in every place that there is, and nothing
stays behind: no descriptor, page, slot, place in the queue, record of the journal or of the holder, and no
byte of a GPU's memory.

Eight takeovers here. Others by hand: ORCD_TAKEOVERS=200 python3 -m pytest -s test_leftovers.py; a
holder starts an engine that ends soon again after 10 s at most, so that 200 take half an hour."""
import json
import os
import signal
import struct
import time
import uuid
from typing import Callable, Dict, List, Tuple

import pytest

import gpu_memory
from engines import metrics
from holders import PROBE, REPORT, Client, Held, Holder, get, settle
from http_client import Connection, Stream, text_of
from test_run import Running, pid_of, serving, wait_standby
from worker_process import BACKEND, PATIENCE, SANITIZED, STRETCH, request_body, wait_until

TAKEOVERS = int(os.environ.get('ORCD_TAKEOVERS', '4' if SANITIZED else '8'))
SLOTS, QUEUE, KEPT = 2, 2, 3
TOKENS = 150  # of a story
OPTIONS = ('--slots', str(SLOTS), '--max-queue', str(QUEUE))
# What is to be the same after each takeover, when all is answered.
SAME = ('worker_requests_running', 'worker_requests_waiting', 'worker_kv_blocks_used', 'worker_connections',
        'orcd_failover_journal_free_bytes', 'orcd_failover_conflicts_total',
        'orcd_failover_connections_total{became="lost"}', 'orcd_failover_journal_full_total')


@pytest.fixture
def running(slow_model, tmp_path):
    with Held(slow_model, tmp_path) as held, Running(held) as all_of_them:
        yield all_of_them
        for holder in all_of_them.holders:
            print('\n'.join(list(holder.lines)[-60:]))  # shown where the test has failed


def open_files(pid: int) -> int:
    return len(os.listdir(f'/proc/{pid}/fd'))


def resident_mib(pid: int) -> float:
    with open(f'/proc/{pid}/statm', encoding='ascii') as words:
        return int(words.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20


def report(held: Held) -> Tuple[int, int, int]:
    """Engines, the one that serves, sockets."""
    with Client(held.folder) as client:
        client.send(PROBE)
        kind, body, _ = client.receive()
    assert kind == REPORT
    engines, _, _, _, active, sockets, _, _ = struct.unpack('=8I', body)
    return engines, active, sockets


def ask_for_stories(port: int, number: int) -> List[Connection]:
    """As many as run and wait at a time, on connections of their own: one more would be refused."""
    asked = []
    for n in range(SLOTS + QUEUE):
        connection = Connection(port, timeout=PATIENCE * STRETCH)
        body = request_body(job_id=f'{number}-{n}-{uuid.uuid4()}', prompt='Once', max_tokens=TOKENS, seed=n,
                            temperature=0.8, ignore_eos=True)
        connection.request('POST', '/execute', json.dumps(body).encode())
        asked.append(connection)
    return asked


def read_stories(asked: List[Connection], told: int = 0,
                 then: Callable[[], None] = lambda: None) -> Tuple[List[str], int]:
    """Their texts, and how many of them an engine died with. `then` is called when the first one has told so
    many tokens."""
    first = Stream(asked[0])
    if told:
        first.until('token', told)
    then()
    streams = [first, *map(Stream, asked[1:])]
    ends = [one.finish() for one in streams]
    assert [(end.name, end.data.get('tokens_out')) for end in ends] == [('end', TOKENS)] * len(asked)
    for one in streams:
        one.close()
    return [text_of(one.seen) for one in streams], sum('resumed' in end.data for end in ends)


def left(running: Running, engine: int, before: Dict[str, float]) -> Dict[str, float]:
    """What the serving engine and the holder have, once nothing is under way: the same as before, or the test
    fails."""
    found: Dict[str, float] = {}

    def is_over() -> bool:
        now = metrics(running.held.port)
        engines, active, sockets = report(running.held)
        found.update({name: now[name] for name in SAME}, engines=engines, sockets_of_the_holder=sockets)
        idle = found['worker_requests_running'] == found['worker_requests_waiting'] == 0
        # One connection more is the one that asks.
        return (idle and active == engine and sockets == KEPT and found['worker_connections'] == KEPT + 1
                and (not before or found == before))

    try:
        wait_until(is_over, PATIENCE * STRETCH, 'what was answered is gone')
    except AssertionError:
        assert found == before
        raise
    return found


def files_settle(pid: int, expected: int) -> None:
    """A connection that was closed a moment ago may still be there."""
    wait_until(lambda: open_files(pid) <= expected, PATIENCE, f'{pid} has no more than {expected} files')


def test_many_takeovers_leave_nothing_behind(running):
    holder = running.start(engine_options=OPTIONS)
    held = running.held
    active = serving(running)
    wait_standby(holder, 1 - active)
    kept = [Connection(held.port, timeout=PATIENCE * STRETCH) for _ in range(KEPT)]
    assert {get(one).json()['engine_id'] for one in kept} == {active}
    told, none = read_stories(ask_for_stories(held.port, 0))
    assert none == 0
    stands_by = {active: 1, 1 - active: 1}
    before, files, resumed, begin, sizes, memory = {}, {}, 0, time.monotonic(), [], 0
    for number in range(1, TAKEOVERS + 1):
        asked = ask_for_stories(held.port, number)
        settle(held.port)  # all of them are in
        serving_pid = pid_of(holder, active)
        texts, died = read_stories(asked, 1 + number % 12,
                                   lambda pid=serving_pid: os.kill(pid, signal.SIGKILL))
        assert texts == told and died > 0, (number, died)
        resumed += died
        stands_by[active] += 1
        wait_standby(holder, active, stands_by[active])
        active = 1 - active
        assert {get(one).json()['engine_id'] for one in kept} == {active}
        # Places that a story from before has not given back would be missing now.
        assert read_stories(ask_for_stories(held.port, number))[0] == told
        before = left(running, active, before)
        for name, pid in (('active', pid_of(holder, active)), ('standby', pid_of(holder, 1 - active)),
                          ('holder', holder.pid)):
            files_settle(pid, files.setdefault(name, open_files(pid)))
        if BACKEND == 'cuda':
            memory = memory or gpu_memory.used()
            wait_until(lambda: gpu_memory.used() == memory, PATIENCE,
                       f'takeover {number}: {memory} bytes of VRAM')
        sizes.append(resident_mib(holder.pid))
    print(f'\n{TAKEOVERS} takeovers in {time.monotonic() - begin:.0f} s, {resumed} stories resumed, '
          f'{KEPT} connections kept all the time; after each one: {before}, descriptors {files}; '
          f'holder {sizes[0]:.1f} MiB after the first, {sizes[-1]:.1f} after the last; '
          f'{memory} bytes of VRAM')
    assert sizes[-1] < sizes[0] + 2 or SANITIZED
    for one in kept:
        one.close()
