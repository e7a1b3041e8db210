"""Signals end the worker whatever its threads do, and SIGHUP reads keys and log level again."""
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from held_file import ENVIRONMENT, HeldFile, holds_files
from pauses import pause
from ports import free_port
from worker_process import BINARY, PATIENCE, STRETCH, Worker, of_each_thread, wait_until, waits_in

# Half of what the policy allows after a second signal is for the teardown; a sanitizer takes its time.
SECOND = 3.0
FIRST_WHILE_OPENING = 1.0
FIRST_WHILE_LOADING = 5.0
SLACK = 2.0


def ends_within(worker, seconds: float) -> int:
    code = worker.process.wait(PATIENCE)
    took = time.monotonic() - ends_within.begin
    assert took < (seconds + SLACK) * STRETCH, f'{took:.1f} s'
    return code


def send(worker, number=signal.SIGTERM):
    ends_within.begin = time.monotonic()
    worker.process.send_signal(number)


def test_io_thread_that_is_stuck(tiny_model, silent_systemd):
    path, read = silent_systemd
    environment = {'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '20000'}
    with Worker('--model', tiny_model, '--drain-timeout', '300', environment=environment) as worker:
        read('READY=1')
        wait_until(lambda: waits_in(worker.pid, 'sendmsg'), PATIENCE, 'the io thread is stuck')
        worker.terminate()
        wait_until(lambda: is_taken(worker.pid, signal.SIGTERM), PATIENCE, 'the signal is taken')
        pause(0.2, 'it would have ended')
        assert worker.alive(), 'one signal leaves a drain its time'
        send(worker, signal.SIGINT)
        assert ends_within(worker, SECOND) == 130
    assert any('did not finish in time' in line for line in worker.lines)


def test_io_thread_that_is_stuck_and_one_signal(tiny_model, silent_systemd):
    path, read = silent_systemd
    environment = {'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '20000'}
    with Worker('--model', tiny_model, '--drain-timeout', '0', environment=environment) as worker:
        read('READY=1')
        wait_until(lambda: waits_in(worker.pid, 'sendmsg'), PATIENCE, 'the io thread is stuck')
        send(worker)
        assert ends_within(worker, 10) == 143


def test_load_that_is_stuck(slow_model, silent_systemd):
    path, _ = silent_systemd
    with Worker('--model', slow_model, environment={'NOTIFY_SOCKET': path}) as worker:
        wait_until(lambda: waits_in(worker.pid, 'sendmsg'), PATIENCE, 'the load is stuck')
        send(worker)
        assert ends_within(worker, FIRST_WHILE_LOADING) == 0


@holds_files
@pytest.mark.parametrize('option', ['--config', '--api-key-file', '--chat-template'])
def test_start_up_that_is_stuck(tiny_model, tmp_path, option):
    path = tmp_path / 'file'
    path.write_text('')
    HeldFile(path)
    with Worker('--model', tiny_model, option, path, environment=ENVIRONMENT) as worker:
        wait_until(lambda: guard_is_there(worker.pid) and waits_in(worker.pid, 'openat'), PATIENCE,
                   'it is stuck')
        send(worker)
        assert ends_within(worker, FIRST_WHILE_OPENING) == 0


def is_taken(pid: int, number: signal.Signals) -> bool:
    """Whether a signal does not wait any more."""
    waiting = re.search(r'^ShdPnd:\s+(\w+)$', Path(f'/proc/{pid}/status').read_text(), re.M).group(1)
    return not int(waiting, 16) >> (number - 1) & 1


def guard_is_there(pid: int) -> bool:
    return 'guard' in of_each_thread(pid, 'comm')


def test_a_thread_that_ends_while_all_are_read_is_left_out(monkeypatch):
    threads = os.listdir(f'/proc/{os.getpid()}/task')
    monkeypatch.setattr(os, 'listdir', lambda path: ['999999999', *threads])
    assert len(of_each_thread(os.getpid(), 'comm')) == len(threads)


def test_log_that_nobody_reads(tiny_model):
    """The last line waits for a reader; so would the guard's own last words."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    free = free_port()
    process = subprocess.Popen(
        [str(BINARY), '--backend', 'host', '--model', str(tiny_model), '--port', str(free)],
        stdin=subprocess.DEVNULL, stderr=writing)
    try:
        wait_until(lambda: connects(free), PATIENCE * STRETCH, 'it serves')
        fill(writing)
        os.set_blocking(writing, True)
        process.send_signal(signal.SIGTERM)
        # Two that wait are one.
        wait_until(lambda: is_taken(process.pid, signal.SIGTERM), PATIENCE, 'the signal is taken')
        wait_until(lambda: waits_in(process.pid, 'write'), PATIENCE, 'its last line waits')
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        assert process.wait(PATIENCE) == 143
        assert time.monotonic() - begin < (SECOND + SLACK) * STRETCH
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


def connects(port: int) -> bool:
    try:
        socket.create_connection(('127.0.0.1', port), timeout=1).close()
        return True
    except OSError:
        return False


def fill(descriptor: int) -> None:
    for size in (4096, 1):
        try:
            while True:
                os.write(descriptor, b'x' * size)
        except BlockingIOError:
            pass


@pytest.mark.parametrize('name', ['SIGUSR1', 'SIGUSR2', 'SIGPIPE', 'SIGALRM', 'SIGXFSZ', 'SIGHUP'])
def test_signals_that_end_nothing(tiny, name):
    for _ in range(3):
        os.kill(tiny.pid, getattr(signal, name))
    assert tiny.execute(max_tokens=4)[-1].name == 'end'


def asks(worker, key: str) -> int:
    return worker.call('GET', '/v1/models', headers={'Authorization': f'Bearer {key}'}).status


def test_sighup_reads_keys_and_log_level(tiny_model, tmp_path):
    keys, config = tmp_path / 'keys', tmp_path / 'config'
    keys.write_text('first-key\n')
    config.write_text('log-level = info\n')
    with Worker('--model', tiny_model, '--api-key-file', keys, '--config', config) as worker:
        worker.wait_event('ready')
        assert (asks(worker, 'first-key'), asks(worker, 'second-key')) == (200, 401)
        keys.write_text('second-key\n')
        config.write_text('log-level = debug\nmax-queue = 3\n')
        worker.process.send_signal(signal.SIGHUP)
        assert worker.wait_event('reloaded')['log_level'] == 'debug'
        assert (asks(worker, 'first-key'), asks(worker, 'second-key')) == (401, 200)
        assert not any('second-key' in line for line in worker.lines), 'no key in a log'

        def failures():
            return len(worker.events('reload_failed', level='error'))
        for path, text in ((keys, 'broken key \x01\n'), (keys, ''), (config, 'no-such-option = 1\n')):
            before = failures()
            good = path.read_text()
            path.write_text(text)
            worker.process.send_signal(signal.SIGHUP)
            wait_until(lambda: failures() > before, PATIENCE, 'it says so')
            assert (asks(worker, 'first-key'), asks(worker, 'second-key')) == (401, 200)
            path.write_text(good)
        for path in (keys, config):
            before, good = failures(), path.read_text()
            path.unlink()
            os.mkfifo(path)
            worker.process.send_signal(signal.SIGHUP)
            wait_until(lambda: failures() > before, PATIENCE, 'it says so')
            failure = worker.events('reload_failed', level='error')[-1]['message']
            assert f"'{path}': is a pipe; it must be a plain file" in failure
            path.unlink()
            path.write_text(good)
        worker.terminate()
        assert worker.wait_exit(10) == 0


@holds_files
def test_a_file_that_was_slow_replaces_nothing_that_was_read_after_it(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('first-key\n')
    with Worker('--model', tiny_model, '--api-key-file', keys, environment=ENVIRONMENT) as worker:
        worker.wait_event('ready')
        slow = HeldFile(keys)
        worker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: waits_in(worker.pid, 'openat'), PATIENCE, 'it waits for the file')
        slow.let_next_pass()
        keys.rename(tmp_path / 'first')
        keys.write_text('second-key\n')
        worker.process.send_signal(signal.SIGHUP)
        worker.wait_event('reloaded')
        slow.let_go()
        pause(0.3, 'what was read first would have been taken')
        assert (asks(worker, 'first-key'), asks(worker, 'second-key')) == (401, 200)


def test_sighup_takes_the_log_level_back(tiny_model, tmp_path):
    config = tmp_path / 'config'
    config.write_text('log-level = info\n')
    with Worker('--model', tiny_model, '--config', config) as worker:
        worker.wait_event('ready')
        config.write_text('log-level = error\n')
        worker.process.send_signal(signal.SIGHUP)
        worker.wait_event('reloaded')
        worker.execute(max_tokens=2)
        assert not worker.events('execute_start'), 'not wanted any more'
