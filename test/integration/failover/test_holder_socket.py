"""The holder's own socket: where it can be, and what strangers and broken engines do to it."""
import errno
import os
import signal
import socket
import struct
import sys
import time
from subprocess import PIPE, Popen, run

import pytest

from holders import (CLOSED, HELLO, HOLDER, MAGIC, OFFER, PING, PROBE, REPORT, ROOM, SOCKETS, TAKE_OVER,
                     STANDBY, VERSION, WELCOME, Client, Holder, answers_nobody, check, descriptors)
from ports import free_port
from worker_process import PATIENCE, SANITIZED, wait_until


# --- what is wrong at the start ------------------------------------------------------------------

def start_in(folder, port: int, *options: str, **more) -> Holder:
    return Holder(folder, port, *options, **more)


@pytest.mark.parametrize('place', ['a file in the way', 'another holder', 'open to others', 'no parent',
                                   'a path too long', 'a file for a folder'])
def test_a_place_that_cannot_be_is_one_line_and_2(held, tmp_path, place):
    folder, why = tmp_path / 'p', ''
    if place == 'a file in the way':
        folder.mkdir(mode=0o700)
        (folder / 'connections.sock').write_text('mine')
        why = 'no socket'
    elif place == 'another holder':
        folder, why = held.folder, 'another holder'
    elif place == 'open to others':
        folder.mkdir()
        folder.chmod(0o777)
        why = 'others may write'
    elif place == 'no parent':
        folder, why = tmp_path / 'no' / 'p', 'No such file'
    elif place == 'a path too long':
        folder, why = tmp_path / ('x' * 120), 'the limit of a socket'
    else:
        folder.write_text('')
        why = 'no folder'
    holder = start_in(folder, held.port)
    assert holder.wait_exit(30) == 2
    (error,) = holder.events('error')
    assert why in error['message'] and str(folder) in error['message']
    holder.end()


def test_a_live_socket_of_something_else_is_left_alone(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.bind(str(tmp_path / 'connections.sock'))
        stranger.listen()
        tmp_path.chmod(0o700)
        holder = start_in(tmp_path, free_port())
        assert holder.wait_exit(30) == 2
        assert 'another process listens there' in holder.events('error')[0]['message']
        holder.end()
        stranger.settimeout(0)


def test_the_socket_of_a_dead_holder_is_replaced(held):
    held.holder.kill()
    assert (held.folder / 'connections.sock').exists()
    held.start_holder()
    assert os.stat(held.folder).st_mode & 0o777 == 0o700


@pytest.mark.skipif(SANITIZED, reason='a sanitizer needs descriptors of its own for its reports')
def test_a_start_that_only_lacks_descriptors_is_not_final(tmp_path):
    """Service managers do not try again after a 2."""
    ends = []
    for limit in range(5, 12):
        folder = tmp_path / str(limit)
        holder = Holder(folder, free_port(), prefix=['prlimit', f'--nofile={limit}:{limit}', '--'])
        wait_until(lambda: not holder.alive() or holder.events('ready'), PATIENCE, 'it starts or does not')
        if not holder.alive():
            ends.append(holder.wait_exit(PATIENCE))
        holder.end()
    assert set(ends) == {1}, ends


# --- its socket and strangers ---------------------------------------------------------------------

PLACE = struct.pack('=IIQ', 1, 0, 1)


@pytest.mark.parametrize('breach', ['text', 'empty', 'version', 'length', 'type', 'no descriptor', 'too many',
                                    'no hello', 'twice hello', 'engine 64', 'offer of others', 'sockets',
                                    'a long one'])
def test_whoever_breaks_a_rule_is_dropped_alone(held, breach):
    pipe = os.pipe()
    with Client(held.folder) as good, Client(held.folder) as bad:
        good.hello(3)
        assert good.receive()[0] == 2
        if breach in ('version', 'length', 'type', 'twice hello', 'offer of others', 'sockets'):
            bad.hello(4)
        if breach == 'text':
            bad.send_raw(b'GET / HTTP/1.1\r\n\r\n')
        elif breach == 'empty':
            bad.send_raw(b'')
        elif breach == 'version':
            bad.send(PING, struct.pack('=Q', 1), version=VERSION - 1)
        elif breach == 'length':
            bad.send(PING, struct.pack('=Q', 1), length=9)
        elif breach == 'type':
            bad.send(99)
        elif breach == 'no descriptor':
            bad.send(HELLO, struct.pack('=II', 4, 0))
        elif breach == 'too many':
            bad.send(HELLO, struct.pack('=II', 4, 0), [pipe[0]] * 100)
        elif breach == 'no hello':
            bad.send(TAKE_OVER, ROOM)
        elif breach == 'twice hello':
            bad.hello(5)
        elif breach == 'engine 64':
            bad.hello(64)
        elif breach == 'offer of others':
            bad.send(OFFER, b'', pipe)
        elif breach == 'sockets':
            bad.send(SOCKETS, struct.pack('=IIQ', 2, 1, 5) + PLACE, [pipe[0]])
        else:
            bad.send_raw(b'\0' * 150_000)
        assert bad.is_dropped()
        good.send(TAKE_OVER, ROOM)
        assert good.receive()[0] == SOCKETS
    assert check(held.folder, 'startup') == 0
    for end in pipe:
        os.close(end)


def test_an_engine_of_the_same_number_is_refused_while_the_first_lives(held):
    with Client(held.folder) as first, Client(held.folder) as second:
        first.hello(0)
        assert first.receive()[0] == 2
        second.hello(0)
        assert second.is_dropped()
        first.send(CLOSED, PLACE)  # of a connection that is not there: no harm
        first.send(TAKE_OVER, ROOM)
        assert first.receive()[0] == SOCKETS


def test_a_takeover_is_warned_of_only_where_the_engine_before_stays(tmp_path):
    """Whoever is killed has lost its lock before its last socket: that is a moment, and no fault."""
    with start_in(tmp_path / 'h', free_port(), '--log-level', 'debug') as holder:
        holder.wait_event('ready')
        first, second, third = (Client(tmp_path / 'h') for _ in range(3))
        for number, one in enumerate((first, second, third)):
            one.hello(number)
            assert one.receive()[0] == WELCOME
        first.send(TAKE_OVER, ROOM)
        assert first.receive()[0] == SOCKETS
        second.send(TAKE_OVER, ROOM)
        holder.wait_event('takeover_waits', level='debug', engine_id=1, active=0)
        first.socket.close()
        assert second.receive()[0] == SOCKETS
        third.send(TAKE_OVER, ROOM)
        holder.wait_event('takeover_waits', level='warning', engine_id=2, active=1)
        assert len(holder.events('takeover_waits', level='warning')) == 1
        for one in (second, third):
            one.socket.close()


def test_a_pidfd_of_another_process_is_refused(held):
    """The holder kills what hangs: nobody may make it kill another process."""
    with Client(held.folder) as client:
        other = os.pidfd_open(held.holder.pid)
        client.send(HELLO, struct.pack('=II', 4, 0), [other])
        os.close(other)
        assert client.is_dropped()
    held.holder.wait_event('engine_refused', engine_id=4)


@pytest.mark.skipif(os.geteuid() != 0, reason='becomes another user')
@pytest.mark.parametrize('group, member', [(45_678, True), (45_677, False)])
def test_supplementary_groups_count(held, tmp_path, group, member):
    folder = tmp_path / 'g'
    holder = start_in(folder, free_port(), '--group', '45678')
    holder.wait_event('ready')
    (folder / 'connections.sock').chmod(0o666)  # the kernel lets a stranger connect, too
    folder.chmod(0o775)
    probe = struct.pack('=IHHII', MAGIC, VERSION, PROBE, 7, 0)
    assert answers_nobody(folder / 'connections.sock', probe, others=(group,)) == member
    holder.end()


@pytest.mark.skipif(os.geteuid() != 0, reason='gives files away')
def test_an_engine_leaves_a_strangers_socket_alone(held):
    os.chown(held.folder / 'connections.sock', 12_345, -1)
    engine = held.start(0, '--holder', 'require')
    assert engine.wait_exit(30) == 1
    assert 'belongs to user 12345' in engine.events('error')[0]['message']


def test_a_thousand_connects_and_a_client_that_never_reads_do_no_harm(held):
    crowd = []
    try:
        for _ in range(1_000):
            try:
                crowd.append(Client(held.folder))
            except OSError:
                time.sleep(0.001)
        for one in crowd:
            one.socket.setblocking(False)
            try:
                for _ in range(300):
                    one.send(PROBE)  # asks, and reads no answer
            except OSError:
                pass
        with Client(held.folder) as client:
            client.send(PROBE)
            assert client.receive()[0] == REPORT
        wait_until(lambda: descriptors(held.holder) < 120, PATIENCE, 'the crowd is bounded')
    finally:
        for one in crowd:
            one.socket.close()
    wait_until(lambda: descriptors(held.holder) < 40, PATIENCE, 'the crowd is forgotten')
    assert check(held.folder, 'startup') == 0


@pytest.mark.parametrize('options, word', [
    ([], 'failover-dir'), (['--port', '0'], '--port'), (['--port', '80'], '--port'),
    (['--address', 'y'], '--address'), (['--journal-mib', '15'], '--journal-mib'),
    (['--nonsense', '1'], '--nonsense'), (['--run', '2'], '--run'), (['--', '--slots', '1'], '--run'),
    (['--group'], 'value'), (['--check', 'y'], '--check'),
    (['--run', '2', '--', '--engine-id', '1'], '--engine-id'),
    (['--run', '2', '--', '--system-port', '8079'], 'system port of engine 1')])
def test_wrong_usage(options, word):
    place = ['--failover-dir', 'x'] if options else []
    ended = run([str(HOLDER), *place, *options], stdout=PIPE, stderr=PIPE, timeout=PATIENCE, check=False)
    assert ended.returncode == 2 and word in ended.stderr.decode() and ended.stderr.count(b'\n') == 1


def test_an_engine_that_stands_by_and_stops_is_killed_while_nobody_serves(tmp_path):
    """It may have the lock: nobody else would come to serve."""
    folder = tmp_path / 'pair'
    script = ('import sys, time; from pathlib import Path; from holders import *\n'
              'with Client(Path(sys.argv[1])) as engine:\n'
              '    engine.hello(3)\n'
              '    engine.send(STANDBY, bytes(28))\n'
              '    print("there", flush=True)\n'
              '    for _ in range(int(sys.argv[2])): engine.send(PING, bytes(8)); time.sleep(0.2)\n'
              '    time.sleep(600)')
    with start_in(folder, free_port(), '--hang-timeout', '2') as holder:
        holder.wait_event('ready')
        for pings in ('1', '15'):
            begun = time.monotonic()
            engine = Popen([sys.executable, '-c', script, str(folder), pings], stdout=PIPE,
                           env={**os.environ, 'PYTHONPATH': ':'.join(sys.path)})
            try:
                assert engine.stdout.readline() == b'there\n'
                assert engine.wait(PATIENCE) == -signal.SIGKILL
                assert time.monotonic() - begun >= int(pings) * 0.2
            finally:
                engine.kill()
                engine.wait(PATIENCE)
        wait_until(lambda: len(holder.events('engine_hangs', engine_id=3)) == 2, PATIENCE, 'it says so')


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can make name spaces')
@pytest.mark.parametrize('role', ['active', 'standby'])
def test_an_engine_that_cannot_be_killed_is_told_of_once(tmp_path, role):
    """From another PID namespace no signal goes through: it is not said to be killed, nor said again."""
    folder, sees = tmp_path / 'pair', ('unshare', '--pid', '--fork', '--mount-proc', '--kill-child')
    with start_in(folder, free_port(), '--hang-timeout', '1', prefix=sees) as holder:
        holder.wait_event('ready')
        with Client(folder) as engine:
            engine.hello(3)
            engine.send(TAKE_OVER, ROOM) if role == 'active' else engine.send(STANDBY, bytes(28))
            told = holder.wait_event('engine_not_killed', engine_id=3)
            assert told['level'] == 'warning' and 'another PID namespace' in told['message']
            assert (told['errno'], told['hang_timeout_s']) == (errno.EINVAL, 1)
            time.sleep(4)  # in which it hangs some more times
            assert len(holder.events('engine_not_killed')) == 1 and not holder.events('engine_hangs')
