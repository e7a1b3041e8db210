"""Two API keys on one worker: neither learns of the other's texts, nor touches the other's jobs."""
import os
import signal
import threading
import time

from arena import KEYS
from client import Connection, ask, chat_body, execute_body, request, status_of
from crowd import NUMBER, Crowd
from judge import probe
from loads import total
from worker_process import SANITIZED, STRETCH

ALPHA = f'Authorization: Bearer {KEYS["alpha"]}'.encode()
BETA = f'Authorization: Bearer {KEYS["beta"]}'.encode()
SECRET = 'The secret of the first tenant is long enough to fill pages of the cache. ' * 12


def cached(response) -> int:
    return response.json()['usage'].get('prompt_tokens_details', {}).get('cached_tokens', 0)


def ask_text(port: int, key: bytes, prompt: str, **changes):
    body = {'prompt': prompt, 'max_tokens': 1, 'temperature': 0, **changes}
    return ask(port, 'POST', '/v1/completions', body, key)


@probe('tenants', 'cached tokens of the other\'s prompt')
def cached_tokens(arena, checks) -> None:
    port = arena.port('tenants')
    ask_text(port, ALPHA, SECRET)
    own, other = cached(ask_text(port, ALPHA, SECRET)), cached(ask_text(port, BETA, SECRET))
    checks.expect(own > 0, 'its own prompt is not cached')
    checks.expect(other == 0, f'the other sees {other} cached tokens')
    checks.note(f'own {own}, other {other}')


@probe('tenants', 'cached tokens with a salt of the same name')
def same_salt(arena, checks) -> None:
    port = arena.port('tenants')
    ask_text(port, ALPHA, 'B' + SECRET, cache_salt='shared')
    other = cached(ask_text(port, BETA, 'B' + SECRET, cache_salt='shared'))
    checks.expect(other == 0, f'the other sees {other} cached tokens')


@probe('tenants', 'cached tokens of a session of the same name')
def same_session(arena, checks) -> None:
    port = arena.port('tenants')
    ask_text(port, ALPHA, 'C' + SECRET, imc_id='session-1')
    other = cached(ask_text(port, BETA, 'C' + SECRET, imc_id='session-1'))
    checks.expect(other == 0, f'the other sees {other} cached tokens')
    body, session = {'prompt': 'H' + SECRET, 'max_tokens': 1}, b'KRONK_IMC_ID: session-1'
    ask(port, 'POST', '/v1/completions', body, ALPHA, session)
    other = cached(ask(port, 'POST', '/v1/completions', body, BETA, session))
    checks.expect(other == 0, f'by header the other sees {other} cached tokens')


@probe('tenants', 'cached tokens of a system prompt')
def system_prompt(arena, checks) -> None:
    port = arena.port('tenants')
    body = chat_body(messages=[{'role': 'system', 'content': 'D' + SECRET}, {'role': 'user', 'content': 'a'}])
    ask(port, 'POST', '/v1/chat/completions', body, ALPHA)
    other = cached(ask(port, 'POST', '/v1/chat/completions', body, BETA))
    checks.expect(other == 0, f'the other sees {other} cached tokens')


@probe('tenants', 'tokens_cached in the end of /execute')
def execute_cached(arena, checks) -> None:
    port = arena.port('tenants')
    body = execute_body(job_id='e1', prompt='E' + SECRET, max_tokens=1)
    ask(port, 'POST', '/execute', body, ALPHA)
    text = ask(port, 'POST', '/execute', body, BETA).body
    checks.expect(b'"tokens_cached":0' in text, f'{text[-160:]!r}')


def started(port: int, key: bytes, job: str, **changes) -> Connection:
    connection = Connection(port, timeout=20.0)
    body = execute_body(job_id=job, max_tokens=900, **changes)
    connection.send(request(port, 'POST', '/execute', body, key))
    return connection


@probe('tenants', 'cancel of the other\'s job')
def cancel(arena, checks) -> None:
    port = arena.port('tenants')
    with started(port, ALPHA, 'mine') as running:
        running.read_head()
        answers = [status_of(port, 'POST', '/cancel', {'job_id': 'mine'}, BETA) for _ in range(3)]
        unknown = status_of(port, 'POST', '/cancel', {'job_id': 'nobody-has-this'}, BETA)
        text = running.drain(3.0)
    checks.expect(b'CANCELLED' not in text, 'it was cancelled')
    checks.expect(set(answers) == {unknown}, f'{answers}, but {unknown} for one that is not there')


@probe('tenants', 'cancel of one\'s own job')
def cancel_own(arena, checks) -> None:
    with arena.start(*arena.options('main')[:-2], '--api-key-file', str(arena.folder / 'keys')) as worker:
        port = worker.port
        with started(port, ALPHA, 'mine') as running:
            running.read_head()
            status_of(port, 'POST', '/cancel', {'job_id': 'mine'}, BETA)
            before = running.drain(0.5)
            status_of(port, 'POST', '/cancel', {'job_id': 'mine'}, ALPHA)
            text = running.drain(5.0 * STRETCH)
    checks.expect(b'CANCELLED' not in before, 'the other cancelled it')
    checks.expect(b'CANCELLED' in text, 'it was not cancelled by its own key')


@probe('tenants', 'the same job_id at the same time')
def same_job_id(arena, checks) -> None:
    """A name that another uses is free for me, and 409 does not tell me that another uses it."""
    with arena.start(*arena.options('main')[:-2], '--api-key-file', str(arena.folder / 'keys')) as worker:
        port = worker.port
        with started(port, ALPHA, 'one') as first, started(port, BETA, 'one') as second:
            statuses = (first.read_head().status, second.read_head().status)
            again = status_of(port, 'POST', '/execute', execute_body(job_id='one'), ALPHA)
    checks.expect(statuses == (200, 200), f'{statuses}')
    checks.expect(again == '409', f'the same key twice: {again}')


@probe('tenants', 'one key that fills the queue')
def queue(arena, checks) -> None:
    """It may be turned away itself; the other still gets in."""
    port = arena.port('tenants')
    with Crowd(fill, port, ALPHA, NUMBER, count=14) as crowd:
        time.sleep(1.0)
        answers = []
        for number in range(10):
            body = execute_body(job_id=f'b{number}', max_tokens=2)
            answers.append(status_of(port, 'POST', '/execute', body, BETA, timeout=30.0))
        checks.note(total(crowd.finish(20.0)))
    bad = [a for a in answers if a != '200']
    checks.expect(not bad, f'{len(bad)} of 10 of the other key got {sorted(set(bad))}')


def fill(stop, port: int, key: bytes, number: int) -> dict:
    counts: dict = {}
    for turn in range(1_000_000):
        if stop.is_set():
            break
        body = execute_body(job_id=f'fill-{number}-{turn}', max_tokens=120 if SANITIZED else 900)
        status = status_of(port, 'POST', '/execute', body, key, timeout=30.0)
        counts[status] = counts.get(status, 0) + 1
    return counts


BAD_KEYS = {
    'none': (), 'empty': (b'Authorization: Bearer ',), 'another': (b'Authorization: Bearer nope',),
    'half of one': (ALPHA[:-5],), 'one and more': (ALPHA + b'x',), 'of another scheme': (
        ALPHA.replace(b'Bearer', b'Basic'),), 'in capitals': (ALPHA.upper(),),
    'two of them': (b'Authorization: Bearer nope', ALPHA), 'one with a comma': (ALPHA + b', nope',),
    'in the query': (), 'as a cookie': (b'Cookie: key=' + KEYS['alpha'].encode(),),
    'the comment of the file':
        (b'Authorization: Bearer #',), 'its digest': (b'Authorization: Bearer ' + b'0' * 64,),
}


@probe('tenants', 'keys that are none')
def bad_keys(arena, checks) -> None:
    """401 at the end of the head, for every path alike but the probes."""
    port = arena.port('tenants')
    for name, fields in BAD_KEYS.items():
        path = '/v1/models' + (f'?key={KEYS["alpha"]}' if name == 'in the query' else '')
        got = status_of(port, 'GET', path, None, *fields)
        checks.expect(got == '401' or (name == 'two of them' and got == '400'), f'{name}: {got}')
    head = request(port, 'POST', '/execute', b'').replace(b'Content-Length: 0', b'Content-Length: 1000')
    for fields, what in ((b'', 'no body'), (b'Expect: 100-continue\r\n', '100-continue')):
        with Connection(port, timeout=3.0) as connection:
            connection.send(head[:-2] + fields + b'\r\n')
            try:
                got = connection.read_head().status
            except (TimeoutError, ConnectionError) as failure:
                got = type(failure).__name__
            checks.expect(got == 401, f'before the body ({what}): {got}')


@probe('tenants', 'no key, a job_id, a prompt or a name in the log')
def log(arena, checks) -> None:
    port = arena.port('tenants')
    ask_text(port, ALPHA, 'a prompt that nobody may read')
    status_of(port, 'GET', '/v1/models', None, b'Authorization: Bearer a-key-that-is-wrong')
    time.sleep(0.2)
    text = '\n'.join(arena.get('tenants').lines)
    for word in (*KEYS.values(), 'a-key-that-is-wrong', 'nobody may read', SECRET[:30]):
        checks.expect(word not in text, f'the log has {word[:12]}…')


@probe('tenants', 'keys read again on SIGHUP')
def reread(arena, checks) -> None:
    """A key that is taken out of the file is refused, a new one accepted; a file that is damaged changes
    nothing. Names stand behind keys."""
    path = arena.folder / 'changing-keys'
    path.write_text('first-key-0123456789 alice\n')
    options = [*arena.options('tenants')[:-1], str(path)]
    with arena.start(*options) as worker:
        port = worker.port

        def shown(key: str) -> str:
            return status_of(port, 'GET', '/v1/models', None, f'Authorization: Bearer {key}'.encode())
        checks.expect((got := shown('first-key-0123456789')) == '200', f'a key with a name: {got}')
        for text, wanted in (('second-key-0123456789 bob\n', ('401', '200')), ('', ('401', '200')),
                             ('bad \x01 key\n', ('401', '200')), (None, ('401', '200'))):
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
            os.kill(worker.pid, signal.SIGHUP)
            until = time.monotonic() + 0.3 * STRETCH
            got = ()
            while got != wanted and time.monotonic() < until:
                time.sleep(0.1)
                if not checks.expect(worker.alive(), 'SIGHUP ended it'):
                    return
                got = (shown('first-key-0123456789'), shown('second-key-0123456789'))
            checks.expect(got == wanted, f'after {text!r}: {got}')
        lines = '\n'.join(worker.lines)
        checks.expect('second-key' not in lines, 'the log has a key')


@probe('tenants', 'time of a first token tells nothing of the other\'s prompt')
def timing(arena, checks) -> None:
    """What a cache saves is seen in time too: a long prompt of the other is computed as any new one."""
    port = arena.port('tenants')
    took = {}
    ask_text(port, ALPHA, 'F' + SECRET)
    for name, key in (('own', ALPHA), ('other', BETA)):
        body = execute_body(job_id=name, prompt='F' + SECRET, max_tokens=1)
        response = ask(port, 'POST', '/execute', body, key)
        took[name] = b'"tokens_cached":0' in response.body
    checks.expect(not took['own'], 'its own is computed again')
    checks.expect(took['other'], 'the other is spared the work')


@probe('tenants', 'many wrong keys')
def wrong_keys(arena, checks) -> None:
    """Guesses cost the worker little: an honest one is served beside them."""
    port = arena.port('tenants')
    with Crowd(guess, port, NUMBER, count=8) as crowd:
        time.sleep(0.5)
        begin = time.monotonic()
        got = ask_text(port, ALPHA, 'a').status
        took = time.monotonic() - begin
        checks.note(total(crowd.finish(10.0)))
    checks.expect(got == 200, str(got))
    checks.in_time(took, 1.0 * STRETCH)
    checks.expect(threading.active_count() < 50, 'threads are left')


def guess(stop, port: int, number: int) -> dict:
    count = 0
    while not stop.is_set():
        status_of(port, 'GET', '/v1/models', None, f'Authorization: Bearer {number}-{count}'.encode())
        count += 1
    return {'guesses': count}
