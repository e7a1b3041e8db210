"""Conversations that a published template refuses, and what other servers make of them; templates for tools
alone; grammars for models without a template."""
from contextlib import ExitStack

import pytest

from completion_worker import TEMPLATES
from gguf_edit import with_strings
from worker_process import Worker

SYSTEM = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Weather?'}]
TOOL = {'type': 'function', 'function': {'name': 'look', 'description': 'Looks.', 'parameters': {
    'type': 'object', 'properties': {'at': {'type': 'string'}}, 'required': ['at']}}}
CALLED = {'role': 'assistant', 'content': 'I look.', 'reasoning_content': 'hm', 'tool_calls': [
    {'id': 'c1', 'type': 'function', 'function': {'name': 'look', 'arguments': '{"at": "n",  "n": 1.50}'}}]}
RESULT = {'role': 'tool', 'tool_call_id': 'c1', 'content': 'sun'}
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def rendered(worker: Worker, messages, status: int = 200, **more) -> str:
    answer = worker.call('POST', '/apply-template', {'messages': messages, **more})
    assert answer.status == status, answer.body
    return answer.json()['prompt'] if status == 200 else answer.error['message']


@pytest.fixture
def with_template(tiny_model, tmp_path):
    path = tmp_path / 'template.jinja'
    with ExitStack() as workers:
        def start(text: str) -> Worker:
            path.write_text(text)
            worker = workers.enter_context(Worker('--model', tiny_model, '--chat-template', str(path)))
            worker.wait_event('ready')
            return worker
        yield start


def test_a_system_message_where_there_is_no_such_role(with_template):
    worker = with_template((TEMPLATES / 'google-gemma-2-2b-it.jinja').read_text())
    assert 'Be brief.\nWeather?' in rendered(worker, SYSTEM)
    # What the template refuses of its own stays refused, in its own words.
    answer = {'role': 'assistant', 'content': 'Sun.'}
    assert 'alternate' in rendered(worker, [answer, SYSTEM[1]], status=400)


def test_a_message_after_one_that_was_never_answered(with_template):
    worker = with_template((TEMPLATES / 'google-gemma-2-2b-it.jinja').read_text())
    assert 'Weather?\n\nWeather?<end_of_turn>' in rendered(worker, [SYSTEM[1], SYSTEM[1]])


def test_tools_that_are_looped_over_without_asking(with_template):
    worker = with_template('{% for t in tools %}{{ t.function.name }} {% endfor %}' + PLAIN)
    assert rendered(worker, SYSTEM).startswith('system: ')
    assert rendered(worker, SYSTEM, tools=[TOOL]).startswith('look ')


def test_an_answer_of_gpt_oss_with_all_its_parts_is_sent_back(with_template):
    worker = with_template((TEMPLATES / 'openai-gpt-oss-120b.jinja').read_text())
    prompt = rendered(worker, [SYSTEM[1], CALLED, RESULT], tools=[TOOL])
    assert '<|message|>hm\n\nI look.<|end|>' in prompt and 'to=functions.look' in prompt


def test_arguments_stay_as_they_were_sent(with_template):
    worker = with_template("{% for m in messages %}{% for c in m.tool_calls or [] %}"
                           "{{ '>' + c.function.arguments + '<' }}{% endfor %}{% endfor %}")
    assert '>{"at": "n",  "n": 1.50}<' in rendered(worker, [SYSTEM[1], CALLED, RESULT], tools=None)
    other = with_template("{% for m in messages %}{{ (m.tool_calls or []) | tojson }}{% endfor %}")
    assert 'orcd' not in rendered(other, [SYSTEM[1], CALLED, RESULT])


def test_a_template_for_tools_alone(tiny_model, tmp_path):
    model = tmp_path / 'named.gguf'
    model.write_bytes(with_strings(tiny_model.read_bytes(), {
        b'tokenizer.chat_template.tool_use': b'TOOLS {{ tools | tojson }}\n' + PLAIN.encode()}))
    with Worker('--model', model) as worker:
        worker.wait_event('ready')
        assert 'TOOLS' not in rendered(worker, SYSTEM)
        assert rendered(worker, SYSTEM, tools=[TOOL]).startswith('TOOLS [')


def test_a_model_without_a_template_takes_grammars(tiny):
    schema = {'enum': ['one', 'two']}
    asked = {'prompt': 'x', 'max_tokens': 20, 'temperature': 0}
    for more in ({'guided_json': schema}, {'response_format': {'type': 'json_schema', 'json_schema': {
            'name': 'x', 'schema': schema}}}):
        answer = tiny.call('POST', '/v1/completions', {**asked, **more})
        assert answer.status == 200, answer.body
        assert answer.json()['choices'][0]['text'] in ('"one"', '"two"')
    answer = tiny.call('POST', '/v1/completions', {**asked, 'guided_regex': '(yes|no)'})
    assert answer.json()['choices'][0]['text'] in ('yes', 'no')


def test_references_have_percent_escapes(tiny):
    schema = {'$ref': '#/$defs/Page%3CUser%3E', '$defs': {'Page<User>': {'type': 'boolean'}}}
    answer = tiny.call('POST', '/v1/completions', {'prompt': 'x', 'max_tokens': 20, 'guided_json': schema})
    assert answer.status == 200 and answer.json()['choices'][0]['text'] in ('true', 'false')
    schema['$ref'] = '#/$defs/Page%3'
    answer = tiny.call('POST', '/v1/completions', {'prompt': 'x', 'max_tokens': 20, 'guided_json': schema})
    assert answer.status == 400 and 'no escape' in answer.error['message']
