"""States, drains, signals, systemd. Sources: WORK-3015, 3100..3102, M0-W-1340, 1630."""
import os
import re
import signal
import socket
import time

import pytest

from fake_systemd import FakeSystemd
from http_client import Closed, Stream
from pauses import pause
from worker_process import PATIENCE, SANITIZED, STRETCH, Worker, wait_until

# A second or more on the slow model: time to look at a drain from all sides before the stream has ended.
SECONDS = dict(max_tokens=1000, ignore_eos=True)


@pytest.fixture
def worker(slow_model):
    with Worker('--model', slow_model, '--max-tokens-out', '4000', '--drain-timeout', '300') as running:
        running.wait_event('ready')
        yield running


def refused_during_drain(worker) -> None:
    try:
        answer = worker.open(max_tokens=1)
        assert answer.response.status == 503 and answer.response.error['code'] == 'DRAINING'
        assert answer.response.error['retriable'] is True and int(answer.response.headers['retry-after']) >= 1
        answer.close()
    except (ConnectionRefusedError, ConnectionResetError, Closed):
        pytest.fail('during a drain requests are answered, not dropped')


@pytest.mark.parametrize('way', ['SIGTERM', 'SIGINT', 'POST /shutdown'])
def test_drain_finishes_the_running_stream(worker, way):
    stream = worker.open(**SECONDS)
    stream.until('token')
    if way == 'POST /shutdown':
        answer = worker.call('POST', '/shutdown', b'{}')
        assert answer.status == 202
    else:
        worker.process.send_signal(getattr(signal, way))
    wait_until(lambda: worker.get('/ready').status == 503, PATIENCE, '/ready says no')
    health = worker.get('/health').json()
    assert health['state'] == 'draining' and worker.get('/live').status == 200
    refused_during_drain(worker)
    assert stream.finish().name == 'end' and stream.seen[-1].data['tokens_out'] == SECONDS['max_tokens']
    stream.close()
    assert worker.wait_exit(10) == 0
    assert worker.events('shutdown')


def test_waiting_jobs_finish_too(worker):
    first = worker.open(**SECONDS)
    first.until('token')
    connection = worker.send_execute(max_tokens=10, ignore_eos=True)
    wait_until(lambda: worker.waiting() == 1, PATIENCE, 'a job waits')
    worker.terminate()
    assert first.finish().name == 'end'
    assert Stream(connection).finish().name == 'end', 'it was accepted before the drain'
    assert worker.wait_exit(10) == 0


def test_idle_worker_stops_at_once(worker):
    begin = time.monotonic()
    worker.terminate()
    assert worker.wait_exit(5) == 0
    assert time.monotonic() - begin < 4 * STRETCH


def test_idle_keep_alive_connections_do_not_hold_a_drain(worker):
    idle = [worker.connect() for _ in range(5)]
    for connection in idle:
        connection.request('GET', '/health')
        connection.read_response()
    worker.terminate()
    assert worker.wait_exit(5) == 0
    for connection in idle:
        connection.close()


def test_second_sigterm_ends_streams_at_once(worker):
    stream = worker.open(max_tokens=4000, ignore_eos=True)
    stream.until('token')
    worker.terminate()
    wait_until(lambda: worker.get('/ready').status == 503, PATIENCE, 'draining')
    begin = time.monotonic()
    worker.terminate()
    last = stream.finish()
    assert last.name == 'error' and last.data['code'] in ('DRAINING', 'CANCELLED'), last.data
    assert worker.wait_exit(5) == 143
    assert time.monotonic() - begin < 4 * STRETCH


def test_shutdown_then_one_sigterm_is_a_normal_stop(worker):
    stream = worker.open(**SECONDS)
    stream.until('token')
    assert worker.call('POST', '/shutdown').status == 202
    worker.terminate()
    assert stream.finish().name == 'end'
    assert worker.wait_exit(10) == 0


def test_shutdown_twice(worker):
    stream = worker.open(**SECONDS)
    stream.until('token')
    assert [worker.call('POST', '/shutdown').status for _ in range(2)] == [202, 202]
    assert stream.finish().name == 'end'
    assert worker.wait_exit(10) == 0


def test_drain_timeout(slow_model):
    with Worker('--model', slow_model, '--drain-timeout', '1', '--max-tokens-out', '8000') as worker:
        worker.wait_event('ready')
        stream = worker.open(max_tokens=7500, ignore_eos=True)
        stream.until('token')
        begin = time.monotonic()
        worker.terminate()
        last = stream.finish()
        took = time.monotonic() - begin
        assert last.name == 'error' and last.data['code'] in ('DRAINING', 'CANCELLED')
        assert 0.8 < took < 4 * STRETCH, took
        assert worker.wait_exit(5) == 0
        assert [e['level'] for e in worker.events('drain_ended_job')] == ['warning']
        assert not worker.events('error'), 'a drain that takes its time is no failure'


def test_not_ready_while_starting(slow_model, tmp_path):
    """Nothing is served before the model is there: a client is refused or told 503, never 200."""
    with Worker('--model', slow_model) as worker:
        seen = set()
        deadline = time.monotonic() + PATIENCE * STRETCH
        while not worker.events('ready') and time.monotonic() < deadline:
            started = worker.events('startup')
            port = started[-1].get('port') if started else None
            if port:
                with socket.socket() as probe:
                    probe.settimeout(1)
                    try:
                        probe.connect(('127.0.0.1', port))
                        probe.sendall(b'GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                        seen.add(probe.recv(64)[9:12])
                    except OSError:
                        seen.add(b'refused')
            pause(0.005, 'a pace that leaves it a processor')
        assert worker.get('/ready').status == 200
        assert seen <= {b'refused', b'503', b'200', b''}, seen


def test_systemd_is_told(slow_model, tmp_path):
    systemd = FakeSystemd(tmp_path / 'notify')
    environment = {'NOTIFY_SOCKET': systemd.path, 'WATCHDOG_USEC': '200000'}
    try:
        with Worker('--model', slow_model, '--drain-timeout', '300', environment=environment) as worker:
            worker.wait_event('ready')
            wait_until(lambda: 'READY=1' in systemd.lines(), PATIENCE, 'READY=1')
            before = systemd.lines()[:systemd.lines().index('READY=1')]
            assert any(re.search(r'STATUS=.*\d+ ?%', line) for line in before), before
            assert any(line.startswith('EXTEND_TIMEOUT_USEC=') for line in before), before
            stream = worker.open(**SECONDS)
            stream.until('token')
            count = systemd.lines().count('WATCHDOG=1')
            wait_until(lambda: systemd.lines().count('WATCHDOG=1') >= count + 3, PATIENCE,
                       'the watchdog is fed while a job runs')
            worker.terminate()
            wait_until(lambda: 'STOPPING=1' in systemd.lines(), PATIENCE, 'STOPPING=1')
            assert stream.finish().name == 'end'
            assert worker.wait_exit(10) == 0
    finally:
        systemd.close()


def test_watchdog_is_not_fed_by_a_stopped_process(slow_model, tmp_path):
    systemd = FakeSystemd(tmp_path / 'notify')
    try:
        with Worker('--model', slow_model,
                    environment={'NOTIFY_SOCKET': systemd.path, 'WATCHDOG_USEC': '50000'}) as worker:
            worker.wait_event('ready')
            wait_until(lambda: 'WATCHDOG=1' in systemd.lines(), PATIENCE, 'the watchdog is fed')
            os.kill(worker.pid, signal.SIGSTOP)
            wait_until(lambda: worker.stopped(), PATIENCE, 'every thread has stopped')
            systemd.read_all()
            count = systemd.lines().count('WATCHDOG=1')
            pause(0.1, 'twice the time within which it is to be fed')
            systemd.read_all()
            assert systemd.lines().count('WATCHDOG=1') == count
            os.kill(worker.pid, signal.SIGCONT)
            wait_until(lambda: systemd.lines().count('WATCHDOG=1') > count, PATIENCE, 'fed again')
    finally:
        systemd.close()


def test_requests_that_came_while_the_worker_was_stopped_are_answered(tiny_model):
    """All timers have expired before such a process has seen what came: more than it hears of at a time."""
    many = 600
    with Worker('--model', tiny_model) as worker:
        worker.wait_event('ready')
        before = worker.descriptors()
        connections = [worker.connect() for _ in range(many)]
        wait_until(lambda: worker.descriptors() >= before + many, PATIENCE, 'all are accepted')
        worker.process.send_signal(signal.SIGSTOP)
        for connection in connections:
            connection.request('GET', '/health')
        # The longer ago it was, the more time they are given: a sanitizer's build needs more than the least.
        pause(12.0 if SANITIZED else 10.5, 'they have 10 s for a head')
        worker.process.send_signal(signal.SIGCONT)
        for connection in connections:
            assert connection.read_response().status == 200
            connection.close()


def test_no_ready_when_start_up_fails(tmp_path):
    systemd = FakeSystemd(tmp_path / 'notify')
    try:
        with Worker('--model', tmp_path / 'none.gguf', environment={'NOTIFY_SOCKET': systemd.path}) as worker:
            assert worker.wait_exit(20) == 1
        systemd.read_all()
        assert 'READY=1' not in systemd.lines()
    finally:
        systemd.close()


def test_sigterm_while_loading(slow_model):
    with Worker('--model', slow_model) as worker:
        worker.wait_event('startup')
        worker.terminate()
        assert worker.wait_exit(10) in (0, 143)


def test_sigpipe_and_sighup_do_not_kill(worker):
    worker.process.send_signal(signal.SIGPIPE)
    stream = worker.open(max_tokens=5)
    assert stream.finish().name == 'end'
    stream.close()
