"""Fields as clients of llama-server, vLLM and Anthropic write them: what each means on a running worker."""
import json
import math

import pytest

from completion_worker import CHAT, chat, contents, frames, start, text

TOOL = {'type': 'function', 'function': {'name': 'x', 'parameters': {'type': 'object'}}}


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory):
    with start(tiny_model, tmp_path_factory.mktemp('spellings'), '--slots', '4') as running:
        yield running


def answer_of(response):
    assert response.status == 200, response.body
    return json.loads(response.body)


def complete(worker, **changes):
    return worker.call('POST', '/completion', {'prompt': 'Once', 'n_predict': 8, 'temperature': 0, 'seed': 7,
                                               'ignore_eos': True, **changes})


def said(worker, **changes) -> str:
    """What a text completion says, whole and in a stream."""
    whole = answer_of(text(worker, **changes))['choices'][0]['text']
    *chunks, done = frames(text(worker, stream=True, **changes).body)
    assert done == '[DONE]'
    assert ''.join(json.loads(chunk)['choices'][0]['text'] for chunk in chunks) == whole
    return whole


def test_lengths_under_every_name_and_without_a_fraction(worker):
    for name in ('max_tokens', 'max_completion_tokens', 'n_predict', 'max_new_tokens'):
        asked = {'max_tokens': None, name: 5.0}
        assert answer_of(text(worker, **asked))['usage']['completion_tokens'] == 5
        assert answer_of(chat(worker, **asked))['usage']['completion_tokens'] == 5
        assert answer_of(complete(worker, **{'n_predict': None, name: 5.0}))['tokens_predicted'] == 5


def test_a_null_of_a_field_that_there_is_not(worker):
    for ask in (chat, text, complete):
        answer_of(ask(worker, prompt_logprobs=None, nonsense=None))
        assert ask(worker, nonsense=1).error['param'] == 'nonsense'
    answer_of(worker.call('POST', '/tokenize', {'content': 'x', 'nonsense': None}))
    answer_of(worker.call('POST', '/v1/messages', {**CHAT, 'seed': 1, 'ignore_eos': None, 'betas': None}))


def test_a_prompt_that_is_an_object(worker):
    plain = answer_of(text(worker))['choices'][0]['text']
    assert said(worker, prompt={'prompt_string': 'Once upon a time'}) == plain
    assert answer_of(complete(worker, prompt={'prompt_string': 'Once', 'multimodal_data': []}))['content'] \
        == answer_of(complete(worker))['content']


def test_words_that_must_not_come(worker):
    ids = answer_of(text(worker, max_tokens=16, return_token_ids=True))['choices'][0]['token_ids']
    pieces = [answer_of(worker.call('POST', '/detokenize', {'tokens': [i]}))['content'] for i in ids]
    word = next(piece for piece in pieces if piece.strip().isalpha() and piece.isascii())
    assert said(worker, max_tokens=16, bad_words=[word]) != said(worker, max_tokens=16)
    tokens = answer_of(worker.call('POST', '/tokenize', {'content': word}))['tokens']
    written = answer_of(text(worker, max_tokens=16, bad_words=[word],
                             return_token_ids=True))['choices'][0]['token_ids']
    assert all(written[i:i + len(tokens)] != tokens for i in range(len(written)))


def test_a_bias_of_a_text_is_one_of_its_tokens(worker):
    ids = answer_of(worker.call('POST', '/tokenize', {'content': 'he'}))['tokens']
    by_text = answer_of(complete(worker, logit_bias=[['he', False]]))
    assert by_text['content'] == answer_of(complete(worker, logit_bias=[[i, False] for i in ids]))['content']
    assert said(worker, logit_bias={'he': 5}) == said(worker, logit_bias={str(i): 5 for i in ids})


def test_rules_that_leave_no_token(worker):
    for more in ({'guided_choice': ['a'], 'allowed_token_ids': [0]},
                 {'allowed_token_ids': [5], 'logit_bias': [[5, False]]}):
        refused = text(worker, **more)
        assert refused.status == 400 and 'no token to choose' in refused.error['message'], refused.body


def test_samplers_in_an_order_that_changes_nothing(worker):
    asked = {'temperature': 1, 'top_k': 5, 'top_p': 0.9}
    plain = answer_of(complete(worker, **asked))['content']
    usual = ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature']
    assert answer_of(complete(worker, samplers=usual, **asked))['content'] == plain
    # llama-server's own order, in which the temperature is the last, is had where it makes a difference.
    warm = answer_of(complete(worker, samplers=usual, **{**asked, 'temperature': 0.5}))
    assert warm['generation_settings']['samplers'] == usual
    refused = complete(worker, samplers=['top_p', 'temperature', 'min_p'],
                       **{**asked, 'min_p': 0.1, 'temperature': 0.5})
    assert refused.error['param'] == 'samplers', refused.body


def test_hot_temperatures_where_llama_server_has_them(worker):
    assert answer_of(complete(worker, temperature=5))['generation_settings']['temperature'] == 5
    assert chat(worker, temperature=5).error['param'] == 'temperature'


def test_a_schema_in_llama_servers_place_and_a_strict_one_that_says_little(worker):
    schema = {'type': 'object', 'properties': {'a': {'enum': ['x', 'y']}}}
    for form in ({'type': 'json_schema', 'schema': {**schema, 'required': ['a']}},
                 {'type': 'json_schema', 'json_schema': {'name': 'a', 'strict': True, 'schema': schema}}):
        choice = answer_of(chat(worker, response_format=form, max_tokens=60,
                                ignore_eos=False))['choices'][0]['message']
        assert json.loads(choice['content']) in ({'a': 'x'}, {'a': 'y'})


def test_old_and_new_names_that_agree(worker):
    grammar = 'root ::= "yes" | "no"'
    assert said(worker, guided_grammar=grammar, structured_outputs={'grammar': grammar}) in ('yes', 'no')


def test_allowed_tools(worker):
    choice = {'type': 'allowed_tools', 'allowed_tools': {'mode': 'auto', 'tools': [
        {'type': 'function', 'function': {'name': 'x'}}]}}
    long_name = {'type': 'function', 'function': {'name': 'mcp__' + 'y' * 100}}
    asked = {'messages': CHAT['messages'], 'tools': [TOOL, long_name], 'tool_choice': choice}
    prompt = answer_of(worker.call('POST', '/apply-template', asked))['prompt']
    assert '"name":"x"' in prompt and 'mcp__' not in prompt
    assert chat(worker, **asked).status == 200


def test_parts_that_think(worker):
    thinking = [{'role': 'user', 'content': 'a'},
                {'role': 'assistant', 'content': [{'type': 'thinking', 'thinking': 't'},
                                                  {'type': 'text', 'text': 'b'}]},
                {'role': 'user', 'content': 'c'}]
    plain = [thinking[0], {'role': 'assistant', 'content': 'b', 'reasoning_content': 't'}, thinking[2]]
    assert contents(chat(worker, messages=thinking, stream=True).body) \
        == answer_of(chat(worker, messages=plain))['choices'][0]['message']['content']


def test_numbers_of_tokens(worker):
    talk = CHAT['messages']
    used = answer_of(chat(worker))['usage']['prompt_tokens']
    for path in ('/v1/chat/completions/input_tokens', '/chat/completions/input_tokens'):
        told = answer_of(worker.call('POST', path, {'messages': talk, 'max_tokens': 4}))
        assert told == {'object': 'response.input_tokens', 'input_tokens': used}
    asked = {'input': 'Once upon a time', 'max_output_tokens': 4}
    used = answer_of(worker.call('POST', '/v1/responses', asked))['usage']['input_tokens']
    assert answer_of(worker.call('POST', '/v1/responses/input_tokens', asked))['input_tokens'] == used
    long = [{'role': 'user', 'content': 'x ' * 3_000}]
    counted = answer_of(worker.call('POST', '/chat/completions/input_tokens', {'messages': long}))
    assert counted['input_tokens'] > 3_000, 'longer than the context'
    refused = worker.call('POST', '/v1/responses/input_tokens', {'input': 5})
    assert refused.status == 400 and refused.error['param'] == 'input'


def test_what_other_servers_tell_of_themselves(worker):
    assert answer_of(worker.get('/version'))['version'] == answer_of(worker.get('/health'))['version']
    assert answer_of(worker.get('/load')) == {'server_load': 0}
    for path in ('/ping', '/v1/health'):
        assert answer_of(worker.get(path))['status'] == 'healthy'
    assert worker.call('POST', '/ping', {}).status == 200


def test_timings_of_a_response(worker):
    asked = {'input': 'hi', 'max_output_tokens': 5, 'timings_per_token': True, 'ignore_eos': True}
    whole = answer_of(worker.call('POST', '/v1/responses', asked))
    assert whole['timings']['predicted_n'] == 5
    stream = worker.call('POST', '/v1/responses', {**asked, 'stream': True}).body.decode().split('\n\n')
    events = [json.loads(frame.split('data: ', 1)[1]) for frame in stream if 'data: ' in frame]
    deltas = [e for e in events if e['type'] == 'response.output_text.delta']
    assert deltas and all('timings' in e for e in deltas)
    assert events[-1]['response']['timings']['predicted_n'] == 5
    plain = worker.call('POST', '/v1/responses', {**asked, 'timings_per_token': None})
    assert 'timings' not in answer_of(plain)


def test_probabilities_after_sampling(worker):
    certain = answer_of(complete(worker, n_probs=3, post_sampling_probs=True))['completion_probabilities']
    assert all(entry['prob'] == 1 and [e['prob'] for e in entry['top_probs']] == [1, 0, 0]
               for entry in certain)
    drawn = {'n_probs': 3, 'temperature': 1}
    raw = answer_of(complete(worker, **drawn))['completion_probabilities']
    after = answer_of(complete(worker, post_sampling_probs=True, **drawn))['completion_probabilities']
    assert [e['id'] for e in after] == [e['id'] for e in raw]
    for entry, told in zip(after, raw):
        assert entry['prob'] == pytest.approx(math.exp(told['logprob']), rel=1e-5)
    # Of what is left by top_k the temperature's share.
    cut = {**drawn, 'temperature': 0.5, 'top_k': 2}
    raw = answer_of(complete(worker, **cut))['completion_probabilities']
    after = answer_of(complete(worker, post_sampling_probs=True, **cut))['completion_probabilities']
    assert [e['id'] for e in after] == [e['id'] for e in raw]
    for entry, told in zip(after, raw):
        best = [math.exp(one['logprob'] / 0.5) for one in told['top_logprobs'][:2]]
        shares = [p / sum(best) for p in best]
        assert [e['prob'] for e in entry['top_probs']] == pytest.approx(shares, rel=1e-4)


PICTURE = {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': 'aGk='}}


@pytest.mark.parametrize('stream', [False, True])
def test_what_is_left_out_is_named_in_the_head(worker, stream):
    asked = {'max_tokens': 4, 'stream': stream, 'tools': [
        {'type': 'web_search_20250305', 'name': 'web_search', 'max_uses': 8}]}
    talk = [{'role': 'user', 'content': 'look'},
            {'role': 'assistant', 'content': [{'type': 'text', 'text': 'so'}]},
            {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 't', 'content': [PICTURE]}]}]
    answer = worker.call('POST', '/v1/messages', {'messages': talk, **asked})
    assert answer.status == 200, answer.body
    assert answer.headers['x-schema-ignored'] == 'tool=web_search_20250305, content=image'
    own = [{'role': 'user', 'content': [PICTURE]}]
    refused = worker.call('POST', '/v1/messages', {'messages': own, **asked})
    assert refused.status == 400, refused.body
    items = [{'role': 'user', 'content': 'look'},
             {'type': 'function_call', 'call_id': 'c', 'name': 'f', 'arguments': '{}'},
             {'type': 'function_call_output', 'call_id': 'c',
              'output': [{'type': 'input_image', 'image_url': 'data:x'}]}]
    answer = worker.call('POST', '/v1/responses', {'input': items, 'max_output_tokens': 4, 'stream': stream,
                                                   'tools': [{'type': 'web_search'}]})
    assert answer.status == 200, answer.body
    assert answer.headers['x-schema-ignored'] == 'content=image, tool=web_search'
    seen = [*CHAT['messages'], {'role': 'tool', 'tool_call_id': 'c', 'content': [
        {'type': 'image_url', 'image_url': {'url': 'data:x'}}]}]
    assert chat(worker, messages=seen, stream=stream).headers['x-schema-ignored'] == 'content=image'
    assert 'x-schema-ignored' not in chat(worker, stream=stream).headers
