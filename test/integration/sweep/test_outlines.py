"""The `outlines` package, unchanged, with from_vllm: a grammar in Lark's form, a pattern, a type and a
choice."""
import re

CLIENT = 'outlines'
PROGRAM = '''
import os
from typing import Literal
import openai, outlines
from outlines.types import CFG, Regex
from pydantic import BaseModel, Field

LARK = """
start: sum
sum: product | sum "+" product
product: NUMBER | product "*" NUMBER
NUMBER: /[0-9]{1,2}/
"""

class City(BaseModel):
    """A city."""
    name: str = Field(max_length=12)
    population: int = Field(ge=0, le=99)

def model():
    client = openai.OpenAI(base_url=os.environ['BASE_URL'], api_key='none', max_retries=0)
    return outlines.from_vllm(client, os.environ['MODEL'])

def case_cfg():
    return model()('A sum:', CFG(LARK), max_tokens=24, temperature=0)

def case_cfg_streamed():
    return ''.join(model().stream('A sum:', CFG(LARK), max_tokens=24, temperature=0))

def case_regex():
    return model()('A word:', Regex('[ab]{3}[0-9]'), max_tokens=24)

def case_schema():
    return City.model_validate_json(model()('A city:', City, max_tokens=80)).model_dump()

def case_choice():
    return model()('Is it sunny?', Literal['yes', 'no'], max_tokens=8)
'''


def test_a_grammar_and_its_stream(told):
    # What max_tokens cuts is the beginning of a sum.
    assert re.fullmatch(r'[0-9]{1,2}([+*][0-9]{1,2})*[+*]?', told['cfg'])
    assert told['cfg_streamed'] == told['cfg']


def test_a_pattern(told):
    assert re.fullmatch('[ab]{3}[0-9]', told['regex'])


def test_a_type(told):
    assert set(told['schema']) == {'name', 'population'}


def test_a_choice(told):
    assert told['choice'] in ('yes', 'no')
