"""LiteLLM's proxy, unchanged, in front of the worker: what an OpenAI client gets through it."""
import subprocess
import sys
import urllib.request

import pytest

from client_program import environment_of, run
from ports import free_port
from worker_process import PATIENCE, wait_until

KEY = 'sk-0f1e2d3c4b5a69788796a5b4c3d2e1f0'  # the proxy starts with none that is weak
PROGRAM = '''
from openai import OpenAI

ASK = [{'role': 'user', 'content': 'Once upon a time'}]
TOOLS = [{'type': 'function', 'function': {'name': 'get_weather', 'parameters': {
    'type': 'object', 'properties': {'city': {'type': 'string'}}, 'required': ['city']}}}]

def client():
    return OpenAI(base_url=os.environ['PROXY'], api_key=os.environ['LITELLM_MASTER_KEY'], max_retries=0)

def complete(**more):
    return client().chat.completions.create(model='front', messages=ASK, temperature=0,
                                            **{'max_tokens': 16, **more})

def case_whole():
    return complete().choices[0].message.content

def case_streamed():
    chunks = [c for c in complete(stream=True) if c.choices]
    return {'pieces': len(chunks), 'text': ''.join(c.choices[0].delta.content or '' for c in chunks)}

def case_call():
    named = {'type': 'function', 'function': {'name': 'get_weather'}}
    return [c.function.name for c in complete(tools=TOOLS, tool_choice=named, max_tokens=80)
            .choices[0].message.tool_calls]

def case_text():
    answer = client().completions.create(model='front', prompt='Once upon', max_tokens=8, temperature=0)
    return answer.choices[0].text

def case_models():
    return [m.id for m in client().models.list()]
'''


@pytest.fixture(scope='module')
def told(demo, packages_of, tmp_path_factory):
    folder, packages, port = tmp_path_factory.mktemp('proxy'), packages_of('litellm-proxy'), free_port()
    environment = {**environment_of(demo, folder, packages), 'LITELLM_MASTER_KEY': KEY}
    (folder / 'config.yaml').write_text(f"""
model_list:
  - model_name: front
    litellm_params:
      model: openai/{environment['MODEL']}
      api_base: {environment['BASE_URL']}
      api_key: none
""")
    command = [sys.executable, '-B', str(packages / 'bin' / 'litellm'), '--config', 'config.yaml',
               '--port', str(port), '--host', '127.0.0.1']
    with open(folder / 'proxy.log', 'wb') as log:
        proxy = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(f'http://127.0.0.1:{port}/health/liveliness', proxy, folder / 'proxy.log')
        there = {'PROXY': f'http://127.0.0.1:{port}/v1', 'LITELLM_MASTER_KEY': KEY}
        program = f'import os\nos.environ.update({there!r})\n{PROGRAM}'
        yield run(demo, program, folder, packages)
    finally:
        proxy.terminate()
        proxy.wait(timeout=PATIENCE)


def wait_for(url, proxy, log) -> None:
    def answers() -> bool:
        assert proxy.poll() is None, log.read_text()[-4000:]
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False
    wait_until(answers, 8 * PATIENCE, 'the proxy answers', 0.5)


def test_a_chat_and_its_stream(told):
    assert told['whole'] and told['streamed']['text'] == told['whole'] and told['streamed']['pieces'] > 1


def test_a_demanded_call(told):
    assert told['call'][0] == 'get_weather'


def test_a_text(told):
    assert told['text']


def test_its_models(told):
    assert told['models'] == ['front']
