"""Prefixes that are not computed again: same bytes, who shares with whom, what is counted, and how much
sooner the first token comes."""
import statistics
import time

import pytest

from http_client import text_of
from worker_process import SANITIZED, Worker

SYSTEM = 'You are a careful assistant. Answer in one line and say what you do not know. ' * 6


@pytest.fixture
def worker(tiny_model):
    with Worker('--model', tiny_model, '--slots', '2') as running:
        running.wait_event('ready')
        yield running


def ask(worker, prompt, headers=None, **more):
    """The text and the end event."""
    events = worker.execute(headers, prompt=prompt, max_tokens=8, temperature=0.8, seed=5, ignore_eos=True,
                            **more)
    return text_of(events), events[-1].data


def test_a_hit_gives_the_same_bytes(worker, tiny_model):
    prompts = [SYSTEM + tail for tail in ('Who?', 'Who?', 'Where is it?', 'W')] + [SYSTEM[:270], SYSTEM]
    warm = [ask(worker, p) for p in prompts]
    assert warm[0][1]['tokens_cached'] == 0
    assert warm[1][1]['tokens_cached'] == warm[1][1]['tokens_in'] - 1
    assert all(end['tokens_cached'] >= 120 for _, end in warm[1:]), warm
    with Worker('--model', tiny_model, '--no-prefix-cache') as cold:
        cold.wait_event('ready')
        for prompt, (text, _) in zip(prompts, warm):
            seen, end = ask(cold, prompt)
            assert (seen, end['tokens_cached']) == (text, 0)


def test_tenants_and_those_who_do_not_want_it_share_nothing(worker):
    ask(worker, SYSTEM, cache_salt='a')
    assert ask(worker, SYSTEM, cache_salt='b')[1]['tokens_cached'] == 0
    assert ask(worker, SYSTEM)[1]['tokens_cached'] == 0
    assert ask(worker, SYSTEM, cache_salt='a', cache_prompt=False)[1]['tokens_cached'] == 0
    assert ask(worker, SYSTEM, cache_salt='a', cache_prompt=True)[1]['tokens_cached'] > 256
    other = SYSTEM.upper()
    ask(worker, other, cache_prompt=False)
    assert ask(worker, other)[1]['tokens_cached'] == 0


def test_sessions_by_field_and_by_header(worker):
    health = worker.get('/health').json()
    assert health['cache_sessions'] == 0
    ask(worker, SYSTEM, imc_id='one')
    assert worker.get('/health').json()['cache_sessions'] == 1
    ask(worker, SYSTEM[20:], {'KRONK_IMC_ID': 'two'})
    assert worker.get('/health').json()['cache_sessions'] == 1  # --imc-sessions 1: the later one stays
    refused = worker.call('POST', '/execute', {'job_id': 'x', 'prompt': 'y'}, {'KRONK_IMC_ID': 'z' * 257})
    assert refused.status == 400 and refused.error['param'] == 'KRONK_IMC_ID'


@pytest.mark.parametrize('field, value', [('cache_prompt', 1), ('cache_prompt', 'yes'), ('cache_salt', 5),
                                          ('cache_salt', ''), ('cache_salt', 's' * 257), ('imc_id', True),
                                          ('imc_id', ''), ('imc_id', 's' * 257)])
def test_wrong_fields_are_named(worker, field, value):
    refused = worker.call('POST', '/execute', {'job_id': 'x', 'prompt': 'y', field: value})
    assert refused.status == 400 and refused.error['param'] == field


def test_counts(worker):
    for _ in range(3):
        ask(worker, SYSTEM)
    ask(worker, SYSTEM[::-1])
    saved = 2 * (ask(worker, SYSTEM, cache_prompt=False)[1]['tokens_in'] - 1)
    assert worker.metric('worker_prefix_cache_queries_total') == 4
    assert worker.metric('worker_prefix_cache_hits_total') == 2
    assert worker.metric('worker_prefix_cache_hit_tokens_total') == saved
    assert worker.metric('worker_prefix_cache_query_tokens_total') > saved
    health = worker.get('/health').json()
    assert (health['cache_queries'], health['cache_hits'], health['cache_tokens_saved']) == (4, 2, saved)
    assert health['kv_pages'] == 8 and health['kv_pages_used'] == 0 and health['kv_pages_cached'] >= 4
    assert worker.metric('worker_prefix_cache_blocks') == health['kv_pages_cached']


def test_a_small_pool_serves_everybody_in_turn(tiny_model):
    """One context's worth of memory for four slots: jobs wait for pages, and nothing is lost."""
    with Worker('--model', tiny_model, '--slots', '4', '--kv-tokens', '1024') as worker:
        worker.wait_event('ready')
        assert worker.get('/health').json()['kv_pages'] == 4
        streams = [worker.open(prompt=SYSTEM + str(i), max_tokens=300, ignore_eos=True) for i in range(6)]
        assert all(s.rest()[-1].data['tokens_out'] == 300 for s in streams)
        for s in streams:
            s.close()
        worker.wait_idle()
        assert worker.get('/health').json()['kv_pages_used'] == 0
        assert worker.metric('worker_prefix_cache_evictions_total') > 0


def test_a_pool_below_a_context_is_refused(tiny_model):
    with Worker('--model', tiny_model, '--kv-tokens', '700') as worker:
        error = worker.wait_event('error')
        assert 'the KV cache has 768 positions' in error['message']
        assert worker.wait_exit(30) == 2


@pytest.mark.skipif(SANITIZED, reason='a figure of the release build')
def test_the_first_token_of_a_known_prompt_comes_twenty_times_sooner(demo_model):
    """A prefix of about 1,000 tokens and a short question, through HTTP."""
    prefix = ' '.join(f'Rule {i}: the {i}th drawer holds {i * 7 % 13} spoons.' for i in range(60))
    with Worker('--model', demo_model, '--context', '2048') as worker:
        worker.wait_event('ready')
        cold, hit = [], []
        for i in range(3):
            for took, drawer in ((cold, 3), (hit, 41)):
                begin = time.monotonic()
                stream = worker.open(prompt=f'{prefix}\nHow many are in drawer {drawer}?', max_tokens=2,
                                     temperature=0.0, cache_salt=f'round {i}', ignore_eos=True)
                stream.until('token')
                took.append(time.monotonic() - begin)
                end = stream.finish()
                stream.close()
        assert 900 <= end.data['tokens_cached'] < end.data['tokens_in'] - 1, end
        print(f'{end.data}: cold {cold} s, hit {hit} s')
        assert statistics.median(cold) >= 20 * statistics.median(hit), (cold, hit)
