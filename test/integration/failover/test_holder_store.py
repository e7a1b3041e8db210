"""What a service manager keeps of a holder, which is restarted while no engine lives. The service manager is
a fake one (fake_systemd.py)."""
import os
import socket

import pytest

from engines import ask
from fake_systemd import FakeSystemd, listening, passing_descriptors
from holders import OWN_DEVICE, Held, Holder, get, settle
from http_client import Connection
from worker_process import PATIENCE, wait_until

SHARE = ('--share-weights', 'require')
NEEDED = {'listener', 'journal'}


class Kept(Held):
    """Engines whose holder has a service manager."""

    def __init__(self, model, folder):
        super().__init__(model, folder)
        self.manager = FakeSystemd(folder / 'notify')

    def __exit__(self, *problem):
        try:
            super().__exit__(*problem)
        finally:
            self.manager.close()

    def hold(self, descriptors=None) -> Holder:
        """A holder that is passed these descriptors, by name."""
        given = descriptors or {}
        prefix = passing_descriptors(list(given.values()), list(given)) if given else ()
        self.holders.append(Holder(self.folder, self.port, *OWN_DEVICE, prefix=prefix,
                                   keep_descriptors=True, environment={'NOTIFY_SOCKET': self.manager.path}))
        self.holder.wait_event('ready')
        return self.holder

    def wait_kept(self, connections: int) -> None:
        def kept():
            return NEEDED <= set(self.manager.kept) and len(self.manager.kept) == 2 + connections
        try:
            wait_until(kept, PATIENCE, 'the service manager has all')
        except AssertionError as late:
            raise AssertionError(f'{late}: {sorted(self.manager.kept)}') from None


@pytest.fixture
def kept(tiny_model, tmp_path):
    with Kept(tiny_model, tmp_path) as all_of_them:
        yield all_of_them


def weights_kept(kept) -> dict:
    return {name: number for name, number in kept.manager.kept.items()
            if name.startswith(('weights-', 'memory-'))}


def wait_weights(kept, epoch: int) -> dict:
    """The memory of weights and of the KV cache, its ledger, and what says what they are."""
    def whole():
        names = weights_kept(kept)
        return len(names) == 4 and all(f'-{epoch}-' in name for name in names)
    wait_until(whole, PATIENCE, 'the service manager has the weights')
    return weights_kept(kept)


def text_of(events) -> str:
    return ''.join(e.data['t'] for e in events if e.name == 'token')


def test_connections_outlive_holder_and_engine(kept, slow_model):
    kept.model = slow_model
    holder = kept.hold()
    active = kept.start(0, state='ACTIVE')
    whole = text_of(active.execute(prompt='Once', max_tokens=300, seed=5))
    idle = [Connection(kept.port) for _ in range(3)]
    assert [get(one).status for one in idle] == [200] * 3
    stream = active.open(prompt='Once', max_tokens=300, seed=5)
    events = iter(stream)
    told = [next(events)]
    settle(kept.port)
    kept.wait_kept(4)
    holder.kill()
    active.kill()
    early = Connection(kept.port)  # the service manager listens
    early.request('GET', '/health')
    kept.hold(kept.manager.kept)
    restored, = kept.holder.events('restored')
    assert restored['connections'] == 4
    assert not kept.holder.events('stored_refused')
    kept.start(1, state='ACTIVE')
    told += list(events)
    assert told[-1].name == 'end' and text_of(told) == whole
    assert [get(one).json()['engine_id'] for one in idle] == [1] * 3
    assert early.read_response().status == 200
    stream.close()
    for one in (*idle, early):
        one.close()
    kept.wait_kept(0)


def test_weights_outlive_holder_and_engines(kept):
    holder = kept.hold()
    first = kept.start(0, *SHARE, state='ACTIVE')
    expected = text_of(first.execute(prompt='Once', max_tokens=20, seed=5))
    had = wait_weights(kept, epoch=1)
    holder.kill()
    first.kill()
    kept.hold(kept.manager.kept)
    restored = kept.holder.wait_event('weights_restored')
    assert restored['epoch'] == 1 and restored['pieces'] == 3
    assert not kept.holder.events('stored_refused')
    # Engine 1 never loads any; it hashes what it maps.
    second = kept.start(1, *SHARE, state='ACTIVE')
    imported = second.wait_event('weights_imported')
    assert imported['kv_cache'] == 'shared'
    assert text_of(second.execute(prompt='Once', max_tokens=20, seed=5)) == expected
    settle(kept.port)
    assert weights_kept(kept) == had, 'they are not told again'


def test_weights_of_engines_that_live_are_the_same(kept):
    """An engine that goes on offers what it has: the holder after the first has that already."""
    holder = kept.hold()
    kept.start(0, *SHARE, state='ACTIVE')
    had = wait_weights(kept, epoch=1)
    holder.kill()
    kept.hold(kept.manager.kept)
    kept.holder.wait_event('weights_granted', mode='read', epoch=1)
    kept.start(1, *SHARE, state='STANDBY').wait_event('weights_imported')
    assert not kept.holder.events('weights_committed') and weights_kept(kept) == had


def test_weights_that_are_not_whole_are_loaded_again(kept):
    holder = kept.hold()
    first = kept.start(0, *SHARE, state='ACTIVE')
    expected = text_of(first.execute(prompt='Once', max_tokens=20, seed=5))
    wait_weights(kept, epoch=1)
    holder.kill()
    first.kill()
    lost = next(name for name in kept.manager.kept if name.startswith('memory-1-0-'))
    os.close(kept.manager.kept.pop(lost))
    kept.hold(kept.manager.kept)
    assert kept.holder.events('stored_refused')[0]['first'].startswith('weights-1-')
    assert not kept.holder.events('weights_restored')
    again = kept.start(0, *SHARE, state='ACTIVE')
    again.wait_event('weights_shared')
    wait_weights(kept, epoch=2)  # other names than those of before
    assert text_of(again.execute(prompt='Once', max_tokens=20, seed=5)) == expected


def test_weights_that_are_let_go_are_not_kept(kept, models):
    holder = kept.hold()
    first = kept.start(0, *SHARE, state='ACTIVE')
    wait_weights(kept, epoch=1)
    holder.kill()
    first.kill()
    kept.hold(kept.manager.kept)
    kept.model = models('stored-other', '--seed', '9')
    other = kept.start(0, *SHARE, state='ACTIVE')
    other.wait_event('weights_shared')
    assert not other.events('weights_imported')
    wait_weights(kept, epoch=2)


def test_an_engine_that_lives_knows_better(kept):
    holder = kept.hold()
    kept.start(0, state='ACTIVE')
    with Connection(kept.port) as first:
        assert get(first).status == 200
        settle(kept.port)
        kept.wait_kept(1)
        holder.kill()
        kept.hold(kept.manager.kept)
        kept.holder.wait_event('adopted')
        assert get(first).status == 200
        with Connection(kept.port) as second:
            assert get(second).status == 200
            settle(kept.port)
            kept.wait_kept(2)
    kept.wait_kept(0)


def test_a_damaged_journal_is_replaced_in_the_store(kept):
    holder = kept.hold()
    active = kept.start(0, state='ACTIVE')
    idle, silent = Connection(kept.port), Connection(kept.port)
    assert get(idle).status == 200
    settle(kept.port)
    kept.wait_kept(2)
    holder.kill()
    active.kill()
    journal = kept.manager.kept['journal']
    before = os.fstat(journal)
    for head in (0, before.st_size - 4_096):
        os.pwrite(journal, bytes(64), head)
    kept.hold(kept.manager.kept)
    assert kept.holder.wait_event('restored')['connections'] == 2
    kept.start(0, state='ACTIVE')
    assert kept.holder.wait_event('journal_replaced')['connections_closed'] == 1
    assert idle.at_end(PATIENCE) and get(silent).status == 200
    silent.close()
    kept.wait_kept(0)
    wait_until(lambda: os.fstat(kept.manager.kept['journal']).st_ino != before.st_ino, PATIENCE,
               'the new journal is kept')
    # It is good for one more restart of everything.
    with Connection(kept.port) as again:
        assert get(again).status == 200
        settle(kept.port)
        kept.wait_kept(1)
        kept.holder.kill()
        kept.all[-1].kill()
        kept.hold(kept.manager.kept)
        kept.start(0, state='ACTIVE')
        assert get(again).status == 200
    assert not kept.holder.events('journal_replaced')


def test_an_engine_that_serves_goes_on_with_a_damaged_journal(kept):
    holder = kept.hold()
    active = kept.start(0, state='ACTIVE')
    with Connection(kept.port) as idle:
        assert get(idle).status == 200
        settle(kept.port)
        kept.wait_kept(1)
        holder.kill()
        journal = kept.manager.kept['journal']
        for head in (0, os.fstat(journal).st_size - 4_096):
            os.pwrite(journal, bytes(64), head)
        kept.hold(kept.manager.kept)
        kept.holder.wait_event('adopted')
        assert get(idle).status == 200
        standby = kept.start(1, state='STANDBY')
        assert not kept.holder.events('journal_replaced')
        active.kill()
        assert idle.at_end(PATIENCE) and ask(kept.port, '/health').json()['engine_id'] == 1
    assert standby.wait_event('connections_taken_over')['lost'] == 1


def test_foreign_descriptors_are_refused_with_one_line(kept):
    with listening() as other, socket.socket() as unbound, socket.socket(socket.AF_UNIX) as local:
        kept.hold({'listener': other.fileno(), 'connection-1-1': unbound.fileno(), 'x' * 200: local.fileno()})
        told, = kept.holder.events('stored_refused')
        assert told['count'] == 3 and told['first'] == 'listener'
        kept.wait_kept(0)
        removed = {'FDNAME=connection-1-1', 'FDNAME=' + 'x' * 200}
        wait_until(lambda: removed <= set(kept.manager.lines()), PATIENCE, 'they are taken out of the store')
        kept.start(0, state='ACTIVE')
        assert ask(kept.port, '/health').status == 200
        assert unbound.fileno() >= 0 and other.getsockname()[1] != kept.port
