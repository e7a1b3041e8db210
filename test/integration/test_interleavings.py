"""200 random cancels, disconnects and timeouts; ORCD_SEED=N replays one run. Every stream that is read
to its end has exactly one terminal event, no job stays, and the streams that were left alone are
byte-identical to undisturbed ones. Source: M0-W-1311."""
import os
import random
import threading
import time

from http_client import Stream, check_stream, text_of
from pauses import pause
from worker_process import BACKEND, PATIENCE, SANITIZER, Worker, wait_until

SEED = int(os.environ.get('ORCD_SEED', '20251003'))
JOBS = 200
CLIENTS = 8
FATES = ('finish', 'finish', 'cancel', 'cancel', 'disconnect', 'reset', 'deadline', 'timeout')
MOMENT = 'a job is ended in any of its phases'
CODES = {'cancel': 'CANCELLED', 'deadline': 'INFERENCE_TIMEOUT', 'timeout': 'INFERENCE_TIMEOUT'}


def bodies(job: int) -> dict:
    return dict(job_id=f'mix-{job}', prompt=f'story {job % 10} ' + 'and then ' * (job % 10 * 12),
                max_tokens=10 + job % 10 * 6, temperature=0.8, seed=job % 10, ignore_eos=True)


class Mix:
    def __init__(self, worker: Worker, expected):
        self.worker, self.expected = worker, expected
        self.outcomes, self.failures = [], []
        self.lock = threading.Lock()

    def client(self, number: int) -> None:
        choice = random.Random(SEED * 1000 + number)
        for job in range(number, JOBS, CLIENTS):
            fate = choice.choice(FATES)
            delay = choice.random() * 0.06
            try:
                self.one(job, fate, delay)
            except Exception as problem:  # noqa: BLE001 - reported by the test with the job and the seed
                with self.lock:
                    self.failures.append(f'ORCD_SEED={SEED} job {job} {fate} {delay:.4f}: {problem!r}')

    def one(self, job: int, fate: str, delay: float) -> None:
        headers, body = {}, bodies(job)
        if fate == 'deadline':
            moment = time.time() + delay
            headers['X-Deadline'] = time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(moment)) + \
                f'.{int(moment % 1 * 1000):03d}Z'
        elif fate == 'timeout':
            body['timeout_ms'] = 1 + int(delay * 1000)
        connection = self.worker.send_execute(headers, **body)
        try:
            if fate == 'cancel':
                pause(delay, MOMENT)
                assert self.worker.cancel(f'mix-{job}').status == 202
            elif fate in ('disconnect', 'reset'):
                pause(delay, MOMENT)
                connection.reset() if fate == 'reset' else connection.close()
                return self.note(fate)
            stream = Stream(connection)
            if stream.response.status != 200:
                assert fate == 'deadline' and stream.response.status == 504, stream.response.body
                return self.note('504')
            events = stream.rest()
            last = check_stream(events)
            self.note(last.data.get('code', 'end'))
            if last.name == 'end':
                assert text_of(events) == self.expected[job % 10], 'bytes of an undisturbed stream differ'
            else:
                assert last.data['code'] == CODES[fate]
                assert self.expected[job % 10].startswith(text_of(events).rstrip('\ufffd'))
        finally:
            connection.close()

    def note(self, outcome: str) -> None:
        with self.lock:
            self.outcomes.append(outcome)


# A job takes about as long as the longest pause, so that every fate meets jobs in every phase.
SHAPES = {'': '--layers 4 --embedding 256 --heads 8 --kv-heads 4 --ffn 512',
          'address': '--layers 2 --embedding 128 --heads 8 --kv-heads 4 --ffn 256',
          'thread': '--layers 1 --embedding 64 --heads 4 --kv-heads 2 --ffn 64',
          'cuda': '--layers 64 --embedding 128 --heads 2 --kv-heads 1 --ffn 256'}


def test_two_hundred_interleavings(models):
    model = models('middle', *SHAPES['cuda' if BACKEND == 'cuda' else SANITIZER].split(), '--context', '1024')
    with Worker('--model', model, '--slots', '3', '--max-queue', '16') as worker:
        expected = [text_of(worker.execute(**bodies(n))) for n in range(10)]
        before = worker.descriptors()
        mix = Mix(worker, expected)
        clients = [threading.Thread(target=mix.client, args=(n,)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(5 * PATIENCE)
        assert not any(c.is_alive() for c in clients), f'ORCD_SEED={SEED}: a client hangs'
        assert not mix.failures, '\n'.join(mix.failures[:10])
        assert len(mix.outcomes) == JOBS
        counts = {o: mix.outcomes.count(o) for o in set(mix.outcomes)}
        for outcome, least in (('end', 20), ('CANCELLED', 5), ('disconnect', 5), ('INFERENCE_TIMEOUT', 5)):
            assert counts.get(outcome, 0) > least, counts
        worker.wait_idle()
        # A connection lingers for up to a second after its client left.
        wait_until(lambda: worker.descriptors() <= before + 2, PATIENCE, 'the descriptors are back')
        assert worker.alive()
        assert worker.metric('worker_requests_running') == 0
        assert [text_of(worker.execute(**bodies(n))) for n in range(10)] == expected
