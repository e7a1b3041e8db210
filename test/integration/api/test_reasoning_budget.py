"""Reasoning that is ended after as many tokens as the request or the operator allows; then the model
answers."""
import json

import pytest

from completion_worker import CHAT, start, write_thinker
from worker_process import Worker

BUDGET = 6
NAMES = [{'thinking_budget': BUDGET}, {'thinking_token_budget': BUDGET},
         {'reasoning': {'max_tokens': BUDGET}}, {'thinking': {'type': 'enabled', 'budget_tokens': BUDGET}}]


def started(tiny_model, folder, *more: str) -> Worker:
    """The template leaves the prompt inside the reasoning, which this model's noise does not end."""
    worker = Worker('--model', tiny_model, '--chat-template', str(write_thinker(folder)), *more)
    worker.wait_event('ready')
    return worker


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory):
    with started(tiny_model, tmp_path_factory.mktemp('thinker'), '--slots', '2') as running:
        yield running


def asked(worker: Worker, **more) -> dict:
    answer = worker.call('POST', '/v1/chat/completions', {**CHAT, 'max_tokens': 60, **more})
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.parametrize('named', NAMES, ids=lambda named: json.dumps(named))
def test_reasoning_ends_and_the_answer_begins(worker, named):
    unlimited = asked(worker)['choices'][0]['message']
    assert unlimited['reasoning_content'] and not unlimited['content']
    limited = asked(worker, **named)
    message = limited['choices'][0]['message']
    assert message['content'] and message['reasoning'] == message['reasoning_content']
    assert unlimited['reasoning_content'].startswith(message['reasoning_content'].rstrip())
    # The marks around it count as reasoning, too.
    details = limited['usage']['completion_tokens_details']
    assert BUDGET <= details['reasoning_tokens'] < limited['usage']['completion_tokens']


def test_a_stream_is_the_same(worker):
    whole = asked(worker, thinking_budget=BUDGET)['choices'][0]['message']
    answer = worker.call('POST', '/v1/chat/completions',
                         {**CHAT, 'max_tokens': 60, 'thinking_budget': BUDGET, 'stream': True})
    deltas = [json.loads(line[6:])['choices'][0]['delta'] for line in answer.body.decode().split('\n')
              if line.startswith('data: {')]
    for name in ('content', 'reasoning_content', 'reasoning'):
        assert ''.join(delta.get(name) or '' for delta in deltas) == whole[name], name


def test_nothing_of_reasoning_is_allowed(worker):
    message = asked(worker, thinking_budget=0)['choices'][0]['message']
    assert message['content'] and not message.get('reasoning_content')


def test_messages_and_responses(worker):
    said = worker.call('POST', '/v1/messages', {
        'model': 'tiny', 'max_tokens': 60, 'messages': CHAT['messages'],
        'thinking': {'type': 'enabled', 'budget_tokens': BUDGET}}).json()
    kinds = [block['type'] for block in said['content']]
    if said['stop_reason'] == 'end_turn' and kinds == ['thinking']:
        # The model's noise ended the answer right behind the reasoning, which nothing but the budget ends.
        assert said['usage']['output_tokens'] < 60, said
    else:
        assert kinds[:2] == ['thinking', 'text'], said


def test_the_operators_limit_holds_where_a_request_says_nothing(tiny_model, tmp_path):
    with started(tiny_model, tmp_path, '--reasoning-budget', str(BUDGET)) as worker:
        assert asked(worker)['choices'][0]['message']['content']
        assert not asked(worker, thinking_budget=-1)['choices'][0]['message']['content']


def test_a_model_without_reasoning_has_nothing_to_limit(tiny_model, tmp_path):
    with start(tiny_model, tmp_path) as worker:
        assert asked(worker, thinking_budget=1)['choices'] == asked(worker)['choices']
