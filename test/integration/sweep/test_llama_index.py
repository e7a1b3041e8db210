"""The `llama-index` packages, unchanged, with OpenAILike: a chat, its stream, a tool that is demanded, a
structured answer, a completion and a query over a list of texts."""
import pytest

CLIENT = 'llama-index'
PROGRAM = '''
import os
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field

ASK = [ChatMessage(role='system', content='Be brief.'),
       ChatMessage(role='user', content='What is the weather in Paris?')]

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

def get_weather(city: str) -> str:
    """The weather in a city."""
    return 'sunny in ' + city

def model(**more):
    return OpenAILike(model=os.environ['MODEL'], api_base=os.environ['BASE_URL'], api_key='none',
                      is_function_calling_model=True, context_window=8192, temperature=0, max_retries=0,
                      **{'max_tokens': 24, 'is_chat_model': True, **more})

def case_whole():
    return model().chat(ASK).message.content

def case_streamed():
    pieces = list(model().stream_chat(ASK))
    return {'pieces': len(pieces), 'text': pieces[-1].message.content}

def case_call():
    llm = model(max_tokens=80)
    tool = FunctionTool.from_defaults(fn=get_weather)
    answer = llm.chat_with_tools([tool], chat_history=ASK, tool_required=True,
                                 allow_parallel_tool_calls=False)
    calls = llm.get_tool_calls_from_response(answer)
    results = [tool.call(**call.tool_kwargs) for call in calls]
    history = [*ASK, answer.message]
    for call, result in zip(calls, results):
        history.append(ChatMessage(role='tool', content=str(result), additional_kwargs={
            'tool_call_id': call.tool_id, 'name': call.tool_name}))
    after = model(max_tokens=8).chat_with_tools([tool], chat_history=history)
    return {'names': [call.tool_name for call in calls], 'results': [str(r) for r in results],
            'after': after.message.content is not None}

def case_structured():
    llm = model(max_tokens=80, should_use_structured_outputs=True)
    return llm.as_structured_llm(City).chat(ASK).raw.model_dump()

def case_completion():
    return model(is_chat_model=False, max_tokens=8).complete('Once upon a time').text
'''


def test_a_chat_and_its_stream(told):
    assert told['whole'] and told['streamed'] == {'pieces': told['streamed']['pieces'], 'text': told['whole']}
    assert told['streamed']['pieces'] > 1


def test_a_call_and_its_result(told):
    assert told['call']['names'][:1] == ['get_weather'] and told['call']['after']
    assert told['call']['results'][0].startswith('sunny in ')


@pytest.mark.parametrize('case', ['structured'])
def test_a_structured_answer(told, case):
    assert set(told[case]) == {'name', 'population'} and 0 <= told[case]['population'] <= 99


def test_a_completion(told):
    assert told['completion']
