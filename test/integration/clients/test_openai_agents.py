"""The `openai-agents` package, unchanged and with its default model, which speaks the Responses API: an agent
with a function tool against the real demo model under a template of a model that calls."""
import asyncio
from typing import Iterator, List

import pytest

from completion_worker import QWEN
from worker_process import PATIENCE, Worker

openai = pytest.importorskip('openai', reason='the Python package openai is not installed')
agents = pytest.importorskip('agents', reason='the Python package openai-agents is not installed')


@pytest.fixture(scope='module')
def worker(demo_model) -> Iterator[Worker]:
    with Worker('--model', demo_model, '--slots', '2', '--context', '2048', '--response-store-mib', '4',
                '--chat-template', QWEN) as running:
        running.wait_event('ready')
        agents.set_tracing_disabled(True)
        yield running


def run(worker: Worker, stream: bool, **options):
    """What came of a conversation, and what the tool was asked."""
    asked: List[str] = []

    @agents.function_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return 'sunny, 21 degrees'

    async def converse():
        client = openai.AsyncOpenAI(base_url=f'http://127.0.0.1:{worker.port}/v1', api_key='none',
                                    max_retries=0, timeout=PATIENCE * 4)
        name = worker.call('GET', '/v1/models').json()['data'][0]['id']
        agents.set_default_openai_client(client, use_for_tracing=False)
        # A model as small as this does not call by itself; the package asks without the demand afterwards.
        agent = agents.Agent(name='weather', instructions='You are a helpful assistant.', model=name,
                             tools=[get_weather],
                             model_settings=agents.ModelSettings(temperature=0, max_tokens=60,
                                                                 tool_choice='required',
                                                                 parallel_tool_calls=False))
        if not stream:
            return await agents.Runner.run(agent, 'What is the weather in Paris?', max_turns=3, **options)
        result = agents.Runner.run_streamed(agent, 'What is the weather in Paris?', max_turns=3, **options)
        async for _ in result.stream_events():
            pass
        return result
    return asyncio.run(converse()), asked


@pytest.mark.parametrize('stream', [False, True], ids=['whole', 'streamed'])
def test_an_agent_calls_its_tool_and_answers(worker, stream):
    result, asked = run(worker, stream)
    assert len(asked) == 1
    assert isinstance(result.final_output, str) and result.final_output
    kinds = [item.type for item in result.new_items]
    assert kinds == ['tool_call_item', 'tool_call_output_item', 'message_output_item']
    assert [len(r.output) for r in result.raw_responses] == [1, 1]
    assert result.raw_responses[0].usage.output_tokens > 0


def test_a_session_that_the_server_keeps(worker):
    """Each request sends what is new alone, and the id of the response before it."""
    first, _ = run(worker, stream=False, auto_previous_response_id=True)
    assert [item.type for item in first.new_items] == ['tool_call_item', 'tool_call_output_item',
                                                       'message_output_item']
    call, answer = first.raw_responses
    assert answer.usage.input_tokens > call.usage.input_tokens
    second, asked = run(worker, stream=True, previous_response_id=first.last_response_id)
    assert len(asked) == 1 and second.final_output
    assert second.raw_responses[0].usage.input_tokens > answer.usage.input_tokens
