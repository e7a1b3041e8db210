"""The `autogen` packages, unchanged, with OpenAIChatCompletionClient: a chat, its stream, a structured
answer and an agent whose tool is called."""
CLIENT = 'autogen'
PROGRAM = '''
import asyncio, os
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.models import CreateResult, SystemMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel, Field

ASK = [SystemMessage(content='Be brief.'),
       UserMessage(content='What is the weather in Paris?', source='user')]

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

def get_weather(city: str) -> str:
    """The weather in a city."""
    return 'sunny in ' + city

def model(**more):
    return OpenAIChatCompletionClient(
        model=os.environ['MODEL'], base_url=os.environ['BASE_URL'], api_key='none', temperature=0,
        max_retries=0,
        model_info={'vision': False, 'function_calling': True, 'json_output': True, 'structured_output': True,
                    'family': 'unknown'}, **{'max_tokens': 24, **more})

def case_whole():
    answer = asyncio.run(model().create(ASK))
    return {'text': answer.content, 'tokens': answer.usage.completion_tokens}

def case_streamed():
    async def stream():
        return [piece async for piece in model().create_stream(ASK)]
    pieces = asyncio.run(stream())
    assert isinstance(pieces[-1], CreateResult)
    return {'text': pieces[-1].content, 'pieces': len(pieces) - 1}

def case_structured():
    answer = asyncio.run(model(max_tokens=80).create(ASK, json_output=City))
    return City.model_validate_json(answer.content).model_dump()

def case_call():
    tool = FunctionTool(get_weather, description='The weather in a city.')
    answer = asyncio.run(model(max_tokens=80, parallel_tool_calls=False).create(
        ASK, tools=[tool], tool_choice=tool))
    return [[call.name, call.arguments] for call in answer.content]

def case_agent():
    async def run():
        agent = AssistantAgent('helper', model(max_tokens=60, parallel_tool_calls=False), tools=[get_weather],
                               system_message='Be brief.')
        result = await agent.run(task='What is the weather in Paris?')
        return [type(m).__name__ for m in result.messages]
    return asyncio.run(run())
'''


def test_a_chat_and_its_stream(told):
    assert told['whole']['text'] == told['streamed']['text'] and 0 < told['whole']['tokens'] <= 24
    assert told['streamed']['pieces'] > 1


def test_a_structured_answer(told):
    assert set(told['structured']) == {'name', 'population'}


def test_a_demanded_call(told):
    assert told['call'][0][0] == 'get_weather' and 'city' in told['call'][0][1]


def test_an_agent(told):
    assert told['agent'][0] == 'TextMessage' and len(told['agent']) > 1
