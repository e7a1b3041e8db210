"""A stream of /execute that one worker began and another one goes on with: the client names the last event
that it has, and gets what follows."""
import json

import pytest

from http_client import Closed, parse_event
from worker_process import Worker, request_body

BODIES = {
    'drawn': dict(prompt='The quick brown fox', max_tokens=60, temperature=1.1, top_p=0.9, seed=7,
                  repetition_penalty=1.2, ignore_eos=True),
    'greedy': dict(prompt='Once upon a time', max_tokens=40, temperature=0, seed=1, metrics=True),
    'stop': dict(prompt='Once upon', max_tokens=60, temperature=1.3, seed=3, stop=['e', 'zz'],
                 ignore_eos=True),
}


@pytest.fixture(scope='module')
def workers(tiny_model):
    """Two processes with the same model; one batches and cuts prompts otherwise than the other."""
    with Worker('--model', tiny_model) as one, Worker('--model', tiny_model, '--slots', '3') as other:
        yield one, other


def told(events):
    """What a client is told, without figures of time."""
    kept = ('finish_reason', 'tokens_in', 'tokens_out')
    return [(e.name, e.id, e.data if e.name == 'token' else {k: e.data[k] for k in kept if k in e.data})
            for e in events if e.name != 'started']


def rest_of(worker, body, last):
    return worker.open(headers={'Last-Event-ID': str(last)}, **body).rest()


@pytest.mark.parametrize('name', BODIES)
def test_the_parts_of_two_workers_are_the_whole(workers, name):
    one, other = workers
    body = BODIES[name]
    whole = one.execute(job_id='whole', **body)
    ids = [int(e.id) for e in whole if e.name == 'token']
    assert ids and whole[-1].name == 'end'
    for last in sorted({0, ids[0], ids[len(ids) // 2], ids[-1], ids[-1] + 1, 4294967295}):
        rest = rest_of(other, {**body, 'job_id': f'rest-{last}'}, last)
        begun = [e for e in whole if e.name == 'token' and int(e.id) <= last]
        assert told(begun) + told(rest) == told(whole), last
        assert not [e for e in rest if e.name == 'started']
    assert [e.name for e in rest if e.name != 'metrics'] == ['end'], 'behind the last event there is the end'


def test_a_stream_that_is_cut_goes_on_elsewhere(slow_model):
    body = dict(prompt='The quick brown fox', max_tokens=1000, temperature=0.8, seed=5, ignore_eos=True)
    with Worker('--model', slow_model) as one, Worker('--model', slow_model) as other:
        stream = one.open(job_id='cut', **body)
        events = stream.until('token', 5)
        one.process.kill()
        with pytest.raises((Closed, OSError, AssertionError)):
            stream.finish()
        assert stream.seen[-1].name == 'token', 'the kill hit no stream'
        begun = b''.join(e.raw + b'\n\n' for e in events)
        last = [e.id for e in events if e.name == 'token'][-1]
        rest = b''.join(e.raw + b'\n\n' for e in rest_of(other, {**body, 'job_id': 'cut'}, last))
        whole = other.execute(job_id='again', **body)
    both = [parse_event(block) for block in (begun + rest).split(b'\n\n') if block]
    assert [e.name for e in both] == [e.name for e in whole]
    assert told(both) == told(whole)


@pytest.mark.parametrize('value', ['', 'x', '-1', '1.5', '4294967296', '1 2', '0x10'])
def test_what_is_no_id_is_refused(workers, value):
    answer = workers[0].call('POST', '/execute', request_body(job_id='bad'), {'Last-Event-ID': value})
    assert answer.status == 400
    assert answer.error['code'] == 'INVALID_REQUEST' and answer.error['param'] == 'Last-Event-ID'


def test_what_is_drawn_needs_its_seed(workers):
    body = request_body(job_id='seedless', temperature=0.9)
    body.pop('seed', None)
    answer = workers[0].call('POST', '/execute', json.dumps(body).encode(), {'Last-Event-ID': '3'})
    assert answer.status == 400 and answer.error['param'] == 'seed'


def test_other_endpoints_do_not_look_at_it(workers):
    answer = workers[0].call('POST', '/v1/completions', {'prompt': 'a', 'max_tokens': 3},
                             {'Last-Event-ID': 'x'})
    assert answer.status == 200
