#!/usr/bin/env python3
"""Data of the grammar tests, judged by the jsonschema package.

    grammar_cases.py write DATA      writes DATA/cases.json (DATA is test/data/grammar): the schemas of
                                     grammar_schemas.py, each with changed documents that jsonschema refuses
    grammar_cases.py check DATA      every text of DATA/generated.json must be valid under its schema; run it
                                     after `ORCD_WRITE_GENERATED=DATA/generated.json unit_grammar`
"""
import copy
import json
import random
import sys
from pathlib import Path

import jsonschema

from grammar_schemas import ACCEPTED, REFUSED, STRICT

CHANGES = 40


def validator(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    kind = jsonschema.Draft202012Validator
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def changed(document, rng):
    """The document with one part replaced, removed, added or doubled."""
    root = [copy.deepcopy(document)]
    parts = [(root, 0)]
    for container, key in parts:
        value = container[key]
        if isinstance(value, dict):
            parts += [(value, name) for name in value]
        elif isinstance(value, list):
            parts += [(value, i) for i in range(len(value))]
    container, key = rng.choice(parts)
    value = container[key]
    replacements = [None, True, 0, -1, 3.5, '', 'zz', [], {}, [0], {'q': 0}, 1000]
    if isinstance(value, str):
        replacements += [value + 'x', value[1:], value * 3, value.upper(), value + '狐']
    if isinstance(value, int) and not isinstance(value, bool):
        replacements += [value + 1, value - 1, -value, value * 10, value + 0.5]
    if isinstance(value, float):
        replacements += [round(value + step, 6) for step in (1, -1, 0.1, -0.1, 0.001, -0.001)] + [-value]
    if isinstance(value, list):
        replacements += [value + value, value[1:], value + [None]]
    if isinstance(value, dict):
        replacements += [{**value, 'extra': 1}, dict(list(value.items())[1:])]
    container[key] = rng.choice(replacements)
    return root[0]


def refused_documents(schema, texts, rng):
    judge = validator(schema)
    out = []
    for _ in range(CHANGES * 5):
        document = changed(json.loads(rng.choice(texts)), rng)
        if judge.is_valid(document):
            continue
        text = json.dumps(document, ensure_ascii=False, separators=rng.choice([(',', ':'), (', ', ': ')]))
        if text not in out:
            out.append(text)
        if len(out) == CHANGES:
            break
    return out


def write(data):
    rng = random.Random(5)
    accepted = []
    for name, schema, texts in ACCEPTED:
        judge = validator(schema)
        for text in texts:
            judge.validate(json.loads(text))
        accepted.append({'name': name, 'schema': schema, 'accepted': texts,
                         'refused': refused_documents(schema, texts, rng)})
    cases = {'schemas': accepted,
             'refused': [{'schema': schema, 'where': where} for schema, where in REFUSED],
             'strict': [{'schema': schema, 'where': where} for schema, where in STRICT]}
    (data / 'cases.json').write_text(json.dumps(cases, ensure_ascii=False, indent=1) + '\n', 'utf-8')
    print(sum(len(case['refused']) for case in accepted), 'refused documents')


def check(data):
    schemas = {name: schema for name, schema, _ in ACCEPTED}
    generated = json.loads((data / 'generated.json').read_text('utf-8'))
    count = 0
    for name, texts in generated.items():
        judge = validator(schemas[name])
        for text in texts:
            judge.validate(json.loads(text))
            count += 1
    missing = set(schemas) - set(generated)
    assert not missing, missing
    print(count, 'generated texts are valid under', len(generated), 'schemas')


if __name__ == '__main__':
    {'write': write, 'check': check}[sys.argv[1]](Path(sys.argv[2]))
