"""Requests in the shapes that OpenCode, Cline and Open WebUI send (test/data/requests), written by hand from
what their public sources say, as raw bytes with their headers: first turns, turns after calls, titles, tools
that are described as text, and a client that leaves."""
import json
from typing import Iterator, List

import pytest

from completion_worker import start
from worker_process import PROJECT, Worker

TEMPLATES = PROJECT / 'test' / 'data' / 'chat' / 'templates'
CLIENTS = {
    'opencode': {'Authorization': 'Bearer any',
                 'User-Agent': 'opencode/1.1.4 ai-sdk/openai-compatible/2.0.4 runtime/bun/1.3.5'},
    'cline': {'Authorization': 'Bearer noop', 'Accept': 'application/json', 'User-Agent': 'Cline/3.46.0',
              'X-Stainless-Lang': 'js',
              'X-Stainless-Package-Version': '4.83.0', 'X-Stainless-Runtime': 'node',
              'X-Stainless-Retry-Count': '0', 'X-Stainless-Timeout': '600'},
    'open_webui': {'Authorization': 'Bearer any', 'Accept': '*/*', 'User-Agent': 'Python/3.11 aiohttp/3.13.2',
                   'X-OpenWebUI-User-Name': 'A%20user', 'X-OpenWebUI-User-Id': '3f9b',
                   'X-OpenWebUI-User-Email': 'user@example.org', 'X-OpenWebUI-User-Role': 'user',
                   'X-OpenWebUI-Chat-Id': '77aa', 'Cookie': 'token=any'}}
FOLDER = PROJECT / 'test' / 'data' / 'requests'
REQUESTS = {client: json.loads((FOLDER / f'{client}.json').read_text()) for client in CLIENTS}
TOKENS = 120  # enough for a call
ALL = [(client, name) for client, requests in REQUESTS.items() for name in requests]


@pytest.fixture(scope='module', params=['Qwen-Qwen2.5-7B-Instruct', 'Qwen-Qwen3-0.6B'])
def worker(request, models) -> Iterator[Worker]:
    """A model that takes microseconds a token: what it says does not matter here."""
    with Worker('--model', models('requests', '--context', '16384'), '--slots', '2', '--max-tokens-out',
                str(TOKENS), '--cache-min-tokens', '16', '--chat-template',
                str(TEMPLATES / f'{request.param}.jinja')) as running:
        running.wait_event('ready')
        yield running
        assert running.alive()


@pytest.fixture(scope='module')
def leaving(slow_model, tmp_path_factory) -> Iterator[Worker]:
    with start(slow_model, tmp_path_factory.mktemp('leaving')) as running:
        yield running


def body_of(worker: Worker, client: str, name: str, **changes) -> dict:
    served = worker.call('GET', '/v1/models').json()['data'][0]['id']
    # With a seed, or now and then the model would have nothing to say.
    return {'seed': 1, **REQUESTS[client][name], 'model': served, **changes}


def ask(worker: Worker, client: str, name: str, **changes):
    answer = worker.call('POST', '/v1/chat/completions', body_of(worker, client, name, **changes),
                         CLIENTS[client])
    assert answer.status == 200, answer.body
    return answer


def chunks_of(body: bytes) -> List[dict]:
    *data, done = [block.removeprefix('data: ') for block in body.decode().split('\n\n') if block[:1] == 'd']
    assert done == '[DONE]'
    return [json.loads(one) for one in data]


@pytest.mark.parametrize('client, name', ALL)
def test_a_turn_is_answered(worker, client, name):
    answer = ask(worker, client, name)
    if not REQUESTS[client][name]['stream']:
        whole = answer.json()
        assert whole['choices'][0]['message']['role'] == 'assistant'
        assert whole['usage']['completion_tokens'] <= TOKENS
        return
    *chunks, usage = chunks_of(answer.body)
    assert chunks[0]['choices'][0]['delta']['role'] == 'assistant'
    assert [c['choices'][0]['finish_reason'] for c in chunks][-1] in ('stop', 'length', 'tool_calls')
    assert all(c['choices'][0]['finish_reason'] is None for c in chunks[:-1])
    assert usage['choices'] == [] and 0 < usage['usage']['completion_tokens'] <= TOKENS


@pytest.mark.parametrize('client, name, words', [
    ('opencode', 'after two calls', ['src/greet.ts', 'Found 1 matches', 'todowrite']),
    ('cline', 'after a call', ['I read the file.', 'console.log', 'attempt_completion', 'ACT MODE']),
    ('open_webui', 'after a call', ['get_current_timestamp', '1770109925', 'calendar_add_event'])])
def test_the_model_sees_calls_results_and_tools(worker, client, name, words):
    asked = body_of(worker, client, name)
    answer = worker.call('POST', '/apply-template', {k: asked[k] for k in ('messages', 'tools')})
    assert answer.status == 200, answer.body
    prompt = answer.json()['prompt']
    assert all(word in prompt for word in words)


@pytest.mark.parametrize('client, first, later', [('opencode', 'first turn', 'after two calls'),
                                                  ('cline', 'first turn', 'after a call')])
def test_a_later_turn_finds_system_prompt_and_tools_in_the_cache(worker, client, first, later):
    ask(worker, client, first)
    usage = chunks_of(ask(worker, client, later).body)[-1]['usage']
    assert usage['prompt_tokens_details']['cached_tokens'] > usage['prompt_tokens'] / 2


@pytest.mark.parametrize('client', CLIENTS)
def test_a_client_that_leaves_costs_no_more(leaving, client):
    """Stop was pressed: the connection ends in the middle of the answer, and the job with it."""
    asked = body_of(leaving, client, 'first turn', max_tokens=4000, ignore_eos=True)
    asked['messages'] = asked['messages'][-1:]  # short; the template of this worker knows no tools
    for field in ('tools', 'tool_choice', 'parallel_tool_calls', 'stop'):
        asked.pop(field, None)
    connection = leaving.connect()
    connection.request('POST', '/v1/chat/completions', json.dumps(asked).encode(), CLIENTS[client])
    assert connection.read_head().status == 200
    for chunk in connection.chunks():
        if b'"content"' in chunk:
            break
    connection.close()
    leaving.wait_idle()


def call_of(chunks: List[dict]):
    """The calls and the reason of the end, put together as a client does."""
    calls: dict = {}
    reason = None
    for choice in (choice for chunk in chunks for choice in chunk['choices']):
        reason = choice['finish_reason'] or reason
        for part in choice['delta'].get('tool_calls', []):
            call = calls.setdefault(part['index'], {'id': '', 'name': '', 'arguments': ''})
            call['id'] += part.get('id', '')
            call['name'] += part['function'].get('name', '')
            call['arguments'] += part['function']['arguments']
    return list(calls.values()), reason


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


# What this model says goes on for long: under the schema of bash it has not ended after TOKENS, while a tool
# without parameters is called in whole.
@pytest.mark.parametrize('name, reason', [('bash', 'length'), ('now', 'tool_calls')])
def test_a_call_that_was_made_and_its_result(worker, name, reason):
    """The next turn as OpenCode makes it of what it got: a call that the limit cut is never dressed up as a
    whole one, and the conversation goes on either way."""
    now = {'type': 'function', 'function': {'name': 'now', 'parameters': {
        'type': 'object', 'properties': {}, 'additionalProperties': False}}}
    tools = [*REQUESTS['opencode']['first turn']['tools'], now]
    asked = {'tool_choice': {'type': 'function', 'function': {'name': name}}, 'temperature': 0,
             'reasoning_effort': 'none', 'tools': tools}
    calls, ended = call_of(chunks_of(ask(worker, 'opencode', 'first turn', **asked).body))
    assert ended == reason and [call['name'] for call in calls] == [name]
    assert [is_object(call['arguments']) for call in calls] == [ended != 'length']
    turn = {'role': 'assistant', 'content': '', 'tool_calls': [
        {'id': c['id'], 'type': 'function', 'function': {'name': c['name'], 'arguments': c['arguments']}}
        for c in calls]}
    results = [{'role': 'tool', 'tool_call_id': c['id'], 'content': 'not found'} for c in calls]
    messages = [*REQUESTS['opencode']['first turn']['messages'], turn, *results]
    last = chunks_of(ask(worker, 'opencode', 'first turn', messages=messages, tools=tools).body)[-1]
    assert last['usage']['prompt_tokens_details']['cached_tokens'] > last['usage']['prompt_tokens'] / 2
