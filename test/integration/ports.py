"""Ports for what is told its port before it binds it."""
import itertools
import os
import socket

# Below those that the kernel gives out itself, so that no connection takes one meanwhile. Each process of
# pytest-xdist has some of its own and goes round them: tests do not get each other's.
_EACH = 1_500
_FIRST = 20_000 + int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')) % 8 * _EACH
_NUMBERS = itertools.count(int.from_bytes(os.urandom(2), 'little'))


def free_port() -> int:
    """A port that nobody has now."""
    for number in itertools.islice(_NUMBERS, _EACH):
        port = _FIRST + number % _EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(('127.0.0.1', port))
                return port
            except OSError:
                continue
    raise AssertionError('no free port')
