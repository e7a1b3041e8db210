"""The `instructor` package, unchanged, in each of its ways to have a model fill a schema in
but PARALLEL_TOOLS and MD_JSON, which demand nothing of the server: so small a model fails at those."""
import pytest

from client_program import needs, run

pytestmark = needs('instructor')
MODES = ['TOOLS', 'TOOLS_STRICT', 'JSON', 'JSON_SCHEMA', 'RESPONSES_TOOLS']
PROGRAM = f'''
MODES = {MODES!r}
import os
from typing import Literal
import instructor, openai
from pydantic import BaseModel, Field

class Order(BaseModel):
    """An order."""
    size: Literal['small', 'large']
    pieces: int = Field(ge=1, le=9)

def client(mode):
    server = openai.OpenAI(base_url=os.environ['BASE_URL'], api_key='none', max_retries=0)
    return instructor.from_openai(server, mode=getattr(instructor.Mode, mode))

ANSWER = '{{"size": "small", "pieces": 2}}'

def ask(mode):
    # So small a model fills nothing in by itself where nothing demands it; it repeats what it has done.
    turns = [{{'role': 'user', 'content': 'Two small pizzas.'}}, {{'role': 'assistant', 'content': ANSWER}}]
    return {{'model': os.environ['MODEL'], 'temperature': 0, 'max_retries': 0, 'max_tokens': 60,
            'messages': [*(turns if 'JSON' in mode else []), turns[0]]}}

def fill(mode):
    return client(mode).create(response_model=Order, **ask(mode)).model_dump()

for mode in MODES:
    globals()['case_' + mode] = lambda mode=mode: fill(mode)

def case_partial():
    steps = list(client('TOOLS').create_partial(response_model=Order, **ask('TOOLS')))
    return {{'steps': len(steps), 'last': steps[-1].model_dump()}}
'''


@pytest.fixture(scope='module')
def told(calling_demo, tmp_path_factory):
    return run(calling_demo, PROGRAM, tmp_path_factory.mktemp('instructor'))


def check(order):
    assert order['size'] in ('small', 'large') and 1 <= order['pieces'] <= 9


@pytest.mark.parametrize('mode', MODES)
def test_a_schema_is_filled_in(told, mode):
    check(told[mode])


def test_a_schema_is_filled_in_piece_by_piece(told):
    assert told['partial']['steps'] > 1
    check(told['partial']['last'])
