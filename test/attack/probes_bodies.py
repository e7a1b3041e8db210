"""Bodies: the list of hostile ones, each in time and with the right status; then drawn ones."""
import random
import time

import cases_bodies
from client import Connection, ask, chat_body, execute_body, health, request, status_of
from judge import ms, probe
from worker_process import STRETCH

WITHIN = 3.0
DRAWN = 300


def _one(name: str):
    path, body, wanted = cases_bodies.CASES[name]

    def run(arena, checks) -> None:
        port = arena.port('tiny')
        begin = time.monotonic()
        status = status_of(port, 'POST', path, body, timeout=WITHIN * STRETCH + 5)
        took = time.monotonic() - begin
        fine = status in cases_bodies.STATUSES.get(wanted, {str(wanted)})
        checks.expect(fine, f'{status} instead of {wanted}')
        checks.in_time(took, WITHIN * STRETCH)
        checks.expect(status_of(port, 'GET', '/live') == '200', '/live is gone')
        checks.note(f'{status} in {ms(took)}')
    probe('bodies', name)(run)


for _name in cases_bodies.CASES:
    _one(_name)


@probe('bodies', 'drawn: honest ones with a few odd fields')
def drawn(arena, checks) -> None:
    """Each is answered, by 200 or by an error that is one; none by 500, none by silence. A time limit that
    was drawn may be too short for a slow machine."""
    port = arena.port('tiny')
    until = min(arena.deadline, time.monotonic() + 3.0)
    count = 0
    while count < DRAWN or time.monotonic() < until:
        if time.monotonic() > until + 30:
            break
        path, body = cases_bodies.drawn_request(random.Random(arena.seed * 1_000_003 + count))
        status = status_of(port, 'POST', path, body, timeout=10 * STRETCH)
        fine = status in ('200', '400', '404', '409', '429') or status == '504' and b'"timeout_ms"' in body
        if not checks.expect(fine, f'draw {count}: {status} for {path} {body[:300]!r}'):
            break
        count += 1
    checks.note(f'{count} drawn')


HEADERS = {
    'X-Deadline of words': (b'X-Deadline: soon', {'400'}),
    'X-Deadline of 2^63': (b'X-Deadline: 9223372036854775808', {'400', '200'}),
    'X-Deadline of year 999999': (b'X-Deadline: 999999-01-01T00:00:00Z', {'400'}),
    'X-Deadline of February 30': (b'X-Deadline: 2030-02-30T00:00:00Z', {'400', '200'}),
    'X-Request-Id of 9,000 bytes': (b'X-Request-Id: ' + b'a' * 9_000, {'200'}),
    'X-Request-Id with escapes of a terminal': (b'X-Request-Id: \x1b[31mred', {'200', '400'}),
    'KRONK_IMC_ID of 9,000 bytes': (b'KRONK_IMC_ID: ' + b'a' * 9_000, {'400'}),
    'KRONK_IMC_ID that is no UTF-8': (b'KRONK_IMC_ID: \xff\xfe', {'400'}),
    'Authorization of 9,000 bytes': (b'Authorization: Bearer ' + b'a' * 9_000, {'200'}),
    'Content-Type of 9,000 parameters': (b'Accept: ' + b'a/b;q=1,' * 1_100, {'200'}),
}


def _header(name: str):
    field, wanted = HEADERS[name]

    def run(arena, checks) -> None:
        port = arena.port('tiny')
        body = {'prompt': 'a', 'max_tokens': 2}
        status = status_of(port, 'POST', '/v1/completions', body, field, timeout=5 * STRETCH)
        checks.expect(status in wanted, f'{status} instead of {"/".join(sorted(wanted))}')
        checks.note(status)
    probe('bodies', f'header: {name}')(run)


for _name in HEADERS:
    _header(_name)


@probe('bodies', '3,000 sessions and salts that are never seen again')
def many_sessions(arena, checks) -> None:
    """What is kept of each is bounded in number; the end of the run looks at memory."""
    port = arena.port('tiny')
    worker = arena.get('tiny')
    count = 3_000 if arena.timed else 300
    before = worker.memory()['VmRSS']
    with Connection(port, timeout=20.0) as connection:
        for number in range(count):
            body = execute_body(job_id=f's{number}', imc_id=f'{number}' * 30, cache_salt=f'{number}' * 40,
                                max_tokens=1)
            connection.send(request(port, 'POST', '/execute', body))
            if not checks.expect((got := connection.read_response().status) == 200, f'{number}: {got}'):
                return
    more = (worker.memory()['VmRSS'] - before) >> 20
    checks.expect(more < 16 or not arena.timed, f'{more} MiB more')
    checks.note(f'{more} MiB more, {health(port)["cache_sessions"]} sessions')


@probe('bodies', 'an answer whose text is terminal escapes and line ends')
def header_injection(arena, checks) -> None:
    """What a client names comes back as JSON text, never as a line of a head, of an event or of the log."""
    port = arena.port('tiny')
    evil = 'a\r\nX-Evil: 1\r\n\r\nevent: end\ndata: {}'
    for path, body in (('/execute', {'job_id': evil, 'prompt': 'a', 'max_tokens': 1}),
                       ('/v1/chat/completions', chat_body(model=evil)),
                       ('/v1/completions', {'prompt': 'a', evil: 1})):
        response = ask(port, 'POST', path, body)
        checks.expect('x-evil' not in response.headers, f'{path}: a header was made')
        checks.expect(b'\nevent: end\ndata: {}' not in response.body, f'{path}: an event was made')
    response = ask(port, 'GET', '/v1/models/a%0d%0aX-Evil:%201')
    checks.expect('x-evil' not in response.headers, 'a header was made by the path')
    arena.get('tiny').events()  # each line of the log is one JSON object, or this throws
