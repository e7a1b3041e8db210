"""Requests as clients of vLLM send them (its OpenAI-compatible server's documentation, November 2026)."""

import re

from llama_access import DOCUMENTS
from shared import FAILED, HELLO, MEANING, POSITIVE, WEATHER_TOOL
from shapes import ANY, Case

CHAT = {'model': 'm', 'messages': HELLO, 'max_tokens': 8}
TEXT = {'model': 'm', 'prompt': MEANING, 'max_tokens': 8}
ANSWERED = {
    'choices.0.message.role': 'assistant',
    'choices.0.message.content': str,
    'usage.total_tokens': POSITIVE,
}
COMPLETED = {'choices.0.text': str, 'usage.total_tokens': POSITIVE}
SCHEMA = {
    'type': 'object',
    'properties': {'a': {'type': 'integer'}},
    'required': ['a'],
    'additionalProperties': False,
}
ONE_OBJECT = re.compile(r'^\{\s*"a"\s*:\s*-?\d+')

# Fields of both completions, and what their values are.
SAMPLING = [
    ('top_k -1', {'top_k': -1}),
    ('top_k', {'top_k': 5}),
    ('min_p', {'min_p': 0.05}),
    ('repetition_penalty', {'repetition_penalty': 1.1}),
    ('ignore_eos', {'ignore_eos': True}),
    ('min_tokens', {'min_tokens': 4}),
    ('stop_token_ids', {'stop_token_ids': [2]}),
    ('include_stop_str_in_output', {'stop': [' '], 'include_stop_str_in_output': True}),
    ('skip_special_tokens', {'skip_special_tokens': False}),
    ('spaces_between_special_tokens', {'spaces_between_special_tokens': True}),
    ('truncate_prompt_tokens', {'truncate_prompt_tokens': 4}),
    ('return_token_ids', {'return_token_ids': True}),
    ('return_tokens_as_token_ids', {'return_tokens_as_token_ids': True}),
    ('request_id', {'request_id': 'r1'}),
    ('priority 0', {'priority': 0}),
    ('cache_salt', {'cache_salt': 'tenant'}),
    ('seed', {'seed': 7}),
    ('logit_bias', {'logit_bias': {'5': -100}}),
    ('bad_words', {'bad_words': ['x', 'the end']}),
    ('many stops', {'stop': ['a1', 'b2', 'c3', 'd4', 'e5']}),
    ('user', {'user': 'u'}),
    ('n', {'n': 3}),
]
GUIDED = [
    ('guided_json', {'guided_json': SCHEMA}, ONE_OBJECT),
    ('guided_json as text', {'guided_json': '{"const": 7}'}, re.compile('^7$')),
    ('guided_regex', {'guided_regex': '[ab]{3}'}, re.compile('^[ab]{3}$')),
    ('guided_choice', {'guided_choice': ['red', 'green']}, re.compile('^(red|green)$')),
    ('guided_grammar', {'guided_grammar': 'root ::= "yes" | "no"'}, re.compile('^(yes|no)$')),
    ('structured_outputs.json', {'structured_outputs': {'json': SCHEMA}}, ONE_OBJECT),
    ('structured_outputs.regex', {'structured_outputs': {'regex': '[0-9]{2}'}}, re.compile('^[0-9]{2}$')),
    ('structured_outputs.choice', {'structured_outputs': {'choice': ['a', 'b']}}, re.compile('^[ab]$')),
    (
        'structured_outputs.grammar',
        {'structured_outputs': {'grammar': 'root ::= "x"+ "y"'}},
        re.compile('^x+y?$'),
    ),
    ('structured_outputs.json_object', {'structured_outputs': {'json_object': True}}, re.compile(r'^\s*\{')),
]
# Fields that would change an answer and that are not served.
NOT_SERVED = [
    ('use_beam_search', {'use_beam_search': True}, 'beam search is no sampling of one answer'),
    ('kv_transfer_params', {'kv_transfer_params': {'do_remote_prefill': True}}, 'there is one engine'),
    ('logits_processors', {'logits_processors': ['module.function']}, 'code of a request does not run here'),
]

VLLM = [
    *(
        Case('vllm', f'chat, {name}', '/v1/chat/completions', {**CHAT, **extra}, ANSWERED)
        for name, extra in SAMPLING
    ),
    *(
        Case('vllm', f'completion, {name}', '/v1/completions', {**TEXT, **extra}, COMPLETED)
        for name, extra in SAMPLING
    ),
    *(
        Case(
            'vllm',
            f'chat, {name}',
            '/v1/chat/completions',
            {**CHAT, 'max_tokens': 40, **extra},
            {'choices.0.message.content': wanted},
        )
        for name, extra, wanted in GUIDED
    ),
    *(
        Case(
            'vllm',
            f'completion, {name}',
            '/v1/completions',
            {**TEXT, 'max_tokens': 40, **extra},
            {'choices.0.text': wanted},
        )
        for name, extra, wanted in GUIDED
    ),
    *(
        Case('vllm', f'chat, {name}', '/v1/chat/completions', {**CHAT, **extra}, ANSWERED, reason=why)
        for name, extra, why in NOT_SERVED
    ),
    *(
        Case('vllm', f'chat, {name}', '/v1/chat/completions', {**CHAT, **extra}, ANSWERED)
        for name, extra in (
            ('chat_template_kwargs', {'chat_template_kwargs': {'enable_thinking': False}}),
            ('add_generation_prompt', {'add_generation_prompt': True}),
            ('add_special_tokens', {'add_special_tokens': False}),
            ('include_reasoning', {'include_reasoning': True}),
            ('reasoning_effort', {'reasoning_effort': 'low'}),
            ('length_penalty', {'length_penalty': 2.0}),
            ('allowed_token_ids', {'allowed_token_ids': [5, 6]}),
            ('priority', {'priority': 5}),
            ('continuous usage', {'stream_options': {'include_usage': True}}),
            (
                'continue_final_message',
                {
                    'messages': [*HELLO, {'role': 'assistant', 'content': 'The'}],
                    'continue_final_message': True,
                    'add_generation_prompt': False,
                },
            ),
        )
    ),
    Case(
        'vllm',
        'tools with tool_choice required',
        '/v1/chat/completions',
        {**CHAT, 'max_tokens': 200, 'tools': [WEATHER_TOOL], 'tool_choice': 'required'},
        {'choices.0.message.tool_calls.0.function.name': 'get_current_weather'},
        worker='tools',
    ),
    Case(
        'vllm', 'a list of prompts', '/v1/completions', {**TEXT, 'prompt': ['a b', 'c d']}, {'len choices': 2}
    ),
    Case(
        'vllm',
        'lists of token ids',
        '/v1/completions',
        {**TEXT, 'prompt': [[5, 6], [7, 8]]},
        {'len choices': 2},
    ),
    Case(
        'vllm',
        'echo',
        '/v1/completions',
        {**TEXT, 'echo': True},
        {'choices.0.text': re.compile(re.escape(MEANING))},
    ),
    Case(
        'vllm',
        'echo with logprobs',
        '/v1/completions',
        {**TEXT, 'echo': True, 'logprobs': 1, 'max_tokens': 1},
        {
            'choices.0.logprobs.token_logprobs': lambda t: t[0] is None and len(t) > 5,
            'choices.0.logprobs.tokens.*': str,
        },
    ),
    Case('vllm', 'suffix', '/v1/completions', {**TEXT, 'suffix': ' end'}, COMPLETED, worker='infill'),
    Case(
        'vllm',
        'token_ids in the answer',
        '/v1/completions',
        {**TEXT, 'return_token_ids': True},
        {'choices.0.token_ids.*': int, 'choices.0.prompt_token_ids.*': int},
    ),
    Case(
        'vllm',
        'models',
        '/v1/models',
        method='GET',
        expect={'data.0.max_model_len': 1024, 'data.0.object': 'model'},
    ),
    Case(
        'vllm',
        'tokenize a prompt',
        '/tokenize',
        {'model': 'm', 'prompt': MEANING, 'add_special_tokens': True},
        {'count': POSITIVE, 'max_model_len': 1024, 'tokens.*': int},
    ),
    Case(
        'vllm',
        'tokenize messages',
        '/tokenize',
        {'model': 'm', 'messages': HELLO},
        {'count': POSITIVE, 'tokens.*': int},
    ),
    Case(
        'vllm',
        'tokenize with token_strs',
        '/tokenize',
        {'prompt': 'Hello', 'return_token_strs': True},
        {'token_strs.*': str},
    ),
    Case('vllm', 'detokenize', '/detokenize', {'model': 'm', 'tokens': [5, 6, 7]}, {'prompt': str}),
    Case('vllm', 'health', '/health', method='GET'),
    Case(
        'vllm',
        'version',
        '/version',
        method='GET',
        expect={'version': str},
    ),
    Case('vllm', 'ping', '/ping', method='GET'),
    Case(
        'vllm',
        'rerank',
        '/v1/rerank',
        {'model': 'm', 'query': 'q', 'documents': DOCUMENTS, 'top_n': 2},
        {'len results': 2, 'results.*.relevance_score': float},
        worker='rerank',
    ),
    Case(
        'vllm',
        'rerank of Cohere\'s version 2',
        '/v2/rerank',
        {'model': 'm', 'query': 'q', 'documents': DOCUMENTS},
        {'len results': 4},
        worker='rerank',
    ),
    Case(
        'vllm',
        'score',
        '/score',
        {'model': 'm', 'text_1': 'a', 'text_2': ['b', 'c']},
        {'len data': 2},
        worker='rerank',
    ),
    Case(
        'vllm',
        'pooling',
        '/pooling',
        {'model': 'm', 'input': MEANING},
        {'data': ANY},
        worker='embedding',
    ),
    Case(
        'vllm',
        'embeddings',
        '/v1/embeddings',
        {'model': 'm', 'input': [MEANING], 'encoding_format': 'float'},
        {'len data': 1},
        worker='embedding',
    ),
    Case(
        'vllm',
        'embeddings with truncate_prompt_tokens',
        '/v1/embeddings',
        {'input': MEANING, 'truncate_prompt_tokens': 4},
        {'len data': 1},
        worker='embedding',
    ),
    Case(
        'vllm',
        'messages',
        '/v1/messages',
        {'model': 'm', 'max_tokens': 8, 'messages': HELLO},
        {'type': 'message'},
    ),
    Case(
        'vllm',
        'responses',
        '/v1/responses',
        {'model': 'm', 'input': 'Hello', 'max_output_tokens': 8},
        {'output': list},
    ),
    Case(
        'vllm',
        'a model that is not served',
        '/v1/chat/completions',
        {**CHAT, 'model': 'other'},
        FAILED,
        (404,),
        'keyed',
        headers={'Authorization': 'Bearer test-key'},
    ),
]
