"""A listening socket that a service manager opened, and what the worker tells it. The service manager is a
fake one (fake_systemd.py); the worker is the real one."""
import json
import os
import re
import signal
import socket
import sys
import threading

import pytest

from fake_systemd import FakeSystemd, listening, passing
from http_client import Connection, Stream
from pauses import pause
from worker_process import PATIENCE, STRETCH, Worker, request_body, run_to_exit, wait_until


def activated(*arguments, sockets, port='', **more) -> Worker:
    return Worker(*arguments, port=port, prefix=passing(sockets), keep_descriptors=True, **more)


def refusal(*sockets, arguments=(), count='', pid='') -> str:
    """The one line of a worker that ends with exit code 2 because of what it was passed."""
    code, worker = run_to_exit('--model', '/nowhere.gguf', *arguments, port='',
                               prefix=passing(sockets, count, pid), keep_descriptors=True)
    assert code == 2, worker.lines
    assert len(worker.lines) == 1, worker.lines
    return worker.lines[0]


def test_serves_at_the_passed_socket(tiny_model):
    with listening() as sock, activated('--model', tiny_model, sockets=[sock]) as worker:
        assert worker.wait_event('ready')['port'] == sock.getsockname()[1]
        assert worker.events('startup')[0]['socket_passed'] is True
        assert worker.execute(max_tokens=4)[-1].name == 'end'


def test_serves_at_a_passed_ipv6_socket(tiny_model):
    try:
        sock = listening('::1', socket.AF_INET6)
    except OSError:
        pytest.skip('no IPv6 here')
    with sock, activated('--model', tiny_model, sockets=[sock]) as worker:
        assert worker.wait_event('ready')['uri'] == f'http://[::1]:{sock.getsockname()[1]}'


def test_sockets_for_another_process_are_left_alone(tiny_model):
    """The variables are inherited by children that are not meant."""
    with listening() as sock:
        with Worker('--model', tiny_model, prefix=passing([sock], pid='1'), keep_descriptors=True) as worker:
            assert worker.wait_event('ready')['port'] != sock.getsockname()[1]


@pytest.mark.parametrize('count', ['many', '-1', '99999999999999999999'])
def test_a_count_that_is_no_number_is_refused(count):
    with listening() as sock:
        assert 'LISTEN_FDS' in refusal(sock, count=count)


def test_two_sockets_are_refused():
    with listening() as one, listening() as two:
        assert '2 sockets were passed' in refusal(one, two)


def test_a_socket_that_does_not_listen_is_refused():
    with socket.socket() as sock:
        assert 'does not listen' in refusal(sock)


def test_datagrams_are_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        assert 'no stream socket' in refusal(sock)


def test_a_local_socket_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / 'socket'))
        sock.listen(1)
        assert 'not TCP' in refusal(sock)


def test_a_port_that_disagrees_is_named():
    with listening() as sock:
        port = sock.getsockname()[1]
        other = 9000 if port != 9000 else 9001
        line = refusal(sock, arguments=('--port', str(other)))
        assert str(port) in line and str(other) in line and '--port' in line


def test_an_address_that_disagrees_is_named():
    """It decides who may ask."""
    with listening('0.0.0.0') as sock:
        assert '--host is 127.0.0.1' in refusal(sock, arguments=('--host', '127.0.0.1'))


def test_a_port_that_agrees_is_taken(tiny_model):
    with listening() as sock:
        port = str(sock.getsockname()[1])
        with activated('--model', tiny_model, sockets=[sock], port=port) as worker:
            assert worker.wait_event('ready')['port'] == int(port)


class Clients(threading.Thread):
    """Connects and asks again and again; says how often a connect was refused."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.port, self.connected, self.refused, self.answered = port, 0, 0, 0
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.002):
            try:
                sock = socket.create_connection(('127.0.0.1', self.port), timeout=PATIENCE * STRETCH)
            except ConnectionRefusedError:
                self.refused += 1
                continue
            self.connected += 1
            with sock:
                try:
                    sock.sendall(b'GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                    self.answered += sock.recv(64).startswith(b'HTTP/1.1 200')
                except ConnectionError:
                    pass  # accepted by a worker that then ended

    def end(self) -> None:
        self.stop.set()
        self.join(PATIENCE * STRETCH)


def test_a_restart_refuses_no_connection(tiny_model):
    with listening() as sock:
        clients = Clients(sock.getsockname()[1])
        clients.start()
        try:
            for _ in range(3):
                with activated('--model', tiny_model, sockets=[sock]) as worker:
                    worker.wait_event('ready')
                    before = clients.answered
                    wait_until(lambda: clients.answered >= before + 5, PATIENCE, 'clients are served')
                    worker.terminate()
                    assert worker.wait_exit(10) == 0
            with activated('--model', tiny_model, sockets=[sock]) as worker:
                worker.wait_event('ready')
                before = clients.answered
                wait_until(lambda: clients.answered >= before + 5, PATIENCE, 'clients are served')
                clients.end()
            assert clients.refused == 0 and clients.connected >= 20
        finally:
            clients.end()


def test_a_connection_made_between_two_workers_is_served_by_the_second(tiny_model):
    with listening() as sock:
        with activated('--model', tiny_model, sockets=[sock]) as first:
            first.wait_event('ready')
            first.terminate()
            assert first.wait_exit(10) == 0
        with Connection(sock.getsockname()[1]) as waiting:
            waiting.request('POST', '/execute', json.dumps(request_body(max_tokens=4)).encode())
            with activated('--model', tiny_model, sockets=[sock]):
                assert Stream(waiting).finish().name == 'end'


def test_a_stop_lets_a_running_stream_end(slow_model, tmp_path):
    """From start to stop as a service manager sees it."""
    systemd = FakeSystemd(tmp_path / 'notify')
    environment = {'NOTIFY_SOCKET': systemd.path, 'WATCHDOG_USEC': '200000'}
    try:
        with listening() as sock, activated('--model', slow_model, '--drain-timeout', '300', sockets=[sock],
                                            environment=environment) as worker:
            worker.wait_event('ready')
            wait_until(lambda: 'READY=1' in systemd.lines(), PATIENCE, 'READY=1')
            first = systemd.lines()
            before = first[:first.index('READY=1')]
            assert any(re.match(r'STATUS=Loading the model: \d+ %', line) for line in before), before
            assert any(line.startswith('EXTEND_TIMEOUT_USEC=') for line in before), before
            assert 'WATCHDOG=1' not in before, 'the start-up timeout is in charge'
            stream = worker.open(max_tokens=600, ignore_eos=True)
            stream.until('token')
            wait_until(lambda: 'WATCHDOG=1' in systemd.lines(), PATIENCE, 'the watchdog is fed')
            worker.terminate()
            wait_until(lambda: 'STOPPING=1' in systemd.lines(), PATIENCE, 'STOPPING=1')
            assert stream.finish().name == 'end'
            assert worker.wait_exit(10) == 0
        systemd.read_all()
        extension = [int(line.split('=')[1]) for line in systemd.lines() if line.startswith('EXTEND_TIMEOUT')]
        assert extension[-1] > 300 * 1_000_000, 'the stop may take the drain and more'
    finally:
        systemd.close()


def test_a_hung_worker_is_ended_and_replaced_without_a_refused_connection(tiny_model, tmp_path):
    """As WatchdogSec= does it: a worker that stands still does not feed the watchdog, is sent SIGABRT (which
    waits for it to go on), then SIGKILL; the next one serves at the same socket."""
    systemd = FakeSystemd(tmp_path / 'notify')
    environment = {'NOTIFY_SOCKET': systemd.path, 'WATCHDOG_USEC': '50000'}
    try:
        with listening() as sock:
            with activated('--model', tiny_model, sockets=[sock], environment=environment) as hung:
                hung.wait_event('ready')
                wait_until(lambda: 'WATCHDOG=1' in systemd.lines(), PATIENCE, 'the watchdog is fed')
                os.kill(hung.pid, signal.SIGSTOP)
                wait_until(hung.stopped, PATIENCE, 'every thread has stopped')
                systemd.read_all()
                count = systemd.lines().count('WATCHDOG=1')
                with Connection(sock.getsockname()[1]) as waiting:
                    pause(0.1, 'twice the time within which it is to be fed')
                    systemd.read_all()
                    assert systemd.lines().count('WATCHDOG=1') == count
                    hung.process.send_signal(signal.SIGABRT)
                    hung.process.send_signal(signal.SIGKILL)
                    hung.process.wait(30)
                    with activated('--model', tiny_model, sockets=[sock]) as worker:
                        worker.wait_event('ready')
                        waiting.request('GET', '/live')
                        assert waiting.read_response().status == 200
    finally:
        systemd.close()


def test_lines_carry_a_priority_where_standard_error_is_the_journal(tiny_model, tmp_path):
    """JOURNAL_STREAM names the journal's socket by device and inode."""
    read, write = os.pipe()
    facts = os.fstat(write)
    script = 'import os, sys; os.dup2(int(sys.argv[1]), 2); os.execv(sys.argv[2], sys.argv[2:])'
    os.set_inheritable(write, True)
    worker = Worker('--model', tmp_path / 'none.gguf', keep_descriptors=True,
                    prefix=[sys.executable, '-c', script, str(write)],
                    environment={'JOURNAL_STREAM': f'{facts.st_dev}:{facts.st_ino}'})
    try:
        os.close(write)
        assert worker.wait_exit(30) == 1
        with os.fdopen(read, 'rb') as pipe:
            lines = pipe.read().decode().splitlines()
    finally:
        worker.end()
    priorities = {json.loads(line[3:])['event']: line[:3] for line in lines}
    assert priorities['startup'] == '<6>' and priorities['error'] == '<3>', lines


def test_a_key_file_that_everybody_can_read_is_named(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('a-long-random-key ci\n')
    keys.chmod(0o644)
    with Worker('--model', tiny_model, '--api-key-file', keys) as worker:
        worker.wait_event('ready')
        warning, = worker.events('api_key_file_open')
        assert warning['level'] == 'warning' and str(keys) in warning['message']
        assert 'a-long-random-key' not in '\n'.join(worker.lines)
    keys.chmod(0o640)
    with Worker('--model', tiny_model, '--api-key-file', keys) as worker:
        worker.wait_event('ready')
        assert not worker.events('api_key_file_open')
