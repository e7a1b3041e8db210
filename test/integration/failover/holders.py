"""A holder and its engines, as processes; and a client of the holder's socket that may break every rule."""
import array
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence, Tuple

import gpu_memory
from engines import Engine, Engines, ask
from http_client import Connection, Response
from worker_process import BACKEND, BUILD, PATIENCE, Worker

HOLDER = BUILD / 'worker-orcd-holder'
# Of the engines that the tests start. A GPU that nobody uses may have no name yet where drivers list it.
OWN_DEVICE = ('--device', 'host' if BACKEND == 'host' else gpu_memory.name())
HELLO, WELCOME, TAKE_OVER, SOCKETS, CLOSED, YIELD, PING, OFFER, PROBE, REPORT = range(1, 11)
WAITING, STANDBY, WHO, REST, SIGNAL, RELOADED = range(21, 27)
JOURNAL_DAMAGED = 30
HANG_UP, HAND_OVER = range(1, 3)  # of SIGNAL
CLAIM, GRANT, DENY, PUT, COMMIT, GET, PIECE, DONE, ASK, STATE = range(11, 21)
WRITE, READ, WRITE_OR_READ = range(1, 4)
NO_TIMEOUT = 0xFFFFFFFF
MAGIC, VERSION = 0x4843524F, 4  # of frames
ROOM = struct.pack('=I', 4_096)  # of TAKE_OVER


class Holder(Worker):
    def __init__(self, folder: Path, port: int, *options: str, binary: Path = HOLDER, **more):
        super().__init__('--failover-dir', str(folder), *options, backend=False, port=str(port),
                         binary=binary, **more)

    def events(self, name: Optional[str] = None, **fields) -> List[dict]:
        """Its engines write to the same place, and not all of it is JSON."""
        told = [json.loads(line) for line in list(self.lines) if line.startswith('{')]
        return [e for e in told if (name is None or e.get('event') == name)
                and all(e.get(k) == v for k, v in fields.items())]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


def check(folder: Path, what: str) -> int:
    return subprocess.run([str(HOLDER), '--failover-dir', str(folder), '--check', what],
                          stdout=subprocess.DEVNULL, timeout=PATIENCE, check=False).returncode


def said(folder: Path, what: str) -> List[str]:
    """What a check prints for people."""
    return subprocess.run([str(HOLDER), '--failover-dir', str(folder), '--check', what], text=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE, check=True).stdout.splitlines()


def descriptors(process: Worker) -> int:
    return len(os.listdir(f'/proc/{process.pid}/fd'))


NOBODY = 65_534
STRANGER = """
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
    one.settimeout(60)
    one.connect(sys.argv[1])
    try:
        one.send(bytes.fromhex(sys.argv[2]))
        sys.exit(0 if one.recv(1000) else 3)
    except OSError:
        sys.exit(3)
"""


def answers_nobody(place: Path, frame: bytes, group: int = NOBODY, others: Sequence[int] = ()) -> bool:
    """Whether the user nobody, in these groups, gets an answer at a socket. Only root can become another."""
    done = subprocess.run(['/usr/bin/python3', '-c', STRANGER, place.name, frame.hex()], cwd=place.parent,
                          user=NOBODY, group=group, extra_groups=others, timeout=2 * PATIENCE, check=False)
    assert done.returncode in (0, 3)
    return done.returncode == 0


class Held(Engines):
    """Engines with a holder."""

    def __init__(self, model: Path, folder: Path):
        # A socket's path is short, and the name of a GPU in it long.
        self.short = None if BACKEND == 'host' else tempfile.TemporaryDirectory(prefix='held')
        super().__init__(model, Path(self.short.name if self.short else folder) / 'h')
        self.holders: List[Holder] = []

    def start_holder(self, *options: str, ready: bool = True) -> Holder:
        holder = Holder(self.folder, self.port, *options)
        self.holders.append(holder)
        if ready:
            holder.wait_event('ready')
        return holder

    @property
    def holder(self) -> Holder:
        return self.holders[-1]

    def __exit__(self, *problem: object) -> None:
        try:
            super().__exit__(*problem)
        finally:
            for holder in self.holders:
                holder.end()
            if self.short:
                self.short.cleanup()

    def follow(self, gone: Engine) -> Engine:
        """Starts an engine that ended again."""
        return self.start(gone.number, state='STANDBY')


def get(connection: Connection, path: str = '/health') -> Response:
    connection.request('GET', path)
    return connection.read_response()


def settle(port: int) -> None:
    """Until the engine knows that its answers before this one were written: it does one thing after the
    other, and a client has an answer a moment before that."""
    health = ask(port, '/health')
    assert health.status == 200, health.body


class Client:
    """One end of a socket of the holder's."""

    def __init__(self, folder: Path, name: str = 'connections.sock'):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(folder / name))

    def __enter__(self) -> 'Client':
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, kind: int, body: bytes = b'', descriptors: Sequence[int] = (), version: int = VERSION,
             length: Optional[int] = None) -> None:
        head = struct.pack('=IHHII', MAGIC, version, kind, 7, len(body) if length is None else length)
        self.send_raw(head + body, descriptors)

    def send_raw(self, packet: bytes, descriptors: Sequence[int] = ()) -> None:
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', descriptors))]
        self.socket.sendmsg([packet], beside if descriptors else [])

    def receive(self) -> Tuple[int, bytes, List[int]]:
        """Type, body and descriptors; type 0 when the holder has closed."""
        packet, beside, _, _ = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(4 * 64))
        descriptors: List[int] = []
        for _, _, data in beside:
            descriptors += array.array('i', data[:len(data) // 4 * 4]).tolist()
        if not packet:
            return 0, b'', descriptors
        return struct.unpack('=IHHII', packet[:16])[2], packet[16:], descriptors

    def hello(self, engine: int, system_port: int = 0) -> None:
        process = os.pidfd_open(os.getpid())
        self.send(HELLO, struct.pack('=II', engine, system_port), [process])
        os.close(process)

    def is_dropped(self) -> bool:
        """Reads to the holder's end of it."""
        try:
            while True:
                kind, _, descriptors = self.receive()
                for one in descriptors:
                    os.close(one)
                if kind == 0:
                    return True
        except ConnectionResetError:
            return True
        except socket.timeout:
            return False


def memory(content: bytes) -> int:
    made = os.memfd_create('weights')
    os.write(made, content)
    return made


class Grant(NamedTuple):
    mode: int
    epoch: int
    layout: bytes
    content: bytes
    metadata: bytes


class State(NamedTuple):
    epoch: int
    bytes: int
    pieces: int
    readers: int
    waiting: int
    has_writer: int
    committed: int


class WeightsClient(Client):
    """One end of a device's socket."""

    def __init__(self, folder: Path, device: str = 'host'):
        super().__init__(folder, f'gms_{device}.sock')

    def ask_claim(self, mode: int, timeout_ms: int = NO_TIMEOUT, engine: int = 0, epoch: int = 0,
                  process: Optional[int] = None) -> None:
        beside = os.pidfd_open(os.getpid()) if process is None else process
        self.send(CLAIM, struct.pack('=IIIQ', engine, mode, timeout_ms, epoch), [beside])
        if process is None:
            os.close(beside)

    def granted(self) -> Optional[Grant]:
        """Waits for the answer to a claim or a commit; None where it is denied."""
        kind, body, _ = self.receive()
        if kind == DENY:
            return None
        assert kind == GRANT
        mode, epoch, layout, content, length = struct.unpack('=IQ32s32sI', body[:80])
        assert len(body) == 80 + length
        return Grant(mode, epoch, layout, content, body[80:])

    def claim(self, *args, **more) -> Optional[Grant]:
        self.ask_claim(*args, **more)
        return self.granted()

    def ask_put(self, name: bytes, size: int, memory_file: int) -> None:
        self.send(PUT, struct.pack('=QI', size, len(name)) + name, [memory_file])

    def put(self, name: bytes, content: bytes) -> None:
        made = memory(content)
        self.ask_put(name, len(content), made)
        os.close(made)
        assert self.receive()[0] == DONE

    def ask_commit(self, layout: bytes, content: bytes = bytes(32), metadata: bytes = b'') -> None:
        self.send(COMMIT, layout + content + struct.pack('=I', len(metadata)) + metadata)

    def commit(self, layout: bytes, **more) -> Grant:
        self.ask_commit(layout, **more)
        granted = self.granted()
        assert granted is not None
        return granted

    def get(self, name: bytes) -> Optional[bytes]:
        self.send(GET, struct.pack('=I', len(name)) + name)
        kind, body, descriptors = self.receive()
        found, size = struct.unpack('=IQ', body)
        assert kind == PIECE and len(descriptors) == found
        if not found:
            return None
        content = os.pread(descriptors[0], size, 0)
        os.close(descriptors[0])
        return content

    def state(self) -> State:
        self.send(ASK)
        kind, body, _ = self.receive()
        assert kind == STATE
        return State(*struct.unpack('=QQIIIII', body[:36]))
