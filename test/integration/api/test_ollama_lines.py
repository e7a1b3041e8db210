"""ollama's API as bytes: lines of JSON, refusals in its words, the page and keys beside it."""
import json
from typing import Iterator, List

import pytest

from completion_worker import start
from worker_process import Worker

ASK = [{'role': 'user', 'content': 'Once upon a time'}]
OPTIONS = {'temperature': 0, 'num_predict': 8, 'seed': 7, 'ignore_eos': True}


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory) -> Iterator[Worker]:
    with start(tiny_model, tmp_path_factory.mktemp('ollama')) as running:
        yield running


def ask(worker: Worker, path: str = '/api/chat', **changes):
    body = {'messages': ASK} if path == '/api/chat' else {'prompt': 'Once upon a time'}
    return worker.call('POST', path, {'model': 'tiny', **body, 'options': OPTIONS, **changes})


def lines(body: bytes) -> List[dict]:
    assert body.endswith(b'\n')
    return [json.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize('path', ['/api/chat', '/api/generate'])
def test_a_stream_of_lines_says_what_the_whole_answer_says(worker, path):
    def text(answer: dict) -> str:
        return answer['message']['content'] if path == '/api/chat' else answer['response']
    streamed = ask(worker, path)
    assert streamed.headers['content-type'] == 'application/x-ndjson'
    *parts, last = lines(streamed.body)
    whole = ask(worker, path, stream=False)
    assert whole.headers['content-type'] == 'application/json'
    answer = whole.json()
    assert ''.join(map(text, parts)) == text(answer) != '' and text(last) == ''
    assert not any(part['done'] for part in parts) and last['done'] and last['done_reason'] == 'length'
    assert last['eval_count'] == answer['eval_count'] == 8
    assert last['prompt_eval_count'] == answer['prompt_eval_count']


def test_the_same_text_as_on_the_other_path(worker):
    chat = worker.call('POST', '/v1/chat/completions', {'messages': ASK, 'temperature': 0, 'max_tokens': 8,
                                                        'seed': 7, 'ignore_eos': True}).json()
    assert ask(worker, stream=False).json()['message']['content'] == chat['choices'][0]['message']['content']


@pytest.mark.parametrize('path, changes, status, named', [
    ('/api/chat', {'model': 'other'}, 404, 'model not found'),
    ('/api/chat', {'options': {'mirostat': 1}}, 400, "'options.mirostat'"),
    ('/api/chat', {'options': {'num_predict': 'x'}}, 400, "'options.num_predict'"),
    ('/api/chat', {'format': {'type': 'nothing'}}, 400, 'format: #/type'),
    ('/api/chat', {'messages': [{'role': 'user', 'content': 'word ' * 3000}]}, 400, 'context length'),
    ('/api/generate', {'prompt': 'word ' * 3000}, 400, 'context length'),
    ('/api/generate', {'context': [1]}, 400, "'context'"),
    ('/api/embed', {}, 400, 'generates text'),
    ('/api/pull', {}, 404, '/api/chat')])
def test_a_refusal_is_a_text(worker, path, changes, status, named):
    refused = ask(worker, path, **changes)
    assert refused.status == status and list(refused.json()) == ['error'], refused.body
    assert named in refused.json()['error'], refused.body


def test_a_failure_in_a_stream_is_a_line(worker):
    late = ask(worker, timeout_ms=1, options={**OPTIONS, 'num_predict': 900})
    assert list(lines(late.body)[-1] if late.status == 200 else late.json()) == ['error']


def test_the_page_stays_and_methods_are_told(worker):
    assert worker.get('/').headers['content-type'].startswith('text/html')
    assert set(worker.get('/api/version').json()) == {'version'}
    refused = worker.get('/api/chat')
    assert (refused.status, refused.headers['allow']) == (405, 'POST, OPTIONS')


def test_with_keys_it_is_there_when_asked_for(started, tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('a-key-of-sixteen-bytes alice\n')
    shown = {'Authorization': 'Bearer a-key-of-sixteen-bytes'}
    without = started('--model', tiny_model, '--api-key-file', str(keys))
    assert without.call('GET', '/api/version', headers=shown).status == 404
    with_it = started('--model', tiny_model, '--api-key-file', str(keys), '--api-ollama')
    assert with_it.call('GET', '/api/version', headers=shown).status == 200
    refused = with_it.get('/api/version')
    assert refused.status == 401 and list(refused.json()) == ['error']
    assert started('--model', tiny_model, '--api-ollama', 'false').get('/api/tags').status == 404
