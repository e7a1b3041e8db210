"""The `openai` Python package, unchanged, against the shipped binary: with a small random model, and with a
real one where it is here. tools/python_packages.sh fetches the package."""
import asyncio
import threading
from typing import Iterator

import pytest

from completion_worker import start
from openai_client import client_of, openai, serve
from worker_process import PATIENCE, Worker, wait_until

ASK = [{'role': 'user', 'content': 'What is the capital of France?'}]


@pytest.fixture(scope='module')
def worker(slow_model, tmp_path_factory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp('openai')
    keys = folder / 'keys'
    keys.write_text('test-key\n')
    with start(slow_model, folder, '--slots', '4', '--context', '2048', '--max-queue', '16', '--api-key-file',
               str(keys)) as running:
        yield running


@pytest.fixture
def client(worker):
    with client_of(worker, api_key='test-key') as made:
        yield made


@pytest.fixture(scope='module')
def french(demo_model) -> Iterator['openai.OpenAI']:
    """A client of a worker with the real demo model."""
    yield from serve(demo_model, '--context', '1024')


def complete(client, **changes):
    return client.chat.completions.create(**{'model': 'slow', 'messages': ASK, 'max_tokens': 12, 'seed': 3,
                                             'extra_body': {'ignore_eos': True}, **changes})


def test_a_chat(client):
    answer = complete(client)
    assert answer.choices[0].message.role == 'assistant'
    assert answer.choices[0].finish_reason == 'length'
    assert answer.usage.completion_tokens == 12
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0
    assert answer.system_fingerprint.startswith('fp_')


def test_a_stream_equals_the_answer(client):
    whole = complete(client).choices[0].message.content
    text, usage = '', None
    for chunk in complete(client, stream=True, stream_options={'include_usage': True}):
        usage = chunk.usage or usage
        text += ''.join(c.delta.content or '' for c in chunk.choices)
    assert text == whole and usage.completion_tokens == 12


def test_the_package_s_own_accumulation_of_a_stream(client):
    with client.chat.completions.stream(model='slow', messages=ASK, max_tokens=12, seed=3, logprobs=True,
                                        extra_body={'ignore_eos': True}) as stream:
        for _ in stream:
            pass
        with pytest.raises(openai.LengthFinishReasonError) as cut:  # what it makes of finish_reason length
            stream.get_final_completion()
    final = cut.value.completion
    assert final.choices[0].message.content == complete(client).choices[0].message.content
    assert len(final.choices[0].logprobs.content) == 12


def test_log_probabilities(client):
    answer = complete(client, logprobs=True, top_logprobs=20, temperature=0)
    for token in answer.choices[0].logprobs.content:
        assert len(token.top_logprobs) == 20
        assert token.logprob == max(t.logprob for t in token.top_logprobs) <= 0
    assert b''.join(bytes(t.bytes) for t in answer.choices[0].logprobs.content).decode(
        'utf-8', 'replace').startswith(answer.choices[0].message.content[:4])


def test_two_choices_and_their_sameness(client):
    asked = dict(n=2, temperature=1.1, max_tokens=24)
    first = complete(client, **asked)
    assert [c.index for c in first.choices] == [0, 1]
    assert first.choices[0].message.content != first.choices[1].message.content
    assert complete(client, **asked).choices == first.choices
    assert first.usage.completion_tokens == 48


def test_the_same_text_alone_and_beside_neighbours(worker, client):
    alone = complete(client, temperature=1.0, max_tokens=40).choices[0].message.content

    async def crowd():
        async with openai.AsyncOpenAI(base_url=f'http://127.0.0.1:{worker.port}/v1', api_key='test-key',
                                      max_retries=0, timeout=PATIENCE) as many:
            asked = [complete(many, temperature=1.0, max_tokens=40, seed=3 if i % 2 else i)
                     for i in range(12)]
            return await asyncio.gather(*asked)
    texts = [a.choices[0].message.content for a in asyncio.run(crowd())]
    assert {t for i, t in enumerate(texts) if i % 2} == {alone}


def test_text_completions(client):
    answer = client.completions.create(model='slow', prompt='Once upon', max_tokens=5, logprobs=2,
                                       temperature=0, extra_body={'ignore_eos': True})
    assert len(answer.choices[0].logprobs.tokens) == 5
    streamed = client.completions.create(model='slow', prompt='Once upon', max_tokens=5, temperature=0,
                                         stream=True, extra_body={'ignore_eos': True})
    assert ''.join(c.choices[0].text for c in streamed) == answer.choices[0].text


@pytest.fixture(scope='module')
def embedder(models) -> Iterator['openai.OpenAI']:
    """A client of a worker with a small random BERT."""
    yield from serve(models('bert', '--family', 'bert'), '--matryoshka')


def test_embeddings_as_numbers_and_as_the_package_asks_for_them(embedder):
    texts = ['hello world', 'the GPU']
    # Without a format the package asks for base64 and decodes it.
    packed = embedder.embeddings.create(model='bert', input=texts)
    plain = embedder.embeddings.create(model='bert', input=texts, encoding_format='float')
    for one, other in zip(packed.data, plain.data):
        assert list(one.embedding) == pytest.approx(other.embedding, abs=1e-7)
    assert [e.index for e in plain.data] == [0, 1] and len(plain.data[0].embedding) == 64
    assert packed.usage == plain.usage and plain.usage.total_tokens == plain.usage.prompt_tokens > 4
    short = embedder.embeddings.create(model='bert', input='hello world', dimensions=16, user='u')
    assert len(short.data[0].embedding) == 16
    assert embedder.embeddings.create(model='bert', input=[[5, 6], [7]]).data[1].index == 1


def test_embedding_errors_have_their_own_exceptions(embedder, client):
    with pytest.raises(openai.BadRequestError) as refused:
        embedder.embeddings.create(model='bert', input='')
    assert (refused.value.param, refused.value.code) == ('input', 'INVALID_REQUEST')
    with pytest.raises(openai.BadRequestError) as too_long:
        embedder.embeddings.create(model='bert', input='a ' * 400)
    assert too_long.value.code == 'context_length_exceeded'
    with pytest.raises(openai.NotFoundError):
        embedder.embeddings.create(model='text-embedding-3-small', input='a')
    with pytest.raises(openai.BadRequestError) as generating:
        client.embeddings.create(model='slow', input='a')
    assert '--pooling' in str(generating.value)
    with pytest.raises(openai.BadRequestError) as embedding:
        complete(embedder, model='bert')
    assert '/v1/embeddings' in str(embedding.value)


def test_models(client):
    assert [m.id for m in client.models.list()] == ['slow']
    assert client.models.retrieve('slow').owned_by == 'worker-orcd'
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve('other')
    assert missing.value.param == 'model'


def test_errors_have_their_own_exceptions(worker, client):
    with pytest.raises(openai.BadRequestError) as refused:
        complete(client, temperature=3)
    assert (refused.value.param, refused.value.code, refused.value.type) == (
        'temperature', 'INVALID_REQUEST', 'invalid_request_error')
    with pytest.raises(openai.BadRequestError) as too_long:
        complete(client, messages=[{'role': 'user', 'content': 'a ' * 2048}])
    assert (too_long.value.code, too_long.value.type, too_long.value.param) == (
        'context_length_exceeded', 'invalid_request_error', 'messages')
    assert "This model's maximum context length is 2048 tokens. However, your messages" in str(too_long.value)
    with pytest.raises(openai.NotFoundError) as missing:
        complete(client, model='gpt-4o')
    assert missing.value.code == 'model_not_found'
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=client.base_url, api_key='wrong', max_retries=0).models.list()
    with pytest.raises(openai.APIError) as cut:
        for _ in complete(client, stream=True, max_tokens=1500,
                          extra_body={'ignore_eos': True, 'timeout_ms': 60}):
            pass
    assert 'time limit' in str(cut.value)
    assert worker.alive()


def test_a_full_queue_is_tried_again(slow_model, tmp_path):
    with start(slow_model, tmp_path, '--slots', '1', '--max-queue', '0') as busy:
        with client_of(busy, max_retries=openai.DEFAULT_MAX_RETRIES) as client:
            with pytest.raises(openai.RateLimitError):
                running = complete(client, stream=True, max_tokens=1500)
                next(iter(running))
                complete(client.with_options(max_retries=0))
            free = threading.Timer(0.3, running.close)
            free.start()
            assert complete(client.with_options(max_retries=5)).choices[0].finish_reason == 'length'
            free.join()


def test_a_client_that_closes_its_stream_frees_the_slot(worker, client):
    stream = complete(client, stream=True, max_tokens=1500)
    next(iter(stream))
    assert worker.running() == 1
    stream.close()
    wait_until(lambda: worker.running() == 0, PATIENCE, 'the job has ended')


def test_what_the_package_sends_is_known(worker, client):
    """Every parameter of its method that can be given a harmless value is taken."""
    complete(client, user='u', metadata={'a': 'b'}, store=False, service_tier='auto', modalities=['text'],
             presence_penalty=0.5, frequency_penalty=0.5, logit_bias={'5': 1}, top_p=0.9, stop=['never'],
             response_format={'type': 'text'}, parallel_tool_calls=True, safety_identifier='s',
             prompt_cache_key='k', tool_choice='none')


def test_a_real_model_answers(french):
    name = french.models.list().data[0].id
    answer = french.chat.completions.create(model=name, messages=ASK, temperature=0, max_tokens=24,
                                            logprobs=True)
    assert 'Paris' in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == 'stop'
    spoken = b''.join(bytes(t.bytes) for t in answer.choices[0].logprobs.content).decode()
    assert spoken == answer.choices[0].message.content
    follow_up = [*ASK, answer.choices[0].message, {'role': 'user', 'content': 'Thanks. And of Italy?'}]
    again = french.chat.completions.create(model=name, messages=follow_up, temperature=0, max_tokens=24)
    assert again.usage.prompt_tokens > answer.usage.total_tokens


def test_a_draining_worker_says_so_and_ends_what_runs(slow_model, tmp_path):
    with start(slow_model, tmp_path, '--drain-timeout', '120') as leaving:
        with client_of(leaving) as client:
            running = complete(client, stream=True, max_tokens=1000)
            next(iter(running))
            leaving.terminate()
            wait_until(lambda: leaving.get('/ready').status == 503, PATIENCE, 'the worker drains')
            with pytest.raises(openai.InternalServerError) as refused:
                complete(client)
            assert (refused.value.status_code, refused.value.code) == (503, 'DRAINING')
            assert int(refused.value.response.headers['retry-after']) >= 1
            assert ''.join(c.choices[0].delta.content or '' for c in running)
        assert leaving.wait_exit(PATIENCE) == 0
