"""Room for everybody: probes are answered whatever else is held open, slow bodies and idle connections
make room, places in the queue are given back when the work is done, and a client that only sends no more
is served."""
import json
import time

import pytest

from http_client import Closed, Connection, Stream
from pauses import pause
from worker_process import PATIENCE, STRETCH, Worker, request_body, wait_until

ONE_BYTE = (b'POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
            b'Content-Length: 1000\r\n\r\n{')


def ask(worker: Worker, path: str) -> int:
    """The status; 0 when there is no answer."""
    try:
        return worker.get(path).status
    except (Closed, ConnectionError):
        return 0


def hold(worker: Worker, count: int, data: bytes) -> list:
    held = []
    for _ in range(count):
        connection = worker.connect()
        connection.send(data)
        held.append(connection)
    return held


def test_probes_are_answered_while_bodies_hold_every_connection(tiny_model):
    with Worker('--model', tiny_model, '--max-connections', '40') as worker:
        assert ask(worker, '/live') == 200
        held = hold(worker, 60, ONE_BYTE)
        for path in ('/live', '/ready', '/health', '/metrics'):
            assert [ask(worker, path) for _ in range(5)] == [200] * 5, path
        assert ask(worker, '/v1/models') == 503
        # All else waits for room, and gets it when the bodies do not go on.
        wait_until(lambda: ask(worker, '/v1/models') == 200, PATIENCE, 'slow bodies make room', step=0.2)
        for connection in held:
            connection.close()


def test_connections_that_say_nothing_do_not_take_the_probes_places(tiny_model):
    with Worker('--model', tiny_model, '--max-connections', '4') as worker:
        worker.wait_event('ready')
        held = hold(worker, 4, ONE_BYTE) + hold(worker, 40, b'')
        assert [ask(worker, '/live') for _ in range(20)] == [200] * 20
        for connection in held:
            connection.close()


def test_a_body_that_comes_steadily_is_not_cut_off(tiny_model):
    with Worker('--model', tiny_model, '--max-connections', '2', '--max-prompt-chars', '100000') as worker:
        worker.wait_event('ready')
        prompt = json.dumps(request_body(prompt='a', max_tokens=1)).encode()
        padding = b' ' * 24_000
        steady = worker.connect()
        steady.send(b'POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                    b'Content-Length: %d\r\n\r\n' % (len(prompt) + len(padding)))
        held = hold(worker, 1, ONE_BYTE)
        for begin in range(0, len(padding), 4_000):
            pause(0.4, 'at this pace it takes longer than the 2 s that a silent body has')
            steady.send(padding[begin:begin + 4_000])
            held += hold(worker, 1, ONE_BYTE)
        steady.send(prompt)
        assert Stream(steady).finish().name == 'end'
        for connection in held:
            connection.close()


def test_connections_of_one_address(tiny_model):
    with Worker('--model', tiny_model, '--max-connections-per-address', '3') as worker:
        worker.wait_event('ready')
        before = worker.descriptors()
        held = hold(worker, 3, b'G')
        wait_until(lambda: worker.descriptors() == before + 3, PATIENCE, 'all are accepted')
        refused = worker.get('/v1/models')
        assert refused.status == 503 and 'from this address' in refused.error['message']
        assert ask(worker, '/live') == 200, 'but a probe is answered'
        other = Connection(worker.port, PATIENCE, source='127.0.0.9')
        other.request('GET', '/v1/models')
        assert other.read_response().status == 200
        other.close()
        for connection in held:
            connection.close()
        wait_until(lambda: ask(worker, '/v1/models') == 200, PATIENCE, 'places are given back')


def test_idle_connections_make_room_for_whoever_asks(tiny_model):
    """More than there may be: each makes room for the next, and who asks is served."""
    with Worker('--model', tiny_model, '--max-connections', '64') as worker:
        worker.wait_event('ready')
        held = []
        for i in range(400):
            held.append(worker.connect())
            if i % 50 == 0:
                assert ask(worker, '/live') == 200
        pause(2.1, 'an idle connection has 2 s before it may be closed for another')
        held += [worker.connect() for _ in range(100)]
        assert worker.execute(max_tokens=2)[-1].name == 'end'
        for connection in held:
            connection.close()


def send_quietly(worker: Worker) -> Connection:
    """A stream of more bytes than the kernel buffers for both sides, which nobody reads for now."""
    asked = {'model': worker.get('/v1/models').json()['data'][0]['id'], 'prompt': 'Once', 'max_tokens': 900,
             'temperature': 0, 'ignore_eos': True, 'logprobs': 5, 'stream': True}
    connection = Connection(worker.port, receive_buffer=2048)
    connection.request('POST', '/v1/completions', json.dumps(asked).encode())
    return connection


def test_answers_that_nobody_reads_hold_no_place_in_the_queue(tiny_model):
    with Worker('--model', tiny_model, '--max-queue', '2', '--write-timeout-sec', '120') as worker:
        worker.wait_event('ready')
        silent = []
        for done in range(1, 4):
            silent.append(send_quietly(worker))
            wait_until(lambda: len(worker.events('execute_start')) == done, PATIENCE, 'its job is accepted')
            wait_until(lambda: worker.running() == 0 and worker.waiting() == 0, PATIENCE, 'its job is over')
        assert not worker.events('execute_end'), 'all three hold back what they were sent'
        for _ in range(4):
            assert worker.execute(max_tokens=2)[-1].name == 'end'
        # Late readers get all of it.
        for connection in silent:
            assert connection.read_head().status == 200
            assert b''.join(connection.chunks()).endswith(b'data: [DONE]\n\n')
            connection.close()


def test_how_long_a_stream_may_be_unread_is_an_option(tiny_model):
    with Worker('--model', tiny_model, '--write-timeout-sec', '1') as worker:
        worker.wait_event('ready')
        silent = send_quietly(worker)
        worker.wait_event('execute_end', outcome='disconnected')
        silent.close()


@pytest.mark.parametrize('version', ['1.1', '1.0'])
def test_a_half_closed_client_gets_its_stream(slow, version):
    payload = json.dumps(request_body(max_tokens=40, ignore_eos=True)).encode()
    with slow.connect() as connection:
        connection.send(f'POST /execute HTTP/{version}\r\nHost: localhost\r\n'
                        'Content-Type: application/json\r\n'
                        f'Content-Length: {len(payload)}\r\n\r\n'.encode() + payload)
        connection.half_close()
        if version == '1.1':
            assert Stream(connection).finish().name == 'end'
        else:
            assert b'\nevent: end\n' in connection.drain(PATIENCE)


def test_a_half_closed_client_gets_its_whole_answer(slow):
    payload = {'model': 'x', 'prompt': 'Once', 'max_tokens': 40, 'temperature': 0}
    payload['model'] = slow.get('/v1/models').json()['data'][0]['id']
    with slow.connect() as connection:
        connection.request('POST', '/v1/completions', json.dumps(payload).encode())
        connection.half_close()
        answer = connection.read_response()
        while answer.status == 100:
            answer = connection.read_response()
        assert answer.status == 200 and answer.json()['usage']['completion_tokens'] > 0


@pytest.mark.parametrize('path', ['/execute', '/v1/completions'])
def test_a_client_that_closed_is_still_noticed(slow, path):
    """Within a token, streamed or not: what was asked for is not computed for nobody."""
    name = slow.get('/v1/models').json()['data'][0]['id']
    bodies = {'/execute': request_body(max_tokens=4000, ignore_eos=True),
              '/v1/completions': {'model': name, 'prompt': 'Once', 'max_tokens': 2000, 'ignore_eos': True}}
    mine = 'closed' + path.replace('/', '-')
    connection = slow.connect()
    connection.request('POST', path, json.dumps(bodies[path]).encode(), {'X-Request-Id': mine})
    wait_until(lambda: slow.running() == 1, PATIENCE, 'it runs')
    steps = slow.metric('worker_steps_total')
    wait_until(lambda: slow.metric('worker_steps_total') > steps + 3, PATIENCE, 'tokens are computed')
    connection.close()
    closed = time.monotonic()
    wait_until(lambda: slow.running() == 0, 10 * STRETCH, 'it is ended')
    assert time.monotonic() - closed < 2 * STRETCH
    slow.wait_event('disconnect', request_id=mine)
