"""Bodies that cost much: eight clients of each at once, beside the canary. Nothing on the io thread grows
with a request, so the canary keeps its pace and /health its 10 ms."""
import json
import random
import time

from client import chat_body, encoded, execute_body, request, status_of
from crowd import Crowd
from judge import ms, probe
from loads import hammer, sequence, total
from probes_floods import flood
from worker_process import STRETCH

MEGABYTE = 1_000_000


def body_flood(name: str, path: str, body, worker: str = 'main') -> None:
    payload = encoded(body)
    flood(f'8 clients of {name}', hammer, lambda port: (request(port, 'POST', path, payload),), kind='bodies',
          worker=worker)


def keys(count: int, length: int) -> bytes:
    return ('{' + ','.join(f'"{"k" * length}{i}":1' for i in range(count)) + '}').encode()


body_flood('/detokenize of 300,000 tokens', '/detokenize', {'tokens': [7] * 300_000})
body_flood('/detokenize of 8,000 tokens', '/detokenize', {'tokens': [7] * 8_000})
body_flood('/tokenize of a megabyte', '/tokenize', {'content': 'word ' * 190_000})
body_flood('/tokenize of one long word', '/tokenize', {'content': 'abcdefgh' * 4_000})
body_flood('/tokenize with pieces', '/tokenize', {'content': 'a b c d ' * 4_000, 'with_pieces': True})
body_flood('objects with 4,096 keys', '/v1/chat/completions', keys(4_096, 1))
body_flood('objects with 4,096 keys of 200 bytes', '/v1/chat/completions', keys(4_096, 200))
body_flood('logit_bias of 60,000', '/v1/chat/completions',
           chat_body(logit_bias={str(i): 1 for i in range(60_000)}))
body_flood('4,096 messages', '/v1/chat/completions', chat_body(
    messages=[{'role': 'user', 'content': 'a' * 7}] * 4_096, max_tokens=8_000))
body_flood('tools of 900 KiB', '/v1/chat/completions', chat_body(max_tokens=8_000, tools=[{
    'type': 'function', 'function': {'name': f'f{i}', 'description': 'word ' * 1_000, 'parameters': {
        'type':
            'object', 'properties': {f'p{j}': {'type': 'string'} for j in range(50)}}}} for i in range(120)]))
body_flood('arguments of tool calls with 4,096 keys', '/v1/chat/completions', chat_body(messages=[
    {'role': 'user', 'content': 'a'},
    *[{'role': 'assistant', 'tool_calls': [{'id': f'c{i}', 'type': 'function', 'function': {
        'name': 'f', 'arguments': json.dumps({f'k{j}': j for j in range(4_096)})}}]} for i in range(12)]]))
body_flood('a megabyte of small arrays', '/v1/chat/completions', b'{"a":[' + b'[],' * 300_000 + b'[]]}')
body_flood('a megabyte of escapes', '/execute', b'{"job_id":"a","prompt":"' + b'\\u0041' * 160_000 + b'"}')
body_flood('prompts that are too long by one', '/execute', execute_body(prompt='a b ' * 8_192 + 'a'))
body_flood('prompts of token ids', '/v1/completions', {'prompt': [7] * 200_000, 'max_tokens': 1})
body_flood('/cancel of nothing', '/cancel', {'job_id': 'nobody'})


def timed_case(name: str, worker: str, path: str, body, limit: float = 1.0) -> None:
    """One request that is made to be superlinear somewhere: in time, whatever the answer."""
    def run(arena, checks) -> None:
        port = arena.port(worker)
        begin = time.monotonic()
        status = status_of(port, 'POST', path, body, timeout=30 * STRETCH)
        took = time.monotonic() - begin
        checks.in_time(took, limit * STRETCH, status)
        checks.expect(status in ('200', '400', '413', '429'), status)
        checks.note(f'{status} in {ms(took)}')
        if status == 'timeout':
            arena.kill(worker)
    probe('bodies', f'time: {name}')(run)


def marks(count: int) -> str:
    """A letter and marks of many combining classes in the worst order for a sort by exchanges."""
    rng = random.Random(1)
    return 'a' + ''.join(rng.choice('\u0301\u0323\u0327\u0345\u031b\u0334\u0339\u0360') for _ in range(count))


timed_case('200,000 combining marks on one letter', 'normal', '/tokenize', {'content': marks(200_000)})
timed_case('330,000 Hangul parts', 'normal', '/tokenize', {'content': '\u1100\u1161\u11a8' * 110_000})
timed_case('a million spaces', 'normal', '/tokenize', {'content': ' ' * 999_000})
timed_case('spaces and line ends in turn', 'normal', '/tokenize', {'content': ' \n' * 490_000})
timed_case('a word of a million letters', 'normal', '/tokenize', {'content': 'a' * 999_000})
timed_case('a word of a million different letters', 'normal', '/tokenize', {'content': ''.join(
    random.Random(2).choices('etaoinshrdlu', k=999_000))})
timed_case('digits, a million', 'normal', '/tokenize', {'content': '1234567890' * 99_000})
timed_case('apostrophes, a million', 'normal', '/tokenize', {'content': "'" * 999_000})
timed_case('special tokens begun 100,000 times', 'normal', '/tokenize', {'content': '<|im_star' * 100_000})
timed_case('a word of 30,000 letters to an encoder', 'encoder', '/tokenize', {'content': 'ab' * 15_000})
timed_case('2,048 inputs to an encoder', 'encoder', '/v1/embeddings', {'input': ['a' * 400] * 2_048},
           limit=20.0)
timed_case('16 stop strings that overlap themselves', 'tiny', '/execute', execute_body(
    max_tokens=900, stop=['a' * 200 + chr(98 + i) for i in range(16)]), limit=5.0)


@probe('bodies', 'honest requests beside eight clients of megabytes')
def honest_beside(arena, checks) -> None:
    """A small request is not kept waiting by big ones of others."""
    port = arena.port('tiny')
    bad = [request(port, 'POST', '/tokenize', {'content': 'word ' * 190_000}),
           request(port, 'POST', '/v1/chat/completions', keys(4_096, 200)),
           request(port, 'POST', '/execute', b'{"job_id":"' + b'\\u0041' * 160_000 + b'"}')]
    took = []
    with Crowd(sequence, port, bad, arena.seed, count=8) as crowd:
        time.sleep(0.5)
        for number in range(20):
            begin = time.monotonic()
            status = status_of(port, 'POST', '/execute', execute_body(job_id=f'h{number}'))
            took.append(time.monotonic() - begin)
            checks.expect(status == '200', f'an honest one got {status}')
        checks.note(total(crowd.finish(20.0)))
    checks.in_time(max(took), 1.0 * STRETCH, 'the slowest honest one')
    checks.note(f'slowest {ms(max(took))}')
