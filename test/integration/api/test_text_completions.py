"""/v1/completions with lists of prompts, echoes and log probabilities of the prompt, and more choices than
the worker has slots."""
import json
import threading
import time
from typing import Iterator, List

import pytest

from completion_worker import chat, frames, send, start, text
from worker_process import PATIENCE, Worker, wait_until


@pytest.fixture(scope='module')
def serving(slow_model, tmp_path_factory) -> Iterator[Worker]:
    with start(slow_model, tmp_path_factory.mktemp('text'), '--slots', '2', '--max-queue', '3',
               '--context', '1024') as worker:
        yield worker


def choices(response) -> List[dict]:
    assert response.status == 200, response.body
    answer = response.json()
    assert [c['index'] for c in answer['choices']] == list(range(len(answer['choices'])))
    return answer['choices']


def ids_of(worker: Worker, content: str) -> List[int]:
    return worker.call('POST', '/tokenize', {'content': content, 'add_special': True}).json()['tokens']


# --- lists of prompts -------------------------------------------------------------------------------


def test_prompts_of_a_list_are_answered_in_order_and_each_as_if_alone(worker):
    prompts = ['Once upon', 'a time', 'there was', 'a dog', 'and a cat']
    asked = {'temperature': 0.8, 'seed': 11, 'n': 2, 'max_tokens': 6}
    together = text(worker, prompt=prompts, **asked)
    alone = [choices(text(worker, prompt=prompt, **asked)) for prompt in prompts]
    assert [c['text'] for c in choices(together)] == [c['text'] for two in alone for c in two]
    usage = together.json()['usage']
    assert usage['prompt_tokens'] == sum(len(ids_of(worker, p)) for p in prompts), 'a prompt counts once'
    assert usage['completion_tokens'] == 10 * 6
    assert usage['total_tokens'] == usage['prompt_tokens'] + usage['completion_tokens']


def test_lists_of_token_ids(worker):
    prompts = ['Once upon', 'a time there was']
    ids = [ids_of(worker, prompt) for prompt in prompts]
    assert choices(text(worker, prompt=ids)) == choices(text(worker, prompt=prompts))
    assert choices(text(worker, prompt=ids[0])) == choices(text(worker, prompt=prompts[0]))


def test_a_stream_of_several_prompts(worker):
    prompts = ['Once upon', 'a time', 'there was']
    whole = [c['text'] for c in choices(text(worker, prompt=prompts, echo=True))]
    stream = text(worker, prompt=prompts, echo=True, stream=True,
                  stream_options={'include_usage': True, 'continuous_usage_stats': True})
    *chunks, last, done = frames(stream.body)
    assert done == '[DONE]'
    said = ['', '', '']
    prompt_tokens = {}
    for chunk in map(json.loads, chunks):
        for choice in chunk['choices']:
            said[choice['index']] += choice['text']
            prompt_tokens[choice['index']] = chunk['usage']['prompt_tokens']
    assert said == whole
    assert [prompt_tokens[i] for i in range(3)] == [len(ids_of(worker, p)) for p in prompts]
    assert json.loads(last)['usage']['prompt_tokens'] == sum(prompt_tokens.values())


@pytest.mark.parametrize('changes, param', [
    ({'prompt': ['x'] * 129}, 'prompt'), ({'prompt': ['x', '']}, 'prompt'), ({'prompt': ['x', 5]}, 'prompt'),
    ({'prompt': ['x', [1]], 'n': 65}, 'n'), ({'prompt': [[1], [-1]]}, 'prompt'),
    ({'prompt': [[1], [10 ** 9]]}, 'prompt'),
    ({'prompt': ['x', 'x ' * 2000]}, 'prompt'), ({'prompt': [[[1]]]}, 'prompt'),
    ({'prompt': {}}, 'prompt.prompt_string'),
    ({'prompt': [[1] * 10_000]}, 'prompt'), ({'max_tokens': 0}, 'max_tokens'), ({'echo': 'yes'}, 'echo'),
    ({'max_tokens': 0, 'echo': False}, 'max_tokens'), ({'logprobs': 21, 'echo': True}, 'logprobs'),
    ({'best_of': 2}, 'best_of'), ({'n': 129}, 'n')])
def test_what_is_refused(worker, changes, param):
    refused = text(worker, **changes)
    assert refused.status == 400, refused.body
    assert refused.json()['error']['param'] == param


# --- echo and log probabilities of the prompt --------------------------------------------------------


def test_an_echo_of_parts_of_characters_is_valid_utf8(worker):
    for stream in False, True:
        answer = text(worker, prompt=list(range(255, -1, -1)), echo=True, logprobs=1, max_tokens=4,
                      stream=stream)
        assert '\N{REPLACEMENT CHARACTER}' in answer.body.decode()


def test_an_echo_is_the_prompt_and_then_what_comes_without_it(worker):
    (plain,) = choices(text(worker))
    (echoed,) = choices(text(worker, echo=True))
    assert echoed['text'] == 'Once upon a time' + plain['text'] and echoed['logprobs'] is None
    (nothing,) = choices(text(worker, echo=True, max_tokens=0))
    assert nothing['text'] == 'Once upon a time' and nothing['finish_reason'] == 'length'


@pytest.mark.parametrize('max_tokens', [0, 1, 5])
def test_tokens_of_the_prompt_have_the_log_probabilities_that_they_would_have_as_output(worker, max_tokens):
    """What the model says after each beginning of the prompt, asked for one by one, is the reference."""
    ids = ids_of(worker, 'Once upon a time there was')
    asked = {'logprobs': 5, 'echo': True, 'max_tokens': max_tokens}
    response = text(worker, prompt=ids, **asked)
    (scored,) = choices(response)
    usage = response.json()['usage']
    assert (usage['prompt_tokens'], usage['completion_tokens']) == (len(ids), max_tokens)
    told = scored['logprobs']
    assert {len(told[key]) for key in told} == {len(ids) + max_tokens}
    assert told['token_logprobs'][0] is None and told['top_logprobs'][0] is None
    for i in range(1, len(ids)):
        (after,) = choices(text(worker, prompt=ids[:i], logprobs=5, max_tokens=1, cache_prompt=False,
                                logit_bias={str(ids[i]): 100}, temperature=0))
        assert told['tokens'][i] == after['logprobs']['tokens'][0]
        assert told['token_logprobs'][i] == after['logprobs']['token_logprobs'][0], 'the same bits'
        assert told['top_logprobs'][i] == after['logprobs']['top_logprobs'][0]
    if max_tokens:
        (plain,) = choices(text(worker, prompt=ids, logprobs=5, max_tokens=max_tokens))
        assert told['tokens'][len(ids):] == plain['logprobs']['tokens']
        assert told['token_logprobs'][len(ids):] == plain['logprobs']['token_logprobs']
    tokens, offsets = told['tokens'][:len(ids)], told['text_offset'][:len(ids)]
    assert scored['text'].startswith(''.join(tokens)), 'what this model adds may be no text'
    assert [scored['text'][offset:][:len(token)] for offset, token in zip(offsets, tokens)] == tokens


def test_values_of_the_prompt_in_the_form_of_vllm(worker):
    ids = ids_of(worker, 'Once upon a time there was')
    (echoed,) = choices(text(worker, prompt=ids, echo=True, logprobs=5, max_tokens=1))
    (plain,) = choices(text(worker, prompt=ids, n=1))
    first, second = choices(text(worker, prompt=ids, n=2, prompt_logprobs=5))
    assert first['text'] == plain['text'] and first['logprobs'] is None
    told = first['prompt_logprobs']
    assert second['prompt_logprobs'] == told and len(told) == len(ids) and told[0] is None
    for i, token in enumerate(ids[1:], 1):
        own, *others = told[i].items()
        assert own[0] == str(token) and own[1]['logprob'] == echoed['logprobs']['token_logprobs'][i]
        assert len(told[i]) == (5 if own[1]['rank'] <= 5 else 6)
        assert sorted(v['rank'] for v in told[i].values())[:5] == [1, 2, 3, 4, 5]
        listed = echoed['logprobs']['top_logprobs'][i].values()
        assert sorted(v['logprob'] for v in told[i].values()) == sorted(listed), 'the same bits'
    both, = choices(text(worker, prompt=ids, echo=True, logprobs=2, prompt_logprobs=5, max_tokens=1))
    assert both['prompt_logprobs'] == told
    two, = choices(text(worker, prompt=ids, echo=True, logprobs=2, max_tokens=1))
    assert both['logprobs'] == two['logprobs'], 'the echo lists as many as it was asked to'
    bare, = choices(text(worker, prompt=ids, prompt_logprobs=0))
    assert [list(v) for v in bare['prompt_logprobs'][1:]] == [[str(token)] for token in ids[1:]]


def test_ranks_of_the_prompt_are_in_the_order_of_its_log_probabilities(worker):
    beginning = ids_of(worker, 'Once upon a time')
    last = [choice['prompt_logprobs'][-1][str(token)] for token in range(5, 105, 4)
            for choice in choices(text(worker, prompt=[*beginning, token], prompt_logprobs=0, max_tokens=1))]
    ordered = sorted(last, key=lambda value: value['rank'])
    assert len({value['rank'] for value in last}) == len(last) and ordered[-1]['rank'] > 20
    assert ordered == sorted(last, key=lambda value: -value['logprob'])


def test_values_of_the_prompt_of_a_chat(worker):
    plain = chat(worker).json()
    answers = [chat(worker, prompt_logprobs=1, return_token_ids=True, n=n).json() for n in (1, 3, 1)]
    for answer in answers:
        assert [c['message'] for c in answer['choices']][0] == plain['choices'][0]['message']
        assert answer['usage']['prompt_tokens'] == len(answer['prompt_token_ids'])
        told = answer['prompt_logprobs']
        assert told == answers[0]['prompt_logprobs'], 'whatever is in the cache'
        assert [next(iter(v)) for v in told[1:]] == [str(i) for i in answer['prompt_token_ids'][1:]]
        assert all('prompt_logprobs' not in choice for choice in answer['choices'])
    assert 'prompt_logprobs' not in plain


@pytest.mark.parametrize('changes', [{'prompt_logprobs': -1}, {'prompt_logprobs': 21},
                                     {'prompt_logprobs': True}, {'prompt_logprobs': 1, 'stream': True}])
def test_values_of_the_prompt_that_are_not_told(worker, changes):
    for ask in (text, chat):
        refused = ask(worker, **changes)
        assert refused.status == 400 and refused.json()['error']['param'] == 'prompt_logprobs', refused.body


def test_scores_do_not_depend_on_the_cache_the_neighbours_or_the_stream(worker):
    asked = {'prompt': ['word ' * 150 + 'end', 'Once upon', 'word ' * 150 + 'fin'], 'echo': True,
             'logprobs': 2, 'max_tokens': 2}
    cold = choices(text(worker, **asked, cache_prompt=False))
    assert choices(text(worker, **asked)) == cold
    assert choices(text(worker, **asked)) == cold, 'what the first left in the cache is not skipped'
    gathered = [{'text': '', 'tokens': [], 'token_logprobs': [], 'top_logprobs': [], 'text_offset': []}
                for _ in cold]
    *chunks, done = frames(text(worker, **asked, stream=True).body)
    assert done == '[DONE]'
    for chunk in map(json.loads, chunks):
        (choice,) = chunk['choices']
        into = gathered[choice['index']]
        into['text'] += choice['text']
        for key, values in (choice['logprobs'] or {}).items():
            into[key] += values
    assert gathered == [{'text': c['text'], **c['logprobs']} for c in cold]


def test_the_token_alone_is_listed_where_none_beside_it_are_asked_for(worker):
    (choice,) = choices(text(worker, logprobs=0, max_tokens=2))
    told = choice['logprobs']
    assert told['top_logprobs'] == [{token: value}
                                    for token, value in zip(told['tokens'], told['token_logprobs'])]
    assert all(value <= 0 for value in told['token_logprobs'])
    whole = chat(worker, logprobs=True, top_logprobs=0, max_tokens=2).json()
    assert [token['top_logprobs'] for token in whole['choices'][0]['logprobs']['content']] == [[], []]


def test_a_chat_that_counts_its_log_probabilities_is_told_how(worker):
    refused = chat(worker, logprobs=5)
    assert refused.status == 400 and refused.json()['error']['param'] == 'logprobs'
    assert "'top_logprobs'" in refused.json()['error']['message']


def test_the_token_that_ends_the_output_is_scored_and_is_no_text(demo_model, tmp_path):
    """Evaluations count on one entry for max_tokens 1, whatever the token."""
    with Worker('--model', demo_model) as worker:
        worker.wait_event('ready')
        prompt = '<|im_start|>user\nSay yes.<|im_end|>\n<|im_start|>assistant\nYes.'
        ids = worker.call('POST', '/tokenize', {'content': prompt}).json()['tokens']
        (end,) = worker.call('POST', '/tokenize', {'content': '<|im_end|>'}).json()['tokens']
        (choice,) = choices(worker.call('POST', '/v1/completions', {
            'prompt': prompt, 'echo': True, 'logprobs': 1, 'max_tokens': 1, 'logit_bias': {str(end): 100}}))
        assert choice['finish_reason'] == 'stop' and choice['text'] == prompt
        assert len(choice['logprobs']['tokens']) == len(ids) + 1
        assert choice['logprobs']['tokens'][-1] == '<|im_end|>'
        assert choice['logprobs']['text_offset'][-1] == len(prompt)


# --- more choices than slots ------------------------------------------------------------------------


@pytest.mark.parametrize('ask', [chat, text])
def test_choices_beyond_the_slots_wait_for_them_and_are_the_same(worker, ask):
    asked = {'temperature': 1, 'seed': 3, 'max_tokens': 4, 'n': 9}
    many = choices(ask(worker, **asked))
    assert len(many) == 9
    assert choices(ask(worker, **{**asked, 'n': 2})) == many[:2]


def test_others_find_a_slot_between_the_choices_of_one_request(worker):
    """A request with many choices holds as many places as there are slots, not more."""
    long = send(worker, n=40, max_tokens=30)
    wait_until(lambda: worker.running() == 2, PATIENCE, 'both slots are used')
    assert worker.waiting() == 0
    begun = time.monotonic()
    assert chat(worker, max_tokens=1).status == 200
    beside = time.monotonic() - begun
    response = long.read_response()
    whole = time.monotonic() - begun
    assert len(choices(response)) == 40
    assert beside < whole / 2


def test_a_cancel_ends_the_choices_that_have_not_begun(worker):
    stream = worker.connect()
    stream.request('POST', '/v1/completions', json.dumps({
        'prompt': ['Once upon'] * 40, 'max_tokens': 500, 'stream': True, 'ignore_eos': True}).encode())
    assert stream.read_head().status == 200
    chunks = stream.chunks()
    answer_id = json.loads(next(chunks).split(b'data: ')[1].split(b'\n')[0])['id']
    assert worker.call('POST', '/cancel', {'job_id': answer_id}).status == 202
    rest = b''.join(chunks)
    assert b'CANCELLED' in rest and b'[DONE]' not in rest
    worker.wait_idle()


def test_a_client_that_leaves_ends_all_of_them(worker):
    gone = send(worker, n=100, max_tokens=500)
    wait_until(lambda: worker.running() == 2, PATIENCE, 'both slots are used')
    gone.close()
    worker.wait_idle()


def test_a_drain_finishes_what_was_accepted(slow_model, tmp_path):
    with start(slow_model, tmp_path, '--slots', '2', '--max-queue', '1') as worker:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(chat(worker, n=12, max_tokens=20)))
        asking.start()
        wait_until(lambda: worker.running() == 2, PATIENCE, 'both slots are used')
        assert worker.call('POST', '/shutdown', b'').status == 202
        asking.join(PATIENCE)
        assert len(choices(answers[0])) == 12
