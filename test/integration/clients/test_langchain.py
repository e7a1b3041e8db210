"""The `langchain-openai` package, unchanged: a chat, its stream, a bound tool and structured output."""
import pytest

from client_program import needs, run

pytestmark = needs('langchain_openai')
PROGRAM = '''
import os
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

ASK = [SystemMessage('Be brief.'), HumanMessage('What is the weather in Paris?')]

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return 'sunny in ' + city

def model(**more):
    return ChatOpenAI(model=os.environ['MODEL'], base_url=os.environ['BASE_URL'], api_key='none',
                      temperature=0, max_retries=0, **{'max_tokens': 24, **more})

def case_whole():
    answer = model().invoke(ASK)
    return {'text': answer.content, 'usage': answer.usage_metadata, 'about': answer.response_metadata}

def case_streamed():
    chunks = list(model(stream_usage=True).stream(ASK))
    return {'text': ''.join(c.content for c in chunks), 'pieces': len(chunks),
            'usage': [c.usage_metadata for c in chunks if c.usage_metadata]}

def call(choice, stream=False):
    bound = model(max_tokens=80).bind_tools([get_weather], tool_choice=choice, parallel_tool_calls=False)
    if not stream:
        return bound, bound.invoke(ASK)
    whole = None
    for chunk in bound.stream(ASK):
        whole = chunk if whole is None else whole + chunk
    return bound, whole

def case_required():
    return call('required')[1].tool_calls

def case_named():
    return call('get_weather')[1].tool_calls

def case_streamed_call():
    return call('required', stream=True)[1].tool_calls

def case_second_turn():
    _, asked = call('required')
    (wanted,) = asked.tool_calls
    result = ToolMessage(get_weather.invoke(wanted['args']), tool_call_id=wanted['id'])
    answer = model().bind_tools([get_weather]).invoke([*ASK, asked, result])
    return {'text': answer.content, 'calls': len(answer.tool_calls)}

def structured(method):
    return model(max_tokens=80).with_structured_output(City, method=method).invoke(ASK).model_dump()

def case_json_schema():
    return structured('json_schema')

def case_function_calling():
    return structured('function_calling')

def case_batch():
    return [a.content for a in model(max_tokens=8).batch([ASK, ASK, ASK])]
'''


@pytest.fixture(scope='module')
def told(calling_demo, tmp_path_factory):
    return run(calling_demo, PROGRAM, tmp_path_factory.mktemp('langchain'))


def test_a_chat_and_its_stream(told):
    whole, streamed = told['whole'], told['streamed']
    assert whole['text'] and streamed['text'] == whole['text'] and streamed['pieces'] > 2
    assert 0 < whole['usage']['output_tokens'] <= 24
    assert whole['about']['finish_reason'] in ('stop', 'length')
    assert [u['output_tokens'] for u in streamed['usage']] == [whole['usage']['output_tokens']]


@pytest.mark.parametrize('case', ['required', 'named', 'streamed_call'])
def test_a_tool_is_called(told, case):
    (call,) = told[case]
    assert call['name'] == 'get_weather' and set(call['args']) == {'city'} and call['id']


def test_the_result_of_a_call_is_answered(told):
    answer = told['second_turn']
    assert answer['text'] or answer['calls']


@pytest.mark.parametrize('method', ['json_schema', 'function_calling'])
def test_structured_output(told, method):
    city = told[method]
    assert len(city['name']) <= 12 and 0 <= city['population'] <= 99


def test_a_batch_gives_the_same_answer_to_the_same_question(told):
    assert len(told['batch']) == 3 and len(set(told['batch'])) == 1 and told['batch'][0]
