"""Stands in for a service manager, whose two ends a worker knows: the socket that it notifies, and a
listening socket that it was passed. No real systemd runs here."""
import os
import socket
import sys
import threading
import time
from typing import List, Sequence

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
os.execv(sys.argv[4], sys.argv[4:])
"""


def passing(sockets: Sequence[socket.socket], count: str = '', pid: str = '') -> List[str]:
    """The words before a command that is to get the sockets. LISTEN_FDS and LISTEN_PID may have other values
    than the true ones."""
    for each in sockets:
        os.set_inheritable(each.fileno(), True)
    numbers = ','.join(str(each.fileno()) for each in sockets)
    return [sys.executable, '-c', PASS, numbers, count, pid]


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
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while not self.stop.is_set():
            try:
                self.messages.append((time.monotonic(), self.socket.recv(4096).decode()))
            except socket.timeout:
                continue
            except OSError:
                return

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
