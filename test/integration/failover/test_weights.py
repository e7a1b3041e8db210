"""The holder's sockets of devices: who may write the weights there and who may read them, and what strangers,
broken engines and dead ones do to it."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List

import pytest

from holders import (ASK, CLAIM, COMMIT, DONE, GET, HOLDER, MAGIC, NOBODY, PING, PROBE, PUT, READ, VERSION,
                     WRITE, WRITE_OR_READ, Holder, State, WeightsClient, answers_nobody, check, descriptors,
                     memory)
from ports import free_port
from worker_process import PATIENCE, STRETCH, wait_until

GPU = 'GPU-01234567-89ab-cdef-0123-456789abcdef'
LAYOUT = bytes(range(1, 33))


@pytest.fixture(scope='module')
def holder(tmp_path_factory):
    """One for all tests: each uses up what it makes, and leaves the device free."""
    folder = tmp_path_factory.mktemp('w') / 'h'
    with Holder(folder, free_port(), '--device', 'host', '--device', GPU + '=3') as running:
        running.wait_event('ready')
        running.folder = folder
        yield running


@pytest.fixture
def folder(holder) -> Path:
    wait_until(lambda: state_of(holder.folder)[3:6] == (0, 0, 0), PATIENCE, 'nobody has the weights')
    return holder.folder


def resident_kib(process) -> int:
    status = (line.split() for line in open(f'/proc/{process.pid}/status'))
    return next(int(words[1]) for words in status if words[0] == 'VmRSS:')


def state_of(folder: Path) -> State:
    with WeightsClient(folder) as one:
        return one.state()


# --- who gets what ---------------------------------------------------------------------------------

def test_weights_outlive_the_engine_that_loaded_them(folder):
    with WeightsClient(folder) as first:
        granted = first.claim(WRITE)
        assert granted.mode == WRITE and granted.layout == bytes(32)
        first.put(b'weights', b'tensors')
        first.put(b'pool', b'cache' * 1_000)
        assert first.commit(LAYOUT, metadata=b'some model').mode == READ
        epoch = granted.epoch
    with WeightsClient(folder) as second:
        assert second.claim(READ, engine=1) == (READ, epoch, LAYOUT, bytes(32), b'some model')
        assert second.get(b'weights') == b'tensors' and second.get(b'pool') == b'cache' * 1_000
        assert second.get(b'else') is None
        assert second.state()[:7] == (epoch, 5_007, 2, 1, 0, 0, 1)
        second.send(PING, struct.pack('=Q', 1))
        assert second.receive()[0] == DONE


def test_each_device_has_weights_of_its_own_and_an_index(folder):
    assert os.readlink(folder / 'gms_0.sock') == 'gms_host.sock'
    assert os.readlink(folder / 'gms_3.sock') == f'gms_{GPU}.sock'
    with WeightsClient(folder, '0') as one, WeightsClient(folder, '3') as other:
        assert one.claim(WRITE).mode == WRITE and other.claim(WRITE).mode == WRITE
        with WeightsClient(folder, GPU) as third:
            assert third.claim(READ, timeout_ms=0) is None
            other.put(b'weights', b'x')
            other.commit(LAYOUT)
            assert third.claim(READ).mode == READ


def test_a_writer_that_is_killed_leaves_nothing_and_the_next_one_writes(holder, folder):
    before = descriptors(holder)
    script = ('import sys, time; from pathlib import Path; from holders import *\n'
              'one = WeightsClient(Path(sys.argv[1]))\n'
              'assert one.claim(WRITE).mode == WRITE; one.put(b"weights", b"half")\n'
              'print("there", flush=True); time.sleep(600)')
    engine = subprocess.Popen([sys.executable, '-c', script, str(folder)], stdout=subprocess.PIPE,
                              env={**os.environ, 'PYTHONPATH': ':'.join(sys.path)})
    try:
        assert engine.stdout.readline() == b'there\n'
        with WeightsClient(folder) as standby, WeightsClient(folder) as again:
            standby.ask_claim(READ, engine=1)
            again.ask_claim(WRITE_OR_READ)
            wait_until(lambda: state_of(folder).waiting == 2, PATIENCE, 'both wait')
            engine.kill()
            granted = again.granted()
            assert granted.mode == WRITE and again.get(b'weights') is None
            again.put(b'weights', b'whole')
            again.commit(LAYOUT)
            assert standby.granted()[:3] == (READ, granted.epoch, LAYOUT)
            assert standby.get(b'weights') == b'whole'
    finally:
        engine.kill()
        engine.wait()
        engine.stdout.close()
    holder.wait_event('weights_lost', device='host')
    # What was committed by another test may have been there before.
    wait_until(lambda: descriptors(holder) <= before + 1, PATIENCE, 'what was half done is closed')


def test_a_lock_ends_with_its_process_even_if_another_one_has_its_socket(folder):
    child = subprocess.Popen(['sleep', '600'])
    process = os.pidfd_open(child.pid)
    with WeightsClient(folder) as duplicate, WeightsClient(folder) as other:
        assert duplicate.claim(WRITE, process=process).mode == WRITE
        other.ask_claim(WRITE_OR_READ)
        child.kill()
        child.wait()
        assert other.granted().mode == WRITE
        assert duplicate.is_dropped()
    os.close(process)


def test_who_waits_to_write_goes_before_new_readers(folder):
    with WeightsClient(folder) as first, WeightsClient(folder) as writer, WeightsClient(folder) as late:
        first.claim(WRITE)
        first.put(b'weights', b'old')
        first.commit(LAYOUT)
        writer.ask_claim(WRITE)
        wait_until(lambda: first.state().waiting == 1, PATIENCE, 'it waits')
        assert late.claim(READ, timeout_ms=20) is None
        late.ask_claim(READ)
        first.socket.close()
        granted = writer.granted()
        assert granted.mode == WRITE
        writer.put(b'weights', b'new')
        writer.commit(LAYOUT[::-1])
        assert late.granted()[:3] == (READ, granted.epoch, LAYOUT[::-1])
        assert late.get(b'weights') == b'new'


def test_timeouts_are_kept(folder):
    with WeightsClient(folder) as writer, WeightsClient(folder) as waits, WeightsClient(folder) as more:
        writer.claim(WRITE)
        begin = time.monotonic()
        waits.ask_claim(READ, timeout_ms=300)
        more.ask_claim(WRITE_OR_READ, timeout_ms=100)
        assert more.granted() is None and time.monotonic() - begin >= 0.1
        assert waits.granted() is None and time.monotonic() - begin >= 0.3
        assert waits.claim(READ, timeout_ms=0) is None
        assert writer.state().waiting == 0


# --- who breaks a rule -----------------------------------------------------------------------------

HEAD = struct.Struct('=IHHII')
NAME = struct.pack('=I', 7) + b'weights'


def packet(kind: int, body: bytes) -> bytes:
    return HEAD.pack(MAGIC, VERSION, kind, 3, len(body)) + body


def no_claim(bad: WeightsClient, what: str, made: int) -> None:
    """What breaks a rule as the first thing that is said."""
    claim = struct.pack('=IIIQ', 0, READ, 0, 0)
    if what == 'text':
        bad.send_raw(b'GET / HTTP/1.1\r\n\r\n')
    elif what == 'empty':
        bad.send_raw(b'')
    elif what == 'head':
        bad.send_raw(packet(CLAIM, claim)[:15])
    elif what == 'cut':
        bad.send_raw(packet(CLAIM, claim)[:-1], [made])
    elif what == 'longer':
        bad.send(CLAIM, claim + b'\0', [made])
    elif what == 'length':
        bad.send(ASK, length=1)
    elif what == 'version':
        bad.send(ASK, version=VERSION - 1)
    elif what == 'type':
        bad.send(21)
    elif what == 'of the other socket':
        bad.send(PROBE)
    elif what == 'hello of the other socket':
        bad.hello(0)
    elif what == 'an answer':
        bad.send(DONE)
    elif what == 'oversized':
        bad.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        bad.send_raw(packet(ASK, bytes(150_000)))
    elif what == 'no process':
        bad.send(CLAIM, claim)
    elif what == 'two processes':
        bad.send(CLAIM, claim, [made, made])
    elif what == 'a hundred descriptors':
        bad.send(CLAIM, claim, [made] * 100)
    elif what == 'a process that is none':
        bad.send(CLAIM, claim, [made])
    elif what == 'mode':
        bad.ask_claim(4)
    elif what == 'engine':
        bad.ask_claim(READ, engine=64)
    elif what == 'put':
        bad.ask_put(b'weights', 1, made)
    elif what == 'commit':
        bad.ask_commit(LAYOUT)
    else:
        assert what == 'get'
        bad.send(GET, NAME)


@pytest.mark.parametrize('what', [
    'text', 'empty', 'head', 'cut', 'longer', 'length', 'version', 'type', 'of the other socket',
    'hello of the other socket', 'an answer', 'oversized', 'no process', 'two processes',
    'a hundred descriptors', 'a process that is none', 'mode', 'engine', 'put', 'commit', 'get'])
def test_who_breaks_a_rule_at_once_is_dropped_alone(holder, folder, what):
    made = memory(b'content')
    with WeightsClient(folder) as good, WeightsClient(folder) as bad:
        assert good.claim(WRITE).mode == WRITE
        no_claim(bad, what, made)
        assert bad.is_dropped()
        good.put(b'weights', b'still there')
        assert good.get(b'weights') == b'still there'
    os.close(made)
    assert holder.alive() and check(folder, 'startup') == 0


def as_writer(bad: WeightsClient, what: str, made: int) -> None:
    """What breaks a rule for one that may write."""
    if what == 'claims again':
        bad.ask_claim(READ)
    elif what == 'no descriptor':
        bad.send(PUT, struct.pack('=Q', 7) + NAME)
    elif what == 'two descriptors':
        bad.send(PUT, struct.pack('=Q', 7) + NAME, [made, made])
    elif what == 'no bytes':
        bad.ask_put(b'weights', 0, made)
    elif what == 'more bytes than there are':
        bad.ask_put(b'weights', 8, made)
    elif what == 'a socket':
        bad.ask_put(b'weights', 7, bad.socket.fileno())
    elif what == 'a folder':
        place = os.open('/', os.O_RDONLY)
        bad.ask_put(b'weights', 7, place)
        os.close(place)
    elif what == 'a path for a name':
        bad.ask_put(b'../weights', 7, made)
    elif what == 'a long name':
        bad.ask_put(b'w' * 65, 7, made)
    elif what == 'a name twice':
        bad.put(b'weights', b'x')
        bad.ask_put(b'weights', 7, made)
    elif what == 'too many':
        for number in range(64):
            bad.put(b'w%d' % number, b'x')
        bad.ask_put(b'weights', 7, made)
    elif what == 'a commit of nothing':
        bad.ask_commit(LAYOUT)
    elif what == 'twice a commit':
        bad.put(b'weights', b'x')
        bad.commit(LAYOUT)
        bad.ask_commit(LAYOUT)
    elif what == 'put after commit':
        bad.put(b'weights', b'x')
        bad.commit(LAYOUT)
        bad.ask_put(b'more', 7, made)
    else:
        bad.put(b'weights', b'x')
        if what == 'a short hash':
            bad.ask_commit(LAYOUT[:31])
        elif what == 'a long hash':
            bad.ask_commit(LAYOUT + b'x')
        elif what == 'a hash of zeros':
            bad.ask_commit(bytes(32))
        elif what == 'long metadata':
            bad.ask_commit(LAYOUT, metadata=bytes(16_385))
        else:
            assert what == 'a commit with a descriptor'
            bad.send(COMMIT, LAYOUT + bytes(36), [made])


@pytest.mark.parametrize('what', [
    'claims again', 'no descriptor', 'two descriptors', 'no bytes', 'more bytes than there are', 'a socket',
    'a folder', 'a path for a name', 'a long name', 'a name twice', 'too many', 'a commit of nothing',
    'twice a commit', 'put after commit', 'a short hash', 'a long hash', 'a hash of zeros', 'long metadata',
    'a commit with a descriptor'])
def test_a_writer_that_breaks_a_rule_frees_the_device(holder, folder, what):
    made = memory(b'content')
    with WeightsClient(folder) as bad, WeightsClient(folder) as next_one:
        assert bad.claim(WRITE).mode == WRITE
        next_one.ask_claim(WRITE)
        as_writer(bad, what, made)
        assert bad.is_dropped()
        assert next_one.granted().mode == WRITE
        assert next_one.state().pieces == 0
    os.close(made)
    assert holder.alive()


def test_who_never_reads_is_dropped(folder):
    with WeightsClient(folder) as deaf, WeightsClient(folder) as next_one:
        deaf.claim(WRITE)
        next_one.ask_claim(WRITE)
        with pytest.raises(OSError):
            for _ in range(20_000):
                deaf.send(ASK)
        assert next_one.granted().mode == WRITE


def test_who_was_denied_keeps_nobody_out(folder):
    crowd = []
    with WeightsClient(folder) as writer:
        writer.claim(WRITE)
        for _ in range(80):
            crowd.append(WeightsClient(folder))
            assert crowd[-1].claim(READ, timeout_ms=0) is None
        assert writer.state().has_writer
    for one in crowd:
        one.socket.close()


def test_crowds_and_who_never_reads_do_no_harm(holder, folder):
    before = descriptors(holder)
    crowd = []
    try:
        with WeightsClient(folder) as writer:
            writer.claim(WRITE)
            writer.put(b'weights', b'x')
            writer.commit(LAYOUT, metadata=bytes(16_384))
            for _ in range(1_000):
                try:
                    crowd.append(WeightsClient(folder))
                except OSError:
                    time.sleep(0.001)
            for number, one in enumerate(crowd):
                one.socket.setblocking(False)
                try:
                    if number % 3:
                        one.ask_claim(READ, engine=number % 64)
                    for _ in range(600):  # they ask, and read no answer
                        one.send(ASK if number % 3 == 0 else GET, b'' if number % 3 == 0 else NAME)
                except OSError:
                    pass
            assert writer.get(b'weights') == b'x'
            assert resident_kib(holder) < 16 * 1024 or STRETCH > 1
        wait_until(lambda: descriptors(holder) < before + 300, PATIENCE, 'the crowd is bounded')
    finally:
        for one in crowd:
            one.socket.close()
    wait_until(lambda: descriptors(holder) <= before + 2, PATIENCE, 'the crowd is forgotten')
    with WeightsClient(folder) as later:
        assert later.claim(READ).metadata == bytes(16_384)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another user')
def test_members_of_the_group_may_and_others_with_access_may_not():
    group, nobody = 54_321, NOBODY
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / 'h'
        with start(folder, '--device', 'host', '--group', str(group)) as holder:
            holder.wait_event('ready')
            assert oct((folder / 'gms_host.sock').stat().st_mode & 0o777) == '0o660'

            def connects(own_group: int, *others: int) -> bool:
                return answers_nobody(folder / 'gms_host.sock', packet(ASK, b''), own_group, others)

            assert connects(group) and connects(nobody, group)
            os.chmod(folder, 0o755)
            os.chmod(folder / 'gms_host.sock', 0o666)
            assert not connects(nobody) and not connects(nobody, nobody)
            holder.wait_event('stranger_refused')


# --- the sockets' places ---------------------------------------------------------------------------

def start(folder: Path, *options: str) -> Holder:
    return Holder(folder, free_port(), *options)


def test_sockets_go_with_the_holder_and_those_of_a_dead_one_are_replaced(tmp_path):
    folder = tmp_path / 'h'
    with start(folder, '--device', 'host=5') as first:
        first.wait_event('ready')
        assert oct((folder / 'gms_host.sock').stat().st_mode & 0o777) == '0o600'
        first.kill()
    assert sorted(one.name for one in folder.glob('gms_*')) == ['gms_5.sock', 'gms_host.sock']
    with start(folder, '--device', 'host=5') as second:
        second.wait_event('ready')
        assert state_of(folder) == (0, 0, 0, 0, 0, 0, 0)
        second.terminate()
        assert second.wait_exit(PATIENCE) == 0
    assert not list(folder.glob('gms_*'))


class Watch:
    """What happens to the files of a folder, in order (inotify)."""
    CLOSED_WRITTEN, DELETED = 0x8, 0x200

    def __init__(self, folder: Path):
        libc = ctypes.CDLL(None)
        self.descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        assert self.descriptor >= 0
        what = self.CLOSED_WRITTEN | self.DELETED
        assert libc.inotify_add_watch(self.descriptor, os.fsencode(folder), what) >= 0

    def __enter__(self) -> 'Watch':
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def names(self) -> List[str]:
        raw, out = os.read(self.descriptor, 1 << 16), []
        while raw:
            length = struct.unpack('iIII', raw[:16])[3]
            out.append(os.fsdecode(raw[16:16 + length].rstrip(b'\0')))
            raw = raw[16 + length:]
        return out


def test_a_holder_keeps_its_lock_until_all_of_its_sockets_are_gone():
    """The next one may have the folder as soon as the lock is free."""
    with tempfile.TemporaryDirectory() as place, \
            start(Path(place), '--device', 'host', '--device', GPU) as holder:
        folder = Path(place)
        holder.wait_event('ready')
        with Watch(folder) as watch:
            holder.terminate()
            assert holder.wait_exit(PATIENCE) == 0
            *sockets, last = watch.names()
    assert sorted(sockets) == sorted([
        'connections.sock', 'gms_0.sock', 'gms_1.sock', 'gms_host.sock', f'gms_{GPU}.sock'])
    assert last == 'holder.lock'


@pytest.mark.parametrize('name', ['gms_host.sock', 'gms_0.sock'])
def test_a_file_in_the_way_is_one_line_and_2(tmp_path, name):
    tmp_path.chmod(0o700)
    (tmp_path / name).write_text('mine')
    with start(tmp_path, '--device', 'host') as holder:
        assert holder.wait_exit(PATIENCE) == 2
        (error,) = holder.events('error')
        assert str(tmp_path / name) in error['message'] and 'is a file' in error['message']
    assert (tmp_path / name).read_text() == 'mine'
    assert {one.name for one in tmp_path.iterdir()} <= {name, 'holder.lock'}


@pytest.mark.skipif(os.path.isdir('/proc/driver/nvidia/gpus'), reason='this machine has GPUs')
def test_without_a_gpu_the_device_is_the_host(tmp_path):
    with start(tmp_path / 'h') as holder:
        holder.wait_event('ready')
        assert (tmp_path / 'h' / 'gms_0.sock').resolve().name == 'gms_host.sock'


@pytest.mark.parametrize('value', ['1', 'host=x', 'GPU-1', 'host=256'])
def test_wrong_devices(value):
    ended = subprocess.run([str(HOLDER), '--failover-dir', 'x', '--device', value], stderr=subprocess.PIPE,
                           timeout=PATIENCE, check=False)
    assert ended.returncode == 2 and b'--device must be host, GPU-UUID' in ended.stderr
