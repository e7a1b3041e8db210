"""The `agno` package, unchanged, with its OpenAILike: an agent's answer, its stream, a structured one and a
tool."""
CLIENT = 'agno'
PROGRAM = '''
import os
os.environ['AGNO_TELEMETRY'] = 'false'
from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from pydantic import BaseModel, Field

ASK = 'What is the weather in Paris?'

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

asked_for = []

def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: its name
    """
    asked_for.append(city)
    return 'sunny in ' + city

def agent(asked=None, **more):
    model = OpenAILike(id=os.environ['MODEL'], base_url=os.environ['BASE_URL'], api_key='none', temperature=0,
                       max_retries=0, **{'max_tokens': 24, **(asked or {})})
    return Agent(model=model, instructions='Be brief.', telemetry=False, **more)

def case_whole():
    return agent().run(ASK).content

def case_streamed():
    pieces = [e.content for e in agent().run(ASK, stream=True) if e.event == 'RunContent' and e.content]
    return {'pieces': len(pieces), 'text': ''.join(pieces)}

def case_structured():
    return agent({'max_tokens': 80}, output_schema=City).run(ASK).content.model_dump()

def case_call():
    named = {'type': 'function', 'function': {'name': 'get_weather'}}
    run = agent({'max_tokens': 60}, tools=[get_weather], tool_choice=named, tool_call_limit=1).run(ASK)
    return {'calls': [t.tool_name for t in run.tools or []], 'asked': len(asked_for)}
'''


def test_an_answer_and_its_stream(told):
    assert told['whole'] and told['streamed']['text'] == told['whole'] and told['streamed']['pieces'] > 1


def test_a_structured_answer(told):
    assert set(told['structured']) == {'name', 'population'}


def test_a_tool(told):
    assert told['call']['calls'][0] == 'get_weather' and told['call']['asked'] >= 1
