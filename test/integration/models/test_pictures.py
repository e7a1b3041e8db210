"""Messages with pictures: what is taken, in every API, that the bytes of an answer do
not depend on what else runs or is kept, and what is refused with which words."""
import json
import os
import signal
from pathlib import Path

import pytest

from gguf_edit import with_control_tokens
from picture_files import data_url, image_part, png, text_part
from worker_process import Worker, run_to_exit, wait_until

MEDIA = Path(__file__).resolve().parents[2] / 'data' / 'media'
# SmolVLM's: contents are lists, and a string is not shown.
LISTS = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + ':' }}"
         "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
         "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}{{ '<|im_end|>\\n' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}")
STRINGS = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + ':' + message['content'] }}"
           "{{ '<|im_end|>\\n' }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}")
TILE = 4  # rows of a view of the projector


def start(models, folder, *more, template=LISTS, projector='idefics3', width='96'):
    path = folder / 'template.jinja'
    path.write_text(template)
    model = models('sees', '--embedding', width, '--heads', '4', '--kv-heads', '2', '--context', '1024',
                   '--picture-tokens')
    return Worker('--model', model, '--mmproj', MEDIA / f'{projector}.gguf', '--chat-template', path, *more)


@pytest.fixture(scope='module')
def worker(models, tmp_path_factory):
    with start(models, tmp_path_factory.mktemp('pictures'), '--slots', '3') as running:
        running.wait_event('ready')
        yield running


def ask(worker, *parts, messages=None, path='/v1/chat/completions', **more):
    body = {'messages': messages or [{'role': 'user', 'content': list(parts)}], 'max_tokens': 8, 'seed': 3,
            'ignore_eos': True, 'temperature': 0.7, **more}
    return worker.call('POST', path, body)


def answer(response):
    assert response.status == 200, response.body
    return json.loads(response.body)


def text_of(response):
    return answer(response)['choices'][0]['message']['content']


def prompt_tokens(response):
    return answer(response)['usage']['prompt_tokens']


def cached(response):
    return answer(response)['usage']['prompt_tokens_details']['cached_tokens']


def test_a_picture_is_seen_and_counted(worker):
    one = ask(worker, text_part('What is it?'), image_part(png(40, 30)))
    other = ask(worker, text_part('What is it?'), image_part(png(40, 30, seed=2)))
    assert text_of(one) != text_of(other)
    # 40 x 30 is two tiles by two and the whole, each with two marks before it; line ends, one mark behind.
    bare = prompt_tokens(ask(worker, text_part('What is it?')))
    assert prompt_tokens(one) - bare == 5 * (TILE + 2) + 2 + 1 + 1
    low = ask(worker, text_part('What is it?'), image_part(png(40, 30), 'low'))
    assert prompt_tokens(low) - bare == TILE + 3
    event = worker.wait_event('projector')
    assert (event['projector'], event['kinds']) == ('idefics3', 'image')
    meta = worker.get('/v1/models').json()['data'][0]['meta']
    assert (meta['projector'], meta['input_modalities']) == ('idefics3', ['text', 'image'])
    assert worker.get('/props').json()['modalities'] == {'vision': True, 'audio': False}


def test_the_same_bytes_cold_kept_beside_text_and_alone(worker, models, tmp_path):
    pictures = [png(30 + n, 20 + 2 * n, seed=n) for n in range(3)]
    asked = [[text_part('First'), image_part(pictures[n]), text_part('then'),
              image_part(pictures[(n + 1) % 3]), text_part('and now? ' * 30)] for n in range(3)]
    with start(models, tmp_path, '--no-prefix-cache', '--media-cache-mb', '0') as cold:
        cold.wait_event('ready')
        expected = [text_of(ask(cold, *parts)) for parts in asked]
    connections = [worker.connect() for _ in range(9)]
    for n, connection in enumerate(connections):
        body = {'messages': [{'role': 'user', 'content': asked[n % 3]}], 'max_tokens': 8, 'seed': 3,
                'ignore_eos': True, 'temperature': 0.7}
        if n >= 6:
            body['messages'] = [{'role': 'user', 'content': 'only text ' * 20}]
        connection.request('POST', '/v1/chat/completions', json.dumps(body).encode())
    together = [json.loads(c.read_response().body)['choices'][0]['message']['content'] for c in connections]
    assert together[:6] == expected * 2
    kept = [ask(worker, *parts) for parts in asked]
    assert [text_of(k) for k in kept] == expected
    assert all(cached(k) > 256 for k in kept)


def test_pages_behind_a_picture_are_of_that_picture_alone(worker):
    tail = text_part('the same text ' * 40)
    first, changed = png(33, 33, seed=5), png(33, 33, seed=5, touched=40)
    before = text_part('Look ' * 30)
    ask(worker, before, image_part(first), tail)
    assert cached(ask(worker, before, image_part(first), tail)) > 256
    # What stands before the picture is shared, and no more.
    lead = prompt_tokens(ask(worker, before))
    assert 100 <= cached(ask(worker, before, image_part(changed), tail)) <= lead


def test_what_is_encoded_and_what_is_kept_is_counted(worker):
    def counted():
        names = ('encoded_total', 'store_hits_total', 'encode_seconds_total', 'stored')
        return [worker.metric(f'worker_media_{name}') for name in names]

    picture, apart = image_part(png(21, 37, seed=11)), text_part('another text before it ' * 20)
    before = counted()
    ask(worker, picture, text_part('?'))
    once = counted()
    assert (once[0] - before[0], once[1] - before[1]) == (1, 0)
    assert once[2] > before[2] and once[3] >= 1
    ask(worker, apart, picture, text_part('?'))
    twice = counted()
    assert (twice[0] - once[0], twice[1] - once[1]) == (0, 1)


def test_a_placeholder_in_a_text_stays_text(worker):
    spelled = 'Say <image> and <fake_token_around_image><global-img><image> to me'
    alone = ask(worker, messages=[{'role': role, 'content': spelled} for role in ('system', 'user')])
    assert alone.status == 200, alone.body
    beside = ask(worker, text_part(spelled), image_part(png(20, 20)))
    plain = ask(worker, text_part(spelled))
    # One tile more than alone: the text's places are none.
    assert prompt_tokens(beside) - prompt_tokens(plain) == 5 * (TILE + 2) + 4


def test_the_other_apis(worker):
    file = png(40, 30)
    expected = prompt_tokens(ask(worker, text_part('What?'), image_part(file)))
    responses = worker.call('POST', '/v1/responses', {
        'input': [{'role': 'user', 'content': [{'type': 'input_text', 'text': 'What?'},
                                               {'type': 'input_image', 'image_url': data_url(file)}]}],
        'max_output_tokens': 4})
    assert answer(responses)['usage']['input_tokens'] == expected
    source = {'type': 'base64', 'media_type': 'image/png', 'data': data_url(file).split(',')[1]}
    body = {'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'What?'},
                                                      {'type': 'image', 'source': source}]}], 'max_tokens': 4}
    messages = worker.call('POST', '/v1/messages', body)
    usage = answer(messages)['usage']
    assert usage['input_tokens'] + usage.get('cache_read_input_tokens', 0) == expected
    counted = worker.call('POST', '/v1/messages/count_tokens', {'messages': body['messages']})
    assert answer(counted)['input_tokens'] == expected


def test_streams_choices_and_schemas(worker):
    parts = [text_part('Which?'), image_part(png(25, 25))]
    streamed = ask(worker, *parts, stream=True)
    assert streamed.status == 200 and b'[DONE]' in streamed.body
    two = answer(ask(worker, *parts, n=2))
    assert len(two['choices']) == 2
    schema = {'type': 'object', 'properties': {'a': {'type': 'boolean'}}, 'required': ['a'],
              'additionalProperties': False}
    shaped = ask(worker, *parts, max_tokens=40, ignore_eos=False, response_format={
        'type': 'json_schema', 'json_schema': {'name': 's', 'strict': True, 'schema': schema}})
    assert isinstance(json.loads(text_of(shaped))['a'], bool)
    called = ask(worker, *parts, max_tokens=60, ignore_eos=False, repetition_penalty=1.3, dry_multiplier=0.8,
                 logprobs=True, top_logprobs=2)
    assert called.status == 200, called.body


BAD = {
    'another scheme': ('http://127.0.0.1/x.png', 'fetches no others'),
    'a file': ('file:///etc/passwd', 'fetches no others'),
    'a path': ('/etc/passwd', 'fetches no others'),
    'no base64': ('data:image/png,abc', 'not in base64'),
    'no data': ('data:image/png;base64', 'without data'),
    'spaces': ('data:image/png;base64,AA AA', 'no base64'),
    'another alphabet': ('data:image/png;base64,AA-_', 'no base64'),
    'no padding': ('data:image/png;base64,AAA', 'no base64'),
    'nothing': ('data:image/png;base64,', 'no bytes'),
    'no picture': ('data:image/png;base64,AAAA', 'JPEG, PNG and WebP'),
    'another type': (data_url(png(4, 4), 'image/jpeg'), "but is a PNG file"),
    'a bomb': (data_url(png(4, 4, declared=(30000, 30000))), 'the limit is 50000000'),
    'a side of nothing': (data_url(png(4, 4, declared=(0, 4))), 'at least 1'),
    'a thread': (data_url(png(4, 4, declared=(20000, 4))), '200 times'),
    'a lie': (data_url(png(4, 4, declared=(400, 400))), 'cannot be decoded'),
    'cut': (data_url(png(64, 64)[:-40]), 'cannot be decoded'),
}


@pytest.mark.parametrize('url, why', BAD.values(), ids=BAD)
def test_bad_pictures_are_refused_by_name(worker, url, why):
    refused = ask(worker, text_part('?'), {'type': 'image_url', 'image_url': {'url': url}})
    assert refused.status == 400, refused.body
    assert why in refused.error['message']
    assert refused.error['param'] == 'messages[0].content[1].image_url.url'


def test_other_things_that_are_refused(worker):
    one = image_part(png(8, 8))
    for changes, param in (({'prompt_logprobs': 1}, 'prompt_logprobs'),
                           ({'return_token_ids': True}, 'return_token_ids')):
        refused = ask(worker, text_part('?'), one, **changes)
        assert (refused.status, refused.error['param']) == (400, param), refused.body
    many = ask(worker, *[image_part(png(8, 8))] * 17)
    assert many.status == 400 and '16' in many.error['message']
    sound = ask(worker, {'type': 'input_audio', 'input_audio': {'data': '', 'format': 'wav'}})
    assert sound.status == 400 and 'sound' in sound.error['message']
    early = ask(worker, messages=[{'role': 'assistant', 'content': [one]}, {'role': 'user', 'content': '?'}])
    assert early.status == 400, early.body
    pictures = [image_part(png(40 + n, 30)) for n in range(15)]
    long = ask(worker, text_part('?'), *pictures, text_part('word ' * 900))
    assert long.status == 400 and long.error['code'] == 'context_length_exceeded', long.body


def test_a_worker_without_a_projector_has_no_decoder_and_refuses(shared_tiny):
    refused = ask(shared_tiny, text_part('?'), image_part(png(4, 4)))
    assert refused.status == 400 and refused.error['param'] == 'messages[0].content[1].type'
    children = Path(f'/proc/{shared_tiny.process.pid}/task/{shared_tiny.process.pid}/children').read_text()
    assert not children.strip()


def test_the_decoder_may_be_killed(models, tmp_path):
    with start(models, tmp_path) as running:
        running.wait_event('ready')
        children = Path(f'/proc/{running.process.pid}/task/{running.process.pid}/children')
        decoder = int(children.read_text().split()[0])
        expected = text_of(ask(running, text_part('?'), image_part(png(20, 20))))
        os.kill(decoder, signal.SIGKILL)
        assert text_of(ask(running, text_part('?'), image_part(png(20, 20)))) == expected
    wait_until(lambda: not Path(f'/proc/{decoder}').exists(), 10, 'the decoder to end')


@pytest.mark.parametrize('template', [LISTS, STRINGS], ids=['lists', 'strings'])
def test_rows_that_see_each_other_and_templates_of_both_kinds(models, tmp_path, template):
    placeholders = template.replace('<image>', '<start_of_image>')
    with start(models, tmp_path, '--slots', '2', template=placeholders, projector='gemma3',
               width='32') as running:
        running.wait_event('ready')
        parts = [text_part('One '), image_part(png(20, 30)), text_part(' more text ' * 60)]
        first, again = ask(running, *parts), ask(running, *parts)
        assert text_of(first) == text_of(again)
        assert cached(first) == 0 and cached(again) > 256
        bare = prompt_tokens(ask(running, *[p for p in parts if p['type'] == 'text']))
        assert prompt_tokens(first) - bare in range(TILE + 2, TILE + 8)


def test_projectors_that_do_not_fit_are_refused_at_the_start(models, tmp_path, tiny_model):
    code, narrow = run_to_exit('--model', tiny_model, '--mmproj', MEDIA / 'idefics3.gguf')
    assert code == 1 and "the model's width is 64" in narrow.events('error')[0]['message']
    code, model = run_to_exit('--model', tiny_model, '--mmproj', tiny_model)
    assert code == 1 and 'is no projector' in model.events('error')[0]['message']
    wide = models('wide', '--embedding', '96', '--heads', '4', '--kv-heads', '2')
    code, wordless = run_to_exit('--model', wide, '--mmproj', MEDIA / 'idefics3.gguf')
    assert code == 1 and "no token '<image>'" in wordless.events('error')[0]['message']


# Qwen's: contents are lists or strings, pictures stand between two marks.
QWEN = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
        "{% elif part['type'] == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% endif %}"
        "{% endfor %}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
OF_QWEN = {'qwen3vl': 'qwen3', 'qwen2vl': 'qwen25', 'qwen35': 'qwen35'}
MARKS = [b'<|vision_start|>', b'<|image_pad|>', b'<|vision_end|>']


def start_qwen(models, folder, family, *more):
    path = folder / 'qwen.jinja'
    path.write_text(QWEN)
    if family == 'qwen35':  # two of its three layers are recurrent
        model = folder / 'qwen35.gguf'
        model.write_bytes(with_control_tokens((MEDIA.parent / 'families' / 'qwen35.gguf').read_bytes(), MARKS))
    else:
        model = models(family, '--family', family, '--embedding', '32', '--heads', '2', '--kv-heads', '1',
                       '--layers', '3', '--context', '1024', '--picture-tokens')
    return Worker('--model', model, '--mmproj', MEDIA / f'{OF_QWEN[family]}.gguf', '--chat-template', path, *more)


@pytest.mark.parametrize('family', OF_QWEN)
def test_rows_in_lines_and_columns(models, tmp_path, family):
    """The same bytes cold, kept, beside others and with drafts; as many rows as the picture's sides give."""
    repeated = text_part('one two three four ' * 25)
    asked = [[text_part('First'), image_part(png(40, 30, seed=n)), text_part('then'),
              image_part(png(16, 70, seed=n + 3)), repeated] for n in range(3)]
    with start_qwen(models, tmp_path, family, '--no-prefix-cache', '--media-cache-mb', '0', '--speculate',
                    'off') as cold:
        cold.wait_event('ready')
        expected = [text_of(ask(cold, *parts, max_tokens=48)) for parts in asked]
        undrafted = text_of(ask(cold, image_part(png(40, 30)), repeated, max_tokens=40, temperature=0))
        bare = prompt_tokens(ask(cold, *[p for p in asked[0] if p['type'] == 'text']))
        # 40 x 30 is 5 x 4 squares of 8, 16 x 70 is 2 x 9; two marks around each. Three texts alone have two line
        # ends between them.
        assert prompt_tokens(ask(cold, *asked[0])) - bare == 5 * 4 + 2 * 9 + 4 - 2
    assert len(set(expected)) == 3
    with start_qwen(models, tmp_path, family, '--slots', '6', '--speculate', '6', '--prefill-chunk',
                    '64') as worker:
        worker.wait_event('ready')
        connections = [worker.connect() for _ in range(6)]
        for n, connection in enumerate(connections):
            body = {'messages': [{'role': 'user', 'content': asked[n % 3]}], 'max_tokens': 48, 'seed': 3,
                    'ignore_eos': True, 'temperature': 0.7}
            connection.request('POST', '/v1/chat/completions', json.dumps(body).encode())
        together = [json.loads(c.read_response().body)['choices'][0]['message']['content'] for c in connections]
        assert together == expected * 2
        kept = [ask(worker, *parts, max_tokens=48) for parts in asked]
        assert [text_of(k) for k in kept] == expected
        assert all(cached(k) > 256 for k in kept), [(cached(k), prompt_tokens(k)) for k in kept]
        drafted = ask(worker, image_part(png(40, 30)), repeated, max_tokens=40, temperature=0)
        assert text_of(drafted) == undrafted
        assert worker.metric('worker_draft_tokens_total') > 0


# Mistral's: pictures between the brackets of an instruction.
MISTRAL = ("{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST]' }}"
           "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
           "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
           "{% elif part['type'] in ['image', 'image_url'] %}{{ '[IMG]' }}{% endif %}{% endfor %}{% endif %}"
           "{{ '[/INST]' }}{% else %}{{ message['content'] }}{% endif %}{% endfor %}")


@pytest.mark.parametrize('projector', ['pixtral', 'mistral3'])
def test_a_token_stands_behind_each_line(models, tmp_path, projector):
    side, factor = 48, {'pixtral': 6, 'mistral3': 8}[projector]
    path = tmp_path / 'mistral.jinja'
    path.write_text(MISTRAL)
    model = models('mistral', '--embedding', '32', '--heads', '2', '--kv-heads', '1', '--context', '1024',
                   '--picture-tokens')
    options = ('--model', model, '--mmproj', MEDIA / f'{projector}.gguf', '--chat-template', path)
    pictures = [png(40, 30), png(9, 50), png(96, 20), png(5, 5)]
    texts = [text_part('See'), text_part('one two three four ' * 25)]
    with Worker(*options, '--no-prefix-cache', '--media-cache-mb', '0') as cold:
        cold.wait_event('ready')
        bare = prompt_tokens(ask(cold, *texts)) - 1  # without the line end between the texts
        asked = [[texts[0], image_part(picture), texts[1]] for picture in pictures]
        alone = [ask(cold, *parts, max_tokens=24) for parts in asked]
        for response, (width, height) in zip(alone, [(40, 30), (9, 50), (96, 20), (5, 5)]):
            ratio = max(width, height, side) / side
            lines, columns = -(-int(height / ratio) // factor), -(-int(width / ratio) // factor)
            assert prompt_tokens(response) - bare == lines * (columns + 1), (width, height)
        low = ask(cold, texts[0], image_part(pictures[0], 'low'), texts[1], max_tokens=24)
        assert text_of(low) == text_of(alone[0])  # which has fewer tokens than 256
    with Worker(*options, '--slots', '4', '--prefill-chunk', '64') as worker:
        worker.wait_event('ready')
        for _ in range(2):
            again = [ask(worker, *parts, max_tokens=24) for parts in asked]
            assert [text_of(a) for a in again] == [text_of(a) for a in alone]
        assert all(cached(a) > 256 for a in again), [cached(a) for a in again]
        wide = ask(worker, texts[0], image_part(png(48, 30, seed=9)), texts[1], max_tokens=24)
        assert text_of(wide) != text_of(alone[0])


def test_a_long_picture_keeps_to_the_limit_of_rows(models, tmp_path):
    with start_qwen(models, tmp_path, 'qwen3vl', '--image-max-tokens', '256') as worker:
        worker.wait_event('ready')
        bare = prompt_tokens(ask(worker, text_part('?')))
        for size in ((600, 12), (300, 300)):
            seen = ask(worker, text_part('?'), image_part(png(*size)))
            assert 0 < prompt_tokens(seen) - bare - 2 <= 100, size  # the projector's own limit of pixels
        low = ask(worker, text_part('?'), image_part(png(300, 300), 'low'))
        assert 0 < prompt_tokens(low) - bare - 2 <= 100


def test_text_alone_of_such_a_model_needs_no_projector(models):
    model = models('qwen3vl-alone', '--family', 'qwen3vl', '--embedding', '32', '--heads', '2', '--kv-heads', '1',
                   '--layers', '3', '--context', '256', '--picture-tokens')
    with Worker('--model', model) as worker:
        worker.wait_event('ready')
        assert text_of(ask(worker, messages=[{'role': 'user', 'content': 'Hello'}]))


CALL = {'id': 'call_1', 'type': 'function', 'function': {'name': 'look', 'arguments': '{}'}}


@pytest.mark.parametrize('template', [LISTS, STRINGS], ids=['lists', 'strings'])
def test_pictures_of_results_are_seen_in_every_api(models, tmp_path, template):
    file, other = png(40, 30), png(40, 30, seed=7)
    with start(models, tmp_path, template=template) as running:
        running.wait_event('ready')

        def tokens(response):
            usage = answer(response)['usage']
            whole = usage.get('prompt_tokens', usage.get('input_tokens'))
            return whole + usage.get('cache_read_input_tokens', 0)

        def chat(content):
            return ask(running, messages=[
                {'role': 'user', 'content': 'Look.'}, {'role': 'assistant', 'content': None, 'tool_calls': [CALL]},
                {'role': 'tool', 'tool_call_id': 'call_1', 'content': content}])

        def responses(output):
            return running.call('POST', '/v1/responses', {'max_output_tokens': 4, 'input': [
                {'role': 'user', 'content': 'Look.'},
                {'type': 'function_call', 'call_id': 'call_1', 'name': 'look', 'arguments': '{}'},
                {'type': 'function_call_output', 'call_id': 'call_1', 'output': output}]})

        def messages(content):
            return running.call('POST', '/v1/messages', {'max_tokens': 4, 'messages': [
                {'role': 'user', 'content': 'Look.'},
                {'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 'call_1', 'name': 'look', 'input': {}}]},
                {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'call_1',
                                              'content': content}]}]})

        seen = chat([text_part('There:'), image_part(file)])
        assert text_of(seen) == text_of(chat([text_part('There:'), image_part(file)]))
        assert text_of(seen) != text_of(chat([text_part('There:'), image_part(other)]))
        rows = 5 * (TILE + 2) + 4
        assert tokens(seen) - tokens(chat('There:')) >= rows
        block = {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png',
                                             'data': data_url(file).split(',')[1]}}
        assert tokens(messages([{'type': 'text', 'text': 'There:'}, block])) - tokens(messages('There:')) >= rows
        image = {'type': 'input_image', 'image_url': data_url(file)}
        assert tokens(responses([{'type': 'input_text', 'text': 'There:'}, image])) - tokens(
            responses('There:')) >= rows
        bad = chat([image_part(b'no picture')])
        assert bad.status == 400 and bad.error['param'] == 'messages[2].content[0].image_url.url'
