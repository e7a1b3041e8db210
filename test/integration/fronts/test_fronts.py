"""Two workers behind nginx, HAProxy and vllm-router: what passes, where it goes, and what a worker that dies,
drains or is full means for clients. Figures are printed; docs/performance/host.md has those of one run."""
import json
import statistics
import time

import pytest

from engines import Witness
from fronts import ask, completion
from http_client import Connection, Stream
from load import PROMPTS, TOKENS, Load, bare
from worker_process import PATIENCE, STRETCH, fastest, request_body, wait_until

LONG = 4000  # tokens: seconds, of which no test waits for the end


@pytest.fixture(scope='module')
def expected(site):
    """What the load's requests are answered by a worker itself."""
    site.wait_idle()
    answers = [ask(site.workers[0], prompt, max_tokens=TOKENS, stream=True) for prompt in PROMPTS]
    assert all(answer.status == 200 for answer in answers)
    return [bare(answer.body) for answer in answers]


@pytest.fixture(autouse=True)
def idle(site):
    site.wait_idle()


def timed(port, path, body):
    """When each piece of an answer came, counted from the request, and the whole."""
    with Connection(port, timeout=PATIENCE) as connection:
        begin = time.monotonic()
        connection.request('POST', path, body)
        assert connection.read_head().status == 200
        pieces = [(time.monotonic() - begin, piece) for piece in connection.chunks()]
    return [at for at, _ in pieces], b''.join(piece for _, piece in pieces)


@pytest.mark.parametrize('path', ['/v1/completions', '/v1/chat/completions'])
def test_a_stream_passes_piece_by_piece_and_byte_for_byte(path, site):
    body = json.loads(completion('Once upon a time', max_tokens=400, stream=True))
    if 'chat' in path:
        body['messages'] = [{'role': 'user', 'content': body.pop('prompt')}]
    body = json.dumps(body).encode()
    _, direct = timed(site.workers[1].port, path, body)
    tried = []
    for _ in range(5):  # this process, too, may have been kept from running
        at, through = timed(site.front.port, path, body)
        assert bare(through) == bare(direct) and through.endswith(b'data: [DONE]\n\n')
        tried.append((len(at), at[0], at[-1]))
        if len(at) > 20 and at[0] < at[-1] / 2:
            return
    raise AssertionError(f'pieces, the first after, the last after: {tried}')


def test_execute_passes_with_its_events(site):
    body = json.dumps(request_body(max_tokens=50, ignore_eos=True)).encode()
    with Connection(site.front.port) as connection:
        connection.request('POST', '/execute', body)
        end = Stream(connection).finish()
    assert end.name == 'end' and end.data['tokens_out'] == 50


def test_headers_pass_both_ways(site):
    answer = ask(site.front, 'x', {'X-Request-Id': 'mine-1'}, max_tokens=1)
    assert answer.status == 200 and answer.headers['x-request-id'] == 'mine-1'
    assert ask(site.front, 'x', max_tokens=1).headers['x-request-id']
    late = ask(site.front, 'x', {'X-Deadline': '1'}, max_tokens=1)
    assert late.status == 504 and late.error['code'] == 'INFERENCE_TIMEOUT'
    refused = ask(site.front, 'x', {'KRONK_IMC_ID': 's' * 257}, max_tokens=1)
    assert refused.status == 400 and refused.error['param'] == 'KRONK_IMC_ID'


def test_the_workers_own_limit_of_bodies_is_told(site):
    answer = ask(site.front, 'x' * (1 << 20), max_tokens=1)
    assert answer.status == 413 and answer.error['code'] == 'PAYLOAD_TOO_LARGE'


def spellings(path: str) -> list:
    """As somebody writes a path who wants to get past the front's rule for it."""
    first, rest = path[1:2], path[2:]
    return [path, path + '/', '/' + path, path + '?x=1', path + '#x', '/.' + path, '/x/..' + path,
            path + '//', f'/%{ord(first):02x}{rest}', path.upper(), path + ';x', path + '%2f', '/v1' + path,
            path.replace('/v1', ''), path.replace('/v1/', '/v1//'), f'http://localhost{path}',
            f'HTTP://localhost{path}']


@pytest.mark.parametrize('method, path', [
    ('POST', '/shutdown'), ('GET', '/metrics'), ('POST', '/lora-adapters'), ('POST', '/v1/load_lora_adapter'),
    ('POST', '/v1/unload_lora_adapter')])
def test_nobody_gives_a_worker_orders_through_the_front(method, path, site):
    if site.front.name == 'vllm-router':
        pytest.skip('vllm-router passes every path on, which docs/operations.md says')
    for spelled in spellings(path):
        with Connection(site.front.port) as connection:
            connection.request(method, spelled, b'[]' if method == 'POST' else None)
            assert connection.read_head().status in (400, 404, 405), spelled
    assert all(worker.get('/ready').status == 200 for worker in site.workers)
    assert not any(worker.events('operator_order') for worker in site.workers)


@pytest.mark.parametrize('stream', [True, False])
def test_a_client_that_leaves_ends_its_job(stream, site):
    def leave():
        connection = Connection(site.front.port)
        connection.request('POST', '/v1/completions', completion('x', max_tokens=LONG, stream=stream))
        if stream:
            assert connection.read_head().status == 200
        wait_until(lambda: site.running() == 1, PATIENCE * STRETCH, 'the job runs')
        left = time.monotonic()
        connection.close()
        wait_until(lambda: site.running() == 0, PATIENCE * STRETCH, 'the job has ended')
        return time.monotonic() - left
    fastest(leave, 1.0)


def converse(site, name, session, count):
    """So many conversations of two turns. The queries of each worker's prefix cache, and the hits of both."""
    said = {i: f'{name} {i}: ' + f'a long beginning that only {i} has said. ' * 4 for i in range(count)}
    names = ['worker_prefix_cache_hits_total', 'worker_prefix_cache_queries_total']
    before = [[worker.metric(n) for worker in site.workers] for n in names]
    for turn in range(2):
        for i, text in said.items():
            headers, more = session(f'{name}-{i}')
            answer = ask(site.front, text, headers, max_tokens=1, **more)
            assert answer.status == 200
            said[i] = text + answer.json()['choices'][0]['text'] + f' And turn {turn}?'
    after = [[worker.metric(n) for worker in site.workers] for n in names]
    hits, queries = [[int(b - a) for a, b in zip(*of)] for of in zip(before, after)]
    assert sum(queries) == 2 * count
    return queries, sum(hits)


def test_a_session_finds_the_cache_of_its_worker(site):
    queries, hits = converse(site, 'header', lambda name: (site.front.session(name), {}), 14)
    assert min(queries) > 0 and hits == 14, (queries, hits)
    if site.front.body_session:
        assert converse(site, 'field', lambda name: ({}, {'imc_id': name}), 4)[1] == 4
        assert converse(site, 'key', lambda name: ({}, {'prompt_cache_key': name}), 4)[1] == 4
    print(f'{site.front.name}: {hits} of 14 second turns were hits, queries by worker {queries}')


def test_what_the_front_adds(site):
    took = {site.front: [], site.workers[0]: []}
    for _ in range(25):
        for where, times in took.items():
            begin = time.monotonic()
            assert ask(where, 'x', max_tokens=1).status == 200
            times.append(time.monotonic() - begin)
    through, direct = [statistics.median(times) * 1000 for times in took.values()]
    print(f'{site.front.name}: median {through:.2f} ms through it, {direct:.2f} ms direct')


def test_a_full_worker_says_when_to_come_again(site):
    streams = []
    try:
        for worker in site.workers:
            for _ in range(4):
                connection = worker.connect()
                connection.request('POST', '/v1/completions', completion('x', max_tokens=LONG, stream=True))
                streams.append(connection)
        for name in ('running', 'waiting'):
            wait_until(lambda n=name: site.total(f'worker_requests_{n}') == 4, PATIENCE, f'four are {name}')
        answer = ask(site.front, 'x', max_tokens=1)
        assert answer.status == 429 and answer.error['code'] == 'QUEUE_FULL'
        assert int(answer.headers['retry-after']) >= 1
    finally:
        for connection in streams:
            connection.close()


def test_a_worker_that_drains_loses_nothing(site, expected):
    before = site.front.retried()
    with Load(site.front.port, expected) as load:
        load.wait_each(1, 0)
        wait_until(lambda: site.workers[1].running() > 0, PATIENCE, 'it has work')
        drained = time.monotonic()
        site.workers[1].terminate()
        load.wait_each(2, drained)
        assert site.workers[1].wait_exit(PATIENCE) == 0
        load.wait_each(1, time.monotonic())
    others = [outcome.what for outcome in load.outcomes() if outcome.what != 'whole']
    print(f'{site.front.name}: a drain: {len(load.outcomes())} requests, {len(others)} lost, '
          f'{site.front.retried() - before} retried')
    site.again(1)
    assert others == []


def test_a_worker_that_is_killed_loses_what_ran_there(site, expected):
    before = site.front.retried()
    with Load(site.front.port, expected) as load:
        load.wait_each(1, 0)
        wait_until(lambda: site.workers[0].running() > 0, PATIENCE, 'it has work')
        witness = Witness(site.workers[0].port)
        ran = int(site.workers[0].running() + site.workers[0].waiting()) - 1
        site.workers[0].process.kill()
        witness.is_cut()
        site.workers[0].process.wait(PATIENCE)  # until the kernel has closed its connections it seems to run
        gone = time.monotonic()
        load.wait_each(2, gone)
    lost = [outcome for outcome in load.outcomes() if outcome.what != 'whole']
    print(f'{site.front.name}: a kill: {len(load.outcomes())} requests, {ran} ran there, '
          f'{[o.what for o in lost]} lost, {site.front.retried() - before} retried')
    site.again(0)
    # Those that were sent there, and no later one.
    assert all(outcome.began < gone + 0.5 for outcome in lost), (gone, lost)
    assert {outcome.what for outcome in lost} <= {'cut', '502', '503', '500'}
    assert len(lost) <= 4


def test_where_all_drain_clients_are_told_when_to_come_again(site):
    """The last one: nobody serves any more."""
    streams = [worker.connect() for worker in site.workers]
    for connection in streams:
        connection.request('POST', '/v1/completions', completion('x', max_tokens=LONG, stream=True))
        assert connection.read_head().status == 200
    for worker in site.workers:
        worker.terminate()
        wait_until(lambda w=worker: w.get('/ready').status == 503, PATIENCE, 'it drains')
    answer = ask(site.front, 'x', max_tokens=1)
    assert answer.status == 503, answer
    assert site.front.own_refusals or int(answer.headers['retry-after']) >= 1
    for connection in streams:
        connection.close()
