"""Cases of llama-server's own tests; llama_server_cases.py puts them together."""

import re

from shared import BOOK, FAILED, HELLO, POSITIVE
from shapes import ANY, Case

ASKED = {'model': 'test', 'max_tokens': 8}
CALL = {
    'role': 'assistant',
    'content': [{'type': 'tool_use', 'id': 't1', 'name': 'w', 'input': {'city': 'Paris'}}],
}
RESULT = {'type': 'tool_result', 'tool_use_id': 't1', 'content': 'Sunny, 25\u00b0C'}
CLAUDE_TOOL = {
    'name': 'w',
    'description': 'd',
    'input_schema': {'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']},
}
MESSAGE = {'type': 'message', 'role': 'assistant', 'content': list, 'no timings': ANY}
ANTHROPIC = [
    Case(
        'anthropic',
        'a message',
        '/v1/messages',
        {**ASKED, 'messages': HELLO},
        {
            **MESSAGE,
            'content.0.type': 'text',
            'content.0.text': str,
            'stop_reason': re.compile('end_turn|max_tokens'),
            'usage.cache_read_input_tokens': int,
            'usage.input_tokens': int,
            'usage.output_tokens': POSITIVE,
        },
    ),
    *(
        Case('anthropic', name, '/v1/messages', {**ASKED, 'messages': HELLO, **extra}, MESSAGE)
        for name, extra in (
            ('system', {'system': 'You are helpful.'}),
            ('stop_sequences', {'stop_sequences': ['\n', 'END']}),
            ('temperature', {'temperature': 0.5}),
            ('top_p', {'top_p': 0.9}),
            ('top_k', {'top_k': 40}),
            ('thinking', {'thinking': {'type': 'enabled', 'budget_tokens': 50}}),
            ('metadata', {'metadata': {'user_id': 'u'}}),
        )
    ),
    Case(
        'anthropic',
        'parts',
        '/v1/messages',
        {
            **ASKED,
            'messages': [
                {
                    'role': 'user',
                    'content': [
                        {'type': 'text', 'text': 'What is'},
                        {'type': 'text', 'text': ' the answer?'},
                    ],
                }
            ],
        },
        MESSAGE,
    ),
    Case(
        'anthropic',
        'turns',
        '/v1/messages',
        {**ASKED, 'messages': [*HELLO, {'role': 'assistant', 'content': 'Hi!'}, *HELLO]},
        MESSAGE,
    ),
    Case(
        'anthropic',
        'a stream',
        '/v1/messages',
        {**ASKED, 'messages': HELLO, 'stream': True},
        {'type': 'message_stop'},
        each={'type': str},
        stream=True,
    ),
    *(
        Case(
            'anthropic',
            f'count_tokens{name}',
            '/v1/messages/count_tokens',
            {'model': 'test', 'messages': HELLO, **extra},
            {'input_tokens': POSITIVE, 'no output_tokens': ANY},
        )
        for name, extra in (('', {}), (' with system', {'system': 'You are helpful.'}))
    ),
    Case(
        'anthropic',
        'tools',
        '/v1/messages',
        {**ASKED, 'tools': [CLAUDE_TOOL], 'messages': HELLO},
        MESSAGE,
        worker='tools',
    ),
    *(
        Case(
            'anthropic',
            f'a result{name}',
            '/v1/messages',
            {**ASKED, 'messages': [*HELLO, CALL, {'role': 'user', 'content': parts}]},
            {**MESSAGE, 'content.0.type': 'text'},
            worker='tools',
        )
        for name, parts in (
            ('', [RESULT]),
            (' with text', [{'type': 'text', 'text': 'Here:'}, RESULT]),
            (' that is an error', [{**RESULT, 'is_error': True}]),
        )
    ),
    Case(
        'anthropic',
        'a stream with tools',
        '/v1/messages',
        {**ASKED, 'tools': [CLAUDE_TOOL], 'messages': HELLO, 'stream': True},
        {'type': 'message_stop'},
        worker='tools',
        stream=True,
    ),
    Case(
        'anthropic',
        'an image is refused in words',
        '/v1/messages',
        {
            **ASKED,
            'messages': [
                {
                    'role': 'user',
                    'content': [
                        {
                            'type': 'image',
                            'source': {'type': 'base64', 'media_type': 'image/png', 'data': 'iVBORw0KGgo='},
                        }
                    ],
                }
            ],
        },
        {'error.message': re.compile('image')},
        (400, 500),
    ),
    Case('anthropic', 'no messages', '/v1/messages', ASKED, FAILED, (400,)),
    Case(
        'anthropic',
        'empty messages',
        '/v1/messages',
        {**ASKED, 'messages': []},
        MESSAGE,
        reason='Anthropic refuses an empty list, and so does this worker',
    ),
    Case(
        'anthropic',
        'beside openai',
        '/v1/chat/completions',
        {'model': 'test', 'max_tokens': 8, 'messages': HELLO},
        {
            'object': 'chat.completion',
            'choices': list,
            'usage.prompt_tokens': int,
            'usage.completion_tokens': int,
        },
    ),
]

RESPONSES = [
    *(
        Case(
            'responses',
            f'format {form["type"]}',
            '/responses',
            {'input': 'Write an example', 'max_output_tokens': 24, 'text': {'format': form}},
            {'output': list},
        )
        for form in (
            {'type': 'json_schema', 'name': 'test', 'schema': {'const': 'foooooo'}},
            {'type': 'json_object'},
            {'type': 'text'},
        )
    ),
    Case(
        'responses',
        'a schema that is missing',
        '/responses',
        {'input': 'a', 'text': {'format': {'type': 'json_schema', 'name': 'test'}}},
        FAILED,
        (400,),
    ),
    Case(
        'responses',
        'openai',
        '/v1/responses',
        {'model': 'gpt-4.1', 'input': BOOK, 'max_output_tokens': 8, 'temperature': 0.8},
        {'id': re.compile('^resp_'), 'output.0.id': re.compile('^msg_')},
    ),
    Case(
        'responses',
        'a stream',
        '/v1/responses',
        {'model': 'gpt-4.1', 'input': BOOK, 'max_output_tokens': 8, 'stream': True},
        {'type': re.compile(r'^response\.(completed|incomplete)$'), 'response.id': re.compile('^resp_')},
        each={'type': str},
        stream=True,
    ),
    Case(
        'responses',
        'timings in a stream',
        '/responses',
        {'input': 'a', 'max_output_tokens': 8, 'stream': True, 'timings_per_token': True},
        {'timings': dict},
        stream=True,
    ),
]

