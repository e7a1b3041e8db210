"""The `llm` program, unchanged, with the worker in its extra-openai-models.yaml."""
import pytest

from client_program import needs, run

pytestmark = needs('llm')
PROGRAM = '''
import json, os, sys
from pathlib import Path
os.environ['LLM_USER_PATH'] = os.getcwd()
Path('extra-openai-models.yaml').write_text(json.dumps([{
    'model_id': 'worker', 'model_name': os.environ['MODEL'], 'api_base': os.environ['BASE_URL'],
    'supports_tools': True, 'supports_schema': True}]))
import llm
from click.testing import CliRunner
from llm.cli import cli

OPTIONS = {'temperature': 0, 'max_tokens': 40, 'seed': 1}
ASK = 'What is the weather in Paris?'

def command(*arguments):
    options = [text for name, value in OPTIONS.items() for text in ('-o', name, str(value))]
    run = CliRunner().invoke(cli, ['prompt', '-m', 'worker', '--key', 'none', *options, *arguments, ASK])
    assert run.exit_code == 0, (run.output, run.exception)
    return run.output

def case_streamed():
    return command('-s', 'Be brief.')

def case_whole():
    return command('-s', 'Be brief.', '--no-stream')

def case_continued():
    return command('-c')

SCHEMA = {'type': 'object', 'properties': {'degrees': {'type': 'integer', 'minimum': 0, 'maximum': 40}},
          'required': ['degrees'], 'additionalProperties': False}

def case_schema():
    return json.loads(command('--schema', json.dumps(SCHEMA)))

def case_tools():
    asked = []

    def get_weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return 'sunny'

    model = llm.get_model('worker')
    model.key = 'none'
    response = model.prompt(ASK, tools=[get_weather], **OPTIONS)
    return {'text': response.text(), 'calls': [c.name for c in response.tool_calls()],
            'usage': [response.usage().input, response.usage().output]}
'''


@pytest.fixture(scope='module')
def told(calling_demo, tmp_path_factory):
    return run(calling_demo, PROGRAM, tmp_path_factory.mktemp('llm'))


def test_a_prompt_streamed_and_whole(told):
    assert told['whole'].strip() and told['streamed'] == told['whole']


def test_a_conversation_goes_on(told):
    assert told['continued'].strip()


def test_a_schema_is_held(told):
    assert set(told['schema']) == {'degrees'} and 0 <= told['schema']['degrees'] <= 40


def test_tools_are_taken(told):
    """Whether this small model calls is its own choice: the program has no way to demand it."""
    answer = told['tools']
    assert answer['text'] or answer['calls']
    assert answer['usage'][0] > 100 and 0 < answer['usage'][1] <= 40
