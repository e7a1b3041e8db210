"""The packages `ollama` and `langchain-ollama`, unchanged: chats, streams, prompts, tools, structured output,
what is served, errors, embeddings."""
import pytest

from client_program import needs, run
from worker_process import Worker

pytestmark = [needs('ollama'), needs('langchain_ollama')]

# A small model calls no tool by itself: the transport, which both clients let a program choose, adds the
# field by which this worker makes it.
SHARED = '''
import json, os
import httpx, ollama

MODEL = os.environ['MODEL']
ASK = [{'role': 'user', 'content': 'What is the weather in Paris?'}]
GREEDY = {'temperature': 0, 'num_predict': 8}
SCHEMA = {'type': 'object', 'required': ['name', 'size'], 'additionalProperties': False,
          'properties': {'name': {'type': 'string', 'maxLength': 12},
                         'size': {'type': 'integer', 'minimum': 0, 'maximum': 99}}}

class Forcing(httpx.HTTPTransport):
    def handle_request(self, request):
        body = json.loads(request.read() or b'{}')
        if not body.get('tools') or body['messages'][-1]['role'] == 'tool':
            return super().handle_request(request)
        content = json.dumps({**body, 'tool_choice': 'required', 'parallel_tool_calls': False}).encode()
        headers = {**request.headers, 'content-length': str(len(content))}
        return super().handle_request(httpx.Request(request.method, request.url, headers=headers,
                                                    content=content, extensions=request.extensions))

def client(**more):
    return ollama.Client(os.environ['URL'], **more)
'''
OLLAMA = SHARED + '''
import asyncio

def about(answer):
    return {'text': answer.message.content, 'done': answer.done, 'reason': answer.done_reason,
            'model': answer.model, 'counts': [answer.prompt_eval_count, answer.eval_count],
            'times': [answer.total_duration, answer.prompt_eval_duration, answer.eval_duration]}

def chat(**more):
    return client().chat(MODEL, ASK, **{'options': GREEDY, **more})

def case_whole():
    return about(chat())

def case_tagged():
    return about(client().chat(MODEL + ':latest', ASK, options=GREEDY))

def case_streamed():
    parts = list(chat(stream=True))
    return {**about(parts[-1]), 'text': ''.join(p.message.content for p in parts), 'pieces': len(parts),
            'done': [p.done for p in parts]}

def case_async():
    async def ask():
        parts = await ollama.AsyncClient(os.environ['URL']).chat(MODEL, ASK, options=GREEDY, stream=True)
        return [part.message.content async for part in parts]
    return ''.join(asyncio.run(ask()))

def case_logprobs():
    return [(one.token, len(one.top_logprobs)) for one in chat(logprobs=True, top_logprobs=2).logprobs]

def case_generate():
    whole = client().generate(MODEL, 'Count to three.', system='Be brief.', options=GREEDY)
    parts = client().generate(MODEL, 'Count to three.', system='Be brief.', options=GREEDY, stream=True)
    return {'text': whole.response, 'streamed': ''.join(part.response for part in parts),
            'reason': whole.done_reason}

def case_raw():
    return client().generate(MODEL, 'The capital of France is', raw=True, options=GREEDY).response

def case_loaded():
    answers = client().chat(MODEL, []), client().generate(MODEL, keep_alive=0)
    return [(answer.done, answer.done_reason) for answer in answers]

def case_schema():
    options = {'temperature': 0, 'num_predict': 80}
    return [json.loads(chat(format=SCHEMA, options=options).message.content),
            json.loads(client().generate(MODEL, 'Paris?', format=SCHEMA, options=options).response)]

def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    return 'sunny in ' + city

def case_tools():
    forced, told = client(transport=Forcing()), []
    for stream in (False, True):
        messages = [*ASK]
        answer = forced.chat(MODEL, messages, tools=[get_weather], options={'temperature': 0}, stream=stream)
        parts = list(answer) if stream else [answer]
        messages += [part.message for part in parts if part.message.tool_calls]
        (call,) = messages[-1].tool_calls
        messages.append({'role': 'tool', 'tool_name': call.function.name,
                         'content': get_weather(**call.function.arguments)})
        last = forced.chat(MODEL, messages, tools=[get_weather], options=GREEDY)
        told.append({'name': call.function.name, 'arguments': dict(call.function.arguments),
                     'answer': last.message.content, 'calls': len(last.message.tool_calls or [])})
    return told

def case_served():
    (listed,), (running,) = client().list().models, client().ps().models
    shown = client().show(MODEL)
    return {'listed': listed.model, 'size': int(listed.size), 'details': listed.details.model_dump(),
            'running': running.name, 'context': running.context_length, 'template': shown.template,
            'can': shown.capabilities, 'info': dict(shown.modelinfo)}

def error_of(call):
    try:
        call()
    except ollama.ResponseError as why:
        return [why.status_code, why.error]

def case_errors():
    return {'model': error_of(lambda: client().chat('nothing', ASK)),
            'option': error_of(lambda: client().chat(MODEL, ASK, options={'mirostat': 2})),
            'stream': error_of(lambda: list(client().chat(MODEL, ASK, options={'top_k': -5}, stream=True))),
            'image': error_of(lambda: client().chat(MODEL, [{**ASK[0], 'images': [b'x']}])),
            'long': error_of(lambda: client().generate(MODEL, 'word ' * 5000)),
            'embed': error_of(lambda: client().embed(MODEL, 'x')),
            'pull': error_of(lambda: client().pull('nothing'))}
'''
LANGCHAIN = SHARED + '''
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaLLM

TALK = [SystemMessage('Be brief.'), HumanMessage('What is the weather in Paris?')]

@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return 'sunny in ' + city

def model(**more):
    return ChatOllama(model=MODEL, base_url=os.environ['URL'], validate_model_on_init=True,
                      **{'temperature': 0, 'num_predict': 8, **more})

def case_whole():
    answer = model().invoke(TALK)
    return {'text': answer.content, 'usage': answer.usage_metadata,
            'reason': answer.response_metadata['done_reason']}

def case_streamed():
    parts = list(model().stream(TALK))
    return {'text': ''.join(part.content for part in parts), 'pieces': len(parts)}

def case_tools():
    forced = model(num_predict=80, sync_client_kwargs={'transport': Forcing()}).bind_tools([get_weather])
    asked = forced.invoke(TALK)
    (call,) = asked.tool_calls
    result = ToolMessage(get_weather.invoke(call['args']), tool_call_id=call['id'])
    answer = forced.invoke([*TALK, asked, result])
    return {'name': call['name'], 'arguments': call['args'], 'text': answer.content,
            'calls': len(answer.tool_calls)}

def case_structured():
    return model(num_predict=80).with_structured_output({**SCHEMA, 'title': 'City'}).invoke(TALK)

def case_prompt():
    return OllamaLLM(model=MODEL, base_url=os.environ['URL'], temperature=0, num_predict=8).invoke('Paris is')
'''
EMBED = SHARED + '''
from langchain_ollama import OllamaEmbeddings

def case_embed():
    one, two = client().embed(MODEL, 'alpha'), client().embed(MODEL, ['alpha', 'beta'])
    return {'one': one.embeddings, 'two': two.embeddings, 'tokens': two.prompt_eval_count}

def case_older():
    return client().embeddings(MODEL, 'alpha').embedding

def case_long():
    return len(client().embed(MODEL, 'alpha ' * 400).embeddings)

def case_refused():
    try:
        client().embed(MODEL, 'alpha ' * 400, truncate=False)
    except ollama.ResponseError as why:
        return why.status_code

def case_nothing():
    return client().embed(MODEL, '').embeddings

def case_can():
    return client().show(MODEL).capabilities

def case_langchain():
    model = OllamaEmbeddings(model=MODEL, base_url=os.environ['URL'])
    return [model.embed_query('alpha'), *model.embed_documents(['alpha', 'beta'])]
'''


@pytest.fixture(scope='module')
def told(calling_demo, tmp_path_factory):
    return run(calling_demo, OLLAMA, tmp_path_factory.mktemp('ollama'))


@pytest.fixture(scope='module')
def chained(calling_demo, tmp_path_factory):
    return run(calling_demo, LANGCHAIN, tmp_path_factory.mktemp('langchain_ollama'))


@pytest.fixture(scope='module')
def embedded(models, tmp_path_factory):
    model = models('small', '--family', 'bert', '--context', '256', '--pooling', '1')
    with Worker('--model', model) as worker:
        worker.wait_event('ready')
        yield run(worker, EMBED, tmp_path_factory.mktemp('embed'))


def test_a_chat_and_its_stream(told):
    whole, streamed = told['whole'], told['streamed']
    assert whole['text'] and streamed['text'] == whole['text'] == told['async'] and streamed['pieces'] > 2
    assert streamed['done'] == [False] * (streamed['pieces'] - 1) + [True]
    for answer in (whole, streamed):
        assert answer['reason'] in ('stop', 'length') and min(answer['times']) > 0
        assert answer['counts'][0] > 8 and 0 < answer['counts'][1] <= 8
    assert told['tagged']['text'] == whole['text'] and told['tagged']['model'] == whole['model']


def test_log_probabilities_are_told(told):
    assert told['logprobs'] and all(token and most == 2 for token, most in told['logprobs'])


def test_a_prompt(told):
    answer = told['generate']
    assert answer['text'] and answer['streamed'] == answer['text'] and answer['reason'] in ('stop', 'length')
    assert told['raw'] and told['loaded'] == [[True, 'load']] * 2


def test_structured_output(told, chained):
    for city in (*told['schema'], chained['structured']):
        assert set(city) == {'name', 'size'} and len(city['name']) <= 12 and 0 <= city['size'] <= 99


def test_tools_are_called_and_their_results_answered(told, chained):
    for turn in told['tools']:
        assert turn['name'] == 'get_weather' and set(turn['arguments']) == {'city'}
        assert turn['answer'] or turn['calls']
    turn = chained['tools']
    assert turn['name'] == 'get_weather' and set(turn['arguments']) == {'city'}
    assert turn['text'] or turn['calls']


def test_what_is_served(told, calling_demo):
    name = calling_demo.get('/v1/models').json()['data'][0]['id']
    served = told['served']
    assert served['listed'] == served['running'] == name + ':latest' and served['size'] > 10 ** 6
    assert served['details']['format'] == 'gguf' and served['details']['family'] == 'llama'
    assert served['details']['parameter_size'] == '134.52M'
    assert served['context'] == 4096 and 'message' in served['template']
    assert served['can'] == ['completion', 'tools']
    assert served['info']['general.architecture'] == 'llama' and served['info']['llama.context_length'] > 0


def test_errors_have_status_and_text(told):
    errors = told['errors']
    assert errors['model'][0] == 404 and 'not found' in errors['model'][1]
    for case, named in {'option': 'options.mirostat', 'stream': 'options.top_k', 'embed': 'embeddings',
                        'image': 'messages[0].images', 'long': 'context length'}.items():
        assert errors[case][0] == 400 and named in errors[case][1], errors[case]
    assert errors['pull'][0] == 404


def test_langchain_chats_and_streams(chained):
    whole = chained['whole']
    streamed = chained['streamed']
    assert whole['text'] and streamed['text'] == whole['text'] and streamed['pieces'] > 2
    assert 0 < whole['usage']['output_tokens'] <= 8 and whole['reason'] in ('stop', 'length')
    assert chained['prompt']


def test_embeddings(embedded):
    (one,), (first, second) = embedded['embed']['one'], embedded['embed']['two']
    assert one == first != second and abs(sum(x * x for x in one) - 1) < 1e-5
    assert embedded['embed']['tokens'] > 0 and embedded['can'] == ['embedding']
    assert embedded['langchain'] == [one, first, second]
    assert len(embedded['older']) == len(one)
    assert embedded['long'] == 1 and embedded['refused'] == 400 and embedded['nothing'] == []
