"""What a service manager keeps of a holder, which is restarted while no engine lives. The service manager is
a fake one (fake_systemd.py)."""
import socket

import pytest

from engines import ask
from fake_systemd import FakeSystemd, listening, passing_descriptors
from holders import Held, Holder, get, settle
from http_client import Connection
from worker_process import PATIENCE, wait_until

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
        self.holders.append(Holder(self.folder, self.port, prefix=prefix, keep_descriptors=True,
                                   environment={'NOTIFY_SOCKET': self.manager.path}))
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
