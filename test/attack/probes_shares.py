"""Bodies that come just fast enough not to be late, on more connections than there may be: from one address,
from many, with one key. Honest requests beside them are served."""
import time
from typing import Dict, Sequence, Tuple

from arena import KEYS
from canary import under, watch_probe, watch_request
from client import metrics, request
from crowd import Crowd
from judge import Checks, ms, percentile, probe
from loads import hold, total
from worker_process import STRETCH

BYTES_A_SECOND = 4_608  # a body may come at 4 KiB a second
FLOODED_SECONDS = 2.0
LIMIT = 0.5  # of an honest request that computes nothing, p99
FEWER = ('--max-connections', '128')
ONE = ('127.0.0.2',)
MANY = tuple(f'127.0.1.{number}' for number in range(1, 17))
ALPHA, BETA = (f'X-Api-Key: {KEYS[name]}'.encode() for name in ('alpha', 'beta'))
Client = Tuple[str, Tuple[bytes, ...]]  # its address and the fields of its requests


def begun_upload(port: int, fields: Sequence[bytes]) -> bytes:
    head = request(port, 'POST', '/execute', b'', *fields)
    return head.replace(b'Content-Length: 0', b'Content-Length: 1000000') + b'{'


def flood(port: int, most: int, sources: Sequence[str], fields: Sequence[bytes], honest: Dict[str, Client],
          checks: Checks) -> None:
    """A tenth more such uploads than the `most` connections that there may be, and what honest clients and
    probes get once all have come that can."""
    each = int(most * 1.1) // 2
    with Crowd(hold, port, each, begun_upload(port, fields), b' ' * BYTES_A_SECOND, 1.0, sources,
               count=2) as crowd:
        deadline = time.monotonic() + 5.0 * STRETCH
        while metrics(port)['worker_connections'] < most * 0.85 and time.monotonic() < deadline:
            time.sleep(0.05)
        checks.expect((n := metrics(port)['worker_connections']) >= most * 0.85, f'only {n:.0f} connections')
        prober = Crowd(watch_probe, port, '/live', observer=True)
        clients = {}
        for name, (address, own) in honest.items():
            raw = request(port, 'POST', '/tokenize', {'content': 'honest ' * 500}, *own)
            clients[name] = Crowd(watch_request, port, raw, address, observer=True)
        time.sleep(FLOODED_SECONDS)
        for name, client in (*clients.items(), ('/live', prober)):
            judge(name, client.finish(20.0)[0], checks)
        checks.note(total(crowd.finish(20.0)))


def judge(name: str, seen, checks: Checks) -> None:
    if not checks.expect(isinstance(seen, dict), f'{name}: {seen}'):
        return
    failed, took = seen['failures'], seen['took']
    checks.expect(not failed, f'{name}: {len(failed)} failed, {sorted(set(failed))}, of {len(took)} answers')
    checks.expect(len(took) > 5, f'{name}: only {len(took)} answers')
    worst = percentile(took, 0.99)
    checks.in_time(worst, LIMIT * STRETCH, f'{name}, p99,')
    checks.note(f'{name}: {len(took)} answers, p99 {ms(worst)}')


@probe('sockets', '1,126 uploads of 4.5 KiB/s from one address, at the defaults')
def from_one_address(arena, checks) -> None:
    """Beside the canary, which has a place already."""
    def attack(found: Checks) -> None:
        flood(arena.port('main'), 1024, ONE, (), {'another address': ('127.0.0.1', ())}, found)
    under(arena, 'main', attack, checks)


@probe('sockets', '140 uploads of 4.5 KiB/s from 16 addresses, where 128 may be')
def from_many_addresses(arena, checks) -> None:
    with arena.start(*arena.options('tiny'), *FEWER) as worker:
        worker.wait_event('ready')
        flood(worker.port, 128, MANY, (), {'another address': ('127.0.0.1', ())}, checks)


@probe('tenants', '140 uploads of 4.5 KiB/s with one key from one address, where 128 may be')
def with_a_key(arena, checks) -> None:
    with arena.start(*arena.options('tenants'), *FEWER) as worker:
        worker.wait_event('ready')
        flood(worker.port, 128, ONE, (ALPHA,), {'another key, the same address': (ONE[0], (BETA,)),
                                                'the same key, another address': ('127.0.0.1', (ALPHA,))},
              checks)


@probe('tenants', '140 uploads of 4.5 KiB/s with one key from 16 addresses, where 128 may be')
def with_a_key_from_many(arena, checks) -> None:
    with arena.start(*arena.options('tenants'), *FEWER) as worker:
        worker.wait_event('ready')
        flood(worker.port, 128, MANY, (ALPHA,), {'another key, one of the addresses': (MANY[0], (BETA,)),
                                                 'another key and address': ('127.0.0.1', (BETA,))}, checks)
