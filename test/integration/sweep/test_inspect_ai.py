"""The `inspect-ai` package, unchanged, with its provider openai-api: answers, log probabilities, a tool, a
structured answer, and a small evaluation."""
CLIENT = 'inspect-ai'
PROGRAM = '''
import asyncio, os
os.environ['ORCD_API_KEY'], os.environ['ORCD_BASE_URL'] = 'none', os.environ['BASE_URL']
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, ResponseSchema, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate
from inspect_ai.tool import ToolFunction, tool
from inspect_ai.util import json_schema
from typing import Literal
from pydantic import BaseModel

NAME = 'openai-api/orcd/' + os.environ['MODEL']
ASK = [ChatMessageSystem(content='Be brief.'), ChatMessageUser(content='What is the weather in Paris?')]

class City(BaseModel):
    # The package sends no limits of lengths and numbers, so that a small model would write on.
    name: Literal['Paris', 'Lyon']
    size: Literal['small', 'large']

@tool
def get_weather():
    async def execute(city: str):
        """The weather in a city.

        Args:
            city: its name
        """
        return 'sunny in ' + city
    return execute

def ask(config, **more):
    return asyncio.run(get_model(NAME, memoize=False).generate(
        ASK, config=GenerateConfig(temperature=0, max_retries=0, **config), **more))

def case_whole():
    answer = ask({'max_tokens': 24, 'logprobs': True, 'top_logprobs': 3})
    return {'text': answer.completion, 'tokens': answer.usage.output_tokens,
            'logprobs': len(answer.choices[0].logprobs.content)}

def case_call():
    answer = ask({'max_tokens': 80}, tools=[get_weather()], tool_choice=ToolFunction(name='get_weather'))
    return [[call.function, list(call.arguments)] for call in answer.message.tool_calls]

def case_structured():
    schema = ResponseSchema(name='city', json_schema=json_schema(City), strict=True)
    answer = ask({'max_tokens': 80, 'response_schema': schema})
    return City.model_validate_json(answer.completion).model_dump()

def case_evaluation():
    samples = [Sample(input='Say a word about ' + word, target=' ') for word in ('rain', 'sun', 'snow')]
    task = Task(dataset=samples, solver=generate(), scorer=includes())
    (log,) = eval(task, model=NAME, max_tokens=12, temperature=0, display='none', log_dir='logs')
    return {'status': log.status, 'samples': log.results.completed_samples}
'''


def test_an_answer_with_log_probabilities(told):
    assert told['whole']['text'] and 0 < told['whole']['logprobs'] <= 24


def test_a_demanded_call(told):
    assert told['call'][0] == ['get_weather', ['city']]


def test_a_structured_answer(told):
    assert set(told['structured']) == {'name', 'size'}


def test_an_evaluation(told):
    assert told['evaluation'] == {'status': 'success', 'samples': 3}
