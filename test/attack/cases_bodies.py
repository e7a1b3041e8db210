"""Hostile JSON, by name: (path, body, what must come). A number is that status; 'any' is any answer at all;
'refused' is 400, 413 or 422. In no case does it take long or end anything."""
import json
import random
from typing import Dict, Tuple

from client import chat_body, encoded, execute_body

EXECUTE, CHAT, TEXT = '/execute', '/v1/chat/completions', '/v1/completions'
HUGE = 10**5


def raw(path: str, text: str, wanted='refused') -> Tuple[str, bytes, object]:
    return path, text.encode('utf-8', 'surrogatepass'), wanted


def chat(wanted='refused', **changes) -> Tuple[str, bytes, object]:
    return CHAT, encoded(chat_body(**changes)), wanted


def run(wanted='refused', **changes) -> Tuple[str, bytes, object]:
    return EXECUTE, encoded(execute_body(**changes)), wanted


def text(wanted='refused', **changes) -> Tuple[str, bytes, object]:
    return TEXT, encoded({'prompt': 'a', 'max_tokens': 2, **changes}), wanted


def number(value: str, key: str = 'max_tokens') -> Tuple[str, bytes, object]:
    body = {**execute_body(), key: 0}
    return raw(EXECUTE, json.dumps(body).replace(f'"{key}": 0', f'"{key}": {value}'))


def tools(count: int, parameters) -> dict:
    return {'tools': [{'type': 'function', 'function': {
        'name': f'f{i}', 'description': 'd' * 100, 'parameters': parameters}} for i in range(count)]}


CASES: Dict[str, Tuple[str, bytes, object]] = {
    'arrays of depth 10^5': raw(CHAT, '{"messages":' + '[' * HUGE + ']' * HUGE + '}'),
    'arrays of depth 10^5, not closed': raw(CHAT, '[' * HUGE),
    'objects of depth 10^5': raw(EXECUTE, '{"a":' * HUGE),
    'a key twice': raw(EXECUTE, '{"job_id":"a","job_id":"b","prompt":"x"}'),
    'a key twice, once escaped': raw(EXECUTE, '{"job_id":"a","job_i\\u0064":"b","prompt":"x"}'),
    '4,096 keys': raw(CHAT, '{' + ','.join(f'"k{i}":1' for i in range(4096)) + '}'),
    '4,097 keys': raw(CHAT, '{' + ','.join(f'"k{i}":1' for i in range(4097)) + '}'),
    '4,096 keys with a long common beginning': raw(CHAT, '{' + ','.join(
        f'"{"k" * 200}{i}":1' for i in range(4096)) + '}'),
    '100,000 empty keys': raw(CHAT, '{' + ','.join('"":1' for _ in range(HUGE)) + '}'),
    'max_tokens 2^63': number('9223372036854775808'),
    'max_tokens 2^64 + 4': number('18446744073709551620'),
    'max_tokens -1': number('-1'),
    'max_tokens 1.5': number('1.5'),
    'max_tokens 1e999': number('1e999'),
    'max_tokens 1e-999': number('1e-999'),
    'max_tokens of 10^5 digits': number('9' * HUGE),
    'max_tokens of 0.000…1': number('0.' + '0' * HUGE + '1'),
    'max_tokens as a string': number('"5"'),
    'temperature NaN': number('NaN', 'temperature'),
    'temperature Infinity': number('-Infinity', 'temperature'),
    'temperature 1e308 1e308': number('1e308 1e308', 'temperature'),
    'seed -1': number('-1', 'seed'),
    'top_k 2^32 + 1': number('4294967297', 'top_k'),
    'repeat_last_n 10^9': number('1000000000', 'repeat_last_n'),
    'timeout_ms 2^63 - 1': number('9223372036854775807', 'timeout_ms'),
    'a number with a leading zero': number('08'),
    'a number with a plus': number('+8'),
    'a hexadecimal number': number('0x8'),
    'a lone surrogate': raw(EXECUTE, '{"job_id":"a","prompt":"\\ud800"}'),
    'a lone surrogate as a key': raw(EXECUTE, '{"job_id":"a","prompt":"x","\\udfff":1}'),
    'surrogates the wrong way round': raw(EXECUTE, '{"job_id":"a","prompt":"\\udc00\\ud800"}'),
    'an encoded surrogate': (EXECUTE, b'{"job_id":"a","prompt":"\xed\xa0\x80"}', 'refused'),
    'overlong UTF-8': (EXECUTE, b'{"job_id":"a","prompt":"\xc0\xaf"}', 'refused'),
    'UTF-8 cut off': (EXECUTE, b'{"job_id":"a","prompt":"\xe2\x82"}', 'refused'),
    'UTF-8 above U+10FFFF': (EXECUTE, b'{"job_id":"a","prompt":"\xf4\x90\x80\x80"}', 'refused'),
    'UTF-16': (EXECUTE, '{"job_id":"a"}'.encode('utf-16'), 'refused'),
    'a byte order mark': (EXECUTE, b'\xef\xbb\xbf' + encoded(execute_body()), 'any'),
    'a NUL in a string': (EXECUTE, b'{"job_id":"a","prompt":"\x00"}', 'refused'),
    'a NUL after the end': (EXECUTE, encoded(execute_body()) + b'\x00', 'refused'),
    'two documents': (EXECUTE, encoded(execute_body()) * 2, 'refused'),
    'a comment': (EXECUTE, b'/* */' + encoded(execute_body()), 'refused'),
    'a comma at the end': raw(EXECUTE, '{"job_id":"a","prompt":"x",}'),
    'single quotes': raw(EXECUTE, "{'job_id':'a'}"),
    'nothing': (EXECUTE, b'', 'refused'),
    'a megabyte of spaces': (EXECUTE, b' ' * 1_000_000, 'refused'),
    'a string without an end': raw(EXECUTE, '{"job_id":"' + 'a' * 900_000),
    'a string of backslashes': raw(EXECUTE, '{"job_id":"' + '\\\\' * 400_000 + '"}'),
    'a string of escaped characters': raw(EXECUTE, '{"job_id":"a","prompt":"' + '\\u0041' * 160_000 + '"}'),
    'an array of 10^5 at the top': raw(EXECUTE, '[' + '1,' * HUGE + '1]'),
    'an array of 10^5 as prompt': text(prompt=[1] * HUGE),
    'an array of 10^5 strings as prompt': text(prompt=['a'] * HUGE),
    'a string of 64 MiB': (EXECUTE, b'{"prompt":"' + b'a' * 2**26 + b'"}', 'too long'),
    'stop of 10^5': chat(stop=['s'] * HUGE),
    'stop of 10^5 different': chat(stop=[f's{i}' for i in range(HUGE)]),
    'stop that is empty': chat(stop=['']),
    'stop of 257 bytes': chat(stop='x' * 257),
    'stop that overlaps itself': chat(stop=['a' * 255 + c for c in 'bcde'], wanted='any'),
    'logit_bias of 60,000': chat(logit_bias={str(i): 1 for i in range(60_000)}),
    'logit_bias of 10^6':
        (CHAT, encoded(chat_body(logit_bias={str(i): 1 for i in range(10**6)})), 'too long'),
    'logit_bias with 07 and 7': chat(logit_bias={'7': 1, '07': 2}),
    'logit_bias of token -1': chat(logit_bias={'-1': 1}),
    'logit_bias of token 2^32': chat(logit_bias={str(2**32): 1}),
    'messages of 5,000': chat(messages=[{'role': 'user', 'content': 'a'}] * 5_000),
    'messages of 4,096': chat(messages=[{'role': 'user', 'content': ''}] * 4_096, wanted='any'),
    '100,000 content parts': chat(content=[{'type': 'text', 'text': ''}] * 20_000, wanted='any'),
    'content of type image_url': chat(content=[{'type': 'image_url', 'image_url': {
        'url': 'http://127.0.0.1:1/x'}}]),
    'a tool call whose arguments are too deep to read are text':
        chat(wanted='200', messages=[{'role': 'user', 'content': 'a'}, {
        'role': 'assistant', 'tool_calls': [{'id': 'a', 'type': 'function', 'function': {
            'name': 'f', 'arguments': '{"a":' + '[' * 50_000 + ']' * 50_000 + '}'}}]}]),
    'a tool call whose arguments are 4,096 keys':
        chat(wanted='any', messages=[{'role': 'user', 'content': 'a'}, {
        'role': 'assistant', 'tool_calls': [{'id': 'a', 'type': 'function', 'function': {
            'name': 'f', 'arguments': json.dumps({f'k{i}': i for i in range(4096)})}}]}]),
    '129 tools': chat(**tools(129, {})),
    '128 tools of 4,000 bytes':
        chat(wanted='any', **tools(128, {'type': 'object', 'description': 'x' * 4_000})),
    'a tool 60 levels deep': chat(wanted='any', **tools(1, json.loads('{"x":' * 50 + '1' + '}' * 50))),
    'n 2^31': chat(n=2**31),
    'best_of 10^9': text(best_of=10**9),
    'top_logprobs -1': chat(logprobs=True, top_logprobs=-1),
    'token ids that are none': text(prompt=[2**31]),
    'token ids below 0': text(prompt=[-1]),
    'a job_id of 257 bytes': run(job_id='j' * 257),
    'a job_id with a line end': run(job_id='a\nevent: end', wanted='any'),
    'an empty prompt': run(prompt=''),
    'a prompt of 1 MB': run(prompt='x' * 900_000),
    'special tokens, 3,000': run(prompt='<|im_start|>' * 2_700, wanted='any'),
    'begun special tokens': run(prompt='<|im_star' * 3_600, wanted='any'),
    'cancel with 10^5 ids': ('/cancel', encoded({'job_id': ['x'] * HUGE}), 'refused'),
    'cancel with a number': ('/cancel', b'{"job_id":1}', 'refused'),
    'detokenize of 10^5': ('/detokenize', encoded({'tokens': [1] * HUGE}), 'refused'),
    'detokenize of -1': ('/detokenize', b'{"tokens":[-1]}', 'refused'),
    'detokenize of 1e18': ('/detokenize', b'{"tokens":[1e18]}', 'refused'),
    'detokenize of arrays': ('/detokenize', encoded({'tokens': [[1]] * 1000}), 'refused'),
    'tokenize of 10^6 spaces': ('/tokenize', encoded({'content': ' ' * 1_000_000}), 'any'),
    'embeddings of a model that has none': ('/v1/embeddings', encoded({'input': 'a'}), 'refused'),
    'rerank of a model that has none': ('/v1/rerank', encoded({'query': 'a', 'documents': ['b']}), 'refused'),
    'shutdown with a body that is no JSON': ('/shutdown', b'{', 'refused'),
}
STATUSES = {'refused': {'400', '413', '415', '422'}, 'too long': {'413', '400', 'closed'},
            'any': {'200', '400', '413'}}


def drawn(rng: random.Random, depth: int = 0):
    """Some JSON that a field may be given, odd in some way."""
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return rng.choice([0, -1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -2**63, 2**64 - 1, 2**64, 10**30])
    if kind == 1:
        return rng.choice([0.0, -0.0, 0.5, 1e-320, 1.7e308, 3.0, 2.0000001])
    if kind == 2:
        return rng.choice([None, True, False])
    if kind == 3:
        letters = 'ab\n\t"\\ \u0301\u00e9\u4e2d\U0001f600\x7f<|>{}'
        return ''.join(rng.choice(letters) for _ in range(rng.randint(0, 40)))
    if kind == 4:
        return rng.choice(['auto', 'none', 'required', 'json_object', 'json_schema', 'user', 'text', ''])
    if kind == 5:
        return rng.randint(-5, 50)
    if kind == 6:
        return [drawn(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    names = ['type', 'function', 'name', 'role', 'content', 'json_schema', 'schema', 'properties', '7']
    return {rng.choice(names): drawn(rng, depth + 1) for _ in range(rng.randint(0, 5))}


FIELDS = ['max_tokens', 'temperature', 'top_p', 'min_p', 'top_k', 'seed', 'stop', 'n', 'logit_bias', 'stream',
          'stream_options', 'messages', 'tools', 'tool_choice', 'response_format', 'logprobs', 'top_logprobs',
          'ignore_eos', 'timeout_ms', 'cache_prompt', 'cache_salt', 'imc_id', 'chat_template_kwargs', 'user',
          'reasoning_effort', 'parallel_tool_calls', 'repetition_penalty', 'presence_penalty', 'model',
          'prompt', 'echo', 'suffix', 'best_of', 'metadata', 'max_completion_tokens', 'repeat_last_n']


def drawn_request(rng: random.Random) -> Tuple[str, bytes]:
    """An honest body with a few fields that are not."""
    path = rng.choice([CHAT, CHAT, TEXT, EXECUTE])
    honest = {CHAT: chat_body(), TEXT: {'prompt': 'a', 'max_tokens': 2}, EXECUTE: execute_body(max_tokens=2)}
    body = honest[path]
    for _ in range(rng.randint(1, 3)):
        body[rng.choice(FIELDS)] = drawn(rng)
    return path, encoded(body)
