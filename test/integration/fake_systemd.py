"""Stands in for a service manager, whose two ends a worker knows: the socket that it notifies, with the
descriptors that it is given to keep, and sockets that it passes. No real systemd runs here."""
import array
import os
import socket
import sys
import threading
import time
from typing import Dict, List, Sequence

from worker_process import PATIENCE, wait_until

# What a service manager does between fork and exec: the sockets get the numbers from 3 on, and the variables
# say for which process. exec keeps the number of the process.
PASS = """
import os, sys
passed = [int(n) for n in sys.argv[1].split(',') if n]
high = [os.dup2(n, 100 + i) for i, n in enumerate(passed)]
for i, n in enumerate(high):
    os.dup2(n, 3 + i)
    os.close(n)
os.environ['LISTEN_FDS'] = sys.argv[2] or str(len(passed))
os.environ['LISTEN_PID'] = sys.argv[3] or str(os.getpid())
if sys.argv[4]:
    os.environ['LISTEN_FDNAMES'] = sys.argv[4]
os.execv(sys.argv[5], sys.argv[5:])
"""


def passing(sockets: Sequence[socket.socket], count: str = '', pid: str = '') -> List[str]:
    """The words before a command that is to get the sockets. LISTEN_FDS and LISTEN_PID may have other values
    than the true ones."""
    return passing_descriptors([each.fileno() for each in sockets], count=count, pid=pid)


def passing_descriptors(numbers: Sequence[int], names: Sequence[str] = (), count: str = '',
                        pid: str = '') -> List[str]:
    for each in numbers:
        os.set_inheritable(each, True)
    return [sys.executable, '-c', PASS, ','.join(map(str, numbers)), count, pid, ':'.join(names)]


def listening(address: str = '127.0.0.1', family: int = socket.AF_INET) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.bind((address, 0))
    sock.listen(128)
    return sock


class FakeSystemd:
    """The receiving end of sd_notify."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(0.1)
        self.messages = []
        self.kept: Dict[str, int] = {}  # descriptors by the names that they were given
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while not self.stop.is_set():
            try:
                message, beside, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4))
                self._keep(message.decode(), beside)
                self.messages.append((time.monotonic(), message.decode()))
            except socket.timeout:
                continue
            except OSError:
                return

    def _keep(self, message: str, beside):
        """As FileDescriptorStoreMax= has it, but that no connection is let go because its client has left."""
        lines = dict(line.split('=', 1) for line in message.split('\n') if line)
        numbers = [n for _, _, data in beside for n in array.array('i', data)]
        if lines.get('FDSTORE') == '1' and numbers:
            self.kept[lines['FDNAME']] = numbers[0]
        elif lines.get('FDSTOREREMOVE') == '1' and lines['FDNAME'] in self.kept:
            os.close(self.kept.pop(lines['FDNAME']))

    def read_all(self):
        """Returns when everything that was sent before has been read."""
        mark = f'MARK={len(self.messages)}.{time.monotonic()}'
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(mark.encode(), self.path)
        wait_until(lambda: mark in self.lines(), PATIENCE, 'the messages are read')

    def lines(self):
        return [line for _, message in self.messages for line in message.split('\n') if line]

    def close(self):
        self.stop.set()
        self.thread.join(2)
        self.socket.close()
        for one in self.kept.values():
            os.close(one)
