"""Cases of llama-server's own tests; llama_server_cases.py puts them together."""

import re

from shared import FAILED, HELLO, MEANING, POSITIVE
from shapes import Case

KEY = {'Authorization': 'Bearer test-key'}
SECURITY = [
    *(Case('security', f'{path} is public', path, method='GET', worker='keyed') for path in ('/health',)),
    Case(
        'security',
        '/models is public',
        '/models',
        method='GET',
        worker='keyed',
        reason='with keys, who has none learns nothing of the model',
    ),
    *(
        Case(
            'security',
            f'key {key}',
            '/completion',
            {'prompt': MEANING},
            FAILED,
            (401,),
            'keyed',
            headers={'Authorization': f'Bearer {key}'} if key else {},
        )
        for key in (None, 'invalid-key')
    ),
    Case(
        'security',
        'the error\'s type',
        '/completion',
        {'prompt': MEANING},
        {'error.type': 'authentication_error'},
        (401,),
        'keyed',
    ),
    Case(
        'security',
        'the right key',
        '/completion',
        {'prompt': MEANING, 'n_predict': 2},
        {'content': str},
        worker='keyed',
        headers=KEY,
    ),
    Case(
        'security',
        'x-api-key',
        '/completion',
        {'prompt': MEANING, 'n_predict': 2},
        {'content': str},
        worker='keyed',
        headers={'X-Api-Key': 'test-key'},
    ),
    Case(
        'security',
        'a base URL without /v1',
        '/chat/completions',
        {'messages': HELLO, 'max_tokens': 2},
        {'len choices': 1},
        worker='keyed',
        headers=KEY,
    ),
    Case(
        'security',
        'any origin may ask',
        '/completion',
        method='OPTIONS',
        headers={'Origin': 'https://web.example'},
        expect={},
        worker='keyed',
        status=(200,),
        reason='only origins that the operator names; test_foreign_page.py shows why',
    ),
]

EMBEDDING = [
    *(
        Case(
            'embedding',
            f'input {str(given)[:40]}',
            '/v1/embeddings',
            {'input': given},
            {'len data': count, 'data.*.embedding': lambda v: abs(sum(x * x for x in v) - 1) < 1e-3},
            worker='embedding',
        )
        for given, count in (
            (MEANING, 1),
            ([MEANING, 'This is a test', 'another'], 3),
            ([5, 6, 7], 1),
            (['a', 'b'], 2),
            (['a', [5, 6, 7]], 2),
            ([[5, 6, 7], [5, 6, 7]], 2),
            ([MEANING] * 5, 5),
        )
    ),
    *(
        Case(
            'embedding',
            f'input {str(given)[:60]}',
            '/v1/embeddings',
            {'input': given},
            {'data.*.embedding': list},
            worker='embedding',
            reason='not one of the four forms that OpenAI\'s input has',
        )
        for given in ([5, 6, 'string', 7], {'content': [{'type': 'text', 'text': 'string'}]})
    ),
    Case(
        'embedding',
        'a prompt that is an object',
        '/v1/embeddings',
        {'input': {'prompt_string': 'string'}},
        {'data.*.embedding': list},
        worker='embedding',
    ),
    Case(
        'embedding',
        'an empty text',
        '/v1/embeddings',
        {'input': ''},
        {'data.0.embedding': list},
        worker='embedding',
        reason='OpenAI refuses an empty input, and so does this worker',
    ),
    *(
        Case(
            'embedding',
            f'refused: {str(given)[:40]}',
            '/v1/embeddings',
            {'input': given},
            FAILED,
            (400,),
            'embedding',
        )
        for given in ([], {'content': 'string'}, {'content': [{'type': 'input_audio', 'input_audio': {}}]})
    ),
    Case(
        'embedding',
        'openai, any model name',
        '/v1/embeddings',
        {'model': 'text-embedding-3-small', 'input': MEANING},
        {'data.0.embedding': list},
        worker='embedding',
    ),
    Case(
        'embedding',
        'too long',
        '/v1/embeddings',
        {'input': 'This is a test ' * 1024},
        FAILED,
        (400,),
        'embedding',
    ),
    *(
        Case(
            'embedding',
            f'usage of {count}',
            '/v1/embeddings',
            {'input': [MEANING] * count},
            {'usage.prompt_tokens': POSITIVE, 'usage.total_tokens': POSITIVE},
            worker='embedding',
        )
        for count in (1, 2)
    ),
    Case(
        'embedding',
        'base64',
        '/v1/embeddings',
        {'input': MEANING, 'encoding_format': 'base64'},
        {'data.0.embedding': str},
        worker='embedding',
    ),
]

DOCUMENTS = [
    'A machine is a physical system.',
    'Learning is a process.',
    'Machine learning is a field.',
    'Paris is a city.',
]
RERANK = [
    Case(
        'rerank',
        'documents',
        '/rerank',
        {'query': 'Machine learning is', 'documents': DOCUMENTS},
        {
            'len results': 4,
            'results.*.index': int,
            'results.*.relevance_score': float,
            'usage.prompt_tokens': POSITIVE,
            'usage.total_tokens': POSITIVE,
        },
        worker='rerank',
    ),
    *(
        Case(
            'rerank',
            f'documents {documents}',
            '/rerank',
            {'query': 'q', 'documents': documents},
            FAILED,
            (400,),
            'rerank',
        )
        for documents in ([], None, 123, [1, 2, 3])
    ),
    *(
        Case(
            'rerank',
            f'top_n {n}',
            '/rerank',
            {'query': 'q', 'documents': DOCUMENTS, 'top_n': n},
            {'len results': min(n, 4)},
            worker='rerank',
        )
        for n in (2, 4, 99)
    ),
    *(
        Case(
            'rerank',
            f'texts, top_n {n}',
            '/rerank',
            {'query': 'q', 'texts': DOCUMENTS, **({'top_n': n} if n else {})},
            {'len ': n or 4, '*.score': float},
            worker='rerank',
        )
        for n in (None, 2)
    ),
    Case(
        'rerank',
        'no embeddings of a ranking model',
        '/v1/embeddings',
        {'input': 'hello'},
        {'error.message': re.compile('rerank')},
        (400,),
        'rerank',
    ),
]

INFILL = [
    *(
        Case(
            'infill',
            f'input_extra {bool(extra)}',
            '/infill',
            {
                'input_prefix': 'int main() {\n',
                'prompt': '    int n = ',
                'input_suffix': '}\n',
                'n_predict': 4,
                **extra,
            },
            {'content': str},
            worker='infill',
        )
        for extra in ({}, {'input_extra': [{'filename': 'llama.h', 'text': 'int n();\n'}]})
    ),
    *(
        Case(
            'infill',
            f'refused: {extra}',
            '/infill',
            {'input_extra': [extra], 'input_prefix': 'a', 'input_suffix': 'b'},
            FAILED,
            (400,),
            'infill',
        )
        for extra in (
            {},
            {'filename': 'ok'},
            {'filename': 123},
            {'filename': 123, 'text': 'abc'},
            {'filename': 1, 'text': 2},
        )
    ),
]

