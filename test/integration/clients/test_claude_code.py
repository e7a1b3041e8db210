"""Requests in the shapes that Claude Code sends (test/data/requests/claude_code.json), as they are, with its
models' names and its 32,000 tokens: the first turn with its tools, a turn after two calls, a title, a probe
of the quota, a count."""
import json

import pytest

from completion_worker import TEMPLATES
from worker_process import PROJECT, Worker

REQUESTS = json.loads((PROJECT / 'test' / 'data' / 'requests' / 'claude_code.json').read_text())
HEADERS = {'anthropic-version': '2023-06-01', 'x-api-key': 'any', 'x-app': 'cli',
           'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14,'
                             'context-management-2025-06-27',
           'x-stainless-lang': 'js', 'anthropic-dangerous-direct-browser-access': 'true'}


@pytest.fixture(scope='module', params=['Qwen-Qwen2.5-7B-Instruct', 'Qwen-Qwen3-0.6B'])
def worker(request, demo_model):
    with Worker('--model', demo_model, '--model-name', '*', '--slots', '1', '--context', '4096',
                '--max-tokens-out', '24', '--cache-min-tokens', '16', '--chat-template',
                str(TEMPLATES / f'{request.param}.jinja')) as running:
        running.wait_event('ready')
        yield running
        assert running.alive()


def events_of(body: bytes) -> list:
    """Each event's data; its name must be the data's type."""
    out = []
    for block in body.decode('utf-8').strip().split('\n\n'):
        name, data = block.split('\n')
        out.append(json.loads(data.removeprefix('data: ')))
        assert name == f"event: {out[-1]['type']}"
    return out


def ask(worker, name: str, path: str = '/v1/messages?beta=true', **changes):
    return worker.call('POST', path, {**REQUESTS[name], **changes}, HEADERS)


@pytest.mark.parametrize('name', ['first turn', 'after two calls', 'title'])
def test_a_turn_is_answered(worker, name):
    answer = ask(worker, name)
    assert answer.status == 200, answer.body
    events = events_of(answer.body)
    assert events[0]['type'] == 'message_start' and events[-1]['type'] == 'message_stop'
    opened = [event['index'] for event in events if event['type'] == 'content_block_start']
    closed = [event['index'] for event in events if event['type'] == 'content_block_stop']
    assert opened == closed == list(range(len(opened))) and opened
    assert events[-2]['usage']['output_tokens'] <= 24


def test_the_line_that_differs_in_every_request_costs_no_cache(worker):
    def with_line(text: str) -> list:
        return [{'type': 'text', 'text': f'x-anthropic-billing-header: {text};'},
                *REQUESTS['first turn']['system'][1:]]
    for line in ('cch=00002', 'cch=00003'):
        usage = ask(worker, 'first turn', system=with_line(line), stream=False, max_tokens=1).json()['usage']
    assert usage['cache_read_input_tokens'] > usage['input_tokens']


def test_a_title_is_json(worker):
    events = events_of(ask(worker, 'title').body)
    text = ''.join(event['delta'].get('text', '') for event in events
                   if event['type'] == 'content_block_delta')
    assert text.lstrip().startswith('{')
    if events[-2]['delta']['stop_reason'] == 'end_turn':
        assert set(json.loads(text)) == {'title'}


def test_the_probe_and_the_count(worker):
    quota = ask(worker, 'quota')
    assert quota.status == 200 and quota.json()['stop_reason'] in ('max_tokens', 'end_turn')
    counted = ask(worker, 'count', '/v1/messages/count_tokens?beta=true')
    assert counted.status == 200 and counted.json()['input_tokens'] > 500
