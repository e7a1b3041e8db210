"""Schemas: patterns that explode, merges that double, counts that multiply. Each is answered in time and with
little memory; many at once turn no honest one away."""
import json
import threading
import time

from canary import under
from client import chat_body, status_of
from crowd import NUMBER, Crowd
from judge import ms, probe
from loads import total
from worker_process import SANITIZED, STRETCH

WITHIN = 2.0
MEMORY = 64 * 2**20       # beyond what there was, at any time of one compilation
HONEST_WITHIN = 2.0
REMEMBERED_WITHIN = 0.05  # a refusal that was made before


def pattern(text: str) -> dict:
    return {'type': 'string', 'pattern': text}


def ask_for(schema, **changes) -> dict:
    return chat_body(max_tokens=2, response_format={'type': 'json_schema', 'json_schema': {
        'name': 'x', 'schema': schema}}, **changes)


def doubling(levels: int, way: str) -> dict:
    definitions: dict = {'d0': {'type': 'string', 'maxLength': 50}}
    for i in range(1, levels):
        definitions[f'd{i}'] = {way: [{'$ref': f'#/$defs/d{i - 1}'}, {'$ref': f'#/$defs/d{i - 1}'}]}
    return {'$defs': definitions, '$ref': f'#/$defs/d{levels - 1}'}


def optional(count: int, required=()) -> dict:
    return {'type': 'object', 'properties': {f'p{i}': {'type': 'integer'} for i in range(count)},
            'required': list(required), 'additionalProperties': False}


def product(count: int) -> dict:
    """allOf of anyOfs: 3^count when it is multiplied out."""
    return {'allOf': [{'anyOf': [{'type': 'string', 'pattern': f'^.*{c}{i}.*$'} for c in 'abc']}
                      for i in range(count)]}


SCHEMAS = {
    'pattern of 2^18 states': pattern('^[ab]*a[ab]{18}$'),
    'pattern of 2^13 states': pattern('^[ab]*a[ab]{13}$'),
    'pattern of 2^13 states of any characters': pattern('^.*a.{13}$'),
    'pattern of counted counts': pattern('^(a{1,100}){1,100}$'),
    'pattern of counts three deep': pattern('^(((a{0,50}){0,50}){0,50})$'),
    'pattern of (a{1000}){1000}': pattern('^(a{1000}){1000}$'),
    'pattern of any character 100,000 times': pattern('^.{100000}$'),
    'pattern of any letter 30,000 times': pattern('^[\\u0100-\\uffff]{30000}$'),
    'pattern of nested stars': pattern('^(((a*)*)*)*b$'),
    'pattern of words and commas': pattern('^(([a-z]+,?)+)+[A-Z]([a-z]+)*$'),
    'pattern of 300 alternatives of counts':
        pattern('^(' + '|'.join(f'[a-z]{{1,{i}}}x' for i in range(1, 300)) + ')$'),
    'pattern of 280 bytes':
        pattern('^' + '(a|b|ab)*' * 15 + '[ab]{0,60}' * 8 + '(x[ab]*a[ab]{9})?' * 4 + '$'),
    'pattern of 900 KB': pattern('^' + 'abc|' * 220_000 + 'x$'),
    'pattern of brackets 50,000 deep': pattern('(' * 50_000 + 'a' + ')' * 50_000),
    'pattern of classes 10,000 wide':
        pattern('^[' + ''.join(chr(0x4e00 + 2 * i) for i in range(8_000)) + ']{200}$'),
    'pattern with a reference back': pattern('^(a*)\\1$'),
    'pattern that looks ahead': pattern('^(?=.*a)(?=.*b)(?=.*c).{1,100}$'),
    'pattern with a count of 2^64': pattern('^a{18446744073709551617}$'),
    'pattern with a count the wrong way': pattern('^a{5,2}$'),
    'two patterns at once':
        {'type': 'string', 'allOf': [pattern('^[ab]*a[ab]{8}$'), pattern('^[ab]*b[ab]{9}$'),
                                                        pattern('^[ab]{0,5}a[ab]*$')]},
    'a pattern and a length': {**pattern('^[ab]*a[ab]{8}$'), 'minLength': 5_000, 'maxLength': 9_000},
    'a length of 10^9': {'type': 'string', 'maxLength': 10**9},
    'a least length of 100,000': {'type': 'string', 'minLength': 100_000},
    'items 10^6 times': {'type': 'array', 'items': {'type': 'integer'}, 'minItems': 10**6},
    'items of items of items': {'type': 'array', 'minItems': 500, 'maxItems': 500, 'items': {
        'type': 'array', 'minItems': 500, 'maxItems': 500, 'items': {
            'type': 'array', 'minItems': 500, 'maxItems': 500, 'items': {'type': 'integer'}}}},
    'allOf that doubles 40 times': doubling(40, 'allOf'),
    'anyOf that doubles 40 times': doubling(40, 'anyOf'),
    'oneOf that doubles 20 times': doubling(20, 'oneOf'),
    'allOf of anyOf, 3^12': product(12),
    'allOf of 200 objects': {'allOf': [{'type': 'object', 'properties': {f'p{i}': pattern(f'^a{{{i},}}$')}}
                                       for i in range(200)]},
    '1,000 optional properties': optional(1_000),
    '4,000 required properties': optional(4_000, [f'p{i}' for i in range(4_000)]),
    '64 optional properties, one required': optional(64, ['p63']),
    '4,000 properties with a long common name': {'type': 'object', 'properties': {
        'p' * 200 + str(i): {'type': 'integer'} for i in range(3_000)}},
    'patternProperties, many': {'type': 'object', 'patternProperties': {
        f'^[a-z]*{i}[a-z]{{1,20}}$': {'type': 'integer'} for i in range(100)}},
    'a name by a pattern': {'type': 'object', 'propertyNames': pattern('^[ab]*a[ab]{10}$')},
    'enum of 40,000': {'enum': [f'value {i}' for i in range(40_000)]},
    'enum of one string of 900 KB': {'enum': ['a' * 900_000]},
    'enum of objects': {'enum': [{f'k{j}': i * j for j in range(20)} for i in range(1_000)]},
    'const 60 deep': {'const': json.loads('[' * 55 + ']' * 55)},
    'references in a circle': {'$defs': {'a': {'$ref': '#/$defs/b'}, 'b': {'$ref': '#/$defs/a'}},
                               '$ref': '#/$defs/a'},
    'a chain of 4,000 references':
        {'$defs': {**{f'd{i}': {'$ref': f'#/$defs/d{i + 1}'} for i in range(4_000)},
                                              'd4000': {'type': 'integer'}}, '$ref': '#/$defs/d0'},
    'a reference through itself': {'$ref': '#'},
    'a reference to a file': {'$ref': 'file:///etc/passwd'},
    'a reference with 10^5 slashes': {'$ref': '#' + '/a' * 100_000},
    'a tree that can never end': {'type': 'array', 'minItems': 1, 'items': {'$ref': '#'}},
    'a tree of two kinds': {'$defs': {'a': {'anyOf': [{'type': 'array', 'items': {'$ref': '#/$defs/a'}},
                                                      {'type': 'array', 'items': {'$ref': '#/$defs/b'}}]},
                                      'b': {'anyOf': [{'$ref': '#/$defs/a'}, {'type': 'string'}]}},
                            '$ref': '#/$defs/b'},
    'an integer within 10^300': {'type': 'integer', 'minimum': -10**300, 'maximum': 10**300},
    'an integer within odd bounds':
        {'type': 'integer', 'minimum': 123456789012345, 'maximum': 987654321098765},
    'a number within 1e-300': {'type': 'number', 'minimum': 1e-300, 'maximum': 2e-300},
    'multipleOf 1e-300': {'type': 'number', 'multipleOf': 1e-300},
    'multipleOf 999983': {'type': 'integer', 'multipleOf': 999_983},
    'uniqueItems of 10,000': {'type': 'array', 'uniqueItems': True, 'maxItems': 10_000},
    'not': {'not': {'type': 'string'}},
    'a schema that is a list': [],
    'a schema that is true': True,
    'a schema that nothing fits': {'type': 'integer', 'minimum': 5, 'maximum': 4},
    'format of an address':
        {'type': 'array', 'items': {'type': 'string', 'format': 'email', 'maxLength': 200}},
}


class Peak:
    """The most resident memory of a process while something goes on."""

    def __init__(self, worker):
        self.worker, self.most = worker, 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(0.004):
            try:
                self.most = max(self.most, self.worker.memory()['VmRSS'])
            except (OSError, KeyError):
                return

    def end(self) -> int:
        self._done.set()
        self._thread.join(5.0)
        return self.most


def _one(name: str):
    schema = SCHEMAS[name]

    def run(arena, checks) -> None:
        worker = arena.fresh('schemas')
        before, peak = worker.memory()['VmRSS'], Peak(worker)
        begin = time.monotonic()
        status = status_of(worker.port, 'POST', '/v1/chat/completions', ask_for(schema), timeout=30.0)
        took = time.monotonic() - begin
        more = max(0, peak.end() - before)
        checks.expect(status in ('200', '400', '413'), status)
        checks.in_time(took, WITHIN * STRETCH)
        checks.expect(more < MEMORY or not arena.timed, f'{more >> 20} MiB')
        checks.expect(status_of(worker.port, 'GET', '/live') == '200', '/live is gone')
        checks.note(f'{status} in {ms(took)}, {more >> 20} MiB')
    probe('schemas', name)(run)


for _name in SCHEMAS:
    _one(_name)


def exploding(number: int) -> dict:
    """Costly, and each another one."""
    return ask_for(pattern(f'^x{number}(a|b|ab)*[ab]*a[ab]{{12}}(c|d|cd)*[cd]*c[cd]{{11}}$'))


def compile_all(stop, port: int, number: int) -> dict:
    counts: dict = {}
    turn = 0
    while not stop.is_set():
        body = exploding(number * 100_000 + turn)
        status = status_of(port, 'POST', '/v1/chat/completions', body, timeout=20.0)
        counts[status] = counts.get(status, 0) + 1
        turn += 1
    return counts


@probe('schemas', '16 at once while an honest one asks')
def many_at_once(arena, checks) -> None:
    worker = arena.fresh('schemas')
    port = worker.port
    before, peak = worker.memory()['VmRSS'], Peak(worker)
    took, statuses = [], []
    with Crowd(compile_all, port, NUMBER, count=16) as crowd:
        time.sleep(1.0)
        for number in range(3 if SANITIZED else 10):
            begin = time.monotonic()
            schema = {'type': 'object', 'properties': {f'name{number}': {'type': 'string'}}}
            statuses.append(status_of(port, 'POST', '/v1/chat/completions', ask_for(schema), timeout=30.0))
            took.append(time.monotonic() - begin)
        text = total(crowd.finish(30.0))
    more = max(0, peak.end() - before)
    bad = [s for s in statuses if s != '200']
    checks.expect(not bad, f'{len(bad)} of {len(statuses)} honest ones got {sorted(set(bad))}')
    checks.in_time(max(took), HONEST_WITHIN * STRETCH, 'the slowest honest one')
    checks.expect(more < 4 * MEMORY or not arena.timed, f'{more >> 20} MiB at the peak')
    checks.note(f'{text}; slowest {ms(max(took))}; {more >> 20} MiB')


@probe('schemas', 'a refusal is remembered')
def remembered(arena, checks) -> None:
    port = arena.port('schemas')
    times = []
    for _ in range(6):
        begin = time.monotonic()
        status = status_of(port, 'POST', '/v1/chat/completions', ask_for(SCHEMAS['pattern of 2^18 states']))
        times.append(time.monotonic() - begin)
        checks.expect(status == '400', status)
    best = min(times[1:])
    checks.in_time(best, REMEMBERED_WITHIN * STRETCH, 'the best of the next five')
    checks.note(f'first {ms(times[0])}, next {ms(best)}')


@probe('schemas', 'tools whose parameters explode')
def tools(arena, checks) -> None:
    port = arena.port('schemas')
    for choice in ('required', 'auto'):
        body = chat_body(max_tokens=2, tool_choice=choice, tools=[{'type': 'function', 'function': {
            'name': f'f{i}', 'strict': True, 'parameters': {'type': 'object', 'additionalProperties': False,
                'required': ['a'], 'properties': {'a': pattern(f'^[ab]*a[ab]{{{9 + i % 4}}}$')}}}}
            for i in range(100)])
        begin = time.monotonic()
        status = status_of(port, 'POST', '/v1/chat/completions', body, timeout=30.0)
        took = time.monotonic() - begin
        checks.expect(status in ('200', '400'), f'{choice}: {status}')
        checks.in_time(took, 2 * WITHIN * STRETCH, choice)
        checks.note(f'{choice}: {status} in {ms(took)}')


@probe('schemas', '8 clients of exploding patterns beside the canary')
def beside(arena, checks) -> None:
    port = arena.port('main')

    def attack(found) -> None:
        with Crowd(compile_all, port, NUMBER, count=8) as crowd:
            time.sleep(2.5)
            found.note(total(crowd.finish(30.0)))
    under(arena, 'main', attack, checks)


def ask_small(stop, port: int, number: int) -> dict:
    counts: dict = {}
    for turn in range(1_000_000):
        if stop.is_set():
            break
        schema = {'type': 'object', 'properties': {f'n{number}x{turn}': {'type': 'string', 'maxLength': 30}}}
        status = status_of(port, 'POST', '/v1/chat/completions', ask_for(schema, seed=1), timeout=20.0)
        counts[status] = counts.get(status, 0) + 1
    return counts


@probe('schemas', '8 clients of new small schemas beside the canary')
def small_beside(arena, checks) -> None:
    port = arena.port('main')

    def attack(found) -> None:
        with Crowd(ask_small, port, NUMBER, count=8) as crowd:
            time.sleep(2.5)
            found.note(total(crowd.finish(30.0)))
    # These are computed beside the canary, two at a time: its bytes are judged, its pace is that of two.
    under(arena, 'main', attack, checks, pace=False)


@probe('schemas', 'the body is looked at before the schema is compiled')
def order(arena, checks) -> None:
    """A request that is wrong elsewhere costs no compilation."""
    port = arena.port('schemas')
    begin = time.monotonic()
    body = {**ask_for(pattern('^[ab]*a[ab]{17}z$')), 'temperature': 99}
    checks.expect((got := status_of(port, 'POST', '/v1/chat/completions', body)) == '400', got)
    took = time.monotonic() - begin
    checks.in_time(took, 0.2 * STRETCH)
    checks.note(ms(took))
