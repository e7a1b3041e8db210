"""More slots than the KV cache has room for: every stream ends with the bytes that it has alone, and whoever
gives its pages to older ones is seen in the log, in /health and in the metrics."""
import json
from concurrent.futures import ThreadPoolExecutor

from http_client import check_stream, text_of
from worker_process import PATIENCE, Worker, wait_until

PROMPTS = [f'{word} and what came of it' for word in 'Rain Snow Fog Hail Wind Sun Ice Dew'.split()]
FEW = ('--slots', '8', '--kv-tokens', '2048', '--metrics-compat', 'vllm')


def request(i: int) -> dict:
    return dict(job_id=f'job-{i}', prompt=PROMPTS[i], max_tokens=880, ignore_eos=True, seed=i,
                temperature=0.9 if i % 2 else 0.0, repetition_penalty=1.2 if i % 3 == 1 else 1.0)


def completion(i: int) -> dict:
    return dict(prompt=PROMPTS[i], max_tokens=600, ignore_eos=True, seed=i, temperature=0.7, logprobs=3)


def answers(worker: Worker) -> list:
    """Of all requests at once, in the order of arrival; those of /v1 with log probabilities."""
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        streams = [worker.open(**request(i)) for i in range(6)]
        whole = [pool.submit(worker.call, 'POST', '/v1/completions', completion(i)) for i in (6, 7)]
        events = list(pool.map(lambda stream: stream.rest(), streams))
        for stream in streams:
            stream.close()
        texts = []
        for seen in events:
            assert check_stream(seen).name == 'end'
            assert seen[-1].data['tokens_out'] == 880
            texts.append(text_of(seen))
        for reply in whole:
            body = reply.result().json()
            texts.append((body['choices'], body['usage']['completion_tokens']))
        return texts


def test_streams_on_few_pages_have_the_bytes_that_they_have_alone(started, tiny_model):
    few = started('--model', tiny_model, *FEW)
    crowded = answers(few)
    alone = started('--model', tiny_model, '--max-queue', '16')
    assert crowded == answers(alone)
    wait_until(lambda: few.get('/health').json()['kv_pages_used'] == 0, PATIENCE, 'all pages are given back')
    count = few.metric('worker_jobs_set_back_total')
    assert count > 0
    health = few.get('/health').json()
    assert (health['jobs_set_back'], health['running'], health['waiting']) == (count, 0, 0)
    assert few.metric('vllm:num_preemptions_total') == count
    assert alone.get('/health').json()['jobs_set_back'] == 0
    lines = few.events('job_set_back')
    assert len(lines) == count
    assert all(0 <= line['tokens_out'] < 880 for line in lines)
    assert not any(prompt in json.dumps(line) for line in lines for prompt in PROMPTS)


def test_a_job_that_was_set_back_is_cancelled_at_once(started, tiny_model):
    worker = started('--model', tiny_model, *FEW)
    streams = {f'job-{i}': worker.open(**request(i)) for i in range(6)}
    name = worker.wait_event('job_set_back')['job_id']
    assert worker.cancel(name).status == 202
    last = streams.pop(name).rest()[-1]
    assert (last.name, last.data['code']) == ('error', 'CANCELLED')
    for stream in streams.values():
        assert stream.rest()[-1].data['tokens_out'] == 880
        stream.close()
    worker.wait_idle()
    wait_until(lambda: worker.get('/health').json()['kv_pages_used'] == 0, PATIENCE, 'pages are given back')
