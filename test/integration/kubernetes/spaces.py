"""Processes in name spaces that container.py makes, as the kubelet and the tests handle them."""
import ctypes
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Optional

ONLY_ROOT = 'only root can make name spaces'
PROGRAM = Path(__file__).resolve().parent / 'container.py'
_LIBC = ctypes.CDLL(None, use_errno=True)


class Process:
    """One process of container.py, and the one in the name spaces, which is what is signalled."""

    def __init__(self, what: str, wanted: dict, log):
        told, tell = os.pipe()
        try:
            words = [sys.executable, '-B', str(PROGRAM), what, json.dumps({**wanted, 'tell': tell})]
            self._outer = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           pass_fds=[tell], start_new_session=True)
        finally:
            os.close(tell)
        with os.fdopen(told) as line:
            number = line.readline()
        self.pid = int(number) if number else 0  # none where it could not be started
        self._pidfd: Optional[int] = None
        try:
            self._pidfd = os.pidfd_open(self.pid) if number else None
        except ProcessLookupError:  # over already
            pass

    def send_signal(self, number: int) -> None:
        try:
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> Optional[int]:
        return self._outer.poll()

    def wait(self, timeout: Optional[float] = None) -> int:
        return self._outer.wait(timeout)

    def abandon(self) -> None:
        """Its end is that of what it started."""
        if self.poll() is None:
            self._outer.kill()
            self._outer.wait(30)
        self.close()

    def close(self) -> None:
        """Of one that has ended."""
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            os.close(pidfd)

    @contextmanager
    def network(self) -> Iterator[None]:
        """Sockets that this thread makes meanwhile are those of the name space. They stay so."""
        with open('/proc/thread-self/ns/net') as ours, open(f'/proc/{self.pid}/ns/net') as theirs:
            _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(ours.fileno())

    def inside(self, user: int, group: int, words: list) -> list:
        """The words of a command that runs in the container."""
        return ['nsenter', f'--target={self.pid}', '--mount', '--net', '--ipc', '--pid', '--root', '--wd',
                f'--setuid={user}', f'--setgid={group}', '--', *words]


def _enter(space: int) -> None:
    if _LIBC.setns(space, 0) != 0:
        raise OSError(ctypes.get_errno(), 'setns')
