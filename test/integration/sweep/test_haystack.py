"""The `haystack-ai` package, unchanged, with its OpenAIChatGenerator: a chat, its stream, a structured
answer, and an agent in a pipeline whose tool is called."""
CLIENT = 'haystack'
PROGRAM = '''
import os
os.environ['HAYSTACK_TELEMETRY_ENABLED'] = 'False'
from typing import Annotated
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from pydantic import BaseModel, Field

ASK = [ChatMessage.from_system('Be brief.'), ChatMessage.from_user('What is the weather in Paris?')]

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

def get_weather(city: Annotated[str, 'its name']) -> str:
    """The weather in a city."""
    return 'sunny in ' + city

TOOLS = [create_tool_from_function(get_weather)]
NAMED = {'type': 'function', 'function': {'name': 'get_weather'}}

def model(asked=None, **more):
    return OpenAIChatGenerator(Secret.from_token('none'), os.environ['MODEL'], max_retries=0, timeout=300,
                               api_base_url=os.environ['BASE_URL'],
                               generation_kwargs={'temperature': 0, 'max_tokens': 24, **(asked or {})},
                               **more)

def case_whole():
    reply = model().run(ASK)['replies'][0]
    return {'text': reply.text, 'tokens': reply.meta['usage']['completion_tokens']}

def case_streamed():
    pieces = []
    reply = model(streaming_callback=pieces.append).run(ASK)['replies'][0]
    return {'text': reply.text, 'pieces': len(pieces)}

def case_structured():
    return City.model_validate_json(
        model({'response_format': City, 'max_tokens': 80}).run(ASK)['replies'][0].text).model_dump()

def case_agent():
    asked = {'tool_choice': NAMED, 'max_tokens': 80, 'parallel_tool_calls': False}
    agent = Agent(chat_generator=model(asked), tools=TOOLS, exit_conditions=['get_weather'],
                  max_agent_steps=2)
    made = Pipeline()
    made.add_component('agent', agent)
    messages = made.run({'agent': {'messages': ASK}})['agent']['messages']
    after = model(tools=TOOLS).run(messages)['replies'][0]
    return {'calls': [c.tool_name for m in messages for c in m.tool_calls],
            'results': [r.result for m in messages for r in m.tool_call_results],
            'after': bool(after.text or after.tool_calls)}
'''


def test_a_chat_and_its_stream(told):
    assert told['whole']['text'] == told['streamed']['text'] and 0 < told['whole']['tokens'] <= 24
    assert told['streamed']['pieces'] > 1


def test_a_structured_answer(told):
    assert set(told['structured']) == {'name', 'population'}


def test_an_agent_in_a_pipeline(told):
    assert told['agent']['calls'] == ['get_weather'] and told['agent']['after']
    assert told['agent']['results'][0].startswith('sunny in ')
