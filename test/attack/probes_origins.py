"""Pages of others: what a browser sends on behalf of a page that is not the worker's own changes nothing and
reads nothing. The browser's own part of it is tried with Chromium, in test/integration."""
import time

from client import ask, chat_body, execute_body, health, status_of
from judge import probe

FORM = b'Content-Type: application/x-www-form-urlencoded'
PLAIN = b'Content-Type: text/plain'
MULTI = b'Content-Type: multipart/form-data; boundary=x'
JSON = b'Content-Type: application/json'
EVIL = b'Origin: http://evil.example'
JOB = execute_body(job_id='from-a-page', max_tokens=1)

# name: (method, path, body, content type, fields, statuses)
FOREIGN = {
    'a form without a body to /shutdown':
        ('POST', '/shutdown', b'', FORM, (EVIL, b'Sec-Fetch-Site: cross-site'), '403'),
    'an old browser\'s form to /shutdown': ('POST', '/shutdown', b'', FORM, (EVIL,), '403'),
    'a form of a page that hides itself': ('POST', '/shutdown', b'', FORM, (b'Origin: null',), '403'),
    'a form of another port of this host': ('POST', '/shutdown', b'', FORM, (
        b'Origin: http://127.0.0.1:1', b'Sec-Fetch-Site: same-site'), '403'),
    'fetch metadata alone': ('POST', '/shutdown', None, b'', (b'Sec-Fetch-Site: cross-site',), '403'),
    'fetch metadata in capitals': ('POST', '/shutdown', None, b'', (b'Sec-Fetch-Site: Cross-Site',), '403'),
    'fetch metadata that nobody knows': ('POST', '/shutdown', None, b'', (b'Sec-Fetch-Site: moon',), '403'),
    'an extension\'s page': ('POST', '/shutdown', None, b'', (b'Origin: chrome-extension://abcdef',), '403'),
    'a page in a file': ('POST', '/shutdown', None, b'', (b'Origin: file://',), '403'),
    'a text form with JSON to /execute':
        ('POST', '/execute', JOB, PLAIN, (EVIL, b'Sec-Fetch-Site: cross-site'), '403'),
    'a text form with JSON, no Origin': ('POST', '/execute', JOB, PLAIN, (), '415'),
    'a form with JSON, no Origin': ('POST', '/execute', JOB, FORM, (), '415'),
    'parts with JSON, no Origin': ('POST', '/execute', JOB, MULTI, (), '415'),
    'JSON of no type': ('POST', '/execute', JOB, b'', (), '415'),
    'JSON of an empty type': ('POST', '/execute', JOB, b'Content-Type:', (), '415'),
    'a type that begins as JSON': ('POST', '/execute', JOB, b'Content-Type: application/jsonp', (), '415'),
    'text that says JSON in a parameter': ('POST', '/execute', JOB,
                                           b'Content-Type: text/plain; application/json', (), '415'),
    'JSON by fetch of a foreign page': ('POST', '/execute', JOB, JSON, (EVIL, b'Sec-Fetch-Site: cross-site',
                                                                        b'Sec-Fetch-Mode: cors'), '403'),
    'JSON with an Origin alone': ('POST', '/execute', JOB, JSON, (EVIL,), '403'),
    'a cancel of a foreign page': ('POST', '/cancel', {'job_id': 'x'}, JSON, (EVIL,), '403'),
    'a chat of a foreign page': ('POST', '/v1/chat/completions', chat_body(), JSON, (EVIL,), '403'),
    'tokenize of a foreign page': ('POST', '/tokenize', {'content': 'a'}, JSON, (EVIL,), '403'),
    'an own origin and a foreign one': ('POST', '/cancel', {'job_id': 'x'}, JSON, (
        b'Origin: http://127.0.0.1:%PORT%', EVIL), '400 403'),
    'an origin that begins as the own': ('POST', '/cancel', {'job_id': 'x'}, JSON, (
        b'Origin: http://127.0.0.1:%PORT%.evil.example',), '403'),
    'an own origin with a path': ('POST', '/cancel', {'job_id': 'x'}, JSON, (
        b'Origin: http://127.0.0.1:%PORT%@evil.example',), '403'),
    # TLS may end in front of the worker; nobody else can serve pages from its own address and port.
    'an own origin over TLS':
        ('POST', '/cancel', {'job_id': 'x'}, JSON, (b'Origin: https://127.0.0.1:%PORT%',), '202'),
    'an own origin, but cross-site': ('POST', '/cancel', {'job_id': 'x'}, JSON, (
        b'Origin: http://127.0.0.1:%PORT%', b'Sec-Fetch-Site: cross-site'), '403'),
    'POST to GET by override': ('GET', '/shutdown', None, b'', (b'X-HTTP-Method-Override: POST',), '405'),
}
OWN = {
    'the own page': ('POST', '/cancel', {'job_id': 'x'}, JSON, (b'Origin: http://127.0.0.1:%PORT%',
                                                                b'Sec-Fetch-Site: same-origin'), '202'),
    'a program without an Origin': ('POST', '/cancel', {'job_id': 'x'}, JSON, (), '202'),
    'a bookmark or an address typed': ('GET', '/', None, b'', (b'Sec-Fetch-Site: none',), '200'),
    'JSON with a charset':
        ('POST', '/cancel', {'job_id': 'x'}, b'Content-Type: application/json; charset=utf-8',
                            (), '202'),
    'JSON in capitals': ('POST', '/cancel', {'job_id': 'x'}, b'Content-Type: Application/JSON', (), '202'),
    'a type of JSON\'s kind':
        ('POST', '/cancel', {'job_id': 'x'}, b'Content-Type: application/vnd.a+json', (), '202'),
    'health to a foreign image': ('GET', '/health', None, b'', (b'Sec-Fetch-Site: cross-site',), '200'),
}


def send(port: int, method: str, path: str, body, kind: bytes, fields: tuple, **options) -> str:
    filled = tuple(f.replace(b'%PORT%', b'%d' % port) for f in fields)
    return status_of(port, method, path, body, *filled, kind=kind, **options)


def _one(name: str, case: tuple):
    *what, wanted = case

    def run(arena, checks) -> None:
        port = arena.port('tiny')
        status = send(port, *what)
        checks.expect(status in wanted.split(), f'{status} instead of {wanted}')
        time.sleep(0.15)
        checks.expect(arena.get('tiny').port == port, 'the worker was ended')
        checks.expect(health(port)['state'] in ('ready', 'busy'), 'the worker drains')
        checks.note(status)
    probe('origins', name)(run)


for _name, _case in {**FOREIGN, **OWN}.items():
    _one(_name, _case)

HOSTS = {
    'a foreign name that leads here': (b'evil.example', '403'),
    'that with the port': (b'evil.example:%PORT%', '403'),
    'a name that begins as localhost': (b'localhost.evil.example', '403'),
    'a name that ends as localhost': (b'evillocalhost', '403'),
    'a name that holds an address': (b'127.0.0.1.nip.io', '403'),
    'an address that is not this one': (b'192.0.2.1', '403'),
    'all addresses': (b'0.0.0.0', '403'),
    'an address in one number': (b'2130706433', '403'),
    'an address of IPv6 that is none': (b'[::1', '400 403'),
    'a name with a NUL': (b'localhost\x00.evil.example', '400'),
    'a name with a dot at its end': (b'evil.example.', '403'),
    'localhost': (b'localhost', '200'),
    'localhost with a port': (b'localhost:%PORT%', '200'),
    'LOCALHOST': (b'LOCALHOST', '200'),
    'a name under localhost': (b'app.localhost:%PORT%', '200'),
    'the loopback of IPv6': (b'[::1]:%PORT%', '200'),
    'another loopback address': (b'127.0.0.2', '200'),
}


def _host(name: str):
    host, wanted = HOSTS[name]

    def run(arena, checks) -> None:
        port = arena.port('tiny')
        value = host.replace(b'%PORT%', b'%d' % port)
        for path in ('/health', '/v1/models', '/metrics', '/'):
            status = status_of(port, 'GET', path, host=value)
            checks.expect(status in wanted.split(), f'{path}: {status} instead of {wanted}')
    probe('origins', f'Host: {name}')(run)


for _name in HOSTS:
    _host(_name)


@probe('origins', 'a name that --allow-host lets in')
def allowed_host(arena, checks) -> None:
    if not checks.expect(arena.has_option('allow-host'), 'there is no --allow-host'):
        return
    with arena.start(*arena.options('tiny'), '--allow-host', 'models.example,other.example') as worker:
        for host, wanted in ((b'models.example', '200'), (b'other.example:1', '200'),
                             (b'evil.example', '403'), (b'x.models.example', '403')):
            got = status_of(worker.port, 'GET', '/health', host=host)
            checks.expect(got == wanted, f'{host.decode()}: {got} instead of {wanted}')


@probe('origins', 'an origin that --cors-origins lets in')
def allowed_origin(arena, checks) -> None:
    """It may ask and read; it may not end the worker, which is no answer to read."""
    with arena.start(*arena.options('tiny'), '--cors-origins', 'https://good.example') as worker:
        good, evil = b'Origin: https://good.example', EVIL
        port = worker.port
        got = send(port, 'POST', '/cancel', {'job_id': 'x'}, JSON, (good, b'Sec-Fetch-Site: cross-site'))
        checks.expect(got == '202', f'an allowed page: {got}')
        got = send(port, 'POST', '/cancel', {'job_id': 'x'}, JSON, (evil, b'Sec-Fetch-Site: cross-site'))
        checks.expect(got == '403', f'another page: {got}')
        got = send(port, 'POST', '/shutdown', None, b'', (good, b'Sec-Fetch-Site: cross-site'))
        checks.expect(got == '403', f'/shutdown of an allowed page: {got}')
        time.sleep(0.2)
        checks.expect(worker.alive(), 'the worker was ended')


@probe('origins', 'any origin by --cors-origins *')
def any_origin(arena, checks) -> None:
    """Lets every page ask for answers; still none may end the worker."""
    with arena.start(*arena.options('tiny'), '--cors-origins', '*') as worker:
        got = send(worker.port, 'POST', '/shutdown', b'', FORM, (EVIL, b'Sec-Fetch-Site: cross-site'))
        checks.expect(got == '403', f'/shutdown: {got}')
        got = send(worker.port, 'POST', '/shutdown', b'', FORM, (b'Origin: null',))
        checks.expect(got == '403', f'/shutdown of a hidden page: {got}')
        time.sleep(0.2)
        checks.expect(worker.alive(), 'the worker was ended')


@probe('origins', 'a preflight of a foreign page')
def preflight(arena, checks) -> None:
    response = ask(arena.port('tiny'), 'OPTIONS', '/v1/chat/completions', None, EVIL,
                   b'Access-Control-Request-Method: POST', b'Access-Control-Request-Headers: content-type')
    names = [n for n in response.headers if n.startswith('access-control-')]
    checks.expect(not names, f'{names}')
    checks.expect(response.status in (403, 404, 405, 204, 200), str(response.status))


@probe('origins', '/shutdown with keys asks for an operator\'s, from a page or not')
def shutdown_with_keys(arena, checks) -> None:
    from arena import KEYS
    port = arena.port('tenants')
    tenant = f'Authorization: Bearer {KEYS["alpha"]}'.encode()
    for fields in ((), (EVIL,), (b'Authorization: Bearer wrong',), (b'Authorization: Basic YWxwaGE=',),
                   (tenant,), (tenant, EVIL), (tenant, b'X-Api-Key: ' + KEYS['operator'].encode()[:-1])):
        got = status_of(port, 'POST', '/shutdown', None, *fields)
        checks.expect(got in ('401', '403'), f'{fields}: {got}')
    with arena.start(*arena.options('tenants')) as worker:
        key = f'Authorization: Bearer {KEYS["operator"]}'.encode()
        got = status_of(worker.port, 'POST', '/shutdown', None, key)
        checks.expect(got == '202', f'with an operator\'s key: {got}')
        checks.expect(worker.wait_exit(10) == 0, 'it does not drain')


@probe('origins', '/shutdown of a program on this machine')
def shutdown_from_here(arena, checks) -> None:
    with arena.start(*arena.options('tiny')) as worker:
        got = status_of(worker.port, 'POST', '/shutdown', None)
        checks.expect(got == '202', got)
        checks.expect(worker.wait_exit(10) == 0, 'it does not drain')
