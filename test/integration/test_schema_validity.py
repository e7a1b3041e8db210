"""Random schemas, always the same: an answer that was made to fit is valid under its schema in the eyes of
another validator, jsonschema-rs, which comes with schemathesis (tools/python_packages.sh fetches it)."""
import json
import os
import random
import sys
from pathlib import Path

import pytest

from worker_process import SANITIZED, Worker

PACKAGES = Path(os.environ.get('ORCD_SCHEMATHESIS', '/nonexistent'))
COUNT = 100 if SANITIZED else 800
NAMES = ['a', 'b', 'kind', 'x1']
TYPES = ['null', 'boolean', 'string', 'number', 'integer', 'array', 'object']
VALUES = [None, True, False, 0, 1, 2, -1, 1.5, '', 'a', 'ab', [], {}, [1], {'a': 1}]
PATTERNS = ['^a', 'b$', '^[a-c]+$', '[0-9]', '^(on|off)$']
LEAVES = [True, {'type': 'integer'}, {'type': 'string'}, {'const': 1}, {'enum': ['a', 1]}]
NUMBERS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum']


class Maker:
    """Schemas of all keywords, a few at a time."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def some(self, words, most: int = 2):
        return self.rng.sample(words, self.rng.randint(1, most))

    def part(self, depth: int):
        if depth > 2:
            return self.rng.choice(LEAVES)
        kinds = [self.types, self.numbers, self.text, self.items, self.members, self.members, self.values,
                 self.choices, self.condition, self.excluded]
        out: dict = {}
        for kind in self.some(kinds, 3):
            kind(out, depth + 1)
        return out

    def types(self, out, _):
        out['type'] = self.rng.choice(TYPES)

    def numbers(self, out, _):
        for word in self.some(NUMBERS):
            out[word] = self.rng.choice([-3, 0, 1, 5, 0.5, 10])
        if self.rng.random() < 0.3:
            out['multipleOf'] = self.rng.choice([1, 2, 3, 5, 0.5, 0.75])

    def text(self, out, _):
        for word in self.some(['minLength', 'maxLength', 'pattern']):
            out[word] = self.rng.choice(PATTERNS if word == 'pattern' else [0, 1, 2, 4])

    def items(self, out, depth):
        made = {'items': lambda: self.part(depth), 'prefixItems': lambda: [self.part(depth)],
                'minItems': lambda: self.rng.randint(0, 2), 'maxItems': lambda: self.rng.randint(0, 3),
                'uniqueItems': lambda: True, 'unevaluatedItems': lambda: False,
                'contains': lambda: self.part(depth),
                'minContains': lambda: self.rng.randint(0, 2), 'maxContains': lambda: self.rng.randint(0, 2)}
        for word in self.some(list(made), 3):
            out[word] = made[word]()

    def members(self, out, depth):
        made = {'properties': lambda: {name: self.part(depth) for name in self.some(NAMES, 3)},
                'required': lambda: self.some(NAMES), 'additionalProperties': lambda: self.rng.random() < 0.3,
                'patternProperties': lambda: {self.rng.choice(PATTERNS): self.part(depth)},
                'dependentRequired': lambda: {self.rng.choice(NAMES): self.some(NAMES)},
                'dependentSchemas': lambda: {self.rng.choice(NAMES): self.part(depth)},
                'maxProperties': lambda: self.rng.randint(0, 3),
                'minProperties': lambda: self.rng.randint(0, 3),
                'unevaluatedProperties': lambda: self.rng.choice([False, {'type': 'integer'}]),
                'example': lambda: 1}
        for word in ['properties', *self.some(list(made))]:
            out[word] = made[word]()

    def values(self, out, _):
        if self.rng.random() < 0.5:
            out['const'] = self.rng.choice(VALUES)
        else:
            out['enum'] = self.rng.sample(VALUES, 4)

    def choices(self, out, depth):
        out[self.rng.choice(['allOf', 'anyOf', 'oneOf', 'oneOf'])] = [self.part(depth) for _ in range(2)]

    def condition(self, out, depth):
        out['if'] = self.part(depth)
        for word in self.some(['then', 'else']):
            out[word] = self.part(depth)

    def excluded(self, out, depth):
        out['not'] = self.part(depth)


@pytest.mark.skipif(not (PACKAGES / 'jsonschema_rs').exists(),
                    reason='jsonschema-rs is not here: set ORCD_SCHEMATHESIS (tools/python_packages.sh)')
def test_what_is_served_is_valid(models, monkeypatch):
    monkeypatch.setattr(sys, 'path', [*sys.path, str(PACKAGES)])
    import jsonschema_rs  # pylint: disable=import-outside-toplevel
    make = Maker(20)
    judged = refused = 0
    with Worker('--model', models('validity', '--context', '1024'), '--max-tokens-out', '256') as worker:
        worker.wait_event('ready')
        for seed in range(COUNT):
            schema = make.part(0)
            answer = worker.call('POST', '/v1/completions', {
                'prompt': 'x', 'temperature': 1.2, 'seed': seed, 'max_tokens': 120, 'guided_json': schema})
            shown = json.dumps(schema)
            if answer.status == 400:
                assert '#' in answer.error['message'], (shown, answer.body)
                refused += 1
                continue
            assert answer.status == 200, (shown, answer.body)
            choice = answer.json()['choices'][0]
            if choice['finish_reason'] != 'stop':
                continue
            value = json.loads(choice['text'])
            assert jsonschema_rs.Draft202012Validator(schema).is_valid(value), (shown, value)
            judged += 1
    assert judged > COUNT // 4 and refused > 0, (judged, refused)
