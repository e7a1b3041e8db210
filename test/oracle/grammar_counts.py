#!/usr/bin/env python3
"""Schemas that count, at random, with every small document judged by the jsonschema package: what is valid is
taken and nothing else.

    grammar_counts.py DATA    writes DATA/counts.json (DATA is test/data/grammar)
"""
import itertools
import json
import random
import sys
from pathlib import Path

import jsonschema

ARRAYS = [list(items) for size in range(5) for items in itertools.product([1, 2, 3], repeat=size)]
OBJECTS = [dict.fromkeys(names, 1) for size in range(5) for names in itertools.combinations('abcd', size)]
EIGHTHS = [i / 8 if i % 8 else i // 8 for i in range(-40, 41)]
CONTAINED = [{'const': 1}, {'enum': [1, 2]}, {'minimum': 2}, {'multipleOf': 2}, {'not': {'const': 1}}]
PLACES = [{'enum': [1, 2]}, {'const': 3}, {'enum': [2, 3]}]


def array(rng):
    out = {'type': 'array', 'items': rng.choice([{'enum': [1, 2, 3]},
                                                 {'type': 'integer', 'minimum': 1, 'maximum': 3}])}
    if rng.random() < 0.7:
        out['contains'] = rng.choice(CONTAINED)
    for word in ('minContains', 'maxContains', 'minItems', 'maxItems'):
        if rng.random() < 0.45:
            out[word] = rng.randint(0, 3)
    if rng.random() < 0.35:
        out['uniqueItems'] = True
    if rng.random() < 0.3:
        out['prefixItems'] = [rng.choice(PLACES) for _ in range(rng.randint(1, 2))]
    return out


def members(rng):
    out = {'type': 'object', 'properties': {name: {'type': 'integer'} for name in 'abcd'},
           'additionalProperties': False}
    if rng.random() < 0.5:
        out['required'] = rng.sample('abcd', rng.randint(1, 2))
    for word in ('minProperties', 'maxProperties'):
        if rng.random() < 0.7:
            out[word] = rng.randint(0, 4)
    return out


def steps(rng):
    out = {'type': 'number', 'multipleOf': rng.choice([0.125, 0.375, 0.625, 1.125])}
    if rng.random() < 0.5:
        out.update(minimum=rng.choice([-2, 0.25]), maximum=rng.choice([3, 4.5]))
    return out


def judged(documents, schemas):
    texts = [json.dumps(document, separators=(',', ':')) for document in documents]
    out = []
    for schema in schemas:
        judge = jsonschema.Draft202012Validator(schema)
        valid = ''.join('1' if judge.is_valid(document) else '0' for document in documents)
        if '1' in valid:
            out.append({'schema': schema, 'valid': valid})
    return {'texts': texts, 'schemas': out}


if __name__ == '__main__':
    rng = random.Random(3)
    data = [judged(ARRAYS, [array(rng) for _ in range(80)]),
            judged(OBJECTS, [members(rng) for _ in range(30)]),
            judged(EIGHTHS, [steps(rng) for _ in range(12)])]
    text = '[\n' + ',\n'.join(json.dumps(part) for part in data) + '\n]\n'
    (Path(sys.argv[1]) / 'counts.json').write_text(text, 'utf-8')
    print(sum(len(part['schemas']) for part in data), 'schemas')
