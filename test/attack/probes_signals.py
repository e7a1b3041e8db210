"""Signals: the second one that asks for an end always gives it, whatever the io thread does; the others mean
what they say or nothing."""
import fcntl
import os
import signal
import socket
import subprocess
import threading
import time

from client import Connection, chat_body, execute_body, request, status_of
from crowd import Crowd
from judge import ms, probe
from loads import hammer
from probes_templates import BIG, TEMPLATES, render_body
from worker_process import STRETCH

SECOND_WITHIN = 2.0  # from the second signal to the end of the process


def running(arena, *options: str, name: str = 'main'):
    worker = arena.start(*arena.options(name), *options)
    worker.wait_event('ready')
    return worker


def stream(port: int, job: str = 'stream') -> Connection:
    connection = Connection(port, timeout=20.0)
    connection.send(request(port, 'POST', '/execute', execute_body(job_id=job, max_tokens=3000)))
    connection.read_head()
    return connection


def end_by_two(worker, first: int, second: int, checks, wanted=(130, 143)) -> None:
    worker.process.send_signal(first)
    time.sleep(0.3)
    begin = time.monotonic()
    worker.process.send_signal(second)
    try:
        code = worker.process.wait(SECOND_WITHIN * STRETCH + 8)
    except subprocess.TimeoutExpired:
        checks.in_time(SECOND_WITHIN * STRETCH + 8, SECOND_WITHIN * STRETCH, 'the end')
        worker.process.kill()
        return
    took = time.monotonic() - begin
    checks.expect(code in wanted, f'exit {code}')
    checks.in_time(took, SECOND_WITHIN * STRETCH, 'the end')
    checks.note(f'exit {code} after {ms(took)}')


def _two(name: str, first: int, second: int):
    def run(arena, checks) -> None:
        with running(arena) as worker, stream(worker.port):
            end_by_two(worker, first, second, checks)
    probe('signals', name)(run)


_two('SIGTERM twice while a stream runs', signal.SIGTERM, signal.SIGTERM)
_two('SIGINT twice while a stream runs', signal.SIGINT, signal.SIGINT)
_two('SIGTERM, then SIGINT', signal.SIGTERM, signal.SIGINT)


@probe('signals', 'SIGTERM twice while the io thread is busy with a template')
def busy_with_a_template(arena, checks) -> None:
    with running(arena, name='templates') as worker:
        port = worker.port
        raw = request(port, 'POST', '/v1/chat/completions', render_body(BIG + "{{ (a + 'b') in b }}"))
        with Connection(port) as connection:
            connection.send(raw)
            time.sleep(0.3)
            end_by_two(worker, signal.SIGTERM, signal.SIGTERM, checks, (0, 130, 143))


@probe('signals', 'SIGTERM twice while eight clients keep the io thread busy')
def busy_with_bodies(arena, checks) -> None:
    with running(arena, name='templates') as worker:
        body = render_body(TEMPLATES['a list that doubles'])
        raw = request(worker.port, 'POST', '/v1/chat/completions', body)
        with Crowd(hammer, worker.port, raw, count=8) as crowd, stream(worker.port):
            time.sleep(0.5)
            end_by_two(worker, signal.SIGTERM, signal.SIGTERM, checks)
            crowd.finish(5.0)


@probe('signals', 'SIGTERM twice while a schema is compiled')
def busy_with_a_schema(arena, checks) -> None:
    from probes_schemas import SCHEMAS, ask_for
    with running(arena) as worker:
        port = worker.port
        with Connection(port) as connection, stream(port):
            body = ask_for(SCHEMAS['pattern of 2^18 states'])
            connection.send(request(port, 'POST', '/v1/chat/completions', body))
            time.sleep(0.3)
            end_by_two(worker, signal.SIGTERM, signal.SIGTERM, checks)


def full_pipe(arena, *options: str):
    """A worker whose log nobody reads, in a pipe that is full soon."""
    import worker_process
    port = free_port()
    command = [str(worker_process.BINARY), '--backend', 'host', '--port', str(port), *arena.options('tiny'),
               '--log-level', 'debug', *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    fcntl.fcntl(process.stderr, 1031, 4096)  # F_SETPIPE_SZ
    return process, port


def wait_live(process, port: int) -> None:
    """Until it answers, or has ended, or takes too long; what then is, the caller looks at."""
    deadline = time.monotonic() + 15 * STRETCH
    while process.poll() is None and time.monotonic() < deadline:
        if status_of(port, 'GET', '/live') == '200':
            return
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@probe('signals', 'a log that nobody reads')
def unread_log(arena, checks) -> None:
    """It is served on, the log counts what it drops; the first SIGTERM drains and the second ends."""
    process, port = full_pipe(arena)
    try:
        wait_live(process, port)
        got = [status_of(port, 'POST', '/execute', execute_body(job_id=f'j{i}', max_tokens=1), timeout=5.0)
               for i in range(200)]
        checks.expect(set(got) == {'200'}, f'{sorted(set(got))}')
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(6 * STRETCH)
        except subprocess.TimeoutExpired:
            checks.expect(False, 'the first SIGTERM does not end it within 6 s')
            process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            try:
                code = process.wait(5 * STRETCH)
            except subprocess.TimeoutExpired:
                code = None
            checks.expect(code is not None, 'it goes on 5 s after the second SIGTERM')
            checks.note(f'only the second SIGTERM ended it, after {ms(time.monotonic() - begin)}')
        checks.note(f'exit {code}')
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


IGNORED = {'SIGHUP': signal.SIGHUP, 'SIGUSR1': signal.SIGUSR1, 'SIGUSR2': signal.SIGUSR2,
           'SIGPIPE': signal.SIGPIPE, 'SIGWINCH': signal.SIGWINCH, 'SIGCHLD': signal.SIGCHLD,
           'SIGURG': signal.SIGURG, 'SIGCONT': signal.SIGCONT}


def _ignored(name: str):
    def run(arena, checks) -> None:
        with running(arena) as worker, stream(worker.port) as connection:
            for _ in range(50):
                worker.process.send_signal(IGNORED[name])
                time.sleep(0.002)
            time.sleep(0.2)
            if checks.expect(worker.alive(), f'it ended with {worker.process.poll()}'):
                checks.expect(status_of(worker.port, 'GET', '/live') == '200', 'no /live')
                text = connection.drain(0.3)
                checks.expect(b'event: token' in text and b'event: error' not in text, 'the stream broke off')
    probe('signals', f'50 times {name} while a stream runs')(run)


for _name in IGNORED:
    _ignored(_name)


@probe('signals', 'SIGHUP with a configuration file that is gone')
def hup_without_file(arena, checks) -> None:
    path = arena.folder / 'worker.conf'
    path.write_text('log-level = info\n')
    with running(arena, '--config', str(path), name='tiny') as worker:
        path.unlink()
        worker.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        checks.expect(worker.alive(), f'it ended with {worker.process.poll()}')


@probe('signals', 'SIGHUP reads the log level again')
def hup_log_level(arena, checks) -> None:
    path = arena.folder / 'level.conf'
    path.write_text('log-level = error\n')
    with running_quiet(arena, path) as worker:
        path.write_text('log-level = debug\n')
        worker.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 0.5 * STRETCH
        while time.monotonic() < until and not any('execute' in line for line in worker.lines):
            time.sleep(0.2)
            if not checks.expect(worker.alive(), f'it ended with {worker.process.poll()}'):
                return
            status_of(worker._port, 'POST', '/execute', execute_body())
        time.sleep(0.3)
        checks.expect(any('execute' in line for line in worker.lines), 'the log says no more than before')


def running_quiet(arena, path):
    """One whose log does not say when it is ready."""
    port = free_port()
    worker = arena.start(*arena.options('tiny'), '--config', str(path), port=str(port))
    worker._port = port
    wait_live(worker.process, port)
    return worker


def storm(worker, numbers, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and worker.alive():
        for number in numbers:
            try:
                os.kill(worker.pid, number)
            except ProcessLookupError:
                return


@probe('signals', 'a storm of SIGINT and SIGTERM')
def end_storm(arena, checks) -> None:
    with running(arena) as worker, stream(worker.port):
        thread = threading.Thread(target=storm, args=(worker, [signal.SIGINT, signal.SIGTERM], 5.0))
        thread.start()
        try:
            code = worker.process.wait(8 * STRETCH)
            checks.expect(code in (130, 143), f'exit {code}')
        except subprocess.TimeoutExpired:
            checks.expect(False, 'it goes on after 8 s')
        thread.join()


@probe('signals', 'a storm of those that are ignored while it loads and while it drains')
def ignored_storm(arena, checks) -> None:
    numbers = [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE]
    with arena.start(*arena.options('main')) as worker:
        deadline = time.monotonic() + 5 * STRETCH
        while not worker.lines and worker.alive() and time.monotonic() < deadline:
            time.sleep(0.001)  # before its handlers stand nothing can be asked of it
        storm(worker, numbers, 0.5)
        if not checks.expect(worker.alive(), f'while it loads it ended with {worker.process.poll()}'):
            return
        with stream(worker.port) as connection:
            worker.terminate()
            storm(worker, numbers, 0.5)
            checks.expect(worker.alive(), f'while it drains it ended with {worker.process.poll()}')
            connection.reset()
        checks.expect((code := worker.wait_exit(15)) == 0, f'exit {code}')


@probe('signals', 'SIGTERM at every moment of the start')
def term_at_start(arena, checks) -> None:
    """0 or 143: it was asked to stop. Never another signal, never an abort."""
    codes = set()
    for step in range(25):
        with arena.start(*arena.options('tiny')) as worker:
            time.sleep(step * 0.004 * (4 if STRETCH > 1 else 1))
            worker.terminate()
            codes.add(worker.wait_exit(10))
    checks.expect(codes <= {0, -15, 143}, f'{sorted(codes)}')
    checks.note(f'exits {sorted(codes)}')


@probe('signals', 'SIGSTOP for two seconds, then SIGCONT')
def stop_and_go(arena, checks) -> None:
    with running(arena) as worker, stream(worker.port) as connection:
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)
        worker.process.send_signal(signal.SIGCONT)
        connection.drain(0.5)
        text = connection.drain(0.5)
        checks.expect(b'event: token' in text, 'the stream does not go on')
        checks.expect(status_of(worker.port, 'GET', '/health') == '200', 'no /health')


@probe('signals', 'SIGTERM while a thousand connections idle and twenty are half read')
def term_with_connections(arena, checks) -> None:
    from loads import drop, open_socket
    with running(arena, name='tiny') as worker:
        held = [open_socket(worker.port) for _ in range(800)]
        for s in held[:20]:
            s.sendall(b'POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{')
        begin = time.monotonic()
        worker.terminate()
        try:
            code = worker.wait_exit(8)
            checks.expect(code == 0, f'exit {code}')
        except subprocess.TimeoutExpired:
            checks.expect(False, 'it waits for connections that ask nothing')
            worker.process.kill()
        checks.note(f'after {ms(time.monotonic() - begin)}')
        drop(held)


@probe('signals', 'a file size limit on its log')
def file_size(arena, checks) -> None:
    """SIGXFSZ ends a process that did not think of it; a log that is full is no reason to end."""
    import worker_process
    port, path = free_port(), arena.folder / 'small-log'
    command = ['prlimit', '--fsize=2000', str(worker_process.BINARY), '--backend', 'host',
               '--port', str(port), *arena.options('tiny')]
    with path.open('wb') as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
    try:
        wait_live(process, port)
        got = [status_of(port, 'POST', '/v1/chat/completions', chat_body()) for _ in range(20)]
        checks.expect(process.poll() is None, f'it ended with {process.poll()}')
        checks.expect(set(got) == {'200'}, f'{sorted(set(got))}')
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10 * STRETCH)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
