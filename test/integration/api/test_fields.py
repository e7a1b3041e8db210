"""Fields of llama-server, vLLM and others on the completions of a running worker: what each of them means."""
import json

import pytest

from completion_worker import chat, frames, start, text

LEFT = {
    'cache_control': [{'role': 'system', 'content': [
        {'type': 'text', 'text': 'Be brief', 'cache_control': {'type': 'ephemeral'}}]},
        {'role': 'user', 'content': 'hi'}],
    'what an answer had': [
        {'role': 'user', 'content': 'hi', 'id': 'm1'},
        {'role': 'assistant', 'content': 'ok', 'reasoning': 'x', 'reasoning_details': [],
         'provider_specific_fields': {}, 'refusal': None, 'audio': None, 'function_call': None},
        {'role': 'user', 'content': 'hi'}],
}


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory):
    with start(tiny_model, tmp_path_factory.mktemp('fields'), '--slots', '4') as running:
        yield running


def answer_of(response):
    assert response.status == 200, response.body
    return json.loads(response.body)


def chunks_of(response):
    assert response.status == 200, response.body
    *chunks, done = frames(response.body)
    assert done == '[DONE]'
    return [json.loads(chunk) for chunk in chunks]


def tokens_of(worker, content):
    return answer_of(worker.call('POST', '/tokenize', {'content': content}))['tokens']


@pytest.mark.parametrize('messages', LEFT.values(), ids=LEFT)
def test_what_cannot_change_an_answer_is_left(worker, messages):
    bare = [{'role': m['role'], 'content': 'Be brief' if m['role'] == 'system' else m['content']}
            for m in messages]
    taken = answer_of(chat(worker, messages=messages, user='u', store=True, verbosity='low', keep_alive=5,
                           id_slot=0, stream_options={'include_usage': True},
                           chat_template_kwargs={'unread': 1}))
    assert taken['choices'] == answer_of(chat(worker, messages=bare))['choices']


def test_strict_fields_refuses_what_would_be_left(tiny_model, tmp_path):
    with start(tiny_model, tmp_path, '--strict-fields') as strict:
        for changes, param in (({'user': 'u'}, 'user'),
                               ({'messages': LEFT['cache_control']}, 'messages[0].content[0].cache_control'),
                               ({'chat_template_kwargs': {'unread': 1}}, 'unread'),
                               ({'stream_options': {'include_usage': True}}, 'stream_options')):
            refused = chat(strict, **changes)
            assert (refused.status, refused.error['param']) == (400, param), refused.body


def test_other_names_ask_for_the_same(worker):
    plain = answer_of(text(worker, repetition_penalty=1.3, max_tokens=5))
    named = answer_of(text(worker, repeat_penalty=1.3, max_tokens=None, n_predict=5, top_k=-1))
    assert named['choices'] == plain['choices']


def test_token_ids_are_those_of_the_text(worker):
    whole = answer_of(text(worker, return_token_ids=True))['choices'][0]
    assert whole['prompt_token_ids'][-2:] == tokens_of(worker, 'Once upon a time')[-2:]
    assert len(whole['token_ids']) == 8
    shown = worker.call('POST', '/detokenize', {'tokens': whole['token_ids']})
    assert answer_of(shown)['content'].strip() == whole['text'].strip()
    pieces = [c['choices'][0] for c in chunks_of(text(worker, return_token_ids=True, stream=True))]
    assert sum((p['token_ids'] for p in pieces), []) == whole['token_ids']
    assert pieces[0]['prompt_token_ids'] == whole['prompt_token_ids']
    assert all('prompt_token_ids' not in p for p in pieces[1:])
    first, *_ = chunks_of(chat(worker, return_token_ids=True, stream=True))
    assert first['prompt_token_ids'] == answer_of(chat(worker, return_token_ids=True))['prompt_token_ids']


def test_a_stop_token_ends_the_answer(worker):
    ids = answer_of(text(worker, return_token_ids=True))['choices'][0]['token_ids']
    stop = ids[3]
    at = ids.index(stop)
    for keep in (False, True):
        ended = answer_of(text(worker, stop_token_ids=[stop], return_token_ids=True,
                               include_stop_str_in_output=keep))
        choice = ended['choices'][0]
        assert choice['finish_reason'] == 'stop'
        assert choice['token_ids'] == ids[:at + keep]
        assert ended['usage']['completion_tokens'] == at + keep
    longer = answer_of(text(worker, stop_token_ids=[stop], min_tokens=at + 2, return_token_ids=True))
    assert len(longer['choices'][0]['token_ids']) >= at + 2
    assert stop not in longer['choices'][0]['token_ids'][:at + 2]


def test_a_stop_string_may_be_part_of_the_answer(worker):
    whole = answer_of(text(worker))['choices'][0]['text']
    stop = whole[4:6]
    end = whole.index(stop)
    for stream in (False, True):
        asked = {'stop': [stop], 'include_stop_str_in_output': True, 'stream': stream}
        kept = text(worker, **asked)
        if stream:
            shown = ''.join(c['choices'][0]['text'] for c in chunks_of(kept))
        else:
            shown = answer_of(kept)['choices'][0]['text']
        assert shown == whole[:end] + stop


def test_only_tokens_that_are_allowed(worker):
    two = tokens_of(worker, 'ab')
    ids = answer_of(text(worker, allowed_token_ids=two, return_token_ids=True, temperature=1))
    assert set(ids['choices'][0]['token_ids']) <= set(two)
    greedy = answer_of(text(worker, return_token_ids=True))['choices'][0]['token_ids']
    without = answer_of(text(worker, return_token_ids=True, logit_bias=[[greedy[0], False]]))
    assert greedy[0] not in without['choices'][0]['token_ids']


def test_a_prompt_that_may_be_cut(worker):
    cut = answer_of(text(worker, prompt='x ' * 100 + 'the end', truncate_prompt_tokens=4,
                         return_token_ids=True))
    assert len(cut['choices'][0]['prompt_token_ids']) == 4 == cut['usage']['prompt_tokens']
    assert cut['choices'][0]['prompt_token_ids'] == tokens_of(worker, 'x ' * 100 + 'the end')[-4:]


def test_an_answer_that_continues_a_message(worker):
    begun = [{'role': 'user', 'content': 'go'}, {'role': 'assistant', 'content': 'Once upon'}]
    continued = answer_of(chat(worker, messages=begun, continue_final_message=True,
                               add_generation_prompt=False, return_token_ids=True))
    same = answer_of(text(worker, prompt='user: go\nassistant: Once upon', return_token_ids=True))
    assert continued['prompt_token_ids'] == same['choices'][0]['prompt_token_ids']
    assert continued['choices'][0]['message']['content'] == same['choices'][0]['text']


def test_timings(worker):
    whole = answer_of(chat(worker, timings_per_token=True))
    timings = whole['timings']
    assert timings['prompt_n'] + timings['cache_n'] == whole['usage']['prompt_tokens']
    assert timings['predicted_n'] == 8
    assert {'prompt_ms', 'prompt_per_token_ms', 'prompt_per_second', 'predicted_ms', 'predicted_per_token_ms',
            'predicted_per_second'} <= set(timings)
    chunks = chunks_of(chat(worker, timings_per_token=True, stream=True))
    counts = [c['timings']['predicted_n'] for c in chunks if 'timings' in c]
    assert counts == sorted(counts) and counts[-1] == 8 and len(counts) > 2
    assert 'timings' not in answer_of(chat(worker))


def check_progress(chunks: list) -> list:
    """It begins with what is known, rises to the whole prompt, and all of it comes before the output."""
    told = [c['prompt_progress'] for c in chunks if 'prompt_progress' in c]
    total, cache = told[0]['total'], told[0]['cache']
    assert all((p['total'], p['cache']) == (total, cache) for p in told)
    done = [p['processed'] for p in told]
    assert done[0] == cache and done[-1] == total and done == sorted(set(done))
    times = [p['time_ms'] for p in told]
    assert times == sorted(times) and times[0] == 0
    return told


def test_progress_of_the_prompt(worker):
    chunks = chunks_of(chat(worker, return_progress=True, stream=True))
    assert [c['choices'][0]['delta'] for c in chunks if 'prompt_progress' in c][0] == {}
    check_progress(chunks)


def test_progress_of_a_long_prompt_and_of_one_that_is_known(worker):
    asked = {'return_progress': True, 'stream': True, 'messages': [{'role': 'user', 'content': 'a b ' * 150}]}
    first = check_progress(chunks_of(chat(worker, **asked)))
    assert first[0]['cache'] == 0
    again = check_progress(chunks_of(chat(worker, **asked)))
    assert 0 < again[0]['cache'] < again[0]['total'] == first[0]['total']
    assert len(again) <= len(first)
    both = chunks_of(chat(worker, **asked, n=2))
    assert {c['choices'][0]['index'] for c in both if 'prompt_progress' in c} == {0, 1}
    told = chunks_of(text(worker, stream=True, return_progress=True))
    check_progress(told)


def test_tokens_as_ids_in_log_probabilities(worker):
    asked = {'return_tokens_as_token_ids': True, 'return_token_ids': True}
    choice = answer_of(chat(worker, logprobs=True, top_logprobs=2, **asked))['choices'][0]
    named = [e['token'] for e in choice['logprobs']['content']]
    assert named == [f'token_id:{t}' for t in choice['token_ids']]
    choice = answer_of(text(worker, logprobs=2, **asked))['choices'][0]
    assert choice['logprobs']['tokens'] == [f'token_id:{t}' for t in choice['token_ids']]
    assert all(key.startswith('token_id:') for key in choice['logprobs']['top_logprobs'][0])


@pytest.mark.parametrize('ask', [chat, text], ids=['chat', 'text'])
def test_schemas_by_their_other_names(worker, ask):
    schema = {'enum': ['red', 'green']}
    texts = set()
    for changes in ({'guided_json': schema}, {'guided_json': json.dumps(schema)}, {'json_schema': schema},
                    {'structured_outputs': {'json': schema}},
                    {'response_format': {'type': 'json_object', 'schema': schema}},
                    {'response_format': {'type': 'json_schema', 'json_schema': {'schema': schema}}}):
        choice = answer_of(ask(worker, **changes))['choices'][0]
        texts.add(choice['message']['content'] if ask is chat else choice['text'])
    assert texts <= {'"red"', '"green"'} and len(texts) == 1
    refused = ask(worker, guided_json={'type': 'nonsense'})
    assert (refused.status, refused.error['param']) == (400, 'guided_json')


@pytest.mark.parametrize('ask', [chat, text], ids=['chat', 'text'])
@pytest.mark.parametrize('changes', [
    {'guided_choice': ['red', 'green']}, {'guided_regex': 'red|green'},
    {'grammar': 'root ::= "red" | "green"'}, {'guided_grammar': 'root ::= "red" | "green"'},
    {'guided_grammar': 'start: COLOUR\nCOLOUR: "red" | "green"'}, {'ebnf': '?start: "red" | "green"'},
    {'structured_outputs': {'choice': ['red', 'green']}}, {'structured_outputs': {'regex': 'red|green'}},
    {'structured_outputs': {'grammar': 'root ::= "red" | "green"'}},
    {'structured_outputs': {'grammar': 'start: "red" | "green"'}}], ids=str)
def test_texts_that_are_described(worker, ask, changes):
    choice = answer_of(ask(worker, **changes))['choices'][0]
    assert (choice['message']['content'] if ask is chat else choice['text']) in ('red', 'green')
    assert choice['finish_reason'] == 'stop'


@pytest.mark.parametrize('changes, param', [
    ({'guided_regex': '('}, 'guided_regex'), ({'grammar': 'x ::= "a"'}, 'grammar'),
    ({'guided_grammar': 'start: colour'}, 'guided_grammar'),
    ({'guided_choice': []}, 'guided_choice'), ({'guided_choice': 'red'}, 'guided_choice'),
    ({'guided_regex': 'a', 'guided_choice': ['a']}, 'guided_choice')], ids=str)
def test_descriptions_of_texts_that_are_none(worker, changes, param):
    refused = chat(worker, **changes)
    assert (refused.status, refused.error['param']) == (400, param), refused.body
