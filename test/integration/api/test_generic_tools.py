"""A model file without a chat template: ChatML stands in for it, and tools, of which it knows nothing, are
told and called in the generic form, through every API."""
import json
from typing import Iterator, List, Tuple

import pytest

from http_client import Response
from worker_process import Worker

ASK = [{'role': 'user', 'content': 'Once upon a time'}]
SCHEMA = {'type': 'object', 'required': ['city', 'days'], 'additionalProperties': False,
          'properties': {'city': {'enum': ['Oslo', 'Rome "old"']}, 'days': {'enum': [1, 12]}}}
NAMED = {'name': 'get_weather', 'description': 'The weather.'}
TOOL = {'type': 'function', 'function': {**NAMED, 'parameters': SCHEMA}}
GREEDY = {'temperature': 0, 'seed': 7}
Calls = List[Tuple[str, str]]


@pytest.fixture(scope='module')
def plain_model(tiny_model, tmp_path_factory):
    """The template's key has another name of the same length."""
    path = tmp_path_factory.mktemp('plain') / 'plain.gguf'
    data = tiny_model.read_bytes()
    assert b'tokenizer.chat_template' in data
    path.write_bytes(data.replace(b'tokenizer.chat_template', b'tokenizer.none_template'))
    return path


@pytest.fixture(scope='module')
def serving(plain_model) -> Iterator[Worker]:
    with Worker('--model', plain_model) as running:
        running.wait_event('ready')
        yield running


def test_chatml_stands_in_and_the_log_says_so(worker):
    told = worker.wait_event('chat_template_missing')
    assert told['level'].lower().startswith('warn') and 'ChatML' in told['message']
    assert '<|im_start|>' in worker.get('/props').json()['chat_template']
    prompt = worker.call('POST', '/apply-template', {'messages': ASK}).json()['prompt']
    assert prompt == '<|im_start|>user\nOnce upon a time<|im_end|>\n<|im_start|>assistant\n'
    answer = worker.call('POST', '/v1/chat/completions', {'messages': ASK, **GREEDY, 'max_tokens': 4})
    assert answer.status == 200 and answer.json()['choices'][0]['message']['content']
    assert 'x-tool-format' not in answer.headers


def test_an_operator_can_refuse_such_chats(plain_model):
    with Worker('--model', plain_model, '--no-default-template') as worker:
        worker.wait_event('ready')
        refused = worker.call('POST', '/v1/chat/completions', {'messages': ASK})
        assert refused.status == 400 and refused.error['param'] == 'messages'
        assert not worker.events('chat_template_missing')


def test_a_model_that_embeds_needs_none(plain_model):
    with Worker('--model', plain_model, '--pooling', 'mean') as worker:
        worker.wait_event('ready')
        assert not worker.events('chat_template_missing')
        refused = worker.call('POST', '/v1/embeddings', {'messages': ASK})
        assert refused.status == 400


def events(body: bytes) -> List[dict]:
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith('data: {')]


class Chat:
    path = '/v1/chat/completions'

    @staticmethod
    def body(**more) -> dict:
        return {'messages': ASK, 'tools': [TOOL], 'tool_choice': 'required', 'parallel_tool_calls': False,
                **GREEDY, **more}

    @staticmethod
    def whole(answer: dict) -> Calls:
        message = answer['choices'][0]['message']
        assert message['content'] is None and answer['choices'][0]['finish_reason'] == 'tool_calls'
        return [(c['function']['name'], c['function']['arguments']) for c in message['tool_calls']]

    @staticmethod
    def streamed(body: bytes) -> Calls:
        calls = {}
        for chunk in events(body):
            for part in [p for c in chunk['choices'] for p in c['delta'].get('tool_calls', [])]:
                name, arguments = calls.get(part['index'], ('', ''))
                function = part['function']
                calls[part['index']] = (name + function.get('name', ''), arguments + function['arguments'])
        return list(calls.values())


class Messages:
    path = '/v1/messages'

    @staticmethod
    def body(**more) -> dict:
        return {'messages': ASK, 'max_tokens': 600, 'tools': [{**NAMED, 'input_schema': SCHEMA}],
                'tool_choice': {'type': 'any', 'disable_parallel_tool_use': True}, **GREEDY, **more}

    @staticmethod
    def whole(answer: dict) -> Calls:
        assert answer['stop_reason'] == 'tool_use'
        assert {block['type'] for block in answer['content']} == {'tool_use'}
        return [(block['name'], json.dumps(block['input'])) for block in answer['content']]

    @staticmethod
    def streamed(body: bytes) -> Calls:
        told = events(body)
        out = []
        for begun in [e for e in told if e['type'] == 'content_block_start']:
            parts = [e['delta']['partial_json'] for e in told
                     if e['type'] == 'content_block_delta' and e['index'] == begun['index']]
            out.append((begun['content_block']['name'], ''.join(parts)))
        return out


class Responses:
    path = '/v1/responses'

    @staticmethod
    def body(**more) -> dict:
        return {'input': 'Once upon a time', 'tools': [{'type': 'function', **NAMED, 'parameters': SCHEMA,
                                                        'strict': True}],
                'tool_choice': 'required', 'parallel_tool_calls': False, **GREEDY, **more}

    @staticmethod
    def whole(answer: dict) -> Calls:
        assert {item['type'] for item in answer['output']} == {'function_call'}
        return [(item['name'], item['arguments']) for item in answer['output']]

    @classmethod
    def streamed(cls, body: bytes) -> Calls:
        return cls.whole(events(body)[-1]['response'])


class Ollama:
    path = '/api/chat'

    @staticmethod
    def body(stream: bool = False, **more) -> dict:
        return {'model': 'plain', 'messages': ASK, 'tools': [TOOL], 'tool_choice': 'required',
                'parallel_tool_calls': False, 'options': GREEDY, 'stream': stream, **more}

    @staticmethod
    def whole(answer: dict) -> Calls:
        message = answer['message']
        assert message['content'] == ''
        functions = [call['function'] for call in message['tool_calls']]
        return [(f['name'], json.dumps(f['arguments'])) for f in functions]

    @staticmethod
    def streamed(body: bytes) -> Calls:
        calls = [c for line in body.splitlines() for c in json.loads(line)['message'].get('tool_calls', [])]
        return [(c['function']['name'], json.dumps(c['function']['arguments'])) for c in calls]


def asked(worker: Worker, path: str, body: dict) -> Response:
    answer = worker.call('POST', path, body)
    assert answer.status == 200, answer.body
    assert answer.headers['x-tool-format'] == 'generic'
    return answer


@pytest.mark.parametrize('api', [Chat, Messages, Responses, Ollama], ids=lambda api: api.path)
def test_a_demanded_call_whole_and_streamed(worker, api):
    calls = api.whole(asked(worker, api.path, api.body()).json())
    assert calls and {name for name, _ in calls} == {'get_weather'}
    for _, arguments in calls:
        values = json.loads(arguments)
        assert values['city'] in ('Oslo', 'Rome "old"') and values['days'] in (1, 12), arguments
    streamed = api.streamed(asked(worker, api.path, api.body(stream=True)).body)
    assert [(n, json.loads(a)) for n, a in streamed] == [(n, json.loads(a)) for n, a in calls]


def test_a_named_function_is_called_once(worker):
    named = {'type': 'function', 'function': {'name': 'get_weather'}}
    (call,) = Chat.whole(asked(worker, Chat.path, Chat.body(tool_choice=named)).json())
    assert call[0] == 'get_weather'


def test_nothing_of_the_form_is_content_wherever_it_is_cut(worker):
    whole = Chat.whole(asked(worker, Chat.path, Chat.body()).json())[0][1]
    seen = set()
    for size in (*range(1, 40), *range(40, 600, 11)):
        body = Chat.body(max_tokens=size)
        choice = asked(worker, Chat.path, body).json()['choices'][0]
        message = choice['message']
        assert not message['content']
        begun = [c['function']['arguments'] for c in message.get('tool_calls') or []]
        streamed = Chat.streamed(asked(worker, Chat.path, {**body, 'stream': True}).body)
        assert [arguments for _, arguments in streamed] == begun
        assert all(whole.startswith(text) for text in begun)
        done = choice['finish_reason'] == 'tool_calls'
        # What is still to come behind whole arguments is no part of them.
        assert choice['finish_reason'] == ('tool_calls' if done else 'length')
        assert not done or begun == [whole]
        seen.add('done' if done else 'begun' if begun else 'none')
        if done:
            break
    assert seen == {'none', 'begun', 'done'}


def test_an_answer_that_is_no_call_is_its_text(worker):
    """What a model of noise answers: the beginning of a text, or calls."""
    texts = 0
    for seed in range(6):
        body = {**Chat.body(tool_choice='auto', max_tokens=24), 'temperature': 1, 'seed': seed}
        choice = asked(worker, Chat.path, body).json()['choices'][0]
        content = choice['message']['content'] or ''
        assert 'response"' not in content[:12] and 'tool_call' not in content[:12], content
        texts += 1 if content else 0
        pieces = [c['delta'].get('content') or '' for chunk in
                  events(asked(worker, Chat.path, {**body, 'stream': True}).body) for c in chunk['choices']]
        assert ''.join(pieces) == content
    assert texts


def test_what_was_answered_is_sent_back(worker):
    answer = asked(worker, Chat.path, Chat.body()).json()['choices'][0]['message']
    history = [*ASK, answer, *({'role': 'tool', 'tool_call_id': c['id'], 'content': 'sun'}
                               for c in answer['tool_calls'])]
    prompt = worker.call('POST', '/apply-template', {'messages': history, 'tools': [TOOL]}).json()['prompt']
    arguments = answer['tool_calls'][0]['function']['arguments']
    assert f'{{"tool_calls": [{{"name": "get_weather", "arguments": {arguments}}}' in prompt
    assert '{"tool_response": {"tool": "get_weather", "content": "sun"}}' in prompt
    without = worker.call('POST', '/v1/chat/completions', {**Chat.body(tool_choice='none', max_tokens=4),
                                                           'messages': history})
    assert without.status == 200 and 'x-tool-format' not in without.headers


def test_ollama_lists_tools(worker):
    shown = worker.call('POST', '/api/show', {'model': 'plain'}).json()
    assert 'tools' in shown['capabilities'] and '<|im_start|>' in shown['template']
