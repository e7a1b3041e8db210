"""Cases of llama-server's own tests; llama_server_cases.py puts them together."""

import re

from shared import BOOK, FAILED, HELLO, POSITIVE
from shapes import ANY, Case

JSON_FORMATS = [
    ({'type': 'json_object', 'schema': {'const': '42'}}, 12, r'^"42"$'),
    (
        {'type': 'json_object', 'schema': {'type': 'array', 'items': {'type': 'integer'}, 'maxItems': 2}},
        40,
        r'^\[',
    ),
    ({'type': 'json_schema', 'json_schema': {'schema': {'const': 'foooooo'}}}, 20, r'^"foooooo"$'),
    ({'type': 'json_object'}, 10, r'^\s*\{'),
]
CHAT = [
    *(
        Case(
            'chat',
            f'a chat, content {type(content).__name__}',
            '/chat/completions',
            {
                'model': model,
                'max_tokens': 8,
                'messages': [{'role': 'system', 'content': 'Book'}, {'role': 'user', 'content': content}],
            },
            {
                'id': re.compile('cmpl'),
                'system_fingerprint': str,
                'usage.prompt_tokens': POSITIVE,
                'usage.completion_tokens': 8,
                'choices.0.message.role': 'assistant',
                'choices.0.message.content': str,
                'choices.0.finish_reason': 'length',
            },
        )
        for model, content in (
            (None, 'Hey'),
            (None, 'What is the best book'),
            ('codellama70b', 'Write a function.'),
            (None, [{'type': 'text', 'text': 'What is'}, {'type': 'text', 'text': 'best?'}]),
        )
    ),
    *(
        Case(
            'chat',
            f'a stream of {n}',
            '/chat/completions',
            {'max_tokens': n, 'messages': BOOK, 'stream': True, 'ignore_eos': True},
            {'choices.0.finish_reason': 'length', 'no choices.0.delta.content': ANY},
            each={'id': str, 'model': str, 'system_fingerprint': str},
            stream=True,
        )
        for n in (8, 64)
    ),
    Case(
        'chat',
        'the first chunk has content null',
        '/chat/completions',
        {'max_tokens': 1, 'messages': BOOK, 'stream': True},
        first={'choices.0.delta.content': None},
        stream=True,
        reason='OpenAI\'s first chunk has an empty string, and so has ours',
    ),
    Case(
        'chat',
        'openai, any model name',
        '/v1/chat/completions',
        {
            'model': 'gpt-3.5-turbo-instruct',
            'messages': BOOK,
            'max_tokens': 8,
            'seed': 42,
            'temperature': 0.8,
        },
        {'choices.0.finish_reason': 'length', 'choices.0.message.content': str},
    ),
    Case(
        'chat',
        'the prompt in __verbose',
        '/chat/completions',
        {'max_tokens': 8, 'messages': BOOK},
        {'__verbose.prompt': str},
        reason='a debugging aid of a build option; /apply-template shows the prompt',
    ),
    *(
        Case(
            'chat',
            f'an assistant\'s message last, {type(text).__name__}',
            '/chat/completions',
            {'max_tokens': 8, 'messages': [*BOOK, {'role': 'assistant', 'content': text}]},
            {'choices.0.message.content': str},
        )
        for text in ('Whill', [{'type': 'text', 'text': 'Wh'}, {'type': 'text', 'text': 'ill'}])
    ),
    Case(
        'chat',
        'apply-template',
        '/apply-template',
        {
            'messages': [
                {'role': 'system', 'content': 'You are a test.'},
                {'role': 'user', 'content': 'Hi there'},
            ]
        },
        {'prompt': re.compile('You are a test')},
    ),
    *(
        Case(
            'chat',
            f'response_format {i}',
            '/chat/completions',
            {
                'max_tokens': n,
                'messages': [{'role': 'user', 'content': 'Write an example'}],
                'response_format': form,
            },
            {'choices.0.message.content': re.compile(wanted)},
        )
        for i, (form, n, wanted) in enumerate(JSON_FORMATS)
    ),
    *(
        Case(
            'chat',
            f'response_format that is none: {form}',
            '/chat/completions',
            {'max_tokens': 8, 'messages': HELLO, 'response_format': form},
            FAILED,
            (400,),
        )
        for form in (
            {'type': 'sound'},
            {'type': 'json_object', 'schema': 123},
            {'type': 'json_object', 'schema': {'type': 123}},
            {'type': 'json_object', 'schema': {'type': 'hiccup'}},
        )
    ),
    Case(
        'chat',
        'json_schema',
        '/chat/completions',
        {'max_tokens': 12, 'messages': HELLO, 'json_schema': {'const': '42'}},
        {'choices.0.message.content': '"42"'},
    ),
    Case(
        'chat',
        'grammar',
        '/chat/completions',
        {'max_tokens': 8, 'messages': HELLO, 'grammar': 'root ::= "a"{5,5}'},
        {'choices.0.message.content': 'aaaaa'},
    ),
    *(
        Case(
            'chat',
            f'messages that are none: {str(messages)[:40]}',
            '/chat/completions',
            {'messages': messages},
            FAILED,
            (400, 500),
        )
        for messages in (
            None,
            'string',
            [123],
            [{}],
            [{'role': 123}],
            [{'role': 'system', 'content': 123}],
            [{'role': 'system', 'content': 'test'}, {}],
        )
    ),
    Case(
        'chat',
        'two assistant messages at the end',
        '/chat/completions',
        {'messages': [*HELLO, {'role': 'assistant', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]},
        FAILED,
        (400, 500),
        reason='templates decide which turns they take; clients send such histories',
    ),
    Case(
        'chat',
        'timings_per_token',
        '/chat/completions',
        {
            'max_tokens': 10,
            'messages': HELLO,
            'stream': True,
            'stream_options': {'include_usage': True},
            'timings_per_token': True,
        },
        {
            'timings.prompt_per_second': ANY,
            'timings.predicted_per_second': ANY,
            'timings.predicted_n': lambda n: n <= 10,
        },
        stream=True,
    ),
    Case(
        'chat',
        'logprobs',
        '/v1/chat/completions',
        {
            'model': 'm',
            'temperature': 0.0,
            'messages': BOOK,
            'max_tokens': 5,
            'logprobs': True,
            'top_logprobs': 10,
        },
        {
            'choices.0.logprobs.content.*.logprob': lambda p: p <= 0,
            'choices.0.logprobs.content.*.bytes': list,
            'len choices.0.logprobs.content.*.top_logprobs': 10,
        },
    ),
    Case(
        'chat',
        'logprobs of a stream',
        '/v1/chat/completions',
        {
            'model': 'm',
            'temperature': 0.0,
            'messages': BOOK,
            'max_tokens': 5,
            'logprobs': True,
            'top_logprobs': 10,
            'stream': True,
        },
        {'choices.0.finish_reason': ANY},
        stream=True,
    ),
    Case(
        'chat',
        'logit_bias',
        '/v1/chat/completions',
        {'temperature': 0.0, 'messages': BOOK, 'max_tokens': 8, 'logit_bias': {'5': -100, '6': -100}},
        {'choices.0.message.content': str},
    ),
    Case(
        'chat',
        'a prompt that is too long',
        '/chat/completions',
        {'messages': BOOK * 200},
        {'error.type': 'exceed_context_size_error', 'error.n_prompt_tokens': POSITIVE, 'error.n_ctx': 1024},
        (400,),
        reason='/v1 speaks as OpenAI does: context_length_exceeded, with both numbers in its sentence',
    ),
    Case(
        'chat',
        'a stream of a prompt that is too long',
        '/chat/completions',
        {'messages': BOOK * 200, 'stream': True},
        FAILED,
        (400,),
    ),
    *(
        Case(
            'chat',
            f'return_progress, {when} time',
            '/chat/completions',
            {
                'max_tokens': 2,
                'messages': [{'role': 'user', 'content': 'This is a test' * 60}],
                'stream': True,
                'return_progress': True,
            },
            {'choices': ANY},
            stream=True,
            each={'choices.0.index': 0},
        )
        for when in ('first', 'second')
    ),
    Case(
        'chat',
        'two choices',
        '/chat/completions',
        {'max_tokens': 8, 'n': 2, 'messages': BOOK},
        {'len choices': 2, 'choices.*.message.role': 'assistant', 'choices.*.finish_reason': ANY},
    ),
]

