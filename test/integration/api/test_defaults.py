"""What holds for requests that do not say how tokens are chosen and templates filled: the operator's options,
else what the model file recommends, else what the API says."""
import json

import pytest

from completion_worker import CHAT, TEXT, start
from gguf_edit import with_integers
from worker_process import Worker, request_body

# A file whose recommendation shows: the most likely token, whatever the seed.
KEYS = {b'general.sampling.temp': 0, b'general.sampling.top_k': 7, b'general.sampling.mirostat': 2}


@pytest.fixture(scope='module')
def greedy_model(tiny_model, tmp_path_factory):
    path = tmp_path_factory.mktemp('recommending') / 'greedy.gguf'
    path.write_bytes(with_integers(tiny_model.read_bytes(), KEYS))
    return path


@pytest.fixture(scope='module')
def by_file(greedy_model, tmp_path_factory):
    with start(greedy_model, tmp_path_factory.mktemp('by_file')) as worker:
        yield worker


@pytest.fixture(scope='module')
def by_option(greedy_model, tmp_path_factory):
    with start(greedy_model, tmp_path_factory.mktemp('by_option'), '--temperature', '1.5', '--seed', '3',
               '--top-p', '0.9', '--reasoning', 'off') as worker:
        yield worker


def settings(worker: Worker) -> dict:
    return worker.get('/props').json()['default_generation_settings']['params']


def texts(worker: Worker, path: str, body: dict, count: int = 3) -> set:
    """Of requests without a seed of their own, or with another one each."""
    out = set()
    for number in range(count):
        own = {'seed': number} if 'seed' in body else {}
        answer = worker.call('POST', path, {**body, **own})
        assert answer.status == 200, answer.body
        told = answer.json()
        out.add(json.dumps(told.get('choices', told.get('output')), sort_keys=True).replace(
            told.get('id', '-'), ''))
    return out


def said(**changes) -> dict:
    return {key: value for key, value in {**TEXT, **changes}.items() if key != 'temperature'}


def test_a_file_recommends(by_file):
    params = settings(by_file)
    assert (params['temperature'], params['top_k'], params['top_p']) == (0, 7, 1)
    assert len(texts(by_file, '/v1/completions', said(seed=0))) == 1
    told = {event['name']: (event['value'], event['from']) for event in by_file.events('sampling_default')}
    assert told == {'temperature': (0, 'file'), 'top_k': (7, 'file')}
    assert ['mirostat' in event['message'] for event in by_file.events('sampling_default_left')] == [True]


def test_a_request_goes_before(by_file):
    assert len(texts(by_file, '/v1/completions', {**said(seed=0), 'temperature': 2, 'top_k': 0})) > 1


def test_execute_has_the_defaults_of_its_own_api(by_file):
    def tokens(seed: int) -> tuple:
        events = by_file.execute(prompt='Once', max_tokens=20, seed=seed, temperature=None)
        return tuple(event.data['t'] for event in events if event.name == 'token')
    assert len({tokens(seed) for seed in range(3)}) > 1


def test_an_option_goes_before_the_file(by_option):
    params = settings(by_option)
    assert (params['temperature'], params['top_k'], params['top_p'], params['seed']) == (1.5, 7, 0.9, 3)
    body = {key: value for key, value in said().items() if key != 'seed'}
    assert len(texts(by_option, '/v1/completions', body)) == 1, 'a seed for all'
    assert len(texts(by_option, '/v1/completions', said(seed=0))) > 1
    assert len(texts(by_option, '/v1/completions', {**body, 'seed': -1, 'max_tokens': 30})) > 0
    told = {event['name']: event['from'] for event in by_option.events('sampling_default')}
    assert told == {'temperature': 'option', 'top_k': 'file', 'top_p': 'option'}


def test_a_response_says_what_held(by_option):
    answer = by_option.call('POST', '/v1/responses', {'input': 'hello', 'max_output_tokens': 3})
    assert (answer.json()['temperature'], answer.json()['top_p']) == (1.5, 0.9)


def test_a_template_is_told(by_option, by_file):
    """The template of these tests says in the prompt what it was told of thinking."""
    def rendered(worker: Worker, **more) -> str:
        return worker.call('POST', '/apply-template', {'messages': CHAT['messages'], **more}).json()['prompt']
    assert 'thinking False' in rendered(by_option)
    assert 'thinking' not in rendered(by_file)
    assert 'thinking True' in rendered(by_option, chat_template_kwargs={'enable_thinking': True})


def test_variables_of_the_operator(greedy_model, tmp_path):
    variables = '{"enable_thinking": true, "unread": 1}'
    with start(greedy_model, tmp_path, '--chat-template-kwargs', variables) as worker:
        prompt = worker.call('POST', '/apply-template', {'messages': CHAT['messages']}).json()['prompt']
        assert 'thinking True' in prompt
        left = [event['message'] for event in worker.events('template_variable_left')]
        assert len(left) == 1 and "'unread'" in left[0]


def test_the_file_decides_nothing_where_it_says_nothing(tiny):
    params = settings(tiny)
    assert (params['temperature'], params['top_k'], params['top_p'], params['min_p']) == (1, 0, 1, 0)
    assert not tiny.events('sampling_default')
    assert tiny.execute(**request_body(job_id='plain', max_tokens=2))[-1].name == 'end'
