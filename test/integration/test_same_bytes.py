"""Same request, same bytes: alone, in eight slots beside random neighbours, from the prefix cache,
whatever chunks a prompt is cut into, across restarts, streamed or not, one choice or several. On any
backend and model:

    ORCD_SAME_MODEL=FILE ORCD_GPU=1 ORCD_BUILD_DIR=... pytest test/integration/test_same_bytes.py

Without these a tiny model on the host backend. Log probabilities are part of what is compared, so that a bit
that changes no token shows as well."""
import json
import os
import random
import threading

import pytest

from completion_worker import TEMPLATE, frames
from cuda_worker import ON_GPU
from worker_process import PATIENCE, STRETCH, Worker

SLOTS = 8
LONG = ' '.join(f'{i * i % 97} {"abcdefghij"[i % 10]}' for i in range(150))
TEXT, CHAT = '/v1/completions', '/v1/chat/completions'
ASK = {'max_tokens': 20, 'seed': 11, 'ignore_eos': True}
REQUESTS = {
    'greedy': (TEXT, {'prompt': 'Once upon a time', 'temperature': 0, 'logprobs': 5}),
    'sampled': (TEXT, {'prompt': LONG, 'temperature': 0.9, 'top_p': 0.95, 'logprobs': 2}),
    'filtered': (TEXT, {'prompt': LONG[:300], 'temperature': 1.3, 'top_k': 40, 'min_p': 0.02,
                        'repetition_penalty': 1.2, 'presence_penalty': 0.3, 'logprobs': 1}),
    'biased': (TEXT, {'prompt': LONG[50:200], 'temperature': 0.7, 'logprobs': 3, 'frequency_penalty': 0.4,
                      'logit_bias': {str(i): (i % 7) - 3.25 for i in range(0, 250, 3)}}),
    'samplers': (TEXT, {'prompt': LONG[:200], 'temperature': 1.1, 'top_k': 60, 'typical_p': 0.95,
                        'logprobs': 2, 'top_n_sigma': 2.5, 'xtc_probability': 0.5, 'xtc_threshold': 0.02,
                        'dynatemp_range': 0.4, 'dry_multiplier': 0.8, 'dry_sequence_breakers': ['7', 'ab']}),
    'biased greedy': (TEXT, {'prompt': 'x', 'temperature': 0, 'logit_bias': {'40': 3.5, '41': -100}}),
    'grammar': (CHAT, {'messages': [{'role': 'user', 'content': LONG[:400]}], 'temperature': 1,
                       'logprobs': True, 'top_logprobs': 4, 'response_format': {'type': 'json_object'},
                       'logit_bias': {'50': 2.0}}),
}


@pytest.fixture(scope='module')
def start(models, tmp_path_factory):
    """start(*options): a worker that is ready."""
    model = os.environ.get('ORCD_SAME_MODEL') or models('same', '--context', '2048')
    template = tmp_path_factory.mktemp('same') / 'template.jinja'
    template.write_text(TEMPLATE)

    def run(*options: str) -> Worker:
        backend = ('--backend', 'cuda') if ON_GPU else ()
        worker = Worker('--model', model, '--context', '2048', '--chat-template', template,
                        '--max-queue', '64', *backend, *options, backend=not ON_GPU)
        worker.wait_event('ready')
        return worker
    return run


@pytest.fixture(scope='module')
def eight(start):
    with start('--slots', str(SLOTS), '--cache-min-tokens', '1') as worker:
        yield worker


def answer(worker: Worker, name: str, **changes):
    """Choices, as they were written, and how many tokens of the prompt were cached."""
    path, body = REQUESTS[name]
    response = worker.call('POST', path, {**ASK, **body, 'cache_prompt': False, **changes})
    assert response.status == 200, response.body
    whole = response.json()
    return json.dumps(whole['choices']), whole['usage']['prompt_tokens_details']['cached_tokens']


@pytest.fixture(scope='module')
def alone(start):
    """What each request gets from a worker with one slot and no prefix cache."""
    with start('--no-prefix-cache') as worker:
        return {name: answer(worker, name)[0] for name in REQUESTS}


def test_requests_differ_and_a_restart_changes_nothing(start, alone):
    assert len(set(alone.values())) == len(REQUESTS)
    with start('--no-prefix-cache') as again:
        for name, expected in alone.items():
            assert answer(again, name)[0] == expected, name


class Neighbour(threading.Thread):
    """Random requests, half of them left in the middle, until it is told to stop."""

    def __init__(self, worker: Worker, number: int, stop: threading.Event):
        super().__init__(daemon=True)
        self.worker, self.stop, self.random = worker, stop, random.Random(number)
        self.asked = 0

    def run(self) -> None:
        while not self.stop.is_set():
            at = self.random.randrange(len(LONG) // 2)
            body = {**ASK, 'prompt': LONG[at:at + self.random.randrange(2, 600)], 'stream': True,
                    'max_tokens': self.random.randrange(1, 60), 'seed': self.random.randrange(1000),
                    'temperature': self.random.choice([0, 0.8]), 'n': self.random.choice([1, 1, 2]),
                    'logit_bias': {'5': 1} if self.random.random() < 0.3 else {}}
            with self.worker.connect() as connection:
                connection.request('POST', TEXT, json.dumps(body).encode())
                if self.random.random() < 0.5:
                    connection.socket.recv(256)
                else:
                    connection.read_response()
            self.asked += 1


def test_random_neighbours_change_nothing(eight, alone):
    stop = threading.Event()
    neighbours = [Neighbour(eight, i, stop) for i in range(SLOTS - 1)]
    for neighbour in neighbours:
        neighbour.start()
    try:
        for _ in range(3):
            for name, expected in alone.items():
                assert answer(eight, name)[0] == expected, name
    finally:
        stop.set()
        for neighbour in neighbours:
            neighbour.join(PATIENCE * STRETCH)
    assert all(n.asked > 0 for n in neighbours)


def test_all_of_them_at_once(eight, alone):
    got = {}
    threads = [threading.Thread(target=lambda n=name: got.update({n: answer(eight, n)[0]})) for name in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * STRETCH)
    assert got == alone


@pytest.mark.parametrize('name', REQUESTS)
def test_a_cache_hit_changes_nothing(eight, alone, name):
    more = {'cache_prompt': True, 'cache_salt': f'hit {name}'}
    cold, none = answer(eight, name, **more)
    warm, cached = answer(eight, name, **more)
    assert cold == warm == alone[name]
    # A prompt of one token has nothing to take from anywhere.
    assert none == 0 and (cached > 0 or len(str(REQUESTS[name][1].get('prompt', LONG))) < 3)


@pytest.mark.parametrize('length', [1, 7, 64, 255, 256, 257, 400, len(LONG) - 1])
def test_where_a_prompt_is_cut_changes_nothing(eight, alone, length):
    """The first chunk begins where a cached prefix ends, and the chunks after it are cut from there."""
    prompt, salt = REQUESTS['sampled'][1]['prompt'], f'cut {length}'
    more = {'cache_prompt': True, 'cache_salt': salt}
    answer(eight, 'greedy', prompt=prompt[:length], max_tokens=1, **more)
    got, cached = answer(eight, 'sampled', **more)
    assert got == alone['sampled']
    assert cached > 0 or length == 1


def test_a_choice_does_not_depend_on_how_many_there_are(eight, alone):
    for name in ('sampled', 'filtered', 'biased'):
        many = json.loads(answer(eight, name, n=SLOTS)[0])
        some = json.loads(answer(eight, name, n=3, cache_prompt=True)[0])
        assert some == many[:3], name
        assert many[:1] == json.loads(alone[name]), name
        assert len({json.dumps(choice['text']) for choice in many}) > 1, name


@pytest.mark.parametrize('name', REQUESTS)
def test_a_stream_says_the_same(eight, alone, name):
    path, body = REQUESTS[name]
    response = eight.call('POST', path, {**ASK, **body, 'stream': True})
    *chunks, done = frames(response.body)
    assert done == '[DONE]'
    choices = [choice for chunk in chunks for choice in json.loads(chunk)['choices']]
    (expected,) = json.loads(alone[name])
    if path == TEXT:
        assert ''.join(c['text'] for c in choices) == expected['text']
    else:
        assert ''.join(c['delta'].get('content') or '' for c in choices) == expected['message']['content']
        told = [token for c in choices if c['logprobs'] for token in c['logprobs']['content']]
        assert told == expected['logprobs']['content']
    assert choices[-1]['finish_reason'] == expected['finish_reason']


def text_of(choices: str) -> str:
    choice = json.loads(choices)[0]
    return choice['text'] if 'text' in choice else choice['message']['content'] or ''


def test_drafts_change_nothing(start, alone):
    """Whether the prediction is right, becomes wrong or is of something else, with few drafts and many."""
    told = {'accepted': 0, 'rejected': 0}
    for drafts in ('1', '4', '15'):
        with start('--slots', '3', '--speculate', drafts) as worker:
            for name, expected in alone.items():
                text = text_of(expected)
                for prediction in (text, text[:len(text) // 2] + 'q' + text, 'nothing of that'):
                    path, body = REQUESTS[name]
                    response = worker.call('POST', path, {
                        **ASK, **body, 'prediction': {'type': 'content', 'content': prediction}})
                    assert response.status == 200, response.body
                    whole = response.json()
                    assert json.dumps(whole['choices']) == expected, (name, drafts, prediction)
                    details = whole['usage']['completion_tokens_details']
                    for key in told:
                        told[key] += details[key + '_prediction_tokens']
            metrics = worker.get('/metrics').body.decode()
            assert 'worker_draft_tokens_total 0\n' not in metrics
    assert told['accepted'] > 0 and told['rejected'] > 0, told


def test_off_checks_no_drafts(start, alone):
    with start('--speculate', 'off') as worker:
        path, body = REQUESTS['greedy']
        body = {**ASK, **body, 'prediction': {'type': 'content', 'content': text_of(alone['greedy'])}}
        whole = worker.call('POST', path, body).json()
        assert json.dumps(whole['choices']) == alone['greedy']
        assert whole['usage']['completion_tokens_details']['accepted_prediction_tokens'] == 0
        assert 'worker_draft_tokens_total 0\n' in worker.get('/metrics').body.decode()
