"""The `smolagents` package, unchanged, with its OpenAIServerModel: what a ToolCallingAgent and a CodeAgent
ask of a model, and a step of the former."""
import json
import re

import pytest

from client_program import needs, run

pytestmark = needs('smolagents')
PROGRAM = '''
import json, os
from smolagents import OpenAIServerModel, Tool, ToolCallingAgent
from smolagents.memory import ActionStep, SystemPromptStep, TaskStep
from smolagents.models import CODEAGENT_RESPONSE_FORMAT, ChatMessage, MessageRole, agglomerate_stream_deltas
from smolagents.monitoring import LogLevel, Timing

class Weather(Tool):
    name = 'get_weather'
    description = 'The weather in a city.'
    inputs = {'city': {'type': 'string', 'description': 'its name', 'enum': ['Paris', 'Rome']}}
    output_type = 'string'

    def forward(self, city: str) -> str:
        return 'sunny in ' + city

ASK = [ChatMessage(role=MessageRole.SYSTEM, content=[{'type': 'text', 'text': 'Be brief.'}]),
       ChatMessage(role=MessageRole.USER, content=[{'type': 'text', 'text': 'Is it sunny in Paris?'}])]

NAMED = {'type': 'function', 'function': {'name': 'get_weather'}}

def model(**more):
    return OpenAIServerModel(os.environ['MODEL'], api_base=os.environ['BASE_URL'], api_key='none',
                             temperature=0, seed=1, **{'max_tokens': 60, **more})

def told(message):
    calls = [{'name': c.function.name, 'arguments': c.function.arguments, 'id': c.id}
             for c in message.tool_calls or []]
    return {'text': message.content, 'calls': calls, 'tokens': message.token_usage.output_tokens}

def case_whole():
    return told(model().generate(ASK))

def case_streamed():
    return told(agglomerate_stream_deltas(list(model().generate_stream(ASK))))

def case_stop():
    return told(model(max_tokens=400).generate(ASK, stop_sequences=['Observation:', '.', '\\n']))

def case_call():
    return told(model(tool_choice=NAMED).generate(ASK, tools_to_call_from=[Weather()]))

def case_call_streamed():
    deltas = list(model().generate_stream(ASK, tools_to_call_from=[Weather()]))
    return told(agglomerate_stream_deltas(deltas))

def case_code_format():
    stops = ['Observation:', 'Calling tools:', '</code>']
    return told(model().generate(ASK, stop_sequences=stops, response_format=CODEAGENT_RESPONSE_FORMAT))

def step_of(stream):
    # A long system prompt takes a while and shows nothing else.
    asked = model(tool_choice=NAMED, parallel_tool_calls=False)
    agent = ToolCallingAgent(tools=[Weather()], model=asked, stream_outputs=stream,
                             verbosity_level=LogLevel.OFF)
    agent.memory.system_prompt = SystemPromptStep(system_prompt='Be brief.')
    agent.memory.steps.append(TaskStep(task='What is the weather in Paris?'))
    step = ActionStep(step_number=1, timing=Timing(start_time=0.0))
    agent.step(step)
    agent.memory.steps.append(step)
    # What the agent asks next, with the call and its result.
    after = told(model().generate(agent.write_memory_to_messages(), tools_to_call_from=[Weather()]))
    return {'calls': [call.name for call in step.tool_calls], 'observed': step.observations,
            'tokens': step.token_usage.output_tokens, 'after': after}

def case_step():
    return step_of(False)

def case_step_streamed():
    return step_of(True)
'''


@pytest.fixture(scope='module')
def told(calling_demo, tmp_path_factory):
    return run(calling_demo, PROGRAM, tmp_path_factory.mktemp('smolagents'))


def test_text_and_its_stream(told):
    assert told['whole']['text'] and told['streamed'] == told['whole']
    assert 0 < told['whole']['tokens'] <= 60
    assert '.' not in told['stop']['text'] and '\n' not in told['stop']['text']


@pytest.mark.parametrize('case', ['call', 'call_streamed'])
def test_a_call_is_demanded(told, case):
    (call,) = told[case]['calls'][:1]
    assert call['name'] == 'get_weather' and call['id']
    assert json.loads(call['arguments'])['city'] in ('Paris', 'Rome')


def test_the_form_of_a_code_agent(told):
    answer = told['code_format']
    assert re.match(r'\s*\{\s*"thought"\s*:\s*"', answer['text'])
    if answer['tokens'] < 60:
        assert set(json.loads(answer['text'])) == {'thought', 'code'}


@pytest.mark.parametrize('case', ['step', 'step_streamed'])
def test_a_step_of_an_agent_that_calls(told, case):
    step = told[case]
    assert step['calls'] == ['get_weather'] and step['tokens'] > 0 and 'sunny in ' in step['observed']
    assert step['after']['calls']
