"""Waiting, refusing, cancelling, leaving, running out of time; the bytes of a stream do not depend on
what happens beside it. Sources: M0-W-1301, 1330, 1610, 1611, WORK-3044, 3053, 3072."""
import datetime
import threading
import time

import pytest

from http_client import Stream, check_stream, text_of
from worker_process import PATIENCE, STRETCH, Worker, fastest, wait_until

LONG = dict(max_tokens=3000, ignore_eos=True)
# Enough prompt for many prefill chunks: some seconds on the slow model.
LONG_PROMPT = 'word ' * 900
# From a cancel or a disconnect to the job stopped, client and both requests included.
STOP_LIMIT = 0.1 * STRETCH


def until_stopped(worker: Worker, begin: float) -> float:
    """Seconds from the request to end a job to the job stopped."""
    wait_until(lambda: worker.running() == 0, PATIENCE, 'the job has stopped', step=0.001)
    return time.monotonic() - begin


def test_waiting_jobs_run_in_order(slow):
    running = slow.open(job_id='first', **LONG)
    running.until('token')
    waiting = []
    for name in ('second', 'third'):
        connection = slow.send_execute(job_id=name, max_tokens=3)
        wait_until(lambda: slow.waiting() == len(waiting) + 1, PATIENCE, f'{name} waits')
        waiting.append(connection)
    slow.cancel('first')
    begun = {}
    for name, connection in zip(('second', 'third'), waiting):
        events = Stream(connection).rest()
        assert events[0].data['job_id'] == name
        assert check_stream(events).name == 'end'
        begun[name] = events[0].data['started_at']
        connection.close()
    assert begun['second'] <= begun['third']
    assert running.finish().data['code'] == 'CANCELLED'
    running.close()


def test_full_queue_is_refused_with_retry_after(slow):
    running = slow.open(**LONG)
    running.until('token')
    waiting = [slow.send_execute(max_tokens=2) for _ in range(2)]
    wait_until(lambda: slow.waiting() == 2, PATIENCE, 'the queue is full')
    refused = slow.open(max_tokens=2)
    assert refused.response.status == 429
    assert int(refused.response.headers['retry-after']) >= 1
    error = refused.response.error
    assert (error['code'], error['retriable'], error['type']) == ('QUEUE_FULL', True, 'rate_limit_error')
    assert '2' in error['message'], 'the message names the limit'
    assert slow.get('/ready').status == 200, 'being busy is not being unready'
    for connection in [running.connection, refused.connection, *waiting]:
        connection.close()


def test_no_queue_at_all(slow_model):
    with Worker('--model', slow_model, '--max-queue', '0') as worker:
        running = worker.open(max_tokens=2000, ignore_eos=True)
        running.until('token')
        assert worker.open(max_tokens=1).response.status == 429
        running.close()
        worker.wait_idle()
        assert worker.execute(max_tokens=1)[-1].name == 'end'


def test_duplicate_job_id_is_refused_while_the_first_lives(slow):
    running = slow.open(job_id='twice', **LONG)
    running.until('token')
    refused = slow.open(job_id='twice', max_tokens=1)
    assert refused.response.status == 409
    assert refused.response.error['code'] == 'DUPLICATE_JOB'
    assert refused.response.error['param'] == 'job_id' and 'twice' in refused.response.error['message']
    assert running.next().name == 'token', 'the first goes on'
    slow.cancel('twice')
    running.rest()
    running.close()
    slow.wait_idle()
    assert slow.execute(job_id='twice', max_tokens=1)[-1].name == 'end', 'the name is free again'


def test_waiting_job_is_cancelled(slow):
    running = slow.open(**LONG)
    running.until('token')
    waiting = slow.send_execute(job_id='waits', max_tokens=5)
    wait_until(lambda: slow.waiting() == 1, PATIENCE, 'a job waits')
    begin = time.monotonic()
    assert slow.cancel('waits').status == 202
    stream = Stream(waiting)
    events = stream.rest()
    assert time.monotonic() - begin < 2 * STRETCH, 'it did not wait for the job ahead'
    assert stream.response.status == 200 and [e.name for e in events] == ['error']
    assert check_stream(events).data['code'] == 'CANCELLED'
    assert slow.waiting() == 0 and slow.running() == 1
    running.close()
    stream.close()


def test_waiting_client_that_leaves_is_forgotten(slow):
    running = slow.open(**LONG)
    running.until('token')
    waiting = slow.send_execute(max_tokens=5)
    wait_until(lambda: slow.waiting() == 1, PATIENCE, 'a job waits')
    waiting.close()
    wait_until(lambda: slow.waiting() == 0, PATIENCE, 'the waiting job is gone')
    assert slow.running() == 1 and running.next().name == 'token'
    running.close()


def test_cancel_in_decode(slow):
    def attempt() -> float:
        stream = slow.open(job_id='decode', **LONG)
        stream.until('token', 5)
        begin = time.monotonic()
        assert slow.cancel('decode').status == 202
        took = until_stopped(slow, begin)
        last = stream.finish()
        assert (last.name, last.data['code'], last.data['retriable']) == ('error', 'CANCELLED', False)
        stream.close()
        return took
    fastest(attempt, STOP_LIMIT)


def test_cancel_in_prefill(slow):
    def attempt() -> float:
        connection = slow.send_execute(job_id='prefill', prompt=LONG_PROMPT, max_tokens=5)
        wait_until(lambda: slow.running() == 1, PATIENCE, 'the job runs', step=0.001)
        begin = time.monotonic()
        assert slow.cancel('prefill').status == 202
        took = until_stopped(slow, begin)
        events = Stream(connection).rest()
        assert not any(e.name == 'token' for e in events), 'cancelled after the prefill: prompt too short'
        assert check_stream(events).data['code'] == 'CANCELLED'
        connection.close()
        return took
    fastest(attempt, STOP_LIMIT)


def test_cancel_is_idempotent(slow):
    stream = slow.open(job_id='again', **LONG)
    stream.until('token')
    answers = [slow.cancel('again') for _ in range(5)]
    assert {a.status for a in answers} == {202}
    assert stream.finish().data['code'] == 'CANCELLED'
    stream.close()
    slow.wait_idle()
    assert slow.cancel('again').status == 202, 'a finished job'
    assert slow.cancel('never-seen').status == 202, 'an unknown job'
    assert {a.body for a in answers} == {slow.cancel('again').body}, 'the same outcome each time'


@pytest.mark.parametrize('way', ['fin', 'rst'])
def test_disconnect_in_decode(slow, way):
    def attempt() -> float:
        stream = slow.open(**LONG)
        stream.until('token', 3)
        begin = time.monotonic()
        stream.connection.reset() if way == 'rst' else stream.close()
        return until_stopped(slow, begin)
    fastest(attempt, STOP_LIMIT)


@pytest.mark.parametrize('way', ['fin', 'rst'])
def test_disconnect_in_prefill(slow, way):
    before = slow.metric('worker_tokens_generated_total')

    def attempt() -> float:
        connection = slow.send_execute(prompt=LONG_PROMPT, max_tokens=5)
        wait_until(lambda: slow.running() == 1, PATIENCE, 'the job runs', step=0.001)
        begin = time.monotonic()
        connection.reset() if way == 'rst' else connection.close()
        return until_stopped(slow, begin)
    fastest(attempt, STOP_LIMIT)
    assert slow.metric('worker_tokens_generated_total') == before


def test_disconnects_are_counted_by_phase(slow):
    before = slow.metric('worker_disconnects_total')
    stream = slow.open(**LONG)
    stream.until('token')
    stream.close()
    wait_until(lambda: slow.metric('worker_disconnects_total') == before + 1, PATIENCE,
               'the disconnect is counted')


def test_inference_timeout(slow_model):
    with Worker('--model', slow_model, '--inference-timeout-sec', '1', '--max-tokens-out', '8000') as worker:
        worker.wait_event('ready')
        begin = time.monotonic()
        events = worker.execute(max_tokens=7500, ignore_eos=True)
        took = time.monotonic() - begin
        assert events[-1].data['code'] == 'INFERENCE_TIMEOUT' and events[-1].data['retriable'] is True
        assert 0.9 < took < 3 * STRETCH, took
        assert any(e.name == 'token' for e in events)
        assert worker.execute(max_tokens=2)[-1].name == 'end', 'the worker lives on'


def test_timeout_counts_from_the_request_also_for_a_waiting_job(slow_model):
    with Worker('--model', slow_model, '--inference-timeout-sec', '1', '--max-tokens-out', '8000') as worker:
        worker.wait_event('ready')
        first = worker.open(max_tokens=7500, ignore_eos=True)
        first.until('token')
        second = worker.execute(max_tokens=7500, ignore_eos=True)
        assert second[-1].data['code'] == 'INFERENCE_TIMEOUT'
        assert first.finish().data['code'] == 'INFERENCE_TIMEOUT'
        first.close()


def deadline_in(seconds: float) -> str:
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return moment.strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3] + 'Z'


def test_deadline_is_enforced_while_running(slow):
    begin = time.monotonic()
    events = slow.execute(headers={'X-Deadline': deadline_in(0.6)}, **LONG)
    assert events[-1].data['code'] == 'INFERENCE_TIMEOUT'
    assert 0.5 < time.monotonic() - begin < 3 * STRETCH


def test_deadline_in_the_past_is_refused_at_admission(slow):
    answer = slow.open(headers={'X-Deadline': deadline_in(-5)}, max_tokens=3)
    assert answer.response.status == 504, answer.response.body
    assert answer.response.error['code'] == 'INFERENCE_TIMEOUT'


def test_malformed_deadline_is_refused(slow):
    answer = slow.open(headers={'X-Deadline': 'tomorrow'}, max_tokens=3)
    assert answer.response.status == 400
    assert answer.response.error['code'] == 'INVALID_REQUEST'
    assert 'deadline' in answer.response.error['message'].lower()


def test_deadline_mode_log_only_logs(tiny_model):
    with Worker('--model', tiny_model, '--deadline-mode', 'log') as worker:
        events = worker.execute(headers={'X-Deadline': deadline_in(-5)}, max_tokens=3)
        assert events[-1].name == 'end'


def test_four_slots_give_the_bytes_of_one(tiny_model):
    jobs = [dict(prompt=f'{"Once upon a time " * (n % 4)}number {n}', max_tokens=40 + n,
                 temperature=(n % 3) * 0.7, seed=n, ignore_eos=True) for n in range(12)]

    def run_all(worker, parallel):
        found = [None] * len(jobs)

        def one(index):
            events = worker.execute(**jobs[index])
            found[index] = [(e.data['t'], e.data['i']) for e in events if e.name == 'token']
        threads = [threading.Thread(target=one, args=(n,)) for n in range(len(jobs))]
        for thread in threads:
            thread.start()
            if not parallel:
                thread.join()
        for thread in threads:
            thread.join(5 * PATIENCE)
        return found

    with Worker('--model', tiny_model, '--slots', '1', '--max-queue', '16') as worker:
        alone = run_all(worker, parallel=False)
    with Worker('--model', tiny_model, '--slots', '4', '--max-queue', '16') as worker:
        together = run_all(worker, parallel=True)
    assert all(alone) and together == alone


def test_slots_really_run_together(slow_model):
    with Worker('--model', slow_model, '--slots', '3', '--max-queue', '0', '--context', '4096') as worker:
        streams = [worker.open(max_tokens=1500, ignore_eos=True) for _ in range(3)]
        for stream in streams:
            stream.until('token')
        assert worker.running() == 3
        assert worker.open(max_tokens=1).response.status == 429
        for stream in streams:
            stream.close()
        worker.wait_idle()


def test_restart_gives_the_same_bytes(tiny_model, tiny):
    body = dict(max_tokens=50, temperature=0.9, seed=5, ignore_eos=True)
    with Worker('--model', tiny_model) as worker:
        assert text_of(worker.execute(**body)) == text_of(tiny.execute(**body))
