"""What attackers do, in processes of their own (crowd.Crowd). Each runs until it is told to stop and returns
what it got, as counts by status."""
import random
import socket
import struct
import time
from collections import Counter
from typing import Dict, List, Sequence

from client import Closed, Connection, request


def open_socket(port: int, source: str = '', receive_buffer: int = 0) -> socket.socket:
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(5.0)
    if source:
        s.bind((source, 0))
    s.connect(('127.0.0.1', port))
    return s


def drop(sockets: List[socket.socket]) -> None:
    """RST, so that ten thousand of them leave no port behind in TIME_WAIT."""
    for s in sockets:
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        except OSError:
            pass
        s.close()


def hammer(stop, port: int, raw: bytes) -> Dict[str, int]:
    """The same request over and over, on a kept connection as long as the worker keeps it."""
    counts: Counter = Counter()
    connection = None
    while not stop.is_set():
        try:
            if connection is None:
                connection = Connection(port, timeout=10.0)
            connection.send(raw)
            response = connection.read_response()
            counts[str(response.status)] += 1
            if response.headers.get('connection') == 'close':
                connection.close()
                connection = None
        except (Closed, ConnectionError, TimeoutError, OSError) as failure:
            counts[type(failure).__name__] += 1
            if connection is not None:
                connection.close()
                connection = None
            time.sleep(0.01)
    if connection is not None:
        connection.close()
    return dict(counts)


# A listener's queue is first come, first served: who opens all at once measures its length.
OPENED_AT_ONCE = 16
OPENED_EVERY = 0.010
DRIP_PARTS = 20  # of a period: clients have clocks of their own, and do not all send at one moment


def hold(stop, port: int, count: int, first: bytes, drip: bytes, every: float,
         sources: Sequence[str] = ('',)) -> Dict[str, int]:
    """`count` connections that send `first` and then, every so often, `drip`, from these addresses in turn.
    One that the worker closes comes again at once, as an attacker would."""
    counts: Counter = Counter()
    parts: List[List[socket.socket]] = [[] for _ in range(DRIP_PARTS)]
    next_drip, turn = time.monotonic() + every / DRIP_PARTS, 0
    while not stop.is_set():
        opened = 0
        while sum(map(len, parts)) < count and opened < OPENED_AT_ONCE and not stop.is_set():
            opened += 1
            try:
                s = open_socket(port, source=sources[counts['opened'] % len(sources)])
                if first:
                    s.sendall(first)
                s.setblocking(False)
                min(parts, key=len).append(s)
                counts['opened'] += 1
            except OSError as failure:
                counts[type(failure).__name__] += 1
                break
        if opened:
            time.sleep(OPENED_EVERY)
        if drip and time.monotonic() >= next_drip:
            next_drip = max(next_drip + every / DRIP_PARTS, time.monotonic())
            turn = (turn + 1) % DRIP_PARTS
            parts[turn] = [s for s in parts[turn] if _drip(s, drip, counts)]
        elif not opened:
            parts = [[s for s in part if _still_open(s, counts)] for part in parts]
            time.sleep(every / DRIP_PARTS)
    counts['held at the end'] = sum(map(len, parts))
    for part in parts:
        drop(part)
    return dict(counts)


def _still_open(s: socket.socket, counts: Counter) -> bool:
    try:
        data = s.recv(4096)
        if data:
            counts[data[9:12].decode('latin-1')] += 1
            return True
        counts['closed'] += 1
    except BlockingIOError:
        return True
    except OSError:
        counts['reset'] += 1
    s.close()
    return False


def _drip(s: socket.socket, drip: bytes, counts: Counter) -> bool:
    if not _still_open(s, counts):
        return False
    try:
        s.send(drip)
        return True
    except BlockingIOError:
        return True
    except OSError:
        counts['reset'] += 1
        s.close()
        return False


def upload(stop, port: int, count: int, length: int, head: bytes) -> Dict[str, int]:
    """`count` uploads of `length` bytes, each but for its last byte, all held."""
    counts: Counter = Counter()
    held: List[socket.socket] = []
    body = b' ' * (length - 1)
    for _ in range(count):
        if stop.is_set():
            break
        try:
            s = open_socket(port)
            s.sendall(head)
            s.sendall(body)
            held.append(s)
            counts['sent'] += 1
        except OSError as failure:
            counts[type(failure).__name__] += 1
    while not stop.is_set():
        time.sleep(0.05)
    drop(held)
    return dict(counts)


def storm(stop, port: int, raw: bytes) -> Dict[str, int]:
    """Connections that are reset as soon as they stand, some bytes in."""
    count = 0
    while not stop.is_set():
        try:
            s = open_socket(port)
            s.send(raw[:count % (len(raw) + 1)])
            drop([s])
            count += 1
        except OSError:
            time.sleep(0.01)
    return {'resets': count}


def silent(stop, port: int, raw: bytes, repeat: int, connections: int) -> Dict[str, int]:
    """Asks, many times on each connection, and reads nothing."""
    counts: Counter = Counter()
    held: List[socket.socket] = []
    while not stop.is_set():
        while len(held) < connections and not stop.is_set():
            try:
                s = open_socket(port, receive_buffer=2048)
                s.settimeout(0.05)
                held.append(s)
                for _ in range(repeat):
                    s.sendall(raw)
                    counts['asked'] += 1
            except TimeoutError:
                counts['stands'] += 1
            except OSError as failure:
                counts[type(failure).__name__] += 1
        time.sleep(0.05)
    drop(held)
    return dict(counts)


def dribble(stop, port: int, raw: bytes, size: int) -> Dict[str, int]:
    """One request after the other in pieces of `size` bytes, each a packet, as fast as it goes."""
    counts: Counter = Counter()
    while not stop.is_set():
        try:
            with Connection(port, timeout=10.0) as connection:
                for at in range(0, len(raw), size):
                    connection.send(raw[at:at + size])
                    if stop.is_set():
                        return dict(counts)
                counts[str(connection.read_response().status)] += 1
        except (Closed, ConnectionError, TimeoutError, OSError) as failure:
            counts[type(failure).__name__] += 1
            time.sleep(0.01)
    return dict(counts)


def sequence(stop, port: int, requests: List[bytes], seed: int) -> Dict[str, int]:
    """Requests of a list in an order by the seed, a connection each."""
    rng, counts = random.Random(seed), Counter()
    while not stop.is_set():
        try:
            with Connection(port, timeout=10.0) as connection:
                connection.send(rng.choice(requests))
                counts[str(connection.read_response().status)] += 1
        except (Closed, ConnectionError, TimeoutError, OSError) as failure:
            counts[type(failure).__name__] += 1
    return dict(counts)


def total(results: list) -> str:
    """One line of what all of a crowd got."""
    counts: Counter = Counter()
    for result in results:
        if isinstance(result, str):
            counts[result[:80]] += 1
        else:
            counts.update(result)
    return ', '.join(f'{value} {key}' for key, value in sorted(counts.items()))


def get(port: int, path: str) -> bytes:
    return request(port, 'GET', path)
