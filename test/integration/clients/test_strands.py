"""The `strands-agents` package, unchanged: its LlamaCppModel, made for llama-server. It takes a chunk with
`usage` in it for the one with the usage and reads no more of it, hence --no-null-usage."""
import json
from typing import Iterator

import pytest

from client_program import needs, run
from worker_process import PROJECT, Worker

pytestmark = needs('strands')
QWEN = PROJECT / 'test' / 'data' / 'chat' / 'templates' / 'Qwen-Qwen2.5-7B-Instruct.jinja'
PROGRAM = '''
import asyncio, os
from pydantic import BaseModel, Field
from strands import Agent, tool
from strands.models.llamacpp import LlamaCppModel
from strands.types.exceptions import ContextWindowOverflowException

ASK = [{'role': 'user', 'content': [{'text': 'What is the weather in Paris?'}]}]
SPEC = {'name': 'get_weather', 'description': 'The weather in a city.', 'inputSchema': {'json': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}}}

def model(**params):
    return LlamaCppModel(base_url=os.environ['URL'], model_id=os.environ['MODEL'], timeout=300.0,
                         params={'temperature': 0, 'seed': 1, 'max_tokens': 24, **params},
                         use_native_token_count=True)

def stream(asked, messages=ASK, **more):
    async def gather():
        return [event async for event in asked.stream(messages, system_prompt='Be brief.', **more)]
    return asyncio.run(gather())

def text_of(events):
    deltas = [event['contentBlockDelta']['delta'] for event in events if 'contentBlockDelta' in event]
    return ''.join(delta.get('text', '') for delta in deltas)

def told(events):
    return {'text': text_of(events), 'pieces': sum('contentBlockDelta' in event for event in events),
            'stop': [e['messageStop']['stopReason'] for e in events if 'messageStop' in e],
            'usage': [e['metadata']['usage'] for e in events if 'metadata' in e]}

def case_streamed():
    return told(stream(model()))

def case_sampling():
    return told(stream(model(repeat_penalty=1.1, top_k=40, min_p=0.05, typical_p=1.0, mirostat=0, min_keep=0,
                             n_probs=0, slot_id=-1, cache_prompt=True, logit_bias={'5': -100})))

def case_grammar():
    return told(stream(model(grammar='root ::= "yes" | "no"')))

def case_json_schema():
    schema = {'type': 'object', 'properties': {'degrees': {'type': 'integer', 'minimum': 0, 'maximum': 40}},
              'required': ['degrees'], 'additionalProperties': False}
    return told(stream(model(json_schema=schema)))

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

def case_structured_output():
    async def fill():
        return [e async for e in model(max_tokens=80).structured_output(City, ASK, system_prompt='Fill in.')]
    return asyncio.run(fill())[-1]['output'].model_dump()

def case_tools_are_offered():
    return told(stream(model(), tool_specs=[SPEC]))

def case_second_turn():
    turns = [*ASK, {'role': 'assistant', 'content': [
        {'text': 'I look.'},
        {'toolUse': {'name': 'get_weather', 'toolUseId': 'c1', 'input': {'city': 'Paris'}}}]},
        {'role': 'user', 'content': [{'toolResult': {
            'toolUseId': 'c1', 'status': 'success',
            'content': [{'text': 'sunny'}, {'json': {'degrees': 21}}]}}]}]
    return told(stream(model(), turns, tool_specs=[SPEC]))

@tool
def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: its name
    """
    return 'sunny in ' + city

def case_agent():
    # An agent takes an answer that max_tokens ends for a failure.
    agent = Agent(model=model(max_tokens=400, stop=['.', '\\n']), tools=[get_weather],
                  system_prompt='Be brief.', callback_handler=None)
    answer = agent('What is the weather in Paris?')
    return {'text': str(answer), 'stop': answer.stop_reason, 'messages': len(agent.messages),
            'tokens': answer.metrics.accumulated_usage}

def case_count():
    return asyncio.run(model().count_tokens(ASK, [SPEC], 'Be brief.'))

def case_overflow():
    try:
        stream(model(), [{'role': 'user', 'content': [{'text': 'word ' * 6000}]}])
    except ContextWindowOverflowException:
        return 'told'
'''


@pytest.fixture(scope='module')
def told(demo_model, tmp_path_factory) -> Iterator:
    with Worker('--model', demo_model, '--slots', '2', '--context', '4096', '--no-null-usage',
                '--chat-template', QWEN) as worker:
        worker.wait_event('ready')
        yield run(worker, PROGRAM, tmp_path_factory.mktemp('strands'))


@pytest.mark.parametrize('case', ['streamed', 'sampling', 'tools_are_offered', 'second_turn'])
def test_a_turn_is_streamed(told, case):
    """Whether this small model calls a tool is its own choice: the client cannot demand it."""
    answer = told[case]
    assert answer['pieces'] > 2 and answer['stop'][0] in ('end_turn', 'max_tokens', 'tool_use')
    assert answer['text'] or answer['stop'] == ['tool_use']
    (usage,) = answer['usage']
    assert 0 < usage['outputTokens'] <= 24 and usage['totalTokens'] > usage['inputTokens'] > 10


def test_grammar_and_schema_are_held(told):
    assert told['grammar']['text'] in ('yes', 'no')
    assert 0 <= json.loads(told['json_schema']['text'])['degrees'] <= 40
    city = told['structured_output']
    assert len(city['name']) <= 12 and 0 <= city['population'] <= 99


def test_an_agent_answers(told):
    answer = told['agent']
    assert answer['messages'] >= 2 and answer['tokens']['outputTokens'] > 0
    assert answer['text'].strip()


def test_tokens_are_counted_and_a_prompt_that_is_too_long_is_told(told):
    assert told['count'] > 100, 'the tools count, too'
    assert told['overflow'] == 'told'
