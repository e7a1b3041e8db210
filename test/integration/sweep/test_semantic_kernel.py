"""The `semantic-kernel` package, unchanged, with OpenAIChatCompletion: a chat, its stream, a structured
answer and a function of a plugin."""
CLIENT = 'semantic-kernel'
PROGRAM = '''
import asyncio, os
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory, FunctionCallContent
from semantic_kernel.functions import kernel_function

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

class Weather:
    @kernel_function(description='The weather in a city.')
    def get_weather(self, city: str) -> str:
        return 'sunny in ' + city

def history():
    out = ChatHistory(system_message='Be brief.')
    out.add_user_message('What is the weather in Paris?')
    return out

def service():
    client = AsyncOpenAI(base_url=os.environ['BASE_URL'], api_key='none', max_retries=0)
    return OpenAIChatCompletion(ai_model_id=os.environ['MODEL'], async_client=client)

def settings(**more):
    return OpenAIChatPromptExecutionSettings(temperature=0, **{'max_tokens': 24, **more})

def case_whole():
    return str(asyncio.run(service().get_chat_message_content(history(), settings())))

def case_streamed():
    async def stream():
        answer = service().get_streaming_chat_message_content(history(), settings())
        return [str(piece) async for piece in answer]
    pieces = asyncio.run(stream())
    return {'pieces': len(pieces), 'text': ''.join(pieces)}

def case_structured():
    answer = asyncio.run(service().get_chat_message_content(
        history(), settings(max_tokens=80, response_format=City)))
    return City.model_validate_json(str(answer)).model_dump()

def case_call():
    kernel = Kernel()
    kernel.add_plugin(Weather(), 'weather')
    required = FunctionChoiceBehavior.Required(auto_invoke=False)
    asked = settings(max_tokens=80, function_choice_behavior=required)
    answer = asyncio.run(service().get_chat_message_content(history(), asked, kernel=kernel))
    return [item.function_name for item in answer.items if isinstance(item, FunctionCallContent)]
'''


def test_a_chat_and_its_stream(told):
    assert told['whole'] and told['streamed']['text'] == told['whole'] and told['streamed']['pieces'] > 1


def test_a_structured_answer(told):
    assert set(told['structured']) == {'name', 'population'}


def test_a_demanded_call(told):
    assert told['call'][0] == 'get_weather'
