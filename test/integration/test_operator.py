"""Who may do what concerns all clients: at the clients' port by the roles of the keys, at the system port
also by whose program asks."""
import json
import os
import re
import signal
import subprocess

import pytest

from http_client import Connection
from ports import free_port
from worker_process import PATIENCE, Worker, wait_until

ORDERS = {('POST', '/shutdown'), ('POST', '/lora-adapters'), ('POST', '/v1/load_lora_adapter'),
          ('POST', '/v1/unload_lora_adapter')}
OPEN = {'/', '/health', '/v1/health', '/ping', '/live', '/ready', '/metrics'}
SHOWN = {'none': None, 'unknown': 'nobodys-key', 'inference': 'tenants-key', 'operator': 'operators-key'}
SERVED = 'it is served, whatever it says of what it was asked'


def bearer(role: str) -> dict:
    return {'Authorization': f'Bearer {SHOWN[role]}'} if SHOWN[role] else {}


@pytest.fixture(scope='module')
def keyed(tiny_model, tmp_path_factory):
    keys = tmp_path_factory.mktemp('roles') / 'keys'
    keys.write_text('tenants-key team\noperators-key ops role=operator\n')
    keys.chmod(0o600)
    system = free_port()
    with Worker('--model', tiny_model, '--api-key-file', keys, '--system-port', str(system)) as worker:
        worker.wait_event('ready')
        worker.system = system
        yield worker


def routes(worker: Worker) -> list:
    """Every path and method that the worker's own table has."""
    told = worker.call('POST', '/nothing', None, bearer('operator')).error['message']
    paths = told[told.index('there are ') + 10:].split(', ')
    assert len(paths) > 20
    paths += ['/v1/models/tiny', '/v1/responses/resp_1', '/v1/responses/resp_1/input_items']
    out = []
    for path in paths:
        allowed = worker.call('OPTIONS', path, None, bearer('operator')).headers['allow']
        out += [(method, path) for method in allowed.split(', ') if method != 'OPTIONS']
    return out


def expected(role: str, method: str, path: str) -> object:
    if path in OPEN:
        return SERVED
    if role in ('none', 'unknown'):
        return 401
    return 403 if role == 'inference' and (method, path) in ORDERS else SERVED


@pytest.mark.parametrize('role', SHOWN)
def test_each_role_at_each_route(keyed, role):
    tried = set()
    for method, path in routes(keyed):
        tried.add((method, path))
        if (method, path, role) == ('POST', '/shutdown', 'operator'):
            continue  # of its own test
        answer = keyed.call(method, path, {} if method == 'POST' else None, bearer(role))
        wanted = expected(role, method, path)
        got = answer.status if answer.status in (401, 403) else SERVED
        assert got == wanted, (role, method, path, answer.status)
        if wanted == 403:
            assert 'role operator' in answer.error['message']
    assert ORDERS <= tried
    assert keyed.get('/ready').status == 200


def test_the_log_names_key_route_and_address(keyed):
    before = len(keyed.events('operator_order'))
    keyed.call('POST', '/lora-adapters', [], bearer('inference'))
    keyed.call('POST', '/lora-adapters', [], bearer('operator'))
    wait_until(lambda: len(keyed.events('operator_order')) >= before + 2, PATIENCE, 'both are told')
    told = keyed.events('operator_order')[before:]
    assert {(e['route'], e['address']) for e in told} == {('POST /lora-adapters', '127.0.0.1')}
    assert [(e['key_name'], e['taken']) for e in told] == [('team', False), ('ops', True)]
    assert not any(key in line for key in SHOWN.values() if key for line in keyed.lines)


ASK = '''
import http.client, json, sys
port, path, key = int(sys.argv[1]), sys.argv[2], sys.argv[3]
connection = http.client.HTTPConnection('127.0.0.1', port, timeout=20)
connection.request('POST', path, headers={'Authorization': 'Bearer ' + key} if key else {})
print(connection.getresponse().status)
'''


def asked_by(user: int, worker: Worker, path: str, key: str = '') -> int:
    command = ['/usr/bin/python3', '-c', ASK, str(worker.system), path, key]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE, user=user,
                          cwd='/')
    return int(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another user')
@pytest.mark.parametrize('path, served', [('/engine/sleep', 409), ('/engine/wake_up', 200)])
def test_each_user_at_the_system_port(keyed, path, served):
    """409: there is no other engine."""
    nobody = 65534
    assert asked_by(os.geteuid(), keyed, path) == served
    assert asked_by(nobody, keyed, path) == 401
    assert asked_by(nobody, keyed, path, 'nobodys-key') == 401
    assert asked_by(nobody, keyed, path, 'tenants-key') == 403
    assert asked_by(nobody, keyed, path, 'operators-key') == served


def test_the_system_port_of_a_worker_that_is_alone(keyed):
    def ask(method: str, path: str, headers=None):
        with Connection(keyed.system) as connection:
            connection.request(method, path, None, headers)
            return connection.read_response()
    for path in ('/live', '/health', '/ready'):
        answer = ask('GET', path)
        assert (answer.status, json.loads(answer.body)) == (200, {'status': 'ok', 'state': 'ready'})
    assert b'\nworker_requests_total' in ask('GET', '/metrics').body
    assert b'orcd_failover' not in ask('GET', '/metrics').body
    assert ask('GET', '/shutdown').status == 405
    foreign = ask('POST', '/shutdown', {'Origin': 'https://elsewhere.example', **bearer('operator')})
    assert foreign.status == 403 and keyed.alive()


def test_an_operator_stops_it_and_nobody_else(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('tenants-key\noperators-key role=operator\n')
    with Worker('--model', tiny_model, '--api-key-file', keys) as worker:
        worker.wait_event('ready')
        assert not worker.events('no_operator_key')
        assert worker.call('POST', '/shutdown', None, bearer('inference')).status == 403
        keys.write_text('tenants-key role=operator\noperators-key\n')
        worker.process.send_signal(signal.SIGHUP)
        worker.wait_event('reloaded')
        assert worker.call('POST', '/shutdown', None, bearer('operator')).status == 403
        assert worker.call('POST', '/shutdown', None, bearer('inference')).status == 202
        assert worker.wait_exit(PATIENCE) == 0


def test_a_key_file_without_roles_leaves_signals_and_the_system_port(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('tenants-key team\n')
    system = free_port()
    with Worker('--model', tiny_model, '--api-key-file', keys, '--system-port', str(system)) as worker:
        worker.wait_event('ready')
        assert len(worker.events('no_operator_key')) == 1
        refused = worker.call('POST', '/shutdown', None, bearer('inference'))
        assert refused.status == 403 and 'role operator' in refused.error['message']
        with Connection(system) as connection:
            connection.request('POST', '/shutdown')
            assert connection.read_response().status == 202
        assert worker.wait_exit(PATIENCE) == 0


@pytest.mark.parametrize('with_keys', [False, True], ids=['no keys', 'keys'])
def test_names_on_every_address(tiny_model, tmp_path, with_keys):
    """A page whose name was rebound to the worker's address reads nothing where nothing else keeps it out."""
    keys = tmp_path / 'keys'
    keys.write_text('tenants-key\n')
    options = ['--api-key-file', str(keys)] if with_keys else ['--allow-host', 'chat.example']
    with Worker('--model', tiny_model, '--host', '0.0.0.0', *options) as worker:
        def answer(host: str):
            with worker.connect() as connection:
                connection.send(f'GET /v1/models HTTP/1.1\r\nHost: {host}\r\n'
                                'Authorization: Bearer tenants-key\r\n\r\n'.encode())
                return connection.read_response()
        for host in ('localhost', '127.0.0.1', f'10.1.2.3:{worker.port}', 'chat.example'):
            assert answer(host).status == 200, host
        rebound = answer('evil.example')
        assert rebound.status == (200 if with_keys else 403)
        if not with_keys:
            assert re.search(r'--allow-host', rebound.error['message'])
