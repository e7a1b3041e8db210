"""Cases of llama-server's own tests; llama_server_cases.py puts them together."""

import re

from shared import FAILED, MEANING, POSITIVE
from shapes import ANY, Case

BASIC = [
    Case('basic', 'health', '/health', method='GET'),
    Case(
        'basic',
        'props',
        '/props',
        method='GET',
        expect={
            'model_path': str,
            'total_slots': 2,
            'default_generation_settings.n_ctx': 1024,
            'default_generation_settings.params.seed': ANY,
        },
    ),
    Case('basic', 'models', '/models', method='GET', expect={'len data': 1, 'data.0.id': str}),
    Case('basic', 'slots', '/slots', method='GET', expect={'len ': 2, '0.n_ctx': 1024, 'no 0.params': ANY}),
    Case(
        'basic',
        'slots that are turned off',
        '/slots',
        method='GET',
        worker='keyed',
        status=(501,),
        expect=FAILED,
        headers={'Authorization': 'Bearer test-key'},
    ),
    Case('basic', 'the page', '/', method='GET'),
    Case(
        'basic',
        'aliases',
        '/models',
        method='GET',
        expect={'data.0.aliases': list},
        reason='each name is an entry of the list',
    ),
    Case(
        'basic',
        'tags',
        '/models',
        method='GET',
        expect={'data.0.tags': list},
        reason='tags are labels for a router of many models; this worker has one',
    ),
    Case('basic', 'no page', '/', method='GET', worker='keyed', status=(404,)),
]

COMPLETION = [
    *(
        Case(
            'completion',
            f'a prompt, return_tokens {tokens}',
            '/completion',
            {'n_predict': 8, 'prompt': MEANING, 'return_tokens': tokens},
            {
                'timings.prompt_n': POSITIVE,
                'timings.predicted_n': 8,
                'truncated': False,
                'has_new_line': bool,
                'content': str,
                'tokens': (lambda t: len(t) == 8) if tokens else [],
            },
        )
        for tokens in (False, True)
    ),
    *(
        Case(
            'completion',
            f'a stream of {n}',
            '/completion',
            {'n_predict': n, 'prompt': MEANING, 'stream': True, 'ignore_eos': True},
            {
                'stop': True,
                'timings.prompt_n': POSITIVE,
                'timings.predicted_n': n,
                'truncated': False,
                'stop_type': 'limit',
                'has_new_line': bool,
                'generation_settings.n_predict': n,
                'generation_settings.seed': ANY,
            },
            each={'stop': bool},
            stream=True,
        )
        for n in (8, 64)
    ),
    Case(
        'completion',
        'tokens of a stream',
        '/completion',
        {'n_predict': 8, 'prompt': MEANING, 'stream': True},
        {'stop': True},
        each={'tokens': list},
        stream=True,
    ),
    Case(
        'completion',
        'openai, any model name',
        '/v1/completions',
        {'model': 'davinci-002', 'prompt': MEANING, 'max_tokens': 8},
        {'system_fingerprint': str, 'choices.0.finish_reason': 'length', 'choices.0.text': str},
    ),
    Case(
        'completion',
        'openai, a stream',
        '/v1/completions',
        {'model': 'davinci-002', 'prompt': MEANING, 'max_tokens': 8, 'stream': True},
        {'choices.0.finish_reason': 'length'},
        each={'choices.0.text': str},
        stream=True,
    ),
    *(
        Case(
            'completion',
            f'seed {seed}, temperature {t}',
            '/completion',
            {'prompt': MEANING, 'seed': seed, 'temperature': t, 'cache_prompt': False, 'n_predict': 8},
            {'content': str},
        )
        for seed, t in ((42, 0.0), (0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0))
    ),
    Case(
        'completion',
        'a prompt that is too long',
        '/completion',
        {'prompt': MEANING * 400, 'cache_prompt': False},
        FAILED,
        (400,),
    ),
    Case(
        'completion', 'token ids', '/completion', {'prompt': [1, 2, 3, 4], 'n_predict': 4}, {'content': str}
    ),
    Case(
        'completion',
        'lists of token ids',
        '/completion',
        {'prompt': [[5, 6, 7], [5, 6, 7]], 'n_predict': 4, 'temperature': 0},
        {'len ': 2, '*.content': str},
    ),
    Case(
        'completion',
        'a list of both',
        '/completion',
        {'prompt': [[5, 6, 7], MEANING], 'n_predict': 4},
        {'len ': 2, '*.content': str},
    ),
    Case(
        'completion',
        'ids and strings in one prompt',
        '/completion',
        {'prompt': [1, 2, 3, MEANING, 7, 8, MEANING], 'n_predict': 4},
        {'content': str},
    ),
    Case(
        'completion',
        'response_fields, none',
        '/completion',
        {'n_predict': 8, 'prompt': MEANING, 'response_fields': []},
        {'content': str, 'generation_settings': dict},
    ),
    Case(
        'completion',
        'response_fields',
        '/completion',
        {
            'n_predict': 8,
            'prompt': MEANING,
            'response_fields': ['content', 'generation_settings/n_predict', 'prompt'],
        },
        {
            'len ': 3,
            'generation_settings/n_predict': 8,
            'prompt': re.compile(re.escape(MEANING)),
            'content': str,
        },
    ),
    Case(
        'completion',
        'n_probs',
        '/completion',
        {'prompt': MEANING, 'n_probs': 10, 'temperature': 0.0, 'n_predict': 5},
        {
            'len completion_probabilities': 5,
            'completion_probabilities.*.id': int,
            'completion_probabilities.*.token': str,
            'completion_probabilities.*.logprob': lambda p: p <= 0,
            'completion_probabilities.*.bytes': list,
            'len completion_probabilities.*.top_logprobs': 10,
            'completion_probabilities.*.top_logprobs.*.id': int,
            'completion_probabilities.*.top_logprobs.*.logprob': lambda p: p <= 0,
        },
    ),
    Case(
        'completion',
        'n_probs of a stream',
        '/completion',
        {'prompt': MEANING, 'n_probs': 10, 'temperature': 0.0, 'n_predict': 5, 'stream': True},
        {'stop': True},
        stream=True,
    ),
    Case(
        'completion',
        'post_sampling_probs',
        '/completion',
        {'prompt': MEANING, 'n_probs': 10, 'temperature': 0.0, 'n_predict': 5, 'post_sampling_probs': True},
        {
            'len completion_probabilities': 5,
            'completion_probabilities.*.prob': float,
            'len completion_probabilities.*.top_probs': 10,
        },
    ),
    Case(
        'completion',
        'logit_bias as pairs of ids',
        '/completion',
        {
            'n_predict': 8,
            'prompt': 'What is the best book',
            'logit_bias': [[5, -100], [6, -100]],
            'temperature': 0.0,
        },
        {'content': str},
    ),
    Case(
        'completion',
        'logit_bias as pairs of strings',
        '/completion',
        {
            'n_predict': 8,
            'prompt': 'What is the best book',
            'logit_bias': [[' I ', -100]],
            'temperature': 0.0,
        },
        {'content': str},
    ),
    Case(
        'completion',
        'logit_bias by id',
        '/completion',
        {'n_predict': 8, 'prompt': 'What is the best book', 'logit_bias': {'5': -100}, 'temperature': 0.0},
        {'content': str},
    ),
    Case(
        'completion',
        'logit_bias by string',
        '/completion',
        {'n_predict': 8, 'prompt': 'What is the best book', 'logit_bias': {' I ': -100}, 'temperature': 0.0},
        {'content': str},
    ),
]

