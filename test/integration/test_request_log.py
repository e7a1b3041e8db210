"""One line of the log for each request, and its place in the metrics."""
import pytest

from http_client import Connection
from worker_process import PATIENCE, Worker, wait_until

KEYS = {'ann': 'key-of-ann', 'bob': 'key-of-bob'}


@pytest.fixture(scope='module')
def keyed(tiny_model, tmp_path_factory):
    keys = tmp_path_factory.mktemp('keys') / 'keys'
    keys.write_text(''.join(f'{key} {name}\n' for name, key in KEYS.items()))
    keys.chmod(0o600)
    with Worker('--model', tiny_model, '--api-key-file', keys, '--trusted-proxies', '127.0.0.0/8') as worker:
        worker.wait_event('ready')
        yield worker


def told(worker: Worker, request_id: str) -> dict:
    def found():
        return [e for e in worker.events('request') if e['request_id'] == request_id]
    lines = wait_until(found, PATIENCE, 'the request is told')
    assert len(lines) == 1
    return lines[0]


def ask(worker: Worker, request_id: str, path: str, body=None, method: str = 'POST', **headers):
    named = {name.replace('_', '-'): value for name, value in headers.items()}
    return worker.call(method, path, body, {'X-Request-Id': request_id, **named})


def test_a_request_is_one_line(keyed):
    asked = {'prompt': 'Once upon', 'max_tokens': 5, 'ignore_eos': True}
    answer = ask(keyed, 'one', '/v1/completions', asked,
                 X_Api_Key=KEYS['ann'], X_Forwarded_For='203.0.113.7, 127.0.0.9')
    usage = answer.json()['usage']
    line = told(keyed, 'one')
    assert (line['key_name'], line['address'], line['method'], line['route'], line['status']) == (
        'ann', '203.0.113.7', 'POST', '/v1/completions', 200)
    assert (line['tokens_in'], line['tokens_out'], line['finish_reason'], line['model']) == (
        usage['prompt_tokens'], 5, 'length', answer.json()['model'])
    assert line['duration_ms'] > 0 and line['code'] == line['field'] == ''


def test_a_refusal_says_where_and_what(keyed):
    ask(keyed, 'wrong', '/v1/completions', {'prompt': 'a', 'temperature': 9}, X_Api_Key=KEYS['ann'])
    line = told(keyed, 'wrong')
    assert (line['status'], line['code'], line['field'], line['route']) == (
        400, 'INVALID_REQUEST', 'temperature', '/v1/completions')
    for request_id, path, method, status in (('nowhere', '/nothing', 'POST', 404),
                                             ('get', '/execute', 'GET', 405)):
        ask(keyed, request_id, path, None, method, X_Api_Key=KEYS['ann'])
        assert told(keyed, request_id)['status'] == status
    ask(keyed, 'keyless', '/v1/models', None, 'GET')
    assert (told(keyed, 'keyless')['status'], told(keyed, 'keyless')['key_name']) == (401, '')


def test_probes_are_not_told(keyed):
    ask(keyed, 'probe', '/health', None, 'GET')
    ask(keyed, 'after', '/v1/models', None, 'GET', X_Api_Key=KEYS['bob'])
    told(keyed, 'after')
    assert not [e for e in keyed.events('request') if e['request_id'] == 'probe']


def test_whoever_is_refused_again_and_again_does_not_fill_the_log(keyed):
    before = len(keyed.events('request'))
    with Connection(keyed.port) as connection:
        for _ in range(300):
            connection.request('GET', '/v1/models')
            assert connection.read_response().status == 401
    lines = keyed.events('request')[before:]
    assert len(lines) < 200, len(lines)


def test_metrics_by_route_key_and_fault(keyed):
    text = keyed.get('/metrics').body.decode()
    assert 'worker_http_requests_total{route="/v1/completions",status="2xx"}' in text
    assert 'worker_http_requests_total{route="(none)",status="4xx"}' in text
    assert 'worker_request_failures_total{cause="client"}' in text
    assert 'worker_key_tokens_generated_total{key_name="ann"} 5\n' in text
    assert KEYS['ann'] not in text
