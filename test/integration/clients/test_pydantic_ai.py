"""The `pydantic-ai` package, unchanged, with its chat model of OpenAI: text, tools, structured output through
a tool and natively, and the streams of all."""
import pytest

from client_program import needs, run

pytestmark = needs('pydantic_ai')
PROGRAM = '''
import asyncio, os
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

class River(BaseModel):
    """A river."""
    length: int = Field(ge=0, le=99)

SERVER = OpenAIProvider(base_url=os.environ['BASE_URL'], api_key='none')
ASK = 'What is the weather in Paris?'

def agent(output=str, **more):
    model = OpenAIChatModel(more.pop('name', os.environ['MODEL']), provider=SERVER)
    settings = {'temperature': 0, 'seed': 1, 'max_tokens': 60, **more.pop('settings', {})}
    return Agent(model, output_type=output, instructions='Be brief.', model_settings=settings, retries=0,
                 **more)

def case_text():
    answer = agent(settings={'max_tokens': 24}).run_sync(ASK)
    return {'text': answer.output, 'tokens': [answer.usage.input_tokens, answer.usage.output_tokens]}

def case_text_streamed():
    async def go():
        async with agent(settings={'max_tokens': 24}).run_stream(ASK) as answer:
            pieces = [text async for text in answer.stream_text(delta=True, debounce_by=None)]
            return {'text': ''.join(pieces), 'pieces': len(pieces),
                    'tokens': [answer.usage.input_tokens, answer.usage.output_tokens]}
    return asyncio.run(go())

def case_tool_output():
    return agent(ToolOutput(City)).run_sync(ASK).output.model_dump()

def case_strict_tool_output():
    return agent(ToolOutput(City, strict=True)).run_sync(ASK).output.model_dump()

def case_one_of_two_tools():
    output = agent([ToolOutput(City, name='city'), ToolOutput(River, name='river')]).run_sync(ASK).output
    return {'kind': type(output).__name__}

def case_native_output():
    return agent(NativeOutput(City)).run_sync(ASK).output.model_dump()

def case_native_one_of_two():
    return {'kind': type(agent(NativeOutput([City, River])).run_sync(ASK).output).__name__}

def streamed(output):
    async def go():
        async with agent(output).run_stream(ASK) as answer:
            steps = [step async for step in answer.stream_output(debounce_by=None)]
            return {'steps': len(steps), 'last': steps[-1].model_dump()}
    return asyncio.run(go())

def case_tool_output_streamed():
    return streamed(ToolOutput(City))

def case_native_output_streamed():
    return streamed(NativeOutput(City))

def case_tools():
    asked = []
    # The output's tool and the function are both offered, and one of them is demanded.
    caller = agent(ToolOutput(River), settings={'parallel_tool_calls': False})

    @caller.tool_plain
    def get_weather(degrees_wanted: bool) -> str:
        """The weather in Paris."""
        asked.append(degrees_wanted)
        return 'sunny'

    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.exceptions import UsageLimitExceeded
    try:
        answer = caller.run_sync(ASK, usage_limits=UsageLimits(request_limit=3))
        return {'asked': asked, 'output': answer.output.model_dump()}
    except UsageLimitExceeded:
        return {'asked': asked, 'output': None}

def case_second_turn():
    first = agent(ToolOutput(City)).run_sync(ASK)
    second = agent(settings={'max_tokens': 24}).run_sync('And then?', message_history=first.all_messages())
    return {'text': second.output, 'messages': len(second.all_messages())}

def case_unknown_model():
    try:
        agent(name='no-such-model').run_sync(ASK)
    except ModelHTTPError as failure:
        return failure.status_code
'''


@pytest.fixture(scope='module')
def told(calling_demo, tmp_path_factory):
    return run(calling_demo, PROGRAM, tmp_path_factory.mktemp('pydantic_ai'))


def check(city: dict) -> None:
    assert len(city['name']) <= 12 and 0 <= city['population'] <= 99


def test_text_and_its_stream(told):
    whole, streamed = told['text'], told['text_streamed']
    assert whole['text'] and streamed['text'] == whole['text'] and streamed['pieces'] > 2
    assert streamed['tokens'] == whole['tokens'] and 0 < whole['tokens'][1] <= 24


@pytest.mark.parametrize('case', ['tool_output', 'strict_tool_output', 'native_output'])
def test_a_schema_is_filled_in(told, case):
    check(told[case])


@pytest.mark.parametrize('case', ['one_of_two_tools', 'native_one_of_two'])
def test_one_of_two_schemas_is_filled_in(told, case):
    assert told[case]['kind'] in ('City', 'River')


@pytest.mark.parametrize('case', ['tool_output_streamed', 'native_output_streamed'])
def test_a_schema_is_filled_in_piece_by_piece(told, case):
    assert told[case]['steps'] > 1
    check(told[case]['last'])


def test_a_function_or_the_output_is_called(told):
    answer = told['tools']
    assert answer['asked'] or answer['output']
    assert all(isinstance(asked, bool) for asked in answer['asked'])


def test_a_call_of_the_past_is_taken_and_a_refusal_told(told):
    assert told['second_turn']['text'] and told['second_turn']['messages'] > 3
    assert told['unknown_model'] == 404
