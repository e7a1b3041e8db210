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
NO_TEXT = ('ByteDance-Seed-OSS', 'GLM-4.5', 'GLM-4.6', 'GLM-4.7-Flash', 'LFM2.5-8B-A1B', 'Qwen3-Coder',
           'Qwen3.5-4B', 'allenai-Olmo-3-7B-Instruct', 'allenai-Olmo-Hybrid-Think-SFT-7B')
# Those in which a call is a message of its own.
PARTED = ('zai-org-GLM-4-9B-0414',)
# Those that show one call of a message at most, and those that show reasoning only as a part of the content.
ONE_CALL = ('meta-llama-Llama-3.1-8B-Instruct', 'meta-llama-Llama-3.2-3B-Instruct', 'openai-gpt-oss-120b')
THINKING_PARTS = ('mistralai-Ministral-3-14B-Reasoning-2512',)
# Those that show text beside calls behind their results, and results as such only in the message of calls.
LATE_TEXT = ('google-gemma-4-31B-it', 'google-gemma-4-31B-it-interleaved')
RESULTS_WITHIN = ('google-gemma-4-31B-it-interleaved',)
TOOLS = [chat_scenarios.NOW]
CUT = '{"zone": "Zü'
CUT_OBJECT = {'zone': 'Zü'}  # what has come of it


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


def sent_texts(messages):
    """The arguments of each call as text, where the client sent an object's: they stay as they were."""
    for message in messages:
        old = message.get('function_call')
        for function in [call['function'] for call in message.get('tool_calls', [])] + ([old] if old else []):
            yield function['arguments'] if function.get('arguments') == SENT else None


def one_call_each(messages):
    """Each call in a message, with its results behind it."""
    out = []
    for message in messages:
        calls = message.get('tool_calls', [])
        for call in calls:
            own = {**message, 'tool_calls': [call]} if call is calls[0] else {
                'role': 'assistant', 'content': '', 'tool_calls': [call]}
            out += [own, *(m for m in messages if m.get('tool_call_id') == call['id'])]
        if not calls and message['role'] != 'tool':
            out.append(message)
    return out + [m for m in messages if m['role'] == 'tool' and m not in out]


def with_late_text(messages):
    """Text beside calls as a message behind their results."""
    out, said = [], None
    for message in messages:
        if said and message['role'] != 'tool':
            out.append(said)
            said = None
        out.append(message)
        if message.get('tool_calls') and message['content']:
            said = {'role': 'assistant', 'content': message['content']}
            message['content'] = ''
    return out + ([said] if said else [])


def with_results_within(messages):
    """Results of calls in the message of these."""
    out = []
    for message in messages:
        calling = out[-1] if out and out[-1].get('tool_calls') else None
        if message['role'] != 'tool' or calling is None:
            out.append(message)
            continue
        names = [call['function']['name'] for call in calling['tool_calls']
                 if call['id'] == message['tool_call_id']]
        calling.setdefault('tool_responses', []).append(
            {'name': (names or [message.get('name', 'unknown')])[0], 'response': message['content']})
    return out


def with_thoughts_in_parts(messages):
    for message in messages:
        if message.get('reasoning_content'):
            text = [{'type': 'text', 'text': message['content']}] if message['content'] else []
            message['content'] = [{'type': 'thinking', 'thinking': message['reasoning_content']}, *text]


def parted(messages, texts):
    """Each call as a message with the name in `metadata`, results as observations."""
    out = []
    for message in messages:
        calls = message.pop('tool_calls', None)
        if message['role'] == 'tool':
            message['role'] = 'observation'
        if calls is None or message['content']:
            out.append(message)
        for call in calls or []:
            text, arguments = next(texts, None), call['function']['arguments']
            if text is not None:
                arguments = text
            elif not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False)
            out.append({'role': 'assistant', 'metadata': call['function']['name'], 'content': arguments})
    return out


def taken(sent, messages, template):
    """What a client sent and means, in the form that a template takes."""
    out = copy.deepcopy(messages)
    if template in ONE_CALL:
        out = one_call_each(out)
    if template in LATE_TEXT:
        out = with_late_text(out)
    if template in RESULTS_WITHIN:
        out = with_results_within(out)
    if template in THINKING_PARTS:
        with_thoughts_in_parts(out)
    for message in out:
        if 'tool_call_id' in message and template in SHORT_IDS:
            message['tool_call_id'] = short(message['tool_call_id'])
        for call in message.get('tool_calls', []):
            if template in SHORT_IDS:
                call['id'] = short(call['id'])
            function = call['function']
            if function['arguments'] == CUT and template not in PARTED:
                function['arguments'] = CUT_OBJECT
            if template in NO_TEXT and not isinstance(function['arguments'], dict):
                function['arguments'] = {'arguments': function['arguments']}
    return parted(out, sent_texts(sent)) if template in PARTED else out


def rendered(template, kind, sent, means, name):
    out = chat_templates.rendered(
        template, {**chat_scenarios.DEFAULTS, 'messages': taken(sent, means, name), 'tools': TOOLS})
    # Where the object is written as JSON, it is in the spelling of what was sent.
    if kind == 'call, arguments cut' and 'text' in out:
        out['text'] = out['text'].replace(json.dumps(CUT_OBJECT, ensure_ascii=False), CUT)
    return out


def main():
    data = Path(sys.argv[1])
    expected = {}
    for path in sorted((data / 'templates').glob('*.jinja')):
        with path.open(encoding='utf-8', newline='') as file:
            template = file.read()
        expected[path.stem] = {kind: rendered(template, kind, sent, means, path.stem)
                               for kind, (sent, means) in KINDS.items()}
    chat_templates.write(data / 'requests.json', {
        'kinds': {kind: sent for kind, (sent, _) in KINDS.items()}, 'tools': TOOLS, 'expected': expected})


if __name__ == '__main__':
    main()
