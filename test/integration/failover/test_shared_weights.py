"""Engines of one device with one copy of the weights: the first loads them, the others map them; the same
answers, whoever dies."""
import json
import re
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Set, Tuple

import pytest

from engines import Engine, Engines
from holders import OWN_DEVICE, Held, Holder, WeightsClient
from http_client import Connection
from ports import free_port
from worker_process import BACKEND, PATIENCE, STRETCH, wait_until

SHAPE = ('--embedding', '256', '--heads', '8', '--ffn', '2048', '--layers', '3')
SHARE = ('--share-weights', 'require')


@pytest.fixture(scope='session')
def wide_model(models):
    """Its weights are some MiB: what is read of the file can be told from the pages around its head."""
    return models('wide', *SHAPE)


@pytest.fixture
def sharing(wide_model, tmp_path):
    with Held(wide_model, tmp_path) as all_of_them:
        all_of_them.start_holder(*OWN_DEVICE)
        yield all_of_them


def start(held: Held, number: int, state: str, *options: str) -> Engine:
    return held.start(number, *SHARE, *options, state=state)


def pair(held: Held) -> Tuple[Engine, Engine]:
    first = start(held, 0, 'ACTIVE')
    return first, start(held, 1, 'STANDBY')


@dataclass
class Mapped:
    """KiB of an engine's mappings of a file, all together, and how they may be used."""
    Size: int = 0
    Rss: int = 0
    Pss: int = 0
    access: Set[str] = field(default_factory=set)


def mappings(engine: Engine, name: str) -> Mapped:
    found, ours = Mapped(), False
    with open(f'/proc/{engine.pid}/smaps', encoding='utf-8') as smaps:
        for line in smaps:
            head = re.match(r'[0-9a-f]+-[0-9a-f]+ (\S+)', line)
            if head:
                ours = name in line
                if ours:
                    found.access.add(head.group(1))
                continue
            figure = line.split(':')[0]
            if ours and figure in ('Size', 'Rss', 'Pss'):
                setattr(found, figure, getattr(found, figure) + int(line.split()[1]))
    return found


def answer(held: Held) -> str:
    """What one request gets."""
    with Connection(held.port, timeout=PATIENCE) as connection:
        asked = {'prompt': 'Once upon a time', 'max_tokens': 24, 'seed': 7, 'temperature': 1}
        connection.request('POST', '/v1/completions', json.dumps(asked).encode())
        reply = connection.read_response()
    assert reply.status == 200, reply.body
    return reply.json()['choices'][0]['text']


def test_the_second_engine_maps_what_the_first_has_loaded(sharing, wide_model):
    first, second = pair(sharing)
    first.wait_event('weights_shared')
    second.wait_event('weights_imported')
    if BACKEND == 'host':  # a GPU's memory is in no table of the kernel
        ours, theirs = mappings(first, 'orcd-weights'), mappings(second, 'orcd-weights')
        assert ours.access == theirs.access == {'r--s'}
        assert theirs.Size * 1024 > 2_000_000 and theirs.Rss == theirs.Size == ours.Size
        # Each page is in both, and in memory once.
        assert ours.Pss + theirs.Pss <= theirs.Size * 1.05
    # Of the file it has read the head, and what the system maps around that.
    assert mappings(second, str(wide_model)).Rss < mappings(first, str(wide_model)).Rss / 2
    # It tells the digest that the first one has found.
    digest = first.wait_event('model_digest')['digest']
    assert second.wait_event('model_digest')['digest'] == digest


def test_the_others_answer_with_the_same_bits_when_the_one_that_loaded_dies(sharing):
    first, second = pair(sharing)
    expected = answer(sharing)
    first.kill()
    second.wait_state('ACTIVE')
    assert answer(sharing) == expected
    # The weights have outlived it: it reads no file either now.
    again = start(sharing, 0, 'STANDBY')
    again.wait_event('weights_imported')
    second.kill()
    again.wait_state('ACTIVE')
    assert answer(sharing) == expected


def test_weights_of_another_model_are_not_served(sharing, wide_model, models, tmp_path):
    start(sharing, 0, 'ACTIVE')
    # The same shapes in other files: one with other numbers, and a copy.
    other = models('wide-other', *SHAPE, '--seed', '2')
    copy = tmp_path / 'copy.gguf'
    shutil.copy(wide_model, copy)
    sharing.model = other
    wrong = start(sharing, 1, '')
    assert wrong.wait_exit(PATIENCE * STRETCH) == 71
    assert 'another model' in wrong.wait_event('error', code='STALE_WEIGHTS')['message']
    assert not wrong.events('failover_state', to='STANDBY')
    sharing.model = copy
    start(sharing, 1, 'STANDBY').wait_event('weights_imported')


def test_weights_of_other_options_are_not_served(sharing):
    start(sharing, 0, 'ACTIVE')
    other = start(sharing, 1, '', '--kv-type-k', 'q8_0')
    assert other.wait_exit(PATIENCE * STRETCH) == 71
    assert 'other options' in other.wait_event('error', code='STALE_WEIGHTS')['message']


def test_a_second_engine_waits_for_the_first_and_can_be_stopped_meanwhile(sharing):
    alone = start(sharing, 1, 'INIT')

    def waits() -> bool:
        with WeightsClient(sharing.folder, OWN_DEVICE[1]) as one:
            return one.state().waiting == 1
    wait_until(waits, PATIENCE, 'it has asked')
    alone.process.send_signal(signal.SIGTERM)
    assert alone.wait_exit(PATIENCE) == 0
    second = start(sharing, 1, 'INIT')
    start(sharing, 0, 'ACTIVE')
    second.wait_state('STANDBY')


def test_without_a_holder_the_engine_says_so_and_ends(sharing):
    sharing.holder.kill()
    engine = start(sharing, 0, '', '--holder', 'off')
    assert engine.wait_exit(PATIENCE * STRETCH) == 72
    assert engine.wait_event('error')['code'] == 'WEIGHTS_LOST'


def test_a_holder_that_hangs_is_not_waited_for(sharing):
    sharing.holder.process.send_signal(signal.SIGSTOP)
    try:
        engine = start(sharing, 0, '', '--holder', 'off')
        assert engine.wait_exit(PATIENCE * STRETCH) == 72
    finally:
        sharing.holder.process.send_signal(signal.SIGCONT)


def test_the_next_holder_gets_the_weights_from_whoever_has_them(sharing):
    first, second = pair(sharing)
    first.wait_event('weights_shared')
    sharing.holder.kill()
    for engine in (first, second):
        engine.wait_event('weights_not_shared')
    sharing.start_holder(*OWN_DEVICE)

    def complete() -> bool:
        with WeightsClient(sharing.folder, OWN_DEVICE[1]) as one:
            state = one.state()
            return state.committed and state.readers == 2
    wait_until(complete, PATIENCE, 'both have their weights at the holder again')
    third = start(sharing, 2, 'STANDBY')
    third.wait_event('weights_imported')


def test_the_sockets_of_the_weights_may_be_in_another_folder(wide_model, tmp_path):
    """Named by the variable that pods have for it. A socket's path is short, and a GPU's name in it long."""
    folder = tmp_path / 'pair'
    folder.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(prefix='w') as sockets, Engines(wide_model, folder) as engines, \
            Holder(Path(sockets), free_port(), *OWN_DEVICE) as holder:
        where = {'GMS_SOCKET_DIR': sockets}
        holder.wait_event('ready')
        engines.start(0, *SHARE, environment=where, state='ACTIVE')
        second = engines.start(1, *SHARE, environment=where, state='STANDBY')
        assert second.wait_event('weights_imported')['kv_cache'] == 'own'  # connections are no holder's
