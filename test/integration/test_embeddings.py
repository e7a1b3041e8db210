"""/v1/embeddings and /v1/rerank against the shipped binary: values, sameness, refusals, parallel requests,
disconnects and drains."""
import base64
import json
import math
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Iterator, List

import pytest

from worker_process import PATIENCE, SANITIZED, SANITIZER, Worker, never_stalls, run_to_exit, wait_until

TEXTS = ['hello world', 'a', 'The quick brown fox, and 12 more!', 'ing the GPU', 'x ' * 60]


@pytest.fixture(scope='module')
def bert(models) -> Iterator[Worker]:
    with Worker('--model', models('bert', '--family', 'bert'), '--slots', '4', '--max-queue', '64') as worker:
        worker.wait_event('ready')
        yield worker


@pytest.fixture
def bert_of_many(models) -> Iterator[Worker]:
    """Microseconds an input, of up to 2,048 tokens, whose every token is answered with 64 numbers."""
    path = models('bert-of-many', '--family', 'bert', '--layers', '1', '--embedding', '64', '--pooling', '0',
                  '--context', '2048')
    with Worker('--model', path, '--slots', '2') as worker:
        worker.wait_event('ready')
        yield worker


@pytest.fixture(scope='module')
def ranker(models) -> Iterator[Worker]:
    with Worker('--model', models('ranker', '--family', 'bert', '--pooling', '4'), '--slots', '2') as worker:
        worker.wait_event('ready')
        yield worker


@pytest.fixture
def slow_bert(models) -> Iterator[Worker]:
    """Tens of milliseconds an input, in every build."""
    shape = {'': '--layers 6 --embedding 384 --heads 6 --ffn 1536',
             'address': '--layers 3 --embedding 192 --heads 3 --ffn 512',
             'thread': '--layers 1 --embedding 128 --heads 2 --ffn 256'}[SANITIZER]
    path = models('slow-bert', '--family', 'bert', *shape.split(), '--context', '512')
    with Worker('--model', path, '--slots', '1', '--max-queue', '1', '--threads', '1',
                '--drain-timeout', '3600') as worker:
        worker.wait_event('ready')
        yield worker


def embed(worker: Worker, text, **changes):
    return worker.call('POST', '/v1/embeddings', {'input': text, **changes})


def vectors(answer) -> List[List[float]]:
    assert answer.status == 200, answer.body
    return [entry['embedding'] for entry in json.loads(answer.body)['data']]


def problem(answer, status: int = 400) -> dict:
    assert answer.status == status, (answer.status, answer.body)
    return json.loads(answer.body)['error']


def test_an_embedding_has_length_one_and_a_usage(bert):
    answer = embed(bert, TEXTS)
    body = json.loads(answer.body)
    assert body['object'] == 'list' and body['model'] == 'bert'
    assert [entry['index'] for entry in body['data']] == list(range(len(TEXTS)))
    for vector in vectors(answer):
        assert len(vector) == 64
        assert math.isclose(sum(v * v for v in vector), 1.0, rel_tol=1e-5)
    counts = [json.loads(bert.call('POST', '/tokenize', {'content': t, 'add_special': True}).body)['count']
              for t in TEXTS]
    assert body['usage'] == {'prompt_tokens': sum(counts), 'total_tokens': sum(counts)}


def test_base64_holds_the_same_numbers(bert):
    numbers = vectors(embed(bert, TEXTS))
    coded = vectors(embed(bert, TEXTS, encoding_format='base64'))
    for vector, text in zip(numbers, coded):
        assert base64.b64decode(text) == struct.pack('<64f', *vector)


def test_token_ids_are_taken_as_they_are(bert):
    content = {'content': TEXTS[0], 'add_special': True}
    ids = json.loads(bert.call('POST', '/tokenize', content).body)['tokens']
    by_text = embed(bert, TEXTS[0]).body
    assert embed(bert, ids).body == by_text and embed(bert, [ids]).body == by_text


def test_the_same_bytes_alone_in_a_list_and_beside_others(bert, models):
    alone = {text: embed(bert, text).body for text in TEXTS}
    expected = [json.loads(alone[text])['data'][0]['embedding'] for text in TEXTS]
    assert vectors(embed(bert, TEXTS)) == expected
    assert vectors(embed(bert, TEXTS[::-1])) == expected[::-1]
    seen: List[bytes] = []

    def ask(number: int) -> None:
        text = TEXTS[number % len(TEXTS)]
        seen.append((text, embed(bert, text).body))
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(seen) == 40 and all(body == alone[text] for text, body in seen)
    with Worker('--model', models('bert', '--family', 'bert'), '--threads', '1') as again:
        again.wait_event('ready')
        assert all(embed(again, text).body == alone[text] for text in TEXTS)


def test_a_decoder_makes_embeddings_too(models):
    with Worker('--model', models('last', '--family', 'qwen3', '--pooling', '3'), '--slots', '2') as worker:
        worker.wait_event('ready')
        one = vectors(embed(worker, TEXTS))
        assert [vectors(embed(worker, t))[0] for t in TEXTS] == one
        meta = json.loads(worker.get('/v1/models').body)['data'][0]['meta']
        assert (meta['task'], meta['pooling'], meta['embedding_length']) == ('embeddings', 'last', 64)


def test_any_decoder_can_be_told_to(tiny_model):
    with Worker('--model', tiny_model, '--pooling', 'mean', '--matryoshka') as worker:
        worker.wait_event('ready')
        whole, short = vectors(embed(worker, 'hello'))[0], vectors(embed(worker, 'hello', dimensions=8))[0]
        scale = math.sqrt(sum(v * v for v in whole[:8]))
        assert short == pytest.approx([v / scale for v in whole[:8]], rel=1e-5)


def test_a_chat_is_embedded_as_the_prompt_that_it_is(tiny_model, tmp_path):
    template = tmp_path / 'template.jinja'
    template.write_text('{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}'
                        '{% if add_generation_prompt %}!{% endif %}')
    with Worker('--model', tiny_model, '--pooling', 'mean', '--chat-template', str(template)) as worker:
        worker.wait_event('ready')
        talk = [{'role': 'user', 'content': 'hello'}]
        for more, prompt in (({}, 'user: hello'), ({'add_generation_prompt': True}, 'user: hello!')):
            chat = worker.call('POST', '/v1/embeddings', {'messages': talk, **more})
            assert vectors(chat) == vectors(embed(worker, prompt))
        assert problem(worker.call('POST', '/v1/embeddings', {'messages': talk, 'input': 'x'}))['param'] \
            == 'messages'


def test_without_pooling_every_token_has_its_state(models):
    with Worker('--model', models('bert', '--family', 'bert'), '--pooling', 'none') as worker:
        worker.wait_event('ready')
        answer = embed(worker, ['hello', 'a'])
        count = json.loads(answer.body)['usage']['prompt_tokens']
        states = vectors(answer)
        assert sum(len(s) for s in states) == count and all(len(row) == 64 for s in states for row in s)


def test_a_ranking_is_sorted_and_bounded(ranker):
    asked = {'query': 'hello world', 'documents': TEXTS, 'return_documents': True}
    body = json.loads(ranker.call('POST', '/v1/rerank', asked).body)
    scores = [r['relevance_score'] for r in body['results']]
    assert sorted(scores, reverse=True) == scores and all(0 < s < 1 for s in scores)
    assert [r['document']['text'] for r in body['results']] == [TEXTS[r['index']] for r in body['results']]
    top = json.loads(ranker.call('POST', '/rerank', {**asked, 'top_n': 2, 'return_documents': False}).body)
    assert [r['index'] for r in top['results']] == [r['index'] for r in body['results'][:2]]
    assert all('document' not in r for r in top['results'])
    raw = json.loads(ranker.call('POST', '/v1/rerank', {**asked, 'raw_scores': True}).body)
    assert [1 / (1 + math.exp(-r['relevance_score'])) for r in raw['results']] == pytest.approx(scores)
    alone = json.loads(ranker.call('POST', '/v1/rerank', {**asked, 'documents': [TEXTS[2]]}).body)
    assert alone['results'][0]['relevance_score'] == next(r['relevance_score'] for r in body['results']
                                                          if r['index'] == 2)


def test_embeddings_in_the_words_of_other_servers(bert):
    expected = vectors(embed(bert, TEXTS))
    llama = bert.call('POST', '/embedding', {'content': TEXTS})
    assert json.loads(llama.body) == [{'index': i, 'embedding': [v]} for i, v in enumerate(expected)]
    tei = bert.call('POST', '/embed', {'inputs': TEXTS, 'truncate': True})
    assert json.loads(tei.body) == expected
    pooled = json.loads(bert.call('POST', '/pooling', {'input': TEXTS, 'task': 'embed'}).body)
    assert [entry['data'] for entry in pooled['data']] == expected and pooled['id'].startswith('pool-')
    raw = json.loads(bert.call('POST', '/embed', {'inputs': 'a', 'normalize': False}).body)[0]
    length = math.sqrt(sum(v * v for v in raw))
    assert [v / length for v in raw] == pytest.approx(vectors(embed(bert, 'a'))[0], rel=1e-5)


def test_long_inputs_are_cut_within_their_special_tokens(bert):
    asked = {'content': TEXTS[2], 'add_special': True}
    ids = json.loads(bert.call('POST', '/tokenize', asked).body)['tokens']
    first, last = ids[:4] + ids[-1:], ids[:1] + ids[-5:]
    assert vectors(embed(bert, TEXTS[2], truncate_prompt_tokens=5)) == vectors(embed(bert, first))
    cut = embed(bert, TEXTS[2], truncate_prompt_tokens=6, truncation_side='left')
    assert vectors(cut) == vectors(embed(bert, last))
    whole = json.loads(embed(bert, 'a ' * 300, truncate='END').body)['usage']['prompt_tokens']
    assert whole == json.loads(bert.get('/v1/models').body)['data'][0]['max_model_len']


def test_a_ranking_in_the_words_of_other_servers(ranker):
    asked = {'query': 'hello world', 'documents': TEXTS}
    results = json.loads(ranker.call('POST', '/v1/rerank', asked).body)['results']
    for path in ('/v2/rerank', '/reranking', '/v1/reranking'):
        assert json.loads(ranker.call('POST', path, {**asked, 'top_n': 0}).body)['results'] == results
    tei = ranker.call('POST', '/rerank', {'query': 'hello world', 'texts': TEXTS, 'return_text': True})
    assert json.loads(tei.body) == [{'index': r['index'], 'score': r['relevance_score'],
                                     'text': TEXTS[r['index']]} for r in results]
    by_index = [r['relevance_score'] for r in sorted(results, key=lambda r: r['index'])]
    for path in ('/score', '/v1/score'):
        for first in ('hello world', ['hello world'] * len(TEXTS)):
            scores = json.loads(ranker.call('POST', path, {'text_1': first, 'text_2': TEXTS}).body)
            assert [entry['score'] for entry in scores['data']] == by_index
    long = {'query': 'a', 'documents': ['a ' * 300]}
    assert problem(ranker.call('POST', '/v1/rerank', long))['code'] == 'context_length_exceeded'
    for cut in ({'truncate': True}, {'max_tokens_per_doc': 100}, {'truncate_prompt_tokens': 100}):
        assert len(json.loads(ranker.call('POST', '/v1/rerank', {**long, **cut}).body)['results']) == 1
    refused = ranker.call('POST', '/v1/rerank', {**long, 'query': 'a ' * 50, 'truncate_prompt_tokens': 20})
    assert 'leaves no room' in problem(refused)['message']


def test_what_a_ranking_model_says_of_single_texts(ranker):
    def numbers(expected=200, **changes):
        answer = ranker.call('POST', '/pooling', {'input': TEXTS, **changes})
        assert answer.status == expected, answer.body
        return json.loads(answer.body)
    body = numbers(task='classify')
    assert body['id'].startswith('pool-') and [d['index'] for d in body['data']] == list(range(len(TEXTS)))
    told = [entry['data'] for entry in body['data']]
    assert all(len(data) == 1 and 0 < data[0] < 1 for data in told)
    assert len({data[0] for data in told}) == len(TEXTS)
    for off in ('use_activation', 'activation'):
        raw = [entry['data'][0] for entry in numbers(**{off: False})['data']]
        assert [1 / (1 + math.exp(-value)) for value in raw] == pytest.approx([data[0] for data in told])
    ids = json.loads(ranker.call('POST', '/tokenize', {'content': TEXTS[0], 'add_special': True}).body)
    assert numbers(input=[ids['tokens']])['data'][0]['data'] == told[0], 'ids as the text has them'
    coded = numbers(encoding_format='base64')['data'][1]['data']
    assert list(struct.unpack('<f', base64.b64decode(coded))) == pytest.approx(told[1], rel=1e-7)
    for field, value in (('dimensions', 8), ('normalize', True), ('task', 'embed'), ('task', 'score'),
                         ('use_activation', 1)):
        assert numbers(400, **{field: value})['error']['param'] == field
    assert numbers(404, model='other')['error']['param'] == 'model'


def test_a_ranking_decoder_uses_its_template(models):
    with Worker('--model', models('yes-no', '--family', 'qwen3', '--pooling', '4')) as worker:
        worker.wait_event('ready')
        asked = {'query': 'hello', 'documents': ['{query}', 'hello', 'world']}
        body = json.loads(worker.call('POST', '/v1/rerank', asked).body)
        scores = {r['index']: r['relevance_score'] for r in body['results']}
        assert len(scores) == 3 and scores[0] != scores[1]  # what is in a text is never filled in


@pytest.mark.parametrize('body, param', [
    ({}, 'input'), ({'input': ''}, 'input'), ({'input': []}, 'input'), ({'input': [[]]}, 'input'),
    ({'input': 5}, 'input'), ({'input': {}}, 'input.prompt_string'), ({'input': [1, 'a']}, 'input'),
    ({'input': [10 ** 9]}, 'input'), ({'input': [-1]}, 'input'),
    ({'input': 'a', 'dimensions': 0}, 'dimensions'), ({'input': 'a', 'dimensions': 32}, 'dimensions'),
    ({'input': 'a', 'encoding_format': 'f32'}, 'encoding_format'),
    ({'input': 'a', 'temperature': 0}, 'temperature'), ({'input': 'a', 'stream': True}, 'stream'),
    ({'input': ['a'] * 2049}, 'input'), ({'input': 'b ' * 40_000}, 'input')])
def test_bad_embedding_requests_are_refused_by_name(bert, body, param):
    assert problem(bert.call('POST', '/v1/embeddings', body))['param'] == param
    assert bert.alive()


@pytest.mark.parametrize('body, param', [
    ({'documents': ['a']}, 'query'), ({'query': 'a'}, 'documents'),
    ({'query': 'a', 'documents': []}, 'documents'), ({'query': 'a', 'documents': [None]}, 'documents'),
    ({'query': 'a', 'documents': ['a'], 'top_n': -1}, 'top_n'),
    ({'query': 'a', 'documents': ['a'] * 2049}, 'documents'),
    ({'query': 'q ' * 16_000, 'documents': ['a'] * 200}, 'documents'),
    ({'query': 'a', 'documents': ['a'], 'rank_fields': ['x']}, 'rank_fields')])
def test_bad_rerank_requests_are_refused_by_name(ranker, body, param):
    assert problem(ranker.call('POST', '/v1/rerank', body))['param'] == param


def test_what_is_too_long_is_not_truncated(bert, ranker):
    long = 'a ' * 300
    why = problem(embed(bert, ['a', long]))
    assert why['code'] == 'context_length_exceeded' and 'input[1]' in why['message']
    why = problem(ranker.call('POST', '/v1/rerank', {'query': 'a', 'documents': ['b', 'c', long]}))
    assert why['code'] == 'context_length_exceeded' and 'documents[2]' in why['message']


def test_a_model_that_embeds_compares_texts(bert, bert_of_many):
    texts = ['hello world', *TEXTS]
    vectors = [entry['embedding'] for entry in json.loads(embed(bert, texts).body)['data']]
    cosines = [sum(a * b for a, b in zip(vectors[0], vector)) for vector in vectors[1:]]
    told = json.loads(bert.call('POST', '/v1/score', {'text_1': texts[0], 'text_2': TEXTS}).body)
    assert [entry['score'] for entry in told['data']] == pytest.approx(cosines, abs=1e-5)
    one = json.loads(embed(bert, texts).body)['usage']
    assert told['usage'] == one, 'the query counts once'
    pairs = bert.call('POST', '/score', {'text_1': [texts[0]] * len(TEXTS), 'text_2': TEXTS})
    assert [entry['score'] for entry in json.loads(pairs.body)['data']] == [e['score'] for e in told['data']]
    for path in ('/v1/rerank', '/v2/rerank'):
        ranked = json.loads(bert.call('POST', path, {'query': texts[0], 'documents': TEXTS}).body)['results']
        assert [(r['index'], r['relevance_score']) for r in ranked] == sorted(
            ((e['index'], e['score']) for e in told['data']), key=lambda pair: -pair[1])
    long = {'query': 'a', 'documents': ['a ' * 300]}
    assert problem(bert.call('POST', '/v1/rerank', long))['code'] == 'context_length_exceeded'
    for cut in ({'truncate': True}, {'max_tokens_per_doc': 100}, {'truncate_prompt_tokens': 100}):
        assert bert.call('POST', '/v1/rerank', {**long, **cut}).status == 200
    refused = bert_of_many.call('POST', '/v1/score', {'text_1': 'a', 'text_2': 'b'})
    assert '/v1/embeddings' in problem(refused)['message']


def test_each_model_does_what_it_is_served_for(bert, ranker, tiny):
    chat = {'messages': [{'role': 'user', 'content': 'x'}]}
    for worker in (bert, ranker):
        assert problem(worker.call('POST', '/v1/chat/completions', chat))['param'] == 'model'
        assert problem(worker.call('POST', '/v1/completions', {'prompt': 'x'}))['param'] == 'model'
        assert problem(worker.call('POST', '/execute', {'job_id': 'j', 'prompt': 'x', 'max_tokens': 1}))
    assert '/v1/rerank' in problem(embed(ranker, 'x'))['message']
    for path in ('/v1/embeddings', '/v1/rerank'):
        assert '--pooling' in problem(tiny.call('POST', path, {'input': 'x'}))['message']
    assert problem(embed(bert, 'x', model='other'), 404)['param'] == 'model'
    assert bert.get('/v1/embeddings').status == 405


def test_models_that_cannot_be_served_are_refused_at_the_start(models):
    bert = models('bert', '--family', 'bert')
    for option, value, text in (('--context', '512', 'learned 256 positions'),
                                ('--pooling', 'rank', 'cls.output')):
        arguments = (option, value)
        code, worker = run_to_exit('--model', bert, *arguments)
        assert code == 1 and text in worker.events('error')[0]['message']
    code, worker = run_to_exit('--model', models('plain-qwen3', '--family', 'qwen3'), '--pooling', 'rank')
    assert code == 1


def test_a_full_queue_answers_429_and_a_client_that_goes_away_frees_its_place(slow_bert):
    many = {'input': ['the world is ' * 60] * 400}
    first, second = slow_bert.connect(), slow_bert.connect()
    for connection in (first, second):
        connection.request('POST', '/v1/embeddings', json.dumps(many).encode())
    wait_until(lambda: slow_bert.waiting() == 1, PATIENCE, 'both requests are in')
    assert slow_bert.running() == 1
    assert problem(embed(slow_bert, 'a'), 429)['code'] == 'QUEUE_FULL'
    assert json.loads(slow_bert.get('/health').body)['state'] == 'busy'
    started = time.monotonic()
    first.close()
    second.close()
    slow_bert.wait_idle()
    assert time.monotonic() - started < 30
    assert slow_bert.metric('worker_disconnects_total') == 2
    assert len(vectors(embed(slow_bert, 'a'))) == 1


def test_a_time_limit_ends_a_request_and_a_small_one_overtakes_a_big_one(slow_bert):
    many = {'input': ['the world is ' * 60] * 400}
    assert problem(slow_bert.call('POST', '/v1/embeddings', {**many, 'timeout_ms': 50}), 504)['code'] == (
        'INFERENCE_TIMEOUT')
    big = slow_bert.connect()
    big.request('POST', '/v1/embeddings', json.dumps(many).encode())
    wait_until(lambda: slow_bert.running() == 1, PATIENCE, 'the big one runs')
    assert embed(slow_bert, 'a').status == 200
    assert slow_bert.running() == 1  # the big one still does
    big.close()


# A process of its own: what reads an answer of megabytes in this one keeps its other threads waiting.
POST = """import sys
from http_client import Connection
with Connection(int(sys.argv[1])) as client:
    client.request('POST', '/v1/embeddings', sys.stdin.buffer.read())
    print(client.read_response().status)"""


def longest_health(worker: Worker, goes_on: Callable[[], bool]) -> float:
    """The longest wait for /health meanwhile."""
    longest = 0.0
    with worker.connect() as probe:
        while goes_on():
            asked = time.monotonic()
            probe.request('GET', '/health')
            assert probe.read_response().status == 200
            longest = max(longest, time.monotonic() - asked)
    return longest


def longest_health_beside(worker: Worker, body: dict, status: int) -> float:
    """While that request for embeddings is under way."""
    client = subprocess.Popen([sys.executable, '-B', '-c', POST, str(worker.port)], cwd=Path(__file__).parent,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with client:
        client.stdin.write(json.dumps(body).encode())
        client.stdin.close()
        longest = longest_health(worker, lambda: client.poll() is None)
        assert int(client.stdout.read()) == status
    return longest


HEALTH_LIMIT = 0.02


def disturbance(worker: Worker, body: dict, status: int) -> float:
    """Below 1: /health was within its limit, or as slow as it is on this machine beside nothing."""
    begin = time.monotonic()
    beside = longest_health_beside(worker, body, status)
    end = time.monotonic()
    if beside < HEALTH_LIMIT:
        return beside / HEALTH_LIMIT
    alone = longest_health(worker, lambda: time.monotonic() < end + (end - begin))
    return beside / max(HEALTH_LIMIT, 3 * alone)


SENTENCE = 'the world is a quick brown fox '
LONG = {  # made tokens, some 100 ms, and then refused for the last one; answered with a million numbers
    'texts': ({'input': [SENTENCE * 110] * 270 + [SENTENCE * 500]}, 400),
    'numbers': ({'input': [[7, 8, 9, 10, 11, 12, 13, 14] * 4] * 512}, 200)}


@pytest.mark.skipif(SANITIZED, reason='a sanitizer has a pace of its own')
@pytest.mark.parametrize('body, status', LONG.values(), ids=LONG)
def test_nobody_waits_for_what_is_long(bert_of_many, body, status):
    never_stalls(lambda: disturbance(bert_of_many, body, status), 1.0, bert_of_many.pid)


def test_a_drain_finishes_what_runs(slow_bert):
    connection = slow_bert.connect()
    connection.request('POST', '/v1/embeddings', json.dumps({'input': ['the world is ' * 60] * 60}).encode())
    wait_until(lambda: slow_bert.running() == 1, PATIENCE, 'the request runs')
    slow_bert.terminate()
    wait_until(lambda: slow_bert.get('/ready').status == 503, PATIENCE, 'the worker drains')
    assert problem(embed(slow_bert, 'a'), 503)['code'] == 'DRAINING'
    assert len(vectors(connection.read_response())) == 60
    assert slow_bert.wait_exit(PATIENCE) == 0
