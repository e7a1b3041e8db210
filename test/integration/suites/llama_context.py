"""Cases of llama-server's own tests; llama_server_cases.py puts them together."""

import re

from shared import BOOK, HELLO, POSITIVE, PYTHON_TOOL, TEST_TOOL, WEATHER_TOOL, tool
from shapes import ANY, Case

CONTEXT = [
    Case(
        'context',
        'the context is shifted',
        '/completion',
        {'n_predict': 64, 'prompt': 'word ' * 1500},
        {'truncated': True},
        reason='nothing is truncated here: an answer would depend on what was left out',
    ),
    Case(
        'context',
        'a short prompt',
        '/completion',
        {'n_predict': 16, 'prompt': 'Hi how are you', 'ignore_eos': True},
        {'timings.predicted_n': 16, 'truncated': False},
    ),
    Case(
        'context',
        'until the context is full',
        '/completion',
        {'n_predict': -1, 'prompt': 'Hi ' * 980, 'ignore_eos': True},
        {'timings.predicted_n': POSITIVE, 'truncated': True},
        reason='truncated says whether the prompt was cut, and it never is; stop_type says limit',
    ),
    Case(
        'context',
        'a prompt that is longer',
        '/completion',
        {'n_predict': 64, 'prompt': 'word ' * 1500},
        {'error.message': re.compile('context')},
        (400,),
    ),
    Case(
        'context',
        'n_predict of /v1',
        '/v1/completions',
        {'n_predict': 16, 'prompt': 'Once', 'stream': True, 'ignore_eos': True},
        {'choices.0.finish_reason': 'length'},
        stream=True,
    ),
]

TOKENIZE = [
    Case(
        'tokenize',
        'a text',
        '/tokenize',
        {'content': 'What is the capital of France ?'},
        {'tokens': lambda t: len(t) > 5},
    ),
    Case('tokenize', 'and back', '/detokenize', {'tokens': [1780, 314, 260]}, {'content': str}),
    Case(
        'tokenize', 'add_special', '/tokenize', {'content': 'What is', 'add_special': True}, {'tokens.*': int}
    ),
    Case(
        'tokenize',
        'with_pieces',
        '/tokenize',
        {'content': 'unicode \u5abd and emoji \U0001f917', 'with_pieces': True},
        {'tokens.*.id': int, 'tokens.*.piece': ANY},
    ),
]

TEMPLATE = [
    *(
        Case(
            'template',
            f'tools {named}',
            '/apply-template',
            {'messages': HELLO, 'tools': tools},
            {'prompt': str},
        )
        for named, tools in (('null', None), ('none', []))
    ),
    *(
        Case(
            'template',
            f'add_generation_prompt {value}',
            '/apply-template',
            {'messages': HELLO, 'add_generation_prompt': value},
            {
                'prompt': (
                    (lambda p: p.endswith('assistant\n'))
                    if value
                    else (lambda p: not p.endswith('assistant\n'))
                )
            },
        )
        for value in (False, True)
    ),
    Case(
        'template',
        'a prefix for the system message',
        '/apply-template',
        {'messages': HELLO},
        {'prompt': re.compile('PREFIX')},
        reason='a command-line option of llama-server that a template of one\'s own replaces',
    ),
]

TOOLS = [
    *(
        Case(
            'tools',
            f'required: {name}, stream {stream}',
            '/v1/chat/completions',
            {
                'max_tokens': 400,
                'messages': BOOK,
                'tool_choice': 'required',
                'tools': [one],
                'parallel_tool_calls': False,
                'temperature': 0.0,
                'top_k': 1,
                'top_p': 1.0,
                'stream': stream,
            },
            worker='tools',
            stream=stream,
            expect=(
                {'choices.0.finish_reason': ANY}
                if stream
                else {
                    'len choices.0.message.tool_calls': 1,
                    'choices.0.message.tool_calls.0.function.name': name,
                    'choices.0.message.content': lambda c: not c,
                }
            ),
        )
        for name, one in (('test', TEST_TOOL), ('python', PYTHON_TOOL))
        for stream in (False, True)
    ),
    *(
        Case(
            'tools',
            f'no call, tools {len(tools)}, choice {choice}',
            '/v1/chat/completions',
            {'max_tokens': 16, 'messages': BOOK, 'tools': tools or None, 'tool_choice': choice},
            worker='tools',
            expect={'no choices.0.message.tool_calls': ANY},
        )
        for tools, choice in (([], None), ([PYTHON_TOOL], 'none'))
    ),
    Case(
        'tools',
        'weather',
        '/v1/chat/completions',
        {
            'max_tokens': 400,
            'messages': [{'role': 'user', 'content': 'What is the weather in Istanbul?'}],
            'tools': [WEATHER_TOOL],
            'tool_choice': 'required',
        },
        worker='tools',
        expect={'choices.0.message.tool_calls.0.function.name': 'get_current_weather'},
    ),
    Case(
        'tools',
        'a result',
        '/v1/chat/completions',
        {
            'max_tokens': 8,
            'tools': [WEATHER_TOOL],
            'messages': [
                {'role': 'user', 'content': 'Weather?'},
                {
                    'role': 'assistant',
                    'content': None,
                    'tool_calls': [
                        {
                            'id': 'c1',
                            'type': 'function',
                            'function': {'name': 'get_current_weather', 'arguments': '{"location": "Paris"}'},
                        }
                    ],
                },
                {
                    'role': 'tool',
                    'name': 'get_current_weather',
                    'tool_call_id': 'c1',
                    'content': '{"celsius": 25}',
                },
            ],
        },
        worker='tools',
        expect={'choices.0.message.content': str},
    ),
]

