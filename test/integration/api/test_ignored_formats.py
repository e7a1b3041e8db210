"""X-Schema-Ignored: formats and keywords that constrain nothing are named in the head of the answer, in every
API that takes a schema."""
import pytest

from completion_worker import chat, start

SCHEMA = {'type': 'object', 'additionalProperties': False, 'required': ['a'],
          'properties': {'a': {'type': 'string', 'format': 'uri'}, 'b': {'type': 'string', 'format': 'date'},
                         'c': {'type': 'string', 'format': 'x\r\nSet-Cookie: y=1'}}}
NAMED = 'format=uri, format=x??Set-Cookie??y=1'


@pytest.fixture(scope='module')
def worker(tiny_model, tmp_path_factory):
    with start(tiny_model, tmp_path_factory.mktemp('ignored')) as running:
        yield running


def form(schema) -> dict:
    return {'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': schema}}


@pytest.mark.parametrize('stream', [False, True])
def test_chats(worker, stream):
    for _ in range(2):  # compiled, then from the cache
        answer = chat(worker, stream=stream, ignore_eos=False, response_format=form(SCHEMA))
        assert answer.status == 200, answer.body
        assert answer.headers['x-schema-ignored'] == NAMED
        assert 'set-cookie' not in answer.headers


def test_responses(worker):
    answer = worker.call('POST', '/v1/responses', {
        'input': 'Once', 'max_output_tokens': 8, 'temperature': 0,
        'text': {'format': {'type': 'json_schema', 'name': 'x', 'schema': SCHEMA}}})
    assert answer.status == 200, answer.body
    assert answer.headers['x-schema-ignored'] == NAMED


def test_a_tool_with_unknown_keywords(worker):
    answer = chat(worker, ignore_eos=False, max_tokens=60, tool_choice='required', tools=[{
        'type': 'function', 'function': {'name': 'f', 'parameters': {
            'type': 'object', 'strict': True, 'required': ['a'], 'propertyOrdering': ['a'],
            'properties': {'a': {'type': 'integer', 'example': 5}}}}}])
    assert answer.status == 200, answer.body
    assert answer.headers['x-schema-ignored'] == 'keyword=strict, keyword=propertyOrdering, keyword=example'


def test_what_is_enforced_is_not_named(worker):
    for asked in ({}, {'response_format': {'type': 'json_object'}},
                  {'response_format': form({'type': 'string', 'format': 'date'})}):
        answer = chat(worker, ignore_eos=False, **asked)
        assert answer.status == 200, answer.body
        assert 'x-schema-ignored' not in answer.headers
