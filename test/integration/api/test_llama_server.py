"""llama-server's and vLLM's own endpoints: /completion, /infill, /props, /slots, /tokenize in both forms,
/detokenize, /apply-template, /tokenizer_info."""
import json
from typing import Iterator, List

import pytest

from completion_worker import TEXT, frames, start, text
from worker_process import Worker

ASKED = {'prompt': 'Once upon a time', 'temperature': 0, 'n_predict': 8, 'seed': 7, 'ignore_eos': True}
FINAL = {'index', 'content', 'tokens', 'id_slot', 'stop', 'model', 'tokens_predicted', 'tokens_evaluated',
         'tokens_cached', 'generation_settings', 'prompt', 'has_new_line', 'truncated', 'stop_type',
         'stopping_word', 'timings'}


@pytest.fixture(scope='module')
def serving(slow_model, tmp_path_factory) -> Iterator[Worker]:
    with start(slow_model, tmp_path_factory.mktemp('llama'), '--slots', '2', '--context', '1024',
               '--slots-endpoint') as worker:
        yield worker


def complete(worker: Worker, **changes):
    return worker.call('POST', '/completion', {**ASKED, **changes})


def answer(worker: Worker, **changes) -> dict:
    response = complete(worker, **changes)
    assert response.status == 200, response.body
    return response.json()


def post(worker: Worker, path: str, **body) -> dict:
    response = worker.call('POST', path, body)
    assert response.status == 200, response.body
    return response.json()


# --- /completion ------------------------------------------------------------------------------------


def test_a_completion_says_what_openais_says_in_its_own_shape(worker):
    openai = text(worker).json()
    said = answer(worker, return_tokens=True)
    assert set(said) == FINAL
    assert said['content'] == openai['choices'][0]['text'] and said['prompt'] == TEXT['prompt']
    assert said['tokens_evaluated'] == openai['usage']['prompt_tokens']
    assert said['tokens_predicted'] == len(said['tokens']) == 8
    assert said['stop'] is True and said['stop_type'] == 'limit' and said['stopping_word'] == ''
    assert said['truncated'] is False and said['timings']['predicted_n'] == 8
    assert said['timings']['prompt_n'] + said['timings']['cache_n'] == said['tokens_evaluated']
    settings = said['generation_settings']
    assert (settings['n_predict'], settings['seed'], settings['temperature']) == (8, 7, 0)
    assert answer(worker)['tokens'] == []


def test_a_stream_of_chunks_ends_with_the_whole_and_no_done(worker):
    whole = answer(worker, return_tokens=True)
    chunks = [json.loads(frame) for frame in frames(complete(worker, stream=True).body)]
    *parts, last = chunks
    assert ''.join(part['content'] for part in parts) == whole['content']
    ids = [token for part in parts for token in part['tokens']]
    assert ids == whole['tokens'][:len(ids)], 'the last may be no text'
    assert all(part['stop'] is False for part in parts)
    assert last['content'] == '' and last['stop'] is True and set(last) == FINAL
    assert last['tokens_predicted'] == 8


def test_a_stop_string_is_named(worker):
    said = answer(worker, n_predict=40)
    mark = next(c for c in said['content'][3:] if c.isascii() and c.isprintable() and c != ' ')
    stopped = answer(worker, n_predict=40, stop=[mark])
    assert stopped['stop_type'] == 'word' and stopped['stopping_word'] == mark
    assert stopped['content'] == said['content'][:said['content'].index(mark)]


@pytest.mark.parametrize('stream', [False, True])
def test_probabilities(worker, stream):
    response = complete(worker, n_probs=3, stream=stream)
    if stream:
        told: List[dict] = []
        for frame in frames(response.body):
            told += json.loads(frame).get('completion_probabilities', [])
    else:
        told = response.json()['completion_probabilities']
    logprobs = text(worker, logprobs=3).json()['choices'][0]['logprobs']
    assert [token['logprob'] for token in told] == logprobs['token_logprobs']
    for token in told:
        assert {'id', 'token', 'bytes', 'logprob', 'top_logprobs'} == set(token)
        assert len(token['top_logprobs']) == 3 and token['top_logprobs'][0]['id'] == token['id'], 'greedy'


def test_prompts_of_every_form(worker):
    ids = post(worker, '/tokenize', content='Once upon', add_special=True)['tokens']
    assert answer(worker, prompt=ids)['content'] == answer(worker, prompt='Once upon')['content']
    rest = post(worker, '/tokenize', content=' a time')['tokens']
    assert answer(worker, prompt=['Once upon', *rest])['tokens_evaluated'] == len(ids) + len(rest)
    several = answer(worker, prompt=['Once upon', ids, 'a dog'])
    assert [one['index'] for one in several] == [0, 1, 2]
    assert several[0]['content'] == several[1]['content'] == answer(worker, prompt='Once upon')['content']


def test_a_prompt_of_parts_of_characters_is_told_in_valid_utf8(worker):
    """JSON is UTF-8, whatever bytes a client's token ids stand for."""
    for ids in list(range(256)), list(range(255, -1, -1)):
        body = complete(worker, prompt=ids, n_predict=4, n_probs=2).body
        assert '\N{REPLACEMENT CHARACTER}' in json.loads(body.decode())['prompt']
        back = worker.call('POST', '/detokenize', {'tokens': ids}).body.decode()
        assert '\N{REPLACEMENT CHARACTER}' in json.loads(back)['content']


def chunks(worker: Worker, **changes) -> List[dict]:
    return [json.loads(frame) for frame in frames(complete(worker, stream=True, **changes).body)]


def test_a_grammar_and_a_schema_are_held(worker):
    said = answer(worker, grammar='root ::= "yes" | "no"', n_predict=40)
    assert said['content'] in ('yes', 'no') and said['stop_type'] == 'eos'
    schema = {'type': 'object', 'properties': {'n': {'type': 'integer', 'minimum': 1, 'maximum': 9}},
              'required': ['n'], 'additionalProperties': False}
    said = answer(worker, json_schema=schema, n_predict=200, temperature=1)
    assert 1 <= json.loads(said['content'])['n'] <= 9
    refused = complete(worker, grammar='root ::= nothing')
    assert refused.status == 400 and refused.json()['error']['param'] == 'grammar'
    refused = complete(worker, json_schema={'type': 'nonsense'})
    assert refused.status == 400 and refused.json()['error']['param'] == 'json_schema'


def test_only_the_fields_that_are_wanted(worker):
    names = ['content', 'generation_settings/n_predict', 'timings/predicted_n', 'surprise']
    said = answer(worker, response_fields=names)
    assert said == {'content': answer(worker)['content'], 'generation_settings/n_predict': 8,
                    'timings/predicted_n': 8}
    last = chunks(worker, response_fields=['stop'])[-1]
    assert last == {'stop': True}
    several = answer(worker, prompt=['a', 'b'], response_fields=['index'])
    assert several == [{'index': 0}, {'index': 1}]
    assert set(answer(worker, response_fields=[])) == FINAL


def test_a_token_that_is_forbidden_does_not_come(worker):
    """False is a ban; a bias, however low, is not: another may lift it again."""
    first = answer(worker, return_tokens=True, n_predict=1)['tokens'][0]
    for bias in ([[first, False]], {str(first): -100}):
        assert first not in answer(worker, return_tokens=True, logit_bias=bias)['tokens']


def test_chunks_tell_timings_and_progress(worker):
    prompt = 'z y ' * 150
    for known in (False, True):
        *parts, last = chunks(worker, prompt=prompt, timings_per_token=True, return_progress=True)
        told = [part['prompt_progress'] for part in parts if 'prompt_progress' in part]
        assert told[0]['processed'] == told[0]['cache'] and told[-1]['processed'] == told[-1]['total']
        assert (told[0]['cache'] > 0) == known and told[0]['total'] == last['tokens_evaluated']
        timed = [part['timings'] for part in parts if 'timings' in part]
        assert [t['predicted_n'] for t in timed] == [p['tokens_predicted'] for p in parts if 'timings' in p]
        assert all(t['cache_n'] + t['prompt_n'] == last['tokens_evaluated'] for t in timed) and timed
    assert not any('timings' in part for part in chunks(worker, prompt=prompt)[:-1])


def test_nothing_to_predict(worker):
    said = answer(worker, n_predict=0)
    assert said['content'] == '' and said['tokens_predicted'] == 0 and said['stop_type'] == 'limit'


BAD = [({'prompt': None}, 'prompt'), ({'prompt': ''}, 'prompt'), ({'prompt': []}, 'prompt'),
       ({'prompt': [[]]}, 'prompt'), ({'prompt': [[[1]]]}, 'prompt'), ({'prompt': [-1]}, 'prompt'),
       ({'prompt': [1.5]}, 'prompt'), ({'prompt': [10 ** 12]}, 'prompt'), ({'prompt': {'a': 1}}, 'prompt.a'),
       ({'prompt': ['x'] * 129}, 'prompt'), ({'prompt': 'x' * 40_000}, 'prompt'),
       ({'prompt': [1] * 5_000}, 'prompt'), ({'prompt': [1, {}]}, 'prompt'),
       ({'n_predict': -3}, 'n_predict'), ({'n_predict': 10 ** 30}, 'n_predict'),
       ({'n_predict': 'x'}, 'n_predict'),
       ({'n_probs': 21}, 'n_probs'), ({'n_probs': True}, 'n_probs'), ({'mirostat': 1}, 'mirostat'),
       ({'typical_p': 1.5}, 'typical_p'), ({'samplers': ['top_k']}, 'samplers'), ({'lora': [1]}, 'lora[0]'),
       ({'grammar': 5}, 'grammar'), ({'logit_bias': [[1]]}, 'logit_bias'),
       ({'logit_bias': [[1, 'x']]}, 'logit_bias'),
       ({'logit_bias': [[i, 1] for i in range(60_000)]}, 'logit_bias'), ({'stop': ['x'] * 100_000}, 'stop'),
       ({'grammar': 'root ::= "a"', 'json_schema': {}}, 'json_schema'),
       ({'response_fields': 'x'}, 'response_fields'), ({'response_fields': [1]}, 'response_fields'),
       ({'response_fields': [str(i) for i in range(65)]}, 'response_fields'),
       ({'response_fields': ['x' * 257]}, 'response_fields'), ({'return_progress': 2}, 'return_progress'),
       ({'return_tokens': 'yes'}, 'return_tokens'), ({'post_sampling_probs': 1}, 'post_sampling_probs'),
       ({'repeat_penalty': -1}, 'repeat_penalty'), ({'id_slot': 'x'}, 'id_slot'),
       ({'temperature': 10 ** 7}, 'temperature'),
       ({'max_tokens': -3}, 'max_tokens'), ({'surprise': 1}, 'surprise'), ({'model': 'other'}, 'model')]


@pytest.mark.parametrize('changes, param', BAD)
def test_what_is_refused_is_named(worker, changes, param):
    refused = complete(worker, **changes)
    assert refused.status in (400, 404), refused.body
    assert refused.json()['error']['param'] == param


HOSTILE = {
    'nothing': b'', 'an open object': b'{', 'a list': b'[]', 'null': b'null',
    'a lone surrogate': b'{"prompt":"\\ud800"}', 'bytes that are no text': b'{"prompt":"\xed\xa0\x80"}',
    '100,000 open objects': b'{"a":' * 100_000,
    '100,000 levels': b'{"prompt":' + b'[' * 100_000 + b']' * 100_000 + b'}',
    'a key twice': b'{"content":"x","content":"y"}',
    'a key twice below': b'{"messages":[{"role":"user","content":"x","content":"y"}]}',
    '200,000 tokens': b'{"tokens":[' + b'1,' * 200_000 + b'1]}',
    'a number of 500,000 digits': b'{"n_predict":' + b'9' * 500_000 + b'}',
    '100,000 files': b'{"input_extra":[' + b'{},' * 100_000 + b'{}],"x":1}'}


@pytest.mark.parametrize('path', ['/completion', '/infill', '/tokenize', '/detokenize', '/apply-template'])
@pytest.mark.parametrize('body', HOSTILE.values(), ids=HOSTILE)
def test_hostile_bodies(worker, path, body):
    refused = worker.call('POST', path, body)
    assert refused.status == 400, refused.body[:300]
    assert refused.json()['error']['message']


def test_infill_is_refused_where_the_vocabulary_has_no_tokens_for_it(worker):
    refused = worker.call('POST', '/infill', {'input_prefix': 'a', 'input_suffix': 'b'})
    assert refused.status == 400 and 'infill' in refused.json()['error']['message']
    refused = text(worker, suffix='b')
    assert refused.status == 400 and refused.json()['error']['param'] == 'suffix'


# --- tokens and templates ---------------------------------------------------------------------------


def test_tokenize_and_detokenize_in_the_words_of_both(worker):
    llama = post(worker, '/tokenize', content='Once upon', add_special=True)
    vllm = post(worker, '/tokenize', prompt='Once upon', model='slow')
    assert vllm['tokens'] == llama['tokens'] and vllm['count'] == llama['count'] == len(llama['tokens'])
    assert vllm['max_model_len'] == 1024 and vllm['token_strs'] is None
    pieces = post(worker, '/tokenize', prompt='Once upon', add_special_tokens=False, return_token_strs=True)
    assert ''.join(pieces['token_strs']) == 'Once upon'
    back = post(worker, '/detokenize', tokens=pieces['tokens'])
    assert back == {'content': 'Once upon', 'prompt': 'Once upon'}


def test_messages_become_the_prompt_that_a_chat_has(worker):
    messages = [{'role': 'user', 'content': 'Once upon a time'}]
    prompt = post(worker, '/apply-template', messages=messages)['prompt']
    assert prompt == 'user: Once upon a time\nassistant:'
    assert post(worker, '/apply-template', messages=messages, add_generation_prompt=False)['prompt'] \
        == 'user: Once upon a time\n'
    count = post(worker, '/tokenize', messages=messages)['count']
    chat = worker.call('POST', '/v1/chat/completions', {'messages': messages, 'max_tokens': 1}).json()
    assert count == chat['usage']['prompt_tokens']
    assert post(worker, '/tokenize', messages=messages, add_generation_prompt=False)['count'] < count
    assert worker.call('POST', '/tokenize', {'messages': 5}).status == 400
    assert worker.call('POST', '/tokenize', {'messages': messages, 'add_special_tokens': True}).status == 400


# --- what a server says of itself --------------------------------------------------------------------


def test_props_tell_the_settings_and_no_path(worker, slow_model):
    response = worker.get('/props')
    props = response.json()
    assert props['total_slots'] == 2 and props['model_alias'] == 'slow'
    assert props['default_generation_settings']['n_ctx'] == 1024
    assert props['default_generation_settings']['params']['temperature'] == 1
    assert 'message.role' in props['chat_template']
    assert props['modalities'] == {'vision': False, 'audio': False}
    assert str(slow_model.parent).encode() not in response.body
    info = worker.get('/tokenizer_info').json()
    assert info['chat_template'] == props['chat_template'] and info['model_max_length'] == 1024
    assert worker.call('POST', '/props', {}).status == 405


def test_slots_tell_which_work(worker):
    assert [slot['is_processing'] for slot in worker.get('/slots').json()] == [False, False]
    busy = worker.connect()
    busy.request('POST', '/completion', json.dumps({**ASKED, 'n_predict': 900, 'stream': True}).encode())
    assert busy.read_head().status == 200
    slots = worker.get('/slots').json()
    assert [slot['is_processing'] for slot in slots] == [True, False]
    assert b'Once' not in worker.get('/slots').body
    assert worker.get('/slots?fail_on_no_slot=1').status == 200


def test_slots_are_served_only_where_the_operator_says_so(shared_tiny):
    refused = shared_tiny.get('/slots')
    assert refused.status == 501 and refused.json()['error']['type'] == 'not_supported_error'
