"""A serving worker is listed in etcd while it serves; etcd away is no outage."""
import signal
import socket
import threading
import time

import pytest

from etcd import ETCD, PREFIX, Etcd
from engines import Engines
from worker_process import PATIENCE, STRETCH, Worker, run_to_exit, wait_until

ID = '11111111-2222-4333-8444-555555555555'
TTL = 10.0


def wait(condition, what: str, timeout: float = PATIENCE):
    return wait_until(condition, timeout * STRETCH, what, 0.05)


@pytest.fixture
def etcd(tmp_path):
    if not ETCD:
        pytest.skip('etcd is not here (tools/etcd.sh)')
    server = Etcd(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def start(tiny_model, started):
    def one(url: str, *options: str) -> Worker:
        return started('--model', tiny_model, '--discovery-url', url, '--worker-id', ID, *options)
    return one


def registered(worker) -> bool:
    return worker.metric('orcd_discovery_registered') == 1


def serves(worker) -> bool:
    return worker.execute(max_tokens=3, ignore_eos=True)[-1].name == 'end'


def test_registration(etcd, start):
    worker = start(etcd.url, '--model-name', 'small', '--public-uri', 'http://gpu-1:8080')
    entry = wait(lambda: etcd.entries().get(ID), 'listed')
    assert (entry['uri'], entry['model'], entry['engine_id']) == ('http://gpu-1:8080', 'small', 0)
    assert entry['epoch'] >= 1 and entry['lease']
    wait(lambda: registered(worker), 'it knows')
    wait(lambda: worker.metric('orcd_discovery_registrations_total') == 1, 'it is counted')
    for _ in range(2):
        wait(lambda: etcd.seconds_left(entry['lease']) < TTL - 1, 'the lease runs down')
        wait(lambda: etcd.seconds_left(entry['lease']) >= TTL - 1, 'it is kept alive')
    assert etcd.entries()[ID] == entry and registered(worker)
    worker.terminate()
    assert worker.wait_exit(30) == 0
    assert etcd.entries() == {}


def test_it_is_taken_off_the_list_while_it_drains(etcd, start):
    worker = start(etcd.url, '--drain-timeout', '60')
    wait(lambda: ID in etcd.entries(), 'listed')
    stream = worker.open(max_tokens=900, ignore_eos=True)
    stream.until('token')
    worker.terminate()
    wait(lambda: ID not in etcd.entries(), 'no longer listed', 5)
    stream.close()
    assert worker.wait_exit(60) == 0


def test_a_killed_worker_is_listed_until_its_lease_ends(etcd, start):
    worker = start(etcd.url)
    wait(lambda: ID in etcd.entries(), 'listed')
    worker.process.kill()
    worker.process.wait(PATIENCE)
    assert ID in etcd.entries()
    wait(lambda: ID not in etcd.entries(), 'the lease has ended', TTL + 10)


def test_a_successor_replaces_the_entry_at_once(etcd, tiny_model, tmp_path):
    folder = tmp_path / 'pair'
    folder.mkdir()
    with Engines(tiny_model, folder) as engines:
        options = ('--discovery-url', etcd.url, '--worker-id', ID)
        active, standby = engines.pair(*options)
        first = wait(lambda: etcd.entries().get(ID), 'listed')
        assert first['engine_id'] == 0 and not standby.events('discovery_registered')
        active.kill()
        standby.wait_event('ready')
        began = time.monotonic()
        second = wait(lambda: (etcd.entries().get(ID) or {}).get('engine_id') == 1 and etcd.entries()[ID],
                      'the successor is listed')
        # The dead one's lease would have held its entry for seconds.
        assert time.monotonic() - began < TTL / 2 * STRETCH
        assert second['epoch'] > first['epoch'] and second['lease'] != first['lease']
        wait(lambda: etcd.seconds_left(first['lease']) < 0, 'the lease of the dead one has ended')
        assert etcd.entries() == {ID: second}


def test_etcd_is_stopped_and_back(etcd, start):
    worker = start(etcd.url)
    before = wait(lambda: etcd.entries().get(ID), 'listed')
    etcd.stop()
    wait(lambda: not registered(worker), 'it knows that its lease has ended', TTL + 10)
    assert serves(worker) and worker.metric('orcd_discovery_failures_total') > 0
    etcd.start()
    wait(lambda: registered(worker), 'listed again')
    after = etcd.entries()[ID]
    assert after['epoch'] == before['epoch']
    # Not a line for each try.
    assert 1 <= len(worker.events('discovery_failing')) < worker.metric('orcd_discovery_failures_total')


def test_etcd_that_is_not_there_yet(etcd, start):
    etcd.stop()
    worker = start(etcd.url)
    assert serves(worker) and worker.get('/ready').status == 200
    wait(lambda: worker.events('discovery_failing'), 'it says so')
    etcd.start()
    wait(lambda: ID in etcd.entries(), 'listed')


def test_a_partition_from_etcd(etcd, start):
    worker = start(etcd.url)
    wait(lambda: registered(worker), 'listed')
    etcd.send_signal(signal.SIGSTOP)
    try:
        wait(lambda: not registered(worker), 'it knows that its lease may have ended', TTL + 10)
        assert serves(worker)
    finally:
        etcd.send_signal(signal.SIGCONT)
    wait(lambda: registered(worker) and ID in etcd.entries(), 'listed again')


def test_a_worker_ends_in_time_while_etcd_hangs(etcd, start):
    worker = start(etcd.url)
    wait(lambda: registered(worker), 'listed')
    etcd.send_signal(signal.SIGSTOP)
    try:
        worker.terminate()
        assert worker.wait_exit(15) == 0
    finally:
        etcd.send_signal(signal.SIGCONT)


def test_who_finds_a_higher_epoch_leaves_it_alone(etcd, start):
    worker = start(etcd.url)
    mine = wait(lambda: etcd.entries().get(ID), 'listed')
    other = {'uri': 'http://other:1', 'model': 'm', 'engine_id': 1, 'epoch': mine['epoch'] + 5}
    etcd.put(ID, other)
    wait(lambda: worker.events('discovery_superseded'), 'it sees it')
    assert not registered(worker) and serves(worker)
    assert etcd.entries()[ID]['uri'] == 'http://other:1'
    etcd.delete(ID)
    wait(lambda: etcd.entries().get(ID, {}).get('uri') == mine['uri'], 'listed again')


class Liar:
    """Takes connections at a port and answers each with the same bytes, or not at all."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.held = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.asked += 1
            if self.answer is None:
                self.held.append(connection)  # and never a byte
                continue
            try:
                connection.recv(65536)
                connection.sendall(self.answer)
                connection.close()
            except OSError:
                pass


def http(body: bytes, status: bytes = b'200 OK') -> bytes:
    return b'HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s' % (status, len(body), body)


@pytest.mark.parametrize('answer', [
    None, b'', b'SSH-2.0-OpenSSH\r\n', http(b''), http(b'{}'), http(b'[' * 60000),
    http(b'{"ID":"-1","TTL":"10"}'), http(b'{"ID":"7","TTL":"10"}'), http(b'x' * 200000),
    http(b'{"ID":"7","TTL":"10"}', b'500 Internal Server Error'),
    b'HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n', b'HTTP/1.1 200 OK\r\nX: ' + b'y' * 200000,
], ids=range(12))
def test_a_store_that_lies_or_hangs_harms_nobody(answer, start):
    liar = Liar(answer)
    worker = start(f'etcd://127.0.0.1:{liar.port}')
    wait(lambda: liar.asked >= 3, 'it tries again')
    assert serves(worker) and not registered(worker)
    assert worker.metric('orcd_discovery_failures_total') >= 1
    worker.terminate()
    assert worker.wait_exit(15) == 0
    liar.listener.close()


def test_wrong_options_are_refused(tiny_model):
    for options in (('--discovery-url', 'http://127.0.0.1:2379'), ('--discovery-url', 'etcd://h:0'),
                    ('--discovery-prefix', 'a b')):
        code, worker = run_to_exit('--model', tiny_model, *options)
        assert code == 2 and options[0] in '\n'.join(worker.lines) + worker.stdout.decode()


def test_without_the_option_nothing_is_said_of_it(tiny):
    assert b'orcd_discovery' not in tiny.get('/metrics').body


def test_prefix(etcd, start):
    start(etcd.url, '--discovery-prefix', PREFIX + '/')
    wait(lambda: ID in etcd.entries(), 'listed')
