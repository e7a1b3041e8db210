"""Sockets that are held: slow, silent, many. While they are, probes are answered and the canary goes on."""
import socket
import time

from canary import Watch, under, watch_probe
from client import Connection, chat_body, execute_body, health, metrics, request, status_of
from crowd import Crowd, worker_cpu
from judge import ms, percentile, probe
from loads import drop, hold, open_socket, silent, total
from worker_process import SANITIZED, STRETCH

HOLD_SECONDS = 1.2 if SANITIZED else 2.5
LIVE_LIMIT = 0.5  # where the canary does not say how busy the machine is


def held_load(name: str, count: int, make_first, drip: bytes, every: float, processes: int = 2) -> None:
    """`count` connections on the main worker, each sending what make_first(port) gives and then drips."""
    def run(arena, checks) -> None:
        port = arena.port('main')

        def attack(found) -> None:
            each = count // processes
            with Crowd(hold, port, each, make_first(port), drip, every, count=processes) as crowd:
                time.sleep(HOLD_SECONDS)
                found.note(total(crowd.finish(20.0)))
            time.sleep(0.3)
        under(arena, 'main', attack, checks)
    probe('sockets', name)(run)


def begun_body(port: int, length: int = 1_000_000) -> bytes:
    head = request(port, 'POST', '/execute', b'')
    return head.replace(b'Content-Length: 0', b'Content-Length: %d' % length) + b'{'


held_load('1,024 with one byte of a body each', 1024, begun_body, b'', 1.0)
held_load('1,024 whose bodies come a byte a second', 1024, begun_body, b' ', 1.0)
held_load('1,024 whose heads come a byte a second', 1024, lambda port: b'POST /execute HTTP/1.1\r\nX: ',
          b'a', 1.0)
held_load('1,024 that say nothing', 1024, lambda port: b'', b'', 1.0)
held_load('1,024 kept alive by a /live each second', 1024, lambda port: request(port, 'GET', '/live'),
          b'GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n', 1.0)
held_load('1,024 that begin a chunked body', 1024, lambda port: begun_body(port)[:-1].replace(
    b'Content-Length: 1000000', b'Transfer-Encoding: chunked') + b'fffff\r\n{', b' ', 1.0)
held_load('1,024 that wait after 100 Continue', 1024,
          lambda port: begun_body(port)[:-3] + b'Expect: 100-continue\r\n\r\n', b'', 1.0)


@probe('sockets', '1,024 with one byte of a body each, keys set')
def held_without_a_key(arena, checks) -> None:
    """Who has no key holds no connection for longer than it takes to say so."""
    port = arena.port('tenants')
    prober = Crowd(watch_probe, port, '/live', observer=True)
    with Crowd(hold, port, 512, begun_body(port), b'', 1.0, count=2) as crowd:
        time.sleep(4.0)
        text = total(crowd.finish(20.0))
    seen = prober.finish(20.0)[0]
    failed = seen['failures']
    checks.expect(not failed, f'{len(failed)} of {len(failed) + len(seen["took"])} probes of /live failed: '
                              f'{", ".join(sorted(set(failed)))}')
    worst = percentile(seen['took'], 0.99)
    checks.in_time(worst, LIVE_LIMIT * STRETCH, '/live p99')
    checks.note(f'{text}; /live p99 {ms(worst)}')


@probe('sockets', '10,000 idle connections at the default ulimit -n')
def ten_thousand(arena, checks) -> None:
    """More than a process may have descriptors by default, from eight addresses, so that ports do not end."""
    port = arena.port('main')
    worker = arena.get('main')

    def attack(found) -> None:
        with Crowd(idle_flood, port, 2500, count=4) as crowd:
            time.sleep(6.0)
            begin = worker_cpu(worker.pid)
            time.sleep(1.0)
            busy = worker_cpu(worker.pid) - begin
            found.note(f'{total(crowd.finish(30.0))}; {busy:.2f} s of CPU a second')
        time.sleep(0.5)
        found.expect(status_of(port, 'GET', '/health') == '200', 'no /health afterwards')
    under(arena, 'main', attack, checks)


def idle_flood(stop, port: int, count: int) -> dict:
    held, failures = [], 0
    for number in range(count):
        if stop.is_set():
            break
        try:
            held.append(open_socket(port, source=f'127.0.0.{2 + number % 8}'))
        except OSError:
            failures += 1
    while not stop.is_set():
        time.sleep(0.05)
    drop(held)
    return {'opened': len(held), 'failed': failures}


@probe('sockets', '12 clients that do not read their finished answers')
def silent_readers(arena, checks) -> None:
    """Their jobs are over: they hold no place in the queue that another could have."""
    with arena.start(*arena.options('tiny'), '--max-tokens-out', '1000') as worker:
        port = worker.port
        body = chat_body(stream=True, logprobs=True, top_logprobs=20, max_tokens=800)
        raw = request(port, 'POST', '/v1/chat/completions', body)
        with Crowd(silent, port, raw, 1, 12) as crowd:
            wait_computed(port)
            answers = []
            for number in range(20):
                answers.append(status_of(port, 'POST', '/execute', execute_body(job_id=f'other-{number}')))
                time.sleep(0.1)
            checks.note(total(crowd.finish(10.0)))
    refused = len([a for a in answers if a != '200'])
    checks.expect(not refused, f'{refused} of 20 others got {sorted(set(answers))}')


def wait_computed(port: int) -> None:
    """Until jobs were computed and none is any more."""
    deadline = time.monotonic() + 10 * STRETCH
    last = -1.0
    while time.monotonic() < deadline:
        time.sleep(0.4)
        steps = metrics(port)['worker_steps_total']
        if steps == last and steps > 0:
            return
        last = steps


@probe('sockets', 'a reader with a window of zero beside the canary')
def zero_window(arena, checks) -> None:
    port = arena.port('main')
    raw = request(port, 'POST', '/v1/chat/completions',
                  chat_body(stream=True, logprobs=True, top_logprobs=20, max_tokens=60))

    def attack(found) -> None:
        with Crowd(silent, port, raw, 1, 4) as crowd:
            time.sleep(4.0)
            found.note(total(crowd.finish(10.0)))
    watch = Watch(port, arena.canary_tokens)
    try:
        time.sleep(0.3)
        attack(checks)
    finally:
        sight = watch.finish()
    checks.expect(not sight.problems, '; '.join(sight.problems))
    checks.expect(not sight.probe_failures, f'{len(sight.probe_failures)} probes failed')
    alone = arena.alone('main')
    checks.expect(alone.text.startswith(sight.text[:len(alone.text)]), 'the canary got other bytes')


@probe('sockets', 'RST in the middle of a body and of a stream')
def resets(arena, checks) -> None:
    port = arena.port('main')
    whole = request(port, 'POST', '/execute', execute_body(job_id='reset', max_tokens=200))
    for cut in (1, 20, len(whole) // 2, len(whole) - 1, len(whole)):
        connection = Connection(port)
        connection.send(whole[:cut])
        if cut == len(whole):
            connection.read_head()
        connection.reset()
    deadline = time.monotonic() + 10
    while health(port)['running'] and time.monotonic() < deadline:
        time.sleep(0.02)
    checks.expect(health(port)['running'] == 0, 'the job of a client that is gone goes on')


@probe('sockets', 'urgent data before and within a request')
def urgent(arena, checks) -> None:
    port = arena.port('main')
    with Connection(port, timeout=8.0) as connection:
        connection.socket.send(b'!', socket.MSG_OOB)
        raw = request(port, 'GET', '/live')
        connection.send(raw[:10])
        connection.socket.send(b'!', socket.MSG_OOB)
        connection.send(raw[10:])
        checks.expect((got := connection.read_response().status) == 200, f'got {got}')


@probe('sockets', '200 connections with a big answer each that nobody reads')
def big_unread(arena, checks) -> None:
    """What unread answers take is bounded: 200 times what a socket holds, not what was asked for."""
    worker = arena.get('tiny')
    before = worker.memory()['VmRSS']
    raw = request(worker.port, 'POST', '/tokenize', {'content': 'a b c d ' * 4_000, 'with_pieces': True})
    with Crowd(silent, worker.port, raw, 1, 200) as crowd:
        peak, deadline = 0, time.monotonic() + 6
        while time.monotonic() < deadline:
            peak = max(peak, worker.memory()['VmRSS'])
            time.sleep(0.1)
        text = total(crowd.finish(10.0))
    more = (peak - before) >> 20
    checks.expect(more < 256 or not arena.timed, f'{more} MiB more at the peak')
    checks.note(f'{text}; {more} MiB more')


@probe('sockets', 'a stream that nobody reads, with --write-timeout-sec 2')
def write_timeout(arena, checks) -> None:
    if not checks.expect(arena.has_option('write-timeout-sec'), 'there is no --write-timeout-sec'):
        return
    with arena.start(*arena.options('tiny'), '--write-timeout-sec', '2') as worker:
        body = chat_body(stream=True, logprobs=True, top_logprobs=20, max_tokens=800)
        raw = request(worker.port, 'POST', '/v1/chat/completions', body)
        with Crowd(silent, worker.port, raw, 1, 1) as crowd:
            wait_computed(worker.port)
            begin = time.monotonic()
            while metrics(worker.port)['worker_connections'] > 1 and time.monotonic() - begin < 8 * STRETCH:
                time.sleep(0.05)
            crowd.finish(5.0)
        checks.in_time(time.monotonic() - begin, 4.0 * STRETCH, 'its end')


@probe('sockets', 'one address with more connections than --max-connections-per-address')
def one_address(arena, checks) -> None:
    option = 'max-connections-per-address'
    if not checks.expect(arena.has_option(option), f'there is no --{option}'):
        return
    with arena.start(*arena.options('tiny'), f'--{option}', '10') as worker:
        held = [open_socket(worker.port) for _ in range(30)]
        time.sleep(0.3)
        more = status_of(worker.port, 'POST', '/execute', execute_body(max_tokens=1))
        checks.expect(more in ('503', '429', 'closed'), f'one more of that address: {more}')
        checks.expect((got := status_of(worker.port, 'GET', '/live')) == '200', f'its /live: {got}')
        other = open_socket(worker.port, source='127.0.0.77')
        other.sendall(request(worker.port, 'GET', '/v1/models'))
        checks.expect(b' 200 ' in (text := other.recv(200))[:16], f'another address: {text[:20]!r}')
        drop([*held, other])
