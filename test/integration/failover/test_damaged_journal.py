"""Stray writes into the journal. They cost the connections that only it could tell of, and those alone: the
pair serves, with the same holder."""
import os
import random
import struct
import time
from contextlib import contextmanager
from typing import Iterator, Sequence, Tuple

import pytest

from engines import ask
from holders import JOURNAL_DAMAGED, ROOM, SOCKETS, TAKE_OVER, WELCOME, Client, Holder, said, settle
from http_client import Closed, Connection, text_of
from test_holder import serving_engine
from worker_process import PATIENCE

HEAD, PAGE, PLACES, RECORD = 64, 4_096, 4_096, 240
STORY = {'prompt': 'Once', 'max_tokens': 1000, 'seed': 5, 'ignore_eos': True}


@contextmanager
def journal_of(holder: Holder) -> Iterator[int]:
    """The holder's own, open for writing."""
    folder = f'/proc/{holder.pid}/fd'

    def name(number: str) -> str:
        try:
            return os.readlink(f'{folder}/{number}')
        except FileNotFoundError:  # closed since it was listed
            return ''
    number, = [n for n in os.listdir(folder) if 'worker-orcd-journal' in name(n)]
    journal = os.open(f'{folder}/{number}', os.O_RDWR)
    try:
        yield journal
    finally:
        os.close(journal)


def heads(journal: int) -> Tuple[int, int]:
    """Where the two copies are."""
    return 0, os.fstat(journal).st_size - PAGE


def spoil(journal: int, places: Sequence[int], length: int = HEAD) -> None:
    for place in places:
        os.pwrite(journal, random.Random(place).randbytes(length), place)


def test_one_spoilt_copy_of_the_head_costs_nothing(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    whole = text_of(active.execute(**STORY))
    for copy in range(2):
        stream = active.open(**STORY)
        stream.until('token', 3)
        settle(held.port)
        with journal_of(held.holder) as journal:
            spoil(journal, heads(journal)[copy:copy + 1])
            active.kill()
            assert stream.finish().name == 'end' and text_of(stream.seen) == whole
            assert len({os.pread(journal, HEAD // 2, place) for place in heads(journal)}) == 1
        taken = standby.wait_event('connections_taken_over')
        assert taken['resumed'] >= 1 and taken['lost'] == 0
        active, standby = standby, held.follow(active)
    assert not held.holder.events('journal_replaced')


def test_a_head_that_nobody_can_read_costs_its_connections_and_no_more(held, slow_model):
    held.model = slow_model
    active, standby = held.pair()
    third = held.start(2, state='STANDBY')
    stream = active.open(**STORY)
    stream.until('token', 3)
    idle, silent = Connection(held.port), Connection(held.port)
    assert serving_engine(idle) == 0
    settle(held.port)
    with journal_of(held.holder) as journal:
        spoil(journal, heads(journal))
    begun = time.monotonic()
    active.kill()
    served = ask(held.port, '/health')
    assert served.status == 200 and time.monotonic() - begun < PATIENCE / 6
    with pytest.raises((Closed, OSError)):
        stream.rest()
    assert idle.at_end(PATIENCE)
    number = served.json()['engine_id']
    assert serving_engine(silent) == number  # of which nothing was in the journal
    successor, last = (standby, third) if number == 1 else (third, standby)
    told = held.holder.wait_event('journal_replaced')
    assert told['connections_closed'] >= 2 and told['level'] == 'error'
    assert successor.wait_event('journal_damaged')['connections'] >= 3
    assert successor.metric('orcd_failover_connections_total', became='lost') == told['connections_closed']
    assert f'journal: damaged and replaced 1 times, connections closed with it {told["connections_closed"]}' \
        in said(held.folder, 'ready')
    # The next one has the new journal, too.
    stream = successor.open(**STORY)
    stream.until('token', 3)
    settle(held.port)
    successor.kill()
    assert stream.finish().name == 'end' and serving_engine(silent) == last.number
    assert last.wait_event('connections_taken_over')['resumed'] >= 1
    assert held.holder.alive() and len(held.holder.events('journal_replaced')) == 1
    silent.close()


def test_whatever_is_spoilt_the_pair_serves(held):
    active, standby = held.pair()
    for begin, length in ((HEAD, PAGE - HEAD), (PAGE, PLACES * RECORD), (PAGE + PLACES * RECORD, 1 << 20)):
        with Connection(held.port) as idle:
            assert serving_engine(idle) == active.number
            settle(held.port)
            with journal_of(held.holder) as journal:
                spoil(journal, [begin], length)
            active.kill()
            assert ask(held.port, '/health').json()['engine_id'] == standby.number
            try:
                assert serving_engine(idle) == standby.number
            except (Closed, OSError):
                pass
        active, standby = standby, held.follow(active)
    assert not held.holder.events('journal_replaced')


def test_a_journal_is_replaced_for_the_engine_that_serves_alone(held):
    def is_new(first: int, second: int) -> bool:
        return os.fstat(first).st_ino != os.fstat(second).st_ino

    with Client(held.folder) as one, Client(held.folder) as other:
        journals = []
        for number, engine in enumerate((one, other)):
            engine.hello(number)
            kind, _, (journal, listener) = engine.receive()
            assert kind == WELCOME
            os.close(listener)
            journals.append(journal)
        one.send(TAKE_OVER, ROOM)
        assert one.receive()[0] == SOCKETS
        one.send(JOURNAL_DAMAGED)  # which is not true
        held.holder.wait_event('journal_stays', engine_id=0)
        spoil(journals[0], heads(journals[0]))
        other.send(JOURNAL_DAMAGED)
        held.holder.wait_event('journal_stays', engine_id=1)
        one.send(JOURNAL_DAMAGED)
        for engine, before in zip((one, other), journals):
            kind, body, (journal, listener) = next(
                frame for frame in iter(engine.receive, None) if frame[0] == WELCOME)
            assert struct.unpack('=I', body) == (1,) and is_new(journal, before)
            for number in (journal, listener, before):
                os.close(number)
    assert held.holder.wait_event('journal_replaced')['engine_id'] == 0
