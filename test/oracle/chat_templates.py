#!/usr/bin/env python3
"""Renders chat templates and single constructs with Jinja2, set up as transformers' apply_chat_template does.

    chat_templates.py DATA      DATA is test/data/chat: reads templates/ and constructs.json, writes
                                scenarios.json, expected.json and the results in constructs.json
"""
import copy
import datetime
import json
import sys
from pathlib import Path

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

import chat_scenarios

NOW = datetime.datetime(2025, 7, 15, 12, 0, 0)


class Raised(Exception):
    """A template called raise_exception."""


class Generation(Extension):
    """The generation tag: its body is rendered as it is."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return nodes.CallBlock(self.call_method('render'), [], [], body).set_lineno(line)

    @staticmethod
    def render(caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise Raised(message)


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters['tojson'] = tojson
    made.globals['raise_exception'] = raise_exception
    made.globals['strftime_now'] = NOW.strftime
    return made


def rendered(template, variables):
    """{'text'}, {'raised': message} or {'error': type}. Some filters change a list in place: on a copy."""
    try:
        return {'text': environment().from_string(template).render(**copy.deepcopy(variables))}
    except Raised as raised:
        return {'raised': str(raised)}
    except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError,
            RecursionError, SyntaxError) as failure:
        return {'error': type(failure).__name__}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + '\n', encoding='utf-8')


def main():
    data = Path(sys.argv[1])
    scenarios = {name: chat_scenarios.variables(name) for name in chat_scenarios.SCENARIOS}
    write(data / 'scenarios.json', scenarios)
    expected = {}
    for path in sorted((data / 'templates').glob('*.jinja')):
        with path.open(encoding='utf-8', newline='') as file:
            template = file.read()
        expected[path.stem] = {name: rendered(template, values) for name, values in scenarios.items()}
    write(data / 'expected.json', expected)
    cases = data / 'constructs.json'
    if cases.exists():
        constructs = json.loads(cases.read_text(encoding='utf-8'))
        for case in constructs['cases']:
            for key in ('text', 'raised', 'error'):
                case.pop(key, None)
            case.update(rendered(case['template'], constructs['variables']))
        lines = ',\n  '.join(json.dumps(case, ensure_ascii=False) for case in constructs['cases'])
        cases.write_text('{"variables": ' + json.dumps(constructs['variables'], ensure_ascii=False) +
                         ',\n "cases": [\n  ' + lines + '\n]}\n', encoding='utf-8')
    print(f'{len(expected)} templates, {len(scenarios)} scenarios, jinja2 {jinja2.__version__}')


if __name__ == '__main__':
    main()
