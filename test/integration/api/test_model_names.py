"""What the model is called, and by which names clients may ask for it."""
import json
import os
from typing import Iterator

import pytest

from completion_worker import chat, contents, frames, start, text
from worker_process import Worker


@pytest.fixture(scope='module')
def named(tiny_model, tmp_path_factory) -> Iterator[Worker]:
    with start(tiny_model, tmp_path_factory.mktemp('names'), '--model-name', 'org/Small Model',
               '--model-name', 'gpt-4o') as worker:
        yield worker


def test_each_name_is_listed_and_the_first_stands_in_all_answers(named):
    models = named.get('/v1/models').json()['data']
    assert [m['id'] for m in models] == ['org/Small Model', 'gpt-4o']
    assert {m['max_model_len'] for m in models} == {1024}
    assert all(m['meta']['n_params'] > 1000 and m['meta']['size'] > 1000 for m in models)
    for asked in ('org/Small Model', 'GPT-4o', 'openai/gpt-4o', 'small model', 'tiny', 'Tiny.gguf', None):
        assert chat(named, model=asked).json()['model'] == 'org/Small Model', asked
        assert text(named, model=asked).json()['model'] == 'org/Small Model', asked
    stream = chat(named, model='gpt-4o', stream=True).body
    assert contents(stream) and {json.loads(f)['model'] for f in frames(stream)[:-1]} == {'org/Small Model'}
    assert named.execute(prompt='a', max_tokens=1)[0].data['model'] == 'org/Small Model'
    assert named.get('/health').json()['model'] == 'org/Small Model'
    assert {e['model_ref'] for e in named.events()} == {'org/Small Model'}


def test_the_name_in_a_path_may_be_escaped(named):
    for path, name in (('org%2FSmall%20Model', 'org/Small Model'), ('org/small%20model', 'org/Small Model'),
                       ('gpt%2D4o', 'gpt-4o'), ('gpt-4o/', 'gpt-4o'), ('tiny', 'org/Small Model')):
        answer = named.get('/v1/models/' + path)
        assert (answer.status, answer.json()['id']) == (200, name), path
    for path in ('gpt-4', '%00', '%', 'org%2F'):
        answer = named.get('/v1/models/' + path)
        assert (answer.status, answer.error['code']) == (404, 'model_not_found'), path


def test_another_name_is_refused(named):
    for ask, name in ((chat, 'gpt-4'), (text, 'other/Small Model'), (chat, '*')):
        answer = ask(named, model=name)
        assert answer.status == 404
        assert (answer.error['code'], answer.error['type'], answer.error['param']) == (
            'model_not_found', 'invalid_request_error', 'model')


def test_any_name(tiny_model, tmp_path):
    with start(tiny_model, tmp_path, '--model-name', '*') as worker:
        for asked in ('gpt-4o', 'claude', '', 'org/Some-Model'):
            assert chat(worker, model=asked).json()['model'] == 'tiny', asked
        assert worker.get('/v1/models/whatever').json()['id'] == 'tiny'
        assert [m['id'] for m in worker.get('/v1/models').json()['data']] == ['tiny']


def test_embeddings_have_the_names_too(models, tmp_path):
    model = models('bert', '--family', 'bert')
    with start(model, tmp_path, '--model-name', 'text-embedding-3-small') as worker:
        for asked in ('text-embedding-3-small', 'Openai/Text-Embedding-3-Small', 'bert'):
            answer = worker.call('POST', '/v1/embeddings', {'input': 'a', 'model': asked})
            assert answer.json()['model'] == 'text-embedding-3-small', asked
        refused = worker.call('POST', '/v1/embeddings', {'input': 'a', 'model': 'ada'})
        assert (refused.status, refused.error['code']) == (404, 'model_not_found')


def test_a_location_makes_no_ugly_name(tiny_model, tmp_path):
    path = tmp_path / 'My Model+v1:2-Q8.GGUF'
    os.link(tiny_model, path)
    with Worker('--model', f"file://{str(path).replace(' ', '%20').replace('+', '%2B')}") as worker:
        worker.wait_event('ready')
        assert worker.get('/v1/models').json()['data'][0]['id'] == 'my model+v1:2-q8'
        assert worker.get('/v1/models/My%20Model+v1:2-Q8.gguf').status == 200
