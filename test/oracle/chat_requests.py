#!/usr/bin/env python3
"""What each chat template makes of conversations as clients send them, rendered with Jinja2 after they were
brought, here by hand, into the form that the template takes.

    chat_requests.py DATA      DATA is test/data/chat: reads templates/, writes requests.json
"""
import copy
import hashlib
import json
import sys
from pathlib import Path

import chat_scenarios
import chat_templates

# Templates that want ids of nine letters or digits, and those that take no text for arguments.
SHORT_IDS = ('Mistral-Small-3.2-24B-Instruct-2506', 'mistralai-Mistral-Nemo-Instruct-2407', 'vllm-mistral3')
NO_TEXT = ('ByteDance-Seed-OSS', 'GLM-4.5', 'GLM-4.6', 'GLM-4.7-Flash', 'Qwen3-Coder', 'own-olmo3')
# Those in which a call is a message of its own.
PARTED = ('own-glm4-0414',)
TOOLS = [chat_scenarios.NOW]
CUT = '{"zone": "Zü'


def called(arguments, ident='call_1', **content):
    """A tool loop as clients send it; `content` is the assistant's, or none at all."""
    function = {'name': 'now', **({} if arguments is None else {'arguments': arguments})}
    return [{'role': 'user', 'content': 'What time is it?'},
            {'role': 'assistant', **content,
             'tool_calls': [{'id': ident, 'type': 'function', 'function': function}]},
            {'role': 'tool', 'tool_call_id': ident, 'content': 'noon'}]


def normal(arguments, ident='call_1', content='', result='noon'):
    return called(arguments, ident, content=content)[:2] + [
        {'role': 'tool', 'tool_call_id': ident, 'content': result}]


def said(role, **more):
    return {'role': role, **more}


USER = said('user', content='Hi')
ZONE = {'zone': 'UTC'}
SENT = json.dumps(ZONE)
TEXT = [{'type': 'text', 'text': 'One.'}, {'type': 'text', 'text': 'Two.'}]
TWO = [USER, said('assistant', content='', tool_calls=[
    chat_scenarios.call('now', ZONE, 'toolu_01A'), chat_scenarios.call('now', {}, 'toolu_01B')]),
    said('tool', content='noon', tool_call_id='toolu_01A'),
    said('tool', content='', tool_call_id='toolu_01B')]

# Of each kind what is sent, and what that means.
KINDS = {
    'call, null content': (called(SENT, content=None), normal(ZONE)),
    'call, no content': (called(SENT), normal(ZONE)),
    'call, empty content': (called(SENT, content=''), normal(ZONE)),
    'call, empty parts': (called(SENT, content=[]), normal(ZONE)),
    'call, with text': (called(SENT, content='A moment.'), normal(ZONE, content='A moment.')),
    'call, nine characters': (called(SENT, 'abcdef123', content=None), normal(ZONE, 'abcdef123')),
    'call, arguments ""': (called('', content=None), normal({})),
    'call, no arguments': (called(None, content=None), normal({})),
    'call, arguments an object': (called(ZONE, content=None), normal(ZONE)),
    'call, arguments cut': (called(CUT, content=None), normal(CUT)),
    'call, arguments a list': (called('[1]', content=None), normal('[1]')),
    'two calls': ([{**m, 'content': m['content'] or None} for m in TWO], TWO),
    'result in parts': (called(SENT)[:2] + [said('tool', tool_call_id='call_1', content=TEXT)],
                        normal(ZONE, result='One.\nTwo.')),
    'result null': (called(SENT)[:2] + [said('tool', tool_call_id='call_1', content=None)],
                    normal(ZONE, result='')),
    'old function call': (
        [USER, said('assistant', content=None, function_call={'name': 'now', 'arguments': SENT}),
         said('function', name='now', content='noon')],
        [USER, said('assistant', content='', tool_calls=[chat_scenarios.call('now', ZONE, 'call_0')]),
         said('tool', content='noon', name='now', tool_call_id='call_0')]),
    'user null': ([said('user', content=None)], [said('user', content='')]),
    'user absent': ([said('user')], [said('user', content='')]),
    'user empty': ([said('user', content='')], [said('user', content='')]),
    'user in parts': ([said('user', content=TEXT)], [said('user', content='One.\nTwo.')]),
    'user of no parts': ([said('user', content=[])], [said('user', content='')]),
    'system null': ([said('system', content=None), USER], [said('system', content=''), USER]),
    'developer': ([said('developer', content='Be brief.'), USER],
                  [said('system', content='Be brief.'), USER]),
    'assistant null': ([USER, said('assistant', content=None), USER],
                       [USER, said('assistant', content=''), USER]),
    'assistant absent': ([USER, said('assistant'), USER], [USER, said('assistant', content=''), USER]),
    'reasoning': ([USER, said('assistant', content='4', reasoning_content='Two and two.'), USER],
                  [USER, said('assistant', content='4', reasoning_content='Two and two.',
                              thinking='Two and two.'), USER]),
    'two users': ([USER, USER], [USER, USER]),
    'late system': ([USER, said('system', content='Now in French.')],
                    [USER, said('system', content='Now in French.')]),
    'only system': ([said('system', content='S')], [said('system', content='S')]),
    'only assistant': ([said('assistant', content='A')], [said('assistant', content='A')]),
    'result without a call': ([USER, said('tool', content='noon', tool_call_id='call_9')],
                              [USER, said('tool', content='noon', tool_call_id='call_9')]),
}


def short(ident):
    fits = len(ident) == 9 and ident.isascii() and ident.isalnum()
    return ident if fits else hashlib.sha256(ident.encode()).hexdigest()[:9]


def parted(messages):
    """Each call as a message with the name in `metadata`, results as observations."""
    out = []
    for message in messages:
        calls = message.pop('tool_calls', None)
        if message['role'] == 'tool':
            message['role'] = 'observation'
        if calls is None or message['content']:
            out.append(message)
        for call in calls or []:
            arguments = call['function']['arguments']
            if not isinstance(arguments, str):
                arguments = json.dumps(arguments, separators=(',', ':'), ensure_ascii=False)
            out.append({'role': 'assistant', 'metadata': call['function']['name'], 'content': arguments})
    return out


def taken(messages, template):
    """The messages in the form that a template takes."""
    out = copy.deepcopy(messages)
    for message in out:
        if 'tool_call_id' in message and template in SHORT_IDS:
            message['tool_call_id'] = short(message['tool_call_id'])
        for call in message.get('tool_calls', []):
            if template in SHORT_IDS:
                call['id'] = short(call['id'])
            function = call['function']
            if template in NO_TEXT and not isinstance(function['arguments'], dict):
                function['arguments'] = {'arguments': function['arguments']}
    return parted(out) if template in PARTED else out


def main():
    data = Path(sys.argv[1])
    expected = {}
    for path in sorted((data / 'templates').glob('*.jinja')):
        with path.open(encoding='utf-8', newline='') as file:
            template = file.read()
        expected[path.stem] = {
            kind: chat_templates.rendered(
                template, {**chat_scenarios.DEFAULTS, 'messages': taken(means, path.stem), 'tools': TOOLS})
            for kind, (_, means) in KINDS.items()}
    chat_templates.write(data / 'requests.json', {
        'kinds': {kind: sent for kind, (sent, _) in KINDS.items()}, 'tools': TOOLS, 'expected': expected})


if __name__ == '__main__':
    main()
