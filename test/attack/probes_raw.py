"""Sockets: the list of bytes, each by itself, then all of them beside the canary, then drawn ones."""
import random
import time

import cases_raw
from canary import under
from client import Closed, Connection, execute_body, health, request, status_of
from crowd import NUMBER, Crowd, worker_cpu
from judge import probe
from loads import total
from worker_process import STRETCH

DRAWN = 400  # mutated requests in the least


def _one(name: str):
    data, expected = cases_raw.CASES[name]

    def run(arena, checks) -> None:
        port = arena.port('main')
        held, text = cases_raw.judge(data, expected, port)
        checks.expect(held, text + f' (wanted {expected if isinstance(expected, (int, str)) else "all"})')
        checks.expect(status_of(port, 'GET', '/live') == '200', '/live is gone')
        if held:
            checks.note(text)
    probe('sockets', name)(run)


for _name in cases_raw.CASES:
    _one(_name)


@probe('sockets', 'the whole list over and over beside the canary')
def whole_list(arena, checks) -> None:
    port = arena.port('main')

    def attack(found) -> None:
        with Crowd(cases_raw.all_of_them, port, NUMBER, count=2) as crowd:
            time.sleep(3.0)
            found.note(total(crowd.finish(15.0)))
    under(arena, 'main', attack, checks)


FIELDS = [b'Content-Length: 3\r\n', b'Transfer-Encoding: chunked\r\n', b'Host: a\r\n',
          b'Expect: 100-continue\r\n', b'Connection: upgrade\r\n']


def mutate(rng: random.Random, data: bytes) -> bytes:
    """One to four changes of the kind that parsers get wrong."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out)) if out else 0
        change = rng.randrange(5)
        if change == 0 and out:
            out[at] = rng.randrange(256)
        elif change == 1:
            out[at:at] = rng.choice([b'\r', b'\n', b'\r\n', b'\x00', b' ', b'\t', b':', b'\xff', b'0', b';'])
        elif change == 2 and out:
            del out[at:at + rng.randint(1, 8)]
        elif change == 3:
            piece = out[at:at + rng.randint(1, 40)]
            out[at:at] = piece * rng.randint(1, 4)
        else:
            out[at:at] = rng.choice(FIELDS)
    return bytes(out)


@probe('sockets', 'drawn: requests with a few changes')
def drawn(arena, checks) -> None:
    """No answer that is no HTTP, no silence, and always alive."""
    port = arena.port('main')
    honest = request(port, 'POST', '/cancel', {'job_id': 'x'})
    chunked = cases_raw.post(cases_raw.CHUNKED, body=b'e\r\n' + cases_raw.CANCEL + b'\r\n0\r\n\r\n')
    until = min(arena.deadline, time.monotonic() + 3.0)
    count = 0
    while count < DRAWN or time.monotonic() < until:
        if time.monotonic() > until + 20:
            break
        rng = random.Random(arena.seed * 1_000_003 + count)
        data = mutate(rng, rng.choice([honest, chunked]))
        with Connection(port, timeout=3.0) as connection:
            try:
                connection.send(data)
                connection.half_close()
                answer = connection.drain(3.0)
            except (ConnectionError, TimeoutError):
                answer = b''
        fine = not answer or answer.startswith(b'HTTP/1.1 ') or answer.startswith(b'HTTP/1.0 ')
        if not checks.expect(fine, f'draw {count}: {data!r} got {answer[:60]!r}'):
            break
        count += 1
    checks.expect(status_of(port, 'GET', '/live') == '200', '/live is gone')
    checks.note(f'{count} drawn')


@probe('sockets', 'Expect: 100-continue')
def expect_continue(arena, checks) -> None:
    with Connection(arena.port('main'), timeout=8.0) as connection:
        connection.send(cases_raw.post(cases_raw.LENGTH, b'Expect: 100-continue'))
        if checks.expect((got := connection.read_head().status) == 100, f'got {got}, not 100'):
            connection.send(cases_raw.CANCEL)
            checks.expect((got := connection.read_response().status) == 202, f'got {got}, not 202')


@probe('sockets', '100-continue of a route that is none')
def continue_to_nowhere(arena, checks) -> None:
    """The route is judged at the end of the head: nobody is asked for a body that nobody wants."""
    for path, wanted in (('/nowhere', 404), ('/health', 405)):
        with Connection(arena.port('main'), timeout=4.0) as connection:
            head = f'POST {path} HTTP/1.1'.encode()
            connection.send(cases_raw.post(cases_raw.LENGTH, b'Expect: 100-continue', line=head))
            got = connection.read_head().status
            checks.expect(got == wanted, f'{path}: {got}, not {wanted}')


@probe('sockets', 'half-close after the body, streamed')
def half_closed_stream(arena, checks) -> None:
    port = arena.port('main')
    with Connection(port, timeout=20.0) as connection:
        connection.send(request(port, 'POST', '/execute', execute_body(job_id='half', max_tokens=60)))
        connection.half_close()
        answer = connection.drain(20.0)
    checks.expect(answer.count(b'event: token') > 0 and b'event: end' in answer,
                  f'{answer.count(b"event: token")} tokens and no end')


@probe('sockets', 'half-close after the body, not streamed')
def half_closed_whole(arena, checks) -> None:
    port = arena.port('main')
    body = {'prompt': 'Once', 'max_tokens': 60, 'temperature': 0, 'ignore_eos': True}
    with Connection(port, timeout=20.0) as connection:
        connection.send(request(port, 'POST', '/v1/completions', body))
        connection.half_close()
        try:
            # Interim responses, by which the worker asks whether anybody is there, come before the answer.
            while (got := connection.read_response().status) == 100:
                pass
            checks.expect(got == 200, f'got {got}')
        except (Closed, ConnectionError) as failure:
            checks.expect(False, f'{type(failure).__name__} and no answer')


@probe('sockets', 'half-close while waiting in the queue')
def half_closed_waiting(arena, checks) -> None:
    port = arena.port('tiny')
    head = request(port, 'POST', '/execute', execute_body(job_id='first', max_tokens=900))
    with Connection(port, timeout=20.0) as first, Connection(port, timeout=20.0) as second:
        first.send(head)
        second.send(request(port, 'POST', '/execute', execute_body(job_id='second', max_tokens=5)))
        second.half_close()
        first.drain(0.05)
        answer = second.drain(20.0)
    checks.expect(b'event: end' in answer, f'no end: {answer[-80:]!r}')


@probe('sockets', 'half-close, then nothing for a long stream')
def half_closed_long(arena, checks) -> None:
    """A socket that is at its end is readable for ever: who waits for it must not spin."""
    port, pid = arena.port('main'), arena.get('main').pid
    with Connection(port, timeout=20.0) as connection:
        connection.send(request(port, 'POST', '/execute', execute_body(job_id='long', max_tokens=2000)))
        connection.half_close()
        connection.drain(0.3)
        before, begin = worker_cpu(pid), time.monotonic()
        text = connection.drain(1.0)
        share = (worker_cpu(pid) - before) / (time.monotonic() - begin)
    checks.expect(b'event: token' in text, 'the stream does not go on')
    checks.expect(share < 0.3 or not arena.timed, f'the io thread takes {share:.0%} of a core')
    checks.note(f'{share:.0%} of a core')


@probe('sockets', 'half-close, then RST in the middle of the stream')
def half_closed_and_gone(arena, checks) -> None:
    """A client that has said all may still leave, and then its job ends."""
    port = arena.port('main')
    connection = Connection(port, timeout=20.0)
    connection.send(request(port, 'POST', '/execute', execute_body(job_id='gone', max_tokens=7000)))
    connection.half_close()
    connection.drain(0.3)
    checks.expect(health(port)['running'] == 1, 'it does not run')
    connection.reset()
    begin = time.monotonic()
    while health(port)['running'] and time.monotonic() - begin < 10 * STRETCH:
        time.sleep(0.05)
    checks.in_time(time.monotonic() - begin, 2.0 * STRETCH, 'its end')
